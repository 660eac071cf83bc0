# SPDX-License-Identifier: GPL-2.0
"""Which runs get more seeds, and that runs of another data file are not taken for this one's."""

import copy
import json

import pytest

from bench.papers import command, experiment, plan, results, rounds, seeds
from selftests.bench.test_papers import GAIN, FakeLab, finished, put, random, read

VALUE = plan.measure_key("transfer_s", {})


def only(change=None, claims=False):
    """One file, two policies, of chance."""
    def made(data):
        random(figure=[], paper={"small": {"Reno": 2.0, "Hybla": 1.5}})(data)
        data["axis"][0]["values"].pop()
        if not claims:
            data["claim"] = []
        if change:
            change(data)
    return read(made)


class Played:
    """Plans whose jobs are done as soon as they are made, with values by policy and seed."""

    def __init__(self, tmp_path, experiments, values, seeds_of=1):
        self.folder, self.experiments, self.values, self.count = tmp_path, experiments, values, seeds_of
        self.more: dict[str, int] = {}
        self.rounds = []

    def play(self):
        planned = plan.make(self.experiments, FakeLab(), self.count, self.more)
        for entries in planned["cells"].values():
            for entry in entries:
                for seed, job in enumerate(entry["jobs"]):
                    value = self.values[entry["labels"]["TCP"]]
                    value = value[seed % len(value)]
                    path = plan.cell_path(job, self.folder)
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(json.dumps({
                        "job": job, "seed": seed, "hash": "0" * 64, "folder": "build/runs/x",
                        "facts": {"flows": [{"cc": "reno"}], "queue_drops": 0, "link_losses": 0},
                        "oracle": {"differences": [], "counts": {}}, "values": {VALUE: value}}))
        self.found = results.Results(planned, self.experiments, self.folder)
        self.data = self.found.as_dict()
        return self

    def to_the_end(self, budget_s=80 * 60):
        while True:
            extra = seeds.more(self.play().found, self.data, budget_s)
            if not extra:
                return self
            self.more |= extra
            self.rounds.append(max(extra.values()))
            assert len(self.rounds) < 20

    def of(self, policy):
        """(number of seeds, verdict) of a policy's cell of the time."""
        cell = next(cell for entry in self.data["experiments"] for cell in entry["cells"]
                    if cell["labels"]["TCP"] == policy and cell["labels"]["settings"] == "of the time")
        return cell["seeds"], cell["verdict"]


NEAR = {"Reno": [2.0, 2.01, 1.99], "Hybla": [1.5, 1.51, 1.49]}


def test_a_verdict_open_after_one_seed_gets_three(tmp_path):
    done = Played(tmp_path, [only()], NEAR).to_the_end()
    assert done.rounds == [3]
    assert done.of("Reno") == done.of("Hybla") == (3, "reproduced")


def test_a_verdict_open_after_three_seeds_gets_more(tmp_path):
    """By the spread seen, and no more than decides it."""
    wide = {"Reno": [2.0, 2.25, 1.75, 2.02, 1.98, 2.0, 2.01, 2.0], "Hybla": NEAR["Hybla"]}
    done = Played(tmp_path, [only()], wide).to_the_end()
    assert done.of("Hybla")[0] == 3
    count, cell = done.of("Reno")
    assert 3 < count <= 8 and cell == "reproduced"


def test_not_more_than_the_experiment_allows(tmp_path):
    torn = {"Reno": [1.0, 3.0], "Hybla": NEAR["Hybla"]}
    done = Played(tmp_path, [only()], torn).to_the_end()
    assert done.of("Reno") == (3, "undecided")
    allowed = Played(tmp_path, [only(put(seeds_most=500))], torn).to_the_end()
    assert allowed.of("Reno")[0] > 8
    one, = (cell for cell in done.data["experiments"][0]["cells"] if cell["verdict"] == "undecided")
    assert one["seeds_to_decide"] > 8 and "takes" in one["cause"]


def test_uncounted_values_get_no_more_seeds(tmp_path):
    marked = put(uncounted=[{"kind": "chosen", "why": "x", "where": {"TCP": "Reno"}}])
    done = Played(tmp_path, [only(marked)], NEAR).to_the_end()
    assert (done.of("Reno"), done.of("Hybla")) == ((1, "undecided"), (3, "reproduced"))
    assert [one.what for one in seeds.verdicts(done.found, done.data)] == []


