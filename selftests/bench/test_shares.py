# SPDX-License-Identifier: GPL-2.0
"""shares.py against made-up runs."""

import json
from types import SimpleNamespace

import pytest

from bench.errors import LabError
from bench.measure import flow_view, shares
from bench.scenario import scenario

FLOWS = ("ours", "ours", "theirs")


def played(packets: list[int]) -> SimpleNamespace:
    """Two flows of one host and one of the other, so many packets each in the ten seconds between the
    samples."""
    transfer = scenario.from_dict({
        "title": "made up", "mtu": 1000, "samples_s": [10, 20],
        "hop": [{"name": "r1", "forward": {"rate_mbit": 1, "queue_packets": 5}}],
        "host": [{"name": name, "at": "r1"} for name in ("ours", "theirs")],
        "flow": [{"cc": "reno", "seconds": 21, "source": name} for name in FLOWS]})
    files = {f"sample-{at}-{name}": "" for at in (10, 20) for name in FLOWS}
    for at, begun in ((10, False), (20, True)):
        for number, (name, count) in enumerate(zip(FLOWS, packets)):
            files[f"sample-{at}-{name}"] += (
                f"ESTAB 0 9 192.0.2.10:4000 192.0.2.6:{5001 + number} reno "
                f"bytes_acked:{(count * begun + 100) * 948}\n")
    return SimpleNamespace(scenario=transfer, read=lambda name: files[name].encode(),
                           json=lambda name: json.loads(files[name]))


def test_shares_of_a_host_are_of_all_its_flows():
    run = played([100, 300, 800])
    assert shares.source_kbit(run, "ours") == pytest.approx(400 * 8000 / 10 / 1e3)
    assert shares.source_kbit(run, "theirs") == pytest.approx(800 * 8000 / 10 / 1e3)
    assert shares.over_equal_share(run, "ours") == pytest.approx(200 / 400)
    assert shares.over_equal_share(run, "theirs") == pytest.approx(2)
    assert shares.share_ratio(run, "theirs", "ours") == pytest.approx(4)


def test_a_flow_without_goodput_has_no_ratio():
    assert shares.share_ratio(played([100, 100, 0]), "ours", "theirs") is None
    assert shares.share_ratio(played([0, 0, 100]), "ours", "theirs") == 0
    with pytest.raises(LabError, match="no flow made progress"):
        shares.over_equal_share(played([0, 0, 0]), "ours")


def test_a_host_without_a_flow_is_an_error():
    with pytest.raises(LabError, match="'sender'"):
        shares.source_kbit(played([1, 1, 1]), "sender")


@pytest.mark.parametrize("seconds, expected", [(0, 2.5), (9, 5)])
def test_the_longest_silence_may_be_the_last(monkeypatch, seconds, expected):
    monkeypatch.setattr(flow_view, "FlowView", lambda run, flow: SimpleNamespace(
        segment_s=[0.5, 1.0, 3.5, 4.0]))
    run = SimpleNamespace(scenario=SimpleNamespace(flows=[SimpleNamespace(seconds=seconds)]))
    assert shares.longest_silence_s(run) == pytest.approx(expected)
