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

static void calc_merged(void)
{
	u32 k = calc_arg();
	u32 cwnds = calc_arg(), ackeds = calc_arg();
	u32 different = 0, at_cwnd = 0, at_acked = 0;

	for (u32 first = 1; first <= cwnds; first++) {
		u64 ones = 0, credit;
		u32 cwnd = first, merged;

		for (u32 acked = 1; acked <= ackeds; acked++) {
			cwnd = ibk_grow(&ones, cwnd, 1, SATCC_MAX_CWND, k, 1, 1);
			credit = 0;
			merged = ibk_grow(&credit, first, 1, SATCC_MAX_CWND, k, acked, acked);
			if (merged == cwnd && credit == ones)
				continue;
			different++;
			at_cwnd = first;
			at_acked = acked;
		}
	}
	printf("%u %u %u\n", different, at_cwnd, at_acked);
}

bool calc_request(const char *name)
{
	if (!strcmp(name, "grow"))
		calc_grow();
	else if (!strcmp(name, "merged"))
		calc_merged();
	else
		return false;

	return true;
}
