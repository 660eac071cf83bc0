/* SPDX-License-Identifier: GPL-2.0 */
/* What hybla_full keeps per flow, and what its trace events report. */
#ifndef _HYBLA_H
#define _HYBLA_H

#include <linux/types.h>

#include "credit.h"
#include "event.h"
#include "hoe.h"

/* Where the estimate of the initial ssthresh stands. */
enum hybla_hoe_phase {
	HYBLA_HOE_OFF,		/* none, and none to come; zeroed state too */
	HYBLA_HOE_WAIT,		/* for the first ACK of a train */
	HYBLA_HOE_COLLECT,	/* taking points */
	HYBLA_HOE_SET,		/* ssthresh was set from it */
	HYBLA_HOE_FAILED,	/* the train gave no estimate */
};

/* Why growth is Reno's now (rho = 1): bits of hybla_basis.plain, none = Hybla */
enum hybla_plain {
	HYBLA_PLAIN_SACK	= 1 << 0,	/* not negotiated, require_sack */
	HYBLA_PLAIN_TS		= 1 << 1,	/* not negotiated, require_ts */
	HYBLA_PLAIN_LOSS	= 1 << 2,	/* Loss state, not loss_hybla */
	HYBLA_PLAIN_START	= 1 << 3,	/* ssthresh unknown yet */
	HYBLA_PLAIN_RTT		= 1 << 4,	/* no RTT sample yet */
};

/* What a satcc:hybla_full trace event reports beside SATCC_EV_ */
#define HYBLA_EV_HOE_SET	(SATCC_EV_OWN + 0)	/* ssthresh from the train */
#define HYBLA_EV_HOE_GAMMA	(SATCC_EV_OWN + 1)	/* no estimate: rho gamma */
#define HYBLA_EV_HOE_NONE	(SATCC_EV_OWN + 2)	/* no estimate: as it was */

/* Per flow. All zero, as before init() and after disconnect, means: no RTT
 * sample, no estimate, no credit. Written under the socket lock; rtt_us,
 * min_rtt_us and rho_q16 are also read by get_info(), without it.
 */
struct hybla {
	struct satcc_credit credit;	/* fractions of a segment earned */
	struct satcc_hoe hoe;		/* points of the start-up train */
	u64	train_start_us;		/* tcp_mstamp of the train's first ACK */
	u32	train_delivered;	/* tp->delivered then, segments */
	u32	train_end_seq;		/* snd_nxt then: the train ends before */
	u32	iw_pkts;		/* cwnd then; at the first, the initial window */
	u32	rtt_us;			/* last RTT sample; 0 = none */
	u32	min_rtt_us;		/* smallest RTT sample; 0 = none */
	u32	rho_q16;		/* from min_rtt_us; 0 = none */
	u8	hoe_phase;		/* enum hybla_hoe_phase */
};

/* What a decision is based on, for the trace: beside struct satcc_event. */
struct hybla_basis {
	struct satcc_credit credit;	/* before it */
	u32	rho_q16;		/* that growth used or would use */
	u8	plain;			/* enum hybla_plain, or-ed */
};

#endif /* _HYBLA_H */
