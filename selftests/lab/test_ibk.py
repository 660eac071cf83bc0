# SPDX-License-Identifier: GPL-2.0
"""Increase-by-K in a real kernel, over real paths."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest

from bench.lab import measure
from selftests import henderson_katz as paper
from selftests.lab import decisions

pytestmark = pytest.mark.lab

ONE = 1 << 16
AUTO, BELOW, NO_RTT = 1, 2, 4
# A link that is never the limit, and one ACK a segment, so that ACK n of the tables is ACK n here.
EACH_ACK = {"rate_mbit": 100, "queue_packets": 2000, "receiver": {"quickack": 1}}


@pytest.fixture(scope="session")
def path(geo):
    def make(cc="ibk", **rest):
        parameters = rest.pop("parameters", None)
        modules = {"modules": {"tcp_ibk": parameters}} if parameters else {}
        return geo(cc, **modules, **rest)
    return make


def events(run, *names):
    return decisions.of(run, "ibk", *names)


@pytest.mark.parametrize("k, cwnd, expected", [
    (1, 10, [10] * 9 + [11]),
    (2, 10, [10, 10, 10, 10, 11, 11, 11, 11, 11, 11, 12]),
    (4, 10, [10, 10, 11, 11, 11, 12, 12, 12, 13, 13, 13, 14, 14, 14]),
    (8, 10, [10, 11, 12, 12, 13, 14, 14, 15, 15, 16]),
    (4, 2, [3, 4, 5, 5, 6, 7, 7, 8, 8, 9, 9, 10]),
])
@pytest.mark.parametrize("pacing", [0, 1])
def test_avoidance_follows_the_table(lab, path, k, cwnd, expected, pacing):
    """From the first ACK on, ssthresh being the initial window."""
    made = path(**EACH_ACK, bytes=60_000, parameters={"k": k, "pacing": pacing})
    run = lab.run(decisions.with_ssthresh(made, cwnd, initcwnd=cwnd))
    assert decisions.windows(run, "ibk", len(expected)) == expected


@pytest.mark.parametrize("k, expected", [(4, 103), (2, 101)])
def test_a_window_of_100(lab, path, k, expected):
    """The first ACK here is the first that finds the window full: the receiver's opens with time."""
    made = path(**EACH_ACK, bytes=600_000, parameters={"k": k})
    run = lab.run(decisions.with_ssthresh(made, 100, initcwnd=100))
    assert decisions.windows(run, "ibk", 100)[-1] == expected


@pytest.mark.parametrize("table", [
    {"bytes": 5_000_000}, {"seconds": 60, "loss_pct": 1},
    {"seconds": 60, "loss_pct": 1, "parameters": {"k_auto": 1, "rtt_ref_ms": 400}},
    {"seconds": 30, "rtt_ms": 100, "rate_mbit": 10, "parameters": {"k": 255}}],
    ids=["queue", "loss", "auto", "k=255"])
def test_every_step_is_exact(lab, path, table):
    """Every window of the run, recomputed from the report's line, and the credit carried through."""
    run = lab.run(path(**table))
    rows = events(run)
    checked = [row for row in rows if row["name"] in decisions.GROWTH]
    for row in checked:
        flow = paper.Flow(row["cwnd_old"], row["ssthresh"], paper.Q16, limit=row["limit"],
                          credit=row["credit_old_q16"] * paper.Q16)
        assert flow.ack(row["k_q16"] * paper.Q16, row["acked"]) == row["cwnd"], row
        assert flow.credit == row["credit_q16"] * paper.Q16, row
        assert row["cwnd"] <= row["cwnd_old"] + row["acked"]
    assert sum(row["name"] == "avoid" for row in checked) > 100
    assert not decisions.broken_chain(rows, "q16")
    assert any(row["acked"] > 1 for row in checked), "delayed ACKs were not met"


def test_k_of_one_is_reno(lab, path):
    """The same packets as Reno, window by window."""
    link = dict(rtt_ms=100, rate_mbit=10, seconds=20)
    ours = lab.run(path(**link, parameters={"k": 1, "pacing": 0}))
    reno = lab.run(path("reno", **link))
    _, mine, _ = measure.cwnd_series(ours)
    _, other, _ = measure.cwnd_series(reno)
    count = min(len(mine), len(other))
    assert count > 1000 and np.abs(mine[:count] - other[:count]).max() <= 1


