# SPDX-License-Identifier: GPL-2.0
"""mtsi in a real kernel, over real paths."""

import dataclasses

import numpy as np
import pytest

from bench import oracle
from bench.measure import flow_view
from bench.scenario.scenario import Flow, Hop, Stage
from selftests.conftest import long
from selftests.lab import decisions as account
from selftests.lab.situations import from_then_on
from selftests.unit import mtsi_model

pytestmark = pytest.mark.lab

# One ACK a segment, so that ACK n of the tables is ACK n of the run.
EACH_ACK = {"quickack": 1}
# A link that is never the limit: 100 Mbit/s and room for all of it.
WIDE = {"rate_mbit": 100, "queue_packets": 2000, "rtt_ms": 100}
# Unpaced, for a paced flow is behind its window at times, and an ACK that the window did not bring
# is no step.
UNPACED = {"pacing": 0}
PAPER = {"initcwnd": 6}             # the paper's initial window, as the sender's route has it
OPEN, RECOVERY, LOSS = 0, 3, 4


@pytest.fixture(scope="session")
def path(geo):
    """A scenario of one mtsi flow: geo(), with the module's parameters as `mtsi`."""
    def make(mtsi=None, cc="mtsi", **rest):
        return geo(cc, modules={"tcp_mtsi": {**UNPACED, **(mtsi or {})}},
                   **{**WIDE, "sender": PAPER, **rest})
    return make


def decisions(run):
    return account.of(run, "mtsi")


def named(run, *names):
    return account.of(run, "mtsi", *names)


def grown(run, count):
    """cwnd after each of the first ACKs."""
    return [row["cwnd"] for row in named(run, "start", "start_exit", "avoid", "held")[:count]]


def radio(at_s, delay_ms=50, loss_pct=0):
    """A shell line for the moment the satellite hop's delay or loss is to change."""
    return (f"sleep {at_s:g}; tc -n satellite qdisc change dev right root handle 1: "
            f"netem limit 100000 delay {delay_ms}ms loss {loss_pct}%")


TABLE = [
    # parameters, initial window, windows after ACK 1, 2, ...
    ({}, 6, [10, 18, 30, 43, 44, 45, 46, 47]),
    long({}, 10, [14, 22, 32, 43, 44, 45, 46, 47]),
    ({}, 1, [5, 13, 25, 39, 54, 55, 56, 57]),
    long({}, 2, [6, 14, 26, 40, 41, 42, 43, 44]),
    ({"thr": "10,20,30"}, 6, [10, 16, 24, 33, 34, 35, 36, 37]),
    ({"mode": "const", "const_k": 2}, 6, [8, 10, 12, 14]),
    ({"mode": "linear", "linear_thr": 20}, 6, [7, 9, 12, 16, 21, 22, 23, 24]),
    long({"mode": "linear"}, 6, [7, 9, 12, 16, 21, 27, 34, 42, 51, 52]),
]


@pytest.mark.parametrize("parameters, iw, expected", TABLE,
                         ids=lambda x: str(x) if type(x) is dict else "")
def test_slow_start_follows_the_table(lab, path, parameters, iw, expected):
    run = lab.run(path(parameters, bytes=60_000, receiver=EACH_ACK, sender={"initcwnd": iw}))
    assert grown(run, len(expected)) == expected


def test_f_of_the_table(lab, path):
    rows = named(lab.run(path(bytes=60_000, receiver=EACH_ACK)), "start")
    assert [row["f"] for row in rows[:8]] == [4, 8, 12, 13, 1, 1, 1, 1]


def test_paced_the_table_holds_for_the_first_window(lab, path):
    """And then the eleventh segment and those after it are spaced, twice the window per RTT."""
    runs = [lab.run(path({"pacing": on}, bytes=60_000, receiver=EACH_ACK)) for on in (1, 0)]
    assert grown(runs[0], 6) == grown(runs[1], 6) == [10, 18, 30, 43, 44, 45]
    paced, bursty = (np.median(np.diff(flow_view.FlowView(run).segment_s[11:30])) for run in runs)
    assert paced > 0.5 * 0.1 / (2 * 45)
    assert bursty < 0.2 * 0.1 / (2 * 45)


