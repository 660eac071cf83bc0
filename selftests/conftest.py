# SPDX-License-Identifier: GPL-2.0
"""Shared by all tests: the lab, links to run on, and the closing line."""

import os

import pytest

from bench import oracle
from bench.lab.play import Lab
from bench.record.run import Run
from bench.scenario import scenario


KERNEL = os.environ.get("KERNEL") or "6.1"      # make check KERNEL=6.12
closing_line = pytest.StashKey()


class CheckedLab(Lab):
    """The lab; the oracle checks every run that has a trace."""

    def __init__(self):
        super().__init__(KERNEL)
        self.reports = {}           # by a run's identity

    def changes(self) -> dict[str, dict[str, int]]:
        """Window changes recomputed, by run and policy."""
        return {identity: {policy: count.changes for policy, count in report.counts.items()}
                for identity, report in self.reports.items() if report.counts}

    def run(self, *arguments, **keywords) -> Run:
        run = super().run(*arguments, **keywords)
        identity = run.meta["identity"]
        if identity not in self.reports:
            self.reports[identity] = oracle.check(run).raise_first()
        return run


the_lab = pytest.StashKey()
recomputed = pytest.StashKey()      # changes() of each process's lab, in one


def pytest_sessionfinish(session):
    """With pytest-xdist each process has a lab and passes on the counts of its oracle."""
    if the_lab in session.config.stash:
        changes = session.config.stash[the_lab].changes()
        getattr(session.config, "workeroutput", {})["recomputed"] = changes
        session.config.stash.setdefault(recomputed, {}).update(changes)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    changes = getattr(node, "workeroutput", {}).get("recomputed", {})
    node.config.stash.setdefault(recomputed, {}).update(changes)


def pytest_terminal_summary(terminalreporter, config):
    """Print the skipped tests with their reasons, and keep the counts for the last line."""
    count = {kind: len(terminalreporter.stats.get(kind, []))
             for kind in ("passed", "failed", "error", "skipped")}
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"skipped: {report.nodeid}: {report.longrepr[2]}")
    if runs := config.stash.get(recomputed, {}):
        changes = {policy: sum(run.get(policy, 0) for run in runs.values())
                   for policy in oracle.POLICIES}
        terminalreporter.write_line(
            f"oracle: {sum(changes.values())} window changes of {len(runs)} runs recomputed: "
            + ", ".join(f"{policy} {count}" for policy, count in changes.items()))
    config.stash[closing_line] = (
        f"{count['passed']} passed, {count['failed'] + count['error']} failed, "
        f"{count['skipped']} skipped")


def pytest_unconfigure(config):
    """Print the machine-readable line after pytest's own output."""
    if closing_line in config.stash:
        print(config.stash[closing_line])


# The files that take longest.  pytest-xdist gives a free process the next file, so these are first.
LONGEST = ("test_policies.py", "test_oracle.py", "test_returns.py", "test_kernels.py", "test_states.py",
           "test_westwood_abse.py", "test_lab.py", "test_install.py", "test_log.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST
               else len(LONGEST))


@pytest.fixture(scope="session")
def lab(pytestconfig):
    """The kernel under test, booted once; every window of its runs is recomputed."""
    pytestconfig.stash[the_lab] = CheckedLab()
    return pytestconfig.stash[the_lab]


@pytest.fixture(scope="session")
def geo():
    """Make a scenario: one flow over a satellite link, unless arguments say otherwise.

    Keywords of the link: rate_mbit (0: no bottleneck), queue_bdp or queue_packets, rtt_ms,
    loss_pct, and line, a table of more for the stretch that has the loss.  Of the flow: cc, bytes
    or seconds, and flow, a table of more.  The rest goes to the scenario as it is.
    """
    def make(cc="hybla_full", rate_mbit=2, rtt_ms=600, loss_pct=0, bytes=0, seconds=0, changes=(),
             queue_packets=0, queue_bdp=0, line=None, flow=None, **rest):
        queue = {"queue_packets": queue_packets} if queue_packets else {"queue_bdp": queue_bdp or 1}
        rate = {"rate_mbit": rate_mbit, **queue} if rate_mbit else {}
        length = {"bytes": bytes} if bytes else {"seconds": seconds}
        rest.setdefault("captures", ["sender"])         # a second tcpdump costs a tenth of a run
        flow_table = {"cc": cc, "changes": changes, **length, **(flow or {})}
        return scenario.from_dict({
            "title": "test",
            "hop": [{"name": "gateway", "forward": rate, "reverse": {"delay_ms": rtt_ms / 2}},
                    {"name": "satellite", "forward": {"delay_ms": rtt_ms / 2, "loss_pct": loss_pct,
                                                      **(line or {})}}],
            "flow": [flow_table], **rest})
    return make
