# SPDX-License-Identifier: GPL-2.0
"""Play many scenarios on all cores, with a progress bar."""

import os
import threading
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from rich.console import Console

from .. import progress
from ..record.run import Run
from . import machine
from .play import Lab


class _Meter:
    """Shows the progress of the items.  Its unit is the wall seconds that the items should take."""

    def __init__(self, items, cores: int, shown: progress.Runs):
        self._items, self._cores, self._shown = items, cores, shown
        self._played_s = [0.0] * len(items)
        self._spared_s = 0.0            # the items that the cache had
        self._finished = 0
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._show()

    def _show(self) -> None:
        total = sum(item.expected_wall_s() for item in self._items)
        played = sum(self._played_s)
        rate = (played - self._spared_s) / (time.monotonic() - self._began) or self._cores
        self._shown.update(played, self._finished, len(self._items), (total - played) / rate)

    def is_at(self, number: int, virtual_s: float) -> None:
        item = self._items[number]
        part = min(1, virtual_s / item.expected_virtual_s())
        with self._lock:
            self._played_s[number] = part * item.expected_wall_s()
            self._show()

    def ended(self, number: int, from_cache: bool) -> None:
        with self._lock:
            self._played_s[number] = self._items[number].expected_wall_s()
            self._spared_s += self._played_s[number] * from_cache
            self._finished += 1
            self._show()


def run_all(lab: Lab, items, console: Console, use_cache: bool = True) -> list[Run]:
    """Play all items on all cores, the longest first.  Returns their runs in the items' order.

    items: each has scenario, files(release), expected_wall_s() and expected_virtual_s().
    After an error no further run begins, and run_all() raises it when those under way have ended.
    Ctrl-C ends those too.
    """
    cores = len(os.sched_getaffinity(0))
    runs = [None] * len(items)

    failed = threading.Event()

    def play(number: int) -> Run | None:
        if failed.is_set():
            return None
        item = items[number]
        try:
            return lab.run(item.scenario, item.files(lab.image.release), use_cache=use_cache,
                           on_progress=lambda virtual_s: meter.is_at(number, virtual_s))
        except BaseException:
            failed.set()
            raise

    order = sorted(range(len(items)), key=lambda number: -items[number].expected_wall_s())
    total = sum(item.expected_wall_s() for item in items)
    numbers = {}                # future -> number of its item
    with progress.shown(console, total) as shown:
        meter = _Meter(items, cores, shown)
        pool = ThreadPoolExecutor(cores)
        try:
            numbers |= {pool.submit(play, number): number for number in order}
            for future in _completed(numbers):
                if run := future.result():
                    runs[numbers[future]] = run
                    meter.ended(numbers[future], run.from_cache)
        except KeyboardInterrupt:
            machine.interrupted.set()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            _settle(numbers)
    return runs


# Python handles a signal that arrives just before a thread waits for a lock only when the wait ends.
_CTRL_C_WITHIN_S = 1


def _completed(futures):
    """Yield each future when it is done.  It handles Ctrl-C within _CTRL_C_WITHIN_S."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, _CTRL_C_WITHIN_S, FIRST_COMPLETED)
        yield from done


def _settle(futures) -> None:
    """Wait for the runs that have begun.  At Ctrl-C their threads end their guests and clean up.

    shutdown() would wait with Thread.join(), and a join() that Ctrl-C interrupts takes the thread for
    ended.
    """
    pending = {future for future in futures if not future.cancelled()}
    while pending:
        try:
            pending = wait(pending, _CTRL_C_WITHIN_S).not_done
        except KeyboardInterrupt:
            machine.interrupted.set()
