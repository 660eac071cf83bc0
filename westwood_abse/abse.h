/* SPDX-License-Identifier: GPL-2.0 */
/* Adaptive Bandwidth Share Estimation: what rate the ACKs of a flow tell.
 *
 * The estimate BSE is a low-pass filter of samples s_k, each the rate at which
 * segments were delivered over the last T_k. T_k is short while the path keeps up
 * with the window, and so follows what the path can do; it is up to a round trip
 * when a queue builds, and then gives the flow's share. How much one sample counts
 * follows how much samples differ. With t_k the time of sample k, dt_k = t_k -
 * t_(k-1), D_k all segments delivered by t_k:
 *
 *   s_k     = (D_k - D_(k-1)) / dt_k
 *   RE_k    = (segments delivered in the RTT before t_k) / RTT
 *   Th_k    = 3/5 Th_(k-1) + 2/5 RE_k
 *   U_k     = 3/5 U_(k-1) + 2/5 |s_k - s_(k-1)|
 *   tau_k   = RTT + N RTT U_k / U_max,  U_max the largest of U_(k-9) .. U_k;
 *             RTT + N RTT in Astart
 *   alpha_k = (2 tau_k - dt_k) / (2 tau_k + dt_k), at least 0
 *   BSE_k   = alpha_k BSE_(k-1) + (1 - alpha_k) s_k
 *   T_(k+1) = RTT (cwnd - Th_k RTT_min) / cwnd, at least T_min
 *   T_min   = max(RTT / t_min_div, 1 ms)
 *
 * What a window is computed from is max(BSE_k, RE_k): the filter lags behind slow
 * start, and less than what the path has just carried it can carry.
 *
 * In Astart, up to the first loss, tau is the largest it can be: what samples tell is
 * a window that is still growing, and the first flight has told of the path.
 *
 * RTT is the smoothed one. Sample k + 1 is taken at the first ACK of T_(k+1) or more
 * after t_k, so T_k is the part of a round trip above rounded up to an ACK, dt_k.
 * Samples do not overlap: then the mean of s, weighted by dt as the filter does, is
 * the mean rate whatever the rhythm of the ACKs. (With a window looking back from
 * every ACK those next to a silence count for less, and the estimate is low by as
 * much as a tenth.) A burst of ACKs is in one sample with the silence before it.
 *
 * All of that is exact here but for what follows, and needs nothing but t_k, D_k,
 * cwnd, RTT and RTT_min. What an ACK of time t with segments delivered is, RTT being
 * held within 1 .. 2^24 us; the first that applies:
 *
 *   START   The clock is stopped: new flow, was idle, was limited by its application.
 *           It starts here, at a point (t, D), and T is T_min. RE
 *           is 0 until known again.
 *   BLIND   BSE is 0, and the clock started RTT / 2 or more ago: the flight gave no
 *           estimate. As START.
 *   TRAIN   First flight: since the clock's start there has been no SAMPLE, and when
 *           it started BSE was 0. t is min(100 us, RTT / 8) and at least 1 us after
 *           the start, and less than T_min after it unless BSE is 0: BSE_k, RE_k,
 *           Th_k and s_k are the rate since the start, T_(k+1) = T_min. So the first
 *           estimate is that of the segments which left back to back.
 *   SAMPLE  t - t_(k-1) >= T_k and t - start >= T_min: by the equations.
 *   COARSE  The same for a flow without a history.
 *   NONE    Else. What it delivered is in the next sample.
 *
 * Every one but NONE is a point. The window of RE_k goes back to the last point of
 * RTT or more ago, or to the oldest there is, the clock's start or the 64th last,
 * and is divided by the time since then.
 *
 * Without a history (no memory, or not asked for) T_k = RTT, U_k = 0, RE_k = s_k, and
 * Th is left as it is.
 *
 * Fixed point, and how far from the equations at most, given what went before:
 *
 *   rates     segments per second, Q16, below 2^43 (134 million a second): rounded
 *             down, 2^-16; a quotient above that is held there. Counts above 2^27
 *             are held there.
 *   Th, U     (3 old + 2 new + 2) / 5, rounded down: 3/5 of the last place, 2^-16
 *   Th RTTmin in segments, Q8, rounded down, from Th >> 8: RTT_min[s] / 256 + 1/256
 *   T         us, rounded down: 1 us, and RTT / cwnd times the error of Th RTTmin;
 *             T_min likewise: 1 us
 *   U / U_max Q16, rounded down; 0 if U_max is 0
 *   tau       us, rounded down: 1 us + N RTT / 2^16
 *   alpha     Q20, rounded down: 2^-20; dt is held to 2 tau
 *   BSE       to nearest: 2^-17, and 2^-20 |s - BSE| from alpha
 *   window    rate RTT_min, segments, to nearest, from rate >> 8: 1/2 + RTT_min[s] / 256;
 *             at least 2
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

#include "fixed_point.h"

#define ABSE_POINTS		64	/* more than are in a round trip */
#define ABSE_INSTABILITIES	10	/* that U_max is the largest of */
#define ABSE_ALPHA_SHIFT	20
#define ABSE_ALPHA_ONE		0x100000U	/* 1 */

