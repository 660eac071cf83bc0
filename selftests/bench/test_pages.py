# SPDX-License-Identifier: GPL-2.0
"""What the receiver's capture is made to say, on packets made up by hand."""

from types import SimpleNamespace

import pytest

from bench.errors import LabError
from bench.measure import metrics, pages
from bench.record import pcap
from selftests.bench import captures

SENDER_PORT, PORT = 40_000, 5001
SYN, ACK = pcap.SYN, pcap.ACK


def packet(at_s: float, forward: bool, flags: int, seq: int = 0, ack: int = 0, length: int = 0,
           port: int = PORT, other: int = SENDER_PORT) -> tuple:
    """One packet; forward: to the flow's port."""
    ends = (other, port) if forward else (port, other)
    return captures.packet(at_s, *ends, seq, flags, length, ack)


def flow(**settings) -> SimpleNamespace:
    return SimpleNamespace(**{"bytes": 0, "seconds": 0, "objects": (), "to": "receiver", **settings})


def run_of(flows: list, receiver: list = (), sender: list = ()) -> SimpleNamespace:
    """What the functions read of a Run."""
    return SimpleNamespace(scenario=SimpleNamespace(flows=flows), receiver=captures.capture(receiver),
                           sender=captures.capture(sender))


def transfer(start_s: float, took_s: float, size: int, port: int = PORT, isn: int = 0xFFFFFFF0) -> list:
    """A transfer of two halves, the second of which comes first; sequence numbers wrap."""
    half = size // 2
    return [packet(start_s, True, SYN, isn, port=port),
            packet(start_s, False, SYN | ACK, 7, isn + 1, port=port),
            packet(start_s + took_s / 2, True, ACK, isn + 1 + half, 8, half, port=port),
            packet(start_s + took_s / 2, False, ACK, 8, isn + 1, port=port),
            packet(start_s + took_s, True, ACK, isn + 1, 8, half, port=port),
            packet(start_s + took_s, False, ACK, 8, isn + 1 + size, port=port)]


def test_a_download_ends_with_its_last_byte_in_order():
    run = run_of([flow(bytes=2000)], transfer(3.0, 4.0, 2000))
    assert pages.download_s(run) == pytest.approx(4.0)
    assert pages.download_kbyte(run) == pytest.approx(0.5)


def test_a_download_that_did_not_end_has_no_time():
    run = run_of([flow(bytes=2001)], transfer(3.0, 4.0, 2000))
    assert pages.download_s(run) is None
    assert pages.download_kbyte(run) is None
    assert pages.total_download_kbyte(run) is None
    assert pages.download_jain(run) is None


def test_several_downloads_add_up_and_are_compared():
    packets = transfer(0.0, 1.0, 2000) + transfer(0.5, 4.0, 4000, PORT + 1)
    run = run_of([flow(bytes=2000), flow(bytes=4000)], packets)
    assert pages.total_download_kbyte(run) == pytest.approx(2.0 + 1.0)
    assert pages.total_download_kbyte(run, 1) == pytest.approx(1.0)
    assert pages.download_jain(run) == pytest.approx(9 / (2 * 5))


def test_received_counts_data_in_order_within_the_time():
    run = run_of([flow(seconds=2)], transfer(1.0, 2.0, 1000) + [
        packet(3.5, True, ACK, 0xFFFFFFF0 + 1001, 8, 500),
        packet(3.5, False, ACK, 8, 0xFFFFFFF0 + 1501)])
    assert pages.download_mbit(run) == pytest.approx(1000 * 8 / 2 / 1e6)
    assert pages.total_received_mbit(run) == pages.download_mbit(run)
    series = pages.received_rate(run)
    assert series["t"] == [1.0, 2.0]
    assert series["y"] == pytest.approx([0, 1000 * 8 / 1e6])


def test_a_flow_whose_syn_never_came_received_nothing():
    run = run_of([flow(seconds=2), flow(seconds=2)], transfer(1.0, 2.0, 1000, PORT + 1))
    assert pages.download_mbit(run) == 0
    assert sum(pages.received_rate(run)["y"]) == 0


def page(sizes: list[int], lost_last: bool = False, connections: int = 1) -> SimpleNamespace:
    """A client that asks a server at PORT for objects, 100 bytes of header before each."""
    packets, at, seq, asked = [], 1.0, 1, 1
    for number in range(connections):
        packets.append(packet(at, True, SYN, 0, other=SENDER_PORT + number))
    packets.append(packet(at, False, SYN | ACK, 0, 1))
    for number, size in enumerate(sizes):
        at += 1
        packets.append(packet(at, True, ACK, asked, seq, 50))
        asked += 50
        packets.append(packet(at + 0.5, False, ACK, seq, asked, size + 100))
        seq += size + 100
        if not (lost_last and number == len(sizes) - 1):
            packets.append(packet(at + 0.5, True, ACK, asked, seq))
    return run_of([flow(objects=tuple(sizes))], packets)


def test_a_page_is_there_with_the_last_byte_of_its_last_object():
    run = page([1000, 3000])
    assert pages.page_s(run) == pytest.approx(2.5)
    assert pages.page_kbyte(run) == pytest.approx(4000 / 2.5 / 1e3)


def test_a_page_that_is_not_whole_has_no_time():
    assert pages.page_s(page([1000, 3000], lost_last=True)) is None
    assert pages.page_kbyte(page([1000, 3000], lost_last=True)) is None
    short = page([1000])
    short.scenario.flows[0].objects = (1000, 3000)
    assert pages.page_s(short) is None
    assert pages.page_s(run_of([flow(objects=(10,))], transfer(0, 1, 100, PORT + 1))) is None


def test_a_page_over_two_connections_is_an_error():
    with pytest.raises(LabError, match="more than one connection"):
        pages.page_s(page([1000], connections=2))


def test_outstanding_data_is_taken_at_each_segment_sent():
    run = run_of([flow(bytes=3000)], sender=[
        packet(0.0, True, SYN, 0), packet(0.1, False, SYN | ACK, 0, 1),
        packet(0.2, True, ACK, 1, 1, 1000), packet(0.2, True, ACK, 1001, 1, 1000),
        packet(0.4, False, ACK, 1, 1001), packet(0.5, True, ACK, 2001, 1, 1000),
        packet(0.6, True, ACK, 1001, 1, 1000), packet(0.8, False, ACK, 1, 3001)])
    assert pages.owin_kbyte(run) == pytest.approx((1 + 2 + 2 + 2) / 4)
    assert pages.owin_kbyte(run, statistic="max") == 2
    with pytest.raises(LabError, match="no statistic"):
        pages.owin_kbyte(run, statistic="least")


def test_data_files_find_them_by_name():
    for function in (*pages.METRICS, *pages.SERIES):
        assert metrics.find(function.__name__) is function
