// SPDX-License-Identifier: GPL-2.0
/* flow: one TCP bulk transfer, with as few instructions as possible.
 *
 * In virtual time an instruction takes a nanosecond, and the wall time of a run depends on the number
 * of the guest's instructions, most of them per packet.  So the program uses blocking calls and large
 * writes, and its receiver has the kernel drop the bytes (MSG_TRUNC) instead of copying them.
 *
 *   flow recv PORT [mptcp]                accept for ever, discard the data
 *   flow send HOST PORT CC WHAT...        connect and send
 *   flow serve PORT CC WHAT...            accept one connection and send
 *   flow fetch HOST PORT FROM [fastopen]  connect from port FROM, discard the data
 *
 * WHAT: bytes N      send N bytes; wait until the peer has acknowledged them
 *       seconds S    send for S seconds, then reset the connection
 *       pause MS     send two halves, and wait MS ms between them (with bytes)
 *       write N MS   write N bytes every MS ms
 *       fastopen     send the first bytes in the SYN; serve: accept bytes in the SYN
 *       mptcp        use Multipath TCP (send)
 *       reconnect    when the peer has acknowledged all bytes, disconnect the socket, connect it
 *                    again, and send as many bytes once more (send with bytes)
 *       listener CC  give the listening socket this congestion control; the accepted socket gets the
 *                    flow's (serve)
 *
 * With CC "-" the socket keeps the congestion control of its route, the sysctl or its listener.  With
 * "a,b:2000" it starts with a, and the live socket changes to b after 2000 ms.  The sender prints one
 * JSON line: the congestion control in use, that of the socket when it was connected, and TCP_INFO at
 * the end, with the kernel's field names.
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

/* The arguments WHAT, see above. */
struct what {
	unsigned long long bytes;	/* 0: send for `seconds` */
	unsigned int seconds;
	long pause_ms;
	size_t write_bytes;		/* 0: write as fast as the socket accepts */
	long write_ms;
	int fastopen, mptcp, reconnect;
	const char *listener;		/* the listening socket's congestion control; NULL: the flow's */
};

static char first_cc[16];		/* congestion control of the socket when it was connected */

static void die(const char *what)
{
	fprintf(stderr, "flow: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void sleep_ms(long ms)
{
	struct timespec gap = { ms / 1000, ms % 1000 * 1000000L };

	nanosleep(&gap, NULL);
}

static void on_signal(int number)
{
	(void)number;
	over = 1;
}

static void discard(int fd)
{
	ssize_t n;

	/* A sender with `seconds` ends with a reset: this is no error. */
	while ((n = recv(fd, NULL, CHUNK, MSG_TRUNC)) > 0)
		;
	close(fd);
}

static int listen_on(const char *port, int protocol)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
	int fd = socket(AF_INET6, SOCK_STREAM, protocol);
	int on = 1;

	any.sin6_port = htons(atoi(port));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) || listen(fd, 1024))
		die("listen");
	return fd;
}

static int receive(const char *port, int protocol)
{
	int fd = listen_on(port, protocol);

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

static void get_cc(int fd, char name[16])
{
	socklen_t len = 15;

	getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len);
}

static void set_cc(int fd, const char *cc)
{
	if (strcmp(cc, "-") && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc)))
		die(cc);
}

/* Change the congestion control of a live socket at the given times.  A child process does this, so
 * that the sender can stay in its blocking calls; any process with the socket can set its options.
 * changes: names with ms since the connection, "b:2000,c:4000".
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

		if (!at || wait_ms < 0) {
			errno = EINVAL;
			die("changes");
		}
		*at = 0;
		sleep_ms(wait_ms);
		now_ms += wait_ms;
		set_cc(fd, one);
	}
	_exit(0);
}

/* Store an IPv4 or IPv6 address and a port; return the length of the address structure. */
static socklen_t address(const char *host, const char *port, struct sockaddr_storage *to)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)to;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

	memset(to, 0, sizeof(*to));
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(atoi(port));
		return sizeof(*v4);
	}
	if (inet_pton(AF_INET6, host, &v6->sin6_addr) != 1) {
		errno = EINVAL;
		die(host);
	}
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(atoi(port));
	return sizeof(*v6);
}

