# SPDX-License-Identifier: GPL-2.0
"""The tables of the comparison: values with their precision, as text, and marks of the best ones.

A table is a list of columns, and a column has the values of each policy. print_tables() prints the cells
on a terminal, and the page has the same.
"""

import dataclasses
import math
import operator
import re
import statistics
from collections.abc import Callable, Iterable
from itertools import zip_longest

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from tools.satcc_tools.graphs import largest

MISSING = "–"
CONSOLE_COLUMNS = 100
# A key of floors.RECEIVERS -> the name of its row.
RECEIVERS = {"receiver": "no control", "stock": "stock receiver"}


# ---- numbers as text -------------------------------------------------------

def is_number(value) -> bool:
    """True for a finite number; None, NaN and infinities are missing."""
    return value is not None and math.isfinite(value)


def format_number(value, digits: int) -> str:
    """A number as text.  A count (digits = 0) with a fraction, such as a median, gets one digit."""
    if not is_number(value):
        return MISSING
    if digits == 0 and value != int(value):
        digits = 1
    return f"{value:.{digits}f}"


def format_bytes(count: int) -> str:
    """100000 -> 100 kB, 1000000 -> 1 MB: decimal units; 1048576 -> 1 MiB."""
    if count and count % 2**20 == 0 and count % 10**6:
        return f"{count >> 20} MiB"
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
    """One figure for every policy; there is a value for each seed."""
    group: str                # kind of run: "transfer", "60 s, no loss"
    title: str
    unit: str
    digits: int
    better: Callable | None   # min or max; None: no value is marked as the best
    values: dict[str, list]   # policy -> values
    ideal: float | None = None      # the best value that the link allows
    floors: dict = dataclasses.field(default_factory=dict)  # receiver -> value without control
    endless: bool = False     # a missing value means "never", not "not measured"


@dataclasses.dataclass(frozen=True)
class Cell:
    text: str
    spread: str = ""          # "0.45–0.61", smallest and largest of the seeds
    best: bool = False


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    kind: str                 # "ours", "other", or "ideal" for a row of no policy
    cells: list[Cell]


@dataclasses.dataclass(frozen=True)
class Table:
    title: str
    columns: list[Column]
    rows: list[Row]
    rows_are: str = "policy"

    def groups(self) -> list[tuple[str, int]]:
        """Neighbouring columns of one group, as (group, how many)."""
        runs: list[tuple[str, int]] = []
        for column in self.columns:
            if runs and runs[-1][0] == column.group:
                runs[-1] = (column.group, runs[-1][1] + 1)
            else:
                runs.append((column.group, 1))
        return runs


def format_spread(values: list, total: int, digits: int) -> str:
    """The range from smallest to largest, with a note if some of the runs have no value."""
    if total < 2 or not is_number(min(values, default=None)):
        return ""
    low, high = min(values), max(values)
    last = format_number(high, digits) if is_number(high) else "never"
    text = f"{format_number(low, digits)}–{last}"
    return text if len(values) == total else f"{text} ({len(values)} of {total})"


def column_cells(column: Column, policies: Iterable[str], is_even_best: bool = False) -> list[Cell]:
    """The median over the seeds and their range, of each policy.

    Every cell that prints the best number is marked; none if all cells print it, unless is_even_best.
    """
    cells = []
    for policy in policies:
        measured = column.values.get(policy, [])
        if column.endless:
            values = [v if is_number(v) else math.inf for v in measured]
        else:
            values = [v for v in measured if is_number(v)]
        median = statistics.median(values) if values else None
        cells.append(Cell(format_number(median, column.digits),
                          format_spread(values, len(measured), column.digits)))
    numbers = [float(c.text) for c in cells if c.text != MISSING]
    if len(numbers) > 1 and min(numbers) == max(numbers) and not is_even_best:
        return cells
    best = column.better(numbers, default=None) if column.better else None
    return [dataclasses.replace(c, best=c.text != MISSING
                                and float(c.text) == best) for c in cells]


