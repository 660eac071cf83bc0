# SPDX-License-Identifier: GPL-2.0
"""A user's own congestion control: a module or a BPF object that the guest loads before the flows.

The file goes to the guest with the job, so the image stays what it is, and a run's identity covers the
file's bytes.  A run gets only the files whose congestion control it uses.
"""

import hashlib
import lzma
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError
from ..paths import policies
from ..scenario.scenario import Scenario
from . import image, packages

MODULE, OBJECT = "module", "bpf"            # the kinds of files, and the options that name them
MACHINES = {MODULE: 62, OBJECT: 247}        # ELF's EM_X86_64 and EM_BPF
WHAT = {MODULE: "a kernel module for amd64", OBJECT: "a BPF object"}
SUFFIXES = {MODULE: r"\.ko(\.xz)?", OBJECT: r"(\.bpf)?\.o"}
RELOCATABLE = 1                             # ELF's ET_REL
XZ = b"\xfd7zXZ\0"
BUILT_IN = ("reno", "cubic")
LOADER = "satcc-bpf"
# The functions, without the file's first lines, which are for people and for shellcheck.
FUNCTIONS = Path(__file__).with_name("foreign.sh").read_text().splitlines()[3:]


@dataclass(frozen=True)
class Foreign:
    """A congestion control that is neither the project's nor the kernel's."""

    cc: str
    kind: str           # MODULE or OBJECT
    path: Path
    content: bytes

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def guest_name(self) -> str:
        """The file's name in the guest.  The user's own name for it is not part of a run's identity."""
        return f"tcp_{self.cc}.ko" if self.kind == MODULE else f"{self.cc}.bpf.o"


def known() -> set[str]:
    """The congestion controls that the lab has without a user's files."""
    return {*BUILT_IN, *policies(), *(name.removeprefix("tcp_") for name in image.KERNEL_MODULES
                                      if name.startswith("tcp_"))}


def name_of(kind: str, path: Path) -> str:
    """The name that a file's name suggests: tcp_foo.ko -> foo; '' if there is none."""
    match = re.fullmatch(rf"(tcp_)?([A-Za-z0-9_]{{1,15}}){SUFFIXES[kind]}", path.name, re.ASCII)
    return match[2] if match else ""


def named(given: list[tuple[str, Path]], ccs: Iterable[str]) -> list[str]:
    """The congestion control of each file.  Raises LabError if the names do not tell.

    given: (kind, path) of each file.
    ccs: the names after --cc; those that the lab knows are no file's.
    A file has the name that its own name suggests if --cc has it or is missing, else the next of the
    rest.
    """
    ccs = list(dict.fromkeys(ccs))
    if ccs and not set(ccs) - known():
        raise LabError(f"{given[0][1]}: the lab has a congestion control {ccs[0]} of its own; "
                       "give yours another name")
    own = [name_of(kind, path) for kind, path in given]
    if ccs:
        own = [name if name in ccs else "" for name in own]
    rest = [cc for cc in ccs if cc not in known() and cc not in own]
    names = [name or (rest.pop(0) if rest else "") for name in own]
    for (kind, path), name in zip(given, names):
        if not name:
            raise LabError(f"{path}: --cc names no congestion control of this file")
        if name in known():
            raise LabError(f"{path}: the lab has a congestion control {name} of its own; "
                           "give yours another name")
        if names.count(name) > 1:
            raise LabError(f"{path}: another file has the congestion control {name}, too")
    return names


def _content(kind: str, path: Path) -> bytes:
    """A file's bytes, unpacked.  Raises LabError if it is not of its kind."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LabError(f"{path}: {error.strerror}") from None
    if content.startswith(XZ):
        try:
            content = lzma.decompress(content)
        except lzma.LZMAError as error:
            raise LabError(f"{path}: {error}") from None
    if len(content) < 64 or content[:4] != b"\x7fELF" or \
            struct.unpack_from("<HH", content, 16) != (RELOCATABLE, MACHINES[kind]):
        raise LabError(f"{path} is not {WHAT[kind]}")
    return content


def _check_release(path: Path, content: bytes, release: str) -> None:
    """Raise LabError if a module was built for another kernel."""
    match = re.search(rb"(?:\A|\0)vermagic=([^ \0]+)", content)
    if not match:
        raise LabError(f"{path} is not {WHAT[MODULE]}: it names no kernel (vermagic)")
    if (built := match[1].decode(errors="replace")) != release:
        raise LabError(f"{path} was built for Linux {built}, but the lab runs {release}")


def read(given: list[tuple[str, Path]], ccs: Iterable[str], series: str) -> tuple[Foreign, ...]:
    """The user's congestion controls.  Raises LabError.

    given, ccs: as for named().
    series: of the lab's kernel.
    """
    if not given:
        return ()
    contents = [_content(kind, path) for kind, path in given]
    names = named(given, ccs)
    if any(kind == MODULE for kind, _ in given):
        release = packages.kernel_release(series)
        for (kind, path), content in zip(given, contents):
            if kind == MODULE:
                _check_release(path, content, release)
    return tuple(Foreign(cc, kind, path, content)
                 for cc, (kind, path), content in zip(names, given, contents))


def asked(arguments) -> tuple[Foreign, ...]:
    """The user's congestion controls that a command line names.  Raises LabError."""
    return read([*arguments.before, *arguments.behind],
                arguments.cc.split(",") if arguments.cc else [], arguments.kernel)


def used(scenario: Scenario, foreign: Iterable[Foreign]) -> tuple[Foreign, ...]:
    """Those that a scenario's flows or proxies use."""
    names = {name for flow in scenario.flows for name in (*flow.names, flow.listener)}
    names |= {hop.pep for hop in scenario.hops}
    return tuple(each for each in foreign if each.cc in names)


def files(foreign: Iterable[Foreign]) -> dict[str, bytes]:
    """The files for the guest's working directory."""
    made = {each.guest_name: each.content for each in foreign}
    if any(each.kind == OBJECT for each in foreign):
        made[LOADER] = image.build_helper(LOADER).read_bytes()
    return made


def lines(foreign: Iterable[Foreign]) -> list[str]:
    """Shell lines that load them."""
    if not foreign:
        return []
    mount = ["mount -t bpf none /sys/fs/bpf"] if any(each.kind == OBJECT for each in foreign) else []
    verb = {MODULE: "load_module", OBJECT: "load_object"}
    return [*FUNCTIONS, *mount, *(f"{verb[each.kind]} {each.guest_name} {each.cc}" for each in foreign)]
