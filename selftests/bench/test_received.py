# SPDX-License-Identifier: GPL-2.0
"""received.py against captures made up packet by packet: holes, repeats, a wrap, two flows."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from bench.errors import LabError
from bench.measure import fairness, metrics, pages, received
from bench.record import pcap
from selftests.bench import captures

PORT = 5001
RTT_S = 0.6
SYN_S = 1000


def capture(segments, base=7, port=PORT):
    """A SYN at SYN_S, then (s after it, offset, bytes) each, and an ACK of the receiver's own."""
    sent = [captures.packet(SYN_S, 40000, port, base - 1, pcap.SYN)]
    sent += [captures.packet(SYN_S + t, 40000, port, base + start, pcap.ACK, size)
             for t, start, size in segments]
    return captures.capture([*sent, captures.packet(SYN_S, port, 40000, 0, pcap.ACK)])


def made(segments, seconds=0, to="receiver", **kwargs):
    """A run with such a capture, over a link that carries 0.8 Mbit/s."""
    return SimpleNamespace(
        receiver=capture(segments, **kwargs),
        scenario=SimpleNamespace(rtt_s=lambda flow: RTT_S, net_rate_bps=800_000, mss=1000, mtu=1000,
                                 flows=[SimpleNamespace(seconds=seconds, bytes=0, to=to)] * 2))


def test_bytes_count_once_and_above_a_hole():
    run = made([(0, 0, 100), (1, 200, 100), (2, 200, 100), (3, 300, 50), (4, 100, 100), (5, 0, 100)])
    arrived = received.arrivals(run)
    assert arrived.total.tolist() == [100, 200, 200, 250, 350, 350]
    assert arrived.in_order.tolist() == [100, 100, 100, 100, 350, 350]
    assert arrived.t == pytest.approx([0, 1, 2, 3, 4, 5])
    assert arrived.begin_ns == SYN_S * 10**9


def test_a_segment_cut_anew_never_takes_bytes_back():
    run = made([(0, 0, 100), (1, 200, 100), (2, 100, 150), (3, 250, 100)])
    assert received.arrivals(run).total.tolist() == [100, 200, 300, 350]


def test_sequence_numbers_wrap():
    run = made([(n, 100 * n, 100) for n in range(5)], base=2**32 - 150)
    assert received.arrivals(run).total.tolist() == [100, 200, 300, 400, 500]


def test_arrivals_are_of_one_flow():
    run = made([(0, 0, 100)], port=PORT + 1)
    assert received.arrivals(run, 1).total.tolist() == [100]
    assert not len(received.arrivals(run).t)        # no SYN: nothing came


def test_a_flow_that_ends_elsewhere_is_not_in_the_capture():
    with pytest.raises(LabError, match="flow 0 does not end at the receiver"):
        received.arrivals(made([(0, 0, 100)], to="wired"))


def test_the_connection_with_most_payload_is_the_flows():
    """iperf3's own talk begins first."""
    talk = [captures.packet(SYN_S - 1, 39999, PORT, 0, pcap.SYN),
            captures.packet(SYN_S - 0.5, 39999, PORT, 1, pcap.ACK, 37)]
    run = made([])
    run.receiver = captures.capture([
        *talk, captures.packet(SYN_S, 40000, PORT, 6, pcap.SYN),
        captures.packet(SYN_S + 1, 40000, PORT, 7, pcap.ACK, 1000)])
    arrived = received.arrivals(run)
    assert (arrived.t.tolist(), arrived.total.tolist()) == ([1], [1000])


def test_every_measure_has_one_reading_of_a_capture():
    """1000 bytes a second for ten seconds, the fourth of which are lost and come in the ninth, cut anew
    into 400 and 600 with the first of the fifth once more.  What the papers' measures say of it differs
    by what each says it counts, and by nothing else."""
    whole = [(n + 0.5, 1000 * n, 1000) for n in range(10) if n != 3]
    run = made([*whole, (8.6, 3000, 400), (8.7, 3400, 1000)], seconds=10)
    run.scenario.flows[0].bytes = 10_000
    # Of six segments in six seconds five are there, three of them in order.
    assert received.received_kbit(run, to_s=6 + RTT_S) == pytest.approx(5 * 8 / (6 + RTT_S))
    assert fairness.forward_kbit(run, to_s=6) == pytest.approx(5 * 8 / 6)
    run.scenario.flows[0].seconds = 6
    assert pages.download_mbit(run) == pytest.approx(3 * 8e-3 / 6)
    # At the end all have the same: each byte once.
    run.scenario.flows[0].seconds = 10
    assert pages.received_rate(run)["y"] == pytest.approx(
        [8e-3 * n for n in (1, 1, 1, 0, 0, 0, 0, 0, 6, 1)])
    assert fairness.forward_kbit(run) == pytest.approx(8)
    assert pages.download_mbit(run) == pytest.approx(8e-3)
    assert received.received_kbit(run, to_s=10.1) == pytest.approx(80 / 10.1)
    assert pages.download_s(run) == pytest.approx(9.5)


