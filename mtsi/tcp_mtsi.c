// SPDX-License-Identifier: GPL-2.0
/* TCP MTSI, Multi Threshold Smoothed Increase: a slow start for satellite paths,
 * where round trips are long and the first windows are small. While the window is
 * below the thresholds, an ACK adds more than one segment, and each ACK adds more
 * than the one before:
 *
 *   cwnd(N) = cwnd(N-1) + F(N)				(1)
 *
 *   F(N) = F(N-1) + K_i	while cwnd(N-1) < thr_n		(3)
 *	    1			from there on
 *
 * where i is the first threshold above the window: cwnd(N-1) < thr_i (4). With the
 * paper's thresholds of 20, 30 and 40 segments and K of 4, 2 and 1:
 *
 *   cwnd  6 -> 10 -> 18 -> 30 -> 43 -> 44 -> 45 ...
 *   F          4     8    12    13     1     1
 *
 * So the paper's initial window of 6 grows to 45 in one round trip, not to 12, and
 * then doubles per round trip as usual. K falls from threshold to threshold, so F
 * grows more slowly as the window nears the capacity of the path.
 *
 * The module also has the two functions that the paper compares it with: F = K
 * (F_CONST, 6), and F(N) = F(N-1) + 1 below one threshold (F_LINEAR, 7).
 *
 * Everything but slow start is Reno's or the core's.
 *
 * F starts from 0 at the start of the flow, after a timeout and after idle. It is 1
 * once the window has reached the last threshold, and continues from 1 if the window
 * falls below that threshold for another reason. Fast recovery ends in congestion
 * avoidance, which does not use F. An undo does not change F.
 *
 * Based on:
 *   M. Marchese, "Modifications of the Slow Start Algorithm to Improve TCP
 *   Performance Over Large Delay Satellite Channels", IETE Journal of Research,
 *   52, 2006, pp. 121-137.
 *
 * Differences from the paper:
 *   o The module counts segments, not ACKs: a delayed ACK for two segments is two
 *     steps, see mtsi_ack_limit(). per_ack=1 counts ACKs, as the paper does and as
 *     its hosts did in congestion avoidance.
 *   o F(0) is 0, so the first ACK adds K_1. The paper does not give F(0). Its section
 *     2.2 calls K the slope of F over ACKs; a line through 0 has F(1) = K.
 *   o In Loss, after a timeout, slow start is the kernel's unless loss_mtsi=1; the
 *     paper uses F there too.
 *   o The initial window is the kernel's, or the route's (initcwnd); the paper's is 6.
 *   o F is at least 1 and at most 1024.
 *   o The flow is paced; the paper's Linux 2.2 had no pacing.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <net/tcp.h>

#include "compat.h"
#include "info.h"
#include "mtsi.h"
#include "mtsi_increase.h"
#include "owner.h"
#include "pacing.h"
#include "param.h"
#include "socket.h"

/* A stretch ACK counts for this many ACKs at most if the flow is not paced: RFC 9406's L. */
#define MTSI_UNPACED_LIMIT	8

SATCC_PARAM(const_k, 4, 1, MTSI_MAX_F);
MODULE_PARM_DESC(const_k, "mode const: F, segments per ACK (1..1024, default 4)");
SATCC_PARAM(linear_thr, 50, 1, MTSI_MAX_THR);
MODULE_PARM_DESC(linear_thr, "mode linear: threshold, segments (1..1048576, default 50)");
SATCC_PARAM(loss_mtsi, 0, 0, 1);
MODULE_PARM_DESC(loss_mtsi, "F after a timeout too, while in Loss (0/1, default 0)");
SATCC_PARAM(per_ack, 0, 0, 1);
MODULE_PARM_DESC(per_ack, "count ACKs, not segments, in congestion avoidance too (0/1, default 0)");
SATCC_PARAM(pacing, 1, 0, 1);
MODULE_PARM_DESC(pacing, "pace new flows (0/1, default 1)");

SATCC_PARAM_LIST(thr, MTSI_MAX_ZONES, 1, MTSI_MAX_THR, 20, 30, 40);
MODULE_PARM_DESC(thr, "mode mtsi: 1 to 8 thresholds, increasing, segments (1..1048576 each, default 20,30,40)");
SATCC_PARAM_LIST(k, MTSI_MAX_ZONES, 0, MTSI_MAX_F, 4, 2, 1);
MODULE_PARM_DESC(k, "mode mtsi: K below each threshold, segments per ACK (0..1024 each, default 4,2,1)");
SATCC_PARAM_WORD(mode, "mtsi", "const", "linear");
MODULE_PARM_DESC(mode, "the function F: mtsi, const or linear (default mtsi)");

static struct tcp_congestion_ops tcp_mtsi;

static u8 mtsi_current_mode(const struct sock *sk)
{
	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Loss && !satcc_param(loss_mtsi))
		return MTSI_PLAIN;

	return MTSI_F_MTSI + satcc_param(mode);
}

/* Returns the largest number of ACKs that one ACK counts for in slow start. An ACK of
 * n segments counts as n ACKs. Without pacing it would release all their segments as
 * one burst, so there is a limit.
 */
static u32 mtsi_ack_limit(const struct sock *sk, u8 mode)
{
	if (mode == MTSI_PLAIN)
		return U32_MAX;
	if (satcc_param(per_ack))
		return 1;

	return satcc_pacing_enabled(sk) ? U32_MAX : MTSI_UNPACED_LIMIT;
}

/* Returns how many segments an ACK counts for in congestion avoidance. */
static u32 mtsi_avoid_acked(u32 acked)
{
	return satcc_param(per_ack) ? min(acked, 1U) : acked;
}

