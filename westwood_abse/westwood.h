/* SPDX-License-Identifier: GPL-2.0 */
/* What westwood_abse keeps per flow, and what its trace events report. */
#ifndef _WESTWOOD_H
#define _WESTWOOD_H

#include <linux/types.h>

#include "abse.h"
#include "event.h"

/* Why the clock of the estimator was stopped: westwood.stopped */
#define WESTWOOD_STOP_NEW	0	/* it has never run; zeroed state too */
#define WESTWOOD_STOP_IDLE	1	/* nothing was in flight */
#define WESTWOOD_STOP_APP	2	/* the application had nothing to send */

/* What a satcc:westwood_abse trace event reports beside SATCC_EV_ */
#define WESTWOOD_EV_ASTART	(SATCC_EV_OWN + 0)	/* Astart raised ssthresh */
#define WESTWOOD_EV_COMPLETE	(SATCC_EV_OWN + 1)	/* after CWR or Recovery */
#define WESTWOOD_EV_TIMEOUT	(SATCC_EV_OWN + 2)	/* ssthresh after an RTO */
#define WESTWOOD_EV_RESUME	(SATCC_EV_OWN + 3)	/* Recovery ends: cwnd to be */
#define WESTWOOD_EV_MARKED	(SATCC_EV_OWN + 4)	/* and there was a mark in it */

/* Per flow. All zero, as before init() and after disconnect, means: no RTT sample,
 * no estimate, no history. Written under the socket lock; rtt_us, min_rtt_us and
 * b_pkts are also read by get_info(), without it, so it does not touch the history.
 */
struct westwood {
	struct abse est;		/* the estimator */
	struct abse_history *hist;	/* ours to free; NULL = do without */
	u32	hist_of;		/* the socket's address, low half; else no history */
	u32	rtt_us;			/* last RTT sample; 0 = none */
	u32	min_rtt_us;		/* smallest RTT sample; 0 = none */
	u32	min_rtt_prior_us;	/* the same, before a timeout; 0 = none */
	u32	b_pkts;			/* max(BSE, RE) * RTT_min; 0 = no estimate */
	u32	loss_pkts;		/* that of the last reduction; 0 = not to be used */
	u32	loss_delivered;		/* tp->delivered then, segments */
	u8	stopped;		/* WESTWOOD_STOP_ */
	bool	astart:1;		/* in Astart */
	bool	astart_prior:1;		/* the same, before a timeout */
	bool	blind:1;		/* a flight has passed without an estimate */
	bool	rearm:1;		/* RTT_min is to be the next sample */
};

/* What a decision is based on, for the trace: beside struct satcc_event. */
struct westwood_basis {
	u32	cnt_old;		/* snd_cwnd_cnt before it */
	bool	mark;			/* ssthresh() for ECE or local congestion */
};

#endif /* _WESTWOOD_H */
