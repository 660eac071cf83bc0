# SPDX-License-Identifier: GPL-2.0
"""The papers' experiments: data files, plans, verdicts, causes, the report.  No emulator."""

import copy
import dataclasses
import hashlib
import io
import json
import math
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas
from rich.console import Console

from bench.errors import LabError
from bench.lab import image
from bench.measure import facts, metrics, received, statistics
from bench.papers import (
    cell, experiment, figures, plan, play, report, results, tables, verdict, workflow)
from bench.paths import TOP
from bench.scenario import satellite, scenario

DATA = {
    "title": "Transfer time", "source": "Somebody, table 1", "what": "How long does it take?",
    "metric": "transfer_s", "unit": "s", "better": "less", "link": "GEO",
    "rfc5166": ["throughput"], "rfc9743": ["short flows"], "differs": ["The sky is bluer."],
    "scenario": {
        "hop": [{"name": "gateway", "forward": {"rate_mbit": 2, "queue_packets": 40}},
                {"name": "satellite", "forward": {"delay_ms": 500}}],
        "flow": [{"cc": "reno", "bytes": 100_000}]},
    "axis": [
        {"name": "file", "values": [{"label": "small", "x": 1},
                                    {"label": "large", "x": 10, "set": {"flow.0.bytes": 1_000_000}}]},
        {"name": "TCP", "values": [{"label": "Reno"},
                                   {"label": "Hybla", "set": {"flow.*.cc": "hybla"}},
                                   {"label": "Ideal", "formula": "ideal_transfer_s"}]},
        {"name": "settings", "values": [
            {"label": "of the time"},
            {"label": "today", "only": {"TCP": ["Hybla"]}, "set": {"sender.initcwnd": 10}}]}],
    "table": {"rows": ["file"], "columns": ["TCP"]},
    "paper": {"small": {"Reno": 2.0, "Hybla": 1.5, "Ideal": 1.4}, "large": {"Reno": 8.0, "Hybla": 5.0}},
    "claim": [{"text": "Hybla is faster", "left": {"TCP": "Hybla"}, "right": {"TCP": "Reno"},
               "is": "less"}],
    "figure": [{"title": "Figure 1", "kind": "lines", "x": "file", "series": "TCP",
                "y_label": "time, s"},
               {"title": "Figure 2", "kind": "bars", "x": "file", "series": "TCP",
                "y_label": "time, s"},
               {"title": "Figure 3", "kind": "series", "metric": "cwnd", "series": "TCP",
                "y_label": "window", "where": {"file": "large"}}],
    "missing": [{"label": "CTCP", "why": "not in Linux"}],
}
GAIN = {
    "title": "Gain", "source": "Somebody, table 2", "what": "What is gained?", "unit": "%",
    "better": "more", "gain": {"value": {"experiment": "one", "TCP": "Hybla"},
                               "reference": {"experiment": "one", "TCP": "Reno",
                                             "settings": "of the time"}},
    "axis": [], "table": {"rows": ["file"], "columns": []}, "paper": {"small": 25.0, "large": 37.5},
}


def read(change=None, data=DATA):
    """The experiment of DATA, changed by a function of it."""
    data = copy.deepcopy(data)
    if change:
        change(data)
    return experiment.from_dict(data, "somebody", "one", "one.toml")


def put(**pairs):
    """A change that sets keys at the top."""
    return lambda data: data.update(pairs)


def random(**pairs):
    """A change that makes the experiment random and its link lossy, and sets keys at the top."""
    def change(data):
        data.update(random=True, **pairs)
        data["scenario"]["hop"][1]["forward"]["loss_pct"] = 1
    return change


class FakeLab:
    """A lab whose runs are what their scenarios say, and that plays none."""

    image = image.Image("6.1.0", image.BUILD / "vmlinuz", image.BUILD / "initramfs", "abc", (), {})

    def identity(self, scenario, extra):
        return scenario.digest()


# ---- data files ------------------------------------------------------------

def test_axes_become_cells():
    one = read()
    assert len(one.cells) == 2 * (3 + 1)
    by_labels = {tuple(each.labels.values()): each for each in one.cells}
    today = by_labels["large", "Hybla", "today"].scenario
    assert (today.flows[0].cc, today.flows[0].bytes, today.sender.initcwnd) == ("hybla", 1_000_000, 10)
    assert by_labels["small", "Reno", "of the time"].scenario.flows[0].bytes == 100_000
    assert by_labels["small", "Ideal", "of the time"].formula == "ideal_transfer_s"
    assert one.paper_values["large", "Hybla"] == 5
    assert one.paper_settings == "of the time"


def bad_axis(number, **pairs):
    return lambda data: data["axis"][number]["values"][0].update(pairs)


@pytest.mark.parametrize("change, message", [
    (put(colour="red"), 'colour = "red": unknown key'),
    (lambda data: data.pop("source"), "source: missing"),
    (lambda data: data["claim"][0].update(maybe=1), r"claim\[0\].maybe = 1: unknown key"),
    (bad_axis(0, colour="x"), r'axis\[0\].values\[0\].colour = "x": unknown key'),
    (bad_axis(0, set={"hop.moon.forward.rate_mbit": 1}), "no entry 'moon'"),
    (bad_axis(0, set={"flow.0.cc.x": 1}), "below an entry that is not a table"),
    (bad_axis(0, set={"flow.0.colour": 1}), r"scenario.flow\[0\].colour = 1: unknown key"),
    (bad_axis(0, only={"planet": ["x"]}), "only: there is no axis 'planet'"),
    (lambda data: data.update(rfc5166=["speed"]), r'rfc5166\[0\] = "speed": one of "throughput"'),
    (bad_axis(0, label="large"), "two cells have these labels"),
    (bad_axis(1, formula="guess"), r'values\[0\].formula = "guess": one of "", "ideal'),
    (put(metric="speed"), 'metric = "speed": one of '),
    (put(arguments={"flaw": 1}), r"arguments.flaw = 1: unknown key \(known: flow, since\)"),
    (put(arguments={"since": "sin"}), 'arguments.since = "sin": one of "syn", "data"'),
    (put(arguments={"flow": 1}), "arguments: small, Reno, of the time: no flow 1, there are 1"),
    (put(better="faster"), 'better = "faster": one of "less", "more", "one"'),
    (put(better="one"), r'better = "one" is for experiments without a \[gain\] and a paper.s values'),
    (put(table={"rows": ["file"], "columns": []}), "table has"),
    (put(paper={"small": {"Vegas": 1.0}}), "has no cell"),
    (put(paper={"small": 1.0}), "paper.small = 1.0: a number or 'never', 2 labels deep"),
    (lambda data: data["claim"][0].update(left={"TCP": "Vegas"}), "TCP has no 'Vegas'"),
    (lambda data: data["claim"][0].update(value=1), "exactly one of right and value"),
    (lambda data: data["claim"][0].update({"is": "better"}),
     r'claim\[0\].is = "better": one of "less", "more", "within"'),
    (lambda data: data["claim"][0].update(right={"file": "small"}), "name different axes"),
    (lambda data: data["claim"][0].update(left={"TCP": ["Hybla", "Reno"]}),
     "TCP has 'Reno' in left and right"),
    (lambda data: data["figure"][0].update(kind="pie"), r'figure\[0\].kind = "pie": one of "lines"'),
    (lambda data: data["figure"][0].update(x="planet"), "no axis 'planet'"),
    (lambda data: data["figure"][2].update(metric="colour"),
     r'figure\[2\].metric = "colour": one of ""'),
    (lambda data: data.pop("scenario"), r"exactly one of \[scenario\] and \[gain\]"),
    (put(statistic="least"), 'statistic = "least": one of "mean", "max"'),
])
def test_an_error_names_the_file_and_the_mistake(change, message):
    with pytest.raises(LabError, match=message) as caught:
        read(change)
    assert "one.toml" in str(caught.value)


