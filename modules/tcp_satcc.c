// SPDX-License-Identifier: GPL-2.0
/* satcc: for senders whose path has a satellite or another long delay in it, and loses
 * segments without being full.  It owns its window W, in segments, in every state but a
 * timeout's, and asks of each loss whether there was a queue. A path with an empty queue
 * loses on the air, and W stays; where there is one, a loss is congestion, as it is to
 * CUBIC. Alone on its path a flow keeps the queue almost empty; where others hold the
 * queue it is a CUBIC flow among them.
 *
 * The model of the path:
 *
 *   RTT_min  smallest RTT, no older than net.ipv4.tcp_min_rtt_wlen (300 s)
 *   bw       largest rate of delivery in this round trip and the two before
 *   b        bw RTT_min, what the path holds without a queue
 *   q        smallest of the last 16 to 31 RTTs, less RTT_min: the queue
 *   thr      a queue shows from here on: RTT_min / 16, at most 25 ms; but at least 2 ms,
 *            and two segments' time at bw, of that at most RTT_min / 8
 *   n        round trips since q >= thr
 *   p        part of the segments that the air loses: of what was lost while q < thr / 2
 *
 *                Hoe's estimate;            q >= thr in 6 round trips,
 *                a queue; no growth         in spite of HOLD
 *        START ---------------------> ALONE ----------------------> SHARED
 *                                    |  ^ ^                            |
 *                q >= thr:  HOLD     |  | |                            |
 *                q < thr:  PROBE     +--+ +----------------------------+
 *                       RTT_min was too small       n = 16
 *
 *   START    The spacing of the first ACKs gives the bottleneck's rate (hoe.h): W is rate
 *            times RTT_min, and the flow is paced. Where ACKs may have come in a bunch, all of
 *            the first flight count, for a longer time. Where there is no estimate, W doubles
 *            every round trip until q >= thr, or bw has not grown by a quarter in 3.
 *   PROBE    W grows by RTT_min / 25 ms segments in the first round trip, by twice as much
 *            in the next, and so on: by W/4 at most, up to 5/4 b; from n = 4 on by W/2, up
 *            to 2 b. After a loss in a queue it grows as CUBIC does for 16 round trips.
 *   HOLD     W stands. Every second round trip what makes the queue longer than thr / 2 is
 *            taken away, 30 % at most.
 *   SHARED   CUBIC (RFC 9438): C = 0.4, 0.7, fast convergence, Reno's friend.
 *
 *   loss while q < thr / 2      none of the path's: W stays, p follows. Only where more
 *                               than twice tolerate_pct of a round trip is lost: W *= 0.7
 *   else, as many as p explains as HOLD; and PROBE waits
 *   else                        W *= 0.7
 *   ECN mark, local drop        W *= 0.7, whatever q is
 *   timeout                     W *= 0.7, and cwnd comes to it from 1 as in slow start
 *
 * "As many as p explains": at most 2 m + 2 sqrt(m), m = p times the segments of this round
 * trip. One answer a round trip; while p = 0 one a recovery, for what a full queue drops of
 * the retransmissions is no news.
 *
 * cwnd is W; where more is in flight, five segments go out for eight that were delivered,
 * and a retransmission always does. With W *= 0.7 at once none could, until 30 % of the
 * flight were acknowledged, and the head's timer went off before, 0.2 s after the first
 * dupack at 600 ms. The rate is net.ipv4.tcp_pacing_ss_ratio percent of W / srtt in START,
 * tcp_pacing_ca_ratio else.
 *
 * A path that becomes longer looks like a queue that HOLD cannot empty. HOLD cuts three
 * times until its sixth round trip, to a third: if the RTT is by then what it was in the
 * fourth, within thr / 2, it is nobody's queue, and RTT_min is that. Others' queues grow
 * or shrink.
 *
 * Life of a flow at 600 ms, 10 Mbit/s, 1500 byte segments: ten segments leave, their ACKs
 * are 1.2 ms apart: 826 a second, W = 495 after the third, 1.2 s after the SYN. What is
 * sent is paced. q is 0, W grows by 24, then 48: q >= 25 ms, and HOLD takes W back to 510.
 * So it goes on; the queue has 36 segments on average, of 496. A segment is lost on the
 * air: q < 12.5 ms, W stays, p is 1 % and then what it is. A CUBIC flow comes: q >= 25 ms
 * for six round trips, and in the seventh there are two CUBIC flows.
 *
 * What the core leaves to a ->cong_control() and is here: the window in recovery and at
 * its end, the pacing rate, the restart after idleness, the decay of a window that the
 * application leaves unused. Detection, undo, F-RTO, RACK and TLP are the core's.
 *
 * What it does not do:
 * - see a queue that delays by less than thr / 2, such as those of CoDel on a long path: it
 *   takes their drops for the air's, up to tolerate_pct. Marks it obeys.
 * - tell a standing queue that was there before it from the path: a late-comer's RTT_min
 *   has that in it until others make room. Ten flows of its kind on 10 Mbit/s and 40 ms
 *   lose four times what ten of CUBIC do (simulator).
 * - get its share from CUBIC in a queue of 4 BDP or more, or leave Reno's at 250 ms, whom
 *   CUBIC does not leave either.
 *
 * Each constant below names what chose it. "Simulator": one drop-tail queue, this file
 * compiled into it; the lab's figures are in README-satcc.md.
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "compat.h"
#include "core_state.h"
#include "growth.h"
#include "hoe.h"
#include "info.h"
#include "owner.h"
#include "pacing.h"
#include "param.h"
#include "rtt.h"

/* Rates are in segments per us, Q24: from 0.06 segments per second, which is less than
 * one in any round trip, to 256 per us, 3 Tbit/s.
 */
#define SATCC_BW_SHIFT	24

enum satcc_mode {
	SATCC_START,	/* W unknown */
	SATCC_ALONE,	/* PROBE, and HOLD while a queue shows */
	SATCC_SHARED,	/* CUBIC among others */
};

enum satcc_train {
	SATCC_TRAIN_WAIT,	/* for the first full window */
	SATCC_TRAIN_COLLECT,
	SATCC_TRAIN_DONE,
};

