# SPDX-License-Identifier: GPL-2.0
"""The windows of experiments without a trace: which runs are played, and that a fault is seen."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from bench import paths
from bench.errors import LabError, TraceFull
from bench.papers import windows
from bench.scenario.scenario import LinkChange
from selftests.bench.test_papers import FakeLab, read

COUNT = {"flows": 1, "events": 100, "changes": 7}


class Lab(FakeLab):
    """Plays into folders below build; .played has the scenarios."""

    def __init__(self, build):
        self.build, self.played, self.kept, self.error = build, [], False, None
        self.most_seconds = 10**6       # the events of a longer flow do not fit the buffer

    def run(self, scenario):
        if self.error:
            raise LabError(self.error)
        self.played.append(scenario)
        if max(flow.seconds for flow in scenario.flows) > self.most_seconds:
            raise TraceFull("the kernel dropped trace events")
        folder = self.build / scenario.digest()[:8]
        folder.mkdir(exist_ok=True)
        return SimpleNamespace(scenario=scenario, folder=folder, hash="h", from_cache=self.kept)


class Command:
    """make() with a made-up lab and the oracle's report."""

    def __init__(self, tmp_path, monkeypatch):
        self.build, self.folder = paths.BUILD / f"test-{tmp_path.name}", tmp_path
        self.build.mkdir(parents=True, exist_ok=True)
        self.lab, self.policy = Lab(self.build), ["hybla"]
        self.report = {"counts": {"hybla": COUNT}, "differences": [], "unchecked": {}}
        monkeypatch.setattr(windows, "Lab", lambda *arguments: self.lab)
        monkeypatch.setattr(windows.experiment, "load_all", lambda papers: [read()])
        monkeypatch.setattr(windows.oracle, "POLICIES", {"hybla": None})
        monkeypatch.setattr(windows.cell, "oracle_report", lambda run: self.report)

    def make(self):
        return windows.make(SimpleNamespace(results=self.folder, paper=["somebody"], policy=self.policy,
                                            kernel="6.1", cores=1), Console(quiet=True))

    def written(self):
        return json.loads((self.folder / "windows.json").read_text())["experiments"]


@pytest.fixture
def command(tmp_path, monkeypatch):
    one = Command(tmp_path, monkeypatch)
    yield one
    windows.shutil.rmtree(one.build)


def test_a_job_is_a_cell_of_the_policies_with_the_event():
    jobs = windows.jobs([read()], {"hybla"})
    assert len(jobs) == 4
    for job in jobs:
        assert [flow.cc for flow in job.scenario.flows] == ["hybla"]
        assert job.scenario.trace == ("satcc:cc_call",) and job.experiments == ("one",)
    assert [job.cell for job in jobs][:2] == ["somebody/one: small, Hybla, of the time",
                                              "somebody/one: small, Hybla, today"]
    assert windows.jobs([read()], {"satcc"}) == []


def test_runs_that_two_experiments_share_are_played_once():
    other = read()
    object.__setattr__(other, "name", "two")
    jobs = windows.jobs([read(), other], {"hybla"})
    assert [job.experiments for job in jobs] == [("one", "two")] * 4
    report = {"counts": {"hybla": COUNT}, "differences": []}
    entries = windows.total([read(), other], [(jobs[0], report)])
    assert [(entry["name"], entry["runs"], entry["changes"]) for entry in entries] == [
        ("one", 1, 7), ("two", 1, 7)]


def test_a_run_that_two_experiments_share_counts_once_among_all(command, monkeypatch):
    other = read()
    object.__setattr__(other, "name", "two")
    monkeypatch.setattr(windows.experiment, "load_all", lambda papers: [read(), other])
    assert command.make() == 0
    data = json.loads((command.folder / "windows.json").read_text())
    assert [entry["runs"] for entry in data["experiments"]] == [4, 4]
    assert data["all"] == {"runs": 4, "halved": 0, "flows": 4, "events": 400, "changes": 28,
                           "differences": 0}


def test_reports_are_kept_and_runs_are_not(command):
    assert command.make() == 0 and len(command.lab.played) == 4
    assert command.make() == 0 and len(command.lab.played) == 4
    assert not list(command.build.iterdir())
    assert command.written() == [{"name": "one", "title": read().title, "runs": 4, "flows": 4,
                                  "events": 400, "changes": 28, "differences": 0, "halved": 0}]


