# SPDX-License-Identifier: GPL-2.0
"""satcc route: what the kernel then has, of routes, rules and connections."""

import contextlib
import ipaddress
import json
import select
import socket
import subprocess
import sys
import time
import types

import pytest

from selftests.operate import net as namespaces
from selftests.operate.net import SATCC, policy_of, run
from tools.satcc_operate import fib, follow, route
from tools.satcc_operate.host import in_namespace

PREFIX, ADDRESS = "203.0.113.0/24", "203.0.113.1"
PREFIX6, ADDRESS6 = "2001:db8:1::/48", "2001:db8:1::1"
BOTH = pytest.mark.parametrize("prefix, address, family", [(PREFIX, ADDRESS, 4), (PREFIX6, ADDRESS6, 6)],
                               ids=["IPv4", "IPv6"])


@contextlib.contextmanager
def unchanged(net):
    """The kernel's routes and rules are afterwards what they were."""
    before = net.everything()
    yield
    assert net.everything() == before


def own(net, prefix, family):
    route, = net.routes(prefix, "proto", str(fib.PROTOCOL), family=family)
    return route


def test_the_protocol_number_is_free():
    """No program in iproute2's own list has it."""
    for folder in ("/etc/iproute2", "/usr/share/iproute2", "/usr/lib/iproute2"):
        with contextlib.suppress(FileNotFoundError), open(f"{folder}/rt_protos") as file:
            assert not any(line.split()[:1] == [str(fib.PROTOCOL)] for line in file)


@BOTH
def test_a_new_connection_uses_the_policy_and_the_same_next_hop(net, prefix, address, family):
    before = net.everything()
    net.satcc("route", "add", prefix, "cubic", check=True)
    route = own(net, prefix, family)
    assert route["gateway"] == ("192.0.2.2" if family == 4 else "2001:db8::2")
    assert route["dev"] == "v0" and route["metrics"] == [{"congestion": "cubic"}]
    with net.connection(address) as (connected, _):
        assert policy_of(connected) == "cubic"
    net.satcc("route", "del", prefix, check=True)
    assert net.everything() == before
    with net.connection(address, 5001) as (connected, _):
        assert policy_of(connected) == "reno"


@BOTH
def test_applying_twice_changes_nothing(net, prefix, address, family):
    net.satcc("route", "add", prefix, "cubic", "--lock", "--initcwnd", "20", check=True)
    with unchanged(net):
        answer = net.satcc_json("route", "add", prefix, "cubic", "--lock", "--initcwnd", "20")
    assert answer == {"changed": False, "commands": []}


@BOTH
def test_the_policy_of_a_route_can_be_changed(net, prefix, address, family):
    net.satcc("route", "add", prefix, "cubic", "--lock", check=True)
    net.satcc("route", "add", prefix, "reno", "--initcwnd", "30", check=True)
    assert own(net, prefix, family)["metrics"] == [{"initcwnd": 30, "congestion": "reno"}]
    assert "lock" not in net.ip(f"-{family}", "route", "show", prefix)
    net.satcc("route", "add", prefix, "reno", check=True)
    assert own(net, prefix, family)["metrics"] == [{"congestion": "reno"}]


@BOTH
def test_a_change_leaves_no_moment_without_the_route(net, prefix, address, family):
    net.satcc("route", "add", prefix, "cubic", check=True)
    command, = net.satcc_json("route", "add", prefix, "reno", "--dry-run")["commands"]
    assert " route replace " in command


@BOTH
def test_a_locked_policy_cannot_be_left(net, prefix, address, family):
    net.satcc("route", "add", prefix, "cubic", "--lock", check=True)
    assert "congctl lock cubic" in net.ip(f"-{family}", "route", "show", prefix)
    with pytest.raises(PermissionError), net.connection(address, policy="reno"):
        pass


@BOTH
def test_the_initial_window_is_the_routes(net, prefix, address, family):
    net.satcc("route", "add", prefix, "cubic", "--initcwnd", "23", check=True)
    with net.connection(address):
        text = net.satcc("status", "--json", check=True).stdout
        assert json.loads(text)["routes"][0]["initcwnd"] == 23
        assert own(net, prefix, family)["metrics"] == [{"initcwnd": 23, "congestion": "cubic"}]


@BOTH
def test_metrics_and_locks_of_the_covering_route_are_copied(net, prefix, address, family):
    gateway = "192.0.2.2" if family == 4 else "2001:db8::2"
    wide = "203.0.112.0/20" if family == 4 else "2001:db8::/32"
    words = ["via", gateway, "dev", "v0", "mtu", "lock", "1400", "advmss", "1300", "rtt", "600ms",
             "rttvar", "100ms", "ssthresh", "100", "cwnd", "lock", "50", "window", "65535",
             "reordering", "5", "hoplimit", "33", "initcwnd", "12", "initrwnd", "13", "quickack", "1",
             "features", "ecn", "rto_min", "300ms", "fastopen_no_cookie", "1"]
    net.ip(f"-{family}", "route", "add", wide, *words)
    net.satcc("route", "add", prefix, "cubic", check=True)
    texts = [net.ip(f"-{family}", "route", "show", each).split(maxsplit=1)[1].split()
             for each in (wide, prefix)]
    new = [word for word in texts[1] if word not in ("congctl", "cubic", "proto", "167")]
    assert sorted(new) == sorted(texts[0])
    with unchanged(net):
        net.satcc("route", "add", prefix, "cubic", check=True)


