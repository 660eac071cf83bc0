# SPDX-License-Identifier: GPL-2.0
"""The matrix's results: one file a cell, kept until the kernel or a source it depends on changes."""

import datetime
import json
import os
from pathlib import Path

from ..errors import LabError
from ..lab import image, machine
from ..lab.packages import manifest
from ..paths import BUILD
from . import checks
from .checks import CHECKS, Check, Finding, Kernel

OK = "ok"


def key(kernel: Kernel, check: Check) -> str:
    """Hash of everything that decides a result: packages of kernel and compiler, emulator, sources."""
    tree = BUILD / "kernels" / kernel.release / "image"
    return image.key_of(check.name, kernel.series, kernel.release, manifest(tree),
                        manifest(kernel.root), machine.emulator(), image.digest(check.files()))


def _path(kernel: Kernel, check: Check) -> Path:
    name = check.name.replace(" ", "-")
    return BUILD / "matrix" / "results" / kernel.release / f"{name}-{key(kernel, check)}.json"


def kept(path: Path) -> dict | None:
    """A kept result."""
    try:
        found = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    return found if {"cell", "date"} <= set(found) else None


def keep(path: Path, cell: str) -> dict:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"cell": cell, "date": datetime.date.today().isoformat()}
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(found))
    part.rename(path)
    return found


def answer(kernel: Kernel, check: Check, fresh: bool = False) -> tuple[dict, bool]:
    """The answer to a check, and whether it was kept.  An error that is no Finding, such as a host
    without a network, is nobody's cell and ends the command."""
    path = _path(kernel, check)         # of the sources as they are when it is asked
    if not fresh and (found := kept(path)):
        return found, True
    try:
        check.ask(kernel)
        cell = OK
    except Finding as finding:
        cell = str(finding)
    return keep(path, cell), False


def row(matrix, series: str, fresh: bool, tell) -> dict:
    """A kernel's row.  tell: called with each cell as it is known, and whether it was kept."""
    kernel = checks.Kernel(matrix, series)
    cells, dates = {}, []
    for check in CHECKS:
        if check.needs and cells[check.needs] != OK:
            cells[check.name] = f"not asked: {check.needs} failed"
            continue
        found, was_kept = answer(kernel, check, fresh)
        cells[check.name] = found["cell"]
        dates.append(found["date"])
        tell(series, check.name, found["cell"], was_kept)
    return {"series": series, "release": kernel.release, "compiler": kernel.compiler,
            "date": min(dates), "cells": cells}


def rows(matrix, series: list[str], fresh: bool, tell, missing) -> list[dict]:
    """A row for each kernel that can be had.  missing: called with another's series, and why."""
    found = []
    for name in series:
        try:
            found.append(row(matrix, name, fresh, tell))
        except LabError as error:
            missing(name, str(error))
    return found
