/* SPDX-License-Identifier: GPL-2.0 */
/* A policy's state for getsockopt(TCP_CC_INFO) and inet_diag, in the slot of Vegas,
 * which user space knows; Westwood and Illinois use it so too.
 */
#ifndef _SATCC_INFO_H
#define _SATCC_INFO_H

#include <linux/inet_diag.h>
#include <net/tcp.h>

/* ->get_info() in full. enabled: is growth the policy's now, and not Reno's.
 * count: the policy's own number. RTTs in us. Returns the size of the answer,
 * 0 when another record was asked for.
 */
static inline size_t satcc_vegas_info(u32 ext, int *attr, union tcp_cc_info *info,
				      bool enabled, u32 count, u32 rtt_us,
				      u32 min_rtt_us)
{
	if (!(ext & (1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;

	info->vegas.tcpv_enabled = enabled;
	info->vegas.tcpv_rttcnt = count;
	info->vegas.tcpv_rtt = rtt_us;
	info->vegas.tcpv_minrtt = min_rtt_us;
	*attr = INET_DIAG_VEGASINFO;

	return sizeof(struct tcpvegas_info);
}

#endif /* _SATCC_INFO_H */
