# SPDX-License-Identifier: GPL-2.0
"""Let the oracle recompute the windows of experiments that have no trace.

The experiments of satcc's goals are played without the logger, as on a user's host.  This plays each
of their cells that has a flow of the pack's policies once more, with the logger's event cc_call and with
the first seed.  The event takes virtual time, so the flow meets other random losses than without it.
If a run's events do not fit the kernel's buffer, the first half of the run is played instead.

Each run's report is kept, so that an interrupted command resumes.  A run that the oracle
checked without a difference is removed: its trace may have 100 MB.
"""

import dataclasses
import datetime
import hashlib
import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from .. import oracle, progress
from ..errors import LabError, TraceFull
from ..lab import image, machine
from ..lab.play import Lab
from ..oracle import calls
from ..paths import TOP, locked
from ..scenario.scenario import Scenario
from ..status import commit
from . import cell, experiment, plan

RESULTS = TOP / "results" / "windows"
WALL_S_PER_EXPECTED = 0.7       # with the event and the oracle, a run takes this times plan's estimate
COUNTS = ("flows", "events", "changes")


@dataclass(frozen=True)
class Job:
    """A run with a trace, the names of the experiments that have it in a cell, and its first cell."""

    scenario: Scenario
    experiments: tuple[str, ...]
    cell: str


def _names(scenario: Scenario) -> set[str]:
    """The congestion controls of a scenario's flows."""
    return {cc for flow in scenario.flows for cc in flow.names}


def jobs(chosen: list[experiment.Experiment], policies: set[str]) -> list[Job]:
    """A job for each scenario of the experiments in which a flow has one of the policies."""
    by_digest: dict[str, Job] = {}
    for one in chosen:
        for each in one.cells:
            if not each.scenario or each.formula or not policies & _names(each.scenario):
                continue
            scenario = dataclasses.replace(each.scenario, trace=(calls.STREAM,))
            shared = by_digest.get(scenario.digest()) or \
                Job(scenario, (), f"{one.id}: {', '.join(each.labels.values())}")
            if one.name not in shared.experiments:
                shared = dataclasses.replace(shared, experiments=(*shared.experiments, one.name))
            by_digest[scenario.digest()] = shared
    return list(by_digest.values())


def _path(lab: Lab, job: Job, folder: Path) -> Path:
    """The file of a run's report: its name is a hash of the run's inputs and of the oracle's code."""
    inputs = [lab.identity(job.scenario, {}), image.digest(sorted((TOP / "bench/oracle").glob("*.py")))]
    return folder / "runs" / f"{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]}.json"


