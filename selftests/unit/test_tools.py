# SPDX-License-Identifier: GPL-2.0
"""tools/: raw pages, the table and its forms, filter strings, the graphs' figures."""

import ast
import csv
import errno
import io
import ipaddress
import json
import re
import struct
import subprocess
import sys
from pathlib import Path

import matplotlib
import matplotlib.figure
import matplotlib.image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.satcc_tools import flow, graphs, log, pages, plot, schema, table, tracefs

TOP = Path(__file__).resolve().parents[2]
TOOLS = TOP / "tools"
ENTRY, HEADER, CALLS = ((TOP / f"modules/satcc_log_{name}.h").read_text()
                        for name in ("entry_trace", "trace", "call_trace"))


# ---- the header as the kernel would describe it ----------------------------

SIZES = {"u8": 1, "u16": 2, "u32": 4, "s32": 4, "u64": 8, "char": 1}


def members(text):
    """(type, name, elements) of every __field and __array in a piece of the header."""
    sizes = {"TCP_CA_NAME_MAX": "16", "SATCC_CALL_PRIV": "104"}
    return [(kind, name, int(sizes.get(count, count or "1")))
            for kind, name, count in re.findall(
                r"__(?:field|array)\((\w+), (\w+)(?:, (\w+))?\)", text)]


COMMON = members(ENTRY.split("#define SATCC_LOG_ENTRY")[1].split("#define SATCC_LOG_ASSIGN")[0])
EVENTS = {name: COMMON + members(body) for name, body in re.findall(
    r"^TRACE_EVENT_FN\((\w+),(.*?)TP_fast_assign", HEADER + CALLS, re.M | re.S)}
# Fields of the events that only filters need; saddr and daddr have the same addresses.
FOR_FILTERS = ("saddr4", "daddr4", "saddr6", "daddr6")
NUMBERS = {name: 1000 + number for number, name in enumerate(EVENTS)}


