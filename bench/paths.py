# SPDX-License-Identifier: GPL-2.0
"""Paths, locks and scratch names.  All files of the lab are under build/; remove it to remove them."""

import contextlib
import fcntl
import os
import platform
import re
import shutil
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
BUILD = TOP / "build"
GUEST = TOP / "bench/lab/guest"


@contextlib.contextmanager
def locked(what: str):
    """A lock between the processes of this checkout, for things that all of them use."""
    folder = BUILD / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / what).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def policies() -> list[str]:
    """The names of the project's congestion controls: one for each folder with a tcp_*.c, without build
    products."""
    return sorted(path.stem.removeprefix("tcp_") for path in TOP.glob("*/tcp_*.c")
                  if not path.name.endswith(".mod.c"))


def scratch_prefix(what: str) -> str:
    """The beginning of a scratch file's or folder's name, with the process and the machine.

    The machine is part of it, since the machines of a cluster may share a checkout.
    """
    return f"{what}-{os.getpid()}-{_machine()}-"


def _machine() -> str:
    return re.sub(r"[^A-Za-z0-9.]", "_", platform.node())


def remove_abandoned(folder: Path, what: str) -> None:
    """Remove scratch files and folders of this machine's processes that ended without doing so."""
    for path in folder.glob(f"{what}-*-{_machine()}-*"):
        owner = re.fullmatch(rf"{what}-(\d+)-.*", path.name)
        if not owner or Path("/proc", owner[1]).exists():
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
