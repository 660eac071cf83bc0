# SPDX-License-Identifier: GPL-2.0
"""Tables, plots and one HTML page out of the figures of a bench run.

    write_json(data, folder)     folder/bench.json
    write_report(data, folder)   folder/report.html, folder/plots/*.svg
    print_tables(data, console)  the tables of the page, on a terminal

A run is a dict: links, each with the transfers, bulk runs and series of every
policy; and, where there was such, the cost of the policies' callbacks, the
faster link, and what the oracle said. A table is a list of columns, a column
knows what each policy measured, and page and terminal draw the same cells.
Nothing here measures or judges.

    python3 -m bench.report FOLDER   draws the page again from FOLDER/bench.json
"""

import argparse
import dataclasses
import json
import math
import re
import statistics
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

import jinja2
import matplotlib
import numpy as np
from matplotlib.figure import Figure
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from tools.satcc_tools import graphs
from tools.satcc_tools.graphs import (
    DASHED, GREY, PALETTE, STYLE, THIN_COLUMNS, THIN_ROWS, data_uri, handle, largest, note_off_axis,
    note_peak, render_svg)

MISSING = "–"
# Rows of what floors.RECEIVERS let through.
RECEIVERS = {"receiver": "no control", "stock": "stock receiver"}
CONSOLE_COLUMNS = 100


# ---- numbers as text -------------------------------------------------------

def is_number(value) -> bool:
    """True for a finite number; None, NaN and infinities are missing."""
    return value is not None and math.isfinite(value)


def format_number(value, digits: int) -> str:
    """A count (no digits) whose median falls between two shows the half."""
    if not is_number(value):
        return MISSING
    if digits == 0 and value != int(value):
        digits = 1
    return f"{value:.{digits}f}"


def format_bytes(count: int) -> str:
    """100000 -> 100 kB, 1000000 -> 1 MB: decimal units."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count} B"


def format_loss(loss_pct: float) -> str:
    return f"{loss_pct:g} % loss" if loss_pct else "no loss"


def slug(name: str) -> str:
    """2 Mbit/s -> 2-mbit-s, for a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


# ---- tables ----------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Column:
    """One figure for every policy; several values are one per seed."""
    group: str                # what was run: "transfer", "60 s, no loss"
    title: str
    unit: str
    digits: int
    better: Callable | None   # min or max: which of two values wins; None: no contest
    values: dict[str, list]   # by policy
    ideal: float | None = None      # what the link lets through, and
    floors: dict = dataclasses.field(default_factory=dict)  # what receivers do, by RECEIVERS
    endless: bool = False     # a missing value means "never", not "not measured"


@dataclasses.dataclass(frozen=True)
class Cell:
    text: str
    spread: str = ""          # "0.45–0.61", smallest and largest of the seeds
    best: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    kind: str                 # "ours", "other" or, of no policy, "ideal"
    cells: list[Cell]


@dataclasses.dataclass(frozen=True)
class Table:
    title: str
    columns: list[Column]
    rows: list[Row]
    rows_are: str = "policy"

    def groups(self) -> list[tuple[str, int]]:
        """Neighbouring columns of one group, as (group, how many)."""
        found: list[tuple[str, int]] = []
        for column in self.columns:
            if found and found[-1][0] == column.group:
                found[-1] = (column.group, found[-1][1] + 1)
            else:
                found.append((column.group, 1))
        return found


def format_spread(values: list, total: int, digits: int) -> str:
    """Smallest to largest; says so if some of the runs gave nothing."""
    if total < 2 or not is_number(min(values, default=None)):
        return ""
    low, high = min(values), max(values)
    last = format_number(high, digits) if is_number(high) else "never"
    text = f"{format_number(low, digits)}–{last}"
    return text if len(values) == total else f"{text} ({len(values)} of {total})"


def plain_cell(column: Column, policy: str) -> Cell:
    """Median over the seeds and their range, not yet compared with others."""
    measured = column.values.get(policy, [])
    if column.endless:
        values = [v if is_number(v) else math.inf for v in measured]
    else:
        values = [v for v in measured if is_number(v)]
    median = statistics.median(values) if values else None
    return Cell(format_number(median, column.digits),
                format_spread(values, len(measured), column.digits))


def mark_best(column: Column, cells: list[Cell]) -> list[Cell]:
    """Marks every cell that prints the best number; none if all print it."""
    numbers = [float(c.text) for c in cells if c.text != MISSING]
    if len(numbers) > 1 and min(numbers) == max(numbers):
        return cells
    best = column.better(numbers, default=None) if column.better else None
    return [dataclasses.replace(c, best=c.text != MISSING
                                and float(c.text) == best) for c in cells]


