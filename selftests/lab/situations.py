# SPDX-License-Identifier: GPL-2.0
"""What tests of several policies bring about on a link, and the kernel's own count of it."""

import dataclasses

from bench.measure import flow_view
from bench.scenario import scenario

ECN_ON = {"sysctl": {"net.ipv4.tcp_ecn": 1}}
BURST, EVERY_MS = 10, 3000      # segments that the application writes, at such intervals
# A line for a scenario's `after`: the sender's counters, for counters().
COUNT = "in_ns sender cat /proc/net/netstat > $OUT/netstat"


def from_then_on(at_s, **forward):
    """A change of the satellite's forward stage."""
    return {"at_s": at_s, "hop": "satellite", "forward": {"delay_ms": 300, **forward}}


def slower_after_an_outage():
    """Changes of a link of 50 Mbit/s: from 8 s on two seconds of outage, then a fiftieth of the rate."""
    return [from_then_on(8, loss_pct=100), from_then_on(10),
            {"at_s": 10, "hop": "gateway", "forward": {"rate_mbit": 1, "queue_packets": 50}}]


def short_fades():
    """Changes of a link of 600 ms: seven outages of 60 ms, which is 50 segments at 10 Mbit/s.  Their
    period is no multiple of the RTT, so they fall on different parts of a round trip."""
    return [change for outage in range(7)
            for change in (from_then_on(8 + 3.1 * outage, loss_pct=100),
                           from_then_on(8 + 3.1 * outage + 0.06))]


def outage_of_a_limited_flow():
    """The receiver's window keeps a flow of 20 Mbit/s below half of the rate, so that it makes no queue.
    An outage of 0.5 s loses most of a flight, and is shorter than a timeout."""
    return {"rate_mbit": 20, "seconds": 11,
            "receiver": {"sysctl": {"net.ipv4.tcp_rmem": "4096 131072 1200000"}},
            "change": [from_then_on(8.1, loss_pct=100), from_then_on(8.6)]}


def without_sack_after_a_pause():
    """A flow of 10 Mbit/s without SACK pauses.  Then the path loses 3 % and has no queue."""
    return {"rate_mbit": 10, "bytes": 4_000_000, "flow": {"pause_ms": 8000},
            "sender": {"sysctl": {"net.ipv4.tcp_sack": 0}},
            "change": [from_then_on(7, loss_pct=3), from_then_on(20)]}


def limited_by_the_receiver():
    """The receiver's window is 13 segments, which take 1 ms at most.  5 % are lost from 5 s on."""
    return {"rate_mbit": 250, "seconds": 20,
            "receiver": {"sysctl": {"net.ipv4.tcp_rmem": "4096 40000 40000"}},
            "change": [from_then_on(5, loss_pct=5)]}


def lossy_requests():
    """The application writes 2 or 3 segments in a round trip, which do not fill cwnd.  5 % are lost."""
    return {"rate_mbit": 10, "seconds": 20, "loss_pct": 5,
            "flow": {"write_bytes": 1400, "write_ms": 250}}


def limited_on_a_longer_path():
    """A flow with an initial window of 200 segments, whose application writes 20 in a round trip.  satcc
    makes no estimate.  The network repeats half of the ACKs.  From 4 s on the path is 100 ms longer."""
    return {"rate_mbit": 10, "seconds": 10, "modules": {"tcp_satcc": {"hoe": 0}},
            "flow": {"write_bytes": 3000, "write_ms": 100},
            "sender": {"initcwnd": 200, "sysctl": {"net.ipv4.tcp_slow_start_after_idle": 0}},
            "change": [from_then_on(4, delay_ms=400), {
                "at_s": 1, "hop": "gateway", "reverse": {"delay_ms": 300, "duplicate_pct": 50}}]}


def lossy_after_a_pause(loss_pct=40):
    """A flow of 10 Mbit/s pauses.  Then the path loses many of the segments and has no queue."""
    return {"rate_mbit": 10, "bytes": 4_000_000, "flow": {"pause_ms": 8000},
            "change": [from_then_on(7, loss_pct=loss_pct), from_then_on(20)]}


def policed(rtt_ms, rate_mbit=10, bucket_bytes=62_500):
    """Hops of 100 Mbit/s with a policer: it passes rate_mbit and drops the rest, without a queue.

    The default bucket is 50 ms at the default rate.
    """
    delay = {"delay_ms": rtt_ms / 2}
    return {"hop": [{"name": "gateway", "forward": {"rate_mbit": 100, "queue_bdp": 1}},
                    {"name": "policer"},
                    {"name": "satellite", "forward": delay, "reverse": delay}],
            "before": ["in_ns policer tc qdisc replace dev right root tbf "
                       f"rate {rate_mbit}mbit burst {bucket_bytes} limit 1600"]}


def losses_and_marks(loss_pct, mark_pct):
    """Hops of 10 Mbit/s and 100 ms that lose some packets and mark others, at random."""
    return [{"name": "gateway", "reverse": {"delay_ms": 50},
             "forward": {"rate_mbit": 10, "queue_bdp": 1}},
            {"name": "satellite", "forward": {"delay_ms": 25, "loss_pct": loss_pct}},
            {"name": "terminal", "forward": {"delay_ms": 25, "loss_pct": mark_pct, "ecn": True}}]


