# SPDX-License-Identifier: GPL-2.0
"""Compare each policy's module with its BPF object on the kernels of pairs.toml, and write the table of
bench/matrix/README.md.

Runs are kept, so an interrupted command resumes.  With names of series, only these kernels are tried,
and the table is printed and not written.
"""

import argparse
import datetime

from ..paths import TOP
from ..status import commit, status_of


def work(arguments) -> int:
    """Play the pairs.  The imports are here because they are slow, and --help needs none."""
    from rich.console import Console

    from ..lab import bpf, machine, packages
    from . import pairs, table
    console = Console(highlight=False)
    plan = pairs.load()
    seeds = arguments.seeds or plan.seeds
    rows = []
    for series in arguments.series or plan.series:
        verdicts = []
        for verdict in pairs.verdicts(plan, series, seeds):
            verdicts.append(verdict)
            console.print(f"{series}: {verdict}", soft_wrap=True, markup=False)
        for link in plan.link:
            cells = [pairs.cell([verdict for verdict in verdicts if
                                 (verdict.pair.policy, verdict.pair.link) == (policy, link.name)])
                     for policy in bpf.policies()]
            rows.append([packages.kernel_release(series), link.name, *cells])
    text = table.lines_of([["kernel", "link", *bpf.policies()], *rows])
    console.print(text, soft_wrap=True, markup=False)
    if not arguments.series:
        source = (f"`make bpf-compare SEEDS={seeds}`, {datetime.date.today().isoformat()}, "
                  f"QEMU {machine.qemu_version()}, commit {commit() or 'unknown'}")
        table.PAGE.write_text(table.filled(table.PAGE.read_text(), table.PAIRS, text, source))
        console.print(f"table: {table.PAGE.relative_to(TOP)}")
    return 0


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m bench pairs", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("series", nargs="*", help="kernels (those of pairs.toml)")
    parser.add_argument("--seeds", type=int, help="play the seeds from 1 to this (those of pairs.toml)")
    arguments = parser.parse_args(words)
    return status_of("pairs", lambda: work(arguments))