def test_set_reaches_lists_quoted_keys_and_missing_tables():
    table = {"hop": [{"name": "a"}, {"name": "b"}]}
    experiment.put(table, "hop.b.forward.rate_mbit", 2, "here")
    experiment.put(table, "hop.*.x", 1, "here")
    experiment.put(table, "hop.0.y", 3, "here")
    experiment.put(table, 'receiver.sysctl."net.ipv4.tcp_rmem"', "1 2 3", "here")
    assert table == {"hop": [{"name": "a", "x": 1, "y": 3},
                             {"name": "b", "forward": {"rate_mbit": 2}, "x": 1}],
                     "receiver": {"sysctl": {"net.ipv4.tcp_rmem": "1 2 3"}}}


def test_copies_of_a_flow():
    table = {"flow": [{"cc": "reno", "bytes": 1, "copies": 3, "apart_s": 0.5},
                      {"cc": "bbr", "bytes": 2}]}
    flows = experiment.copied_flows(table, "here")["flow"]
    assert [flow.get("start_s", 0) for flow in flows] == [0, 0.5, 1, 0]
    assert [flow["cc"] for flow in flows] == 3 * ["reno"] + ["bbr"]
    with pytest.raises(LabError, match="copies = 0: a whole number from 1"):
        experiment.copied_flows({"flow": [{"copies": 0}]}, "here")


def test_like_copies_the_keys_of_another_file(tmp_path):
    folder = tmp_path / "caini"
    folder.mkdir()
    (folder / "paper.toml").write_text(ABOUT)
    (folder / "one.toml").write_text("""
title = "One"
source = "s"
what = "w"
metric = "transfer_s"
unit = "s"
better = "less"
[scenario]
hop = [ { name = "gateway", forward = { rate_mbit = 2, queue_packets = 40 } },
        { name = "satellite", forward = { delay_ms = 500 } } ]
flow = [ { cc = "reno", bytes = 1000 } ]
[[axis]]
name = "file"
values = [ { label = "small" }, { label = "large", set = { "flow.0.bytes" = 5000 } } ]
[table]
rows = ["file"]
columns = []
""")
    head = "".join(f'{key} = "{value}"\n' for key, value in (
        ("title", "Two"), ("source", "s"), ("what", "w"), ("metric", "transfer_s"), ("unit", "s"),
        ("better", "less")))
    (folder / "two.toml").write_text(head + """
[like]
experiment = "one"
set = { "hop.satellite.forward.loss_pct" = 1 }
keep = { file = ["large"] }
""")
    _, two = experiment.load_all(["caini"], tmp_path)
    only, = two.cells
    assert (only.scenario.flows[0].bytes, only.scenario.hops[1].forward.loss_pct) == (5000, 1)
    (folder / "two.toml").write_text(head + '[like]\nexperiment = "one"\nkeep = { file = ["huge"] }\n')
    with pytest.raises(LabError, match="does not have all of"):
        experiment.load_all(["caini"], tmp_path)


def test_copied_axes_come_before_the_files_own(tmp_path):
    """A value of one's own is set after the other's: it is what counts."""
    folder = tmp_path / "caini"
    folder.mkdir()
    (folder / "paper.toml").write_text(ABOUT)
    axes = '''
[[axis]]
name = "file"
values = [ { label = "small" }, { label = "large", set = { "flow.0.bytes" = 5000 } } ]
[[axis]]
name = "%s"
values = [ { label = "plain" }, { label = "%s", set = { "flow.0.%s } } ]
[table]
rows = ["file"]
columns = ["%s"]
'''
    head = "".join(f'{key} = "{value}"\n' for key, value in (
        ("title", "T"), ("source", "s"), ("what", "w"), ("metric", "transfer_s"), ("unit", "s"),
        ("better", "less")))
    (folder / "one.toml").write_text(head + """
[scenario]
hop = [ { name = "gateway", forward = { rate_mbit = 2, queue_packets = 40 } } ]
flow = [ { cc = "reno", bytes = 1000 } ]
""" + axes % ("TCP", "Hybla", 'cc" = "hybla"', "TCP"))
    like = '[like]\nexperiment = "one"\naxes = ["%s"]\nkeep = { file = "large" }\n'
    own = axes % ("size", "huge", 'bytes" = 9000', "size")
    own = own[own.index("[[axis]]", 9):]
    (folder / "two.toml").write_text(head + like % "file" + own)
    _, two = experiment.load_all(["caini"], tmp_path)
    assert [(tuple(cell.labels.items()), cell.scenario.flows[0].bytes) for cell in two.cells] == [
        ((("file", "large"), ("size", "plain")), 5000), ((("file", "large"), ("size", "huge")), 9000)]
    (folder / "two.toml").write_text(head + like % "weather" + own)
    with pytest.raises(LabError, match="one has no axis 'weather'"):
        experiment.load_all(["caini"], tmp_path)


ABOUT = 'citation = "A paper, 2020"\nyear = 2020\n'


def test_a_new_folder_is_a_paper(tmp_path):
    """Without a line of Python: one file says what it is, the others are its experiments."""
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "paper.toml").write_text(ABOUT.replace("2020", "1990"))
    (tmp_path / "goals").mkdir()
    (tmp_path / "goals" / "paper.toml").write_text('citation = "Goals"\ngoals = true\n')
    folder = tmp_path / "newer"
    folder.mkdir()
    (folder / "paper.toml").write_text(ABOUT)
    for name in ("older", "goals", "newer"):
        shutil.copy(experiment.FOLDER / "marchese" / "table1.toml", tmp_path / name)
    assert list(experiment.papers(tmp_path)) == ["older", "newer", "goals"]
    assert [one.id for one in experiment.load_all(folder=tmp_path)] == ["older/table1", "newer/table1"]


@pytest.mark.parametrize("files, error", [
    ({"one.toml": ""}, "new: no paper.toml, which names the paper of the folder"),
    ({"paper.toml": ABOUT}, "new: no experiment beside paper.toml"),
    ({"paper.toml": 'citation = "A paper"\n', "one.toml": ""}, "new/paper.toml: year is missing"),
    ({"paper.toml": ABOUT + 'authors = "A"\n', "one.toml": ""}, "new/paper.toml: authors = "),
])
def test_a_half_made_paper_is_one_line(tmp_path, files, error):
    (tmp_path / "new").mkdir()
    for name, text in files.items():
        (tmp_path / "new" / name).write_text(text)
    with pytest.raises(LabError, match=error):
        experiment.load_all(folder=tmp_path)


def test_an_axis_of_policies_that_no_experiment_has_is_one_line(tmp_path):
    (tmp_path / "new").mkdir()
    shutil.copy(experiment.FOLDER / "marchese" / "table1.toml", tmp_path / "new")
    (tmp_path / "new" / "paper.toml").write_text(ABOUT + 'policies = ["TCP", "TPC"]\n')
    with pytest.raises(LabError, match="new/paper.toml: policies: no experiment has an axis TPC; "):
        experiment.load_all(folder=tmp_path)


def test_an_unknown_paper_is_an_error_with_the_known_papers(tmp_path):
    known = ", ".join(experiment.papers())
    with pytest.raises(LabError, match=f"no paper caine; there are: {known}$"):
        experiment.load_all(["caine"])


def test_one_experiment_is_chosen_with_those_it_is_computed_from():
    assert [one.id for one in experiment.load_all(["satcc/loss", "satcc/loss"])] == ["satcc/loss"]
    assert {one.name for one in experiment.load_all(["satcc/harm"])} == {
        "harm", "shares-theirs", "shares-alone"}
    with pytest.raises(LabError, match="satcc: no experiment nosuch; there are: aqm, harm, "):
        experiment.load_all(["satcc/nosuch"])


