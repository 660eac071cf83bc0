# SPDX-License-Identifier: GPL-2.0
"""Kernels, their headers and the guest's programs, as the distribution's own packages.

apt fetches them from the machine's own sources and checks its signatures, with a state
directory of its own under build/: nothing is installed on the host and no root is needed.
"""

import functools
import os
import re
import subprocess
from pathlib import Path

from .errors import LabError
from .paths import BUILD, locked

APT = BUILD / "apt"


def _apt(*argv: str, cwd: Path | None = None) -> str:
    """Run an apt tool on the private state; its standard output."""
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (APT / folder).mkdir(parents=True, exist_ok=True)
    status = APT / "status"         # an empty one: as if nothing were installed
    status.touch()
    options = {
        "Dir::State": APT / "state",
        "Dir::State::status": status,
        "Dir::Cache": APT / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "",
        "APT::Architecture": "amd64",
        "APT::Install-Recommends": "false",
    }
    command = [argv[0]]
    for name, value in options.items():
        command += ["-o", f"{name}={value}"]
    done = subprocess.run(command + list(argv[1:]), cwd=cwd, text=True, capture_output=True,
                          env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"})
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("E:")] or ["no reason"]
        raise LabError(f"{' '.join(argv[:2])} failed: {said[-1]}")
    return done.stdout


@functools.cache
def update() -> None:
    """Fetch the package lists once per process, and only if they are missing."""
    lists = APT / "state" / "lists"
    if not any(lists.glob("*_Packages*")):
        _apt("apt-get", "update", "-qq")


def _fetch(*argv: str, cwd: Path | None = None) -> None:
    """apt-get; once more with new lists, for the archive drops versions the old ones name."""
    update()
    try:
        _apt("apt-get", *argv, cwd=cwd)
    except LabError:
        _apt("apt-get", "update", "-qq")
        _apt("apt-get", *argv, cwd=cwd)


def kernel_release(series: str) -> str:
    """The newest packaged kernel of a series: "6.1" -> "6.1.0-56-amd64".

    A release's own kernel has an ABI number, which its updates raise; a later release's, which
    the security suite of a Debian in its last years has too, a number of each update: "6.12" ->
    "6.12.117+deb12-amd64".
    """
    update()
    names = _apt("apt-cache", "pkgnames", "linux-image-").split()
    found = {}
    for name in names:
        match = re.fullmatch(r"linux-image-((\d+\.\d+)\.[\d.]+(?:\+deb[\d.]+)?(?:-\d+)?-amd64)", name)
        if match:
            version = [int(number) for number in re.findall(r"\d+", match[1].removesuffix("-amd64"))]
            found.setdefault(match[2], []).append((version, match[1]))
    if series not in found:
        known = ", ".join(sorted(found)) or "none"
        raise LabError(f"no packaged kernel {series} in this machine's apt sources (there are: {known})")
    return max(found[series])[1]


def unpack(names: list[str], into: Path, with_depends: bool) -> Path:
    """Fetch packages and unpack them into a folder, whole or not at all.  Returns the folder."""
    with locked("packages"):
        if not into.exists():
            _unpack(names, into, with_depends)
    return into


def _unpack(names: list[str], into: Path, with_depends: bool) -> None:
    scratch = into.with_name(into.name + ".part")
    subprocess.run(["rm", "-rf", str(scratch)], check=True)
    debs = scratch / "debs"
    debs.mkdir(parents=True)
    if with_depends:
        _fetch("-o", f"Dir::Cache::archives={debs}", "-y", "-qq", "--download-only",
               "install", *names)
    else:
        _fetch("-qq", "download", *names, cwd=debs)
    for deb in sorted(debs.glob("*.deb")):
        done = subprocess.run(["dpkg-deb", "-x", str(deb), str(scratch)],
                              text=True, capture_output=True)
        if done.returncode:
            raise LabError(f"cannot unpack {deb.name}: {done.stderr.strip().splitlines()[-1]}")
    subprocess.run(["rm", "-rf", str(debs)], check=True)
    scratch.rename(into)


def kernel(release: str) -> Path:
    """The tree of a kernel image package: boot/vmlinuz-*, lib/modules/*."""
    return unpack([f"linux-image-{release}"], BUILD / "kernels" / release / "image", False)


def headers(release: str) -> Path:
    """The build tree of a kernel (what KDIR names), made usable outside /usr/src."""
    root = BUILD / "kernels" / release / "headers"
    kdir = root / "usr/src" / f"linux-headers-{release}"
    if not root.exists():
        update()
        depends = _apt("apt-cache", "depends", f"linux-headers-{release}")
        needed = re.findall(r"Depends: (linux-(?:headers|kbuild)-\S+)", depends)
        unpack([f"linux-headers-{release}", *needed], root, False)
    makefile = kdir / "Makefile"
    text = makefile.read_text()
    fixed = re.sub(r"^include .*(/usr/src/)", rf"include {root}\1", text, flags=re.M)
    if fixed != text:
        makefile.write_text(fixed)
    return kdir


GUEST_PACKAGES = ["busybox-static", "iproute2", "iperf3", "tcpdump", "ethtool", "kmod", "dash",
                  "util-linux"]


def guest_programs() -> Path:
    """The tree the guest's programs and their libraries are taken from."""
    return unpack(GUEST_PACKAGES, BUILD / "guest-programs", True)


def extra_programs(name: str, names: tuple[str, ...]) -> Path:
    """The tree of an extra's packages and their libraries."""
    return unpack(list(names), BUILD / f"guest-programs-{name}", True)
