# SPDX-License-Identifier: GPL-2.0
"""Measures rate, RTT and loss of the path to a host that runs `iperf3 -s`.

iperf3 takes RTT and retransmissions from TCP_INFO.
"""

import json
import shlex

from . import policies
from .host import CommandError, OperateError

START = 5                               # s that do not count: the slow start of a geostationary path
TIMEOUT = 10000                         # ms to wait for an answer of the server
PROBING = ("satcc", "bbr", "cubic")     # policies to send with; random loss slows the first least


def chosen_policy(host):
    """The first of PROBING that the kernel has; None if it has none."""
    available = policies.available(host)
    return next((policy for policy in PROBING if policy in available), None)


def command(host, peer, port, seconds):
    """The command that runs iperf3."""
    chosen = chosen_policy(host)
    return ["iperf3", "-J", "-c", peer, "-p", str(port), "-t", str(seconds), "-O", str(START),
            "--connect-timeout", str(TIMEOUT), *(["-C", chosen] if chosen else [])]


def measure(host, peer, port, seconds):
    """Run iperf3; returns figures() with the command.  Raises OperateError."""
    words = command(host, peer, port, seconds)
    try:
        done = host.attempt(words)
    except CommandError as error:
        raise OperateError(f"{error}: install the package iperf3, or give --probe-url, or --rate, "
                           "--rtt and --loss") from None
    try:
        return {**figures(json.loads(done.stdout)), "command": shlex.join(words)}
    except (ValueError, KeyError, IndexError, TypeError, ZeroDivisionError):
        lines = [line for line in done.stderr.splitlines() if line]
        raise OperateError(f"{shlex.join(words)}: "
                           f"{lines[-1] if lines else 'prints no figures'}") from None


def figures(report):
    """Rate in Mbit/s, RTT in ms and loss in percent of one flow.  Raises OperateError, KeyError, ...

    The rate is that of the received data.  The RTT is the smallest srtt.  The loss is the share of
    segments sent again, so it includes drops of the flow's own queue.
    """
    if "error" in report:
        raise OperateError(f"iperf3: {report['error']}")
    sent = report["end"]["sum_sent"]
    segments = sent["bytes"] / report["start"]["tcp_mss_default"] + sent["retransmits"]
    return {"way": "iperf3", "policy": report["end"]["sender_tcp_congestion"],
            "rate_mbit": float(f"{report['end']['sum_received']['bits_per_second'] / 1e6:.3g}"),
            "rtt_ms": report["end"]["streams"][0]["sender"]["min_rtt"] / 1e3,
            "loss_pct": float(f"{100 * sent['retransmits'] / segments:.2g}"),
            "delivery_mbit": None, "start": None}
