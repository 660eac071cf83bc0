# SPDX-License-Identifier: GPL-2.0
"""Metrics at the receiver, for a user behind a proxy.

A proxy that splits a connection also hides its far end from the sender's capture and TCP_INFO.  So these
functions read the receiver's capture, except owin_kbyte().  Payload counts when the application has it,
that is, in order (received.arrivals()).  Times are s since the arrival of the connection's first SYN; a
kbyte has 1000 bytes.
"""

from __future__ import annotations

import numpy as np

from ..errors import LabError
from ..record import pcap
from ..record.run import Run
from . import flow_view, received


def _from(run: Run, flow: int) -> range:
    """A flow and the flows after it; an earlier flow may belong to another part of the experiment."""
    return range(flow, len(run.scenario.flows))


def _application_bytes(run: Run, flow: int) -> tuple[np.ndarray, np.ndarray]:
    """(times in s, bytes that the application has by then)."""
    arrivals = received.arrivals(run, flow)
    return arrivals.t, arrivals.in_order


# ---- transfers of a size ---------------------------------------------------

def download_s(run: Run, flow: int = 0) -> float | None:
    """Time from the SYN's arrival to that of the last byte, s (Pirovano & Garcia's TCPMeter, 4.2 c)."""
    t, total = _application_bytes(run, flow)
    at = np.searchsorted(total, run.scenario.flows[flow].bytes)
    return float(t[at]) if at < len(t) else None


def download_kbyte(run: Run, flow: int = 0) -> float | None:
    """A transfer's size divided by download_s(), kbyte/s: Pirovano & Garcia's goodput (5.1)."""
    took = download_s(run, flow)
    return None if took is None else run.scenario.flows[flow].bytes / took / 1e3


def total_download_kbyte(run: Run, flow: int = 0) -> float | None:
    """Sum of the goodputs of a flow and the flows after it, kbyte/s.

    It is the aggregate goodput of Pirovano & Garcia, formula 1.
    """
    rates = [download_kbyte(run, number) for number in _from(run, flow)]
    return None if None in rates else sum(rates)


def download_jain(run: Run, flow: int = 0) -> float | None:
    """Jain's index of the goodputs of a flow and the flows after it (Pirovano & Garcia, formula 2)."""
    rates = [download_kbyte(run, number) for number in _from(run, flow)]
    return None if None in rates else flow_view.jain(rates)


# ---- transfers of a length -------------------------------------------------

def download_mbit(run: Run, flow: int = 0) -> float:
    """Payload rate over the flow's `seconds`, Mbit/s; iperf's server reports the same."""
    seconds = run.scenario.flows[flow].seconds
    return float(received.bytes_by(*_application_bytes(run, flow), seconds)) * 8 / seconds / 1e6


def total_received_mbit(run: Run, flow: int = 0) -> float:
    """Sum of download_mbit() of a flow and the flows after it."""
    return sum(download_mbit(run, number) for number in _from(run, flow))


def received_rate(run: Run, flow: int = 0) -> dict:
    """Payload that the application gets in each second, Mbit/s."""
    t, total = _application_bytes(run, flow)
    at = np.arange(1.0, run.scenario.flows[flow].seconds + 0.5)
    rate = (received.bytes_by(t, total, at) - received.bytes_by(t, total, at - 1)) * 8 / 1e6
    return {"t": at.tolist(), "y": rate.tolist()}


# ---- a web page ------------------------------------------------------------

def page_s(run: Run, flow: int = 0) -> float | None:
    """The page's load time: from the client's first SYN to the last byte of the last object, s."""
    port = flow_view.FIRST_PORT + flow
    packets = run.receiver
    asked = packets.where((packets.dport == port) & (packets.flags & pcap.SYN > 0))
    replied = packets.where((packets.sport == port) & (packets.length > 0))
    acked = packets.where((packets.dport == port) & (packets.flags & (pcap.SYN | pcap.RST) == 0))
    if not len(asked) or not len(replied):
        return None
    if len(np.unique(asked.sport)) > 1:
        raise LabError(f"flow {flow}: more than one connection carried the page")
    # The page ends at the last reply's end.  It is complete when the client has acknowledged that byte.
    ends = replied.seq + replied.length
    last = pcap.unwrap(ends, int(replied.seq[0])).max()
    total = np.maximum.accumulate(pcap.unwrap(acked.ack, int(replied.seq[0])))
    at = np.searchsorted(total, last)
    if at == len(total) or last < sum(run.scenario.flows[flow].objects):
        return None
    return float(acked.t[at] - asked.t[0]) / 1e9


def page_kbyte(run: Run, flow: int = 0) -> float | None:
    """The objects' total size divided by page_s(), kbyte/s."""
    took = page_s(run, flow)
    return None if took is None else sum(run.scenario.flows[flow].objects) / took / 1e3


# ---- at the sender ---------------------------------------------------------

def owin_kbyte(run: Run, flow: int = 0, statistic: str = "mean") -> float:
    """Outstanding data as tcptrace defines it, kbyte: data that is sent and not acknowledged.

    It is sampled at each segment with payload in the sender's capture.
    statistic: "mean" or "max".
    """
    view = flow_view.FlowView(run, flow)
    high = np.maximum.accumulate(view.segment_seq + view.segment_len)
    before = np.searchsorted(view.ack_s, view.segment_s, side="right")
    outstanding = high - np.concatenate([[0], view.ack_bytes])[before]
    functions = {"mean": np.mean, "max": np.max}
    if statistic not in functions:
        raise LabError(f"no statistic {statistic!r} (there are: {', '.join(functions)})")
    return float(functions[statistic](outstanding)) / 1e3


METRICS = (download_s, download_kbyte, total_download_kbyte, download_jain, download_mbit,
           total_received_mbit, page_s, page_kbyte, owin_kbyte)
SERIES = (received_rate,)
