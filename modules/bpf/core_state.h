/* SPDX-License-Identifier: GPL-2.0 */
/* modules/core_state.h for BPF, which may read those members but not write them. The socket's
 * storage keeps what a policy would write, and these functions track the core's own writes.
 *
 * If there is no memory for the storage, they report that nothing was delivered and that the
 * window was full just now.
 */
#ifndef _SATCC_CORE_STATE_H
#define _SATCC_CORE_STATE_H

#include <net/tcp.h>

struct satcc_core_state {
	u32	prr_delivered;
	bool	reset;		/* satcc_reset_used() is newer than the core's own reset */
	u32	since;		/* jiffies at that reset */
	u32	core_since;	/* the core's snd_cwnd_stamp at that reset */
	u32	core_used;	/* the core's snd_cwnd_used at that reset, segments */
	u32	used;		/* most segments in flight since that reset */
	u32	snd_nxt;	/* snd_nxt at the last ACK */
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

/* SATCC_RATE_PROGRAMS() calls this with 0 in ->ssthresh(), where the core zeroes its own. */
static inline void satcc_set_prr_delivered(struct sock *sk, u32 pkts)
{
	struct satcc_core_state *state = satcc_core_state(sk);

	if (state)
		state->prr_delivered = pkts;
}

/* Called for every ACK, before the policy, because segments may have been sent since the last
 * ACK. If the core's count has fallen, the window has been full and the core has reset its
 * count; then the core's values are used again.
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
