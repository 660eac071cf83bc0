# SPDX-License-Identifier: GPL-2.0
"""python3 -m bench geo: compare transfers over satellite access links with published objectives.

geo.toml has the links, sizes and objectives.  The table has the time of each policy, and these times, in
seconds from the first SYN to the ACK of the last byte:

    floor       two round trips and the payload at the bottleneck's net rate: no sender is faster
    receiver    a sender without congestion control, which only the receiver's window limits (floors.py).
                A policy can be faster if the return link is so slow that this sender's bursts cost ACKs
    stock       the same with Linux's default receive buffer; the policies, as everywhere in the lab,
                send to a larger one
"""

import dataclasses
import datetime
import math
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pydantic
from rich import box
from rich.console import Console
from rich.table import Table

from ..lab import machine, prune
from ..lab.play import Lab, run_all
from ..measure import floors, flow_view
from ..paths import TOP
from ..scenario import scenario, schema
from ..scenario.scenario import MS, PERCENT, SECONDS, Scenario
from ..scenario.schema import CongestionControl, Line, real, whole
from ..status import commit
from . import webpage
from .comparison import Item, Policy
from .tables import MISSING, format_bytes

HERE = Path(__file__).resolve().parent
GIVE_UP = "sleep {seconds}; kill $flows"       # $flows: the senders, in the job's script


RATE = real(0.001, 1e6)
RTT = real(0.001, 1e6)
SIZES = pydantic.conlist(whole(1, 10**12), min_items=1)


@dataclass(frozen=True)
class Row(schema.Table):
    """A link and the objectives for it; times in s, rates in Mbit/s, losses in percent."""

    name: Line
    rtt_ms: RTT
    bytes: SIZES
    forward_mbit: RATE
    return_mbit: RATE
    objectives_s: tuple[SECONDS, ...] = ()
    loss_pct: PERCENT = 0
    return_loss_pct: PERCENT = 0
    then_mbit: real(0, 1e6) = 0     # the forward rate from then_s on; 0: no change
    then_s: SECONDS = 0
    outage_first_s: SECONDS = 0     # start of the first outage; nothing passes for outage_ms
    outage_every_s: SECONDS = 0     # from the start of one outage to the next; 0: no outages
    outage_ms: MS = 0
    give_up_s: whole(0, 10**6) = 0  # 0: the lab's own limit, which fails the run

    def rules(self) -> None:
        if self.objectives_s and len(self.objectives_s) != len(self.bytes):
            raise ValueError("objectives_s needs one entry for each of bytes")

    @property
    def random(self) -> bool:
        return bool(self.loss_pct or self.return_loss_pct)

    def scenario(self, cc: str, size: int, seed: int) -> Scenario:
        half_ms = self.rtt_ms / 2
        hops = [{"name": "gateway", "forward": {"rate_mbit": self.forward_mbit, "queue_bdp": 1},
                 "reverse": {"delay_ms": half_ms, "loss_pct": self.return_loss_pct}},
                {"name": "satellite", "forward": {"delay_ms": half_ms, "loss_pct": self.loss_pct},
                 "reverse": {"rate_mbit": self.return_mbit, "queue_bdp": 1}}]
        base = scenario.from_dict({
            "title": self.name, "seed": seed, "hop": hops, "captures": ["sender"], "trace": [],
            "flow": [{"cc": cc, "bytes": size}], "change": self.changes(half_ms),
            "commands": [GIVE_UP.format(seconds=self.give_up_s)] if self.give_up_s else []})
        if self.then_mbit:
            # The queue keeps its packets when the rate falls.
            packets = base.queue_packets(base.hops[0].forward)
            stage = scenario.Stage(rate_mbit=self.then_mbit, queue_packets=packets)
            base = dataclasses.replace(base, changes=(
                scenario.LinkChange(self.then_s, "gateway", forward=stage), *base.changes)).check()
        return base

    def changes(self, delay_ms: float) -> list[dict]:
        if not self.outage_every_s:
            return []
        times = [self.outage_first_s + n * self.outage_every_s
                 for n in range(int(self.give_up_s / self.outage_every_s))]
        return [{"at_s": at + (self.outage_ms / 1e3 if over else 0), "hop": "satellite",
                 "forward": {"delay_ms": delay_ms, "loss_pct": self.loss_pct if over else 100}}
                for at in times for over in (False, True)]

    def unlimited(self, size: int, receiver: str) -> Scenario:
        """A transfer that only the rate and a receiver limit: no loss, a queue that takes everything."""
        lossless = dataclasses.replace(self, loss_pct=0, return_loss_pct=0, outage_every_s=0)
        return floors.unlimited(lossless.scenario(floors.CC, size, 1), size, receiver)

    def floor_s(self, size: int) -> float:
        """The shortest possible time, s.

        It is one round trip for the handshake, the payload at the net rate, and one round trip for the
        last byte and its ACK.  Packets that random loss takes must be sent again.
        """
        plain = self.scenario(floors.CC, 1, 1)
        rate = plain.net_rate_bps / 8 * (1 - self.loss_pct / 100)
        rtt_s, ends = plain.base_rtt_s, size / rate
        before = max(0, self.then_s - rtt_s) if self.then_mbit else math.inf
        if ends > before:
            ends = before + (size - before * rate) / (rate * self.then_mbit / self.forward_mbit)
        return 2 * rtt_s + ends


