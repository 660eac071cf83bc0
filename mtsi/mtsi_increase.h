/* SPDX-License-Identifier: GPL-2.0 */
/* Marchese's slow start: F adds to the window with each ACK.
 *
 *   cwnd(N) = cwnd(N-1) + F(N)					(1)
 *   F(N)    = F(N-1) + K_i	while cwnd(N-1) < thr_n,	(3)
 *	       F_above		from there on
 *
 * where i is the first threshold above the window, cwnd(N-1) < thr_i (4), and
 * F_above = 1. The paper's other two functions are special cases: F_LINEAR (7) has
 * one threshold and K = 1; F_CONST (6) has no threshold and F_above = K.
 *
 * F is kept within [1, MTSI_MAX_F]. With K = 0 it could otherwise be 0 and stop the
 * window; with large thresholds it would grow without bound.
 */
#ifndef _MTSI_INCREASE_H
#define _MTSI_INCREASE_H

#include <linux/kernel.h>
#include <linux/types.h>
#include <linux/minmax.h>

#define MTSI_MAX_ZONES		8
#define MTSI_MAX_THR		1048576		/* 2^20 segments */
/* Largest F, and so the largest K. With the paper's thresholds and K, F is below 16. */
#define MTSI_MAX_F		1024

/* The function F(). A zone is the range of windows below one threshold. */
struct mtsi_rule {
	const u32 *thr;		/* strictly increasing, 1 .. MTSI_MAX_THR, segments */
	const u32 *k;		/* 0 .. MTSI_MAX_F each, segments per ACK */
	u32	zones;		/* length of thr and of k, 0 .. MTSI_MAX_ZONES */
	u32	above;		/* F from the last threshold on, 1 .. MTSI_MAX_F */
};

/* The two values that slow start changes. */
struct mtsi_growth {
	u32	cwnd;		/* segments */
	u32	f;		/* F of the last step; at most MTSI_MAX_F */
};

/* Add f to the window acks times, or until the window reaches end. Returns the number
 * of steps. end: above *cwnd and below 2^31; f: 1 .. MTSI_MAX_F. The last step may
 * exceed end by less than f.
 */
static inline u32 mtsi_add(u32 *cwnd, u32 end, u32 f, u32 acks)
{
	u32 room = end - *cwnd;

	if ((u64)f * acks >= room)
		acks = (room + f - 1) / f;
	*cwnd += f * acks;

	return acks;
}

/* Returns the number of steps that add room segments or more, if F grows by k before
 * each step: the smallest n with
 *
 *   n f + k n (n + 1) / 2 >= room
 *
 * This is one more than the largest n with
 *
 *   2 k n + b <= sqrt(b^2 + 8 k (room - 1)),   b = 2 f + k
 *
 * room: 1 .. 2^31 - 1; f: 0 .. MTSI_MAX_F; k: 1 .. MTSI_MAX_F. The sum is below 2^45.
 */
static inline u32 mtsi_steps(u32 f, u32 k, u32 room)
{
	u32 b = 2 * f + k;
	u64 sum = (u64)b * b + 8ULL * k * (room - 1);

	return (int_sqrt64(sum) - b) / (2 * k) + 1;
}

/* Take one step per ACK while F rises by k, until F can rise no further or the window
 * reaches end. Returns the number of steps. end: above the window. The last step may
 * exceed end by less than F.
 */
static inline u32 mtsi_rise(struct mtsi_growth *growth, u32 end, u32 k, u32 acks)
{
	u32 f = growth->f, steps = (MTSI_MAX_F - f) / k;

	steps = min3(steps, mtsi_steps(f, k, end - growth->cwnd), acks);
	growth->cwnd += steps * f + k * (steps * (steps + 1) / 2);
	growth->f += k * steps;

	return steps;
}

/* Take one step per ACK until the window is target. Returns the number of ACKs left
 * over. target: below 2^31; growth->f: at most MTSI_MAX_F.
 *
 * The loop handles each zone in one turn: first the steps in which F rises, then those
 * in which it stays (K = 0, or F at its maximum). So it takes at most eight turns for
 * any number of ACKs.
 */
static inline u32 mtsi_slow_start(const struct mtsi_rule *rule,
				  struct mtsi_growth *growth, u32 target, u32 acks)
{
	u32 zone = 0, end, k;

	if (growth->cwnd >= target)
		return acks;

	while (zone < MTSI_MAX_ZONES && zone < rule->zones && growth->cwnd >= rule->thr[zone])
		zone++;
	for (; zone < MTSI_MAX_ZONES && zone < rule->zones && acks; zone++) {
		end = min(rule->thr[zone], target);
		k = rule->k[zone];
		if (k && growth->cwnd < end)
			acks -= mtsi_rise(growth, end, k, acks);
		if (acks && growth->cwnd < end) {
			growth->f = clamp_t(u32, growth->f + k, 1, MTSI_MAX_F);
			acks -= mtsi_add(&growth->cwnd, end, growth->f, acks);
		}
	}
	if (acks && growth->cwnd < target) {
		growth->f = rule->above;
		acks -= mtsi_add(&growth->cwnd, target, growth->f, acks);
	}
	growth->cwnd = min(growth->cwnd, target);

	return acks;
}

#endif /* _MTSI_INCREASE_H */
