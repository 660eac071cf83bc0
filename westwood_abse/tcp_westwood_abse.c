// SPDX-License-Identifier: GPL-2.0
/* TCP Westwood with Adaptive Bandwidth Share Estimation (ABSE) and Astart: for
 * paths that lose segments without being full, a satellite hop above all. What a
 * loss reduces the window to is not half of it, but what the ACKs say gets through:
 *
 *   b = max(BSE, RE) * RTT_min   segments per second: BSE filtered, RE over the last
 *                                round trip, see abse.h
 *
 *   three dupacks:  ssthresh = b, and W = min(W, b)
 *   timeout:        ssthresh = b, and W = 1
 *   growth:         slow start below ssthresh, else 1/W per segment: Reno's
 *
 * A loss in a path that is not full leaves W alone, one in a full path empties the
 * queue. Where W is below b afterwards, slow start goes on up to b.
 *
 * Astart: ssthresh starts small, not infinite, and rises with the estimate,
 *
 *   ssthresh = max(ssthresh, b)      at every ACK
 *
 * so that growth is exponential as far as the estimate reaches and linear beyond.
 *
 *   init, ssthresh unknown --> ASTART <--- timeout --- NORMAL
 *                                |                        ^
 *                                +--- dupacks, ECN -------+
 *
 * An ECN mark, or a full queue on this host, is congestion: W falls even if b says
 * that the path bears it.
 *
 * Recovery and its end are the core's. PRR takes the window to ssthresh, which is
 * never asked to be above the window; when recovery is over, and was not undone,
 * ssthresh becomes b. Where every window loses something, one recovery follows the
 * other and the ACKs between, on which a window would grow, do not come: what slow
 * start below b would have made of the segments delivered in a recovery is then
 * made up for at its end (recovery_start).
 *
 * Life of a flow at 600 ms, 2 Mbit/s, 1500 byte segments: ten segments go out, with
 * ssthresh 10. Their ACKs are 6 ms apart: after the second BSE is 165 per second,
 * ssthresh 100, and slow start goes there in four round trips. A segment is lost on
 * the air: BSE is what the window fetched, ssthresh and window stay what they are.
 *
 * Based on:
 *   R. Wang, M. Valla, M. Y. Sanadidi, M. Gerla, "Adaptive Bandwidth Share
 *   Estimation in TCP Westwood", IEEE Globecom 2002.
 *   M. Gerla, B. K. F. Ng, M. Y. Sanadidi, M. Valla, R. Wang, "TCP Westwood with
 *   adaptive bandwidth estimation to improve efficiency/friendliness tradeoffs",
 *   Computer Communications 27(1), 2004, pp. 41-58.
 *   R. Wang, G. Pau, K. Yamada, M. Y. Sanadidi, M. Gerla, "TCP Startup Performance
 *   in Large Bandwidth Delay Networks", IEEE Infocom 2004 (Astart).
 *
 * Differences from the papers:
 *   o Segments delivered are counted by the core, once each, SACKed or not, and not
 *     reconstructed from ACKs and dupacks.
 *   o A window of the estimator begins at an ACK; see abse.h for this and T_min.
 *   o The estimator's clock stops while there is nothing to send: an idle sender is
 *     no slow path.
 *   o The first flight, which leaves back to back, is one sample.
 *   o In Astart the filter is as slow as it gets, tau = (1 + N) RTT.
 *   o Slow start goes on in recovery (recovery_start), paced.
 *   o ECN, which the papers do not know.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "compat.h"
#include "event.h"
#include "info.h"
#include "pacing.h"
#include "param.h"
#include "westwood.h"

#define CREATE_TRACE_POINTS
#include "westwood_trace.h"

SATCC_PARAM(pacing, 1, 0, 1);
MODULE_PARM_DESC(pacing, "pace new flows (0/1, default 1)");
SATCC_PARAM(astart, 1, 0, 1);
MODULE_PARM_DESC(astart, "initial ssthresh small, raised by the estimate; after a timeout too (0/1, default 1)");
SATCC_PARAM(recovery_start, 1, 0, 1);
MODULE_PARM_DESC(recovery_start, "slow start below the estimate goes on in recovery (0/1, default 1)");
SATCC_PARAM(history, 1, 0, 1);
MODULE_PARM_DESC(history, "keep the history that adaptive sampling takes, new flows (0/1, default 1)");
SATCC_PARAM(tau_n, 10, 0, 50);
MODULE_PARM_DESC(tau_n, "time constant of the filter is 1..1+this round trips (0..50, default 10)");
SATCC_PARAM(t_min_div, 8, 1, 32);
MODULE_PARM_DESC(t_min_div, "shortest sample is the RTT divided by this, 1 ms at least (1..32, default 8)");
SATCC_PARAM(ecn_beta_pct, 80, 50, 95);
MODULE_PARM_DESC(ecn_beta_pct, "part of the window that ECN leaves at most, percent (50..95, default 80)");

static struct westwood_basis westwood_basis(const struct sock *sk)
{
	return (struct westwood_basis){ .cnt_old = tcp_sk(sk)->snd_cwnd_cnt };
}

/* b follows BSE, RE and RTT_min. */
static void westwood_update_b(struct westwood *ca)
{
	u64 rate_q16 = max(ca->est.bse_q16, ca->est.re_q16);

	WRITE_ONCE(ca->b_pkts, abse_window(rate_q16, ca->min_rtt_us));
}

