# SPDX-License-Identifier: GPL-2.0
"""QEMU in virtual time: boot once, keep the machine's state, run every experiment from it.

With `-icount shift=0,sleep=off` one guest instruction is one nanosecond of virtual time
and idle time is skipped.  Two things make a run a function of its inputs alone:

- `rr=record`.  Without it the emulator's main loop may see the processor halted before the
  instructions up to the halt are accounted for, and then skips too far, by less than a
  microsecond, once in some thousand halts.  Recording makes the two threads take turns.
  The recording itself is of no use here and goes to /dev/null.
- The guest pauses itself between two instructions (guest/init), so the saved state does
  not depend on when the host looked.

The emulator's threads only ever take turns, so they run on one host processor: handing over
to a thread on another one costs more than the guest code in between (45 virtual seconds of
a 2 Mbit/s flow: 3.5 s of wall time on one processor, 7.0 s on two).
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .errors import LabError
from .image import Image
from .paths import BUILD

QEMU = "qemu-system-x86_64"
MEMORY_MB = 512
EXTRAS_MEMORY_MB = 1024     # 230 MB of programs in the file system, twice while it is unpacked
BOOT_WALL_S = 240           # a boot takes 5 s on an idle machine
KEPT_STATES = 8
STALL_WALL_S = 120          # no console line for so long: the guest is stuck

# norandmaps: TCG keeps its translations when programs load where they did before.
# tsc: the emulator does not promise a steady TSC, but with icount it counts virtual time.
# mitigations, audit: code of no effect on TCP that each packet would pay for.
KERNEL_ARGUMENTS = """
console=ttyS0 quiet loglevel=4 panic=-1 oops=panic panic_on_warn=1 nokaslr norandmaps
mitigations=off audit=0 apparmor=0 selinux=0 tsc=reliable clocksource=tsc nowatchdog random.trust_cpu=off
random.trust_bootloader=off rdinit=/init
""".split()


@cache
def qemu_version() -> str:
    """The emulator's version: it is part of a run's identity."""
    said = _tool(QEMU, "--version")
    return re.search(r"version (\S+.*)", said)[1]


def memory_mb(image: Image) -> int:
    return EXTRAS_MEMORY_MB if image.extras else MEMORY_MB


def settings(image: Image) -> list[str]:
    """The part of the emulator's command line that a run's packets depend on."""
    return [
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
        "-machine", "pc,vmport=off,hpet=off,usb=off,graphics=off", "-cpu", "qemu64",
        "-accel", "tcg,thread=single",
        "-icount", "shift=0,sleep=off,rr=record,rrfile=/dev/null", "-smp", "1",
        "-m", str(memory_mb(image)), "-rtc", "base=2020-01-01T00:00:00,clock=vm", "-seed", "1",
        "-append", " ".join(KERNEL_ARGUMENTS),
        "-device", "pvpanic", "-action", "panic=pause",
        "-device", "virtio-serial-pci",
    ]


def _tool(*command: str) -> str:
    """Run one of the emulator's programs; its output."""
    try:
        return subprocess.run(command, text=True, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise LabError(f"{command[0]} is not installed (Debian: qemu-system-x86 and qemu-utils)"
                       ) from None
    except subprocess.CalledProcessError as error:
        raise LabError(f"{command[0]} failed: {error.stderr.strip()}") from None


def _command(image: Image, console: Path, scratch: Path, monitor: int, extra: list) -> list[str]:
    return [
        QEMU, *settings(image), "-kernel", str(image.vmlinuz), "-initrd", str(image.initramfs),
        "-serial", f"file:{console}",
        "-chardev", f"file,id=results,path={scratch}/results.tar",
        "-device", "virtserialport,chardev=results,name=satcc.results",
        # The disk is none the guest uses: the emulator keeps machine states in it.
        "-drive", f"file={scratch}/state.qcow2,if=none,id=state",
        "-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control",
        *extra,
    ]


# Set to have every wait() of this process give up: threads do not see Ctrl-C.
interrupted = threading.Event()


class Monitor:
    """The machine's QMP socket: one command at a time, events passed over."""

    def __init__(self, connected: socket.socket):
        self._socket = connected
        self._socket.settimeout(60)
        self._file = self._socket.makefile("r")
        if not self._file.readline():
            raise LabError("the emulator did not start")
        self("qmp_capabilities")

    def __call__(self, command: str, **arguments):
        self._socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        while True:
            line = self._file.readline()
            if not line:
                raise LabError(f"the emulator ended while it was asked to {command}")
            answer = json.loads(line)
            if "error" in answer:
                raise LabError(f"the emulator refused {command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def close(self):
        self._file.close()
        self._socket.close()


class Machine(contextlib.AbstractContextManager):
    """One QEMU process with its files in a scratch folder; gone, both, when the block is left."""

    def __init__(self, image: Image, console: Path, state: Path | None = None, extra: list = ()):
        with contextlib.ExitStack() as stack:
            (BUILD / "lab").mkdir(parents=True, exist_ok=True)
            self.scratch = Path(tempfile.mkdtemp(prefix=f"machine-{os.getpid()}-", dir=BUILD / "lab"))
            stack.callback(shutil.rmtree, self.scratch, ignore_errors=True)
            self.state = self.scratch / "state.qcow2"
            self.results = self.scratch / "results.tar"
            self._errors = self.scratch / "errors"
            self.console = console
            console.parent.mkdir(parents=True, exist_ok=True)
            console.write_bytes(b"")
            if state:
                shutil.copyfile(state, self.state)
            else:
                _tool("qemu-img", "create", "-q", "-f", "qcow2", str(self.state), "1M")
            cpu = stack.enter_context(_own_cpu())
            ours, theirs = socket.socketpair()
            with theirs:
                command = _command(image, console, self.scratch, theirs.fileno(), list(extra))
                try:
                    self.process = subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                        stderr=self._errors.open("w"), start_new_session=True,
                        pass_fds=[theirs.fileno()], preexec_fn=lambda: _prepare_child(cpu))
                except FileNotFoundError:
                    raise LabError(f"{QEMU} is not installed (Debian: qemu-system-x86)") from None
            stack.callback(self._end_process)
            try:
                self.monitor = Monitor(ours)
            except (LabError, OSError):
                raise LabError(f"the emulator did not start: {self.emulator_said()}") from None
            stack.callback(self.monitor.close)
            self._stack = stack.pop_all()

    def __exit__(self, *_):
        self._stack.close()

    def _end_process(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def emulator_said(self) -> str:
        lines = [line for line in self._errors.read_text().splitlines()
                 if "TCG doesn't support" not in line]
        return lines[-1] if lines else ""

    def console_text(self) -> str:
        return self.console.read_text(errors="replace")

    def failure(self) -> str:
        """What the console says went wrong, or ''.  A line that has not ended is still being written."""
        text = self.console_text()
        for pattern in (r"satcc: failed: .*", r"Kernel panic - .*", r"(?:BUG|Oops|WARNING): .*"):
            if match := re.search(pattern + r"\n", text):
                return match[0].strip()
        return ""

    def wait(self, done, wall_s: float, on_progress=None):
        """Poll until done() is true; a LabError when the guest fails, ends or stands still."""
        seen, since = -1, time.monotonic()
        while not done():
            if interrupted.is_set():
                raise LabError("interrupted")
            size = self.console.stat().st_size
            if size != seen:
                seen, since = size, time.monotonic()
                if failure := self.failure():
                    raise LabError(failure)
                if on_progress:
                    on_progress(self.console_text())
            if self.process.poll() is not None:
                if done():
                    return
                raise LabError(self.failure() or self.emulator_said() or "the guest ended early")
            if time.monotonic() - since > wall_s:
                raise LabError(f"no sign of life from the guest for {wall_s:.0f} s")
            time.sleep(0.02)


def _prepare_child(cpu: int):
    """Between fork and exec: one processor, and no life beyond this process's."""
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)      # PR_SET_PDEATHSIG
    os.sched_setaffinity(0, {cpu})


@contextlib.contextmanager
def _own_cpu():
    """A host processor no other machine of this checkout runs on, while there is one."""
    folder = BUILD / "lab" / "cpu"
    folder.mkdir(parents=True, exist_ok=True)
    cpus = sorted(os.sched_getaffinity(0))
    for cpu in cpus:
        with (folder / str(cpu)).open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield cpu
            return
    yield cpus[os.getpid() % len(cpus)]


@dataclass(frozen=True)
class Snapshot:
    """The saved state of a machine that is ready to take a job."""

    image: Image
    state: Path
    boot_wall_s: float


def snapshot(image: Image) -> Snapshot:
    """Boot an image and save it; later calls find what the first one made."""
    made_of = "\n".join([image.identity, qemu_version(), *settings(image)])
    key = f"{image.release}-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
    folder = BUILD / "lab" / key
    state, about = folder / "state.qcow2", folder / "about.json"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not about.exists():
            began = time.monotonic()
            _boot(image, folder / "console.log", state)
            partial = about.with_suffix(".part")
            partial.write_text(json.dumps({"boot_wall_s": time.monotonic() - began}))
            partial.rename(about)
            _forget_old(folder.parent)
    os.utime(folder)
    return Snapshot(image, state, json.loads(about.read_text())["boot_wall_s"])


def _forget_old(folder: Path) -> None:
    """Each build of a module makes an image and a state, 200 MB: keep those used last."""
    def last_used_first(paths):
        return sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)

    states = [path.parent for path in folder.glob("*/about.json")]
    for state in last_used_first(states)[KEPT_STATES:]:
        shutil.rmtree(state)
    for initramfs in last_used_first(folder.glob("initramfs-*.cpio"))[KEPT_STATES:]:
        initramfs.unlink()


