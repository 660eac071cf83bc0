# SPDX-License-Identifier: GPL-2.0
"""What makes a run count, new or kept, without a guest."""

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from rich.console import Console

from bench import oracle, paths
from bench.errors import LabError, TraceFull
from bench.lab import debug, image, job, machine, packages, play, proof, prune, repeat
from bench.record import trace
from bench.record.run import Run, traffic_hash
from bench.scenario import scenario

SACK, TIMESTAMPS, WINDOW_SCALE = 2, 1, 4
ALL = SACK | TIMESTAMPS | WINDOW_SCALE


def made(**more) -> scenario.Scenario:
    """The line's flow, and one between hosts beside it."""
    return scenario.from_dict({
        "title": "made up", "capture": False, "trace": [],
        "hop": [{"name": "r1"}, {"name": "r2"}],
        "host": [{"name": "from1", "at": "r1"},
                 {"name": "to2", "at": "r2", "settings": more.pop("to2", {})}],
        "flow": [{"cc": "reno", "bytes": 9}, {"cc": "reno", "bytes": 9, "source": "from1", "to": "to2"}],
        **more})


def set_up() -> dict[str, bytes]:
    """What tc and ethtool say of made()'s links: none has a queue, and all offloads are off."""
    devices = {"sender": ["right"], "r1": ["left", "right", "from1"], "r2": ["left", "right", "to2"],
               "receiver": ["left"], "from1": ["uplink"], "to2": ["uplink"]}
    off = "".join(f"{name}-offload: off\n" for name in proof.OFFLOADS).encode()
    return {**{f"offloads-{node}-{dev}.txt": off for node, devs in devices.items() for dev in devs},
            **{f"qdisc-{hop}.json": "".join(
                f',{{"kind":"noqueue","dev":"{dev}"}}' for dev in devices[hop]).encode()
               for hop in ("r1", "r2")}}


def ended(*options: int) -> dict[str, bytes]:
    return {**set_up(), **{f"flow-{number}.json": json.dumps({"cc": "reno", "options": seen}).encode()
                           for number, seen in enumerate(options)}}


def off(*names: str) -> dict:
    return {"sysctl": {f"net.ipv4.tcp_{name}": 0 for name in names}}


def test_tcp_options_are_on_by_default():
    play.check(made(), ended(ALL, ALL))
    play.check(made(sender=off("timestamps")), ended(ALL & ~TIMESTAMPS, ALL))
    play.check(made(receiver=off("sack"), to2=off("sack", "window_scaling")),
               ended(ALL & ~SACK, TIMESTAMPS))


@pytest.mark.parametrize("options, line", [
    ((ALL & ~SACK, ALL), "flow 1: option SACK: expected off between from1 and to2, seen on"),
    ((ALL, ALL & ~SACK), "flow 0: option SACK: expected off between sender and receiver, seen on"),
    ((ALL & ~SACK, WINDOW_SCALE),
     "flow 1: option timestamps: expected on between from1 and to2, seen off"),
    ((TIMESTAMPS, TIMESTAMPS),
     "flow 0: option window scale: expected on between sender and receiver, seen off")])
def test_a_flow_that_negotiated_something_else_fails_the_run(options, line):
    """One line: which flow, which option, expected, seen."""
    with pytest.raises(LabError) as raised:
        play.check(made(receiver=off("sack"), to2=off("sack")), ended(*options))
    assert str(raised.value) == line


def test_a_flow_through_a_proxy_negotiates_with_the_proxy():
    hops = [{"name": "r1", "pep": "reno", **off("sack")}, {"name": "r2", "pep": "reno"}]
    play.check(made(hop=hops), ended(ALL & ~SACK, ALL))
    back = [{"cc": "reno", "bytes": 9, "source": "receiver", "to": "sender"}]
    play.check(made(hop=hops, flow=back), ended(ALL))
    served = [{"cc": "reno", "bytes": 9, "passive": True}]
    play.check(made(hop=hops, flow=served, receiver=off("timestamps")), ended(ALL & ~TIMESTAMPS))
    with pytest.raises(LabError, match="flow 0: option SACK: expected off between sender and r1"):
        play.check(made(hop=hops), ended(ALL, ALL))


