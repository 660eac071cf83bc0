# SPDX-License-Identifier: GPL-2.0
"""The oracle itself: traces made by hand from the papers' tables pass, each with one thing wrong is
found, and at the event that is wrong."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from bench.lab import scenario
from bench.lab.paths import TOP
from selftests import oracle
from selftests.lab.test_oracle import MUTANTS

INIT, START, AVOID, START_EXIT, HELD, SSTHRESH, UNDO, STATE, IDLE = range(1, 10)
OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)
INFINITE = 0x7FFFFFFF
Q16, Q20 = 1 << 16, 1 << 20


class Told:
    """As much of a run as the oracle asks for."""

    def __init__(self, streams, module="", commands=(), **parameters):
        self.scenario = scenario.from_dict({
            "title": "by hand", "hop": [{"name": "satellite"}], "flow": [{"cc": "reno", "bytes": 1}],
            "modules": {module: parameters}, "commands": list(commands)})
        self.events = {}
        for name, rows in streams.items():
            fields = [field for field in rows[0] if field != "t"]
            records = np.zeros(len(rows), [(field, "<i8") for field in fields])
            for record, row in zip(records, rows):
                for field in fields:
                    record[field] = row[field]
            self.events[name] = np.array([row["t"] for row in rows], "u8"), records


class Tale:
    """A flow told event by event: each begins where the one before ended."""

    def __init__(self, cwnd, ssthresh=INFINITE, srtt_us=600_000, **own):
        self.rows, self.notes = [], []
        self.cwnd, self.ssthresh, self.srtt_us, self.state = cwnd, ssthresh, srtt_us, OPEN
        self.clock, self.own = 1_000_000_000, own
        self.tell(INIT)

    def tell(self, event, cwnd=None, ssthresh=None, acked=0, state=None, **own):
        """own: the policy's fields, kept for the events to come."""
        self.own |= own
        self.state = self.state if state is None else state
        old = self.cwnd, self.ssthresh
        self.cwnd = old[0] if cwnd is None else cwnd
        self.ssthresh = old[1] if ssthresh is None else ssthresh
        self.clock += 6_000_000
        self.rows.append({
            "t": self.clock, "cookie": 7, "acked": acked, "cwnd_old": old[0], "cwnd": self.cwnd,
            "ssthresh_old": old[1], "ssthresh": self.ssthresh, "limit": INFINITE,
            "srtt_us": self.srtt_us, "sport": 40000, "dport": 5001, "event": event,
            "ca_state": self.state, **self.own})

    def ack(self, cwnd, acked=1, **own):
        kind = AVOID if self.cwnd >= self.ssthresh else START if cwnd < self.ssthresh else START_EXIT
        self.tell(kind, cwnd, acked=acked, **own)


def spoilt(rows, number, **fields):
    """The same rows, one of them otherwise."""
    return [{**row, **fields} if n == number else row for n, row in enumerate(rows)]


def first(told):
    return oracle.check(told).differences[0]


# -- ibk and constant_rate: the credit is all there is -----------------------------------------

def credited(policy, unit, gain, cwnd, windows, acked=1, **own):
    """A tale of congestion avoidance whose windows must be these: credit by the textbook."""
    one = {"q16": Q16, "q20": Q20}[unit]
    tale = Tale(cwnd, 2, **{f"credit_old_{unit}": 0, f"credit_{unit}": 0}, **own)
    credit = Fraction(0)
    for window in windows:
        before, price = credit, tale.cwnd
        credit += acked * min(Fraction(gain), price)
        credit -= credit // price * price
        tale.ack(window, acked, **{f"credit_old_{unit}": floor(before * one),
                                   f"credit_{unit}": floor(credit * one)})
    return tale


def ibk(k, cwnd, windows, acked=1):
    tale = credited("ibk", "q16", k, cwnd, windows, acked, min_rtt_us=600_000, k_q16=k * Q16, rule=0)
    return tale, {"module": "tcp_ibk", "k": k}


