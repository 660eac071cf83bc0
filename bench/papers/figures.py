# SPDX-License-Identifier: GPL-2.0
"""The papers' figures, drawn from our numbers in the papers' axes."""

import matplotlib
from matplotlib.figure import Figure as Canvas

from tools.satcc_tools.graphs import (
    DASHED, GREY, PALETTE, STYLE, as_array, data_uri, render_svg, thin_line)

from . import plan
from .experiment import SETTINGS, Experiment, Figure
from .results import Results

# More of Okabe and Ito's colours than two policies need.
COLOURS = (*PALETTE, "#E69F00", "#56B4E9", "#000000", "#8a5a00", "#5a5a9a")
SIZE = (5.6, 3.1)                   # inches
CHARACTERS_WIDE = 65                # of an axis; longer labels are slanted
DECADES = 50                        # a logarithmic x axis from this ratio of largest to smallest x on


def draw(results: Results, experiment: Experiment, figure: Figure) -> str:
    """A figure as a data URI for a page."""
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=SIZE, layout="constrained")
        axes = canvas.add_subplot()
        draw_kind = {"lines": _lines, "bars": _bars, "series": _series}[figure.kind]
        draw_kind(axes, results, experiment, figure)
        axes.set_ylabel(figure.y_label)
        low, high = axes.get_ylim()
        if low > 0:
            axes.set_ylim(0, high * 1.04)       # from 0, with a margin at the top
        if not axes.has_data():
            axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center")
        if (entries := len(axes.get_legend_handles_labels()[0])) > 1:
            # Bars fill the axes, so their legend is above.
            above = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": min(entries, 5)}
            axes.legend(fontsize=7, **(above if figure.kind == "bars" else {}))
        return data_uri(render_svg(canvas))


def _groups(experiment: Experiment, figure: Figure) -> dict[tuple, list]:
    """Labels of a line -> its cells.

    The labels are that of the series, and those of each further axis with more than one label.  Only
    figures that name the settings `today` show them.
    """
    where = dict(figure.where)
    if experiment.paper_settings:
        where.setdefault(SETTINGS, experiment.paper_settings)
    cells = list(experiment.matching(where))
    names = [figure.series] if figure.series else []
    names += [axis.name for axis in experiment.axes if axis.name not in (figure.x, figure.series)
              and len({cell.labels[axis.name] for cell in cells}) > 1]
    grouped: dict[tuple, list] = {}
    for cell in cells:
        grouped.setdefault(tuple(cell.labels[name] for name in names), []).append(cell)
    return grouped


def _lines(axes, results: Results, experiment: Experiment, figure: Figure) -> None:
    values = {value.label: value for value in experiment.axis(figure.x).values}
    places = {label: number if value.x is None else value.x
              for number, (label, value) in enumerate(values.items())}
    shown: dict[str, float] = {}
    for number, (labels, cells) in enumerate(_groups(experiment, figure).items()):
        points = [(places[cell.labels[figure.x]], results.estimate(experiment, cell)) for cell in cells]
        points = [(x, estimate) for x, estimate in points if estimate]
        if not points:
            continue
        style = {"color": GREY, "ls": DASHED} if cells[0].formula else \
            {"color": COLOURS[number % len(COLOURS)], "marker": "o", "ms": 3}
        axes.errorbar([x for x, _ in points], [estimate.mean for _, estimate in points],
                      yerr=_intervals(points), lw=1.3, capsize=2, label=_named(figure, labels), **style)
        shown |= {cell.labels[figure.x]: places[cell.labels[figure.x]] for cell in cells}
    if all(value.x is None for value in values.values()):
        axes.set_xticks(list(places.values()), list(places))
    else:
        _scale(axes, shown)
    axes.set_xlabel(figure.x)


def _scale(axes, shown: dict[str, float]) -> None:
    """If x goes over decades, use a logarithmic axis, with a tick for each value and a place for 0."""
    positive = [x for x in shown.values() if x > 0]
    if not positive or max(positive) < DECADES * min(positive):
        whole = all(float(x).is_integer() for x in shown.values())
        axes.xaxis.get_major_locator().set_params(integer=whole)
        return
    if min(shown.values()) > 0:
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=min(positive))
    axes.set_xticks(list(shown.values()), list(shown))
    axes.minorticks_off()


def _named(figure: Figure, labels: tuple[str, ...]) -> str:
    """A line's name; a number has its axis' name before it."""
    text = ", ".join(labels)
    return f"{figure.series} {text}" if text.isdigit() else text


def _bars(axes, results: Results, experiment: Experiment, figure: Figure) -> None:
    groups = _groups(experiment, figure)
    shown = [label for label in experiment.axis(figure.x).labels
             if any(cell.labels[figure.x] == label for cells in groups.values() for cell in cells)]
    width = 0.8 / max(1, len(groups))
    for number, (labels, cells) in enumerate(groups.items()):
        points = [(shown.index(cell.labels[figure.x]), results.estimate(experiment, cell))
                  for cell in cells]
        points = [(x, estimate) for x, estimate in points if estimate]
        axes.bar([x + (number - (len(groups) - 1) / 2) * width for x, _ in points],
                 [estimate.mean for _, estimate in points], 0.92 * width,
                 yerr=_intervals(points), color=COLOURS[number % len(COLOURS)], label=", ".join(labels))
    slant = (max(map(len, shown), default=0) + 1) * len(shown) > CHARACTERS_WIDE
    axes.set_xticks(range(len(shown)), shown, **({"rotation": 30, "ha": "right"} if slant else {}))
    axes.set_xlabel(figure.x)


def _intervals(points: list) -> list[float] | None:
    """Half-widths of the intervals of (x, estimate) pairs, if any has one."""
    halves = [estimate.half or 0 for _, estimate in points]
    return halves if any(halves) else None


def _series(axes, results: Results, experiment: Experiment, figure: Figure) -> None:
    key = plan.measure_key(figure.metric, figure.arguments)
    for number, (labels, cells) in enumerate(_groups(experiment, figure).items()):
        runs = results.runs_of(experiment, cells[0])
        if runs:
            series = runs[0]["values"][key]
            axes.plot(*thin_line(as_array(series["t"]), as_array(series["y"])), lw=1.1,
                      color=COLOURS[number % len(COLOURS)], label=", ".join(labels))
    axes.set_xlim(left=0)
    axes.set_xlabel(figure.x or "time, s")
