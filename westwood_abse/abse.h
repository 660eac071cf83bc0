/* SPDX-License-Identifier: GPL-2.0 */
/* Adaptive Bandwidth Share Estimation: estimates a flow's share of the bottleneck from
 * its ACKs.
 *
 * The estimate BSE is a low-pass filter over samples s_k. Each sample is the rate at
 * which segments were delivered over the last T_k. T_k is short while the path keeps
 * up with the window, and grows to a round trip when a queue builds. The more samples
 * differ, the less one sample counts. t_k is the time of sample k, dt_k is
 * t_k - t_(k-1), D_k counts the segments delivered by t_k, and RE_k is the rate over
 * the last round trip:
 *
 *   s_k     = (D_k - D_(k-1)) / dt_k
 *   Th_k    = 3/5 Th_(k-1) + 2/5 RE_k
 *   U_k     = 3/5 U_(k-1) + 2/5 |s_k - s_(k-1)|
 *   tau_k   = RTT + N RTT U_k / U_max,  or RTT + N RTT if the ACK has `slow` set
 *   alpha_k = (2 tau_k - dt_k) / (2 tau_k + dt_k), at least 0
 *   BSE_k   = alpha_k BSE_(k-1) + (1 - alpha_k) s_k
 *   T_(k+1) = RTT (cwnd - Th_k RTT_min) / cwnd, at least T_min
 *   T_min   = max(RTT / 8, 1 ms)
 *
 * U_max is the largest U of the last six to ten samples: of a full block of five
 * samples, and of the samples since, up to five. N is 10.
 *
 * RTT is srtt. Sample k + 1 is taken at the first ACK that comes T_(k+1) or more after
 * t_k. Samples do not overlap. So the mean of s, weighted by dt as in the filter, is
 * the mean rate at any rhythm of the ACKs, and one sample contains a burst of ACKs and
 * the silence before it.
 *
 * The caller measures RE, for example as the core's rate sample. That uses the longer
 * of the times in which segments were sent and acknowledged, so compressed ACKs do not
 * raise it.
 *
 * Each ACK that delivers segments has one outcome, the first that applies. A point is
 * a pair of time and segments delivered from which the next sample is measured.
 *
 *   START   The clock is stopped: the flow is new, was idle, or was limited by its
 *           application. The clock starts here, at the point (t_0, D_0). T = T_min.
 *   BLIND   There is no BSE, and either t is RTT / 2 or more after t_0, so the first
 *           flight brought too few ACKs, or the ACKs of TRAIN are bunched. BSE, Th and s
 *           become RE. This is a point; T = T_min.
 *   TRAIN   At t_0 there was no BSE, and there has been no point since. n ACKs, three or
 *           more, have come since t_0. t is min(100 us, RTT / 8) or more after t_0, and
 *           less than T_min after it if there is a BSE. BSE, Th and s become the rate
 *           since t_0, so the first estimate comes from segments that left back to back.
 *           This is no point. ACKs are bunched when this one comes more than
 *           4 (t - t_0) / n or less than (t - t_0) / 4n after the one before. That ends
 *           the first flight, and the ACK's outcome is NONE if there is a BSE.
 *   SAMPLE  t is T or more after the last point. The equations apply. This is a point.
 *   NONE    Any other ACK. The next sample counts the segments it delivered.
 *
 * Fixed point, and the largest error of each step against the equations:
 *
 *   rates     segments per second, Q8, in 32 bits: up to 16.7 million a second, or 195
 *             Gbit/s with 1460 bytes each. Rounded down, 2^-8; at most 2^32 - 1. Counts
 *             of segments are at most 2^24.
 *   Th, U     (3 old + 2 new + 2) / 5, rounded down: 3/5 of the last place
 *   Th RTTmin in segments, Q8, rounded down: 2^-8
 *   T         us, rounded down: 1 us, and RTT / cwnd times the error of Th RTTmin;
 *             T_min likewise: 1 us
 *   U / U_max Q16, rounded down; 0 if U_max is 0
 *   tau       us, rounded down: 1 us + N RTT / 2^16
 *   alpha     Q20, rounded down: 2^-20; dt is at most 2 tau
 *   BSE       to nearest: 2^-9, and 2^-20 |s - BSE| from alpha
 *   window    rate RTT_min, segments, to nearest: 1/2; at least 2
 *
 * RTT and RTT_min are clamped to 1 .. 2^24 us (16.8 s).
 *
 * Integer maths on plain values, no sockets: the unit tests compile it too.
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

/* N: tau is 1 .. 11 round trips. The paper gives no value; UCLA's simulations use 10. */
#define ABSE_N			10

/* T_min is RTT divided by this. The paper uses the time between two ACKs, and so takes
 * compressed ACKs for a fast path. If ten ACKs come in a tenth of the round trip and
 * none in the rest, BSE is 1.2 times the rate with 8, 2/3 of it with 4, and 1/3 with 2.
 */
#define ABSE_T_MIN_DIV		8

/* Least T_min: a shorter sample measures the host's timing more than the path. */
#define ABSE_T_MIN_US		1000

/* The same limit for the first flight. */
#define ABSE_TRAIN_MIN_US	100

/* The first flight gives an estimate after this many ACKs beyond the first. A single ACK
 * may be the rest of the flight, merged. The last of two may have waited for a timer.
 */
#define ABSE_TRAIN_ACKS		3
#define ABSE_TRAIN_ACKS_MAX	255	/* the count stops here */

#define ABSE_U_SAMPLES		5	/* in each half of U_max's window */

/* The outcome of an ACK. */
enum abse_outcome {
	ABSE_NONE,
	ABSE_START,
	ABSE_BLIND,
	ABSE_TRAIN,
	ABSE_SAMPLE,
};