/* Of START. */
struct satcc_start {
	struct satcc_hoe hoe;
	u32	t0_us;			/* time of the train's first ACK */
	u32	train_delivered;	/* tp->delivered then */
};

/* Of the others. */
struct satcc_epoch {
	u32	w_max;			/* W before the last cut; 0 = none */
	u32	w_begin;		/* W at the epoch's begin; 0 = it has not begun */
	u32	begin_ms;		/* time of it */
	u32	k_ms;			/* until W is w_max again */
	u32	cut_delivered;		/* tp->delivered at the last cut */
	u32	cut_seq;		/* tp->snd_nxt then */
	u32	prior_w;		/* W before the core's reduction, for undo; 0 = none */
	u32	prior_w_max;		/* w_max likewise */
	u32	held_w;			/* W when HOLD began */
	u32	held_rtt_us;		/* round_rtt_us in its fourth round */
};

/* Per flow. Written under the socket lock; owner, min_rtt_us, w and mode are also read
 * by get_info(), without it.
 */
struct satcc {
	u32	owner;			/* whose these bytes are, see owner.h */
	u32	min_rtt_us;		/* RTT_min; 0 = no sample */
	u32	w;			/* W, segments */
	u32	bw[3];			/* largest rate of this round and the two before */
	u32	round_delivered;	/* tp->delivered at the round's start */
	u32	round_rtt_us;		/* smallest RTT of the round; 0 = no sample */
	u32	block_rtt_us;		/* smallest RTT of the block; 0 = no sample */
	u32	last_block_rtt_us;	/* of the block before; 0 = none */
	u32	rtt_us;			/* last RTT sample; 0 = none */
	union {
		u32	train_jitter_us; /* START: by how much two RTTs without a queue differ */
		u32	round_lost;	/* else: tp->lost at the round's start */
	};
	u16	p_q16;			/* p: part of the segments that the air loses */
	u16	prior_p_q16;		/* p before the core's reduction, for undo */
	u16	mss;			/* what W's segments are of, bytes */
	u16	quiet_sent:10,		/* segments sent into no queue since p was updated */
		shrink_credit:3;	/* eighths of a segment, while the flight shrinks to W */
	u32	quiet_lost:7,		/* of quiet_sent, lost */
		quiet_rounds:5,		/* n: rounds since a queue was seen */
		block_samples:4,	/* RTT samples in the block */
		queue_rounds:3,		/* rounds in a row with a queue, in ALONE */
		mode:2,			/* enum satcc_mode */
		train:2,		/* enum satcc_train */
		flat_rounds:2,		/* rounds in a row in which START brought nothing */
		ramp:1,			/* cwnd goes up to W as in slow start */
		trimmed:1,		/* HOLD has cut in the round before */
		blocked:1,		/* a block has ended in this round */
		in_ack:1,		/* between ->in_ack_event() and the ACK's end */
		ece:1,			/* this ACK echoes a mark */
		marked:1,		/* a mark has been obeyed in this state of the core's */
		reduced:1;		/* ssthresh() was asked, and the state is to change */
	union {
		u32	train_end;	/* START: tp->delivered when the train is acknowledged */
		u32	credit;		/* else: towards the next segment of W, in segments */
	};
	union {
		struct satcc_start start;
		struct satcc_epoch epoch;
	};
};

/* The most that the air is believed to lose. 10: at 5 % a batch of 256 segments has more
 * once in a thousand times. Where all senders are to be treated as CUBIC treats them: 0.
 */
SATCC_PARAM(tolerate_pct, 10, 0, 50);
MODULE_PARM_DESC(tolerate_pct,
		 "random loss to bear, percent; 0: every loss is congestion (0-50, default 10)");

/* What is kept of a queue on a long path, and what a return link may add: slots of 22.8 ms
 * are below it.
 */
SATCC_PARAM(queue_ms, 25, 1, 1000);
MODULE_PARM_DESC(queue_ms, "a queue is what delays by so much, at most (1-1000, default 25 ms)");

SATCC_PARAM(hoe, 1, 0, 1);
MODULE_PARM_DESC(hoe, "start by the spacing of the first ACKs (0/1, default 1)");

/* thr. A part alone takes a queue of a tenth of the bandwidth-delay product for none, an
 * absolute time is most of a short path's queue: Jain's index beside CUBIC .56 for .96.
 * Two segments are what a flow's own burst makes. They are its own share's, so an eighth
 * of RTT_min bounds them: else ten flows on 10 Mbit/s and 40 ms lose 8426 segments in a
 * minute, and 2446 with it (simulator).
 */
#define SATCC_QUEUE_DIV		16
#define SATCC_QUEUE_MIN_US	2000
#define SATCC_QUEUE_PKTS	2
#define SATCC_SEGMENTS_DIV	8

/* RTT samples in a block. A mean reads 50 ms of jitter as a queue (1.4 of 10 Mbit/s), the
 * smallest of a round trip is that late: 304 drops in a clean minute. One ACK's own RTT
 * for losses: 2.5 Mbit/s for 8.6 with 20 ms of jitter and 1 % loss.
 */
#define SATCC_BLOCK_SAMPLES	16

/* What congestion leaves of W, percent, and C: CUBIC's (RFC 9438), so that among CUBIC
 * flows there is one more of them.
 */
#define SATCC_CUT_PCT		70
#define SATCC_CUBIC_MS3		2500000000ULL	/* 1 / C, in ms^3 a segment */
#define SATCC_FRIEND_PCT	53		/* 3 (1 - .7) / (1 + .7) segments per RTT */
#define SATCC_CUBIC_MAX_MS	BIT(20)		/* of which the third power is below 2^60 */

/* Sent for eight segments delivered, while the flight shrinks: 30 % less take a round trip
 * and a quarter.
 */
#define SATCC_SHRINK_EIGHTHS	5

/* Least W. With 4, ten flows do not fit 40 ms at 10 Mbit/s and a quarter of its product. */
#define SATCC_W_MIN		2

/* After idleness (RFC 6928). */
#define SATCC_W_RESTART		10

/* W counts as filled when so many less are in flight, and an eighth. */
#define SATCC_SLACK		4

