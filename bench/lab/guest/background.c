// SPDX-License-Identifier: GPL-2.0
/* background: many short transfers, each on its own connection.
 *
 *   background HOST PORT CC < ARRIVALS
 *
 * A line of ARRIVALS has a gap in seconds and a size in bytes: a transfer of this size begins this long
 * after the start of the one before, even if others are still under way.  A transfer ends when the peer
 * has closed, the program ends when all transfers have.  Each successful transfer prints a JSON line
 * with its congestion control.
 *
 * One program does all transfers: starting a program would cost more than a transfer's packets.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

static char chunk[CHUNK];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void transfer(const struct sockaddr *to, socklen_t len, const char *cc, long size)
{
	int fd = socket(to->sa_family, SOCK_STREAM, 0);
	char used[16] = "";
	socklen_t used_len = sizeof(used) - 1;

	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc)))
		die(cc);
	if (connect(fd, to, len))
		die("background: connect");
	while (size > 0) {
		ssize_t n = send(fd, chunk, size < CHUNK ? size : CHUNK, MSG_NOSIGNAL);

		if (n < 0)
			die("background: send");
		size -= n;
	}
	/* The peer sends no data: recv() waits for its close. */
	if (shutdown(fd, SHUT_WR) || recv(fd, chunk, 1, 0))
		die("background: close");
	/* A route may have set another congestion control. */
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, used, &used_len) ||
	    dprintf(STDOUT_FILENO, "{\"cc\":\"%s\"}\n", used) < 0)
		die("background: report");
}

int main(int argc, char **argv)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	double gap;
	int failed = 0, status, is_v4;
	long size;

	if (argc != 4) {
		fprintf(stderr, "usage: background HOST PORT CC < ARRIVALS\n");
		return 2;
	}
	is_v4 = inet_pton(AF_INET, argv[1], &v4.sin_addr) == 1;
	if (!is_v4 && inet_pton(AF_INET6, argv[1], &v6.sin6_addr) != 1) {
		fprintf(stderr, "background: no address: %s\n", argv[1]);
		return 2;
	}
	v4.sin_port = htons(atoi(argv[2]));
	v6.sin6_port = v4.sin_port;
	while (scanf("%lf %ld", &gap, &size) == 2) {
		struct timespec wait = { gap, (gap - (time_t)gap) * 1e9 };
		pid_t child;

		nanosleep(&wait, NULL);
		while (waitpid(-1, &status, WNOHANG) > 0)
			failed |= status;
		child = fork();
		if (child < 0)
			die("background: fork");
		if (child == 0) {
			if (is_v4)
				transfer((struct sockaddr *)&v4, sizeof(v4), argv[3], size);
			else
				transfer((struct sockaddr *)&v6, sizeof(v6), argv[3], size);
			_exit(0);
		}
	}
	while (wait(&status) > 0)
		failed |= status;
	return !!failed;
}
