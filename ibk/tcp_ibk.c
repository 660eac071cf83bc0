// SPDX-License-Identifier: GPL-2.0
/* Increase-by-K: for a few connections whose round trip is much longer than that
 * of the flows they share a bottleneck with. In congestion avoidance such a flow
 * adds K segments to its window per RTT, where Reno adds one:
 *
 *   W += min(K / W, 1)   per segment acknowledged
 *
 * Never more than a segment for each one acknowledged, so it is at no time more
 * bursty than slow start. All else is Reno: K = 1 is Reno exactly.
 *
 * K is a number, or follows from the RTT (k_auto):
 *
 *   K = (RTT_min / RTT_ref)^2, within 1 .. 8
 *
 * Window per RTT is the rate, so K per RTT makes the rate grow by K / RTT^2, with
 * this K by 1 / RTT_ref^2: as fast as a Reno flow of RTT_ref does.
 *
 * If every flow did so, fairness would be back where it was: K is for long paths
 * only, and rtt_min_ms says what is long. The RTT in both is the smallest, which
 * is the path's: a growing queue must not make a flow more aggressive.
 *
 * Life of a flow at 600 ms, K = 4: slow start as ever. After the first loss the
 * window is 50, say; each ACK adds 4/50, four segments per RTT, and the 50 that
 * were lost are regained in 7.5 s instead of 30.
 *
 * Based on:
 *   T. R. Henderson, R. H. Katz, "TCP Performance over Satellite Channels",
 *   University of California, Berkeley, UCB/CSD-99-1083, 1999, section 4.5.
 *
 * Differences from the report:
 *   o Segments, not ACKs, are counted, so that delayed ACKs slow nothing down.
 *     With ACKs, K = 2 only makes up for them.
 *   o The RTT threshold and K from the RTT are in the report as what might be done;
 *     the formula is ours.
 *   o Recovery, undo and idle handling are the core's, pacing is on.
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "compat.h"
#include "event.h"
#include "ibk.h"
#include "info.h"
#include "pacing.h"
#include "param.h"
#include "rtt.h"

#define CREATE_TRACE_POINTS
#include "ibk_trace.h"

/* 4: what the report's table 1 is for, and as far as FIFO queues took it. */
SATCC_PARAM(k, 4, 1, 255);
MODULE_PARM_DESC(k, "segments added per RTT in congestion avoidance (1..255, default 4)");
SATCC_PARAM(rtt_min_ms, 0, 0, 10000);
MODULE_PARM_DESC(rtt_min_ms, "smallest RTT for which K is not 1, ms, 0 = any (0..10000, default 0)");
SATCC_PARAM(k_auto, 0, 0, 1);
MODULE_PARM_DESC(k_auto, "derive K from the RTT, 1 to 8, and leave k aside (0/1, default 0)");
/* 300 ms: a geostationary path of 600 ms gets K = 4. */
SATCC_PARAM(rtt_ref_ms, 300, 1, 10000);
MODULE_PARM_DESC(rtt_ref_ms, "RTT of the Reno flow to grow as fast as, for k_auto, ms (1..10000, default 300)");
SATCC_PARAM(pacing, 1, 0, 1);
MODULE_PARM_DESC(pacing, "pace from the start (0/1, default 1)");

static __always_inline struct ibk_config ibk_config(void)
{
	return (struct ibk_config){
		.k	    = satcc_param(k),
		.rtt_min_us = satcc_param(rtt_min_ms) * USEC_PER_MSEC,
		.ref_us	    = satcc_param(k_auto) ?
			      satcc_param(rtt_ref_ms) * USEC_PER_MSEC : 0,
	};
}

static __always_inline struct ibk_basis ibk_basis(struct sock *sk)
{
	struct ibk_config config = ibk_config();
	u32 min_rtt_us = satcc_min_rtt_us(tcp_sk(sk));
	struct ibk *ca = inet_csk_ca(sk);
	u8 rule = ibk_rule(&config, min_rtt_us);

	return (struct ibk_basis){
		.credit_q16 = ca->credit_q16,
		.min_rtt_us = min_rtt_us,
		.k_q16	    = ibk_k_q16(&config, rule, min_rtt_us, &ca->derived),
		.rule	    = rule,
	};
}

/* Before, in or long after the handshake; the RTT may be known or not. */
static void ibk_init(struct sock *sk)
{
	struct satcc_event ev = satcc_event(sk, SATCC_EV_INIT,
					    inet_csk(sk)->icsk_ca_state);
	struct ibk *ca = inet_csk_ca(sk);
	struct ibk_basis basis;

	memset(ca, 0, sizeof(*ca));
	basis = ibk_basis(sk);
	if (satcc_param(pacing))
		satcc_pacing_enable(sk);

	trace_ibk(sk, &ev, &basis);
}

