/* SPDX-License-Identifier: GPL-2.0 */
/* The account of one decision about the window, the same for every policy: what
 * its trace event satcc:<policy> starts with (see event_trace.h).
 */
#ifndef _SATCC_EVENT_H
#define _SATCC_EVENT_H

#include <net/tcp.h>

#include "compat.h"

/* What was decided. Numbers, not an enum: a tracepoint's format shows them to user
 * space, where the names of enumerators mean nothing.
 */
#define SATCC_EV_INIT		1	/* the flow starts, or changes to this policy */
#define SATCC_EV_START		2	/* ACK in slow start */
#define SATCC_EV_AVOID		3	/* ACK in congestion avoidance */
#define SATCC_EV_START_EXIT	4	/* ACK that brought cwnd to ssthresh */
#define SATCC_EV_HELD		5	/* ACK, but cwnd was not the limit */
#define SATCC_EV_SSTHRESH	6	/* ssthresh() was asked */
#define SATCC_EV_UNDO		7	/* undo_cwnd() was asked */
#define SATCC_EV_STATE		8	/* entering CWR, Recovery or Loss: what growth
					 * had accumulated is dropped
					 */
#define SATCC_EV_IDLE		9	/* restart after idle: the same */
#define SATCC_EV_OWN		16	/* a policy's own codes start here */

struct satcc_event {
	u32	acked;			/* segments newly delivered by the ACK */
	u32	cwnd_old, cwnd;		/* segments */
	u32	ssthresh_old, ssthresh;	/* segments */
	u32	limit;			/* largest cwnd allowed, segments */
	u8	event;			/* SATCC_EV_ */
	u8	ca_state;		/* enum tcp_ca_state; the new one if it changes */
};

/* Largest window of a flow: its clamp, within what tcp_snd_cwnd_set() takes. */
static inline u32 satcc_cwnd_limit(const struct tcp_sock *tp)
{
	return clamp_t(u32, tp->snd_cwnd_clamp, 1, INT_MAX);
}

/* Start the account of a decision: nothing has changed yet. */
static inline struct satcc_event satcc_event(const struct sock *sk, u8 event,
					     u8 ca_state)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tcp_snd_cwnd(tp);

	return (struct satcc_event){
		.cwnd_old	= cwnd,
		.cwnd		= cwnd,
		.ssthresh_old	= tp->snd_ssthresh,
		.ssthresh	= tp->snd_ssthresh,
		.limit		= satcc_cwnd_limit(tp),
		.event		= event,
		.ca_state	= ca_state,
	};
}

/* Which kind of growth an ACK brought. */
static inline u8 satcc_growth(const struct satcc_event *ev)
{
	if (ev->cwnd_old >= ev->ssthresh)
		return SATCC_EV_AVOID;

	return ev->cwnd < ev->ssthresh ? SATCC_EV_START : SATCC_EV_START_EXIT;
}

/* The account of an ACK, after it. cwnd_old: before it. grown: the window was the
 * limit, so growth was due. Growth changes no ssthresh.
 */
static inline struct satcc_event satcc_ack_event(const struct sock *sk, u32 acked,
						 u32 cwnd_old, bool grown)
{
	struct satcc_event ev = satcc_event(sk, SATCC_EV_HELD,
					    inet_csk(sk)->icsk_ca_state);

	ev.acked = acked;
	ev.cwnd_old = cwnd_old;
	if (grown)
		ev.event = satcc_growth(&ev);

	return ev;
}

#endif /* _SATCC_EVENT_H */
