/* SPDX-License-Identifier: GPL-2.0 */
/* The limit of a socket's window, and the segments that count for its growth. */
#ifndef _SATCC_GROWTH_H
#define _SATCC_GROWTH_H

#include <net/tcp.h>

#include "compat.h"
#include "credit.h"

/* Returns the largest window of a flow: its clamp, within the range of credit.h. */
static inline u32 satcc_cwnd_limit(const struct tcp_sock *tp)
{
	return clamp_t(u32, tp->snd_cwnd_clamp, 1, SATCC_MAX_CWND);
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

#endif /* _SATCC_GROWTH_H */
