// SPDX-License-Identifier: GPL-2.0
/* A BPF object that is not the project's, for test_foreign.py: a window that grows along a cubic curve
 * of the time since the last reduction, and is flat where it was reduced.
 *
 *   W(t) = top + 0.4 (t - K)^3, K = cbrt(0.75 top), t and K in seconds; a reduction is to 0.7 top
 *
 * With REFUSED it writes what the verifier does not let it write. With SECOND the object has two
 * congestion controls.
 */
#include <linux/types.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct sock {
};

struct inet_connection_sock {
	__u64 icsk_ca_priv[13];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd, snd_ssthresh, snd_nxt;
	__u64 tcp_mstamp;
};

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
};
#pragma clang attribute pop

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* In the socket's private words. */
struct curve {
	__u64 since_us;
	__u32 top, k_ms;
};

static __u32 cube_root(__u64 value)
{
	__u64 root = 0;
	int bit;

	for (bit = 20; bit >= 0; bit--) {
		__u64 more = root | 1ULL << bit;

		if (more * more * more <= value)
			root = more;
	}

	return root;
}

static __u32 window(const struct curve *curve, __u64 now_us)
{
	__u64 t_ms = (now_us - curve->since_us) / 1000, off_ms, change;

	off_ms = t_ms > curve->k_ms ? t_ms - curve->k_ms : curve->k_ms - t_ms;
	if (off_ms > 100000)
		off_ms = 100000;
	change = off_ms * off_ms * off_ms / 2500000000ULL;
	if (t_ms > curve->k_ms)
		return curve->top + change;

	return change < curve->top ? curve->top - change : 0;
}

SEC("struct_ops/curve_ssthresh")
__u32 BPF_PROG(curve_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct curve *curve = (struct curve *)tp->inet_conn.icsk_ca_priv;
	__u32 reduced = tp->snd_cwnd * 7 / 10;

	curve->top = tp->snd_cwnd;
	curve->k_ms = cube_root(curve->top * 750000000ULL);
	curve->since_us = tp->tcp_mstamp;

	return reduced > 2 ? reduced : 2;
}

SEC("struct_ops/curve_cong_avoid")
void BPF_PROG(curve_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct curve *curve = (struct curve *)tp->inet_conn.icsk_ca_priv;
	__u32 cwnd = tp->snd_cwnd, target, every;

#ifdef REFUSED
	tp->snd_nxt = 0;
#endif
	if (cwnd < tp->snd_ssthresh) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
		cwnd = tp->snd_cwnd;
	}
	target = window(curve, tp->tcp_mstamp);
	every = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;
	tcp_cong_avoid_ai(tp, every ?: 1, acked);
}

SEC("struct_ops/curve_undo_cwnd")
__u32 BPF_PROG(curve_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops curve = {
	.ssthresh	= (void *)curve_ssthresh,
	.cong_avoid	= (void *)curve_cong_avoid,
	.undo_cwnd	= (void *)curve_undo_cwnd,
	.name		= NAME,
};

#ifdef SECOND
SEC(".struct_ops")
struct tcp_congestion_ops another = {
	.ssthresh	= (void *)curve_ssthresh,
	.cong_avoid	= (void *)curve_cong_avoid,
	.undo_cwnd	= (void *)curve_undo_cwnd,
	.name		= "flat",
};
#endif

char _license[] SEC("license") = "GPL";
