// SPDX-License-Identifier: GPL-2.0
/* satcc, for senders whose path has a satellite or another long delay, and loses segments
 * without being full. It sets its window W, in segments, in every state; cwnd is W, but after
 * a timeout or idleness cwnd grows to W by slow start. At each loss it checks for a queue.
 * Without a queue the loss is random and W stays; with a queue it is congestion, as for CUBIC.
 * Alone on its path a flow keeps the queue almost empty; where other flows fill the queue it
 * behaves like a CUBIC flow.
 *
 * The model of the path:
 *
 *   RTT_min  smallest RTT, no older than net.ipv4.tcp_min_rtt_wlen (300 s)
 *   bw       largest delivery rate in this round trip and the two before
 *   b        bw RTT_min, the BDP without a queue
 *   q        delay of the queue: smallest of the last 16 to 31 RTTs, or of this and the last
 *            round trip if they have fewer, less RTT_min
 *   thr      from here on q counts as a queue: the largest of min(RTT_min / 16, 25 ms),
 *            2 ms, and min(two segments' time at bw, RTT_min / 8)
 *   n        round trips since q >= thr, the last cut, the last restart or START
 *   p        random loss rate, measured while q < thr / 2
 *
 *                Hoe's estimate;            a queue in 6 round trips, in spite of
 *                a queue; no growth         HOLD; q grows in HOLD; the queue drops
 *        START ---------------------> ALONE ----------------------> SHARED
 *                                    |  ^ ^                            |
 *                q >= thr:  HOLD     |  | |                            |
 *                q < thr:  PROBE     +--+ +----------------------------+
 *                       RTT_min was too small       n = 16, or RTT_min
 *                                                   was too small
 *
 *   START    The spacing of the first ACKs gives the bottleneck's rate (hoe.h). W becomes
 *            rate times RTT_min, and the flow is paced. If the ACKs may be bunched, the
 *            estimate waits for all ACKs of the first flight and assumes a longer time.
 *            If all ACKs of a flight arrive within 1 ms, satcc measures the next flight,
 *            unless the estimate assumes a longer time. A loss ends this, and so do merged ACKs:
 *            if fewer than three report a flight, and the last also a part of the next.
 *            Without an estimate W doubles every round trip. START ends when bw has not grown
 *            by a quarter in 3 round trips. When q >= thr, unless the application limits the
 *            flow, START ends if b < 2/5 W; otherwise W stays for a round trip. If the path
 *            delivers 7/8 W, the queue was that of a burst: W grows by half and stays again.
 *            Otherwise START ends.
 *   PROBE    W grows by RTT_min / 25 ms segments in the first round trip and by twice as
 *            much in each next one: by at most W/4, up to 5/4 b; from n = 4 on by at most
 *            W/2, up to 2 b. In a flow that was cut for a loss or a mark, or was SHARED, W
 *            grows as in CUBIC for 16 round trips after each queue, if that is slower. If
 *            tolerate_pct is 0, it then always does so.
 *   HOLD     W does not grow. Every second round trip W is cut to what leaves a queue of
 *            thr / 2, but by at most 30 %, and to no less than four segments. If the RTT
 *            grows meanwhile by queue_ms and by thr, or the queue drops segments although the
 *            path delivers 3/4 of W in a round trip, then the queue belongs to other flows.
 *   SHARED   CUBIC (RFC 9438): C = 0.4, beta = 0.7, fast convergence, Reno-friendly.
 *
 *   loss while q < thr / 2      random: W stays, p is updated. If a round trip loses more
 *                               than twice tolerate_pct: W *= 0.7. If 256 segments, and a
 *                               round trip (768 at most), lose more than tolerate_pct: as any
 *                               other loss. While p = 0 the first loss ends these 256
 *                               early, and is one of 100 segments at least
 *   other loss that p explains  W is cut as in HOLD, though also below four segments. If HOLD has
 *                               cut it in this round trip, it is not cut again. PROBE waits
 *   any other loss              W *= 0.7
 *   most of a round trip lost   while q < thr, as behind a policer, two round trips and more after
 *                               the last cut: W becomes what the path passes, and then W *= 0.7;
 *                               in an outage it is W *= 0.7 alone
 *   ECN mark, local drop        W *= 0.7 at any q; HOLD does not cut in that round trip. A mark of
 *                               what was in flight at the last W *= 0.7 changes nothing
 *   timeout                     W *= 0.7, unless the reduction before has and p has explained no
 *                               loss since; cwnd grows to W by slow start, from in flight + 1; if
 *                               Loss lasts for two round trips without a queue, it then jumps to
 *                               W/2
 *
 * In slow start after idle, or after Loss, these rules compare losses with cwnd, and cut cwnd, in
 * place of W. If twice what the path delivers in a round trip is less than cwnd, they use that.
 * A timeout cuts W.
 *
 * p explains at most 2 m + 2 sqrt(m) losses. m is what p predicts: p times the segments of this
 * round trip so far. If q < thr and p W is at least 1, m is p W. The flow reacts once per round
 * trip, and while p = 0 once per recovery, because a full queue also drops retransmissions, and
 * those drops are no new congestion. If segments sent two windows after the cut are lost too, or
 * most of a round trip without a queue, the flow reacts again.
 *
 * If more than W is in flight, five segments leave for every eight delivered, and an ACK that
 * reports a loss releases at least one segment, but not while cwnd grows by slow start. If
 * W *= 0.7 applied at once, nothing could leave until 30 % of the flight were acknowledged; the
 * retransmission timer expired before that, 0.2 s after the first dupack at 600 ms. The pacing
 * rate is net.ipv4.tcp_pacing_ss_ratio percent of W / srtt in START, else tcp_pacing_ca_ratio.
 * In SHARED a W of 16 segments and more is paced only in slow start, by fq or by
 * SO_MAX_PACING_RATE: ACKs clock the flow, as they clock CUBIC.
 *
 * A path that becomes longer looks like a queue that HOLD cannot empty. HOLD cuts W three
 * times before its sixth round trip, at most to a third. If W has then fallen by a fifth, and the
 * RTT differs from that of the fourth round trip by less than thr / 2, there is no queue, and the
 * RTT becomes RTT_min. The queue of other flows would have grown or shrunk. A path that becomes
 * longer by a tenth or less makes W fall by less than a fifth, so the flow becomes SHARED. HOLD
 * does not cut a W of four segments. The flow's own queue may then keep the RTT the same, so
 * RTT_min stays. SHARED does the same as HOLD when the RTT stays within thr / 8 for seven round
 * trips in which W changes by a fifth, and is 32 segments or more.
 *
 * Example at 600 ms, 10 Mbit/s, 1500 byte segments: the flow sends ten segments, whose ACKs
 * arrive 1.2 ms apart. That is 826 per second, so W = 495 after the third ACK, 1.2 s after
 * the SYN, and the flow is paced. q is 0, so W grows by 24, then by 48. Then q >= 25 ms, and
 * HOLD cuts W to 510. This repeats; on average the queue holds 37 of its 496 segments. When
 * a segment is lost at random, q < 12.5 ms, so W stays; p becomes at most 1 % and then
 * follows the loss rate. When a CUBIC flow joins, q >= 25 ms for six round trips, and from the
 * seventh on satcc behaves like CUBIC.
 *
 * The core leaves to a ->cong_control() the window in recovery and at its end, the pacing
 * rate, the restart after idle, and the decay of a window that the application does not
 * use; these are here. The core does detection of losses, undo, F-RTO, RACK and TLP.
 *
 * "A round trip with a queue" is one whose smallest RTT exceeds RTT_min by thr.
 *
 * Limits:
 * - satcc does not detect a queue that delays by less than thr / 2, such as CoDel's on a
 *   long path. It takes the drops there as random, up to tolerate_pct. It reacts to marks.
 * - It takes a queue that was there before the flow as part of the path: RTT_min includes
 *   that queue until the other flows drain it. Ten satcc flows therefore lose more than ten
 *   CUBIC flows.
 * - While the receiver's window keeps the flight below W, a cut of W changes nothing until W is
 *   below the flight, and losses are compared with W. W stays because that window may open later.
 * - A flow that keeps its flight below W by itself may take a steady queue of others for a longer
 *   path: HOLD's cuts of W do not change the flight, and so not the RTT.
 * - It takes a fade that loses more than half of the segments for more than three round trips for
 *   a policer.
 * - Where the link grants a rate for what is in the queue (bandwidth on demand), it asks for
 *   little, because it keeps the queue short.
 * - At 600 ms it may not get its share beside CUBIC in a queue of 2 to 4 BDP. From 100 ms on it
 *   may not leave Reno its share. Both happen to CUBIC in its place too. At 600 ms it may have two
 *   shares beside four CUBIC flows in a queue of half a BDP, probably because it starts with more.
 *
 * The comment of each constant gives the reason for its value. "Simulator" is a program
 * with one drop-tail queue and this file compiled into it. A figure with "lab" is of the build
 * in which we chose the value; README-satcc.md has the figures of today.
 */
