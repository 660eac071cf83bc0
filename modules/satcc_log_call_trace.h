/* SPDX-License-Identifier: GPL-2.0 */
/* The record of one call of a congestion control, as a trace event of subsystem satcc:
 *
 *   cc_call	a callback of a congestion control named in the parameter callbacks_of has
 *		returned
 *
 * It begins with the fields that all events of the logger have, see satcc_log_trace.h. If a
 * value is recorded before and after the call, the name of the former ends in _old.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM satcc

#if !defined(_SATCC_LOG_CALL_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _SATCC_LOG_CALL_TRACE_H

#include <linux/tcp.h>
#include <linux/tracepoint.h>
#include <net/tcp.h>

#include "satcc_log.h"
#include "satcc_log_entry_trace.h"

TRACE_DEFINE_ENUM(SATCC_CALL_INIT);
TRACE_DEFINE_ENUM(SATCC_CALL_RELEASE);
TRACE_DEFINE_ENUM(SATCC_CALL_SSTHRESH);
TRACE_DEFINE_ENUM(SATCC_CALL_CONG_AVOID);
TRACE_DEFINE_ENUM(SATCC_CALL_SET_STATE);
TRACE_DEFINE_ENUM(SATCC_CALL_CWND_EVENT);
TRACE_DEFINE_ENUM(SATCC_CALL_IN_ACK_EVENT);
TRACE_DEFINE_ENUM(SATCC_CALL_PKTS_ACKED);
TRACE_DEFINE_ENUM(SATCC_CALL_UNDO_CWND);
TRACE_DEFINE_ENUM(SATCC_CALL_CONG_CONTROL);
TRACE_DEFINE_ENUM(SATCC_CALL_CWND_EVENT_TX_START);

#define satcc_call_show(call)						\
	__print_symbolic(call,						\
			 { SATCC_CALL_INIT,	   "init" },		\
			 { SATCC_CALL_RELEASE,	   "release" },		\
			 { SATCC_CALL_SSTHRESH,	   "ssthresh" },	\
			 { SATCC_CALL_CONG_AVOID,  "cong_avoid" },	\
			 { SATCC_CALL_SET_STATE,   "set_state" },	\
			 { SATCC_CALL_CWND_EVENT,  "cwnd_event" },	\
			 { SATCC_CALL_IN_ACK_EVENT, "in_ack_event" },	\
			 { SATCC_CALL_PKTS_ACKED,  "pkts_acked" },	\
			 { SATCC_CALL_UNDO_CWND,   "undo_cwnd" },	\
			 { SATCC_CALL_CONG_CONTROL, "cong_control" },	\
			 { SATCC_CALL_CWND_EVENT_TX_START, "cwnd_event_tx_start" })

/* mstamp_us	TCP's clock at the packet being processed
 * ack		cong_avoid: its argument
 * arg		cong_avoid: segments acknowledged; set_state: the new state; cwnd_event: the
 *		event; in_ack_event, cong_control: flags; pkts_acked: segments
 * rtt_us	pkts_acked, cong_control: RTT sample of this ACK; -1 = none
 * ret		ssthresh, undo_cwnd: return value
 * min_rtt_us	tcp_min_rtt(); ~0 = none
 * srtt_us8	8 times srtt
 * cwnd_limited	tcp_is_cwnd_limited()
 * tcp_state	sk_state: TCP_ESTABLISHED 1, TCP_SYN_SENT 2, ...
 * rs_...	cong_control: fields of the rate sample
 * priv		the congestion control's private bytes
 *
 * The other fields have the names of fields of struct tcp_sock, and their values before the
 * call.
 */
