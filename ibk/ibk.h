/* SPDX-License-Identifier: GPL-2.0 */
/* Increase-by-K: the state of a flow, and the window after an ACK.
 *
 *   W += min(K / W, 1)   per segment acknowledged, in congestion avoidance
 *
 * Integer maths on plain values, no sockets: the unit tests compile it too.
 */
#ifndef _IBK_H
#define _IBK_H

#include <linux/types.h>

#include "credit.h"

/* Per flow; valid only if owner matches, see owner.h. Written under the socket lock.
 * get_info() reads owner without the lock.
 */
struct ibk {
	u32	owner;
	u64	credit_q16;	/* earned in congestion avoidance, not yet spent */
};

/* Returns the window after an ACK; see satcc_grow_by_one(). k: 1 .. 255. */
static inline u32 ibk_grow(u64 *credit_q16, u32 cwnd, u32 ssthresh, u32 limit,
			   u32 k, u32 acked, u32 counted)
{
	return satcc_grow_by_one(credit_q16, cwnd, ssthresh, limit,
				 k << SATCC_Q16_SHIFT, SATCC_Q16_SHIFT, acked, counted);
}

#endif /* _IBK_H */
