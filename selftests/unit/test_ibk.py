# SPDX-License-Identifier: GPL-2.0
"""Increase-by-K: what K is, and the window after each ACK: ibk/ibk.h."""

from fractions import Fraction

import model
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selftests import henderson_katz as paper

ONE = model.ONE
LIMIT = model.INT_MAX
AUTO, BELOW, NO_RTT = 1, 2, 4

windows = st.integers(1, 2 ** 20)
ks = st.integers(1, 255)
ks_q16 = st.one_of(ks.map(lambda k: k * ONE), st.integers(ONE, 8 * ONE))
ackeds = st.one_of(st.integers(1, 64), st.integers(1, 2 ** 16))
rtts_us = st.integers(1, 10 ** 7)


@pytest.fixture(scope="session")
def calc(calculator):
    return calculator("ibk_calc")


def grow(calc, k, cwnd, ackeds, ssthresh=1, limit=LIMIT):
    """The window after each ACK."""
    return calc("grow", cwnd, ssthresh, limit, k * ONE, 0, *ackeds)[:-1]


@pytest.mark.parametrize("k, cwnd, acked, expected", [
    (1, 10, [1] * 10, [10] * 9 + [11]),
    (2, 10, [1] * 11, [10, 10, 10, 10, 11, 11, 11, 11, 11, 11, 12]),
    (4, 10, [1] * 14, [10, 10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14]),
    (8, 10, [1] * 10, [10, 11, 12, 12, 13, 14, 14, 15, 15, 16]),
    (4, 2, [1] * 12, [3, 4, 5, 5, 6, 7, 7, 8, 8, 9, 9, 10]),
    (4, 10, [2] * 7, [10, 11, 12, 12, 13, 14, 14]),
    (4, 10, [10], [14]),
    (4, 2, [5], [7]),
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
    assert grow(calc, 4, 10, [10]) == [14]


@pytest.mark.parametrize("cwnd, ssthresh, acked, expected", [
    (2, 10, [1] * 9, [3, 4, 5, 6, 7, 8, 9, 10, 10]),
    (8, 10, [7], [12]),         # two to ssthresh, five at 4 / 10 each
    (10, 10, [5], [12]),
    (8, 10, [2], [10]),
])
def test_slow_start_leaves_the_rest_to_avoidance(calc, cwnd, ssthresh, acked, expected):
    assert grow(calc, 4, cwnd, acked, ssthresh) == expected


@pytest.mark.parametrize("cwnd, ssthresh, limit", [
    (10, 1000, 100), (100, 1000, 100), (200, 1000, 100), (200, 50, 100)])
def test_limit(calc, cwnd, ssthresh, limit):
    assert grow(calc, 255, cwnd, [90, 100, 100], ssthresh, limit) == [limit] * 3


@given(cwnd=windows, ssthresh=windows, limit=st.integers(1, LIMIT), k_q16=ks_q16,
       credit=st.integers(0, 2 ** 37), acks=st.lists(ackeds, min_size=1, max_size=20))
def test_growth_is_exact(calc, cwnd, ssthresh, limit, k_q16, credit, acks):
    flow = paper.Flow(cwnd, ssthresh, paper.Q16, limit=limit, credit=credit * paper.Q16)
    expected = [flow.ack(k_q16 * paper.Q16, acked) for acked in acks]
    assert calc("grow", cwnd, ssthresh, limit, k_q16, credit, *acks) == [
        *expected, flow.credit / paper.Q16]


@given(cwnd=st.integers(1, LIMIT), k=ks, acked=st.integers(1, 2 ** 30 - 1))
def test_growth_beyond_any_real_ack(calc, cwnd, k, acked):
    flow = paper.Flow(cwnd, 1, paper.Q16)
    assert calc("grow", cwnd, 1, LIMIT, k * ONE, 0, acked) == [
        flow.ack(k, acked), flow.credit / paper.Q16]


@given(cwnd=windows, credit=st.integers(0, 2 ** 37), k_q16=ks_q16, acked=ackeds)
def test_never_more_than_a_segment_for_a_segment(calc, cwnd, credit, k_q16, acked):
    after, carried = calc("grow", cwnd, 1, LIMIT, k_q16, credit, acked)
    assert cwnd <= after <= cwnd + acked
    assert carried < cwnd * ONE


@given(cwnd=st.integers(1, 300), k=ks, acks=st.integers(1, 600))
def test_the_printed_rule(calc, cwnd, k, acks):
    """Within a segment of the report's line in real numbers: a segment costs the whole window
    before it and not the mean of both, half of one less; what is carried is less than one."""
    exact = paper.as_printed(float(cwnd), float(k), acks)
    after = grow(calc, k, cwnd, [1] * acks)[-1]
    assert exact - 1.001 <= after <= exact + 0.501


@given(cwnd=windows, k=st.integers(1, 255), merged=st.integers(2, 64))
def test_merged_acks_differ_by_less_than_they_grow(calc, cwnd, k, merged):
    """One ACK for many counts them all; its price is the window before it, the lowest."""
    one_by_one = grow(calc, k, cwnd, [1] * merged)[-1]
    at_once = grow(calc, k, cwnd, [merged])[-1]
    assert one_by_one <= at_once <= cwnd + merged * k // cwnd + (merged * k % cwnd > 0)


@given(cwnd=st.integers(1, 5000), ssthresh=st.integers(1, 5000),
       acks=st.lists(st.integers(1, 200), min_size=1, max_size=100))
def test_k_one_is_reno(calc, cwnd, ssthresh, acks):
    reno = model.Reno(cwnd, ssthresh)
    expected = [reno.ack(acked) for acked in acks]
    assert calc("grow", cwnd, ssthresh, LIMIT, ONE, 0, *acks) == [*expected, reno.count * ONE]


def test_credit_from_a_larger_window_is_one_segment(calc):
    # The application was idle: the window fell from 1000 to 10, the credit not.
    assert calc("grow", 10, 1, LIMIT, 4 * ONE, 999 * ONE, 1) == [11, 4 * ONE - 1]
    # At the bound nothing is earned twice, and nothing older comes on top.
    assert calc("grow", 2, 1, LIMIT, 4 * ONE, 999 * ONE, 1, 1) == [3, 4, 2 * ONE - 1]


def test_slow_start_leaves_the_credit_alone(calc):
    assert calc("grow", 10, 100, LIMIT, 4 * ONE, 999 * ONE, 1) == [11, 999 * ONE]


@pytest.mark.parametrize("k, rtt_min_ms, ref_ms, rtt_ms, rule, expected", [
    (4, 0, 0, 600, 0, 4),
    (4, 0, 0, 1, 0, 4),
    (4, 0, 0, 0, 0, 4),                         # no RTT asked for
    (4, 500, 0, 600, 0, 4),
    (4, 500, 0, 500, 0, 4),                     # at the threshold: long
    (4, 500, 0, 499, BELOW, 1),
    (4, 500, 0, 0, NO_RTT, 1),
    (7, 0, 300, 600, AUTO, 4),                  # (600 / 300)^2
    (7, 0, 300, 450, AUTO, Fraction("2.25")),
    (7, 0, 300, 300, AUTO, 1),
    (7, 0, 300, 20, AUTO, 1),
    (7, 0, 100, 600, AUTO, 8),                  # 36
    (7, 500, 300, 600, AUTO, 4),
    (7, 500, 300, 450, AUTO | BELOW, 1),
    (7, 0, 300, 0, AUTO | NO_RTT, 1),
    (7, 500, 300, 0, AUTO | NO_RTT, 1),
])
def test_k(calc, k, rtt_min_ms, ref_ms, rtt_ms, rule, expected):
    assert calc("k", k, rtt_min_ms * 1000, ref_ms * 1000, rtt_ms * 1000) == [rule, expected * ONE]


@given(k=ks, rtt_min_us=st.integers(0, 10 ** 7),
       met=st.lists(st.tuples(st.sampled_from([0, 1000, 25000, 300000, 10 ** 7]),
                              st.one_of(st.just(0), st.sampled_from([250000, 600000]), rtts_us)),
                    min_size=1, max_size=20))
def test_k_follows_what_a_flow_meets(calc, k, rtt_min_us, met):
    """RTT and parameters change under a flow: K is that of now, not one remembered."""
    expected = []
    for reference, rtt in met:
        if (not rtt and (reference or rtt_min_us)) or 0 < rtt < rtt_min_us:
            now = Fraction(1)
        else:
            now = paper.auto_k(rtt, reference) if reference else Fraction(k)
        expected.append(paper.rounded_down(now, paper.Q16) * ONE)
    said = calc("k", k, rtt_min_us, *[number for pair in met for number in pair])
    assert said[1::2] == expected


@given(rtt_us=rtts_us, ref_ms=st.integers(1, 10 ** 4))
def test_derived_k_is_exact(calc, rtt_us, ref_ms):
    exact = paper.auto_k(rtt_us, ref_ms * 1000)
    assert calc("derive", rtt_us, ref_ms * 1000) == [paper.rounded_down(exact, paper.Q16) * ONE]


@pytest.mark.parametrize("rtt_us, ref_us, k", [
    (2 ** 32 - 1, 1000, 8), (2 ** 32 - 1, 10 ** 7, 1), (10 ** 7, 10 ** 7, 1),
    (10 ** 7, 5 * 10 ** 6, 4), (1, 1000, 1)])
def test_derived_k_at_its_limits(calc, rtt_us, ref_us, k):
    assert calc("derive", rtt_us, ref_us) == [k * ONE]


@pytest.mark.parametrize("rtt_ms, ref_ms", [(600, 300), (600, 250), (450, 300), (250, 100)])
def test_derived_k_makes_the_rate_grow_as_renos(calc, rtt_ms, ref_ms):
    """A minute of whole windows: the rate gained is Reno's of the reference RTT."""
    def rate_gained(rtt_ms, k_q16):
        cwnd, credit = 200, 0
        for _ in range(60000 // rtt_ms):
            *_, cwnd, credit = calc("grow", cwnd, 1, LIMIT, k_q16, credit, *[1] * cwnd)
        return (cwnd - 200) / rtt_ms
    [k_q16] = calc("derive", rtt_ms * 1000, ref_ms * 1000)
    assert rate_gained(rtt_ms, k_q16) == pytest.approx(rate_gained(ref_ms, ONE), rel=0.03)
