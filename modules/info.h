/* SPDX-License-Identifier: GPL-2.0 */
/* A policy's state for getsockopt(TCP_CC_INFO) and inet_diag. It is in the record of Vegas,
 * which user space knows; Westwood and Illinois use that record too.
 */
#ifndef _SATCC_INFO_H
#define _SATCC_INFO_H

#include <linux/inet_diag.h>
#include <net/tcp.h>

/* The body of ->get_info(). enabled: the window grows by the policy's rule, not Reno's.
 * count: a number that the policy chooses. RTTs in us. Returns the size of the record, or
 * 0 if the caller wants another record.
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