def test_a_proxy_that_did_not_start_fails_the_run():
    hops = [{"name": "r1", "pep": "reno"}, {"name": "r2"}]
    began = b"[NOTICE]   (9) : haproxy version is 2.6\n"
    play.check(made(hop=hops), {**ended(ALL, ALL), "haproxy-r1.log": began})
    with pytest.raises(LabError, match=r"the proxy r1: \[ALERT\]    \(9\) : config : invalid"):
        play.check(made(hop=hops), {
            **ended(ALL, ALL), "haproxy-r1.log": began + b"[ALERT]    (9) : config : invalid\n"})


def test_tools_that_report_no_options_are_not_asked():
    play.check(made(), {**ended(ALL), "flow-1.json": b'{"cc": "reno"}'})


def test_records_that_satcc_log_missed_fail_a_run_unless_it_may_miss_some():
    """Where it may, the oracle has no windows of the run."""
    ours = made(flow=[{"cc": "ibk", "bytes": 9}], trace=["satcc:cc_call"])
    stats = "".join(f"{name}: 0\n" for name in
                    ("overrun", "commit overrun", "dropped events", "entries")).encode()
    files = {**ended(ALL), "flow-0.json": json.dumps({"cc": "ibk", "options": ALL}).encode(),
             "trace.stats": stats, "witness.lost": b"2\n"}
    with pytest.raises(LabError, match="^satcc_log missed 2 records$"):
        play.check(ours, files)
    play.check(ours, files, may_miss=True)
    play.check(ours, {**files, "witness.lost": b"0\n"})


def test_the_oracle_leaves_a_run_out_whose_records_are_not_complete(tmp_path):
    (tmp_path / "witness.lost").write_text("2\n")
    ours = made(flow=[{"cc": "ibk", "bytes": 9}], trace=["satcc:cc_call"])
    report = oracle.check(Run(ours, tmp_path, {}, False))
    assert report.unchecked == {"ibk": "satcc_log missed 2 records"} and not report.counts


def test_a_difference_is_raised_with_the_runs_folder(tmp_path):
    report = oracle.Report(tmp_path, differences=["ibk, call 16: cwnd should be 25, is 26"])
    with pytest.raises(oracle.Differs, match=f"^ibk, call 16: .*\n  run: {tmp_path}$"):
        report.raise_first()


# ---- kept runs -------------------------------------------------------------

CAPTURE = b"a capture"
PLAYED = {**ended(ALL, ALL), "sender.pcap": CAPTURE, "kernel": b"6.1.0-1-amd64\n", "modules": b""}


@pytest.mark.parametrize("release, clock", [("", "tai"), ("6.1.0-56-amd64", "tai"),
                                            ("5.10.0-46-amd64", "mono")])
def test_a_trace_has_a_clock_that_the_kernel_has(release, clock):
    script = job.files(made(trace=["tcp:tcp_probe"]), release=release)["run"].decode()
    assert re.findall(r"echo (\w+) > \$T/trace_clock", script) == [clock]
    assert ("/proc/timer_list" in script) == (clock == "mono")


# 5.10's timer list, and a format of its events.
TIMERS = """\
cpu: 0
 clock 0:
  .index:      0
  .get_time:   ktime_get
  .offset:     0 nsecs
active timers:
 clock 1:
  .index:      1
  .get_time:   ktime_get_real
  .offset:     1577836804107513104 nsecs
"""
FORMATS = """\
system: tcp
name: tcp_probe
ID: 7
format:
\tfield:__u8 saddr[sizeof(struct sockaddr_in6)];\toffset:8;\tsize:28;\tsigned:0;
\tfield:__u32 snd_cwnd;\toffset:36;\tsize:4;\tsigned:0;
print fmt: ""
"""


def test_times_since_the_boot_become_the_captures(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "_records", lambda page: [(1_000, 0, 40)])
    (tmp_path / "trace.raw").write_bytes(b"\7\0" + bytes(trace.LAYOUT.size - 2))
    (tmp_path / "trace.formats").write_text(FORMATS)
    times, records = Run(made(), tmp_path, {}, True).events["tcp:tcp_probe"]
    assert times.tolist() == [1_000] and records["saddr"].dtype.itemsize == 28
    (tmp_path / "timer_list").write_text(TIMERS)
    times, _ = Run(made(), tmp_path, {}, True).events["tcp:tcp_probe"]
    assert times.tolist() == [1577836804107514104]


