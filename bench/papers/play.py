# SPDX-License-Identifier: GPL-2.0
"""Play one experiment of a paper, or some of its cells, and print each value beside the paper's."""

from rich.console import Console

from ..errors import LabError
from ..lab.play import Lab
from ..paths import TOP
from . import cell, experiment, plan


def cells_of(experiment_id: str, labels: list[str]) -> tuple[experiment.Experiment, list]:
    """An experiment by paper/name, and its cells that have all of these labels, each AXIS=LABEL."""
    paper, _, name = experiment_id.partition("/")
    chosen = [one for one in experiment.load_all([paper]) if one.name == name]
    if not chosen:
        raise LabError(f"no experiment {experiment_id}; python3 -m bench papers list prints them")
    asked = dict(label.split("=", 1) for label in labels if "=" in label)
    cells = [cell for cell in chosen[0].cells if asked.items() <= cell.labels.items()
             and cell.scenario and not cell.formula]
    if not cells or len(asked) < len(labels):
        axes = "; ".join(f"{axis.name}={' or '.join(axis.labels)}" for axis in chosen[0].axes)
        raise LabError(f"{experiment_id}: no cell with {', '.join(labels)}; its axes: {axes}")
    return chosen[0], cells


def play_cells(arguments, console: Console) -> int:
    """Play the cells that the labels name, and print each value beside the paper's."""
    chosen, cells = cells_of(arguments.experiment, arguments.label)
    lab = Lab(arguments.kernel, plan.extras([chosen]))
    for one in cells:
        value, run = cell.value_of(lab, chosen, one, arguments.seed)
        paper_value = chosen.paper_values.get(chosen.key(one))
        of_paper = f", the paper: {paper_value}" if paper_value is not None else ""
        labels = ", ".join(f"{axis}={label}" for axis, label in one.labels.items())
        console.print(f"{chosen.id}: {labels}: {value} {chosen.unit}{of_paper}; "
                      f"{run.folder.relative_to(TOP)}")
    return 0
