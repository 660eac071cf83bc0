# SPDX-License-Identifier: GPL-2.0
"""Constant-Rate: what an ACK is worth, and the window after each: constant_rate/constant_rate.h."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftests import henderson_katz as paper

ONE = 1 << 20
LIMIT = 2 ** 30

windows = st.one_of(st.integers(1, 300), st.integers(1, 2 ** 20))
cs = st.integers(1, 10 ** 4)
rtts_us = st.one_of(st.integers(1, 10 ** 7), st.integers(1, 10 ** 4))
ackeds = st.one_of(st.integers(1, 64), st.integers(1, 400))


@pytest.fixture(scope="session")
def calc(calculator):
    return calculator("constant_rate_calc")


def gain(calc, c, rtt_us):
    [a_q20] = calc("a", c, rtt_us)
    return a_q20


def in_full(ackeds):
    """ACKs of which each segment counts."""
    return [number for acked in ackeds for number in (acked, acked)]


def grow(calc, c, rtt_ms, cwnd, ackeds, ssthresh=1, limit=LIMIT):
    """The window after each ACK."""
    a_q20 = gain(calc, c, rtt_ms * 1000)
    return calc("grow", cwnd, ssthresh, limit, a_q20, 0, *in_full(ackeds))[:-1]


@pytest.mark.parametrize("c, values", [
    (4, ["0.0004", "0.0025", "0.04", "0.25", "1", "1.44"]),
    (100, ["0.01", "0.0625", "1", "6.25", "25", "36"]),
    (400, ["0.04", "0.25", "4", "25", "100", "144"]),
    (1600, ["0.16", "1", "16", "100", "400", "576"]),
])
def test_table_of_a(calc, c, values):
    for rtt_ms, value in zip((10, 25, 100, 250, 500, 600), values):
        assert gain(calc, c, rtt_ms * 1000) == Fraction(value) * ONE // 1


@pytest.mark.parametrize("c, rtt_ms", [(4, 500), (100, 100), (400, 50), (1600, 25)])
def test_as_reno_at_one_rtt(calc, c, rtt_ms):
    assert gain(calc, c, rtt_ms * 1000) == ONE


@pytest.mark.parametrize("c, rtt_ms, cwnd, acked, expected", [
    (4, 600, 10, [1] * 7, [10] * 6 + [11]),
    (4, 500, 10, [1] * 10, [10] * 9 + [11]),
    (100, 600, 10, [1] * 6, [11, 12, 13, 14, 15, 16]),      # 36 / 10 is above 1
    (100, 600, 10, [7], [17]),
    (100, 600, 40, [1] * 14, [40, 41, 42, 43, 44, 45, 45, 46, 47, 48, 49, 49, 50, 51]),
    (100, 600, 40, [3] * 5, [42, 45, 47, 49, 51]),
    (1600, 25, 10, [1] * 11, [10] * 9 + [11] * 2),          # Reno
    (1600, 600, 600, [1] * 4, [600, 601, 602, 603]),
])
def test_table(calc, c, rtt_ms, cwnd, acked, expected):
    assert grow(calc, c, rtt_ms, cwnd, acked) == expected


def test_the_smallest_increase_of_the_report(calc):
    # 25000 in exact numbers; a in Q20 is 419 of 419.43, 1/1000 less.
    seen = grow(calc, 4, 10, 10, [1] * 25026)
    assert seen.index(11) == 25026 - 1


def test_ns2_forgets_remainders(calc):
    """The rule of ns-2's wnd_option_ 2, for the difference only: above cwnd one segment per ACK and
    what is left is dropped, so it grows at little more than half the report's rate."""
    ns2 = paper.as_in_ns2(40, paper.constant_rate(100, Fraction("0.6")), 10)
    assert ns2 == [40, 41, 41, 42, 42, 43, 43, 44, 44, 45]
    assert grow(calc, 100, 600, 40, [1] * 10) == [40, 41, 42, 43, 44, 45, 45, 46, 47, 48]


@given(c=cs, rtt_us=rtts_us)
def test_a_is_exact(calc, c, rtt_us):
    exact = paper.constant_rate(c, Fraction(rtt_us, 10 ** 6))
    assert gain(calc, c, rtt_us) == paper.rounded_down(exact, paper.Q20) * ONE


