# SPDX-License-Identifier: GPL-2.0
"""westwood_abse in a real kernel, over real paths."""

import dataclasses
from fractions import Fraction

import pytest

from bench.lab import measure
from bench.lab.scenario import Flow
from selftests.lab import decisions as account

pytestmark = pytest.mark.lab

CC = "westwood_abse"
START, BLIND, TRAIN, SAMPLE, COARSE = range(1, 6)
RECOVERY, LOSS = 3, 4
INFINITE = 0x7FFFFFFF
Q16, Q20 = 1 << 16, 1 << 20


def decisions(run, *names):
    return account.of(run, CC, *names)


def samples(run, *outcomes):
    """From the event init on: before it the handshake's ACK may have started the clock."""
    times, records = run.events[f"satcc:{CC}_sample"]
    fields = [field for field in records.dtype.names if not field.startswith("common_")]
    found = [{**dict(zip(fields, values)), "t_s": time / 1e9}
             for time, values in zip(times.tolist(), records[fields].tolist())]
    begun = decisions(run, "init")[0]["t_s"]
    return [row for row in found
            if row["t_s"] >= begun and row["outcome"] in (outcomes or range(1, 6))]


def on_satellite(after_s, netem, delay_ms=300):
    """A command that changes what the satellite does to packets."""
    return (f"sleep {after_s}; tc -n satellite qdisc change dev right root handle 1: "
            f"netem limit 10000 delay {delay_ms}ms {netem}")


# -- every event by itself ----------------------------------------------------

