# SPDX-License-Identifier: GPL-2.0
"""Choose the runs that get more seeds: those of verdicts that chance has left open.

In the first round an experiment that depends on chance has one run for each cell (SEEDS=n: n runs), and
its verdicts are open.  Each later round gives the runs of an open verdict the number of seeds that
decides it by the spread seen so far.  The cheapest verdicts come first.  The limits are the experiment's
seeds_most and the time budget.  The time is the expected time of the runs on two cores and not the
clock's, so the same results lead to the same runs on any machine.  Values that are not counted get no
more seeds.
"""

from dataclasses import dataclass

from . import plan, verdict
from .experiment import Cell, Claim, Experiment
from .results import Results
from .workflow import LINK_WALL_S

FIRST_SEEDS = 3             # Student's factor at 95 % is 12.7 for two values, 4.3 for three
CORES = 2


@dataclass(frozen=True)
class Open:
    """A verdict that chance has left open, and its scenarios."""

    what: str
    scenarios: dict             # digest -> scenario
    seeds: int | None           # number of seeds of each that decides it; None: none worth trying


def expected_s(planned: dict) -> float:
    """The expected time of the plan on two cores, s."""
    return on_two_cores_s(job["expected_wall_s"] for job in planned["jobs"].values())


def on_two_cores_s(expected_wall_s) -> float:
    """The time on two cores of runs with these wall times and of the link's calibration, s."""
    return (LINK_WALL_S + sum(expected_wall_s)) / CORES


def more(measured: Results, data: dict, budget_s: float) -> dict[str, int]:
    """The scenario's digest -> number of seeds in the next round, for the runs that get more."""
    have = _have(measured)
    left = budget_s - expected_s(measured.plan)
    wanted: dict[str, int] = {}

    def cost(verdict_: Open) -> float:
        return sum(max(0, verdict_.seeds - max(have[digest], wanted.get(digest, 0)))
                   * plan.expected_wall_s(scenario)
                   for digest, scenario in verdict_.scenarios.items()) / CORES
    for one in sorted((one for one in verdicts(measured, data) if one.seeds), key=cost):
        if (price := cost(one)) <= left:
            left -= price
            for digest in one.scenarios:
                wanted[digest] = max(one.seeds, wanted.get(digest, 0))
    return {digest: count for digest, count in wanted.items() if count > have[digest]}


def verdicts(measured: Results, data: dict) -> list[Open]:
    """Every open verdict on a value or claim that is counted."""
    open_verdicts = []
    for experiment, entry in zip(measured.experiments.values(), data["experiments"]):
        if not experiment.random:
            continue
        open_verdicts += [_of_value(measured, experiment, cell, shown)
                          for cell, shown in zip(experiment.cells, entry["cells"])
                          if shown["verdict"] and not shown["uncounted"] and not shown["decided"]]
        open_verdicts += [_of_claim(measured, experiment, claim, shown)
                          for claim, shown in zip(experiment.claims, entry["claims"])
                          if shown["verdict"] and not shown["uncounted"] and _is_open(shown)]
    return open_verdicts


def _is_open(claim: dict) -> bool:
    """Whether more seeds can change the claim: no pair decides it alone, and a pair is undecided."""
    alone = verdict.HOLDS if claim["some"] else verdict.FAILS
    return not any(pair["decided"] and pair["verdict"] == alone for pair in claim["pairs"]) \
        and not all(pair["decided"] for pair in claim["pairs"])


def _of_value(values: Results, experiment: Experiment, cell: Cell, shown: dict) -> Open:
    cells = _played(values, experiment, cell)
    return Open(f"{experiment.id}: {', '.join(cell.labels.values())}",
                {one.digest: one.scenario for _, one in cells},
                _target(cells, shown["seeds"], shown["seeds_to_decide"], False))


def _of_claim(values: Results, experiment: Experiment, claim: Claim, shown: dict) -> Open:
    scenarios, targets = {}, []
    for (left, right), pair in zip(values.pairs(experiment, claim), shown["pairs"]):
        if not pair["decided"]:
            cells = [one for cell in (left, right) if cell for one in _played(values, experiment, cell)]
            scenarios |= {one.digest: one.scenario for _, one in cells}
            targets.append(_target(cells, pair["seeds"], pair["seeds_to_decide"],
                                   experiment.statistic == "max"))
    return Open(f"{experiment.id}: {claim.text}", scenarios,
                None if None in targets else max(targets))


def _target(cells: list[tuple[Experiment, Cell]], have: int, enough: int | None,
            hopeless: bool) -> int | None:
    """The number of seeds to try next, or None."""
    most = min((experiment.seeds_most for experiment, _ in cells), default=0)
    if have < FIRST_SEEDS:
        target = FIRST_SEEDS
    elif enough is None:
        return None
    else:
        target = max(enough, have + 1)
    return None if hopeless or target > most else target


def _played(values: Results, experiment: Experiment, cell: Cell) -> list[tuple[Experiment, Cell]]:
    """The runs of a cell: both sides of a gain, none for a formula."""
    if experiment.gain:
        return [one for side in values.sides(experiment, cell) for one in _played(values, *side)]
    return [(experiment, cell)] if cell.scenario and experiment.is_random(cell) else []


def _have(measured: Results) -> dict[str, int]:
    """The scenario's digest -> number of planned seeds."""
    have: dict[str, int] = {}
    for experiment in measured.experiments.values():
        for cell in experiment.cells:
            if cell.scenario and experiment.is_random(cell):
                jobs = measured.jobs.get((experiment.id, tuple(cell.labels.items())), [])
                have[cell.digest] = max(len(jobs), have.get(cell.digest, 0))
    return have
