// SPDX-License-Identifier: GPL-2.0
/* ibk as BPF programs: the module's file, with modules/bpf/ in place of the kernel's headers.
 * See tools/BPF.md.
 */
#define SATCC_OWNER	0x69626b00	/* ibk */
#include "tcp_ibk.c"

SEC("struct_ops/init")
void BPF_PROG(ibk_ops_init, struct sock *sk)
{
	ibk_init(sk);
}

SEC("struct_ops/ssthresh")
u32 BPF_PROG(ibk_ops_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops/undo_cwnd")
u32 BPF_PROG(ibk_ops_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops/cong_avoid")
void BPF_PROG(ibk_ops_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	ibk_cong_avoid(sk, ack, acked);
}

SEC("struct_ops/set_state")
void BPF_PROG(ibk_ops_set_state, struct sock *sk, u8 new_state)
{
	ibk_set_state(sk, new_state);
}

SEC("struct_ops/cwnd_event")
void BPF_PROG(ibk_ops_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	ibk_cwnd_event(sk, event);
}

SEC("struct_ops/min_tso_segs")
u32 BPF_PROG(ibk_ops_min_tso_segs, struct sock *sk)
{
	return ibk_min_tso_segs(sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops ibk = {
	.init		= (void *)ibk_ops_init,
	.ssthresh	= (void *)ibk_ops_ssthresh,
	.undo_cwnd	= (void *)ibk_ops_undo_cwnd,
	.cong_avoid	= (void *)ibk_ops_cong_avoid,
	.set_state	= (void *)ibk_ops_set_state,
	.cwnd_event	= (void *)ibk_ops_cwnd_event,
	.min_tso_segs	= (void *)ibk_ops_min_tso_segs,
	.name		= "ibk",
};
