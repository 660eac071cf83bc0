# SPDX-License-Identifier: GPL-2.0
"""The matrix of kernels: its data file, what it reads of builds and scripts, its results, its table."""

import dataclasses
import re
from types import SimpleNamespace

import pytest

from bench.errors import LabError
from bench.lab import image, machine, packages, roots
from bench.matrix import checks, command, kernels, others, results, table
from bench.matrix.checks import Check, Finding
from bench.paths import TOP, policies
from bench.scenario import scenario
from selftests.lab.test_oracle import MUTANTS

# ---- the data file ---------------------------------------------------------


def test_the_data_file_has_the_kernels_that_the_readme_claims():
    matrix = kernels.load()
    series = [kernel.series for kernel in matrix.kernel]
    assert {"5.10", "6.1", "6.12", "newest"} <= set(series)
    assert [kernel.series for kernel in kernels.chosen(matrix, [])] == series
    assert [kernel.series for kernel in kernels.chosen(matrix, ["6.12", "5.10"])] == ["5.10", "6.12"]


@pytest.mark.parametrize("wrong, message", [
    ('scenario = "geo"\nloss_pct = 1\n', "kernel: missing"),
    ('scenario = "geo"\nloss_pct = 1\n[[kernel]]\nseries = "latest"\n', 'series = "latest"'),
    ('scenario = "geo"\nloss_pct = 101\n[[kernel]]\nseries = "6.1"\n', "loss_pct = 101"),
    ('scenario = "geo"\nloss_pct = 1\n[[kernel]]\nseries = "6.1"\n[[kernel]]\nseries = "6.1"\n',
     "a series is listed twice")])
def test_a_mistake_in_the_data_file_is_one_line(tmp_path, wrong, message):
    path = tmp_path / "kernels.toml"
    path.write_text(wrong)
    with pytest.raises(LabError) as error:
        kernels.load(path)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_kernel_that_the_file_lacks_is_named():
    with pytest.raises(LabError, match="no kernel 4.19"):
        kernels.chosen(kernels.load(), ["6.1", "4.19"])


@pytest.mark.parametrize("cc", policies())
def test_the_scenario_is_one_flow_of_a_policy_with_loss(cc):
    matrix = kernels.load()
    transfer = checks.with_cc(matrix, cc)
    assert [flow.cc for flow in transfer.flows] == [cc] and transfer.flows[0].bytes
    assert [hop.forward.loss_pct for hop in transfer.hops if hop.forward.delay_ms] == [matrix.loss_pct]
    assert "satcc:cc_call" in transfer.trace


# ---- what a build and a script printed -------------------------------------

BUILT = (f"  CC [M]  a/tcp_a.o\n  CHECK   {roots.WORK}/a/tcp_a.c\n  CHECK   b/tcp_b.c\n"
         "  LD [M]  a/tcp_a.ko\n")


def cause(check, *arguments):
    """The Finding's text; None: there is nothing to say."""
    try:
        check(*arguments)
    except Finding as finding:
        return str(finding)
    return None


@pytest.mark.parametrize("log, status, finding", [
    (BUILT, 0, None),
    (BUILT + "Skipping BTF generation for a.ko due to unavailability of vmlinux: warning\n", 0, None),
    (BUILT + f"{roots.WORK}/a/tcp_a.c:3:5: warning: unused variable 'x'\n", 0,
     "a/tcp_a.c:3:5: warning: unused variable 'x'"),
    (BUILT + "a/tcp_a.c:9:1: error: bad types\nmake: *** [a] Error 1\n", 2,
     "a/tcp_a.c:9:1: error: bad types"),
    (BUILT + "ERROR: modpost: \"f\" [a.ko] undefined!\n", 2, "ERROR: modpost: \"f\" [a.ko] undefined!"),
    (BUILT, 2, "make ended with status 2"),
    (BUILT.replace("CHECK   b/tcp_b.c", ""), 0, "sparse has not checked tcp_b")])
def test_a_build_is_ok_without_a_warning_and_with_sparse_on_every_file(log, status, finding):
    assert cause(checks.read_build, log, status, {"tcp_a", "tcp_b"}) == finding


