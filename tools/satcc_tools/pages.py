# SPDX-License-Identifier: GPL-2.0
"""Parses the kernel's raw ring-buffer pages, which trace_pipe_raw returns.

events/header_page, events/*/format and the kernel's ring_buffer.h describe their layout.  Only
little-endian machines are supported.
"""

import re
import struct

PADDING, TIME_EXTEND, TIME_STAMP = 29, 30, 31
MISSED, MISSED_STORED = 1 << 31, 1 << 30    # bits of commit: events were lost before this page
LENGTH = (1 << 20) - 1                      # bits of commit: bytes of records
STAMP_LOW = (1 << 59) - 1                   # an absolute time stamp lacks the upper five bits
U32 = struct.Struct("<I").unpack_from


class Layout:
    """The layout of a page, from the text of events/header_page; without a text, that of 4 KiB pages.

    size: bytes of a page, with its header.  Raises ValueError for a text that describes no pages.
    """

    def __init__(self, text=None):
        self.size, self.data, word = 4096, 16, 8
        if text is not None:
            fields = {name: (int(offset), int(size)) for name, offset, size in re.findall(
                r"field:.*?(\w+);\s*offset:(\d+);\s*size:(\d+);", text)}
            if not {"timestamp", "commit", "data"} <= set(fields):
                raise ValueError("not a description of trace pages")
            word = fields["commit"][1]
            self.data = fields["data"][0]
            self.size = sum(fields["data"])
        self._head = struct.Struct("<Q" + {4: "I", 8: "Q"}[word])
        self._count = struct.Struct("<" + {4: "I", 8: "Q"}[word])

    def split(self, page):
        """(time stamp, end of the records, missed) of a page.

        missed: records lost before this page; None: an unknown number.
        """
        now, commit = self._head.unpack_from(page)
        end = self.data + (commit & LENGTH)
        if end > len(page):
            raise ValueError("a page's records exceed its size")
        missed = 0
        if commit & MISSED:
            missed = self._count.unpack_from(page, end)[0] if commit & MISSED_STORED else None
        return now, end, missed

    def records(self, page):
        """(time in ns, offset of the payload, its length) of every record of a page, in order.

        Raises ValueError if the bytes are not a page.
        """
        now, end, _ = self.split(page)
        at = self.data
        while at < end:
            word, = U32(page, at)
            kind, delta, start = word & 31, word >> 5, at
            if 0 < kind < PADDING:
                now += delta
                at += 4 + 4 * kind
                if at > end:
                    break
                yield now, start + 4, 4 * kind
            elif kind == 0:
                now += delta
                size, = U32(page, at + 4)
                at += 4 + size
                if at > end or size < 4:
                    break
                yield now, start + 8, size - 4
            elif kind == TIME_EXTEND:
                now += delta + (U32(page, at + 4)[0] << 27)
                at += 8
            elif kind == TIME_STAMP:
                now = now & ~STAMP_LOW | delta + (U32(page, at + 4)[0] << 27)
                at += 8
            elif delta:                 # PADDING: a discarded record
                now += delta
                at += 4 + U32(page, at + 4)[0]
            else:                       # PADDING: nothing more on this page
                return
        if at != end:
            raise ValueError("a record runs past the end of its page")


class Format:
    """One event's record, from its format file.

    name: "system:event".  number: its id.  fields: their names, common_* left out.
    unpack(page, offset) gives their values, in that order: numbers as int, arrays as bytes.
    """

    def __init__(self, system, text):
        head = re.match(r"\s*name: (\S+)\s+ID: (\d+)\s+format:", text)
        if not head:
            raise ValueError("not the format of an event")
        self.name, self.number = f"{system}:{head[1]}", int(head[2])
        self.fields, code, at = [], "<", 0
        for kind, offset, size, signed in re.findall(
                r"field:(.+?);\s*offset:(\d+);\s*size:(\d+);\s*signed:(\d);",
                text.split("print fmt:")[0]):
            name = re.search(r"(\w+)(\[\d*\])?$", kind)[1]
            offset, size = int(offset), int(size)
            if name.startswith("common_"):
                continue
            code += f"{offset - at}x" if offset > at else ""
            if "[" in kind or size not in (1, 2, 4, 8):
                code += f"{size}s"
            else:
                letter = {1: "b", 2: "h", 4: "i", 8: "q"}[size]
                code += letter if signed == "1" else letter.upper()
            self.fields.append(name)
            at = offset + size
        layout = struct.Struct(code)
        self.size, self.unpack = layout.size, layout.unpack_from


def formats(text):
    """Event number -> Format, from format files each after a line "system: NAME"."""
    parts = [part.split("\n", 1) for part in text.split("system: ")[1:]]
    parsed = [Format(system.strip(), rest) for system, rest in parts]
    return {each.number: each for each in parsed}
