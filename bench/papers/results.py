# SPDX-License-Identifier: GPL-2.0
"""Collect the jobs' files into one table of values, verdicts and causes: papers.json."""

import json
import math
import statistics
from pathlib import Path

from ..measure import metrics
from ..measure.statistics import Estimate, estimate_of, seeds_needed
from . import plan, verdict
from .experiment import (
    NEVER, SETTINGS, UNCOUNTED, WORST, Cell, Claim, Experiment, Uncounted, as_list, policy_axes,
    reference_of, value_of)

ABSENT = object()                   # marks a side without a value for a seed
NAMED = len("build/runs/00/00000000")       # characters of a run's folder in a cause


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

    def runs_of(self, experiment: Experiment, cell: Cell) -> list[dict]:
        """The finished runs of a cell."""
        jobs = self.jobs.get((experiment.id, tuple(cell.labels.items())), [])
        return [self.runs[job] for job in jobs if job in self.runs]

    def values(self, experiment: Experiment, cell: Cell) -> list:
        """One value for each seed; one value if no seed changes it."""
        return list(self.by_seed(experiment, cell).values())

    def by_seed(self, experiment: Experiment, cell: Cell) -> dict:
        """Seed -> value; the only seed is None if no seed changes the value.

        A value is None if the run did not reach it.
        """
        if experiment.gain:
            return self._gains(experiment, cell)
        if cell.formula:
            return {None: metrics.FORMULAS[cell.formula](cell.scenario)}
        key = plan.measure_key(experiment.metric, experiment.arguments)
        return {run["seed"] if experiment.is_random(cell) else None: run["values"][key]
                for run in self.runs_of(experiment, cell)}

    def is_random(self, experiment: Experiment, cell: Cell) -> bool:
        """Whether another seed can change a cell's value.  A gain is random if one of its sides is."""
        if experiment.gain:
            return any(source.is_random(side) for source, side in self.sides(experiment, cell))
        return experiment.is_random(cell)

    def estimate(self, experiment: Experiment, cell: Cell) -> Estimate | None:
        """The estimate over the seeds; None without a run, or if a run did not reach the value."""
        values = self.values(experiment, cell)
        if not values or None in values:
            return None
        return estimate_of(values, experiment.statistic, experiment.confidence_pct)

    def sides(self, experiment: Experiment, cell: Cell) -> list[tuple[Experiment, Cell]]:
        """The cells of a gain's value and of its reference, each with its experiment."""
        by_name = {other.name: other for other in self.experiments.values()
                   if other.paper == experiment.paper}
        wanted = ((experiment.gain.value["experiment"], value_of(experiment, cell.labels)),
                  (experiment.gain.reference["experiment"],
                   reference_of(experiment, by_name, cell.labels)))
        return [(by_name[name], next(by_name[name].matching(labels))) for name, labels in wanted]

    def _gains(self, experiment: Experiment, cell: Cell) -> dict:
        """Seed -> gain.  If a side is a maximum over seeds, there is one gain, of the largest values.

        There is no gain for a seed if a side has no value.
        """
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
        """The null of a cell.

        It is None if the cell's variant has no idea itself, or if the paper does not give the figure
        without the idea.  The null of a gain is the gain of the null over the same reference.  It is 0
        if the null is the reference, and if the paper gives no figure.
        """
        if not experiment.gain:
            other = _without(experiment, cell)
            paper = _paper_value(experiment, other) if other else None
            if paper is None:
                return None
            estimate = self.estimate(experiment, other)
            return verdict.Null(paper, estimate.mean if estimate else None)
        (source, value), (referred, reference) = self.sides(experiment, cell)
        other = _without(source, value)
        figures = [_paper_value(source, other) if other else None, _paper_value(referred, reference)]
        if reference.formula:           # the paper's formula, without the rounding of its table
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
        runs = self.runs_of(experiment, cell)
        measured = bool(values)
        paper = None
        if cell.labels.get(SETTINGS) == experiment.paper_settings:
            paper = experiment.paper_values.get(experiment.key(cell))
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
        if experiment.precision_pct and estimate and self.is_random(experiment, cell):
            shown["seeds_needed"] = seeds_needed(values, experiment.confidence_pct,
                                                 experiment.precision_pct, experiment.precision)
        if paper is None or not measured or self._computed(experiment, cell):
            return shown
        null = self.null_of(experiment, cell) if paper != NEVER else None
        judged = verdict.judge_value(experiment, values, paper, null, self.is_random(experiment, cell))
        shown |= {"verdict": judged.verdict, "decided": judged.decided, "seeds_to_decide": judged.seeds}
        if null:
            shown["null"] = {"paper": null.paper, "verdict": verdict.judge_null(experiment, paper, null)}
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
        """Whether a value is from the paper's own formula alone; its agreement is then no finding."""
        if experiment.gain:
            return all(other.formula for _, other in self.sides(experiment, cell))
        return bool(cell.formula)

    def _cause(self, experiment: Experiment, cell: Cell, ours: Estimate | None, paper: float) -> str:
        if experiment.gain:
            return self._gain_cause(experiment, cell)
        if paper == NEVER:
            return f"Ours reached the value. {self._described(experiment, cell)}"
        run = self._typical(experiment, cell)
        case = verdict.Case(paper, ours.mean if ours else None, experiment.better, experiment.unit,
                            run["facts"], _flow(experiment))
        which = f"Flow {case.flow} of {len(run['facts']['flows'])}: " \
            if len(run["facts"]["flows"]) > 1 else ""
        return f"{which}{verdict.cause(case)} {self._run_named(experiment, cell)}"

    def _gain_cause(self, experiment: Experiment, cell: Cell) -> str:
        return verdict.explain_gain([
            (f"{', '.join(label for name, label in other.labels.items() if name != SETTINGS)} in "
             f"{source.name}", self._run_named(source, other),
             estimate.mean if (estimate := self.estimate(source, other)) else None,
             source.paper_values.get(source.key(other)))
            for source, other in self.sides(experiment, cell)])

    def _claim(self, experiment: Experiment, claim: Claim) -> dict:
        pairs, of, counts = [], 0, []
        for left, right_cell in self.pairs(experiment, claim):
            of += 1
            sides = [self._side(experiment, cell) for cell in (left, right_cell) if cell]
            if None in sides:
                continue
            if right_cell is None:
                sides.append(Estimate(claim.value, None, 1))
            shown = {name: label for name, label in left.labels.items() if name != SETTINGS}
            seeds = self._seeds(experiment, left, right_cell, claim.value)
            random = any(self.is_random(experiment, cell) for cell in (left, right_cell) if cell)
            counts += [len(seeds)] * random
            pair_verdict = verdict.judge_pair(experiment, claim.relation, *sides, claim.factor, seeds,
                                              random)
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
                # A pair that chance does not change has one run, and is as sure as any.
                "seeds": min(counts) if counts else None,
                "uncounted": [uncounted.kind, uncounted.why] if uncounted else None,
                "some": claim.some,
                "verdict": verdict.judge_claim([pair["verdict"] for pair in pairs], claim.some)
                if judged else None}

    def _side(self, experiment: Experiment, cell: Cell) -> Estimate | None:
        """A cell's estimate in a claim; None if it is not measured.

        If a run did not reach the value, it is infinitely bad.
        """
        estimate = self.estimate(experiment, cell)
        if estimate is None and self.values(experiment, cell):
            return Estimate(WORST[experiment.better], None, 1)
        return estimate

    def _seeds(self, experiment: Experiment, left: Cell, right: Cell | None,
               value: float | None) -> list[tuple[float, float]]:
        """(left, right) of a claim for each seed; infinitely bad if a run did not reach the value."""
        never = WORST[experiment.better]
        other = self.by_seed(experiment, right) if right else {None: value}
        if experiment.statistic == "max":
            return []
        return [tuple(never if side is None else side for side in pair)
                for pair in by_common_seed(self.by_seed(experiment, left), other).values()]

    def _described(self, experiment: Experiment, cell: Cell) -> str:
        """The facts of a cell's run, as text."""
        if experiment.gain:
            return self._gain_cause(experiment, cell)
        run = self._typical(experiment, cell)
        shown = f"{verdict.described(run['facts'], _flow(experiment))} " if run else ""
        return f"{shown}{self._run_named(experiment, cell)}."

    def _run_named(self, experiment: Experiment, cell: Cell) -> str:
        """A cell's run as text: its hash, and so much of its folder that a shell can complete it."""
        run = self._typical(experiment, cell)
        return f"(run {run['hash'][:12]}, {run['folder'][:NAMED]}*)" if run \
            else f"({cell.formula}, computed)"

    def _typical(self, experiment: Experiment, cell: Cell) -> dict | None:
        """The cell's run with the median value, or one that did not reach the value, or None."""
        runs = self.runs_of(experiment, cell)
        key = plan.measure_key(experiment.metric, experiment.arguments)
        if never := [run for run in runs if run["values"][key] is None]:
            return never[0]
        if not runs:
            return None
        middle = statistics.median_low(run["values"][key] for run in runs)
        return next(run for run in runs if run["values"][key] == middle)

    def pairs(self, experiment: Experiment, claim: Claim):
        """Yield each pair of a claim: (left cell, right cell), or (left cell, None) for a number."""
        fixed = dict(claim.where)
        if experiment.paper_settings and SETTINGS not in {**fixed, **claim.left}:
            fixed[SETTINGS] = experiment.paper_settings
        for left in experiment.matching({**fixed, **claim.left}):
            if claim.right is None:
                yield left, None
                continue
            for label in _combinations(claim.right):
                for right in experiment.matching({**left.labels, **label}):
                    yield left, right


