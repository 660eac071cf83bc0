# SPDX-License-Identifier: GPL-2.0
"""Marchese's slow start: mtsi/mtsi_increase.h."""

from itertools import islice

import mtsi_model as model
import pytest
from hypothesis import given
from hypothesis import strategies as st

INFINITE = model.INFINITE_SSTHRESH

PAPER = model.Mtsi((20, 30, 40), (4, 2, 1))
EARLY = model.Mtsi((10, 20, 30), (4, 2, 1))


@pytest.fixture(scope="session")
def calc(calculator):
    return calculator("mtsi_calc")


def rule(function):
    """A function F as the calculator takes it: zones [thr k]... above."""
    if isinstance(function, model.Mtsi):
        pairs = [word for pair in zip(function.thr, function.k) for word in pair]
        return [len(function.thr), *pairs, 1]
    if isinstance(function, model.Linear):
        return [1, function.thr, 1, 1]
    return [0, function.k if isinstance(function, model.Const) else 1]


def start(calc, function, cwnd, acks, f=0, target=INFINITE):
    """[cwnd, F, left] after each ACK."""
    values = calc("start", *rule(function), target, f, cwnd, *acks)
    return [values[at:at + 3] for at in range(0, len(values), 3)]


TABLE = [
    # function, initial window, F(0), ssthresh, windows
    (PAPER, 6, 0, INFINITE, [10, 18, 30, 43, 44, 45, 46, 47]),
    (PAPER, 10, 0, INFINITE, [14, 22, 32, 43, 44, 45, 46, 47]),
    (PAPER, 1, 0, INFINITE, [5, 13, 25, 39, 54, 55, 56, 57]),
    (PAPER, 2, 0, INFINITE, [6, 14, 26, 40, 41, 42, 43, 44]),
    (EARLY, 6, 0, INFINITE, [10, 16, 24, 33, 34, 35, 36, 37]),
    (PAPER, 6, 1, INFINITE, [11, 20, 31, 43, 44]),
    (PAPER, 10, 1, INFINITE, [15, 24, 35, 47, 48]),
    (PAPER, 6, 0, 25, [10, 18, 25, 25]),
    (model.Const(2), 6, 0, INFINITE, [8, 10, 12, 14]),
    (model.Const(4), 6, 0, INFINITE, [10, 14, 18, 22]),
    (model.Const(10), 6, 0, INFINITE, [16, 26, 36, 46]),
    (model.Linear(10), 6, 0, INFINITE, [7, 9, 12, 13, 14, 15, 16, 17]),
    (model.Linear(20), 6, 0, INFINITE, [7, 9, 12, 16, 21, 22, 23, 24]),
    (model.Linear(50), 6, 0, INFINITE, [7, 9, 12, 16, 21, 27, 34, 42, 51, 52]),
    (model.reno, 6, 0, INFINITE, [7, 8, 9, 10]),
]


@pytest.mark.parametrize("function, cwnd, f0, ssthresh, expected", TABLE)
def test_table(calc, function, cwnd, f0, ssthresh, expected):
    rows = start(calc, function, cwnd, [1] * len(expected), f0, ssthresh)
    assert [row[0] for row in rows] == expected
    assert list(islice(model.windows(function, cwnd, f0, ssthresh), len(expected))) == expected


@pytest.mark.parametrize("cwnd, expected", [
    (6, [4, 8, 12, 13, 1, 1, 1, 1]),        # the zone of K = 2 is jumped over
    (10, [4, 8, 10, 11, 1]),
    (1, [4, 8, 12, 14, 15, 1]),
])
def test_table_of_f(calc, cwnd, expected):
    assert [row[1] for row in start(calc, PAPER, cwnd, [1] * len(expected))] == expected


