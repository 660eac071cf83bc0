/* SPDX-License-Identifier: GPL-2.0 */
/* The members of struct tcp_sock that a policy with ->cong_control() reads and writes. The
 * core counts in them, and only acts on them for other policies. A BPF program may not
 * write them, so modules/bpf/core_state.h keeps its own copies.
 */
#ifndef _SATCC_CORE_STATE_H
#define _SATCC_CORE_STATE_H

#include <net/tcp.h>

/* Segments delivered in CWR and Recovery; the core zeroes it when a reduction begins. */
static inline u32 satcc_prr_delivered(struct sock *sk)
{
	return tcp_sk(sk)->prr_delivered;
}

static inline void satcc_set_prr_delivered(struct sock *sk, u32 pkts)
{
	tcp_sk(sk)->prr_delivered = pkts;
}

/* Most segments in flight since satcc_used_since(). */
static inline u32 satcc_used_pkts(struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd_used;
}

/* Time, in jiffies, when the window was last full, or of the last satcc_reset_used(). */
static inline u32 satcc_used_since(struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd_stamp;
}

static inline void satcc_reset_used(struct sock *sk)
{
	tcp_sk(sk)->snd_cwnd_used = 0;
	tcp_sk(sk)->snd_cwnd_stamp = tcp_jiffies32;
}

#endif /* _SATCC_CORE_STATE_H */
