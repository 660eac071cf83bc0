// SPDX-License-Identifier: GPL-2.0
/* mtsi's slow start as a calculator, see calc.h.
 *
 *   add cwnd end f acks                         -> cwnd taken
 *   steps f k room                              -> steps
 *   start zones [thr k]... above target f cwnd acks...
 *                                               -> [cwnd f left]...
 *
 * start takes any number of ACKs and prints the result of each.
 */
#include "calc.h"

#include "mtsi_increase.h"

static void calc_add(void)
{
	u32 cwnd = calc_arg(), end = calc_arg(), f = calc_arg();
	u32 taken = mtsi_add(&cwnd, end, f, calc_arg());

	printf("%u %u\n", cwnd, taken);
}

static void calc_steps(void)
{
	u32 f = calc_arg(), k = calc_arg();

	printf("%u\n", mtsi_steps(f, k, calc_arg()));
}

static void calc_start(void)
{
	u32 thr[MTSI_MAX_ZONES], k[MTSI_MAX_ZONES], target, left;
	struct mtsi_rule rule = { .thr = thr, .k = k, .zones = calc_arg() };
	struct mtsi_growth growth = { 0 };
	u64 acks;

	for (u32 i = 0; i < rule.zones; i++) {
		thr[i] = calc_arg();
		k[i] = calc_arg();
	}
	rule.above = calc_arg();
	target = calc_arg();
	growth.f = calc_arg();
	growth.cwnd = calc_arg();
	while (calc_next(&acks)) {
		left = mtsi_slow_start(&rule, &growth, target, acks);
		printf("%u %u %u ", growth.cwnd, growth.f, left);
	}
	printf("\n");
}

bool calc_request(const char *name)
{
	if (!strcmp(name, "add"))
		calc_add();
	else if (!strcmp(name, "steps"))
		calc_steps();
	else if (!strcmp(name, "start"))
		calc_start();
	else
		return false;

	return true;
}
