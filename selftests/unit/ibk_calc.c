// SPDX-License-Identifier: GPL-2.0
/* The arithmetic of ibk/ as a calculator, see calc.h.
 *
 *   derive rtt_us ref_us                                -> K
 *   k k rtt_min_us [ref_us min_rtt_us]...               -> [rule K]...
 *   grow cwnd ssthresh limit k_q16 credit_q16 acked...  -> cwnd... credit_q16
 *
 * k goes through what one flow meets, with what it remembers; grow takes any number
 * of ACKs and prints the window after each.
 */
#include "calc.h"

#include "ibk.h"

static void calc_derive(void)
{
	u32 rtt_us = calc_arg(), ref_us = calc_arg();

	printf("%u\n", ibk_derive_k_q16(rtt_us, ref_us));
}

static void calc_k(void)
{
	struct ibk_config config = { .k = calc_arg() };
	struct ibk_auto derived = {};
	u64 ref_us;

	config.rtt_min_us = calc_arg();
	while (calc_next(&ref_us)) {
		u32 min_rtt_us = calc_arg();
		u8 rule;

		config.ref_us = ref_us;
		rule = ibk_rule(&config, min_rtt_us);
		printf("%u %u ", rule,
		       ibk_k_q16(&config, rule, min_rtt_us, &derived));
	}
	printf("\n");
}

static void calc_grow(void)
{
	u32 cwnd = calc_arg(), ssthresh = calc_arg(), limit = calc_arg();
	u32 k_q16 = calc_arg();
	u64 credit_q16 = calc_arg(), acked;

	while (calc_next(&acked)) {
		cwnd = ibk_grow(&credit_q16, cwnd, ssthresh, limit, k_q16, acked);
		printf("%u ", cwnd);
	}
	printf("%llu\n", credit_q16);
}

bool calc_request(const char *name)
{
	if (!strcmp(name, "derive"))
		calc_derive();
	else if (!strcmp(name, "k"))
		calc_k();
	else if (!strcmp(name, "grow"))
		calc_grow();
	else
		return false;

	return true;
}
