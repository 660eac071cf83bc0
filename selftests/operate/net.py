# SPDX-License-Identifier: GPL-2.0
"""What the tests of tools/satcc share: two network namespaces, and a folder that stands in for /.

      sender                         receiver
    v0 192.0.2.1/24  ------------- v1 192.0.2.2/24
       2001:db8::1/64                 2001:db8::2/64
    default via v1                 lo 203.0.113.1, 203.0.114.1, 2001:db8:1::1

Namespaces need root.  Without root, and where the kernel has no veth or no IPv6, a test is skipped, and
fails when EXPECT_ALL=1.  Nothing outside these namespaces is changed.
"""

import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys

import pytest

from tools.satcc_operate.host import in_namespace

TOP = pathlib.Path(__file__).resolve().parents[2]
SATCC = TOP / "tools" / "satcc"


def run(*command, check=True, **keywords):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, **keywords)
    assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done


class Net:
    """The two namespaces."""

    def __init__(self, name):
        self.sender, self.receiver = f"{name}-a", f"{name}-b"
        self.root = None                # a stand-in for / of the commands

    def start(self):
        for name in (self.sender, self.receiver):
            run("ip", "netns", "add", name)
            for scope in ("all", "default"):    # else IPv6 waits seconds before it finds a neighbour
                self.set_sysctl(f"net.ipv6.conf.{scope}.accept_dad", "0", name)
        self.batch(self.sender, "link set lo up", "link add v0 type veth peer name v1 netns "
                   + self.receiver, *self.device("v0", 1))
        self.batch(self.receiver, "link set lo up", *self.device("v1", 2), *(
            f"addr add {address} dev lo"
            for address in ("203.0.113.1/32", "203.0.114.1/32", "2001:db8:1::1/128")))
        self.batch(self.sender, "route add default via 192.0.2.2",
                   "route add default via 2001:db8::2")
        for name in (self.sender, self.receiver):
            self.set_sysctl("net.ipv4.tcp_congestion_control", "reno", name)

    @staticmethod
    def device(name, number):
        return (f"addr add 192.0.2.{number}/24 dev {name}",
                f"addr add 2001:db8::{number}/64 dev {name} nodad", f"link set {name} up")

    @staticmethod
    def batch(namespace, *lines):
        """Lines of ip, by one process."""
        run("ip", "-n", namespace, "-batch", "-", input="\n".join(lines) + "\n")

    def stop(self):
        for name in (self.sender, self.receiver):
            run("ip", "netns", "del", name, check=False)

    def ip(self, *words):
        return run("ip", "-n", self.sender, *words).stdout

    def routes(self, *selector, family=4):
        """What the kernel lists, without the text that ip formats for people."""
        return json.loads(self.ip("-j", "-N", "-d", f"-{family}", "route", "show", *selector) or "[]")

    def everything(self):
        """All routes and rules of both families, to compare a state with a later one.

        Without what changes by itself: expiry, and the state of devices.
        """
        lines = [self.ip(f"-{family}", *what) for family in (4, 6)
                 for what in (("route", "show", "table", "all"), ("rule", "show"))]
        text = "".join(lines).replace(" linkdown", "")      # until the kernel has seen the peer come up
        return [line for line in text.splitlines() if "fe80::" not in line
                and "multicast" not in line and "table local" not in line]

    def set_sysctl(self, name, value, where=None):
        path = "/proc/sys/" + name.replace(".", "/")
        in_namespace(f"/run/netns/{where or self.sender}", lambda: pathlib.Path(path).write_text(value))

    def sysctl(self, name):
        path = "/proc/sys/" + name.replace(".", "/")
        return in_namespace(f"/run/netns/{self.sender}", lambda: pathlib.Path(path).read_text()).split()

    def satcc(self, *words, path=None, check=False):
        """Run tools/satcc in the sender's namespace.

        path: a folder that stands before PATH, and before the stand-in's bin.
        """
        search = ":".join([*([str(path)] if path else []), *([f"{self.root}/bin"] if self.root else []),
                           os.environ["PATH"]])
        return run("ip", "netns", "exec", self.sender, "env", f"PATH={search}",
                   f"SATCC_ROOT={self.root or '/'}", sys.executable, SATCC, *words, check=check)

    def satcc_json(self, *words, **keywords):
        done = self.satcc(*words, "--json", **keywords)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def connection(self, address, port=5000, policy=None, local_port=0, listener_policy=None):
        """(connecting socket in the sender, accepted socket in the receiver)"""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with contextlib.ExitStack() as stack:
            def listen():
                listener = stack.enter_context(socket.socket(family))
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((address, port))
                listener.listen()
                return listener

            def connect():
                client = stack.enter_context(socket.socket(family))
                client.settimeout(30)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if local_port:
                    client.bind(("::" if ":" in address else "0.0.0.0", local_port))
                client.connect((address, port))
                if policy:              # after connect, so that the route does not decide
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, policy.encode())
                return client
            listener = in_namespace(f"/run/netns/{self.receiver}", listen)
            client = in_namespace(f"/run/netns/{self.sender}", connect)
            accepted, _ = listener.accept()
            yield client, stack.enter_context(accepted)


def policy_of(connected):
    """The policy that the kernel gives to a socket."""
    return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def unavailable():
    """The reason why this host cannot have namespaces; None if it can."""
    if os.geteuid():
        return "network namespaces need root"
    if not os.path.exists("/proc/net/if_inet6"):
        return "this kernel has no IPv6"
    name = f"satcc-{os.getpid()}-probe"
    try:
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1")
        return None
    except AssertionError as error:
        return f"no veth in a network namespace: {error}"
    finally:
        run("ip", "netns", "del", name, check=False)


@pytest.fixture(scope="session")
def can_use_namespaces():
    if reason := unavailable():
        if os.environ.get("EXPECT_ALL") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


@contextlib.contextmanager
def namespaces(name):
    """Two namespaces that exist until the end of the block."""
    net = Net(f"satcc-{os.getpid()}{name}")
    try:
        net.start()
        yield net
    finally:
        net.stop()


@pytest.fixture
def net(can_use_namespaces):
    """Two namespaces of the test's own."""
    with namespaces("") as net:
        yield net
