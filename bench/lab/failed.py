# SPDX-License-Identifier: GPL-2.0
"""Runs that failed: each one's job, its console and the files that it left, to look at and to repeat.

    build/failed/<identity>/job/        what the guest was given; `run` is the script
    build/failed/<identity>/out/        what it left in /run/out, if it came to that
    build/failed/<identity>/console.log
    build/failed/<identity>/about.json  the error, and the image
"""

import json
import shutil
from pathlib import Path

from rich.console import Console

from ..errors import LabError
from ..paths import BUILD, TOP
from . import image, machine, packages

KEPT = 20               # those that failed last


def _write(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def keep(identity: str, of: image.Image, job: dict[str, bytes], console: Path, error: LabError) -> Path:
    """Store a failed run; its folder.  Those that failed longest ago go."""
    folder = BUILD / "failed" / identity[:16]
    _write(folder / "job", job)
    _write(folder / "out", error.files)
    (folder / "console.log").write_bytes(console.read_bytes() if console.exists() else b"")
    about = {"error": str(error), "kernel": of.release, "extras": list(of.extras), "image": of.identity}
    (folder / "about.json").write_text(json.dumps(about, indent=1))
    kept = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
    for old in kept[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def again(folder: Path, console: Console) -> int:
    """Play a failed run's job again, on the image that the tree makes now.  Its exit status is 0 if the
    script ends without an error; what it leaves is in out/ then."""
    try:
        about = json.loads((folder / "about.json").read_text())
        job = {path.name: path.read_bytes() for path in (folder / "job").iterdir()}
    except (OSError, ValueError, KeyError):
        raise LabError(f"{folder}: no folder of a failed run (build/failed/...)") from None
    now = image.build(packages.series_of(about["kernel"]), extras=tuple(about["extras"]))
    if now.identity != about["image"]:
        console.print("the image is another one than when the run failed: its packets differ")
    log = folder / "again.log"
    try:
        left = machine.run_job(machine.snapshot(now), job, log).files
    except LabError as error:
        _write(folder / "out", error.files)
        raise
    _write(folder / "out", left)
    shown = folder.relative_to(TOP) if folder.is_relative_to(TOP) else folder
    console.print(f"the script ended without an error; files: {shown}/out, console: {shown}/again.log")
    return 0
