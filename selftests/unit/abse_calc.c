// SPDX-License-Identifier: GPL-2.0
/* The arithmetic of westwood_abse/abse.h as a calculator, see calc.h.
 *
 *   rate pkts us                                  -> segments/s
 *   interval th cwnd rtt_us min_rtt_us            -> T
 *   tau u u_max rtt_us                            -> tau
 *   alpha tau_us dt_us                            -> alpha
 *   filter bse s alpha                            -> bse
 *   window bse min_rtt_us                         -> segments
 *   run [now_us delivered cwnd rtt_us min_rtt_us gap_us re slow]...
 *       -> for each ACK: outcome bse th s u u_max u_max_prior u_count t_us train
 *
 * A time of 0 in run stops the clock. Rates and alpha in their fixed point.
 */
#include "calc.h"

#include "abse.h"

static void calc_run(void)
{
	struct abse est = {};
	struct abse_ack ack = {};
	enum abse_outcome outcome;

	while (calc_next(&ack.now_us)) {
		if (!ack.now_us) {
			abse_stop(&est);
			continue;
		}
		ack.delivered = calc_arg();
		ack.cwnd = calc_arg();
		ack.rtt_us = calc_arg();
		ack.min_rtt_us = calc_arg();
		ack.gap_us = calc_arg();
		est.re_q8 = calc_arg();
		ack.slow = calc_arg();
		outcome = abse_update(&est, &ack);
		printf(" %u %u %u %u %u %u %u %u %u %u", outcome, est.bse_q8, est.th_q8,
		       est.s_q8, est.u_q8, est.u_max_q8, est.u_max_prior_q8,
		       est.u_count, est.t_us, est.train);
	}
	printf("\n");
}

static void calc_interval(void)
{
	u32 th_q8 = calc_arg(), cwnd = calc_arg(), rtt_us = calc_arg();

	printf("%u\n", abse_interval_us(th_q8, cwnd, rtt_us, calc_arg()));
}

static void calc_tau(void)
{
	u32 u_q8 = calc_arg(), u_max_q8 = calc_arg();

	printf("%u\n", abse_tau_us(u_q8, u_max_q8, calc_arg()));
}

bool calc_request(const char *name)
{
	u64 a, b;

	if (!strcmp(name, "run")) {
		calc_run();
		return true;
	}
	if (!strcmp(name, "interval")) {
		calc_interval();
		return true;
	}
	if (!strcmp(name, "tau")) {
		calc_tau();
		return true;
	}

	a = calc_arg();
	b = calc_arg();
	if (!strcmp(name, "rate"))
		printf("%u\n", abse_rate_q8(a, b));
	else if (!strcmp(name, "alpha"))
		printf("%u\n", abse_alpha_q20(a, b));
	else if (!strcmp(name, "filter"))
		printf("%u\n", abse_filter(a, b, calc_arg()));
	else if (!strcmp(name, "window"))
		printf("%u\n", abse_window(a, b));
	else
		return false;

	return true;
}
