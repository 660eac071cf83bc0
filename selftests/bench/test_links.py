# SPDX-License-Identifier: GPL-2.0
"""The random links are those of the data file, and are what they are meant to be."""

from bench.papers import experiment
from bench.scenario import links


def test_the_file_is_the_programs_output():
    assert links.PATH.read_text() == links.text()


def test_the_links_are_a_hundred_and_cover_their_ranges():
    loaded = experiment.load(links.PATH)
    played = [cell.scenario for cell in loaded.cells if cell.labels["TCP"] == "satcc"]
    assert len(played) == links.LINKS
    for value, (low, high) in (
            ([one.hops[0].forward.rate_mbit for one in played], links.RATE_MBIT),
            ([one.base_rtt_s * 1e3 for one in played], links.RTT_MS)):
        assert low <= min(value) < 2 * low and high / 2 < max(value) <= high + links.JITTER_MS[1]
    assert min(one.hops[1].forward.loss_pct for one in played) == 0
    assert max(one.hops[1].forward.loss_pct for one in played) > 2
    for kind in (lambda one: one.changes, lambda one: one.hops[1].forward.reorder_pct,
                 lambda one: one.hops[1].reverse.delay_series):
        assert 10 <= sum(bool(kind(one)) for one in played) <= 60
