# SPDX-License-Identifier: GPL-2.0
"""The command line of the bench: `python3 -m bench NAME ...`; see USAGE."""

import argparse
import importlib
import os
import re
import sys
from pathlib import Path

from .paths import TOP
from .status import status_of

RESULTS = TOP / "results"
DEBIANS_PYTHON = "/usr/bin/python3"     # for which tools/setup installs packages

USAGE = """\
usage: python3 -m bench [NAME] [options]; python3 -m bench NAME --help describes one

  (none)      compare the policies: make bench
  run         play one scenario file
  again       play a job again, from its folder in build/failed or build/kept
  geo         play satellite access links: make geo
  papers      play the papers' experiments: make papers
  matrix      build, load and play the modules on several kernels: make matrix
  pairs       compare each policy's module with its BPF object: make bpf-compare
  report      draw the report of a comparison again
  readme      write the READMEs' tables, and the figures of satcc choose, from the results
  oracle      recompute every window of a kept run
  calibrate   compare the emulated link with its scenario
  boots       boot the guest many times and compare its memory after each boot
  links       write the scenario file of a hundred random links
  prune       remove kept runs of images and emulators that are no longer used

options of the comparison:
  --kernel SERIES   series of the packaged kernel: 6.1 (default), 6.12, 5.10, newest; -rt for PREEMPT_RT;
                    or a kernel of your own: FILE.deb, or VMLINUZ,FOLDER with its folder of modules
  --fresh           ignore cached runs
  --name NAME       write to results/NAME (geo)
  --long            add a 100 Mbit/s link with random loss
  --module FILE.ko, --bpf FILE.bpf.o
                    add a congestion control of your own; may be repeated; also for `run`
  --cc NAME,...     the names that these files register, if the files' own names do not tell

examples:
    python3 -m bench run bench/scenarios/geo-2mbit.toml --module tcp_foo.ko --cc foo
    python3 -m bench --module tcp_foo.ko --bpf bar.bpf.o"""

EXAMPLES = """\
your own congestion control, as a module or as a BPF object:
  python3 -m bench run bench/scenarios/geo-2mbit.toml --module tcp_foo.ko --cc foo
  python3 -m bench run bench/scenarios/geo-2mbit.toml --bpf bar.bpf.o --cc bar"""

# The module and function of each command that command_line() describes.
COMMANDS = {None: "compare.rows.run_comparison", "geo": "compare.geo.play",
            "run": "commands.run_one", "again": "commands.play_again",
            "report": "commands.draw_report", "readme": "commands.write_readmes",
            "oracle": "commands.check_runs", "calibrate": "commands.calibrate_link",
            "boots": "commands.compare_boots", "prune": "commands.forget_old"}
# The modules with main(words) of the other commands.
PROGRAMS = {"papers": "papers.command", "matrix": "matrix.command", "pairs": "matrix.pairs_command",
            "links": "scenario.links"}


class AddFile(argparse.Action):
    """Append (kind, path): --module and --bpf share one list, in the order of the command line."""

    def __call__(self, parser, namespace, value, option_string=None):
        setattr(namespace, self.dest, [*getattr(namespace, self.dest, []), (self.const, Path(value))])


def add_own_options(parser, dest: str, names: str) -> None:
    """The options that load a user's own congestion controls.

    dest: of the files; a subparser with the same one would forget those before its name.
    names: the help of --cc.
    """
    parser.add_argument("--module", action=AddFile, const="module", dest=dest, metavar="FILE.ko",
                        default=argparse.SUPPRESS,
                        help="load this module, built for the lab's kernel; may be repeated")
    parser.add_argument("--bpf", action=AddFile, const="bpf", dest=dest, metavar="FILE.bpf.o",
                        default=argparse.SUPPRESS,
                        help="load this BPF object with a congestion control; may be repeated")
    parser.add_argument("--cc", metavar="NAME[,NAME...]", default=argparse.SUPPRESS, help=names)


def add_lab_options(parser, kernel=argparse.SUPPRESS, fresh=argparse.SUPPRESS,
                    name=argparse.SUPPRESS) -> None:
    parser.add_argument("--kernel", default=kernel,
                        help="series of the packaged kernel: 6.1 (the default), 6.12, 5.10, newest; "
                             "append -rt for PREEMPT_RT; or FILE.deb, or VMLINUZ,MODULES-FOLDER")
    parser.add_argument("--fresh", action="store_true", default=fresh,
                        help="ignore cached runs")
    parser.add_argument("--name", default=name, help="folder under results/ (geo)")


