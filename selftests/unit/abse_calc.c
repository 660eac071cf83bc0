// SPDX-License-Identifier: GPL-2.0
/* The arithmetic of westwood_abse/abse.h as a calculator, see calc.h.
 *
 *   rate pkts us                                  -> segments/s
 *   interval th cwnd rtt_us min_rtt_us t_min_us   -> T
 *   tau u u_max rtt_us tau_n                      -> tau
 *   alpha tau_us dt_us                            -> alpha
 *   filter bse s alpha                            -> bse
 *   window bse min_rtt_us                         -> segments
 *   run tau_n t_min_div history astart [now_us delivered cwnd rtt_us min_rtt_us]...
 *                                                 -> an outcome for each ACK, and
 *                                                    all of struct abse_sample and
 *                                                    the window if it is not NONE
 *
 * A time of 0 in run stops the clock. Rates and alpha in their fixed point.
 */
#include "calc.h"

#include "abse.h"

static void print_sample(const struct abse_sample *sample, u32 min_rtt_us)
{
	printf(" %u %u %u %u %u %u %u %u %llu %llu %llu %llu %llu %llu %llu %u %u %llu %llu %llu %u",
	       sample->dt_us, sample->pkts, sample->age_us, sample->rtt_us,
	       sample->t_us, sample->t_next_us, sample->re_pkts,
	       sample->re_window_us, sample->th_old_q16, sample->th_q16,
	       sample->s_old_q16, sample->s_q16, sample->u_old_q16,
	       sample->u_q16, sample->u_max_q16, sample->tau_us,
	       sample->alpha_q20, sample->bse_old_q16, sample->bse_q16,
	       sample->re_q16, abse_window(max_t(u64, sample->bse_q16, sample->re_q16),
					   min_rtt_us));
}

static void calc_run(void)
{
	struct abse est = {};
	struct abse_history history = {}, *hist;
	struct abse_ack ack = {};
	struct abse_sample sample;
	u8 outcome;

	ack.tau_n = calc_arg();
	ack.t_min_div = calc_arg();
	hist = calc_arg() ? &history : NULL;
	ack.astart = calc_arg();
	while (calc_next(&ack.now_us)) {
		if (!ack.now_us) {
			abse_stop(&est);
			continue;
		}
		ack.delivered = calc_arg();
		ack.cwnd = calc_arg();
		ack.rtt_us = calc_arg();
		ack.min_rtt_us = calc_arg();
		outcome = abse_update(&est, hist, &ack, &sample);
		printf(" %u", outcome);
		if (outcome != ABSE_NONE)
			print_sample(&sample, ack.min_rtt_us);
	}
	printf("\n");
}

static void calc_interval(void)
{
	u64 th_q16 = calc_arg();
	u32 cwnd = calc_arg(), rtt_us = calc_arg(), min_rtt_us = calc_arg();

	printf("%u\n", abse_interval_us(th_q16, cwnd, rtt_us, min_rtt_us, calc_arg()));
}

static void calc_tau(void)
{
	u64 u_q16 = calc_arg(), u_max_q16 = calc_arg();
	u32 rtt_us = calc_arg();

	printf("%u\n", abse_tau_us(u_q16, u_max_q16, rtt_us, calc_arg()));
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
		printf("%llu\n", abse_rate_q16(a, b));
	else if (!strcmp(name, "alpha"))
		printf("%u\n", abse_alpha_q20(a, b));
	else if (!strcmp(name, "filter"))
		printf("%llu\n", abse_filter(a, b, calc_arg()));
	else if (!strcmp(name, "window"))
		printf("%u\n", abse_window(a, b));
	else
		return false;

	return true;
}