def build_table(title: str, columns: list[Column], data: dict) -> Table:
    """A table with a row for each policy in the given order, then the rows of ideal and floors."""
    policies = data["policies"]
    by_column = [column_cells(c, policies) for c in columns]
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
    """The first policy's value, since it is the same for every policy."""
    return next((t["ideal_s"] for t in link["transfers"] if t["bytes"] == size
                 and is_number(t.get("ideal_s"))), None)


def floor_seconds(link: dict, size: int) -> dict[str, float]:
    """Receiver -> seconds."""
    return {floor["receiver"]: floor["seconds"] for floor in link.get("floors", ())
            if floor["bytes"] == size}


def transfer_sizes(link: dict) -> list[int]:
    return sorted({t["bytes"] for t in link["transfers"]})


def bulk_losses(link: dict) -> list[float]:
    return sorted({b["loss_pct"] for b in link["bulk"]})


def speed_table(link: dict, data: dict) -> Table:
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
    return build_table("Times and goodput", columns, data)


def loss_table(link: dict, data: dict) -> Table:
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
    return build_table("Drops, retransmissions, waiting for the receiver, use of the link",
                       columns, data)


# ---- cost, the faster link, the oracle ------------------------------------

# Callbacks that the core calls while it processes an ACK, each at most once.
ON_ACK = ("cong_avoid", "cong_control", "pkts_acked", "in_ack_event")


def on_ack(row: dict) -> list[dict]:
    return [c for c in row["callbacks"]
            if set(c["slot"].split(", ")) & set(ON_ACK) and is_number(c["mean"])]


def per_ack(row: dict) -> float:
    """Instructions per ACK in the callbacks of ON_ACK."""
    return sum(c["calls_per_ack"] * c["mean"] for c in on_ack(row))


def ordinary_ack(row: dict) -> float:
    """The instructions of an ACK that calls every callback of ON_ACK once."""
    return sum(c["mean"] for c in on_ack(row))


def row_values(rows: list[dict], loss: float, value: Callable) -> dict[str, list]:
    """Policy -> value(row), for the rows at one loss."""
    return {row["policy"]: value(row) for row in rows if row["loss_pct"] == loss}


def row_losses(rows: list[dict]) -> list[float]:
    return sorted({row["loss_pct"] for row in rows})


def measured(data: dict, rows: list[dict]) -> dict:
    """The data, with only the policies that have a row."""
    policies = {row["policy"] for row in rows}
    return {**data, "policies": [p for p in data["policies"] if p in policies]}


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


def log_table(data: dict) -> Table:
    """The instructions that satcc_log adds, by the events that are on."""
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


def columns_by_loss(fast: dict, rows: list[dict], figures) -> list[Column]:
    """The same columns at each loss.  figures: (label, unit, digits, best, key of a row) of each."""
    return [Column(f"{fast['seconds']} s, {format_loss(loss)}", label, unit, digits, best,
                   row_values(rows, loss, operator.itemgetter(key)))
            for loss in row_losses(rows) for label, unit, digits, best, key in figures]


def long_tables(data: dict) -> list[Table]:
    """One flow alone at each loss; several flows of one policy."""
    fast = data["long"]
    rows, shared = fast["rows"], fast["shared"]
    alone = columns_by_loss(fast, rows, [("goodput", "Mbit/s", 2, max, "goodput_mbit"),
                                         ("drops", "pkts", 0, min, "drops")])
    tables = [build_table("One flow", alone, measured(data, rows))]
    if shared:
        together = columns_by_loss(fast, shared, [("all flows", "Mbit/s", 2, max, "goodput_mbit"),
                                                  ("Jain's index", "", 3, max, "jain")])
        tables.append(build_table(f"{fast['flows']} flows of one policy", together,
                                  measured(data, shared)))
    return tables


