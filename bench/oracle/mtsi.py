# SPDX-License-Identifier: GPL-2.0
"""mtsi: M. Marchese, "Modifications of the Slow Start Algorithm ...", IETE J. of Research, 2006.

    slow start, per segment acknowledged:  cwnd(N) = cwnd(N-1) + F(N)               (1)
    mtsi    F(N) = F(N-1) + K_i, i the first with cwnd(N-1) < thr_i, else 1         (3, 4, 5)
    const   F = const_k                                                             (6)
    linear  F(N) = F(N-1) + 1 if cwnd(N-1) < linear_thr, else 1                     (7)

F(0) = 0, and F is 0 again after a timeout and after idle.  F is at least 1 and at most 1024.  In Loss a
step adds 1 and does not change F, unless loss_mtsi is set.  Congestion avoidance is the kernel's.  If
the socket is not paced, an ACK makes at most 8 steps.

The model rounds nothing.
"""

from .calls import CONG_AVOID, CWND_EVENT, CWND_RESTART, LOSS, SET_STATE
from .core import Flow

MODES = ("mtsi", "const", "linear")
MOST_F, UNPACED_STEPS = 1024, 8
LARGEST_CWND = 1 << 30


def numbers(text) -> list:
    """The whole numbers of a comma-separated parameter."""
    return [int(word) for word in str(text).split(",")]


class Mtsi(Flow):
    MODULE = "tcp_mtsi"
    DEFAULTS = {"mode": "mtsi", "thr": "20,30,40", "k": "4,2,1", "const_k": 4, "linear_thr": 50,
                "loss_mtsi": 0, "per_ack": 0, "pacing": 1}
    FIELDS = ("f",)

    def __init__(self, parameters, scenario):
        super().__init__(parameters, scenario)
        self.zones = list(zip(numbers(self.parameters["thr"]), numbers(self.parameters["k"])))

    def init(self, call):
        self.zero()
        if self.parameters["pacing"]:
            self.pace()

    def next_f(self, cwnd: int, plain: bool) -> int:
        """F(N) from F(N-1) and cwnd(N-1)."""
        mode = self.parameters["mode"]
        if plain:
            return 1
        if mode == "const":
            return self.parameters["const_k"]
        zones = self.zones if mode == "mtsi" else [(self.parameters["linear_thr"], 1)]
        for threshold, k in zones:
            if cwnd < threshold:
                return min(max(self.f + k, 1), MOST_F)
        return 1

    def steps(self, acked: int, plain: bool) -> int:
        """The number of steps of slow start that an ACK makes."""
        if plain:
            return acked
        if self.parameters["per_ack"]:
            return min(acked, 1)
        return acked if self.paced else min(acked, UNPACED_STEPS)

    def cong_avoid(self, call):
        if not self.limited(call):
            return
        limit, left = min(call.clamp, LARGEST_CWND), call.arg
        if self.cwnd < self.ssthresh:
            plain = call.ca_state_old == LOSS and not self.parameters["loss_mtsi"]
            target, left = min(self.ssthresh, limit), self.steps(left, plain)
            cwnd = self.cwnd
            while left and cwnd < target:
                f = self.next_f(cwnd, plain)
                cwnd, left = min(cwnd + f, target), left - 1
                if not plain:
                    self.f = f
            self.cwnd = min(cwnd, limit)
            if not left or cwnd < self.ssthresh:
                return
        if self.parameters["per_ack"]:
            left = min(left, 1)
        self.cwnd = self.reno_avoid(self.cwnd, call.clamp, left)

    def looks(self, call):
        if call.call == CONG_AVOID:
            return self.limited(call) and call.cwnd_old < call.ssthresh_old
        if call.call == SET_STATE:
            return call.arg == LOSS
        return call.arg == CWND_RESTART if call.call == CWND_EVENT else super().looks(call)

    def set_state(self, call):
        if call.arg == LOSS:
            self.f = 0

    def cwnd_event(self, call):
        if call.arg == CWND_RESTART:
            self.f = 0
