# SPDX-License-Identifier: GPL-2.0
"""satcc: the project's own congestion control, by the equations at the head of modules/tcp_satcc.c.

    q     smallest of the last 16 to 31 RTTs, less RTT_min
    thr   the largest of 2 ms, min(RTT_min / 16, queue_ms) and min(2 / bw, RTT_min / 8)
    b     bw RTT_min, with bw the largest delivery rate of three round trips
    loss  if q < thr / 2: p follows the losses; W *= 0.7 only if a round trip loses more than twice
          tolerate_pct
          else, if the losses are at most 2 (m + sqrt(m)), m = p times the round trip's segments so far,
          or p W if that is at least 1 and q < thr: W falls
          by the queue, unless HOLD has cut it in this round trip; otherwise W *= 0.7.  So it is also
          at any q while the batches of 256 segments lose more than tolerate_pct, from a round trip of
          them on.  If q < thr and a round trip loses more than half, and it is no outage, W is first
          reduced to what passes
    mark  W *= 0.7;  timeout: W *= 0.7, unless the recovery before has cut it, and cwnd grows to W by
          slow start; until it is there a loss or a mark in another state than Loss reduces W from cwnd,
          or from twice what the path delivers in a round trip

Growth: in START by Hoe's line, or W *= 2 a round trip, after a queue W *= 1.5 in two; in PROBE by
RTT_min / 25 ms * 2^n segments in the n-th round trip without a queue; else, and with tolerate_pct=0
after any loss, as CUBIC (RFC 9438), at most W / 2 a round trip.

Rounded down, by the documentation: rates to 2^-24 segments per us, times to us, CUBIC's times to ms, W
to segments, p to 1/65536, m and its root to 1/256, all fractions and percentages.

No record has the core's timeout or the time of the last segment.  So the model takes two things from the
record, within bounds: whether an unused window decays, and how often idleness halves cwnd.
"""

from math import isqrt

from .arithmetic import avoid, is_before, line
from .calls import CWND_EVENT, CWR, DISORDER, LOSS, OPEN, RECOVERY, TX_START, TX_START_EVENT
from .core import LARGEST_CWND, NO_RTT, PACED_NEEDED, UNUSED_NS, Control, Wrong, is_timeout

U16, U32, U64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1
START, ALONE, SHARED = range(3)
WAIT, COLLECT, DONE = range(3)
DOUBT_NONE, DOUBT_WAIT, DOUBT_STAY, DOUBT_GROW = range(4)      # in queue_rounds, in START
ECE = 4                         # CA_ACK_ECE of in_ack_event()'s flags
MAX_RTT_US, BW_ONE = 1 << 24, 1 << 24
HOE_POINTS, HOE_MIN_POINTS, HOE_PKTS, HOE_US, HOE_SPAN_US = 32, 3, 64, 1 << 22, 1000
W_MIN, W_HOLD, W_START, BLOCK = 2, 4, 10, 16
SLACK, SLACK_DIVISOR = 4, 8     # W counts as filled though so many segments, and W/8, are missing
CUT_PCT, FRIEND_PCT, CUBIC_MS3, CUBIC_MAX_MS = 70, 53, 2_500_000_000, 1 << 20
PROBE_US, FAST, WAIT_ROUNDS, BUSY, LOOK, FLAT, MUCH, JUMP_ROUNDS = 25_000, 4, 16, 6, 4, 3, 3, 2
SETTLED, RECUT_WINDOWS, STEADY_PART, STEADY_W, DOUBT_PART = 2, 2, 8, 32, 8
P_SEGMENTS, P_LOST_MAX, P_PART, EXCESS_MAX = 256, 127, 64, 3
PASSED_ROUNDS = 2               # so many after a cut, losses are of segments sent after it
EARN_SEGMENTS = 16              # W grows once for this many delivered segments, or for W/4
CLOCK_W = 16                    # the least W that is not paced in SHARED
CUT_FAR = 1 << 30               # segments delivered since the last cut, at most
TICK_MS = 8                     # rounding by the core's clock, at both ends of a time

COMMON = ("min_rtt_us", "w", "bw_0", "bw_1", "bw_2", "round_delivered", "round_rtt_us", "block_rtt_us",
          "last_block_rtt_us", "rtt_us", "p_q16", "prior_p_q16", "mss", "quiet_sent", "shrink_credit",
          "excess", "cut", "quiet_lost", "quiet_rounds", "block_samples", "queue_rounds", "mode",
          "train", "flat_rounds", "ramp", "trimmed", "blocked", "in_ack", "ece", "marked", "reduced")
