# SPDX-License-Identifier: GPL-2.0
"""python3 -m bench papers: play the papers' experiments and write the report."""

import argparse
import importlib
import sys
import types
from pathlib import Path

from ..status import status_of

BUDGET_MIN = 80


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m bench papers",
        description="Play the papers' experiments and write the report. Without a command, play all "
                    "of them.")
    parser.add_argument("--paper", action="append", metavar="FOLDER[/NAME]",
                        help="only this folder of bench/scenarios, or one experiment of it with those "
                             "that it is computed from; may be given more than once")
    parser.add_argument("--seeds", type=int,
                        help="seeds in the first round (the experiment's own number, or 1)")
    parser.add_argument("--budget", type=int, metavar="MINUTES", default=BUDGET_MIN,
                        help="expected minutes on two cores up to which later rounds play more seeds "
                             f"({BUDGET_MIN})")
    parser.add_argument("--kernel", default="6.1", help="series of the packaged kernel: 6.1 or 6.12")
    parser.add_argument("--profile", help="Snakemake profile that says where and how jobs run")
    parser.add_argument("--cores", type=int, help="number of this machine's cores to use (all)")
    parser.add_argument("--results", type=Path,
                        help="folder for the results (results/papers)")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("list", help="list experiments, their cells and runs, and the time they take")
    commands.add_parser("link", help="calibrate the emulated link (Snakemake calls this)")
    commands.add_parser("report", help="write the report from the runs so far")
    play = commands.add_parser("play", help="play one experiment, or only the cells with these labels")
    play.add_argument("experiment", help="its name as `list` prints it: marchese/table1")
    play.add_argument("label", nargs="*", help="only cells with this label: AXIS=LABEL")
    play.add_argument("--seed", type=int, default=0, help="index of the seed (0: the first)")
    one = commands.add_parser("cell", help="play one job of the plan (Snakemake calls this)")
    one.add_argument("job", help="name of the job in plan.json")
    windows = commands.add_parser("windows", help="play the cells of the pack's policies with the "
                                  "logger on, and recompute their windows")
    windows.add_argument("--policy", action="append", metavar="NAME",
                         help="only cells with a flow of this policy; may be given more than once")
    arguments = parser.parse_args(words)
    if arguments.seeds is not None and arguments.seeds < 1:
        parser.error("--seeds: at least 1")
    return status_of("papers", lambda: work(arguments))


def import_later(name: str) -> None:
    """Import a module only when an attribute of it is used, also where code names it in an import."""
    def attribute(wanted: str):
        if sys.modules.get(name) is stand_in:
            if wanted.startswith("__"):         # the import statement asks for some
                raise AttributeError(wanted)
            del sys.modules[name]
        return getattr(importlib.import_module(name), wanted)

    stand_in = types.ModuleType(name)
    stand_in.__getattr__ = attribute
    sys.modules.setdefault(name, stand_in)


def work(arguments) -> int:
    """Do what the arguments ask.  The imports are here because they are slow: --help needs none, the
    list no numpy, and a job not those that draw and judge."""
    from rich.console import Console
    console = Console(highlight=False, soft_wrap=True)
    if arguments.command == "list":
        import_later("numpy")
        from . import listing
        return listing.show(arguments, console)

    if arguments.command == "windows":
        from . import windows
        return windows.make(arguments, console)

    from . import cell, plan, play
    arguments.results = (arguments.results or plan.RESULTS).resolve()
    if arguments.command == "cell":
        cell.play(arguments.job, arguments.results)
        return 0
    if arguments.command == "link":
        cell.calibrate_link(arguments.results)
        return 0
    if arguments.command == "play":
        return play.play_cells(arguments, console)
    from . import rounds
    if arguments.command == "report":
        return rounds.report_now(arguments)
    return rounds.make(arguments, console)
