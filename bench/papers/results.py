# SPDX-License-Identifier: GPL-2.0
"""From the jobs' files to one table of values, verdicts and causes: papers.json."""

import json
import math
import statistics
from pathlib import Path

from ..measure import metrics
from ..measure.statistics import Estimate, estimate_of, seeds_needed
from . import plan, verdict
from .experiment import (
    NEVER, SETTINGS, UNCOUNTED, Cell, Claim, Experiment, Uncounted, as_list, policy_axes, reference_of,
    value_of)

ABSENT = object()                   # a side that has nothing of a seed
NAMED = len("build/runs/00/00000000")


class Results:
    """The values that the jobs of a plan measured, by experiment and cell."""

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
        self.changed = plan.changed(planned, experiments)
        old = {(name, tuple(labels.items()))
               for name, cells in self.changed.items() for labels in cells}
        self.jobs = {(name, tuple(cell["labels"].items())): cell["jobs"]
                     for name, cells in planned["cells"].items() for cell in cells
                     if (name, tuple(cell["labels"].items())) not in old}

    def of_cell(self, experiment: Experiment, cell: Cell) -> list[dict]:
        """The runs of a cell that are done."""
        jobs = self.jobs.get((experiment.id, tuple(cell.labels.items())), [])
        return [self.runs[job] for job in jobs if job in self.runs]

    def values(self, experiment: Experiment, cell: Cell) -> list:
        """One value for each seed; one value if no seed changes it."""
        return list(self.by_seed(experiment, cell).values())

    def by_seed(self, experiment: Experiment, cell: Cell) -> dict:
        """Values by seed; of what no seed changes, one by None.  None as a value: never reached."""
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
        return estimate_of(values, experiment.statistic, experiment.confidence_pct)

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
            estimates = [self.estimate(*side) for side in sides]
            pairs = {} if None in estimates else {None: tuple(side.mean for side in estimates)}
        else:
            pairs = by_common_seed(*(self.by_seed(*side) for side in sides))
        return {seed: _gain(sides[0][0], value, reference)
                for seed, (value, reference) in pairs.items() if value is not None and reference}

    # -- the variant without the idea --------------------------------------------

    def null_of(self, experiment: Experiment, cell: Cell) -> verdict.Null | None:
        """None where a cell's variant is without an idea itself, or the paper does not give the figure
        of the one that is without it.  A gain's is that of the null over the same reference, which is
        none at all where it is the reference, and where nothing else is known."""
        if not experiment.gain:
            other = _without(experiment, cell)
            paper = _stated(experiment, other) if other else None
            if paper is None:
                return None
            estimate = self.estimate(experiment, other)
            return verdict.Null(paper, estimate.mean if estimate else None)
        (source, value), (referred, reference) = self.sides(experiment, cell)
        other = _without(source, value)
        figures = [_stated(source, other) if other else None, _stated(referred, reference)]
        if reference.formula:           # the paper's own sum, not rounded as in its table
            figures[1] = self.estimate(referred, reference).mean
        if None in figures:
            return verdict.Null(0.0)
        ours = [self.estimate(source, other), self.estimate(referred, reference)]
        return verdict.Null(_gain(source, *figures),
                            None if None in ours else _gain(source, *(side.mean for side in ours)))

    # -- as JSON ---------------------------------------------------------------

    def as_dict(self) -> dict:
        return {"experiments": [self._experiment(experiment)
                                for experiment in self.experiments.values()],
                "runs": {job: {key: value for key, value in run.items() if key != "values"}
                         for job, run in self.runs.items()},
                "link": self.link,
                "changed": self.changed,
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
            "policy_axes": list(policy_axes(experiment.paper)),
            "missing": [[entry.label, entry.why] for entry in experiment.missing],
            "cells": [self._cell(experiment, cell) for cell in experiment.cells],
            "claims": [self._claim(experiment, claim) for claim in experiment.claims],
        }

    def _cell(self, experiment: Experiment, cell: Cell) -> dict:
        values, estimate = self.values(experiment, cell), self.estimate(experiment, cell)
        runs = self.of_cell(experiment, cell)
        measured = bool(values)
        paper = None
        if cell.labels.get(SETTINGS) == experiment.of_the_time:
            paper = experiment.stated.get(experiment.key(cell))
        uncounted = uncounted_of(experiment, cell)
        shown = {
            "labels": cell.labels, "formula": cell.formula, "values": values,
            "mean": estimate.mean if estimate else None, "half": estimate.half if estimate else None,
            "paper": paper,
            "ratio": estimate.mean / paper if estimate and paper not in (None, 0, NEVER) else None,
            "path": _path(experiment, cell), "jobs": [run["job"] for run in runs],
            "seeds": len(values), "uncounted": [uncounted.kind, uncounted.why] if uncounted else None,
            "verdict": None, "cause": None, "seeds_needed": None, "decided": True,
            "seeds_to_decide": None, "null": None}
        if experiment.precision_pct and estimate and experiment.random:
            shown["seeds_needed"] = seeds_needed(values, experiment.confidence_pct,
                                                 experiment.precision_pct, experiment.precision)
        if paper is None or not measured or self._computed(experiment, cell):
            return shown
        null = self.null_of(experiment, cell) if paper != NEVER else None
        judged = verdict.of_value(experiment, values, paper, null)
        shown |= {"verdict": judged.verdict, "decided": judged.decided, "seeds_to_decide": judged.seeds}
        if null:
            shown["null"] = {"paper": null.paper, "verdict": verdict.of_null(experiment, paper, null)}
        if judged.verdict == verdict.UNDECIDED:
            shown["cause"] = _open(experiment, values, judged, paper, null)
        elif judged.verdict == verdict.BLIND:
            shown["cause"] = (f"The paper's figure without the idea, {null.paper:.4g} "
                              f"{experiment.unit}, would be reproduced as well.")
        elif judged.verdict != verdict.REPRODUCED:
            shown["cause"] = self._cause(experiment, cell, estimate, paper) + _beside_null(
                experiment, estimate, paper, null)
        return shown

    def _computed(self, experiment: Experiment, cell: Cell) -> bool:
        """From a formula alone, which is the paper's own: that it comes to the paper's value is no
        finding."""
        if experiment.gain:
            return all(other.formula for _, other in self.sides(experiment, cell))
        return bool(cell.formula)

    def _cause(self, experiment: Experiment, cell: Cell, ours: Estimate | None, paper: float) -> str:
        if experiment.gain:
            return self._of_gain(experiment, cell)
        if paper == NEVER:
            return f"Ours reached the value. {self._described(experiment, cell)}"
        run = self._typical(experiment, cell)
        case = verdict.Case(paper, ours.mean if ours else None, experiment.better, experiment.unit,
                            run["facts"], _flow(experiment))
        which = f"Flow {case.flow} of {len(run['facts']['flows'])}: " \
            if len(run["facts"]["flows"]) > 1 else ""
        return f"{which}{verdict.cause(case)} {self._run_named(experiment, cell)}"

    def _of_gain(self, experiment: Experiment, cell: Cell) -> str:
        return verdict.of_gain([
            (f"{', '.join(label for name, label in other.labels.items() if name != SETTINGS)} in "
             f"{source.name}", self._run_named(source, other),
             estimate.mean if (estimate := self.estimate(source, other)) else None,
             source.stated.get(source.key(other)))
            for source, other in self.sides(experiment, cell)])

    def _claim(self, experiment: Experiment, claim: Claim) -> dict:
        pairs, of = [], 0
        for left, right_cell in self.pairs(experiment, claim):
            of += 1
            sides = [self._side(experiment, cell) for cell in (left, right_cell) if cell]
            if None in sides:
                continue
            if right_cell is None:
                sides.append(Estimate(claim.value, None, 1))
            shown = {name: label for name, label in left.labels.items() if name != SETTINGS}
            seeds = self._seeds(experiment, left, right_cell, claim.value)
            pair_verdict = verdict.of_pair(experiment, claim.relation, *sides, claim.factor, seeds)
            ends = [side.mean if math.isfinite(side.mean) else None for side in sides]
            beside = [label for name, label in (right_cell or left).labels.items()
                      if label != left.labels[name]]
            pairs.append({
                "labels": shown, "beside": beside, "left": ends[0], "right": ends[1],
                "holds": verdict.holds(claim.relation, *(side.mean for side in sides), claim.factor),
                "verdict": pair_verdict.verdict, "decided": pair_verdict.decided,
                "seeds_to_decide": pair_verdict.seeds, "seeds": len(seeds),
                "cause": None if pair_verdict.verdict == verdict.HOLDS else " Beside: ".join(
                    self._described(experiment, cell) for cell in (left, right_cell) if cell)})
        # A claim is of all of its pairs: until they are measured there is no verdict.
        judged = pairs and len(pairs) == of
        uncounted = claim.uncounted or next(
            (entry for entry in experiment.uncounted if entry.claims), None)
        return {"text": claim.text, "words": claim.words, "relation": claim.relation,
                "factor": claim.factor, "pairs": pairs, "of": of,
                "seeds": min((pair["seeds"] for pair in pairs), default=None)
                if experiment.random else None,
                "uncounted": [uncounted.kind, uncounted.why] if uncounted else None,
                "some": claim.some,
                "verdict": verdict.of_claim([pair["verdict"] for pair in pairs], claim.some)
                if judged else None}

    def _side(self, experiment: Experiment, cell: Cell) -> Estimate | None:
        """A cell in a claim: what never reached the value is the worst there is; None: not measured."""
        estimate = self.estimate(experiment, cell)
        if estimate is None and self.values(experiment, cell):
            return Estimate(math.inf if experiment.better == "less" else -math.inf, None, 1)
        return estimate

    def _seeds(self, experiment: Experiment, left: Cell, right: Cell | None,
               value: float | None) -> list[tuple[float, float]]:
        """Both sides of a claim, seed by seed, what never reached a value as the worst there is."""
        never = math.inf if experiment.better == "less" else -math.inf
        other = self.by_seed(experiment, right) if right else {None: value}
        if experiment.statistic == "max":
            return []
        return [tuple(never if side is None else side for side in pair)
                for pair in by_common_seed(self.by_seed(experiment, left), other).values()]

    def _described(self, experiment: Experiment, cell: Cell) -> str:
        """The facts of a cell's run, on either side of a claim."""
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
        """Of a cell's runs the one whose value is the median one, or that never reached one; of a
        formula there is none."""
        runs = self.of_cell(experiment, cell)
        key = plan.measure_key(experiment.metric, experiment.arguments)
        if never := [run for run in runs if run["values"][key] is None]:
            return never[0]
        if not runs:
            return None
        middle = statistics.median_low(run["values"][key] for run in runs)
        return next(run for run in runs if run["values"][key] == middle)

    def pairs(self, experiment: Experiment, claim: Claim):
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
    combinations: list[dict] = [{}]
    for name, labels in chosen.items():
        combinations = [{**one, name: label} for one in combinations for label in as_list(labels)]
    return combinations