def first_half(scenario: Scenario) -> Scenario:
    """A scenario whose flows last half as long.  Each has `seconds`."""
    flows = tuple(dataclasses.replace(flow, seconds=flow.seconds // 2) for flow in scenario.flows)
    end_s = max(flow.start_s + flow.seconds for flow in flows)
    changes = tuple(change for change in scenario.changes if change.at_s < end_s)
    return dataclasses.replace(scenario, flows=flows, changes=changes)


def recompute(lab: Lab, job: Job, folder: Path) -> dict:
    """Play a job and return the oracle's report, or the kept report.  Raises LabError.

    The report's "halved" is true if only the first half was played.
    """
    path = _path(lab, job, folder)
    if path.exists():
        return json.loads(path.read_text())
    try:
        run, halved = lab.run(job.scenario), False
    except TraceFull:
        if not all(flow.seconds for flow in job.scenario.flows):
            raise
        run, halved = lab.run(first_half(job.scenario)), True
    report = {**cell.oracle_report(run), "hash": run.hash, "folder": str(run.folder.relative_to(TOP)),
              "halved": halved}
    cell.write(path, report)
    if not report["differences"] and not unchecked(job, report) and not run.from_cache:
        shutil.rmtree(run.folder)
    return report


def unchecked(job: Job, report: dict) -> list[str]:
    """Why the oracle has not recomputed each flow of the pack's policies in a job, a line for each.

    The logger records no calls of other policies unless a scenario asks for them.
    """
    ours = sorted(_names(job.scenario) & set(oracle.POLICIES))
    lines = [f"{policy}: {reason}" for policy, reason in report["unchecked"].items() if policy in ours]
    for policy in ours:
        played = sum(policy in flow.names for flow in job.scenario.flows)
        seen = report["counts"].get(policy, {"flows": 0})["flows"]
        if seen < played:
            lines.append(f"calls of {seen} of {played} flows of {policy}")
    return lines


def sums(reports: list[dict]) -> dict:
    """The number of runs, how many of them were halved, the sums of COUNTS over all policies with a
    model, and the number of differences."""
    counts = [count for report in reports for count in report["counts"].values()]
    return {"runs": len(reports), "halved": sum(report.get("halved", False) for report in reports),
            **{key: sum(count[key] for count in counts) for key in COUNTS},
            "differences": sum(len(report["differences"]) for report in reports)}


def total(chosen: list[experiment.Experiment], reports: list[tuple[Job, dict]]) -> list[dict]:
    """name, title and sums() of each experiment with a report.  Two experiments may share a run."""
    entries = []
    for one in chosen:
        shared = [report for job, report in reports if one.name in job.experiments]
        if shared:
            entries.append({"name": one.name, "title": one.title, **sums(shared)})
    return entries


def make(arguments, console: Console) -> int:
    """Play the jobs, print the counts, and write windows.json.  Returns 1 after a difference or a run
    that failed."""
    with locked("windows"):         # another command would remove the runs that this one reads
        return _make(arguments, (arguments.results or RESULTS).resolve(), console)


def _make(arguments, folder: Path, console: Console) -> int:
    chosen = experiment.load_all(arguments.paper)
    policies = set(arguments.policy or oracle.POLICIES)
    wanted = jobs(chosen, policies)
    if unknown := sorted(policies - set(oracle.POLICIES)):
        raise LabError(f"--policy {unknown[0]}: not one of {', '.join(oracle.POLICIES)}")
    if not wanted:
        raise LabError(f"no cell of these experiments has a flow of {', '.join(sorted(policies))}")
    lab = Lab(arguments.kernel, plan.extras(chosen))
    cores = arguments.cores or len(os.sched_getaffinity(0))
    expected = [WALL_S_PER_EXPECTED * plan.expected_wall_s(job.scenario) for job in wanted]
    console.print(f"{len(wanted)} runs, {sum(expected) / cores / 60:.0f} min on {cores} cores if no "
                  "report is kept")
    reports, failures = [], []

    def play(job: Job) -> dict | LabError:
        try:
            return recompute(lab, job, folder)
        except LabError as error:
            if machine.interrupted.is_set():
                raise
            return error

    with progress.shown(console, sum(expected)) as shown, ThreadPoolExecutor(cores) as pool:
        try:
            for number, report in enumerate(pool.map(play, wanted), 1):
                job = wanted[number - 1]
                wrong = [str(report)] if isinstance(report, LabError) else unchecked(job, report)
                failures += [f"{job.cell}: {line}" for line in wrong]
                if not wrong:
                    reports.append((job, report))
                shown.update(sum(expected[:number]), number, len(wanted),
                             sum(expected[number:]) / cores)
        except BaseException:
            machine.interrupted.set()
            raise
    entries = total(chosen, reports)
    differences = [f"{job.cell}: {report['folder']}: {line}" for job, report in reports
                   for line in report["differences"]]
    together = sums([report for _, report in reports])
    for entry in (*entries, {"name": "all, each run once", **together}):
        halved = f" ({entry['halved']} of them only the first half)" if entry["halved"] else ""
        console.print(f"{entry['name']}: {entry['runs']} runs{halved}, {entry['flows']} flows, "
                      f"{entry['events']} calls, {entry['changes']} window changes recomputed, "
                      f"{entry['differences']} differences")
    if not failures:
        cell.write(folder / "windows.json", {"about": {
            "kernel": lab.image.release, "emulator": f"QEMU {machine.qemu_version()}",
            "policies": sorted(policies), "date": datetime.date.today().isoformat(), "commit": commit()},
            "experiments": entries, "all": together})
    for line in [*failures, *differences]:
        print(f"papers: {line}", file=sys.stderr)
    return 1 if failures or differences else 0