@pytest.mark.parametrize("words, error", [
    (["marchese/nosuch"], "no experiment marchese/nosuch; python3 -m bench papers list prints them"),
    (["marchese/table1", "TCP=Vegas"], "marchese/table1: no cell with TCP=Vegas; its axes: .*TCP="),
    (["marchese/table1", "MTSI"], "marchese/table1: no cell with MTSI; its axes: "),
])
def test_an_unknown_cell_is_an_error_with_the_axes(words, error):
    with pytest.raises(LabError, match=error):
        play.cells_of(words[0], words[1:])


def test_one_cell_is_played_by_its_labels(monkeypatch):
    """Its value is printed beside the paper's."""
    chosen, cells = play.cells_of("marchese/table1", ["TCP=MTSI"])
    assert cells and all(cell.labels["TCP"] == "MTSI" for cell in cells)
    played = []
    monkeypatch.setattr(play, "Lab", lambda *arguments: None)
    run = types.SimpleNamespace(folder=TOP / "build/runs/1")
    monkeypatch.setattr(play.cell, "value_of", lambda lab, experiment, cell, seed: (
        played.append((cell.labels, seed)) or 1.5, run))
    console = Console(file=io.StringIO(), width=200)
    play.play_cells(types.SimpleNamespace(experiment="marchese/table1", label=["TCP=MTSI"], seed=2,
                                          kernel="6.1"), console)
    assert played == [(cell.labels, 2) for cell in cells]
    stated = chosen.paper_values[chosen.key(cells[0])]
    assert f"1.5 {chosen.unit}, the paper: {stated}; build/runs/1" in console.file.getvalue()


def test_every_file_of_the_papers_can_be_read():
    experiments = experiment.load_all()
    known = experiment.papers().items()
    assert {one.paper for one in experiments} == {name for name, paper in known if not paper.goals}
    table3 = next(one for one in experiments if one.id == "marchese/table3")
    # The paper's own sum for 3 MB at 2 Mbit/s.
    ideal = next(table3.matching({"rate": "2 Mbit/s", "file": "3 MB", "TCP": "Ideal"}))
    assert metrics.FORMULAS[ideal.formula](ideal.scenario) == pytest.approx(13.54, abs=0.005)


@pytest.mark.parametrize("errors, lost", [
    ({"ber": 1e-6}, 1 - (1 - 1e-6) ** 12000),
    ({"good_s": 1, "bad_s": 1, "loss_good_pct": 1, "loss_bad_pct": 1}, 0.01),
    ({"good_s": 9, "bad_s": 1, "loss_bad_pct": 50}, 0.05)])
def test_the_ideal_has_the_links_losses(errors, lost):
    """The paper's ideal of table 8 is that of table 3 at 99 % of the rate."""
    assert satellite.Errors(**errors).mean_loss(1500) == pytest.approx(lost)
    plain = read().cells[0].scenario
    hops = [dataclasses.replace(hop, forward=dataclasses.replace(
        hop.forward, errors=satellite.Errors(**errors))) if hop.name == "satellite" else hop
        for hop in plain.hops]
    with_errors = dataclasses.replace(plain, hops=tuple(hops))
    sent = [metrics.ideal_transfer_s(each) - each.base_rtt_s for each in (plain, with_errors)]
    assert sent[0] / sent[1] == pytest.approx(1 - lost)


def test_coded_frames_have_no_mean_of_their_own():
    with pytest.raises(LabError, match="coded frames"):
        satellite.Errors(frame_bytes=1000, frame_ms=1, frame_loss_pct=1).mean_loss(1500)


# ---- plans -----------------------------------------------------------------

def test_cells_that_ask_for_one_run_share_it():
    first = read()
    second = dataclasses.replace(read(put(metric="retransmits", figure=[])), name="two")
    planned = plan.make([first, second], FakeLab())
    assert len(planned["jobs"]) == 6               # not the formula's
    keys = {key for job in planned["jobs"].values() for key in job["measures"]}
    assert keys == {plan.measure_key("transfer_s", {}), plan.measure_key("retransmits", {}),
                    plan.measure_key("cwnd", {})}
    assert planned["cells"]["somebody/one"][0]["jobs"] == planned["cells"]["somebody/two"][0]["jobs"]


def test_only_what_is_random_has_more_than_one_seed():
    assert len(plan.make([read()], FakeLab(), 5)["jobs"]) == 6
    planned = plan.make([read(random())], FakeLab(), 5)
    assert len(planned["jobs"]) == 30
    assert {job["table"]["seed"] for job in planned["jobs"].values()} == {1, 2, 3, 4, 5}


def test_a_cell_without_chance_in_a_random_experiment_has_one_seed():
    def lossy_if_large(data):
        data.update(random=True)
        data["axis"][0]["values"][1]["set"]["hop.satellite.forward.loss_pct"] = 1
    planned = plan.make([read(lossy_if_large)], FakeLab(), 5)
    counts = {tuple(cell["labels"].values()): len(cell["jobs"])
              for cell in planned["cells"]["somebody/one"]}
    assert counts["large", "Reno", "of the time"] == 5
    assert counts["small", "Reno", "of the time"] == 1


def test_an_experiment_has_its_own_number_of_seeds():
    one = read(random(seeds=3))
    assert len(plan.make([one], FakeLab())["jobs"]) == 18
    assert len(plan.make([one], FakeLab(), 2)["jobs"]) == 12, "a number on the command line wins"


@pytest.mark.parametrize("change, chance", [
    ({}, False), ({"hop.satellite.forward.loss_pct": 1}, True),
    ({"hop.satellite.forward.loss_pct": 100}, False),
    ({"hop.satellite.reverse": {"delay_ms": 1, "reorder_pct": 1}}, True),
    ({"hop.satellite.reverse": {"jitter_ms": 1}}, True),
    ({"hop.satellite.forward.duplicate_pct": 1}, True),
    ({"hop.gateway.forward.aqm": "pie"}, True), ({"hop.gateway.forward.aqm": "codel"}, False),
    ({"hop.satellite.reverse": {"errors": {"ber": 1e-6}}}, True),
    ({"hop.satellite.reverse": {"mac": {"phase_ms": -1}}}, True),
    ({"hop.satellite.reverse": {"mac": {}}}, False),
    ({"change": [{"at_s": 5, "hop": "satellite", "forward": {"delay_ms": 500, "loss_pct": 2}}]}, True),
    ({"change": [{"at_s": 5, "hop": "satellite", "forward": {"delay_ms": 600}}]}, False),
    ({"flow.0.cc": "bbr"}, True), ({"flow.0.changes": [[50, "bbr"]]}, True),
    ({"flow": [{"cc": "reno", "tool": "page", "objects": [1000]}]}, True),
    ({"flow": [{"cc": "reno", "tool": "requests", "law": "mah", "count": 2}]}, True),
    ({"flow": [{"cc": "reno", "tool": "background", "law": "mah", "rate_mbit": 0.3, "seconds": 75}]},
     True),
    ({"flow": [{"cc": "reno", "bytes": 100_000}, {"cc": "reno", "bytes": 100_000}]}, True)])
def test_which_scenarios_depend_on_the_seed(change, chance):
    table = copy.deepcopy(DATA["scenario"])
    for path, new in change.items():
        experiment.put(table, path, new, "test")
    assert scenario.from_dict({"title": "test", **table}).has_chance == chance


def test_measures_are_as_old_as_the_code_they_come_from(monkeypatch):
    """The lab's too, whose scenario has the rates; not what only shows them."""
    monkeypatch.setattr(plan.image, "digest", lambda paths: {path.name for path in paths})
    names = plan.code_digest()
    assert {"scenario.py", "flow_view.py", "satellite.py", "metrics.py", "pages.py", "facts.py",
            "cell.py", "westwood_abse.py"} <= names
    assert not names & {"report.py", "verdict.py", "tables.py"}


