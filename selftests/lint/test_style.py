# SPDX-License-Identifier: GPL-2.0
"""What tools say of the sources: compiler, sparse, checkpatch, shellcheck, flake8, codespell."""

import dataclasses
import hashlib
import re
import shutil
import subprocess
import tarfile

import pytest

from bench.lab import foreign, image, job, packages
from bench.measure import cost
from bench.paths import BUILD, TOP
from bench.scenario import scenario
from selftests.lint.conftest import KERNEL


def tracked(*suffixes):
    """The project's own files: those in git, and new ones it does not ignore."""
    output = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=TOP,
                            text=True, capture_output=True, check=True).stdout.splitlines()
    return [TOP / name for name in output if (TOP / name).is_file()
            and (not suffixes or (TOP / name).suffix in suffixes)]


def scripts():
    """Shell scripts, by their first line."""
    return [path for path in tracked()
            if path.suffix in ("", ".sh") and path.read_bytes().startswith(b"#!/bin/sh")]


def quiet(command, cwd=TOP, **kwargs):
    """Run a checker; any output is a finding."""
    done = subprocess.run(command, cwd=cwd, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **kwargs)
    assert done.returncode == 0, done.stdout
    return done.stdout


def quiet_each(name, command, version, paths, cwd=TOP):
    """Run a checker on the files that it has not accepted before as they are.

    For checkers that look at each file alone.  The digests of accepted files are in build/lint/<name>.
    """
    accepted = BUILD / "lint" / name
    before = set(accepted.read_text().split()) if accepted.exists() else set()
    digests = {path: hashlib.sha256(b"\0".join(
        [repr(command).encode(), version, str(path).encode(), path.read_bytes()])).hexdigest()
        for path in paths}
    if new := [path for path in paths if digests[path] not in before]:
        quiet([*command, *map(str, new)], cwd=cwd)
    accepted.parent.mkdir(parents=True, exist_ok=True)
    accepted.write_text("\n".join(sorted(digests.values())) + "\n")


def build(release, tmp_path, *arguments):
    image.copy_module_sources(tmp_path)
    return kbuild(release, tmp_path, *arguments)


def kbuild(release, folder, *arguments):
    return quiet(["make", "-C", str(packages.headers(release)), f"M={folder}", "modules", *arguments])


def no_finding(output):
    assert "CHECK" in output, "sparse did not run"
    # The package for building has no vmlinux, which is about BTF and not about the code.
    findings = [line for line in output.splitlines()
                if re.search(r"warning|error", line, re.I) and "vmlinux" not in line]
    assert not findings, "\n".join(findings)


@pytest.fixture(scope="module")
def elsewhere(release, tmp_path_factory):
    """(folder, output) of the modules built in another folder as the lab builds them, and with W=1 and
    sparse (C=2) on every file."""
    folder = tmp_path_factory.mktemp("there") / "deeper"
    folder.mkdir()
    flags, *others = image.module_flags(folder)
    return folder, build(release, folder, f"{flags} -Werror", *others, "W=1", "C=2")


def test_modules_build_without_a_warning(elsewhere):
    _, output = elsewhere
    no_finding(output)


def test_calibration_builds_without_a_warning(release, tmp_path):
    """The bench's own kernel module."""
    shutil.copy(cost.SOURCE, tmp_path)
    (tmp_path / "Kbuild").write_text(f"obj-m := {cost.SOURCE.stem}.o\n")
    no_finding(kbuild(release, tmp_path, "W=1", "C=2", "KCFLAGS=-Werror"))


def test_modules_build_the_same_anywhere(release, elsewhere):
    """Built by the lab and in another folder, stripped as the lab strips them: the same bytes.  The
    build ID, which stays in them, is of the debug information too: that names no folder of this
    clone."""
    builds = []
    for folder in (image.build_modules(release), elsewhere[0]):
        builds.append({path.name: image.stripped(path) for path in folder.glob("*/*.ko")})
        assert [path.name for path in folder.glob("*/*.ko")
                if str(TOP).encode() in path.read_bytes()] == []
    assert builds[0] and builds[0] == builds[1]


@pytest.fixture(scope="session")
def checkpatch():
    """The kernel's own checkpatch, from the distribution's source package."""
    folder = BUILD / "checkpatch"
    script = folder / "scripts/checkpatch.pl"
    if not script.exists():
        tree = packages.unpack([f"linux-source-{KERNEL}"], BUILD / "linux-source", False)
        archive, = tree.glob("usr/src/linux-source-*.tar.xz")
        wanted = {"scripts/checkpatch.pl", "scripts/spelling.txt", "scripts/const_structs.checkpatch"}
        with tarfile.open(archive, "r|xz") as tar:
            for member in tar:
                name = member.name.split("/", 1)[-1]
                if name in wanted:
                    target = folder / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(tar.extractfile(member).read())
                    wanted.remove(name)
                if not wanted:
                    break
        shutil.rmtree(tree)
    return script


