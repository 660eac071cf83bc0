# SPDX-License-Identifier: GPL-2.0
"""satcc choose --probe-url: rate, RTT and loss of a transfer.

A bucket filter gives each direction 8 Mbit/s.  A busy machine may read late what came before the start
was over, so the measured rate may be some percent above it.
"""

import contextlib
import http.server
import json
import os
import sys
import threading

import pytest

from selftests.operate.net import run
from tools.satcc_operate import cli, probe, transfer
from tools.satcc_operate.host import OperateError, in_namespace

URL = "http://192.0.2.2:8000"


class Server(http.server.BaseHTTPRequestHandler):
    """/large never ends; /small is 2 MB; /empty is empty; a POST to /upload is read to its end."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, size, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": size, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self):
        sizes = {"/large": 1 << 40, "/small": 2_000_000, "/empty": 0}
        if self.path == "/moved":
            return self.answer(302, 0, Location="/small")
        if self.path not in sizes:
            return self.answer(404, 0)
        self.answer(200, sizes[self.path])
        left = sizes[self.path]
        with contextlib.suppress(OSError):
            while left > 0:
                left -= self.wfile.write(bytes(min(left, 1 << 16)))

    def do_POST(self):
        if self.path != "/upload":
            self.answer(405, 0)
            self.close_connection = True
            return
        with contextlib.suppress(OSError):
            while self.rfile.read1(1 << 16):
                pass


@pytest.fixture
def web(net, monkeypatch):
    """A server in the receiver's namespace, and a short start."""
    for name, device in ((net.sender, "v0"), (net.receiver, "v1")):
        run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", device, "root", "tbf",
            "rate", "8mbit", "burst", "20000", "limit", "60000")
    server = in_namespace(f"/run/netns/{net.receiver}", lambda: http.server.ThreadingHTTPServer(
        ("192.0.2.2", 8000), Server))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setattr(probe, "START", 0.5)
    yield net
    server.shutdown()
    thread.join()
    server.server_close()


def choose(net, *words):
    """In the sender's namespace, without a process of its own.  Returns the exit status."""
    return in_namespace(f"/run/netns/{net.sender}", lambda: cli.main(["choose", *words]))


def test_a_download_is_measured(web, capsys):
    assert choose(web, "--probe-url", f"{URL}/large", "--seconds", "2", "--json") == 0
    path = json.loads(capsys.readouterr().out)["path"]
    assert 6 < path["rate_mbit"] < 10 and 0 < path["rtt_ms"] < 100
    assert (path["probe"]["way"], path["probe"]["loss_pct"], path["loss_pct"]) == ("download", None, 0)
    assert choose(web, "--probe-url", f"{URL}/large", "--seconds", "1", "--loss", "1") == 0
    text = capsys.readouterr().out
    assert "a receiver does not see losses: give --loss" in text and "ms, 1 % loss, other" in text
    assert f"\nmeasured by: satcc choose --probe-url {URL}/large --seconds 1\n" in text


def test_an_upload_is_measured_with_its_losses(web, capsys):
    """The bucket's queue of 60 kB is short, and the sender's own drops are what it sends again."""
    assert choose(web, "--probe-url", f"{URL}/upload", "--upload", "--seconds", "2", "--json") == 0
    path = json.loads(capsys.readouterr().out)["path"]
    qdisc, = web_qdisc(web)
    assert 5 < path["rate_mbit"] < 10 and 0 < path["rtt_ms"] < 100
    measured = path["probe"]
    assert (measured["way"], measured["policy"] in probe.PROBING) == ("upload", True)
    assert measured["delivery_mbit"] > 0
    assert (measured["loss_pct"] > 0) == (qdisc["drops"] > 0)
    assert path["loss_pct"] == measured["loss_pct"]


LOGGER = """#!{python}
import json, os, signal, sys, time
assert sys.argv[1:3] == ["record", "--port"] and sys.argv[4] == "-o"
def write(*_):
    both = {{"cookie": 7, "sport": sys.argv[3], "daddr": "192.0.2.2", "cc": "cubic"}}
    with open(sys.argv[5], "w") as file:
        for row in (dict(t_s=0, ev="segment_sent", ca_state="Open", srtt_us=600000, len=1448, seq_rel=1,
                         segs=1, retrans=0, sent_orig=1448),
                    dict(t_s=1.2, ev="cwnd_changed", ca_state="Recovery", cwnd=44, ssthresh=31,
                         reason="recovery")):
            print(json.dumps({{**both, **row}}), file=file)
    sys.exit(0)
signal.signal(signal.SIGINT, write)
print("satcc-log: recording; ^C ends it", file=sys.stderr, flush=True)
while True:
    time.sleep(1)
"""


