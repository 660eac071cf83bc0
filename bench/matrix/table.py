# SPDX-License-Identifier: GPL-2.0
"""The tables of README.md beside this file: the matrix, and the pairs of module and BPF object."""

import re
from pathlib import Path

from ..compare.readme import BLOCK, lines_of
from .checks import CHECKS

PAGE = Path(__file__).with_name("README.md")
NAME, PAIRS = "matrix", "pairs"
# satcc_log prints this of a function that the kernel has no symbol for: ENOENT.
NO_SYMBOL = re.compile(r"satcc_log: cannot hook (\w+): -2\b.*")


def cell_text(cell: str) -> str:
    """A cell as the table has it.  For a kernel with which satcc_log cannot watch the windows, the cause
    in place of the messages of the module and of the script that failed."""
    return NO_SYMBOL.sub(r"no event `cwnd_changed`: this kernel has `\1` inline", cell)


def table(rows: list[dict]) -> str:
    """The matrix, with a row for each kernel.  Raises ValueError for an empty cell."""
    heads = ["kernel", "compiler", "date", *(check.name for check in CHECKS)]
    lines = [heads]
    for row in rows:
        line = [row["release"], row["compiler"], row["date"],
                *(cell_text(row["cells"][check.name]) for check in CHECKS)]
        if not all(line):
            raise ValueError(f"{row['release']}: an empty cell")
        lines.append(line)
    return lines_of(lines)


def filled(text: str, name: str, lines: str, source: str) -> str:
    """The page's text with a new table.  Raises ValueError if it has no such table, or several.

    source: how the table was made, without brackets.
    """
    if [block[2] for block in BLOCK.finditer(text)].count(name) != 1:
        raise ValueError(f"{PAGE.name} must have exactly one table {name}")

    def new_block(block) -> str:
        begin, block_name, *_, end = block.groups()
        return f"{begin}\n{lines}\n({source}.)\n\n{end}" if block_name == name else block[0]

    return BLOCK.sub(new_block, text)


def written(text: str, rows: list[dict], emulator: str, commit: str | None) -> str:
    """The page's text with a new matrix."""
    return filled(text, NAME, table(rows), f"`make matrix`, {emulator}, commit {commit or 'unknown'}")
