# SPDX-License-Identifier: GPL-2.0
"""Write the tables of README.md, bench/RESULTS.md, the policies' READMEs and tools/uses/ from results.

    python3 -m bench readme [FOLDER]     from FOLDER/geo/bench.json, FOLDER/acceptance/geo.json,
                                         FOLDER/papers/summary.json, FOLDER/uses/papers.json,
                                         FOLDER/windows/windows.json and FOLDER/goals/papers.json, or
                                         FOLDER/goals-6.12/ for that kernel; the default is results/
    python3 -m bench readme --figures    only the file that `satcc choose` reads, from the present tables
                                         of bench/RESULTS.md; the other call writes it too

A table is between two comments, <!-- table: NAME --> and <!-- end -->, followed by a line with the
source of its figures.  A table without new figures is not changed, nor is that of the verdicts if FOLDER
lacks a paper.  A policy's README has
<!-- table: harm POLICY -->, a page of tools/uses/ <!-- table: use EXPERIMENT -->, and
modules/RESULTS-satcc.md <!-- table: goal EXPERIMENT -->, of bench/scenarios/satcc/.  The same on another
kernel is <!-- table: goal EXPERIMENT on 6.12 -->.  <!-- table: verdicts --> lists that page's goals.
"""

import json
import re
import statistics
import sys
from pathlib import Path

from ..errors import LabError
from ..papers import tables as papers_tables
from ..papers.experiment import papers as papers_of_bench
from ..paths import TOP
from . import figures, geo, goals, tables

BLOCK = re.compile(r"(<!-- table: (\w+)(?: ([\w-]+))?(?: on ([\w.-]+))? -->\n).*?(<!-- end -->)", re.S)
IDEAL = "limit of the link"
RECEIVERS = {"receiver": "without congestion control",
             "stock": "the same, with a stock receiver"}
PAGES = (TOP / "README.md", TOP / "bench" / "RESULTS.md", TOP / "modules" / "README-satcc.md",
         *sorted((TOP / "modules").glob("RESULTS-satcc*.md")),
         *sorted({path.parent / "README.md" for path in TOP.glob("*/tcp_*.c")}
                 - {TOP / "modules" / "README.md"}),
         *sorted((TOP / "tools" / "uses").glob("*.md")))
# The policies in README.md's table.
SUMMARY = ("satcc", "hybla_full", "westwood_abse", "hybla", "cubic", "bbr")
ACCESS_BYTES = 10_000_000       # README.md's transfers over public accesses: of this size to twice of it


def text_of(value, digits: int | None = None) -> str:
    """A number as text, with three significant digits or with this many decimals."""
    if not tables.is_number(value):
        return tables.MISSING
    if digits is None:
        digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f}"


def median(values) -> float | None:
    numbers = [value for value in values or [] if tables.is_number(value)]
    return statistics.median(numbers) if numbers else None


def text_with_range(values: list[float]) -> str:
    """The median and the range of a figure in percent: 96 (91–99)."""
    spread = tables.format_spread([round(value) for value in values], len(values), 0)
    return text_of(median(values), 0) + (f" ({spread})" if spread else "")


def label(policy: str) -> str:
    """hybla_full iw_rho=1 -> hybla_full `iw_rho=1`"""
    name, *parameters = policy.split()
    return " ".join([name, *(f"`{one}`" for one in parameters)])


def lines_of(rows: list[list[str]]) -> str:
    """A Markdown table; the first row is its head."""
    head, *rest = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head.replace("|  |", "| |", 1), "|" + "---|" * len(rows[0]), *rest]) + "\n"


def links(data: dict) -> str:
    """The table of every link, with a row for each policy, in seconds, packets and Mbit/s."""
    sizes = tables.transfer_sizes(data["links"][0])
    losses = tables.bulk_losses(data["links"][0])
    rows = [["", *map(tables.format_bytes, sizes), "held", "drops", "90 % of the link after",
             *(f"goodput, {tables.format_loss(loss)}" for loss in losses)]]
    for link in data["links"]:
        units = ["s"] * len(sizes) + ["s", "packets", "s"] + ["Mbit/s"] * len(losses)
        rows.append([f"**{link['name']}**", *units])
        times = [tables.transfer_values(link, size, "seconds") for size in sizes]
        held = tables.transfer_values(link, sizes[-1], "receiver_limited_s")
        drops = tables.transfer_values(link, sizes[-1], "drops")
        reached = tables.bulk_values(link, 0, "t90_s")
        goodput = [tables.bulk_values(link, loss, "goodput_mbit") for loss in losses]
        for policy in data["policies"]:
            rows.append([label(policy), *(text_of(median(one.get(policy))) for one in times),
                         text_of(median(held.get(policy))), text_of(median(drops.get(policy)), 0),
                         text_of(median(reached.get(policy))),
                         *(text_of(median(one.get(policy))) for one in goodput)])
        rows.append([IDEAL, *(text_of(tables.ideal_seconds(link, size)) for size in sizes), "", "", "",
                     *[text_of(link["net_rate_mbit"])] * len(losses)])
        for receiver, name in RECEIVERS.items():
            if link.get("floors"):
                rows.append([name, *(text_of(tables.floor_seconds(link, size).get(receiver))
                                     for size in sizes), *[""] * (3 + len(losses))])
    return lines_of(rows)


