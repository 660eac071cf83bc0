/* SPDX-License-Identifier: GPL-2.0 */
/* Adaptive Bandwidth Share Estimation: the rate that the ACKs of a flow tell.
 *
 * The estimate BSE is a low-pass filter over samples s_k. Each is the rate at which
 * segments were delivered over the last T_k. T_k is short while the path keeps up
 * with the window, and grows to a round trip when a queue builds. How much a sample
 * counts follows how much samples differ. With t_k the time of sample k, dt_k =
 * t_k - t_(k-1), D_k all segments delivered by t_k, and RE_k the rate over the last
 * round trip:
 *
 *   s_k     = (D_k - D_(k-1)) / dt_k
 *   Th_k    = 3/5 Th_(k-1) + 2/5 RE_k
 *   U_k     = 3/5 U_(k-1) + 2/5 |s_k - s_(k-1)|
 *   tau_k   = RTT + N RTT U_k / U_max,  or RTT + N RTT where the ACK says `slow`
 *   alpha_k = (2 tau_k - dt_k) / (2 tau_k + dt_k), at least 0
 *   BSE_k   = alpha_k BSE_(k-1) + (1 - alpha_k) s_k
 *   T_(k+1) = RTT (cwnd - Th_k RTT_min) / cwnd, at least T_min
 *   T_min   = max(RTT / 8, 1 ms)
 *
 * U_max is the largest U of the last six to ten samples: the largest of the five
 * before and of those since, up to five. N is 10.
 *
 * RTT is the smoothed one. Sample k + 1 is taken at the first ACK that comes T_(k+1)
 * or more after t_k. Samples do not overlap: then the mean of s, weighted by dt as the
 * filter does, is the mean rate whatever the rhythm of the ACKs, and a burst of ACKs
 * is in one sample with the silence before it.
 *
 * RE is for the caller to measure; the core's rate sample is one. It takes the longer
 * of the times in which segments were sent and acknowledged, so ACKs that were
 * compressed on the way do not raise it.
 *
 * What an ACK is, when it has delivered segments; the first that applies:
 *
 *   START   The clock is stopped: new flow, was idle, was limited by its application.
 *           It starts here, at a point (t_0, D_0). T is T_min.
 *   BLIND   There is no BSE, and t is RTT / 2 or more after t_0: the first flight has
 *           passed in too few ACKs; or what would be TRAIN is bunched. BSE, Th and s are
 *           RE. A point; T is T_min.
 *   TRAIN   There was no BSE at t_0, and since then there has been no point. Three
 *           ACKs or more have come since t_0, n, and t is min(100 us, RTT / 8) or more after
 *           it, and less than T_min after it unless there is no BSE: BSE, Th and s are
 *           the rate since t_0, so the first estimate is that of the segments which left
 *           back to back. No point. ACKs are bunched when this one comes more than
 *           4 (t - t_0) / n or less than a quarter of (t - t_0) / n after the one before;
 *           with that the first flight is over, and the ACK is NONE if there is a BSE.
 *   SAMPLE  t is T or more after the last point. By the equations. A point.
 *   NONE    Else. What it delivered is in the next sample.
 *
 * Fixed point, and how far from the equations at most, given what went before:
 *
 *   rates     segments per second, Q8, in 32 bits: 16.7 million a second, 195 Gbit/s
 *             with 1460 bytes each. Rounded down, 2^-8; held at 2^32 - 1. Counts
 *             above 2^24 are held there.
 *   Th, U     (3 old + 2 new + 2) / 5, rounded down: 3/5 of the last place
 *   Th RTTmin in segments, Q8, rounded down: 2^-8
 *   T         us, rounded down: 1 us, and RTT / cwnd times the error of Th RTTmin;
 *             T_min likewise: 1 us
 *   U / U_max Q16, rounded down; 0 if U_max is 0
 *   tau       us, rounded down: 1 us + N RTT / 2^16
 *   alpha     Q20, rounded down: 2^-20; dt is held to 2 tau
 *   BSE       to nearest: 2^-9, and 2^-20 |s - BSE| from alpha
 *   window    rate RTT_min, segments, to nearest: 1/2; at least 2
 *
 * RTT and RTT_min are held within 1 .. 2^24 us (16.8 s).
 *
 * Integer maths on plain values, no sockets, so the same text is compiled into the
 * module and into the unit tests.
 *
 * Based on: R. Wang, M. Valla, M. Y. Sanadidi, M. Gerla, "Adaptive Bandwidth Share
 * Estimation in TCP Westwood", IEEE Globecom 2002.
 */
