/* SPDX-License-Identifier: GPL-2.0 */
/* What a policy with a ->cong_control() writes of the core's own members of a connection:
 * the core counts in them, and leaves to the policy what follows from that. A policy in BPF
 * may not write them: modules/bpf/core_state.h has the same in a place of its own.
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

/* When the window was last full, or this was asked to begin anew; jiffies. */
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
