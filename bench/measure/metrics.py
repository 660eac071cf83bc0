# SPDX-License-Identifier: GPL-2.0
"""The metrics of experiments: pure functions of a run.  Data files call them by name.

METRICS return a number, SERIES a dict of lists t (s) and y, FORMULAS a number from the scenario alone.
A metric returns None if the run did not reach its value, for example if a transfer did not end.  Times
are seconds since the flow's first SYN unless a docstring says otherwise.  A kbyte has 1000 bytes, a
Kbyte 1024.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect

import numpy as np

from ..errors import LabError
from ..record import pcap
from ..record.run import Run
from ..scenario import schema
from ..scenario.scenario import FIRST_PORT, Scenario
from ..scenario.schema import Flag, Line, Name, one_of, real, whole
from . import fairness, flow_view, pages, received, shares

GOODPUT_WINDOW_S = 10           # Caini et al.'s short-time goodput


def tcp_info(run: Run, flow: int) -> dict:
    """The kernel's TCP_INFO at the end of a flow, or {} if the flow's tool is not `flow`."""
    info = run.json(f"flow-{flow}.json")
    return info if "bytes_acked" in info else {}


def required_tcp_info(run: Run, flow: int) -> dict:
    """tcp_info().  Raises LabError if it is empty."""
    return tcp_info(run, flow) or _lacks(run, flow, "TCP_INFO")


def _lacks(run: Run, flow: int, what: str):
    raise LabError(f"flow {flow} of the tool {run.scenario.flows[flow].tool} has no {what}")


def has_capture(run: Run, name: str) -> bool:
    return (run.folder / f"{name}.pcap").exists()


def windows(run: Run, flow: int) -> tuple[np.ndarray, np.ndarray]:
    """(times in ns, cwnds in segments) at each segment that the sender receives, before the kernel acts
    on it.  Both arrays are empty if the run's trace has no tcp_probe event."""
    times, records = run.events.get("tcp:tcp_probe", ((), None)) \
        if (run.folder / "trace.raw").exists() else ((), None)
    if not len(times):
        return np.zeros(0, "i8"), np.zeros(0, int)
    own = records["dport"] == FIRST_PORT + flow
    return times[own].astype("i8"), records["snd_cwnd"][own].astype(int)


# ---- one flow --------------------------------------------------------------

def transfer_s(run: Run, flow: int = 0, since: str = "syn") -> float | None:
    """Time until the ACK of the last byte, s.

    since: it begins at the "syn", or with "data" at the first segment with payload.
    """
    view = flow_view.FlowView(run, flow)
    end = view.transfer_s(run.scenario.flows[flow].bytes)
    return None if end is None else end - (float(view.segment_s[0]) if since == "data" else 0)


def throughput_kbyte(run: Run, flow: int = 0, since: str = "syn", kbyte: int = 1000) -> float | None:
    """A transfer's size divided by its time, kbyte/s.  kbyte: bytes in a kbyte."""
    took = transfer_s(run, flow, since)
    return None if took is None else run.scenario.flows[flow].bytes / took / kbyte


def goodput_mbit(run: Run, flow: int = 0, from_s: float = 0, to_s: float | None = None) -> float:
    """Payload acknowledged per second from from_s to to_s, Mbit/s.

    to_s: None for the flow's `seconds`, and for a transfer of a size its last ACK.
    """
    seconds = run.scenario.flows[flow].seconds
    if not has_capture(run, "sender"):
        if from_s or to_s not in (None, seconds):
            raise LabError("goodput of a part of a flow needs the sender's capture")
        info = required_tcp_info(run, flow)
        return info["bytes_acked"] * 8 / (seconds or info["busy_time"] / 1e6) / 1e6
    view = flow_view.FlowView(run, flow)
    end = to_s if to_s is not None else seconds or float(view.ack_s[-1])
    return (view.acked_by(end) - view.acked_by(from_s)) * 8 / (end - from_s) / 1e6


