/* SPDX-License-Identifier: GPL-2.0 */
/* Whose are the private bytes of a socket?
 *
 * A policy finds its state in the socket's icsk_ca_priv. The core zeroes these
 * bytes and calls ->init() when a socket changes its policy, with one exception:
 * tcp_ca_dst_init(), after a Fast Open connect() that was deferred to the first
 * data, puts the route's policy in the place of another without either. Then a
 * policy runs on bytes that another one has written, and goes on to do so.
 *
 * So the first member of a policy's state is a word that no other policy and no
 * other socket would have there, and a callback that reads the state looks at it
 * first:
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
 * ->init() writes it: WRITE_ONCE(ca->owner, satcc_owner(sk, &tcp_name)). A reader
 * without the socket lock, ->get_info(), reports nothing of a state that is not
 * its own, and must not begin one.
 */
#ifndef _SATCC_OWNER_H
#define _SATCC_OWNER_H

#include <linux/kernel.h>
#include <net/tcp.h>

/* Returns the word. Both addresses are even, hence never 0: zeroed bytes are
 * nobody's.
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
