# SPDX-License-Identifier: GPL-2.0
"""Numbers of a run: pure functions of its files.

Times are seconds since the flow's first SYN unless a docstring says otherwise; sizes are payload bytes.
"""

import numpy as np

from ..errors import LabError
from ..record import pcap
from ..record.run import Run
from ..scenario import satellite
from ..scenario.scenario import ETHERNET_BYTES, FIRST_PORT

INFINITE_SSTHRESH = 0x7FFFFFFF


class FlowView:
    """One flow in the capture at its sender's interface."""

    def __init__(self, run: Run, number: int = 0):
        port = FIRST_PORT + number
        packets = run.sender
        # iperf3 has a second connection for control messages.
        to_port = packets.dport == port
        if not to_port.any():
            raise LabError(f"flow {number} sent nothing")
        ports, index = np.unique(packets.sport[to_port], return_inverse=True)
        local = ports[np.bincount(index, packets.length[to_port]).argmax()]
        sent = packets.where(to_port & (packets.sport == local))
        back = packets.where((packets.sport == port) & (packets.dport == local))
        syns = np.flatnonzero(sent.flags & pcap.SYN)
        if not len(syns):
            raise LabError(f"flow {number} has no SYN in the capture")
        self.start_ns = int(sent.t[syns[0]])
        self.port = port
        self.syn = pcap.options(sent.raw[syns[0]])
        base = (int(sent.seq[syns[0]]) + 1) & 0xFFFFFFFF
        data = sent.where(sent.length > 0)
        self.segment_s = (data.t - self.start_ns) / 1e9
        self.segment_seq = pcap.unwrap(data.seq, base)
        self.segment_len = data.length
        high = np.maximum.accumulate(np.concatenate([[0], (self.segment_seq + data.length)[:-1]])) \
            if len(data) else np.zeros(0)
        self.is_retransmit = self.segment_seq < high
        acks = back.where((back.flags & pcap.ACK > 0) & (back.flags & (pcap.SYN | pcap.RST) == 0))
        self.ack_s = (acks.t - self.start_ns) / 1e9
        self.ack_bytes = np.maximum.accumulate(np.maximum(pcap.unwrap(acks.ack, base), 0)) \
            if len(acks) else np.zeros(0)

    def transfer_s(self, size: int) -> float | None:
        """Time from the first SYN to the ACK of byte `size`, or None if there is no such ACK."""
        at = np.searchsorted(self.ack_bytes, size)
        return float(self.ack_s[at]) if at < len(self.ack_s) else None

    def acked_by(self, seconds: float) -> int:
        """Bytes acknowledged within this many seconds of the first SYN."""
        at = np.searchsorted(self.ack_s, seconds, side="right")
        return int(self.ack_bytes[at - 1]) if at else 0

    def goodput_mbit(self, seconds: float) -> float:
        """Mean rate of acknowledged payload from the first SYN on."""
        return self.acked_by(seconds) * 8 / seconds / 1e6

    def goodput_series(self, end_s: float, window_s: float = 10.0):
        """Short-time goodput: (full seconds, Mbit/s acknowledged in the window before each).

        The default window is that of Caini et al. (2008, 4.2).  At the start it begins at the first SYN.
        """
        at = np.arange(1.0, end_s + 0.5)
        since = np.maximum(at - window_s, 0)
        acked = np.array([self.acked_by(t) - self.acked_by(s) for t, s in zip(at, since)])
        return at, acked * 8 / (at - since) / 1e6


def time_to_share(run: Run, share: float = 0.9) -> float | None:
    """End of the first window of one base RTT in which the bottleneck sent `share` of its rate.

    None if there is no such window.  It counts frames that leave the bottleneck, since in-order bytes
    at the receiver do not grow while a hole is open.
    """
    scenario = run.scenario
    stage = scenario.bottleneck[1]
    rate = stage.speed_mbit * 1e6 / 8
    window = scenario.base_rtt_s
    start = FlowView(run).start_ns
    t = (run.bottleneck.t - start) / 1e9
    # The rate of time slots is that of IP, a qdisc's has the Ethernet header too.
    total = np.cumsum(run.bottleneck.wire - (ETHERNET_BYTES if stage.mac else 0))
    before = np.searchsorted(t, t - window, side="right")      # frames older than the window
    inside = total - np.where(before > 0, total[np.maximum(before - 1, 0)], 0)
    reached = np.flatnonzero((inside >= share * rate * window) & (t >= window))
    return float(t[reached[0]]) if len(reached) else None


def _satlink(run: Run, hop: str, side: str = "forward") -> dict:
    """The counters of one direction of a satellite link."""
    return run.json(satellite.result_name(hop, side))


def queue_drops(run: Run) -> int:
    """Packets that the bottleneck's queue dropped."""
    number, stage = run.scenario.bottleneck
    name = run.scenario.hops[number].name
    if stage.mac:
        return _satlink(run, name)["queue_drops"]
    return run.qdisc(name, stage.queue_kind)["drops"]


def receiver_limited_s(run: Run, flow: int = 0) -> float:
    """Time that a flow's sender had data and cwnd but waited for the receiver's window, s."""
    return run.json(f"flow-{flow}.json")["rwnd_limited"] / 1e6


def link_losses(run: Run) -> int:
    """Packets that the emulated radio lost: netem's and satlink's."""
    lines = sum(entry["drops"] for hop in run.scenario.hops
                for entry in run.json(f"qdisc-{hop.name}.json") if entry["kind"] == "netem")
    return lines + sum(_satlink(run, hop, side)["error_losses"]
                       for hop, side, _ in satellite.links(run.scenario))


def utilisation(run: Run) -> float:
    """The bottleneck's sent bytes as a share of its capacity, from the first SYN to its last frame.

    The bytes are from the qdisc's or satlink's counter.
    """
    number, stage = run.scenario.bottleneck
    name = run.scenario.hops[number].name
    sent = _satlink(run, name)["out_bytes"] if stage.mac else run.qdisc(name, stage.queue_kind)["bytes"]
    seconds = (int(run.bottleneck.t[-1]) - FlowView(run).start_ns) / 1e9
    return sent * 8 / (stage.speed_mbit * 1e6 * seconds)


def cwnd_series(run: Run, number: int = 0):
    """(times in s, cwnd, ssthresh) at each ACK, before the kernel acts on it.

    An infinite ssthresh is nan.
    """
    view = FlowView(run, number)
    times, records = run.events["tcp:tcp_probe"]
    own = records["dport"] == view.port
    ssthresh = records["ssthresh"][own].astype(float)
    ssthresh[ssthresh >= INFINITE_SSTHRESH] = np.nan
    return ((times[own].astype("i8") - view.start_ns) / 1e9,
            records["snd_cwnd"][own].astype(int), ssthresh)


def jain(rates: list[float]) -> float | None:
    """Jain's fairness index: 1 if all rates are equal, 1/n if one flow has all; None if all are 0."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else None
