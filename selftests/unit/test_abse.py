# SPDX-License-Identifier: GPL-2.0
"""Adaptive Bandwidth Share Estimation: westwood_abse/abse.h.

Held against the equations in fractions, as the head of abse.h and the paper have them:
one step at a time from what the code says went before, within the errors it documents;
and whole streams of ACKs from nothing but their times, the model deciding for itself.
"""

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

Q8 = 1 << 8
Q16 = 1 << 16
Q20 = 1 << 20
RATE_MAX = (1 << 32) - 1
PKTS_MAX = 1 << 24
RTT_MAX = 1 << 24
N = 10
NONE, START, BLIND, TRAIN, SAMPLE = range(5)
FIELDS = "outcome bse th s u u_max u_max_prior u_count next train".split()
ACK = "now delivered cwnd srtt min_rtt gap re slow".split()

rtts = st.one_of(st.integers(1, 10 ** 7), st.integers(500_000, 700_000))
windows = st.integers(1, 2 ** 20)
rates = st.integers(0, RATE_MAX)


@pytest.fixture(scope="session")
def calc(calculator):
    return calculator("abse_calc")


def run(calc, acks):
    """What became of each ACK (see ACK), and the state after it, as dicts; None stops the clock."""
    words = calc("run", *[word for ack in acks for word in (ack if ack else (0,))])
    rows = [dict(zip(ACK, ack)) for ack in acks if ack]
    assert len(words) == len(rows) * len(FIELDS)
    for number, row in enumerate(rows):
        row.update(zip(FIELDS, words[number * len(FIELDS):]))
    return rows


# -- single equations ---------------------------------------------------------

ALPHA = [
    # RTT ms, dt ms, U/Umax, tau s, alpha in Q16 rounded down
    (600, 10, 0, 0.6, 64452), (600, 600, 0, 0.6, 21845), (100, 10, 0, 0.1, 59294),
    (100, 300, 0, 0.1, 0), (600, 10, 1, 6.6, 65436), (600, 600, 1, 6.6, 59837),
    (100, 300, 1, 1.1, 49807), (600, 10, Fraction(1, 2), 3.6, 65354)]


@pytest.mark.parametrize("rtt_ms, dt_ms, part, tau_s, alpha_q16", ALPHA)
def test_alpha_table(calc, rtt_ms, dt_ms, part, tau_s, alpha_q16):
    u_max = 1000 * Q8
    [tau] = calc("tau", int(part * u_max), u_max, rtt_ms * 1000)
    assert tau == round(tau_s * 1e6)
    [alpha] = calc("alpha", tau, dt_ms * 1000)
    assert alpha >> 4 == alpha_q16


@given(tau=st.integers(1, 11 * RTT_MAX), dt=st.integers(0, 2 ** 40))
def test_alpha_is_exact(calc, tau, dt):
    exact = max(Fraction(2 * tau - dt, 2 * tau + dt), Fraction(0))
    [alpha] = calc("alpha", tau, dt)
    assert alpha == floor(exact * Q20)


@given(u=rates, u_max=rates, rtt=st.integers(1, RTT_MAX))
def test_tau_is_within_its_error(calc, u, u_max, rtt):
    u = min(u, u_max)
    exact = rtt + (N * rtt * Fraction(u, u_max) if u_max else 0)
    [tau] = calc("tau", u, u_max, rtt)
    assert 0 <= exact - tau < 1 + Fraction(N * rtt, Q16)
    assert rtt <= tau <= (1 + N) * rtt


@given(bse=rates, s=rates, alpha=st.integers(0, Q20))
def test_filter_rounds_to_nearest_and_stays_between(calc, bse, s, alpha):
    exact = Fraction(alpha * bse + (Q20 - alpha) * s, Q20)
    [new] = calc("filter", bse, s, alpha)
    assert abs(new - exact) <= Fraction(1, 2)
    assert min(bse, s) <= new <= max(bse, s)


@given(pkts=st.integers(0, 2 ** 32 - 1), us=st.integers(1, 2 ** 32 - 1))
def test_rate(calc, pkts, us):
    assert calc("rate", pkts, us) == [
        min(floor(Fraction(min(pkts, PKTS_MAX) * 10 ** 6, us) * Q8), RATE_MAX)]