def by_common_seed(left: dict, right: dict) -> dict:
    """Seed -> (left, right), for the seeds that both have.  A side without seeds goes with each seed."""
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
    """A cell's policy, and the properties of its path that decide which policy suits it.

    None for a gain.
    """
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
    """The cell of the variant without a cell's idea, or None."""
    null = experiment.null
    label = null.of.get(cell.labels[null.axis]) if null else None
    return next(experiment.matching({**cell.labels, null.axis: label}), None) if label else None


def _paper_value(experiment: Experiment, cell: Cell) -> float | None:
    """The paper's figure of a cell, if it has a number."""
    figure = experiment.paper_values.get(experiment.key(cell))
    return None if figure == NEVER else figure


def _gain(source: Experiment, value: float, reference: float) -> float:
    return (-1 if source.better == "more" else 1) * 100 * (reference - value) / reference


def _open(experiment: Experiment, values: list, judged: verdict.Judged, paper: float | str,
          null: verdict.Null | None) -> str:
    """The reason why a value is undecided, and how many seeds it needs."""
    if len(values) < 2:
        return "The value depends on chance, and one run has no interval."
    if judged.seeds is None and (None in values or paper == NEVER):
        return f"{sum(value is None for value in values)} of {len(values)} runs did not reach the value."
    near = verdict.nearness(experiment, paper, null)
    half = estimate_of(values, experiment.statistic, experiment.confidence_pct).half
    enough = f"{judged.seeds} seeds" if judged.seeds else f"more than {verdict.MOST_SEEDS} seeds"
    return (f"The interval of {len(values)} seeds is ± {half:.3g} {experiment.unit}, and it is judged "
            f"by ± {near:.3g}: at this spread that takes {enough}.")


