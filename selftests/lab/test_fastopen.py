# SPDX-License-Identifier: GPL-2.0
"""A policy in the place of another that nobody has ended: TCP_FASTOPEN_CONNECT, setsockopt, data.

connect() with TCP_FASTOPEN_CONNECT sends nothing, but the socket counts as connecting: a policy
set then is initialised. With the first data the kernel puts the route's policy in its place, without
release() and without init() (tcp_ca_dst_init(), see modules/patches/README.md). So of two policies
one is never told that it ends, and the other runs on bytes that are not its own.
"""

import functools
import json
import re

import pytest

from bench import paths
from bench.lab import image, machine
from selftests.conftest import KERNEL, long, pairs_in_turn

pytestmark = pytest.mark.lab

OURS = tuple(paths.policies())
KERNELS = ("cubic", "bbr", "reno")
# Every ordered pair with one of ours in it: (the route's, that of the socket before).
PAIRS = tuple((route, before) for route in OURS + KERNELS for before in OURS + KERNELS
              if route != before and {route, before} & set(OURS))

UNPACED = 2 ** 64 - 1
INFINITE = 0x7FFFFFFF
RTT_MS, RATE_MBIT, QUEUE_PACKETS = 50, 10, 30
FLOW_BYTES = 500_000
SOCKETS, LEAKED = 200, 100      # sockets of a pair; what a slab cache may have more afterwards

# 10 Mbit/s, 50 ms and a short queue: a flow of 500 kB fills it and loses packets.
NETWORK = f"""
for name in sender gateway receiver; do ip netns add $name; done
ip -n sender link add right type veth peer name left netns gateway
ip -n gateway link add right type veth peer name left netns receiver
ip -n sender addr add 192.0.2.1/30 dev right
ip -n gateway addr add 192.0.2.2/30 dev left
ip -n gateway addr add 192.0.2.5/30 dev right
ip -n receiver addr add 192.0.2.6/30 dev left
for end in sender/right gateway/left gateway/right receiver/left; do
    ip -n ${{end%/*}} link set ${{end#*/}} up
    ip netns exec ${{end%/*}} ethtool -K ${{end#*/}} gso off tso off gro off > /dev/null
done
ip netns exec gateway sysctl -q -w net.ipv4.ip_forward=1
ip -n receiver route add default via 192.0.2.5
tc -n gateway qdisc add dev right root tbf rate {RATE_MBIT}mbit burst 1600 limit {QUEUE_PACKETS * 1514}
tc -n gateway qdisc add dev left root netem delay {RTT_MS}ms limit 10000
for name in sender receiver; do
    ip netns exec $name sysctl -q -w net.ipv4.tcp_fastopen=1 net.ipv4.tcp_no_metrics_save=1 \\
        net.ipv4.tcp_congestion_control=reno
done
ip netns exec receiver flow recv 5000 &
sleep 0.2
# A warning is looked for in the log: bbr's own, on bytes that are not its, must not end the run.
sysctl -q -w kernel.panic_on_warn=0
for name in {" ".join(OURS)} bbr; do modprobe tcp_$name; done
route() {{ ip -n sender route replace 192.0.2.4/30 via 192.0.2.2 ${{1:+congctl $1}}; }}
"""
END = "\ndmesg > /run/out/dmesg\n"


def played(lab, name, script):
    """The files a script left behind, once the network is up."""
    log = paths.BUILD / "log" / f"fastopen-{name}.log"
    files = {"run": (NETWORK + script + END).encode(),
             "fastopen": image.build_helper("fastopen").read_bytes()}
    return machine.run_job(lab.snapshot, files, log).files


# -- what a flow does on the other's bytes ----------------------------------------

