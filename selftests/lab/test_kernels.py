# SPDX-License-Identifier: GPL-2.0
"""A policy opens its window alike on every kernel, if the receiver opens its own alike.

Whether a window was the limit is the core's answer, tcp_is_cwnd_limited(), in the same words from
6.1 to 7.2.  What changed is the receiver.  6.1's offers 65,535 bytes at first and two segments more
with each that arrives, and a sender with a larger window waits for it; from 6.10 on it offers its
whole buffer at once (378979e94e95, "tcp: remove 64 KByte limit for initial tp->rcv_wnd value").
initrwnd on the receiver's route makes them alike.

Read from the core's own tcp_probe and from the capture, for policies of the kernel too: where those
differ as well, no module of ours is to blame.
"""

import dataclasses
import functools

import numpy as np
import pytest

from bench.lab.play import Lab
from bench.measure import flow_view
from bench.paths import TOP
from bench.scenario import scenario

pytestmark = [pytest.mark.lab, pytest.mark.long]

OLDER, NEWER = "6.1", "6.12"
# What either kernel offers when told to: 44 x 1460 is just below the older one's 65,535 bytes.
COMMON_INITRWND = 44
POLICIES = ("hybla_full", "ibk", "mtsi", "constant_rate", "westwood_abse", "cubic", "reno")
MSS = 1448


@functools.cache
def guest(kernel):
    return Lab(kernel)


def play(kernel, link, cc, initrwnd=COMMON_INITRWND):
    """1 MB over one of the comparison's links.  Without satcc_log, whose hooks take other kernels other
    times: policies by the RTT go by the microsecond."""
    transfer = scenario.load(TOP / "bench" / "scenarios" / f"{link}.toml")
    return guest(kernel).run(dataclasses.replace(
        transfer, flows=tuple(dataclasses.replace(flow, cc=cc) for flow in transfer.flows),
        receiver=dataclasses.replace(transfer.receiver, initrwnd=initrwnd),
        trace=("tcp:tcp_probe",)).check())


def at_acks(run):
    """The core's state as each ACK finds it: cwnd, ssthresh, flight in segments, snd_wnd in bytes."""
    _, records = run.events["tcp:tcp_probe"]
    own = records[records["dport"] == flow_view.FlowView(run).port]
    flight = (own["snd_nxt"] - own["snd_una"]) / MSS
    return own["snd_cwnd"].astype(int), own["ssthresh"].astype(int), flight, own["snd_wnd"]


def segments(run):
    view = flow_view.FlowView(run)
    return view.segment_seq.tolist(), view.segment_len.tolist()


def same_windows(older, newer, off_by=0):
    """cwnd and ssthresh before each ACK, then what was sent: in this order, as the first explains
    the second.  off_by: 1 where windows may differ by a segment or 2 %, and what was sent too."""
    for name, own, theirs in zip(("cwnd", "ssthresh"), at_acks(older), at_acks(newer)):
        assert own.tolist() == pytest.approx(theirs.tolist(), rel=0.02 * off_by, abs=off_by), name
    assert off_by or segments(older) == segments(newer)


@pytest.mark.parametrize("link, cc", [
    *(("geo-2mbit", cc) for cc in POLICIES), ("geo-10mbit", "hybla_full"), ("geo-10mbit", "mtsi")])
def test_windows_are_the_same_at_every_ack(link, cc):
    """At 2 Mbit/s with the overshoot and its recovery; at 10 Mbit/s nothing is lost, and hybla_full
    waits a second for the receiver's window."""
    older, newer = (play(kernel, link, cc) for kernel in (OLDER, NEWER))
    assert len(at_acks(older)[0]) > 600
    # Their estimates are rounded to a segment, and times of ACKs differ by a microsecond.
    same_windows(older, newer, off_by=int(cc in ("westwood_abse", "hybla_full")))


@pytest.mark.parametrize("kernel", [OLDER, NEWER])
def test_window_is_held_while_the_receivers_is_the_limit(kernel):
    """hybla_full's train opens cwnd far beyond the receiver's window.  The first 14 segments filled
    cwnd, ten and two more for each of two ACKs; what they acknowledge opens it, nothing after them,
    until the flight has reached it again."""
    run = play(kernel, "geo-2mbit", "hybla_full")
    cwnd, _, flight, window = at_acks(run)
    second = np.flatnonzero(flight[1:] > 2 * flight[:-1])[0] + 1       # a round trip later
    assert flight[second] > window[second] / MSS - 1 and cwnd[second] > 2 * flight[second]
    filled = np.flatnonzero(flight >= cwnd)
    again = filled[filled > second][0]
    assert filled[filled < second].max() == 2 and again > 14 + 50
    assert (np.diff(cwnd[2:15]) > 0).all()
    assert set(cwnd[14:again]) == {cwnd[14]}
    assert cwnd[again + 1] > cwnd[14]


def test_kernels_differ_in_the_receivers_first_window():
    """With none told, the older receiver's two segments more with each stand against all the newer
    one has.  This is the difference that hybla_full and the kernel's hybla show between the two."""
    older, newer = (play(kernel, "geo-2mbit", "hybla_full", initrwnd=0) for kernel in (OLDER, NEWER))
    assert at_acks(older)[3][0] == at_acks(newer)[3][0] == 65535        # all that a SYN can say
    assert at_acks(older)[3][1] <= 65535 + 2 * 1460 + 64
    assert at_acks(newer)[3][1] > 1_000_000
    assert older.json("flow-0.json")["rwnd_limited"] > 0 == newer.json("flow-0.json")["rwnd_limited"]
    with pytest.raises(AssertionError, match="cwnd"):
        same_windows(older, newer)