def beside_table(data: dict) -> Table:
    """The goodput that a flow of each policy leaves to a rival that starts with it, by link."""
    columns = []
    for link in data["beside"]["links"]:
        group = f"{link['rtt_ms']:g} ms"
        rival = link["rival"]

        def column(title: str, unit: str, digits: int, key: str) -> Column:
            return Column(group, title, unit, digits, None,
                          {row["policy"]: [round(value, digits) for value in row[key]]
                           for row in link["rows"]})
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
    """A sentence with the largest share of a run that a flow waited for a buffer."""
    rows = fast["rows"] + fast["shared"]
    sent = max((largest(row["sndbuf_limited_pct"]) for row in rows), default=0)
    window = max((largest(row["rwnd_limited_pct"]) for row in rows), default=0)
    return (f"At most {sent:.1f} % of a run was spent waiting for room in the send "
            f"buffer, and {window:.1f} % for the receiver's window, which the "
            "kernel opens from 64 kB on as data comes in.")


def check_lines(data: dict) -> list[str]:
    """One line for each policy: how many windows the oracle recomputed."""
    lines, checks = [], data.get("checks", {})
    for policy in [p for p in data["policies"] if p in checks]:
        report = checks[policy]
        if report["differences"]:
            verdict = f"DIFFERENCES in {len(report['differences'])} flows"
        elif report["runs"]:
            verdict = "no difference"
        else:
            verdict = "nothing to compare"
        line = (f"{policy}: windows checked: {report['changes']} changes in "
                f"{report['runs']} runs, {verdict}")
        lines.append("; not checked: ".join([line, *report["unchecked"]]))
        lines += report["differences"][:1]
    return lines


# ---- terminal --------------------------------------------------------------

def console_header(column: Column) -> str:
    """A column's head, without the words that the last lines of print_tables() explain."""
    group = re.sub(r"^\d+ s, ", "", column.group).removeprefix("transfer ")
    return f"{group}\n{column.title}\n{column.unit}"


def console_cell(cell: Cell) -> Text:
    """Mark the best with a star, so that bold is not the only mark."""
    star = "*" if cell.best else " "
    text = Text(cell.text + star, style="bold" if cell.best else "")
    if cell.spread:
        spread = cell.spread.replace(" (", " \n(")
        text.append(f"\n{spread} ", style="not bold dim")
    return text


def print_table(table: Table, console: Console) -> None:
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
    console.print(drawn)
    console.print()


def link_title(link: dict) -> str:
    return (f"{link['name']}, RTT {link['rtt_ms']:g} ms, "
            f"queue {link['queue_packets']} packets")


def print_tables(data: dict, console: Console) -> None:
    """Print the tables of every link; a pipe gets the width that they need."""
    width = console.width
    console.width = (min(width, CONSOLE_COLUMNS) if console.is_terminal
                     else CONSOLE_COLUMNS)
    try:
        for link in data["links"]:
            console.rule(Text(link_title(link)), align="left", characters="-")
            print_table(speed_table(link, data), console)
            print_table(loss_table(link, data), console)
        if data.get("beside"):
            console.rule(Text(beside_title(data)), align="left", characters="-")
            print_table(beside_table(data), console)
        if fast := data.get("long"):
            console.rule(Text(link_title(fast)), align="left", characters="-")
            for table in long_tables(data):
                print_table(table, console)
            console.print(Text(buffer_note(fast)))
            console.print()
        if cost := data.get("cost"):
            console.rule(Text(f"cost, {cost['link']}, RTT {cost['rtt_ms']:g} ms"),
                         align="left", characters="-")
            print_table(cost_table(data), console)
        if log := data.get("log"):
            console.rule(Text(f"satcc_log, {log['link']}, {log['cc']}, "
                              f"{format_bytes(log['bytes'])}"),
                         align="left", characters="-")
            print_table(log_table(data), console)
        console.print(Text(
            "> ours   * best as printed (none if all tie)   timed runs: no "
            f"loss, or random loss   {MISSING} not\nmeasured, or 90 % never "
            "reached   two lines: median, smallest–largest over the seeds"))
        for line in (*check_lines(data), *data.get("notes", ())):
            console.print(Text(line))
    finally:
        console.width = width
