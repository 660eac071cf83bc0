/* SPDX-License-Identifier: GPL-2.0 */
/* Constant-Rate: the state of a flow, its gain a, and the window after an ACK.
 *
 *   W += min(a / W, 1)   per segment acknowledged, in congestion avoidance
 *   a  = c rtt^2         rtt in seconds
 *
 * Integer maths on plain values, no sockets: the unit tests compile it too. a and
 * the credit are in Q20, because with c = 4 and 10 ms a is 0.0004, too small for Q16.
 */
#ifndef _CONSTANT_RATE_H
#define _CONSTANT_RATE_H

#include <linux/types.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "credit.h"

#define CONSTANT_RATE_Q20_SHIFT	20
#define CONSTANT_RATE_Q20_ONE	1048576U

#define CONSTANT_RATE_MAX_C	10000

/* RTTs above 10 s count as 10 s: c rtt^2 is then at most 10^18 in us^2. */
#define CONSTANT_RATE_MAX_RTT_US	10000000

/* An ACK counts for this many segments at most, so that their product with a fits u64.
 * A window of 2^30 bytes has no more segments of 256 bytes.
 */
#define CONSTANT_RATE_MAX_ACKED	0x400000U	/* 2^22 */

/* Per flow; valid only if owner matches, see owner.h. Written under the socket lock.
 * get_info() reads owner and a_pkts without the lock.
 */
struct constant_rate {
	u32	owner;
	u32	a_pkts;		/* a at the last growth, rounded to segments; 0 = none */
	u64	credit_q20;	/* earned in congestion avoidance, not yet spent */
};

/* Returns a = c rtt^2 in Q20, rounded down, or 1 (Reno) if there is no RTT.
 *
 *   c rtt_us^2 2^20 / 10^12 = c rtt_us^2 2^8 / 5^12
 *
 * computed in two divisions, because 10^18 * 2^8 does not fit u64: the first gives
 * units of 2^-12, the second divides the rest and gives the other eight bits. Both
 * divide by a constant, so a 64-bit compiler multiplies. The result is below 2^40.
 *
 * c: 1 .. CONSTANT_RATE_MAX_C. rtt_us: any u32.
 */
static inline u64 constant_rate_a_q20(u32 c, u32 rtt_us)
{
	const u32 five_12 = 244140625;
	u64 rtt = min_t(u64, rtt_us, CONSTANT_RATE_MAX_RTT_US);
	u64 num = c * rtt * rtt;
	u64 whole, rest;

	if (!rtt)
		return CONSTANT_RATE_Q20_ONE;

	whole = div_u64(num, five_12);
	rest = num - whole * five_12;

	return (whole << 8) + div_u64(rest << 8, five_12);
}

/* Returns a in whole segments, rounded to nearest. a_q20: below 2^40 + 2^20. */
static inline u32 constant_rate_a_pkts(u64 a_q20)
{
	return (a_q20 + CONSTANT_RATE_Q20_ONE / 2) >> CONSTANT_RATE_Q20_SHIFT;
}

/* Returns the window after an ACK; see satcc_grow_by_one(). a_q20: at most 2^40, so its
 * product with acked is at most 2^62.
 */
static inline u32 constant_rate_grow(u64 *credit_q20, u32 cwnd, u32 ssthresh,
				     u32 limit, u64 a_q20, u32 acked, u32 counted)
{
	return satcc_grow_by_one(credit_q20, cwnd, ssthresh, limit, a_q20,
				 CONSTANT_RATE_Q20_SHIFT,
				 min(acked, CONSTANT_RATE_MAX_ACKED), counted);
}

#endif /* _CONSTANT_RATE_H */
