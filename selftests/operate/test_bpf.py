# SPDX-License-Identifier: GPL-2.0
"""satcc load, unload, list, and set of a BPF object: what is asked of satcc-bpf, refusals, undo.

A program with the commands and messages of satcc-bpf stands in for it, and its policies for the
kernel's.
"""

import json
import os
import sys

import pytest

from selftests.operate.net import run
from tools.satcc_operate import cli
from tools.satcc_operate.parameters import FILE

RELEASE = "6.1.0-56-amd64"
ALLOWED = "proc/sys/net/ipv4/tcp_allowed_congestion_control"
DEFAULT = "proc/sys/net/ipv4/tcp_congestion_control"
AVAILABLE = "proc/sys/net/ipv4/tcp_available_congestion_control"
# As satcc-bpf: a policy has k from 1 to 255.  One that is unloaded is not allowed any more.
STAND_IN = """#!{python}
import json, os, pathlib, sys
root = pathlib.Path(os.environ["SATCC_ROOT"])
state = root / "loaded.json"
loaded = json.loads(state.read_text())
with open(root / "log", "a") as log:
    print(*sys.argv[1:], file=log)
def fail(text):
    print("satcc-bpf: " + text, file=sys.stderr)
    sys.exit(1)
command, *words = sys.argv[1:]
if command == "list":
    for policy, values in loaded.items():
        print(policy, "BPF", *(f"{{name}}={{value}}" for name, value in values.items()))
elif command == "unload":
    if words[0] not in loaded:
        fail(words[0] + " is not loaded as a BPF object")
    del loaded[words[0]]
    allowed = root / "{allowed}"
    if not os.path.islink(root / "proc"):
        allowed.write_text(" ".join(word for word in allowed.read_text().split() if word != words[0]))
else:
    if not os.path.exists(words[0]):
        fail("cannot read " + words[0] + " as a BPF object: No such file or directory")
    policy, values = os.path.basename(words[0])[:-6], {{"k": "4"}}
    for word in words[1:]:
        name, _, value = word.partition("=")
        if name != "k" or not 1 <= int(value) <= 255:
            fail(word + " is out of bounds: 1 to 255")
        values[name] = value
    loaded[policy] = values
state.write_text(json.dumps(loaded))
if not os.path.islink(root / "proc"):           # of the test
    (root / "{available}").write_text(" ".join(["reno", "cubic", *loaded]))
"""


def plant_loader(root, loaded=None):
    """The stand-in in root/bin, an object of ibk, and the policies that are loaded."""
    for name, text in {"loaded.json": json.dumps(loaded or {}), "usr/lib/satcc/bpf/ibk.bpf.o": "",
                       "bin/satcc-bpf": STAND_IN.format(python=sys.executable, allowed=ALLOWED,
                                                        available=AVAILABLE)}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "bin/satcc-bpf").chmod(0o755)


