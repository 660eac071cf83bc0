# SPDX-License-Identifier: GPL-2.0
"""The tables of papers.json for the pages and for papers.md: pure functions, without markup."""

import functools
import itertools
import math
import re
import statistics
from dataclasses import dataclass
from pathlib import Path

import pydantic

from ..scenario import schema
from ..scenario.schema import Line
from .experiment import SETTINGS, WORST
from .results import null_score
from .verdict import BLIND, FAILS, HOLDS, NOT, REPRODUCED, SAME_ORDER, UNDECIDED, UNSURE, VERDICTS

MISSING = "–"
# Signs of verdicts, for text and for readers who do not see the colours.
SIGNS = {REPRODUCED: "=", SAME_ORDER: "≈", NOT: "≠", UNDECIDED: "?", BLIND: "○",
         HOLDS: "✓", UNSURE: "~", FAILS: "✗"}
LISTED = 6                          # values listed with the text of a claim, of each verdict
NEAR_PCT = 5                        # a value within this of the best counts as equally good
QUESTIONS = Path(__file__).with_name("questions.toml")


@dataclass(frozen=True)
class Question(schema.Table):
    """A [[question]] of questions.toml."""

    text: Line
    metrics: pydantic.conlist(Line, min_items=1)


@dataclass(frozen=True)
class Questions(schema.Table):
    question: tuple[Question, ...]


@functools.cache
def questions() -> dict[str, list[str]]:
    """Question -> the metrics that answer it, in the order of the file."""
    read = schema.read(Questions, schema.parsed(QUESTIONS), QUESTIONS.name)
    return {question.text: question.metrics for question in read.question}


@dataclass(frozen=True)
class Cell:
    """One place of a table.  today: label of settings -> value."""

    ours: str
    paper: str = ""
    ratio: str = ""
    verdict: str = ""
    today: tuple[tuple[str, str], ...] = ()
    uncounted: str = ""                 # the kind of a value that is not counted

    @property
    def sign(self) -> str:
        sign = SIGNS.get(self.verdict, "")
        return f"({sign})" if sign and self.uncounted else sign

    @property
    def css(self) -> str:
        return "uncounted" if self.uncounted else self.verdict


@dataclass(frozen=True)
class Table:
    rows: list[tuple[tuple[str, ...], list[Cell | None]]]
    row_names: list[str]
    columns: list[tuple[str, ...]]


# By an experiment's `better`: what a page says of it, and a value's distance from the best.
IS_BEST = {"less": "less is better", "more": "more is better", "one": "1 is best"}
DISTANCES = {"less": lambda value: value, "more": lambda value: -value,
             "one": lambda value: abs(value - 1)}


def number(value: float | None, digits: int = 4) -> str:
    """Format a number with this many significant digits and without an exponent."""
    if value is None:
        return MISSING
    if isinstance(value, str):          # the paper's "never"
        return value
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:.0f}"
    text = f"{value:.{digits}g}"
    return f"{value:.{digits + 3}f}".rstrip("0").rstrip(".") if "e" in text else text


def with_interval(cell: dict, digits: int = 4) -> str:
    if cell["mean"] is None:
        return "never" if cell["values"] else MISSING
    text = number(cell["mean"], digits)
    return text if cell["half"] is None else f"{text} ± {number(cell['half'], 2)}"


def table(experiment: dict) -> Table:
    """The experiment's table, with rows and columns as in its data file.

    A row or column without any cell is left out; a missing cell in the others is None.
    """
    axes = experiment["axes"]
    settings = axes.get(SETTINGS, [None])
    places = {}
    for cell in experiment["cells"]:
        key = tuple(cell["labels"][name] for name in (*experiment["rows"], *experiment["columns"]))
        places.setdefault(key, {})[cell["labels"].get(SETTINGS)] = cell
    split = len(experiment["rows"])
    rows = [labels for labels in itertools.product(*(axes[name] for name in experiment["rows"]))
            if any(key[:split] == labels for key in places)]
    columns = [labels for labels in itertools.product(*(axes[name] for name in experiment["columns"]))
               if any(key[split:] == labels for key in places)]
    return Table([(row, [_place(experiment, places.get((*row, *column)), settings)
                         for column in columns])
                  for row in rows], list(experiment["rows"]), columns)