def test_ssthresh_ends_slow_start(lab, path):
    """An ssthresh of 25, known from the flow before: 10 18 25, then one more per 25 ACKs."""
    run = lab.run(account.with_ssthresh(path(bytes=200_000, receiver=EACH_ACK), 25, initcwnd=6))
    assert grown(run, 3 + 26) == [10, 18] + [25] * 25 + [26] * 2
    assert [row["name"] for row in decisions(run)[1:5]] == ["start", "start", "start_exit", "avoid"]


def test_the_clamp_holds(lab, path):
    """A route with cwnd locked at 30, which a flow takes from the metrics an earlier one left: the
    window stops there, below ssthresh, and F with it."""
    lock = "ip -n sender route change $(ip -n sender route show | grep via) cwnd lock 30"
    transfer = path(bytes=100_000, receiver=EACH_ACK, commands=[lock],
                    sender={"sysctl": {"net.ipv4.tcp_no_metrics_save": 0}})
    first = Flow("cubic", bytes=1000, start_s=1)
    run = lab.run(dataclasses.replace(
        transfer, flows=(first, dataclasses.replace(transfer.flows[0], start_s=5))))
    assert grown(run, 6) == [14, 22, 30, 30, 30, 30]
    rows = named(run, "start")
    assert [row["f"] for row in rows[:5]] == [4, 8, 10, 10, 10]
    assert {row["limit"] for row in rows} == {30} and rows[-1]["cwnd_cnt"] == 0
    assert {row["ssthresh"] for row in rows} == {mtsi_model.INFINITE_SSTHRESH}


@pytest.mark.parametrize("parameters", [
    {}, long({"pacing": 1}), long({"mode": "const"}), {"mode": "linear", "per_ack": 1},
    long({"thr": "50,100,200,400", "k": "3,0,1,2", "pacing": 1})],
    ids=["paper", "paced", "const", "linear-per_ack", "zones"])
def test_every_step_is_exact(lab, path, parameters):
    """From the start into losses, a full queue and out again, with delayed ACKs, by the oracle."""
    loss = from_then_on(1.5, delay_ms=150, loss_pct=0.3)
    run = lab.run(path(parameters, seconds=20, change=[loss], rate_mbit=5, rtt_ms=300,
                       queue_packets=80))
    oracle.check(run).raise_first()
    rows = decisions(run)
    kinds = [row["name"] for row in rows]
    assert kinds.count("start") > 5 and kinds.count("avoid") > 100
    assert "ssthresh" in kinds and "state" in kinds
    assert any(row["acked"] > 1 for row in rows), "delayed ACKs were not met"


@pytest.mark.parametrize("parameters, limit", [
    ({}, 8), ({"pacing": 1}, 2 ** 32), ({"pacing": 1, "per_ack": 1}, 1)],
    ids=["unpaced", "paced", "per_ack"])
def test_stretch_acks(lab, path, parameters, limit):
    """An ACK for many segments is as many steps, up to the limit that is in force: above the last
    threshold, where F is 1, so many segments."""
    run = lab.run(path(parameters, bytes=20_000_000, rate_mbit=0, queue_packets=0, offload=True))
    rows = [row for row in named(run, "start") if row["cwnd_old"] >= 40]
    assert max(row["acked"] for row in rows) > min(limit, 8)
    assert all(row["cwnd"] - row["cwnd_old"] == min(row["acked"], limit) for row in rows)


def test_avoidance_has_the_segments_that_ssthresh_leaves_of_an_ack(lab, path):
    """A stretch ACK takes the window to the known ssthresh of 25 with segments to spare."""
    transfer = path(bytes=20_000_000, rate_mbit=0, queue_packets=0, offload=True)
    run = lab.run(account.with_ssthresh(transfer, 25, initcwnd=6))
    crossed, = named(run, "start_exit")
    assert 0 < crossed["cwnd_cnt"] < min(crossed["acked"], 8)
    assert named(run, "avoid")


