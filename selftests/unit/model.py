# SPDX-License-Identifier: GPL-2.0
"""TCP Hybla and Hoe's estimate in exact arithmetic, from the papers' equations.

Nothing here is taken from the C: quantities are fractions or decimals, slow
start walks segment by segment, the least squares line is the textbook's, about
the mean. Only where the kernel must hold whole segments does the model round.
"""

from decimal import Decimal, getcontext
from fractions import Fraction
from math import floor

getcontext().prec = 60

INFINITE_SSTHRESH = 0x7FFFFFFF
INT_MAX = 0x7FFFFFFF
ONE = 65536


def q16(x):
    """The largest multiple of 1/65536 not above x, in units of 1/65536."""
    return floor(Fraction(x) * ONE)


def rho(min_rtt_us, rtt0_us, rho_max):
    """rho = max(RTT_min / RTT_0, 1), limited."""
    return min(max(Fraction(min_rtt_us, rtt0_us), Fraction(1)), Fraction(rho_max))


def power_of_two(x):
    """2^x to 60 digits, x a fraction."""
    return Decimal(2) ** (Decimal(x.numerator) / Decimal(x.denominator))


def slow_start(window, target, gain, acked):
    """W += gain for each segment, until target. window may have a fraction, and
    gain and window are in any one unit as long as target is in it too.

    Returns the window and the segments not used.
    """
    while acked and window < target:
        window += gain
        acked -= 1
    return min(window, target), acked


def avoid(cwnd, credit, gain, acked, unit, limit):
    """W += gain / W for each of acked segments, one by one, W whole: what is earned waits until it
    pays for a segment, of the W that it is added to.  What was carried from a larger window is
    worth just short of a segment.

    unit: of credit and gain, as the kernel keeps them.  Returns the window, at most limit, where
    nothing is earned, and what is carried.
    """
    if cwnd >= limit:
        return limit, credit
    credit = min(credit, cwnd - unit)
    for _ in range(acked):
        credit += gain
        while credit >= cwnd:
            credit -= cwnd
            cwnd += 1
    return min(cwnd, limit), credit


def most(cwnd):
    """What a segment acknowledged may add in Hybla's congestion avoidance: W / 4 in whole
    segments, at least one."""
    return max(cwnd // 4, 1)


def avoid_hybla(cwnd, credit, gain, acked, unit, limit):
    """The same for gain = rho^2, bounded: where it would add more than most(W) for a segment,
    most(W) it is, and nothing is earned or spent."""
    while acked and cwnd < limit and gain > most(cwnd) * cwnd:
        cwnd += most(cwnd)
        acked -= 1
    return avoid(cwnd, credit, gain, acked, unit, limit) if acked else (min(cwnd, limit), credit)


def path_rtt(own, core):
    """The smallest RTT since the start or the last timeout, unless the core has not seen that for
    long: then the core's smallest, at most a quarter above."""
    return own if core <= own else min(core, floor(Fraction(own) * 5 / 4))


class Reno:
    """Slow start and congestion avoidance as RFC 5681 and Linux have them: whole
    segments, one counter."""

    def __init__(self, cwnd, ssthresh):
        self.cwnd = cwnd
        self.ssthresh = ssthresh
        self.count = 0

    def ack(self, acked):
        if self.cwnd < self.ssthresh:
            step = min(acked, self.ssthresh - self.cwnd)
            self.cwnd += step
            acked -= step
            if not acked:
                return self.cwnd
        w = self.cwnd
        if self.count >= w:
            self.count = 0
            self.cwnd += 1
        self.count += acked
        while self.count >= w:
            self.count -= w
            self.cwnd += 1
        return self.cwnd


def train_slope(points):
    """Least squares slope through points (t, a), or None if they share one t."""
    n = len(points)
    mean_t = Fraction(sum(t for t, _ in points), n)
    mean_a = Fraction(sum(a for _, a in points), n)
    spread = sum((t - mean_t) ** 2 for t, _ in points)
    if spread == 0:
        return None
    return sum((t - mean_t) * (a - mean_a) for t, a in points) / spread


def train_points(acks, min_rtt_us):
    """The points a train is allowed: at most 32, 64 segments, less than 2^22 us,
    nothing later than two round trips; the first that is too much ends it."""
    points = [(0, 0)]
    for t, a in acks:
        if len(points) == 32 or a > 64 or t >= 2 ** 22 or t > 2 * min_rtt_us:
            break
        points.append((t, a))
    return points


def train_window(points, min_points, min_rtt_us):
    """rate * RTT in whole segments, at least one; None: no estimate."""
    if len(points) < min_points or points[-1][0] < 1000 or min_rtt_us >= 2 ** 24:
        return None
    slope = train_slope(points)
    if slope is None or slope <= 0:
        return None
    return max(floor(slope * min_rtt_us), 1)
