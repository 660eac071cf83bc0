# SPDX-License-Identifier: GPL-2.0
"""The uses that tools/uses/ has a page of: cells of the experiments in bench/scenarios/uses/."""

import copy
import re
import statistics

import pytest

from bench.lab.play import Lab
from bench.papers import cell, experiment, plan
from bench.scenario.scenario import FIRST_PORT, from_dict
from selftests.conftest import KERNEL

pytestmark = [pytest.mark.lab, pytest.mark.long]
EXPERIMENTS = {one.name: one for one in experiment.load_all(["uses"])}


@pytest.fixture(scope="module")
def uses():
    return Lab(KERNEL, plan.extras(list(EXPERIMENTS.values())))


@pytest.fixture(scope="module")
def play(uses):
    """Play the cell of an experiment that has these labels: its value and its run."""
    def played(name, labels, seed=0):
        one, = EXPERIMENTS[name].matching(labels)
        return cell.value_of(uses, EXPERIMENTS[name], one, seed)
    return played


def ended_with(run, number=0):
    """The congestion control of a flow's socket, as the kernel said at its end."""
    return run.json(f"flow-{number}.json")["cc"]


def test_a_proxy_cannot_help_in_a_tunnel_and_satcc_does(play):
    def proxied(traffic, tcp):
        return play("wireguard", {"traffic": traffic, "provider's proxy": "yes", "TCP": tcp})
    split, outside = proxied("no tunnel", "cubic")
    theirs, cubic = proxied("WireGuard", "cubic")
    ours, satcc = proxied("WireGuard", "satcc")
    assert (ended_with(cubic), ended_with(satcc)) == ("cubic", "satcc")
    assert outside.json("flow-0.json")["min_rtt"] < 15_000         # the proxy is its peer
    for run in (cubic, satcc):
        info = run.json("flow-0.json")
        assert info["min_rtt"] >= 600_000 and info["snd_mss"] == 1420 - 52
    assert split > 2 * theirs
    assert ours > 2 * theirs


def test_a_route_into_the_tunnel_has_the_policy(uses):
    """No socket asks for it, and the host's default is cubic."""
    one, = EXPERIMENTS["wireguard"].matching(
        {"traffic": "WireGuard", "provider's proxy": "no", "TCP": "satcc"})
    table = copy.deepcopy(one.table)
    table["flow"][0] = {"cc": "satcc", "routed": True, "bytes": 50_000}
    table["commands"] = []
    before = table["before"]
    number, = [n for n, line in enumerate(before) if line.startswith("in_ns sender ip route add")]
    before[number] += " congctl satcc"
    run = uses.run(from_dict({"title": "test", **table}))
    info = run.json("flow-0.json")
    assert info["first_cc"] == info["cc"] == "satcc"
    assert info["snd_mss"] == 1420 - 52 and info["bytes_acked"] >= 50_000


@pytest.mark.parametrize("qdisc", ["none", "pfifo", "fq_codel", "fq"])
def test_fq_is_not_needed(play, qdisc):
    with_fq, _ = play("qdisc-lossy", {"TCP": "satcc", "sender's qdisc": "fq"})
    value, run = play("qdisc-lossy", {"TCP": "satcc", "sender's qdisc": qdisc})
    kinds = [one["kind"] for one in run.json("qdisc-of-sender.json")]
    assert kinds == ["noqueue" if qdisc == "none" else qdisc]
    assert ended_with(run) == "satcc"
    assert value == pytest.approx(with_fq, rel=0.2)


def test_a_file_server_has_the_policy_for_one_prefix(play):
    """The median of three seeds: one handshake in a hundred loses its SYN-ACK, which costs 1 s and the
    initial window."""
    def median_s(name, policy):
        plays = [play("files", {"route's TCP": name}, seed) for seed in range(3)]
        for _, run in plays:
            assert [ended_with(run, number) for number in (0, 1)] == [policy, "cubic"]
        return statistics.median(value for value, _ in plays)
    assert median_s("satcc", "satcc") < 0.8 * median_s("none: cubic, the default", "cubic")


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_a_split_proxy_has_the_policy_on_the_satellite(play, family):
    """The sender has cubic and meets the proxy; the proxy's socket toward the receiver has what its
    route says."""
    def at_proxy(name):
        value, run = play("proxy", {"addresses": family, "proxy's TCP": name})
        onward = [line for line in run.read("sockets-of-proxy").decode().splitlines()
                  if line.split()[4].endswith(f":{FIRST_PORT}")]
        assert len(onward) == 1 and re.search(rf"\b{name}\b", onward[0])
        assert ended_with(run) == "cubic" and run.json("flow-0.json")["min_rtt"] < 15_000
        return value
    assert at_proxy("satcc") > 2 * at_proxy("cubic")