def build_table(title: str, columns: list[Column], data: dict) -> Table:
    """One row per policy in the given order, then what is beside them."""
    policies = data["policies"]
    by_column = [mark_best(c, [plain_cell(c, p) for p in policies])
                 for c in columns]
    rows = [Row(policy, "ours" if policy in data["ours"] else "other",
                [cells[i] for cells in by_column])
            for i, policy in enumerate(policies)]
    for name, bounds in (("ideal", [c.ideal for c in columns]),
                         *((row, [c.floors.get(receiver) for c in columns])
                           for receiver, row in RECEIVERS.items())):
        if any(map(is_number, bounds)):
            rows.append(Row(name, "ideal", [
                Cell(format_number(bound, c.digits) if is_number(bound) else "")
                for c, bound in zip(columns, bounds)]))
    return Table(title, columns, rows)


def transfer_values(link: dict, size: int, key: str) -> dict[str, list]:
    return {t["policy"]: [t.get(key)] for t in link["transfers"]
            if t["bytes"] == size}


def bulk_values(link: dict, loss: float, key: str, scale=1) -> dict[str, list]:
    return {b["policy"]: [v * scale if is_number(v) else None
                          for v in b.get(key) or []]
            for b in link["bulk"] if b["loss_pct"] == loss}


def ideal_seconds(link: dict, size: int) -> float | None:
    """The same for every policy, so the first that has it."""
    return next((t["ideal_s"] for t in link["transfers"] if t["bytes"] == size
                 and is_number(t.get("ideal_s"))), None)


def floor_seconds(link: dict, size: int) -> dict[str, float]:
    """By receiver."""
    return {floor["receiver"]: floor["seconds"] for floor in link.get("floors", ())
            if floor["bytes"] == size}


def transfer_sizes(link: dict) -> list[int]:
    return sorted({t["bytes"] for t in link["transfers"]})


def bulk_losses(link: dict) -> list[float]:
    return sorted({b["loss_pct"] for b in link["bulk"]})


def speed_columns(link: dict) -> list[Column]:
    columns = [Column("transfer time", format_bytes(size), "s", 2, min,
                      transfer_values(link, size, "seconds"),
                      ideal_seconds(link, size), floor_seconds(link, size))
               for size in transfer_sizes(link)]
    for loss in bulk_losses(link):
        group = f"60 s, {format_loss(loss)}"
        columns += [
            Column(group, "goodput", "Mbit/s", 2, max,
                   bulk_values(link, loss, "goodput_mbit"),
                   link.get("net_rate_mbit")),
            Column(group, "to 90 %", "s", 2, min,
                   bulk_values(link, loss, "t90_s"), endless=True)]
    return columns


def loss_columns(link: dict) -> list[Column]:
    columns = []
    for size in transfer_sizes(link):
        group = format_bytes(size)
        columns += [
            Column(group, "drops", "pkts", 0, min,
                   transfer_values(link, size, "drops")),
            Column(group, "retx", "pkts", 0, min,
                   transfer_values(link, size, "retransmits"))]
    if sizes := transfer_sizes(link):
        columns.append(Column(format_bytes(sizes[-1]), "held", "s", 2, None,
                              transfer_values(link, sizes[-1], "receiver_limited_s")))
    for loss in bulk_losses(link):
        group = f"60 s, {format_loss(loss)}"
        columns += [
            Column(group, "drops", "pkts", 0, min,
                   bulk_values(link, loss, "drops")),
            Column(group, "used", "%", 1, max,
                   bulk_values(link, loss, "utilisation", 100))]
    return columns


def link_tables(link: dict, data: dict) -> list[Table]:
    return [build_table("Times and goodput", speed_columns(link), data),
            build_table("Drops, retransmissions, waiting for the receiver, use of the link",
                        loss_columns(link), data)]


# ---- cost, the faster link, the oracle ------------------------------------

# Callbacks the core calls while it works on an ACK, each at most once: what an
# ACK costs before anything is sent.
ON_ACK = ("cong_avoid", "cong_control", "pkts_acked", "in_ack_event")


def on_ack(row: dict) -> list[dict]:
    return [c for c in row["callbacks"]
            if set(c["slot"].split(", ")) & set(ON_ACK) and is_number(c["mean"])]


def per_ack(row: dict) -> float:
    """Instructions per ACK in the callbacks above."""
    return sum(c["calls_per_ack"] * c["mean"] for c in on_ack(row))


def ordinary_ack(row: dict) -> float:
    """Instructions of an ACK that reaches each of them."""
    return sum(c["mean"] for c in on_ack(row))


def row_values(rows: list[dict], loss: float, value: Callable) -> dict[str, list]:
    """By policy, the list value(row) gives for the rows at one loss."""
    return {row["policy"]: value(row) for row in rows if row["loss_pct"] == loss}


def row_losses(rows: list[dict]) -> list[float]:
    return sorted({row["loss_pct"] for row in rows})


