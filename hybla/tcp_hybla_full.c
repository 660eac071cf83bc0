// SPDX-License-Identifier: GPL-2.0
/* TCP Hybla, all of it: for connections whose round trip is long because the
 * path is, a satellite hop above all. Such a flow is to send as fast, second by
 * second, as a reference connection of RTT_0 = 25 ms would in its place.
 *
 *   rho    = max(RTT_min / RTT_0, 1)
 *
 *   slow start:            W += 2^rho - 1   per segment acknowledged
 *   congestion avoidance:  W += rho^2 / W   per segment acknowledged
 *
 * which makes W(t) = rho 2^(t / RTT_0), then rho^2 more per RTT: in segments per
 * second the RTT cancels out. At rho = 1 both are Reno's. Reduction on loss is
 * Reno's at any rho; recovery, undo and idle handling are the core's.
 *
 * At 600 ms rho is 24 and 2^rho - 1 sixteen million: slow start is one jump to
 * ssthresh, so what ssthresh starts from is what matters. It is estimated, after
 * Hoe, from the ACK spacing of the first segments, which leave back to back:
 *
 *   ssthresh = rate * RTT_min, rate = slope of segments delivered over time
 *
 * Until there is an ssthresh, growth is plain slow start.
 *
 *   WAIT ---first data ACK---> COLLECT ---3 ACKs, 1 ms or more---> SET
 *     | ^                       | |
 *     | +-all ACKed, < 3 ACKs --+ |
 *     |                           |
 *     +--- loss, reordering, -----+--- train over, too long ---> FAILED
 *          no SACK or timestamps
 *
 *   OFF from the start: data was sent before, or ssthresh is known already from
 *   a cached metric or a loss.
 *
 * Collection over, the flow is paced: a jump of hundreds of segments must not
 * leave as one burst. It is not paced before, for then the ACKs would tell our
 * own rate; and ten segments spaced over half a round trip would only be late.
 *
 * SACK and timestamps are part of Hybla, whose windows suffer many losses at a
 * time and whose control needs every RTT sample. A flow without them is Reno.
 *
 * Life of a flow at 600 ms, 2 Mbit/s, 1500 byte segments: ten segments go out.
 * Their ACKs are 6 ms apart, so after the third the rate is 1 per 6 ms and
 * ssthresh 100; the window, 12 by then, goes there at once, and pacing spreads
 * what that releases. Next come rho^2/W = 5.76 segments per ACK, until a loss
 * halves the window.
 *
 * Based on:
 *   C. Caini, R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous
 *   networks", International Journal of Satellite Communications and
 *   Networking, 22(5), 2004, pp. 547-566.
 *   J. C. Hoe, "Improving the Start-up Behavior of a Congestion Control Scheme
 *   for TCP", ACM SIGCOMM 1996, pp. 270-280.
 *
 * Differences from the paper:
 *   o The initial window is the kernel's unless iw_rho=1; the paper's is rho.
 *   o 2^rho never runs against an unknown ssthresh: with no estimate growth stays
 *     plain slow start (see the parameter gamma for the paper's rho gamma).
 *   o After a timeout growth is Reno's until recovery ends (see loss_hybla).
 *   o Segments, not ACKs, are counted, so that delayed, thinned or merged ACKs
 *     slow nothing down.
 *   o Pacing is at the core's 200/120 % of cwnd/srtt instead of 100 %: paced at
 *     exactly the window's rate a flow never fills it, and so never grows.
 *   o rho is at most 256 (6.4 s).
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "compat.h"
#include "event.h"
#include "hybla.h"
#include "info.h"
#include "pacing.h"
#include "param.h"
#include "rho.h"

#define CREATE_TRACE_POINTS
#include "hybla_trace.h"

SATCC_PARAM(rtt0_ms, 25, 1, 100000);
MODULE_PARM_DESC(rtt0_ms, "RTT of the reference connection, ms (1..100000, default 25)");
SATCC_PARAM(rho_max, 256, 1, 256);
MODULE_PARM_DESC(rho_max, "largest rho (1..256, default 256)");
SATCC_PARAM(pacing, 1, 0, 1);
MODULE_PARM_DESC(pacing, "pace once the start-up train is over (0/1, default 1)");
SATCC_PARAM(require_sack, 1, 0, 1);
MODULE_PARM_DESC(require_sack, "Reno if SACK was not negotiated (0/1, default 1)");
SATCC_PARAM(require_ts, 1, 0, 1);
MODULE_PARM_DESC(require_ts, "Reno if timestamps were not negotiated (0/1, default 1)");
SATCC_PARAM(iw_rho, 0, 0, 1);
MODULE_PARM_DESC(iw_rho, "initial window of at least rho (0/1, default 0)");
SATCC_PARAM(loss_hybla, 0, 0, 1);
MODULE_PARM_DESC(loss_hybla, "grow by rho after a timeout too (0/1, default 0)");
SATCC_PARAM(hoe, 1, 0, 1);
MODULE_PARM_DESC(hoe, "estimate the initial ssthresh (0/1, default 1)");
SATCC_PARAM(hoe_min_acks, 3, 3, 32);
MODULE_PARM_DESC(hoe_min_acks, "ACKs an estimate takes (3..32, default 3)");
SATCC_PARAM(hoe_wait_train, 0, 0, 1);
MODULE_PARM_DESC(hoe_wait_train, "estimate from the whole train (0/1, default 0)");
SATCC_PARAM(hoe_scale, 100, 10, 400);
MODULE_PARM_DESC(hoe_scale, "part of the estimate to use, percent (10..400, default 100)");
/* 2^20 segments: the window of 10 Gbit/s at 1.2 s */
SATCC_PARAM(gamma, 0, 0, 1048576);
MODULE_PARM_DESC(gamma, "without an estimate initial ssthresh is rho times this, segments, 0 = off (0..1048576, default 0)");

