// SPDX-License-Identifier: GPL-2.0
/* satlink: play one direction of a satellite link, with the parts that no qdisc has.
 *
 *   satlink DEV [seed N] [own IN_NS OUT_NS] [merge NS BYTES]
 *           [delay NS | steps AT:NS,AT:NS...]
 *           [ber P | gilbert GOOD_NS BAD_NS P_GOOD P_BAD | frames BYTES NS P]
 *           [slots SUPERFRAME_NS MULTIFRAMES SLOTS SLOT_BYTES STATIC CAP LAG PHASE_NS]
 *           [queue_bytes N | queue_packets N] [log FILE]
 *
 * The program reads packets from the TUN device DEV and writes them back when they have arrived:
 *
 *   DEV -> merging of ACKs -> queue -> time slots -> errors -> delay -> DEV
 *
 * In this order only the queue drops packets for congestion, a lost packet has used air time, and the
 * delay never reorders.  A stage without arguments does not exist.
 *
 * SIGUSR1 sets time zero: super-frames, fades and the steps of the delay begin there.  Before it packets
 * have the first delay, and no other stage.  SIGTERM ends the program, which prints one JSON line of
 * counters.
 *
 * Merging of ACKs.  A pure ACK is a TCP segment without payload, with ACK as its only flag and with no
 * option but timestamps.  A pure ACK that acknowledges more than all segments of its flow before it is
 * held, and the program discards the ACK it held before.  The held ACK goes on, unchanged,
 *
 *   NS after the arrival of the first ACK that it replaces, or
 *   at once when it acknowledges BYTES or more beyond the ACK last sent on (0: no such limit), or
 *   at once when another segment of its flow comes, which follows it: one with payload, with SACK
 *   blocks, with ECE, SYN or FIN, a duplicate ACK, or a window update.
 *
 * So a flow's segments keep their order.  The program never holds the first segment of a flow that has
 * an acknowledgement, a fragment, or a packet that is not TCP.
 *
 * Time slots.  A super-frame has MULTIFRAMES multi-frames of SLOTS slots; a slot carries SLOT_BYTES of
 * IP.  A grant of g slots per multi-frame is spread evenly over the multi-frame.  A slot takes the bytes
 * that are in the queue when it begins, packets back to back.  A packet that does not fit goes on in the
 * next slot; a packet leaves with its last byte.
 *
 * Bandwidth on demand.  At the start of super-frame n the terminal asks for
 *
 *   arrived + max(0, queued - arrived - coming)
 *
 * bytes.  `arrived` is what came into the queue during super-frame n-1, `queued` is the whole queue,
 * and `coming` is the capacity of the super-frames n .. n+LAG-1, whose grants are known.  The request
 * is this number in slots, rounded up, less STATIC, and at most CAP - STATIC.  It is the grant of
 * super-frame n+LAG and of no other.  STATIC = CAP is plain TDMA.
 *
 * The program has its own random numbers, so that losses do not depend on the kernel's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <math.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S	1000000000LL
#define NEVER		INT64_MAX
#define MAX_PACKET	65536
#define MAX_STEPS	4096
#define MAX_LAG		64		/* super-frames from a request to its grant */
#define ENDS_BYTES	36		/* two IPv6 addresses and two ports */

typedef int64_t ns_t;

struct packet {
	struct packet *next;
	ns_t due;			/* time of arrival; set when the packet leaves the slots */
	uint32_t bytes;
	uint32_t left;			/* bytes that no slot has carried yet */
	unsigned char data[];
};

struct fifo {
	struct packet *first, **last;
	uint64_t packets, bytes;
};

/* The arguments; times in ns, sizes in bytes of IP. */
static struct {
	const char *dev;
	uint64_t seed;
	ns_t own_in, own_out;		/* time to read and to write a packet; subtracted from the delay */
	ns_t merge;			/* 0: no ACK is held */
	uint32_t merge_bytes;
	struct {
		ns_t at, delay;
	} step[MAX_STEPS];
	int steps;
	double ber;
	double good_mean, bad_mean, loss_good, loss_bad;
	uint32_t frame_bytes;		/* of a coded frame; 0: no errors by coded frame */
	ns_t frame;			/* duration of a coded frame */
	double frame_loss;
	ns_t superframe;		/* 0: no slots */
	int64_t multiframes, slots, slot_bytes, fixed, cap, lag;
	ns_t phase;
	uint64_t queue_bytes, queue_packets;
	FILE *log;
} want = { .queue_bytes = UINT64_MAX, .queue_packets = UINT64_MAX };

