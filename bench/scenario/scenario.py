# SPDX-License-Identifier: GPL-2.0
"""A scenario: one experiment as data.

A scenario is a TOML file.  A row of routers, the hops, joins sender and receiver.  Each hop has a
stage for the packets that leave it toward the receiver (`forward`) and one for those that leave it
toward the sender (`reverse`).  A stage is a bottleneck (rate and queue), or a stretch of link (loss,
then pure delay), or a satellite's direction, which has both.  A qdisc's rate and delay
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
    name = "terminal"                               # a satellite link; satellite.py has the keys
    forward = { mac = { kind = "bod" }, errors = { ber = 1e-7 }, delay_ms = 260 }
    reverse = { delay_series = [[0, 20], [15, 35]] }    # [s, ms]: the delay from this time on

    [[hop]]
    name = "filter"                                 # merges a flow's pure ACKs: the newest leaves after
    reverse = { merge_ms = 20, merge_bytes = 65536 }    # this time, or once it covers this many bytes

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
    delay_ms = 25                                   # added to the round trips of this host

The row is  sender - hops - receiver.  A flow goes from `source` to `to`, by default from sender to
receiver.
"""

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass, field
from pathlib import Path

import pydantic

from ..errors import LabError
from . import satellite, schema, traffic
from .schema import Command, CongestionControl, Flag, Line, Name, key, one_of, real, text, whole

ETHERNET_BYTES = 14         # a qdisc counts these beside an IP packet
TCP_IPV4_BYTES = 52         # IPv4 20, TCP 20, timestamps 12
TCP_IPV6_BYTES = 72
FIRST_PORT = 5001           # of the first flow, at the receiver
SERVER_PORT = 4001          # of a passive sender
MOST_LINKS = 64             # of 4 addresses each, in 192.0.2.0/24
IPV6_LEAST_MTU = 1280       # RFC 8200
SLOWEST_MBIT = 0.001        # tc counts whole bytes a second


MS = real(0, 1e6)
SECONDS = real(0, 1e6)
PERCENT = real(0, 100)
MBIT = real(0, 1e6)
ENDS = ("sender", "receiver")
# Names of the ends' namespaces, and of devices on hops and hosts.
TAKEN = {*ENDS, "left", "right", "lo"}

SETTING = schema.allowed(
    "a whole number, or words of letters, digits and _.,:/+-",
    lambda value: type(value) is int or isinstance(value, str) and schema.is_words(value))
SIZE_LAW = one_of("", *traffic.LAWS)
CAPTURE = one_of("sender", "bottleneck", "receiver")
EVENT = text("an event, group:name", r"[a-z0-9_]+:[a-z0-9_*]+")
FAMILY = schema.allowed("4 or 6", lambda value: type(value) is int and value in (4, 6), low=4, high=6)
SYSCTLS = schema.mapping(text("a sysctl's name", "[a-z0-9_-]+([./][a-z0-9_-]+)+"), SETTING)
MODULES = schema.mapping(text("a module's name", "[A-Za-z0-9_]+"), schema.mapping(
    text("a parameter's name", "[A-Za-z0-9_]+"), SETTING))


@dataclass(frozen=True)
class Red(schema.Table):
    """Random early detection (Floyd & Jacobson 1993), with an average in full segments.

    The defaults are the paper's and ns-2's: weight 0.002, and a drop probability of 0.1 at the upper
    threshold.  Above it RED drops every packet.
    """

    min_packets: whole(1, 10**6) = 5
    max_packets: whole(1, 10**6) = 15
    probability: real(1e-6, 1) = 0.1
    weight: real(2.0 ** -31, 0.5) = 1 / 512       # a power of two

    @property
    def log_weight(self) -> int:
        return round(-math.log2(self.weight))

    def burst_packets(self) -> int:
        """The `burst` from which tc computes this weight.  Raises ValueError if there is none.

        tc takes the largest weight with which an average that starts at 0 stays below the lower
        threshold for `burst` packets.
        """
        for burst in range(self.min_packets + 1, 100_000):
            above = burst + 1 - self.min_packets
            fits = (log for log in range(1, 32) if above <= (1 - (1 - 2.0 ** -log) ** burst) * 2 ** log)
            if next(fits, 0) == self.log_weight:
                return burst
        raise ValueError(f"no burst gives a weight of {self.weight:g}")

    def rules(self) -> None:
        if not self.min_packets < self.max_packets:
            raise ValueError("min_packets must be below max_packets")
        if 2.0 ** -self.log_weight != self.weight:
            raise ValueError("weight must be a power of two")
        self.burst_packets()


