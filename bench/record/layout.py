# SPDX-License-Identifier: GPL-2.0
"""The layout of a congestion control's private struct, from the debug information of its module.

    layouts(folder)  ->  {"hybla_full": {"credit_avoid_q16": [0, 8, false, 0, 64], ...}, ...}

A field is [offset in bytes, size in bytes, signed, first bit, bits] of the integer that contains it.
The name of a nested struct's member begins with the struct's name; a member of an unnamed union keeps
its own.  The name of an array's element ends with its index.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np

from ..errors import LabError

PRIVATE = re.compile(r"struct (\w+) \*ca = inet_csk_ca\(sk\)")
OPEN = re.compile(r"\s*(?:struct|union)\s+(?:\w+ )?\{$")
CLOSE = re.compile(r"\s*\}\s*(\w+);")
CLOSE_UNNAMED = re.compile(r"\s+\};")
MEMBER = re.compile(r"\s*(?:/\* typedef .*? \*/ )?([\w ]+?[ *]+)(\w+)(?:\[(\d+)\])?(?::(\d+))?;\s*"
                    r"/\*\s*(\d+)(?::\s*(\d+))?\s+(\d+) \*/")


def private_struct(source: str) -> str | None:
    """The name of the struct in the private bytes, from a policy's C text; None if it has none."""
    match = PRIVATE.search(source)
    return match[1] if match else None


def fields(text: str) -> dict[str, list]:
    """The fields of a struct.  text: the output of `pahole -E`.  Raises LabError."""
    scopes = [[]]               # fields of the open structs, the innermost last
    for line in text.splitlines()[1:]:
        if OPEN.match(line):
            scopes.append([])
        elif (match := CLOSE.match(line)) and len(scopes) > 1:
            inner = scopes.pop()
            scopes[-1] += [(f"{match[1]}_{name}", place) for name, place in inner]
        elif CLOSE_UNNAMED.match(line) and len(scopes) > 1:
            inner = scopes.pop()
            scopes[-1] += inner
        elif match := MEMBER.match(line):
            kind, name, count, bits, offset, bit, size = match.groups()
            signed = "unsigned" not in kind and "_Bool" not in kind and "*" not in kind
            offset, size = int(offset), int(size)
            if count:
                each = size // int(count)
                scopes[-1] += [(f"{name}_{index}", [offset + index * each, each, signed, 0, 8 * each])
                               for index in range(int(count))]
            else:
                scopes[-1].append((name, [offset, size, signed, int(bit or 0), int(bits or 8 * size)]))
        elif line.strip().endswith("];") or re.match(r"\s*\}\s*\w+\[", line):
            raise LabError(f"cannot parse a member of a policy's struct: {line.strip()}")
    return dict(scopes[0])


def of_module(module: Path, struct: str) -> dict[str, list]:
    """The fields of a struct, from a module with debug information.  Raises LabError."""
    try:
        done = subprocess.run(["pahole", "-E", "-C", struct, str(module)], text=True,
                              capture_output=True)
    except FileNotFoundError:
        raise LabError("pahole is not installed (Debian: dwarves)") from None
    if done.returncode or not done.stdout.strip():
        raise LabError(f"{module.name}: no struct {struct} in its debug information")
    return fields(done.stdout.strip())


def layouts(folder: Path) -> dict[str, dict]:
    """Policy -> the layout of its private struct, for all policies built below a folder."""
    by_policy = {}
    for source in sorted(folder.glob("*/tcp_*.c")):
        if source.name.endswith(".mod.c"):
            continue
        if struct := private_struct(source.read_text()):
            policy = source.stem.removeprefix("tcp_")
            by_policy[policy] = of_module(source.with_suffix(".ko"), struct)
    return by_policy


def decode(blobs: np.ndarray, layout: dict[str, list]) -> dict[str, np.ndarray]:
    """Field -> its column, for a layout.  blobs: an array with the private bytes of each record."""
    whole = blobs.tobytes()
    size = blobs.dtype.itemsize
    columns = {}
    for name, (offset, width, signed, bit, bits) in layout.items():
        kind = np.dtype({"names": ["v"], "formats": [f"<{'i' if signed else 'u'}{width}"],
                         "offsets": [offset], "itemsize": size})
        column = np.frombuffer(whole, kind)["v"]
        if bits != 8 * width:
            column = (column >> bit) & ((1 << bits) - 1)
        columns[name] = column
    return columns
