# SPDX-License-Identifier: GPL-2.0
"""The oracle's models of our policies: the papers' tables come out of them, and a flow with one thing
wrong is found, at the call that is wrong."""

from math import isqrt

import pytest

from bench import oracle
from bench.oracle.calls import (
    COMPLETE_CWR, CWND_EVENT, CWND_RESTART, CWR, DISORDER, LOSS, OPEN, PKTS_ACKED, RECOVERY, SET_STATE,
    SSTHRESH, UNDO)
from bench.oracle.constant_rate import ConstantRate
from bench.oracle.core import INFINITE
from bench.oracle.hybla_full import SET, HyblaFull
from bench.oracle.ibk import Ibk
from bench.oracle.mtsi import Mtsi
from bench.paths import TOP, policies
from selftests.lab.test_oracle import MUTANTS
from selftests.unit.tale import OWNER, Tale


def windows(tale, count, acked=1, **given):
    return [tale.ack(acked, 6, **given) for _ in range(count)]


def test_every_policy_has_a_model():
    assert sorted(oracle.POLICIES) == policies()


# -- the papers' tables ----------------------------------------------------------------------------

@pytest.mark.parametrize("k, cwnd, acked, expected", [
    (1, 10, 1, [10] * 9 + [11]),
    (2, 10, 1, [10, 10, 10, 10, 11, 11, 11, 11, 11, 11, 12]),
    (4, 10, 1, [10, 10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14]),
    (8, 10, 1, [10, 11, 12, 12, 13, 14, 14, 15, 15, 16]),
    (4, 2, 1, [3, 4, 5, 5, 6, 7, 7, 8, 8, 9, 9, 10]),
    (4, 10, 2, [10, 11, 12, 12, 13, 14]),
    (4, 10, 10, [13]),
    (4, 2, 5, [6])])
def test_ibk(k, cwnd, acked, expected):
    tale = Tale(Ibk, {"k": k}, cwnd, ssthresh=2)
    assert windows(tale, len(expected), acked) == expected and tale.first_wrong() is None


@pytest.mark.parametrize("c, srtt_ms, cwnd, expected", [
    (4, 600, 10, [10] * 6 + [11]), (4, 500, 10, [10] * 9 + [11]),
    (100, 600, 10, [11, 12, 13, 14, 15, 16, 17, 18]),
    (100, 600, 40, [40, 41, 42, 43, 44, 45, 45, 46, 47, 48, 49, 49, 50, 51]),
    (1600, 600, 600, [600, 601, 602, 603])])
def test_constant_rate(c, srtt_ms, cwnd, expected):
    tale = Tale(ConstantRate, {"c": c}, cwnd, ssthresh=2, srtt_us=1000 * srtt_ms)
    assert windows(tale, len(expected)) == expected and tale.first_wrong() is None


@pytest.mark.parametrize("parameters, cwnd, expected", [
    ({}, 6, [10, 18, 30, 43, 44, 45, 46, 47]), ({}, 10, [14, 22, 32, 43, 44, 45, 46, 47]),
    ({}, 1, [5, 13, 25, 39, 54, 55, 56, 57]), ({"thr": "10,20,30"}, 6, [10, 16, 24, 33, 34, 35, 36, 37]),
    ({"mode": "const"}, 6, [10, 14, 18, 22]),
    ({"mode": "linear", "linear_thr": 20}, 6, [7, 9, 12, 16, 21, 22, 23, 24])])
def test_mtsi(parameters, cwnd, expected):
    tale = Tale(Mtsi, parameters, cwnd)
    assert windows(tale, len(expected)) == expected and tale.first_wrong() is None


def test_mtsi_counts_segments_and_8_at_most_unpaced():
    assert windows(Tale(Mtsi, {}, 6), 2, acked=2) == [18, 43]
    assert windows(Tale(Mtsi, {"pacing": 0}, 44), 1, acked=20) == [52]
    assert windows(Tale(Mtsi, {}, 44), 1, acked=20) == [64]