IBK = [
    (1, 10, [10] * 9 + [11], 1),
    (2, 10, [10, 10, 10, 10, 11, 11, 11, 11, 11, 11, 12], 1),
    (4, 10, [10, 10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14], 1),
    (8, 10, [10, 11, 12, 12, 13, 14, 14, 15, 15, 16], 1),
    (4, 2, [3, 4, 5, 5, 6, 7, 7, 8, 8, 9, 9, 10], 1),
    (4, 10, [10, 11, 12, 12, 13, 14, 14], 2),
    (4, 10, [14], 10),
    (4, 2, [7], 5),
]


@pytest.mark.parametrize("k, cwnd, windows, acked", IBK)
def test_ibk_table(k, cwnd, windows, acked):
    tale, parameters = ibk(k, cwnd, windows, acked)
    report = oracle.check(Told({"satcc:ibk": tale.rows}, **parameters)).raise_first()
    assert report.events == len(windows) + 1
    assert report.changes == sum(a != b for a, b in zip([cwnd, *windows], windows))


@pytest.mark.parametrize("number", range(1, 15))
@pytest.mark.parametrize("off", [-1, 1])
def test_a_window_off_by_one_is_found_where_it_is(number, off):
    tale, parameters = ibk(4, 10, [10, 10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14])
    rows = spoilt(tale.rows, number, cwnd=tale.rows[number]["cwnd"] + off)
    difference = first(Told({"satcc:ibk": rows}, **parameters))
    assert difference.event == number and difference.wrong.what == "cwnd"
    assert f"event {number} " in str(difference)
    assert f"should be {tale.rows[number]['cwnd']}, is {rows[number]['cwnd']}" in str(difference)


def test_ibk_parameters_count():
    tale, _ = ibk(4, 10, [10, 10, 11])
    assert first(Told({"satcc:ibk": tale.rows}, "tcp_ibk", k=5)).wrong.what == "K"
    assert not oracle.check(Told({"satcc:ibk": tale.rows})).differences      # 4 is the default


def test_ibk_k_from_the_rtt():
    """(500 / 300)^2 = 2.7777..., rounded down to 1/65536."""
    k_q16 = floor(Fraction(25, 9) * Q16)
    tale = credited("ibk", "q16", Fraction(k_q16, Q16), 10, [10, 10, 10, 11], min_rtt_us=500_000,
                    k_q16=k_q16, rule=1)
    oracle.check(Told({"satcc:ibk": tale.rows}, "tcp_ibk", k_auto=1)).raise_first()
    rows = [{**row, "k_q16": k_q16 + 1} for row in tale.rows]
    assert first(Told({"satcc:ibk": rows}, "tcp_ibk", k_auto=1)).event == 0


