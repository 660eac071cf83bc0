# SPDX-License-Identifier: GPL-2.0
"""The matrix's results: one file for each cell, valid until the kernel or one of its sources changes."""

import datetime
import json
import os
from pathlib import Path

from ..errors import LabError
from ..lab import image, machine
from ..lab.packages import manifest
from ..paths import BUILD
from . import others
from .checks import CHECKS, Check, Finding, Kernel

OK = "ok"


def key(kernel: Kernel, check: Check) -> str:
    """Hash of all inputs of a result: packages of kernel and compiler, emulator, sources."""
    tree = BUILD / "kernels" / kernel.release / "image"
    return image.key_of(check.name, kernel.series, kernel.release, manifest(tree),
                        manifest(kernel.root), machine.emulator(), image.digest(check.files()))


def _path(kernel: Kernel, check: Check) -> Path:
    name = check.name.replace(" ", "-")
    return BUILD / "matrix" / "results" / kernel.release / f"{name}-{key(kernel, check)}.json"


def kept(path: Path) -> dict | None:
    """The kept result in a file, or None."""
    try:
        entry = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return entry if {"cell", "date"} <= set(entry) else None


def keep(path: Path, cell: str) -> dict:
    path.parent.mkdir(parents=True, exist_ok=True)
    entry = {"cell": cell, "date": datetime.date.today().isoformat()}
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(entry))
    part.rename(path)
    return entry


def answer(kernel: Kernel, check: Check, fresh: bool = False) -> tuple[dict, bool]:
    """The result of a check, and whether it was kept.

    An error that is not a Finding, such as a host without a network, is no result.
    """
    path = _path(kernel, check)         # its name has the sources before the check runs
    if not fresh and (entry := kept(path)):
        return entry, True
    try:
        note = check.ask(kernel)
        cell = f"{OK}: {note}" if note else OK
    except Finding as finding:
        cell = str(finding)
    return keep(path, cell), False


def row(matrix, series: str, fresh: bool, tell) -> dict:
    """A kernel's row.  tell: called with each cell when it is known, and whether it was kept."""
    kernel = others.kernel(matrix, series)
    cells, dates = {}, []
    for check in CHECKS:
        if check.name in kernel.without:
            cells[check.name] = kernel.without[check.name]
            continue
        if check.needs and cells[check.needs] != OK:
            cells[check.name] = f"not asked: {check.needs} failed"
            continue
        entry, was_kept = answer(kernel, check, fresh)
        cells[check.name] = entry["cell"]
        dates.append(entry["date"])
        tell(series, check.name, entry["cell"], was_kept)
    return {"series": series, "release": kernel.release, "compiler": kernel.compiler,
            "date": min(dates), "cells": cells}


def rows(matrix, series: list[str], fresh: bool, tell, missing) -> list[dict]:
    """A row for each available kernel.  missing: called with the series of each other one, and why."""
    table = []
    for name in series:
        try:
            table.append(row(matrix, name, fresh, tell))
        except LabError as error:
            missing(name, str(error))
    return table
