# SPDX-License-Identifier: GPL-2.0
"""python3 -m selftests.oracle RUN_FOLDER...: check runs that the lab has kept."""

import argparse
import json
import sys
from pathlib import Path

from bench.lab import scenario
from bench.lab.run import Run

from . import check


def reopen(folder: Path) -> Run:
    """A run from the folder it was kept in, build/runs/<xx>/<identity>."""
    meta = json.loads((folder / "meta.json").read_text())
    told = dict(meta["scenario"])
    told["hop"], told["flow"] = told.pop("hops"), told.pop("flows")
    told["change"] = [{key: value for key, value in change.items() if value is not None}
                      for change in told.pop("changes")]
    return Run(scenario.from_dict(told, str(folder)), folder, meta, True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m selftests.oracle", description=__doc__)
    parser.add_argument("folder", nargs="+", type=Path, help="a run: build/runs/<xx>/<identity>")
    wrong = 0
    for folder in parser.parse_args().folder:
        report = check(reopen(folder))
        print(f"{folder}:\n{report}")
        wrong += bool(report.differences)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
