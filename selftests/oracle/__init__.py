# SPDX-License-Identifier: GPL-2.0
"""The oracle: every window of a run recomputed from the papers, to the segment.

    report = oracle.check(run)      # a bench.lab.run.Run with a trace
    report.raise_first()            # Difference, if any
    print(report)                   # flows, events, window changes, by policy

    python3 -m selftests.oracle build/runs/<xx>/<identity>...

It is written from the equations, not from the modules' code, in exact arithmetic, and it is a
second implementation: for each flow it carries its own window credit, counters, F, sums of Hoe's
line, filter and minimum of RTT from event to event, and never takes them over from the trace.
What the trace says of them is compared, and so are each event's kind and what it left alone.

What it believes of the trace: the events' order and times, segments acknowledged, ssthresh and
cwnd as the core left them (where it may move them, and how: core.Flow.core_moved()), the largest
window allowed, the state of recovery, RTT samples (of ibk and constant_rate the core's smoothed and
smallest RTT, of westwood_abse the times and segments delivered, all three held against what else the
trace says of them), and whether cwnd was the limit.  Parameters come from the scenario, else they
are the documented defaults.  A run without a trace has nothing to check.

Windows have a tolerance of 0.  What the kernel holds in fixed point is rounded as its
documentation says, is held against the exact value within the documented error, and that rounded
value is what the exact arithmetic goes on with.  Each policy's file lists what is rounded.

One file a policy, whose head has the equations; arithmetic.py has the growth they share, core.py what
is common to all flows: the core's part, halving, undo.  The first difference ends a flow; the others
go on.
"""

import heapq
from collections import namedtuple
from dataclasses import dataclass, field

import numpy as np

from bench.lab.errors import LabError

from .constant_rate import ConstantRate
from .core import NAMES, STATES, Wrong
from .hybla_full import HyblaFull
from .ibk import Ibk
from .mtsi import Mtsi
from .westwood_abse import WestwoodAbse

POLICIES = {"hybla_full": HyblaFull, "ibk": Ibk, "constant_rate": ConstantRate,
            "mtsi": Mtsi, "westwood_abse": WestwoodAbse}


class Difference(Exception):
    """Where the trace and the oracle part, in words."""

    def __init__(self, policy: str, row, codes: dict, wrong: Wrong):
        self.policy, self.row, self.wrong = policy, row, wrong
        self.event, self.t_s = row.number, row.t_ns / 1e9
        super().__init__(self._words(codes))

    def _words(self, codes: dict) -> str:
        row, wrong = self.row, self.wrong
        text = [f"{self.policy}, port {row.sport}, event {row.number} at {self.t_s:.6f} s: "
                f"{wrong.what} should be {wrong.should}, is {wrong.found}"]
        if wrong.because:
            text.append(f"  {wrong.because}")
        shown = {name: getattr(row, name) for name in row._fields if not name.startswith("common_")}
        if "event" in shown:
            shown["event"] = codes.get(row.event) or NAMES.get(row.event, row.event)
            shown["ca_state"] = STATES[row.ca_state] if row.ca_state < len(STATES) else row.ca_state
        text.append("  " + " ".join(f"{name}={value}" for name, value in shown.items()))
        return "\n".join(text)


@dataclass
class Count:
    """What was checked of one policy."""

    flows: int = 0
    events: int = 0
    changes: int = 0            # events after which cwnd or ssthresh is another


