# SPDX-License-Identifier: GPL-2.0
"""QEMU in virtual time: boot once, save the machine's state, start every run from it.

With `-icount shift=0,sleep=off` one guest instruction takes one nanosecond of virtual time, and idle
time is skipped.  Two measures make a run depend on its inputs only:

- `rr=record`.  Without it the emulator's main loop may see the processor halted before it has counted
  the instructions up to the halt.  It then skips too far, by less than a microsecond, once in some
  thousand halts.  Recording makes the two threads take turns.  Nothing reads the recording: it goes to
  /dev/null.
- A watchdog saves the state while the guest sleeps: it expires in virtual time and pauses the machine
  (guest/init).  If the guest paused the machine by an instruction, the main loop might see the
  processor idle before it sees the pause, and skip to the next timer.  How the host schedules the two
  threads would then decide whether some milliseconds pass.  The watchdog is that next timer, and it
  expires in the main loop, which pauses the machine before the guest runs again.

The emulator's threads take turns, so they run on one host processor.  To hand over to a thread on
another processor costs more than the guest code in between: 45 virtual seconds of a 2 Mbit/s flow take
3.5 s of wall time on one processor and 7.0 s on two.  The threads have the policy SCHED_BATCH: a thread
that wakes the other then goes on until it has to wait, in place of being interrupted at once by a thread
that needs a lock it holds.  40 virtual seconds of a 10 Mbit/s flow take 9.3 s so, and 13.0 s without.
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
MEMORY, DEVICES = "memory", "devices.qcow2"         # the files of a saved state
MEMORY_APART = "x-ignore-shared"                    # the emulator's name for a state without the memory
MEMORY_MB = 512
EXTRAS_MEMORY_MB = 1024     # the file system has 230 MB of programs; unpacking needs that twice
KEPT_STATES = 8
SILENCE_S = 600             # virtual; a guest that prints nothing for this long is stuck
LOOK_S = 0.02               # between two reads of a running machine's monitor; no result depends on it
LOOKS_PER_QUESTION = 25     # reads of a silent machine's monitor between two questions about its time
STILL_ANSWERS = 20          # after this many equal answers in a row the emulator is stuck

# norandmaps: TCG reuses its translations of a program only at the same addresses.
# tsc: the emulator does not promise a steady TSC, but with icount it counts virtual time.
# mitigations, audit: these slow down each packet and do not change TCP.
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


# The firmware QEMU loads for this machine: the BIOS, from another package, and two files of its own.
FIRMWARE = ("bios-256k.bin", "linuxboot_dma.bin", "kvmvapic.bin")


@cache
def emulator() -> list[str]:
    """QEMU's version, and a hash of each firmware file that QEMU would load.

    The search goes through QEMU's folders in QEMU's order.  Raises LabError if a file is missing.
    """
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


def _command(image: Image, console: Path, scratch: Path, memory: Path, monitor: int, mode: str,
             extra: list, recorded: bool) -> list[str]:
    # A booting machine writes its memory to the file.  A restored one keeps its changes for itself.
    shared = "on" if memory.parent == scratch else "off"
    backend = f"memory-backend-file,id=memory,size={memory_mb(image)}M,mem-path={memory},share={shared}"
    return [
        QEMU, *settings(image, recorded),
        "-object", backend, "-machine", "memory-backend=memory",
        "-kernel", str(image.vmlinuz), "-initrd", str(image.initramfs),
        "-serial", f"file:{console}",
        "-chardev", f"file,id=results,path={scratch}/results.tar",
        "-device", "virtserialport,chardev=results,name=satcc.results",
        # The guest does not use this disk; the emulator saves machine states in it.
        "-drive", f"file={scratch}/{DEVICES},if=none,id=state",
        "-chardev", f"socket,id=monitor,fd={monitor}", "-mon", f"chardev=monitor,mode={mode}",
        *extra,
    ]


# When this is set, every wait() of this process gives up.  Threads need it: they do not see Ctrl-C.
interrupted = threading.Event()


class Channel:
    """The emulator's end of a monitor's socket.  A subclass speaks one of the monitor's languages."""

    mode: str                       # of the option -mon

    def __init__(self, connected: socket.socket):
        self._socket = connected
        self._received = b""
        self.ended = False          # whether the emulator has closed the socket

    def _write(self, text: str):
        try:
            self._socket.settimeout(None)
            self._socket.sendall(text.encode())
        except (BrokenPipeError, ConnectionResetError):
            self.ended = True

    def _wait(self, done, what: str):
        """Wait for an answer as long as the emulator lives: a busy host may not run it for minutes."""
        while not done():
            if interrupted.is_set():
                raise LabError("interrupted")
            if self.ended:
                raise LabError(f"the emulator ended during the command {what}")
            self.look()

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
        self._received += received
        self._parse()

    def close(self):
        self._socket.close()