static bool as_hybla;
module_param(as_hybla, bool, 0444);
MODULE_PARM_DESC(as_hybla, "register as \"hybla\" too if that is free, bool (default 0)");

/* Is this the ssthresh of a flow that has not learnt one? */
static bool hybla_ssthresh_unknown(const struct tcp_sock *tp)
{
	return tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH;
}

/* Asked on ACKs, not in init(), which may run before the handshake is over. */
static u8 hybla_missing_options(const struct tcp_sock *tp)
{
	u8 missing = 0;

	if (satcc_param(require_sack) && !tcp_is_sack(tp))
		missing |= HYBLA_PLAIN_SACK;
	if (satcc_param(require_ts) && !tp->rx_opt.tstamp_ok)
		missing |= HYBLA_PLAIN_TS;

	return missing;
}

static u8 hybla_plain(const struct sock *sk, u8 ca_state)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct hybla *ca = inet_csk_ca(sk);
	u8 plain = hybla_missing_options(tp);

	if (ca_state == TCP_CA_Loss && !satcc_param(loss_hybla))
		plain |= HYBLA_PLAIN_LOSS;
	if (hybla_ssthresh_unknown(tp))
		plain |= HYBLA_PLAIN_START;
	if (!READ_ONCE(ca->rho_q16))
		plain |= HYBLA_PLAIN_RTT;

	return plain;
}

static __always_inline struct hybla_basis hybla_basis(const struct sock *sk, u8 ca_state)
{
	const struct hybla *ca = inet_csk_ca(sk);
	u8 plain = hybla_plain(sk, ca_state);

	return (struct hybla_basis){
		.credit	 = ca->credit,
		.rho_q16 = plain ? SATCC_Q16_ONE : ca->rho_q16,
		.plain	 = plain,
	};
}

/* Take an RTT sample; rho follows the smallest. The raw sample and not srtt: the
 * mean starts from the handshake and takes many ACKs to come down. A change of
 * rtt0_ms or rho_max reaches a running flow here, at its next minimum.
 */
