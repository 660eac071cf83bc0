# SPDX-License-Identifier: GPL-2.0
"""From the jobs' files to one table of values, verdicts and causes: papers.json."""

import json
import math
import statistics
from pathlib import Path

from . import metrics, plan, verdict
from .experiment import (
    NEVER, SETTINGS, Cell, Claim, Experiment, as_list, reference_of, value_of)
from .statistics import Estimate, estimate, seeds_needed

ABSENT = object()                   # a side that has nothing of a seed
NAMED = len("build/runs/00/00000000")


class Results:
    """What the jobs of a plan found, by experiment and cell."""

    def __init__(self, planned: dict, experiments: list[Experiment], folder: Path = plan.RESULTS):
        self.plan = planned
        self.experiments = {experiment.id: experiment for experiment in experiments}
        self.runs = {}
        for job in planned["jobs"]:
            path = plan.cell_path(job, folder)
            if path.exists():
                self.runs[job] = json.loads(path.read_text())
        link = plan.link_path(planned, folder)
        self.link = json.loads(link.read_text()) if link.exists() else []
        self.jobs = {(name, tuple(cell["labels"].items())): cell["jobs"]
                     for name, cells in planned["cells"].items() for cell in cells}

    def of_cell(self, experiment: Experiment, cell: Cell) -> list[dict]:
        """The runs of a cell that are done."""
        jobs = self.jobs.get((experiment.id, tuple(cell.labels.items())), [])
        return [self.runs[job] for job in jobs if job in self.runs]

    def values(self, experiment: Experiment, cell: Cell) -> list:
        """One value a seed; of what no seed changes, one."""
        return list(self.by_seed(experiment, cell).values())

    def by_seed(self, experiment: Experiment, cell: Cell) -> dict:
        """Values by seed; of what no seed changes, one by None.  A value that is None: it never came
        to that."""
        if experiment.gain:
            return self._gains(experiment, cell)
        if cell.formula:
            return {None: metrics.FORMULAS[cell.formula](cell.scenario)}
        key = plan.measure_key(experiment.metric, experiment.arguments)
        return {run["seed"] if experiment.random else None: run["values"][key]
                for run in self.of_cell(experiment, cell)}

    def estimate(self, experiment: Experiment, cell: Cell) -> Estimate | None:
        values = self.values(experiment, cell)
        if not values or None in values:
            return None
        if experiment.statistic == "max":
            return Estimate(max(values), None, len(values))
        return estimate(values, experiment.confidence_pct)

    def sides(self, experiment: Experiment, cell: Cell) -> list[tuple[Experiment, Cell]]:
        """Of a gain: the cells of its value and of its reference."""
        by_name = {other.name: other for other in self.experiments.values()
                   if other.paper == experiment.paper}
        wanted = ((experiment.gain.value["experiment"], value_of(experiment, cell.labels)),
                  (experiment.gain.reference["experiment"],
                   reference_of(experiment, by_name, cell.labels)))
        return [(by_name[name], next(by_name[name].matching(labels))) for name, labels in wanted]

    def _gains(self, experiment: Experiment, cell: Cell) -> dict:
        """A gain of each seed; one of both sides' largest values.  None where a side is not there."""
        sides = self.sides(experiment, cell)
        if any(source.statistic == "max" for source, _ in sides):
            found = [self.estimate(*side) for side in sides]
            pairs = {} if None in found else {None: tuple(side.mean for side in found)}
        else:
            pairs = by_common_seed(*(self.by_seed(*side) for side in sides))
        sign = -1 if sides[0][0].better == "more" else 1
        return {seed: sign * 100 * (reference - value) / reference
                for seed, (value, reference) in pairs.items() if value is not None and reference}

    # -- as JSON ---------------------------------------------------------------

    def as_dict(self) -> dict:
        return {"experiments": [self._experiment(experiment)
                                for experiment in self.experiments.values()],
                "runs": {job: {key: value for key, value in run.items() if key != "values"}
                         for job, run in self.runs.items()},
                "link": self.link,
                "failed": [job for job in self.plan["jobs"] if job not in self.runs]}

    def _experiment(self, experiment: Experiment) -> dict:
        return {
            "paper": experiment.paper, "name": experiment.name, "title": experiment.title,
            "source": experiment.source, "what": experiment.what, "metric": experiment.metric,
            "arguments": experiment.arguments,
            "unit": experiment.unit, "better": experiment.better, "random": experiment.random,
            "confidence_pct": experiment.confidence_pct, "precision_pct": experiment.precision_pct,
            "tolerance": _tolerance(experiment), "link": experiment.link,
            "differs": experiment.differs, "rfc5166": experiment.rfc5166,
            "rfc9743": experiment.rfc9743, "rows": experiment.rows, "columns": experiment.columns,
            "axes": {axis.name: axis.labels for axis in experiment.axes},
            "missing": [[entry.label, entry.why] for entry in experiment.missing],
            "cells": [self._cell(experiment, cell) for cell in experiment.cells],
            "claims": [self._claim(experiment, claim) for claim in experiment.claims],
        }

    def _cell(self, experiment: Experiment, cell: Cell) -> dict:
        values, found = self.values(experiment, cell), self.estimate(experiment, cell)
        runs = self.of_cell(experiment, cell)
        measured = bool(values)
        paper = None
        if cell.labels.get(SETTINGS) == experiment.of_the_time:
            paper = experiment.stated.get(experiment.key(cell))
        made = {
            "labels": cell.labels, "formula": cell.formula, "values": values,
            "mean": found.mean if found else None, "half": found.half if found else None,
            "paper": paper,
            "ratio": found.mean / paper if found and paper not in (None, 0, NEVER) else None,
            "path": _path(experiment, cell), "jobs": [run["job"] for run in runs],
            "seeds": len(values), "fitted": self._fitted(experiment, cell),
            "verdict": None, "cause": None, "seeds_needed": None}
        if experiment.precision_pct and found and experiment.random:
            made["seeds_needed"] = seeds_needed(values, experiment.confidence_pct,
                                                experiment.precision_pct, experiment.precision)
        if paper is not None and measured and not made["fitted"] \
                and not self._computed(experiment, cell):
            made["verdict"] = verdict.of_value(experiment, found, paper)
            if made["verdict"] != verdict.REPRODUCED:
                made["cause"] = self._cause(experiment, cell, found, paper)
        return made

    @staticmethod
    def _fitted(experiment: Experiment, cell: Cell) -> bool:
        """A setting was chosen by this value: that it comes out is no finding."""
        return any(all(cell.labels.get(name) in as_list(wanted) for name, wanted in labels.items())
                   for labels in experiment.fitted)

    def _computed(self, experiment: Experiment, cell: Cell) -> bool:
        """From a formula alone, which is the paper's own: that it comes to the paper's value is no
        finding."""
        if experiment.gain:
            return all(other.formula for _, other in self.sides(experiment, cell))
        return bool(cell.formula)

    def _cause(self, experiment: Experiment, cell: Cell, found: Estimate | None, paper: float) -> str:
        if experiment.gain:
            return self._of_gain(experiment, cell)
        if paper == NEVER:
            return f"Ours came to it. {self._described(experiment, cell)}"
        run = self._typical(experiment, cell)
        case = verdict.Case(paper, found.mean if found else None, experiment.better, experiment.unit,
                            run["facts"], _flow(experiment))
        which = f"Flow {case.flow} of {len(run['facts']['flows'])}: " \
            if len(run["facts"]["flows"]) > 1 else ""
        return f"{which}{verdict.cause(case)} {self._run_named(experiment, cell)}"

    def _of_gain(self, experiment: Experiment, cell: Cell) -> str:
        return verdict.of_gain([
            (f"{', '.join(label for name, label in other.labels.items() if name != SETTINGS)} in "
             f"{source.name}", self._run_named(source, other),
             found.mean if (found := self.estimate(source, other)) else None,
             source.stated.get(source.key(other)))
            for source, other in self.sides(experiment, cell)])

    def _claim(self, experiment: Experiment, claim: Claim) -> dict:
        pairs, of = [], 0
        for left, right_cell in self._pairs(experiment, claim):
            of += 1
            sides = [self._side(experiment, cell) for cell in (left, right_cell) if cell]
            if None in sides:
                continue
            if right_cell is None:
                sides.append(Estimate(claim.value, None, 1))
            shown = {name: label for name, label in left.labels.items() if name != SETTINGS}
            said = verdict.of_pair(experiment, claim.relation, *sides, claim.factor,
                                   self._seeds(experiment, left, right_cell, claim.value))
            ends = [side.mean if math.isfinite(side.mean) else None for side in sides]
            beside = [label for name, label in (right_cell or left).labels.items()
                      if label != left.labels[name]]
            pairs.append({
                "labels": shown, "beside": beside, "left": ends[0], "right": ends[1],
                "holds": verdict.holds(claim.relation, *(side.mean for side in sides), claim.factor),
                "verdict": said,
                "cause": None if said == verdict.REPRODUCED else " Beside: ".join(
                    self._described(experiment, cell) for cell in (left, right_cell) if cell)})
        # A claim is of all of its pairs: until they are measured there is no verdict.
        judged = pairs and len(pairs) == of and not claim.fitted
        return {"text": claim.text, "relation": claim.relation, "factor": claim.factor, "pairs": pairs,
                "of": of, "seeds": self.plan["seeds"] if experiment.random else None,
                "fitted": claim.fitted,
                "verdict": verdict.worst([pair["verdict"] for pair in pairs]) if judged else None}

    def _side(self, experiment: Experiment, cell: Cell) -> Estimate | None:
        """A cell in a claim: what never came to the value is the worst there is; None: not measured."""
        found = self.estimate(experiment, cell)
        if found is None and self.values(experiment, cell):
            return Estimate(math.inf if experiment.better == "less" else -math.inf, None, 1)
        return found

    def _seeds(self, experiment: Experiment, left: Cell, right: Cell | None,
               value: float | None) -> list[tuple[float, float]]:
        """Both sides of a claim, seed by seed, what never came to a value as the worst there is."""
        never = math.inf if experiment.better == "less" else -math.inf
        other = self.by_seed(experiment, right) if right else {None: value}
        if experiment.statistic == "max":
            return []
        return [tuple(never if side is None else side for side in pair)
                for pair in by_common_seed(self.by_seed(experiment, left), other).values()]

    def _described(self, experiment: Experiment, cell: Cell) -> str:
        """What a cell's run shows, whichever side of a claim it is on."""
        if experiment.gain:
            return self._of_gain(experiment, cell)
        run = self._typical(experiment, cell)
        shown = f"{verdict.described(run['facts'], _flow(experiment))} " if run else ""
        return f"{shown}{self._run_named(experiment, cell)}."

    def _run_named(self, experiment: Experiment, cell: Cell) -> str:
        """By its hash, and by as much of its folder as a shell needs to complete it."""
        run = self._typical(experiment, cell)
        return f"(run {run['hash'][:12]}, {run['folder'][:NAMED]}*)" if run \
            else f"({cell.formula}, computed)"

    def _typical(self, experiment: Experiment, cell: Cell) -> dict | None:
        """Of a cell's runs the one whose value is the median one, or that never came to one; of a
        formula there is none."""
        runs = self.of_cell(experiment, cell)
        key = plan.measure_key(experiment.metric, experiment.arguments)
        if never := [run for run in runs if run["values"][key] is None]:
            return never[0]
        if not runs:
            return None
        middle = statistics.median_low(run["values"][key] for run in runs)
        return next(run for run in runs if run["values"][key] == middle)

    def _pairs(self, experiment: Experiment, claim: Claim):
        """(left cell, right cell or None of a number): all that a claim is about."""
        fixed = dict(claim.where)
        if experiment.of_the_time and SETTINGS not in {**fixed, **claim.left}:
            fixed[SETTINGS] = experiment.of_the_time
        for left in experiment.matching({**fixed, **claim.left}):
            if claim.right is None:
                yield left, None
                continue
            for label in _combinations(claim.right):
                for right in experiment.matching({**left.labels, **label}):
                    yield left, right