AQMS = ("red", "codel", "fq_codel", "pie")
AQM = one_of("", *AQMS)
RANDOM_AQMS = ("red", "pie", "fq_codel")    # fq_codel's hash of a flow has a random key


@dataclass(frozen=True)
class Stage(schema.Table):
    """One direction of a hop.  Delay in ms, loss in percent, rate in Mbit/s."""

    rate_mbit: MBIT = 0             # 0: the stage is no bottleneck
    queue_bdp: real(0, 1e6) = 0     # the queue as a part of rate x base RTT, or
    queue_packets: whole(0, 10**6) = 0      # in packets, or
    queue_bytes: whole(0, 10**9) = 0        # in bytes of frames
    aqm: AQM = ""                   # "": drop-tail; else one of AQMS, with the queue as its limit
    red: Red | None = None
    delay_ms: MS = 0                # the smallest delay
    # Each packet's delay is longer by a random time, uniform from 0 to this; packets may overtake.
    jitter_ms: MS = 0
    loss_pct: PERCENT = 0
    ecn: Flag = False               # mark ECN-capable packets instead of losing or dropping them early
    reorder_pct: PERCENT = 0        # percentage of packets that skip the delay and overtake
    duplicate_pct: PERCENT = 0
    # With one of the next keys the guest's satlink plays the stage, with its delay_ms (lab/satlink.py).
    mac: satellite.Mac | None = None
    errors: satellite.Errors | None = None
    # [[s, ms], ...]: from s after the flows' start on the delay is ms
    delay_series: pydantic.conlist(tuple[SECONDS, MS], min_items=1) = ()
    # Merge a flow's pure ACKs: only the newest leaves, merge_ms after the arrival of the first one, or
    # once it acknowledges merge_bytes more than the last ACK that left (0: no such limit).
    # guest/satlink.c has the exact rule.
    merge_ms: MS = 0
    merge_bytes: whole(0, 2**31 - 1) = 0

    @property
    def is_satellite(self) -> bool:
        return bool(self.mac or self.errors or self.delay_series or self.merge_ms or self.merge_bytes)

    @property
    def queue_kind(self) -> str:
        """The qdisc of the bottleneck's queue."""
        return self.aqm or ("bfifo" if self.queue_bytes else "pfifo")

    @property
    def has_chance(self) -> bool:
        """Whether random numbers decide what happens to a packet here."""
        return bool(self.jitter_ms or 0 < self.loss_pct < 100 or self.reorder_pct or self.duplicate_pct
                    or self.errors or self.aqm in RANDOM_AQMS or self.mac and self.mac.phase_ms < 0)

    @property
    def is_line(self) -> bool:
        """Whether netem plays the stage: it has delay or loss, and is no bottleneck."""
        return not self.is_satellite and bool(self.delay_ms or self.jitter_ms or self.loss_pct
                                              or self.duplicate_pct)

    @property
    def speed_mbit(self) -> float:
        """The largest rate of the stage; 0: no limit."""
        return self.mac.ip_kbit(self.mac.cap_slots) / 1e3 if self.mac else self.rate_mbit

    @property
    def base_delay_ms(self) -> float:
        return min(ms for _, ms in self.delay_series) if self.delay_series else self.delay_ms

    def rules(self) -> None:
        if self.is_satellite:
            satellite.rules(self)
        if self.rate_mbit and self.is_line:
            raise ValueError("a stage cannot have both a rate and a delay or loss; put them on two hops")
        if 0 < self.rate_mbit < SLOWEST_MBIT:
            raise ValueError(f"rate_mbit must be 0 or at least {SLOWEST_MBIT:g}")
        queues = [bool(queue) for queue in (self.queue_bdp, self.queue_packets, self.queue_bytes)]
        if self.rate_mbit and sum(queues) != 1:
            raise ValueError("a rate needs one of queue_bdp, queue_packets and queue_bytes")
        if not self.rate_mbit and (any(queues) or self.aqm):
            raise ValueError("a queue needs a rate")
        if self.queue_bytes and self.aqm not in ("", "red"):
            raise ValueError(f"{self.aqm} counts packets, not bytes")
        if bool(self.red) != (self.aqm == "red"):
            raise ValueError('aqm = "red" and the table red need each other')
        if self.reorder_pct and not self.delay_ms:
            raise ValueError("reorder_pct needs a delay")
        if self.ecn and not (self.loss_pct or self.aqm):
            raise ValueError("ecn needs loss_pct or an aqm")