class Monitor(Channel):
    """The machine's QMP socket.  Answers come in the order of the commands, events at any time."""

    mode = "control"

    def __init__(self, connected: socket.socket):
        super().__init__(connected)
        self._sent = 0
        self._asked = ()
        self.answers = {}           # command number -> answer; the greeting has the number None
        self.events = set()         # names of the events so far
        self._await(None, "start")
        self("qmp_capabilities")

    def send(self, command: str, **arguments) -> int:
        """Send a command without waiting, and return the number that the answer will have."""
        self._sent += 1
        self._write(json.dumps({"execute": command, "arguments": arguments, "id": self._sent}))
        return self._sent

    def ask_time(self):
        """Ask for the number of executed instructions, and for the guest's hardware clock."""
        self._asked = (self.send("query-replay"),
                       self.send("qom-get", path="/machine", property="rtc-time"))

    def time(self) -> tuple[int, dict] | None:
        """The answer to ask_time(); None until it has come."""
        if not all(number in self.answers for number in self._asked):
            return None
        replay, clock = (self.answers.pop(number)["return"] for number in self._asked)
        return replay["icount"], clock

    def _parse(self):
        *lines, self._received = self._received.split(b"\n")
        for message in map(json.loads, lines):
            if "event" in message:
                self.events.add(message["event"])
            else:
                self.answers[message.get("id")] = message

    def _await(self, number: int | None, command: str) -> dict:
        self._wait(lambda: number in self.answers, command)
        return self.answers.pop(number)

    def __call__(self, command: str, **arguments):
        answer = self._await(self.send(command, **arguments), command)
        if "error" in answer:
            raise LabError(f"the emulator refused {command}: {answer['error']['desc']}")
        return answer["return"]


class Prompt(Channel):
    """The machine's monitor for people.

    A run uses it, because the emulator serves QMP by one more thread, which each timer of the guest
    wakes: 40 virtual seconds of a 10 Mbit/s flow take 8.0 s with this monitor and 9.3 s with QMP.
    """

    mode = "readline"
    INSTRUCTIONS = re.compile(rb"instruction count = (\d+)")
    CLOCK = re.compile(rb"\{[^{}]*tm_sec[^{}]*\}")

    def __init__(self, connected: socket.socket):
        super().__init__(connected)
        self._time = None
        self._wait(lambda: b"(qemu)" in self._received, "start")

    def __call__(self, command: str):
        """Run a command.  Raises LabError if it prints more than that it waits for gdb."""
        self._received = b""
        self._write(f"{command}\n")
        self._wait(lambda: self._received.endswith(b"(qemu) "), command)
        printed = self._received.decode().partition("\n")[2].removesuffix("(qemu) ").strip()
        if printed and not printed.startswith("Waiting for gdb"):
            raise LabError(f"the emulator refused {command}: {printed}")

    def ask_time(self):
        self._received, self._time = b"", None
        self._write("info replay\nqom-get /machine rtc-time\n")

    def time(self) -> tuple[int, dict] | None:
        return self._time

    def _parse(self):
        instructions, clock = (pattern.search(self._received)
                               for pattern in (self.INSTRUCTIONS, self.CLOCK))
        if instructions and clock:
            self._time = int(instructions[1]), json.loads(clock[0])