# Private fields that a restart after idle sets; ramp may be set already, by a timeout.
RESTARTED = ("w", "ramp", "quiet_rounds", "credit", "epoch_w_begin")
IN_START = ("train_jitter_us", "train_end", "start_hoe_sum_tt", "start_hoe_sum_ta", "start_hoe_sum_t",
            "start_hoe_sum_a", "start_hoe_span_us", "start_hoe_points", "start_t0_us",
            "start_train_delivered")
AFTER = ("round_lost", "credit", "epoch_w_max", "epoch_w_begin", "epoch_begin_ms", "epoch_k_ms",
         "epoch_cut_delivered", "epoch_cut_seq", "epoch_prior_w", "epoch_prior_w_max", "epoch_held_w",
         "epoch_held_rtt_us", "epoch_unearned")
IN_SEGMENTS = ("epoch_w_max", "epoch_prior_w", "epoch_prior_w_max", "epoch_held_w")


def cube_root(x: int) -> int:
    """Rounded down, at most 2^21 - 1."""
    low, high = 0, 1 << 21
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle ** 3 <= x else (low, middle)
    return low


def cut(w: int) -> int:
    return w * CUT_PCT // 100


class Satcc(Control):
    MODULE = "tcp_satcc"
    DEFAULTS = {"tolerate_pct": 10, "queue_ms": 25, "hoe": 1}
    FIELDS = COMMON + IN_START + AFTER
    ANEW = True

    def __init__(self, parameters, scenario):
        self.decayed_ns = 0
        self.initial_w = scenario.sender.initcwnd or W_START
        super().__init__(parameters, scenario)

    def zero(self):
        super().zero()
        self.points = []

    def live_fields(self):
        """The fields in use: those of START and those of the other modes share their bytes."""
        return COMMON + (AFTER if self.mode else IN_START)

    def looks(self, call):
        return call.arg == TX_START if call.call == CWND_EVENT else super().looks(call)

    # -- the path -------------------------------------------------------------------

    @property
    def bw(self) -> int:
        return max(self.bw_0, self.bw_1, self.bw_2)

    @property
    def b(self) -> int:
        return min(max(self.bw * self.min_rtt_us // BW_ONE, W_MIN), LARGEST_CWND)

    @property
    def thr_us(self) -> int:
        part = min(self.min_rtt_us // 16, 1000 * self.parameters["queue_ms"])
        own = min(2 * (BW_ONE // self.bw), self.min_rtt_us // 8) if self.bw else 0
        return max(part, 2000, own)

    def above(self, rtt_us: int) -> int:
        return max(rtt_us - self.min_rtt_us, 0)

    @property
    def q_us(self) -> int:
        rtts = [self.last_block_rtt_us] * bool(self.last_block_rtt_us)
        rtts += [self.block_rtt_us] * bool(self.block_samples)
        return self.above(min(rtts, default=0))

    @property
    def delivered(self) -> int:
        """How many segments of W the path delivers in a round trip."""
        return min(self.bw * (self.min_rtt_us + self.q_us) // BW_ONE, self.w)

    def is_queue(self) -> bool:
        return self.q_us >= self.thr_us

    def is_empty(self) -> bool:
        return bool(self.parameters["tolerate_pct"]) and self.q_us < self.thr_us // 2

    def is_excess(self) -> bool:
        """Does a rate of loss above tolerate_pct last for a round trip, or for three batches?"""
        batches = min(-(-self.w // P_SEGMENTS), EXCESS_MAX)
        return self.excess >= batches

    def is_quiet(self) -> bool:
        return not self.is_excess() and self.is_empty()

    def end_block(self) -> None:
        self.last_block_rtt_us, self.block_samples, self.blocked = self.block_rtt_us, 0, 1

    def sample(self, call, rtt_us: int) -> None:
        """Take an RTT sample; rtt_us <= 0 means none."""
        if rtt_us > 0:
            rtt_us = min(rtt_us, MAX_RTT_US - 1)
            larger, self.rtt_us = max(rtt_us, self.rtt_us), rtt_us
            self.min_rtt_us = min(self.min_rtt_us or larger, larger)
            self.round_rtt_us = min(self.round_rtt_us or rtt_us, rtt_us)
            self.block_rtt_us = min(self.block_rtt_us, rtt_us) if self.block_samples else rtt_us
            if self.block_samples == BLOCK - 1:
                self.end_block()
            else:
                self.block_samples += 1
        if self.min_rtt_us and call.min_rtt_us != NO_RTT:
            self.min_rtt_us = max(self.min_rtt_us, min(call.min_rtt_us, MAX_RTT_US - 1))

    def measure(self, call) -> None:
        """Update bw_0, the largest delivery rate of this round trip."""
        if call.rs_delivered > 0 and call.rs_interval_us > 0:
            bw = min(call.rs_delivered * BW_ONE // call.rs_interval_us, U32)
            if not call.rs_app_limited or bw > self.bw:
                self.bw_0 = max(self.bw_0, bw)

    # -- W ----------------------------------------------------------------------------

    def set_w(self, w: int) -> None:
        self.w = min(max(w, W_MIN), LARGEST_CWND)

    def begin_epoch(self) -> None:
        self.epoch_w_begin = self.epoch_unearned = self.credit = 0

    def run(self, call, w: int) -> None:
        """End START with the window w."""
        for name in AFTER:
            setattr(self, name, 0)
        self.mode, self.train, self.quiet_rounds, self.queue_rounds = ALONE, DONE, 0, 0
        self.set_w(w)
        self.epoch_prior_w = self.w
        self.round_lost = call.lost
        self.epoch_cut_delivered, self.epoch_cut_seq = call.delivered_old, call.snd_una
        self.pace()

    def reacted(self, call) -> None:
        self.epoch_cut_delivered, self.epoch_cut_seq = call.delivered_old, call.snd_nxt

    def has_cut(self, seq: int) -> bool:
        """Has W been cut to 70 % since this byte was sent?"""
        return self.mode != START and bool(self.cut) and is_before(seq, self.epoch_cut_seq)

    def has_cut_acked(self, call) -> bool:
        """Has W been cut since the byte was sent that the ACK acknowledges?"""
        return self.has_cut(call.snd_una - 1)

    def congestion(self, call) -> None:
        if self.mode == START:
            self.run(call, self.w)
        self.epoch_w_max = self.w - self.w * 3 // 20 if self.w < self.epoch_w_max else self.w
        self.begin_epoch()
        self.set_w(cut(self.w))
        self.quiet_rounds = 0
        self.reacted(call)
        self.cut = 1

    def trim(self, queue_us: int, least: int = 0) -> None:
        half_us = self.thr_us // 2
        w = self.w * (self.min_rtt_us + half_us) // (self.min_rtt_us + max(queue_us, half_us))
        self.set_w(max(w, cut(self.w), least))
        self.quiet_rounds = 0

    def cubic(self, call) -> int:
        """CUBIC's growth, segments per RTT."""
        w, now_ms = self.w, call.mstamp_us // 1000 & U32
        if not self.epoch_w_begin:
            self.epoch_w_begin, self.epoch_begin_ms, self.epoch_k_ms = w, now_ms, 0
            if self.epoch_w_max > w:
                self.epoch_k_ms = cube_root((self.epoch_w_max - w) * CUBIC_MS3)
            else:
                self.epoch_w_max = w
        t_ms, rtt_ms = (now_ms - self.epoch_begin_ms) & U32, max(max(call.srtt_us8 // 8, 1) // 1000, 1)
        friend = self.epoch_w_begin + t_ms * FRIEND_PCT // (100 * rtt_ms)
        t_ms += self.min_rtt_us // 1000
        rise = min(abs(t_ms - self.epoch_k_ms), CUBIC_MAX_MS) ** 3 // CUBIC_MS3
        concave = max(self.epoch_w_max - rise, 0) if t_ms < self.epoch_k_ms else self.epoch_w_max + rise
        return min(max(friend - w, concave - w, 0), w // 2)

    def probe(self, n: int) -> int:
        """PROBE's growth in the n-th round trip without a queue, segments per RTT."""
        fast = n >= FAST
        most = self.b + self.b // (1 if fast else 4) + SLACK
        step = max(self.min_rtt_us // PROBE_US, 1) << n
        return max(min(step, self.w // (2 if fast else 4) + 1, most - self.w), 0)

    def grow(self, call) -> None:
        acked = call.rs_acked_sacked if call.sack_ok else min(call.rs_acked_sacked, 2)
        n, queue = self.quiet_rounds, self.is_queue()
        if not acked or call.rs_prior_in_flight + SLACK + self.w // SLACK_DIVISOR < self.w:
            return
        late = is_before(call.rs_prior_delivered, self.epoch_cut_delivered)
        if queue and (self.mode != SHARED or late):
            return
        acked += self.epoch_unearned
        self.epoch_unearned = acked if acked < min(EARN_SEGMENTS, self.w // 4) else 0
        if self.epoch_unearned:
            return
        waits = n <= WAIT_ROUNDS or not self.parameters["tolerate_pct"]
        if queue or self.epoch_w_max and waits:
            step = self.cubic(call)
            if self.mode == ALONE:
                step = min(step, self.probe(n))
        else:
            self.epoch_w_begin = 0
            step = self.probe(n - WAIT_ROUNDS if self.epoch_w_max else n)
        self.w, self.credit = avoid(self.w, self.credit, LARGEST_CWND, step, acked, 1)

    # -- START ------------------------------------------------------------------------

    def end_train(self) -> None:
        self.train = DONE
        self.pace()

    def begin_train(self, call) -> None:
        srtt_us = max(call.srtt_us8 // 8, 1) if call.srtt_us8 else 0
        self.train = COLLECT
        if not self.start_hoe_points:
            jitter_us = abs(srtt_us - call.rtt_us) * 8 // 7 if call.rtt_us > 0 else 0
            has_waited = call.total_retrans and jitter_us > 500_000     # for a timeout
            self.train_jitter_us = 0 if has_waited else jitter_us
        self.train_end = (call.delivered_old + call.in_flight_old) & U32
        self.start_t0_us, self.start_train_delivered = call.mstamp_us & U32, call.delivered_old
        self.points = [(0, 0)]
        self.sums()

    def sums(self) -> None:
        self.start_hoe_sum_t = sum(t for t, _ in self.points)
        self.start_hoe_sum_a = sum(a for _, a in self.points)
        self.start_hoe_sum_tt = sum(t * t for t, _ in self.points)
        self.start_hoe_sum_ta = sum(t * a for t, a in self.points)
        self.start_hoe_span_us, self.start_hoe_points = self.points[-1][0], len(self.points)

    def add_point(self, t_us: int, pkts: int) -> bool:
        if len(self.points) >= HOE_POINTS or pkts > HOE_PKTS or t_us >= HOE_US \
                or t_us > 2 * self.min_rtt_us:
            return False
        self.points.append((t_us, pkts))
        self.sums()
        return True

    def train_w(self, pkts: int, over: bool) -> int:
        """The window by the train, or 0 if there is none."""
        span_us = self.start_hoe_span_us
        if self.train_jitter_us <= span_us - span_us // 4:
            if len(self.points) < HOE_MIN_POINTS or span_us < HOE_SPAN_US:
                return 0
            num, den = line(self.points)
            return max(num * self.min_rtt_us // den, 1) if num > 0 and den > 0 else 0
        span_us += self.train_jitter_us
        return pkts * self.min_rtt_us // span_us if over and span_us >= HOE_SPAN_US else 0

    def follow_train(self, call) -> None:
        lost = call.rs_losses > 0 or call.lost_out > 0
        if lost and (self.train == COLLECT or not call.app_limited):
            self.end_train()
            return
        if not call.rs_acked_sacked:
            return
        if self.train == WAIT:
            if not lost and self.cwnd_in_use(call):
                self.begin_train(call)
            return
        pkts = (call.delivered_old - self.start_train_delivered) & U32
        over = not is_before(call.delivered_old, self.train_end)
        later = is_before(self.train_end, call.delivered_old)       # an ACK of the next flight
        t_us = (call.mstamp_us - self.start_t0_us) & U32
        if later:
            is_part = len(self.points) >= HOE_MIN_POINTS
        else:
            is_part = self.add_point(t_us, pkts)
        if not is_part:
            self.end_train()
        elif w := self.train_w(pkts - call.rs_acked_sacked if later else pkts, over):
            self.run(call, max(w, self.w))
        elif over and self.start_hoe_span_us >= HOE_SPAN_US:
            self.end_train()
        elif later and t_us >= HOE_SPAN_US and self.cwnd_in_use(call):
            self.begin_train(call)
        elif over:
            self.train = WAIT

    def start(self, call) -> None:
        if self.train != DONE:
            self.follow_train(call)
        if self.mode != START:
            return
        doubts = self.train == DONE and self.queue_rounds == DOUBT_NONE
        is_own = call.rs_delivered > 0 and not call.rs_app_limited
        if doubts and self.is_queue() and is_own:
            if self.b < self.w // 5 * 2:
                self.flat_rounds = FLAT
            else:
                self.queue_rounds = DOUBT_WAIT
        if self.flat_rounds >= FLAT:
            self.run(call, min(self.w, max(self.b + self.b // 4, W_START)))
        elif self.cwnd_in_use(call) and self.queue_rounds in (DOUBT_NONE, DOUBT_GROW):
            delivered, acked = call.delivered_old, call.rs_acked_sacked
            if self.queue_rounds == DOUBT_GROW:
                acked = delivered // 2 - (delivered - acked) // 2
            self.set_w(min(self.w + acked, min(max(call.clamp, 1), LARGEST_CWND)))

    def start_round(self) -> None:
        """Does bw grow, or, after a queue was seen, does the path deliver a W that stays?"""
        last = max(self.bw_1, self.bw_2)
        if self.queue_rounds in (DOUBT_WAIT, DOUBT_GROW):
            self.queue_rounds = DOUBT_STAY
        elif self.queue_rounds == DOUBT_STAY:
            if self.b < self.w - self.w // DOUBT_PART:
                self.flat_rounds = FLAT
            else:
                self.queue_rounds = DOUBT_GROW
        else:
            self.flat_rounds = 0 if self.bw_0 > last + last // 4 else min(self.flat_rounds + 1, FLAT)

    # -- losses -------------------------------------------------------------------------

    def learn(self, call) -> None:
        """Update p from segments that were sent while there was no queue."""
        lost = self.quiet_lost + max(call.rs_losses, 0)
        sent = self.quiet_sent + call.rs_acked_sacked + max(call.rs_losses, 0)
        if sent < P_SEGMENTS and (self.p_q16 or self.excess or not lost):
            self.quiet_sent, self.quiet_lost = sent, min(lost, P_LOST_MAX)
            return
        p = (lost << 16) // max(sent, 100)
        if 100 * p > self.parameters["tolerate_pct"] << 16:
            self.excess = min(self.excess + 1, EXCESS_MAX)
        else:
            self.excess = 0
            self.p_q16 = (7 * self.p_q16 + p) // 8 if self.p_q16 else p
        self.quiet_sent = self.quiet_lost = 0

    def explained(self, lost: int, sent: int) -> bool:
        mean = sent * self.p_q16 >> 8
        return bool(self.p_q16) and not self.is_excess() and lost << 8 <= 2 * (mean + isqrt(mean << 8))

    def answer(self, call, prior_delivered: int, acked: int) -> None:
        """acked: segments that the ACK delivers; it may have begun the round trip."""
        tolerate = self.parameters["tolerate_pct"]
        if self.mode == START:
            if not tolerate or call.app_limited and not self.is_quiet():
                self.congestion(call)
            return
        lost = (call.lost - self.round_lost) & U32
        sent = max((call.delivered_old - self.round_delivered) & U32, acked) + lost
        quiet, used = self.is_quiet(), self.used_w(call)
        passed = self.passed(call, used, lost, sent)
        of_old = is_before(prior_delivered, self.epoch_cut_delivered)
        if of_old and (tolerate or self.epoch_w_max) or \
                not self.p_q16 and not self.ramp and passed == used and \
                is_before(call.snd_una, self.epoch_cut_seq) and \
                is_before(prior_delivered, self.epoch_cut_delivered + RECUT_WINDOWS * self.w):
            return
        if quiet and (lost < MUCH or 100 * lost <= max(sent, used) * 2 * tolerate):
            return
        if not self.is_queue() and self.p_q16 * max(sent, used) >= 1 << 16:
            sent = max(sent, used)
        self.set_w(used)
        if quiet:
            self.set_w(passed)
            self.congestion(call)
        elif self.explained(lost, sent):
            self.epoch_w_max = self.w
            self.begin_epoch()
            if not self.trimmed:        # HOLD has cut W for this queue
                self.trim(self.q_us)
            self.reacted(call)
            self.cut = 0
        else:
            if self.mode == ALONE and self.is_queue() and self.delivered >= self.w - self.w // 4:
                self.share()
            self.set_w(passed)
            self.congestion(call)

    def passed(self, call, used: int, lost: int, sent: int) -> int:
        """What the path passes of W, if a round trip without a queue loses more than half.

        Otherwise, and in an outage, this is used, what the flow uses of W.
        """
        loses_half = 2 * lost > sent and lost > min(used, P_SEGMENTS) // 2
        is_outage = self.delivered >= min(used, call.packets_out) // 2
        if self.is_queue() or self.ramp or self.quiet_rounds < PASSED_ROUNDS or \
                not loses_half or is_outage:
            return used
        return max(used - used * lost // sent, self.delivered)

    def used_w(self, call) -> int:
        """In slow start up to W, this is cwnd, or twice what a round trip delivers if that is less."""
        if self.ramp and call.ca_state_old != LOSS:
            return min(self.w, self.cwnd, 2 * self.delivered or self.cwnd)
        return self.w

    def losses(self, call) -> None:
        if self.is_empty():
            self.learn(call)
        if not self.parameters["tolerate_pct"]:
            self.p_q16 = 0
        if call.rs_losses > 0:
            prior = call.rs_prior_delivered if call.rs_delivered > 0 else call.delivered_old - 1
            self.answer(call, prior, call.rs_acked_sacked)

    def recovery_losses(self, call) -> None:
        """React to losses at the start of Recovery.

        RACK's timer has found them outside an ACK; or an ACK reported them in the recovery before, while
        p = 0.
        """
        if not self.min_rtt_us or self.in_ack and self.p_q16:
            return
        if not self.in_ack and self.is_empty():
            self.quiet_lost = min(self.quiet_lost + 1, P_LOST_MAX)
        if self.mode == START or not is_before(call.snd_una, self.epoch_cut_seq):
            self.answer(call, call.delivered_old, 0)

    def mark(self, call) -> None:
        self.marked = 1
        self.set_w(self.used_w(call))
        self.congestion(call)
        self.trimmed = int(self.mode == ALONE)     # HOLD waits until the queue can have drained

    def share(self) -> None:
        self.mode, self.queue_rounds, self.trimmed = SHARED, 0, 0
        self.begin_epoch()

    # -- once in a round trip -------------------------------------------------------------

    def hold(self, queue: bool) -> None:
        """In ALONE: W is cut every second round trip with a queue, but not below W_HOLD.  In the sixth
        one the path is longer if W was cut and the RTT stayed; else the queue is of other flows."""
        if not queue:
            self.queue_rounds = self.trimmed = 0
            return
        if not self.queue_rounds:
            self.epoch_held_w = self.w
        self.queue_rounds += 1
        more_us = self.round_rtt_us - self.epoch_held_rtt_us
        if self.queue_rounds == BUSY and abs(more_us) < self.thr_us // 2 and \
                W_HOLD < self.w <= self.epoch_held_w - self.epoch_held_w // 5:
            self.queue_rounds = 0
            self.min_rtt_us = min(self.round_rtt_us, self.epoch_held_rtt_us)
        elif self.queue_rounds == BUSY or self.queue_rounds > SETTLED and \
                more_us >= max(self.thr_us, 1000 * self.parameters["queue_ms"]):
            self.epoch_w_max = max(self.epoch_w_max, self.epoch_held_w)
            self.share()
        else:
            if self.queue_rounds in (SETTLED, LOOK):
                self.epoch_held_rtt_us = self.round_rtt_us
            if not self.trimmed:
                self.trim(self.above(self.round_rtt_us), min(self.w, W_HOLD))
            self.trimmed ^= 1

    def watch(self) -> None:
        """In SHARED: the path is longer if seven round trips have one RTT and W changes by a fifth."""
        if not self.queue_rounds or \
                abs(self.round_rtt_us - self.epoch_held_rtt_us) >= self.thr_us // STEADY_PART:
            self.queue_rounds = 1
            self.epoch_held_rtt_us, self.epoch_held_w = self.round_rtt_us, self.w
        elif self.queue_rounds < BUSY:
            self.queue_rounds += 1
        elif self.w >= STEADY_W and abs(self.w - self.epoch_held_w) >= self.epoch_held_w // 5:
            self.min_rtt_us = self.round_rtt_us
            self.mode, self.queue_rounds = ALONE, 0

    def round(self, call) -> None:
        if not self.blocked and self.block_samples:
            self.end_block()
        self.blocked = 0
        queue = self.above(self.round_rtt_us) >= self.thr_us
        if self.mode == START:
            if self.train == DONE and not call.rs_app_limited:
                self.start_round()
        elif self.mode == ALONE:
            self.hold(queue)
        else:
            if queue:
                self.watch()
            if self.quiet_rounds >= WAIT_ROUNDS:
                self.mode, self.queue_rounds = ALONE, 0
            elif not queue:
                self.queue_rounds = 0
        if queue:
            self.p_q16 -= -(-self.p_q16 // P_PART)
        self.quiet_rounds = min(self.quiet_rounds + 1, 31)
        self.round_delivered = call.delivered_old
        if self.mode != START:
            self.round_lost = (call.lost - max(call.rs_losses, 0)) & U32
            self.follow_cut(call)
        self.round_rtt_us = 0
        self.bw_2, self.bw_1, self.bw_0 = self.bw_1, self.bw_0, 0

    def follow_cut(self, call) -> None:
        """Keep the place of the last cut within the reach of is_before()."""
        if is_before(self.epoch_cut_seq, call.snd_una):
            self.epoch_cut_seq = (call.snd_una - 1) & U32
        if (call.delivered_old - self.epoch_cut_delivered) & U32 > CUT_FAR:
            self.epoch_cut_delivered = (call.delivered_old - CUT_FAR) & U32

    def may_decay(self, call) -> bool:
        """Whether the window may decay as unused, as far as the record shows."""
        return bool(call.app_limited and not self.cwnd_in_use(call) and self.train == DONE
                    and call.ca_state_old == OPEN and self.restarts
                    and call.t_ns - self.decayed_ns > UNUSED_NS)

    def decay(self, call) -> None:
        used = max(call.cwnd_used, self.initial_w)
        if used < self.w:
            self.set_w((self.w + used) // 2)
            if self.mode != START:
                self.begin_epoch()

    # -- cwnd and rate ----------------------------------------------------------------------

    def set_cwnd(self, call) -> None:
        flight, w = call.in_flight_old, min(self.w, call.clamp)
        cwnd = w
        if self.ramp:
            timeout = call.ca_state_old == LOSS
            cwnd = self.cwnd
            if call.ca_state_old > DISORDER or self.cwnd_in_use(call):
                cwnd += call.rs_acked_sacked
            if timeout and self.quiet_rounds >= JUMP_ROUNDS:
                cwnd = max(cwnd, w // 2)
            cwnd = min(cwnd, w)
            if cwnd == w:
                self.ramp = int(timeout)
        elif flight >= w and self.mode != START:
            whole, self.shrink_credit = divmod(self.shrink_credit + 5 * call.rs_acked_sacked, 8)
            cwnd = flight + max(whole, int(call.rs_losses > 0))
        self.cwnd = min(max(cwnd, 1), call.clamp)

    def set_rate(self, call) -> None:
        """Bytes per second."""
        if not call.srtt_us8:
            return
        ratio = self.ratios[self.mode != START]
        self.rate = call.mss * 80_000 * ratio * min(self.w, call.clamp) // call.srtt_us8
        if self.train != DONE:
            self.rate = U64

    def set_pacing(self) -> None:
        """In SHARED ACKs clock the flow, if W is large and not in slow start; fq paces in any case.

        The model assumes that the application has not set SO_MAX_PACING_RATE.
        """
        if self.mode == START:
            return
        if self.mode == SHARED and not self.ramp and self.w >= CLOCK_W:
            self.paced = 0 if self.paced == PACED_NEEDED else self.paced
        else:
            self.pace()

    # -- callbacks ----------------------------------------------------------------------------

    def init(self, call):
        self.zero()
        self.set_w(self.cwnd)
        self.mss, self.round_delivered = min(call.mss, U16), call.delivered_old
        if call.bytes_sent:
            self.sample(call, call.min_rtt_us if call.min_rtt_us != NO_RTT else 0)
        if call.bytes_sent or not self.parameters["hoe"]:
            self.train = DONE
            self.pace()
        self.set_rate(call)

    def cong_control(self, call):
        before = dict(vars(self))
        self.acknowledge(call, decays=False)
        if call.new.w != self.w and before["train"] == DONE:
            without = dict(vars(self))
            vars(self).update(before)
            if self.acknowledge(call, decays=True):
                self.decayed_ns = call.t_ns
            else:
                vars(self).update(without)

    def acknowledge(self, call, decays: bool) -> bool:
        """Process an ACK, and return whether an unused window has decayed.

        decays: assume that the core's clock allows a decay.
        """
        decayed = False
        mss = min(call.mss, U16)
        if mss != self.mss:
            if self.mss and mss:
                self.resize(mss)
            self.mss = mss
        self.sample(call, call.rtt_us)
        if call.rs_delivered > 0 and not is_before(call.rs_prior_delivered, self.round_delivered):
            self.round(call)
            if decays and self.may_decay(call):
                self.decay(call)
                decayed = True
        self.measure(call)
        if self.ece and not self.marked and call.ca_state_old > CWR and not self.has_cut_acked(call):
            self.mark(call)
        if self.min_rtt_us:
            self.losses(call)
            if self.is_queue():
                self.quiet_rounds = 0
            if self.mode == START:
                self.start(call)
            else:
                self.grow(call)
        self.set_cwnd(call)
        self.set_rate(call)
        self.set_pacing()
        self.in_ack = self.ece = 0
        return decayed

    def resize(self, mss: int) -> None:
        """Keep the bytes of W, and of all that is compared with it, when the segments' size changes."""
        self.set_w(self.w * self.mss // mss)
        for name in ("bw_0", "bw_1", "bw_2") + (() if self.mode == START else IN_SEGMENTS):
            setattr(self, name, min(getattr(self, name) * self.mss // mss, U32))
        if self.mode != START:
            self.begin_epoch()

    def in_ack_event(self, call):
        self.in_ack, self.ece = 1, int(bool(call.arg & ECE))

    def reduce(self, call):
        self.reduced, self.marked, self.prior_p_q16 = 1, 0, self.p_q16
        if self.mode != START:
            self.epoch_prior_w, self.epoch_prior_w_max = self.w, self.epoch_w_max
        self.ret = max(self.w, 2)

    def undo(self, call):
        self.p_q16, self.quiet_lost, self.excess = self.prior_p_q16, 0, 0
        if self.mode != START and self.epoch_prior_w:
            if self.w < self.epoch_prior_w:     # forget the cut
                self.epoch_cut_delivered = (call.delivered_old - CUT_FAR) & U32
                self.epoch_cut_seq, self.cut = call.snd_una, 0
            self.set_w(max(self.w, self.epoch_prior_w))
            self.epoch_w_max = self.epoch_prior_w_max
            self.begin_epoch()
        w = min(self.w, call.clamp)
        self.ramp = int(call.prior_cwnd < w)
        self.ret = max(call.cwnd_old, min(w, call.prior_cwnd))

    def timeout(self, call) -> None:
        w, self.ramp = self.w, 1
        if not is_timeout(call, self.reduced):
            return
        self.quiet_rounds = 0
        if not self.reduced and self.has_cut(call.snd_una):
            return
        self.congestion(call)
        if self.reduced or not self.epoch_prior_w:
            self.epoch_prior_w = w
        if self.parameters["tolerate_pct"] and self.min_rtt_us and not self.is_queue():
            self.epoch_w_max = self.epoch_prior_w_max

    def set_state(self, call):
        new = call.arg
        if new == LOSS:
            self.timeout(call)
        elif new <= DISORDER:
            self.marked = 0
        elif self.ece and self.has_cut_acked(call):
            if new == RECOVERY:
                self.recovery_losses(call)
            else:
                self.marked = 1
        elif self.ece and not self.marked or new == CWR and (not self.in_ack or not self.is_quiet()):
            self.mark(call)
        elif new == RECOVERY:
            self.recovery_losses(call)
        self.reduced = 0

    def cwnd_event(self, call):
        if call.call == TX_START_EVENT or call.arg == TX_START:
            self.begin(call)

    def begin(self, call) -> None:
        """Handle the first segment after a pause, with nothing in flight."""
        self.in_ack = self.ece = 0
        if call.packets_out or not self.last:
            return
        gap_ms, srtt_ms = (call.t_ns - self.last.t_ns) // 1_000_000, call.srtt_us8 // 8000
        if self.mode != START:
            idle_ms = (call.new.epoch_begin_ms - self.epoch_begin_ms) & U32
            now_ms = call.mstamp_us // 1000 & U32
            least, most = max(gap_ms - TICK_MS, 0), gap_ms + 4 * srtt_ms + 1000
            if call.new.epoch_begin_ms == now_ms:       # the clock is not set to the future
                least = 0
            if is_before(now_ms, call.new.epoch_begin_ms):
                raise Wrong("epoch_begin_ms", f"{now_ms} at most", call.new.epoch_begin_ms, self.basis())
            if not least <= idle_ms <= most:
                raise Wrong("idle", f"{least} to {most} ms", f"{idle_ms} ms", self.basis())
            self.epoch_begin_ms = call.new.epoch_begin_ms
        if not self.restarts or gap_ms + 4 * srtt_ms + TICK_MS < 200:
            return
        halved = self.halvings(call)
        if halved is None:
            if gap_ms > 8 * srtt_ms + 3000:
                raise Wrong("restart", f"one, after {gap_ms} ms without a segment", "none", self.basis())
            return
        if self.mode == START:
            self.set_w(halved)
        else:
            self.set_w(max(halved, self.least_after_idle()))
            self.begin_epoch()
            self.quiet_rounds, self.ramp = 0, 1
        self.cwnd = min(halved, self.w)
        self.set_rate(call)

    def least_after_idle(self) -> int:
        """W after a pause: 3/4, or all of it if cwnd has not reached W since the pause before."""
        return self.w if self.ramp else self.w - self.w // 4

    def halvings(self, call) -> int | None:
        """The record's cwnd, which is halved once or more; None if the record shows no restart."""
        shown = call.cwnd != self.cwnd or self.mode != START and any(
            getattr(call.new, name) != getattr(self, name) for name in RESTARTED)
        if not shown:
            return None
        halved, most = self.cwnd, self.w if self.mode == START else max(self.least_after_idle(), W_MIN)
        while halved > self.initial_w:
            halved = max(halved // 2, self.initial_w)
            if min(halved, max(most, halved)) == call.cwnd:
                break
        return halved
