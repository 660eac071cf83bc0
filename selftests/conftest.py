# SPDX-License-Identifier: GPL-2.0
"""What all tests share: the lab, links to run on, and the closing line."""

import pytest

from bench.lab import scenario
from bench.lab.run import Lab


closing_line = pytest.StashKey()


def pytest_terminal_summary(terminalreporter, config):
    """What was skipped, and for want of what; the counts are kept for the last line."""
    count = {kind: len(terminalreporter.stats.get(kind, []))
             for kind in ("passed", "failed", "error", "skipped")}
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"skipped: {report.nodeid}: {report.longrepr[2]}")
    config.stash[closing_line] = (
        f"{count['passed']} passed, {count['failed'] + count['error']} failed, "
        f"{count['skipped']} skipped")


def pytest_unconfigure(config):
    """The line a machine reads, after everything pytest has to say itself."""
    if closing_line in config.stash:
        print(config.stash[closing_line])


@pytest.fixture(scope="session")
def lab():
    """The default kernel, booted once."""
    return Lab()


@pytest.fixture(scope="session")
def geo():
    """Make a scenario: one flow over a satellite link, unless arguments say otherwise.

    Keywords of the link: rate_mbit (0: no bottleneck), queue_bdp or queue_packets, rtt_ms,
    loss_pct, and line, a table of more for the stretch that has the loss.  Of the flow: cc, bytes or seconds, and flow,
    a table of more.  The rest goes to the scenario as it is.
    """
    def make(cc="hybla_full", rate_mbit=2, rtt_ms=600, loss_pct=0, bytes=0, seconds=0, changes=(),
             queue_packets=0, queue_bdp=0, line=None, flow=None, **rest):
        queue = {"queue_packets": queue_packets} if queue_packets else {"queue_bdp": queue_bdp or 1}
        rate = {"rate_mbit": rate_mbit, **queue} if rate_mbit else {}
        made = {"cc": cc, "changes": changes, **({"bytes": bytes} if bytes else {"seconds": seconds}),
                **(flow or {})}
        return scenario.from_dict({
            "title": "test",
            "hop": [{"name": "gateway", "forward": rate, "reverse": {"delay_ms": rtt_ms / 2}},
                    {"name": "satellite", "forward": {"delay_ms": rtt_ms / 2, "loss_pct": loss_pct,
                                                      **(line or {})}}],
            "flow": [made], **rest})
    return make
