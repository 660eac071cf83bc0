# SPDX-License-Identifier: GPL-2.0
"""tools/*.bt in the guest, and what they print held against the kernel's own trace of the run.

The scripts run together, and beside the trace: the events are the same ones, so that every field
is the same.  Only the time of an event is taken by each for itself, one after the other.
"""

import dataclasses
import functools
import ipaddress
import re
import socket
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest

from bench.lab.play import Lab
from bench.paths import TOP
from bench.record.run import Run
from bench.scenario.scenario import FIRST_PORT

# bpftrace compiles its scripts, which takes the guest a minute of the host's time.
pytestmark = [pytest.mark.lab, pytest.mark.long]

REASONS = "first init ack recovery cwr rto undo idle app_limited switch other".split()
STATES = "Open Disorder CWR Recovery Loss".split()
# Between two listeners to one event, others of it and an interrupt between them; seen: 6_400.
LATE_NS = 20_000

# Losses and a time without a link; marks alone (the queue holds all), IPv6, a port to each script.
OUTAGE = {"loss_pct": 0.5, "change": [
    {"at_s": 8, "hop": "satellite", "forward": {"delay_ms": 150, "loss_pct": 100}},
    {"at_s": 10, "hop": "satellite", "forward": {"delay_ms": 150, "loss_pct": 0.5}}]}
MARKS = {"loss_pct": 1, "line": {"ecn": True}, "queue_packets": 2000, "family": 6,
         **{end: {"sysctl": {"net.ipv4.tcp_ecn": 1}} for end in ("sender", "receiver")}}
FIRST, SECOND = FIRST_PORT, FIRST_PORT + 1
EVERY = dict.fromkeys(("cwnd", "cwnd_probe", "multitcp", "recovery", "pacing"), 0)


@dataclass(frozen=True)
class Play:
    """A run of the lab, and the port argument of each script; 0 for none."""

    run: Run
    port_of: dict[str, int]

    @cached_property
    def ports(self):
        return range(FIRST, FIRST + len(self.run.scenario.flows))

    def printed(self, script):
        """The words of each line; nothing was lost on the way."""
        output = self.run.read(f"{script}.txt").decode().splitlines()
        assert re.fullmatch(r"Attaching \d+ probes\.\.\.", output[0])
        assert not [line for line in output if re.match("Lost|.*(ERROR|WARNING)", line)]
        return [line.split() for line in output[1:] if line]

    def table(self, script):
        """The heading, and the lines that are of a sender's socket, as the trace is."""
        heading, *rows = self.printed(script)
        return heading, [row for row in rows if int(row[-1]) in self.ports]

    def events(self, name, script):
        """[(time in ns, record), ...] of the trace, on the port argument of the script."""
        times, records = self.run.events[name]
        return [(at, record) for at, record in zip(times.astype(int).tolist(), records)
                if self.port_of[script] in (0, record["dport"])]


def before(ports):
    """Shell lines that start the scripts and wait until they listen."""
    return ("listeners=",
            *(f"bpftrace ./{script}.bt {port or ''} > $OUT/{script}.txt 2>&1 & "
              "listeners=\"$listeners $!\"" for script, port in ports.items()),
            *(f"until grep -q Attaching $OUT/{script}.txt; do sleep 0.1; done" for script in ports),
            "sleep 3")          # they say so before they do it


# Connections are closed by then.  bpftrace 0.17 forgets a signal that comes while it is not waiting
# for events, and prints no histogram if it gets another while it ends.
AFTER = ("sleep 2",
         "for listener in $listeners; do "
         "while kill -INT $listener 2>/dev/null; do sleep 3; done; wait $listener; done")


@functools.cache
def guest(kernel):
    return Lab(kernel, extras=("bpftrace",))


def play(kernel, geo, ports, **conditions):
    """Two flows side by side, the second for a part of the time."""
    transfer = geo("hybla_full", rtt_ms=300, seconds=20, modules={"satcc_log": {}},
                   trace=("satcc:cwnd_changed", "satcc:segment_sent", "satcc:ack_received",
                          "tcp:tcp_probe"), before=before(ports), after=AFTER, **conditions)
    second = dataclasses.replace(transfer.flows[0], cc="cubic", start_s=2, seconds=0, bytes=1_500_000)
    transfer = dataclasses.replace(transfer, flows=(*transfer.flows, second)).check()
    return Play(guest(kernel).run(transfer, {
        f"{script}.bt": (TOP / "tools" / f"{script}.bt").read_bytes() for script in ports}), ports)


@pytest.fixture(scope="module", params=["6.1", "6.12"])
def outage(request, geo):
    return play(request.param, geo, EVERY, **OUTAGE)


@pytest.fixture(scope="module")
def marks(geo):
    return play("6.1", geo, {"cwnd": SECOND, "cwnd_probe": FIRST, "recovery": FIRST}, **MARKS)