def summary(data: dict) -> str:
    """The policies of SUMMARY on two links, for README.md, and a rival's share at the largest RTT."""
    slow, fast = data["links"][:2]
    sizes = tables.transfer_sizes(slow)
    loss = tables.bulk_losses(slow)[-1]
    middle, large = sizes[-2:]
    with_loss = f"goodput, {tables.format_loss(loss)}"
    columns = [
        (f"{slow['name']}: {tables.format_bytes(middle)}", "s",
         tables.transfer_values(slow, middle, "seconds")),
        (with_loss, "Mbit/s", tables.bulk_values(slow, loss, "goodput_mbit")),
        (f"{fast['name']}: {tables.format_bytes(large)}", "s",
         tables.transfer_values(fast, large, "seconds")),
        ("packets dropped", "", tables.transfer_values(fast, large, "drops")),
        (with_loss, "Mbit/s", tables.bulk_values(fast, loss, "goodput_mbit"))]
    shared = max(data["beside"]["links"], key=lambda link: link["rtt_ms"])
    left = {row["policy"]: row["rival_pct"] for row in shared["rows"]}
    columns.append((f"{shared['rival']} beside it, {shared['rtt_ms']:g} ms", "%", left))
    rows = [["", *(f"{head} ({unit})" if unit else head for head, unit, _ in columns)]]
    for policy in [name for name in SUMMARY if name in data["policies"]]:
        rows.append([label(policy), *(
            text_of(median(values.get(policy)), None if unit in ("s", "Mbit/s") else 0)
            for _, unit, values in columns)])
    return lines_of(rows)


def beside(data: dict) -> str:
    """The share that a rival gets beside each policy, and the drops of both flows."""
    links_beside = data["beside"]["links"]
    rows = [["", *(text for link in links_beside for text in (
        f"{link['rtt_ms']:g} ms: own", link["rival"], "of its share", "drops"))],
            ["", *["Mbit/s", "Mbit/s", "%", "packets"] * len(links_beside)]]
    for row in links_beside[0]["rows"]:
        cells = []
        for link in links_beside:
            one, = [one for one in link["rows"] if one["policy"] == row["policy"]]
            cells += [text_of(median(one["own_mbit"])), text_of(median(one["rival_mbit"])),
                      text_of(median(one["rival_pct"]), 0), text_of(median(one["drops"]), 0)]
        rows.append([label(row["policy"]), *cells])
    return lines_of(rows)


def harm(data: dict, policy: str) -> str:
    """One policy's effect on others: a rival's rate beside it, beside bbr and beside a second rival."""
    links_beside = data["beside"]["links"]
    rival = links_beside[0]["rival"]
    rows = [["a flow of", *(text for link in links_beside for text in (
        f"{link['rtt_ms']:g} ms: {rival} beside it, Mbit/s", "of its share, %", "packets dropped"))]]
    names = [row["policy"] for row in links_beside[0]["rows"] if row["policy"].split()[0] == policy]
    for name in [*names, *(other for other in ("bbr", rival) if other not in names)]:
        cells = []
        for link in links_beside:
            one, = [one for one in link["rows"] if one["policy"] == name]
            cells += [text_of(median(one["rival_mbit"])), text_with_range(one["rival_pct"]),
                      text_of(median(one["drops"]), 0)]
        rows.append([label(name), *cells])
    return lines_of(rows)


def long(data: dict) -> str:
    """The table of the faster link: goodput of one flow, with a row for each loss."""
    fast = data["long"]
    policies = [policy for policy in data["policies"]
                if any(row["policy"] == policy for row in fast["rows"])]
    rows = [["", *policies]]
    for loss in tables.row_losses(fast["rows"]):
        values = tables.row_values(fast["rows"], loss, lambda row: row["goodput_mbit"])
        medians = [text_of(median(values.get(policy))) for policy in policies]
        rows.append([tables.format_loss(loss), *medians])
    return lines_of(rows)