def test_every_source_of_the_modules_is_built():
    names = {path.name for path in image.module_sources()}
    assert {f"tcp_{name}.c" for name in policies()} < names and "compat.h" in names


def test_what_modpost_wrote_is_no_source(monkeypatch, tmp_path):
    for name in ("tcp_a.c", "tcp_a.mod.c", "tcp_a.bpf.c", "a.h", "a.o"):
        (tmp_path / name).touch()
    monkeypatch.setattr(image, "_source_folders", lambda: [tmp_path])
    assert {path.name for path in image.module_sources()} == {"Kbuild", "tcp_a.c", "a.h"}


KTAP = "TAP version 13\n1..2\nok 1 registers\nok 2 unloads\n"


@pytest.mark.parametrize("text, status, finding", [
    (KTAP, 0, None),
    (KTAP.replace("ok 2", "not ok 2"), 1, "ibk_module: unloads"),
    ("TAP version 13\n1..0 # SKIP no module tcp_ibk\n", 4, "ibk_module: skipped: no module tcp_ibk"),
    (KTAP.replace("ok 2 unloads\n", ""), 1, "ibk_module: 1 of 2 tests ran"),
    (KTAP, 1, "ibk_module: ended with status 1"),
    ("", 0, "ibk_module: no plan of tests")])
def test_a_script_is_ok_if_all_that_it_planned_passed(text, status, finding):
    assert cause(checks.read_ktap, "ibk_module", text, status) == finding


def test_the_faults_are_of_the_list_and_show_with_an_ack_a_segment():
    """On 5.10 and 6.1 no ACK of the scenario acknowledges two segments."""
    assert set(checks.FAULTS) == set(MUTANTS) == set(policies())
    for cc, what in checks.FAULTS.items():
        assert what in [fault[0] for fault in MUTANTS[cc]] and what != "acked counts as 1"


SUMMARY = "FAILED selftests/lab/test_states.py::test_a_tail_loss[ibk] - assert 0\n"


@pytest.mark.parametrize("text, status, finding", [
    ("78 passed in 9.1s\n78 passed, 0 failed, 0 skipped\n", 0, None),
    (SUMMARY + "77 passed, 1 failed, 0 skipped\n", 1,
     "1 of 78 tests failed, the first: test_a_tail_loss[ibk] - assert 0"),
    ("0 passed, 0 failed, 0 skipped\n", 5, "0 tests passed, 0 skipped, status 5"),
    ("77 passed, 0 failed, 1 skipped\n", 0, "77 tests passed, 1 skipped, status 0"),
    ("E   no module\n", 4, "pytest ended with status 4: E   no module")])
def test_tests_are_ok_if_all_passed(text, status, finding):
    assert cause(checks.read_tests, text, status) == finding


@pytest.mark.parametrize("kinds, cell", [
    ([], "None"), ([True], "3 of 4 same; 1 explained"),
    ([True, False], "Finding: 3 of 4 same; 1 explained: ibk over loss")])
def test_a_difference_that_is_explained_is_no_fault(monkeypatch, kinds, cell):
    verdicts = [SimpleNamespace(explained=kind, where="ibk over loss",
                                comparison=SimpleNamespace(kind="other packets")) for kind in kinds]
    monkeypatch.setattr(checks.pairs, "of_loss", lambda lab, plan: verdicts)
    monkeypatch.setattr(checks.pairs, "cell", lambda group: "3 of 4 same; 1 explained")
    try:
        answer = str(checks.bpf_packets(SimpleNamespace(bpf_lab=None)))
    except Finding as finding:
        answer = f"Finding: {finding}"
    assert answer == cell


def test_a_cell_has_the_loggers_reason(tmp_path):
    console = tmp_path / "console"
    console.write_text("[    6.979445] satcc_log: cannot hook tcp_rate_gen: -2\r\nsatcc: ended 0\n")
    finding = checks.with_reason(Finding("ibk_module: hooks"), console)
    assert str(finding) == "satcc_log: cannot hook tcp_rate_gen: -2; ibk_module: hooks"
    console.write_text("satcc: ended 1\n")
    assert str(checks.with_reason(Finding("hooks"), console)) == "hooks"


