# SPDX-License-Identifier: GPL-2.0
"""constant_rate: S. Floyd, CCR 21(5), 1991, as T. R. Henderson, R. H. Katz, UCB/CSD-99-1083,
1999, section 4.4, have it.

    congestion avoidance  W += min(c rtt^2 / W, 1)    per segment acknowledged, rtt in s

rtt is the kernel's smoothed one, or with use_min_rtt its minimum, at most 10 s; 1 in place of
c rtt^2 without an RTT.  The bound of 1 may be lifted, bound=0, for a paced flow.

Quantised: c rtt^2, rounded down to 2^-20.
"""

from fractions import Fraction

from .arithmetic import Q20, quantised
from .core import INIT, CreditFlow, Wrong

MAX_RTT_US = 10_000_000


class ConstantRate(CreditFlow):
    STREAMS = {"satcc:constant_rate": "take"}
    MODULE = "tcp_constant_rate"
    DEFAULTS = {"c": 100, "use_min_rtt": 0, "bound": 1, "pacing": 1}
    ONE, CREDIT = Q20, ("credit_q20", "credit_old_q20")

    def __init__(self, parameters, scenario):
        super().__init__(parameters, scenario)
        self.a, self.made_of, self.bound = Q20, 0, 1

    def before(self, row):
        super().before(row)
        rtt_us = row.min_rtt_us if self.parameters["use_min_rtt"] else row.srtt_us
        if row.rtt_us != rtt_us:
            raise Wrong("rtt_us", rtt_us, row.rtt_us, "by use_min_rtt")
        if rtt_us != self.made_of:
            rtt = Fraction(min(rtt_us, MAX_RTT_US), 1_000_000)
            self.a = quantised(self.parameters["c"] * rtt * rtt, Q20) if rtt_us else Q20
            self.made_of = rtt_us
        if row.a_q20 != self.a:
            raise Wrong("c rtt^2", shown(self.a), shown(row.a_q20), f"rtt {rtt_us} us")
        self.bound = row.bound
        # Whether a flow is paced we know when the module asked for it.
        paced = self.parameters["pacing"] and self.begun and row.event != INIT
        if self.parameters["bound"] or paced:
            if row.bound != self.parameters["bound"]:
                raise Wrong("bound", self.parameters["bound"], row.bound, "by the parameters")

    def worth(self, cwnd):
        return min(self.a, cwnd * Q20) if self.bound else self.a

    def basis(self):
        return (f"c rtt^2 = {shown(self.a)}, bound {self.bound}, carried before it {shown(self.old)}")


def shown(q20: int) -> str:
    """A number in units of 2^-20 as a person writes it."""
    return f"{q20 / Q20:.7g} ({q20}/1048576)"
