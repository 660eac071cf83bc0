# SPDX-License-Identifier: GPL-2.0
"""What holds for each sub-command of satcc: it succeeds, refuses in a line, and fits its schema.

What a sub-command does is in the files of their own; here none is left out.
"""

import json
import re
import sys

import jsonschema
import pytest

from selftests.operate.net import SATCC, TOP, namespaces, run
from selftests.operate.test_bpf import plant_loader
from selftests.operate.test_choose import RECORDED
from selftests.operate.test_completion import levels
from tools.satcc_operate import cli

PREFIX = "203.0.113.0/24"
SAVED = "etc/satcc/routes.json"
PATH = ("--rate", "10mbit", "--rtt", "600ms")
# Words that succeed on the host below.
SUCCEED = {
    "status": (), "doctor": (), "metrics": (), "tune": PATH, "choose": PATH,
    "route add": ("203.0.114.0/24", "cubic"), "route del": (PREFIX,), "route list": (),
    "route flush": (), "route save": (), "route restore": (), "route follow": ("--once",),
    "set": ("satcc", "hoe=0"), "load": ("ibk", "k=7"), "unload": ("mtsi",), "list": ()}
ROUTES = ("route add", "route del", "route flush", "route restore", "route follow")     # by ip
DRY = (*ROUTES, "route save", "tune", "set", "load", "unload", "metrics")
# A program that each needs, and that fails.
NEEDS = {"status": "ss", "doctor": "ss", "metrics": "ss", "choose": "iperf3",
         **dict.fromkeys(("load", "unload", "list"), "satcc-bpf"),
         **{name: "ip" for name in SUCCEED if name.startswith("route")}}


def plant_root(net, folder):
    """A file system for the commands, with a module and an object of the pack's."""
    net.root = folder
    folder.mkdir()
    (folder / "proc").symlink_to("/proc")
    plant_module(folder)
    plant_loader(folder, {"mtsi": {}})


@pytest.fixture(scope="module")
def planted(can_use_namespaces, tmp_path_factory):
    """(the file that satcc saved, ip's words for the route in effect) of `host`, from satcc once."""
    with namespaces("-planted") as net:
        plant_root(net, tmp_path_factory.mktemp("planted") / "root")
        net.satcc("route", "add", "2001:db8:1::/48", "cubic", check=True)
        net.satcc("route", "save", check=True)
        commands = net.satcc("route", "add", PREFIX, "cubic", "--dry-run", check=True).stdout
        return (net.root / SAVED).read_text(), [line.split()[1:] for line in commands.splitlines()]


@pytest.fixture
def host(net, planted, tmp_path):
    """One route of satcc's in effect, another in the file, and a file system of the test's own."""
    saved, commands = planted
    plant_root(net, tmp_path / "root")
    (net.root / SAVED).parent.mkdir(parents=True)
    (net.root / SAVED).write_text(saved)
    for words in commands:
        net.ip(*words)
    return net


def state(net):
    """Routes, rules, sysctls and files: all that a sub-command may change."""
    files = {path: path.read_text() for folder in ("etc", "sys") for path in sorted(
        (net.root / folder).rglob("*")) if path.is_file()}
    files["loaded"] = (net.root / "loaded.json").read_text()
    return sorted(net.everything()), files, [net.sysctl(f"net.ipv4.tcp_{name}") for name in (
        "wmem", "rmem", "slow_start_after_idle", "notsent_lowat")]


def test_no_sub_command_is_left_out():
    leaves = {words.removeprefix("satcc ") for words, commands, _ in levels(cli.arguments_parser())
              if not commands}
    assert set(SUCCEED) == leaves
    offered = {words.removeprefix("satcc ") for words, _, options in levels(cli.arguments_parser())
               if "--dry-run" in options}
    assert set(DRY) == offered


