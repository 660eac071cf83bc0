// SPDX-License-Identifier: GPL-2.0
/* TCP Westwood with Adaptive Bandwidth Share Estimation (ABSE) and Astart: for
 * paths that lose segments without being full, a satellite hop above all. What a
 * loss reduces the window to is not half of it, but what the ACKs say gets through:
 *
 *   b = max(BSE, RE) * RTT_min   in segments; BSE filtered (abse.h), RE the rate over
 *                                the last round trip
 *
 *   three dupacks:  ssthresh = b, and W = min(W, b)
 *   timeout:        ssthresh = b, and W = 1
 *   growth:         slow start below ssthresh, else 1/W per segment: Reno's
 *
 * A loss in a path that is not full leaves W alone, one in a full path empties the
 * queue. Where W is below b, slow start goes on up to b, in recovery too: with one
 * segment lost in a hundred and more than a hundred in flight one recovery follows
 * the other, and a window that waits for their end never grows. This is why the
 * policy is a ->cong_control(): the core's own recovery keeps the flight at what it
 * was, whatever ssthresh says.
 *
 *                    loss, mark                  high_seq ACKed
 *        ASTART ----------------> RECOVERY, CWR ----------------> NORMAL
 *        ^    ^                    |         ^                      |
 *        |    +----- timeout ------+         +----- loss, mark -----+
 *   init, if ssthresh is unknown
 *
 * Astart: ssthresh starts small, not infinite, and rises with the estimate,
 * ssthresh = max(ssthresh, b) at every ACK: growth is exponential as far as the
 * estimate reaches and linear beyond.
 *
 * Both papers leave a flow at an estimate that is too low, and there it stays, since b
 * is then no more than what the flow sends: where ACKs are merged or come in bunches
 * from the start, where the share grew, where a random loss came early. So once a round
 * trip in which no queue showed the policy looks for more:
 *
 *   ASTART   if W came near ssthresh and nothing was lost: ssthresh = 5/4 W, then
 *            3/2 W, each with a round trip to wait for what comes of it, then 2 W; 2 W
 *            at once if the first flight was no estimate
 *   others   ssthresh = 5/4 RE RTT_min, every second round trip; where RE does
 *            not follow, after 2, 4, 8 of them
 *
 * A queue shows when the smallest RTT of a round trip is above RTT_min by an eighth, or
 * 4 ms. By the smallest, because return links add what they like to single ones.
 *
 * Why was a segment lost? Where the smallest RTT of the round trip so far is above
 * RTT_min by 1/32, or 2 ms, there was a queue and it was full: BSE is what RE is, W
 * becomes b and not more than 85 % of W, nothing grows until recovery is over, and
 * nothing is looked for in 16 round trips. The 85 % are for queues so short that b is
 * W. An ECN mark, or a full queue on this host, leaves 80 % of W at most (RFC 8511), and
 * is alike else. Any other loss is the air's: ssthresh is b, also above W.
 *
 * A window stands on a flight: in recovery it is at most twice what is in flight and was
 * just delivered. One ACK never more than doubles a window, and without SACK, where one
 * may deliver what came in round trips before, it counts for two segments at most.
 *
 * Life of a flow at 600 ms, 2 Mbit/s, 1500 byte segments: ten segments go out. Their
 * ACKs are 6 ms apart: after the fourth BSE is 165 per second, ssthresh 100, and slow
 * start goes there in four round trips. No queue shows: ssthresh is 125, then one
 * does, and growth is linear. A segment is lost on the air: b is what the window
 * fetched, ssthresh and window stay what they are.
 *
 * What the core leaves to a ->cong_control() and is here: the window in recovery and
 * at its end, the pacing rate, and the restart after idleness. All else is the core's.
 *
 * Based on:
 *   R. Wang, M. Valla, M. Y. Sanadidi, M. Gerla, "Adaptive Bandwidth Share
 *   Estimation in TCP Westwood", IEEE Globecom 2002.
 *   R. Wang, G. Pau, K. Yamada, M. Y. Sanadidi, M. Gerla, "TCP Startup Performance
 *   in Large Bandwidth Delay Networks", IEEE Infocom 2004 (Astart).
 *
 * Differences from the papers: see README.md.
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "abse.h"
#include "compat.h"
#include "core_state.h"
#include "growth.h"
#include "info.h"
#include "owner.h"
#include "pacing.h"
#include "param.h"

/* Per flow. Written under the socket lock; owner, b_pkts, min_rtt_us and rtt_us are
 * also read by get_info(), without it.
 */
