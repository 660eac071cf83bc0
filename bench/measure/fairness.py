# SPDX-License-Identifier: GPL-2.0
"""The metrics of Henderson & Katz (1999): shares and utilisation of a bottleneck, latency of replies.

Shares and utilisation are from counters that the run records at two times (Scenario.samples_s), so they
need no capture and do not include the start.  A rate counts packets of the scenario's MTU, as ns does
(4.2.3: "data packet sizes were fixed at 1000 bytes"), in kbit/s of 1000 bits.  Latencies and the
receiver's rates are from the receiver's capture.
"""

from __future__ import annotations

import json
import re

import numpy as np

from ..errors import LabError
from ..lab import job
from ..record import pcap
from ..record.run import Run
from ..scenario.scenario import ETHERNET_BYTES, FIRST_PORT, Flow
from . import flow_view, received


def _ends(run: Run) -> tuple[float, float]:
    """The first and the last of a run's sample times, s.  Raises LabError for fewer than two."""
    times = run.scenario.samples_s
    if len(times) < 2:
        raise LabError("a share needs two times in samples_s")
    return times[0], times[-1]


def acked_bytes(text: str, port: int) -> int:
    """Payload acknowledged on the connection to a port, in bytes.

    text: output of `ss -tinO`, with one line for each connection.  Raises LabError if it has no line
    for the port.
    """
    for line in text.splitlines():
        if line.split()[4].endswith(f":{port}"):
            match = re.search(r"\bbytes_acked:(\d+)", line)
            return int(match[1]) if match else 0        # ss does not print a count of 0
    raise LabError(f"no connection to port {port} in a sample: the flow had not begun or had ended")


def share_kbit(run: Run, flow: int = 0) -> float:
    """Rate of a flow's packets acknowledged between the samples, each with the MTU's size, kbit/s."""
    since, until = _ends(run)
    source, port = run.scenario.flows[flow].source, FIRST_PORT + flow
    acked = [acked_bytes(run.read(job.sample_name(at, source)).decode(), port) for at in (since, until)]
    return (acked[1] - acked[0]) / run.scenario.mss * run.scenario.mtu * 8 / (until - since) / 1e3


def fairness(run: Run, hop: str = "r1") -> float:
    """Jain's index (4.2.1) of the shares of the connections through a hop, without background traffic.

    It is 1 if all are equal, and 1/n if one has all.  The paper's table 1 follows from its six
    foreground connections, if the two short ones share the rest of the link, less 20 % of background.
    """
    return index(shares(run, hop))


def index(values: list[float]) -> float:
    """Jain's index; 0 if all values are 0."""
    return flow_view.jain(values) or 0.0


def share_over_mean(run: Run, flow: int = 0, hop: str = "r1") -> float:
    """A flow's share divided by the mean share of the foreground flows through a hop."""
    own = shares(run, hop)
    return share_kbit(run, flow) * len(own) / sum(own)


def shares(run: Run, hop: str) -> list[float]:
    """The shares of the foreground flows through a hop, kbit/s."""
    return [share_kbit(run, number) for number, flow in enumerate(run.scenario.flows)
            if flow.tool == "flow" and _passes(run, flow, hop)]


def _passes(run: Run, flow: Flow, hop: str) -> bool:
    """Whether the flow passes this hop's forward stage."""
    return hop in [run.scenario.hops[number].name for number in run.scenario.way(flow)]


def link_utilisation(run: Run, hop: str = "r1") -> float:
    """Share of the bottleneck's capacity that carried new packets between the samples, 0 to 1 (4.2.1).

    It is from the queue's counters, less the foreground's needless retransmissions: those beyond the
    number of packets that queues dropped.
    """
    since, until = _ends(run)
    stage = next(one.forward for one in run.scenario.hops if one.name == hop)
    counted = [_queue(run, at, hop, stage.queue_kind) for at in (since, until)]
    sent, packets = ((counted[1][name] - counted[0][name]) for name in ("bytes", "packets"))
    again = sum(_retransmits(run, until, number) - _retransmits(run, since, number)
                for number, flow in enumerate(run.scenario.flows) if flow.tool == "flow")
    dropped = sum(counters[1]["drops"] - counters[0]["drops"] for counters in (
        [_queue(run, at, one.name, one.forward.queue_kind) for at in (since, until)]
        for one in run.scenario.hops if one.forward.rate_mbit))
    needless = max(0, again - dropped) * run.scenario.mtu
    # The lab's rate includes the Ethernet header; the paper's packets have none.
    rate = stage.rate_mbit * 1e6 * run.scenario.mtu / run.scenario.frame_bytes
    return (sent - packets * ETHERNET_BYTES - needless) * 8 / (rate * (until - since))


def _queue(run: Run, at_s: float, hop: str, kind: str) -> dict:
    for entry in _queues(run, at_s, hop):
        if entry["kind"] == kind and entry["dev"] == "right":
            return entry
    raise LabError(f"no {kind} on {hop} in a sample")