def format_text(event):
    """An event's format file: C's layout behind the kernel's eight bytes."""
    lines = [f"name: {event}", f"ID: {NUMBERS[event]}", "format:",
             "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;",
             "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;",
             "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;",
             "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;", ""]
    at = 8
    for kind, name, count in EVENTS[event]:
        size = SIZES[kind]
        at = -(-at // size) * size
        many = f"[{count}]" if count > 1 else ""
        lines.append(f"\tfield:{kind} {name}{many};\toffset:{at};\tsize:{size * count};\tsigned:0;")
        at += size * count
    return "\n".join([*lines, "", 'print fmt: "field:u32 seq;\toffset:0;\tsize:4;\tsigned:0;"', ""])


def payload(event, **values):
    """A record's bytes; fields not named are 0."""
    blob = struct.pack("<HBBi", NUMBERS[event], 0, 0, 7)
    for kind, name, count in EVENTS[event]:
        size = SIZES[kind]
        blob += b"\0" * (-len(blob) % size)
        value = values.pop(name, b"" if count > 1 else 0)
        blob += value.ljust(count, b"\0") if count > 1 else value.to_bytes(size, "little")
    assert not values, f"{event} has no {values}"
    return blob + b"\0" * (-len(blob) % 4)


V4 = dict(cookie=9, sport=40000, dport=5001, cc=b"hybla_full", netns=4026531840,
          saddr=ipaddress.ip_address("::ffff:192.0.2.1").packed,
          daddr=ipaddress.ip_address("::ffff:198.51.100.2").packed)


# ---- pages -----------------------------------------------------------------

def short(delta, data):
    """A record whose length is in its head."""
    assert len(data) % 4 == 0 and 0 < len(data) <= 112
    return struct.pack("<I", delta << 5 | len(data) // 4) + data


def long(delta, data):
    return struct.pack("<II", delta << 5, len(data) + 4) + data


def extend(delta):
    return struct.pack("<II", (delta & (1 << 27) - 1) << 5 | pages.TIME_EXTEND, delta >> 27)


def stamp(now):
    now &= pages.STAMP_LOW
    return struct.pack("<II", (now & (1 << 27) - 1) << 5 | pages.TIME_STAMP, now >> 27)


def taken_back(delta, size):
    return struct.pack("<II", delta << 5 | pages.PADDING, size - 4) + b"\xff" * (size - 8)


NO_MORE = struct.pack("<I", pages.PADDING)


def page(start, *records, missed=0, size=4096, word="Q"):
    """A page.  missed: a count, or None for some."""
    data = b"".join(records)
    commit, tail = len(data), b""
    if missed is None:
        commit |= pages.MISSED
    elif missed:
        commit |= pages.MISSED | pages.MISSED_STORED
        tail = struct.pack("<" + word, missed)
    blob = struct.pack("<Q" + word, start, commit) + data + tail
    assert len(blob) <= size
    return blob.ljust(size, b"\0")


def record(event=schema.ACK, delta=0, **values):
    return long(delta, payload(event, **{**V4, **values}))


def times(blob, layout=None):
    return [now for now, _, _ in (layout or pages.Layout()).records(blob)]


def test_times_add_up():
    data = b"abcd"
    blob = page(1000, short(0, data), short(5, data), long(7, data * 40), extend(1 << 40),
                short(3, data), taken_back(11, 16), short(1, data))
    at = [1000, 1005, 1012, 1012 + (1 << 40) + 3, 1012 + (1 << 40) + 15]
    assert times(blob) == at


def test_an_absolute_time_keeps_the_upper_bits_of_the_page():
    start = (5 << 59) + 123
    blob = page(start, short(0, b"abcd"), stamp((5 << 59) + 456), short(1, b"abcd"))
    assert times(blob) == [start, (5 << 59) + 457]


def test_padding_ends_a_page():
    assert times(page(1, short(0, b"abcd"), NO_MORE, short(0, b"abcd"))) == [1]


def test_payloads_are_where_they_say():
    blob = page(0, short(0, b"abcd"), long(0, b"x" * 200))
    assert [blob[at:at + size] for _, at, size in pages.Layout().records(blob)] \
        == [b"abcd", b"x" * 200]


@pytest.mark.parametrize("missed", [0, 1, 7, 1 << 33, None])
def test_missed_is_read_from_the_page(missed):
    assert pages.Layout().split(page(5, short(0, b"abcd"), missed=missed))[2] == missed


HEADER_PAGE = ("\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
               "\tfield: local_t commit;\toffset:8;\tsize:{word};\tsigned:1;\n"
               "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
               "\tfield: char data;\toffset:{data};\tsize:{size};\tsigned:1;\n")


def test_layout_is_the_kernels():
    """64 KiB pages, and a 32-bit kernel's."""
    big = pages.Layout(HEADER_PAGE.format(word=8, data=16, size=65520))
    assert big.size == 65536
    narrow = pages.Layout(HEADER_PAGE.format(word=4, data=12, size=4084))
    blob = page(3, short(2, b"abcd"), missed=6, word="I")
    assert narrow.size == 4096 and narrow.split(blob)[2] == 6 and times(blob, narrow) == [5]


@pytest.mark.parametrize("blob", [
    struct.pack("<QQ", 0, 5000) + b"\0" * 4080, page(0, struct.pack("<II", 0, 3))])
def test_a_page_that_cannot_be_is_refused(blob):
    with pytest.raises(ValueError):
        times(blob)


def test_format_gives_every_field():
    kind = pages.formats("system: satcc\n" + format_text(schema.SEGMENT))[NUMBERS[schema.SEGMENT]]
    values = dict(V4, seq=2**32 - 1, sent_orig=2**64 - 1, flags=255, len=1448)
    got = dict(zip(kind.fields, kind.unpack(payload(schema.SEGMENT, **values))))
    assert kind.name == "satcc:segment_sent"
    assert list(got) == [name for _, name, _ in EVENTS[schema.SEGMENT]]
    assert got.pop("cc") == b"hybla_full".ljust(16, b"\0")
    assert {name: got[name] for name in values if name != "cc"} \
        == {name: value for name, value in values.items() if name != "cc"}
    assert kind.size <= len(payload(schema.SEGMENT))


# ---- the table -------------------------------------------------------------

def folder(path, *cpus, stats=(), lost=None):
    """A recording with the pages of each CPU.  stats: texts, one a CPU."""
    path.mkdir(exist_ok=True)
    (path / "trace.formats").write_text(
        "".join(f"system: satcc\n{format_text(event)}" for event in EVENTS))
    for number, blobs in enumerate(cpus):
        (path / f"trace.cpu{number}.raw").write_bytes(b"".join(blobs))
    for number, text in enumerate(stats):
        (path / f"trace.cpu{number}.stats").write_text(text)
    if lost is not None:
        (path / "trace.lost").write_text(f"{lost}\n")
    return path


def decoded(path):
    """(rows as dicts without empty cells, the Rows)."""
    rows = table.Rows(table.Folder(path))
    return [{name: cell for name, cell in zip(schema.NAMES, row) if cell != ""} for row in rows], rows


def test_a_row_has_the_records_fields(tmp_path):
    """Each field of each event, but the ones for filters, comes out under its own name."""
    for event in schema.EVENTS:
        values = {name: 40 + number for number, (_, name, count) in enumerate(EVENTS[event])
                  if count == 1 and name not in ("reason", "ca_state")}
        blob = page(10**18, long(0, payload(event, **{**V4, **values}, ca_state=3)))
        (row,), _ = decoded(folder(tmp_path, [blob]))
        assert {name: row.get(name) for name in values if name not in FOR_FILTERS} \
            == {name: value for name, value in values.items() if name not in FOR_FILTERS}
        assert not set(row) & set(FOR_FILTERS)
        assert (row["ev"], row["t_ns"], row["t_s"]) == (event, 10**18, "0.000000000")
        assert (row["saddr"], row["daddr"], row["cc"]) == ("192.0.2.1", "198.51.100.2", "hybla_full")
        assert row["ca_state"] == "Recovery"
        assert row.get("reason") == ("first" if event == schema.WINDOW else None)


def test_ipv6_is_written_short(tmp_path):
    blob = page(0, record(daddr=ipaddress.ip_address("2001:db8::5").packed))
    assert decoded(folder(tmp_path, [blob]))[0][0]["daddr"] == "2001:db8::5"


def test_names_unknown_here_are_numbers(tmp_path):
    """A newer module's reasons."""
    blob = page(0, long(0, payload(schema.WINDOW, **V4, reason=200)))
    assert decoded(folder(tmp_path, [blob]))[0][0]["reason"] == "200"


@pytest.mark.parametrize("event, column, none", [
    (schema.ACK, "ssthresh", 2**31 - 1), (schema.WINDOW, "ssthresh_old", 2**31 - 1),
    (schema.WINDOW, "clamp", 2**32 - 1), (schema.SEGMENT, "pacing_rate", 2**64 - 1),
    (schema.ACK, "rtt_us", 0)])
def test_none_is_an_empty_cell(tmp_path, event, column, none):
    blobs = [page(0, long(0, payload(event, **{**V4, column: value}))) for value in (none, 1)]
    rows, _ = decoded(folder(tmp_path, blobs))
    assert column not in rows[0] and rows[1][column] == 1


def test_relative_numbers_go_on_where_the_wires_wrap(tmp_path):
    isn = 2**32 - 1000
    records = [long(0, payload(schema.SEGMENT, **V4, seq=isn, snd_una=isn, snd_nxt=isn, flags=2))]
    for sent in range(0, 10**10, 10**9):
        here = (isn + sent) & 0xFFFFFFFF
        records.append(record(snd_una=here, snd_nxt=(here + 5000) & 0xFFFFFFFF,
                              ack=(here - 300) & 0xFFFFFFFF))
    rows, _ = decoded(folder(tmp_path, [page(0, *records[:6]), page(1, *records[6:])]))
    assert rows[0]["seq_rel"] == rows[0]["una_rel"] == 0 and rows[0]["seq"] == isn
    assert [(row["una_rel"], row["nxt_rel"], row["ack_rel"]) for row in rows[1:]] \
        == [(sent, sent + 5000, sent - 300) for sent in range(0, 10**10, 10**9)]


def test_relative_numbers_of_flows_do_not_mix(tmp_path):
    records = [record(cookie=1 + number % 2, snd_una=[7000, 90][number % 2] + number * 10)
               for number in range(6)]
    rows, summary = decoded(folder(tmp_path, [page(0, *records)]))
    assert [row["una_rel"] for row in rows] == [0, 0, 20, 20, 40, 40] and summary.flows == 2


def test_a_syn_begins_anew(tmp_path):
    """A socket that connects once more."""
    records = [record(snd_una=500), record(snd_una=700),
               long(0, payload(schema.SEGMENT, **V4, seq=10**9, snd_una=10**9, flags=2)),
               record(snd_una=10**9 + 1)]
    rows, _ = decoded(folder(tmp_path, [page(0, *records)]))
    assert [row["una_rel"] for row in rows] == [0, 200, 0, 1]


def test_other_events_are_passed_over(tmp_path):
    path = folder(tmp_path, [page(0, record(), long(0, struct.pack("<HH", 77, 0) * 10), record())])
    assert len(decoded(path)[0]) == 2


def test_a_recording_with_calls_of_a_congestion_control_has_the_other_rows(tmp_path):
    """As a run of the lab has them: their bytes are no cells of the table."""
    call = payload("cc_call", **V4, cwnd=5, priv=b"\x05" * 104)
    rows, summary = decoded(folder(tmp_path, [page(0, record(), long(0, call), record())]))
    assert [row["ev"] for row in rows] == [schema.ACK] * 2 and not summary.missed


@given(st.lists(st.lists(st.integers(0, 1 << 30), max_size=30), min_size=1, max_size=4),
       st.integers(1, 8))
def test_cpus_are_merged_by_time(tmp_path_factory, cpus, each):
    """Any number of records a page, of any distance: in order, none lost, none twice."""
    path, wanted, blobs = tmp_path_factory.mktemp("cpus"), [], []
    for number, deltas in enumerate(cpus):
        now, pages_of = 0, []
        for first in range(0, len(deltas), each):
            records, start = [], now
            for delta in deltas[first:first + each]:
                now += delta
                records += [extend(delta), record(len=number, snd_nxt=len(wanted))]
                wanted.append((now, number, len(wanted)))
            pages_of.append(page(start, *records))
        blobs.append(pages_of)
    rows, _ = decoded(folder(path, *blobs))
    got = [(row["t_ns"], row["len"], row["snd_nxt"]) for row in rows]
    assert [now for now, _, _ in got] == sorted(now for now, _, _ in wanted)
    assert sorted(got) == sorted(wanted)
    for number in range(len(cpus)):
        own = [row[2] for row in got if row[1] == number]
        assert own == sorted(own)


STATS = "entries: 0\noverrun: {}\ncommit overrun: {}\ndropped events: {}\nread events: 9\n"


@pytest.mark.parametrize("missed, stats, lost, rows, total, unsure", [
    (0, STATS.format(0, 0, 0), 0, [], 0, False),
    (5, STATS.format(5, 0, 0), 0, [5], 5, False),           # told twice, counted once
    (5, None, None, [5], 5, False),
    (None, None, None, [None], 0, True),
    (None, STATS.format(4, 0, 0), 0, [None, 4], 4, False),
    (0, STATS.format(4, 2, 3), 0, [9], 9, False),
    (2, STATS.format(2, 0, 3), 8, [2, 11], 13, False),
    (0, STATS.format(0, 0, 0), 8, [8], 8, False),
])
def test_missing_records_have_rows_and_are_summed(tmp_path, missed, stats, lost, rows, total, unsure):
    blobs = [page(5, record()), page(9, record(), missed=missed)]
    got, summary = decoded(folder(tmp_path, blobs, stats=[stats] if stats else [], lost=lost))
    missing = [row for row in got if row["ev"] == schema.MISSED]
    assert [row.get("missed") for row in missing] == rows
    assert (summary.missed, summary.unsure) == (total, unsure)
    assert bool(summary.causes) == bool(total or unsure)
    assert [row["ev"] for row in got].count(schema.ACK) == 2
    if missed != 0:             # between the two records
        assert got[1]["ev"] == schema.MISSED and got[1]["t_ns"] == 9
    assert log.main(["decode", str(tmp_path), "-o", str(tmp_path / "t")]) == (3 if rows else 0)


@pytest.mark.parametrize("blob, message", [
    (page(0, record())[:3000], "truncated within a page"),
    (page(0, record()) + struct.pack("<QQ", 0, 5000) + b"\0" * 4080, "at byte 4096"),
    (page(0, record(), struct.pack("<II", 0, 200)), "at byte 0"),
    (page(0, struct.pack("<I", 5)), "at byte 0"), (page(0, b"abc"), "at byte 0")],
    ids=["cut", "too long", "past the end", "past the end, short", "less than a word"])
def test_a_broken_recording_is_one_line(tmp_path, capsys, blob, message):
    folder(tmp_path, [blob])
    assert log.main(["decode", str(tmp_path), "-o", str(tmp_path / "out.tsv")]) == 1
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1 and err.startswith("satcc-log: ")
    assert not [each for each in tmp_path.iterdir() if each.name.startswith("out")]


@pytest.mark.parametrize("name", ["trace.formats", "trace.header"])
def test_a_broken_description_is_one_line(tmp_path, capsys, name):
    folder(tmp_path, [page(0, record())])
    (tmp_path / name).write_text("system: satcc\nnonsense")
    assert log.main(["decode", str(tmp_path)]) == 1
    assert re.fullmatch(r"satcc-log: .*: trace.formats or trace.header is not .*\n",
                        capsys.readouterr().err)


def test_no_recording_is_one_line(tmp_path, capsys):
    assert log.main(["decode", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"satcc-log: {tmp_path} does not contain trace.formats and trace*.raw\n")


# ---- its three forms -------------------------------------------------------

@pytest.fixture
def recording(tmp_path):
    records = [long(1000, payload(schema.SEGMENT, **V4, seq=100, snd_una=100, flags=2)),
               record(delta=600_000_000 & (1 << 27) - 1, snd_una=101, ack=101, rtt_us=600_000, mss=1448,
                      ssthresh=2**31 - 1),
               long(5, payload(schema.WINDOW, **V4, cwnd_old=10, cwnd=11, reason=2))]
    return folder(tmp_path / "recording", [page(10**18, *records), page(2 * 10**18, record(), missed=3)])


@pytest.mark.parametrize("name, form", [("t.tsv", None), ("t.csv", None), ("t.ndjson", None),
                                        ("t", None), ("t.csv", "ndjson"), ("a,b.jsonl", None)])
def test_forms_say_the_same(recording, tmp_path, name, form):
    path = tmp_path / name
    arguments = ["--format", form] if form else []
    assert log.main(["decode", str(recording), "-o", str(path), *arguments]) == 3
    with path.open(newline="") as file:
        got = list(table.read(file))
    wanted, _ = decoded(recording)
    assert len(got) == 5
    for row in (*got, *wanted):
        row["t_s"] = float(row["t_s"])
    assert got == [{column: cell if column == "t_s" else str(cell) for column, cell in row.items()}
                   for row in wanted]


def test_tables_are_rectangular(recording, tmp_path):
    for name, delimiter in (("t.tsv", "\t"), ("t.csv", ",")):
        log.main(["decode", str(recording), "-o", str(tmp_path / name)])
        with (tmp_path / name).open(newline="") as file:
            rows = list(csv.reader(file, delimiter=delimiter))
        assert tuple(rows[0]) == schema.NAMES and {len(row) for row in rows} == {len(schema.NAMES)}


def test_ndjson_has_numbers_as_numbers(recording, tmp_path):
    log.main(["decode", str(recording), "-o", str(tmp_path / "t.ndjson")])
    row = json.loads((tmp_path / "t.ndjson").read_text().splitlines()[1])
    assert row["rtt_us"] == 600_000 and isinstance(row["t_s"], float) and "ssthresh" not in row


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "{\n", '["t_s"]\n'])
def test_another_file_is_not_a_table(text):
    if text.startswith("["):
        text = '{"t_s":1}\n' + text
    with pytest.raises(table.TableError):
        list(table.read(io.StringIO(text)))


def run(*arguments, **keywords):
    return subprocess.run([sys.executable, *map(str, arguments)], text=True, capture_output=True,
                          check=False, **keywords)


def test_satcc_log_needs_the_standard_library_alone(recording):
    """As a program, from another folder, without the site's packages."""
    done = run("-S", "-s", "-E", TOOLS / "satcc-log", "decode", recording, cwd="/")
    assert done.returncode == 3 and done.stdout.startswith("t_s\tt_ns\tev\t")
    assert done.stdout.count("\n") == 6 and "3 records are missing" in done.stderr
    assert run("-S", TOOLS / "satcc-log", "columns").stdout.count("\n") == 1 + len(schema.COLUMNS)


@pytest.mark.parametrize("missed, lost, share, reason", [
    (1, 0, "33 %", "a larger --buffer or a filter loses fewer"),
    (None, 0, "an unknown share", "a larger --buffer or a filter loses fewer"),
    (0, 198, "99 %", "the missing ones may be of sockets that the filters leave out")])
def test_missing_records_say_whether_they_matter(tmp_path, capsys, missed, lost, share, reason):
    blobs = [page(5, record()), page(9, record(), missed=missed)]
    stats = [] if missed is None else [STATS.format(missed, 0, 0)]
    path = folder(tmp_path, blobs, stats=stats, lost=lost)
    assert log.main(["decode", str(path), "-o", str(tmp_path / "t")]) == log.MISSED
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"satcc-log: this is {share} of all; the rows are right")
    assert "a count of rows is too small" in last and last.endswith(f"; {reason}")


