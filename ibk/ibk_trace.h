/* SPDX-License-Identifier: GPL-2.0 */
/* The trace event of ibk, subsystem satcc: every decision about the window, one
 * event each, with all that went into it. From `cwnd_old`, `ssthresh`, `limit`,
 * `k_q16`, `acked` and `credit_old_q16`, ibk.h gives `cwnd` and `credit_q16`
 * exactly; `rule` (enum ibk_rule) says why K is what it is.
 *
 * The fields before credit_old_q16, and the units: modules/event_trace.h.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM satcc

#if !defined(_IBK_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _IBK_TRACE_H

#include <linux/tracepoint.h>

#include "event_trace.h"
#include "ibk.h"

TRACE_EVENT(ibk,

	TP_PROTO(struct sock *sk, const struct satcc_event *ev,
		 const struct ibk_basis *basis),

	TP_ARGS(sk, ev, basis),

	TP_STRUCT__entry(
		SATCC_EVENT_ENTRY
		__field(u64, credit_old_q16)
		__field(u64, credit_q16)
		__field(u32, min_rtt_us)
		__field(u32, k_q16)
		__field(u8, rule)
	),

	TP_fast_assign(
		const struct ibk *ca = inet_csk_ca(sk);

		SATCC_EVENT_ASSIGN;
		__entry->credit_old_q16 = basis->credit_q16;
		__entry->credit_q16 = ca->credit_q16;
		__entry->min_rtt_us = basis->min_rtt_us;
		__entry->k_q16 = basis->k_q16;
		__entry->rule = basis->rule;
	),

	TP_printk(SATCC_EVENT_FMT " rule=0x%x min_rtt_us=%u k_q16=%u credit_old_q16=%llu credit_q16=%llu",
		  SATCC_EVENT_ARGS(), __entry->rule, __entry->min_rtt_us,
		  __entry->k_q16, __entry->credit_old_q16,
		  __entry->credit_q16)
);

#endif /* _IBK_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE ibk_trace
#include <trace/define_trace.h>
