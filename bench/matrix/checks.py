# SPDX-License-Identifier: GPL-2.0
"""The matrix's checks of a kernel.  Each is a column of the table.

    build           all modules build at W=1 and with sparse, by the compiler of the kernel's release
    load            each module loads, registers its policy or events, and unloads
    module scripts  selftests/*_module.sh pass
    scenario        each policy completes a transfer over one link
    oracle          every window of these transfers is correct
    logger          satcc_log's records of a transfer agree with its capture and TCP_INFO

A check returns None, or raises a Finding whose text is the table's cell.
"""

import dataclasses
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import oracle
from ..errors import LabError
from ..lab import image, machine, packages, roots
from ..lab.play import Lab
from ..measure import flow_view
from ..paths import BUILD, TOP, policies
from ..record import pcap
from ..record.run import Run
from ..scenario import scenario
from ..scenario.scenario import FIRST_PORT, Scenario
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
    """A packaged kernel, with its image, root and modules."""

    def __init__(self, matrix: Matrix, series: str):
        self.matrix, self.series = matrix, series
        self.release, self.root = fetched(series)
        packages.guest_programs()           # fetch all packages first: a failure is no cell of the table

    @property
    def kdir(self) -> Path:
        return self.root / "usr/src" / f"linux-headers-{self.release}"

    @functools.cached_property
    def lab(self) -> Lab:
        """The lab with this kernel."""
        return Lab(self.release)

    @functools.cached_property
    def compiler(self) -> str:
        """The compiler in the root, with its version."""
        name = image.kernel_compiler(self.kdir)
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(roots.command(self.root, Path(folder), [name, "-dumpfullversion"]),
                                  text=True, capture_output=True)
        if done.returncode:
            raise LabError(f"{self.series}: {name} does not run in {self.root}: {done.stderr.strip()}")
        return f"gcc {done.stdout.strip()}"

    def run(self, cc: str, **changes) -> Run:
        """The matrix's scenario with one flow of a policy."""
        return self.lab.run(with_cc(self.matrix, cc, **changes))


def fetched(series: str) -> tuple[str, Path]:
    """The newest kernel of a series that can be fetched, and its root.  Raises LabError if none can.

    A mirror may list a package that it does not have.
    """
    reason = None
    for release in packages.kernel_releases(series):
        try:
            packages.kernel(release)
            return release, packages.build_root(release)
        except LabError as error:
            reason = reason or error
    raise reason


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
    folder = BUILD / "matrix" / "modules" / kernel.release
    shutil.rmtree(folder, ignore_errors=True)
    for path in (*module_sources(), TOP / "Kbuild"):
        copy = folder / path.relative_to(TOP)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    done = subprocess.run(
        roots.kbuild(kernel.kdir, folder, "W=1", "C=2", *image.module_flags(Path(roots.WORK))),
        text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    (folder / "build.log").write_text(done.stdout)
    read_build(done.stdout, done.returncode, {path.stem for path in module_sources()
                                              if path.suffix == ".c"})


def module_sources() -> list[Path]:
    return sorted(path for folder in image._source_folders() for path in folder.iterdir()
                  if path.suffix in (".c", ".h") and not path.name.endswith((".mod.c", ".bpf.c")))


# Messages with this are about the headers' package, which has no vmlinux, and not about our code.
NOT_OURS = re.compile(r"vmlinux")


def read_build(log: str, status: int, sources: set[str]) -> None:
    """Raise a Finding if a build printed a warning, failed, or did not run sparse on every source."""
    findings = [line for line in log.splitlines()
                if re.search(r"\b(warning|error)\b", line, re.I) and not NOT_OURS.search(line)]
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
    log = BUILD / "log" / f"matrix-{kernel.release}-{name}.log"
    try:
        return machine.run_job(kernel.lab.snapshot, files, log).files
    except LabError as error:
        raise Finding(str(error)) from None


LOADED = """\
for module in MODULES; do
    modprobe "$module"
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


def load(kernel: Kernel) -> None:
    try:
        names = {path.stem for path in image.build_modules(kernel.release).glob("*/*.ko")}
        kernel.lab
    except LabError as error:
        raise Finding(str(error)) from None
    if missing := expected_modules() - names:
        raise Finding(f"not built: {', '.join(sorted(missing))}")
    script = LOADED.replace("MODULES", " ".join(sorted(names)))
    left = job(kernel, "load", {"run": script.encode()})
    loaded = left["loaded"].decode().split()
    if loaded != sorted(names):
        raise Finding(f"loaded only {', '.join(loaded) or 'none'}")


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
        read_ktap(path.stem, left["ktap"].decode(), int(left.get("failed", b"0")))


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


def logger(kernel: Kernel) -> None:
    try:
        run = kernel.run("cubic", modules={LOGGER: {}}, trace=("tcp:tcp_probe", "satcc:*"))
    except LabError as error:
        raise Finding(str(error)) from None
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


# ---- the columns -----------------------------------------------------------

MODULES = ("modules/*.[ch]", "*/tcp_*.c", "*/*.h", "Kbuild")
GUEST = ("bench/lab/*.py", "bench/lab/preamble.sh", "bench/lab/guest/*")
PLAYED = ("bench/scenario/*.py", "bench/scenarios/*.toml", "bench/matrix/kernels.toml")


@dataclass(frozen=True)
class Check:
    """A column of the table: its head, its check, and the files on which the result depends."""

    name: str
    ask: Callable[[Kernel], None]
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
    Check("logger", logger, MODULES + GUEST + PLAYED, "load"),
)
