# SPDX-License-Identifier: GPL-2.0
"""TCP headers of a capture as numpy columns.

A general parser (dpkt) makes an object for each packet and layer, at 20 us each, which takes minutes for
a bench.  Our captures have plain Ethernet, IPv4 or IPv6 without extension headers, and TCP, so every
field has one of two offsets.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from ..errors import LabError

MAGIC_NS = 0xA1B23C4D
ETHERTYPE = {0x0800: 4, 0x86DD: 6}
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
SACK_PERMITTED, SACK = 4, 5


@dataclass(frozen=True)
class Packets:
    """Columns with a row for each packet."""

    t: np.ndarray               # ns since the epoch
    wire: np.ndarray            # bytes on the wire, with the Ethernet header
    sport: np.ndarray
    dport: np.ndarray
    seq: np.ndarray             # u32 as sent
    ack: np.ndarray
    flags: np.ndarray
    window: np.ndarray          # unscaled
    length: np.ndarray          # bytes of payload
    raw: tuple[bytes, ...]      # TCP header and options

    def __len__(self):
        return len(self.t)

    def where(self, mask) -> "Packets":
        """The packets that a boolean mask selects."""
        index = np.flatnonzero(mask)
        return Packets(*(getattr(self, name)[index] for name in (
            "t", "wire", "sport", "dport", "seq", "ack", "flags", "window", "length")),
            tuple(self.raw[i] for i in index))


def read(blob: bytes) -> Packets:
    """Parse a nanosecond pcap.  Raises LabError for a packet that this parser does not know."""
    if len(blob) < 24 or struct.unpack_from("<I", blob)[0] != MAGIC_NS:
        raise LabError("the capture is not a nanosecond pcap")
    rows, raw, at = [], [], 24
    header, tcp = struct.Struct("<IIII"), struct.Struct(">HHIIBBH")
    while at < len(blob):
        if at + 16 > len(blob):
            raise LabError("the capture is truncated")
        seconds, nanos, kept, wire = header.unpack_from(blob, at)
        at += 16
        family = ETHERTYPE.get(int.from_bytes(blob[at + 12:at + 14], "big"))
        if family == 4:
            ip_size = (blob[at + 14] & 15) * 4
            total = int.from_bytes(blob[at + 16:at + 18], "big")
        elif family == 6:
            ip_size = 40
            total = 40 + int.from_bytes(blob[at + 18:at + 20], "big")
        else:
            raise LabError("the capture has a packet that is not IP")
        start = at + 14 + ip_size
        sport, dport, seq, ack, offset, flags, window = tcp.unpack_from(blob, start)
        size = (offset >> 4) * 4
        rows.append((seconds * 10**9 + nanos, wire, sport, dport, seq, ack, flags, window,
                     total - ip_size - size))
        raw.append(blob[start:min(start + size, at + kept)])
        at += kept
    columns = np.array(rows, "i8").reshape(len(rows), 9).T
    return Packets(*columns, tuple(raw))


def options(header: bytes) -> dict[int, bytes]:
    """TCP options of one header: kind -> data."""
    by_kind, at = {}, 20
    while at < len(header):
        kind = header[at]
        if kind == 0:
            break
        if kind == 1:
            at += 1
            continue
        if at + 1 >= len(header) or header[at + 1] < 2:
            break
        by_kind[kind] = header[at + 2:at + header[at + 1]]
        at += header[at + 1]
    return by_kind


def unwrap(numbers: np.ndarray, base: int) -> np.ndarray:
    """32-bit sequence numbers as signed distances from a base, for streams below 2 GB."""
    return ((numbers - base + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)
