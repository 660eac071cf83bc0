# SPDX-License-Identifier: GPL-2.0
"""The plan: the runs that the experiments need, as a file that the workflow's jobs read.

A job is one run with all its measures.  Its name is a hash of the run's inputs (Lab.identity) and of the
code and names of the measures.  So cells that need the same run share it, and a job whose file exists is
not done again.
"""

import dataclasses
import hashlib
import json
from pathlib import Path

from ..errors import LabError
from ..lab import image
from ..lab.play import Lab
from ..paths import TOP
from ..scenario import scenario
from ..scenario.scenario import Scenario
from .experiment import Cell, Experiment

RESULTS = TOP / "results" / "papers"
# Parts that the image of every experiment has beside the base image.
EXTRAS = ("papers",)

# Expected wall seconds of a job on one of two busy cores: fixed for a Python process, restore and
# set-up, and per data packet that is captured and read.  With these the expected time of 599 runs and
# the link is the measured one, 55 minutes on two cores.
FIXED_WALL_S = 4.8
PACKET_WALL_S = 0.0008


# A measured value depends on the code of these packages.
MEASURING = ("bench/scenario", "bench/lab", "bench/record", "bench/measure", "bench/oracle")


def extras(experiments: list[Experiment]) -> tuple[str, ...]:
    """The parts of the image for these experiments, beside the base image; all share one image."""
    needed = {name for experiment in experiments for cell in experiment.cells if cell.scenario
              for name in cell.scenario.extras}
    return (*EXTRAS, *sorted(needed - set(EXTRAS)))


def measure_key(name: str, arguments: dict) -> str:
    """The key of a measured value in a job's file."""
    return json.dumps([name, arguments], sort_keys=True)


def measures(experiment: Experiment) -> list[str]:
    """The keys of an experiment's measures of each run."""
    wanted = [measure_key(experiment.metric, experiment.arguments)]
    wanted += [measure_key(figure.metric, figure.arguments)
               for figure in experiment.figures if figure.kind == "series"]
    return wanted


def code_digest() -> str:
    """SHA-256 of the code that plays and measures; a kept value is current if it has this digest."""
    return image.digest([TOP / "bench/papers/cell.py", *(
        path for package in MEASURING for path in (TOP / package).glob("*.py"))])


def expected_wall_s(played: Scenario) -> float:
    """The expected wall time of a job on one core, s."""
    size = sum(flow.bytes or sum(flow.objects) for flow in played.flows)
    seconds = max((flow.seconds for flow in played.flows), default=0)
    if seconds and played.bottleneck:
        # Loss keeps most senders far below the link's rate.
        share = 3 if any(hop.forward.loss_pct or hop.forward.errors for hop in played.hops) else 1
        size += seconds * played.net_rate_bps / 8 / share
    return FIXED_WALL_S + size / played.mss * PACKET_WALL_S


def first_seeds(experiment: Experiment, cell: Cell, seeds: int | None) -> int:
    """The number of a cell's seeds in the first round.  seeds: as for make()."""
    return (seeds or experiment.seeds) if experiment.is_random(cell) else 1


def table_of(experiment: Experiment, cell: Cell, seed: int) -> dict:
    """A cell's scenario, as a table, with one of its seeds (0: the first)."""
    return {"title": experiment.id, **cell.table, "seed": cell.scenario.seed + seed}


