# SPDX-License-Identifier: GPL-2.0
"""tools/satcc-log and satcc-plot on a real kernel: recorded, decoded, and the same as the lab's own
trace and captures say."""

import dataclasses
import hashlib
import io
import os
import py_compile
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from bench import paths
from bench.errors import LabError
from bench.lab import image, machine
from bench.lab.play import Lab
from bench.measure import flow_view
from bench.paths import TOP
from selftests.conftest import KERNEL
from tools.satcc_tools import flow, plot, schema, table

pytestmark = pytest.mark.lab

TOOLS = TOP / "tools"
EVENTS = [f"satcc:{event}" for event in schema.EVENTS]


# ---- a guest with Python ---------------------------------------------------

def compiled(modules, tmp_path):
    """A zip of modules, {name: source file}; compiled, for in the guest that takes seconds."""
    blob = io.BytesIO()
    with zipfile.ZipFile(blob, "w") as archive:
        for name, source in sorted(modules.items()):
            path = name.replace(".", "/") + ("/__init__" if source.endswith("__init__.py") else "")
            bytecode = py_compile.compile(
                source, tmp_path / "module.pyc", dfile=f"{path}.py", doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
            archive.writestr(zipfile.ZipInfo(f"{path}.pyc"), Path(bytecode).read_bytes())
    return blob.getvalue()


def used_modules(programs):
    """All Python modules that modules of tools/ import: {name: source or library}."""
    output = subprocess.run(
        [sys.executable, "-S", "-c", "import sys; sys.path.insert(0, 'tools')\n"
         f"import encodings.ascii, encodings.latin_1, {', '.join(programs)}\n"
         "for name, module in sys.modules.items():\n"
         "    if str(getattr(module, '__file__', '')).endswith(('.py', '.so')):\n"
         "        print(name, module.__file__)"],
        cwd=TOP, text=True, capture_output=True, check=True).stdout
    return dict(line.split(" ", 1) for line in output.splitlines())


class PythonLab(Lab):
    """The lab with this very Python, its loader and its libraries in the guest's /py.

    The programs of tools/ come with each run, in tools.zip.  The image serves all of them, so that it
    boots once.
    """

    programs = ("satcc_tools.log", "satcc_operate.cli")
    python = "PYTHONHOME=/py PYTHONPATH=$PWD/tools.zip /py/ld.so --library-path /py /py/python -S"

    def __init__(self, plain, tmp_path):
        modules = used_modules(self.programs)
        ours = {name for name in modules if name.startswith("satcc_")}
        self.tools = compiled({name: modules[name] for name in ours}, tmp_path)
        stage = tmp_path / "stage"
        version = "{}.{}".format(*sys.version_info)
        extensions = stage / f"py/lib/python{version}/lib-dynload"
        extensions.mkdir(parents=True)
        program = os.path.realpath(sys.executable)
        shutil.copy(program, stage / "py/python")
        binaries = [path for path in modules.values() if path.endswith(".so")]
        for path in binaries:
            shutil.copy(path, extensions)
        libraries = "".join(subprocess.run(["ldd", path], text=True, capture_output=True,
                                           check=True).stdout for path in (program, *binaries))
        for path in set(re.findall(r"(/\S+) \(0x", libraries)):
            shutil.copy(path, stage / "py" / ("ld.so" if "ld-linux" in path else Path(path).name))
        (stage / f"py/lib/python{version.replace('.', '')}.zip").write_bytes(compiled(
            {name: path for name, path in modules.items()
             if name not in ours and not path.endswith(".so")}, tmp_path))
        image.write_cpio(stage, tmp_path / "more")
        blob = plain.initramfs.read_bytes()
        blob += b"\0" * (-len(blob) % 512) + (tmp_path / "more").read_bytes()
        digest = hashlib.sha256(blob).hexdigest()
        initramfs = paths.BUILD / "lab" / f"initramfs-{plain.release}-{digest[:16]}.cpio"
        initramfs.write_bytes(blob)
        self.image = dataclasses.replace(plain, initramfs=initramfs,
                                         identity=image.identity_of(plain.vmlinuz, initramfs))
        self.snapshot = machine.snapshot(self.image)

    def record(self, scenario, arguments, meanwhile="", stop=""):
        """A run with satcc-log beside it: what it said, its status, and what it wrote, as files.

        Of shell, meanwhile: beside the flows.  stop: when they have ended.
        """
        command = f"{self.python} satcc-log record {arguments}"
        before = (f"{command} 2> $OUT/satcc-log.said & satcc_log=$!",
                  "until grep -q recording $OUT/satcc-log.said; do "
                  "kill -0 $satcc_log || { cat $OUT/satcc-log.said; "
                  "echo instances: /sys/kernel/tracing/instances/*; exit 5; }; sleep 0.1; done",
                  *([f"( {meanwhile} ) &"] if meanwhile else []))
        after = (f"{stop}status=0; wait $satcc_log || status=$?; echo $status > $OUT/satcc-log.status",
                 "for f in /tmp/raw/*; do [ ! -e $f ] || cp $f $OUT/live-${f##*/}; done",
                 "ls /sys/kernel/tracing/instances > $OUT/instances")
        scenario = dataclasses.replace(scenario, before=before, after=after)
        return self.run(scenario, {"tools.zip": self.tools,
                                   "satcc-log": (TOOLS / "satcc-log").read_bytes()})


@pytest.fixture(scope="module")
def python_lab(tmp_path_factory):
    return PythonLab(image.build(KERNEL), tmp_path_factory.mktemp("python"))


@pytest.fixture(scope="module")
def logged(geo):
    """A scenario with the three events in the lab's own trace."""
    def make(cc, **rest):
        return geo(cc, trace=EVENTS, modules={"satcc_log": {}}, **rest)
    return make


def satcc_log(*arguments):
    return subprocess.run([sys.executable, TOOLS / "satcc-log", *map(str, arguments)], text=True,
                          capture_output=True, check=False)


def rows_of(path):
    with open(path, newline="") as file:
        return list(table.read(file))


def of(rows, event, *names):
    """The columns of an event's rows, as lists of int."""
    own = [row for row in rows if row["ev"] == event]
    return [[int(row[name]) for row in own] for name in names]


# ---- a run decoded ---------------------------------------------------------

@pytest.fixture(scope="module")
def lossy(lab, logged):
    return lab.run(logged("hybla_full", seconds=60, loss_pct=0.5))


@pytest.fixture(scope="module")
def decoded(lossy, tmp_path_factory):
    """(path of the table, its rows) of a minute with losses."""
    path = tmp_path_factory.mktemp("decoded") / "log.tsv"
    done = satcc_log("decode", lossy.folder, "-o", path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return path, rows_of(path)


def test_segments_are_those_of_the_capture(lossy, decoded):
    """Each packet with data that left: number, size, and whether it was one sent again."""
    view = flow_view.FlowView(lossy)
    seq, size, again = of([row for row in decoded[1] if row.get("len") != "0"], schema.SEGMENT,
                          "seq_rel", "len", "retrans")
    count = len(seq)
    assert [number - 1 for number in seq] == view.segment_seq[:count].tolist()
    assert size == view.segment_len[:count].tolist()
    assert again == view.is_retransmit[:count].astype(int).tolist() and sum(again) > 20
    # The trace ends before the capture does.
    assert (view.segment_s[count:] > float(decoded[1][-1]["t_s"])).all()


def test_acks_are_those_of_the_capture(lossy, decoded):
    ack, una = of(decoded[1], schema.ACK, "ack", "una_rel")
    came = lossy.sender.where(lossy.sender.sport == 5001)
    assert ack == came.ack[:len(ack)].tolist()
    assert (came.t[len(ack):] > int(decoded[1][-1]["t_ns"])).all()
    assert una == sorted(una)
    assert una[-1] - 1 == flow_view.FlowView(lossy).acked_by(float(decoded[1][-1]["t_s"]))


def test_time_goes_on_and_windows_are_a_chain(decoded):
    t, = of(decoded[1], schema.SEGMENT, "t_ns")
    assert t == sorted(t) and all("t_s" in row for row in decoded[1])
    for name in ("cwnd", "clamp", "ssthresh"):
        windows = [row for row in decoded[1] if row["ev"] == schema.WINDOW]
        assert [row.get(f"{name}_old") for row in windows[1:]] == [row.get(name) for row in windows[:-1]]
    assert windows[0]["reason"] == "first" and {"ack", "recovery"} < {row["reason"] for row in windows}


def test_both_decoders_agree(lossy, decoded):
    """The bench's, which makes numpy records, and this one: every field of every record."""
    for event in schema.EVENTS:
        times, records = lossy.events[f"satcc:{event}"]
        own = [row for row in decoded[1] if row["ev"] == event]
        assert len(own) == len(times) > 1000 or event == schema.WINDOW
        assert [int(row["t_ns"]) for row in own] == times.tolist()
        for column in schema.COLUMNS:
            if column.field and event in column.events and column.name not in (
                    "saddr", "daddr", "cc", "ca_state", "reason"):
                theirs = ["" if value == column.none else str(value)
                          for value in records[column.field].tolist()]
                assert [row.get(column.name, "") for row in own] == theirs, column.name
        assert {(row["saddr"], row["daddr"], row["cc"]) for row in own} \
            == {("192.0.2.1", "192.0.2.10", "hybla_full")}


def test_forms_hold_the_same(lossy, decoded, tmp_path):
    for name in ("log.csv", "log.ndjson"):
        assert satcc_log("decode", lossy.folder, "-o", tmp_path / name).returncode == 0
        for own, theirs in zip(decoded[1], rows_of(tmp_path / name), strict=True):
            assert {**own, "t_s": float(own["t_s"])} == {**theirs, "t_s": float(theirs["t_s"])}


def test_goodput_is_the_captures(lossy, decoded):
    with open(decoded[0], newline="") as file:
        flow_rows, = flow.read(file)[0].values()
    view = flow_view.FlowView(lossy)
    size = view.acked_by(flow_rows.end_s)
    assert flow.goodput(flow_rows) == pytest.approx(size * 8 / view.transfer_s(size) / 1e6, rel=1e-4)
    # With SACK: never more than the link takes, and no steps.
    _, with_sack = flow.short_goodput(*flow.received(flow_rows), 60.0)
    assert with_sack.max() < 1.01 * lossy.scenario.net_rate_bps / 1e6
    _, without = view.goodput_series(60)
    assert np.abs(np.diff(with_sack[10:])).max() < np.abs(np.diff(without[10:])).max() / 2


def test_the_graphs_are_drawn(decoded, tmp_path):
    done = subprocess.run([sys.executable, TOOLS / "satcc-plot", decoded[0], "-o", tmp_path, "--png"],
                          text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "192.0.2.10:5001, hybla_full" in (tmp_path / "log.html").read_text()
    for graph in plot.GRAPHS:
        picture = matplotlib.image.imread(tmp_path / f"log-{graph.key}.png")
        assert len(np.unique(picture[..., :3].round(1).reshape(-1, 3), axis=0)) > 5


# ---- recorded live ---------------------------------------------------------

def test_a_live_recording_is_the_labs_trace(python_lab, logged, tmp_path):
    """All kinds of filters at once, until the flow closes; and the same again from the raw pages."""
    run = python_lab.record(
        logged("cubic", seconds=10, loss_pct=1),
        "--until-close 5001 --port 5001 --peer 192.0.2.8/29 --peer 203.0.113.1 --cc 'cub*' --cc reno "
        "--filter 'dport >= 5001' --netns $(stat -L -c %i /run/netns/sender) "
        "--raw /tmp/raw -o $OUT/live.tsv")
    assert run.read("satcc-log.status") == b"0\n", run.read("satcc-log.said")
    assert satcc_log("decode", run.folder, "-o", tmp_path / "lab.tsv").returncode == 0
    times = ("t_s", "t_ns")
    live = rows_of(run.folder / "live.tsv")
    theirs = rows_of(tmp_path / "lab.tsv")
    # Another clock, and read one after the other.
    assert abs((int(live[-1]["t_ns"]) - int(live[0]["t_ns"]))
               - (int(theirs[-1]["t_ns"]) - int(theirs[0]["t_ns"]))) < 100_000
    for own, other in zip(live, theirs, strict=True):
        assert [item for item in own.items() if item[0] not in times] \
            == [item for item in other.items() if item[0] not in times]
    assert run.read("instances") == b"" and run.read("live-trace.lost") == b"0\n"
    raw = tmp_path / "raw"
    raw.mkdir()
    for path in run.folder.glob("live-trace.*"):
        shutil.copy(path, raw / path.name.removeprefix("live-"))
    assert satcc_log("decode", raw, "-o", tmp_path / "raw.tsv").returncode == 0
    assert (tmp_path / "raw.tsv").read_bytes() == (run.folder / "live.tsv").read_bytes()


def test_departure_times_are_on_the_tables_clock(python_lab, logged):
    run = python_lab.record(logged("hybla_full", seconds=10, loss_pct=1),
                            "--until-close 5001 --filter 'dport == 5001' -o $OUT/live.tsv")
    late = [int(row["t_ns"]) - int(row["wstamp_ns"]) for row in rows_of(run.folder / "live.tsv")
            if row.get("pacing_status") == "1" and "wstamp_ns" in row]
    assert len(late) > 100 and 0 < np.median(late) < 20_000


def test_it_loads_the_module_and_filters_ipv6(python_lab, geo):
    run = python_lab.record(
        geo("cubic", bytes=100_000, family=6, trace=[]),
        "--until-close 5001 --peer 2001:db8:0:2::/64 --events segment_sent -o $OUT/live.csv")
    assert run.read("satcc-log.status") == b"0\n", run.read("satcc-log.said")
    rows = rows_of(run.folder / "live.csv")
    assert {(row["ev"], row["saddr"], row["daddr"]) for row in rows} \
        == {(schema.SEGMENT, "2001:db8::1", "2001:db8:0:2::2")}
    assert sum(int(row["len"]) for row in rows if row["retrans"] == "0") == 100_000
    assert "satcc_log" in run.meta["modules"]


def test_losses_of_a_full_buffer_are_recorded(python_lab, logged):
    """satcc-log stands still for four seconds. What is in the table and what is missing are what
    the lab's trace has; ^C ends it."""
    run = python_lab.record(
        logged("hybla_full", seconds=10), "--filter 'dport == 5001' --buffer 64 -o $OUT/live.ndjson",
        meanwhile="sleep 4; kill -STOP $satcc_log; sleep 4; kill -CONT $satcc_log",
        stop="sleep 1; kill -INT $satcc_log; ")
    output = run.read("satcc-log.said").decode()
    assert run.read("satcc-log.status") == b"3\n", output
    rows = rows_of(run.folder / "live.ndjson")
    missed_rows = [(at, int(row["missed"])) for at, row in enumerate(rows) if row["ev"] == schema.MISSED]
    missed = sum(count for _, count in missed_rows)
    decoded_rows = len(rows) - len(missed_rows)
    assert missed > 100 and decoded_rows > 100
    assert decoded_rows + missed == sum(len(run.events[event][0]) for event in EVENTS)
    assert f"{missed} records are missing: trace.cpu0.raw: {missed} overwritten" in output
    # The row is where the time jumps.
    at = missed_rows[0][0]
    gap = float(rows[at + 1]["t_s"]) - float(rows[at - 1]["t_s"])
    assert 2 < gap < 4.2 and rows[at]["t_ns"] <= rows[at + 1]["t_ns"]
    assert run.read("instances") == b""


@pytest.mark.parametrize("arguments, message", [
    ("--filter 'nosuch == 1'", "the kernel refuses the filter .*nosuch.*: .*Field not found"),
    ("--buffer 99999999", "cannot set buffer_size_kb to 99999999: Cannot allocate memory"),
    ("-o /nosuch/x.tsv", "/nosuch/.*: No such file or directory"),
])
def test_a_refusal_is_one_line_and_leaves_nothing(python_lab, geo, arguments, message):
    with pytest.raises(LabError, match="ended with status 5") as caught:
        python_lab.record(geo("cubic", bytes=1000, trace=[]), arguments)
    console = Path(str(caught.value).split("console: ")[1]).read_text()
    messages = re.findall("^satcc-log: .*", console, re.M)
    assert len(messages) == 1 and re.search(message, messages[0])
    assert re.search(r"^instances: /sys/kernel/tracing/instances/\*$", console, re.M)