def measured(data: dict, rows: list[dict]) -> dict:
    """The data with only the policies some row is about."""
    there = {row["policy"] for row in rows}
    return {**data, "policies": [p for p in data["policies"] if p in there]}


def cost_table(data: dict) -> Table:
    rows, columns = data["cost"]["rows"], []
    for loss in row_losses(rows):
        group = f"{data['cost']['seconds']} s, {format_loss(loss)}"
        columns += [
            Column(group, "per ACK", "instr", 1, min,
                   row_values(rows, loss, lambda row: [row["per_ack"]])),
            Column(group, "on ACKs", "instr", 1, min,
                   row_values(rows, loss, lambda row: [per_ack(row)])),
            Column(group, "ordinary", "instr", 1, min,
                   row_values(rows, loss, lambda row: [ordinary_ack(row)]))]
    return build_table("Instructions per ACK", columns, measured(data, rows))


def cost_breakdown(data: dict) -> list[dict]:
    """By policy and callback: calls per ACK and instructions per call, a pair
    of figures for each loss."""
    rows = data["cost"]["rows"]
    losses, found = row_losses(rows), []
    for policy in measured(data, rows)["policies"]:
        mine = {row["loss_pct"]: {c["name"]: c for c in row["callbacks"]}
                for row in rows if row["policy"] == policy}
        names = {name: c["slot"] for calls in mine.values()
                 for name, c in calls.items()}
        for first, (name, slot) in enumerate(names.items()):
            cells = []
            for loss in losses:
                call = mine.get(loss, {}).get(name, {})
                cells += [format_number(call.get("calls_per_ack"), 3),
                          format_number(call.get("mean"), 1),
                          format_number(call.get("median"), 1)]
            found.append({"policy": "" if first else policy, "slot": slot,
                          "name": name, "cells": cells,
                          "ours": policy in data["ours"]})
    return found


def log_table(data: dict) -> Table:
    """What satcc_log adds, by what of it is on."""
    rows = data["log"]["rows"]

    def column(name: str, unit: str, digits: int, key: str) -> Column:
        return Column("", name, unit, digits, None,
                      {row["mode"]: [row[key] if row[key] is None else round(row[key])]
                       for row in rows})

    return dataclasses.replace(build_table("Logger", [
        column("records", "", 0, "records"),
        column("processor", "instr per segment", 0, "busy_per_segment"),
        column("added", "instr per segment", 0, "per_segment"),
        column("added", "instr per packet", 0, "per_packet"),
        column("added", "instr per record", 0, "per_record"),
    ], {"policies": [row["mode"] for row in rows], "ours": []}), rows_are="events on")


def long_tables(data: dict) -> list[Table]:
    """One flow alone at each loss; several flows of one policy."""
    fast = data["long"]
    rows, shared = fast["rows"], fast["shared"]
    alone = []
    for loss in row_losses(rows):
        group = f"{fast['seconds']} s, {format_loss(loss)}"
        alone += [
            Column(group, "goodput", "Mbit/s", 2, max,
                   row_values(rows, loss, lambda row: row["goodput_mbit"])),
            Column(group, "drops", "pkts", 0, min,
                   row_values(rows, loss, lambda row: row["drops"]))]
    tables = [build_table("One flow", alone, measured(data, rows))]
    if shared:
        together = []
        for loss in row_losses(shared):
            group = f"{fast['seconds']} s, {format_loss(loss)}"
            together += [
                Column(group, "all flows", "Mbit/s", 2, max,
                       row_values(shared, loss, lambda row: row["goodput_mbit"])),
                Column(group, "Jain's index", "", 3, max,
                       row_values(shared, loss, lambda row: row["jain"]))]
        tables.append(build_table(f"{fast['flows']} flows of one policy", together,
                                  measured(data, shared)))
    return tables


def beside_table(data: dict) -> Table:
    """What a flow of each policy leaves to a rival that starts with it, by link."""
    columns = []
    for link in data["beside"]["links"]:
        group = f"{link['rtt_ms']:g} ms"
        rival = link["rival"]

        def column(title: str, unit: str, digits: int, key: str) -> Column:
            return Column(group, title, unit, digits, None,
                          {row["policy"]: [round(row[key], digits)] for row in link["rows"]})
        columns += [column("own", "Mbit/s", 2, "own_mbit"),
                    column(rival, "Mbit/s", 2, "rival_mbit"),
                    column(rival, "% of share", 0, "rival_pct"),
                    column("drops", "pkts", 0, "drops")]
    rows = [row for link in data["beside"]["links"] for row in link["rows"]]
    return build_table(f"A flow beside one of {rival}", columns, measured(data, rows))


def beside_title(data: dict) -> str:
    first = data["beside"]["links"][0]
    return f"beside a {first['rival']} flow, {first['name']}"