def _place(experiment: dict, cells: dict | None, settings: list) -> Cell | None:
    if not cells:
        return None
    first = cells.get(settings[0])
    today = tuple((label, with_interval(cells[label])) for label in settings[1:] if label in cells)
    if first is None:
        return Cell(MISSING, today=today)
    ratio = ""
    if first["ratio"] is not None and experiment["unit"] != "%" and not first["formula"]:
        ratio = f"×{first['ratio']:.2f}"
    paper = "" if first["paper"] is None else number(first["paper"])
    kind = first["uncounted"][0] if first["uncounted"] and paper else ""
    return Cell(with_interval(first), paper, ratio, first["verdict"] or "", today, kind)


def causes(experiment: dict) -> list[tuple[str, str, str, str]]:
    """(verdict, cell, our value and the paper's, cause), the worst first."""
    rows = [(cell["verdict"], ", ".join(label for name, label in cell["labels"].items()
                                        if name != SETTINGS),
             f"{with_interval(cell)} {experiment['unit']}, the paper {number(cell['paper'])}",
             cell["cause"])
            for cell in experiment["cells"] if cell["cause"]]
    return sorted(rows, key=lambda entry: (NOT, SAME_ORDER, UNDECIDED, BLIND).index(entry[0]))


def uncounted(experiment: dict) -> list[tuple[str, int, int, str]]:
    """(kind, number of values, number of claims, why) of what is shown and not counted."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for place, key in enumerate(("cells", "claims")):
        for entry in experiment[key]:
            if entry["uncounted"] and (key == "claims" or entry["paper"] is not None):
                numbers.setdefault(tuple(entry["uncounted"]), [0, 0])[place] += 1
    return [(kind, values, claims, why) for (kind, why), (values, claims) in numbers.items()]


def uncounted_text(experiment: dict) -> list[str]:
    """One sentence for each reason."""
    def what(values: int, claims: int) -> str:
        return " and ".join(_number_of(*one) for one in ((values, "value"), (claims, "claim")) if one[0])
    return [f"{what(values, claims)}, {kind}: {why}"
            for kind, values, claims, why in uncounted(experiment)]


def _number_of(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def null_text(experiment: dict) -> str:
    """The score of a policy that does nothing in a table, from the paper's figures without the idea."""
    score = null_score(experiment["cells"])
    if not score["of"]:
        return ""
    return ("With the paper's own figures without the idea in place of ours, of "
            f"{score['of']} values that have such a figure {score[REPRODUCED]} would be reproduced, "
            f"{score[SAME_ORDER]} of the same order.")


def counts_text(counts: dict) -> str:
    """A paper's verdicts in one line."""
    def listed(kinds: dict) -> str:
        return ", ".join(f"{number} {kind}" for kind, number in kinds.items())
    null = counts["null"]
    values = {kind: counts["values"][kind] for kind in VERDICTS}
    return (f"values: {listed(values)}; claims: {listed(counts['claims'])}; not counted: "
            f"{sum(counts['uncounted']['values'].values())} values, "
            f"{sum(counts['uncounted']['claims'].values())} claims; without the idea "
            f"{null[REPRODUCED]} of {null['of']} values would be reproduced")


def _end(value: float | None) -> str:
    return "never" if value is None else number(value)


def claim_verdict(claim: dict) -> str:
    """The class of a verdict, or the reason why there is none."""
    text = claim["verdict"] or "not measured"
    return f"({text}; not counted: {claim['uncounted'][0]})" if claim["uncounted"] else text