/* Take an RTT sample. After a timeout RTT_min is measured anew: the path may have
 * become another.
 */
static void westwood_update_rtt(struct westwood *ca, s32 rtt_us)
{
	if (rtt_us <= 0)	/* none: ambiguous after a retransmission */
		return;

	WRITE_ONCE(ca->rtt_us, rtt_us);
	if (ca->min_rtt_us && !ca->rearm && rtt_us >= ca->min_rtt_us)
		return;

	ca->rearm = false;
	WRITE_ONCE(ca->min_rtt_us, rtt_us);
	westwood_update_b(ca);
}

/* Is what was delivered so far limited by the application and not by the path?
 * The core's mark is old once all sent before it has been delivered. It does not see
 * small writes that wait for each other's ACKs; those must not be the estimate that
 * others are measured by, so the first is only taken from a full window.
 */
static bool westwood_app_limited(const struct sock *sk)
{
	const struct westwood *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!ca->est.bse_q16 && !tcp_is_cwnd_limited(sk))
		return true;

	return tp->app_limited && !after(tp->delivered, tp->app_limited);
}

static void westwood_stop(struct westwood *ca, u8 stopped)
{
	abse_stop(&ca->est);
	ca->stopped = stopped;
}

/* The history, or NULL: do without. A route's policy takes the place of one set between
 * a deferred Fast Open connect() and the first data, and gets what that left as its own.
 */
static struct abse_history *westwood_history(const struct sock *sk)
{
	const struct westwood *ca = inet_csk_ca(sk);

	return ca->hist_of == lower_32_bits((uintptr_t)sk) ? ca->hist : NULL;
}

/* Give this ACK to the estimator. */
static void westwood_estimate(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *ca = inet_csk_ca(sk);
	struct abse_ack ack = {
		.now_us		= tp->tcp_mstamp,
		.delivered	= tp->delivered,
		.cwnd		= tcp_snd_cwnd(tp),
		.rtt_us		= tp->srtt_us >> 3,
		.min_rtt_us	= ca->min_rtt_us,
		.tau_n		= satcc_param(tau_n),
		.t_min_div	= satcc_param(t_min_div),
		.astart		= ca->astart,
	};
	struct abse_sample sample;
	u8 outcome;

	if (!ca->min_rtt_us)
		return;

	outcome = abse_update(&ca->est, westwood_history(sk), &ack, &sample);
	if (outcome == ABSE_NONE)
		return;

	if (outcome == ABSE_BLIND)
		ca->blind = true;
	westwood_update_b(ca);
	trace_westwood_abse_sample(sk, &ack, &sample);
	ca->stopped = WESTWOOD_STOP_NEW;
}

/* Is nothing in flight, and nothing about to be: there is no more data, or the peer
 * has closed its window? How long that lasts says nothing about the path.
 */
