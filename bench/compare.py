# SPDX-License-Identifier: GPL-2.0
"""The comparison `make bench` prints: what it runs, and what is read from the runs."""

import dataclasses
import hashlib
import os
import queue
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pydantic
from rich.console import Console

from . import cost, floors, overhead, progress
from .lab import machine, measure, scenario, schema
from .lab.errors import LabError
from .lab.run import Lab, Run
from .lab.scenario import PERCENT, SETTING, Flow, Scenario
from .lab.schema import CongestionControl, Flag, Line, text, whole

HERE = Path(__file__).resolve().parent
SHOWN_TRANSFER = 1_000_000      # the size whose time sequence is drawn

# Wall seconds of a run on one core, to tell the time left before anything is measured:
# restore and set-up, and then so much per data packet.
FIXED_WALL_S = 1.6
PACKET_WALL_S = 0.00028
SIZED = ("transfer", "floor", "log")        # kinds of runs whose amount is bytes


LINK = text("a scenario's name", r"[\w-]+")
WHOLE_SECONDS = whole(1, 10**6)
SIZE = whole(1, 10**12)
LOSSES = pydantic.conlist(PERCENT, min_items=1)
SEEDS = pydantic.conlist(whole(0, 10**9), min_items=1)
POLICIES = pydantic.conlist(CongestionControl, min_items=1)


@dataclass(frozen=True)
class Beside(schema.Table):
    links: pydantic.conlist(LINK, min_items=1)
    seconds: WHOLE_SECONDS
    rival: CongestionControl


@dataclass(frozen=True)
class Cost(schema.Table):
    link: LINK
    seconds: WHOLE_SECONDS
    loss_pct: LOSSES


@dataclass(frozen=True)
class Log(schema.Table):
    link: LINK
    cc: CongestionControl
    bytes: SIZE


@dataclass(frozen=True)
class Shared(schema.Table):
    flows: whole(1, 1000)
    policies: POLICIES
    loss_pct: LOSSES


@dataclass(frozen=True)
class Long(schema.Table):
    link: LINK
    seconds: WHOLE_SECONDS
    loss_pct: LOSSES
    seeds: SEEDS
    shared: Shared


@dataclass(frozen=True)
class Entry(schema.Table):
    """A [[policy]]."""

    cc: CongestionControl
    ours: Flag = False
    parameters: schema.mapping(Line, SETTING) = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Comparison(schema.Table):
    """What compare.toml may have."""

    title: Line
    links: pydantic.conlist(LINK, min_items=1)
    transfers: pydantic.conlist(SIZE, min_items=1)
    bulk_seconds: WHOLE_SECONDS
    bulk_loss_pct: LOSSES
    seeds: SEEDS
    beside: Beside
    cost: Cost
    log: Log
    long: Long
    policy: pydantic.conlist(Entry, min_items=1)


@dataclass(frozen=True)
class Policy:
    cc: str
    ours: bool = False
    parameters: tuple = ()

    @property
    def label(self) -> str:
        return " ".join([self.cc, *(f"{key}={value}" for key, value in self.parameters)])

    @property
    def modules(self) -> dict:
        return {f"tcp_{self.cc}": dict(self.parameters)} if self.parameters else {}


@dataclass(frozen=True)
class Item:
    """One run of the comparison and what it is for."""

    link: str
    policy: Policy
    kind: str                   # transfer, floor, bulk, beside, cost, log, long, shared; see plan()
    amount: int                 # bytes of a transfer or log; of the others, seconds
    loss_pct: float
    seed: int
    scenario: Scenario
    mode: str = ""              # of log: what of it is on, see overhead.py; of a floor, its receiver

    def expected_wall_s(self) -> float:
        size = self.amount if self.kind in SIZED else \
            self.amount * self.scenario.net_rate_bps / 8
        # Loss keeps most senders far below the link's rate.
        return FIXED_WALL_S + size / self.scenario.mss * PACKET_WALL_S / (3 if self.loss_pct else 1)

    def expected_virtual_s(self) -> float:
        return self.scenario.ideal_s(self.amount) if self.kind in SIZED else self.amount

    def files(self, release: str) -> dict[str, bytes]:
        """What the guest needs beside the scenario."""
        return cost.files(release) if self.kind in ("cost", "log") else {}


@dataclass(frozen=True)
class Plan:
    title: str
    policies: tuple[Policy, ...]
    links: dict[str, Scenario]
    items: tuple[Item, ...]
    fast: Scenario | None = None        # the link of the long comparison, if that is asked for

    def of(self, *kinds: str) -> list[Item]:
        return [item for item in self.items if item.kind in kinds]