TRACE_EVENT_FN(cc_call,

	TP_PROTO(struct sock *sk, const struct satcc_call *call,
		 const struct satcc_call_state *now, u32 ret),

	TP_ARGS(sk, call, now, ret),

	TP_STRUCT__entry(
		SATCC_LOG_ENTRY
		__field(u64, mstamp_us)
		__field(u64, bytes_sent)
		__field(u64, pacing_rate_old)
		__field(u64, pacing_rate)
		__field(u32, ack)
		__field(u32, arg)
		__field(s32, rtt_us)
		__field(u32, ret)
		__field(u32, cwnd_old)
		__field(u32, cwnd)
		__field(u32, ssthresh_old)
		__field(u32, ssthresh)
		__field(u32, in_flight_old)
		__field(u32, in_flight)
		__field(u32, delivered_old)
		__field(u32, delivered)
		__field(u32, cwnd_cnt_old)
		__field(u32, cwnd_cnt)
		__field(u32, clamp)
		__field(u32, prior_cwnd)
		__field(u32, prior_ssthresh)
		__field(u32, undo_marker)
		__field(u32, undo_retrans)
		__field(u32, high_seq)
		__field(u32, srtt_us8)
		__field(u32, min_rtt_us)
		__field(u32, lost)
		__field(u32, app_limited)
		__field(u32, rate_delivered)
		__field(u32, rate_interval_us)
		__field(u32, snd_una)
		__field(u32, snd_nxt)
		__field(u32, packets_out)
		__field(u32, max_packets_out)
		__field(u32, cwnd_used)
		__field(u32, sacked_out)
		__field(u32, lost_out)
		__field(u32, retrans_out)
		__field(u32, prr_delivered_old)
		__field(u32, prr_delivered)
		__field(u32, prr_out)
		__field(u32, mss)
		__field(u32, total_retrans)
		__field(u32, snd_wnd)
		__field(s32, rs_delivered)
		__field(s32, rs_interval_us)
		__field(s32, rs_losses)
		__field(u32, rs_acked_sacked)
		__field(u32, rs_prior_in_flight)
		__field(u32, rs_prior_delivered)
		__field(u32, rs_prior_mstamp_lo)
		__field(u8, call)
		__field(u8, ca_state_old)
		__field(u8, ca_state)
		__field(u8, cwnd_limited)
		__field(u8, is_cwnd_limited)
		__field(u8, sack_ok)
		__field(u8, tstamp_ok)
		__field(u8, rs_app_limited)
		__field(u8, rs_retrans)
		__field(u8, pacing_status_old)
		__field(u8, pacing_status)
		__field(u8, tcp_state)
		__field(u8, ecn_flags)
		__field(u8, rate_app_limited)
		__array(u8, priv_old, SATCC_CALL_PRIV)
		__array(u8, priv, SATCC_CALL_PRIV)
	),

	TP_fast_assign(
		const struct satcc_call_state *old = &call->old;

		SATCC_LOG_ASSIGN;
		__entry->mstamp_us = call->mstamp_us;
		__entry->bytes_sent = call->bytes_sent;
		__entry->pacing_rate_old = old->pacing_rate;
		__entry->pacing_rate = now->pacing_rate;
		__entry->ack = call->ack;
		__entry->arg = call->arg;
		__entry->rtt_us = call->rtt_us;
		__entry->ret = ret;
		__entry->cwnd_old = old->cwnd;
		__entry->cwnd = now->cwnd;
		__entry->ssthresh_old = old->ssthresh;
		__entry->ssthresh = now->ssthresh;
		__entry->in_flight_old = old->in_flight;
		__entry->in_flight = now->in_flight;
		__entry->delivered_old = old->delivered;
		__entry->delivered = now->delivered;
		__entry->cwnd_cnt_old = old->cwnd_cnt;
		__entry->cwnd_cnt = now->cwnd_cnt;
		__entry->clamp = call->clamp;
		__entry->prior_cwnd = call->prior_cwnd;
		__entry->prior_ssthresh = call->prior_ssthresh;
		__entry->undo_marker = call->undo_marker;
		__entry->undo_retrans = call->undo_retrans;
		__entry->high_seq = call->high_seq;
		__entry->srtt_us8 = call->srtt_us8;
		__entry->min_rtt_us = call->min_rtt_us;
		__entry->lost = call->lost;
		__entry->app_limited = call->app_limited;
		__entry->rate_delivered = call->rate_delivered;
		__entry->rate_interval_us = call->rate_interval_us;
		__entry->snd_una = call->snd_una;
		__entry->snd_nxt = call->snd_nxt;
		__entry->packets_out = call->packets_out;
		__entry->max_packets_out = call->max_packets_out;
		__entry->cwnd_used = call->cwnd_used;
		__entry->sacked_out = call->sacked_out;
		__entry->lost_out = call->lost_out;
		__entry->retrans_out = call->retrans_out;
		__entry->prr_delivered_old = old->prr_delivered;
		__entry->prr_delivered = now->prr_delivered;
		__entry->prr_out = call->prr_out;
		__entry->mss = call->mss;
		__entry->total_retrans = call->total_retrans;
		__entry->snd_wnd = call->snd_wnd;
		__entry->rs_delivered = call->rs.delivered;
		__entry->rs_interval_us = call->rs.interval_us;
		__entry->rs_losses = call->rs.losses;
		__entry->rs_acked_sacked = call->rs.acked_sacked;
		__entry->rs_prior_in_flight = call->rs.prior_in_flight;
		__entry->rs_prior_delivered = call->rs.prior_delivered;
		__entry->rs_prior_mstamp_lo = call->rs.prior_mstamp_lo;
		__entry->call = call->call;
		__entry->ca_state_old = old->ca_state;
		__entry->ca_state = now->ca_state;
		__entry->cwnd_limited = call->cwnd_limited;
		__entry->is_cwnd_limited = call->is_cwnd_limited;
		__entry->sack_ok = call->sack_ok;
		__entry->tstamp_ok = call->tstamp_ok;
		__entry->rs_app_limited = call->rs.is_app_limited;
		__entry->rs_retrans = call->rs.is_retrans;
		__entry->pacing_status_old = old->pacing_status;
		__entry->pacing_status = now->pacing_status;
		__entry->tcp_state = call->tcp_state;
		__entry->ecn_flags = call->ecn_flags;
		__entry->rate_app_limited = call->rate_app_limited;
		memcpy(__entry->priv_old, old->priv, SATCC_CALL_PRIV);
		memcpy(__entry->priv, now->priv, SATCC_CALL_PRIV);
	),

	TP_printk(SATCC_LOG_FMT " call=%s ack=%u arg=%u rtt_us=%d ret=%u cwnd_old=%u cwnd=%u ssthresh_old=%u ssthresh=%u in_flight=%u delivered=%u ca_state_old=%s ca_state=%s cwnd_limited=%u pacing_rate=%llu snd_una=%u snd_nxt=%u priv_old=%s priv=%s",
		  SATCC_LOG_ARGS, satcc_call_show(__entry->call),
		  __entry->ack, __entry->arg, __entry->rtt_us, __entry->ret,
		  __entry->cwnd_old, __entry->cwnd, __entry->ssthresh_old,
		  __entry->ssthresh, __entry->in_flight, __entry->delivered,
		  satcc_log_show_state(__entry->ca_state_old),
		  satcc_log_show_state(__entry->ca_state),
		  __entry->cwnd_limited, __entry->pacing_rate,
		  __entry->snd_una, __entry->snd_nxt,
		  __print_hex_str(__entry->priv_old, SATCC_CALL_PRIV),
		  __print_hex_str(__entry->priv, SATCC_CALL_PRIV)),

	satcc_log_call_reg, satcc_log_call_unreg
);

#endif /* _SATCC_LOG_CALL_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE satcc_log_call_trace
#include <trace/define_trace.h>
