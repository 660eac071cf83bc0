// SPDX-License-Identifier: GPL-2.0
/* Floyd's Constant-Rate window increase, for networks in which every flow uses it, so
 * that flows with unequal RTTs get equal shares. In congestion avoidance
 *
 *   W += min(c rtt^2 / W, 1)   per segment acknowledged, rtt in seconds
 *
 * The rate is W / rtt, and W segments are acknowledged per rtt. So the rate grows by
 * c segments per second each second at any rtt. A flow is as aggressive as Reno at an
 * rtt of 1/sqrt(c) s:
 *
 *   c      4       100      400     1600
 *   rtt    500 ms  100 ms   50 ms   25 ms
 *
 * Where c rtt^2 is above W, each acknowledged segment adds one, as in slow start.
 * Without this bound a small window on a long path would send several segments per
 * ACK.
 *
 * Slow start, reduction on loss and undo are Reno's, and so is growth before the first
 * RTT sample.
 *
 * Example at 600 ms, c = 100: c rtt^2 is 36. From an ssthresh of 10 the window doubles
 * each RTT up to 36. Then it grows by 36 per RTT, 36 times as fast as Reno's, and the
 * rate grows by 60 segments per second each 0.6 s.
 *
 * Based on:
 *   S. Floyd, "Connections with Multiple Congested Gateways in Packet-Switched
 *   Networks, Part 1: One-way Traffic", ACM Computer Communication Review,
 *   21(5), 1991, pp. 30-47.
 *   T. R. Henderson, R. H. Katz, "TCP Performance over Satellite Channels",
 *   University of California, Berkeley, UCB/CSD-99-1083, 1999, section 4.4.
 *
 * Differences from the report:
 *   o Growth counts segments, not ACKs, so delayed ACKs do not slow it down.
 *   o The price of a segment rises by one with each segment that an ACK adds, so the
 *     result does not depend on how the receiver merges its ACKs.
 *   o Without SACK two segments of an ACK count in full, see satcc_counted().
 *   o rtt is the core's srtt, from microsecond samples, at most 10 s.
 *   o The core does recovery, undo and idle handling. The flow is paced.
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "compat.h"
#include "constant_rate.h"
#include "info.h"
#include "owner.h"
#include "pacing.h"
#include "param.h"
#include "socket.h"

/* 100: the report found smaller values fairer, and utilisation low at much smaller ones. */
SATCC_PARAM(c, 100, 1, CONSTANT_RATE_MAX_C);
MODULE_PARM_DESC(c, "growth of the rate, segments/s^2 (1..10000, default 100)");
SATCC_PARAM(pacing, 1, 0, 1);
MODULE_PARM_DESC(pacing, "pace from the start (0/1, default 1)");

static struct tcp_congestion_ops tcp_constant_rate;

/* May run before, in or long after the handshake, with or without a known RTT. */
static void constant_rate_init(struct sock *sk)
{
	struct constant_rate *ca = inet_csk_ca(sk);

	WRITE_ONCE(ca->owner, satcc_owner(sk, &tcp_constant_rate));
	WRITE_ONCE(ca->a_pkts, 0);
	ca->credit_q20 = 0;
	if (satcc_param(pacing))
		satcc_pacing_enable(sk);
}

static struct constant_rate *constant_rate_state(struct sock *sk)
{
	struct constant_rate *ca = inet_csk_ca(sk);

	if (!satcc_owned(sk, ca->owner, &tcp_constant_rate))
		constant_rate_init(sk);

	return ca;
}

/* Called in Open, Disorder and Loss; in CWR and Recovery the core's PRR sets the window. */
static void constant_rate_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct constant_rate *ca = constant_rate_state(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u64 a_q20;

	if (!tcp_is_cwnd_limited(sk))
		return;

	a_q20 = constant_rate_a_q20(satcc_param(c), satcc_srtt_us(tp));
	WRITE_ONCE(ca->a_pkts, constant_rate_a_pkts(a_q20));
	tcp_snd_cwnd_set(tp, constant_rate_grow(&ca->credit_q20, tcp_snd_cwnd(tp),
						tp->snd_ssthresh, satcc_cwnd_limit(tp),
						a_q20, acked, satcc_counted(tp, acked)));
}

/* Called before the state changes. A reduction of the window clears the credit;
 * reordering alone does not.
 */
static void constant_rate_set_state(struct sock *sk, u8 new_state)
{
	if (new_state > TCP_CA_Disorder)
		constant_rate_state(sk)->credit_q20 = 0;
}

static void constant_rate_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART)
		constant_rate_state(sk)->credit_q20 = 0;
}

static u32 __maybe_unused constant_rate_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, satcc_param(pacing));
}

/* Fills the record of Vegas, which ss(8) knows: enabled = c rtt^2 at the last growth was
 * 1/2 or more, rttcnt = c rtt^2 rounded, at most 10^6, rtt = srtt in us, minrtt =
 * smallest RTT in us.
 */
static size_t constant_rate_get_info(struct sock *sk, u32 ext, int *attr,
				     union tcp_cc_info *info)
{
	const struct constant_rate *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 a_pkts = READ_ONCE(ca->a_pkts);

	if (!satcc_owned(sk, READ_ONCE(ca->owner), &tcp_constant_rate))
		return 0;

	return satcc_vegas_info(ext, attr, info, a_pkts, a_pkts, satcc_srtt_us(tp),
				satcc_min_rtt_us(tp));
}

/* Not const: registration writes its list node and key, and the registration of the
 * next policy writes the list node again.
 */
static struct tcp_congestion_ops tcp_constant_rate __read_mostly = {
	.init		= constant_rate_init,
	.ssthresh	= tcp_reno_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= constant_rate_cong_avoid,
	.set_state	= constant_rate_set_state,
	.cwnd_event	= constant_rate_cwnd_event,
	SATCC_MIN_TSO_SEGS(constant_rate_min_tso_segs)
	.get_info	= constant_rate_get_info,
	.owner		= THIS_MODULE,
	.name		= "constant_rate",
};

static int __init constant_rate_register(void)
{
	BUILD_BUG_ON(sizeof(struct constant_rate) > ICSK_CA_PRIV_SIZE);

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