static bool westwood_idle(const struct sock *sk)
{
	const struct sk_buff *head = tcp_send_head(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	return !tp->packets_out &&
	       (!head || !before(TCP_SKB_CB(head)->seq, tcp_wnd_end(tp)));
}

/* Called once for every ACK of data, with the segments it delivers counted. That is
 * why the estimator is fed from here: ->in_ack_event() comes before the counting in
 * some kernels and after it in others.
 */
static void westwood_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct westwood *ca = inet_csk_ca(sk);

	westwood_update_rtt(ca, sample->rtt_us);
	if (westwood_app_limited(sk))
		westwood_stop(ca, WESTWOOD_STOP_APP);
	else
		westwood_estimate(sk);

	if (westwood_idle(sk))
		westwood_stop(ca, WESTWOOD_STOP_IDLE);
}

/* Astart: ssthresh rises with the estimate. When a whole flight has passed without
 * one, its ACKs merged into a single one perhaps, growth is plain slow start until
 * there is. A socket that got this policy while connecting has its ssthresh reset
 * to infinite when the handshake is over.
 */
static void westwood_astart(struct sock *sk, u8 ca_state)
{
	struct satcc_event ev = satcc_event(sk, WESTWOOD_EV_ASTART, ca_state);
	struct westwood_basis basis = westwood_basis(sk);
	const struct westwood *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 target = ca->b_pkts;

	if (!target && ca->blind)
		target = min_t(u64, 2ULL * ev.cwnd, INT_MAX);
	if (ev.ssthresh >= TCP_INFINITE_SSTHRESH)
		target = max3(target, ev.cwnd, 2U);
	else if (target <= ev.ssthresh)
		return;

	ev.ssthresh = min_t(u32, target, TCP_INFINITE_SSTHRESH - 1);
	tp->snd_ssthresh = ev.ssthresh;
	trace_westwood_abse(sk, &ev, &basis);
}

/* Before, in or long after the handshake. Without memory for the history the flow
 * has the coarse estimate of abse.h.
 */
static void westwood_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *ca = inet_csk_ca(sk);
	struct westwood_basis basis = westwood_basis(sk);
	struct satcc_event ev;

	memset(ca, 0, sizeof(*ca));
	if (satcc_param(history))
		ca->hist = kzalloc(sizeof(*ca->hist), GFP_NOWAIT | __GFP_NOWARN);
	ca->hist_of = lower_32_bits((uintptr_t)sk);
	if (tp->srtt_us)
		westwood_update_rtt(ca, tcp_min_rtt(tp));

	ev = satcc_event(sk, SATCC_EV_INIT, inet_csk(sk)->icsk_ca_state);
	if (satcc_param(astart) && ev.ssthresh >= TCP_INFINITE_SSTHRESH) {
		ca->astart = true;
		ev.ssthresh = max(ev.cwnd, 2U);
		tp->snd_ssthresh = ev.ssthresh;
	}
	if (satcc_param(pacing))
		satcc_pacing_enable(sk);
	trace_westwood_abse(sk, &ev, &basis);
}

/* Called again on zeros after disconnect. A child on accept never shares the
 * history: a listener is not initialised, so what is copied from it is zero.
 */
static void westwood_release(struct sock *sk)
{
	struct westwood *ca = inet_csk_ca(sk);

	kfree(westwood_history(sk));
	ca->hist = NULL;
}

/* The account of an ACK, apart: it is not for those who do not listen to pay. */
static noinline void westwood_trace_ack(struct sock *sk, u32 acked, u32 cwnd_old,
					bool grown, struct westwood_basis basis)
{
	struct satcc_event ev = satcc_ack_event(sk, acked, cwnd_old, grown);

	trace_westwood_abse(sk, &ev, &basis);
}

static void westwood_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	const struct westwood *ca = inet_csk_ca(sk);
	bool grown = tcp_is_cwnd_limited(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood_basis basis;
	u32 cwnd = tcp_snd_cwnd(tp);
	u32 left = acked;

	if (ca->astart)
		westwood_astart(sk, inet_csk(sk)->icsk_ca_state);

	basis = westwood_basis(sk);
	if (grown) {
		if (tcp_in_slow_start(tp))
			left = tcp_slow_start(tp, acked);
		if (left)
			tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), left);
	}
	if (trace_westwood_abse_enabled())
		westwood_trace_ack(sk, acked, cwnd, grown, basis);
}

/* Is the window to be reduced for a mark, or for a queue of this host that is full?
 * Both are tcp_enter_cwr()'s, and a recovery that begins on a marked ACK is alike:
 * the core keeps no ssthresh to undo to.
 */
