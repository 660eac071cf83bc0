/* SPDX-License-Identifier: GPL-2.0 */
/* Marchese's slow start: what F adds to the window, ACK by ACK.
 *
 *   cwnd(N) = cwnd(N-1) + F(N)					(1)
 *   F(N)    = F(N-1) + K_i	while cwnd(N-1) < thr_n,	(3)
 *	       F_above		from there on
 *
 * with i the first threshold above the window, cwnd(N-1) < thr_i (4), and F_above
 * = 1. The paper's other two functions are cases of it: F_LINEAR (7) has the one
 * threshold thr and K = 1; F_CONST (6) has no threshold and F_above = K.
 *
 * F is within [1, MTSI_MAX_F]: with K = 0 it could be 0, and the window stand still;
 * with thresholds far away it would grow without end.
 */
#ifndef _MTSI_INCREASE_H
#define _MTSI_INCREASE_H

#include <linux/types.h>
#include <linux/minmax.h>

#define MTSI_MAX_ZONES		8
#define MTSI_MAX_THR		1048576		/* 2^20 segments */
/* Largest F, so K too: with the thresholds and K of the paper it stays below 16. */
#define MTSI_MAX_F		1024

/* The function F(). A zone is what lies below a threshold. */
struct mtsi_rule {
	const u32 *thr;		/* strictly increasing, 1 .. MTSI_MAX_THR, segments */
	const u32 *k;		/* 0 .. MTSI_MAX_F each, segments per ACK */
	u32	zones;		/* of both, 0 .. MTSI_MAX_ZONES */
	u32	above;		/* F from the last threshold on, 1 .. MTSI_MAX_F */
};

/* A stretch of slow start. */
struct mtsi_growth {
	u32	cwnd;		/* segments */
	u32	f;		/* F of the last step; at most MTSI_MAX_F */
};

/* Add f to the window acks times, or until it has reached end, which is above it.
 * Returns how many times. end: below 2^31; f: 1 .. MTSI_MAX_F. The last step may go
 * beyond end, by less than f.
 */
static inline u32 mtsi_add(u32 *cwnd, u32 end, u32 f, u32 acks)
{
	u32 room = end - *cwnd;

	if ((u64)f * acks >= room)
		acks = (room + f - 1) / f;
	*cwnd += f * acks;

	return acks;
}

/* Take a step for each of acks, until the window is target. Returns how many were
 * not needed. target: below 2^31.
 *
 * Where F stays as it is (above all thresholds, K = 0, the largest F) a whole zone
 * is one turn of the loop; every other turn raises F. So there are at most 1024 +
 * zones + 1 turns, whatever acks is; at 20-30-40 with 4, 2, 1 there are six.
 */
static inline u32 mtsi_slow_start(const struct mtsi_rule *rule,
				  struct mtsi_growth *growth, u32 target, u32 acks)
{
	u32 zone = 0, end, k, taken;

	while (acks && growth->cwnd < target) {
		while (zone < rule->zones && growth->cwnd >= rule->thr[zone])
			zone++;

		if (zone < rule->zones) {
			end = min(rule->thr[zone], target);
			k = rule->k[zone];
			growth->f = clamp_t(u32, growth->f + k, 1, MTSI_MAX_F);
		} else {
			end = target;
			k = 0;
			growth->f = rule->above;
		}

		taken = k && growth->f < MTSI_MAX_F ? 1 : acks;
		taken = mtsi_add(&growth->cwnd, end, growth->f, taken);
		growth->cwnd = min(growth->cwnd, target);
		acks -= taken;
	}

	return acks;
}

#endif /* _MTSI_INCREASE_H */