def test_k_is_of_the_first_threshold_above(calc):
    assert [row[1] for row in start(calc, PAPER, 6, [1] * 5)] == [4, 8, 12, 13, 1]
    for cwnd, k in [(1, 4), (19, 4), (20, 2), (29, 2), (30, 1), (39, 1)]:
        assert start(calc, PAPER, cwnd, [1], f=100)[0][1] == 100 + k
    for cwnd in (40, 1000):
        assert start(calc, PAPER, cwnd, [1], f=100)[0][1] == 1


def test_two_segments_an_ack(calc):
    """acked = 2 each: 18 43 45 47 49."""
    assert [row[0] for row in start(calc, PAPER, 6, [2] * 5)] == [18, 43, 45, 47, 49]


def test_segments_beyond_ssthresh_count_for_avoidance(calc):
    """Three steps bring 6 to 25; five of eight are left, and all of what comes then."""
    assert [row[2] for row in start(calc, PAPER, 6, [8, 1, 7], target=25)] == [5, 1, 7]


def test_ssthresh_cuts_the_window_not_f(calc):
    assert start(calc, PAPER, 6, [3], target=25) == [[25, 12, 0]]


@pytest.mark.parametrize("f, after", [(0, 4), (13, 17)])
def test_timeout(calc, f, after):
    """The reset itself is the module's; from f0 the next ACK has F = 4, and not 14 or more."""
    assert start(calc, PAPER, 1, [1], f=f)[0][1] == after


def test_below_the_last_threshold_again(calc):
    """F is 1 above it, and goes on from 1 when the window has fallen meanwhile."""
    cwnd, f, *_ = start(calc, PAPER, 6, [6])[0]
    assert (cwnd, f) == (45, 1)
    assert start(calc, PAPER, 25, [1], f=f)[0][:2] == [28, 3]


@pytest.mark.parametrize("function, expected", [
    (model.reno, [6, 12, 24, 48, 96]),
    (model.Const(2), [6, 18, 54, 162]),
    (model.Const(4), [6, 30, 150, 750]),
    (model.Linear(20), [6, 22, 44, 88]),
    (model.Linear(50), [6, 27, 75, 150]),
    (PAPER, [6, 45, 90, 180]),
])
@pytest.mark.parametrize("merged", [False, True])
def test_rounds(calc, function, expected, merged):
    """The window after each whole window of ACKs, one by one or all in one."""
    seen, f = [expected[0]], 0
    while len(seen) < len(expected):
        acks = [seen[-1]] if merged else [1] * seen[-1]
        cwnd, f, *_ = start(calc, function, seen[-1], acks, f)[-1]
        seen.append(cwnd)
    assert seen == expected


@pytest.mark.parametrize("function, cwnd, expected", [
    (model.Mtsi((20,), (0,)), 6, [7, 8, 9]),                        # F = 0 would stand still
    (model.Mtsi((10, 20, 40), (0, 3, 0)), 8, [9, 10, 14, 21, 28, 35, 42, 43]),
])
def test_zones_of_k_0(calc, function, cwnd, expected):
    assert [row[0] for row in start(calc, function, cwnd, [1] * len(expected))] == expected
    assert start(calc, function, cwnd, [len(expected)])[0][0] == expected[-1]


def test_f_is_at_most_1024(calc):
    far = model.Mtsi((1_000_000,), (400,))
    assert [row[1] for row in start(calc, far, 1, [1] * 5)] == [400, 800, 1024, 1024, 1024]
    assert start(calc, far, 1, [5])[0][0] == 1 + 400 + 800 + 3 * 1024


@given(cwnd=st.integers(1, 2 ** 31 - 2), room=st.integers(1, 2 ** 31), f=st.integers(1, 1024),
       acks=st.integers(1, 2 ** 30))
