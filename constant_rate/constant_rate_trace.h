/* SPDX-License-Identifier: GPL-2.0 */
/* The trace event of constant_rate, subsystem satcc: every decision about the
 * window, one event each, with all that went into it. From `cwnd_old`, `ssthresh`,
 * `limit`, `a_q20`, `bound`, `acked` and `credit_old_q20`, constant_rate.h gives
 * `cwnd` and `credit_q20` exactly.
 *
 * The fields before credit_old_q20, and the units: modules/event_trace.h; a field
 * `_q20` is 1048576 times the value.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM satcc

#if !defined(_CONSTANT_RATE_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _CONSTANT_RATE_TRACE_H

#include <linux/tracepoint.h>

#include "constant_rate.h"
#include "event_trace.h"

TRACE_EVENT(constant_rate,

	TP_PROTO(struct sock *sk, const struct satcc_event *ev,
		 const struct constant_rate_basis *basis),

	TP_ARGS(sk, ev, basis),

	TP_STRUCT__entry(
		SATCC_EVENT_ENTRY
		__field(u64, credit_old_q20)
		__field(u64, credit_q20)
		__field(u64, a_q20)
		__field(u32, rtt_us)
		__field(u32, min_rtt_us)
		__field(u8, bound)
	),

	TP_fast_assign(
		const struct constant_rate *ca = inet_csk_ca(sk);

		SATCC_EVENT_ASSIGN;
		__entry->credit_old_q20 = basis->credit_q20;
		__entry->credit_q20 = ca->credit_q20;
		__entry->a_q20 = basis->a_q20;
		__entry->rtt_us = basis->rtt_us;
		__entry->min_rtt_us = basis->min_rtt_us;
		__entry->bound = basis->bound;
	),

	TP_printk(SATCC_EVENT_FMT " rtt_us=%u min_rtt_us=%u bound=%u a_q20=%llu credit_old_q20=%llu credit_q20=%llu",
		  SATCC_EVENT_ARGS(), __entry->rtt_us, __entry->min_rtt_us,
		  __entry->bound, __entry->a_q20, __entry->credit_old_q20,
		  __entry->credit_q20)
);

#endif /* _CONSTANT_RATE_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE constant_rate_trace
#include <trace/define_trace.h>
