# SPDX-License-Identifier: GPL-2.0
"""Forget runs that nothing will ask for again: of an image, emulator or format that are no longer the
current ones.

A change of any byte in the guest makes a new image, for which every run is played anew.  The old ones
stay, since whoever goes back to that commit finds them, until this is called.
"""

import json
import shutil
from pathlib import Path

from ..errors import LabError
from ..paths import BUILD
from ..record.run import FORMAT, META
from . import image, machine


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _meta(folder: Path) -> dict:
    try:
        return json.loads((folder / META).read_text())
    except (OSError, ValueError):
        return {}


def _current(series: str, extras: tuple[str, ...]) -> str | None:
    """The identity that an image has now; None: it cannot be built."""
    try:
        return image.build(series, extras=extras).identity
    except LabError:
        return None


def is_current(meta: dict, images: dict) -> bool:
    """Would a run be found?  images: (series, extras) -> identity, filled in as it is needed."""
    if meta.get("format") != FORMAT or meta["machine"] != machine.emulator():
        return False
    kind = (".".join(meta["kernel"].split(".")[:2]), tuple(meta["extras"]))
    if kind not in images:
        images[kind] = _current(*kind)
    return meta["image"] == images[kind]


def runs(images: dict) -> list[Path]:
    """Folders of runs that nothing would find."""
    return [folder for folder in sorted((BUILD / "runs").glob("??/*"))
            if folder.is_dir() and not folder.name.startswith("part-")
            and not is_current(_meta(folder), images)]


def prune() -> tuple[int, int]:
    """Remove them.  Returns (how many, bytes)."""
    old = runs({})
    size = sum(map(_size, old))
    for folder in old:
        shutil.rmtree(folder)
    return len(old), size