def test_a_backhaul_of_ten(play):
    """More than ten of cubic get where packets are lost, and none of the ten starves."""
    ours, run = play("backhaul", {"TCP": "satcc"})
    theirs, _ = play("backhaul", {"TCP": "cubic"})
    fair, _ = play("backhaul-fairness", {"TCP": "satcc"})
    assert {ended_with(run, number) for number in range(10)} == {"satcc"}
    assert ended_with(run, 10) == "cubic"
    assert ours > 0.95 * theirs and fair > 0.5


# What works in a container, which has a network namespace: sender is one, and so are those that
# `unshare` makes, whose root is root of nothing else.
SYSCTL = "/proc/sys/net/ipv4/tcp"
USER = "su user -c 'flow send 192.0.2.10 5001 {} bytes 1000'"
ALONE = "unshare -U -r -n sh -c"
CONTAINER = [
    "try() { name=$1; shift; "
    "\"$@\" > answer 2>/dev/null && cp answer $OUT/can-$name || : > $OUT/cannot-$name; }",
    "echo 'user:x:1000:1000::/:/bin/sh' >> /etc/passwd",
    f"try set-sysctl in_ns sender sh -c 'echo satcc > {SYSCTL}_congestion_control'",
    f"try ask-as-user in_ns sender {USER.format('satcc')}",
    "try ask-as-root in_ns sender flow send 192.0.2.10 5001 satcc bytes 1000",
    f"try set-sysctl-alone {ALONE} 'echo satcc > {SYSCTL}_congestion_control'",
    f"echo 'reno cubic satcc' > {SYSCTL}_allowed_congestion_control",
    f"try ask-as-user-allowed in_ns sender {USER.format('satcc')}",
    f"try set-sysctl-alone-allowed {ALONE} 'echo satcc > {SYSCTL}_congestion_control'",
    f"try set-sysctl-alone-unloaded {ALONE} 'echo ibk > {SYSCTL}_congestion_control'",
    f"try set-sysctl-allowed in_ns sender sh -c 'echo satcc > {SYSCTL}_congestion_control'",
    f"in_ns sender sh -c 'echo cubic > {SYSCTL}_congestion_control'",
    f"echo satcc > {SYSCTL}_congestion_control",
    f"try read-running in_ns sender cat {SYSCTL}_congestion_control",
    f"try read-later {ALONE} 'cat {SYSCTL}_congestion_control'",
    f"echo cubic > {SYSCTL}_congestion_control",
    f"echo 'reno cubic' > {SYSCTL}_allowed_congestion_control",
    "in_ns sender ip route replace 192.0.2.10 via 192.0.2.2 dev right congctl satcc",
    f"try leave-it-to-the-route in_ns sender {USER.format('-')}",
]


def test_what_works_in_a_container(lab, geo):
    run = lab.run(geo("satcc", rtt_ms=20, bytes=1000, flow={"routed": True}, capture=False, trace=[],
                      before=CONTAINER))
    assert ended_with(run) == "satcc"
    can = {path.name.removeprefix("can-"): path.read_text() for path in run.folder.glob("can-*")}
    cannot = {path.name.removeprefix("cannot-") for path in run.folder.glob("cannot-*")}
    assert cannot == {"set-sysctl", "ask-as-user", "set-sysctl-alone", "set-sysctl-alone-unloaded"}
    assert set(can) == {"ask-as-root", "ask-as-user-allowed", "set-sysctl-alone-allowed",
                        "set-sysctl-allowed", "read-running", "read-later", "leave-it-to-the-route"}
    assert (can["read-running"], can["read-later"]) == ("cubic\n", "satcc\n")
    for name in ("ask-as-root", "ask-as-user-allowed", "leave-it-to-the-route"):
        assert '"cc":"satcc"' in can[name]
