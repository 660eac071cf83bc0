# SPDX-License-Identifier: GPL-2.0
"""cost.py's arithmetic on made-up records, Jain's index, and what a comparison lays out."""

import re
import types

import numpy as np
import pytest

from bench.compare import comparison, rows
from bench.errors import LabError
from bench.lab import machine
from bench.measure import cost, flow_view, overhead
from bench.paths import GUEST
from bench.record import pcap

NOTHING, NOPS, ACKED, AVOID = 0xA0, 0xA8, 0xB0, 0xB8
LISTED = """\
ssthresh 90 toy_ssthresh [tcp_toy]
cong_avoid b8 toy_cong_avoid [tcp_toy]
pkts_acked b0 toy_pkts_acked [tcp_toy]
init c0 toy_init [tcp_toy]
get_info c8 toy_get_info [tcp_toy]
nothing a0 satcc_cost_nothing [satcc_cost]
1000_nops a8 satcc_cost_1000_nops [satcc_cost]
"""
RECORD = np.dtype([("func", "u8"), ("depth", "i4"), ("calltime", "u8"), ("rettime", "u8")])
TRACER = 184


def records(*calls, nops=1000, depth=0):
    """Records of (function, instructions) after the calibration's, 10 us apart."""
    calls = [(NOTHING, 0), (NOPS, nops)] * 2 * cost.CALIBRATION_CALLS + list(calls)
    return np.array([(func, depth, 10_000 * n, 10_000 * n + TRACER + took)
                     for n, (func, took) in enumerate(calls)], RECORD)


def account(exits, interrupts=(), acks=10):
    return cost.account(cost.functions(LISTED), exits, np.array(interrupts, "u8"), acks)


def by_name(counted):
    return {callback.name: callback for callback in counted.callbacks}


def test_listed_functions_are_those_an_ack_or_a_loss_calls():
    assert cost.functions(LISTED) == {
        0x90: (("ssthresh",), "toy_ssthresh"), 0xB8: (("cong_avoid",), "toy_cong_avoid"),
        0xB0: (("pkts_acked",), "toy_pkts_acked"), 0xA0: (("nothing",), "satcc_cost_nothing"),
        0xA8: (("1000_nops",), "satcc_cost_1000_nops")}


def test_one_function_in_two_slots_is_one_row():
    functions = cost.functions("ssthresh 90 toy\nundo_cwnd 90 toy\n")
    assert functions == {0x90: (("ssthresh", "undo_cwnd"), "toy")}


def test_cost_is_the_sum_over_all_calls_by_the_acks():
    total = account(records((AVOID, 100), (AVOID, 200), (AVOID, 60), (ACKED, 26)))
    assert total.overhead == TRACER and total.known == 1000
    assert total.per_ack == pytest.approx((100 + 200 + 60 + 26) / 10)
    avoid = by_name(total)["toy_cong_avoid"]
    assert (avoid.calls, avoid.mean, avoid.median) == (3, 120, 100)
    assert "toy_ssthresh" not in by_name(total)         # never called
    as_dict = total.as_dict()
    assert as_dict["per_ack"] == total.per_ack and as_dict["acks"] == 10
    assert as_dict["callbacks"][0]["calls_per_ack"] == 0.3


def test_a_function_is_known_by_the_byte_after_its_landing_pad_too():
    """Where the kernel is built with IBT, that is where the tracer is called from."""
    listed = LISTED.replace(" a8 ", " b0 ").replace("pkts_acked b0", "pkts_acked d0")
    listed = listed.replace("cong_avoid b8", "cong_avoid e0")
    exits = records((0xE0, 100), (0xE0, 200), (0xD0, 26))
    exits["func"][exits["func"] == NOPS] = 0xB0
    exits["func"] += 4
    total = cost.account(cost.functions(listed), exits, np.array((), "u8"), 10)
    assert total.known == 1000 and by_name(total)["toy_cong_avoid"].calls == 2
    assert total.per_ack == pytest.approx((100 + 200 + 26) / 10)


