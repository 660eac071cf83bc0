# SPDX-License-Identifier: GPL-2.0
"""An experiment of a paper as data: one TOML file under scenarios/<paper>/, see README.md.

load() reads and checks a file, and expands its axes into cells.  Each cell is a scenario.  An unknown
key, a path that leads nowhere, or a paper's value without a cell is an error that names the file.  The
name of a field here is its TOML key unless key() gives another.
"""

import copy
import dataclasses
import functools
import itertools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pydantic

from ..errors import LabError
from ..measure import metrics
from ..scenario import scenario, schema
from ..scenario.scenario import Scenario
from ..scenario.schema import Flag, Line, computed, key, one_of, real, text, whole

FOLDER = Path(__file__).resolve().parents[1] / "scenarios"
ABOUT = "paper.toml"                # describes the folder; every other file is an experiment
# The entries of the report's indexes: the headings of RFC 5166, section 2, and of RFC 9743, evaluation
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
# Why a value or claim is no finding: it is computed from other runs; a setting was chosen by looking at
# it, or is inherited from such a one; it is true by construction; it is counted elsewhere.
UNCOUNTED = ("derived", "chosen", "identity", "repeat")
NEVER = "never"                     # a paper's value: its run did not reach the value
SETTINGS = "settings"               # the axis whose first label is compared with the paper


def _is_label(value) -> bool:
    return isinstance(value, str) and value.isprintable()


LABELS = schema.mapping(Line, schema.allowed(
    "a label or a list of labels", lambda value: _is_label(value)
    or isinstance(value, list) and bool(value) and all(map(_is_label, value))))
FILE = text("another file's name, without .toml", r"[\w-]+")
_PART = r'("[^"]+"|[^."]+)'
PATHS = schema.mapping(text("keys with dots between them", rf"{_PART}(\.{_PART})*"), Any)
ANYTHING = schema.mapping(Line, Any)
FORMULA = one_of("", *metrics.FORMULAS)
METRIC = one_of("gain", *metrics.METRICS)
SERIES = one_of("", *metrics.METRICS, *metrics.SERIES)
RELATION = one_of("less", "more", "within")
BETTER = one_of("less", "more", "one")        # one: the nearer to 1
# By `better`: the value of a run that did not reach what is measured; a ratio to nothing is infinite.
WORST = {"less": math.inf, "more": -math.inf, "one": math.inf}
KIND = one_of("lines", "bars", "series")
STATISTIC = one_of("mean", "max")
PRECISION = one_of("interval", "deviation")
WHY = schema.allowed("a sentence", lambda value: isinstance(value, str) and bool(value.strip())
                     and value.isprintable())
NUMBER = real(-1e12, 1e12)
PERCENT = real(0, 100)


@dataclass(frozen=True)
class Value(schema.Table):
    """One label of an axis, and its changes of the scenario.

    Two values may have the same label if `only` gives them different cells.
    """

    label: Line
    set: PATHS = field(default_factory=dict)
    only: LABELS = field(default_factory=dict)  # labels of the cells that have the value
    formula: FORMULA = ""                       # the cells are computed by this and not played
    x: NUMBER | None = None                     # the value's place on a figure's axis


@dataclass(frozen=True)
class Axis(schema.Table):
    name: Line
    values: pydantic.conlist(Value, min_items=1)

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(value.label for value in self.values))


@dataclass(frozen=True)
class Uncounted(schema.Table):
    """The reason why values are shown with a verdict and not counted as findings."""

    kind: one_of(*UNCOUNTED)
    why: WHY
    where: LABELS = field(default_factory=dict)     # labels of these values; {}: all values
    claims: Flag = False                            # all claims of the experiment are not counted, too


@dataclass(frozen=True)
class Null(schema.Table):
    """The null of each label of an axis: another label of that axis."""

    axis: Line
    of: schema.mapping(Line, Line)

    def rules(self) -> None:
        for label, other in self.of.items():
            if label == other:
                raise ValueError(f"{label!r} is listed as its own null")