#include <linux/module.h>
#include <net/tcp.h>

#include "compat.h"
#include "core_state.h"
#include "hoe.h"
#include "info.h"
#include "owner.h"
#include "pacing.h"
#include "param.h"
#include "socket.h"

/* Rates are in segments per us, Q24: from 0.06 segments per second, which is less than one
 * segment in any round trip, to 256 per us, which is 3 Tbit/s.
 */
#define SATCC_BW_SHIFT	24

enum satcc_mode {
	SATCC_START,	/* W unknown */
	SATCC_ALONE,	/* PROBE, and HOLD while there is a queue */
	SATCC_SHARED,	/* CUBIC among others */
};

/* Kept in queue_rounds in START: the flow doubts whether a queue is W's or a burst's. */
enum satcc_doubt {
	SATCC_DOUBT_NONE,	/* no queue yet */
	SATCC_DOUBT_WAIT,	/* W stays; the round trip in which the queue was seen */
	SATCC_DOUBT_STAY,	/* W stays for a whole round trip */
	SATCC_DOUBT_GROW,	/* W grows by half for a whole round trip */
};

enum satcc_train {
	SATCC_TRAIN_WAIT,	/* waiting for the first full window */
	SATCC_TRAIN_COLLECT,
	SATCC_TRAIN_DONE,
};

/* State in START. */
struct satcc_start {
	struct satcc_hoe hoe;
	u32	t0_us;			/* time of the train's first ACK */
	u32	train_delivered;	/* tp->delivered at that ACK */
};

/* State in the other modes. */
struct satcc_epoch {
	u32	w_max;			/* W before the last cut; 0 = none */
	u32	w_begin;		/* W at the epoch's begin; 0 = it has not begun */
	u32	begin_ms;		/* time of the epoch's begin */
	u32	k_ms:21,		/* time from begin_ms until W is w_max again */
		unearned:11;		/* delivered segments for which W has not grown */
	u32	cut_delivered;		/* tp->delivered at the last cut */
	u32	cut_seq;		/* tp->snd_nxt at the last cut, or if later snd_una - 1 */
	u32	prior_w;		/* W before the core's reduction, for undo; 0 = none */
	u32	prior_w_max;		/* w_max before it */
	u32	held_w;			/* W when HOLD, or a steady RTT, began */
	u32	held_rtt_us;		/* round_rtt_us in HOLD's second, then fourth round, or
					 * when a steady RTT began
					 */
};

/* Per flow. Written under the socket lock; owner, min_rtt_us, w and mode are also read
 * by get_info(), without it.
 */
struct satcc {
	u32	owner;			/* policy and socket of these bytes, see owner.h */
	u32	min_rtt_us;		/* RTT_min; 0 = no sample */
	u32	w;			/* W, segments */
	u32	bw[3];			/* largest rate of this round and the two before */
	u32	round_delivered;	/* tp->delivered at the round's start */
	u32	round_rtt_us;		/* smallest RTT of the round; 0 = no sample */
	u32	block_rtt_us;		/* smallest RTT of the block; 0 = no sample */
	u32	last_block_rtt_us;	/* smallest RTT of the block before; 0 = none */
	u32	rtt_us;			/* last RTT sample; 0 = none */
	union {
		u32	train_jitter_us; /* START: difference of two RTTs without a queue */
		u32	round_lost;	/* other modes: tp->lost at the round's start */
	};
	u16	p_q16;			/* p: random loss rate */
	u16	prior_p_q16;		/* p before the core's reduction, for undo */
	u16	mss;			/* size of W's segments, bytes */
	u16	quiet_sent:10,		/* segments sent without a queue since p was updated */
		shrink_credit:3,	/* eighths of a segment, while the flight shrinks to W */
		excess:2,		/* batches in a row that lost more than tolerate_pct */
		cut:1;			/* the last reaction was a cut to 70 % */
	u32	quiet_lost:7,		/* losses among quiet_sent */
		quiet_rounds:5,		/* n: rounds since the last queue */
		block_samples:4,	/* RTT samples in the block */
		queue_rounds:3,		/* rounds in a row with a queue; in SHARED, of one RTT;
					 * in START, enum satcc_doubt
					 */
		mode:2,			/* enum satcc_mode */
		train:2,		/* enum satcc_train */
		flat_rounds:2,		/* rounds in a row in which bw did not grow in START */
		ramp:1,			/* cwnd grows to W by slow start */
		trimmed:1,		/* ALONE: HOLD, or a mark, has cut in the round before */
		blocked:1,		/* a block has ended in this round */
		in_ack:1,		/* between ->in_ack_event() and the ACK's end */
		ece:1,			/* this ACK echoes a mark */
		marked:1,		/* W is cut for the marks of this state of the core */
		reduced:1;		/* the core called ssthresh(); set_state() follows */
	union {
		u32	train_end;	/* START: tp->delivered when the train is acknowledged */
		u32	credit;		/* other modes: credit for the next segment of W */
	};
	union {
		struct satcc_start start;
		struct satcc_epoch epoch;
	};
};

/* The largest random loss rate that satcc believes. 10: at a true rate of 5 % one of
 * 1800 batches of 256 segments loses more than 10 %. 0 treats all losses as CUBIC does.
 */
SATCC_PARAM(tolerate_pct, 10, 0, 50);
MODULE_PARM_DESC(tolerate_pct,
		 "random loss to tolerate, percent; 0: every loss is congestion (0-50, default 10)");

/* On a long path a shorter delay is no queue, so satcc keeps about this much. It must exceed
 * the delay that a return link adds: time slots of 22.8 ms are below it.
 */
SATCC_PARAM(queue_ms, 25, 1, 1000);
MODULE_PARM_DESC(queue_ms,
		 "delay that counts as a queue, ms; at most RTT / 16 is used (1-1000, default 25)");

SATCC_PARAM(hoe, 1, 0, 1);
MODULE_PARM_DESC(hoe, "start by the spacing of the first ACKs (0/1, default 1)");

/* thr. A fraction of RTT_min alone would miss a queue of 0.1 BDP. An absolute time alone is
 * most of a short path's queue, with a Jain index of .56 beside CUBIC instead of .96. A
 * burst of the flow itself makes a queue of two segments. Their time is at the flow's own
 * share of the rate, so RTT_min / 8 bounds it. Without that bound ten flows on 10 Mbit/s
 * and 40 ms lose 8426 segments in a minute, with it 2446 (simulator).
 */
#define SATCC_QUEUE_DIV		16
#define SATCC_QUEUE_MIN_US	2000
#define SATCC_QUEUE_PKTS	2
#define SATCC_SEGMENTS_DIV	8

/* RTT samples in a block. A mean instead of the smallest RTT takes 50 ms of jitter for a
 * queue (1.4 of 10 Mbit/s). The smallest RTT of a round trip comes a round trip late: 304
 * drops in a minute without random loss. The RTT of the ACK that reports a loss gives 2.5
 * Mbit/s instead of 8.6 with 20 ms of jitter and 1 % loss.
 */
#define SATCC_BLOCK_SAMPLES	16

/* The percentage of W left after congestion, and C. Both are CUBIC's (RFC 9438), so that
 * satcc among CUBIC flows behaves like one of them.
 */
#define SATCC_CUT_PCT		70
#define SATCC_CUBIC_MS3		2500000000ULL	/* 1 / C, in ms^3 a segment */
#define SATCC_FRIEND_PCT	53		/* 3 (1 - .7) / (1 + .7) segments per RTT */
#define SATCC_CUBIC_MAX_MS	BIT(20)		/* its third power is 2^60 */

/* The least W that is not paced in SHARED. Paced segments come one by one. In a full queue they
 * find room more often than CUBIC's pairs, which an ACK releases. At 25 and 100 ms a paced flow
 * has 1.47 and 1.35 of an equal share beside one CUBIC flow, and 1.39 and 1.70 beside four.
 * Without pacing it has 1.03 and 1.06, and 1.23 and 1.03. A small W is paced, because pairs are
 * coarse there: without pacing at any W, Jain's index of ten flows at 10 Mbit/s and 40 ms is .64,
 * and with 16 it is .99 (lab, queue of 1 BDP; beside CUBIC the ACKs have jitter).
 */
#define SATCC_CLOCK_W		16

/* While the flight shrinks, five segments leave for every eight delivered: shrinking by 30 %
 * takes .8 round trips.
 */
#define SATCC_SHRINK_EIGHTHS	5

