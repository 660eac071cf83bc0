# SPDX-License-Identifier: GPL-2.0
"""Play each policy as a module and as a BPF object, and compare the packets of the two runs.

    make bpf-compare [SEEDS=20] [SERIES="6.1 6.12"]

Both runs of a pair have the same image, link and seed, and begin at the same time of the guest's.  If
their packets or times differ, the module plays again, and begins some instructions later: TCP counts
microseconds, so its RTTs are then a microsecond longer or shorter.  If the module sends the object's
packets in one of these runs, a microsecond is the cause of the difference.  The objects are built from
the BTF of OBJECTS_FROM, whichever kernel they run on.

Without random loss a seed changes nothing but the first sequence numbers, so such a link has one.
"""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pydantic

from ..lab import bpf, machine
from ..lab.play import Lab
from ..record import pcap
from ..record.run import Run
from ..scenario import scenario, schema
from ..scenario.scenario import MBIT, MS, Scenario
from .kernels import SERIES

LINK = schema.text("a link's name", r"\w+")
BDP, ERRORS = schema.real(0.01, 100), schema.real(0, 0.5)
SEEDS, BYTES = schema.whole(1, 1000), schema.whole(1, 10**9)

FILE = Path(__file__).with_name("pairs.toml")
OBJECTS_FROM = "6.1"
SHIFTS = range(1, 9)        # shell commands that do nothing, before the module's further runs
# Times of two packets that count as the same.  An ACK takes some instructions more or less, of a
# nanosecond each, and timers are late by up to 50 us.  A segment takes 1.2 ms of a 10 Mbit/s link.
LATE_NS = 200_000
# How the runs of a pair differ.
SAME, TIMES, PACKETS = "same", "same packets at other times", "other packets"


# ---- the data file ---------------------------------------------------------

@dataclass(frozen=True)
class Link(schema.Table):
    """A [[link]]."""

    name: LINK
    queue_bdp: BDP
    ber: ERRORS = 0


@dataclass(frozen=True)
class Plan(schema.Table):
    """The keys of pairs.toml."""

    series: pydantic.conlist(SERIES, min_items=1)
    seeds: SEEDS
    rate_mbit: MBIT
    rtt_ms: MS
    bytes: BYTES
    link: pydantic.conlist(Link, min_items=1)


def load(path: Path = FILE) -> Plan:
    return schema.read(Plan, schema.parsed(path), path.name)


# ---- the packets of two runs -----------------------------------------------

def sides(packets: pcap.Packets) -> tuple:
    """The packets of each direction, each with those of the other one; None: there are none."""
    port = packets.dport[0]
    forward, reverse = packets.where(packets.dport == port), packets.where(packets.sport == port)
    return ((forward, reverse), (reverse, forward)) if len(reverse) else ((forward, None),)


def _sack_blocks(header: bytes, base: int) -> list[int]:
    edges = np.frombuffer(pcap.options(header).get(pcap.SACK, b""), ">u4").astype("i8")
    return pcap.unwrap(edges, base).tolist()


def described(packets: pcap.Packets, reverse: pcap.Packets | None) -> list[tuple]:
    """Each packet of a direction without its times and time stamps, with sequence numbers from 0.

    reverse: the packets of the other direction, from whose first its acknowledgments count.
    """
    columns = [pcap.unwrap(packets.seq, packets.seq[0]), packets.length, packets.flags, packets.window,
               packets.wire]
    if reverse is None:
        return [tuple(row) for row in np.array(columns).T.tolist()]
    acked = (packets.flags & pcap.ACK) != 0
    columns.append(np.where(acked, pcap.unwrap(packets.ack, reverse.seq[0]), 0))
    return [(*row, *_sack_blocks(header, reverse.seq[0]))
            for row, header in zip(np.array(columns).T.tolist(), packets.raw)]


@dataclass(frozen=True)
class Comparison:
    """The packets of two runs, one beside the other.

    same: whether they are the same in all but their times.
    alike: how many of the sender's packets are the same before the first that is not.
    late_ns: the largest difference between the times of two of the sender's packets that are the same.
    """

    same: bool
    alike: int
    late_ns: int

    @property
    def kind(self) -> str:
        """SAME, TIMES or PACKETS."""
        return PACKETS if not self.same else TIMES if self.late_ns > LATE_NS else SAME


