# SPDX-License-Identifier: GPL-2.0
"""What arrived, by the receiver's capture: with a proxy on the path the sender's ACKs say what the
proxy has taken, and only the receiver knows how fast the satellite was.

arrivals() is the bench's one reading of a receiver's capture; fairness.py and pages.py take theirs from
it.  The metrics here count bytes when they come for the first time, in order or not (Caini et al. 2008,
4.2, count SACKed data for the same reason), and their times are those of _acknowledged().
"""

import re
from dataclasses import dataclass

import numpy as np

from ..errors import LabError
from ..record import pcap
from ..record.run import Run
from ..scenario.scenario import FIRST_PORT

GOODPUT_WINDOW_S = 10           # Caini et al.'s short-time goodput
PING = re.compile(r"bytes from .* time=([\d.]+) ms")


@dataclass(frozen=True)
class Arrivals:
    """A row for each segment with payload that came to a flow's receiver.

    Bytes are of payload, and each counts once, at the segment that first brought it, however
    retransmissions cut the stream anew.
    """

    begin_ns: int               # when the flow's first SYN came, by the capture's clock
    t: np.ndarray               # s since then
    total: np.ndarray           # bytes there by then, in order or not: what the path has brought
    in_order: np.ndarray        # of these, those without a hole before them: what an application has


def arrivals(run: Run, flow: int = 0) -> Arrivals:
    """The packets of a flow that arrived; none if its SYN never did.  Of several connections of a flow
    (iperf3 has one for its own talk) it is the one with the most payload."""
    if run.scenario.flows[flow].to != "receiver":
        raise LabError(f"flow {flow} does not end at the receiver, where the capture is")
    packets = run.receiver
    own = packets.where(packets.dport == FIRST_PORT + flow)
    if len(own):
        ports, index = np.unique(own.sport, return_inverse=True)
        own = own.where(own.sport == ports[np.bincount(index, own.length).argmax()])
    syns = np.flatnonzero(own.flags & pcap.SYN)
    if not len(syns):
        return Arrivals(0, np.zeros(0), np.zeros(0, int), np.zeros(0, int))
    begin = int(own.t[syns[0]])
    data = own.where(own.length > 0)
    starts = pcap.unwrap(data.seq, (int(own.seq[syns[0]]) + 1) & 0xFFFFFFFF)
    totals, edges, edge = [], [], 0
    above: list[tuple[int, int]] = []       # what is there beyond the first hole
    for start, size in zip(starts.tolist(), data.length.tolist()):
        if start > edge:
            above = with_range(above, start, start + size)
        else:
            edge = max(edge, start + size)
            while above and above[0][0] <= edge:
                edge = max(edge, above.pop(0)[1])
        edges.append(edge)
        totals.append(edge + sum(high - low for low, high in above))
    return Arrivals(begin, (data.t - begin) / 1e9, np.array(totals, int), np.array(edges, int))


def by(t: np.ndarray, total: np.ndarray, seconds) -> np.ndarray:
    """The bytes that have arrived at these times."""
    return np.concatenate([[0], total])[np.searchsorted(t, seconds, side="right")]


def _acknowledged(run: Run, flow: int) -> tuple[np.ndarray, np.ndarray]:
    """(t in s, bytes there): arrivals in order or not, each at the time when an ACK of it could be back,
    since the sender's SYN.

    One propagation RTT after the SYN's arrival is one RTT after the SYN left, so the numbers compare
    with those that Caini et al. read off ACKs at the sender.
    """
    arrived = arrivals(run, flow)
    return arrived.t + run.scenario.rtt_s(run.scenario.flows[flow]), arrived.total