def _boot(image: Image, console: Path, state: Path) -> None:
    free = shutil.disk_usage(state.parent).free
    needed = 2 * memory_mb(image)
    if free < needed << 20:
        raise LabError(f"{state.parent} has {free >> 20} MB free; a machine state needs {needed}")
    with Machine(image, console) as machine:
        try:
            machine.wait(lambda: machine.monitor("query-status")["status"] == "guest-panicked",
                         BOOT_WALL_S)
            if failure := machine.failure():
                raise LabError(failure)
            said = machine.monitor("human-monitor-command", **{"command-line": "savevm ready"})
            if said.strip():
                raise LabError(f"the machine's state could not be saved: {said.strip()}")
            machine.monitor("quit")
            machine.process.wait(30)
            partial = state.with_suffix(".part")
            shutil.copyfile(machine.state, partial)
            partial.rename(state)
        except LabError as error:
            raise LabError(f"boot of {image.release}: {error}; console: {console}") from None


@dataclass(frozen=True)
class Outcome:
    """What a job left behind."""

    files: dict[str, bytes]
    restore_wall_s: float           # process start to the job's first line
    job_wall_s: float               # from there to the machine's end
    flows_wall_s: float             # the part with traffic: first SYN to the last flow's end


def _pack(files: dict[str, bytes]) -> bytes:
    """A tar stream that is a function of names and contents."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(files[name]), 0o755
            tar.addfile(info, io.BytesIO(files[name]))
    return stream.getvalue()


def _unpack(path: Path) -> dict[str, bytes]:
    blob = path.read_bytes()
    # Two zero blocks end an archive: without them it was cut short.
    if len(blob) < 1024 or blob[-1024:].strip(b"\0"):
        raise LabError("the guest's results are cut short")
    try:
        with tarfile.open(fileobj=io.BytesIO(blob)) as tar:
            return {member.name.removeprefix("./"): tar.extractfile(member).read()
                    for member in tar if member.isfile()}
    except tarfile.TarError as error:
        raise LabError(f"the guest's results cannot be read: {error}") from None


def run_job(snap: Snapshot, files: dict[str, bytes], console: Path, on_progress=None) -> Outcome:
    """Restore the machine, hand it a job and wait for its end.

    files: what the guest finds in its working directory; `run` is the shell script started.
    console: where the console log goes; it stays, whatever happens.
    on_progress: called with the console's text whenever it has grown.
    Returns the files the job left in /run/out.  A non-zero end of the script, a panic, an
    oops, a stall or results cut short are a LabError that names the console log.
    """
    with tempfile.NamedTemporaryFile(prefix="satcc-job-") as job:
        job.write(_pack(files))
        job.flush()
        began = time.monotonic()
        extra = ["-fw_cfg", f"name=opt/satcc/job,file={job.name}",
                 "-loadvm", "ready"]
        with Machine(snap.image, console, snap.state, extra) as machine:
            try:
                machine.wait(lambda: "satcc: started" in machine.console_text(), STALL_WALL_S)
                started = time.monotonic()
                marks = {}

                def heard(text):
                    for mark in ("satcc: flows", "satcc: collecting"):
                        if mark in text:
                            marks.setdefault(mark, time.monotonic())
                    if on_progress:
                        on_progress(text)

                machine.wait(lambda: machine.process.poll() is not None, STALL_WALL_S, heard)
                if failure := machine.failure():
                    raise LabError(failure)
                results = _unpack(machine.results)
                status = results.pop("status", b"?").decode().strip()
                if status != "0":
                    raise LabError(f"the guest's script ended with status {status}: "
                                   f"{_last_words(machine.console_text())}")
                flows = (marks.get("satcc: collecting", 0) - marks["satcc: flows"]
                         if len(marks) == 2 else 0)
                return Outcome(results, started - began, time.monotonic() - started, flows)
            except LabError as error:
                raise LabError(f"{error}; console: {console}") from None


def _last_words(console: str) -> str:
    lines = console.split("satcc: ended")[0].strip().splitlines()
    return lines[-1].strip() if lines else "it printed nothing"
