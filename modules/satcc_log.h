/* SPDX-License-Identifier: GPL-2.0 */
/* The logger. satcc_log_main.c describes it, and the *_trace.h the records. */
#ifndef _SATCC_LOG_H
#define _SATCC_LOG_H

#include <linux/kprobes.h>
#include <linux/sock_diag.h>
#include <net/tcp.h>

#include "compat.h"

/* Causes of a change of the window. Events contain these numbers, so append new ones. */
enum {
	SATCC_LOG_FIRST,
	SATCC_LOG_INIT,
	SATCC_LOG_ACK,
	SATCC_LOG_RECOVERY,
	SATCC_LOG_CWR,
	SATCC_LOG_RTO,
	SATCC_LOG_UNDO,
	SATCC_LOG_IDLE,
	SATCC_LOG_APP_LIMITED,
	SATCC_LOG_SWITCH,
	SATCC_LOG_OTHER,
};

/* In segments. */
struct satcc_log_window {
	u32	cwnd;
	u32	ssthresh;
	u32	clamp;
};

/* A segment, from its header. */
struct satcc_log_segment {
	u64	wstamp_ns;	/* earliest departure */
	u64	sent_orig;	/* bytes up to its end, without retransmissions */
	u32	seq;
	u32	len;		/* payload, bytes */
	u32	segs;		/* segments in the same packet for IP */
	u8	flags;
	u8	retrans;
};

/* Callbacks. The event cc_call contains these numbers, so append new ones. */
enum {
	SATCC_CALL_INIT = 1,
	SATCC_CALL_RELEASE,
	SATCC_CALL_SSTHRESH,
	SATCC_CALL_CONG_AVOID,
	SATCC_CALL_SET_STATE,
	SATCC_CALL_CWND_EVENT,
	SATCC_CALL_IN_ACK_EVENT,
	SATCC_CALL_PKTS_ACKED,
	SATCC_CALL_UNDO_CWND,
	SATCC_CALL_CONG_CONTROL,
	SATCC_CALL_CWND_EVENT_TX_START,
};

/* ICSK_CA_PRIV_SIZE as a number, because the event's format shows the text of the macro. */
#define SATCC_CALL_PRIV	104

/* The values that a callback may change. */
struct satcc_call_state {
	u64	pacing_rate;	/* bytes per second; U64_MAX means none */
	u32	cwnd;
	u32	ssthresh;
	u32	in_flight;
	u32	delivered;
	u32	cwnd_cnt;
	u32	prr_delivered;
	u8	ca_state;
	u8	pacing_status;
	u8	priv[SATCC_CALL_PRIV];
};

/* Fields of a rate sample. */
struct satcc_call_rate {
	s32	delivered;
	s32	interval_us;
	s32	losses;
	u32	acked_sacked;
	u32	prior_in_flight;
	u32	prior_delivered;
	u32	prior_mstamp_lo;
	u8	is_app_limited;
	u8	is_retrans;
};

/* A call of a callback, with the connection's state before it; see satcc_log_call_trace.h. */
struct satcc_call {
	struct sock		*sk;
	struct satcc_call_state	old;
	struct satcc_call_rate	rs;
	u64			mstamp_us;
	u64			bytes_sent;
	u32			ack;
	u32			arg;
	s32			rtt_us;
	u32			clamp;
	u32			prior_cwnd;
	u32			prior_ssthresh;
	u32			undo_marker;
	u32			undo_retrans;
	u32			high_seq;
	u32			srtt_us8;
	u32			min_rtt_us;
	u32			lost;
	u32			app_limited;
	u32			rate_delivered;
	u32			rate_interval_us;
	u32			snd_una;
	u32			snd_nxt;
	u32			packets_out;
	u32			max_packets_out;
	u32			cwnd_used;
	u32			sacked_out;
	u32			lost_out;
	u32			retrans_out;
	u32			prr_out;
	u32			mss;
	u32			total_retrans;
	u32			snd_wnd;
	u8			call;		/* SATCC_CALL_ */
	u8			cwnd_limited;
	u8			is_cwnd_limited;
	u8			sack_ok;
	u8			tstamp_ok;
	u8			tcp_state;
	u8			ecn_flags;
	u8			rate_app_limited;
};

