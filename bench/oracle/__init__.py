# SPDX-License-Identifier: GPL-2.0
"""The oracle recomputes every window of a run from the papers' equations, exact to the segment.

    report = oracle.check(run)      # a bench.record.run.Run with a trace
    report.raise_first()            # Differs, if there is a difference
    print(report)                   # flows, calls, window changes, by policy

    python3 -m bench oracle build/runs/<xx>/<identity>...

It is a second implementation in exact arithmetic, written from the equations and not from the modules'
code.  It keeps each flow's state from call to call (window credit, F, the sums of Hoe's line, filter,
minimum RTT) and takes none of it from the trace.  The trace is satcc_log's.  It has a record of each
callback of any congestion control, with the arguments and the socket before and after.  The policies
themselves record nothing.

The oracle's input is the state before a callback: the core's state (in flight, delivered, RTTs, state
of recovery), the callback's arguments, and cwnd and ssthresh as the core left them.
core.Flow.core_did() checks where the core may move these.  The oracle then checks the state after the
callback: cwnd, ssthresh, the returned value, the pacing status, and every private field.  Parameters
come from the scenario, else they are the documented defaults.  A run without a trace has nothing to
check.

Windows have a tolerance of 0.  The model rounds a value that the kernel has in fixed point as its
documentation says, and goes on with the rounded value.  Each policy's file lists its rounded values.

Each policy has a file, whose head has the equations.  arithmetic.py has the growth that policies share;
core.py has the parts common to all flows: the core, halving, undo; calls.py reads the records.  A flow's
check ends at its first difference; the other flows go on.
"""

from dataclasses import dataclass, field
from pathlib import Path

from ..errors import LabError
from . import witnesses
from .calls import NAMES, STATES, of_run, policy_changes
from .constant_rate import ConstantRate
from .core import Reno, Wrong
from .cubic import Cubic
from .hybla import Hybla
from .hybla_full import HyblaFull
from .ibk import Ibk
from .mtsi import Mtsi
from .satcc import Satcc
from .westwood import Westwood
from .westwood_abse import WestwoodAbse

POLICIES = {"hybla_full": HyblaFull, "mtsi": Mtsi, "ibk": Ibk, "constant_rate": ConstantRate,
            "westwood_abse": WestwoodAbse, "satcc": Satcc}
# The kernel's own congestion controls.
CONTROLS = {"reno": Reno, "hybla": Hybla, "westwood": Westwood, "cubic": Cubic}
MODELS = {**POLICIES, **CONTROLS}


class Difference(Exception):
    """A difference between the kernel and the oracle.  Its text has the call and the socket."""

    def __init__(self, policy: str, call, wrong: Wrong):
        self.policy, self.call, self.wrong = policy, call, wrong
        self.event, self.t_ns, self.t_s = call.number, call.t_ns, call.t_ns / 1e9
        super().__init__(self._text())

    def _text(self) -> str:
        call, wrong = self.call, self.wrong
        text = [f"{self.policy}, port {call.sport}, call {call.number} at {self.t_s:.6f} s, "
                f"{NAMES.get(call.call, call.call)}(): {wrong.what} should be {wrong.expected}, "
                f"is {wrong.actual}"]
        if wrong.because:
            text.append(f"  {wrong.because}")
        shown = {name: getattr(call, name) for name in call._fields if name not in ("old", "new")}
        shown["call"] = NAMES.get(call.call, call.call)
        shown["ca_state"] = STATES[call.ca_state] if call.ca_state < len(STATES) else call.ca_state
        text.append("  " + " ".join(f"{name}={value}" for name, value in shown.items()))
        text += [f"  {name}: " + " ".join(f"{field}={value}" for field, value in state._asdict().items())
                 for name, state in (("before", call.old), ("after", call.new)) if state]
        return "\n".join(text)


class Differs(Exception):
    """A run has a difference.  The text is that of the first, and the run's folder."""


@dataclass
class Count:
    """Counts of the checks of one policy."""

    flows: int = 0
    events: int = 0
    changes: int = 0            # calls that changed cwnd or ssthresh


@dataclass
class Report:
    """The result of check()."""

    folder: Path                                        # of the run
    counts: dict = field(default_factory=dict)          # policy -> Count
    differences: list = field(default_factory=list)     # the first of each flow, oldest first
    unchecked: dict = field(default_factory=dict)       # policy -> why it was not checked
    compared: dict = field(default_factory=dict)        # check of witnesses.py -> number of comparisons

    @property
    def events(self) -> int:
        return sum(count.events for count in self.counts.values())

    @property
    def changes(self) -> int:
        return sum(count.changes for count in self.counts.values())

    def raise_first(self) -> "Report":
        """Return the report, or raise Differs."""
        if self.differences:
            raise Differs(f"{self.differences[0]}\n  run: {self.folder}")
        return self

    def __str__(self) -> str:
        lines = [f"{policy}: {count.flows} flows, {count.events} calls, "
                 f"{count.changes} window changes recomputed"
                 for policy, count in self.counts.items()]
        lines += [f"{policy}: not checked: {why}" for policy, why in self.unchecked.items()]
        if self.compared:
            lines.append("compared with other witnesses: " + ", ".join(
                f"{check} {count}" for check, count in self.compared.items()))
        lines += [str(difference) for difference in self.differences[:1]]
        return "\n".join(lines or ["no calls of a policy"])


def check(run) -> Report:
    """Recompute every window that a policy in MODELS has set in a run (bench.record.run.Run).

    Raises LabError if the trace is from another version of the module.
    """
    report = Report(run.folder)
    if not run.scenario.trace:
        return report
    if missed := run.records_missed():
        used = {cc for flow in run.scenario.flows for cc in flow.names} & set(MODELS)
        report.unchecked = {policy: f"satcc_log missed {missed} records" for policy in sorted(used)}
        return report
    first_of_policy = policy_changes(run)
    layouts = {policy: model.LAYOUT for policy, model in MODELS.items() if not model.OWNER}
    for policy, calls in of_run(run, MODELS, layouts).items():
        model = MODELS[policy]
        if why := _unknown_parameters(run.scenario, model.MODULE):
            report.unchecked[policy] = why
            continue
        count = report.counts[policy] = Count()
        flows, ended = {}, set()
        for call in calls:
            if call.cookie in ended:
                continue
            if call.cookie not in flows:
                flows[call.cookie] = model(run.scenario.modules.get(model.MODULE, {}), run.scenario)
            elif call.number in first_of_policy:
                flows[call.cookie].come_back()
            try:
                flows[call.cookie].take(call)
            except Wrong as wrong:
                report.differences.append(Difference(policy, call, wrong))
                ended.add(call.cookie)
                continue
            except AttributeError as error:
                if not isinstance(error.obj, tuple):
                    raise
                raise LabError(f"{run.folder}: the trace of {policy} has no {error.name}: "
                               "another version of the module recorded it") from None
            count.events += 1
            count.changes += call.cwnd != call.cwnd_old or call.ssthresh != call.ssthresh_old
        count.flows = len(flows)
    comparison = witnesses.compare(run)
    report.compared = comparison.counts
    report.differences += comparison.differences
    report.differences.sort(key=lambda difference: difference.t_ns)
    return report


def _unknown_parameters(scenario, module: str) -> str:
    """Why the parameters of a run are unknown, or ''."""
    if module and any(f"/sys/module/{module}/" in command for command in scenario.commands):
        return "the scenario writes to the module's parameters while flows run"
    return ""
