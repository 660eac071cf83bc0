# SPDX-License-Identifier: GPL-2.0
"""Congestion controls that are not the project's: foreign/tcp_fixed.c and foreign/curve.bpf.c.

The kernel's headers and compiler build the module, and clang builds the object, as a user would.
"""

import dataclasses
import io
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bench.__main__ import main
from bench.compare import comparison, rows, tables, webpage
from bench.errors import LabError
from bench.lab import foreign, given, image, machine, packages
from bench.lab.play import Lab, run_all
from bench.measure import flow_view

KERNEL = os.environ.get("KERNEL") or "6.1"
SOURCES = Path(__file__).with_name("foreign")
GROWTH = 4                      # segments that the module adds per RTT
pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def module(foreign_module):
    """Build a module, with a file's name and the name that it registers, and return its path."""
    def made(file="fixed", registers="fixed"):
        return foreign_module("tcp_fixed", packages.kernel_release(KERNEL), f"tcp_{file}",
                              f"-DGROWTH={GROWTH} -DNAME='\"{registers}\"'")
    return made


@pytest.fixture(scope="module")
def object_(tmp_path_factory):
    def made(*flags, registers="curve"):
        path = tmp_path_factory.mktemp("object") / "curve.bpf.o"
        subprocess.run(["clang", "-target", "bpf", "-mcpu=v3", "-g", "-O2", "-Wall", "-Werror",
                        "-I/usr/include/x86_64-linux-gnu", f'-DNAME="{registers}"', *flags,
                        "-c", SOURCES / "curve.bpf.c", "-o", path], check=True)
        return path
    return made


def play(scenario, *given, ccs=()):
    return Lab(KERNEL, added=foreign.read(given, ccs, KERNEL)).run(scenario)


def test_a_module_grows_its_window(module, geo):
    """From ten segments on, each RTT has four segments more."""
    run = play(geo("fixed", rate_mbit=10, bytes=100_000), (foreign.MODULE, module()))
    assert run.json("flow-0.json")["cc"] == "fixed"
    assert run.meta["foreign"]["fixed"]["file"] == "tcp_fixed.ko"
    view = flow_view.FlowView(run)
    rounds = np.floor((view.segment_s - view.segment_s[0]) / 0.55).astype(int)
    assert np.bincount(rounds)[:4].tolist() == [10 + GROWTH * number for number in range(4)]


def test_an_object_reduces_its_window(object_, geo):
    """A queue of 20 packets overflows; ssthresh is then 0.7 of the window."""
    run = play(geo("curve", queue_packets=20, bytes=200_000), (foreign.OBJECT, object_()))
    assert run.json("flow-0.json")["cc"] == "curve"
    _, cwnd, ssthresh = flow_view.cwnd_series(run)
    first = np.flatnonzero(~np.isnan(ssthresh) & (ssthresh < 1 << 30))[0]
    assert ssthresh[first] == max(cwnd[:first]) * 7 // 10


def test_one_of_an_objects_two_congestion_controls_is_registered(object_, geo, tmp_path):
    """The one that --cc names; the loader asks for a name, if there is none."""
    path = object_("-DSECOND")
    for cc in ("flat", "curve"):
        names = "cat /proc/sys/net/ipv4/tcp_available_congestion_control > $OUT/available"
        run = play(geo(cc, bytes=100_000, after=[names]), (foreign.OBJECT, path), ccs=[cc])
        assert run.json("flow-0.json")["cc"] == cc
        assert len({"flat", "curve"} & set(run.read("available").decode().split())) == 1
    script = ("mount -t bpf none /sys/fs/bpf\n! ./satcc-bpf load curve.bpf.o 2> /run/out/said\n"
              "./satcc-bpf --map flat load curve.bpf.o\n./satcc-bpf list > /run/out/listed\n"
              "./satcc-bpf unload flat\n")
    files = machine.run_job(Lab(KERNEL).snapshot, {
        "run": script.encode(), "curve.bpf.o": path.read_bytes(),
        "satcc-bpf": image.build_helper("satcc-bpf").read_bytes()}, tmp_path / "console.log").files
    assert files["said"].decode() == ("satcc-bpf: curve.bpf.o has several congestion controls; "
                                      "name one: --map curve (or flat)\n")
    assert files["listed"].decode() == "flat BPF\n"