def _missed(pairs: list[dict]) -> list[str]:
    """A text for each value that misses a claim, with all that it is compared with."""
    beside = {}         # the value -> what it is compared with
    for pair in pairs:
        value = f"{', '.join(pair['labels'].values())}: {_end(pair['left'])}"
        beside.setdefault(value, []).append(
            _end(pair["right"]) + (f" of {', '.join(pair['beside'])}" if pair["beside"] else ""))
    return [f"{value} beside {', '.join(others)}" for value, others in beside.items()]


def claim_text(claim: dict) -> str:
    """The number of pairs for which a claim holds, and those for which it does not.

    Of each kind it lists LISTED values at most, and none that is unsure only because it has no interval.
    """
    pairs = claim["pairs"]
    if len(pairs) < claim["of"]:
        return f"{len(pairs)} of {claim['of']} measured"
    text = f"holds in {sum(pair['holds'] for pair in pairs)} of {len(pairs)}"
    for heading, verdict in (("not surely for", UNSURE), ("not for", FAILS)):
        failed = [pair for pair in pairs if pair["verdict"] == verdict]
        why = {0: "a maximum over seeds", 1: "one seed"}.get(claim["seeds"])
        if verdict == UNSURE and why and failed:
            text += f"; {heading} {len(failed)}, because {why} has no interval"
        elif failed:
            missed = _missed(failed)
            more = [f"{len(missed) - LISTED} more"] if len(missed) > LISTED else []
            text += f"; {heading} {'; '.join(missed[:LISTED] + more)}"
    failed = [text] + [f"of {_number_of(claim['seeds'], 'seed')}"] * bool(claim["seeds"])
    return "; ".join(failed + [f"the paper: “{claim['words']}”"] * bool(claim["words"]))


def claim_causes(claim: dict) -> list[tuple[str, str, str]]:
    """(verdict, pair, cause) of each pair for which a claim does not hold."""
    return [(pair["verdict"], ", ".join(pair["labels"].values()), pair["cause"])
            for pair in claim["pairs"] if pair["cause"]]


def seeds_text(experiment: dict) -> str:
    """The number of seeds for the paper's precision, at the spread of our values."""
    needed = [cell["seeds_needed"] for cell in experiment["cells"] if cell["seeds_needed"]]
    if not experiment["precision_pct"] or not needed:
        return ""
    return (f"For ±{experiment['precision_pct']:g} % at {experiment['confidence_pct']:g} % confidence "
            f"the widest cell would need {max(needed)} seeds, the median one "
            f"{statistics.median_low(needed)}.")


# ---- which policy for which link -------------------------------------------

@dataclass(frozen=True)
class Contest:
    """The policies of one experiment under one condition, best first: (label, value)."""

    question: str
    experiment: str
    condition: str
    settings: str
    unit: str
    ranked: tuple[tuple[str, float], ...]
    path: dict

    @property
    def near(self) -> list[str]:
        """The policies within NEAR_PCT of the best; [] if none reached the value."""
        best = self.ranked[0][1]
        return [label for label, value in self.ranked
                if math.isfinite(value) and abs(value - best) <= abs(best) * NEAR_PCT / 100]

    @property
    def texts(self) -> list[str]:
        """The names, each with its value."""
        return [f"{label}: {number(value)} {self.unit}" if math.isfinite(value) else f"{label}: never"
                for label, value in self.ranked]


def question(metric: str) -> str | None:
    return next((asked for asked, metrics in questions().items() if metric in metrics), None)