def _flow(experiment: Experiment) -> int:
    """The flow that an experiment measures, or the first of them."""
    return experiment.arguments.get("flow", (experiment.arguments.get("flows") or [0])[0])


def _path(experiment: Experiment, cell: Cell) -> dict | None:
    """What of a cell's path decides which policy suits it, and that policy; of a gain, nothing."""
    played = cell.scenario
    if played is None:
        return None
    splits = sorted({hop.pep for hop in played.hops if hop.pep})
    policy = played.flows[_flow(experiment)].names[-1] + "".join(f", split with {pep}" for pep in splits)
    rate = played.bottleneck[1].speed_mbit if played.bottleneck else None
    rtt_s = played.rtt_s(played.flows[_flow(experiment)])
    return {"policy": policy, "rate_mbit": rate, "rtt_s": rtt_s, "flows": len(played.flows),
            "bdp_packets": played.bdp_packets(played.bottleneck[1], rtt_s) if rate else None,
            "queue_packets": played.queue_packets(played.bottleneck[1]) if rate else None,
            "loss_pct": max(hop.forward.loss_pct for hop in played.hops),
            "errors": any(hop.forward.errors for hop in played.hops)}


def _tolerance(experiment: Experiment) -> str:
    effect = " and half of the paper's difference from its null" if experiment.null or experiment.gain \
        else ""
    if experiment.in_points:
        return (f"reproduced within {experiment.tolerance_points:g} points, less than half of the "
                f"figure{effect}; same order within {experiment.order_points:g}")
    return (f"reproduced within {experiment.tolerance_pct:g} %{effect}, same order within a factor of "
            f"{experiment.order:g}")


