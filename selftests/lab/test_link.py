# SPDX-License-Identifier: GPL-2.0
"""The emulated satellite link: calibrated stage by stage, then with TCP over it."""

import dataclasses
import json

import pytest

from bench.errors import LabError
from bench.lab import job, machine
from bench.lab.play import Lab
from bench.measure import calibrate, flow_view
from bench.lab import satlink
from bench.scenario import satellite, scenario
from selftests.conftest import KERNEL, long

pytestmark = pytest.mark.lab

# A terminal with a grant that is soon there, for short tests.
QUICK_BOD = {"superframe_ms": 82, "allocation_ms": 135}
# Of 1000 draws of 5 %: scipy.stats.binom.interval(1 - 1e-5, 1000, 0.05).
LOWER, UPPER = 23, 83


@pytest.fixture(scope="module")
def papers_lab():
    return Lab(KERNEL, extras=("papers",))


# Those that `make check` plays. `make papers` and `make goals` play all before they use such a link.
EVERYDAY = (calibrate.rate, calibrate.delay, calibrate.queue, calibrate.losses, calibrate.demand)


@pytest.mark.parametrize("check", [
    check if check in EVERYDAY else long(check) for check in calibrate.CHECKS],
    ids=lambda check: check.__name__)
def test_calibrated(papers_lab, check):
    """The short form of python3 -m bench calibrate --full."""
    wrong = [str(row) for row in check(papers_lab, calibrate.SHORT) if not row.passed]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("row, passed", [
    (calibrate.near("", "", 10.0, 10, 0), True), (calibrate.near("", "", 10.2, 10, 0.1), False),
    (calibrate.none("", 0), True), (calibrate.none("", 1), False),
    (calibrate.binomial("", 50, 1000, 0.05), True), (calibrate.binomial("", LOWER, 1000, 0.05), True),
    (calibrate.binomial("", UPPER, 1000, 0.05), True),
    (calibrate.binomial("", LOWER - 1, 1000, 0.05), False),
    (calibrate.binomial("", UPPER + 1, 1000, 0.05), False),
    (calibrate.normal("", "", 14.4, 10, 1), True), (calibrate.normal("", "", 14.5, 10, 1), False),
    (calibrate.normal("", "", 14.5, 10, 1, uncertainty=0.1), True)])
def test_a_row_can_fail(row, passed):
    """Of what is random outside the interval of 1 - 1e-5."""
    assert row.passed is passed


def test_the_interval_shown_is_the_99_percent_interval():
    """scipy.stats.binom.interval(0.99, 1000, 0.05) is (33, 69)."""
    row = calibrate.binomial("", 50, 1000, 0.05)
    assert (row.low, row.high) == pytest.approx((3.3, 6.9))
    row = calibrate.normal("", "", 0, 0, 1)
    assert (row.low, row.high) == pytest.approx((-2.576, 2.576))


def link(forward, reverse=None, wire=None, **rest):
    """Three hops: a bottleneck, the satellite, and a wire behind it."""
    return scenario.from_dict({
        "title": "test",
        "hop": [{"name": "gateway", "forward": {"rate_mbit": 2, "queue_packets": 100}},
                {"name": "link", "forward": forward, "reverse": reverse or {}},
                {"name": "wire", "forward": wire or {}}],
        "flow": [{"cc": "cubic", "bytes": 200_000}], **rest})


@pytest.mark.parametrize("family", [4, 6])
def test_tcp_over_slots_losses_and_delay(papers_lab, family):
    """Slots and losses forward, a delay back; the transfer is whole, and the RTT what they make."""
    run = papers_lab.run(link({"mac": QUICK_BOD, "errors": {"ber": 1e-6}, "delay_ms": 100},
                              {"delay_series": [[0, 150]]}, family=family))
    sent, back = (run.json(satellite.result_name("link", side)) for side in ("forward", "reverse"))
    info = run.json("flow-0.json")
    assert info["bytes_acked"] >= 200_000
    assert sent["error_losses"] > 0 and info["total_retrans"] >= sent["error_losses"]
    assert back["in_packets"] >= back["out_packets"] > 50 and not back["error_losses"]
    assert info["min_rtt"] > 250_000
    assert run.scenario.extras == ("papers",) and 0.1 < flow_view.utilisation(run) < 1
    assert flow_view.link_losses(run) == sent["error_losses"]
    assert flow_view.queue_drops(run) == sent["queue_drops"]


