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
 *     plain slow start.
 *   o In congestion avoidance a segment acknowledged adds at most W/4, or 1 if
 *     that is more: see satcc_avoid_rho(). The paper has no bound: at rho = 24 one
 *     ACK would take a window of 2 to 290.
 *   o Each segment that an ACK adds costs one more than the one before, so that it
 *     does not matter how the receiver merges its ACKs.
 *   o RTT_min is of bounded age: see satcc_path_rtt_us().
 *   o After a timeout growth is Reno's until recovery ends: what an ACK then
 *     acknowledges may have been received long before.
 *   o gentle=1 is not of the paper: see gentle.h.
 *   o Segments, not ACKs, are counted, so that delayed, thinned or merged ACKs
 *     slow nothing down.
 *   o Pacing is at the core's 200/120 % of cwnd/srtt instead of 100 %: paced at
 *     exactly the window's rate a flow never fills it, and so never grows.
 *   o rho is at most 256 (6.4 s).
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "compat.h"
#include "growth.h"
#include "hybla.h"
#include "info.h"
#include "owner.h"
#include "pacing.h"
#include "param.h"
#include "rho.h"
#include "rtt.h"

SATCC_PARAM(rtt0_ms, 25, 1, 100000);
MODULE_PARM_DESC(rtt0_ms, "RTT of the reference connection, ms (1..100000, default 25)");
SATCC_PARAM(iw_rho, 0, 0, 1);
MODULE_PARM_DESC(iw_rho, "initial window of at least rho (0/1, default 0)");
SATCC_PARAM(gentle, 0, 0, 1);
MODULE_PARM_DESC(gentle, "growth that stops when a queue shows (0/1, default 0)");

static struct tcp_congestion_ops tcp_hybla_full;

/* Is this the ssthresh of a flow that has not learnt one? */
static bool hybla_ssthresh_unknown(const struct tcp_sock *tp)
{
	return tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH;
}

/* Asked on ACKs, not in init(), which may run before the handshake is over. */
static bool hybla_has_options(const struct tcp_sock *tp)
{
	return tcp_is_sack(tp) && tp->rx_opt.tstamp_ok;
}

/* RTT_min is an RTT of the path, and rho follows. A change of rtt0_ms reaches a
 * running flow here, at the next change of RTT_min.
 */
static void hybla_set_path_rtt(struct hybla *ca, u32 rtt_us)
{
	if (rtt_us == ca->path_rtt_us)
		return;

	WRITE_ONCE(ca->path_rtt_us, rtt_us);
	WRITE_ONCE(ca->rho_q16,
		   satcc_rho_q16(rtt_us, satcc_param(rtt0_ms) * USEC_PER_MSEC,
				 SATCC_RHO_MAX));
}

/* Take an RTT sample. The raw sample and not srtt: the mean starts from the
 * handshake and takes many ACKs to come down.
 */
static void hybla_update_rtt(struct sock *sk, s32 rtt_us)
{
	struct hybla *ca = inet_csk_ca(sk);

	if (rtt_us <= 0)	/* none: ambiguous after a retransmission */
		return;

	if (!ca->own_rtt_us || rtt_us < ca->own_rtt_us)
		ca->own_rtt_us = rtt_us;
	hybla_set_path_rtt(ca, satcc_path_rtt_us(ca->own_rtt_us,
						 satcc_min_rtt_us(tcp_sk(sk))));
}

/* The paper's W(0) = rho, where asked for: only if the RTT is known, nothing was
 * sent, and the handshake's losses have not cut the window to 1. Returns whether
 * the window is larger now.
 */
static bool hybla_init_cwnd(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct hybla *ca = inet_csk_ca(sk);
	u32 rho = (ca->rho_q16 + SATCC_Q16_ONE / 2) >> SATCC_Q16_SHIFT;
	u32 cwnd = tcp_snd_cwnd(tp);

	rho = min(rho, satcc_cwnd_limit(tp));
	if (!satcc_param(iw_rho) || tp->bytes_sent || cwnd < 2 || rho <= cwnd ||
	    !hybla_has_options(tp))
		return false;

	tcp_snd_cwnd_set(tp, rho);

	return true;
}

/* Before, in or long after the handshake; the RTT may be known or not. */
static void hybla_init(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);

	memset(ca, 0, sizeof(*ca));
	WRITE_ONCE(ca->owner, satcc_owner(sk, &tcp_hybla_full));
	hybla_update_rtt(sk, satcc_min_rtt_us(tp));

	/* A train is what a fresh flow sends first. One that is not going to be
	 * timed may be paced at once. So is a larger window than the kernel's: of
	 * it the stack leaves the first ten segments alone, train enough.
	 */
	if (!tp->bytes_sent && hybla_ssthresh_unknown(tp))
		ca->hoe_phase = HYBLA_HOE_WAIT;
	if (hybla_init_cwnd(sk) || ca->hoe_phase == HYBLA_HOE_OFF)
		satcc_pacing_enable(sk);
}

