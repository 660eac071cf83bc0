# SPDX-License-Identifier: GPL-2.0
"""Pairs of a module and a BPF object: their plan, comparison, verdicts, and cells of the table."""

from types import SimpleNamespace

import numpy as np
import pytest

from bench.errors import LabError
from bench.lab import bpf
from bench.matrix import pairs, pairs_command, table
from bench.matrix.pairs import PACKETS, SAME, TIMES, Comparison, Pair, Verdict
from bench.record import pcap

PLAN = pairs.load()
PAIR = Pair("ibk", "loss", 3)


def test_the_plan_has_three_kernels_and_20_seeds_of_random_loss():
    assert {"6.1", "6.12", "newest"} <= set(PLAN.series) and PLAN.seeds == 20
    assert [link.name for link in PLAN.link if link.ber] == ["loss"]
    made = pairs.transfer(PLAN, PAIR)
    assert made.seed == 3 and made.flows[0].cc == "ibk" and made.flows[0].bytes == PLAN.bytes
    assert made.hops[1].forward.errors.ber and not made.trace


def test_a_mistake_in_the_plan_is_one_line(tmp_path):
    path = tmp_path / "pairs.toml"
    path.write_text(pairs.FILE.read_text().replace("seeds = 20", "seeds = 0"))
    with pytest.raises(LabError, match=r"pairs.toml: seeds = 0: a whole number") as error:
        pairs.load(path)
    assert "\n" not in str(error.value)


def capture(times, lengths, port=5001):
    """A capture of data packets, without answers."""
    count, at = len(times), np.cumsum([0, *lengths[:-1]])
    columns = {"t": times, "seq": at + 77, "length": lengths, "flags": [pcap.ACK] * count, "dport": port}
    data = SimpleNamespace(window=np.ones(count, int), wire=np.array(lengths) + 52, ack=np.zeros(count),
                           sport=np.full(count, 9), raw=[b""] * count,
                           **{name: np.zeros(count, int) + value for name, value in columns.items()})
    data.where = lambda mask: data if mask.all() else ()
    return SimpleNamespace(sender=data, bottleneck=data)


@pytest.mark.parametrize("times, lengths, wanted", [
    ([0, 10, 20], [5, 5, 5], (SAME, 3, 0)),
    ([7, 17, 199_000], [5, 5, 5], (SAME, 3, 198_973)),
    ([0, 10, 400_020], [5, 5, 5], (TIMES, 3, 400_000)),
    ([0, 10, 20], [5, 4, 6], (PACKETS, 1, 0)),
    ([0, 10], [5, 5], (PACKETS, 2, 0))])
def test_packets_are_compared_from_the_first_on(times, lengths, wanted):
    found = pairs.compare(capture([0, 10, 20], [5, 5, 5]), capture(times, lengths))
    assert (found.kind, found.alike, found.late_ns) == wanted


def test_a_segment_sent_again_is_another_packet():
    sent, again = capture([0, 10, 20], [5, 5, 5]), capture([0, 10, 20], [5, 5, 5])
    again.sender.seq = again.sender.seq - [0, 5, 5]
    comparison = pairs.compare(sent, again)
    assert (comparison.kind, comparison.alike) == (PACKETS, 1)


class Recorder:
    """A lab that returns the shell lines of a run in place of the run."""

    def run(self, scenario, files, first):
        return first


@pytest.mark.parametrize("commands, shift", [(0, 0), (3, 3), (99, 0)])
def test_the_module_plays_again_until_it_sends_the_objects_packets(monkeypatch, commands, shift):
    """It does so if it begins this number of commands later."""
    monkeypatch.setattr(bpf, "build", lambda series: None)
    monkeypatch.setattr(bpf, "files", lambda folder, policy: {})

    def compare(module, object_):
        assert any("satcc-bpf load" in line for line in object_) and "modprobe tcp_ibk" in module
        return Comparison(module.count(":") == commands, 5, 1000)

    monkeypatch.setattr(pairs, "compare", compare)
    verdict = pairs.judge(Recorder(), PLAN, PAIR)
    assert (verdict.shift, verdict.explained) == (shift, commands < 99)
    assert verdict.comparison.kind == (PACKETS if commands else SAME)


SAMES = Verdict(PAIR, Comparison(True, 9, 1))
LATER = Verdict(PAIR, Comparison(True, 9, 2_000_000), 4)
OTHERS = Verdict(PAIR, Comparison(False, 9, 0))


def test_a_cell_counts_and_a_line_explains():
    assert pairs.cell([SAMES, SAMES]) == "2 of 2 same"
    assert pairs.cell([SAMES, LATER, OTHERS]) == \
        "1 of 3 same; 1 same packets at other times; 1 other packets; 1 not explained"
    assert str(LATER) == ("ibk, loss, seed 3: same packets at other times, up to 2.000 ms; "
                          "the module does so too if it begins 4 commands later")
    assert str(OTHERS) == ("ibk, loss, seed 3: other packets, up to 0.000 ms, after 9 of the sender's; "
                           "not explained by microseconds")


def test_the_command_writes_the_table_only_for_all_kernels(monkeypatch, tmp_path, capsys):
    page = tmp_path / "README.md"
    page.write_text(table.PAGE.read_text())
    monkeypatch.setattr(table, "PAGE", page)
    monkeypatch.setattr(pairs_command, "TOP", tmp_path)
    monkeypatch.setattr("bench.lab.packages.kernel_release", lambda series: f"{series}.0-1-amd64")
    monkeypatch.setattr("bench.lab.machine.qemu_version", lambda: "7.2.22")
    asked = []

    def verdicts(plan, series, seeds):
        asked.append((series, seeds))
        return [Verdict(Pair(policy, link.name, 1), SAMES.comparison)
                for policy in bpf.policies() for link in plan.link]

    monkeypatch.setattr(pairs, "verdicts", verdicts)
    before = page.read_text()
    assert pairs_command.main(["6.1", "--seeds", "2"]) == 0 and page.read_text() == before
    assert asked == [("6.1", 2)] and "| 6.1.0-1-amd64 | clean | 1 of 1 same |" in capsys.readouterr().out
    assert pairs_command.main([]) == 0
    assert asked[1:] == [(series, 20) for series in PLAN.series]
    written = page.read_text()
    assert written.count("1 of 1 same") == 54 and "SEEDS=20" in written
    assert "<!-- table: matrix -->" in written
