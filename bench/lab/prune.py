# SPDX-License-Identifier: GPL-2.0
"""Remove kept runs of an old image, emulator or format; and beyond a limit, those used longest ago.

A change of any byte in the guest makes a new image, and every run is played again for it.  The old runs
stay for those who go back to an older commit, until `prune` or the limit removes them.
"""

import json
import os
import shutil
from pathlib import Path

from ..errors import LabError
from ..paths import BUILD
from ..record.run import FORMAT, META
from . import image, machine, packages


LIMIT_GB = 20           # of kept runs; the environment's SATCC_RUNS_GB overrides it


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _meta(folder: Path) -> dict:
    try:
        return json.loads((folder / META).read_text())
    except (OSError, ValueError):
        return {}


def _current(series: str, extras: tuple[str, ...]) -> str | None:
    """The identity of an image built from the present tree, or None if it cannot be built."""
    try:
        return image.build(series, extras=extras).identity
    except LabError:
        return None


def is_current(meta: dict, images: dict) -> bool:
    """Whether the lab would reuse a run.

    images: (series, extras) -> identity; is_current() adds those it needs.
    """
    if meta.get("format") != FORMAT or meta["machine"] != machine.emulator():
        return False
    kind = (packages.series_of(meta["kernel"]), tuple(meta["extras"]))
    if kind not in images:
        images[kind] = _current(*kind)
    return meta["image"] == images[kind]


def runs(images: dict) -> list[Path]:
    """The folders of runs that no command would reuse.  images: is_current()'s."""
    return [folder for folder in sorted((BUILD / "runs").glob("??/*"))
            if folder.is_dir() and not folder.name.startswith("part-")
            and not is_current(_meta(folder), images)]


def prune() -> tuple[int, int]:
    """Remove the folders of runs().  Returns (number of folders, bytes)."""
    old = runs({})
    size = sum(map(_size, old))
    for folder in old:
        shutil.rmtree(folder)
    return len(old), size


def limit_bytes() -> float:
    """The limit of the kept runs in bytes.  Raises LabError if SATCC_RUNS_GB is not a size."""
    text = os.environ.get("SATCC_RUNS_GB", str(LIMIT_GB))
    try:
        size = float(text)
    except ValueError:
        size = -1
    if not 0 <= size < float("inf"):
        raise LabError(f"SATCC_RUNS_GB={text}: not a number of gigabytes")
    return size * 1e9


def keep_below(limit: float) -> tuple[int, int]:
    """Remove the runs used longest ago until the rest has at most `limit` bytes.

    Returns (number of removed runs, bytes of the rest).
    """
    kept = [(folder.stat().st_mtime, _size(folder), folder) for folder in (BUILD / "runs").glob("??/*")
            if folder.is_dir() and not folder.name.startswith("part-")]
    held, removed = sum(size for _, size, _ in kept), 0
    for _, size, folder in sorted(kept):
        if held <= limit:
            break
        shutil.rmtree(folder)
        held, removed = held - size, removed + 1
    return removed, held


def within_limit() -> str:
    """Apply the limit, and return a line with the size of the kept runs."""
    limit = limit_bytes()
    removed, held = keep_below(limit)
    oldest = f"; removed the {removed} used longest ago" if removed else ""
    return f"build/runs holds {held / 1e9:.1f} GB of at most {limit / 1e9:g} (SATCC_RUNS_GB){oldest}"
