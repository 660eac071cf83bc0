# SPDX-License-Identifier: GPL-2.0
"""The matrix's checks of a kernel.  Each is a column of the table.

    build           all modules build at W=1 and with sparse, by the compiler of the kernel's release
    load            each module loads, registers its policy or events, and unloads
    module scripts  selftests/*_module.sh pass
    scenario        each policy completes a transfer over one link
    oracle          every window of these transfers is correct
    mutants         the oracle finds a fault of each policy
    situations      some tests of selftests/lab/test_states.py pass
    logger          satcc_log's records of a transfer agree with its capture and TCP_INFO
    bpftrace        selftests/lab/test_bpftrace.py passes
    BPF load        each BPF object loads, registers its policy, and unloads
    BPF packets     each object sends the module's packets over the lossy link of pairs.toml, or time
                    alone is the cause of the difference

A check returns None or a note to its "ok", or raises a Finding whose text is the table's cell.
"""

import dataclasses
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import oracle
from ..errors import LabError
from ..lab import bpf, image, machine, packages, roots
from ..lab.play import Lab
from ..measure import flow_view
from ..paths import BUILD, TOP, policies
from ..record import pcap
from ..record.run import Run
from ..scenario import scenario
from ..scenario.scenario import FIRST_PORT, Scenario
from . import pairs
from .kernels import Matrix

LOGGER = "satcc_log"
SHOWN_CHARACTERS = 160          # of a cause in the table


class Finding(Exception):
    """The reason why a cell is not ok, as text for the table."""

    def __init__(self, cause: str):
        cause = re.sub(r"; console: .*", "", cause.strip()).replace(f"{TOP}/", "").replace("|", "/")
        lines = cause.splitlines() or ["no reason given"]
        super().__init__(lines[0][:SHOWN_CHARACTERS])


class Kernel:
    """A packaged kernel, with its image, root and modules.

    words: further arguments for make.
    not_ours: messages with this are not about our code; the headers' package has no vmlinux.
    without: name of a check -> why the kernel cannot have it.
    """

    words: tuple[str, ...] = ()
    not_ours = "vmlinux"
    without: dict[str, str] = {}

    def __init__(self, matrix: Matrix, series: str):
        self.matrix, self.series = matrix, series
        self.release, self.root = self.fetched()
        packages.guest_programs()           # fetch all packages first: a failure is no cell of the table

    def fetched(self) -> tuple[str, Path]:
        """The newest kernel of the series that can be fetched, and its root.  Raises LabError.

        A mirror may list a package that it does not have.
        """
        reason = None
        for release in packages.kernel_releases(self.series):
            try:
                packages.kernel(release)
                return release, packages.build_root(release)
            except LabError as error:
                reason = reason or error
        raise reason

    @property
    def modules(self) -> Path:
        """The folder in which the check of the build leaves the modules."""
        return BUILD / "matrix" / "modules" / f"{self.release}-{self.series}"

    @property
    def kdir(self) -> Path:
        return self.root / "usr/src" / f"linux-headers-{self.release}"

    @functools.cached_property
    def lab(self) -> Lab:
        """The lab with this kernel."""
        return Lab(self.release)

    @functools.cached_property
    def bpf_lab(self) -> Lab:
        """The lab with this kernel, and with what a BPF object needs."""
        return Lab(self.release, extras=("bpf",))

    @functools.cached_property
    def compiler(self) -> str:
        """The compiler in the root, with its version."""
        return f"gcc {self.version(image.kernel_compiler(self.kdir), '-dumpfullversion')}"

    def version(self, *words: str) -> str:
        """What a program in the root prints about its version."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(roots.command(self.root, Path(folder), list(words)),
                                  text=True, capture_output=True)
        if done.returncode:
            raise LabError(f"{self.series}: {words[0]} does not run in {self.root}: "
                           f"{done.stderr.strip()}")
        return done.stdout.strip()

    def load(self) -> None:
        """Load and unload each module.  Raises a Finding."""
        try:
            names = {path.stem for path in image.build_modules(self.release).glob("*/*.ko")}
            self.lab
        except LabError as error:
            raise Finding(str(error)) from None
        if missing := expected_modules() - names:
            raise Finding(f"not built: {', '.join(sorted(missing))}")
        read_loaded(job(self, "load", {"run": load_script(names, "modprobe $module").encode()}), names)

    def run(self, cc: str, **changes) -> Run:
        """The matrix's scenario with one flow of a policy."""
        return self.lab.run(with_cc(self.matrix, cc, **changes))