/* PROBE: first step, one segment per so many us of RTT_min; n from which on it is fast.
 * 25 ms is Hybla's reference.
 */
#define SATCC_PROBE_US		25000
#define SATCC_PROBE_FAST	4

/* Round trips of CUBIC's growth after a loss in a queue, without one, before PROBE. Beside
 * CUBIC with a queue of a tenth of the bandwidth-delay product, 40 and 250 ms: with 16 it
 * gets 3.0 and 2.9 Mbit/s of 10, with 8 2.3 and 1.3, with none .7 and .5; alone with 1 %
 * random loss a flow has 8.8, 8.7 and 8.9 (simulator).
 */
#define SATCC_WAIT_ROUNDS	16

/* Round trips with a queue until it is taken for another's. Three times 30 % are gone by
 * then, more than a flow alone can have had too much.
 */
#define SATCC_BUSY_ROUNDS	6

/* Its round trip whose RTT the sixth's is held against: what the flow had in the queue
 * itself is gone, and one more cut is still to be seen.
 */
#define SATCC_LOOK_ROUND	4

/* Round trips without a quarter more of bw that end START (bbr's). */
#define SATCC_FLAT_ROUNDS	3

/* Fewer losses in a round trip are never too many for the air. With 5 ten flows of some
 * eight segments each lost half of what they sent to a short queue and went on. Of W, not
 * of what the round trip has sent so far: 7.8 of 10 Mbit/s at 5 %, for 5.2.
 */
#define SATCC_MUCH_PKTS		3

/* Segments that p is of, and p's fading: by 1/64 in a round trip with a queue, that is by
 * half in 44. Learnt per round trip, one of two flows learns it and the other does not.
 */
#define SATCC_P_SEGMENTS	256
#define SATCC_P_SEGMENTS_MAX	1023
#define SATCC_P_LOST_MAX	127
#define SATCC_P_FADE_SHIFT	6

static struct tcp_congestion_ops tcp_satcc;
static void satcc_init(struct sock *sk);

static struct satcc *satcc_state(struct sock *sk)
{
	struct satcc *ca = inet_csk_ca(sk);

	if (!satcc_owned(sk, READ_ONCE(ca->owner), &tcp_satcc))
		satcc_init(sk);

	return ca;
}

/* bw, Q24; 0 = no sample. */
static u32 satcc_bw(const struct satcc *ca)
{
	return max3(ca->bw[0], ca->bw[1], ca->bw[2]);
}

/* b, in segments. RTT_min is below 2^24, the product below 2^56. */
static u32 satcc_b(const struct satcc *ca)
{
	return clamp_t(u64, (u64)satcc_bw(ca) * ca->min_rtt_us >> SATCC_BW_SHIFT,
		       SATCC_W_MIN, SATCC_MAX_CWND);
}

/* thr: from here on there is a queue. */
static u32 satcc_threshold_us(const struct satcc *ca)
{
	u32 bw = satcc_bw(ca), part = ca->min_rtt_us / SATCC_QUEUE_DIV, segments = 0;

	if (bw)
		segments = min(SATCC_QUEUE_PKTS * ((1U << SATCC_BW_SHIFT) / bw),
			       ca->min_rtt_us / SATCC_SEGMENTS_DIV);
	part = min_t(u32, part, satcc_param(queue_ms) * USEC_PER_MSEC);

	return max3(part, (u32)SATCC_QUEUE_MIN_US, segments);
}

/* Above RTT_min. */
static u32 satcc_above_us(const struct satcc *ca, u32 rtt_us)
{
	return rtt_us > ca->min_rtt_us ? rtt_us - ca->min_rtt_us : 0;
}

/* q: what the queue delays by now, the smallest of the last 16 to 31 samples. */
static u32 satcc_queue_us(const struct satcc *ca)
{
	u32 rtt_us = ca->last_block_rtt_us;

	if (ca->block_samples && (!rtt_us || ca->block_rtt_us < rtt_us))
		rtt_us = ca->block_rtt_us;

	return satcc_above_us(ca, rtt_us);
}

static bool satcc_is_queue(const struct satcc *ca)
{
	return satcc_queue_us(ca) >= satcc_threshold_us(ca);
}

/* Is what is lost now lost where there is no queue? By the last 16 to 31 samples: what
 * one ACK was late by may be the return link's.
 */
static bool satcc_is_quiet(const struct satcc *ca)
{
	return satcc_param(tolerate_pct) &&
	       satcc_queue_us(ca) < satcc_threshold_us(ca) / 2;
}

/* The block is full, or a round trip has not filled it. */
static void satcc_end_block(struct satcc *ca)
{
	ca->last_block_rtt_us = ca->block_rtt_us;
	ca->block_samples = 0;
	ca->blocked = true;
}

/* Take an RTT sample; <= 0: none, ambiguous after a retransmission. RTT_min is of data,
 * for a handshake crosses the bottleneck sooner, and no older than the core's. Of two
 * samples the larger counts: with 1 % of the segments overtaking the others by 300 ms
 * RTT_min was theirs (0.45 Mbit/s of 2).
 */
static void satcc_update_rtt(struct sock *sk, struct satcc *ca, long rtt_us)
{
	u32 bound_us = satcc_min_rtt_us(tcp_sk(sk)), larger_us;

	if (rtt_us > 0) {
		rtt_us = min_t(long, rtt_us, SATCC_HOE_MAX_RTT_US - 1);
		larger_us = max_t(u32, rtt_us, ca->rtt_us);
		ca->rtt_us = rtt_us;
		if (!ca->min_rtt_us || larger_us < ca->min_rtt_us)
			WRITE_ONCE(ca->min_rtt_us, larger_us);
		if (!ca->round_rtt_us || rtt_us < ca->round_rtt_us)
			ca->round_rtt_us = rtt_us;
		if (!ca->block_samples || rtt_us < ca->block_rtt_us)
			ca->block_rtt_us = rtt_us;
		if (ca->block_samples == SATCC_BLOCK_SAMPLES - 1)
			satcc_end_block(ca);
		else
			ca->block_samples++;
	}
	if (ca->min_rtt_us && ca->min_rtt_us < bound_us)
		WRITE_ONCE(ca->min_rtt_us, min_t(u32, bound_us, SATCC_HOE_MAX_RTT_US - 1));
}

