# SPDX-License-Identifier: GPL-2.0
"""satcc set: parameters now and for each later load, all or none.

/sys and /etc are in a folder that stands in for /.  Where the kernel has to refuse or to change a
value, a parameter there is a link to a file of the running kernel's: a parameter of cubic, to which
only what it refuses is written, and this process's own timer slack, of which the kernel makes 50000 ns
when 0 is written.
"""

import json
import os
import pathlib
import re

import pytest

from selftests.operate.net import TOP
from tools.satcc_operate import cli, parameters, policies
from tools.satcc_operate.host import Host

RELEASE = "6.1.0-56-amd64"
SLACK = pathlib.Path("/proc/self/timerslack_ns")
FILE = "etc/modprobe.d/satcc.conf"
TEXTS = {"queue_ms": "delay that counts as a queue, ms (1-1000, default 25)",
         "hoe": "start by the spacing of the first ACKs (0/1, default 1)",
         "thr": "mode mtsi: 1 to 8 thresholds, segments (1..1048576 each, default 20,30,40)",
         "mode": "the function F: mtsi, const or linear (default mtsi)"}
MODULE = "\0".join(["\x7fELF", "version=0.1", *(f"parm={name}:{text}" for name, text in TEXTS.items()),
                    "parmtype=x:uint", ""])
FILES = {"proc/sys/kernel/osrelease": RELEASE,
         f"lib/modules/{RELEASE}/modules.dep": "updates/tcp_satcc.ko:\nupdates/tcp_ibk.ko:",
         f"lib/modules/{RELEASE}/updates/tcp_satcc.ko": MODULE,
         f"lib/modules/{RELEASE}/updates/tcp_ibk.ko": MODULE,
         f"lib/modules/{RELEASE}/modules.builtin.modinfo": "tcp_cubic.parm=beta:beta for decrease\0",
         "proc/sys/net/ipv4/tcp_available_congestion_control": "reno cubic satcc",
         "sys/module/tcp_satcc/refcnt": "0",
         "sys/module/tcp_satcc/parameters/queue_ms": "25",
         "sys/module/tcp_satcc/parameters/hoe": "1",
         "sys/module/tcp_satcc/parameters/thr": "20,30,40",
         "sys/module/tcp_satcc/parameters/mode": "mtsi"}


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("SATCC_ROOT", str(tmp_path))
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    (tmp_path / "sys/module/tcp_satcc/parameters/thr").chmod(0o444)
    return tmp_path