@dataclass(frozen=True)
class Claim(schema.Table):
    """A claim of the paper's text: left is less or more than right, or near it."""

    text: Line
    left: LABELS
    relation: RELATION = key("is")
    right: LABELS | None = None                 # cells, or
    value: NUMBER | None = None                 # a number
    factor: real(0, 1e6) = 1.0
    where: LABELS = field(default_factory=dict)
    some: Flag = False                          # the claim is about at least one pair, not about each
    words: Line = ""                            # the paper's words with the value or factor
    uncounted: Uncounted | None = None

    def rules(self) -> None:
        if (self.right is None) == (self.value is None):
            raise ValueError("exactly one of right and value")
        if self.right is not None and set(self.left) != set(self.right):
            raise ValueError("left and right name different axes")
        for name, labels in self.left.items():
            both = set(as_list(labels)) & set(as_list(self.right[name])) if self.right else ()
            if both:
                raise ValueError(f"{name} has {min(both)!r} in left and right; put it in where")


@dataclass(frozen=True)
class Figure(schema.Table):
    title: Line
    kind: KIND
    y_label: Line
    x: Line = ""                                # axis along x; for kind series the label of x
    series: Line = ""                           # axis with one line or colour for each label
    metric: SERIES = ""                         # for kind series
    arguments: ANYTHING = field(default_factory=dict)
    where: LABELS = field(default_factory=dict)

    def rules(self) -> None:
        if (self.kind == "series") != bool(self.metric):
            raise ValueError("metric is for figures of kind series, which need one")
        if self.metric:
            schema.parse_below("arguments", metrics.arguments_of(self.metric), self.arguments)

    @property
    def axes(self) -> list[str]:
        """The axes that the figure shows."""
        return [self.x] * (self.kind != "series") + [self.series] * bool(self.series)


@dataclass(frozen=True)
class Missing(schema.Table):
    """A variant of the paper that today's kernel does not have."""

    label: Line
    why: Line


@dataclass(frozen=True)
class Gain(schema.Table):
    """Cells computed from other cells' means: 100 (reference - value) / reference.

    If more is better, it is the negative of this.
    value and reference each name an experiment of the same paper and labels of its axes.
    """

    value: LABELS
    reference: LABELS

    def rules(self) -> None:
        for name in ("value", "reference"):
            if not isinstance(getattr(self, name).get("experiment"), str):
                raise ValueError(f"{name} must name an experiment")


@dataclass(frozen=True)
class Like(schema.Table):
    """What a file takes over from another experiment: scenario, axes and table.

    set: changes of the scenario.
    keep: axis -> the labels to keep.
    axes: take only these axes, and put them before the file's own.
    """

    experiment: FILE
    set: PATHS = field(default_factory=dict)
    keep: LABELS = field(default_factory=dict)
    axes: tuple[Line, ...] = ()


@dataclass(frozen=True)
class Layout(schema.Table):
    rows: tuple[Line, ...]
    columns: tuple[Line, ...]


@dataclass(frozen=True)
class Cell:
    """One combination of labels.  A cell with a formula has a scenario, but no run."""

    labels: dict                                # axis -> label
    table: dict                                 # the scenario as parsed TOML
    scenario: Scenario | None                   # None for a [gain]
    formula: str = ""

    @functools.cached_property
    def digest(self) -> str:
        """Hash of the scenario: cells with the same hash share their runs."""
        return self.scenario.digest() if self.scenario else ""


