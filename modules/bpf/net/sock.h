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

/* Set by the loader. If 0, the verifier does not look at the call of the helper. */
extern int CONFIG_SATCC_READ_KERNEL __kconfig __weak;

/* Returns a route's metric, 0 = not set. The lowest two bits of _metrics are flags. A kernel that
 * is locked down for confidentiality has no such helper; there no metric is set.
 */
static inline u32 dst_metric(const struct dst_entry *dst, int metric)
{
	const u32 *metrics = (const u32 *)(dst->_metrics & ~3UL);
	u32 value = 0;

	if (CONFIG_SATCC_READ_KERNEL)
		bpf_probe_read_kernel(&value, sizeof(value), metrics + metric - 1);

	return value;
}

#endif /* _SATCC_BPF_SOCK_H */
