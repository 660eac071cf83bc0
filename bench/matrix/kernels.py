# SPDX-License-Identifier: GPL-2.0
"""The matrix's data file: the kernels, and the scenario that each plays."""

from dataclasses import dataclass
from pathlib import Path

import pydantic

from ..errors import LabError
from ..scenario import schema
from ..scenario.scenario import PERCENT

FILE = Path(__file__).with_name("kernels.toml")
SCENARIO = schema.text("a scenario's name", r"[\w-]+")
SERIES = schema.text('"6.1", "6.1-rt", "6.1-clang", "6.1-arm64", "6.1-i386" or "newest"',
                     r"\d+\.\d+(-(rt|clang|arm64|i386))?|newest")


@dataclass(frozen=True)
class Kernel(schema.Table):
    """A [[kernel]]."""

    series: SERIES


@dataclass(frozen=True)
class Matrix(schema.Table):
    """The keys of kernels.toml."""

    scenario: SCENARIO
    loss_pct: PERCENT
    kernel: pydantic.conlist(Kernel, min_items=1)

    def rules(self) -> None:
        names = [kernel.series for kernel in self.kernel]
        if len(set(names)) < len(names):
            raise ValueError("a series is listed twice")


def load(path: Path = FILE) -> Matrix:
    return schema.read(Matrix, schema.parsed(path), path.name)


def chosen(matrix: Matrix, series: list[str]) -> list[Kernel]:
    """The kernels that a command names; all, if it names none."""
    known = [kernel.series for kernel in matrix.kernel]
    for name in series:
        if name not in known:
            raise LabError(f"{FILE.name} has no kernel {name} (it has: {', '.join(known)})")
    return [kernel for kernel in matrix.kernel if not series or kernel.series in series]
