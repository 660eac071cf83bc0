# SPDX-License-Identifier: GPL-2.0
"""westwood_abse: R. Wang et al., "Adaptive Bandwidth Share Estimation in TCP Westwood", Globecom
2002, and Astart, Infocom 2004.

    s_k     = (D_k - D_(k-1)) / dt_k, D_k all segments delivered by t_k
    RE_k    = (segments delivered in the RTT before t_k) / RTT
    Th_k    = 3/5 Th_(k-1) + 2/5 RE_k
    T_(k+1) = RTT (cwnd - Th_k RTT_min) / cwnd, at least T_min = max(RTT / t_min_div, 1 ms)
    U_k     = 3/5 U_(k-1) + 2/5 |s_k - s_(k-1)|
    tau_k   = RTT + tau_n RTT U_k / U_max, U_max the largest of the last ten; 1 for U_k / U_max in
              Astart
    alpha_k = (2 tau_k - dt_k) / (2 tau_k + dt_k), at least 0
    BSE_k   = alpha_k BSE_(k-1) + (1 - alpha_k) s_k
    b       = max(BSE, RE) RTT_min
    loss: ssthresh = b, cwnd = min(cwnd, b);  Astart: ssthresh rises to b

Sample k is taken T_k or more after the point before, and T_min or more after the clock's start; the
first flight, which leaves back to back, is one sample.  The window of RE goes back to the last point
of an RTT or more ago, or to the oldest of the 64 last, and is divided by the time since then.

Quantised, by the documentation: rates in 2^-16 segments/s, rounded down; Th RTT_min in 2^-8
segments from Th in 2^-8, rounded down; T_k and tau in us, rounded down; U / U_max in 2^-16, rounded
down; alpha in 2^-20, rounded down; BSE to the nearest; b to the nearest from the rate in 2^-8, at least
2.  Each is checked to be within its documented error of the equation.

Of the flow's samples the trace is believed: their times, what was delivered by then, cwnd, RTT
and RTT_min.  Which ACK became one is checked as far as the ACKs that did are shown.
"""

from bisect import bisect_right
from collections import deque

from .arithmetic import INFINITE, Q16, Q20
from .core import ACKS, CWR, DISORDER, INIT, OPEN, OWN, RECOVERY, STATE, CountFlow, Wrong, same

ASTART, COMPLETE, TIMEOUT, RESUME, MARKED = range(OWN, OWN + 5)

START, BLIND, TRAIN, SAMPLE, COARSE = range(1, 6)
OUTCOMES = {START: "start", BLIND: "blind", TRAIN: "train", SAMPLE: "sample", COARSE: "coarse"}
NEW_FLOW = 0                    # why the clock was stopped

FLOOR_US, TRAIN_MIN_US = 1000, 100
POINTS = 64                     # are remembered
RATE_MAX, PKTS_MAX = (1 << 43) - 1, 1 << 27
REMEMBERED = 10                 # U_k, of which U_max is the largest


