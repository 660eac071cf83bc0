# SPDX-License-Identifier: GPL-2.0
"""Write one HTML page, with its plots, from the figures of a bench run.

    write_json(data, folder)     folder/bench.json
    write_report(data, folder)   folder/report.html, folder/plots/*.svg

The data is a dict with links, each with the transfers, bulk runs and series of every policy. If they
were measured, it also has the cost of the policies' callbacks, the faster link, and the oracle's
results.  Nothing here measures.

    python3 -m bench report FOLDER   draws the page again from FOLDER/bench.json
"""

import json
import math
import statistics
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import jinja2
import matplotlib
import numpy as np

from tools.satcc_operate.choose import EVEN
from tools.satcc_tools.graphs import STYLE, THIN_COLUMNS, THIN_ROWS, data_uri, render_svg

from .plots import goodput_dots, write_plots
from .tables import (
    MISSING, ON_ACK, Table, beside_table, beside_title, buffer_note, check_lines, column_cells,
    cost_table, format_bytes, format_loss, format_number, is_number, log_table, long_tables, loss_table,
    measured, row_losses, slug, speed_table)


def sharing(data: dict) -> set[str] | None:
    """The policies that leave the rival its share on each link that was shared; None if none was.

    The rival's flow then has at least what the slower of two rival flows has, or at most EVEN less.
    """
    if not data.get("beside"):
        return None
    out = set(data["policies"])
    for link in data["beside"]["links"]:
        pair, = [row for row in link["rows"] if row["policy"] == link["rival"]]
        least = (1 - EVEN) * statistics.median(pair["rival_mbit"])
        out &= {row["policy"] for row in link["rows"] if statistics.median(row["rival_mbit"]) >= least}
    return out


def best_rows(table: Table, among: set[str] | None) -> list[tuple[str, str, str, str, str]]:
    """Of each column that has a best: (what was measured, the policies that are best, their value, the
    best of `among`, their value)."""
    rows = []
    for number, column in enumerate(table.columns):
        cells = {row.name: row.cells[number] for row in table.rows if row.kind != "ideal"}
        if not any(cell.best for cell in cells.values()):
            continue
        some = [name for name in cells if name in (among or ())]
        texts = []
        for shown in (cells, dict(zip(some, column_cells(column, some, is_even_best=True)))):
            best = {name: cell.text for name, cell in shown.items() if cell.best}
            texts += [", ".join(best), " ".join([*list(best.values())[:1], column.unit]).strip()
                      if best else ""]
        rows.append((f"{column.group}, {column.title}", *texts))
    return rows


def cost_breakdown(data: dict) -> list[dict]:
    """By policy and callback: calls per ACK and instructions per call, a pair
    of figures for each loss."""
    rows = data["cost"]["rows"]
    losses, columns = row_losses(rows), []
    for policy in measured(data, rows)["policies"]:
        by_loss = {row["loss_pct"]: {c["name"]: c for c in row["callbacks"]}
                   for row in rows if row["policy"] == policy}
        names = {name: c["slot"] for calls in by_loss.values()
                 for name, c in calls.items()}
        for first, (name, slot) in enumerate(names.items()):
            cells = []
            for loss in losses:
                call = by_loss.get(loss, {}).get(name, {})
                cells += [format_number(call.get("calls_per_ack"), 3),
                          format_number(call.get("mean"), 1),
                          format_number(call.get("median"), 1)]
            columns.append({"policy": "" if first else policy, "slot": slot,
                            "name": name, "cells": cells,
                            "ours": policy in data["ours"]})
    return columns