def test_a_reader_that_leaves_is_no_traceback(recording):
    done = subprocess.run(f"{sys.executable} {TOOLS}/satcc-log decode {recording} | true", shell=True,
                          text=True, capture_output=True, check=False)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def test_satcc_log_runs_on_older_pythons():
    """The syntax of Debian 11's Python."""
    for path in [*TOOLS.glob("satcc_tools/*.py"), TOOLS / "satcc-log", TOOLS / "satcc-plot"]:
        ast.parse(path.read_text(), feature_version=(3, 9))


def test_programs_are_tidy():
    """flake8 elsewhere looks at *.py alone."""
    done = run("-m", "flake8", "--max-line-length=105", TOOLS / "satcc-log", TOOLS / "satcc-plot")
    assert (done.returncode, done.stdout) == (0, "")


# ---- schema, header, manual ------------------------------------------------

def test_the_table_has_the_headers_fields():
    assert tuple(EVENTS) == (*schema.EVENTS, "cc_call")
    for event in schema.EVENTS:
        names = [name for _, name, _ in EVENTS[event]]
        assert set(schema.fields(event)) | set(FOR_FILTERS) == set(names)
        assert len(names) == len(set(names))


def test_codes_have_the_modules_names():
    source = (TOP / "modules/satcc_log.h").read_text()
    numbers = re.findall(r"^\tSATCC_LOG_(\w+),", source, re.M)
    names = dict(re.findall(r'{ SATCC_LOG_(\w+),\s*"(\w+)" }', HEADER))
    assert tuple(names[name] for name in numbers) == schema.REASONS
    states = re.findall(r'{ TCP_CA_(\w+),\s*"(\w+)" }', ENTRY)
    # enum tcp_ca_state of the kernel's include/uapi/linux/tcp.h.
    assert tuple(name for _, name in states) == schema.CA_STATES \
        and [code for code, _ in states] == list(schema.CA_STATES)


