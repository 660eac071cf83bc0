// SPDX-License-Identifier: GPL-2.0
/* The arithmetic of ibk/ as a calculator, see calc.h.
 *
 *   grow cwnd ssthresh limit k credit_q16 [acked counted]...  -> cwnd... credit_q16
 *   merged k cwnds ackeds                                     -> different cwnd acked
 *
 * grow takes any number of ACKs and prints the window after each; merged: see
 * growth_calc.c.
 */
#include "calc.h"

#include "ibk.h"

static void calc_grow(void)
{
	u32 cwnd = calc_arg(), ssthresh = calc_arg(), limit = calc_arg();
	u32 k = calc_arg();
	u64 credit_q16 = calc_arg(), acked;

	while (calc_next(&acked)) {
		cwnd = ibk_grow(&credit_q16, cwnd, ssthresh, limit, k, acked,
				calc_arg());
		printf("%u ", cwnd);
	}
	printf("%llu\n", credit_q16);
}

static u32 calc_growth_by_k(u64 *credit_q16, u32 cwnd, u64 k, u32 acked)
{
	return ibk_grow(credit_q16, cwnd, 1, SATCC_MAX_CWND, k, acked, acked);
}

bool calc_request(const char *name)
{
	if (!strcmp(name, "grow"))
		calc_grow();
	else if (!strcmp(name, "merged"))
		calc_merge(calc_growth_by_k, calc_arg());
	else
		return false;

	return true;
}
