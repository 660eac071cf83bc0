# SPDX-License-Identifier: GPL-2.0
"""Calibrate the emulated link: compare each kind of stage with its scenario, by packets of known times.

A probe (guest/probe.c) sends UDP packets at set times and records the kernel's time stamp of each packet
that arrives.  A check plays one or more probes and returns rows, each with the measured value, the
expected value, and the interval that must contain the measured one.  --full sends more packets.

    python3 -m bench calibrate [--full] [--kernel 6.1] [--json FILE]

Times are ns of the guest's clock; delays in the rows are us.  A random figure shows its 99 % interval,
but its row fails only outside the interval of 1 - 1e-5.  Each change of the image changes the random
numbers, and with a dozen such figures one is outside its 99 % interval in about one of ten images.
"""

import dataclasses
import json
import math
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from ..errors import LabError
from ..lab import job
from ..lab.play import Lab
from ..record.run import Run
from ..scenario import satellite, scenario
from ..scenario.scenario import ETHERNET_BYTES
from . import metrics

PORT = 7000
SHORT, FULL = 1, 10             # scale of the number of packets
PACKET_BYTES = 1500
FRAME_BYTES = PACKET_BYTES + ETHERNET_BYTES
DELAY_US = 10                   # tolerance of a delay
# Each has two values: for the interval that a row shows, and for that outside which it fails.  BEYOND is
# the probability outside the interval, Z the half-width of a normal distribution's in standard
# deviations, KS the limit of Kolmogorov and Smirnov's D * sqrt(n).
BEYOND, Z, KS = (1e-2, 1e-5), (2.576, 4.417), (1.63, 2.47)
QUIET_S = 3                     # between the start of the flows and that of the probe, about
RECORD = np.dtype([("number", "i8"), ("sent", "i8"), ("received", "i8"), ("bytes", "i8")])


@dataclass(frozen=True)
class Row:
    """One figure and the interval that must contain it.

    For a random figure low and high are its 99 % interval, and the row fails only outside `limits`, the
    wider interval of 1 - 1e-5.
    """

    what: str
    unit: str
    measured: float
    expected: float
    low: float
    high: float
    limits: tuple[float, float] | None = None

    @property
    def passed(self) -> bool:
        low, high = self.limits or (self.low, self.high)
        return bool(low <= self.measured <= high)

    def __str__(self) -> str:
        wider = f"; it fails outside {self.limits[0]:g} to {self.limits[1]:g}" if self.limits else ""
        return (f"{self.what}: {self.measured:g} {self.unit}, expected {self.expected:g} "
                f"({self.low:g} to {self.high:g}{wider})")


def near(what: str, unit: str, measured: float, expected: float, tolerance: float) -> Row:
    """A figure that must be within the tolerance of the expected one."""
    return Row(what, unit, float(measured), float(expected), expected - tolerance, expected + tolerance)


def none(what: str, measured: int) -> Row:
    """A count that must be 0."""
    return Row(what, "", int(measured), 0, 0, 0)


def normal(what: str, unit: str, measured: float, expected: float, deviation: float,
           uncertainty: float = 0) -> Row:
    """A figure with a normal distribution.

    deviation: its standard deviation.  uncertainty: that of the expected value.
    """
    (low, high), limits = (
        (expected - z * deviation - uncertainty, expected + z * deviation + uncertainty) for z in Z)
    return Row(what, unit, float(measured), float(expected), low, high, limits)


def binomial(what: str, hits: int, n: int, p: float) -> Row:
    """The hits among n draws of probability p, in percent, with their exact intervals."""
    k = np.arange(n + 1)
    log_choose = math.lgamma(n + 1) - np.array([math.lgamma(i + 1) + math.lgamma(n - i + 1) for i in k])
    below = np.cumsum(np.exp(log_choose + k * math.log(p) + (n - k) * math.log1p(-p)))
    (low, high), limits = (tuple(100 * np.searchsorted(below, [beyond / 2, 1 - beyond / 2]) / n)
                           for beyond in BEYOND)
    return Row(f"{what} ({n} draws)", "%", 100 * hits / n, 100 * p, low, high, limits)


@dataclass(frozen=True)
class Train:
    """A train of `count` packets of `bytes` bytes of IP, one every gap_ns."""

    count: int
    bytes: int
    gap_ns: float