#ifndef _ABSE_H
#define _ABSE_H

#include <linux/types.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#define ABSE_RATE_SHIFT		8
#define ABSE_RATE_MAX		0xffffffffU
#define ABSE_PKTS_MAX		0x1000000U	/* 2^24 */
#define ABSE_RTT_MAX_US		0x1000000U	/* 2^24: 16.8 s */
#define ABSE_ALPHA_SHIFT	20
#define ABSE_ALPHA_ONE		0x100000U	/* 1 */

/* N: tau is 1 .. 11 round trips. The paper has no figure; UCLA's simulations have 10. */
#define ABSE_N			10

/* T_min is this part of a round trip. The paper takes the time between two ACKs, and
 * with it compressed ACKs for a fast path. With ten ACKs in a tenth of the round trip
 * and silence for the rest, BSE comes out at 1.2 times the rate with 8, and at 2/3 and
 * 1/3 of it with 4 and 2.
 */
#define ABSE_T_MIN_DIV		8

/* T_min: a shorter sample says more about the host's timing than the path. */
#define ABSE_T_MIN_US		1000

/* The same, for the first flight. */
#define ABSE_TRAIN_MIN_US	100

/* ACKs after the first that make the first flight an estimate. One alone may be the rest
 * of the flight, merged; the last of two may be what a timer let go.
 */
#define ABSE_TRAIN_ACKS		3
#define ABSE_TRAIN_ACKS_MAX	255	/* counted */

#define ABSE_U_SAMPLES		5	/* in each half of U_max's window */

/* What an ACK is. */
enum abse_outcome {
	ABSE_NONE,
	ABSE_START,
	ABSE_BLIND,
	ABSE_TRAIN,
	ABSE_SAMPLE,
};

/* The estimator. All zero: no estimate, the clock stopped. */
struct abse {
	u64	point_us;	/* time of the last point */
	u32	point_pkts;	/* D at the last point; may wrap */
	u32	t_us;		/* T of the sample to come */
	u32	bse_q8;		/* the estimate, segments/s; 0 = none */
	u32	th_q8;		/* Th, segments/s */
	u32	s_q8;		/* last sample, segments/s */
	u32	re_q8;		/* RE, segments/s, by the caller; 0 = none */
	u32	u_q8;		/* U, segments/s */
	u32	u_max_q8;	/* largest U of the samples counted by u_count, */
	u32	u_max_prior_q8;	/* and of the five before them */
	u8	u_count;	/* 0 .. ABSE_U_SAMPLES - 1 */
	u8	train_acks;	/* since the clock's start, up to ABSE_TRAIN_ACKS_MAX */
	bool	running;	/* the clock */
	bool	train;		/* no BSE at the clock's start, and no point since */
};

/* An ACK. */
struct abse_ack {
	u64	now_us;		/* its time */
	u32	delivered;	/* segments, in all, D; may wrap */
	u32	cwnd;		/* segments, 1 .. 2^31 - 1 */
	u32	rtt_us;		/* smoothed */
	u32	min_rtt_us;
	u32	gap_us;		/* since the ACK before */
	bool	slow;		/* the filter is to be at its slowest */
};

/* Segments per second. us: not 0. The product is below 2^24 * 2^20 * 2^8. */
static inline u32 abse_rate_q8(u32 pkts, u32 us)
{
	u64 pkts_us = (u64)min_t(u32, pkts, ABSE_PKTS_MAX) * 1000000;

	return min_t(u64, div_u64(pkts_us << ABSE_RATE_SHIFT, us), ABSE_RATE_MAX);
}

/* rate * rtt in segments, Q8: 2^32 * 2^24 before the division. */
static inline u64 abse_pkts_q8(u32 rate_q8, u32 rtt_us)
{
	return div_u64((u64)rate_q8 * min_t(u32, rtt_us, ABSE_RTT_MAX_US), 1000000);
}

