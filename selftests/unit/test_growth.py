# SPDX-License-Identifier: GPL-2.0
"""The window after each ACK: modules/credit.h."""

from fractions import Fraction
from math import isqrt

import model
import pytest
from hypothesis import given
from hypothesis import strategies as st

ONE = model.ONE
INFINITE = model.INFINITE_SSTHRESH
LIMIT = model.INT_MAX

windows = st.integers(1, 2 ** 20)
rhos_q16 = st.integers(ONE, 256 * ONE)
gains_q16 = st.one_of(st.integers(ONE, 2 ** 47 - ONE),
                      st.integers(1, 40).map(lambda rho: (2 ** min(rho, 31) - 1) * ONE))
ackeds = st.one_of(st.integers(1, 64), st.integers(1, 2 ** 16))


def rho_q16(rtt_ms):
    return model.q16(model.rho(rtt_ms * 1000, 25000, 256))


def grow(calc, rtt_ms, cwnd, ssthresh, ackeds, limit=LIMIT):
    """The window after each ACK."""
    return calc("grow", cwnd, ssthresh, limit, rho_q16(rtt_ms), 0, 0, *ackeds)[:-2]


def rounds(calc, rtt_ms, cwnd, count):
    """The window after each whole window of ACKs, one segment each."""
    seen = [cwnd]
    while len(seen) < count:
        seen.append(grow(calc, rtt_ms, seen[-1], INFINITE, [1] * seen[-1])[-1])
    return seen


SLOW_START = [
    # RTT ms, initial window, ssthresh, windows
    (25, 10, INFINITE, [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]),
    (30, 10, INFINITE, [11, 12, 13, 15, 16, 17, 19, 20, 21, 22]),
    (50, 2, INFINITE, [5, 8, 11, 14, 17, 20]),
    (50, 10, INFINITE, [13, 16, 19, 22, 25]),
    (75, 10, INFINITE, [17, 24, 31, 38]),
    (100, 10, INFINITE, [25, 40, 55, 70]),
    (100, 10, 50, [25, 40, 50, 50, 50, 50, 51, 51, 51, 52, 52, 52]),
    (600, 10, 160, [160, 163, 167, 170, 173, 177]),
    (1000, 10, 500, [500]),             # rho = 40
    (6400, 1, 2 ** 20, [2 ** 20]),      # rho = 256
]

AVOID = [
    (25, 10, [10] * 9 + [11]),
    (50, 10, [10, 10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15]),
    (100, 10, [11, 13, 14, 15, 16, 17, 18, 19, 20, 20, 21, 22, 23, 23, 24, 25]),
    (100, 20, [20, 21, 22, 23, 23, 24, 25, 25, 26, 26]),
    (600, 24, [48, 60, 69, 77, 85, 92, 98, 104]),
    (600, 100, [105, 111, 116, 121, 126, 130, 135, 139, 143, 147]),
    (600, 600, [600, 601, 602, 603]),
]


@pytest.mark.parametrize("rtt_ms, cwnd, ssthresh, expected", SLOW_START)
def test_slow_start_table(calc, rtt_ms, cwnd, ssthresh, expected):
    assert grow(calc, rtt_ms, cwnd, ssthresh, [1] * len(expected)) == expected


@pytest.mark.parametrize("rtt_ms, cwnd, expected", [
    (50, 2, [2, 8, 32, 128]),           # W(t) = rho 2^(t/RTT_0)
    (50, 10, [10, 40, 160, 640]),
    (75, 10, [10, 80, 640, 5120]),
    (100, 10, [10, 160, 2560, 40960]),
])
def test_slow_start_rounds(calc, rtt_ms, cwnd, expected):
    assert rounds(calc, rtt_ms, cwnd, len(expected)) == expected


@pytest.mark.parametrize("rtt_ms, acked, expected", [
    (50, [4, 4, 4, 4], [22, 34, 46, 58]),
    (50, [2] * 5, [16, 22, 28, 34, 40]),        # counting ACKs would give 25
    (100, [2] * 5, [40, 70, 100, 130, 160]),    # and here 85
])
def test_slow_start_counts_segments(calc, rtt_ms, acked, expected):
    assert grow(calc, rtt_ms, 10, INFINITE, acked) == expected