def test_a_plan_can_be_read_again(tmp_path):
    planned = plan.make([read()], FakeLab())
    plan.write(planned, tmp_path)
    assert plan.read(tmp_path) == planned
    assert plan.image_of(plan.read(tmp_path)) == FakeLab.image
    with pytest.raises(LabError, match="no plan"):
        plan.read(tmp_path / "elsewhere")


# ---- statistics ------------------------------------------------------------

def test_students_interval():
    """Of 2, 4, 6: deviation 2, and 4.3027 of it over the root of 3."""
    estimate = statistics.estimate([2, 4, 6], 95)
    assert estimate.mean == 4
    assert estimate.half == pytest.approx(4.3027 * 2 / math.sqrt(3), rel=1e-4)
    assert statistics.estimate([5], 95).half is None
    assert statistics.quantile(90, 11) == pytest.approx(1.8125, rel=1e-4)


def test_seeds_needed_are_enough_and_one_less_is_not():
    values = [9, 10, 11, 10]
    count = statistics.seeds_needed(values, 95, 5)
    deviation = np.std(values, ddof=1)

    def half(number):
        return statistics.quantile(95, number) * deviation / math.sqrt(number)

    assert half(count) <= 0.5 < half(count - 1)
    assert statistics.seeds_needed([1], 95, 5) is None
    assert statistics.seeds_needed([1, 100], 95, 0.001, most=50) is None


# ---- values and claims by seed ---------------------------------------------

def test_a_claim_is_judged_seed_by_seed(tmp_path):
    """The seeds that both sides have, in whatever order their runs are; what no seed changes stands
    beside each."""
    one = read(random())
    measured = results.Results(finished(tmp_path, [one]), [one], tmp_path)
    key = plan.measure_key(one.metric, one.arguments)
    seen = {"Hybla": {3: 31.0, 1: 11.0, 2: 21.0}, "Reno": {1: 5.0, 2: None, 3: 15.0, 4: 99.0}}
    measured.runs_of = lambda _, cell: [{"seed": seed, "values": {key: value}}
                                        for seed, value in seen[cell.labels["TCP"]].items()]
    cells = {cell.labels["TCP"]: cell for cell in one.cells}

    def seeds(left, right, value=None):
        return measured._seeds(one, cells[left], cells.get(right), value)
    assert seeds("Hybla", "Reno") == [(11.0, 5.0), (21.0, math.inf), (31.0, 15.0)]
    assert seeds("Hybla", "", 7.0) == [(11.0, 7.0), (21.0, 7.0), (31.0, 7.0)]
    ideal, = measured.values(one, cells["Ideal"])
    assert seeds("Hybla", "Ideal") == [(11.0, ideal), (21.0, ideal), (31.0, ideal)]
    assert results.by_common_seed({None: 1}, {None: 2}) == {None: (1, 2)}
    assert results.by_common_seed({1: 1}, {2: 2}) == {}
    assert results.by_common_seed({None: 1}, {5: 2}) == {5: (1, 2)}


def test_a_gain_has_one_value_a_seed(tmp_path):
    """And is as much a matter of chance as what it is computed from."""
    one = read(random())
    two = experiment.expand_gain(
        experiment.from_dict(copy.deepcopy(GAIN), "somebody", "two", "two.toml"), {"one": one})
    assert two.random and not with_gain()[1].random
    measured = results.Results(finished(tmp_path, [one, two]), [one, two], tmp_path)
    key = plan.measure_key(one.metric, one.arguments)
    seen = {"Hybla": {1: 5.0, 2: 9.0, 3: None}, "Reno": {1: 10.0, 2: 10.0, 3: 10.0}}
    measured.runs_of = lambda _, cell: [{"seed": seed, "values": {key: value}}
                                        for seed, value in seen[cell.labels["TCP"]].items()]
    assert measured.by_seed(two, two.cells[0]) == {1: 50.0, 2: pytest.approx(10.0)}
    assert measured.estimate(two, two.cells[0]).half > 0
    largest = dataclasses.replace(one, statistic="max")
    measured.experiments["somebody/one"] = largest
    seen["Hybla"].pop(3)
    assert measured.values(two, two.cells[0]) == [pytest.approx(10.0)]


# ---- causes ----------------------------------------------------------------

CALM = {"cc": "reno", "rtt_s": 0.5, "bdp_packets": 83, "segments": 700, "retransmits": 0,
        "busy_s": 8.0, "min_rtt_s": 0.5, "mss": 1448, "bytes_acked": 1_000_000,
        "rwnd_limited": 0.0, "sndbuf_limited": 0.0, "first_cwnd": 10, "max_cwnd": 90,
        "max_cwnd_s": 5.0, "timeouts": 0, "peer_window": 32000, "max_srtt_s": 0.6, "recovery": 0.0,
        "rounds": [10, 20, 40]}
LOSSY = {"retransmits": 30, "first_loss_s": 2.5, "first_loss_flight": 93, "recovery": 0.4}


def case(ours=10.0, queue_drops=0, link_losses=0, paper=5.0, **flow_facts):
    facts = {"queue_packets": 40, "queue_drops": queue_drops, "link_losses": link_losses,
             "flows": [{**CALM, **flow_facts}]}
    return verdict.Case(paper, ours, "less", "s", facts)


@pytest.mark.parametrize("rule, seen, words", [
    (verdict.receiver_window, case(rwnd_limited=0.8), ["80 %", "32.0 kB", "500 ms"]),
    (verdict.send_buffer, case(sndbuf_limited=0.5), ["50 %", "socket buffer"]),
    (verdict.overflow, case(queue_drops=30, timeouts=1, **LOSSY),
     ["40 packets dropped 30", "2.50 s", "93 segments", "83", "40 %", "1 timeout"]),
    (verdict.link_loss, case(link_losses=7, **LOSSY),
     ["700 segments", "lost 7 packets", "2.50 s", "40 %", "without a timeout"]),
    (verdict.link_loss, case(ours=3.0, link_losses=1, **LOSSY), ["lost 1 packet,"]),
    (verdict.early_avoidance,
     case(avoidance_s=2.0, avoidance_cwnd=3, max_cwnd=57, max_cwnd_s=30.0, busy_s=60.0),
     ["2.00 s", "3 segments", "took 28 s", "57", "0.60 s"]),
    (verdict.timeouts, case(timeouts=2, retransmits=9), ["2 times", "9 of 700"]),
    (verdict.first_windows, case(busy_s=3.0, ours=3.0), ["3 flights of 10, 20, 40", "10.0", "6.0"]),
    (verdict.smooth, case(ours=3.0, max_cwnd=120),
     ["nothing was sent again", "120 segments", "1.00 Mbit/s"]),
    (verdict.numbers, case(), ["700 segments sent", "0 dropped by queues", "90 segments"]),
])
def test_each_cause_is_found_by_its_rule(rule, seen, words):
    text = rule(seen)
    assert all(word in text for word in words), text
    assert verdict.cause(seen) == text


def test_a_cause_needs_the_measure_it_names():
    """Without a capture or a trace the last rule still has numbers."""
    bare = dataclasses.replace(case(), facts={
        "queue_packets": 40, "queue_drops": 3, "link_losses": 0, "flows": [{"cc": "reno"}]})
    assert verdict.cause(bare) == "reno: 3 dropped by queues, 0 lost on links."


def test_zero_counts_are_left_out():
    text = verdict.described(case(rwnd_limited=0.004, sndbuf_limited=0.2).facts, 0)
    assert "receiver's window" not in text and text.endswith("the send buffer for 20 % of the time")