static void satcc_set_w(struct satcc *ca, u32 w)
{
	WRITE_ONCE(ca->w, clamp_t(u32, w, SATCC_W_MIN, SATCC_MAX_CWND));
}

/* What congestion leaves of W. */
static u32 satcc_cut(u32 w)
{
	return div_u64((u64)w * SATCC_CUT_PCT, 100);
}

/* CUBIC's growth starts anew from W. */
static void satcc_begin_epoch(struct satcc *ca)
{
	ca->epoch.w_begin = 0;
	ca->credit = 0;
}

/* START is over. */
static void satcc_run(struct sock *sk, struct satcc *ca, u32 w)
{
	ca->mode = SATCC_ALONE;
	ca->train = SATCC_TRAIN_DONE;
	satcc_set_w(ca, w);
	ca->quiet_rounds = 0;
	ca->credit = 0;
	ca->round_lost = tcp_sk(sk)->lost;
	ca->epoch = (struct satcc_epoch){ .cut_delivered = tcp_sk(sk)->delivered,
					  .cut_seq = tcp_sk(sk)->snd_una };
	satcc_pacing_enable(sk);
}

/* Losses of what is in flight now have been answered. */
static void satcc_reacted(struct sock *sk, struct satcc *ca)
{
	ca->epoch.cut_delivered = tcp_sk(sk)->delivered;
	ca->epoch.cut_seq = tcp_sk(sk)->snd_nxt;
}

/* Congestion: CUBIC's answer, fast convergence included. */
static void satcc_congestion(struct sock *sk, struct satcc *ca)
{
	struct satcc_epoch *epoch = &ca->epoch;

	if (ca->mode == SATCC_START)
		satcc_run(sk, ca, ca->w);
	epoch->w_max = ca->w < epoch->w_max ? ca->w - ca->w * 3 / 20 : ca->w;
	satcc_begin_epoch(ca);
	satcc_set_w(ca, satcc_cut(ca->w));
	ca->quiet_rounds = 0;
	satcc_reacted(sk, ca);
}

/* Take away what makes the queue longer than half of the threshold:
 * W = max(0.7 W, W (RTT_min + thr / 2) / (RTT_min + q)).
 */
static void satcc_trim(struct satcc *ca, u32 queue_us)
{
	u32 half_us = satcc_threshold_us(ca) / 2;
	u32 w = div_u64((u64)ca->w * (ca->min_rtt_us + half_us),
			ca->min_rtt_us + max(queue_us, half_us));

	satcc_set_w(ca, max(w, satcc_cut(ca->w)));
	ca->quiet_rounds = 0;
}

/* W grows by step segments per RTT, however they are acknowledged (credit.h). */
static void satcc_earn(struct satcc *ca, u32 step, u32 acked)
{
	u64 credit = ca->credit;

	WRITE_ONCE(ca->w, satcc_avoid(&credit, ca->w, SATCC_MAX_CWND, step, 0, acked));
	ca->credit = credit;
}

/* The third root, rounded down, of x below 2^62: digit by digit. */
static u32 satcc_cbrt(u64 x)
{
	u32 root = 0, bit, more;

	for (bit = 1 << 20; bit; bit >>= 1) {
		more = root + bit;
		if ((u64)more * more * more <= x)
			root = more;
	}

	return root;
}

/* Segments per RTT by which CUBIC grows now: to what it is to have an RTT from now, or
 * what Reno's friend has by now, by a half of W at most.
 */
static u32 satcc_cubic_step(const struct tcp_sock *tp, struct satcc *ca)
{
	u32 now_ms = div_u64(tp->tcp_mstamp, USEC_PER_MSEC);
	u32 rtt_ms = max_t(u32, satcc_srtt_us(tp) / USEC_PER_MSEC, 1);
	struct satcc_epoch *epoch = &ca->epoch;
	u32 t_ms, d_ms, target, w = ca->w, step = 0;

	if (!epoch->w_begin) {
		epoch->w_begin = w;
		epoch->begin_ms = now_ms;
		epoch->k_ms = 0;
		if (epoch->w_max > w)
			epoch->k_ms = satcc_cbrt((u64)(epoch->w_max - w) * SATCC_CUBIC_MS3);
		else
			epoch->w_max = w;
	}
	t_ms = now_ms - epoch->begin_ms;
	target = epoch->w_begin + div_u64((u64)t_ms * SATCC_FRIEND_PCT, 100 * rtt_ms);
	if (target > w)
		step = target - w;

	t_ms += ca->min_rtt_us / USEC_PER_MSEC;
	d_ms = t_ms < epoch->k_ms ? epoch->k_ms - t_ms : t_ms - epoch->k_ms;
	d_ms = min_t(u32, d_ms, SATCC_CUBIC_MAX_MS);
	target = div64_u64((u64)d_ms * d_ms * d_ms, SATCC_CUBIC_MS3);
	target = t_ms < epoch->k_ms ? epoch->w_max - min(target, epoch->w_max) :
				      epoch->w_max + target;
	if (target > w)
		step = max(step, target - w);

	return min(step, w / 2);
}

/* PROBE: segments per RTT, in the n-th round trip without a queue; n <= 31. */
static u32 satcc_probe_step(const struct satcc *ca, u32 n)
{
	bool fast = n >= SATCC_PROBE_FAST;
	u32 b = satcc_b(ca), most = b + (fast ? b : b / 4) + SATCC_SLACK;
	u64 step = max_t(u32, ca->min_rtt_us / SATCC_PROBE_US, 1);

	if (ca->w >= most)
		return 0;

	return min3(step << n, (u64)ca->w / (fast ? 2 : 4) + 1, (u64)most - ca->w);
}

/* Segments were delivered. W grows only if it was filled, in SHARED not while losses that
 * were answered still come in.
 */
