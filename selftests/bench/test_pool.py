# SPDX-License-Identifier: GPL-2.0
"""play.run_all() with a lab that plays nothing."""

import io
import os
import signal
import threading
import types
from concurrent.futures import ALL_COMPLETED

import pytest
from rich.console import Console

from bench.errors import LabError
from bench.lab import machine, play


class Item:
    def __init__(self, name, wall_s):
        self.scenario, self.wall_s = name, wall_s

    def expected_wall_s(self):
        return self.wall_s

    def expected_virtual_s(self):
        return 10

    def files(self, release):
        return {"release": release.encode()}


class Lab:
    """Notes what it is asked to play; `fails` and `stops` are names of scenarios."""

    image = types.SimpleNamespace(release="6.1")

    def __init__(self, fails=(), stops=()):
        self.played, self.fails, self.stops = [], fails, stops

    def run(self, scenario, files, use_cache, on_progress):
        self.played.append((scenario, files["release"], use_cache))
        on_progress(5)
        if scenario in self.fails:
            raise LabError(f"{scenario} failed")
        if scenario in self.stops:
            raise KeyboardInterrupt
        return types.SimpleNamespace(scenario=scenario, from_cache=False)


@pytest.fixture
def one_core(monkeypatch):
    monkeypatch.setattr(play.os, "sched_getaffinity", lambda pid: {0})
    monkeypatch.setattr(machine, "interrupted", threading.Event())


def quiet():
    return Console(file=io.StringIO())


def test_the_longest_is_played_first_and_runs_keep_the_items_order(one_core):
    lab = Lab()
    items = [Item("short", 1), Item("long", 9), Item("middle", 5)]
    runs = play.run_all(lab, items, quiet(), use_cache=False)
    assert [run.scenario for run in runs] == ["short", "long", "middle"]
    assert lab.played == [(name, b"6.1", False) for name in ("long", "middle", "short")]


def test_the_first_error_stops_the_pool(one_core):
    lab = Lab(fails=["middle"])
    items = [Item(f"short {n}", 1 / (1 + n)) for n in range(50)] + [Item("long", 9), Item("middle", 5)]
    with pytest.raises(LabError, match="middle failed"):
        play.run_all(lab, items, quiet())
    assert [name for name, *_ in lab.played] == ["long", "middle"]
    assert not machine.interrupted.is_set()


@pytest.fixture
def heard():
    """Ctrl-C raises KeyboardInterrupt, also where the tests are run in a script's background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_after_an_error_ends_the_guests_that_run(heard, monkeypatch):
    """run_all() waits for a run that has begun; Ctrl-C then reaches that run's guest."""
    monkeypatch.setattr(play.os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(machine, "interrupted", threading.Event())
    ended = []

    class Slow(Lab):
        def run(self, scenario, files, use_cache, on_progress):
            if scenario == "long":
                os.kill(os.getpid(), signal.SIGINT)     # the main thread gets it, while it waits
                ended.append(machine.interrupted.wait(60))
            return super().run(scenario, files, use_cache, on_progress)

    class Late(Item):
        def files(self, release):
            assert failed.wait(60)
            return super().files(release)

    failed = threading.Event()
    wait = play.wait

    def wait_for_all(futures, timeout, return_when=ALL_COMPLETED):
        if return_when == ALL_COMPLETED:
            failed.set()
        return wait(futures, timeout, return_when)

    monkeypatch.setattr(play, "wait", wait_for_all)
    with pytest.raises(LabError, match="short failed"):
        play.run_all(Slow(fails=["short"]), [Late("long", 9), Item("short", 1)], quiet())
    assert ended == [True]


def test_an_interrupt_tells_the_guests_that_run(one_core):
    with pytest.raises(KeyboardInterrupt):
        play.run_all(Lab(stops=["long"]), [Item("long", 9), Item("short", 1)], quiet())
    assert machine.interrupted.is_set()


def test_machines_of_two_checkouts_have_a_processor_each(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {9001, 9002})
    with machine._own_cpu() as one:
        monkeypatch.setattr(machine, "BUILD", tmp_path)
        with machine._own_cpu() as other:
            assert {one, other} == {9001, 9002}
            with machine._own_cpu() as third:
                assert third in (one, other)
        with machine._own_cpu() as again:
            assert again == other