@pytest.mark.parametrize("rtt_ms, cwnd, expected", AVOID)
def test_avoid_table(calc, rtt_ms, cwnd, expected):
    assert grow(calc, rtt_ms, cwnd, cwnd, [1] * len(expected)) == expected


@pytest.mark.parametrize("rtt_ms, cwnd, acks, expected", [
    (100, 20, 20, 32),
    (600, 24, 24, 171),     # not 24 + rho^2 = 600: rho^2/W shrinks as W grows
    (600, 600, 600, 1025),
    (600, 5000, 5000, 5546),
])
def test_avoid_after_a_window_of_acks(calc, rtt_ms, cwnd, acks, expected):
    assert grow(calc, rtt_ms, cwnd, cwnd, [1] * acks)[-1] == expected


@pytest.mark.parametrize("rtt_ms, cwnd", [(100, 50), (600, 600), (600, 5000)])
def test_avoid_follows_the_square_root_law(calc, rtt_ms, cwnd):
    # dW/dn = rho^2 / W, so W^2 grows by 2 rho^2 per ACK. A step taken whole adds
    # (rho^2 / W)^2 to that, here below 1/300 of it; what is carried is below 1.
    acks = 2 * cwnd
    rho2 = model.rho(rtt_ms * 1000, 25000, 256) ** 2
    law = isqrt(int(cwnd ** 2 + 2 * rho2 * acks))
    assert grow(calc, rtt_ms, cwnd, cwnd, [1] * acks)[-1] == pytest.approx(
        law, rel=1 / 300, abs=1)


@pytest.mark.parametrize("limit", [1, 1000, 2 ** 20, LIMIT])
def test_limit_holds_before_narrowing(calc, limit):
    # One window of 1, rho 256, 2^16 segments: 2^32 more, which is 0 in 32 bits.
    assert calc("grow", 1, 1, limit, 256 * ONE, 0, 0, 2 ** 16)[0] == limit


@pytest.mark.parametrize("cwnd, ssthresh, limit", [
    (10, 1000, 100),        # clamp below ssthresh
    (100, 1000, 100),       # there already
    (200, 1000, 100),       # clamp lowered meanwhile
    (200, 50, 100),
])
def test_limit_in_slow_start(calc, cwnd, ssthresh, limit):
    assert grow(calc, 600, cwnd, ssthresh, [1, 1, 1], limit) == [limit] * 3


@given(cwnd=windows, target=st.integers(1, 2 ** 31 - 1), start=st.integers(0, ONE - 1),
       gain=gains_q16, acked=ackeds)
