/* SPDX-License-Identifier: GPL-2.0 */
/* The three records of Multi-TCP (Caini et al. 2008, 4.1) as trace events, subsystem
 * satcc, for every TCP socket and whichever congestion control it uses:
 *
 *   segment_sent	a socket has handed a segment to IP. A listener's SYN-ACK, and
 *			segments sent without a socket or in TIME_WAIT, have no event
 *   ack_received	the core has processed a segment with ACK set; the fields are the
 *			values after that. Segments merged by GRO or in the backlog of a
 *			busy socket count as one. Data in order that acknowledges nothing
 *			new has no event, so a host that only receives has few
 *   cwnd_changed	cwnd, ssthresh or the clamp has changed; `reason` is the cause
 *
 * Every event begins with the fields of its socket:
 *
 *   cookie		the socket's cookie, as in getsockopt(SO_COOKIE) and ss(8)
 *   saddr4, daddr4	IPv4 address in host order, for filters on prefixes; 0 for IPv6
 *   saddr6, daddr6	upper half of the IPv6 address in host order, likewise; 0 for IPv4
 *   netns		inode number of the network namespace, see ls -L -i /run/netns
 *   sport, dport	ports
 *   saddr, daddr	16 bytes in network order; IPv4 as ::ffff:a.b.c.d
 *   cc			name of the congestion control
 *
 * s is the socket's own side, d the peer's. Windows, counts and in_flight are in segments,
 * sizes in bytes, times in us, rates in bytes per second; sequence numbers are those on the
 * wire. Append new fields; never reorder them.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM satcc

#if !defined(_SATCC_LOG_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _SATCC_LOG_TRACE_H

#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <linux/tracepoint.h>
#include <net/ipv6.h>
#include <net/tcp.h>

#include "satcc_log.h"
#include "satcc_log_entry_trace.h"

TRACE_DEFINE_ENUM(TCP_CA_Open);
TRACE_DEFINE_ENUM(TCP_CA_Disorder);
TRACE_DEFINE_ENUM(TCP_CA_CWR);
TRACE_DEFINE_ENUM(TCP_CA_Recovery);
TRACE_DEFINE_ENUM(TCP_CA_Loss);
TRACE_DEFINE_ENUM(SATCC_LOG_FIRST);
TRACE_DEFINE_ENUM(SATCC_LOG_INIT);
TRACE_DEFINE_ENUM(SATCC_LOG_ACK);
TRACE_DEFINE_ENUM(SATCC_LOG_RECOVERY);
TRACE_DEFINE_ENUM(SATCC_LOG_CWR);
TRACE_DEFINE_ENUM(SATCC_LOG_RTO);
TRACE_DEFINE_ENUM(SATCC_LOG_UNDO);
TRACE_DEFINE_ENUM(SATCC_LOG_IDLE);
TRACE_DEFINE_ENUM(SATCC_LOG_APP_LIMITED);
TRACE_DEFINE_ENUM(SATCC_LOG_SWITCH);
TRACE_DEFINE_ENUM(SATCC_LOG_OTHER);

/* seq, len		of this segment, one of the segs that IP or the device cuts the packet
 *			into
 * flags		of the TCP header: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, ...
 * retrans		1 if its sequence numbers have been sent before
 * sent_orig		bytes of data handed to IP up to the end of this segment, without
 *			retransmissions. A segment that a queue on this host drops is sent
 *			again with retrans 0, and counted again
 * snd_nxt, in_flight	values before this segment
 * pacing_rate		2^64 - 1 means none
 * pacing_status	0 not paced, 1 paced by TCP's own timer, 2 by the fq qdisc
 * wstamp_ns		earliest departure, on CLOCK_MONOTONIC; a time in the past means at
 *			once
 */
