# SPDX-License-Identifier: GPL-2.0
"""satcc metrics: prints sums by policy and prefix in the text format of Prometheus.

Labels are policies, modules, and the prefixes to which `satcc route` gives a policy, never the peers'
addresses, so the number of series is small.  Sums are over live connections: they fall when a connection
closes, so they are gauges.  With --log the sums are over the connections that started in a table of
satcc-log.
"""

import ipaddress
import json
import statistics

from . import sockets, start, status, tables
from .host import UsageError

ELSEWHERE = "default"           # the prefix of connections to which no route of satcc's leads
HELP = {
    "satcc_connections": "connections by policy and by the prefix of satcc's route to the peer",
    "satcc_acked_bytes": "bytes acknowledged on live connections",
    "satcc_sent_segments": "data segments sent on live connections",
    "satcc_retransmitted_segments": "segments sent again on live connections",
    "satcc_busy_seconds": "time in which live connections had data to send",
    "satcc_limited_seconds": "busy time of live connections, by cause of the limit",
    "satcc_rtt_seconds": "smoothed RTT of live connections: smallest, median, largest",
    "satcc_routes": "routes with a policy; an empty policy: lost with its module",
    "satcc_default": "1 for the default policy",
    "satcc_module": "1 for a loaded module, with its version",
    "satcc_bpf": "1 for a policy that is loaded as a BPF object",
    "satcc_module_references": "references to a module: by sockets, namespaces, modules",
    "satcc_start_connections": "connections that started in the log, by what ended slow start",
    "satcc_start_window_segments": "cwnd at the end of slow start: smallest, median, largest",
    "satcc_start_again_segments": "segments of the first 5 RTTs that were sent again: smallest, median, "
                                  "largest of a connection",
}


# ---- prefixes --------------------------------------------------------------

def prefixes(routes):
    """(ip_network, local port or None) of satcc's routes, in the order in which the kernel uses them."""
    own = {(ipaddress.ip_network(each["prefix"]), each["port"]) for each in routes if each["by_satcc"]}
    return sorted(own, key=lambda place: (-place[0].prefixlen, place[1] is None, str(place)))


def prefix_of(places, peer, local_port):
    """The label of the route that leads to a peer: 203.0.113.0/24, 0.0.0.0/0 port 443, default."""
    for network, port in places:
        if peer and peer in network and port in (None, local_port):
            return f"{network} port {port}" if port else str(network)
    return ELSEWHERE


def by_policy_and_prefix(live, places):
    """(policy, prefix) -> the summary of its connections."""
    groups = {}
    for policy, group in sockets.by_policy(live).items():
        for socket in group:
            prefix = prefix_of(places, socket.peer, socket.local_port)
            groups.setdefault((policy, prefix), []).append(socket)
    return {key: sockets.summary(group) for key, group in sorted(groups.items())}


def gather(host):
    """What the series are made of."""
    state = status.without_connections(host)
    return {**state, "groups": by_policy_and_prefix(sockets.live(host), prefixes(state["routes"]))}


# ---- series ----------------------------------------------------------------


def samples(state):
    """(name, labels, value) of each series, from the state that status gathers."""
    yield "satcc_default", {"policy": state["default"]}, 1
    for each in state["modules"]:
        labels = {"module": each["module"], "version": each["version"] or "",
                  "srcversion": each["srcversion"] or ""}
        yield "satcc_module", labels, 1
        if each["references"] is not None:
            yield "satcc_module_references", {"module": each["module"]}, each["references"]
    for each in state["bpf"]:
        yield "satcc_bpf", {"policy": each["policy"]}, 1
    counts = {}
    for each in state["routes"]:
        key = each["policy"] or "", "satcc" if each["by_satcc"] else "other"
        counts[key] = counts.get(key, 0) + 1
    for (policy, by), count in counts.items():
        yield "satcc_routes", {"policy": policy, "by": by}, count
    for (policy, prefix), each in state["groups"].items():
        yield from group_samples({"policy": policy, "prefix": prefix}, each)


