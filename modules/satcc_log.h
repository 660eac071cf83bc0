/* SPDX-License-Identifier: GPL-2.0 */
/* The logger; see satcc_log.c and, for the records, satcc_log_trace.h. */
#ifndef _SATCC_LOG_H
#define _SATCC_LOG_H

#include <linux/sock_diag.h>
#include <net/tcp.h>

#include "compat.h"

/* What changed the window. The numbers are those of the events; new ones are appended. */
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

/* What is known of a segment from its header. */
struct satcc_log_segment {
	u64	wstamp_ns;	/* earliest departure */
	u64	sent_orig;	/* bytes, it included, without retransmissions */
	u32	seq;
	u32	len;		/* payload, bytes */
	u32	segs;		/* handed to IP with it */
	u8	flags;
	u8	retrans;
};

/* Whose a record is. */
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

/* For filters: host order, 0 if it is of the other family. */
static inline u32 satcc_log_v4(const struct in6_addr *addr)
{
	return ipv6_addr_v4mapped(addr) ? ntohl(addr->s6_addr32[3]) : 0;
}

static inline u64 satcc_log_upper(const struct in6_addr *addr)
{
	return (u64)ntohl(addr->s6_addr32[0]) << 32 | ntohl(addr->s6_addr32[1]);
}

int satcc_log_segment_reg(void);
void satcc_log_segment_unreg(void);
int satcc_log_ack_reg(void);
void satcc_log_ack_unreg(void);
int satcc_log_window_reg(void);
void satcc_log_window_unreg(void);

#endif /* _SATCC_LOG_H */