def test_columns_are_named_once_and_explained():
    assert len(set(schema.NAMES)) == len(schema.NAMES)
    for column in schema.COLUMNS:
        assert column.meaning and set(column.events) <= set(schema.ALL)
        assert ("empty:" in column.meaning) == (column.none is not None or column.name == "missed")


def manual():
    """The columns as the lines of a mdoc list."""
    letters = {schema.SEGMENT: "s", schema.ACK: "a", schema.WINDOW: "w", schema.MISSED: "m"}
    lines = []
    for column in schema.COLUMNS:
        whose = "".join(letters[event] for event in schema.ALL if event in column.events)
        unit = f", {column.unit}" if column.unit else ""
        lines += [f".It {column.name} Pq {whose}{unit}", column.meaning]
    return "\n".join(lines) + "\n"


def test_the_manual_has_the_columns():
    assert manual() in (TOOLS / "satcc-log.1").read_text()


def options_of(parser_help):
    entries = re.findall(r"^  (-.*?)(?:  |$)", parser_help, re.M)
    return set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", " ".join(entries))) - {"-h", "--help"}


@pytest.mark.parametrize("program, commands", [
    ("satcc-log", (["record"], ["decode"])), ("satcc-plot", ([],))])
def test_the_manual_has_every_option(program, commands):
    manual = (TOOLS / f"{program}.1").read_text()
    in_manual = {"-" + "".join(words.replace("Fl ", "-").split()) for words in re.findall(
        r"Fl ((?:Fl )?[a-z][a-z-]*)", manual)} - {"-e"}             # ss -e
    in_help = set()
    for command in commands:
        in_help |= options_of(run(TOOLS / program, *command, "--help").stdout)
    assert in_manual == in_help