static struct hybla *hybla_state(struct sock *sk)
{
	struct hybla *ca = inet_csk_ca(sk);

	if (!satcc_owned(sk, ca->owner, &tcp_hybla_full))
		hybla_init(sk);

	return ca;
}

static void hybla_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct hybla *ca = hybla_state(sk);

	hybla_update_rtt(sk, sample->rtt_us);
	if (satcc_param(gentle) && sample->rtt_us > 0)
		hybla_queue_sample(&ca->queue, sample->rtt_us, tcp_sk(sk)->snd_nxt);
}

/* ssthresh = slope of the train * RTT_min; 0 = no estimate */
static u32 hybla_hoe_ssthresh(const struct hybla *ca)
{
	return satcc_hoe_window(&ca->hoe, SATCC_HOE_MIN_POINTS, ca->path_rtt_us);
}

/* End collection: set ssthresh, once, from what there is, and start pacing. An
 * ssthresh that a loss has brought meanwhile is kept. Never below the initial
 * window: on a link that gives bandwidth on demand the train sees only the few
 * segments' worth a terminal has before it asks.
 */
static void hybla_end_hoe(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);
	u32 pkts = 0;

	if (hybla_ssthresh_unknown(tp))
		pkts = hybla_hoe_ssthresh(ca);

	ca->hoe_phase = pkts ? HYBLA_HOE_SET : HYBLA_HOE_FAILED;
	ca->b = pkts;
	if (pkts)
		tp->snd_ssthresh = min(max3(pkts, ca->train_cwnd, 2U),
				       satcc_cwnd_limit(tp));
	satcc_pacing_enable(sk);
}

/* The first data ACK: what is in flight now left back to back and is the train.
 * Returns false if there is nothing to learn.
 */
static bool hybla_start_train(struct sock *sk, u32 ack)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);

	ca->train_cwnd = tcp_snd_cwnd(tp);
	if (!hybla_ssthresh_unknown(tp) || !hybla_has_options(tp))
		return false;

	ca->hoe_phase = HYBLA_HOE_COLLECT;
	ca->train_start_us = tp->tcp_mstamp;
	ca->train_delivered = tp->delivered;
	ca->train_end_seq = tp->snd_nxt;
	satcc_hoe_start(&ca->hoe);

	return after(tp->snd_nxt, ack);
}

/* Take this ACK's point. An ACK beyond the train also answers what was sent a
 * round trip later and is no point of it. Returns false when the train is over
 * or has said enough.
 */
static bool hybla_extend_train(struct sock *sk, u32 ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);

	if (after(ack, ca->train_end_seq) ||
	    !satcc_hoe_add(&ca->hoe, tp->tcp_mstamp - ca->train_start_us,
			   tp->delivered - ca->train_delivered, ca->path_rtt_us))
		return false;

	return before(ack, ca->train_end_seq) && !hybla_hoe_ssthresh(ca);
}

/* Too short a train, with nothing sent after it, says nothing about the path: a
 * request, say, or ten segments acknowledged at once. What is sent next leaves an
 * empty pipe, back to back, and is a train as good as the first; unless the socket
 * is paced, by the application say.
 */
static bool hybla_await_next_train(const struct sock *sk, u32 ack)
{
	const struct hybla *ca = inet_csk_ca(sk);

	return ca->hoe_phase == HYBLA_HOE_COLLECT && !satcc_pacing_enabled(sk) &&
	       ack == tcp_sk(sk)->snd_nxt && ca->hoe.points < SATCC_HOE_MIN_POINTS;
}

/* Is what is in flight a train, sent as fast as the host can, and not an
 * application's own rhythm? It fills the window, in segments of at least half
 * the full size: small ones cross the bottleneck faster than the path's rate.
 */
static bool hybla_train_sent(const struct sock *sk, u32 ack)
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
static void hybla_update_hoe(struct sock *sk, u32 ack)
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
		hybla_end_hoe(sk);
}

/* Is growth by rho, and not Reno's? */
static bool hybla_grows_by_rho(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct hybla *ca = inet_csk_ca(sk);

	return hybla_has_options(tp) && !hybla_ssthresh_unknown(tp) && ca->rho_q16 &&
	       inet_csk(sk)->icsk_ca_state != TCP_CA_Loss;
}

