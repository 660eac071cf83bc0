/* SPDX-License-Identifier: GPL-2.0 */
/* The fields that all events of the logger share; satcc_log_trace.h describes them. */
#ifndef _SATCC_LOG_ENTRY_TRACE_H
#define _SATCC_LOG_ENTRY_TRACE_H

#include "satcc_log.h"

#define SATCC_LOG_ENTRY				\
		__field(u64, cookie)		\
		__field(u64, saddr6)		\
		__field(u64, daddr6)		\
		__field(u32, saddr4)		\
		__field(u32, daddr4)		\
		__field(u32, netns)		\
		__field(u16, sport)		\
		__field(u16, dport)		\
		__array(u8, saddr, 16)		\
		__array(u8, daddr, 16)		\
		__array(char, cc, TCP_CA_NAME_MAX)

#define SATCC_LOG_ASSIGN						\
		do {							\
			struct satcc_log_names names;			\
									\
			satcc_log_names(sk, &names);			\
			__entry->cookie = names.cookie;			\
			__entry->saddr6 = satcc_log_upper(&names.saddr); \
			__entry->daddr6 = satcc_log_upper(&names.daddr); \
			__entry->saddr4 = satcc_log_v4(&names.saddr);	\
			__entry->daddr4 = satcc_log_v4(&names.daddr);	\
			__entry->netns = sock_net(sk)->ns.inum;		\
			__entry->sport = ntohs(inet_sk(sk)->inet_sport); \
			__entry->dport = ntohs(inet_sk(sk)->inet_dport); \
			memcpy(__entry->saddr, &names.saddr, 16);	\
			memcpy(__entry->daddr, &names.daddr, 16);	\
			memcpy(__entry->cc, inet_csk(sk)->icsk_ca_ops->name, \
			       TCP_CA_NAME_MAX);			\
		} while (0)

#define SATCC_LOG_FMT	"cookie=%llu netns=%u src=%pI6c:%u dst=%pI6c:%u cc=%s"

#define SATCC_LOG_ARGS							\
		  __entry->cookie, __entry->netns, __entry->saddr,	\
		  __entry->sport, __entry->daddr, __entry->dport, __entry->cc

#define satcc_log_show_state(state)			\
	__print_symbolic(state,				\
			 { TCP_CA_Open,	    "Open" },	\
			 { TCP_CA_Disorder, "Disorder" }, \
			 { TCP_CA_CWR,	    "CWR" },	\
			 { TCP_CA_Recovery, "Recovery" }, \
			 { TCP_CA_Loss,	    "Loss" })

#endif /* _SATCC_LOG_ENTRY_TRACE_H */