def test_goodput_of_a_part():
    # 100 kB a second from 0.6 s on, for 20 s.
    run = made([(n / 10, 10_000 * n, 10_000) for n in range(200)], seconds=30)
    assert received.received_mbit(run) == pytest.approx(2e6 * 8 / 30 / 1e6)
    assert received.received_mbit(run, from_s=5, to_s=15) == pytest.approx(0.8)
    assert received.received_kbit(run, from_s=5, to_s=15) == pytest.approx(800)
    with pytest.raises(LabError, match="between 30 and 30"):
        received.received_mbit(run, from_s=30)


def test_time_to_a_share_with_and_without_the_long_window():
    # A tenth of the rate for 9.4 s, then all of it.
    slow = [(n, 10_000 * n, 10_000) for n in range(9)]
    fast = [(9.4 + n / 10, 90_000 + 10_000 * n, 10_000) for n in range(300)]
    run = made(slow + fast, seconds=39)
    # A window of 10 s holds 90 % of 1 MB when nine seconds and a tenth of it are fast.
    assert received.time_to_received(run) == 19
    assert received.time_to_received(run, window_s=1, every_s=0.1) == pytest.approx(10.9)
    assert received.time_to_received(run, of_mbit=1.6) is None


def test_a_time_sequence():
    run = made([(0, 0, 1000), (1, 1000, 1000)], seconds=2)
    series = received.arrived(run, to_s=2, every_s=1)
    assert series == {"t": [0, 1, 2], "y": [0, 1, 2]}


def test_sent_and_acknowledged(monkeypatch):
    view = SimpleNamespace(segment_s=np.array([0.6, 0.6, 1.9]), segment_seq=np.array([0, 1000, 0]),
                           segment_len=np.array([1000] * 3), is_retransmit=np.array([0, 0, 1], bool),
                           ack_s=np.array([1.2, 2.5]), ack_bytes=np.array([0, 2000]))
    monkeypatch.setattr(metrics.flow_view, "FlowView", lambda run, flow: view)
    assert metrics.time_sequence(None) == {"t": [0.6, 0.6], "y": [0, 1]}
    assert metrics.acknowledged(None) == {"t": [1.2, 2.5], "y": [0, 2]}


def files(**contents):
    return SimpleNamespace(json=lambda name: json.loads(contents[name]),
                           read=lambda name: contents[name].encode())


def test_drops_of_a_hop_are_its_queues_toward_the_receiver():
    run = files(**{"qdisc-r1.json": json.dumps([
        {"kind": "tbf", "dev": "right", "root": True, "drops": 9},
        {"kind": "red", "dev": "right", "parent": "1:", "drops": 7},
        {"kind": "pfifo", "dev": "left", "parent": "1:", "drops": 5}])})
    assert received.drops(run, "r1") == 7


def test_drops_of_a_satellite():
    run = files(**{"satlink-sat-forward.json": '{"queue_drops": 48, "in_packets": 100}'})
    assert received.satellite_drops_pct(run, "sat") == 48


def test_ping():
    answer = "64 bytes from 192.0.2.14: seq={} ttl=63 time={} ms\n"
    text = "PING 192.0.2.14 (192.0.2.14): 56 data bytes\n" + "".join(
        answer.format(n, ms) for n, ms in enumerate(("590.1", "690.1", "790.1")))
    run = files(**{"ping.txt": text})
    assert received.ping_ms(run, "min") == 590.1
    assert received.ping_ms(run) == pytest.approx(690.1)
    assert received.ping_ms(run, "mdev") == pytest.approx(81.6497, abs=1e-3)
    with pytest.raises(LabError, match="no statistic 'p95'"):
        received.ping_ms(run, "p95")
    with pytest.raises(LabError, match="no answer"):
        received.ping_ms(files(**{"ping.txt": "PING\n"}))


def test_goodput_of_a_socket_by_its_local_port():
    """By the local port, which in IPv4 on an IPv6 listener stands behind a mapped address."""
    line = ("ESTAB 0 0 [::ffff:192.0.2.10]:{} [::ffff:192.0.2.1]:5001 cubic rto:204 "
            "bytes_sent:7 bytes_received:{} segs_out:9\n")
    run = files(**{"sockets-60": line.format(5002, 3_000_000) + line.format(5001, 15_000_000)})
    assert received.socket_mbit(run, at_s=60) == 2.0
    assert received.socket_mbit(run, at_s=60, flow=1) == 0.4
    with pytest.raises(LabError, match="sockets-60 has no connection to port 5003"):
        received.socket_mbit(run, at_s=60, flow=2)


def test_experiments_can_name_them():
    assert metrics.find("time_to_received") is received.time_to_received
    assert metrics.find("short_time_received") is received.short_time_received
