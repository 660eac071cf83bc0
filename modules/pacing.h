/* SPDX-License-Identifier: GPL-2.0 */
/* Pacing. satcc sets its rate itself; the other policies leave it to the core.
 *
 * For those the core sets sk_pacing_rate, after every ACK, to cwnd/srtt times
 * net.ipv4.tcp_pacing_ss_ratio or tcp_pacing_ca_ratio percent. Only a socket with
 * sk_pacing_status set is paced at that rate.
 */
#ifndef _SATCC_PACING_H
#define _SATCC_PACING_H

#include <net/sock.h>

/* Pace the socket from now on: by the fq qdisc if the interface has it, otherwise by
 * TCP's own timer. The exchange does not change SK_PACING_FQ. sk_max_pacing_rate belongs
 * to the application (SO_MAX_PACING_RATE).
 */
static inline void satcc_pacing_enable(struct sock *sk)
{
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

/* Stop pacing by TCP's own timer. Pacing stays if the application has set
 * SO_MAX_PACING_RATE, which uses the same flag. The fq qdisc paces any socket that has a
 * rate, so nothing changes where it is used. Call this under the socket lock.
 */
static inline void satcc_pacing_disable(struct sock *sk)
{
	if (READ_ONCE(sk->sk_max_pacing_rate) == ~0UL)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED, SK_PACING_NONE);
}

static inline bool satcc_pacing_enabled(const struct sock *sk)
{
	return READ_ONCE(sk->sk_pacing_status) != SK_PACING_NONE;
}

/* The body of ->min_tso_segs(): returns the least number of segments in one burst. With
 * pacing it is 1, so that at low rates segments leave one by one. The core calls this
 * about three times per ACK.
 */
static inline u32 satcc_pacing_min_tso_segs(const struct sock *sk, bool pacing)
{
	return pacing ? 1 : READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_min_tso_segs);
}

#endif /* _SATCC_PACING_H */
