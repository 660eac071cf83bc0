/* SPDX-License-Identifier: GPL-2.0 */
/* The fields every satcc:<policy> trace event starts with, for use in its
 * TRACE_EVENT():
 *
 *   TP_STRUCT__entry(	SATCC_EVENT_ENTRY	the policy's own fields )
 *   TP_fast_assign(	SATCC_EVENT_ASSIGN;	the policy's own fields )
 *   TP_printk(SATCC_EVENT_FMT " own=%u", SATCC_EVENT_ARGS(), __entry->own)
 *
 * with sk and ev (struct satcc_event) among the event's arguments, and with names
 * of the policy's own codes, if any, as { code, "name" }... in SATCC_EVENT_ARGS().
 *
 * `cookie` is what getsockopt(SO_COOKIE) and ss(8) call the socket by; it joins the
 * events of a flow. Windows are in segments, times in us; 0 is no RTT sample yet.
 * A field `_q16` is 65536 times the value. Fields are appended, never reordered.
 */
#ifndef _SATCC_EVENT_TRACE_H
#define _SATCC_EVENT_TRACE_H

#include <linux/sock_diag.h>
#include <net/inet_connection_sock.h>

#include "event.h"

#define SATCC_EVENT_ENTRY			\
		__field(u64, cookie)		\
		__field(u32, acked)		\
		__field(u32, cwnd_old)		\
		__field(u32, cwnd)		\
		__field(u32, ssthresh_old)	\
		__field(u32, ssthresh)		\
		__field(u32, limit)		\
		__field(u32, srtt_us)		\
		__field(u16, sport)		\
		__field(u16, dport)		\
		__field(u8, event)		\
		__field(u8, ca_state)

#define SATCC_EVENT_ASSIGN						\
		do {							\
			u32 words[2];					\
									\
			sock_diag_save_cookie(sk, words);		\
			__entry->cookie = (u64)words[1] << 32 | words[0]; \
			__entry->acked = ev->acked;			\
			__entry->cwnd_old = ev->cwnd_old;		\
			__entry->cwnd = ev->cwnd;			\
			__entry->ssthresh_old = ev->ssthresh_old;	\
			__entry->ssthresh = ev->ssthresh;		\
			__entry->limit = ev->limit;			\
			__entry->srtt_us = tcp_sk(sk)->srtt_us >> 3;	\
			__entry->sport = ntohs(inet_sk(sk)->inet_sport); \
			__entry->dport = ntohs(inet_sk(sk)->inet_dport); \
			__entry->event = ev->event;			\
			__entry->ca_state = ev->ca_state;		\
		} while (0)

#define SATCC_EVENT_FMT							\
	"cookie=%llu sport=%u dport=%u event=%s ca_state=%u acked=%u cwnd_old=%u cwnd=%u ssthresh_old=%u ssthresh=%u limit=%u srtt_us=%u"

#define SATCC_EVENT_ARGS(own_names...)					\
		  __entry->cookie, __entry->sport, __entry->dport,	\
		  __print_symbolic(__entry->event,			\
				   { SATCC_EV_INIT,	  "init" },	\
				   { SATCC_EV_START,	  "start" },	\
				   { SATCC_EV_AVOID,	  "avoid" },	\
				   { SATCC_EV_START_EXIT, "start_exit" }, \
				   { SATCC_EV_HELD,	  "held" },	\
				   { SATCC_EV_SSTHRESH,	  "ssthresh" },	\
				   { SATCC_EV_UNDO,	  "undo" },	\
				   { SATCC_EV_STATE,	  "state" },	\
				   { SATCC_EV_IDLE,	  "idle" },	\
				   ##own_names),			\
		  __entry->ca_state, __entry->acked, __entry->cwnd_old,	\
		  __entry->cwnd, __entry->ssthresh_old, __entry->ssthresh, \
		  __entry->limit, __entry->srtt_us

#endif /* _SATCC_EVENT_TRACE_H */
