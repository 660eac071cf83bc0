# SPDX-License-Identifier: GPL-2.0
"""Run a plan's jobs by Snakemake, and show the progress.

The progress comes from the jobs' files and not from Snakemake's output, so it does not depend on where
the jobs run.  Snakemake's output goes to a log.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

from .. import progress
from ..errors import LabError
from ..paths import TOP
from . import plan

SNAKEFILE = Path(__file__).with_name("Snakefile")
POLL_S = 0.5
LINK_WALL_S = 300           # of the link's calibration
END_S = 30                  # for jobs to clean up after an interrupt


def command(folder: Path, cores: int | None, profile: str | None, more: tuple = ()) -> list[str]:
    """Snakemake's command line.

    A job's name is a hash of all its inputs, so the job is done if its file exists.  A file appears when
    it is complete, so no lock is needed.
    """
    where = ["--profile", profile] if profile else ["--cores", str(cores or "all")]
    return ["snakemake", "--snakefile", str(SNAKEFILE), "--directory", str(folder), *where,
            "--scheduler", "greedy", "--keep-going", "--nolock", "--rerun-incomplete",
            "--rerun-triggers", "mtime", "--nocolor", *more,
            "--config", f"top={TOP}", f"python={sys.executable}"]


def run(planned: dict, folder: Path, console: Console, cores: int | None = None,
        profile: str | None = None) -> None:
    """Run the jobs that are not done yet.  Raises LabError with the failed jobs and their logs."""
    log = folder / "log" / "snakemake.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as out:
        try:
            process = subprocess.Popen(command(folder, cores, profile), stdout=out, stderr=out,
                                       start_new_session=True)
        except FileNotFoundError:
            raise LabError("snakemake is not installed (Debian: snakemake)") from None
        try:
            _show(process, planned, folder, console, cores or len(os.sched_getaffinity(0)))
        except BaseException:
            # Its own process group: Snakemake, the jobs and their emulators.
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise LabError(failure(planned, folder, log))


def failure(planned: dict, folder: Path, log: Path) -> str:
    """A line for each failed job, with the last line of its log."""
    failures = []
    for job in planned["jobs"]:
        log_file = folder / "log" / f"{job}.log"
        if not plan.cell_path(job, folder).exists() and log_file.exists():
            lines = log_file.read_text(errors="replace").strip().splitlines() or ["no output"]
            failures.append(f"job {job} ({cells_of(planned, job)}) failed: {lines[-1]}; log: {log_file}")
    return "\n".join(failures or [f"the workflow failed; log: {log}"])


def cells_of(planned: dict, job: str) -> str:
    """The first cell of a job, as text."""
    for name, cells in planned["cells"].items():
        for cell in cells:
            if job in cell["jobs"]:
                return f"{name}: {', '.join(cell['labels'].values())}"
    return "no cell"


class Meter:
    """Estimates the time left, from the expected wall times and the rate of the jobs so far."""

    def __init__(self, planned: dict, folder: Path, cores: int):
        self.cores = cores
        self.paths = {job: plan.cell_path(job, folder) for job in planned["jobs"]}
        self.expected = {name: job["expected_wall_s"] for name, job in planned["jobs"].items()}
        self.link = planned["link"]
        self.paths[self.link] = plan.link_path(planned, folder)
        self.expected[self.link] = LINK_WALL_S
        self.done: set[str] = set()
        self.took_s = self.expected_s = 0.0
        self.look()

    def look(self) -> None:
        """Count the jobs that have finished since the last call."""
        for job in self.paths.keys() - self.done:
            if self.paths[job].exists():
                self.done.add(job)
                entry = {} if job == self.link else json.loads(self.paths[job].read_text())
                if entry and not entry["from_cache"]:
                    self.took_s += entry["wall_s"]
                    self.expected_s += self.expected[job]

    def left_s(self) -> float:
        """The expected wall time until the last job ends, s."""
        rate = self.took_s / self.expected_s if self.expected_s else 1.0
        left = [expected for name, expected in self.expected.items() if name not in self.done]
        # The last jobs do not share the cores evenly.
        return max(sum(left) / self.cores, max(left, default=0)) * rate


def _show(process: subprocess.Popen, planned: dict, folder: Path, console: Console, cores: int) -> None:
    meter = Meter(planned, folder, cores)
    with progress.shown(console, len(meter.paths)) as runs:
        while True:
            ended = process.poll() is not None
            meter.look()
            runs.update(len(meter.done), len(meter.done), len(meter.paths), meter.left_s())
            if ended:
                return
            time.sleep(POLL_S)
