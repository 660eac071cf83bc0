# SPDX-License-Identifier: GPL-2.0
"""satcc in a real kernel, over real paths: what it does at an ACK, by the witness's records."""

import dataclasses
import itertools

import numpy as np
import pytest

from bench import oracle
from bench.lab.play import Lab
from bench.measure import fairness, flow_view
from bench.oracle import calls
from bench.oracle.calls import (
    CONG_CONTROL, CWND_EVENT, CWR, LOSS, RECOVERY, SET_STATE, TX_START, TX_START_EVENT, UNDO)
from bench.scenario import scenario
from bench.scenario.scenario import FIRST_PORT
from selftests.conftest import KERNEL, long
from selftests.lab.situations import (
    ECN_ON, duplicated_acks, from_then_on, late_and_then_marked, limited_by_the_receiver,
    limited_on_a_longer_path, losses_and_marks, lossy_after_a_pause, lossy_requests, lost_acks,
    narrow_return, outage_of_a_limited_flow, policed, restart_from_32, short_fades,
    slower_after_an_outage, without_sack_after_a_pause, without_the_first_syn_ack)

pytestmark = pytest.mark.lab

CC = "satcc"
START, ALONE, SHARED = range(3)         # enum satcc_mode
WAIT, COLLECT, DONE = range(3)          # enum satcc_train


def play(lab, geo, modules=None, **path):
    """A run, and the witness's records of its flow from the first data on."""
    run = lab.run(geo(CC, modules=modules or {}, **path))
    return run, [call for call in calls.of_run(run, {CC})[CC] if call.old.owner]


def acks(flow_calls):
    return [call for call in flow_calls if call.call == CONG_CONTROL]


