# SPDX-License-Identifier: GPL-2.0
"""Build the calculators around the headers of the kernel code, and let tests ask them.

Each question goes to two builds, 64-bit and 32-bit code, both under the address
and undefined behaviour sanitizers, and they must give one answer. A missing
32-bit compiler is a skip, and a failure when EXPECT_ALL=1.
"""

import functools
import hashlib
import os
import pathlib
import subprocess

import pytest
from hypothesis import configuration, settings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "unit"

CFLAGS = [
    "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
    f"-I{HERE / 'include'}", f"-I{ROOT / 'modules'}",
    *(f"-I{folder}" for folder in sorted({path.parent for path in ROOT.glob("*/tcp_*.c")})),
]

# Nothing of hypothesis' own in the work tree.
configuration.set_hypothesis_home_dir(BUILD / "hypothesis")

# The same examples on every run, more of them with LONG=1, which make passes on; and no verdict from
# the clock.
settings.register_profile("repeatable", derandomize=True, database=None, deadline=None,
                          max_examples=1000 if os.environ.get("LONG") else 150)
settings.load_profile("repeatable")


class Calc:
    """A calculator as a function: calc("rho", 600000, 25000, 256) -> [1572864]."""

    def __init__(self, program):
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, *request):
        self.process.stdin.write(" ".join(map(str, request)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"{self.process.args.name} died of: {request}"
        return [int(word) for word in answer.split()]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(timeout=10)


class Both:
    """The 64-bit and the 32-bit build of a calculator, whose answers are the same."""

    def __init__(self, programs):
        self.calcs = [Calc(program) for program in programs]

    def __call__(self, *request):
        wide, narrow = (calc(*request) for calc in self.calcs)
        assert wide == narrow, f"64-bit and 32-bit code differ for {request}"
        return wide

    def close(self):
        return [calc.close() for calc in self.calcs]


def sources_of(name):
    """The files that a calculator may include, and its own."""
    folders = [word.removeprefix("-I") for word in CFLAGS if word.startswith("-I")]
    return [HERE / f"{name}.c", *(path for folder in [HERE, *folders]
                                  for path in sorted(pathlib.Path(folder).rglob("*.h")))]


@functools.cache
def compiler():
    """The compiler, and its version."""
    program = os.environ.get("CC", "gcc")
    return program, subprocess.run([program, "--version"], capture_output=True, check=True).stdout


def build(name, bits):
    """The program, built again if the compiler, the flags or a source has changed."""
    command = [compiler()[0], f"-m{bits}", *CFLAGS, HERE / f"{name}.c"]
    inputs = hashlib.sha256(compiler()[1] + repr(command).encode())
    for path in sources_of(name):
        inputs.update(path.read_bytes())
    program = BUILD / f"{name}{bits}-{inputs.hexdigest()[:16]}"
    if program.exists():
        return program
    BUILD.mkdir(parents=True, exist_ok=True)
    for old in BUILD.glob(f"{name}{bits}-*"):
        if old != program and not old.suffix:           # no other worker's
            old.unlink(missing_ok=True)
    part = program.with_suffix(f".{os.getpid()}")
    done = subprocess.run([*command, "-o", part], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return part.rename(program)


def can_build_32():
    command = [os.environ.get("CC", "gcc"), "-m32", "-fsanitize=address,undefined",
               "-x", "c", "-", "-o", os.devnull]
    return subprocess.run(command, input="int main(void) { return 0; }", text=True,
                          capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def calculator():
    """calculator("growth_calc"): Both builds of selftests/unit/growth_calc.c."""
    if not can_build_32():
        if os.environ.get("EXPECT_ALL") == "1":
            pytest.fail("no 32-bit compiler and sanitizer libraries")
        pytest.skip("no 32-bit compiler and sanitizer libraries (gcc-multilib)")
    started = {}

    def start(name):
        if name not in started:
            started[name] = Both([build(name, 64), build(name, 32)])
        return started[name]

    yield start
    assert [both.close() for both in started.values()] == [[0, 0]] * len(started)


@pytest.fixture(scope="session")
def calc(calculator):
    return calculator("growth_calc")
