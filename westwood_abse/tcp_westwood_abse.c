// SPDX-License-Identifier: GPL-2.0
/* TCP Westwood with Adaptive Bandwidth Share Estimation (ABSE) and Astart, for paths
 * such as satellite hops that lose segments without being full. A loss reduces the
 * window not to half, but to the share of the bottleneck that the ACKs show:
 *
 *   b = max(BSE, RE) * RTT_min   in segments; BSE filtered (abse.h), RE the rate over
 *                                the last round trip
 *
 *   three dupacks:  ssthresh = b, and W = min(W, b)
 *   timeout:        ssthresh = b, and W = 1
 *   growth:         slow start below ssthresh, else 1/W per segment: Reno's
 *
 * A loss on a path that is not full does not change W; a loss on a full path empties
 * the queue. While W is below b, slow start continues up to b, in recovery too: with
 * 1 % loss and more than a hundred segments in flight, one recovery follows the other,
 * and a window that waits for their end never grows. For this the policy needs
 * ->cong_control(), because the core's own recovery does not let the flight grow, at
 * any ssthresh.
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
 * With the papers' rules an estimate that is too low stays too low, because b is then
 * no more than the flow's own rate. It is too low if ACKs are merged or bunched from
 * the start, if the share has grown, or after an early random loss. So after each round
 * trip without a queue the policy probes for more:
 *
 *   ASTART   If W came near ssthresh and nothing was lost: ssthresh = 5/4 W, then
 *            3/2 W, each followed by one round trip of waiting, then 2 W. If the first
 *            flight gave no estimate, ssthresh = 2 W at once.
 *   others   ssthresh = 5/4 RE RTT_min every second round trip. When RE does not
 *            follow, the policy waits for 2, then 4, then 8 round trips.
 *
 * There is a queue when the smallest RTT of a round trip exceeds RTT_min by more than
 * max(RTT_min / 8, 4 ms). The policy uses the smallest RTT because return links may
 * delay single ACKs by any time.
 *
 * At each loss the policy decides whether a full queue caused it. It did if the smallest
 * RTT of the round trip so far exceeds RTT_min by more than max(RTT_min / 32, 2 ms). Then
 * BSE falls to RE, W becomes b but at most 85 % of W, W does not grow until recovery is
 * over, and the policy does not probe for 16 round trips; after the loss that ends Astart
 * it may probe at once. The 85 % are for queues so short that b is W. An ECN mark, or a
 * full queue on this host, leaves at most 80 % of W (RFC 8511) and also stops growth and
 * probes. Any other loss is random: ssthresh is b, even above W.
 *
 * In recovery the window is at most twice the sum of the flight and the segments just
 * delivered. One ACK at most doubles the window. Without SACK an ACK may deliver segments
 * that arrived round trips ago, so it counts for at most two segments.
 *
 * Example at 600 ms, 2 Mbit/s, 1500 byte segments: the flow sends ten segments. Their
 * ACKs arrive 6 ms apart. After the fourth ACK BSE is 165 per second and ssthresh is
 * 100, which slow start reaches in four round trips. There is no queue, so ssthresh
 * becomes 125; then there is a queue, and growth is linear. When a segment is lost at
 * random, b equals the window's delivery rate times RTT_min, and neither ssthresh nor
 * the window changes.
 *
 * The core leaves to a ->cong_control() the window in recovery and at its end, the pacing
 * rate, and the restart after idle; these are here. The core does everything else.
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
#include "info.h"
#include "owner.h"
#include "pacing.h"
#include "param.h"
#include "socket.h"

/* Per flow. Written under the socket lock; owner, b_pkts, min_rtt_us and rtt_us are
 * also read by get_info(), without it.
 */
