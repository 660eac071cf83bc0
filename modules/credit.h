/* SPDX-License-Identifier: GPL-2.0 */
/* Window growth in fractions of a segment, with nothing lost to rounding.
 *
 * The window is whole segments; what an ACK earns is not. The caller owns a
 * struct satcc_credit per flow and what is left over waits in it. Slow start and
 * congestion avoidance keep theirs apart, for the units differ: in slow start
 * the fraction is of a segment, in congestion avoidance the credit is what the
 * next segment's price, cwnd, is paid from. All zero is a valid start.
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
	u64 bought = 0, paid;

	/* Credit saved up at a larger window is worth one segment, not a burst;
	 * tcp_cong_avoid_ai() does the same.
	 */
	if (credit->avoid_q16 >= price_q16) {
		credit->avoid_q16 = 0;
		bought = 1;
	}

	credit->avoid_q16 += acked * gain_q16;
	paid = div64_u64(credit->avoid_q16, price_q16);
	credit->avoid_q16 -= paid * price_q16;
	bought += paid;

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

#endif /* _SATCC_CREDIT_H */