def test_time_zero_is_the_flows_start(papers_lab):
    """The first SYN leaves within a few ms of it, and a step of the delay comes when it should."""
    run = papers_lab.run(link({"delay_series": [[0, 50], [0.5, 250]]}))
    zero_ns = run.json(satellite.result_name("link", "forward"))["zero_ns"]
    view = flow_view.FlowView(run)
    assert 0 <= view.start_ns - zero_ns < 10_000_000
    assert 0.1 < view.ack_s[0] < 0.11       # of the first window, a round trip after the handshake's
    late = view.segment_s > 0.51
    assert late.any() and view.transfer_s(200_000) > 0.75


def test_same_inputs_same_packets(papers_lab):
    lossy = link({"mac": QUICK_BOD, "delay_ms": 100}, wire={"errors": {"good_s": 0.5, "bad_s": 0.05}})
    assert papers_lab.run(lossy).hash == papers_lab.run(lossy, use_cache=False).hash


def test_losses_are_the_seeds_own(papers_lab):
    """Another seed, other fades; what the kernel draws beside does not matter."""
    def spans(seed, cc, loss_pct=0.0):
        transfer = link({"errors": {"good_s": 0.2, "bad_s": 0.01}, "delay_ms": 50}, seed=seed)
        wire = dataclasses.replace(transfer.hops[2], forward=scenario.Stage(loss_pct=loss_pct))
        hops = (*transfer.hops[:2], wire)
        run = papers_lab.run(dataclasses.replace(
            transfer, hops=hops, flows=(dataclasses.replace(transfer.flows[0], cc=cc),)))
        return run.read("satlink-link-forward.csv").splitlines()[:3]
    first = spans(1, "cubic")
    assert len(first) == 3 and first == spans(1, "reno", loss_pct=2)
    assert first != spans(2, "cubic")


def test_the_phase_can_be_the_seeds(papers_lab):
    phases = {papers_lab.run(link({"mac": {**QUICK_BOD, "phase_ms": -1}}, seed=seed))
              .json("satlink-link-forward.json")["phase_ns"] for seed in (1, 2)}
    assert len(phases) == 2 and all(0 <= phase < 82e6 for phase in phases)


def small_packets(count):
    """A shell line that sends so many at once over the link."""
    return f"in_ns sender probe send {job.receiver_address(link({}))} {calibrate.PORT} {count} 60 1000"


def test_a_packet_at_time_zero_is_in_no_fade(papers_lab):
    """satlink sleeps over time zero and then finds packets, which seem to be from before it."""
    transfer = link({"errors": {"good_s": 1e6, "bad_s": 1e-3}, "delay_ms": 50}, capture=False, trace=[],
                    before=["kill -STOP $links",
                            small_packets(3)],
                    commands=["kill -CONT $links"])
    info = papers_lab.run(transfer).json(satellite.result_name("link", "forward"))
    assert info["in_packets"] > 3 and info["error_losses"] == info["fades"] == 0


def test_a_link_that_lost_a_packet_is_refused():
    """Whoever dropped it, satlink or the device before it, and whether or not it was counted."""
    transfer = link({"delay_series": [[0, 10]]})

    def check(dropped=0, **changed):
        counts = {"in_packets": 9, "out_packets": 4, "queue_drops": 2, "error_losses": 1, "inside": 2,
                  "refused": 0, **changed}
        satlink.check_results(transfer, {
            satellite.result_name("link", "forward"): json.dumps(counts).encode(),
            satellite.device_name("link", "forward"):
                json.dumps([{"stats64": {"tx": {"dropped": dropped}}}]).encode()})
    check()
    for wrong, message in (({"dropped": 1}, "its device dropped 1 packets"),
                           ({"refused": 1}, "could not deliver 1 packets"),
                           ({"in_packets": 10}, ": 1 packets are missing in its counters"),
                           ({"inside": 1}, ": 1 packets are missing in its counters"),
                           ({"out_packets": 5}, ": -1 packets are missing in its counters")):
        with pytest.raises(LabError, match=message):
            check(**wrong)
    with pytest.raises(LabError, match="left no result"):
        satlink.check_results(transfer, {})