/* The window after an ACK of acked segments; gentle=1 changes congestion avoidance. */
static u32 hybla_grow(struct sock *sk, bool by_rho, u32 acked)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);
	u32 rho_q16 = by_rho ? ca->rho_q16 : SATCC_Q16_ONE;
	u32 cwnd = tcp_snd_cwnd(tp), limit = satcc_cwnd_limit(tp);

	if (!by_rho || !satcc_param(gentle))
		return satcc_grow(&ca->credit, cwnd, tp->snd_ssthresh, limit, rho_q16, acked);

	if (cwnd < tp->snd_ssthresh)
		acked = satcc_slow_start(&ca->credit, &cwnd, min(tp->snd_ssthresh, limit),
					 satcc_slow_start_gain_q16(rho_q16), acked);
	if (!acked)
		return cwnd;

	return hybla_avoid_gently(&ca->credit, cwnd, limit, rho_q16, acked, ca->b,
				  ca->queue.shows);
}

/* Open, Disorder and Loss; CWR and Recovery are PRR's. The train and the queue are
 * followed first: they are the path's whether or not the window was full.
 */
static void hybla_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct hybla *ca = hybla_state(sk);
	bool by_rho;

	if (hybla_hoe_pending(ca))
		hybla_update_hoe(sk, ack);
	if (satcc_param(gentle))
		hybla_queue_ack(&ca->queue, ack, ca->path_rtt_us);
	if (!tcp_is_cwnd_limited(sk))
		return;

	by_rho = hybla_grows_by_rho(sk);
	WRITE_ONCE(ca->by_rho, by_rho);
	tcp_snd_cwnd_set(tcp_sk(sk), hybla_grow(sk, by_rho, acked));
}

/* Called before the state changes. What growth had earned is void when the window is
 * reduced. After a timeout the path may be another one, so RTT_min starts anew.
 */
static void hybla_set_state(struct sock *sk, u8 new_state)
{
	struct hybla *ca = hybla_state(sk);

	if (new_state == TCP_CA_Open)
		return;

	/* A SYN lost before any data (a socket given this policy while connecting)
	 * says nothing about a train to come.
	 */
	if (hybla_hoe_pending(ca) && tcp_sk(sk)->bytes_sent)
		hybla_end_hoe(sk);
	if (new_state != TCP_CA_Disorder)
		ca->credit = (struct satcc_credit){};
	if (new_state == TCP_CA_Loss)
		ca->own_rtt_us = 0;
}

/* After idle the window starts again and what it had earned is void. A flow that
 * was idle before its first data still has its train to come.
 */
static void hybla_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct hybla *ca = hybla_state(sk);

	if (event != CA_EVENT_CWND_RESTART)
		return;

	if (ca->hoe_phase == HYBLA_HOE_COLLECT)
		hybla_end_hoe(sk);
	ca->credit = (struct satcc_credit){};
}

static u32 __maybe_unused hybla_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, true);
}

/* In the slot of Vegas, which ss(8) knows: enabled = the last growth was by rho,
 * rttcnt = rho rounded, rtt = smoothed, minrtt = RTT_min; us.
 */
static size_t hybla_get_info(struct sock *sk, u32 ext, int *attr,
			     union tcp_cc_info *info)
{
	const struct hybla *ca = inet_csk_ca(sk);

	if (!satcc_owned(sk, READ_ONCE(ca->owner), &tcp_hybla_full))
		return 0;

	return satcc_vegas_info(ext, attr, info, READ_ONCE(ca->by_rho),
				(READ_ONCE(ca->rho_q16) + SATCC_Q16_ONE / 2) >>
				SATCC_Q16_SHIFT, satcc_srtt_us(tcp_sk(sk)),
				READ_ONCE(ca->path_rtt_us));
}

/* Not const: registration writes the list node and the key, and the registration of
 * the next policy the node again.
 */
static struct tcp_congestion_ops tcp_hybla_full __read_mostly = {
	.init		= hybla_init,
	.ssthresh	= tcp_reno_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= hybla_cong_avoid,
	.set_state	= hybla_set_state,
	.cwnd_event	= hybla_cwnd_event,
	.pkts_acked	= hybla_pkts_acked,
	SATCC_MIN_TSO_SEGS(hybla_min_tso_segs)
	.get_info	= hybla_get_info,
	.owner		= THIS_MODULE,
	.name		= "hybla_full",
};

static int __init hybla_register(void)
{
	BUILD_BUG_ON(sizeof(struct hybla) > ICSK_CA_PRIV_SIZE);

	return tcp_register_congestion_control(&tcp_hybla_full);
}

static void __exit hybla_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_hybla_full);
}

module_init(hybla_register);
module_exit(hybla_unregister);

MODULE_AUTHOR("satcc authors");
MODULE_DESCRIPTION("TCP Hybla with pacing and an estimated initial ssthresh");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1");
