# SPDX-License-Identifier: GPL-2.0
"""QEMU in virtual time: boot once, keep the machine's state, run every experiment from it.

With `-icount shift=0,sleep=off` one guest instruction is one nanosecond of virtual time
and idle time is skipped.  Two things make a run a function of its inputs alone:

- `rr=record`.  Without it the emulator's main loop may see the processor halted before the
  instructions up to the halt are accounted for, and then skips too far, by less than a
  microsecond, once in some thousand halts.  Recording makes the two threads take turns.
  The recording itself is of no use here and goes to /dev/null.
- The state is saved while the guest sleeps: a watchdog that runs out in virtual time pauses
  the machine (guest/init).  Were the guest to pause it by an instruction of its own, the main
  loop might see a processor at rest before it takes note of the pause, and skip to the next
  timer: some milliseconds, or none, as the host schedules the two threads.  The watchdog is
  the timer that is skipped to.  It runs out in the main loop, which pauses the machine before
  the guest has another turn.

The emulator's threads only ever take turns, so they run on one host processor: handing over
to a thread on another one costs more than the guest code in between (45 virtual seconds of
a 2 Mbit/s flow: 3.5 s of wall time on one processor, 7.0 s on two).
"""

import contextlib
import datetime
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

from ..errors import LabError
from ..paths import BUILD, scratch_prefix
from .image import Image

QEMU = "qemu-system-x86_64"
MEMORY_MB = 512
EXTRAS_MEMORY_MB = 1024     # 230 MB of programs in the file system, twice while it is unpacked
KEPT_STATES = 8
SILENCE_S = 600             # virtual; no console line for so long: the guest is stuck
LOOK_S = 0.02               # between two looks at a running machine; no result depends on it
LOOKS_PER_QUESTION = 25     # of a silent machine
STILL_ANSWERS = 20          # so many answers in a row with the same time: the emulator is stuck

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
    text = _tool(QEMU, "--version")
    return re.search(r"version (\S+.*)", text)[1]


# What QEMU loads to boot such a machine: the BIOS, which is a package of its own, and two of its own.
FIRMWARE = ("bios-256k.bin", "linuxboot_dma.bin", "kvmvapic.bin")


@cache
def emulator() -> list[str]:
    """QEMU's version and a hash of each firmware file that it would load: its folders are searched in
    its order."""
    folders = [Path(line) for line in _tool(QEMU, "-L", "help").split()]
    loaded = []
    for name in FIRMWARE:
        firmware = next((folder / name for folder in folders if (folder / name).exists()), None)
        if not firmware:
            raise LabError(f"{QEMU} has no {name} (Debian: seabios, qemu-system-data)")
        loaded.append(f"{name} {hashlib.sha256(firmware.read_bytes()).hexdigest()}")
    return [qemu_version(), *loaded]


def memory_mb(image: Image) -> int:
    return EXTRAS_MEMORY_MB if image.extras else MEMORY_MB


def settings(image: Image, recorded: bool = True) -> list[str]:
    """The part of the emulator's command line that a run's packets depend on.

    recorded: False for gdb, which cannot step past an interrupt while the emulator records.
    """
    record = ",rr=record,rrfile=/dev/null" if recorded else ""
    return [
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
        "-machine", "pc,vmport=off,hpet=off,usb=off,graphics=off", "-cpu", "qemu64",
        "-accel", "tcg,thread=single",
        "-icount", f"shift=0,sleep=off{record}", "-smp", "1",
        "-m", str(memory_mb(image)), "-rtc", "base=2020-01-01T00:00:00,clock=vm", "-seed", "1",
        "-append", " ".join(KERNEL_ARGUMENTS),
        "-device", "ib700", "-action", "watchdog=pause",
        "-device", "virtio-serial-pci",
    ]


