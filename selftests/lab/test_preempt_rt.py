# SPDX-License-Identifier: GPL-2.0
"""The policies and the logger on a PREEMPT_RT kernel, where a lock or an allocation may sleep.

A hook that sleeps there is a bug of atomic context: the kernel's line about it ends a run, and so does
a record that the logger has missed.  Debian's image has no DEBUG_ATOMIC_SLEEP: a lock that could sleep
and does not have to wait is not seen.
"""

import dataclasses

import pytest

from bench import oracle
from bench.lab.play import Lab
from bench.paths import policies
from bench.scenario.scenario import Flow
from selftests.conftest import KERNEL

pytestmark = [pytest.mark.lab, pytest.mark.long]

EVENTS = ("segment_sent", "ack_received", "cwnd_changed", "cc_call")


@pytest.fixture(scope="module")
def run(geo):
    """A flow of each policy over one lossy link, every event of the logger on.

    The link's rate leaves each flow its share: of 4 Mbit/s one flow may get too few ACKs to judge.
    """
    transfer = geo(rate_mbit=8, seconds=45, loss_pct=0.5, capture=False,
                   trace=["satcc:*", "tcp:tcp_probe"],
                   modules={"satcc_log": {"callbacks_of": ",".join(policies())}},
                   after=["uname -v > $OUT/version"])
    return Lab(f"{KERNEL}-rt").run(dataclasses.replace(transfer, flows=tuple(
        Flow(policy, seconds=45, start_s=number / 10) for number, policy in enumerate(policies()))))


def test_the_kernel_is_preempt_rt(run):
    assert b"PREEMPT_RT" in run.read("version")


@pytest.mark.parametrize("event", EVENTS)
def test_the_logger_records_every_event(run, event):
    """Of each flow; check() has refused the run if the logger missed one."""
    _, records = run.events[f"satcc:{event}"]
    assert len(records) > 1000 and int(run.read("witness.lost")) == 0
    assert set(records["dport"]) == {5001 + number for number in range(len(policies()))}


def test_windows_are_the_papers(run):
    report = oracle.check(run).raise_first()
    assert set(report.counts) == set(policies())
    assert all(count.changes > 50 for count in report.counts.values())
