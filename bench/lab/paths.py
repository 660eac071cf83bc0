# SPDX-License-Identifier: GPL-2.0
"""Where things are.  Everything the lab makes is under build/, so removing that folder undoes it."""

import contextlib
import fcntl
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / "build"
GUEST = Path(__file__).resolve().parent / "guest"


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
