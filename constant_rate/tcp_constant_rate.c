// SPDX-License-Identifier: GPL-2.0
/* Floyd's Constant-Rate window increase: for networks in which every flow uses it,
 * so that flows with unequal round trips get equal shares. In congestion avoidance
 *
 *   W += min(c rtt^2 / W, 1)   per segment acknowledged, rtt in seconds
 *
 * The rate is W / rtt and a window of segments is acknowledged per rtt, so it
 * grows by c segments per second each second, whatever the rtt. c says how
 * aggressive that is: as Reno at an rtt of 1/sqrt(c) s.
 *
 *   c      4       100      400     1600
 *   rtt    500 ms  100 ms   50 ms   25 ms
 *
 * Where c rtt^2 is above W each segment acknowledged brings one more, as in slow
 * start. Without this bound a small window on a long path would send several
 * segments per ACK; the bound may be lifted (bound=0) if the flow is paced.
 *
 * Slow start, reduction on loss and undo are Reno's; so is growth as long as there
 * is no RTT sample.
 *
 * Life of a flow at 600 ms, c = 100: c rtt^2 is 36. From an ssthresh of 10 the
 * window doubles each RTT up to 36; from there on it grows by 36 per RTT, 60
 * segments per second more each 0.6 s, and by 36 times Reno's.
 *
 * Based on:
 *   S. Floyd, "Connections with Multiple Congested Gateways in Packet-Switched
 *   Networks, Part 1: One-way Traffic", ACM Computer Communication Review,
 *   21(5), 1991, pp. 30-47.
 *   T. R. Henderson, R. H. Katz, "TCP Performance over Satellite Channels",
 *   University of California, Berkeley, UCB/CSD-99-1083, 1999, section 4.4.
 *
 * Differences from the report:
 *   o Segments, not ACKs, are counted, so that delayed ACKs slow nothing down.
 *   o rtt is the core's smoothed RTT, of microsecond samples, or the smallest RTT
 *     (use_min_rtt), at most 10 s.
 *   o The bound may be lifted for paced flows, which the report did not try.
 *   o Recovery, undo and idle handling are the core's, pacing is on.
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "compat.h"
#include "constant_rate.h"
#include "event.h"
#include "info.h"
#include "pacing.h"
#include "param.h"
#include "rtt.h"

#define CREATE_TRACE_POINTS
#include "constant_rate_trace.h"

/* 100: the report found fairness best below, utilisation low far below. */
SATCC_PARAM(c, 100, 1, CONSTANT_RATE_MAX_C);
MODULE_PARM_DESC(c, "growth of the rate, segments/s^2 (1..10000, default 100)");
SATCC_PARAM(use_min_rtt, 0, 0, 1);
MODULE_PARM_DESC(use_min_rtt, "rtt is the smallest, not the smoothed (0/1, default 0)");
SATCC_PARAM(bound, 1, 0, 1);
MODULE_PARM_DESC(bound, "add at most a segment per segment acknowledged; 0 is for paced flows, others keep it (0/1, default 1)");
SATCC_PARAM(pacing, 1, 0, 1);
MODULE_PARM_DESC(pacing, "pace from the start (0/1, default 1)");

static u32 constant_rate_rtt_us(const struct tcp_sock *tp, u32 min_rtt_us)
{
	return satcc_param(use_min_rtt) ? min_rtt_us : satcc_srtt_us(tp);
}

static __always_inline struct constant_rate_basis constant_rate_basis(const struct sock *sk)
{
	const struct constant_rate *ca = inet_csk_ca(sk);
	u32 min_rtt_us = satcc_min_rtt_us(tcp_sk(sk));
	u32 rtt_us = constant_rate_rtt_us(tcp_sk(sk), min_rtt_us);

	return (struct constant_rate_basis){
		.credit_q20 = ca->credit_q20,
		.a_q20	    = constant_rate_a_q20(satcc_param(c), rtt_us),
		.rtt_us	    = rtt_us,
		.min_rtt_us = min_rtt_us,
		.bound	    = satcc_param(bound) || !satcc_pacing_enabled(sk),
	};
}

/* Before, in or long after the handshake; the RTT may be known or not. */
static void constant_rate_init(struct sock *sk)
{
	struct satcc_event ev = satcc_event(sk, SATCC_EV_INIT,
					    inet_csk(sk)->icsk_ca_state);
	struct constant_rate *ca = inet_csk_ca(sk);
	struct constant_rate_basis basis;

	memset(ca, 0, sizeof(*ca));
	if (satcc_param(pacing))
		satcc_pacing_enable(sk);
	basis = constant_rate_basis(sk);

	trace_constant_rate(sk, &ev, &basis);
}

/* The account of an ACK. Apart, and asked for only when someone listens: it would be
 * half the work of an ACK.
 */