@dataclass(frozen=True)
class Group(schema.Table):
    """Rows of one source, with their common keys."""

    source: Line
    rtt_ms: RTT
    bytes: SIZES
    row: pydantic.conlist(schema.mapping(Line, Any), min_items=1)


@dataclass(frozen=True)
class Suite(schema.Table):
    """The keys of geo.toml beside its groups."""

    title: Line
    policies: pydantic.conlist(CongestionControl, min_items=1)
    seeds: pydantic.conlist(whole(0, 10**9), min_items=1)


def load(path: Path = HERE / "geo.toml") -> dict:
    data = schema.parsed(path)
    schema.read(Suite, {key: value for key, value in data.items() if not isinstance(value, dict)},
                path.name)
    return data


def rows(data: dict) -> list[tuple[str, Row]]:
    """Pairs (source of the group, row), one for each row of geo.toml."""
    entries = []
    for name, value in data.items():
        if isinstance(value, dict):
            group = schema.read(Group, value, "geo.toml", (name,))
            entries += [(group.source, schema.read(
                Row, {"rtt_ms": group.rtt_ms, "bytes": group.bytes, **table}, "geo.toml",
                (name, "row", number))) for number, table in enumerate(group.row)]
    return entries


def plan(data: dict) -> list[tuple[Row, int, Item]]:
    """Every run: (row, bytes, item).  An item with a mode is a floor with one of floors.RECEIVERS."""
    planned = []
    for _, row in rows(data):
        for size in row.bytes:
            runs = [(Policy(cc), seed, row.scenario(cc, size, seed), "") for cc in data["policies"]
                    for seed in (data["seeds"] if row.random else [1])]
            held = [(Policy(floors.CC), 1, row.unlimited(size, name), name) for name in floors.RECEIVERS]
            for policy, seed, played, mode in runs + held:
                item = Item(row.name, policy, "transfer", size, row.loss_pct, seed, played, mode)
                planned.append((row, size, item))
    return planned


def collect(data: dict, planned, runs) -> dict:
    """The suite's data, with a row for each link and size.

    Its seconds are lists with an entry for each seed; None for a transfer that did not end.
    """
    by_row = {}
    sources = {row.name: source for source, row in rows(data)}
    for (row, size, item), run in zip(planned, runs):
        one = by_row.setdefault((row.name, size), {
            "link": row.name, "source": sources[row.name], "bytes": size, "rtt_ms": row.rtt_ms,
            "objective_s": dict(zip(row.bytes, row.objectives_s)).get(size),
            "floor_s": row.floor_s(size), "give_up_s": row.give_up_s,
            "seconds": {}, "drops": {}, "receiver_limited_s": {}, "hash": {}})
        took = flow_view.FlowView(run).transfer_s(size)
        if item.mode:
            one[f"{item.mode}_s"] = took
            continue
        for key, value in (("seconds", took), ("drops", flow_view.queue_drops(run)),
                           ("receiver_limited_s", flow_view.receiver_limited_s(run)),
                           ("hash", run.hash)):
            one[key].setdefault(item.policy.cc, []).append(value)
    return {"title": data["title"], "policies": data["policies"], "rows": list(by_row.values())}