struct westwood {
	u32	owner;			/* whose these bytes are, see owner.h */
	u32	b_pkts;			/* max(BSE, RE) * RTT_min; 0 = no estimate */
	u32	min_rtt_us;		/* RTT_min; 0 = no sample */
	u32	rtt_us;			/* last RTT sample; 0 = none */
	struct abse est;		/* the estimator */
	u32	min_rtt_prior_us;	/* RTT_min before a timeout; 0 = none to undo to */
	u32	round_delivered;	/* tp->delivered at the round trip's start */
	u32	round_lost;		/* tp->lost likewise */
	u32	round_rtt_us;		/* its smallest RTT; 0 = no sample */
	u32	probe_pkts;		/* RE * RTT_min when NORMAL last probed; 0 = not */
	u32	cut_delivered;		/* tp->delivered at the last reduction */
	u32	acked_64us;		/* time of the last ACK; wraps in 76 hours */
	u8	wait;			/* round trips until the next probe */
	u8	backoff;		/* 0 = probes bring something */
	u8	raised;			/* probes of Astart that showed no queue, up to 2 */
	bool	astart;			/* in Astart */
	bool	astart_prior;		/* the same, before a reduction */
	bool	rearm;			/* RTT_min is to be the next sample */
	bool	tolerate;		/* the last reduction was for a loss without a queue */
	bool	marked;			/* a mark has been obeyed since then */
	bool	reduced;		/* ssthresh() was asked, and the state is to change */
	bool	in_ack;			/* between ->in_ack_event() and the ACK's end */
	bool	ece;			/* this ACK echoes a mark */
};

/* Off, ssthresh rises with the estimate alone, as in the papers. */
SATCC_PARAM(probe, 1, 0, 1);
MODULE_PARM_DESC(probe, "look for more than the estimate while no queue shows (0/1, default 1)");

/* What a mark leaves, percent: RFC 8511's. */
#define WESTWOOD_MARK_PCT	80

/* A queue shows from here on. An eighth of the round trip is what HyStart takes; return
 * links in time slots of 45 ms stay below it at 600 ms.
 */
#define WESTWOOD_QUEUE_DIV	8
#define WESTWOOD_QUEUE_MIN_US	4000

/* And at a loss from here on it is full: a third of a queue of a tenth of the
 * bandwidth-delay product, and more than hosts delay a segment by.
 */
#define WESTWOOD_FULL_DIV	32
#define WESTWOOD_FULL_MIN_US	2000

/* What such a loss leaves at most, percent, and round trips without looking for more.
 * Chosen beside two cubic flows at 250 ms and a queue of a tenth of the
 * bandwidth-delay product: without the wait they are left with an eighth.
 */
#define WESTWOOD_FULL_PCT	85
#define WESTWOOD_FULL_WAIT	16

/* Probes of Astart are 5/4, 3/2 and then 2. */
#define WESTWOOD_RAISED_MAX	2

/* Probes that bring nothing: the longest wait, round trips. */
#define WESTWOOD_BACKOFF_MAX	8

/* The window after idleness is not cut below this (RFC 6928). */
#define WESTWOOD_RESTART_PKTS	10

/* The shortest idleness that counts (RFC 6298's first timeout). */
#define WESTWOOD_IDLE_MIN_US	USEC_PER_SEC

static struct tcp_congestion_ops tcp_westwood_abse;
static void westwood_init(struct sock *sk);

static struct westwood *westwood_state(struct sock *sk)
{
	struct westwood *ca = inet_csk_ca(sk);

	if (!satcc_owned(sk, READ_ONCE(ca->owner), &tcp_westwood_abse))
		westwood_init(sk);

	return ca;
}

static u32 westwood_srtt_us(const struct tcp_sock *tp)
{
	return tp->srtt_us >> 3;
}

