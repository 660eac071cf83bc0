# SPDX-License-Identifier: GPL-2.0
"""Check kept runs: compare every window with the papers' equations."""

import json
import sys
from pathlib import Path

from ..errors import LabError
from ..record.run import Run
from ..scenario import scenario
from . import check


LISTS = {"hops": "hop", "flows": "flow", "changes": "change", "leaves": "host"}    # -> key in a file


def without_empty(value):
    """A stored scenario without the keys that have no value."""
    if isinstance(value, dict):
        return {key: without_empty(entry) for key, entry in value.items()
                if entry is not None and (key, entry) != ("delay_series", [])}
    if isinstance(value, list):
        return [without_empty(entry) for entry in value]
    return value


def reopen(folder: Path) -> Run:
    """The run in a folder, build/runs/<xx>/<identity>.  Raises LabError if there is none."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
    except FileNotFoundError:
        raise LabError(f"{folder} is not the folder of a run: it has no meta.json") from None
    table = {LISTS.get(key, key): value for key, value in without_empty(meta["scenario"]).items()}
    return Run(scenario.from_dict(table, str(folder)), folder, meta, True)


def check_runs(folders: list[Path]) -> int:
    """Print the report on each kept run.  Returns the exit status."""
    differing = 0
    for folder in folders:
        try:
            report = check(reopen(folder))
        except LabError as error:
            print(f"oracle: {error}", file=sys.stderr)
            return 2
        print(f"{folder}:\n{report}")
        differing += bool(report.differences)
    return min(differing, 1)
