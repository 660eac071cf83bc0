# SPDX-License-Identifier: GPL-2.0
"""A scenario: one experiment as data.

A scenario is a TOML file.  Sender and receiver are joined by a row of routers, the hops; each
hop does one thing to what leaves it toward the receiver (`forward`) and one to what leaves it
toward the sender (`reverse`): it is either a bottleneck (rate and queue), or a stretch of
link (loss, then pure delay), or a satellite's direction, which has both.  A qdisc's rate and delay
never share a hop, or the queue's limit would count the packets in flight.

    title = "GEO, 2 Mbit/s"
    seed = 1

    [[hop]]
    name = "gateway"
    forward = { rate_mbit = 2, queue_bdp = 1 }      # or queue_packets = 40
    reverse = { delay_ms = 300 }

    [[hop]]
    name = "satellite"
    forward = { delay_ms = 300, loss_pct = 1 }

    [[hop]]
    name = "terminal"                               # a satellite's, see satellite.py for the keys
    forward = { mac = { kind = "bod" }, errors = { ber = 1e-7 }, delay_ms = 260 }
    reverse = { delay_series = [[0, 20], [15, 35]] }    # from so many s on, never reordering

    [[hop]]
    name = "filter"                                 # of a flow's pure ACKs that wait, the newest goes
    reverse = { merge_ms = 20, merge_bytes = 65536 }    # on, after so long or once it tells of so many

    [[flow]]
    cc = "hybla_full"
    bytes = 1_000_000                               # or seconds = 60

    [[change]]                                      # a hand-over, a rain cell
    at_s = 20
    hop = "satellite"
    forward = { delay_ms = 320, loss_pct = 5 }

    [[host]]                                        # one more end, attached to a hop
    name = "wired"
    at = "gateway"
    delay_ms = 25                                   # which its round trips are longer by

The line is  sender - hops - receiver;  a flow goes from `source` to `to`, which are these two
unless it names others.
"""

import dataclasses
import hashlib
import json
import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from . import satellite, traffic
from .errors import LabError

ETHERNET_BYTES = 14         # what a qdisc counts on top of an IP packet
TCP_IPV4_BYTES = 52         # IPv4 20, TCP 20, timestamps 12
TCP_IPV6_BYTES = 72
FIRST_PORT = 5001           # of the first flow, at the receiver
SERVER_PORT = 4001          # of a passive sender
MOST_LINKS = 64             # of 4 addresses each, in 192.0.2.0/24


def _check_name(cc: str, where: str) -> None:
    if not cc.replace("_", "").isalnum() or len(cc) > 15:
        raise LabError(f"{where}: {cc!r} cannot be a congestion control's name")


@dataclass(frozen=True)
class Red:
    """Random early detection (Floyd & Jacobson 1993), whose average counts in full segments.

    The defaults are the paper's and ns-2's: weight 0.002, and a tenth of the packets at the upper
    threshold, above which every packet goes.
    """

    min_packets: int = 5
    max_packets: int = 15
    probability: float = 0.1
    weight: float = 1 / 512         # a power of two

    @property
    def log_weight(self) -> int:
        return round(-math.log2(self.weight))

    def burst_packets(self) -> int:
        """The `burst` that makes tc choose the weight: it takes the largest with which an average
        that starts at nothing stays below the lower threshold for so many packets more."""
        for burst in range(self.min_packets + 1, 100_000):
            above = burst + 1 - self.min_packets
            fits = (log for log in range(1, 32) if above <= (1 - (1 - 2.0 ** -log) ** burst) * 2 ** log)
            if next(fits, 0) == self.log_weight:
                return burst
        raise LabError(f"red: no burst gives a weight of {self.weight:g}")

    def check(self, where: str) -> None:
        if not 0 < self.min_packets < self.max_packets:
            raise LabError(f"{where}: 0 < min_packets < max_packets")
        if not 0 < self.probability <= 1:
            raise LabError(f"{where}: probability is above 0 and at most 1")
        if not 0 < self.weight <= 0.5 or 2.0 ** -self.log_weight != self.weight:
            raise LabError(f"{where}: weight is a power of two, at most 1/2")
        self.burst_packets()


AQMS = ("red", "codel", "fq_codel", "pie")


