/* SPDX-License-Identifier: GPL-2.0 */
/* modules/core_state.h for BPF, which may read those members and not write them. What a policy
 * has written lies in the socket's storage, and the core's own writes are followed from there.
 *
 * Without storage, for want of memory, nothing was delivered and the window was full just now.
 */
#ifndef _SATCC_CORE_STATE_H
#define _SATCC_CORE_STATE_H

#include <net/tcp.h>

struct satcc_core_state {
	u32	prr_delivered;
	bool	reset;		/* satcc_reset_used() was called, and the core's is older */
	u32	since;		/* then; jiffies */
	u32	core_since;	/* the core's then */
	u32	core_used;	/* likewise, segments */
	u32	used;		/* most segments in flight from then on */
	u32	snd_nxt;	/* at the last look */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct satcc_core_state);
} satcc_core_states SEC(".maps");

static inline struct satcc_core_state *satcc_core_state(struct sock *sk)
{
	return bpf_sk_storage_get(&satcc_core_states, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
}

static inline u32 satcc_prr_delivered(struct sock *sk)
{
	const struct satcc_core_state *state = satcc_core_state(sk);

	return state ? state->prr_delivered : 0;
}

/* Also where the core would zero it, from ->ssthresh(). */
static inline void satcc_set_prr_delivered(struct sock *sk, u32 pkts)
{
	struct satcc_core_state *state = satcc_core_state(sk);

	if (state)
		state->prr_delivered = pkts;
}

/* Every ACK, before the policy has it: segments may have been sent since the last one. The
 * core's count is less than it was when the window has been full, and stands for itself again.
 */
static inline void satcc_follow_used(struct sock *sk, u32 prior_in_flight)
{
	struct satcc_core_state *state = satcc_core_state(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!state || !state->reset)
		return;
	if (tp->snd_cwnd_used < state->core_used)
		state->reset = false;
	if (tp->snd_nxt != state->snd_nxt)
		state->used = max(state->used, prior_in_flight);
	state->snd_nxt = tp->snd_nxt;
}

static inline u32 satcc_used_pkts(struct sock *sk)
{
	const struct satcc_core_state *state = satcc_core_state(sk);
	u32 used = tcp_sk(sk)->snd_cwnd_used;

	return state && state->reset && used == state->core_used ? state->used : used;
}

static inline u32 satcc_used_since(struct sock *sk)
{
	const struct satcc_core_state *state = satcc_core_state(sk);
	u32 since = tcp_sk(sk)->snd_cwnd_stamp;

	if (!state)
		return tcp_jiffies32;

	return state->reset && since == state->core_since ? state->since : since;
}

static inline void satcc_reset_used(struct sock *sk)
{
	struct satcc_core_state *state = satcc_core_state(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!state)
		return;
	state->reset = true;
	state->since = tcp_jiffies32;
	state->core_since = tp->snd_cwnd_stamp;
	state->core_used = tp->snd_cwnd_used;
	state->used = 0;
	state->snd_nxt = tp->snd_nxt;
}

#endif /* _SATCC_CORE_STATE_H */