static bool westwood_marked(const struct tcp_sock *tp)
{
	return !tp->prior_ssthresh;
}

/* The part of a window that a mark leaves. */
static u32 westwood_part(u32 cwnd)
{
	return div_u64((u64)cwnd * satcc_param(ecn_beta_pct), 100);
}

/* Never above cwnd: PRR is to reduce. What it would be without that limit, b, is
 * what it becomes after recovery, unless this was for a mark.
 */
static u32 westwood_ssthresh(struct sock *sk)
{
	struct satcc_event ev = satcc_event(sk, SATCC_EV_SSTHRESH,
					    inet_csk(sk)->icsk_ca_state);
	struct westwood_basis basis = westwood_basis(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *ca = inet_csk_ca(sk);

	basis.mark = westwood_marked(tp);
	ca->loss_pkts = basis.mark ? 0 : ca->b_pkts;
	ca->loss_delivered = tp->delivered;
	ca->astart_prior = ca->astart;

	if (ca->b_pkts) {
		ev.ssthresh = min(ca->b_pkts, ev.cwnd);
		if (basis.mark)
			ev.ssthresh = min(ev.ssthresh, westwood_part(ev.cwnd));
		ev.ssthresh = max(ev.ssthresh, 2U);
	} else {
		ev.ssthresh = tcp_reno_ssthresh(sk);
	}
	trace_westwood_abse(sk, &ev, &basis);

	return ev.ssthresh;
}

/* The reduction was for nothing, and so was the end or start of Astart and a new
 * RTT_min. The core restores an ssthresh of before only if it is above the present one.
 */
static u32 westwood_undo_cwnd(struct sock *sk)
{
	struct satcc_event ev = satcc_event(sk, SATCC_EV_UNDO,
					    inet_csk(sk)->icsk_ca_state);
	struct westwood_basis basis = westwood_basis(sk);
	struct westwood *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	ev.cwnd = tcp_reno_undo_cwnd(sk);
	if (tp->prior_ssthresh)
		ev.ssthresh = min(ev.ssthresh, tp->prior_ssthresh - 1);
	tp->snd_ssthresh = ev.ssthresh;
	ca->astart = ca->astart_prior;
	ca->loss_pkts = 0;
	ca->rearm = false;
	if (ca->min_rtt_prior_us && ca->min_rtt_prior_us < ca->min_rtt_us) {
		WRITE_ONCE(ca->min_rtt_us, ca->min_rtt_prior_us);
		westwood_update_b(ca);
	}
	trace_westwood_abse(sk, &ev, &basis);

	return ev.cwnd;
}

/* Raise ssthresh to target, if that is above it, and tell. */
static void westwood_raise_ssthresh(struct sock *sk, u8 event, u8 ca_state,
				    u32 target)
{
	struct satcc_event ev = satcc_event(sk, event, ca_state);
	struct westwood_basis basis = westwood_basis(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (target > ev.ssthresh) {
		ev.ssthresh = min_t(u32, target, TCP_INFINITE_SSTHRESH - 1);
		tp->snd_ssthresh = ev.ssthresh;
	}
	trace_westwood_abse(sk, &ev, &basis);
}

/* A mark has come in Recovery. The core has put nothing by to undo to, but it does
 * not ask for an ssthresh again: with b above cwnd the mark would change nothing.
 */
static void westwood_marked_recovery(struct sock *sk)
{
	struct satcc_event ev = satcc_event(sk, WESTWOOD_EV_MARKED, TCP_CA_Open);
	struct westwood_basis basis = westwood_basis(sk);
	struct westwood *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	ca->loss_pkts = 0;
	ev.ssthresh = min(ev.ssthresh, westwood_part(tp->prior_cwnd));
	ev.ssthresh = max(ev.ssthresh, 2U);
	tp->snd_ssthresh = ev.ssthresh;
	trace_westwood_abse(sk, &ev, &basis);
}

/* The window that recovery ends with: of what was delivered during it, each segment
 * counts one as in slow start, up to b. The core makes ssthresh the window now; then
 * westwood_complete() makes it b.
 */
static void westwood_resume(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct westwood *ca = inet_csk_ca(sk);
	u32 limit = min3(ca->b_pkts, tp->snd_cwnd_clamp, (u32)INT_MAX);
	u64 grown = (u64)tp->snd_ssthresh + (tp->delivered - ca->loss_delivered);

	if (!satcc_param(recovery_start) || !satcc_pacing_enabled(sk) ||
	    !tp->undo_marker || !ca->loss_pkts ||
	    limit <= tp->snd_ssthresh || westwood_app_limited(sk))
		return;

	westwood_raise_ssthresh(sk, WESTWOOD_EV_RESUME, TCP_CA_Open,
				min_t(u64, grown, limit));
}

/* After CWR and Recovery, also those that were undone: then there is no marker. */
static void westwood_complete(struct sock *sk)
{
	const struct westwood *ca = inet_csk_ca(sk);

	westwood_raise_ssthresh(sk, WESTWOOD_EV_COMPLETE, inet_csk(sk)->icsk_ca_state,
				tcp_sk(sk)->undo_marker && ca->loss_pkts ?
				ca->b_pkts : 0);
}

/* A timeout: ssthresh is b whatever the window was, which is 1 now, and Astart
 * begins. What the core remembers of before, to undo to, it has already.
 */
static void westwood_timeout(struct sock *sk)
{
	struct westwood *ca = inet_csk_ca(sk);

	ca->astart = satcc_param(astart);
	ca->min_rtt_prior_us = ca->min_rtt_us;
	ca->rearm = true;
	westwood_raise_ssthresh(sk, WESTWOOD_EV_TIMEOUT, TCP_CA_Loss, ca->loss_pkts);
}

/* Called before the state changes. Loss is a timeout if there is something to undo to,
 * or was CWR before; else the core sends again what was too long for the path.
 */
static void westwood_set_state(struct sock *sk, u8 new_state)
{
	u8 old_state = inet_csk(sk)->icsk_ca_state;
	const struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *ca = inet_csk_ca(sk);

	if (new_state > TCP_CA_Disorder) {
		ca->astart = false;
		westwood_raise_ssthresh(sk, SATCC_EV_STATE, new_state, 0);
	}
	if (new_state == TCP_CA_Loss &&
	    (tp->undo_marker || tp->prior_ssthresh || old_state == TCP_CA_CWR))
		westwood_timeout(sk);
	if (new_state != TCP_CA_Open || old_state != TCP_CA_Recovery)
		return;

	if (tp->undo_marker && ca->loss_pkts && !tp->prior_ssthresh)
		westwood_marked_recovery(sk);
	else
		westwood_resume(sk);
}

static void westwood_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_COMPLETE_CWR)
		westwood_complete(sk);
	else if (event == CA_EVENT_CWND_RESTART)
		westwood_raise_ssthresh(sk, SATCC_EV_IDLE,
					inet_csk(sk)->icsk_ca_state, 0);
}

