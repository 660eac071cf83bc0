/* SPDX-License-Identifier: GPL-2.0 */
/* Window growth in fractions of a segment. Rounding loses nothing, and the result does
 * not depend on how the receiver merges its ACKs: one ACK of n segments adds as much as
 * n ACKs of one segment.
 *
 * The window counts whole segments, but an ACK earns fractions. The caller keeps a
 * struct satcc_credit per flow, which holds the fractions left over. Slow start and
 * congestion avoidance have separate fields, because the units differ: in slow start
 * the field is a fraction of a segment; in congestion avoidance it is a credit that
 * pays for the next segment, whose price is cwnd. All zero is a valid start. A policy
 * with Reno's slow start only needs the credit of congestion avoidance, a u64 in the
 * unit of its gain.
 *
 * Integer maths on plain values, no sockets: the unit tests compile it too. One ACK may
 * acknowledge any number of segments. acked is below 2^30, because it counts segments
 * in flight, and a TCP window has at most 2^30 bytes.
 */
#ifndef _SATCC_CREDIT_H
#define _SATCC_CREDIT_H

#include <linux/kernel.h>
#include <linux/types.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "rho.h"

/* A TCP window has at most 2^30 bytes, and so at most 2^30 segments. */
#define SATCC_MAX_CWND	0x40000000U

struct satcc_credit {
	u64	avoid_q16;	/* congestion avoidance: earned, not yet spent */
	u32	start_q16;	/* slow start: fraction of a segment, below 1 */
};

/* Slow start: adds gain to *cwnd per acknowledged segment, up to target. Returns how
 * many of acked are left over for congestion avoidance.
 *
 * target: below 2^31. gain_q16: 1 .. 2^31 - 1 in Q16, so the divisor is not 0 and the
 * numerator is below 2^48. acked * gain_q16 is only computed when acked is too small to
 * reach target, so it is below room_q16.
 */
static inline u32 satcc_slow_start(struct satcc_credit *credit, u32 *cwnd,
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

/* Reno's slow start: adds acked to *cwnd, up to target. Returns how many of acked are
 * left over.
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

/* Returns how many segments a credit buys at the prices cwnd, cwnd + 1, ...: the largest
 * k with k cwnd + k (k - 1) / 2 <= credit, that is
 *
 *   2 k + 2 cwnd - 1 <= sqrt((2 cwnd - 1)^2 + 8 credit)
 *
 * cwnd: 1 .. 2^30. credit: in segments, at most 2^60, so the sum is below 2^64.
 */
static inline u32 satcc_affordable(u32 cwnd, u64 credit)
{
	u64 base = 2 * (u64)cwnd - 1;

	return (int_sqrt64(base * base + 8 * credit) - base) / 2;
}

/* Congestion avoidance, gain / cwnd per acknowledged segment: returns the window, at
 * most limit. A segment costs the window it is added to, so within one ACK each segment
 * costs one more than the one before. W^2 thus grows by 2 gain per acknowledged segment,
 * however ACKs are merged. The rest stays in the credit. A credit from a larger window
 * is cut to just below the price of one segment, so it causes no burst.
 *
 * shift: position of the binary point in credit and gain. cwnd, limit: 1 .. 2^30.
 * acked * gain: below 2^62, and at most 2^60 << shift.
 */
static inline u32 satcc_avoid(u64 *credit, u32 cwnd, u32 limit, u64 gain,
			      u32 shift, u32 acked)
{
	u64 price = (u64)cwnd << shift, paid;
	u32 bought;

	if (cwnd >= limit)
		return limit;

	*credit = min(*credit, price - 1) + acked * gain;
	if (*credit < price)
		return cwnd;

	/* The usual case: one segment. */
	paid = price;
	bought = 1;
	if (*credit >= 2 * price) {
		bought = satcc_affordable(cwnd, *credit >> shift);
		paid = ((u64)bought * cwnd + (u64)bought * (bought - 1) / 2) << shift;
	}
	*credit -= paid;

	return min(cwnd + bought, limit);
}

/* Returns the window after an ACK of acked segments: Reno's slow start below ssthresh,
 * congestion avoidance from there on. One ACK may do both. An acknowledged segment adds
 * at most one: where gain / cwnd is above 1, growth is slow start's.
 *
 * counted: how many of acked have the gain; the others have min(gain, 1), see
 * satcc_counted(). satcc_avoid() describes the other arguments.
 */
static inline u32 satcc_grow_by_one(u64 *credit, u32 cwnd, u32 ssthresh, u32 limit,
				    u64 gain, u32 shift, u32 acked, u32 counted)
{
	u64 one = 1ULL << shift;
	u32 target;

	acked = satcc_start_by_one(&cwnd, min(ssthresh, limit), acked);
	if (!acked)
		return cwnd;

	counted = min(counted, acked);
	acked -= counted;
	if (gain > (u64)cwnd << shift) {
		target = min_t(u64, (gain + one - 1) >> shift, limit);
		counted = satcc_start_by_one(&cwnd, target, counted);
	}
	if (counted)
		cwnd = satcc_avoid(credit, cwnd, limit, gain, shift, counted);
	if (acked)
		cwnd = satcc_avoid(credit, cwnd, limit, min(gain, one), shift, acked);

	return cwnd;
}

/* A bound for BPF's verifier; the loop below takes fewer turns. */
#define SATCC_AVOID_TURNS	32

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
static inline u32 satcc_avoid_rho(struct satcc_credit *credit, u32 cwnd, u32 limit,
				  u32 rho_q16, u32 acked)
{
	u64 rho2_q16 = satcc_rho2_q16(rho_q16);
	u64 rho2 = (rho2_q16 + SATCC_Q16_ONE - 1) >> SATCC_Q16_SHIFT;
	u32 most, turn;

	for (turn = 0; turn < SATCC_AVOID_TURNS && acked && cwnd < limit; turn++) {
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

/* satcc_avoid_rho() with Hybla's slow start below ssthresh. One ACK may do both.
 *
 * cwnd: 1 .. 2^31 - 1; limit: 1 .. 2^30. ssthresh: any. rho_q16: 1 .. 256 in Q16.
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

	return satcc_avoid_rho(credit, cwnd, limit, rho_q16, acked);
}

#endif /* _SATCC_CREDIT_H */
