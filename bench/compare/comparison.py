# SPDX-License-Identifier: GPL-2.0
"""The runs of `make bench`, and the schema of the comparison's data file."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pydantic

from ..errors import LabError
from ..lab import foreign
from ..measure import cost, floors, overhead
from ..paths import TOP
from ..scenario import scenario, schema
from ..scenario.scenario import PERCENT, SETTING, Flow, Scenario
from ..scenario.schema import CongestionControl, Flag, Line, text, whole

HERE = Path(__file__).resolve().parent

# Expected wall seconds of a run on one core, for the time left: fixed for restore and set-up, and per
# data packet.
FIXED_WALL_S = 1.6
PACKET_WALL_S = 0.00028
SIZED = ("transfer", "floor", "log")        # kinds of runs whose amount is in bytes


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
    seeds: SEEDS
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
    """The keys of a [[policy]] table."""

    cc: CongestionControl
    ours: Flag = False
    parameters: schema.mapping(Line, SETTING) = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Comparison(schema.Table):
    """The keys of compare.toml."""

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
    yours: str = ""             # the kind of the user's file that has it, see foreign.py

    @property
    def label(self) -> str:
        return " ".join([self.cc, *(f"{key}={value}" for key, value in self.parameters)])

    @property
    def modules(self) -> dict:
        return {f"tcp_{self.cc}": dict(self.parameters)} if self.parameters else {}


@dataclass(frozen=True)
class Item:
    """One run of the comparison and its purpose."""

    link: str
    policy: Policy
    kind: str                   # transfer, floor, bulk, beside, cost, log, long, shared; see plan()
    amount: int                 # bytes for the kinds in SIZED, seconds for the others
    loss_pct: float
    seed: int
    scenario: Scenario
    mode: str = ""              # log: a mode of overhead.py; floor: a receiver of floors.py

    def expected_wall_s(self) -> float:
        size = self.amount if self.kind in SIZED else \
            self.amount * self.scenario.net_rate_bps / 8
        # Loss keeps most senders far below the link's rate.
        return FIXED_WALL_S + size / self.scenario.mss * PACKET_WALL_S / (3 if self.loss_pct else 1)

    def expected_virtual_s(self) -> float:
        return self.scenario.ideal_s(self.amount) if self.kind in SIZED else self.amount

    def files(self, release: str) -> dict[str, bytes]:
        """The files that the guest needs beside the scenario."""
        return cost.files(release) if self.kind in ("cost", "log") else {}


@dataclass(frozen=True)
class Plan:
    title: str
    policies: tuple[Policy, ...]
    links: dict[str, Scenario]
    items: tuple[Item, ...]
    fast: Scenario | None = None        # the link of the long comparison, if it is played

    def of(self, *kinds: str) -> list[Item]:
        return [item for item in self.items if item.kind in kinds]


def with_loss(base: Scenario, loss_pct: float) -> Scenario:
    """The scenario with random loss on its forward delay stage, behind the bottleneck."""
    hops = tuple(
        dataclasses.replace(hop, forward=dataclasses.replace(hop.forward, loss_pct=loss_pct))
        if hop.forward.delay_ms else hop for hop in base.hops)
    return dataclasses.replace(base, hops=hops)


def _read(name: str) -> Scenario:
    return scenario.load(TOP / "bench/scenarios" / f"{name}.toml")


def plan(path: Path = HERE / "compare.toml", long: bool = False,
         added: Iterable[foreign.Foreign] = ()) -> Plan:
    """Read the comparison's data file and plan its runs.  Raises LabError.

    added: a user's congestion controls, which stand between ours and the kernel's.

    The kinds of runs are:
    transfer, bulk: every policy alone on every link;
    floor: each transfer, limited only by the link and by each of floors.RECEIVERS;
    beside: a flow of every policy together with a rival's;
    cost: a policy alone, with its instructions counted; the tracer cannot count those of a BPF object;
    log: one transfer in each mode of the logger;
    long: every policy on a faster link with random loss; shared: several flows of one policy there.
    """
    asked = schema.read(Comparison, schema.parsed(path), path.name)
    policies = tuple(Policy(entry.cc, entry.ours, tuple(entry.parameters.items()))
                     for entry in asked.policy)
    policies = (*(policy for policy in policies if policy.ours),
                *(Policy(each.cc, yours=each.kind) for each in added),
                *(policy for policy in policies if not policy.ours))
    links = {name: _read(name) for name in asked.links}
    items = []
    for name, base in links.items():
        for policy in policies:
            items += [_item(name, base, policy, "transfer", size, 0, 1) for size in asked.transfers]
            items += [_item(name, base, policy, "bulk", asked.bulk_seconds, loss_pct, seed)
                      for loss_pct in asked.bulk_loss_pct
                      for seed in (asked.seeds if loss_pct else [1])]
        items += [Item(name, Policy(floors.CC), "floor", size, 0, 1,
                       floors.unlimited(dataclasses.replace(base, trace=()), size, receiver), receiver)
                  for size in asked.transfers for receiver in floors.RECEIVERS]
    items += _beside_items(asked.beside, policies)
    items += _cost_items(asked.cost, policies) + _log_items(asked.log)
    if long:
        items += _long_items(asked.long, policies)
    return Plan(asked.title, policies, links, tuple(items),
                _read(asked.long.link) if long else None)


def _item(link: str, base: Scenario, policy: Policy, kind: str, amount: int, loss_pct: float,
          seed: int, flows: int = 1, **changes) -> Item:
    flow = Flow(policy.cc, **{"bytes" if kind == "transfer" else "seconds": amount})
    played = dataclasses.replace(with_loss(base, loss_pct), flows=flows * (flow,), seed=seed,
                                 modules=policy.modules, **changes)
    return Item(link, policy, kind, amount, loss_pct, seed, played.check())


def _beside_items(beside: Beside, policies) -> list[Item]:
    """Runs with two flows that start together, the policy's and the rival's.

    The rival is one of the policies: its rate beside a second rival is the reference for the others.
    """
    if beside.rival not in [policy.label for policy in policies]:
        raise LabError(f"compare.toml: beside: the rival {beside.rival} is not one of the policies")
    items = []
    for name in beside.links:
        base = _read(name)
        for policy in policies:
            flows = tuple(Flow(cc, seconds=beside.seconds) for cc in (policy.cc, beside.rival))
            played = dataclasses.replace(base, flows=flows, modules=policy.modules)
            items += [Item(name, policy, "beside", beside.seconds, 0, seed,
                           dataclasses.replace(played, seed=seed).check()) for seed in beside.seeds]
    return items


def _cost_items(counted: Cost, policies) -> list[Item]:
    """The cost runs.  They have no trace, as on a user's host."""
    return [_item(counted.link, _read(counted.link), policy, "cost", counted.seconds, loss_pct, 1,
                  trace=(), before=cost.before(policy.cc), after=cost.AFTER)
            for policy in policies if not policy.parameters and policy.yours != foreign.OBJECT
            for loss_pct in counted.loss_pct]


def _log_items(log: Log) -> list[Item]:
    base = dataclasses.replace(_read(log.link), flows=(Flow(log.cc, bytes=log.bytes),))
    return [Item(log.link, Policy(log.cc), "log", log.bytes, 0, 1,
                 overhead.scenario(base, mode).check(), mode) for mode in overhead.MODES]


def _long_items(long: Long, policies) -> list[Item]:
    base, shared = _read(long.link), long.shared
    items = [_item(long.link, base, policy, "long", long.seconds, loss_pct, seed)
             for policy in policies if not policy.parameters
             for loss_pct in long.loss_pct for seed in long.seeds]
    # The flows share the link, so each gets its part of the send buffers.
    room = f"4096 87380 {2 * base.socket_bytes() // shared.flows}"
    sender = dataclasses.replace(base.sender, sysctl={"net.ipv4.tcp_wmem": room})
    return items + [
        _item(long.link, base, policy, "shared", long.seconds, loss_pct, seed,
              flows=shared.flows, sender=sender)
        for policy in policies if policy.label in shared.policies
        for loss_pct in shared.loss_pct for seed in (long.seeds if loss_pct else [1])]
