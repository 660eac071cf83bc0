# SPDX-License-Identifier: GPL-2.0
"""The kernel's own policies recomputed from their papers, to the segment, and the witness's records held
against the core's own event and the packets.  And each of these checks over a real run with one record
changed."""

import dataclasses
import lzma
import subprocess

import numpy as np
import pytest

from bench import oracle
from bench.lab import packages
from bench.oracle import calls, witnesses
from bench.record import layout
from bench.scenario.scenario import Flow
from selftests.conftest import long
from selftests.lab import situations

pytestmark = pytest.mark.lab

CONTROLS = ("reno", "hybla", "westwood", "cubic")
WITNESS = {"satcc_log": {"callbacks_of": ",".join(CONTROLS)}}
ECN = {"sysctl": {"net.ipv4.tcp_ecn": 1}}
PLAIN = {"sysctl": {"net.ipv4.tcp_sack": 0, "net.ipv4.tcp_timestamps": 0}}


def rough(geo, hosts=ECN):
    """A flow of each on one link with all that happens to links: loss, outages of a second and of five,
    marks, a longer path, reordering."""
    transfer = geo(rate_mbit=4, seconds=75, loss_pct=0.3, sender=hosts, receiver=hosts, modules=WITNESS)
    return dataclasses.replace(transfer, commands=(situations.rough(transfer),), flows=tuple(
        Flow(cc, seconds=75, start_s=n / 10) for n, cc in enumerate(CONTROLS)))


def plain(geo):
    """The same without SACK and timestamps."""
    return rough(geo, PLAIN)


def lossy(geo):
    transfer = geo(rate_mbit=10, rtt_ms=100, seconds=15, loss_pct=0.3, modules=WITNESS)
    return dataclasses.replace(transfer, flows=tuple(
        Flow(cc, seconds=15, start_s=n / 10) for n, cc in enumerate(CONTROLS)))


def reordered(geo):
    """Segments out of order, and a second of more delay: reductions and timeouts for nothing."""
    longer = [situations.from_then_on(10, delay_ms=1050),
              situations.from_then_on(12, delay_ms=50, reorder_pct=2)]
    transfer = geo(rate_mbit=10, rtt_ms=100, seconds=20, line={"reorder_pct": 2}, modules=WITNESS,
                   change=longer)
    return dataclasses.replace(transfer, flows=tuple(
        Flow(cc, seconds=20, start_s=n / 10) for n, cc in enumerate(CONTROLS)))


def deep(geo):
    """A lone flow in a deep queue without loss, where slow start ends by HyStart."""
    return geo("cubic", rate_mbit=10, rtt_ms=100, seconds=10, queue_bdp=4, modules=WITNESS)


def slow(geo):
    """An application that seldom fills the window."""
    transfer = geo(rate_mbit=10, rtt_ms=100, seconds=30, queue_bdp=4, modules=WITNESS)
    return dataclasses.replace(transfer, flows=tuple(
        Flow(cc, bytes=1_000_000, start_s=20 * n, write_bytes=20_000, write_ms=130)
        for n, cc in enumerate(CONTROLS)))


def changing(geo):
    """A flow that goes from policy to policy; servers' flows, each with a pause of three seconds."""
    transfer = geo(rate_mbit=4, seconds=1, loss_pct=0.3, modules=WITNESS)
    changes = tuple((4000 + 2500 * n, cc) for n, cc in enumerate(CONTROLS * 3))
    return dataclasses.replace(transfer, flows=(Flow("cubic", seconds=40, changes=changes), *(
        Flow(cc, bytes=1_500_000, start_s=n, pause_ms=3000, passive=True)
        for n, cc in enumerate(CONTROLS, 1))))


@pytest.mark.parametrize("situation", [
    rough, long(plain), lossy, long(reordered), long(slow), changing])
def test_the_kernels_own_policies_do_as_their_papers_say(lab, geo, situation):
    report = oracle.check(lab.run(situation(geo))).raise_first()
    print(report)
    assert set(report.counts) == set(CONTROLS)
    least = 4 if situation == slow else 20      # hybla is where the application lets it in five steps
    assert all(count.changes > least for count in report.counts.values())
    by_sack = {"delivered", "acked"} if situation != plain else set()
    for check in {"sums", "rate", "probe", "out", "filled"} | by_sack:
        assert report.compared[check] > (300 if situation != slow or check != "filled" else 50), check


@pytest.mark.long
def test_the_situations_cover_every_event(lab, geo):
    """Recovery, timeouts and marks, undo, and HyStart's exit."""
    seen = {cc: [] for cc in CONTROLS}
    for situation in (rough, lossy, reordered, deep):
        layouts = {cc: oracle.MODELS[cc].LAYOUT for cc in CONTROLS}
        for cc, records in calls.of_run(lab.run(situation(geo)), CONTROLS, layouts).items():
            seen[cc] += records
    for cc in CONTROLS:
        # The core calls reno for nothing in Recovery.
        states = {calls.OPEN, calls.LOSS} | ({calls.RECOVERY} if cc != "reno" else set())
        assert states <= {call.ca_state for call in seen[cc]}, cc
        assert {calls.SSTHRESH, calls.UNDO} <= {call.call for call in seen[cc]}, cc
    assert any(call.call == calls.PKTS_ACKED and call.ssthresh != call.ssthresh_old
               for call in seen["cubic"])
    assert any(call.call == calls.CWND_EVENT and call.arg == calls.COMPLETE_CWR
               for call in seen["westwood"])