def test_a_window_not_filled_does_not_grow(lab, path):
    """Three segments in a window of ten: the application is the limit."""
    run = lab.run(path(bytes=3 * 1448, receiver=EACH_ACK, sender={}))
    _, *acks = decisions(run)
    assert len(acks) == 3 and {row["name"] for row in acks} == {"held"}
    assert {(row["cwnd"], row["f"]) for row in acks} == {(10, 0)}


# F, and the window the more so, still grow when the test interferes.
FAR = {"thr": "1000000", "k": "1"}


def after(rows, condition):
    """The rows from the first that meets the condition on."""
    return rows[next(n for n, row in enumerate(rows) if condition(row)):]


@pytest.mark.parametrize("loss_mtsi", [0, 1])
def test_timeout_starts_f_again(lab, path, loss_mtsi):
    """Two seconds of silence in mid slow start.  F is 0 from the timeout on; the first ACK of the
    next slow start has F = 1.  In Loss that is the kernel's, unless loss_mtsi=1."""
    run = lab.run(path({**FAR, "loss_mtsi": loss_mtsi}, bytes=2_000_000, rate_mbit=20,
                       receiver=EACH_ACK, commands=[radio(0.35, loss_pct=100), radio(2.5)]))
    rows = decisions(run)
    timeout, *later = after(rows, lambda row: row["name"] == "state" and row["ca_state"] == LOSS)
    assert timeout["f_old"] > 13 and timeout["f"] == 0
    steps = [row for row in later if row["name"] == "start"]
    in_loss = [row for row in steps if row["ca_state"] == LOSS]
    assert in_loss
    if loss_mtsi:
        assert steps[0]["f"] == steps[0]["acked"]
    else:
        assert all(row["f"] == 0 for row in in_loss)
        assert all(row["cwnd"] - row["cwnd_old"] == row["acked"] for row in in_loss)
    assert flow_view.FlowView(run).transfer_s(2_000_000)


def test_avoidance_counts_acks_when_loss_ends_with_per_ack(lab, path):
    """After a timeout slow start is the kernel's, in segments, and what it leaves of the ACK that ends
    it is congestion avoidance's: with per_ack=1 one, as of any ACK."""
    acked = []
    for silent_s in (0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7):     # at some of them an ACK leaves some
        run = lab.run(path({**FAR, "per_ack": 1}, bytes=12_000_000, rate_mbit=0, queue_packets=0,
                           offload=True, commands=[radio(silent_s, loss_pct=100), radio(3)]))
        crossings = [row for row in named(run, "start_exit") if row["ca_state"] == LOSS]
        assert len(crossings) <= 1      # none where Loss ends before the window is at ssthresh
        for crossed in crossings:
            left = crossed["acked"] - (crossed["ssthresh"] - crossed["cwnd_old"])
            assert crossed["cwnd_cnt"] == min(left, 1)
            acked.append(left)
        if len(acked) >= 2 and max(acked) > 1:
            break
    assert len(acked) >= 2 and max(acked) > 1


def test_timeout_in_recovery_starts_f_again(lab, path):
    """The retransmissions are lost too: the core reports no loss event then, only the state."""
    run = lab.run(path(FAR, bytes=3_000_000, rate_mbit=20, receiver=EACH_ACK,
                       commands=[radio(0.5, loss_pct=30), radio(0.52, loss_pct=0),
                                 radio(0.57, loss_pct=100), radio(2.5)]))
    states = [row for row in named(run, "state", "ssthresh")]
    recovery = next(n for n, row in enumerate(states) if row["ca_state"] == RECOVERY)
    assert states[recovery]["name"] == "state"
    assert states[recovery]["f"] == states[recovery]["f_old"] > 4
    timeout = states[recovery + 1]
    assert timeout["name"] == "state" and timeout["ca_state"] == LOSS       # no ssthresh between
    assert timeout["f_old"] > 4 and timeout["f"] == 0