static void satcc_grow_w(struct sock *sk, struct satcc *ca, const struct rate_sample *rs,
			 bool queue)
{
	u32 acked = satcc_counted(tcp_sk(sk), rs->acked_sacked), n = ca->quiet_rounds, step;
	bool waits = ca->epoch.w_max && n <= SATCC_WAIT_ROUNDS;

	if (!acked || rs->prior_in_flight + SATCC_SLACK + ca->w / 8 < ca->w)
		return;
	if (queue && (ca->mode != SATCC_SHARED ||
		      before(rs->prior_delivered, ca->epoch.cut_delivered)))
		return;
	if (queue || waits) {
		step = satcc_cubic_step(tcp_sk(sk), ca);
	} else {
		ca->epoch.w_begin = 0;
		step = satcc_probe_step(ca, ca->epoch.w_max ? n - SATCC_WAIT_ROUNDS : n);
	}
	satcc_earn(ca, step, acked);
}

/* What follows is paced. */
static void satcc_end_train(struct sock *sk, struct satcc *ca)
{
	ca->train = SATCC_TRAIN_DONE;
	satcc_pacing_enable(sk);
}

/* The first data ACK's RTT, against the handshake's, of which srtt is seven eighths. Where
 * ACKs wait for a slot these differ.
 */
static u32 satcc_jitter_us(const struct tcp_sock *tp, long rtt_us)
{
	return rtt_us > 0 ? abs((s32)(satcc_srtt_us(tp) - (u32)rtt_us)) * 8 / 7 : 0;
}

/* The first data ACK: what is in flight now left back to back and is the train. */
static void satcc_begin_train(struct sock *sk, struct satcc *ca, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ca->train = SATCC_TRAIN_COLLECT;
	ca->train_jitter_us = satcc_jitter_us(tp, rs->rtt_us);
	ca->train_end = tp->delivered + tcp_packets_in_flight(tp);
	ca->start.t0_us = tp->tcp_mstamp;
	ca->start.train_delivered = tp->delivered;
	satcc_hoe_start(&ca->start.hoe);
}

/* The window that the train gives, 0 = none. Where the train took longer than RTTs differ
 * for no queue, by a third, it is Hoe's, from the third ACK on. Else its ACKs may have come
 * in a bunch, and when all are there its time is taken to be longer by the difference: ten
 * ACKs out of one time slot of 22.8 ms cost 3020 drops in 30 s.
 */
static u32 satcc_train_w(const struct satcc *ca, u32 pkts, bool over)
{
	u32 span_us = ca->start.hoe.span_us;

	if (ca->train_jitter_us <= span_us - span_us / 4)
		return satcc_hoe_window(&ca->start.hoe, SATCC_HOE_MIN_POINTS, ca->min_rtt_us);

	span_us += ca->train_jitter_us;
	if (!over || span_us < SATCC_HOE_MIN_SPAN_US)
		return 0;

	return div_u64((u64)pkts * ca->min_rtt_us, span_us);
}

/* Time the ACKs of what left back to back. */
static void satcc_train(struct sock *sk, struct satcc *ca, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 pkts = tp->delivered - ca->start.train_delivered, w;
	bool over = !before(tp->delivered, ca->train_end);

	if (ca->train == SATCC_TRAIN_WAIT) {
		if (tcp_is_cwnd_limited(sk))
			satcc_begin_train(sk, ca, rs);
		return;
	}
	if (rs->losses > 0 || tp->lost_out ||
	    !satcc_hoe_add(&ca->start.hoe, (u32)tp->tcp_mstamp - ca->start.t0_us,
			   pkts, ca->min_rtt_us)) {
		satcc_end_train(sk, ca);
		return;
	}
	w = satcc_train_w(ca, pkts, over);
	if (w)
		satcc_run(sk, ca, max(w, ca->w));
	else if (over)
		satcc_end_train(sk, ca);
}

/* START, when an ACK came. */
static void satcc_start(struct sock *sk, struct satcc *ca, const struct rate_sample *rs,
			bool queue)
{
	if (ca->train != SATCC_TRAIN_DONE)
		satcc_train(sk, ca, rs);
	if (ca->mode != SATCC_START)
		return;
	if (ca->train == SATCC_TRAIN_DONE &&
	    (queue || ca->flat_rounds >= SATCC_FLAT_ROUNDS))
		satcc_run(sk, ca, min(ca->w, max_t(u32, satcc_b(ca) + satcc_b(ca) / 4,
						   SATCC_W_RESTART)));
	else if (tcp_is_cwnd_limited(sk))
		satcc_set_w(ca, min(ca->w + rs->acked_sacked, satcc_cwnd_limit(tcp_sk(sk))));
}

/* Segments were sent into no queue: p follows, at once the first time, then every 256. What
 * is more than tolerate_pct is not the air's and not believed.
 */
static void satcc_update_p(struct satcc *ca, const struct rate_sample *rs)
{
	u32 lost = max(rs->losses, 0), p_q16;

	ca->quiet_sent = min_t(u32, ca->quiet_sent + rs->acked_sacked + lost,
			       SATCC_P_SEGMENTS_MAX);
	ca->quiet_lost = min_t(u32, ca->quiet_lost + lost, SATCC_P_LOST_MAX);
	if (ca->quiet_sent < SATCC_P_SEGMENTS && (ca->p_q16 || !ca->quiet_lost))
		return;

	p_q16 = ((u32)ca->quiet_lost << 16) / max_t(u32, ca->quiet_sent, 100);
	if (p_q16 * 100 <= satcc_param(tolerate_pct) << 16)
		ca->p_q16 = ca->p_q16 ? (7 * ca->p_q16 + p_q16) / 8 : p_q16;
	ca->quiet_sent = 0;
	ca->quiet_lost = 0;
}

/* Do so many losses, of so many segments, come of the air? Its mean and two deviations,
 * of the trim a mean more.
 */
static bool satcc_is_airs(const struct satcc *ca, u32 lost, u32 sent)
{
	unsigned long mean_q8 = (u64)min_t(u32, sent, U16_MAX) * ca->p_q16 >> 8;

	return ca->p_q16 && (u64)lost << 8 <= 2 * (mean_q8 + int_sqrt(mean_q8 << 8));
}

/* Segments were lost: why? prior_delivered: of the ACK that told, tp->delivered when what it
 * acknowledges was sent.
 */