@pytest.fixture
def build(tmp_path, monkeypatch):
    """A build folder of its own, and an emulator that plays what PLAYED says, counted."""
    for module in (play, prune, packages, image, repeat):
        monkeypatch.setattr(module, "BUILD", tmp_path)
    for module in (play, repeat):
        monkeypatch.setattr(module, "TOP", tmp_path)
    (tmp_path / "log").mkdir()
    monkeypatch.setattr(machine, "qemu_version", lambda: "7")
    monkeypatch.setattr(machine, "emulator", lambda: ["7", "a BIOS"])
    monkeypatch.setattr(machine, "snapshot", lambda image, recorded=True: None)
    return tmp_path


@pytest.fixture
def lab(build, monkeypatch):
    """A Lab without a guest; .played counts."""
    made_up = play.Lab(prebuilt=image.Image("6.1.0-1-amd64", None, None, "image one", (), {}))
    made_up.played, made_up.files = 0, PLAYED

    def run_job(snapshot, files, console, on_progress, stub):
        made_up.played += 1
        console.write_text("booted")
        return machine.Outcome(made_up.files, 1, 1, 1)

    monkeypatch.setattr(machine, "run_job", run_job)
    return made_up


def test_a_kept_run_is_served_once_it_is_verified(lab, capsys):
    first, second = lab.run(made()), lab.run(made())
    assert lab.played == 1 and second.from_cache
    assert second.meta == json.loads(json.dumps(first.meta))
    assert second.hash == traffic_hash(PLAYED)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("name, content", [
    ("flow-0.json", b'{"cc": "reno", "options": 7, "min_rtt": 123456}'),
    ("sender.pcap", CAPTURE[:4]), ("qdisc-r1.json", None), ("receiver.pcap", b"not of this run")])
def test_a_run_with_a_changed_file_is_played_again(lab, capsys, name, content):
    folder = lab.run(made()).folder
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    again = lab.run(made())
    assert lab.played == 2 and not again.from_cache
    output, = capsys.readouterr().err.splitlines()
    reason = "the stored hash differs from that" if name == "receiver.pcap" else name
    assert reason in output and output.endswith("; playing it again")
    assert not (folder / name).exists() if name == "receiver.pcap" else \
        (folder / name).read_bytes() == PLAYED[name]
    assert lab.run(made()).from_cache


@pytest.mark.parametrize("text", ["{}", "cut", '{"files": {}, "hash": "another"}'])
def test_a_run_with_a_changed_record_is_played_again(lab, capsys, text):
    (lab.run(made()).folder / "meta.json").write_text(text)
    assert not lab.run(made()).from_cache
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_kept_run_must_pass_the_present_check(lab, capsys, monkeypatch):
    lab.run(made())
    monkeypatch.setattr(play, "check", lambda scenario, files, may_miss: (_ for _ in ()).throw(
        LabError("flow 0: a rule that was added")) if lab.played == 1 else None)
    assert not lab.run(made()).from_cache
    assert "flow 0: a rule that was added; playing it again" in capsys.readouterr().err


def test_another_bios_is_another_run(lab, monkeypatch):
    lab.run(made())
    monkeypatch.setattr(machine, "emulator", lambda: ["7", "another BIOS"])
    assert not lab.run(made()).from_cache


