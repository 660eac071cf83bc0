# SPDX-License-Identifier: GPL-2.0
"""hybla_full in a real kernel, over real paths."""

import dataclasses

import numpy as np
import pytest

from bench import oracle
from bench.measure import flow_view
from bench.record import pcap
from bench.scenario.scenario import Flow
from selftests.conftest import long
from selftests.lab import decisions

pytestmark = pytest.mark.lab

# One ACK a segment, so that ACK n of the tables is ACK n of the run.
EACH_ACK = {"quickack": 1}
# A link that is never the limit: 100 Mbit/s and room for all of it.
WIDE = {"rate_mbit": 100, "queue_packets": 2000}
HOE_OFF, HOE_SET = 0, 3             # enum hybla_hoe_phase


def named(run, *names):
    return decisions.of(run, "hybla_full", *names)


def decided(run):
    """The calls in which ssthresh was set from the train."""
    return [row for row in named(run) if row["hoe_phase"] == HOE_SET != row["hoe_phase_old"]]


def grown(run, count, first="start"):
    """cwnd after each of the first ACKs that grew it."""
    rows = named(run, "start", "start_exit", "avoid")
    begin = next(n for n, row in enumerate(rows) if row["name"].startswith(first))
    return [row["cwnd"] for row in rows[begin:begin + count]]


def after_another(transfer):
    """The same, its flow preceded by a short one that leaves the route's metrics in the cache."""
    first = Flow("cubic", bytes=1000)
    second = dataclasses.replace(transfer.flows[0], start_s=5)
    return dataclasses.replace(transfer, flows=(first, second))


def test_slow_start_then_avoidance_follow_the_table(lab, geo):
    """RTT 100 ms (rho 4), initial window 10, ssthresh 50: 2^4 - 1 per ACK, then 16 / W.  An
    ssthresh known beforehand leaves nothing to estimate."""
    run = lab.run(after_another(geo(**WIDE, rtt_ms=100, bytes=200_000, receiver=EACH_ACK,
                                    sender={"ssthresh": 50})))
    assert grown(run, 12) == [25, 40, 50, 50, 50, 50, 51, 51, 51, 52, 52, 52]
    assert not decided(run)


def test_geo_jump_and_growth_follow_the_table(lab, geo):
    """600 ms, 2 Mbit/s, initial window 10: plain slow start, then ssthresh 100 at the third ACK
    and 576 / W per ACK."""
    run = lab.run(geo(bytes=300_000, receiver=EACH_ACK))
    assert grown(run, 10) == [11, 12, 100, 105, 110, 116, 120, 125, 130, 134]


def test_no_first_ack_explosion(lab, geo):
    """The kernel's hybla goes to its clamp at the first ACK of this path; this one must not."""
    ours = lab.run(geo(bytes=1_000_000))
    theirs = lab.run(geo("hybla", bytes=1_000_000))
    t, cwnd, _ = flow_view.cwnd_series(ours)
    assert cwnd[t < 1.3].max() <= 200                   # two times the path
    t, cwnd, _ = flow_view.cwnd_series(theirs)
    assert cwnd[t < 1.3].max() > 20_000                 # or this test has no object


@pytest.mark.parametrize("rate_mbit, rtt_ms", [(2, 600), (10, 600), (1.144, 587), (2, 250)])
def test_hoe_estimate_is_the_path(lab, geo, rate_mbit, rtt_ms):
    """ssthresh = bottleneck rate x minimum RTT, within 3 % and the segment it is rounded by."""
    transfer = geo(rate_mbit=rate_mbit, rtt_ms=rtt_ms, bytes=300_000)
    run = lab.run(transfer)
    call, = decided(run)
    frames = rate_mbit * 1e6 / 8 / transfer.frame_bytes * rtt_ms / 1e3
    assert call["ssthresh"] == pytest.approx(frames, rel=0.03, abs=1)


def test_hoe_fit_is_exact(lab, geo):
    """The kernel's integer fit, redone in fractions from the ACKs' times."""
    run = lab.run(geo(bytes=300_000))
    call, = decided(run)
    assert call["hoe_points"] >= 3
    oracle.check(run).raise_first()


