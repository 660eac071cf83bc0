# SPDX-License-Identifier: GPL-2.0
"""The cost of a congestion control: the number of instructions of its callbacks.

In the lab an instruction of the guest takes a nanosecond of its time.  So the kernel's function graph
tracer counts instructions: it records the time at a function's entry and at its return.  It traces only
the functions in the congestion control's tcp_congestion_ops, so that the time of a callback does not
include the tracing of another.  The tracer's own time is the same for every call.  The run measures it
on a function that does nothing, and cost.py subtracts it: the cost of a call is what its function
executes between entry and return.  As a check, a function with exactly 1000 more instructions must
measure as 1000, or there is no result.

The means leave out calls during which an interrupt occurred; the interrupts have their own events.  The
clock has whole nanoseconds, so a single call is exact to one instruction, and a mean to less.
"""

import functools
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import LabError
from ..lab import image, packages
from ..paths import BUILD, locked
from ..record import pcap, trace
from ..record.run import Run
from ..scenario.scenario import FIRST_PORT

SOURCE = Path(__file__).resolve().parent / "cost_calibration" / "satcc_cost.c"
MODULE = "satcc_cost.ko"
CALIBRATION_CALLS = 100         # of each known function, before the flows and after them
KNOWN = 1000                    # instructions
CLOCK_ERROR = 1                 # ns; the times at both ends of a call are truncated to whole ns
ENDBR64 = 4                     # bytes of the landing pad at a function's start in a kernel with IBT
BUFFER_KB = 32 << 10            # at 150 bytes an ACK enough for more than a minute at 10 Mbit/s

# These run once a flow, or when a program calls for them, and not for each ACK.
NOT_COUNTED = ("init", "release", "get_info")
CALIBRATION = ("nothing", "1000_nops")

# With tracing_thresh the tracer records only the returns of calls longer than the threshold, and no
# entries, so the times do not include writing entry records.  Every call is longer than 8 ns.
# The kernel computes us * 1000 mod 2^64 from the file's text; that is 8 if us * 125 = 1 (mod 2^61).
EIGHT_NS = pow(125, -1, 1 << 61)


def before(cc: str) -> tuple[str, ...]:
    """Shell lines that start the count, for Scenario.before."""
    return (
        f"insmod ./{MODULE} cc={cc}",
        "C=/sys/module/satcc_cost/parameters T=/sys/kernel/tracing",
        "cat $C/callbacks > $OUT/cost.callbacks",
        "echo 0 > $T/tracing_on",
        "echo 0 > $T/options/overwrite",
        f"echo {BUFFER_KB} > $T/buffer_size_kb",
        f"echo {EIGHT_NS} > $T/tracing_thresh",
        # name [module] -> name:mod:module; two modules may have functions of one name.
        "while read -r slot address name module; do "
        f"case $slot in {'|'.join(NOT_COUNTED)}) continue;; esac; "
        "module=${module#[}; module=${module%]}; "
        "echo \"$name${module:+:mod:$module}\" >> $T/set_ftrace_filter; done < $OUT/cost.callbacks",
        "for e in \"$T\"/events/irq_vectors/*_entry \"$T\"/events/irq/irq_handler_entry; do "
        "echo 1 > $e/enable; { echo 'system: interrupt'; cat $e/format; } >> $OUT/cost.formats; done",
        "{ echo 'system: ftrace'; cat $T/events/ftrace/funcgraph_exit/format; } >> $OUT/cost.formats",
        "echo function_graph > $T/current_tracer",
        "echo 1 > $T/tracing_on",
        f"echo {CALIBRATION_CALLS} > $C/calibrate",
    )


# dd reads page by page.  At the buffer's end it would wait for more, so timeout ends it.
AFTER = (
    f"echo {CALIBRATION_CALLS} > $C/calibrate",
    "echo 0 > $T/tracing_on",
    "timeout 5 dd bs=4096 if=$T/per_cpu/cpu0/trace_pipe_raw of=$OUT/cost.raw 2>/dev/null || :",
    "cat $T/per_cpu/cpu0/stats > $OUT/cost.stats",
)


@functools.cache
def files(release: str) -> dict[str, bytes]:
    """The calibration module for a kernel, as a file for the guest's working directory."""
    kdir = packages.headers(release)
    out = BUILD / "cost" / release / image.module_key(kdir, [SOURCE])
    with locked("cost"):
        if not (out / "done").exists():
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            shutil.copy(SOURCE, out)
            (out / "Kbuild").write_text(f"obj-m := {SOURCE.stem}.o\n")
            image.kbuild("cost calibration", kdir, out)
            (out / "done").touch()
    return {MODULE: image.stripped(out / MODULE)}


@dataclass(frozen=True)
class Callback:
    """One function of a congestion control: the number of calls, and the instructions of a call."""

    slots: tuple[str, ...]      # its members in tcp_congestion_ops
    name: str
    calls: int
    interrupted: int            # calls with an interrupt; mean and median leave them out
    mean: float | None          # instructions
    median: float | None


