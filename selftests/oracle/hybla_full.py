# SPDX-License-Identifier: GPL-2.0
"""hybla_full: C. Caini, R. Firrincieli, "TCP Hybla", 2004, and Hoe's estimate, SIGCOMM 1996.

    rho = max(RTT_min / RTT_0, 1), at most rho_max
    slow start            W += 2^rho - 1    per segment acknowledged
    congestion avoidance  W += rho^2 / W    per segment acknowledged
    ssthresh(0) = slope of segments over time of the first train's ACKs * RTT_min

Quantised, by the documentation: rho rounded down to 1/65536; 2^rho from a table of sixteenths
with straight lines between (arithmetic.power); rho^2 rounded down to 1/65536.
"""

from fractions import Fraction

from .arithmetic import INFINITE, Q16, climb, line, power, quantised, spend
from .core import ACKS, IDLE, INIT, LOSS, NAMES, OPEN, OWN, Flow, Wrong, same

HOE_SET, HOE_GAMMA, HOE_NONE = OWN, OWN + 1, OWN + 2
OFF, WAIT, COLLECT, SET, FAILED = range(5)      # of the estimate
PLAIN_SACK, PLAIN_TS, PLAIN_LOSS, PLAIN_START, PLAIN_RTT = 1, 2, 4, 8, 16

MAX_POINTS, MAX_PKTS, MAX_US, MAX_RTT_US, MIN_SPAN_US = 32, 64, 1 << 22, 1 << 24, 1000
# The trace's clock is read some instructions after the ACK's.
CLOCK_SLACK_US = 1000


