# SPDX-License-Identifier: GPL-2.0
"""Compare satcc_log's records with two other witnesses of the same flow: the core's event tcp:tcp_probe,
and the packets at the sender's interface.

    comparison = witnesses.compare(run)     # bench.record.run.Run
    comparison.differences          # Contradiction, the first of each check and flow, oldest first
    comparison.counts               # {"probe": 12_000, "delivered": ..., ...}: number of comparisons

    probe       if two records have the same cwnd, each probe between them has that cwnd, and the
                ssthresh that tcp_current_ssthresh() returns for it; the same holds for an unchanged
                srtt and snd_una; a probe's snd_una is never outside the two records'
    sums        in_flight is packets_out less sacked and lost, plus retransmitted
    out         packets_out is the number of the capture's segments between snd_una and snd_nxt
    delivered   it grows by the segments that the peer's ACKs cover, cumulatively or by SACK
    acked       the argument of cong_avoid() is the number of segments that the ACK newly covers
    filled      cwnd grows only if the capture's flight filled it in the last two round trips, by the
                kernel's rule; the check does not read the socket's flag
    rate        sk_pacing_rate follows from cwnd, mss and srtt as in the core
    paced       while the socket is paced, it sends at most what sk_pacing_rate allows, and a burst

A check runs if the run has the data it needs.  The checks by the capture need the flow's own socket at
that interface, not a proxy's with the same ports.  All but paced need a constant mss, to count the
segments of a large packet that the device cuts (TSO), and no segment dropped before the interface.
out, delivered and acked need a SYN without data.  delivered and acked need SACK, since the kernel
guesses without it.  filled needs segments that leave when TCP hands them over, so no fq qdisc.  It
leaves out the window of a cong_control() in CWR and Recovery, which follows a rule of the policy; the
policy's model checks that.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field

import numpy as np

from ..record import pcap
from . import satcc
from .calls import (
    CONG_AVOID, CONG_CONTROL, CWND_EVENT, CWR, DISORDER, INIT, IN_ACK_EVENT, LOSS, OPEN, PKTS_ACKED,
    RECOVERY, SET_STATE, SSTHRESH, STREAM, UNDO, names)
from .core import SYN_RECV, SYN_SENT, Wrong

PROBE = "tcp:tcp_probe"
INFINITE_RATE = (1 << 64) - 1
PACED_BY_FQ = 2                 # sk_pacing_status
UNPACED_SEGMENTS = 10           # the kernel begins to pace after these
PACING_SHIFT, TSO_RTT_LOG, TSO_SEGMENTS, GSO_MAX_BYTES = 10, 9, 2, 65536    # tcp_tso_autosize()
SLACK = 4                       # bursts, see paced()
RATE_ERROR = 1.25               # the sending rate over many segments, divided by sk_pacing_rate
START_PCT, AVOID_PCT = 200, 120     # net.ipv4.tcp_pacing_ss_ratio, _ca_ratio
# A policy whose own rule decides whether a flight fills cwnd: what may be missing, in segments and as a
# divisor of cwnd.
OWN_FILL = {"satcc": (satcc.SLACK, satcc.SLACK_DIVISOR)}


class Contradiction(Exception):
    """A check at which two witnesses of a flow differ, at the record `event`."""

    def __init__(self, check: str, policy: str, sport: int, event: int, t_ns: int, wrong: Wrong):
        self.check, self.policy, self.sport, self.event = check, policy, sport, event
        self.t_ns, self.wrong = t_ns, wrong
        super().__init__(f"{policy}, port {sport}, call {event} at {t_ns / 1e9:.6f} s, {check}: "
                         f"{wrong.what} should be {wrong.expected}, is {wrong.actual}\n"
                         f"  {wrong.because}")


@dataclass
class Comparison:
    """The result of compare()."""

    counts: dict = field(default_factory=dict)          # check -> number of comparisons
    differences: list = field(default_factory=list)     # Contradiction, oldest first


class FlowCalls:
    """The records of one flow under one policy, as columns of plain integers.

    If records of another policy lie between two of these, they are in two FlowCalls.
    socket: the records of the same socket under all its policies; it is None in that object itself.
    """

    socket = None

    def __init__(self, times, records, at, policy):
        own = records[at]
        self.t = np.asarray(times)[at].astype("i8")
        self.number, self.policy = at, policy
        self.records, self.columns = own, {}
        self.sport, self.dport = int(own["sport"][0]), int(own["dport"][0])
        self.cookie = int(own["cookie"][0])

    def __len__(self):
        return len(self.t)

    def __getattr__(self, name):
        column = self.__dict__["columns"].get(name)
        if column is None:
            kind = "u8" if name.startswith("pacing_rate") else "i8"
            column = self.columns[name] = self.records[name].astype(kind)
        return column

    def wrong(self, check, k, what, expected, actual, because="") -> Contradiction:
        return Contradiction(check, self.policy, self.sport, int(self.number[k]), int(self.t[k]),
                             Wrong(what, expected, actual, because))

    @property
    def established(self):
        return (self.tcp_state != SYN_SENT) & (self.tcp_state != SYN_RECV)

    @property
    def one_mss(self) -> int:
        """The mss in bytes, 0 if it changes."""
        sizes = np.unique(self.mss[self.established])
        return int(sizes[0]) if len(sizes) == 1 else 0


def flows(run):
    """Yield the FlowCalls of each flow under each of its policies."""
    times, records = run.events.get(STREAM, ((), np.zeros(0, np.dtype([]))))
    if not len(times):
        return
    of_policy = names(records)
    for cookie in np.unique(records["cookie"]):
        rows = np.flatnonzero(records["cookie"] == cookie)
        # A flow may return to a policy, so cut its records at each change of policy.
        socket = FlowCalls(times, records, rows, "")
        cuts = np.flatnonzero(of_policy[rows][1:] != of_policy[rows][:-1]) + 1
        for at in np.split(rows, cuts):
            flow = FlowCalls(times, records, at, str(of_policy[at[0]]))
            flow.socket = socket
            yield flow


def compare(run) -> Comparison:
    """Compare each record that has another witness."""
    comparison = Comparison()
    probes = run.events.get(PROBE)
    packets = run.sender if run.scenario.capture and "sender" in run.scenario.captures else None
    seen = {}                   # a flow's packets, by its ports
    for flow in flows(run):
        checks = [("sums", sums, ()), ("rate", rate, ())]
        if probes is not None:
            checks.append(("probe", probe, probes))
        ports = flow.sport, flow.dport
        if packets is not None:
            if ports not in seen:
                seen[ports] = Packets.of(packets, *ports, flow.one_mss)
            packets_ = seen[ports]
            if packets_ and packets_.are_of(flow):
                by_capture = [paced]
                if flow.one_mss == packets_.mss > 0 and packets_.complete:
                    if not packets_.fastopen:
                        by_capture += [out, delivered, acked]
                    if not (flow.pacing_status == PACED_BY_FQ).any():
                        by_capture.append(filled)
                checks += [(check.__name__, check, (packets_,)) for check in by_capture]
        for name, check, more in checks:
            compared, difference = check(flow, *more)
            comparison.counts[name] = comparison.counts.get(name, 0) + compared
            if difference:
                comparison.differences.append(difference)
    comparison.differences.sort(key=lambda difference: difference.t_ns)
    return comparison


# -- the records alone, and the core's own event ---------------------------------------------------
# A check returns (number of comparisons, Contradiction or None).

def sums(flow):
    """in_flight against the counters that it is the sum of."""
    expected = flow.packets_out - flow.sacked_out - flow.lost_out + flow.retrans_out
    return len(flow), _first(flow, "sums", "in_flight_old", flow.in_flight_old, expected,
                             "packets_out - sacked_out - lost_out + retrans_out")


def rate(flow):
    """sk_pacing_rate after an ACK with a cong_avoid(), as the next record has it."""
    if CONG_CONTROL in flow.call:
        return 0, None              # such a policy may set it itself
    k = np.flatnonzero(
        (flow.call[:-1] == CONG_AVOID) & (flow.srtt_us8[:-1] > 0) & flow.established[:-1]
        & (flow.ca_state[:-1] == OPEN) & (flow.ca_state_old[1:] == OPEN)
        & (flow.cwnd[:-1] == flow.cwnd_old[1:]) & (flow.ssthresh[:-1] == flow.ssthresh_old[1:]))
    percent = np.where(flow.cwnd[k] < flow.ssthresh[k] // 2, START_PCT, AVOID_PCT)
    each = flow.mss[k] * 80_000 * percent
    # An ACK of no data has the rate computed again, and packets_out may be larger then.
    most_out = np.maximum(flow.packets_out[k], flow.packets_out[k + 1])
    least = each * np.maximum(flow.cwnd[k], flow.packets_out[k]) // flow.srtt_us8[k]
    most = each * np.maximum(flow.cwnd[k], most_out) // flow.srtt_us8[k]
    actual = flow.pacing_rate_old[k + 1]
    bad = np.flatnonzero((actual < least.astype("u8")) | (actual > most.astype("u8")))
    if not len(bad):
        return len(k), None
    n = bad[0]
    return len(k), flow.wrong(
        "rate", k[n] + 1, "sk_pacing_rate", f"{least[n]} to {most[n]}", int(actual[n]),
        "the core's rate at the ACK before, from mss, cwnd and srtt")


def probe(flow, times, records):
    """tcp_probe, the core's event at each received segment of an established connection."""
    own = records["sock_cookie"] == flow.cookie
    times, records = np.asarray(times)[own].astype("i8"), records[own]
    k = np.searchsorted(flow.t, times, side="right") - 1
    inside = (k >= 0) & (k < len(flow) - 1)
    k, times, records = k[inside], times[inside], records[inside]
    after, before = k, k + 1                    # the records before and after each probe
    state = flow.ca_state[after]
    # PRR changes cwnd, and the core sets undo_cwnd()'s result after the record is written.
    calm = (state != CWR) & (state != RECOVERY) & ~np.isin(flow.call[after], (SSTHRESH, UNDO)) \
        & np.isin(flow.ca_state_old[before], (OPEN, DISORDER, LOSS)) & flow.established[after]
    still = calm & (flow.cwnd[after] == flow.cwnd_old[before])
    level = still & (flow.ssthresh[after] == flow.ssthresh_old[before])
    current = np.maximum(flow.ssthresh[after], (flow.cwnd[after] >> 1) + (flow.cwnd[after] >> 2))
    # Only the first probe after a record: an ACK without a record may change the RTT, and a later one
    # change it back.
    first = np.concatenate([[True], k[1:] != k[:-1]])[:len(k)]
    smooth = calm & first & (flow.srtt_us8[after] == flow.srtt_us8[before])
    una = records["snd_una"].astype("i8")
    step = _distance(una, flow.snd_una[after])
    ahead = _distance(flow.snd_una[before], una)
    for what, where, actual, expected in (
            ("snd_cwnd", still, records["snd_cwnd"], flow.cwnd[after]),
            ("ssthresh", level, records["ssthresh"], current),
            ("srtt", smooth, records["srtt"], flow.srtt_us8[after] >> 3),
            ("snd_una", (step < 0) | (ahead < 0), una, flow.snd_una[after])):
        bad = np.flatnonzero(where & (actual.astype("i8") != expected))
        if len(bad):
            n = bad[0]
            return int(still.sum()), flow.wrong(
                "probe", before[n], f"tcp_probe's {what}", int(expected[n]), int(actual[n]),
                f"at {times[n] / 1e9:.6f} s, between this record and the one before it")
    return int(still.sum()), None