@dataclass(frozen=True)
class Experiment(schema.Table):
    title: Line
    source: Line
    what: Line
    unit: Line
    better: BETTER
    table: Layout
    metric: METRIC = "gain"
    axes: tuple[Axis, ...] = key("axis", default=())
    scenario: ANYTHING | None = None
    # Labels (those of the rows, then of the columns) -> the paper's value.
    paper_values: ANYTHING = key("paper", default_factory=dict)
    arguments: ANYTHING = field(default_factory=dict)
    tolerance_pct: PERCENT = 15
    order: real(1, 1e6) = 3
    tolerance_points: PERCENT = 5               # replaces tolerance_pct if the unit is %
    order_points: PERCENT = 20                  # replaces order if the unit is %
    confidence_pct: real(50, 99.99) = 95
    precision_pct: real(0.01, 100) | None = None
    random: Flag = False                        # chance affects values, but see is_random()
    seeds: whole(1, 1000) = 1                   # seeds of a run in the first round
    statistic: STATISTIC = "mean"               # over seeds
    link: Line = ""                             # class of link, for the summary by links
    differs: tuple[Line, ...] = ()              # deviations from the paper's setting, a sentence each
    rfc5166: tuple[one_of(*INDEXES["rfc5166"]), ...] = ()
    rfc9743: tuple[one_of(*INDEXES["rfc9743"]), ...] = ()
    claims: tuple[Claim, ...] = key("claim", default=())
    figures: tuple[Figure, ...] = key("figure", default=())
    missing: tuple[Missing, ...] = ()
    uncounted: tuple[Uncounted, ...] = ()
    null: Null | None = None
    seeds_most: whole(1, 1000) = 8              # largest number of seeds of a run
    precision: PRECISION = "interval"           # the half-width or deviation that precision_pct limits
    gain: Gain | None = None
    paper: str = computed(default="")
    name: str = computed(default="")            # the file's
    cells: tuple[Cell, ...] = computed(default=())

    def rules(self) -> None:
        if (self.scenario is None) == (self.gain is None):
            raise ValueError("exactly one of [scenario] and [gain]")
        if (self.metric == "gain") != bool(self.gain):
            raise ValueError("metric is for a [scenario], which needs one")
        if self.gain and (self.axes or self.arguments):
            raise ValueError("a [gain] has the axes of its value, and no arguments")
        if not self.gain:
            schema.parse_below("arguments", metrics.arguments_of(self.metric), self.arguments)
        if len({axis.name for axis in self.axes}) != len(self.axes):
            raise ValueError("axis: two have the same name")
        if self.better == "one" and (self.gain or self.paper_values):
            raise ValueError('better = "one" is for experiments without a [gain] and a paper\'s values')

    @property
    def rows(self) -> tuple[str, ...]:
        return self.table.rows

    @property
    def columns(self) -> tuple[str, ...]:
        return self.table.columns

    @property
    def id(self) -> str:
        return f"{self.paper}/{self.name}"

    @property
    def in_points(self) -> bool:
        """Whether values are compared in points: they are in percent, and a ratio of small gains means
        little."""
        return self.unit == "%"

    def is_random(self, cell: Cell) -> bool:
        """Whether another seed can change the value of a cell with a scenario."""
        return self.random and not cell.formula and cell.scenario.has_chance

    def axis(self, name: str) -> Axis:
        return next(axis for axis in self.axes if axis.name == name)

    @property
    def paper_settings(self) -> str | None:
        """The label of the settings with which the paper's values are compared, or None."""
        return next((axis.labels[0] for axis in self.axes if axis.name == SETTINGS), None)

    def key(self, cell: Cell) -> tuple[str, ...]:
        """A cell's key in paper_values: the labels of the rows, then of the columns."""
        return tuple(cell.labels[name] for name in (*self.rows, *self.columns))

    def matching(self, chosen: dict) -> Iterator[Cell]:
        """Yield the cells with the chosen labels.  chosen: axis -> a label or a list of labels."""
        for cell in self.cells:
            if all(cell.labels[name] in as_list(wanted) for name, wanted in chosen.items()):
                yield cell


def as_list(labels) -> list:
    return labels if isinstance(labels, list) else [labels]


# ---- reading ---------------------------------------------------------------

@dataclass(frozen=True)
class Paper(schema.Table):
    """The keys of ABOUT."""

    citation: Line
    year: whole(1900, 2100) = 0
    goals: Flag = False                 # not a paper: `make goals` plays the folder
    policies: tuple[Line, ...] = ("TCP", "policy")      # axes whose labels are congestion controls

    def rules(self) -> None:
        if not self.goals and not self.year:
            raise ValueError("year is missing")


@functools.cache
def papers(folder: Path = FOLDER) -> dict[str, Paper]:
    """Folder of experiments -> its ABOUT; papers by year, then the goals.

    Raises LabError for a folder without ABOUT or without an experiment.
    """
    about = {}
    for path in (path for path in folder.iterdir() if path.is_dir()):
        names = {file.name for file in path.glob("*.toml")}
        if ABOUT not in names:
            raise LabError(f"{path}: no {ABOUT}, which names the paper of the folder")
        if names == {ABOUT}:
            raise LabError(f"{path}: no experiment beside {ABOUT}")
        about[path.name] = schema.read(Paper, schema.parsed(path / ABOUT), str(path / ABOUT))
    return dict(sorted(about.items(), key=lambda item: (item[1].goals, item[1].year, item[0])))


def policy_axes(paper: str) -> tuple[str, ...]:
    """Names of the axes of a paper's experiments whose labels are congestion controls."""
    return papers().get(paper, Paper).policies