TRACE_EVENT_FN(segment_sent,

	TP_PROTO(struct sock *sk, const struct satcc_log_segment *seg),

	TP_ARGS(sk, seg),

	TP_STRUCT__entry(
		SATCC_LOG_ENTRY
		__field(u64, sent_orig)
		__field(u64, pacing_rate)
		__field(u64, wstamp_ns)
		__field(u32, seq)
		__field(u32, len)
		__field(u32, segs)
		__field(u32, snd_una)
		__field(u32, snd_nxt)
		__field(u32, cwnd)
		__field(u32, in_flight)
		__field(u32, srtt_us)
		__field(u8, flags)
		__field(u8, retrans)
		__field(u8, pacing_status)
		__field(u8, ca_state)
	),

	TP_fast_assign(
		const struct tcp_sock *tp = tcp_sk(sk);

		SATCC_LOG_ASSIGN;
		__entry->sent_orig = seg->sent_orig;
		__entry->pacing_rate = sk->sk_pacing_rate == ~0UL ?
				       U64_MAX : sk->sk_pacing_rate;
		__entry->wstamp_ns = seg->wstamp_ns;
		__entry->seq = seg->seq;
		__entry->len = seg->len;
		__entry->segs = seg->segs;
		__entry->snd_una = tp->snd_una;
		__entry->snd_nxt = tp->snd_nxt;
		__entry->cwnd = tcp_snd_cwnd(tp);
		__entry->in_flight = tcp_packets_in_flight(tp);
		__entry->srtt_us = tp->srtt_us >> 3;
		__entry->flags = seg->flags;
		__entry->retrans = seg->retrans;
		__entry->pacing_status = sk->sk_pacing_status;
		__entry->ca_state = inet_csk(sk)->icsk_ca_state;
	),

	TP_printk(SATCC_LOG_FMT " seq=%u len=%u segs=%u flags=0x%x retrans=%u sent_orig=%llu snd_una=%u snd_nxt=%u cwnd=%u in_flight=%u srtt_us=%u ca_state=%s pacing_rate=%llu pacing_status=%u wstamp_ns=%llu",
		  SATCC_LOG_ARGS, __entry->seq, __entry->len, __entry->segs,
		  __entry->flags, __entry->retrans, __entry->sent_orig,
		  __entry->snd_una, __entry->snd_nxt, __entry->cwnd,
		  __entry->in_flight, __entry->srtt_us,
		  satcc_log_show_state(__entry->ca_state), __entry->pacing_rate,
		  __entry->pacing_status, __entry->wstamp_ns),

	satcc_log_segment_reg, satcc_log_segment_unreg
);

/* ack, len		ACK number and data length of the received segment
 * in_flight, sacked, lost, retrans_out
 *			segments that are in the network, selectively acknowledged,
 *			marked lost, retransmitted and not yet acknowledged
 * rwnd			the peer's advertised window
 * rtt_us		RACK's latest RTT sample, which may be of a retransmission; 0 = none
 * delivered		segments delivered so far, with retransmitted ones
 * mss			payload of a full segment
 */
TRACE_EVENT_FN(ack_received,

	TP_PROTO(struct sock *sk, u32 ack, u32 len),

	TP_ARGS(sk, ack, len),

	TP_STRUCT__entry(
		SATCC_LOG_ENTRY
		__field(u32, ack)
		__field(u32, len)
		__field(u32, snd_una)
		__field(u32, snd_nxt)
		__field(u32, in_flight)
		__field(u32, sacked)
		__field(u32, lost)
		__field(u32, retrans_out)
		__field(u32, rwnd)
		__field(u32, rtt_us)
		__field(u32, srtt_us)
		__field(u32, rttvar_us)
		__field(u32, rto_us)
		__field(u32, delivered)
		__field(u32, cwnd)
		__field(u32, ssthresh)
		__field(u32, mss)
		__field(u8, ca_state)
	),

	TP_fast_assign(
		const struct tcp_sock *tp = tcp_sk(sk);

		SATCC_LOG_ASSIGN;
		__entry->ack = ack;
		__entry->len = len;
		__entry->snd_una = tp->snd_una;
		__entry->snd_nxt = tp->snd_nxt;
		__entry->in_flight = tcp_packets_in_flight(tp);
		__entry->sacked = tp->sacked_out;
		__entry->lost = tp->lost_out;
		__entry->retrans_out = tp->retrans_out;
		__entry->rwnd = tp->snd_wnd;
		__entry->rtt_us = tp->rack.rtt_us;
		__entry->srtt_us = tp->srtt_us >> 3;
		__entry->rttvar_us = tp->rttvar_us >> 2;
		__entry->rto_us = jiffies_to_usecs(inet_csk(sk)->icsk_rto);
		__entry->delivered = tp->delivered;
		__entry->cwnd = tcp_snd_cwnd(tp);
		__entry->ssthresh = tp->snd_ssthresh;
		__entry->mss = tp->mss_cache;
		__entry->ca_state = inet_csk(sk)->icsk_ca_state;
	),

	TP_printk(SATCC_LOG_FMT " ack=%u len=%u snd_una=%u snd_nxt=%u in_flight=%u sacked=%u lost=%u retrans_out=%u rwnd=%u ca_state=%s rtt_us=%u srtt_us=%u rttvar_us=%u rto_us=%u delivered=%u cwnd=%u ssthresh=%u mss=%u",
		  SATCC_LOG_ARGS, __entry->ack, __entry->len, __entry->snd_una,
		  __entry->snd_nxt, __entry->in_flight, __entry->sacked,
		  __entry->lost, __entry->retrans_out, __entry->rwnd,
		  satcc_log_show_state(__entry->ca_state), __entry->rtt_us,
		  __entry->srtt_us, __entry->rttvar_us, __entry->rto_us,
		  __entry->delivered, __entry->cwnd, __entry->ssthresh,
		  __entry->mss),

	satcc_log_ack_reg, satcc_log_ack_unreg
);

