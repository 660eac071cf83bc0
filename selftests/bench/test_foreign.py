# SPDX-License-Identifier: GPL-2.0
"""--module and --bpf: which file has which name, what is refused, and what a run's identity covers."""

import dataclasses
import lzma
import struct
from pathlib import Path

import pytest

from bench import commands
from bench.__main__ import command_line, main
from bench.compare import comparison, rows
from bench.errors import LabError
from bench.lab import foreign, image, job, machine, packages, play
from bench.lab.foreign import MODULE, OBJECT, Foreign
from bench.scenario import scenario

RELEASE = "6.1.0-56-amd64"


def elf(kind: str, more: bytes = b"", machine_=None) -> bytes:
    """A file's head, as far as the lab reads it."""
    return b"\x7fELF\2\1\1" + bytes(9) + struct.pack(
        "<HH", 1, machine_ or foreign.MACHINES[kind]) + bytes(44) + more


def magic(release: str) -> bytes:
    return b"\0license=GPL\0vermagic=" + release.encode() + b" SMP preempt mod_unload modversions \0"


@pytest.fixture
def file(tmp_path):
    """Write a file, and return (kind, path) as the command line gives it."""
    def made(name, content=None):
        kind = OBJECT if name.endswith(".o") else MODULE
        (tmp_path / name).write_bytes(
            elf(kind, b"" if kind == OBJECT else magic(RELEASE)) if content is None else content)
        return kind, tmp_path / name
    return made


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setattr(packages, "kernel_release", lambda series: {"6.1": RELEASE}[series])


def scene(*ccs: str) -> scenario.Scenario:
    return scenario.from_dict({"title": "made up", "hop": [{"name": "r"}],
                               "flow": [{"cc": cc, "bytes": 9} for cc in ccs]})


@pytest.mark.parametrize("words, files, cc", [
    (["run", "a.toml", "--module", "tcp_a.ko", "--bpf", "b.bpf.o", "--cc", "a,b"],
     [(MODULE, "tcp_a.ko"), (OBJECT, "b.bpf.o")], "a,b"),
    (["--module", "tcp_a.ko", "run", "a.toml", "--module", "tcp_b.ko", "--cc", "a,b"],
     [(MODULE, "tcp_a.ko"), (MODULE, "tcp_b.ko")], "a,b"),
    (["--bpf", "a.bpf.o", "--mod", "tcp_b.ko"], [(OBJECT, "a.bpf.o"), (MODULE, "tcp_b.ko")], None),
    (["run", "a.toml"], [], None)])
def test_files_keep_the_order_of_the_command_line(words, files, cc):
    arguments = command_line().parse_args(words)
    assert [(kind, str(path)) for kind, path in (*arguments.before, *arguments.behind)] == files
    assert arguments.cc == cc


@pytest.mark.parametrize("names, ccs, wanted", [
    (["tcp_foo.ko"], [], ["foo"]), (["foo.ko"], [], ["foo"]), (["foo.bpf.o"], [], ["foo"]),
    (["bpf_foo.o"], [], ["bpf_foo"]), (["tcp_foo.ko"], ["cubic", "foo"], ["foo"]),
    (["my-own.ko"], ["foo", "cubic"], ["foo"]), (["tcp_foo.ko"], ["bar"], ["bar"]),
    (["my-own.ko", "tcp_foo.ko"], ["foo", "bar"], ["bar", "foo"])])
def test_a_files_congestion_control_is_named_by_the_file_or_by_cc(names, ccs, wanted):
    given = [(OBJECT if name.endswith(".o") else MODULE, Path(name)) for name in names]
    assert foreign.named(given, ccs) == wanted


@pytest.mark.parametrize("names, ccs, line", [
    (["tcp_satcc.ko"], [], "tcp_satcc.ko: the lab has a congestion control satcc of its own; "
                           "give yours another name"),
    (["my.ko"], ["bbr"], "my.ko: the lab has a congestion control bbr of its own; "
                         "give yours another name"),
    (["cubic.bpf.o"], [], "cubic.bpf.o: the lab has a congestion control cubic of its own; "
                          "give yours another name"),
    (["my-own.ko"], [], "my-own.ko: --cc names no congestion control of this file"),
    (["a.ko", "b.ko"], ["a"], "b.ko: --cc names no congestion control of this file"),
    (["tcp_a.ko", "a.ko"], [], "tcp_a.ko: another file has the congestion control a, too")])
def test_a_name_that_is_missing_or_taken_is_one_line(names, ccs, line):
    given = [(OBJECT if name.endswith(".o") else MODULE, Path(name)) for name in names]
    with pytest.raises(LabError) as error:
        foreign.named(given, ccs)
    assert str(error.value) == line


@pytest.mark.parametrize("name, content, line", [
    ("tcp_a.ko", b"#!/bin/sh\n", " is not a kernel module for amd64"),
    ("tcp_a.ko", elf(MODULE, machine_=183), " is not a kernel module for amd64"),
    ("tcp_a.ko", elf(OBJECT), " is not a kernel module for amd64"),
    ("tcp_a.ko.xz", foreign.XZ + b"no",
     ": Compressed data ended before the end-of-stream marker was reached"),
    ("tcp_a.ko", elf(MODULE), " is not a kernel module for amd64: it names no kernel (vermagic)"),
    ("tcp_a.ko", elf(MODULE, magic("6.12.1")),
     f" was built for Linux 6.12.1, but the lab runs {RELEASE}"),
    ("a.bpf.o", elf(MODULE), " is not a BPF object")])