def test_an_interrupted_call_counts_with_the_mean_of_the_others():
    exits = records((AVOID, 100), (AVOID, 9000), (AVOID, 200))
    inside = int(exits["calltime"][-2]) + 50
    total = account(exits, [1, inside])
    avoid = by_name(total)["toy_cong_avoid"]
    assert (avoid.calls, avoid.interrupted, avoid.mean) == (3, 1, 150)
    assert total.per_ack == pytest.approx(3 * 150 / 10)


@pytest.mark.parametrize("end", ["calltime", "rettime"])
def test_an_interrupt_at_the_very_end_is_one_inside(end):
    exits = records((AVOID, 100))
    assert by_name(account(exits, exits[end][-1:]))["toy_cong_avoid"].interrupted == 1
    beyond = int(exits[end][-1]) + (1 if end == "rettime" else -1)
    assert by_name(account(exits, [beyond]))["toy_cong_avoid"].interrupted == 0


def test_a_rounded_clock_is_borne():
    exits = records((AVOID, 100))
    exits["rettime"][4] += 1
    assert account(exits).overhead == pytest.approx(TRACER, abs=0.02)


def test_a_calibration_that_was_mostly_interrupted_is_refused():
    exits = records((AVOID, 100))
    with pytest.raises(LabError, match="not constant"):
        account(exits, exits["calltime"][:210] + 1)


@pytest.mark.parametrize("spoil, message", [
    (lambda exits: exits["rettime"].__setitem__(0, exits["rettime"][0] + 5), "not constant"),
    (lambda exits: exits["depth"].__setitem__(-1, 1), "calls another")])
def test_a_count_that_cannot_be_right_is_refused(spoil, message):
    exits = records((AVOID, 100))
    spoil(exits)
    with pytest.raises(LabError, match=message):
        account(exits)


def test_a_thousand_that_is_not_one_is_refused():
    with pytest.raises(LabError, match="1000 instructions measured as 1012.0"):
        account(records((AVOID, 100), nops=1012))
    assert account(records((AVOID, 100), nops=1001)).known == 1001


def test_no_ack_is_refused():
    with pytest.raises(LabError, match="no ACK"):
        account(records((AVOID, 100)), acks=0)


def test_the_kernel_reads_the_threshold_as_eight_nanoseconds():
    assert 0 < cost.EIGHT_NS < 1 << 64
    assert cost.EIGHT_NS * 1000 % (1 << 64) == 8


def test_acks_end_with_the_connection():
    """Data and its ACKs, the handshake, and what is still under way when the sender resets."""
    sender, receiver = 40000, 5001
    rows = [(1, sender, receiver, pcap.SYN), (2, receiver, sender, pcap.SYN | pcap.ACK),
            (3, sender, receiver, pcap.ACK), (4, receiver, sender, pcap.ACK),
            (5, receiver, sender, pcap.ACK), (6, 7, 8, pcap.ACK),
            (7, sender, receiver, pcap.RST | pcap.ACK), (8, receiver, sender, pcap.ACK)]
    t, sport, dport, flags = np.array(rows).T
    packets = types.SimpleNamespace(t=t, sport=sport, dport=dport, flags=flags)
    assert cost.acks_received(packets, receiver) == 3
    packets.flags[6] = pcap.ACK
    assert cost.acks_received(packets, receiver) == 4


# ---- the comparison ---------------------------------------------------------

@pytest.mark.parametrize("rates, index", [
    ([5, 5, 5, 5], 1), ([8, 0, 0, 0], 0.25), ([1, 2, 3], 36 / 42), ([7], 1), ([0, 0], None)])
def test_jain(rates, index):
    assert flow_view.jain(rates) == (index if index is None else pytest.approx(index))


def test_without_long_there_is_no_long_run():
    planned = comparison.plan()
    assert {item.kind for item in planned.items} == {
        "transfer", "floor", "bulk", "beside", "cost", "log"}
    assert planned.fast is None


