# SPDX-License-Identifier: GPL-2.0
"""The figures of `satcc choose`: the tables of bench/RESULTS.md as JSON.

They are read from the page, so the tool and the page have the same figures, whatever runs a table is
from.  The rate and RTT of a link are its scenario's.
"""

import json
import re

from ..paths import TOP
from . import comparison, rows

PAGE = TOP / "bench" / "RESULTS.md"
FILE = TOP / "tools" / "satcc_operate" / "figures.json"
UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
SOURCE = re.compile(r"`(?P<command>[^`]+)`, Linux (?P<kernel>\S+?)(?:,| under) (?P<emulator>.*?), "
                    r"commit (?P<commit>\w+)[.;] (?P<seeds>[^.]*\.) ?(?P<note>.*)")


# ---- the page --------------------------------------------------------------

def block(text: str, name: str) -> str:
    """The text between a table's two comments.  Raises ValueError."""
    _, begin, rest = text.partition(f"<!-- table: {name} -->")
    inside, end, _ = rest.partition("<!-- end -->")
    if not begin or not end:
        raise ValueError(f"{PAGE.name}: no table {name}")
    return inside


def cells(text: str) -> list[list[str]]:
    """The rows of a Markdown table, without the line below its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    split = [[cell.strip().replace("`", "").replace("*", "") for cell in line.strip("|").split("|")]
             for line in lines]
    return [split[0], *split[2:]]


def source(text: str) -> dict:
    """The parts of the parenthesis below a table, by the names in SOURCE.  Raises ValueError."""
    _, begin, rest = text.partition("\n(`")
    line = " ".join(f"`{rest}".strip().removesuffix(")").split())
    match = SOURCE.fullmatch(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line)) if begin else None
    if not match:
        raise ValueError(f"{PAGE.name}: a table has no line with its source: {line}")
    return match.groupdict()


def number(cell: str) -> float | int | None:
    """The number in a cell, such as 8.66 or 984; None if nothing was measured."""
    try:
        return int(cell) if cell.isdigit() else float(cell)
    except ValueError:
        return None


def size(head: str) -> int | None:
    """100 kB -> 100000; None: the head names no size."""
    match = re.fullmatch(r"([\d.]+) (\w+)", head)
    return round(float(match[1]) * UNITS[match[2]]) if match and match[2] in UNITS else None


def loss(head: str) -> str | None:
    """goodput, 1 % loss -> 1, in percent; None: the head names no loss."""
    match = re.search(r"(no|([\d.]+) %) loss$", head)
    return (match[2] or "0") if match else None


# ---- the tables ------------------------------------------------------------

def facts(name: str, scenario) -> dict:
    """Rate, RTT and queue of a link."""
    link = rows.link_facts(name, scenario)
    return {"rate_mbit": link["rate_mbit"], "rtt_ms": round(link["rtt_ms"], 3),
            "queue_bdp": round(link["queue_packets"] / link["bdp_packets"], 2)}


def alone(text: str, plan: comparison.Plan) -> list[dict]:
    """The links on which one flow runs: transfers, drops of the largest, goodput by loss."""
    head, *body = cells(block(text, "links"))
    by_name = {f"{link['rate_mbit']:g} Mbit/s": link
               for link in (facts(name, scenario) for name, scenario in plan.links.items())}
    labels, links = {policy.label for policy in plan.policies}, []
    for row in body:
        if row[0] in by_name:
            links.append({**by_name[row[0]], "source": source(block(text, "links")), "policies": {}})
        elif row[0] in labels:
            links[-1]["policies"][row[0]] = of_one_flow(dict(zip(head, row)))
    return links


def of_one_flow(row: dict) -> dict:
    """A row of the links' table."""
    return {"transfer_s": {str(size(head)): number(cell) for head, cell in row.items() if size(head)},
            "drops": number(row["drops"]),
            "goodput_mbit": {loss(head): number(cell) for head, cell in row.items() if loss(head)}}


def faster(text: str, plan: comparison.Plan) -> dict:
    """The faster link: goodput by loss."""
    head, *body = cells(block(text, "long"))
    return {**facts("long", plan.fast), "source": source(block(text, "long")), "policies": {
        policy: {"goodput_mbit": {loss(row[0]): number(row[column]) for row in body}}
        for column, policy in enumerate(head) if column}}


def beside(text: str, plan: comparison.Plan) -> list[dict]:
    """The links on which a flow of the policy runs beside a rival's."""
    head, _, *body = cells(block(text, "beside"))
    scenarios = {item.link: item.scenario for item in plan.of("beside")}
    links = []
    for nth, (name, scenario) in enumerate(scenarios.items()):
        first = 1 + 4 * nth
        link = facts(name, scenario)
        if head[first] != f"{link['rtt_ms']:g} ms: own":
            raise ValueError(f"{PAGE.name}: the column {head[first]} does not belong to the link {name}")
        links.append({**link, "rival": head[first + 1], "source": source(block(text, "beside")),
                      "policies": {row[0]: of_two_flows(row[first:first + 4]) for row in body}})
    return links


def of_two_flows(row: list[str]) -> dict:
    """The cells of one link in the table of rivals."""
    return dict(zip(("own_mbit", "rival_mbit", "share_pct", "drops"), map(number, row)))


def of(text: str) -> dict:
    """The figures of the page.  Raises ValueError."""
    plan = comparison.plan(long=True)
    return {"written_by": "python3 -m bench readme", "page": str(PAGE.relative_to(TOP)),
            "alone": [*alone(text, plan), faster(text, plan)], "beside": beside(text, plan)}


def write() -> None:
    """Write the file from the page.  Raises OSError, ValueError."""
    FILE.write_text(json.dumps(of(PAGE.read_text()), indent=1) + "\n")
