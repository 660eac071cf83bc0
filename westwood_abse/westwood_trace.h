/* SPDX-License-Identifier: GPL-2.0 */
/* The trace events of westwood_abse, subsystem satcc.
 *
 *   westwood_abse         every decision about the window: one event, one change,
 *                         with all that went into it. The fields before bse_q16,
 *                         and the units: modules/event_trace.h.
 *     bse_q16             the estimate now, segments/s; 0 = none
 *     re_q16              the rate over the last round trip, segments/s; 0 = none
 *     b                   max(bse_q16, re_q16) * min_rtt_us, segments
 *                         (abse_window()); 0 = none
 *     loss_b              b as it was at the last ssthresh(); 0 if that had no
 *                         estimate, or mark
 *     loss_delivered      segments delivered since then
 *     min_rtt_us          RTT_min; 0 = none
 *     cnt_old, cnt        snd_cwnd_cnt, segments acknowledged in congestion
 *                         avoidance that have not moved cwnd yet
 *     astart              1: in Astart, after the decision
 *     blind               1: a flight has passed without an estimate
 *     mark                1: ssthresh() was asked for ECE or local congestion
 *     history             1: there is a history, 0: none, see abse.h
 *
 *   by event:
 *     init        ssthresh = max(cwnd, 2) if it was infinite and astart
 *     start, avoid, start_exit
 *                 cwnd from cwnd_old, ssthresh, limit, acked, cnt_old by the
 *                 kernel's tcp_slow_start() and tcp_cong_avoid_ai()
 *     astart      ssthresh = max(b, 2) above ssthresh_old; if ssthresh_old is
 *                 infinite, max(b, cwnd, 2); without an estimate and blind,
 *                 2 cwnd. Precedes the growth of the same ACK
 *     ssthresh    min(b, cwnd); with mark at most ecn_beta_pct of cwnd; b = 0: half
 *                 of cwnd; at least 2
 *     resume      Recovery ends, not undone: the ssthresh that the kernel is about
 *                 to make cwnd: min(b, limit, ssthresh_old + loss_delivered), if
 *                 that is above ssthresh_old; loss_b is not 0; paced
 *     marked      Recovery ends, not undone, with a mark in it, which the kernel
 *                 does not ask about again: ssthresh at most ecn_beta_pct of cwnd
 *                 before Recovery, at least 2; loss_b is 0 from here
 *     complete    after CWR or Recovery: if it was not undone, and loss_b is not 0,
 *                 ssthresh = b if that is above ssthresh_old
 *     timeout     ssthresh = loss_b if there is one and it is above
 *     undo        cwnd as the kernel's tcp_reno_undo_cwnd(); ssthresh below what the
 *                 kernel is about to restore; loss_b is 0 from here, astart and
 *                 min_rtt_us what they were before ssthresh()
 *     state, idle
 *                 as for every policy
 *
 *   westwood_abse_sample  every change of the estimator: samples and starts of its
 *                         clock, all that abse.h computes from. From t_us,
 *                         delivered, cwnd, rtt_us, min_rtt_us, astart, history,
 *                         outcome of a flow's events in their order, and the parameters tau_n and
 *                         t_min_div, all other fields follow. The event init, above,
 *                         sets all back to 0.
 *     t_us                time of the ACK, tcp_mstamp, us
 *     delivered           D, tp->delivered at it, segments, modulo 2^32
 *     outcome             what the ACK is, by abse.h: start, blind: the clock starts
 *                         (anew) here; train, sample, coarse: an estimate
 *     stopped             of a start, why the clock was stopped: 0 new flow, 1 idle,
 *                         2 application limited (WESTWOOD_STOP_); else 0
 *     dt_us, pkts         time and segments since the event before, with those of
 *                         all ACKs between; 0 of a start
 *     age_us              time since the clock's start; 0 of a start
 *     cwnd, rtt_us, min_rtt_us, astart
 *                         as used; rtt_us is smoothed, within 1 .. 2^24; astart 1:
 *                         in Astart
 *     interval_us         T_k, that this one waited for; 0 of a start
 *     next_us             T_(k+1), for the next
 *     re_pkts, re_window_us, re_q16
 *                         RE_k: segments in the window, its length, the rate
 *     th_old_q16, th_q16  Th_(k-1), Th_k
 *     s_old_q16, s_q16    s_(k-1), s_k
 *     u_old_q16, u_q16, u_max_q16
 *                         U_(k-1), U_k, U_max
 *     tau_us, alpha_q20   tau_k, alpha_k * 2^20
 *     bse_old_q16, bse_q16
 *     b                   max(bse_q16, re_q16) * min_rtt_us, segments
 *     history             as above
 *                         What an outcome does not compute is 0, but for th_q16,
 *                         s_q16 and bse_q16, which stay as they were.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM satcc

#if !defined(_WESTWOOD_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _WESTWOOD_TRACE_H

#include <linux/tracepoint.h>

#include "event_trace.h"
#include "westwood.h"

TRACE_EVENT(westwood_abse,

	TP_PROTO(struct sock *sk, const struct satcc_event *ev,
		 const struct westwood_basis *basis),

	TP_ARGS(sk, ev, basis),

	TP_STRUCT__entry(
		SATCC_EVENT_ENTRY
		__field(u64, bse_q16)
		__field(u64, re_q16)
		__field(u32, b)
		__field(u32, loss_b)
		__field(u32, loss_delivered)
		__field(u32, min_rtt_us)
		__field(u32, cnt_old)
		__field(u32, cnt)
		__field(u8, astart)
		__field(u8, blind)
		__field(u8, mark)
		__field(u8, history)
	),

	TP_fast_assign(
		const struct westwood *ca = inet_csk_ca(sk);

		SATCC_EVENT_ASSIGN;
		__entry->bse_q16 = ca->est.bse_q16;
		__entry->re_q16 = ca->est.re_q16;
		__entry->b = ca->b_pkts;
		__entry->loss_b = ca->loss_pkts;
		__entry->loss_delivered = tcp_sk(sk)->delivered - ca->loss_delivered;
		__entry->min_rtt_us = ca->min_rtt_us;
		__entry->cnt_old = basis->cnt_old;
		__entry->cnt = tcp_sk(sk)->snd_cwnd_cnt;
		__entry->astart = ca->astart;
		__entry->blind = ca->blind;
		__entry->mark = basis->mark;
		__entry->history = !!ca->hist;
	),

	TP_printk(SATCC_EVENT_FMT " bse_q16=%llu re_q16=%llu b=%u loss_b=%u loss_delivered=%u min_rtt_us=%u cnt_old=%u cnt=%u astart=%u blind=%u mark=%u history=%u",
		  SATCC_EVENT_ARGS({ WESTWOOD_EV_ASTART,   "astart" },
				   { WESTWOOD_EV_COMPLETE, "complete" },
				   { WESTWOOD_EV_TIMEOUT,  "timeout" },
				   { WESTWOOD_EV_RESUME,   "resume" },
				   { WESTWOOD_EV_MARKED,   "marked" }),
		  __entry->bse_q16, __entry->re_q16, __entry->b, __entry->loss_b,
		  __entry->loss_delivered, __entry->min_rtt_us,
		  __entry->cnt_old, __entry->cnt, __entry->astart,
		  __entry->blind, __entry->mark, __entry->history)
);

TRACE_EVENT(westwood_abse_sample,

	TP_PROTO(struct sock *sk, const struct abse_ack *ack,
		 const struct abse_sample *sample),

	TP_ARGS(sk, ack, sample),

	TP_STRUCT__entry(
		__field(u64, cookie)
		__field(u64, t_us)
		__field(u64, th_old_q16)
		__field(u64, th_q16)
		__field(u64, s_old_q16)
		__field(u64, s_q16)
		__field(u64, u_old_q16)
		__field(u64, u_q16)
		__field(u64, u_max_q16)
		__field(u64, bse_old_q16)
		__field(u64, bse_q16)
		__field(u64, re_q16)
		__field(u32, delivered)
		__field(u32, dt_us)
		__field(u32, pkts)
		__field(u32, age_us)
		__field(u32, cwnd)
		__field(u32, rtt_us)
		__field(u32, min_rtt_us)
		__field(u32, re_pkts)
		__field(u32, re_window_us)
		__field(u32, interval_us)
		__field(u32, next_us)
		__field(u32, tau_us)
		__field(u32, alpha_q20)
		__field(u32, b)
		__field(u16, sport)
		__field(u16, dport)
		__field(u8, outcome)
		__field(u8, stopped)
		__field(u8, astart)
		__field(u8, history)
	),

	TP_fast_assign(
		const struct westwood *ca = inet_csk_ca(sk);
		u32 cookie[2];

		sock_diag_save_cookie(sk, cookie);
		__entry->cookie = (u64)cookie[1] << 32 | cookie[0];
		__entry->t_us = ack->now_us;
		__entry->th_old_q16 = sample->th_old_q16;
		__entry->th_q16 = sample->th_q16;
		__entry->s_old_q16 = sample->s_old_q16;
		__entry->s_q16 = sample->s_q16;
		__entry->u_old_q16 = sample->u_old_q16;
		__entry->u_q16 = sample->u_q16;
		__entry->u_max_q16 = sample->u_max_q16;
		__entry->bse_old_q16 = sample->bse_old_q16;
		__entry->bse_q16 = sample->bse_q16;
		__entry->re_q16 = sample->re_q16;
		__entry->delivered = ack->delivered;
		__entry->dt_us = sample->dt_us;
		__entry->pkts = sample->pkts;
		__entry->age_us = sample->age_us;
		__entry->cwnd = ack->cwnd;
		__entry->rtt_us = sample->rtt_us;
		__entry->min_rtt_us = ack->min_rtt_us;
		__entry->re_pkts = sample->re_pkts;
		__entry->re_window_us = sample->re_window_us;
		__entry->interval_us = sample->t_us;
		__entry->next_us = sample->t_next_us;
		__entry->tau_us = sample->tau_us;
		__entry->alpha_q20 = sample->alpha_q20;
		__entry->b = ca->b_pkts;
		__entry->sport = ntohs(inet_sk(sk)->inet_sport);
		__entry->dport = ntohs(inet_sk(sk)->inet_dport);
		__entry->outcome = sample->outcome;
		__entry->stopped = ca->stopped;
		__entry->astart = ack->astart;
		__entry->history = !!ca->hist;
	),

	TP_printk("cookie=%llu sport=%u dport=%u t_us=%llu delivered=%u outcome=%s stopped=%u astart=%u dt_us=%u pkts=%u age_us=%u cwnd=%u rtt_us=%u min_rtt_us=%u history=%u re_pkts=%u re_window_us=%u re_q16=%llu th_old_q16=%llu th_q16=%llu interval_us=%u next_us=%u s_old_q16=%llu s_q16=%llu u_old_q16=%llu u_q16=%llu u_max_q16=%llu tau_us=%u alpha_q20=%u bse_old_q16=%llu bse_q16=%llu b=%u",
		  __entry->cookie, __entry->sport, __entry->dport,
		  __entry->t_us, __entry->delivered,
		  __print_symbolic(__entry->outcome,
				   { ABSE_START,  "start" },
				   { ABSE_BLIND,  "blind" },
				   { ABSE_TRAIN,  "train" },
				   { ABSE_SAMPLE, "sample" },
				   { ABSE_COARSE, "coarse" }),
		  __entry->stopped, __entry->astart, __entry->dt_us,
		  __entry->pkts, __entry->age_us, __entry->cwnd, __entry->rtt_us,
		  __entry->min_rtt_us, __entry->history, __entry->re_pkts,
		  __entry->re_window_us, __entry->re_q16, __entry->th_old_q16,
		  __entry->th_q16,
		  __entry->interval_us, __entry->next_us, __entry->s_old_q16,
		  __entry->s_q16, __entry->u_old_q16, __entry->u_q16,
		  __entry->u_max_q16, __entry->tau_us, __entry->alpha_q20,
		  __entry->bse_old_q16, __entry->bse_q16, __entry->b)
);

#endif /* _WESTWOOD_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE westwood_trace
#include <trace/define_trace.h>