@dataclass(frozen=True)
class Stage:
    """What a hop does to one direction.  Delay in ms, loss in percent, rate in Mbit/s."""

    rate_mbit: float = 0            # 0: no bottleneck here
    queue_bdp: float = 0            # the queue, as a part of rate x base RTT, or
    queue_packets: int = 0          # in packets, or
    queue_bytes: int = 0            # in bytes of frames
    aqm: str = ""                   # drop-tail, or one of AQMS with the queue as its limit
    red: Red | None = None
    delay_ms: float = 0
    loss_pct: float = 0
    ecn: bool = False               # mark what would be lost or dropped early, where the packet allows
    reorder_pct: float = 0          # so many packets skip the delay and overtake
    duplicate_pct: float = 0
    # With one of these the guest's satlink plays the stage, its delay_ms too (see satellite.py).
    mac: satellite.Mac | None = None
    errors: satellite.Errors | None = None
    delay_series: tuple = ()        # [[s, ms], ...]: from so many s after the flows' start on
    # Of a flow's pure ACKs only the newest goes on, so long after the first it stands for came, or
    # once it acknowledges so many bytes more than the last one (0: no such limit); guest/satlink.c
    # has the rule to the letter.
    merge_ms: float = 0
    merge_bytes: int = 0

    @property
    def is_satellite(self) -> bool:
        return bool(self.mac or self.errors or self.delay_series or self.merge_ms or self.merge_bytes)

    @property
    def queue_kind(self) -> str:
        """The qdisc that the bottleneck's queue is."""
        return self.aqm or ("bfifo" if self.queue_bytes else "pfifo")

    @property
    def is_line(self) -> bool:
        """A stretch of link that netem plays, as against a bottleneck or nothing."""
        return not self.is_satellite and bool(self.delay_ms or self.loss_pct or self.duplicate_pct)

    @property
    def speed_mbit(self) -> float:
        """The most it carries; 0: anything."""
        return self.mac.ip_kbit(self.mac.cap_slots) / 1e3 if self.mac else self.rate_mbit

    @property
    def base_delay_ms(self) -> float:
        return min(ms for _, ms in self.delay_series) if self.delay_series else self.delay_ms

    def check(self, where: str) -> None:
        if self.is_satellite:
            satellite.check(self, where)
        if self.rate_mbit and self.is_line:
            raise LabError(f"{where}: a rate and a delay or loss in one stage; put them on two hops")
        queues = [bool(queue) for queue in (self.queue_bdp, self.queue_packets, self.queue_bytes)]
        if self.rate_mbit and sum(queues) != 1:
            raise LabError(f"{where}: a rate needs one of queue_bdp, queue_packets and queue_bytes")
        if not self.rate_mbit and (any(queues) or self.aqm):
            raise LabError(f"{where}: a queue without a rate")
        if self.aqm not in ("", *AQMS):
            raise LabError(f"{where}: aqm {self.aqm!r} is none of {', '.join(AQMS)}")
        if self.queue_bytes and self.aqm not in ("", "red"):
            raise LabError(f"{where}: {self.aqm} counts packets, not bytes")
        if bool(self.red) != (self.aqm == "red"):
            raise LabError(f'{where}: aqm = "red" goes with red, which says when it drops')
        if self.red:
            self.red.check(f"{where}.red")
        for name in ("rate_mbit", "queue_bdp", "queue_packets", "queue_bytes", "delay_ms", "loss_pct",
                     "reorder_pct", "duplicate_pct"):
            most = 100 if name.endswith("_pct") else 1e9 if name == "queue_bytes" else 1e6
            if not 0 <= getattr(self, name) <= most:
                raise LabError(f"{where}: {name} is out of range")
        if self.reorder_pct and not self.delay_ms:
            raise LabError(f"{where}: reorder_pct without a delay to skip")
        if self.ecn and not (self.loss_pct or self.aqm):
            raise LabError(f"{where}: ecn marks what loss_pct or an aqm would take")


@dataclass(frozen=True)
class Hop:
    """A router.  With pep it is a proxy that splits the TCP connections to what is further right, out
    of the end hosts' sight; those it makes itself have pep's congestion control by their route."""

    name: str
    forward: Stage = Stage()
    reverse: Stage = Stage()
    pep: str = ""
    sysctl: dict = field(default_factory=dict)


@dataclass(frozen=True)
class LinkChange:
    """From at_s after the flows' start on, a hop's stages are these; None leaves one alone."""

    at_s: float
    hop: str
    forward: Stage | None = None
    reverse: Stage | None = None


# What sends: the lab's lean sender; iperf3; iperf3's UDP at a constant rate; short transfers, each
# on a connection of its own; replies that a client asks for one after the other; a web page.
TOOLS = ("flow", "iperf3", "udp", "background", "requests", "page")