def test_every_policy_shares_a_link_with_the_same_rival():
    planned = comparison.plan()
    shared = {}
    for item in planned.of("beside"):
        own, rival = item.scenario.flows
        assert own.cc == item.policy.cc and own.seconds == rival.seconds == item.amount
        assert item.scenario.modules == item.policy.modules
        assert item.scenario.seed == item.seed
        shared.setdefault((item.link, rival.cc, item.seed), []).append(own.cc)
    wanted = [policy.cc for policy in planned.policies]
    assert list(shared.values()) == 6 * [wanted]
    assert {(cc, seed) for _, cc, seed in shared} == {("cubic", seed) for seed in (1, 2, 3)}


def test_no_flow_of_a_pair_keeps_in_step_with_the_bottleneck():
    """An ACK's jitter is as long as a segment needs there."""
    for item in comparison.plan().of("beside"):
        _, stage = item.scenario.bottleneck
        segment_ms = 8 * item.scenario.frame_bytes / stage.rate_mbit / 1e3
        assert item.scenario.hops[0].reverse.jitter_ms == pytest.approx(segment_ms, rel=0.02)


def test_a_rivals_share_is_in_percent_of_two_rivals_mean(monkeypatch):
    """Over all seeds; of two rivals the second value is the slower one's."""
    items = [item for item in comparison.plan().of("beside")
             if item.policy.cc in ("satcc", "cubic") and item.link == "shared-40ms" and item.seed < 3]
    items.sort(key=lambda item: item.policy.cc == "cubic")
    runs = [types.SimpleNamespace(own=own * 1e6, rival=rival * 1e6, drops=drops)
            for own, rival, drops in ((3, 6, 3), (2, 7, 4), (5, 4, 7), (3, 6, 8))]
    monkeypatch.setattr(rows, "flow_results", lambda run: [
        {"bytes_acked": rate * 30 / 8} for rate in (run.own, run.rival)])
    monkeypatch.setattr(rows.flow_view, "queue_drops", lambda run: run.drops)
    monkeypatch.setattr(rows, "_digest", lambda run: "hash")
    link, = rows.collect_beside(zip(items, runs))["links"]
    shares = [(row["policy"], row["own_mbit"], row["rival_mbit"], row["drops"], row["seeds"])
              for row in link["rows"]]
    assert shares == [("satcc", [3, 2], [6, 7], [3, 4], [1, 2]),
                      ("cubic", [5, 6], [4, 3], [7, 8], [1, 2])]
    assert [list(map(round, row["rival_pct"])) for row in link["rows"]] == [[133, 156], [89, 67]]


def test_every_policy_is_counted_once_at_each_loss_with_its_events_off():
    planned = comparison.plan()
    items = planned.of("cost")
    assert all(item.scenario.trace == () and not item.scenario.modules for item in items)
    counted = [(item.policy.cc, item.loss_pct) for item in items]
    assert len(set(counted)) == len(counted)
    assert {cc for cc, _ in counted} == {policy.cc for policy in planned.policies}
    assert all(f"insmod ./satcc_cost.ko cc={item.policy.cc}" in item.scenario.before
               for item in items)


def test_each_transfer_has_a_floor_of_each_receiver():
    """The policies' link and sizes; no window and no queue hold its sender back; a receiver has
    the policies' buffer, or the one that Linux has by itself."""
    planned = comparison.plan()
    assert [(item.link, item.amount, item.mode) for item in planned.of("floor")] == [
        (link, size, receiver) for link, size in dict.fromkeys(
            (item.link, item.amount) for item in planned.of("transfer"))
        for receiver in ("receiver", "stock")]
    for item in planned.of("floor"):
        alone = next(one.scenario for one in planned.of("transfer") if one.link == item.link)
        number, stage = item.scenario.bottleneck
        assert (stage.rate_mbit, item.scenario.base_rtt_s) == (
            alone.bottleneck[1].rate_mbit, alone.base_rtt_s)
        packets = item.amount / item.scenario.mss
        assert item.scenario.queue_packets(stage) > packets < item.scenario.sender.initcwnd
        size = alone.socket_bytes()
        assert item.scenario.receiver.sysctl["net.ipv4.tcp_rmem"] == (
            "4096 131072 6291456" if item.mode == "stock" else f"4096 {size} {size}")
        assert item.scenario.flows[0].bytes == item.amount and not item.scenario.trace


