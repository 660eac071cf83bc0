# SPDX-License-Identifier: GPL-2.0
"""The window after each ACK: modules/credit.h, hybla/rho.h."""

from fractions import Fraction
from math import isqrt

import model
import pytest
from hypothesis import given
from hypothesis import strategies as st

ONE = model.ONE
UNIT = Fraction(1, ONE)
INFINITE = model.INFINITE_SSTHRESH
LIMIT = 2 ** 30

windows = st.integers(1, 2 ** 20)
rhos_q16 = st.integers(ONE, 256 * ONE)
gains_q16 = st.one_of(st.integers(ONE, 2 ** 47 - ONE),
                      st.integers(1, 40).map(lambda rho: (2 ** min(rho, 31) - 1) * ONE))
ackeds = st.one_of(st.integers(1, 64), st.integers(1, 2 ** 16))
few_acked = st.integers(1, 200)


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
    (50, 10, [10, 10, 11, 11, 11, 12, 12, 12, 13, 13]),
    (100, 10, [11, 12, 14, 15, 16, 17, 18, 19, 19, 20]),    # at 12: 11 + 16 pay for 12 and 13
    (100, 20, [20, 21, 22, 23, 23, 24, 25, 25, 26, 26]),
    (600, 1, [2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 33, 41, 51]),   # 1, then W / 4
    (600, 24, [30, 37, 46, 57, 66, 74, 82, 88]),    # from 57 on rho^2 / 57 is less than 57 / 4
    (600, 100, [105, 110, 116, 120, 125, 130, 134, 138, 142, 146]),
    (600, 600, [600, 601, 602, 603]),
    (6400, 2, [3, 4, 5, 6, 7, 8, 10]),      # rho = 256
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
    (600, 24, 24, 162),     # not 24 + rho^2 = 600: rho^2/W shrinks as W grows
    (600, 600, 600, 1025),
    (600, 5000, 5000, 5546),
])
def test_avoid_after_a_window_of_acks(calc, rtt_ms, cwnd, acks, expected):
    assert grow(calc, rtt_ms, cwnd, cwnd, [1] * acks)[-1] == expected


@pytest.mark.parametrize("rtt_ms, cwnd", [(100, 50), (600, 600), (600, 5000)])
@pytest.mark.parametrize("merged", [False, True])
def test_avoid_follows_the_square_root_law(calc, rtt_ms, cwnd, merged):
    # dW/dn = rho^2 / W, so W^2 grows by 2 rho^2 per ACK. A segment costs the window before it and
    # not the mean of both, half of one less; what is carried is less than one.
    acks = 2 * cwnd
    rho2 = model.rho(rtt_ms * 1000, 25000, 256) ** 2
    law = isqrt(int(cwnd ** 2 + 2 * rho2 * acks))
    seen = grow(calc, rtt_ms, cwnd, cwnd, [acks] if merged else [1] * acks)[-1]
    assert seen == pytest.approx(law, abs=1)


@pytest.mark.parametrize("rho", [1, 1.5, 2, 4, 10, 22.4, 24, 40, 255.9, 256])
def test_one_ack_for_n_is_n_acks_for_one(calc, rho):
    """Every window to 1000 and every ACK to 300 segments: the same window, the same credit."""
    assert calc("merged", int(rho * ONE), 1000, 300) == [0, 0, 0]


@given(cwnd=windows, ssthresh=st.integers(1, 2 ** 20), rho=rhos_q16,
       acks=st.lists(ackeds, min_size=1, max_size=20))
def test_congestion_avoidance_needs_no_particular_acks(calc, cwnd, ssthresh, rho, acks):
    """However the same segments are acknowledged, to 2^20 of them, the window is the same."""
    as_they_are = calc("grow", cwnd, ssthresh, LIMIT, rho, 0, 0, *acks)
    [*_, start, credit] = in_one = calc("grow", cwnd, ssthresh, LIMIT, rho, 0, 0, sum(acks))
    if in_one[0] < LIMIT:
        assert as_they_are[-3:] == in_one
        assert credit < in_one[0] * ONE or in_one[0] < ssthresh and not start >= ONE


@pytest.mark.parametrize("rho", [1, 2, 24, 256])
def test_a_segment_adds_at_most_a_quarter(calc, rho):
    """The bound, at every window to 2000: W / 4, or 1."""
    for cwnd in range(1, 2000):
        after = calc("grow", cwnd, 1, LIMIT, rho * ONE, 0, 0, 1)[0]
        assert cwnd <= after <= cwnd + max(cwnd // 4, 1)


@pytest.mark.parametrize("rtt_ms, cwnd, acked, expected", [
    (600, 2, 2, 4),             # after two losses; without the bound 578
    (600, 1, 2, 3),             # after two lost SYNs; 290
    (6400, 1, 2, 3),            # 32770
    (600, 10, 10, 70),          # 586
    (600, 24, 44, 222),         # 1080
    (600, 68, 97, 341),
])
def test_growth_of_one_ack(calc, rtt_ms, cwnd, acked, expected):
    assert grow(calc, rtt_ms, cwnd, 1, [acked]) == [expected]


def test_the_loop_stays_within_its_bound(calc):
    """From W = 1 at rho = 256 the bound is behind a flow after 27 segments."""
    cwnd, turns = 1, 0
    while 2 ** 16 > model.most(cwnd) * cwnd:
        cwnd, turns = cwnd + model.most(cwnd), turns + 1
    assert turns == 27
    assert grow(calc, 6400, 1, 1, [27]) == [cwnd]


@pytest.mark.parametrize("limit", [1, 2, 9, 1000, 2 ** 16])
def test_limit(calc, limit):
    # One window of 1, rho 256, 2^16 segments earn 2^32: 92665 without limit.
    assert calc("grow", 1, 1, limit, 256 * ONE, 0, 0, 2 ** 16)[0] == limit
    assert calc("grow", 1, 1, LIMIT, 256 * ONE, 0, 0, 2 ** 16)[0] == 92665


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
       rho=rhos_q16, acked=few_acked)