#define ABSE_RATE_MAX		((1ULL << 43) - 1)
#define ABSE_PKTS_MAX		0x8000000U	/* 2^27 */
#define ABSE_RTT_MAX_US		0x1000000U	/* 2^24: 16.8 s */

/* T_min: a shorter sample says more about the host's timing than the path. */
#define ABSE_T_MIN_US		1000

/* Two ACKs closer than that tell of the receiver's and our own timing. */
#define ABSE_TRAIN_MIN_US	100

/* What an ACK is. Numbers, not an enum: a tracepoint shows them. */
#define ABSE_NONE		0
#define ABSE_START		1
#define ABSE_BLIND		2
#define ABSE_TRAIN		3
#define ABSE_SAMPLE		4
#define ABSE_COARSE		5

/* Segments delivered by a time. Both may wrap. */
struct abse_point {
	u32	t_us;
	u32	pkts;
};

/* What a flow may do without. */
struct abse_history {
	struct abse_point points[ABSE_POINTS];	/* a ring */
	u64	u_q16[ABSE_INSTABILITIES];	/* the last U_k, a ring */
	u32	count;				/* points since the clock's start */
	u32	u_next;				/* the oldest U_k */
};

/* The estimator. All zero: no estimate, the clock stopped. */
struct abse {
	u64	bse_q16;	/* the estimate, segments/s; 0 = none */
	u64	th_q16;		/* Th, segments/s */
	u64	s_q16;		/* last sample, segments/s */
	u64	re_q16;		/* RE, segments/s; 0 = none */
	u64	start_us;	/* time of the clock's start */
	u64	last_us;	/* time of the last point */
	u32	start_pkts;	/* D at the start */
	u32	last_pkts;	/* D at the last point */
	u32	t_us;		/* T of the sample to come */
	bool	running;	/* the clock */
	bool	train;		/* the first flight */
};

/* An ACK, and the parameters. */
struct abse_ack {
	u64	now_us;		/* its time */
	u32	delivered;	/* segments, in all, D; may wrap */
	u32	cwnd;		/* segments, 1 .. 2^31 - 1 */
	u32	rtt_us;		/* smoothed */
	u32	min_rtt_us;
	u32	tau_n;		/* N, 0 .. 50 */
	u32	t_min_div;	/* 1 .. 32 */
	bool	astart;		/* the flow is in Astart */
};

/* All that went into an estimate and came out of it; see the equations. What an
 * outcome has no use for is 0.
 */
struct abse_sample {
	u64	th_old_q16, th_q16;
	u64	s_old_q16, s_q16;
	u64	u_old_q16, u_q16, u_max_q16;
	u64	bse_old_q16, bse_q16;
	u64	re_q16;
	u32	dt_us;		/* since the point before */
	u32	pkts;		/* segments delivered since it */
	u32	age_us;		/* since the clock's start */
	u32	rtt_us;		/* as used */
	u32	t_us;		/* T_k */
	u32	t_next_us;	/* T_(k+1) */
	u32	re_pkts;	/* segments over ... */
	u32	re_window_us;	/* ... this, for RE */
	u32	tau_us;
	u32	alpha_q20;
	u8	outcome;	/* ABSE_ */
};