/* The window that a rate fills the path with: rate * RTT_min in segments, at least
 * 2; 0 = no estimate. The product is below 2^56, the window below 2^29.
 */
static inline u32 abse_window(u32 rate_q8, u32 min_rtt_us)
{
	u64 product = (u64)rate_q8 * min_t(u32, min_rtt_us, ABSE_RTT_MAX_US);

	if (!rate_q8 || !min_rtt_us)
		return 0;

	return max_t(u64, div_u64(product + 128 * 1000000ULL, 256 * 1000000U), 2);
}

/* 3/5 and 2/5. */
static inline u32 abse_smooth(u32 old_q8, u32 new_q8)
{
	return div_u64(3ULL * old_q8 + 2ULL * new_q8 + 2, 5);
}

static inline u32 abse_t_min_us(u32 rtt_us)
{
	return max_t(u32, rtt_us / ABSE_T_MIN_DIV, ABSE_T_MIN_US);
}

/* T_k: the round trip's part by which the window exceeds what gets through. rtt_us
 * below 2^25, the difference below 2^39.
 */
static inline u32 abse_interval_us(u32 th_q8, u32 cwnd, u32 rtt_us, u32 min_rtt_us)
{
	u64 through_q8 = abse_pkts_q8(th_q8, min_rtt_us);
	u64 cwnd_q8 = (u64)cwnd << ABSE_RATE_SHIFT;
	u32 t_min_us = abse_t_min_us(rtt_us);

	if (through_q8 >= cwnd_q8)
		return t_min_us;

	return max_t(u64, div64_u64(rtt_us * (cwnd_q8 - through_q8), cwnd_q8),
		     t_min_us);
}

/* tau. The result is below 11 * 2^24. */
static inline u32 abse_tau_us(u32 u_q8, u32 u_max_q8, u32 rtt_us)
{
	u32 part_q16;

	if (!u_max_q8)
		return rtt_us;
	part_q16 = div_u64((u64)u_q8 << 16, u_max_q8);

	return rtt_us + ((u64)rtt_us * ABSE_N * part_q16 >> 16);
}

/* alpha. tau_us: 1 .. 2^30, so that the divisor is below 2^32. */
static inline u32 abse_alpha_q20(u32 tau_us, u64 dt_us)
{
	u32 two_tau = 2 * tau_us;
	u32 dt = min_t(u64, dt_us, two_tau);

	return div_u64((u64)(two_tau - dt) << ABSE_ALPHA_SHIFT, two_tau + dt);
}

/* BSE: between the two, whatever alpha. Below 2^32 * 2^20 + 2^19. */
static inline u32 abse_filter(u32 bse_q8, u32 s_q8, u32 alpha_q20)
{
	return ((u64)alpha_q20 * bse_q8 + (u64)(ABSE_ALPHA_ONE - alpha_q20) * s_q8 +
		ABSE_ALPHA_ONE / 2) >> ABSE_ALPHA_SHIFT;
}

/* Stop the clock: what comes next has nothing to do with what was. */
static inline void abse_stop(struct abse *est)
{
	est->running = false;
}

/* Take a rate as all there is to know. */
static inline void abse_seed(struct abse *est, u32 rate_q8)
{
	est->bse_q8 = rate_q8;
	est->th_q8 = rate_q8;
	est->s_q8 = rate_q8;
}

/* U and its largest. Returns U_max. */
static inline u32 abse_instability(struct abse *est, u32 s_q8, u32 s_old_q8)
{
	u32 change = s_q8 > s_old_q8 ? s_q8 - s_old_q8 : s_old_q8 - s_q8;
	u32 u_max_q8;

	est->u_q8 = abse_smooth(est->u_q8, change);
	est->u_max_q8 = max_t(u32, est->u_max_q8, est->u_q8);
	u_max_q8 = max_t(u32, est->u_max_q8, est->u_max_prior_q8);
	if (++est->u_count >= ABSE_U_SAMPLES) {
		est->u_count = 0;
		est->u_max_prior_q8 = est->u_max_q8;
		est->u_max_q8 = 0;
	}

	return u_max_q8;
}