def with_cc(matrix: Matrix, cc: str, **changes) -> Scenario:
    """The matrix's scenario with one congestion control, and with loss on the stages with delay."""
    base = scenario.load(TOP / "bench/scenarios" / f"{matrix.scenario}.toml")
    hops = tuple(
        dataclasses.replace(hop, forward=dataclasses.replace(hop.forward, loss_pct=matrix.loss_pct))
        if hop.forward.delay_ms else hop for hop in base.hops)
    flows = tuple(dataclasses.replace(flow, cc=cc) for flow in base.flows)
    return dataclasses.replace(base, hops=hops, flows=flows, **changes).check()


# ---- build -----------------------------------------------------------------

def build(kernel: Kernel) -> None:
    folder = kernel.modules
    shutil.rmtree(folder, ignore_errors=True)
    image.copy_module_sources(folder)
    done = subprocess.run(
        roots.kbuild(kernel.kdir, folder, "W=1", "C=2", *kernel.words,
                     *image.module_flags(Path(roots.WORK))),
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    (folder / "build.log").write_text(done.stdout)
    read_build(done.stdout, done.returncode, {path.stem for path in image.module_sources()
                                              if path.suffix == ".c"}, kernel.not_ours)


def read_build(log: str, status: int, sources: set[str], not_ours: str = Kernel.not_ours) -> None:
    """Raise a Finding if a build printed a warning, failed, or did not run sparse on every source."""
    findings = [line for line in log.splitlines()
                if re.search(r"\b(warning|error)\b", line, re.I) and not re.search(not_ours, line)]
    if findings:
        raise Finding(findings[0].replace(f"{roots.WORK}/", ""))
    if status:
        raise Finding(f"make ended with status {status}")
    checked = {Path(name).stem for name in re.findall(r"^\s*CHECK\s+(\S+)", log, re.M)}
    if unchecked := sources - checked:
        raise Finding(f"sparse has not checked {', '.join(sorted(unchecked))}")


# ---- in the guest ----------------------------------------------------------

def job(kernel: Kernel, name: str, files: dict[str, bytes]) -> dict[str, bytes]:
    """Run a script in the guest, and return its files.  Raises a Finding if it fails."""
    try:
        return machine.run_job(kernel.lab.snapshot, files, console_log(kernel, name)).files
    except LabError as error:
        raise Finding(str(error)) from None


LOADED = """\
for module in MODULES; do
    COMMAND
    test -d "/sys/module/$module"
    case "$module" in
    tcp_*) grep -qw "${module#tcp_}" /proc/sys/net/ipv4/tcp_available_congestion_control ;;
    *) test -d /sys/kernel/tracing/events/satcc ;;
    esac
    rmmod "$module"
    test ! -d "/sys/module/$module"
    echo "$module" >> /run/out/loaded
done
"""


def load_script(names: Iterable[str], command: str) -> str:
    return LOADED.replace("MODULES", " ".join(sorted(names))).replace("COMMAND", command)


def read_loaded(left: dict[str, bytes], names: Iterable[str]) -> None:
    loaded = left["loaded"].decode().split()
    if loaded != sorted(names):
        raise Finding(f"loaded only {', '.join(loaded) or 'none'}")


def load(kernel: Kernel) -> None:
    kernel.load()


def expected_modules() -> set[str]:
    return {f"tcp_{name}" for name in policies()} | {LOGGER}


def module_scripts(kernel: Kernel) -> None:
    folder = TOP / "selftests"
    libraries = {path.name: path.read_bytes() for path in folder.glob("lib*.sh")}
    for path in sorted(folder.glob("*_module.sh")):
        if path.name in libraries:
            continue
        run = f"sh ./{path.name} > /run/out/ktap || echo $? > /run/out/failed\n"
        left = job(kernel, path.stem, {"run": run.encode(), path.name: path.read_bytes(), **libraries})
        try:
            read_ktap(path.stem, left["ktap"].decode(), int(left.get("failed", b"0")))
        except Finding as finding:
            raise with_reason(finding, console_log(kernel, path.stem)) from None


def console_log(kernel: Kernel, name: str) -> Path:
    return BUILD / "log" / f"matrix-{kernel.release}-{name}.log"


def with_reason(finding: Finding, console: Path) -> Finding:
    """The finding, with the logger's message about a hook that the kernel does not have."""
    message = re.search(r"\] (satcc_log: cannot hook .*)", console.read_text(errors="replace"))
    return Finding(f"{message[1].strip()}; {finding}") if message else finding


def read_ktap(name: str, text: str, status: int) -> None:
    """Raise a Finding unless a script's KTAP output has all planned tests, and all are ok."""
    plan = re.search(r"^1\.\.(\d+)(.*)", text, re.M)
    if not plan:
        raise Finding(f"{name}: no plan of tests")
    if not int(plan[1]):
        raise Finding(f"{name}: skipped{plan[2].replace(' # SKIP', ':')}")
    results = re.findall(r"^(ok|not ok) (\d+) (.*)", text, re.M)
    for word, _, what in results:
        if word != "ok":
            raise Finding(f"{name}: {what}")
    if [int(number) for _, number, _ in results] != list(range(1, int(plan[1]) + 1)):
        raise Finding(f"{name}: {len(results)} of {plan[1]} tests ran")
    if status:
        raise Finding(f"{name}: ended with status {status}")


def each_policy(kernel: Kernel, judge: Callable[[Run], None]) -> None:
    """Play the scenario with each policy, and judge its run."""
    for cc in policies():
        try:
            judge(kernel.run(cc))
        except LabError as error:
            raise Finding(f"{cc}: {error}") from None


def play(kernel: Kernel) -> None:
    each_policy(kernel, whole)


def whole(run: Run) -> None:
    """Raise a Finding if the receiver has not acknowledged every byte of the flow."""
    flow = run.scenario.flows[0]
    if flow_view.FlowView(run).transfer_s(flow.bytes) is None:
        raise Finding(f"{flow.cc}: the receiver has not acknowledged {flow.bytes} bytes")


def recompute(kernel: Kernel) -> None:
    each_policy(kernel, same_windows)


def same_windows(run: Run) -> None:
    report, cc = oracle.check(run), run.scenario.flows[0].cc
    if report.differences:
        raise Finding(str(report.differences[0]))
    if cc not in report.counts or not report.counts[cc].changes:
        raise Finding(f"{cc}: {report.unchecked.get(cc, 'no window has changed')}")


# Faults that the scenario shows on each kernel.  On 5.10 and 6.1 each ACK acknowledges one segment, so a
# fault in the count of acknowledged segments would not show.
FAULTS = {"hybla_full": "RTT samples are taken for three quarters",
          "mtsi": "the compare with a threshold is flipped",
          "ibk": "K is one more",
          "constant_rate": "c rtt",
          "westwood_abse": "BSE is rounded down",
          "satcc": "the train's window is of the last RTT"}


def mutants(kernel: Kernel) -> None:
    """Build the modules with a fault of each policy, and play the scenario with each."""
    from selftests.lab.test_oracle import MUTANTS

    texts, faults = {}, {}
    for cc, known in MUTANTS.items():
        what, name, text, instead = next(fault for fault in known if fault[0] == FAULTS[cc])
        texts[name] = (texts.get(name) or (TOP / name).read_text()).replace(text, instead)
        faults[cc] = what
    try:
        faulty = Lab(prebuilt=image.build(kernel.release, replacements=tuple(sorted(texts.items()))))
        missed = [f"{cc}: {what}" for cc, what in faults.items()
                  if not oracle.check(faulty.run(with_cc(kernel.matrix, cc))).differences]
    except LabError as error:
        raise Finding(str(error)) from None
    if missed:
        raise Finding(f"not found: {', '.join(missed)}")


def logger(kernel: Kernel) -> None:
    try:
        run = kernel.run("cubic", modules={LOGGER: {}}, trace=("tcp:tcp_probe", "satcc:*"))
    except LabError as error:
        console = re.search(r"; console: (\S+)", str(error))
        finding = Finding(str(error).partition("; to repeat")[0])
        raise (with_reason(finding, Path(console[1])) if console else finding) from None
    same_records(run)


def same_records(run: Run) -> None:
    """Raise a Finding unless satcc_log has a record for each sent segment and each ACK, in the capture's
    order, with TCP_INFO's sums."""
    packets = run.sender
    sent = packets.where(packets.dport == FIRST_PORT)
    received = packets.where(packets.sport == FIRST_PORT)
    received = received.where(received.flags & (pcap.ACK | pcap.RST) == pcap.ACK)
    end = sent.t[sent.flags & pcap.FIN > 0].min()       # the trace ends at the flow's end
    for event, field, captured in (("segment_sent", "seq", sent), ("ack_received", "ack", received)):
        rows = records(run, event)
        recorded = captured.where(np.arange(len(captured)) < len(rows))
        if len(recorded) < len(rows) or (captured.t[len(rows):] <= end).any():
            raise Finding(f"{event}: {len(rows)} records of {(captured.t <= end).sum()} packets")
        if (rows[field] != getattr(recorded, field)).any():
            raise Finding(f"{event}: {field} differs from the capture's")
    rows, info = records(run, "segment_sent"), run.json("flow-0.json")
    sums = {"bytes_sent": rows["len"].sum(), "total_retrans": (rows["retrans"] == 1).sum(),
            "data_segs_out": (rows["len"] > 0).sum()}
    for name, total in sums.items():
        if total != info[name]:
            raise Finding(f"segment_sent: {name} is {total}, by TCP_INFO {info[name]}")
    windows = records(run, "cwnd_changed")
    if not len(windows) or (windows["cwnd"][-1], windows["ssthresh"][-1]) != (
            info["snd_cwnd"], info["snd_ssthresh"]):
        raise Finding("cwnd_changed: the last record differs from TCP_INFO's window")


def records(run: Run, event: str):
    name = f"satcc:{event}"
    if name not in run.events:
        raise Finding(f"no record {event}")
    return run.events[name][1]


# ---- the project's tests ---------------------------------------------------

def tests(*words: str) -> Callable[[Kernel], None]:
    """A check that runs tests of the guest with a kernel."""
    def ask(kernel: Kernel) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-c", "selftests/pytest.ini", "-p", "no:cacheprovider",
             "-q", "--tb=line", *words],
            cwd=TOP, env={**os.environ, "KERNEL": kernel.release}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        log = console_log(kernel, Path(words[0]).stem)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(done.stdout)
        read_tests(done.stdout, done.returncode)
    return ask


