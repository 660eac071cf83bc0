// SPDX-License-Identifier: GPL-2.0
/* read_job: write the emulator's file opt/satcc/job to standard output.
 *
 * The emulator's fw_cfg device hands out a file byte by byte, from its start. The kernel's
 * driver reads one page at a time, and for each page it skips all bytes before that page.
 * Its time is quadratic in the file's size: 2 MB took more than a minute. This program
 * reads the file once. Ports and directory: QEMU, docs/specs/fw_cfg.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/io.h>

#define SELECTOR	0x510
#define DATA		0x511
#define DIRECTORY	0x19

struct entry {		/* numbers are big endian */
	uint32_t size;
	uint16_t selector;
	uint16_t reserved;
	char name[56];
};

static void read_data(void *to, uint32_t bytes)
{
	insb(DATA, to, bytes);
}

int main(void)
{
	static char block[1 << 16];
	uint32_t entries, left, bytes;
	struct entry file;

	if (iopl(3)) {
		perror("read_job: iopl");
		return 1;
	}
	outw(DIRECTORY, SELECTOR);
	read_data(&entries, sizeof(entries));
	for (entries = ntohl(entries); entries; entries--) {
		read_data(&file, sizeof(file));
		if (!strncmp(file.name, "opt/satcc/job", sizeof(file.name)))
			break;
	}
	if (!entries) {
		fprintf(stderr, "read_job: the emulator has no opt/satcc/job\n");
		return 1;
	}
	outw(ntohs(file.selector), SELECTOR);
	for (left = ntohl(file.size); left; left -= bytes) {
		bytes = left < sizeof(block) ? left : sizeof(block);
		read_data(block, bytes);
		if (fwrite(block, 1, bytes, stdout) != bytes)
			return 1;
	}
	return fflush(stdout) ? 1 : 0;
}