def test_all_next_hops_are_copied(net):
    net.ip("route", "add", "203.0.112.0/20", "nexthop", "via", "192.0.2.2", "weight", "2",
           "nexthop", "via", "192.0.2.3", "weight", "1")
    net.satcc("route", "add", PREFIX, "cubic", check=True)
    hops = own(net, PREFIX, 4)["nexthops"]
    assert [(hop["gateway"], hop["weight"]) for hop in hops] == [("192.0.2.2", 2), ("192.0.2.3", 1)]
    with unchanged(net):
        net.satcc("route", "add", PREFIX, "cubic", check=True)


def test_all_next_hops_are_copied_of_ipv6(net):
    net.ip("-6", "route", "add", "2001:db8::/32", "nexthop", "via", "2001:db8::2", "weight", "2",
           "nexthop", "via", "2001:db8::3", "weight", "1")
    before = net.everything()
    net.satcc("route", "add", PREFIX6, "cubic", check=True)
    hops = own(net, PREFIX6, 6)["nexthops"]
    assert {(hop["gateway"], hop["weight"]) for hop in hops} == {("2001:db8::2", 2), ("2001:db8::3", 1)}
    with unchanged(net):
        net.satcc("route", "add", PREFIX6, "cubic", check=True)
    net.satcc("route", "add", PREFIX6, "reno", check=True)
    assert len(own(net, PREFIX6, 6)["nexthops"]) == 2
    net.satcc("route", "flush", check=True)
    assert net.everything() == before


@pytest.mark.parametrize("words", [
    ["via", "inet6", "fe80::1", "dev", "v0"], ["via", "198.51.100.1", "dev", "v0", "onlink"],
    ["nhid", "7"], ["dev", "v0", "src", "192.0.2.1"]], ids=["via inet6", "onlink", "nhid", "src"])
def test_kinds_of_next_hops_are_copied(net, words):
    net.ip("nexthop", "add", "id", "7", "via", "192.0.2.2", "dev", "v0")
    net.ip("route", "add", "203.0.112.0/20", *words)
    net.satcc("route", "add", PREFIX, "cubic", check=True)
    wide, = net.routes("203.0.112.0/20")
    new = own(net, PREFIX, 4)
    names = ("via", "gateway", "dev", "flags", "nhid", "prefsrc")
    assert {name: new.get(name) for name in names} == {name: wide.get(name) for name in names}


@BOTH
def test_a_route_of_the_same_prefix_is_passed_over_and_kept(net, prefix, address, family):
    """satcc's route comes first while it is there; the old one is not touched."""
    gateway = "192.0.2.2" if family == 4 else "2001:db8::2"
    net.ip(f"-{family}", "route", "add", prefix, "via", gateway, "initcwnd", "17")
    before = net.everything()
    net.satcc("route", "add", prefix, "cubic", check=True)
    assert len(net.routes(prefix, family=family)) == 2
    assert own(net, prefix, family)["metrics"] == [{"initcwnd": 17, "congestion": "cubic"}]
    with net.connection(address) as (connected, _):
        assert policy_of(connected) == "cubic"
    net.satcc("route", "add", prefix, "reno", check=True)
    net.satcc("route", "add", prefix, "cubic", check=True)
    net.satcc("route", "flush", check=True)
    assert net.everything() == before


@pytest.mark.parametrize("prefix, gateway, family", [("default", "192.0.2.2", 4),
                                                     ("default6", "2001:db8::2", 6)])
def test_a_daemon_that_replaces_its_own_route_leaves_satccs(net, prefix, gateway, family):
    """As a DHCP client does, which gives its route a metric."""
    words = (f"-{family}", "route", "replace", "default", "via", gateway, "dev", "v0", "metric", "100")
    net.ip(f"-{family}", "route", "del", "default")
    net.ip(*words)
    before = net.everything()
    net.satcc("route", "add", prefix, "cubic", check=True)
    state = net.everything()
    net.ip(*words, "proto", "dhcp")
    net.ip(*words)
    assert net.everything() == state
    assert own(net, "default", family)["metric"] == 99
    net.satcc("route", "flush", check=True)
    assert net.everything() == before


