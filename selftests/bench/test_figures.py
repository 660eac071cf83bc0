# SPDX-License-Identifier: GPL-2.0
"""The figures that `satcc choose` ships are those of bench/RESULTS.md, and have their source."""

import json
import re

import pytest

from bench.__main__ import main
from bench.compare import comparison, figures, readme
from bench.paths import TOP
from selftests.bench.test_readme import make_all

SHIPPED = json.loads(figures.FILE.read_text())
PAGE = figures.PAGE.read_text()
LINKS = SHIPPED["alone"] + SHIPPED["beside"]


def test_the_shipped_figures_are_those_of_the_page():
    assert SHIPPED == figures.of(PAGE), "type: python3 -m bench readme --figures"


@pytest.mark.parametrize("name, old, new", [
    ("links", r"\n\| satcc \| [\d.]+", r"\n| satcc | 77.7"),
    ("long", r"\n\| 1 % loss \| [\d.]+", r"\n| 1 % loss | 77.7"),
    ("beside", r"\n\| mtsi \| [\d.]+", r"\n| mtsi | 77.7"),
    ("links", r"commit \w+", "commit 7777777")])
def test_a_change_of_the_page_shows(name, old, new):
    """Of each table, and of a source: so the test above does not pass whatever the page has."""
    before, begin, table = PAGE.partition(f"<!-- table: {name} -->")
    text, count = re.subn(old, new, table, count=1)
    assert count and figures.of(before + begin + text) != SHIPPED


@pytest.mark.parametrize("link", LINKS, ids=lambda link: f"{link['rate_mbit']}-{link['rtt_ms']}")
def test_each_link_says_where_its_figures_are_from(link):
    for key in ("command", "kernel", "emulator", "commit", "seeds"):
        assert link["source"][key], key
    assert link["source"]["command"].startswith("make ")
    assert {"cubic", "bbr"} < set(link["policies"])


def test_no_figure_is_missing():
    plan = comparison.plan(long=True)
    labels = {policy.label for policy in plan.policies}
    plain = {policy.label for policy in plan.policies if not policy.parameters}
    *alone, faster = SHIPPED["alone"]
    assert [(link["rate_mbit"], link["rtt_ms"]) for link in alone] == [(2, 600), (10, 600)]
    for link in alone:
        assert plain < set(link["policies"]) <= labels
        for each in link["policies"].values():
            assert set(each["transfer_s"]) == {"100000", "1000000", "10000000"}
            assert set(each["goodput_mbit"]) == {"0", "1"} and each["drops"] >= 0
    assert (faster["rate_mbit"], faster["rtt_ms"]) == (100, 520)
    assert all(set(each["goodput_mbit"]) == {"0.1", "1"} for each in faster["policies"].values())
    for link in SHIPPED["beside"]:
        assert set(link["policies"]) == labels
    values = re.findall(r": (null|\d)", json.dumps([link["policies"] for link in LINKS]))
    assert "null" not in values


def test_a_written_page_is_read_back():
    """What `bench readme` writes of a comparison, in whatever columns its tables have."""
    data = make_all()
    page = "".join(f"<!-- table: {name} -->\n<!-- end -->\n" for name in ("links", "long", "beside"))
    data["about"]["commit"] = "0123abc"
    for link in data["beside"]["links"]:
        link["rival"] = "cubic"
    page_figures = figures.of(readme.written(page, data))
    for link, measured in zip(data["links"], page_figures["alone"]):
        for bulk in link["bulk"]:
            value = measured["policies"][bulk["policy"]]["goodput_mbit"][f"{bulk['loss_pct']:g}"]
            assert readme.text_of(value) == readme.text_of(readme.median(bulk["goodput_mbit"]))
        for transfer in link["transfers"]:
            value = measured["policies"][transfer["policy"]]["transfer_s"][str(transfer["bytes"])]
            assert readme.text_of(value) == readme.text_of(transfer["seconds"])
    for link, measured in zip(data["beside"]["links"], page_figures["beside"]):
        for row in link["rows"]:
            share_pct = measured["policies"][row["policy"]]["share_pct"]
            assert share_pct == round(readme.median(row["rival_pct"]))
    assert page_figures["alone"][0]["source"]["commit"] == "0123abc"


def test_the_command_writes_the_file(tmp_path, monkeypatch, capsys):
    file = tmp_path / "figures.json"
    monkeypatch.setattr(figures, "FILE", file)
    monkeypatch.setattr(readme, "PAGES", ())
    assert main(["readme", str(tmp_path)]) == 1 and not file.exists()
    assert capsys.readouterr().err.startswith(f"bench: readme: {tmp_path}: no geo/bench.json")
    (tmp_path / "geo").mkdir()
    (tmp_path / "geo/bench.json").write_text(json.dumps({"links": []}))
    assert main(["readme", str(tmp_path)]) == 0
    assert file.read_bytes() == (TOP / "tools/satcc_operate/figures.json").read_bytes()


def test_the_file_alone_leaves_the_pages(tmp_path, monkeypatch):
    """And a page without a table is refused."""
    monkeypatch.setattr(readme, "PAGES", (tmp_path / "nosuch.md",))
    monkeypatch.setattr(figures, "FILE", tmp_path / "figures.json")
    assert main(["readme", "--figures"]) == 0 and (tmp_path / "figures.json").exists()
    with pytest.raises(ValueError, match="no table beside"):
        figures.of(PAGE.replace("table: beside", "table: other"))
    with pytest.raises(ValueError, match="has no line with its source"):
        figures.of(PAGE.replace("\n(`make bench`, Linux", "\n(`make bench`, on"))
