/* SPDX-License-Identifier: GPL-2.0 */
/* Pacing for policies that leave the rate to the core.
 *
 * After every ACK the core sets sk_pacing_rate to cwnd/srtt times
 * net.ipv4.tcp_pacing_ss_ratio or tcp_pacing_ca_ratio percent. Only a socket
 * whose sk_pacing_status says so is held to it.
 */
#ifndef _SATCC_PACING_H
#define _SATCC_PACING_H

#include <net/sock.h>

/* Have the socket paced from now on, by the fq qdisc if it is there, else by
 * TCP's own timer. The exchange leaves SK_PACING_FQ alone. Never undone: the
 * application may have asked for pacing too, and one flag does not tell who did.
 * sk_max_pacing_rate is the application's (SO_MAX_PACING_RATE) and not touched.
 */
static inline void satcc_pacing_enable(struct sock *sk)
{
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

static inline bool satcc_pacing_enabled(const struct sock *sk)
{
	return READ_ONCE(sk->sk_pacing_status) != SK_PACING_NONE;
}

/* ->min_tso_segs() in full: segments to send at least at once. With pacing strict
 * spacing at low rates, not even pairs. Called some three times an ACK.
 */
static inline u32 satcc_pacing_min_tso_segs(const struct sock *sk, bool pacing)
{
	return pacing ? 1 : READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_min_tso_segs);
}

#endif /* _SATCC_PACING_H */