def test_without_ipv6_there_is_one_family(monkeypatch):
    """Nor can there be the namespaces of these tests, which have it."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(namespaces, "run", lambda *command, **keywords: None)
    for present, families in ((True, (4, 6)), (False, (4,))):
        monkeypatch.setattr("os.path.exists", lambda path: path != "/proc/net/if_inet6" or present)
        assert fib.families() == families
        assert namespaces.unavailable() == (None if present else "this kernel has no IPv6")


@pytest.mark.parametrize("prefix, address", [
    ("192.0.2.0/24", "192.0.2.2"), ("2001:db8::/64", "2001:db8::2"),
    ("default", ADDRESS), ("default6", ADDRESS6)])
def test_connected_networks_and_default_routes(net, prefix, address):
    before = net.everything()
    add_twice(net, prefix, address)
    net.satcc("route", "del", prefix, check=True)
    assert net.everything() == before


def add_twice(net, prefix, address):
    """The first time connections to the address get the policy; the second time nothing changes."""
    net.satcc("route", "add", prefix, "cubic", check=True)
    with net.connection(address) as (connected, _):
        assert policy_of(connected) == "cubic"
    with unchanged(net):
        assert not net.satcc_json("route", "add", prefix, "cubic")["changed"]


def test_a_route_outside_the_main_table_is_copied_where_it_is(net):
    net.ip("route", "add", "203.0.112.0/20", "via", "192.0.2.2", "table", "77")
    net.ip("rule", "add", "to", "203.0.112.0/20", "lookup", "77")
    before = net.everything()
    net.satcc("route", "add", PREFIX, "cubic", check=True)
    route, = net.routes(PREFIX, "table", "77", "proto", str(fib.PROTOCOL))
    assert route["gateway"] == "192.0.2.2"
    with net.connection(ADDRESS) as (connected, _):
        assert policy_of(connected) == "cubic"
    net.satcc("route", "flush", check=True)
    assert net.everything() == before


@pytest.mark.parametrize("prefix, address, family", [("default", ADDRESS, 4), ("default6", ADDRESS6, 6)])
def test_a_default_route_of_another_table_is_copied_where_it_is(net, prefix, address, family):
    """As wg-quick sets it up: of the main table only routes that are more specific count."""
    gateway = "192.0.2.2" if family == 4 else "2001:db8::2"
    net.ip(f"-{family}", "route", "add", "default", "via", gateway, "table", "51820", "initcwnd", "14")
    net.ip(f"-{family}", "rule", "add", "not", "fwmark", "51820", "lookup", "51820")
    net.ip(f"-{family}", "rule", "add", "lookup", "main", "suppress_prefixlength", "0")
    before = net.everything()
    add_twice(net, prefix, address)
    with unchanged(net):
        done = net.satcc("route", "add", prefix, "cubic", "--port", "4433")
    assert done.returncode == 1 and done.stderr.endswith("the kernel uses table 51820\n")
    net.satcc("route", "del", prefix, check=True)
    assert net.everything() == before


def test_a_rule_for_some_destinations_does_not_decide_about_the_default_route(net):
    for number, prefix in enumerate(("0.0.0.0/2", "64.0.0.0/3", "1.0.0.1")):
        net.ip("rule", "add", "to", prefix, "lookup", str(77 + number))
        net.ip("route", "add", "default", "via", "192.0.2.3", "table", str(77 + number))
    net.ip("route", "add", "96.0.0.0/4", "via", "192.0.2.3", "table", "77")
    net.satcc("route", "add", "default", "cubic", check=True)
    assert own(net, "default", 4)["gateway"] == "192.0.2.2"


@pytest.mark.parametrize("taken, address", [
    ([], "0.0.0.1"), (["0.0.0.0/1"], "128.0.0.1"), (["0.0.0.0/1", "128.0.0.0/1"], None),
    (["0.0.0.0/1", "128.0.0.0/2", "192.0.0.0/2"], None), (["0.0.0.0/32", "0.0.0.2/31"], "0.0.0.1")])
def test_an_address_outside_of_all_prefixes(taken, address):
    outside = route.address_outside(route.GLOBAL[4], [ipaddress.ip_network(text) for text in taken])
    assert (outside and str(outside)) == address


# ---- ports -----------------------------------------------------------------

@BOTH
def test_a_port_selects_its_connections_only(net, prefix, address, family):
    before = net.everything()
    net.satcc("route", "add", prefix, "cubic", "--port", "4433", check=True)
    with net.connection(address, 5000, local_port=4433) as (with_port, _), \
            net.connection(address, 5001) as (without, _):
        assert (policy_of(with_port), policy_of(without)) == ("cubic", "reno")
    listed, = net.satcc_json("route", "list")
    assert (listed["prefix"], listed["port"], listed["policy"]) == (prefix, 4433, "cubic")
    with unchanged(net):
        assert not net.satcc_json("route", "add", prefix, "cubic", "--port", "4433")["changed"]
        assert not net.satcc_json("route", "del", prefix)["changed"]
    net.satcc("route", "del", prefix, "--port", "4433", check=True)
    assert net.everything() == before


@BOTH
def test_a_port_works_for_accepted_connections(net, prefix, address, family):
    """The server is in the sender's namespace: its local port selects."""
    back = "default" if family == 4 else "default6"
    net.satcc("route", "add", back, "cubic", "--port", "4433", check=True)
    net.sender, net.receiver = net.receiver, net.sender
    try:
        here = "192.0.2.1" if family == 4 else "2001:db8::1"
        source = (address, 0)
        with connection_from(net, source, here, 4433) as accepted:
            assert policy_of(accepted) == "cubic"
        with connection_from(net, source, here, 4434) as accepted:
            assert policy_of(accepted) == "reno"
    finally:
        net.sender, net.receiver = net.receiver, net.sender


@contextlib.contextmanager
def connection_from(net, source, address, port):
    """The accepted socket of a connection from an address that only the default route reaches."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.ExitStack() as stack:
        def listen():
            listener = stack.enter_context(socket.socket(family))
            listener.bind((address, port))
            listener.listen()
            return listener

        def connect():
            stack.enter_context(socket.create_connection((address, port), 30, source))
        listener = in_namespace(f"/run/netns/{net.receiver}", listen)
        in_namespace(f"/run/netns/{net.sender}", connect)
        yield stack.enter_context(listener.accept()[0])


@BOTH
def test_more_specific_routes_keep_precedence_over_a_port(net, prefix, address, family):
    """A port's default route takes nothing away from a network that has a route of its own."""
    gateway = "192.0.2.2" if family == 4 else "2001:db8::2"
    net.ip(f"-{family}", "route", "add", prefix, "via", gateway)
    whole = "default" if family == 4 else "default6"
    net.satcc("route", "add", whole, "cubic", "--port", "4433", check=True)
    selector = ("ipproto", "tcp", "sport", "4433", "dport", "5000")
    near = "192.0.2.2" if family == 4 else "2001:db8::2"
    for target, expected in ((near, "main"), (address, "main"),
                             ("203.0.114.1" if family == 4 else "2001:db8:2::1", "16704433")):
        route, = json.loads(net.ip(f"-{family}", "-j", "-d", "route", "get", "fibmatch", target,
                                   *selector))
        assert route["table"] == expected, target


