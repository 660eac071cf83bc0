# SPDX-License-Identifier: GPL-2.0
"""The acceptance suite: its links, its floors, and what its table says."""

import io

import pytest
from rich.console import Console

from bench.compare import geo
from bench.errors import LabError
from bench.measure import floors

DATA = geo.load()
ROWS = {row.name: row for _, row in geo.rows(DATA)}
MB = 1_000_000


def test_each_cell_has_every_policy_its_seeds_and_both_floors():
    cells = {}
    for row, size, item in geo.plan(DATA):
        cells.setdefault((row.name, size), []).append((item.mode or item.policy.cc, item.seed))
    assert set(cells) == {(row.name, size) for row in ROWS.values() for size in row.bytes}
    for (name, _), runs in cells.items():
        seeds = DATA["seeds"] if "1 % loss" in name else [1]
        wanted = {(cc, seed) for cc in DATA["policies"] for seed in seeds}
        assert len(runs) == len(set(runs)) and set(runs) == wanted | {("receiver", 1), ("stock", 1)}


@pytest.mark.parametrize("name, size, floor_s", [
    ("10/2 Mbit/s", 2 * MB, 2.97), ("10/2 Mbit/s", 10 * MB, 9.66),     # 8 / 9.564 s a MB, and 1.3 s
    ("50/10 Mbit/s", 10 * MB, 2.97), ("20/2 Mbit/s, 1 % loss", 10_485_760, 1.2 + 4.386 / 0.99),
    # 4.35 s at 47.82 Mbit/s, the rest at a fifth of it
    ("50/10 Mbit/s, 10 after 5 s", 100 * MB, 1.3 + 4.35 + (800 - 4.35 * 47.82) / 9.564)])
def test_floor(name, size, floor_s):
    assert ROWS[name].floor_s(size) == pytest.approx(floor_s, abs=0.01)


def test_links_match_the_table():
    played = ROWS["250/3 Mbit/s, 1 % loss both ways"].scenario("satcc", MB, 1)
    gateway, satellite = played.hops
    assert (gateway.forward.rate_mbit, satellite.reverse.rate_mbit) == (250, 3)
    assert (gateway.reverse.loss_pct, satellite.forward.loss_pct) == (1, 1)
    assert played.base_rtt_s == 0.65
    assert played.queue_packets(gateway.forward) == played.bdp_packets(gateway.forward)
    assert played.commands == ("sleep 120; kill $flows",)


def test_outages_come_and_go_and_a_floor_has_none():
    row = ROWS["250/3 Mbit/s, bursts of loss"]
    changes = row.scenario("cubic", MB, 1).changes
    times = [(round(change.at_s, 3), change.forward.loss_pct) for change in changes]
    assert times[:4] == [(1.5, 100), (1.55, 0), (4.0, 100), (4.05, 0)] and times[-1][1] == 0
    assert row.unlimited(MB, "stock").changes == ()


def test_the_queue_keeps_its_packets_when_the_rate_falls():
    row = ROWS["50/10 Mbit/s, 10 after 5 s"]
    played = row.scenario("satcc", MB, 1)
    change, = played.changes
    assert (change.at_s, change.hop, change.forward.rate_mbit) == (5, "gateway", 10)
    assert change.forward.queue_packets == played.bdp_packets(played.hops[0].forward)
    change, = row.unlimited(MB, "receiver").changes
    assert change.forward.queue_packets == floors.SEGMENTS


def test_a_receivers_floor_has_that_receivers_buffer():
    row = ROWS["10/2 Mbit/s"]
    policy = row.scenario("satcc", MB, 1)
    stock, wide = (row.unlimited(MB, name).receiver.sysctl["net.ipv4.tcp_rmem"]
                   for name in ("stock", "receiver"))
    assert stock == "4096 131072 6291456"
    assert wide == f"4096 {policy.socket_bytes()} {policy.socket_bytes()}"


def row(**changes):
    return {"link": "L", "source": "S", "bytes": MB, "rtt_ms": 650, "objective_s": 3, "floor_s": 2.0,
            "receiver_s": 2.5, "stock_s": 2.8, "give_up_s": 120,
            "seconds": {"satcc": [4.0, 5.0, None], "cubic": [None, None, 119.0]},
            "receiver_limited_s": {"satcc": [0.5, 0.7, 0.6]}, "drops": {"satcc": [3, 1, 2]}, **changes}


def test_a_line_has_medians_objective_and_floors():
    assert geo.cells(row(), ["satcc", "cubic"]) == [
        "L", "1 MB", "5.00*", "> 120", "3", "2.00", "2.50", "2.80", "0.60", "2"]
    assert geo.cells(row(objective_s=None), ["satcc", "cubic"])[4] == "–"


@pytest.mark.parametrize("changes, why", [
    ({"floor_s": 3.1}, "the link's own floor is above it"),
    ({"receiver_s": 3.1}, "a sender without congestion control needs longer too, as the receiver's "
     "window opens from 64 kB"),
    ({}, "the policies are the cause")])
def test_an_objective_that_none_reaches_has_a_cause(changes, why):
    data = {"policies": ["satcc", "cubic"], "rows": [row(**changes)]}
    assert geo.missed(data) == [f"L, 1 MB: no policy reaches 3 s; {why}"]
    assert geo.missed({**data, "rows": [row(objective_s=5)]}) == []


def test_the_table_has_every_cell():
    console = Console(width=60, record=True, file=io.StringIO())
    geo.print_table({"policies": ["satcc", "cubic"], "rows": [row()]}, console)
    text = console.export_text()
    assert all(word in text for word in geo.cells(row(), ["satcc", "cubic"]))
    assert "no policy reaches 3 s" in " ".join(text.split())


@pytest.mark.parametrize("changes, error", [
    ({"rate": 3}, r"geo.toml: group.row\[0\].rate = 3: unknown key"),
    ({"forward_mbit": 0}, r"group.row\[0\].forward_mbit = 0: a number from 0.001"),
    ({"objectives_s": [1, 2]}, "objectives_s needs one entry for each of bytes")])
def test_a_wrong_row_is_refused(changes, error):
    table = {"name": "L", "forward_mbit": 1, "return_mbit": 1, **changes}
    with pytest.raises(LabError, match=error):
        geo.rows({"group": {"source": "S", "rtt_ms": 600, "bytes": [MB], "row": [table]}})
