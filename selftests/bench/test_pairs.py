# SPDX-License-Identifier: GPL-2.0
"""Pairs of a module and a BPF object: their plan, comparison, verdicts, and cells of the table."""

from types import SimpleNamespace

import numpy as np
import pytest

from bench.errors import LabError
from bench.lab import bpf
from bench.matrix import pairs, pairs_command, table, twice
from bench.matrix.pairs import PACKETS, SAME, TIMES, Comparison, Control, Pair, Verdict
from bench.matrix.twice import Twice
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


TWICE = Twice({"init": 1, "cong_avoid": 99}, 0, "", 70, 190)
UNLIKE = Twice(TWICE.calls, 2, "cong_avoid, call 7: cwnd is 9 in the module, 8 in the object", 70, 190)


def judged(monkeypatch, wanted, both=TWICE):
    """The verdict of a pair whose runs are words, and the delays that were played.

    wanted: (one, other) -> the kind of their comparison; SAME for pairs without one.
    """
    delays = []

    def later(lab, transfer, objects, delay_ns):
        delays.append(delay_ns)
        return f"later {delay_ns}"

    monkeypatch.setattr(bpf, "build", lambda series: None)
    monkeypatch.setattr(bpf, "files", lambda folder, policy: {})
    monkeypatch.setattr(pairs.twice, "both", lambda lab, transfer, objects: both)
    monkeypatch.setattr(pairs.twice, "later", later)
    kinds = {SAME: Comparison(True, 9, 0), TIMES: Comparison(True, 9, 10**6),
             PACKETS: Comparison(False, 9, 0)}
    monkeypatch.setattr(pairs, "compare", lambda one, other: kinds[wanted.get((one, other), SAME)])

    def run(scenario, files, first):
        form = "object" if any("satcc-bpf" in line for line in first) else "module"
        commands = list(first).count(":")
        return f"{form} {commands}" if commands else form

    lab = SimpleNamespace(run=run)
    return pairs.judge(lab, PLAN, PAIR), delays


def test_the_same_packets_need_no_control(monkeypatch):
    verdict, delays = judged(monkeypatch, {})
    assert verdict.explained and verdict.control is None and not delays
    assert str(verdict) == "ibk, loss, seed 3: same, up to 0.000 ms"


def against(*kinds):
    """How the later runs compare with the module's: the n-th delay's kind."""
    return {("module", f"later {delay}"): kind for delay, kind in zip(pairs.DELAYS_NS, kinds)}


def unlike_the_other():
    """No later module sends the object's packets, and no later object the module's."""
    return {(f"later {delay}", "object"): PACKETS for delay in pairs.DELAYS_NS} | {
        (f"object {commands}", "module"): PACKETS for commands in pairs.COMMANDS}


def test_a_later_module_that_differs_from_itself_explains_a_difference(monkeypatch):
    wanted = {("module", "object"): TIMES, **unlike_the_other(), **against(SAME, TIMES)}
    verdict, delays = judged(monkeypatch, wanted)
    assert verdict.explained and delays == list(pairs.DELAYS_NS[:2])
    assert (verdict.control.kind, verdict.control.like_other) == (TIMES, False)
    assert str(verdict) == (
        "ibk, loss, seed 3: same packets at other times, up to 1.000 ms; module and object computed the "
        f"same in 100 calls; the module {pairs.DELAYS_NS[1]} ns later differs from itself: same packets "
        "at other times")


def test_a_later_module_that_sends_the_objects_packets_is_all_that_is_asked(monkeypatch):
    wanted = {("module", "object"): PACKETS, **unlike_the_other(), **against(PACKETS)}
    del wanted[f"later {pairs.DELAYS_NS[0]}", "object"]
    verdict, delays = judged(monkeypatch, wanted)
    assert verdict.explained and verdict.control.like_other and delays == [pairs.DELAYS_NS[0]]
    assert str(verdict).endswith(f"the module {pairs.DELAYS_NS[0]} ns later sends the object's packets")


def test_a_later_module_between_the_two_is_the_objects(monkeypatch):
    """150 us from the module and 100 us from the object."""
    verdict, delays = judged(monkeypatch, {("module", "object"): TIMES})
    assert verdict.explained and verdict.control.kind == SAME and len(delays) == 1
    assert str(verdict).endswith("ns later sends the object's packets")


def test_a_smaller_difference_explains_after_all_delays(monkeypatch):
    """Other times explain other packets only if no delay gives other packets."""
    wanted = {("module", "object"): PACKETS, **unlike_the_other(), **against(SAME, TIMES)}
    verdict, delays = judged(monkeypatch, wanted)
    assert verdict.explained and verdict.control.kind == TIMES and delays == list(pairs.DELAYS_NS)
    assert verdict.control.delay_ns == pairs.DELAYS_NS[1]


