# SPDX-License-Identifier: GPL-2.0
"""hybla_full's growth with gentle=1: hybla/gentle.h."""

from fractions import Fraction

import model
import pytest
from hypothesis import given
from hypothesis import strategies as st

ONE = model.ONE
UNIT = Fraction(1, ONE)
LIMIT = 2 ** 30
GEO = 600_000                               # us; rho is 24

windows = st.one_of(st.integers(1, 600), st.integers(1, 2 ** 20))
rhos_q16 = st.integers(ONE, 256 * ONE)


@pytest.fixture(scope="session")
def gentle(calculator):
    return calculator("gentle_calc")


@pytest.mark.parametrize("cwnd, b, queue, per_rtt", [
    (100, 100, 0, 25), (50, 100, 0, 576), (3000, 100, 0, 576), (100, 0, 0, 25), (3, 0, 0, 1),
    (100, 100, 1, 6), (50, 100, 1, 6), (3000, 100, 1, 6)])
def test_segments_per_rtt_at_600_ms(gentle, cwnd, b, queue, per_rtt):
    """W/4 from b on, rho^2 below it and at most, rho/4 while a queue shows."""
    after, credit = gentle("avoid", cwnd, LIMIT, 0, 24 * ONE, b, queue, 1)
    paid = sum(range(cwnd, after))          # each segment the window that it was added to
    assert paid * ONE + credit == per_rtt * ONE


@given(rho=rhos_q16, cwnd=windows, b=windows, acked=st.integers(1, 200))
def test_a_queue_leaves_a_quarter_of_rho(gentle, rho, cwnd, b, acked):
    window, credit = model.avoid(cwnd, 0, max(Fraction(rho // 4), ONE) * UNIT, acked, UNIT, LIMIT)
    assert gentle("avoid", cwnd, LIMIT, 0, rho, b, 1, acked) == [window, credit * ONE]


@given(rho=rhos_q16, cwnd=windows, b=windows, acked=st.integers(1, 200), limit=windows)
def test_without_a_queue_it_grows_no_faster_than_hybla(gentle, calc, rho, cwnd, b, acked, limit):
    grown, _ = gentle("avoid", cwnd, limit, 0, rho, b, 0, acked)
    assert grown <= calc("grow", cwnd, 1, limit, rho, 0, 0, acked)[0] <= limit


@given(rho=rhos_q16, b=windows, cwnd=windows, acked=st.integers(1, 200))
def test_an_ack_takes_w_past_b_no_further_than_slow_start(gentle, rho, b, cwnd, acked):
    grown, _ = gentle("avoid", cwnd, LIMIT, 0, rho, b, 0, acked)
    if cwnd < b:
        assert grown <= max(b, cwnd + acked)


def shows(gentle, *rounds, path_us=GEO):
    """After the last ACK of each round trip: does a queue show?  A round trip: its RTTs; the segments
    that end it follow at once."""
    request, nxt, ends = [], 1000, []
    acks = 0
    for rtts in rounds:
        for number, rtt_us in enumerate(rtts):
            last = number == len(rtts) - 1
            request += [0, rtt_us, nxt, 1, nxt if last else nxt - 1, 0]
            acks += 1
        ends.append(acks - 1)
        nxt += 1000
    seen = gentle("queue", path_us, *request)
    return [seen[end] for end in ends]


def test_a_queue_shows_above_an_eighth(gentle):
    assert shows(gentle, [GEO] * 3, [675_000] * 3, [675_001] * 3, [675_000] * 3) == [0, 0, 1, 0]


def test_on_a_short_path_a_queue_shows_above_4_ms(gentle):
    assert shows(gentle, [14_000] * 3, [14_001] * 3, path_us=10_000) == [0, 1]


def test_one_rtt_without_a_queue_ends_it(gentle):
    assert shows(gentle, [900_000] * 20, [900_000] * 19 + [GEO]) == [1, 0]


def test_eight_rtts_are_enough_to_see_a_queue(gentle):
    """Not before, and not if one of them was on time; then the round trip's end says."""
    def after_each(rtts):
        request = [word for rtt_us in rtts for word in (0, rtt_us, 5000, 1, 4999, 0)]
        return gentle("queue", GEO, *request)
    assert after_each([900_000] * 9) == [0] * 7 + [1] * 2
    assert after_each([GEO] + [900_000] * 9) == [0] * 10


def test_zeroed_state_shows_no_queue_at_any_sequence_number(gentle):
    for ack in (0, 1, 2 ** 31, 2 ** 32 - 1):
        assert gentle("queue", GEO, 1, ack, 0) == [0]


def test_the_sequence_number_wraps(gentle):
    nxt = 2 ** 32 - 10
    assert gentle("queue", GEO, 0, 900_000, nxt, 1, nxt - 1, 0, 1, 5, 0) == [0, 1]