@given(c=cs, rtt_us=st.integers(10 ** 7, 2 ** 32 - 1))
def test_a_of_a_very_long_path(calc, c, rtt_us):
    assert gain(calc, c, rtt_us) == 100 * c * ONE


@given(c=cs)
def test_without_an_rtt_it_is_reno(calc, c):
    assert gain(calc, c, 0) == ONE


@given(c=cs, rtt_us=rtts_us)
def test_a_in_segments(calc, c, rtt_us):
    """What get_info() reports: rounded to nearest."""
    a_q20 = gain(calc, c, rtt_us)
    assert calc("pkts", a_q20) == [(a_q20 + ONE // 2) // ONE]


@given(cwnd=windows, ssthresh=windows, limit=st.one_of(windows, st.just(LIMIT)), c=cs,
       rtt_us=rtts_us, credit=st.integers(0, 2 ** 41),
       acks=st.lists(st.tuples(ackeds, st.one_of(st.integers(0, 3), ackeds)), min_size=1, max_size=10))
def test_growth_is_exact(calc, cwnd, ssthresh, limit, c, rtt_us, credit, acks):
    a_q20 = gain(calc, c, rtt_us)
    flow = paper.Flow(cwnd, ssthresh, paper.Q20, limit, credit * paper.Q20)
    expected = [flow.ack(a_q20 * paper.Q20, acked, counted) for acked, counted in acks]
    assert calc("grow", cwnd, ssthresh, limit, a_q20, credit,
                *[number for ack in acks for number in ack]) == [
        *expected, flow.credit / paper.Q20]


@given(cwnd=windows, acks=st.lists(st.tuples(st.integers(1, 10 ** 7), ackeds), min_size=1,
                                   max_size=10), c=cs)
def test_a_changing_rtt(calc, cwnd, acks, c):
    """The smoothed RTT is another at each ACK; what was earned before keeps its worth."""
    flow = paper.Flow(cwnd, 1, paper.Q20, LIMIT)
    credit = 0
    for rtt_us, acked in acks:
        a_q20 = gain(calc, c, rtt_us)
        flow.ack(a_q20 * paper.Q20, acked)
        cwnd, credit = calc("grow", cwnd, 1, LIMIT, a_q20, credit, acked, acked)
        assert [cwnd, credit] == [flow.cwnd, flow.credit / paper.Q20]


@given(cwnd=st.integers(1, LIMIT - 1), acked=st.integers(1, 2 ** 30 - 1), rtt_us=rtts_us)
def test_growth_beyond_any_real_ack(calc, cwnd, acked, rtt_us):
    """An ACK for more than 2^22 segments is taken for one of so many, and nothing overflows."""
    a_q20 = gain(calc, 10 ** 4, rtt_us)
    after, credit = calc("grow", cwnd, 1, LIMIT, a_q20, 0, acked, acked)
    acked = min(acked, 2 ** 22)
    at_bound = min(max(-(-a_q20 // ONE) - cwnd, 0), acked)
    if after < LIMIT:
        paid = (after * (after - 1) - (cwnd + at_bound) * (cwnd + at_bound - 1)) // 2
        assert paid * ONE + credit == (acked - at_bound) * a_q20
        assert credit < after * ONE


@given(cwnd=windows, credit=st.integers(0, 2 ** 41), c=cs, rtt_us=rtts_us,
       acked=st.integers(1, 2 ** 16))
def test_a_segment_adds_at_most_one(calc, cwnd, credit, c, rtt_us, acked):
    after, carried = calc("grow", cwnd, 1, LIMIT, gain(calc, c, rtt_us), credit, acked, acked)
    assert cwnd <= after <= cwnd + acked
    assert carried in (credit, carried % (after * ONE))


@pytest.mark.parametrize("rtt_ms, cwnd, acked, expected", [
    (1200, 68, 97, 71),         # two at the bound, a being 144, and one that is Reno's
    (600, 35, 207, 42),         # one at the bound, one at 36 / 36, then Reno's
    (600, 68, 97, 70),          # 72 + 95 of 68 + 69
])
def test_without_sack(calc, rtt_ms, cwnd, acked, expected):
    """An ACK that fills a hole is no burst: beyond two segments it counts as in Reno."""
    a_q20 = gain(calc, 100, rtt_ms * 1000)
    flow = paper.Flow(cwnd, 1, paper.Q20, LIMIT)
    assert flow.ack(a_q20 * paper.Q20, acked, 2) == expected
    assert calc("grow", cwnd, 1, LIMIT, a_q20, 0, acked, 2)[0] == expected


@pytest.mark.parametrize("c, rtt_ms", [(4, 10), (4, 600), (100, 100), (100, 600), (1600, 600)])
def test_one_ack_for_n_is_n_acks_for_one(calc, c, rtt_ms):
    """Every window to 1000 and every ACK to 300 segments: the same window, the same credit."""
    assert calc("merged", gain(calc, c, rtt_ms * 1000), 1000, 300) == [0, 0, 0]


@pytest.mark.parametrize("cwnd, ssthresh, limit", [
    (10, 1000, 100), (100, 1000, 100), (200, 1000, 100), (200, 50, 100)])
def test_limit(calc, cwnd, ssthresh, limit):
    assert grow(calc, 1600, 600, cwnd, [90, 100, 100], ssthresh, limit) == [limit] * 3


@pytest.mark.parametrize("cwnd, ssthresh, acked, expected", [
    (8, 40, [32, 1, 1], [40, 40, 41]),
    (38, 40, [5], [42]),        # two to ssthresh, three at 36 / 40 each
])
def test_slow_start_leaves_the_rest_to_avoidance(calc, cwnd, ssthresh, acked, expected):
    assert grow(calc, 100, 600, cwnd, acked, ssthresh) == expected


@pytest.mark.parametrize("c, rtt_ms, k", [
    (4, 1000, 4), (4, 500, 1), (1, 2000, 4), (100, 200, 4), (25, 600, 9), (100, 600, 36),
    (1600, 100, 16), (6, 5000, 150)])
@pytest.mark.parametrize("cwnd", [1, 2, 10, 100, 4000])
def test_one_rtt_adds_k_segments(calculator, c, rtt_ms, k, cwnd):
    """With c rtt^2 = K the windows are increase-by-K's."""
    acks = in_full([1] * 200 + [2, 3, 5, 7] * 20)
    theirs = calculator("ibk_calc")("grow", cwnd, 1, LIMIT, k, 0, *acks)
    *ours, credit = calculator("constant_rate_calc")(
        "grow", cwnd, 1, LIMIT, calculator("constant_rate_calc")("a", c, rtt_ms * 1000)[0], 0,
        *acks)
    assert [*ours, credit >> 4] == theirs


@given(cwnd=st.integers(1, 300), c=cs, rtt_us=st.integers(10 ** 4, 10 ** 6), acks=st.integers(1, 600))
def test_the_printed_rule(calc, cwnd, c, rtt_us, acks):
    """Within a segment of the report's line in real numbers, as for increase-by-K."""
    a = c * (rtt_us / 1e6) ** 2
    exact = paper.as_printed(float(cwnd), a, acks)
    after = calc("grow", cwnd, 1, LIMIT, gain(calc, c, rtt_us), 0, *in_full([1] * acks))[-2]
    assert exact - 1.001 <= after <= exact + 0.501


@pytest.mark.parametrize("c", [4, 25, 100])
@pytest.mark.parametrize("rtt_ms", [100, 200, 300, 600])
def test_the_rate_grows_by_c_at_any_rtt(calc, c, rtt_ms):
    """c segments per second more each second: the policy's name, where the bound is not met."""
    cwnd = start = 500
    credit, a_q20 = 0, gain(calc, c, rtt_ms * 1000)
    for _ in range(30000 // rtt_ms):
        *_, cwnd, credit = calc("grow", cwnd, 1, LIMIT, a_q20, credit, *in_full([1] * cwnd))
    # A window is a whole number, so the rate gained has steps of 1 / rtt.
    assert (cwnd - start) / (rtt_ms / 1000) / 30 == pytest.approx(
        c, rel=0.04, abs=1.5 * 1000 / rtt_ms / 30)


def test_credit_from_a_larger_window_is_one_segment(calc):
    assert calc("grow", 10, 1, LIMIT, 4 * ONE, 999 * ONE, 1, 1) == [11, 4 * ONE - 1]
