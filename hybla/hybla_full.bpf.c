// SPDX-License-Identifier: GPL-2.0
/* hybla_full as BPF programs: the module's file, with modules/bpf/ in place of the kernel's
 * headers. See tools/BPF.md.
 */
#define SATCC_OWNER	0x68666c00	/* hfl */
#include "tcp_hybla_full.c"

SEC("struct_ops/init")
void BPF_PROG(hybla_ops_init, struct sock *sk)
{
	/* The module's file reads it where the kernel had it that the object was built with. */
	SATCC_EXPECT_BIT(tcp_sk(sk)->rx_opt.tstamp_ok, 1);
	hybla_init(sk);
}

SEC("struct_ops/ssthresh")
u32 BPF_PROG(hybla_ops_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops/undo_cwnd")
u32 BPF_PROG(hybla_ops_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops/cong_avoid")
void BPF_PROG(hybla_ops_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	hybla_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/set_state")
void BPF_PROG(hybla_ops_set_state, struct sock *sk, u8 new_state)
{
	hybla_set_state(sk, new_state);
}

SEC("struct_ops/cwnd_event")
void BPF_PROG(hybla_ops_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	hybla_cwnd_event(sk, event);
}

SEC("struct_ops/pkts_acked")
void BPF_PROG(hybla_ops_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	hybla_pkts_acked(sk, sample);
}

SEC("struct_ops/min_tso_segs")
u32 BPF_PROG(hybla_ops_min_tso_segs, struct sock *sk)
{
	return hybla_min_tso_segs(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops hybla_full = {
	.init		= (void *)hybla_ops_init,
	.ssthresh	= (void *)hybla_ops_ssthresh,
	.undo_cwnd	= (void *)hybla_ops_undo_cwnd,
	.cong_avoid	= (void *)hybla_ops_cong_avoid,
	.set_state	= (void *)hybla_ops_set_state,
	.cwnd_event	= (void *)hybla_ops_cwnd_event,
	.pkts_acked	= (void *)hybla_ops_pkts_acked,
	.min_tso_segs	= (void *)hybla_ops_min_tso_segs,
	.name		= "hybla_full",
};
