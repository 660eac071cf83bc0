/* SPDX-License-Identifier: GPL-2.0 */
/* The RTTs that the core keeps for every flow, in us; 0 = no sample yet.
 *
 * Both come from microsecond samples: of timestamps, or of segments sent once.
 */
#ifndef _SATCC_RTT_H
#define _SATCC_RTT_H

#include <net/tcp.h>

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

#endif /* _SATCC_RTT_H */