def compare(one: Run, two: Run) -> Comparison:
    same, alike, late = True, [], 0
    for capture, other in ((one.sender, two.sender), (one.bottleneck, two.bottleneck)):
        for number, ((first, first_reverse), (second, second_reverse)) in enumerate(
                zip(sides(capture), sides(other))):
            left, right = described(first, first_reverse), described(second, second_reverse)
            same &= left == right
            count = next((at for at, (a, b) in enumerate(zip(left, right)) if a != b),
                         min(len(left), len(right)))
            alike.append(count)
            if count and not number:        # the receiver's times are not the policy's
                late = max(late, np.abs((first.t[:count] - capture.t[0])
                                        - (second.t[:count] - other.t[0])).max())
    return Comparison(same, alike[0], int(late))


# ---- the pairs -------------------------------------------------------------

@dataclass(frozen=True)
class Pair:
    """A policy's two runs over a link."""

    policy: str
    link: str
    seed: int


@dataclass(frozen=True)
class Verdict:
    """A pair's comparison.

    shift: how many commands later the module, too, sends the object's packets; 0: none is needed, or
    there is no such number.
    """

    pair: Pair
    comparison: Comparison
    shift: int = 0

    @property
    def explained(self) -> bool:
        return self.comparison.kind == SAME or bool(self.shift)

    @property
    def where(self) -> str:
        return f"{self.pair.policy} over {self.pair.link}"

    def __str__(self) -> str:
        pair, comparison = self.pair, self.comparison
        what = (f"{pair.policy}, {pair.link}, seed {pair.seed}: {comparison.kind}, "
                f"up to {comparison.late_ns / 1e6:.3f} ms")
        if not comparison.same:
            what += f", after {comparison.alike} of the sender's"
        if self.shift:
            what += f"; the module does so too if it begins {self.shift} commands later"
        return what if self.explained else f"{what}; not explained by microseconds"


def transfer(plan: Plan, pair: Pair) -> Scenario:
    """The scenario of a pair's runs."""
    link = next(link for link in plan.link if link.name == pair.link)
    line = {"errors": {"ber": link.ber}} if link.ber else {}
    delay = {"delay_ms": plan.rtt_ms / 2}
    return scenario.from_dict({
        "title": f"{pair.policy}, {pair.link}", "seed": pair.seed, "trace": [],
        "hop": [{"name": "gateway", "reverse": delay,
                 "forward": {"rate_mbit": plan.rate_mbit, "queue_bdp": link.queue_bdp}},
                {"name": "satellite", "forward": {**delay, **line}}],
        "flow": [{"cc": pair.policy, "bytes": plan.bytes}]})


def judge(lab: Lab, plan: Plan, pair: Pair) -> Verdict:
    """Play a pair's runs, or take the kept ones, and compare them.  Raises LabError."""
    files = bpf.files(bpf.build(OBJECTS_FROM), pair.policy)
    as_module = bpf.as_module(pair.policy)

    def play(*first: str) -> Run:
        return lab.run(transfer(plan, pair), files, first=first)

    object_ = play(*bpf.as_object(pair.policy))
    comparison = compare(play(*as_module), object_)
    if comparison.kind == SAME:
        return Verdict(pair, comparison)
    same = (shift for shift in SHIFTS
            if compare(play(*as_module, *[":"] * shift), object_).kind == SAME)
    return Verdict(pair, comparison, next(same, 0))


def verdicts(plan: Plan, series: str, seeds: int) -> Iterator[Verdict]:
    """The verdict of each pair on a kernel, in order.  Finished runs are kept, so that it resumes."""
    pairs = [Pair(policy, link.name, seed) for link in plan.link
             for policy in bpf.policies() for seed in range(1, (seeds if link.ber else 1) + 1)]
    lab = Lab(series, extras=("bpf",))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            yield from pool.map(lambda pair: judge(lab, plan, pair), pairs)
        except BaseException:
            machine.interrupted.set()
            raise


def cell(group: list[Verdict]) -> str:
    """The pairs of a policy, a link and a kernel in a cell of the table."""
    counts = Counter(verdict.comparison.kind for verdict in group)
    unexplained = sum(not verdict.explained for verdict in group)
    return "; ".join([f"{counts[SAME]} of {len(group)} {SAME}",
                      *(f"{counts[kind]} {kind}" for kind in (TIMES, PACKETS) if counts[kind]),
                      *([f"{unexplained} not explained"] if unexplained else [])])