def with_loss(base: Scenario, loss_pct: float) -> Scenario:
    """The scenario with random loss on its forward delay stage, behind the bottleneck."""
    hops = tuple(
        dataclasses.replace(hop, forward=dataclasses.replace(hop.forward, loss_pct=loss_pct))
        if hop.forward.delay_ms else hop for hop in base.hops)
    return dataclasses.replace(base, hops=hops)


def _read(name: str) -> Scenario:
    return scenario.load(HERE / "scenarios" / f"{name}.toml")


def plan(path: Path = HERE / "compare.toml", long: bool = False) -> Plan:
    """Read the comparison's data file and lay out its runs.

    transfer, bulk: every policy alone on every link.  floor: each transfer by a sender that only the
    link and a receiver hold back, each of floors.RECEIVERS.  beside: every policy and a rival on a link
    that is neither's.  cost: a policy alone, its instructions counted.
    log: one transfer with each of the logger's events.
    long: on a faster link at random loss; shared: several flows of one policy there.
    """
    data = schema.parsed(path)
    schema.read(Comparison, data, path.name)
    policies = tuple(Policy(entry["cc"], entry.get("ours", False),
                            tuple(entry.get("parameters", {}).items()))
                     for entry in data["policy"])
    links = {name: _read(name) for name in data["links"]}
    items = []
    for name, base in links.items():
        for policy in policies:
            items += [_item(name, base, policy, "transfer", size, 0, 1) for size in data["transfers"]]
            items += [_item(name, base, policy, "bulk", data["bulk_seconds"], loss_pct, seed)
                      for loss_pct in data["bulk_loss_pct"]
                      for seed in (data["seeds"] if loss_pct else [1])]
        items += [Item(name, Policy(floors.CC), "floor", size, 0, 1,
                       floors.unlimited(dataclasses.replace(base, trace=()), size, receiver), receiver)
                  for size in data["transfers"] for receiver in floors.RECEIVERS]
    items += _beside_items(data["beside"], policies)
    items += _cost_items(data["cost"], policies) + _log_items(data["log"])
    if long:
        items += _long_items(data["long"], policies)
    return Plan(data["title"], policies, links, tuple(items),
                _read(data["long"]["link"]) if long else None)


def _item(link: str, base: Scenario, policy: Policy, kind: str, amount: int, loss_pct: float,
          seed: int, flows: int = 1, **changes) -> Item:
    flow = Flow(policy.cc, **{"bytes" if kind == "transfer" else "seconds": amount})
    made = dataclasses.replace(with_loss(base, loss_pct), flows=flows * (flow,), seed=seed,
                               modules=policy.modules, **changes)
    return Item(link, policy, kind, amount, loss_pct, seed, made.check())


def _beside_items(data: dict, policies) -> list[Item]:
    """Two flows that start together: the policy's, and the rival's.  The rival is among the policies:
    what it gets beside another of its kind is what the others are held against."""
    if data["rival"] not in [policy.label for policy in policies]:
        raise LabError(f"compare.toml: beside: the rival {data['rival']} is not among the policies")
    items = []
    for name in data["links"]:
        base = _read(name)
        for policy in [policy for policy in policies if not policy.parameters]:
            flows = tuple(Flow(cc, seconds=data["seconds"]) for cc in (policy.cc, data["rival"]))
            made = dataclasses.replace(base, flows=flows, modules=policy.modules)
            items.append(Item(name, policy, "beside", data["seconds"], 0, base.seed, made.check()))
    return items


def _cost_items(data: dict, policies) -> list[Item]:
    """No trace: the policies' own events are off, as they are for anybody but us."""
    return [_item(data["link"], _read(data["link"]), policy, "cost", data["seconds"], loss_pct, 1,
                  trace=(), before=cost.before(policy.cc), after=cost.AFTER)
            for policy in policies if not policy.parameters for loss_pct in data["loss_pct"]]


def _log_items(data: dict) -> list[Item]:
    base = dataclasses.replace(_read(data["link"]), flows=(Flow(data["cc"], bytes=data["bytes"]),))
    return [Item(data["link"], Policy(data["cc"]), "log", data["bytes"], 0, 1,
                 overhead.scenario(base, mode).check(), mode) for mode in overhead.MODES]