def test_slow_start_is_exact(calc, cwnd, target, start, gain, acked):
    window, left = cwnd * ONE, acked
    if cwnd < target:
        window, left = model.slow_start(cwnd * ONE + start, target * ONE, gain, acked)
    assert calc("start", cwnd, target, start, gain, acked) == [
        window // ONE, window % ONE, left]


@given(cwnd=windows, room=st.integers(1, 2000), start=st.integers(0, ONE - 1),
       gain=st.integers(ONE, 20 * ONE), acked=st.integers(1, 500))
def test_slow_start_is_exact_near_the_end(calc, cwnd, room, start, gain, acked):
    window, left = model.slow_start(cwnd * ONE + start, (cwnd + room) * ONE, gain, acked)
    assert calc("start", cwnd, cwnd + room, start, gain, acked) == [
        window // ONE, window % ONE, left]


@given(cwnd=windows, rho=st.integers(ONE, 20 * ONE),
       acks=st.lists(st.integers(1, 300), min_size=1, max_size=20))
def test_slow_start_needs_no_particular_acks(calc, cwnd, rho, acks):
    """However the same segments are acknowledged, the window is the same."""
    one_by_one = calc("grow", cwnd, INFINITE, LIMIT, rho, 0, 0, *[1] * sum(acks))
    as_they_are = calc("grow", cwnd, INFINITE, LIMIT, rho, 0, 0, *acks)
    if one_by_one[-3] < INFINITE:
        assert as_they_are[-3:] == one_by_one[-3:]


@given(cwnd=windows, limit=st.integers(1, LIMIT), credit=st.integers(0, 2 ** 37),
       rho=rhos_q16, acked=ackeds)
def test_avoid_is_exact(calc, cwnd, limit, credit, rho, acked):
    [gain] = calc("rho2", rho)
    window, carried = model.avoid(cwnd, Fraction(credit, ONE), Fraction(gain, ONE), acked)
    assert calc("avoid", cwnd, limit, credit, gain, acked) == [
        min(window, limit), carried * ONE]


@given(cwnd=st.integers(1, LIMIT), acked=st.integers(1, 2 ** 30 - 1), rho=rhos_q16)
def test_avoid_beyond_any_real_ack(calc, cwnd, acked, rho):
    [gain] = calc("rho2", rho)
    window, carried = model.avoid(cwnd, Fraction(0), Fraction(gain, ONE), acked)
    assert calc("avoid", cwnd, LIMIT, 0, gain, acked) == [
        min(window, LIMIT), carried * ONE]


@given(cwnd=windows, rho=rhos_q16, acks=st.lists(ackeds, min_size=1, max_size=50))
def test_avoid_loses_nothing(calc, cwnd, rho, acks):
    """What was earned is what was paid plus what is carried."""
    [gain] = calc("rho2", rho)
    *seen, _, carried = calc("grow", cwnd, cwnd, LIMIT, rho, 0, 0, *acks)
    if seen[-1] == LIMIT:
        return
    paid = sum((after - before) * before for before, after in zip([cwnd, *seen], seen))
    assert paid * ONE + carried == sum(acks) * gain


@given(cwnd=windows, rho=rhos_q16, acked=ackeds)
def test_merged_acks_stay_within_rho2_per_window(calc, cwnd, rho, acked):
    """One ACK for up to a window adds at most rho^2, the paper's rate."""
    [gain] = calc("rho2", rho)
    acked = min(acked, cwnd)
    after = calc("grow", cwnd, cwnd, LIMIT, rho, 0, 0, acked)[0]
    assert (after - cwnd) * ONE <= gain


@given(cwnd=st.integers(1, 5000), ssthresh=st.integers(1, 5000),
       acks=st.lists(st.integers(1, 200), min_size=1, max_size=200))
def test_rho_one_is_reno(calc, cwnd, ssthresh, acks):
    reno = model.Reno(cwnd, ssthresh)
    expected = [reno.ack(acked) for acked in acks]
    assert calc("grow", cwnd, ssthresh, LIMIT, ONE, 0, 0, *acks) == [
        *expected, 0, reno.count * ONE]


@given(cwnd=st.integers(1, 1000), count=st.integers(0, 10 ** 6), acked=st.integers(1, 100))
def test_credit_from_a_larger_window_as_reno(calc, cwnd, count, acked):
    reno = model.Reno(cwnd, cwnd)
    reno.count = count
    assert calc("avoid", cwnd, LIMIT, count * ONE, ONE, acked) == [
        reno.ack(acked), reno.count * ONE]


def test_credit_from_a_larger_window_is_no_burst(calc):
    # The application was idle: the window fell from 1000 to 10, the credit not.
    assert calc("avoid", 10, LIMIT, 999 * ONE, ONE, 1)[0] == 11


def test_slow_start_leaves_the_credit_alone(calc):
    assert calc("grow", 10, 100, LIMIT, ONE, 0, 999 * ONE, 1) == [11, 0, 999 * ONE]


@given(rtt_us=st.integers(1, 25000), acks=st.lists(st.integers(1, 20), min_size=1))
def test_a_short_path_is_reno(calc, rtt_us, acks):
    [rho] = calc("rho", rtt_us, 25000, 256)
    reno = model.Reno(10, 40)
    expected = [reno.ack(acked) for acked in acks]
    assert calc("grow", 10, 40, LIMIT, rho, 0, 0, *acks)[:-2] == expected
