/* SPDX-License-Identifier: GPL-2.0 */
/* modules/owner.h for BPF: a program has no address of its policy. SATCC_OWNER, a number of
 * the policy's own, takes its place.
 */
#ifndef _SATCC_OWNER_H
#define _SATCC_OWNER_H

#include <net/tcp.h>

/* The lower half of the address: what an instruction of 32 bits moves is a number to the
 * verifier.
 */
static inline u32 satcc_owner(const struct sock *sk, const struct tcp_congestion_ops *ops)
{
	u32 lower;

	asm volatile("%0 = %1" : "=w"(lower) : "w"(sk));

	return (lower ^ SATCC_OWNER) | 1;
}

static inline bool satcc_owned(const struct sock *sk, u32 owner,
			       const struct tcp_congestion_ops *ops)
{
	return likely(owner == satcc_owner(sk, ops));
}

#endif /* _SATCC_OWNER_H */
