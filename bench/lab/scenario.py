# SPDX-License-Identifier: GPL-2.0
"""A scenario: one experiment as data.

A scenario is a TOML file.  Sender and receiver are joined by a row of routers, the hops; each
hop does one thing to what leaves it toward the receiver (`forward`) and one to what leaves it
toward the sender (`reverse`): it is either a bottleneck (rate and queue) or a stretch of
link (loss, then pure delay).  Rate and delay never share a hop, or the queue's limit would
count the packets in flight.

    title = "GEO, 2 Mbit/s"
    seed = 1

    [[hop]]
    name = "gateway"
    forward = { rate_mbit = 2, queue_bdp = 1 }      # or queue_packets = 40
    reverse = { delay_ms = 300 }

    [[hop]]
    name = "satellite"
    forward = { delay_ms = 300, loss_pct = 1 }

    [[flow]]
    cc = "hybla_full"
    bytes = 1_000_000                               # or seconds = 60

    [[change]]                                      # a hand-over, a rain cell
    at_s = 20
    hop = "satellite"
    forward = { delay_ms = 320, loss_pct = 5 }
"""

import dataclasses
import hashlib
import json
import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from .errors import LabError

ETHERNET_BYTES = 14         # what a qdisc counts on top of an IP packet
TCP_IPV4_BYTES = 52         # IPv4 20, TCP 20, timestamps 12
TCP_IPV6_BYTES = 72
FIRST_PORT = 5001           # of the first flow, at the receiver
SERVER_PORT = 4001          # of a passive sender


@dataclass(frozen=True)
class Stage:
    """What a hop does to one direction.  Delay in ms, loss in percent, rate in Mbit/s."""

    rate_mbit: float = 0            # 0: no bottleneck here
    queue_bdp: float = 0            # the queue, as a part of rate x base RTT, or
    queue_packets: int = 0          # in packets
    delay_ms: float = 0
    loss_pct: float = 0
    ecn: bool = False               # mark what would be lost, where the packet allows it
    reorder_pct: float = 0          # so many packets skip the delay and overtake
    duplicate_pct: float = 0

    @property
    def is_line(self) -> bool:
        """A stretch of link, as against a bottleneck or nothing."""
        return bool(self.delay_ms or self.loss_pct or self.duplicate_pct)

    def check(self, where: str) -> None:
        if self.rate_mbit and self.is_line:
            raise LabError(f"{where}: a rate and a delay or loss in one stage; put them on two hops")
        if self.rate_mbit and bool(self.queue_bdp) == bool(self.queue_packets):
            raise LabError(f"{where}: a rate needs either queue_bdp or queue_packets")
        if not self.rate_mbit and (self.queue_bdp or self.queue_packets):
            raise LabError(f"{where}: a queue without a rate")
        for name in ("rate_mbit", "queue_bdp", "queue_packets", "delay_ms", "loss_pct", "reorder_pct",
                     "duplicate_pct"):
            if not 0 <= getattr(self, name) <= (100 if name.endswith("_pct") else 1e6):
                raise LabError(f"{where}: {name} is out of range")
        if self.reorder_pct and not self.delay_ms:
            raise LabError(f"{where}: reorder_pct without a delay to skip")
        if self.ecn and not self.loss_pct:
            raise LabError(f"{where}: ecn marks what would be lost: loss_pct says how much")


@dataclass(frozen=True)
class Hop:
    name: str
    forward: Stage = Stage()
    reverse: Stage = Stage()


@dataclass(frozen=True)
class LinkChange:
    """From at_s after the flows' start on, a hop's stages are these; None leaves one alone."""

    at_s: float
    hop: str
    forward: Stage | None = None
    reverse: Stage | None = None