def test_the_time_held_by_the_receiver_is_the_kernels():
    run = types.SimpleNamespace(json=lambda name: {"flow-0.json": {"rwnd_limited": 1_250_000}}[name])
    assert flow_view.receiver_limited_s(run) == 1.25


def test_long_runs_have_room():
    """Memory for all that socket buffers may hold, half the guest's; and buffers of twice BDP and
    queue a flow."""
    planned = comparison.plan(long=True)
    items = planned.of("long", "shared")
    limit = 4096 * int(re.search(r'echo "(\d+) \1 \1" > /proc/sys/net/ipv4/tcp_mem',
                                 (GUEST / "init").read_text())[1])
    assert {len(item.scenario.flows) for item in items} == {1, 4}
    for item in items:
        size = item.scenario.sender.sysctl.get("net.ipv4.tcp_wmem")
        size = int(size.split()[2]) if size else item.scenario.socket_bytes()
        stage = planned.fast.bottleneck[1]
        base = planned.fast.bdp_packets(stage) + planned.fast.queue_packets(stage)
        assert size >= 2 * base * 2304
        needed = len(item.scenario.flows) * size + item.scenario.socket_bytes()
        assert needed < min(limit, machine.MEMORY_MB << 19)


def test_waiting_for_a_buffer_is_a_part_of_the_busy_time():
    base = comparison.plan(long=True).of("shared")[0].scenario
    run = types.SimpleNamespace(scenario=base, json=lambda name: {
        "busy_time": 1000, "sndbuf_limited": 100 if name == "flow-0.json" else 0})
    assert rows._waited_pct(run, "sndbuf_limited") == pytest.approx(2.5)


class Said:
    def __init__(self, changes=0, differences=(), unchecked=None):
        self.counts = {"x": types.SimpleNamespace(changes=changes)} if changes else {}
        self.differences, self.unchecked = list(differences), unchecked or {}


def test_checks_are_counted_by_policy():
    planned = comparison.plan()
    ours, theirs = planned.policies[0], next(p for p in planned.policies if not p.ours)
    items = [item for item in planned.items if item.policy in (ours, theirs)]
    answers = iter([Said(10), Said(7, ["cwnd should be 3"])])
    by_policy = rows.collect_checks([(item, None) for item in items],
                                    lambda run: next(answers, Said(1)))
    traced = [item for item in items if item.policy == ours and item.scenario.trace]
    assert list(by_policy) == [ours.label]
    assert by_policy[ours.label] == {"runs": len(traced), "changes": 17 + len(traced) - 2,
                                     "differences": ["cwnd should be 3"], "unchecked": []}
    by_policy = rows.collect_checks([(traced[0], None), (traced[1], None)], lambda run: Said())
    assert by_policy[ours.label]["unchecked"] == ["the oracle has no such policy"]


# ---- the logger's cost -------------------------------------------------------

def test_each_mode_is_played_once_with_its_events():
    by_mode = {item.mode: item.scenario for item in comparison.plan().of("log")}
    assert by_mode["not loaded"].modules == {} and by_mode["no event on"].modules == {"satcc_log": {}}
    assert by_mode["not loaded"].trace == by_mode["no event on"].trace == ()
    assert by_mode["ack_received"].trace == ("satcc:ack_received",)
    assert len(by_mode["all three"].trace) == 3


def test_overhead_is_the_difference_to_a_run_without_the_logger():
    plain = overhead.Overhead("not loaded", 1_000_000, 100, 50, 0)
    on = overhead.Overhead("ack_received", 1_100_000, 100, 50, 50)
    first, second = overhead.table([plain, on])
    assert (first["per_segment"], first["per_record"]) == (0, None)
    assert (second["per_segment"], second["per_record"]) == (1000, 2000)
    assert second["per_packet"] == pytest.approx(100_000 / 150)
    with pytest.raises(LabError, match="differ in their packets"):
        overhead.table([plain, overhead.Overhead("all three", 1, 101, 50, 100)])