@pytest.fixture
def logger(tmp_path, monkeypatch):
    """A program in place of satcc-log, and its module."""
    (tmp_path / "sys/module/satcc_log").mkdir(parents=True)
    (tmp_path / "proc").symlink_to("/proc")
    (tmp_path / "satcc-log").write_text(LOGGER.format(python=sys.executable))
    (tmp_path / "satcc-log").chmod(0o755)
    monkeypatch.setenv("SATCC_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def test_with_the_logger_an_upload_says_how_it_started(web, logger, capsys):
    words = ("--probe-url", f"{URL}/upload", "--upload", "--seconds", "1")
    assert choose(web, *words, "--json") == 0
    assert json.loads(capsys.readouterr().out)["path"]["probe"]["start"] == {
        "end": "recovery", "window_segments": 44, "again_segments": 0}
    assert choose(web, *words) == 0
    assert ("\nslow start: ended by: recovery; window then: 44; sent again of the first 5 RTTs: 0 "
            "segments\n" in capsys.readouterr().out)
    (logger / "satcc-log").write_text("#!/bin/sh\necho satcc-log: no rights >&2; exit 1\n")
    assert choose(web, *words, "--json") == 0
    assert json.loads(capsys.readouterr().out)["path"]["probe"]["start"] is None
    (logger / "satcc-log").unlink()
    (logger / "sys/module/satcc_log").rmdir()
    assert choose(web, *words, "--json") == 0
    assert json.loads(capsys.readouterr().out)["path"]["probe"]["start"] is None


@pytest.mark.parametrize("ends, is_over, rate", [
    ([(1, 10), (4, 40), (5, 60), (9, 300), (15, 660)], [0, 0, 0, 0, 1], 60),    # from 5 s to 15 s
    ([(1, 10), (4, 40)], [0, 0], 10), ([(1, 10), (5, 60), (5.01, 60.1)], [0, 0, 0], 12)])
def test_what_of_a_transfer_counts(monkeypatch, ends, is_over, rate):
    """(s, Mbit) so far: from when the start of 5 s is over, or all of a transfer that ends then."""
    now = 0
    monkeypatch.setattr(transfer.time, "monotonic", lambda: 100 + now)
    meter = transfer.Meter(10)
    meter.is_over(0)
    for (now, size), over in zip(ends, is_over):
        assert meter.is_over(size * 125_000) == over
    assert meter.rate_mbit() == rate


def web_qdisc(net):
    return json.loads(run("ip", "netns", "exec", net.sender, "tc", "-s", "-j", "qdisc", "show", "dev",
                          "v0").stdout)


def test_a_file_that_ends_early_is_measured_whole(web, capsys, monkeypatch):
    """2 MB take 2 s."""
    monkeypatch.setattr(probe, "START", 60)
    assert choose(web, "--probe-url", f"{URL}/small", "--json") == 0
    assert 6 < json.loads(capsys.readouterr().out)["path"]["rate_mbit"] < 10


@pytest.mark.parametrize("words, message", [
    (("/nosuch",), "the server answers 404 Not Found"),
    (("/moved",), "the server answers 302 Found: try /small"),
    (("/empty",), "the transfer was too short to measure a rate: name a larger file"),
    (("/small", "--upload"), "the server answers 405 Method Not Allowed")])
def test_a_refusal_is_one_line(web, capsys, words, message):
    assert choose(web, "--probe-url", URL + words[0], *words[1:]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"satcc: {message}\n")


def test_no_server(net, capsys):
    assert choose(net, "--probe-url", URL) == 1
    assert capsys.readouterr().err == f"satcc: {URL}: Connection refused\n"


@pytest.mark.parametrize("words, message", [
    (("--probe-url", "ftp://192.0.2.2/x"), "ftp://192.0.2.2/x is not a URL that begins with http://"),
    (("--upload", "--rate", "1mbit", "--rtt", "1ms"), "--upload needs --probe-url"),
    ((), "choose needs --rate and --rtt, --probe HOST, or --probe-url URL")])
def test_usage(words, message, capsys):
    assert cli.main(["choose", *words]) == 2
    assert capsys.readouterr().err.startswith(f"satcc: {message}")


def test_a_connection_that_is_gone_has_no_figures(net):
    with pytest.raises(OperateError, match="too short to measure an RTT"):
        transfer.figures("download", None, 1.0, None)