def same_times(own, theirs):
    """Two clocks, apart by the same all the time."""
    apart = np.array(own) - np.array(theirs)
    assert np.abs(apart - np.median(apart)).max() < LATE_NS


def same_address(text, field):
    field = bytes(field)
    address = ipaddress.ip_address(text).packed
    return (bytes(10) + b"\xff\xff" + address if len(address) == 4 else address) == field


def ns(seconds):
    return int(seconds.replace(".", "")) * 1000


def name_of(record):
    return bytes(record["cc"]).split(b"\0")[0].decode()


def check_cwnd(played):
    heading, rows = played.table("cwnd")
    assert heading == "TIME(s) SPORT CWND SSTHRESH REASON STATE CC DADDR DPORT".split()
    traced = played.events("satcc:cwnd_changed", "cwnd")
    assert len(rows) == len(traced) > 50
    for (_, sport, cwnd, ssthresh, reason, state, cc, daddr, dport), (_, record) in zip(rows, traced):
        assert [int(sport), int(cwnd), int(ssthresh), int(dport)] == [
            record[field] for field in ("sport", "cwnd", "ssthresh", "dport")]
        assert reason == REASONS[record["reason"]] and state == STATES[record["ca_state"]]
        assert cc == name_of(record) and same_address(daddr, record["daddr"])
    same_times([ns(row[0]) for row in rows], [at for at, _ in traced])


def check_cwnd_probe(played):
    heading, rows = played.table("cwnd_probe")
    assert heading == "TIME(s) SPORT CWND SSTHRESH DADDR DPORT".split()
    last, traced = {}, []
    for at, record in played.events("tcp:tcp_probe", "cwnd_probe"):
        window = record["snd_cwnd"], record["ssthresh"]
        if last.get(record["sock_cookie"]) != window:
            traced.append((at, record))
        last[record["sock_cookie"]] = window
    assert len(rows) == len(traced) > 50
    for (_, sport, cwnd, ssthresh, daddr, dport), (_, record) in zip(rows, traced):
        assert [int(sport), int(cwnd), int(ssthresh), int(dport)] == [
            record[field] for field in ("sport", "snd_cwnd", "ssthresh", "dport")]
        address = bytes(record["daddr"])
        where = slice(4, 8) if address[0] == socket.AF_INET else slice(8, 24)
        assert ipaddress.ip_address(daddr).packed == address[where]
    same_times([ns(row[0]) for row in rows], [at for at, _ in traced])


def check_recovery(played, kinds):
    heading, rows = played.table("recovery")
    assert heading == "TIME(s) MS KIND BEFORE AFTER SSTHRESH CUTS UNDO SPORT CC DADDR DPORT".split()
    traced = episodes(played)
    assert len(rows) == len(traced) > 3
    for row, (one, at, record) in zip(rows, traced):
        _, took, kind, before, after, ssthresh, cuts, undone, sport, cc, daddr, dport = row
        assert kind == STATES[one.kind]
        assert (int(before), int(cuts), int(undone)) == (one.before, one.cuts, one.undone)
        assert [int(after), int(ssthresh), int(sport), int(dport)] == [
            record[field] for field in ("cwnd", "ssthresh", "sport", "dport")]
        assert cc == name_of(record) and same_address(daddr, record["daddr"])
        assert abs(ns(took) - (at - one.since)) < LATE_NS
    same_times([ns(row[0]) for row in rows], [one.since for one, _, _ in traced])
    assert kinds <= {row[2] for row in rows}


def test_every_line_of_cwnd_is_a_change(outage):
    check_cwnd(outage)


def test_every_line_of_cwnd_is_a_change_on_the_given_port(marks):
    check_cwnd(marks)


def test_cwnd_probe_prints_each_new_window_of_the_kernels_event(outage):
    check_cwnd_probe(outage)


def test_cwnd_probe_over_ipv6(marks):
    check_cwnd_probe(marks)


def test_recovery_and_timeouts_are_episodes(outage):
    check_recovery(outage, {"Recovery", "Loss"})


def test_answers_to_marks_are_episodes(marks):
    check_recovery(marks, {"CWR"})


def run_for(traced, printed_ns, offset):
    """Those of the trace that a script has printed.  On 6.12 two scripts printed one less than the 3,382
    segments of the trace.  The kernel skips BPF programs while one, or a system call on a map, is at
    work on that processor; that it was so then is not shown."""
    times = np.sort(np.array(printed_ns)) + offset
    at = np.array([at for at, _ in traced])
    place = np.searchsorted(times, at)
    apart = np.minimum(np.abs(at - times[np.minimum(place, len(times) - 1)]),
                       np.abs(at - times[np.maximum(place - 1, 0)]))
    kept = [pair for pair, distance in zip(traced, apart) if distance < LATE_NS]
    assert len(traced) - len(kept) <= most_missed(len(traced))
    return kept


def most_missed(events):
    return events // 1000


