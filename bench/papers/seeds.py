# SPDX-License-Identifier: GPL-2.0
"""Which runs get more seeds: those behind verdicts that chance has left open.

Of what depends on chance the first round has one run (SEEDS=n: n), whose verdicts are open.  Each round
after it gives the runs behind an open verdict as many seeds as it takes by the spread seen so far,
cheapest verdicts first, while they are no more than the experiment's seeds_most and the time is not
spent.  Time is what runs are expected to take on two cores, not what the clock says: the same results
ask for the same runs on any machine.  What is not counted gets no more seeds.
"""

from dataclasses import dataclass

from . import plan, verdict
from .experiment import Cell, Claim, Experiment
from .results import Results
from .workflow import LINK_WALL_S

FIRST_SEEDS = 3             # Student's factor at 95 % is 12.7 of two values, 4.3 of three
CORES = 2
BUDGET_S = 80 * 60


@dataclass(frozen=True)
class Open:
    """A verdict that chance has left open: the scenarios behind it, and how many seeds of each decide
    it; None: no number worth trying."""

    what: str
    scenarios: dict             # digest -> scenario
    seeds: int | None


def expected_s(planned: dict) -> float:
    """The time that the plan takes on two cores."""
    return on_two_cores_s(job["expected_wall_s"] for job in planned["jobs"].values())


def on_two_cores_s(expected_wall_s) -> float:
    """The time that runs of these seconds take on two cores, with the link's calibration."""
    return (LINK_WALL_S + sum(expected_wall_s)) / CORES


def more(measured: Results, data: dict, budget_s: float = BUDGET_S) -> dict[str, int]:
    """Seeds by the scenario's digest, for the next round; nothing where there is nothing to gain."""
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
    """Every open verdict that is counted."""
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
    """Can more seeds change the claim?  No pair decides it alone, and not all pairs are decided."""
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
    """The number of seeds to try next."""
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
    return [(experiment, cell)] if cell.scenario and not cell.formula and experiment.random else []


def _have(measured: Results) -> dict[str, int]:
    """Seeds planned by the scenario's digest."""
    have: dict[str, int] = {}
    for experiment in measured.experiments.values():
        for cell in experiment.cells:
            if cell.scenario and experiment.random:
                jobs = measured.jobs.get((experiment.id, tuple(cell.labels.items())), [])
                have[cell.digest] = max(len(jobs), have.get(cell.digest, 0))
    return have
