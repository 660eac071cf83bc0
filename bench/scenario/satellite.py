# SPDX-License-Identifier: GPL-2.0
"""The schema of a hop's direction as a satellite link.

No qdisc has time slots, bandwidth on demand, errors by size or by the clock, a delay that changes
without reordering, or merging of ACKs.  The helper guest/satlink.c has these; lab/satlink.py starts it.
"""

import math
from dataclasses import dataclass

from ..errors import LabError
from .schema import Table, one_of, real, whole

PROGRAM = "satlink"
# Side of a stage -> its output device, the TUN before this device, the routing table behind the TUN.
SIDES = {"forward": ("right", "sat-right", 101), "reverse": ("left", "sat-left", 102)}
MAX_LAG = 64                # super-frames from a request to its grant; satlink's limit
MAC = one_of("bod", "tdma")
PERCENT = real(0, 100)


@dataclass(frozen=True)
class Mac(Table):
    """TDMA with bandwidth on demand, as guest/satlink.c describes it.

    The defaults are those of the Skyplex platform in Caini et al. 2008, section 3.3.
    """

    kind: MAC = "bod"                       # tdma: only the static share
    rate_kbit: real(1, 1e9) = 2112          # rate of the channel in a slot; 3.3, "Low Rate"
    slots: whole(1, 10**6) = 48             # slots of a multi-frame; 3.3, N x L = 6 a frame x 8 frames
    multiframes: whole(1, 10**6) = 3        # multi-frames of a super-frame; 3.3
    superframe_ms: real(0.001, 1e6) = 820   # 3.3; a grant is valid for one super-frame
    static_kbit: real(0, 1e9) = 44          # always granted, in whole slots; 3.3
    cap_kbit: real(0, 1e9) = 1144           # largest rate, with the static share; 3.3, for 22 terminals
    allocation_ms: real(0, 1e8) = 1346      # from a request to its grant, at the next super-frame; 3.3
    # Share of a slot without IP: guard times, cell headers, signalling.  In 5.1, 48 % of 2 Mbit/s of UDP
    # are lost, so 1060 kbit/s of IP pass (if they are iperf's: 1470 bytes in packets of 1498).
    overhead_pct: PERCENT = 7.4
    # Phase of the first super-frame after the flows' start; -1: random, by the seed.
    phase_ms: real(-1, 1e6) = 0
    queue_bytes: whole(1, 10**9) = 1_000_000    # the gateway's queue before the slots; 5.2
    queue_packets: whole(0, 10**6) = 0      # the queue in packets; 0: queue_bytes is the limit

    @property
    def granularity_kbit(self) -> float:
        """The rate of one slot in every multi-frame, kbit/s."""
        return self.rate_kbit / self.slots

    @property
    def slot_ns(self) -> float:
        return self.superframe_ms * 1e6 / (self.multiframes * self.slots)

    @property
    def slot_bytes(self) -> int:
        """Whole IP bytes of a slot."""
        return int(self.rate_kbit * self.slot_ns / 8e6 * (1 - self.overhead_pct / 100))

    @property
    def static_slots(self) -> int:
        return round(self.static_kbit / self.granularity_kbit)

    @property
    def cap_slots(self) -> int:
        return self.static_slots if self.kind == "tdma" else round(self.cap_kbit / self.granularity_kbit)

    @property
    def lag(self) -> int:
        """Number of super-frames from a request, at a super-frame's start, to the one with its grant."""
        return max(1, math.ceil(self.allocation_ms / self.superframe_ms))

    def ip_kbit(self, slots: int) -> float:
        """The rate of IP packets in this many slots of every multi-frame, kbit/s."""
        return slots * self.multiframes * self.slot_bytes * 8 / self.superframe_ms

    def rules(self) -> None:
        if self.slot_bytes < 1:
            raise ValueError("a slot is too small for one byte")
        for name in ("static_kbit", "cap_kbit"):
            slots = getattr(self, name) / self.granularity_kbit
            if not math.isclose(slots, round(slots), abs_tol=1e-6) or not 0 <= slots <= self.slots:
                raise ValueError(f"{name} is not a whole number of slots of "
                                 f"{self.granularity_kbit:g} kbit/s")
        if not self.static_slots <= self.cap_slots or not self.cap_slots:
            raise ValueError("cap_kbit must be above 0 and at least static_kbit")
        if self.allocation_ms > MAX_LAG * self.superframe_ms:
            raise ValueError(f"allocation_ms is at most {MAX_LAG} super-frames")

    @property
    def words(self) -> list[str]:
        """satlink's arguments."""
        phase_ns = -1 if self.phase_ms < 0 else round(self.phase_ms * 1e6)
        queue = f"queue_packets {self.queue_packets}" if self.queue_packets \
            else f"queue_bytes {self.queue_bytes}"
        return [f"slots {round(self.superframe_ms * 1e6)} {self.multiframes} {self.slots} "
                f"{self.slot_bytes} {self.static_slots} {self.cap_slots} {self.lag} {phase_ns}", queue]


