# SPDX-License-Identifier: GPL-2.0
"""westwood_abse: R. Wang et al., "Adaptive Bandwidth Share Estimation in TCP Westwood", Globecom 2002,
and Astart, Infocom 2004.

    b = max(BSE, RE) RTT_min    segments; at least 2; no b before the first BSE and the first RTT
    ssthresh after a loss       b; with a queue: min(b, 85 % of W), BSE at most RE; without b: W / 2
    growth                      Reno's; Astart: ssthresh = max(ssthresh, b) at every ACK

BSE is a filter (class Estimator) of the delivery rates of segments.  RE is the core's rate sample.
RTT_min is the smallest RTT since the start or the last timeout, and not below the core's minimum over
the last 300 s.

The reason of a reduction follows from the next state of recovery, from whether the core enters it within
an ACK, and from whether that ACK echoed a mark (set_state()).  Above ssthresh, recovery sends one
segment for two delivered; below it, the window grows by one for each.  The window is never above twice
the sum of the segments in flight and those just delivered.  Once in each round trip without a queue
ssthresh may be raised (probe).

Rounded, by the documentation: rates to 1/256 segment/s, down; Th and U to nearest fifth up, then down;
times to us, down; the ratio of U to 1/65536 and alpha to 1/2^20, down; BSE and b to nearest; products
with 3/4, 5/4, 17/16, percent: down.
"""

from .arithmetic import climb_by_one, is_before
from .calls import CWR, DISORDER, LOSS, RECOVERY, TX_START
from .core import INFINITE, NO_RTT, Control, is_timeout, three_quarters

U32, INT_MAX = (1 << 32) - 1, (1 << 31) - 1
SECOND = 10 ** 6                # us
RATE_ONE, RATE_MAX, PKTS_MAX, RTT_MAX = 256, U32, 1 << 24, 1 << 24
N, T_MIN_PART, T_MIN_US, TRAIN_US, TRAIN_ACKS, FIVE = 10, 8, 1000, 100, 3, 5
NONE, START, BLIND, TRAIN, SAMPLE = range(5)
ECE = 4                         # CA_ACK_ECE of in_ack_event()'s flags
MARK_PCT, FULL_PCT, FULL_WAIT, BOLD, BACKOFF_MAX = 80, 85, 16, 2, 8
RESTART_PKTS, IDLE_US, TICK_US = 10, SECOND, 64