def _long_items(data: dict, policies) -> list[Item]:
    base, shared = _read(data["link"]), data["shared"]
    items = [_item(data["link"], base, policy, "long", data["seconds"], loss_pct, seed)
             for policy in policies if not policy.parameters
             for loss_pct in data["loss_pct"] for seed in data["seeds"]]
    # The flows share the link, and the room for what they have not yet had acknowledged.
    room = f"4096 87380 {2 * base.socket_bytes() // shared['flows']}"
    sender = dataclasses.replace(base.sender, sysctl={"net.ipv4.tcp_wmem": room})
    return items + [
        _item(data["link"], base, policy, "shared", data["seconds"], loss_pct, seed,
              flows=shared["flows"], sender=sender)
        for policy in policies if policy.label in shared["policies"]
        for loss_pct in shared["loss_pct"] for seed in (data["seeds"] if loss_pct else [1])]


def run_all(lab: Lab, items, console: Console, use_cache: bool = True) -> list[Run]:
    """Play all items on all cores, longest first, with a progress bar.  Results in given order."""
    order = sorted(range(len(items)), key=lambda n: -items[n].expected_wall_s())
    work, results, failures = queue.SimpleQueue(), [None] * len(items), []
    for number in order:
        work.put(number)
    cores = len(os.sched_getaffinity(0))
    total = sum(item.expected_wall_s() for item in items)
    began = time.monotonic()
    found = 0.0                 # expected wall seconds of what the cache spared
    parts = [0.0] * len(items)  # of each item's expected wall time, what is behind it
    stop = threading.Event()
    with progress.shown(console, total) as shown:
        lock = threading.Lock()

        def show() -> None:
            behind = sum(parts)
            rate = (behind - found) / (time.monotonic() - began) or cores
            finished = sum(result is not None for result in results)
            shown.update(behind, finished, len(items), (total - behind) / rate)

        def one(number: int) -> None:
            nonlocal found
            item = items[number]
            expected = item.expected_wall_s()

            def heard(virtual_s: int) -> None:
                parts[number] = expected * min(1, virtual_s / item.expected_virtual_s())
                with lock:
                    show()

            run = lab.run(item.scenario, item.files(lab.image.release), use_cache=use_cache,
                          on_progress=heard)
            with lock:
                results[number], parts[number] = run, expected
                if run.from_cache:
                    found += expected
                show()

        def worker() -> None:
            try:
                while not stop.is_set():
                    one(work.get_nowait())
            except queue.Empty:
                pass
            except BaseException as error:      # handed to the thread that started us
                failures.append(error)
                stop.set()
            finally:
                ended.put(None)

        # Not Thread.join(): in Python 3.11 one that Ctrl-C breaks off takes the thread for ended.
        ended = queue.SimpleQueue()
        show()
        for _ in range(cores):
            threading.Thread(target=worker, daemon=True).start()
        left = cores
        try:
            while left:
                ended.get()
                left -= 1
        except KeyboardInterrupt:
            stop.set()
            machine.interrupted.set()           # and the threads clean up behind themselves
            for _ in range(left):
                ended.get(timeout=10)
            raise
    if failures:
        raise failures[0]
    return results


def _transfer_row(item: Item, run: Run) -> dict:
    view = measure.FlowView(run)
    return {"policy": item.policy.label, "bytes": item.amount,
            "seconds": view.transfer_s(item.amount), "ideal_s": item.scenario.ideal_s(item.amount),
            "drops": measure.queue_drops(run), "retransmits": int(view.is_retransmit.sum()),
            "receiver_limited_s": floors.receiver_limited_s(run), "hash": run.hash}


def _floor_row(item: Item, run: Run) -> dict:
    return {"bytes": item.amount, "receiver": item.mode, "hash": run.hash,
            "seconds": measure.FlowView(run).transfer_s(item.amount)}


def _bulk_row(policy: Policy, loss_pct: float, pairs: list[tuple[Item, Run]]) -> dict:
    views = [(item, run, measure.FlowView(run)) for item, run in pairs]
    return {"policy": policy.label, "loss_pct": loss_pct,
            "goodput_mbit": [view.goodput_mbit(item.amount) for item, _, view in views],
            "t90_s": [measure.time_to_share(run) for _, run, _ in views],
            "drops": [measure.queue_drops(run) for _, run, _ in views],
            "utilisation": [measure.utilisation(run) for _, run, _ in views],
            "seeds": [item.seed for item, _, _ in views], "hash": [run.hash for _, run, _ in views]}


