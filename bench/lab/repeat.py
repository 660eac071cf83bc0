# SPDX-License-Identifier: GPL-2.0
"""Store jobs for inspection, and repeat them.

    build/failed/<identity>/job/        the job of a failed run; `run` is the script
    build/failed/<identity>/out/        the files of /run/out, if the guest sent them
    build/failed/<identity>/console.log
    build/failed/<identity>/about.json  the error, and the image

`bench run --keep` stores the job of a run that did not fail in build/kept/<identity>/.
"""

import json
import shutil
from pathlib import Path

from rich.console import Console

from ..errors import LabError
from ..paths import BUILD, TOP
from . import debug, image, machine, packages

KEPT = 20               # failed runs; the oldest are removed


def _write(folder: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _store(folder: Path, guest: image.Image, job: dict[str, bytes], results: dict[str, bytes],
           console: bytes, error: str) -> None:
    _write(folder / "job", job)
    _write(folder / "out", results)
    (folder / "console.log").write_bytes(console)
    about = {"error": error, "kernel": guest.release, "extras": list(guest.extras),
             "image": guest.identity}
    (folder / "about.json").write_text(json.dumps(about, indent=1))


def keep(identity: str, guest: image.Image, job: dict[str, bytes], results: dict[str, bytes]) -> Path:
    """Store a run that did not fail, and return its folder.

    results: the run's files, with console.log.
    """
    folder = BUILD / "kept" / identity[:16]
    files = dict(results)
    _store(folder, guest, job, files, files.pop("console.log"), "")
    return folder


def keep_failed(identity: str, guest: image.Image, job: dict[str, bytes], console: Path,
                error: LabError) -> Path:
    """Store a failed run, and return its folder.  Removes all but the last KEPT failed runs."""
    folder = BUILD / "failed" / identity[:16]
    _store(folder, guest, job, error.files, console.read_bytes() if console.exists() else b"",
           str(error))
    kept = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)
    for old in kept[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def again(folder: Path, console: Console, gdb: bool = False) -> int:
    """Play a stored job again, on an image built from the present tree.

    The run's files are in out/ afterwards, as far as there are any.
    gdb: wait for gdb first.
    Returns the exit status 0.  Raises LabError if the script ends with an error.
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
        stub = debug.announce(now, console) if gdb else None
        state = machine.snapshot(now, recorded=not gdb)
        results = machine.run_job(state, job, log, stub=stub).files
    except LabError as error:
        _write(folder / "out", error.files)
        raise
    _write(folder / "out", results)
    shown = folder.relative_to(TOP) if folder.is_relative_to(TOP) else folder
    console.print(f"the script ended without an error; files: {shown}/out, console: {shown}/again.log",
                  soft_wrap=True)
    return 0
