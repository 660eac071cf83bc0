# SPDX-License-Identifier: GPL-2.0
"""Metrics of what arrives, from the receiver's capture.

With a proxy on the path the sender's ACKs are the proxy's, and only the receiver's capture shows the
rate of the satellite link.  arrivals() reads this capture, for fairness.py and pages.py too.  The
metrics here count a byte when it first arrives, in order or not; Caini et al. (2008, 4.2) count SACKed
data for the same reason.  Their times are those of _acknowledged().
"""

from __future__ import annotations

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
    """A row for each segment with payload that arrived at a flow's receiver.

    Each byte of payload counts once, at the first segment that has it, even if a retransmission has
    other boundaries.
    """

    begin_ns: int               # arrival of the flow's first SYN, by the capture's clock
    t: np.ndarray               # s since begin_ns
    total: np.ndarray           # bytes that have arrived by t, in order or not
    in_order: np.ndarray        # bytes that have arrived by t without a hole: the application has them


def arrivals(run: Run, flow: int = 0) -> Arrivals:
    """The arrivals of a flow; no rows if its SYN did not arrive.

    If a flow has several connections (iperf3 has a second one for control messages), these are the
    arrivals of the one with the most payload.  Raises LabError if the flow ends elsewhere.
    """
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
    above: list[tuple[int, int]] = []       # received ranges beyond the first hole
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


def bytes_by(t: np.ndarray, total: np.ndarray, seconds) -> np.ndarray:
    """The bytes that have arrived by these times; t and total as in Arrivals."""
    return np.concatenate([[0], total])[np.searchsorted(t, seconds, side="right")]


def _acknowledged(run: Run, flow: int) -> tuple[np.ndarray, np.ndarray]:
    """(times in s, bytes that have arrived by then, in order or not).

    A time is that at which an ACK of the segment could be back, since the sender's SYN: the arrival plus
    one propagation RTT.  So the numbers compare with those that Caini et al. measure from ACKs at the
    sender.
    """
    arrived = arrivals(run, flow)
    return arrived.t + run.scenario.rtt_s(run.scenario.flows[flow]), arrived.total


def with_range(ranges: list[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """Add a range to sorted ranges that do not overlap, and return them."""
    before = [pair for pair in ranges if pair[1] < low]
    after = [pair for pair in ranges if pair[0] > high]
    touched = ranges[len(before):len(ranges) - len(after)]
    return [*before, (min([low, *(pair[0] for pair in touched)]),
                      max([high, *(pair[1] for pair in touched)])), *after]


def _end_s(run: Run, flow: int, t: np.ndarray) -> float:
    """A flow's `seconds`; for a transfer of a size the time of its last byte, s."""
    return run.scenario.flows[flow].seconds or (float(t[-1]) if len(t) else 0.0)


def received_mbit(run: Run, flow: int = 0, from_s: float = 0, to_s: float | None = None) -> float:
    """Rate of the payload that arrived between two times, Mbit/s.  to_s: None for the flow's end."""
    t, total = _acknowledged(run, flow)
    end = to_s if to_s is not None else _end_s(run, flow, t)
    if end <= from_s:
        raise LabError(f"flow {flow}: no packet between {from_s} and {end} s")
    since, until = bytes_by(t, total, np.array([from_s, end]))
    return float(until - since) * 8 / (end - from_s) / 1e6


def socket_mbit(run: Run, at_s: float, flow: int = 0) -> float:
    """Payload that the receiver's socket had received by at_s, divided by at_s, Mbit/s.

    It reads the output of `ss -tinO`, which a command of the scenario stores at that time.  A capture
    could not give this for a tunnel, since it has the tunnel's packets and not their TCP.
    """
    port, name = FIRST_PORT + flow, f"sockets-{at_s:g}"
    for line in run.read(name).decode().splitlines():
        counted = re.search(r"\bbytes_received:(\d+)", line)
        if counted and line.split()[3].endswith(f":{port}"):
            return int(counted[1]) * 8 / at_s / 1e6
    raise LabError(f"{name} has no connection to port {port} that received anything")


def received_kbit(run: Run, flow: int = 0, from_s: float = 0, to_s: float | None = None) -> float:
    """received_mbit() in kbit/s."""
    return received_mbit(run, flow, from_s, to_s) * 1e3


def short_time_received(run: Run, flow: int = 0, window_s: float = GOODPUT_WINDOW_S,
                        every_s: float = 1.0) -> dict:
    """Caini et al.'s short-time goodput: rate of the arrivals in the window before each sample, Mbit/s.

    At the start the window is shorter.
    """
    t, total = _acknowledged(run, flow)
    at = np.arange(1, _end_s(run, flow, t) / every_s + 0.5) * every_s
    since = np.maximum(at - window_s, 0)
    rate = (bytes_by(t, total, at) - bytes_by(t, total, since)) * 8 / (at - since) / 1e6
    return {"t": at.tolist(), "y": rate.tolist()}


def time_to_received(run: Run, share: float = 0.9, flow: int = 0, of_mbit: float | None = None,
                     window_s: float = GOODPUT_WINDOW_S, every_s: float = 1.0) -> float | None:
    """The first sample at which short-time goodput is at least `share` of of_mbit, s.

    of_mbit: None for the payload rate of the full bottleneck.
    """
    series = short_time_received(run, flow, window_s, every_s)
    full = of_mbit if of_mbit is not None else run.scenario.net_rate_bps / 1e6
    return next((t for t, y in zip(series["t"], series["y"]) if y >= share * full), None)


def arrived(run: Run, flow: int = 0, to_s: float | None = None, every_s: float = 0.25) -> dict:
    """Time sequence at the receiver: kbyte that have arrived by each sample."""
    t, total = _acknowledged(run, flow)
    end = to_s if to_s is not None else _end_s(run, flow, t)
    at = np.arange(0, end / every_s + 0.5) * every_s
    return {"t": at.tolist(), "y": (bytes_by(t, total, at) / 1e3).tolist()}


def drops(run: Run, hop: str) -> int:
    """Packets of all flows that the queue of a hop's bottleneck toward the receiver dropped."""
    return sum(entry["drops"] for entry in run.json(f"qdisc-{hop}.json")
               if "parent" in entry and entry.get("dev") == "right")


def satellite_drops_pct(run: Run, hop: str) -> float:
    """Packets that the queue of a satellite hop dropped, in percent of those that reached the hop."""
    counted = run.json(f"satlink-{hop}-forward.json")
    return 100 * counted["queue_drops"] / counted["in_packets"]


def ping_ms(run: Run, statistic: str = "mean") -> float:
    """A statistic of the round trips in ping.txt, which a scenario's `after` writes, ms.

    statistic: "min", "mean", "max", or "mdev", ping(8)'s name of the standard deviation.
    """
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
