# SPDX-License-Identifier: GPL-2.0
"""Kernels, their headers and the guest's programs, as the distribution's own packages.

apt fetches them from the machine's own sources and checks its signatures, with a state
directory of its own under build/: nothing is installed on the host and no root is needed.

Its package lists are fetched once and then kept, so that neither the kernel nor the guest's programs
change under somebody's figures, and what is there goes on without a network; removing build/apt has
the lab look again.  Only a file that is no longer to be had has them fetched anew.
"""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

from ..errors import LabError
from ..paths import BUILD, locked

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


def update() -> None:
    """Fetch the package lists, if they are missing."""
    if not _lists():
        _apt("apt-get", "update", "-qq")


def _lists() -> list[tuple]:
    """What tells one state of the package lists from another."""
    found = (APT / "state" / "lists").glob("*_Packages*")
    return sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in found)


def _files(names: list[str], with_depends: bool) -> dict[str, str]:
    """Name, which has the version, size and hash of each file that makes up packages, as apt resolves
    them by the lists there are.  apt takes a second to say so: its answer is kept."""
    asked = json.dumps([_lists(), names, with_depends])
    kept = APT / "answers" / f"{hashlib.sha256(asked.encode()).hexdigest()[:16]}.json"
    if not kept.exists():
        what = ["install"] if with_depends else ["download"]
        said = _apt("apt-get", "-qq", "-y", "--print-uris", *what, *names)
        # Where a list has no MD5 sum, `install` prints no hash.
        words = [line.split() for line in said.splitlines() if line.startswith("'")]
        found = {name: " ".join(rest) for _, name, *rest in words}
        if not found:
            raise LabError(f"apt names no file of {' '.join(names)}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(found, indent=1))
        part.rename(kept)
    return json.loads(kept.read_text())


def series_of(release: str) -> str:
    """The series of a kernel release: "6.1.0-56-rt-amd64" -> "6.1-rt"."""
    return ".".join(release.split(".")[:2]) + "-rt" * ("-rt-" in release)


def kernel_release(series: str) -> str:
    """The newest packaged kernel of a series: "6.1" -> "6.1.0-56-amd64", and with PREEMPT_RT "6.1-rt" ->
    "6.1.0-56-rt-amd64".

    A release's own kernel has an ABI number, which its updates raise; a later release's, which
    the security suite of a Debian in its last years has too, a number of each update: "6.12" ->
    "6.12.117+deb12-amd64".
    """
    update()
    names = _apt("apt-cache", "pkgnames", "linux-image-").split()
    found = {}
    for name in names:
        match = re.fullmatch(
            r"linux-image-((\d+\.\d+)\.[\d.]+(?:\+deb[\d.]+)?(?:-\d+)?(-rt)?-amd64)", name)
        if match:
            version = [int(number) for number in re.findall(r"\d+", match[1].removesuffix("-amd64"))]
            found.setdefault(match[2] + (match[3] or ""), []).append((version, match[1]))
    if series not in found:
        known = ", ".join(sorted(found)) or "none"
        raise LabError(f"no packaged kernel {series} in this machine's apt sources (there are: {known})")
    return max(found[series])[1]


MANIFEST = ".files.json"        # in a tree: _files() of what it was made of


def unpack(names: list[str], into: Path, with_depends: bool) -> Path:
    """Fetch packages and unpack them into a folder, whole or not at all; a tree of other packages or
    versions gives way.  Returns the folder.

    Once more with new lists, for the archive drops versions the old ones name.
    """
    update()
    with locked("packages"):
        try:
            return _unpack(names, into, with_depends)
        except LabError:
            try:
                _apt("apt-get", "update", "-qq")
                return _unpack(names, into, with_depends)
            except LabError:
                # Of before trees had a manifest: without a network there is no other.
                if into.exists() and not (into / MANIFEST).exists():
                    return into
                raise


def _unpack(names: list[str], into: Path, with_depends: bool) -> Path:
    files = _files(names, with_depends)
    if (into / MANIFEST).exists() and json.loads((into / MANIFEST).read_text()) == files:
        return into
    scratch = into.with_name(into.name + ".part")
    subprocess.run(["rm", "-rf", str(scratch)], check=True)
    debs = scratch / "debs"
    debs.mkdir(parents=True)
    if with_depends:
        _apt("apt-get", "-o", f"Dir::Cache::archives={debs}", "-y", "-qq", "--download-only",
             "install", *names)
    else:
        _apt("apt-get", "-qq", "download", *names, cwd=debs)
    fetched = sorted(debs.glob("*.deb"))
    if len(fetched) != len(files):
        raise LabError(f"apt fetched {len(fetched)} files of {' '.join(names)}, "
                       f"not the {len(files)} it named")
    for deb in fetched:
        done = subprocess.run(["dpkg-deb", "-x", str(deb), str(scratch)],
                              text=True, capture_output=True)
        if done.returncode:
            raise LabError(f"cannot unpack {deb.name}: {done.stderr.strip().splitlines()[-1]}")
    subprocess.run(["rm", "-rf", str(debs)], check=True)
    (scratch / MANIFEST).write_text(json.dumps(files, indent=1))
    subprocess.run(["rm", "-rf", str(into)], check=True)
    scratch.rename(into)
    return into


def manifest(tree: Path) -> str:
    """What a tree was made of, as text."""
    path = tree / MANIFEST
    return path.read_text() if path.exists() else "unknown"


def kernel(release: str) -> Path:
    """The tree of a kernel image package: boot/vmlinuz-*, lib/modules/*."""
    return unpack([f"linux-image-{release}"], BUILD / "kernels" / release / "image", False)


def headers(release: str) -> Path:
    """The build tree of a kernel (what KDIR names), made usable outside /usr/src."""
    root = unpack(_header_packages(release), BUILD / "kernels" / release / "headers", False)
    kdir = root / "usr/src" / f"linux-headers-{release}"
    makefile = kdir / "Makefile"
    text = makefile.read_text()
    fixed = re.sub(r"^include .*(/usr/src/)", rf"include {root}\1", text, flags=re.M)
    if fixed != text:
        makefile.write_text(fixed)
    return kdir


def _header_packages(release: str) -> list[str]:
    """The package of a kernel's headers and those it is nothing without, but for the compiler."""
    update()
    kept = APT / "answers" / f"headers-{release}.json"
    if not kept.exists():
        depends = _apt("apt-cache", "depends", f"linux-headers-{release}")
        needed = re.findall(r"Depends: (linux-(?:headers|kbuild)-\S+)", depends)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps([f"linux-headers-{release}", *needed]))
    return json.loads(kept.read_text())


GUEST_PACKAGES = ["busybox-static", "iproute2", "iperf3", "tcpdump", "ethtool", "kmod", "dash",
                  "util-linux"]


def guest_programs() -> Path:
    """The tree the guest's programs and their libraries are taken from."""
    return unpack(GUEST_PACKAGES, BUILD / "guest-programs", True)


def extra_programs(name: str, names: tuple[str, ...]) -> Path:
    """The tree of an extra's packages and their libraries."""
    return unpack(list(names), BUILD / f"guest-programs-{name}", True)
