# SPDX-License-Identifier: GPL-2.0
"""Progress of the runs: a bar on a terminal, one line a minute in a log."""

import contextlib
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

LINE_S = 60


class Runs:
    """The object that shown() yields; it counts each finished run."""

    def __init__(self, console: Console, bar: Progress, total: float, clock=time.monotonic):
        self.console, self.bar, self.clock = console, bar, clock
        self.task = bar.add_task("runs", total=total, count="", left="")
        self.line_at = clock() + LINE_S

    def update(self, completed: float, done: int, runs: int, left_s: float) -> None:
        """Show the progress.

        completed: of shown()'s total.  done: of `runs` runs.  left_s: expected wall seconds to the end.
        """
        count, left = f"{done}/{runs}", f"{duration(left_s)} left"
        self.bar.update(self.task, completed=completed, count=count, left=left)
        if not self.console.is_terminal and self.clock() >= self.line_at:
            self.line_at = self.clock() + LINE_S
            self.console.print(f"runs {count}, {left}")


def duration(seconds: float) -> str:
    return f"about {seconds:.0f} s" if seconds < 120 else f"about {seconds / 60:.0f} min"


@contextlib.contextmanager
def shown(console: Console, total: float):
    """Yield a Runs, and show it during the block.  total: the value of `completed` at the end."""
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"),
                   TimeElapsedColumn(), TextColumn("{task.fields[left]}"), console=console)
    with bar if console.is_terminal else contextlib.nullcontext():
        yield Runs(console, bar, total)
