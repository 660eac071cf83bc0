// SPDX-License-Identifier: GPL-2.0
/* fastopen: set a policy between a deferred Fast Open connect() and the first data.
 *
 * With TCP_FASTOPEN_CONNECT the SYN leaves with the first data, not at connect(). A
 * congestion control that is set in between is initialised at once; that of the route
 * (ip route ... congctl NAME) then replaces it.
 *
 *   fastopen HOST PORT CC SOCKETS BYTES
 *
 * It takes one socket after the other: connect, set CC ("-": none), send BYTES, and reset.
 * Unless SOCKETS is 1, it resets every second socket before the peer has acknowledged any
 * data. It prints one JSON line: the number of deferred connects, the congestion controls
 * that were set and in use, and these of the last socket: TCP_INFO and TCP_CC_INFO when all
 * data was acknowledged, the largest cwnd, the largest finite ssthresh, and the time.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SYN_SENT	2		/* tcpi_state */
#define INFINITE	0x7fffffff	/* TCP_INFINITE_SSTHRESH */
#define POLL_US		10000
#define CHUNK		16384

/* The values that are printed for the last socket; `deferred` counts all sockets. */
struct account {
	int deferred;
	char set[16];			/* congestion control before the first data */
	char used[16];			/* congestion control after it */
	struct tcp_info info;
	struct tcpvegas_info cc_info;
	socklen_t cc_info_bytes;
	unsigned int cwnd_max;
	unsigned int ssthresh_max;	/* largest finite ssthresh */
	long ms;
};

static const char chunk[CHUNK];

static void die(const char *what)
{
	fprintf(stderr, "fastopen: %s: %s\n", what, strerror(errno));
	exit(1);
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void set_option(int fd, int option, int value)
{
	if (setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value)))
		die("setsockopt");
}

static void look(int fd, struct account *account)
{
	socklen_t bytes = sizeof(account->info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &account->info, &bytes))
		die("TCP_INFO");
	account->cc_info_bytes = sizeof(account->cc_info);
	memset(&account->cc_info, 0, sizeof(account->cc_info));
	if (getsockopt(fd, IPPROTO_TCP, TCP_CC_INFO, &account->cc_info, &account->cc_info_bytes))
		die("TCP_CC_INFO");
	if (account->info.tcpi_snd_cwnd > account->cwnd_max)
		account->cwnd_max = account->info.tcpi_snd_cwnd;
	if (account->info.tcpi_snd_ssthresh < INFINITE &&
	    account->info.tcpi_snd_ssthresh > account->ssthresh_max)
		account->ssthresh_max = account->info.tcpi_snd_ssthresh;
}

static void congestion_control(int fd, char *name)
{
	socklen_t bytes = 16;

	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes))
		die("TCP_CONGESTION");
}

static void send_all(int fd, size_t bytes, struct account *account)
{
	while (bytes) {
		ssize_t sent = send(fd, chunk, bytes < CHUNK ? bytes : CHUNK, MSG_NOSIGNAL);

		if (sent < 0)
			die("send");
		bytes -= sent;
		look(fd, account);
	}
}

static void await_acks(int fd, struct account *account)
{
	int unacked = 1;

	while (unacked) {
		usleep(POLL_US);
		if (ioctl(fd, SIOCOUTQ, &unacked))
			die("SIOCOUTQ");
		look(fd, account);
		if (account->info.tcpi_state != 1)
			die("not established");
	}
}

static void one(const struct sockaddr_in *to, const char *cc, size_t bytes, int await,
		struct account *account)
{
	struct linger reset = { .l_onoff = 1 };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	long begun;

	if (fd < 0)
		die("socket");
	set_option(fd, TCP_FASTOPEN_CONNECT, 1);
	set_option(fd, TCP_FASTOPEN_NO_COOKIE, 1);
	begun = now_ms();
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		die("connect");
	look(fd, account);
	account->deferred += account->info.tcpi_state == SYN_SENT && !account->info.tcpi_segs_out;
	if (strcmp(cc, "-") && setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, strlen(cc)))
		die(cc);
	congestion_control(fd, account->set);
	/* Forget the window and ssthresh of the congestion control that the route's replaces. */
	account->cwnd_max = 0;
	account->ssthresh_max = 0;
	send_all(fd, bytes < 100 ? bytes : 100, account);
	congestion_control(fd, account->used);
	if (bytes > 100)
		send_all(fd, bytes - 100, account);
	if (await)
		await_acks(fd, account);
	account->ms = now_ms() - begun;
	if (setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)))
		die("SO_LINGER");
	close(fd);
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct account account = { 0 };
	int sockets;

	if (argc != 6 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
		fprintf(stderr, "usage: fastopen HOST PORT CC SOCKETS BYTES\n");
		return 2;
	}
	to.sin_port = htons(atoi(argv[2]));
	sockets = atoi(argv[4]);
	for (int i = 0; i < sockets; i++)
		one(&to, argv[3], strtoul(argv[5], NULL, 10), sockets == 1 || i % 2, &account);

	printf("{\"deferred\": %d, \"set\": \"%s\", \"used\": \"%s\", \"cwnd\": %u, \"ssthresh\": %u, "
	       "\"cwnd_max\": %u, \"ssthresh_max\": %u, \"retrans\": %u, \"acked\": %llu, "
	       "\"rtt_us\": %u, \"pacing_Bps\": %llu, \"cc_info_bytes\": %u, \"cc_info\": [%u, %u, %u, %u], "
	       "\"ms\": %ld}\n",
	       account.deferred, account.set, account.used, account.info.tcpi_snd_cwnd,
	       account.info.tcpi_snd_ssthresh, account.cwnd_max, account.ssthresh_max,
	       account.info.tcpi_total_retrans, account.info.tcpi_bytes_acked, account.info.tcpi_rtt,
	       account.info.tcpi_pacing_rate, account.cc_info_bytes, account.cc_info.tcpv_enabled,
	       account.cc_info.tcpv_rttcnt, account.cc_info.tcpv_rtt, account.cc_info.tcpv_minrtt,
	       account.ms);
	return 0;
}
