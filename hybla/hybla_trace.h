/* SPDX-License-Identifier: GPL-2.0 */
/* The trace events of hybla_full, subsystem satcc.
 *
 *   hybla_full      every decision about the window: one event, one change, with
 *                   all that went into it. From `cwnd_old`, `ssthresh`, `limit`,
 *                   `rho_q16`, `acked` and the two `_old` fractions, modules/
 *                   credit.h gives `cwnd` and the new fractions exactly.
 *   hybla_full_hoe  every ACK of the start-up train: the point, whether it was
 *                   used, and the line through those used so far.
 *
 * The fields before credit_old_q16, and the units: modules/event_trace.h.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM satcc

#if !defined(_HYBLA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _HYBLA_TRACE_H

#include <linux/tracepoint.h>

#include "event_trace.h"
#include "hybla.h"

TRACE_EVENT(hybla_full,

	TP_PROTO(struct sock *sk, const struct satcc_event *ev,
		 const struct hybla_basis *basis),

	TP_ARGS(sk, ev, basis),

	TP_STRUCT__entry(
		SATCC_EVENT_ENTRY
		__field(u64, credit_old_q16)
		__field(u64, credit_q16)
		__field(u32, start_old_q16)
		__field(u32, start_q16)
		__field(u32, rtt_us)
		__field(u32, min_rtt_us)
		__field(u32, rho_q16)
		__field(u8, plain)
		__field(u8, hoe_phase)
		__field(u8, hoe_points)
	),

	TP_fast_assign(
		const struct hybla *ca = inet_csk_ca(sk);

		SATCC_EVENT_ASSIGN;
		__entry->credit_old_q16 = basis->credit.avoid_q16;
		__entry->credit_q16 = ca->credit.avoid_q16;
		__entry->start_old_q16 = basis->credit.start_q16;
		__entry->start_q16 = ca->credit.start_q16;
		__entry->rtt_us = ca->rtt_us;
		__entry->min_rtt_us = ca->min_rtt_us;
		__entry->rho_q16 = basis->rho_q16;
		__entry->plain = basis->plain;
		__entry->hoe_phase = ca->hoe_phase;
		__entry->hoe_points = ca->hoe.points;
	),

	TP_printk(SATCC_EVENT_FMT " plain=0x%x rtt_us=%u min_rtt_us=%u rho_q16=%u start_old_q16=%u start_q16=%u credit_old_q16=%llu credit_q16=%llu hoe_phase=%u hoe_points=%u",
		  SATCC_EVENT_ARGS({ HYBLA_EV_HOE_SET,	 "hoe_set" },
				   { HYBLA_EV_HOE_GAMMA, "hoe_gamma" },
				   { HYBLA_EV_HOE_NONE,	 "hoe_none" }),
		  __entry->plain, __entry->rtt_us, __entry->min_rtt_us,
		  __entry->rho_q16, __entry->start_old_q16,
		  __entry->start_q16, __entry->credit_old_q16,
		  __entry->credit_q16, __entry->hoe_phase,
		  __entry->hoe_points)
);

TRACE_EVENT(hybla_full_hoe,

	TP_PROTO(struct sock *sk, u64 t_us, u32 pkts, s32 left_bytes, bool used),

	TP_ARGS(sk, t_us, pkts, left_bytes, used),

	TP_STRUCT__entry(
		__field(u64, cookie)
		__field(u64, t_us)
		__field(s64, num)
		__field(s64, den)
		__field(u32, pkts)
		__field(s32, left_bytes)
		__field(u32, min_rtt_us)
		__field(u16, sport)
		__field(u16, dport)
		__field(u8, used)
		__field(u8, points)
	),

	TP_fast_assign(
		const struct hybla *ca = inet_csk_ca(sk);
		u32 cookie[2];

		sock_diag_save_cookie(sk, cookie);
		__entry->cookie = (u64)cookie[1] << 32 | cookie[0];
		__entry->t_us = t_us;
		satcc_hoe_fit(&ca->hoe, &__entry->num, &__entry->den);
		__entry->pkts = pkts;
		__entry->left_bytes = left_bytes;
		__entry->min_rtt_us = ca->min_rtt_us;
		__entry->sport = ntohs(inet_sk(sk)->inet_sport);
		__entry->dport = ntohs(inet_sk(sk)->inet_dport);
		__entry->used = used;
		__entry->points = ca->hoe.points;
	),

	TP_printk("cookie=%llu sport=%u dport=%u t_us=%llu pkts=%u left_bytes=%d used=%u points=%u num=%lld den=%lld min_rtt_us=%u",
		  __entry->cookie, __entry->sport, __entry->dport,
		  __entry->t_us, __entry->pkts, __entry->left_bytes,
		  __entry->used, __entry->points, __entry->num, __entry->den,
		  __entry->min_rtt_us)
);

#endif /* _HYBLA_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE hybla_trace
#include <trace/define_trace.h>