def _tool(*command: str) -> str:
    """Run one of the emulator's programs and return its output."""
    try:
        return subprocess.run(command, text=True, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise LabError(f"{command[0]} is not installed (Debian: qemu-system-x86 and qemu-utils)"
                       ) from None
    except subprocess.CalledProcessError as error:
        raise LabError(f"{command[0]} failed: {error.stderr.strip()}") from None


def _command(image: Image, console: Path, scratch: Path, monitor: int, extra: list,
             recorded: bool) -> list[str]:
    return [
        QEMU, *settings(image, recorded), "-kernel", str(image.vmlinuz), "-initrd", str(image.initramfs),
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
    """The machine's QMP socket: answers in the order of the commands, events at any time."""

    def __init__(self, connected: socket.socket):
        self._socket = connected
        self._received = b""
        self._sent = 0
        self.answers = {}           # by a command's number; the greeting has none
        self.events = set()         # names of those that have come
        self.ended = False          # the emulator has closed its end
        self._await(None, "start")
        self("qmp_capabilities")

    def send(self, command: str, **arguments) -> int:
        """Send a command without waiting, and return the number that the answer will have."""
        self._sent += 1
        message = {"execute": command, "arguments": arguments, "id": self._sent}
        try:
            self._socket.settimeout(None)
            self._socket.sendall(json.dumps(message).encode())
        except (BrokenPipeError, ConnectionResetError):
            self.ended = True
        return self._sent

    def look(self):
        """Read the messages that have arrived, or arrive within LOOK_S."""
        if self.ended:
            time.sleep(LOOK_S)
            return
        self._socket.settimeout(LOOK_S)
        try:
            received = self._socket.recv(1 << 16)
        except TimeoutError:
            return
        except ConnectionResetError:
            received = b""
        self.ended = not received
        *lines, self._received = (self._received + received).split(b"\n")
        for message in map(json.loads, lines):
            if "event" in message:
                self.events.add(message["event"])
            else:
                self.answers[message.get("id")] = message

    def _await(self, number: int | None, command: str) -> dict:
        """Wait as long as the emulator lives: on a busy host it may not run for minutes."""
        while number not in self.answers:
            if interrupted.is_set():
                raise LabError("interrupted")
            if self.ended:
                raise LabError(f"the emulator ended during the command {command}")
            self.look()
        return self.answers.pop(number)

    def __call__(self, command: str, **arguments):
        answer = self._await(self.send(command, **arguments), command)
        if "error" in answer:
            raise LabError(f"the emulator refused {command}: {answer['error']['desc']}")
        return answer["return"]

    def close(self):
        self._socket.close()


class Silence:
    """The guest prints nothing: does its time go on, and how much of it has passed?

    Asked is the emulator's own time: instructions executed, and the guest's hardware clock, which
    counts idle time too.  To answer changes nothing that a guest can see.  An emulator that the
    host has stopped, or gives few turns, answers late or not at all, and is waited for.
    """

    def __init__(self, monitor: Monitor):
        self._monitor = monitor
        self._looks = 0
        self._asked = ()
        self._first = self._last = None
        self._repeated = 0

    def look(self):
        """Read the monitor, and ask it now and then.  Raises LabError if the guest is stuck."""
        if not self._asked:
            self._looks += 1
            if self._looks % LOOKS_PER_QUESTION == 0:
                self._asked = (self._monitor.send("query-replay"),
                               self._monitor.send("qom-get", path="/machine", property="rtc-time"))
        self._monitor.look()
        if self._asked and all(number in self._monitor.answers for number in self._asked):
            replay, clock = (self._monitor.answers.pop(number)["return"] for number in self._asked)
            self._asked = ()
            self._judge(replay["icount"], datetime.datetime(
                1900 + clock["tm_year"], 1 + clock["tm_mon"], clock["tm_mday"],
                clock["tm_hour"], clock["tm_min"], clock["tm_sec"]))

    def _judge(self, instructions: int, clock: datetime.datetime):
        self._first = self._first or clock
        if (clock - self._first).total_seconds() > SILENCE_S:
            raise LabError(f"the guest printed nothing for {SILENCE_S} s of virtual time")
        now = instructions, clock
        self._repeated = self._repeated + 1 if now == self._last else 0
        self._last = now
        if self._repeated >= STILL_ANSWERS:
            raise LabError("the guest's time stands still")


class Machine(contextlib.AbstractContextManager):
    """One QEMU process with its files in a scratch folder; gone, both, when the block is left."""

    def __init__(self, image: Image, console: Path, state: Path | None = None, extra: list = (),
                 recorded: bool = True):
        with contextlib.ExitStack() as stack:
            (BUILD / "lab").mkdir(parents=True, exist_ok=True)
            self.scratch = Path(tempfile.mkdtemp(prefix=scratch_prefix("machine"), dir=BUILD / "lab"))
            stack.callback(shutil.rmtree, self.scratch, ignore_errors=True)
            self.state = self.scratch / "state.qcow2"
            self.results = self.scratch / "results.tar"
            self._errors = self.scratch / "errors"
            self.console = console
            self.memory_mb = memory_mb(image)
            self.may_be_held = False        # by gdb: its time then stands still
            console.parent.mkdir(parents=True, exist_ok=True)
            console.write_bytes(b"")
            if state:
                shutil.copyfile(state, self.state)
            else:
                _tool("qemu-img", "create", "-q", "-f", "qcow2", str(self.state), "1M")
            cpu = stack.enter_context(_own_cpu())
            ours, theirs = socket.socketpair()
            with theirs:
                command = _command(image, console, self.scratch, theirs.fileno(), list(extra),
                                   recorded)
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
        """The failure that the console shows, or ''.  An unfinished line is still being written."""
        text = self.console_text()
        for pattern in (r"satcc: failed: .*", r"Kernel panic - .*", r"(?:BUG|Oops|WARNING): .*"):
            if match := re.search(pattern + r"\n", text):
                return match[0].strip()
        return ""

    def wait(self, done, on_progress=None):
        """Wait until done() is true.  Raises LabError if the guest fails, ends or is stuck."""
        seen = -1
        while not done():
            if interrupted.is_set():
                raise LabError("interrupted")
            size = self.console.stat().st_size
            if size != seen:
                seen, silence = size, Silence(self.monitor)
                if failure := self.failure():
                    raise LabError(failure)
                if on_progress:
                    on_progress(self.console_text())
            if self.process.poll() is not None:
                if done():
                    return
                raise LabError(self.failure() or self.emulator_said() or "the guest ended early")
            if self.may_be_held:
                self.monitor.look()
            else:
                silence.look()

    def wait_until_booted(self):
        """Wait until the machine is paused, which is when its state is saved (guest/init)."""
        self.wait(lambda: "STOP" in self.monitor.events)
        if failure := self.failure():
            raise LabError(failure)

    def fingerprint(self) -> str:
        """Hash of a paused machine: its memory and the state of its processor and devices."""
        memory, devices = self.scratch / "memory", self.scratch / "devices"
        self.monitor("pmemsave", val=0, size=self.memory_mb << 20, filename=str(memory))
        self.monitor("xen-save-devices-state", filename=str(devices), live=False)
        # Two things differ and are no part of the guest: the host's clocks, which icount does not use,
        # and how much has been written to the recording.
        state, clocks = re.subn(rb"(\x05timer.{8}).{24}", rb"\1", devices.read_bytes(), flags=re.S)
        state, recorder = re.subn(rb"\x04(.{4})\x06replay.*?\x7e\1", b"", state, flags=re.S)
        assert clocks == recorder == 1
        total = hashlib.sha256(state)
        with memory.open("rb") as contents:
            while block := contents.read(1 << 20):
                total.update(block)
        memory.unlink()
        return total.hexdigest()


def _prepare_child(cpu: int):
    """Called between fork and exec: bind to one processor, and die with the parent process."""
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)      # PR_SET_PDEATHSIG
    os.sched_setaffinity(0, {cpu})


@contextlib.contextmanager
def _own_cpu():
    """A host processor that no other machine of this checkout uses, if there is one."""
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
    recorded: bool = True


def snapshot(image: Image, recorded: bool = True) -> Snapshot:
    """Boot an image and save it; later calls find what the first one made.  recorded: settings()'."""
    made_of = "\n".join([image.identity, *emulator(), *settings(image, recorded)])
    key = f"{image.release}-{hashlib.sha256(made_of.encode()).hexdigest()[:16]}"
    folder = BUILD / "lab" / key
    state, about = folder / "state.qcow2", folder / "about.json"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not about.exists():
            began = time.monotonic()
            _boot(image, folder / "console.log", state, recorded)
            partial = about.with_suffix(".part")
            partial.write_text(json.dumps({"boot_wall_s": time.monotonic() - began}))
            partial.rename(about)
            _forget_old(folder.parent)
    os.utime(folder)
    return Snapshot(image, state, json.loads(about.read_text())["boot_wall_s"], recorded)


def _forget_old(folder: Path) -> None:
    """Remove old states, 200 MB each (every build of a module makes one), and keep those used last."""
    def last_used_first(paths):
        return sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)

    states = [path.parent for path in folder.glob("*/about.json")]
    for state in last_used_first(states)[KEPT_STATES:]:
        shutil.rmtree(state)
    for initramfs in last_used_first(folder.glob("initramfs-*.cpio"))[KEPT_STATES:]:
        initramfs.unlink()


