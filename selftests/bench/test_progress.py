# SPDX-License-Identifier: GPL-2.0
"""How far the runs are, on a terminal and in a log."""

import io

import pytest
from rich.console import Console

from bench import progress


@pytest.mark.parametrize("seconds, text", [(0, "about 0 s"), (119.4, "about 119 s"),
                                           (120, "about 2 min"), (2400, "about 40 min")])
def test_a_duration_in_words(seconds, text):
    assert progress.duration(seconds) == text


def told(terminal: bool, every_s: float) -> str:
    """What is printed while ten runs are done, one each `every_s`."""
    out, now = io.StringIO(), 0.0
    with progress.shown(Console(file=out, force_terminal=terminal, width=80), 10) as bar:
        runs = progress.Runs(bar.console, bar.bar, 10, clock=lambda: now)
        for done in range(11):
            runs.update(done, done, 10, 600 - 60 * done)
            now += every_s
    return out.getvalue()


def test_a_log_has_a_line_a_minute():
    assert told(False, 30).split("\n") == [
        "runs 2/10, about 8 min left", "runs 4/10, about 6 min left", "runs 6/10, about 4 min left",
        "runs 8/10, about 2 min left", "runs 10/10, about 0 s left", ""]
    assert told(False, 1) == ""


def test_a_terminal_has_a_bar_and_no_lines():
    assert "runs 2/10" not in told(True, 30) and "10/10" in told(True, 30)
