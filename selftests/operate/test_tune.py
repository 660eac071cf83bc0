# SPDX-License-Identifier: GPL-2.0
"""satcc tune: the sums, and sysctls of a namespace that are set and set back."""

import json
import os
import shlex

import pytest

from tools.satcc_operate import tune
from tools.satcc_operate.host import Host, OperateError

PATH = ("--rate", "10mbit", "--rtt", "600ms")
NAMES = (tune.WMEM, tune.RMEM, tune.IDLE, tune.LOWAT)


@pytest.fixture
def host(net, tmp_path):
    """A namespace with the kernel's own values, and /etc of the test's own."""
    net.root = tmp_path
    (tmp_path / "proc").symlink_to("/proc")
    for name, value in zip(NAMES, ("4096 16384 4194304", "4096 131072 6291456", "1", "4294967295")):
        net.set_sysctl(name, value)
    return net


def in_force(net):
    return {name: " ".join(net.sysctl(name)) for name in NAMES}


# ---- the sums --------------------------------------------------------------

def test_quantities():
    assert tune.quantity("10mbit", tune.UNITS) == 10e6
    assert tune.quantity("1.5Gbit", tune.UNITS) == 1.5e9
    assert tune.quantity("600ms", tune.TIMES) == tune.quantity("0.6s", tune.TIMES) == 0.6


@pytest.mark.parametrize("text", ["", "10", "0mbit", "-1mbit", "10mbps", "mbit", "1e3mbit",
                                  "9999999gbit"])
def test_bad_quantities(text):
    with pytest.raises(ValueError):
        tune.quantity(text, tune.UNITS)


def test_the_buffer_holds_four_times_the_window():
    """10 Mbit/s, 600 ms: 750000 bytes; twice that is 1036 segments of 2304 bytes of memory."""
    assert tune.bdp(10e6, 0.6) == 750000
    assert tune.buffer_maximum(10e6, 0.6, 1) == 4 * 1036 * 2304
    assert tune.buffer_maximum(10e6, 0.6, 4) == 4 * 259 * 2304
    assert tune.buffer_maximum(1e12, 10, 1) == 2 ** 31 - 1


@pytest.mark.parametrize("rate, rtt, flows, packets", [
    (1e6, 0.6, 1, 10), (5e6, 0.6, 1, 25), (10e6, 0.6, 1, 32), (10e6, 0.6, 3, 17)])
def test_the_initial_window_is_a_tenth_of_the_path(rate, rtt, flows, packets):
    assert tune.initial_window(rate, rtt, flows) == packets


def test_no_maximum_is_lowered():
    assert tune.larger_maximum("4096 16384 4194304", 5000000) == "4096 16384 5000000"
    assert tune.larger_maximum("4096 16384 4194304", 4000000) == "4096 16384 4194304"


def test_the_far_end():
    """64 kB at 600 ms is 0.874 Mbit/s; 1.5 MB are reached by five doublings."""
    note, = tune.far_end(10e6, 0.6, 1)
    assert "64 kB first, 0.874 Mbit/s" in note and "after 5 RTTs" in note
    _, second = tune.far_end(100e6, 0.6, 1)
    assert "limits a connection to 41.9 Mbit/s" in second
    assert "after 0 RTTs" in tune.far_end(1e6, 0.01, 1)[0]


# ---- the namespace ---------------------------------------------------------

def test_a_dry_run_changes_nothing_and_is_a_file_for_sysctl(host, tmp_path):
    before = in_force(host)
    text = host.satcc("tune", *PATH, check=True).stdout
    assert in_force(host) == before and not (tmp_path / "etc").exists()
    settings = dict(line.split(" = ") for line in text.splitlines() if not line.startswith("#"))
    assert settings == {tune.WMEM: "4096 16384 9547776", tune.RMEM: "4096 131072 9547776",
                        tune.IDLE: "0", tune.LOWAT: "131072"}
    assert "--initcwnd 32" in text and "fq is not needed" in text
    state = host.satcc_json("tune", *PATH)
    assert {each["name"]: each["value"] for each in state["sysctls"]} == settings
    assert {each["name"]: each["now"] for each in state["sysctls"]} == before
    assert state["initcwnd"] == 32 and state["bdp_bytes"] == 750000


def test_apply_and_undo(host, tmp_path):
    before = in_force(host)
    host.satcc("tune", *PATH, "--apply", check=True)
    assert in_force(host) == {tune.WMEM: "4096 16384 9547776", tune.RMEM: "4096 131072 9547776",
                              tune.IDLE: "0", tune.LOWAT: "131072"}
    assert host.satcc_json("tune", *PATH, "--apply") == {"set": {}}
    host.satcc("tune", "--undo", check=True)
    assert in_force(host) == before
    assert list((tmp_path / "etc/satcc").iterdir()) == []
    assert host.satcc("tune", "--undo", check=True).stdout == "nothing to undo since this boot\n"