def test_undo_does_not_change_f(lab, path):
    """Nearly a second more delay looks like a timeout, and is seen not to be one: the window is
    what it was, F starts again."""
    run = lab.run(path(FAR, bytes=2_000_000, receiver=EACH_ACK, commands=[radio(0.35, delay_ms=900)]))
    reduced, timeout, undone = named(run, "ssthresh", "state", "undo")
    assert (reduced["name"], timeout["name"], undone["name"]) == ("ssthresh", "state", "undo")
    assert timeout["f_old"] > 13 and undone["f"] == undone["f_old"] == timeout["f"] == 0
    assert undone["cwnd"] == reduced["cwnd_old"] > 1000


def test_idle_restart_starts_f_again(lab, path):
    """Ten seconds of nothing between two halves of a transfer."""
    transfer = path(FAR, bytes=400_000, receiver=EACH_ACK)
    run = lab.run(dataclasses.replace(transfer, flows=(
        dataclasses.replace(transfer.flows[0], pause_ms=10_000),)))
    rows = decisions(run)
    idle, = [number for number, row in enumerate(rows) if row["name"] == "idle"]
    assert rows[idle]["f_old"] > 13 and rows[idle]["f"] == 0
    assert rows[idle + 1]["cwnd_old"] <= 10 and rows[idle + 1]["f"] == 1


def test_switch_in_mid_flow(lab, path):
    """A policy chosen in mid flow leaves the window alone, and starts F."""
    run = lab.run(path(cc="cubic", bytes=3_000_000, rate_mbit=2, rtt_ms=600, queue_packets=100,
                       changes=[[4000, "mtsi"], [8000, "reno"], [10000, "mtsi"]]))
    inits = named(run, "init")
    assert len(inits) == 2
    for row in inits:
        assert row["cwnd"] == row["cwnd_old"] > 10 and row["f"] == 0
    assert flow_view.FlowView(run).transfer_s(3_000_000)


def test_parameters_of_a_running_flow(lab, path):
    """A change of mode is seen at the next ACK: F above the thresholds is 1, and then const_k."""
    switch = "sleep 0.45; echo const > /sys/module/tcp_mtsi/parameters/mode"
    run = lab.run(path(bytes=1_000_000, rate_mbit=10, commands=[switch]))
    steps = [row["f"] for row in named(run, "start") if row["cwnd_old"] >= 40]
    assert steps == sorted(steps) and set(steps) == {1, 4}


def test_cc_info_has_f(lab, path):
    """Vegas' record in TCP_CC_INFO, which inet_diag has too."""
    run = lab.run(path(FAR, bytes=100_000, receiver=EACH_ACK))
    info = run.json("flow-0.json")["vegas"]
    assert info["enabled"] == 1 and info["rttcnt"] == decisions(run)[-1]["f"] > 13
    assert 100_000 <= info["minrtt"] < 100_200 and info["rtt"] >= info["minrtt"]
    assert decisions(run)[-1]["min_rtt_us"] == info["minrtt"]


def test_cc_info_in_congestion_avoidance(lab, path):
    run = lab.run(path(bytes=2_000_000, rate_mbit=5, queue_packets=20))
    assert decisions(run)[-1]["name"] in ("avoid", "held")
    assert run.json("flow-0.json")["vegas"]["enabled"] == 0


def test_ipv6(lab, path):
    run = lab.run(path(bytes=60_000, receiver=EACH_ACK, family=6))
    assert grown(run, 5) == [10, 18, 30, 43, 44]


def test_faster_than_reno_from_the_same_window(lab, path):
    """124 segments: windows of 6 45 90, two round trips less than 6 12 24 48 96."""
    size, rtt_s = 180_000, 0.6
    times = [flow_view.FlowView(lab.run(path(cc=cc, bytes=size, rtt_ms=600))).transfer_s(size)
             for cc in ("mtsi", "reno")]
    assert times[1] - times[0] == pytest.approx(2 * rtt_s, abs=0.1)


def test_hop_is_named_as_the_radio_has_it(path):
    """What radio() changes is the stage that holds delay and loss."""
    assert path(bytes=1).hops[1] == Hop("satellite", Stage(delay_ms=50))
