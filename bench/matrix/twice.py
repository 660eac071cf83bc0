# SPDX-License-Identifier: GPL-2.0
"""A flow each of whose callbacks runs in a policy's module and in its BPF object, on the same socket.

satcc_twice.c compares what the two write and return, and keeps the module's.  It also plays the module
alone with longer callbacks, to show what a later time of the same decisions does to a flow.
"""

import dataclasses
import functools
import shutil
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError
from ..lab import bpf, image, packages
from ..lab.play import Lab
from ..paths import BUILD, TOP, locked
from ..record.run import Run
from ..scenario.scenario import Scenario

SOURCE = Path(__file__).with_name("satcc_twice.c")
MODULE = "satcc_twice.ko"
COMPAT = TOP / "modules/compat.h"
PARAMETERS = "/sys/module/satcc_twice/parameters"
CC, RESULTS = "twice", "twice"      # the congestion control, and the file of the run
FLAGS = ("satcc-probe", "ccflags-y")        # the lines of the project's Kbuild that compat.h needs


@functools.cache
def module(release: str) -> bytes:
    """satcc_twice.c, built for a kernel."""
    kdir = packages.headers(release)
    kbuild = "".join(line for line in (TOP / "Kbuild").read_text().splitlines(keepends=True)
                     if line.startswith(FLAGS)) + f"obj-m := {SOURCE.stem}.o\n"
    out = BUILD / "twice" / release / image.module_key(kdir, [SOURCE, COMPAT], kbuild)
    with locked("twice"):
        if not (out / "done").exists():
            shutil.rmtree(out, ignore_errors=True)
            (out / "modules").mkdir(parents=True)
            shutil.copy(SOURCE, out)
            shutil.copy(COMPAT, out / "modules")
            (out / "Kbuild").write_text(kbuild)
            image.kbuild("module twice", kdir, out)
            (out / "done").touch()
    return image.stripped(out / MODULE)


@dataclass(frozen=True)
class Twice:
    """What satcc_twice.c has counted in a run.

    calls: callback -> number of calls.
    differing: results that differed; 0: module and object wrote and returned the same in all calls.
    first: the first of them, as text.
    module_ns, object_ns: the time of a call, on the average.
    """

    calls: dict[str, int]
    differing: int
    first: str
    module_ns: float
    object_ns: float

    @property
    def total(self) -> int:
        return sum(self.calls.values())


def read(text: str) -> Twice:
    """The module's results.  Raises LabError if the flow was not compared."""
    values = dict(line.partition(" ")[::2] for line in text.splitlines())
    try:
        first, numbers = values.pop("first"), {name: int(value) for name, value in values.items()}
        differing, strangers, *times = (numbers.pop(name) for name in (
            "differing", "strangers", "module_ns", "object_ns"))
    except (KeyError, ValueError):
        raise LabError("module and object were not compared: no results") from None
    total = sum(numbers.values())
    if strangers or not numbers.get("init") or total < 2:
        raise LabError(f"module and object were not compared: {strangers} calls of other flows")
    return Twice(numbers, differing, first, *(time / total for time in times))


def _play(lab: Lab, transfer: Scenario, objects: Path, delay_ns: int, *parameters: str) -> Run:
    flow, = transfer.flows
    scenario = dataclasses.replace(transfer, flows=(dataclasses.replace(flow, cc=CC),),
                                   after=(f"cat {PARAMETERS}/results > $OUT/{RESULTS}",))
    mount, load, *ready = bpf.as_object(flow.cc, *parameters)
    first = (f"modprobe tcp_{flow.cc}", f"insmod ./{MODULE} delay={delay_ns // 100}",
             f"echo {flow.cc} > {PARAMETERS}/module", mount, load,
             f"echo {flow.cc} > {PARAMETERS}/object", *ready)
    files = {**bpf.files(objects, flow.cc), MODULE: module(lab.image.release)}
    return lab.run(scenario, files, first=first)


def both(lab: Lab, transfer: Scenario, objects: Path, *parameters: str) -> Twice:
    """Play a policy's transfer with its module and its object.  Raises LabError.

    objects: the folder with the BPF objects.
    parameters: of the object alone.
    """
    run = _play(lab, transfer, objects, 0, *parameters)
    return read((run.folder / RESULTS).read_text())


def later(lab: Lab, transfer: Scenario, objects: Path, delay_ns: int) -> Run:
    """Play a policy's transfer with its module, each of whose callbacks takes delay_ns longer.

    delay_ns: a multiple of 100, from 100 on.
    """
    return _play(lab, transfer, objects, delay_ns)