@dataclass(frozen=True)
class Probe:
    """The trains of a probe, and their packets that arrived."""

    run: Run
    trains: tuple[Train, ...]
    arrived: np.ndarray             # RECORDs in the order of arrival

    @property
    def count(self) -> int:
        return sum(train.count for train in self.trains)

    @property
    def sizes(self) -> np.ndarray:
        """Bytes of each sent packet, by its number."""
        return np.repeat([train.bytes for train in self.trains], [train.count for train in self.trains])

    @cached_property
    def delay_ns(self) -> np.ndarray:
        """One-way delay of each sent packet, by its number; nan for a lost packet."""
        delay = np.full(self.count, np.nan)
        delay[self.arrived["number"]] = self.arrived["received"] - self.arrived["sent"]
        return delay

    @cached_property
    def sent_ns(self) -> np.ndarray:
        """Time at which each packet was sent, by its number.

        For a lost packet it is interpolated between the neighbours that arrived.
        """
        first = self.arrived["sent"].min()         # ns since the epoch are too large for a float
        return first + np.interp(np.arange(self.count), np.sort(self.arrived["number"]),
                                 np.sort(self.arrived["sent"] - first)).astype("i8")

    @property
    def lost(self) -> np.ndarray:
        return np.isnan(self.delay_ns)

    @property
    def reordered(self) -> int:
        return int((np.diff(self.arrived["number"]) < 0).sum())

    def rate_bps(self, skip: int, overhead: int = 0) -> float:
        """Rate from the arrival number `skip` to the last one, bit/s.

        overhead: bytes of each packet beside those of IP.
        """
        arrived = self.arrived[skip:]
        bits = (arrived["bytes"][1:] + overhead).sum() * 8
        return bits / ((arrived["received"][-1] - arrived["received"][0]) / 1e9)

    def link(self, hop: str = "link", side: str = "forward") -> dict:
        """satlink's counters."""
        return self.run.json(satellite.result_name(hop, side))

    def log(self, hop: str = "link", side: str = "forward") -> np.ndarray:
        """satlink's log, with a row of integers for each line."""
        text = self.run.read(satellite.result_name(hop, side).removesuffix(".json") + ".csv").decode()
        lines = text.splitlines()[1:]
        return np.array([[int(field) for field in line.split(",")] for line in lines], "i8")


def play(lab: Lab, stage: dict, trains: list[Train], *, reverse: dict | None = None,
         back: bool = False, drain_s: float = 1) -> Probe:
    """Send trains over one hop, `link`, and return the arrivals.

    stage, reverse: the hop's stages, as a scenario file has them.
    back: send from the receiver, over the reverse stage.
    drain_s: time for the last packets to arrive.
    Raises LabError if fewer than two packets arrive.
    """
    base = scenario.from_dict({
        "title": "calibration", "capture": False, "trace": [],
        "hop": [{"name": "link", "forward": stage, "reverse": reverse or {}}],
        # A run must have a flow; the probe starts after the flow's last packets.
        "flow": [{"cc": "reno", "bytes": 1}]})
    here, sending = ("receiver", "sender") if back else ("sender", "receiver")
    address = job.host_address(base, "sender") if back else job.receiver_address(base)
    words = " ".join(f"{train.count} {train.bytes} {round(train.gap_ns)}" for train in trains)
    base = dataclasses.replace(base, after=(
        f"as_ns {sending} probe recv {PORT} $OUT/probe.bin &", "probe=$!", f"sleep {QUIET_S}",
        f"in_ns {here} probe send {address} {PORT} {words}",
        f"sleep {drain_s:g}", "kill $probe", "wait $probe"))
    run = lab.run(base)
    arrived = np.frombuffer(run.read("probe.bin"), RECORD)
    if len(arrived) < 2:
        raise LabError("the probe's packets did not arrive")
    return Probe(run, tuple(trains), arrived)


def rig_ns(lab: Lab, trains: list[Train]) -> np.ndarray:
    """The delay of each packet without a stage, which is that of the test setup (the rig)."""
    return play(lab, {}, trains).delay_ns


# -- the checks ----------------------------------------------------------------

