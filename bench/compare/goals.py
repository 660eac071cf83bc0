# SPDX-License-Identifier: GPL-2.0
"""The list of satcc's goals: which experiment has each, and whether it holds.

It is read from modules/RESULTS-satcc.md, so it agrees with that page, whatever runs a table is from.
"""

import re

from ..paths import TOP

PAGE = TOP / "modules" / "RESULTS-satcc.md"
# A section: its title, and a table that is followed by goals.
SECTION = re.compile(r"^### (?P<title>[^\n]+)\n(?:(?!^#)[^\n]*\n)*?"
                     r"<!-- table: goal (?P<name>[\w-]+) -->\n(?P<block>.*?)<!-- end -->", re.S | re.M)
GOAL = re.compile(r"^- (?P<verdict>holds|holds, not surely|does not hold): (?P<text>.*?) "
                  r"\(holds in (?P<cells>\d+ of \d+)\b.*\)\.$", re.M)
SOURCE = re.compile(r"^\(`make goals`, .*, commit (?P<commit>\w+)\. "
                    r"(?:.* mean of (?P<seeds>\d+(?: to \d+)?) seeds)?.*\)$", re.M)


def anchor(title: str) -> str:
    """The fragment that GitHub gives a heading: "Loss, 2 Mbit/s" -> "loss-2-mbits"."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def of(text: str) -> list[dict]:
    """The goals of a page in its order, each with title, text, verdict, cells, seeds and commit.

    cells: "2 of 3"; seeds: of how many runs a figure is, if chance counts in it.  Raises ValueError
    if a line below a table is not a goal, or a table has no source.
    """
    goals = []
    for section in SECTION.finditer(text):
        block = section["block"]
        lines = [line for line in block.splitlines() if line.startswith("- ")]
        if not lines:
            continue
        source = SOURCE.search(block)
        if not source:
            raise ValueError(f"{PAGE.name}: {section['name']}: no line with the source")
        for line in lines:
            goal = GOAL.fullmatch(line)
            if not goal:
                raise ValueError(f"{PAGE.name}: {section['name']}: not a goal with a verdict: {line}")
            goals.append({"title": section["title"], **goal.groupdict(), "commit": source["commit"],
                          "seeds": source["seeds"] or "1"})
    return goals