def load_all(names: list[str] | None = None, folder: Path = FOLDER) -> list[Experiment]:
    """The experiments that the names stand for, each once: PAPER for all of its experiments, or
    PAPER/EXPERIMENT, with the experiments that it is computed from.  Without names: every paper, but
    not the goals.  LabError: no such paper or experiment."""
    known = papers(folder)
    if names is None:
        names = [name for name, paper in known.items() if not paper.goals]
    experiments = {}
    for name in names:
        paper, _, one = name.partition("/")
        if paper not in known:
            raise LabError(f"no paper {paper}; there are: {', '.join(known)}")
        paths = [path for path in (folder / paper).glob("*.toml") if path.name != ABOUT]
        by_name = {path.stem: load(path) for path in sorted(paths, key=_natural)}
        if one and one not in by_name:
            raise LabError(f"{paper}: no experiment {one}; there are: {', '.join(by_name)}")
        axes = {axis.name for experiment in by_name.values() for axis in experiment.axes}
        for axis in known[paper].policies:
            if axis not in axes and axis not in Paper.policies:
                raise LabError(f"{folder / paper / ABOUT}: policies: no experiment has an axis {axis}; "
                               f"there are: {', '.join(sorted(axes))}")
        experiments |= {experiment.id: expand_gain(experiment, by_name)
                        for experiment in by_name.values()
                        if not one or experiment.name in _with_sources(by_name[one])}
    return list(experiments.values())


def _with_sources(experiment: Experiment) -> set[str]:
    """An experiment's name and, if it is a gain, the names of those that it is computed from."""
    sides = (experiment.gain.value, experiment.gain.reference) if experiment.gain else ()
    return {experiment.name, *(side.get("experiment") for side in sides)}


def _natural(path: Path) -> list:
    """table10 comes after table9."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", path.stem)]


def load(path: Path) -> Experiment:
    """Read an experiment's file.  Raises LabError."""
    return from_dict(_parsed(path), path.parent.name, path.stem, str(path))


@dataclass(frozen=True)
class Inherited(schema.Table):
    """The keys that a file may take from another."""

    axes: tuple[Axis, ...] = key("axis", default=())
    scenario: ANYTHING | None = None
    table: Layout | None = None
    differs: tuple[Line, ...] = ()
    null: Null | None = None


INHERITED = Inherited.keys()


def _parsed(path: Path, users: tuple[Path, ...] = ()) -> dict:
    """A file's TOML, with the keys that it takes over from another file of the same paper.

    users: the files that take over from this one.
    """
    data = schema.parsed(path)
    schema.read(Inherited, {key: data[key] for key in INHERITED if key in data}, str(path))
    if "like" not in data:
        return data
    like = schema.read(Like, data.pop("like"), str(path), ("like",))
    where = f"{path}: like"
    other = path.with_name(f"{like.experiment}.toml")
    if other in (path, *users):
        raise LabError(f"{where}.experiment = {schema.value_text(like.experiment)}: "
                       "the other file takes over from this one")
    other = _parsed(other, (path, *users))
    if like.axes:
        known = {axis["name"]: axis for axis in other.pop("axis", [])}
        if missing := set(like.axes) - set(known):
            raise LabError(f"{where}.axes: {like.experiment} has no axis {min(missing)!r}")
        data["axis"] = [known[name] for name in like.axes] + data.get("axis", [])
        other.pop("table", None)
    own_axes = "axis" in data
    if own_axes:
        other.pop("null", None)
    for name in INHERITED:
        if name in other:
            data.setdefault(name, other[name])
    for target, new in like.set.items():
        put(data.setdefault("scenario", {}), target, new, f"{where}.set")
    for name, labels in like.keep.items():
        axes = [axis for axis in data.get("axis", []) if axis["name"] == name]
        kept = [value for axis in axes for value in axis["values"] if value["label"] in as_list(labels)]
        if {value["label"] for value in kept} != set(as_list(labels)):
            raise LabError(f"{where}.keep: axis {name!r} does not have all of {as_list(labels)}")
        axes[0]["values"] = kept
    if "null" in other:
        null = data["null"]
        kept = {value["label"] for axis in data["axis"] if axis["name"] == null["axis"]
                for value in axis["values"]}
        data["null"] = {**null, "of": {label: without for label, without in null["of"].items()
                                       if {label, without} <= kept}}
    return data