def test_the_longer_prefix_of_a_port_wins(net):
    net.satcc("route", "add", "default", "reno", "--port", "4433", check=True)
    net.satcc("route", "add", PREFIX, "cubic", "--port", "4433", check=True)
    net.ip("route", "add", "203.0.112.0/20", "via", "192.0.2.2")
    with net.connection(ADDRESS, local_port=4433) as (connected, _):
        assert policy_of(connected) == "cubic"


def test_a_port_is_refused_where_rules_of_others_come_later(net):
    net.ip("rule", "add", "fwmark", "7", "lookup", "77", "priority", "32765")
    with unchanged(net):
        done = net.satcc("route", "add", PREFIX, "cubic", "--port", "4433")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has a rule with 32765" in done.stderr and done.stderr.count("\n") == 1


# ---- flush, save and restore -----------------------------------------------

def add_many(net):
    net.satcc("route", "add", PREFIX, "cubic", "--lock", check=True)
    net.satcc("route", "add", PREFIX6, "cubic", "--initcwnd", "25", check=True)
    net.satcc("route", "add", "default", "reno", "--port", "4433", check=True)
    net.satcc("route", "add", PREFIX6, "reno", "--port", "4433", check=True)


def test_flush_removes_only_satccs_routes_and_rules(net):
    net.ip("route", "add", "203.0.114.0/24", "via", "192.0.2.2", "congctl", "cubic")
    net.ip("rule", "add", "to", "203.0.114.0/24", "ipproto", "tcp", "sport", "4433",
           "lookup", "16704433", "priority", "30000")
    net.ip("route", "add", "203.0.114.0/24", "via", "192.0.2.2", "table", "16704433")
    with unchanged(net):
        add_many(net)
        net.satcc("route", "flush", check=True)
    with unchanged(net):
        assert net.satcc("route", "flush", check=True).stdout == "nothing to do: satcc has no route\n"


def test_restore_adds_the_saved_routes(net, tmp_path):
    net.root = tmp_path
    (tmp_path / "proc").symlink_to("/proc")
    add_many(net)
    state = net.everything()
    net.satcc("route", "save", check=True)
    net.satcc("route", "flush", check=True)
    assert net.everything() != state
    net.satcc("route", "restore", check=True)
    assert sorted(net.everything()) == sorted(state)
    with unchanged(net):
        assert not net.satcc_json("route", "restore")["changed"]
    assert [path.name for path in (tmp_path / "etc/satcc").iterdir()] == ["routes.json"]


@pytest.mark.parametrize("table", ["77", "300"])     # listed before main, and after
def test_a_prefix_in_two_tables_is_saved_once(net, tmp_path, table):
    """A rule came after the first route: what is saved is what is in use."""
    net.root = tmp_path
    (tmp_path / "proc").symlink_to("/proc")
    net.satcc("route", "add", PREFIX, "reno", check=True)
    net.ip("route", "add", "203.0.112.0/20", "via", "192.0.2.2", "table", table)
    net.ip("rule", "add", "to", "203.0.112.0/20", "lookup", table)
    net.satcc("route", "add", PREFIX, "cubic", "--initcwnd", "20", check=True)
    assert len(net.routes(PREFIX, "table", "all", "proto", str(fib.PROTOCOL))) == 2
    net.satcc("route", "save", check=True)
    saved = json.loads((tmp_path / "etc/satcc/routes.json").read_text())["routes"]
    assert [(each["prefix"], each["policy"]) for each in saved] == [(PREFIX, "cubic")]
    net.satcc("route", "flush", check=True)
    net.satcc("route", "restore", check=True)
    with net.connection(ADDRESS) as (connected, _):
        assert policy_of(connected) == "cubic"


def test_each_namespace_has_a_file_of_its_own(net, tmp_path):
    """The host's file stays what it was."""
    net.root = tmp_path
    (tmp_path / "proc").symlink_to("/proc")
    folder = tmp_path / "etc/satcc"
    net.satcc("route", "save", check=True)
    before = (folder / "routes.json").read_text()
    net.satcc("route", "add", PREFIX, "cubic", check=True)
    done = net.satcc("route", "save", "--netns", net.sender, check=True)
    name = f"routes-{net.sender}.json"
    assert done.stdout == f"saved 1 route in /etc/satcc/{name}\n"
    assert sorted(path.name for path in folder.iterdir()) == [name, "routes.json"]
    assert (folder / "routes.json").read_text() == before
    state = net.everything()
    net.satcc("route", "flush", check=True)
    assert not net.satcc_json("route", "restore")["changed"]        # the host's file has none
    net.satcc("route", "restore", "--netns", net.sender, check=True)
    assert sorted(net.everything()) == sorted(state)


