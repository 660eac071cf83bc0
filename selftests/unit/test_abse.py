# SPDX-License-Identifier: GPL-2.0
"""Adaptive Bandwidth Share Estimation: westwood_abse/abse.h.

Held against the equations in fractions, as the head of abse.h and the paper have them:
one step at a time from what the code says went before, within the errors it documents;
and whole streams of ACKs from nothing but their times, the model deciding for itself.
"""

from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

Q16 = 1 << 16
Q20 = 1 << 20
RATE_MAX = (1 << 43) - 1
RTT_MAX = 1 << 24
NONE, START, BLIND, TRAIN, SAMPLE, COARSE = range(6)
FIELDS = ("dt pkts age rtt interval next re_pkts re_window th_old th s_old s u_old u u_max "
          "tau alpha bse_old bse re b").split()

rtts = st.one_of(st.integers(1, 10 ** 7), st.integers(500_000, 700_000))
windows = st.integers(1, 2 ** 20)
rates = st.integers(0, RATE_MAX)


@pytest.fixture(scope="session")
def calc(calculator):
    return calculator("abse_calc")


def run(calc, acks, tau_n=10, t_min_div=8, history=1, astart=0):
    """What became of each ACK (now us, delivered, cwnd, rtt us, min_rtt us): dicts, with
    `outcome`; None in acks stops the clock."""
    words = calc("run", tau_n, t_min_div, history, astart, *[
        word for ack in acks for word in (ack if ack else (0,))])
    rows, at = [], 0
    for ack in filter(None, acks):
        row = dict(zip(("now", "delivered", "cwnd", "srtt", "min_rtt"), ack), outcome=words[at])
        at += 1
        if row["outcome"] != NONE:
            row.update(zip(FIELDS, words[at:at + len(FIELDS)]))
            at += len(FIELDS)
        rows.append(row)
    assert at == len(words)
    return rows


# -- single equations ---------------------------------------------------------

ALPHA = [
    # RTT ms, dt ms, U/Umax, tau s, alpha in Q16 rounded down
    (600, 10, 0, 0.6, 64452), (600, 600, 0, 0.6, 21845), (100, 10, 0, 0.1, 59294),
    (100, 300, 0, 0.1, 0), (600, 10, 1, 6.6, 65436), (600, 600, 1, 6.6, 59837),
    (100, 300, 1, 1.1, 49807), (600, 10, Fraction(1, 2), 3.6, 65354)]


@pytest.mark.parametrize("rtt_ms, dt_ms, part, tau_s, alpha_q16", ALPHA)
def test_alpha_table(calc, rtt_ms, dt_ms, part, tau_s, alpha_q16):
    u_max = 1000 * Q16
    [tau] = calc("tau", int(part * u_max), u_max, rtt_ms * 1000, 10)
    assert tau == round(tau_s * 1e6)
    [alpha] = calc("alpha", tau, dt_ms * 1000)
    assert alpha >> 4 == alpha_q16


@given(tau=st.integers(1, 51 * RTT_MAX), dt=st.integers(0, 2 ** 32 - 1))
def test_alpha_is_exact(calc, tau, dt):
    exact = max(Fraction(2 * tau - dt, 2 * tau + dt), Fraction(0))
    [alpha] = calc("alpha", tau, dt)
    assert alpha == floor(exact * Q20)


@given(u=rates, u_max=rates, rtt=st.integers(1, RTT_MAX), n=st.integers(0, 50))
def test_tau_is_within_its_error(calc, u, u_max, rtt, n):
    u = min(u, u_max)
    exact = rtt + (n * rtt * Fraction(u, u_max) if u_max else 0)
    [tau] = calc("tau", u, u_max, rtt, n)
    assert 0 <= exact - tau < 1 + Fraction(n * rtt, Q16)
    assert rtt <= tau <= (1 + n) * rtt


@given(bse=rates, s=rates, alpha=st.integers(0, Q20))
def test_filter_rounds_to_nearest_and_stays_between(calc, bse, s, alpha):
    exact = Fraction(alpha * bse + (Q20 - alpha) * s, Q20)
    [new] = calc("filter", bse, s, alpha)
    assert abs(new - exact) <= Fraction(1, 2)
    assert min(bse, s) <= new <= max(bse, s)


@given(pkts=st.integers(0, 2 ** 32 - 1), us=st.integers(1, 2 ** 32 - 1))
def test_rate(calc, pkts, us):
    assert calc("rate", pkts, us) == [
        min(floor(Fraction(min(pkts, 2 ** 27) * 10 ** 6, us) * Q16), RATE_MAX)]


