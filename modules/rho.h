/* SPDX-License-Identifier: GPL-2.0 */
/* Hybla's normalised RTT rho, and the two gains computed from it.
 *
 *   rho = max(RTT_min / RTT_0, 1)
 *   slow start:            W += 2^rho - 1   per segment acknowledged
 *   congestion avoidance:  W += rho^2 / W   per segment acknowledged
 *
 * rho = 1 gives +1 and +1/W: Reno.
 */
#ifndef _SATCC_RHO_H
#define _SATCC_RHO_H

#include <linux/types.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "fixed_point.h"

/* Returns the RTT of the path, from which rho is computed: a smallest RTT of bounded age.
 * own_us: smallest sample since the flow's start or its last timeout, above 0. core_us:
 * smallest recent RTT of the core, see satcc_min_rtt_us(); 0 = none.
 *
 * core_us is above own_us if the path has become longer, or if there has been a queue
 * for the core's whole window of time. The two look alike. So without a timeout the RTT
 * rises by at most a quarter, and a standing queue makes a flow no more aggressive than
 * that. A path that becomes longer by more than 200 ms usually causes a timeout. If it
 * becomes longer by less than that but by more than a quarter, rho falls short.
 */
static inline u32 satcc_path_rtt_us(u32 own_us, u32 core_us)
{
	if (core_us <= own_us)
		return own_us;

	return min_t(u64, core_us, (u64)own_us + own_us / 4);
}

/* A path 256 times as long as the reference (6.4 s at 25 ms). With a larger rho, rho^2
 * would exceed the range that the window arithmetic is proved for.
 */
#define SATCC_RHO_MAX		256

/* Returns rho in Q16, within [1, rho_max]. min_rtt_us: any u32. rtt0_us: 1 or more.
 * rho_max: 1 .. SATCC_RHO_MAX. The shifted numerator is below 2^48.
 */
static inline u32 satcc_rho_q16(u32 min_rtt_us, u32 rtt0_us, u32 rho_max)
{
	u64 rho_q16 = div_u64((u64)min_rtt_us << SATCC_Q16_SHIFT, rtt0_us);

	return clamp_t(u64, rho_q16, SATCC_Q16_ONE,
		       (u64)rho_max << SATCC_Q16_SHIFT);
}

/* Returns rho^2 in Q16: at most 2^32, so it does not fit u32. The product is at
 * most 2^24 * 2^24.
 */
static inline u64 satcc_rho2_q16(u32 rho_q16)
{
	return (u64)rho_q16 * rho_q16 >> SATCC_Q16_SHIFT;
}

/* Returns 2^rho - 1 in Q16, for rho >= 1: from 1 to 2^31 - 1, never 0. */
static inline u64 satcc_slow_start_gain_q16(u32 rho_q16)
{
	return satcc_exp2_q16(rho_q16) - SATCC_Q16_ONE;
}

#endif /* _SATCC_RHO_H */