def delay(lab: Lab, scale: int) -> list[Row]:
    """A fixed delay of netem and of satlink, less the rig's own delay."""
    # The rig has one processor, so with this gap no packet leaves while another arrives.
    trains = [Train(100 * scale, 60, 3.17e6), Train(100 * scale, PACKET_BYTES, 3.17e6)]
    rig = rig_ns(lab, trains)
    rows = [Row("the rig, no stage: the slowest packet", "us", rig.max() / 1e3, 0, 0, 20)]
    for name, stage in (("netem", {"delay_ms": 300}), ("satlink", {"delay_series": [[0, 300]]})):
        probe = play(lab, stage, trains)
        off = (probe.delay_ns - 300e6 - rig) / 1e3
        rows += [near(f"{name}, 300 ms: mean beside it", "us", off.mean(), 0, DELAY_US),
                 near(f"{name}, 300 ms: 99th percentile beside it", "us",
                      np.percentile(abs(off), 99), 0, DELAY_US),
                 none(f"{name}: lost or out of order", probe.lost.sum() + probe.reordered)]
    off = (play(lab, {"delay_series": [[0, 0]]}, trains).delay_ns - rig) / 1e3
    rows.append(Row("satlink, no delay to take its own time off", "us", np.percentile(off, 99),
                    17, 0, 25))
    return rows


def jitter(lab: Lab, scale: int) -> list[Row]:
    """netem's jitter is uniform; packets overtake only if they are closer together than it is long."""
    least, most = 20, 30
    wide, close = 1.1 * (most - least) * 1e6, 0.3 * (most - least) * 1e6
    trains = [Train(300 * scale, 600, wide), Train(100 * scale, 600, close)]
    probe = play(lab, {"delay_ms": least, "jitter_ms": most - least}, trains)
    off = (probe.delay_ns - rig_ns(lab, trains)) / 1e6
    n, apart = len(off), probe.arrived["number"] < trains[0].count
    return [Row("the smallest delay", "ms", off.min(), least, least - DELAY_US / 1e3, least + 0.5),
            Row("the largest delay", "ms", off.max(), most, most - 0.5, most + DELAY_US / 1e3),
            normal("the mean delay", "ms", off.mean(), (least + most) / 2,
                   (most - least) / math.sqrt(12 * n), DELAY_US / 1e3),
            none("out of order, 11 ms apart",
                 (np.diff(probe.arrived["number"][apart]) < 0).sum() + probe.lost.sum()),
            Row("out of order, 3 ms apart", "", (np.diff(probe.arrived["number"][~apart]) < 0).sum(),
                trains[1].count / 4, 1, trains[1].count)]


def rate(lab: Lab, scale: int) -> list[Row]:
    """The rates of a bottleneck and of another one in the reverse direction of the same hop."""
    rows, mbits = [], {"forward": 10, "reverse": 0.25}
    forward, reverse = ({"rate_mbit": mbit, "queue_packets": 50} for mbit in mbits.values())
    for side, mbit in mbits.items():
        gap = FRAME_BYTES * 8 / (1.2 * mbit) * 1e3
        probe = play(lab, forward, [Train(400 * scale, PACKET_BYTES, gap)], reverse=reverse,
                     back=side == "reverse", drain_s=5)
        rows += [near(f"{side}, overloaded", "Mbit/s", probe.rate_bps(10, ETHERNET_BYTES) / 1e6,
                      mbit, mbit * 1e-3),
                 none(f"{side}: out of order", probe.reordered)]
    return rows


def queue(lab: Lab, _scale: int) -> list[Row]:
    """The number of packets of a burst that a queue accepts.

    The burst ends before a second packet can leave.  A longer one would show no more, so --full has the
    same burst.
    """
    burst = 100
    slots = {"kind": "tdma", "phase_ms": 400}
    rows = []
    for name, stage, size, holds in (
            # The first packet leaves at once.
            ("pfifo, 40 packets", {"rate_mbit": 2, "queue_packets": 40}, PACKET_BYTES, 41),
            ("satlink, 20 packets", {"mac": {**slots, "queue_packets": 20}}, PACKET_BYTES, 20),
            ("satlink, 30000 bytes", {"mac": {**slots, "queue_bytes": 30_000}}, 700, 42)):
        probe = play(lab, stage, [Train(burst, size, 0)], drain_s=20)
        rows.append(near(f"{name}: taken of {burst} at once", "packets", len(probe.arrived),
                         holds, 0))
        if "mac" in stage:
            counters = probe.link()
            rows.append(none("of those lost, not counted by satlink",
                             probe.lost.sum() - counters["queue_drops"] - counters["error_losses"]))
    return rows


