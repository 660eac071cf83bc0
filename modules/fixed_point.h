/* SPDX-License-Identifier: GPL-2.0 */
/* Fixed point for window arithmetic: Q16, where 65536 stands for 1.
 *
 * Integer maths on plain values, no sockets: the unit tests compile it too.
 */
#ifndef _SATCC_FIXED_POINT_H
#define _SATCC_FIXED_POINT_H

#include <linux/types.h>

#define SATCC_Q16_SHIFT		16
#define SATCC_Q16_ONE		65536U

/* 2^31 segments are more than any window: TCP_INFINITE_SSTHRESH is 2^31 - 1. So larger
 * powers of two are cut to this one.
 */
#define SATCC_EXP2_MAX_LOG	31

/* Returns 2^x in Q16 for x in Q16, any u32; 2^31 for every x >= 31.
 *
 *   2^x = 2^int(x) * 2^frac(x)
 *
 * with 2^frac from a table at every 1/16, linear in between: exact at integers,
 * relative error at most 2.42e-4 elsewhere. The largest result is 2^47.
 */
static inline u64 satcc_exp2_q16(u32 x_q16)
{
	/* 65536 * 2^(i/16), rounded to nearest */
	static const u32 table[] = {
		65536, 68438, 71468, 74632, 77936, 81386, 84990, 88752, 92682,
		96785, 101070, 105545, 110218, 115098, 120194, 125515, 131072,
	};
	u32 whole = x_q16 >> SATCC_Q16_SHIFT;
	u32 step = (x_q16 & (SATCC_Q16_ONE - 1)) >> 12;
	u32 rest = x_q16 & 0xfff;
	u32 frac_q16;

	if (whole >= SATCC_EXP2_MAX_LOG)
		return (u64)SATCC_Q16_ONE << SATCC_EXP2_MAX_LOG;

	/* The largest step of the table is 5557, rest is below 2^12: the product fits 25 bits. */
	frac_q16 = table[step] + ((table[step + 1] - table[step]) * rest >> 12);

	return (u64)frac_q16 << whole;	/* below 2^17 * 2^30 */
}

#endif /* _SATCC_FIXED_POINT_H */
