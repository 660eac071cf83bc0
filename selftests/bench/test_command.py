# SPDX-License-Identifier: GPL-2.0
"""python3 -m bench: its options, and what `run` says of a scenario's flows.  No emulator."""

import io
import json
import os
import re
import struct
import shutil
import subprocess
import sys

import pytest
from rich.console import Console

from bench import commands
from bench.__main__ import COMMANDS, PROGRAMS, command_line, main
from bench.errors import LabError
from bench.paths import TOP
from bench.record import pcap
from bench.record.run import Run
from bench.scenario import scenario

HOSTED = {
    "title": "Two hosts",
    "hop": [{"name": "gateway", "forward": {"rate_mbit": 10, "queue_packets": 50}}, {"name": "far"}],
    "host": [{"name": "wired", "at": "gateway"}, {"name": "server", "at": "far"}],
    "flow": [{"cc": "cubic", "bytes": 1000}, {"cc": "reno", "bytes": 5000, "source": "wired"},
             {"cc": "bbr", "tool": "udp", "rate_mbit": 1, "seconds": 2, "source": "wired",
              "to": "server"},
             {"cc": "cubic", "tool": "page", "objects": [100], "source": "server"},
             {"cc": "cubic", "bytes": 9000}]}


@pytest.mark.parametrize("words, wanted", [
    (["--fresh", "--kernel", "6.12", "--name", "x", "run", "a.toml"], (True, "6.12", "x")),
    (["run", "a.toml", "--fresh", "--kernel", "6.12", "--name", "x"], (True, "6.12", "x")),
    (["--kernel", "6.12", "run", "a.toml", "--fresh"], (True, "6.12", "geo")),
    (["--kernel", "6.12", "run", "--kernel", "6.1", "a.toml"], (False, "6.1", "geo")),
    (["run", "a.toml"], (False, "6.1", "geo")), ([], (False, "6.1", "geo"))])
def test_options_stand_before_run_or_behind_it(words, wanted):
    arguments = command_line().parse_args(words)
    assert (arguments.fresh, arguments.kernel, arguments.name) == wanted


def bench_without(module, tmp_path, *words, python="/usr/bin/python3"):
    """python3 -m bench on a host that lacks a Python package."""
    (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError(name={module!r})\n")
    return subprocess.run([python, "-m", "bench", *words], cwd=TOP, text=True,
                          capture_output=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})


@pytest.mark.parametrize("module", ["numpy", "rich", "pydantic"])
def test_a_missing_package_is_one_line(tmp_path, module):
    done = bench_without(module, tmp_path, "run", "a.toml")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"bench: /usr/bin/python3 has no module {module}: run tools/setup\n"


def test_another_python_names_debians(tmp_path):
    """tools/setup would change nothing for it."""
    other = tmp_path / "python"
    shutil.copy(os.path.realpath("/usr/bin/python3"), other)
    done = bench_without("rich", tmp_path, "run", "a.toml", python=str(other))
    assert done.stderr == f"bench: {other} has no module rich: type /usr/bin/python3 -m bench\n"


def test_help_lists_every_command_and_needs_no_package(tmp_path):
    done = bench_without("numpy", tmp_path, "--help")
    assert done.returncode == 0 and done.stderr == ""
    listed = re.findall(r"^  (\w+) ", done.stdout, re.M)
    assert {*PROGRAMS, *filter(None, COMMANDS)} == set(listed)


SLOW = {"numpy", "matplotlib", "scipy", "jinja2", "pydantic", "rich", "dpkt"}
LOADED = """
import sys
from bench.__main__ import main
try:
    status = main(sys.argv[1:])
except SystemExit as end:           # argparse ends --help so
    status = end.code
print("modules:", *(name for name, module in sys.modules.items() if getattr(module, "__spec__", None)))
sys.exit(status)
"""


def slow_modules_of(*words) -> tuple[str, set[str]]:
    """(output of a command, the slow modules that it has loaded)."""
    done = subprocess.run([sys.executable, "-c", LOADED, *words], cwd=TOP, text=True,
                          capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    output, modules = done.stdout.split("modules: ")
    return output, SLOW & set(modules.split())


@pytest.mark.parametrize("words", [
    [], ["--fresh"], *([name] for name in (*filter(None, COMMANDS), *PROGRAMS)),
    *(["papers", name] for name in ("list", "link", "report", "play", "cell"))], ids=" ".join)
def test_the_help_of_a_command_imports_nothing_slow(words):
    output, slow = slow_modules_of(*words, "--help")
    assert output.startswith("usage: ") and slow == set()


def test_the_list_of_papers_imports_no_numpy_and_nothing_that_draws():
    output, slow = slow_modules_of("papers", "list")
    assert "\nmarchese/table1: " in output and slow == {"rich", "pydantic"}


def test_an_unknown_command_is_one_line(tmp_path):
    done = bench_without("numpy", tmp_path, "paper", "list")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "bench: no command paper: python3 -m bench --help lists them\n"


def packet(t_ms: int, sport: int, dport: int, seq: int, ack: int, flags: int, length: int) -> bytes:
    tcp = struct.pack(">HHIIBBHHH", sport, dport, seq, ack, 5 << 4, flags, 100, 0, 0)
    ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40 + length, 0, 0, 64, 6, 0, 1, 2)
    frame = b"\0" * 12 + b"\x08\0" + ip + tcp
    return struct.pack("<IIII", 0, t_ms * 1_000_000, len(frame), len(frame) + length) + frame