def cost(data: dict) -> str:
    """Instructions per ACK of each policy's callbacks, with a row for each loss."""
    rows = data["cost"]["rows"]
    by_loss = {loss: tables.row_values(rows, loss, lambda row: row["per_ack"])
               for loss in tables.row_losses(rows)}
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    return lines_of([["", *policies], *(
        [tables.format_loss(loss), *(text_of(values.get(policy), 0) for policy in policies)]
        for loss, values in by_loss.items())])


def accesses(data: dict) -> str:
    """The acceptance suite's rows of 10 MB and 10 MiB, without its limits apart from the floor.

    A link's name has the size if it is not 10 MB.
    """
    suite = data["acceptance"]
    policies = suite["policies"]
    shown = [row for row in suite["rows"] if ACCESS_BYTES <= row["bytes"] < 2 * ACCESS_BYTES]
    implied = ("size", tables.format_bytes(ACCESS_BYTES))
    rows = []
    for cells in (geo.heads(policies), *(geo.cells(row, policies) for row in shown)):
        link, size, *times = cells[:2 + len(policies) + 2]
        rows.append([link if size in implied else f"{link}, {size}",
                     *(f"**{time[:-1]}**" if time.endswith("*") else time for time in times)])
    return lines_of(rows)


def acceptance(data: dict) -> str:
    """The acceptance suite's table, and the objectives that no policy reaches."""
    suite = data["acceptance"]
    rows, link = [geo.heads(suite["policies"])], None
    for row in suite["rows"]:
        name, *line = [cell.replace("*", "") for cell in geo.cells(row, suite["policies"])]
        rows.append(["" if name == link else name, *line])
        link = name
    return lines_of(rows) + "".join(f"\n- {line}." for line in geo.missed(suite)) + "\n"


def papers(data: dict) -> str:
    """Verdicts by paper: independent values, those that a policy that does nothing would reproduce,
    claims, and values and claims that are not counted."""
    by_paper = data["papers"]["papers"]
    values, claims = (list(next(iter(by_paper.values()))[kind]) for kind in ("values", "claims"))
    rows = [["", *(f"values {one}" if one == values[0] else one for one in values), "by doing nothing",
             "not counted", *(f"claims: {one}" if one == claims[0] else one for one in claims),
             "not counted"]]
    for paper, counts in by_paper.items():
        null = counts["null"]
        rows.append([paper, *(str(counts["values"][one]) for one in values),
                     f"{null['reproduced']} of {null['of']}",
                     str(sum(counts["uncounted"]["values"].values())),
                     *(str(counts["claims"][one]) for one in claims),
                     str(sum(counts["uncounted"]["claims"].values()))])
    return lines_of(rows)


def beside_of(data: dict, name: str) -> list[dict]:
    """The experiments of a use: the one of its name, and those whose names begin with it."""
    return [one for one in data["uses"]["experiments"]
            if one["name"] == name or one["name"].startswith(f"{name}-")]


def use(data: dict, name: str) -> str:
    """An experiment of bench/scenarios/uses/, and beside it those whose names begin with its name.

    All have the same rows.  Raises ValueError if there is no such experiment.
    """
    experiments = beside_of(data, name)
    if not experiments:
        raise ValueError(f"table: use {name}: no such experiment")
    return side_by_side(experiments)


def side_by_side(experiments: list[dict]) -> str:
    """The tables of experiments that have the same rows, as one.  A head has the experiment's title
    where its columns alone would not tell which experiment it is."""
    drawn = [papers_tables.table(one) for one in experiments]
    heads = [", ".join([one["title"], *column] if len(drawn) > 1 or not column else column)
             + f" ({one['unit']})"
             for one, each in zip(experiments, drawn) for column in each.columns]
    rows, above = [[*drawn[0].row_names, *heads]], ()
    for number, (labels, _) in enumerate(drawn[0].rows):
        cells = [cell for each in drawn for cell in each.rows[number][1]]
        first = [("" if labels[:at + 1] == above[:at + 1] and at + 1 < len(labels) else label)
                 for at, label in enumerate(labels)]
        rows.append([*first, *(cell.ours if cell else "" for cell in cells)])
        above = labels
    return lines_of(rows)


