# SPDX-License-Identifier: GPL-2.0
"""The report: tables of the papers' values and ours, claims, causes, figures, and the runs.

    index.html      verdicts by paper, which policy for which link, index of metrics and questions
    <paper>.html    the experiments
    papers.md       the same without pictures
    papers.json     the numbers
    summary.json    the numbers of the table in bench/RESULTS.md

The pages are drawn from papers.json's data and the jobs' files; nothing here measures or judges.
"""

import json
import re
from pathlib import Path

import jinja2

from . import experiment, figures, results, tables, verdict
from .results import Results

HERE = Path(__file__).resolve().parent


def read(folder: Path) -> dict:
    return json.loads((folder / "papers.json").read_text(encoding="utf-8"))


def _environment():
    """The template environment of jinja2; its functions are for the layout only."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined, autoescape=lambda name: "html" in name)
    environment.globals.update(
        tables=tables, verdicts=verdict.VERDICTS, classes=verdict.CLASSES, signs=tables.SIGNS,
        papers={name: paper.citation for name, paper in experiment.papers().items()},
        goals={name for name, paper in experiment.papers().items() if paper.goals},
        floor_pct=verdict.FLOOR_PCT,
        css=lambda text: re.sub(r"[^a-z0-9]+", "-", text.lower()))
    return environment


def write(measured: Results, about: dict, folder: Path) -> dict:
    """Write every page, and return the data."""
    data = {"about": about, **measured.as_dict()}
    counts = results.counts(data)
    pictures = {f"{experiment.paper}/{experiment.name}": [
        (figure.title, figures.draw(measured, experiment, figure)) for figure in experiment.figures]
        for experiment in measured.experiments.values()}
    templates = _environment()
    only_goals = set(counts) <= templates.globals["goals"]
    contests = tables.contests(data)
    pages = {"index.html": {"template": "index.html.j2"}, "papers.md": {"template": "papers.md.j2"}}
    pages |= {f"{paper}.html": {"template": "paper.html.j2", "paper": paper} for paper in counts}
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        text = templates.get_template(page.pop("template")).render(
            data=data, counts=counts, pictures=pictures, contests=contests, only_goals=only_goals,
            **page)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "summary.json").write_text(json.dumps(results.summary(data), indent=1) + "\n",
                                         encoding="utf-8")
    # This file comes last: the workflow takes it as the sign of a complete report.
    (folder / "papers.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return data