def rate(pkts: int, us: int) -> int:
    """Segments per second in 2^-16."""
    return min(min(pkts, PKTS_MAX) * 1_000_000 * Q16 // us, RATE_MAX)


def smoothed(old: int, new: int) -> int:
    """3/5 old + 2/5 new, to within half of the last place."""
    return (3 * old + 2 * new + 2) // 5


def near(what: str, difference: int, allowed: int) -> None:
    if abs(difference) > allowed:
        raise Wrong(what, "within its documented error", f"off by {abs(difference) / allowed:.3g} of it",
                    "of the exact equation")


class WestwoodAbse(CountFlow):
    STREAMS = {"satcc:westwood_abse": "take", "satcc:westwood_abse_sample": "estimate"}
    MODULE = "tcp_westwood_abse"
    DEFAULTS = {"pacing": 1, "astart": 1, "recovery_start": 1, "history": 1, "tau_n": 10,
                "t_min_div": 8, "ecn_beta_pct": 80}
    ENTERING = STATE, TIMEOUT
    CODES = {ASTART: "astart", COMPLETE: "complete", TIMEOUT: "timeout", RESUME: "resume",
             MARKED: "marked"}

    def __init__(self, parameters, scenario):
        super().__init__(parameters, scenario)
        self.marks = scenario.sender.sysctl.get("net.ipv4.tcp_ecn", 2) in (1, "1")
        self.handlers |= {ASTART: self.raised, COMPLETE: self.completed, TIMEOUT: self.timed_out,
                          RESUME: self.resumed, MARKED: self.marked}
        self.clear()

    def clear(self):
        self.bse = self.re = self.th = self.s = 0
        self.history = deque(maxlen=REMEMBERED)     # of U
        self.times, self.pkts = [], []              # of the last points since the clock's start
        self.began = None                           # the clock: time and segments
        self.first_flight = False
        self.wait = 0                               # T of the sample to come
        self.min_rtt, self.rearmed = 0, False
        self.loss_b = 0
        self.astart = self.astart_before = self.blind = False
        self.reduced = False
        self.fresh = None               # the last record of the estimator
        self.counted_from, self.counted, self.certain = 0, 0, False
        self.disturbed = None           # the last arrival with an event not of growth

    # -- the estimator ---------------------------------------------------------------

    def estimate(self, row):
        """One record of the estimator: a start of its clock, or a sample."""
        self.follow_min(row.min_rtt_us)
        self.fresh = row
        for name, found, should in (("bse_old_q16", row.bse_old_q16, self.bse),
                                    ("th_old_q16", row.th_old_q16, self.th),
                                    ("s_old_q16", row.s_old_q16, self.s)):
            if found != should:
                raise Wrong(name, should, found, "the record before left it so")
        same("astart", row.astart, int(self.astart), "by the events before")
        t_min = max(row.rtt_us // self.parameters["t_min_div"], FLOOR_US)
        if row.outcome in (START, BLIND):
            self.begin(row)
            self.wait = t_min
        else:
            self.sampled(row, t_min)
        self.times.append(row.t_us)
        self.pkts.append(row.delivered)
        if len(self.times) > POINTS:
            del self.times[0], self.pkts[0]
        for name, found, should in (("th_q16", row.th_q16, self.th), ("s_q16", row.s_q16, self.s),
                                    ("re_q16", row.re_q16, self.re), ("bse_q16", row.bse_q16, self.bse),
                                    ("next_us", row.next_us, self.wait)):
            if found != should:
                raise Wrong(name, should, found, f"{OUTCOMES[row.outcome]}, RTT {row.rtt_us} us, "
                            f"RTT_min {row.min_rtt_us} us, cwnd {row.cwnd}, Th {self.th / Q16:.6g}/s")
        same("b", row.b, self.window(row.min_rtt_us),
             f"BSE {self.bse / Q16:.6g}/s, RE {self.re / Q16:.6g}/s, RTT_min {row.min_rtt_us} us")

    def begin(self, row):
        """The clock starts, from here."""
        if row.outcome == START:
            if row.stopped == NEW_FLOW and self.began:
                raise Wrong("stopped", "idle or application", "new flow", "the clock was running")
        else:
            age = row.t_us - self.began[0] if self.began else -1
            if age < 0 or self.bse or age < row.rtt_us // 2:
                raise Wrong("outcome", "no blind", "blind",
                            f"clock's age {age} us, RTT {row.rtt_us} us, BSE {self.bse / Q16:.6g}/s")
            self.blind = True
        self.began = row.t_us, row.delivered
        self.first_flight = not self.bse
        self.times, self.pkts, self.re = [], [], 0

    def sampled(self, row, t_min):
        if not self.began:
            raise Wrong("outcome", "start", OUTCOMES.get(row.outcome, row.outcome),
                        "the clock was stopped")
        age = row.t_us - self.began[0]
        dt, pkts = row.t_us - self.times[-1], (row.delivered - self.pkts[-1]) % (1 << 32)
        for name, found, should in (("age_us", row.age_us, age), ("dt_us", row.dt_us, dt),
                                    ("pkts", row.pkts, pkts),
                                    ("interval_us", row.interval_us, self.wait)):
            if found != should:
                raise Wrong(name, should, found, "by the records before")
        outcome = self.proper(row, age, dt, t_min) if pkts else None
        if row.outcome != outcome:
            raise Wrong("outcome", OUTCOMES.get(outcome, "none"), OUTCOMES.get(row.outcome, row.outcome),
                        f"{pkts} segments, {dt} us since the point before, {age} us since the clock's "
                        f"start, T {self.wait} us, T_min {t_min} us, RTT {row.rtt_us} us")
        if outcome == TRAIN:
            pkts = (row.delivered - self.began[1]) % (1 << 32)
            self.th = self.s = self.re = self.bse = rate(pkts, age)
            self.wait = t_min
        elif outcome == COARSE:
            self.re = rate(pkts, dt)
            self.filtered(row, self.re, row.rtt_us * (1 + self.astart * self.parameters["tau_n"]), dt)
            self.wait = max(row.rtt_us, FLOOR_US)
        else:
            self.by_equations(row, rate(pkts, dt), dt)
            self.wait = self.interval(row, t_min)
        self.first_flight = self.first_flight and outcome == TRAIN

    def proper(self, row, age, dt, t_min):
        """What an ACK with segments delivered is, the clock running."""
        if not self.bse and age >= row.rtt_us // 2:
            return BLIND
        if self.first_flight and (not self.bse or age < t_min):
            return TRAIN if age >= max(1, min(TRAIN_MIN_US, row.rtt_us // 8)) else None
        if age < t_min or dt < self.wait:
            return None
        return SAMPLE if row.history else COARSE

    def by_equations(self, row, s, dt):
        at = max(bisect_right(self.times, row.t_us - row.rtt_us) - 1, 0)
        pkts, us = (row.delivered - self.pkts[at]) % (1 << 32), row.t_us - self.times[at]
        if row.re_pkts != pkts or row.re_window_us != us:
            raise Wrong("window of RE", f"{pkts} segments in {us} us",
                        f"{row.re_pkts} in {row.re_window_us}", f"RTT {row.rtt_us} us")
        self.re = rate(pkts, us)
        self.th = smoothed(self.th, self.re)
        old = self.history[-1] if self.history else 0
        u = smoothed(old, abs(s - self.s))
        if row.u_old_q16 != old or row.u_q16 != u:
            raise Wrong("U", f"{old} and then {u}", f"{row.u_old_q16} and then {row.u_q16}",
                        f"in 2^-16; s was {self.s} and is {s}")
        self.history.append(u)
        most, n = max(self.history), self.parameters["tau_n"]
        if row.u_max_q16 != most:
            raise Wrong("u_max_q16", most, row.u_max_q16, f"the largest of {list(self.history)}")
        tau = row.rtt_us + (n * row.rtt_us * ((u << 16) // most if most else 0) >> 16)
        if self.astart:
            tau = row.rtt_us * (1 + n)
        elif most:
            near("tau", (tau - row.rtt_us) * most - n * row.rtt_us * u,
                 most + n * row.rtt_us * most // Q16)
        self.filtered(row, s, tau, dt)

    def interval(self, row, t_min):
        """T_(k+1)."""
        filled = (self.th >> 8) * row.min_rtt_us // 1_000_000           # Th RTT_min in 2^-8
        whole = row.cwnd << 8
        value = row.rtt_us * (whole - filled) // whole if filled < whole else 0
        one = row.cwnd * Q16 * 1_000_000
        exact = row.rtt_us * max(one - self.th * row.min_rtt_us, 0)
        near("next_us", value * one - exact, one + row.rtt_us * 256 * (row.min_rtt_us + 1_000_000))
        return max(value, t_min)

    def filtered(self, row, s, tau, dt):
        dt, old = min(dt, 2 * tau), self.bse
        above, below = 2 * tau - dt, 2 * tau + dt
        alpha = above * Q20 // below
        if row.tau_us != tau:
            raise Wrong("tau_us", tau, row.tau_us,
                        f"U {row.u_q16 / Q16:.6g}/s of at most {row.u_max_q16 / Q16:.6g}/s")
        if row.alpha_q20 != alpha:
            raise Wrong("alpha_q20", alpha, row.alpha_q20, f"tau {tau} us, dt {dt} us")
        self.bse = (alpha * old + (Q20 - alpha) * s + Q20 // 2) // Q20
        near("bse", 2 * Q20 * (self.bse * below - above * old - (below - above) * s),
             Q20 * below + 2 * below * abs(s - old))
        self.s = s

    def window(self, min_rtt_us: int) -> int:
        """b, in segments."""
        most = max(self.bse, self.re)
        if not most or not min_rtt_us:
            return 0
        unit = 256 * 1_000_000
        b = ((most >> 8) * min_rtt_us + unit // 2) // unit
        exact, one = most * min_rtt_us, Q16 * 1_000_000
        near("b", b * one - exact, one // 2 + 256 * min_rtt_us)
        return max(b, 2)

    def follow_min(self, min_rtt_us: int) -> None:
        """RTT_min falls, but for once after a timeout."""
        if self.min_rtt and not 0 < min_rtt_us <= self.min_rtt:
            if not self.rearmed:
                raise Wrong("min_rtt_us", f"at most {self.min_rtt}", min_rtt_us,
                            "it has grown without a timeout")
            self.rearmed = False
        self.min_rtt = min_rtt_us

    # -- the window ------------------------------------------------------------------

    def before(self, row):
        super().before(row)
        if row.event == INIT:
            self.clear()
        self.follow_min(row.min_rtt_us)

    def agree(self, row):
        """A record of the estimator and the main event of the same ACK speak of the same RTT and
        window; between two records as many segments were delivered as the ACKs' events say."""
        fresh, self.fresh = self.fresh, None
        if self.last is None or row.arrival < 0:
            return
        # An ACK in fast recovery delivers, but has no event of its own.
        if row.arrival - self.last.arrival > 1 or (
                row.arrival > self.last.arrival and self.last.event not in ACKS):
            self.certain = False
        if row.event in ACKS:
            self.counted += row.acked
        elif row.event != ASTART:
            self.disturbed = row.arrival        # an undo, say, between estimate and growth
        if not fresh:
            return
        if fresh.arrival != row.arrival or row.event not in ACKS:
            self.certain = False
            if fresh.arrival == row.arrival:    # an event of the same ACK is still to come
                self.fresh = fresh
            return
        same("rtt_us", fresh.rtt_us, min(max(row.srtt_us, 1), 1 << 24), "the smoothed RTT is meant")
        if self.disturbed != row.arrival:
            same("cwnd", fresh.cwnd, row.cwnd_old, "as the estimator used it")
        delivered = (fresh.delivered - self.counted_from) % (1 << 32)
        if self.certain:
            same("delivered", delivered, self.counted, "segments since the record before, by the ACKs")
        self.counted_from, self.counted, self.certain = fresh.delivered, 0, True

    def after(self, row):
        self.agree(row)
        for name, found, should in (("bse_q16", row.bse_q16, self.bse),
                                    ("re_q16", row.re_q16, self.re),
                                    ("b", row.b, self.window(row.min_rtt_us)),
                                    ("loss_b", row.loss_b, self.loss_b),
                                    ("astart", row.astart, int(self.astart)),
                                    ("blind", row.blind, int(self.blind))):
            if found != should:
                raise Wrong(name, should, found, self.basis())
        super().after(row)

    def basis(self):
        return (f"BSE {self.bse / Q16:.6g}/s, RE {self.re / Q16:.6g}/s, RTT_min {self.min_rtt} us, "
                f"b {self.window(self.min_rtt)}, "
                f"b at the last loss {self.loss_b}, counted {self.count_old}, Astart {self.astart}")

    def start(self, row):
        self.unshaken, self.reduced_from = not row.srtt_us, None
        same("cwnd", row.cwnd, row.cwnd_old, "the flow starts")
        self.astart = bool(self.parameters["astart"] and row.ssthresh_old >= INFINITE)
        should = max(row.cwnd_old, 2) if self.astart else row.ssthresh_old
        same("ssthresh", row.ssthresh, should, "the flow starts")

    def target(self, row):
        """What Astart wants of ssthresh."""
        if not self.astart:
            return 0
        b = self.window(self.min_rtt)
        if row.ssthresh_old >= INFINITE:
            return max(b, row.cwnd_old, 2)
        return b or (2 * row.cwnd_old if self.blind else 0)

    def raised(self, row):
        same("cwnd", row.cwnd, row.cwnd_old, "Astart moves ssthresh alone")
        target = min(self.target(row), INFINITE - 1)
        if row.ssthresh_old < INFINITE and target <= row.ssthresh_old:
            raise Wrong("event", "no astart", "astart", self.basis())
        same("ssthresh", row.ssthresh, target, self.basis())

    def due(self, row):
        target = self.target(row)
        if target and (target > row.ssthresh_old or row.ssthresh_old >= INFINITE):
            raise Wrong("event", "astart", "none", f"ssthresh {row.ssthresh_old} is below {target}; "
                        + self.basis())
        if self.reduced and row.ca_state in (OPEN, DISORDER):
            # A marked recovery may be undone and nobody told: the core has no window to go back to.
            if not self.marks:
                raise Wrong("event", "complete", "none", "CWR or Recovery is over, not undone")
            self.reduced = False

    def grow(self, row):
        self.due(row)
        cwnd, left = row.cwnd_old, row.acked
        if cwnd < row.ssthresh:
            # The kernel's: the whole of what is left is still to be paid at the clamp.
            step = min(left, row.ssthresh - cwnd)
            cwnd, left = min(cwnd + step, row.limit), left - step
            if not left:
                return cwnd
        return self.pay(cwnd, row.limit, left)

    def held(self, row):
        self.due(row)
        super().held(row)

    def halved(self, row):
        b = self.window(self.min_rtt)
        self.astart_before = self.astart
        self.loss_b = 0 if row.mark else b
        if not b:
            return max(row.cwnd_old // 2, 2)
        most = row.cwnd_old * self.parameters["ecn_beta_pct"] // 100 if row.mark else row.cwnd_old
        return max(min(b, most), 2)

    def state(self, row):
        self.unchanged(row)
        self.reduced = row.ca_state in (CWR, RECOVERY)
        self.astart = False             # a timeout's own event sets it

    def drop(self, row):
        """Nothing is carried."""

    def undo(self, row):
        """ssthresh is left below what the core restores: it restores nothing else."""
        if self.reduced_from:
            same("ssthresh", row.ssthresh, min(row.ssthresh_old, self.reduced_from[1] - 1),
                 "the core is to restore it")
            same("cwnd", row.cwnd, max(row.cwnd_old, self.reduced_from[0]),
                 f"{self.reduced_from[0]} is the window that was reduced")
        self.reduced, self.loss_b = False, 0
        self.astart = self.astart_before

    def core_moved(self, row):
        """And: after resume or marked the core makes ssthresh, as it then is, the window."""
        resumed = self.last.event in (RESUME, MARKED)
        if not (resumed and row.cwnd_old == self.ssthresh == row.ssthresh_old):
            super().core_moved(row)

    def resumed(self, row):
        same("cwnd", row.cwnd, row.cwnd_old, "the core makes ssthresh the window")
        should = min(self.window(self.min_rtt), row.limit, row.ssthresh_old + row.loss_delivered)
        if not self.parameters["recovery_start"] or not self.loss_b or should <= row.ssthresh_old:
            raise Wrong("event", "no resume", "resume", self.basis())
        same("ssthresh", row.ssthresh, should, self.basis())

    def marked(self, row):
        """Recovery ends, and in it there was a mark, which the core does not ask about again."""
        same("cwnd", row.cwnd, row.cwnd_old, "the core makes ssthresh the window")
        if not self.loss_b or not self.marks:
            raise Wrong("event", "no marked", "marked", self.basis())
        if self.reduced_from:
            most = self.reduced_from[0] * self.parameters["ecn_beta_pct"] // 100
            same("ssthresh", row.ssthresh, max(min(row.ssthresh_old, most), 2), self.basis())
        self.loss_b = 0

    def completed(self, row):
        same("cwnd", row.cwnd, row.cwnd_old, "it moves ssthresh alone")
        should = row.ssthresh_old
        if self.reduced and self.loss_b:
            should = max(should, self.window(self.min_rtt))
        same("ssthresh", row.ssthresh, should, self.basis())
        self.reduced = False

    def timed_out(self, row):
        same("cwnd", row.cwnd, row.cwnd_old, "it moves ssthresh alone")
        same("ssthresh", row.ssthresh, max(row.ssthresh_old, self.loss_b), self.basis())
        self.astart = bool(self.parameters["astart"])
        self.rearmed = True
