/* SPDX-License-Identifier: GPL-2.0 */
/* Growth in congestion avoidance that stops at the queue, for gentle=1.
 *
 * Hybla adds rho^2 segments per RTT, 576 at 600 ms, also to a path that holds no
 * more than 100 and whose queue is filling. Here the segments per RTT are
 *
 *   max(rho/4, 1)		while a queue shows
 *   rho^2			while none does and W is below b, Hoe's estimate
 *   min(rho^2, max(W/4, 1))	while none does, from b on
 *
 * A queue shows when the smallest of a round trip's RTTs, or of its first eight, is
 * above RTT_min by an eighth and by 4 ms: the smallest, because a single RTT may be
 * late for other reasons. It no longer shows after a round trip with a smaller one.
 *
 * Integer maths on plain values, no sockets.
 */
#ifndef _HYBLA_GENTLE_H
#define _HYBLA_GENTLE_H

#include <linux/types.h>
#include <linux/minmax.h>

#include "credit.h"

#define HYBLA_QUEUE_DIV		8	/* of RTT_min */
#define HYBLA_QUEUE_MIN_US	4000
#define HYBLA_QUEUE_SAMPLES	8
#define HYBLA_PROBE_DIV		4	/* of W, per RTT */
#define HYBLA_QUEUE_RHO_DIV	4	/* of rho, per RTT while a queue shows */

/* All zero is a valid start. */
struct hybla_queue {
	u32	end_seq;	/* the round trip is over when this is acknowledged */
	u32	rtt_us;		/* its smallest RTT */
	u8	samples;	/* RTT samples in it, at most 8; 0 = none has begun */
	u8	shows;
};

/* Take an RTT sample. A round trip begins with its first one: snd_nxt ends it. */
static inline void hybla_queue_sample(struct hybla_queue *queue, u32 rtt_us, u32 snd_nxt)
{
	if (!queue->samples) {
		queue->end_seq = snd_nxt;
		queue->rtt_us = rtt_us;
	}
	queue->rtt_us = min(queue->rtt_us, rtt_us);
	if (queue->samples < HYBLA_QUEUE_SAMPLES)
		queue->samples++;
}

/* All below ack is acknowledged: does a queue show? path_rtt_us: RTT_min. */
static inline void hybla_queue_ack(struct hybla_queue *queue, u32 ack, u32 path_rtt_us)
{
	u64 from_us = (u64)path_rtt_us + max_t(u32, path_rtt_us / HYBLA_QUEUE_DIV,
					       HYBLA_QUEUE_MIN_US);
	bool over = (s32)(ack - queue->end_seq) >= 0;

	if (!queue->samples)
		return;
	if (over || queue->samples == HYBLA_QUEUE_SAMPLES)
		queue->shows = queue->rtt_us > from_us || (queue->shows && !over);
	if (over)
		queue->samples = 0;
}

/* Congestion avoidance: returns the window after an ACK of acked segments. b: Hoe's
 * estimate, segments; 0 = none. For the rest see satcc_avoid_rho(). An ACK that takes W
 * past b takes it no further than slow start would.
 */
static inline u32 hybla_avoid_gently(struct satcc_credit *credit, u32 cwnd, u32 limit,
				     u32 rho_q16, u32 acked, u32 b, bool queue)
{
	u64 gain_q16 = (u64)max(cwnd / HYBLA_PROBE_DIV, 1U) << SATCC_Q16_SHIFT;
	u32 grown;

	if (!queue && cwnd < b) {
		grown = satcc_avoid_rho(credit, cwnd, limit, rho_q16, acked);
		return min(grown, max(b, cwnd + acked));
	}
	if (queue)
		gain_q16 = max(rho_q16 / HYBLA_QUEUE_RHO_DIV, SATCC_Q16_ONE);
	else
		gain_q16 = min(gain_q16, satcc_rho2_q16(rho_q16));

	return satcc_avoid(&credit->avoid_q16, cwnd, limit, gain_q16, SATCC_Q16_SHIFT, acked);
}

#endif /* _HYBLA_GENTLE_H */