def test_manuals_are_well_formed():
    for name in ("satcc-log.1", "satcc-plot.1"):
        done = subprocess.run(["groff", "-mandoc", "-Tutf8", "-ww", "-b", "-z", TOOLS / name],
                              text=True, capture_output=True, check=True)
        assert done.stderr == ""


# ---- filters ---------------------------------------------------------------

@pytest.mark.parametrize("filters, wanted", [
    (dict(), ""),
    (dict(port=["5001"]), "(sport == 5001 || dport == 5001)"),
    (dict(port=["5001-5003"]),
     "((sport >= 5001 && sport <= 5003) || (dport >= 5001 && dport <= 5003))"),
    (dict(port=["80", "443"]), "((sport == 80 || dport == 80) || (sport == 443 || dport == 443))"),
    (dict(peers=["198.51.100.0/24"]), "(daddr4 >= 0xc6336400 && daddr4 <= 0xc63364ff)"),
    (dict(peers=["198.51.100.7"]), "(daddr4 >= 0xc6336407 && daddr4 <= 0xc6336407)"),
    (dict(peers=["0.0.0.0/0"]), "(daddr4 >= 0x1 && daddr4 <= 0xffffffff)"),
    (dict(peers=["2001:db8::/32"]),
     "(daddr6 >= 0x20010db800000000 && daddr6 <= 0x20010db8ffffffff)"),
    (dict(peers=["2001:db8:1:2::/64"]),
     "(daddr6 >= 0x20010db800010002 && daddr6 <= 0x20010db800010002)"),
    (dict(peers=["::/0"]), "(daddr4 == 0 && daddr6 >= 0x0 && daddr6 <= 0xffffffffffffffff)"),
    (dict(peers=["::ffff:192.0.2.0/120"]), "(daddr4 >= 0xc0000200 && daddr4 <= 0xc00002ff)"),
    (dict(names=["cubic"]), 'cc == "cubic"'),
    (dict(names=["hybla*"]), 'cc ~ "hybla*"'),
    (dict(namespaces=["4026531840"]), "netns == 4026531840"),
    (dict(cookies=[9]), "cookie == 9"),
    (dict(raw="len > 0 || ack == 1"), "(len > 0 || ack == 1)"),
    (dict(port=["80"], peers=["192.0.2.1", "192.0.2.9"], names=["bbr"], raw="len > 0"),
     "(sport == 80 || dport == 80) && ((daddr4 >= 0xc0000201 && daddr4 <= 0xc0000201) || "
     '(daddr4 >= 0xc0000209 && daddr4 <= 0xc0000209)) && cc == "bbr" && (len > 0)'),
])
def test_filter_strings(filters, wanted):
    assert tracefs.filter_of(**filters) == wanted


@pytest.mark.parametrize("filters", [
    dict(port=["0"]), dict(port=["70000"]), dict(port=["9-5"]), dict(port=["x"]),
    dict(peers=["2001:db8::1"]), dict(peers=["2001:db8::/65"]), dict(peers=["nonsense"]),
    dict(names=['a" || 1 == "1']), dict(names=["a" * 16]), dict(namespaces=["no such name"])])
def test_a_filter_on_an_unknown_field_is_refused(filters):
    with pytest.raises(tracefs.TraceError) as caught:
        tracefs.filter_of(**filters)
    assert "\n" not in str(caught.value)


def fits(expression, **fields):
    """The kernel's verdict, by Python: the same grammar but for && and ||."""
    return eval(expression.replace("&&", "and").replace("||", "or"), {}, fields)


@given(st.integers(0, 32), st.integers(0, 2**32 - 1), st.integers(1, 2**32 - 1))
def test_a_prefix_is_a_range(length, base, host):
    network = ipaddress.IPv4Network((base, length), strict=False)
    assert fits(tracefs.peer(str(network)), daddr4=host, daddr6=0) \
        == (ipaddress.IPv4Address(host) in network)
    assert not fits(tracefs.peer(str(network)), daddr4=0, daddr6=0x20010db800000000)


@given(st.integers(0, 64), st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1))
def test_an_ipv6_prefix_is_a_range(length, base, host):
    network = ipaddress.IPv6Network((base >> 64 << 64, length), strict=False)
    assert fits(tracefs.peer(str(network)), daddr4=0, daddr6=host >> 64) \
        == (ipaddress.IPv6Address(host) in network)


