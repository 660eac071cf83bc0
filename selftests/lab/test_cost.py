# SPDX-License-Identifier: GPL-2.0
"""The count of instructions: a thousand are a thousand, and every call is counted.

Allowed error: one instruction a call, for the clock of the tracer has whole nanoseconds, and both
ends of a call are cut to one.  The mean of two hundred calls is held to a tenth of that.
"""

import dataclasses

import numpy as np
import pytest

from bench.measure import cost, flow_view
from bench.oracle import calls
from bench.record import trace

pytestmark = pytest.mark.lab


def counted(lab, scenario):
    cc = scenario.flows[0].cc
    scenario = dataclasses.replace(scenario, trace=(), before=cost.before(cc), after=cost.AFTER)
    return lab.run(scenario, cost.files(lab.image.release))


@pytest.fixture(scope="module")
def lossy(lab, geo):
    """Interrupts, losses and recovery between the two calibrations."""
    return counted(lab, geo("cubic", rate_mbit=10, seconds=10, loss_pct=1))


def calls_of(run, name):
    """How long each call of a function took, ns, tracer and interrupts included."""
    _, exits = trace.events(run.read("cost.raw"), run.read("cost.formats").decode())[
        "ftrace:funcgraph_exit"]
    address, = [int(line.split()[1], 16) for line in run.read("cost.callbacks").decode().splitlines()
                if line.split()[2] == name]
    own = exits[cost.calls(exits, address)]
    return (own["rettime"] - own["calltime"]).astype(int)


def test_a_thousand_nops_are_a_thousand(lossy):
    nothing, nops = (calls_of(lossy, f"satcc_cost_{name}") for name in ("nothing", "1000_nops"))
    assert len(nothing) == len(nops) == 2 * cost.CALIBRATION_CALLS
    assert np.median(nops) - np.median(nothing) == 1000
    # Each single one, before the flow and after it, but for the few an interrupt fell into.
    right = np.abs(nops - np.median(nothing) - 1000) <= cost.CLOCK_ERROR
    assert right.mean() > 0.95 and right[:50].any() and right[-50:].any()
    assert cost.of_run(lossy).known == pytest.approx(1000, abs=0.1)


def test_a_known_function_of_the_kernel_has_its_length(lossy):
    """cubictcp_state() does nothing but compare, except on a timeout: entry, compare, jump."""
    state, = [one for one in cost.of_run(lossy).callbacks if one.slots == ("set_state",)]
    assert state.calls and state.median == pytest.approx(2, abs=cost.CLOCK_ERROR)


def test_interrupts_are_seen_and_left_out(lossy):
    counted = cost.of_run(lossy)
    for callback in counted.callbacks:
        took = calls_of(lossy, callback.name) - counted.overhead
        assert callback.calls == len(took)
        # No interrupt is over in less than this, no callback of cubic takes so long.
        assert callback.interrupted == (took > 1000).sum()


def test_acks_are_those_the_kernel_worked_on(lossy):
    """All but a few bring an acknowledgement to report; what comes after the reset is no ACK."""
    counted, view = cost.of_run(lossy), flow_view.FlowView(lossy)
    assert 100 < counted.acks < len(view.ack_s)
    acked, = [one for one in counted.callbacks if one.slots == ("pkts_acked",)]
    assert 0.98 < acked.calls / counted.acks <= 1


def test_every_call_of_our_policy_is_counted(lab, geo):
    """As many calls as satcc_log records in the same transfer played with it.  The kernel's hybla has
    functions of the same names: only ours are counted."""
    small = geo("hybla_full", bytes=300_000)
    run = counted(lab, small)
    avoid, = [one for one in cost.of_run(run).callbacks if one.slots == ("cong_avoid",)]
    recorded = calls.of_run(lab.run(small), {"hybla_full"})["hybla_full"]
    assert avoid.name == "hybla_cong_avoid"
    assert avoid.calls == sum(call.call == calls.CONG_AVOID for call in recorded) > 20