struct westwood {
	u32	owner;			/* policy and socket of these bytes, see owner.h */
	u32	b_pkts;			/* max(BSE, RE) * RTT_min; 0 = no estimate */
	u32	min_rtt_us;		/* RTT_min; 0 = no sample */
	u32	rtt_us;			/* last RTT sample; 0 = none */
	struct abse est;		/* the estimator */
	u32	min_rtt_prior_us;	/* RTT_min before a timeout, for undo; 0 = none */
	u32	round_delivered;	/* tp->delivered at the round trip's start */
	u32	round_lost;		/* tp->lost at the round trip's start */
	u32	round_rtt_us;		/* smallest RTT of the round trip; 0 = no sample */
	u32	probe_pkts;		/* RE * RTT_min at the last probe of NORMAL; 0 = none */
	u32	cut_delivered;		/* tp->delivered at the last reduction */
	u32	acked_64us;		/* time of the last ACK; wraps in 76 hours */
	u8	wait;			/* round trips until the next probe */
	u8	backoff;		/* round trips after a failed probe; 0 = none failed */
	u8	raised;			/* probes of Astart that showed no queue, up to 2 */
	bool	astart;			/* in Astart */
	bool	astart_prior;		/* astart before the last reduction */
	bool	rearm;			/* the next RTT sample becomes RTT_min */
	bool	tolerate;		/* the last reduction was for a loss without a queue */
	bool	marked;			/* a mark has reduced the window since then */
	bool	reduced;		/* the core called ssthresh(); set_state() follows */
	bool	in_ack;			/* between ->in_ack_event() and the ACK's end */
	bool	ece;			/* this ACK echoes a mark */
};

/* With 0, ssthresh rises with the estimate alone, as in the papers. */
SATCC_PARAM(probe, 1, 0, 1);
MODULE_PARM_DESC(probe, "look for more than the estimate while no queue shows (0/1, default 1)");

/* Percentage of the window left after a mark (RFC 8511). */
#define WESTWOOD_MARK_PCT	80

/* An RTT above RTT_min by more than this means a queue. HyStart uses an eighth of the RTT
 * too. At 600 ms, return links with time slots of 45 ms stay below it.
 */
#define WESTWOOD_QUEUE_DIV	8
#define WESTWOOD_QUEUE_MIN_US	4000

/* At a loss, an RTT above RTT_min by more than this means that the queue was full. It is a
 * third of a queue of 0.1 BDP, and longer than hosts delay a segment.
 */
#define WESTWOOD_FULL_DIV	32
#define WESTWOOD_FULL_MIN_US	2000

/* A loss in a full queue leaves this percentage of the window at most, and stops probes for
 * this many round trips. Chosen beside two cubic flows at 250 ms with a queue of 0.1 BDP:
 * without the wait the cubic flows get an eighth.
 */
#define WESTWOOD_FULL_PCT	85
#define WESTWOOD_FULL_WAIT	16

/* Probes of Astart raise ssthresh to 5/4, 3/2, and from then on 2 times the window. */
#define WESTWOOD_RAISED_MAX	2

/* The longest wait after a failed probe, in round trips. */
#define WESTWOOD_BACKOFF_MAX	8

/* Idle time does not cut the window below this (RFC 6928). */
#define WESTWOOD_RESTART_PKTS	10

/* The shortest idle time that counts (RFC 6298's first timeout). */
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

/* Does an RTT exceed RTT_min by more than max(RTT_min / div, least_us)? */
static bool westwood_is_above(const struct westwood *ca, u32 rtt_us, u32 div, u32 least_us)
{
	return rtt_us > ca->min_rtt_us + max(ca->min_rtt_us / div, least_us);
}

static bool westwood_is_queue(const struct westwood *ca, u32 rtt_us)
{
	return westwood_is_above(ca, rtt_us, WESTWOOD_QUEUE_DIV, WESTWOOD_QUEUE_MIN_US);
}

/* Would a loss now be due to a full queue? This uses the smallest RTT of the round trip so
 * far, because the return link may delay a single ACK.
 */
static bool westwood_is_full(const struct westwood *ca)
{
	return westwood_is_above(ca, ca->round_rtt_us ? ca->round_rtt_us : ca->rtt_us,
				 WESTWOOD_FULL_DIV, WESTWOOD_FULL_MIN_US);
}

/* Compute b from BSE, RE and RTT_min. */
static void westwood_update_b(struct westwood *ca)
{
	u32 rate_q8 = ca->est.bse_q8 ? max(ca->est.bse_q8, ca->est.re_q8) : 0;

	WRITE_ONCE(ca->b_pkts, abse_window(rate_q8, ca->min_rtt_us));
}

/* Add an RTT sample; <= 0 means none, because a retransmission made it ambiguous. RTT_min
 * is no older than the core's (net.ipv4.tcp_min_rtt_wlen, 300 s), and is measured again
 * after a timeout, because the path may have changed.
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

/* Does the application limit the flow, and not the path? The core's mark misses small
 * writes that wait for each other's ACKs. So the first estimate is only made from a
 * full window.
 */
