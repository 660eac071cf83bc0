# SPDX-License-Identifier: GPL-2.0
"""python3 -m bench papers: run the papers' experiments again and report.

    play NAME    play one experiment or cell, and print the value and the paper's value
    list         list experiments, their cells and runs, and the time they take
    link         calibrate the emulated link (Snakemake calls this)
    cell JOB     play one job of the plan (Snakemake calls this)
    report       write the report from the runs so far
"""

import argparse
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
from ..status import status_of
from . import cell, experiment, plan, report, results, seeds, tables, workflow


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
                      f"cores if none is kept; with more seeds at most {seeds.BUDGET_S / 60:.0f} min")
        try:
            workflow.run(planned, arguments.results, console, arguments.cores, arguments.profile)
        except LabError:
            report_now(arguments)       # with the runs that are done
            raise
        data = report.read(arguments.results)
        measured = results.Results(planned, chosen, arguments.results)
        extra = seeds.more(measured, data)
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
             "commit": report.commit()}
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


def show_list(arguments, console: Console) -> int:
    chosen = experiment.load_all(arguments.paper)
    runs = {}                   # expected wall seconds of each, by the scenario's digest and its seed
    for one in chosen:
        own = {(cell.digest, seed): plan.expected_wall_s(cell.scenario)
               for cell in one.cells if cell.scenario and not cell.formula
               for seed in range(arguments.seeds if one.random else 1)}
        console.print(f"{one.id}: {one.title}: {len(one.cells)} cells, {len(own)} runs, "
                      f"{sum(own.values()):.0f} s on one core")
        runs |= own
    console.print(f"{len(runs)} runs in all, {seeds.on_two_cores_s(runs.values()) / 60:.0f} min on two "
                  f"cores; then more seeds where chance leaves a verdict open, up to "
                  f"{seeds.BUDGET_S / 60:.0f} min in all")
    return 0


def cells_of(experiment_id: str, labels: list[str]) -> tuple[experiment.Experiment, list]:
    """An experiment by paper/name, and its cells that have all of these labels, each AXIS=LABEL."""
    paper, _, name = experiment_id.partition("/")
    chosen = [one for one in experiment.load_all([paper]) if one.name == name]
    if not chosen:
        raise LabError(f"no experiment {experiment_id}; python3 -m bench papers list prints them")
    asked = dict(label.split("=", 1) for label in labels if "=" in label)
    cells = [cell for cell in chosen[0].cells if asked.items() <= cell.labels.items()
             and cell.scenario and not cell.formula]
    if not cells or len(asked) < len(labels):
        axes = "; ".join(f"{axis.name}={' or '.join(axis.labels)}" for axis in chosen[0].axes)
        raise LabError(f"{experiment_id}: no cell with {', '.join(labels)}; its axes: {axes}")
    return chosen[0], cells


def play_cells(arguments, console: Console) -> int:
    """Play the cells that the labels name, and print each value beside the paper's."""
    chosen, cells = cells_of(arguments.experiment, arguments.label)
    lab = Lab(arguments.kernel, plan.extras([chosen]))
    for one in cells:
        value, run = cell.value_of(lab, chosen, one, arguments.seed)
        paper_value = chosen.paper_values.get(chosen.key(one))
        of_paper = f", the paper: {paper_value}" if paper_value is not None else ""
        labels = ", ".join(f"{axis}={label}" for axis, label in one.labels.items())
        console.print(f"{chosen.id}: {labels}: {value} {chosen.unit}{of_paper}; "
                      f"{run.folder.relative_to(TOP)}")
    return 0


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m bench papers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paper", action="append", metavar="FOLDER[/NAME]",
                        help="only this folder of bench/scenarios, or one experiment of it with those "
                             "that it is computed from; may be given more than once")
    parser.add_argument("--seeds", type=int, default=1,
                        help="seeds in the first round (1)")
    parser.add_argument("--kernel", default="6.1", help="series of the packaged kernel: 6.1 or 6.12")
    parser.add_argument("--profile", help="Snakemake profile that says where and how jobs run")
    parser.add_argument("--cores", type=int, help="number of this machine's cores to use (all)")
    parser.add_argument("--results", type=Path, default=plan.RESULTS, help="folder for the results")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="list experiments, their cells and runs, and the time they take")
    commands.add_parser("link", help="calibrate the emulated link")
    commands.add_parser("report", help="write the report from the runs so far")
    play = commands.add_parser("play", help="play one experiment, or only the cells with these labels")
    play.add_argument("experiment", help="as `list` prints it: marchese/table1")
    play.add_argument("label", nargs="*", help="AXIS=LABEL")
    play.add_argument("--seed", type=int, default=0, help="index of the seed (0: the first)")
    one = commands.add_parser("cell", help="play one job of the plan (Snakemake calls this)")
    one.add_argument("job")
    arguments = parser.parse_args(words)
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
    if arguments.command == "play":
        return play_cells(arguments, console)
    return make(arguments, console)
