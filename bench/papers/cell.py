# SPDX-License-Identifier: GPL-2.0
"""A job of the plan: play a run, measure it, check its windows, and write the values."""

import dataclasses
import hashlib
import json
import math
import time
from pathlib import Path

from .. import oracle
from ..errors import LabError
from ..lab.play import Lab
from ..measure import calibrate, facts, metrics
from ..paths import TOP
from ..record.run import Run
from ..scenario import scenario
from . import plan
from .experiment import Cell, Experiment


def calibrate_link(folder: Path = plan.RESULTS) -> Path:
    """Calibrate every kind of stage; the file has one row for each figure."""
    planned = plan.read(folder)
    rows = calibrate.rows(Lab(prebuilt=plan.image_of(planned)), calibrate.FULL)
    return write(plan.link_path(planned, folder), rows)


def write(path: Path, content) -> Path:
    """Write a file, which appears when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.rename(path)
    return path


def play(job: str, folder: Path = plan.RESULTS) -> Path:
    """Do a job, and return the path of its file, which appears when it is complete."""
    planned = plan.read(folder)
    if job not in planned["jobs"]:
        raise LabError(f"the plan has no job {job}")
    began = time.monotonic()
    entry = planned["jobs"][job]
    run = Lab(prebuilt=plan.image_of(planned)).run(scenario.from_dict(entry["table"], job),
                                                   may_miss=True)
    content = {"job": job, **measured(run, entry["measures"]),
               "wall_s": time.monotonic() - began, "expected_wall_s": entry["expected_wall_s"]}
    return write(plan.cell_path(job, folder), content)


def value_of(lab: Lab, experiment: Experiment, cell: Cell, seed: int):
    """Play a cell with one of its seeds (0: the first).  Returns (the experiment's value, the run)."""
    run = lab.run(scenario.from_dict(plan.table_of(experiment, cell, seed), experiment.id),
                  may_miss=True)
    return _plain(metrics.find(experiment.metric)(run, **experiment.arguments)), run


def measured(run: Run, keys: list[str]) -> dict:
    """All numbers of a run for the report.  keys: plan.measure_key() of each measure."""
    values = {}
    for key in keys:
        name, arguments = json.loads(key)
        values[key] = _plain(metrics.find(name)(run, **arguments))
    return {"values": values, "facts": _plain(facts.of_run(run)), "oracle": oracle_report(run),
            "hash": _hash(run), "folder": str(run.folder.relative_to(TOP)), "kernel": run.meta["kernel"],
            "emulator": run.meta["emulator"], "modules": run.meta["modules"],
            "seed": run.scenario.seed, "from_cache": run.from_cache}


def _hash(run: Run) -> str:
    """SHA-256 over a run's captures and trace, if any, and over its flows' results and its queues'
    counters."""
    names = sorted(path.name for path in run.folder.iterdir()
                   if path.name.startswith(("flow-", "qdisc-")))
    total = hashlib.sha256(run.hash.encode())
    for name in names:
        total.update(name.encode() + b"\0" + run.read(name))
    return total.hexdigest()


def oracle_report(run: Run) -> dict:
    """The oracle's report on a run, for JSON."""
    report = oracle.check(run)
    return {"counts": {policy: dataclasses.asdict(count) for policy, count in report.counts.items()},
            "differences": [str(difference) for difference in report.differences],
            "unchecked": report.unchecked}


def _plain(value):
    """A copy with numbers for JSON, rounded to nine digits.  Raises LabError for inf and nan."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            raise LabError(f"a metric returned {value}")
        return float(f"{value:.9g}")
    return value