@pytest.mark.parametrize("rtt_ms, cwnd, ssthresh, expected", [
    (100, 10, INFINITE - 1, [25, 40, 55, 70]), (50, 2, INFINITE - 1, [5, 8, 11, 14, 17, 20]),
    (100, 10, 50, [25, 40, 50, 50, 50, 50, 51, 51, 51, 52, 52, 52]),
    # W^2 grows by twice 576 for each segment.
    (600, 100, 2, [isqrt(100 * 100 + 2 * 576 * n) for n in range(1, 11)]),
    (600, 600, 2, [600, 601, 602, 603]), (25, 10, 2, [10] * 9 + [11]),
    # A quarter of the window at most: until 51, and 576 / 51 < 51 / 4.
    (600, 2, 2, [3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 33, 41, 51, 61, 70])])
def test_hybla_full(rtt_ms, cwnd, ssthresh, expected):
    tale = Tale(HyblaFull, {}, cwnd, ssthresh, srtt_us=1000 * rtt_ms)
    assert windows(tale, len(expected)) == expected and tale.first_wrong() is None


def train(count=4, acked=1):
    """A new flow whose first ten segments are acknowledged 6 ms apart."""
    tale = Tale(HyblaFull, snd_nxt=14_480, packets_out=10)
    for n in range(1, count + 1):
        tale.base |= {"delivered": n, "delivered_old": n, "packets_out": 10 - n}
        tale.call(PKTS_ACKED, 6, rtt_us=600_000, arg=1)
        tale.ack(acked, ack=1448 * n)
        if n == 2:
            tale.base |= {"snd_nxt": 17_376}
    return tale


def test_hybla_fulls_estimate():
    """The third ACK of the train brings ssthresh 100, and the window to it."""
    tale = train()
    assert tale.first_wrong() is None
    assert [call.cwnd for call in tale.calls[2::2]] == [11, 12, 100, 105]
    assert tale.calls[6].ssthresh == 100 and tale.calls[6].new.hoe_phase == SET
    assert [call.pacing_status for call in tale.calls[2::2]] == [0, 0, 1, 1]


@pytest.mark.parametrize("number, fields, what", [
    (6, {"ssthresh": 99}, "ssthresh"), (6, {"pacing_status": 0}, "pacing_status"),
    (4, {"hoe_sum_ta": 6001}, "hoe_sum_ta"), (3, {"path_rtt_us": 450_000}, "path_rtt_us"),
    (6, {"cwnd": 99}, "cwnd"), (5, {"cwnd": 13}, "cwnd"), (2, {"hoe_phase": 1}, "hoe_phase")])
def test_hybla_fulls_train_with_a_thing_wrong(number, fields, what):
    assert train().changed(number, **fields) == (number, what)


# -- what is found, and where ------------------------------------------------------------------------

@pytest.mark.parametrize("number", range(1, 15))
@pytest.mark.parametrize("off", [-1, 1])
def test_a_window_off_by_one_is_reported_at_its_call(number, off):
    tale = Tale(Ibk, {}, 10, ssthresh=2)
    windows(tale, 14)
    assert tale.changed(number, cwnd=tale.calls[number].cwnd + off) == (number, "cwnd")


def test_parameters_count():
    tale = Tale(Ibk, {"k": 4}, 10, ssthresh=2)
    windows(tale, 3)
    assert tale.first_wrong(parameters={"k": 5}) is not None
    assert tale.first_wrong(parameters={}) is None          # 4 is the default


def test_no_growth_where_cwnd_is_not_the_limit_and_growth_where_it_is():
    tale = Tale(Ibk, {}, 10, ssthresh=20)
    tale.ack(1, cwnd_limited=0)
    assert tale.calls[-1].cwnd == 10
    assert tale.changed(1, cwnd=11)[1] == "cwnd" and tale.changed(1, cwnd_limited=1)[1] == "cwnd"


@pytest.mark.parametrize("event, fields", [
    ({"what": SET_STATE, "arg": RECOVERY}, {"credit_q16": 1}),
    ({"what": CWND_EVENT, "arg": CWND_RESTART}, {"credit_q16": 1})])
def test_credit_ends_with_a_reduction_and_with_idle(event, fields):
    tale = Tale(Ibk, {}, 10, ssthresh=2)
    tale.ack()
    assert tale.calls[-1].new.credit_q16
    tale.call(**event)
    assert tale.calls[-1].new.credit_q16 == 0 and tale.changed(2, **fields) == (2, "credit_q16")