@dataclass(frozen=True)
class Cost:
    """The instructions that a run's congestion control executes for its ACKs."""

    acks: int
    callbacks: tuple[Callback, ...]
    overhead: float             # of the tracer, ns a call; already subtracted from the callbacks
    known: float                # measured number of the KNOWN instructions

    @property
    def per_ack(self) -> float:
        """Instructions of all callbacks, on ACKs and when sending, divided by the number of ACKs."""
        return sum(each.calls * (each.mean or 0) for each in self.callbacks) / self.acks

    def as_dict(self) -> dict:
        return {"acks": self.acks, "per_ack": self.per_ack, "overhead": self.overhead,
                "known": self.known, "callbacks": [
                    {"slot": ", ".join(each.slots), "name": each.name, "calls": each.calls,
                     "calls_per_ack": each.calls / self.acks, "interrupted": each.interrupted,
                     "mean": each.mean, "median": each.median} for each in self.callbacks]}


def functions(text: str) -> dict[int, tuple[tuple[str, ...], str]]:
    """Address -> (slots, name) of each function, from the calibration module's list."""
    by_address = {}
    for line in text.splitlines():
        slot, address, name = line.split()[:3]
        if slot not in NOT_COUNTED:
            slots, _ = by_address.get(int(address, 16), ((), ""))
            by_address[int(address, 16)] = ((*slots, slot), name)
    return by_address


def calls(exits: np.ndarray, address: int) -> np.ndarray:
    """A mask of the records of the function that begins at an address.

    A record has the address of the tracer's call: the function's first byte, or the byte after its
    landing pad (Debian's kernels from 6.6 on).
    """
    return (exits["func"] == address) | (exits["func"] == address + ENDBR64)


def account(known: dict, exits: np.ndarray, interrupts: np.ndarray, acks: int) -> Cost:
    """The cost from the tracer's records.  Raises LabError if the calibration fails.

    known: as functions() returns it.
    exits: records with func, calltime, rettime (ns), depth.
    interrupts: times of the interrupts, sorted.
    acks: number of ACKs that the sender received.
    """
    if len(exits) and exits["depth"].max() > 0:
        raise LabError("cost: a callback calls another traced one, so the times overlap")
    took = (exits["rettime"] - exits["calltime"]).astype("i8")
    hit = (np.searchsorted(interrupts, exits["rettime"], side="right")
           > np.searchsorted(interrupts, exits["calltime"], side="left"))
    rows = {}
    for address, (slots, name) in known.items():
        own_calls = calls(exits, address)
        clean = took[own_calls & ~hit]
        rows[slots] = (name, int(own_calls.sum()), int((own_calls & hit).sum()), clean)
    for slot in CALIBRATION:
        *_, clean = rows[slot,]
        if len(clean) < CALIBRATION_CALLS or np.ptp(clean) > CLOCK_ERROR:
            raise LabError(f"cost: the tracer's own time is not constant ({slot}: "
                           f"{sorted(set(clean.tolist()))} ns in {len(clean)} calls)")
    overhead = float(rows["nothing",][3].mean())
    thousand = float(rows["1000_nops",][3].mean()) - overhead
    if abs(thousand - KNOWN) > CLOCK_ERROR:
        raise LabError(f"cost: {KNOWN} instructions measured as {thousand:.1f}")
    if not acks:
        raise LabError("cost: the sender received no ACK")
    return Cost(acks, tuple(
        Callback(slots, name, calls, interrupted,
                 float(clean.mean() - overhead) if len(clean) else None,
                 float(np.median(clean) - overhead) if len(clean) else None)
        for slots, (name, calls, interrupted, clean) in rows.items()
        if slots[0] not in CALIBRATION and calls), overhead, thousand)


def acks_received(packets: pcap.Packets, port: int) -> int:
    """Number of ACKs that tcp_ack() processed.

    They are the ACKs from the receiver's port, with that of the handshake, that reached the sender's
    interface before the sender reset the connection.  A flow with `seconds` ends with a reset, and
    later ACKs meet no socket.
    """
    resets = packets.t[(packets.dport == port) & (packets.flags & pcap.RST > 0)]
    acks = (packets.sport == port) & (packets.flags & (pcap.ACK | pcap.RST) == pcap.ACK)
    return int((packets.t[acks] < resets.min(initial=np.iinfo("i8").max)).sum())


def of_run(run: Run) -> Cost:
    """The cost measured in a run with one flow.  Raises LabError if the trace lost records."""
    stats = dict(line.split(": ", 1) for line in run.read("cost.stats").decode().splitlines())
    for name in ("overrun", "commit overrun", "dropped events", "entries"):
        if int(stats[name]):
            raise LabError(f"cost: the trace lost records ({name}: {stats[name]})")
    events = trace.events(run.read("cost.raw"), run.read("cost.formats").decode())
    _, exits = events.pop("ftrace:funcgraph_exit")
    interrupts = np.sort(np.concatenate([times for times, _ in events.values()]))
    return account(functions(run.read("cost.callbacks").decode()), exits, interrupts,
                   acks_received(run.sender, FIRST_PORT))