static void hybla_update_rtt(struct hybla *ca, s32 rtt_us)
{
	if (rtt_us <= 0)	/* none: ambiguous after a retransmission */
		return;

	WRITE_ONCE(ca->rtt_us, rtt_us);
	if (ca->min_rtt_us && rtt_us >= ca->min_rtt_us)
		return;

	WRITE_ONCE(ca->min_rtt_us, rtt_us);
	WRITE_ONCE(ca->rho_q16,
		   satcc_rho_q16(rtt_us, satcc_param(rtt0_ms) * USEC_PER_MSEC,
				 satcc_param(rho_max)));
}

/* ssthresh = slope of the train * RTT_min, scaled and rounded up, so that only a
 * train without an estimate gives 0. The window is below 2^32, the scale 2^9.
 */
static u64 hybla_hoe_ssthresh(const struct hybla *ca)
{
	u64 pkts = satcc_hoe_window(&ca->hoe, satcc_param(hoe_min_acks),
				    ca->min_rtt_us);

	return div_u64(pkts * satcc_param(hoe_scale) + 99, 100);
}

/* ssthresh = rho gamma, the reference connection's scaled to this path; 0 = off.
 * rho_q16 is at most 2^24, gamma 2^20.
 */
static u64 hybla_gamma_ssthresh(const struct sock *sk)
{
	const struct hybla *ca = inet_csk_ca(sk);

	if (hybla_missing_options(tcp_sk(sk)))
		return 0;

	return (u64)ca->rho_q16 * satcc_param(gamma) >> SATCC_Q16_SHIFT;
}

/* End collection: set ssthresh, once, from what there is, and start pacing. An
 * ssthresh that a loss has brought meanwhile is kept. Never below the initial
 * window: on a link that gives bandwidth on demand the train sees only the few
 * segments' worth a terminal has before it asks.
 */
static void hybla_end_hoe(struct sock *sk, u8 ca_state)
{
	struct satcc_event ev = satcc_event(sk, HYBLA_EV_HOE_NONE, ca_state);
	struct hybla_basis basis = hybla_basis(sk, ca_state);
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);
	u64 pkts = 0;

	ca->hoe_phase = HYBLA_HOE_FAILED;
	if (hybla_ssthresh_unknown(tp)) {
		pkts = hybla_hoe_ssthresh(ca);
		if (pkts) {
			ca->hoe_phase = HYBLA_HOE_SET;
			ev.event = HYBLA_EV_HOE_SET;
		} else {
			pkts = hybla_gamma_ssthresh(sk);
			if (pkts)
				ev.event = HYBLA_EV_HOE_GAMMA;
		}
	}
	if (pkts) {
		pkts = max3(pkts, (u64)(ca->iw_pkts ?: ev.cwnd), 2ULL);
		ev.ssthresh = min3(pkts, (u64)ev.limit, TCP_INFINITE_SSTHRESH - 1ULL);
		tp->snd_ssthresh = ev.ssthresh;
	}
	if (satcc_param(pacing))
		satcc_pacing_enable(sk);
	trace_hybla_full(sk, &ev, &basis);
}

/* The first data ACK: what is in flight now left back to back and is the train.
 * Returns false if there is nothing to learn.
 */
static bool hybla_start_train(struct sock *sk, u32 ack)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);
	s32 left_bytes = tp->snd_nxt - ack;

	ca->iw_pkts = tcp_snd_cwnd(tp);
	if (!satcc_param(hoe) || !hybla_ssthresh_unknown(tp) ||
	    hybla_missing_options(tp))
		return false;

	ca->hoe_phase = HYBLA_HOE_COLLECT;
	ca->train_start_us = tp->tcp_mstamp;
	ca->train_delivered = tp->delivered;
	ca->train_end_seq = tp->snd_nxt;
	satcc_hoe_start(&ca->hoe);
	trace_hybla_full_hoe(sk, 0, 0, left_bytes, true);

	return left_bytes > 0;
}