def test_a_namespace_is_its_inode(tmp_path):
    (tmp_path / "ns").touch()
    assert tracefs.netns(str(tmp_path / "ns")) == f"netns == {(tmp_path / 'ns').stat().st_ino}"


# ---- recording, as far as it goes without a kernel --------------------------

LINE = ("  swapper-0 [000] ..s1. 12.5: inet_sock_set_state: family=AF_INET protocol=IPPROTO_TCP "
        "sport={} dport={} saddr=192.0.2.1 daddr=192.0.2.9 saddrv6=::ffff:192.0.2.1 "
        "daddrv6=::ffff:192.0.2.9 oldstate=TCP_{} newstate=TCP_{}")


def closes_after(*changes):
    """How many of the state changes it takes until a port is taken for closed; None: it is not."""
    closing = tracefs.Closing.__new__(tracefs.Closing)
    closing._open, closing.done = set(), False
    for number, (sport, old, new) in enumerate(changes, 1):
        closing.take(LINE.format(sport, 5001, old, new))
        if closing.done:
            return number
    return None


CONNECT = [(0, "CLOSE", "SYN_SENT"), (40000, "SYN_SENT", "ESTABLISHED")]
CLOSE = [(40000, "ESTABLISHED", "FIN_WAIT1"), (40000, "FIN_WAIT1", "FIN_WAIT2"),
         (40000, "FIN_WAIT2", "CLOSE")]


def test_a_connection_ends_the_recording_when_it_closes():
    assert closes_after(*CONNECT, *CLOSE) == 5
    assert closes_after(*CONNECT, *CLOSE[:2]) is None


def test_the_last_of_two_connections_ends_the_recording():
    second = [(40001, "SYN_RECV", "ESTABLISHED")]
    assert closes_after(*CONNECT, *second, *CLOSE) is None
    assert closes_after(*CONNECT, *second, *CLOSE, (40001, "LAST_ACK", "CLOSE")) == 7


def test_an_earlier_connection_ends_the_recording_too():
    assert closes_after((40000, "CLOSE_WAIT", "LAST_ACK"), (40000, "LAST_ACK", "CLOSE")) == 2


def test_a_closing_listener_does_not_end_the_recording():
    assert closes_after((0, "CLOSE", "LISTEN"), (0, "LISTEN", "CLOSE")) is None


def test_where_tracefs_is(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text("proc /proc proc rw 0 0\nnodev /t/racing tracefs rw 0 0\n")
    assert tracefs.find_tracefs(mounts) == "/t/racing"
    mounts.write_text("proc /proc proc rw 0 0\n")
    with pytest.raises(tracefs.TraceError, match="mount -t tracefs"):
        tracefs.find_tracefs(mounts)


@pytest.mark.parametrize("arguments", [
    [], ["record", "-t", "0"], ["record", "-t", "x"], ["record", "--events", "segment_sent,x"],
    ["record", "--until-close", "0"], ["record", "--cookie", "z"], ["record", "--buffer", "0"],
    ["decode"], ["decode", ".", "--format", "xls"]])
def test_wrong_usage_is_one_line(arguments):
    done = run(TOOLS / "satcc-log", *arguments)
    assert done.returncode == 2 and "usage: satcc-log" in done.stderr and "Traceback" not in done.stderr


def test_a_missing_module_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(tracefs, "MODULE", "satcc_no_such")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "modprobe").write_text("#!/bin/sh\necho modprobe: FATAL: not found >&2\nexit 1\n")
    (tmp_path / "modprobe").chmod(0o755)
    with pytest.raises(tracefs.TraceError, match=r"^cannot load the module satcc_no_such "
                       r"\(modprobe: FATAL: not found\); make install builds and installs it$"):
        tracefs.load_module()


@pytest.fixture
def old_instance(tmp_path, monkeypatch):
    """A tracing instance of Linux 5.10: writing to the enable file of cwnd_changed gives ENOENT."""
    instance = tracefs.Instance.__new__(tracefs.Instance)
    instance.path = tmp_path
    for event in schema.EVENTS:
        (tmp_path / "events/satcc" / event).mkdir(parents=True)

    def write(name, text):
        if name == f"events/satcc/{schema.WINDOW}/enable":
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(instance, "write", write, raising=False)
    return instance


def enabled(instance):
    return [event for event in schema.EVENTS
            if (instance.path / "events/satcc" / event / "enable").exists()]


def test_an_event_that_the_kernel_lacks_is_left_out_and_named(old_instance):
    missing = []
    tracefs.enable_all(old_instance, schema.EVENTS, "", missing.append)
    assert missing == [schema.WINDOW]
    assert enabled(old_instance) == [schema.SEGMENT, schema.ACK]


def test_a_missing_event_is_an_error_if_it_was_asked_for(old_instance):
    with pytest.raises(tracefs.TraceError, match="cwnd_changed/enable to 1: No such file"):
        tracefs.enable_all(old_instance, [schema.WINDOW], "")


def test_no_event_at_all_is_an_error(old_instance):
    with pytest.raises(tracefs.TraceError, match="none of the events cwnd_changed"):
        tracefs.enable_all(old_instance, [schema.WINDOW], "", lambda event: None)


def test_another_error_of_an_event_is_an_error(old_instance, monkeypatch):
    def refuse(name, text):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")
    monkeypatch.setattr(old_instance, "write", refuse)
    with pytest.raises(tracefs.TraceError, match="Cannot allocate memory"):
        tracefs.enable_all(old_instance, schema.EVENTS, "", lambda event: None)


# ---- what the graphs show --------------------------------------------------

def flows_of(*rows):
    """flow.read() of rows given as dicts; of one cookie and with nothing else unless they say so."""
    whole = [{"cookie": 9, "sport": 40000, "dport": 5001, "saddr": "192.0.2.1", "cc": "reno",
              "daddr": "192.0.2.9", "ca_state": "Open", "netns": 1, **row} for row in rows]
    return flow.read(io.StringIO("".join(json.dumps(row) + "\n" for row in whole)))


