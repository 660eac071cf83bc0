// SPDX-License-Identifier: GPL-2.0
/* TCP Hybla with all five parts, for connections over long paths such as a
 * satellite hop. A flow sends as fast, second by second, as a reference connection
 * with RTT_0 = 25 ms would in its place.
 *
 *   rho    = max(RTT_min / RTT_0, 1)
 *
 *   slow start:            W += 2^rho - 1   per segment acknowledged
 *   congestion avoidance:  W += rho^2 / W   per segment acknowledged
 *
 * This gives W(t) = rho 2^(t / RTT_0) in slow start and then rho^2 more per RTT, so
 * the rate in segments per second does not depend on the RTT. With rho = 1 both
 * rules are Reno's. Loss reduces the window as in Reno at any rho. The core does
 * recovery, undo and idle handling.
 *
 * At 600 ms rho is 24 and 2^rho - 1 is sixteen million: slow start jumps to
 * ssthresh with one ACK, so the initial ssthresh decides. Hoe's method estimates it
 * from the spacing of the ACKs of the first segments, which leave back to back:
 *
 *   ssthresh = rate * RTT_min, rate = slope of segments delivered over time
 *
 * Until ssthresh is known, the window grows as in Reno's slow start.
 *
 *   WAIT ---first data ACK---> COLLECT ---3 ACKs, 1 ms or more---> SET
 *     | ^                       | |
 *     | +-all ACKed, < 3 ACKs --+ |
 *     |                           |
 *     +--- loss, reordering, -----+--- train over, too long ---> FAILED
 *          no SACK or timestamps
 *
 *   A flow is OFF from its start if it has sent data before, or if a cached metric
 *   or a loss has set ssthresh.
 *
 * The flow is paced once it has taken its points, because a jump of hundreds of
 * segments must not leave as one burst. It is not paced before: the ACKs would then
 * have the spacing of our own pacing, and pacing would only delay ten segments by
 * half a round trip.
 *
 * SACK and timestamps are part of Hybla, because its windows lose many segments at
 * a time and it needs every RTT sample. A flow without them is Reno.
 *
 * Example at 600 ms, 2 Mbit/s, 1500 byte segments: the flow sends ten segments.
 * Their ACKs arrive 6 ms apart, so after the third ACK the rate is 1 per 6 ms and
 * ssthresh is 100. The window, then 12, jumps to 100, and pacing spreads the
 * segments that this releases. After that each ACK adds rho^2/W = 5.76 segments,
 * until a loss halves the window.
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
 *   o 2^rho applies only below a known ssthresh: without an estimate the window
 *     grows as in Reno's slow start.
 *   o In congestion avoidance an acknowledged segment adds at most max(W/4, 1): see
 *     hybla_avoid_rho(). The paper has no bound: at rho = 24 one ACK would raise a
 *     window of 2 to 290.
 *   o The price of a segment rises by one with each segment that an ACK adds, so the
 *     result does not depend on how the receiver merges its ACKs.
 *   o RTT_min has a bounded age: see hybla_path_rtt_us().
 *   o After a timeout the window grows as in Reno until recovery ends, because an
 *     ACK may then acknowledge data that arrived long before.
 *   o The paper does not have gentle=1: see gentle.h.
 *   o Growth counts segments, not ACKs, so delayed, thinned or merged ACKs do not
 *     slow it down.
 *   o Pacing uses the core's 200/120 % of cwnd/srtt instead of 100 %: a flow paced
 *     at cwnd/srtt never fills its window and so never grows.
 *   o rho is at most 256 (6.4 s).
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "compat.h"
#include "hybla.h"
#include "info.h"
#include "owner.h"
#include "pacing.h"
#include "param.h"
#include "rho.h"
#include "socket.h"

SATCC_PARAM(rtt0_ms, 25, 1, 100000);
MODULE_PARM_DESC(rtt0_ms, "RTT of the reference connection, ms (1..100000, default 25)");
SATCC_PARAM(iw_rho, 0, 0, 1);
MODULE_PARM_DESC(iw_rho, "initial window of at least rho (0/1, default 0)");
SATCC_PARAM(gentle, 0, 0, 1);
MODULE_PARM_DESC(gentle, "slower growth while a queue shows (0/1, default 0)");

static struct tcp_congestion_ops tcp_hybla_full;

/* Is ssthresh still at its initial value? */
static bool hybla_ssthresh_unknown(const struct tcp_sock *tp)
{
	return tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH;
}

/* Called on ACKs and not in init(), which may run before the end of the handshake. */
static bool hybla_has_options(const struct tcp_sock *tp)
{
	return tcp_is_sack(tp) && tp->rx_opt.tstamp_ok;
}

/* Set RTT_min and rho. A changed rtt0_ms takes effect on a running flow here, at the
 * next change of RTT_min.
 */
static void hybla_set_path_rtt(struct hybla *ca, u32 rtt_us)
{
	if (rtt_us == ca->path_rtt_us)
		return;

	WRITE_ONCE(ca->path_rtt_us, rtt_us);
	WRITE_ONCE(ca->rho_q16,
		   hybla_rho_q16(rtt_us, satcc_param(rtt0_ms) * USEC_PER_MSEC,
				 HYBLA_RHO_MAX));
}

/* Add an RTT sample. RTT_min uses the raw sample, not srtt, because srtt starts from
 * the handshake's RTT and falls only over many ACKs.
 */
