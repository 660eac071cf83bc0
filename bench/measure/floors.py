# SPDX-License-Identifier: GPL-2.0
"""Transfers of a sender without congestion control: the time beyond theirs is due to the policy.

A link's ideal time (Scenario.ideal_s()) assumes that the receiver accepts all data at once.  A Linux
receiver starts with a window of 64 kB, opens it as data arrives, and is limited by its buffer.  On a
fast link this holds any sender back for some round trips.  The time is not a strict lower bound: 1 MB
at 10 Mbit/s and 600 ms takes this sender 3.68 s, and the kernel's hybla 3.35 s.
"""

import dataclasses

from ..scenario.scenario import Flow, Host, LinkChange, Scenario, Stage

# "Without congestion control" is reno with an initial window larger than any transfer, without pacing,
# and with a queue that drops nothing.
CC = "reno"
SEGMENTS = 100_000
ROOM = {"net.ipv4.tcp_wmem": "4096 16384 400000000"}        # bytes, for the largest transfer
# receiver: that of the policies' runs, with a buffer of four times BDP and queue.
# stock: with Linux's default buffer, at most 6 MB.
RECEIVERS = {"receiver": {}, "stock": {"net.ipv4.tcp_rmem": "4096 131072 6291456"}}


def unlimited(base: Scenario, size: int, receiver: str) -> Scenario:
    """A transfer that only a link's rate and delays and one of RECEIVERS limit.

    The link has no loss.
    size: bytes.  receiver: a key of RECEIVERS.
    """
    number, stage = base.bottleneck
    # The policies' runs have the same buffer, and a shorter queue.
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
