# SPDX-License-Identifier: GPL-2.0
"""westwood_abse in a real kernel, over real paths.  Whether each window, ssthresh and private field is
what the documentation says the oracle sees, of every run here."""

import dataclasses

import numpy as np
import pytest

from bench.lab.play import Lab
from bench.measure import flow_view
from bench.oracle import calls
from bench.oracle.calls import CONG_CONTROL, CWR, LOSS, OPEN, RECOVERY, SET_STATE, SSTHRESH, UNDO
from bench.oracle.core import SYN_SENT
from bench.papers import cell, experiment, plan
from bench.scenario.scenario import Flow
from selftests.conftest import KERNEL, long
from selftests.lab import decisions as account
from selftests.lab.situations import BURST, from_then_on, tail_losses

pytestmark = pytest.mark.lab

CC = "westwood_abse"
SACK_OFF = {"sysctl": {"net.ipv4.tcp_sack": 0}}
ECN_ON = {"sysctl": {"net.ipv4.tcp_ecn": 1}}
RATE_ONE = 256                  # of rates in the private bytes


def decisions(run, *names):
    return account.of(run, CC, *names)


def calls_of(run, *kinds):
    """The witness's records of the flow, from init on: those of these callbacks, or all."""
    flow_calls = calls.of_run(run, {CC})[CC]
    begun = next(n for n, call in enumerate(flow_calls) if call.call == calls.INIT)
    return [call for call in flow_calls[begun:] if not kinds or call.call in kinds]


# -- the estimate against the path ----------------------------------------------

