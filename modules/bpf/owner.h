/* SPDX-License-Identifier: GPL-2.0 */
/* modules/owner.h for BPF. A program does not know the address of its policy, so the policy's
 * number SATCC_OWNER takes its place.
 */
#ifndef _SATCC_OWNER_H
#define _SATCC_OWNER_H

#include <net/tcp.h>

/* Uses the lower half of the address. After a 32-bit move the verifier takes it as a number,
 * not as a pointer.
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
