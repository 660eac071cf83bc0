# SPDX-License-Identifier: GPL-2.0
"""A performance enhancing proxy (PEP) on a hop, like PEPsal (Caini et al. 2006).

It splits every TCP connection between sender and receiver in two, and is transparent to both.
The proxy is HAProxy.  The kernel hands it the connections that pass (TPROXY).  For each it connects to
the original destination from the original source address.  The congestion control toward the receiver
is that of the hop's route (`congctl`), whichever end opened the connection.
"""

from ..errors import LabError
from ..scenario.scenario import FIRST_PORT, Hop, Scenario

PORT = 3129             # the proxy's; no flow has it
MARK = TABLE = 100      # the mark of packets for the proxy, and the routing table that makes them local

# Address family -> nft's name of it, the ip command, HAProxy's listening address and source address.
FAMILIES = {4: ("ip", "ip", "0.0.0.0:", "0.0.0.0"), 6: ("ip6", "ip -6", "[::]:", "[::]")}


def _config(family: int) -> list[str]:
    _, _, listen, source = FAMILIES[family]
    return f"""
global
    nbthread 1
    maxconn 1000
defaults
    mode tcp
    timeout connect 60s
    timeout client 1h
    timeout server 1h
listen pep
    bind {listen}{PORT} transparent
    option transparent
    source {source} usesrc clientip
""".strip().splitlines()


def _rules(scenario: Scenario, sender: str, receiver: str) -> list[str]:
    """nft's rules: the first for packets of the proxy's sockets, the others for new connections."""
    ports = f"{FIRST_PORT}-{FIRST_PORT + len(scenario.flows) - 1}"
    packets = FAMILIES[scenario.family][0]
    taken = f"tproxy to :{PORT} meta mark set {MARK} accept"
    return [f"table {packets} pep {{", "chain divert {",
            "type filter hook prerouting priority mangle; policy accept;",
            f"meta l4proto tcp socket transparent 1 meta mark set {MARK} accept",
            f'iifname "left" {packets} daddr {receiver} tcp dport {ports} {taken}',
            f'iifname "right" {packets} daddr {sender} tcp dport {ports} {taken}',
            "}", "}"]


def setup(scenario: Scenario, hop: Hop, sender: str,
          receiver: str) -> tuple[dict[str, list[str]], list[str]]:
    """The proxy's files, and the script lines that start it on a hop.

    sender, receiver: the addresses of the two ends.
    """
    ip = FAMILIES[scenario.family][1]
    files = {"pep.cfg": _config(scenario.family), f"nft-{hop.name}": _rules(scenario, sender, receiver)}
    lines = [f"load {hop.pep}",
             f"in_ns {hop.name} {ip} rule add fwmark {MARK} lookup {TABLE}",
             f"in_ns {hop.name} {ip} route add local default dev lo table {TABLE}",
             f"in_ns {hop.name} nft -f nft-{hop.name}",
             f"( as_ns {hop.name} haproxy -db -f pep.cfg 2> $OUT/haproxy-{hop.name}.log ) &"]
    return files, lines


def check(scenario: Scenario, files: dict[str, bytes]) -> None:
    """Raises LabError if a proxy did not start, since its connections are then not split."""
    for hop in scenario.hops:
        log = files.get(f"haproxy-{hop.name}.log", b"").decode()
        alerts = [line for line in log.splitlines() if line.startswith("[ALERT]")] if hop.pep else []
        if alerts:
            raise LabError(f"the proxy {hop.name}: {alerts[0]}")


# The sender ends when the proxy has all data.  The receiver has all data when its connections are gone.
DRAINED = 'until [ -z "$(in_ns receiver ss -Htn state established)" ]; do sleep 0.5; done'
