/* SPDX-License-Identifier: GPL-2.0 */
/* The frame of a calculator around headers of the kernel code: one request per
 * line on stdin, one line of results on stdout, all in decimal. A request it does
 * not know, or cut short, ends it with status 2.
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

/* Answer a request: take its arguments, print the results. False: not known. */
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

int main(void)
{
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, stdin) > 0) {
		const char *name = strtok(line, "\n ");

		alarm(60);	/* a loop without end is to fail, not to hang */
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