def goal(data: dict, name: str) -> str | None:
    """One experiment of bench/scenarios/satcc/: its table, and whether each of its claims holds.
    None if it was not played."""
    for experiment in data["goals"]["experiments"]:
        if experiment["name"] == name:
            claims = [f"- {papers_tables.claim_verdict(claim)}: {claim['text']} "
                      f"({papers_tables.claim_text(claim)})." for claim in experiment["claims"]]
            below = "".join(f"{line}\n" for line in claims)
            return side_by_side([experiment]) + (f"\n{below}" if below else "")
    return None


def windows(data: dict) -> str:
    """What the oracle recomputed in the experiments of satcc's goals, with a row for each, and for all.

    Experiments that share their runs are in one row.
    """
    rows = [["experiment", "runs", "flows", "calls", "windows changed", "differences"]]
    keys = ("runs", "flows", "events", "changes", "differences")
    by_counts = {}
    for entry in data["windows"]["experiments"]:
        by_counts.setdefault(tuple(entry[key] for key in keys), []).append(entry["name"])
    for counts, names in by_counts.items():
        rows.append([", ".join(f"`{name}`" for name in names), *map(str, counts)])
    rows.append(["all, each run once", *(str(data["windows"]["all"][key]) for key in keys)])
    return lines_of(rows)


def verdicts(data: dict) -> str:
    """Each goal of satcc and whether it holds, with a link to the experiment's figures."""
    rows, above = [["experiment", "goal", "verdict", "met in", "runs of a figure", "commit"]], ""
    for goal_of_page in data["verdicts"]:
        title = goal_of_page["title"]
        link = f"[{title}]({goals.PAGE.name}#{goals.anchor(title)})"
        rows.append(["" if title == above else link,
                     *(goal_of_page[key] for key in ("text", "verdict", "cells", "seeds", "commit"))])
        above = title
    return lines_of(rows)


# Explanations of table heads.
NOTES = {"links": "\"Held\" is the time in which the sender of the largest transfer waited for the\n"
                  "receiver's window, which Linux opens from 64 kB on. Only this window and the\n"
                  "link limit a sender without congestion control. A policy may still be faster,\n"
                  "because such a sender sends in bursts.\n"}


def seeds_text(experiments: list[dict]) -> str:
    """How many runs the figures of experiments of uses or goals are of."""
    counts = {cell["seeds"] for one in experiments for cell in one["cells"]} - {0, 1}
    if not counts:
        return "Each figure is of one run."
    few, many = min(counts), max(counts)
    return (f"Where chance counts, a figure is the mean of {few if few == many else f'{few} to {many}'} "
            "seeds with its 95 % interval; elsewhere it is of one run.")


# How many runs a figure is of, for the tables in which the seeds do not depend on the loss.
BESIDE = "Each figure is the median of three seeds."
CHANCE = {"summary": "With random loss, and beside cubic, a figure is the median of three seeds; "
                     "else of one run.",
          "beside": BESIDE, "harm": f"{BESIDE} The range has all three.",
          "cost": "Each figure is from one run."}


def seeds_of(data: dict, name: str) -> str:
    """How many seeds the links with random loss have in a table of make geo, or of make bench."""
    if name in ("acceptance", "accesses"):
        return str(max(len(times) for row in data["acceptance"]["rows"]
                       for times in row["seconds"].values()))
    return "three"


def source(data: dict, name: str, experiment: str | None = None, series: str | None = None) -> str:
    """The line below a table: the command, the kernel, the emulator, the commit and the seeds.

    series: of the kernel, if the command names it.
    """
    if name == "papers":
        about = data[name]["about"]
        return (f"\n(`make papers`, {about['date']}, Linux {about['kernel']}, {about['emulator']}, "
                f"commit {about['commit'] or 'unknown'}, {about['runs']} runs, with "
                f"{about['seeds']} to {about['most_seeds']} seeds where a value depends on chance.)\n")
    if name == "windows":
        about = data[name]["about"]
        count = data[name]["all"]["halved"]
        halved = (f"{count} of the runs have the first half of the time only, because their events do "
                  "not fit the kernel's buffer.") if count else ""
        return (f"\n(`make goals-windows POLICY=\"{' '.join(about['policies'])}\"`, {about['date']}, "
                f"Linux {about['kernel']}, {about['emulator']}, commit {about['commit'] or 'unknown'}. "
                f"Each cell was played once.{' ' if halved else ''}{halved})\n")
    if name == "verdicts":
        return f"\n(`make goals`; {goals.PAGE.name} has the source of each line.)\n"
    if name in ("use", "goal"):
        about = data[f"{name}s"]["about"]
        played = beside_of(data, experiment) if name == "use" else \
            [one for one in data["goals"]["experiments"] if one["name"] == experiment]
        command = f"make {name}s" + (f" KERNEL={series}" if series else "")
        return (f"\n(`{command}`, {about['date']}, Linux {about['kernel']}, {about['emulator']}, "
                f"commit {about['commit'] or 'unknown'}. {seeds_text(played)})\n")
    about = data["acceptance"]["about"] if name in ("acceptance", "accesses") else data["about"]
    note = f"\n{NOTES[name]}" if name in NOTES else ""
    chance = CHANCE.get(
        name, f"With random loss a figure is the median of {seeds_of(data, name)} seeds; without it, of "
        "one run.")
    command = about["command"] if name == "long" else about["command"].removesuffix(" LONG=1")
    return (f"{note}\n(`{command}`, Linux {about['kernel']}, {about['emulator']}, commit "
            f"{about['commit'] or 'unknown'}. {chance})\n")


