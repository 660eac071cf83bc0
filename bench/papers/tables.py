# SPDX-License-Identifier: GPL-2.0
"""papers.json laid out as the tables that page and text both draw: pure functions, no markup."""

import itertools
import math
import statistics
from dataclasses import dataclass

from .experiment import SETTINGS
from .verdict import NOT, REPRODUCED, SAME_ORDER

MISSING = "–"
# For those who do not see colours, and in text.
SIGNS = {REPRODUCED: "=", SAME_ORDER: "≈", NOT: "≠"}
POLICY_AXES = ("TCP", "policy")     # what an axis of policies is called, for the summary by links
NEAR_PCT = 5                        # of the best: as good


@dataclass(frozen=True)
class Cell:
    """One place of a table.  today: label of settings -> value."""

    ours: str
    paper: str = ""
    ratio: str = ""
    verdict: str = ""
    today: tuple[tuple[str, str], ...] = ()

    @property
    def sign(self) -> str:
        return SIGNS.get(self.verdict, "")


@dataclass(frozen=True)
class Table:
    rows: list[tuple[tuple[str, ...], list[Cell | None]]]
    row_names: list[str]
    columns: list[tuple[str, ...]]


def number(value: float | None, digits: int = 4) -> str:
    """So many digits that count, and never an exponent."""
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
    """Rows and columns as the data file lays them out; a combination without a cell is left out, or
    None where its row and column have others."""
    axes = experiment["axes"]
    settings = axes.get(SETTINGS, [None])
    found = {}
    for cell in experiment["cells"]:
        key = tuple(cell["labels"][name] for name in (*experiment["rows"], *experiment["columns"]))
        found.setdefault(key, {})[cell["labels"].get(SETTINGS)] = cell
    split = len(experiment["rows"])
    rows = [labels for labels in itertools.product(*(axes[name] for name in experiment["rows"]))
            if any(key[:split] == labels for key in found)]
    columns = [labels for labels in itertools.product(*(axes[name] for name in experiment["columns"]))
               if any(key[split:] == labels for key in found)]
    return Table([(row, [_place(experiment, found.get((*row, *column)), settings) for column in columns])
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
    return Cell(with_interval(first), paper + " (fitted)" * first["fitted"] * bool(paper), ratio,
                first["verdict"] or "", today)


def causes(experiment: dict) -> list[tuple[str, str, str, str]]:
    """(verdict, cell, ours beside the paper's, cause), the worst first."""
    found = [(cell["verdict"], ", ".join(label for name, label in cell["labels"].items()
                                         if name != SETTINGS),
              f"{with_interval(cell)} {experiment['unit']}, the paper {number(cell['paper'])}",
              cell["cause"])
             for cell in experiment["cells"] if cell["cause"]]
    return sorted(found, key=lambda entry: entry[0] != NOT)


def _end(value: float | None) -> str:
    return "never" if value is None else number(value)


def claim_verdict(claim: dict) -> str:
    """The verdict, or why there is none."""
    if claim["verdict"]:
        return claim["verdict"]
    return "fitted" if claim["fitted"] else "not measured"


def claim_text(claim: dict) -> str:
    """On how many pairs a claim holds, and where it does not."""
    pairs = claim["pairs"]
    if len(pairs) < claim["of"]:
        return f"{len(pairs)} of {claim['of']} measured"
    held = [pair for pair in pairs if pair["verdict"] == REPRODUCED]
    text = f"holds in {len(held)} of {len(pairs)}"
    failed = [f"{', '.join(pair['labels'].values())}: {_end(pair['left'])} beside "
              f"{_end(pair['right'])}" + (f" of {', '.join(pair['beside'])}" if pair["beside"] else "")
              for pair in pairs if pair["verdict"] != REPRODUCED]
    seeds = "; of one seed" if claim["seeds"] == 1 else ""
    return text + (f"; not for {'; '.join(failed)}" if failed else "") + seeds


def claim_causes(claim: dict) -> list[tuple[str, str, str]]:
    """(verdict, pair, what the runs show) where a claim does not hold."""
    return [(pair["verdict"], ", ".join(pair["labels"].values()), pair["cause"])
            for pair in claim["pairs"] if pair["cause"]]


def seeds_text(experiment: dict) -> str:
    """How many seeds the paper's precision takes, at the spread that ours have."""
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

    experiment: str
    condition: str
    settings: str
    metric: str
    unit: str
    ranked: tuple[tuple[str, float], ...]
    path: dict

    @property
    def near(self) -> list[str]:
        """Those within NEAR_PCT of the best."""
        best = self.ranked[0][1]
        return [label for label, value in self.ranked if abs(value - best) <= abs(best) * NEAR_PCT / 100]


def contests(data: dict) -> dict[str, list[Contest]]:
    """By class of link, every condition under which two policies or more were measured.  A gain is
    not: what it is computed from has been."""
    found: dict[str, list[Contest]] = {}
    for experiment in data["experiments"]:
        names = [name for name in POLICY_AXES if name in experiment["axes"]]
        if not experiment["link"] or not names:
            continue
        grouped: dict[tuple, list[dict]] = {}
        for cell in experiment["cells"]:
            if cell["formula"] or not cell["path"] or not cell["values"]:
                continue
            condition = tuple((name, label) for name, label in cell["labels"].items()
                              if name not in (names[0], SETTINGS))
            grouped.setdefault((condition, cell["labels"].get(SETTINGS, "")), []).append(cell)
        for (condition, settings), cells in grouped.items():
            # What never came to the value is last.
            never = math.inf if experiment["better"] == "less" else -math.inf
            ranked = sorted(((_policy(experiment, names[0], cell),
                              never if cell["mean"] is None else cell["mean"]) for cell in cells),
                            key=lambda pair: pair[1], reverse=experiment["better"] == "more")
            if len(ranked) > 1:
                found.setdefault(experiment["link"], []).append(Contest(
                    f"{experiment['paper']}: {experiment['title']}",
                    ", ".join(label for _, label in condition), settings, experiment["metric"],
                    experiment["unit"], tuple(ranked), cells[0]["path"]))
    return found


def _policy(experiment: dict, axis: str, cell: dict) -> str:
    """The paper's name of a policy; with the settings of today, which may be another's, the kernel's."""
    settings = cell["labels"].get(SETTINGS)
    return cell["path"]["policy"] if settings != experiment["axes"].get(SETTINGS, [None])[0] \
        else cell["labels"][axis]


def winners(found: list[Contest]) -> dict[str, list[tuple[str, int, int]]]:
    """By settings: (policy, how often within NEAR_PCT of the best, how often measured), best first."""
    tally: dict[str, dict[str, list[int]]] = {}
    for contest in found:
        for label, _ in contest.ranked:
            mine = tally.setdefault(contest.settings, {}).setdefault(label, [0, 0])
            mine[0] += label in contest.near
            mine[1] += 1
    return {settings: sorted(((label, won, of) for label, (won, of) in mine.items()),
                             key=lambda entry: (-entry[1] / entry[2], -entry[1]))
            for settings, mine in tally.items()}


def leaders(ranked: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Those that won the largest part of their contests, and as many."""
    return [entry for entry in ranked if entry[1:] == ranked[0][1:]]


def all_settings(found: dict[str, list[Contest]]) -> list[str]:
    return list(dict.fromkeys(contest.settings for mine in found.values() for contest in mine))


def path_text(path: dict) -> str:
    """A path in short: what decides which policy suits it."""
    said = []
    if path.get("rate_mbit"):
        said.append(f"{path['rate_mbit']:.3g} Mbit/s")
    said.append(f"{1e3 * path['rtt_s']:.0f} ms")
    if path.get("bdp_packets"):
        said.append(f"rate × RTT {path['bdp_packets']}, queue {path['queue_packets']} packets")
    said.append(f"{path['loss_pct']:g} % loss" if path["loss_pct"]
                else "errors on the link" if path["errors"] else "no loss")
    said.append(f"{path['flows']} flow" + ("" if path["flows"] == 1 else "s"))
    return ", ".join(said)


def index(data: dict, key: str) -> dict[str, list[str]]:
    """Of rfc5166 or rfc9743: entry -> the experiments that have it."""
    found: dict[str, list[str]] = {}
    for experiment in data["experiments"]:
        for entry in experiment[key]:
            found.setdefault(entry, []).append(f"{experiment['paper']}/{experiment['name']}")
    return dict(sorted(found.items()))