/* Take this ACK's point. An ACK beyond the train also answers what was sent a
 * round trip later and is no point of it. Returns false when the train is over
 * or, unless all of it is to be waited for, has said enough.
 */
static bool hybla_extend_train(struct sock *sk, u32 ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);
	u64 t_us = tp->tcp_mstamp - ca->train_start_us;
	u32 pkts = tp->delivered - ca->train_delivered;
	s32 left_bytes = ca->train_end_seq - ack;
	bool used;

	used = left_bytes >= 0 &&
	       satcc_hoe_add(&ca->hoe, t_us, pkts, ca->min_rtt_us);
	trace_hybla_full_hoe(sk, t_us, pkts, left_bytes, used);

	return used && left_bytes > 0 &&
	       (satcc_param(hoe_wait_train) || !hybla_hoe_ssthresh(ca));
}

/* Too short a train, with nothing sent after it, says nothing about the path: a
 * request, say, or ten segments acknowledged at once. What is sent next leaves an
 * empty pipe, back to back, and is a train as good as the first; unless the socket
 * is paced for another reason, which it is from its eleventh segment on.
 */
static bool hybla_await_next_train(const struct sock *sk, u32 ack)
{
	const struct hybla *ca = inet_csk_ca(sk);

	return ca->hoe_phase == HYBLA_HOE_COLLECT && !satcc_pacing_enabled(sk) &&
	       ack == tcp_sk(sk)->snd_nxt && ca->hoe.points < satcc_param(hoe_min_acks);
}

/* Is what is in flight a train, sent as fast as the host can, and not an
 * application's own rhythm? It fills the window, in segments of at least half
 * the full size: small ones cross the bottleneck faster than the path's rate.
 */
static bool hybla_train_sent(struct sock *sk, u32 ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tcp_is_cwnd_limited(sk) &&
	       2 * (u64)(tp->snd_nxt - ack) >= (u64)tp->packets_out * tp->mss_cache;
}

static bool hybla_hoe_pending(const struct hybla *ca)
{
	return ca->hoe_phase == HYBLA_HOE_WAIT ||
	       ca->hoe_phase == HYBLA_HOE_COLLECT;
}

/* Follow the start-up train, on every ACK while hybla_hoe_pending(). The state
 * is Open: any other has ended collection, see hybla_set_state().
 */
static noinline void hybla_update_hoe(struct sock *sk, u32 ack)
{
	struct hybla *ca = inet_csk_ca(sk);
	bool more;

	if (ca->hoe_phase == HYBLA_HOE_WAIT && !hybla_train_sent(sk, ack))
		return;
	if (ca->hoe_phase == HYBLA_HOE_WAIT)
		more = hybla_start_train(sk, ack);
	else
		more = hybla_extend_train(sk, ack);

	if (more)
		return;
	if (hybla_await_next_train(sk, ack))
		ca->hoe_phase = HYBLA_HOE_WAIT;
	else
		hybla_end_hoe(sk, TCP_CA_Open);
}

static void hybla_drop_credit(struct sock *sk, u8 event, u8 ca_state)
{
	struct satcc_event ev = satcc_event(sk, event, ca_state);
	struct hybla_basis basis = hybla_basis(sk, ca_state);
	struct hybla *ca = inet_csk_ca(sk);

	ca->credit = (struct satcc_credit){};
	trace_hybla_full(sk, &ev, &basis);
}

/* The paper's W(0) = rho, where asked for: only if the RTT is known, nothing was
 * sent, and the handshake's losses have not cut the window to 1.
 */