def flow_of(*rows):
    (flow_rows,), _ = flows_of(*rows)[0].values(), None
    return flow_rows


def sent(t, seq, **more):
    return {"t_s": t, "ev": schema.SEGMENT, "seq_rel": seq, "len": 1000, "retrans": 0, "flags": 16,
            "in_flight": 1, "cwnd": 10, "pacing_status": 0, **more}


def acked(t, una, sacked=0, **more):
    return {"t_s": t, "ev": schema.ACK, "una_rel": una, "sacked": sacked, "mss": 1000, "rwnd": 65535,
            "in_flight": 1, "rtt_us": 600_000, "srtt_us": 600_000, "rto_us": 800_000, "cwnd": 10, **more}


SYN = sent(100.0, 0, flags=2, len=0)


def test_short_goodput_by_hand():
    """1000 bytes a second are 8 kbit/s, from the first second on and after the window has moved on."""
    flow_rows = flow_of(SYN, *(acked(100.0 + second, 1 + 1000 * second) for second in range(1, 21)))
    at, mbit = flow.short_goodput(*flow.received(flow_rows), 20.0)
    assert at.tolist() == list(range(1, 21))
    assert mbit == pytest.approx([0.008] * 20)


def test_short_goodput_starts_with_a_shorter_window():
    """Nothing in the first five seconds, 10 kB at once, nothing more."""
    flow_rows = flow_of(SYN, acked(104.5, 1), acked(105.5, 10001), acked(120.0, 10001))
    _, mbit = flow.short_goodput(*flow.received(flow_rows), 20.0)
    share = [0] * 5 + [80 / second for second in (6, 7, 8, 9)] + [8] * 6 + [0] * 5
    assert mbit * 1000 == pytest.approx(share)


def test_sack_leaves_no_step_of_a_long_recovery():
    """One segment is missing for 30 s while one a second comes behind it; then all is acknowledged.
    Counting ACKs alone there would be nothing, then thirty times the rate."""
    seconds = range(1, 31)
    flow_rows = flow_of(SYN, *(acked(100.0 + second, 1, sacked=second) for second in seconds),
                        acked(130.5, 31001), acked(140.5, 31001))
    _, mbit = flow.short_goodput(*flow.received(flow_rows), 40.0)
    # At 30 s 30 kB are there, at 30.5 s 31 kB, and no more.
    assert mbit[:31] * 1000 == pytest.approx([8] * 31)
    assert mbit[31:] * 1000 == pytest.approx([8 * (31 - second) / 10 for second in range(22, 31)])
    plain = flow.short_goodput(*flow.received(flow_of(
        SYN, *(acked(100.0 + second, 1) for second in seconds), acked(130.5, 31001))), 31.0)[1]
    assert plain[29] == 0 and plain[30] * 1000 == pytest.approx(31 * 8 / 10)


def test_received_bytes_are_never_taken_back():
    """A receiver may take back what it has told in SACK."""
    flow_rows = flow_of(SYN, acked(101.0, 1, sacked=5), acked(102.0, 1, sacked=2), acked(103.0, 3001))
    assert flow.received(flow_rows)[1].tolist() == [5000, 5000, 5000]


def test_goodput_is_the_highest_ack_by_the_time_it_took():
    flow_rows = flow_of(SYN, acked(100.5, 1), acked(102.0, 250_001), acked(110.0, 250_001))
    assert flow.goodput(flow_rows) == pytest.approx(1.0)
    assert flow.goodput(flow_of(SYN, acked(100.5, 1))) != flow.goodput(flow_of(SYN))     # both NaN


def test_without_the_syn_data_begin_at_0():
    flow_rows = flow_of(acked(100.0, 0), acked(101.0, 125_000))
    assert flow.received(flow_rows)[1][-1] == 125_000
    assert flow.goodput(flow_rows) == pytest.approx(1.0)


def test_gaps_are_between_segments_with_data():
    flow_rows = flow_of(SYN, sent(101.0, 1), sent(101.002, 1001), sent(101.003, 2001, len=0),
                        sent(101.012, 1, retrans=1))
    t, gap, again = flow.gaps(flow_rows)
    assert t == pytest.approx([1.002, 1.012]) and gap == pytest.approx([2, 10])
    assert again.tolist() == [False, True]


def test_gaps_at_the_pacing_rate():
    flow_rows = flow_of(sent(0, 0, pacing_rate=250_000, pacing_status=1),
                        sent(1, 0, pacing_rate=250_000), sent(2, 0, pacing_status=1))
    t, gap = flow.paced_gaps(flow_rows)
    assert (t.tolist(), gap.tolist()) == ([0.0], [4.0])


def test_spans_of_a_state():
    flow_rows = flow_of(SYN, acked(101, 1), acked(102, 1, ca_state="Recovery"),
                        sent(103, 1, ca_state="Recovery"), acked(104, 1), acked(105, 1, ca_state="Loss"),
                        acked(107, 1, ca_state="Loss"))
    assert flow.spans(flow_rows, "Recovery") == [(2, 4)]
    assert flow.spans(flow_rows, "Loss") == [(5, 7)]
    assert flow.spans(flow_rows, "CWR") == []


def test_many_congestion_controls_are_few_words():
    names = ["reno", "cubic", "bbr", "reno", "cubic"]
    assert flow_of(*(sent(t, 0, cc=cc) for t, cc in enumerate(names[:3]))).cc \
        == "reno, then cubic, then bbr"
    assert flow_of(*(sent(t, 0, cc=cc) for t, cc in enumerate(names))).cc \
        == "reno, 4 changes, then cubic"


def test_the_largest_flow_is_chosen_and_named():
    flows, _ = flows_of({**sent(1, 0), "cookie": 1}, {**sent(2, 5000), "cookie": 1},
                        {**sent(1, 0), "cookie": 2}, {**sent(2, 9000), "cookie": 2, "dport": 80})
    assert plot.choose(flows)[0].cookie == "2"
    assert plot.choose(flows, cookie="1")[0].cookie == "1"
    assert plot.choose(flows, port="5001")[1] == 2      # the first row decides
    with pytest.raises(table.TableError):
        plot.choose(flows, port="81")