def test_a_dry_run_of_apply_and_undo_prints_their_commands(host, tmp_path):
    """Typed, they leave nothing to do."""
    before = in_force(host)

    def type_dry_run(*words):
        state = in_force(host)
        lines = host.satcc("tune", *words, "--dry-run", check=True).stdout.splitlines()
        assert in_force(host) == state
        assert host.satcc_json("tune", *words, "--dry-run") == {"changed": False, "commands": lines}
        for line in lines:
            program, option, setting = shlex.split(line)
            assert (program, option) == ("sysctl", "-w")
            host.set_sysctl(*setting.split("=", 1))
    assert host.satcc("tune", "--undo", "--dry-run").stdout == "nothing to undo since this boot\n"
    type_dry_run(*PATH, "--apply")
    assert not (tmp_path / "etc").exists()
    assert host.satcc_json("tune", *PATH, "--apply") == {"set": {}} and in_force(host) != before
    for name, value in before.items():
        host.set_sysctl(name, value)
    host.satcc("tune", *PATH, "--apply", check=True)
    type_dry_run("--undo")
    assert in_force(host) == before


def test_undo_restores_the_values_before_the_first_apply(host):
    before = in_force(host)
    host.satcc("tune", "--rate", "100mbit", "--rtt", "600ms", "--apply", check=True)
    host.satcc("tune", *PATH, "--apply", check=True)
    assert in_force(host)[tune.WMEM] == "4096 16384 9547776"        # of the second path alone
    host.satcc("tune", "--undo", check=True)
    assert in_force(host) == before


def test_an_operators_smaller_backlog_is_kept(host):
    host.set_sysctl(tune.LOWAT, "16384")
    host.satcc("tune", *PATH, "--apply", check=True)
    assert in_force(host)[tune.LOWAT] == "16384"


def test_a_record_of_an_earlier_boot_is_not_set(host, tmp_path):
    host.satcc("tune", *PATH, "--apply", check=True)
    after = in_force(host)
    record = tmp_path / "etc/satcc/tune.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "boot": "another"}))
    assert host.satcc_json("tune", "--undo") == {"set": {}}
    assert in_force(host) == after and not record.exists()


def test_a_bad_record_is_one_line(host, tmp_path):
    (tmp_path / "etc/satcc").mkdir(parents=True)
    (tmp_path / "etc/satcc/tune.json").write_text("{}")
    done = host.satcc("tune", "--undo")
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "tune.json" in done.stderr


class Stubborn(Host):
    """A host on which one sysctl cannot be set."""

    def set_sysctl(self, name, value):
        if name == tune.IDLE:
            raise OperateError(f"cannot set {name}")
        super().set_sysctl(name, value)


def planted_sysctls(root):
    """Four files that stand in for the sysctls, and their texts."""
    values = {"tcp_wmem": "4096 16384 4194304", "tcp_rmem": "4096 131072 6291456",
              "tcp_slow_start_after_idle": "1", "tcp_notsent_lowat": "4294967295"}
    folder = root / "proc/sys/net/ipv4"
    folder.mkdir(parents=True)
    for name, value in values.items():
        (folder / name).write_text(value + "\n")
    return folder, values


def test_a_failure_leaves_nothing_half_done(tmp_path):
    """The third sysctl cannot be set: the first two are as before."""
    folder, values = planted_sysctls(tmp_path)
    host = Stubborn(tmp_path)
    with pytest.raises(OperateError, match="cannot set net.ipv4.tcp_slow_start_after_idle"):
        tune.apply(host, tune.wanted(host, 10e6, 0.6, 1))
    assert {name: (folder / name).read_text().strip() for name in values} == values


def test_memory_of_many_connections(tmp_path):
    folder, _ = planted_sysctls(tmp_path)
    (folder / "tcp_mem").write_text("100 200 3000\n")
    host, page = Host(tmp_path), os.sysconf("SC_PAGE_SIZE")
    assert tune.memory_note(host, {tune.WMEM: f"1 1 {1000 * page}"}, 3) is None
    assert tune.memory_note(host, {tune.WMEM: f"1 1 {1000 * page}"}, 4) == (
        f"4 connections may need {4000 * page} bytes, and net.ipv4.tcp_mem allows all of TCP "
        f"{3000 * page} bytes.")
    assert "# 4 connections may need" in tune.text(tune.advice(host, 100e6, 0.6, 4))


@pytest.mark.parametrize("words", [(), ("--rate", "10mbit"), ("--rtt", "1s"), ("--apply",),
                                   ("--rate", "10", "--rtt", "1s"), (*PATH, "--flows", "0"),
                                   (*PATH, "--apply", "--undo")])
def test_usage(net, words):
    assert net.satcc("tune", *words).returncode == 2
