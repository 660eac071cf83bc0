# SPDX-License-Identifier: GPL-2.0
"""What holds a policy: sockets and defaults in namespaces with a name, a mount, or only a process.

Sockets and defaults are the kernel's; a reference count is planted.  A policy of the kernel's that is
allowed, and so can be a namespace's default, stands for one of the pack.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import time

import pytest

from selftests.operate.net import SATCC, run
from tools.satcc_operate import holders, policies, status
from tools.satcc_operate.host import Host, in_namespace

POLICY = next(name for name in policies.allowed(Host("/")) if name != "reno")
MODULE = policies.module_name(POLICY)
THERE = f"echo {POLICY} > /proc/sys/net/ipv4/tcp_congestion_control; echo ready; exec sleep 600"


@contextlib.contextmanager
def container():
    """A process in a namespace of its own without a name, whose default is POLICY."""
    with subprocess.Popen(["unshare", "-n", "sh", "-c", THERE], stdout=subprocess.PIPE,
                          text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            comm = pathlib.Path(f"/proc/{process.pid}/comm")
            while comm.read_text(encoding="utf-8") != "sleep\n":    # the shell has not become sleep yet
                time.sleep(0.01)
            yield process
        finally:
            process.kill()


@pytest.fixture
def held(net, tmp_path):
    """The sender's namespace, of a host whose module of POLICY has references."""
    net.root = tmp_path / "root"
    (net.root / "sys/module" / MODULE).mkdir(parents=True)
    (net.root / "sys/module" / MODULE / "refcnt").write_text("4")
    (net.root / "proc").symlink_to("/proc")
    (net.root / "run").symlink_to("/run")
    return net


def all_holders(net):
    """By namespace, or by process; those of this test's namespaces and processes are among them."""
    listed = in_namespace(f"/run/netns/{net.sender}", lambda: holders.of(Host("/"), [POLICY]))
    return {each.space.name or each.space.process: each for each in listed}


def test_a_named_namespace_holds_by_its_default_and_its_sockets(held):
    assert held.receiver not in all_holders(held)
    held.set_sysctl("net.ipv4.tcp_congestion_control", POLICY, held.receiver)
    assert str(all_holders(held)[held.receiver]) == f"the default in namespace {held.receiver}"
    with held.connection("203.0.113.1", policy="reno"):         # the listener and the accepted socket
        holder = all_holders(held)[held.receiver]
        assert (holder.is_default, holder.sockets) == (True, 2)
        assert holder.programs == (("python3", os.getpid()),)
        assert None not in all_holders(held)
    held.set_sysctl("net.ipv4.tcp_congestion_control", "reno", held.receiver)
    assert held.receiver not in all_holders(held)


def test_a_namespace_of_its_own(held):
    with held.connection("203.0.113.1", policy=POLICY):
        holder = all_holders(held)[None]
        assert str(holder) == f"1 socket of python3 ({os.getpid()}) in this namespace"


def test_a_container_is_named_by_a_process(held):
    with container() as process:
        holder = all_holders(held)[process.pid]
        assert str(holder) == f"the default in the namespace of process {process.pid} (sleep)"
    assert process.pid not in all_holders(held)


def test_a_mount_names_a_namespace(held, tmp_path):
    """As docker keeps one that has no process left."""
    mount = tmp_path / "cafe"
    mount.touch()
    with container() as process:
        run("mount", "--bind", f"/proc/{process.pid}/ns/net", mount)
    try:
        assert str(all_holders(held)[str(mount)]) == f"the default in namespace {mount}"
    finally:
        run("umount", mount)
    assert str(mount) not in all_holders(held)


def test_status_names_them(held):
    with container() as process, held.connection("203.0.113.1", policy=POLICY):
        listed = held.satcc_json("status")["holders"]
        text = held.satcc("status", check=True).stdout
    assert {"policy": POLICY, "here": False, "namespace": None, "process": process.pid,
            "command": "sleep", "default": True, "sockets": 0, "programs": []} in listed
    lines = [line.split() for line in text.splitlines()]
    assert [POLICY, "this", "one", "no", "1", "python3", f"({os.getpid()})"] in lines
    assert [POLICY, "process", str(process.pid), "(sleep)", "yes", "0", "-"] in lines


def test_without_the_right_only_the_own_namespace_is_seen(held):
    with container(), held.connection("203.0.113.1", policy=POLICY):
        done = run("ip", "netns", "exec", held.sender, "setpriv", "--bounding-set=-all",
                   "--inh-caps=-all", "env", f"SATCC_ROOT={held.root}", sys.executable, SATCC, "status")
    assert f"{POLICY}     this one" in done.stdout and "(sleep)" not in done.stdout


def test_what_is_not_loaded_is_not_looked_for(held, monkeypatch):
    (held.root / "sys/module" / MODULE / "refcnt").write_text("0")
    monkeypatch.setattr(holders, "here", None)
    state = in_namespace(f"/run/netns/{held.sender}", lambda: status.gather(Host(held.root)))
    assert state["holders"] == []
    assert "holders: no socket and no default policy" in status.text(state)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "holders: run as root to see" in status.text(state)


def test_many_programs_are_counted():
    programs = tuple((f"p{number}", number) for number in range(7))
    assert holders.program_text(programs) == "p0 (0), p1 (1), p2 (2) and 4 more"
    assert holders.program_text(programs[:3]) == "p0 (0), p1 (1), p2 (2)"