def read_tests(text: str, status: int) -> None:
    """Raise a Finding unless pytest's output says that tests ran, and that all passed."""
    count = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", text, re.M)
    if not count:
        raise Finding(f"pytest ended with status {status}: {(text.strip().splitlines() or [''])[-1]}")
    passed, failed, skipped = map(int, count.groups())
    if failed:
        first = re.search(r"^(?:FAILED|ERROR) \S*?::(.*)", text, re.M)
        raise Finding(f"{failed} of {passed + failed} tests failed, the first: {first[1]}")
    if status or skipped or not passed:
        raise Finding(f"{passed} tests passed, {skipped} skipped, status {status}")


# ---- BPF -------------------------------------------------------------------

OBJECTS = """\
mount -t bpf none /sys/fs/bpf
for policy in POLICIES; do
    satcc-bpf load $policy.bpf.o 2> /run/out/errors || exit 0
    grep -qw $policy /proc/sys/net/ipv4/tcp_available_congestion_control
    satcc-bpf list | grep -q "^$policy BPF"
    satcc-bpf unload $policy
    if grep -qw $policy /proc/sys/net/ipv4/tcp_available_congestion_control; then exit 1; fi
    echo $policy >> /run/out/loaded
done
"""


def bpf_load(kernel: Kernel) -> None:
    names = bpf.policies()
    files = {"run": OBJECTS.replace("POLICIES", " ".join(names)).encode(),
             **bpf.files(bpf.build(pairs.OBJECTS_FROM), *names)}
    try:
        left = machine.run_job(kernel.bpf_lab.snapshot, files, console_log(kernel, "bpf")).files
    except LabError as error:
        raise Finding(str(error)) from None
    if errors := left["errors"].decode().strip():
        raise Finding(errors.removeprefix("satcc-bpf: "))
    read_loaded(left, names)