/* The socket of a record. */
struct satcc_log_names {
	u64		cookie;
	struct in6_addr	saddr;
	struct in6_addr	daddr;
};

static inline u64 satcc_log_cookie(struct sock *sk)
{
	u32 words[2];

	sock_diag_save_cookie(sk, words);

	return (u64)words[1] << 32 | words[0];
}

static inline void satcc_log_names(struct sock *sk, struct satcc_log_names *names)
{
	const struct inet_sock *inet = inet_sk(sk);

	names->cookie = satcc_log_cookie(sk);
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr)) {
		names->saddr = sk->sk_v6_rcv_saddr;
		names->daddr = sk->sk_v6_daddr;
		return;
	}
#endif
	ipv6_addr_set_v4mapped(inet->inet_saddr, &names->saddr);
	ipv6_addr_set_v4mapped(inet->inet_daddr, &names->daddr);
}

/* For filters: the address in host order, 0 if it is IPv6. */
static inline u32 satcc_log_v4(const struct in6_addr *addr)
{
	return ipv6_addr_v4mapped(addr) ? ntohl(addr->s6_addr32[3]) : 0;
}

static inline u64 satcc_log_upper(const struct in6_addr *addr)
{
	return (u64)ntohl(addr->s6_addr32[0]) << 32 | ntohl(addr->s6_addr32[1]);
}

/* The last window of a socket, see satcc_log_flow.c. */
struct satcc_log_flow {
	struct hlist_node	node;
	const struct sock	*sk;
	u64			cookie;
	struct satcc_log_window	window;
	u8			cause;	/* SATCC_LOG_ of a change that happens now */
	bool			acking;	/* in tcp_ack() */
};

struct satcc_log_flow *satcc_log_flow_find(const struct sock *sk);
struct satcc_log_flow *satcc_log_flow_add(const struct sock *sk);
void satcc_log_flow_remove(struct satcc_log_flow *flow);
int satcc_log_flows_alloc(void);
void satcc_log_flows_free(void);
unsigned long satcc_log_flows_lost(void);

#define SATCC_LOG_NAME		32	/* longer than each hooked function's name */

/* A function with a hook on entry, see satcc_log_hook.c. */
struct satcc_log_entry {
	const char	*function;	/* NULL ends the table */
	void		(*hook)(struct sock *sk, struct pt_regs *regs);
	unsigned long	address;	/* 0 = not known yet */
	u8		events;
	bool		attached;
};

/* A function with hooks on entry and return. */
struct satcc_log_pair {
	struct kretprobe	probe;
	const char		*function;	/* NULL ends the table */
	u8			events;
	u8			cause;		/* SATCC_LOG_ of its changes */
	bool			attached;
};

/* Passed from the hook on entry to the hook on return. */
struct satcc_log_call {
	const struct satcc_log_pair	*pair;
	struct sock			*sk;
	u32				ack;
	u32				len;
	u8				cause;	/* flow->cause before the call */
};

#define SATCC_LOG_ENTRIES	5
#define SATCC_LOG_PAIRS		10

extern struct satcc_log_entry satcc_log_entries[SATCC_LOG_ENTRIES + 1];
extern struct satcc_log_pair satcc_log_pairs[SATCC_LOG_PAIRS + 1];

int satcc_log_enter(struct kretprobe_instance *ri, struct pt_regs *regs);
int satcc_log_return(struct kretprobe_instance *ri, struct pt_regs *regs);
int satcc_log_attach(u8 events);
int satcc_log_max_active(void);
unsigned long satcc_log_hooks_missed(void);

int satcc_log_segment_reg(void);
void satcc_log_segment_unreg(void);
int satcc_log_ack_reg(void);
void satcc_log_ack_unreg(void);
int satcc_log_window_reg(void);
void satcc_log_window_unreg(void);
int satcc_log_call_reg(void);
void satcc_log_call_unreg(void);

int satcc_log_call_init(void);
void satcc_log_call_exit(void);
unsigned long satcc_log_call_lost(void);

#endif /* _SATCC_LOG_H */
