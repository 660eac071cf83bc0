# SPDX-License-Identifier: GPL-2.0
"""satcc choose: advice that has the figures of bench/RESULTS.md, and a path that iperf3 measures.

selftests/bench/test_figures.py compares the shipped figures with the page.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time

import pytest

from selftests.operate.net import SATCC, TOP, run
from tools.satcc_operate import choose, cli, host, policies, probe
from tools.satcc_operate.host import Host, OperateError

UNFAIR = "leaves cubic less than cubic does"
GEO = ("--rate", "10mbit", "--rtt", "600ms")
PAGE = (TOP / "bench/RESULTS.md").read_text()


def satcc(*words, check=False):
    return run(sys.executable, SATCC, "choose", *words, check=check)


def advice(*words):
    return json.loads(satcc(*words, "--json", check=True).stdout)


def cells(name, label, under="<!-- table: "):
    """The cells of a policy's row in a table of the page, below a line of it."""
    text = "<!-- table: " + PAGE.partition(f"<!-- table: {name} -->")[2]
    row = re.search(rf"^\| {re.escape(label)} ?\|(.*)\|$", text.partition(under)[2], re.M)[1]
    return [cell.strip() for cell in row.split("|")]


def slower_cubic():
    """Goodput and percent of an even share of the slower of two cubic flows, from the page."""
    _, slower_mbit, share_pct = cells("beside", "cubic")[4:7]
    return float(slower_mbit), int(share_pct)


# ---- what the figures say --------------------------------------------------

@pytest.mark.parametrize("words, under", [(("--rate", "2mbit", "--rtt", "600ms"), "**2 Mbit/s**"),
                                          (GEO, "**10 Mbit/s**")])
@pytest.mark.parametrize("loss, column", [("0", -2), ("1", -1)])
def test_the_figures_are_the_pages(words, under, loss, column):
    state = advice(*words, "--loss", loss)
    assert state["is_measured"] and state["outside"] == []
    assert len(state["figures"]) > 10
    for row in state["figures"]:
        label = re.sub(r" (\S+)$", r" `\1`", row["policy"])
        mine = cells("links", label, under)
        assert (row["transfer_s"], row["goodput_mbit"]) == (float(mine[1]), float(mine[column]))
        assert row["rival_mbit"] == float(cells("beside", label)[5])
        assert row["share_pct"] == int(cells("beside", label)[6])
    assert state["nearest"]["source"]["commit"] in PAGE


def test_the_choice_is_the_best_that_leaves_others_their_share():
    state = advice(*GEO, "--loss", "1")
    rows = {row["policy"]: row for row in state["figures"]}
    assert state["policy"] == "satcc"
    assert [name for name, row in rows.items() if row["against"] is None] == ["satcc"]
    unfair = {name for name, row in rows.items() if row["against"] == UNFAIR}
    assert unfair == {name for name, row in rows.items()
                      if row["share_pct"] < 0.95 * slower_cubic()[1]} and "hybla_full" in unfair
    alone = advice(*GEO, "--loss", "1", "--cross", "none")
    assert UNFAIR not in [row["against"] for row in alone["figures"]]


def planted(monkeypatch, tmp_path, change):
    """The choice between two policies that are even and a slow rival, with figures that are changed."""
    even = {"goodput_mbit": {"1": 8}, "transfer_s": {"1000000": 3}, "drops": 2}
    data = json.loads(choose.FIGURES.read_text())
    data["alone"][1]["policies"] = {"satcc": {**even, "drops": 1}, "mtsi": even,
                                    "cubic": {**even, "goodput_mbit": {"1": 1}}}
    for link in data["beside"]:
        link["policies"] = {policy: {"own_mbit": 5, "rival_mbit": 5, "share_pct": 80, "drops": 0}
                            for policy in ("satcc", "mtsi", "cubic")}
        link["policies"]["cubic"] = {"own_mbit": 6, "rival_mbit": 4, "drops": 0, "share_pct": 80}
    change(data["alone"][1]["policies"]["satcc"], data["beside"][1]["policies"]["satcc"])
    (tmp_path / "figures.json").write_text(json.dumps(data))
    monkeypatch.setattr(choose, "FIGURES", tmp_path / "figures.json")
    path = {"rate_mbit": 10, "rtt_ms": 600, "loss_pct": 1, "cross": "cubic", "probe": None}
    state = choose.advice(path)
    return state["policy"], {row["policy"]: row["against"] for row in state["figures"]}