@pytest.mark.parametrize("path", [
    long({"bytes": 5_000_000}), {"seconds": 60, "loss_pct": 1},
    long({"seconds": 30, "rtt_ms": 100, "rate_mbit": 10}), long({"bytes": 2_000_000, "rtt_ms": 20})],
    ids=["queue", "loss", "100ms", "20ms"])
def test_every_step_is_exact(lab, geo, path):
    """Every window, recomputed from the ACKs and RTT samples."""
    run = lab.run(geo(**path))
    assert oracle.check(run).raise_first().changes > 100
    thinned = [row for row in named(run, "avoid") if row["acked"] > 1]
    assert thinned, "every ACK was for one segment: delayed ACKs were not met"


def test_20_ms_is_reno(lab, geo):
    """Below the reference RTT rho is 1: one segment for each acknowledged, then one a window."""
    rows = named(lab.run(geo(rtt_ms=20, rate_mbit=10, seconds=10)), "start", "avoid")
    assert all(row["rho_q16"] == 1 << 16 for row in rows)
    starts = [row for row in rows if row["name"] == "start"]
    assert starts and all(row["cwnd"] - row["cwnd_old"] == row["acked"] for row in starts)
    avoids = [row for row in rows if row["name"] == "avoid"]
    windows = sum(row["acked"] / row["cwnd_old"] for row in avoids)
    assert windows > 20
    assert sum(row["cwnd"] - row["cwnd_old"] for row in avoids) / windows == pytest.approx(1, rel=0.1)


def gaps_after(run, seconds):
    """Time between new segments leaving the sender, in s, after a time."""
    view = flow_view.FlowView(run)
    first = ~view.is_retransmit & (view.segment_s > seconds)
    return np.diff(view.segment_s[first])


def test_pacing_spreads_the_jump(lab, geo):
    """The third ACK brings the estimate, and releases what there is: paced at 120 % of ssthresh per
    RTT, that is 4 to 5 ms apart."""
    gaps = gaps_after(lab.run(geo(bytes=100_000, receiver=EACH_ACK)), 1.21)
    expected = 0.612 / (1.2 * 105)          # srtt / (ratio x cwnd)
    assert len(gaps) > 30 and np.quantile(gaps, 0.1) > 0.6 * expected


def test_train_leaves_back_to_back(lab, geo):
    """The estimate reads the spacing the bottleneck gave, so the sender must not space."""
    view = flow_view.FlowView(lab.run(geo(bytes=100_000)))
    assert view.segment_s[9] - view.segment_s[0] < 1e-3
    # Nor are the two that the first ACK releases kept apart, 27 ms at 200 % of 11 per RTT.
    assert view.segment_s[11] - view.segment_s[10] < 1e-3


@pytest.mark.parametrize("sysctl", ["net.ipv4.tcp_sack", "net.ipv4.tcp_timestamps"])
def test_without_sack_or_timestamps_it_is_reno(lab, geo, sysctl):
    run = lab.run(geo(bytes=300_000, sender={"sysctl": {sysctl: 0}}))
    grown_rows = named(run, "start", "avoid", "start_exit")
    assert grown_rows and not any(row["by_rho"] for row in grown_rows)
    assert not decided(run)
    for row in grown_rows:
        assert row["cwnd"] - row["cwnd_old"] <= row["acked"]
    options = flow_view.FlowView(run).syn
    assert (pcap.SACK_PERMITTED if "sack" in sysctl else 8) not in options


def test_switch_on_a_live_flow(lab, geo):
    """cubic -> hybla_full -> reno -> hybla_full: the switch itself leaves cwnd alone, starts no
    Hoe train, and the transfer arrives."""
    run = lab.run(geo("cubic", bytes=3_000_000,
                      changes=[[4000, "hybla_full"], [8000, "reno"], [10000, "hybla_full"]]))
    inits = named(run, "init")
    assert len(inits) == 2
    for row in inits:
        assert row["cwnd"] == row["cwnd_old"] > 10
    assert {row["hoe_phase"] for row in named(run)} == {HOE_OFF}
    assert flow_view.FlowView(run).transfer_s(3_000_000)