def buffer_note(fast: dict) -> str:
    """Did a socket buffer hold any flow back?"""
    rows = fast["rows"] + fast["shared"]
    sent = max((largest(row["sndbuf_limited_pct"]) for row in rows), default=0)
    window = max((largest(row["rwnd_limited_pct"]) for row in rows), default=0)
    return (f"At most {sent:.1f} % of a run was spent waiting for room in the send "
            f"buffer, and {window:.1f} % for the receiver's window, which the "
            "kernel opens from 64 kB on as data comes in.")


def check_lines(data: dict) -> list[str]:
    """One line a policy: what the oracle recomputed."""
    lines, checks = [], data.get("checks", {})
    for policy in [p for p in data["policies"] if p in checks]:
        said = checks[policy]
        if said["differences"]:
            verdict = f"DIFFERENCES in {len(said['differences'])} flows"
        elif said["runs"]:
            verdict = "no difference"
        else:
            verdict = "nothing to compare"
        line = (f"{policy}: windows checked: {said['changes']} changes in "
                f"{said['runs']} runs, {verdict}")
        lines.append("; not checked: ".join([line, *said["unchecked"]]))
        lines += said["differences"][:1]
    return lines


# ---- terminal --------------------------------------------------------------

def console_header(column: Column) -> str:
    """The group without what the last line of print_tables() says."""
    group = re.sub(r"^\d+ s, ", "", column.group).removeprefix("transfer ")
    return f"{group}\n{column.title}\n{column.unit}"


def console_cell(cell: Cell) -> Text:
    """A star beside the best, so that bold is not the only sign of it."""
    star = "*" if cell.best else " "
    text = Text(cell.text + star, style="bold" if cell.best else "")
    if cell.spread:
        spread = cell.spread.replace(" (", " \n(")
        text.append(f"\n{spread} ", style="not bold dim")
    return text


def console_table(table: Table) -> RichTable:
    drawn = RichTable(title=table.title, title_justify="left", box=box.SIMPLE,
                      title_style="italic", pad_edge=False, show_edge=False,
                      padding=0)
    drawn.add_column(f"\n\n{table.rows_are}", overflow="fold",
                     min_width=2 + max(len(row.name) for row in table.rows))
    for column in table.columns:
        drawn.add_column(console_header(column), justify="right",
                         overflow="fold")
    for row, after in zip_longest(table.rows, table.rows[1:]):
        name = f"> {row.name}" if row.kind == "ours" else f"  {row.name}"
        drawn.add_row(Text(name, style="bold" if row.kind == "ours" else ""),
                      *(console_cell(cell) for cell in row.cells),
                      end_section=after is None or after.kind != row.kind)
    return drawn


def link_title(link: dict) -> str:
    return (f"{link['name']}, RTT {link['rtt_ms']:g} ms, "
            f"queue {link['queue_packets']} packets")


def print_all(tables: list[Table], console: Console) -> None:
    for table in tables:
        console.print(console_table(table))
        console.print()


def print_tables(data: dict, console: Console) -> None:
    """Prints the tables of every link; a pipe gets the width they need."""
    width = console.width
    console.width = (min(width, CONSOLE_COLUMNS) if console.is_terminal
                     else CONSOLE_COLUMNS)
    try:
        for link in data["links"]:
            console.rule(Text(link_title(link)), align="left", characters="-")
            print_all(link_tables(link, data), console)
        if data.get("beside"):
            console.rule(Text(beside_title(data)), align="left", characters="-")
            print_all([beside_table(data)], console)
        if fast := data.get("long"):
            console.rule(Text(link_title(fast)), align="left", characters="-")
            print_all(long_tables(data), console)
            console.print(Text(buffer_note(fast)))
            console.print()
        if cost := data.get("cost"):
            console.rule(Text(f"cost, {cost['link']}, RTT {cost['rtt_ms']:g} ms"),
                         align="left", characters="-")
            print_all([cost_table(data)], console)
        if log := data.get("log"):
            console.rule(Text(f"satcc_log, {log['link']}, {log['cc']}, "
                              f"{format_bytes(log['bytes'])}"),
                         align="left", characters="-")
            print_all([log_table(data)], console)
        console.print(Text(
            "> ours   * best as printed (none if all tie)   timed runs: no "
            f"loss, or random loss   {MISSING} not\nmeasured, or 90 % never "
            "reached   two lines: median, smallest–largest over the seeds"))
        for line in check_lines(data):
            console.print(Text(line))
    finally:
        console.width = width


