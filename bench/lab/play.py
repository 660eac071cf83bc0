# SPDX-License-Identifier: GPL-2.0
"""Play scenarios, check each run's files, and keep them under a hash of all the run's inputs.

run_all() plays many on all cores, with a progress bar.
"""

import fcntl
import hashlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

from rich.console import Console

from .. import progress
from ..errors import LabError, TraceFull
from ..paths import BUILD, TOP, remove_abandoned, scratch_prefix
from ..record.run import FORMAT, META, Run, traffic_hash
from ..scenario.scenario import Scenario
from . import debug, foreign, image, job, machine, pep, proof, repeat, satlink

# TCP options that both ends must allow: name, bit in TCP_INFO's options, sysctl.  The sysctls are on
# unless a scenario turns them off.
NEGOTIATED = (("SACK", 2, "net.ipv4.tcp_sack"), ("timestamps", 1, "net.ipv4.tcp_timestamps"),
              ("window scale", 4, "net.ipv4.tcp_window_scaling"))


def _check_options(scenario: Scenario, number: int, result: dict) -> None:
    """Raise LabError if a flow's TCP options differ from what the hosts' sysctls allow.

    It checks only flows whose tool reports the options.
    """
    flow = scenario.flows[number]
    if "options" not in result:
        return
    ends = (flow.source, scenario.peer(flow))
    on = [job.sysctls(scenario, end) for end in ends]
    for name, bit, sysctl in NEGOTIATED:
        expected = all(settings.get(sysctl, "1") != "0" for settings in on)
        seen = bool(result["options"] & bit)
        if seen != expected:
            words = {True: "on", False: "off"}
            raise LabError(f"flow {number}: option {name}: expected {words[expected]} between {ends[0]} "
                           f"and {ends[1]}, seen {words[seen]}")


def check(scenario: Scenario, files: dict[str, bytes], may_miss: bool = False) -> None:
    """Raise LabError unless all requested files exist and no packet or record was lost.

    may_miss: accept a run in which satcc_log missed records; the oracle does not check such a run.
    """
    if scenario.trace:
        stats = dict(line.split(": ", 1) for line in files["trace.stats"].decode().splitlines())
        # entries: events that are still in the buffer after it was read.
        for name in ("overrun", "commit overrun", "dropped events", "entries"):
            if int(stats[name]):
                raise TraceFull(f"the kernel dropped trace events ({name}: {stats[name]})")
    if job.witnessed(scenario) and int(files["witness.lost"]) and not may_miss:
        raise LabError(f"satcc_log missed {files['witness.lost'].decode().strip()} records")
    if scenario.capture:
        for name in scenario.captures:
            summary = files.get(f"{name}.tcpdump", b"0 packets dropped by kernel").decode()
            if "\n0 packets dropped by kernel" not in "\n" + summary:
                raise LabError(f"the capture {name} lost packets")
    proof.check(scenario, files)
    pep.check(scenario, files)
    satlink.check_results(scenario, files)
    for number, flow in enumerate(scenario.flows):
        try:
            result = json.loads(files[f"flow-{number}.json"])
        except (KeyError, ValueError):
            raise LabError(f"flow {number} left no result") from None
        if flow.tool == "udp":
            if "error" in result:
                raise LabError(f"flow {number}: {result['error']}")
            continue
        used = result.get("cc") or result.get("end", {}).get("sender_tcp_congestion")
        if used != flow.names[-1]:
            raise LabError(f"flow {number} ended with {used}, not with {flow.names[-1]}")
        _check_options(scenario, number, result)


def _checked(scenario: Scenario, files: dict[str, bytes], may_miss: bool) -> None:
    """Call check(), and attach the run's files to its error."""
    try:
        check(scenario, files, may_miss)
    except LabError as error:
        error.files = files
        raise