def flows_script(pairs):
    """Each policy by the route alone, then with those that the pairs name before it."""
    lines = []
    for route in OURS + KERNELS:
        lines.append(f"route {route}")
        for before in ("-", *(pair[1] for pair in pairs if pair[0] == route)):
            lines.append(f"ip netns exec sender ./fastopen 192.0.2.6 5000 {before} 1 {FLOW_BYTES} "
                         f"> /run/out/{route}.{before.replace('-', 'alone')}")
            lines.append("sleep 0.5")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def flows(lab, request):
    """Policies -> what their flow reported, and the kernel's log.

    The pairs are those that this session tests; all, if it tests none.
    """
    pairs = [(item.callspec.params["route"], item.callspec.params["before"])
             for item in request.session.items
             if getattr(item, "function", None) is test_bytes_of_the_other_policy_change_nothing]
    files = played(lab, "flows", flows_script(pairs or PAIRS))
    infos = {name: json.loads(text) for name, text in files.items()
             if name.split(".")[0] in OURS + KERNELS}
    return {**infos, "dmesg": files["dmesg"].decode()}


@pytest.mark.parametrize("route, before", pairs_in_turn(PAIRS))
def test_bytes_of_the_other_policy_change_nothing(flows, route, before):
    """As the flow that had the route's policy alone: window, ssthresh, rate, time, what it reports."""
    flow, alone = flows[f"{route}.{before}"], flows[f"{route}.alone"]
    assert (flow["deferred"], flow["set"], flow["used"]) == (1, before, route)
    assert flow["acked"] >= FLOW_BYTES
    if route in KERNELS:        # what the kernel's own do on ours is the kernel's fault
        return
    assert (flow["ssthresh"] < INFINITE) == (alone["ssthresh"] < INFINITE), (flow, alone)
    assert (flow["pacing_Bps"] == UNPACED) == (alone["pacing_Bps"] == UNPACED), (flow, alone)
    # Not cwnd and the rate at the end: a flow that ends in recovery has little in flight by then.
    for name in ("cwnd_max", "ssthresh_max"):
        assert alone[name] / 2 <= flow[name] <= 2 * alone[name], (name, flow, alone)
    assert flow["retrans"] <= 2 * alone["retrans"] + 10, (flow, alone)
    assert alone["ms"] / 1.5 <= flow["ms"] <= 1.5 * alone["ms"], (flow, alone)
    reported(flow, alone)


def reported(flow, alone):
    """TCP_CC_INFO of ours: growth the policy's or not, its number, RTT and RTT_min in us."""
    assert flow["cc_info_bytes"] == alone["cc_info_bytes"] == 16
    enabled, count, rtt_us, min_rtt_us = flow["cc_info"]
    assert enabled == alone["cc_info"][0]
    assert count <= 2 * alone["cc_info"][1] + 10, (flow, alone)
    for value, usual in zip((rtt_us, min_rtt_us), alone["cc_info"][2:]):
        assert usual / 2 <= value <= 2 * usual, (flow, alone)


def test_the_kernel_log_has_no_warnings(flows):
    """bbr finds modes it has not in bytes that are not its; nobody else says a word."""
    warnings = re.findall(r"(?:WARNING|BUG|Oops|UBSAN|general protection).*", flows["dmesg"])
    assert [line for line in warnings if "net/ipv4/tcp_bbr.c" not in line] == []


def test_the_flows_did_lose_packets(flows):
    """Or ssthresh of the pairs above would have been nobody's decision."""
    for route in OURS:
        assert flows[f"{route}.alone"]["retrans"] > 0
        assert flows[f"{route}.alone"]["ssthresh"] < INFINITE


# -- a policy that nobody replaces ------------------------------------------------

FIRST_FLIGHT = 14_000           # bytes; with those of the SYN ten segments


@pytest.fixture(scope="module")
def starts(lab):
    """(policy, how it was selected) -> what its flow of one flight reported."""
    # The first flow of a guest is slower.
    lines = [f"route; ip netns exec sender ./fastopen 192.0.2.6 5000 - 1 {FIRST_FLIGHT} > /dev/null",
             "sleep 0.5"]
    for policy in OURS:
        for how, route, option in (("route", policy, "-"), ("option", "", policy)):
            lines += [f"route {route}", f"ip netns exec sender ./fastopen 192.0.2.6 5000 {option} 1 "
                      f"{FIRST_FLIGHT} > /run/out/{policy}.{how}", "sleep 0.5"]
    files = played(lab, "starts", "\n".join(lines))
    return {(policy, how): json.loads(files[f"{policy}.{how}"])
            for policy in OURS for how in ("route", "option")}