# ---- plots -----------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Layout:
    """Sizes of a figure of small multiples, in inches."""
    columns: int
    panel: tuple[float, float]
    gap: tuple[float, float]
    left: float = 0.62
    right: float = 0.12
    top: float = 0.52         # legend, then the first row's titles
    bottom: float = 0.48
    legend: float = 0.54      # where it starts, from the left

    def size(self, panels: int) -> tuple[float, float]:
        rows = -(-panels // self.columns)
        return (self.left + self.right + self.columns * self.panel[0]
                + (self.columns - 1) * self.gap[0],
                self.top + self.bottom + rows * self.panel[1]
                + (rows - 1) * self.gap[1])

    def place(self, index: int, panels: int) -> tuple[float, ...]:
        """Where panel `index` goes, in the fractions add_axes() wants."""
        width, height = self.size(panels)
        row, column = divmod(index, self.columns)
        x = self.left + column * (self.panel[0] + self.gap[0])
        y = height - self.top - row * (self.panel[1] + self.gap[1]) - self.panel[1]
        return (x / width, y / height,
                self.panel[0] / width, self.panel[1] / height)


# Ten inches are a page's or a browser's width; four are a phone's.
WIDE = Layout(columns=4, panel=(2.16, 1.5), gap=(0.2, 0.4))
NARROW = Layout(columns=2, panel=(1.58, 1.25), gap=(0.16, 0.38),
                legend=0.0)


@dataclasses.dataclass(frozen=True)
class Plot:
    """One kind of plot: a panel per policy, all with the same axes."""
    key: str                  # in "series", and in the file's name
    title: str
    x_label: str
    y_label: str
    caption: str
    limits: Callable          # (link, {policy: series}) -> (x limit, y limit)
    draw: Callable            # (axes, link, series, colour, limits)
    legend: Callable          # () -> list of handles


def whole_seconds(series: dict) -> float:
    """A run's length, though its last sample comes a little before the end."""
    end = max((largest(s["t_s"]) for s in series.values()), default=0)
    return math.ceil(end) or 60


def cwnd_limits(link: dict, series: dict) -> tuple[float, float]:
    """Up to the largest window, but one wild window does not flatten all."""
    pipe = link["bdp_packets"] + link["queue_packets"]
    peak = max((largest(s["cwnd"]) for s in series.values()), default=0)
    return (whole_seconds(series),
            1.06 * max(min(peak, 3 * pipe), pipe))


def draw_cwnd(axes, link: dict, series: dict, colour: str, limits) -> None:
    bdp = link["bdp_packets"]
    axes.axhline(bdp, color=GREY, lw=0.8, ls=DASHED)
    axes.axhline(bdp + link["queue_packets"], color=GREY, lw=0.8, ls="-.")
    graphs.draw_window(axes, series["t_s"], series["cwnd"], series.get("ssthresh"), colour)
    note_peak(axes, series["t_s"], series["cwnd"], 0, limits)


def sequence_end(series: dict) -> float:
    return max(largest(series["segment_t_s"]), largest(series["ack_t_s"]))


def sequence_limits(link: dict, series: dict) -> tuple[float, float]:
    """Up to the last to finish, but one laggard does not squeeze all."""
    ends = [sequence_end(s) for s in series.values()]
    top = max((max(largest(s["segment_kB"]), largest(s["ack_kB"]))
               for s in series.values()), default=0)
    if not ends or not top:
        return 1.0, 1.0
    return 1.03 * min(max(ends), 4 * statistics.median(ends)), 1.04 * top


def draw_sequence(axes, link: dict, series: dict, colour: str, limits) -> None:
    rtt_s, top_kb = link["rtt_ms"] / 1000, limits[1] / 1.04
    kb_per_s = link["net_rate_mbit"] * 1000 / 8
    axes.plot([2 * rtt_s, 2 * rtt_s + top_kb / kb_per_s], [0, top_kb],
              color=GREY, lw=0.8, ls=DASHED)
    graphs.draw_sequence(axes, series, colour, limits)
    if sequence_end(series) > limits[0]:
        note_off_axis(axes, f"ends at {sequence_end(series):.1f} s")


def goodput_limits(link: dict, series: dict) -> tuple[float, float]:
    """A repaired hole acknowledges seconds of data at once: bound the axis."""
    net = link["net_rate_mbit"]
    peak = max((largest(s["mbit"]) for s in series.values()), default=0)
    return (whole_seconds(series),
            max(1.15 * net, min(1.06 * peak, 1.5 * net)))


def draw_goodput(axes, link: dict, series: dict, colour: str, limits) -> None:
    axes.axhline(link["net_rate_mbit"], color=GREY, lw=0.9, ls=DASHED)
    graphs.draw_goodput(axes, series["t_s"], series["mbit"], colour)
    note_peak(axes, series["t_s"], series["mbit"], 1, limits)


PLOTS = (
    Plot("cwnd", "Congestion window", "time since the first SYN, s",
         "segments",
         "Congestion window during the 60 s run without loss. Dashed: the "
         "bandwidth-delay product, in full segments; "
         "dash-dotted: with the queue on top, above which packets are dropped. "
         "An ssthresh above the axis, or infinite, is not drawn.",
         cwnd_limits, draw_cwnd,
         lambda: [handle("cwnd"), handle("ssthresh", lw=0.9, ls=":"),
                  handle("BDP", color=GREY, lw=0.9, ls=DASHED),
                  handle("BDP + queue", color=GREY, lw=0.9, ls="-.")]),
    Plot("sequence", "Time and sequence", "time since the first SYN, s",
         "payload, kB",
         "Each segment of the 1 MB transfer when it was first sent, each "
         "retransmission, and how far the ACKs had come. Dashed: the ACKs of "
         "an ideal sender.",
         sequence_limits, draw_sequence,
         lambda: [handle("segment", **graphs.SEGMENT),
                  handle("retransmission", **graphs.RETRANSMISSION),
                  handle("ACK", lw=0.8),
                  handle("ideal ACKs", color=GREY, lw=0.9, ls=DASHED)]),
    Plot("goodput", "Goodput over time", "time since the first SYN, s",
         "Mbit/s",
         "Payload acknowledged in the 10 s before, each second of the 60 s run "
         "without loss (at the start, in what there is of 10 s). Dashed: the "
         "net rate of the link. Above it is data that had waited for a "
         "retransmission, acknowledged at once.",
         goodput_limits, draw_goodput,
         lambda: [handle("goodput"),
                  handle("net rate", color=GREY, lw=0.9, ls=DASHED)]),
)


def policy_colours(data: dict) -> dict[str, str]:
    """Every policy has a panel and its name on it: colour tells whose it is."""
    return {p: PALETTE[p not in data["ours"]] for p in data["policies"]}


def has_points(series: dict | None) -> bool:
    return bool(series) and any(len(v) for v in series.values() if v is not None)


def draw_panel(axes, plot: Plot, link: dict, series, colour: str, limits) -> None:
    axes.set_xlim(0, limits[0])
    axes.set_ylim(0, limits[1])
    axes.locator_params(axis="both", nbins=5)
    axes.tick_params(length=2.5, pad=2)
    if series:
        plot.draw(axes, link, series, colour, limits)
    else:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes,
                  ha="center", va="center", color=GREY)


