# SPDX-License-Identifier: GPL-2.0
"""fairness.py against made-up runs: counters written by hand, captures built packet by packet."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from bench.errors import LabError
from bench.lab import job
from bench.measure import fairness
from bench.papers import experiment
from bench.record import pcap
from bench.scenario import scenario
from selftests.bench import captures


def made(**more) -> scenario.Scenario:
    """Two connections and HTTP through one bottleneck, and one connection behind it."""
    hosts = [{"name": name, "at": "r1", "delay_ms": 10} for name in ("near", "far", "web")]
    return scenario.from_dict({
        "title": "made up", "mtu": 1000, "samples_s": [10, 20],
        "hop": [{"name": "r1", "forward": {"rate_mbit": 1.014, "queue_packets": 5}},
                {"name": "r2", "forward": {"rate_mbit": 1.014, "queue_packets": 5}}],
        "host": [*hosts, {"name": "behind", "at": "r2"}],
        "flow": [{"cc": "reno", "seconds": 21, "source": "near"},
                 {"cc": "reno", "seconds": 21, "source": "far", "to": "behind"},
                 {"cc": "reno", "seconds": 21, "source": "behind"},
                 {"cc": "reno", "seconds": 20, "source": "web", "tool": "background", "law": "mah",
                  "rate_mbit": 0.1}], **more})


def socket(port: int, packets: int, again: int = 0) -> str:
    acked = f" bytes_acked:{packets * 948 + 1}" if packets else ""
    retrans = f" retrans:1/{again}" if again else ""
    return f"ESTAB 0 9 192.0.2.10:4000 192.0.2.6:{port} reno rto:352 cwnd:8{acked}{retrans} unacked:8\n"


def queues(packets: int, drops: int) -> str:
    counters = {"bytes": packets * 1014, "packets": packets, "drops": drops}
    return json.dumps([{"kind": "tbf", "dev": "right", **counters, "bytes": 0},
                       {"kind": "pfifo", "dev": "right", **counters},
                       {"kind": "pfifo", "dev": "left", "bytes": 7, "packets": 7, "drops": 7}])


def run_of(files: dict, made_up: scenario.Scenario) -> SimpleNamespace:
    return SimpleNamespace(scenario=made_up, read=lambda name: files[name].encode(),
                           json=lambda name: json.loads(files[name]))


@pytest.fixture
def shared():
    """In ten seconds 500 packets of near, 100 of far, 200 of behind; 1200 leave r1 of the 1250 it can
    send; 7 were sent again, 5 of them had been dropped."""
    return run_of({
        "sample-10-near": socket(5001, 0), "sample-20-near": socket(5001, 500, again=7),
        "sample-10-far": socket(5002, 50), "sample-20-far": socket(5002, 150),
        "sample-10-behind": socket(5003, 1), "sample-20-behind": socket(5003, 201),
        "sample-10-web": "", "sample-20-web": "",
        "sample-10-r1": queues(1000, 3), "sample-20-r1": queues(2202, 8),
        "sample-10-r2": queues(0, 0), "sample-20-r2": queues(0, 0)}, made())


def test_shares_are_packets_between_the_samples(shared):
    # The SYN is a byte of the first's.
    assert fairness.share_kbit(shared, 0) == pytest.approx(500 * 8000 / 10 / 1e3, rel=1e-5)
    assert fairness.share_kbit(shared, 1) == pytest.approx(100 * 8000 / 10 / 1e3)


def test_fairness_is_of_the_connections_through_the_hop(shared):
    assert fairness.fairness(shared, "r1") == pytest.approx(600**2 / (2 * (500**2 + 100**2)), rel=1e-5)
    assert fairness.fairness(shared, "r2") == pytest.approx(700**2 / (2 * (500**2 + 200**2)), rel=1e-5)
    assert fairness.share_over_mean(shared, 1) == pytest.approx(100 / 300, rel=1e-5)


def test_the_index_has_its_smallest_and_largest_value():
    assert fairness.index([3, 3, 3, 3]) == pytest.approx(1)
    assert fairness.index([0, 0, 0, 5]) == pytest.approx(1 / 4)
    assert fairness.index([0, 0]) == 0


def test_the_papers_index_is_over_the_six_foreground_connections():
    """Table 1: 0.807 and 0.873 with what 20 % of background leave to the two short ones, if they share
    it evenly; with the background as a seventh it would be further off."""
    for index, four in ((0.807, [68.1, 116.2, 156.6, 217.1]), (0.873, [138.7, 109.1, 151.6, 207.0])):
        rest = 1500 * 0.99 - 300 - sum(four)
        six = fairness.index([*four, rest / 2, rest / 2])
        assert six == pytest.approx(index, abs=0.015)
        assert abs(six - index) < abs(fairness.index([*four, rest / 2, rest / 2, 300]) - index)


def test_utilisation_counts_a_packet_once(shared):
    # 1 Mbit/s of packets of 1000 bytes; 2 of those sent again had not been dropped.
    assert fairness.link_utilisation(shared) == pytest.approx((1202 - 2) * 8000 / (1e6 * 10))


def test_a_missing_connection_is_an_error(shared):
    with pytest.raises(LabError, match="port 5009"):
        fairness.acked_bytes(shared.read("sample-20-near").decode(), 5009)
    with pytest.raises(LabError, match="two times"):
        fairness.share_kbit(run_of({}, made(samples_s=[10])))


def test_the_samples_are_taken_in_the_script():
    script = job.files(made())["run"].decode()
    for at in (10, 20):
        line = next(line for line in script.splitlines() if line.startswith(f"( sleep {at};"))
        for node in ("near", "far", "behind", "web"):
            assert f"in_ns {node} ss -HtinO > $OUT/sample-{at}-{node}" in line
        assert f"in_ns r2 tc -s -j qdisc show > $OUT/sample-{at}-r2" in line
    assert "sample-" not in job.files(made(samples_s=[]))["run"].decode()


# ---- captures --------------------------------------------------------------

def capture(*packets) -> pcap.Packets:
    return captures.capture(captures.packet(*one) for one in packets)


def test_received_data_counts_once():
    """Three segments in a second, one of them twice, one after the end; two ACKs of 40 bytes."""
    run = SimpleNamespace(scenario=made(), receiver=capture(
        (5.0, 4000, 5001, 99, pcap.SYN, 0), (5.1, 4000, 5001, 100, pcap.ACK, 1000),
        (5.2, 4000, 5001, 2100, pcap.ACK, 1000), (5.3, 4000, 5001, 2100, pcap.ACK, 1000),
        (5.35, 5001, 4000, 7, pcap.ACK, 0), (5.4, 4000, 5001, 1100, pcap.ACK, 1000),
        (5.5, 5001, 4000, 7, pcap.ACK, 0), (5.6, 4000, 5002, 1, pcap.ACK, 1000),
        (6.5, 4000, 5001, 3100, pcap.ACK, 1000)))
    assert fairness.forward_kbit(run, 0, to_s=1) == pytest.approx(24)
    assert fairness.forward_kbit(run, 0, from_s=0.15, to_s=1.15) == pytest.approx(16)
    assert fairness.reverse_kbit(run, 0, to_s=1) == pytest.approx(2 * 40 * 8 / 1e3)


def test_replies_are_timed_from_their_syn():
    """Of 948, 1896 and 94800 bytes and more, in 1.2, 1.8 and 9 s."""
    sent = []
    for port, at, took, segments in ((20000, 1, 1.2, 1), (20001, 4, 1.8, 2), (20002, 8, 9, 101)):
        sent += [(at, port, 5001, 5, pcap.SYN, 0), (at + 0.6, port, 5001, 6, pcap.ACK, 1)]
        sent += [(at + took * (number + 1) / segments, 5001, port, 6 + 948 * number, pcap.ACK, 948)
                 for number in range(segments)]
    run = SimpleNamespace(scenario=made(), receiver=capture(*sent))
    for statistic, value in (("minimum", 1.2), ("median", 1.8), ("mean", 4)):
        assert fairness.reply_s(run, 0, statistic) == pytest.approx(value)
    assert fairness.reply_s(run, 0, "mean", most_segments=100) == pytest.approx(1.5)
    with pytest.raises(LabError, match="no statistic"):
        fairness.reply_s(run, 0, "mode")
    with pytest.raises(LabError, match="no reply"):
        fairness.reply_s(run, 1)


def test_a_transfers_rate_has_the_handshake_in_it():
    info = json.dumps({"busy_time": 7_400_000, "min_rtt": 600_000})
    run = run_of({"flow-0.json": info}, scenario.from_dict({
        "title": "made up", "hop": [{"name": "r1"}], "flow": [{"cc": "reno", "bytes": 1_000_000}]}))
    assert fairness.transfer_kbit(run) == pytest.approx(1000)


def test_the_first_recovery_ends_with_what_was_sent_at_its_start(monkeypatch):
    view = SimpleNamespace(
        segment_s=np.array([0, 1, 2, 3, 4.0]), segment_seq=np.array([0, 100, 200, 100, 300]),
        segment_len=np.full(5, 100), is_retransmit=np.array([False, False, False, True, False]),
        ack_s=np.array([1, 3.5, 5, 6]), ack_bytes=np.array([100, 200, 300, 400]))
    monkeypatch.setattr(fairness.flow_view, "FlowView", lambda run, flow: view)
    assert fairness.first_recovery_s(None) == pytest.approx(5 - 3)
    view.is_retransmit = np.zeros(5, bool)
    assert fairness.first_recovery_s(None) is None


# ---- the data --------------------------------------------------------------

@pytest.fixture(scope="module")
def henderson():
    return {one.name: one for one in experiment.load_all(["henderson"])}


def test_every_share_is_measured_where_it_is_sampled(henderson):
    for one in henderson.values():
        for cell in one.cells:
            if one.metric in ("share_kbit", "fairness", "share_over_mean", "link_utilisation"):
                until = cell.scenario.samples_s[-1]
                assert all(flow.seconds > until for flow in cell.scenario.flows if flow.tool == "flow")
                assert not cell.scenario.capture


def test_k_applies_to_the_long_connection_only(henderson):
    for cell in henderson["figure10"].cells:
        ours = [flow.source for flow in cell.scenario.flows if flow.cc == "ibk"]
        assert ours == ([] if cell.labels["K"] == "1" else
                        ["rtt300" if "300" in cell.labels["topology"] else "rtt600"])


def test_constant_rate_is_on_all_connections(henderson):
    for cell in henderson["figure7"].cells:
        wanted = "reno" if cell.labels["policy"] == "standard" else "constant_rate"
        http = "reno" if "HTTP" in cell.labels["policy"] else wanted
        assert {flow.cc for flow in cell.scenario.flows if flow.tool == "flow"} == {wanted}
        assert {flow.cc for flow in cell.scenario.flows if flow.tool == "background"} == {http}
    for cell in henderson["figure9"].cells:
        other = [flow.source for flow in cell.scenario.flows if flow.cc == "reno"]
        assert other == ([] if "none added" in cell.labels["the others"] else ["standard"])


def receivers(played: scenario.Scenario) -> set[str]:
    return {flow.to for flow in played.flows}


def test_newreno_is_without_sack_at_every_receiver(henderson):
    """Not at the line's end alone: in topology 3 most connections end elsewhere."""
    labelled = [cell for one in henderson.values() for cell in one.cells
                if cell.labels.get("TCP") in ("SACK", "NewReno")]
    assert {len(receivers(cell.scenario)) for cell in labelled} == {1, 5}
    for cell in labelled:
        files = job.files(cell.scenario)
        for host in receivers(cell.scenario):
            off = b"echo 0 > /proc/sys/net/ipv4/tcp_sack" in files[f"set-{host}"]
            assert off == (cell.labels["TCP"] == "NewReno"), (cell.labels, host)


def test_every_receiver_of_shares_acknowledges_each_segment(henderson):
    """As `differs` has it, but for the column of today's settings: by its routes."""
    shares = [one for one in henderson.values() if one.metric in (
        "share_kbit", "fairness", "share_over_mean", "link_utilisation")]
    assert len(shares) > 15
    for one in shares:
        for cell in one.cells:
            if cell.labels.get("settings", "of the time") != "of the time":
                continue
            files = job.files(cell.scenario)
            for host in receivers(cell.scenario):
                routes = [line for line in files[f"ip-{host}"].decode().splitlines()
                          if line.startswith("route add")]
                assert routes and all("quickack 1" in line for line in routes), (one.id, host)
