// SPDX-License-Identifier: GPL-2.0
/* flow: one TCP bulk transfer with as few instructions as it can be had.
 *
 * In virtual time an instruction is a nanosecond and the wall time of a run is
 * the guest's instructions, most of them spent per packet.  So: blocking calls,
 * large writes, and a receiver that lets the kernel drop the bytes (MSG_TRUNC)
 * in place of copying them.
 *
 *   flow recv PORT                    accept for ever, discard what comes
 *   flow send HOST PORT CC bytes N [MS]   send N bytes, wait until the peer has them;
 *                                     with MS, in two halves that many ms apart
 *   flow send HOST PORT CC seconds S  send for S seconds, then reset
 *
 * With CC "-" the socket keeps what its route or the sysctl gives it; "a,b:2000"
 * starts with a and changes the live socket to b after 2000 ms.  The sender prints one JSON line: the congestion control in use, and TCP_INFO at
 * the end, with the kernel's own field names.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (256 * 1024)

static char chunk[CHUNK];
static volatile sig_atomic_t over;

static void die(const char *what)
{
	fprintf(stderr, "flow: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void on_signal(int number)
{
	(void)number;
	over = 1;
}

static void discard(int fd)
{
	ssize_t n;

	/* A timed sender ends with a reset, which is no failure here. */
	while ((n = recv(fd, NULL, CHUNK, MSG_TRUNC)) > 0)
		;
	close(fd);
}

static int receive(const char *port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	int on = 1;

	any.sin6_port = htons(atoi(port));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) || listen(fd, 1024))
		die("listen");
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int peer = accept(fd, NULL, NULL);

		if (peer < 0)
			die("accept");
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(fd);
			discard(peer);
			_exit(0);
		}
		close(peer);
	}
}

static void set_cc(int fd, const char *cc)
{
	if (strcmp(cc, "-") && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc)))
		die(cc);
}

/* Change the congestion control of a live socket at the given times.  In a child, so that
 * the sender goes on in its blocking calls: a socket's options do not care who sets them.
 * changes: "b:2000,c:4000", names with ms since the connection.
 */
static pid_t change_later(int fd, char *changes)
{
	long now_ms = 0;
	pid_t child;

	if (!changes)
		return 0;
	child = fork();
	if (child)
		return child;
	for (char *one = strtok(changes, ","); one; one = strtok(NULL, ",")) {
		char *at = strchr(one, ':');
		long wait_ms = at ? atol(at + 1) - now_ms : 0;
		struct timespec gap = { wait_ms / 1000, wait_ms % 1000 * 1000000L };

		if (!at || wait_ms < 0) {
			errno = EINVAL;
			die("changes");
		}
		*at = 0;
		nanosleep(&gap, NULL);
		now_ms += wait_ms;
		set_cc(fd, one);
	}
	_exit(0);
}

static int connect_to(const char *host, const char *port, const char *cc)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(atoi(port)) };
	int is_v4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;
	int fd;

	if (!is_v4 && inet_pton(AF_INET6, host, &v6.sin6_addr) != 1) {
		errno = EINVAL;
		die(host);
	}
	fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM, 0);
	if (fd < 0)
		die("socket");
	set_cc(fd, cc);
	if (is_v4 ? connect(fd, (struct sockaddr *)&v4, sizeof(v4)) :
		    connect(fd, (struct sockaddr *)&v6, sizeof(v6)))
		die("connect");
	return fd;
}

