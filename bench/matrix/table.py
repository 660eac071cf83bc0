# SPDX-License-Identifier: GPL-2.0
"""The matrix as a table of README.md beside this file."""

from pathlib import Path

from ..compare.readme import BLOCK, lines_of
from .checks import CHECKS

PAGE = Path(__file__).with_name("README.md")
NAME = "matrix"


def table(rows: list[dict]) -> str:
    """The table, with a row for each kernel.  Raises ValueError for an empty cell."""
    heads = ["kernel", "compiler", "date", *(check.name for check in CHECKS)]
    lines = [heads]
    for row in rows:
        line = [row["release"], row["compiler"], row["date"],
                *(row["cells"][check.name] for check in CHECKS)]
        if not all(line):
            raise ValueError(f"{row['release']}: an empty cell")
        lines.append(line)
    return lines_of(lines)


def source(emulator: str, commit: str | None) -> str:
    return f"\n(`make matrix`, {emulator}, commit {commit or 'unknown'}.)\n"


def written(text: str, rows: list[dict], emulator: str, commit: str | None) -> str:
    """The page's text with the new table.  Raises ValueError if it has no such table, or several."""
    def filled(block) -> str:
        begin, name, _, end = block.groups()
        if name != NAME:
            raise ValueError(f"table: {name}: not {NAME}")
        return begin + "\n" + table(rows) + source(emulator, commit) + "\n" + end

    text, count = BLOCK.subn(filled, text)
    if count != 1:
        raise ValueError(f"{PAGE.name} has {count} tables, not one")
    return text
