# SPDX-License-Identifier: GPL-2.0
"""The comparison's tables on a terminal."""

import re
from itertools import zip_longest

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from .tables import (
    MISSING, Cell, Column, Table, beside_table, beside_title, buffer_note, check_lines, cost_table,
    format_bytes, log_table, long_tables, loss_table, speed_table)

CONSOLE_COLUMNS = 100


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