def transfer(port: int, *acks: tuple[int, int]) -> bytes:
    """A flow of 1000 bytes, once again after 100 ms, and ACKs: (ms, bytes)."""
    sent = packet(10, 4000, port, 99, 0, pcap.SYN, 0) + packet(60, 4000, port, 100, 0, pcap.ACK, 1000) \
        + packet(160, 4000, port, 100, 0, pcap.ACK, 1000)
    return sent + b"".join(packet(ms, port, 4000, 7, 100 + size, pcap.ACK, 0) for ms, size in acks)


@pytest.fixture
def run(tmp_path):
    """A folder as a run leaves it: the sender's capture has the flows of `sender` alone."""
    head = struct.pack("<IHHIIII", pcap.MAGIC_NS, 2, 4, 0, 0, 65535, 1)
    (tmp_path / "sender.pcap").write_bytes(
        head + transfer(5001, (210, 1000)) + transfer(5005, (210, 1000)))
    for number, counters in enumerate((
            {"cc": "cubic", "bytes_acked": 1001, "total_retrans": 1, "busy_time": 200_000},
            {"cc": "reno", "bytes_acked": 5001, "total_retrans": 3, "busy_time": 1_500_000},
            {"end": {"sum": {"bytes": 250_000, "seconds": 2.0}}}, {"cc": "cubic"},
            {"cc": "cubic", "bytes_acked": 1001, "total_retrans": 1, "busy_time": 200_000})):
        (tmp_path / f"flow-{number}.json").write_text(json.dumps(counters))
    for name in ("gateway", "far"):
        (tmp_path / f"qdisc-{name}.json").write_text(json.dumps(
            [{"kind": "pfifo", "dev": "right", "drops": 2},
             {"kind": "netem", "dev": "right", "drops": 4}]))
    return lambda **more: Run(scenario.from_dict({**HOSTED, **more}), tmp_path,
                              {"kernel": "6.1.0", "hash": "abc"}, False)


def test_each_flow_is_described_from_a_capture_or_its_senders_counters(run):
    lines = [commands.describe(run(), number) for number in range(5)]
    assert lines[0].startswith("1000 bytes in 0.200 s (ideal 0.001 s), 1 retransmissions")
    assert lines[1:] == [
        "5001 bytes in 1.500 s of sending, by wired, 3 retransmissions",
        "250000 bytes in 2.000 s, by wired's iperf3",
        "page from server to receiver, in whole",
        "1000 of 9000 bytes, 1 retransmissions"]


@pytest.mark.parametrize("more", [{"capture": False}, {"captures": ["bottleneck"]}, {"captures": []}])
def test_without_a_senders_capture_tcp_info_is_used(run, more):
    assert commands.describe(run(**more), 0) == \
        "1001 bytes in 0.200 s of sending, by sender, 1 retransmissions"


@pytest.mark.parametrize("hops, drops", [
    (HOSTED["hop"], "queue drops 2, link losses 8"),
    ([{"name": "gateway", "forward": {"delay_ms": 5}}, {"name": "far"}], None)])
def test_run_prints_a_line_for_each_flow(run, tmp_path, monkeypatch, hops, drops):
    """With a bottleneck and without."""
    played = run(hop=hops)
    monkeypatch.setattr(commands, "TOP", tmp_path.parent)
    monkeypatch.setattr(commands, "Lab", lambda kernel, extras, added: type(
        "Lab", (), {"run": lambda self, chosen, use_cache, stub: played})())
    monkeypatch.setattr(commands.scenario, "load", lambda path: played.scenario)
    console = Console(file=io.StringIO(), width=120, highlight=False)
    commands.run_one(command_line().parse_args(["run", "a.toml", "--seed", "3"]), console)
    output = console.file.getvalue()
    assert [f"  flow {number} " in output for number in range(5)] == 5 * [True]
    assert ("queue drops" in output) == bool(drops) and (drops or "") in output
    assert f"files {tmp_path.name}" in output


@pytest.mark.parametrize("names, policies", [
    (["bbr"], ["bbr", "bbr"]), (["bbr", "cubic"], ["bbr", "cubic"])])
def test_policies_are_given_to_all_flows_or_one_by_one(names, policies):
    base = scenario.from_dict({"title": "two", "hop": [{"name": "r"}], "flow": [
        {"cc": "reno", "bytes": 1}, {"cc": "reno", "bytes": 1}]})
    assert [flow.cc for flow in commands.with_policies(base, names).flows] == policies
    with pytest.raises(LabError, match="3 names for 2 flows"):
        commands.with_policies(base, ["bbr", "cubic", "reno"])


def test_a_seed_out_of_range_is_one_line(monkeypatch, run, capsys):
    monkeypatch.setattr(commands.scenario, "load", lambda path: run().scenario)
    assert main(["run", "a.toml", "--seed=-1"]) == 1
    assert capsys.readouterr().err == \
        "bench: Two hosts: seed = -1: a whole number from 0 to 1000000000\n"