TABLES = {"summary": summary, "links": links, "beside": beside, "long": long, "cost": cost,
          "acceptance": acceptance, "accesses": accesses, "papers": papers, "harm": harm, "use": use,
          "goal": goal, "windows": windows, "verdicts": verdicts}
# Table -> the entries of the data that it needs, if these are not the entry of its own name.
NEEDS = {"summary": ("links", "beside"), "accesses": ("acceptance",), "harm": ("beside",),
         "use": ("uses",), "goal": ("goals",)}


def written(text: str, data: dict) -> str:
    """The text with each table for which `data` has figures.  Raises ValueError for an unknown name."""
    def table(block) -> str:
        begin, name, policy, series, end = block.groups()
        if name not in TABLES:
            raise ValueError(f"table: {name}: not one of {', '.join(TABLES)}")
        if series and name != "goal":
            raise ValueError(f"table: {name} on {series}: only a goal may be of another kernel")
        known = {**data, "goals": data.get(f"goals-{series}")} if series else data
        if not all(known.get(need) for need in NEEDS.get(name, (name,))):
            return block.group()
        about = TABLES[name](known, policy) if policy else TABLES[name](known)
        if about is None:
            return block.group()
        return begin + "\n" + about + source(known, name, policy, series) + "\n" + end
    return BLOCK.sub(table, text)


def of_all_papers(path: Path) -> dict | None:
    """The verdicts of summary.json, or None if a paper has none, which stderr then names."""
    summary = json.loads(path.read_text())
    missing = [name for name, about in papers_of_bench().items()
               if not about.goals and name not in summary["papers"]]
    if not missing:
        return summary
    print(f"readme: the table of verdicts stays: {path} lacks {', '.join(missing)}; "
          "`make papers` without PAPER plays all", file=sys.stderr)
    return None


def measured(folder: Path) -> dict:
    """The figures of a folder of results, {} if it only has some papers' verdicts.  Raises OSError,
    ValueError."""
    data, verdicts = {}, folder / "papers/summary.json"
    if (comparison := folder / "geo/bench.json").exists():
        data = json.loads(comparison.read_text())
    if (suite := folder / "acceptance/geo.json").exists():
        data["acceptance"] = json.loads(suite.read_text())
    if verdicts.exists() and (summary := of_all_papers(verdicts)):
        data["papers"] = summary
    if (uses := folder / "uses/papers.json").exists():
        data["uses"] = json.loads(uses.read_text())
    if (recomputed := folder / "windows/windows.json").exists():
        data["windows"] = json.loads(recomputed.read_text())
    for played in folder.glob("goals*/papers.json"):
        data[played.parent.name] = json.loads(played.read_text())
    if not data and not verdicts.exists():
        raise ValueError(f"{folder}: no geo/bench.json, acceptance/geo.json, papers/summary.json, "
                         "uses/papers.json, windows/windows.json or goals/papers.json")
    return data


def write(folder: Path, figures_only: bool = False) -> None:
    """Write every page, from a folder of results, and the file of `satcc choose`.  Raises LabError."""
    try:
        data = {} if figures_only else measured(folder)
        if data:
            data["verdicts"] = goals.of(written(goals.PAGE.read_text(), data))
        for page in PAGES if data else ():
            page.write_text(written(page.read_text(), data))
        figures.write()
    except ValueError as error:
        raise LabError(f"readme: {error}") from None