/* Segments per second in Q16. us: not 0. The product is below 2^27 * 2^20 * 2^16. */
static inline u64 abse_rate_q16(u32 pkts, u32 us)
{
	u64 pkts_us = (u64)min_t(u32, pkts, ABSE_PKTS_MAX) * 1000000;

	return min_t(u64, div_u64(pkts_us << SATCC_Q16_SHIFT, us), ABSE_RATE_MAX);
}

/* rate * rtt in segments, Q8: 2^35 * 2^24 before the division. */
static inline u64 abse_pkts_q8(u64 rate_q16, u32 rtt_us)
{
	return div_u64((rate_q16 >> 8) * min_t(u32, rtt_us, ABSE_RTT_MAX_US), 1000000);
}

/* The window that a rate fills the path with: rate * RTT_min in segments, at least
 * 2; 0 = no estimate. The product is below 2^59, the window below 2^32.
 */
static inline u32 abse_window(u64 rate_q16, u32 min_rtt_us)
{
	u64 product = (rate_q16 >> 8) * min_t(u32, min_rtt_us, ABSE_RTT_MAX_US);

	if (!rate_q16 || !min_rtt_us)
		return 0;

	return clamp_t(u64, div_u64(product + 128 * 1000000ULL, 256 * 1000000U),
		       2, 0x7fffffff);
}

/* 3/5 and 2/5: rates are below 2^43. */
static inline u64 abse_smooth(u64 old_q16, u64 new_q16)
{
	return div_u64(3 * old_q16 + 2 * new_q16 + 2, 5);
}

static inline u32 abse_t_min_us(u32 rtt_us, u32 t_min_div)
{
	return max_t(u32, rtt_us / t_min_div, ABSE_T_MIN_US);
}

/* T_k: the round trip's part by which the window exceeds what gets through. rtt_us
 * below 2^25, the difference below 2^39.
 */
static inline u32 abse_interval_us(u64 th_q16, u32 cwnd, u32 rtt_us,
				   u32 min_rtt_us, u32 t_min_us)
{
	u64 through_q8 = abse_pkts_q8(th_q16, min_rtt_us);
	u64 cwnd_q8 = (u64)cwnd << 8;

	if (through_q8 >= cwnd_q8)
		return t_min_us;

	return max_t(u64, div64_u64(rtt_us * (cwnd_q8 - through_q8), cwnd_q8),
		     t_min_us);
}

/* tau. N RTT is below 50 * 2^24, the result below 51 * 2^24. */
static inline u32 abse_tau_us(u64 u_q16, u64 u_max_q16, u32 rtt_us, u32 tau_n)
{
	u64 part_q16;

	if (!u_max_q16)
		return rtt_us;
	part_q16 = div64_u64(u_q16 << SATCC_Q16_SHIFT, u_max_q16);

	return rtt_us + ((u64)rtt_us * tau_n * part_q16 >> SATCC_Q16_SHIFT);
}

/* alpha. tau_us: 1 .. 2^30, so that the divisor is below 2^32. */
static inline u32 abse_alpha_q20(u32 tau_us, u32 dt_us)
{
	u32 two_tau = 2 * tau_us;

	dt_us = min_t(u32, dt_us, two_tau);

	return div_u64((u64)(two_tau - dt_us) << ABSE_ALPHA_SHIFT, two_tau + dt_us);
}

/* BSE: between the two, whatever alpha. Below 2^43 * 2^20 + 2^19. */
static inline u64 abse_filter(u64 bse_q16, u64 s_q16, u32 alpha_q20)
{
	return (alpha_q20 * bse_q16 + (ABSE_ALPHA_ONE - alpha_q20) * s_q16 +
		ABSE_ALPHA_ONE / 2) >> ABSE_ALPHA_SHIFT;
}