class Silence:
    """Tells a guest that is stuck from one that prints nothing.

    It asks the emulator for the number of executed instructions and for the guest's hardware clock,
    which counts idle time too.  The guest cannot notice the questions.  An emulator that the host has
    stopped, or seldom runs, answers late or never; it is not taken for stuck.
    """

    def __init__(self, monitor: Channel):
        self._monitor = monitor
        self._looks = 0
        self._asked = False
        self._first = self._last = None
        self._repeated = 0

    def look(self):
        """Read the monitor, and now and then ask for the time.  Raises LabError for a stuck guest."""
        if not self._asked:
            self._looks += 1
            if self._looks % LOOKS_PER_QUESTION == 0:
                self._monitor.ask_time()
                self._asked = True
        self._monitor.look()
        if self._asked and (answer := self._monitor.time()):
            self._asked = False
            instructions, clock = answer
            self._judge(instructions, datetime.datetime(
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
    """One QEMU process with its files in a scratch folder.  Leaving the block removes both.

    state: the state to restore, which runs a job; None boots.
    """

    def __init__(self, image: Image, console: Path, state: Path | None = None, extra: list = (),
                 recorded: bool = True):
        speaks = Prompt if state else Monitor
        with contextlib.ExitStack() as stack:
            (BUILD / "lab").mkdir(parents=True, exist_ok=True)
            self.scratch = Path(tempfile.mkdtemp(prefix=scratch_prefix("machine"), dir=BUILD / "lab"))
            stack.callback(shutil.rmtree, self.scratch, ignore_errors=True)
            self.devices = self.scratch / DEVICES
            self.memory = (state or self.scratch) / MEMORY
            self.results = self.scratch / "results.tar"
            self._errors = self.scratch / "errors"
            self.console = console
            self.memory_mb = memory_mb(image)
            self.may_be_held = False        # True: gdb may stop the machine, and its time
            console.parent.mkdir(parents=True, exist_ok=True)
            console.write_bytes(b"")
            if state:
                shutil.copyfile(state / DEVICES, self.devices)
            else:
                _tool("qemu-img", "create", "-q", "-f", "qcow2", str(self.devices), "1M")
            cpu = stack.enter_context(_own_cpu())
            ours, theirs = socket.socketpair()
            with theirs:
                command = _command(image, console, self.scratch, self.memory, theirs.fileno(),
                                   speaks.mode, list(extra), recorded)
                try:
                    self.process = subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                        stderr=self._errors.open("w"), start_new_session=True,
                        pass_fds=[theirs.fileno()], preexec_fn=lambda: _prepare_child(cpu))
                except FileNotFoundError:
                    raise LabError(f"{QEMU} is not installed (Debian: qemu-system-x86)") from None
            stack.callback(self._end_process)
            try:
                self.monitor = speaks(ours)
            except (LabError, OSError):
                raise LabError(f"the emulator did not start: {self.last_error()}") from None
            stack.callback(self.monitor.close)
            self._stack = stack.pop_all()

    def __exit__(self, *_):
        self._stack.close()

    def _end_process(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def last_error(self) -> str:
        """The last line of the emulator's standard error, or ''."""
        lines = [line for line in self._errors.read_text().splitlines()
                 if "TCG doesn't support" not in line]
        return lines[-1] if lines else ""

    def console_text(self) -> str:
        return self.console.read_text(errors="replace")

    def failure(self) -> str:
        """The failure that the console shows, or ''.  It ignores an unfinished line."""
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
                raise LabError(self.failure() or self.last_error() or "the guest ended early")
            if self.may_be_held:
                self.monitor.look()
            else:
                silence.look()

    def wait_until_booted(self):
        """Wait until the watchdog pauses the machine; its state is saved then (guest/init)."""
        self.wait(lambda: "STOP" in self.monitor.events)
        if failure := self.failure():
            raise LabError(failure)

    def fingerprint(self) -> str:
        """Hash of a paused machine's memory, and of the state of its processor and devices."""
        memory, devices = self.scratch / "dump", self.scratch / "devices"
        self.monitor("pmemsave", val=0, size=self.memory_mb << 20, filename=str(memory))
        self.monitor("xen-save-devices-state", filename=str(devices), live=False)
        # Two parts of the state differ between runs and do not belong to the guest: the host's clocks,
        # which icount does not use, and the length of the recording.
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
    """Bind to one processor, and die with the parent process.  Runs between fork and exec."""
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)      # PR_SET_PDEATHSIG
    os.sched_setaffinity(0, {cpu})
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@contextlib.contextmanager
def _own_cpu():
    """Yield the number of a host processor that no other machine uses, of this checkout or another.

    If all are in use, it is one of those.  The lock is the name of an abstract socket.
    """
    cpus = sorted(os.sched_getaffinity(0))
    for cpu in cpus:
        with socket.socket(socket.AF_UNIX) as lock:
            try:
                lock.bind(f"\0satcc-lab-cpu-{cpu}")
            except OSError:
                continue
            yield cpu
            return
    yield cpus[os.getpid() % len(cpus)]


@dataclass(frozen=True)
class Snapshot:
    """The saved state of a machine that is ready to take a job.

    state: a folder with `memory`, the machine's memory, and `devices.qcow2`, all the rest.
    """

    image: Image
    state: Path
    boot_wall_s: float
    recorded: bool = True


def snapshot(image: Image, recorded: bool = True) -> Snapshot:
    """Boot an image and save its state.  Later calls return the saved state.

    recorded: as for settings().
    """
    # The names of the files change with their format.
    inputs = "\n".join([image.identity, *emulator(), *settings(image, recorded), MEMORY, DEVICES])
    key = f"{image.release}-{hashlib.sha256(inputs.encode()).hexdigest()[:16]}"
    folder = BUILD / "lab" / key
    about = folder / "about.json"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not about.exists():
            began = time.monotonic()
            boot(image, folder, recorded)
            partial = about.with_suffix(".part")
            partial.write_text(json.dumps({"boot_wall_s": time.monotonic() - began}))
            partial.rename(about)
            _forget_old(folder.parent)
    os.utime(folder)
    return Snapshot(image, folder, json.loads(about.read_text())["boot_wall_s"], recorded)


def _forget_old(folder: Path) -> None:
    """Remove all states but those used last.  Each has 150 MB, and every build of a module adds one."""
    def last_used_first(paths):
        return sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)

    states = [path.parent for path in folder.glob("*/about.json")]
    for state in last_used_first(states)[KEPT_STATES:]:
        shutil.rmtree(state)
    for initramfs in last_used_first(folder.glob("initramfs-*.cpio"))[KEPT_STATES:]:
        initramfs.unlink()