def test_a_device_that_drops_is_seen(papers_lab):
    """A TUN with room for two packets, in front of a satlink that sleeps."""
    transfer = link({"delay_series": [[0, 10]]},
                    before=["ip -n link link set sat-right txqueuelen 2", "kill -STOP $links",
                            small_packets(5),
                            "kill -CONT $links"])
    with pytest.raises(LabError, match="its device dropped 3 packets"):
        papers_lab.run(transfer)


def test_a_failures_whole_line_is_printed(tmp_path):
    """The console can be read while a line of it is being written."""
    console = tmp_path / "console.log"
    guest = machine.Machine.__new__(machine.Machine)
    guest.console = console
    for text, failure in (("satcc: failed: s", ""), ("satcc: failed: some\r\n", "satcc: failed: some")):
        console.write_text(text)
        assert guest.failure() == failure


def test_an_image_without_satlink_is_refused(lab):
    with pytest.raises(LabError, match="this image has no satlink"):
        lab.run(link({"delay_series": [[0, 10]]}))


@pytest.mark.parametrize("forward, message", [
    ({"mac": {}, "rate_mbit": 2, "queue_packets": 9}, "rate_mbit cannot be combined with mac"),
    ({"mac": {}, "loss_pct": 2}, "loss_pct cannot be combined with mac"),
    ({"mac": {"kind": "aloha"}}, 'mac.kind = "aloha": one of "bod", "tdma"'),
    ({"mac": {"static_kbit": 50}}, "not a whole number of slots of 44"),
    ({"mac": {"cap_kbit": 0}}, "at least static_kbit"),
    ({"mac": {"superframe_ms": 0}}, "superframe_ms = 0: a number from 0.001"),
    ({"mac": {"overhead_pct": 100}}, "too small for one byte"),
    ({"mac": {"nosuch": 1}}, "mac.nosuch = 1: unknown key"),
    ({"mac": {}, "errors": {"good_s": 1, "bad_s": 1}}, "cannot be combined with mac; put the errors on"),
    ({"errors": {}}, "one of ber, good_s with bad_s, frame_bytes"),
    ({"errors": {"ber": 1e-6, "good_s": 1, "bad_s": 1}}, "one of ber"),
    ({"errors": {"good_s": 1}}, "good_s and bad_s must be above 0"),
    ({"errors": {"frame_bytes": 6075}}, "needs frame_ms"),
    ({"delay_series": [[1, 20]]}, "times rising"),
    ({"delay_series": [[0, 20], [5, 30], [5, 20]]}, "times rising"),
    ({"delay_series": [[0, 20]], "delay_ms": 20}, "either delay_ms or delay_series")])
def test_a_stage_with_a_mistake_is_refused(forward, message):
    with pytest.raises(LabError, match=message):
        link(forward)


def test_a_change_of_such_a_stage_is_refused():
    change = {"at_s": 1, "hop": "link", "forward": {"delay_ms": 1}}
    with pytest.raises(LabError, match="a bottleneck only a rate"):
        link({"delay_series": [[0, 20]]}, change=[change])


def test_the_papers_terminal():
    """Caini et al. 2008, 3.3: what the defaults come to."""
    mac = satellite.Mac()
    assert mac.granularity_kbit == 44 and (mac.static_slots, mac.cap_slots) == (1, 26)
    assert mac.lag == 2                     # 1346 ms, at the start of a super-frame of 820 ms
    assert mac.slot_ns == pytest.approx(820e6 / 144)