def test_the_three_records_are_complete(outage):
    headings, rows = {}, {name: [] for name in ("segment_sent", "ack_received", "cwnd_changed")}
    for name, *words in outage.printed("multitcp"):
        if name not in headings:
            headings[name] = words
        elif int(words[headings[name].index("dport")]) in outage.ports:
            rows[name].append(dict(zip(headings[name], words, strict=True)))
    for name, own in rows.items():
        traced = run_for(outage.events(f"satcc:{name}", "multitcp"),
                         [int(row["time_ns"]) for row in own], clock_offset(outage))
        fields = [field for field in traced[0][1].dtype.names if not field.startswith("common_")
                  and field not in ("saddr4", "saddr6", "daddr4", "daddr6")]
        assert set(headings[name]) == {"time_ns", *fields}
        assert len(own) == len(traced) > 50
        for row, (_, record) in zip(own, traced):
            for field in fields:
                if field == "cc":
                    assert row[field] == name_of(record)
                elif field in ("saddr", "daddr"):
                    assert same_address(row[field], record[field])
                else:
                    assert int(row[field]) == record[field]
        same_times([int(row["time_ns"]) for row in own], [at for at, _ in traced])


@dataclass
class Episode:
    """From the first cut of a window, or the first look at it in such a state, to its end."""

    since: int
    before: int
    kind: int = STATES.index("CWR")
    cuts: int = 0
    undone: int = 0


def episodes(played):
    """[(episode, time of its end, the record that ended it), ...] by the time of their ends."""
    both = [(at, True, record) for at, record in played.events("satcc:cwnd_changed", "recovery")]
    both += [(at, False, record) for at, record in played.events("satcc:ack_received", "recovery")]
    open_ones, ended = {}, []
    for at, is_change, record in sorted(both, key=lambda each: each[0]):
        cookie, state = record["cookie"], record["ca_state"]
        reason = REASONS[record["reason"]] if is_change else None
        cut = reason == "rto" or (reason in ("recovery", "cwr")
                                  and record["ssthresh"] != record["ssthresh_old"])
        if cut or state >= STATES.index("CWR"):
            window = record["cwnd_old" if is_change else "cwnd"]
            one = open_ones.setdefault(cookie, Episode(at, window))
            one.cuts += cut
            kind = {"rto": "Loss", "recovery": "Recovery"}.get(reason, "CWR") if cut else "CWR"
            one.kind = max(one.kind, STATES.index(kind), 0 if is_change else state)
        if reason == "undo" and cookie in open_ones:
            open_ones[cookie].undone += 1
        if not is_change and state < STATES.index("CWR") and cookie in open_ones:
            ended.append((open_ones.pop(cookie), at, record))
    return ended


def buckets(percent):
    return np.clip(np.floor(np.asarray(percent) / 10), 0, 30).astype(int)


def test_gaps_between_segments(outage):
    """A gap close to the edge between two buckets may be in either: time is not quite the same."""
    shown = {}
    for words in outage.printed("pacing")[1:]:
        line = " ".join(words)
        if match := re.match(r"@percent\[(\w+), (\d+), (\S+), (\d+)\]:", line):
            counts = shown.setdefault((match[1], int(match[4])), np.zeros(31, int))
        else:
            low, count = re.match(r"\[(\d+), \S+\) (\d+) \|", line).groups()
            counts[int(low) // 10] = int(count)
    offset = clock_offset(outage)
    for flow, port in zip(outage.run.scenario.flows, outage.ports):
        data = [(max(at, int(record["wstamp_ns"]) + offset), record)
                for at, record in outage.events("satcc:segment_sent", "pacing")
                if record["dport"] == port and record["len"]]
        gaps = np.diff([at for at, _ in data])
        unit = np.array([record["cwnd"] / (10 * record["srtt_us"]) for _, record in data[1:]])
        low, high = buckets((gaps - LATE_NS) * unit), buckets((gaps + LATE_NS) * unit)
        counts = shown[flow.cc, port]
        # A segment that was not printed makes one gap of two.
        missed = len(gaps) - counts.sum()
        assert len(gaps) > 1000 and 0 <= missed <= most_missed(len(gaps))
        certain = np.bincount(low[low == high], minlength=31)
        assert certain.sum() > 0.8 * len(gaps)
        assert (counts + 2 * missed >= certain).all()
        for edge in range(31):
            shown_up_to = counts[:edge + 1].sum()
            assert np.sum(high <= edge) - 2 * missed <= shown_up_to <= np.sum(low <= edge) + missed


def clock_offset(played):
    """By how much the trace's clock is ahead of CLOCK_MONOTONIC, ns: a record both have."""
    first = next(row for row in played.printed("multitcp") if row[0] == "cwnd_changed"
                 and row[1] != "time_ns" and int(row[7]) in played.ports)
    return played.events("satcc:cwnd_changed", "multitcp")[0][0] - int(first[1])