static void hybla_init_cwnd(struct sock *sk, u32 limit)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct hybla *ca = inet_csk_ca(sk);
	u32 rho = (ca->rho_q16 + SATCC_Q16_ONE / 2) >> SATCC_Q16_SHIFT;

	if (!satcc_param(iw_rho) || tp->bytes_sent || tcp_snd_cwnd(tp) < 2 ||
	    hybla_missing_options(tp))
		return;

	tcp_snd_cwnd_set(tp, min(max(tcp_snd_cwnd(tp), rho), limit));
}

/* Before, in or long after the handshake; the RTT may be known or not. */
static void hybla_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);
	u8 ca_state = inet_csk(sk)->icsk_ca_state;
	struct hybla_basis basis;
	struct satcc_event ev;

	memset(ca, 0, sizeof(*ca));
	if (tp->srtt_us)
		hybla_update_rtt(ca, tcp_min_rtt(tp));
	basis = hybla_basis(sk, ca_state);
	ev = satcc_event(sk, SATCC_EV_INIT, ca_state);
	hybla_init_cwnd(sk, ev.limit);

	ev.cwnd = tcp_snd_cwnd(tp);

	/* A train is what a fresh flow sends first. One that is not going to be
	 * timed may be paced at once. So is a larger window than the kernel's: of
	 * it the stack leaves the first ten segments alone, train enough.
	 */
	if (!tp->bytes_sent && hybla_ssthresh_unknown(tp))
		ca->hoe_phase = HYBLA_HOE_WAIT;
	if (satcc_param(pacing) &&
	    (ca->hoe_phase == HYBLA_HOE_OFF || !satcc_param(hoe) ||
	     ev.cwnd > ev.cwnd_old))
		satcc_pacing_enable(sk);

	trace_hybla_full(sk, &ev, &basis);
}

static void hybla_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	hybla_update_rtt(inet_csk_ca(sk), sample->rtt_us);
}

/* The account of an ACK. Apart, and asked for only when someone listens: it would be
 * half the work of an ACK.
 */
static noinline void hybla_trace_ack(struct sock *sk, u32 acked, u32 cwnd_old,
				     bool grown, struct hybla_basis basis)
{
	struct satcc_event ev = satcc_ack_event(sk, acked, cwnd_old, grown);

	trace_hybla_full(sk, &ev, &basis);
}

/* Grow the window. The train is followed first: it measures the path whether or
 * not the window was full.
 */
static void hybla_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);
	struct hybla_basis basis;
	u32 cwnd, next;
	bool grown;

	if (hybla_hoe_pending(ca))
		hybla_update_hoe(sk, ack);

	basis = hybla_basis(sk, inet_csk(sk)->icsk_ca_state);
	grown = tcp_is_cwnd_limited(sk);
	cwnd = tcp_snd_cwnd(tp);
	if (grown) {
		next = satcc_grow(&ca->credit, cwnd, tp->snd_ssthresh,
				  satcc_cwnd_limit(tp), basis.rho_q16, acked);
		tcp_snd_cwnd_set(tp, next);
	}
	if (trace_hybla_full_enabled())
		hybla_trace_ack(sk, acked, cwnd, grown, basis);
}

static u32 hybla_ssthresh(struct sock *sk)
{
	u8 ca_state = inet_csk(sk)->icsk_ca_state;
	struct satcc_event ev = satcc_event(sk, SATCC_EV_SSTHRESH, ca_state);
	struct hybla_basis basis = hybla_basis(sk, ca_state);

	ev.ssthresh = tcp_reno_ssthresh(sk);
	trace_hybla_full(sk, &ev, &basis);

	return ev.ssthresh;
}

static u32 hybla_undo_cwnd(struct sock *sk)
{
	u8 ca_state = inet_csk(sk)->icsk_ca_state;
	struct satcc_event ev = satcc_event(sk, SATCC_EV_UNDO, ca_state);
	struct hybla_basis basis = hybla_basis(sk, ca_state);

	ev.cwnd = tcp_reno_undo_cwnd(sk);
	trace_hybla_full(sk, &ev, &basis);

	return ev.cwnd;
}