def test_a_module_that_never_differs_from_itself_explains_nothing(monkeypatch):
    verdict, delays = judged(monkeypatch, {("module", "object"): PACKETS, **unlike_the_other()})
    assert not verdict.explained and delays == list(pairs.DELAYS_NS)
    assert str(verdict).endswith("in 100 calls; not explained by time: the module is the same up to "
                                 f"{pairs.DELAYS_NS[-1]} ns later, and the object up to "
                                 f"{pairs.COMMANDS[-1]} shell commands later")


@pytest.mark.parametrize("kind, text", [(TIMES, "differs from itself: same packets at other times"),
                                        (SAME, "sends the module's packets")])
def test_an_object_that_begins_later_explains_what_no_module_does(monkeypatch, kind, text):
    at = pairs.COMMANDS[1]
    wanted = {("module", "object"): PACKETS, **unlike_the_other(), ("object", f"object {at}"): kind}
    if kind == SAME:
        del wanted[f"object {at}", "module"]
    verdict, delays = judged(monkeypatch, wanted)
    assert verdict.explained and delays == list(pairs.DELAYS_NS)
    assert str(verdict).endswith(f"; the object {at} shell commands later {text}")


def test_another_result_of_the_same_inputs_is_never_explained(monkeypatch):
    wanted = {("module", "object"): TIMES, **unlike_the_other(), **against(PACKETS)}
    verdict, delays = judged(monkeypatch, wanted, UNLIKE)
    assert not verdict.explained and not delays
    assert not Verdict(PAIR, verdict.comparison, Control(UNLIKE, 100, PACKETS, True)).explained
    assert str(verdict).endswith("module and object computed 2 results of 100 calls differently, the "
                                 f"first: {UNLIKE.first}")


LINES = ("init 1\nssthresh 2\ncong_avoid 97\ndiffering 0\nstrangers 0\nmodule_ns 7000\n"
         "object_ns 19000\nfirst \n")


def test_the_counts_of_a_flow_by_both_are_read():
    counts = twice.read(LINES)
    assert (counts.total, counts.differing, counts.module_ns, counts.object_ns) == (100, 0, 70, 190)
    unlike = twice.read(LINES.replace("differing 0", "differing 3")
                        .replace("first ", "first init, call 1"))
    assert (unlike.differing, unlike.first) == (3, "init, call 1")


@pytest.mark.parametrize("wrong", ["", LINES.replace("strangers 0", "strangers 2"),
                                   LINES.replace("init 1", "init 0"), LINES.replace("97", "many")])
def test_a_flow_that_was_not_compared_is_an_error(wrong):
    with pytest.raises(LabError, match="were not compared"):
        twice.read(wrong)


SAMES = Verdict(PAIR, Comparison(True, 9, 1))
LATER = Verdict(PAIR, Comparison(True, 9, 2_000_000), Control(TWICE, 100, TIMES))
LIKE = Verdict(PAIR, Comparison(False, 9, 0), Control(TWICE, 300, PACKETS, True))
OTHERS = Verdict(PAIR, Comparison(False, 9, 0), Control(TWICE, 8000, SAME))
WRONG = Verdict(PAIR, Comparison(False, 9, 0), Control(UNLIKE))
BEGUN = Verdict(PAIR, Comparison(True, 9, 2_000_000), Control(TWICE, 8000, TIMES, True, 4))


def test_a_cell_counts_and_explains():
    assert pairs.cell([SAMES, SAMES]) == "2 of 2 same"
    assert pairs.cell([SAMES, LATER]) == ("1 of 2 same; 1 same packets at other times; "
                                          "the module 100 ns later differs from itself in 1 of 1")
    assert pairs.cell([SAMES, LATER, LIKE]) == (
        "1 of 3 same; 1 same packets at other times; 1 other packets; the module 100 to 300 ns later "
        "differs from itself in 2 of 2, in 1 it sends the object's packets")
    assert pairs.cell([BEGUN, LATER]) == (
        "0 of 2 same; 2 same packets at other times; the module 100 ns later differs from itself in 1 "
        "of 2; the object 4 shell commands later differs from itself in 1 of 2, in 1 it sends the "
        "module's packets")
    assert pairs.cell([SAMES, OTHERS, WRONG]) == (
        "1 of 3 same; 2 other packets; 2 not explained, 1 computed differently")


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
    cells = len(PLAN.series) * len(bpf.policies()) * len(PLAN.link)
    assert written.count("1 of 1 same") == cells and "SEEDS=20" in written
    assert "<!-- table: matrix -->" in written
