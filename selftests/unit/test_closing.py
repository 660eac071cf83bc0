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


IN_TURN = """
import pytest
from selftests.conftest import pairs_in_turn

@pytest.mark.parametrize("row, policy", pairs_in_turn(
    [(row, policy) for row in "xyz" for policy in ("a", "b", "c")], always=["b"]))
def test_each(row, policy): print("played", row, policy)
"""


@pytest.fixture
def lines_of(tmp_path):
    """A function that plays tests and returns the lines of pytest's output."""
    def play(tests: dict[str, str], processes: int, *more: str) -> list[str]:
        for name, text in {"conftest.py": CONFTEST, **tests}.items():
            (tmp_path / name).write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider", "-n", str(processes),
             "--dist", "loadfile", "--rootdir", tmp_path, "-c", TOP / "selftests/pytest.ini", *more,
             tmp_path], cwd=tmp_path, text=True, capture_output=True,
            env={**os.environ, "PYTHONPATH": str(TOP)})
        assert not done.returncode, done.stdout + done.stderr
        return done.stdout.splitlines()
    return play


def played(lines: list[str]) -> set[str]:
    """The rows and policies that IN_TURN's test has printed: "xa", ..."""
    return {"".join(line.split()[1:]) for line in lines if line.startswith("played ")}


def test_long_tests_are_left_out_and_counted(lines_of):
    """Of each row the policy whose turn it is and the one that is always played."""
    lines = lines_of({"test_a.py": IN_TURN, "test_b.py": IN_TURN}, 2, "-m", "not long")
    assert played(lines) == {"xa", "xb", "yb", "yc", "za", "zb"} and lines[-1].startswith("12 passed")
    assert "left out without LONG=1: 6 tests of test_a.py 3, test_b.py 3" in lines


@pytest.mark.parametrize("words, count", [((), 9), (("-k", "x"), 3)])
def test_all_are_played_with_the_long_ones(lines_of, words, count):
    """Those that a keyword leaves out are not left out for their length."""
    lines = lines_of({"test_a.py": IN_TURN}, 0, *words)
    assert len(played(lines)) == count == int(lines[-1].split()[0])
    assert not any("left out" in line for line in lines)


@pytest.mark.parametrize("processes, ibk, mtsi", [(0, 4, 4), (2, 8, 5)])
def test_the_closing_line_counts_the_oracles_windows(lines_of, processes, ibk, mtsi):
    """A run that several have seen counts once."""
    output = lines_of({"test_a.py": TESTS, "test_b.py": TESTS}, processes)
    assert output[-1] == "2 passed, 0 failed, 2 skipped"
    line, = [line for line in output if line.startswith("oracle: ")]
    counts = {**dict.fromkeys(POLICIES, 0), "mtsi": mtsi, "ibk": ibk}
    assert line == (f"oracle: {ibk + mtsi} window changes of {2 + (processes > 1)} runs recomputed: "
                    + ", ".join(f"{policy} {count}" for policy, count in counts.items()))
