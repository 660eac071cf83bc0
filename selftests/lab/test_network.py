# SPDX-License-Identifier: GPL-2.0
"""Hosts beside the line, managed queues, the proxy and the traffic that is not one bulk flow."""

import dataclasses
import json
import os
import subprocess

import numpy as np
import pytest

from bench.commands import describe
from bench.errors import LabError
from bench.lab import job, machine
from bench.lab.play import Lab
from bench.measure import flow_view
from bench.oracle import calls
from bench.record import pcap
from bench.scenario import traffic
from bench.scenario.scenario import FIRST_PORT, Red, from_dict
from selftests.conftest import KERNEL, long

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def papers():
    return Lab(KERNEL, extras=("papers",))


def witnessed(run):
    """The calls of hybla_full's callbacks, of whichever host."""
    return calls.of_run(run, {"hybla_full"}).get("hybla_full", ())


def path(flows, forward=None, pep="", hosts=(), **rest):
    """sender - r1 (10 Mbit/s) - r2 (the stage given) - satellite - receiver, 520 ms."""
    return from_dict({
        "title": "test", "captures": ["sender", "receiver"],
        "hop": [{"name": "r1", "forward": {"rate_mbit": 10, "queue_packets": 100}},
                {"name": "r2", "pep": pep, "forward": forward or {"rate_mbit": 2, "queue_packets": 100},
                 "reverse": {"delay_ms": 10}},
                {"name": "satellite", "forward": {"delay_ms": 250}, "reverse": {"delay_ms": 260}}],
        "host": list(hosts), "flow": flows, **rest})


WIRED = ({"name": "wireda", "at": "r1", "delay_ms": 25}, {"name": "wiredb", "at": "r2"})
ACROSS = {"source": "wireda", "to": "wiredb"}


def arrived(run, number=0):
    """A flow's data as it reaches the receiver."""
    rx = run.receiver
    return rx.where((rx.dport == FIRST_PORT + number) & (rx.length > 0))


def test_flows_beside_the_line(papers):
    """A wired flow's round trip is its host's delay, and it meets the satellite's at r1 alone."""
    run = papers.run(path([{"cc": "cubic", "seconds": 10}, {"cc": "reno", "seconds": 10, **ACROSS},
                           {"cc": "hybla_full", "bytes": 200_000, "source": "receiver", "to": "sender"}],
                          hosts=WIRED))
    forth, beside, back = (run.json(f"flow-{n}.json") for n in range(3))
    assert 520_000 < forth["min_rtt"] < 522_000
    assert 35_000 < beside["min_rtt"] < 37_000      # its host's 25 ms, and 10 from r2 to r1
    assert back["min_rtt"] > 520_000 and back["bytes_acked"] >= 200_000
    assert beside["bytes_acked"] * 8 / 10 > 6e6 > 2e6 > forth["bytes_acked"] * 8 / 10
    assert run.qdisc("r1", "netem", "wireda")["packets"] >= beside["segs_in"]
    assert not flow_view.FlowView(run).is_retransmit.all()
    # `bench run` on it: the sender's capture has the first flow only.
    lines = [describe(run, number) for number in range(3)]
    assert f"{forth['bytes_acked']} bytes" not in lines[0] and " Mbit/s over 10 s, " in lines[0]
    assert lines[1].startswith(f"{beside['bytes_acked']} bytes in ") and "by wireda, " in lines[1]
    assert lines[2].startswith(f"{back['bytes_acked']} bytes in ") and "by receiver, " in lines[2]