/* Least W. With 4, ten flows do not fit a path of 40 ms and 10 Mbit/s with a queue of a
 * quarter BDP.
 */
#define SATCC_W_MIN		2

/* HOLD cuts W to no less. A receiver may acknowledge every second segment. With fewer than 4
 * in flight the path then idles until the ACK arrives, and two segments in a row look like a
 * queue. On a path of .57 Mbit/s and 55 ms HOLD kept W at 2 and 3: .35 Mbit/s for 30 s (lab).
 * If the queue stays nevertheless, the flow becomes SHARED, where W may be less.
 */
#define SATCC_W_HOLD		4

/* The least W to which a queue or missing growth cuts at the end of START: the initial window of
 * RFC 6928.
 */
#define SATCC_W_START		10

/* After a timeout, this many round trips without a queue show that the path is back, and in Loss
 * cwnd jumps to W/2, paced. With 1 s of outage each 15 s, at 10 Mbit/s and 600 ms, where slow start
 * takes nine round trips, a flow gets 7.12 Mbit/s with the jump and 5.74 without (lab).
 */
#define SATCC_JUMP_ROUNDS	2

/* W counts as filled when at least W - W/8 - SATCC_SLACK segments are in flight. */
#define SATCC_SLACK		4

/* W grows once for this many delivered segments, or for W/4 if that is less. If it grew at each
 * ACK, an ACK would cost 443 instructions with 1 % of loss, instead of 328 (bbr: 337; lab).
 */
#define SATCC_EARN_SEGMENTS	16

/* PROBE: RTT_min per segment of the first step, and the n from which PROBE is fast. 25 ms is
 * Hybla's reference RTT.
 */
#define SATCC_PROBE_US		25000
#define SATCC_PROBE_FAST	4

/* In a flow that was cut for a loss or a mark, or was SHARED, W grows as in CUBIC for this many
 * round trips without a queue before PROBE. With a queue of 0.1 BDP, CUBIC beside satcc gets of
 * 10 Mbit/s at 40 and 250 ms: 3.2 and 2.6 with 16, 2.7 and 1.4 with 8, .9 and .4 with 0. Alone
 * with 1 % random loss a satcc flow gets 9.0, 9.0 and 8.9 (simulator). If tolerate_pct is 0,
 * PROBE does not follow. Behind a policer no RTT shows a queue, and PROBE doubles W: with a
 * bucket of 50 ms, at 10 Mbit/s and 40 ms, it makes the policer drop 9 % of the segments instead
 * of 1 % (lab).
 */
#define SATCC_WAIT_ROUNDS	16

/* After this many round trips with a queue, it counts as the queue of other flows. By then
 * HOLD has cut W three times to what empties the queue, by 30 % at most each, or to four
 * segments.
 */
#define SATCC_BUSY_ROUNDS	6

/* HOLD's round trip whose RTT is compared with that of the sixth. By then the flow's own
 * queue is gone, and one more cut follows.
 */
#define SATCC_LOOK_ROUND	4

/* HOLD's first round trip whose segments left after W had stopped to grow. From the next one
 * on a longer RTT is the work of others. Without this a flow that has taken a queue for its
 * path never counts six round trips with a queue, because CUBIC's saw shows it RTT_min in
 * between: the smallest of ten flows that start .1 s apart at 10 Mbit/s and 600 ms gets 5 %
 * of its share, with it 62 %; at 40 ms nothing changes (simulator).
 */
#define SATCC_SETTLED_ROUND	2

/* The largest change of the RTT, as a part of thr, and the least W with which SHARED finds
 * that the path is longer. With 4 instead of 8, or with a W of less than 32, ten flows at
 * 10 Mbit/s and 40 ms take a full queue for the path and lose 12,000 segments in place of
 * 3000. Without this a path that becomes longer while a flow alone holds its own queue, or
 * loses a segment, keeps the flow in SHARED: 4 of 10 Mbit/s at 600 ms, for 300 s (simulator).
 */
#define SATCC_STEADY_DIV	8
#define SATCC_STEADY_W		32

/* While p = 0, a recovery that lasts for more than this many windows has another cut. Ten
 * flows that start .02 s apart at 10 Mbit/s and 600 ms lose 12,774 segments without it and
 * 9411 with it, and the smallest gets 38 % and 89 % of its share (simulator).
 */
#define SATCC_RECUT_WINDOWS	2

/* A cut counts as at most this many delivered segments ago. */
#define SATCC_CUT_FAR		BIT(30)

/* Round trips in which bw did not grow by a quarter, after which START ends (as in bbr). */
#define SATCC_FLAT_ROUNDS	3

/* A queue ends START if b is less than W by more than this part. In START the ACKs come in
 * bursts, which make a queue on a narrow return link at any W. If the first queue ended START,
 * 100 MB at 250 Mbit/s and 650 ms, with 3 Mbit/s of return, would take 18.1 s instead of 12.3
 * without an estimate, and with 1 % of loss 24.2 instead of 15.6 (lab). W grows from at most
 * 8/7 BDP, so to 1.7.
 */
#define SATCC_DOUBT_DIV		8

/* So many round trips after a cut, the losses of the round trip are of segments sent after it, so
 * they say what the path passes. After one, a flow behind a policer counts losses of its old W
 * against the new one: W falls to 208 segments where 500 pass (lab).
 */
#define SATCC_PASSED_ROUNDS	2

/* Fewer losses than this in a round trip are never too many. With 5, ten flows of some eight
 * segments each lost half of their segments to a short queue and did not slow down. The
 * limit of losses is a percentage of W, and not of the segments sent so far in the round
 * trip: that gives 7.8 of 10 Mbit/s at 5 % loss, instead of 5.2.
 */
#define SATCC_MUCH_PKTS		3

/* p is measured over 256 segments, and decays by 1/64 in a round trip with a queue, which is
 * by half in 44 round trips. If p were measured per round trip, one of two flows would learn
 * it and the other would not.
 */
#define SATCC_P_SEGMENTS	256U
#define SATCC_P_LOST_MAX	127
#define SATCC_P_FADE_SHIFT	6

/* A larger rate of loss than tolerate_pct is not random if it lasts for a round trip, but for
 * no more than this many batches of 256 segments. If one batch sufficed at any W, a flow of 500
 * segments would take a burst for congestion: 8.01 of 10 Mbit/s with fades, instead of 8.43
 * (lab).
 */
#define SATCC_EXCESS_MAX	3

static struct tcp_congestion_ops tcp_satcc;
static void satcc_init(struct sock *sk);

static struct satcc *satcc_state(struct sock *sk)
{
	struct satcc *ca = inet_csk_ca(sk);

	if (!satcc_owned(sk, READ_ONCE(ca->owner), &tcp_satcc))
		satcc_init(sk);

	return ca;
}

/* Returns bw, Q24; 0 = no sample. */
static u32 satcc_bw(const struct satcc *ca)
{
	return max3(ca->bw[0], ca->bw[1], ca->bw[2]);
}

/* Returns b, in segments. RTT_min is below 2^24, the product below 2^56. */
static u32 satcc_b(const struct satcc *ca)
{
	return clamp_t(u64, (u64)satcc_bw(ca) * ca->min_rtt_us >> SATCC_BW_SHIFT,
		       SATCC_W_MIN, SATCC_MAX_CWND);
}

/* Returns thr: from here on q counts as a queue. */
static u32 satcc_threshold_us(const struct satcc *ca)
{
	u32 bw = satcc_bw(ca), part = ca->min_rtt_us / SATCC_QUEUE_DIV, segments = 0;

	if (bw)
		segments = min(SATCC_QUEUE_PKTS * ((1U << SATCC_BW_SHIFT) / bw),
			       ca->min_rtt_us / SATCC_SEGMENTS_DIV);
	part = min_t(u32, part, satcc_param(queue_ms) * USEC_PER_MSEC);

	return max3(part, (u32)SATCC_QUEUE_MIN_US, segments);
}

/* Returns by how much an RTT exceeds RTT_min. */
static u32 satcc_above_us(const struct satcc *ca, u32 rtt_us)
{
	return rtt_us > ca->min_rtt_us ? rtt_us - ca->min_rtt_us : 0;
}

/* Returns q, the delay of the queue. */
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

/* May losses be random, because there is no queue? This uses q, and not the last RTT, because
 * the return link may delay a single ACK.
 */
static bool satcc_is_empty(const struct satcc *ca)
{
	return satcc_param(tolerate_pct) &&
	       satcc_queue_us(ca) < satcc_threshold_us(ca) / 2;
}

/* Have too many segments been lost without a queue for the losses to be random? */
static bool satcc_is_excess(const struct satcc *ca)
{
	u32 segments = ca->excess * SATCC_P_SEGMENTS;

	return segments && segments >= min(ca->w, SATCC_EXCESS_MAX * SATCC_P_SEGMENTS);
}