/* Is an RTT above RTT_min by a part of it, and by least_us? */
static bool westwood_is_above(const struct westwood *ca, u32 rtt_us, u32 div, u32 least_us)
{
	return rtt_us > ca->min_rtt_us + max(ca->min_rtt_us / div, least_us);
}

static bool westwood_is_queue(const struct westwood *ca, u32 rtt_us)
{
	return westwood_is_above(ca, rtt_us, WESTWOOD_QUEUE_DIV, WESTWOOD_QUEUE_MIN_US);
}

/* Was what is lost now lost to a queue that is full? By the smallest RTT of the round trip
 * so far: what one ACK was late by may be the return link's.
 */
static bool westwood_is_full(const struct westwood *ca)
{
	return westwood_is_above(ca, ca->round_rtt_us ? ca->round_rtt_us : ca->rtt_us,
				 WESTWOOD_FULL_DIV, WESTWOOD_FULL_MIN_US);
}

/* b follows BSE, RE and RTT_min. */
static void westwood_update_b(struct westwood *ca)
{
	u32 rate_q8 = ca->est.bse_q8 ? max(ca->est.bse_q8, ca->est.re_q8) : 0;

	WRITE_ONCE(ca->b_pkts, abse_window(rate_q8, ca->min_rtt_us));
}

/* Take an RTT sample; <= 0: none, ambiguous after a retransmission. RTT_min is no older
 * than the core's (net.ipv4.tcp_min_rtt_wlen, 300 s), and measured anew after a
 * timeout: the path may have become another.
 */
static void westwood_update_rtt(struct sock *sk, struct westwood *ca, long rtt_us)
{
	u32 bound_us = tcp_min_rtt(tcp_sk(sk));

	if (rtt_us > 0) {
		rtt_us = min_t(long, rtt_us, ABSE_RTT_MAX_US);
		WRITE_ONCE(ca->rtt_us, rtt_us);
		if (!ca->round_rtt_us || rtt_us < ca->round_rtt_us)
			ca->round_rtt_us = rtt_us;
		if (!ca->min_rtt_us || ca->rearm || rtt_us < ca->min_rtt_us) {
			ca->rearm = false;
			WRITE_ONCE(ca->min_rtt_us, rtt_us);
		}
	}
	if (bound_us != ~0U && ca->min_rtt_us && ca->min_rtt_us < bound_us)
		WRITE_ONCE(ca->min_rtt_us, min_t(u32, bound_us, ABSE_RTT_MAX_US));
}

/* Is what was delivered so far limited by the application and not by the path?
 * The core's mark does not see small writes that wait for each other's ACKs; those
 * must not be the estimate that others are measured by, so the first is only taken
 * from a full window.
 */
static bool westwood_app_limited(const struct sock *sk, const struct westwood *ca)
{
	return tcp_sk(sk)->app_limited || (!ca->est.bse_q8 && !tcp_is_cwnd_limited(sk));
}

/* Time since the last ACK. */
static u64 westwood_gap_us(const struct tcp_sock *tp, const struct westwood *ca)
{
	return (u64)((u32)(tp->tcp_mstamp >> 6) - ca->acked_64us) << 6;
}

/* Give this ACK to the estimator. */
static void westwood_estimate(struct sock *sk, struct westwood *ca,
			      const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct abse_ack ack = {
		.now_us		= tp->tcp_mstamp,
		.delivered	= tp->delivered,
		.cwnd		= tcp_snd_cwnd(tp),
		.rtt_us		= westwood_srtt_us(tp),
		.min_rtt_us	= ca->min_rtt_us,
		.gap_us		= min_t(u64, westwood_gap_us(tp, ca), ABSE_RTT_MAX_US),
		.slow		= ca->astart || tcp_snd_cwnd(tp) < ca->b_pkts,
	};

	if (!ca->min_rtt_us)
		return;
	if (westwood_app_limited(sk, ca)) {
		abse_stop(&ca->est);
		return;
	}
	if (rs->delivered > 0 && rs->interval_us > 0)
		ca->est.re_q8 = abse_rate_q8(rs->delivered,
					     min_t(long, rs->interval_us, INT_MAX));
	if (abse_update(&ca->est, &ack) == ABSE_BLIND)
		ca->raised = WESTWOOD_RAISED_MAX;
	westwood_update_b(ca);
}

