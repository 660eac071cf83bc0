// SPDX-License-Identifier: GPL-2.0
/* sleep_until S: sleep until the guest's uptime is S seconds, so that the next step begins at the same
 * time whatever time the steps before it took.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
	struct timespec now, end = { 0 };

	if (argc != 2) {
		fprintf(stderr, "usage: sleep_until S\n");
		return 2;
	}
	end.tv_sec = strtol(argv[1], NULL, 10);
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec >= end.tv_sec) {
		fprintf(stderr, "sleep_until: it is later than %s s\n", argv[1]);
		return 1;
	}
	return !!clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
}