def _distance(a, b):
    """a - b of sequence numbers."""
    return (a - b + (1 << 31)) % (1 << 32) - (1 << 31)


def _first(flow, check, what, actual, expected, because):
    bad = np.flatnonzero(actual != expected)
    if not len(bad):
        return None
    return flow.wrong(check, bad[0], what, int(expected[bad[0]]), int(actual[bad[0]]), because)


# -- the capture -----------------------------------------------------------------------------------

class Packets:
    """A flow's segments and its peer's ACKs at the sender's interface.

    Sequence numbers are bytes since the SYN.  A segment is a packet when it was first sent, or an mss of
    a larger packet.  mss is in bytes; 0: packets are not cut.
    """

    @classmethod
    def of(cls, packets, sport, dport, mss):
        sent = packets.where((packets.sport == sport) & (packets.dport == dport))
        back = packets.where((packets.sport == dport) & (packets.dport == sport))
        syns = np.flatnonzero(sent.flags & pcap.SYN)
        return cls(sent, back, (int(sent.seq[syns[0]]) + 1) & 0xFFFFFFFF, mss) if len(syns) else None

    def __init__(self, sent, back, base, mss):
        self.base, self.mss = base, mss
        self.fastopen = bool(sent.length[sent.flags & pcap.SYN > 0].any())
        fin = (sent.flags & pcap.FIN > 0).astype("i8")
        data = (sent.length + fin > 0) & (sent.flags & pcap.SYN == 0)
        self.sent_t = sent.t[data]
        self.sent_bytes = sent.length[data]
        start = pcap.unwrap(sent.seq[data], base)
        end = start + sent.length[data] + fin[data]
        high = np.maximum.accumulate(np.concatenate([[0], end]))
        fresh = end > high[:-1]
        # A segment that the sender's own queue dropped leaves a gap in the capture.
        self.complete = not (start > high[:-1]).any()
        self.again = ~fresh
        # The first byte of each segment, in order and without gaps.
        first, last = np.maximum(start, high[:-1])[fresh], (end - fin[data])[fresh]
        segments = np.maximum(-((first - last) // mss), 1) if mss else np.ones(len(first), "i8")
        nth = np.arange(segments.sum()) - np.repeat(np.cumsum(segments) - segments, segments)
        self.starts = (np.repeat(first, segments) + nth * mss).tolist()
        self.first_t = np.repeat(self.sent_t[fresh], segments)
        self.end = int(high[-1])
        is_ack = (back.flags & pcap.ACK > 0) & (back.flags & (pcap.SYN | pcap.RST) == 0)
        acks = back.where(is_ack)
        self.ack_t = acks.t
        self.ack = np.maximum(pcap.unwrap(acks.ack, base), 0) if len(acks) else np.zeros(0, "i8")
        self.una = np.maximum.accumulate(self.ack) if len(acks) else self.ack
        self.full = mss or (int(self.sent_bytes.max()) if len(self.sent_bytes) else 0)
        self.gone, self.covered, self.delivered = self._count(acks)

    def are_of(self, flow) -> bool:
        """Whether these are the packets of the flow's socket, by their sequence numbers."""
        una = [self.relative(int(number)) for number in flow.snd_una[flow.established]]
        return bool(self.starts) and bool(una) and 0 <= min(una) and max(una) <= self.end + 1

    def segments(self, number: int) -> int:
        """Number of segments that end at or before a byte."""
        return len(self.starts) if number >= self.end else max(bisect_right(self.starts, number) - 1, 0)

    def relative(self, number: int) -> int:
        return ((number - self.base + (1 << 31)) & 0xFFFFFFFF) - (1 << 31)

    def _count(self, acks):
        """Numbers of segments after each ACK: (covered, covered cumulatively, delivered).

        Like the kernel, `delivered` counts a segment that arrived twice twice.
        """
        gone, cumulative, delivered = [], [], []
        sacked, covered, twice, reported_twice = set(), 0, 0, 0
        again = self.sent_t[self.again]
        for t, this, ack, header in zip(acks.t.tolist(), self.ack.tolist(), self.una.tolist(), acks.raw):
            now = self.segments(ack)
            if now > covered:
                sacked = {n for n in sacked if n >= now}
                covered = now
            blocks = self._blocks(header)
            if blocks and (blocks[0][0] < this or len(blocks) > 1 and blocks[1][0] <= blocks[0][0]
                           and blocks[0][1] <= blocks[1][1]):
                segments = max(-(-(blocks[0][1] - blocks[0][0]) // self.full), 1)
                reported_twice += segments
                # The kernel does not believe more of them than were retransmitted.
                if reported_twice <= np.searchsorted(again, t, side="right"):
                    twice += segments
            for first, last in blocks:
                if last > ack:
                    sacked.update(range(max(bisect_left(self.starts, first), covered),
                                        self.segments(last)))
            gone.append(covered + len(sacked))
            cumulative.append(covered)
            delivered.append(covered + len(sacked) + twice)
        return np.array(gone, "i8"), np.array(cumulative, "i8"), np.array(delivered, "i8")

    def _blocks(self, header) -> list:
        """The SACK blocks of an ACK: [(first byte, byte after), ...]."""
        if len(header) <= 32:           # no room beside the timestamps
            blocks = b"" if len(header) <= 20 or header[20:22] == b"\1\1" and header[22] == 8 \
                else pcap.options(header).get(pcap.SACK, b"")
        else:
            blocks = pcap.options(header).get(pcap.SACK, b"")
        return [tuple(self.relative(int.from_bytes(blocks[at + edge:at + edge + 4], "big"))
                      for edge in (0, 4)) for at in range(0, len(blocks) - 7, 8)]


def _when(flow, packets):
    """(snd_una relative, number of ACKs that had come, index of the first ACK with this snd_una) of each
    record."""
    una = (flow.snd_una - packets.base + (1 << 31)) % (1 << 32) - (1 << 31)
    come = np.searchsorted(packets.ack_t, flow.t, side="right")
    first = np.searchsorted(packets.una, una, side="left")
    return una, come, first


def out(flow, packets):
    """packets_out against the capture's segments between snd_una and snd_nxt."""
    if not packets.starts:
        return 0, None
    una, _, _ = _when(flow, packets)
    nxt = (flow.snd_nxt - packets.base + (1 << 31)) % (1 << 32) - (1 << 31)
    starts = np.array([*packets.starts, packets.end])
    first = np.searchsorted(starts, una, side="right") - 1
    last = np.searchsorted(starts, nxt, side="left")
    expected = np.where(nxt > una, last - first, 0)
    # In in_ack_event() snd_una has changed, but packets_out has not yet.
    k = np.flatnonzero((flow.call != IN_ACK_EVENT) & flow.established
                       & (nxt <= packets.end) & (una >= 0))
    bad = k[flow.packets_out[k] != expected[k]]
    difference = None
    if len(bad):
        n = bad[0]
        difference = flow.wrong("out", n, "packets_out", int(expected[n]), int(flow.packets_out[n]),
                                f"segments from byte {una[n]} to {nxt[n]}")
    return len(k), difference


def delivered(flow, packets):
    """delivered against the ACKs that have arrived."""
    if not len(packets.ack_t) or not flow.sack_ok.any():
        return 0, None
    una, come, first = _when(flow, packets)
    k = np.flatnonzero(flow.established & (una > 0) & (come > 0) & (flow.call != IN_ACK_EVENT))
    if not len(k):
        return 0, None
    # The SYN counts as 1, also if it has data or if the policy was changed on a live socket.
    base = flow.delivered_old[k] - 1
    least = packets.delivered[np.minimum(first[k], len(packets.delivered) - 1)]
    most = packets.delivered[come[k] - 1]
    bad = np.flatnonzero((base < least) | (base > most))
    if not len(bad):
        return len(k), None
    n = bad[0]
    return len(k), flow.wrong("delivered", k[n], "segments delivered", f"{least[n]} to {most[n]}",
                              int(base[n]), f"by {come[k[n]]} ACKs, up to byte {una[k[n]]}")


def acked(flow, packets):
    """The argument of cong_avoid() against the segments that the ACK newly covers."""
    if not len(packets.ack_t) or not flow.sack_ok.any():
        return 0, None
    una, come, _ = _when(flow, packets)
    # Further ACKs arrive and wait while the kernel processes one.
    come = np.minimum(come, np.searchsorted(packets.una, una, side="right"))
    total = np.concatenate([[0], packets.delivered])
    compared, last = 0, None
    for k in np.flatnonzero((flow.call == CONG_AVOID) & flow.established & (una > 0)).tolist():
        now, argument = int(come[k]), int(flow.arg[k])
        # Several ACKs of the capture may be merged into one: count from the record before.
        since = min(int(come[last]), now - 1) if last is not None else 0
        most = int(total[now] - total[since]) if last is not None else int(total[now])
        if argument > most or not argument:
            return compared, flow.wrong("acked", k, "segments acked", f"1 to {most}", argument,
                                        f"ACKs {since + 1} to {now} of the capture")
        compared, last = compared + 1, k
    return compared, None


def burst(flow):
    """Segments that TCP may send at once, at each record."""
    return burst_at(flow.pacing_rate, flow.min_rtt_us, flow.mss)


def burst_at(rate_, min_rtt_us, mss):
    """Segments that TCP may send at once at each rate in bytes/s, by tcp_tso_autosize()."""
    per_ms = np.where(rate_ == INFINITE_RATE, GSO_MAX_BYTES, rate_ >> PACING_SHIFT).astype("i8")
    shift = np.minimum(min_rtt_us >> TSO_RTT_LOG, 31)
    size = np.minimum(per_ms + (GSO_MAX_BYTES >> shift), GSO_MAX_BYTES)
    return np.maximum(size // np.maximum(mss, 1), TSO_SEGMENTS)


def may_be_missing(policy, cwnd):
    """How many segments a flight may have below each cwnd and fill it, by the policy's own rule."""
    if policy not in OWN_FILL:
        return 0
    segments, divisor = OWN_FILL[policy]
    return segments + cwnd // divisor


def filled(flow, packets):
    """cwnd grows only if the flight has filled it: tcp_cwnd_validate() over the capture.

    cwnd is the limit from the moment when the flight fills it until, a flight later, a segment leaves
    without filling it.  In slow start half of cwnd is enough.  A flight counts as full if it is less
    than a burst below cwnd, or below what the policy's own rule asks for.  Lost segments count as in
    flight, since the capture does not show which segments the sender takes for lost.  In CWR and
    Recovery the core reduces cwnd to the flight, without a record, so there each flight counts as full.
    """
    grown = (flow.call != INIT) & (flow.call != CWND_EVENT) & (flow.call != UNDO) \
        & (flow.cwnd > flow.cwnd_old) & flow.established \
        & ~((flow.call == CONG_CONTROL) & np.isin(flow.ca_state, (CWR, RECOVERY)))
    if not grown.any() or not len(packets.ack_t):
        return 0, None
    times = np.concatenate([packets.sent_t, packets.ack_t])
    is_ack = np.arange(len(times)) >= len(packets.sent_t)
    order = np.lexsort((~is_ack, times))
    times, is_ack = times[order], is_ack[order]
    sent = np.searchsorted(packets.first_t, times, side="right")
    acks = np.searchsorted(packets.ack_t, times, side="right")
    gone, covered = (np.concatenate([[0], column])[acks] for column in (packets.gone, packets.covered))
    # The smaller cwnd of the records before and after.  The records are those of all policies, since a
    # policy may take over a window that was filled before.
    socket = flow.socket
    k = np.searchsorted(socket.t, times, side="right") - 1
    after = np.minimum(k + 1, len(socket) - 1)
    cwnd = np.minimum(socket.cwnd[np.maximum(k, 0)], socket.cwnd_old[after])
    reduced = np.isin(socket.ca_state[after], (CWR, RECOVERY)) & (socket.call[after] != CONG_CONTROL)
    full = reduced | (
        sent - gone >= cwnd - burst(socket)[np.maximum(k, 0)] - may_be_missing(flow.policy, cwnd))
    limit, most, until = False, 0, 0
    limits, mosts = [], []
    for covered_, sent_, full_, ack in zip(
            covered.tolist(), sent.tolist(), full.tolist(), is_ack.tolist()):
        out_ = sent_ - covered_
        if full_ or not ack and (covered_ >= until or not limit and out_ > most):
            limit, most, until = full_, out_, sent_
        limits.append(limit)
        mosts.append(most)
    at = np.flatnonzero(grown)
    # The state at the arrival of the call's ACK.
    moment = np.searchsorted(times, flow.t[at], side="right") - 1
    was = np.maximum(moment, 0)
    # cong_control() may raise ssthresh before it raises cwnd.
    start = flow.cwnd_old[at] < np.maximum(flow.ssthresh_old, flow.ssthresh)[at]
    may = np.array(limits)[was] | start & (
        flow.cwnd_old[at] < 2 * (np.array(mosts)[was] + burst(flow)[at]))
    bad = np.flatnonzero(~may & (moment >= 0))
    if not len(bad):
        return len(at), None
    n = bad[0]
    return len(at), flow.wrong(
        "filled", at[n], "cwnd", f"{flow.cwnd_old[at[n]]} still", int(flow.cwnd[at[n]]),
        f"at most {mosts[was[n]]} segments were out in the round trip before")


def paced(flow, packets):
    """The data in any window of time is at most that of sk_pacing_rate, and SLACK bursts, if paced.

    The rate is the largest one in the records around a packet.  One burst leaves as soon as it may, one
    may be the end of the burst before, and a rate that has just fallen may have allowed two.  One more
    segment may be a timeout's or a probe's.

    In CWR and Recovery the core does not call cong_avoid().  If the policy has no other callback for
    each ACK, no record has the rates of that time.  They are at most the core's rate in slow start, from
    the minimum RTT, and from cwnd or packets_out, which counts lost segments too.
    """
    if not len(packets.sent_t):
        return 0, None
    t, size = packets.sent_t, packets.sent_bytes
    k = np.searchsorted(flow.t, t, side="right") - 1
    inside = (k >= 0) & (k < len(flow) - 1)
    lo, hi = np.maximum(k, 0), np.minimum(k + 1, len(flow) - 1)
    on = inside & (flow.pacing_status[lo] > 0) & (flow.pacing_status_old[hi] > 0) \
        & (np.arange(len(t)) >= UNPACED_SEGMENTS)
    older = np.maximum(lo - 1, 0)
    rate_ = np.maximum.reduce([flow.pacing_rate[older], flow.pacing_rate[lo], flow.pacing_rate_old[lo],
                               flow.pacing_rate_old[hi], flow.pacing_rate[hi]])
    bursts = np.maximum(burst(flow)[lo], burst(flow)[hi])
    on &= rate_ != INFINITE_RATE
    if not np.isin(flow.call, (CONG_CONTROL, IN_ACK_EVENT, PKTS_ACKED)).any():
        state = np.where(flow.call == SET_STATE, flow.arg, flow.ca_state)
        reduced = np.isin(state[lo], (CWR, RECOVERY))
        covered = np.concatenate([[0], packets.covered])[np.searchsorted(packets.ack_t, t)]
        out_ = np.searchsorted(packets.first_t, t, side="right") - covered
        most_out = np.maximum.reduce([flow.cwnd[lo], flow.cwnd_old[hi], out_])
        min_rtt_us = np.maximum(np.minimum(flow.min_rtt_us[lo], flow.min_rtt_us[hi]), 1)
        most = (flow.mss[lo] * 10_000 * START_PCT * most_out // min_rtt_us).astype("u8")
        rate_ = np.where(reduced, np.maximum(rate_, most), rate_)
        bursts = np.where(reduced, np.maximum(bursts, burst_at(most, min_rtt_us, flow.mss[lo])), bursts)
    allowed = (SLACK * bursts + 1) * packets.full
    backlog, last, compared = 0.0, 0, 0
    for n, (now, bytes_, paced_, per_s, most) in enumerate(zip(
            t.tolist(), size.tolist(), on.tolist(), rate_.tolist(), allowed.tolist())):
        if not paced_:
            backlog, last = 0.0, now
            continue
        backlog = max(backlog - RATE_ERROR * per_s * (now - last) / 1e9, 0.0) + bytes_
        last, compared = now, compared + 1
        if backlog > most:
            return compared, flow.wrong(
                "paced", int(lo[n]), "bytes at once", f"at most {most} at {per_s} bytes/s",
                round(backlog), f"sent by {now / 1e9:.6f} s, segment {n}")
    return compared, None
