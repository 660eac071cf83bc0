/* SPDX-License-Identifier: GPL-2.0 */
/* Window growth in fractions of a segment, with nothing lost to rounding.
 *
 * The window is whole segments; what an ACK earns is not. The caller owns a
 * struct satcc_credit per flow and what is left over waits in it. Slow start and
 * congestion avoidance keep theirs apart, for the units differ: in slow start
 * the fraction is of a segment, in congestion avoidance the credit is what the
 * next segment's price, cwnd, is paid from. All zero is a valid start. A policy
 * whose slow start is Reno's has congestion avoidance's credit alone: a u64, in
 * the unit of its gain.
 *
 * One ACK may acknowledge any number of segments. acked is below 2^30: it counts
 * segments in flight, and a TCP window has at most 2^30 bytes.
 */
#ifndef _SATCC_CREDIT_H
#define _SATCC_CREDIT_H

#include <linux/types.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "rho.h"

struct satcc_credit {
	u64	avoid_q16;	/* congestion avoidance: earned, not yet spent */
	u32	start_q16;	/* slow start: fraction of a segment, below 1 */
};

/* Slow start: *cwnd += gain per segment of acked, up to target. Returns how many
 * of acked were not needed to get there; they belong to congestion avoidance.
 *
 * target: below 2^31. gain_q16: 1 .. 2^31 - 1 in Q16, so the divisor is not 0
 * and the numerator is below 2^48. The product is formed only when acked is too
 * small to reach target, hence below room.
 */
static inline u32 satcc_slow_start(struct satcc_credit *credit, u32 *cwnd,
				   u32 target, u64 gain_q16, u32 acked)
{
	u64 room_q16, need, sum_q16;

	if (*cwnd >= target) {
		credit->start_q16 = 0;
		return acked;
	}

	/* At least one segment less a fraction: above 0. */
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

/* Earn gain for each of acked segments and buy whole ones at price each: returns
 * how many; what does not pay for one more stays in the credit. All of one unit,
 * price above 0, credit + acked * gain below 2^64. Most ACKs do not earn a
 * segment, so the division waits for a comparison.
 */
static inline u64 satcc_earn(u64 *credit, u64 gain, u64 price, u32 acked)
{
	u64 bought;

	*credit += acked * gain;
	if (*credit < price)
		return 0;

	bought = div64_u64(*credit, price);
	*credit -= bought * price;

	return bought;
}

/* Congestion avoidance: returns cwnd + gain * acked / cwnd, at most limit; the
 * remainder of the division stays in the credit.
 *
 * cwnd: 1 .. 2^31 - 1. gain_q16: at most 2^32, so the sum is below 2^62 + 2^47.
 * The quotient can reach 2^46: limited before it is narrowed.
 */
static inline u32 satcc_avoid(struct satcc_credit *credit, u32 cwnd, u32 limit,
			      u64 gain_q16, u32 acked)
{
	u64 price_q16 = (u64)cwnd << SATCC_Q16_SHIFT;
	u64 bought = 0;

	/* Credit saved up at a larger window is worth one segment, not a burst;
	 * tcp_cong_avoid_ai() does the same.
	 */
	if (credit->avoid_q16 >= price_q16) {
		credit->avoid_q16 = 0;
		bought = 1;
	}

	bought += satcc_earn(&credit->avoid_q16, gain_q16, price_q16, acked);

	return min_t(u64, cwnd + bought, limit);
}

/* Returns the window after an ACK of acked segments: slow start below ssthresh,
 * congestion avoidance from there on, in one step when the ACK crosses it.
 *
 * cwnd, limit: 1 .. 2^31 - 1. ssthresh: any. rho_q16: 1 .. 256 in Q16.
 */
static inline u32 satcc_grow(struct satcc_credit *credit, u32 cwnd, u32 ssthresh,
			     u32 limit, u32 rho_q16, u32 acked)
{
	if (cwnd < ssthresh) {
		acked = satcc_slow_start(credit, &cwnd, min(ssthresh, limit),
					 satcc_slow_start_gain_q16(rho_q16),
					 acked);
		if (!acked)
			return cwnd;
	}

	return satcc_avoid(credit, cwnd, limit, satcc_rho2_q16(rho_q16), acked);
}

/* Reno's slow start: *cwnd += acked, up to target. Returns how many of acked were
 * not needed to get there.
 */
static inline u32 satcc_start_by_one(u32 *cwnd, u32 target, u32 acked)
{
	u32 step;

	if (*cwnd >= target)
		return acked;

	step = min(acked, target - *cwnd);
	*cwnd += step;

	return acked - step;
}

/* Congestion avoidance as satcc_avoid(), for policies bounded to one segment per
 * segment acknowledged: with gain <= price, the window grows by at most acked.
 * So credit saved up at a larger window is cut to just short of a segment, where
 * Reno's way, one segment on top, would break the bound.
 *
 * cwnd: 1 .. 2^31 - 1. price: cwnd in the unit of gain and credit. acked * gain:
 * below 2^63, unless gain is price; price: at most 2^63.
 */
static inline u32 satcc_avoid_by(u64 *credit, u32 cwnd, u32 limit, u64 gain,
				 u64 price, u32 acked)
{
	*credit = min(*credit, price - 1);
	if (gain == price)	/* at the bound: what is carried stays so */
		return min_t(u64, (u64)cwnd + acked, limit);

	return min_t(u64, cwnd + satcc_earn(credit, gain, price, acked), limit);
}

#endif /* _SATCC_CREDIT_H */
