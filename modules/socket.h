/* SPDX-License-Identifier: GPL-2.0 */
/* What the policies read of a socket: its RTTs, its initial window and the limit of its window,
 * the segments that count for its growth, and whether its timer has expired.
 */
#ifndef _SATCC_SOCKET_H
#define _SATCC_SOCKET_H

#include <net/tcp.h>

#include "compat.h"
#include "credit.h"

/* The RTTs that the core keeps for every flow are in us; 0 = no sample yet. Their samples are
 * of segments sent once. An ACK of retransmitted segments alone gives the RTT of its timestamp,
 * in whole ms.
 */

/* Returns srtt, which includes queueing. The core stores eight times srtt, so an srtt
 * below 1 us would round to 0 = none; return 1 instead.
 */
static inline u32 satcc_srtt_us(const struct tcp_sock *tp)
{
	u32 srtt_us = READ_ONCE(tp->srtt_us);

	return srtt_us ? max(srtt_us >> 3, 1U) : 0;
}

/* Returns the smallest RTT of the last net.ipv4.tcp_min_rtt_wlen seconds (300 by default). */
static inline u32 satcc_min_rtt_us(const struct tcp_sock *tp)
{
	u32 min_rtt_us = READ_ONCE(tp->rtt_min.s[0].v);

	return min_rtt_us == ~0U ? 0 : min_rtt_us;
}

/* Returns the largest window of a flow: its clamp, within the range of credit.h. */
static inline u32 satcc_cwnd_limit(const struct tcp_sock *tp)
{
	return clamp_t(u32, tp->snd_cwnd_clamp, 1, SATCC_MAX_CWND);
}

/* Returns the initial window in segments, which is the route's initcwnd, if it has one. */
static inline u32 satcc_initial_window(struct sock *sk)
{
	const struct dst_entry *dst = __sk_dst_get(sk);
	u32 segments = dst ? dst_metric(dst, RTAX_INITCWND) : 0;

	return segments ? segments : TCP_INIT_CWND;
}

/* Returns how many of the segments that an ACK delivers count in full in congestion
 * avoidance. With SACK all count, because the core counts each one when the receiver
 * reports it. Without SACK the ACK that fills a hole also delivers the segments after
 * the hole, which may have arrived over several round trips (207 segments at cwnd 35
 * were seen). It shows no more about the path than a delayed ACK, so two segments
 * count (RFC 3465, 2.2 and 2.3). The others have Reno's gain.
 */
static inline u32 satcc_counted(const struct tcp_sock *tp, u32 acked)
{
	return tcp_is_sack(tp) ? acked : min(acked, 2U);
}

/* For ->set_state(), when the next state is Loss: has the retransmission timer expired? If
 * not, the core resends segments that were too long for the path, and keeps the window.
 * After a timeout the core calls ->ssthresh() only if no reduction is under way, but it has
 * always set the window to the flight and one segment. reduced: ssthresh() has just run.
 */
static inline bool satcc_is_timeout(struct sock *sk, bool reduced)
{
	u8 old_state = inet_csk(sk)->icsk_ca_state;
	const struct tcp_sock *tp = tcp_sk(sk);

	return reduced || old_state == TCP_CA_Loss ||
	       (old_state > TCP_CA_Disorder &&
		tcp_snd_cwnd(tp) == tcp_packets_in_flight(tp) + 1);
}

#endif /* _SATCC_SOCKET_H */
