# SPDX-License-Identifier: GPL-2.0
"""The closing lines of make check are of all its processes."""

import os
import subprocess
import sys

import pytest

from bench.oracle import POLICIES
from bench.paths import TOP

CONFTEST = """
from selftests.conftest import *

class FakeLab:
    def changes(self):
        return {"all": {"mtsi": 3}, os.environ.get("PYTEST_XDIST_WORKER", ""): {"ibk": 4, "mtsi": 1}}

@pytest.fixture(scope="session")
def lab(pytestconfig):
    pytestconfig.stash[the_lab] = FakeLab()
"""
TESTS = """
import pytest

def test_a_run(lab): pass
def test_without(): pytest.skip("no wish")
"""


@pytest.mark.parametrize("processes, ibk, mtsi", [(0, 4, 4), (2, 8, 5)])
def test_the_closing_line_counts_the_oracles_windows(tmp_path, processes, ibk, mtsi):
    """A run that several have seen counts once."""
    for name, text in (("conftest.py", CONFTEST), ("test_a.py", TESTS), ("test_b.py", TESTS)):
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(processes), "--dist",
         "loadfile", "--rootdir", tmp_path, tmp_path], cwd=tmp_path, text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(TOP)})
    output = done.stdout.splitlines()
    assert output[-1] == "2 passed, 0 failed, 2 skipped", done.stdout + done.stderr
    line, = [line for line in output if line.startswith("oracle: ")]
    counts = {**dict.fromkeys(POLICIES, 0), "mtsi": mtsi, "ibk": ibk}
    assert line == (f"oracle: {ibk + mtsi} window changes of {2 + (processes > 1)} runs recomputed: "
                    + ", ".join(f"{policy} {count}" for policy, count in counts.items()))
