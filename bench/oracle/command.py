# SPDX-License-Identifier: GPL-2.0
"""Check runs that the lab has kept: every window against the papers' equations."""

import argparse
import json
import sys
from pathlib import Path

from ..errors import LabError
from ..record.run import Run
from ..scenario import scenario
from . import check


LISTS = {"hops": "hop", "flows": "flow", "changes": "change", "leaves": "host"}    # as files call them


def stated(value):
    """A stored scenario without the keys that have no value."""
    if isinstance(value, dict):
        return {key: stated(entry) for key, entry in value.items()
                if entry is not None and (key, entry) != ("delay_series", [])}
    if isinstance(value, list):
        return [stated(entry) for entry in value]
    return value


def reopen(folder: Path) -> Run:
    """A run from the folder it was kept in, build/runs/<xx>/<identity>."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
    except FileNotFoundError:
        raise LabError(f"{folder} is no folder of a run: it has no meta.json") from None
    table = {LISTS.get(key, key): value for key, value in stated(meta["scenario"]).items()}
    return Run(scenario.from_dict(table, str(folder)), folder, meta, True)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m bench oracle", description=__doc__)
    parser.add_argument("folder", nargs="+", type=Path, help="of a run: build/runs/<xx>/<identity>")
    differing = 0
    for folder in parser.parse_args(words).folder:
        try:
            report = check(reopen(folder))
        except LabError as error:
            print(f"oracle: {error}", file=sys.stderr)
            return 2
        print(f"{folder}:\n{report}")
        differing += bool(report.differences)
    return min(differing, 1)
