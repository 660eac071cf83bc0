/* SPDX-License-Identifier: GPL-2.0 */
/* Increase-by-K: what a flow keeps, what K is, and the window after an ACK.
 *
 *   W += min(K / W, 1)   per segment acknowledged, in congestion avoidance
 *
 * Integer maths on plain values, no sockets: the unit tests compile it too.
 */
#ifndef _IBK_H
#define _IBK_H

#include <linux/types.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "credit.h"
#include "fixed_point.h"

/* Largest K that is derived from the RTT: "a modest value of K (less than 8 or
 * so)" never did harm in the report's simulations.
 */
#define IBK_AUTO_MAX	8

/* RTTs above 10 s count as 10 s, so that their square in Q16 fits u64. */
#define IBK_MAX_RTT_US	10000000

/* How K came about: bits of ibk_basis.rule, none = K is k */
enum ibk_rule {
	IBK_RULE_AUTO	= 1 << 0,	/* from the RTT, k_auto */
	IBK_RULE_BELOW	= 1 << 1,	/* K = 1: RTT below rtt_min_ms */
	IBK_RULE_NO_RTT	= 1 << 2,	/* K = 1: an RTT is asked for, none is known */
};

/* The last K derived from an RTT, for RTT and reference seldom change. Zeroed: none. */
struct ibk_auto {
	u32	rtt_us;		/* smallest RTT it was for; 0 = none */
	u32	ref_us;		/* reference RTT it was for */
	u32	k_q16;
};

/* Per flow. All zero, as before init() and after disconnect, means: no credit.
 * Written and read under the socket lock.
 */
struct ibk {
	u64	credit_q16;	/* earned in congestion avoidance, not yet spent */
	struct ibk_auto derived;
};

/* What K is to be: the module's parameters, taken once for a decision. */
struct ibk_config {
	u32	k;		/* 1 .. 255 */
	u32	rtt_min_us;	/* below it K is 1 */
	u32	ref_us;		/* reference RTT, 1000 .. 10^7; 0 = K is k */
};

/* What a decision is based on, for the trace: beside struct satcc_event. */
struct ibk_basis {
	u64	credit_q16;	/* before it */
	u32	min_rtt_us;	/* 0 = no sample yet */
	u32	k_q16;		/* that growth used or would use */
	u8	rule;		/* enum ibk_rule, or-ed */
};

/* Which rule gives K at this RTT. */
static inline u8 ibk_rule(const struct ibk_config *config, u32 min_rtt_us)
{
	u8 rule = config->ref_us ? IBK_RULE_AUTO : 0;

	if (min_rtt_us)
		return rule | (min_rtt_us < config->rtt_min_us ? IBK_RULE_BELOW : 0);

	return rule | (rule || config->rtt_min_us ? IBK_RULE_NO_RTT : 0);
}

/* Returns K = (RTT / RTT_ref)^2 in Q16, rounded down, within 1 .. IBK_AUTO_MAX.
 * K segments per RTT, each W / RTT of the rate, make the rate grow by K / RTT^2:
 * with this K, as fast as Reno's at RTT_ref.
 *
 * rtt_us: any u32; its square is at most 10^14, in Q16 below 2^63. ref_us: 1000
 * and up, its square fits u64.
 */
static inline u32 ibk_derive_k_q16(u32 rtt_us, u32 ref_us)
{
	u64 rtt2 = min_t(u64, rtt_us, IBK_MAX_RTT_US);
	u64 ref2 = (u64)ref_us * ref_us;
	u64 k_q16;

	rtt2 *= rtt2;
	k_q16 = div64_u64(rtt2 << SATCC_Q16_SHIFT, ref2);

	return clamp_t(u64, k_q16, SATCC_Q16_ONE, IBK_AUTO_MAX * SATCC_Q16_ONE);
}

/* Returns K in Q16, below 2^24, by the rule that ibk_rule() gave. */
static inline u32 ibk_k_q16(const struct ibk_config *config, u8 rule,
			    u32 min_rtt_us, struct ibk_auto *derived)
{
	if (rule & (IBK_RULE_BELOW | IBK_RULE_NO_RTT))
		return SATCC_Q16_ONE;
	if (!(rule & IBK_RULE_AUTO))
		return config->k << SATCC_Q16_SHIFT;

	if (derived->rtt_us != min_rtt_us || derived->ref_us != config->ref_us) {
		derived->rtt_us = min_rtt_us;
		derived->ref_us = config->ref_us;
		derived->k_q16 = ibk_derive_k_q16(min_rtt_us, config->ref_us);
	}

	return derived->k_q16;
}

/* Returns the window after an ACK of acked segments: Reno's slow start below
 * ssthresh, from there on K / W per segment, in one step when the ACK crosses it.
 *
 * cwnd, limit: 1 .. 2^31 - 1. ssthresh: any. acked: below 2^30, times K below 2^54.
 */
static inline u32 ibk_grow(u64 *credit_q16, u32 cwnd, u32 ssthresh, u32 limit,
			   u32 k_q16, u32 acked)
{
	u64 price_q16;

	acked = satcc_start_by_one(&cwnd, min(ssthresh, limit), acked);
	if (!acked)
		return cwnd;

	price_q16 = (u64)cwnd << SATCC_Q16_SHIFT;

	return satcc_avoid_by(credit_q16, cwnd, limit,
			      min_t(u64, k_q16, price_q16), price_q16, acked);
}

#endif /* _IBK_H */