def test_private_bytes_changed_by_another_writer_are_seen():
    tale = Tale(Ibk, {}, 10, ssthresh=2)
    windows(tale, 3)
    calls = list(tale.calls)
    calls[2] = calls[2]._replace(old=calls[2].old._replace(credit_q16=5))
    assert tale.first_wrong(calls) == (2, "credit_q16")


def test_private_bytes_of_another_policy_are_not_used():
    """The policy begins anew on the spot, and has to say so with its word."""
    tale = Tale(Ibk, {}, 10, ssthresh=2)
    tale.ack()
    foreign = tale.State(owner=77, credit_q16=10 ** 9)
    calls = list(tale.calls)
    calls[1] = calls[1]._replace(old=foreign)
    assert tale.first_wrong(calls) is None
    calls[1] = calls[1]._replace(new=calls[1].new._replace(owner=77))
    assert tale.first_wrong(calls) == (1, "owner")
    calls[1] = calls[1]._replace(new=calls[1].new._replace(owner=OWNER, credit_q16=10 ** 9))
    assert tale.first_wrong(calls)[0] == 1


def test_a_private_field_the_model_does_not_know_is_found():
    tale = Tale(Ibk, {}, 10, ssthresh=2)
    tale.State = type("State", (tale.State,), {"_fields": (*tale.State._fields, "more")})
    tale.calls[0] = tale.calls[0]._replace(new=tale.State(*tale.calls[0].new))
    assert tale.first_wrong() == (0, "private fields")


# -- what the core may do ----------------------------------------------------------------------------

def after_held(cwnd, ssthresh, pause_s=1.0, state=None, **event):
    """ibk at 100 segments, not limited; an event, the core's doing, then one ACK more."""
    tale = Tale(Ibk, {}, 100, ssthresh=2)
    tale.ack(1, in_flight=60, in_flight_old=60)
    tale.call(**event) if event else tale.ack(1, cwnd_limited=0)
    if state is not None:
        tale.base["ca_state"] = state
    tale.base |= {"cwnd": cwnd, "ssthresh": ssthresh}
    tale.ack(1, 1000 * pause_s, cwnd_limited=0)
    return tale.first_wrong()


RESTART = {"what": CWND_EVENT, "arg": CWND_RESTART}
TO_RECOVERY = {"what": SET_STATE, "arg": RECOVERY}


@pytest.mark.parametrize("actual, fine", [
    (after_held(100, 2), True), (after_held(99, 2), False), (after_held(101, 2), False),
    (after_held(60, 75), True),                 # the application used 20: (100 + 20) / 2
    (after_held(60, 74), False), (after_held(60, 75, pause_s=0.1), False),      # too soon for that
    (after_held(10, 75, **RESTART), True), (after_held(10, 2, **RESTART), False),
    (after_held(101, 75, **RESTART), False), (after_held(33, 2, **TO_RECOVERY), True),
    (after_held(33, 3, **TO_RECOVERY), False)])
def test_moves_that_the_core_may_make(actual, fine):
    assert (actual is None) == fine


def reduction(kind=Ibk):
    """From 100 into Recovery, at 60 by PRR."""
    tale = Tale(kind, {}, 100, ssthresh=2)
    tale.ack()
    tale.call(SSTHRESH, prior_cwnd=100, prior_ssthresh=75)
    tale.base |= {"ssthresh": 50, "prior_cwnd": 100, "prior_ssthresh": 75, "undo_marker": 1}
    tale.call(SET_STATE, arg=RECOVERY)
    tale.base["cwnd"] = 60
    return tale


@pytest.mark.parametrize("sack_ok, cwnd, fine", [(0, 81, True), (0, 82, False), (1, 81, False)])
def test_a_partial_ack_without_sack_brings_back_the_flight(sack_ok, cwnd, fine):
    """Dupacks had counted as segments that arrived: cwnd follows the flight, to all 80 sent."""
    tale = reduction()
    tale.call(SET_STATE, arg=RECOVERY)
    tale.base |= {"cwnd": cwnd, "packets_out": 80, "sack_ok": sack_ok}
    tale.call(SSTHRESH)
    assert tale.first_wrong() == (None if fine else (5, "cwnd before the call"))