def test_add(calc, cwnd, room, f, acks):
    end = min(cwnd + room, INFINITE)
    needed = -((cwnd - end) // f)
    taken = min(needed, acks)
    assert calc("add", cwnd, end, f, acks) == [cwnd + taken * f, taken]


@given(f=st.integers(0, 1024), k=st.integers(1, 1024), steps=st.integers(1, 1024),
       rest=st.integers(0, 2048))
def test_steps(calc, f, k, steps, rest):
    """So many steps come to the room and one less does not."""
    def sum_of(count):
        return count * f + k * count * (count + 1) // 2
    room = sum_of(steps) - rest % (f + k * steps)
    assert calc("steps", f, k, room) == [steps]
    assert sum_of(steps - 1) < room <= sum_of(steps)


windows = st.one_of(st.integers(1, 100), st.integers(1, 2 ** 20))
targets = st.one_of(st.integers(1, 200), st.integers(1, 2 ** 20), st.just(INFINITE))
ackeds = st.one_of(st.integers(1, 20), st.integers(1, 2 ** 16))
fs = st.one_of(st.integers(0, 20), st.integers(0, 1024))


@st.composite
def mtsi_functions(draw):
    steps = draw(st.lists(st.one_of(st.integers(1, 30), st.integers(1, 2 ** 17)),
                          min_size=1, max_size=8))
    ks = draw(st.lists(st.one_of(st.integers(0, 5), st.integers(0, 1024)),
                       min_size=len(steps), max_size=len(steps)))
    return model.Mtsi(tuple(sum(steps[:n + 1]) for n in range(len(steps))), tuple(ks))


functions = st.one_of(
    mtsi_functions(), st.just(PAPER), st.integers(1, 1024).map(model.Const),
    st.one_of(st.integers(1, 100), st.integers(1, 2 ** 20)).map(model.Linear), st.just(model.reno))


@given(function=functions, cwnd=windows, target=targets, f=fs, acked=ackeds)
def test_any_ack_is_exact(calc, function, cwnd, target, f, acked):
    window, last, _, used = model.start(function, cwnd, f, acked, target)
    assert start(calc, function, cwnd, [acked], f, target) == [[window, last, acked - used]]


@given(function=functions, cwnd=st.integers(1, 60), target=targets, f=st.integers(0, 30),
       acks=st.lists(st.integers(1, 30), min_size=1, max_size=20))
def test_merged_acks_are_as_many_single_ones(calc, function, cwnd, target, f, acks):
    """However the same segments are acknowledged, the window and F are the same."""
    one_by_one = start(calc, function, cwnd, [1] * sum(acks), f, target)
    as_they_are = start(calc, function, cwnd, acks, f, target)
    assert as_they_are[-1][:2] == one_by_one[-1][:2]
    assert sum(row[2] for row in as_they_are) == sum(row[2] for row in one_by_one)


def test_one_ack_for_n_is_n_acks_for_one(calc):
    """From every window to 60 and with every ACK to 100 segments."""
    for cwnd in range(1, 61):
        one_by_one = start(calc, PAPER, cwnd, [1] * 100)
        for acked in range(1, 101):
            assert start(calc, PAPER, cwnd, [acked])[0][:2] == one_by_one[acked - 1][:2]


@given(function=functions, cwnd=st.integers(1, 2 ** 31 - 1), target=st.integers(1, 2 ** 31 - 1),
       f=st.integers(0, 1024), acked=st.integers(1, 2 ** 30))
def test_beyond_any_real_ack(calc, function, cwnd, target, f, acked):
    """No overflow, and never beyond ssthresh."""
    (window, last, left), = start(calc, function, cwnd, [acked], f, target)
    assert left <= acked
    assert min(cwnd, target) <= window <= max(cwnd, target)
    assert last <= 1024
    assert left == 0 or window >= target


@given(function=functions, cwnd=windows, f=fs, acks=st.lists(ackeds, min_size=1, max_size=10))
def test_the_window_never_stands_still(calc, function, cwnd, f, acks):
    for row, acked in zip(start(calc, function, cwnd, acks, f), acks):
        assert row[0] >= min(cwnd + acked, INFINITE)
        cwnd = row[0]
