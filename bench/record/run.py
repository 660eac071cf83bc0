# SPDX-License-Identifier: GPL-2.0
"""A finished run: its scenario, its files, and their contents."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..errors import LabError
from ..scenario.scenario import Scenario
from . import pcap, trace

TRAFFIC = ("sender.pcap", "bottleneck.pcap", "receiver.pcap", "trace.raw")
META = "meta.json"
FORMAT = 4              # of the stored files; runs of another format are not reused


@dataclass(frozen=True)
class Run:
    """A finished run.  It reads a file when a method needs it."""

    scenario: Scenario
    folder: Path
    meta: dict
    from_cache: bool

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def records_missed(self) -> int:
        """Number of records that satcc_log could not write."""
        path = self.folder / "witness.lost"
        return int(path.read_text()) if path.exists() else 0

    def json(self, name: str):
        return json.loads(self.read(name))

    @property
    def hash(self) -> str:
        """SHA-256 over captures and trace: two runs with the same hash had the same packets."""
        return self.meta["hash"]

    @cached_property
    def sender(self) -> pcap.Packets:
        return pcap.read(self.read("sender.pcap"))

    @cached_property
    def bottleneck(self) -> pcap.Packets:
        return pcap.read(self.read("bottleneck.pcap"))

    @cached_property
    def receiver(self) -> pcap.Packets:
        return pcap.read(self.read("receiver.pcap"))

    @cached_property
    def events(self) -> dict:
        """Name, as "system:name" -> (times in ns, numpy records), of each trace event.

        {} if the run has no trace, or only events of modules that it did not load.
        """
        if not (self.folder / "trace.formats").exists():
            return {}
        since = self._trace_clock_starts_ns()
        return {name: (times + since, records) for name, (times, records) in trace.events(
            self.read("trace.raw"), self.read("trace.formats").decode()).items()}

    def _trace_clock_starts_ns(self) -> np.uint64:
        """The captures' time at 0 of the trace's clock, which begins at the boot on an old kernel."""
        if not (self.folder / "timer_list").exists():
            return np.uint64(0)
        realtime = re.search(r"^ clock 1:.*?\.offset:\s+(\d+) nsecs", self.read("timer_list").decode(),
                             re.M | re.S)
        return np.uint64(realtime[1])

    def qdisc(self, hop: str, kind: str, dev: str = "right") -> dict:
        """Counters of a hop's qdisc at the end: bytes, packets, drops, ...  Raises LabError."""
        for entry in self.json(f"qdisc-{hop}.json"):
            if entry["kind"] == kind and entry.get("dev") == dev:
                return entry
        raise LabError(f"no {kind} on {hop} {dev}")


def traffic_hash(files: dict[str, bytes]) -> str:
    """SHA-256 over the files in TRAFFIC, as far as the run has them."""
    total = hashlib.sha256()
    for name in TRAFFIC:
        if name in files:
            total.update(name.encode() + b"\0" + files[name])
    return total.hexdigest()