def uncounted_of(experiment: Experiment, cell: Cell) -> Uncounted | None:
    """The reason why a cell's value is not counted as a finding, if there is one."""
    return next((entry for entry in experiment.uncounted
                 if all(cell.labels.get(name) in as_list(wanted)
                        for name, wanted in entry.where.items())), None)


def _without(experiment: Experiment, cell: Cell) -> Cell | None:
    """The cell of the variant that is without a cell's idea."""
    null = experiment.null
    label = null.of.get(cell.labels[null.axis]) if null else None
    return next(experiment.matching({**cell.labels, null.axis: label}), None) if label else None


def _stated(experiment: Experiment, cell: Cell) -> float | None:
    """The paper's figure of a cell, if it has a number."""
    figure = experiment.stated.get(experiment.key(cell))
    return None if figure == NEVER else figure


def _gain(source: Experiment, value: float, reference: float) -> float:
    return (-1 if source.better == "more" else 1) * 100 * (reference - value) / reference


def _open(experiment: Experiment, values: list, judged: verdict.Judged, paper: float | str,
          null: verdict.Null | None) -> str:
    """The reason why a value is undecided, and how many seeds it needs."""
    if len(values) < 2:
        return "One run of what depends on chance has no interval."
    if judged.seeds is None and (None in values or paper == NEVER):
        return f"{sum(value is None for value in values)} of {len(values)} runs never reached the value."
    near = verdict.nearness(experiment, paper, null)
    half = estimate_of(values, experiment.statistic, experiment.confidence_pct).half
    enough = f"{judged.seeds} seeds" if judged.seeds else f"more than {verdict.MOST_SEEDS} seeds"
    return (f"The interval of {len(values)} seeds is ± {half:.3g} {experiment.unit}, and it is judged "
            f"by ± {near:.3g}: at this spread that takes {enough}.")


