# SPDX-License-Identifier: GPL-2.0
"""satcc metrics: prints the sums of status in the text format of Prometheus.

Labels are policies and modules, never addresses, so the number of series is small.  Sums are over
live connections: they fall when a connection closes, so they are gauges.
"""

import json

from . import status

HELP = {
    "satcc_connections": "connections by policy",
    "satcc_acked_bytes": "bytes acknowledged on live connections",
    "satcc_sent_segments": "data segments sent on live connections",
    "satcc_retransmitted_segments": "segments sent again on live connections",
    "satcc_busy_seconds": "time in which live connections had data to send",
    "satcc_limited_seconds": "busy time of live connections, by cause of the limit",
    "satcc_rtt_seconds": "smoothed RTT of live connections: smallest, median, largest",
    "satcc_routes": "routes with a policy; an empty policy: lost with its module",
    "satcc_default": "1 for the default policy",
    "satcc_module": "1 for a loaded module, with its version",
    "satcc_module_references": "references to a module: by sockets, namespaces, modules",
}


def samples(state):
    """(name, labels, value) of each series, from the state that status gathers."""
    yield "satcc_default", {"policy": state["default"]}, 1
    for each in state["modules"]:
        labels = {"module": each["module"], "version": each["version"] or "",
                  "srcversion": each["srcversion"] or ""}
        yield "satcc_module", labels, 1
        if each["references"] is not None:
            yield "satcc_module_references", {"module": each["module"]}, each["references"]
    counts = {}
    for each in state["routes"]:
        key = each["policy"] or "", "satcc" if each["by_satcc"] else "other"
        counts[key] = counts.get(key, 0) + 1
    for (policy, by), count in counts.items():
        yield "satcc_routes", {"policy": policy, "by": by}, count
    for policy, each in state["sockets"].items():
        yield from policy_samples(policy, each)


def policy_samples(policy, summary):
    """The series of one policy's connections."""
    sums, label = summary["total"], {"policy": policy}
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


def run(host, options):
    """Print the series, or replace a file by them atomically.  Returns the exit status."""
    series = list(samples(status.gather(host)))
    if options.json:
        written = json.dumps([{"name": name, "labels": labels, "value": value}
                              for name, labels, value in series], indent=2) + "\n"
    else:
        written = text(series)
    if options.output:
        host.write_whole(options.output, written, below_root=False)
    else:
        print(written, end="")
    return 0