static void westwood_raise_ssthresh(struct tcp_sock *tp, u64 target)
{
	target = min_t(u64, target, TCP_INFINITE_SSTHRESH - 1);
	if (target > tp->snd_ssthresh)
		tp->snd_ssthresh = target;
}

/* Astart: ssthresh rises with the estimate. It is set here and not by init(), after which
 * the end of the handshake may reset it, or a listener's child get another policy.
 */
static void westwood_astart(struct sock *sk, const struct westwood *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH)
		tp->snd_ssthresh = 2 * min_t(u32, tcp_snd_cwnd(tp), INT_MAX / 4);
	westwood_raise_ssthresh(tp, ca->b_pkts);
}

/* A round trip of Astart has passed without a loss or a queue. Its end may show one: the
 * window has grown since.
 */
static void westwood_probe_start(struct sock *sk, struct westwood *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 cwnd = tcp_snd_cwnd(tp);

	if (westwood_is_queue(ca, ca->rtt_us) ||
	    (ca->raised < WESTWOOD_RAISED_MAX && cwnd < tp->snd_ssthresh - tp->snd_ssthresh / 8))
		return;
	if (ca->wait) {
		ca->wait--;
		return;
	}
	switch (ca->raised) {
	case 0:
		westwood_raise_ssthresh(tp, cwnd + cwnd / 4);
		break;
	case 1:
		westwood_raise_ssthresh(tp, cwnd + cwnd / 2);
		break;
	default:
		westwood_raise_ssthresh(tp, 2 * cwnd);
	}
	ca->wait = ca->raised < WESTWOOD_RAISED_MAX;
	ca->raised = min(ca->raised + 1, WESTWOOD_RAISED_MAX);
}

/* A round trip of NORMAL has passed without a queue. */
static void westwood_probe(struct sock *sk, struct westwood *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 re_pkts = abse_window(ca->est.re_q8, ca->min_rtt_us);

	if (ca->wait) {
		ca->wait--;
		return;
	}
	if (ca->probe_pkts && re_pkts < (u64)ca->probe_pkts * 17 / 16) {
		ca->backoff = clamp(2 * ca->backoff, 2, WESTWOOD_BACKOFF_MAX);
		ca->wait = ca->backoff;
		ca->probe_pkts = 0;
		return;
	}
	ca->probe_pkts = re_pkts;
	ca->wait = 1;
	ca->tolerate = true;
	westwood_raise_ssthresh(tp, (u64)re_pkts * 5 / 4);
}

/* Once a round trip: the segments sent since the last time have come to be ACKed. */
static void westwood_round(struct sock *sk, struct westwood *ca,
			   const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u8 state = inet_csk(sk)->icsk_ca_state;
	u32 rtt_us = ca->round_rtt_us;
	u32 lost;

	if (rs->delivered <= 0 || before(rs->prior_delivered, ca->round_delivered))
		return;
	lost = tp->lost - ca->round_lost;
	ca->round_delivered = tp->delivered;
	ca->round_lost = tp->lost;
	ca->round_rtt_us = 0;

	if (!rtt_us || westwood_is_queue(ca, rtt_us)) {
		ca->raised = 0;
		ca->backoff = 0;
		ca->probe_pkts = 0;
		return;
	}
	if (!satcc_param(probe) || !ca->b_pkts || westwood_app_limited(sk, ca) ||
	    state == TCP_CA_CWR || ca->marked)
		return;
	if (ca->astart && !lost)
		westwood_probe_start(sk, ca);
	else if (!ca->astart)
		westwood_probe(sk, ca);
}

/* What a mark leaves of a window. */
static u32 westwood_part(u32 cwnd)
{
	return max_t(u32, div_u64((u64)cwnd * WESTWOOD_MARK_PCT, 100), 2);
}

/* Obey a mark, or a queue of this host that is full: once for every reduction. */
static void westwood_mark(struct sock *sk, struct westwood *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	ca->marked = true;
	ca->tolerate = false;
	ca->wait = WESTWOOD_FULL_WAIT;
	tp->snd_ssthresh = min(tp->snd_ssthresh, westwood_part(tp->prior_cwnd));
}

/* What ssthresh is after a loss. To a full queue: b by RE, for BSE may be what the path had
 * before. To the air: b, or what is being looked for.
 */