def late_and_then_marked():
    """All segments of 1.5 s are 1.7 s late, so a timeout is spurious.  Those after 0.2 s are marked."""
    return {"rate_mbit": 10, "seconds": 14, "sender": ECN_ON, "receiver": ECN_ON, "change": [
        from_then_on(8, delay_ms=2000), from_then_on(8.2, delay_ms=2000, loss_pct=100, ecn=True),
        from_then_on(9.5)]}


def restart_from_32():
    """The flow pauses, and its route has an initial window of 32 segments."""
    return {"flow": {"pause_ms": 8000}, "sender": {"initcwnd": 32}}


def narrow_return():
    """Hops of 50 Mbit/s and 600 ms whose return link carries 1140 pure ACKs a second, and queues 40."""
    delay = {"delay_ms": 300}
    return [{"name": "gateway", "forward": {"rate_mbit": 50, "queue_bdp": 1}, "reverse": delay},
            {"name": "satellite", "forward": delay, "reverse": {"rate_mbit": 0.6, "queue_packets": 40}}]


def lost_acks(loss_pct):
    """A flow of 250 Mbit/s and 600 ms whose return link loses ACKs, from 0.5 s on.  The ACKs of its
    first two flights take less than 1 ms each."""
    return {"rate_mbit": 250, "seconds": 3, "change": [
        {"at_s": 0.5, "hop": "gateway", "reverse": {"delay_ms": 300, "loss_pct": loss_pct}}]}


def duplicated_acks():
    """Hops of 10 Mbit/s and 600 ms that duplicate each ACK.  A link of 1 Mbit/s then spaces them."""
    delay = {"delay_ms": 300}
    return [{"name": "gateway", "forward": {"rate_mbit": 10, "queue_bdp": 1}},
            {"name": "satellite", "forward": delay, "reverse": {"rate_mbit": 1, "queue_packets": 1000}},
            {"name": "terminal", "reverse": {**delay, "duplicate_pct": 100}}]


def without_the_first_syn_ack():
    """Changes of a link of 600 ms: the first SYN-ACK is lost, and the SYN repeated after 1 s."""
    return [{"at_s": at_s, "hop": "gateway", "reverse": {"delay_ms": 300, "loss_pct": loss_pct}}
            for at_s, loss_pct in ((0.1, 100), (0.8, 0))]


def link(transfer, what, seconds, delay="300ms"):
    """A shell line: what the satellite's netem does for so many seconds."""
    return (f"tc -n satellite qdisc change dev right root netem limit {transfer.flight_packets()} "
            f"delay {delay} {what}; sleep {seconds}; ")


def rough(transfer):
    """All that happens to links, in 70 s: loss, outages of a second and of five with calm after
    each, marks, a longer path, reordering.  A shell line for a scenario's `commands`."""
    return "sleep 12; " + "".join(link(transfer, *each) for each in (
        ("loss 100%", 1), ("", 8), ("loss 100%", 5), ("", 12), ("loss 2%", 3),
        ("loss 10% ecn", 20), ("loss 0.1%", 6, "700ms"), ("reorder 99% gap 20", 4), ("loss 0.1%", 0)))


def late_and_reordered(transfer, after_s):
    """All segments 1.7 s late for 3 s, so that timeouts are spurious, and reordering for 10 s, as at the
    end of rough().  A shell line for a scenario's `commands`."""
    return f"sleep {after_s}; " + "".join(link(transfer, *each) for each in (
        ("", 3, "2000ms"), ("reorder 99% gap 20", 10), ("loss 0.1%", 0)))


def counters(run):
    """The sender's TcpExt and MPTcpExt of a run with COUNT, by name: TCPDSACKUndo, ..."""
    lines = [line.split()[1:] for line in run.read("netstat").decode().splitlines()]
    return {name: int(value) for names, values in zip(lines[::2], lines[1::2])
            for name, value in zip(names, values)}


def tail_losses(lab, geo, cc, bursts, lost, **rest):
    """A flow of bursts in which single segments are lost: (burst, segment) in `lost`, from 0 on.  When
    they pass is read from a run in which they do not get lost."""
    transfer = geo(cc, rate_mbit=0.5, rtt_ms=600, bytes=bursts * BURST * 1448,
                   flow={"write_bytes": BURST * 1448, "write_ms": EVERY_MS}, **rest)
    clean = lab.run(dataclasses.replace(transfer, captures=("bottleneck", "sender")))
    packets = clean.bottleneck
    data = packets.where(packets.length > 0)
    changes = []
    for burst, segment in lost:
        passed_s = (int(data.t[burst * BURST + segment]) - flow_view.FlowView(clean).start_ns) / 1e9
        changes += [scenario.LinkChange(passed_s - 0.008, "satellite",
                                        scenario.Stage(delay_ms=300, loss_pct=100)),
                    scenario.LinkChange(passed_s + 0.008, "satellite", scenario.Stage(delay_ms=300))]
    return lab.run(dataclasses.replace(transfer, changes=tuple(changes)))
