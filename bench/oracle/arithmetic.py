# SPDX-License-Identifier: GPL-2.0
"""Window growth in exact whole numbers.

A value with a fraction is an int in units of 1/ONE of a segment.  So only quantised() rounds, where the
documentation says so.
"""

from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from math import floor

INFINITE = 0x7FFFFFFF           # the kernel's ssthresh of a flow that has not learnt one
Q16 = 1 << 16
Q20 = 1 << 20

# The largest relative error of 2^x by a straight line between two sixteenths.
POWER_ERROR = Fraction(242, 1_000_000)


def is_before(a: int, b: int) -> bool:
    """Whether a is before b.  Both are 32-bit counters that wrap."""
    return (a - b) % (1 << 32) >= 1 << 31


def quantised(x, one: int = Q16) -> int:
    """The largest multiple of 1/one not above x, in units of 1/one."""
    return floor(Fraction(x) * one)


def climb(cwnd: int, fraction: int, target: int, gain: int, acked: int, one: int = Q16):
    """Slow start: each acknowledged segment adds `gain` to a window below `target`.

    The window stops at the target.  The rest of the last gain is dropped, and the remaining segments are
    left for congestion avoidance.
    fraction, gain: in units of 1/one segment.
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
    """Reno's slow start: each acknowledged segment adds one.  Returns (cwnd, segments left)."""
    target = min(ssthresh, limit)
    step = max(0, min(acked, target - cwnd))
    return cwnd + step, acked - step


def avoid(cwnd: int, credit: int, limit: int, gain: int, acked: int, one: int = Q16):
    """Congestion avoidance: each acknowledged segment adds `gain` to the credit, and each growth of the
    window by one segment costs a credit of the window before it.

    So the result does not depend on how ACKs are merged.  Credit from a larger window counts as just
    less than one segment.  The rest of the credit is kept.
    gain, credit: in units of 1/one segment.
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
    """2^x, with x and the result in units of 1/65536.

    Between two sixteenths it is a straight line, rounded down before the shift by the whole part.  From
    x = 31 on it is 2^31, which is more than any window.  Raises AssertionError if the error is larger
    than POWER_ERROR.
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
    """The slope of the least squares line through points (t, a), as (numerator, denominator).

    Each is n times the sum about the mean.  It is (0, 0) if all t are equal.
    """
    n = len(points)
    mean_t = Fraction(sum(t for t, _ in points), n)
    mean_a = Fraction(sum(a for _, a in points), n)
    num = n * sum((t - mean_t) * (a - mean_a) for t, a in points)
    den = n * sum((t - mean_t) ** 2 for t, _ in points)
    return int(num), int(den)