static u32 westwood_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, satcc_param(pacing));
}

/* In the slot of Vegas, which ss(8) knows: enabled = there is an estimate, rttcnt =
 * b in segments, rtt = last sample, minrtt = RTT_min; us.
 */
static size_t westwood_get_info(struct sock *sk, u32 ext, int *attr,
				union tcp_cc_info *info)
{
	const struct westwood *ca = inet_csk_ca(sk);
	u32 b_pkts = READ_ONCE(ca->b_pkts);

	return satcc_vegas_info(ext, attr, info, b_pkts, b_pkts,
				READ_ONCE(ca->rtt_us), READ_ONCE(ca->min_rtt_us));
}

static struct tcp_congestion_ops tcp_westwood_abse __read_mostly = {
	.init		= westwood_init,
	.release	= westwood_release,
	.ssthresh	= westwood_ssthresh,
	.undo_cwnd	= westwood_undo_cwnd,
	.cong_avoid	= westwood_cong_avoid,
	.set_state	= westwood_set_state,
	.cwnd_event	= westwood_cwnd_event,
	.pkts_acked	= westwood_pkts_acked,
	.get_info	= westwood_get_info,
	.owner		= THIS_MODULE,
	.name		= "westwood_abse",
};

static int __init westwood_register(void)
{
	BUILD_BUG_ON(sizeof(struct westwood) > ICSK_CA_PRIV_SIZE);

	satcc_set_min_tso_segs(&tcp_westwood_abse, westwood_min_tso_segs);

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