@dataclass(frozen=True)
class Flow:
    """One TCP transfer from the sender.  `bytes` or `seconds`; start_s after the first.

    changes: [[ms, "cc"], ...], changes of congestion control on the live socket.
    """

    cc: str
    bytes: int = 0
    seconds: int = 0
    start_s: float = 0
    tool: str = "flow"              # flow: the lab's lean sender; iperf3
    changes: tuple = ()
    pause_ms: int = 0               # bytes go out in two halves, so long apart
    write_bytes: int = 0            # the application writes so much
    write_ms: int = 0               # at such intervals; 0: all it can
    passive: bool = False           # the receiver connects, the sender answers as a server
    fastopen: bool = False          # TCP Fast Open, without a cookie

    def check(self, where: str) -> None:
        if bool(self.bytes) == bool(self.seconds):
            raise LabError(f"{where}: either bytes or seconds")
        if self.tool not in ("flow", "iperf3"):
            raise LabError(f"{where}: tool {self.tool!r} is neither flow nor iperf3")
        if self.pause_ms and (self.seconds or self.tool != "flow"):
            raise LabError(f"{where}: pause_ms is for bytes and the tool flow")
        if (self.write_ms or self.passive or self.fastopen) and self.tool != "flow":
            raise LabError(f"{where}: write_ms, passive and fastopen are for the tool flow")
        if bool(self.write_ms) != bool(self.write_bytes) or self.write_bytes > 256 << 10:
            raise LabError(f"{where}: write_bytes (at most 262144) goes with write_ms")
        if self.changes and self.tool != "flow":
            raise LabError(f"{where}: only the tool flow can change a live socket")
        for cc in self.names:
            if not cc.replace("_", "").isalnum() or len(cc) > 15:
                raise LabError(f"{where}: {cc!r} cannot be a congestion control's name")

    @property
    def names(self) -> list[str]:
        """Every congestion control the flow runs with, in order."""
        return [self.cc, *(cc for _, cc in self.changes)]


@dataclass(frozen=True)
class Host:
    """Settings of one end.  The route's are ip-route(8)'s, 0 leaves them alone."""

    initcwnd: int = 0
    quickack: int = 0
    ssthresh: int = 0
    sysctl: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    title: str
    hops: tuple[Hop, ...]
    flows: tuple[Flow, ...]
    seed: int = 1
    family: int = 4
    mtu: int = 1500
    max_seconds: int = 900              # a run that takes longer, in its own time, has failed
    capture: bool = True                # packets at the sender and behind the bottleneck
    trace: tuple[str, ...] = ("tcp:tcp_probe", "satcc:*")
    modules: dict = field(default_factory=dict)     # module -> its parameters, as for modprobe
    sender: Host = Host()
    receiver: Host = Host()
    commands: tuple[str, ...] = ()      # shell lines run in the background when flows start
    changes: tuple[LinkChange, ...] = ()    # of the links, while flows run
    offload: bool = False               # leave TSO, GSO and GRO on: packets of up to 64 KB
    before: tuple[str, ...] = ()        # shell lines run when all is set up, before any flow,
    after: tuple[str, ...] = ()         # and when the last flow has ended

    # -- what follows from it -------------------------------------------------

    @property
    def base_rtt_s(self) -> float:
        """Propagation delay there and back, no queue, no serialisation."""
        return sum(hop.forward.delay_ms + hop.reverse.delay_ms for hop in self.hops) / 1e3

    @property
    def header_bytes(self) -> int:
        return TCP_IPV4_BYTES if self.family == 4 else TCP_IPV6_BYTES

    @property
    def mss(self) -> int:
        """Payload of a full segment with timestamps, bytes."""
        return self.mtu - self.header_bytes

    @property
    def frame_bytes(self) -> int:
        """What a full segment costs at a bottleneck."""
        return self.mtu + ETHERNET_BYTES

    @property
    def bottleneck(self) -> tuple[int, Stage] | None:
        """The slowest forward stage: (its hop's number, it)."""
        rated = [(n, hop.forward) for n, hop in enumerate(self.hops) if hop.forward.rate_mbit]
        return min(rated, key=lambda pair: pair[1].rate_mbit) if rated else None

    @property
    def net_rate_bps(self) -> float:
        """Payload bits per second of the bottleneck when it is never idle."""
        if not self.bottleneck:
            raise LabError("this scenario has no bottleneck")
        return self.bottleneck[1].rate_mbit * 1e6 * self.mss / self.frame_bytes

    def ideal_s(self, size: int) -> float:
        """The time no sender can beat, first SYN to the ACK of the last byte: the payload at
        the net rate, one RTT for the handshake and one for the last byte and its ACK."""
        return size * 8 / self.net_rate_bps + 2 * self.base_rtt_s

    def bdp_packets(self, rate_mbit: float) -> int:
        return math.ceil(rate_mbit * 1e6 * self.base_rtt_s / 8 / self.frame_bytes)

    def queue_packets(self, stage: Stage) -> int:
        """A bottleneck's queue in packets: as given, or from the bandwidth-delay product."""
        if stage.queue_packets:
            return stage.queue_packets
        return max(1, math.ceil(stage.queue_bdp * self.bdp_packets(stage.rate_mbit)))

    def flight_packets(self) -> int:
        """More packets than can ever be on a delay stage at once.

        The fastest rate of the path times the longest delay, in minimal frames: a limit for
        netem that its delay line cannot reach.
        """
        fastest = max([s.rate_mbit for hop in self.hops for s in (hop.forward, hop.reverse)] or [0])
        longest = max(s.delay_ms for hop in (*self.hops, *self.changes)
                      for s in (hop.forward, hop.reverse) if s)
        if not fastest:
            return 1_000_000
        return max(1000, 2 * math.ceil(fastest * 1e6 * longest / 1e3 / 8 / 66))

    def socket_bytes(self) -> int:
        """Socket buffers that never bound a flow: kernel memory of four times BDP plus queue."""
        if not self.bottleneck:
            return 16 << 20
        stage = self.bottleneck[1]
        packets = self.bdp_packets(stage.rate_mbit) + self.queue_packets(stage)
        return max(4 << 20, 4 * packets * 2304)     # 2304: truesize of a full segment

    def check(self) -> "Scenario":
        if not self.hops or not self.flows:
            raise LabError("a scenario needs at least one [[hop]] and one [[flow]]")
        if len({hop.name for hop in self.hops}) != len(self.hops):
            raise LabError("two hops of one name")
        for hop in self.hops:
            if not hop.name.isalnum() or hop.name in ("sender", "receiver"):
                raise LabError(f"{hop.name!r} cannot be a hop's name")
            hop.forward.check(f"{hop.name}.forward")
            hop.reverse.check(f"{hop.name}.reverse")
        for number, flow in enumerate(self.flows):
            flow.check(f"flow {number}")
        stages = {(hop.name, side): getattr(hop, side)
                  for hop in self.hops for side in ("forward", "reverse")}
        for number, change in enumerate(self.changes):
            for side in ("forward", "reverse"):
                stage = getattr(change, side)
                where = f"change {number}.{side}"
                if stage and (change.hop, side) not in stages:
                    raise LabError(f"{where}: no hop {change.hop!r}")
                if stage and not (stage.is_line and stages[change.hop, side].is_line):
                    raise LabError(f"{where}: only delay, loss and the like can change")
                if stage:
                    stage.check(where)
        if self.family not in (4, 6):
            raise LabError("family is 4 or 6")
        return self

    def as_dict(self) -> dict:
        return dataclasses.asdict(self)

    def digest(self) -> str:
        """SHA-256 of the scenario's meaning: the title is not part of it."""
        meaning = {key: value for key, value in self.as_dict().items() if key != "title"}
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()


