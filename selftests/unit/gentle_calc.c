// SPDX-License-Identifier: GPL-2.0
/* The arithmetic of hybla/gentle.h as a calculator, see calc.h.
 *
 *   avoid cwnd limit avoid_q16 rho_q16 b queue acked        -> cwnd avoid_q16
 *   queue path_rtt_us [0 rtt_us snd_nxt | 1 ack 0]...       -> shows...
 *
 * queue takes any number of RTT samples (0) and ACKs (1), and prints after each ACK
 * whether there is a queue.
 */
#include "calc.h"

#include "gentle.h"

static void calc_avoid(void)
{
	u32 cwnd = calc_arg(), limit = calc_arg();
	struct hybla_credit credit = { .avoid_q16 = calc_arg() };
	u32 rho_q16 = calc_arg(), b = calc_arg(), queue = calc_arg();

	cwnd = hybla_avoid_gently(&credit, cwnd, limit, rho_q16, calc_arg(), b, queue);
	printf("%u %llu\n", cwnd, credit.avoid_q16);
}

static void calc_queue(void)
{
	u32 path_rtt_us = calc_arg(), value;
	struct hybla_queue queue = {};
	u64 is_ack;

	while (calc_next(&is_ack)) {
		value = calc_arg();
		if (is_ack) {
			calc_arg();
			hybla_queue_ack(&queue, value, path_rtt_us);
			printf("%u ", queue.shows);
		} else {
			hybla_queue_sample(&queue, value, calc_arg());
		}
	}
	printf("\n");
}

bool calc_request(const char *name)
{
	if (!strcmp(name, "avoid"))
		calc_avoid();
	else if (!strcmp(name, "queue"))
		calc_queue();
	else
		return false;

	return true;
}