def command_line() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m bench")
    parser.set_defaults(before=[], behind=[], cc=None)
    add_lab_options(parser, kernel="6.1", fresh=False, name="geo")
    add_own_options(parser, "before", "names of the congestion controls in --module and --bpf")
    parser.add_argument("--long", action="store_true", help="add a 100 Mbit/s link with random loss")
    commands = parser.add_subparsers(dest="command")
    one = commands.add_parser("run", help="play one scenario file", epilog=EXAMPLES,
                              formatter_class=argparse.RawDescriptionHelpFormatter)
    add_lab_options(one)        # also after `run`; a default here would override options before `run`
    one.add_argument("file", type=Path, help="the scenario: a file of bench/scenarios")
    one.add_argument("--seed", type=int, help="seed of the random losses, in place of the scenario's")
    add_own_options(one, "behind", "one congestion control for all flows, or one for each flow in order")
    one.add_argument("--engine", choices=("lab", "host"), default="lab",
                     help="lab: a kernel in virtual time; host: this machine, in real time")
    one.add_argument("--keep", action="store_true",
                     help="keep the guest's script and files in build/kept, for `again`")
    again = commands.add_parser(
        "again", help="play a job again, from its folder in build/failed or build/kept")
    again.add_argument("folder", type=Path, help="as the failed run's message names it")
    for each in (one, again):
        each.add_argument("--gdb", action="store_true",
                          help="wait for gdb, with the kernel's and the modules' symbols")
    geo = commands.add_parser(
        "geo", help="play transfers over satellite access links",
        description="Play transfers over satellite access links, and compare their times with "
                    "published objectives.")
    geo.add_argument("--kernel", default=argparse.SUPPRESS, help="series of the packaged kernel (6.1)")
    geo.add_argument("--fresh", action="store_true", default=argparse.SUPPRESS,
                     help="ignore cached runs")
    report = commands.add_parser("report", help="draw the report of a comparison again",
                                 description="Draw the report again from a folder's bench.json.")
    report.add_argument("folder", type=Path, help="folder with bench.json: results/geo")
    pages = commands.add_parser(
        "readme", help="write the READMEs' tables, and the figures of satcc choose, from the results")
    pages.add_argument("folder", type=Path, nargs="?", default=RESULTS,
                       help="folder with the folders geo, papers and uses of results (results/)")
    pages.add_argument("--figures", action="store_true",
                       help="write tools/satcc_operate/figures.json alone, from the tables as they are")
    oracle = commands.add_parser("oracle", help="recompute every window of a kept run")
    oracle.add_argument("folder", nargs="+", type=Path,
                        help="folder of a run: build/runs/<xx>/<identity>")
    link = commands.add_parser("calibrate", help="compare the emulated link with its scenario")
    link.add_argument("--kernel", default=argparse.SUPPRESS, help="series of the packaged kernel (6.1)")
    link.add_argument("--full", action="store_true", help="send ten times as many packets")
    link.add_argument("--json", type=Path, help="write the rows to this file")
    boots = commands.add_parser(
        "boots", help="boot the guest many times and compare its memory after each boot")
    boots.add_argument("boots", type=int, help="number of boots")
    boots.add_argument("--kernel", default=argparse.SUPPRESS, help="series of the packaged kernel (6.1)")
    boots.add_argument("--busy", type=int, default=2 * len(os.sched_getaffinity(0)),
                       help="number of processes that load the host meanwhile (%(default)s)")
    commands.add_parser("prune", help="remove kept runs of images and emulators that are no longer used")
    return parser


def work(arguments) -> int | None:
    """Do what the arguments ask.  The imports are here because they are slow, and --help needs none."""
    from rich.console import Console

    module, _, function = COMMANDS[arguments.command].rpartition(".")
    command = getattr(importlib.import_module(f"bench.{module}"), function)
    return command(arguments, Console(highlight=False))


def main(words: list[str]) -> int:
    """Run the command that the words name and return its exit status."""
    if words in (["-h"], ["--help"]):
        print(USAGE)
        return 0
    try:
        if words and words[0] in PROGRAMS:
            return importlib.import_module(f"bench.{PROGRAMS[words[0]]}").main(words[1:])
        if words and words[0] not in COMMANDS and not words[0].startswith("-"):
            print(f"bench: no command {words[0]}: python3 -m bench --help lists them", file=sys.stderr)
            return 2
        parser = command_line()
        arguments = parser.parse_args(words)
        if not re.fullmatch(r"[\w.-]*\w[\w.-]*", arguments.name):
            parser.error(f"--name {arguments.name}: letters, digits, dots and dashes only")
        return status_of("bench", lambda: work(arguments))
    except ModuleNotFoundError as error:
        if error.name.split(".")[0] in ("bench", "tools"):
            raise
        is_debians = os.path.realpath(sys.executable) == os.path.realpath(DEBIANS_PYTHON)
        mend = "run tools/setup" if is_debians else f"type {DEBIANS_PYTHON} -m bench"
        print(f"bench: {sys.executable} has no module {error.name}: {mend}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
