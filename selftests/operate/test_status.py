# SPDX-License-Identifier: GPL-2.0
"""satcc status: what ss prints, sums by policy, modules, routes, and the live kernel."""

import fcntl
import ipaddress
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios

import pytest

from selftests.operate.net import SATCC, TOP, run
from tools.satcc_operate import policies, sockets, status, tables
from tools.satcc_operate.host import Host

# Recorded with iproute2 6.1; the figures are edited so that the sums are easy.
RECORDED = """\
LISTEN 0 128 0.0.0.0:5000 0.0.0.0:* ino:61923 sk:5 cgroup:unreachable:1 <-> satcc cwnd:10
ESTAB 0 0 192.0.2.1:36970 203.0.113.1:443 timer:(on,204ms,0) uid:33 ino:61924 sk:1 \
cgroup:/system.slice <-> ts sack ecn satcc wscale:10,7 rto:804 rtt:600.5/10 mss:1448 \
cwnd:13 ssthresh:9 bytes_sent:1300000 \
bytes_retrans:14480 bytes_acked:1250000 segs_out:905 data_segs_out:1000 send 250773bps lastsnd:48 \
pacing_rate 300000bps delivery_rate 240000bps delivered:990 app_limited busy:8000ms \
rwnd_limited:2000ms(25.0%) sndbuf_limited:1000ms(12.5%) retrans:1/10 rcv_space:65495 minrtt:599
ESTAB 0 0 [::ffff:192.0.2.1]:443 [::ffff:203.0.113.2%eth0]:50000 ino:1 sk:2 <-> satcc wscale:2,2 \
rto:204 rtt:100.5/1 mss:1448 cwnd:10 bytes_acked:1250000 data_segs_out:1000 busy:2000ms minrtt:100 \
users:(("my server",pid=7,fd=3),("my server",pid=8,fd=3))
ESTAB 0 0 [2001:db8::1]:443 [2001:db8:1::1]:50000 ino:1 sk:abc <-> ts sack bbr wscale:2,2 rto:204 \
mss:1448 cwnd:10 bbr:(bw:0bps,mrtt:0.011) send 1bps
SYN-SENT 0 1 192.0.2.1:36972 198.51.100.1:80 timer:(on,1sec,0) ino:9 sk:d <-> cubic rto:1000 \
mss:524 cwnd:1
ESTAB 0 0 [fe80::1]%eth0:443 [fe80::2]%eth0:4 ino:0 sk:e <-> ts sack fastopen hybla_full \
wscale:2,2 rto:204
"""


@pytest.fixture
def listed():
    return sockets.parse(RECORDED)


def test_each_line_is_a_socket(listed):
    assert [each.policy for each in listed] == ["satcc", "satcc", "satcc", "bbr", "cubic", "hybla_full"]
    assert [each.local_port for each in listed] == [5000, 36970, 443, 443, 36972, 443]
    assert listed[1].peer == ipaddress.ip_address("203.0.113.1") and listed[1].peer_port == 443
    assert listed[2].peer == ipaddress.ip_address("203.0.113.2")
    assert listed[5].peer == ipaddress.ip_address("fe80::2")
    assert listed[1].flags == {"ts", "sack", "ecn"} and listed[2].flags == set()
    assert listed[2].programs == [("my server", 7), ("my server", 8)]
    assert listed[1].values["pacing_rate"] == "300000"


def test_sums_of_a_policy(listed):
    groups = sockets.by_policy(listed)
    assert list(groups) == ["bbr", "cubic", "hybla_full", "satcc"] and len(groups["satcc"]) == 2
    summary = sockets.summary(groups["satcc"])
    assert summary["goodput_mbit"] == 2.0               # 2.5 MB in 10 s
    assert summary["rtt_ms"] == {"min": 100.5, "median": 350.5, "max": 600.5}
    assert summary["retransmitted_pct"] == 0.5          # 10 of 2000
    assert summary["limited_pct"] == {"cwnd": 70.0, "rwnd": 20.0, "sndbuf": 10.0}
    assert sockets.summary(groups["bbr"])["goodput_mbit"] is None
    assert sockets.summary(groups["cubic"])["rtt_ms"] is None


def test_rates_are_of_connections_that_are_in_both_lists(listed):
    later = sockets.parse(RECORDED.replace("bytes_acked:1250000 segs", "bytes_acked:1500000 segs")
                          .replace("sk:2 ", "sk:3 "))
    assert sockets.rates(listed, later, 2) == {"bbr": 0, "cubic": 0, "hybla_full": 0, "satcc": 1.0}


def test_the_packs_policies():
    assert sorted(policies.POLICIES) == sorted(
        path.stem[4:] for path in TOP.glob("*/tcp_*.c") if not path.name.endswith(".mod.c"))


def test_modules_are_read_below_the_root(tmp_path):
    module = tmp_path / "sys/module/tcp_satcc"
    (module / "parameters").mkdir(parents=True)
    for name, text in {"version": "0.1\n", "srcversion": "ABC\n", "refcnt": "3\n",
                       "parameters/hoe": "1\n", "parameters/queue_ms": "25\n"}.items():
        (module / name).write_text(text)
    assert status.modules(Host(tmp_path)) == [
        {"policy": "satcc", "module": "tcp_satcc", "version": "0.1", "srcversion": "ABC",
         "references": 3, "parameters": {"hoe": "1", "queue_ms": "25"}}]
    rows = status.policy_table({"modules": status.modules(Host(tmp_path)), "bpf": [
        {"policy": "ibk", "parameters": {"k": "4"}}, {"policy": "mtsi", "parameters": None}]})
    assert [row.split() for row in rows[1:]] == [
        ["satcc", "tcp_satcc", "0.1", "3", "hoe=1", "queue_ms=25"],
        ["ibk", "BPF", "-", "-", "k=4"], ["mtsi", "BPF", "-", "-", "?"]]