def draw_figure(plot: Plot, link: dict, data: dict, layout: Layout) -> Figure:
    """A panel per policy; only the outer panels carry tick labels."""
    policies, colours = data["policies"], policy_colours(data)
    found = {p: link["series"].get(p, {}).get(plot.key) for p in policies}
    found = {p: s for p, s in found.items() if has_points(s)}
    limits, count = plot.limits(link, found), len(policies)
    width, height = layout.size(count)
    figure = Figure(figsize=(width, height))
    for index, policy in enumerate(policies):
        axes = figure.add_axes(layout.place(index, count))
        draw_panel(axes, plot, link, found.get(policy), colours[policy], limits)
        axes.set_title(policy, loc="left", fontsize=8.5, pad=4, color="black",
                       weight="bold" if policy in data["ours"] else "normal")
        axes.tick_params(labelleft=index % layout.columns == 0,
                         labelbottom=index + layout.columns >= count)
    figure.text((layout.left + width - layout.right) / 2 / width, 0.08 / height,
                plot.x_label, ha="center", va="bottom")
    figure.text(0.08 / width, (layout.bottom + height - layout.top) / 2 / height,
                plot.y_label, ha="left", va="center", rotation="vertical")
    figure.legend(handles=plot.legend(), ncol=4, loc="upper left",
                  bbox_to_anchor=(layout.legend / width, 1), borderaxespad=0.2,
                  handlelength=1.8, columnspacing=1.0, handletextpad=0.4)
    return figure


def write_plots(data: dict, link: dict, folder: Path) -> Iterator[dict]:
    """Writes the wide plots as files; yields what the page needs of each."""
    with matplotlib.rc_context(STYLE):
        for plot in PLOTS:
            wide = render_svg(draw_figure(plot, link, data, WIDE))
            narrow = render_svg(draw_figure(plot, link, data, NARROW))
            path = folder / f"{slug(link['name'])}-{plot.key}.svg"
            path.write_bytes(wide)
            yield {"title": plot.title, "caption": plot.caption,
                   "file": f"plots/{path.name}",
                   "alt": f"{plot.title} of every policy, {link['name']}",
                   "wide": data_uri(wide), "narrow": data_uri(narrow)}