def long_view(data: dict, folder: Path) -> dict:
    """The template's data for the faster link."""
    fast = data["long"]
    with matplotlib.rc_context(STYLE):
        wide = render_svg(goodput_dots(data, 8.0))
        narrow = render_svg(goodput_dots(data, 4.0))
    path = folder / f"{slug(fast['name'])}-loss.svg"
    path.write_bytes(wide)
    tables = long_tables(data)
    return {"name": fast["name"], "id": slug(fast["name"]) + "-loss",
            "flows": fast["flows"], "seconds": fast["seconds"],
            "facts": link_facts(fast), "tables": tables, "best": best_rows(tables[0], sharing(data)),
            "buffers": buffer_note(fast), "file": f"plots/{path.name}",
            "runs": list(long_runs(fast)),
            "wide": data_uri(wide), "narrow": data_uri(narrow)}


def cost_view(data: dict) -> dict:
    """The template's data for the cost of the callbacks."""
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
    """The template's data for two flows on one link."""
    links = data["beside"]["links"]
    return {"name": beside_title(data), "facts": [link_facts(link) for link in links],
            "rival": links[0]["rival"], "seconds": links[0]["seconds"], "even_pct": round(100 * EVEN),
            "seeds": len(links[0]["rows"][0]["seeds"]),
            "tables": [beside_table(data)], "runs": [run for link in links for run in beside_runs(link)]}


def log_view(data: dict) -> dict:
    """The template's data for the cost of the logger."""
    log = data["log"]
    return {"link": log["link"], "cc": log["cc"], "size": format_bytes(log["bytes"]),
            "tables": [log_table(data)], "segments": log["rows"][0]["segments"],
            "acks": log["rows"][0]["acks"]}


# ---- page ------------------------------------------------------------------

ABOUT_LABELS = {
    "date": "date", "commit": "commit", "command": "command",
    "kernel": "guest kernel", "emulator": "emulator", "runs": "runs",
    "from_cache": "runs from the cache",
    "wall_s": "wall time, s", "speed": "virtual seconds per wall second",
    "restore_s": "to restore a snapshot, s",
}


def seed_counts(data: dict) -> str:
    """The numbers of seeds of the runs with random loss: 3, or 1 and 3."""
    counts = {len(bulk["seeds"]) for link in data["links"] for bulk in link["bulk"]
              if bulk["loss_pct"]}
    return " and ".join(map(str, sorted(counts))) or "no"


def about_rows(about: dict) -> list[tuple[str, str]]:
    """(label, text) of each entry: known ones first, in a fixed order; unknown ones with their key."""
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
    keys = ("seeds", "own_mbit", "rival_mbit", "drops", "hash")
    for row in link["rows"]:
        for seed, own, rival, drops, digest in zip(*map(row.get, keys)):
            yield (row["policy"], f"{link['seconds']} s, {link['rtt_ms']:g} ms, beside {link['rival']}",
                   str(seed), f"{format_number(own, 2)}, {format_number(rival, 2)} Mbit/s, "
                   f"{format_number(drops, 0)} drops", digest or MISSING)


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
    """The template's data for one link."""
    tables = [speed_table(link, data), loss_table(link, data)]
    return {"name": link["name"], "id": slug(link["name"]),
            "facts": link_facts(link),
            "tables": tables, "best": best_rows(tables[0], sharing(data)),
            "plots": list(write_plots(data, link, plots)),
            "runs": [*transfer_runs(link), *bulk_runs(link)]}


def write_report(data: dict, folder: Path) -> Path:
    """Write the page as one file, and the plots also as separate files.  Returns the page's path."""
    folder = Path(folder)
    plots = folder / "plots"
    plots.mkdir(parents=True, exist_ok=True)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).resolve().parent),
        autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined)
    about = data["about"]
    page = environment.get_template("webpage.html.j2").render(
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
    """A copy that JSON can store: numpy as Python, NaN and infinity as None."""
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
    """Write folder/name with sorted keys and null for missing figures.  Returns its path."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    text = json.dumps(plain(data), sort_keys=True, allow_nan=False,
                      ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def read_json(folder: Path, name: str = "bench.json") -> dict:
    return json.loads((folder / name).read_text(encoding="utf-8"))
