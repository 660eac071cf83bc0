// SPDX-License-Identifier: GPL-2.0
/* delayed_acks PID...: the connections that these processes accept delay their ACKs from the start.
 *
 * Linux acknowledges the first segments of a connection one by one.  The hosts of older papers did
 * not, and a slow start that counts ACKs depends on it.  TCP_QUICKACK=0 makes a socket delay ACKs, and
 * an accepted socket inherits it from the listening one.  So this program sets it on the listening
 * sockets of other programs; each of these must have one.  When the delayed-ACK timer sends an ACK,
 * the kernel resets the connection to its default.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS	16		/* the programs have few open files */

static int is_listening(int fd)
{
	int yes = 0;
	socklen_t len = sizeof(yes);

	return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &len) && yes;
}

/* Set TCP_QUICKACK=0 on the listening sockets of a process; return their number. */
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
