# SPDX-License-Identifier: GPL-2.0
"""ibk: T. R. Henderson, R. H. Katz, UCB/CSD-99-1083, 1999, section 4.5, Increase-by-K.

    congestion avoidance  W += min(K / W, 1)    per segment acknowledged

K is the parameter k, or with k_auto (RTT / rtt_ref)^2 within 1 .. 8, RTT at most 10 s; it is 1
below rtt_min_ms, and without an RTT where one is asked for.  RTT is the kernel's minimum, which
the trace reports and which is not ours to judge.

Quantised: K from the RTT, rounded down to 1/65536.
"""

from fractions import Fraction

from .arithmetic import Q16, quantised
from .core import CreditFlow, Wrong

AUTO, BELOW, NO_RTT = 1, 2, 4       # why K is what it is
AUTO_MAX, MAX_RTT_US = 8, 10_000_000


class Ibk(CreditFlow):
    STREAMS = {"satcc:ibk": "take"}
    MODULE = "tcp_ibk"
    DEFAULTS = {"k": 4, "rtt_min_ms": 0, "k_auto": 0, "rtt_ref_ms": 300, "pacing": 1}
    ONE, CREDIT = Q16, ("credit_q16", "credit_old_q16")

    def __init__(self, parameters, scenario):
        super().__init__(parameters, scenario)
        self.k = Q16

    def before(self, row):
        super().before(row)
        rule, self.k = self.law(row.min_rtt_us)
        if row.rule != rule:
            raise Wrong("rule", hex(rule), hex(row.rule), "why K is what it is, as bits")
        if row.k_q16 != self.k:
            raise Wrong("K", f"{self.k}/65536", f"{row.k_q16}/65536", f"RTT {row.min_rtt_us} us")

    def law(self, rtt_us: int):
        auto, least_us = self.parameters["k_auto"], 1000 * self.parameters["rtt_min_ms"]
        rule = AUTO * auto
        if not rtt_us and (auto or least_us):
            return rule | NO_RTT, Q16
        if rtt_us < least_us:
            return rule | BELOW, Q16
        if not auto:
            return rule, self.parameters["k"] * Q16
        ratio = Fraction(min(rtt_us, MAX_RTT_US), 1000 * self.parameters["rtt_ref_ms"])
        return rule, quantised(min(max(ratio * ratio, 1), AUTO_MAX))

    def worth(self, cwnd):
        return min(self.k, cwnd * Q16)

    def basis(self):
        return f"K {self.k / Q16:.6g}, carried before it {self.old / Q16:.6g}"