def group_samples(label, summary):
    """The series of one group of connections."""
    sums = summary["total"]
    yield "satcc_connections", label, summary["sockets"]
    yield "satcc_acked_bytes", label, sums["bytes_acked"]
    yield "satcc_sent_segments", label, sums["segments_sent"]
    yield "satcc_retransmitted_segments", label, sums["segments_retransmitted"]
    yield "satcc_busy_seconds", label, sums["busy_ms"] / 1e3
    waits = {"rwnd": sums["rwnd_limited_ms"], "sndbuf": sums["sndbuf_limited_ms"]}
    waits["cwnd"] = max(sums["busy_ms"] - sum(waits.values()), 0)
    for by, milliseconds in waits.items():
        yield "satcc_limited_seconds", {**label, "by": by}, milliseconds / 1e3
    for statistic, milliseconds in (summary["rtt_ms"] or {}).items():
        yield "satcc_rtt_seconds", {**label, "statistic": statistic}, milliseconds / 1e3


def start_samples(starts, places):
    """The series of the connections that started in a log."""
    groups = {}
    for each in starts:
        prefix = prefix_of(places, ipaddress.ip_address(each.peer), each.local_port)
        groups.setdefault((each.policy, prefix), []).append(each)
    for (policy, prefix), group in sorted(groups.items()):
        label = {"policy": policy, "prefix": prefix}
        ends = [each.end for each in group]
        for reason in sorted(set(ends)):
            yield "satcc_start_connections", {**label, "reason": reason}, ends.count(reason)
        windows = [each.window for each in group if each.window is not None]
        for name, values in (("window", windows), ("again", [each.again for each in group])):
            for word, of in (("min", min), ("median", statistics.median), ("max", max)):
                if values:
                    yield f"satcc_start_{name}_segments", {**label, "statistic": word}, of(values)


def escaped(value):
    """A label's value with the escapes of the format."""
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def text(series):
    """The series as text: those of one name together, after their HELP and TYPE."""
    lines = []
    for name, meaning in HELP.items():
        rows = [(labels, value) for each, labels, value in series if each == name]
        if rows:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
        for labels, value in rows:
            inside = ",".join(f'{label}="{escaped(content)}"' for label, content in labels.items())
            lines.append(f"{name}{{{inside}}} {value}")
    return "\n".join(lines) + "\n"


def show_flows(starts, places, options):
    """Print how each connection of a log started.  Returns the exit status."""
    rows = [{"cookie": each.cookie, "peer": each.peer, "local_port": each.local_port,
             "prefix": prefix_of(places, ipaddress.ip_address(each.peer), each.local_port),
             "policy": each.policy, "rtt_ms": None if each.rtt_s is None else each.rtt_s * 1e3,
             "end": each.end, "window_segments": each.window, "again_segments": each.again}
            for each in starts]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        print("\n".join(tables.table(
            ["PEER", "PORT", "PREFIX", "POLICY", "RTT MS", "SLOW START ENDED BY", "CWND", "SENT AGAIN"],
            [[each["peer"], each["local_port"], each["prefix"], each["policy"],
              each["rtt_ms"] and round(each["rtt_ms"], 1), each["end"], each["window_segments"],
              each["again_segments"]] for each in rows])))
    return 0


def run(host, options):
    """Print the series, or replace a file by them atomically.  Returns the exit status."""
    if options.log:
        starts = start.read(options.log)
        places = prefixes(status.policy_routes(host))
        if options.flows:
            return show_flows(starts, places, options)
        series = list(start_samples(starts, places))
    elif options.flows:
        raise UsageError("metrics --flows needs --log FILE")
    else:
        series = list(samples(gather(host)))
    if options.json:
        written = json.dumps([{"name": name, "labels": labels, "value": value}
                              for name, labels, value in series], indent=2) + "\n"
    else:
        written = text(series)
    if options.output and not options.dry_run:
        host.write_whole(options.output, written, below_root=False)
    else:
        print(written, end="")
    return 0
