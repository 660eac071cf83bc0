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

#endif /* _SATCC_BPF_SOCK_H */