def by_common_seed(left: dict, right: dict) -> dict:
    """(left, right) by the seeds that both have; what no seed changes goes with each."""
    seeds = (left.keys() | right.keys()) - {None} or {None}
    pairs = {seed: tuple(side[seed] if seed in side else side.get(None, ABSENT)
                         for side in (left, right))
             for seed in sorted(seeds, key=lambda seed: -1 if seed is None else seed)}
    return {seed: pair for seed, pair in pairs.items() if ABSENT not in pair}


def _combinations(chosen: dict) -> list[dict]:
    made: list[dict] = [{}]
    for name, labels in chosen.items():
        made = [{**one, name: label} for one in made for label in as_list(labels)]
    return made


def _flow(experiment: Experiment) -> int:
    """The flow that an experiment measures, or the first of them."""
    return experiment.arguments.get("flow", (experiment.arguments.get("flows") or [0])[0])


def _path(experiment: Experiment, cell: Cell) -> dict | None:
    """What of a cell's path decides which policy suits it, and that policy; of a gain, nothing."""
    made = cell.scenario
    if made is None:
        return None
    splits = sorted({hop.pep for hop in made.hops if hop.pep})
    policy = made.flows[_flow(experiment)].names[-1] + "".join(f", split with {pep}" for pep in splits)
    rate = made.bottleneck[1].speed_mbit if made.bottleneck else None
    rtt_s = made.rtt_s(made.flows[_flow(experiment)])
    return {"policy": policy, "rate_mbit": rate, "rtt_s": rtt_s, "flows": len(made.flows),
            "bdp_packets": made.bdp_packets(made.bottleneck[1], rtt_s) if rate else None,
            "queue_packets": made.queue_packets(made.bottleneck[1]) if rate else None,
            "loss_pct": max(hop.forward.loss_pct for hop in made.hops),
            "errors": any(hop.forward.errors for hop in made.hops)}


def _tolerance(experiment: Experiment) -> str:
    if experiment.in_points:
        return (f"reproduced within {experiment.tolerance_points:g} points, same order within "
                f"{experiment.order_points:g}")
    return (f"reproduced within {experiment.tolerance_pct:g} %, same order within a factor of "
            f"{experiment.order:g}")


def counts(data: dict) -> dict:
    """Verdicts by paper: {paper: {"values": {verdict: n}, "claims": {verdict: n}}}."""
    found: dict = {}
    for experiment in data["experiments"]:
        mine = found.setdefault(experiment["paper"], {
            kind: dict.fromkeys(verdict.VERDICTS, 0) for kind in ("values", "claims")})
        for kind, entries in (("values", experiment["cells"]), ("claims", experiment["claims"])):
            for entry in entries:
                if entry["verdict"]:
                    mine[kind][entry["verdict"]] += 1
    return found


def oracle_differences(data: dict) -> dict[str, list[str]]:
    return {job: run["oracle"]["differences"] for job, run in data["runs"].items()
            if run["oracle"]["differences"]}
