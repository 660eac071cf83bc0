/* SPDX-License-Identifier: GPL-2.0 */
/* Hybla's normalised RTT rho, the two gains computed from it, and the window's growth.
 *
 *   rho = max(RTT_min / RTT_0, 1)
 *   slow start:            W += 2^rho - 1   per segment acknowledged
 *   congestion avoidance:  W += rho^2 / W   per segment acknowledged
 *
 * rho = 1 gives +1 and +1/W: Reno.
 *
 * Integer maths on plain values, no sockets: the unit tests compile it too.
 */
#ifndef _HYBLA_RHO_H
#define _HYBLA_RHO_H

#include <linux/types.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "credit.h"

/* Fractions of a segment that a flow has earned. The units differ: in slow start it is a
 * fraction of a segment; in congestion avoidance it pays for the next segment, whose
 * price is cwnd. All zero is a valid start.
 */
struct hybla_credit {
	u64	avoid_q16;	/* congestion avoidance: earned, not yet spent */
	u32	start_q16;	/* slow start: fraction of a segment, below 1 */
};

/* Returns the RTT of the path, from which rho is computed: a smallest RTT of bounded age.
 * own_us: smallest sample since the flow's start or its last timeout, above 0. core_us:
 * smallest recent RTT of the core, see satcc_min_rtt_us(); 0 = none.
 *
 * core_us is above own_us if the path has become longer, or if there has been a queue
 * for the core's whole window of time. The two look alike. So without a timeout the RTT
 * rises by at most a quarter, and a standing queue makes a flow no more aggressive than
 * that. A path that becomes longer by more than 200 ms usually causes a timeout. If it
 * becomes longer by less than that but by more than a quarter, rho falls short.
 */
static inline u32 hybla_path_rtt_us(u32 own_us, u32 core_us)
{
	if (core_us <= own_us)
		return own_us;

	return min_t(u64, core_us, (u64)own_us + own_us / 4);
}

/* A path 256 times as long as the reference (6.4 s at 25 ms). With a larger rho, rho^2
 * would exceed the range that the window arithmetic is proved for.
 */
#define HYBLA_RHO_MAX		256

/* Returns rho in Q16, within [1, rho_max]. min_rtt_us: any u32. rtt0_us: 1 or more.
 * rho_max: 1 .. HYBLA_RHO_MAX. The shifted numerator is below 2^48.
 */
static inline u32 hybla_rho_q16(u32 min_rtt_us, u32 rtt0_us, u32 rho_max)
{
	u64 rho_q16 = div_u64((u64)min_rtt_us << SATCC_Q16_SHIFT, rtt0_us);

	return clamp_t(u64, rho_q16, SATCC_Q16_ONE,
		       (u64)rho_max << SATCC_Q16_SHIFT);
}

/* Returns rho^2 in Q16: at most 2^32, so it does not fit u32. The product is at
 * most 2^24 * 2^24.
 */
static inline u64 hybla_rho2_q16(u32 rho_q16)
{
	return (u64)rho_q16 * rho_q16 >> SATCC_Q16_SHIFT;
}

/* 2^31 segments are more than any window: TCP_INFINITE_SSTHRESH is 2^31 - 1. So larger
 * powers of two are cut to this one.
 */
#define HYBLA_EXP2_MAX_LOG	31

/* Returns 2^x in Q16 for x in Q16, any u32; 2^31 for every x >= 31.
 *
 *   2^x = 2^int(x) * 2^frac(x)
 *
 * with 2^frac from a table at every 1/16, linear in between: exact at integers,
 * relative error at most 2.42e-4 elsewhere. The largest result is 2^47.
 */
static inline u64 hybla_exp2_q16(u32 x_q16)
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

	if (whole >= HYBLA_EXP2_MAX_LOG)
		return (u64)SATCC_Q16_ONE << HYBLA_EXP2_MAX_LOG;

	/* The largest step of the table is 5557, rest is below 2^12: the product fits 25 bits. */
	frac_q16 = table[step] + ((table[step + 1] - table[step]) * rest >> 12);

	return (u64)frac_q16 << whole;	/* below 2^17 * 2^30 */
}

