# SPDX-License-Identifier: GPL-2.0
"""Trace events from the kernel's raw ring-buffer pages, as numpy records.

The kernel's text output would cost the guest more instructions than the packets do, so the guest sends
the raw pages.  tools/satcc_tools/pages.py parses a page.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict

import numpy as np

from tools.satcc_tools import pages

from ..errors import LabError

LAYOUT = pages.Layout()     # of 64-bit kernels


def _dtype(fields: str) -> np.dtype:
    """The numpy record type that the field lines of a format file describe."""
    names, formats, offsets = [], [], []
    for text, offset, size, signed in re.findall(
            r"field:(.+?);\s*offset:(\d+);\s*size:(\d+);\s*signed:(\d);", fields):
        if "[" in text or int(size) not in (1, 2, 4, 8):
            kind = f"V{size}"
        else:
            kind = f"<{'i' if int(signed) else 'u'}{size}"
        names.append(re.match(r".*?(\w+)(\[[^]]*\])?$", text)[1])
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
    try:
        if LAYOUT.split(page)[2] != 0:
            raise LabError("the kernel dropped trace events")
        yield from LAYOUT.records(page)
    except (ValueError, struct.error) as error:
        raise LabError(f"the trace cannot be read: {error}") from None


def events(raw: bytes, format_text: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Name, as "system:name" -> (times in ns, numpy records), of all events of a buffer.

    raw: pages of trace_pipe_raw.  format_text: the format files, each after a "system:" line.
    Raises LabError if the kernel dropped events, or if a page cannot be parsed.
    """
    table = formats(format_text)
    times, payloads = defaultdict(list), defaultdict(list)
    for start in range(0, len(raw), LAYOUT.size):
        page = raw[start:start + LAYOUT.size]
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
