# SPDX-License-Identifier: GPL-2.0
"""What a receiver lets through: a link played by a sender without congestion control, beside which a
policy's time is its own doing.

A link's own floor (Scenario.ideal_s()) supposes that the receiver takes all at once.  Linux's opens
its window from 64 kB on, as data comes in, and no further than its buffer allows: on a fast link a
transfer is held by that for some round trips, whoever sends.  It is no floor to the letter: 1 MB at
10 Mbit/s and 600 ms takes such a sender 3.68 s, and the kernel's hybla 3.35.
"""

import dataclasses

from ..record.run import Run
from ..scenario.scenario import Flow, Host, LinkChange, Scenario, Stage

# "Without congestion control": reno whose first window is more than any transfer needs, unpaced, into
# a queue that drops nothing.
CC = "reno"
SEGMENTS = 100_000
ROOM = {"net.ipv4.tcp_wmem": "4096 16384 400000000"}        # bytes, for the largest transfer
# receiver: the one that policies send to, with room for four times bandwidth-delay product and queue.
# stock: with the buffer that Linux has unless told otherwise, 6 MB at most.
RECEIVERS = {"receiver": {}, "stock": {"net.ipv4.tcp_rmem": "4096 131072 6291456"}}


def unlimited(base: Scenario, size: int, receiver: str) -> Scenario:
    """A transfer over a link's bottleneck and delays that only its rate and one of RECEIVERS hold back.
    The link is without loss."""
    number, stage = base.bottleneck
    # As large as in the policies' runs, whose queue is shorter.
    buffer = f"4096 {base.socket_bytes()} {base.socket_bytes()}"
    hops = list(base.hops)
    hops[number] = dataclasses.replace(hops[number], forward=_deep(stage))
    return dataclasses.replace(
        base, hops=tuple(hops), flows=(Flow(CC, bytes=size),),
        changes=tuple(_changed(change) for change in base.changes),
        sender=Host(initcwnd=SEGMENTS, sysctl=ROOM),
        receiver=Host(sysctl={"net.ipv4.tcp_rmem": buffer, **RECEIVERS[receiver]})).check()


def _deep(stage: Stage) -> Stage:
    return Stage(rate_mbit=stage.rate_mbit, queue_packets=SEGMENTS)


def _changed(change: LinkChange) -> LinkChange:
    """A change of a rate keeps the deep queue."""
    if not (change.forward and change.forward.rate_mbit):
        return change
    return dataclasses.replace(change, forward=_deep(change.forward))


def receiver_limited_s(run: Run, flow: int = 0) -> float:
    """How long a flow's sender had data and cwnd but waited for the receiver's window, s."""
    return run.json(f"flow-{flow}.json")["rwnd_limited"] / 1e6
