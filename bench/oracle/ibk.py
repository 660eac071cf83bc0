# SPDX-License-Identifier: GPL-2.0
"""ibk: T. R. Henderson, R. H. Katz, UCB/CSD-99-1083, 1999, section 4.5, Increase-by-K.

    congestion avoidance  W += min(K / W, 1)    per segment acknowledged

K is the parameter k.  The model rounds nothing.
"""

from .arithmetic import Q16
from .core import ByOneFlow


class Ibk(ByOneFlow):
    MODULE = "tcp_ibk"
    DEFAULTS = {"k": 4, "pacing": 1}
    FIELDS = ("credit_q16",)
    ONE, CREDIT = Q16, "credit_q16"

    def gain(self, call):
        return self.parameters["k"] * Q16
