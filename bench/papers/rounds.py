# SPDX-License-Identifier: GPL-2.0
"""Rounds of runs, each with more seeds where they can decide a verdict, and the report of all.

Apart from command.py, which every job of the workflow imports: what draws and judges takes half a second
to import.
"""

import datetime
import os
import sys
import time
from pathlib import Path

from rich.console import Console

from ..errors import LabError
from ..lab import machine, prune
from ..lab.play import Lab
from ..paths import TOP, locked
from ..status import commit
from . import experiment, plan, report, results, seeds, tables, workflow


def make(arguments, console: Console) -> int:
    """Plan, run and report; print a summary."""
    began = time.monotonic()
    chosen = experiment.load_all(arguments.paper)
    console.print(f"lab: kernel {arguments.kernel} under QEMU {machine.qemu_version()}; "
                  "first use fetches packages and boots once")
    with locked("papers"):
        measured, data, kept = _rounds(chosen, arguments, console)
    console.print(f"{len(seeds.verdicts(measured, data))} verdicts stay open: more seeds would not "
                  "decide them, or would exceed the time budget")
    for paper, counts in results.counts(data).items():
        console.print(f"{paper}: {tables.counts_text(counts)}")
    outside = [row for row in data["link"] if not row["passed"]]
    console.print(f"link: {len(data['link'])} figures calibrated, "
                  f"{len(outside)} outside their tolerance")
    console.print(f"{len(measured.plan['jobs'])} runs, {kept} of them kept from before, "
                  f"{time.monotonic() - began:.0f} s wall on "
                  f"{arguments.cores or len(os.sched_getaffinity(0))} cores")
    console.print(f"report: {_shown(arguments.results / 'index.html')}, "
                  f"{_shown(arguments.results / 'papers.md')}")
    console.print(prune.within_limit())
    for job, differences in results.oracle_differences(data).items():
        print(f"papers: {data['runs'][job]['folder']}: {differences[0]}", file=sys.stderr)
    for row in outside:
        print(f"papers: the link: {row['what']}: {row['measured']:g} {row['unit']}, not "
              f"{row['low']:g} to {row['high']:g}", file=sys.stderr)
    return 1 if results.oracle_differences(data) or outside else 0


def _rounds(chosen: list, arguments, console: Console) -> tuple[results.Results, dict, int]:
    """Play the plan, and more seeds while they can decide a verdict.  Returns the results, the
    report's data, and the number of runs that were kept from before."""
    lab, more = Lab(arguments.kernel, plan.extras(chosen)), {}
    kept = None
    while True:
        planned = plan.make(chosen, lab, arguments.seeds, more, arguments.paper)
        plan.write(planned, arguments.results)
        (arguments.results / "papers.json").unlink(missing_ok=True)
        if kept is None:
            kept = sum(plan.cell_path(job, arguments.results).exists() for job in planned["jobs"])
        console.print(f"{len(planned['jobs'])} runs, {seeds.expected_s(planned) / 60:.0f} min on two "
                      f"cores if none is kept; with more seeds at most {arguments.budget} min")
        try:
            workflow.run(planned, arguments.results, console, arguments.cores, arguments.profile)
        except LabError:
            report_now(arguments)       # with the runs that are done
            raise
        data = report.read(arguments.results)
        measured = results.Results(planned, chosen, arguments.results)
        extra = seeds.more(measured, data, arguments.budget * 60)
        if not extra:
            return measured, data, kept
        more |= extra


def _shown(path: Path) -> Path:
    return path.relative_to(TOP) if path.is_relative_to(TOP) else path


def report_now(arguments) -> int:
    planned = plan.read(arguments.results)
    chosen = experiment.load_all(planned["papers"])
    about = {"kernel": planned["image"]["release"], "emulator": f"QEMU {machine.qemu_version()}",
             "seeds": planned["seeds"], "date": datetime.date.today().isoformat(),
             "commit": commit()}
    measured = results.Results(planned, chosen, arguments.results)
    report.write(measured, about, arguments.results)
    print(f"report: {_shown(arguments.results / 'index.html')}")
    for name, cells in measured.changed.items():
        print(f"papers: {name}: the data file no longer describes the runs of {len(cells)} cells; they "
              "are left out: run make papers", file=sys.stderr)
    if planned.get("code") != plan.code_digest():
        print("papers: other code than the present measured the runs: run make papers", file=sys.stderr)
        return 1
    return 1 if measured.changed else 0