@pytest.mark.parametrize("text, reason", [
    (None, "there is no"), ("{", "is not a file of"),
    ('{"version": 2, "routes": []}', "its version is 2"),
    ('{"version": 1, "routes": ["203.0.113.0/24"]}', '"203.0.113.0/24" is not a route'),
    ('{"version": 1, "routes": [null]}', "null is not a route"),
    ('{"version": 1, "routes": {"prefix": 1}}', '"prefix" is not a route'),
    ('{"version": 1, "routes": 7}', "is not a file of"), ("[]", "is not a file of"),
    ('{"version": 1, "routes": [{"prefix": 7, "policy": "cubic"}]}', "7 is not a prefix"),
    ('{"version": 1, "routes": [{"prefix": "203.0.113.0/24", "policy": "nosuch"}]}', "no policy nosuch"),
    ('{"version": 1, "routes": [{"prefix": "203.0.113.0/33", "policy": "cubic"}]}', "is not a file of"),
    ('{"version": 1, "routes": [{"prefix": "203.0.113.0/24", "policy": "cubic", "port": 70000}]}',
     "not a port"),
    ('{"version": 1, "routes": [{"prefix": "203.0.113.0/24", "policy": "cubic"}, '
     '{"prefix": "203.0.113.0/24", "policy": "reno"}]}', "twice"),
    ('{"version": 1, "routes": [{"prefix": "203.0.113.0/24", "policy": "cubic"}, '
     '{"prefix": "2001:db8:9::/48", "policy": "nosuch"}]}', "no policy nosuch")])
def test_restore_refuses_a_bad_file_before_a_route_is_changed(net, tmp_path, text, reason):
    net.root = tmp_path
    (tmp_path / "proc").symlink_to("/proc")
    if text is not None:
        (tmp_path / "etc/satcc").mkdir(parents=True)
        (tmp_path / "etc/satcc/routes.json").write_text(text)
    with unchanged(net):
        done = net.satcc("route", "restore")
    assert done.returncode == 1 and reason in done.stderr and done.stderr.count("\n") == 1


def test_a_route_that_has_lost_its_policy_is_not_saved(net, tmp_path):
    """Unloading the module takes the policy from the route: the file keeps it, `list` shows the loss."""
    net.root = tmp_path
    (tmp_path / "proc").symlink_to("/proc")
    net.satcc("route", "add", PREFIX, "cubic", check=True)
    net.satcc("route", "save", check=True)
    before = (tmp_path / "etc/satcc/routes.json").read_text()
    net.ip("route", "replace", PREFIX, "via", "192.0.2.2", "dev", "v0", "proto", "167")
    for words in ((), ("--dry-run",)):
        done = net.satcc("route", "save", *words)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"route to {PREFIX} has lost its policy" in done.stderr and done.stderr.count("\n") == 1
    assert (tmp_path / "etc/satcc/routes.json").read_text() == before
    for words in (("route", "list"), ("status",)):
        assert f"{PREFIX}  (unloaded)" in net.satcc(*words, check=True).stdout
    assert [each["policy"] for each in net.satcc_json("route", "list")] == [None]
    assert 'satcc_routes{policy="",by="satcc"} 1' in net.satcc("metrics", check=True).stdout
    net.satcc("route", "restore", check=True)
    assert own(net, PREFIX, 4)["metrics"] == [{"congestion": "cubic"}]


# ---- follow ----------------------------------------------------------------

# ip's words when a namespace with a name goes while ip asks for it: another test's.
VANISHED = "Error: Peer netns reference is invalid.\n"


