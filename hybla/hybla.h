/* SPDX-License-Identifier: GPL-2.0 */
/* What hybla_full keeps per flow. */
#ifndef _HYBLA_H
#define _HYBLA_H

#include <linux/types.h>

#include "credit.h"
#include "gentle.h"
#include "hoe.h"

/* Where the estimate of the initial ssthresh stands. */
enum hybla_hoe_phase {
	HYBLA_HOE_OFF,		/* none, and none to come */
	HYBLA_HOE_WAIT,		/* for the first ACK of a train */
	HYBLA_HOE_COLLECT,	/* taking points */
	HYBLA_HOE_SET,		/* ssthresh was set from it */
	HYBLA_HOE_FAILED,	/* the train gave no estimate */
};

/* Per flow; not its own unless owner says so, see owner.h. Written under the socket
 * lock; owner, path_rtt_us, rho_q16 and by_rho are also read by get_info(), without
 * it.
 */
struct hybla {
	u32	owner;
	u32	own_rtt_us;		/* smallest RTT sample since the start or the last
					 * timeout; 0 = none
					 */
	u32	path_rtt_us;		/* RTT_min, see satcc_path_rtt_us(); 0 = none */
	u32	rho_q16;		/* from path_rtt_us; 0 = none */
	struct satcc_credit credit;	/* fractions of a segment earned */
	struct satcc_hoe hoe;		/* points of the start-up train */
	u64	train_start_us;		/* tcp_mstamp of the train's first ACK */
	u32	train_delivered;	/* tp->delivered then, segments */
	u32	train_end_seq;		/* snd_nxt then: the train ends before */
	u32	train_cwnd;		/* cwnd then, segments; at the first, the initial */
	u8	hoe_phase;		/* enum hybla_hoe_phase */
	u8	by_rho;			/* did the last growth use rho_q16, or Reno's 1? */
	struct hybla_queue queue;	/* for gentle=1 */
	u32	b;			/* Hoe's estimate, segments; 0 = none */
};

#endif /* _HYBLA_H */