@dataclass(frozen=True)
class Flow:
    """Traffic from `source` to `to`, start_s after the first flow: for TCP transfers, `bytes` or
    `seconds`.

    changes: [[ms, "cc"], ...], changes of congestion control on the live socket.
    """

    cc: str
    bytes: int = 0
    seconds: int = 0
    start_s: float = 0
    tool: str = "flow"              # one of TOOLS
    source: str = "sender"
    to: str = "receiver"
    rate_mbit: float = 0            # of udp, payload; of background, the mean
    law: str = ""                   # of background and requests, a size law, see traffic.py
    count: int = 0                  # of requests
    objects: tuple = ()             # of page: bytes of each, fetched in this order
    changes: tuple = ()
    pause_ms: int = 0               # bytes go out in two halves, so long apart
    write_bytes: int = 0            # the application writes so much
    write_ms: int = 0               # at such intervals; 0: all it can
    passive: bool = False           # the receiver connects, the sender answers as a server
    fastopen: bool = False          # TCP Fast Open, without a cookie
    mptcp: bool = False             # over Multipath TCP; cc is that of every subflow
    reconnect: bool = False         # bytes twice, the socket disconnected and connected in between
    listener: str = ""              # of a passive sender: its listening socket has this one, not cc

    def check(self, where: str) -> None:
        if self.tool not in TOOLS:
            raise LabError(f"{where}: tool {self.tool!r} is none of {', '.join(TOOLS)}")
        if self.tool in ("flow", "iperf3") and bool(self.bytes) == bool(self.seconds):
            raise LabError(f"{where}: either bytes or seconds")
        needs = {"udp": ("seconds", "rate_mbit"), "background": ("seconds", "rate_mbit", "law"),
                 "requests": ("law", "count"), "page": ("objects",)}.get(self.tool, ())
        for name in ("bytes", "seconds", "rate_mbit", "law", "count", "objects"):
            given, known = bool(getattr(self, name)), name in needs
            if given != known and (needs or name not in ("bytes", "seconds")):
                raise LabError(f"{where}: tool {self.tool} {'needs' if known else 'has no'} {name}")
        if self.law and self.law not in traffic.LAWS:
            raise LabError(f"{where}: law {self.law!r} is none of {', '.join(traffic.LAWS)}")
        if self.objects and not all(isinstance(size, int) and size > 0 for size in self.objects):
            raise LabError(f"{where}: objects are sizes in bytes")
        if self.pause_ms and (self.seconds or self.tool != "flow"):
            raise LabError(f"{where}: pause_ms is for bytes and the tool flow")
        own = ("write_ms", "passive", "fastopen", "mptcp", "reconnect", "listener")
        if any(getattr(self, name) for name in own) and self.tool != "flow":
            raise LabError(f"{where}: {', '.join(own)} are for the tool flow")
        if self.passive and (self.mptcp or self.reconnect) or self.listener and not self.passive:
            raise LabError(f"{where}: mptcp and reconnect are for who connects, listener for passive")
        if self.reconnect and not self.bytes:
            raise LabError(f"{where}: reconnect goes with bytes")
        if bool(self.write_ms) != bool(self.write_bytes) or self.write_bytes > 256 << 10:
            raise LabError(f"{where}: write_bytes (at most 262144) goes with write_ms")
        if self.changes and self.tool != "flow":
            raise LabError(f"{where}: only the tool flow can change a live socket")
        for cc in (*self.names, *([self.listener] if self.listener else [])):
            _check_name(cc, where)

    @property
    def names(self) -> list[str]:
        """Every congestion control the flow runs with, in order."""
        return [self.cc, *(cc for _, cc in self.changes)]


@dataclass(frozen=True)
class Host:
    """Settings of one end.  The route's are ip-route(8)'s, 0 leaves them alone."""

    initcwnd: int = 0
    initrwnd: int = 0
    quickack: int = 0
    ssthresh: int = 0
    window: int = 0                 # bytes: the most it advertises
    rto_min_ms: int = 0
    sysctl: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Leaf:
    """An end host beside the line, attached to a hop.  Its delay is on the hop's side, on what goes
    to it: a host with a delay of its own would take the link's packets for unsent."""

    name: str
    at: str
    delay_ms: float = 0
    settings: Host = Host()


