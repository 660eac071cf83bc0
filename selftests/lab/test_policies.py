# SPDX-License-Identifier: GPL-2.0
"""What every policy has to come through, in a real kernel over real paths.

Each situation is a scenario and a proof that it came about: a run in which the timeout never
happened says nothing about timeouts.  Whether the windows are the paper's the oracle says, of
every run there is.
"""

import itertools

import pytest

from bench.measure import flow_view
from bench.oracle import calls
from bench.paths import policies
from selftests.conftest import long, pairs_in_turn
from selftests.lab import decisions
from selftests.lab.decisions import CWR, DISORDER, LOSS, RECOVERY
from selftests.lab.situations import from_then_on

pytestmark = pytest.mark.lab

POLICIES = policies()
SACK_OFF = {"sysctl": {"net.ipv4.tcp_sack": 0}}
TIMESTAMPS_OFF = {"sysctl": {"net.ipv4.tcp_timestamps": 0}}
ECN_ON = {"sysctl": {"net.ipv4.tcp_ecn": 1}}
MOST_GAINED = 7                 # segments: of one ACK without SACK, in congestion avoidance


def events(run, *names):
    return decisions.of(run, run.scenario.flows[0].cc, *names)


def states(run):
    return {row["ca_state"] for row in events(run)}


def happened(run, *names):
    return {name: len(events(run, name)) for name in names}


def left_slow_start(run):
    assert events(run, "start", "start_exit")


def retransmitted(run):
    assert run.json("flow-0.json")["total_retrans"] and RECOVERY in states(run)


def timed_out(run):
    assert any(row["ca_state"] == LOSS for row in events(run, "state"))


def was_idle(run):
    assert len(events(run, "idle")) == 1


def was_held(run):
    """The application, not the window, was the limit."""
    count = happened(run, "held", "start", "avoid")
    assert count["held"] > 3 * (count["start"] + count["avoid"])


def reordered(run):
    assert run.json("flow-0.json")["reord_seen"] and DISORDER in states(run)


def undone(run):
    """A reduction was found needless: the next call finds the window that undo_cwnd() returned, and
    that is the one that was reduced, or satcc's W unless slow start up to W goes on."""
    cc = run.scenario.flows[0].cc
    calls_ = calls.of_run(run, {cc})[cc]
    pairs = [(call, after) for call, after in zip(calls_, calls_[1:]) if call.call == calls.UNDO]
    assert pairs
    for call, after in pairs:
        reduced = call.new.w if cc == "satcc" and not call.new.ramp else call.prior_cwnd
        assert after.cwnd_old == call.ret == max(call.cwnd_old, reduced)


def marked(run):
    info = run.json("flow-0.json")
    assert info["delivered_ce"] and CWR in states(run)
    # satcc's W is less, see test_satcc.py; the core's ssthresh means nothing to it.
    for row in events(run, "ssthresh") if run.scenario.flows[0].cc != "satcc" else []:
        assert row["ssthresh"] < row["cwnd_old"] or row["cwnd_old"] <= 2


def without_sack(run):
    """The ACK that fills a hole delivers what came in round trips before: 270 segments were seen. In
    congestion avoidance it is no reason for a burst.  satcc's window is W again, and paced."""
    assert not run.json("flow-0.json")["options"] & 2 and RECOVERY in states(run)
    for row in events(run, "avoid") if run.scenario.flows[0].cc != "satcc" else []:
        if row["ca_state"] not in (CWR, RECOVERY):
            assert row["cwnd"] - row["cwnd_old"] <= MOST_GAINED


def without_timestamps(run):
    assert not run.json("flow-0.json")["options"] & 1 and RECOVERY in states(run)


def opened_fast(run):
    """Data came with the SYN, or, of a passive sender, was asked for in it."""
    assert run.json("flow-0.json")["options"] & 32


def lost_its_syn(run):
    assert flow_view.FlowView(run).segment_s[0] > 1.5         # 1 s for the SYN again, and the RTT


def rtt_between(low_ms, high_ms):
    def check(run):
        rtts = [row["srtt_us"] / 1e3 for row in events(run, "avoid", "start")]
        assert min(rtts) == pytest.approx(low_ms, rel=0.2, abs=0.5)
        assert max(rtts) >= 0.8 * high_ms
    return check


def stretched(run):
    """ACKs for dozens of segments at once."""
    assert max(row["acked"] for row in events(run, "start", "avoid", "held")) >= 20


def flown_ipv6(run):
    assert run.scenario.mss == 1428 == run.json("flow-0.json")["snd_mss"]


