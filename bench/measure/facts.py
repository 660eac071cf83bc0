# SPDX-License-Identifier: GPL-2.0
"""Facts of a run: verdict.py derives causes from these numbers."""

import numpy as np

from ..record.run import Run
from ..scenario import satellite
from ..scenario.scenario import FIRST_PORT
from . import flow_view, metrics


def of_run(run: Run) -> dict:
    """Facts of the whole run, and of each of its flows."""
    scenario = run.scenario
    stage = scenario.bottleneck[1] if scenario.bottleneck else None
    hops = [run.json(f"qdisc-{hop.name}.json") for hop in scenario.hops]
    qdiscs = [entry for hop in hops for entry in hop]
    links = _satellites(run)
    return {
        "queue_packets": scenario.queue_packets(stage) if stage else None,
        "queue_drops": sum(entry["drops"] for hop in hops for entry in hop
                           if _drops_when_full(entry, hop))
        + sum(link["queue_drops"] for link in links),
        "link_losses": sum(entry["drops"] for entry in qdiscs if entry["kind"] == "netem")
        + sum(link["error_losses"] for link in links),
        "flows": [of_flow(run, number) for number in range(len(scenario.flows))],
    }


def _drops_when_full(qdisc: dict, hop: list[dict]) -> bool:
    """Whether the drops of a qdisc of this hop are those of a queue, or of a policer.

    A queue is a child of the shaper, which counts the drops once more.  A policer is a shaper without
    a child.  netem's queue is a delay line and never full.
    """
    if qdisc["kind"] == "netem":
        return False
    children = [other for other in hop
                if other["dev"] == qdisc["dev"] and other.get("parent") == qdisc["handle"]]
    return "parent" in qdisc or qdisc["kind"] == "tbf" and not children


def _satellites(run: Run) -> list[dict]:
    """The counters of each satlink of the run."""
    return [run.json(satellite.result_name(hop, side)) for hop, side, _ in satellite.links(run.scenario)]


def proxied(run: Run, flow) -> bool:
    """Whether a proxy splits the flow."""
    return run.scenario.peer(flow) != flow.to


def of_flow(run: Run, number: int) -> dict:
    """Facts of one flow: those from the scenario, TCP_INFO, the trace and the sender's capture."""
    flow = run.scenario.flows[number]
    facts = {"cc": flow.names[-1], "proxied": proxied(run, flow), "rtt_s": run.scenario.rtt_s(flow),
             "bdp_packets": run.scenario.flow_bdp_packets(flow), **_tcp_info(run, number)}
    if not facts["proxied"]:        # the proxy's socket has the same port at the receiver
        facts |= _windows(run, number)
    # Tools whose flow is one TCP connection in the sender's capture.
    seen = flow.source == "sender" and flow.tool in ("flow", "iperf3")
    if seen and metrics.has_capture(run, "sender"):
        facts |= _segments(run, number)
    return facts


def _tcp_info(run: Run, number: int) -> dict:
    """Facts from TCP_INFO.  rwnd_limited and sndbuf_limited are shares of the busy time."""
    info = metrics.tcp_info(run, number)
    if not info:
        return {}
    busy = info["busy_time"]
    return {"segments": info["data_segs_out"], "retransmits": info["total_retrans"],
            "busy_s": busy / 1e6, "min_rtt_s": info["min_rtt"] / 1e6, "mss": info["snd_mss"],
            "bytes_acked": info["bytes_acked"],
            "rwnd_limited": info["rwnd_limited"] / busy if busy else 0.0,
            "sndbuf_limited": info["sndbuf_limited"] / busy if busy else 0.0}


def _windows(run: Run, number: int) -> dict:
    """Facts from the kernel's tcp_probe events: windows in segments, times in s since the first one.

    avoidance_s is the time of the first event with cwnd >= ssthresh, max_cwnd_s that of the largest
    cwnd.
    """
    times, windows = metrics.windows(run, number)
    if not len(windows):
        return {}
    _, records = run.events["tcp:tcp_probe"]
    own = records["dport"] == FIRST_PORT + number
    avoiding = np.flatnonzero(windows >= records["ssthresh"][own])
    start = {"avoidance_s": float((times[avoiding[0]] - times[0]) / 1e9),
             "avoidance_cwnd": int(windows[avoiding[0]])} if len(avoiding) else {}
    return {"first_cwnd": int(windows[0]), "max_cwnd": int(windows.max()),
            "max_cwnd_s": float((times[windows.argmax()] - times[0]) / 1e9), **start,
            "timeouts": metrics.timeouts(run, number),
            "peer_window": int(records["snd_wnd"][own].max()),
            "max_srtt_s": float(records["srtt"][own].max() / 1e6)}


def _segments(run: Run, number: int) -> dict:
    """Facts from the sender's capture: recovery, the first round trips, and the first loss."""
    view = flow_view.FlowView(run, number)
    facts = {"recovery": _recovery_share(view), "rounds": _rounds(view)}
    again = np.flatnonzero(view.is_retransmit)
    if len(again):
        at = again[0]
        acked = view.acked_by(view.segment_s[at])
        sent = int((view.segment_seq + view.segment_len)[:at].max()) if at else 0
        facts |= {"first_loss_s": float(view.segment_s[at]),
                  "first_loss_flight": round((sent - acked) / run.scenario.mss),
                  "first_loss_sent": round(sent / run.scenario.mss)}
    return facts


def _recovery_share(view: flow_view.FlowView) -> float:
    """Share of the flow's time in recovery, 0 to 1.

    A recovery lasts from a first retransmission until all data then in flight is acknowledged.
    """
    if not len(view.ack_s) or not len(view.segment_s):
        return 0.0
    high = np.maximum.accumulate(view.segment_seq + view.segment_len)
    spent, until = 0.0, 0.0
    for at in np.flatnonzero(view.is_retransmit):
        begin = view.segment_s[at]
        if begin < until:
            continue
        done = np.searchsorted(view.ack_bytes, high[at])
        until = view.ack_s[min(done, len(view.ack_s) - 1)]
        spent += max(0.0, until - begin)
    whole = view.ack_s[-1] - view.segment_s[0]
    return float(spent / whole) if whole > 0 else 0.0


def _rounds(view: flow_view.FlowView, most: int = 12) -> list[int]:
    """Segments sent in each of the first round trips, at most `most` of them.

    A round trip begins when the first segment of the one before it is acknowledged.
    """
    rounds, begin = [], 0
    while begin < len(view.segment_s) and len(rounds) < most:
        answered = np.searchsorted(view.ack_bytes, view.segment_seq[begin] + view.segment_len[begin])
        end = np.searchsorted(view.segment_s, view.ack_s[answered]) \
            if answered < len(view.ack_s) else len(view.segment_s)
        end = max(int(end), begin + 1)
        rounds.append(end - begin)
        begin = end
    return rounds