@dataclass(frozen=True)
class Errors(Table):
    """Loss on the air by one of three models: bit errors, fades, or coded frames."""

    ber: real(0, 0.5) = 0           # a packet of n bytes is lost with probability 1 - (1 - ber)^(8n)
    good_s: real(0, 1e6) = 0        # mean length of the good state, exponential, by the clock
    bad_s: real(0, 1e6) = 0         # mean length of a fade
    loss_good_pct: PERCENT = 0      # lost packets in the good state
    loss_bad_pct: PERCENT = 100     # lost packets in a fade
    frame_bytes: whole(0, 10**6) = 0    # of a coded frame; a packet with a byte in a bad frame is lost
    frame_ms: real(0, 1e6) = 0      # duration of a coded frame
    frame_loss_pct: PERCENT = 0     # bad frames

    def mean_loss(self, size: int) -> float:
        """The mean loss of packets of this many bytes, by bit errors or by fades."""
        if self.frame_bytes:
            raise LabError("the loss of coded frames depends on the arrival times of the packets")
        if self.ber:
            return -math.expm1(8 * size * math.log1p(-self.ber))
        return (self.good_s * self.loss_good_pct + self.bad_s * self.loss_bad_pct) \
            / (self.good_s + self.bad_s) / 100

    def rules(self) -> None:
        models = [bool(self.ber), bool(self.good_s or self.bad_s), bool(self.frame_bytes)]
        if sum(models) != 1:
            raise ValueError("one of ber, good_s with bad_s, frame_bytes")
        if models[1] and not (self.good_s and self.bad_s):
            raise ValueError("good_s and bad_s must be above 0")
        if models[2] and not self.frame_ms:
            raise ValueError("frame_bytes needs frame_ms")

    @property
    def words(self) -> list[str]:
        """satlink's arguments."""
        if self.ber:
            return [f"ber {self.ber!r}"]
        if self.good_s:
            return [f"gilbert {self.good_s * 1e9:.0f} {self.bad_s * 1e9:.0f} "
                    f"{self.loss_good_pct / 100!r} {self.loss_bad_pct / 100!r}"]
        return [f"frames {self.frame_bytes} {self.frame_ms * 1e6:.0f} {self.frame_loss_pct / 100!r}"]


def rules(stage) -> None:
    """Check a stage that satlink plays: its keys must fit together, and no other key may be set."""
    for name in ("rate_mbit", "jitter_ms", "loss_pct", "reorder_pct", "duplicate_pct", "ecn"):
        if getattr(stage, name):
            raise ValueError(f"{name} cannot be combined with mac, errors, delay_series or merge_ms; "
                             "put it on another hop")
    if stage.merge_bytes and not stage.merge_ms:
        raise ValueError("merge_bytes needs merge_ms, which limits the wait")
    if stage.merge_ms and stage.mac:
        raise ValueError("merge_ms cannot be combined with mac; put it on the hop before")
    if stage.mac and stage.errors and stage.errors.good_s:
        # satlink has one log, and the two write different rows to it.
        raise ValueError("errors.good_s cannot be combined with mac; put the errors on the next hop")
    if stage.delay_series:
        if stage.delay_ms:
            raise ValueError("either delay_ms or delay_series")
        times = [at for at, _ in stage.delay_series]
        if times[0] != 0 or times != sorted(set(times)):
            raise ValueError("delay_series is [[0, ms], [s, ms], ...], times rising")


def links(scenario) -> list[tuple]:
    """(hop's name, side, stage) of every direction that satlink plays."""
    return [(hop.name, side, getattr(hop, side)) for hop in scenario.hops for side in SIDES
            if getattr(hop, side).is_satellite]


def result_name(hop: str, side: str) -> str:
    """Name of the file with satlink's counters; its log ends in .csv."""
    return f"{PROGRAM}-{hop}-{side}.json"


def device_name(hop: str, side: str) -> str:
    """Name of the file with the counters of `ip` for satlink's device."""
    return f"{PROGRAM}-{hop}-{side}-device.json"