def _beside_null(experiment: Experiment, estimate: Estimate | None, paper: float | str,
                 null: verdict.Null | None) -> str:
    """A sentence with our effect and the paper's, for a value that is not reproduced."""
    if null is None or estimate is None or experiment.gain:
        return ""
    return (f" Without the idea the paper has {null.paper:.4g}, ours is {null.mine:.4g}: a difference "
            f"of {estimate.mean - null.mine:.3g}, the paper's {paper - null.paper:.3g}.")


def counts(data: dict) -> dict:
    """Paper -> numbers of verdicts.

    They are: values by verdict, claims by class, values and claims that are not counted by their kind,
    and the values that a policy that does nothing would reproduce.
    """
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
    """The number of values with a null, and of those that the null's figures would reproduce."""
    verdicts = [cell["null"]["verdict"] for cell in cells if cell["null"]]
    return {"of": len(verdicts), **{kind: verdicts.count(kind)
                                    for kind in (verdict.REPRODUCED, verdict.SAME_ORDER)}}


def summary(data: dict) -> dict:
    """The data of README.md's table."""
    seeds = [len(cell["values"]) for experiment in data["experiments"] if experiment["random"]
             for cell in experiment["cells"] if cell["jobs"]]
    return {"about": {**data["about"], "runs": len(data["runs"]), "most_seeds": max(seeds, default=1)},
            "papers": counts(data)}


def oracle_differences(data: dict) -> dict[str, list[str]]:
    """Job -> the oracle's differences, for the runs that have any."""
    return {job: run["oracle"]["differences"] for job, run in data["runs"].items()
            if run["oracle"]["differences"]}
