# SPDX-License-Identifier: GPL-2.0
"""Trace events from the kernel's raw ring-buffer pages.

Text from the kernel would cost the guest more instructions than the packets do, so the pages
come out as they are.  Their layout is described by the kernel itself (events/header_page,
events/*/format) and in Documentation/trace/ring-buffer-design.
"""

import re
import struct
from collections import defaultdict

import numpy as np

from .errors import LabError

PAGE = 4096
HEADER = 16                 # u64 time stamp, local_t commit on 64-bit kernels
PADDING, TIME_EXTEND, TIME_STAMP = 29, 30, 31
DROPPED = 1 << 31           # in commit: events were lost before this page


def _dtype(fields: str) -> np.dtype:
    """A numpy record type from the field lines of a format file."""
    names, formats, offsets = [], [], []
    for text, offset, size, signed in re.findall(
            r"field:(.+?);\s*offset:(\d+);\s*size:(\d+);\s*signed:(\d);", fields):
        if "[" in text or int(size) not in (1, 2, 4, 8):
            kind = f"V{size}"
        else:
            kind = f"<{'i' if int(signed) else 'u'}{size}"
        names.append(re.match(r".*?(\w+)(\[\d*\])?$", text)[1])
        formats.append(kind)
        offsets.append(int(offset))
    return np.dtype({"names": names, "formats": formats, "offsets": offsets})


def formats(text: str) -> dict[int, tuple[str, np.dtype]]:
    """Event id -> ("system:name", record type), from concatenated format files."""
    table = {}
    for part in text.split("system: ")[1:]:
        system = part.split("\n", 1)[0].strip()
        name = re.search(r"^name: (\S+)", part, re.M)[1]
        number = int(re.search(r"^ID: (\d+)", part, re.M)[1])
        table[number] = (f"{system}:{name}", _dtype(part.split("print fmt:")[0]))
    return table


def _records(page: bytes):
    """(time in ns, offset of the payload, its length) of every event of one page."""
    now, commit = struct.unpack_from("<QQ", page)
    if commit & DROPPED:
        raise LabError("the trace has lost events")
    at, end = HEADER, HEADER + (commit & 0xFFFFF)
    while at < end:
        word, = struct.unpack_from("<I", page, at)
        kind, delta = word & 31, word >> 5
        if kind == PADDING:
            if not delta:
                return
            at += 4 + struct.unpack_from("<I", page, at + 4)[0]
            now += delta
        elif kind == TIME_EXTEND:
            now += delta + (struct.unpack_from("<I", page, at + 4)[0] << 27)
            at += 8
        elif kind == TIME_STAMP:
            low = delta + (struct.unpack_from("<I", page, at + 4)[0] << 27)
            now = now & ~((1 << 59) - 1) | low
            at += 8
        elif kind == 0:
            now += delta
            size = struct.unpack_from("<I", page, at + 4)[0]
            yield now, at + 8, size - 4
            at += 4 + size
        else:
            now += delta
            yield now, at + 4, 4 * kind
            at += 4 + 4 * kind


def events(raw: bytes, format_text: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """All events of a buffer by name: (times in ns, records).

    raw: pages of trace_pipe_raw.  format_text: the format files, each after a "system:" line.
    """
    table = formats(format_text)
    times, payloads = defaultdict(list), defaultdict(list)
    for start in range(0, len(raw), PAGE):
        page = raw[start:start + PAGE]
        for now, at, size in _records(page):
            number = struct.unpack_from("<H", page, at)[0]
            if number in table:
                times[number].append(now)
                payloads[number].append(page[at:at + table[number][1].itemsize])
    result = {}
    for number, (name, dtype) in table.items():
        if times[number]:
            blob = b"".join(payloads[number])
            result[name] = (np.array(times[number], "u8"), np.frombuffer(blob, dtype))
        else:
            result[name] = (np.zeros(0, "u8"), np.zeros(0, dtype))
    return result