# check -> (record's field, what becomes of it)
CHANGES = {
    "sums": ("in_flight_old", lambda value: value + 1),
    "out": ("packets_out", lambda value: value + 1),
    "delivered": ("delivered_old", lambda value: value + 3),
    "acked": ("arg", lambda value: 5 * value),
    "rate": ("pacing_rate_old", lambda value: value * 2),
}


class Changed:
    """A run with some records changed."""

    def __init__(self, run, stream, change):
        self.scenario, self.sender = run.scenario, run.sender
        times, records = run.events[stream]
        records = records.copy()
        change(records)
        self.events = {**run.events, stream: (times, records)}


@pytest.mark.parametrize("check", CHANGES)
def test_a_changed_record_is_found(lab, geo, check):
    field, other = CHANGES[check]
    run = lab.run(lossy(geo))

    def change(records):
        at = np.flatnonzero((records["call"] == calls.CONG_AVOID) & (records["ca_state"] == calls.OPEN)
                            & (records["arg"] > 0))
        for number in at[len(at) // 4::len(at) // 8]:
            records[field][number] = other(records[field][number])
    comparison = witnesses.compare(Changed(run, calls.STREAM, change))
    checks_hit = {each.check for each in comparison.differences}
    assert check in checks_hit


def test_a_changed_probe_is_found(lab, geo):
    def change(records):
        records["snd_cwnd"][len(records) // 2] += 1
    run = Changed(lab.run(slow(geo)), witnesses.PROBE, change)
    assert [each.check for each in witnesses.compare(run).differences] == ["probe"]


def test_growth_of_a_slow_applications_window_is_found(lab, geo):
    """Where a call left the window as it was, it is said to have grown by one, and to have kept it."""
    def change(records):
        held = (records["call"] == calls.CONG_AVOID) & (records["cwnd_limited"] == 0)
        assert held.any()
        for cookie in np.unique(records["cookie"]):
            flow = records["cookie"] == cookie
            more = np.cumsum(held[flow])
            records["cwnd"][flow] += more.astype("u4")
            records["cwnd_old"][flow] += (more - held[flow]).astype("u4")
        records["cwnd_limited"][held] = records["is_cwnd_limited"][held] = 1
    differences = witnesses.compare(Changed(lab.run(slow(geo)), calls.STREAM, change)).differences
    assert {each.policy for each in differences if each.check == "filled"} == set(CONTROLS)


def test_a_flow_that_is_not_paced_is_found(lab, geo):
    """A flow of hybla's bursts, which nothing spaces, is said to be paced."""
    def change(records):
        records["pacing_status_old"] = records["pacing_status"] = 1
    run = Changed(lab.run(lossy(geo)), calls.STREAM, change)
    differences = [each for each in witnesses.compare(run).differences if each.check == "paced"]
    assert "hybla" in {each.policy for each in differences}


def vmlinux(release):
    """The kernel of a Debian image, decompressed: pahole wants the whole ELF file."""
    blob = (packages.kernel(release) / "boot" / f"vmlinuz-{release}").read_bytes()
    if (at := blob.find(b"\xfd7zXZ\0")) >= 0:
        return lzma.LZMADecompressor().decompress(blob[at:])
    at = blob.find(b"\x28\xb5\x2f\xfd")
    # It complains of what is behind the compressed kernel, which is all there then.
    return subprocess.run(["zstd", "-dc"], input=blob[at:], capture_output=True).stdout


def test_layouts_are_the_kernels(lab, tmp_path):
    """The private structs as the kernel under test has them, by its own type information."""
    release = lab.image.release
    base = tmp_path / "vmlinux"
    base.write_bytes(vmlinux(release))
    modules = packages.kernel(release) / "lib/modules" / release / "kernel/net/ipv4"
    for cc, struct in (("hybla", "hybla"), ("westwood", "westwood"), ("cubic", "bictcp")):
        command = ["pahole", "-F", "btf", "-E", "-C", struct]
        objects = list(modules.glob(f"tcp_{cc}.ko*"))
        if objects:
            module, blob = tmp_path / f"tcp_{cc}.ko", objects[0].read_bytes()
            module.write_bytes(lzma.decompress(blob) if objects[0].suffix == ".xz" else blob)
            command += ["--btf_base", str(base), str(module)]
        else:
            command.append(str(base))
        text = subprocess.run(command, text=True, capture_output=True, check=True).stdout
        assert layout.fields(text.strip()) == oracle.MODELS[cc].LAYOUT, cc
