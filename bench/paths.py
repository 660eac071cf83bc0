# SPDX-License-Identifier: GPL-2.0
"""Paths.  Everything that the lab makes is under build/, so removing that folder undoes it."""

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
    """One process of this checkout at a time, for things made once and then used by all."""
    folder = BUILD / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / what).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def policies() -> list[str]:
    """The names of the pack's congestion controls: one for each folder's tcp_*.c that is no build
    product."""
    return sorted(path.stem.removeprefix("tcp_") for path in TOP.glob("*/tcp_*.c")
                  if not path.name.endswith(".mod.c"))


def scratch_prefix(what: str) -> str:
    """How the name of a scratch file or folder begins: whose it is.  Of which machine too, since a
    cluster's share a checkout."""
    return f"{what}-{os.getpid()}-{_machine()}-"


def _machine() -> str:
    return re.sub(r"[^A-Za-z0-9.]", "_", platform.node())


def remove_abandoned(folder: Path, what: str) -> None:
    """Remove scratch files and folders of processes of this machine that are gone: killed, or without
    power, they could not do it themselves."""
    for path in folder.glob(f"{what}-*-{_machine()}-*"):
        owner = re.fullmatch(rf"{what}-(\d+)-.*", path.name)
        if not owner or Path("/proc", owner[1]).exists():
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