def test_the_kernel_measures_the_rtt_that_a_scenario_says(papers):
    """Of the line, of hosts beside it, and of flows to the left, with other delays there than back.  On
    top come serialisation and what the guest's instructions take."""
    wired = [{"name": "wireda", "at": "r1", "delay_ms": 25}, {"name": "wiredb", "at": "r2"},
             {"name": "wiredc", "at": "r2", "delay_ms": 3}]
    ways = [("sender", "receiver"), ("wireda", "wiredb"), ("wiredc", "wireda"), ("receiver", "sender"),
            ("receiver", "wireda"), ("wiredb", "wiredc")]
    transfer = from_dict({
        "title": "test", "captures": ["sender", "bottleneck"], "trace": [],
        "hop": [{"name": "r1", "forward": {"rate_mbit": 10, "queue_packets": 100},
                 "reverse": {"delay_ms": 25}},
                {"name": "r2", "forward": {"delay_ms": 7}, "reverse": {"delay_ms": 11}}],
        "host": wired, "flow": [{"cc": "cubic", "bytes": 100_000, "source": source, "to": to,
                                 "start_s": 2 * number} for number, (source, to) in enumerate(ways)]})
    run = papers.run(transfer)
    for number, flow in enumerate(transfer.flows):
        took_us = run.json(f"flow-{number}.json")["min_rtt"] - transfer.rtt_s(flow) * 1e6
        assert 0 <= took_us < 300, (flow.source, flow.to)


def test_a_full_link_sends_its_bdp_in_a_round_trip(papers):
    """Frames behind the bottleneck, in windows of one RTT while it is never idle."""
    transfer = path([{"cc": "cubic", "seconds": 15}], captures=["sender", "bottleneck"])
    run = papers.run(transfer)
    flow, = transfer.flows
    frames = run.bottleneck.where(run.bottleneck.wire == transfer.frame_bytes)
    seconds = (frames.t - frames.t[0]) / 1e9
    counts = [int(((seconds >= at) & (seconds < at + transfer.rtt_s(flow))).sum())
              for at in np.arange(6, 10, 0.25)]
    assert max(counts) in (transfer.flow_bdp_packets(flow) - 1, transfer.flow_bdp_packets(flow))
    assert min(counts) >= transfer.flow_bdp_packets(flow) - 2


def test_udp_takes_what_it_sends(papers):
    """9.5 of 10 Mbit/s for three seconds; what the flow beside it had is what it has then."""
    run = papers.run(path(
        [{"cc": "cubic", "seconds": 9},
         {"cc": "reno", "tool": "udp", "rate_mbit": 9.5, "seconds": 3, "start_s": 4, **ACROSS}],
        hosts=WIRED))
    sums = run.json("flow-1.json")["end"]["sum"]
    assert sums["bits_per_second"] == pytest.approx(9.5e6, rel=0.01)
    view = flow_view.FlowView(run)
    rate = [8 * (view.acked_by(b) - view.acked_by(a)) / (b - a) / 1e6 for a, b in ((2, 4), (5, 7))]
    assert rate[1] < 0.75 * rate[0]


@pytest.mark.parametrize("aqm", ["codel", "fq_codel", "pie"])
def test_an_aqm_keeps_the_queue_short(papers, aqm):
    """Below what drop-tail lets it grow to, at the same load; a limit by itself would not."""
    def queue_ms(stage):
        run = papers.run(path([{"cc": "cubic", "seconds": 20}], forward={"rate_mbit": 2, **stage}))
        view = flow_view.FlowView(run)
        rtt = [a - s for s, a in zip(view.segment_s, np.interp(
            view.segment_seq + view.segment_len, view.ack_bytes, view.ack_s)) if s > 10]
        return 1e3 * np.median(rtt) - 520
    assert queue_ms({"queue_packets": 300, "aqm": aqm}) < 0.5 * queue_ms({"queue_packets": 300})


def test_a_queue_in_bytes(papers):
    run = papers.run(path([{"cc": "cubic", "seconds": 10}],
                          forward={"rate_mbit": 2, "queue_bytes": 30_000}))
    assert run.qdisc("r2", "bfifo")["drops"] > 0