static void satcc_answer(struct sock *sk, struct satcc *ca, u32 prior_delivered, bool quiet)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 lost = tp->lost - ca->round_lost, sent = tp->delivered - ca->round_delivered + lost;
	bool tolerates = satcc_param(tolerate_pct);

	if (ca->mode == SATCC_START) {
		if (!tolerates)
			satcc_congestion(sk, ca);
		return;
	}
	/* One answer a round trip, and while p = 0 one a recovery. What is lost of START's
	 * own segments has had one by its end, unless every loss is to have its own.
	 */
	if ((tolerates && before(prior_delivered, ca->epoch.cut_delivered)) ||
	    (!ca->p_q16 && before(tp->snd_una, ca->epoch.cut_seq)))
		return;
	if (quiet) {
		if (lost >= SATCC_MUCH_PKTS &&
		    (u64)lost * 100 > (u64)max(sent, ca->w) * 2 * satcc_param(tolerate_pct))
			satcc_congestion(sk, ca);
	} else if (satcc_is_airs(ca, lost, sent)) {
		ca->epoch.w_max = ca->w;
		satcc_begin_epoch(ca);
		satcc_trim(ca, satcc_queue_us(ca));
		satcc_reacted(sk, ca);
	} else {
		satcc_congestion(sk, ca);
	}
}

/* Was anything lost? */
static void satcc_losses(struct sock *sk, struct satcc *ca, const struct rate_sample *rs,
			 bool quiet)
{
	if (quiet)
		satcc_update_p(ca, rs);
	if (!satcc_param(tolerate_pct))
		ca->p_q16 = 0;
	if (rs->losses > 0)
		satcc_answer(sk, ca, rs->prior_delivered, quiet);
}

/* A recovery begins. What RACK's timer has found no ACK tells of: it is one segment, as far
 * as is known. And while p = 0 this recovery is to have its answer also for a loss that was
 * told of within the last one.
 */
static void satcc_recovery_losses(struct sock *sk, struct satcc *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!ca->min_rtt_us || (ca->in_ack && ca->p_q16))
		return;
	if (!ca->in_ack && satcc_is_quiet(ca))
		ca->quiet_lost = min_t(u32, ca->quiet_lost + 1, SATCC_P_LOST_MAX);
	if (ca->mode == SATCC_START || !before(tp->snd_una, ca->epoch.cut_seq))
		satcc_answer(sk, ca, tp->delivered, satcc_is_quiet(ca));
}

/* HOLD has cut by a fifth and more, and the RTT is what it was? A competitor's queue is
 * longer or shorter by then, one of the flow's own is gone; it is the path that is longer.
 */
static bool satcc_is_longer(const struct satcc *ca)
{
	s32 more_us = ca->round_rtt_us - ca->epoch.held_rtt_us;

	return ca->w <= ca->epoch.held_w - ca->epoch.held_w / 5 &&
	       abs(more_us) < (s32)satcc_threshold_us(ca) / 2;
}

/* A round trip of ALONE is over. */
static void satcc_hold(struct satcc *ca, bool queue)
{
	if (!queue) {
		ca->queue_rounds = 0;
		ca->trimmed = false;
		return;
	}
	if (!ca->queue_rounds)
		ca->epoch.held_w = ca->w;
	ca->queue_rounds++;
	if (ca->queue_rounds == SATCC_LOOK_ROUND)
		ca->epoch.held_rtt_us = ca->round_rtt_us;
	if (ca->queue_rounds >= SATCC_BUSY_ROUNDS) {
		ca->queue_rounds = 0;
		if (satcc_is_longer(ca)) {
			WRITE_ONCE(ca->min_rtt_us, min(ca->round_rtt_us, ca->epoch.held_rtt_us));
		} else {
			ca->mode = SATCC_SHARED;
			ca->trimmed = false;
			ca->epoch.w_max = max(ca->epoch.w_max, ca->epoch.held_w);
			satcc_begin_epoch(ca);
		}
		return;
	}
	if (!ca->trimmed)
		satcc_trim(ca, satcc_above_us(ca, ca->round_rtt_us));
	ca->trimmed = !ca->trimmed;
}

/* A round trip of START is over: has it brought a quarter more? */
static void satcc_start_round(struct satcc *ca, const struct rate_sample *rs)
{
	u32 last = max(ca->bw[1], ca->bw[2]);

	if (ca->train != SATCC_TRAIN_DONE || rs->is_app_limited)
		return;
	if (ca->bw[0] > last + last / 4)
		ca->flat_rounds = 0;
	else if (ca->flat_rounds < SATCC_FLAT_ROUNDS)
		ca->flat_rounds++;
}

/* Once a round trip: the segments sent since the last time have come to be ACKed. */
static void satcc_round(struct sock *sk, struct satcc *ca, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	bool queue;

	if (!ca->blocked && ca->block_samples)
		satcc_end_block(ca);
	ca->blocked = false;
	queue = satcc_above_us(ca, ca->round_rtt_us) >= satcc_threshold_us(ca);

	if (ca->mode == SATCC_START)
		satcc_start_round(ca, rs);
	else if (ca->mode == SATCC_ALONE)
		satcc_hold(ca, queue);
	else if (ca->quiet_rounds >= SATCC_WAIT_ROUNDS)
		ca->mode = SATCC_ALONE;
	if (queue)
		ca->p_q16 -= DIV_ROUND_UP(ca->p_q16, 1 << SATCC_P_FADE_SHIFT);
	if (ca->quiet_rounds < 31)
		ca->quiet_rounds++;

	ca->round_delivered = tp->delivered;
	if (ca->mode != SATCC_START)
		ca->round_lost = tp->lost;
	ca->round_rtt_us = 0;
	ca->bw[2] = ca->bw[1];
	ca->bw[1] = ca->bw[0];
	ca->bw[0] = 0;
}

/* Does the sysctl ask for a window that stands on what was sent lately? */
static bool satcc_restarts(const struct sock *sk)
{
	return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle);
}

/* What the application has left of W unused for a timeout's time, half of it goes (RFC
 * 2861), as the core does it for others. What the receiver leaves unused stays: its window
 * opens from 64 kB, and W was found by the first ten segments.
 */