def goodput_dots(data: dict, width: float) -> Figure:
    """The faster link: a row a policy, a mark a loss, a line from the smallest
    to the largest of the seeds."""
    fast = data["long"]
    rows, losses = fast["rows"], row_losses(fast["rows"])
    policies = measured(data, rows)["policies"]
    height = 0.9 + 0.27 * len(policies)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((1.25 / width, 0.45 / height,
                            1 - 1.45 / width, 1 - 0.85 / height))
    axes.set_xscale("log")
    axes.axvline(fast["net_rate_mbit"], color=GREY, lw=0.9, ls=DASHED)
    marks = list(zip(losses, ("o", "D", "s", "^"), PALETTE))
    for nth, (loss, mark, colour) in enumerate(marks):
        values = row_values(rows, loss, lambda row: row["goodput_mbit"])
        # Side by side in their row: lines of two losses often overlap.
        aside = 0.3 * ((nth + 0.5) / len(marks) - 0.5)
        for place, policy in enumerate(policies):
            place += aside
            found = [v for v in values.get(policy, []) if is_number(v) and v > 0]
            if found:
                axes.plot([min(found), max(found)], [place, place],
                          color=colour, lw=1.2)
                axes.plot([statistics.median(found)], [place], marker=mark,
                          color=colour, ms=5, ls="")
    axes.set_ylim(len(policies) - 0.5, -0.5)
    axes.set_yticks(range(len(policies)), policies)
    for label, policy in zip(axes.get_yticklabels(), policies):
        label.set_weight("bold" if policy in data["ours"] else "normal")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.tick_params(which="both", length=2.5, pad=2)
    axes.set_xlabel("goodput, Mbit/s", labelpad=2)
    axes.grid(axis="x", which="minor", lw=0.25)
    figure.legend(handles=[
        *(handle(format_loss(loss), marker=mark, color=colour, ms=5)
          for loss, mark, colour in marks),
        handle("net rate", color=GREY, lw=0.9, ls=DASHED)],
        ncol=len(marks) + 1, loc="upper left", borderaxespad=0.2,
        bbox_to_anchor=(0, 1), handlelength=1.8, columnspacing=1.0,
        handletextpad=0.4)
    return figure


def long_view(data: dict, folder: Path) -> dict:
    """What the template draws of the faster link."""
    fast = data["long"]
    with matplotlib.rc_context(STYLE):
        wide = render_svg(goodput_dots(data, 8.0))
        narrow = render_svg(goodput_dots(data, 4.0))
    path = folder / f"{slug(fast['name'])}-loss.svg"
    path.write_bytes(wide)
    return {"name": fast["name"], "id": slug(fast["name"]) + "-loss",
            "flows": fast["flows"], "seconds": fast["seconds"],
            "facts": link_facts(fast), "tables": long_tables(data),
            "buffers": buffer_note(fast), "file": f"plots/{path.name}",
            "runs": list(long_runs(fast)),
            "wide": data_uri(wide), "narrow": data_uri(narrow)}


def cost_view(data: dict) -> dict:
    """What the template draws of the callbacks' cost."""
    cost = data["cost"]
    rows = cost["rows"]
    return {"link": cost["link"], "rtt_ms": cost["rtt_ms"],
            "seconds": cost["seconds"], "tables": [cost_table(data)],
            "losses": [format_loss(loss) for loss in row_losses(rows)],
            "breakdown": cost_breakdown(data), "on_ack": ON_ACK,
            "interrupted": sum(c["interrupted"] for row in rows
                               for c in row["callbacks"]),
            "calls": sum(c["calls"] for row in rows for c in row["callbacks"]),
            "known": sorted({f"{row['known']:.2f}" for row in rows}),
            "overhead": sorted({f"{row['overhead']:.0f}" for row in rows})}


def beside_view(data: dict) -> dict:
    """What the template draws of two flows on one link."""
    links = data["beside"]["links"]
    return {"name": beside_title(data), "facts": [link_facts(link) for link in links],
            "rival": links[0]["rival"], "seconds": links[0]["seconds"],
            "tables": [beside_table(data)], "runs": [run for link in links for run in beside_runs(link)]}


def log_view(data: dict) -> dict:
    """What the template draws of the logger's cost."""
    log = data["log"]
    return {"link": log["link"], "cc": log["cc"], "size": format_bytes(log["bytes"]),
            "tables": [log_table(data)], "segments": log["rows"][0]["segments"],
            "acks": log["rows"][0]["acks"]}


# ---- page ------------------------------------------------------------------

ABOUT_LABELS = {
    "date": "date", "commit": "commit", "command": "command",
    "kernel": "guest kernel", "emulator": "emulator", "runs": "runs",
    "from_cache": "of these, unchanged and not run again",
    "wall_s": "wall time, s", "speed": "virtual seconds per wall second",
    "restore_s": "to restore a snapshot, s",
}


def seed_counts(data: dict) -> str:
    """3, or 1 and 3: how many seeds the lossy runs had."""
    counts = {len(bulk["seeds"]) for link in data["links"] for bulk in link["bulk"]
              if bulk["loss_pct"]}
    return " and ".join(map(str, sorted(counts))) or "no"


