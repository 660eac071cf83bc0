# SPDX-License-Identifier: GPL-2.0
"""A performance enhancing proxy on a hop, as PEPsal is one (Caini et al. 2006): it splits every TCP
connection between sender and receiver in two, and neither of them can tell.

The proxy is HAProxy.  The kernel hands it what passes (TPROXY), it connects on to where that was
going from the address it came from, and the congestion control toward the receiver is that of the
hop's route (`congctl`), whichever side has connected.
"""

from ..scenario.scenario import FIRST_PORT, Hop, Scenario

PORT = 3129             # where it listens; no flow's
MARK = TABLE = 100      # of packets for the proxy, and the table that makes them local

CONFIG = f"""
global
    nbthread 1
    maxconn 1000
defaults
    mode tcp
    timeout connect 60s
    timeout client 1h
    timeout server 1h
listen pep
    bind 0.0.0.0:{PORT} transparent
    option transparent
    source 0.0.0.0 usesrc clientip
""".strip().splitlines()


def _rules(scenario: Scenario, sender: str, receiver: str) -> list[str]:
    """nft's: what belongs to the proxy's own sockets, then what begins a connection."""
    ports = f"{FIRST_PORT}-{FIRST_PORT + len(scenario.flows) - 1}"
    taken = f"tproxy to :{PORT} meta mark set {MARK} accept"
    return ["table ip pep {", "chain divert {",
            "type filter hook prerouting priority mangle; policy accept;",
            f"meta l4proto tcp socket transparent 1 meta mark set {MARK} accept",
            f'iifname "left" ip daddr {receiver} tcp dport {ports} {taken}',
            f'iifname "right" ip daddr {sender} tcp dport {ports} {taken}',
            "}", "}"]


def setup(scenario: Scenario, hop: Hop, sender: str,
          receiver: str) -> tuple[dict[str, list[str]], list[str]]:
    """Files of the proxy on a hop and the script's lines that start it.

    sender, receiver: the addresses at the ends of the line.
    """
    files = {"pep.cfg": CONFIG, f"nft-{hop.name}": _rules(scenario, sender, receiver)}
    lines = [f"grep -qw {hop.pep} /proc/sys/net/ipv4/tcp_available_congestion_control || "
             f"modprobe tcp_{hop.pep} || refuse 'no congestion control {hop.pep}'",
             f"in_ns {hop.name} ip rule add fwmark {MARK} lookup {TABLE}",
             f"in_ns {hop.name} ip route add local default dev lo table {TABLE}",
             f"in_ns {hop.name} nft -f nft-{hop.name}",
             f"( as_ns {hop.name} haproxy -db -f pep.cfg 2> $OUT/haproxy-{hop.name}.log ) &"]
    return files, lines


# The sender has done when the proxy has all; the receiver has all when its connections are gone.
DRAINED = 'until [ -z "$(in_ns receiver ss -Htn state established)" ]; do sleep 0.5; done'