static u32 westwood_reduced(struct sock *sk, struct westwood *ca, bool full)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 part = div_u64((u64)tcp_snd_cwnd(tp) * WESTWOOD_FULL_PCT, 100);

	ca->tolerate = ca->b_pkts && !full;
	if (full && !ca->astart)
		ca->wait = WESTWOOD_FULL_WAIT;
	if (!ca->b_pkts)
		return tcp_reno_ssthresh(sk);
	if (!full)
		return ca->probe_pkts ? max(ca->b_pkts, tp->snd_ssthresh) : ca->b_pkts;

	if (ca->est.re_q8 < ca->est.bse_q8) {
		ca->est.bse_q8 = ca->est.re_q8;
		westwood_update_b(ca);
	}

	return max(min(ca->b_pkts, part), 2U);
}

/* A loss in a recovery that grew: the core does not ask for an ssthresh again. Once a round
 * trip.
 */
static void westwood_lost_again(struct sock *sk, struct westwood *ca,
				const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!ca->tolerate || rs->losses <= 0 || rs->delivered <= 0 ||
	    before(rs->prior_delivered, ca->cut_delivered) || !westwood_is_full(ca))
		return;

	ca->cut_delivered = tp->delivered;
	tp->snd_ssthresh = min(tp->snd_ssthresh, westwood_reduced(sk, ca, true));
}

/* The window in CWR and Recovery, when segments were delivered. Above ssthresh one
 * segment goes out for two that were delivered, and below it slow start goes on, up to
 * ssthresh, or b if the loss was none of the path's; but a window is no more than twice
 * its flight. prr_delivered counts from where the flight was last below ssthresh, as
 * twice what had gone out by then; the core only zeroes it for us.
 */
static u32 westwood_recover(struct sock *sk, const struct westwood *ca, u32 acked)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 flight = tcp_packets_in_flight(tp), limit = max(tp->snd_ssthresh, 1U);
	u64 cwnd = max(tcp_snd_cwnd(tp), flight);

	if (ca->tolerate)
		limit = max(limit, ca->b_pkts);
	if (flight > limit) {
		satcc_set_prr_delivered(sk, satcc_prr_delivered(sk) + acked);
		return flight + max_t(s32, satcc_prr_delivered(sk) / 2 - tp->prr_out,
				      tp->prr_out ? 0 : 1);
	}
	satcc_set_prr_delivered(sk, 2 * tp->prr_out);

	return min3(cwnd + acked, (u64)limit, 2 * ((u64)flight + acked));
}

/* The window in the other states: Reno's. */
static void westwood_grow(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;

	acked = min(acked, tcp_snd_cwnd(tp));
	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), acked);
}

/* As the core does it for others. Where Astart doubles ssthresh each round trip, half of
 * ssthresh is where slow start is all the time.
 */