@pytest.mark.parametrize("key, value, against", [
    ("goodput_mbit", {"1": 7.7}, None), ("goodput_mbit", {"1": 7.5}, "less goodput"),
    ("transfer_s", {"1000000": 3.1}, None), ("transfer_s", {"1000000": 3.2}, "slower transfer"),
    ("drops", 1, None), ("drops", 3, "more drops")])
def test_equal_figures_do_not_decide(monkeypatch, tmp_path, key, value, against):
    """Within 5 % of the best; then the drops.  Nothing in the program names a policy to choose."""
    policy, reasons = planted(monkeypatch, tmp_path, lambda mine, _: mine.update({key: value}))
    assert (policy, reasons["satcc"]) == ("mtsi" if against else "satcc", against)
    assert reasons["cubic"] == "less goodput" and reasons[policy] is None


@pytest.mark.parametrize("share, against", [(76, None), (75, UNFAIR)])
def test_a_policy_that_takes_from_others_is_not_chosen(monkeypatch, tmp_path, share, against):
    """The slower of two cubic flows has 80 % of an equal share; up to 5 % less is equal."""
    policy, reasons = planted(monkeypatch, tmp_path, lambda _, mine: mine.update(share_pct=share))
    assert (policy, reasons["satcc"]) == ("mtsi" if against else "satcc", against)


def test_cost_to_others():
    state = advice(*GEO)
    mine, (slower_mbit, slower_pct) = cells("beside", state["policy"]), slower_cubic()
    cost = state["cost"]
    assert [cost["own_mbit"], cost["rival_mbit"], cost["share_pct"]] == [
        float(mine[4]), float(mine[5]), int(mine[6])]
    assert (cost["rival_beside_rival_mbit"], cost["rival_beside_rival_pct"]) == (slower_mbit, slower_pct)
    text = satcc(*GEO, check=True).stdout
    assert (f"cost: at 10 Mbit/s, 250 ms a cubic flow beside it gets {float(mine[5]):g} Mbit/s, "
            f"{mine[6]} % of its share; the slower of two cubic flows gets {slower_mbit:g} Mbit/s, "
            f"{slower_pct} %\n") in text


def test_the_command_that_repeats_the_figures():
    state, text = advice(*GEO), satcc(*GEO, check=True).stdout
    for source in (state["nearest"]["source"], state["cost"]["source"]):
        assert f"git checkout {source['commit']} && {source['command']}" in state["repeat"]
        assert f"{source['command']}, Linux {source['kernel']}" in text and source["seeds"] in text
    make = (TOP / "Makefile").read_text()
    for line in state["repeat"]:
        assert re.search(rf"^{line.split('make ')[1].split()[0]}:", make, re.M), line
        commit = line.split()[2]
        assert f"commit {commit}" in PAGE


def test_the_caution_is_the_readmes():
    plain = " ".join((TOP / "README.md").read_text().split())
    assert choose.CAUTIONS["satcc"].replace("do not use it", "Do not use `satcc`") in plain
    caution, = advice(*GEO)["cautions"]
    assert caution.startswith("do not use it where other flows share a policer")
    assert choose.cautions("hybla_full iw_rho=1") == [f"it {policies.LOUD['hybla_full']}"]


# ---- the nearest link ------------------------------------------------------

@pytest.mark.parametrize("words, near, outside", [
    (("--rate", "12mbit", "--rtt", "580ms"), (10, 600, 0), 0),
    (("--rate", "3mbit", "--rtt", "600ms", "--loss", "0.5%"), (2, 600, 1), 0),
    (("--rate", "3mbit", "--rtt", "600ms", "--loss", "0.05"), (2, 600, 0), 0),
    (("--rate", "50mbit", "--rtt", "600ms", "--loss", "1"), (100, 520, 1), 0),
    (("--rate", "1gbit", "--rtt", "30ms"), (100, 520, 0.1), 3),
    (("--rate", "9.5mbit", "--rtt", "640ms", "--loss", "3"), (10, 600, 1), 1)])
