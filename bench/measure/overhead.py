# SPDX-License-Identifier: GPL-2.0
"""What the logger costs: the processor's time of a whole transfer, with it and without.

In the lab an instruction of the guest is a nanosecond of its time, and the kernel knows to the
microsecond how long its processor was idle.  The same transfer is played without satcc_log, with it
loaded and no event on, and with events on; what the processor is busy for beyond the first is the
logger's, hooks, ring buffer and all.
"""

import dataclasses
from dataclasses import dataclass

from ..errors import LabError
from ..record.run import Run
from ..scenario.scenario import Scenario
from . import cost

MODULE = "satcc_log"
EVENTS = ("segment_sent", "ack_received", "cwnd_changed")
CALLS = "cc_call"           # of the flow's own congestion control
# The events that are on, by the report's name; None: the module is not loaded.
MODES = {"not loaded": None, "no event on": (), **{event: (event,) for event in EVENTS},
         "all three": EVENTS, CALLS: (CALLS,)}
BUSY = "/sys/module/satcc_cost/parameters/idle"


def scenario(base: Scenario, mode: str) -> Scenario:
    """The same, with the processor's time taken around its flows and these events on."""
    events = MODES[mode]
    parameters = {"callbacks_of": base.flows[0].cc} if mode == CALLS else {}
    return dataclasses.replace(
        base, capture=False, modules={} if events is None else {MODULE: parameters},
        trace=tuple(f"satcc:{event}" for event in events or ()),
        before=(f"insmod ./{cost.MODULE} cc={base.flows[0].cc}", f"cat {BUSY} > $OUT/idle.before"),
        after=(f"cat {BUSY} > $OUT/idle.after",))


@dataclass(frozen=True)
class Overhead:
    mode: str
    busy_ns: int                # of the processor, while the flows ran
    segments: int               # sent, pure ACKs too
    acks: int                   # segments received
    records: int

    def added(self, reference: "Overhead") -> dict:
        """Instructions more than without the logger: by segment sent, by packet either way, and by
        record.  Both ends are in the guest: a packet passes the hooks where it leaves and where it
        comes, and the receiver's records are filtered out, which takes time too.
        """
        more = self.busy_ns - reference.busy_ns
        return {"mode": self.mode, "segments": self.segments, "acks": self.acks,
                "records": self.records, "busy_per_segment": self.busy_ns / self.segments,
                "per_segment": more / self.segments,
                "per_packet": more / (self.segments + self.acks),
                "per_record": more / self.records if self.records else None}


def of_run(run: Run, mode: str) -> Overhead:
    """Raises LabError if the run had other events than the mode's."""
    (began, idle_began), (ended, idle_ended) = (
        map(int, run.read(f"idle.{when}").split()) for when in ("before", "after"))
    info = run.json("flow-0.json")
    counted = {name: len(times) for name, (times, _) in run.events.items()} if run.scenario.trace else {}
    if sorted(counted) != sorted(f"satcc:{event}" for event in MODES[mode] or ()):
        raise LabError(f"overhead: events of {mode}: {', '.join(counted) or 'none'}")
    return Overhead(mode, ended - began - 1000 * (idle_ended - idle_began), info["segs_out"],
                    info["segs_in"], sum(counted.values()))


def table(overheads: list[Overhead]) -> list[dict]:
    """One row a mode, in their order; the first is what the others are compared with."""
    if len({(each.segments, each.acks) for each in overheads}) != 1:
        raise LabError("overhead: the runs differ in their packets")
    return [each.added(overheads[0]) for each in overheads]