def test_a_run_of_one_segment_shows_nothing():
    """Pings, beside a flow that only has to be there."""
    assert verdict.cause(case(segments=1)) == "Nothing was transferred that could show why."


def test_a_cause_without_timeout_counts_does_not_mention_timeouts():
    seen = case(link_losses=7, **LOSSY)
    del seen.facts["flows"][0]["timeouts"]
    assert "30 of them again" in verdict.cause(seen) and "timeout" not in verdict.cause(seen)


def test_a_slow_start_that_filled_the_path_was_not_too_short():
    flow_facts = {"avoidance_s": 3.0, "avoidance_cwnd": 60, "max_cwnd": 90}
    assert verdict.early_avoidance(case(**flow_facts)) is None
    flow_facts["avoidance_cwnd"] = 40
    assert verdict.early_avoidance(case(**flow_facts))
    assert verdict.early_avoidance(case(**flow_facts, retransmits=1)) is None
    assert verdict.early_avoidance(case(ours=3.0, **flow_facts)) is None


def test_when_slow_start_was_over(tmp_path):
    """The first segment that came in with a window that had reached ssthresh."""
    kind = [("dport", "u2"), ("snd_cwnd", "u4"), ("ssthresh", "u4"), ("snd_wnd", "u4"), ("srtt", "u4")]
    far = 0x7FFFFFFF
    rows = [(5001, 3, far), (5002, 9, 9), (5001, 6, far), (5001, 12, 12), (5001, 13, 12)]
    records = np.array([(port, cwnd, ssthresh, 65535, 600_000) for port, cwnd, ssthresh in rows], kind)
    times = np.arange(5) * 500_000_000
    (tmp_path / "trace.raw").touch()

    def found(rows):
        return facts._windows(types.SimpleNamespace(
            folder=tmp_path, events={"tcp:tcp_probe": (times[:rows], records[:rows])}), 0)

    assert (found(5)["avoidance_s"], found(5)["avoidance_cwnd"]) == (1.5, 12)
    assert (found(5)["first_cwnd"], found(5)["max_cwnd"]) == (3, 13)
    assert "avoidance_s" not in found(3)


def test_a_split_flows_cause_comes_from_its_first_connection():
    """Whatever that one waited for was not what the value is of."""
    text = verdict.cause(case(rwnd_limited=0.8, proxied=True))
    assert text.startswith("reno (its connection to the proxy): 700 segments")


def test_facts_count_drops_of_queues_and_of_policers_once(monkeypatch):
    """A shaper counts its child's drops too; a policer is a shaper without a child."""
    qdiscs = {
        "qdisc-gateway.json": [
            {"kind": "noqueue", "handle": "0:", "dev": "left", "root": True, "drops": 0},
            {"kind": "tbf", "handle": "1:", "dev": "right", "root": True, "drops": 7},
            {"kind": "pfifo", "handle": "2:", "dev": "right", "parent": "1:", "drops": 7}],
        "qdisc-policer.json": [
            {"kind": "tbf", "handle": "8001:", "dev": "right", "root": True, "drops": 2669}],
        "qdisc-satellite.json": [
            {"kind": "netem", "handle": "1:", "dev": "left", "root": True, "drops": 30},
            {"kind": "tbf", "handle": "1:", "dev": "right", "root": True, "drops": 500},
            {"kind": "netem", "handle": "2:", "dev": "right", "parent": "1:", "drops": 500}]}
    monkeypatch.setattr(facts, "_satellites", lambda _: [])
    hops = [types.SimpleNamespace(name=name) for name in ("gateway", "policer", "satellite")]
    run = types.SimpleNamespace(
        scenario=types.SimpleNamespace(hops=hops, bottleneck=None, flows=[]), json=qdiscs.get)
    counted = facts.of_run(run)
    assert (counted["queue_drops"], counted["link_losses"]) == (7 + 2669, 30 + 500)


def test_facts_of_a_split_flow_end_at_the_proxy(monkeypatch):
    """The proxy's own socket has the same port at the receiver: windows would be of both."""
    played = read().cells[0].scenario
    hops = (dataclasses.replace(played.hops[0], pep="cubic"), *played.hops[1:])
    monkeypatch.setattr(facts, "_tcp_info", lambda *_: {})
    monkeypatch.setattr(facts, "_windows", lambda *_: {"max_cwnd": 9})
    monkeypatch.setattr(metrics, "has_capture", lambda *_: False)
    direct, split = (facts.of_flow(types.SimpleNamespace(scenario=scenario), 0)
                     for scenario in (played, dataclasses.replace(played, hops=hops)))
    assert (direct["proxied"], split["proxied"]) == (False, True)
    assert direct["max_cwnd"] == 9 and "max_cwnd" not in split


def test_a_cause_says_that_the_value_was_never_reached():
    assert verdict.cause(case(ours=None)).startswith("The run did not reach the value. ")


def test_the_cause_of_a_gain_is_in_its_two_values():
    text = verdict.explain_gain([("MTSI", "(run a)", 12.0, 10.0), ("Reno", "(run b)", 5.0, None)])
    assert "MTSI is 1.20 times the paper's 10 (run a); Reno is 5" in text and "(run b)" in text


# ---- results and report ----------------------------------------------------

VALUES = {("small", "Reno"): 2.1, ("small", "Hybla"): 1.6, ("large", "Reno"): 30.0,
          ("large", "Hybla"): 9.0}


LINK = [{"check": "rates", "what": "10 Mbit/s, overloaded", "unit": "Mbit/s", "measured": 9.9991,
         "expected": 10.0, "low": 9.99, "high": 10.01, "passed": True},
        {"check": "bit_errors", "what": "BER 1e-5, 1500 bytes (5000 draws)", "unit": "%",
         "measured": 13.77, "expected": 11.31, "low": 10.2, "high": 12.5, "passed": False}]


def finished(tmp_path, experiments, values=VALUES, left_out=0):
    """Jobs' files with the values by file and TCP, as if they had been run."""
    planned = plan.make(experiments, FakeLab())
    plan.write(planned, tmp_path)
    plan.link_path(planned, tmp_path).write_text(json.dumps(LINK))
    written = set()
    for entry in planned["cells"]["somebody/one"]:
        value = values[tuple(entry["labels"].values())[:2]] if entry["jobs"] else None
        for job in entry["jobs"]:
            if job in written:
                continue
            written.add(job)
            content = {"job": job, "hash": hashlib.sha256(job.encode()).hexdigest(), "seed": 1,
                       "folder": f"build/runs/{job}", "wall_s": 6.0, "expected_wall_s": 3.0,
                       "from_cache": False, "kernel": "6.1.0",
                       "facts": case(queue_drops=30, **LOSSY).facts,
                       "oracle": {"counts": {"mtsi": {"flows": 1, "events": 9, "changes": 4}},
                                  "differences": [], "unchecked": {}},
                       "values": {plan.measure_key("transfer_s", {}): value,
                                  plan.measure_key("cwnd", {}): {"t": [0, 1, 2], "y": [10, 20, 40]}}}
            if len(written) > left_out:
                path = plan.cell_path(job, tmp_path)
                path.parent.mkdir(exist_ok=True)
                path.write_text(json.dumps(content))
    return planned


def with_gain():
    one = read()
    two = experiment.from_dict(copy.deepcopy(GAIN), "somebody", "two", "two.toml")
    return [one, experiment.expand_gain(two, {"one": one, "two": two})]