def test_a_file_that_cannot_be_used_is_one_line(file, name, content, line):
    given = file(name, content)
    with pytest.raises(LabError) as error:
        foreign.read([given], ["a"], "6.1")
    assert str(error.value) == f"{given[1]}{line}"


def test_no_such_file_is_one_line_and_no_guest_starts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(commands, "Lab", None)
    monkeypatch.setattr(commands.scenario, "load", lambda path: scene("cubic"))
    missing = tmp_path / "tcp_a.ko"
    assert main(["run", "a.toml", "--module", str(missing), "--cc", "a"]) == 1
    assert capsys.readouterr().err == f"bench: {missing}: No such file or directory\n"


def test_a_packed_module_is_unpacked(file):
    plain, = foreign.read([file("tcp_a.ko")], [], "6.1")
    packed, = foreign.read([file("tcp_a.ko.xz", lzma.compress(plain.content))], [], "6.1")
    assert (packed.cc, packed.content) == ("a", plain.content)


MINE = Foreign("mine", MODULE, Path("tcp_mine.ko"), b"module")
YOURS = Foreign("yours", OBJECT, Path("yours.bpf.o"), b"object")


@pytest.fixture
def lab(monkeypatch, tmp_path):
    """A lab without a guest."""
    monkeypatch.setattr(machine, "emulator", lambda: ["QEMU"])
    monkeypatch.setattr(image, "build_helper", lambda name: tmp_path / name)
    monkeypatch.setattr(play, "_clear_up", lambda: None)
    monkeypatch.setattr(machine, "snapshot", lambda guest: None)
    (tmp_path / foreign.LOADER).write_bytes(b"loader")
    guest = image.Image(RELEASE, None, None, "an image", (), {})
    return lambda *added: play.Lab(prebuilt=guest, added=added)


def test_only_a_run_that_uses_the_file_has_it(lab):
    """The other runs have the job, and with it the identity, of a lab without files."""
    both = lab(MINE, YOURS)
    assert both.job(scene("cubic", "reno"), {}) == job.files(scene("cubic", "reno"), saved=True)
    assert both.identity(scene("cubic"), {}) == lab().identity(scene("cubic"), {})
    made = both.job(scene("mine", "cubic"), {})
    assert made["tcp_mine.ko"] == b"module" and "yours.bpf.o" not in made
    assert b"\nload_module tcp_mine.ko mine\n" in made["run"]
    made = both.job(scene("cubic", "yours"), {})
    assert made["yours.bpf.o"] == b"object" and made["satcc-bpf"] == b"loader"
    assert b"\nmount -t bpf none /sys/fs/bpf\nload_object yours.bpf.o yours\n" in made["run"]


def test_the_identity_covers_the_files_bytes_and_not_its_name(lab):
    def identity(**change):
        return lab(dataclasses.replace(MINE, **change)).identity(scene("mine"), {})
    assert identity() == identity(path=Path("elsewhere/mine.ko")) != identity(content=b"other")


def test_the_comparison_has_a_users_policies_between_ours_and_the_kernels():
    plain, planned = comparison.plan(long=True), comparison.plan(long=True, added=(MINE, YOURS))
    assert [policy for policy in planned.policies if not policy.yours] == list(plain.policies)
    first, last = (next(n for n, policy in enumerate(planned.policies) if policy.cc == cc)
                   for cc in ("mine", "yours"))
    assert planned.policies[first - 1].ours and not planned.policies[last + 1].ours
    assert last == first + 1
    assert [item for item in planned.items if not item.policy.yours] == list(plain.items)
    kinds = {cc: {item.kind for item in planned.items if item.policy.cc == cc}
             for cc in ("cubic", "mine", "yours")}
    assert kinds["mine"] == kinds["cubic"] - {"floor", "log", "shared"}
    assert kinds["yours"] == kinds["mine"] - {"cost"}


def test_instructions_that_cannot_be_counted_are_a_note_of_a_users_policy_only(monkeypatch):
    """The tracer cannot count callbacks that call each other."""
    def refused(run):
        raise LabError("cost: the times overlap")
    monkeypatch.setattr(rows.cost, "of_run", refused)
    items = comparison.plan(added=(MINE,)).of("cost")
    mine = [(item, None) for item in items if item.policy.yours]
    data = rows.collect_cost(mine)
    assert (data["rows"], data["uncounted"]) == ([], {"mine": "cost: the times overlap"})
    assert rows.notes((MINE,), data["uncounted"]) == [
        f"mine is tcp_mine.ko, SHA-256 {MINE.digest}.",
        "The instructions of mine are not counted: cost: the times overlap."]
    with pytest.raises(LabError, match="overlap"):
        rows.collect_cost([(item, None) for item in items])


@pytest.mark.parametrize("words, command", [
    ([], "make bench"), (["--long"], "make bench LONG=1"),
    (["--long", "--module", "a/tcp_mine.ko", "--cc", "mine"],
     "python3 -m bench --module tcp_mine.ko --cc mine --long")])
def test_the_report_names_the_command_that_repeats_it(words, command):
    arguments = command_line().parse_args(words)
    added = (MINE,) if arguments.before else ()
    assert rows.comparison_command(arguments, added) == command