static void satcc_validate(struct sock *sk, struct satcc *ca)
{
	u32 used = max_t(u32, satcc_used_pkts(sk), SATCC_W_RESTART);

	if (!tcp_sk(sk)->app_limited || tcp_is_cwnd_limited(sk) || ca->mode == SATCC_START ||
	    inet_csk(sk)->icsk_ca_state != TCP_CA_Open || !satcc_restarts(sk) ||
	    (s32)(tcp_jiffies32 - satcc_used_since(sk)) < (s32)inet_csk(sk)->icsk_rto)
		return;
	if (used < ca->w) {
		satcc_set_w(ca, (ca->w + used) / 2);
		satcc_begin_epoch(ca);
	}
	satcc_reset_used(sk);
}

/* delivered is below 2^30: the rate's numerator fits 54 bits. */
static void satcc_update_bw(struct satcc *ca, const struct rate_sample *rs)
{
	u64 bw;

	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return;
	bw = div64_long((u64)rs->delivered << SATCC_BW_SHIFT, rs->interval_us);
	if (!rs->is_app_limited || bw > satcc_bw(ca))
		ca->bw[0] = max_t(u64, ca->bw[0], min_t(u64, bw, U32_MAX));
}

/* cwnd = W, but after a timeout and after idleness by slow start, and while more is in
 * flight than W by what was delivered.
 */
static void satcc_set_cwnd(struct sock *sk, struct satcc *ca, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 flight = tcp_packets_in_flight(tp), w = min(ca->w, tp->snd_cwnd_clamp);
	u32 cwnd = w, credit;

	if (ca->ramp) {
		cwnd = min(tcp_snd_cwnd(tp) + rs->acked_sacked, w);
		if (cwnd == w)
			ca->ramp = inet_csk(sk)->icsk_ca_state == TCP_CA_Loss;
	} else if (flight >= w && ca->mode != SATCC_START) {
		credit = ca->shrink_credit + rs->acked_sacked * SATCC_SHRINK_EIGHTHS;
		cwnd = flight + max_t(u32, credit / 8, rs->losses > 0);
		ca->shrink_credit = credit % 8;
	}
	tcp_snd_cwnd_set(tp, clamp_t(u32, cwnd, 1, tp->snd_cwnd_clamp));
}

