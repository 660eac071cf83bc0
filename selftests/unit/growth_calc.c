// SPDX-License-Identifier: GPL-2.0
/* The arithmetic of modules/ as a calculator, see calc.h.
 *
 *   exp2 x_q16                                  -> 2^x
 *   rho min_rtt_us rtt0_us rho_max              -> rho
 *   rho2 rho_q16                                -> rho^2
 *   gain rho_q16                                -> 2^rho - 1
 *   start cwnd target start_q16 gain_q16 acked  -> cwnd start_q16 left
 *   avoid cwnd limit avoid_q16 gain_q16 acked   -> cwnd avoid_q16
 *   grow cwnd ssthresh limit rho_q16 start_q16 avoid_q16 acked...
 *                                               -> cwnd... start_q16 avoid_q16
 *   merged rho_q16 cwnds ackeds                 -> different cwnd acked
 *   path own_us core_us                         -> RTT_min
 *   hoe min_points min_rtt_us [t_us pkts]...    -> points num den window
 *
 * grow takes any number of ACKs and prints the window after each. merged compares one ACK
 * of n segments with n ACKs of one segment, for each window of 1 .. cwnds and each n of
 * 1 .. ackeds. It prints how many pairs differ in window or credit, and the last of these
 * pairs. hoe takes the points after the origin and stops, as the modules do, at the first
 * point that is refused.
 */
#include "calc.h"

#include "credit.h"
#include "hoe.h"
#include "rho.h"

static void calc_rho(void)
{
	u32 min_rtt_us = calc_arg(), rtt0_us = calc_arg(), rho_max = calc_arg();

	printf("%u\n", hybla_rho_q16(min_rtt_us, rtt0_us, rho_max));
}

static void calc_start(void)
{
	u32 cwnd = calc_arg(), target = calc_arg();
	struct hybla_credit credit = { .start_q16 = calc_arg() };
	u64 gain_q16 = calc_arg();
	u32 left = hybla_slow_start(&credit, &cwnd, target, gain_q16, calc_arg());

	printf("%u %u %u\n", cwnd, credit.start_q16, left);
}

static void calc_avoid(void)
{
	u32 cwnd = calc_arg(), limit = calc_arg();
	struct hybla_credit credit = { .avoid_q16 = calc_arg() };
	u64 gain_q16 = calc_arg();

	cwnd = satcc_avoid(&credit.avoid_q16, cwnd, limit, gain_q16, SATCC_Q16_SHIFT,
			   calc_arg());
	printf("%u %llu\n", cwnd, credit.avoid_q16);
}

static void calc_grow(void)
{
	u32 cwnd = calc_arg(), ssthresh = calc_arg(), limit = calc_arg();
	u32 rho_q16 = calc_arg();
	struct hybla_credit credit = { .start_q16 = calc_arg() };
	u64 acked;

	credit.avoid_q16 = calc_arg();
	while (calc_next(&acked)) {
		cwnd = hybla_grow_by_rho(&credit, cwnd, ssthresh, limit, rho_q16, acked);
		printf("%u ", cwnd);
	}
	printf("%u %llu\n", credit.start_q16, credit.avoid_q16);
}

static u32 calc_growth_by_rho(u64 *avoid_q16, u32 cwnd, u64 rho_q16, u32 acked)
{
	struct hybla_credit credit = { .avoid_q16 = *avoid_q16 };

	cwnd = hybla_grow_by_rho(&credit, cwnd, 1, SATCC_MAX_CWND, rho_q16, acked);
	*avoid_q16 = credit.avoid_q16;

	return cwnd;
}

static void calc_path(void)
{
	u32 own_us = calc_arg();

	printf("%u\n", hybla_path_rtt_us(own_us, calc_arg()));
}

static void calc_hoe(void)
{
	u32 min_points = calc_arg(), min_rtt_us = calc_arg();
	struct satcc_hoe hoe;
	s64 num, den;
	u64 t_us;

	satcc_hoe_start(&hoe);
	while (calc_next(&t_us) && satcc_hoe_add(&hoe, t_us, calc_arg(), min_rtt_us))
		;
	satcc_hoe_fit(&hoe, &num, &den);
	printf("%u %lld %lld %u\n", hoe.points, num, den,
	       satcc_hoe_window(&hoe, min_points, min_rtt_us));
}

bool calc_request(const char *name)
{
	if (!strcmp(name, "exp2"))
		printf("%llu\n", hybla_exp2_q16(calc_arg()));
	else if (!strcmp(name, "rho"))
		calc_rho();
	else if (!strcmp(name, "rho2"))
		printf("%llu\n", hybla_rho2_q16(calc_arg()));
	else if (!strcmp(name, "gain"))
		printf("%llu\n", hybla_slow_start_gain_q16(calc_arg()));
	else if (!strcmp(name, "start"))
		calc_start();
	else if (!strcmp(name, "avoid"))
		calc_avoid();
	else if (!strcmp(name, "grow"))
		calc_grow();
	else if (!strcmp(name, "merged"))
		calc_merge(calc_growth_by_rho, calc_arg());
	else if (!strcmp(name, "path"))
		calc_path();
	else if (!strcmp(name, "hoe"))
		calc_hoe();
	else
		return false;

	return true;
}
