// SPDX-License-Identifier: GPL-2.0
/* delayed_acks PID...: have the connections that processes accept delay their ACKs from the start.
 *
 * Linux acknowledges the first segments of a connection one by one; the hosts of older papers did
 * not, and a slow start that counts ACKs goes by them.  TCP_QUICKACK=0 ends that for a socket, and
 * one that listens passes it on to what it accepts, so this sets it on the listening sockets of
 * programs that know nothing of it; each has to have one.  A delayed ACK that its timer sends sets a
 * connection back to the kernel's own ways.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS	16		/* the programs asked have few files open */

static int is_listening(int fd)
{
	int yes = 0;
	socklen_t len = sizeof(yes);

	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &len) && yes;
}

/* How many sockets of a process were set. */
static int set_all(pid_t pid)
{
	int process = syscall(SYS_pidfd_open, pid, 0);
	int off = 0, count = 0;

	if (process < 0)
		return 0;
	for (int number = 0; number < FDS; number++) {
		int fd = syscall(SYS_pidfd_getfd, process, number, 0);

		if (fd < 0)
			continue;
		if (is_listening(fd) && !setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off)))
			count++;
		close(fd);
	}
	close(process);
	return count;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: delayed_acks PID...\n");
		return 2;
	}
	for (int i = 1; i < argc; i++) {
		if (!set_all(atoi(argv[i]))) {
			fprintf(stderr, "delayed_acks: process %s has no listening socket to set\n", argv[i]);
			return 1;
		}
	}
	return 0;
}
