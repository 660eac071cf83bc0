# SPDX-License-Identifier: GPL-2.0
"""hybla_full: C. Caini, R. Firrincieli, "TCP Hybla", 2004, and Hoe's estimate, SIGCOMM 1996.

    rho = max(RTT_min / RTT_0, 1), at most 256
    slow start            W += 2^rho - 1    per segment acknowledged
    congestion avoidance  W += rho^2 / W    per segment acknowledged, but no more than max(W / 4, 1)
    ssthresh(0) = slope of segments over time of the first train's ACKs * RTT_min

RTT_min is the smallest sample since the flow's start or its last timeout.  If the core, which forgets
after 300 s, has a larger minimum, RTT_min is the core's, but at most 5/4 of the flow's.

gentle=1 (not in the paper): in congestion avoidance, segments per RTT,

    max(rho / 4, 1)             while there is a queue
    rho^2, bounded as above     without a queue, while W is below b, Hoe's estimate; an ACK that takes W
                                beyond b adds at most one segment for each that it acknowledges
    min(rho^2, max(W / 4, 1))   without a queue, from b on

There is a queue once the smallest RTT of a round trip, or of its first eight samples, exceeds RTT_min by
more than max(RTT_min / 8, 4 ms), until a round trip whose smallest RTT does not.  A round trip lasts
from an RTT sample until all data sent before it is acknowledged.

Rounded, by the documentation: rho down to 1/65536; 2^rho from a table of sixteenths with straight lines
between them (arithmetic.power); rho^2 down to 1/65536; W / 4 down.
"""

from fractions import Fraction
from math import ceil

from .arithmetic import INFINITE, Q16, avoid, climb, line, power, quantised
from .calls import CWND_RESTART, DISORDER, LOSS, OPEN
from .core import NO_RTT, Flow

OFF, WAIT, COLLECT, SET, FAILED = range(5)      # phases of Hoe's estimate
MIN_POINTS, MAX_POINTS, MAX_PKTS, MAX_US, MAX_RTT_US, MIN_SPAN_US = 3, 32, 64, 1 << 22, 1 << 24, 1000
RHO_MAX = 256
QUEUE_SAMPLES = 8
LARGEST_CWND = 1 << 30
U32, U64 = (1 << 32) - 1, (1 << 64) - 1