def test_both_play_beside_the_packs_own_by_one_command(module, object_, geo, tmp_path, capsys):
    """The command line, with a scenario of three flows."""
    file = tmp_path / "three.toml"
    flow = '[[flow]]\ncc = "cubic"\nbytes = 30_000\n'
    file.write_text('title = "three"\n[[hop]]\nname = "r"\n'
                    'forward = { rate_mbit = 2, queue_packets = 100 }\nreverse = { delay_ms = 20 }\n'
                    + 3 * flow)
    words = ["--kernel", KERNEL, "run", str(file), "--module", str(module()), "--bpf", str(object_()),
             "--cc", "curve,ibk,fixed"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert all(f"flow {number} {cc}: 30000 bytes in " in printed
               for number, cc in enumerate(("curve", "ibk", "fixed")))


def test_a_kernel_in_files_is_the_packaged_one(monkeypatch):
    """Its image has the same bytes, with the project's modules, whose headers apt has."""
    release = packages.kernel_release(KERNEL)
    tree = packages.kernel(release)
    monkeypatch.setattr(given, "_trees", {})
    files = f"{tree}/boot/vmlinuz-{release},{tree}/lib/modules/{release}"
    assert image.build(files).identity == image.build(KERNEL).identity
    assert given.tree_of(release) != tree


@pytest.mark.parametrize("file, registers, line", [
    ("other", "fixed", "the module for other registers no congestion control other, but fixed"),
    ("mine", "cubic", "the kernel refuses the module for mine: File exists "
                      "(TCP: cubic already registered")])
def test_a_module_that_does_not_register_the_name_is_one_line(module, geo, file, registers, line):
    with pytest.raises(LabError) as error:
        play(geo(file, bytes=100_000), (foreign.MODULE, module(file, registers)))
    assert str(error.value).startswith(f"satcc: failed: {line}")
    assert "; to repeat: python3 -m bench again " in str(error.value)


@pytest.mark.parametrize("flags, registers, line", [
    (["-DREFUSED"], "curve", "the verifier refuses the object for curve: "
                             "no write support to tcp_sock at off "),
    ([], "other", "the object for curve registers no congestion control curve, but other"),
    ([], "reno", "the object for curve cannot be loaded: the name reno is taken by the kernel"),
    (["-DSECOND"], "both", "the object for curve registers no congestion control curve, but both")])
def test_an_object_that_cannot_be_loaded_is_one_line(object_, geo, flags, registers, line):
    with pytest.raises(LabError) as error:
        play(geo("curve", bytes=100_000), (foreign.OBJECT, object_(*flags, registers=registers)))
    assert str(error.value).startswith(f"satcc: failed: {line}")
    assert str(error.value).count("\n") == 0


SHORT = """
title = "short"
links = ["geo-2mbit"]
transfers = [1_000_000]
bulk_seconds = 5
bulk_loss_pct = [0]
seeds = [1]
beside = { links = ["shared-40ms"], seconds = 2, seeds = [1], rival = "cubic" }
cost = { link = "geo-2mbit", seconds = 5, loss_pct = [0] }
log = { link = "geo-2mbit", cc = "cubic", bytes = 100_000 }
policy = [{ cc = "cubic" }]
[long]
link = "geo-100mbit"
seconds = 1
loss_pct = [1]
seeds = [1]
shared = { flows = 2, policies = ["cubic"], loss_pct = [0] }
"""


@pytest.mark.long
def test_both_are_rows_of_the_comparison(module, object_, tmp_path):
    """Its tables and its page have figures of both; a BPF object's instructions cannot be counted."""
    data_file = tmp_path / "compare.toml"
    data_file.write_text(SHORT)
    added = foreign.read([(foreign.MODULE, module()), (foreign.OBJECT, object_())], (), KERNEL)
    planned = comparison.plan(data_file, added=added)
    planned = dataclasses.replace(planned, items=tuple(planned.of("transfer", "bulk", "beside", "cost")))
    console = Console(file=io.StringIO(), width=100)
    data = rows.collect(planned, run_all(Lab(KERNEL, added=added), planned.items, console))
    data |= {"about": {}, "notes": rows.notes(added, data["cost"]["uncounted"])}
    assert data["policies"] == ["fixed", "curve", "cubic"]
    link = data["links"][0]
    drawn = [tables.speed_table(link, data), tables.loss_table(link, data), tables.beside_table(data)]
    for table in drawn:
        assert {row.name: "—" in [cell.text for cell in row.cells] for row in table.rows
                if row.kind == "other"} == {"fixed": False, "curve": False, "cubic": False}
    assert [row.name for row in tables.cost_table(data).rows] == ["fixed", "cubic"]
    tables.print_tables(data, console)
    page = webpage.write_report(data, tmp_path).read_text()
    for text in (page, console.file.getvalue()):
        assert "fixed is tcp_fixed.ko, SHA-256 " in text
        assert "The instructions of curve are not counted: it is a BPF object." in text