@dataclass(frozen=True)
class Hop(schema.Table):
    """A router.  With pep it is a transparent proxy, which splits the TCP connections between the ends.

    pep: the congestion control of the proxy's own connections toward the receiver, set by their route.
    """

    name: Name
    forward: Stage = Stage()
    reverse: Stage = Stage()
    pep: CongestionControl = ""
    sysctl: SYSCTLS = field(default_factory=dict)

    def rules(self) -> None:
        if self.name in TAKEN:
            raise ValueError(f"name: {self.name!r} is taken; so are {', '.join(sorted(TAKEN))}")


@dataclass(frozen=True)
class LinkChange(schema.Table):
    """A change of a hop's stages, at_s after the flows' start.  None does not change a stage."""

    at_s: SECONDS
    hop: Name
    forward: Stage | None = None
    reverse: Stage | None = None

    def rules(self) -> None:
        if not (self.forward or self.reverse):
            raise ValueError("a change needs forward, reverse or both")


# The sending program: the lab's sender (guest/flow.c); iperf3; iperf3's UDP at a constant rate; short
# transfers, each on its own connection; replies that a client requests one after the other; a web page.
TOOL = one_of("flow", "iperf3", "udp", "background", "requests", "page")


@dataclass(frozen=True)
class Flow(schema.Table):
    """Traffic from `source` to `to`, which begins start_s after the first flow.

    A TCP transfer has `bytes` or `seconds`.
    changes: [[ms, "cc"], ...], changes of congestion control on the live socket.
    """

    cc: CongestionControl
    bytes: whole(0, 10**12) = 0
    seconds: whole(0, 10**6) = 0
    start_s: SECONDS = 0
    tool: TOOL = "flow"
    source: Name = "sender"
    to: Name = "receiver"
    # udp: the payload's rate; background: the mean rate; iperf3: SO_MAX_PACING_RATE, if not 0
    rate_mbit: MBIT = 0
    law: SIZE_LAW = ""              # background, requests: the law of the sizes, see traffic.py
    count: whole(0, 10**5) = 0      # requests: their number
    objects: tuple[whole(1, 10**9), ...] = ()       # page: bytes of each object, in order
    changes: tuple[tuple[MS, CongestionControl], ...] = ()
    pause_ms: whole(0, 10**6) = 0   # the pause between the two halves of bytes
    write_bytes: whole(0, 256 << 10) = 0    # bytes of each write of the application
    write_ms: whole(0, 10**6) = 0   # interval of these writes; 0: the application writes all it can
    passive: Flag = False           # the receiver connects, the sender answers as a server
    fastopen: Flag = False          # TCP Fast Open, without a cookie
    mptcp: Flag = False             # over Multipath TCP; every subflow has cc
    reconnect: Flag = False         # send `bytes`, connect the same socket again, send `bytes` again
    routed: Flag = False            # only the flow's route sets cc, and no program
    listener: CongestionControl = ""    # the congestion control of a passive sender's listening socket

    def rules(self) -> None:
        if not all(self.names):
            raise ValueError("cc and changes: a congestion control must have a name")
        if self.tool in ("flow", "iperf3") and bool(self.bytes) == bool(self.seconds):
            raise ValueError("exactly one of bytes and seconds")
        needs = {"udp": ("seconds", "rate_mbit"), "background": ("seconds", "rate_mbit", "law"),
                 "requests": ("law", "count"), "page": ("objects",)}.get(self.tool, ())
        may = {"flow": ("bytes", "seconds"),
               "iperf3": ("bytes", "seconds", "rate_mbit")}.get(self.tool, ())
        for name in ("bytes", "seconds", "rate_mbit", "law", "count", "objects"):
            given, known = bool(getattr(self, name)), name in needs
            if given != known and name not in may:
                raise ValueError(f"tool {self.tool} {'needs' if known else 'has no'} {name}")
        if self.pause_ms and (self.seconds or self.tool != "flow"):
            raise ValueError("pause_ms is for bytes and the tool flow")
        own = ("write_ms", "passive", "fastopen", "mptcp", "reconnect", "listener", "changes")
        if any(getattr(self, name) for name in own) and self.tool != "flow":
            raise ValueError(f"{', '.join(own)} are for the tool flow")
        if self.passive and (self.mptcp or self.reconnect) or self.listener and not self.passive:
            raise ValueError("mptcp and reconnect are for connecting flows, listener for passive ones")
        if self.routed and (self.tool not in ("flow", "page") or self.changes or self.listener):
            raise ValueError("routed is for flow and page, without changes and listener")
        if self.reconnect and not self.bytes:
            raise ValueError("reconnect needs bytes")
        if bool(self.write_ms) != bool(self.write_bytes):
            raise ValueError("write_bytes and write_ms need each other")

    @property
    def names(self) -> list[str]:
        """Every congestion control of the flow, in order."""
        return [self.cc, *(cc for _, cc in self.changes)]