/* Would a loss now be random? */
static bool satcc_is_quiet(const struct satcc *ca)
{
	return !satcc_is_excess(ca) && satcc_is_empty(ca);
}

/* Called when the block is full, or at the end of a round trip that has not filled it. */
static void satcc_end_block(struct satcc *ca)
{
	ca->last_block_rtt_us = ca->block_rtt_us;
	ca->block_samples = 0;
	ca->blocked = true;
}

/* Add an RTT sample; <= 0 means none, because a retransmission made it ambiguous. RTT_min
 * comes from data only, because a SYN crosses the bottleneck faster, and is no older than
 * the core's; a flow that another policy began has the core's, SYN included. RTT_min takes the
 * larger of two consecutive samples: when 1 % of the segments overtook the others by 300 ms,
 * they set RTT_min otherwise (0.45 of 2 Mbit/s).
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

/* Returns the W that is left after congestion. */
static u32 satcc_cut(u32 w)
{
	return div_u64((u64)w * SATCC_CUT_PCT, 100);
}

/* Restart CUBIC's growth from W. */
static void satcc_begin_epoch(struct satcc *ca)
{
	ca->epoch.w_begin = 0;
	ca->epoch.unearned = 0;
	ca->credit = 0;
}

/* Leave START with this W, to which an undo of the reduction under way returns. */
static void satcc_run(struct sock *sk, struct satcc *ca, u32 w)
{
	ca->mode = SATCC_ALONE;
	ca->train = SATCC_TRAIN_DONE;
	satcc_set_w(ca, w);
	ca->quiet_rounds = 0;
	ca->queue_rounds = 0;
	ca->credit = 0;
	ca->round_lost = tcp_sk(sk)->lost;
	ca->epoch = (struct satcc_epoch){ .cut_delivered = tcp_sk(sk)->delivered,
					  .cut_seq = tcp_sk(sk)->snd_una,
					  .prior_w = ca->w };
	satcc_pacing_enable(sk);
}

/* Ignore losses among the segments in flight now: W has already been cut for them. */
static void satcc_reacted(struct sock *sk, struct satcc *ca)
{
	ca->epoch.cut_delivered = tcp_sk(sk)->delivered;
	ca->epoch.cut_seq = tcp_sk(sk)->snd_nxt;
}

/* Undo satcc_reacted(): nothing that was in flight has been answered. */
static void satcc_forget_cut(const struct tcp_sock *tp, struct satcc *ca)
{
	ca->epoch.cut_delivered = tp->delivered - SATCC_CUT_FAR;
	ca->epoch.cut_seq = tp->snd_una;
	ca->cut = false;
}

/* Has W been cut to 70 % since this byte was sent? A cut for losses that p explains is smaller,
 * and answers neither a mark nor a timeout.
 */
static bool satcc_has_cut(const struct satcc *ca, u32 seq)
{
	return ca->mode != SATCC_START && ca->cut && before(seq, ca->epoch.cut_seq);
}

/* Has W been cut since the byte was sent that this ACK acknowledges? The ACK may echo its mark. */
static bool satcc_has_cut_acked(const struct sock *sk, const struct satcc *ca)
{
	return satcc_has_cut(ca, tcp_sk(sk)->snd_una - 1);
}

/* Congestion: cut W as CUBIC does, with fast convergence. */
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
	ca->cut = true;
}

/* Cut W to what leaves a queue of half the threshold:
 * W = max(0.7 W, W (RTT_min + thr / 2) / (RTT_min + q), least).
 */
static void satcc_trim(struct satcc *ca, u32 queue_us, u32 least)
{
	u32 half_us = satcc_threshold_us(ca) / 2;
	u32 w = div_u64((u64)ca->w * (ca->min_rtt_us + half_us),
			ca->min_rtt_us + max(queue_us, half_us));

	satcc_set_w(ca, max3(w, satcc_cut(ca->w), least));
	ca->quiet_rounds = 0;
}

/* Grow W by step segments per RTT, however ACKs are merged (credit.h). */
static void satcc_earn(struct satcc *ca, u32 step, u32 acked)
{
	u64 credit = ca->credit;

	WRITE_ONCE(ca->w, satcc_avoid(&credit, ca->w, SATCC_MAX_CWND, step, 0, acked));
	ca->credit = credit;
}

/* Returns the third root of x, rounded down. x: below 2^62. Computes bit by bit, without a
 * branch, which would double the paths that the BPF verifier follows: x - more^3 fits an s64.
 */
static u32 satcc_cbrt(u64 x)
{
	u32 root = 0, bit, more;

	for (bit = 1 << 20; bit; bit >>= 1) {
		more = root + bit;
		root += bit & ~(u32)((s64)(x - (u64)more * more * more) >> 63);
	}

	return root;
}

/* Returns the segments per RTT by which CUBIC grows now: up to the larger of its cubic
 * window RTT_min from now and its Reno-friendly window now, but by at most half of W.
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

/* PROBE: returns the segments per RTT in the n-th round trip without a queue; n <= 31. */
static u32 satcc_probe_step(const struct satcc *ca, u32 n)
{
	bool fast = n >= SATCC_PROBE_FAST;
	u32 b = satcc_b(ca), most = b + (fast ? b : b / 4) + SATCC_SLACK;
	u64 step = max_t(u32, ca->min_rtt_us / SATCC_PROBE_US, 1);

	if (ca->w >= most)
		return 0;

	return min3(step << n, (u64)(ca->w / (fast ? 2 : 4)) + 1, (u64)most - ca->w);
}

/* Grow W when segments were delivered and the flight filled W. With a queue W grows only in
 * SHARED, and not before the segments in flight at the last cut are acknowledged. In ALONE it
 * never grows faster than in PROBE: HOLD does not restart CUBIC's clock, so the flow that had
 * a loss would take the link. Without this bound one of two satcc flows, started 50 ms apart
 * at 10 Mbit/s and 200 ms, has 9.4 Mbit/s and the other .5 (lab).
 */
static void satcc_grow_w(struct sock *sk, struct satcc *ca, const struct rate_sample *rs,
			 bool queue)
{
	u32 acked = satcc_counted(tcp_sk(sk), rs->acked_sacked), n = ca->quiet_rounds, step;
	bool waits;

	if (!acked || rs->prior_in_flight + SATCC_SLACK + ca->w / 8 < ca->w)
		return;
	if (queue && (ca->mode != SATCC_SHARED ||
		      before(rs->prior_delivered, ca->epoch.cut_delivered)))
		return;
	acked += ca->epoch.unearned;
	if (acked < SATCC_EARN_SEGMENTS && acked < ca->w / 4) {
		ca->epoch.unearned = acked;
		return;
	}
	ca->epoch.unearned = 0;
	waits = ca->epoch.w_max && (n <= SATCC_WAIT_ROUNDS || !satcc_param(tolerate_pct));
	if (queue || waits) {
		step = satcc_cubic_step(tcp_sk(sk), ca);
		if (ca->mode == SATCC_ALONE)
			step = min(step, satcc_probe_step(ca, n));
	} else {
		ca->epoch.w_begin = 0;
		step = satcc_probe_step(ca, ca->epoch.w_max ? n - SATCC_WAIT_ROUNDS : n);
	}
	satcc_earn(ca, step, acked);
}

/* Give up the estimate from the train, and start pacing. */
static void satcc_end_train(struct sock *sk, struct satcc *ca)
{
	ca->train = SATCC_TRAIN_DONE;
	satcc_pacing_enable(sk);
}

/* Returns how much the RTT of the first data ACK differs from the handshake's. srtt is 7/8
 * of the handshake's RTT and 1/8 of the data ACK's. The two differ if ACKs wait for a slot.
 * After a lost SYN-ACK the handshake's RTT includes the timeout of 1 s, so this is 0.
 */
static u32 satcc_jitter_us(const struct tcp_sock *tp, long rtt_us)
{
	u32 jitter_us = rtt_us > 0 ? abs((s32)(satcc_srtt_us(tp) - (u32)rtt_us)) * 8 / 7 : 0;

	return tp->total_retrans && jitter_us > USEC_PER_SEC / 2 ? 0 : jitter_us;
}

/* Begin a train at its first ACK: the segments in flight now left back to back. The jitter is
 * that of the first train, because srtt holds more RTTs later.
 */
static void satcc_begin_train(struct sock *sk, struct satcc *ca, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ca->train = SATCC_TRAIN_COLLECT;
	if (!ca->start.hoe.points)
		ca->train_jitter_us = satcc_jitter_us(tp, rs->rtt_us);
	ca->train_end = tp->delivered + tcp_packets_in_flight(tp);
	ca->start.t0_us = tp->tcp_mstamp;
	ca->start.train_delivered = tp->delivered;
	satcc_hoe_start(&ca->start.hoe);
}

