# SPDX-License-Identifier: GPL-2.0
"""What follows from a scenario, held against the job that plays it and against captures."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies

from bench.lab import job
from bench.record import pcap
from bench.scenario import scenario
from bench.scenario.scenario import FIRST_PORT, from_dict
from selftests.bench import captures


def netem_ms(files: dict, node: str, dev: str) -> float:
    """The delay of a node's device, by the tc commands of the job."""
    for line in files.get(f"tc-{node}", b"").decode().splitlines():
        words = line.split()
        if "netem" in words and "delay" in words and words[words.index("dev") + 1] == dev:
            return int(words[words.index("delay") + 1].removesuffix("us")) / 1e3
    return 0


def walked_ms(played: scenario.Scenario, source: str, to: str) -> float:
    """What a packet is delayed on its way, by the job's own routes: from node to node, as its kernel
    would forward it."""
    files = job.files(played)
    owner, peer = {}, {}            # address -> node; (node, device) -> node
    for line in files["links"].decode().splitlines():
        if line.startswith("link add"):
            words = line.split()
            dev, node, other, next_hop = words[2], words[4], words[9], words[11]
            peer[node, dev], peer[next_hop, other] = next_hop, node
    batches = {name.removeprefix("ip-"): text.decode().splitlines()
               for name, text in files.items() if name.startswith("ip-")}
    for node, lines in batches.items():
        owner |= {line.split()[2].split("/")[0]: node for line in lines if line.startswith("address")}
    address = job.host_address(played, to)
    node, delay = source, 0.0
    while node != to:
        dev = None
        for line in batches[node]:
            words = line.split()
            if line.startswith("route add") and words[2] in (address, "default"):
                dev = words[words.index("dev") + 1]
        if dev is None:             # the link's own network
            dev, = [dev for dev in ("left", "right", *(leaf.name for leaf in played.leaves))
                    if peer.get((node, dev)) == owner[address]]
        delay += netem_ms(files, node, dev)
        node = peer[node, dev]
    return delay


@strategies.composite
def scenarios(draw):
    """Up to four hops with a delay each way, hosts beside them, and a flow between any two ends; the
    second flow crosses every hop, as some flow must."""
    ms = strategies.integers(0, 400)
    hops = [{"name": f"r{n}", "forward": {"delay_ms": draw(ms)}, "reverse": {"delay_ms": draw(ms)}}
            for n in range(draw(strategies.integers(1, 4)))]
    hosts = [{"name": f"h{n}", "at": draw(strategies.sampled_from(hops))["name"], "delay_ms": draw(ms)}
             for n in range(draw(strategies.integers(0, 3)))]
    ends = draw(strategies.permutations(["sender", "receiver", *(host["name"] for host in hosts)]))
    return from_dict({"title": "drawn", "hop": hops, "host": hosts, "flow": [
        {"cc": "reno", "bytes": 1, "source": ends[0], "to": ends[1]}, {"cc": "reno", "bytes": 1}]})


@settings(max_examples=200, deadline=None)
@given(scenarios())
def test_a_flows_rtt_is_what_its_packets_pass(played):
    flow, _ = played.flows
    forth, back = walked_ms(played, flow.source, flow.to), walked_ms(played, flow.to, flow.source)
    assert played.rtt_s(flow) == pytest.approx((forth + back) / 1e3)
    passed = [hop for number, hop in enumerate(played.hops) if number in played.way(flow)]
    to_right = played._node(flow.source) <= played._node(flow.to)
    assert sum(hop.forward.delay_ms for hop in passed) == pytest.approx(
        forth - sum(leaf.delay_ms for leaf in played.leaves if leaf.name == flow.to) if to_right else 0)


def usual(**more):
    """A scenario with the hops of the saved topology."""
    return from_dict({"title": "usual", "hop": [
        {"name": "gateway", "forward": {"rate_mbit": 2, "queue_bdp": 1}, "reverse": {"delay_ms": 300}},
        {"name": "satellite", "forward": {"delay_ms": 300}}],
        "flow": [{"cc": "reno", "bytes": 1}], **more})


def topology_files(played, saved: bool) -> dict[str, list[str]]:
    return {name: text.decode().splitlines() for name, text in job.files(played, saved=saved).items()
            if name == "links" or name.startswith(("set-", "ip-"))}


def test_a_usual_run_sets_up_no_topology():
    assert topology_files(usual(), saved=True) == {}
    assert len(topology_files(usual(), saved=False)) == 9


def test_a_run_sets_what_the_saved_topology_has_otherwise():
    played = usual(sender={"initcwnd": 20, "sysctl": {"net.ipv4.tcp_sack": 0}})
    assert topology_files(played, saved=True) == {
        "set-sender": ["echo 0 > /proc/sys/net/ipv4/tcp_sack"],
        "ip-sender": ["route replace 192.0.2.10 via 192.0.2.2 dev right initcwnd 20"]}
    script = job.files(played, saved=True)["run"].decode()
    assert "in_ns sender sh -e ./set-sender\nip -n sender -batch ip-sender\ntc -n" in script