def transfer():
    """A flow with all three events, a loss, a timeout and a change of congestion control."""
    rows = [SYN, acked(100.6, 1)]
    for number in range(400):
        t = 100.6 + number * 0.05
        state = "Recovery" if 100 < number < 140 else "Loss" if 300 < number < 310 else "Open"
        cc = "reno" if number < 200 else "cubic"
        rows += [sent(t, 1 + 1000 * number, ca_state=state, in_flight=12, cc=cc, pacing_rate=30_000,
                      pacing_status=1, retrans=int(100 < number < 104)),
                 acked(t + 0.01, 1 + 1000 * max(0, number - 12), ca_state=state, in_flight=11, cc=cc,
                       sacked=3 * (state != "Open"), ssthresh=20 if number > 100 else None),
                 {"t_s": t + 0.01, "ev": schema.WINDOW, "cwnd": 10 + number % 90, "ca_state": state,
                  "reason": "ack", "cc": cc,
                  **({"ssthresh": 20} if number > 100 else {})}]
    return [{name: cell for name, cell in row.items() if cell is not None} for row in rows]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """satcc-plot's files of a table of two flows from which records are missing."""
    path = tmp_path_factory.mktemp("drawn")
    base = {"cookie": 9, "sport": 40000, "dport": 5001, "saddr": "192.0.2.1", "cc": "reno",
            "daddr": "192.0.2.9", "ca_state": "Open", "netns": 1}
    rows = [{**base, **row} for row in transfer()] + [
        {**base, "cookie": 10, **sent(101, 1)}, {"t_s": 105, "t_ns": 1, "ev": "missed", "missed": 7}]
    (path / "a log.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run(TOOLS / "satcc-plot", path / "a log.ndjson", "-o", path / "out", "--png", "--svg")
    assert done.returncode == 0, done.stderr
    return path / "out", done


def test_every_graph_is_a_picture(drawn):
    folder, _ = drawn
    for key in [*(graph.key for graph in plot.GRAPHS), "overview"]:
        picture = matplotlib.image.imread(folder / f"a-log-{key}.png")
        assert picture.shape[1] == 1200
        colours = {tuple(pixel) for pixel in picture[::3, ::3, :3].reshape(-1, 3).round(1).tolist()}
        assert len(colours) > 5, key
        assert (folder / f"a-log-{key}.svg").read_bytes().startswith(b"<?xml")


def test_the_page_is_self_contained_and_explains_its_figures(drawn):
    folder, done = drawn
    page = (folder / "a-log.html").read_text()
    assert len(re.findall(r'<img src="data:image/svg\+xml;base64,', page)) == len(plot.GRAPHS)
    assert not re.search(r'(src|href)="(?!data:)', page)
    for text in ("192.0.2.1:40000 to 192.0.2.9:5001, reno, then cubic", "7 records are missing",
                 "400, including 3 retransmissions"):
        assert text in page
    assert "largest of 2 flows" in done.stderr and "7 records are missing" in done.stderr


def test_the_list_has_every_flow_the_largest_first(drawn):
    done = run(TOOLS / "satcc-plot", drawn[0].parent / "a log.ndjson", "--list")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["cookie 9", "cookie 10"]


def axes_of(graph, flow_rows, limits=(0.0, 20.7)):
    with matplotlib.rc_context(plot.STYLE):
        return plot.draw_one(graph, flow_rows, limits, flow.Missing())


@pytest.mark.parametrize("graph", plot.GRAPHS, ids=lambda graph: graph.key)
def test_axes_have_units_and_the_legend_hides_nothing(graph):
    figure = axes_of(graph, flow_of(*transfer()))
    axes, = figure.axes
    assert axes.get_xlabel().endswith(", s")
    assert re.search(r"(kB|ms|Mbit/s|segments)$", axes.get_ylabel())
    renderer = figure.canvas.get_renderer() if hasattr(figure.canvas, "get_renderer") else None
    figure.draw_without_rendering()
    legend, inside = (each.get_window_extent(renderer) for each in (axes.get_legend(), axes.patch))
    assert legend.y0 >= inside.y1 - 1 and legend.x1 <= figure.bbox.x1


@pytest.mark.parametrize("graph", plot.GRAPHS, ids=lambda graph: graph.key)
@pytest.mark.parametrize("event", schema.EVENTS)
def test_a_table_with_one_event_is_drawn(graph, event):
    axes_of(graph, flow_of(*(row for row in transfer() if row["ev"] == event)))


@pytest.mark.parametrize("graph", plot.GRAPHS, ids=lambda graph: graph.key)
def test_a_part_is_drawn(graph):
    flow_rows = flow_of(*transfer())
    assert axes_of(graph, flow_rows, (5.0, 6.0)).axes[0].get_xlim() == (5.0, 6.0)


def test_infinite_ssthresh_is_not_drawn():
    axes = matplotlib.figure.Figure().add_axes((0, 0, 1, 1))
    graphs.draw_window(axes, [0, 1, 2], [10, 20, 30], [2**31 - 1, None, 15], "black")
    ssthresh, cwnd = axes.get_lines()
    assert [value for value in ssthresh.get_ydata() if value == value] == [15]
    assert cwnd.get_ydata().tolist() == [10, 20, 30]


@pytest.mark.parametrize("text, message", [
    ("", "not a table"), ("x\ty\n", "not a table"), ("t_s\tev\n", "no flow in this table")])
def test_a_figure_that_cannot_be_drawn_is_one_line(tmp_path, text, message):
    (tmp_path / "t.tsv").write_text(text)
    done = run(TOOLS / "satcc-plot", tmp_path / "t.tsv", "-o", tmp_path)
    assert done.returncode == 1 and message in done.stderr and done.stderr.count("\n") == 1


def test_a_missing_file_is_one_line(tmp_path):
    done = run(TOOLS / "satcc-plot", tmp_path / "none.tsv")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "No such file" in done.stderr
