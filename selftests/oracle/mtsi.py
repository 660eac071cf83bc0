# SPDX-License-Identifier: GPL-2.0
"""mtsi: M. Marchese, "Modifications of the Slow Start Algorithm ...", IETE J. of Research, 2006.

    slow start, per segment acknowledged:  cwnd(N) = cwnd(N-1) + F(N)               (1)
    mtsi    F(N) = F(N-1) + K_i, i the first with cwnd(N-1) < thr_i, else 1         (3, 4, 5)
    const   F = const_k                                                             (6)
    linear  F(N) = F(N-1) + 1 if cwnd(N-1) < linear_thr, else 1                     (7)

F(0) = f0, again after a timeout and after idle.  F is at least 1 and at most f_max.  In Loss F is
1 and F(N-1) waits, unless loss_mtsi.  Congestion avoidance is the kernel's own.

Nothing is quantised.
"""

from .core import INIT, LOSS, CountFlow, Wrong, same

PLAIN, MTSI, CONST, LINEAR = range(4)
MODES = {"mtsi": MTSI, "const": CONST, "linear": LINEAR}
NO_LIMIT = 0xFFFFFFFF


def numbers(text) -> list:
    return [int(word) for word in str(text).split(",")]


class Mtsi(CountFlow):
    STREAMS = {"satcc:mtsi": "take"}
    MODULE = "tcp_mtsi"
    DEFAULTS = {"mode": "mtsi", "thr": "20,30,40", "k": "4,2,1", "const_k": 4, "linear_thr": 50,
                "f0": 0, "f_max": 1024, "iw": 0, "loss_mtsi": 0, "abc_l": 0, "per_ack": 0, "pacing": 1}

    def __init__(self, parameters, scenario):
        super().__init__(parameters, scenario)
        self.zones = list(zip(numbers(self.parameters["thr"]), numbers(self.parameters["k"])))
        self.mode = self.chosen = MODES[self.parameters["mode"]]
        self.reset()

    def reset(self):
        self.f = self.f_old = self.parameters["f0"]
        self.k = self.steps = 0

    def before(self, row):
        super().before(row)
        self.mode = PLAIN if row.ca_state == LOSS and not self.parameters["loss_mtsi"] else self.chosen
        if row.mode != self.mode:
            raise Wrong("mode", self.mode, row.mode, "by the parameters and the state")
        limit = self.ack_limit()
        if limit is not None and self.begun and row.event != INIT and row.ack_limit != limit:
            raise Wrong("ack_limit", limit, row.ack_limit, "by the parameters")
        self.f_old = self.f
        self.k = self.steps = 0

    def ack_limit(self):
        """Steps an ACK is good for, at most; None: depends on whether something else paces."""
        if self.mode == PLAIN:
            return NO_LIMIT
        if self.parameters["per_ack"]:
            return 1
        if self.parameters["abc_l"]:
            return self.parameters["abc_l"]
        return NO_LIMIT if self.parameters["pacing"] else None

    def next_f(self, cwnd: int) -> tuple:
        """(F(N), K) from F(N-1) and cwnd(N-1)."""
        if self.mode == PLAIN:
            return 1, 0
        if self.mode == CONST:
            return self.parameters["const_k"], 0
        zones = self.zones if self.mode == MTSI else [(self.parameters["linear_thr"], 1)]
        for threshold, k in zones:
            if cwnd < threshold:
                return min(max(self.f + k, 1), self.parameters["f_max"]), k
        return 1, 0

    def start(self, row):
        allowed = [row.cwnd_old]
        if self.parameters["iw"]:
            allowed.append(min(self.parameters["iw"], row.limit))
        self.reset()
        self.f_old = row.f_old
        self.unshaken, self.reduced_from = not row.srtt_us, None
        same("ssthresh", row.ssthresh, row.ssthresh_old, "a start leaves it alone")
        if row.cwnd not in allowed:
            raise Wrong("cwnd", " or ".join(map(str, allowed)), row.cwnd, "the flow starts")

    def grow(self, row):
        cwnd, left = row.cwnd_old, row.acked
        if cwnd < row.ssthresh:
            cwnd, left = self.smoothed(cwnd, min(row.ssthresh, row.limit), min(left, row.ack_limit))
            if not left or cwnd < row.ssthresh:
                return cwnd
        if self.parameters["per_ack"]:
            left = min(left, 1)
        return self.pay(cwnd, row.limit, left)

    def smoothed(self, cwnd: int, target: int, acks: int) -> tuple:
        """Slow start, ACK by ACK.  Returns (cwnd, ACKs left)."""
        while acks and cwnd < target:
            f, self.k = self.next_f(cwnd)
            cwnd = min(cwnd + f, target)
            self.steps += 1
            acks -= 1
            if self.mode != PLAIN:
                self.f = f
        return cwnd, acks

    def state(self, row):
        self.unchanged(row)
        if row.ca_state == LOSS:
            self.f = self.parameters["f0"]

    def drop(self, row):
        self.f = self.parameters["f0"]

    def after(self, row):
        for name, found, should in (("f_old", row.f_old, self.f_old), ("f", row.f, self.f),
                                    ("steps", row.steps, self.steps), ("k", row.k, self.k)):
            if found != should:
                raise Wrong(name, should, found, self.basis())
        super().after(row)

    def basis(self):
        return f"mode {self.mode}, F was {self.f_old}, is {self.f}; {self.steps} steps, K {self.k}"
