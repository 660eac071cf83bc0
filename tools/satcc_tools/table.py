# SPDX-License-Identifier: GPL-2.0
"""Makes the table of schema.py from raw pages, and reads and writes its three formats."""

import csv
import glob
import heapq
import ipaddress
import json
import os
import re
import struct
from operator import itemgetter

from . import pages, schema

FORMATS = ("tsv", "csv", "ndjson")
WIRE = 0xFFFFFFFF           # sequence numbers are modulo this plus 1
HALF = 1 << 31


class TableError(Exception):
    """An error; its message is one line for the user."""


# ---- raw files -------------------------------------------------------------

def read_text(path):
    """A file's text; None if the file does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None


class Folder:
    """A recording as raw files:

    trace.formats       format files of the events, each after a line "system: NAME"
    trace.header        events/header_page; without it, pages of 4 KiB
    trace.cpuN.raw      pages of trace_pipe_raw of one CPU (trace.raw: of the only CPU)
    trace.cpuN.stats    per_cpu/cpuN/stats at the end of the recording
    trace.lost          number of records that the module could not make
    """

    def __init__(self, path):
        self.raw = sorted(glob.glob(os.path.join(glob.escape(str(path)), "trace*.raw")))
        text = read_text(os.path.join(path, "trace.formats"))
        if text is None or not self.raw:
            raise TableError(f"{path} does not contain trace.formats and trace*.raw")
        try:
            self.formats = pages.formats(text)
            self.layout = pages.Layout(read_text(os.path.join(path, "trace.header")))
        except ValueError as error:
            raise TableError(f"{path}: trace.formats or trace.header is {error}") from None
        self.lost = int(read_text(os.path.join(path, "trace.lost")) or 0)
        self.stats = [stats(read_text(name[:-len("raw")] + "stats") or "") for name in self.raw]


def stats(text):
    """The counters of a per_cpu/cpuN/stats."""
    return {name: int(value) for name, value in re.findall(r"^([\w ]+): (\d+)$", text, re.M)}


# ---- records ---------------------------------------------------------------

class Source:
    """One CPU's file: iterate for (time in ns, format or None, values or count missed), in order.

    missed: records lost according to the page headers.  unsure: an unknown number of more is lost.
    """

    def __init__(self, path, layout, formats):
        self.path, self.layout, self.formats = path, layout, formats
        self.missed, self.unsure = 0, False

    def __iter__(self):
        layout, known = self.layout, self.formats
        with open(self.path, "rb") as file:
            while True:
                page = file.read(layout.size)
                if not page:
                    return
                if len(page) < layout.size:
                    raise TableError(f"{self.path}: truncated within a page")
                try:
                    start, _, missed = layout.split(page)
                    if missed != 0:
                        self.missed += missed or 0
                        self.unsure |= missed is None
                        yield start, None, missed
                    for now, at, size in layout.records(page):
                        kind = known.get(page[at] | page[at + 1] << 8)
                        if kind is not None and size >= kind.size:
                            yield now, kind, kind.unpack(page, at)
                except (ValueError, struct.error):
                    raise TableError(f"{self.path}: not a page of trace records at byte "
                                     f"{file.tell() - layout.size}") from None


def address(packed):
    """16 bytes as text; ::ffff:a.b.c.d as a.b.c.d."""
    parsed = ipaddress.IPv6Address(packed)
    return str(parsed.ipv4_mapped or parsed)


class Text(dict):
    """bytes -> text by a function, which is called once for each key."""

    def __init__(self, convert):
        super().__init__()
        self.convert = convert

    def __missing__(self, packed):
        self[packed] = self.convert(packed)
        return self[packed]


def name_of(names, number):
    return names[number] if number < len(names) else str(number)


class Rows:
    """The table's rows, as lists of cells in the order of schema.COLUMNS; iterate once.

    recording: a Folder.  These are valid after the last row:
    events: number of rows by ev.  flows: number of sockets.  missed: number of records that are missing.
    unsure: an unknown number of more is missing.  causes: texts about the counters of missing records.
    """

    def __init__(self, recording):
        self.recording = recording
        self.events = dict.fromkeys(schema.EVENTS, 0)
        self.flows = self.missed = 0
        self.unsure = False
        self.causes = []
        self._bases = {}            # cookie -> wire number and relative number of its snd_una
        self._address = Text(address)
        self._cc = Text(lambda packed: packed.split(b"\0")[0].decode(errors="replace"))

    def __iter__(self):
        recording = self.recording
        sources = [Source(path, recording.layout, recording.formats) for path in recording.raw]
        makers = {kind: self._maker(kind) for kind in recording.formats.values()
                  if kind.name.partition(":")[2] in schema.EVENTS
                  and kind.name.startswith("satcc:")}
        if not makers:
            raise TableError("the recording has no events of satcc_log")
        merged = iter(sources[0]) if len(sources) == 1 else heapq.merge(*sources, key=itemgetter(0))
        first = now = None
        for now, kind, values in merged:
            if first is None:
                first = now
            if kind is None:
                yield self._missed(first, now, values)
            elif kind in makers:
                yield makers[kind](first, now, values)
        self.flows = len(self._bases)
        beside = self._count(sources)
        if beside:
            yield self._missed(first or 0, now or 0, beside)

    def _count(self, sources):
        """Sum up missing records.  Returns the number of those that have no row yet."""
        beside = self.recording.lost
        if beside:
            self.causes.append(f"satcc_log could not make {beside}")
        for source, counters in zip(sources, self.recording.stats):
            # The writer's overrun includes the losses that the pages report.
            beside -= source.missed
            self.missed += source.missed
            self.unsure |= source.unsure and "overrun" not in counters
            counts = {"overwritten": max(source.missed, counters.get("overrun", 0)),
                      "dropped": counters.get("dropped events", 0),
                      "interrupted": counters.get("commit overrun", 0)}
            beside += sum(counts.values())
            self.causes += [f"{os.path.basename(source.path)}: {count} {what}"
                            for what, count in counts.items() if count]
            if source.unsure and "overrun" not in counters:
                self.causes.append(f"{os.path.basename(source.path)}: some overwritten")
        self.missed += beside
        return beside

    @staticmethod
    def _missed(first, now, count):
        """The row that stands for missing records.  count: None if unknown."""
        cells = {"t_s": f"{(now - first) / 1e9:.9f}", "t_ns": now, "ev": schema.MISSED,
                 "missed": "" if count is None else count}
        return [cells.get(name, "") for name in schema.NAMES]

    def _maker(self, kind):
        """Returns a function (first time, time, values) -> row for one event."""
        event = kind.name.partition(":")[2]
        place = {name: number for number, name in enumerate(kind.fields)}
        missing = [name for name in ("cookie", "snd_una") if name not in place]
        if missing:
            raise TableError(f"{kind.name} has no field {missing[0]}: it is not an event of satcc_log")
        # A row is picked from the record's values, a blank, and the values computed here.
        blank = len(kind.fields)
        computed = ["t_s", "t_ns", "ev", "saddr", "daddr", "cc", "ca_state", "reason", "una_rel",
                    "nxt_rel", "seq_rel", "ack_rel"]
        position = {**place, **{name: blank + 1 + number for number, name in enumerate(computed)}}
        pick = itemgetter(*(
            position.get(column.name, blank) if event in column.events else blank
            for column in schema.COLUMNS))
        nones = [(number, column.none) for number, column in enumerate(schema.COLUMNS)
                 if column.none is not None and event in column.events]
        get = itemgetter(*(place.get(name, place["cookie"]) for name in (
            "cookie", "snd_una", "snd_nxt", "saddr", "daddr", "cc", "ca_state",
            "reason", "seq", "ack", "flags")))
        sends, bases, counts = event == schema.SEGMENT, self._bases, self.events
        addresses, names = self._address, self._cc

        def make(first, now, values):
            (cookie, una, nxt, saddr, daddr, cc, state, reason, seq, ack, flags) = get(values)
            counts[event] += 1
            base = bases.get(cookie)
            if base is None:
                base = bases[cookie] = [una, 0]
            if sends and flags & schema.SYN:
                base[:] = seq, 0
            base[1] += (una - base[0] + HALF & WIRE) - HALF
            base[0] = una
            relative = base[1]
            row = list(pick(values + (
                "", f"{(now - first) / 1e9:.9f}", now, event, addresses[saddr], addresses[daddr],
                names[cc], name_of(schema.CA_STATES, state), name_of(schema.REASONS, reason),
                relative, relative + (nxt - una + HALF & WIRE) - HALF,
                relative + (seq - una + HALF & WIRE) - HALF,
                relative + (ack - una + HALF & WIRE) - HALF)))
            for number, none in nones:
                if row[number] == none:
                    row[number] = ""
            return row
        return make


# ---- the three formats -----------------------------------------------------

def form_of(path, wanted=None):
    """The wanted format, or the one of the file name's suffix, or TSV."""
    suffix = os.path.splitext(path or "")[1][1:].lower()
    return wanted or {"csv": "csv", "ndjson": "ndjson", "jsonl": "ndjson"}.get(suffix, "tsv")