def _build(kind, data: dict, where: str):
    """A dataclass from a TOML table; a key it does not know is an error, not a default."""
    known = {f.name: f.type for f in dataclasses.fields(kind)}
    for key, value in data.items():
        if key not in known:
            raise LabError(f"{where}: unknown key {key!r} (known: {', '.join(sorted(known))})")
        wanted = known[key]
        if wanted in (int, float, str, bool):
            fits = isinstance(value, (int, float) if wanted is float else wanted)
            if not fits or isinstance(value, bool) != (wanted is bool):
                raise LabError(f"{where}: {key} = {value!r} is not of type {wanted.__name__}")
    try:
        return kind(**data)
    except TypeError as error:
        raise LabError(f"{where}: {error}") from None


def from_dict(data: dict, where: str = "scenario") -> Scenario:
    """A checked scenario from parsed TOML, whose lists are called `hop` and `flow`."""
    data = dict(data)
    hops = []
    for number, table in enumerate(data.pop("hop", [])):
        table = dict(table)
        for side in ("forward", "reverse"):
            if side in table:
                table[side] = _build(Stage, table[side], f"{where}: hop {number}.{side}")
        hops.append(_build(Hop, table, f"{where}: hop {number}"))
    flows = []
    for number, table in enumerate(data.pop("flow", [])):
        table = {**table, "changes": tuple(map(tuple, table.get("changes", ())))}
        flows.append(_build(Flow, table, f"{where}: flow {number}"))
    changes = []
    for number, table in enumerate(data.pop("change", [])):
        here = f"{where}: change {number}"
        table = {key: _build(Stage, value, f"{here}.{key}") if key in ("forward", "reverse") else value
                 for key, value in table.items()}
        changes.append(_build(LinkChange, table, here))
    for side in ("sender", "receiver"):
        if side in data:
            data[side] = _build(Host, data[side], f"{where}: {side}")
    for name in ("trace", "commands", "before", "after"):
        if name in data:
            data[name] = tuple(data[name])
    scenario = _build(Scenario, {**data, "hops": tuple(hops), "flows": tuple(flows),
                                 "changes": tuple(changes)}, where)
    return scenario.check()


def load(path: Path) -> Scenario:
    """Read a scenario file."""
    try:
        data = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise LabError(f"no scenario {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise LabError(f"{path}: {error}") from None
    return from_dict({"title": path.stem, **data}, str(path))