def test_values_verdicts_and_causes(tmp_path):
    both = with_gain()
    data = results.Results(finished(tmp_path, both), both, tmp_path).as_dict()
    one, two = data["experiments"]
    by_labels = {tuple(entry["labels"].values()): entry for entry in one["cells"]}
    assert by_labels["small", "Reno", "of the time"]["verdict"] == verdict.REPRODUCED
    assert by_labels["large", "Hybla", "of the time"]["verdict"] == verdict.SAME_ORDER
    missed = by_labels["large", "Reno", "of the time"]
    assert missed["verdict"] == verdict.NOT and "dropped 30" in missed["cause"]
    assert missed["jobs"][0][:8] in missed["cause"]
    assert by_labels["large", "Hybla", "today"]["verdict"] is None
    assert by_labels["small", "Ideal", "of the time"]["verdict"] is None
    gains = {tuple(entry["labels"].values()): entry["mean"] for entry in two["cells"]}
    assert gains["small", "of the time"] == pytest.approx(100 * (2.1 - 1.6) / 2.1)
    assert [entry["verdict"] for entry in two["cells"] if entry["verdict"]] == [
        verdict.REPRODUCED, verdict.NOT]
    assert "3.75 times the paper's 8" in two["cells"][2]["cause"]
    claim, = one["claims"]
    assert claim["verdict"] == verdict.HOLDS and len(claim["pairs"]) == 2
    assert tables.claim_causes(claim) == []
    counted = results.counts(data)["somebody"]
    assert list(counted["values"].values()) == [3, 1, 2, 0, 0]
    assert list(counted["claims"].values()) == [1, 0, 0]


def test_a_claim_that_does_not_hold_shows_both_runs(tmp_path):
    one = read(lambda data: data["claim"][0].update({"is": "more"}))
    data = results.Results(finished(tmp_path, [one]), [one], tmp_path).as_dict()
    claim, = data["experiments"][0]["claims"]
    assert claim["verdict"] == verdict.FAILS
    (_, pair, cause), *_ = tables.claim_causes(claim)
    assert pair == "small, Hybla"
    assert cause.count("700 segments sent, 30 of them again") == 2 and cause.count("(run ") == 2


def test_a_gain_of_what_should_be_more_is_the_increase(tmp_path):
    one = read(put(better="more"))
    two = experiment.from_dict(copy.deepcopy(GAIN), "somebody", "two", "two.toml")
    both = [one, experiment.expand_gain(two, {"one": one, "two": two})]
    data = results.Results(finished(tmp_path, both), both, tmp_path).as_dict()
    gains = {tuple(entry["labels"].values()): entry["mean"] for entry in data["experiments"][1]["cells"]}
    assert gains["small", "of the time"] == pytest.approx(100 * (1.6 - 2.1) / 2.1)


def test_a_maximum_over_seeds_has_no_interval(tmp_path, monkeypatch):
    one = read(random(statistic="max"))
    measured = results.Results(finished(tmp_path, [one]), [one], tmp_path)
    monkeypatch.setattr(measured, "values", lambda *_: [1.0, 3.0, 2.0])
    assert measured.estimate(one, one.cells[0]) == statistics.Estimate(3.0, None, 3)


def test_a_gain_refers_to_cells_of_other_experiments():
    _, two = with_gain()
    assert [tuple(each.labels.values()) for each in two.cells] == [
        ("small", "of the time"), ("small", "today"), ("large", "of the time"), ("large", "today")]
    data = copy.deepcopy(GAIN)
    data["gain"]["value"]["experiment"] = "three"
    other = experiment.from_dict(data, "somebody", "two", "two.toml")
    with pytest.raises(LabError, match="no experiment 'three'"):
        experiment.expand_gain(other, {"one": read(), "two": other})


def test_a_run_that_never_reached_the_value(tmp_path):
    one = read()
    values = {**VALUES, ("large", "Reno"): None}
    data = results.Results(finished(tmp_path, [one], values), [one], tmp_path).as_dict()
    entry = next(entry for entry in data["experiments"][0]["cells"]
                 if list(entry["labels"].values()) == ["large", "Reno", "of the time"])
    assert entry["verdict"] == verdict.NOT and entry["cause"].startswith("The run did not reach")
    claim, = data["experiments"][0]["claims"]
    assert claim["of"] == len(claim["pairs"]) == 2      # and it is in the claim, as the worst


def test_a_ratio_to_nothing_exceeds_every_bound(tmp_path):
    """Ours took all, so the ratio to the others' share has no value.  "At most three" does not hold."""
    def change(data):
        data.update(better="one")
        data.pop("paper")
        data["claim"] = [{"text": "at most three", "left": {"TCP": "Reno"}, "value": 3, "is": "less"}]
    one = read(change)
    values = {**VALUES, ("small", "Reno"): 2.0, ("large", "Reno"): None}
    data = results.Results(finished(tmp_path, [one], values), [one], tmp_path).as_dict()
    claim, = data["experiments"][0]["claims"]
    assert [pair["verdict"] for pair in claim["pairs"]] == [verdict.HOLDS, verdict.FAILS]


def test_a_claim_with_an_unmeasured_pair_has_no_verdict(tmp_path):
    one = read()
    data = results.Results(finished(tmp_path, [one], left_out=1), [one], tmp_path).as_dict()
    claim, = data["experiments"][0]["claims"]
    assert len(claim["pairs"]) == 1 and claim["of"] == 2 and claim["verdict"] is None
    assert "measured" in tables.claim_text(claim)


def test_the_round_trip_is_the_flows_own():
    """Hosts beside the line have delays, and need not pass all of it."""
    one = next(one for one in experiment.load_all(["henderson"]) if one.name == "figure7")
    by_topology = {cell.labels["topology"]: cell.scenario for cell in one.cells}
    assert [by_topology["1"].rtt_s(flow) for flow in by_topology["1"].flows] == [0.6, 0.01, 0.1]
    assert [list(by_topology["3"].way(flow)) for flow in by_topology["3"].flows] == [
        [0, 1, 2, 3, 4], [0], [1], [2], [3], [4], [0]]
    far = dataclasses.replace(by_topology["3"], leaves=tuple(
        dataclasses.replace(leaf, delay_ms=7) if leaf.name == "to3" else leaf
        for leaf in by_topology["3"].leaves))
    assert [far.rtt_s(flow) for flow in far.flows[1:3]] == [0.01, 0.017]
    path = results._path(one, one.cells[0])
    assert tables.path_text(path) == (
        "1.52 Mbit/s, 600 ms, rate × RTT 113, queue 50 packets, no loss, 3 flows")


def test_a_failed_claim_names_the_other_side(tmp_path):
    one = read(lambda data: data["claim"][0].update(left={"TCP": "Reno"}, right={"TCP": "Hybla"}))
    data = results.Results(finished(tmp_path, [one]), [one], tmp_path).as_dict()
    claim, = data["experiments"][0]["claims"]
    text = tables.claim_text(claim)
    assert re.search(r"not for small, Reno: \S+ beside \S+ of Hybla;", text) and "surely" not in text


@pytest.mark.parametrize("left_out", [0, 4])
def test_the_report_is_drawn_from_the_finished_runs(tmp_path, left_out):
    both = with_gain()
    measured = results.Results(finished(tmp_path, both, left_out=left_out), both, tmp_path)
    about = {"kernel": "6.1.0", "emulator": "QEMU 7.2", "seeds": 1, "date": "2026-01-01", "commit": None}
    data = report.write(measured, about, tmp_path)
    assert report.read(tmp_path) == json.loads(json.dumps(data))
    index, page, text = ((tmp_path / name).read_text()
                         for name in ("index.html", "somebody.html", "papers.md"))
    assert "short flows" in index
    assert "2 figures, 1 outside" in " ".join(index.split()) and "13.77" in index
    assert page.count("<img") == 3 and "The sky is bluer." in page and "CTCP: not in Linux" in page
    assert ("4 runs are not done" in index) == bool(left_out)
    if not left_out:
        assert "Hybla" in index
        assert "| large | ≠ 30 (8, ×3.75) | ≈ 9 (5, ×1.80) [9] |" in text
        assert "(run " in page and "dropped 30" in page
        assert "holds in 2 of 2" in text