static inline u64 abse_u_q16(const struct abse_history *hist)
{
	return hist->u_q16[(hist->u_next + ABSE_INSTABILITIES - 1) % ABSE_INSTABILITIES];
}

static inline void abse_add_u(struct abse_history *hist, u64 u_q16)
{
	hist->u_q16[hist->u_next] = u_q16;
	hist->u_next = (hist->u_next + 1) % ABSE_INSTABILITIES;
}

static inline u64 abse_u_max_q16(const struct abse_history *hist)
{
	u64 u_max = 0;
	u32 i;

	for (i = 0; i < ABSE_INSTABILITIES; i++)
		u_max = max_t(u64, u_max, hist->u_q16[i]);

	return u_max;
}

/* Stop the clock: what comes next has nothing to do with what was. */
static inline void abse_stop(struct abse *est)
{
	est->running = false;
}

static inline void abse_add(struct abse_history *hist, const struct abse_ack *ack)
{
	struct abse_point *point = &hist->points[hist->count++ % ABSE_POINTS];

	point->t_us = ack->now_us;
	point->pkts = ack->delivered;
}

/* The segments of the last round trip, and how long it was; see above. At least one
 * point is in the ring, and the last is older than the ACK by 1 ms or more and by less
 * than 2^31 us: the window is not 0.
 */
static inline u32 abse_round_trip(const struct abse_history *hist,
				  const struct abse_ack *ack, u32 rtt_us,
				  u32 *window_us)
{
	u32 oldest = hist->count > ABSE_POINTS ? hist->count - ABSE_POINTS : 0;
	const struct abse_point *point;
	u32 i = hist->count;

	do {
		point = &hist->points[--i % ABSE_POINTS];
		*window_us = (u32)ack->now_us - point->t_us;
	} while (*window_us < rtt_us && i != oldest);

	return ack->delivered - point->pkts;
}

static inline void abse_start(struct abse *est, struct abse_history *hist,
			      const struct abse_ack *ack)
{
	est->start_us = ack->now_us;
	est->start_pkts = ack->delivered;
	est->re_q16 = 0;
	est->running = true;
	est->train = !est->bse_q16;
	if (hist)
		hist->count = 0;
}

/* A sample of the first flight: it alone is the estimate. */
static inline void abse_train(struct abse *est, const struct abse_ack *ack, u32 age_us)
{
	est->s_q16 = abse_rate_q16(ack->delivered - est->start_pkts, age_us);
	est->th_q16 = est->s_q16;
	est->re_q16 = est->s_q16;
	est->bse_q16 = est->s_q16;
}

/* RE, Th, U and U_max, which take the history. */
static inline void abse_observe(struct abse *est, struct abse_history *hist,
				const struct abse_ack *ack,
				struct abse_sample *sample)
{
	u64 s_q16 = est->s_q16, s_old_q16 = sample->s_old_q16;
	u64 change = s_q16 > s_old_q16 ? s_q16 - s_old_q16 : s_old_q16 - s_q16;

	sample->re_pkts = abse_round_trip(hist, ack, sample->rtt_us,
					  &sample->re_window_us);
	est->re_q16 = abse_rate_q16(sample->re_pkts, sample->re_window_us);
	est->th_q16 = abse_smooth(est->th_q16, est->re_q16);

	sample->u_old_q16 = abse_u_q16(hist);
	sample->u_q16 = abse_smooth(sample->u_old_q16, change);
	abse_add_u(hist, sample->u_q16);
	sample->u_max_q16 = abse_u_max_q16(hist);
}

/* Sample k. Its dt is not 0: T is 1 ms and more. */
static inline void abse_estimate(struct abse *est, struct abse_history *hist,
				 const struct abse_ack *ack,
				 struct abse_sample *sample)
{
	est->s_q16 = abse_rate_q16(sample->pkts, sample->dt_us);
	if (hist)
		abse_observe(est, hist, ack, sample);
	else
		est->re_q16 = est->s_q16;

