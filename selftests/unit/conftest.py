# SPDX-License-Identifier: GPL-2.0
"""Build the calculators around the headers of the kernel code, and let tests ask them.

Everything runs twice, as 64-bit and as 32-bit code, under the address and
undefined behaviour sanitizers. A missing 32-bit compiler is a skip, and a
failure when EXPECT_ALL=1.
"""

import os
import pathlib
import subprocess

import pytest
from hypothesis import configuration, settings

from selftests.unit.operate_net import can_use_namespaces, net      # noqa: F401

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

# The same examples on every run, and no verdict from the clock.
settings.register_profile("repeatable", derandomize=True, database=None,
                          deadline=None, max_examples=300)
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


def build(name, bits):
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / f"{name}{bits}"
    command = [os.environ.get("CC", "gcc"), f"-m{bits}", *CFLAGS,
               HERE / f"{name}.c", "-o", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return program, done


def can_build_32():
    command = [os.environ.get("CC", "gcc"), "-m32", "-fsanitize=address,undefined",
               "-x", "c", "-", "-o", os.devnull]
    return subprocess.run(command, input="int main(void) { return 0; }", text=True,
                          capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session", params=[64, 32], ids=["64-bit", "32-bit"])
def calculator(request):
    """calculator("growth_calc"): a Calc of selftests/unit/growth_calc.c."""
    if request.param == 32 and not can_build_32():
        if os.environ.get("EXPECT_ALL") == "1":
            pytest.fail("no 32-bit compiler and sanitizer libraries")
        pytest.skip("no 32-bit compiler and sanitizer libraries (gcc-multilib)")
    started = {}

    def start(name):
        if name not in started:
            program, done = build(name, request.param)
            assert done.returncode == 0, done.stderr
            started[name] = Calc(program)
        return started[name]

    yield start
    assert [calc.close() for calc in started.values()] == [0] * len(started)


@pytest.fixture(scope="session")
def calc(calculator):
    return calculator("growth_calc")