def from_dict(data: dict, paper: str, name: str, where: str) -> Experiment:
    """A checked experiment from parsed TOML."""
    keys = schema.read(Experiment, data, where)
    cells = tuple(_cells(keys.scenario, keys.axes, where)) if keys.scenario is not None else ()
    experiment = dataclasses.replace(keys, paper=paper, name=name, cells=cells)
    return experiment if experiment.gain else _checked(experiment, where)


def _cells(base: dict, axes: tuple[Axis, ...], where: str) -> Iterator[Cell]:
    names, seen = [axis.name for axis in axes], set()
    for values in itertools.product(*(axis.values for axis in axes)):
        labels = {name: value.label for name, value in zip(names, values)}
        here = f"{where}: " + ", ".join(labels.values()) if labels else where
        for value in values:
            if unknown := set(value.only) - set(names):
                raise LabError(f"{here}: only: there is no axis {min(unknown)!r}")
        if not all(labels[name] in as_list(wanted)
                   for value in values for name, wanted in value.only.items()):
            continue
        if tuple(labels.values()) in seen:
            raise LabError(f"{here}: two cells have these labels")
        seen.add(tuple(labels.values()))
        table = copy.deepcopy(base)
        for value in values:
            for path, new in value.set.items():
                put(table, path, new, f"{here}: set")
        formula = next((value.formula for value in values if value.formula), "")
        table = copied_flows(table, here)
        yield Cell(labels, table, _scenario({"title": where, **table}, here), formula)
    if not seen:
        raise LabError(f"{where}: axis: `only` leaves no cell")


_scenarios: dict[str, Scenario] = {}        # by their tables: half of all cells repeat one


def _scenario(table: dict, where: str) -> Scenario:
    text = repr({**table, "title": ""})
    if text not in _scenarios:
        _scenarios[text] = scenario.from_dict(table, where, ("scenario",))
    return dataclasses.replace(_scenarios[text], title=table["title"])


def put(table: dict, path: str, new, where: str) -> None:
    """Set the entry that a dotted path names, and create missing tables.

    A part in quotes may have dots.  In a list a part is a number, a name, or * for all entries.
    """
    _put(table, [part.strip('"') for part in re.findall(r'"[^"]*"|[^."]+', path)], new,
         f"{where}.{json.dumps(path)}")


def _put(node, parts: list[str], new, where: str) -> None:
    part, rest = parts[0], parts[1:]
    if isinstance(node, list):
        chosen = [number for number, entry in enumerate(node)
                  if part in ("*", str(number)) or isinstance(entry, dict) and entry.get("name") == part]
        if not chosen:
            raise LabError(f"{where}: no entry {part!r}")
        for number in chosen:
            if rest:
                _put(node[number], rest, new, where)
            else:
                node[number] = copy.deepcopy(new)
    elif not isinstance(node, dict):
        raise LabError(f"{where}: {part!r} is below an entry that is not a table")
    elif rest:
        _put(node.setdefault(part, {}), rest, new, where)
    else:
        node[part] = copy.deepcopy(new)


@dataclass(frozen=True)
class Copies(schema.Table):
    copies: whole(1, 1000) = 1
    apart_s: real(0, 1e6) = 0
    start_s: real(0, 1e6) = 0


def copied_flows(table: dict, where: str) -> dict:
    """The flows with `copies` expanded: equal flows, each `apart_s` after the one before."""
    flows = table.get("flow")
    if not isinstance(flows, list) or not all(isinstance(flow, dict) for flow in flows):
        return table            # the scenario's schema reports the error
    copies = []
    for number, flow in enumerate(flows):
        more = schema.read(Copies, {key: flow[key] for key in ("copies", "apart_s", "start_s")
                                    if key in flow}, where, ("scenario", "flow", number))
        flow = {key: value for key, value in flow.items() if key not in ("copies", "apart_s")}
        copies += [{**flow, "start_s": more.start_s + copy * more.apart_s} if more.apart_s else flow
                   for copy in range(more.copies)]
    return {**table, "flow": copies}


# ---- checking --------------------------------------------------------------