def _digests(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def why_unusable(scenario: Scenario, folder: Path, meta: dict, may_miss: bool) -> str | None:
    """Why a kept run cannot be used, or None if it can: a file has changed, or check() refuses it."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != META}
    now = _digests(files)
    for name, digest in meta.get("files", {"files": ""}).items():
        if now.get(name) != digest:
            return f"{name} {'has changed since the run' if name in now else 'is missing'}"
    if traffic_hash(files) != meta["hash"]:
        return "the stored hash differs from that of the captures and the trace"
    try:
        check(scenario, files, may_miss)
    except LabError as error:
        return str(error)
    return None


def _clear_up() -> None:
    """Remove the scratch folders of killed processes."""
    for what in ("machine", "image"):
        remove_abandoned(BUILD / "lab", what)
    remove_abandoned(Path(tempfile.gettempdir()), "satcc-job")
    for folder in (BUILD / "runs").glob("*"):
        remove_abandoned(folder, "part")


class Lab:
    """A booted and saved guest that plays scenarios.

    kernel: its series, such as "6.1".
    extras: as for image.build().
    prebuilt: an image, in place of kernel and extras.
    added: a user's congestion controls; a run loads those that its scenario uses.
    """

    added: tuple[foreign.Foreign, ...] = ()

    def __init__(self, kernel: str = "6.1", extras: tuple[str, ...] = (),
                 prebuilt: image.Image | None = None, added: tuple[foreign.Foreign, ...] = ()):
        _clear_up()
        self.added = added
        self.image = prebuilt or image.build(kernel, extras=extras)
        self.snapshot = machine.snapshot(self.image)

    def identity(self, scenario: Scenario, extra: dict[str, bytes], first: Iterable[str] = (),
                 recorded: bool = True) -> str:
        """Hash of all inputs that a run's packets depend on."""
        return self._identity(self.job(scenario, extra, first), recorded)

    def _identity(self, files: dict[str, bytes], recorded: bool) -> str:
        total = hashlib.sha256(json.dumps([
            FORMAT, self.image.identity, machine.emulator(),
            machine.settings(self.image, recorded)]).encode())
        for name in sorted(files):
            total.update(name.encode() + b"\0" + hashlib.sha256(files[name]).digest())
        return total.hexdigest()

    def job(self, scenario: Scenario, extra: dict[str, bytes], first: Iterable[str] = ()
            ) -> dict[str, bytes]:
        """The files for the guest's working directory; the arguments are run()'s."""
        loaded = foreign.used(scenario, self.added)
        files = job.files(scenario, first=[*foreign.lines(loaded), *first], release=self.image.release,
                          saved=True)
        return {**files, **foreign.files(loaded), **extra}

    @staticmethod
    def _kept(scenario: Scenario, folder: Path, may_miss: bool) -> Run | None:
        """The run in a folder, if it is complete and check() accepts it."""
        try:
            meta = json.loads((folder / META).read_text())
            reason = why_unusable(scenario, folder, meta, may_miss)
        except FileNotFoundError:
            return None
        except ValueError:
            reason = f"{META} cannot be read"
        if reason:
            print(f"bench: {folder.relative_to(TOP)}: {reason}; playing it again", file=sys.stderr)
            return None
        os.utime(folder)            # prune.py removes the oldest first
        return Run(scenario, folder, meta, True)

    def _state(self, stub: debug.Stub | None) -> machine.Snapshot:
        return machine.snapshot(self.image, recorded=False) if stub else self.snapshot

    def run(self, scenario: Scenario, extra: dict[str, bytes] | None = None, *,
            first: Iterable[str] = (), use_cache: bool = True, on_progress=None,
            stub: debug.Stub | None = None, may_miss: bool = False) -> Run:
        """Play a scenario, or return the kept run of it.  Raises LabError if the run fails.

        extra: more files for the guest's working directory.
        first: shell lines before the scenario's own, for example to load a policy.
        use_cache: False plays a scenario whose run is kept, too.
        on_progress: called now and then with the virtual time since the job's start, in seconds.
        stub: the guest waits for this gdb, and a kept run is not used.
        may_miss: as for check().
        """
        files = self.job(scenario, extra or {}, first)
        identity = self._identity(files, not stub)
        folder = BUILD / "runs" / identity[:2] / identity
        if use_cache and not stub and (kept := self._kept(scenario, folder, may_miss)):
            return kept
        console = BUILD / "log" / f"run-{identity[:16]}-{os.getpid()}-{time.monotonic_ns()}.log"

        def heard(text: str):
            at = [line for line in text.splitlines() if line.startswith("satcc: at ")]
            if on_progress and at and at[-1].split()[-1].isdigit():
                on_progress(int(at[-1].split()[-1]))

        try:
            outcome = machine.run_job(self._state(stub), files, console, heard, stub)
            _checked(scenario, outcome.files, may_miss)
        except LabError as error:
            if machine.interrupted.is_set():
                raise
            kept = repeat.keep_failed(identity, self.image, files, console, error)
            what = str(error).partition("; console: ")[0]
            raise type(error)(f"{what}; to repeat: python3 -m bench again {kept.relative_to(TOP)}; "
                              f"console: {console}") from None
        meta = {
            "scenario": scenario.as_dict(), "scenario_digest": scenario.digest(),
            "seed": scenario.seed, "kernel": outcome.files["kernel"].decode().strip(),
            "format": FORMAT, "image": self.image.identity, "extras": list(self.image.extras),
            "emulator": machine.qemu_version(), "machine": machine.emulator(),
            "modules": dict(line.split() for line in outcome.files["modules"].decode().splitlines()),
            "layouts": {cc: self.image.layouts[cc] for cc in job.witnessed(scenario)
                        if cc in self.image.layouts},
            "hash": traffic_hash(outcome.files), "identity": identity,
            "restore_wall_s": outcome.restore_wall_s, "job_wall_s": outcome.job_wall_s,
            "flows_wall_s": outcome.flows_wall_s,
        }
        if loaded := foreign.used(scenario, self.added):
            meta["foreign"] = {each.cc: {"file": each.path.name, "sha256": each.digest}
                               for each in loaded}
        files = {**outcome.files, "console.log": console.read_bytes()}
        meta["files"] = _digests(files)
        console.unlink()
        _keep(folder, files, meta)
        return Run(scenario, folder, meta, False)


def keep_job(lab: Lab, run: Run) -> Path:
    """Store a run's job and results for `bench again`, and return the folder."""
    results = {path.name: path.read_bytes() for path in run.folder.iterdir() if path.name != META}
    return repeat.keep(run.meta["identity"], lab.image, lab.job(run.scenario, {}), results)


def _keep(folder: Path, files: dict[str, bytes], meta: dict) -> None:
    """Store a run, whole or not at all: the folder gets its name when it is complete."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = scratch_prefix("part")
    with (folder.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix))
        try:
            for name, content in files.items():
                (scratch / name).write_bytes(content)
            (scratch / META).write_text(json.dumps(meta, indent=1, sort_keys=True))
            if folder.exists():         # somebody may be reading it, so rename it whole
                old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix))
                folder.rename(old)
                scratch.rename(folder)
                shutil.rmtree(old)
            else:
                scratch.rename(folder)
        except BaseException as error:
            shutil.rmtree(scratch, ignore_errors=True)
            if isinstance(error, OSError):
                raise LabError(f"the run could not be stored: {error}") from None
            raise


# ---- many runs --------------------------------------------------------------

class _Meter:
    """Shows the progress of the items.  Its unit is the wall seconds that the items should take."""

    def __init__(self, items, cores: int, shown: progress.Runs):
        self._items, self._cores, self._shown = items, cores, shown
        self._played_s = [0.0] * len(items)
        self._spared_s = 0.0            # the items that the cache had
        self._finished = 0
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._show()

    def _show(self) -> None:
        total = sum(item.expected_wall_s() for item in self._items)
        played = sum(self._played_s)
        rate = (played - self._spared_s) / (time.monotonic() - self._began) or self._cores
        self._shown.update(played, self._finished, len(self._items), (total - played) / rate)

    def is_at(self, number: int, virtual_s: float) -> None:
        item = self._items[number]
        part = min(1, virtual_s / item.expected_virtual_s())
        with self._lock:
            self._played_s[number] = part * item.expected_wall_s()
            self._show()

    def ended(self, number: int, from_cache: bool) -> None:
        with self._lock:
            self._played_s[number] = self._items[number].expected_wall_s()
            self._spared_s += self._played_s[number] * from_cache
            self._finished += 1
            self._show()


def run_all(lab: Lab, items, console: Console, use_cache: bool = True) -> list[Run]:
    """Play all items on all cores, the longest first.  Returns their runs in the items' order.

    items: each has scenario, files(release), expected_wall_s() and expected_virtual_s().
    After an error no further run begins, and run_all() raises it when those under way have ended.
    Ctrl-C ends those too.
    """
    cores = len(os.sched_getaffinity(0))
    runs = [None] * len(items)
    failed = threading.Event()

    def play(number: int) -> None:
        if failed.is_set():
            return
        item = items[number]
        try:
            runs[number] = lab.run(item.scenario, item.files(lab.image.release), use_cache=use_cache,
                                   on_progress=lambda virtual_s: meter.is_at(number, virtual_s))
        except BaseException:
            failed.set()
            raise

    order = sorted(range(len(items)), key=lambda number: -items[number].expected_wall_s())
    total = sum(item.expected_wall_s() for item in items)
    numbers = {}                # future -> number of its item
    with progress.shown(console, total) as shown:
        meter = _Meter(items, cores, shown)
        pool = ThreadPoolExecutor(cores)
        try:
            numbers |= {pool.submit(play, number): number for number in order}
            for future in _completed(numbers):
                future.result()         # raises the run's error
                if run := runs[numbers[future]]:
                    meter.ended(numbers[future], run.from_cache)
        except KeyboardInterrupt:
            machine.interrupted.set()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            _settle(numbers)
    return runs


# Python handles a signal that arrives just before a thread waits for a lock only when the wait ends.
_CTRL_C_WITHIN_S = 1


def _completed(futures):
    """Yield each future when it is done.  It handles Ctrl-C within _CTRL_C_WITHIN_S."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, _CTRL_C_WITHIN_S, FIRST_COMPLETED)
        yield from done


def _settle(futures) -> None:
    """Wait for the runs that have begun.  At Ctrl-C their threads end their guests and clean up.

    shutdown() would wait with Thread.join(), and a join() that Ctrl-C interrupts takes the thread for
    ended.
    """
    pending = {future for future in futures if not future.cancelled()}
    while pending:
        try:
            pending = wait(pending, _CTRL_C_WITHIN_S).not_done
        except KeyboardInterrupt:
            machine.interrupted.set()
