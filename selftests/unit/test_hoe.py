# SPDX-License-Identifier: GPL-2.0
"""The rate of a packet train: modules/hoe.h."""

import model
import pytest
from hypothesis import given
from hypothesis import strategies as st

ONE = model.ONE
JITTER_US = [0, 700, -900, 400, -300, 900, -800, 200, -500, 600]


def train(acks, gap_us, pkts=1, jitter=None):
    """Points of evenly spaced ACKs; the first, the origin, is not among them."""
    jitter = jitter or [0] * acks
    return [(i * gap_us + jitter[i] - jitter[0], i * pkts) for i in range(1, acks)]


def hoe(calc, points, min_rtt_us, min_points=3):
    """Number of points used, window (0: no estimate)."""
    flat = [number for point in points for number in point]
    count, _, _, window = calc("hoe", min_points, min_rtt_us, *flat)
    return count, window


TABLE = [
    # name, points, min RTT us, window
    ("2 Mbit/s", train(10, 6000), 600000, 100),
    ("first three", train(3, 6000), 600000, 100),
    ("delayed ACKs", train(5, 12000, 2), 600000, 100),
    ("1.144 Mbit/s", train(10, 10490), 587350, 55),
    ("10 Mbit/s", train(10, 1200), 600000, 500),
    ("jitter", train(10, 6000, jitter=JITTER_US), 600000, 99),
    ("900 us", train(10, 100), 600000, 0),
    ("1 ACK", train(1, 6000), 600000, 0),
    ("2 ACKs", train(2, 6000), 600000, 0),
    ("1 ms", train(11, 100), 600000, 6000),
    ("999 us", train(10, 111), 600000, 0),
    ("largest", train(32, 131072, 2), 2 ** 24 - 1, 255),
    ("RTT too long", train(32, 131072, 2), 2 ** 24, 0),
    ("nothing delivered", train(10, 6000, 0), 600000, 0),
    ("all at once", train(10, 0), 600000, 0),
    ("RTT unknown", train(10, 6000), 0, 0),
    ("under a segment", [(1000, 0), (2000, 1)], 1000, 1),
]


@pytest.mark.parametrize("points, min_rtt_us, window", [row[1:] for row in TABLE],
                         ids=[row[0] for row in TABLE])
def test_table(calc, points, min_rtt_us, window):
    assert hoe(calc, points, min_rtt_us)[1] == window


@pytest.mark.parametrize("points, min_rtt_us, used", [
    (train(40, 6000), 600000, 32),
    (train(20, 6000, 4), 600000, 17),               # 16 * 4 = 64 still counts
    (train(20, 6000, 5), 600000, 13),               # 12 * 5 = 60
    (train(5, 2 ** 20), 2 ** 23, 4),                # 2^22 us is too late
    (train(5, 2 ** 20 - 1), 2 ** 23, 5),
    (train(10, 300000), 600000, 5),                 # 1.2 s, two RTTs, still counts
    ([(2 ** 32 + 6000, 1)], 2 ** 32 - 1, 1),        # not 6000 us by way of 32 bits
])
def test_caps(calc, points, min_rtt_us, used):
    assert hoe(calc, points, min_rtt_us)[0] == used


@pytest.mark.parametrize("min_points", range(3, 33))
def test_min_points(calc, min_points):
    assert hoe(calc, train(min_points, 6000), 600000, min_points)[1] == 100
    assert hoe(calc, train(min_points - 1, 6000), 600000, min_points)[1] == 0


@st.composite
def trains(draw):
    gaps = draw(st.lists(st.integers(0, 250000), max_size=40))
    steps = draw(st.lists(st.integers(0, 3), min_size=len(gaps), max_size=len(gaps)))
    points, t, a = [], 0, 0
    for gap, step in zip(gaps, steps):
        t, a = t + gap, a + step
        points.append((t, a))
    return points


@given(points=trains(), min_rtt_us=st.integers(1, 10 ** 7), min_points=st.integers(3, 32))
def test_window_is_exact(calc, points, min_rtt_us, min_points):
    allowed = model.train_points(points, min_rtt_us)
    window = model.train_window(allowed, min_points, min_rtt_us)
    assert hoe(calc, points, min_rtt_us, min_points) == (len(allowed), window or 0)


@given(acks=st.integers(3, 32), gap_us=st.integers(500, 130000), rtt_us=st.integers(1, 2 ** 24 - 1))
def test_even_spacing_gives_rtt_over_gap(calc, acks, gap_us, rtt_us):
    used, window = hoe(calc, train(acks, gap_us), rtt_us)
    if used == acks:
        assert window == max(rtt_us // gap_us, 1)


@given(points=trains())
def test_fit_is_the_least_squares_line(calc, points):
    flat = [number for point in points for number in point]
    _, num, den, _ = calc("hoe", 3, 2 ** 24 - 1, *flat)
    slope = model.train_slope(model.train_points(points, 2 ** 24 - 1))
    if slope is None:
        assert den == 0
    else:
        assert num >= 0 and den > 0 and num == slope * den


def start_of_flow(calc, min_rtt_us, acks):
    """The window from the first data ACK on: plain slow start until the train
    gives an ssthresh, then Hybla. acks: (t_us, acked)."""
    [rho] = calc("rho", min_rtt_us, 25000, 256)
    cwnd, ssthresh, start, credit = 10, model.INFINITE_SSTHRESH, 0, 0
    points, delivered, seen = [], None, []
    for t_us, acked in acks:
        if delivered is None:
            t0, delivered = t_us, 0
        else:
            delivered += acked
            points.append((t_us - t0, delivered))
        if ssthresh == model.INFINITE_SSTHRESH:
            window = hoe(calc, points, min_rtt_us)[1]
            if window:
                ssthresh = max(window, 10)
        known = ssthresh != model.INFINITE_SSTHRESH
        cwnd, start, credit = calc("grow", cwnd, ssthresh, model.INT_MAX,
                                   rho if known else ONE, start, credit, acked)
        seen.append(cwnd)
    return seen, ssthresh


def test_start_of_a_flow(calc):
    # 600 ms, 2 Mbit/s: the third ACK brings ssthresh 100, and the window there.
    seen, ssthresh = start_of_flow(calc, 600000, [(i * 6000, 1) for i in range(10)])
    assert seen == [11, 12, 100, 105, 110, 116, 120, 125, 130, 134]
    assert ssthresh == 100


def test_start_of_a_flow_in_one_ack(calc):
    seen, ssthresh = start_of_flow(calc, 600000, [(0, 10)])
    assert seen == [20]
    assert ssthresh == model.INFINITE_SSTHRESH