def test_text_warns_about_a_path_outside_the_measured_range(words, near, outside):
    state, text = advice(*words), satcc(*words, check=True).stdout
    nearest = state["nearest"]
    assert (nearest["rate_mbit"], nearest["rtt_ms"], nearest["loss_pct"]) == near
    assert not state["is_measured"] and len(state["outside"]) == outside
    assert f"\nnearest measured link: {near[0]} Mbit/s, {near[1]} ms, " in text
    assert text.count("\noutside: ") == outside
    assert (" (the path is outside of the measured range)\n" in text) == bool(outside)


def test_text_names_a_measured_link():
    text = satcc(*GEO, "--loss", "1", check=True).stdout
    assert "\nmeasured link: 10 Mbit/s, 600 ms, 1 % loss, queue of 1 " in text and "outside" not in text


def test_unmeasured_policies_are_listed():
    state = advice("--rate", "100mbit", "--rtt", "520ms", "--loss", "1")
    there = cells("long", "")
    assert "bbr" in there
    assert state["not_measured"] == [policy for policy in policies.POLICIES if policy not in there]
    assert state["policy"] in there


def test_next_commands_are_the_programs():
    for line in choose.next_commands("satcc", {"rate_mbit": 10.0, "rtt_ms": 600.0}):
        words = line.replace("PREFIX", "203.0.113.0/24").split()
        assert words[0] == "satcc" and cli.arguments_parser().parse_args(words[1:]).function
    assert choose.next_commands("hybla_full iw_rho=1", {"rate_mbit": 1, "rtt_ms": 1})[0] == (
        "echo options tcp_hybla_full iw_rho=1 >> /etc/modprobe.d/satcc.conf")


# ---- refusals --------------------------------------------------------------

@pytest.mark.parametrize("words, reason", [
    ((), "choose needs --rate and --rtt, --probe HOST, or"), (("--rate", "10mbit"), "choose needs"),
    ((*GEO, "--loss", "100"), "100 is not a percentage"), ((*GEO, "--loss", "nan"), "nan is not"),
    ((*GEO, "--loss", "-1"), "-1 is not"), ((*GEO, "--cross", "bbr"), "invalid choice"),
    (("--rate", "10", "--rtt", "1s"), "10 is not a number above 0 with a unit"),
    (("--probe", "192.0.2.1", "--port", "0"), "0 is not a port")])
def test_usage(words, reason):
    done = satcc(*words)
    assert done.returncode == 2 and done.stdout == "" and reason in done.stderr.splitlines()[-1]


def test_nothing_is_changed(net):
    """It only prints: no route, no sysctl."""
    before = net.everything()
    net.satcc("choose", *GEO, check=True)
    assert net.everything() == before


# ---- the probe -------------------------------------------------------------

# Recorded with iperf3 3.12; without members that are not read.
RECORDED = {
    "start": {"tcp_mss_default": 1448},
    "end": {"streams": [{"sender": {"min_rtt": 601234, "max_rtt": 1200000, "bytes": 14480000}}],
            "sum_sent": {"bytes": 14480000, "retransmits": 101, "bits_per_second": 11000000.0},
            "sum_received": {"bytes": 14000000, "bits_per_second": 9123456.0},
            "sender_tcp_congestion": "bbr"}}


def test_figures_are_read_from_iperf3():
    assert probe.figures(RECORDED) == {"way": "iperf3", "policy": "bbr", "rate_mbit": 9.12,
                                       "rtt_ms": 601.234, "loss_pct": 1.0, "delivery_mbit": None,
                                       "start": None}


def test_an_error_of_iperf3_is_handed_on():
    with pytest.raises(OperateError, match="^iperf3: unable to connect$"):
        probe.figures({"start": {}, "end": {}, "error": "unable to connect"})