def _median(values: list) -> float:
    """The median of the times; an aborted transfer counts as longer than all others."""
    return statistics.median([math.inf if value is None else value for value in values])


def cells(row: dict, policies: list[str]) -> list[str]:
    """One line of the table: link, size, a time for each policy, objective, floors, limits."""
    times = {cc: _median(row["seconds"][cc]) for cc in policies}
    best = min(times.values())
    met = row["objective_s"]
    line = [row["link"], format_bytes(row["bytes"])]
    for cc in policies:
        text = f"{times[cc]:.2f}" if math.isfinite(times[cc]) else f"> {row['give_up_s']}"
        line.append(text + ("*" if text == f"{best:.2f}" else ""))
    least = [f"{row[key]:.2f}" for key in ("floor_s", "receiver_s", "stock_s")]
    held = statistics.median(row["receiver_limited_s"][policies[0]])
    drops = statistics.median(row["drops"][policies[0]])
    return [*line, MISSING if met is None else f"{met:g}", *least, f"{held:.2f}", f"{drops:.0f}"]


def missed(data: dict) -> list[str]:
    """A line for each objective that no policy reaches, with the reason."""
    lines = []
    for row in data["rows"]:
        times = {cc: _median(row["seconds"][cc]) for cc in data["policies"]}
        if row["objective_s"] is None or min(times.values()) <= row["objective_s"]:
            continue
        if row["floor_s"] > row["objective_s"]:
            why = "the link's own floor is above it"
        elif row["receiver_s"] > row["objective_s"]:
            why = ("a sender without congestion control needs longer too, as the receiver's window "
                   "opens from 64 kB")
        else:
            why = "the policies are the cause"
        lines.append(f"{row['link']}, {format_bytes(row['bytes'])}: no policy reaches "
                     f"{row['objective_s']:g} s; {why}")
    return lines


def heads(policies: list[str]) -> list[str]:
    return ["link", "size", *policies, "objective", "floor", "receiver", "stock",
            f"{policies[0]} held by the receiver", f"{policies[0]}'s drops"]


def print_table(data: dict, console: Console) -> None:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for number, head in enumerate(heads(data["policies"])):
        table.add_column(head, justify="left" if number < 2 else "right")
    link = None
    for row in data["rows"]:
        line = cells(row, data["policies"])
        table.add_row("" if row["link"] == link else line[0], *line[1:])
        link = row["link"]
    width, console.width = console.width, max(console.width, 140)
    console.print(table)
    console.width = width
    console.print("seconds from the first SYN to the ACK of the last byte; * fastest; with loss the "
                  "median of the seeds")
    for line in missed(data):
        console.print(line)


def play(arguments, console: Console) -> None:
    began = time.monotonic()
    data = load()
    planned = plan(data)
    lab = Lab(arguments.kernel)
    runs = run_all(lab, [item for _, _, item in planned], console,
                   use_cache=not arguments.fresh)
    result = collect(data, planned, runs)
    result["about"] = {
        "kernel": lab.image.release, "emulator": f"QEMU {machine.qemu_version()}",
        "date": datetime.date.today().isoformat(), "commit": commit(), "command": "make geo",
        "runs": len(runs), "wall_s": time.monotonic() - began}
    print_table(result, console)
    path = webpage.write_json(result, TOP / "results" / "acceptance", "geo.json")
    console.print(f"{len(runs)} runs, {result['about']['wall_s']:.0f} s wall; "
                  f"data: {path.relative_to(TOP)}")
    console.print(prune.within_limit())
