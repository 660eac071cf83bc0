#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The steps of package-check in a booted root: package_guest.py modules|objects STEP...

Each step is a word of the command line: the name of a function, then its arguments.  The host's device
is eth0; its peer, the satellite's far end, is in the network namespace "far", with iperf3 as server.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

POLICY = "hybla_full"
MODULE = Path("/sys/module/tcp_hybla_full")
PREFIXES = {"203.0.113.0/24": "203.0.113.1", "2001:db8:cafe::/48": "2001:db8:cafe::1"}
ELSEWHERE = "192.0.2.1"             # in no prefix of PREFIXES
TRANSFER = ("iperf3", "--json", "--time", "3", "--client")
PATIENCE_S = 180                    # the emulator is slow
RECONFIGURATIONS = {
    "ifupdown": ("ifdown eth0 && ifup eth0",),
    "systemd-networkd": ("networkctl reload", "networkctl reconfigure eth0",
                         "systemctl restart systemd-networkd"),
    "NetworkManager": ("nmcli device reapply eth0", "nmcli connection up eth0",
                       "systemctl restart NetworkManager"),
}


def run(command, **keywords):
    """The output of a shell's command.  Its failure ends the check."""
    print("+", command, flush=True)
    done = subprocess.run(command, shell=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **keywords)
    print(done.stdout, flush=True)
    assert done.returncode == 0, f"{command}: status {done.returncode}"
    return done.stdout


def status():
    done = subprocess.run(["satcc", "status", "--json"], text=True, capture_output=True, check=True)
    return json.loads(done.stdout)


def until(condition, what):
    """Wait for a condition, and return its value."""
    end = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        if time.monotonic() > end:
            run("satcc status; ip route show table all; ip -6 route show table all; ip address")
            run("journalctl --no-pager -n 40 -u satcc-routes -u 'satcc-bpf@*'")
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.5)
    return value


def routes():
    """satcc's routes: prefix -> policy."""
    return {route["prefix"]: route["policy"] for route in status()["routes"] if route["by_satcc"]}


def goodput():
    """The goodput of the policy's connections in Mbit/s, as satcc status shows it."""
    return status()["sockets"].get(POLICY, {}).get("goodput_mbit")


@contextlib.contextmanager
def connection(address):
    """A slow transfer, which lasts as long as the block."""
    client = subprocess.Popen(["iperf3", "--client", address, "--time", "3600", "--bitrate", "400K"],
                              stdout=subprocess.DEVNULL)
    yield client
    assert client.poll() is None, "the transfer has ended early"
    client.send_signal(signal.SIGINT)
    client.wait()


def transfer(address):
    """Transfer data for 3 s.  Returns the sender's congestion control, as its socket has it."""
    end = json.loads(run(" ".join([*TRANSFER, address])))["end"]
    assert end["sum_received"]["bytes"] > 300e3, end["sum_received"]
    return end["sender_tcp_congestion"]


def prove():
    """The routes are there; connections to their prefixes have the policy, and others have not."""
    until(lambda: routes() == dict.fromkeys(PREFIXES, POLICY), "both routes have the policy")
    for address in PREFIXES.values():
        until(lambda: not os.system(f"ping -c 1 -W 5 {address} >/dev/null"), f"{address} answers")
        assert transfer(address) == POLICY
        with connection(address):
            print("status:", until(goodput, "satcc status shows the connection"), "Mbit/s", flush=True)
    assert transfer(ELSEWHERE) == "cubic"


# ---- steps -----------------------------------------------------------------

def select(form):
    """Load the policy, give it to two prefixes, and save the routes."""
    assert not MODULE.exists() and POLICY not in status()["available"]
    if form == "modules":
        run("modprobe satcc && modprobe hybla_full")
        assert MODULE.exists()
        run("modprobe -r tcp_hybla_full")           # satcc loads it
    else:
        assert not shutil.which("gcc") and not list(Path("/lib/modules").glob("*/build/Makefile"))
        Path("/etc/satcc/bpf").mkdir(parents=True)
        Path("/etc/satcc/bpf/hybla_full.conf").write_text('PARAMETERS="rtt0_ms=50 gentle=1"\n')
        run("systemctl enable --now satcc-bpf@hybla_full")
    for prefix in PREFIXES:
        run(f"satcc route add {prefix} {POLICY}")
    prove()
    run("satcc route save && systemctl start satcc-routes")
    run("satcc status")


def kept(form, kernel, version):
    """After a reboot the policy and its routes are there without a command."""
    assert os.uname().release == kernel, os.uname().release
    until(lambda: not os.system("systemctl -q is-active satcc-routes"), "satcc-routes runs")
    prove()
    if form == "modules":
        assert (MODULE / "version").read_text().strip() == version
    else:
        assert not MODULE.exists()
        assert run("satcc-bpf list") == f"{POLICY} BPF rtt0_ms=50 iw_rho=0 gentle=1\n"
    run("satcc status")


def reconfigure(form, manager):
    """The manager of the network makes its configuration anew."""
    for command in RECONFIGURATIONS[manager]:
        run(command)
        time.sleep(5)
        prove()


def upgrade(form, version):
    """Upgrade while a connection has the policy."""
    old = form == "modules" and (MODULE / "version").read_text()
    with connection(PREFIXES["203.0.113.0/24"]):
        output = run("apt-get install -y --no-install-recommends /debs/next/*.deb")
        until(goodput, "the connection lives")
    if form == "modules":
        assert "satcc-dkms: tcp_hybla_full remains the old version" in output
        assert (MODULE / "version").read_text() == old
        assert run("modinfo -F version tcp_hybla_full").strip() == version
    assert run("dpkg-query -W -f '${Version}' satcc-tools") == version
    prove()


def purge(form):
    """Purge while a connection has the policy; when it has ended, nothing is left."""
    packages = "satcc-tools satcc-dkms" if form == "modules" else "satcc-tools"
    with connection(PREFIXES["203.0.113.0/24"]):
        output = run(f"apt-get purge -y {packages}")
    assert "proto 167" not in run("ip route show table all; ip -6 route show table all")
    if form == "modules":
        assert "satcc-dkms: tcp_hybla_full is still loaded" in output
        until(lambda: not os.system("rmmod tcp_hybla_full"), "the module can be unloaded")
    until(lambda: POLICY not in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(),
          "the policy is gone")
    left = run(r"find / -xdev \( -path /debs -o -path /check -o -path /var/log \) -prune "
               r"-o \( -name '*satcc*' -o -name '*hybla_full*' \) -print")
    assert left == "", left
    assert "satcc" not in run("systemctl list-units --all --no-legend 'satcc*'; find /etc -xtype l")


STEPS = {step.__name__: step for step in (select, kept, reconfigure, upgrade, purge)}


def main():
    form, *steps = sys.argv[1:]
    for step in steps:
        name, *words = step.split()
        print(f"==== {step}", flush=True)
        STEPS[name](form, *words)


if __name__ == "__main__":
    main()