def contests(data: dict) -> dict[str, list[Contest]]:
    """Class of link -> every condition under which two or more policies were measured.

    It leaves out gains, since the values behind them count already, and measures that ask the same
    question of the same runs again, such as a transfer's rate beside its time.
    """
    by_link: dict[str, list[Contest]] = {}
    asked_of = set()
    for experiment in data["experiments"]:
        names = [name for name in experiment["policy_axes"] if name in experiment["axes"]]
        asked = question(experiment["metric"])
        if not experiment["link"] or not names or not asked:
            continue
        grouped: dict[tuple, list[dict]] = {}
        for cell in experiment["cells"]:
            if cell["formula"] or not cell["path"] or not cell["values"]:
                continue
            condition = tuple((name, label) for name, label in cell["labels"].items()
                              if name not in (names[0], SETTINGS))
            grouped.setdefault((condition, cell["labels"].get(SETTINGS, "")), []).append(cell)
        for (condition, settings), cells in grouped.items():
            runs = (asked, experiment["arguments"].get("flow", 0),
                    *sorted(job for cell in cells for job in cell["jobs"]))
            if len(cells) < 2 or runs in asked_of:
                continue
            asked_of.add(runs)
            # Policies that never reached the value come last.
            never = WORST[experiment["better"]]
            ranked = sorted(((_policy(experiment, names[0], cell),
                              never if cell["mean"] is None else cell["mean"]) for cell in cells),
                            key=lambda pair: DISTANCES[experiment["better"]](pair[1]))
            by_link.setdefault(experiment["link"], []).append(Contest(
                asked, f"{experiment['paper']}: {experiment['title']}",
                ", ".join(label for _, label in condition), settings,
                experiment["unit"], tuple(ranked), cells[0]["path"]))
    return by_link


def _policy(experiment: dict, axis: str, cell: dict) -> str:
    """The paper's name of a policy, and the module's if it differs.

    With the settings of today, which may have another policy, it is the kernel's name alone.
    """
    settings, policy = cell["labels"].get(SETTINGS), cell["path"]["policy"]
    if settings != experiment["axes"].get(SETTINGS, [None])[0]:
        return policy
    label = cell["labels"][axis]
    plain = [re.sub("[^a-z0-9]", "", text.lower()) for text in (policy, label)]
    return label if plain[0] in plain[1] else f"{label} ({policy})"


def winners(on_link: list[Contest]) -> dict[str, dict[str, list[tuple[str, int, int]]]]:
    """Question -> settings -> [(policy, times within NEAR_PCT of the best, times measured), ...], the
    best first."""
    tally: dict[str, dict[str, dict[str, list[int]]]] = {}
    for contest in sorted(on_link, key=lambda contest: list(questions()).index(contest.question)):
        for label, _ in contest.ranked:
            score = tally.setdefault(contest.question, {}).setdefault(contest.settings, {}) \
                .setdefault(label, [0, 0])
            score[0] += label in contest.near
            score[1] += 1
    return {asked: {settings: sorted(((label, won, of) for label, (won, of) in score.items()),
                                     key=lambda entry: (-entry[1] / entry[2], -entry[1]))
                    for settings, score in by_settings.items()}
            for asked, by_settings in tally.items()}


def leaders(ranked: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """The policies that share the first place of a ranking."""
    return [entry for entry in ranked if entry[1:] == ranked[0][1:]]


def all_settings(by_link: dict[str, list[Contest]]) -> list[str]:
    return list(dict.fromkeys(contest.settings for on_link in by_link.values() for contest in on_link))


def path_text(path: dict) -> str:
    """A short description of a path: the properties that decide which policy suits it."""
    parts = []
    if path.get("rate_mbit"):
        parts.append(f"{path['rate_mbit']:.3g} Mbit/s")
    parts.append(f"{1e3 * path['rtt_s']:.0f} ms")
    if path.get("bdp_packets"):
        parts.append(f"rate × RTT {path['bdp_packets']}, queue {path['queue_packets']} packets")
    parts.append(f"{path['loss_pct']:g} % loss" if path["loss_pct"]
                 else "errors on the link" if path["errors"] else "no loss")
    parts.append(f"{path['flows']} flow" + ("" if path["flows"] == 1 else "s"))
    return ", ".join(parts)


def index(data: dict, key: str) -> dict[str, list[str]]:
    """Entry -> the experiments that have it.  key: "rfc5166" or "rfc9743"."""
    by_entry: dict[str, list[str]] = {}
    for experiment in data["experiments"]:
        for entry in experiment[key]:
            by_entry.setdefault(entry, []).append(f"{experiment['paper']}/{experiment['name']}")
    return dict(sorted(by_entry.items()))
