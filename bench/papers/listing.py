# SPDX-License-Identifier: GPL-2.0
"""List the experiments, their cells and runs, and the time they take.  It needs no guest."""

import dataclasses

from rich.console import Console

from . import experiment, plan, seeds


def show(arguments, console: Console) -> int:
    chosen = experiment.load_all(arguments.paper)
    runs = {}                   # expected wall seconds of each, by the scenario and its seed
    for one in chosen:
        jobs = {(repr(dataclasses.replace(cell.scenario, title="")), seed):
                plan.expected_wall_s(cell.scenario)
                for cell in one.cells if cell.scenario and not cell.formula
                for seed in range(plan.first_seeds(one, cell, arguments.seeds))}
        console.print(f"{one.id}: {one.title}: {len(one.cells)} cells, {len(jobs)} runs, "
                      f"{sum(jobs.values()):.0f} s on one core")
        runs |= jobs
    console.print(f"{len(runs)} runs in all, {seeds.on_two_cores_s(runs.values()) / 60:.0f} min on two "
                  f"cores; then more seeds where chance leaves a verdict open, as long as "
                  f"all take less than {arguments.budget} min")
    return 0
