// SPDX-License-Identifier: GPL-2.0
/* probe: send UDP packets at known times, to measure the delay and loss of a link.
 *
 *   probe send HOST PORT COUNT BYTES GAP_NS ...    send one train after the other: COUNT packets of
 *                                                  BYTES of IP, one every GAP_NS
 *   probe recv PORT FILE                           receive until SIGTERM, then write FILE
 *
 * FILE has a record for each received packet, in the order of arrival and the machine's byte order:
 * number, time sent, time received, bytes.  Times are ns of CLOCK_REALTIME; the second is the kernel's
 * time stamp.  IPv4 only.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S	1000000000LL
#define HEADER_BYTES	28		/* IPv4 and UDP */
#define MOST_BYTES	1500
#define BUFFER_BYTES	(32 << 20)

struct packet {
	int64_t number, sent_ns;
};

struct record {
	int64_t number, sent_ns, received_ns, bytes;
};

static volatile sig_atomic_t over;

static void die(const char *what)
{
	fprintf(stderr, "probe: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void on_signal(int number)
{
	(void)number;
	over = 1;
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int open_socket(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0), size = BUFFER_BYTES;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		die("socket");
	return fd;
}

static int send_trains(const char *host, const char *port, char **train)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	struct sched_param first = { .sched_priority = 1 };
	static char bytes[MOST_BYTES];
	struct packet packet = { 0 };
	int fd = open_socket();
	int64_t at;

	if (inet_pton(AF_INET, host, &to.sin_addr) != 1 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die(host);
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		die("SCHED_FIFO");
	at = clock_ns(CLOCK_MONOTONIC) + 1000000;
	for (; train[0] && train[1] && train[2]; train += 3) {
		int64_t count = atoll(train[0]), size = atoll(train[1]) - HEADER_BYTES, gap = atoll(train[2]);

		if (size < (int64_t)sizeof(packet) || size > MOST_BYTES - HEADER_BYTES) {
			errno = EINVAL;
			die("bytes");
		}
		for (; count > 0; count--) {
			struct timespec when = { at / NS_PER_S, at % NS_PER_S };

			if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL))
				die("sleep");
			packet.sent_ns = clock_ns(CLOCK_REALTIME);
			memcpy(bytes, &packet, sizeof(packet));
			if (send(fd, bytes, size, 0) != size)
				die("send");
			packet.number++;
			at += gap;
		}
	}
	/* The exit of this process keeps the kernel busy: let the last packet leave first. */
	usleep(1000);
	return 0;
}

static int64_t stamp_of(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
			struct timespec stamp;

			memcpy(&stamp, CMSG_DATA(c), sizeof(stamp));
			return stamp.tv_sec * NS_PER_S + stamp.tv_nsec;
		}
	}
	errno = ENODATA;
	die("time stamp");
	return 0;
}

static int receive(const char *port, const char *name)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	struct sigaction act = { .sa_handler = on_signal };	/* no SA_RESTART: break the call */
	FILE *file = fopen(name, "w");
	int fd = open_socket(), on = 1;

	if (!file)
		die(name);
	sigaction(SIGTERM, &act, NULL);
	if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&any, sizeof(any)))
		die("bind");
	while (!over) {
		struct packet packet;
		char control[CMSG_SPACE(sizeof(struct timespec))];
		struct iovec part = { &packet, sizeof(packet) };
		struct msghdr message = {
			.msg_iov = &part, .msg_iovlen = 1,
			.msg_control = control, .msg_controllen = sizeof(control),
		};
		ssize_t n = recvmsg(fd, &message, MSG_TRUNC);	/* returns the packet's whole length */
		struct record record;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < (ssize_t)sizeof(packet))
			die("receive");
		record.number = packet.number;
		record.sent_ns = packet.sent_ns;
		record.received_ns = stamp_of(&message);
		record.bytes = n + HEADER_BYTES;
		if (fwrite(&record, sizeof(record), 1, file) != 1)
			die(name);
	}
	if (fclose(file))
		die(name);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 7 && argc % 3 == 1 && !strcmp(argv[1], "send"))
		return send_trains(argv[2], argv[3], argv + 4);
	if (argc == 4 && !strcmp(argv[1], "recv"))
		return receive(argv[2], argv[3]);
	fprintf(stderr, "usage: probe send HOST PORT COUNT BYTES GAP_NS ... | probe recv PORT FILE\n");
	return 2;
}
