# SPDX-License-Identifier: GPL-2.0
"""Try every kernel of kernels.toml, and write the table of bench/matrix/README.md.

Results are kept, so an interrupted command resumes.  With names of series, only these kernels are tried,
and the table is printed and not written.
"""

import argparse

from ..errors import LabError
from ..paths import TOP
from ..status import commit, status_of


def work(arguments) -> int:
    """Try the kernels.  The imports are here because they are slow, and --help needs none."""
    from rich.console import Console

    from ..lab import machine
    from . import kernels, results, table
    console = Console(highlight=False)
    matrix = kernels.load()
    chosen = kernels.chosen(matrix, arguments.series)
    failed = []

    def tell(series, name, cell, was_kept):
        console.print(f"{series}: {name}: {cell}" + (" (kept)" if was_kept else ""), soft_wrap=True,
                      markup=False)

    def missing(series, reason):
        failed.append(series)
        console.print(f"{series}: no row: {reason}", soft_wrap=True, markup=False)

    rows = results.rows(matrix, [kernel.series for kernel in chosen], arguments.fresh, tell, missing)
    if not rows:
        raise LabError("no kernel could be tested")
    console.print(table.table(rows), soft_wrap=True, markup=False)
    if not arguments.series:
        page = table.PAGE
        page.write_text(table.written(page.read_text(), rows,
                                      f"QEMU {machine.qemu_version()}", commit()))
        console.print(f"table: {page.relative_to(TOP)}")
    return min(len(failed), 1)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m bench matrix", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("series", nargs="*", help="kernels of kernels.toml (all)")
    parser.add_argument("--fresh", action="store_true", help="ignore kept results")
    arguments = parser.parse_args(words)
    return status_of("matrix", lambda: work(arguments))