@dataclass
class Report:
    """What check() found.  `differences`: the first of each flow, oldest first."""

    counts: dict = field(default_factory=dict)
    differences: list = field(default_factory=list)
    unchecked: dict = field(default_factory=dict)       # policy -> why

    @property
    def events(self) -> int:
        return sum(count.events for count in self.counts.values())

    @property
    def changes(self) -> int:
        return sum(count.changes for count in self.counts.values())

    def raise_first(self) -> "Report":
        """The report itself, if there is nothing to say against the run."""
        if self.differences:
            raise self.differences[0]
        return self

    def __str__(self) -> str:
        lines = [f"{policy}: {count.flows} flows, {count.events} events, "
                 f"{count.changes} window changes recomputed"
                 for policy, count in self.counts.items()]
        lines += [f"{policy}: not checked: {why}" for policy, why in self.unchecked.items()]
        lines += [str(difference) for difference in self.differences[:1]]
        return "\n".join(lines or ["no events of a policy"])


def _rows(run, stream: str) -> list:
    """A stream's records with their time, their number, how many segments had come in for the flow
    by then (-1: the trace does not say) and how many since the flow's record before."""
    times, records = run.events.get(stream, ((), np.zeros(0, np.dtype([]))))
    if not len(times):
        return []
    Row = namedtuple("Row", (*records.dtype.names, "t_ns", "number", "arrival", "acks"))
    arrivals, acks = _arrivals(run, times, records)
    return [Row._make((*values, *more)) for values, *more in zip(
        records.tolist(), np.asarray(times).tolist(), range(len(times)), arrivals, acks)]


def _arrivals(run, times, records) -> tuple:
    """By tcp:tcp_probe, the kernel's event at the arrival of a segment."""
    probe_times, probes = run.events.get("tcp:tcp_probe", ((), None))
    arrivals, counts = np.full(len(times), -1), np.full(len(times), -1)
    if not len(probe_times):
        return arrivals.tolist(), counts.tolist()
    for sport in np.unique(records["sport"]):
        mine = records["sport"] == sport
        seen = np.searchsorted(probe_times[probes["sport"] == sport], times[mine], "right")
        arrivals[mine], counts[mine] = seen, np.diff(seen, prepend=0)
    return arrivals.tolist(), counts.tolist()


def _merged(run, streams) -> list:
    """(method's name, row) of all of a policy's streams, by time."""
    rows = [[(row.t_ns, order, method, row) for row in _rows(run, stream)]
            for order, (stream, method) in enumerate(reversed(streams.items()))]
    key = (lambda entry: entry[:2])
    return [(method, row) for _, _, method, row in heapq.merge(*rows, key=key)]


def check(run) -> Report:
    """Recompute every window of a run (bench.lab.run.Run) that one of our policies decided on."""
    report = Report()
    if not run.scenario.trace:
        return report
    for policy, kind in POLICIES.items():
        stream = next(iter(kind.STREAMS))
        if not len(run.events.get(stream, ((),))[0]):
            continue
        if why := _moving(run.scenario, kind.MODULE):
            report.unchecked[policy] = why
            continue
        count = report.counts[policy] = Count()
        flows, ended = {}, set()
        for method, row in _merged(run, kind.STREAMS):
            cookie = row.cookie
            if cookie in ended:
                continue
            flow = flows.get(cookie)
            if flow is None:
                flow = flows[cookie] = kind(run.scenario.modules.get(kind.MODULE, {}), run.scenario)
            try:
                getattr(flow, method)(row)
            except Wrong as wrong:
                report.differences.append(Difference(policy, row, kind.CODES, wrong))
                ended.add(cookie)
                continue
            except AttributeError as error:
                if not isinstance(error.obj, tuple):
                    raise
                raise LabError(f"{run.folder}: the trace of {policy} has no {error.name}: "
                               "it is of another version of the module") from None
            if method == "take":
                count.events += 1
                count.changes += row.cwnd != row.cwnd_old or row.ssthresh != row.ssthresh_old
        count.flows = len(flows)
    report.differences.sort(key=lambda difference: difference.row.t_ns)
    return report


def _moving(scenario, module: str) -> str:
    """Why a run's parameters cannot be known, or ''."""
    if any(f"/sys/module/{module}/" in command for command in scenario.commands):
        return "the scenario writes to the module's parameters while flows run"
    return ""