static noinline void constant_rate_trace_ack(struct sock *sk, u32 acked,
					     u32 cwnd_old, bool grown,
					     struct constant_rate_basis basis)
{
	struct satcc_event ev = satcc_ack_event(sk, acked, cwnd_old, grown);

	trace_constant_rate(sk, &ev, &basis);
}

/* Open, Disorder and Loss alike; CWR and Recovery are PRR's. */
static void constant_rate_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct constant_rate_basis basis = constant_rate_basis(sk);
	struct constant_rate *ca = inet_csk_ca(sk);
	bool grown = tcp_is_cwnd_limited(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tcp_snd_cwnd(tp), next;

	if (grown) {
		next = constant_rate_grow(&ca->credit_q20, cwnd, tp->snd_ssthresh,
					  satcc_cwnd_limit(tp),
					  basis.a_q20, basis.bound, acked);
		tcp_snd_cwnd_set(tp, next);
	}
	if (trace_constant_rate_enabled())
		constant_rate_trace_ack(sk, acked, cwnd, grown, basis);
}

static u32 constant_rate_ssthresh(struct sock *sk)
{
	struct satcc_event ev = satcc_event(sk, SATCC_EV_SSTHRESH,
					    inet_csk(sk)->icsk_ca_state);
	struct constant_rate_basis basis = constant_rate_basis(sk);

	ev.ssthresh = tcp_reno_ssthresh(sk);
	trace_constant_rate(sk, &ev, &basis);

	return ev.ssthresh;
}

static u32 constant_rate_undo_cwnd(struct sock *sk)
{
	struct satcc_event ev = satcc_event(sk, SATCC_EV_UNDO,
					    inet_csk(sk)->icsk_ca_state);
	struct constant_rate_basis basis = constant_rate_basis(sk);

	ev.cwnd = tcp_reno_undo_cwnd(sk);
	trace_constant_rate(sk, &ev, &basis);

	return ev.cwnd;
}

static void constant_rate_drop_credit(struct sock *sk, u8 event, u8 ca_state)
{
	struct satcc_event ev = satcc_event(sk, event, ca_state);
	struct constant_rate_basis basis = constant_rate_basis(sk);
	struct constant_rate *ca = inet_csk_ca(sk);

	ca->credit_q20 = 0;
	trace_constant_rate(sk, &ev, &basis);
}

/* Called before the state changes. Reordering alone is no reason to forget. */
static void constant_rate_set_state(struct sock *sk, u8 new_state)
{
	if (new_state != TCP_CA_Open && new_state != TCP_CA_Disorder)
		constant_rate_drop_credit(sk, SATCC_EV_STATE, new_state);
}

static void constant_rate_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART)
		constant_rate_drop_credit(sk, SATCC_EV_IDLE,
					  inet_csk(sk)->icsk_ca_state);
}

static u32 constant_rate_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, satcc_param(pacing));
}

/* In the slot of Vegas, which ss(8) knows: enabled = there is an RTT to grow by,
 * rttcnt = c rtt^2 rounded, at most 10^6, rtt = smoothed, minrtt = smallest; us.
 */
static size_t constant_rate_get_info(struct sock *sk, u32 ext, int *attr,
				     union tcp_cc_info *info)
{
	struct constant_rate_basis basis = constant_rate_basis(sk);

	return satcc_vegas_info(ext, attr, info, basis.rtt_us,
				(basis.a_q20 + CONSTANT_RATE_Q20_ONE / 2) >>
				CONSTANT_RATE_Q20_SHIFT,
				satcc_srtt_us(tcp_sk(sk)), basis.min_rtt_us);
}

static struct tcp_congestion_ops tcp_constant_rate __read_mostly = {
	.init		= constant_rate_init,
	.ssthresh	= constant_rate_ssthresh,
	.undo_cwnd	= constant_rate_undo_cwnd,
	.cong_avoid	= constant_rate_cong_avoid,
	.set_state	= constant_rate_set_state,
	.cwnd_event	= constant_rate_cwnd_event,
	.get_info	= constant_rate_get_info,
	.owner		= THIS_MODULE,
	.name		= "constant_rate",
};

static int __init constant_rate_register(void)
{
	BUILD_BUG_ON(sizeof(struct constant_rate) > ICSK_CA_PRIV_SIZE);

	satcc_set_min_tso_segs(&tcp_constant_rate, constant_rate_min_tso_segs);

	return tcp_register_congestion_control(&tcp_constant_rate);
}

static void __exit constant_rate_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_constant_rate);
}

module_init(constant_rate_register);
module_exit(constant_rate_unregister);

MODULE_AUTHOR("satcc authors");
MODULE_DESCRIPTION("Floyd's Constant-Rate TCP congestion avoidance");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1");
