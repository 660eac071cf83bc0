# SPDX-License-Identifier: GPL-2.0
"""satcc(8) has every option, finding and series; the unit calls commands that exist."""

import configparser
import os
import re
import shutil
import subprocess

import pytest

from selftests.operate.net import SATCC, TOP, run
from tools.satcc_operate import cli, doctor, fib, follow, metrics, route

MANUAL = (TOP / "tools/satcc.8").read_text()
UNIT = TOP / "tools/satcc-routes.service"
COMMANDS = ("status", "set", "load", "unload", "list", "route add", "route del", "route list",
            "route flush", "route save",
            "route restore", "route follow", "doctor", "tune", "metrics", "choose")


def options_of(text):
    entries = re.findall(r"^  (-.*?)(?:  |$)", text, re.M)
    return set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", " ".join(entries)))


def test_every_option_is_in_the_manual():
    described = {"-" + words.replace("Fl ", "-") for words in re.findall(
        r"Fl ((?:Fl )?[a-z][a-z-]*)", MANUAL)}
    offered = set()
    for command in COMMANDS:
        offered |= options_of(run(SATCC, *command.split(), "--help").stdout)
    assert described == offered


def test_every_command_has_examples():
    for command in COMMANDS:
        text = run(SATCC, *command.split(), "--help").stdout
        assert re.search(r"^examples:\n  satcc ", text, re.M), command


def test_every_finding_is_in_the_manual():
    program = (TOP / "tools/satcc_operate/doctor.py").read_text()
    names = {*re.findall(r'Finding\("([a-z-]+)"', program), "default-not-in-force",
             "allowed-not-in-force", *(finding for finding, _ in doctor.NEEDED.values())}
    section = MANUAL.split(".Ss satcc doctor")[1].split(".Ss")[0]
    listed = {name for line in re.findall(r"^\.It Sy (.*)$", section, re.M)
              for name in line.split(" , ")}
    assert listed == names


def test_every_series_and_number_is_in_the_manual():
    names = set(re.findall(r"satcc_[a-z_]+", MANUAL)) - {"satcc_log"}       # a module
    assert names == set(metrics.HELP)
    assert f"protocol number {fib.PROTOCOL}" in " ".join(MANUAL.split())
    assert f"table {fib.FIRST_TABLE} + N" in MANUAL and f"/{route.STORE}" in MANUAL


def test_which_route_a_daemon_may_replace_is_in_the_manual():
    """test_a_daemon_that_replaces_its_route_after_satcc tests that the kernel does this."""
    assert "is for IPv4 and has the metric 0, a DHCP client" in " ".join(MANUAL.split())


def test_the_manual_is_well_formed():
    done = subprocess.run(["groff", "-mandoc", "-Tutf8", "-ww", "-b", "-z", TOP / "tools/satcc.8"],
                          text=True, capture_output=True, check=True)
    assert done.stderr == ""


def test_the_unit_calls_commands_that_exist():
    unit = configparser.ConfigParser()
    unit.optionxform = str
    unit.read(UNIT)
    for name, function in (("ExecStart", follow.run), ("ExecStopPost", route.flush)):
        program, *words = unit["Service"][name].split()
        assert program == "/usr/local/sbin/satcc"
        assert cli.arguments_parser().parse_args(words).function is function
    assert unit["Unit"]["ConditionPathExists"] == f"/{route.STORE}"
    assert "network-online.target" in unit["Unit"]["After"]


def test_a_link_finds_the_program(tmp_path):
    """The unit's comment links satcc into the PATH."""
    (tmp_path / "satcc").symlink_to(SATCC)
    assert run(tmp_path / "satcc", "--help").stdout.startswith("usage: satcc")


def test_systemd_takes_the_unit(tmp_path):
    if not shutil.which("systemd-analyze"):
        if os.environ.get("EXPECT_ALL") == "1":
            pytest.fail("no systemd-analyze")
        pytest.skip("no systemd-analyze")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/local/sbin/satcc", str(SATCC)))
    done = run("systemd-analyze", "verify", "--man=no", copy, check=False)
    assert [line for line in done.stderr.splitlines() if UNIT.name in line] == []