/* The counters of the result line. */
static struct {
	uint64_t in_packets, in_bytes, out_packets, out_bytes, merged;
	uint64_t queue_drops, error_losses, refused, max_packets, max_bytes;
	uint64_t fades;
	ns_t faded;
} count;

static struct fifo queue = { .last = &queue.first }, line = { .last = &line.first };
static volatile sig_atomic_t zero_asked, over;
static ns_t zero = NEVER;		/* CLOCK_MONOTONIC */
static int tun;

static void die(const char *what)
{
	fprintf(stderr, "satlink: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void on_signal(int number)
{
	if (number == SIGUSR1)
		zero_asked = 1;
	else
		over = 1;
}

static ns_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void append(struct fifo *to, struct packet *packet)
{
	packet->next = NULL;
	*to->last = packet;
	to->last = &packet->next;
	to->packets++;
	to->bytes += packet->bytes;
}

static struct packet *take(struct fifo *from)
{
	struct packet *packet = from->first;

	from->first = packet->next;
	if (!from->first)
		from->last = &from->first;
	from->packets--;
	from->bytes -= packet->bytes;
	return packet;
}

/* -- random numbers: SplitMix64 (Steele, Lea and Flood, 2014) ---------------- */

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* The n-th number of a stream, in [0, 1).  Streams of one seed are independent. */
static double uniform_at(uint64_t stream, uint64_t n)
{
	uint64_t start = mix(mix(want.seed) + stream * 0xd1342543de82ef95ULL);

	return (mix(start + (n + 1) * 0x9e3779b97f4a7c15ULL) >> 11) * 0x1p-53;
}

enum { PACKETS, SOJOURNS, FRAMES, PHASE };

static double uniform(int stream)
{
	static uint64_t drawn[PHASE + 1];

	return uniform_at(stream, drawn[stream]++);
}

/* -- errors ------------------------------------------------------------------ */

/* Whether the channel is in a fade at time t >= 0.  Sojourn times are exponential and do not depend on
 * packets.  t must not decrease between calls.
 */
static int faded(ns_t t)
{
	static ns_t until = -1, since;		/* end and start of the present state */
	static int bad = 1;			/* ends at time zero, so the first state is good */

	while (t >= until) {
		ns_t from = until < 0 ? 0 : until;

		if (bad && until >= 0) {
			count.fades++;
			count.faded += until - since;
			if (want.log)
				fprintf(want.log, "%lld,%lld\n", (long long)since, (long long)until);
		}
		bad = !bad;
		since = from;
		until = from + 1 + (ns_t)(-log1p(-uniform(SOJOURNS)) * (bad ? want.bad_mean : want.good_mean));
	}
	return bad;
}

/* Whether a packet is lost whose last byte leaves at t.  Called once for each packet, in order. */
static int lost(ns_t t, uint32_t bytes)
{
	double p = 0;

	if (want.ber)
		p = -expm1(8.0 * bytes * log1p(-want.ber));
	else if (want.good_mean)
		p = faded(t) ? want.loss_bad : want.loss_good;
	else if (want.frame_bytes) {
		ns_t took = want.frame * bytes / want.frame_bytes;

		/* Frame n draws by its number, so all packets in it are lost, or none is. */
		for (ns_t n = t > took ? (t - took) / want.frame : 0; n <= t / want.frame; n++)
			if (uniform_at(FRAMES, n) < want.frame_loss)
				return 1;
		return 0;
	}
	return p > 0 && uniform(PACKETS) < p;
}

/* -- delay ------------------------------------------------------------------- */

static ns_t delay_at(ns_t t)
{
	static int now;

	while (now + 1 < want.steps && t >= want.step[now + 1].at)
		now++;
	return want.steps ? want.step[now].delay : 0;
}

/* A packet's last byte leaves at t (CLOCK_MONOTONIC). */
static void leave(struct packet *packet, ns_t t)
{
	static ns_t latest;

	/* For a packet read just after time zero, t is less than `zero`: own_in was subtracted. */
	if (zero != NEVER && lost(t > zero ? t - zero : 0, packet->bytes)) {
		count.error_losses++;
		free(packet);
		return;
	}
	packet->due = t + delay_at(zero == NEVER ? -1 : t - zero);
	if (packet->due < latest)
		packet->due = latest;
	latest = packet->due;
	append(&line, packet);
}

/* -- time slots -------------------------------------------------------------- */

static struct {
	int64_t number;			/* of the present super-frame; -1: none yet */
	int64_t next_slot;		/* first slot of it that is still to come */
	int64_t grant[MAX_LAG + 1];	/* slots per multi-frame, without the static ones */
	uint64_t arrived;		/* bytes into the queue since its start */
	uint64_t unsent;		/* bytes in the queue that no slot has carried */
} mac = { .number = -1 };

static ns_t superframe_start(int64_t n)
{
	return zero + want.phase + n * want.superframe;
}

static ns_t slot_start(int64_t slot)
{
	return superframe_start(mac.number) + want.superframe * slot / (want.multiframes * want.slots);
}

static int64_t granted(int64_t n)
{
	return want.fixed + mac.grant[n % (MAX_LAG + 1)];
}

/* The first granted slot that is still to come, or the number of slots if there is none. */
static int64_t own_slot(void)
{
	int64_t slot = mac.next_slot, share = granted(mac.number);

	while (slot < want.multiframes * want.slots &&
	       slot * share / want.slots == (slot + 1) * share / want.slots)
		slot++;
	return slot;
}

static void begin_superframe(void)
{
	int64_t n = ++mac.number, per_slot = want.multiframes * want.slot_bytes;
	int64_t coming = 0, asked, request;

	for (int64_t ahead = n; ahead < n + want.lag; ahead++)
		coming += granted(ahead) * per_slot;
	asked = (int64_t)mac.unsent - (int64_t)mac.arrived - coming;
	asked = (int64_t)mac.arrived + (asked > 0 ? asked : 0);
	request = (asked + per_slot - 1) / per_slot - want.fixed;
	if (request > want.cap - want.fixed)
		request = want.cap - want.fixed;
	if (request < 0)
		request = 0;
	if (want.log)
		fprintf(want.log, "%lld,%lld,%llu,%llu,%lld,%lld,%lld,%lld\n", (long long)n,
			(long long)(superframe_start(n) - zero), (unsigned long long)mac.arrived,
			(unsigned long long)mac.unsent, (long long)asked, (long long)request,
			(long long)(n + want.lag), (long long)granted(n));
	mac.grant[(n + want.lag) % (MAX_LAG + 1)] = request;
	mac.arrived = 0;
	mac.next_slot = 0;
}

/* Fill a slot that begins at `start`. */
static void send_slot(ns_t start)
{
	ns_t length = want.superframe / (want.multiframes * want.slots);
	int64_t sent = 0;

	while (queue.first && sent < want.slot_bytes) {
		struct packet *packet = queue.first;
		int64_t now = want.slot_bytes - sent;

		if (now > packet->left)
			now = packet->left;
		sent += now;
		packet->left -= now;
		mac.unsent -= now;
		if (!packet->left)
			leave(take(&queue), start + length * sent / want.slot_bytes);
	}
}

/* Play the super-frames and slots up to now; return the time of the next one. */
static ns_t run_slots(ns_t now)
{
	int64_t slot;

	if (!want.superframe || zero == NEVER)
		return NEVER;
	for (;;) {
		if (mac.number >= 0 && queue.first) {
			slot = own_slot();
			if (slot < want.multiframes * want.slots) {
				if (slot_start(slot) > now)
					return slot_start(slot);
				mac.next_slot = slot + 1;
				send_slot(slot_start(slot));
				continue;
			}
		}
		if (superframe_start(mac.number + 1) > now)
			return superframe_start(mac.number + 1);
		begin_superframe();
	}
}

/* Skip the slots that began while the queue was empty. */
static void pass_slots(ns_t now)
{
	ns_t into = now - superframe_start(mac.number);
	int64_t begun = into * want.multiframes * want.slots / want.superframe + 1;

	/* A packet's time is just before it was read, so `into` may be negative: no slot has begun. */
	if (into >= 0 && begun > mac.next_slot)
		mac.next_slot = begun;
}

/* Put a packet into the queue, or drop it; without slots it leaves at once. */
static void accept_packet(struct packet *packet, ns_t now)
{
	if (!want.superframe || zero == NEVER) {
		leave(packet, now);
		return;
	}
	if (queue.packets + 1 > want.queue_packets || queue.bytes + packet->bytes > want.queue_bytes) {
		count.queue_drops++;
		free(packet);
		return;
	}
	if (!queue.first && mac.number >= 0)
		pass_slots(now);
	packet->left = packet->bytes;
	append(&queue, packet);
	mac.arrived += packet->bytes;
	mac.unsent += packet->bytes;
	if (queue.packets > count.max_packets)
		count.max_packets = queue.packets;
	if (queue.bytes > count.max_bytes)
		count.max_bytes = queue.bytes;
}

/* -- merging of ACKs ---------------------------------------------------------- */

/* One direction of a connection. */
struct flow {
	struct flow *next;		/* the flow used last comes first */
	struct flow *next_waiting;
	unsigned char ends[ENDS_BYTES];
	int has_ack;			/* newest and sent_on are valid */
	uint32_t newest, sent_on;	/* highest acknowledgement numbers that came, and that went on */
	struct packet *held;
	ns_t due;			/* when `held` goes on */
};

static struct flow *flows;
static struct flow *waiting, **last_waiting = &waiting;		/* sorted by due: all wait equally long */

/* A TCP segment. */
struct segment {
	unsigned char ends[ENDS_BYTES];		/* addresses and ports */
	uint32_t ack;
	int has_ack, is_pure;
};

static uint32_t get_u32(const unsigned char *at)
{
	return (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

/* Whether timestamps are the only option. */
static int only_timestamps(const unsigned char *option, const unsigned char *end)
{
	while (option < end && *option != TCPOPT_EOL) {
		if (*option == TCPOPT_NOP) {
			option++;
			continue;
		}
		if (*option != TCPOPT_TIMESTAMP || end - option < TCPOLEN_TIMESTAMP ||
		    option[1] != TCPOLEN_TIMESTAMP)
			return 0;
		option += TCPOLEN_TIMESTAMP;
	}
	return 1;
}

/* Parse the TCP segment in a packet; return 0 if the packet is not TCP or is a fragment. */
static int parse_segment(const struct packet *packet, struct segment *segment)
{
	const unsigned char *ip = packet->data, *tcp, *end = ip + packet->bytes;
	const unsigned char *addresses;
	size_t addresses_bytes;
	uint32_t header;

	if (packet->bytes >= 20 && ip[0] >> 4 == 4) {
		if (ip[9] != IPPROTO_TCP || (ip[6] & 0x3f) || ip[7])
			return 0;
		tcp = ip + (ip[0] & 0xf) * 4;
		addresses = ip + 12;
		addresses_bytes = 8;
	} else if (packet->bytes >= 40 && ip[0] >> 4 == 6) {
		if (ip[6] != IPPROTO_TCP)
			return 0;
		tcp = ip + 40;
		addresses = ip + 8;
		addresses_bytes = 32;
	} else {
		return 0;
	}
	if (end - tcp < 20)
		return 0;
	header = (tcp[12] >> 4) * 4;
	if (header < 20 || end - tcp < (ptrdiff_t)header)
		return 0;
	memset(segment->ends, 0, sizeof(segment->ends));
	memcpy(segment->ends, addresses, addresses_bytes);
	memcpy(segment->ends + addresses_bytes, tcp, 4);
	segment->ack = get_u32(tcp + 8);
	segment->has_ack = !!(tcp[13] & TH_ACK);
	/* The low bit of the byte before the flags is AccECN's. */
	segment->is_pure = tcp + header == end && tcp[13] == TH_ACK && !(tcp[12] & 0xf) &&
			   only_timestamps(tcp + 20, end);
	return 1;
}

/* Find a segment's flow, or create it. */
static struct flow *flow_of(const struct segment *segment)
{
	struct flow *flow, **at = &flows;

	while (*at && memcmp((*at)->ends, segment->ends, ENDS_BYTES))
		at = &(*at)->next;
	flow = *at;
	if (flow) {
		*at = flow->next;
	} else {
		flow = calloc(1, sizeof(*flow));
		if (!flow)
			die("memory");
		memcpy(flow->ends, segment->ends, ENDS_BYTES);
	}
	flow->next = flows;
	flows = flow;
	return flow;
}

/* Send on, at t, the ACK that a flow holds. */
static void send_held(struct flow *flow, ns_t t)
{
	struct packet *packet = flow->held;
	struct flow **at = &waiting;

	if (!packet)
		return;
	while (*at != flow)
		at = &(*at)->next_waiting;
	*at = flow->next_waiting;
	if (!*at)
		last_waiting = at;
	flow->held = NULL;
	flow->sent_on = flow->newest;
	accept_packet(packet, t);
}

/* Send on the ACKs that were due by t; return the time of the next one. */
static ns_t send_due(ns_t t)
{
	while (waiting && waiting->due <= t)
		send_held(waiting, waiting->due);
	return waiting ? waiting->due : NEVER;
}

/* Merge a packet that comes at t with the held ACK of its flow, or pass it on. */
static void merge_packet(struct packet *packet, ns_t t)
{
	struct segment segment;
	struct flow *flow;
	int is_new;

	send_due(t);
	if (!want.merge || zero == NEVER || !parse_segment(packet, &segment)) {
		accept_packet(packet, t);
		return;
	}
	flow = flow_of(&segment);
	is_new = segment.has_ack && (!flow->has_ack || (int32_t)(segment.ack - flow->newest) > 0);
	if (is_new && segment.is_pure && flow->has_ack) {
		if (flow->held) {
			free(flow->held);
			count.merged++;
		} else {
			flow->due = t + want.merge;
			flow->next_waiting = NULL;
			*last_waiting = flow;
			last_waiting = &flow->next_waiting;
		}
		flow->held = packet;
		flow->newest = segment.ack;
		if (want.merge_bytes && flow->newest - flow->sent_on >= want.merge_bytes)
			send_held(flow, t);
		return;
	}
	send_held(flow, t);
	if (is_new) {
		flow->has_ack = 1;
		flow->newest = flow->sent_on = segment.ack;
	}
	accept_packet(packet, t);
}

static uint64_t packets_held(void)
{
	uint64_t packets = 0;

	for (struct flow *flow = waiting; flow; flow = flow->next_waiting)
		packets++;
	return packets;
}

/* -- packets in and out ------------------------------------------------------- */

static void read_packets(void)
{
	static unsigned char buffer[MAX_PACKET];
	struct packet *packet;
	ssize_t n;

	while ((n = read(tun, buffer, sizeof(buffer))) > 0) {
		packet = malloc(sizeof(*packet) + n);
		if (!packet)
			die("memory");
		memcpy(packet->data, buffer, n);
		packet->bytes = n;
		count.in_packets++;
		count.in_bytes += n;
		merge_packet(packet, clock_ns(CLOCK_MONOTONIC) - want.own_in);
	}
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		die("read");
}

/* Write the packets that have arrived; return the time of the next arrival. */
static ns_t write_packets(void)
{
	while (line.first) {
		struct packet *packet = line.first;

		if (packet->due - want.own_out > clock_ns(CLOCK_MONOTONIC))
			return packet->due - want.own_out;
		take(&line);
		if (write(tun, packet->data, packet->bytes) == packet->bytes) {
			count.out_packets++;
			count.out_bytes += packet->bytes;
		} else {
			count.refused++;
		}
		free(packet);
	}
	return NEVER;
}

static void carry(void)
{
	struct pollfd ready = { .events = POLLIN };
	sigset_t none;

	sigemptyset(&none);
	ready.fd = tun;
	while (!over) {
		struct timespec timeout;
		ns_t now, next, due, merged;

		if (zero_asked && zero == NEVER)
			zero = clock_ns(CLOCK_MONOTONIC);
		if (ready.revents)
			read_packets();
		merged = send_due(clock_ns(CLOCK_MONOTONIC));
		next = run_slots(clock_ns(CLOCK_MONOTONIC));
		due = write_packets();
		if (due < next)
			next = due;
		if (merged < next)
			next = merged;
		now = clock_ns(CLOCK_MONOTONIC);
		if (now > next)
			now = next;
		timeout.tv_sec = (next - now) / NS_PER_S;
		timeout.tv_nsec = (next - now) % NS_PER_S;
		/* A real-time task's timeout has no slack.  Only ppoll() lets signals in. */
		if (ppoll(&ready, 1, next == NEVER ? NULL : &timeout, &none) < 0) {
			if (errno != EINTR)
				die("ppoll");
			ready.revents = 0;
		}
	}
}

/* CLOCK_REALTIME less CLOCK_MONOTONIC.  It uses the shortest of four readings: the first ones may wait
 * for page faults.
 */
static ns_t realtime_offset(void)
{
	ns_t closest = NEVER, offset = 0;

	for (int i = 0; i < 4; i++) {
		ns_t before = clock_ns(CLOCK_MONOTONIC), real = clock_ns(CLOCK_REALTIME);
		ns_t took = clock_ns(CLOCK_MONOTONIC) - before;

		if (took < closest) {
			closest = took;
			offset = real - before - took / 2;
		}
	}
	return offset;
}

static void report(void)
{
	ns_t to_realtime = realtime_offset();

	if (zero != NEVER && want.good_mean)
		faded(clock_ns(CLOCK_MONOTONIC) - zero);
	printf("{\"zero_ns\":%lld,\"end_ns\":%lld,\"phase_ns\":%lld,"
	       "\"in_packets\":%llu,\"in_bytes\":%llu,\"out_packets\":%llu,\"out_bytes\":%llu,"
	       "\"merged\":%llu,\"queue_drops\":%llu,\"error_losses\":%llu,\"refused\":%llu,\"inside\":%llu,"
	       "\"max_queue_packets\":%llu,\"max_queue_bytes\":%llu,\"fades\":%llu,\"faded_ns\":%lld}\n",
	       (long long)(zero + to_realtime), (long long)clock_ns(CLOCK_REALTIME), (long long)want.phase,
	       (unsigned long long)count.in_packets, (unsigned long long)count.in_bytes,
	       (unsigned long long)count.out_packets, (unsigned long long)count.out_bytes,
	       (unsigned long long)count.merged,
	       (unsigned long long)count.queue_drops, (unsigned long long)count.error_losses,
	       (unsigned long long)count.refused, (unsigned long long)(packets_held() + queue.packets + line.packets),
	       (unsigned long long)count.max_packets, (unsigned long long)count.max_bytes,
	       (unsigned long long)count.fades, (long long)count.faded);
	if (want.log)
		fclose(want.log);
}

/* -- start ------------------------------------------------------------------- */

static void usage(void)
{
	fprintf(stderr, "usage: satlink DEV [seed N] [own IN_NS OUT_NS] [merge NS BYTES]\n"
		"       [delay NS | steps AT:NS,AT:NS...]\n"
		"       [ber P | gilbert GOOD_NS BAD_NS P_GOOD P_BAD | frames BYTES NS P]\n"
		"       [slots SUPERFRAME_NS MULTIFRAMES SLOTS SLOT_BYTES STATIC CAP LAG PHASE_NS]\n"
		"       [queue_bytes N | queue_packets N] [log FILE]\n");
	exit(2);
}

static void parse_steps(char *text)
{
	for (char *one = strtok(text, ","); one; one = strtok(NULL, ",")) {
		char *delay = strchr(one, ':');

		if (!delay || want.steps == MAX_STEPS)
			usage();
		want.step[want.steps].at = strtoll(one, NULL, 10);
		want.step[want.steps++].delay = strtoll(delay + 1, NULL, 10);
	}
}

static void parse_slots(char **value)
{
	want.superframe = strtoll(value[0], NULL, 10);
	want.multiframes = strtoll(value[1], NULL, 10);
	want.slots = strtoll(value[2], NULL, 10);
	want.slot_bytes = strtoll(value[3], NULL, 10);
	want.fixed = strtoll(value[4], NULL, 10);
	want.cap = strtoll(value[5], NULL, 10);
	want.lag = strtoll(value[6], NULL, 10);
	want.phase = strtoll(value[7], NULL, 10);
	if (want.superframe <= 0 || want.multiframes < 1 || want.slots < 1 || want.slot_bytes < 1 ||
	    want.fixed < 0 || want.cap < want.fixed || want.cap > want.slots || want.lag < 1 ||
	    want.lag > MAX_LAG)
		usage();
}

static void parse(int words, char **word)
{
	static const struct {
		const char *name;
		int values;
	} known[] = {
		{ "seed", 1 }, { "own", 2 }, { "merge", 2 }, { "delay", 1 }, { "steps", 1 }, { "ber", 1 },
		{ "gilbert", 4 }, { "frames", 3 }, { "slots", 8 }, { "queue_bytes", 1 },
		{ "queue_packets", 1 }, { "log", 1 },
	};
	const size_t kinds = sizeof(known) / sizeof(known[0]);

	if (words < 2)
		usage();
	want.dev = word[1];
	for (int at = 2; at < words;) {
		const char *name = word[at];
		char **value = word + at + 1;
		size_t kind = 0;

		while (kind < kinds && strcmp(known[kind].name, name))
			kind++;
		if (kind == kinds || at + known[kind].values >= words)
			usage();
		at += 1 + known[kind].values;
		if (!strcmp(name, "seed"))
			want.seed = strtoull(value[0], NULL, 10);
		else if (!strcmp(name, "own")) {
			want.own_in = strtoll(value[0], NULL, 10);
			want.own_out = strtoll(value[1], NULL, 10);
		} else if (!strcmp(name, "merge")) {
			want.merge = strtoll(value[0], NULL, 10);
			want.merge_bytes = strtoul(value[1], NULL, 10);
		} else if (!strcmp(name, "delay"))
			want.step[want.steps++].delay = strtoll(value[0], NULL, 10);
		else if (!strcmp(name, "steps"))
			parse_steps(value[0]);
		else if (!strcmp(name, "ber"))
			want.ber = strtod(value[0], NULL);
		else if (!strcmp(name, "slots"))
			parse_slots(value);
		else if (!strcmp(name, "queue_bytes"))
			want.queue_bytes = strtoull(value[0], NULL, 10);
		else if (!strcmp(name, "queue_packets"))
			want.queue_packets = strtoull(value[0], NULL, 10);
		else if (!strcmp(name, "gilbert")) {
			want.good_mean = strtod(value[0], NULL);
			want.bad_mean = strtod(value[1], NULL);
			want.loss_good = strtod(value[2], NULL);
			want.loss_bad = strtod(value[3], NULL);
		} else if (!strcmp(name, "frames")) {
			want.frame_bytes = strtoul(value[0], NULL, 10);
			want.frame = strtoll(value[1], NULL, 10);
			want.frame_loss = strtod(value[2], NULL);
		} else {
			want.log = fopen(value[0], "w");
			if (!want.log)
				die(value[0]);
		}
	}
	if ((want.frame_bytes && want.frame <= 0) || want.merge < 0)
		usage();
	if (want.phase < 0)
		want.phase = uniform(PHASE) * want.superframe;
	if (want.log && want.superframe)
		fprintf(want.log, "superframe,start_ns,arrived_bytes,queued_bytes,asked_bytes,request_slots,"
			"effective_superframe,slots\n");
	else if (want.log)
		fprintf(want.log, "fade_start_ns,fade_end_ns\n");
}

int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = on_signal };	/* no SA_RESTART: break the call */
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	struct sched_param first = { .sched_priority = 2 };
	sigset_t ours;

	parse(argc, argv);
	sigemptyset(&ours);
	sigaddset(&ours, SIGUSR1);
	sigaddset(&ours, SIGTERM);
	sigprocmask(SIG_BLOCK, &ours, NULL);
	sigaction(SIGUSR1, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	/* Run before all other programs, the probe included: their work would add to the delay. */
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		die("SCHED_FIFO");
	tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
	if (tun < 0)
		die("/dev/net/tun");
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", want.dev);
	if (ioctl(tun, TUNSETIFF, &request))
		die(want.dev);
	carry();
	report();
	return 0;
}
