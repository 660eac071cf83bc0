// SPDX-License-Identifier: GPL-2.0
/* seed N: make all later random numbers of the kernel depend on N only.
 *
 * The kernel's generator takes its key from the input pool.  So this program adds the number to the
 * pool, with enough credit for the generator to count as initialised, and forces a reseed.  It must
 * run before an experiment draws a random number.
 */
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct {
		struct rand_pool_info info;
		char text[64];
	} pool;
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: seed N\n");
		return 2;
	}
	memset(&pool, 0, sizeof(pool));
	snprintf(pool.text, sizeof(pool.text), "satcc seed %llu", strtoull(argv[1], NULL, 10));
	pool.info.buf_size = sizeof(pool.text);
	pool.info.entropy_count = 8 * sizeof(pool.text);
	fd = open("/dev/urandom", O_WRONLY);
	if (fd < 0 || ioctl(fd, RNDADDENTROPY, &pool) || ioctl(fd, RNDRESEEDCRNG)) {
		perror("seed");
		return 1;
	}
	return 0;
}