@pytest.mark.parametrize("policy", OURS)
def test_a_policy_selected_in_syn_sent_starts_as_that_of_the_route(starts, policy):
    """The kernel runs its init() in SYN_SENT, with an MSS of 536 and no RTT, and not again."""
    flow, usual = starts[policy, "option"], starts[policy, "route"]
    assert (flow["deferred"], flow["set"], flow["used"], usual["used"]) == (1, policy, policy, policy)
    assert flow["acked"] >= FIRST_FLIGHT
    assert abs(flow["ms"] - usual["ms"]) < RTT_MS / 2, (flow, usual)
    assert flow["cwnd_max"] == usual["cwnd_max"], (flow, usual)


# -- what is left behind --------------------------------------------------------

def objects(text):
    """Objects in use by kmalloc cache, of /proc/slabinfo."""
    return {name: int(count) for name, count in re.findall(r"^(kmalloc-\S+)\s+(\d+)", text, re.M)}


def leaks_script(pairs):
    lines = []
    for route, before in pairs:
        send = f"ip netns exec sender ./fastopen 192.0.2.6 5000 {before}"
        lines += [f"echo {route} after {before}", f"route {route}",
                  f"{send} 8 100 > /dev/null", "sleep 1",
                  f"cat /proc/slabinfo > /run/out/before.{route}.{before}",
                  f"{send} {SOCKETS} 100 > /run/out/account.{route}.{before}", "sleep 1",
                  f"cat /proc/slabinfo > /run/out/after.{route}.{before}"]
    lines += ["route", "sleep 1"]
    lines += [f"cat /sys/module/tcp_{name}/refcnt > /run/out/refcnt.{name}" for name in OURS]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def leaks(lab):
    @functools.cache
    def of(pairs):
        return {name: text.decode() for name, text in played(lab, "leaks", leaks_script(pairs)).items()}
    return of


@pytest.mark.long
@pytest.mark.parametrize("route, before", PAIRS)
def test_nothing_is_left_behind(leaks, route, before):
    """Of hundreds of sockets, half of them closed before they were established."""
    files = leaks(PAIRS)
    account = json.loads(files[f"account.{route}.{before}"])
    assert (account["deferred"], account["set"], account["used"]) == (SOCKETS, before, route)
    was, now = (objects(files[f"{when}.{route}.{before}"]) for when in ("before", "after"))
    grown = {name: now[name] - was[name] for name in was if now[name] - was[name] > LEAKED}
    assert not grown, f"{route} after {before}: objects more after {SOCKETS} sockets: {grown}"


@pytest.mark.parametrize("pairs", [tuple(zip(OURS, OURS[1:] + OURS[:1])), long(PAIRS)],
                         ids=["each policy twice", "all"])
def test_no_module_is_held(leaks, pairs):
    files = leaks(pairs)
    assert {name: int(files[f"refcnt.{name}"]) for name in OURS} == dict.fromkeys(OURS, 0)


# -- another reference the kernel loses ------------------------------------------

REFUSED = 7
# References the kernel keeps of REFUSED writes. When this fails the kernel has been mended: change
# it here, and modules/patches/README.md with it.
KEPT = {"6.1": REFUSED, "6.12": 0}


def test_refused_writes_of_the_default_hold_the_module_on_kernels_not_mended(lab):
    """A namespace may not have a policy that is not allowed for its default: the second patch."""
    write = "ip netns exec sender sysctl -q -w net.ipv4.tcp_congestion_control=ibk"
    script = "cat /sys/module/tcp_ibk/refcnt > /run/out/before\n" + \
        f"if {write} 2>> /run/out/said; then exit 1; fi\n" * REFUSED + \
        "cat /sys/module/tcp_ibk/refcnt > /run/out/after\n" \
        "if rmmod tcp_ibk; then echo 1; else echo 0; fi > /run/out/unloaded"
    files = played(lab, "refused", script)
    assert files["said"].count(b"not permitted") == REFUSED, files["said"]
    kept = int(files["after"]) - int(files["before"])
    assert (kept, int(files["unloaded"])) == (KEPT[KERNEL], not KEPT[KERNEL])