@pytest.mark.parametrize("cwnd, fine", [(117, True), (118, False)])
def test_prr_makes_up_for_a_faster_cut_by_the_policy_before(cwnd, fine):
    """westwood_abse took cwnd from 131 to 103 in a recovery; then PRR's share is 98 * 54 / 131 = 41, of
    which 28 were sent."""
    counts = {"delivered": 11510, "delivered_old": 11510, "in_flight": 102, "in_flight_old": 102}
    tale = Tale(Ibk, {}, 103, ssthresh=98, ca_state=RECOVERY, prior_cwnd=131, undo_marker=1, **counts)
    tale.base |= {"cwnd": cwnd, "in_flight_old": 103, "delivered_old": 11511, "delivered": 11511,
                  "prr_delivered_old": 54, "prr_delivered": 54, "prr_out": 28}
    tale.call(CWND_EVENT, arg=CWND_RESTART)
    assert tale.first_wrong() == (None if fine else (1, "cwnd before the call"))


def undone(cwnd, ssthresh):
    tale = reduction()
    assert tale.call(UNDO).ret == 100
    tale.base |= {"cwnd": cwnd, "ssthresh": ssthresh, "undo_marker": 0}
    tale.call(SET_STATE, arg=OPEN)
    return tale


def test_after_an_undo_the_next_call_starts_from_what_was_returned():
    assert undone(100, 75).first_wrong() is None
    assert undone(50, 75).first_wrong() == (5, "cwnd before the call")
    assert undone(100, 50).first_wrong() == (5, "ssthresh before the call")
    assert undone(100, 75).changed(4, ret=50) == (4, "returned")


def test_after_ssthresh_ssthresh_is_the_returned_value():
    assert reduction().changed(2, ret=75) == (2, "returned")
    tale = reduction()
    calls = list(tale.calls)
    calls[3] = calls[3]._replace(ssthresh_old=49, ssthresh=49)
    assert tale.first_wrong(calls) == (3, "ssthresh before the call")


def test_after_recovery_the_window_is_ssthresh():
    for cwnd, expected in ((50, None), (100, "cwnd before the call")):
        tale = reduction()
        tale.base["cwnd"] = 50
        tale.call(SET_STATE, arg=OPEN)
        tale.base |= {"cwnd": cwnd}
        tale.call(CWND_EVENT, arg=COMPLETE_CWR)
        wrong = tale.first_wrong()
        assert wrong is None if expected is None else wrong == (5, expected)


def test_a_policy_does_not_move_the_cores_fields():
    tale = reduction()
    tale.base["cwnd"] = 50
    tale.call(SET_STATE, arg=OPEN)
    assert tale.changed(4, cwnd=100) == (4, "cwnd")
    assert tale.changed(4, ssthresh=100) == (4, "ssthresh")
    assert tale.changed(4, cwnd_cnt=7) == (4, "snd_cwnd_cnt")


def test_after_a_timeout_cwnd_is_in_flight_plus_one():
    for cwnd, fine in ((31, True), (32, False)):
        tale = Tale(Ibk, {}, 100, ssthresh=2)
        tale.ack()
        tale.call(SSTHRESH)
        tale.base |= {"ssthresh": 50, "cwnd": cwnd, "undo_marker": 1,
                      "in_flight": 30, "in_flight_old": 30}
        tale.call(SET_STATE, arg=LOSS)
        assert (tale.first_wrong() is None) == fine


def test_states_follow_one_another():
    tale = Tale(Ibk, {}, 100, ssthresh=2)
    tale.call(SET_STATE, arg=DISORDER)
    tale.ack()
    assert tale.first_wrong() is None
    assert tale.changed(2, ca_state_old=CWR, ca_state=CWR) == (2, "ca_state before the call")


@pytest.mark.parametrize("wrong, name, text, instead", [
    mutant for mutants in MUTANTS.values() for mutant in mutants],
    ids=[f"{policy}-{mutant[0]}" for policy, mutants in MUTANTS.items() for mutant in mutants])
def test_each_fault_is_on_a_line_of_the_source(wrong, name, text, instead):
    """A changed line makes its fault impossible to plant; the lab would report that only much later."""
    assert (TOP / name).read_text().count(text) == 1 and text != instead, wrong