def test_firmware_is_found_as_the_emulator_finds_it(monkeypatch, tmp_path):
    for folder, name in (("qemu", "linuxboot_dma.bin"), ("qemu", "kvmvapic.bin"),
                         ("bios", "bios-256k.bin"), ("later", "bios-256k.bin")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(folder)
    folders = "\n".join(str(tmp_path / name) for name in ("qemu", "bios", "later"))
    monkeypatch.setattr(machine, "_tool", lambda *command: folders)
    monkeypatch.setattr(machine, "qemu_version", lambda: "7")
    before = machine.emulator.__wrapped__()
    (tmp_path / "later/bios-256k.bin").write_text("not looked at")
    assert machine.emulator.__wrapped__() == before and len(before) == 4
    (tmp_path / "bios/bios-256k.bin").write_text("another")
    assert machine.emulator.__wrapped__() != before
    (tmp_path / "qemu/kvmvapic.bin").unlink()
    with pytest.raises(LabError, match="no kvmvapic.bin"):
        machine.emulator.__wrapped__()


@pytest.mark.parametrize("free_mb, boots", [(511, False), (512, True)])
def test_a_full_disk_is_named_before_the_boot(monkeypatch, tmp_path, free_mb, boots):
    """The emulator would die of a signal when the file of its memory cannot grow."""
    class Booted(Exception):
        pass

    def boot(*arguments, **keywords):
        raise Booted

    monkeypatch.setattr(machine.shutil, "disk_usage", lambda folder: (0, 0, free_mb << 20))
    monkeypatch.setattr(machine, "Machine", boot)
    with pytest.raises(Booted if boots else LabError) as raised:
        machine.boot(image.Image("6.1.0-1-amd64", None, None, "image one", (), {}), tmp_path)
    assert boots or str(raised.value) == f"{tmp_path} has 511 MB free; a machine state needs 512"


# ---- what killed processes leave -------------------------------------------

def test_scratch_folders_of_killed_processes_are_removed(lab, build, monkeypatch):
    """The next Lab removes what is of processes that are gone, and nothing of those that live."""
    monkeypatch.setattr(tempfile, "tempdir", str(build / "tmp"))
    folders = {"machine": build / "lab", "image": build / "lab", "part": build / "runs/3d",
               "satcc-job": build / "tmp"}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    script = ("import sys, tempfile; from pathlib import Path\n"
              "from bench.paths import scratch_prefix\n"
              "for what, folder in zip(sys.argv[1::2], sys.argv[2::2]):\n"
              "    if what == 'satcc-job': tempfile.mkstemp(prefix=scratch_prefix(what), dir=folder)\n"
              "    else: Path(tempfile.mkdtemp(prefix=scratch_prefix(what), dir=folder), 'x').touch()\n"
              "    print(what)\n"
              "sys.stdout.flush(); import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n")
    words = [str(word) for pair in folders.items() for word in pair]
    subprocess.run([sys.executable, "-c", script, *words], cwd=paths.TOP, capture_output=True)
    own = [Path(tempfile.mkdtemp(prefix=paths.scratch_prefix(what), dir=folder))
           for what, folder in folders.items()]
    elsewhere = build / "lab/machine-999999999-another.machine-x"
    elsewhere.mkdir()
    left = [path for folder in set(folders.values()) for path in folder.iterdir()]
    assert len(left) == 4 + len(own) + 1
    play.Lab(prebuilt=lab.image)
    assert {path for folder in set(folders.values()) for path in folder.iterdir()} == {*own, elsewhere}


# ---- failed runs -----------------------------------------------------------

def fail_with(error, left, monkeypatch, jobs=None):
    """Every job fails and leaves these files."""
    def run_job(snapshot, files, console, on_progress=None, stub=None):
        if jobs is not None:
            jobs.append(files)
        console.write_text("satcc: failed\n")
        raised = LabError(f"{error}; console: {console}")
        raised.files = left
        raise raised
    monkeypatch.setattr(machine, "run_job", run_job)


def test_a_failed_run_is_kept_with_the_command_that_repeats_it(lab, build, monkeypatch):
    jobs = []
    fail_with("the guest's script ended with status 5", {"flow-0.json": b"{}"}, monkeypatch, jobs)
    with pytest.raises(LabError) as caught:
        lab.run(made(), {"more": b"of it"})
    words = re.fullmatch(r"the guest's script ended with status 5; to repeat: "
                         r"python3 -m bench again (\S+); console: (\S+)", str(caught.value))
    folder = build / words[1]
    assert Path(words[2]).read_text() == (folder / "console.log").read_text() == "satcc: failed\n"
    assert {path.name: path.read_bytes() for path in (folder / "job").iterdir()} == jobs[0]
    assert jobs[0]["more"] == b"of it" and "run" in jobs[0]
    assert (folder / "out/flow-0.json").read_bytes() == b"{}"


def test_files_that_do_not_count_are_kept_too(lab, build):
    lab.files = {**PLAYED, "flow-0.json": b"not JSON"}
    with pytest.raises(LabError, match="flow 0 left no result; to repeat: python3 -m bench again"):
        lab.run(made())
    folder, = (build / "failed").iterdir()
    assert (folder / "out/flow-0.json").read_bytes() == b"not JSON"


@pytest.mark.parametrize("name", ["overrun", "commit overrun", "dropped events", "entries"])
def test_events_that_do_not_fit_the_buffer_fail_a_run(lab, build, name):
    counts = dict.fromkeys(("overrun", "commit overrun", "dropped events", "entries"), 0)
    lab.files = {**PLAYED, "trace.stats": "".join(
        f"{key}: {count}\n" for key, count in {**counts, name: 7}.items()).encode()}
    message = rf"^the kernel dropped trace events \({name}: 7\); to repeat: python3 -m bench again .*"
    with pytest.raises(TraceFull, match=message):
        lab.run(made(trace=["tcp:tcp_probe"]))


def test_a_failed_run_is_played_again(lab, build, monkeypatch):
    jobs = []
    fail_with("a panic", {}, monkeypatch, jobs)
    with pytest.raises(LabError):
        lab.run(made())
    folder, = (build / "failed").iterdir()
    asked, printed = [], io.StringIO()

    def built(series, extras=()):
        asked.append((series, extras))
        return lab.image

    monkeypatch.setattr(image, "build", built)
    with pytest.raises(LabError, match="^a panic; console: .*/again.log$"):
        repeat.again(folder, Console(file=printed))
    assert asked == [("6.1", ())] and jobs[1] == jobs[0] and printed.getvalue() == ""
    lab.image = dataclasses.replace(lab.image, identity="image two")
    monkeypatch.setattr(machine, "run_job", lambda snapshot, files, console, stub: machine.Outcome(
        {"left": b"now"}, 1, 1, 1))
    assert repeat.again(folder, Console(file=printed)) == 0
    assert (folder / "out/left").read_bytes() == b"now" and "has changed" in printed.getvalue()


def test_the_last_failed_runs_are_kept(lab, build, monkeypatch):
    fail_with("a panic", {}, monkeypatch)
    monkeypatch.setattr(repeat, "KEPT", 2)
    for seed in (1, 2, 3):
        with pytest.raises(LabError):
            lab.run(dataclasses.replace(made(), seed=seed))
    assert len(list((build / "failed").iterdir())) == 2


def test_an_interrupted_run_is_not_kept(lab, build, monkeypatch):
    fail_with("interrupted", {}, monkeypatch)
    machine.interrupted.set()
    try:
        with pytest.raises(LabError):
            lab.run(made())
    finally:
        machine.interrupted.clear()
    assert not (build / "failed").exists()


def test_the_job_of_a_run_is_kept_and_played_again(lab, build, monkeypatch):
    run = lab.run(made())
    folder = play.keep_job(lab, run)
    assert folder.parent == build / "kept"
    assert {path.name: path.read_bytes() for path in (folder / "job").iterdir()} == lab.job(made(), {})
    assert {path.name: path.read_bytes() for path in (folder / "out").iterdir()} == PLAYED
    assert (folder / "console.log").read_text() == "booted"
    asked = []
    monkeypatch.setattr(image, "build", lambda series, extras=(): lab.image)
    monkeypatch.setattr(debug, "announce", lambda guest, console: asked.append(guest) or "a stub")
    monkeypatch.setattr(machine, "run_job", lambda snapshot, files, console, stub: asked.append(
        (files, stub)) or machine.Outcome({}, 1, 1, 1))
    assert repeat.again(folder, Console(file=io.StringIO()), gdb=True) == 0
    assert asked == [lab.image, (lab.job(made(), {}), "a stub")]


def test_gdb_has_a_kept_run_played(lab):
    """Its run is another one: the emulator does not record."""
    run = lab.run(made())
    assert lab.run(made(), stub="a stub").meta["identity"] != run.meta["identity"]
    assert lab.played == 2


def test_a_folder_without_a_job_is_one_line(tmp_path):
    with pytest.raises(LabError, match="is not the folder of a stored job"):
        repeat.again(tmp_path, Console(file=io.StringIO()))


@pytest.mark.parametrize("release, series", [
    ("6.1.0-56-amd64", "6.1"), ("6.1.0-56-rt-amd64", "6.1-rt"), ("6.12.48+deb13-amd64", "6.12")])
def test_the_series_of_a_release(release, series):
    assert packages.series_of(release) == series


# ---- prune -----------------------------------------------------------------

def test_prune_keeps_runs_that_would_be_reused(lab, build, monkeypatch):
    kept = lab.run(made()).folder
    lab.image = image.Image("6.1.0-1-amd64", None, None, "image of yesterday", (), {})
    old = lab.run(made()).folder
    lab.image = image.Image("6.1.0-1-amd64", None, None, "with extras", ("papers",), {})
    extra = lab.run(made()).folder
    lab.image = image.Image("6.12.1-amd64", None, None, "no such kernel any more", (), {})
    lab.files = {**PLAYED, "kernel": b"6.12.1-amd64\n"}
    gone = lab.run(made()).folder
    before = build / "runs/00/of-a-format-before"
    before.mkdir(parents=True)
    (before / "meta.json").write_text('{"image": "image one", "kernel": "6.1.0-1-amd64"}')

    def built(series, extras=()):
        if series != "6.1":
            raise LabError(f"no packaged kernel {series}")
        identity = "with extras" if extras else "image one"
        return image.Image("6.1.0-1-amd64", None, None, identity, extras, {})

    monkeypatch.setattr(image, "build", built)
    count, size = prune.prune()
    assert count == 3 and size > 0
    assert kept.exists() and extra.exists()
    assert not old.exists() and not gone.exists() and not before.exists()
    assert prune.prune() == (0, 0)


def test_beyond_the_limit_the_least_recently_used_runs_are_removed(lab, build, monkeypatch):
    chosen = [dataclasses.replace(made(), seed=seed) for seed in (1, 2, 3)]
    folders = [lab.run(one).folder for one in chosen]
    for age, folder in enumerate(reversed(folders)):
        os.utime(folder, (1000 - age, 1000 - age))
    assert lab.run(chosen[0]).from_cache            # the oldest until now
    each = sum(path.stat().st_size for path in folders[1].iterdir())
    monkeypatch.setenv("SATCC_RUNS_GB", str(2.5 * each / 1e9))
    assert prune.within_limit().endswith("; removed the 1 used longest ago")
    assert [folder.exists() for folder in folders] == [True, False, True]
    assert "removed" not in prune.within_limit()


@pytest.mark.parametrize("size", ["", "-1", "20 GB", "inf", "nan"])
def test_an_invalid_size_limit_is_an_error(monkeypatch, size):
    monkeypatch.setenv("SATCC_RUNS_GB", size)
    with pytest.raises(LabError, match=f"SATCC_RUNS_GB={size}: not a number of gigabytes"):
        prune.limit_bytes()


# ---- keys of what is built -------------------------------------------------

@pytest.fixture
def apt(build, monkeypatch):
    """apt with lists, and packages whose versions the tests change; .calls has what it was asked."""
    lists = build / "apt/state/lists"
    lists.mkdir(parents=True)
    (lists / "a_Packages").touch()
    versions, calls = {"busybox": "1"}, []

    def run_apt(*argv, cwd=None, suite=""):
        calls.append(argv)
        if "update" in argv:
            return ""
        if "--print-uris" in argv:
            return "".join(f"'http://mirror/{name}' {name}_{version}_amd64.deb 9 \n"
                           for name, version in versions.items() if name in argv)
        for name in argv[argv.index("download") + 1:]:
            if versions[name] == "dropped":
                raise LabError("404")
            (cwd / f"{name}_{versions[name]}_amd64.deb").touch()
        return ""

    monkeypatch.setattr(packages, "_apt", run_apt)
    plain = subprocess.run

    def no_dpkg(command, **keywords):
        if command[0] == "dpkg-deb":
            (Path(command[3]) / Path(command[2]).name).touch()
            return subprocess.CompletedProcess(command, 0)
        return plain(command, **keywords)

    monkeypatch.setattr(packages.subprocess, "run", no_dpkg)
    monkeypatch.setattr(paths, "BUILD", build)
    run_apt.versions, run_apt.calls, run_apt.lists = versions, calls, lists
    return run_apt


def unpacked(tree: Path) -> set[str]:
    return {path.name for path in tree.iterdir() if path.suffix == ".deb"}


def test_a_tree_is_keyed_by_packages_and_versions(build, apt):
    tree = build / "guest-programs"
    packages.unpack(["busybox"], tree, False)
    asked = len(apt.calls)
    assert packages.unpack(["busybox"], tree, False) == tree
    assert len(apt.calls) == asked          # not even apt is asked again: it may be offline
    manifest = packages.manifest(tree)
    apt.versions["jq"] = "1"
    packages.unpack(["busybox", "jq"], tree, False)
    assert unpacked(tree) == {"busybox_1_amd64.deb", "jq_1_amd64.deb"}
    apt.versions["busybox"] = "2"
    (apt.lists / "b_Packages").touch()      # new lists
    packages.unpack(["busybox"], tree, False)
    assert unpacked(tree) == {"busybox_2_amd64.deb"} and packages.manifest(tree) != manifest


def test_a_tree_without_a_manifest_is_made_again_or_kept_offline(build, apt):
    """As those of before manifests are."""
    tree = build / "guest-programs"
    packages.unpack(["busybox"], tree, False)
    (tree / packages.MANIFEST).unlink()
    (tree / "busybox_1_amd64.deb").rename(tree / "busybox_0_amd64.deb")
    apt.versions["busybox"] = "dropped"
    assert packages.unpack(["busybox"], tree, False) == tree
    assert unpacked(tree) == {"busybox_0_amd64.deb"} and packages.manifest(tree) == "unknown"
    apt.versions["busybox"] = "1"
    (apt.lists / "b_Packages").touch()
    packages.unpack(["busybox"], tree, False)
    assert unpacked(tree) == {"busybox_1_amd64.deb"}


def test_lists_are_fetched_again_when_a_file_is_gone(build, apt):
    apt.versions["busybox"] = "dropped"
    plain, calls = packages._apt, []

    def updated(*argv, cwd=None, suite=""):
        if "update" in argv:
            calls.append(argv)
            apt.versions["busybox"] = "3"
            (apt.lists / "c_Packages").touch()
        return plain(*argv, cwd=cwd, suite=suite)

    packages._apt = updated                 # monkeypatch puts the first back
    tree = packages.unpack(["busybox"], build / "guest-programs", False)
    assert len(calls) == 1 and (tree / "busybox_3_amd64.deb").exists()


def test_a_digest_knows_which_folder_a_file_is_in(tmp_path, monkeypatch):
    monkeypatch.setattr(image, "TOP", tmp_path)
    for folder in ("mtsi", "modules"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bwe.h").write_text("the same")
    assert image.digest([tmp_path / "mtsi/bwe.h"]) != image.digest([tmp_path / "modules/bwe.h"])


def test_a_build_is_keyed_by_compiler_and_flags(monkeypatch, tmp_path):
    kdir = tmp_path / "headers/usr/src/linux"
    kdir.mkdir(parents=True)
    (kdir / ".kernelvariables").write_text("override ARCH = x86\nCC = $(CROSS_COMPILE)gcc-12\n")
    assert image.kernel_compiler(kdir) == "gcc-12"
    source = [paths.TOP / "Kbuild"]
    asked = []

    def version(compiler="gcc"):
        asked.append(compiler)
        return (f"{compiler} 12.2",)

    monkeypatch.setattr(image, "toolchain", version)
    first = image.module_key(kdir, source)
    assert first == image.module_key(kdir, source) and asked[-1] == "gcc-12"
    keys = {first, image.module_key(kdir, source, "more"),
            image.module_key(kdir, [paths.TOP / "Makefile"])}
    monkeypatch.setattr(image, "MODULE_OPTIONS", ["CONFIG_OTHER=y"])
    keys.add(image.module_key(kdir, source))
    monkeypatch.setattr(image, "toolchain", lambda compiler="gcc": ("gcc 13",))
    keys.add(image.module_key(kdir, source))
    (tmp_path / "headers" / packages.MANIFEST).write_text("another version")
    keys.add(image.module_key(kdir, source))
    assert len(keys) == 6


def test_a_callers_flags_are_not_built_in(monkeypatch):
    monkeypatch.setenv("KCFLAGS", "-O0")
    monkeypatch.setenv("CC", "tcc")
    monkeypatch.setenv("KEPT", "yes")
    environment = image._run("env", ["env"])
    assert "KEPT=yes" in environment and "KCFLAGS" not in environment and "CC=" not in environment