def slot_model(mac: satellite.Mac, arrivals: np.ndarray, sizes: np.ndarray):
    """A second implementation of guest/satlink.c's time slots and bandwidth on demand.

    It goes from super-frame to super-frame, with cumulative bytes, and has no queue limit.
    arrivals: ns since time zero.  sizes: bytes.
    Returns (departure of each packet in ns since time zero, [(super-frame, request, slots)]).
    """
    frame_ns = mac.superframe_ms * 1e6
    first = mac.phase_ms * 1e6
    total = mac.multiframes * mac.slots
    ends = np.cumsum(sizes)                     # position of each packet's last byte in the stream
    per_slot = mac.multiframes * mac.slot_bytes

    def came_by(t):
        number = np.searchsorted(arrivals, t, side="left")
        return ends[number - 1] if number else 0

    leaves, log, sent, grants = np.full(len(sizes), np.nan), [], 0, {}
    for n in range(math.ceil((arrivals[-1] - first) / frame_ns) + 200):
        start = first + n * frame_ns
        have = {k: mac.static_slots + grants.get(k, 0) for k in range(n, n + mac.lag)}
        arrived = came_by(start) - came_by(start - frame_ns if n else 0)
        queued = came_by(start) - sent
        asked = arrived + max(0, queued - arrived - sum(have.values()) * per_slot)
        request = max(0, min(math.ceil(asked / per_slot), mac.cap_slots) - mac.static_slots)
        grants[n + mac.lag] = request
        log.append((n, request, have[n]))
        for slot in range(total):
            if slot * have[n] // mac.slots == (slot + 1) * have[n] // mac.slots:
                continue
            begins = start + slot * frame_ns / total
            reach = min(sent + mac.slot_bytes, came_by(begins))
            done = np.flatnonzero((ends > sent) & (ends <= reach))
            leaves[done] = begins + (ends[done] - sent) / mac.slot_bytes * mac.slot_ns
            sent = reach
        if sent == ends[-1]:
            break
    return leaves, log


def _slots(lab: Lab, mac: dict, trains: list[Train], name: str) -> list[Row]:
    probe = play(lab, {"mac": mac}, trains, drain_s=30)
    wanted = satellite.Mac(**mac)
    rig = rig_ns(lab, [Train(10, PACKET_BYTES, 1e6)]).mean()
    # Half of the rig's delay is before the link, half behind it.
    reached = probe.sent_ns - probe.link()["zero_ns"] + rig / 2
    leaves, log = slot_model(wanted, reached, probe.sizes)
    off = (reached + probe.delay_ns - rig - leaves) / 1e3
    slot_log = probe.log()
    requests = {(row[0], row[5], row[7]) for row in slot_log}
    late = slot_log[:, 6] - slot_log[:, 0]
    return [
        near(f"{name}: departure from its slot, 99th percentile", "us", np.percentile(abs(off), 99),
             0, DELAY_US),
        near(f"{name}: departure from its slot, worst", "us", abs(off).max(), 0, 5 * DELAY_US),
        none(f"{name}: super-frames with another request or grant", len(set(log) - requests)),
        near(f"{name}: from request to grant", "ms", np.unique(late).mean() * wanted.superframe_ms,
             math.ceil(wanted.allocation_ms / wanted.superframe_ms) * wanted.superframe_ms, 0),
        none(f"{name}: lost or out of order", probe.lost.sum() + probe.reordered)]


def slots(lab: Lab, scale: int) -> list[Row]:
    """TDMA: departures of packets from their slots, and the rate of the slots."""
    mac = {"kind": "tdma", "static_kbit": 440}
    rows = _slots(lab, mac, [Train(60 * scale, 1000, 29e6), Train(100 * scale, 300, 7e6)], "tdma")
    probe = play(lab, {"mac": {**mac, "queue_packets": 20}},
                 [Train(1600 * scale, PACKET_BYTES, 25e6)])
    kbit = satellite.Mac(**mac).ip_kbit(10)
    # The window has whole multi-frames, and each of them has the same number of bytes.
    rows.append(near("tdma, overloaded", "kbit/s", _whole_rate_bps(probe, mac) / 1e3, kbit, kbit * 1e-3))
    return rows