@pytest.mark.parametrize("available, policy", [("reno cubic satcc bbr", "satcc"), ("reno bbr", "bbr"),
                                               ("reno", None)])
def test_the_policy_that_probes(tmp_path, available, policy):
    (tmp_path / "proc/sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "proc/sys/net/ipv4/tcp_available_congestion_control").write_text(available)
    words = probe.command(Host(tmp_path), "192.0.2.1", 5201, 10)
    assert words[1:4] == ["-J", "-c", "192.0.2.1"]
    assert words[words.index("-C") + 1] == policy if policy else "-C" not in words


def fake_iperf3(folder, text, status=0):
    folder.mkdir()
    script = f"#!/bin/sh\ncat <<'EOF'\n{text}\nEOF\necho oops >&2\nexit {status}\n"
    (folder / "iperf3").write_text(script)
    (folder / "iperf3").chmod(0o755)
    return folder


def test_given_values_override_measured_ones(net, tmp_path):
    folder = fake_iperf3(tmp_path / "bin", json.dumps(RECORDED))
    words = ("choose", "--probe", "192.0.2.2")
    path = net.satcc_json(*words, path=folder)["path"]
    assert (path["rate_mbit"], path["rtt_ms"], path["loss_pct"]) == (9.12, 601.234, 1.0)
    path = net.satcc_json(*words, "--rate", "20mbit", "--loss", "0", path=folder)["path"]
    assert (path["rate_mbit"], path["rtt_ms"], path["loss_pct"]) == (20, 601.234, 0)
    text = net.satcc(*words, path=folder, check=True).stdout
    assert "\nmeasured by: iperf3 -J -c 192.0.2.2 -p 5201 " in text
    assert "\nnote: the rate is that of one bbr flow" in text


@pytest.mark.parametrize("text, status", [("no JSON", 0), ("{}", 1), ('{"end": {}}', 0)])
def test_an_answer_that_has_no_figures_is_a_line(net, tmp_path, text, status):
    folder = fake_iperf3(tmp_path / "bin", text, status)
    done = net.satcc("choose", "--probe", "192.0.2.2", path=folder)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("satcc: iperf3 -J -c 192.0.2.2 ") and done.stderr.endswith(": oops\n")
    assert done.stderr.count("\n") == 1


def test_without_iperf3(monkeypatch, capsys):
    monkeypatch.setattr(host.subprocess, "run", lambda *words, **more: open("/nosuch/iperf3"))
    assert cli.main(["choose", "--probe", "192.0.2.2"]) == 1
    assert capsys.readouterr().err == (
        "satcc: cannot run iperf3: No such file or directory: install the package iperf3, or give "
        "--probe-url, or --rate, --rtt and --loss\n")


@contextlib.contextmanager
def server(net):
    """iperf3 in the receiver's namespace, listening, for one test."""
    process = subprocess.Popen(["ip", "netns", "exec", net.receiver, "iperf3", "-s", "-1"],
                               stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while ":5201" not in run("ip", "netns", "exec", net.receiver, "ss", "-tlnH").stdout:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def iperf3():
    if not shutil.which("iperf3"):
        pytest.fail("no iperf3: tools/setup check")


def test_a_live_path_is_measured(net, iperf3):
    """A bucket filter gives the path its rate: its figures are the kernel's doing."""
    run("ip", "netns", "exec", net.sender, "tc", "qdisc", "add", "dev", "v0", "root", "tbf",
        "rate", "8mbit", "burst", "20000", "limit", "4000000")
    with server(net):
        state = net.satcc_json("choose", "--probe", "192.0.2.2", "--seconds", "2")
    path = state["path"]
    assert 6.4 < path["rate_mbit"] < 8 and path["loss_pct"] < 1
    assert path["rtt_ms"] > 0 and path["probe"]["policy"] in probe.PROBING
    assert state["nearest"]["rate_mbit"] == 10 and state["outside"]


def test_a_host_without_a_server_is_a_line(net, iperf3):
    done = net.satcc("choose", "--probe", "192.0.2.2")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "satcc: iperf3: unable to connect to server: Connection refused\n"
