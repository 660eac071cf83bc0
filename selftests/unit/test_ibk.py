# SPDX-License-Identifier: GPL-2.0
"""Increase-by-K: the window after each ACK: ibk/ibk.h."""

import model
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftests import henderson_katz as paper

ONE = model.ONE
LIMIT = 2 ** 30

windows = st.one_of(st.integers(1, 300), st.integers(1, 2 ** 20))
ks = st.integers(1, 255)
ackeds = st.one_of(st.integers(1, 64), st.integers(1, 400))


@pytest.fixture(scope="session")
def calc(calculator):
    return calculator("ibk_calc")


def in_full(ackeds):
    """ACKs of which each segment counts."""
    return [number for acked in ackeds for number in (acked, acked)]


def grow(calc, k, cwnd, ackeds, ssthresh=1, limit=LIMIT):
    """The window after each ACK."""
    return calc("grow", cwnd, ssthresh, limit, k, 0, *in_full(ackeds))[:-1]


@pytest.mark.parametrize("k, cwnd, acked, expected", [
    (1, 10, [1] * 10, [10] * 9 + [11]),
    (2, 10, [1] * 11, [10, 10, 10, 10, 11, 11, 11, 11, 11, 11, 12]),
    (4, 10, [1] * 14, [10, 10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14]),
    (8, 10, [1] * 10, [10, 11, 12, 12, 13, 14, 14, 15, 15, 16]),
    (4, 2, [1] * 12, [3, 4, 5, 5, 6, 7, 7, 8, 8, 9, 9, 10]),
    (4, 10, [2] * 7, [10, 11, 12, 12, 13, 14, 14]),
    (4, 10, [10], [13]),                        # 10 + 11 + 12 of 40
    (4, 2, [5], [6]),
    (4, 68, [97], [73]),
    (255, 1, [1, 1, 2, 4], [2, 3, 5, 9]),       # at the bound: slow start's slope
])
def test_table(calc, k, cwnd, acked, expected):
    assert grow(calc, k, cwnd, acked) == expected


@pytest.mark.parametrize("k, cwnd, acks, expected", [
    (1, 10, 10, 11), (2, 10, 10, 11), (4, 10, 10, 13), (8, 10, 10, 16),
    (4, 100, 100, 103),         # not 104: the window grows meanwhile
    (2, 100, 100, 101),
])
def test_after_a_window_of_acks(calc, k, cwnd, acks, expected):
    assert grow(calc, k, cwnd, [1] * acks)[-1] == expected


def test_the_floor_of_cwnd_over_k_is_not_used(calc):
    # Counting to floor(10 / 4) = 2 would give five segments in the first window.
    assert grow(calc, 4, 10, [10]) == [13]


@pytest.mark.parametrize("cwnd, ssthresh, acked, expected", [
    (2, 10, [1] * 9, [3, 4, 5, 6, 7, 8, 9, 10, 10]),
    (8, 10, [7], [11]),         # two to ssthresh, five at 4 / 10 each
    (10, 10, [6], [12]),
    (8, 10, [2], [10]),
])
def test_slow_start_leaves_the_rest_to_avoidance(calc, cwnd, ssthresh, acked, expected):
    assert grow(calc, 4, cwnd, acked, ssthresh) == expected


@pytest.mark.parametrize("cwnd, ssthresh, limit", [
    (10, 1000, 100), (100, 1000, 100), (200, 1000, 100), (200, 50, 100)])
def test_limit(calc, cwnd, ssthresh, limit):
    assert grow(calc, 255, cwnd, [90, 100, 100], ssthresh, limit) == [limit] * 3


@given(cwnd=windows, ssthresh=windows, limit=st.one_of(windows, st.just(LIMIT)), k=ks,
       credit=st.integers(0, 2 ** 37),
       acks=st.lists(st.tuples(ackeds, st.one_of(st.integers(0, 3), ackeds)), min_size=1, max_size=10))
