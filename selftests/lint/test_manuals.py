# SPDX-License-Identifier: GPL-2.0
"""The manual pages: well formed, and what they say of parameters and costs is the sources'."""

import os
import re
import shutil
import subprocess

import pytest

from bench.paths import TOP, policies
from selftests.lint.test_style import tracked

PAGES = tracked(".1", ".7", ".8")
SOURCES = {path.stem: path for path in TOP.glob("*/tcp_*.c") if not path.name.endswith(".mod.c")}
PROGRAMS = ("satcc", "satcc-bpf", "satcc-log", "satcc-plot")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_man_has_no_warning(page):
    if not shutil.which("man"):
        if os.environ.get("EXPECT_ALL") == "1":
            pytest.fail("no man")
        pytest.skip("no man")
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], text=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}, capture_output=True)
    assert done.returncode == 0 and done.stderr == ""


def test_every_policy_and_program_has_a_page():
    assert {path.stem for path in PAGES if path.suffix == ".7"} == {"satcc", *SOURCES}
    assert {path.stem for path in PAGES if path.suffix in (".1", ".8")} == {*PROGRAMS, "satcc-bpftrace"}
    scripts = {f"satcc-{path.name}" for path in TOP.glob("tools/*.bt")}
    page = (TOP / "tools/satcc-bpftrace.8").read_text()
    assert set(re.findall(r"^\.Nm (satcc-\S+\.bt)", page, re.M)) == scripts


def test_references_between_pages_lead_somewhere():
    have = {(path.stem, path.suffix[1:]) for path in PAGES}
    names = {name for name, _ in have}
    for page in PAGES:
        for name, section in re.findall(r"^\.(?:Xr|It Xr) (\S+) (\d)", page.read_text(), re.M):
            assert name not in names or (name, section) in have, (page.name, name, section)


def bounds(path):
    """Of each parameter of a module: its range and default as the page has them."""
    source = path.read_text()
    numbers = {name: value for header in path.parent.glob("*.h")
               for name, value in re.findall(r"^#define\s+(\w+)\s+(\d+)\b", header.read_text(), re.M)}
    by_name = {}
    for name, default, least, most in re.findall(
            r"^SATCC_PARAM\((\w+), (\w+), (\w+), (\w+)\);", source, re.M):
        by_name[name] = f"{least} to {numbers.get(most, most)}, default {default}:"
    for name, text in re.findall(r'^MODULE_PARM_DESC\((\w+),\s*"(.*?)"\);', source, re.M):
        if name not in by_name:       # a list, or a word
            default = re.search(r"default (\S+)\)", text)[1]
            span = re.search(r"(\d+)\.\.(\d+) each", text)
            words = f"{span[1]} to {span[2]} each" if span else re.search(r": (.+) \(", text)[1]
            by_name[name] = f"{words}, default {default}:"
    return by_name


@pytest.mark.parametrize("policy", policies())
def test_parameters_are_those_of_the_source(policy):
    path = SOURCES[f"tcp_{policy}"]
    page = path.with_suffix(".7").read_text()
    listed = dict(re.findall(r"^\.It Va (\w+)\n(.*?default \S+?:)", page, re.M))
    assert listed == bounds(path)


@pytest.mark.parametrize("policy", policies())
def test_figures_of_the_cost_are_those_of_the_readme(policy):
    folder = SOURCES[f"tcp_{policy}"].parent
    readme = (folder / (f"README-{policy}.md" if folder.name == "modules" else "README.md")).read_text()
    page = SOURCES[f"tcp_{policy}"].with_suffix(".7").read_text()
    cost = page.split(".Sh WHAT IT COSTS OTHERS\n")[1].split(".Sh ")[0]
    figures = set(re.findall(r"\d+(?:\.\d+)?", cost))
    assert figures <= set(re.findall(r"\d+(?:\.\d+)?", readme))