def _whole_rate_bps(probe: Probe, mac: dict, skip: int = 3) -> float:
    """Rate over the whole super-frames of an overloaded link, without the first few, bit/s.

    It counts the bytes that have arrived at the window's start and end.  Of the packet under way then it
    counts the part that has arrived.
    """
    wanted = satellite.Mac(**mac)
    frame_ns = wanted.superframe_ms * 1e6
    zero = probe.link()["zero_ns"] + wanted.phase_ms * 1e6
    received = probe.arrived["received"]
    first = math.ceil((received[0] - zero) / frame_ns) + skip
    last = math.floor((probe.sent_ns[-1] - zero) / frame_ns)
    ends = zero + np.array([first, last]) * frame_ns
    carried = np.interp(ends, received, np.cumsum(probe.arrived["bytes"]))
    return (carried[1] - carried[0]) * 8 / ((last - first) * frame_ns / 1e9)


def demand(lab: Lab, scale: int) -> list[Row]:
    """Bandwidth on demand: requests, grants and departures of a stream that rises and stops, and the
    largest rate."""
    mac = {"kind": "bod"}
    trains = [Train(40 * scale, PACKET_BYTES, 41e6), Train(100 * scale, 1100, 13e6),
              Train(3, 200, 2.1e9), Train(60 * scale, PACKET_BYTES, 19e6)]
    rows = _slots(lab, mac, trains, "bod")
    # iperf's packets at 2 Mbit/s of payload: Caini et al. 2008, 4.1, saw 48 % of them lost.
    probe = play(lab, {"mac": {**mac, "queue_bytes": 400_000}},
                 [Train(4000 * scale, 1498, 1470 * 8 / 2e6 * 1e9)], drain_s=5)
    kbit = satellite.Mac().ip_kbit(26)
    rows.append(near("bod, overloaded", "kbit/s", _whole_rate_bps(probe, mac, 6) / 1e3, kbit,
                     kbit * 1e-3))
    late = probe.lost[probe.count // 2:]
    rows.append(near("bod, 2 Mbit/s offered: lost", "%", 100 * late.mean(), 48, 1.5))
    return rows


def losses(lab: Lab, scale: int) -> list[Row]:
    """Independent losses: netem loses packets, satlink has bit errors."""
    n = 2000 * scale
    probe = play(lab, {"loss_pct": 5}, [Train(n, 60, 3e5)])
    rows = [binomial("netem, 5 %", probe.lost.sum(), n, 0.05)]
    ber = 1e-5
    probe = play(lab, {"errors": {"ber": ber}}, [Train(n, PACKET_BYTES, 3e5), Train(n, 60, 3e5)])
    for size in (PACKET_BYTES, 60):
        p = -math.expm1(8 * size * math.log1p(-ber))
        lost = probe.lost[probe.sizes == size].sum()
        rows.append(binomial(f"bit errors 1e-5, {size} bytes", lost, n, p))
    rows.append(none("out of order", probe.reordered))
    return rows


def fades(lab: Lab, scale: int) -> list[Row]:
    """Fades: share and lengths of the states, and whether the losses agree with satlink's log."""
    good_s, bad_s = 0.4, 0.1
    probe = play(lab, {"errors": {"good_s": good_s, "bad_s": bad_s}},
                 [Train(4000 * scale, 60, 15e6)])
    counters = probe.link()
    spans = probe.log()
    long_s = np.diff(spans, axis=1)[:, 0] / 1e9
    gaps_s = (spans[1:, 0] - spans[:-1, 1]) / 1e9
    seconds = spans[-1, 1] / 1e9
    share = bad_s / (good_s + bad_s)
    # The deviation of an on-off process with exponential times; its correlation decays with tau.
    tau = good_s * bad_s / (good_s + bad_s)
    rows = [normal("share of time in fades", "%", 100 * long_s.sum() / seconds, 100 * share,
                   100 * math.sqrt(2 * share * (1 - share) * tau / seconds))]
    for name, lengths, mean in (("fade", long_s, bad_s), ("time between", gaps_s, good_s)):
        n = len(lengths)
        rows.append(normal(f"mean {name} ({n} of them)", "s", lengths.mean(), mean,
                           mean / math.sqrt(n)))
        cdf = -np.expm1(-np.sort(lengths) / mean)
        d = max((np.arange(1, n + 1) / n - cdf).max(), (cdf - np.arange(n) / n).max())
        rows.append(Row(f"{name}: D from exponential, times root n", "", d * math.sqrt(n), 0, 0, KS[0],
                        (0, KS[1])))
    at = probe.sent_ns - counters["zero_ns"] + 10_000        # about the time when satlink has the packet
    edges = spans.ravel()
    faded = np.searchsorted(edges, at, side="right") % 2 == 1
    after = np.clip(np.searchsorted(edges, at), 1, len(edges) - 1)
    nearest = np.minimum(abs(edges[after] - at), abs(edges[after - 1] - at))
    clear = (nearest > 50_000) & (at < edges[-1])
    rows.append(none("packets whose fate is not the log's", (faded != probe.lost)[clear].sum()))
    return rows


def coded_frames(lab: Lab, scale: int) -> list[Row]:
    """Errors by coded frame: share of lost packets, and whether a frame's packets are lost together."""
    size, frame_ms, p = 6075, 5.0, 0.05
    took = PACKET_BYTES / size * frame_ms * 1e6
    errors = {"frame_bytes": size, "frame_ms": frame_ms, "frame_loss_pct": 100 * p}
    probe = play(lab, {"errors": errors}, [Train(4000 * scale, PACKET_BYTES, took)])
    ends = probe.sent_ns + 10_000 - probe.link()["zero_ns"]
    frame = ends // (frame_ms * 1e6)
    margin = 20_000
    into = ends - frame * frame_ms * 1e6
    whole = (into >= took + margin) & (into < frame_ms * 1e6 - margin)
    names, index = np.unique(frame[whole], return_inverse=True)
    lost = np.bincount(index, probe.lost[whole])
    mixed = (lost > 0) & (lost < np.bincount(index))
    return [binomial("frames lost, by the packets inside", (lost > 0).sum(), len(names), p),
            none("frames with only some of their packets lost", mixed.sum()),
            # A packet in two frames is lost if either is.
            normal("packets lost", "%", 100 * probe.lost.mean(),
                   100 * (p + PACKET_BYTES / size * p * (1 - p)),
                   100 * (p + PACKET_BYTES / size * p) / math.sqrt(len(names) * p))]


def steps(lab: Lab, scale: int) -> list[Row]:
    """A delay that changes: late packets hold up those behind them, and no packet overtakes."""
    series = [[0, 20], *([QUIET_S + at, ms] for at, ms in ((1.5, 50), (2, 20), (2.5, 35), (3, 15)))]
    gap = 6.1e-3 / scale
    trains = [Train(550 * scale, 600, gap * 1e9)]
    probe = play(lab, {"delay_series": series}, trains)
    rig = rig_ns(lab, trains)
    reached = probe.sent_ns - probe.link()["zero_ns"] + 10_000
    at, ms = np.array(series).T
    due = reached + ms[np.searchsorted(at * 1e9, reached, side="right") - 1] * 1e6
    off = (probe.delay_ns + reached - rig - np.maximum.accumulate(due)) / 1e3
    # After a step down several packets are due at once, and each adds the rig's time to the next one's.
    held = due < np.maximum.accumulate(due)
    return [near("delay beside the series, 99th percentile", "us", np.percentile(abs(off[~held]), 99),
                 0, DELAY_US),
            # The steps down are 50 ms in all.
            near("packets held up behind slower ones", "", held.sum(), 0.05 / gap, 2),
            none("lost or out of order", probe.lost.sum() + probe.reordered)]


def red(lab: Lab, scale: int) -> list[Row]:
    """RED's formula: the average queue under a constant overload.

    A constant overload of f loses r = 1 - 1/f in the long run.  RED drops the k-th packet after a drop,
    with k uniform over 1 .. 1/p, so r = 2p/(1 + p).  p rises from 0 at min to max_p at max, which gives
    the average queue.
    """
    mbit, low, high, most = 2, 10, 40, 0.1
    # With this weight the average has settled after a third of the packets.
    stage = {"rate_mbit": mbit, "queue_packets": 400, "aqm": "red",
             "red": {"min_packets": low, "max_packets": high, "probability": most, "weight": 1 / 128}}
    rows = []
    for over in (1.04, 1.1):
        gap = FRAME_BYTES * 8 / (over * mbit) * 1e3
        probe = play(lab, stage, [Train(3000 * scale, PACKET_BYTES, gap)], drain_s=3)
        r = 1 - 1 / over
        p = r / (2 - r)
        expected = low + (high - low) * p / most
        settled = slice(probe.count // 3, None)
        # A packet waits for the whole queue, whose first packet is half sent on average.
        average = np.nanmean(probe.delay_ns[settled]) / 1e9 * mbit * 1e6 / 8 / FRAME_BYTES - 0.5
        # The deviation of gaps uniform over 1 .. 1/p is 1/sqrt(3) of their mean.  The part of the first
        # packet that has been sent is known to a quarter.
        deviation = (expected - low) / math.sqrt(3 * probe.lost[settled].sum())
        rows += [near(f"overload {over:g}: lost", "%", 100 * probe.lost[settled].mean(), 100 * r,
                      100 * 0.1 * r),
                 normal(f"overload {over:g}: average queue", "packets", average, expected, deviation,
                        uncertainty=0.25)]
    return rows


def speed(lab: Lab, _scale: int) -> list[Row]:
    """How much of a fast bottleneck a TCP flow fills, with 20 ms and a queue of one BDP.

    UDP packets cross a bottleneck of 400 Mbit/s at its rate.  What a flow leaves is the time that the
    guest's one processor needs for the work of both ends.
    """
    rows, rtt_ms = [], 20
    for mbit, least_pct in ((100, 98), (250, 93), (400, 80)):
        bdp = round(mbit * 1e3 * rtt_ms / 8 / FRAME_BYTES)
        run = lab.run(scenario.from_dict({
            "title": "calibration", "trace": [], "captures": ["sender"],
            "hop": [{"name": "gateway", "forward": {"rate_mbit": mbit, "queue_packets": bdp}},
                    {"name": "satellite", "forward": {"delay_ms": rtt_ms / 2},
                     "reverse": {"delay_ms": rtt_ms / 2}}],
            "flow": [{"cc": "cubic", "seconds": 4}]}))
        rows.append(Row(f"a cubic flow at {mbit} Mbit/s: filled", "%",
                        100 * metrics.utilisation(run, from_s=2, to_s=4), 100, least_pct, 101))
    return rows


CHECKS = (delay, jitter, rate, queue, slots, demand, losses, fades, coded_frames, steps, red, speed)


def rows(lab: Lab, scale: int) -> list[dict]:
    """The rows of all checks: check, what, unit, measured, expected, low, high, passed (see Row)."""
    return [{"check": check.__name__, "what": row.what, "unit": row.unit, "passed": row.passed,
             **{name: float(getattr(row, name)) for name in ("measured", "expected", "low", "high")}}
            for check in CHECKS for row in check(lab, scale)]


def show(kernel: str, full: bool, json_file: Path | None) -> int:
    """Calibrate, and print the rows.  Returns the exit status."""
    try:
        lab = Lab(kernel, extras=("papers",))
        results = rows(lab, FULL if full else SHORT)
    except LabError as error:
        print(f"calibrate: {error}", file=sys.stderr)
        return 2
    table = Table(title=f"The link, kernel {lab.image.release}")
    figures = ("measured", "expected", "low", "high")
    for name in ("check", "what", *figures, "unit", "verdict"):
        table.add_column(name, justify="right" if name in figures else "left")
    for row in results:
        usual = row["low"] <= row["measured"] <= row["high"]
        verdict = ("ok" if usual else "ok, beyond 99 %") if row["passed"] else "[red]not ok[/red]"
        table.add_row(row["check"], row["what"], *(f"{row[figure]:.6g}" for figure in figures),
                      row["unit"], verdict)
    Console(width=150).print(table)
    if json_file:
        json_file.write_text(json.dumps(results, indent=1))
    return 0 if all(row["passed"] for row in results) else 1