@pytest.fixture
def long_job():
    job = windows.jobs([read()], {"hybla"})[0]
    flow, hop = job.scenario.flows[0], job.scenario.hops[0]
    changes = tuple(LinkChange(at_s=at_s, hop=hop.name, forward=hop.forward) for at_s in (10, 20))
    return dataclasses.replace(job, scenario=dataclasses.replace(
        job.scenario, flows=(dataclasses.replace(flow, bytes=0, seconds=30),), changes=changes))


def test_a_run_whose_events_do_not_fit_is_halved(command, long_job):
    command.lab.most_seconds = 20
    report = windows.recompute(command.lab, long_job, command.folder)
    whole, half = command.lab.played
    assert whole == long_job.scenario and report["halved"] is True
    assert [flow.seconds for flow in half.flows] == [15]
    assert half.changes == whole.changes[:1]        # the other one is after the end
    assert windows.recompute(command.lab, long_job, command.folder) == report
    assert len(command.lab.played) == 2
    assert windows.total([read()], [(long_job, report)])[0]["halved"] == 1


def test_a_run_whose_half_does_not_fit_is_an_error(command, long_job):
    command.lab.most_seconds = 10
    with pytest.raises(TraceFull):
        windows.recompute(command.lab, long_job, command.folder)
    assert len(command.lab.played) == 2


def test_a_transfer_is_not_halved(command):
    """Its end is not known before."""
    command.lab.most_seconds = -1
    job = windows.jobs([read()], {"hybla"})[0]
    with pytest.raises(TraceFull):
        windows.recompute(command.lab, job, command.folder)
    assert len(command.lab.played) == 1


def test_a_run_that_was_kept_before_stays(command):
    command.lab.kept = True
    assert command.make() == 0 and len(list(command.build.iterdir())) == 4


def test_a_difference_fails_and_its_run_stays(command, capsys):
    command.report = {**command.report, "differences": ["hybla: cwnd should be 5, is 6"]}
    assert command.make() == 1
    assert command.written()[0]["differences"] == 4 and len(list(command.build.iterdir())) == 4
    assert capsys.readouterr().err.count("cwnd should be 5, is 6\n") == 4


@pytest.mark.parametrize("changes, line", [
    ({"counts": {}}, "calls of 0 of 1 flows of hybla"),
    ({"counts": {"hybla": {**COUNT, "flows": 0}}}, "calls of 0 of 1 flows of hybla"),
    ({"unchecked": {"hybla": "satcc_log missed 3 records"}}, "hybla: satcc_log missed 3 records")])
def test_a_flow_that_the_oracle_has_not_seen_fails(command, capsys, changes, line):
    command.report = {**command.report, **changes}
    assert command.make() == 1
    assert capsys.readouterr().err.count(f", Hybla, today: {line}\n") == 2
    assert not (command.folder / "windows.json").exists()
    assert len(list(command.build.iterdir())) == 4      # the runs stay, to be looked at


def test_a_flow_of_another_policy_need_not_be_seen(monkeypatch):
    monkeypatch.setattr(windows.oracle, "POLICIES", {"satcc": None})
    job = windows.jobs([read()], {"hybla"})[0]
    assert windows.unchecked(job, {"counts": {}, "unchecked": {"hybla": "missed"}}) == []


@pytest.mark.parametrize("policy, line", [
    ("hibla", "--policy hibla: not one of hybla, satcc"),
    ("satcc", "no cell of these experiments has a flow of satcc")])
def test_a_policy_without_a_run_is_an_error(command, monkeypatch, policy, line):
    monkeypatch.setattr(windows.oracle, "POLICIES", {"hybla": None, "satcc": None})
    command.policy = [policy]
    with pytest.raises(LabError, match=f"^{line}$"):
        command.make()


def test_a_run_that_fails_is_named_and_the_others_go_on(command, capsys):
    command.lab.error = "the guest is stuck"
    assert command.make() == 1
    assert capsys.readouterr().err.count("the guest is stuck\n") == 4