/* Returns the window that the train gives, 0 = none. If the train took at least 4/3 of the
 * jitter, this is Hoe's window, from the third ACK on. Otherwise its ACKs may be bunched;
 * then this waits for all of them and adds the jitter to the train's time. Without this, ten
 * ACKs in one time slot of 22.8 ms cost 3020 drops in 30 s.
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

/* Measure the spacing of the train's ACKs. If they took less than SATCC_HOE_MIN_SPAN_US, also
 * with the jitter if they may be bunched, the next flight, of twice as many segments, is the
 * next train, up to hoe.h's 32 ACKs of 64 segments. With the first train only, 100 MB at 250
 * Mbit/s and 650 ms take 12.3 s instead of 10.8 (lab). A loss ends this, also before a train: a
 * flow that the receiver limits may never fill a window, and START ignores losses. A flow that
 * the application limits keeps waiting. In it a loss in a queue ends START.
 *
 * An ACK that also reports later segments replaces the train's last ACK, which was lost or
 * merged, and may come a round trip after it. It is no point of the train, but may be the first
 * of the next. As a point it made W 19 segments instead of 12,500 (lab, 250 Mbit/s and 600 ms).
 * If the train has too few points for an estimate, the path may merge ACKs, and satcc measures
 * no more: a train that began amid a flight made W 46 segments instead of 500 (lab, merged for
 * 20 ms).
 *
 * A window update, the peer's data and a duplicate ACK come here too, but report no segment. They
 * are no points.
 */
static void satcc_train(struct sock *sk, struct satcc *ca, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 pkts = tp->delivered - ca->start.train_delivered, w;
	u32 t_us = (u32)tp->tcp_mstamp - ca->start.t0_us;
	bool later = after(tp->delivered, ca->train_end), lost = rs->losses > 0 || tp->lost_out;
	bool over = !before(tp->delivered, ca->train_end);

	if (lost && (ca->train == SATCC_TRAIN_COLLECT || !tp->app_limited)) {
		satcc_end_train(sk, ca);
		return;
	}
	if (!rs->acked_sacked)
		return;
	if (ca->train == SATCC_TRAIN_WAIT) {
		if (!lost && tcp_is_cwnd_limited(sk))
			satcc_begin_train(sk, ca, rs);
		return;
	}
	if (later ? ca->start.hoe.points < SATCC_HOE_MIN_POINTS :
		    !satcc_hoe_add(&ca->start.hoe, t_us, pkts, ca->min_rtt_us)) {
		satcc_end_train(sk, ca);
		return;
	}
	w = satcc_train_w(ca, later ? pkts - rs->acked_sacked : pkts, over);
	if (w)
		satcc_run(sk, ca, max(w, ca->w));
	else if (over && ca->start.hoe.span_us >= SATCC_HOE_MIN_SPAN_US)
		satcc_end_train(sk, ca);
	else if (later && t_us >= SATCC_HOE_MIN_SPAN_US && tcp_is_cwnd_limited(sk))
		satcc_begin_train(sk, ca, rs);
	else if (over)
		ca->train = SATCC_TRAIN_WAIT;
}

/* Returns by how many segments W grows in START at an ACK of this many: W doubles every round
 * trip. In doubt it grows by half of them: the difference of delivered / 2.
 */
static u32 satcc_start_step(const struct tcp_sock *tp, const struct satcc *ca, u32 acked)
{
	if (ca->queue_rounds == SATCC_DOUBT_NONE)
		return acked;

	return ca->queue_rounds == SATCC_DOUBT_GROW ? (acked + 1 - tp->delivered % 2) / 2 : 0;
}

/* Process an ACK in START. While W doubles, b is half of W, less what the queue adds to the RTT.
 * A b below 2/5 of W no longer grows: then a queue ends START at once. Otherwise W, which may be
 * several BDP if the ACKs are merged, would stay for two more round trips: with ACKs merged for
 * 50 ms the queue would drop 864 segments instead of 461 (lab, 40 s at 10 Mbit/s and 600 ms).
 * While the application limits the flow, b may be what it sends, and the queue that of others.
 * Then a queue does not end START. An ACK that delivers nothing does not say who limits the flow.
 */
static void satcc_start(struct sock *sk, struct satcc *ca, const struct rate_sample *rs,
			bool queue)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (ca->train != SATCC_TRAIN_DONE)
		satcc_train(sk, ca, rs);
	if (ca->mode != SATCC_START)
		return;
	if (queue && rs->delivered > 0 && !rs->is_app_limited &&
	    ca->train == SATCC_TRAIN_DONE && ca->queue_rounds == SATCC_DOUBT_NONE) {
		if (satcc_b(ca) < ca->w / 5 * 2)
			ca->flat_rounds = SATCC_FLAT_ROUNDS;
		else
			ca->queue_rounds = SATCC_DOUBT_WAIT;
	}
	if (ca->flat_rounds >= SATCC_FLAT_ROUNDS)
		satcc_run(sk, ca, min(ca->w, max_t(u32, satcc_b(ca) + satcc_b(ca) / 4,
						   SATCC_W_START)));
	else if (tcp_is_cwnd_limited(sk))
		satcc_set_w(ca, min(ca->w + satcc_start_step(tp, ca, rs->acked_sacked),
				    satcc_cwnd_limit(tp)));
}

/* Update p from segments sent without a queue: at the first loss, then every 256 segments. One
 * ACK may report more, if ACKs are merged. A rate above tolerate_pct is ignored. If it lasts for
 * a round trip, each loss is congestion until a lower rate follows. A flow that has taken a full
 * queue for its path needs this, because it sees no queue. With it, ten flows that start together
 * at 10 Mbit/s and 40 ms with 1 % of loss have 1091 drops in a minute, and the smallest gets 87 %
 * of its share; without it 7978 and 28 % (lab).
 */
static void satcc_update_p(struct satcc *ca, const struct rate_sample *rs)
{
	u32 sent = ca->quiet_sent + rs->acked_sacked + max(rs->losses, 0);
	u32 lost = ca->quiet_lost + max(rs->losses, 0), p_q16;

	if (sent < SATCC_P_SEGMENTS && (ca->p_q16 || ca->excess || !lost)) {
		ca->quiet_sent = sent;
		ca->quiet_lost = min_t(u32, lost, SATCC_P_LOST_MAX);
		return;
	}

	p_q16 = div_u64((u64)lost << 16, max_t(u32, sent, 100));
	if (p_q16 * 100 > satcc_param(tolerate_pct) << 16) {
		ca->excess = min_t(u32, ca->excess + 1, SATCC_EXCESS_MAX);
	} else {
		ca->excess = 0;
		ca->p_q16 = ca->p_q16 ? (7 * ca->p_q16 + p_q16) / 8 : p_q16;
	}
	ca->quiet_sent = 0;
	ca->quiet_lost = 0;
}

/* Does p explain this many losses among this many segments? The limit is twice the mean plus
 * two standard deviations.
 */
static bool satcc_is_airs(const struct satcc *ca, u32 lost, u32 sent)
{
	u64 mean_q8 = (u64)sent * ca->p_q16 >> 8;

	if (!ca->p_q16 || satcc_is_excess(ca))
		return false;

	return (u64)lost << 8 <= 2 * (mean_q8 + int_sqrt64(mean_q8 << 8));
}

/* Returns how many segments of W the path delivers in a round trip. */
static u32 satcc_delivered(const struct satcc *ca)
{
	u64 delivered = (u64)satcc_bw(ca) * (ca->min_rtt_us + satcc_queue_us(ca));

	return min_t(u64, delivered >> SATCC_BW_SHIFT, ca->w);
}

/* Does the path deliver at least 3/4 of W in a round trip? If not, the flow's own excess may
 * be the queue, as when several flows start at once. Without this such flows lose ten times
 * as much (simulator).
 */
static bool satcc_is_delivered(const struct satcc *ca)
{
	return satcc_delivered(ca) >= ca->w - ca->w / 4;
}

/* Returns how much of W the flow uses: while cwnd grows to W by slow start, that is cwnd. It is at
 * most twice what the path delivers in a round trip. In Loss, where cwnd may jump, W has been
 * cut already. If W were reduced from itself, or once in a recovery, a path that is 50 times
 * slower after an outage would drop 14,820 packets instead of 1485 (lab, 2 Mbit/s and 520 ms).
 */
static u32 satcc_used_w(const struct sock *sk, const struct satcc *ca)
{
	u32 delivered = satcc_delivered(ca), w = min(ca->w, tcp_snd_cwnd(tcp_sk(sk)));

	if (!ca->ramp || inet_csk(sk)->icsk_ca_state == TCP_CA_Loss)
		return ca->w;

	return delivered ? min(w, 2 * delivered) : w;
}

