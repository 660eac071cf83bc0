# SPDX-License-Identifier: GPL-2.0
"""No folder outgrows the others, and the packages of bench do not import each other in a circle."""

import ast
import collections
import graphlib

from bench.paths import TOP
from selftests.lint.test_style import tracked

LARGEST = 1 / 5             # of the tree's lines of code, in one folder
SPLIT = ("bench", "selftests", "tools")     # each of their folders counts as a folder of its own


def is_code(path) -> bool:
    return path.suffix in (".py", ".c", ".h", ".sh", ".bt") or path.read_bytes().startswith(b"#!")


def folder_of(path) -> str:
    """The folder that a file counts for: bench/lab for bench/lab/guest/flow.c, ibk for ibk/tcp_ibk.c."""
    parts = path.relative_to(TOP).parts[:-1]
    return "/".join(parts[:2] if parts and parts[0] in SPLIT else parts[:1])


def lines_by_folder() -> collections.Counter:
    """Folder -> its lines of code.  Empty lines do not count."""
    lines = collections.Counter()
    for path in tracked():
        if path.is_file() and is_code(path):
            lines[folder_of(path)] += sum(1 for line in path.read_text().splitlines() if line.strip())
    return lines


def imports(text: str, module: str) -> set[str]:
    """The modules and names that a module's text imports, also inside functions, as bench.lab.play."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[:-node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {base, *(f"{base}.{name.name}" for name in node.names)}
    return found


def package(module: str) -> str:
    """bench.lab for bench.lab.play; a module beside the packages, as bench.paths, is its own package."""
    return ".".join(module.split(".")[:2])


def packages(sources: dict[str, str]) -> dict[str, set[str]]:
    """Package -> the other packages of bench that it imports.  sources: module -> its text."""
    graph = {package(module): set() for module in sources}
    for module, text in sources.items():
        graph[package(module)] |= {package(name) for name in imports(text, module)}
    return {name: (others & graph.keys()) - {name} for name, others in graph.items()}


def circle(sources: dict[str, str]) -> list[str]:
    """A circle of packages that import each other, its first package also last; [] if there is none."""
    try:
        graphlib.TopologicalSorter(packages(sources)).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return []


def sources_of_bench() -> dict[str, str]:
    return {".".join(path.relative_to(TOP).with_suffix("").parts): path.read_text()
            for path in tracked(".py") if path.is_relative_to(TOP / "bench")}


def test_no_folder_is_larger_than_a_fifth():
    lines = lines_by_folder()
    assert {"bench/lab", "selftests/unit", "modules", "ibk", "tools/satcc_tools"} <= set(lines)
    shares = {folder: count / lines.total() for folder, count in lines.items()}
    assert {folder: share for folder, share in shares.items() if share > LARGEST} == {}


def test_packages_of_bench_import_in_one_direction():
    graph = packages(sources_of_bench())
    assert {"bench.scenario", "bench.record"} <= graph["bench.lab"]
    assert circle(sources_of_bench()) == []


def test_a_circle_is_seen():
    planted = {"bench.record.run": "def lab():\n    from ..lab import play\n"}
    assert set(circle(sources_of_bench() | planted)) == {"bench.record", "bench.lab"}
    for text in ("from .. import lab", "import bench.lab.play", "from bench.lab.play import Lab",
                 "from ..lab.play import Lab", "from bench import lab"):
        assert circle({"bench.record.run": text, "bench.lab.play": "from ..record import run"}), text


def test_imports_in_one_direction_are_no_circle():
    assert circle({"bench.record.run": "from . import pcap\nimport numpy", "bench.record.pcap": "",
                   "bench.lab.play": "from ..record import run"}) == []
