# SPDX-License-Identifier: GPL-2.0
"""Measures the path to an HTTP server by a transfer over one connection, for `satcc choose --probe-url`.

RTT, retransmissions and the delivery rate are those of the socket's TCP_INFO, as ss prints it.  A
download measures the way from the server, and a receiver does not see what its sender sends again.  An
upload measures the way to the server; if the module satcc_log is loaded, satcc-log then also tells how
the connection started.
"""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.parse

from . import policies, probe, sockets, start
from .host import OperateError, UsageError

CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
BLOCK = 65536                       # bytes of a read or write
LONGEST = 1 << 40                   # bytes that an upload announces; it ends long before


class Meter:
    """Bytes and time of a transfer, from when its start is over."""

    def __init__(self, seconds):
        self.begin = time.monotonic()
        self.counted = self.begin + probe.START, self.begin + probe.START + seconds
        self.marks = []             # (time, bytes) at the begin, after the start, and at the end

    def is_over(self, count):
        """Take note of the bytes so far.  Returns whether the time is over."""
        now = time.monotonic()
        if not self.marks or len(self.marks) == 1 and now >= self.counted[0]:
            self.marks.append((now, count))
        self.last = now, count
        return now >= self.counted[1]

    def rate_mbit(self):
        """Without the start, unless the transfer was over before.  Raises OperateError."""
        (since, before), (until, count) = self.marks[-1], self.last
        if until - since < 0.1 and len(self.marks) > 1:
            since, before = self.marks[0]
        if count <= before or until <= since:
            raise OperateError("the transfer was too short to measure a rate: name a larger file")
        return float(f"{(count - before) * 8 / 1e6 / (until - since):.3g}")


def measure(host, url, seconds, is_upload):
    """Rate, RTT and, of an upload, loss of the path to the server of a URL.  Raises OperateError."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in CONNECTIONS or not parts.hostname:
        raise UsageError(f"{url} is not a URL that begins with http:// or https://")
    target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    try:
        with contextlib.closing(CONNECTIONS[parts.scheme](
                parts.hostname, parts.port, timeout=probe.TIMEOUT / 1e3)) as connection:
            connection.connect()
            work = upload if is_upload else download
            return {**work(host, connection, target, Meter(seconds)), "command":
                    f"satcc choose --probe-url {url}{' --upload' * is_upload} --seconds {seconds}"}
    except (OSError, http.client.HTTPException) as error:
        raise OperateError(f"{url}: {getattr(error, 'strerror', None) or error}") from None


def download(host, connection, target, meter):
    connection.request("GET", target, headers={"Accept-Encoding": "identity"})
    ends = connection.sock.getsockname()[1], connection.sock.getpeername()[1]
    response = connection.getresponse()
    check(response)
    count, flow = 0, None
    meter.is_over(0)
    while block := response.read1(BLOCK):
        count += len(block)
        if meter.is_over(count):
            break
        flow = flow or flow_of(host, *ends)         # before the last block, which may close the socket
    return figures("download", None, meter.rate_mbit(), flow_of(host, *ends) or flow)


def upload(host, connection, target, meter):
    chosen = probe.chosen_policy(host)
    if chosen:
        with contextlib.suppress(OSError):          # the route has locked another one
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, chosen.encode())
    ends = connection.sock.getsockname()[1], connection.sock.getpeername()[1]
    with Recorder(host, ends[0]) as recorder:
        flow = send(host, connection, target, meter, ends)
        return {**figures("upload", flow.policy, meter.rate_mbit(), flow), "start": recorder.start()}


def send(host, connection, target, meter, ends):
    """Send until the time is over.  Returns the Socket.  Raises OSError, OperateError."""
    connection.putrequest("POST", target)
    connection.putheader("Content-Length", str(LONGEST))
    connection.putheader("Content-Type", "application/octet-stream")
    connection.endheaders()
    block = os.urandom(BLOCK)                       # which no link compresses
    meter.is_over(0)
    looked = 0
    while True:
        try:
            connection.sock.sendall(block)
        except OSError:
            check(connection.getresponse())         # the server may have said why it closes
            raise
        if time.monotonic() - looked > 0.1:
            looked = time.monotonic()
            flow = flow_of(host, *ends)
            if flow and meter.is_over(flow.number("bytes_acked")):
                return flow


class Recorder:
    """satcc-log beside a transfer, if its module is loaded."""

    def __init__(self, host, local_port):
        self._process, self._port = None, local_port
        self._folder = tempfile.TemporaryDirectory(prefix="satcc-")
        self._file = os.path.join(self._folder.name, "log.tsv")
        if not policies.loaded(host, "satcc_log"):
            return
        with contextlib.suppress(OperateError):         # it is not installed
            self._process = host.start(["satcc-log", "record", "--port", str(local_port), "-o",
                                        self._file], stderr=subprocess.PIPE)
            for line in self._process.stderr:
                if b"recording" in line:
                    break

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end()
        self._folder.cleanup()

    def _end(self):
        """Have the table written."""
        if self._process:
            self._process.send_signal(signal.SIGINT)
            self._process.communicate()
            self._process = None

    def start(self):
        """How the transfer's connection started, for JSON; None if it was not recorded."""
        self._end()
        try:
            one = next(each for each in start.read(self._file) if each.local_port == self._port)
        except (OperateError, StopIteration):
            return None
        return {"end": one.end, "window_segments": one.window, "again_segments": one.again}


def check(response):
    """Raises OperateError unless the server answers with the content itself."""
    if response.status != 200:
        where = response.getheader("Location")
        raise OperateError(f"the server answers {response.status} {response.reason}"
                           + (f": try {where}" if where else ""))


def flow_of(host, local_port, port):
    """The Socket between two ports; None if it has closed.  Raises CommandError."""
    listed = sockets.live(host, f"sport = :{local_port} and dport = :{port}")
    return listed[0] if listed else None


def figures(way, policy, rate_mbit, flow):
    """The result of a transfer.  Raises OperateError if the socket was not seen."""
    if flow is None or flow.rtt_ms() is None:
        raise OperateError("the transfer was too short to measure an RTT: name a larger file")
    sent, again = flow.number("data_segs_out"), int(flow.values.get("retrans", "0/0").split("/")[-1])
    delivery = flow.values.get("delivery_rate")
    return {"way": way, "policy": policy, "rate_mbit": rate_mbit,
            "rtt_ms": float(flow.values.get("minrtt", flow.rtt_ms())),
            "loss_pct": float(f"{100 * again / sent:.2g}") if policy and sent else None,
            "delivery_mbit": float(delivery) / 1e6 if policy and delivery else None, "start": None}