def boot(image: Image, folder: Path, recorded: bool = True) -> None:
    """Boot an image and save the machine's state in a folder, with its console in `console.log`.

    The memory is not in the emulator's snapshot.  A run maps the file and keeps what it changes for
    itself, so restoring reads and copies only what the run touches.  Raises LabError.
    """
    console = folder / "console.log"
    *_, free = shutil.disk_usage(folder)
    needed = memory_mb(image)           # if the guest touches all of it
    if free < needed << 20:
        raise LabError(f"{folder} has {free >> 20} MB free; a machine state needs {needed}")
    with Machine(image, console, recorded=recorded) as machine:
        try:
            machine.wait_until_booted()
            machine.monitor("migrate-set-capabilities", capabilities=[
                {"capability": MEMORY_APART, "state": True}])
            answer = machine.monitor("human-monitor-command", **{"command-line": "savevm ready"})
            if answer.strip():
                raise LabError(f"the machine's state could not be saved: {answer.strip()}")
            machine.monitor("quit")
            machine.wait(lambda: machine.process.poll() is not None)
            for path in (machine.memory, machine.devices):
                path.rename(folder / path.name)
        except LabError as error:
            raise LabError(f"boot of {image.release}: {error}; console: {console}") from None


@dataclass(frozen=True)
class Outcome:
    """The files and times of a finished job."""

    files: dict[str, bytes]
    restore_wall_s: float           # from the start of the process to the job's first line
    job_wall_s: float               # from the job's first line to the machine's end
    flows_wall_s: float             # from the first SYN to the end of the last flow


def _pack(files: dict[str, bytes]) -> bytes:
    """A tar stream that depends on the names and contents only."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(files[name]), 0o755
            tar.addfile(info, io.BytesIO(files[name]))
    return stream.getvalue()


def _unpack(path: Path) -> dict[str, bytes]:
    blob = path.read_bytes()
    # Two zero blocks end an archive; one without them was cut short.
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

    files: the files of the guest's working directory; the guest runs the shell script `run`.
    console: path of the console log, which is never removed.
    on_progress: called with the console's text whenever it has grown.
    stub: a debug.Stub; the guest waits for gdb, and may print nothing while gdb holds it.
    Returns the files that the job wrote to /run/out, and times.  Raises LabError, with the path of the
    console log, if the script's status is not 0, if the guest panics or is stuck, or if the results
    are truncated.
    """
    with tempfile.NamedTemporaryFile(prefix=scratch_prefix("satcc-job")) as job:
        job.write(_pack(files))
        job.flush()
        began = time.monotonic()
        extra = ["-fw_cfg", f"name=opt/satcc/job,file={job.name}", "-S"]
        with Machine(snap.image, console, snap.state, extra, snap.recorded) as machine:
            machine.may_be_held = bool(stub)
            try:
                for command in (f"migrate_set_capability {MEMORY_APART} on", "loadvm ready",
                                stub.command() if stub else "cont"):
                    machine.monitor(command)
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
                                   f"{machine.last_error() or 'it printed no error'}")
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
    """The files of a failed job; {} if they cannot be read."""
    try:
        return _unpack(results)
    except (LabError, OSError):
        return {}


def _last_words(console: str) -> str:
    lines = console.split("satcc: ended")[0].strip().splitlines()
    return lines[-1].strip() if lines else "it printed nothing"
