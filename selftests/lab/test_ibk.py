# SPDX-License-Identifier: GPL-2.0
"""Increase-by-K in a real kernel, over real paths."""

import dataclasses
import numpy as np
import pytest

from bench import oracle
from bench.measure import flow_view
from selftests.conftest import long
from selftests.lab import decisions

pytestmark = pytest.mark.lab

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
@pytest.mark.parametrize("pacing", [0, long(1)])
def test_avoidance_follows_the_table(lab, path, k, cwnd, expected, pacing):
    """From the first ACK on, ssthresh being the initial window."""
    transfer = path(**EACH_ACK, bytes=60_000, parameters={"k": k, "pacing": pacing})
    run = lab.run(decisions.with_ssthresh(transfer, cwnd, initcwnd=cwnd))
    assert decisions.windows(run, "ibk", len(expected)) == expected


@pytest.mark.parametrize("k, expected", [(4, 103), (2, 101)])
def test_a_window_of_100(lab, path, k, expected):
    """The first ACK here is the first that finds the window full: the receiver's opens with time."""
    transfer = path(**EACH_ACK, bytes=600_000, parameters={"k": k})
    run = lab.run(decisions.with_ssthresh(transfer, 100, initcwnd=100))
    assert decisions.windows(run, "ibk", 100)[-1] == expected


@pytest.mark.parametrize("table", [
    long({"bytes": 5_000_000}), {"seconds": 60, "loss_pct": 1},
    long({"seconds": 30, "rtt_ms": 100, "rate_mbit": 10, "parameters": {"k": 255}})],
    ids=["queue", "loss", "k=255"])
def test_every_step_is_exact(lab, path, table):
    """Each window by the oracle, over ACKs of one segment and of more, and never more than was
    acknowledged."""
    run = lab.run(path(**table))
    assert oracle.check(run).raise_first().changes > 100
    rows = events(run, *decisions.GROWTH)
    assert sum(row["name"] == "avoid" for row in rows) > 100
    assert all(row["cwnd"] <= row["cwnd_old"] + row["acked"] for row in rows)
    assert any(row["acked"] > 1 for row in rows), "delayed ACKs were not met"


def test_k_of_one_is_reno(lab, path):
    """The same packets as Reno, window by window."""
    link = dict(rtt_ms=100, rate_mbit=4, seconds=10)
    ours = lab.run(path(**link, parameters={"k": 1, "pacing": 0}))
    reno = lab.run(path("reno", **link))
    _, cwnd, _ = flow_view.cwnd_series(ours)
    _, other, _ = flow_view.cwnd_series(reno)
    count = min(len(cwnd), len(other))
    assert count > 1000 and np.abs(cwnd[:count] - other[:count]).max() <= 1


def test_parameters_reach_a_running_flow(lab, path):
    """k is read at every ACK: so many segments for a window acknowledged, before and after."""
    transfer = path(rate_mbit=10, seconds=24, parameters={"k": 4}, commands=[
        "sleep 17; echo 9 > /sys/module/tcp_ibk/parameters/k"])
    run = lab.run(decisions.with_ssthresh(transfer, 60))
    changed_s = events(run, "init")[0]["t_s"] - 5.6 + 17
    rows = events(run, "avoid")
    for k, part in ((4, [row for row in rows if row["t_s"] < changed_s - 1]),
                    (9, [row for row in rows if row["t_s"] > changed_s + 1])):
        windows = sum(row["acked"] / row["cwnd_old"] for row in part)
        grown = part[-1]["cwnd"] - part[0]["cwnd_old"]
        assert windows > 5 and grown / windows == pytest.approx(k, rel=0.1)


def test_loss_halves_and_drops_the_credit(lab, path):
    run = lab.run(path(seconds=60, loss_pct=1))
    states = events(run, "state")
    assert any(row["credit_q16_old"] for row in states)
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


def test_idle_restart_drops_the_credit(lab, path):
    """Ten seconds of nothing between two halves of a transfer."""
    transfer = decisions.with_ssthresh(path(bytes=200_000), 20)
    run = lab.run(dataclasses.replace(transfer, flows=(
        transfer.flows[0], dataclasses.replace(transfer.flows[1], pause_ms=10_000))))
    rows = events(run)
    idle, = [number for number, row in enumerate(rows) if row["name"] == "idle"]
    assert rows[idle]["credit_q16_old"] and not rows[idle]["credit_q16"]
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
    transfer = decisions.with_ssthresh(path(bytes=2 * 5 * 1448), 10)
    run = lab.run(dataclasses.replace(transfer, flows=(
        transfer.flows[0], dataclasses.replace(transfer.flows[1], pause_ms=3000))))
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
    assert flow_view.FlowView(run).transfer_s(3_000_000)


def test_flows_are_paced_by_default(lab, path):
    """On a fast link slow start sends two segments for each ACK: back to back, or with a gap."""
    def small_gap(pacing):
        run = lab.run(path(**EACH_ACK, bytes=400_000, parameters={"pacing": pacing}))
        view = flow_view.FlowView(run)
        return np.quantile(np.diff(view.segment_s[60:200]), 0.25)
    assert small_gap(1) > 1e-3 > small_gap(0)


@pytest.mark.parametrize("rtt_ms, parameters, enabled, k", [
    (600, {"k": 6}, 1, 6), (600, {"k": 1}, 0, 1)])
def test_cc_info_has_k_and_the_rtts(lab, path, rtt_ms, parameters, enabled, k):
    """Vegas' record in TCP_CC_INFO, which inet_diag has too."""
    info = lab.run(path(bytes=300_000, rtt_ms=rtt_ms, parameters=parameters)).json("flow-0.json")
    vegas = info["vegas"]
    assert (vegas["enabled"], vegas["rttcnt"]) == (enabled, k)
    assert vegas["rtt"] == info["rtt"] > rtt_ms * 1000
    assert vegas["minrtt"] == info["min_rtt"] and 0 <= vegas["minrtt"] - rtt_ms * 1000 < 200