def unacknowledged(connected):
    """The bytes in a socket's send queue."""
    return struct.unpack("i", fcntl.ioctl(connected, termios.TIOCOUTQ, b"\0" * 4))[0]


def test_the_live_kernel(net):
    net.ip("route", "add", "203.0.113.0/24", "via", "192.0.2.2", "congctl", "lock", "cubic")
    net.ip("-6", "route", "add", "2001:db8:1::/48", "via", "2001:db8::2", "congctl", "cubic",
           "table", "9")
    with net.connection("203.0.113.1") as (first, _), net.connection("203.0.114.1"), \
            net.connection("2001:db8:1::1"):
        first.sendall(b"x" * 1000)
        while unacknowledged(first):
            pass
        state = net.satcc_json("status")
        text = net.satcc("status", check=True).stdout
    assert state["default"] == "reno" and "reno" in state["available"] and "reno" in state["allowed"]
    assert [(route["prefix"], route["policy"], route["lock"], route["table"], route["by_satcc"])
            for route in state["routes"]] == [("203.0.113.0/24", "cubic", True, 254, False),
                                              ("2001:db8:1::/48", "cubic", False, 9, False)]
    assert {name: each["sockets"] for name, each in state["sockets"].items()} == {"cubic": 1, "reno": 2}
    assert state["sockets"]["cubic"]["total"]["bytes_acked"] >= 1000
    assert "default policy: reno" in text
    assert re.search(r"^203\.0\.113\.0/24 +cubic +yes +- +192\.0\.2\.2 +v0 +- +other$", text, re.M)
    assert re.search(r"^reno +2 ", text, re.M)


def test_nothing_to_show(net):
    text = net.satcc("status", check=True).stdout
    assert "routes: no route has a policy" in text
    assert "connections: there is no TCP connection" in text


def test_numbers_stand_below_each_other():
    assert tables.table(["POLICY", "MBIT/S", "PORT"], [["satcc", 8.66, 443], ["cubic", 10.4, None],
                                                       [None, None, 5]]) == [
        "POLICY  MBIT/S  PORT",
        "satcc     8.66   443",
        "cubic    10.40     -",
        "-            -     5"]


def test_the_widest_table_fits_a_terminal():
    """Of 80 columns: many connections over a geostationary path."""
    each = {"sockets": 120, "goodput_mbit": 12.345, "retransmitted_pct": 12.3,
            "rtt_ms": {"min": 600.123, "median": 1234.567, "max": 2345.678},
            "limited_pct": {"cwnd": 100.0, "rwnd": 0.0, "sndbuf": 12.5}}
    lines = status.socket_table({"hybla_full": each, "cubic": {**each, "rtt_ms": None}})
    assert max(map(len, lines)) <= 80
    assert lines[1].split() == ["hybla_full", "120", "12.345", "600.1", "1234.6", "2345.7", "12.3",
                                "100.0", "0.0", "12.5"]


def read_screen(descriptor, wanted, seconds=30):
    """What a program writes to its terminal, up to what matches a pattern or the end of the time."""
    text = ""
    while not re.search(wanted, text, re.M) and select.select([descriptor], [], [], seconds)[0]:
        text += os.read(descriptor, 1 << 16).decode()
    return text


def test_a_terminal_shows_the_state_at_once_and_the_time(net):
    master, terminal = pty.openpty()
    with net.connection("203.0.114.1"), subprocess.Popen(
            ["ip", "netns", "exec", net.sender, sys.executable, SATCC, "status", "--watch", "3600"],
            stdout=terminal, preexec_fn=heed_interrupts) as process:
        text = read_screen(master, r"^reno +1 .*$")
        process.send_signal(signal.SIGINT)
    os.close(terminal)
    os.close(master)
    assert re.search(r"^\S*kernel \S+; \d\d:\d\d:\d\d, every 3600 s, \^C ends\r$", text, re.M)
    assert re.search(r"^reno +1 +- ", text, re.M)       # no goodput yet


def heed_interrupts():
    """A shell starts what runs in the background with ^C ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_watch_prints_until_interrupted(net):
    command = ["ip", "netns", "exec", net.sender, sys.executable, SATCC, "status", "--json",
               "--watch", "0.01"]
    with net.connection("203.0.114.1"), \
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             preexec_fn=heed_interrupts) as process:
        states = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == ""
    assert [state["sockets"]["reno"]["goodput_mbit"] for state in states] == [0, 0, 0]


@pytest.mark.parametrize("words, reason", [(("--watch", "0"), "not a number above 0"),
                                           (("--nosuch",), "unrecognized"), (("--netns",), "expected")])
def test_usage(words, reason):
    done = run(sys.executable, SATCC, "status", *words, check=False)
    assert done.returncode == 2 and reason in done.stderr


def test_an_unknown_namespace_is_one_line():
    done = run(sys.executable, SATCC, "status", "--netns", "no-such-namespace", check=False)
    assert done.returncode == 1
    assert done.stderr == ("satcc: no network namespace /run/netns/no-such-namespace: "
                           "No such file or directory\n")