def bpf_packets(kernel: Kernel) -> str | None:
    """With random loss and one seed; `make bpf-compare` has more.  Returns a note if packets differ."""
    try:
        verdicts = pairs.of_loss(kernel.bpf_lab, pairs.load())
    except LabError as error:
        raise Finding(str(error)) from None
    note = pairs.cell(verdicts)
    if unexplained := [verdict.where for verdict in verdicts if not verdict.explained]:
        raise Finding(f"{note}: {', '.join(unexplained)}")
    return note if any(verdict.comparison.kind != pairs.SAME for verdict in verdicts) else None


# ---- the columns -----------------------------------------------------------

MODULES = ("modules/*.[ch]", "*/tcp_*.c", "*/*.h", "Kbuild")
GUEST = ("bench/lab/*.py", "bench/lab/preamble.sh", "bench/lab/guest/*")
# Of the situations of test_states.py; `make check KERNEL=6.12` plays all.
SITUATIONS = "a_timeout_for_a_loss or an_undo_by_dsack or a_full_queue"
BPF = ("*/*.bpf.c", "modules/bpf/**/*.h", "tools/satcc-bpf.c", "bench/matrix/pairs.*",
       "bench/matrix/*twice.*")
PLAYED = ("bench/scenario/*.py", "bench/scenarios/*.toml", "bench/matrix/kernels.toml")