def make(experiments: list[Experiment], lab: Lab, seeds: int | None = None, more: dict | None = None,
         asked: list[str] | None = None) -> dict:
    """The plan as JSON has it: the papers, the jobs, and each cell's jobs.

    seeds: number of seeds of each random cell; None: the experiment's own.
    more: the scenario's digest -> a larger number of seeds.
    asked: the names by which experiment.load_all() gives the experiments; None: their papers'.
    """
    more = more or {}
    asked = asked or list(dict.fromkeys(experiment.paper for experiment in experiments))
    code = code_digest()
    by_run: dict[str, dict] = {}
    cells: dict[str, list] = {}
    for experiment in experiments:
        cells[experiment.id] = []
        for cell in experiment.cells:
            runs = []
            if cell.scenario and not cell.formula:
                for seed in range(max(first_seeds(experiment, cell, seeds), more.get(cell.digest, 0))):
                    table = table_of(experiment, cell, seed)
                    played = scenario.from_dict(table, experiment.id)
                    run = lab.identity(played, {})
                    job = by_run.setdefault(run, {
                        "table": table, "expected_wall_s": expected_wall_s(played), "measures": []})
                    job["measures"] += [key for key in measures(experiment)
                                        if key not in job["measures"]]
                    runs.append(run)
            cells[experiment.id].append({"labels": cell.labels, "runs": runs})
    names = {run: hashlib.sha256(json.dumps([run, code, sorted(job["measures"])]).encode()
                                 ).hexdigest()[:16] for run, job in by_run.items()}
    for own in cells.values():
        for cell in own:
            cell["jobs"] = [names[run] for run in cell.pop("runs")]
    return {"papers": asked, "seeds": seeds or max(one.seeds for one in experiments), "code": code,
            "image": _image_dict(lab.image), "link": link_name(lab),
            "jobs": {names[run]: job for run, job in by_run.items()}, "cells": cells}


def changed(planned: dict, experiments: list[Experiment]) -> dict[str, list[dict]]:
    """Experiment -> labels of the cells that no longer agree with the plan.

    Since the plan was made, the data file has changed their scenario or measure, or added them.
    """
    labels_of: dict[str, list[dict]] = {}
    for experiment in experiments:
        entries = {tuple(entry["labels"].items()): entry["jobs"]
                   for entry in planned["cells"].get(experiment.id, [])}
        for cell in experiment.cells:
            jobs = entries.get(tuple(cell.labels.items()))
            runs = bool(cell.scenario and not cell.formula)
            if jobs is None or bool(jobs) != runs or not all(
                    _is_of(planned["jobs"][job], experiment, cell, seed)
                    for seed, job in enumerate(jobs)):
                labels_of.setdefault(experiment.id, []).append(cell.labels)
    return labels_of


def _is_of(job: dict, experiment: Experiment, cell: Cell, seed: int) -> bool:
    """Whether the job is a cell's run with one of its seeds.  Two tables may describe the same job."""
    if not set(measures(experiment)) <= set(job["measures"]):
        return False
    wanted, listed = table_of(experiment, cell, seed), job["table"]
    return {**wanted, "title": ""} == {**listed, "title": ""} or \
        scenario.from_dict(wanted, experiment.id).digest() == scenario.from_dict(listed, "plan").digest()


def _image_dict(built: image.Image) -> dict:
    fields = dataclasses.asdict(built)
    return {**fields, "vmlinuz": str(built.vmlinuz.relative_to(TOP)),
            "initramfs": str(built.initramfs.relative_to(TOP)), "extras": list(built.extras)}


def image_of(plan: dict) -> image.Image:
    """The image of the plan, so that its jobs do not build it again."""
    fields = plan["image"]
    return image.Image(fields["release"], TOP / fields["vmlinuz"], TOP / fields["initramfs"],
                       fields["identity"], tuple(fields["extras"]), fields["layouts"])


def link_name(lab: Lab) -> str:
    """Name of the file with the link's calibration: a hash of the image and of the code."""
    inputs = [lab.image.identity, code_digest()]
    return f"link-{hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]}"


def link_path(plan: dict, folder: Path = RESULTS) -> Path:
    return folder / f"{plan['link']}.json"


def cell_path(job: str, folder: Path = RESULTS) -> Path:
    return folder / "cells" / f"{job}.json"


def write(plan: dict, folder: Path = RESULTS) -> Path:
    path = folder / "plan.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(plan, indent=1) + "\n")
    part.rename(path)
    return path


def read(folder: Path = RESULTS) -> dict:
    try:
        return json.loads((folder / "plan.json").read_text())
    except FileNotFoundError:
        raise LabError(f"no plan in {folder}; `make papers` writes it") from None
