/* SPDX-License-Identifier: GPL-2.0 */
/* The state of a hybla_full flow. */
#ifndef _HYBLA_H
#define _HYBLA_H

#include <linux/types.h>

#include "gentle.h"
#include "hoe.h"
#include "rho.h"

/* Progress of the estimate of the initial ssthresh. */
enum hybla_hoe_phase {
	HYBLA_HOE_OFF,		/* this flow makes no estimate */
	HYBLA_HOE_WAIT,		/* waiting for the first ACK of a train */
	HYBLA_HOE_COLLECT,	/* taking points */
	HYBLA_HOE_SET,		/* the estimate has set ssthresh */
	HYBLA_HOE_FAILED,	/* the train gave no estimate */
};

/* Per flow; valid only if owner matches, see owner.h. Written under the socket lock.
 * get_info() reads owner, path_rtt_us, rho_q16 and by_rho without the lock.
 */
struct hybla {
	u32	owner;
	u32	own_rtt_us;		/* smallest RTT sample since the start or the last
					 * timeout; 0 = none
					 */
	u32	path_rtt_us;		/* RTT_min, see hybla_path_rtt_us(); 0 = none */
	u32	rho_q16;		/* from path_rtt_us; 0 = none */
	struct hybla_credit credit;	/* fractions of a segment earned */
	struct satcc_hoe hoe;		/* points of the start-up train */
	u64	train_start_us;		/* tcp_mstamp at the train's first ACK */
	u32	train_delivered;	/* tp->delivered at that ACK, segments */
	u32	train_end_seq;		/* snd_nxt at that ACK: the train ends before it */
	u32	train_cwnd;		/* cwnd at that ACK, segments; for the first train
					 * the initial window
					 */
	u8	hoe_phase;		/* enum hybla_hoe_phase */
	u8	by_rho;			/* did the last growth use rho_q16? */
	struct hybla_queue queue;	/* for gentle=1 */
	u32	b;			/* Hoe's estimate, segments; 0 = none */
};

#endif /* _HYBLA_H */
