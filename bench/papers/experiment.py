# SPDX-License-Identifier: GPL-2.0
"""An experiment of a paper as data: one TOML file under scenarios/<paper>/, see README.md.

load() reads and checks a file and expands its axes into cells, each of which is a scenario.  A key
it does not know, a path that leads nowhere, a paper's value without a cell: each is an error that
names the file.
"""

import copy
import dataclasses
import itertools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..lab import scenario
from ..lab.errors import LabError
from ..lab.scenario import Scenario
from . import metrics

FOLDER = Path(__file__).resolve().parents[1] / "scenarios"
# Papers that the bench knows, in the order of the report: the folder of each, and what it is.
PAPERS = {
    "henderson": "T. R. Henderson, R. H. Katz, TCP performance over satellite channels, "
                 "UCB/CSD-99-1083, 1999",
    "marchese": "M. Marchese, Modifications of the slow start algorithm to improve TCP performance over "
                "large delay satellite channels",
    "caini": "C. Caini et al., Analysis of TCP live experiments on a real GEO satellite testbed, 2008",
    "pirovano": "A. Pirovano, F. Garcia, A new survey on improving TCP performances over geostationary "
                "satellite link, 2013",
    "korean": "N. G. Weldegiorgis et al., Performance evaluation of PEP based TCP splitting scheme in "
              "satellite communication systems, 2015",
}
# What an experiment is filed under: the headings of RFC 5166, section 2, and of RFC 9743, evaluation
# criteria, general use and special cases.
INDEXES = {
    "rfc5166": ("throughput", "delay", "packet loss rates", "response to changes",
                "minimizing oscillations", "fairness between flows", "convergence",
                "robustness for challenging environments"),
    "rfc9743": ("protection against congestion collapse", "protection against bufferbloat",
                "protection against high packet loss", "fairness within the algorithm", "short flows",
                "existing general-purpose congestion control", "short and long flows",
                "paths with tail-drop queues", "wireless paths", "active queue management",
                "paths with varying delay", "paths with high delay", "transient events",
                "sudden changes in the path"),
}
NEVER = "never"                     # a value of the paper's: it did not come to that
SETTINGS = "settings"               # the axis whose first label is compared with the paper


@dataclass(frozen=True)
class Value:
    """One label of an axis and what it does to the scenario.  Two may have one label, where `only`
    keeps them apart."""

    label: str
    set: dict = field(default_factory=dict)     # dotted path -> value
    only: dict = field(default_factory=dict)    # axis -> labels: the cells it exists in
    formula: str = ""                           # of metrics.FORMULAS: computed, not run
    x: float | None = None                      # where a figure puts it


@dataclass(frozen=True)
class Axis:
    name: str
    values: tuple[Value, ...]

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(value.label for value in self.values))


@dataclass(frozen=True)
class Claim:
    """What the paper says in words: left is less or more than right, or near it."""

    text: str
    left: dict
    relation: str                               # less, more, within
    right: dict | None = None                   # cells, or
    value: float | None = None                  # a number
    factor: float = 1.0
    where: dict = field(default_factory=dict)
    fitted: bool = False                        # a setting was chosen by it


@dataclass(frozen=True)
class Figure:
    title: str
    kind: str                                   # lines, bars, series
    y_label: str
    x: str = ""                                 # axis along x; of kind series: what x is
    series: str = ""                            # axis with one line or colour a label
    metric: str = ""                            # of kind series
    arguments: dict = field(default_factory=dict)
    where: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Missing:
    """What the paper has and today's kernel has not."""

    label: str
    why: str


@dataclass(frozen=True)
class Gain:
    """Cells computed from other cells' means: 100 (reference - value) / reference, or where more is
    better the negative of it.

    Each names an experiment of the same paper and labels of its axes.
    """

    value: dict
    reference: dict


@dataclass(frozen=True)
class Cell:
    """One combination of labels.  A formula's cell has a scenario, but no run."""

    labels: dict                                # axis -> label
    table: dict                                 # the scenario as parsed TOML
    scenario: Scenario | None                   # None: of a [gain]
    formula: str = ""