@given(th=rates, cwnd=st.one_of(windows, st.integers(1, 2 ** 31 - 1)), rtt=st.integers(1, RTT_MAX),
       min_rtt=st.one_of(rtts, st.integers(0, 2 ** 32 - 1)), t_min=st.integers(1000, RTT_MAX))
def test_interval_is_within_its_error(calc, th, cwnd, rtt, min_rtt, t_min):
    min_rtt = min(min_rtt, RTT_MAX)
    through = Fraction(th, Q16) * Fraction(min_rtt, 10 ** 6)
    exact = rtt * (cwnd - through) / cwnd
    error = Fraction(min_rtt, 256 * 10 ** 6) + Fraction(1, 256)
    [interval] = calc("interval", th, cwnd, rtt, min_rtt, t_min)
    assert interval >= t_min
    assert max(exact, t_min) - 1 <= interval <= max(exact + rtt * error / cwnd, t_min)


@given(bse=rates, min_rtt=rtts)
def test_window_is_within_its_error(calc, bse, min_rtt):
    exact = Fraction(bse, Q16) * Fraction(min_rtt, 10 ** 6)
    [window] = calc("window", bse, min_rtt)
    if not bse:
        assert window == 0
        return
    assert window >= 2
    error = Fraction(1, 2) + Fraction(min_rtt, 256 * 10 ** 6)
    assert abs(window - min(max(exact, 2), 2 ** 31 - 1)) <= error


def test_window_needs_both(calc):
    assert calc("window", 0, 100_000) == [0]
    assert calc("window", 100 * Q16, 0) == [0]
    assert calc("window", RATE_MAX, 2 ** 32 - 1) == [2 ** 31 - 1]


# -- whole runs, step by step -------------------------------------------------

def rate(pkts, us):
    return min(Fraction(min(pkts, 2 ** 27) * 10 ** 6, us), Fraction(RATE_MAX, Q16))


