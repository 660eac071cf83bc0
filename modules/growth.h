/* SPDX-License-Identifier: GPL-2.0 */
/* How far a socket's window may grow, and by what. */
#ifndef _SATCC_GROWTH_H
#define _SATCC_GROWTH_H

#include <net/tcp.h>

#include "compat.h"
#include "credit.h"

/* Largest window of a flow: its clamp, within what credit.h computes with. */
static inline u32 satcc_cwnd_limit(const struct tcp_sock *tp)
{
	return clamp_t(u32, tp->snd_cwnd_clamp, 1, SATCC_MAX_CWND);
}

/* How many of the segments that an ACK delivers count in full in congestion
 * avoidance. With SACK all: the core counts each when the receiver has told of it.
 * Without, the ACK that fills a hole also delivers what came after the hole, in
 * several round trips perhaps (207 segments at cwnd 35 were seen), and says as
 * much of the path as a delayed ACK does: two count (RFC 3465, 2.2 and 2.3), the
 * rest at Reno's gain.
 */
static inline u32 satcc_counted(const struct tcp_sock *tp, u32 acked)
{
	return tcp_is_sack(tp) ? acked : min(acked, 2U);
}

#endif /* _SATCC_GROWTH_H */