static bool westwood_app_limited(const struct sock *sk, const struct westwood *ca)
{
	return tcp_sk(sk)->app_limited || (!ca->est.bse_q8 && !tcp_is_cwnd_limited(sk));
}

/* Returns the time since the last ACK. */
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

/* In Astart ssthresh rises with the estimate. init() does not set it, because the end of
 * the handshake may reset ssthresh, and the child of a listener may get another policy.
 */
static void westwood_astart(struct sock *sk, const struct westwood *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH)
		tp->snd_ssthresh = 2 * min_t(u32, tcp_snd_cwnd(tp), INT_MAX / 4);
	westwood_raise_ssthresh(tp, ca->b_pkts);
}

/* Called after a round trip of Astart without a loss or a queue. The last sample may still
 * show a queue, because the window has grown during the round trip.
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

/* Called after a round trip of NORMAL without a queue. */
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

/* Runs once per round trip: when a segment sent after the last run is ACKed. */
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

/* Returns the window that is left after a mark. */
static u32 westwood_part(u32 cwnd)
{
	return max_t(u32, div_u64((u64)cwnd * WESTWOOD_MARK_PCT, 100), 2);
}

/* React to a mark, or to a full queue on this host, once per reduction. */
static void westwood_mark(struct sock *sk, struct westwood *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	ca->marked = true;
	ca->tolerate = false;
	ca->wait = WESTWOOD_FULL_WAIT;
	tp->snd_ssthresh = min(tp->snd_ssthresh, westwood_part(tp->prior_cwnd));
}

/* Returns ssthresh after a loss. In a full queue BSE falls to RE, because BSE may be older
 * than the queue. For a random loss it is b, or the target of a probe.
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

/* Handles a loss in a recovery in which the window grew, once per round trip. The core does
 * not call ssthresh() for it.
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

/* Returns the window in CWR and Recovery when segments were delivered. If the flight is
 * above the limit, one segment leaves for every two delivered. Otherwise slow start
 * continues up to the limit, but the window is at most twice the flight and the segments
 * just delivered. The limit is ssthresh, or b if that is larger and the loss was random.
 * prr_delivered counts from when the flight was last at or below the limit, starting at
 * twice the segments sent by then. The core only resets it to 0.
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

/* Growth as in Reno, for the other states. */
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

/* Sets the pacing rate as the core does for other policies. When Astart doubles ssthresh
 * each round trip, the window is always near half of ssthresh; so the slow start ratio
 * then applies up to ssthresh.
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

/* A reduction begins. westwood_set_state() learns its cause. */
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

/* Undo a reduction, with the end or start of Astart and the new RTT_min. The core restores
 * the old ssthresh only if it is above the present one.
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

/* Called before the state changes. The next state gives the cause of a reduction. CWR means
 * a mark or a full queue on this host. CWR also follows a tail loss that a tail loss probe
 * has repaired, and then ends within the same ACK. Loss without a timeout: the core resends
 * segments that were too long for the path, or data of a SYN that the peer did not accept.
 * Astart continues then.
 */
static void westwood_set_state(struct sock *sk, u8 new_state)
{
	struct westwood *ca = westwood_state(sk);
	u8 old_state = inet_csk(sk)->icsk_ca_state;
	struct tcp_sock *tp = tcp_sk(sk);

	if (new_state == TCP_CA_Loss && satcc_is_timeout(sk, ca->reduced)) {
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

/* A segment leaves when nothing was in flight. Unless that is because all segments were
 * lost, the estimator's clock restarts. After idle the window is halved for every timeout
 * that has passed, as the core does for other policies.
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

/* May run before, in or long after the handshake, and on the bytes of another policy. */
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

/* Segments delivered out of order stay in the send buffer until the hole before them is
 * filled. That takes more than a round trip when one recovery follows the other.
 */
static u32 westwood_sndbuf_expand(struct sock *sk)
{
	return 3;
}

static u32 __maybe_unused westwood_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, true);
}

/* Fills the record of Vegas, which ss(8) knows: enabled = there is an estimate, rttcnt =
 * b in segments, rtt = last sample in us, minrtt = RTT_min in us.
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
