/* SPDX-License-Identifier: GPL-2.0 */
/* The trace event of mtsi, subsystem satcc: every decision about the window, one
 * event, one change, with all that went into it but the module's parameters.
 *
 * From `cwnd_old`, `ssthresh`, `limit`, `acked`, `f_old`, `mode` and `ack_limit`
 * mtsi_increase.h gives `cwnd`, `f`, `k` and `steps`; what slow start leaves of
 * min(acked, ack_limit) is congestion avoidance's, the kernel's, and changes `cnt`,
 * which is tcp_sock.snd_cwnd_cnt; so does `acked`, with per_ack=1 one of it, in an
 * event of congestion avoidance. In mode plain F is 1 and `f` waits.
 *
 * The fields before f_old, and the units: modules/event_trace.h.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM satcc

#if !defined(_MTSI_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _MTSI_TRACE_H

#include <linux/tracepoint.h>

#include "event_trace.h"
#include "mtsi.h"

TRACE_EVENT(mtsi,

	TP_PROTO(struct sock *sk, const struct satcc_event *ev,
		 const struct mtsi_basis *basis),

	TP_ARGS(sk, ev, basis),

	TP_STRUCT__entry(
		SATCC_EVENT_ENTRY
		__field(u32, f_old)
		__field(u32, f)
		__field(u32, k)
		__field(u32, steps)
		__field(u32, ack_limit)
		__field(u32, cnt_old)
		__field(u32, cnt)
		__field(u32, min_rtt_us)
		__field(u8, mode)
	),

	TP_fast_assign(
		const struct mtsi *ca = inet_csk_ca(sk);

		SATCC_EVENT_ASSIGN;
		__entry->f_old = basis->f_old;
		__entry->f = ca->f;
		__entry->k = basis->k;
		__entry->steps = basis->steps;
		__entry->ack_limit = basis->ack_limit;
		__entry->cnt_old = basis->cnt_old;
		__entry->cnt = tcp_sk(sk)->snd_cwnd_cnt;
		__entry->min_rtt_us = tcp_sk(sk)->srtt_us ? tcp_min_rtt(tcp_sk(sk)) : 0;
		__entry->mode = basis->mode;
	),

	TP_printk(SATCC_EVENT_FMT " mode=%s f_old=%u f=%u k=%u steps=%u ack_limit=%u cnt_old=%u cnt=%u min_rtt_us=%u",
		  SATCC_EVENT_ARGS(),
		  __print_symbolic(__entry->mode,
				   { 0, "plain" },
				   { 1, "mtsi" },
				   { 2, "const" },
				   { 3, "linear" }),
		  __entry->f_old, __entry->f, __entry->k, __entry->steps,
		  __entry->ack_limit, __entry->cnt_old, __entry->cnt,
		  __entry->min_rtt_us)
);

#endif /* _MTSI_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE mtsi_trace
#include <trace/define_trace.h>