/* A socket's first event after anyone has turned the event on has reason "first" and old
 * values equal to the new ones. After that, the old values of each event are the new values
 * of the socket's event before it.
 *
 * reason, the cause of the change:
 *   init	start of the connection: route, metrics cache, ->init()
 *   ack	growth on an ACK; for bbr and similar all changes on an ACK; end of an MTU
 *		probe
 *   recovery	fast recovery: its start, proportional rate reduction, its end
 *   cwr	the same for ECN, a full queue on this host, or a loss that a tail loss
 *		probe has repaired
 *   rto	retransmission timeout
 *   undo	undo of a reduction
 *   idle	restart after idle
 *   app_limited	the application did not fill the window for an RTO
 *   switch	another congestion control
 *   other	any other cause: an MTU probe sent, a BPF program, disconnect
 *
 * The time of an event is that of the change, within some instructions. For app_limited and
 * other it is the time of the socket's next segment or ACK.
 */
TRACE_EVENT_FN(cwnd_changed,

	TP_PROTO(struct sock *sk, const struct satcc_log_window *old,
		 const struct satcc_log_window *window, u8 reason),

	TP_ARGS(sk, old, window, reason),

	TP_STRUCT__entry(
		SATCC_LOG_ENTRY
		__field(u32, cwnd_old)
		__field(u32, cwnd)
		__field(u32, ssthresh_old)
		__field(u32, ssthresh)
		__field(u32, clamp_old)
		__field(u32, clamp)
		__field(u32, in_flight)
		__field(u32, snd_una)
		__field(u32, snd_nxt)
		__field(u8, reason)
		__field(u8, ca_state)
	),

	TP_fast_assign(
		const struct tcp_sock *tp = tcp_sk(sk);

		SATCC_LOG_ASSIGN;
		__entry->cwnd_old = old->cwnd;
		__entry->cwnd = window->cwnd;
		__entry->ssthresh_old = old->ssthresh;
		__entry->ssthresh = window->ssthresh;
		__entry->clamp_old = old->clamp;
		__entry->clamp = window->clamp;
		__entry->in_flight = tcp_packets_in_flight(tp);
		__entry->snd_una = tp->snd_una;
		__entry->snd_nxt = tp->snd_nxt;
		__entry->reason = reason;
		__entry->ca_state = inet_csk(sk)->icsk_ca_state;
	),

	TP_printk(SATCC_LOG_FMT " cwnd_old=%u cwnd=%u ssthresh_old=%u ssthresh=%u clamp_old=%u clamp=%u reason=%s ca_state=%s in_flight=%u snd_una=%u snd_nxt=%u",
		  SATCC_LOG_ARGS, __entry->cwnd_old, __entry->cwnd,
		  __entry->ssthresh_old, __entry->ssthresh, __entry->clamp_old,
		  __entry->clamp,
		  __print_symbolic(__entry->reason,
				   { SATCC_LOG_FIRST,	    "first" },
				   { SATCC_LOG_INIT,	    "init" },
				   { SATCC_LOG_ACK,	    "ack" },
				   { SATCC_LOG_RECOVERY,    "recovery" },
				   { SATCC_LOG_CWR,	    "cwr" },
				   { SATCC_LOG_RTO,	    "rto" },
				   { SATCC_LOG_UNDO,	    "undo" },
				   { SATCC_LOG_IDLE,	    "idle" },
				   { SATCC_LOG_APP_LIMITED, "app_limited" },
				   { SATCC_LOG_SWITCH,	    "switch" },
				   { SATCC_LOG_OTHER,	    "other" }),
		  satcc_log_show_state(__entry->ca_state), __entry->in_flight,
		  __entry->snd_una, __entry->snd_nxt),

	satcc_log_window_reg, satcc_log_window_unreg
);

#endif /* _SATCC_LOG_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE satcc_log_trace
#include <trace/define_trace.h>