static void report(int fd)
{
	char cc[16] = "";
	struct tcp_info i = { 0 };
	union tcp_cc_info info = { 0 };
	socklen_t len = sizeof(cc) - 1, info_len = sizeof(info);

	getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, &len);
	len = sizeof(i);
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len))
		die("TCP_INFO");
	getsockopt(fd, IPPROTO_TCP, TCP_CC_INFO, &info, &info_len);
	if (info_len == sizeof(info.vegas))
		printf("{\"vegas\":{\"enabled\":%u,\"rttcnt\":%u,\"rtt\":%u,\"minrtt\":%u},",
		       info.vegas.tcpv_enabled, info.vegas.tcpv_rttcnt, info.vegas.tcpv_rtt,
		       info.vegas.tcpv_minrtt);
	else
		printf("{");
	printf("\"cc\":\"%s\",\"options\":%u,\"snd_mss\":%u,\"rtt\":%u,\"min_rtt\":%u,"
	       "\"snd_cwnd\":%u,\"snd_ssthresh\":%u,\"total_retrans\":%u,\"bytes_acked\":%llu,"
	       "\"bytes_sent\":%llu,\"bytes_retrans\":%llu,\"segs_out\":%u,\"data_segs_out\":%u,"
	       "\"delivered\":%u,\"delivered_ce\":%u,\"reord_seen\":%u,\"dsack_dups\":%u,"
	       "\"busy_time\":%llu,\"rwnd_limited\":%llu,\"sndbuf_limited\":%llu}\n",
	       cc, i.tcpi_options, i.tcpi_snd_mss, i.tcpi_rtt, i.tcpi_min_rtt, i.tcpi_snd_cwnd,
	       i.tcpi_snd_ssthresh, i.tcpi_total_retrans, i.tcpi_bytes_acked, i.tcpi_bytes_sent,
	       i.tcpi_bytes_retrans, i.tcpi_segs_out, i.tcpi_data_segs_out, i.tcpi_delivered,
	       i.tcpi_delivered_ce, i.tcpi_reord_seen, i.tcpi_dsack_dups, i.tcpi_busy_time,
	       i.tcpi_rwnd_limited, i.tcpi_sndbuf_limited);
	fflush(stdout);
}

/* Send until `limit` bytes are written or a signal says stop. */
static void push(int fd, unsigned long long limit)
{
	unsigned long long sent = 0;

	while (sent < limit && !over) {
		size_t want = limit - sent < CHUNK ? limit - sent : CHUNK;
		ssize_t n = send(fd, chunk, want, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			die("send");
		if (n > 0)
			sent += n;
	}
}

/* Wait until the peer has acknowledged all.  A FIN sent earlier would take the socket out of
 * ESTABLISHED while data is under way, where the kernel's tcp_probe event no longer sees it.
 */
static void drain(int fd)
{
	const struct timespec gap = { .tv_nsec = 100 * 1000 * 1000 };
	int unacked = 1;

	while (!over && !ioctl(fd, SIOCOUTQ, &unacked) && unacked)
		nanosleep(&gap, NULL);
}

static int send_flow(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = on_signal };	/* no SA_RESTART: break the call */
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	unsigned long long amount = strtoull(argv[6], NULL, 10);
	char *changes = strchr(argv[4], ',');
	int status = 0;
	pid_t child;
	int fd;

	if (changes)
		*changes++ = 0;
	sigaction(SIGALRM, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	fd = connect_to(argv[2], argv[3], argv[4]);
	child = change_later(fd, changes);
	if (!strcmp(argv[5], "bytes")) {
		if (argc == 8) {
			struct timespec pause = { atoi(argv[7]) / 1000,
						  atoi(argv[7]) % 1000 * 1000000L };

			push(fd, amount / 2);
			drain(fd);
			nanosleep(&pause, NULL);
			amount -= amount / 2;
		}
		push(fd, amount);
		drain(fd);
		reset.l_onoff = 0;
	} else if (!strcmp(argv[5], "seconds")) {
		alarm(amount);
		push(fd, ~0ULL);
	} else {
		errno = EINVAL;
		die(argv[5]);
	}
	if (child && (waitpid(child, &status, 0) != child || status)) {
		fprintf(stderr, "flow: a change of congestion control failed\n");
		return 1;
	}
	report(fd);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "recv"))
		return receive(argv[2]);
	if ((argc == 7 || argc == 8) && !strcmp(argv[1], "send"))
		return send_flow(argc, argv);
	fprintf(stderr, "usage: flow recv PORT | flow send HOST PORT CC bytes|seconds N [MS]\n");
	return 2;
}