def test_avoid_is_exact(calc, cwnd, limit, credit, rho, acked):
    [gain] = calc("rho2", rho)
    window, carried = model.avoid(cwnd, credit * UNIT, gain * UNIT, acked, UNIT, limit)
    assert calc("avoid", cwnd, limit, credit, gain, acked) == [window, carried * ONE]


@given(cwnd=st.one_of(st.integers(1, 600), windows), limit=st.one_of(windows, st.just(LIMIT)),
       credit=st.integers(0, 2 ** 37), rho=rhos_q16,
       acks=st.lists(few_acked, min_size=1, max_size=5))
def test_bounded_growth_is_exact(calc, cwnd, limit, credit, rho, acks):
    [gain] = calc("rho2", rho)
    seen, window, carried = [], cwnd, credit * UNIT
    for acked in acks:
        window, carried = model.avoid_hybla(window, carried, gain * UNIT, acked, UNIT, limit)
        seen.append(window)
    assert calc("grow", cwnd, 1, limit, rho, 0, credit, *acks) == [*seen, 0, carried * ONE]


@given(cwnd=st.integers(1, LIMIT - 1), acked=st.integers(1, 2 ** 30 - 1), rho=rhos_q16)
def test_avoid_beyond_any_real_ack(calc, cwnd, acked, rho):
    """Nothing overflows: what was earned is what was paid plus what is carried."""
    [gain] = calc("rho2", rho)
    window, carried = calc("avoid", cwnd, 2 ** 30, 0, gain, acked)
    if window < 2 ** 30:
        bought = window - cwnd
        paid = bought * cwnd + bought * (bought - 1) // 2
        assert paid * ONE + carried == acked * gain
        assert carried < window * ONE


@given(cwnd=st.integers(512, 2 ** 20), rho=rhos_q16, acks=st.lists(ackeds, min_size=1, max_size=50))
def test_avoid_loses_nothing(calc, cwnd, rho, acks):
    """What was earned is what was paid, each segment the window it was added to, plus what is
    carried."""
    [gain] = calc("rho2", rho)
    *seen, _, carried = calc("grow", cwnd, cwnd, LIMIT, rho, 0, 0, *acks)
    if cwnd // 4 * cwnd * ONE < gain or seen[-1] == LIMIT:
        return
    paid = (seen[-1] * (seen[-1] - 1) - cwnd * (cwnd - 1)) // 2
    assert paid * ONE + carried == sum(acks) * gain


@given(cwnd=windows, rho=rhos_q16, acked=ackeds)
def test_an_ack_for_a_window_adds_at_most_rho2(calc, cwnd, rho, acked):
    """The paper's rate: rho^2 a round trip."""
    [gain] = calc("rho2", rho)
    after = calc("grow", cwnd, cwnd, LIMIT, rho, 0, 0, min(acked, cwnd))[0]
    assert (after - cwnd) * ONE <= gain


@given(cwnd=st.integers(1, 5000), ssthresh=st.integers(1, 5000), acks=st.integers(1, 500))
def test_rho_one_is_reno(calc, cwnd, ssthresh, acks):
    reno = model.Reno(cwnd, ssthresh)
    expected = [reno.ack(1) for _ in range(acks)]
    assert calc("grow", cwnd, ssthresh, LIMIT, ONE, 0, 0, *[1] * acks) == [
        *expected, 0, reno.count * ONE]


@given(cwnd=st.integers(1, 5000), acks=st.lists(st.integers(1, 64), min_size=1, max_size=50))
def test_rho_one_is_reno_within_a_segment(calc, cwnd, acks):
    """Reno in the kernel has the window before a merged ACK as the price of all it brings."""
    for acked in acks:
        acked = min(acked, cwnd)
        reno = model.Reno(cwnd, 1).ack(acked)
        after = calc("grow", cwnd, 1, LIMIT, ONE, 0, 0, acked)[0]
        assert reno - 1 <= after <= reno
        cwnd = after


def test_credit_from_a_larger_window_is_no_burst(calc):
    # The application was idle: the window fell from 1000 to 10, the credit not.
    assert calc("avoid", 10, LIMIT, 999 * ONE, ONE, 1) == [11, ONE - 1]


def test_slow_start_leaves_the_credit_alone(calc):
    assert calc("grow", 10, 100, LIMIT, ONE, 0, 999 * ONE, 1) == [11, 0, 999 * ONE]


@given(rtt_us=st.integers(1, 25000), acks=st.integers(1, 100))
def test_a_short_path_is_reno(calc, rtt_us, acks):
    [rho] = calc("rho", rtt_us, 25000, 256)
    reno = model.Reno(10, 40)
    expected = [reno.ack(1) for _ in range(acks)]
    assert calc("grow", 10, 40, LIMIT, rho, 0, 0, *[1] * acks)[:-2] == expected
