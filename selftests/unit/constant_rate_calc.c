// SPDX-License-Identifier: GPL-2.0
/* The arithmetic of constant_rate/ as a calculator, see calc.h.
 *
 *   a c rtt_us                                          -> c rtt^2
 *   grow cwnd ssthresh limit a_q20 bound credit_q20 acked...
 *                                                       -> cwnd... credit_q20
 *
 * grow takes any number of ACKs and prints the window after each.
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
	u64 a_q20 = calc_arg();
	bool bound = calc_arg();
	u64 credit_q20 = calc_arg(), acked;

	while (calc_next(&acked)) {
		cwnd = constant_rate_grow(&credit_q20, cwnd, ssthresh, limit,
					  a_q20, bound, acked);
		printf("%u ", cwnd);
	}
	printf("%llu\n", credit_q20);
}

bool calc_request(const char *name)
{
	if (!strcmp(name, "a"))
		calc_a();
	else if (!strcmp(name, "grow"))
		calc_grow();
	else
		return false;

	return true;
}
