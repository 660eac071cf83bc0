/* SPDX-License-Identifier: GPL-2.0 */
/* The main program of a calculator for headers of the kernel code. It reads one request
 * per line from stdin and prints one line of results, all in decimal. An unknown or
 * truncated request ends it with status 2.
 *
 * Included by NAME_calc.c, which defines calc_request().
 */
#ifndef _UNIT_CALC_H
#define _UNIT_CALC_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/types.h>

/* Read the arguments of a request and print its results. Returns false if it is unknown. */
bool calc_request(const char *name);

static inline bool calc_next(u64 *value)
{
	char *word = strtok(NULL, "\n ");

	if (!word)
		return false;
	*value = strtoull(word, NULL, 10);

	return true;
}

static inline u64 calc_arg(void)
{
	u64 value;

	if (!calc_next(&value)) {
		fprintf(stderr, "calc: argument missing\n");
		exit(2);
	}

	return value;
}

/* Grow the window in congestion avoidance by an ACK of acked segments. step: the policy's
 * function. Returns the window.
 */
typedef u32 (*calc_growth)(u64 *credit, u32 cwnd, u64 step, u32 acked);

/* Compare one ACK of n segments with n ACKs of one, for all windows of 1 .. cwnds and n of
 * 1 .. ackeds. Print how many pairs differ in window or credit, and the last such pair.
 */
static inline void calc_merge(calc_growth grow, u64 step)
{
	u32 cwnds = calc_arg(), ackeds = calc_arg();
	u32 different = 0, at_cwnd = 0, at_acked = 0;

	for (u32 first = 1; first <= cwnds; first++) {
		u64 ones = 0, credit;
		u32 cwnd = first, merged;

		for (u32 acked = 1; acked <= ackeds; acked++) {
			cwnd = grow(&ones, cwnd, step, 1);
			credit = 0;
			merged = grow(&credit, first, step, acked);
			if (merged == cwnd && credit == ones)
				continue;
			different++;
			at_cwnd = first;
			at_acked = acked;
		}
	}
	printf("%u %u %u\n", different, at_cwnd, at_acked);
}

int main(void)
{
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, stdin) > 0) {
		const char *name = strtok(line, "\n ");

		alarm(60);	/* make an endless loop fail instead of hang */
		if (!name || !calc_request(name)) {
			fprintf(stderr, "calc: unknown request\n");
			return 2;
		}
		alarm(0);
		fflush(stdout);
	}
	free(line);

	return 0;
}

#endif