def about_rows(about: dict) -> list[tuple[str, str]]:
    """Known entries first, in a fixed order; unknown ones under their key."""
    keys = [k for k in ABOUT_LABELS if k in about]
    keys += [k for k in about if k not in ABOUT_LABELS
             and not isinstance(about[k], dict)]
    return [(ABOUT_LABELS.get(k, k),
             "not recorded" if about[k] is None else str(about[k]))
            for k in keys]


def transfer_runs(link: dict) -> Iterator[tuple[str, ...]]:
    for run in link["transfers"]:
        yield (run["policy"], format_bytes(run["bytes"]), "",
               f"{format_number(run.get('seconds'), 2)} s, "
               f"{format_number(run.get('drops'), 0)} drops, "
               f"{format_number(run.get('retransmits'), 0)} retransmissions",
               run.get("hash") or MISSING)


def bulk_runs(link: dict) -> Iterator[tuple[str, ...]]:
    keys = ("seeds", "goodput_mbit", "t90_s", "drops", "utilisation", "hash")
    for bulk in link["bulk"]:
        for seed, goodput, t90, drops, used, digest in zip_longest(
                *(bulk.get(key) or [] for key in keys)):
            percent = used * 100 if is_number(used) else None
            yield (bulk["policy"], f"60 s, {format_loss(bulk['loss_pct'])}",
                   MISSING if seed is None else str(seed),
                   f"{format_number(goodput, 2)} Mbit/s, "
                   f"90 % at {format_number(t90, 2)} s, "
                   f"{format_number(drops, 0)} drops, "
                   f"{format_number(percent, 1)} % used", digest or MISSING)


def beside_runs(link: dict) -> Iterator[tuple[str, ...]]:
    for row in link["rows"]:
        yield (row["policy"], f"{link['seconds']} s, {link['rtt_ms']:g} ms, beside {link['rival']}", "",
               f"{format_number(row['own_mbit'], 2)}, {format_number(row['rival_mbit'], 2)} Mbit/s, "
               f"{format_number(row['drops'], 0)} drops", row["hash"] or MISSING)


def long_runs(fast: dict) -> Iterator[tuple[str, ...]]:
    for row in fast["rows"] + fast["shared"]:
        for seed, rates, digest in zip(row["seeds"], row["flows_mbit"], row["hash"]):
            each = ", ".join(format_number(rate, 2) for rate in rates)
            yield (row["policy"],
                   f"{fast['seconds']} s, {format_loss(row['loss_pct'])}",
                   str(seed), f"{each} Mbit/s", digest or MISSING)


def link_facts(link: dict) -> list[str]:
    return [f"{link['rtt_ms']:g} ms", f"{link['rate_mbit']:g} Mbit/s",
            f"{link['net_rate_mbit']:.3f} Mbit/s",
            f"{link['bdp_packets']} packets",
            f"{link['queue_packets']} packets"]


def link_view(data: dict, link: dict, plots: Path) -> dict:
    """What the template draws of one link."""
    return {"name": link["name"], "id": slug(link["name"]),
            "facts": link_facts(link),
            "tables": link_tables(link, data),
            "plots": list(write_plots(data, link, plots)),
            "runs": [*transfer_runs(link), *bulk_runs(link)]}


def write_report(data: dict, folder: Path) -> Path:
    """Writes the page, whole in one file, and the plots also one by one."""
    folder = Path(folder)
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).resolve().parent),
        autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined)
    about = data["about"]
    page = environment.get_template("report.html.j2").render(
        title=data["title"], notes=data.get("notes", []), missing=MISSING,
        links=[link_view(data, link, plots) for link in data["links"]],
        beside=beside_view(data) if data.get("beside") else None,
        long=long_view(data, plots) if data.get("long") else None,
        cost=cost_view(data) if data.get("cost") else None,
        log=log_view(data) if data.get("log") else None,
        seeds=seed_counts(data), checks=check_lines(data),
        about=about_rows(about), command=about.get("command"),
        versions=[(label, about[key]) for key, label in
                  (("modules", "Module, srcversion"), ("packages", "Package"))
                  if about.get(key)],
        thin=(THIN_COLUMNS, THIN_ROWS))
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


# ---- JSON ------------------------------------------------------------------

def plain(value):
    """What JSON can say: numpy to Python, NaN and infinity to None."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(data: dict, folder: Path, name: str = "bench.json") -> Path:
    """Writes folder/name: sorted keys, missing figures null."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    text = json.dumps(plain(data), sort_keys=True, allow_nan=False,
                      ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Draw the report again from a folder's bench.json.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    data = json.loads((folder / "bench.json").read_text(encoding="utf-8"))
    print_tables(data, Console())
    print(write_report(data, folder))


if __name__ == "__main__":
    main()