def write(rows, file, form):
    """Write rows to a text file in one of FORMATS."""
    if form == "ndjson":
        for row in rows:
            cells = {name: cell for name, cell in zip(schema.NAMES, row) if cell != ""}
            cells["t_s"] = float(cells["t_s"])
            file.write(json.dumps(cells, separators=(",", ":")) + "\n")
    else:
        writer = csv.writer(file, delimiter="\t" if form == "tsv" else ",", lineterminator="\n")
        writer.writerow(schema.NAMES)
        writer.writerows(rows)


def read(file):
    """The rows of a table as dicts of text, without empty cells.  The first line shows the format."""
    head = file.readline()
    if head.startswith("{"):
        for number, line in enumerate((head, *file), 1):
            try:
                yield {name: str(cell) for name, cell in json.loads(line).items()}
            except (ValueError, AttributeError):
                raise TableError(f"line {number} is not a JSON object") from None
        return
    delimiter = "\t" if "\t" in head else ","
    names = head.rstrip("\r\n").split(delimiter)
    if not {"t_s", "ev"} <= set(names):
        raise TableError("not a table of satcc-log: its first line lacks the columns t_s and ev")
    for row in csv.reader(file, delimiter=delimiter):
        yield {name: cell for name, cell in zip(names, row) if cell}