def cuts(flow_calls):
    """ACKs after which W is less by more than a tenth, the end of START not counted."""
    return [call for call in acks(flow_calls)
            if call.new.w < call.old.w * 9 // 10 and call.old.mode != START]


def until_a_timeout(flow_calls):
    """The calls before the first timeout, which ends START."""
    return list(itertools.takewhile(
        lambda call: call.call != SET_STATE or call.arg != LOSS, flow_calls))


def test_a_transfer_drops_nothing(lab, geo):
    """1 MB alone on a clean path: W is the bandwidth-delay product of 100 segments after three ACKs, the
    queue of another 100 is never full, and of the 6.2 s the transfer may take 5.38 are the path's."""
    run, flow_calls = play(lab, geo, bytes=1_000_000)
    first = next(call for call in acks(flow_calls) if call.new.mode == ALONE)
    assert 95 <= first.new.w <= 105 and first.delivered < 10
    assert flow_view.queue_drops(run) == 0
    assert flow_view.FlowView(run).transfer_s(1_000_000) < 6.2


def test_a_fast_link_is_measured_by_a_later_flight(lab, geo):
    """250 Mbit/s: the ACKs of ten segments take less than 1 ms, so START waits for those of 40.  Then W
    is the bandwidth-delay product of 12,500 segments, to a tenth; the fourth flight has not left."""
    _, flow_calls = play(lab, geo, rate_mbit=250, bytes=1_000_000)
    first = next(call for call in acks(flow_calls) if call.new.mode == ALONE)
    assert 11_250 <= first.new.w <= 13_750 and first.delivered < 10 + 20 + 40


def test_a_flight_without_its_last_ack_does_not_end_the_start(lab, geo):
    """250 Mbit/s, half of the ACKs lost: START ends with half of the bandwidth-delay product of 12,500
    segments at least, also if the last ACK of a flight is lost.  Then the next one is 600 ms later."""
    ends = []
    for seed in range(1, 4):
        _, flow_calls = play(lab, geo, seed=seed, **lost_acks(50))
        start = [call for call in acks(flow_calls) if call.old.mode == START]
        ends += [call for call in start
                 if call.old.train == COLLECT and call.delivered > call.old.train_end]
        assert start[-1].new.mode == ALONE and start[-1].new.w >= 6250
    assert ends


def test_a_duplicate_ack_does_not_spoil_the_start(lab, geo):
    """Between the ACKs of the first flight come duplicates, which report nothing.  W is the
    bandwidth-delay product of 500 segments, to a twentieth."""
    _, flow_calls = play(lab, geo, hop=duplicated_acks(), seconds=3)
    start = [call for call in acks(flow_calls) if call.old.mode == START]
    assert [call.rs_acked_sacked > 0 for call in start[:3]] == [True, False, True]
    assert start[-1].new.mode == ALONE and 475 <= start[-1].new.w <= 525


def test_a_lost_syn_ack_does_not_spoil_the_start(lab, geo):
    """The handshake takes 1.6 s instead of 0.6.  W is the bandwidth-delay product of 500 segments, to a
    twentieth, after three ACKs."""
    _, flow_calls = play(lab, geo, rate_mbit=10, seconds=3, change=without_the_first_syn_ack())
    first = next(call for call in acks(flow_calls) if call.new.mode == ALONE)
    assert first.total_retrans == 1 and flow_calls[0].srtt_us8 // 8 > 1_500_000
    assert 475 <= first.new.w <= 525 and first.delivered < 10


def round_trips_since(first, flow_calls):
    """Pairs (ACK, round trips begun after the call `first`), by the rate samples of the ACKs."""
    count, sent = 0, first.delivered
    for call in acks(flow_calls):
        if call.t_ns > first.t_ns:
            if call.rs_prior_delivered >= sent:
                count, sent = count + 1, call.delivered
            yield call, count


def test_a_loss_ends_the_start_of_a_flow_that_the_receiver_limits(lab, geo):
    """The receiver's window of 13 segments arrives within 1 ms, and does not fill the cwnd of 26.  So
    nothing can be measured, and START waits.  After the first losses it takes three round trips.  A
    timeout ends START too, and some seeds have one before that."""
    later = []
    for seed in range(1, 6):
        _, flow_calls = play(lab, geo, seed=seed, **limited_by_the_receiver())
        limited = [call for call in acks(flow_calls) if not call.lost][-1]
        assert limited.new.mode == START and not limited.cwnd_limited
        assert limited.in_flight < limited.cwnd // 2
        before = until_a_timeout(flow_calls)
        lossy = [call for call in before if call.lost]
        later += [call for call, count in round_trips_since(lossy[0], before) if count > 3]
    assert len(later) > 10 and all(call.new.mode == ALONE for call in later)


def test_a_loss_leaves_the_estimate_of_a_flow_that_the_application_limits(lab, geo):
    """It has not filled cwnd yet, so the next full window is still to be measured after the losses.
    A run may lose only one segment before a timeout, so there are five."""
    lost = []
    for seed in range(1, 6):
        _, flow_calls = play(lab, geo, seed=seed, **lossy_requests())
        before = until_a_timeout(flow_calls)
        lost.append(before[-1].lost)
        assert all(call.new.mode == START and call.new.train == WAIT for call in before)
        assert not any(call.pacing_status for call in before)
    assert max(lost) > 1 and sum(lost) >= 5


def test_a_queue_of_acks_does_not_end_the_start(lab, geo):
    """Without an estimate, and with a narrow return link, whose queue shows at less than half of the
    bandwidth-delay product of 2500 segments: W is twice as large, and more, when START ends."""
    run, flow_calls = play(lab, geo, seconds=9, modules={"tcp_satcc": {"hoe": 0}}, hop=narrow_return())
    queue_w = next(call.new.w for call in acks(flow_calls) if call.new.queue_rounds)
    end = next(call for call in acks(flow_calls) if call.new.mode == ALONE)
    assert queue_w < 1250 and end.new.w >= 2 * queue_w
    assert flow_view.queue_drops(run) == 0


def test_random_loss_leaves_the_window(lab, geo):
    """1 % on a path that is not full: of the ACKs that tell of a loss one in ten cuts W, at most."""
    _, flow_calls = play(lab, geo, rate_mbit=10, loss_pct=1, seconds=15)
    losses = [call for call in acks(flow_calls) if call.rs_losses > 0]
    assert len(losses) > 50 and len(cuts(flow_calls)) < len(losses) / 10
    assert 0.005 < acks(flow_calls)[-1].new.p_q16 / 65536 < 0.02


@pytest.mark.long
def test_a_loss_below_thr_is_random(lab, geo):
    """0.5 % on a path of 500 segments, whose own queue shows at times and is below thr of 25 ms. Of the
    losses that come alone in a round trip, some come when it has sent only a few segments.  p of 0.2 %
    and more expects one in each round trip, so W stays at each of them."""
    lone = []
    for seed in range(1, 5):
        _, flow_calls = play(lab, geo, rate_mbit=10, loss_pct=0.5, seconds=60, seed=seed)
        for call in acks(flow_calls):
            old, queue_us = call.old, call.new.last_block_rtt_us - call.old.min_rtt_us
            if old.mode == ALONE and old.p_q16 > 0.002 * 65536 and 12_500 < queue_us < 24_000 and \
                    call.rs_losses > 0 and call.lost == old.round_lost + 1:
                lone.append(call)
    assert len(lone) >= 10
    assert all(call.new.w > 0.9 * call.old.w for call in lone)


def test_more_loss_than_tolerated_is_congestion(lab, geo):
    """15 % without a queue, and W below a batch of 256 segments: after a batch that lost more than
    tolerate_pct, ACKs that report a loss cut W to 70 %. W falls below a quarter of the path's 100."""
    _, flow_calls = play(lab, geo, loss_pct=15, seconds=30)
    excess = [call for call in acks(flow_calls) if call.old.excess and call.new.excess]
    assert len([call for call in excess if call.new.w == call.old.w * 70 // 100]) >= 4
    assert min(call.new.w for call in excess) < 100 / 4


def test_a_short_fade_is_random(lab, geo):
    """A fade loses 50 segments of 500, at any time of a round trip.  The path loses nothing else, so p
    explains nothing; but that is no more than tolerate_pct."""
    _, flow_calls = play(lab, geo, rate_mbit=10, seconds=30, change=short_fades())
    assert not cuts(flow_calls)
    assert flow_calls[-1].lost - flow_calls[0].lost > 7 * 40


def test_losses_in_slow_start_are_compared_with_cwnd(lab, geo):
    """A path loses 40 % after a pause, when W is some 375 segments and cwnd ten.  W is cut when a fifth
    of cwnd is lost: in the median of five runs, because the first losses come by chance.  Until a fifth
    of W is lost, cwnd would grow to some 300 segments."""
    most = []
    for seed in range(1, 6):
        _, flow_calls = play(lab, geo, seed=seed, **lossy_after_a_pause())
        lossy = [call for call in flow_calls if call.new.ramp and call.lost > flow_calls[0].lost]
        most.append(max(call.cwnd for call in lossy))
    assert np.median(most) <= 40 and max(most) <= 100


def test_no_tolerance_cuts_once_in_a_round_trip(lab, geo):
    """With tolerate_pct=0, in slow start after a pause and after a timeout, ACKs of segments sent before
    the last cut report losses too.  W stays at them."""
    late = []
    for loss_pct, seed in itertools.product((40, 10), (1, 2, 3)):
        _, flow_calls = play(lab, geo, {"tcp_satcc": {"tolerate_pct": 0}}, seed=seed,
                             **lossy_after_a_pause(loss_pct))
        cut_delivered = None
        for call in flow_calls:
            if call.call == CONG_CONTROL and call.rs_losses > 0 and call.rs_delivered > 0 and \
                    cut_delivered and call.rs_prior_delivered < cut_delivered:
                late.append(call)
            if call.call in (CONG_CONTROL, SET_STATE) and call.new.w < call.old.w:
                cut_delivered = call.delivered
    assert len([call for call in late if call.old.ramp]) > 2
    for call in late:
        assert call.new.w >= call.old.w, call


def test_no_tolerance_cuts_once_at_an_ack_without_sack(lab, geo):
    """The third dupack of a slow start after a pause begins Recovery, which cuts W to 70 %, and reports
    the loss.  A dupack has no rate sample."""
    begun = []
    for seed in range(1, 4):
        _, flow_calls = play(lab, geo, {"tcp_satcc": {"tolerate_pct": 0}}, seed=seed,
                             **without_sack_after_a_pause())
        begun += [(call, after) for call, after in zip(flow_calls, flow_calls[1:])
                  if call.call == SET_STATE and call.arg == RECOVERY and call.old.ramp
                  and call.new.w < call.old.w and after.call == CONG_CONTROL and after.rs_losses > 0]
    assert any(after.rs_delivered <= 0 for _, after in begun)
    for call, after in begun:
        assert after.new.w == call.new.w, (call, after)


def test_w_becomes_what_a_policer_passes(lab, geo):
    """The first ACKs promise 100 Mbit/s, and a policer passes 10: W is 5000 segments, where 500 pass in
    a round trip.  Two seconds after the first cut W is 1000 at most; cuts of 30 % in each round trip
    leave 1200.  From 5 to 10 s the receiver gets 6 Mbit/s and more in order."""
    run, flow_calls = play(lab, geo, seconds=10, **policed(rtt_ms=600))
    first = cuts(flow_calls)[0]
    assert first.old.w > 4000
    assert [call for call in flow_calls if call.t_ns < first.t_ns + 2e9][-1].new.w <= 1000
    view = flow_view.FlowView(run)
    assert (view.acked_by(10) - view.acked_by(5)) * 8 / 5 > 6e6


def test_an_outage_is_no_rate(lab, geo):
    """An outage loses more than half of what a round trip has sent, and no RTT shows a queue.  The round
    trips before delivered the whole flight, so W keeps 70 %."""
    _, flow_calls = play(lab, geo, **outage_of_a_limited_flow())
    cut, = (call for call in flow_calls if call.new.w < call.old.w * 9 // 10 and call.old.mode != START)
    lost, delivered = cut.lost - cut.old.round_lost, cut.delivered - cut.old.round_delivered
    assert lost > max(delivered, 128) and cut.old.last_block_rtt_us < cut.old.min_rtt_us + 2000
    assert cut.new.w == cut.old.w * 70 // 100


def test_no_tolerance_does_not_probe(lab, geo):
    """Behind a policer no RTT shows a queue.  With tolerate_pct=0 W grows as in CUBIC, and the policer
    drops 3 % at most.  PROBE doubles W in two round trips, and one segment of ten is dropped."""
    _, flow_calls = play(lab, geo, {"tcp_satcc": {"tolerate_pct": 0}}, seconds=15, **policed(rtt_ms=40))
    later = [call for call in acks(flow_calls) if call.t_ns - flow_calls[0].t_ns > 5e9]
    lost, delivered = later[-1].lost - later[0].lost, later[-1].delivered - later[0].delivered
    assert delivered > 7000 and 0 < lost < 0.03 * delivered


def test_a_burst_shorter_than_a_round_trip_is_random(lab, geo):
    """1 % of loss, then 20 % for 0.25 s: one or two batches of 256 segments lose more than tolerate_pct.
    A round trip has more than two, and loses less than twice tolerate_pct, so no loss cuts W.  Half a
    second before, the link's rate becomes four times as large, so there is no queue."""
    faster = {"at_s": 7.5, "hop": "gateway", "forward": {"rate_mbit": 64, "queue_packets": 500}}
    burst = [from_then_on(8, loss_pct=20), from_then_on(8.25, loss_pct=1)]
    _, flow_calls = play(lab, geo, rate_mbit=16, loss_pct=1, seconds=10, change=[faster, *burst])
    assert any(call.new.excess for call in acks(flow_calls))
    assert not cuts(flow_calls) and acks(flow_calls)[-1].new.w > 500


def test_no_tolerance(lab, geo):
    """With tolerate_pct=0 every loss is congestion: a cut to 70 % in every recovery, as it begins or at
    an ACK that tells of a loss, and p stays 0.  A SYN may be lost too, before."""
    _, flow_calls = play(lab, geo, loss_pct=2, seconds=60, modules={"tcp_satcc": {"tolerate_pct": 0}})
    flow_calls = [call for call in flow_calls if call.bytes_sent]
    begun = [call for call in flow_calls if call.call == SET_STATE and call.arg == RECOVERY]
    reduced = sorted([*cuts(flow_calls), *(call for call in begun if call.new.w < call.old.w)],
                     key=lambda call: call.t_ns)
    assert len(reduced) > 3
    for call in reduced:
        assert call.rs_losses > 0 or call.call == SET_STATE
        assert call.new.w == max(call.old.w * 70 // 100, 2)
    assert all(call.snd_una - before.snd_nxt < 1 << 31 for before, call in zip(reduced, reduced[1:]))
    times = [call.t_ns for call in begun if call.old.mode != START]
    for begin, end in zip(times, [*times[1:], flow_calls[-1].t_ns]):
        assert any(begin <= call.t_ns <= end for call in reduced)
    assert not any(call.new.p_q16 for call in flow_calls)


def test_two_flows_share_though_one_had_a_loss(lab):
    """Two flows start 50 ms apart on a clean path and the queue drops packets of one of them. After 15 s
    neither has less than half of what the other has."""
    flows = [{"cc": CC, "seconds": 26, "start_s": start_s} for start_s in (0, 0.05)]
    delay = {"delay_ms": 100}
    run = lab.run(scenario.from_dict({
        "title": "two of satcc", "capture": False, "trace": [], "samples_s": [15, 25], "flow": flows,
        "hop": [{"name": "gateway", "forward": {"rate_mbit": 10, "queue_bdp": 1}},
                {"name": "satellite", "forward": delay, "reverse": delay}]}))
    assert 0 < flow_view.queue_drops(run) < 200
    one, other = (fairness.share_kbit(run, number) for number in range(2))
    assert min(one, other) > max(one, other) / 2


def beside_cubic():
    """A flow, and from 6 s on a cubic flow, at 5 Mbit/s and 100 ms with a queue of one BDP."""
    delay = {"delay_ms": 50}
    return scenario.from_dict({
        "title": "beside cubic", "captures": ["sender"],
        "flow": [{"cc": CC, "seconds": 16}, {"cc": "cubic", "seconds": 10, "start_s": 6}],
        "hop": [{"name": "gateway", "forward": {"rate_mbit": 5, "queue_bdp": 1}},
                {"name": "satellite", "forward": delay, "reverse": delay}]})


def pairs_of(run, start_s, end_s):
    """The part of the flow's segments of that time that leave within 0.1 ms of the segment before."""
    sent = flow_view.FlowView(run).segment_s
    sent = sent[(sent > start_s) & (sent < end_s)]
    return (sent[1:] - sent[:-1] < 1e-4).mean()


def test_acks_clock_it_among_others_and_a_timer_alone(lab):
    """Alone single segments leave, 2 ms apart; beside cubic each ACK releases a pair."""
    run = lab.run(beside_cubic())
    paced = {call.new.mode: call.pacing_status for call in acks(calls.of_run(run, {CC})[CC])
             if call.new.mode != START and not call.new.ramp}
    assert paced == {ALONE: 1, SHARED: 0}
    assert pairs_of(run, 3, 6) < 0.05 and pairs_of(run, 11, 16) > 0.4


def test_a_programs_pacing_rate_holds_among_others():
    """SO_MAX_PACING_RATE of 2 Mbit/s: the flow stays paced in cubic's queue, at no more than that.

    The oracle does not know of that rate.
    """
    transfer = beside_cubic()
    capped = dataclasses.replace(transfer.flows[0], tool="iperf3", rate_mbit=2)
    run = Lab(KERNEL).run(dataclasses.replace(transfer, flows=(capped, transfer.flows[1])))
    flow_acks = acks(calls.of_run(run, {CC})[CC])
    assert any(call.new.mode == SHARED and not call.new.ramp and call.new.w >= 16
               for call in flow_acks)                               # a smaller W is paced in any case
    paced = {(call.new.mode, call.pacing_status) for call in flow_acks}
    assert (SHARED, 1) in paced and (SHARED, 0) not in paced
    data = run.sender.where((run.sender.dport == FIRST_PORT) & (run.sender.length > 500))
    seconds = np.bincount(((data.t - data.t[0]) / 1e9).astype(int), weights=data.length * 8.0)
    assert 1.5e6 < np.median(seconds) and seconds[1:].max() < 2.1e6


@pytest.mark.long
def test_ten_flows_leave_none_out(lab):
    """Ten flows start 0.1 s apart on a clean geostationary path, the later ones into the queue of the
    first.  From 30 s on none has less than a quarter of an equal share."""
    delay = {"delay_ms": 300}
    run = lab.run(scenario.from_dict({
        "title": "ten of satcc", "capture": False, "trace": [], "samples_s": [30, 60],
        "flow": [{"cc": CC, "seconds": 62, "start_s": number / 10} for number in range(10)],
        "hop": [{"name": "gateway", "forward": {"rate_mbit": 10, "queue_bdp": 1}},
                {"name": "satellite", "forward": delay, "reverse": delay}]}))
    shares = [fairness.share_kbit(run, number) for number in range(10)]
    assert min(shares) > sum(shares) / 10 / 4


@pytest.mark.parametrize("rate_mbit, queue_bdp, drops", [long(4, 2, False), (2, 0.5, True)])
def test_another_flows_queue_is_shared(lab, geo, rate_mbit, queue_bdp, drops):
    """The link falls from 10 Mbit/s to 4, so the RTT grows by 25 ms and more though W does not; or to 2,
    and the queue drops segments.  The flow enters SHARED, before its sixth round trip with a queue."""
    _, flow_calls = play(lab, geo, rate_mbit=10, rtt_ms=200, queue_bdp=queue_bdp, seconds=12, change=[
        {"at_s": 6, "hop": "gateway", "forward": {"rate_mbit": rate_mbit, "queue_bdp": queue_bdp}}])
    call = next(call for call in flow_calls if call.old.mode == ALONE and call.new.mode == SHARED)
    assert 2 <= call.old.queue_rounds < 5
    if drops:
        assert call.new.w == call.old.w * 70 // 100 and call.new.epoch_w_max == call.old.w
    else:
        assert call.old.round_rtt_us - call.old.epoch_held_rtt_us >= 25_000
        assert call.new.epoch_w_max >= call.old.epoch_held_w > call.new.w


def test_a_mark_reduces(lab, geo):
    """ECN on an empty queue: within the callback that enters CWR W is 70 % of what it was."""
    run, flow_calls = play(lab, geo, loss_pct=0.5, line={"ecn": True}, seconds=20,
                           sender=ECN_ON, receiver=ECN_ON)
    entered = [call for call in flow_calls if call.new.marked and not call.old.marked]
    reduced = [call for call in flow_calls if call.call == SET_STATE and call.arg == CWR]
    assert run.json("flow-0.json")["delivered_ce"] and len(reduced) > 2
    for call in [*entered, *reduced]:
        assert call.new.w == max(call.old.w * 70 // 100, 2)


def test_hold_does_not_cut_for_the_queue_of_a_mark(geo):
    """CoDel marks, and 33 segments fill the path.  In the round trip in which a mark cuts W, HOLD does
    not cut it further for the queue that was there before."""
    hops = [{"name": "gateway", "reverse": {"delay_ms": 20},
             "forward": {"rate_mbit": 10, "queue_packets": 496, "aqm": "codel", "ecn": True}},
            {"name": "satellite", "forward": {"delay_ms": 20}}]
    run, flow_calls = play(Lab(KERNEL, extras=("papers",)), geo, hop=hops, seconds=12,
                           sender=ECN_ON, receiver=ECN_ON)
    oracle.check(run).raise_first()
    marks = [call for call in flow_calls if call.new.marked and not call.old.marked
             and call.old.mode == ALONE]
    assert len(marks) > 5
    for mark in marks:
        # The round trip of the mark ends in that time, and the next one does not.
        after = [call for call in acks(flow_calls) if mark.t_ns < call.t_ns < mark.t_ns + 40_000_000]
        assert min(call.new.w for call in after) == mark.new.w == mark.old.w * 70 // 100


def test_hold_leaves_four_segments(lab, geo):
    """Two segments fill the path, and its queue drops nothing.  HOLD cuts W in turn to 8, 5 and 4; 70 %
    of 5 would be 3."""
    _, flow_calls = play(lab, geo, rate_mbit=0.573, rtt_ms=40, queue_packets=50, seconds=3)
    held = [(call.old.w, call.new.w) for call in acks(flow_calls)
            if call.old.mode == ALONE and call.new.trimmed and not call.old.trimmed]
    assert held[-1] == (5, 4) and not flow_calls[-1].lost


def test_four_segments_do_not_make_a_path_longer(lab):
    """Twelve flows share a path of 33 segments.  HOLD does not cut a W of four and less, so in the sixth
    round trip with a queue such a flow shares, and does not take its RTT for that of a longer path."""
    rate = {"rate_mbit": 10, "queue_packets": 132}
    run = lab.run(scenario.from_dict({
        "title": "test", "captures": ["sender"], "flow": [{"cc": CC, "seconds": 4}] * 12,
        "hop": [{"name": "gateway", "forward": rate, "reverse": {"delay_ms": 20}},
                {"name": "satellite", "forward": {"delay_ms": 20}}]}))
    sixth = [call for call in acks(calls.of_run(run, {CC})[CC]) if call.old.mode == ALONE
             and call.old.queue_rounds == 5 != call.new.queue_rounds and call.old.w <= 4]
    assert any(call.new.mode == SHARED for call in sixth)
    assert all(call.new.min_rtt_us == call.old.min_rtt_us for call in sixth)


def test_a_mark_and_a_loss_of_one_window_cut_once(lab, geo):
    """The receiver echoes a mark for a round trip.  A loss in that time begins Recovery, and W stays."""
    _, flow_calls = play(lab, geo, hop=losses_and_marks(2, 0.5), seconds=15,
                         sender=ECN_ON, receiver=ECN_ON)
    entered = [call for call in flow_calls if call.call == SET_STATE and call.arg == RECOVERY
               and call.ca_state_old == CWR and call.old.ece]
    assert entered
    for call in entered:
        assert call.old.marked and call.new.w == call.old.w


def test_a_loss_without_sack_is_answered(lab, geo):
    """Random loss, then none, and twice 7 of the 10 Mbit/s: the third dupack reports the
    queue's drop, and W is cut at it."""
    rates = [{"at_s": at_s, "hop": "gateway",
              "forward": {"rate_mbit": mbit, "queue_packets": 20}}
             for at_s, mbit in ((8, 7), (11, 10), (14, 7), (17, 10))]
    _, flow_calls = play(lab, geo, rate_mbit=10, rtt_ms=100, loss_pct=0.5, seconds=20,
                         sender={"sysctl": {"net.ipv4.tcp_sack": 0}},
                         change=[from_then_on(7, delay_ms=50, loss_pct=0), *rates])
    since = flow_calls[0].t_ns + 8e9
    reported = [call for call in acks(flow_calls) if call.t_ns > since and call.rs_losses > 0
                and call.rs_delivered <= 0 and call.old.p_q16]
    assert any(call.new.w < call.old.w for call in reported)


def test_a_loss_counts_at_the_ack_that_begins_a_round_trip(lab, geo):
    """1 % of loss, and a flow of 8 segments that shares a queue of 8.  p explains no loss among the
    first segments of a round trip.  So a loss that its first ACK reports cuts W to 70 %."""
    first = []
    for seed in range(1, 11):
        _, flow_calls = play(lab, geo, rate_mbit=1, rtt_ms=100, queue_packets=8, loss_pct=1, seconds=60,
                             seed=seed, capture=False)
        first += [call for call in acks(flow_calls) if call.rs_losses > 0 and call.old.p_q16
                  and call.old.mode == call.new.mode == SHARED and call.rs_delivered > 0
                  and call.rs_prior_delivered >= max(call.old.round_delivered,
                                                     call.old.epoch_cut_delivered)
                  and call.new.last_block_rtt_us - call.old.min_rtt_us > 20_000]
    assert len(first) > 2
    for call in first:
        assert call.new.w == max(call.old.w * 70 // 100, 2), call


def test_a_mark_cuts_in_a_recovery_whose_losses_p_explains(lab, geo):
    """W has been cut by a little for these losses, or not at all.  A mark of the same window is
    congestion, so W is 70 % then."""
    echoed = []
    for seed in range(1, 5):
        _, flow_calls = play(lab, geo, hop=losses_and_marks(1, 0.5), seconds=60, seed=seed,
                             sender=ECN_ON, receiver=ECN_ON)
        echoed += [call for call in acks(flow_calls) if call.ca_state_old == RECOVERY and call.old.ece
                   and not call.old.marked and not call.old.cut
                   and 0 < (call.old.epoch_cut_seq - call.snd_una) % 2 ** 32 < 2 ** 31]
    assert echoed
    assert all(call.new.w <= call.old.w * 70 // 100 + 1 for call in echoed)


def test_a_mark_does_not_cut_for_the_window_of_a_loss(lab, geo):
    """With tolerate_pct=0 a loss cuts W.  A mark of a segment that was in flight then leaves W.  In four
    runs this came 12, 2, 30 and 0 times."""
    echoed = []
    for seed in range(1, 7):
        _, flow_calls = play(lab, geo, {"tcp_satcc": {"tolerate_pct": 0}},
                             hop=losses_and_marks(1, 3), seconds=25, seed=seed,
                             sender=ECN_ON, receiver=ECN_ON)
        echoed += [call for call in acks(flow_calls) if call.ca_state_old == RECOVERY and call.old.ece
                   and not call.old.marked and call.rs_losses <= 0
                   and (call.old.epoch_cut_seq - call.snd_una) % 2 ** 32 < 2 ** 31]
    assert echoed
    for call in echoed:
        assert call.new.w >= call.old.w, call


def test_a_mark_in_a_recovery_cuts_once(lab, geo):
    """The receiver echoes a mark until the core enters CWR, which it does after the recovery.  W has
    been cut in the recovery, and the ACK is of segments of before that cut, so W stays."""
    entered = []
    for seed in range(1, 4):
        _, flow_calls = play(lab, geo, hop=losses_and_marks(3, 3), seconds=40, seed=seed, capture=False,
                             sender=ECN_ON, receiver=ECN_ON)
        cut_end = None          # snd_nxt at the last cut to 70 %
        for call in flow_calls:
            if call.call == SET_STATE and call.arg == CWR and call.old.ece and call.old.mode != START \
                    and cut_end is not None and (cut_end - call.snd_una) % 2 ** 32 < 2 ** 31:
                entered.append(call)
            if call.new.w < call.old.w and call.new.cut:
                cut_end = call.snd_nxt
    assert len(entered) > 5
    for call in entered:
        assert call.new.w == call.old.w, call


def test_a_loss_in_a_queue_ends_start_of_a_limited_flow(lab, geo):
    """Without an estimate START ends by what its round trips deliver.  The application writes 2.4
    Mbit/s, which shows nothing of the path, and then 2 Mbit/s fit it: the first drop cuts W."""
    _, flow_calls = play(lab, geo, {"tcp_satcc": {"hoe": 0}}, rate_mbit=10, seconds=14,
                         flow={"write_bytes": 15_000, "write_ms": 50},
                         change=[{"at_s": 6, "hop": "gateway",
                                  "forward": {"rate_mbit": 2, "queue_packets": 20}}])
    number, end = next((number, call) for number, call in enumerate(flow_calls)
                       if call.new.mode != START)
    assert end.app_limited and flow_calls[number - 1].lost <= end.lost != 0
    assert end.new.mode == ALONE and end.new.w == end.old.w * 70 // 100


def test_a_queue_leaves_the_start_of_a_limited_flow(lab, geo):
    """The application writes 20 segments in a round trip, where W is 200, and the RTT grows as in a
    queue of others.  The flow's rate says nothing about the path, so W stays.  An ACK that delivers
    nothing does not say that the application limits the flow, and W stays there too."""
    _, flow_calls = play(lab, geo, **limited_on_a_longer_path())
    queue = [call for call in acks(flow_calls)
             if call.new.last_block_rtt_us > call.new.min_rtt_us + 90_000]
    for delivers in (True, False):
        assert len([call for call in queue if (call.rs_delivered > 0) == delivers]) > 10
    for call in flow_calls:
        assert call.new.mode == START and call.new.w == 200, call


def test_an_unused_window_decays_in_start(lab, geo):
    """Bursts of 69 segments fill W now and then only, so W falls though nothing is lost."""
    _, flow_calls = play(lab, geo, {"tcp_satcc": {"hoe": 0}}, rate_mbit=10, seconds=20,
                         flow={"write_bytes": 100_000, "write_ms": 700})
    falls = [call for call in acks(flow_calls)
             if call.old.mode == call.new.mode == START and call.new.w < call.old.w]
    assert falls and not flow_calls[-1].lost


def after_a_timeout(lab, geo, path=None, silent_s=8, **then):
    """3 s without a packet from silent_s on, and then 9 s on a path of `then`.  Returns the timeout, the
    ACKs while cwnd grows to W, and those after which cwnd is larger by more than was acknowledged."""
    _, flow_calls = play(lab, geo, seconds=silent_s + 12, **(path or {}), change=[
        from_then_on(silent_s, loss_pct=100), from_then_on(silent_s + 3, **then)])
    number = next(n for n, call in enumerate(flow_calls) if call.call == SET_STATE and call.arg == LOSS)
    growing = [call for call in acks(flow_calls[number:]) if call.old.ramp]
    assert len(growing) > 10
    return flow_calls[number], growing, [
        call for call in growing if call.cwnd != min(call.cwnd_old + call.rs_acked_sacked, call.new.w)]


def test_a_timeout(lab, geo):
    """W is 70 %, and cwnd goes there by slow start but for one step: to half of W, when two round trips
    were without a queue.  A round trip later this many segments have left."""
    timeout, growing, jumps = after_a_timeout(lab, geo)
    assert timeout.new.w == timeout.old.w * 70 // 100 and timeout.new.ramp
    [jump] = jumps
    assert jump.cwnd == jump.new.w // 2 > 2 * jump.cwnd_old
    assert jump.t_ns - growing[0].t_ns >= 600e6
    assert max(call.in_flight for call in growing if call.t_ns < jump.t_ns + 700e6) > jump.new.w // 3
    assert not growing[-1].new.ramp


def test_a_timeout_on_a_path_that_became_slow(lab, geo):
    """The path and its queue hold 100 segments then.  10 s later W is less than twice that, though all
    losses are in one recovery.  The queue has dropped the 900 segments of the jump (6926 before)."""
    run = lab.run(geo(CC, rate_mbit=50, seconds=24, change=slower_after_an_outage()))
    flow_calls = [call for call in calls.of_run(run, {CC})[CC] if call.old.owner]
    after = [call for call in acks(flow_calls) if call.t_ns - flow_calls[0].t_ns > 20e9]
    assert after and max(call.new.w for call in after) < 2 * (50 + 50)
    assert flow_view.queue_drops(run) < 2000


def test_a_timeout_in_recovery(lab, geo):
    """With random loss the outage comes in Recovery, in which the core does not ask for a reduction.
    Nevertheless W is 70 %, unless it has been cut for the same segments, and cwnd does not jump before
    two round trips were without a queue."""
    cut = 0
    for seed in range(1, 4):
        timeout, growing, jumps = after_a_timeout(
            lab, geo, {"rate_mbit": 10, "loss_pct": 2, "seed": seed}, silent_s=5)
        assert timeout.ca_state_old == RECOVERY and not timeout.old.reduced and timeout.new.ramp
        since_cut = (timeout.old.epoch_cut_seq - timeout.snd_una) % 2 ** 32
        has_cut = timeout.old.cut and 0 < since_cut < 2 ** 31
        cut += not has_cut
        assert timeout.new.w == (timeout.old.w if has_cut else timeout.old.w * 70 // 100)
        [jump] = jumps
        assert jump.cwnd == jump.new.w // 2 > 2 * jump.cwnd_old
        assert jump.t_ns - growing[0].t_ns >= 600e6
    assert cut


def test_a_mark_in_slow_start_after_idleness(lab, geo):
    """W is 70 % of cwnd, or of twice what the path delivers, which is a little less.  It is not 70 % of
    the W that cwnd would have reached: a round trip later no more segments than cwnd had are in flight.
    One packet of 10,000 may be marked before the pause."""
    _, flow_calls = play(lab, geo, rate_mbit=10, bytes=3_000_000, flow={"pause_ms": 8000}, loss_pct=0.01,
                         line={"ecn": True}, sender=ECN_ON, receiver=ECN_ON,
                         change=[from_then_on(6, loss_pct=10, ecn=True)])
    mark = next(call for call in flow_calls if call.new.marked and not call.old.marked
                and call.t_ns - flow_calls[0].t_ns > 6e9)
    assert mark.old.ramp and mark.cwnd_old < mark.old.w // 2
    delivered = max(mark.new.bw_0, mark.new.bw_1, mark.new.bw_2) * mark.new.min_rtt_us >> 24
    assert min(mark.cwnd_old, 2 * delivered) * 70 // 100 <= mark.new.w <= mark.cwnd_old * 70 // 100
    later = [call.in_flight for call in acks(flow_calls) if 1.2e9 < call.t_ns - mark.t_ns < 2.4e9]
    assert later and max(later) <= mark.cwnd_old


def test_a_timeout_does_not_jump_while_a_queue_shows(lab, geo):
    """300 ms more than before look like a queue: cwnd grows by what was acknowledged, until satcc takes
    the path for a longer one, which is after six round trips."""
    _, growing, jumps = after_a_timeout(lab, geo, delay_ms=600)
    assert growing[0].new.min_rtt_us < 650_000 and growing[-1].t_ns - growing[0].t_ns > 5e9
    assert all(jump.new.min_rtt_us > 890_000 for jump in jumps)


def test_idleness(lab, geo):
    """6 s between two halves: cwnd is halved, to ten segments at least, and W is three quarters."""
    _, flow_calls = play(lab, geo, bytes=2_000_000, flow={"pause_ms": 6000})
    restarts = [call for call in flow_calls if call.new.ramp and not call.old.ramp and (
        call.call == CWND_EVENT and call.arg == TX_START or call.call == TX_START_EVENT)]
    assert restarts
    for call in restarts:
        assert 10 <= call.cwnd <= call.cwnd_old // 2
        assert call.new.w == max(call.cwnd, call.old.w - call.old.w // 4)


def test_a_restart_uses_the_initial_window_of_the_route(lab, geo):
    """After 8 s without a segment cwnd is the route's initcwnd, and so many segments leave at once."""
    _, flow_calls = play(lab, geo, rate_mbit=10, bytes=2_000_000, **restart_from_32())
    [restart] = [call for call in flow_calls if call.new.ramp and call.cwnd < call.cwnd_old and (
        call.call == CWND_EVENT and call.arg == TX_START or call.call == TX_START_EVENT)]
    assert restart.cwnd_old > 100 and restart.cwnd == 32
    first = next(call for call in acks(flow_calls) if call.t_ns > restart.t_ns)
    assert first.rs_prior_in_flight == 32


def test_idleness_takes_no_quarter_of_a_window_that_was_not_reached(lab, geo):
    """28 segments after each pause do not bring cwnd to W, so only the first pause takes a quarter."""
    _, flow_calls = play(lab, geo, rate_mbit=10, seconds=30,
                         flow={"write_bytes": 40_000, "write_ms": 7000})
    restarts = [call for call in flow_calls if call.new.w > 100 and call.new.ramp and (
        call.call == CWND_EVENT and call.arg == TX_START or call.call == TX_START_EVENT)]
    first, *later = [call for call in restarts if call.cwnd < call.cwnd_old or not call.old.ramp]
    assert first.new.w == first.old.w - first.old.w // 4 and len(later) > 1
    for call in later:
        assert call.old.ramp and call.new.w == call.old.w, call


@pytest.mark.parametrize("shorter_s, most_us", (
    (33, 750_000), (34.5, 750_000), (35, 800_000), (36, 800_000), (37, 750_000)))
def test_a_longer_path(lab, geo, shorter_s, most_us):
    """600 and then 900 ms: RTT_min is 900 ms within 15 s.  And 600 again: within ten round trips RTT_min
    is at most a quarter above in three of five runs and a third in the two others, which the flow's own
    queue then hides.  README-satcc.md has ten such runs."""
    _, flow_calls = play(lab, geo, seconds=45,
                         change=[from_then_on(12, delay_ms=600), from_then_on(shorter_s)])
    since = flow_calls[0].t_ns
    at = {second: [call.new.min_rtt_us for call in acks(flow_calls)
                   if second <= (call.t_ns - since) / 1e9 < second + 2]
          for second in (10, 28, shorter_s + 6)}
    assert max(at[10]) < 620_000
    assert min(at[28]) >= 890_000
    assert max(at[shorter_s + 6]) < most_us


def test_an_undo_restores_the_window_that_start_had(lab, geo):
    """With tolerate_pct=0 the first loss ends START and cuts W.  The segments were only 0.95 s late, and
    the receiver's DSACK undoes the reduction: W is what it was, and growth does not wait."""
    _, flow_calls = play(lab, geo, {"tcp_satcc": {"tolerate_pct": 0, "hoe": 0}}, queue_packets=1000,
                         seconds=8, change=[from_then_on(1.9, delay_ms=1250), from_then_on(1.93)])
    cut = next(call for call in flow_calls if call.old.mode == START and call.new.mode != START)
    [undo] = [call for call in flow_calls if call.call == UNDO]
    assert cut.new.w < cut.old.w <= undo.new.w and undo.new.epoch_w_max == 0, (cut, undo)


def test_a_mark_after_an_undo_cuts(lab, geo):
    """A timeout cuts W, and is undone.  So a mark of segments that were in flight then cuts W."""
    _, flow_calls = play(lab, geo, **late_and_then_marked())
    number = next(n for n, call in enumerate(flow_calls) if call.call == UNDO)
    undo, later = flow_calls[number], flow_calls[number + 1:]
    assert undo.old.cut and undo.new.w > undo.old.w
    mark = next(call for call in later if call.call == SET_STATE and call.arg == CWR)
    assert (undo.old.epoch_cut_seq - mark.snd_una) % 2 ** 32 < 2 ** 31
    assert mark.new.w == mark.old.w * 70 // 100


def test_smaller_segments_keep_the_bytes(lab, geo):
    """The path takes 1000 bytes instead of 1500 after 12 s: W, the W before the last cut, and the rate
    are what they were in bytes, to one segment.  So neither the link nor the queue gets more."""
    run, flow_calls = play(lab, geo, rate_mbit=10, loss_pct=1, seconds=20, commands=[
        "sleep 12; in_ns sender sh -c 'ip route change $(ip route show | grep via) mtu 1000'"])
    oracle.check(run).raise_first()
    # While the route is changed, an ACK can see the smallest segments that the kernel allows.
    old = [call.new for call in acks(flow_calls) if call.new.mss == 1448][-1]
    call = next(call for call in acks(flow_calls) if call.new.mss == 948)
    assert call.new.mode == ALONE and old.epoch_w_max > 100
    for before, after in ((old.w, call.new.w), (old.epoch_w_max, call.new.epoch_w_max),
                          (old.epoch_prior_w, call.new.epoch_prior_w)):
        assert before * 1448 // 948 <= after <= before * 1448 // 948 + 2, call
    # The ACK may begin a round trip.
    old_bw = old.bw_1 if call.new.round_delivered == old.round_delivered else old.bw_0
    assert abs(call.new.bw_1 * 948 / (old_bw * 1448) - 1) < 0.001, call


def test_the_pacing_rate_follows_the_window(lab, geo):
    """At each ACK after START: 120 % of W segments in srtt, to the byte a second."""
    _, flow_calls = play(lab, geo, loss_pct=1, seconds=15)
    paced = [call for call in acks(flow_calls) if call.new.mode != START]
    assert len(paced) > 200
    for call in paced:
        assert call.pacing_rate == call.mss * 80_000 * 120 * call.new.w // call.srtt_us8


def test_p_of_an_ack_of_many_segments(lab, geo):
    """At 100 Mbit/s the return link loses 270 ms of ACKs.  The next ACK is for more than a thousand
    segments, and reports losses: p is the lost share of all of these."""
    _, flow_calls = play(lab, geo, {"tcp_satcc": {"queue_ms": 40}}, rate_mbit=100, seconds=6,
                         capture=False, change=[
        from_then_on(3.207, loss_pct=100), from_then_on(3.212),
        {"at_s": 3.25, "hop": "gateway", "reverse": {"delay_ms": 300, "loss_pct": 100}},
        {"at_s": 3.52, "hop": "gateway", "reverse": {"delay_ms": 300}}])
    [call] = [call for call in acks(flow_calls) if call.new.p_q16 and not call.old.p_q16]
    sent, lost = call.rs_acked_sacked + call.rs_losses, call.rs_losses
    assert sent > 1100 and lost > 4 and call.old.quiet_lost == 0, call
    assert call.new.p_q16 == (lost << 16) // (sent + call.old.quiet_sent), call