def test_the_budget_bounds_more_seeds_and_the_cheapest_come_first(tmp_path):
    """Hybla's transfer is made the longer one."""
    def change(data):
        data["axis"][1]["values"][1]["set"]["flow.*.bytes"] = 50_000_000
        data["axis"][2]["values"].pop()
    one = only(change)
    first = seeds.expected_s(plan.make([one], FakeLab()))
    costs = {cell.labels["TCP"]: plan.expected_wall_s(cell.scenario) for cell in one.cells}
    assert costs["Hybla"] > 2 * costs["Reno"]
    done = Played(tmp_path, [one], NEAR).to_the_end(budget_s=first + costs["Hybla"])
    assert (done.of("Reno")[0], done.of("Hybla")[0]) == (3, 1)
    spent = seeds.expected_s(done.found.plan)
    assert first < spent <= first + costs["Hybla"]
    assert Played(tmp_path, [one], NEAR).to_the_end(budget_s=first).rounds == []


def test_an_open_claim_asks_for_seeds_of_both_sides(tmp_path):
    one = only(lambda data: data.update(paper={}), claims=True)
    done = Played(tmp_path, [one], NEAR).to_the_end()
    assert done.rounds == [3]
    claim, = done.data["experiments"][0]["claims"]
    assert (claim["verdict"], claim["seeds"]) == ("holds", 3)
    swapped = {"Reno": NEAR["Hybla"], "Hybla": NEAR["Reno"]}
    lost = Played(tmp_path, [one], swapped).to_the_end()
    assert lost.data["experiments"][0]["claims"][0]["verdict"] == "does not hold" and lost.rounds == [3]


def test_a_gains_seeds_are_those_of_its_sides(tmp_path):
    one = only(lambda data: data.update(paper={}))
    gain = experiment.expand_gain(experiment.from_dict(
        {**copy.deepcopy(GAIN), "paper": {"small": 25.0}}, "somebody", "two", "two.toml"), {"one": one})
    done = Played(tmp_path, [one, gain], NEAR)
    assert {verdict.seeds for verdict in seeds.verdicts(done.play().found, done.data)} == {3}
    done.to_the_end()
    cell_shown = next(cell for cell in done.data["experiments"][1]["cells"] if cell["verdict"])
    assert (cell_shown["seeds"], cell_shown["verdict"]) == (3, "reproduced")


def test_verdicts_that_no_seed_changes_get_no_seeds(tmp_path):
    one = only(put(random=False))
    assert Played(tmp_path, [one], NEAR).to_the_end().rounds == []


def test_the_papers_first_round_leaves_time_for_more():
    """On two cores, by what runs are expected to take; `make papers` has 90 minutes."""
    planned = plan.make(experiment.load_all(), FakeLab())
    assert 40 < seeds.expected_s(planned) / 60 < 60 < command.BUDGET_MIN < 85


# ---- runs of another data file ---------------------------------------------

def slower(data):
    data["scenario"]["hop"][0]["forward"]["rate_mbit"] = 1


@pytest.mark.parametrize("change, missing, left", [
    (None, 0, 6), (put(title="Another", tolerance_pct=1), 0, 6), (slower, 6, 0),
    # "Today" sets another window.
    (lambda data: data["axis"][1]["values"][1]["set"].update({"sender.initcwnd": 3}), 2, 4),
    (put(arguments={"since": "data"}), 6, 0),
    (lambda data: data["axis"][0]["values"].append({"label": "tiny", "set": {"flow.0.bytes": 9}}), 4, 6),
    (lambda data: data["axis"][1]["values"][0].update(label="Tahoe") or data.update(claim=[], paper={}),
     2, 4)])
def test_runs_that_a_data_file_no_longer_describes_are_left_out(tmp_path, change, missing, left):
    planned = finished(tmp_path, [read()])
    now = read(change)
    assert len(plan.changed(planned, [now]).get(now.id, [])) == missing
    data = results.Results(planned, [now], tmp_path).as_dict()
    assert sum(bool(cell["jobs"]) for cell in data["experiments"][0]["cells"]) == left


def test_the_report_says_whose_runs_are_left_out(tmp_path, monkeypatch, capsys):
    planned = finished(tmp_path, [read()])
    monkeypatch.setattr(rounds.experiment, "load_all", lambda _: [read(slower)])
    monkeypatch.setattr(rounds.machine, "qemu_version", lambda: "7.2")

    class Arguments:
        results = tmp_path
    assert rounds.report_now(Arguments) == 1
    assert "somebody/one: the data file no longer describes the runs of 6 cells; they are left out" in \
        capsys.readouterr().err
    page = (tmp_path / "somebody.html").read_text()
    assert "The data file no longer describes the runs of 6 cells" in page
    assert "no value" not in page and planned["code"] == plan.code_digest()
    monkeypatch.setattr(rounds.experiment, "load_all", lambda _: [read()])
    assert rounds.report_now(Arguments) == 0
    monkeypatch.setattr(rounds.plan, "code_digest", lambda: "another")
    assert rounds.report_now(Arguments) == 1 and "other code" in capsys.readouterr().err