/* Sample k, dt_us after the one before: 1 ms and more. */
static inline void abse_sample(struct abse *est, const struct abse_ack *ack, u32 rtt_us,
			       u64 dt_us)
{
	u32 s_old_q8 = est->s_q8;
	u32 u_max_q8, tau_us;

	est->s_q8 = abse_rate_q8(ack->delivered - est->point_pkts,
				 min_t(u64, dt_us, 0xffffffff));
	est->th_q8 = abse_smooth(est->th_q8, est->re_q8);
	u_max_q8 = abse_instability(est, est->s_q8, s_old_q8);
	tau_us = ack->slow ? (1 + ABSE_N) * rtt_us :
			     abse_tau_us(est->u_q8, u_max_q8, rtt_us);
	est->bse_q8 = abse_filter(est->bse_q8, est->s_q8, abse_alpha_q20(tau_us, dt_us));
}

/* Are the ACKs of the first flight further apart, or closer, than by four times of what
 * they are on average, dt_us / train_acks? Then they tell of what released them.
 */
static inline bool abse_is_bunched(const struct abse *est, const struct abse_ack *ack,
				   u64 dt_us)
{
	u64 sum_us = (u64)ack->gap_us * est->train_acks;

	return sum_us > 4 * dt_us || 4 * sum_us < dt_us;
}

/* What an ACK of the first flight is. */
static inline enum abse_outcome abse_train(struct abse *est, const struct abse_ack *ack,
					   u32 rtt_us, u64 dt_us)
{
	if (est->train_acks < ABSE_TRAIN_ACKS_MAX)
		est->train_acks++;
	if (est->train_acks < ABSE_TRAIN_ACKS ||
	    dt_us < clamp_t(u32, rtt_us / 8, 1, ABSE_TRAIN_MIN_US))
		return ABSE_NONE;
	if (!abse_is_bunched(est, ack, dt_us))
		return ABSE_TRAIN;
	est->train = false;

	return est->bse_q8 ? ABSE_NONE : ABSE_BLIND;
}

/* What an ACK is, when it delivered segments and the clock runs. dt_us: since the last
 * point.
 */
static inline enum abse_outcome abse_outcome(struct abse *est, const struct abse_ack *ack,
					     u32 rtt_us, u64 dt_us)
{
	if (!est->bse_q8 && dt_us >= rtt_us / 2)
		return ABSE_BLIND;
	if (est->train && (!est->bse_q8 || dt_us < abse_t_min_us(rtt_us)))
		return abse_train(est, ack, rtt_us, dt_us);

	return est->bse_q8 && dt_us >= est->t_us ? ABSE_SAMPLE : ABSE_NONE;
}

/* Take an ACK. Returns what it is. */
static inline enum abse_outcome abse_update(struct abse *est, const struct abse_ack *ack)
{
	u32 rtt_us = clamp_t(u32, ack->rtt_us, 1, ABSE_RTT_MAX_US);
	enum abse_outcome outcome = ABSE_START;
	u64 dt_us = ack->now_us - est->point_us;

	if (est->running) {
		if (ack->delivered == est->point_pkts)
			return ABSE_NONE;
		outcome = abse_outcome(est, ack, rtt_us, dt_us);
	}

	switch (outcome) {
	case ABSE_NONE:
		return outcome;
	case ABSE_TRAIN:
		abse_seed(est, abse_rate_q8(ack->delivered - est->point_pkts, dt_us));
		return outcome;
	case ABSE_START:
		est->running = true;
		est->train = !est->bse_q8;
		est->train_acks = 0;
		break;
	case ABSE_BLIND:
		est->train = false;
		abse_seed(est, est->re_q8);
		break;
	case ABSE_SAMPLE:
		est->train = false;
		abse_sample(est, ack, rtt_us, dt_us);
		break;
	}

	est->point_us = ack->now_us;
	est->point_pkts = ack->delivered;
	est->t_us = outcome == ABSE_SAMPLE ?
		    abse_interval_us(est->th_q8, ack->cwnd, rtt_us, ack->min_rtt_us) :
		    abse_t_min_us(rtt_us);

	return outcome;
}

#endif /* _ABSE_H */