/* The estimator. All zero means no estimate and a stopped clock. */
struct abse {
	u64	point_us;	/* time of the last point */
	u32	point_pkts;	/* D at the last point; may wrap */
	u32	t_us;		/* T of the next sample */
	u32	bse_q8;		/* the estimate, segments/s; 0 = none */
	u32	th_q8;		/* Th, segments/s */
	u32	s_q8;		/* last sample, segments/s */
	u32	re_q8;		/* RE, segments/s, set by the caller; 0 = none */
	u32	u_q8;		/* U, segments/s */
	u32	u_max_q8;	/* largest U of the current block of samples */
	u32	u_max_prior_q8;	/* largest U of the block before */
	u8	u_count;	/* samples in the block, 0 .. ABSE_U_SAMPLES - 1 */
	u8	train_acks;	/* ACKs since the clock's start, up to ABSE_TRAIN_ACKS_MAX */
	bool	running;	/* the clock is running */
	bool	train;		/* no BSE at the clock's start, and no point since */
};

/* An ACK. */
struct abse_ack {
	u64	now_us;		/* time of the ACK */
	u32	delivered;	/* D, segments in total; may wrap */
	u32	cwnd;		/* segments, 1 .. 2^31 - 1 */
	u32	rtt_us;		/* srtt */
	u32	min_rtt_us;
	u32	gap_us;		/* time since the ACK before */
	bool	slow;		/* use the filter's largest tau */
};

/* Returns segments per second. us: not 0. The product is below 2^24 * 2^20 * 2^8. */
static inline u32 abse_rate_q8(u32 pkts, u32 us)
{
	u64 pkts_us = (u64)min_t(u32, pkts, ABSE_PKTS_MAX) * 1000000;

	return min_t(u64, div_u64(pkts_us << ABSE_RATE_SHIFT, us), ABSE_RATE_MAX);
}

/* Returns rate * rtt in segments, Q8. The product is below 2^32 * 2^24. */
static inline u64 abse_pkts_q8(u32 rate_q8, u32 rtt_us)
{
	return div_u64((u64)rate_q8 * min_t(u32, rtt_us, ABSE_RTT_MAX_US), 1000000);
}

/* Returns the window that fills a path of this rate: rate * RTT_min in segments, at
 * least 2; 0 = no estimate. The product is below 2^56, the window below 2^29.
 */
static inline u32 abse_window(u32 rate_q8, u32 min_rtt_us)
{
	u64 product = (u64)rate_q8 * min_t(u32, min_rtt_us, ABSE_RTT_MAX_US);

	if (!rate_q8 || !min_rtt_us)
		return 0;

	return max_t(u64, div_u64(product + 128 * 1000000ULL, 256 * 1000000U), 2);
}

/* Returns 3/5 of old plus 2/5 of new. */
static inline u32 abse_smooth(u32 old_q8, u32 new_q8)
{
	return div_u64(3ULL * old_q8 + 2ULL * new_q8 + 2, 5);
}

static inline u32 abse_t_min_us(u32 rtt_us)
{
	return max_t(u32, rtt_us / ABSE_T_MIN_DIV, ABSE_T_MIN_US);
}

/* Returns T_k: RTT times the part of the window that the rate Th does not deliver. rtt_us
 * is below 2^25, the difference below 2^39.
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

/* Returns tau, below 11 * 2^24. */
static inline u32 abse_tau_us(u32 u_q8, u32 u_max_q8, u32 rtt_us)
{
	u32 part_q16;

	if (!u_max_q8)
		return rtt_us;
	part_q16 = div_u64((u64)u_q8 << 16, u_max_q8);

	return rtt_us + ((u64)rtt_us * ABSE_N * part_q16 >> 16);
}

/* Returns alpha. tau_us: 1 .. 2^30, so that the divisor is below 2^32. */
static inline u32 abse_alpha_q20(u32 tau_us, u64 dt_us)
{
	u32 two_tau = 2 * tau_us;
	u32 dt = min_t(u64, dt_us, two_tau);

	return div_u64((u64)(two_tau - dt) << ABSE_ALPHA_SHIFT, two_tau + dt);
}

/* Returns BSE, between bse_q8 and s_q8 for any alpha. The sum is below 2^52 + 2^19. */
static inline u32 abse_filter(u32 bse_q8, u32 s_q8, u32 alpha_q20)
{
	return ((u64)alpha_q20 * bse_q8 + (u64)(ABSE_ALPHA_ONE - alpha_q20) * s_q8 +
		ABSE_ALPHA_ONE / 2) >> ABSE_ALPHA_SHIFT;
}

/* Stop the clock: the next ACK starts anew. */
static inline void abse_stop(struct abse *est)
{
	est->running = false;
}

/* Set BSE, Th and s to one rate. */
static inline void abse_seed(struct abse *est, u32 rate_q8)
{
	est->bse_q8 = rate_q8;
	est->th_q8 = rate_q8;
	est->s_q8 = rate_q8;
}

/* Update U and U_max. Returns U_max. */
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

/* Take sample k. dt_us: time since the last point, 1 ms or more. */
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

/* Is the gap before this ACK more than four times, or less than a quarter of, the mean gap
 * of the first flight, dt_us / train_acks? Then something on the path held the ACKs back.
 */
static inline bool abse_is_bunched(const struct abse *est, const struct abse_ack *ack,
				   u64 dt_us)
{
	u64 sum_us = (u64)ack->gap_us * est->train_acks;

	return sum_us > 4 * dt_us || 4 * sum_us < dt_us;
}

/* Returns the outcome of an ACK of the first flight. */
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

/* Returns the outcome of an ACK that delivered segments while the clock runs. dt_us: time
 * since the last point.
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

/* Process an ACK. Returns its outcome. */
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
