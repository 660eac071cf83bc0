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
 * `cookie` is what getsockopt(SO_COOKIE) and ss(8) call the socket by; it joins
 * the events of a flow. Windows are in segments, times in us; `_q16` is 65536
 * times the value. Fields are appended, never reordered.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM satcc

#if !defined(_HYBLA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _HYBLA_TRACE_H

#include <linux/sock_diag.h>
#include <linux/tracepoint.h>
#include <net/inet_connection_sock.h>

#include "hybla.h"

TRACE_DEFINE_ENUM(HYBLA_EV_INIT);
TRACE_DEFINE_ENUM(HYBLA_EV_START);
TRACE_DEFINE_ENUM(HYBLA_EV_AVOID);
TRACE_DEFINE_ENUM(HYBLA_EV_START_EXIT);
TRACE_DEFINE_ENUM(HYBLA_EV_HELD);
TRACE_DEFINE_ENUM(HYBLA_EV_HOE_SET);
TRACE_DEFINE_ENUM(HYBLA_EV_HOE_GAMMA);
TRACE_DEFINE_ENUM(HYBLA_EV_HOE_NONE);
TRACE_DEFINE_ENUM(HYBLA_EV_SSTHRESH);
TRACE_DEFINE_ENUM(HYBLA_EV_UNDO);
TRACE_DEFINE_ENUM(HYBLA_EV_STATE);
TRACE_DEFINE_ENUM(HYBLA_EV_IDLE);

#define hybla_show_event(event)				\
	__print_symbolic(event,				\
		{ HYBLA_EV_INIT,	"init" },	\
		{ HYBLA_EV_START,	"start" },	\
		{ HYBLA_EV_AVOID,	"avoid" },	\
		{ HYBLA_EV_START_EXIT,	"start_exit" },	\
		{ HYBLA_EV_HELD,	"held" },	\
		{ HYBLA_EV_HOE_SET,	"hoe_set" },	\
		{ HYBLA_EV_HOE_GAMMA,	"hoe_gamma" },	\
		{ HYBLA_EV_HOE_NONE,	"hoe_none" },	\
		{ HYBLA_EV_SSTHRESH,	"ssthresh" },	\
		{ HYBLA_EV_UNDO,	"undo" },	\
		{ HYBLA_EV_STATE,	"state" },	\
		{ HYBLA_EV_IDLE,	"idle" })

TRACE_EVENT(hybla_full,

	TP_PROTO(struct sock *sk, const struct hybla_event *ev),

	TP_ARGS(sk, ev),

	TP_STRUCT__entry(
		__field(u64, cookie)
		__field(u64, credit_old_q16)
		__field(u64, credit_q16)
		__field(u32, start_old_q16)
		__field(u32, start_q16)
		__field(u32, acked)
		__field(u32, cwnd_old)
		__field(u32, cwnd)
		__field(u32, ssthresh_old)
		__field(u32, ssthresh)
		__field(u32, limit)
		__field(u32, rtt_us)
		__field(u32, min_rtt_us)
		__field(u32, rho_q16)
		__field(u16, sport)
		__field(u16, dport)
		__field(u8, event)
		__field(u8, ca_state)
		__field(u8, plain)
		__field(u8, hoe_phase)
		__field(u8, hoe_points)
	),

	TP_fast_assign(
		const struct hybla *ca = inet_csk_ca(sk);
		u32 cookie[2];

		sock_diag_save_cookie(sk, cookie);
		__entry->cookie = (u64)cookie[1] << 32 | cookie[0];
		__entry->credit_old_q16 = ev->credit_old.avoid_q16;
		__entry->credit_q16 = ca->credit.avoid_q16;
		__entry->start_old_q16 = ev->credit_old.start_q16;
		__entry->start_q16 = ca->credit.start_q16;
		__entry->acked = ev->acked;
		__entry->cwnd_old = ev->cwnd_old;
		__entry->cwnd = ev->cwnd;
		__entry->ssthresh_old = ev->ssthresh_old;
		__entry->ssthresh = ev->ssthresh;
		__entry->limit = ev->limit;
		__entry->rtt_us = ca->rtt_us;
		__entry->min_rtt_us = ca->min_rtt_us;
		__entry->rho_q16 = ev->rho_q16;
		__entry->sport = ntohs(inet_sk(sk)->inet_sport);
		__entry->dport = ntohs(inet_sk(sk)->inet_dport);
		__entry->event = ev->event;
		__entry->ca_state = ev->ca_state;
		__entry->plain = ev->plain;
		__entry->hoe_phase = ca->hoe_phase;
		__entry->hoe_points = ca->hoe.points;
	),

	TP_printk("cookie=%llu sport=%u dport=%u event=%s ca_state=%u plain=0x%x acked=%u cwnd_old=%u cwnd=%u ssthresh_old=%u ssthresh=%u limit=%u rtt_us=%u min_rtt_us=%u rho_q16=%u start_old_q16=%u start_q16=%u credit_old_q16=%llu credit_q16=%llu hoe_phase=%u hoe_points=%u",
		  __entry->cookie, __entry->sport, __entry->dport,
		  hybla_show_event(__entry->event), __entry->ca_state,
		  __entry->plain, __entry->acked, __entry->cwnd_old,
		  __entry->cwnd, __entry->ssthresh_old, __entry->ssthresh,
		  __entry->limit, __entry->rtt_us, __entry->min_rtt_us,
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
