// SPDX-License-Identifier: GPL-2.0
/* A module that is not the project's, for test_foreign.py: Reno, but the window grows by GROWTH
 * segments per RTT, from the first one on.  The test defines the number, and a name.
 */
#include <linux/module.h>
#include <net/tcp.h>

static void fixed_init(struct sock *sk)
{
	tcp_sk(sk)->snd_ssthresh = 2;
}

static void fixed_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	tcp_cong_avoid_ai(tp, max(1U, tcp_snd_cwnd(tp) / GROWTH), acked);
}

static struct tcp_congestion_ops fixed = {
	.init		= fixed_init,
	.ssthresh	= tcp_reno_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.cong_avoid	= fixed_cong_avoid,
	.owner		= THIS_MODULE,
	.name		= NAME,
};

static int __init fixed_start(void)
{
	return tcp_register_congestion_control(&fixed);
}

static void __exit fixed_stop(void)
{
	tcp_unregister_congestion_control(&fixed);
}

module_init(fixed_start);
module_exit(fixed_stop);
MODULE_LICENSE("GPL");
