/* SPDX-License-Identifier: GPL-2.0 */
/* Growth in congestion avoidance that stops at the queue, for gentle=1.
 *
 * Hybla adds rho^2 segments per RTT, which is 576 at 600 ms, even on a path that
 * holds 100 segments and whose queue is filling. With gentle=1 it adds per RTT
 *
 *   max(rho/4, 1)		while it sees a queue
 *   rho^2			without a queue, while W is below b, Hoe's estimate
 *   min(rho^2, max(W/4, 1))	without a queue, from b on
 *
 * It sees a queue when the smallest RTT of a round trip, or of its first eight
 * samples, exceeds RTT_min by more than max(RTT_min / 8, 4 ms). It uses the smallest
 * sample because other causes delay single ACKs. The queue counts as gone after a
 * round trip whose smallest RTT is below that limit.
 *
 * Integer maths on plain values, no sockets.
 */
#ifndef _HYBLA_GENTLE_H
#define _HYBLA_GENTLE_H

#include <linux/types.h>
#include <linux/minmax.h>

#include "rho.h"

#define HYBLA_QUEUE_DIV		8	/* RTT_min divided by this */
#define HYBLA_QUEUE_MIN_US	4000
#define HYBLA_QUEUE_SAMPLES	8
#define HYBLA_PROBE_DIV		4	/* W divided by this, per RTT */
#define HYBLA_QUEUE_RHO_DIV	4	/* rho divided by this, per RTT, with a queue */

/* All zero is a valid start. */
struct hybla_queue {
	u32	end_seq;	/* the ACK of this sequence number ends the round trip */
	u32	rtt_us;		/* smallest RTT of the round trip */
	u8	samples;	/* RTT samples of the round trip, up to 8; 0 = not begun */
	u8	shows;		/* 1 = there is a queue */
};

/* Add an RTT sample. The first sample begins a round trip, which the ACK of snd_nxt ends. */
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

/* Update queue->shows when ack ends the round trip, or after eight samples.
 * path_rtt_us: RTT_min.
 */
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
 * estimate, segments; 0 = none. hybla_avoid_rho() describes the other arguments. An
 * ACK that moves W past b moves it to cwnd + acked at most.
 */
static inline u32 hybla_avoid_gently(struct hybla_credit *credit, u32 cwnd, u32 limit,
				     u32 rho_q16, u32 acked, u32 b, bool queue)
{
	u64 gain_q16 = (u64)max(cwnd / HYBLA_PROBE_DIV, 1U) << SATCC_Q16_SHIFT;
	u32 grown;

	if (!queue && cwnd < b) {
		grown = hybla_avoid_rho(credit, cwnd, limit, rho_q16, acked);
		return min(grown, max(b, cwnd + acked));
	}
	if (queue)
		gain_q16 = max(rho_q16 / HYBLA_QUEUE_RHO_DIV, SATCC_Q16_ONE);
	else
		gain_q16 = min(gain_q16, hybla_rho2_q16(rho_q16));

	return satcc_avoid(&credit->avoid_q16, cwnd, limit, gain_q16, SATCC_Q16_SHIFT, acked);
}

#endif /* _HYBLA_GENTLE_H */