def _series(sequence: Run, bulk: Run, seconds: int) -> dict:
    """What is drawn of one policy on one link."""
    view = measure.FlowView(sequence)
    first = ~view.is_retransmit
    t, cwnd, ssthresh = measure.cwnd_series(bulk)
    at, rate = measure.FlowView(bulk).goodput_series(seconds)
    return {
        "cwnd": {"t_s": t.tolist(), "cwnd": cwnd.tolist(),
                 "ssthresh": [None if np.isnan(value) else int(value) for value in ssthresh]},
        "sequence": {
            "segment_t_s": view.segment_s[first].tolist(),
            "segment_kB": (view.segment_seq[first] / 1e3).tolist(),
            "retransmit_t_s": view.segment_s[~first].tolist(),
            "retransmit_kB": (view.segment_seq[~first] / 1e3).tolist(),
            "ack_t_s": view.ack_s.tolist(), "ack_kB": (view.ack_bytes / 1e3).tolist()},
        "goodput": {"t_s": at.tolist(), "mbit": rate.tolist()},
    }


def speed(runs: list[Run], items) -> float | None:
    """Virtual seconds per wall second of a single 2 Mbit/s flow that fills its link, median.

    Counted while the flow runs: without restore, set-up and collection of results.
    """
    rates = [item.amount / run.meta["flows_wall_s"] for item, run in zip(items, runs)
             if item.kind == "bulk" and not item.loss_pct and run.meta["flows_wall_s"]
             and item.scenario.bottleneck[1].rate_mbit == 2]
    return float(np.median(rates)) if rates else None


def told_by_flows(run: Run) -> list[dict]:
    """The kernel's TCP_INFO at the end of each flow."""
    return [run.json(f"flow-{number}.json") for number in range(len(run.scenario.flows))]


def _waited_pct(run: Run, key: str) -> float:
    """The part of their busy time that flows spent waiting for a socket buffer, percent."""
    told = told_by_flows(run)
    return 100 * sum(one[key] for one in told) / max(1, sum(one["busy_time"] for one in told))


def _digest(run: Run) -> str:
    """SHA-256 of what a run without captures shows: its flows' ends and its queues' counters."""
    names = sorted(path.name for path in run.folder.iterdir()
                   if path.name.startswith(("flow-", "qdisc-")))
    return hashlib.sha256(b"".join(run.read(name) for name in names)).hexdigest()


def _long_rows(pairs) -> list[dict]:
    """A row for each policy and loss; its lists have an entry a seed."""
    grouped = {}
    for item, run in pairs:
        grouped.setdefault((item.policy.label, item.loss_pct), []).append((item, run))
    rows = []
    for (policy, loss_pct), mine in grouped.items():
        rates = [[one["bytes_acked"] * 8 / item.amount / 1e6 for one in told_by_flows(run)]
                 for item, run in mine]
        rows.append({
            "policy": policy, "loss_pct": loss_pct, "flows_mbit": rates,
            "goodput_mbit": [sum(one) for one in rates], "jain": [measure.jain(one) for one in rates],
            "drops": [measure.queue_drops(run) for _, run in mine],
            "sndbuf_limited_pct": [_waited_pct(run, "sndbuf_limited") for _, run in mine],
            "rwnd_limited_pct": [_waited_pct(run, "rwnd_limited") for _, run in mine],
            "seeds": [item.seed for item, _ in mine], "hash": [_digest(run) for _, run in mine]})
    return rows


def link_facts(name: str, base: Scenario) -> dict:
    _, stage = base.bottleneck
    return {"name": f"{stage.rate_mbit:g} Mbit/s", "scenario": name,
            "rtt_ms": base.base_rtt_s * 1e3, "rate_mbit": stage.rate_mbit,
            "net_rate_mbit": base.net_rate_bps / 1e6, "bdp_packets": base.bdp_packets(stage),
            "queue_packets": base.queue_packets(stage)}


def collect_long(made: Plan, pairs) -> dict:
    """The faster link: one flow alone, and several of one policy."""
    alone = [pair for pair in pairs if pair[0].kind == "long"]
    shared = [pair for pair in pairs if pair[0].kind == "shared"]
    return {**link_facts(alone[0][0].link, made.fast), "seconds": alone[0][0].amount,
            "rows": _long_rows(alone), "shared": _long_rows(shared),
            "flows": max((len(item.scenario.flows) for item, _ in shared), default=0)}


def collect_beside(pairs) -> dict:
    """By link and policy: goodput of the policy's flow and of its rival's, Mbit/s, and the rival's in
    percent of what each of two flows of the rival's kind has there (their mean)."""
    links = {}
    for item, run in pairs:
        own, rival = [told["bytes_acked"] * 8 / item.amount / 1e6 for told in told_by_flows(run)]
        link = links.setdefault(item.link, {
            **link_facts(item.link, item.scenario), "rival": item.scenario.flows[1].cc,
            "seconds": item.amount, "rows": []})
        link["rows"].append({"policy": item.policy.label, "own_mbit": own, "rival_mbit": rival,
                             "drops": measure.queue_drops(run), "hash": _digest(run)})
    for link in links.values():
        equal, = [(row["own_mbit"] + row["rival_mbit"]) / 2 for row in link["rows"]
                  if row["policy"] == link["rival"]]
        for row in link["rows"]:
            row["rival_pct"] = 100 * row["rival_mbit"] / equal
    return {"links": list(links.values())}