PATHS = {
    "queue": dict(bytes=3_000_000),
    "loss": dict(seconds=30, loss_pct=1, rate_mbit=10),
    "short": dict(seconds=5, rtt_ms=10, rate_mbit=10, queue_packets=20),
    "outage": dict(seconds=40, commands=[on_satellite(8, "loss 100%"), on_satellite(14, "")]),
    "no_sack": dict(seconds=20, loss_pct=1, sender={"sysctl": {"net.ipv4.tcp_sack": 0}}),
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_every_estimate_follows_the_equations(lab, geo, path):
    """s, U, tau, alpha, BSE, T redone in fractions from the event's own terms, and each event
    takes up where the one before left off; within what abse.h says fixed point may be off."""
    last, checked = None, 0
    for row in samples(lab.run(geo(CC, **path))):
        if last:
            assert (row["bse_old_q16"], row["s_old_q16"]) == (last["bse_q16"], last["s_q16"])
        if last and row["outcome"] not in (START, BLIND):
            assert (row["dt_us"], row["pkts"]) == (row["t_us"] - last["t_us"],
                                                   row["delivered"] - last["delivered"])
            assert row["interval_us"] == last["next_us"]
        if row["outcome"] == SAMPLE:
            checked += 1
            assert row["dt_us"] >= row["interval_us"]
            estimate(row)
        if row["outcome"] != START:
            through = Fraction(max(row["bse_q16"], row["re_q16"]) * row["min_rtt_us"], Q16 * 10 ** 6)
            assert abs(row["b"] - max(through, 2 if row["b"] else 0)) <= \
                Fraction(1, 2) + Fraction(row["min_rtt_us"], 256 * 10 ** 6)
        last = row
    assert checked > 20


def estimate(row):
    """The equations, for one sample."""
    s = Fraction(row["pkts"] * 10 ** 6, row["dt_us"])
    assert 0 <= s * Q16 - row["s_q16"] < 1
    assert 0 <= Fraction(row["re_pkts"] * 10 ** 6, row["re_window_us"]) * Q16 - row["re_q16"] < 1
    assert abs(Fraction(3 * row["th_old_q16"] + 2 * row["re_q16"], 5) - row["th_q16"]) < 1
    change = abs(row["s_q16"] - row["s_old_q16"])
    assert abs(Fraction(3 * row["u_old_q16"] + 2 * change, 5) - row["u_q16"]) < 1
    part = Fraction(row["u_q16"], row["u_max_q16"]) if row["u_max_q16"] else 0
    tau = row["rtt_us"] * (1 + 10 * (1 if row["astart"] else part))
    assert 0 <= tau - row["tau_us"] < 1 + Fraction(10 * row["rtt_us"], Q16)
    alpha = max(Fraction(2 * row["tau_us"] - row["dt_us"], 2 * row["tau_us"] + row["dt_us"]), 0)
    assert 0 <= alpha - Fraction(row["alpha_q20"], Q20) < Fraction(1, Q20)
    bse = alpha * row["bse_old_q16"] + (1 - alpha) * row["s_q16"]
    assert abs(bse - row["bse_q16"]) <= \
        Fraction(1, 2) + Fraction(abs(row["s_q16"] - row["bse_old_q16"]), Q20)
    t_min = max(row["rtt_us"] // 8, 1000)
    through = Fraction(row["th_q16"] * row["min_rtt_us"], Q16 * 10 ** 6)
    interval = row["rtt_us"] * (row["cwnd"] - through) / row["cwnd"]
    error = row["rtt_us"] * (Fraction(row["min_rtt_us"], 256 * 10 ** 6) + Fraction(1, 256))
    assert max(interval, t_min) - 1 <= row["next_us"] <= \
        max(interval + error / row["cwnd"], t_min)


def reno(row):
    """(cwnd, cnt) after the ACK of a growth event, segment by segment."""
    cwnd, cnt, acked = row["cwnd_old"], row["cnt_old"], row["acked"]
    if cwnd < row["ssthresh"]:
        step = min(acked, row["ssthresh"] - cwnd)
        cwnd, acked = cwnd + step, acked - step
    if acked:
        if cnt >= cwnd:
            cnt, cwnd = 0, cwnd + 1
            price = cwnd - 1
        else:
            price = cwnd
        cnt += acked
        cwnd, cnt = cwnd + cnt // price, cnt % price
    return cwnd, cnt


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_every_decision_follows_its_event(lab, geo, path):
    """Growth is Reno's; ssthresh is b, within the window; nothing else moves."""
    seen = set()
    for row in decisions(lab.run(geo(CC, **path))):
        seen.add(row["name"])
        if row["name"] in ("start", "avoid", "start_exit"):
            assert (row["cwnd"], row["cnt"]) == reno(row), row
        elif row["name"] != "undo":
            assert row["cwnd"] == row["cwnd_old"], row
        if row["name"] == "ssthresh":
            wanted = min(row["b"], row["cwnd_old"]) if row["b"] else row["cwnd_old"] // 2
            assert not row["mark"] and row["ssthresh"] == max(wanted, 2), row
        elif row["name"] in ("astart", "timeout", "complete", "resume", "init"):
            allowed = {"init": 10, "timeout": row["loss_b"]}.get(row["name"], row["b"])
            assert row["ssthresh"] in (row["ssthresh_old"], allowed) or row["blind"] or \
                row["name"] == "resume" and row["ssthresh"] == min(
                    row["b"], row["ssthresh_old"] + row["loss_delivered"]), row
        else:
            assert row["ssthresh"] == row["ssthresh_old"], row
    assert {"init", "avoid"} <= seen


# -- the estimate against the path --------------------------------------------

@pytest.mark.parametrize("rate_mbit, rtt_ms", [(2, 600), (2, 250), (10, 100)])
def test_steady_estimate_is_the_paths_rate(lab, geo, rate_mbit, rtt_ms):
    """While the queue is never empty the estimate is the bottleneck's rate within 3 %, and b what
    fills the path without a queue."""
    made = geo(CC, rate_mbit=rate_mbit, rtt_ms=rtt_ms, queue_bdp=1, seconds=25)
    run = lab.run(made)
    frames = rate_mbit * 1e6 / 8 / made.frame_bytes
    full = [row for row in samples(run, SAMPLE) if row["rtt_us"] > 1.2e3 * rtt_ms]
    assert len(full) > 20
    for row in full[len(full) // 2:]:
        assert row["bse_q16"] / Q16 == pytest.approx(frames, rel=0.03)
        assert row["b"] == pytest.approx(frames * row["min_rtt_us"] / 1e6, rel=0.04, abs=2)


def test_a_full_queue_costs_the_queue(lab, geo):
    """Loss at a full drop-tail queue of one BDP: ssthresh is the path, not half of the window."""
    made = geo(CC, rtt_ms=100, rate_mbit=10, queue_bdp=1, seconds=40)
    run = lab.run(made)
    assert measure.queue_drops(run) > 0
    reductions = decisions(run, "ssthresh")
    path = 10e6 / 8 / made.frame_bytes * 0.1
    assert reductions
    for row in reductions:
        assert row["ssthresh"] == pytest.approx(path, rel=0.06, abs=2)
        assert row["ssthresh"] < 0.75 * row["cwnd_old"]


def test_random_loss_leaves_the_window(lab, geo):
    """1 % on a path that is not full: in congestion avoidance no reduction is near one half (in
    slow start the window is twice what the last round trip delivered), and the kernel's own
    Westwood, for what that is worth, gets a third of it."""
    path = dict(rate_mbit=10, loss_pct=1, seconds=40)
    run = lab.run(geo(CC, **path))
    kept = [row["ssthresh"] / row["cwnd_old"] for row in decisions(run, "ssthresh")
            if row["cwnd_old"] >= row["ssthresh_old"]]
    assert len(kept) > 5 and sorted(kept)[len(kept) // 2] > 0.9 and min(kept) > 0.55
    theirs = lab.run(geo("westwood", **path))
    assert measure.FlowView(run).acked_by(40) > 3 * measure.FlowView(theirs).acked_by(40)


# -- Astart -------------------------------------------------------------------

def test_astart_from_the_initial_window(lab, geo):
    """ssthresh is 10 right after init, rises with the estimate and never above it; the path is
    found from the first flight: 100 segments at 2 Mbit/s and 600 ms."""
    run = lab.run(geo(CC, bytes=300_000, receiver={"quickack": 1}))
    begun = [row for row in decisions(run) if row["t_s"] >= decisions(run, "init")[0]["t_s"]]
    assert begun[0]["name"] == "init" and begun[0]["ssthresh_old"] == INFINITE
    assert begun[0]["ssthresh"] == begun[0]["cwnd"] == 10 and begun[0]["astart"] == 1
    raised = decisions(run, "astart")
    assert raised and all(row["ssthresh"] == row["b"] > row["ssthresh_old"] for row in raised)
    most = max(row["b"] for row in begun)
    assert all(row["ssthresh"] <= max(most, 10) for row in begun)
    assert 95 <= raised[0]["ssthresh"] <= 105


def test_astart_can_be_had_without(lab, geo):
    run = lab.run(geo(CC, bytes=300_000, modules={f"tcp_{CC}": {"astart": 0}}))
    assert decisions(run, "init")[0]["ssthresh"] == INFINITE and not decisions(run, "astart")


def test_timeout_sets_ssthresh_and_astart(lab, geo):
    """Six seconds without a packet: the window is 1, ssthresh the estimate of before, Astart
    begins, RTT_min is measured again; and the flow comes back."""
    run = lab.run(geo(CC, **PATHS["outage"]))
    timeouts = [row for row in decisions(run, "timeout") if row["b"]]
    assert timeouts
    for row in timeouts:
        assert row["astart"] == 1 and row["ca_state"] == LOSS
        assert row["ssthresh"] == max(row["ssthresh_old"], row["loss_b"]) >= 2
    first = timeouts[0]
    assert first["cwnd_old"] <= 2 and 60 <= first["ssthresh"] <= 130
    assert measure.FlowView(run).acked_by(40) > measure.FlowView(run).acked_by(16) + 2_000_000


# -- what is no sample, and what no loss --------------------------------------

def test_idleness_is_no_sample(lab, geo):
    """Ten seconds of nothing: the clock starts anew, no estimate is made of the pause."""
    made = geo(CC, bytes=1_000_000)
    run = lab.run(dataclasses.replace(made, flows=(
        dataclasses.replace(made.flows[0], pause_ms=10_000),)))
    assert len(decisions(run, "idle")) == 1
    starts = [row for row in samples(run, START) if row["stopped"]]
    assert starts and starts[0]["stopped"] in (1, 2)
    assert all(row["dt_us"] < 2_000_000 for row in samples(run, TRAIN, SAMPLE))
    before = [row for row in samples(run, SAMPLE) if row["t_us"] < starts[-1]["t_us"]][-1]
    assert starts[-1]["bse_q16"] == before["bse_q16"]


def test_a_slow_application_is_no_sample(lab, geo):
    """1000 bytes every 200 ms say nothing about a path of 2 Mbit/s: no estimate at all, and so
    none that a later loss would be answered from."""
    run = lab.run(geo(CC, bytes=60_000, flow={"write_bytes": 1000, "write_ms": 200}))
    assert measure.FlowView(run).transfer_s(60_000) and len(decisions(run)) > 20
    assert not samples(run, TRAIN, SAMPLE) and not any(row["b"] for row in decisions(run))


def test_undo_gives_the_window_back(lab, geo):
    """Packets overtake others: what looks like loss is undone, and nothing set afterwards."""
    run = lab.run(geo(CC, seconds=20, commands=[on_satellite(0, "reorder 2%")]))
    found = decisions(run)
    undone = [n for n, row in enumerate(found) if row["name"] == "undo"]
    assert undone
    for n in undone:
        assert found[n]["cwnd"] >= found[n]["cwnd_old"] and found[n]["loss_b"] == 0
        after = next((row for row in found[n + 1:] if row["name"] in
                      ("complete", "ssthresh", "start", "avoid", "held")), None)
        if after and after["name"] == "complete":
            assert after["ssthresh"] == after["ssthresh_old"]
            assert after["cwnd"] >= found[n]["cwnd_old"]


def test_a_mark_reduces(lab, geo):
    """ECN, on a path that bears the window: at most 80 % of it is left."""
    ecn = {"sysctl": {"net.ipv4.tcp_ecn": 1}}
    run = lab.run(geo(CC, seconds=30, rate_mbit=10, sender=ecn, receiver=ecn,
                      commands=[on_satellite(0, "loss random 0.5% ecn")]))
    marked = [row for row in decisions(run, "ssthresh") if row["mark"]]
    assert run.json("flow-0.json")["delivered_ce"] and marked
    for row in marked:
        assert row["ssthresh"] <= max(row["cwnd_old"] * 80 // 100, 2) and row["loss_b"] == 0
    assert all(row["ssthresh"] == row["ssthresh_old"] for row in decisions(run, "complete"))


def test_a_mark_in_recovery_reduces(lab, geo):
    """0.1 s without a packet begin a recovery that the estimate bears; of what comes a moment later,
    when the recovery has begun, a fifth is marked.  The core does not ask for an ssthresh again: 80 %
    of the window before is left."""
    ecn = {"sysctl": {"net.ipv4.tcp_ecn": 1}}
    run = lab.run(geo(CC, seconds=15, rate_mbit=10, sender=ecn, receiver=ecn, commands=[
        on_satellite(8, "loss 100%"), on_satellite(8.1, ""), on_satellite(8.25, "loss random 20% ecn"),
        on_satellite(9, "")]))
    marked = decisions(run, "marked")
    assert run.json("flow-0.json")["delivered_ce"] and marked
    for row in marked:
        asked = [one for one in decisions(run, "ssthresh") if one["t_s"] < row["t_s"]][-1]
        assert not asked["mark"] and row["loss_b"] == 0
        assert row["ssthresh"] <= max(asked["cwnd_old"] * 80 // 100, 2)
    assert any(row["ssthresh"] < row["ssthresh_old"] for row in marked)


def test_an_undone_timeout_leaves_nothing_behind(lab, geo):
    """4 s more delay, after which the first ACK tells that nothing was lost: window, ssthresh and
    Astart are what they were, and RTT_min is no longer."""
    run = lab.run(geo(CC, seconds=30, commands=[on_satellite(8, "", 4000), on_satellite(15, "")]))
    found = decisions(run)
    undone = [n for n, row in enumerate(found) if row["name"] == "undo"]
    assert undone
    for n in undone:
        asked = [row for row in found[:n] if row["name"] == "ssthresh"][-1]
        after = next(row for row in found[n + 1:] if row["name"] in ("start", "avoid", "held"))
        assert found[n]["cwnd"] >= asked["cwnd_old"]
        assert after["ssthresh_old"] == asked["ssthresh_old"]
        assert after["astart"] == asked["astart"]
        assert after["min_rtt_us"] <= asked["min_rtt_us"]       # not the 4.6 s of the timeout


def test_an_undone_timeout_takes_its_ssthresh_back(lab, geo):
    """After a loss there is an ssthresh; at the timeout b is above it, and above three quarters of the
    window, which is what the core has put by.  The core only restores an ssthresh that is above the
    present one; the timeout's is to go all the same."""
    run = lab.run(geo(CC, seconds=30, rate_mbit=10, modules={f"tcp_{CC}": {"astart": 0}}, commands=[
        on_satellite(3, "loss 100%"), on_satellite(3.05, ""), on_satellite(18, "", 4000),
        on_satellite(25, "")]))
    found = decisions(run)
    undone = [n for n, row in enumerate(found) if row["name"] == "undo"]
    raised = 0
    for n in undone:
        asked = [row for row in found[:n] if row["name"] == "ssthresh"][-1]
        kept = max(asked["ssthresh_old"], asked["cwnd_old"] // 2 + asked["cwnd_old"] // 4)
        after = next(row for row in found[n + 1:] if row["name"] in ("start", "avoid", "held"))
        raised += found[n]["ssthresh_old"] > kept
        assert after["ssthresh_old"] == kept
    assert raised


def test_without_memory_for_a_history(lab, geo):
    """history=0 is what a failed allocation leaves: one sample a round trip, same rules."""
    run = lab.run(geo(CC, seconds=30, loss_pct=0.5, modules={f"tcp_{CC}": {"history": 0}}))
    taken = samples(run)
    assert not any(row["history"] for row in taken)
    assert {row["outcome"] for row in taken} <= {START, BLIND, TRAIN, COARSE}
    coarse = [row for row in taken if row["outcome"] == COARSE]
    assert len(coarse) > 10
    assert all(row["dt_us"] >= row["interval_us"] and row["next_us"] == row["rtt_us"]
               for row in coarse)
    assert all(row["tau_us"] == row["rtt_us"] * (11 if row["astart"] else 1) for row in coarse)
    assert 50 <= coarse[-1]["b"] <= 110
    assert measure.FlowView(run).goodput_mbit(30) > 0.7      # Reno: 0.3


# -- sockets ------------------------------------------------------------------

def test_switching_back_and_forth(lab, geo):
    """Forty changes on a live flow, each with a history of its own; cwnd is left alone."""
    changes = [[1000 + 250 * n, CC if n % 2 else "reno"] for n in range(40)]
    run = lab.run(geo(CC, bytes=3_000_000, changes=changes))
    inits = decisions(run, "init")
    assert len(inits) == 21 and all(row["history"] for row in inits)
    assert all(row["cwnd"] == row["cwnd_old"] for row in inits)
    assert measure.FlowView(run).transfer_s(3_000_000)


def test_cc_info_tells_the_window_and_the_smallest_rtt(lab, geo):
    said = lab.run(geo(CC, bytes=1_000_000)).json("flow-0.json")["vegas"]
    assert said["enabled"] == 1 and 80 <= said["rttcnt"] <= 110
    assert 600_000 <= said["minrtt"] < 606_000 and said["rtt"] >= said["minrtt"]


def test_four_flows_share(lab, geo):
    """Jain's index of four of them over the last minute of 80 s: 0.95 at least, the median of
    three seeds (Reno here has 0.96, the kernel's Westwood 0.97)."""
    made = geo(CC, rate_mbit=10, rtt_ms=200, seconds=80, trace=[])
    made = dataclasses.replace(made, flows=tuple(Flow(CC, seconds=80) for _ in range(4)))
    indices = []
    for seed in (1, 2, 3):
        views = [measure.FlowView(run, number) for run in [lab.run(dataclasses.replace(made, seed=seed))]
                 for number in range(4)]
        got = [view.acked_by(80) - view.acked_by(20) for view in views]
        indices.append(sum(got) ** 2 / (4 * sum(share ** 2 for share in got)))
    assert sorted(indices)[1] >= 0.95, indices