@pytest.mark.parametrize("name", SUCCEED)
def test_each_succeeds(host, name):
    with host.connection("203.0.113.1"):
        done = host.satcc(*name.split(), *SUCCEED[name])
    healthy = name != "doctor"          # the planted route is not saved, and that is a finding
    assert (done.returncode, done.stderr) == (0 if healthy else 1, "")
    assert done.stdout.endswith("\n") and done.stdout.strip()


@pytest.mark.parametrize("name", SUCCEED)
def test_each_refuses_a_namespace_that_is_not_there(name):
    done = run(sys.executable, SATCC, *name.split(), *SUCCEED[name], "--netns", "no-such", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "satcc: no network namespace /run/netns/no-such: No such file or directory\n"


@pytest.mark.parametrize("name", SUCCEED)
def test_each_refuses_wrong_words(name):
    done = run(sys.executable, SATCC, *name.split(), *SUCCEED[name], "--no-such", check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == "satcc: error: unrecognized arguments: --no-such"


@pytest.mark.parametrize("name", NEEDS)
def test_each_hands_on_the_failure_of_a_program(host, tmp_path, name):
    """In a line, and nothing is changed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / NEEDS[name]).write_text("#!/bin/sh\necho planted failure >&2\nexit 1\n")
    (folder / NEEDS[name]).chmod(0o755)
    words = ("--probe", "192.0.2.2") if name == "choose" else SUCCEED[name]
    before = state(host)
    done = host.satcc(*name.split(), *words, path=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"satcc: .*: planted failure\n", done.stderr)
    assert state(host) == before


@pytest.mark.parametrize("name", [*ROUTES, "route save"])
def test_a_dry_run_prints_and_changes_nothing(host, name):
    before = state(host)
    done = host.satcc(*name.split(), *SUCCEED[name], "--dry-run", check=True)
    assert state(host) == before
    if name == "route save":            # what would be in the file
        host.satcc("route", "save", check=True)
        assert done.stdout == (host.root / SAVED).read_text()
        return
    commands = done.stdout.splitlines()
    assert commands and all(line.startswith("ip -") for line in commands)
    for line in commands:               # typed, they leave nothing to do
        host.ip(*line.split()[1:])
    again = host.satcc(*name.split(), *SUCCEED[name], check=True)
    assert again.stdout.startswith("nothing to do")


@pytest.mark.parametrize("name", ROUTES)
def test_without_the_right_nothing_is_changed(host, name):
    """As an ordinary user: the kernel refuses the first step."""
    before = state(host)
    done = run("ip", "netns", "exec", host.sender, "setpriv", "--bounding-set=-all", "--inh-caps=-all",
               "env", f"SATCC_ROOT={host.root}", sys.executable, SATCC, *name.split(), *SUCCEED[name],
               check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"satcc: .*Operation not permitted.*\n", done.stderr)
    assert state(host) == before


@pytest.mark.parametrize("words", [("route", "save"), ("tune", *PATH, "--apply"),
                                   ("metrics", "-o", "etc/satcc/satcc.prom")])
def test_an_unwritable_file_is_a_one_line_error(host, words):
    """A file stands where the folder is to be, and no sysctl is set."""
    host.ip("route", "flush", "proto", "167")
    run("rm", "-r", host.root / "etc/satcc")
    (host.root / "etc/satcc").touch()
    before = state(host)
    words = [str(host.root / word) if word.startswith("etc/") else word for word in words]
    done = host.satcc(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"satcc: cannot write /.*\n", done.stderr)
    assert state(host) == before


def test_list_shows_the_added_routes(host):
    host.satcc("route", "add", "default6", "cubic", "--port", "443", "--lock", "--initcwnd", "20",
               check=True)
    listed = host.satcc_json("route", "list")
    assert [(each["prefix"], each["policy"], each["lock"], each["port"], each["initcwnd"],
             each["by_satcc"]) for each in listed] == [
        (PREFIX, "cubic", False, None, None, True), ("::/0", "cubic", True, 443, 20, True)]
    lines = host.satcc("route", "list", check=True).stdout.splitlines()
    assert lines[0].split()[:3] == ["PREFIX", "POLICY", "LOCK"]
    assert [line.split()[:4] for line in lines[1:]] == [[PREFIX, "cubic", "no", "-"],
                                                        ["::/0", "cubic", "yes", "443"]]
    host.satcc("route", "flush", check=True)
    assert host.satcc("route", "list", check=True).stdout == ""
    assert json.loads(host.satcc("route", "list", "--json", check=True).stdout) == []


# ---- the schema of --json --------------------------------------------------

SCHEMA = json.loads((TOP / "tools/satcc-schema.json").read_text())
LOG = TOP / "selftests/unit/start.csv"
# More words of a sub-command whose output has another form, or more members.
FORMS = {**{name: [words] for name, words in SUCCEED.items()},
         "route save": [(), ("--dry-run",)],
         "set": [("satcc",), SUCCEED["set"], (*SUCCEED["set"], "--persistent"),
                 (*SUCCEED["set"], "--dry-run"), ("mtsi",)],
         "metrics": [(), ("--log", LOG), ("--log", LOG, "--flows")],
         "tune": [PATH, (*PATH, "--apply"), ("--undo",), (*PATH, "--apply", "--dry-run")],
         "route add": [SUCCEED["route add"], (*SUCCEED["route add"], "--dry-run")],
         "choose": [PATH, ("--rate", "100mbit", "--rtt", "30ms", "--cross", "none"),
                    ("--probe", "192.0.2.2")]}


def validator(name):
    """Of a sub-command's output."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator({**SCHEMA, "$ref": f"#/$defs/commands/{name}"})


def every_object(node):
    """The schemas of objects with members, wherever they stand."""
    if isinstance(node, dict):
        if "properties" in node:
            yield node
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        yield from every_object(child)


def test_the_schema_has_each_sub_command():
    assert set(SCHEMA["$defs"]["commands"]) == set(SUCCEED)


def test_each_member_is_described_and_no_other_is_allowed():
    objects = list(every_object(SCHEMA))
    assert len(objects) > 15
    for each in objects:
        assert each["required"] == list(each["properties"]) and each["additionalProperties"] is False
        for name, member in each["properties"].items():
            if "type" in member and member["type"] not in ("object", "array"):
                assert member.get("description"), name


@pytest.mark.parametrize("name, words", [(name, words) for name, forms in FORMS.items()
                                         for words in forms])
def test_the_output_fits_the_schema(host, tmp_path, name, words):
    """Of a host with routes, a module, findings and connections; and not with a member less or more."""
    with host.connection("203.0.113.1") as (client, _), host.connection("203.0.114.1"):
        client.sendall(bytes(1000))
        output = host.satcc_json(*name.split(), *words, path=fake_iperf3(tmp_path / "bin"))
    check = validator(name)
    check.validate(output)
    for worse in spoiled(output):
        assert not check.is_valid(worse), worse


def plant_module(root):
    """/sys with a module of the pack's."""
    folder = root / "sys/module/tcp_satcc"
    (folder / "parameters").mkdir(parents=True)
    for file, text in {"version": "0.1", "refcnt": "3", "parameters/hoe": "1"}.items():
        (folder / file).write_text(text)


def fake_iperf3(folder):
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(RECORDED))
    (folder / "iperf3").write_text(f"#!/bin/sh\ncat {folder}/report.json\n")
    (folder / "iperf3").chmod(0o755)
    return folder


def spoiled(output):
    """The output with a member more, and with each of its members left out."""
    first = output[0] if isinstance(output, list) else output

    def whole(changed):
        return [changed, *output[1:]] if isinstance(output, list) else changed
    yield whole({**first, "surplus": 1})
    for name in first:
        yield whole({key: value for key, value in first.items() if key != name})