def collect_cost(pairs) -> dict:
    """Instructions per ACK and by callback."""
    item = pairs[0][0]
    return {"link": link_facts(item.link, item.scenario)["name"], "seconds": item.amount,
            "rtt_ms": item.scenario.base_rtt_s * 1e3, "rows": [
                {"policy": item.policy.label, "loss_pct": item.loss_pct,
                 **cost.of_run(run).as_dict(), "hash": run.hash} for item, run in pairs]}


def collect_log(pairs) -> dict:
    """Instructions the logger adds, see overhead.py."""
    item = pairs[0][0]
    return {"link": link_facts(item.link, item.scenario)["name"], "cc": item.policy.cc,
            "bytes": item.amount, "rows": overhead.table([
                overhead.of_run(run, item.mode) for item, run in pairs])}


def collect_checks(pairs, check) -> dict:
    """What the oracle says of every traced run of ours: by policy, how much was recomputed and
    where it differs.

    check: takes a Run; its answer has `counts` (policy -> .changes), `differences` (with .policy)
    and `unchecked` (policy -> why).
    """
    found = {}
    for item, run in pairs:
        if not (item.policy.ours and item.scenario.trace):
            continue
        mine = found.setdefault(item.policy.label, {
            "runs": 0, "changes": 0, "differences": [], "unchecked": []})
        said = check(run)
        mine["runs"] += bool(said.counts)
        mine["changes"] += sum(count.changes for count in said.counts.values())
        mine["differences"] += [str(one) for one in said.differences]
        why = list(said.unchecked.values()) or ([] if said.counts else ["the oracle has no such policy"])
        mine["unchecked"] += [text for text in why if text not in mine["unchecked"]]
    return found


def collect(made: Plan, runs: list[Run], check=None) -> dict:
    """The report's data, without its `about`.  check: see collect_checks()."""
    pairs = list(zip(made.items, runs))
    by = {(item.link, item.policy, item.kind, item.amount, item.loss_pct, item.seed): (item, run)
          for item, run in pairs}
    links = []
    for name, base in made.links.items():
        mine = [(item, run) for item, run in pairs
                if item.link == name and item.kind in ("transfer", "floor", "bulk")]
        bulk = [(policy, loss_pct) for policy in made.policies
                for loss_pct in sorted({item.loss_pct for item, _ in mine if item.kind == "bulk"})]
        seconds = next(item.amount for item, _ in mine if item.kind == "bulk")
        links.append({
            **link_facts(name, base),
            "transfers": [_transfer_row(item, run) for item, run in mine if item.kind == "transfer"],
            "floors": [_floor_row(item, run) for item, run in mine if item.kind == "floor"],
            "bulk": [_bulk_row(policy, loss_pct, [
                (item, run) for item, run in mine
                if item.kind == "bulk" and (item.policy, item.loss_pct) == (policy, loss_pct)])
                for policy, loss_pct in bulk],
            "series": {policy.label: _series(
                by[name, policy, "transfer", SHOWN_TRANSFER, 0, 1][1],
                by[name, policy, "bulk", seconds, 0, 1][1], seconds) for policy in made.policies},
        })
    data = {"title": made.title, "policies": [policy.label for policy in made.policies],
            "ours": [policy.label for policy in made.policies if policy.ours], "links": links}
    if besides := [pair for pair in pairs if pair[0].kind == "beside"]:
        data["beside"] = collect_beside(besides)
    if costs := [pair for pair in pairs if pair[0].kind == "cost"]:
        data["cost"] = collect_cost(costs)
    if logs := [pair for pair in pairs if pair[0].kind == "log"]:
        data["log"] = collect_log(logs)
    if made.fast:
        data["long"] = collect_long(made, [p for p in pairs if p[0].kind in ("long", "shared")])
    if check:
        data["checks"] = collect_checks(pairs, check)
    return data


def check_plan(made: Plan) -> None:
    if not any(item.amount == SHOWN_TRANSFER for item in made.of("transfer")):
        raise LabError(f"compare.toml: transfers lack {SHOWN_TRANSFER}, whose sequence is drawn")