@pytest.mark.parametrize("rtt_ms, rule, k", [(600, 0, 4), (400, BELOW, 1)])
def test_rtt_threshold(lab, path, rtt_ms, rule, k):
    run = lab.run(path(seconds=30, loss_pct=1, rtt_ms=rtt_ms, parameters={"rtt_min_ms": 500}))
    rows = events(run, "avoid")
    assert len(rows) > 100
    assert {(row["rule"], row["k_q16"]) for row in rows} == {(rule, k * ONE)}


def test_the_threshold_is_for_the_path_and_not_its_queue(lab, path):
    """400 ms and as much of queue again: the smoothed RTT goes over 500 ms, K stays 1."""
    run = lab.run(path(seconds=40, rtt_ms=400, parameters={"rtt_min_ms": 500}))
    rows = events(run, "avoid", "start", "start_exit")
    assert max(row["srtt_us"] for row in rows) > 550_000
    assert {row["k_q16"] for row in rows} == {ONE}


@pytest.mark.parametrize("rtt_ms, low, high", [(600, 4, 4.02), (450, 2.25, 2.27), (250, 1, 1),
                                               (900, 8, 8)])
def test_k_from_the_rtt(lab, path, rtt_ms, low, high):
    """(RTT / 300 ms)^2 of the smallest RTT, however long the queue makes the last one."""
    run = lab.run(path(seconds=30, rtt_ms=rtt_ms, parameters={"k_auto": 1, "k": 255}))
    rows = events(run, *decisions.GROWTH)
    for row in rows:
        exact = paper.auto_k(Fraction(row["min_rtt_us"]), 300_000)
        assert row["k_q16"] == paper.rounded_down(exact, paper.Q16) * ONE and row["rule"] == AUTO
        assert low * ONE <= row["k_q16"] <= high * ONE
    assert max(row["srtt_us"] for row in rows) > 1.3 * rtt_ms * 1000


def test_parameters_reach_a_running_flow(lab, path):
    """k and k_auto are read at every ACK; the reference too."""
    parameters = "/sys/module/tcp_ibk/parameters"
    run = lab.run(path(seconds=30, parameters={"k": 4}, commands=[
        f"sleep 5; echo 7 > {parameters}/k", f"sleep 12; echo 1 > {parameters}/k_auto",
        f"sleep 20; echo 400 > {parameters}/rtt_ref_ms"]))
    rows = events(run, *decisions.GROWTH, "held")
    seen = list(dict.fromkeys(row["k_q16"] for row in rows))
    assert [round(k / ONE, 1) for k in seen] == [4, 7, 4, 2.3]