class Steps:
    """The rules of abse.h, fed with what the code said went before."""

    def __init__(self, tau_n=10, t_min_div=8, history=1, astart=0):
        self.tau_n, self.t_min_div, self.history, self.astart = tau_n, t_min_div, history, astart
        self.bse = self.th = self.s = self.u = self.re = 0      # as the code has them, Q16
        self.instabilities = []
        self.points = []
        self.train = False
        self.next = 0

    def stop(self):
        self.points = []

    def outcome(self, row):
        """What this ACK is to be."""
        if not self.points:
            return START
        (start, _), (last, pkts) = self.points[0], self.points[-1]
        age, dt, rtt = row["now"] - start, row["now"] - last, self.rtt(row)
        if row["delivered"] == pkts:
            return NONE
        if not self.bse and age >= rtt // 2:
            return BLIND
        if self.train and (not self.bse or age < self.t_min(rtt)):
            return TRAIN if age >= max(min(100, rtt // 8), 1) else NONE
        if age < self.t_min(rtt) or dt < self.next:
            return NONE
        return SAMPLE if self.history else COARSE

    def rtt(self, row):
        return min(max(row["srtt"], 1), RTT_MAX)

    def t_min(self, rtt):
        return max(rtt // self.t_min_div, 1000)

    def take(self, row):
        """Check one row and remember what the code made of it."""
        expected = self.outcome(row)
        assert row["outcome"] == expected, (row, self.points[-1:])
        if expected == NONE:
            return
        assert (row["th_old"], row["s_old"], row["bse_old"]) == (self.th, self.s, self.bse)
        rtt = self.rtt(row)
        assert row["rtt"] == rtt
        if expected in (START, BLIND):
            self.start(row)
        else:
            (start, start_pkts), (last, pkts) = self.points[0], self.points[-1]
            assert (row["dt"], row["age"]) == (row["now"] - last, row["now"] - start)
            assert row["pkts"] == (row["delivered"] - pkts) % 2 ** 32
            assert row["interval"] == self.next
            if expected == TRAIN:
                new = rate((row["delivered"] - start_pkts) % 2 ** 32, row["age"])
                for name in ("s", "re", "th", "bse"):
                    assert 0 <= new * Q16 - row[name] < 1
                assert row["next"] == self.t_min(rtt)
            else:
                self.estimate(row, rtt)
        self.points.append((row["now"], row["delivered"]))
        self.th, self.s, self.bse = (row[name] for name in ("th", "s", "bse"))
        most = Fraction(max(row["bse"], row["re"]) * min(row["min_rtt"], RTT_MAX), Q16 * 10 ** 6)
        error = Fraction(1, 2) + Fraction(min(row["min_rtt"], RTT_MAX), 256 * 10 ** 6)
        if row["bse"]:
            assert abs(row["b"] - min(max(most, 2), 2 ** 31 - 1)) <= error
        self.next = row["next"]

    def start(self, row):
        assert [row[name] for name in ("th", "s", "re", "bse")] == [self.th, self.s, 0, self.bse]
        assert row["next"] == self.t_min(self.rtt(row))
        self.train = not self.bse
        self.points = []

    def estimate(self, row, rtt):
        self.train = False
        s = rate(row["pkts"], row["dt"])
        assert 0 <= s * Q16 - row["s"] < 1
        if self.history:
            self.observe(row, rtt)
        else:
            assert (row["re"], row["th"]) == (row["s"], self.th)
            assert row["tau"] == (rtt * (1 + self.tau_n) if self.astart else rtt)
            assert row["next"] == max(rtt, 1000)
        alpha = max(Fraction(2 * row["tau"] - row["dt"], 2 * row["tau"] + row["dt"]), Fraction(0))
        assert 0 <= alpha - Fraction(row["alpha"], Q20) < Fraction(1, Q20)
        bse = alpha * Fraction(self.bse, Q16) + (1 - alpha) * Fraction(row["s"], Q16)
        error = Fraction(1, 2 * Q16) + Fraction(abs(row["s"] - self.bse), Q16 * Q20)
        assert abs(bse - Fraction(row["bse"], Q16)) <= error
        assert min(self.bse, row["s"]) <= row["bse"] <= max(self.bse, row["s"])

    def observe(self, row, rtt):
        kept = self.points[-64:]
        window = next((point for point in reversed(kept) if row["now"] - point[0] >= rtt), kept[0])
        assert row["re_window"] == row["now"] - window[0]
        assert row["re_pkts"] == (row["delivered"] - window[1]) % 2 ** 32
        assert 0 <= rate(row["re_pkts"], row["re_window"]) * Q16 - row["re"] < 1
        th = Fraction(3, 5) * self.th + Fraction(2, 5) * row["re"]
        assert abs(th - row["th"]) < 1
        assert row["u_old"] == self.u
        u = Fraction(3, 5) * self.u + Fraction(2, 5) * abs(row["s"] - self.s)
        assert abs(u - row["u"]) < 1
        self.u = row["u"]
        self.instabilities = [*self.instabilities, row["u"]][-10:]
        assert row["u_max"] == max(self.instabilities)
        part = 1 if self.astart else Fraction(row["u"], row["u_max"]) if row["u_max"] else 0
        tau = rtt * (1 + self.tau_n * part)
        assert 0 <= tau - row["tau"] < 1 + Fraction(self.tau_n * rtt, Q16)
        through = Fraction(row["th"], Q16) * Fraction(min(row["min_rtt"], RTT_MAX), 10 ** 6)
        exact = rtt * (row["cwnd"] - through) / row["cwnd"]
        error = rtt * (Fraction(min(row["min_rtt"], RTT_MAX), 256 * 10 ** 6) + Fraction(1, 256))
        t_min = self.t_min(rtt)
        assert max(exact, t_min) - 1 <= row["next"] <= max(exact + error / row["cwnd"], t_min)


def check_steps(acks, rows, **parameters):
    steps = Steps(**parameters)
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
        acks.append((now, delivered, draw(st.one_of(st.just(cwnd), windows)), srtt, rtt))
        if draw(st.integers(0, 30)) == 0:
            acks.append(None)
    return acks


@given(acks=streams(), tau_n=st.integers(0, 50), t_min_div=st.integers(1, 32),
       history=st.sampled_from([1, 1, 0]), astart=st.sampled_from([0, 0, 1]))
def test_every_step_follows_the_equations(calc, acks, tau_n, t_min_div, history, astart):
    how = dict(tau_n=tau_n, t_min_div=t_min_div, history=history, astart=astart)
    check_steps(acks, run(calc, acks, **how), **how)


@given(acks=streams())
def test_estimate_is_between_the_samples(calc, acks):
    """And the window at least two, once there is one."""
    seen = []
    for row in run(calc, acks):
        if row["outcome"] in (TRAIN, SAMPLE):
            seen.append(row["s"])
            assert min(seen) <= row["bse"] <= max(seen)
            assert row["b"] >= 2 or not row["bse"]


@given(rtt=rtts, cwnd=windows)
def test_more_points_than_the_ring_holds(calc, rtt, cwnd):
    """The round trip grows so that more than 64 points fit in: the oldest kept is taken."""
    gap = max(rtt // 32, 1000)
    acks = [(10 ** 9 + n * gap, 7 * n, 1, rtt, rtt) for n in range(70)]
    acks += [(10 ** 9 + n * gap, 7 * n, cwnd, 5 * 10 ** 6, rtt) for n in range(70, 200)]
    rows = run(calc, acks, t_min_div=32)
    check_steps(acks, rows, t_min_div=32)


# -- whole runs, from their times alone ---------------------------------------

class Model:
    """ABSE in fractions, seconds and segments; its own decisions throughout."""

    def __init__(self, t_min_div=8, tau_n=10):
        self.t_min_div, self.tau_n = Fraction(t_min_div), tau_n
        self.points = []
        self.bse = self.th = self.s = self.u = Fraction(0)
        self.instabilities = []
        self.train = True
        self.samples = 0

    def ack(self, t, delivered, cwnd, rtt, min_rtt):
        t_min = max(rtt / self.t_min_div, Fraction(1, 1000))
        if not self.points or (not self.bse and t - self.points[0][0] >= rtt / 2):
            self.points = [(t, delivered)]
            self.interval = t_min
            return
        (start, first), (last, before) = self.points[0], self.points[-1]
        if self.train and (not self.bse or t - start < t_min):
            if t - start >= min(Fraction(1, 10000), rtt / 8):
                self.bse = self.th = self.s = (delivered - first) / (t - start)
                self.points.append((t, delivered))
                self.interval = t_min
            return
        if t - start < t_min or t - last < self.interval:
            return
        self.train = False
        self.samples += 1
        dt = t - last
        s = (delivered - before) / dt
        back = next((p for p in reversed(self.points) if t - p[0] >= rtt), self.points[0])
        self.th = (3 * self.th + 2 * (delivered - back[1]) / (t - back[0])) / 5
        self.u = (3 * self.u + 2 * abs(s - self.s)) / 5
        self.s = s
        self.instabilities = [*self.instabilities, self.u][-10:]
        u_max = max(self.instabilities)
        tau = rtt * (1 + self.tau_n * (self.u / u_max if u_max else 0))
        alpha = max((2 * tau - dt) / (2 * tau + dt), Fraction(0))
        # Held to a precision far beyond the code's, or the fractions grow without end.
        self.bse = (alpha * self.bse + (1 - alpha) * s).limit_denominator(10 ** 15)
        self.u, self.th = (x.limit_denominator(10 ** 15) for x in (self.u, self.th))
        self.interval = max(rtt * (cwnd - self.th * min_rtt) / cwnd, t_min)
        self.points.append((t, delivered))


def play(calc, stream, **parameters):
    """A stream of (t ms, segments, cwnd, rtt ms, min_rtt ms) through code and model; the code's
    rows, each with the model's `exact` BSE after it."""
    delivered, acks, model, rows = 0, [], Model(**parameters), []
    exact = []
    for t, pkts, cwnd, rtt, min_rtt in stream:
        delivered += pkts
        acks.append((10 ** 9 + int(t * 1000), delivered, cwnd, int(rtt * 1000), int(min_rtt * 1000)))
        model.ack(Fraction(t) / 1000, Fraction(delivered), Fraction(cwnd), Fraction(rtt) / 1000,
                  Fraction(min_rtt) / 1000)
        exact.append(model.bse)
    rows = run(calc, acks, **parameters)
    for row, bse in zip(rows, exact):
        row["exact"] = bse
    check_steps(acks, rows, **parameters)
    return rows


def agree(rows, rel):
    for row in rows:
        if row["outcome"] != NONE:
            assert row["bse"] / Q16 == pytest.approx(float(row["exact"]), rel=rel, abs=1e-3), row


def steady(count, gap=10, pkts=1, cwnd=10, rtt=100, min_rtt=100, start=0):
    return [(start + n * gap, pkts, cwnd, rtt, min_rtt) for n in range(count)]


@pytest.mark.parametrize("stream", [
    steady(300), steady(150, gap=20, pkts=2), steady(300, gap=Fraction(35, 10), cwnd=29)])
def test_a_steady_stream_is_its_rate(calc, stream):
    """A, D: from the second ACK s = BSE = the rate, U = 0, tau = RTT; whatever the ACKs cover."""
    rows = play(calc, stream)
    exact = stream[0][1] * 1000 / stream[1][0]
    agree(rows, 1e-6)
    for row in rows[1:]:
        if row["outcome"] != NONE:
            assert row["bse"] / Q16 == pytest.approx(exact, rel=1e-6)
            assert row["u"] <= 1
            # U is 0 but for the last place; its ratio to U_max is then 0 or 1 and means nothing.
    assert rows[-1]["outcome"] == NONE or rows[-1]["b"] == round(exact / 10)


def test_stream_a_window(calc):
    """RTT_min 100 ms and 100 segments/s: 10, not 9."""
    rows = [row for row in play(calc, steady(100)) if row["outcome"] == SAMPLE]
    assert {row["b"] for row in rows} == {10}
    assert {row["tau"] for row in rows} == {100_000}


def test_congestion_is_followed_down(calc):
    """B: 100/s, then 50/s with the RTT doubled. The first step is the paper's by hand: s 50,
    U 20, tau = 11 RTT, alpha 0.99095, BSE 99.55. T grows towards RTT; BSE falls all the way and
    never below the rate."""
    stream = steady(31) + steady(60, gap=20, rtt=200, start=320)
    rows = play(calc, stream, t_min_div=10)         # T_min: the time between ACKs
    after = [row for row in rows[31:] if row["outcome"] == SAMPLE]
    agree(after, 1e-4)
    first = after[0]
    assert first["s"] / Q16 == pytest.approx(50) and first["u"] / Q16 == pytest.approx(20, rel=1e-5)
    assert first["tau"] == pytest.approx(2_200_000, rel=1e-4)
    assert first["alpha"] / Q20 == pytest.approx(0.99095, abs=1e-5)
    assert first["bse"] / Q16 == pytest.approx(99.55, abs=0.005)
    estimates = [row["bse"] for row in after]
    assert estimates == sorted(estimates, reverse=True) and estimates[-1] >= 50 * Q16
    intervals = [row["next"] for row in after]
    assert intervals[0] < 30_000 and intervals[-1] > 95_000
    assert after[-1]["b"] < 8
    # As much time later as ten round trips: the share, 50 segments/s, a window of 5.
    late = play(calc, stream + steady(200, gap=20, rtt=200, start=1520), t_min_div=10)
    assert [row for row in late if row["outcome"] == SAMPLE][-1]["b"] == 5


def compressed(seconds, rtt=100):
    """Ten ACKs in 10 ms every 100 ms: 100 segments/s."""
    return [(100 * n + i, 1, 10, rtt, rtt) for n in range(10 * seconds) for i in range(10)]


def test_compressed_acks(calc):
    """C: at most 1.5 times the truth after 10 s and never below half of it. A burst is in one
    sample with the silence before it, so here it is sooner and closer."""
    rows = play(calc, compressed(12))
    agree(rows, 1e-4)
    estimates = [(row["now"] - 10 ** 9, row["bse"] / Q16) for row in rows if row["outcome"] == SAMPLE]
    assert all(bse >= 50 for _, bse in estimates)
    assert all(bse <= 150 for t, bse in estimates if t >= 10_000_000)
    assert all(95 <= bse <= 105 for t, bse in estimates if t >= 10_000_000)


def test_the_first_flight_tells_the_path(calc):
    """E: GEO, 6 ms apart: 166.7/s, a window of 100 while cwnd is 10: how Astart opens it."""
    rows = play(calc, steady(10, gap=6, rtt=600, min_rtt=600))
    agree(rows, 1e-6)
    assert rows[0]["outcome"] == START
    assert [row["outcome"] for row in rows[1:]] == [TRAIN] * 9
    assert {row["b"] for row in rows[1:]} == {100}
    rows = play(calc, steady(400, gap=6, cwnd=60, rtt=600, min_rtt=600))
    assert {row["b"] for row in rows if row["outcome"] == SAMPLE} == {100}


def test_rhythm_does_not_matter(calc):
    """The mean rate, whether the ACKs of a round trip come evenly or in half of it; but for ABSE's
    own leaning: the sample after the silence differs most, so it counts less."""
    half = [(600 * n + 6 * i, 2, 100, 600, 600) for n in range(60) for i in range(50)]
    rows = play(calc, half)
    agree(rows, 1e-4)
    last = [row for row in rows if row["outcome"] == SAMPLE][-60:]
    assert sum(row["s"] * row["dt"] for row in last) / sum(row["dt"] for row in last) / Q16 == \
        pytest.approx(100 / 0.6, rel=0.03)
    assert all(0.95 < row["bse"] / Q16 / (100 / 0.6) < 1.2 for row in last)


def test_silence_counts_and_idleness_does_not(calc):
    """A second without an ACK while segments are in flight is a slow path; a second with the
    clock stopped is nothing."""
    before, after = steady(100), [(2000, 1, 10, 100, 100)] + steady(10, start=2010)
    slow = run(calc, [(10 ** 9 + int(t * 1000), n + 1, *rest) for n, (t, _, *rest) in enumerate(
        (t, p, c, r * 1000, m * 1000) for t, p, c, r, m in before + after)])
    assert slow[100]["outcome"] == SAMPLE and slow[100]["s"] < 2 * Q16
    assert slow[100]["bse"] < 70 * Q16
    acks = [(10 ** 9 + int(t * 1000), n + 1, c, r * 1000, m * 1000)
            for n, (t, _, c, r, m) in enumerate(before + after)]
    idle = run(calc, [*acks[:100], None, *acks[100:]])
    assert idle[100]["outcome"] == START and idle[101]["outcome"] == NONE
    assert all(row["bse"] / Q16 == pytest.approx(100, rel=1e-6) for row in idle[100:]
               if row["outcome"] != NONE)


def test_one_ack_a_flight_is_no_estimate(calc):
    """Each flight in one ACK: nothing to see its rate by, so the clock starts anew."""
    rows = run(calc, [(10 ** 9 + n * 100_000, 10 * n, 10, 100_000, 100_000) for n in range(5)])
    assert [row["outcome"] for row in rows] == [START, BLIND, BLIND, BLIND, BLIND]
    assert {row["b"] for row in rows} == {0}


@pytest.mark.parametrize("rtt_us", [1, 2, 7, 50, 100, 999, 16_777_216, 2 ** 32 - 1])
def test_round_trips_of_any_length(calc, rtt_us):
    acks = [(10 ** 6 + 37 * n * n, 3 * n, 10, rtt_us, rtt_us) for n in range(400)]
    check_steps(acks, run(calc, acks))


def test_a_clock_that_runs_for_days(calc):
    """Points keep 32 bits of the time; more than 71 minutes between starts must not show."""
    gap = 10_000_000
    acks = [(10 ** 9 + n * gap, 100 * n, 100, 600_000, 600_000) for n in range(2000)]
    acks = [(10 ** 9 - 1000, 0, 100, 600_000, 600_000), (10 ** 9 - 800, 2, 100, 600_000, 600_000),
            *acks[1:]]
    rows = run(calc, acks)
    assert all(row["outcome"] == SAMPLE for row in rows[2:])
    assert all(row["re_window"] == gap for row in rows[4:])


def test_astart_holds_on_to_the_first_flight(calc):
    """10 segments 6 ms apart, then the silence of the rest of the round trip: tau is 11 RTT, alpha
    (2 tau - dt) / (2 tau + dt), and a round trip takes less than a tenth of the estimate."""
    acks = [(10 ** 9 + 600_000 * flight + 6000 * n, 10 * flight + n, 10, 600_000, 600_000)
            for flight in range(6) for n in range(10)]
    rows = [row for row in run(calc, acks, astart=1) if row["outcome"] == SAMPLE]
    assert len(rows) == 5 and {row["tau"] for row in rows} == {6_600_000}
    for row in rows:
        assert row["bse"] >= 0.9 * row["bse_old"]
    fast = [row for row in run(calc, acks) if row["outcome"] == SAMPLE]
    assert fast[-1]["bse"] < rows[-1]["bse"]


def test_without_a_history(calc):
    """One sample a round trip over that round trip; the first flight as with one."""
    rows = play_coarse = run(calc, [(10 ** 9 + n * 10_000, n, 10, 100_000, 100_000)
                                    for n in range(200)], history=0)
    assert [row["outcome"] for row in rows[:3]] == [START, TRAIN, NONE]
    taken = [n for n, row in enumerate(play_coarse) if row["outcome"] == COARSE]
    assert all(after - before == 10 for before, after in zip(taken, taken[1:]))
    assert all(rows[n]["b"] == 10 and rows[n]["tau"] == 100_000 for n in taken)