/* Returns 2^rho - 1 in Q16, for rho >= 1: from 1 to 2^31 - 1, never 0. */
static inline u64 hybla_slow_start_gain_q16(u32 rho_q16)
{
	return hybla_exp2_q16(rho_q16) - SATCC_Q16_ONE;
}

/* Slow start: adds gain to *cwnd per acknowledged segment, up to target. Returns how
 * many of acked are left over for congestion avoidance.
 *
 * target: below 2^31. gain_q16: 1 .. 2^31 - 1 in Q16, so the divisor is not 0 and the
 * numerator is below 2^48. acked * gain_q16 is only computed when acked is too small to
 * reach target, so it is below room_q16.
 */
static inline u32 hybla_slow_start(struct hybla_credit *credit, u32 *cwnd,
				   u32 target, u64 gain_q16, u32 acked)
{
	u64 room_q16, need, sum_q16;

	if (*cwnd >= target) {
		credit->start_q16 = 0;
		return acked;
	}

	/* One segment or more, less a fraction below 1: above 0. */
	room_q16 = ((u64)(target - *cwnd) << SATCC_Q16_SHIFT) - credit->start_q16;
	need = div64_u64(room_q16 + gain_q16 - 1, gain_q16);
	if (acked >= need) {
		*cwnd = target;
		credit->start_q16 = 0;
		return acked - need;
	}

	sum_q16 = acked * gain_q16 + credit->start_q16;
	*cwnd += sum_q16 >> SATCC_Q16_SHIFT;
	credit->start_q16 = sum_q16 & (SATCC_Q16_ONE - 1);

	return 0;
}

/* A bound for BPF's verifier; the loop below takes fewer turns. */
#define HYBLA_AVOID_TURNS	32

/* Hybla's congestion avoidance: returns the window after an ACK of acked segments.
 *
 * Hybla adds rho^2 / W per segment, like a reference connection with a window of
 * W / rho. A connection in congestion avoidance has a window of two or more (RFC 5681:
 * ssthresh is never less). At W / rho = 2 Hybla adds rho / 2 = W / 4 per acknowledged
 * segment. With a smaller W this function adds max(W / 4, 1) too, where Hybla has no
 * bound: it would add 288 at W = 2, rho = 24.
 *
 * The loop takes at most 27 turns, from W = 1 at rho = 256.
 */
static inline u32 hybla_avoid_rho(struct hybla_credit *credit, u32 cwnd, u32 limit,
				  u32 rho_q16, u32 acked)
{
	u64 rho2_q16 = hybla_rho2_q16(rho_q16);
	u64 rho2 = (rho2_q16 + SATCC_Q16_ONE - 1) >> SATCC_Q16_SHIFT;
	u32 most, turn;

	for (turn = 0; turn < HYBLA_AVOID_TURNS && acked && cwnd < limit; turn++) {
		most = max(cwnd / 4, 1U);
		if ((u64)most * cwnd >= rho2)
			break;
		cwnd += most;
		acked--;
	}
	if (!acked)
		return min(cwnd, limit);

	return satcc_avoid(&credit->avoid_q16, cwnd, limit, rho2_q16, SATCC_Q16_SHIFT, acked);
}

/* hybla_avoid_rho() with Hybla's slow start below ssthresh. One ACK may do both.
 *
 * cwnd: 1 .. 2^31 - 1; limit: 1 .. 2^30. ssthresh: any. rho_q16: 1 .. 256 in Q16.
 */
static inline u32 hybla_grow_by_rho(struct hybla_credit *credit, u32 cwnd, u32 ssthresh,
				    u32 limit, u32 rho_q16, u32 acked)
{
	if (cwnd < ssthresh) {
		acked = hybla_slow_start(credit, &cwnd, min(ssthresh, limit),
					 hybla_slow_start_gain_q16(rho_q16),
					 acked);
		if (!acked)
			return cwnd;
	}

	return hybla_avoid_rho(credit, cwnd, limit, rho_q16, acked);
}

#endif /* _HYBLA_RHO_H */