class HyblaFull(Flow):
    MODULE = "tcp_hybla_full"
    DEFAULTS = {"rtt0_ms": 25, "iw_rho": 0, "gentle": 0}
    FIELDS = ("own_rtt_us", "path_rtt_us", "rho_q16", "credit_avoid_q16", "credit_start_q16",
              "hoe_sum_tt", "hoe_sum_ta", "hoe_sum_t", "hoe_sum_a", "hoe_span_us", "hoe_points",
              "train_start_us", "train_delivered", "train_end_seq", "train_cwnd", "hoe_phase", "by_rho",
              "queue_end_seq", "queue_rtt_us", "queue_samples", "queue_shows", "b")

    def zero(self):
        super().zero()
        self.points = []

    def init(self, call):
        self.zero()
        self.sample(call, call.min_rtt_us if call.min_rtt_us != NO_RTT else 0)
        if not call.bytes_sent and self.ssthresh >= INFINITE:
            self.hoe_phase = WAIT
        rho = min((self.rho_q16 + Q16 // 2) // Q16, call.clamp)
        larger = (self.parameters["iw_rho"] and not call.bytes_sent and self.cwnd >= 2
                  and rho > self.cwnd and self.options(call))
        if larger:
            self.cwnd = rho
        if larger or self.hoe_phase == OFF:
            self.pace()

    @staticmethod
    def options(call) -> bool:
        """Whether the flow has SACK and timestamps, which Hybla needs."""
        return bool(call.sack_ok and call.tstamp_ok)

    # -- rho ----------------------------------------------------------------------

    def sample(self, call, rtt_us: int) -> None:
        if rtt_us <= 0:
            return
        self.own_rtt_us = min(self.own_rtt_us, rtt_us) if self.own_rtt_us else rtt_us
        core = call.min_rtt_us if call.min_rtt_us != NO_RTT else 0
        path = max(self.own_rtt_us, min(core, self.own_rtt_us + self.own_rtt_us // 4))
        if path != self.path_rtt_us:
            self.path_rtt_us = path
            exact = Fraction(path, 1000 * self.parameters["rtt0_ms"])
            self.rho_q16 = quantised(min(max(exact, 1), RHO_MAX))

    def pkts_acked(self, call):
        self.sample(call, call.rtt_us)
        if self.parameters["gentle"] and call.rtt_us > 0:
            if not self.queue_samples:
                self.queue_end_seq, self.queue_rtt_us = call.snd_nxt, call.rtt_us
            self.queue_rtt_us = min(self.queue_rtt_us, call.rtt_us)
            self.queue_samples = min(self.queue_samples + 1, QUEUE_SAMPLES)

    def follow_queue(self, call) -> None:
        """With gentle=1, look for a queue at an ACK of new data."""
        if not self.queue_samples:
            return
        over = not 0 < (self.queue_end_seq - call.ack) & U32 <= 1 << 31
        above = self.queue_rtt_us > self.path_rtt_us + max(self.path_rtt_us // 8, 4000)
        if over:
            self.queue_shows, self.queue_samples = int(above), 0
        elif self.queue_samples == QUEUE_SAMPLES and above:
            self.queue_shows = 1

    # -- the train ------------------------------------------------------------------

    def add_point(self, t_us: int, pkts: int) -> bool:
        """Add a point to the train if it is within the limits; return whether it is."""
        if (len(self.points) >= MAX_POINTS or pkts > MAX_PKTS or t_us >= MAX_US
                or t_us > 2 * self.path_rtt_us):
            return False
        self.points.append((t_us, pkts))
        self.hoe_sum_t = sum(t for t, _ in self.points)
        self.hoe_sum_a = sum(a for _, a in self.points)
        self.hoe_sum_tt = sum(t * t for t, _ in self.points)
        self.hoe_sum_ta = sum(t * a for t, a in self.points)
        self.hoe_span_us, self.hoe_points = t_us, len(self.points)
        return True

    def estimate(self) -> int:
        """Hoe's estimate of the BDP in segments, or 0 if there is none."""
        if len(self.points) < MIN_POINTS or self.points[-1][0] < MIN_SPAN_US \
                or self.path_rtt_us >= MAX_RTT_US:
            return 0
        num, den = line(self.points)
        return max(num * self.path_rtt_us // den, 1) if num > 0 and den > 0 else 0

    def decide(self, call) -> None:
        """Set ssthresh from the train, once, or give up the estimate."""
        pkts = self.estimate() if self.ssthresh >= INFINITE else 0
        self.hoe_phase = SET if pkts else FAILED
        self.b = pkts
        if pkts:
            self.ssthresh = min(max(pkts, self.train_cwnd, 2), call.clamp, LARGEST_CWND)
        self.pace()

    def follow_train(self, call):
        """Follow the train at an ACK of new data, until there is an estimate.  The state is Open."""
        left = (call.snd_nxt - call.ack) & U32
        if self.hoe_phase == WAIT:
            if not self.limited(call) or 2 * left < call.packets_out * call.mss:
                return
            self.train_cwnd = self.cwnd
            more = False
            if self.ssthresh >= INFINITE and self.options(call):
                self.hoe_phase = COLLECT
                self.train_start_us, self.train_delivered = call.mstamp_us, call.delivered_old
                self.train_end_seq = call.snd_nxt
                self.points = []
                self.hoe_sum_t = self.hoe_sum_a = self.hoe_sum_tt = self.hoe_sum_ta = 0
                self.add_point(0, 0)
                more = left > 0
        else:
            to_come = ((self.train_end_seq - call.ack + (1 << 31)) & U32) - (1 << 31)
            used = to_come >= 0 and self.add_point((call.mstamp_us - self.train_start_us) & U64,
                                                   (call.delivered_old - self.train_delivered) & U32)
            more = used and to_come > 0 and not self.estimate()
        if more:
            return
        if self.hoe_phase == COLLECT and not self.paced and call.ack == call.snd_nxt \
                and len(self.points) < MIN_POINTS:
            self.hoe_phase = WAIT
        else:
            self.decide(call)

    # -- the window ---------------------------------------------------------------

    def cong_avoid(self, call):
        if self.hoe_phase in (WAIT, COLLECT):
            self.follow_train(call)
        if self.parameters["gentle"]:
            self.follow_queue(call)
        if not self.limited(call):
            return
        self.by_rho = int(self.options(call) and self.ssthresh < INFINITE and self.rho_q16 > 0
                          and call.ca_state_old != LOSS)
        rho = self.rho_q16 if self.by_rho else Q16
        limit, cwnd, left = min(call.clamp, LARGEST_CWND), self.cwnd, call.arg
        if cwnd < self.ssthresh:
            cwnd, self.credit_start_q16, left = climb(
                cwnd, self.credit_start_q16, min(self.ssthresh, limit), power(rho) - Q16, left)
        if left and self.by_rho and self.parameters["gentle"]:
            cwnd = self.avoid_gently(cwnd, limit, rho, left)
        elif left:
            cwnd = self.avoid(cwnd, limit, rho * rho // Q16, left)
        self.cwnd = cwnd

    def avoid(self, cwnd: int, limit: int, rho2: int, acked: int) -> int:
        """Congestion avoidance.  rho2: rho^2 in units of 1/65536."""
        while acked and cwnd < limit and max(cwnd // 4, 1) * cwnd < ceil(Fraction(rho2, Q16)):
            cwnd += max(cwnd // 4, 1)
            acked -= 1
        if not acked:
            return min(cwnd, limit)
        cwnd, self.credit_avoid_q16 = avoid(cwnd, self.credit_avoid_q16, limit, rho2, acked)
        return cwnd

    def avoid_gently(self, cwnd: int, limit: int, rho: int, acked: int) -> int:
        """Congestion avoidance with gentle=1.  rho: in units of 1/65536."""
        rho2 = rho * rho // Q16
        if self.queue_shows:
            gain = max(rho // 4, Q16)
        elif cwnd < self.b:
            return min(self.avoid(cwnd, limit, rho2, acked), max(self.b, cwnd + acked))
        else:
            gain = min(rho2, max(cwnd // 4, 1) * Q16)
        cwnd, self.credit_avoid_q16 = avoid(cwnd, self.credit_avoid_q16, limit, gain, acked)
        return cwnd

    def drop(self):
        self.credit_avoid_q16 = self.credit_start_q16 = 0

    def set_state(self, call):
        if call.arg == OPEN:
            return
        if self.hoe_phase in (WAIT, COLLECT) and call.bytes_sent:
            self.decide(call)
        if call.arg > DISORDER:
            self.drop()
        if call.arg == LOSS:
            self.own_rtt_us = 0

    def cwnd_event(self, call):
        if call.arg == CWND_RESTART:
            if self.hoe_phase == COLLECT:
                self.decide(call)
            self.drop()

    def basis(self):
        return (f"rho {self.rho_q16 / Q16:.6g}, RTT_min {self.path_rtt_us} us, by rho {self.by_rho}, "
                f"carried {self.credit_start_q16 / Q16:.6g} in slow start and "
                f"{self.credit_avoid_q16 / Q16:.6g} in congestion avoidance, train {self.points}")