def with_range(ranges: list[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """Add a range to ranges that are in order and do not overlap."""
    before = [pair for pair in ranges if pair[1] < low]
    after = [pair for pair in ranges if pair[0] > high]
    touched = ranges[len(before):len(ranges) - len(after)]
    return [*before, (min([low, *(pair[0] for pair in touched)]),
                      max([high, *(pair[1] for pair in touched)])), *after]


def _end_s(run: Run, flow: int, t: np.ndarray) -> float:
    """A timed flow's length; of another, when its last byte came."""
    return run.scenario.flows[flow].seconds or (float(t[-1]) if len(t) else 0.0)


def received_mbit(run: Run, flow: int = 0, from_s: float = 0, to_s: float | None = None) -> float:
    """Payload that arrived per second between two times (the whole flow), Mbit/s."""
    t, total = _acknowledged(run, flow)
    end = to_s if to_s is not None else _end_s(run, flow, t)
    if end <= from_s:
        raise LabError(f"flow {flow}: no packet between {from_s} and {end} s")
    had = by(t, total, np.array([from_s, end]))
    return float(had[1] - had[0]) * 8 / (end - from_s) / 1e6


def socket_mbit(run: Run, at_s: float, flow: int = 0) -> float:
    """Payload that the receiver's socket had by at_s, per second, Mbit/s.

    From what `ss -tinO` said at the receiver then, which one of the scenario's commands wrote down: it
    needs no capture, which would see a tunnel's packets and not its TCP.
    """
    port, name = FIRST_PORT + flow, f"sockets-{at_s:g}"
    for line in run.read(name).decode().splitlines():
        counted = re.search(r"\bbytes_received:(\d+)", line)
        if counted and line.split()[3].endswith(f":{port}"):
            return int(counted[1]) * 8 / at_s / 1e6
    raise LabError(f"{name} has no connection to port {port} that received anything")


def received_kbit(run: Run, flow: int = 0, from_s: float = 0, to_s: float | None = None) -> float:
    """The same in kbit/s."""
    return received_mbit(run, flow, from_s, to_s) * 1e3


def short_time_received(run: Run, flow: int = 0, window_s: float = GOODPUT_WINDOW_S,
                        every_s: float = 1.0) -> dict:
    """Caini et al.'s short-time goodput: what arrived in the window before each sample, Mbit/s.  At the
    start the window is shorter."""
    t, total = _acknowledged(run, flow)
    at = np.arange(1, _end_s(run, flow, t) / every_s + 0.5) * every_s
    since = np.maximum(at - window_s, 0)
    rate = (by(t, total, at) - by(t, total, since)) * 8 / (at - since) / 1e6
    return {"t": at.tolist(), "y": rate.tolist()}


def time_to_received(run: Run, share: float = 0.9, flow: int = 0, of_mbit: float | None = None,
                     window_s: float = GOODPUT_WINDOW_S, every_s: float = 1.0) -> float | None:
    """The first sample at which short-time goodput is `share` of of_mbit (what the bottleneck can
    carry of payload), s."""
    series = short_time_received(run, flow, window_s, every_s)
    full = of_mbit if of_mbit is not None else run.scenario.net_rate_bps / 1e6
    return next((t for t, y in zip(series["t"], series["y"]) if y >= share * full), None)


def arrived(run: Run, flow: int = 0, to_s: float | None = None, every_s: float = 0.25) -> dict:
    """Time sequence at the receiver: kbyte there by each sample."""
    t, total = _acknowledged(run, flow)
    end = to_s if to_s is not None else _end_s(run, flow, t)
    at = np.arange(0, end / every_s + 0.5) * every_s
    return {"t": at.tolist(), "y": (by(t, total, at) / 1e3).tolist()}


def drops(run: Run, hop: str) -> int:
    """Packets that the queue of a hop's bottleneck toward the receiver refused, of every flow."""
    return sum(entry["drops"] for entry in run.json(f"qdisc-{hop}.json")
               if "parent" in entry and entry.get("dev") == "right")


def satellite_drops_pct(run: Run, hop: str) -> float:
    """Of the packets that came to a satellite hop, those its queue refused, %."""
    counted = run.json(f"satlink-{hop}-forward.json")
    return 100 * counted["queue_drops"] / counted["in_packets"]


def ping_ms(run: Run, statistic: str = "mean") -> float:
    """Of the round trips in ping.txt, which a scenario's `after` writes: min, mean, max, or mdev, the
    standard deviation that ping(8) calls by this name, ms."""
    times = [float(text) for text in PING.findall(run.read("ping.txt").decode())]
    if not times:
        raise LabError("ping.txt has no answer")
    functions = {"min": np.min, "mean": np.mean, "max": np.max, "mdev": np.std}
    if statistic not in functions:
        raise LabError(f"no statistic {statistic!r} (there are: {', '.join(functions)})")
    return float(functions[statistic](times))


METRICS = (received_mbit, received_kbit, socket_mbit, time_to_received, drops, satellite_drops_pct,
           ping_ms)
SERIES = (short_time_received, arrived)