@dataclass(frozen=True)
class Check:
    """A column of the table: its head, its check, and the files on which the result depends."""

    name: str
    ask: Callable[[Kernel], str | None]
    sources: tuple[str, ...]
    needs: str = ""             # a check that must be ok before this one runs

    def files(self) -> Iterable[Path]:
        """The files that match `sources`, and this file."""
        paths = {path for pattern in self.sources for path in TOP.glob(pattern)
                 if not path.name.endswith(".mod.c") and path.is_file()}
        return paths | {Path(__file__).resolve()}


CHECKS = (
    Check("build", build, MODULES),
    Check("load", load, MODULES + GUEST),
    Check("module scripts", module_scripts, MODULES + GUEST + ("selftests/*.sh",), "load"),
    Check("scenario", play, MODULES + GUEST + PLAYED, "load"),
    Check("oracle", recompute, MODULES + GUEST + PLAYED + ("bench/oracle/*.py",), "load"),
    Check("mutants", mutants,
          MODULES + GUEST + PLAYED + ("bench/oracle/*.py", "selftests/lab/test_oracle.py"), "load"),
    Check("situations", tests("selftests/lab/test_states.py", "-k", SITUATIONS),
          MODULES + GUEST + ("bench/oracle/*.py", "selftests/lab/*.py"), "load"),
    Check("logger", logger, MODULES + GUEST + PLAYED, "load"),
    Check("bpftrace", tests("selftests/lab/test_bpftrace.py"),
          MODULES + GUEST + ("tools/*.bt", "selftests/lab/test_bpftrace.py"), "load"),
    Check("BPF load", bpf_load, MODULES + GUEST + BPF),
    Check("BPF packets", bpf_packets, MODULES + GUEST + BPF, "BPF load"),
)