def rate_of(pkts: int, us: int) -> int:
    """Segments per second in units of 1/256."""
    return min(min(pkts, PKTS_MAX) * SECOND * RATE_ONE // us, RATE_MAX)


def window_of(rate: int, rtt_us: int) -> int:
    """The segments that a rate sends in an RTT."""
    if not rate or not rtt_us:
        return 0
    product, unit = rate * min(rtt_us, RTT_MAX), RATE_ONE * SECOND
    return max((product + unit // 2) // unit, 2)


class Estimator:
    """BSE, by the equations at the head of abse.h.  Its state is in a flow's fields est_*."""

    def t_min(self, rtt_us: int) -> int:
        return max(rtt_us // T_MIN_PART, T_MIN_US)

    def kind(self, pkts: int, gap_us: int, rtt_us: int, dt_us: int) -> int:
        """The kind of an ACK for the estimator.  pkts: segments since the last point."""
        if not self.est_running:
            return START
        if not pkts:
            return NONE
        if not self.est_bse_q8 and dt_us >= rtt_us // 2:
            return BLIND
        if not self.est_train or self.est_bse_q8 and dt_us >= self.t_min(rtt_us):
            return SAMPLE if self.est_bse_q8 and dt_us >= self.est_t_us else NONE
        self.est_train_acks = min(self.est_train_acks + 1, 255)
        if self.est_train_acks < TRAIN_ACKS or dt_us < max(min(rtt_us // 8, TRAIN_US), 1):
            return NONE
        if dt_us <= 4 * gap_us * self.est_train_acks and gap_us * self.est_train_acks <= 4 * dt_us:
            return TRAIN
        self.est_train = 0
        return NONE if self.est_bse_q8 else BLIND

    def ack(self, call, rtt_us: int, gap_us: int, slow: bool) -> int:
        """Process an ACK at which the application did not limit the flow.  Returns the ACK's kind."""
        rtt_us = min(max(rtt_us, 1), RTT_MAX)
        dt_us = call.mstamp_us - self.est_point_us
        pkts = (call.delivered_old - self.est_point_pkts) & U32
        kind = self.kind(pkts, gap_us, rtt_us, dt_us)
        if kind == NONE:
            return kind
        if kind == TRAIN:
            self.est_bse_q8 = self.est_th_q8 = self.est_s_q8 = rate_of(pkts, dt_us)
            return kind
        interval = self.t_min(rtt_us)
        if kind == START:
            self.est_running, self.est_train, self.est_train_acks = 1, int(not self.est_bse_q8), 0
        elif kind == BLIND:
            self.est_train = 0
            self.est_bse_q8 = self.est_th_q8 = self.est_s_q8 = self.est_re_q8
        else:
            self.est_train = 0
            self.filter(rate_of(pkts, min(dt_us, U32)), rtt_us, dt_us, slow)
            through = self.est_th_q8 * min(self.min_rtt_us, RTT_MAX) // SECOND
            full = RATE_ONE * self.cwnd
            interval = max(rtt_us * max(full - through, 0) // full, interval)
        self.est_point_us, self.est_point_pkts = call.mstamp_us, call.delivered_old
        self.est_t_us = interval
        return kind

    def filter(self, s: int, rtt_us: int, dt_us: int, slow: bool) -> None:
        """Update Th, U, U_max and BSE, with tau and alpha."""
        change, self.est_s_q8 = abs(s - self.est_s_q8), s
        self.est_th_q8 = (3 * self.est_th_q8 + 2 * self.est_re_q8 + 2) // 5
        self.est_u_q8 = (3 * self.est_u_q8 + 2 * change + 2) // 5
        self.est_u_max_q8 = max(self.est_u_max_q8, self.est_u_q8)
        largest = max(self.est_u_max_q8, self.est_u_max_prior_q8)
        self.est_u_count = (self.est_u_count + 1) % FIVE
        if not self.est_u_count:
            self.est_u_max_prior_q8, self.est_u_max_q8 = self.est_u_max_q8, 0
        part = (self.est_u_q8 << 16) // largest if largest else 0
        tau = (1 + N) * rtt_us if slow else rtt_us + (rtt_us * N * part >> 16)
        dt_us = min(dt_us, 2 * tau)
        one = 1 << 20
        alpha = (2 * tau - dt_us) * one // (2 * tau + dt_us)
        self.est_bse_q8 = (alpha * self.est_bse_q8 + (one - alpha) * s + one // 2) // one


class WestwoodAbse(Estimator, Control):
    MODULE = "tcp_westwood_abse"
    DEFAULTS = {"probe": 1}
    FIELDS = ("b_pkts", "min_rtt_us", "rtt_us",
              "est_point_us", "est_point_pkts", "est_t_us", "est_bse_q8", "est_th_q8", "est_s_q8",
              "est_re_q8", "est_u_q8", "est_u_max_q8", "est_u_max_prior_q8", "est_u_count",
              "est_train_acks", "est_running", "est_train",
              "min_rtt_prior_us", "round_delivered", "round_lost", "round_rtt_us", "probe_pkts",
              "cut_delivered", "acked_64us", "wait", "backoff", "raised", "astart", "astart_prior",
              "rearm", "tolerate", "marked", "reduced", "in_ack", "ece")

    def init(self, call):
        self.zero()
        self.round_delivered, self.round_lost = call.delivered_old, call.lost
        self.sample(call, call.min_rtt_us if call.min_rtt_us != NO_RTT else 0)
        self.astart = int(self.ssthresh >= INFINITE)
        self.pace()
        self.set_rate(call)

    # -- measurements -----------------------------------------------------------------

    def update_b(self):
        rate = max(self.est_bse_q8, self.est_re_q8) if self.est_bse_q8 else 0
        self.b_pkts = window_of(rate, self.min_rtt_us)

    def sample(self, call, rtt_us: int) -> None:
        """Take an RTT sample; rtt_us <= 0 means none."""
        if rtt_us > 0:
            self.rtt_us = min(rtt_us, RTT_MAX)
            self.round_rtt_us = min(self.round_rtt_us, self.rtt_us) if self.round_rtt_us else self.rtt_us
            if not self.min_rtt_us or self.rearm or self.rtt_us < self.min_rtt_us:
                self.min_rtt_us, self.rearm = self.rtt_us, 0
        if call.min_rtt_us != NO_RTT and self.min_rtt_us:
            self.min_rtt_us = max(self.min_rtt_us, min(call.min_rtt_us, RTT_MAX))

    def is_above(self, rtt_us: int, part: int, least_us: int) -> bool:
        return rtt_us > self.min_rtt_us + max(self.min_rtt_us // part, least_us)

    def is_queue(self, rtt_us: int) -> bool:
        return self.is_above(rtt_us, 8, 4000)

    def is_full(self) -> bool:
        """Whether the RTTs of the round trip so far show the queue of a congestion loss."""
        return self.is_above(self.round_rtt_us or self.rtt_us, 32, 2000)

    def limited(self, call) -> bool:
        """The core's rule with the present ssthresh: in slow start cwnd may grow to twice the flight."""
        return self.cwnd_in_use(call)

    def app_limited(self, call) -> bool:
        return bool(call.app_limited) or not self.est_bse_q8 and not self.limited(call)

    def gap_us(self, call) -> int:
        return TICK_US * (((call.mstamp_us // TICK_US) - self.acked_64us) & U32)

    def estimate(self, call) -> None:
        if not self.min_rtt_us:
            return
        if self.app_limited(call):
            self.est_running = 0
            return
        if call.rs_delivered > 0 and call.rs_interval_us > 0:
            self.est_re_q8 = rate_of(call.rs_delivered, call.rs_interval_us)
        slow = bool(self.astart or self.cwnd < self.b_pkts)
        if self.ack(call, call.srtt_us8 // 8, min(self.gap_us(call), RTT_MAX), slow) == BLIND:
            self.raised = BOLD
        self.update_b()

    # -- ssthresh -------------------------------------------------------------------

    def lift(self, target: int) -> None:
        self.ssthresh = max(self.ssthresh, min(target, INFINITE - 1))

    def start(self, call) -> None:
        """Raise ssthresh at an ACK in Astart."""
        if self.ssthresh >= INFINITE:
            self.ssthresh = 2 * min(self.cwnd, INT_MAX // 4)
        self.lift(self.b_pkts)

    def round(self, call) -> None:
        """Probe for more, once in a round trip."""
        if call.rs_delivered <= 0 or is_before(call.rs_prior_delivered, self.round_delivered):
            return
        queue = not self.round_rtt_us or self.is_queue(self.round_rtt_us)
        lost = call.lost != self.round_lost
        self.round_delivered, self.round_lost, self.round_rtt_us = call.delivered_old, call.lost, 0
        if queue:
            self.raised = self.backoff = self.probe_pkts = 0
            return
        if not self.parameters["probe"] or not self.b_pkts or self.marked or call.ca_state_old == CWR \
                or self.app_limited(call):
            return
        if not self.astart:
            self.probe()
        elif not lost:
            self.probe_start()

    def waits(self) -> bool:
        """Whether the probe waits in this round trip."""
        waiting = self.wait > 0
        self.wait -= waiting
        return waiting

    def probe_start(self) -> None:
        near = self.cwnd >= self.ssthresh - self.ssthresh // 8
        if self.is_queue(self.rtt_us) or self.raised < BOLD and not near or self.waits():
            return
        extra = (self.cwnd // 4, self.cwnd // 2, self.cwnd)[self.raised]
        self.lift(self.cwnd + extra)
        self.wait = int(self.raised < BOLD)
        self.raised = min(self.raised + 1, BOLD)

    def probe(self) -> None:
        if self.waits():
            return
        through = window_of(self.est_re_q8, self.min_rtt_us)
        if self.probe_pkts and through < self.probe_pkts * 17 // 16:
            self.wait = self.backoff = min(max(2 * self.backoff, 2), BACKOFF_MAX)
            self.probe_pkts = 0
            return
        self.probe_pkts, self.wait, self.tolerate = through, 1, 1
        self.lift(through * 5 // 4)

    def reduced_to(self, full: bool) -> int:
        """ssthresh after a loss.  full: the queue is full."""
        self.tolerate = int(bool(self.b_pkts) and not full)
        if full and not self.astart:
            self.wait = FULL_WAIT
        if not self.b_pkts:
            return max(self.cwnd // 2, 2)
        if not full:
            return max(self.b_pkts, self.ssthresh) if self.probe_pkts else self.b_pkts
        if self.est_re_q8 < self.est_bse_q8:
            self.est_bse_q8 = self.est_re_q8
            self.update_b()
        return max(min(self.b_pkts, self.cwnd * FULL_PCT // 100), 2)

    def lost_again(self, call) -> None:
        """Reduce ssthresh again if a tolerated recovery loses segments at a full queue."""
        if self.tolerate and call.rs_losses > 0 and call.rs_delivered > 0 and self.is_full() \
                and not is_before(call.rs_prior_delivered, self.cut_delivered):
            self.cut_delivered = call.delivered_old
            self.ssthresh = min(self.ssthresh, self.reduced_to(True))

    def mark(self, call) -> None:
        self.marked, self.tolerate, self.wait = 1, 0, FULL_WAIT
        self.ssthresh = min(self.ssthresh, max(call.prior_cwnd * MARK_PCT // 100, 2))

    # -- the window -------------------------------------------------------------------

    def limit(self) -> int:
        """The largest window that a recovery may reach."""
        return max(self.ssthresh, self.b_pkts if self.tolerate else 0)

    def recover(self, call, acked: int) -> int:
        flight, limit = call.in_flight_old, max(self.limit(), 1)
        if flight > limit:
            self.prr_delivered = (self.prr_delivered + acked) & U32
            return flight + max(self.prr_delivered // 2 - call.prr_out, 0 if call.prr_out else 1)
        self.prr_delivered = 2 * call.prr_out
        return min(max(self.cwnd, flight) + acked, limit, 2 * (flight + acked))

    def grow(self, call, acked: int) -> int:
        if not self.limited(call):
            return self.cwnd
        cwnd, left = climb_by_one(self.cwnd, self.ssthresh, call.clamp, min(acked, self.cwnd))
        return self.reno_avoid(cwnd, call.clamp, left) if left else cwnd

    def set_rate(self, call) -> None:
        """The pacing rate by the core's rule; in Recovery with limit() for ssthresh."""
        if not call.srtt_us8:
            return
        limit = self.limit() if call.ca_state_old == RECOVERY else self.ssthresh
        if not (self.astart and self.raised == BOLD):
            limit //= 2
        ratio = self.ratios[0 if self.cwnd < limit else 1]
        self.rate = call.mss * (SECOND // 100 * 8) * ratio * max(self.cwnd, call.in_flight_old) \
            // call.srtt_us8

    # -- callbacks ----------------------------------------------------------------------

    def cong_control(self, call):
        self.sample(call, call.rtt_us)
        self.estimate(call)
        if self.ece and not self.marked and call.ca_state_old in (RECOVERY, LOSS):
            self.mark(call)
        if call.ca_state_old == RECOVERY:
            self.lost_again(call)
        self.round(call)
        if self.astart:
            self.start(call)
        if acked := call.rs_acked_sacked if call.sack_ok else min(call.rs_acked_sacked, 2):
            if call.ca_state_old in (CWR, RECOVERY):
                self.cwnd = min(self.recover(call, acked), call.clamp, INT_MAX)
            else:
                self.cwnd = self.grow(call, acked)
        self.set_rate(call)
        self.acked_64us = call.mstamp_us // TICK_US & U32
        self.in_ack = self.ece = 0

    def in_ack_event(self, call):
        self.in_ack, self.ece = 1, int(bool(call.arg & ECE))

    def reduce(self, call):
        self.astart_prior, self.min_rtt_prior_us = self.astart, 0
        self.reduced, self.marked, self.cut_delivered = 1, 0, call.delivered_old
        self.ret = self.reduced_to(self.is_full())
        if self.ece:
            self.ret = min(self.ret, max(self.cwnd * MARK_PCT // 100, 2))

    def undo(self, call):
        if call.prior_ssthresh:
            self.ssthresh = call.prior_ssthresh
        self.astart, self.tolerate, self.rearm = self.astart_prior, 0, 0
        if self.min_rtt_prior_us:
            self.min_rtt_us = min(self.min_rtt_us, self.min_rtt_prior_us)
        self.min_rtt_prior_us = 0
        self.update_b()
        self.ret = max(call.cwnd_old, call.prior_cwnd)

    def set_state(self, call):
        old, new = call.ca_state_old, call.arg
        if new == LOSS and is_timeout(call, self.reduced):
            self.astart = self.rearm = 1
            self.min_rtt_prior_us = self.min_rtt_prior_us or self.min_rtt_us
        elif new > DISORDER:
            self.astart *= new == LOSS
            if self.ece or new == CWR and not self.in_ack:
                self.mark(call)
        else:
            self.marked = self.min_rtt_prior_us = 0
            if old == CWR or old == RECOVERY and call.undo_marker:
                if self.tolerate:
                    self.lift(self.b_pkts)
                self.cwnd = max(min(self.cwnd, self.ssthresh), 1)
        self.reduced = 0

    def cwnd_event(self, call):
        if call.arg == TX_START:
            self.begin(call)

    def begin(self, call) -> None:
        """Handle the first segment after a pause, with nothing in flight."""
        self.in_ack = self.ece = 0
        idle_us, rtt_us = self.gap_us(call), call.srtt_us8 // 8
        if call.packets_out or idle_us <= self.t_min(rtt_us):
            return
        self.est_running = 0
        if not self.acked_64us or not self.restarts:
            return
        timeout_us, least = max(2 * rtt_us, IDLE_US), min(self.cwnd, RESTART_PKTS)
        times = max(-(-idle_us // timeout_us) - 1, 0)
        if times and call.ca_state_old not in (CWR, RECOVERY):
            self.ssthresh = max(self.ssthresh, three_quarters(self.cwnd))
        self.cwnd = max(self.cwnd >> min(times, 32), least)
        self.set_rate(call)