def goodput_kbyte(run: Run, flow: int = 0, from_s: float = 0, to_s: float | None = None) -> float:
    """goodput_mbit() in kbyte/s."""
    return goodput_mbit(run, flow, from_s, to_s) * 1e6 / 8 / 1e3


def utilisation(run: Run, flow: int = 0, from_s: float = 0, to_s: float | None = None) -> float:
    """Goodput divided by the payload rate of the full bottleneck."""
    return goodput_mbit(run, flow, from_s, to_s) * 1e6 / run.scenario.net_rate_bps


def time_to_goodput(run: Run, share: float = 0.9, flow: int = 0, of_mbit: float | None = None,
                    window_s: float = GOODPUT_WINDOW_S) -> float | None:
    """The first full second at which short-time goodput is at least `share` of of_mbit, s.

    of_mbit: None for the payload rate of the full bottleneck.
    """
    series = short_time_goodput(run, flow, window_s=window_s)
    full = of_mbit if of_mbit is not None else run.scenario.net_rate_bps / 1e6
    reached = [t for t, y in zip(series["t"], series["y"]) if y >= share * full]
    return reached[0] if reached else None


def rtt_ms(run: Run, flow: int = 0, statistic: str = "mean") -> float:
    """The kernel's srtt over a flow's ACKs: its mean, median, p95 or max, ms."""
    times, records = run.events["tcp:tcp_probe"]
    srtt_ms = records["srtt"][records["dport"] == FIRST_PORT + flow] / 1e3
    if not len(srtt_ms):
        raise LabError(f"flow {flow} had no ACK")
    functions = {"mean": np.mean, "median": np.median, "max": np.max,
                 "p95": lambda values: np.percentile(values, 95)}
    if statistic not in functions:
        raise LabError(f"no statistic {statistic!r} (there are: {', '.join(functions)})")
    return float(functions[statistic](srtt_ms))


def retransmits(run: Run, flow: int = 0) -> int:
    return required_tcp_info(run, flow)["total_retrans"]


def timeouts(run: Run, flow: int = 0) -> int:
    """Number of times that cwnd fell to one segment; in Linux that is a retransmission timeout."""
    _, segments = windows(run, flow)
    return int(((segments[1:] == 1) & (segments[:-1] > 1)).sum())


def peak_sent_kbyte(run: Run, flow: int = 0, window_s: float = 1.0) -> float:
    """The largest rate of sent payload in a window of window_s, kbyte/s; see sent_kbyte()."""
    return max(sent_kbyte(run, flow, window_s)["y"])


# ---- several flows ---------------------------------------------------------

def _numbers(run: Run, flows) -> list[int]:
    return list(range(len(run.scenario.flows))) if flows is None else list(flows)


def mean_transfer_s(run: Run, flows: list | None = None, since: str = "syn") -> float | None:
    times = [transfer_s(run, flow, since) for flow in _numbers(run, flows)]
    return None if None in times else float(np.mean(times))


def throughput_per_flow_kbyte(run: Run, flows: list | None = None, since: str = "syn",
                              kbyte: int = 1000) -> float | None:
    """The mean of the flows' throughputs (size divided by time), kbyte/s."""
    rates = [throughput_kbyte(run, flow, since, kbyte) for flow in _numbers(run, flows)]
    return None if None in rates else float(np.mean(rates))


def throughput_overall_kbyte(run: Run, flows: list | None = None, since: str = "syn",
                             kbyte: int = 1000) -> float | None:
    """The sum of the flows' throughputs (size divided by time), kbyte/s."""
    mean = throughput_per_flow_kbyte(run, flows, since, kbyte)
    return None if mean is None else mean * len(_numbers(run, flows))


def aggregate_goodput_mbit(run: Run, flows: list | None = None, from_s: float = 0,
                           to_s: float | None = None) -> float:
    return sum(goodput_mbit(run, flow, from_s, to_s) for flow in _numbers(run, flows))


def flow_share(run: Run, flow: int = 0, flows: list | None = None, from_s: float = 0,
               to_s: float | None = None) -> float:
    """A flow's goodput as a share of the goodput of all flows, 0 to 1."""
    whole = aggregate_goodput_mbit(run, flows, from_s, to_s)
    return goodput_mbit(run, flow, from_s, to_s) / whole if whole else 0.0


