# SPDX-License-Identifier: GPL-2.0
"""The tables of README.md and bench/RESULTS.md are what the program writes of a comparison's figures."""

import json
import re
import statistics

import pytest

from bench.compare import goals, readme, tables
from bench.papers.experiment import load_all, papers
from bench.paths import TOP, policies
from selftests.bench.test_geo import row as geo_row
from selftests.bench.test_webpage import SIZES, make_data, make_full

USES = {"about": {"date": "2026-01-02", "kernel": "6.1.0-56-amd64", "emulator": "QEMU 7.2.22",
                  "commit": "0123abc", "seeds": 3},
        "experiments": []}
NAMES = {"summary", "links", "beside", "long", "cost", "acceptance", "accesses", "papers"}
OURS = sorted(policies())
VERDICTS = {
    "values": {"reproduced": 7, "same order": 6, "not reproduced": 5, "undecided": 4,
               "does not discriminate": 3},
    "claims": {"holds": 11, "holds, not surely": 12, "does not hold": 13},
    "uncounted": {"values": {"derived": 20, "chosen": 21}, "claims": {"derived": 1, "chosen": 1}},
    "null": {"of": 9, "reproduced": 1, "same order": 0}}


def rows_of(text: str, name: str) -> list[list[str]]:
    """The cells of one table, row by row, without the line below its head."""
    block = text.split(f"<!-- table: {name} -->")[1].split("<!-- end -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in block.splitlines() if line.startswith("|")]
    return [rows[0], *rows[2:]]


def make_all() -> dict:
    about = {**make_data()["about"], "command": "make geo"}
    suite = {"policies": ["satcc", "cubic"], "rows": [geo_row(), geo_row(bytes=2_000_000)],
             "about": about}
    verdicts = {"about": {"date": "2026-01-02", "kernel": "6.1.0-56-amd64", "emulator": "QEMU 7.2.22",
                          "commit": "0123abc", "runs": 601, "seeds": 1, "most_seeds": 8},
                "papers": {"marchese": VERDICTS, "korean": VERDICTS}}
    compared = make_full()
    return {**compared, "about": {**compared["about"], "command": "make bench LONG=1"},
            "links": make_data()["links"], "acceptance": suite, "papers": verdicts}


@pytest.fixture(scope="module")
def text():
    blocks = "".join(f"<!-- table: {name} -->\nold\n<!-- end -->\n" for name in sorted(NAMES))
    return readme.written(blocks, make_all())


def test_the_pages_have_each_table_once():
    blocks = [block for page in readme.PAGES for block in readme.BLOCK.findall(page.read_text())]
    named = [name for _, name, policy, *_ in blocks if not policy]
    assert set(named) == {*NAMES, "windows", "verdicts"}
    assert len(set(named)) == len(named)
    assert sorted(policy for _, name, policy, *_ in blocks if name == "harm") == OURS


def test_a_policys_harm_stands_beside_bbrs_and_the_rivals_own():
    data = make_full()
    text = readme.written("<!-- table: harm mtsi -->\n<!-- end -->", data)
    heads, *rows = rows_of(text, "harm mtsi")
    assert heads[1:4] == ["40 ms: cubic beside it, Mbit/s", "of its share, %", "packets dropped"]
    assert [row[0] for row in rows] == ["mtsi", "bbr", "cubic"]
    for name, *cells in rows:
        for nth, link in enumerate(data["beside"]["links"]):
            row, = [row for row in link["rows"] if row["policy"] == name]
            low, middle, high = (f"{pct:.0f}" for pct in sorted(row["rival_pct"]))
            assert cells[3 * nth:3 * nth + 3] == [
                readme.text_of(statistics.median(row["rival_mbit"])), f"{middle} ({low}–{high})",
                str(statistics.median(row["drops"]))]
    assert "Each figure is the median of three seeds. The range has all three." in text


def test_the_summary_has_the_large_tables_figures(text):
    heads, *rows = rows_of(text, "summary")
    assert heads[1:] == ["2 Mbit/s: 1 MB (s)", "goodput, 1 % loss (Mbit/s)", "10 Mbit/s: 10 MB (s)",
                         "packets dropped", "goodput, 1 % loss (Mbit/s)",
                         "cubic beside it, 250 ms (%)"]
    slow, fast = make_data()["links"][:2]
    for policy, *cells in rows:
        for link, cell in ((slow, cells[1]), (fast, cells[4])):
            bulk, = [one for one in link["bulk"] if one["policy"] == policy and one["loss_pct"]]
            assert cell == readme.text_of(statistics.median(bulk["goodput_mbit"]))
        for link, size, cell in ((slow, 1_000_000, cells[0]), (fast, 10_000_000, cells[2])):
            transfer, = [one for one in link["transfers"]
                         if one["policy"] == policy and one["bytes"] == size]
            assert cell == readme.text_of(transfer["seconds"])
    assert [row[0] for row in rows] == [name for name in readme.SUMMARY
                                        if name in make_data()["policies"]]


def test_each_link_has_its_policies_figures(text):
    rows = rows_of(text, "links")
    for link in make_data()["links"]:
        head = [row[0] for row in rows].index(f"**{link['name']}**")
        by_policy = {}
        for row in rows[head + 1:]:
            by_policy.setdefault(row[0].replace("`", ""), row)
        for bulk in link["bulk"]:
            printed = float(by_policy[bulk["policy"]][-1 if bulk["loss_pct"] else -2])
            assert printed == pytest.approx(statistics.median(bulk["goodput_mbit"]), abs=0.0051)
        for transfer in link["transfers"]:
            assert readme.text_of(transfer["seconds"]) in by_policy[transfer["policy"]]
        for transfer in link["transfers"][2::3]:        # of the largest size
            assert by_policy[transfer["policy"]][4] == readme.text_of(transfer["receiver_limited_s"])
        net = link["net_rate_mbit"]
        for row, more in (
                (readme.IDEAL, 1.2), (readme.RECEIVERS["receiver"], 1.7),
                (readme.RECEIVERS["stock"], 1.9)):
            assert by_policy[row][1:4] == [
                readme.text_of(size * 8 / net / 1e6 + more) for size in SIZES]


def test_the_links_heads_are_explained(text):
    block = text.split("<!-- table: links -->")[1].split("<!-- end -->")[0]
    assert "held" in block.splitlines()[2]
    assert '\n"Held" is the time in which the sender of the largest' in block
    assert text.count("which Linux opens from 64 kB on") == 1


def test_rivals_faster_link_and_cost(text):
    data = make_full()
    by_policy = {row[0]: row[1:] for row in rows_of(text, "beside")[1:]}
    head, *_ = rows_of(text, "beside")
    assert head[1:5] == ["40 ms: own", "cubic", "of its share", "drops"] and len(head) == 9
    for nth, link in enumerate(data["beside"]["links"]):
        assert by_policy[""][:4] == ["Mbit/s", "Mbit/s", "%", "packets"]
        for row in link["rows"]:
            assert by_policy[row["policy"]][4 * nth + 2] == f"{statistics.median(row['rival_pct']):.0f}"
    policies, *rates = rows_of(text, "long")
    for row in data["long"]["rows"]:
        line, = [line for line in rates if line[0] == f"{row['loss_pct']:g} % loss"]
        assert line[policies.index(row["policy"])] == \
            readme.text_of(statistics.median(row["goodput_mbit"]))
    policies, *instructions = rows_of(text, "cost")
    for row in data["cost"]["rows"]:
        line, = [line for line in instructions if line[0] == tables.format_loss(row["loss_pct"])]
        assert line[policies.index(row["policy"])] == f"{row['per_ack']:.0f}"
    assert {row["loss_pct"] for row in data["cost"]["rows"]} == {0, 1}


def test_only_the_faster_link_needs_the_long_command(text):
    sources = {name: re.search(rf"table: {name} -->.*?\n\(`(make [^`]+)`", text, re.S)[1]
               for name in ("links", "beside", "long", "cost")}
    assert sources == {"links": "make bench", "beside": "make bench", "long": "make bench LONG=1",
                       "cost": "make bench"}


def test_the_acceptance_table_names_a_link_once_and_unreached_objectives(text):
    head, *rows = rows_of(text, "acceptance")
    assert head[:4] == ["link", "size", "satcc", "cubic"]
    assert [row[:4] for row in rows] == [["L", "1 MB", "5.00", "> 120"],
                                         ["", "2 MB", "5.00", "> 120"]]
    assert "\n- L, 2 MB: no policy reaches 3 s; the policies are the cause.\n" in text


def test_the_accesses_have_10_mb_alone_and_the_fastest_in_bold():
    data = make_all()
    data["acceptance"]["rows"] = [geo_row(bytes=size, link=f"link of {size}")
                                  for size in (2_000_000, 10_000_000, 10 << 20, 100_000_000)]
    head, *rows = rows_of(readme.written("<!-- table: accesses -->\n<!-- end -->", data), "accesses")
    assert head == ["link", "satcc", "cubic", "objective", "floor"]
    assert rows == [[link, "**5.00**", "> 120", "3", "2.00"]
                    for link in ("link of 10000000", "link of 10485760, 10 MiB")]


@pytest.mark.parametrize("name", ["acceptance", "accesses"])
def test_the_accesses_tell_how_many_seeds_a_link_with_loss_has(name):
    data = make_all()
    one, lossy = geo_row(), geo_row(link="with loss")
    one["seconds"] = {"satcc": [5.0], "cubic": [6.0]}
    lossy["seconds"] = {"satcc": [5.0] * 7, "cubic": [6.0] * 7}
    data["acceptance"]["rows"] = [one, lossy]
    text = readme.written(f"<!-- table: {name} -->\n<!-- end -->", data)
    assert "With random loss a figure is the median of 7 seeds; without it, of one run.)" in text


def test_the_papers_verdicts(text):
    head, *rows = rows_of(text, "papers")
    assert head == ["", "values reproduced", "same order", "not reproduced", "undecided",
                    "does not discriminate", "by doing nothing", "not counted", "claims: holds",
                    "holds, not surely", "does not hold", "not counted"]
    assert rows == [[paper, "7", "6", "5", "4", "3", "1 of 9", "41", "11", "12", "13", "2"]
                    for paper in ("marchese", "korean")]
    assert ("(`make papers`, 2026-01-02, Linux 6.1.0-56-amd64, QEMU 7.2.22, commit 0123abc, 601 runs, "
            "with 1 to 8 seeds where a value depends on chance.)") in text


PAPERS = [name for name, about in papers().items() if not about.goals]


@pytest.mark.parametrize("others", [{"geo": "bench.json"}, {}])
@pytest.mark.parametrize("names, missing", [(PAPERS[1:3], [PAPERS[0], *PAPERS[3:]]),
                                            ([*PAPERS, "another"], [])])
def test_the_verdicts_of_some_papers_alone_are_not_written(tmp_path, capsys, names, missing, others):
    summary = {**make_all()["papers"], "papers": dict.fromkeys(names, VERDICTS)}
    for folder, name in {"papers": "summary.json", **others}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(json.dumps(summary if folder == "papers" else make_full()))
    data = readme.measured(tmp_path)
    assert data.get("papers") == (None if missing else summary) and ("links" in data) == bool(others)
    message = capsys.readouterr().err
    assert (f"lacks {', '.join(missing)};" in message) if missing else not message


def use_of(name: str, title: str, values: dict) -> dict:
    """An experiment of papers.json, with a value for each (path, TCP)."""
    axes = {"path": ["plain", "tunnel"], "TCP": ["satcc", "cubic"]}
    return {"name": name, "title": title, "unit": "Mbit/s", "axes": axes, "rows": ["path", "TCP"],
            "columns": [], "cells": [
                {"labels": {"path": path, "TCP": tcp}, "mean": mean, "half": half, "values": [mean],
                 "paper": None, "ratio": None, "verdict": None, "uncounted": None, "formula": "",
                 "seeds": 3}
                for (path, tcp), (mean, half) in values.items()]}


def test_a_use_has_its_experiments_side_by_side():
    lossy = {("plain", "satcc"): (1.6123, 0.1), ("plain", "cubic"): (0.4, 0.2),
             ("tunnel", "satcc"): (1.5, 0.1)}
    uses = {**USES, "experiments": [
        use_of("vpn", "1 % loss", lossy), use_of("vpnless", "x", lossy), use_of("vpn-whole", "no loss", {
            key: (mean + 0.25, None) for key, (mean, _) in lossy.items()})]}
    text = readme.written("<!-- table: use vpn -->\n<!-- end -->", {"uses": uses})
    assert rows_of(text, "use vpn") == [
        ["path", "TCP", "1 % loss (Mbit/s)", "no loss (Mbit/s)"],
        ["plain", "satcc", "1.612 ± 0.1", "1.862"], ["", "cubic", "0.4 ± 0.2", "0.65"],
        ["tunnel", "satcc", "1.5 ± 0.1", "1.75"]]
    assert "(`make uses`, 2026-01-02, Linux 6.1.0-56-amd64, QEMU 7.2.22, commit 0123abc. " in text
    with pytest.raises(ValueError, match="table: use vpns: no such experiment"):
        readme.written("<!-- table: use vpns -->\n<!-- end -->", {"uses": uses})


def played_goal() -> dict:
    """An experiment of papers.json, with a claim."""
    claim = {"text": "Above bbr", "verdict": "holds, not surely", "uncounted": None, "of": 2,
             "words": "", "seeds": 5, "pairs": [
                 {"holds": True, "verdict": "holds", "labels": {"rate": "2 Mbit/s"}},
                 {"holds": True, "verdict": "holds, not surely", "labels": {"rate": "10 Mbit/s"},
                  "left": 8.6, "right": 7.5, "beside": []}]}
    values = {("2 Mbit/s", "satcc"): 1.78, ("2 Mbit/s", "bbr"): 1.6,
              ("10 Mbit/s", "satcc"): 8.6, ("10 Mbit/s", "bbr"): 7.5}
    return {"name": "loss-fast", "title": "Goodput", "unit": "Mbit/s", "rows": ["rate"],
            "columns": ["TCP"], "claims": [claim],
            "axes": {"rate": ["2 Mbit/s", "10 Mbit/s"], "TCP": ["satcc", "bbr"]}, "cells": [
                {"labels": {"rate": rate, "TCP": tcp}, "mean": mean, "half": None, "values": [mean],
                 "paper": None, "ratio": None, "verdict": None, "uncounted": None, "formula": "",
                 "seeds": 5}
                for (rate, tcp), mean in values.items()]}


def test_a_goal_has_its_claims_below_its_table():
    """A block whose experiment was not played stays as it is."""
    loss = played_goal()
    page = "<!-- table: goal loss-fast -->\n<!-- end -->\n<!-- table: goal loss -->\nold\n<!-- end -->"
    text = readme.written(page, {"goals": {**USES, "experiments": [loss]}})
    assert rows_of(text, "goal loss-fast") == [
        ["rate", "satcc (Mbit/s)", "bbr (Mbit/s)"], ["2 Mbit/s", "1.78", "1.6"],
        ["10 Mbit/s", "8.6", "7.5"]]
    assert ("- holds, not surely: Above bbr (holds in 2 of 2; not surely for 10 Mbit/s: 8.6 beside 7.5; "
            "of 5 seeds).\n\n(`make goals`, 2026-01-02, ") in text
    assert text.endswith("<!-- table: goal loss -->\nold\n<!-- end -->")
    assert "\n\n\n" not in text
    without = {**USES, "experiments": [{**loss, "claims": []}]}
    assert "\n\n\n" not in readme.written(page, {"goals": without})
    newer = page.replace("loss-fast -->", "loss-fast on 6.12 -->")
    assert readme.written(newer, {"goals": {**USES, "experiments": [loss]}}) == newer
    assert "(`make goals KERNEL=6.12`, 2026-01-02, " in readme.written(
        newer, {"goals-6.12": {**USES, "experiments": [loss]}})


def test_experiments_that_share_their_runs_share_a_row_of_windows():
    counts = {"runs": 2, "halved": 0, "flows": 3, "events": 400, "changes": 50, "differences": 0}
    data = {"windows": {
        "about": {**USES["about"], "policies": ["hybla_full", "satcc"]},
        "experiments": [{"name": "loss", **counts}, {"name": "aqm", **counts, "differences": 1},
                        {"name": "drops", **counts}],
        "all": {**counts, "runs": 3, "differences": 1}}}
    text = readme.written("<!-- table: windows -->\n<!-- end -->\n", data)
    assert rows_of(text, "windows")[1:] == [["`loss`, `drops`", "2", "3", "400", "50", "0"],
                                            ["`aqm`", "2", "3", "400", "50", "1"],
                                            ["all, each run once", "3", "3", "400", "50", "1"]]
    assert 'make goals-windows POLICY="hybla_full satcc"`, 2026-01-02, Linux 6.1.0-56-amd64' in text
    assert "commit 0123abc. Each cell was played once.)" in text
    data["windows"]["all"]["halved"] = 2
    assert "played once. 2 of the runs have the first half of the time only, because" in readme.written(
        "<!-- table: windows -->\n<!-- end -->\n", data)


def test_each_goal_has_a_table():
    """But for two experiments that only the harm is computed from."""
    page = (TOP / "modules/RESULTS-satcc.md").read_text()
    tables = [name for _, kind, name, *_ in readme.BLOCK.findall(page) if kind == "goal"]
    names = {path.stem for path in (TOP / "bench/scenarios/satcc").glob("*.toml")} - {"paper"}
    assert sorted(tables) == sorted(names - {"shares-alone", "shares-theirs"})


def test_a_goal_that_chance_decides_does_not_hold_surely_with_one_seed():
    """An experiment in which another seed gives our flow another figure says that it is random."""
    played = [one for one in load_all(["satcc"]) if one.claims]
    by_chance = [one.name for one in played if any(
        cell.scenario and cell.scenario.has_chance for cell in one.cells
        if "satcc" in cell.labels.values())]
    assert {"loss", "shares", "shares-phases"} < set(by_chance)
    assert [one.name for one in played if one.name in by_chance and not one.random] == []


def test_the_list_has_the_goals_that_the_same_call_writes(tmp_path, monkeypatch):
    listed, results = tmp_path / "README.md", tmp_path / "RESULTS.md"
    listed.write_text("<!-- table: verdicts -->\n<!-- end -->")
    results.write_text("### Much loss\n\n<!-- table: goal loss-fast -->\n<!-- end -->")
    (tmp_path / "goals").mkdir()
    (tmp_path / "goals/papers.json").write_text(json.dumps({**USES, "experiments": [played_goal()]}))
    monkeypatch.setattr(readme, "PAGES", (listed, results))
    monkeypatch.setattr(goals, "PAGE", results)
    monkeypatch.setattr(readme.figures, "write", lambda: None)
    readme.write(tmp_path)
    assert rows_of(listed.read_text(), "verdicts")[1:] == [[
        "[Much loss](RESULTS.md#much-loss)", "Above bbr", "holds, not surely", "2 of 2", "5", "0123abc"]]


GOALS = goals.PAGE.read_text()
LIST = TOP / "modules" / "README-satcc.md"


def test_the_list_of_goals_is_that_of_their_tables():
    text = LIST.read_text()
    assert readme.written(text, {"verdicts": goals.of(GOALS)}) == text, "type: python3 -m bench readme"


@pytest.mark.parametrize("old, new", [
    (r"\n- holds: ", "\n- does not hold: "), (r"holds in \d+ of", "holds in 0 of"),
    (r", commit \w+\.", ", commit 7777777."), (r"mean of \d seeds", "mean of 8 to 9 seeds"),
    (r"### Web pages", "### Pages"), (r"Above bbr in every cell", "Above bbr")])
def test_a_change_of_a_goals_table_shows_in_the_list(old, new):
    text, (changed, count) = LIST.read_text(), re.subn(old, new, GOALS, count=1)
    assert count and readme.written(text, {"verdicts": goals.of(changed)}) != text


def test_each_goal_is_in_the_list():
    """A table without goals has no line there, and the next table's goals are not taken for its own."""
    lines = re.findall(r"^- .* \(holds in ", GOALS, re.M)
    assert len(goals.of(GOALS)) == len(lines) > 25
    by_title = {}
    for goal in goals.of(GOALS):
        by_title.setdefault(goal["title"], []).append(goal["text"])
    assert "What the queue drops on links in trouble" not in by_title
    assert by_title["Shares in shallow queues"] == ["satcc has at most three times as much as cubic"]


@pytest.mark.parametrize("old, new, message", [
    ("\n- holds: ", "\n- not measured: ", ": not a goal with a verdict: - not measured: "),
    ("(`make goals`, ", "(`make all`, ", "loss: no line with the source")])
def test_a_line_that_is_no_goal_is_refused(old, new, message):
    with pytest.raises(ValueError, match=message):
        goals.of(GOALS.replace(old, new, 1))


def test_a_page_of_another_kernel_has_only_its_goals():
    """Each block names the page's kernel and an experiment, once."""
    pages = sorted((TOP / "modules").glob("RESULTS-satcc-*.md"))
    assert pages
    for page in pages:
        series = page.stem.removeprefix("RESULTS-satcc-")
        text = page.read_text()
        blocks = readme.BLOCK.findall(text)
        assert len(blocks) == text.count("<!-- table: ")
        assert {(kind, on) for _, kind, _, on, _ in blocks} == {("goal", series)}
        tables = [name for _, _, name, *_ in blocks]
        assert len(set(tables)) == len(tables)
        for name in tables:
            assert (TOP / f"bench/scenarios/satcc/{name}.toml").exists(), name


def test_a_table_says_how_many_seeds_it_is_of():
    def of(*counts):
        cells = [{"seeds": count} for count in counts]
        return readme.seeds_text([{"name": "loss", "cells": cells}])
    assert of(1, 1) == "Each figure is of one run."
    assert "the mean of 3 to 5 seeds" in of(1, 3, 5) and "the mean of 5 seeds" in of(1, 5, 0)


def test_each_use_has_a_page():
    """No page but container.md is without a table, and none is longer than an operator reads."""
    pages = sorted((TOP / "tools/uses").glob("*.md"))
    tables = {name for page in pages for _, kind, name, *_ in readme.BLOCK.findall(page.read_text())
              if kind == "use"}
    names = {path.stem for path in (TOP / "bench/scenarios/uses").glob("*.toml")} - {"paper"}
    assert tables == {name.partition("-")[0] for name in names}
    assert {page.stem for page in pages} == tables | {"container"}
    linked = (TOP / "tools/README.md").read_text()
    for page in pages:
        assert len(page.read_text().splitlines()) <= 60 and f"(uses/{page.name})" in linked


def test_a_table_names_its_source_and_is_kept_without_figures(text):
    made_on = ", Linux 6.1.0-56-amd64, QEMU 7.2.22, commit unknown"
    assert text.count("`make bench`" + made_on) == len(NAMES) - 4
    assert text.count("`make bench LONG=1`" + made_on) == 1
    assert text.count("`make geo`" + made_on) == 2
    assert readme.written(text, {"links": [], "about": {}}) == text
    assert "\nold\n" not in text and readme.written(text, make_all()) == text


def test_a_table_of_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="table: costs: not one of summary, links, beside, long"):
        readme.written("<!-- table: costs -->\n<!-- end -->", make_full())
    with pytest.raises(ValueError, match="table: links on 6.12: only a goal may be of another kernel"):
        readme.written("<!-- table: links on 6.12 -->\n<!-- end -->", make_full())


@pytest.mark.parametrize("value, text", [(0.994, "0.99"), (9.996, "10.0"), (43.84, "43.8"),
                                         (99.96, "100"), (None, "–"), (float("inf"), "–")])
def test_three_digits(value, text):
    assert readme.text_of(value) == text