def state(root):
    """All files of the stand-in."""
    return {path: path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


def value(root, name):
    return (root / "sys/module/tcp_satcc/parameters" / name).read_text().strip()


def refused(root, capsys, *words):
    """The message of a refusal, which has changed nothing."""
    before = state(root)
    assert cli.main(["set", *words]) == 1
    assert state(root) == before
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_parameters_are_set_and_the_old_values_named(root, capsys):
    assert cli.main(["set", "satcc", "queue_ms=40", "hoe=N"]) == 0
    assert (value(root, "queue_ms"), value(root, "hoe")) == ("40", "N")
    assert capsys.readouterr().out == "queue_ms=40 is in force (was 25)\nhoe=N is in force (was 1)\n"
    assert not (root / FILE).exists()
    assert cli.main(["set", "satcc", "queue_ms=0x28"]) == 0
    assert capsys.readouterr().out == "nothing to do: queue_ms=0x28 is in force already\n"
    assert value(root, "queue_ms") == "40"


def test_the_list_has_units_and_bounds(root, capsys):
    assert cli.main(["set", "satcc"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["PARAMETER", "IN", "FORCE"] and len(lines) == 5
    assert [line.split(None, 2) for line in lines[1:]] == [
        [name, FILES[f"sys/module/tcp_satcc/parameters/{name}"], TEXTS[name]] for name in sorted(TEXTS)]
    assert cli.main(["set", "satcc", "--json"]) == 0
    listed = {each["name"]: each for each in json.loads(capsys.readouterr().out)["parameters"]}
    assert [(each["least"], each["most"], each["words"], each["writable"]) for each in (
        listed["queue_ms"], listed["hoe"], listed["thr"], listed["mode"])] == [
        (1, 1000, [], True), (0, 1, [], True), (1, 1048576, [], False),
        (None, None, ["mtsi", "const", "linear"], True)]


@pytest.mark.parametrize("words, reason", [
    (("queue_ms=0",), "queue_ms=0 is out of bounds"), (("queue_ms=1001",), "is out of bounds"),
    (("queue_ms=-1",), "is out of bounds"), (("queue_ms=25ms",), "is out of bounds"),
    (("hoe=0", "queue_ms=1001"), "queue_ms=1001 is out"), (("mode=cubic",), "is out of bounds"),
    (("thr=0,5", "--persistent"), "thr=0,5 is out of bounds"),
    (("thr=5,x", "--persistent"), "thr=5,x is out of bounds"),
    (("nosuch=1",), "satcc has no parameter nosuch"), (("hoe",), "hoe is not NAME=VALUE"),
    (("hoe=",), "is not NAME=VALUE"), (("hoe=1 2",), "is not NAME=VALUE")])
def test_a_wrong_value_or_name_is_refused_with_the_list(root, capsys, words, reason):
    lines = refused(root, capsys, "satcc", *words).splitlines()
    assert lines[0].startswith("satcc: ") and reason in lines[0] and lines[0].endswith("satcc has:")
    assert len(lines) == 6 and any(line.endswith("(1-1000, default 25)") for line in lines)


def test_given_twice(root, capsys):
    assert refused(root, capsys, "satcc", "hoe=1", "hoe=0") == "satcc: hoe is given twice\n"


def test_without_documented_bounds_the_kernel_refuses_and_all_is_undone(root, capsys):
    """The kernel's own answer to a value that is not a number."""
    link = root / "sys/module/tcp_satcc/parameters/hystart_low_window"
    link.symlink_to("/sys/module/tcp_cubic/parameters/hystart_low_window")
    before = link.read_text()
    message = refused(root, capsys, "satcc", "queue_ms=40", "hystart_low_window=nonsense", "hoe=0")
    assert message == ("satcc: cannot set /sys/module/tcp_satcc/parameters/hystart_low_window to "
                       "nonsense: Invalid argument; nothing has changed: queue_ms=25 "
                       f"hystart_low_window={before.strip()} hoe=1\n")
    assert link.read_text() == before


def test_a_value_that_the_kernel_changes_is_undone_too(root, capsys):
    (root / "sys/module/tcp_satcc/parameters/slack").symlink_to(SLACK)
    before = SLACK.read_text()
    try:
        SLACK.write_text("60000")
        message = refused(root, capsys, "satcc", "queue_ms=40", "slack=0")
        assert message == ("satcc: the kernel set slack=50000, not slack=0; nothing has changed: "
                           "queue_ms=25 slack=60000\n")
        assert SLACK.read_text() == "60000\n"
        assert cli.main(["set", "satcc", "slack=70000"]) == 0
        assert SLACK.read_text() == "70000\n"
    finally:
        SLACK.write_text(before)


def test_what_cannot_be_undone_is_named(root, capsys, monkeypatch):
    written = []

    def write(self, name, text, what=None):
        if len(written) == 1:
            raise parameters.OperateError("planted failure")
        written.append(name)
        self.path(name).write_text(text)
    monkeypatch.setattr("tools.satcc_operate.host.Host.write", write)
    assert cli.main(["set", "satcc", "queue_ms=40", "hoe=0"]) == 1
    assert capsys.readouterr().err == ("satcc: planted failure; to undo the rest, run: "
                                       "echo 25 > /sys/module/tcp_satcc/parameters/queue_ms\n")


def test_a_parameter_of_the_load_needs_persistent(root, capsys):
    assert refused(root, capsys, "satcc", "thr=5", "hoe=0") == (
        "satcc: thr of tcp_satcc can only be set when it is loaded: give --persistent, then run: "
        "modprobe -r tcp_satcc && modprobe tcp_satcc\n")
    assert cli.main(["set", "satcc", "thr=5", "hoe=0", "--persistent"]) == 0
    assert (value(root, "thr"), value(root, "hoe")) == ("20,30,40", "0")
    assert capsys.readouterr().out.splitlines() == [
        "hoe=0 is in force (was 1)",
        f"/{FILE} has for each later load: options tcp_satcc thr=5 hoe=0",
        "not in force before tcp_satcc is loaded again: thr=5; modprobe ignores parameters of a module "
        "that is loaded"]
    assert (root / FILE).read_text() == f"{parameters.HEAD}\noptions tcp_satcc thr=5 hoe=0\n"


def test_a_policy_that_is_not_loaded(root, capsys):
    assert refused(root, capsys, "ibk", "hoe=0") == (
        "satcc: tcp_ibk is not loaded, so no parameter of it is in force: load it first, or give "
        "--persistent for the next load\n")
    assert "out of bounds" in refused(root, capsys, "ibk", "queue_ms=0", "--persistent")
    assert cli.main(["set", "ibk", "hoe=0", "--persistent"]) == 0
    assert (root / FILE).read_text().splitlines()[1:] == ["options tcp_ibk hoe=0"]
    assert not (root / "sys/module/tcp_ibk").exists()
    capsys.readouterr()
    assert "no such module is installed" in refused(root, capsys, "mtsi", "hoe=0")


def test_the_file_keeps_its_other_lines(root, capsys):
    path = root / FILE
    path.parent.mkdir(parents=True)
    path.write_text("# mine\noptions tcp_ibk k=9\noptions tcp-satcc hoe=1 \\\n queue_ms=30\n"
                    "blacklist x\n")
    assert cli.main(["set", "satcc", "hoe=0", "--persistent"]) == 0
    assert path.read_text() == ("# mine\noptions tcp_ibk k=9\noptions tcp-satcc queue_ms=30\n"
                                "blacklist x\noptions tcp_satcc hoe=0\n")
    capsys.readouterr()
    before = state(root)
    assert cli.main(["set", "satcc", "hoe=0", "--persistent"]) == 0
    assert capsys.readouterr().out == "nothing to do: hoe=0 is set already\n"
    assert state(root) == before


def test_a_file_that_is_read_later_is_named(root, capsys):
    later = root / "etc/modprobe.d/zz.conf"
    later.parent.mkdir(parents=True)
    later.write_text("options tcp_satcc hoe=1\n")
    assert refused(root, capsys, "satcc", "hoe=0", "--persistent") == (
        f"satcc: /etc/modprobe.d/zz.conf is read after /{FILE} and has other values: remove its line "
        "options tcp_satcc first\n")
    later.rename(later.with_name("a.conf"))
    assert cli.main(["set", "satcc", "hoe=0", "--persistent"]) == 0


def test_a_file_that_cannot_be_written_undoes_the_kernels_values(root, capsys):
    (root / "etc").mkdir()
    (root / "etc/modprobe.d").touch()
    assert refused(root, capsys, "satcc", "hoe=0", "--persistent").startswith("satcc: cannot write /")


def test_a_built_in_policy(root, capsys):
    cubic = root / "sys/module/tcp_cubic/parameters/beta"
    cubic.parent.mkdir(parents=True)
    cubic.write_text("717")
    assert "tcp_cubic.beta=700 to the kernel's command line" in refused(
        root, capsys, "cubic", "beta=700", "--persistent")
    assert cli.main(["set", "cubic", "beta=700"]) == 0
    assert cubic.read_text().strip() == "700"
    capsys.readouterr()
    assert cli.main(["set", "cubic"]) == 0
    assert "beta for decrease" in capsys.readouterr().out


def test_a_dry_run_prints_what_does_the_same(root, capsys, tmp_path):
    before = state(root)
    words = ["set", "satcc", "hoe=0", "thr=5", "--persistent"]
    assert cli.main([*words, "--dry-run"]) == 0
    assert state(root) == before
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["echo 0 > /sys/module/tcp_satcc/parameters/hoe",
                     f"echo options tcp_satcc hoe=0 thr=5 >> /{FILE}"]
    (root / "etc/modprobe.d").mkdir(parents=True)
    for line in lines:
        Host(root).run(["sh", "-c", line.replace(" /", f" {root}/")])
    assert cli.main(words) == 0
    assert capsys.readouterr().out == "nothing to do: hoe=0 thr=5 is set already\n"


def test_a_module_that_only_modinfo_can_read(root, capsys, monkeypatch):
    """Compressed with zstd, as on Ubuntu."""
    (root / f"lib/modules/{RELEASE}/modules.dep").write_text("updates/tcp_satcc.ko.zst:\n")
    (root / "modinfo").write_text("#!/bin/sh\n[ \"$*\" = '-F parm tcp_satcc' ] || exit 1\n"
                                  f"echo 'hoe:{TEXTS['hoe']}'\n")
    (root / "modinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}:{os.environ['PATH']}")
    assert cli.main(["set", "satcc"]) == 0
    assert f"hoe        1         {TEXTS['hoe']}\n" in capsys.readouterr().out
    assert "hoe=2 is out of bounds" in refused(root, capsys, "satcc", "hoe=2")


def test_the_texts_for_bpf_objects_are_the_modules():
    """To write the file anew: print(json.dumps(texts, indent=1))."""
    texts = {}
    for path in sorted(each for each in TOP.glob("*/tcp_*.c") if ".mod." not in each.name):
        found = re.findall(r'MODULE_PARM_DESC\((\w+),\s*"([^"]*)"\)', path.read_text())
        texts[path.stem.removeprefix("tcp_")] = dict(found)
    assert sorted(texts) == sorted(policies.POLICIES) and all(texts.values())
    assert json.loads(parameters.TEXTS.read_text()) == texts


@pytest.mark.parametrize("policy", policies.POLICIES)
def test_each_parameter_of_the_pack_has_bounds_that_satcc_reads(policy):
    """The default is within them, and what is below the least or no word is not."""
    for name, meaning in json.loads(parameters.TEXTS.read_text())[policy].items():
        one = parameters.Parameter(name, meaning=meaning)
        default = re.search(r"default ([\w,]+)", meaning)[1]
        assert (one.bounds() or one.words()) and one.allows(default), name
        assert not one.allows("-1") and not one.allows("x") and not one.allows(f"{default}.5")