/* cc, from (the local port): NULL for the default. */
static int connect_to(const char *host, const char *port, const char *cc, const char *from,
		      int fastopen, int protocol)
{
	struct sockaddr_storage to, local;
	socklen_t len = address(host, port, &to);
	int fd = socket(to.ss_family, SOCK_STREAM, protocol);

	if (fd < 0)
		die("socket");
	if (cc)
		set_cc(fd, cc);
	if (from) {
		address(to.ss_family == AF_INET ? "0.0.0.0" : "::", from, &local);
		if (bind(fd, (struct sockaddr *)&local, len))
			die("bind");
	}
	/* The kernel then sends the SYN with the first write. */
	if (fastopen && setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &fastopen, sizeof(int)))
		die("fastopen");
	if (connect(fd, (struct sockaddr *)&to, len))
		die("connect");
	return fd;
}

/* Reset a socket's connection, and connect the same socket again. */
static void reconnect(int fd, const char *host, const char *port)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct sockaddr_storage to;
	socklen_t len = address(host, port, &to);

	if (connect(fd, &none, sizeof(none)))
		die("disconnect");
	if (connect(fd, (struct sockaddr *)&to, len))
		die("connect");
}

/* Accept one connection and read its request, one byte. */
static int accept_one(const char *port, const char *cc, const struct what *what)
{
	int listener = listen_on(port, 0), fd, queue = 16;
	char request;

	set_cc(listener, what->listener ? what->listener : cc);
	if (what->fastopen && setsockopt(listener, IPPROTO_TCP, TCP_FASTOPEN, &queue, sizeof(queue)))
		die("fastopen");
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		die("accept");
	close(listener);
	get_cc(fd, first_cc);
	if (what->listener)
		set_cc(fd, cc);
	if (recv(fd, &request, 1, 0) != 1)
		die("request");
	return fd;
}

static int fetch(int argc, char **argv)
{
	int fd = connect_to(argv[2], argv[3], NULL, argv[4], argc == 6, 0);

	if (send(fd, chunk, 1, MSG_NOSIGNAL) != 1)
		die("request");
	discard(fd);
	return 0;
}

static void report(int fd)
{
	char cc[16] = "";
	struct tcp_info i = { 0 };
	union tcp_cc_info info = { 0 };
	socklen_t len = sizeof(i), info_len = sizeof(info);

	get_cc(fd, cc);
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len))
		die("TCP_INFO");
	getsockopt(fd, IPPROTO_TCP, TCP_CC_INFO, &info, &info_len);
	if (info_len == sizeof(info.vegas))
		printf("{\"vegas\":{\"enabled\":%u,\"rttcnt\":%u,\"rtt\":%u,\"minrtt\":%u},",
		       info.vegas.tcpv_enabled, info.vegas.tcpv_rttcnt, info.vegas.tcpv_rtt,
		       info.vegas.tcpv_minrtt);
	else
		printf("{");
	printf("\"cc\":\"%s\",\"first_cc\":\"%s\",\"options\":%u,\"snd_mss\":%u,\"rtt\":%u,\"min_rtt\":%u,"
	       "\"snd_cwnd\":%u,\"snd_ssthresh\":%u,\"total_retrans\":%u,\"bytes_acked\":%llu,"
	       "\"bytes_sent\":%llu,\"bytes_retrans\":%llu,\"segs_in\":%u,\"segs_out\":%u,"
	       "\"data_segs_out\":%u,"
	       "\"delivered\":%u,\"delivered_ce\":%u,\"reord_seen\":%u,\"dsack_dups\":%u,"
	       "\"busy_time\":%llu,\"rwnd_limited\":%llu,\"sndbuf_limited\":%llu}\n",
	       cc, first_cc, i.tcpi_options, i.tcpi_snd_mss, i.tcpi_rtt, i.tcpi_min_rtt, i.tcpi_snd_cwnd,
	       i.tcpi_snd_ssthresh, i.tcpi_total_retrans, i.tcpi_bytes_acked, i.tcpi_bytes_sent,
	       i.tcpi_bytes_retrans, i.tcpi_segs_in, i.tcpi_segs_out, i.tcpi_data_segs_out,
	       i.tcpi_delivered,
	       i.tcpi_delivered_ce, i.tcpi_reord_seen, i.tcpi_dsack_dups, i.tcpi_busy_time,
	       i.tcpi_rwnd_limited, i.tcpi_sndbuf_limited);
	fflush(stdout);
}