@dataclass(frozen=True)
class Host(schema.Table):
    """Settings of one end.  The route's settings have ip-route(8)'s names; 0 does not set one."""

    initcwnd: whole(0, 10**6) = 0
    initrwnd: whole(0, 10**6) = 0
    quickack: whole(0, 1) = 0
    ssthresh: whole(0, 2**31 - 1) = 0
    window: whole(0, 2**30) = 0     # largest advertised window, bytes
    rto_min_ms: whole(0, 120_000) = 0
    sysctl: SYSCTLS = field(default_factory=dict)


@dataclass(frozen=True)
class Leaf(schema.Table):
    """An end host beside the line, at a hop.

    Its delay is on the hop's device toward it.  With a delay on the host itself, its TCP would count the
    packets on the link as not yet sent (TSQ).
    """

    name: Name                      # also the name of the hop's device toward it
    at: Name
    delay_ms: MS = 0
    settings: Host = Host()


def _slowest(stages: list[tuple[int, Stage]]) -> tuple[int, Stage] | None:
    """The (hop's number, stage) with the lowest rate, the first of equals; None without a rate."""
    rated = [(number, stage) for number, stage in stages if stage.speed_mbit]
    return min(rated, key=lambda pair: pair[1].speed_mbit) if rated else None


@dataclass(frozen=True)
class Scenario(schema.Table):
    """An experiment; the module's docstring has the keys of its file."""

    title: Line
    hops: pydantic.conlist(Hop, min_items=1) = key("hop")
    flows: pydantic.conlist(Flow, min_items=1) = key("flow")
    seed: whole(0, 10**9) = 1
    family: FAMILY = 4
    # Below SLIP's 296 a segment has no room for the smallest MSS; a bottleneck's bucket has 1500.
    mtu: whole(296, 1500) = 1500
    max_seconds: whole(1, 10**6) = 900  # the run fails if it takes longer in virtual time
    capture: Flag = True                # capture packets
    captures: tuple[CAPTURE, ...] = ("sender", "bottleneck")    # places of the captures
    trace: tuple[EVENT, ...] = ("tcp:tcp_probe", "satcc:cc_call")
    traced: tuple[whole(0, 10**6), ...] = ()    # numbers of the flows to trace; (): all
    modules: MODULES = field(default_factory=dict)      # module -> its parameters, as for modprobe
    sender: Host = Host()
    receiver: Host = Host()
    leaves: tuple[Leaf, ...] = key("host", default=())
    commands: tuple[Command, ...] = ()  # shell lines that run in the background from the flows' start on
    changes: tuple[LinkChange, ...] = key("change", default=())     # of the links, while flows run
    offload: Flag = False               # leave TSO, GSO and GRO on: packets of up to 64 KB
    # Times after the flows' start at which the run records the counters of each sending socket and each
    # queue (job.sample_name()).  They give a rate without a capture, and without the start.
    samples_s: tuple[SECONDS, ...] = ()
    before: tuple[Command, ...] = ()    # shell lines that run after the set-up, before any flow
    after: tuple[Command, ...] = ()     # shell lines that run after the end of the last flow

    # -- derived values -------------------------------------------------------

    @property
    def has_chance(self) -> bool:
        """Whether another seed can give other packets.

        Several flows depend on the seed even without random loss, because the first segments of flows
        that start together leave in a random order.  bbr chooses the phase of its gain cycle at random.
        """
        stages = [stage for part in (*self.hops, *self.changes) for stage in (part.forward, part.reverse)
                  if stage]
        return len(self.flows) > 1 or any(stage.has_chance for stage in stages) or any(
            flow.law or flow.tool in ("page", "requests") or any(name.startswith("bbr")
                                                                 for name in flow.names)
            for flow in self.flows)

    @property
    def base_rtt_s(self) -> float:
        """Propagation RTT of the whole line, s; see rtt_s()."""
        return (self._delay_ms("sender", "receiver") + self._delay_ms("receiver", "sender")) / 1e3

    def _node(self, end: str) -> int:
        """An end's index in the row sender, hops, receiver; a host beside the line has its hop's."""
        order = ["sender", *(hop.name for hop in self.hops), "receiver"]
        at = {leaf.name: leaf.at for leaf in self.leaves}
        return order.index(at.get(end, end))

    def stages(self, source: str, to: str) -> list[tuple[int, Stage]]:
        """(hop's number, stage) of each stage that a packet from one end to another passes.

        A hop's forward stage is for packets that leave it toward the receiver, its reverse stage for
        those toward the sender.  A packet from or to a host beside the line passes the stage of the hop
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

    def peer(self, flow: Flow) -> str:
        """The node at the other end of the source's TCP connection.

        It is the first proxy on the way, if the flow goes between the ends of the line and its source
        connects; else it is the flow's `to`.
        """
        proxies = [hop.name for hop in self.hops if hop.pep]
        if not proxies or flow.passive or {flow.source, flow.to} != {"sender", "receiver"}:
            return flow.to
        return proxies[0 if flow.source == "sender" else -1]

    def _delay_ms(self, source: str, to: str) -> float:
        """One-way propagation delay of the stages, and of a host beside the line at its end, ms."""
        return sum(stage.base_delay_ms for _, stage in self.stages(source, to)) \
            + sum(leaf.delay_ms for leaf in self.leaves if leaf.name == to)

    def rtt_s(self, flow: Flow) -> float:
        """A flow's RTT: the propagation delay of the stages that its data and its ACKs pass, s.

        It is without queues, serialisation, time slots and the effect of a [[change]], and it takes the
        smallest delay of a delay_series.  For a flow through a proxy it is the sum of both connections'.
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
        """The bytes of a full segment at the bottleneck."""
        return self.mtu + ETHERNET_BYTES

    @property
    def bottleneck(self) -> tuple[int, Stage] | None:
        """(hop's number, stage) of the slowest forward stage, or None."""
        return _slowest(list(enumerate(hop.forward for hop in self.hops)))

    def bottleneck_of(self, flow: Flow) -> tuple[int, Stage] | None:
        """(hop's number, stage) of the slowest stage that a flow's data passes, or None."""
        return _slowest(self.stages(flow.source, flow.to))

    def packet_bytes(self, stage: Stage) -> int:
        """The bytes of a full segment at a stage: those of IP in time slots, those of the Ethernet frame
        at a qdisc."""
        return self.mtu if stage.mac else self.frame_bytes

    @property
    def net_rate_bps(self) -> float:
        """Payload rate of the bottleneck when it is never idle, bit/s."""
        if not self.bottleneck:
            raise LabError("this scenario has no bottleneck")
        stage = self.bottleneck[1]
        return stage.speed_mbit * 1e6 * self.mss / self.packet_bytes(stage)

    def ideal_s(self, size: int) -> float:
        """The shortest possible time from the first SYN to the ACK of the last byte, s.

        It is the payload at the net rate, one RTT for the handshake, and one RTT for the last byte and
        its ACK.
        """
        return size * 8 / self.net_rate_bps + 2 * self.base_rtt_s

    def bdp_packets(self, stage: Stage, rtt_s: float | None = None) -> int:
        """The BDP of a stage, in full segments with the headers that the rate counts, rounded up.

        rtt_s: None for the line's RTT.
        """
        rtt_s = self.base_rtt_s if rtt_s is None else rtt_s
        return math.ceil(stage.speed_mbit * 1e6 * rtt_s / 8 / self.packet_bytes(stage))

    def flow_bdp_packets(self, flow: Flow) -> int | None:
        """The BDP of a flow's own bottleneck and RTT; None if no stage on its way has a rate."""
        slowest = self.bottleneck_of(flow)
        return self.bdp_packets(slowest[1], self.rtt_s(flow)) if slowest else None

    def queue_packets(self, stage: Stage) -> int:
        """A bottleneck's queue in packets, from queue_packets, queue_bytes or queue_bdp."""
        if stage.mac:
            return stage.mac.queue_packets or math.ceil(stage.mac.queue_bytes / self.mtu)
        if stage.queue_packets:
            return stage.queue_packets
        if stage.queue_bytes:
            return max(1, stage.queue_bytes // self.frame_bytes)
        return max(1, math.ceil(stage.queue_bdp * self.bdp_packets(stage)))

    def flight_packets(self) -> int:
        """A limit for netem: more packets than can be on a delay stage at once.

        It is twice the fastest rate of the path times the longest delay, in minimal frames.
        """
        fastest = max([s.rate_mbit for hop in self.hops for s in (hop.forward, hop.reverse)] or [0])
        stages = [s for hop in (*self.hops, *self.changes) for s in (hop.forward, hop.reverse) if s]
        longest = max([stage.delay_ms + stage.jitter_ms for stage in stages]
                      + [leaf.delay_ms for leaf in self.leaves])
        if not fastest:
            return 1_000_000
        return max(1000, 2 * math.ceil(fastest * 1e6 * longest / 1e3 / 8 / 66))

    def socket_bytes(self) -> int:
        """Bytes of socket buffers that never limit a flow: memory for four times BDP and queue."""
        if not self.bottleneck:
            return 16 << 20
        stage = self.bottleneck[1]
        # The BDP is in Ethernet frames, for time slots too.
        packets = self.bdp_packets(Stage(rate_mbit=stage.speed_mbit)) + self.queue_packets(stage)
        return max(4 << 20, 4 * packets * 2304)     # 2304: truesize of a full segment

    @property
    def extras(self) -> tuple[str, ...]:
        """The optional parts of the image that the scenario needs."""
        stages = [stage for hop in self.hops for stage in (hop.forward, hop.reverse)]
        needs = (satellite.links(self), any(hop.pep for hop in self.hops),
                 any(stage.aqm in ("codel", "pie") for stage in stages),
                 any(flow.tool in ("background", "page") for flow in self.flows),
                 self._runs("delayed_acks"))
        return ("papers",) * any(needs) + ("wireguard",) * self._runs("wireguard")

    def _runs(self, word: str) -> bool:
        """Whether a shell line of the scenario has this word."""
        return any(word in line for line in (*self.before, *self.commands))

    def check(self) -> "Scenario":
        """Return the scenario.  Raises LabError if a scenario file could not describe it."""
        schema.read(Scenario, self, self.title)
        return self

    def rules(self) -> None:
        names = [hop.name for hop in self.hops]
        if len(set(names)) != len(names):
            raise ValueError("hop: two hops have the same name")
        if self.family == 6 and self.mtu < IPV6_LEAST_MTU:
            raise ValueError(f"mtu: at least {IPV6_LEAST_MTU} with family 6")
        self._check_ends(names)
        self._check_stages()
        for number, change in enumerate(self.changes):
            if change.hop not in names:
                raise ValueError(f"change[{number}].hop: no hop {change.hop!r}")
            for side in ("forward", "reverse"):
                stage, base = getattr(change, side), getattr(self.hops[names.index(change.hop)], side)
                if stage and not (stage.is_line and base.is_line or stage.rate_mbit and base.rate_mbit):
                    raise ValueError(f"change[{number}].{side}: a stage with delay or loss can only get "
                                     "delay or loss, and a bottleneck only a rate")
        if not set(self.traced) <= set(range(len(self.flows))):
            raise ValueError("traced: a flow with this number does not exist")
        if len(self.hops) + 1 + len(self.leaves) > MOST_LINKS:
            raise ValueError(f"more than {MOST_LINKS} links")

    def _check_ends(self, hops: list[str]) -> None:
        ends = list(ENDS)
        for number, leaf in enumerate(self.leaves):
            if leaf.name in TAKEN | {*hops, *ends}:
                raise ValueError(f"host[{number}].name: {leaf.name!r} is taken")
            if leaf.at not in hops:
                raise ValueError(f"host[{number}].at: no hop {leaf.at!r}")
            ends.append(leaf.name)
        for number, flow in enumerate(self.flows):
            if flow.source not in ends or flow.to not in ends or flow.source == flow.to:
                raise ValueError(f"flow[{number}]: source and to must be two of {', '.join(ends)}")

    def _check_stages(self) -> None:
        """Raise ValueError for a queue or a link that no flow crosses in either direction."""
        crossed = [each for flow in self.flows
                   for ends in ((flow.source, flow.to), (flow.to, flow.source))
                   for each in self.stages(*ends)]
        for index, hop in enumerate(self.hops):
            for side, stage in (("forward", hop.forward), ("reverse", hop.reverse)):
                if (stage.rate_mbit or stage.is_line) and not any(
                        number == index and each is stage for number, each in crossed):
                    raise ValueError(f"hop[{index}].{side}: no flow crosses it")

    def as_dict(self) -> dict:
        return dataclasses.asdict(self)

    def digest(self) -> str:
        """SHA-256 over the scenario without its title."""
        meaning = {key: value for key, value in self.as_dict().items() if key != "title"}
        return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()


def from_dict(data: dict, where: str = "scenario", at: tuple = ()) -> Scenario:
    """A checked scenario from parsed TOML, with the lists `hop`, `host`, `flow` and `change`.

    at: the keys that lead to it in the file.
    """
    return schema.read(Scenario, data, where, at)


def load(path: Path) -> Scenario:
    """Read a scenario file.  Raises LabError."""
    return from_dict({"title": path.stem, **schema.parsed(path)}, str(path))