@pytest.mark.parametrize("rate_mbit, rtt_ms", [(2, 600), long(2, 250), long(10, 100)])
def test_steady_estimate_is_the_paths_rate(lab, geo, rate_mbit, rtt_ms):
    """While the queue is never empty RE is the bottleneck's rate within 3 %, the filter within 10 %, and
    b what fills the path without a queue: the medians."""
    transfer = geo(CC, rate_mbit=rate_mbit, rtt_ms=rtt_ms, queue_bdp=1, seconds=25)
    run = lab.run(transfer)
    frames = rate_mbit * 1e6 / 8 / transfer.frame_bytes
    full = [call for call in calls_of(run, CONG_CONTROL) if call.srtt_us8 / 8 > 1.15e3 * rtt_ms]
    assert len(full) > 100
    late = full[len(full) // 2:]
    assert np.median([call.new.est_re_q8 for call in late]) / RATE_ONE == pytest.approx(frames, rel=0.03)
    assert np.median([call.new.est_bse_q8 for call in late]) / RATE_ONE == pytest.approx(frames, rel=0.1)
    assert np.median([call.new.b_pkts for call in late]) == pytest.approx(
        frames * late[-1].new.min_rtt_us / 1e6, rel=0.04, abs=2)


def test_a_full_queue_costs_the_queue(lab, geo):
    """Loss at a full drop-tail queue of one BDP: ssthresh is the path, not half of the window."""
    transfer = geo(CC, rtt_ms=100, rate_mbit=10, queue_bdp=1, seconds=15)
    run = lab.run(transfer)
    assert flow_view.queue_drops(run) > 0
    path = 10e6 / 8 / transfer.frame_bytes * 0.1
    reductions = calls_of(run, SSTHRESH)
    assert reductions
    for call in reductions:
        assert call.ret == pytest.approx(path, rel=0.06, abs=2)
        assert call.ret < 0.75 * call.cwnd_old


# 600 ms and 1 % of loss; three tests read the same run.
LOSSY = dict(rate_mbit=10, loss_pct=1, seconds=25)


def test_random_loss_leaves_the_window(lab, geo):
    """1 % on a path that is not full: the median reduction leaves the whole window, and the flow
    delivers at least three times as much as one of the kernel's Westwood."""
    run = lab.run(geo(CC, **LOSSY))
    kept = sorted(min(call.ret / call.cwnd_old, 1) for call in calls_of(run, SSTHRESH))
    assert len(kept) > 5 and kept[len(kept) // 2] > 0.95 and kept[0] >= 0.5
    westwood = lab.run(geo("westwood", trace=[], **LOSSY))
    acked = [flow_view.FlowView(each).acked_by(LOSSY["seconds"]) for each in (run, westwood)]
    assert acked[0] > 3 * acked[1], acked


# The receiver's window bounds the flow to less than what the path holds: no queue, whatever the RTT.
NO_QUEUE = {"receiver": {"window": 50_000}}


def test_path_that_becomes_longer_and_shorter_again(lab, geo):
    """500, 600 and again 500 ms, with the core's memory of the smallest RTT at 10 s instead of 300: b's
    RTT_min follows the path up within that time, and down at once."""
    sender = {"sysctl": {"net.ipv4.tcp_min_rtt_wlen": 10}}
    run = lab.run(geo(CC, rtt_ms=500, seconds=60, sender=sender, change=[
        from_then_on(15, delay_ms=350), from_then_on(40, delay_ms=250)], **NO_QUEUE))
    rtts = [(call.t_ns, call.new.min_rtt_us) for call in calls_of(run, CONG_CONTROL)]
    start = rtts[0][0]
    at = {second: [rtt for t, rtt in rtts if second <= (t - start) / 1e9 < second + 2]
          for second in (12, 30, 43)}
    assert max(at[12]) < 520_000
    assert min(at[30]) >= 600_000
    assert max(at[43]) < 520_000


def test_timeout_measures_the_path_anew(lab, geo):
    """A hand-over from 500 to 900 ms that costs a timeout: RTT_min is of the new path.  Long after,
    packets overtake each other, 750 ms at least on their way, and reductions are undone: RTT_min is not
    that of before the timeout."""
    overtake = "tc -n satellite qdisc change dev right root netem limit 10000 delay 650ms 150ms"
    run = lab.run(geo(CC, rtt_ms=500, seconds=45, commands=[f"sleep 30; {overtake}"], change=[
        from_then_on(8, loss_pct=100), from_then_on(13, delay_ms=650)], **NO_QUEUE))
    records = calls_of(run)
    timeout = next(call for call in records if call.call == SET_STATE and call.arg == LOSS)
    undone = [call for call in records if call.call == UNDO and call.t_ns > timeout.t_ns + 15e9]
    assert undone
    for call in undone:
        assert call.old.min_rtt_us >= 740_000 and call.new.min_rtt_us >= 740_000
    assert records[-1].new.min_rtt_us >= 740_000 and not records[-1].new.min_rtt_prior_us


def test_a_timeout_in_recovery_measures_the_path_anew(lab, geo):
    """With random loss the outage comes in Recovery, in which the core does not ask for a reduction.
    Nevertheless Astart begins, and RTT_min is of the new, longer path."""
    for seed in range(1, 6):            # with some seeds the outage comes between two recoveries
        run = lab.run(geo(CC, rate_mbit=10, rtt_ms=500, loss_pct=2, seconds=25, seed=seed, change=[
            from_then_on(8, loss_pct=100), from_then_on(11, delay_ms=650, loss_pct=2)]))
        timeout = next(call for call in calls_of(run, SET_STATE) if call.arg == LOSS)
        if timeout.ca_state_old == RECOVERY:
            break
    assert timeout.ca_state_old == RECOVERY and not timeout.old.reduced and timeout.new.astart
    last = calls_of(run, CONG_CONTROL)[-1]
    assert last.new.min_rtt_us >= 890_000 and last.t_ns > timeout.t_ns + 10e9


# -- why something was lost -------------------------------------------------------

def probe_repairs(run):
    """Each tail loss that a probe has repaired: CWR is entered and left within one ACK."""
    flow_calls = [call for call in calls_of(run) if call.call in (SSTHRESH, SET_STATE, CONG_CONTROL)]
    return [tuple(flow_calls[n:n + 4]) for n, call in enumerate(flow_calls[:-3])
            if call.call == SSTHRESH
            and flow_calls[n + 1].call == SET_STATE and flow_calls[n + 1].arg == CWR
            and flow_calls[n + 2].call == SET_STATE and flow_calls[n + 2].arg < CWR]


@pytest.mark.parametrize("before", [(), ((3, 4),)], ids=["first loss", "after a recovery"])
def test_a_tail_loss_sets_the_estimate(lab, geo, before):
    """The last segment of a burst is lost, and a probe repairs it.  The window becomes the estimate, and
    not 80 % of what it was, whether the flow has had a loss before or not."""
    run = tail_losses(lab, geo, CC, 9, [*before, (6, BURST - 1)])
    assert flow_view.link_losses(run) == 1 + len(before)
    [(asked, entered, left, after)] = probe_repairs(run)[-1:]
    assert bool([call for call in calls_of(run, SET_STATE) if call.arg == RECOVERY]) == bool(before)
    assert after.cwnd >= min(asked.cwnd_old, asked.old.b_pkts) > 0.8 * asked.cwnd_old
    assert left.ssthresh >= asked.old.b_pkts


def test_a_mark_reduces(lab, geo):
    """ECN, on a path that bears the window: at most 80 % of it is left within a round trip, and nothing
    grows back before the marked flight is over."""
    run = lab.run(geo(CC, seconds=30, rate_mbit=10, loss_pct=0.5, line={"ecn": True},
                      sender=ECN_ON, receiver=ECN_ON))
    flow_calls = calls_of(run)
    marks = [n for n, call in enumerate(flow_calls)
             if call.call == SET_STATE and call.arg == CWR and call.ca_state_old < CWR]
    assert run.json("flow-0.json")["delivered_ce"] and len(marks) > 3
    for n in marks:
        ended = next((call for call in flow_calls[n + 1:] if call.call == SET_STATE), None)
        if ended and ended.arg == OPEN:
            assert ended.cwnd <= max(flow_calls[n].cwnd_old * 80 // 100, 2)
            assert ended.ssthresh <= max(flow_calls[n].cwnd_old * 80 // 100, 2)


def test_a_mark_in_recovery_reduces(lab, geo):
    """0.1 s without a packet begin a recovery that the estimate bears; of what comes a moment later,
    when the recovery has begun, a fifth is marked.  The core does not ask for an ssthresh again: at
    most 80 % of the window before is left."""
    run = lab.run(geo(CC, seconds=15, rate_mbit=10, sender=ECN_ON, receiver=ECN_ON, change=[
        from_then_on(3.6, loss_pct=100), from_then_on(3.7),
        from_then_on(3.85, loss_pct=20, ecn=True), from_then_on(4.6)]))
    acks = [call for call in calls_of(run, CONG_CONTROL)
            if call.ca_state_old == RECOVERY and call.new.marked and not call.old.marked]
    assert run.json("flow-0.json")["delivered_ce"] and acks
    for call in acks:
        assert call.ssthresh <= max(call.prior_cwnd * 80 // 100, 2) < call.old.b_pkts
        ended = next(after for after in calls_of(run, SET_STATE) if after.t_ns > call.t_ns)
        assert ended.cwnd <= call.prior_cwnd * 80 // 100


def test_a_full_queue_of_this_host_reduces(lab, geo):
    """The sender's own queue holds a packet and drops the next: congestion that no ACK tells of."""
    run = lab.run(geo(CC, rate_mbit=10, rtt_ms=100, seconds=10, capture=False, before=[
        "tc -n sender qdisc add dev right root tbf rate 5mbit burst 1600 limit 1600"]))
    entered = [call for call in calls_of(run, SET_STATE) if call.arg == CWR and not call.old.in_ack]
    assert entered
    for call in entered:
        assert call.ssthresh <= max(call.prior_cwnd * 80 // 100, 2) and not call.new.tolerate


# -- the window ---------------------------------------------------------------------

@pytest.mark.parametrize("path", [
    long(LOSSY),
    dict(**LOSSY, sender=SACK_OFF),
    long(dict(seconds=20, rate_mbit=10, rtt_ms=100, queue_bdp=0.2)),
    dict(seconds=30, change=[from_then_on(8, loss_pct=30), from_then_on(12)]),
], ids=["loss", "no SACK", "short queue", "much loss"])
def test_growth_is_bounded_by_the_flight(lab, geo, path):
    """One ACK adds no more than it acknowledged, without SACK no more than two; and a window that grows
    in recovery is at most twice what is in flight and was just delivered.  Where more is in flight than
    the window, the window is that, and at most half of what was delivered goes out."""
    run = lab.run(geo(CC, **path))
    grown = [call for call in calls_of(run, CONG_CONTROL) if call.cwnd > call.cwnd_old]
    in_recovery = [call for call in grown if call.ca_state == RECOVERY]
    assert len(grown) > 20 and RECOVERY in {call.ca_state for call in calls_of(run, CONG_CONTROL)}
    for call in grown:
        counted = call.rs_acked_sacked if call.sack_ok else min(call.rs_acked_sacked, 2)
        above = max(call.cwnd_old, call.in_flight_old if call.ca_state == RECOVERY else 0)
        assert call.cwnd - above <= max(counted, 1)
    for call in in_recovery:
        assert call.cwnd <= 2 * (call.in_flight_old + call.rs_acked_sacked)


def test_slow_start_goes_on_in_recovery(lab, geo):
    """1 % at 10 Mbit/s: a recovery in which the flight grows by half at least; the core's never grows.
    In six runs the most was 1.89 to 2.38 times, and in a seventh less than 1.5: three seeds have one."""
    grown = 0
    for seed in range(1, 4):
        entered = None
        for call in calls_of(lab.run(geo(CC, **LOSSY, seed=seed))):
            if call.call == SET_STATE:
                entered = call.cwnd_old if call.arg == RECOVERY else None
            elif entered and call.in_flight_old >= 1.5 * entered:
                grown, entered = grown + 1, None
    assert grown


def test_a_fade_costs_no_more_than_renos(lab, geo):
    """1.5 s without a packet at 5 s: in the 13.5 s after it at least what Reno sends."""
    path = dict(rate_mbit=10, seconds=20, change=[from_then_on(5, loss_pct=100), from_then_on(6.5)])
    ours, renos = (flow_view.FlowView(lab.run(geo(cc, trace=[], **path))) for cc in (CC, "reno"))
    got = [view.acked_by(20) - view.acked_by(6.5) for view in (ours, renos)]
    assert got[0] >= got[1], got


# -- Astart -------------------------------------------------------------------------

def test_astart_from_the_initial_window(lab, geo):
    """ssthresh is 20 from the first ACK on, and the path is found from the first flight: 100 segments at
    2 Mbit/s and 600 ms."""
    run = lab.run(geo(CC, bytes=300_000, receiver={"quickack": 1}))
    first = calls_of(run, calls.INIT)[0]
    assert first.ssthresh == first.ssthresh_old == 0x7FFFFFFF and first.cwnd == 10
    acks = calls_of(run, CONG_CONTROL)
    assert acks[0].ssthresh == 20
    raised = next(call for call in acks[1:] if call.ssthresh > call.ssthresh_old)
    assert raised.ssthresh == raised.new.b_pkts and 95 <= raised.ssthresh <= 105


def test_the_start_loses_nothing(lab, geo):
    """10 MB at 2 Mbit/s and 600 ms with a queue of one BDP: the start, which costs Reno 200 drops, costs
    none; the two there are come when linear growth has filled the queue; and it is no slower."""
    ours, renos = (lab.run(geo(cc, bytes=10_000_000, trace=[])) for cc in (CC, "reno"))
    assert flow_view.queue_drops(ours) <= 5 < 100 < flow_view.queue_drops(renos)
    assert flow_view.FlowView(ours).transfer_s(10_000_000) <= \
        1.01 * flow_view.FlowView(renos).transfer_s(10_000_000)


def test_timeout_begins_astart(lab, geo):
    """Six seconds without a packet: ssthresh is the estimate of before, the flow comes back to it."""
    run = lab.run(geo(CC, seconds=40, change=[from_then_on(8, loss_pct=100), from_then_on(14)]))
    timeouts = [call for call in calls_of(run, SET_STATE) if call.arg == LOSS]
    assert timeouts and all(call.new.astart for call in timeouts)
    assert 80 <= timeouts[0].ssthresh <= 130
    assert flow_view.FlowView(run).acked_by(40) > flow_view.FlowView(run).acked_by(16) + 3_500_000


# -- what is no sample, and what no loss --------------------------------------------

def test_idleness_is_no_sample(lab, geo):
    """Ten seconds of nothing: the estimate is what it was, and the window is down to 10 segments."""
    run = lab.run(geo(CC, bytes=1_000_000, flow={"pause_ms": 10_000}))
    flow_calls = calls_of(run)
    [begun] = [n for n, call in enumerate(flow_calls)
               if call.call in (calls.CWND_EVENT, calls.TX_START_EVENT) and call.cwnd < call.cwnd_old]
    assert flow_calls[begun].cwnd == 10 and not flow_calls[begun].new.est_running
    assert flow_calls[begun].ssthresh >= flow_calls[begun].cwnd_old * 3 // 4
    after = [call for call in flow_calls[begun:] if call.call == CONG_CONTROL][:20]
    assert all(call.new.est_bse_q8 > 0.8 * flow_calls[begun].old.est_bse_q8 for call in after)


def test_a_slow_application_is_no_sample(lab, geo):
    """1000 bytes every 200 ms say nothing about a path of 2 Mbit/s: no estimate, no growth."""
    run = lab.run(geo(CC, bytes=60_000, flow={"write_bytes": 1000, "write_ms": 200}))
    assert flow_view.FlowView(run).transfer_s(60_000)
    acks = calls_of(run, CONG_CONTROL)
    assert len(acks) > 20 and not any(call.new.b_pkts for call in acks)
    assert acks[-1].cwnd == 10


def test_undo_gives_the_window_back(lab, geo):
    """Packets overtake others: what looks like loss is undone, and what follows starts from there."""
    run = lab.run(geo(CC, seconds=20, line={"reorder_pct": 2}))
    flow_calls = calls_of(run)
    undone = [n for n, call in enumerate(flow_calls[:-1]) if call.call == UNDO]
    assert undone
    for n in undone:
        assert flow_calls[n + 1].cwnd_old == flow_calls[n].ret == max(
            flow_calls[n].cwnd_old, flow_calls[n].prior_cwnd)
        assert flow_calls[n + 1].ssthresh_old == flow_calls[n].prior_ssthresh
        after = next(call for call in flow_calls[n + 1:] if call.call in (CONG_CONTROL, SSTHRESH))
        assert after.cwnd_old >= flow_calls[n].ret


def test_an_undone_timeout_leaves_nothing_behind(lab, geo):
    """4 s more delay, after which the first ACK tells that nothing was lost: window, ssthresh, Astart
    and RTT_min are what they were."""
    run = lab.run(geo(CC, seconds=30, change=[from_then_on(8, delay_ms=4000), from_then_on(15)]))
    flow_calls = calls_of(run)
    undone = [n for n, call in enumerate(flow_calls) if call.call == UNDO]
    assert undone
    for n in undone:
        asked = [call for call in flow_calls[:n] if call.call == SSTHRESH][-1]
        after = next(call for call in flow_calls[n + 1:] if call.call == CONG_CONTROL)
        assert after.cwnd_old >= asked.cwnd_old
        assert after.ssthresh_old == flow_calls[n].prior_ssthresh
        assert after.old.astart == asked.old.astart
        assert after.old.min_rtt_us <= asked.old.min_rtt_us       # not the 4.6 s of the timeout


# -- sockets --------------------------------------------------------------------------

def test_pacing_rate_is_the_windows(lab, geo):
    """In the capture: of every 100 segments sent for the first time in congestion avoidance no run is
    faster than 1.2 windows a round trip by more than a fifth."""
    run = lab.run(geo(CC, rate_mbit=10, seconds=15))
    view = flow_view.FlowView(run)
    late = view.segment_s[(view.segment_s > 10) & ~view.is_retransmit]
    spans = late[100:] - late[:-100]
    last = calls_of(run, CONG_CONTROL)[-1]
    fastest = 1.2 * last.cwnd / (last.srtt_us8 / 8e6)
    assert len(spans) > 1000 and np.quantile(100 / spans, 0.99) < 1.2 * fastest


def test_switching_back_and_forth(lab, geo):
    """Forty changes on a live flow; cwnd is left alone."""
    changes = [[1000 + 250 * n, CC if n % 2 else "reno"] for n in range(40)]
    run = lab.run(geo(CC, bytes=3_000_000, changes=changes))
    inits = decisions(run, "init")
    assert len(inits) - (inits[0]["tcp_state"] == SYN_SENT) == 21
    assert all(row["cwnd"] == row["cwnd_old"] for row in inits)
    assert flow_view.FlowView(run).transfer_s(3_000_000)


def test_cc_info_has_the_window_and_the_smallest_rtt(lab, geo):
    info = lab.run(geo(CC, bytes=1_000_000)).json("flow-0.json")["vegas"]
    assert info["enabled"] == 1 and 80 <= info["rttcnt"] <= 110
    assert 600_000 <= info["minrtt"] < 606_000 and info["rtt"] >= info["minrtt"]


def shares(lab, transfer, seeds=(1, 2, 3), start_s=20):
    """Bytes of each flow after start_s, by seed."""
    seconds = transfer.flows[0].seconds
    for seed in seeds:
        run = lab.run(dataclasses.replace(transfer, seed=seed))
        views = [flow_view.FlowView(run, number) for number in range(len(transfer.flows))]
        yield [view.acked_by(seconds) - view.acked_by(start_s) for view in views]


@pytest.mark.long
def test_four_flows_share(lab, geo):
    """Jain's index of four of them over the last minute of 80 s: 0.95 at least, the median of
    three seeds (Reno here has 0.96, the kernel's Westwood 0.97)."""
    transfer = geo(CC, rate_mbit=10, rtt_ms=200, seconds=80, trace=[])
    transfer = dataclasses.replace(transfer, flows=tuple(Flow(CC, seconds=80) for _ in range(4)))
    indices = [sum(got) ** 2 / (4 * sum(share ** 2 for share in got)) for got in shares(lab, transfer)]
    assert sorted(indices)[1] >= 0.95, indices


@pytest.mark.long
@pytest.mark.parametrize("queue, seeds, most", [("1 BDP", 3, 1), ("0.1 BDP", 15, 5)])
def test_two_beside_two_cubic(queue, seeds, most):
    """At 250 ms two of them get at most `most` times what two cubic flows get: the median of the seeds
    of the goal's cell, whose ACKs have jitter.  In the short queue fifteen seeds have 3.3 to 6.5 times,
    so a median of few seeds is chance."""
    goal, = (one for one in experiment.load_all(["satcc"]) if one.name == "two-beside-two")
    flows, = goal.matching({"queue": queue, "TCP": CC})
    lab = Lab(KERNEL, plan.extras([goal]))
    ratios = [cell.value_of(lab, goal, flows, seed)[0] for seed in range(seeds)]
    assert np.median(ratios) <= most, ratios
