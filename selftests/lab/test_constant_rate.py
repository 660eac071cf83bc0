# SPDX-License-Identifier: GPL-2.0
"""Constant-Rate in a real kernel, over real paths."""

import dataclasses
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
    def make(cc="constant_rate", **rest):
        parameters = rest.pop("parameters", None)
        modules = {"modules": {"tcp_constant_rate": parameters}} if parameters else {}
        return geo(cc, **modules, **rest)
    return make


def events(run, *names):
    return decisions.of(run, "constant_rate", *names)


@pytest.mark.parametrize("c, rtt_ms, cwnd, expected", [
    (4, 600, 10, [10] * 6 + [11]),
    (4, 500, 10, [10] * 9 + [11]),
    (100, 600, 10, [11, 12, 13, 14, 15, 16, 17, 18]),
    (100, 600, 40, [40, 41, 42, 43, 44, 45, 45, 46, 47, 48, 49, 49, 50, 51]),
    (1600, 600, 600, [600, 601, 602, 603]),
])
@pytest.mark.parametrize("pacing", [0, long(1)])
def test_avoidance_follows_the_table(lab, path, c, rtt_ms, cwnd, expected, pacing):
    """From the first ACK on that finds the window full, ssthresh being the initial window: one of
    600 has to wait for the receiver's."""
    transfer = path(**EACH_ACK, rtt_ms=rtt_ms, bytes=max(200_000, 6000 * cwnd),
                    parameters={"c": c, "pacing": pacing})
    run = lab.run(decisions.with_ssthresh(transfer, cwnd, initcwnd=cwnd))
    assert decisions.windows(run, "constant_rate", len(expected)) == expected


@pytest.mark.parametrize("table", [
    long({"bytes": 5_000_000}), {"seconds": 60, "loss_pct": 1},
    {"seconds": 60, "loss_pct": 1, "parameters": {"c": 4}},
    long({"seconds": 30, "rtt_ms": 100, "rate_mbit": 10, "parameters": {"c": 1600}})],
    ids=["queue", "loss", "c=4", "c=1600"])
def test_every_step_is_exact(lab, path, table):
    """Each window by the oracle, over ACKs of one segment and of more, and never more than was
    acknowledged."""
    run = lab.run(path(**table))
    assert oracle.check(run).raise_first().changes > 100
    rows = events(run, *decisions.GROWTH)
    assert sum(row["name"] == "avoid" for row in rows) > 100
    assert all(row["cwnd"] <= row["cwnd_old"] + row["acked"] for row in rows)
    assert any(row["acked"] > 1 for row in rows), "delayed ACKs were not met"


def test_the_gain_is_of_the_smoothed_rtt(lab, path):
    """With a queue the smoothed RTT is longer than the path's, and growth the faster."""
    rows = events(lab.run(path(seconds=30)), *decisions.GROWTH)
    assert max(row["srtt_us"] for row in rows) > 800_000
    for row in rows:
        assert row["a_pkts"] == pytest.approx(100 * (row["srtt_us"] / 1e6) ** 2, abs=0.6)


def test_parameters_reach_a_running_flow(lab, path):
    run = lab.run(path(rate_mbit=10, seconds=20, commands=[
        "sleep 8; echo 25 > /sys/module/tcp_constant_rate/parameters/c"]))
    rows = events(run, *decisions.GROWTH)
    assert {round(row["a_pkts"] / (row["srtt_us"] / 1e6) ** 2 / 25) for row in rows} == {4, 1}


def test_an_rtt_is_known_from_the_start(lab, path):
    """The handshake gives a sample, and a change of policy in mid-connection finds one."""
    run = lab.run(path("cubic", bytes=3_000_000,
                       changes=[[4000, "constant_rate"], [8000, "reno"], [10000, "constant_rate"]]))
    inits = events(run, "init")
    assert len(inits) == 2
    for row in inits:
        assert row["cwnd"] == row["cwnd_old"] > 10 and row["credit_q20"] == 0
        assert row["srtt_us"] >= 600_000
    assert flow_view.FlowView(run).transfer_s(3_000_000)
    assert events(lab.run(path(bytes=100_000)), "init")[0]["srtt_us"] >= 600_000


def test_loss_halves_and_drops_the_credit(lab, path):
    run = lab.run(path(seconds=60, loss_pct=1))
    states = events(run, "state")
    assert any(row["credit_q20_old"] for row in states)
    assert all(row["credit_q20"] == 0 and row["ca_state"] >= decisions.CWR for row in states)
    halved = events(run, "ssthresh")
    assert halved and all(row["ssthresh"] == max(row["cwnd_old"] // 2, 2) for row in halved)


def test_a_timeout_drops_the_credit(lab, path):
    """A link gone for four seconds; afterwards growth goes on, in Loss as in Open."""
    gone = "nsenter --net=/run/netns/satellite tc qdisc change dev right root netem"
    run = lab.run(decisions.with_ssthresh(
        path(seconds=30, commands=[f"sleep 12; {gone} limit 10000 delay 300ms loss 100%",
                                   f"sleep 16; {gone} limit 10000 delay 300ms loss 0%"]), 20))
    lost = [row for row in events(run, "state") if row["ca_state"] == decisions.LOSS]
    assert lost and all(row["credit_q20"] == 0 for row in lost)
    grown = [row for row in events(run, *decisions.GROWTH) if row["t_s"] > lost[-1]["t_s"]]
    assert {row["ca_state"] for row in grown} >= {0, decisions.LOSS}


def test_idle_restart_drops_the_credit(lab, path):
    """Ten seconds of nothing between two halves of a transfer."""
    transfer = decisions.with_ssthresh(path(bytes=200_000), 50)
    run = lab.run(dataclasses.replace(transfer, flows=(
        transfer.flows[0], dataclasses.replace(transfer.flows[1], pause_ms=10_000))))
    rows = events(run)
    idle, = [number for number, row in enumerate(rows) if row["name"] == "idle"]
    assert rows[idle]["credit_q20_old"] and not rows[idle]["credit_q20"]
    assert rows[idle - 1]["cwnd"] > 50 and rows[idle + 1]["cwnd_old"] <= 10


def test_an_undo_brings_the_window_back(lab, path):
    """A link that is suddenly four seconds longer: the timeout was none, and timestamps tell.  With a
    small c, for the queue is not to overflow before."""
    longer = "nsenter --net=/run/netns/satellite tc qdisc change dev right root netem limit 10000"
    run = lab.run(decisions.with_ssthresh(
        path(seconds=30, parameters={"c": 4},
             commands=[f"sleep 12; {longer} delay 4000ms"]), 20))
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
    assert all(row["cwnd"] == 10 and not row["credit_q20"] for row in rows)


@pytest.mark.parametrize("rtt_ms, c, numerator", [(600, 100, 36), (600, 4, 1), (100, 4, 0)])
def test_cc_info_has_the_gain_and_the_rtts(lab, path, rtt_ms, c, numerator):
    """Vegas' record in TCP_CC_INFO, which inet_diag has too."""
    info = lab.run(path(bytes=100_000, rtt_ms=rtt_ms,
                        parameters={"c": c})).json("flow-0.json")
    vegas = info["vegas"]
    assert (vegas["enabled"], vegas["rttcnt"]) == (int(numerator > 0), numerator)
    assert vegas["rtt"] == info["rtt"] > rtt_ms * 1000
    assert vegas["minrtt"] == info["min_rtt"] and 0 <= vegas["minrtt"] - rtt_ms * 1000 < 200