	if (ack->astart)
		sample->tau_us = sample->rtt_us * (1 + ack->tau_n);
	else
		sample->tau_us = abse_tau_us(sample->u_q16, sample->u_max_q16,
					     sample->rtt_us, ack->tau_n);
	sample->alpha_q20 = abse_alpha_q20(sample->tau_us, sample->dt_us);
	est->bse_q16 = abse_filter(est->bse_q16, est->s_q16, sample->alpha_q20);
	est->train = false;
}

/* What an ACK is, when segments were delivered and the clock runs. */
static inline u8 abse_outcome(const struct abse *est,
			      const struct abse_history *hist, u32 rtt_us,
			      u32 t_min_us, u64 age_us, u64 dt_us)
{
	u32 train_us = clamp_t(u32, rtt_us / 8, 1, ABSE_TRAIN_MIN_US);

	if (!est->bse_q16 && age_us >= rtt_us / 2)
		return ABSE_BLIND;
	if (est->train && (!est->bse_q16 || age_us < t_min_us))
		return age_us >= train_us ? ABSE_TRAIN : ABSE_NONE;
	if (age_us < t_min_us || dt_us < est->t_us)
		return ABSE_NONE;

	return hist ? ABSE_SAMPLE : ABSE_COARSE;
}

/* T of the sample that comes after this ACK, which was not ABSE_NONE. */
static inline u32 abse_next_us(const struct abse *est,
			       const struct abse_ack *ack, u8 outcome,
			       u32 rtt_us, u32 t_min_us)
{
	switch (outcome) {
	case ABSE_SAMPLE:
		return abse_interval_us(est->th_q16, ack->cwnd, rtt_us,
					ack->min_rtt_us, t_min_us);
	case ABSE_COARSE:
		return max_t(u32, rtt_us, ABSE_T_MIN_US);
	default:
		return t_min_us;
	}
}

/* Take an ACK. Returns what it is; then, unless that is ABSE_NONE, *sample is all of
 * it. hist may be NULL, but not now and then.
 */
static inline u8 abse_update(struct abse *est, struct abse_history *hist,
			     const struct abse_ack *ack, struct abse_sample *sample)
{
	u32 rtt_us = clamp_t(u32, ack->rtt_us, 1, ABSE_RTT_MAX_US);
	u32 t_min_us = abse_t_min_us(rtt_us, ack->t_min_div);
	u64 age_us = ack->now_us - est->start_us;
	u64 dt_us = ack->now_us - est->last_us;
	u32 pkts = ack->delivered - est->last_pkts;
	u8 outcome = ABSE_START;

	/* Times of points are of 32 bits. Half an hour of silence: nothing is left. */
	if (dt_us >> 31)
		abse_stop(est);

	if (est->running) {
		if (!pkts)
			return ABSE_NONE;
		outcome = abse_outcome(est, hist, rtt_us, t_min_us, age_us, dt_us);
		if (outcome == ABSE_NONE)
			return ABSE_NONE;
	}

	*sample = (struct abse_sample){
		.th_old_q16	= est->th_q16,
		.s_old_q16	= est->s_q16,
		.bse_old_q16	= est->bse_q16,
		.rtt_us		= rtt_us,
		.outcome	= outcome,
	};
	if (est->running) {
		sample->dt_us = min_t(u64, dt_us, 0xffffffff);
		sample->age_us = min_t(u64, age_us, 0xffffffff);
		sample->pkts = pkts;
		sample->t_us = est->t_us;
	}

	if (outcome < ABSE_TRAIN)
		abse_start(est, hist, ack);
	else if (outcome == ABSE_TRAIN)
		abse_train(est, ack, sample->age_us);
	else
		abse_estimate(est, hist, ack, sample);

	if (hist)
		abse_add(hist, ack);
	est->last_us = ack->now_us;
	est->last_pkts = ack->delivered;
	est->t_us = abse_next_us(est, ack, outcome, rtt_us, t_min_us);

	sample->t_next_us = est->t_us;
	sample->th_q16 = est->th_q16;
	sample->s_q16 = est->s_q16;
	sample->re_q16 = est->re_q16;
	sample->bse_q16 = est->bse_q16;

	return outcome;
}

#endif /* _ABSE_H */
