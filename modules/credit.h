/* SPDX-License-Identifier: GPL-2.0 */
/* Window growth in fractions of a segment. Rounding loses nothing, and the result does
 * not depend on how the receiver merges its ACKs: one ACK of n segments adds as much as
 * n ACKs of one segment.
 *
 * The window counts whole segments, but an ACK earns fractions. The caller keeps the
 * credit that is left over, one u64 per flow in the fixed point of its gain. It pays for
 * the next segment, whose price is cwnd. 0 is a valid start.
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

/* Q16: 65536 stands for 1. */
#define SATCC_Q16_SHIFT		16
#define SATCC_Q16_ONE		65536U

/* A TCP window has at most 2^30 bytes, and so at most 2^30 segments. */
#define SATCC_MAX_CWND	0x40000000U

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

#endif /* _SATCC_CREDIT_H */