/* The account of an ACK. Apart, and asked for only when someone listens: it would be
 * half the work of an ACK.
 */
static noinline void ibk_trace_ack(struct sock *sk, u32 acked, u32 cwnd_old,
				   bool grown, struct ibk_basis basis)
{
	struct satcc_event ev = satcc_ack_event(sk, acked, cwnd_old, grown);

	trace_ibk(sk, &ev, &basis);
}

/* Open, Disorder and Loss alike; CWR and Recovery are PRR's. */
static void ibk_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct ibk_basis basis = ibk_basis(sk);
	bool grown = tcp_is_cwnd_limited(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct ibk *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_snd_cwnd(tp), next;

	if (grown) {
		next = ibk_grow(&ca->credit_q16, cwnd, tp->snd_ssthresh,
				satcc_cwnd_limit(tp), basis.k_q16, acked);
		tcp_snd_cwnd_set(tp, next);
	}
	if (trace_ibk_enabled())
		ibk_trace_ack(sk, acked, cwnd, grown, basis);
}

static u32 ibk_ssthresh(struct sock *sk)
{
	struct satcc_event ev = satcc_event(sk, SATCC_EV_SSTHRESH,
					    inet_csk(sk)->icsk_ca_state);
	struct ibk_basis basis = ibk_basis(sk);

	ev.ssthresh = tcp_reno_ssthresh(sk);
	trace_ibk(sk, &ev, &basis);

	return ev.ssthresh;
}

static u32 ibk_undo_cwnd(struct sock *sk)
{
	struct satcc_event ev = satcc_event(sk, SATCC_EV_UNDO,
					    inet_csk(sk)->icsk_ca_state);
	struct ibk_basis basis = ibk_basis(sk);

	ev.cwnd = tcp_reno_undo_cwnd(sk);
	trace_ibk(sk, &ev, &basis);

	return ev.cwnd;
}

static void ibk_drop_credit(struct sock *sk, u8 event, u8 ca_state)
{
	struct satcc_event ev = satcc_event(sk, event, ca_state);
	struct ibk_basis basis = ibk_basis(sk);
	struct ibk *ca = inet_csk_ca(sk);

	ca->credit_q16 = 0;
	trace_ibk(sk, &ev, &basis);
}

/* Called before the state changes. Reordering alone is no reason to forget. */
static void ibk_set_state(struct sock *sk, u8 new_state)
{
	if (new_state != TCP_CA_Open && new_state != TCP_CA_Disorder)
		ibk_drop_credit(sk, SATCC_EV_STATE, new_state);
}

static void ibk_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART)
		ibk_drop_credit(sk, SATCC_EV_IDLE, inet_csk(sk)->icsk_ca_state);
}

static u32 ibk_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, satcc_param(pacing));
}

/* In the slot of Vegas, which ss(8) knows: enabled = K is above 1 now, rttcnt = K
 * rounded, rtt = smoothed, minrtt = smallest; us. Without the socket lock, so the
 * flow's own memory of K is not used.
 */
static size_t ibk_get_info(struct sock *sk, u32 ext, int *attr,
			   union tcp_cc_info *info)
{
	struct ibk_config config = ibk_config();
	u32 min_rtt_us = satcc_min_rtt_us(tcp_sk(sk));
	u32 srtt_us = satcc_srtt_us(tcp_sk(sk));
	struct ibk_auto derived = {};
	u32 k_q16;

	k_q16 = ibk_k_q16(&config, ibk_rule(&config, min_rtt_us), min_rtt_us,
			  &derived);

	return satcc_vegas_info(ext, attr, info, k_q16 > SATCC_Q16_ONE,
				(k_q16 + SATCC_Q16_ONE / 2) >> SATCC_Q16_SHIFT,
				srtt_us, min_rtt_us);
}

static struct tcp_congestion_ops tcp_ibk __read_mostly = {
	.init		= ibk_init,
	.ssthresh	= ibk_ssthresh,
	.undo_cwnd	= ibk_undo_cwnd,
	.cong_avoid	= ibk_cong_avoid,
	.set_state	= ibk_set_state,
	.cwnd_event	= ibk_cwnd_event,
	.get_info	= ibk_get_info,
	.owner		= THIS_MODULE,
	.name		= "ibk",
};

static int __init ibk_register(void)
{
	BUILD_BUG_ON(sizeof(struct ibk) > ICSK_CA_PRIV_SIZE);

	satcc_set_min_tso_segs(&tcp_ibk, ibk_min_tso_segs);

	return tcp_register_congestion_control(&tcp_ibk);
}

static void __exit ibk_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_ibk);
}

module_init(ibk_register);
module_exit(ibk_unregister);

MODULE_AUTHOR("satcc authors");
MODULE_DESCRIPTION("Increase-by-K TCP congestion avoidance for long paths");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1");
