# SPDX-License-Identifier: GPL-2.0
"""Each link of a page within the repository leads to a file, and its fragment to a heading there."""

import re
from pathlib import Path

import pytest

from bench.compare.goals import anchor
from bench.paths import TOP
from selftests.lint.test_style import tracked

PAGES = tracked(".md")
FENCED = re.compile(r"^```.*?^```", re.S | re.M)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.M)


def links(text: str) -> list[str]:
    """The targets of a page's links, without those to other hosts.  A link's text may have two lines."""
    without_code = re.sub(r"`[^`]*`", "", FENCED.sub("", text))
    return [target for target in LINK.findall(without_code) if "://" not in target]


def broken(page: Path, text: str) -> list[str]:
    """The links of a page at this path that lead to no file or to no heading."""
    wrong = []
    for target in links(text):
        name, _, fragment = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        if not path.exists():
            wrong.append(f"{target}: no such file")
        elif fragment and fragment not in {anchor(heading) for heading in HEADING.findall(
                FENCED.sub("", text if path == page else path.read_text()))}:
            wrong.append(f"{target}: no such heading")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_links_lead_somewhere(page):
    assert broken(page, page.read_text()) == []


@pytest.mark.parametrize("heading, fragment", [
    ("Goodput by random loss, 2 and 10 Mbit/s", "goodput-by-random-loss-2-and-10-mbits"),
    ("100 Mbit/s with random loss", "100-mbits-with-random-loss"),
    ("`satcc route`", "satcc-route"),
    ("A_b - c", "a_b---c")])
def test_a_heading_has_the_fragment_of_github(heading, fragment):
    assert anchor(heading) == fragment


def test_a_broken_link_is_seen():
    page = TOP / "modules" / "README-satcc.md"
    text = ("# One head\n[a](#one-head) [b](#another) [c](no.md) [two\nlines](RESULTS-satcc.md#none) "
            "[d](../README.md#install-select-verify-undo) `[e](none.md)` [f](https://example.org/#g)\n"
            "```\n# No head\n```\n[h](#no-head)")
    assert broken(page, text) == [
        "#another: no such heading", "no.md: no such file", "RESULTS-satcc.md#none: no such heading",
        "#no-head: no such heading"]