static void westwood_pace(struct sock *sk, const struct westwood *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct netns_ipv4 *ipv4 = &sock_net(sk)->ipv4;
	u64 rate = (u64)tp->mss_cache * ((USEC_PER_SEC / 100) << 3);
	u32 limit = tp->snd_ssthresh;

	if (!tp->srtt_us)
		return;
	if (ca->tolerate && inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery)
		limit = max(limit, ca->b_pkts);
	if (!ca->astart || ca->raised < WESTWOOD_RAISED_MAX)
		limit /= 2;
	rate *= tcp_snd_cwnd(tp) < limit ? READ_ONCE(ipv4->sysctl_tcp_pacing_ss_ratio) :
					   READ_ONCE(ipv4->sysctl_tcp_pacing_ca_ratio);
	rate *= max(tcp_snd_cwnd(tp), tcp_packets_in_flight(tp));
	rate = div_u64(rate, tp->srtt_us);
	WRITE_ONCE(sk->sk_pacing_rate,
		   min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

static void westwood_main(struct sock *sk, SATCC_ACK_FLAG const struct rate_sample *rs)
{
	struct westwood *ca = westwood_state(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u8 state = inet_csk(sk)->icsk_ca_state;
	u32 acked = satcc_counted(tp, rs->acked_sacked), cwnd;

	westwood_update_rtt(sk, ca, rs->rtt_us);
	westwood_estimate(sk, ca, rs);
	if (ca->ece && !ca->marked && state > TCP_CA_CWR)
		westwood_mark(sk, ca);
	if (state == TCP_CA_Recovery)
		westwood_lost_again(sk, ca, rs);
	westwood_round(sk, ca, rs);
	if (ca->astart)
		westwood_astart(sk, ca);

	if (acked && (state == TCP_CA_CWR || state == TCP_CA_Recovery)) {
		cwnd = westwood_recover(sk, ca, acked);
		tcp_snd_cwnd_set(tp, min3(cwnd, tp->snd_cwnd_clamp, (u32)INT_MAX));
	} else if (acked) {
		westwood_grow(sk, acked);
	}
	westwood_pace(sk, ca);

	ca->acked_64us = tp->tcp_mstamp >> 6;
	ca->in_ack = false;
	ca->ece = false;
}

/* Called for every ACK, before the core decides what it means. */
static void westwood_in_ack_event(struct sock *sk, u32 flags)
{
	struct westwood *ca = westwood_state(sk);

	ca->in_ack = true;
	ca->ece = flags & CA_ACK_ECE;
}

/* A reduction begins, and why is not known yet: see westwood_set_state(). */
static u32 westwood_ssthresh(struct sock *sk)
{
	struct westwood *ca = westwood_state(sk);
	u32 ssthresh;

	ca->astart_prior = ca->astart;
	ca->min_rtt_prior_us = 0;
	ca->reduced = true;
	ca->marked = false;
	ca->cut_delivered = tcp_sk(sk)->delivered;

	ssthresh = westwood_reduced(sk, ca, westwood_is_full(ca));

	return ca->ece ? min(ssthresh, westwood_part(tcp_snd_cwnd(tcp_sk(sk)))) : ssthresh;
}

/* The reduction was for nothing, and so was the end or start of Astart and a new
 * RTT_min. The core restores an ssthresh of before only if it is above the present one.
 */
static u32 westwood_undo_cwnd(struct sock *sk)
{
	struct westwood *ca = westwood_state(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->prior_ssthresh)
		tp->snd_ssthresh = tp->prior_ssthresh;
	ca->astart = ca->astart_prior;
	ca->tolerate = false;
	ca->rearm = false;
	if (ca->min_rtt_prior_us && ca->min_rtt_prior_us < ca->min_rtt_us)
		WRITE_ONCE(ca->min_rtt_us, ca->min_rtt_prior_us);
	ca->min_rtt_prior_us = 0;
	westwood_update_b(ca);

	return tcp_reno_undo_cwnd(sk);
}

/* Called before the state changes. What a reduction is for, the core says by the state
 * that follows: CWR is for a mark or for a full queue of this host, but for a tail loss
 * that a probe has repaired it is CWR, too, and over within the same ACK. Loss without
 * a reduction is no timeout: the core sends again what was too long for the path, or what
 * a SYN had brought and the peer did not take. Astart goes on.
 */
static void westwood_set_state(struct sock *sk, u8 new_state)
{
	struct westwood *ca = westwood_state(sk);
	u8 old_state = inet_csk(sk)->icsk_ca_state;
	struct tcp_sock *tp = tcp_sk(sk);

	if (new_state == TCP_CA_Loss && (ca->reduced || old_state == TCP_CA_Loss)) {
		ca->astart = true;
		if (!ca->min_rtt_prior_us)
			ca->min_rtt_prior_us = ca->min_rtt_us;
		ca->rearm = true;
	} else if (new_state > TCP_CA_Disorder) {
		if (new_state != TCP_CA_Loss)
			ca->astart = false;
		if (ca->ece || (new_state == TCP_CA_CWR && !ca->in_ack))
			westwood_mark(sk, ca);
	} else {
		ca->min_rtt_prior_us = 0;
		ca->marked = false;
		if (old_state == TCP_CA_CWR ||
		    (old_state == TCP_CA_Recovery && tp->undo_marker)) {
			if (ca->tolerate)
				westwood_raise_ssthresh(tp, ca->b_pkts);
			tcp_snd_cwnd_set(tp, max(min(tcp_snd_cwnd(tp), tp->snd_ssthresh), 1U));
		}
	}
	ca->reduced = false;
}

/* Nothing was in flight, and a segment leaves. If that is not because all were lost,
 * the clock of the estimator starts anew; and after idleness the window is halved for
 * every timeout's time, as the core does it for others.
 */
static void westwood_tx_start(struct sock *sk)
{
	struct westwood *ca = westwood_state(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tcp_snd_cwnd(tp), least = min_t(u32, cwnd, WESTWOOD_RESTART_PKTS);
	u64 idle_us = westwood_gap_us(tp, ca);
	u32 timeout_us = max_t(u32, 2 * westwood_srtt_us(tp), WESTWOOD_IDLE_MIN_US);

	ca->in_ack = false;
	ca->ece = false;
	if (tp->packets_out || idle_us <= abse_t_min_us(westwood_srtt_us(tp)))
		return;
	abse_stop(&ca->est);
	if (!ca->acked_64us || !READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle))
		return;

	if (idle_us > timeout_us)
		tp->snd_ssthresh = tcp_current_ssthresh(sk);
	for (; idle_us > timeout_us && cwnd > least; idle_us -= timeout_us)
		cwnd /= 2;
	tcp_snd_cwnd_set(tp, max(cwnd, least));
	westwood_pace(sk, ca);
}

static void westwood_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		westwood_tx_start(sk);
}

/* Before, in or long after the handshake, and on bytes of another policy. */
static void westwood_init(struct sock *sk)
{
	struct westwood *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	memset(ca, 0, sizeof(*ca));
	WRITE_ONCE(ca->owner, satcc_owner(sk, &tcp_westwood_abse));
	ca->round_delivered = tp->delivered;
	ca->round_lost = tp->lost;
	westwood_update_rtt(sk, ca, tcp_min_rtt(tp) == ~0U ? 0 : tcp_min_rtt(tp));
	ca->astart = tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH;
	satcc_pacing_enable(sk);
	westwood_pace(sk, ca);
}

/* Segments delivered, but not in order, stay in the buffer until a hole before them is
 * filled: a round trip and more where one recovery follows the other.
 */
static u32 westwood_sndbuf_expand(struct sock *sk)
{
	return 3;
}

static u32 __maybe_unused westwood_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, true);
}