def test_a_cause_is_one_line_that_fits_a_table():
    message = str(Finding(f"a | b in {TOP}/x; console: {TOP}/build/log/y\nmore"))
    assert message == "a / b in x"
    assert len(str(Finding("x" * 1000))) == checks.SHOWN_CHARACTERS
    assert str(Finding("")) == "no reason given"


# ---- a guest's answers -----------------------------------------------------

def report(differences=(), counts=None, unchecked=None):
    return SimpleNamespace(differences=list(differences), counts=counts or {}, unchecked=unchecked or {})


@pytest.mark.parametrize("counts, finding", [
    (report(counts={"ibk": SimpleNamespace(changes=3)}), None),
    (report(counts={"ibk": SimpleNamespace(changes=0)}), "ibk: no window has changed"),
    (report(unchecked={"ibk": "moved"}), "ibk: moved"),
    (report(differences=[ValueError("cwnd should be 3, is 4\n  because")]), "cwnd should be 3, is 4")])
def test_the_oracle_checks_windows_and_sees_no_difference(monkeypatch, counts, finding):
    monkeypatch.setattr(checks.oracle, "check", lambda run: counts)
    run = SimpleNamespace(scenario=checks.with_cc(kernels.load(), "ibk"))
    assert cause(checks.same_windows, run) == finding


# ---- results that are kept -------------------------------------------------

@pytest.fixture
def kernel(monkeypatch, tmp_path):
    """A kernel without a guest."""
    monkeypatch.setattr(results, "BUILD", tmp_path)
    monkeypatch.setattr(results.machine, "emulator", lambda: ["7", "a BIOS"])
    return SimpleNamespace(series="6.1", release="6.1.0-1-amd64", root=tmp_path / "root",
                           compiler="gcc 12.2.0")


class Asked:
    """Checks that count how often they are asked, and answer as they are told."""

    def __init__(self):
        self.count, self.says = 0, None

    def __call__(self, kernel):
        self.count += 1
        if self.says:
            raise self.says


def test_a_result_is_kept_until_a_source_or_the_kernel_changes(kernel, monkeypatch, tmp_path):
    asked = Asked()
    check = Check("build", asked, ("Kbuild",))
    assert results.answer(kernel, check)[0]["cell"] == "ok"
    assert results.answer(kernel, check)[1] and asked.count == 1
    assert not results.answer(kernel, check, fresh=True)[1] and asked.count == 2
    assert not results.answer(kernel, dataclasses.replace(check, sources=("Makefile",)))[1]
    assert asked.count == 3
    kernel.release = "6.1.0-2-amd64"
    assert not results.answer(kernel, check)[1] and asked.count == 4
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / packages.MANIFEST).write_text("another compiler")
    assert not results.answer(kernel, check)[1] and asked.count == 5
    monkeypatch.setattr(results.machine, "emulator", lambda: ["8", "a BIOS"])
    assert not results.answer(kernel, check)[1] and asked.count == 6


def test_what_a_check_adds_to_ok_is_kept(kernel):
    check = Check("BPF packets", lambda kernel: "3 of 4 same", ("Kbuild",))
    assert [results.answer(kernel, check)[0]["cell"] for _ in range(2)] == ["ok: 3 of 4 same"] * 2


def test_a_finding_is_kept_and_another_error_is_not(kernel):
    asked = Asked()
    check = Check("load", asked, ("Kbuild",))
    asked.says = Finding("not built: tcp_ibk")
    assert results.answer(kernel, check)[0]["cell"] == "not built: tcp_ibk"
    assert results.answer(kernel, check)[1] and asked.count == 1
    check = Check("scenario", asked, ("Kbuild",))
    asked.says = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        results.answer(kernel, check)
    asked.says = None
    cell, was_kept = results.answer(kernel, check)
    assert cell["cell"] == "ok" and not was_kept


