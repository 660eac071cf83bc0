/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's struct sock for BPF. */
#ifndef _SATCC_BPF_SOCK_H
#define _SATCC_BPF_SOCK_H

#include <linux/kernel.h>

#define sk_state		__sk_common.skc_state
#define sock_net(sk)	((sk)->__sk_common.skc_net.net)

/* Not atomic, because BPF has no atomic writes to a socket's members. If the fq qdisc writes
 * between the two instructions, its write is lost and TCP's own timer paces the socket.
 */
#define cmpxchg(place, old, new) \
	do { if (READ_ONCE(*(place)) == (old)) WRITE_ONCE(*(place), new); } while (0)

#define __sk_dst_get(sk)	((sk)->sk_dst_cache)
#define RTAX_INITCWND		11

/* Returns a route's metric, 0 = not set. The lowest two bits of _metrics are flags. */
static inline u32 dst_metric(const struct dst_entry *dst, int metric)
{
	const u32 *metrics = (const u32 *)(dst->_metrics & ~3UL);
	u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), metrics + metric - 1);

	return value;
}

#endif /* _SATCC_BPF_SOCK_H */
