# SPDX-License-Identifier: GPL-2.0
"""Captures made up packet by packet, in the bytes that the lab's tcpdump writes."""

import struct

from bench.record import pcap

KEPT = 120          # bytes of each frame, as the lab's snap length


def packet(t_s: float, sport: int, dport: int, seq: int = 0, flags: int = pcap.ACK, length: int = 0,
           ack: int = 0) -> tuple[int, bytes]:
    """(ns, record) of one TCP packet over IPv4: its headers, and the length its payload had."""
    tcp = struct.pack(">HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 5 << 4, flags,
                      1000, 0, 0)
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40 + length, 0, 0, 64, 6, 0, 0xC0000201, 0xC0000206)
    frame = bytes(12) + b"\x08\x00" + ip + tcp
    nanos = round(t_s * 1e9)
    head = struct.pack("<IIII", nanos // 10**9, nanos % 10**9, len(frame), len(frame) + length)
    return nanos, head + frame


def capture(packets) -> pcap.Packets:
    """What the lab reads of a file with these packets, in the order of their times."""
    head = struct.pack("<IHHiIII", pcap.MAGIC_NS, 2, 4, 0, 0, KEPT, 1)
    in_order = sorted(packets, key=lambda pair: pair[0])
    return pcap.read(head + b"".join(record for _, record in in_order))