def test_a_run_adds_a_host_beside_the_saved_topology():
    added = topology_files(usual(host=[{"name": "wired", "at": "satellite"}]), saved=True)
    assert added["links"] == [
        "netns add wired",
        "link add wired netns satellite type veth peer name uplink netns wired"]
    assert sorted(added) == sorted(
        ["links", "ip-sender", "ip-gateway", "ip-satellite", "ip-receiver", "ip-wired", "set-satellite",
         "set-wired"])
    assert not any("left" in line or "right tso" in line for line in added["set-satellite"])


@pytest.mark.parametrize("more", [
    {"mtu": 1400}, {"family": 6}, {"offload": True},
    {"hop": [{"name": "gateway", "forward": {"rate_mbit": 2, "queue_bdp": 1}},
             {"name": "terminal", "forward": {"delay_ms": 300}}]},
    {"hop": [{"name": "gateway", "forward": {"rate_mbit": 2, "queue_bdp": 1}}]},
    {"hop": [{"name": "gateway", "forward": {"rate_mbit": 2, "queue_bdp": 1}},
             {"name": "satellite", "forward": {"delay_ms": 300}}, {"name": "terminal"}]}],
    ids=lambda more: " ".join(more))
def test_a_run_with_another_topology_sets_up_all_of_it(more):
    assert job.files(usual(**more), saved=True) == job.files(usual(**more))


def beside(**more):
    """A host at r1 with 25 ms sends to one at r2, past 10 Mbit/s; the line has 43 ms."""
    return from_dict({
        "title": "made up",
        "hop": [{"name": "r1", "forward": {"rate_mbit": 10, "queue_packets": 9},
                 "reverse": {"delay_ms": 25}},
                {"name": "r2", "forward": {"delay_ms": 7}, "reverse": {"delay_ms": 11}}],
        "host": [{"name": "wireda", "at": "r1", "delay_ms": 25}, {"name": "wiredb", "at": "r2"}],
        "flow": [{"cc": "reno", "bytes": 1},
                 {"cc": "reno", "bytes": 1, "source": "wireda", "to": "wiredb"},
                 {"cc": "reno", "bytes": 1, "source": "receiver", "to": "sender"}], **more})


def test_hosts_beside_the_line_have_round_trips_of_their_own():
    """36.0 ms: what selftests/lab/test_network.py has the kernel measure."""
    transfer = beside()
    assert [transfer.rtt_s(flow) for flow in transfer.flows] == pytest.approx([0.043, 0.036, 0.043])
    assert transfer.base_rtt_s == pytest.approx(0.043)
    assert [transfer.flow_bdp_packets(flow) for flow in transfer.flows] == [36, 30, None]


def test_the_bdp_is_what_leaves_a_full_bottleneck_in_a_round_trip():
    """By a capture behind it: frames of 1514 bytes back to back for two seconds at 10 Mbit/s."""
    transfer = beside()
    stage = transfer.bottleneck[1]
    each_s = transfer.frame_bytes * 8 / (stage.rate_mbit * 1e6)
    sent = captures.capture(
        captures.packet(1 + n * each_s, 40000, FIRST_PORT, 1 + n * transfer.mss, pcap.ACK,
                        transfer.mtu - 40) for n in range(int(2 / each_s)))
    assert set(sent.wire.tolist()) == {transfer.frame_bytes}
    for rtt_s in (0.036, 0.043, 0.6):
        begins = np.arange(1.0, 2, 0.0137)
        inside = [int(((sent.t >= begin * 1e9) & (sent.t < (begin + rtt_s) * 1e9)).sum())
                  for begin in begins]
        assert max(inside) == transfer.bdp_packets(stage, rtt_s)
        assert min(inside) >= transfer.bdp_packets(stage, rtt_s) - 1


def test_time_slots_carry_no_ethernet():
    mac = {"kind": "bod"}
    transfer = beside(hop=[{"name": "r1", "reverse": {"delay_ms": 25}},
                           {"name": "r2", "forward": {"mac": mac, "delay_ms": 7}}])
    stage = transfer.bottleneck[1]
    assert transfer.bdp_packets(stage, 1) == np.ceil(stage.speed_mbit * 1e6 / 8 / 1500)
    assert transfer.net_rate_bps == pytest.approx(stage.speed_mbit * 1e6 * 1448 / 1500)


def test_netem_has_room_for_a_delay_and_its_jitter():
    """All packets of the fastest rate, each of 66 bytes, that arrive within the longest delay."""
    played = beside(hop=[{"name": "r1", "forward": {"rate_mbit": 10, "queue_packets": 9},
                          "reverse": {"delay_ms": 20, "jitter_ms": 300}}, {"name": "r2"}])
    line, = [line for line in job.files(played)["tc-r1"].decode().splitlines() if "dev left" in line]
    words = line.split()
    assert words[words.index("delay") + 1:][:2] == ["170000us", "150000us"]
    assert int(words[words.index("limit") + 1]) >= 10e6 / 8 / 66 * 0.32