def test_growth_is_exact(calc, cwnd, ssthresh, limit, k, credit, acks):
    flow = paper.Flow(cwnd, ssthresh, paper.Q16, limit, credit * paper.Q16)
    expected = [flow.ack(k, acked, counted) for acked, counted in acks]
    assert calc("grow", cwnd, ssthresh, limit, k, credit,
                *[number for ack in acks for number in ack]) == [
        *expected, flow.credit / paper.Q16]


@given(cwnd=st.integers(255, LIMIT - 1), k=ks, acked=st.integers(1, 2 ** 30 - 1))
def test_growth_beyond_any_real_ack(calc, cwnd, k, acked):
    """Nothing overflows: what was earned is what was paid plus what is carried."""
    after, credit = calc("grow", cwnd, 1, LIMIT, k, 0, acked, acked)
    if after < LIMIT:
        bought = after - cwnd
        assert (bought * cwnd + bought * (bought - 1) // 2) * ONE + credit == acked * k * ONE
        assert credit < after * ONE


@given(cwnd=windows, credit=st.integers(0, 2 ** 37), k=ks, acked=st.integers(1, 2 ** 16))
def test_never_more_than_a_segment_for_a_segment(calc, cwnd, credit, k, acked):
    after, carried = calc("grow", cwnd, 1, LIMIT, k, credit, acked, acked)
    assert cwnd <= after <= cwnd + acked
    assert carried in (credit, carried % (after * ONE))


@pytest.mark.parametrize("cwnd, acked, counted, expected", [
    (68, 97, 2, 69),            # Reno's one
    (68, 97, 97, 73),
    (2, 97, 2, 14),             # two at the bound, then Reno's, each at its own window
    (10, 3, 2, 10),             # 4 + 4 + 1 of 10: not yet
])
def test_without_sack(calc, cwnd, acked, counted, expected):
    """What an ACK counts for beyond two segments is Reno's."""
    flow = paper.Flow(cwnd, 1, paper.Q16)
    assert flow.ack(4, acked, counted) == expected
    assert calc("grow", cwnd, 1, LIMIT, 4, 0, acked, counted)[0] == expected


@pytest.mark.parametrize("k", [1, 2, 4, 8, 100, 255])
def test_one_ack_for_n_is_n_acks_for_one(calc, k):
    """Every window to 1000 and every ACK to 300 segments: the same window, the same credit."""
    assert calc("merged", k, 1000, 300) == [0, 0, 0]


@given(cwnd=st.integers(1, 300), k=ks, acks=st.integers(1, 600))
def test_the_printed_rule(calc, cwnd, k, acks):
    """Within a segment of the report's line in real numbers: a segment costs the whole window
    before it and not the mean of both, half of one less; what is carried is less than one."""
    exact = paper.as_printed(float(cwnd), float(k), acks)
    after = grow(calc, k, cwnd, [1] * acks)[-1]
    assert exact - 1.001 <= after <= exact + 0.501


@given(cwnd=st.integers(1, 5000), ssthresh=st.integers(1, 5000), acks=st.integers(1, 500))
def test_k_one_is_reno(calc, cwnd, ssthresh, acks):
    reno = model.Reno(cwnd, ssthresh)
    expected = [reno.ack(1) for _ in range(acks)]
    assert calc("grow", cwnd, ssthresh, LIMIT, 1, 0, *in_full([1] * acks)) == [
        *expected, reno.count * ONE]


def test_credit_from_a_larger_window_is_one_segment(calc):
    # The application was idle: the window fell from 1000 to 10, the credit not.
    assert calc("grow", 10, 1, LIMIT, 4, 999 * ONE, 1, 1) == [11, 4 * ONE - 1]
    # At the bound nothing is earned, and what is older waits.
    assert calc("grow", 2, 1, LIMIT, 4, 999 * ONE, 1, 1, 1, 1) == [3, 4, 999 * ONE]


def test_slow_start_leaves_the_credit_alone(calc):
    assert calc("grow", 10, 100, LIMIT, 4, 999 * ONE, 1, 1) == [11, 999 * ONE]