@contextlib.contextmanager
def following(net, folder):
    """`satcc route follow` in the background; yields a function that waits for its next line."""
    net.root = folder
    if not (folder / "proc").exists():
        (folder / "proc").symlink_to("/proc")
    process = subprocess.Popen(
        ["ip", "netns", "exec", net.sender, "env", f"SATCC_ROOT={folder}", sys.executable, SATCC,
         "route", "follow"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def line(seconds=20):
        while select.select([process.stdout], [], [], seconds)[0]:
            text = process.stdout.readline()
            if text != VANISHED:
                return text
        return None
    try:
        yield line
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


def save_and_flush(net, folder, *requests):
    """The requests are in the file and not in effect."""
    net.root = folder
    (folder / "proc").symlink_to("/proc")
    for words in requests:
        net.satcc("route", "add", *words, check=True)
    net.satcc("route", "save", check=True)
    net.satcc("route", "flush", check=True)


@pytest.mark.parametrize("prefix, family, gateways", [
    (PREFIX, 4, ["192.0.2.2", "192.0.2.3"]), (PREFIX6, 6, ["2001:db8::2", "2001:db8::3"])])
def test_a_route_follows_its_original(net, tmp_path, prefix, family, gateways):
    """Another next hop, a device that goes down, another default route: no packet goes the old way."""
    save_and_flush(net, tmp_path, (prefix, "cubic", "--initcwnd", "20"))
    default = (f"-{family}", "route", "replace", "default", "dev", "v0", "via")
    with following(net, tmp_path) as line:
        assert line() == f"{prefix}: via {gateways[0]} on v0\n"
        net.ip(*default, gateways[1])
        assert line() == f"{prefix}: via {gateways[1]} on v0\n"
        route = own(net, prefix, family)
        assert route["gateway"] == gateways[1] and route["metrics"] == [{"congestion": "cubic",
                                                                        "initcwnd": 20}]
        net.ip("link", "set", "v0", "down")
        assert line() == f"{prefix}: waits: no route leads to {prefix}\n"
        net.ip("link", "set", "v0", "up")
        if family == 6:
            net.ip("addr", "replace", "2001:db8::1/64", "dev", "v0", "nodad")
        net.ip(*default, gateways[0])
        assert line() == f"{prefix}: via {gateways[0]} on v0\n"
        net.ip(f"-{family}", "route", "del", "default")
        assert line() == f"{prefix}: waits: no route leads to {prefix}\n"
        assert net.routes(prefix, "proto", str(fib.PROTOCOL), family=family) == []


@pytest.mark.parametrize("words", [("del", PREFIX), ("flush",)])
def test_what_the_operator_removes_is_not_followed(net, tmp_path, words):
    save_and_flush(net, tmp_path, (PREFIX, "cubic"))
    with following(net, tmp_path) as line:
        assert line() == f"{PREFIX}: via 192.0.2.2 on v0\n"
        net.satcc("route", *words, check=True)
        assert line(1) is None
        net.ip("route", "replace", "default", "via", "192.0.2.3")
        assert line(1) is None
        assert net.routes("proto", str(fib.PROTOCOL)) == []


@pytest.mark.parametrize("link, removed", [
    ("", True), ("[LINK]3: v0@if2: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 state UP", True),
    ("[LINK]3: v0@if2: <BROADCAST,MULTICAST> mtu 1500 state DOWN", False),
    ("[LINK]Deleted 3: v0@if2: <BROADCAST,MULTICAST,UP> mtu 1500", False),
    ("[LINK]4: v1@if5: <BROADCAST,MULTICAST> mtu 1500 state DOWN", True),
    ("[ROUTE]Deleted local 192.0.2.9 dev v0 table 255 proto 2 scope 254 src 192.0.2.9", False),
    ("[ROUTE]Deleted local 192.0.2.9 dev v1 table 255 proto 2 scope 254 src 192.0.2.9", True),
    ("[ROUTE]192.0.2.0/24 dev v0 table 254 proto 2 scope 253 src 192.0.2.9", True),
    ("[ADDR]3: v0    inet 192.0.2.1/24 brd 192.0.2.255 scope 0 v0\\   valid_lft forever", False),
    ("[ADDR]Deleted 3: v0    inet6 2001:db8::1/64 scope 0 \\   valid_lft forever", False),
    ("[ADDR]4: v1    inet 192.0.2.1/24 brd 192.0.2.255 scope 0 v1\\   valid_lft forever", True),
    ("[ROUTE]Deleted 198.51.100.0/24 via 192.0.2.2 dev v0 table 254 proto 186 metric 0", True)])
def test_only_the_routes_own_device_takes_it_away(link, removed):
    """Another device's event, or one of a device that stays up, may come with the operator's command.

    A device whose address goes, or is set again, is configured anew.
    """
    deleted = f"[ROUTE]Deleted {PREFIX} via 192.0.2.2 dev v0 table 254 proto {fib.PROTOCOL} metric 0"
    place = fib.prefix_of(PREFIX), None
    assert follow.is_removed(place, f"{link}\n{deleted}\n") == removed


@pytest.mark.parametrize("prefix, port, deleted, removed", [
    (PREFIX, None, f"{PREFIX} dev v0 table 254 proto {fib.PROTOCOL}", True),
    (PREFIX, None, f"{PREFIX} dev v0 table 254 proto 4", False),
    (PREFIX, None, f"203.0.112.0/24 dev v0 table 254 proto {fib.PROTOCOL}", False),
    (PREFIX, None, f"default dev v0 table 254 proto {fib.PROTOCOL}", False),
    ("default", None, f"default dev v0 table 254 proto {fib.PROTOCOL}", True),
    ("default", None, f"{PREFIX} dev v0 table 254 proto {fib.PROTOCOL}", False),
    (PREFIX, 443, f"{PREFIX} dev v0 table {fib.FIRST_TABLE + 443} proto {fib.PROTOCOL}", True),
    (PREFIX, 443, f"{PREFIX} dev v0 table {fib.FIRST_TABLE + 80} proto {fib.PROTOCOL}", False),
    (PREFIX, 443, f"{PREFIX} dev v0 table 254 proto {fib.PROTOCOL}", False),
    (PREFIX, None, f"{PREFIX} dev v0 table {fib.FIRST_TABLE + 443} proto {fib.PROTOCOL}", False)])
def test_only_satccs_route_of_the_same_prefix_and_port_is_a_removal(prefix, port, deleted, removed):
    place = fib.prefix_of(prefix), port
    assert follow.is_removed(place, f"[ROUTE]Deleted {deleted} metric 0\n") == removed


def test_a_route_that_waits_is_told_once_and_comes_back(monkeypatch):
    """satcc itself deletes the copy when the original goes: the event of that is no removal."""
    request = route.Request(fib.prefix_of(PREFIX), "cubic")
    in_effect, originals = [request], []

    def plan_add(_host, _request):
        if not originals:
            raise fib.CannotCopy("no route leads to it")
        return [] if in_effect else ["add"]
    monkeypatch.setattr(route, "stored", lambda _: [request])
    monkeypatch.setattr(route, "requests_in_effect", lambda _: list(in_effect))
    monkeypatch.setattr(route, "plan_add", plan_add)
    monkeypatch.setattr(route, "plan_del", lambda *_: ["del"])
    monkeypatch.setattr(follow.bpf, "require", lambda *_: None)
    monkeypatch.setattr(follow, "hop_text", lambda *_: "via 192.0.2.2 on v0")
    follower, waits = follow.Follower(None), f"{PREFIX}: waits: no route leads to it"
    for _ in range(2):
        in_effect, originals = [request], []
        assert follower.plan() == (["del"], [waits])
        in_effect = []
        deleted = f"[ROUTE]Deleted {PREFIX} dev v0 table 254 proto {fib.PROTOCOL} metric 0\n"
        assert follower.plan(deleted) == ([], [])
        originals = ["default"]
        assert follower.plan() == (["add"], [f"{PREFIX}: via 192.0.2.2 on v0"])


@pytest.mark.parametrize("late, steps", [
    (f"[ROUTE]Deleted {PREFIX} dev v0 table 254 proto {fib.PROTOCOL} metric 0\n", []), ("", ["add"])])
def test_the_event_of_a_removal_may_come_after_the_look_at_the_routes(monkeypatch, capsys, late, steps):
    request, applied = route.Request(fib.prefix_of(PREFIX), "cubic"), []
    monkeypatch.setattr(route, "stored", lambda _: [request])
    monkeypatch.setattr(route, "requests_in_effect", lambda _: [])
    monkeypatch.setattr(route, "plan_add", lambda *_: ["add"])
    monkeypatch.setattr(route, "apply", lambda _, some: applied.extend(some))
    monkeypatch.setattr(follow.bpf, "require", lambda *_: None)
    monkeypatch.setattr(follow, "hop_text", lambda *_: "via 192.0.2.2 on v0")
    monitor = types.SimpleNamespace(burst=lambda seconds: late)
    follow.bring_up_to_date(None, types.SimpleNamespace(json=False), follow.Follower(None), monitor, "")
    assert applied == steps
    assert capsys.readouterr().out == (f"{PREFIX}: via 192.0.2.2 on v0\n" if steps else "")


@pytest.mark.parametrize("prefix, family, address, gateway", [
    (PREFIX, 4, "192.0.2.1/24", "192.0.2.2"), (PREFIX6, 6, "2001:db8::1/64", "2001:db8::2")])
def test_a_manager_that_configures_the_device_anew_is_followed(net, tmp_path, prefix, family, address,
                                                               gateway):
    """As NetworkManager and systemd-networkd do: they delete the device's routes and address."""
    save_and_flush(net, tmp_path, (prefix, "cubic"))
    with following(net, tmp_path) as line:
        assert line() == f"{prefix}: via {gateway} on v0\n"
        run("ip", "-n", net.sender, f"-{family}", "-batch", "-",
            input=f"route del {prefix} proto {fib.PROTOCOL}\nroute del default\n"
                  f"address del {address} dev v0\n")
        assert line() == f"{prefix}: waits: no route leads to {prefix}\n"
        net.ip("addr", "add", address, "dev", "v0", *["nodad"] * (family == 6))
        net.ip(f"-{family}", "route", "add", "default", "via", gateway)
        assert line() == f"{prefix}: via {gateway} on v0\n"
    assert own(net, prefix, family)["metrics"] == [{"congestion": "cubic"}]


@pytest.mark.parametrize("pause_s", [0, 0.4])
def test_a_manager_that_keeps_the_addresses_is_followed(net, tmp_path, pause_s):
    """As systemd-networkd 257 does: it deletes the routes that are not its own and sets the address
    again, a quarter of a second later on a slow host."""
    save_and_flush(net, tmp_path, (PREFIX, "cubic"))
    with following(net, tmp_path) as line:
        assert line() == f"{PREFIX}: via 192.0.2.2 on v0\n"
        net.ip("route", "del", PREFIX, "proto", str(fib.PROTOCOL))
        time.sleep(pause_s)
        net.ip("address", "replace", "192.0.2.1/24", "dev", "v0")
        assert line() == f"{PREFIX}: via 192.0.2.2 on v0\n"
    assert own(net, PREFIX, 4)["metrics"] == [{"congestion": "cubic"}]


def test_a_daemon_that_replaces_satccs_route_is_followed(net, tmp_path):
    """As a DHCP client may, where the metric is 0."""
    save_and_flush(net, tmp_path, ("default", "cubic"))
    with following(net, tmp_path) as line:
        assert line() == "0.0.0.0/0: via 192.0.2.2 on v0\n"
        net.ip("route", "replace", "default", "via", "192.0.2.3", "proto", "dhcp")
        assert line() == "0.0.0.0/0: via 192.0.2.3 on v0\n"
    assert own(net, "default", 4)["gateway"] == "192.0.2.3"


def test_what_is_added_later_is_followed_too(net, tmp_path):
    """And a port's table with its rules; a route that drops packets is no next hop."""
    with following(net, tmp_path) as line:
        assert line(1) is None
        net.satcc("route", "add", PREFIX, "cubic", "--port", "4433", check=True)
        assert line(1) is None
        net.ip("route", "add", "203.0.0.0/16", "via", "192.0.2.3")
        assert line() == f"{PREFIX} from local port 4433: via 192.0.2.3 on v0\n"
        net.ip("route", "replace", "blackhole", "203.0.0.0/16")
        assert line() == f"{PREFIX} from local port 4433: waits: the route {PREFIX} leads nowhere\n"
    assert "4433" not in "".join(net.everything())


def test_follow_once_is_all_or_nothing(net, tmp_path):
    """One prefix moves, another waits; an unknown policy is refused before a route is changed."""
    save_and_flush(net, tmp_path, (PREFIX, "cubic"), (PREFIX6, "cubic"))
    net.ip("-6", "route", "del", "default")
    with unchanged(net):
        done = net.satcc("route", "follow", "--dry-run", check=True)
        assert done.stdout.startswith(f"ip -4 route prepend {PREFIX} ") and done.stdout.count("\n") == 1
    done = net.satcc("route", "follow", "--once", check=True)
    assert done.stdout.splitlines() == [f"{PREFIX}: via 192.0.2.2 on v0",
                                        f"{PREFIX6}: waits: no route leads to {PREFIX6}"]
    assert net.satcc("route", "follow", "--once", check=True).stdout.startswith("nothing to do: ")
    file = tmp_path / "etc/satcc/routes.json"
    file.write_text(file.read_text().replace('"cubic"', '"nosuch"', 1))
    with unchanged(net):
        done = net.satcc("route", "follow")
    assert (done.returncode, done.stdout) == (1, "") and "no policy nosuch" in done.stderr


# ---- refusals, dry runs ----------------------------------------------------

@pytest.mark.parametrize("words, reason", [
    (("203.0.113.0/24", "nosuch"), "no policy nosuch"),
    (("203.0.113.0/24", "no;such"), "not a policy's name"),
    (("203.0.113.7/24", "cubic"), "not a prefix"), (("satellite", "cubic"), "not a prefix"),
    (("198.51.100.0/24", "cubic"), "drops packets"), (("2001:db8:dead::/48", "cubic"), "drops packets"),
    (("198.51.101.0/24", "cubic"), "encap")])
def test_an_invalid_request_is_refused_before_a_route_is_changed(net, words, reason):
    net.ip("route", "add", "blackhole", "198.51.100.0/24")
    net.ip("-6", "route", "add", "unreachable", "2001:db8:dead::/48")
    net.ip("route", "add", "198.51.101.0/24", "encap", "ip", "id", "5", "dst", "10.0.0.1", "dev", "v0")
    with unchanged(net):
        done = net.satcc("route", "add", *words)
    assert done.returncode == 1 and reason in done.stderr and done.stderr.count("\n") == 1


def test_a_prefix_without_a_route_is_refused(net):
    net.ip("route", "del", "default")
    with unchanged(net):
        done = net.satcc("route", "add", PREFIX, "cubic")
    assert done.returncode == 1 and "no route leads to 203.0.113.0/24" in done.stderr


@pytest.mark.parametrize("words", [("add",), ("add", PREFIX), ("add", PREFIX, "cubic", "--port", "0"),
                                   ("add", PREFIX, "cubic", "--initcwnd", "-1"), ("nosuch",), ()])
def test_usage(net, words):
    assert net.satcc("route", *words).returncode == 2


def test_del_with_another_policy_is_refused(net):
    net.satcc("route", "add", PREFIX, "cubic", check=True)
    with unchanged(net):
        done = net.satcc("route", "del", PREFIX, "reno")
    assert done.returncode == 1 and "has the policy cubic" in done.stderr
    net.satcc("route", "del", PREFIX, "cubic", check=True)


def test_a_dry_run_prints_the_commands(net):
    """What it prints, typed, has the same effect."""
    words = ("route", "add", "default", "cubic", "--port", "4433")
    with unchanged(net):
        commands = net.satcc(*words, "--dry-run", check=True).stdout.splitlines()
    assert len(commands) == 3
    for command in commands:
        net.ip(*command.split()[1:])
    with unchanged(net):
        assert not net.satcc_json(*words)["changed"]
        removals = net.satcc("route", "flush", "--dry-run", check=True).stdout.splitlines()
    assert len(removals) == 3


def fail_at(number, folder):
    """An `ip` that fails when it is called to change something for the number-th time."""
    folder.mkdir()
    script = folder / "ip"
    script.write_text(f"""#!/bin/sh
case " $* " in
*" add "*|*" prepend "*|*" del "*|*" replace "*)
    echo x >> {folder}/calls
    [ "$(wc -l < {folder}/calls)" != {number} ] || {{ echo "planted failure" >&2; exit 2; }} ;;
esac
PATH="$(echo "$PATH" | sed 's,^{folder}:,,')"
exec ip "$@"
""")
    script.chmod(0o755)
    return folder


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_failure_leaves_nothing_half_done(net, number, tmp_path):
    with unchanged(net):
        done = net.satcc("route", "add", "default", "cubic", "--port", "4433",
                         path=fail_at(number, tmp_path / "bin"))
    assert done.returncode == 1
    assert "planted failure" in done.stderr and "nothing has changed" in done.stderr


@pytest.mark.parametrize("number", range(1, 9))
def test_a_failed_flush_takes_everything_back(net, number, tmp_path):
    add_many(net)
    state = sorted(net.everything())
    done = net.satcc("route", "flush", path=fail_at(number, tmp_path / "bin"))
    assert done.returncode == 1 and "nothing has changed" in done.stderr
    assert sorted(net.everything()) == state


def test_the_namespace_of_an_option(net):
    """--netns from outside the namespace: nothing else is touched."""
    words = [sys.executable, SATCC, "route", "add", PREFIX, "cubic", "--netns", net.sender]
    outside = run("ip", "route").stdout
    shown = run(*words, "--dry-run").stdout
    assert shown.startswith(f"ip -n {net.sender} -4 route prepend {PREFIX} ")
    run(*words)
    assert own(net, PREFIX, 4)["metrics"] == [{"congestion": "cubic"}]
    assert run("ip", "route").stdout == outside