def test_the_report_opens_with_its_answer_and_says_of_goals_what_they_have(tmp_path, monkeypatch):
    """Goals have no values of a paper, so nothing is said of any."""
    one = read()
    measured = results.Results(finished(tmp_path, [one]), [one], tmp_path)
    about = {"kernel": "6.1.0", "emulator": "QEMU 7.2", "seeds": 1, "date": "2026-01-01", "commit": None}

    def written(kind):
        monkeypatch.setattr(report.experiment, "papers", lambda: {"somebody": kind})
        report.write(measured, about, tmp_path)
        return [(tmp_path / name).read_text() for name in ("index.html", "somebody.html")]
    index, page = written(experiment.Paper("Somebody", 2000))
    heads = re.findall(r"<h2.*?>(.*?)</h2>", index)
    assert (heads[0], heads[-1]) == ("Which policy for which link", "What the verdicts mean")
    assert "How far the papers are reproduced" in heads and "What the paper says" in page
    index, page = written(experiment.Paper("Goals of somebody", goals=True))
    assert re.findall(r"<h2.*?>(.*?)</h2>", index)[:2] == ["Which policy for which link", "Goals"]
    assert "the paper's" not in index and "the paper's" not in page.partition("<h2")[0]
    assert "What the paper says" not in page and "<h3>Goals</h3>" in page


def test_a_report_in_which_no_policy_is_best_has_no_table_of_the_best(tmp_path):
    one = read(put(link=""))
    about = {"kernel": "6.1.0", "emulator": "QEMU 7.2", "seeds": 1, "date": "2026-01-01", "commit": None}
    report.write(results.Results(finished(tmp_path, [one]), [one], tmp_path), about, tmp_path)
    index = (tmp_path / "index.html").read_text()
    assert re.findall(r"<h2.*?>(.*?)</h2>", index)[0] == "How far the papers are reproduced"
    assert "link by link" not in index and "compared by" not in index


def test_which_policy_for_which_link(tmp_path):
    one = read()
    data = results.Results(finished(tmp_path, [one]), [one], tmp_path).as_dict()
    by_link = tables.contests(data)
    assert list(by_link) == ["GEO"]
    assert [contest.ranked[0][0] for contest in by_link["GEO"]] == ["Hybla", "Hybla"]
    assert tables.winners(by_link["GEO"]) == {
        "a transfer's time": {"of the time": [("Hybla", 2, 2), ("Reno", 0, 2)]}}
    assert tables.leaders([("a", 2, 2), ("b", 2, 2), ("c", 1, 1), ("d", 0, 2)]) == [
        ("a", 2, 2), ("b", 2, 2)]
    assert tables.all_settings(by_link) == ["of the time"]
    assert tables.path_text(by_link["GEO"][0].path) == (
        "2 Mbit/s, 500 ms, rate × RTT 83, queue 40 packets, no loss, 1 flow")


def contests_of(tmp_path, *experiments, values=VALUES):
    data = results.Results(finished(tmp_path, list(experiments), values), list(experiments),
                           tmp_path).as_dict()
    return data, tables.contests(data)["GEO"]


def test_a_question_asked_twice_of_the_same_runs_counts_once(tmp_path):
    data, once = contests_of(tmp_path, read())
    again = {**copy.deepcopy(data["experiments"][0]), "metric": "throughput_kbyte", "better": "more"}
    other = {**copy.deepcopy(again), "arguments": {"flow": 1}}
    drops = {**copy.deepcopy(again), "metric": "retransmits"}
    nothing = {**copy.deepcopy(again), "metric": "owin_kbyte"}

    def count(*more):
        return len(tables.contests({**data, "experiments": data["experiments"] + list(more)})["GEO"])
    assert len(once) == count(again) == count(nothing) == 2
    assert count(other) == count(drops) == 4


def test_contests_are_counted_by_question_and_settings(tmp_path):
    """A policy may be the fastest and lose the most: two questions, two winners."""
    data, _ = contests_of(tmp_path, read())
    drops = {**copy.deepcopy(data["experiments"][0]), "metric": "retransmits", "better": "more"}
    data["experiments"].append(drops)
    winners = tables.winners(tables.contests(data)["GEO"])
    assert {asked: tables.leaders(by["of the time"]) for asked, by in winners.items()} == {
        "a transfer's time": [("Hybla", 2, 2)], "few packets lost": [("Reno", 2, 2)]}


def test_a_policy_that_never_reached_the_value_wins_nothing(tmp_path):
    never = {**VALUES, ("small", "Reno"): None, ("large", "Reno"): None, ("large", "Hybla"): None}
    _, (small, large) = contests_of(tmp_path, read(), values=never)
    assert small.near == ["Hybla"] and large.near == []
    assert small.texts == ["Hybla: 1.6 s", "Reno: never"]
    assert sorted(large.texts) == ["Hybla: never", "Reno: never"]


def test_the_nearest_to_one_is_best(tmp_path):
    """Of shares: 1.2 is better than 0.7, and no value is last.  The page says what is best."""
    one = read(lambda data: (data.update(better="one"), data.pop("paper")))
    shares = {("small", "Hybla"): 1.2, ("small", "Reno"): 0.7,
              ("large", "Hybla"): 1.6, ("large", "Reno"): None}
    _, (small, large) = contests_of(tmp_path, one, values={**VALUES, **shares})
    assert [name for name, _ in small.ranked] == [name for name, _ in large.ranked] == ["Hybla", "Reno"]
    about = {"kernel": "6.1.0", "emulator": "QEMU 7.2", "seeds": 1, "date": "2026-01-01", "commit": None}
    report.write(results.Results(plan.read(tmp_path), [one], tmp_path), about, tmp_path)
    assert "Unit: s; 1 is best." in (tmp_path / "somebody.html").read_text()


@pytest.mark.parametrize("label, policy, shown", [
    ("Hybla", "hybla_full", "Hybla (hybla_full)"), ("SACK", "reno", "SACK (reno)"),
    ("MTSI", "mtsi", "MTSI"), ("NewReno", "reno", "NewReno"), ("BIC", "bic", "BIC"),
    ("IW 6, 320 kB", "mtsi", "IW 6, 320 kB (mtsi)")])
def test_a_policy_has_the_papers_name_and_the_modules(tmp_path, label, policy, shown):
    def change(data):
        data["axis"][1]["values"][1].update(label=label, set={"flow.*.cc": policy})
        data["axis"][2]["values"][1]["only"] = {"TCP": [label]}
        data["claim"], data["paper"] = [], {}
    values = {**VALUES, ("small", label): 1.0, ("large", label): 1.0}
    _, by_link = contests_of(tmp_path, read(change), values=values)
    assert all(shown in dict(contest.ranked) for contest in by_link)


def test_every_measure_of_a_policy_is_asked_for_or_left_out_on_purpose():
    """A metric that no question has would leave its experiments out of the summary by links."""
    known = {metric for asked in tables.questions().values() for metric in asked}
    assert known <= set(metrics.METRICS)
    used = {one.metric for one in experiment.load_all()
            if one.link and not one.gain
            and {axis.name for axis in one.axes} & set(experiment.policy_axes(one.paper))}
    assert used - known == {"owin_kbyte", "first_recovery_s"}


def test_a_gain_is_not_a_contest(tmp_path):
    """What it is computed from has been one, and it has no path."""
    one = read()
    gain = {**copy.deepcopy(GAIN), "link": "GEO", "paper": {}, "gain": {
        "value": {"experiment": "one"}, "reference": {"experiment": "one", "TCP": "Reno",
                                                      "settings": "of the time"}}}
    gain["table"] = {"rows": ["file"], "columns": ["TCP"]}
    two = experiment.expand_gain(experiment.from_dict(gain, "somebody", "two", "two.toml"), {"one": one})
    data = results.Results(finished(tmp_path, [one, two]), [one, two], tmp_path).as_dict()
    assert any(entry["mean"] is not None for entry in data["experiments"][1]["cells"])
    assert tables.contests({**data, "experiments": data["experiments"][1:]}) == {}