/* A round trip without a queue has lost more than half of its segments. Returns how much of W the
 * path passes. In an outage, or if the losses are few, returns used, which is what the flow uses of
 * W. It was an outage if one of the last three round trips has delivered half of the unacknowledged
 * segments. In slow start satcc_used_w() limits it. Without this a flow whose first ACKs promise
 * 100 Mbit/s, while a policer passes 10, keeps thousands of segments in flight through one long
 * recovery: at 600 ms it has .3, 1.6 and 7.6 Mbit/s from 5 to 20 s, 5 s each, instead of 9.1, 8.7
 * and 8.6 (lab).
 */
static u32 satcc_passed(const struct tcp_sock *tp, const struct satcc *ca, u32 used, u32 lost,
			u32 sent)
{
	u32 delivered = satcc_delivered(ca);

	if (ca->ramp || ca->quiet_rounds < SATCC_PASSED_ROUNDS ||
	    lost <= min(used, SATCC_P_SEGMENTS) / 2 ||
	    delivered >= min(used, tp->packets_out) / 2)
		return used;

	return max(used - (u32)div_u64((u64)used * lost, sent), delivered);
}

/* The queue belongs to other flows: share it as CUBIC does. */
static void satcc_share(struct satcc *ca)
{
	ca->mode = SATCC_SHARED;
	ca->queue_rounds = 0;
	ca->trimmed = false;
	satcc_begin_epoch(ca);
}

/* React to lost segments. prior_delivered: tp->delivered when the segment was sent that the
 * ACK reporting the loss acknowledges; if it acknowledges none, as without SACK, this
 * is tp->delivered - 1, which is before a cut at this ACK; as a recovery begins, tp->delivered.
 * acked: segments that the ACK delivers; those of the ACK that begins a round trip are not in
 * tp->delivered - round_delivered.
 *
 * If HOLD has cut W for the queue in this round trip, losses that p explains do not cut it once
 * more. Otherwise a flow that starts without an estimate at 100 Mbit/s and 520 ms with 5 % of
 * loss has 46 to 50 Mbit/s in the first 20 s in six of seven runs, and 70 in the other; now 56 to
 * 71 (lab).
 *
 * Below thr the queue is probably the flow's own. If p expects a loss in each round trip, it then
 * explains what it would in a whole one, though it explains no loss among the first few segments:
 * with that limit a flow at 10 Mbit/s and 600 ms with 0.5 % of loss cuts W by 30 % about twice a
 * minute, and has 8.87 Mbit/s instead of 9.03 (lab). In any other case the limit stays, in favour
 * of others: without it two flows beside two of CUBIC at 10 Mbit/s and 250 ms, in a queue of 0.1
 * BDP, have 4.0 times as much as these instead of 2.6 (lab, three seeds).
 */
static void satcc_answer(struct sock *sk, struct satcc *ca, u32 prior_delivered, u32 acked,
			 bool quiet)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 lost = tp->lost - ca->round_lost;
	u32 sent = max(tp->delivered - ca->round_delivered, acked) + lost;
	u32 used = satcc_used_w(sk, ca), round = max(sent, used), passed = used;
	bool queue, tolerates = satcc_param(tolerate_pct);

	/* START overshoots, and ends by what its round trips deliver. Those of a flow that the
	 * application limits say nothing, so there a loss that is not random ends it.
	 */
	if (ca->mode == SATCC_START) {
		if (!tolerates || (tp->app_limited && !quiet))
			satcc_congestion(sk, ca);
		return;
	}
	if (lost > sent / 2 && !satcc_is_queue(ca))
		passed = satcc_passed(tp, ca, used, lost, sent);
	/* React once per round trip, and while p = 0 once per recovery, unless most of a round
	 * trip is lost. Losses of segments that START sent are ignored, unless tolerate_pct is 0;
	 * w_max is 0 after START.
	 */
	if (((tolerates || ca->epoch.w_max) &&
	     before(prior_delivered, ca->epoch.cut_delivered)) ||
	    (!ca->p_q16 && !ca->ramp && passed == used && before(tp->snd_una, ca->epoch.cut_seq) &&
	     before(prior_delivered, ca->epoch.cut_delivered + SATCC_RECUT_WINDOWS * ca->w)))
		return;
	if (quiet && (lost < SATCC_MUCH_PKTS ||
		      (u64)lost * 100 <= (u64)round * 2 * satcc_param(tolerate_pct)))
		return;
	queue = satcc_is_queue(ca);
	if (!queue && (u64)ca->p_q16 * round >= BIT(16))
		sent = round;
	satcc_set_w(ca, used);
	if (!quiet && satcc_is_airs(ca, lost, sent)) {
		ca->epoch.w_max = ca->w;
		satcc_begin_epoch(ca);
		if (!ca->trimmed)
			satcc_trim(ca, satcc_queue_us(ca), 0);
		satcc_reacted(sk, ca);
		ca->cut = false;
	} else {
		if (!quiet && ca->mode == SATCC_ALONE && queue && satcc_is_delivered(ca))
			satcc_share(ca);
		satcc_set_w(ca, passed);
		satcc_congestion(sk, ca);
	}
}

static void satcc_losses(struct sock *sk, struct satcc *ca, const struct rate_sample *rs,
			 bool empty)
{
	if (empty)
		satcc_update_p(ca, rs);
	if (!satcc_param(tolerate_pct))
		ca->p_q16 = 0;
	if (rs->losses > 0)
		satcc_answer(sk, ca,
			     rs->delivered > 0 ? rs->prior_delivered : tcp_sk(sk)->delivered - 1,
			     rs->acked_sacked, empty && !satcc_is_excess(ca));
}

/* Called when a recovery begins. A loss that RACK's timer has detected comes without an ACK,
 * so this counts it, as one segment. Those that the timer detects later in the recovery are in
 * no callback; satcc_answer() counts them when an ACK of the same round trip reports a loss, and
 * p never does. While p = 0 this also reacts for this recovery if an ACK reported the loss
 * during the last one.
 */
static void satcc_recovery_losses(struct sock *sk, struct satcc *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!ca->min_rtt_us || (ca->in_ack && ca->p_q16))
		return;
	if (!ca->in_ack && satcc_is_empty(ca))
		ca->quiet_lost = min_t(u32, ca->quiet_lost + 1, SATCC_P_LOST_MAX);
	if (ca->mode == SATCC_START || !before(tp->snd_una, ca->epoch.cut_seq))
		satcc_answer(sk, ca, tp->delivered, 0, satcc_is_quiet(ca));
}

/* Has the path become longer? Yes if W has fallen by a fifth or more and the RTT has not
 * changed: the queue of another flow would have grown or shrunk, its own would be gone. HOLD
 * does not cut a W of four segments, so such a flow may hold the queue that does not change.
 */
static bool satcc_is_longer(const struct satcc *ca)
{
	s32 more_us = ca->round_rtt_us - ca->epoch.held_rtt_us;

	return ca->w > SATCC_W_HOLD && ca->w <= ca->epoch.held_w - ca->epoch.held_w / 5 &&
	       abs(more_us) < (s32)satcc_threshold_us(ca) / 2;
}

/* Have other flows filled the queue, while HOLD did not let W grow? */
static bool satcc_is_others(const struct satcc *ca)
{
	s32 more_us = ca->round_rtt_us - ca->epoch.held_rtt_us;

	return ca->queue_rounds > SATCC_SETTLED_ROUND &&
	       more_us >= (s32)max_t(u32, satcc_threshold_us(ca),
				     satcc_param(queue_ms) * USEC_PER_MSEC);
}

/* Called at the end of a round trip in ALONE. */
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
	if (ca->queue_rounds >= SATCC_BUSY_ROUNDS && satcc_is_longer(ca)) {
		ca->queue_rounds = 0;
		WRITE_ONCE(ca->min_rtt_us, min(ca->round_rtt_us, ca->epoch.held_rtt_us));
		return;
	}
	if (ca->queue_rounds >= SATCC_BUSY_ROUNDS || satcc_is_others(ca)) {
		ca->epoch.w_max = max(ca->epoch.w_max, ca->epoch.held_w);
		satcc_share(ca);
		return;
	}
	if (ca->queue_rounds == SATCC_SETTLED_ROUND || ca->queue_rounds == SATCC_LOOK_ROUND)
		ca->epoch.held_rtt_us = ca->round_rtt_us;
	if (!ca->trimmed)
		satcc_trim(ca, satcc_above_us(ca, ca->round_rtt_us),
			   min_t(u32, ca->w, SATCC_W_HOLD));
	ca->trimmed = !ca->trimmed;
}

