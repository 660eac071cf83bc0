/* SPDX-License-Identifier: GPL-2.0 */
/* The programs that the kernel calls, and the table in which the loader finds them. Include
 * this after the module's file.
 *
 * prefix: the prefix of the module's functions. start: its init(). Further arguments are
 * further members of the table.
 */
#ifndef _SATCC_BPF_PROGRAMS_H
#define _SATCC_BPF_PROGRAMS_H

#define SATCC_COMMON_PROGRAMS(prefix, start)					\
SEC("struct_ops/init")								\
void BPF_PROG(prefix##_ops_init, struct sock *sk)				\
{										\
	start(sk);								\
}										\
SEC("struct_ops/set_state")							\
void BPF_PROG(prefix##_ops_set_state, struct sock *sk, u8 new_state)		\
{										\
	prefix##_set_state(sk, new_state);					\
}										\
SEC("struct_ops/cwnd_event")							\
void BPF_PROG(prefix##_ops_cwnd_event, struct sock *sk, enum tcp_ca_event event) \
{										\
	prefix##_cwnd_event(sk, event);						\
}										\
SEC("struct_ops/min_tso_segs")							\
u32 BPF_PROG(prefix##_ops_min_tso_segs, struct sock *sk)			\
{										\
	return prefix##_min_tso_segs(sk);					\
}

#define SATCC_POLICY(policy, prefix, ...)					\
SEC(".struct_ops")								\
struct tcp_congestion_ops policy = {						\
	.init		= (void *)prefix##_ops_init,				\
	.ssthresh	= (void *)prefix##_ops_ssthresh,			\
	.undo_cwnd	= (void *)prefix##_ops_undo_cwnd,			\
	.set_state	= (void *)prefix##_ops_set_state,			\
	.cwnd_event	= (void *)prefix##_ops_cwnd_event,			\
	.min_tso_segs	= (void *)prefix##_ops_min_tso_segs,			\
	.name		= #policy,						\
	__VA_ARGS__								\
}

/* For a policy whose reduction is Reno's. */
#define SATCC_RENO_PROGRAMS(policy, prefix, start, ...)				\
SATCC_COMMON_PROGRAMS(prefix, start)						\
SEC("struct_ops/ssthresh")							\
u32 BPF_PROG(prefix##_ops_ssthresh, struct sock *sk)				\
{										\
	return tcp_reno_ssthresh(sk);						\
}										\
SEC("struct_ops/undo_cwnd")							\
u32 BPF_PROG(prefix##_ops_undo_cwnd, struct sock *sk)				\
{										\
	return tcp_reno_undo_cwnd(sk);						\
}										\
SEC("struct_ops/cong_avoid")							\
void BPF_PROG(prefix##_ops_cong_avoid, struct sock *sk, u32 ack, u32 acked)	\
{										\
	prefix##_cong_avoid(sk, ack, acked);					\
}										\
SATCC_POLICY(policy, prefix,							\
	     .cong_avoid = (void *)prefix##_ops_cong_avoid,			\
	     __VA_ARGS__)

/* The number of arguments of the running kernel's cong_control(): 2 for (sk, rs), and 4 for
 * (sk, ack, flag, rs) since 57bfc7605ca5 ("tcp: Add new args for cong_control in
 * tcp_congestion_ops") in 6.10. The loader reads it from the kernel's BTF; without the loader
 * it is 0.
 */
extern int CONFIG_SATCC_CONG_CONTROL_ARGS __kconfig __weak;

/* For a policy that sets the window in every state. The verifier takes the number of arguments
 * as a constant, so it only checks the branch that this kernel takes.
 */
#define SATCC_RATE_PROGRAMS(policy, prefix)					\
SATCC_COMMON_PROGRAMS(prefix, prefix##_init)					\
SEC("struct_ops/ssthresh")							\
u32 BPF_PROG(prefix##_ops_ssthresh, struct sock *sk)				\
{										\
	satcc_set_prr_delivered(sk, 0);						\
	return prefix##_ssthresh(sk);						\
}										\
SEC("struct_ops/undo_cwnd")							\
u32 BPF_PROG(prefix##_ops_undo_cwnd, struct sock *sk)				\
{										\
	return prefix##_undo_cwnd(sk);						\
}										\
SEC("struct_ops/in_ack_event")							\
void BPF_PROG(prefix##_ops_in_ack_event, struct sock *sk, u32 flags)		\
{										\
	prefix##_in_ack_event(sk, flags);					\
}										\
SEC("struct_ops/cong_control")							\
void prefix##_ops_cong_control(unsigned long long *ctx)				\
{										\
	struct sock *sk = (void *)ctx[0];					\
	const struct rate_sample *rs;						\
										\
	if (CONFIG_SATCC_CONG_CONTROL_ARGS == 4) {				\
		rs = (void *)ctx[3];						\
		barrier_var(rs);						\
	} else {								\
		rs = (void *)ctx[1];						\
	}									\
	satcc_follow_used(sk, rs->prior_in_flight);				\
	prefix##_main(sk, rs);							\
}										\
SEC("struct_ops/sndbuf_expand")							\
u32 BPF_PROG(prefix##_ops_sndbuf_expand, struct sock *sk)			\
{										\
	return prefix##_sndbuf_expand(sk);					\
}										\
SATCC_POLICY(policy, prefix,							\
	     .cong_control = (void *)prefix##_ops_cong_control,			\
	     .in_ack_event = (void *)prefix##_ops_in_ack_event,			\
	     .sndbuf_expand = (void *)prefix##_ops_sndbuf_expand)

/* For a policy whose module checks its parameters when it is loaded. The loader runs this
 * before it registers the policy, and prints satcc_error if the check fails.
 */
#define SATCC_CHECK_PROGRAM(prefix, check)					\
char satcc_error[128] SEC(".data.error");					\
SEC("syscall")									\
int prefix##_ops_check(void *ctx)						\
{										\
	return check();								\
}

#endif /* _SATCC_BPF_PROGRAMS_H */