@pytest.fixture
def root(tmp_path, monkeypatch):
    files = {"proc/sys/kernel/osrelease": RELEASE, AVAILABLE: "reno cubic", ALLOWED: "reno cubic",
             DEFAULT: "cubic", f"lib/modules/{RELEASE}/modules.dep": "updates/tcp_mtsi.ko:",
             f"lib/modules/{RELEASE}/updates/tcp_mtsi.ko": ""}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    plant_loader(tmp_path)
    monkeypatch.setenv("SATCC_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    return tmp_path


def in_kernel(root):
    return json.loads((root / "loaded.json").read_text())


def asked(root):
    """The changes that were asked of satcc-bpf."""
    return [line for line in (root / "log").read_text().splitlines() if line != "list"]


def refused(root, capsys, *words):
    before = in_kernel(root), (root / ALLOWED).read_text()
    assert cli.main(list(words)) == 1
    assert (in_kernel(root), (root / ALLOWED).read_text()) == before
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_load_list_unload(root, capsys):
    assert cli.main(["load", "ibk", "k=7"]) == 0
    assert in_kernel(root) == {"ibk": {"k": "7"}}
    assert asked(root) == [f"load {root}/usr/lib/satcc/bpf/ibk.bpf.o k=7"]
    assert cli.main(["load", "ibk", "k=7"]) == 0
    assert cli.main(["list"]) == 0
    assert cli.main(["unload", "ibk"]) == 0
    assert in_kernel(root) == {}
    assert cli.main(["list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ibk is loaded as a BPF object", "nothing to do: ibk is loaded as BPF already",
        "POLICY  PARAMETERS", "ibk     k=7", "ibk is unloaded", "no policy is loaded as a BPF object"]


def test_an_objects_file_is_loaded(root, capsys, tmp_path):
    (tmp_path / "new.bpf.o").touch()
    assert cli.main(["load", f"{tmp_path}/new.bpf.o"]) == 0
    assert in_kernel(root) == {"new": {"k": "4"}}


def test_refusals(root, capsys):
    assert "cannot read /nosuch.bpf.o as a BPF object" in refused(root, capsys, "load", "/nosuch.bpf.o")
    assert refused(root, capsys, "load", "mtsi").endswith("the module is installed: modprobe tcp_mtsi\n")
    assert "no BPF object of satcc is in /usr/share/satcc" in refused(root, capsys, "load", "satcc")
    assert "k=300 is out of bounds: 1 to 255" in refused(root, capsys, "load", "ibk", "k=300")
    assert cli.main(["load", "ibk", "k"]) == 2
    assert capsys.readouterr().err == "satcc: k is not NAME=VALUE\n"
    assert refused(root, capsys, "unload", "ibk") == "satcc: ibk is not loaded as a BPF object\n"
    assert cli.main(["load", "ibk"]) == 0
    capsys.readouterr()
    assert refused(root, capsys, "load", "ibk", "k=9") == (
        "satcc: ibk is loaded already: satcc set ibk k=9\n")
    (root / "sys/module/tcp_mtsi").mkdir(parents=True)
    assert "mtsi is loaded as a module: modprobe -r tcp_mtsi" in refused(root, capsys, "unload", "mtsi")
    assert "mtsi is loaded as a module: to have" in refused(root, capsys, "load", "mtsi")


def test_without_the_loader(root, capsys):
    (root / "bin/satcc-bpf").unlink()
    assert refused(root, capsys, "list") == (
        "satcc: cannot run satcc-bpf: No such file or directory: `make bpf` in a clone builds it\n")


def test_unload_names_what_loses_the_policy(root, capsys, net):
    """An object has the name cubic here, because the kernel refuses a route with a name it lacks."""
    (root / "cubic.bpf.o").touch()
    assert cli.main(["load", f"{root}/cubic.bpf.o"]) == 0
    net.root = root
    net.ip("route", "add", "203.0.113.0/24", "via", "192.0.2.2", "congctl", "cubic")
    (root / DEFAULT).write_text("reno")
    done = net.satcc("unload", "cubic")
    assert done.stdout == ("cubic is unloaded; until it is loaded again, "
                           "net.ipv4.tcp_allowed_congestion_control, the "
                           "route to 203.0.113.0/24 cannot select it\n")


@pytest.mark.parametrize("words", [("load", "ibk", "k=9"), ("unload", "ibk"), ("set", "ibk", "k=9")])
def test_a_dry_run_prints_what_does_the_same(root, capsys, words):
    if words[0] != "load":
        assert cli.main(["load", "ibk"]) == 0
    before, done = in_kernel(root), asked(root) if (root / "log").exists() else []
    capsys.readouterr()
    assert cli.main([*words, "--dry-run"]) == 0
    assert in_kernel(root) == before and asked(root) == done
    lines = capsys.readouterr().out.splitlines()
    for line in lines:
        assert line.startswith("satcc-bpf ")
        run("sh", "-c", line)
    assert in_kernel(root) == ({} if words[0] == "unload" else {"ibk": {"k": "9"}})
    assert asked(root)[len(done):] == [line.removeprefix("satcc-bpf ") for line in lines]


def test_parameters_of_modprobe_d(root, capsys):
    """One place for the module's and the object's."""
    assert cli.main(["load", "ibk"]) == 0
    assert cli.main(["set", "ibk", "k=9", "--persistent"]) == 0
    assert (root / FILE).read_text().splitlines()[1:] == ["options tcp_ibk k=9"]
    for words, value in ((("load", "ibk"), "9"), (("load", "ibk", "k=5"), "5")):
        assert cli.main(["unload", "ibk"]) == 0
        assert cli.main(list(words)) == 0
        assert in_kernel(root) == {"ibk": {"k": value}}
    capsys.readouterr()
    (root / FILE).unlink()
    (root / FILE).parent.rmdir()
    (root / FILE).parent.touch()            # no file can be written
    assert "cannot write" in refused(root, capsys, "set", "ibk", "k=9", "--persistent")


def test_a_route_loads_the_object_where_no_module_can_be_loaded(root, net, monkeypatch, capsys):
    """The kernel's cubic stands for the object's policy: it becomes available when that is loaded."""
    (root / "usr/lib/satcc/bpf/cubic.bpf.o").touch()
    (root / AVAILABLE).write_text("reno")
    (root / "bin/modprobe").write_text("#!/bin/sh\necho modprobe: FATAL: not found >&2; exit 1\n")
    (root / "bin/modprobe").chmod(0o755)
    net.root = root
    words = ("route", "add", "203.0.113.0/24")
    done = net.satcc(*words, "cubic", "--dry-run", check=True)
    assert in_kernel(root) == {} and done.stdout.startswith("ip -4 route prepend 203.0.113.0/24 ")
    assert net.satcc(*words, "nosuch").stderr == (
        "satcc: the kernel has no policy nosuch: modprobe tcp_nosuch: modprobe: FATAL: not found\n")
    net.satcc(*words, "cubic", check=True)
    assert in_kernel(root) == {"cubic": {"k": "4"}}
    assert [each["metrics"] for each in net.routes("proto", "167")] == [[{"congestion": "cubic"}]]
    net.satcc("route", "save", check=True)
    net.satcc("route", "flush", check=True)
    net.satcc("unload", "cubic", check=True)
    (root / AVAILABLE).write_text("reno")
    net.satcc("route", "restore", check=True)           # as at boot
    assert in_kernel(root) == {"cubic": {"k": "4"}} and net.routes("proto", "167")
    net.satcc("route", "flush", check=True)
    net.satcc("unload", "cubic", check=True)
    (root / AVAILABLE).write_text("reno")
    (root / FILE).parent.mkdir(parents=True)
    (root / FILE).write_text("options tcp_cubic k=300\n")
    done = net.satcc(*words, "cubic")
    assert (done.returncode, net.routes("proto", "167")) == (1, [])
    assert done.stderr.endswith(f"not found; satcc-bpf load {root}/usr/lib/satcc/bpf/cubic.bpf.o k=300: "
                                "satcc-bpf: k=300 is out of bounds: 1 to 255\n")


def test_set_loads_the_object_again_and_keeps_the_selection(root, capsys):
    assert cli.main(["load", "ibk", "k=7"]) == 0
    (root / ALLOWED).write_text("reno cubic ibk")
    (root / DEFAULT).write_text("ibk")
    capsys.readouterr()
    assert cli.main(["set", "ibk", "k=9"]) == 0
    assert capsys.readouterr().out == "k=9 is in force (was 7)\n"
    assert in_kernel(root) == {"ibk": {"k": "9"}}
    assert (root / ALLOWED).read_text().split() == ["reno", "cubic", "ibk"]
    assert (root / DEFAULT).read_text().strip() == "ibk"
    assert cli.main(["set", "ibk", "k=9"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert len(asked(root)) == 3


def test_a_refused_set_has_the_old_object_again(root, capsys):
    """The object of a policy that is not the pack's, whose bounds satcc does not know."""
    path = root / "usr/lib/satcc/bpf/new.bpf.o"
    path.touch()
    assert cli.main(["load", "new", "k=7"]) == 0
    (root / ALLOWED).write_text("reno cubic new\n")
    capsys.readouterr()
    assert refused(root, capsys, "set", "new", "k=300") == (
        f"satcc: satcc-bpf load {path} k=300: satcc-bpf: k=300 is out of bounds: 1 to 255; new is "
        "loaded again as it was\n")
    assert refused(root, capsys, "set", "new", "nosuch=1").splitlines() == [
        "satcc: new has no parameter nosuch; new has:", "PARAMETER  IN FORCE", "k          7"]
    path.unlink()
    assert "no BPF object of new is in" in refused(root, capsys, "set", "new", "k=8")


def test_bounds_of_the_packs_objects_are_known_before(root, capsys):
    assert cli.main(["load", "ibk", "k=7"]) == 0
    capsys.readouterr()
    lines = refused(root, capsys, "set", "ibk", "k=300").splitlines()
    assert lines[0] == "satcc: k=300 is out of bounds; ibk has:"
    assert lines[2].endswith("(1..255, default 4)")
    assert len(asked(root)) == 1            # the object was not even unloaded