def _queues(run: Run, at_s: float, hop: str) -> list[dict]:
    return json.loads(run.read(job.sample_name(at_s, hop)))


def _retransmits(run: Run, at_s: float, flow: int) -> int:
    """Number of segments that a flow had retransmitted at this sample."""
    port = FIRST_PORT + flow
    for line in run.read(job.sample_name(at_s, run.scenario.flows[flow].source)).decode().splitlines():
        if line.split()[4].endswith(f":{port}"):
            match = re.search(r"\bretrans:\d+/(\d+)", line)
            return int(match[1]) if match else 0
    return 0


# ---- one transfer ----------------------------------------------------------

def transfer_kbit(run: Run, flow: int = 0) -> float:
    """A transfer's size divided by its time, kbit/s.

    The time is one RTT for the handshake, and TCP_INFO's busy_time: from the first byte in the send
    buffer to the ACK of the last byte.
    """
    info = run.json(f"flow-{flow}.json")
    return run.scenario.flows[flow].bytes * 8 / ((info["busy_time"] + info["min_rtt"]) / 1e6) / 1e3


def first_recovery_s(run: Run, flow: int = 0) -> float | None:
    """Time from the first retransmission until all data sent before it is acknowledged, s.

    None if there is no retransmission, or if that data is never acknowledged.
    """
    view = flow_view.FlowView(run, flow)
    again = np.flatnonzero(view.is_retransmit)
    if not len(again):
        return None
    sent = (view.segment_seq + view.segment_len)[:again[0]].max()
    done = np.searchsorted(view.ack_bytes, sent)
    return float(view.ack_s[done] - view.segment_s[again[0]]) if done < len(view.ack_s) else None


# ---- at the receiver -------------------------------------------------------

def forward_kbit(run: Run, flow: int = 0, from_s: float = 0, to_s: float | None = None) -> float:
    """Rate of the payload that arrives at the receiver, in order or not, between two times, kbit/s.

    Times are s since the arrival of the flow's SYN.
    to_s: None for the flow's `seconds`, and for a transfer of a size its last byte.
    """
    arrivals = received.arrivals(run, flow)
    end = _end_s(run, flow, arrivals, to_s)
    since, until = received.bytes_by(arrivals.t, arrivals.total, np.array([from_s, end]))
    return float(until - since) * 8 / (end - from_s) / 1e3


def reverse_kbit(run: Run, flow: int = 0, to_s: float | None = None) -> float:
    """Rate of the IP packets that the receiver sends for a flow until to_s, kbit/s.

    to_s: as for forward_kbit().
    """
    arrivals = received.arrivals(run, flow)
    end = _end_s(run, flow, arrivals, to_s)
    packets = run.receiver
    back = packets.where((packets.sport == FIRST_PORT + flow) & (packets.t >= arrivals.begin_ns)
                         & (packets.t <= arrivals.begin_ns + end * 1e9))
    return float((back.wire - ETHERNET_BYTES).sum()) * 8 / end / 1e3


def _end_s(run: Run, flow: int, arrivals: received.Arrivals, to_s: float | None) -> float:
    if not len(arrivals.t):
        raise LabError(f"the receiver got no packet of flow {flow}")
    return to_s if to_s is not None else run.scenario.flows[flow].seconds or float(arrivals.t[-1])


def reverse_share(run: Run, flow: int = 0) -> float:
    """reverse_kbit() divided by forward_kbit()."""
    return reverse_kbit(run, flow) / forward_kbit(run, flow)


# ---- web replies -----------------------------------------------------------

def _latencies(run: Run, flow: int, most_segments: int | None) -> np.ndarray:
    packets = run.receiver
    port = FIRST_PORT + flow
    syns = packets.where((packets.dport == port) & (packets.flags & pcap.SYN > 0))
    data = packets.where((packets.sport == port) & (packets.length > 0))
    latencies = []
    for client in np.unique(syns.sport):
        own = data.dport == client
        if most_segments and data.length[own].sum() > most_segments * run.scenario.mss:
            continue
        begin = syns.t[syns.sport == client][0]
        latencies.append((data.t[own].max() - begin) / 1e9)
    if not latencies:
        raise LabError(f"flow {flow} has no reply in the receiver's capture")
    return np.array(latencies)


def reply_s(run: Run, flow: int = 0, statistic: str = "mean", most_segments: int | None = None) -> float:
    """Latency of the replies of a flow with the tool `requests`, from the SYN to the last data, s.

    statistic: "minimum", "median" or "mean".
    most_segments: leave out replies with more segments (5.4: 100).
    """
    functions = {"minimum": np.min, "median": np.median, "mean": np.mean}
    if statistic not in functions:
        raise LabError(f"no statistic {statistic!r} (there are: {', '.join(functions)})")
    return float(functions[statistic](_latencies(run, flow, most_segments)))


METRICS = (share_kbit, fairness, share_over_mean, link_utilisation, transfer_kbit,
           first_recovery_s, forward_kbit, reverse_kbit, reverse_share, reply_s)
