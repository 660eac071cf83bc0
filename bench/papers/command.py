# SPDX-License-Identifier: GPL-2.0
"""python3 -m bench.papers: run the papers' experiments again and report.

    list         experiments, their cells and runs, and the time they take
    link         hold the link against what it is said to do, as a workflow calls it
    cell JOB     one job of the plan, as a workflow calls it
    report       write the report of what is there
"""

import argparse
import datetime
import os
import sys
import time
from pathlib import Path

from rich.console import Console

from ..command import status_of
from ..lab import machine
from ..lab.errors import LabError
from ..lab.paths import TOP, locked
from ..lab.run import Lab
from . import cell, experiment, plan, report, results, seeds, tables, workflow


def make(arguments, console: Console) -> int:
    """Plan, run, report, and say how it ended."""
    began = time.monotonic()
    chosen = experiment.load_all(arguments.paper or list(experiment.PAPERS))
    console.print(f"lab: kernel {arguments.kernel} under QEMU {machine.qemu_version()}; "
                  "first use fetches packages and boots once")
    with locked("papers"):
        found, data, there = _rounds(chosen, arguments, console)
    console.print(f"{len(seeds.verdicts(found, data))} verdicts are left open: more seeds would not "
                  "decide them, or take more than there is time for")
    for paper, mine in results.counts(data).items():
        console.print(f"{paper}: {tables.counts_text(mine)}")
    outside = [row for row in data["link"] if not row["passed"]]
    console.print(f"link: {len(data['link'])} figures held against what the link is said to do, "
                  f"{len(outside)} outside their tolerance")
    console.print(f"{len(found.plan['jobs'])} runs, {there} of them there already, "
                  f"{time.monotonic() - began:.0f} s wall on "
                  f"{arguments.cores or len(os.sched_getaffinity(0))} cores")
    console.print(f"report: {_shown(arguments.results / 'index.html')}, "
                  f"{_shown(arguments.results / 'papers.md')}")
    for job, differences in results.oracle_differences(data).items():
        print(f"papers: {data['runs'][job]['folder']}: {differences[0]}", file=sys.stderr)
    for row in outside:
        print(f"papers: the link: {row['what']}: {row['measured']:g} {row['unit']}, not "
              f"{row['low']:g} to {row['high']:g}", file=sys.stderr)
    return 1 if results.oracle_differences(data) or outside else 0


def _rounds(chosen: list, arguments, console: Console) -> tuple[results.Results, dict, int]:
    """Play the plan, and more seeds of it while they can decide a verdict.  Returns what was found, the
    report's data, and how many runs were there before."""
    lab, more = Lab(arguments.kernel, plan.EXTRAS), {}
    there = None
    while True:
        planned = plan.make(chosen, lab, arguments.seeds, more)
        plan.write(planned, arguments.results)
        (arguments.results / "papers.json").unlink(missing_ok=True)
        if there is None:
            there = sum(plan.cell_path(job, arguments.results).exists() for job in planned["jobs"])
        console.print(f"{len(planned['jobs'])} runs, {seeds.expected_s(planned) / 60:.0f} min on two "
                      f"cores if none is there yet; with more seeds {seeds.BUDGET_S / 60:.0f} at most")
        try:
            workflow.run(planned, arguments.results, console, arguments.cores, arguments.profile)
        except LabError:
            report_now(arguments)       # of what is there
            raise
        data = report.read(arguments.results)
        found = results.Results(planned, chosen, arguments.results)
        extra = seeds.more(found, data)
        if not extra:
            return found, data, there
        more |= extra


def _shown(path: Path) -> Path:
    return path.relative_to(TOP) if path.is_relative_to(TOP) else path


def report_now(arguments) -> int:
    planned = plan.read(arguments.results)
    chosen = experiment.load_all(planned["papers"])
    about = {"kernel": planned["image"]["release"], "emulator": f"QEMU {machine.qemu_version()}",
             "seeds": planned["seeds"], "date": datetime.date.today().isoformat(),
             "commit": report.commit()}
    found = results.Results(planned, chosen, arguments.results)
    report.write(found, about, arguments.results)
    print(f"report: {_shown(arguments.results / 'index.html')}")
    for name, cells in found.changed.items():
        print(f"papers: {name}: the runs of {len(cells)} cells are not what its data file describes "
              "now, and are left out: make papers", file=sys.stderr)
    if planned.get("code") != plan.code_digest():
        print("papers: the runs were measured by other code than this: make papers", file=sys.stderr)
        return 1
    return 1 if found.changed else 0


def show_list(arguments, console: Console) -> int:
    chosen = experiment.load_all(arguments.paper or list(experiment.PAPERS))
    planned = plan.make(chosen, Lab(arguments.kernel, plan.EXTRAS), arguments.seeds)
    for one in chosen:
        jobs = {job for entry in planned["cells"][one.id] for job in entry["jobs"]}
        expected = sum(planned["jobs"][job]["expected_wall_s"] for job in jobs)
        console.print(f"{one.id}: {one.title}: {len(one.cells)} cells, {len(jobs)} runs, "
                      f"{expected:.0f} s on one core")
    console.print(f"{len(planned['jobs'])} runs in all, {seeds.expected_s(planned) / 60:.0f} min on two "
                  f"cores; then more seeds where chance leaves a verdict open, up to "
                  f"{seeds.BUDGET_S / 60:.0f} min in all")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m bench.papers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paper", action="append", choices=list(experiment.SETS),
                        help="only this one, or satcc for its goals; may be given more than once")
    parser.add_argument("--seeds", type=int, default=1,
                        help="runs of what depends on the seed to begin with (1)")
    parser.add_argument("--kernel", default="6.1", help="series of the packaged kernel: 6.1 or 6.12")
    parser.add_argument("--profile", help="a Snakemake profile: where and how jobs run")
    parser.add_argument("--cores", type=int, help="of this machine to use (all)")
    parser.add_argument("--results", type=Path, default=plan.RESULTS, help="folder for what is made")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="what there is to run")
    commands.add_parser("link", help="hold the link against what it is said to do")
    commands.add_parser("report", help="write the report of what is there")
    one = commands.add_parser("cell", help="one job of the plan")
    one.add_argument("job")
    arguments = parser.parse_args()
    arguments.results = arguments.results.resolve()
    if arguments.seeds < 1:
        parser.error("--seeds: at least 1")
    console = Console(highlight=False, soft_wrap=True)
    return status_of("papers", lambda: work(arguments, console))


def work(arguments, console: Console) -> int:
    if arguments.command == "cell":
        cell.play(arguments.job, arguments.results)
        return 0
    if arguments.command == "link":
        cell.calibrate_link(arguments.results)
        return 0
    if arguments.command == "report":
        return report_now(arguments)
    if arguments.command == "list":
        return show_list(arguments, console)
    return make(arguments, console)


if __name__ == "__main__":
    sys.exit(main())
