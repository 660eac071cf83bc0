# SPDX-License-Identifier: GPL-2.0
"""Play each policy as a module and as a BPF object, and compare the packets of the two runs.

    make bpf-compare [SEEDS=20] [SERIES="6.1 6.12"]

Both runs of a pair have the same image, link and seed, and begin at the same time of the guest's.  An
instruction takes a nanosecond, and an ACK takes more of them in the object than in the module.  So all
that follows is later, and TCP, which counts microseconds, may take another RTT.

If the packets or times of a pair differ, further runs tell whether that is the cause (twice.py).  In one
each callback runs in module and object, on the same socket: do they write and return the same?  In the
others the module plays alone, and each callback takes longer: does it then differ from itself, or send
the object's packets?  If it does not, the object plays again and begins later: does it then differ from
itself, or send the module's packets?

The objects are built from the BTF of OBJECTS_FROM, whichever kernel they run on.

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
from . import twice
from .kernels import SERIES
from .twice import Twice

LINK = schema.text("a link's name", r"\w+")
BDP, ERRORS = schema.real(0.01, 100), schema.real(0, 0.5)
SEEDS, BYTES = schema.whole(1, 1000), schema.whole(1, 10**9)

FILE = Path(__file__).with_name("pairs.toml")
OBJECTS_FROM = "6.1"
# How much longer each callback of the module takes in its further runs.  The object's take some 120 ns
# longer on the average, those of satcc and westwood_abse for an ACK several hundred.
DELAYS_NS = (100, 200, 300, 500, 1000, 2000, 4000, 8000)
# How many shell commands, of some microseconds each, the object begins later in its further runs.
COMMANDS = (2, 4, 8, 16)
# Times of two packets that count as the same.  An ACK takes some instructions more or less, of a
# nanosecond each, and timers are late by up to 50 us.  A segment takes 1.2 ms of a 10 Mbit/s link.
LATE_NS = 200_000
# How the runs of a pair differ.
KINDS = SAME, TIMES, PACKETS = "same", "same packets at other times", "other packets"


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
class Control:
    """What tells whether time is the cause of a pair's difference.

    twice: the calls of which module and object computed the same.
    delay_ns: how much later the module was at each callback, in the run that differed from it most.
    kind: how that run differed; SAME: no run did.
    like_other: whether that run is the same as the object's.
    commands: how much later the object began, if no run of the module differed; kind and like_other are
        then about this run of the object, and the module is the other.
    """

    twice: Twice
    delay_ns: int = 0
    kind: str = SAME
    like_other: bool = False
    commands: int = 0

    @property
    def differs(self) -> bool:
        """Whether a run that was later differed."""
        return self.kind != SAME or self.like_other


@dataclass(frozen=True)
class Verdict:
    """A pair's comparison, and the control if the two runs differ."""

    pair: Pair
    comparison: Comparison
    control: Control | None = None

    @property
    def explained(self) -> bool:
        """Whether both sent the same, or time alone is the cause of the difference."""
        if self.comparison.kind == SAME:
            return True
        control = self.control
        return bool(control) and not control.twice.differing and control.differs

    @property
    def where(self) -> str:
        return f"{self.pair.policy} over {self.pair.link}"

    def __str__(self) -> str:
        pair, comparison = self.pair, self.comparison
        what = (f"{pair.policy}, {pair.link}, seed {pair.seed}: {comparison.kind}, "
                f"up to {comparison.late_ns / 1e6:.3f} ms")
        if not comparison.same:
            what += f", after {comparison.alike} of the sender's"
        return f"{what}; {_cause(self.control)}" if self.control else what


def _cause(control: Control) -> str:
    """What a control says, in words."""
    twice_, other = control.twice, "module" if control.commands else "object"
    if twice_.differing:
        return (f"module and object computed {twice_.differing} results of {twice_.total} calls "
                f"differently, the first: {twice_.first}")
    same = f"module and object computed the same in {twice_.total} calls"
    if not control.differs:
        return (f"{same}; not explained by time: the module is the same up to {control.delay_ns} ns "
                f"later, and the object up to {control.commands} shell commands later")
    later = f"the object {control.commands} shell commands later" if control.commands else \
        f"the module {control.delay_ns} ns later"
    if control.like_other:
        return f"{same}; {later} sends the {other}'s packets"
    return f"{same}; {later} differs from itself: {control.kind}"


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
    objects, played = bpf.build(OBJECTS_FROM), transfer(plan, pair)
    files = bpf.files(objects, pair.policy)
    module = lab.run(played, files, first=bpf.as_module(pair.policy))
    object_ = lab.run(played, files, first=bpf.as_object(pair.policy))
    comparison = compare(module, object_)
    if comparison.kind == SAME:
        return Verdict(pair, comparison)
    both = twice.both(lab, played, objects)
    if both.differing:
        return Verdict(pair, comparison, Control(both))
    control = Control(both, DELAYS_NS[-1])
    for delay_ns in DELAYS_NS:
        later = twice.later(lab, played, objects, delay_ns)
        kind, like_other = compare(module, later).kind, compare(later, object_).kind == SAME
        if KINDS.index(kind) > KINDS.index(control.kind) or like_other:
            control = Control(both, delay_ns, kind, like_other)
        if like_other or KINDS.index(control.kind) >= KINDS.index(comparison.kind):
            break
    for commands in COMMANDS:
        if control.differs:
            break
        later = lab.run(played, files, first=(*bpf.as_object(pair.policy), *[":"] * commands))
        kind, like_other = compare(object_, later).kind, compare(later, module).kind == SAME
        control = Control(both, DELAYS_NS[-1], kind, like_other, commands)
    return Verdict(pair, comparison, control)


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


def of_loss(lab: Lab, plan: Plan) -> list[Verdict]:
    """The verdicts over the links with random loss, with one seed.  Raises LabError."""
    return [judge(lab, plan, Pair(policy, link.name, 1))
            for link in plan.link if link.ber for policy in bpf.policies()]


def cell(group: list[Verdict]) -> str:
    """The pairs of a policy, a link and a kernel in a cell of the table."""
    counts = Counter(verdict.comparison.kind for verdict in group)
    differing = [verdict for verdict in group if verdict.comparison.kind != SAME]
    controls = [verdict.control for verdict in differing if verdict.explained]
    parts = [f"{counts[SAME]} of {len(group)} {SAME}",
             *(f"{counts[kind]} {kind}" for kind in (TIMES, PACKETS) if counts[kind])]
    for form, other, later, unit in (
            ("module", "object", [(each, each.delay_ns) for each in controls if not each.commands],
             "ns"),
            ("object", "module", [(each, each.commands) for each in controls if each.commands],
             "shell commands")):
        if later:
            times = sorted({time for _, time in later})
            span = f"{times[0]} to {times[-1]}" if len(times) > 1 else times[0]
            like = sum(control.like_other for control, _ in later)
            parts.append(f"the {form} {span} {unit} later differs from itself in {len(later)} of "
                         f"{len(differing)}")
            parts[-1] += f", in {like} it sends the {other}'s packets" if like else ""
    if len(controls) < len(differing):
        wrong = sum(bool(verdict.control and verdict.control.twice.differing) for verdict in differing)
        parts.append(f"{len(differing) - len(controls)} not explained"
                     + (f", {wrong} computed differently" if wrong else ""))
    return "; ".join(parts)