SITUATIONS = {
    "start": (dict(bytes=300_000), left_slow_start),
    "loss": (dict(seconds=20, loss_pct=1), retransmitted),
    "queue": (dict(seconds=20, queue_packets=10), retransmitted),
    "timeout": (dict(seconds=30, change=[from_then_on(8, loss_pct=100), from_then_on(14)]), timed_out),
    "idle": (dict(bytes=400_000, flow={"pause_ms": 10_000}), was_idle),
    "app_limited": (dict(bytes=60_000, flow={"write_bytes": 1000, "write_ms": 200}), was_held),
    "reordering": (dict(seconds=20, line={"reorder_pct": 2}), reordered),
    "undo": (dict(seconds=20, line={"reorder_pct": 2}), undone),
    # At 2.5 s no queue has dropped anything yet: in a recovery the core does not undo.
    "spurious_timeout": (dict(seconds=14, rate_mbit=10, change=[from_then_on(2.5, delay_ms=4000),
                                                                from_then_on(8)]), undone),
    "ecn": (dict(seconds=15, loss_pct=0.5, rate_mbit=10, line={"ecn": True}, sender=ECN_ON,
                 receiver=ECN_ON), marked),
    "no_sack": (dict(seconds=20, loss_pct=1, sender=SACK_OFF), without_sack),
    "no_timestamps": (dict(seconds=20, loss_pct=1, sender=TIMESTAMPS_OFF), without_timestamps),
    "fast_open": (dict(bytes=300_000, flow={"fastopen": True}), opened_fast),
    # Linux 6.12 takes all of it before the handshake is over, and says then that nothing waits.
    "fast_open_server": (dict(bytes=300_000, flow={"fastopen": True, "passive": True,
                                                   "write_bytes": 100_000, "write_ms": 700}),
                         opened_fast),
    "server": (dict(bytes=300_000, flow={"passive": True}), left_slow_start),
    "syn_loss": (dict(bytes=300_000, loss_pct=100, change=[from_then_on(0.5)]), lost_its_syn),
    "rtt_up": (dict(seconds=30, change=[from_then_on(10, delay_ms=900)]), rtt_between(600, 1200)),
    # A link that the losses leave room on: at 2 Mbit/s hybla_full's queue may hide the shorter RTT.
    "rtt_down": (dict(seconds=30, rate_mbit=10, loss_pct=1,
                      change=[from_then_on(10, delay_ms=10, loss_pct=1)]), rtt_between(320, 600)),
    "rtt_1ms": (dict(seconds=5, rtt_ms=1, rate_mbit=10, queue_packets=20), rtt_between(1, 1)),
    "rtt_5s": (dict(seconds=40, rtt_ms=5000, rate_mbit=0.5), rtt_between(5000, 5000)),
    "stretch_acks": (dict(bytes=20_000_000, rate_mbit=0, rtt_ms=100, offload=True), stretched),
    "ipv6": (dict(seconds=20, loss_pct=1, family=6), flown_ipv6),
}


# `make check` plays satcc in each of the others; test_satcc.py has these of satcc.
OF_SATCCS_TESTS = {"loss", "timeout", "idle", "ecn", "no_sack", "rtt_up"}


@pytest.mark.parametrize("name, cc", [
    long(*case.values) if case.values[1] == "satcc" and case.values[0] in OF_SATCCS_TESTS else case
    for case in pairs_in_turn(list(itertools.product(SITUATIONS, POLICIES)), always=["satcc"])])
def test_situation(lab, geo, cc, name):
    transfer, proof = SITUATIONS[name]
    run = lab.run(geo(cc, **transfer))
    proof(run)
    flow = run.scenario.flows[0]
    if flow.bytes:
        assert flow_view.FlowView(run).transfer_s(flow.bytes), "not all of it arrived"
    else:
        assert flow_view.FlowView(run).acked_by(flow.seconds) > 20_000, "it stood still"


def tour(names):
    """A walk that changes from every name to every other, each pair once (Hierholzer)."""
    left = {name: [other for other in names if other != name] for name in names}
    path, walk = [names[0]], []
    while path:
        if left[path[-1]]:
            path.append(left[path[-1]].pop())
        else:
            walk.append(path.pop())
    return walk[::-1]


def test_switch_between_all_pairs_on_a_live_flow(lab, geo):
    """The change itself leaves cwnd alone, whoever comes before or after, and nothing is stuck."""
    names = [*POLICIES, "cubic", "bbr", "reno"]
    walk = tour(names)
    assert set(zip(walk, walk[1:])) == set(itertools.permutations(names, 2))
    run = lab.run(geo(walk[0], seconds=2 + len(walk), loss_pct=0.2,
                      changes=[[1000 * number, cc] for number, cc in enumerate(walk[1:], 1)]))
    for cc in POLICIES:
        rows = decisions.of(run, cc, "init")
        assert len(rows) == walk.count(cc)
        assert all(row["cwnd"] == row["cwnd_old"] for row in rows[1 if cc == walk[0] else 0:])
    assert flow_view.FlowView(run).acked_by(run.scenario.flows[0].seconds) > 1_000_000
