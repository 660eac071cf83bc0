/* SPDX-License-Identifier: GPL-2.0 */
/* The kernel's struct sock for BPF. */
#ifndef _SATCC_BPF_SOCK_H
#define _SATCC_BPF_SOCK_H

#include <linux/kernel.h>

#define sock_net(sk)	((sk)->__sk_common.skc_net.net)

/* Not atomic, which BPF cannot be on a socket's members. A write of the fq qdisc between the
 * two instructions is lost, and the socket paced by TCP's own timer.
 */
#define cmpxchg(place, old, new) \
	do { if (READ_ONCE(*(place)) == (old)) WRITE_ONCE(*(place), new); } while (0)

#endif /* _SATCC_BPF_SOCK_H */