def test_loss_halves_and_drops_the_credit(lab, path):
    run = lab.run(path(seconds=60, loss_pct=1))
    states = events(run, "state")
    assert any(row["credit_old_q16"] for row in states)
    assert all(row["credit_q16"] == 0 and row["ca_state"] >= decisions.CWR for row in states)
    halved = events(run, "ssthresh")
    assert halved and all(row["ssthresh"] == max(row["cwnd_old"] // 2, 2) for row in halved)


def test_a_timeout_drops_the_credit(lab, path):
    """A link gone for four seconds; afterwards growth goes on, in Loss as in Open."""
    gone = "nsenter --net=/run/netns/satellite tc qdisc change dev right root netem"
    run = lab.run(decisions.with_ssthresh(
        path(seconds=30, commands=[f"sleep 12; {gone} limit 10000 delay 300ms loss 100%",
                                   f"sleep 16; {gone} limit 10000 delay 300ms loss 0%"]), 20))
    lost = [row for row in events(run, "state") if row["ca_state"] == decisions.LOSS]
    assert lost and all(row["credit_q16"] == 0 for row in lost)
    grown = [row for row in events(run, *decisions.GROWTH) if row["t_s"] > lost[-1]["t_s"]]
    assert {row["ca_state"] for row in grown} >= {0, decisions.LOSS}
    assert {row["k_q16"] for row in grown} == {4 * ONE}


def test_idle_restart_drops_the_credit(lab, path):
    """Ten seconds of nothing between two halves of a transfer."""
    made = decisions.with_ssthresh(path(bytes=200_000), 20)
    run = lab.run(dataclasses.replace(made, flows=(
        made.flows[0], dataclasses.replace(made.flows[1], pause_ms=10_000))))
    rows = events(run)
    idle, = [number for number, row in enumerate(rows) if row["name"] == "idle"]
    assert rows[idle]["credit_old_q16"] and not rows[idle]["credit_q16"]
    assert rows[idle - 1]["cwnd"] > 20 and rows[idle + 1]["cwnd_old"] <= 10


def test_an_undo_brings_the_window_back(lab, path):
    """A link that is suddenly four seconds longer: the timeout was none, and timestamps tell."""
    longer = "nsenter --net=/run/netns/satellite tc qdisc change dev right root netem limit 10000"
    run = lab.run(decisions.with_ssthresh(
        path(seconds=30, commands=[f"sleep 12; {longer} delay 4000ms"]), 20))
    rows = events(run)
    undone = [row for row in rows if row["name"] == "undo"]
    assert undone
    before = [row for row in rows if row["name"] == "ssthresh" and row["t_s"] < undone[0]["t_s"]]
    assert undone[0]["cwnd"] == before[-1]["cwnd_old"] > undone[0]["cwnd_old"]


def test_a_window_not_filled_does_not_grow(lab, path):
    """Twice five segments of a window of ten, three seconds apart."""
    made = decisions.with_ssthresh(path(bytes=2 * 5 * 1448), 10)
    run = lab.run(dataclasses.replace(made, flows=(
        made.flows[0], dataclasses.replace(made.flows[1], pause_ms=3000))))
    rows = events(run)
    assert "held" in {row["name"] for row in rows} <= {"init", "held", "idle"}
    assert all(row["cwnd"] == 10 and not row["credit_q16"] for row in rows)


def test_switch_on_a_live_flow(lab, path):
    """cubic -> ibk -> reno -> ibk: the switch itself leaves cwnd alone, and the transfer arrives."""
    run = lab.run(path("cubic", bytes=3_000_000,
                       changes=[[4000, "ibk"], [8000, "reno"], [10000, "ibk"]]))
    inits = events(run, "init")
    assert len(inits) == 2
    for row in inits:
        assert row["cwnd"] == row["cwnd_old"] > 10 and row["credit_q16"] == 0
        assert row["min_rtt_us"] >= 600_000
    assert measure.FlowView(run).transfer_s(3_000_000)


def test_paced_unless_told_otherwise(lab, path):
    """On a fast link slow start sends two segments for each ACK: back to back, or with a gap."""
    def small_gap(pacing):
        run = lab.run(path(**EACH_ACK, bytes=400_000, parameters={"pacing": pacing}))
        view = measure.FlowView(run)
        return np.quantile(np.diff(view.segment_s[60:200]), 0.25)
    assert small_gap(1) > 1e-3 > small_gap(0)


@pytest.mark.parametrize("rtt_ms, parameters, enabled, k", [
    (600, {"k": 6}, 1, 6), (600, {"k": 1}, 0, 1), (600, {"rtt_min_ms": 601}, 0, 1),
    (500, {"k_auto": 1}, 1, 3)])                # 2.78
def test_cc_info_tells_k_and_the_rtts(lab, path, rtt_ms, parameters, enabled, k):
    """Vegas' record in TCP_CC_INFO, which inet_diag has too."""
    said = lab.run(path(bytes=300_000, rtt_ms=rtt_ms, parameters=parameters)).json("flow-0.json")
    vegas = said["vegas"]
    assert (vegas["enabled"], vegas["rttcnt"]) == (enabled, k)
    assert vegas["rtt"] == said["rtt"] > rtt_ms * 1000
    assert vegas["minrtt"] == said["min_rtt"] and 0 <= vegas["minrtt"] - rtt_ms * 1000 < 200