def test_how_many_seeds_the_papers_precision_takes():
    def of(*needed, precision_pct=5):
        return tables.seeds_text({"cells": [{"seeds_needed": number} for number in needed],
                                  "precision_pct": precision_pct, "confidence_pct": 90})
    # Of four the smaller of the two in the middle.
    assert of(None, 7, 30, 12, 20) == (
        "For ±5 % at 90 % confidence the widest cell would need 30 seeds, the median one 12.")
    assert of(7, precision_pct=None) == of(None, None) == ""


@pytest.mark.parametrize("value, shown", [
    (12.345678, "12.35"), (0.0000123456, "0.0000123"), (123456.7, "123457"), (0.6789, "0.6789"),
    (0, "0"), (None, "–"), (-399.94, "-399.9")])
def test_numbers_as_text(value, shown):
    assert tables.number(value) == shown


def test_an_oracles_difference_is_found():
    data = {"runs": {"a": {"oracle": {"differences": []}}, "b": {"oracle": {"differences": ["x"]}}}}
    assert results.oracle_differences(data) == {"b": ["x"]}


# ---- the workflow ----------------------------------------------------------

def test_the_workflow_plays_only_missing_jobs(tmp_path):
    """A dry run names the jobs that have no file yet, and the report."""
    one = read()
    planned = finished(tmp_path, [one], left_out=4)
    done = subprocess.run(workflow.command(tmp_path, 1, None, ("--dry-run",)), text=True,
                          capture_output=True, cwd=tmp_path)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    missing = [job for job in planned["jobs"] if not plan.cell_path(job, tmp_path).exists()]
    assert len(missing) == 4 and all(f"cells/{job}.json" in output for job in missing)
    assert not any(f"output: cells/{job}.json" in output for job in set(planned["jobs"]) - set(missing))
    assert "rule report" in output


def test_a_failed_job_is_named_with_its_log(tmp_path, monkeypatch):
    """The plan's image is not there, so every job fails; what was done before stays."""
    one = read()
    planned = finished(tmp_path, [one], left_out=1)
    with pytest.raises(LabError) as caught:
        workflow.run(planned, tmp_path, Console(file=io.StringIO()), 1)
    message = str(caught.value)
    job, = [job for job in planned["jobs"] if not plan.cell_path(job, tmp_path).exists()]
    assert f"job {job} (somebody/one: " in message and f"log: {tmp_path}/log/{job}.log" in message
    assert not (tmp_path / "papers.json").exists()


def test_time_left_follows_the_finished_jobs(tmp_path):
    one = read()
    planned = finished(tmp_path, [one], left_out=4)
    expected = sorted(job["expected_wall_s"] for name, job in planned["jobs"].items()
                      if not plan.cell_path(name, tmp_path).exists())
    meter = workflow.Meter(planned, tmp_path, cores=2)
    assert len(meter.done) == 3 and planned["link"] in meter.done
    took = 12 / sum(planned["jobs"][job]["expected_wall_s"] for job in meter.done - {planned["link"]})
    assert meter.left_s() == pytest.approx(sum(expected) / 2 * took)
    plan.link_path(planned, tmp_path).unlink()
    assert workflow.Meter(planned, tmp_path, cores=2).left_s() == pytest.approx(
        max(workflow.LINK_WALL_S, (sum(expected) + workflow.LINK_WALL_S) / 2) * took)


# ---- metrics ---------------------------------------------------------------

def test_ranges_are_merged():
    ranges = []
    for low, high in ((5, 7), (1, 3), (2, 4), (7, 9)):
        ranges = received.with_range(ranges, low, high)
    assert ranges == [(1, 4), (5, 9)]


def test_numbers_are_made_plain():
    assert cell._plain({"a": np.float64(1.5), "b": (np.int64(2), None)}) == {"a": 1.5, "b": [2, None]}
    with pytest.raises(LabError, match="nan"):
        cell._plain(float("nan"))


def test_papers_list_prints_every_experiment():
    done = subprocess.run([sys.executable, "-m", "bench", "papers", "list"], text=True,
                          capture_output=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    listed = {line.split(": ")[0] for line in done.stdout.splitlines()[:-1]}
    assert listed == {one.id for one in experiment.load_all()}


# ---- figures ---------------------------------------------------------------

@pytest.mark.parametrize("shown, scale", [
    ({"20 ms": 20, "600 ms": 600}, "linear"), ({"10 kB": 10, "10 MB": 10000}, "log"),
    ({"0": 0, "1e-7": 1e-7, "1e-5": 1e-5}, "symlog"), ({"0": 0}, "linear")])
def test_an_axis_over_decades_is_logarithmic(shown, scale):
    axes = Canvas().add_subplot()
    figures._scale(axes, shown)
    assert axes.get_xscale() == scale
    if scale != "linear":
        assert [text.get_text() for text in axes.get_xticklabels()] == list(shown)


def test_ticks_between_whole_numbers_are_whole():
    for shown, whole in (({"1": 1, "20": 20}, True), ({"1": 1, "2.5": 2.5}, False)):
        axes = Canvas(figsize=figures.SIZE).add_subplot()
        axes.plot(list(shown.values()), [0, 1])
        figures._scale(axes, shown)
        assert all(tick.is_integer() for tick in axes.get_xticks()) == whole


def test_a_line_above_the_bars_says_what_they_show(tmp_path, monkeypatch):
    """Lines leave room inside for it."""
    one = read()
    measured = results.Results(finished(tmp_path, [one]), [one], tmp_path)
    drawn = {}
    monkeypatch.setattr(figures, "render_svg", lambda canvas: canvas)
    monkeypatch.setattr(figures, "data_uri", lambda canvas: canvas)
    for figure in one.figures[:2]:
        canvas = figures.draw(measured, one, figure)
        canvas.draw_without_rendering()
        axes, = canvas.axes
        drawn[figure.kind] = axes.get_legend().get_window_extent().y0 >= axes.get_window_extent().y1
    assert drawn == {"lines": False, "bars": True}


@pytest.mark.parametrize("names", [["Hybla", "Reno"], [f"Westwood {n}" for n in range(9)]])
def test_labels_below_bars_do_not_meet(names, tmp_path, monkeypatch):
    def change(data):
        data["axis"][1]["values"] = [{"label": name} for name in names]
        data["axis"][2]["values"].pop()
        data["claim"], data["paper"] = [], {}
        data["figure"] = [{"title": "F", "kind": "bars", "x": "TCP", "series": "file", "y_label": "s"}]
    one = read(change)
    values = {(size, name): 1.0 for size in ("small", "large") for name in names}
    measured = results.Results(finished(tmp_path, [one], values), [one], tmp_path)
    monkeypatch.setattr(figures, "render_svg", lambda canvas: canvas)
    monkeypatch.setattr(figures, "data_uri", lambda canvas: canvas)
    canvas = figures.draw(measured, one, one.figures[0])
    canvas.draw_without_rendering()
    labels = canvas.axes[0].get_xticklabels()
    assert [label.get_text() for label in labels] == names
    if len(names) == 2:
        ends = [label.get_window_extent() for label in labels]
        assert all(one.x1 < other.x0 for one, other in zip(ends, ends[1:]))
    assert {bool(label.get_rotation()) for label in labels} == {len(names) > 2}


def test_a_line_of_a_bare_number_has_its_axis_name():
    figure = read().figures[0]
    assert figures._named(figure, ("3",)) == "TCP 3" and figures._named(figure, ("Reno",)) == "Reno"