def test_red_has_the_weight_asked_for():
    """tc's own rule for its `burst`, turned round."""
    for red in (Red(), Red(20, 40), Red(5, 10, weight=1 / 64)):
        burst = red.burst_packets()
        log = next(log for log in range(1, 32)
                   if burst + 1 - red.min_packets <= (1 - (1 - 2.0 ** -log) ** burst) * 2 ** log)
        assert log == red.log_weight
    with pytest.raises(ValueError, match="power of two"):
        Red(weight=0.002).rules()


@pytest.mark.parametrize("more", [
    {"pep": "cubic"}, {"forward": {"rate_mbit": 2, "queue_packets": 9, "aqm": "pie"}},
    {"flows": [{"cc": "cubic", "tool": "page", "objects": [9]}]},
    {"before": ["delayed_acks $(pidof flow)"]}])
def test_a_scenario_knows_the_image_it_needs(more):
    transfer = path(**{"flows": [{"cc": "cubic", "bytes": 9}], **more})
    assert transfer.extras == ("papers",)
    assert path([{"cc": "cubic", "bytes": 9}]).extras == ()


def test_a_tunnel_is_in_an_image_of_its_own():
    tunnel = {"before": ["ip link add wg0 type wireguard"]}
    flows = [{"cc": "cubic", "bytes": 9}]
    assert path(flows, **tunnel).extras == ("wireguard",)
    assert path(flows, pep="cubic", **tunnel).extras == ("papers", "wireguard")


def test_a_rate_changes(papers):
    """2 Mbit/s, and from second 8 on half of it, with the queue as it was."""
    run = papers.run(path([{"cc": "cubic", "seconds": 16}], change=[
        {"at_s": 8, "hop": "r2", "forward": {"rate_mbit": 1, "queue_packets": 100}}]))
    data = arrived(run)
    seconds = (data.t - run.sender.t[0]) / 1e9
    rate = [8 * data.wire[(seconds > a) & (seconds < b)].sum() / (b - a) / 1e6
            for a, b in ((5, 8), (10, 16))]
    assert rate[0] == pytest.approx(2, rel=0.02) and rate[1] == pytest.approx(1, rel=0.02)
    assert run.qdisc("r2", "pfifo")["drops"] > 0


@pytest.mark.parametrize("family", [4, long(6)])
def test_the_proxy_splits(papers, family):
    """The sender has done in a fraction of what the satellite takes; every byte arrives, from the
    sender's address, under the congestion control of the proxy's route."""
    flows = [{"cc": "cubic", "bytes": 1_000_000}]
    split, direct = (papers.run(path(flows, pep=pep, family=family)) for pep in ("hybla_full", ""))
    assert split.json("flow-0.json")["min_rtt"] < 15_000
    data = arrived(split)
    assert len(np.unique(data.sport)) == 1 and data.length.sum() >= 1_000_000
    own = split.sender.where(split.sender.dport == FIRST_PORT)
    assert set(own.sport.tolist()) != set(data.sport.tolist())
    took = [(arrived(run).t[-1] - run.sender.t[0]) / 1e9 for run in (split, direct)]
    assert took[0] < took[1]
    assert len(witnessed(split)) > 300 and not witnessed(direct)


@pytest.mark.parametrize("pep", ["", "hybla_full"])
def test_a_page(papers, pep):
    """All objects whole, over a server's connection; through the proxy it is the proxy's."""
    objects = [5_000, 60_000, 60_000]
    run = papers.run(path([{"cc": "cubic", "tool": "page", "objects": objects}], pep=pep))
    rx = run.receiver
    data = rx.where((rx.sport == FIRST_PORT) & (rx.length > 0))
    assert data.length.sum() >= sum(objects)
    assert bool(witnessed(run)) == bool(pep)
    assert not pep or len(witnessed(run)) > 20


STAND_INS = {
    "flow": """case $1 in
serve) [ ! -e serve.fails ] && echo '{"cc":"reno","options":7}';;
fetch) [ ! -e fetch.fails ];;
esac""",
    "nginx": "[ ! -e nginx.fails ] || exit 1; trap 'kill $!; exit 0' TERM; sleep 60 & wait",
    "wget": "[ ! -e wget.fails ]",
    "ss": "echo 'ESTAB 0 0 192.0.2.1:80 192.0.2.2:9 ts sack reno wscale:7,7 rto:204 rtt:1/2 cwnd:10'",
    "modprobe": ":"}