/* Called at the end of a round trip in SHARED. Is there no queue, or has the path become longer?
 * The path is longer if the RTT stayed the same while W changed: the queue of other flows would
 * have grown or shrunk.
 */
static void satcc_watch(struct satcc *ca, bool queue)
{
	s32 more_us = ca->round_rtt_us - ca->epoch.held_rtt_us;
	s32 more = ca->w - ca->epoch.held_w;
	bool alone = ca->quiet_rounds >= SATCC_WAIT_ROUNDS;

	if (queue && (!ca->queue_rounds ||
		      abs(more_us) >= (s32)(satcc_threshold_us(ca) / SATCC_STEADY_DIV))) {
		ca->queue_rounds = 0;
		ca->epoch.held_rtt_us = ca->round_rtt_us;
		ca->epoch.held_w = ca->w;
	} else if (queue && ca->queue_rounds >= SATCC_BUSY_ROUNDS && ca->w >= SATCC_STEADY_W &&
		   abs(more) >= (s32)(ca->epoch.held_w / 5)) {
		WRITE_ONCE(ca->min_rtt_us, ca->round_rtt_us);
		alone = true;
	}
	if (alone)
		ca->mode = SATCC_ALONE;
	if (alone || !queue)
		ca->queue_rounds = 0;
	else if (ca->queue_rounds < SATCC_BUSY_ROUNDS)
		ca->queue_rounds++;
}

/* Called at the end of a round trip in START: has bw grown by a quarter? In doubt, after a round
 * trip in which W stayed: does the path deliver W?
 */
static void satcc_start_round(struct satcc *ca, const struct rate_sample *rs)
{
	u32 last = max(ca->bw[1], ca->bw[2]);

	if (ca->train != SATCC_TRAIN_DONE || rs->is_app_limited)
		return;
	if (ca->queue_rounds == SATCC_DOUBT_WAIT || ca->queue_rounds == SATCC_DOUBT_GROW)
		ca->queue_rounds = SATCC_DOUBT_STAY;
	else if (ca->queue_rounds && satcc_b(ca) >= ca->w - ca->w / SATCC_DOUBT_DIV)
		ca->queue_rounds = SATCC_DOUBT_GROW;
	else if (ca->queue_rounds)
		ca->flat_rounds = SATCC_FLAT_ROUNDS;
	else if (ca->bw[0] > last + last / 4)
		ca->flat_rounds = 0;
	else if (ca->flat_rounds < SATCC_FLAT_ROUNDS)
		ca->flat_rounds++;
}

/* Keep the last cut close enough for before(). */
static void satcc_follow_cut(const struct tcp_sock *tp, struct satcc_epoch *epoch)
{
	if (after(tp->snd_una, epoch->cut_seq))
		epoch->cut_seq = tp->snd_una - 1;
	if (tp->delivered - epoch->cut_delivered > SATCC_CUT_FAR)
		epoch->cut_delivered = tp->delivered - SATCC_CUT_FAR;
}

/* Runs once per round trip: when a segment sent after the last run is ACKed. What this ACK reports
 * as lost counts in the new round trip, because satcc_losses() runs after this.
 */
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
	else
		satcc_watch(ca, queue);
	if (queue)
		ca->p_q16 -= DIV_ROUND_UP(ca->p_q16, 1 << SATCC_P_FADE_SHIFT);
	if (ca->quiet_rounds < 31)
		ca->quiet_rounds++;

	ca->round_delivered = tp->delivered;
	if (ca->mode != SATCC_START) {
		ca->round_lost = tp->lost - max(rs->losses, 0);
		satcc_follow_cut(tp, &ca->epoch);
	}
	ca->round_rtt_us = 0;
	ca->bw[2] = ca->bw[1];
	ca->bw[1] = ca->bw[0];
	ca->bw[0] = 0;
}

/* Does the sysctl ask to reduce the window after idle? */
static bool satcc_restarts(const struct sock *sk)
{
	return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle);
}

/* If the application has not filled W for one RTO (W/2 while W is below ssthresh), halve the
 * unused part of W (RFC 2861), as the core does for other policies. Keep W if the receiver's
 * window limits the flow: it opens slowly from 64 kB, while the first segments already set W.
 */
static void satcc_validate(struct sock *sk, struct satcc *ca)
{
	u32 used = max(satcc_used_pkts(sk), satcc_initial_window(sk));

	if (!tcp_sk(sk)->app_limited || tcp_is_cwnd_limited(sk) ||
	    ca->train != SATCC_TRAIN_DONE ||
	    inet_csk(sk)->icsk_ca_state != TCP_CA_Open || !satcc_restarts(sk) ||
	    (s32)(tcp_jiffies32 - satcc_used_since(sk)) < (s32)inet_csk(sk)->icsk_rto)
		return;
	if (used < ca->w) {
		satcc_set_w(ca, (ca->w + used) / 2);
		if (ca->mode != SATCC_START)
			satcc_begin_epoch(ca);
	}
	satcc_reset_used(sk);
}

/* Update bw. delivered is below 2^30, so the numerator fits 54 bits. */
static void satcc_update_bw(struct satcc *ca, const struct rate_sample *rs)
{
	u64 bw;

	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return;
	bw = div64_long((u64)rs->delivered << SATCC_BW_SHIFT, rs->interval_us);
	if (!rs->is_app_limited || bw > satcc_bw(ca))
		ca->bw[0] = max_t(u64, ca->bw[0], min_t(u64, bw, U32_MAX));
}

/* Set cwnd to W. After a timeout and after idle cwnd grows to W by slow start; after a timeout
 * it jumps to W/2 when the path has shown no queue. Slow start goes on only if the flow uses
 * cwnd; the core does not measure this for retransmissions. While more than W is in flight, cwnd
 * falls with each delivery.
 */
static void satcc_set_cwnd(struct sock *sk, struct satcc *ca, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 flight = tcp_packets_in_flight(tp), w = min(ca->w, tp->snd_cwnd_clamp);
	u8 state = inet_csk(sk)->icsk_ca_state;
	bool timeout = state == TCP_CA_Loss;
	u32 cwnd = w, credit;

	if (ca->ramp) {
		cwnd = tcp_snd_cwnd(tp);
		if (state > TCP_CA_Disorder || tcp_is_cwnd_limited(sk))
			cwnd += rs->acked_sacked;
		if (timeout && ca->quiet_rounds >= SATCC_JUMP_ROUNDS)
			cwnd = max(cwnd, w / 2);
		cwnd = min(cwnd, w);
		if (cwnd == w)
			ca->ramp = timeout;
	} else if (flight >= w && ca->mode != SATCC_START) {
		credit = ca->shrink_credit + rs->acked_sacked * SATCC_SHRINK_EIGHTHS;
		cwnd = flight + max_t(u32, credit / 8, rs->losses > 0);
		ca->shrink_credit = credit % 8;
	}
	tcp_snd_cwnd_set(tp, clamp_t(u32, cwnd, 1, tp->snd_cwnd_clamp));
}

/* Set the pacing rate. Until the train is measured there is no rate, because fq would pace
 * the train.
 */
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

/* In SHARED, ACKs clock the flow; see SATCC_CLOCK_W. Slow start is paced in any mode, because
 * cwnd may jump; after idle it is from the first ACK on.
 */
static void satcc_set_pacing(struct sock *sk, const struct satcc *ca)
{
	if (ca->mode == SATCC_START)
		return;
	if (ca->mode == SATCC_SHARED && !ca->ramp && ca->w >= SATCC_CLOCK_W)
		satcc_pacing_disable(sk);
	else if (!satcc_pacing_enabled(sk))
		satcc_pacing_enable(sk);
}

/* Returns how many segments of the size mss have the bytes of so many of the flow's size. */
static u32 satcc_resize(const struct satcc *ca, u32 segments, u32 mss)
{
	return min_t(u64, div_u64((u64)segments * ca->mss, mss), U32_MAX);
}

/* W, and all that is compared with it, is in segments, so it changes when the MSS changes. */
static void satcc_update_mss(struct sock *sk, struct satcc *ca)
{
	u32 mss = min_t(u32, tcp_sk(sk)->mss_cache, U16_MAX);
	struct satcc_epoch *epoch = &ca->epoch;

	if (mss == ca->mss)
		return;
	if (ca->mss && mss) {
		satcc_set_w(ca, satcc_resize(ca, ca->w, mss));
		ca->bw[0] = satcc_resize(ca, ca->bw[0], mss);
		ca->bw[1] = satcc_resize(ca, ca->bw[1], mss);
		ca->bw[2] = satcc_resize(ca, ca->bw[2], mss);
		if (ca->mode != SATCC_START) {
			epoch->w_max = satcc_resize(ca, epoch->w_max, mss);
			epoch->prior_w = satcc_resize(ca, epoch->prior_w, mss);
			epoch->prior_w_max = satcc_resize(ca, epoch->prior_w_max, mss);
			epoch->held_w = satcc_resize(ca, epoch->held_w, mss);
			satcc_begin_epoch(ca);
		}
	}
	ca->mss = mss;
}

