# SPDX-License-Identifier: GPL-2.0
"""What holds a loaded policy: sockets and default policies, in each network namespace of the host.

A module in use cannot be unloaded, and neither `ss` nor a sysctl shows what another namespace uses.
"""

import dataclasses
import os

from . import policies, sockets
from .host import OperateError, in_namespace

MOST_PROGRAMS = 3           # in a line of text


@dataclasses.dataclass(frozen=True)
class Space:
    """A network namespace.  path: a file to enter it by; None: it is this thread's own."""
    path: object
    name: str = None            # below /run/netns, or where else it is mounted; None: without a name
    process: int = None         # one that is in it, if it has no name
    command: str = None         # of that process

    @classmethod
    def of_json(cls, each):
        """From Holder.as_json()."""
        return cls(None if each["here"] else "", each["namespace"], each["process"], each["command"])

    def __str__(self):
        if self.path is None:
            return "this one"
        return self.name or f"process {self.process} ({self.command})"

    def in_words(self):
        if self.path is None:
            return "this namespace"
        return f"namespace {self.name}" if self.name else f"the namespace of {self}"


@dataclasses.dataclass(frozen=True)
class Holder:
    """What holds a policy in a namespace.  programs: (name, process ID) of those with sockets."""
    policy: str
    space: Space
    is_default: bool
    sockets: int
    programs: tuple

    def as_json(self):
        return {"policy": self.policy, "here": self.space.path is None, "namespace": self.space.name,
                "process": self.space.process, "command": self.space.command,
                "default": self.is_default, "sockets": self.sockets,
                "programs": [{"name": name, "process": process} for name, process in self.programs]}

    def __str__(self):
        """the default and 3 sockets of nginx (12) in namespace web"""
        what = [*(["the default"] if self.is_default else []),
                *([f"{self.sockets} socket{'s' * (self.sockets > 1)}{self.of_programs()}"]
                  if self.sockets else [])]
        return f"{' and '.join(what)} in {self.space.in_words()}"

    def of_programs(self):
        text = program_text(self.programs)
        return f" of {text}" if text else ""


def program_text(programs):
    """nginx (12), iperf3 (99) and 4 more"""
    shown = ", ".join(f"{name} ({process})" for name, process in programs[:MOST_PROGRAMS])
    more = len(programs) - MOST_PROGRAMS
    return f"{shown} and {more} more" if more > 0 else shown


# ---- namespaces ------------------------------------------------------------

def mounts(host):
    """The files at which network namespaces are mounted, as container engines do."""
    lines = [line.split() for line in (host.read("proc/self/mountinfo") or "").splitlines()]
    return [words[4] for words in lines if words[3].startswith("net:[") and "nsfs" in words]


def spaces(host):
    """Every network namespace that this user can see, this thread's own first.

    A namespace that neither a name, a mount nor a process leads to is not among them.
    """
    own = identity("/proc/thread-self/ns/net")
    found = {own: Space(None)}
    for path in host.namespaces().values():
        found.setdefault(identity(path), Space(path, path.name))
    for path in mounts(host):
        found.setdefault(identity(host.path(path)), Space(host.path(path), path))
    for process in sorted(map(int, host.names("proc", "[0-9]*"))):
        path = host.path(f"proc/{process}/ns/net")
        space = identity(path)
        if space not in found:
            found[space] = Space(path, None, process, host.read(f"proc/{process}/comm") or "?")
    found.pop(None, None)
    return list(found.values())


def identity(path):
    """Device and inode of a network namespace; None if this user cannot read it, or it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


# ---- holders ---------------------------------------------------------------

def of(host, wanted):
    """The Holders of some policies.  Raises CommandError.

    A namespace that this user cannot enter has none; only root can enter all.
    """
    listed = []
    for space in spaces(host) if wanted else ():
        try:
            listed += in_space(host, space, wanted)
        except OperateError:
            if space.path is None:
                raise
    return listed


def in_space(host, space, wanted):
    def look():
        return list(here(host, space, wanted))
    return look() if space.path is None else in_namespace(space.path, look)


def here(host, space, wanted):
    """The Holders in this thread's namespace.  Raises CommandError."""
    default = policies.default(host)
    used = {each.policy for each in sockets.live(host, "-a")} & set(wanted)
    listed = sockets.live(host, "-a", "-p") if used else []         # -p reads all of /proc
    for policy in wanted:
        own = [each for each in listed if each.policy == policy]
        if own or policy == default:
            programs = sorted({program for each in own for program in each.programs})
            yield Holder(policy, space, policy == default, len(own), tuple(programs))