# What a TRACE_EVENT looks like is the trace macros' doing; the kernel's own headers have both.
# What stands in for the kernel's macros, in modules/bpf, is written as they are.
IGNORED = {
    "code": [],
    "trace events": ["PARENTHESIS_ALIGNMENT", "OPEN_ENDED_LINE", "COMPLEX_MACRO"],
    "for BPF": ["MACRO_ARG_REUSE", "AVOID_EXTERNS", "VOLATILE", "PREFER_DEFINED_ATTRIBUTE_MACRO",
                "SINGLE_STATEMENT_DO_WHILE_MACRO", "CAMELCASE"]}


def kind_of(path):
    return "for BPF" if path.is_relative_to(TOP / "modules/bpf") else \
        "trace events" if path.name.endswith("_trace.h") else "code"


@pytest.mark.parametrize("kind", IGNORED)
def test_checkpatch_is_silent(checkpatch, kind):
    paths = [path for path in tracked(".c", ".h") if path.parent.name != "guest"
             and "selftests" not in path.parts and kind_of(path) == kind]
    assert paths
    ignore = ["--ignore", ",".join(IGNORED[kind])] if IGNORED[kind] else []
    quiet_each(f"checkpatch-{kind.replace(' ', '-')}",
               ["perl", str(checkpatch), "--no-tree", "--strict", "--terse", "--no-summary", "--quiet",
                *ignore, "--file"], checkpatch.read_bytes(), paths,
               cwd=checkpatch.parent)   # in a git tree it writes a file of its own


def test_an_outer_make_does_not_reach_the_build(monkeypatch, tmp_path):
    """`make run CC=name` once had the modules compiled by a program of that name."""
    monkeypatch.setenv("MAKEFLAGS", " -- CC=nosuch")
    (tmp_path / "Makefile").write_text("all:\n\t@echo $(CC)\n")
    assert "nosuch" not in image._run("make", ["make", "-s", "-C", tmp_path])


def test_make_clean_leaves_the_lab_alone():
    kept = BUILD / "clean-test" / "kept.ko"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.touch()
    quiet(["make", "clean"])
    assert kept.exists()
    shutil.rmtree(kept.parent)


def test_no_version_test_outside_compat():
    for path in tracked(".c", ".h"):
        if path.name != "compat.h":
            assert not re.search(r"#\s*(if|elif).*(KERNEL_VERSION|VERSION_CODE|SATCC_KERNEL)",
                                 path.read_text()), path


def test_shell_scripts():
    assert scripts()
    quiet(["shellcheck", "--external-sources", *map(str, scripts())])


def test_generated_shell_script(tmp_path):
    """What a scenario becomes is a script like another.  Not asked: words split on purpose."""
    scenarios = [scenario.load(path) for path in sorted((TOP / "bench/scenarios").glob("*.toml"))]
    scenarios.append(dataclasses.replace(scenarios[0], before=cost.before("cubic"), after=cost.AFTER))
    own = [foreign.Foreign(kind, kind, tmp_path, b"") for kind in (foreign.MODULE, foreign.OBJECT)]
    for number, each in enumerate(scenarios):
        script = tmp_path / f"{number}.sh"
        script.write_bytes(job.files(each, first=foreign.lines(own))["run"])
        quiet(["shellcheck", "--exclude=SC2086,SC2010,SC2119,SC2120,SC2034,SC2043", str(script)])


def test_python():
    version = subprocess.run(["flake8", "--version"], capture_output=True, check=True).stdout
    quiet_each("flake8", ["flake8", "--max-line-length=105"], version, tracked(".py"))


def test_a_checker_sees_each_file_until_it_accepts_it(monkeypatch, tmp_path):
    """grep stands for the checker: it prints the lines that have a fault, and then succeeds."""
    monkeypatch.setitem(globals(), "BUILD", tmp_path)
    good, bad = tmp_path / "good.c", tmp_path / "bad.c"
    grep = ["sh", "-c", 'echo "$@" >>seen; ! grep fault "$@"', "sh"]

    def seen():
        quiet_each("grep", grep, b"1", [good, bad], cwd=tmp_path)
        return (tmp_path / "seen").read_text().splitlines()

    good.write_text("int a;\n")
    bad.write_text("int fault;\n")
    for _ in range(2):
        with pytest.raises(AssertionError, match="int fault"):
            seen()
    bad.write_text("int b;\n")
    assert seen()[2:] == seen()[2:] == [f"{good} {bad}"]
    good.write_text("int c;\n")
    assert seen()[3:] == [str(good)]
    bad.write_text("int fault;\n")
    with pytest.raises(AssertionError, match="int fault"):
        seen()


def test_spelling():
    quiet(["codespell", "--ignore-words-list=acknowledgement,ists,iif,parm", *map(str, tracked(
        ".py", ".c", ".h", ".md", ".toml", ".sh", ".j2"))])


def test_no_path_of_a_machine_is_named():
    """No path of the machine it was written on, and no address to fetch packages from."""
    for path in tracked():
        # The first line of debian/copyright is an address by which its format is known.
        if path.name not in ("COPYING", "copyright", "test_style.py"):
            text = path.read_text(errors="replace")
            assert not re.search(r"/home/\w|/root/|https?://[\w.]*(debian|pypi)", text), path
            assert str(TOP) not in text, path