@pytest.mark.parametrize("tool", ["requests", "page"])
@pytest.mark.parametrize("fails", ["", "serve", "fetch", "nginx", "wget"])
def test_a_failed_step_is_a_failed_flow(tmp_path, tool, fails):
    """The guest's own shell lines, with stand-ins for what they run."""
    for name, text in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    if fails:
        (tmp_path / f"{fails}.fails").touch()
    flow = {"requests": {"law": "mah", "count": 2}, "page": {"objects": [10, 20]}}[tool]
    transfer = path([{"cc": "reno", "tool": tool, **flow}])
    text = job.files(transfer)
    (tmp_path / "sizes-0").write_bytes(text["sizes-0"])
    command = next(line for line in text["run"].decode().splitlines() if line.startswith(f"( {tool} "))
    lines = ["set -eu", *job.PREAMBLE, "in_ns() { shift; case $1 in sh) ;; *) \"$@\";; esac; }",
             'as_ns() { shift; exec "$@"; }', f"{command} wait $! || exit 4"]
    done = subprocess.run(["sh", "-c", "\n".join(lines)], cwd=tmp_path, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          env={**os.environ, "OUT": ".", "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    concerned = fails in {"requests": ("serve", "fetch"), "page": ("nginx", "wget")}[tool]
    assert done.returncode == (4 if concerned else 0)
    if not concerned:
        assert json.loads((tmp_path / "flow-0.json").read_text()) == {"cc": "reno"}


@pytest.mark.parametrize("flow", [
    {"tool": "requests", "law": "mah", "count": 2}, {"tool": "page", "objects": [5_000, 5_000]},
    {"tool": "background", "law": "surge", "rate_mbit": 0.5, "seconds": 5}],
    ids=lambda flow: flow["tool"])
def test_another_congestion_control_is_seen(papers, flow):
    """What the senders used, not what they were asked to."""
    to = job.receiver_address(path([{"cc": "cubic", "bytes": 1}]))
    with pytest.raises(LabError, match="flow 0 ended with reno, not with cubic"):
        papers.run(path([{"cc": "cubic", **flow}], before=[
            f"in_ns sender ip route replace $(in_ns sender ip route show {to}) congctl reno"]))


def test_requests_one_after_the_other(papers):
    """So many connections of the sizes drawn, each begun when the one before is over."""
    run = papers.run(path([{"cc": "reno", "tool": "requests", "law": "mah", "count": 20}]))
    rx = run.receiver
    syns = rx.where((rx.dport == FIRST_PORT) & (rx.flags & pcap.SYN > 0))
    data = rx.where((rx.sport == FIRST_PORT) & (rx.length > 0))
    wanted = traffic.sizes("mah", 20, "1/0")
    got = [int(data.length[data.dport == port].sum()) for port in syns.sport]
    assert got == wanted
    assert all(data.t[data.dport == before].max() < at for before, at in zip(syns.sport, syns.t[1:]))


def test_a_background_of_transfers(papers):
    """What was drawn arrives, as many connections as transfers, at the times drawn."""
    run = papers.run(path([{"cc": "reno", "tool": "background", "law": "surge", "rate_mbit": 0.5,
                            "seconds": 20}]))
    drawn = traffic.arrivals("surge", 0.5, 20, "1/0")
    tx = run.sender
    syns = tx.where((tx.dport == FIRST_PORT) & (tx.flags & pcap.SYN > 0))
    _, first = np.unique(syns.sport, return_index=True)
    begun = np.sort(syns.t[first] - syns.t[0]) / 1e9
    assert len(begun) == len(drawn)
    assert arrived(run).length.sum() >= sum(size for _, size in drawn)
    assert np.allclose(begun, [at - drawn[0][0] for at, _ in drawn], atol=0.1)


def test_acks_are_delayed_from_the_start(papers):
    """Of the first window's ten segments every second one is acknowledged; by itself the kernel
    acknowledges each."""
    def acks(before):
        run = papers.run(path([{"cc": "reno", "bytes": 20_000}], sender={"initcwnd": 10}, before=before))
        view = flow_view.FlowView(run)
        return int(np.searchsorted(view.ack_bytes, 10 * run.scenario.mss)) + 1
    assert acks(["delayed_acks $(pidof flow)"]) == 5
    assert acks([]) == 10


def test_delayed_acks_of_a_process_that_does_not_listen(papers):
    """One of several is enough to refuse."""
    with pytest.raises(LabError, match="one does not listen"):
        papers.run(path([{"cc": "reno", "bytes": 20_000}],
                        before=["delayed_acks $(pidof flow) $$ || refuse one does not listen"]))


def test_a_proxy_next_to_the_receiver(papers):
    """The receiver is on the link itself; its route has the congestion control all the same."""
    run = papers.run(from_dict({
        "title": "test", "captures": ["receiver"],
        "hop": [{"name": "r1", "forward": {"rate_mbit": 10, "queue_packets": 100}},
                {"name": "r2", "pep": "hybla_full", "forward": {"delay_ms": 250},
                 "reverse": {"delay_ms": 250}}],
        "flow": [{"cc": "cubic", "bytes": 200_000}]}))
    assert len(witnessed(run)) > 50
    assert arrived(run).length.sum() >= 200_000


# What the kernel says of a namespace: devices, routes, neighbours, sysctls and offloads.
NETWORK = b"""
ip -d -br address show
ip link show | sed s/saved-//
ip route show table all
ip -6 route show table all
ip neighbour show | sort
ip rule show
for dev in $(ip -br link show | cut -d ' ' -f 1 | cut -d @ -f 1); do ethtool -k $dev; done
grep -r . /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/ipv4/tcp_wmem \
    /proc/sys/net/ipv4/tcp_no_metrics_save \
    /proc/sys/net/ipv4/tcp_no_ssthresh_metrics_save /proc/sys/net/ipv4/tcp_sack \
    /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all
"""


BEYOND = {
    "nothing": {},
    "routes and sysctls": dict(
        rate_mbit=80, queue_bdp=8, sender={"initcwnd": 20, "sysctl": {"net.ipv4.tcp_sack": 0}},
        receiver={"quickack": 1, "initrwnd": 40}),
    "a host beside the line": dict(host=[{"name": "wired", "at": "satellite", "delay_ms": 5}]),
    "a satellite's link": dict(line={"errors": {"ber": 1e-7}}),
}
OTHERS_SHOW = ("nothing", "a satellite's link")     # every run of the lab, and each of test_link.py


@pytest.mark.parametrize("name", [long(name) if name in OTHERS_SHOW else name for name in BEYOND])
def test_the_saved_topology_and_what_a_run_adds_are_the_topology(papers, tmp_path, geo, name):
    """The kernel reports the same network as of a run that sets up all of it."""
    transfer = geo("cubic", bytes=1000, **BEYOND[name])
    nodes = [*job.nodes(transfer), *(leaf.name for leaf in transfer.leaves)]
    transfer = dataclasses.replace(transfer, after=(
        f"for node in {' '.join(nodes)}; do echo \"== $node\"; in_ns $node sh ./network; done "
        "> $OUT/network",))
    files = [{**job.files(transfer, saved=saved), "network": NETWORK} for saved in (True, False)]
    assert len(files[0]) < len(files[1])
    beyond, whole = (machine.run_job(papers.snapshot, each, tmp_path / "console").files["network"]
                     for each in files)
    assert beyond.decode() == whole.decode()
    assert beyond.count(b"tcp-segmentation-offload: off") >= 6 + 2 * len(transfer.leaves)