@given(th=rates, cwnd=st.one_of(windows, st.integers(1, 2 ** 31 - 1)), rtt=st.integers(1, RTT_MAX),
       min_rtt=st.one_of(rtts, st.integers(0, 2 ** 32 - 1)))
def test_interval_is_within_its_error(calc, th, cwnd, rtt, min_rtt):
    through = Fraction(th, Q8) * Fraction(min(min_rtt, RTT_MAX), 10 ** 6)
    exact = rtt * (cwnd - through) / cwnd
    t_min = max(rtt // 8, 1000)
    [interval] = calc("interval", th, cwnd, rtt, min_rtt)
    assert interval >= t_min
    assert max(exact, t_min) - 1 <= interval <= max(exact + Fraction(rtt, Q8 * cwnd), t_min)


@given(bse=rates, min_rtt=rtts)
def test_window_is_within_its_error(calc, bse, min_rtt):
    exact = Fraction(bse, Q8) * Fraction(min_rtt, 10 ** 6)
    [window] = calc("window", bse, min_rtt)
    if not bse:
        assert window == 0
        return
    assert window >= 2
    assert abs(window - max(exact, 2)) <= Fraction(1, 2)


def test_window_needs_both(calc):
    assert calc("window", 0, 100_000) == [0]
    assert calc("window", 100 * Q8, 0) == [0]
    assert calc("window", RATE_MAX, 2 ** 32 - 1) == [round(Fraction(RATE_MAX * RTT_MAX, Q8 * 10 ** 6))]


# -- whole runs, step by step -------------------------------------------------

def rate(pkts, us):
    return min(Fraction(min(pkts, PKTS_MAX) * 10 ** 6, us), Fraction(RATE_MAX, Q8))


class Steps:
    """The rules of abse.h, fed with what the code said went before."""

    def __init__(self):
        self.last = dict.fromkeys(FIELDS, 0)        # as the code has it
        self.instabilities = []
        self.point = None
        self.train, self.acks = False, 0

    def stop(self):
        self.point = None

    def rtt(self, row):
        return min(max(row["srtt"], 1), RTT_MAX)

    def t_min(self, row):
        return max(self.rtt(row) // 8, 1000)

    def bunched(self, row, dt):
        return row["gap"] * self.acks > 4 * dt or 4 * row["gap"] * self.acks < dt

    def outcome(self, row):
        """What this ACK is to be."""
        if not self.point:
            return START
        dt, rtt, bse = row["now"] - self.point[0], self.rtt(row), self.last["bse"]
        if row["delivered"] == self.point[1]:
            return NONE
        if not bse and dt >= rtt // 2:
            return BLIND
        if self.train and (not bse or dt < self.t_min(row)):
            self.acks = min(self.acks + 1, 255)
            if self.acks < 3 or dt < max(min(100, rtt // 8), 1):
                return NONE
            if not self.bunched(row, dt):
                return TRAIN
            self.train = False
            return NONE if bse else BLIND
        return SAMPLE if bse and dt >= self.last["next"] else NONE

    def take(self, row):
        """Check one row and remember what the code made of it."""
        expected = self.outcome(row)
        assert row["outcome"] == expected, (row, self.point)
        last, self.last = self.last, row
        if expected == NONE:
            assert [row[name] for name in FIELDS[1:-1]] == [last[name] for name in FIELDS[1:-1]]
            return
        if expected == TRAIN:
            new = rate((row["delivered"] - self.point[1]) % 2 ** 32, row["now"] - self.point[0])
            for name in ("s", "th", "bse"):
                assert 0 <= new * Q8 - row[name] < 1
            assert row["next"] == last["next"]
            return
        if expected == START:
            self.train, self.acks = not last["bse"], 0
            for name in ("th", "s", "bse"):
                assert row[name] == last[name]
        elif expected == BLIND:
            self.train = False
            assert [row[name] for name in ("th", "s", "bse")] == 3 * [row["re"]]
        else:
            self.sample(row, last)
        if expected != SAMPLE:
            assert row["next"] == self.t_min(row)
        assert row["train"] == self.train
        self.point = row["now"], row["delivered"]

    def sample(self, row, last):
        """s, Th, U, U_max, BSE and the next T."""
        self.train = False
        dt, rtt = row["now"] - self.point[0], self.rtt(row)
        s = rate((row["delivered"] - self.point[1]) % 2 ** 32, min(dt, 2 ** 32 - 1))
        assert 0 <= s * Q8 - row["s"] < 1
        assert abs(Fraction(3 * last["th"] + 2 * row["re"], 5) - row["th"]) < 1
        assert abs(Fraction(3 * last["u"] + 2 * abs(row["s"] - last["s"]), 5) - row["u"]) < 1
        self.instabilities.append(row["u"])
        count = len(self.instabilities)
        five = count // 5 * 5
        assert row["u_count"] == count % 5
        assert row["u_max"] == max([0, *self.instabilities[five:]])
        assert row["u_max_prior"] == max([0, *self.instabilities[max(five - 5, 0):five]])
        # What counts for this sample: those since the last multiple of five, and the five before.
        start = (count - 1) // 5 * 5
        u_max = max(self.instabilities[max(start - 5, 0):])
        assert count < 10 or 6 <= count - max(start - 5, 0) <= 10
        self.filter(row, last, dt, rtt, u_max)
        through = Fraction(row["th"], Q8) * Fraction(min(row["min_rtt"], RTT_MAX), 10 ** 6)
        exact = rtt * (row["cwnd"] - through) / row["cwnd"]
        assert max(exact, self.t_min(row)) - 1 <= row["next"] <= \
            max(exact + Fraction(rtt, Q8 * row["cwnd"]), self.t_min(row))

    def filter(self, row, last, dt, rtt, u_max):
        """tau as the equation has it and as far below as fixed point may be: BSE is in between."""
        part = 1 if row["slow"] else Fraction(row["u"], u_max) if u_max else 0
        most = rtt * (1 + N * part)
        least = most if row["slow"] else most - 1 - Fraction(N * rtt, Q16)
        values = []
        for tau in (least, most):
            alpha = max((2 * tau - dt) / (2 * tau + dt), Fraction(0))
            values.append(alpha * last["bse"] + (1 - alpha) * row["s"])
        error = Fraction(1, 2) + Fraction(abs(row["s"] - last["bse"]), Q20)
        assert min(values) - error <= row["bse"] <= max(values) + error
        assert min(last["bse"], row["s"]) <= row["bse"] <= max(last["bse"], row["s"])


def check_steps(acks, rows):
    steps = Steps()
    rows = iter(rows)
    for ack in acks:
        if ack is None:
            steps.stop()
        else:
            steps.take(next(rows))


@st.composite
def streams(draw):
    """ACKs of a flow of ranges to support: quiet times, bursts, RTT that moves, stops."""
    rtt = draw(rtts)
    now = draw(st.one_of(st.integers(1, 2 ** 50), st.just(2 ** 32 - 1000)))
    delivered = draw(st.one_of(st.integers(0, 1000), st.just(2 ** 32 - 20)))
    cwnd = draw(windows)
    acks = []
    for _ in range(draw(st.integers(2, 120))):
        gap = draw(st.one_of(st.integers(0, 200), st.integers(0, rtt), st.integers(0, 4 * rtt),
                             st.just(rtt // max(cwnd, 1))))
        now += gap
        delivered = (delivered + draw(st.one_of(st.integers(0, 4), st.integers(0, 2 ** 16)))) % 2 ** 32
        srtt = draw(st.one_of(st.just(rtt), st.integers(rtt, 3 * rtt)))
        acks.append((now, delivered, draw(st.one_of(st.just(cwnd), windows)), srtt, rtt,
                     min(gap, RTT_MAX),
                     draw(st.one_of(rates, st.integers(0, 10 ** 5))), draw(st.sampled_from([0, 0, 1]))))
        if draw(st.integers(0, 30)) == 0:
            acks.append(None)
    return acks


def estimates_are_between_the_samples(rows):
    samples = []
    for row in rows:
        if row["outcome"] in (BLIND, TRAIN, SAMPLE):
            samples.append(row["s"])
            assert min(samples) <= row["bse"] <= max(samples)


@settings(max_examples=100)
@given(acks=streams())
def test_every_step_follows_the_equations(calc, acks):
    rows = run(calc, acks)
    check_steps(acks, rows)
    estimates_are_between_the_samples(rows)


# -- whole runs, from their times alone ---------------------------------------

class Model:
    """ABSE in fractions, seconds and segments; its own decisions throughout."""

    def __init__(self):
        self.points = []
        self.bse = self.th = self.s = self.u = Fraction(0)
        self.instabilities = []
        self.train = True
        self.acks = 0

    def ack(self, t, delivered, cwnd, rtt, min_rtt, gap, re):
        t_min = max(rtt / 8, Fraction(1, 1000))
        if not self.points:
            self.points = [(t, delivered)]
            self.interval = t_min
            return
        last, before = self.points[-1]
        dt = t - last
        if self.train and dt < (t_min if self.bse else rtt / 2):
            self.acks += 1
            mean = dt / self.acks
            if self.acks >= 3 and dt >= min(Fraction(1, 10000), rtt / 8) and mean / 4 <= gap <= 4 * mean:
                self.bse = self.th = self.s = (delivered - before) / dt
            return
        if not self.bse:
            self.bse = self.th = self.s = re
            self.points, self.interval, self.train = [(t, delivered)], t_min, False
            return
        if dt < self.interval:
            return
        self.train = False
        s = (delivered - before) / dt
        self.th = (3 * self.th + 2 * re) / 5
        self.u = (3 * self.u + 2 * abs(s - self.s)) / 5
        self.s = s
        self.instabilities.append(self.u)
        u_max = max(self.instabilities[max((len(self.instabilities) - 1) // 5 * 5 - 5, 0):])
        tau = rtt * (1 + N * (self.u / u_max if u_max else 0))
        alpha = max((2 * tau - dt) / (2 * tau + dt), Fraction(0))
        # Held to a precision far beyond the code's, or the fractions grow without end.
        self.bse = (alpha * self.bse + (1 - alpha) * s).limit_denominator(10 ** 15)
        self.u, self.th = (x.limit_denominator(10 ** 15) for x in (self.u, self.th))
        self.interval = max(rtt * (cwnd - self.th * min_rtt) / cwnd, t_min)
        self.points.append((t, delivered))


def with_rate(stream):
    """(t ms, segments, cwnd, rtt ms, min_rtt ms) as ACKs: their gaps, and RE the rate over the round
    trip before each, as the core's rate sample has it, to whole ACKs."""
    acks, seen, delivered = [], [], 0
    for t, pkts, cwnd, rtt, min_rtt in stream:
        t = Fraction(t)
        delivered += pkts
        since = next(((at, count) for at, count in reversed(seen) if t - at >= rtt), None)
        re = (delivered - since[1]) / (t - since[0]) * 1000 if since else Fraction(0)
        acks.append((t, delivered, cwnd, rtt, min_rtt, t - seen[-1][0] if seen else 0, re))
        seen.append((t, delivered))
    return acks


def play(calc, stream):
    """A stream through code and model; the code's rows, each with the model's `exact` BSE after it."""
    model, exact, acks = Model(), [], []
    for t, delivered, cwnd, rtt, min_rtt, gap, re in with_rate(stream):
        model.ack(t / 1000, Fraction(delivered), Fraction(cwnd), Fraction(rtt) / 1000,
                  Fraction(min_rtt) / 1000, Fraction(gap) / 1000, re)
        exact.append(model.bse)
        acks.append((10 ** 9 + int(t * 1000), delivered, cwnd, int(rtt * 1000), int(min_rtt * 1000),
                     int(gap * 1000), int(re * Q8), 0))
    rows = run(calc, acks)
    for row, bse in zip(rows, exact):
        row["exact"] = bse
        row["b"] = round(Fraction(row["bse"] * row["min_rtt"], Q8 * 10 ** 6))
    check_steps(acks, rows)
    return rows


def agree(rows, rel):
    for row in rows:
        if row["outcome"] != NONE:
            assert row["bse"] / Q8 == pytest.approx(float(row["exact"]), rel=rel, abs=0.1), row


def steady(count, gap=10, pkts=1, cwnd=10, rtt=100, min_rtt=100, start=0):
    return [(start + n * gap, pkts, cwnd, rtt, min_rtt) for n in range(count)]


@pytest.mark.parametrize("stream", [
    steady(300), steady(150, gap=20, pkts=2), steady(300, gap=Fraction(35, 10), cwnd=29)])
def test_a_steady_stream_is_its_rate(calc, stream):
    """A, D: from the fourth ACK s = BSE = the rate, whatever the ACKs cover."""
    rows = play(calc, stream)
    exact = stream[0][1] * 1000 / stream[1][0]
    for row in rows[3:]:
        if row["outcome"] in (TRAIN, SAMPLE):
            assert row["bse"] / Q8 == pytest.approx(exact, rel=1e-4)
            assert row["u"] <= 1
    assert rows[-1]["b"] == round(exact / 10)


def test_stream_a_window(calc):
    """RTT_min 100 ms and 100 segments/s: 10, not 9."""
    rows = [row for row in play(calc, steady(100)) if row["outcome"] == SAMPLE]
    assert {row["b"] for row in rows} == {10}


def test_congestion_is_followed_down(calc):
    """B: 100/s, then 50/s with the RTT doubled.  T grows towards RTT; BSE falls all the way and never
    below the rate; ten round trips later it is the share."""
    stream = steady(31) + steady(60, gap=20, rtt=200, start=320)
    rows = play(calc, stream)
    after = [row for row in rows[32:] if row["outcome"] == SAMPLE]
    agree(after, 1e-2)
    estimates = [row["bse"] for row in after]
    assert estimates == sorted(estimates, reverse=True) and estimates[-1] >= 50 * Q8
    intervals = [row["next"] for row in after]
    assert intervals[0] < 40_000 and intervals[-1] > 95_000
    late = play(calc, stream + steady(200, gap=20, rtt=200, start=1520))
    assert [row for row in late if row["outcome"] == SAMPLE][-1]["b"] == 5


def compressed(seconds, rtt=100):
    """Ten ACKs in 10 ms every 100 ms: 100 segments/s."""
    return [(100 * n + i, 1, 10, rtt, rtt) for n in range(10 * seconds) for i in range(10)]


def test_compressed_acks(calc):
    """C: within 10 % of the truth after 10 s and never below half of it: a burst is in one sample with
    the silence before it."""
    rows = play(calc, compressed(12))
    estimates = [(row["now"] - 10 ** 9, row["bse"] / Q8) for row in rows if row["outcome"] == SAMPLE]
    assert all(bse >= 50 for _, bse in estimates)
    assert all(90 <= bse <= 110 for t, bse in estimates if t >= 10_000_000)


def test_the_first_flight_gives_the_paths_rate(calc):
    """E: GEO, 6 ms apart: 166.7/s, a window of 100 while cwnd is 10: how Astart opens it."""
    rows = play(calc, steady(10, gap=6, rtt=600, min_rtt=600))
    assert [row["outcome"] for row in rows] == [START, NONE, NONE] + [TRAIN] * 7
    assert {row["b"] for row in rows[3:]} == {100}
    rows = play(calc, steady(400, gap=6, cwnd=60, rtt=600, min_rtt=600))
    assert {row["b"] for row in rows if row["outcome"] == SAMPLE} == {100}


def flight(times_ms, rtt=600):
    return [(t, 1, 10, rtt, rtt) for t in times_ms]


@pytest.mark.parametrize("bunch", [
    pytest.param([0, .01, .02, .03, .04, 26.5, 26.51, 26.52, 26.53, 26.54], id="two bunches"),
    pytest.param([0, 26.5, 26.51, 26.52, 26.53, 26.54, 26.55], id="one, and the rest"),
    pytest.param([0, 5, 10], id="three ACKs")])
def test_a_flight_in_bunches_is_no_estimate(calc, bunch):
    """A return link that sends in time slots: its ACKs tell of the slots, and RE is the estimate."""
    rows = play(calc, flight(bunch) + flight([600.1]))
    assert TRAIN not in [row["outcome"] for row in rows]
    assert BLIND in [row["outcome"] for row in rows]


def test_a_late_last_ack_ends_the_flight(calc):
    """The receiver's timer holds the last ACK for 40 ms: the estimate before it stays."""
    rows = play(calc, flight([6 * n for n in range(9)] + [68]))
    assert rows[-1]["outcome"] == TRAIN     # four times of the mean apart at most: 20 ms after 48
    rows = play(calc, flight([n for n in range(9)] + [48]))
    assert rows[-1]["outcome"] == NONE and rows[-1]["train"] == 0
    assert rows[-1]["bse"] / Q8 == pytest.approx(1000, rel=1e-3)


def test_rhythm_does_not_matter(calc):
    """The mean rate, whether the ACKs of a round trip come evenly or in half of it; but for ABSE's
    own leaning: the sample after the silence differs most, so it counts less."""
    half = [(600 * n + 6 * i, 2, 100, 600, 600) for n in range(60) for i in range(50)]
    rows = play(calc, half)
    last = [row for row in rows if row["outcome"] == SAMPLE][-60:]
    assert all(0.9 < row["bse"] / Q8 / (100 / 0.6) < 1.25 for row in last)


def test_silence_counts_and_idleness_does_not(calc):
    """A second without an ACK while segments are in flight is a slow path; a second with the
    clock stopped is nothing."""
    before, after = steady(100), [(2000, 1, 10, 100, 100)] + steady(10, start=2010)
    slow = play(calc, before + after)
    assert slow[100]["outcome"] == SAMPLE and slow[100]["s"] < 2 * Q8
    assert slow[100]["bse"] < 70 * Q8
    acks = [(row["now"], row["delivered"], 10, 100_000, 100_000, row["gap"], row["re"], 0)
            for row in slow]
    idle = run(calc, [*acks[:100], None, *acks[100:]])
    assert idle[100]["outcome"] == START and idle[101]["outcome"] == NONE
    assert idle[100]["bse"] / Q8 == pytest.approx(100, rel=1e-3)


def test_one_ack_a_flight_is_a_blind_start(calc):
    """Each flight in one ACK: nothing to see its rate by but RE."""
    rows = play(calc, [(n * 100, 10, 10, 100, 100) for n in range(6)])
    assert [row["outcome"] for row in rows] == [START, BLIND] + 4 * [SAMPLE]
    assert {row["b"] for row in rows[1:]} == {10}


@pytest.mark.parametrize("rtt_us", [1, 2, 7, 50, 100, 999, 16_777_216, 2 ** 32 - 1])
def test_round_trips_of_any_length(calc, rtt_us):
    acks = [(10 ** 6 + 37 * n * n, 3 * n, 10, rtt_us, rtt_us, 37 * (2 * n - 1) if n else 0, 5000, 0)
            for n in range(400)]
    check_steps(acks, run(calc, acks))


def test_a_clock_that_runs_for_days(calc):
    """Times are of 64 bits: 71 minutes and more without an ACK must not show."""
    gap = 5 * 10 ** 9
    acks = [(10 ** 9 + n * gap, 100 * n, 100, 600_000, 600_000, RTT_MAX, Q8, 0) for n in range(50)]
    rows = run(calc, acks)
    assert all(row["outcome"] == SAMPLE for row in rows[2:])
    check_steps(acks, rows)


def test_slow_holds_on_to_the_first_flight(calc):
    """10 segments 6 ms apart, then the silence of the rest of the round trip: tau is 11 RTT, alpha
    (2 tau - dt) / (2 tau + dt), and a round trip takes less than a tenth of the estimate."""
    acks = [(10 ** 9 + 600_000 * trip + 6000 * n, 10 * trip + n, 10, 600_000, 600_000,
             6000 if n else 546_000, 16 * Q8, 1) for trip in range(6) for n in range(10)]
    rows = run(calc, acks)
    taken = [n for n, row in enumerate(rows) if row["outcome"] == SAMPLE]
    assert len(taken) == 5
    for n in taken:
        assert rows[n]["bse"] >= 0.9 * rows[n - 1]["bse"]
    fast = run(calc, [(*ack[:-1], 0) for ack in acks])
    assert fast[-1]["bse"] < rows[-1]["bse"]
