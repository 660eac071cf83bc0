# SPDX-License-Identifier: GPL-2.0
"""Shared by all tests: the lab, links to run on, and the closing line."""

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from bench import oracle
from bench.lab import image, packages
from bench.lab.play import Lab
from bench.record.run import Run
from bench.scenario import scenario


KERNEL = os.environ.get("KERNEL") or "6.1"      # make check KERNEL=6.12
FOREIGN = Path(__file__).with_name("lab") / "foreign"
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
left_out = pytest.StashKey()        # file -> number of its tests with the mark long, if left out


def pytest_deselected(items):
    for item in items:
        option = item.config.option
        if item.get_closest_marker("long") and option.markexpr == "not long" and not option.keyword:
            item.config.stash.setdefault(left_out, Counter())[item.path.name] += 1


def pytest_sessionfinish(session):
    """With pytest-xdist each process has a lab and passes on the counts of its oracle."""
    output = getattr(session.config, "workeroutput", {})
    output["left_out"] = dict(session.config.stash.get(left_out, {}))
    if the_lab in session.config.stash:
        changes = session.config.stash[the_lab].changes()
        output["recomputed"] = changes
        session.config.stash.setdefault(recomputed, {}).update(changes)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    output = getattr(node, "workeroutput", {})
    node.config.stash.setdefault(recomputed, {}).update(output.get("recomputed", {}))
    node.config.stash[left_out] = Counter(output.get("left_out", {}))     # the same of each process


def pytest_terminal_summary(terminalreporter, config):
    """Print the skipped tests with their reasons, and keep the counts for the last line."""
    count = {kind: len(terminalreporter.stats.get(kind, []))
             for kind in ("passed", "failed", "error", "skipped")}
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"skipped: {report.nodeid}: {report.longrepr[2]}")
    if tests := config.stash.get(left_out, None):
        terminalreporter.write_line(
            f"left out without LONG=1: {sum(tests.values())} tests of "
            + ", ".join(f"{name} {count}" for name, count in tests.most_common()))
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


# The files that take longest.  pytest-xdist gives a free process the next file, so these are first.  The
# second needs no guest: the other processes would wait for the first, which builds and boots it.
LONGEST = ("test_policies.py", "test_install.py", "test_oracle.py", "test_returns.py", "test_kernels.py",
           "test_states.py", "test_westwood_abse.py", "test_lab.py", "test_log.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST
               else len(LONGEST))


def long(*values):
    """Values of a test's parameters that only LONG=1 plays."""
    return pytest.param(*values, marks=pytest.mark.long)


def in_turn(values, turn, always=()):
    """The values as parameters of a test.

    `make check` plays the value whose turn it is and those of `always`; the others have the mark `long`.
    """
    rest = [value for value in values if value not in always]
    now = {rest[turn % len(rest)], *always}
    return [pytest.param(value) if value in now else long(value) for value in values]


def pairs_in_turn(pairs, always=()):
    """The pairs as parameters of a test.  For each first part its second parts are as in_turn()'s."""
    return [pytest.param(first, *second.values, marks=second.marks)
            for turn, first in enumerate(dict.fromkeys(first for first, _ in pairs))
            for second in in_turn([second for each, second in pairs if each == first], turn, always)]


@pytest.fixture
def tmp_path(tmp_path, request):
    """pytest's folder, removed if the test passes: together these folders have several hundred MB."""
    failed = request.session.testsfailed
    yield tmp_path
    if request.session.testsfailed == failed:
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture(scope="session")
def lab(pytestconfig):
    """The kernel under test, booted once; every window of its runs is recomputed."""
    pytestconfig.stash[the_lab] = CheckedLab()
    return pytestconfig.stash[the_lab]


@pytest.fixture(scope="session")
def foreign_module(tmp_path_factory):
    """Build a module of lab/foreign as a user would, for a kernel's release, and return its path.

    file: the name of the built file without .ko; that of the source if not given.
    """
    def build(source, release, file="", flags=""):
        folder, file = tmp_path_factory.mktemp("module"), file or source
        shutil.copy(FOREIGN / f"{source}.c", folder / f"{file}.c")
        (folder / "Kbuild").write_text(f"obj-m := {file}.o\nccflags-y := {flags}\n")
        image.kbuild("foreign module", packages.headers(release), folder)
        return folder / f"{file}.ko"
    return build


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
        rest.setdefault("captures", ["sender"])         # few tests read the one at the bottleneck
        flow_table = {"cc": cc, "changes": changes, **length, **(flow or {})}
        return scenario.from_dict({
            "title": "test",
            "hop": [{"name": "gateway", "forward": rate, "reverse": {"delay_ms": rtt_ms / 2}},
                    {"name": "satellite", "forward": {"delay_ms": rtt_ms / 2, "loss_pct": loss_pct,
                                                      **(line or {})}}],
            "flow": [flow_table], **rest})
    return make