/* Called before the state changes. */
static void hybla_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Open)
		return;

	/* A SYN lost before any data (a socket given this policy while connecting)
	 * says nothing about a train to come.
	 */
	if (hybla_hoe_pending(inet_csk_ca(sk)) && tcp_sk(sk)->bytes_sent)
		hybla_end_hoe(sk, new_state);
	if (new_state != TCP_CA_Disorder)
		hybla_drop_credit(sk, SATCC_EV_STATE, new_state);
}

/* After idle the window starts again and what it had earned is void. A flow that
 * was idle before its first data still has its train to come.
 */
static void hybla_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	u8 ca_state = inet_csk(sk)->icsk_ca_state;
	struct hybla *ca = inet_csk_ca(sk);

	if (event != CA_EVENT_CWND_RESTART)
		return;

	if (ca->hoe_phase == HYBLA_HOE_COLLECT)
		hybla_end_hoe(sk, ca_state);
	hybla_drop_credit(sk, SATCC_EV_IDLE, ca_state);
}

static u32 hybla_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, satcc_param(pacing));
}

/* In the slot of Vegas, which ss(8) knows: enabled = growing by rho now, rttcnt =
 * rho rounded, rtt = last sample, minrtt = smallest; us.
 */
static size_t hybla_get_info(struct sock *sk, u32 ext, int *attr,
			     union tcp_cc_info *info)
{
	const struct hybla *ca = inet_csk_ca(sk);
	u32 rho_q16 = READ_ONCE(ca->rho_q16);

	return satcc_vegas_info(ext, attr, info,
				!hybla_plain(sk, inet_csk(sk)->icsk_ca_state),
				(rho_q16 + SATCC_Q16_ONE / 2) >> SATCC_Q16_SHIFT,
				READ_ONCE(ca->rtt_us), READ_ONCE(ca->min_rtt_us));
}

static struct tcp_congestion_ops tcp_hybla_full __read_mostly = {
	.init		= hybla_init,
	.ssthresh	= hybla_ssthresh,
	.undo_cwnd	= hybla_undo_cwnd,
	.cong_avoid	= hybla_cong_avoid,
	.set_state	= hybla_set_state,
	.cwnd_event	= hybla_cwnd_event,
	.pkts_acked	= hybla_pkts_acked,
	.get_info	= hybla_get_info,
	.owner		= THIS_MODULE,
	.name		= "hybla_full",
};

/* The same under the name of the kernel's own module; as_hybla. */
static struct tcp_congestion_ops tcp_hybla_alias __read_mostly;

/* The name is taken when the kernel's module is loaded: say so, do without. A
 * failure here is none of the module's, for sockets may already use hybla_full.
 */
static void __init hybla_register_alias(void)
{
	int err;

	err = tcp_register_congestion_control(&tcp_hybla_alias);
	if (err) {
		pr_notice("hybla_full: the name hybla is not to be had (%d), only hybla_full is registered\n",
			  err);
		as_hybla = false;
	}
}

static int __init hybla_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct hybla) > ICSK_CA_PRIV_SIZE);

	satcc_set_min_tso_segs(&tcp_hybla_full, hybla_min_tso_segs);
	/* Padded: names are compared by a hash of the whole array. */
	tcp_hybla_alias = tcp_hybla_full;
	strscpy_pad(tcp_hybla_alias.name, "hybla", sizeof(tcp_hybla_alias.name));

	err = tcp_register_congestion_control(&tcp_hybla_full);
	if (err)
		return err;
	if (as_hybla)
		hybla_register_alias();

	return 0;
}

static void __exit hybla_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_hybla_full);
	if (as_hybla)
		tcp_unregister_congestion_control(&tcp_hybla_alias);
}

module_init(hybla_register);
module_exit(hybla_unregister);

MODULE_AUTHOR("satcc authors");
MODULE_DESCRIPTION("TCP Hybla with pacing and an estimated initial ssthresh");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1");
