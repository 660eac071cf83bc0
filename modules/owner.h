/* SPDX-License-Identifier: GPL-2.0 */
/* Checks which policy has written the private bytes of a socket.
 *
 * A policy keeps its state in the socket's icsk_ca_priv. The core zeroes these bytes
 * and calls ->init() when a socket changes its policy, with one exception. After a Fast
 * Open connect() that waits for the first data, tcp_ca_dst_init() replaces the policy
 * by the route's and does neither. The new policy then runs on bytes that another
 * policy has written, for the rest of the connection.
 *
 * So the first member of a policy's state is a word that no other policy and no other
 * socket would write there. A callback that uses the state checks the word first:
 *
 *   static struct name *name_state(struct sock *sk)
 *   {
 *	struct name *ca = inet_csk_ca(sk);
 *
 *	if (!satcc_owned(sk, READ_ONCE(ca->owner), &tcp_name))
 *		name_init(sk);
 *
 *	return ca;
 *   }
 *
 * ->init() writes it: WRITE_ONCE(ca->owner, satcc_owner(sk, &tcp_name)). ->get_info()
 * runs without the socket lock. If the word does not match, it must return 0 and not
 * call ->init().
 */
#ifndef _SATCC_OWNER_H
#define _SATCC_OWNER_H

#include <linux/kernel.h>
#include <net/tcp.h>

/* Returns the word. Both addresses are even, so bit 0 is free. Setting it makes the word
 * differ from 0, so zeroed bytes never match.
 */
static inline u32 satcc_owner(const struct sock *sk, const struct tcp_congestion_ops *ops)
{
	return lower_32_bits((uintptr_t)sk ^ (uintptr_t)ops) | 1;
}

static inline bool satcc_owned(const struct sock *sk, u32 owner,
			       const struct tcp_congestion_ops *ops)
{
	return likely(owner == satcc_owner(sk, ops));
}

#endif /* _SATCC_OWNER_H */