@dataclass(frozen=True)
class Experiment:
    paper: str
    name: str                                   # the file's
    title: str
    source: str
    what: str
    metric: str
    unit: str
    better: str
    axes: tuple[Axis, ...]
    cells: tuple[Cell, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    stated: dict                                # labels (rows, then columns) -> the paper's value
    arguments: dict = field(default_factory=dict)
    tolerance_pct: float = 15
    order: float = 3
    tolerance_points: float = 5                 # of a unit %: in its place,
    order_points: float = 20                    # and of order
    confidence_pct: float = 95
    precision_pct: float | None = None
    random: bool = False
    statistic: str = "mean"                     # over seeds; or max
    link: str = ""                              # class of link, for the summary by links
    differs: tuple[str, ...] = ()               # how the setting is not the paper's, a sentence each
    rfc5166: tuple[str, ...] = ()
    rfc9743: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    figures: tuple[Figure, ...] = ()
    missing: tuple[Missing, ...] = ()
    fitted: tuple[dict, ...] = ()               # labels of cells by which a setting was chosen
    precision: str = "interval"                 # what precision_pct is of: or "deviation"
    gain: Gain | None = None

    @property
    def id(self) -> str:
        return f"{self.paper}/{self.name}"

    @property
    def in_points(self) -> bool:
        """Values in percent differ by points: a ratio of two small gains says nothing."""
        return self.unit == "%"

    def axis(self, name: str) -> Axis:
        return next(axis for axis in self.axes if axis.name == name)

    @property
    def of_the_time(self) -> str | None:
        """The label of the settings that the paper's values are compared with."""
        return next((axis.labels[0] for axis in self.axes if axis.name == SETTINGS), None)

    def key(self, cell: Cell) -> tuple[str, ...]:
        """A cell's labels as the paper's values are stored: rows, then columns."""
        return tuple(cell.labels[name] for name in (*self.rows, *self.columns))

    def matching(self, chosen: dict) -> Iterator[Cell]:
        """Cells whose labels are among the chosen ones: axis -> a label or a list of them."""
        for cell in self.cells:
            if all(cell.labels[name] in as_list(wanted) for name, wanted in chosen.items()):
                yield cell


def as_list(labels) -> list:
    return labels if isinstance(labels, list) else [labels]


# ---- reading ---------------------------------------------------------------

def load_all(papers=tuple(PAPERS), folder: Path = FOLDER) -> list[Experiment]:
    """Every experiment of the papers, those computed from others after them."""
    found = []
    for paper in papers:
        mine = [load(path) for path in sorted((folder / paper).glob("*.toml"), key=_natural)]
        by_name = {experiment.name: experiment for experiment in mine}
        found += [expand_gain(experiment, by_name) for experiment in mine]
    return found


def _natural(path: Path) -> list:
    """table10 comes after table9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.stem)]


def load(path: Path) -> Experiment:
    return from_dict(_parsed(path), path.parent.name, path.stem, str(path))


def _parsed(path: Path) -> dict:
    """A file's TOML, with what it takes over from another of the same paper."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LabError(f"no experiment {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"{path}: {error}") from None
    if "like" not in data:
        return data
    where = f"{path}: like"
    like = _fill(_Like, data.pop("like"), where)
    other = _parsed(path.with_name(f"{like.experiment}.toml"))
    if like.axes:
        known = {axis["name"]: axis for axis in other.pop("axis")}
        if missing := set(like.axes) - set(known):
            raise LabError(f"{where}: {like.experiment} has no axis {min(missing)!r}")
        data["axis"] = [known[name] for name in like.axes] + data.get("axis", [])
        other.pop("table")
    for key in ("scenario", "axis", "table", "differs"):
        if key in other:
            data.setdefault(key, other[key])
    for target, new in like.set.items():
        put(data["scenario"], target, new, where)
    for name, labels in like.keep.items():
        axes = [axis for axis in data["axis"] if axis["name"] == name]
        kept = [value for axis in axes for value in axis["values"] if value["label"] in as_list(labels)]
        if {value["label"] for value in kept} != set(as_list(labels)):
            raise LabError(f"{where}: axis {name!r} has not all of {as_list(labels)}")
        axes[0]["values"] = kept
    return data


@dataclass(frozen=True)
class _Like:
    """Scenario, axes and table of another experiment: with `set` in its scenario, and of some axes
    only the labels to keep.  Or of its axes only those named, before the file's own."""

    experiment: str
    set: dict = field(default_factory=dict)
    keep: dict = field(default_factory=dict)
    axes: list = field(default_factory=list)


def from_dict(data: dict, paper: str, name: str, where: str) -> Experiment:
    """A checked experiment from parsed TOML."""
    data = dict(data)
    table = data.pop("table", {})
    layout = _fill(_Layout, table, f"{where}: table")
    base = data.pop("scenario", None)
    axes = tuple(_axis(entry, f"{where}: axis {number}")
                 for number, entry in enumerate(data.pop("axis", [])))
    stated = data.pop("paper", {})
    parts = {}
    for key, kind in (("claim", Claim), ("figure", Figure), ("missing", Missing)):
        parts[f"{key}s" if key != "missing" else key] = tuple(
            _fill(kind, _renamed(entry), f"{where}: {key} {number}")
            for number, entry in enumerate(data.pop(key, [])))
    if "gain" in data:
        data["gain"] = _fill(Gain, data["gain"], f"{where}: gain")
        data.setdefault("metric", "gain")
    for key in ("rfc5166", "rfc9743", "differs", "fitted"):
        data[key] = tuple(data.get(key, ()))
    if (base is None) == (data.get("gain") is None):
        raise LabError(f"{where}: either a [scenario] or a [gain]")
    cells = tuple(_cells(base, axes, where)) if base is not None else ()
    experiment = _fill(Experiment, {
        **data, **parts, "paper": paper, "name": name, "axes": axes, "cells": cells,
        "rows": tuple(layout.rows), "columns": tuple(layout.columns), "stated": stated}, where)
    return experiment if experiment.gain else _checked(experiment, where)


@dataclass(frozen=True)
class _Layout:
    rows: list
    columns: list


def _renamed(entry: dict) -> dict:
    """`is` is no name in Python."""
    return {"relation" if key == "is" else key: value for key, value in entry.items()}


def _fill(kind, data: dict, where: str):
    """A dataclass from a TOML table; a key it does not know or lacks is an error."""
    known = {entry.name: entry for entry in dataclasses.fields(kind)}
    for key in data:
        if key not in known:
            raise LabError(f"{where}: unknown key {key!r} (known: {', '.join(sorted(known))})")
    for key, entry in known.items():
        required = entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING
        if required and key not in data:
            raise LabError(f"{where}: no {key}")
    return kind(**data)


def _axis(entry: dict, where: str) -> Axis:
    values = tuple(_fill(Value, value, f"{where} value {number}")
                   for number, value in enumerate(entry.get("values", ())))
    axis = _fill(Axis, {**entry, "values": values}, where)
    if not values:
        raise LabError(f"{where}: {axis.name} has no values")
    return axis


def _cells(base: dict, axes: tuple[Axis, ...], where: str) -> Iterator[Cell]:
    names, seen = [axis.name for axis in axes], set()
    for values in itertools.product(*(axis.values for axis in axes)):
        labels = {name: value.label for name, value in zip(names, values)}
        here = f"{where}: " + ", ".join(labels.values())
        for value in values:
            if unknown := set(value.only) - set(names):
                raise LabError(f"{here}: only names no axis {sorted(unknown)[0]!r}")
        if not all(labels[name] in as_list(wanted)
                   for value in values for name, wanted in value.only.items()):
            continue
        if tuple(labels.values()) in seen:
            raise LabError(f"{here}: two cells of these labels")
        seen.add(tuple(labels.values()))
        table = copy.deepcopy(base)
        for value in values:
            for path, new in value.set.items():
                put(table, path, new, here)
        formula = next((value.formula for value in values if value.formula), "")
        if formula and formula not in metrics.FORMULAS:
            raise LabError(f"{here}: no formula {formula!r} (there are: {', '.join(metrics.FORMULAS)})")
        table = copied_flows(table, here)
        yield Cell(labels, table, scenario.from_dict({"title": where, **table}, here), formula)


def put(table: dict, path: str, new, where: str) -> None:
    """Set what a dotted path names.  A part in quotes may have dots; in a list a part is a number,
    a name, or * for all of it; missing tables are made."""
    _put(table, [part.strip('"') for part in re.findall(r'"[^"]*"|[^."]+', path)], new,
         f"{where}: {path}")


def _put(node, parts: list[str], new, where: str) -> None:
    part, rest = parts[0], parts[1:]
    if isinstance(node, list):
        chosen = [number for number, entry in enumerate(node)
                  if part in ("*", str(number)) or entry.get("name") == part]
        if not chosen:
            raise LabError(f"{where}: there is no {part!r}")
        for number in chosen:
            if rest:
                _put(node[number], rest, new, where)
            else:
                node[number] = copy.deepcopy(new)
    elif not isinstance(node, dict):
        raise LabError(f"{where}: {part!r} is below something that is no table")
    elif rest:
        _put(node.setdefault(part, {}), rest, new, where)
    else:
        node[part] = copy.deepcopy(new)


def copied_flows(table: dict, where: str) -> dict:
    """Flows with `copies` written out: so many alike, `apart_s` after one another."""
    flows = []
    for flow in table.get("flow", []):
        flow = dict(flow)
        copies, apart_s = flow.pop("copies", 1), flow.pop("apart_s", 0)
        if type(copies) is not int or copies < 1:
            raise LabError(f"{where}: copies = {copies!r} is no number of flows")
        start_s = flow.get("start_s", 0)
        flows += [{**flow, "start_s": start_s + number * apart_s} if apart_s else flow
                  for number in range(copies)]
    return {**table, "flow": flows}


# ---- checking --------------------------------------------------------------

def _checked(experiment: Experiment, where: str) -> Experiment:
    for index, known in INDEXES.items():
        for entry in getattr(experiment, index):
            if entry not in known:
                raise LabError(f"{where}: {index} has no {entry!r} (it has: {', '.join(known)})")
    names = [axis.name for axis in experiment.axes]
    shown = [*experiment.rows, *experiment.columns]
    if sorted(shown) != sorted(name for name in names if name != SETTINGS):
        raise LabError(f"{where}: table has {shown}, the axes are {names}")
    if experiment.better not in ("less", "more"):
        raise LabError(f"{where}: better is less or more")
    if experiment.statistic not in ("mean", "max"):
        raise LabError(f"{where}: statistic is mean or max")
    if experiment.metric not in metrics.METRICS and not experiment.gain:
        raise LabError(f"{where}: no metric {experiment.metric!r} "
                       f"(there are: {', '.join(sorted(metrics.METRICS))})")
    if not experiment.gain:
        metrics.check_arguments(experiment.metric, experiment.arguments, where)
    for labels in experiment.fitted:
        _check_labels(experiment, labels, f"{where}: fitted")
    if experiment.precision not in ("interval", "deviation"):
        raise LabError(f"{where}: precision is interval or deviation")
    for number, claim in enumerate(experiment.claims):
        _check_claim(experiment, claim, f"{where}: claim {number}")
    for number, figure in enumerate(experiment.figures):
        _check_figure(experiment, figure, f"{where}: figure {number}")
    stated = _flat(experiment.stated, len(shown), where)
    keys = {experiment.key(cell) for cell in experiment.cells}
    for key in stated:
        if key not in keys:
            raise LabError(f"{where}: the paper's value of {key} has no cell")
    return dataclasses.replace(experiment, stated=stated)


def _flat(table: dict, depth: int, where: str, above: tuple = ()) -> dict:
    """Nested tables as one, its keys the labels on the way down."""
    flat = {}
    for label, entry in table.items():
        path = (*above, label)
        if isinstance(entry, dict) and len(path) < depth:
            flat.update(_flat(entry, depth, where, path))
        elif entry == NEVER and len(path) == depth:
            flat[path] = NEVER
        elif isinstance(entry, (int, float)) and len(path) == depth:
            flat[path] = float(entry)
        else:
            raise LabError(f"{where}: the paper's value of {path} is no number {depth} labels deep")
    return flat


def _check_labels(experiment: Experiment, chosen: dict, where: str) -> None:
    for name, wanted in chosen.items():
        if name not in [axis.name for axis in experiment.axes]:
            raise LabError(f"{where}: no axis {name!r}")
        for label in as_list(wanted):
            if label not in experiment.axis(name).labels:
                raise LabError(f"{where}: {name} has no {label!r}")


def _check_claim(experiment: Experiment, claim: Claim, where: str) -> None:
    if claim.relation not in ("less", "more", "within"):
        raise LabError(f"{where}: is = {claim.relation!r} is not less, more or within")
    if (claim.right is None) == (claim.value is None):
        raise LabError(f"{where}: either right or value")
    for chosen in (claim.left, claim.right or {}, claim.where):
        _check_labels(experiment, chosen, where)
    if claim.right is not None and set(claim.left) != set(claim.right):
        raise LabError(f"{where}: left and right name different axes")
    for name, labels in claim.left.items():
        both = set(as_list(labels)) & set(as_list(claim.right[name])) if claim.right else ()
        if both:
            raise LabError(f"{where}: {name} has {min(both)!r} left and right: what is the same is for "
                           "where")


def _check_figure(experiment: Experiment, figure: Figure, where: str) -> None:
    if figure.kind not in ("lines", "bars", "series"):
        raise LabError(f"{where}: kind {figure.kind!r} is not lines, bars or series")
    if figure.kind == "series":
        metrics.check_arguments(figure.metric, figure.arguments, where)
    elif figure.metric:
        raise LabError(f"{where}: metric is for figures of kind series")
    axes = ([figure.x] if figure.kind != "series" else []) + ([figure.series] if figure.series else [])
    _check_labels(experiment, {name: [] for name in axes}, where)
    _check_labels(experiment, figure.where, where)


# ---- gains -----------------------------------------------------------------

def expand_gain(experiment: Experiment, by_name: dict) -> Experiment:
    """The cells of a [gain]: those of its value's experiment, by the axes that it leaves open."""
    if not experiment.gain:
        return experiment
    where = f"{experiment.id}: gain"
    for side in (experiment.gain.value, experiment.gain.reference):
        source = by_name.get(side.get("experiment"))
        if source is None or source.gain:
            raise LabError(f"{where}: no experiment {side.get('experiment')!r} with cells of its own")
        _check_labels(source, _labels_of(side), where)
    source = by_name[experiment.gain.value["experiment"]]
    fixed = {name: label for name, label in _labels_of(experiment.gain.value).items()
             if not isinstance(label, list)}
    axes = tuple(axis for axis in source.axes if axis.name not in fixed)
    cells, seen = [], set()
    for cell in source.matching(_labels_of(experiment.gain.value)):
        labels = {axis.name: cell.labels[axis.name] for axis in axes}
        reference = reference_of(experiment, by_name, labels)
        itself = experiment.gain.reference["experiment"] == source.name and reference == cell.labels
        if reference and not itself and tuple(labels.values()) not in seen:
            seen.add(tuple(labels.values()))
            cells.append(Cell(labels, {}, None))
    axes = tuple(dataclasses.replace(axis, values=tuple(
        value for value in axis.values if any(cell.labels[axis.name] == value.label for cell in cells)))
        for axis in axes)
    reference = by_name[experiment.gain.reference["experiment"]]
    made = dataclasses.replace(experiment, axes=axes, cells=tuple(cells),
                               random=source.random or reference.random)
    return _checked(made, experiment.id)


def _labels_of(side: dict) -> dict:
    return {name: label for name, label in side.items() if name != "experiment"}


def value_of(experiment: Experiment, labels: dict) -> dict:
    """The labels, in the value's experiment, of a gain's cell."""
    fixed = {name: label for name, label in _labels_of(experiment.gain.value).items()
             if not isinstance(label, list)}
    return {**labels, **fixed}


def reference_of(experiment: Experiment, by_name: dict, labels: dict) -> dict | None:
    """The labels, in the reference's experiment, of what a gain's cell is compared with."""
    source = by_name[experiment.gain.reference["experiment"]]
    wanted = {**value_of(experiment, labels), **_labels_of(experiment.gain.reference)}
    wanted = {axis.name: wanted.get(axis.name) for axis in source.axes}
    found = list(source.matching(wanted))
    return found[0].labels if found else None