def _boot(image: Image, console: Path, state: Path, recorded: bool = True) -> None:
    free = shutil.disk_usage(state.parent).free
    needed = 2 * memory_mb(image)
    if free < needed << 20:
        raise LabError(f"{state.parent} has {free >> 20} MB free; a machine state needs {needed}")
    with Machine(image, console, recorded=recorded) as machine:
        try:
            machine.wait_until_booted()
            answer = machine.monitor("human-monitor-command", **{"command-line": "savevm ready"})
            if answer.strip():
                raise LabError(f"the machine's state could not be saved: {answer.strip()}")
            machine.monitor("quit")
            machine.wait(lambda: machine.process.poll() is not None)
            partial = state.with_suffix(".part")
            shutil.copyfile(machine.state, partial)
            partial.rename(state)
        except LabError as error:
            raise LabError(f"boot of {image.release}: {error}; console: {console}") from None


@dataclass(frozen=True)
class Outcome:
    """The files and times of a finished job."""

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
        raise LabError("the guest's results are truncated")
    try:
        with tarfile.open(fileobj=io.BytesIO(blob)) as tar:
            return {member.name.removeprefix("./"): tar.extractfile(member).read()
                    for member in tar if member.isfile()}
    except tarfile.TarError as error:
        raise LabError(f"the guest's results cannot be read: {error}") from None