/* React to a mark, or to a full queue on this host, once per state of the core. The queue
 * drains in the next round trip, so HOLD must not cut for it once more. It did, and through
 * CoDel with marks, at 10 Mbit/s and 40 ms, W fell from 47 to 23 segments where 33 fill the path.
 */
static void satcc_mark(struct sock *sk, struct satcc *ca)
{
	ca->marked = true;
	satcc_set_w(ca, satcc_used_w(sk, ca));
	satcc_congestion(sk, ca);
	ca->trimmed = ca->mode == SATCC_ALONE;
}

static void satcc_main(struct sock *sk, SATCC_ACK_FLAG const struct rate_sample *rs)
{
	struct satcc *ca = satcc_state(sk);
	u32 queue_us, threshold_us;
	bool queue, empty;

	satcc_update_mss(sk, ca);
	satcc_update_rtt(sk, ca, rs->rtt_us);
	if (rs->delivered > 0 && !before(rs->prior_delivered, ca->round_delivered)) {
		satcc_round(sk, ca, rs);
		satcc_validate(sk, ca);
	}
	satcc_update_bw(ca, rs);
	if (ca->ece && !ca->marked && inet_csk(sk)->icsk_ca_state > TCP_CA_CWR &&
	    !satcc_has_cut_acked(sk, ca))
		satcc_mark(sk, ca);
	if (ca->min_rtt_us) {
		queue_us = satcc_queue_us(ca);
		threshold_us = satcc_threshold_us(ca);
		queue = queue_us >= threshold_us;
		empty = satcc_param(tolerate_pct) && queue_us < threshold_us / 2;
		satcc_losses(sk, ca, rs, empty);
		if (queue)
			ca->quiet_rounds = 0;
		if (ca->mode == SATCC_START)
			satcc_start(sk, ca, rs, queue);
		else
			satcc_grow_w(sk, ca, rs, queue);
	}
	satcc_set_cwnd(sk, ca, rs);
	satcc_pace(sk, ca);
	satcc_set_pacing(sk, ca);

	ca->in_ack = false;
	ca->ece = false;
}

/* Called for every ACK but those of less than snd_una, before the core decides what it means. */
static void satcc_in_ack_event(struct sock *sk, u32 flags)
{
	struct satcc *ca = satcc_state(sk);

	ca->in_ack = true;
	ca->ece = !!(flags & CA_ACK_ECE);
}

/* A reduction begins. satcc_set_state() learns its cause. */
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

/* Undo a reduction, and discard what p learnt from the losses. A cut that is undone answers no
 * mark, loss or timeout of the same segments. If slow start was under way, it goes on from the
 * window before.
 */
static u32 satcc_undo_cwnd(struct sock *sk)
{
	struct satcc *ca = satcc_state(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 w;

	ca->p_q16 = ca->prior_p_q16;
	ca->quiet_lost = 0;
	ca->excess = 0;
	if (ca->mode != SATCC_START && ca->epoch.prior_w) {
		if (ca->w < ca->epoch.prior_w)
			satcc_forget_cut(tp, ca);
		satcc_set_w(ca, max(ca->w, ca->epoch.prior_w));
		ca->epoch.w_max = ca->epoch.prior_w_max;
		satcc_begin_epoch(ca);
	}

	w = min(ca->w, tp->snd_cwnd_clamp);
	ca->ramp = tp->prior_cwnd < w;

	return max(tcp_snd_cwnd(tp), min(w, tp->prior_cwnd));
}

/* The core enters Loss. W has been cut already if a reduction with a cut was under way. A
 * timeout without a queue does not make PROBE wait, unless tolerate_pct is 0, or W was cut before.
 */
static void satcc_timeout(struct sock *sk, struct satcc *ca)
{
	u32 w = ca->w;

	ca->ramp = true;
	if (!satcc_is_timeout(sk, ca->reduced))
		return;
	ca->quiet_rounds = 0;
	if (!ca->reduced && satcc_has_cut(ca, tcp_sk(sk)->snd_una))
		return;
	satcc_congestion(sk, ca);
	if (ca->reduced || !ca->epoch.prior_w)
		ca->epoch.prior_w = w;
	if (satcc_param(tolerate_pct) && ca->min_rtt_us && !satcc_is_queue(ca))
		ca->epoch.w_max = ca->epoch.prior_w_max;
}

/* Called before the state changes. CWR means a mark or a full queue on this host. CWR also
 * follows a tail loss that a tail loss probe has repaired, and then ends within the same ACK.
 *
 * The receiver echoes a mark until it has data with CWR, which the core queues as it enters CWR,
 * Recovery or Loss. In Recovery satcc_main() cuts W for the mark, and after it the core enters CWR
 * for the same one. Its echoes may outlast the segments that were in flight at the cut, so marked
 * is set.
 */
static void satcc_set_state(struct sock *sk, u8 new_state)
{
	struct satcc *ca = satcc_state(sk);
	bool answered = ca->ece && satcc_has_cut_acked(sk, ca);

	if (new_state == TCP_CA_Loss)
		satcc_timeout(sk, ca);
	else if (new_state <= TCP_CA_Disorder)
		ca->marked = false;
	else if (!answered &&
		 ((ca->ece && !ca->marked) ||
		  (new_state == TCP_CA_CWR && (!ca->in_ack || !satcc_is_quiet(ca)))))
		satcc_mark(sk, ca);
	else if (new_state == TCP_CA_Recovery)
		satcc_recovery_losses(sk, ca);
	else
		ca->marked |= answered;
	ca->reduced = false;
}

/* CUBIC's clock stops while nothing is sent. A time in jiffies may be longer than it was. */
static void satcc_stop_clock(const struct tcp_sock *tp, struct satcc_epoch *epoch, u32 idle_ms)
{
	u32 now_ms = div_u64(tp->tcp_mstamp, USEC_PER_MSEC);

	epoch->begin_ms += idle_ms;
	if (before(now_ms, epoch->begin_ms))
		epoch->begin_ms = now_ms;
}

/* A segment leaves when nothing was in flight. After idle cwnd is halved for every RTO that
 * has passed, down to the initial window, and then grows by slow start, as with other policies:
 * to 3/4 W, or to W if it had not reached W since the last pause.
 */
static void satcc_tx_start(struct sock *sk)
{
	struct satcc *ca = satcc_state(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	s32 idle = tcp_jiffies32 - tp->lsndtime, rto = max_t(s32, inet_csk(sk)->icsk_rto, 1);
	u32 cwnd = tcp_snd_cwnd(tp), least = min(cwnd, satcc_initial_window(sk)), halvings;

	ca->in_ack = false;
	ca->ece = false;
	if (tp->packets_out || idle <= 0)
		return;
	if (ca->mode != SATCC_START)
		satcc_stop_clock(tp, &ca->epoch, jiffies_to_msecs(idle));
	if (idle <= rto || !satcc_restarts(sk))
		return;
	halvings = min((u32)(idle - 1) / (u32)rto, 31U);
	cwnd = max(cwnd >> halvings, least);
	if (ca->mode == SATCC_START) {
		satcc_set_w(ca, cwnd);
	} else {
		satcc_set_w(ca, max(cwnd, ca->ramp ? ca->w : ca->w - ca->w / 4));
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

/* May run before, in or long after the handshake, and on the bytes of another policy. Only a
 * flow that has sent nothing has a train to measure. A program that selects satcc between
 * connect() and the end of the handshake has the core call this in SYN_SENT and not again. MSS
 * and cwnd are the handshake's then, and a lost SYN ends START. So the bytes have no owner in
 * SYN_SENT, and the first callback after it runs this again.
 */
static void satcc_init(struct sock *sk)
{
	struct satcc *ca = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	memset(ca, 0, sizeof(*ca));
	if (sk->sk_state != TCP_SYN_SENT)
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

/* Segments delivered out of order stay in the send buffer until the hole before them is
 * filled. That takes more than a round trip when one recovery follows the other.
 */
static u32 satcc_sndbuf_expand(struct sock *sk)
{
	return 3;
}

static u32 __maybe_unused satcc_min_tso_segs(struct sock *sk)
{
	return satcc_pacing_min_tso_segs(sk, satcc_pacing_enabled(sk));
}

/* Fills the record of Vegas, which ss(8) knows: enabled = START is over, rttcnt = W, rtt =
 * srtt in us, minrtt = RTT_min in us.
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