class HyblaFull(Flow):
    STREAMS = {"satcc:hybla_full": "take", "satcc:hybla_full_hoe": "point"}
    MODULE = "tcp_hybla_full"
    DEFAULTS = {"rtt0_ms": 25, "rho_max": 256, "pacing": 1, "require_sack": 1, "require_ts": 1,
                "iw_rho": 0, "loss_hybla": 0, "hoe": 1, "hoe_min_acks": 3, "hoe_wait_train": 0,
                "hoe_scale": 100, "gamma": 0, "as_hybla": 0}
    CODES = {HOE_SET: "hoe_set", HOE_GAMMA: "hoe_gamma", HOE_NONE: "hoe_none"}

    def __init__(self, parameters, scenario):
        super().__init__(parameters, scenario)
        self.handlers |= {code: self.decide for code in self.CODES}
        self.options = None         # SACK and timestamps missing: bits of plain
        self.reset()

    def reset(self):
        self.min_rtt = self.rho = 0
        self.fraction = self.credit = 0
        self.old = 0, 0             # both, before the event
        self.gain = self.rho2 = self.grown_by = 0
        self.phase, self.points, self.initial = OFF, [], 0
        self.delivered = 0          # segments, since the train's first ACK
        self.origin = self.latest = None
        self.over = False           # the train: it is time to decide
        self.early = False          # decided before that

    # -- rho ----------------------------------------------------------------------

    def before(self, row):
        if row.event == INIT:
            self.reset()
        if row.rtt_us:
            if self.sample(row, row.rtt_us, row.min_rtt_us):
                exact = Fraction(self.min_rtt, 1000 * self.parameters["rtt0_ms"])
                self.rho = quantised(min(max(exact, 1), self.parameters["rho_max"]))
        elif row.min_rtt_us:
            raise Wrong("min_rtt_us", 0, row.min_rtt_us, "there was no RTT sample")
        plain = self.plain(row)
        rho = Q16 if plain else self.rho
        if row.plain != plain:
            raise Wrong("plain", hex(plain), hex(row.plain), "why growth is Reno's, as bits")
        if row.rho_q16 != rho:
            raise Wrong("rho", shown(rho), shown(row.rho_q16),
                        f"RTT_min is {self.min_rtt} us" + (", growth is Reno's" if plain else ""))
        if rho != self.grown_by:
            self.grown_by = rho
            self.gain = power(rho) - Q16
            self.rho2 = rho * rho // Q16
        if self.early and row.event != IDLE:
            raise Wrong("event", "idle", self.name(row),
                        "the estimate was decided on with the train neither over nor disturbed")
        self.early = False
        self.old = self.fraction, self.credit

    def plain(self, row):
        """Bits of plain.  SACK and timestamps are the handshake's: ours to take, not to judge."""
        options = row.plain & (PLAIN_SACK | PLAIN_TS)
        allowed = PLAIN_SACK * self.parameters["require_sack"] | PLAIN_TS * self.parameters["require_ts"]
        if self.unshaken or self.options is None:
            self.options = options & allowed
        bits = self.options
        bits |= PLAIN_LOSS * (row.ca_state == LOSS and not self.parameters["loss_hybla"])
        bits |= PLAIN_START * (row.ssthresh_old >= INFINITE)
        return bits | PLAIN_RTT * (not self.rho)

    # -- the window ---------------------------------------------------------------

    def start(self, row):
        self.unshaken = not row.srtt_us
        self.options = None if self.unshaken else row.plain & (PLAIN_SACK | PLAIN_TS)
        self.reduced_from = None
        same("ssthresh", row.ssthresh, row.ssthresh_old, "a start leaves it alone")
        self.phase = row.hoe_phase if row.ssthresh_old >= INFINITE else OFF
        if self.phase not in (OFF, WAIT):
            raise Wrong("hoe_phase", f"{OFF} or {WAIT}", row.hoe_phase, "the flow starts")
        paper = min(max(row.cwnd_old, (self.rho + Q16 // 2) // Q16), row.limit)
        allowed = [row.cwnd_old]
        if self.parameters["iw_rho"] and row.cwnd_old >= 2 and not self.options:
            # Not knowing whether data was sent: it was not, where there is a train to come.
            allowed = [paper] if self.phase == WAIT else [row.cwnd_old, paper]
        if row.cwnd not in allowed:
            raise Wrong("cwnd", " or ".join(map(str, allowed)), row.cwnd, "the flow starts")

    def grow(self, row):
        cwnd, left = row.cwnd_old, row.acked
        if cwnd < row.ssthresh:
            cwnd, self.fraction, left = climb(cwnd, self.fraction, min(row.ssthresh, row.limit),
                                              self.gain, left)
            if not left:
                return cwnd
        bought, self.credit = spend(cwnd, self.credit, left * self.rho2)
        return min(cwnd + bought, row.limit)

    def drop(self, row):
        self.fraction = self.credit = 0

    def after(self, row):
        for name, found, should in (
                ("credit_old_q16", row.credit_old_q16, self.old[1]),
                ("credit_q16", row.credit_q16, self.credit),
                ("start_old_q16", row.start_old_q16, self.old[0]),
                ("start_q16", row.start_q16, self.fraction)):
            if found != should:
                raise Wrong(name, should, found, self.basis())
        self.follow_train(row)
        if row.hoe_points != len(self.points):
            raise Wrong("hoe_points", len(self.points), row.hoe_points, "points of the train used")
        if row.hoe_phase != self.phase:
            raise Wrong("hoe_phase", self.phase, row.hoe_phase, "by what the train has come to")

    def basis(self):
        return (f"rho {shown(self.grown_by)}, 2^rho - 1 = {shown(self.gain)}, "
                f"rho^2 = {shown(self.rho2)}; carried before it {shown(self.old[0])} in slow start "
                f"and {shown(self.old[1])} in congestion avoidance")

    # -- the train -----------------------------------------------------------------

    def point(self, row):
        """An ACK of the train; the main event of the same ACK comes next."""
        if row.t_us == 0 and row.pkts == 0 and row.points == 1:
            self.first_point(row)
        else:
            self.next_point(row)
        num, den = line(self.points)
        same("num", row.num, num, f"of the line through {self.points}")
        same("den", row.den, den, f"of the line through {self.points}")
        same("points", row.points, len(self.points), "points of the train used")
        self.over = (not row.used or row.left_bytes <= 0 or
                     not self.parameters["hoe_wait_train"] and self.estimate(row.min_rtt_us) > 0)
        self.latest = row

    def first_point(self, row):
        if self.phase != WAIT or not self.parameters["hoe"] or self.ssthresh < INFINITE:
            raise Wrong("train", "none", "the first ACK of one",
                        f"phase {self.phase}, ssthresh {self.ssthresh}")
        same("used", row.used, 1, "the first ACK is the origin")
        self.phase, self.points, self.delivered = COLLECT, [(0, 0)], 0
        self.origin, self.initial = row, 0

    def next_point(self, row):
        if self.phase != COLLECT:
            raise Wrong("train", "none", "an ACK of one", f"phase {self.phase}")
        used = (row.left_bytes >= 0 and len(self.points) < MAX_POINTS and row.pkts <= MAX_PKTS
                and row.t_us < MAX_US and row.t_us <= 2 * row.min_rtt_us)
        same("used", row.used, int(used), f"t {row.t_us} us, {row.pkts} segments, "
             f"{row.left_bytes} bytes left of the train, {len(self.points)} points before")
        if used:
            self.points.append((row.t_us, row.pkts))
        passed_us = (row.t_ns - self.origin.t_ns) / 1000
        if abs(passed_us - row.t_us) > CLOCK_SLACK_US:
            raise Wrong("t_us", round(passed_us), row.t_us, "by the times of the two events")

    def estimate(self, min_rtt: int) -> int:
        """Segments that fill the path, or 0."""
        if (len(self.points) < self.parameters["hoe_min_acks"] or self.points[-1][0] < MIN_SPAN_US
                or min_rtt >= MAX_RTT_US):
            return 0
        num, den = line(self.points)
        if num <= 0 or den <= 0:
            return 0
        window = max(num * min_rtt // den, 1)
        return -(-window * self.parameters["hoe_scale"] // 100)

    def follow_train(self, row):
        """After the main event: count what the train's ACKs delivered; was it time to decide?"""
        if row.event in self.CODES:
            return
        latest, self.latest = self.latest, None
        if row.event in ACKS and (self.origin or latest):
            if not latest or latest.t_us:       # the origin's own segments do not count
                self.delivered += row.acked
            if latest:
                same("min_rtt_us", latest.min_rtt_us, self.min_rtt, "when the train's point was taken")
            if latest and latest.pkts != self.delivered:
                raise Wrong("pkts", self.delivered, latest.pkts,
                            "segments the train's ACKs after the first have delivered")
        if not self.initial and self.origin:
            self.initial = row.cwnd_old
        if self.phase == COLLECT and self.over:
            if self.estimate(self.min_rtt) or len(self.points) >= self.parameters["hoe_min_acks"]:
                raise Wrong("event", "hoe_set or hoe_none", self.name(row), "the train is over")
            self.phase, self.over, self.origin = WAIT, False, None      # for the next train

    def decide(self, row):
        """hoe_set, hoe_gamma or hoe_none: the one time ssthresh is set."""
        if self.phase not in (WAIT, COLLECT):
            raise Wrong("event", "no decision", self.name(row), f"phase {self.phase}: one was made")
        if self.phase == COLLECT and not self.over and row.ca_state == OPEN:
            self.early = True
        code, pkts = HOE_NONE, 0
        if row.ssthresh_old >= INFINITE:
            pkts = self.estimate(self.min_rtt) if self.phase == COLLECT else 0
            code = HOE_SET if pkts else HOE_NONE
            gamma = self.rho * self.parameters["gamma"] // Q16
            if not pkts and gamma and not self.options:
                code, pkts = HOE_GAMMA, gamma
        if row.event != code:
            raise Wrong("event", self.CODES[code], self.name(row),
                        f"points {self.points}, RTT_min {self.min_rtt} us")
        should = row.ssthresh_old
        if pkts:
            initial = (self.initial or row.cwnd_old) if self.origin else row.cwnd_old
            should = min(max(pkts, initial, 2), row.limit, INFINITE - 1)
        same("ssthresh", row.ssthresh, should, f"points {self.points}, RTT_min {self.min_rtt} us")
        same("cwnd", row.cwnd, row.cwnd_old, "ssthresh is set, cwnd is not")
        self.phase, self.over = SET if code == HOE_SET else FAILED, False
        self.origin = None

    def name(self, row):
        return self.CODES.get(row.event) or NAMES.get(row.event, row.event)


def shown(q16: int) -> str:
    """A number in units of 1/65536 as a person writes it."""
    return f"{q16 / Q16:.6g} ({q16}/65536)"