/* Not until a train has been timed: fq would pace it. */
static void satcc_pace(struct sock *sk, const struct satcc *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct netns_ipv4 *ipv4 = &sock_net(sk)->ipv4;
	u64 rate = (u64)tp->mss_cache * ((USEC_PER_SEC / 100) << 3);

	if (!tp->srtt_us)
		return;
	rate *= ca->mode == SATCC_START ? READ_ONCE(ipv4->sysctl_tcp_pacing_ss_ratio) :
					  READ_ONCE(ipv4->sysctl_tcp_pacing_ca_ratio);
	rate *= min(ca->w, tp->snd_cwnd_clamp);
	rate = div_u64(rate, tp->srtt_us);
	if (ca->train != SATCC_TRAIN_DONE)
		rate = ~0UL;
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

/* W is in segments, and what a segment is may change. */
static void satcc_update_mss(struct sock *sk, struct satcc *ca)
{
	u32 mss = min_t(u32, tcp_sk(sk)->mss_cache, U16_MAX);

	if (mss == ca->mss)
		return;
	if (ca->mss && mss)
		satcc_set_w(ca, div_u64((u64)ca->w * ca->mss, mss));
	ca->mss = mss;
}

/* Obey a mark, or a full queue of this host: once for every state of the core's. */
static void satcc_mark(struct sock *sk, struct satcc *ca)
{
	ca->marked = true;
	satcc_congestion(sk, ca);
}

static void satcc_main(struct sock *sk, SATCC_ACK_FLAG const struct rate_sample *rs)
{
	struct satcc *ca = satcc_state(sk);
	u32 queue_us, threshold_us;
	bool queue, quiet;

	satcc_update_mss(sk, ca);
	satcc_update_rtt(sk, ca, rs->rtt_us);
	if (rs->delivered > 0 && !before(rs->prior_delivered, ca->round_delivered)) {
		satcc_round(sk, ca, rs);
		satcc_validate(sk, ca);
	}
	satcc_update_bw(ca, rs);
	if (ca->ece && !ca->marked && inet_csk(sk)->icsk_ca_state > TCP_CA_CWR)
		satcc_mark(sk, ca);
	if (ca->min_rtt_us) {
		queue_us = satcc_queue_us(ca);
		threshold_us = satcc_threshold_us(ca);
		queue = queue_us >= threshold_us;
		quiet = satcc_param(tolerate_pct) && queue_us < threshold_us / 2;
		satcc_losses(sk, ca, rs, quiet);
		if (queue)
			ca->quiet_rounds = 0;
		if (ca->mode == SATCC_START)
			satcc_start(sk, ca, rs, queue);
		else
			satcc_grow_w(sk, ca, rs, queue);
	}
	satcc_set_cwnd(sk, ca, rs);
	satcc_pace(sk, ca);

	ca->in_ack = false;
	ca->ece = false;
}

/* Called for every ACK, before the core decides what it means. */
static void satcc_in_ack_event(struct sock *sk, u32 flags)
{
	struct satcc *ca = satcc_state(sk);

	ca->in_ack = true;
	ca->ece = !!(flags & CA_ACK_ECE);
}

/* A reduction begins, and why is not known yet: see satcc_set_state(). */
static u32 satcc_ssthresh(struct sock *sk)
{
	struct satcc *ca = satcc_state(sk);

	ca->reduced = true;
	ca->marked = false;
	ca->prior_p_q16 = ca->p_q16;
	if (ca->mode != SATCC_START) {
		ca->epoch.prior_w = ca->w;
		ca->epoch.prior_w_max = ca->epoch.w_max;
	}

	return max(ca->w, 2U);
}

/* The reduction was for nothing, and so is what was learnt of the losses. */
static u32 satcc_undo_cwnd(struct sock *sk)
{
	struct satcc *ca = satcc_state(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	ca->p_q16 = ca->prior_p_q16;
	ca->quiet_lost = 0;
	ca->ramp = false;
	if (ca->mode != SATCC_START && ca->epoch.prior_w) {
		satcc_set_w(ca, max(ca->w, ca->epoch.prior_w));
		ca->epoch.w_max = ca->epoch.prior_w_max;
		satcc_begin_epoch(ca);
	}

	return max(tcp_snd_cwnd(tp), min(ca->w, tp->snd_cwnd_clamp));
}

/* Loss without a reduction is no timeout: the core sends again what was too long for the
 * path. Where no queue showed, growth does not wait after a timeout.
 */
static void satcc_timeout(struct sock *sk, struct satcc *ca)
{
	u32 w = ca->w;

	ca->ramp = true;
	if (!ca->reduced)
		return;
	satcc_congestion(sk, ca);
	ca->epoch.prior_w = w;
	if (ca->min_rtt_us && !satcc_is_queue(ca))
		ca->epoch.w_max = ca->epoch.prior_w_max;
}

/* Called before the state changes. CWR is for a mark or for a full queue of this host; or
 * for a tail loss that a probe has repaired, and then it is over within the same ACK.
 */
static void satcc_set_state(struct sock *sk, u8 new_state)
{
	struct satcc *ca = satcc_state(sk);

	if (new_state == TCP_CA_Loss)
		satcc_timeout(sk, ca);
	else if (new_state <= TCP_CA_Disorder)
		ca->marked = false;
	else if (ca->ece || (new_state == TCP_CA_CWR &&
			     (!ca->in_ack || !satcc_is_quiet(ca))))
		satcc_mark(sk, ca);
	else if (new_state == TCP_CA_Recovery)
		satcc_recovery_losses(sk, ca);
	ca->reduced = false;
}

/* Nothing was in flight, and a segment leaves. After idleness cwnd is halved for every
 * timeout's time, and goes by slow start to three quarters of W, as it does with others.
 */
static void satcc_tx_start(struct sock *sk)
{
	struct satcc *ca = satcc_state(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	s32 idle = tcp_jiffies32 - tp->lsndtime, rto = inet_csk(sk)->icsk_rto;
	u32 cwnd = tcp_snd_cwnd(tp);

	ca->in_ack = false;
	ca->ece = false;
	if (tp->packets_out || idle <= 0)
		return;
	/* CUBIC's clock stands still while nothing is sent */
	if (ca->mode != SATCC_START)
		ca->epoch.begin_ms += jiffies_to_msecs(idle);
	if (idle <= rto || !satcc_restarts(sk))
		return;
	while ((idle -= rto) > 0 && cwnd > SATCC_W_RESTART)
		cwnd = max(cwnd / 2, (u32)SATCC_W_RESTART);
	if (ca->mode == SATCC_START) {
		satcc_set_w(ca, cwnd);
	} else {
		satcc_set_w(ca, max_t(u32, cwnd, ca->w - ca->w / 4));
		satcc_begin_epoch(ca);
		ca->quiet_rounds = 0;
		ca->ramp = true;
	}
	tcp_snd_cwnd_set(tp, min(cwnd, ca->w));
	satcc_pace(sk, ca);
}

static void satcc_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		satcc_tx_start(sk);
}

/* Before, in or long after the handshake, and on bytes of another policy. Only what a fresh
 * flow sends first is a train.
 */
static void satcc_init(struct sock *sk)
{
	struct satcc *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	memset(ca, 0, sizeof(*ca));
	WRITE_ONCE(ca->owner, satcc_owner(sk, &tcp_satcc));
	satcc_set_w(ca, tcp_snd_cwnd(tp));
	ca->mss = min_t(u32, tp->mss_cache, U16_MAX);
	ca->round_delivered = tp->delivered;
	if (tp->bytes_sent)
		satcc_update_rtt(sk, ca, satcc_min_rtt_us(tp));
	if (tp->bytes_sent || !satcc_param(hoe)) {
		ca->train = SATCC_TRAIN_DONE;
		satcc_pacing_enable(sk);
	}
	satcc_pace(sk, ca);
}

/* Segments delivered, but not in order, stay in the buffer until a hole before them is
 * filled: a round trip and more where one recovery follows the other.
 */
static u32 satcc_sndbuf_expand(struct sock *sk)
{
	return 3;
}

static u32 __maybe_unused satcc_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, true);
}

/* In the slot of Vegas, which ss(8) knows: enabled = START is over, rttcnt = W, rtt = srtt,
 * minrtt = RTT_min; us.
 */
static size_t satcc_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct satcc *ca = inet_csk_ca(sk);

	if (!satcc_owned(sk, READ_ONCE(ca->owner), &tcp_satcc))
		return 0;

	return satcc_vegas_info(ext, attr, info, ca->mode != SATCC_START, READ_ONCE(ca->w),
				satcc_srtt_us(tcp_sk(sk)), READ_ONCE(ca->min_rtt_us));
}

static struct tcp_congestion_ops tcp_satcc __read_mostly = {
	.init		= satcc_init,
	.ssthresh	= satcc_ssthresh,
	.undo_cwnd	= satcc_undo_cwnd,
	.cong_control	= satcc_main,
	.in_ack_event	= satcc_in_ack_event,
	.set_state	= satcc_set_state,
	.cwnd_event	= satcc_cwnd_event,
	SATCC_TX_START(satcc_tx_start)
	SATCC_MIN_TSO_SEGS(satcc_min_tso_segs)
	.sndbuf_expand	= satcc_sndbuf_expand,
	.get_info	= satcc_get_info,
	.owner		= THIS_MODULE,
	.name		= "satcc",
};

static int __init satcc_register(void)
{
	BUILD_BUG_ON(sizeof(struct satcc) > ICSK_CA_PRIV_SIZE);

	return tcp_register_congestion_control(&tcp_satcc);
}

static void __exit satcc_unregister(void)
{
	tcp_unregister_congestion_control(&tcp_satcc);
}

module_init(satcc_register);
module_exit(satcc_unregister);

MODULE_AUTHOR("satcc authors");
MODULE_DESCRIPTION("TCP congestion control for satellite paths");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1");