def jain(run: Run, flows: list | None = None, from_s: float = 0, to_s: float | None = None) -> float:
    """Jain's fairness index of the goodputs: 1 if all are equal, 1/n if one flow has all."""
    rates = [goodput_mbit(run, flow, from_s, to_s) for flow in _numbers(run, flows)]
    return flow_view.jain(rates) or 0.0


# ---- series ----------------------------------------------------------------

def short_time_goodput(run: Run, flow: int = 0, window_s: float = GOODPUT_WINDOW_S,
                       sacked: bool = True) -> dict:
    """Payload that the ACKs report in the window before each full second, Mbit/s.

    A window at the start is shorter.
    sacked: count SACKed payload too.
    """
    view = flow_view.FlowView(run, flow)
    t, total = delivered(run, flow) if sacked else (view.ack_s, view.ack_bytes)
    end = run.scenario.flows[flow].seconds or (float(t[-1]) if len(t) else 0)
    at = np.arange(1.0, end + 0.5)
    since = np.maximum(at - window_s, 0)
    total = np.concatenate([[0], total])

    def by(seconds):
        return total[np.searchsorted(t, seconds, side="right")]

    return {"t": at.tolist(), "y": ((by(at) - by(since)) * 8 / (at - since) / 1e6).tolist()}


def delivered(run: Run, flow: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(times in s, bytes that the receiver's ACKs report by then, with those above a hole)."""
    view = flow_view.FlowView(run, flow)
    packets = run.sender
    to_port = packets.where((packets.dport == view.port) & (packets.flags & pcap.SYN > 0))
    base = (int(to_port.seq[0]) + 1) & 0xFFFFFFFF
    acks = packets.where((packets.sport == view.port) & (packets.flags & pcap.ACK > 0)
                         & (packets.flags & (pcap.SYN | pcap.RST) == 0))
    edge, counts = 0, []
    above: list[tuple[int, int]] = []
    for ack, header in zip(pcap.unwrap(acks.ack, base), acks.raw):
        edge = max(edge, int(ack))
        block = pcap.options(header).get(pcap.SACK, b"")
        for at in range(0, len(block) - 7, 8):
            pair = np.array([int.from_bytes(block[at:at + 4], "big"),
                             int.from_bytes(block[at + 4:at + 8], "big")])
            above = received.with_range(above, *(int(end) for end in pcap.unwrap(pair, base)))
        above = [(low, high) for low, high in above if high > edge]
        counts.append(edge + sum(high - max(low, edge) for low, high in above))
    total = np.maximum.accumulate(np.array(counts)) if counts else np.zeros(0)
    return (acks.t - view.start_ns) / 1e9, total


def sent_kbyte(run: Run, flow: int = 0, window_s: float = 1.0) -> dict:
    """Rate of the payload that left the sender, with retransmissions, kbyte/s.

    There is a value each tenth of a window, over the window before it.
    """
    view = flow_view.FlowView(run, flow)
    at = np.arange(window_s / 10, float(view.ack_s[-1]) + window_s, window_s / 10)
    total = np.concatenate([[0], np.cumsum(view.segment_len)])
    sent = [total[np.searchsorted(view.segment_s, t, side="right")] for t in (at, at - window_s)]
    return {"t": at.tolist(), "y": ((sent[0] - sent[1]) / window_s / 1e3).tolist()}


def time_sequence(run: Run, flow: int = 0) -> dict:
    """Sequence number of each segment that is not a retransmission, kbyte."""
    view = flow_view.FlowView(run, flow)
    first = ~view.is_retransmit
    return {"t": view.segment_s[first].tolist(), "y": (view.segment_seq[first] / 1e3).tolist()}


def acknowledged(run: Run, flow: int = 0) -> dict:
    """Payload acknowledged in order, at each ACK that the sender receives, kbyte."""
    view = flow_view.FlowView(run, flow)
    return {"t": view.ack_s.tolist(), "y": (view.ack_bytes / 1e3).tolist()}


def cwnd(run: Run, flow: int = 0) -> dict:
    """cwnd at each ACK, segments.  Without the sender's capture, t counts from the first ACK."""
    times, segments = windows(run, flow)
    start = flow_view.FlowView(run, flow).start_ns if has_capture(run, "sender") \
        else min(times, default=0)
    return {"t": ((times - start) / 1e9).tolist(), "y": segments.tolist()}


# ---- formulas that need no run ---------------------------------------------

def ideal_transfer_s(scenario: Scenario, flow: int = 0) -> float:
    """Marchese's ideal transfer time, s: one RTT, and the payload at the rate less headers and loss."""
    through = 1.0
    for stage in (hop.forward for hop in scenario.hops):
        through *= 1 - stage.loss_pct / 100
        through *= 1 - (stage.errors.mean_loss(scenario.mtu) if stage.errors else 0)
    return scenario.flows[flow].bytes * 8 / (scenario.net_rate_bps * through) + scenario.base_rtt_s


def ideal_throughput_per_flow_kbyte(scenario: Scenario) -> float:
    """The mean size of the flows divided by the time that all flows together need, kbyte/s.

    The flows share the bottleneck.
    """
    whole = sum(flow.bytes for flow in scenario.flows)
    took = whole * 8 / scenario.net_rate_bps + scenario.base_rtt_s
    return whole / len(scenario.flows) / took / 1e3


def ideal_throughput_overall_kbyte(scenario: Scenario) -> float:
    """ideal_throughput_per_flow_kbyte() times the number of flows."""
    return ideal_throughput_per_flow_kbyte(scenario) * len(scenario.flows)


def _by_name(*functions) -> dict:
    """Name -> function.  Raises LabError if two functions have the same name."""
    by_name = {}
    for function in functions:
        if function.__name__ in by_name:
            raise LabError(f"two metrics are called {function.__name__}")
        by_name[function.__name__] = function
    return by_name


METRICS = _by_name(
    transfer_s, throughput_kbyte, goodput_mbit, goodput_kbyte, utilisation, time_to_goodput, rtt_ms,
    retransmits, timeouts, peak_sent_kbyte, mean_transfer_s, throughput_per_flow_kbyte,
    throughput_overall_kbyte, aggregate_goodput_mbit, flow_share, jain,
    *fairness.METRICS, *pages.METRICS, *received.METRICS, *shares.METRICS)
SERIES = _by_name(
    short_time_goodput, sent_kbyte, time_sequence, acknowledged, cwnd, *pages.SERIES, *received.SERIES)
FORMULAS = _by_name(
    ideal_transfer_s, ideal_throughput_per_flow_kbyte, ideal_throughput_overall_kbyte)


def find(name: str):
    """The metric or series of this name."""
    return METRICS.get(name) or SERIES[name]


# Argument of a metric or series -> its type.
_FLOW, _TIME_S, _SPAN_S = whole(0, 10**4), real(0, 1e6), real(0.001, 1e6)
ARGUMENTS = {
    "flow": _FLOW, "flows": tuple[_FLOW, ...] | None, "hop": Name, "since": one_of("syn", "data"),
    "at_s": _SPAN_S, "from_s": _TIME_S, "to_s": _SPAN_S | None, "window_s": _SPAN_S, "every_s": _SPAN_S,
    "share": real(0.001, 1), "of_mbit": real(0.001, 1e6) | None, "kbyte": whole(1, 10**6),
    "statistic": Line, "source": Name, "other": Name,
    "most_segments": whole(1, 10**6) | None, "sacked": Flag}


@functools.cache
def arguments_of(name: str) -> type[schema.Table]:
    """The schema of the arguments of a metric or series."""
    taken = list(inspect.signature(find(name)).parameters.values())[1:]
    return dataclasses.make_dataclass(name, [
        (one.name, ARGUMENTS[one.name], dataclasses.field(
            **{} if one.default is one.empty else {"default": one.default}))
        for one in taken], bases=(schema.Table,), frozen=True)