static void hybla_update_rtt(struct sock *sk, s32 rtt_us)
{
	struct hybla *ca = inet_csk_ca(sk);

	if (rtt_us <= 0)	/* no sample: ambiguous after a retransmission */
		return;

	if (!ca->own_rtt_us || rtt_us < ca->own_rtt_us)
		ca->own_rtt_us = rtt_us;
	hybla_set_path_rtt(ca, hybla_path_rtt_us(ca->own_rtt_us,
						 satcc_min_rtt_us(tcp_sk(sk))));
}

/* With iw_rho=1, set the paper's W(0) = rho. This needs a known RTT, a flow that has
 * sent nothing, and a handshake whose losses have not cut the window to 1. Returns
 * whether it raised the window.
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

/* May run before, in or long after the handshake, with or without a known RTT. */
static void hybla_init(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);

	memset(ca, 0, sizeof(*ca));
	WRITE_ONCE(ca->owner, satcc_owner(sk, &tcp_hybla_full));
	hybla_update_rtt(sk, satcc_min_rtt_us(tp));

	/* Only a fresh flow has a train to time; any other is paced at once. A flow
	 * with a raised initial window is paced too: the core does not pace the first
	 * ten segments, and these suffice as a train.
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

/* Set ssthresh, once, from the points taken so far, and start pacing. Keep an
 * ssthresh that a loss has set meanwhile. Do not go below the train's window: on a
 * link that assigns bandwidth on demand the train only sees the few segments that
 * a terminal may send before it requests more.
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

/* Begin a train at its first ACK: the segments in flight now left back to back.
 * Returns false if the flow can take no points.
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

/* Add the point of this ACK. An ACK beyond the train's end also acknowledges
 * segments sent a round trip later and gives no point. Returns false when the train
 * is over or there is an estimate.
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

/* Is the train too short for an estimate, with nothing sent after it? A short
 * request is one case, ten segments acknowledged at once another. The pipe is empty
 * then, so the next segments leave back to back and are as good a train as the
 * first, unless the socket is paced, for example by the application.
 */
static bool hybla_await_next_train(const struct sock *sk, u32 ack)
{
	const struct hybla *ca = inet_csk_ca(sk);

	return ca->hoe_phase == HYBLA_HOE_COLLECT && !satcc_pacing_enabled(sk) &&
	       ack == tcp_sk(sk)->snd_nxt && ca->hoe.points < SATCC_HOE_MIN_POINTS;
}

/* Did the host send the data in flight as fast as it can, and not at the
 * application's rhythm? Then it fills the window, in segments of at least half the
 * MSS on average. Small segments cross the bottleneck at a higher packet rate.
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

/* Follow the start-up train; called for every ACK while hybla_hoe_pending(). The
 * state is Open, because hybla_set_state() ends the train in any other state.
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

/* Does the window grow by rho (true) or as in Reno (false)? */
static bool hybla_grows_by_rho(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct hybla *ca = inet_csk_ca(sk);

	return hybla_has_options(tp) && !hybla_ssthresh_unknown(tp) && ca->rho_q16 &&
	       inet_csk(sk)->icsk_ca_state != TCP_CA_Loss;
}

/* Returns the window after an ACK of acked segments. gentle=1 changes congestion avoidance. */
static u32 hybla_grow(struct sock *sk, bool by_rho, u32 acked)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);
	u32 rho_q16 = by_rho ? ca->rho_q16 : SATCC_Q16_ONE;
	u32 cwnd = tcp_snd_cwnd(tp), limit = satcc_cwnd_limit(tp);

	if (!by_rho || !satcc_param(gentle))
		return hybla_grow_by_rho(&ca->credit, cwnd, tp->snd_ssthresh, limit, rho_q16,
					 acked);

	if (cwnd < tp->snd_ssthresh)
		acked = hybla_slow_start(&ca->credit, &cwnd, min(tp->snd_ssthresh, limit),
					 hybla_slow_start_gain_q16(rho_q16), acked);
	if (!acked)
		return cwnd;

	return hybla_avoid_gently(&ca->credit, cwnd, limit, rho_q16, acked, ca->b,
				  ca->queue.shows);
}

/* Called in Open, Disorder and Loss; in CWR and Recovery the core's PRR sets the
 * window. The train and the queue describe the path, so they are updated even if
 * the window was not full.
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

/* Called before the state changes. A reduction of the window clears the credit.
 * RTT_min is measured again after a timeout, because the path may have changed.
 */
static void hybla_set_state(struct sock *sk, u8 new_state)
{
	struct hybla *ca = hybla_state(sk);

	if (new_state == TCP_CA_Open)
		return;

	/* A lost SYN does not end the train: no data has been sent yet. This happens
	 * when a socket gets this policy while it connects.
	 */
	if (hybla_hoe_pending(ca) && tcp_sk(sk)->bytes_sent)
		hybla_end_hoe(sk);
	if (new_state != TCP_CA_Disorder)
		ca->credit = (struct hybla_credit){};
	if (new_state == TCP_CA_Loss)
		ca->own_rtt_us = 0;
}

/* A restart after idle clears the credit and ends a train in progress. A flow that
 * was idle before its first data still waits for its train.
 */
static void hybla_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct hybla *ca = hybla_state(sk);

	if (event != CA_EVENT_CWND_RESTART)
		return;

	if (ca->hoe_phase == HYBLA_HOE_COLLECT)
		hybla_end_hoe(sk);
	ca->credit = (struct hybla_credit){};
}

static u32 __maybe_unused hybla_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, true);
}

/* Fills the record of Vegas, which ss(8) knows: enabled = the last growth used rho,
 * rttcnt = rho rounded, rtt = srtt in us, minrtt = RTT_min in us.
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

/* Not const: registration writes its list node and key, and the registration of the
 * next policy writes the list node again.
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