/* Send until `limit` bytes are written, or until a signal. */
static void push(int fd, unsigned long long limit, const struct what *what)
{
	size_t most = what->write_bytes ? what->write_bytes : CHUNK;
	unsigned long long sent = 0;

	while (sent < limit && !over) {
		size_t want = limit - sent < most ? limit - sent : most;
		ssize_t n = send(fd, chunk, want, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			die("send");
		if (n > 0)
			sent += n;
		if (what->write_ms && !over)
			sleep_ms(what->write_ms);
	}
}

/* Wait until the peer has acknowledged all bytes.  With an earlier FIN the socket would leave
 * ESTABLISHED while data is in flight, and the kernel's tcp_probe event would not show it any more.
 */
static void drain(int fd)
{
	int unacked = 1;

	while (!over && !ioctl(fd, SIOCOUTQ, &unacked) && unacked)
		sleep_ms(100);
}

static void usage(void)
{
	fprintf(stderr, "usage: flow recv PORT [mptcp] | flow fetch HOST PORT FROM [fastopen]\n"
		"       flow send HOST PORT CC WHAT | flow serve PORT CC WHAT\n"
		"WHAT: bytes N | seconds S  [pause MS] [write N MS] [fastopen] [mptcp] [reconnect]\n"
		"      [listener CC]\n");
	exit(2);
}

static struct what parse(char **word)
{
	struct what what = { 0 };

	for (; *word; word++) {
		if (!strcmp(*word, "fastopen")) {
			what.fastopen = 1;
			continue;
		}
		if (!strcmp(*word, "mptcp")) {
			what.mptcp = 1;
			continue;
		}
		if (!strcmp(*word, "reconnect")) {
			what.reconnect = 1;
			continue;
		}
		if (!word[1])
			usage();
		if (!strcmp(*word, "bytes"))
			what.bytes = strtoull(*++word, NULL, 10);
		else if (!strcmp(*word, "seconds"))
			what.seconds = atoi(*++word);
		else if (!strcmp(*word, "pause"))
			what.pause_ms = atol(*++word);
		else if (!strcmp(*word, "listener"))
			what.listener = *++word;
		else if (!strcmp(*word, "write") && word[2]) {
			what.write_bytes = strtoull(*++word, NULL, 10);
			what.write_ms = atol(*++word);
		} else
			usage();
	}
	if (!what.bytes == !what.seconds || what.write_bytes > CHUNK)
		usage();
	return what;
}

static int send_flow(char **argv)
{
	struct sigaction act = { .sa_handler = on_signal };	/* no SA_RESTART: break the call */
	struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	int active = !strcmp(argv[1], "send");
	char *cc = argv[active ? 4 : 3];
	struct what what = parse(argv + (active ? 5 : 4));
	char *changes = strchr(cc, ',');
	int status = 0;
	pid_t child;
	int fd;

	if (changes)
		*changes++ = 0;
	sigaction(SIGALRM, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	if (active) {
		fd = connect_to(argv[2], argv[3], cc, NULL, what.fastopen,
				what.mptcp ? IPPROTO_MPTCP : 0);
		get_cc(fd, first_cc);
	} else {
		fd = accept_one(argv[2], cc, &what);
	}
	child = change_later(fd, changes);
	if (what.seconds) {
		alarm(what.seconds);
		push(fd, ~0ULL, &what);
	} else {
		if (what.pause_ms) {
			push(fd, what.bytes / 2, &what);
			drain(fd);
			sleep_ms(what.pause_ms);
			what.bytes -= what.bytes / 2;
		}
		push(fd, what.bytes, &what);
		drain(fd);
		if (what.reconnect) {
			reconnect(fd, argv[2], argv[3]);
			push(fd, what.bytes, &what);
			drain(fd);
		}
		reset.l_onoff = 0;
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
		return receive(argv[2], 0);
	if (argc == 4 && !strcmp(argv[1], "recv") && !strcmp(argv[3], "mptcp"))
		return receive(argv[2], IPPROTO_MPTCP);
	if ((argc == 5 || (argc == 6 && !strcmp(argv[5], "fastopen"))) && !strcmp(argv[1], "fetch"))
		return fetch(argc, argv);
	if ((argc >= 7 && !strcmp(argv[1], "send")) || (argc >= 6 && !strcmp(argv[1], "serve")))
		return send_flow(argv);
	usage();
}