def run_job(snap: Snapshot, files: dict[str, bytes], console: Path, on_progress=None,
            stub=None) -> Outcome:
    """Restore the machine, hand it a job and wait for its end.

    files: what the guest finds in its working directory; `run` is the shell script started.
    console: where the console log goes; it stays, whatever happens.
    on_progress: called with the console's text whenever it has grown.
    stub: a debug.Stub; the guest waits for gdb, and may be silent for as long as gdb holds it.
    Returns the files the job left in /run/out.  A non-zero end of the script, a panic, an
    oops, a stall or results cut short are a LabError that names the console log.
    """
    with tempfile.NamedTemporaryFile(prefix=scratch_prefix("satcc-job")) as job:
        job.write(_pack(files))
        job.flush()
        began = time.monotonic()
        extra = ["-fw_cfg", f"name=opt/satcc/job,file={job.name}",
                 "-loadvm", "ready", *(stub.arguments() if stub else [])]
        with Machine(snap.image, console, snap.state, extra, snap.recorded) as machine:
            machine.may_be_held = bool(stub)
            try:
                machine.wait(lambda: "satcc: started" in machine.console_text())
                started = time.monotonic()
                marks = {}

                def heard(text):
                    for mark in ("satcc: flows", "satcc: collecting"):
                        if mark in text:
                            marks.setdefault(mark, time.monotonic())
                    if on_progress:
                        on_progress(text)

                machine.wait(lambda: machine.process.poll() is not None, heard)
                if failure := machine.failure():
                    raise LabError(failure)
                if machine.process.returncode:
                    raise LabError(f"the emulator ended with status {machine.process.returncode}: "
                                   f"{machine.emulator_said() or 'it said nothing'}")
                results = _unpack(machine.results)
                status = results.pop("status", b"?").decode().strip()
                if status != "0":
                    raise LabError(f"the guest's script ended with status {status}: "
                                   f"{_last_words(machine.console_text())}")
                flows = (marks.get("satcc: collecting", 0) - marks["satcc: flows"]
                         if len(marks) == 2 else 0)
                return Outcome(results, started - began, time.monotonic() - started, flows)
            except LabError as error:
                failed = LabError(f"{error}; console: {console}")
                failed.files = _left(machine.results)
                raise failed from None


def _left(results: Path) -> dict[str, bytes]:
    """The files of a failed job, as far as they can be read."""
    try:
        return _unpack(results)
    except (LabError, OSError):
        return {}


def _last_words(console: str) -> str:
    lines = console.split("satcc: ended")[0].strip().splitlines()
    return lines[-1].strip() if lines else "it printed nothing"