def test_ipv6(lab, geo):
    """The same path in IPv6: 20 bytes a segment more header, otherwise the same start.  Of a size
    that the path and its queue hold: what is lost is another matter."""
    v4, v6 = lab.run(geo(bytes=280_000)), lab.run(geo(bytes=280_000, family=6))
    assert not any(flow_view.FlowView(run).is_retransmit.any() for run in (v4, v6))
    times = [flow_view.FlowView(run).transfer_s(280_000) for run in (v4, v6)]
    assert times[1] / times[0] == pytest.approx(1, abs=0.02)
    assert decided(v6)[0]["ssthresh"] == pytest.approx(100, abs=2)


def test_loss_halves_and_drops_the_credit(lab, geo):
    run = lab.run(geo(seconds=40, loss_pct=1))
    states = named(run, "state")
    assert any(row["credit_avoid_q16_old"] for row in states)
    assert all(row["credit_avoid_q16"] == 0 and row["credit_start_q16"] == 0 for row in states)
    for row in named(run, "ssthresh"):
        assert row["ssthresh"] == max(row["cwnd_old"] // 2, 2)


def test_idle_restart_drops_the_credit_and_keeps_rho(lab, geo):
    """Half a minute of nothing between two halves of a transfer: the window is halved for each
    timeout's length of it, to the initial one."""
    transfer = geo(bytes=400_000)
    run = lab.run(dataclasses.replace(transfer, flows=(
        dataclasses.replace(transfer.flows[0], pause_ms=30_000),)))
    rows = named(run)
    idle, = [number for number, row in enumerate(rows) if row["name"] == "idle"]
    assert rows[idle]["credit_avoid_q16_old"] and not rows[idle]["credit_avoid_q16"]
    assert rows[idle - 1]["cwnd"] > 100 and rows[idle + 1]["cwnd_old"] <= 10
    # The minimum RTT may fall by a microsecond.
    assert rows[idle + 1]["rho_q16"] == pytest.approx(rows[idle - 1]["rho_q16"], rel=1e-5)
    assert rows[idle + 1]["rho_q16"] > 20 << 16
    assert len(decided(run)) == 1


def test_cc_info_has_rho_and_the_smallest_rtt(lab, geo):
    """Vegas' record in TCP_CC_INFO, which inet_diag has too."""
    info = lab.run(geo(bytes=300_000)).json("flow-0.json")["vegas"]
    assert info["enabled"] == 1 and info["rttcnt"] == 24
    assert 600_000 <= info["minrtt"] < 600_200 and info["rtt"] >= info["minrtt"]


def test_an_applications_rhythm_is_no_train(lab, geo):
    """Twice five segments, three seconds apart, never fill a window of ten: their ACKs tell of the
    application, and no estimate is made of them."""
    transfer = geo(bytes=2 * 5 * 1448)
    run = lab.run(dataclasses.replace(transfer, flows=(
        dataclasses.replace(transfer.flows[0], pause_ms=3000),)))
    assert not decided(run) and not any(row["hoe_points"] for row in named(run))


def test_initial_window_of_rho(lab, geo):
    """iw_rho=1 at 600 ms: 24 segments in the first flight, 10 without."""
    def first_flight(parameters):
        run = lab.run(geo(bytes=100_000, modules={"tcp_hybla_full": parameters}))
        return int((flow_view.FlowView(run).segment_s < 1.15).sum())
    assert first_flight({"iw_rho": 1}) == 24
    assert first_flight({"iw_rho": 0}) == 10


GENTLE = {"tcp_hybla_full": {"gentle": 1}}


def test_gentle_growth_spares_the_queue_and_costs_no_time(lab, geo):
    """10 MB at 2 Mbit/s: at most a twentieth of the drops, and 2 % more time at most."""
    paper, gentle = (lab.run(geo(bytes=10_000_000, modules=modules)) for modules in ({}, GENTLE))
    drops = [flow_view.queue_drops(run) for run in (paper, gentle)]
    assert drops[0] > 1000 and drops[1] < drops[0] / 20
    times = [flow_view.FlowView(run).transfer_s(10_000_000) for run in (paper, gentle)]
    assert times[1] < 1.02 * times[0]


def test_gentle_growth_sees_a_queue_and_then_none(lab, geo):
    """On a short queue: the flow fills it, loses, and finds the path empty again."""
    rows = named(lab.run(geo(seconds=40, queue_bdp=0.5, modules=GENTLE)), "avoid")
    shows = [row["queue_shows"] for row in rows]
    assert {(0, 1), (1, 0)} <= set(zip(shows, shows[1:]))