def constant(c, rtt_us, cwnd, windows, acked=1):
    a = Fraction(c * rtt_us ** 2 * Q20 // 10 ** 12, Q20)
    tale = credited("constant_rate", "q20", a, cwnd, windows, acked, rtt_us=rtt_us,
                    min_rtt_us=rtt_us, a_q20=int(a * Q20), bound=1)
    for row in tale.rows:
        row["srtt_us"] = rtt_us
    return tale, {"module": "tcp_constant_rate", "c": c}


CONSTANT = [
    (4, 600_000, 10, [10] * 6 + [11], 1),
    (4, 500_000, 10, [10] * 9 + [11], 1),
    (4, 10_000, 10, [10] * 25_025 + [11], 1),
    (100, 600_000, 10, [11, 12, 13, 14], 1),
    (100, 600_000, 10, [17], 7),
    (100, 600_000, 40, [40, 41, 42, 43, 44, 45, 45, 46, 47, 48, 49, 49, 50, 51], 1),
    (100, 600_000, 40, [42, 45, 47, 49, 52], 3),
    (1600, 25_000, 10, [10] * 9 + [11], 1),
    (1600, 600_000, 600, [600, 601, 602, 603], 1),
]


@pytest.mark.parametrize("case", CONSTANT, ids=lambda case: f"c{case[0]}-{case[1]}-{case[2]}-{case[4]}")
def test_constant_rate_table(case):
    tale, parameters = constant(*case)
    report = oracle.check(Told({"satcc:constant_rate": tale.rows}, **parameters)).raise_first()
    assert report.events == len(case[3]) + 1


def test_constant_rate_is_not_ns_2():
    """ns-2 drops the remainder when it adds: 40 41 41 42 ... for 40 41 42 43."""
    tale, parameters = constant(100, 600_000, 40, [40, 41, 42])
    tale.rows[-1]["cwnd"] = 41
    assert first(Told({"satcc:constant_rate": tale.rows}, **parameters)).event == 3
    tale, parameters = constant(100, 600_000, 40, [40, 41])
    tale.rows[-1]["credit_q20"] = 0
    assert first(Told({"satcc:constant_rate": tale.rows}, **parameters)).wrong.what == "credit_q20"


def test_constant_rate_is_of_the_smoothed_rtt():
    tale, parameters = constant(100, 600_000, 40, [40, 41])
    rows = spoilt(tale.rows, 2, rtt_us=599_000)
    assert first(Told({"satcc:constant_rate": rows}, **parameters)).wrong.what == "rtt_us"
    rows = spoilt(tale.rows, 2, a_q20=60 * Q20)                     # c rtt
    assert first(Told({"satcc:constant_rate": rows}, **parameters)).wrong.what == "c rtt^2"


# -- mtsi --------------------------------------------------------------------------------------

MTSI = [
    ({}, 6, [10, 18, 30, 43, 44, 45], [4, 8, 12, 13, 1, 1], [4, 4, 4, 1, 0, 0]),
    ({}, 10, [14, 22, 32, 43, 44], [4, 8, 10, 11, 1], [4, 4, 2, 1, 0]),
    ({}, 1, [5, 13, 25, 39, 54, 55], [4, 8, 12, 14, 15, 1], [4, 4, 4, 2, 1, 0]),
    ({"thr": "10,20,30"}, 6, [10, 16, 24, 33, 34], [4, 6, 8, 9, 1], [4, 2, 2, 1, 0][:5]),
    ({"f0": 1}, 6, [11, 20, 31, 43, 44], [5, 9, 11, 12, 1], [4, 4, 2, 1, 0]),
    ({"mode": "const", "const_k": 2}, 6, [8, 10, 12, 14], [2] * 4, [0] * 4),
    ({"mode": "linear", "linear_thr": 20}, 6, [7, 9, 12, 16, 21, 22], [1, 2, 3, 4, 5, 1],
     [1, 1, 1, 1, 1, 0]),
]


def mtsi(parameters, cwnd, windows, f, k):
    mode = {"mtsi": 1, "const": 2, "linear": 3}[parameters.get("mode", "mtsi")]
    f0 = parameters.get("f0", 0)
    tale = Tale(cwnd, f_old=f0, f=f0, k=0, steps=0, ack_limit=0xFFFFFFFF, cnt_old=0, cnt=0,
                min_rtt_us=600_000, mode=mode)
    for n, window in enumerate(windows):
        tale.ack(window, f_old=f[n - 1] if n else f0, f=f[n], k=k[n], steps=1)
    return tale, {"module": "tcp_mtsi", **parameters}


@pytest.mark.parametrize("case", MTSI, ids=lambda case: f"{case[0]}-{case[1]}")
def test_mtsi_table(case):
    tale, parameters = mtsi(*case)
    oracle.check(Told({"satcc:mtsi": tale.rows}, **parameters)).raise_first()
    for number in range(1, len(tale.rows)):
        rows = spoilt(tale.rows, number, cwnd=tale.rows[number]["cwnd"] + 1)
        assert first(Told({"satcc:mtsi": rows}, **parameters)).event == number


def timeout(tale, **own):
    """Three events of a timeout: asked for ssthresh, in Loss with one segment, an ACK there."""
    tale.tell(SSTHRESH, ssthresh=tale.cwnd // 2, steps=0, k=0, f_old=tale.own["f"])
    tale.cwnd = 1
    tale.tell(STATE, state=LOSS, **own)


def test_mtsi_f_starts_again_after_a_timeout():
    tale, parameters = mtsi(*MTSI[0])
    timeout(tale, f=0, mode=0)
    tale.ack(2, f_old=0, f=0, steps=1)
    tale.tell(HELD, state=OPEN, mode=1, steps=0)
    tale.ack(6, f_old=0, f=4, k=4, steps=1)
    oracle.check(Told({"satcc:mtsi": tale.rows}, **parameters)).raise_first()

    tale, parameters = mtsi(*MTSI[0])
    timeout(tale, f=1, mode=0)
    assert first(Told({"satcc:mtsi": tale.rows}, **parameters)).wrong.what == "f"


# -- hybla_full --------------------------------------------------------------------------------

def hybla(rtt_us, cwnd, ssthresh, windows, acked=1):
    """The table's windows, with the fractions that the equations leave in Q16."""
    rho = max(floor(Fraction(rtt_us, 25_000) * Q16), Q16)
    gain, square = 2 ** (rho // Q16) - 1, rho * rho // Q16
    tale = Tale(cwnd, ssthresh, rtt_us, credit_old_q16=0, credit_q16=0, start_old_q16=0, start_q16=0,
                rtt_us=rtt_us, min_rtt_us=rtt_us, rho_q16=rho, plain=0, hoe_phase=0, hoe_points=0)
    credit = 0
    for window in windows:
        left, old, w = acked, credit, tale.cwnd
        while left and w < ssthresh:
            w, left = min(w + gain, ssthresh), left - 1
        if left:
            credit = (credit + left * square) % (w * Q16)
        tale.ack(window, acked, credit_old_q16=old, credit_q16=credit)
    return tale


HYBLA = [
    (25_000, 10, 1000, [11, 12, 13, 14, 15], 1),
    (50_000, 2, 1000, [5, 8, 11, 14, 17, 20], 1),
    (50_000, 10, 1000, [22, 34, 46, 58], 4),
    (100_000, 10, 1000, [25, 40, 55, 70], 1),
    (100_000, 10, 50, [25, 40, 50, 50, 50, 50, 51, 51, 51, 52, 52, 52], 1),
    (600_000, 10, 160, [160, 163, 167, 170, 173, 177], 1),
    (25_000, 10, 2, [10] * 9 + [11], 1),
    (50_000, 10, 2, [10, 10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15], 1),
    (100_000, 10, 2, [11, 13, 14, 15, 16, 17, 18, 19, 20, 20, 21, 22, 23, 23, 24, 25], 1),
    (600_000, 24, 2, [48, 60, 69, 77, 85, 92, 98, 104], 1),
    (600_000, 100, 2, [105, 111, 116, 121, 126, 130, 135, 139, 143, 147], 1),
    (20_000, 10, 2, [10] * 9 + [11], 1),
]


@pytest.mark.parametrize("case", HYBLA, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}-{case[4]}")
def test_hybla_table(case):
    rows = hybla(*case).rows
    oracle.check(Told({"satcc:hybla_full": rows})).raise_first()
    for number in range(1, len(rows)):
        for off in (-1, 1):
            spoilt_rows = spoilt(rows, number, cwnd=rows[number]["cwnd"] + off)
            assert first(Told({"satcc:hybla_full": spoilt_rows})).event == number


@pytest.mark.parametrize("fault, what", [
    ({"rho_q16": 25 * Q16}, "rho"), ({"rho_q16": 24 * Q16 + 1}, "rho"),
    ({"credit_q16": 0}, "credit_q16"),
    ({"credit_old_q16": 1}, "credit_old_q16"), ({"plain": 4}, "plain"), ({"event": START}, "event"),
    ({"min_rtt_us": 700_000}, "min_rtt_us"), ({"ssthresh": 3}, "ssthresh"),
    ({"cwnd_old": 99}, "cwnd_old"),
    ({"ssthresh_old": 7, "ssthresh": 7}, "ssthresh_old")])
def test_hybla_faults(fault, what):
    rows = spoilt(hybla(*HYBLA[10]).rows, 5, **fault)
    difference = first(Told({"satcc:hybla_full": rows}))
    assert (difference.event, difference.wrong.what) == (5, what)


def test_hybla_credit_is_dropped_at_a_loss():
    def told(credit):
        tale = hybla(100_000, 10, 2, [11, 13, 14])
        carried = tale.own["credit_q16"]
        assert carried
        tale.tell(SSTHRESH, ssthresh=7, credit_old_q16=carried)
        tale.tell(STATE, state=RECOVERY, credit_q16=credit)
        tale.cwnd = 7
        tale.tell(HELD, state=OPEN, credit_old_q16=credit)
        return Told({"satcc:hybla_full": tale.rows}), carried
    run, carried = told(0)
    oracle.check(run).raise_first()
    difference = first(told(carried)[0])
    assert (difference.event, difference.wrong.what) == (5, "credit_q16")


def train(points, ssthresh, pkts=100):
    """10 segments 6 ms apart at 600 ms: the estimate is 100 at the third ACK."""
    tale = Tale(10, INFINITE, credit_old_q16=0, credit_q16=0, start_old_q16=0, start_q16=0,
                rtt_us=600_000, min_rtt_us=600_000, rho_q16=Q16, plain=8, hoe_phase=1, hoe_points=0)
    for n, (t_us, segments, num, den) in enumerate(points):
        tale.notes.append({
            "t": tale.clock + 5_999_000, "cookie": 7, "t_us": t_us, "num": num, "den": den,
            "pkts": segments, "left_bytes": 1448 * (9 - n), "min_rtt_us": 600_000, "sport": 40000,
            "dport": 5001, "used": 1, "points": n + 1})
        if n == 2:
            tale.tell(16, ssthresh=ssthresh, hoe_phase=3, hoe_points=3)
            # The decision and the growth are one ACK's.
            tale.clock -= 6_000_000 - 10
            tale.ack(pkts, plain=0, rho_q16=24 * Q16)
        else:
            tale.ack(11 + n, hoe_phase=2, hoe_points=n + 1)
    return Told({"satcc:hybla_full": tale.rows, "satcc:hybla_full_hoe": tale.notes})


POINTS = [(0, 0, 0, 0), (6000, 1, 6000, 36_000_000), (12_000, 2, 36_000, 216_000_000)]


def test_hoe_table():
    """num = n S(ta) - S(t) S(a) = 3 * 30000 - 18000 * 3; den likewise; 600 ms * num / den = 100."""
    oracle.check(train(POINTS, 100)).raise_first()


@pytest.mark.parametrize("points, ssthresh, what", [
    (POINTS, 101, "ssthresh"), (POINTS, 99, "ssthresh"),
    ([*POINTS[:2], (12_000, 2, 36_001, 216_000_000)], 100, "num"),
    ([*POINTS[:2], (12_000, 2, 36_000, 216_000_001)], 100, "den"),
    ([*POINTS[:2], (9_000, 2, 27_000, 126_000_000)], 128, "t_us"),
    ([*POINTS[:2], (12_000, 3, 54_000, 216_000_000)], 150, "pkts")])
def test_hoe_faults(points, ssthresh, what):
    assert first(train(points, ssthresh, ssthresh)).wrong.what == what


# -- westwood_abse -----------------------------------------------------------------------------

def abse(**fault):
    """One segment each 10 ms, RTT and RTT_min 100 ms, cwnd 10.

    The second ACK makes the first estimate, 100/s.  Th RTT_min is cwnd, so T is its floor, 12.5 ms,
    and every other ACK a sample: s = Th = BSE = 100/s, U = 0, dt = 20 ms.  tau is 100 ms and alpha 9/11
    with tau_n = 0, in Astart or not.
    """
    hundred = 100 * Q16
    tale = Tale(10, INFINITE, 100_000, bse_q16=0, re_q16=0, b=0, loss_b=0, loss_delivered=0,
                min_rtt_us=100_000, cnt_old=0, cnt=0, astart=1, blind=0, mark=0, history=1)
    tale.rows[0]["ssthresh"] = tale.ssthresh = 10
    tale.clock = start = 2_000_000_000

    def note(at_ms, outcome, since_ms, **own):
        before = 0 if outcome in (1, 3) else hundred
        tale.notes.append({
            "t": start + at_ms * 1_000_000, "cookie": 7, "sport": 40000, "dport": 5001,
            "t_us": 5_000_000 + at_ms * 1000, "delivered": 1 + at_ms // 10, "outcome": outcome,
            "stopped": 0, "dt_us": since_ms * 1000, "pkts": since_ms // 10,
            "age_us": at_ms * 1000, "cwnd": 10, "rtt_us": 100_000, "min_rtt_us": 100_000,
            "interval_us": 0 if outcome == 1 else 12_500, "next_us": 12_500, "re_pkts": 0,
            "re_window_us": 0, "re_q16": hundred, "th_old_q16": before, "th_q16": hundred,
            "s_old_q16": before, "s_q16": hundred, "u_old_q16": 0, "u_q16": 0, "u_max_q16": 0,
            "tau_us": 0, "alpha_q20": 0, "bse_old_q16": before, "bse_q16": hundred,
            "b": 10, "history": 1, "astart": 1, **own})

    note(0, 1, 0, re_q16=0, th_q16=0, s_q16=0, bse_q16=0, b=0)
    note(10, 3, 10)
    for n in range(1, 8):
        at_ms = 10 + 20 * n
        # The window of RE goes back to the sample of 100 ms ago, or to the start.
        back_ms = 100 if at_ms >= 110 else at_ms
        note(at_ms, 4, 20, re_pkts=back_ms // 10, re_window_us=back_ms * 1000, tau_us=100_000,
             alpha_q20=Q20 * 9 // 11)
    tale.notes[4] |= fault
    tale.clock = start + 200_000_000
    tale.own |= {"bse_q16": hundred, "re_q16": hundred, "b": 10}
    return tale


def told(tale, **parameters):
    return Told({"satcc:westwood_abse": tale.rows, "satcc:westwood_abse_sample": tale.notes},
                "tcp_westwood_abse", tau_n=0, **parameters)


def test_abse_stream():
    tale = abse()
    for cnt in range(1, 10):
        tale.ack(10, cnt_old=cnt - 1, cnt=cnt)
    tale.ack(11, cnt_old=9, cnt=0)
    oracle.check(told(tale)).raise_first()


@pytest.mark.parametrize("fault, what", [
    ({"alpha_q20": Q20 * 9 // 11 + 1}, "alpha_q20"), ({"alpha_q20": Q20 * 4 // 6}, "alpha_q20"),
    ({"tau_us": 1_100_000}, "tau_us"), ({"bse_q16": 100 * Q16 + 1}, "bse_q16"), ({"b": 100}, "b"),
    ({"re_pkts": 8}, "window of RE"), ({"re_q16": 101 * Q16}, "re_q16"),
    ({"next_us": 12_499}, "next_us"), ({"outcome": 3}, "outcome"),
    ({"dt_us": 19_999}, "dt_us"), ({"u_max_q16": 1}, "u_max_q16"), ({"u_q16": 1}, "U"),
    ({"s_q16": 99 * Q16}, "s_q16"),
    ({"min_rtt_us": 100_001}, "min_rtt_us")])
def test_abse_faults(fault, what):
    difference = first(told(abse(**fault)))
    assert difference.wrong.what == what and difference.event == 4


@pytest.mark.parametrize("alpha_q16, rtt_ms, dt_ms, u_parts", [
    (64452, 600, 10, 0), (21845, 600, 600, 0), (59294, 100, 10, 0), (0, 100, 300, 0),
    (65436, 600, 10, 1), (59837, 600, 600, 1), (49807, 100, 300, 1), (65354, 600, 10, Fraction(1, 2))])
def test_alpha_table(alpha_q16, rtt_ms, dt_ms, u_parts):
    """What the oracle holds against alpha_q20, in the table's Q16."""
    tau = int(1000 * rtt_ms * (1 + 10 * u_parts))
    dt = min(1000 * dt_ms, 2 * tau)
    assert (2 * tau - dt) * Q20 // (2 * tau + dt) >> 4 == alpha_q16


def loss(cwnd, ssthresh, mark=0, loss_b=10):
    tale = abse()
    tale.rows[0]["cwnd"] = tale.rows[0]["cwnd_old"] = tale.cwnd = cwnd
    tale.rows[0]["ssthresh"] = tale.ssthresh = cwnd
    for row in tale.notes:
        row["cwnd"] = cwnd
        row["next_us"] = row["next_us"] if row["outcome"] != 4 else max(
            100_000 * (cwnd - 10) // cwnd, 12_500)
    tale.notes = tale.notes[:3]
    tale.tell(SSTHRESH, ssthresh=ssthresh, mark=mark, loss_b=loss_b)
    tale.tell(STATE, state=CWR if mark else RECOVERY, mark=0, astart=0)
    return tale


def test_westwood_losses():
    """b = 10.  At a window of 20: to 10.  At 8: to 8, and afterwards ssthresh is 10 again."""
    oracle.check(told(loss(20, 10))).raise_first()
    assert first(told(loss(20, 20))).wrong.what == "ssthresh"
    tale = loss(8, 8)
    tale.tell(17, ssthresh=10, state=OPEN)
    tale.ack(9)
    oracle.check(told(tale)).raise_first()
    tale = loss(8, 8)
    tale.tell(HELD, state=OPEN)
    assert first(told(tale)).wrong.should == "complete"


def test_a_mark_always_reduces():
    """20 to 16 at an estimate that would bear 20, 80 %."""
    oracle.check(told(loss(10, 8, mark=1, loss_b=0))).raise_first()
    assert first(told(loss(10, 10, mark=1, loss_b=0))).wrong.what == "ssthresh"


def test_astart_must_raise():
    tale = abse()
    tale.rows[0]["cwnd"] = tale.rows[0]["cwnd_old"] = tale.cwnd = 8
    tale.rows[0]["ssthresh"] = tale.ssthresh = 8
    tale.notes = tale.notes[:2]
    for row in tale.notes:
        row["cwnd"] = 8
    tale.tell(16, ssthresh=10)
    tale.ack(9)
    oracle.check(told(tale)).raise_first()
    del tale.rows[1]
    tale.rows[1] |= {"ssthresh": 8, "ssthresh_old": 8, "cwnd": 8, "cnt": 1, "event": AVOID}
    assert first(told(tale)).wrong.should == "astart"


# -- what the core may do, and what the report says --------------------------------------------

def after_held(cwnd, ssthresh, event=HELD, pause_s=1, **then):
    """ibk at 100 segments; an event, the core's doing, then one more."""
    tale, _ = ibk(4, 100, [100])
    tale.clock += int(pause_s * 1e9)
    credit = tale.own["credit_q16"]
    tale.tell(event, credit_old_q16=credit, credit_q16=0 if event in (STATE, IDLE) else credit, **then)
    tale.cwnd, tale.ssthresh = cwnd, ssthresh
    tale.tell(HELD, state=OPEN, credit_old_q16=tale.own["credit_q16"])
    return Told({"satcc:ibk": tale.rows})


@pytest.mark.parametrize("run, fine", [
    (after_held(100, 2), True), (after_held(99, 2), False), (after_held(101, 2), False),
    (after_held(60, 75), True),                 # the application used 20: (100 + 20) / 2
    (after_held(60, 74), False), (after_held(100, 75), False),
    (after_held(60, 75, pause_s=0.1), False),   # too soon for that
    (after_held(10, 75, IDLE), True), (after_held(10, 2, IDLE), False),
    (after_held(101, 75, IDLE), False), (after_held(33, 2, STATE, state=RECOVERY), True),
    (after_held(33, 3, STATE, state=RECOVERY), False),
    (after_held(33, 2, STATE, state=DISORDER), False)])
def test_what_the_core_may_do(run, fine):
    differences = oracle.check(run).differences
    assert not differences if fine else differences[0].event == 3


def test_undo():
    def undone(cwnd, ssthresh):
        tale, _ = ibk(4, 100, [100])
        credit = tale.own["credit_q16"]
        tale.tell(SSTHRESH, ssthresh=50, credit_old_q16=credit)
        tale.tell(STATE, state=RECOVERY, credit_q16=0)
        tale.cwnd = 60
        tale.tell(UNDO, cwnd, credit_old_q16=0)
        tale.ssthresh = ssthresh
        tale.tell(HELD, state=OPEN)
        return oracle.check(Told({"satcc:ibk": tale.rows}))
    assert not undone(100, 75).differences
    assert undone(99, 75).differences[0].wrong.what == "cwnd"
    assert undone(100, 76).differences[0].wrong.what == "ssthresh_old"


def test_flows_are_apart_and_the_first_difference_comes_first():
    """Three flows, two with a fault: two differences, oldest first, and the third flow is counted."""
    tales = []
    for cookie in (1, 2, 3):
        tale, _ = ibk(4, 10, [10, 10, 11, 11])
        for row in tale.rows:
            row["cookie"], row["sport"] = cookie, 40_000 + cookie
            row["t"] += cookie
        tales.append(tale.rows)
    tales[0][4]["cwnd"] = 99
    tales[1][3]["cwnd"] = 99
    rows = sorted(sum(tales, []), key=lambda row: row["t"])
    report = oracle.check(Told({"satcc:ibk": rows}))
    assert [difference.row.cookie for difference in report.differences] == [2, 1]
    assert report.counts["ibk"].flows == 3 and report.events == 5 + 4 + 3
    with pytest.raises(oracle.Difference, match="cwnd should be 11, is 99"):
        report.raise_first()


def test_parameters_that_change_under_way_are_not_guessed():
    tale, _ = ibk(5, 10, [10, 11])
    report = oracle.check(Told({"satcc:ibk": tale.rows}, commands=[
        "sleep 1; echo 5 > /sys/module/tcp_ibk/parameters/k"]))
    assert "ibk" in report.unchecked and not report.counts


def test_nothing_to_check():
    assert not oracle.check(Told({})).counts


@pytest.mark.parametrize("wrong, name, text, instead", [
    mutant for mutants in MUTANTS.values() for mutant in mutants],
    ids=[f"{policy}-{mutant[0]}" for policy, mutants in MUTANTS.items() for mutant in mutants])
def test_the_faults_that_the_lab_makes_have_their_lines(wrong, name, text, instead):
    """A line that has changed takes its fault along; the lab would say so only when it comes to it."""
    assert (TOP / name).read_text().count(text) == 1 and text != instead, wrong
