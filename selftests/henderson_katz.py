# SPDX-License-Identifier: GPL-2.0
"""Increase-by-K and Constant-Rate in exact arithmetic, from Henderson and Katz, 1999.

Nothing here is taken from the C: quantities are fractions, in segments and seconds, and the
segments of an ACK are gone through one by one.  Only where the kernel must hold whole segments
does the model round.

    4.5  snd_cwnd += min(K / snd_cwnd, 1 segment)               increase-by-K
    4.4  snd_cwnd += min(c rtt rtt / snd_cwnd, 1 segment)       Constant-Rate
"""

from fractions import Fraction
from math import floor

INT_MAX = 0x7FFFFFFF
Q16, Q20 = Fraction(1, 1 << 16), Fraction(1, 1 << 20)


def rounded_down(x, unit):
    """The largest multiple of unit not above x."""
    return floor(x / unit) * unit


def constant_rate(c, rtt):
    """c rtt^2; without an RTT, Reno's 1.  An RTT above 10 s is taken for 10 s."""
    return Fraction(c) * min(Fraction(rtt), Fraction(10)) ** 2 if rtt else Fraction(1)


def avoid(cwnd, credit, gain, acked, unit, limit):
    """W += min(gain / W, 1) for each of acked segments, W whole: what is earned towards the next
    segment, of the W it is added to, is carried.  What was carried from a larger window is worth
    just short of a segment.  At the bound a segment brings one, and what is carried stays.

    unit: of the credit, as the kernel keeps it.  Returns (window, credit): the window is at most
    limit, and nothing is earned there.
    """
    while acked and gain > cwnd and cwnd < limit:
        cwnd += 1
        acked -= 1
    if cwnd >= limit:
        return limit, credit
    if acked:
        credit = min(credit, cwnd - unit)
    for _ in range(acked):
        credit += gain
        if credit >= cwnd:
            credit -= cwnd
            cwnd += 1
    return min(cwnd, limit), credit


class Flow:
    """A window under either policy; gain is K or c rtt^2."""

    def __init__(self, cwnd, ssthresh, unit, limit=INT_MAX, credit=Fraction(0)):
        self.cwnd, self.ssthresh, self.limit = cwnd, ssthresh, limit
        self.unit, self.credit = unit, credit

    def ack(self, gain, acked, counted=None):
        """One ACK for so many segments, of which so many count in full in congestion avoidance
        and the rest at Reno's gain, if that is less; returns the window after it."""
        counted = acked if counted is None else counted
        target = min(self.ssthresh, self.limit)
        if self.cwnd < target:
            step = min(acked, target - self.cwnd)
            self.cwnd += step
            acked -= step
        counted = min(counted, acked)
        for worth, count in ((gain, counted), (min(gain, 1), acked - counted)):
            if count:
                self.cwnd, self.credit = avoid(self.cwnd, self.credit, worth, count, self.unit,
                                               self.limit)
        return self.cwnd


def as_printed(cwnd, gain, acks):
    """The report's own line, in real numbers, one ACK a segment; returns the last window."""
    for _ in range(acks):
        cwnd += min(gain / cwnd, 1.0)
    return cwnd


def as_in_ns2(cwnd, gain, acks):
    """Constant-Rate in ns-2 (wnd_option_ 2): above cwnd one segment, and the rest forgotten."""
    saved, seen = Fraction(0), []
    for _ in range(acks):
        saved += gain
        if saved > cwnd:
            cwnd, saved = cwnd + 1, Fraction(0)
        seen.append(cwnd)
    return seen