def test_a_result_belongs_to_the_sources_at_the_start_of_its_check(kernel, monkeypatch, tmp_path):
    """A source that changes while a guest runs makes the answer an old one."""
    source = tmp_path / "source"
    source.write_text("before")
    monkeypatch.setattr(Check, "files", lambda self: [source])
    monkeypatch.setattr(results.image, "TOP", tmp_path)
    check = Check("load", lambda kernel: source.write_text("after"), ())
    results.answer(kernel, check)
    assert not results.answer(kernel, check)[1]
    assert results.answer(kernel, check)[1]


def test_a_check_with_a_damaged_result_is_repeated(kernel):
    asked = Asked()
    check = Check("build", asked, ("Kbuild",))
    results.answer(kernel, check)
    path = results._path(kernel, check)
    for text in ("", "{}", "[1"):
        path.write_text(text)
        assert results.answer(kernel, check)[1] is False
    assert asked.count == 4


@pytest.fixture
def asked(kernel, monkeypatch):
    """The matrix with two checks of its own, the second in need of the first."""
    first, second = Asked(), Asked()
    monkeypatch.setattr(results, "CHECKS", (Check("load", first, ("Kbuild",)),
                                            Check("oracle", second, ("Kbuild",), "load")))
    monkeypatch.setattr(table, "CHECKS", results.CHECKS)

    def found(matrix, series):
        if series == "5.10":
            raise LabError("no packaged kernel 5.10")
        return SimpleNamespace(**{**vars(kernel), "series": series, "without": {}})

    monkeypatch.setattr(others, "kernel", found)
    return first, second


def test_a_row_goes_on_where_it_was_interrupted(asked):
    first, second = asked
    second.says = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        results.rows(None, ["6.1"], False, print, print)
    second.says = None
    row, = results.rows(None, ["6.1"], False, print, print)
    assert (first.count, second.count) == (1, 2)
    assert row["cells"] == {"load": "ok", "oracle": "ok"}


def test_a_check_that_a_kernel_cannot_have_is_named(asked, kernel, monkeypatch):
    first, second = asked
    monkeypatch.setattr(others, "kernel", lambda matrix, series: SimpleNamespace(
        **vars(kernel), without={"oracle": "no guest"}))
    row, = results.rows(None, ["6.1"], False, print, print)
    assert row["cells"] == {"load": "ok", "oracle": "no guest"} and second.count == 0


@pytest.mark.parametrize("series, kind", [("6.1", checks.Kernel), ("6.12-rt", checks.Kernel),
                                          ("6.12-clang", others.Clang), ("6.1-i386", others.Crossed)])
def test_a_series_names_the_kind_of_kernel(monkeypatch, series, kind):
    monkeypatch.setattr(kind, "fetched", lambda self: ("6.1.0-1-amd64", None))
    monkeypatch.setattr(packages, "guest_programs", lambda: None)
    made = others.kernel(None, series)
    assert type(made) is kind
    assert ("BPF load" in made.without) == (kind is not checks.Kernel)


def test_a_kernel_that_the_mirror_lacks_gives_way_to_an_older_one(monkeypatch):
    def fetch(release):
        if release == "5.10.0-46-rt-amd64":
            raise LabError("404 Not Found")

    monkeypatch.setattr(packages, "kernel_releases", lambda series: tried)
    monkeypatch.setattr(packages, "kernel", fetch)
    monkeypatch.setattr(packages, "build_root", lambda release: f"root of {release}")
    monkeypatch.setattr(packages, "guest_programs", lambda: None)
    tried = ["5.10.0-46-rt-amd64", "5.10.0-43-rt-amd64"]
    made = checks.Kernel(None, "5.10-rt")
    assert (made.release, made.root) == ("5.10.0-43-rt-amd64", "root of 5.10.0-43-rt-amd64")
    tried = tried[:1]
    with pytest.raises(LabError, match="404"):
        checks.Kernel(None, "5.10-rt")


def test_a_check_that_depends_on_a_failed_one_is_not_made(asked):
    first, second = asked
    first.says = Finding("boot of 6.1: Kernel panic")
    row, = results.rows(None, ["6.1"], False, print, print)
    assert row["cells"] == {"load": "boot of 6.1: Kernel panic", "oracle": "not asked: load failed"}
    assert second.count == 0


