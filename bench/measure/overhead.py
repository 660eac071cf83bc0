# SPDX-License-Identifier: GPL-2.0
"""The cost of the logger: the processor's time for a whole transfer, with the logger and without it.

In the lab an instruction of the guest takes a nanosecond of its time, and the kernel measures the
processor's idle time to the microsecond.  The same transfer runs without satcc_log, with it loaded and
no event on, and with events on.  The busy time beyond that of the first run is the cost of the logger,
with its hooks and the ring buffer.
"""

import dataclasses
from dataclasses import dataclass

from ..errors import LabError
from ..record.run import Run
from ..scenario.scenario import Scenario
from . import cost

MODULE = "satcc_log"
EVENTS = ("segment_sent", "ack_received", "cwnd_changed")
CALLS = "cc_call"           # the event of the callbacks of the flow's congestion control
# Name of a mode in the report -> events that are on; None: the module is not loaded.
MODES = {"not loaded": None, "no event on": (), **{event: (event,) for event in EVENTS},
         "all three": EVENTS, CALLS: (CALLS,)}
BUSY = "/sys/module/satcc_cost/parameters/idle"


def scenario(base: Scenario, mode: str) -> Scenario:
    """The scenario with a mode's events on, and the idle time recorded before and after its flows."""
    events = MODES[mode]
    parameters = {"callbacks_of": base.flows[0].cc} if mode == CALLS else {}
    return dataclasses.replace(
        base, capture=False, modules={} if events is None else {MODULE: parameters},
        trace=tuple(f"satcc:{event}" for event in events or ()),
        before=(f"insmod ./{cost.MODULE} cc={base.flows[0].cc}", f"cat {BUSY} > $OUT/idle.before"),
        after=(f"cat {BUSY} > $OUT/idle.after",))


@dataclass(frozen=True)
class Overhead:
    """The processor's busy time in one mode, and the packets and records to divide it by."""

    mode: str
    busy_ns: int                # while the flows ran
    segments: int               # segments that the sender sent, with pure ACKs
    acks: int                   # segments that the sender received
    records: int                # records of the logger

    def added(self, reference: "Overhead") -> dict:
        """The report's row: instructions beyond those of the reference, the run without the logger.

        They are given per sent segment, per packet in either direction, and per record.  Both ends are
        in the guest, so a packet passes the hooks at both ends, and to filter out the receiver's records
        takes time too.
        """
        more = self.busy_ns - reference.busy_ns
        return {"mode": self.mode, "segments": self.segments, "acks": self.acks,
                "records": self.records, "busy_per_segment": self.busy_ns / self.segments,
                "per_segment": more / self.segments,
                "per_packet": more / (self.segments + self.acks),
                "per_record": more / self.records if self.records else None}


def of_run(run: Run, mode: str) -> Overhead:
    """The overhead of a run in a mode.  Raises LabError if the run has other events than the mode."""
    (began, idle_began), (ended, idle_ended) = (
        map(int, run.read(f"idle.{when}").split()) for when in ("before", "after"))
    info = run.json("flow-0.json")
    counted = {name: len(times) for name, (times, _) in run.events.items()} if run.scenario.trace else {}
    if sorted(counted) != sorted(f"satcc:{event}" for event in MODES[mode] or ()):
        raise LabError(f"overhead: unexpected events in the run {mode}: {', '.join(counted) or 'none'}")
    return Overhead(mode, ended - began - 1000 * (idle_ended - idle_began), info["segs_out"],
                    info["segs_in"], sum(counted.values()))


def table(overheads: list[Overhead]) -> list[dict]:
    """A row for each mode, in the given order.  The first mode is the reference for the others.

    Raises LabError if the runs have different numbers of packets.
    """
    if len({(each.segments, each.acks) for each in overheads}) != 1:
        raise LabError("overhead: the runs differ in their packets")
    return [each.added(overheads[0]) for each in overheads]
