# SPDX-License-Identifier: GPL-2.0
"""constant_rate: S. Floyd, CCR 21(5), 1991, in the form of T. R. Henderson, R. H. Katz, UCB/CSD-99-1083,
1999, section 4.4.

    congestion avoidance  W += min(c rtt^2 / W, 1)    per segment acknowledged, rtt in s

rtt is the kernel's srtt, at most 10 s.  Before the first RTT sample c rtt^2 is 1.

Rounded: c rtt^2, down to 2^-20.
"""

from fractions import Fraction

from .arithmetic import Q20, quantised
from .core import ByOneFlow

MAX_RTT_US = 10_000_000


class ConstantRate(ByOneFlow):
    MODULE = "tcp_constant_rate"
    DEFAULTS = {"c": 100, "pacing": 1}
    FIELDS = ("credit_q20", "a_pkts")
    ONE, CREDIT = Q20, "credit_q20"
    MAX_ACKED = 1 << 22

    def gain(self, call):
        rtt_us = max(call.srtt_us8 >> 3, 1) if call.srtt_us8 else 0
        rtt = Fraction(min(rtt_us, MAX_RTT_US), 1_000_000)
        a_q20 = quantised(self.parameters["c"] * rtt * rtt, Q20) if rtt_us else Q20
        self.a_pkts = (a_q20 + Q20 // 2) // Q20
        return a_q20
