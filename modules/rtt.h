/* SPDX-License-Identifier: GPL-2.0 */
/* The round trip times the core keeps of every flow, in us; 0 = no sample yet.
 *
 * Both come from fine samples: of timestamps, or of segments sent once.
 */
#ifndef _SATCC_RTT_H
#define _SATCC_RTT_H

#include <net/tcp.h>

/* Smoothed, queueing included. The core keeps eight times of it, so less than
 * 1 us would round to "none".
 */
static inline u32 satcc_srtt_us(const struct tcp_sock *tp)
{
	u32 srtt_us = READ_ONCE(tp->srtt_us);

	return srtt_us ? max(srtt_us >> 3, 1U) : 0;
}

/* Smallest of the last net.ipv4.tcp_min_rtt_wlen seconds, 300 unless set. */
static inline u32 satcc_min_rtt_us(const struct tcp_sock *tp)
{
	u32 min_rtt_us = READ_ONCE(tp->rtt_min.s[0].v);

	return min_rtt_us == ~0U ? 0 : min_rtt_us;
}

#endif /* _SATCC_RTT_H */
