# SPDX-License-Identifier: GPL-2.0
"""Parses the output of `ss -tin`, and sums it up by policy."""

import dataclasses
import ipaddress
import re
import statistics

COMMAND = ["ss", "-tinOHe"]         # one line per socket, no header, with the socket's cookie
FLAGS = {"ts", "sack", "ecn", "ecnseen", "fastopen"}
RATES = ("send", "pacing_rate", "delivery_rate")
FIRST_VALUES = re.compile(r"(wscale|rto|backoff|rtt|mss|cwnd|ato):")
USERS = re.compile(r'users:\(\((".*?)\)\)')


@dataclasses.dataclass
class Socket:
    """One socket.  values: the pairs name:value of ss as text; rates are in bit/s."""
    state: str
    local: object               # an ip_address, or None for a listener on all addresses
    local_port: int
    peer: object
    peer_port: int
    policy: str
    flags: set
    values: dict
    programs: list              # (name, process ID) of those that have it, if ss ran with -p

    def number(self, name):
        """A count; 0 if ss omits it."""
        return int(self.values.get(name, 0))

    def duration_ms(self, name):
        """A time that ss prints as 12ms or 3ms(25.0%); 0 if ss omits it."""
        match = re.match(r"([\d.]+)ms", self.values.get(name, "0ms"))
        return float(match[1]) if match else 0.0

    def send_buffer(self):
        """The size of the send buffer in bytes; 0 unless ss ran with -m."""
        match = re.search(r"\btb(\d+)", self.values.get("skmem", ""))
        return int(match[1]) if match else 0

    def names(self):
        """The names of the programs that have it."""
        return [name for name, _ in self.programs]

    def rtt_ms(self):
        """The smoothed RTT; None before the first sample."""
        text = self.values.get("rtt")
        return float(text.split("/")[0]) if text else None


def end_of(text):
    """[2001:db8::1]:443, 192.0.2.1%eth0:443, *:443 -> (address or None, port)"""
    address, _, port = text.rpartition(":")
    address = address.strip("[]").split("%")[0].rstrip("]")
    number = int(port) if port.isdigit() else 0
    if address in ("*", ""):
        return None, number
    parsed = ipaddress.ip_address(address)
    return getattr(parsed, "ipv4_mapped", None) or parsed, number


def parse_line(line):
    """The Socket of a line of COMMAND."""
    programs = [(name, int(process)) for name, process in
                re.findall(r'"(.*?)",pid=(\d+)', "".join(USERS.findall(line)))]
    tokens = USERS.sub("", line).split()
    local, peer = end_of(tokens[3]), end_of(tokens[4])
    values, flags, policy, in_values = {}, set(), "", False
    for position, token in enumerate(tokens[5:], 5):
        name, colon, value = token.partition(":")
        in_values = in_values or bool(FIRST_VALUES.match(token))
        if colon:
            values.setdefault(name, value)
        elif token in RATES and position + 1 < len(tokens):
            values[token] = tokens[position + 1].rstrip("bps")
        elif not in_values and token in FLAGS:
            flags.add(token)
        elif not in_values and not policy and re.match(r"[A-Za-z]", token):
            policy = token
    return Socket(tokens[0], *local, *peer, policy, flags, values, programs)


def parse(text):
    """The Sockets in the output of COMMAND."""
    return [parse_line(line) for line in text.splitlines() if len(line.split()) > 4]


def live(host, *options):
    """The Sockets of the namespace.  options: further options of ss.  Raises CommandError."""
    return parse(host.run([*COMMAND, *options]))


# ---- sums by policy --------------------------------------------------------

def by_policy(sockets):
    """Policy -> its sockets, sorted by name."""
    groups = {}
    for socket in sockets:
        if socket.policy and socket.state != "LISTEN":
            groups.setdefault(socket.policy, []).append(socket)
    return dict(sorted(groups.items()))


def percent(part, whole):
    """A share in percent with one decimal; None if the whole is 0."""
    return round(100 * part / whole, 1) if whole else None


def total(sockets):
    """Sums over sockets: bytes, packets, and times in ms."""
    def count(name):
        return sum(socket.number(name) for socket in sockets)

    def time(name):
        return sum(socket.duration_ms(name) for socket in sockets)
    retransmitted = sum(int(socket.values.get("retrans", "0/0").split("/")[-1]) for socket in sockets)
    return {"bytes_acked": count("bytes_acked"), "segments_sent": count("data_segs_out"),
            "segments_retransmitted": retransmitted, "busy_ms": time("busy"),
            "rwnd_limited_ms": time("rwnd_limited"), "sndbuf_limited_ms": time("sndbuf_limited")}


def summary(sockets):
    """The figures of one policy's sockets for `satcc status`; None instead of a division by 0.

    goodput_mbit: bytes acknowledged divided by busy time, the mean of a connection while it had data
    to send.  limited_pct: shares of the busy time; cwnd is the rest after rwnd and sndbuf.
    """
    sums = total(sockets)
    busy = sums["busy_ms"]
    rtts = [rtt for rtt in (socket.rtt_ms() for socket in sockets) if rtt is not None]
    path = busy - sums["rwnd_limited_ms"] - sums["sndbuf_limited_ms"]
    return {
        "sockets": len(sockets),
        "goodput_mbit": round(sums["bytes_acked"] * 8 / 1e3 / busy, 3) if busy else None,
        "rtt_ms": {"min": min(rtts), "median": round(statistics.median(rtts), 3), "max": max(rtts)}
        if rtts else None,
        "retransmitted_pct": percent(sums["segments_retransmitted"], sums["segments_sent"]),
        "limited_pct": {"cwnd": percent(max(path, 0), busy),
                        "rwnd": percent(sums["rwnd_limited_ms"], busy),
                        "sndbuf": percent(sums["sndbuf_limited_ms"], busy)},
        "total": sums}


def rates(earlier, later, seconds):
    """Goodput of each policy between two lists of sockets, in Mbit/s.

    A connection counts if both lists have its cookie.
    """
    before = {socket.values.get("sk"): socket.number("bytes_acked") for socket in earlier}
    return {policy: round(sum(socket.number("bytes_acked") - before[socket.values.get("sk")]
                              for socket in group if socket.values.get("sk") in before)
                          * 8 / 1e6 / seconds, 3)
            for policy, group in by_policy(later).items()}
