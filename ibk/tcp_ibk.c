// SPDX-License-Identifier: GPL-2.0
/* Increase-by-K, for a few connections whose RTT is much longer than that of the
 * flows they share a bottleneck with. In congestion avoidance such a flow adds K
 * segments per RTT to its window, where Reno adds one:
 *
 *   W += min(K / W, 1)   per segment acknowledged
 *
 * An acknowledged segment adds one segment at most, so growth is never more bursty
 * than slow start. Everything else is Reno, and K = 1 is Reno exactly.
 *
 * Example at 600 ms, K = 4: slow start is Reno's. Suppose the first loss halves the
 * window to 50. Then each ACK adds 4/50, four segments per RTT, and the window is
 * back at 100 in 7.5 s instead of 30 s.
 *
 * Based on:
 *   T. R. Henderson, R. H. Katz, "TCP Performance over Satellite Channels",
 *   University of California, Berkeley, UCB/CSD-99-1083, 1999, section 4.5.
 *
 * Differences from the report:
 *   o Growth counts segments, not ACKs, so delayed ACKs do not slow it down. If it
 *     counted ACKs, K = 2 would only make up for delayed ACKs.
 *   o The price of a segment rises by one with each segment that an ACK adds, so the
 *     result does not depend on how the receiver merges its ACKs.
 *   o Without SACK two segments of an ACK count in full, see satcc_counted().
 *   o The administrator sets K. The report leaves it open whether K should depend on
 *     the RTT, or apply to long RTTs only.
 *   o The core does recovery, undo and idle handling. The flow is paced.
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "compat.h"
#include "ibk.h"
#include "info.h"
#include "owner.h"
#include "pacing.h"
#include "param.h"
#include "socket.h"

/* 4: the K of the report's table 1, and the largest that FIFO queues could take. */
SATCC_PARAM(k, 4, 1, 255);
MODULE_PARM_DESC(k, "segments added per RTT in congestion avoidance (1..255, default 4)");
SATCC_PARAM(pacing, 1, 0, 1);
MODULE_PARM_DESC(pacing, "pace from the start (0/1, default 1)");

static struct tcp_congestion_ops tcp_ibk;

/* May run before, in or long after the handshake. */
static void ibk_init(struct sock *sk)
{
	struct ibk *ca = inet_csk_ca(sk);

	WRITE_ONCE(ca->owner, satcc_owner(sk, &tcp_ibk));
	ca->credit_q16 = 0;
	if (satcc_param(pacing))
		satcc_pacing_enable(sk);
}

static struct ibk *ibk_state(struct sock *sk)
{
	struct ibk *ca = inet_csk_ca(sk);

	if (!satcc_owned(sk, ca->owner, &tcp_ibk))
		ibk_init(sk);

	return ca;
}

/* Called in Open, Disorder and Loss; in CWR and Recovery the core's PRR sets the window. */
static void ibk_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct ibk *ca = ibk_state(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;

	tcp_snd_cwnd_set(tp, ibk_grow(&ca->credit_q16, tcp_snd_cwnd(tp),
				      tp->snd_ssthresh, satcc_cwnd_limit(tp),
				      satcc_param(k), acked, satcc_counted(tp, acked)));
}

/* Called before the state changes. A reduction of the window clears the credit;
 * reordering alone does not.
 */
static void ibk_set_state(struct sock *sk, u8 new_state)
{
	if (new_state > TCP_CA_Disorder)
		ibk_state(sk)->credit_q16 = 0;
}

static void ibk_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART)
		ibk_state(sk)->credit_q16 = 0;
}

static u32 __maybe_unused ibk_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, satcc_param(pacing));
}

/* Fills the record of Vegas, which ss(8) knows: enabled = K is above 1, rttcnt = K,
 * rtt = srtt in us, minrtt = smallest RTT in us.
 */
static size_t ibk_get_info(struct sock *sk, u32 ext, int *attr,
			   union tcp_cc_info *info)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct ibk *ca = inet_csk_ca(sk);
	u32 k = satcc_param(k);

	if (!satcc_owned(sk, READ_ONCE(ca->owner), &tcp_ibk))
		return 0;

	return satcc_vegas_info(ext, attr, info, k > 1, k, satcc_srtt_us(tp),
				satcc_min_rtt_us(tp));
}

/* Not const: registration writes its list node and key, and the registration of the
 * next policy writes the list node again.
 */
static struct tcp_congestion_ops tcp_ibk __read_mostly = {
	.init		= ibk_init,
	.ssthresh	= tcp_reno_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= ibk_cong_avoid,
	.set_state	= ibk_set_state,
	.cwnd_event	= ibk_cwnd_event,
	SATCC_MIN_TSO_SEGS(ibk_min_tso_segs)
	.get_info	= ibk_get_info,
	.owner		= THIS_MODULE,
	.name		= "ibk",
};

static int __init ibk_register(void)
{
	BUILD_BUG_ON(sizeof(struct ibk) > ICSK_CA_PRIV_SIZE);

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
