# SPDX-License-Identifier: GPL-2.0
"""python3 -m bench papers: run the papers' experiments again and report.

    play NAME    play one experiment or cell, and print the value and the paper's value
    list         list experiments, their cells and runs, and the time they take
    link         calibrate the emulated link (Snakemake calls this)
    cell JOB     play one job of the plan (Snakemake calls this)
    report       write the report from the runs so far
"""

import argparse
from pathlib import Path

from rich.console import Console

from ..errors import LabError
from ..lab.play import Lab
from ..paths import TOP
from ..status import status_of
from . import cell, experiment, plan


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
    parser.add_argument("--seeds", type=int,
                        help="seeds in the first round (the experiment's own number, or 1)")
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
    if arguments.seeds is not None and arguments.seeds < 1:
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
    if arguments.command == "play":
        return play_cells(arguments, console)
    from . import rounds                # slow to import, and not needed by a job
    if arguments.command == "report":
        return rounds.report_now(arguments)
    if arguments.command == "list":
        return rounds.show_list(arguments, console)
    return rounds.make(arguments, console)
