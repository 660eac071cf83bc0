// SPDX-License-Identifier: GPL-2.0
/* The arithmetic of constant_rate/ as a calculator, see calc.h.
 *
 *   a c rtt_us                                          -> c rtt^2
 *   pkts a_q20                                          -> a in segments
 *   grow cwnd ssthresh limit a_q20 credit_q20 [acked counted]...
 *                                                       -> cwnd... credit_q20
 *   merged a_q20 cwnds ackeds                           -> different cwnd acked
 *
 * grow takes any number of ACKs and prints the window after each; merged: see
 * growth_calc.c.
 */
#include "calc.h"

#include "constant_rate.h"

static void calc_a(void)
{
	u32 c = calc_arg(), rtt_us = calc_arg();

	printf("%llu\n", constant_rate_a_q20(c, rtt_us));
}

static void calc_grow(void)
{
	u32 cwnd = calc_arg(), ssthresh = calc_arg(), limit = calc_arg();
	u64 a_q20 = calc_arg(), credit_q20 = calc_arg(), acked;

	while (calc_next(&acked)) {
		cwnd = constant_rate_grow(&credit_q20, cwnd, ssthresh, limit,
					  a_q20, acked, calc_arg());
		printf("%u ", cwnd);
	}
	printf("%llu\n", credit_q20);
}

static u32 calc_growth_by_a(u64 *credit_q20, u32 cwnd, u64 a_q20, u32 acked)
{
	return constant_rate_grow(credit_q20, cwnd, 1, SATCC_MAX_CWND, a_q20, acked, acked);
}

bool calc_request(const char *name)
{
	if (!strcmp(name, "a"))
		calc_a();
	else if (!strcmp(name, "pkts"))
		printf("%u\n", constant_rate_a_pkts(calc_arg()));
	else if (!strcmp(name, "grow"))
		calc_grow();
	else if (!strcmp(name, "merged"))
		calc_merge(calc_growth_by_a, calc_arg());
	else
		return false;

	return true;
}