def test_a_kernel_that_apt_cannot_fetch_has_no_row_and_is_named(asked):
    reasons = {}
    rows = results.rows(None, ["5.10", "6.1"], False, print, reasons.__setitem__)
    assert [row["series"] for row in rows] == ["6.1"] and reasons == {"5.10": "no packaged kernel 5.10"}


# ---- the table -------------------------------------------------------------

def a_row(**cells):
    return {"series": "6.1", "release": "6.1.0-1-amd64", "compiler": "gcc 12.2.0", "date": "2026-01-02",
            "cells": {check.name: "ok" for check in checks.CHECKS} | cells}


PAGE = "Before.\n\n<!-- table: matrix -->\nold\n<!-- end -->\n\nAfter.\n"


def test_the_table_has_each_kernel_and_cell():
    rows = [a_row(), a_row(oracle="ibk: cwnd should be 3")]
    text = table.written(PAGE, rows, "QEMU 7.2.22", "0123abc")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert lines[0] == "| kernel | compiler | date | " + " | ".join(
        check.name for check in checks.CHECKS) + " |"
    assert lines[2] == "| 6.1.0-1-amd64 | gcc 12.2.0 | 2026-01-02 |" + " ok |" * len(checks.CHECKS)
    assert "| ok | ibk: cwnd should be 3 | ok |" in lines[3] and len(lines) == 4
    assert text.startswith("Before.\n") and text.endswith("After.\n") and "old" not in text
    assert "QEMU 7.2.22, commit 0123abc" in text
    assert table.written(text, [a_row()], "QEMU 8", None).count("| 6.1.0-1") == 1


def test_a_function_that_the_kernel_lacks_is_a_cause():
    failure = "satcc_log: cannot hook tcp_rate_gen: -2; the script ended with status 1: I/O error"
    text = table.table([a_row(logger=failure)])
    assert "| no event `cwnd_changed`: this kernel has `tcp_rate_gen` inline |" in text
    other = "satcc_log: cannot hook tcp_rate_gen: -22; the script ended"
    assert f"| {other} |" in table.table([a_row(logger=other)])


def test_a_table_has_no_empty_cell_and_one_place():
    with pytest.raises(ValueError, match="an empty cell"):
        table.table([a_row(logger="")])
    for text in ("", PAGE + PAGE, PAGE.replace("matrix", "summary")):
        with pytest.raises(ValueError, match="table"):
            table.written(text, [a_row()], "QEMU 7", None)


def test_a_new_table_leaves_the_other_as_it_is():
    other = PAGE.replace("matrix", "pairs")
    assert table.written(PAGE + other, [a_row()], "QEMU 7", None).endswith(other)


def test_the_page_has_the_tables_places():
    assert re.findall(r"<!-- table: (\w+) -->", table.PAGE.read_text()) == [table.NAME, table.PAIRS]


def test_the_command_writes_the_page_only_for_all_kernels(asked, monkeypatch, tmp_path, capsys):
    page = tmp_path / "README.md"
    page.write_text(PAGE)
    monkeypatch.setattr(table, "PAGE", page)
    monkeypatch.setattr(command, "TOP", tmp_path)
    monkeypatch.setattr(machine, "qemu_version", lambda: "7.2.22")
    assert command.main(["6.1"]) == 0 and page.read_text() == PAGE
    assert "| 6.1.0-1-amd64 |" in capsys.readouterr().out
    assert command.main([]) == 1            # 5.10 cannot be had, the others can
    assert "5.10: no row: no packaged kernel 5.10" in capsys.readouterr().out
    assert page.read_text().count("| 6.1.0-1-amd64 |") == len(kernels.load().kernel) - 1
    assert command.main(["5.10"]) == 1
    assert "no kernel could be tested" in capsys.readouterr().err


def test_the_scenario_of_the_data_file_exists():
    scenario.load(TOP / "bench/scenarios" / f"{kernels.load().scenario}.toml")