/* May run before, in or long after the handshake. */
static void mtsi_init(struct sock *sk)
{
	struct mtsi *ca = inet_csk_ca(sk);

	WRITE_ONCE(ca->owner, satcc_owner(sk, &tcp_mtsi));
	WRITE_ONCE(ca->f, 0);
	if (satcc_param(pacing))
		satcc_pacing_enable(sk);
}

static struct mtsi *mtsi_state(struct sock *sk)
{
	struct mtsi *ca = inet_csk_ca(sk);

	if (!satcc_owned(sk, ca->owner, &tcp_mtsi))
		mtsi_init(sk);

	return ca;
}

/* Slow start up to ssthresh. Returns the ACKs left over for congestion avoidance. In
 * Loss without loss_mtsi, F is not used and does not change.
 */
static u32 mtsi_start(struct sock *sk, u8 mode, u32 acks)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct mtsi *ca = mtsi_state(sk);
	u32 limit = satcc_cwnd_limit(tp);
	u32 linear_thr = satcc_param(linear_thr), linear_k = 1;
	struct mtsi_growth growth = { .cwnd = tcp_snd_cwnd(tp), .f = ca->f };
	struct mtsi_rule rule = { .above = 1 };

	switch (mode) {
	case MTSI_F_MTSI:
		rule.thr = satcc_list(thr);
		rule.k = satcc_list(k);
		rule.zones = satcc_count(thr);
		break;
	case MTSI_F_LINEAR:
		rule.thr = &linear_thr;
		rule.k = &linear_k;
		rule.zones = 1;
		break;
	case MTSI_F_CONST:
		rule.above = satcc_param(const_k);
		break;
	}

	acks = mtsi_slow_start(&rule, &growth, min(tp->snd_ssthresh, limit), acks);
	if (mode != MTSI_PLAIN)
		WRITE_ONCE(ca->f, growth.f);
	tcp_snd_cwnd_set(tp, min(growth.cwnd, limit));

	/* Below ssthresh the window is at its limit, or no ACK is left over. */
	return growth.cwnd < tp->snd_ssthresh ? 0 : acks;
}

/* Called in Open, Disorder and Loss; in CWR and Recovery the core's PRR sets the window. */
static void mtsi_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;

	if (tcp_in_slow_start(tp)) {
		u8 mode = mtsi_current_mode(sk);

		acked = mtsi_start(sk, mode, min(acked, mtsi_ack_limit(sk, mode)));
		if (!acked)
			return;
	}

	tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), mtsi_avoid_acked(acked));
}

/* Called before the state changes. Every timeout calls this; CA_EVENT_LOSS is not sent
 * for a timeout in fast recovery. The core also enters Loss, without a timeout, when it
 * resends segments that were too long for the path: F restarts then too.
 */
static void mtsi_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		WRITE_ONCE(mtsi_state(sk)->f, 0);
}

static void mtsi_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART)
		WRITE_ONCE(mtsi_state(sk)->f, 0);
}

static u32 __maybe_unused mtsi_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, satcc_param(pacing));
}

/* Fills the record of Vegas, which ss(8) knows: enabled = F of the last slow start step
 * was above 1, rttcnt = that F, rtt = srtt in us, minrtt = smallest RTT in us.
 */
static size_t mtsi_get_info(struct sock *sk, u32 ext, int *attr,
			    union tcp_cc_info *info)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct mtsi *ca = inet_csk_ca(sk);
	u32 f = READ_ONCE(ca->f);

	if (!satcc_owned(sk, READ_ONCE(ca->owner), &tcp_mtsi))
		return 0;

	return satcc_vegas_info(ext, attr, info, f > 1, f, satcc_srtt_us(tp),
				satcc_min_rtt_us(tp));
}

/* Not const: registration writes its list node and key, and the registration of the
 * next policy writes the list node again.
 */
static struct tcp_congestion_ops tcp_mtsi __read_mostly = {
	.init		= mtsi_init,
	.ssthresh	= tcp_reno_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= mtsi_cong_avoid,
	.set_state	= mtsi_set_state,
	.cwnd_event	= mtsi_cwnd_event,
	SATCC_MIN_TSO_SEGS(mtsi_min_tso_segs)
	.get_info	= mtsi_get_info,
	.owner		= THIS_MODULE,
	.name		= "mtsi",
};

/* Check that thr increases and k has as many values. Their setters check the bounds. */
static int mtsi_check_zones(void)
{
	const u32 *thr = satcc_list(thr);
	unsigned int i;

	if (satcc_count(thr) != satcc_count(k)) {
		pr_err("%u thresholds in thr, but %u values in k\n",
		       satcc_count(thr), satcc_count(k));
		return -EINVAL;
	}
	for (i = 1; i < MTSI_MAX_ZONES && i < satcc_count(thr); i++) {
		if (thr[i] <= thr[i - 1]) {
			pr_err("thr does not increase: %u after %u\n", thr[i], thr[i - 1]);
			return -EINVAL;
		}
	}

	return 0;
}

static int __init mtsi_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct mtsi) > ICSK_CA_PRIV_SIZE);

	err = mtsi_check_zones();
	if (err)
		return err;

	return tcp_register_congestion_control(&tcp_mtsi);
}

static void __exit mtsi_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_mtsi);
}

module_init(mtsi_register);
module_exit(mtsi_unregister);

MODULE_AUTHOR("satcc authors");
MODULE_DESCRIPTION("TCP MTSI: Marchese's slow start with smoothed increase");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1");