def _checked(experiment: Experiment, where: str) -> Experiment:
    names = [axis.name for axis in experiment.axes]
    shown = [*experiment.rows, *experiment.columns]
    if sorted(shown) != sorted(name for name in names if name != SETTINGS):
        raise LabError(f"{where}: table has {shown}, the axes are {names}")
    if not experiment.gain:
        _check_arguments(experiment, experiment.arguments, f"{where}: arguments")
    for number, entry in enumerate(experiment.uncounted):
        _check_labels(experiment, entry.where, f"{where}: uncounted[{number}].where")
    if null := experiment.null:
        _check_labels(experiment, {null.axis: [*null.of, *null.of.values()]}, f"{where}: null")
    for number, claim in enumerate(experiment.claims):
        for side in ("left", "right", "where"):
            _check_labels(experiment, getattr(claim, side) or {}, f"{where}: claim[{number}].{side}")
    for number, figure in enumerate(experiment.figures):
        here = f"{where}: figure[{number}]"
        if figure.metric and experiment.gain:
            raise LabError(f"{here}.metric: a [gain] has no runs of its own")
        _check_labels(experiment, {name: [] for name in figure.axes}, here)
        _check_labels(experiment, figure.where, f"{here}.where")
        if figure.metric:
            _check_arguments(experiment, figure.arguments, f"{here}.arguments")
    paper_values = _flat(experiment.paper_values, len(shown), where)
    keys = {experiment.key(cell) for cell in experiment.cells}
    for label in paper_values:
        if label not in keys:
            raise LabError(f"{where}: the paper's value of {label} has no cell")
    return dataclasses.replace(experiment, paper_values=paper_values)


def _check_arguments(experiment: Experiment, arguments: dict, where: str) -> None:
    """Check that each cell has the flows and the hop that the arguments name."""
    wanted = {arguments.get("flow", 0), *arguments.get("flows", ())}
    for cell in experiment.cells:
        flows, hops = len(cell.scenario.flows), [hop.name for hop in cell.scenario.hops]
        here = f"{where}: {', '.join(cell.labels.values())}"
        if max(wanted) >= flows:
            raise LabError(f"{here}: no flow {max(wanted)}, there are {flows}")
        if arguments.get("hop", hops[0]) not in hops:
            raise LabError(f"{here}: no hop {arguments['hop']!r}, there are {', '.join(hops)}")


def _flat(table: dict, depth: int, where: str, above: tuple = ()) -> dict:
    """Nested tables as one: tuple of labels -> value."""
    flat = {}
    for label, entry in table.items():
        path = (*above, label)
        if isinstance(entry, dict) and len(path) < depth:
            flat.update(_flat(entry, depth, where, path))
        elif entry == NEVER and len(path) == depth:
            flat[path] = NEVER
        elif type(entry) in (int, float) and math.isfinite(entry) and len(path) == depth:
            flat[path] = float(entry)
        else:
            at = schema.path_text(("paper", *path))
            raise LabError(f"{where}: {at} = {schema.value_text(entry)}: a number or {NEVER!r}, "
                           f"{depth} labels deep")
    return flat


def _check_labels(experiment: Experiment, chosen: dict, where: str) -> None:
    for name, wanted in chosen.items():
        if name not in [axis.name for axis in experiment.axes]:
            raise LabError(f"{where}: no axis {name!r}")
        for label in as_list(wanted):
            if label not in experiment.axis(name).labels:
                raise LabError(f"{where}: {name} has no {label!r}")


# ---- gains -----------------------------------------------------------------

def expand_gain(experiment: Experiment, by_name: dict) -> Experiment:
    """The experiment with the cells of its [gain]: those of its value's experiment, by the axes that the
    gain does not fix."""
    if not experiment.gain:
        return experiment
    where = f"{experiment.id}.toml: gain"
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
    gain = dataclasses.replace(experiment, axes=axes, cells=tuple(cells),
                               random=source.random or reference.random)
    return _checked(gain, f"{experiment.id}.toml")


def _labels_of(side: dict) -> dict:
    return {name: label for name, label in side.items() if name != "experiment"}


def value_of(experiment: Experiment, labels: dict) -> dict:
    """The labels of a gain's cell in the value's experiment."""
    fixed = {name: label for name, label in _labels_of(experiment.gain.value).items()
             if not isinstance(label, list)}
    return {**labels, **fixed}


def reference_of(experiment: Experiment, by_name: dict, labels: dict) -> dict | None:
    """The labels of the reference of a gain's cell, in the reference's experiment; None without one."""
    source = by_name[experiment.gain.reference["experiment"]]
    wanted = {**value_of(experiment, labels), **_labels_of(experiment.gain.reference)}
    wanted = {axis.name: wanted.get(axis.name) for axis in source.axes}
    cells = list(source.matching(wanted))
    return cells[0].labels if cells else None
