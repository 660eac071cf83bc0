# SPDX-License-Identifier: GPL-2.0
"""Jobs to look at and to repeat: those of runs that failed, and those that `bench run --keep` asks for.

    build/failed/<identity>/job/        the job that the guest was given; `run` is the script
    build/failed/<identity>/out/        the files of /run/out, if the guest sent them
    build/failed/<identity>/console.log
    build/failed/<identity>/about.json  the error, and the image

build/kept/<identity>/ has the same of a run that did not fail.
"""

import json
import shutil
from pathlib import Path

from rich.console import Console

from ..errors import LabError
from ..paths import BUILD, TOP
from . import debug, image, machine, packages

KEPT = 20               # those that failed last


def _write(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _store(folder: Path, of: image.Image, job: dict[str, bytes], left: dict[str, bytes],
           console: bytes, error: str) -> None:
    _write(folder / "job", job)
    _write(folder / "out", left)
    (folder / "console.log").write_bytes(console)
    about = {"error": error, "kernel": of.release, "extras": list(of.extras), "image": of.identity}
    (folder / "about.json").write_text(json.dumps(about, indent=1))


def keep(identity: str, of: image.Image, job: dict[str, bytes], left: dict[str, bytes]) -> Path:
    """Store a run that did not fail; its folder.

    left: the run's files, console.log among them.
    """
    folder = BUILD / "kept" / identity[:16]
    files = dict(left)
    _store(folder, of, job, files, files.pop("console.log"), "")
    return folder


def keep_failed(identity: str, of: image.Image, job: dict[str, bytes], console: Path,
                error: LabError) -> Path:
    """Store a failed run; its folder.  Those that failed longest ago go."""
    folder = BUILD / "failed" / identity[:16]
    _store(folder, of, job, error.files, console.read_bytes() if console.exists() else b"", str(error))
    kept = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
    for old in kept[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def again(folder: Path, console: Console, gdb: bool = False) -> int:
    """Play a stored job again, on the image that the tree makes now.  Its exit status is 0 if the
    script ends without an error; what it leaves is in out/ then.

    gdb: wait for gdb first.
    """
    try:
        about = json.loads((folder / "about.json").read_text())
        job = {path.name: path.read_bytes() for path in (folder / "job").iterdir()}
    except (OSError, ValueError, KeyError):
        raise LabError(f"{folder} is not the folder of a stored job (build/failed/..., build/kept/...)"
                       ) from None
    now = image.build(packages.series_of(about["kernel"]), extras=tuple(about["extras"]))
    if now.identity != about["image"]:
        console.print("the image has changed since the run, so the packets differ")
    log = folder / "again.log"
    try:
        stub = debug.announced(now, console) if gdb else None
        state = machine.snapshot(now, recorded=not gdb)
        left = machine.run_job(state, job, log, stub=stub).files
    except LabError as error:
        _write(folder / "out", error.files)
        raise
    _write(folder / "out", left)
    shown = folder.relative_to(TOP) if folder.is_relative_to(TOP) else folder
    console.print(f"the script ended without an error; files: {shown}/out, console: {shown}/again.log",
                  soft_wrap=True)
    return 0
