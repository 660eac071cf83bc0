# SPDX-License-Identifier: GPL-2.0
"""Window growth in exact whole numbers.

Everything that has a fraction is an int in units of 1/ONE of a segment, so that nothing is
rounded but what the documentation says is: `quantised()`.
"""

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import floor

INFINITE = 0x7FFFFFFF           # the kernel's ssthresh of a flow that has not learnt one
Q16 = 1 << 16
Q20 = 1 << 20

# 2^x between two sixteenths is taken from a straight line: at most this far off, relatively.
POWER_ERROR = Fraction(242, 1_000_000)


def is_before(a: int, b: int) -> bool:
    """Is a before b?  Both are counters of 32 bits, which wrap."""
    return (a - b) % (1 << 32) >= 1 << 31


def quantised(x, one: int = Q16) -> int:
    """The largest multiple of 1/one not above x, in units of 1/one."""
    return floor(Fraction(x) * one)


def climb(cwnd: int, fraction: int, target: int, gain: int, acked: int, one: int = Q16):
    """Slow start: each segment acknowledged adds `gain` to a window below `target`.

    At the target the window stops, what is over of the last gain is dropped, and the segments
    that were not needed are left for congestion avoidance.
    Returns (cwnd, fraction, segments left).
    """
    if cwnd >= target:
        return cwnd, 0, acked
    missing = (target - cwnd) * one - fraction
    needed = -(-missing // gain)
    if acked >= needed:
        return target, 0, acked - needed
    whole, fraction = divmod(fraction + acked * gain, one)
    return cwnd + whole, fraction, 0


def climb_by_one(cwnd: int, ssthresh: int, limit: int, acked: int):
    """Reno's slow start: one segment for each.  Returns (cwnd, segments left)."""
    target = min(ssthresh, limit)
    step = max(0, min(acked, target - cwnd))
    return cwnd + step, acked - step


def avoid(cwnd: int, credit: int, limit: int, gain: int, acked: int, one: int = Q16):
    """Congestion avoidance: each segment acknowledged earns `gain`, and each segment the window grows
    by costs the window it is added to, so that it does not matter how ACKs are merged.

    Credit that was saved at a larger window is worth just short of a segment; what does not pay for
    another segment is kept.
    Returns (cwnd, credit).
    """
    if cwnd >= limit:
        return limit, credit
    credit = min(credit, cwnd * one - 1) + gain * acked
    grown = cwnd
    while credit >= grown * one:
        credit -= grown * one
        grown += 1
    return min(grown, limit), credit


def exact_power(x: Fraction) -> Fraction:
    """2^x to thirty digits."""
    with localcontext() as context:
        context.prec = 30
        return Fraction(Decimal(2) ** (Decimal(x.numerator) / Decimal(x.denominator)))


@lru_cache(maxsize=None)
def _sixteenths() -> list:
    """2^(i/16), each rounded to the nearest 1/65536."""
    return [round(exact_power(Fraction(i, 16)) * Q16) for i in range(17)]


@lru_cache(maxsize=4096)
def power(x_q16: int) -> int:
    """2^x in units of 1/65536, x in the same: between two sixteenths along a straight line,
    rounded down before the shift by the whole part; 2^31 from there on, more than any window.

    Within POWER_ERROR of 2^x, which is checked.
    """
    whole, rest = divmod(x_q16, Q16)
    if whole >= 31:
        return Q16 << 31
    low, high = _sixteenths()[rest >> 12:(rest >> 12) + 2]
    value = low + (high - low) * (rest & 0xfff) // 0x1000 << whole
    exact = exact_power(Fraction(x_q16, Q16)) * Q16
    if abs(value - exact) > POWER_ERROR * exact:
        raise AssertionError(f"2^({x_q16}/65536) is off by more than documented")
    return value


def line(points):
    """The least squares line's slope through points (t, a), as (numerator, denominator), each
    n times the sum about the mean; (0, 0) if all t are the same."""
    n = len(points)
    mean_t = Fraction(sum(t for t, _ in points), n)
    mean_a = Fraction(sum(a for _, a in points), n)
    num = n * sum((t - mean_t) * (a - mean_a) for t, a in points)
    den = n * sum((t - mean_t) ** 2 for t, _ in points)
    return int(num), int(den)