/* In the slot of Vegas, which ss(8) knows: enabled = there is an estimate, rttcnt =
 * b in segments, rtt = last sample, minrtt = RTT_min; us.
 */
static size_t westwood_get_info(struct sock *sk, u32 ext, int *attr,
				union tcp_cc_info *info)
{
	const struct westwood *ca = inet_csk_ca(sk);
	u32 b_pkts = READ_ONCE(ca->b_pkts);

	if (!satcc_owned(sk, READ_ONCE(ca->owner), &tcp_westwood_abse))
		return 0;

	return satcc_vegas_info(ext, attr, info, b_pkts, b_pkts,
				READ_ONCE(ca->rtt_us), READ_ONCE(ca->min_rtt_us));
}

static struct tcp_congestion_ops tcp_westwood_abse __read_mostly = {
	.init		= westwood_init,
	.ssthresh	= westwood_ssthresh,
	.undo_cwnd	= westwood_undo_cwnd,
	.cong_control	= westwood_main,
	.in_ack_event	= westwood_in_ack_event,
	.set_state	= westwood_set_state,
	.cwnd_event	= westwood_cwnd_event,
	SATCC_TX_START(westwood_tx_start)
	SATCC_MIN_TSO_SEGS(westwood_min_tso_segs)
	.sndbuf_expand	= westwood_sndbuf_expand,
	.get_info	= westwood_get_info,
	.owner		= THIS_MODULE,
	.name		= "westwood_abse",
};

static int __init westwood_register(void)
{
	BUILD_BUG_ON(sizeof(struct westwood) > ICSK_CA_PRIV_SIZE);

	return tcp_register_congestion_control(&tcp_westwood_abse);
}

static void __exit westwood_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_westwood_abse);
}

module_init(westwood_register);
module_exit(westwood_unregister);

MODULE_AUTHOR("satcc authors");
MODULE_DESCRIPTION("TCP Westwood with Adaptive Bandwidth Share Estimation and Astart");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1");