def _slowest(stages: list[tuple[int, Stage]]) -> tuple[int, Stage] | None:
    """Of (hop's number, stage) the one with the least rate, the first of equals."""
    rated = [(number, stage) for number, stage in stages if stage.speed_mbit]
    return min(rated, key=lambda pair: pair[1].speed_mbit) if rated else None


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
    captures: tuple[str, ...] = ("sender", "bottleneck")    # where capture is; also: receiver
    trace: tuple[str, ...] = ("tcp:tcp_probe", "satcc:cc_call")
    traced: tuple[int, ...] = ()        # only these flows; none: all
    modules: dict = field(default_factory=dict)     # module -> its parameters, as for modprobe
    sender: Host = Host()
    receiver: Host = Host()
    leaves: tuple[Leaf, ...] = ()
    commands: tuple[str, ...] = ()      # shell lines run in the background when flows start
    changes: tuple[LinkChange, ...] = ()    # of the links, while flows run
    offload: bool = False               # leave TSO, GSO and GRO on: packets of up to 64 KB
    # So long after the flows' start, what each sending socket and each queue has counted by then is
    # written down (job.sample_name()): a rate without a capture, and without the start.
    samples_s: tuple[float, ...] = ()
    before: tuple[str, ...] = ()        # shell lines run when all is set up, before any flow,
    after: tuple[str, ...] = ()         # and when the last flow has ended

    # -- what follows from it -------------------------------------------------

    @property
    def base_rtt_s(self) -> float:
        """Propagation delay of the whole line there and back, s; see rtt_s()."""
        return (self._delay_ms("sender", "receiver") + self._delay_ms("receiver", "sender")) / 1e3

    def _node(self, end: str) -> int:
        """Where an end is on the row sender, hops, receiver; a host beside the line is at its hop."""
        order = ["sender", *(hop.name for hop in self.hops), "receiver"]
        at = {leaf.name: leaf.at for leaf in self.leaves}
        return order.index(at.get(end, end))

    def stages(self, source: str, to: str) -> list[tuple[int, Stage]]:
        """(number of the hop, its stage) of each that a packet from one end to another passes.

        A hop's forward stage is on what leaves it toward the receiver, its reverse stage on what leaves
        it toward the sender: from or to a host beside the line a packet passes the stage of the hop
        where it begins, and not that of the hop where it ends.
        """
        first, last = self._node(source), self._node(to)
        if first <= last:
            return [(node - 1, self.hops[node - 1].forward) for node in range(max(first, 1), last)]
        return [(node - 1, self.hops[node - 1].reverse)
                for node in range(min(first, len(self.hops)), last, -1)]

    def way(self, flow: Flow) -> range:
        """Numbers of the hops whose forward stage a flow's data passes."""
        first, last = self._node(flow.source), self._node(flow.to)
        return range(max(first, 1) - 1, max(last, 1) - 1)

    def answers(self, flow: Flow) -> str:
        """Who has the other end of a flow's connection at its source: whom it goes to, or the first
        proxy on its way, if it goes between the ends of the line and its source connects."""
        proxies = [hop.name for hop in self.hops if hop.pep]
        if not proxies or flow.passive or {flow.source, flow.to} != {"sender", "receiver"}:
            return flow.to
        return proxies[0 if flow.source == "sender" else -1]

    def _delay_ms(self, source: str, to: str) -> float:
        """Propagation delay one way: of the stages, and of the host it ends at, whose delay is on what
        goes to it."""
        return sum(stage.base_delay_ms for _, stage in self.stages(source, to)) \
            + sum(leaf.delay_ms for leaf in self.leaves if leaf.name == to)

    def rtt_s(self, flow: Flow) -> float:
        """A flow's RTT wherever the bench speaks of one: the propagation delay of the stages that its
        data passes and of those that its ACKs pass, s.

        Without queues, serialisation, time slots and what a [[change]] makes of it; the least of a
        delay_series.  Of a flow through a proxy it is that of both connections together.
        """
        return (self._delay_ms(flow.source, flow.to) + self._delay_ms(flow.to, flow.source)) / 1e3

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
        return _slowest(list(enumerate(hop.forward for hop in self.hops)))

    def bottleneck_of(self, flow: Flow) -> tuple[int, Stage] | None:
        """The slowest stage that a flow's data passes: (its hop's number, it)."""
        return _slowest(self.stages(flow.source, flow.to))

    def packet_bytes(self, stage: Stage) -> int:
        """What a full segment costs at a stage: time slots carry IP, a qdisc counts the Ethernet
        header too."""
        return self.mtu if stage.mac else self.frame_bytes

    @property
    def net_rate_bps(self) -> float:
        """Payload bits per second of the bottleneck when it is never idle."""
        if not self.bottleneck:
            raise LabError("this scenario has no bottleneck")
        stage = self.bottleneck[1]
        return stage.speed_mbit * 1e6 * self.mss / self.packet_bytes(stage)

    def ideal_s(self, size: int) -> float:
        """The time no sender can beat, first SYN to the ACK of the last byte: the payload at
        the net rate, one RTT for the handshake and one for the last byte and its ACK."""
        return size * 8 / self.net_rate_bps + 2 * self.base_rtt_s

    def bdp_packets(self, stage: Stage, rtt_s: float | None = None) -> int:
        """The bandwidth-delay product wherever the bench speaks of one: full segments, each with the
        headers that the rate counts, that a stage sends in an RTT (the line's, if of no other), the last
        begun one included."""
        rtt_s = self.base_rtt_s if rtt_s is None else rtt_s
        return math.ceil(stage.speed_mbit * 1e6 * rtt_s / 8 / self.packet_bytes(stage))

    def flow_bdp_packets(self, flow: Flow) -> int | None:
        """The same of a flow: its own bottleneck and RTT.  None: nothing on its way has a rate."""
        found = self.bottleneck_of(flow)
        return self.bdp_packets(found[1], self.rtt_s(flow)) if found else None

    def queue_packets(self, stage: Stage) -> int:
        """A bottleneck's queue in packets: as given, in full segments, or from the bandwidth-delay
        product."""
        if stage.mac:
            return stage.mac.queue_packets or math.ceil(stage.mac.queue_bytes / self.mtu)
        if stage.queue_packets:
            return stage.queue_packets
        if stage.queue_bytes:
            return max(1, stage.queue_bytes // self.frame_bytes)
        return max(1, math.ceil(stage.queue_bdp * self.bdp_packets(stage)))

    def flight_packets(self) -> int:
        """More packets than can ever be on a delay stage at once.

        The fastest rate of the path times the longest delay, in minimal frames: a limit for
        netem that its delay line cannot reach.
        """
        fastest = max([s.rate_mbit for hop in self.hops for s in (hop.forward, hop.reverse)] or [0])
        stages = [s for hop in (*self.hops, *self.changes) for s in (hop.forward, hop.reverse) if s]
        longest = max(part.delay_ms for part in (*stages, *self.leaves))
        if not fastest:
            return 1_000_000
        return max(1000, 2 * math.ceil(fastest * 1e6 * longest / 1e3 / 8 / 66))

    def socket_bytes(self) -> int:
        """Socket buffers that never bound a flow: kernel memory of four times BDP plus queue."""
        if not self.bottleneck:
            return 16 << 20
        stage = self.bottleneck[1]
        # In frames, time slots too.
        packets = self.bdp_packets(Stage(rate_mbit=stage.speed_mbit)) + self.queue_packets(stage)
        return max(4 << 20, 4 * packets * 2304)     # 2304: truesize of a full segment

    @property
    def extras(self) -> tuple[str, ...]:
        """What a Lab needs to play it, beside the base image."""
        stages = [stage for hop in self.hops for stage in (hop.forward, hop.reverse)]
        needs = (satellite.links(self), any(hop.pep for hop in self.hops),
                 any(stage.aqm in ("codel", "pie") for stage in stages),
                 any(flow.tool in ("background", "page") for flow in self.flows),
                 any("delayed_acks" in line for line in (*self.before, *self.commands)))
        return ("papers",) if any(needs) else ()

    def check(self) -> "Scenario":
        if not self.hops or not self.flows:
            raise LabError("a scenario needs at least one [[hop]] and one [[flow]]")
        if len({hop.name for hop in self.hops}) != len(self.hops):
            raise LabError("two hops of one name")
        for hop in self.hops:
            if not hop.name.isalnum() or hop.name in ("sender", "receiver"):
                raise LabError(f"{hop.name!r} cannot be a hop's name")
            if hop.pep and self.family != 4:
                raise LabError(f"hop {hop.name}: pep is for IPv4")
            if hop.pep:
                _check_name(hop.pep, f"hop {hop.name}.pep")
            hop.forward.check(f"{hop.name}.forward")
            hop.reverse.check(f"{hop.name}.reverse")
        self._check_ends()
        stages = {(hop.name, side): getattr(hop, side)
                  for hop in self.hops for side in ("forward", "reverse")}
        for number, change in enumerate(self.changes):
            for side in ("forward", "reverse"):
                stage = getattr(change, side)
                where = f"change {number}.{side}"
                if stage and (change.hop, side) not in stages:
                    raise LabError(f"{where}: no hop {change.hop!r}")
                if stage and not (stage.is_line and stages[change.hop, side].is_line
                                  or stage.rate_mbit and stages[change.hop, side].rate_mbit):
                    raise LabError(f"{where}: delay and loss can change, or a rate; neither the other")
                if stage:
                    stage.check(where)
        if self.family not in (4, 6):
            raise LabError("family is 4 or 6")
        return self

    def _check_ends(self) -> None:
        taken = {"sender", "receiver", *(hop.name for hop in self.hops)}
        for leaf in self.leaves:
            # Also the name of the hop's device toward it.
            if not leaf.name.isalnum() or len(leaf.name) > 15 or leaf.name in taken | {"left", "right"}:
                raise LabError(f"{leaf.name!r} cannot be a host's name")
            if leaf.at not in [hop.name for hop in self.hops]:
                raise LabError(f"host {leaf.name}: no hop {leaf.at!r}")
            if not 0 <= leaf.delay_ms <= 1e6:
                raise LabError(f"host {leaf.name}: delay_ms is out of range")
            taken.add(leaf.name)
        ends = ["sender", "receiver", *(leaf.name for leaf in self.leaves)]
        for number, flow in enumerate(self.flows):
            flow.check(f"flow {number}")
            if flow.source not in ends or flow.to not in ends or flow.source == flow.to:
                raise LabError(f"flow {number}: not between two of {', '.join(ends)}")
        if not set(self.traced) <= set(range(len(self.flows))):
            raise LabError("traced: numbers of flows")
        for name in self.captures:
            if name not in ("sender", "bottleneck", "receiver"):
                raise LabError(f"captures: {name!r} is none of sender, bottleneck, receiver")
        if len(self.hops) + 1 + len(self.leaves) > MOST_LINKS:
            raise LabError(f"more than {MOST_LINKS} links")

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


def _stage(table: dict, where: str) -> Stage:
    """A stage from a TOML table, with the tables in it."""
    table = dict(table)
    for name, kind in (("mac", satellite.Mac), ("errors", satellite.Errors)):
        if name in table:
            table[name] = _build(kind, table[name], f"{where}.{name}")
    if "red" in table:
        table["red"] = _build(Red, table["red"], f"{where}.red")
    if "delay_series" in table:
        table["delay_series"] = tuple(map(tuple, table["delay_series"]))
    return _build(Stage, table, where)


def from_dict(data: dict, where: str = "scenario") -> Scenario:
    """A checked scenario from parsed TOML, whose lists are called `hop`, `host`, `flow`, `change`."""
    data = dict(data)
    hops = []
    for number, table in enumerate(data.pop("hop", [])):
        table = dict(table)
        for side in ("forward", "reverse"):
            if side in table:
                table[side] = _stage(table[side], f"{where}: hop {number}.{side}")
        hops.append(_build(Hop, table, f"{where}: hop {number}"))
    flows = []
    for number, table in enumerate(data.pop("flow", [])):
        table = {**table, "changes": tuple(map(tuple, table.get("changes", ())))}
        if "objects" in table:
            table["objects"] = tuple(table["objects"])
        flows.append(_build(Flow, table, f"{where}: flow {number}"))
    changes = []
    for number, table in enumerate(data.pop("change", [])):
        here = f"{where}: change {number}"
        table = {key: _stage(value, f"{here}.{key}") if key in ("forward", "reverse") else value
                 for key, value in table.items()}
        changes.append(_build(LinkChange, table, here))
    leaves = []
    for number, table in enumerate(data.pop("host", [])):
        here = f"{where}: host {number}"
        table = {key: _build(Host, value, f"{here}.settings") if key == "settings" else value
                 for key, value in table.items()}
        leaves.append(_build(Leaf, table, here))
    for side in ("sender", "receiver"):
        if side in data:
            data[side] = _build(Host, data[side], f"{where}: {side}")
    for name in ("trace", "traced", "captures", "commands", "samples_s", "before", "after"):
        if name in data:
            data[name] = tuple(data[name])
    scenario = _build(Scenario, {**data, "hops": tuple(hops), "flows": tuple(flows),
                                 "changes": tuple(changes), "leaves": tuple(leaves)}, where)
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