def _beside_null(experiment: Experiment, estimate: Estimate | None, paper: float | str,
                 null: verdict.Null | None) -> str:
    """Our effect beside the paper's, where a value is not reproduced."""
    if null is None or estimate is None or experiment.gain:
        return ""
    return (f" Without the idea the paper has {null.paper:.4g}, ours is {null.mine:.4g}: a difference "
            f"of {estimate.mean - null.mine:.3g}, the paper's {paper - null.paper:.3g}.")


def counts(data: dict) -> dict:
    """By paper: independent values by verdict, claims by class, what is shown and not counted, by its
    kind, and what a policy that does nothing would get of the same values."""
    by_paper: dict = {}
    for experiment in data["experiments"]:
        count = by_paper.setdefault(experiment["paper"], {
            "values": dict.fromkeys(verdict.VERDICTS, 0),
            "claims": dict.fromkeys(verdict.CLASSES, 0),
            "uncounted": {"values": dict.fromkeys(UNCOUNTED, 0), "claims": dict.fromkeys(UNCOUNTED, 0)},
            "null": null_score([])})
        for kind, entries in (("values", experiment["cells"]), ("claims", experiment["claims"])):
            for entry in entries:
                if entry["verdict"] and entry["uncounted"]:
                    count["uncounted"][kind][entry["uncounted"][0]] += 1
                elif entry["verdict"]:
                    count[kind][entry["verdict"]] += 1
        score = null_score([cell for cell in experiment["cells"] if not cell["uncounted"]])
        count["null"] = {key: count["null"][key] + score[key] for key in score}
    return by_paper


def null_score(cells: list[dict]) -> dict:
    """Of the values that have a null: how many of them its figures would reproduce."""
    verdicts = [cell["null"]["verdict"] for cell in cells if cell["null"]]
    return {"of": len(verdicts), **{kind: verdicts.count(kind)
                                    for kind in (verdict.REPRODUCED, verdict.SAME_ORDER)}}


def summary(data: dict) -> dict:
    """The data from which README.md's table is written."""
    seeds = [len(cell["values"]) for experiment in data["experiments"] if experiment["random"]
             for cell in experiment["cells"] if cell["jobs"]]
    return {"about": {**data["about"], "runs": len(data["runs"]), "most_seeds": max(seeds, default=1)},
            "papers": counts(data)}


def oracle_differences(data: dict) -> dict[str, list[str]]:
    return {job: run["oracle"]["differences"] for job, run in data["runs"].items()
            if run["oracle"]["differences"]}
