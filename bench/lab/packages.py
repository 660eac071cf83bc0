# SPDX-License-Identifier: GPL-2.0
"""Kernels, their headers and the guest's programs, as the distribution's own packages.

apt fetches them from the machine's own sources and checks its signatures, with a state
directory of its own under build/: nothing is installed on the host and no root is needed.

Its package lists are fetched once and then kept, so that neither the kernel nor the guest's programs
change under somebody's figures, and what is there goes on without a network; removing build/apt has
the lab look again.  Only a file that is no longer to be had has them fetched anew.

Kernels that the machine's own release lacks come from other suites of its archive (SUITES), each with
a state of its own, build/apt-SUITE.  Their modules are built by that suite's compiler, in a root of
its own (build_root(), roots.py).
"""

import functools
import hashlib
import json
import os
import platform
import re
import subprocess
from pathlib import Path

from ..errors import LabError
from ..paths import BUILD, locked

OWN = ""                        # the suites that the machine's apt is configured for
SUITES = ("bullseye", "sid")    # others whose kernels the lab plays
ELSEWHERE = {"5.10": "bullseye", "5.10-rt": "bullseye"}     # the suite of a series
NEWEST = "newest"               # a series: the highest version in the last of SUITES


def _state(suite: str) -> Path:
    """The folder of apt's state for a suite."""
    return BUILD / f"apt-{suite}" if suite else BUILD / "apt"


def _apt(*argv: str, cwd: Path | None = None, suite: str = OWN) -> str:
    """Run an apt tool on the private state of a suite and return its standard output."""
    state = _state(suite)
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    status = state / "status"       # an empty one: as if nothing were installed
    status.touch()
    options = {
        "Dir::State": state / "state",
        "Dir::State::status": status,
        "Dir::Cache": state / "cache",
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "",
        "APT::Architecture": "amd64",
        "APT::Install-Recommends": "false",
    }
    if suite:       # a copy of an archive may be older than the date until which its index is valid
        options |= {"Dir::Etc::sourcelist": _sources(suite), "Dir::Etc::sourceparts": "/dev/null",
                    "Acquire::Check-Valid-Until": "false"}
    command = [argv[0]]
    for name, value in options.items():
        command += ["-o", f"{name}={value}"]
    done = subprocess.run(command + list(argv[1:]), cwd=cwd, text=True, capture_output=True,
                          env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"})
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("E:")] or ["no reason"]
        raise LabError(f"{' '.join(argv[:2])} failed: {errors[-1]}")
    return done.stdout


def source_lines(targets: str, codename: str, suite: str) -> list[str]:
    """apt sources of another suite of the archives that hold the machine's own.

    targets: a line for each of the machine's package lists: kind, address, suite, component.
    Of the own suite and its security updates, the name is replaced; sid has no updates of its own.
    """
    renamed = {codename: suite, f"{codename}-security": f"{suite}-security"}
    if suite == "sid":
        del renamed[f"{codename}-security"]
    lines = []
    for kind, address, name, component in map(str.split, targets.splitlines()):
        if kind == "deb" and name in renamed:
            lines.append(f"{kind} {address} {renamed[name]} {component}")
    return sorted(set(lines))


def _sources(suite: str) -> Path:
    """The file of apt sources of another suite."""
    path = _state(suite) / "sources.list"
    if not path.exists():
        codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
        targets = _apt("apt-get", "indextargets", "--no-release-info", "--format",
                       "$(TARGET_OF) $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
        lines = source_lines(targets, codename, suite)
        if not lines:
            raise LabError(f"no apt source of this machine has the suite {codename}, "
                           f"to look for {suite} beside it")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return path


def update(suite: str = OWN) -> None:
    """Fetch the package lists, if they are missing."""
    if not _lists(suite):
        _apt("apt-get", "update", "-qq", suite=suite)


def _lists(suite: str = OWN) -> list[tuple]:
    """A text that differs between two states of the package lists."""
    list_files = (_state(suite) / "state" / "lists").glob("*_Packages*")
    return sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in list_files)


def _files(names: list[str], with_depends: bool, suite: str = OWN) -> dict[str, str]:
    """Name, which has the version, size and hash of each file that makes up packages, as apt resolves
    them by the lists there are.  apt takes a second to say so: its answer is kept."""
    asked = json.dumps([_lists(suite), names, with_depends])
    kept = _state(suite) / "answers" / f"{hashlib.sha256(asked.encode()).hexdigest()[:16]}.json"
    if not kept.exists():
        what = ["install"] if with_depends else ["download"]
        uris = _apt("apt-get", "-qq", "-y", "--print-uris", *what, *names, suite=suite)
        # Where a list has no MD5 sum, `install` prints no hash.
        words = [line.split() for line in uris.splitlines() if line.startswith("'")]
        by_name = {name: " ".join(rest) for _, name, *rest in words}
        if not by_name:
            raise LabError(f"apt offers no file for {' '.join(names)}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = kept.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(by_name, indent=1))
        part.rename(kept)
    return json.loads(kept.read_text())


def series_of(release: str) -> str:
    """The series of a kernel release: "6.1.0-56-rt-amd64" -> "6.1-rt"."""
    return ".".join(release.split(".")[:2]) + "-rt" * ("-rt-" in release)


def kernel_release(series: str) -> str:
    """The newest packaged kernel of a series: "6.1" -> "6.1.0-56-amd64", and with PREEMPT_RT "6.1-rt" ->
    "6.1.0-56-rt-amd64".  Only for a series of ELSEWHERE, and for NEWEST, is another suite asked.

    A release's own kernel has an ABI number, which its updates raise; a later release's, which
    the security suite of a Debian in its last years has too, a number of each update: "6.12" ->
    "6.12.117+deb12-amd64".
    """
    if series == NEWEST:
        sid = {key: value for key, value in _kernels(SUITES[-1]).items() if not key.endswith("-rt")}
        if not sid:
            raise LabError(f"no packaged kernel in {SUITES[-1]}")
        return max(max(sid.values()))[1]
    sid = _kernels(ELSEWHERE.get(series, OWN))
    if series not in sid:
        known = sorted({*_kernels(OWN), *ELSEWHERE, NEWEST})
        raise LabError(f"no packaged kernel {series} in this machine's apt sources "
                       f"(there are: {', '.join(known)})")
    return max(sid[series])[1]


def _kernels(suite: str) -> dict[str, list]:
    """Series -> [(version as numbers, release)...] of a suite's kernels."""
    by_series = {}
    for name in _images(suite):
        match = re.fullmatch(
            r"linux-image-((\d+\.\d+)\.[\d.]+(?:\+deb[\d.]+)?(?:-\d+)?(-rt)?-amd64)", name)
        if match:
            version = [int(number) for number in re.findall(r"\d+", match[1].removesuffix("-amd64"))]
            by_series.setdefault(match[2] + (match[3] or ""), []).append((version, match[1]))
    return by_series


@functools.cache
def _images(suite: str) -> list[str]:
    """Names of a suite's packages of kernel images; apt takes a second to list them."""
    update(suite)
    return _apt("apt-cache", "pkgnames", "linux-image-", suite=suite).split()


@functools.cache
def suite_of(release: str) -> str:
    """The suite of a kernel: the first that has it, among the suites whose lists have been fetched."""
    update(OWN)
    for suite in (OWN, *SUITES):
        if _lists(suite) and f"linux-image-{release}" in _images(suite):
            return suite
    return OWN              # of before the lists were fetched anew: the tree may still be there


MANIFEST = ".files.json"        # in a tree: _files() of what it was made of


def unpack(names: list[str], into: Path, with_depends: bool, suite: str = OWN,
           whole: bool = False, only: str = "") -> Path:
    """Fetch packages and unpack them into a folder, whole or not at all; a tree of other packages or
    versions gives way.  Returns the folder.

    Once more with new lists, for the archive drops versions the old ones name.
    whole: a root to change into, with /usr merged, and not only files to take from.
    only: the one file to unpack.
    """
    update(suite)
    with locked("packages"):
        try:
            return _unpack(names, into, with_depends, suite, whole, only)
        except LabError:
            try:
                _apt("apt-get", "update", "-qq", suite=suite)
                return _unpack(names, into, with_depends, suite, whole, only)
            except LabError:
                # A tree from before manifests existed: without a network there is no other.
                if into.exists() and not (into / MANIFEST).exists():
                    return into
                raise


def _unpack(names: list[str], into: Path, with_depends: bool, suite: str, whole: bool,
            only: str) -> Path:
    files = _files(names, with_depends, suite)
    if (into / MANIFEST).exists() and json.loads((into / MANIFEST).read_text()) == files:
        return into
    scratch = into.with_name(into.name + ".part")
    subprocess.run(["rm", "-rf", str(scratch)], check=True)
    debs = scratch / "debs"
    debs.mkdir(parents=True)
    if with_depends:
        _apt("apt-get", "-o", f"Dir::Cache::archives={debs}", "-y", "-qq", "--download-only",
             "install", *names, suite=suite)
    else:
        _apt("apt-get", "-qq", "download", *names, cwd=debs, suite=suite)
    fetched = sorted(debs.glob("*.deb"))
    if len(fetched) != len(files):
        raise LabError(f"apt fetched {len(fetched)} files for {' '.join(names)}, "
                       f"not the {len(files)} it named")
    if whole:
        _merge_usr(scratch)
    for deb in fetched:
        extract = _EXTRACT if whole or only else ["dpkg-deb", "-x", str(deb), str(scratch)]
        done = subprocess.run(extract, text=True, capture_output=True,
                              env={**os.environ, "DEB": str(deb), "INTO": str(scratch), "ONLY": only})
        if done.returncode:
            raise LabError(f"cannot unpack {deb.name}: {done.stderr.strip().splitlines()[-1]}")
    subprocess.run(["rm", "-rf", str(debs)], check=True)
    (scratch / MANIFEST).write_text(json.dumps(files, indent=1))
    subprocess.run(["rm", "-rf", str(into)], check=True)
    scratch.rename(into)
    return into


# dpkg-deb -x would put folders in place of the links that merge /usr.
_EXTRACT = ["sh", "-c", 'dpkg-deb --fsys-tarfile "$DEB" | tar -x --keep-directory-symlink -C "$INTO" '
            '${ONLY:+"$ONLY"}']


def _merge_usr(root: Path) -> None:
    """/bin, /sbin and /lib* as links into /usr, as an installed system has them."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")


def manifest(tree: Path) -> str:
    """The packages and versions from which a tree was made, as text."""
    path = tree / MANIFEST
    return path.read_text() if path.exists() else "unknown"


def kernel(release: str) -> Path:
    """The tree of a kernel image package: boot/vmlinuz-*, lib/modules/*."""
    suite = suite_of(release)
    tree = unpack(_with_parts(f"linux-image-{release}", "base|binary|modules", suite),
                  BUILD / "kernels" / release / "image", False, suite)
    vmlinuz = tree / "boot" / f"vmlinuz-{release}"
    if not (tree / "lib").exists():         # packages of a merged /usr
        (tree / "lib").symlink_to("usr/lib")
    if not vmlinuz.exists():                # 7.2's is beside its modules, until it is installed
        vmlinuz.parent.mkdir(exist_ok=True)
        vmlinuz.symlink_to(f"../lib/modules/{release}/vmlinuz")
    return tree


def vmlinux_with_symbols(release: str) -> Path:
    """The kernel with its debug information, for gdb."""
    name = f"usr/lib/debug/boot/vmlinux-{release}"
    tree = unpack([f"linux-image-{release}-dbg"], BUILD / "kernels" / release / "symbols", False,
                  suite_of(release), only=f"./{name}")
    return tree / name


def headers(release: str) -> Path:
    """The build tree of a kernel (what KDIR names), made usable outside /usr/src.  That of a kernel of
    another suite is in its build_root(), and of use only from inside (roots.py)."""
    if suite_of(release):
        return build_root(release) / "usr/src" / f"linux-headers-{release}"
    names = _with_parts(f"linux-headers-{release}", "headers|kbuild")       # but for the compiler
    root = unpack(names, BUILD / "kernels" / release / "headers", False)
    kdir = root / "usr/src" / f"linux-headers-{release}"
    makefile = kdir / "Makefile"
    text = makefile.read_text()
    fixed = re.sub(r"^include .*(/usr/src/)", rf"include {root}\1", text, flags=re.M)
    if fixed != text:
        makefile.write_text(fixed)
    return kdir


# Programs that kbuild calls, beside the compiler, on which the headers depend.
BUILD_PACKAGES = ["make", "sparse", "dash", "bash", "coreutils", "sed", "grep", "mawk", "findutils",
                  "diffutils", "binutils"]


def build_root(release: str, more: tuple[str, ...] = ()) -> Path:
    """A root with a kernel's headers, that release's own compiler, make and sparse.

    more: packages beside these; a root of its own has them.
    """
    name = "-".join(["root", *more])
    root = unpack([f"linux-headers-{release}", *BUILD_PACKAGES, *more],
                  BUILD / "kernels" / release / name, True, suite_of(release), whole=True)
    if not (root / "usr/bin/awk").exists():         # what the packages' scripts would have linked
        (root / "usr/bin/awk").symlink_to("mawk")
    _complete(root / "usr/src" / f"linux-headers-{release}")
    return root


CHECKER_VALID = """\
#!/bin/sh
# In place of the kernel's own script, which its package lacks: does the checker run?
"$@" /dev/null && echo 1
"""


def _complete(kdir: Path) -> None:
    """The headers' Makefile asks a script whether sparse works, and 7.2's package has not the script."""
    script = (kdir / "scripts").resolve() / "checker-valid.sh"
    if not script.exists():
        script.write_text(CHECKER_VALID)
        script.chmod(0o755)


def _with_parts(name: str, parts: str, suite: str = OWN) -> list[str]:
    """A package of the kernel and the packages linux-PART-* that it depends on."""
    update(suite)
    kept = _state(suite) / "answers" / f"{name.removeprefix('linux-')}.json"
    if not kept.exists():
        depends = _apt("apt-cache", "depends", name, suite=suite)
        needed = re.findall(rf"Depends: (linux-(?:{parts})-\S+)", depends)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps([name, *needed]))
    return json.loads(kept.read_text())


GUEST_PACKAGES = ["busybox-static", "iproute2", "iperf3", "tcpdump", "ethtool", "kmod", "dash",
                  "util-linux"]


def guest_programs() -> Path:
    """The tree the guest's programs and their libraries are taken from."""
    return unpack(GUEST_PACKAGES, BUILD / "guest-programs", True)


def extra_programs(name: str, names: tuple[str, ...]) -> Path:
    """The tree of an extra's packages and their libraries."""
    return unpack(list(names), BUILD / f"guest-programs-{name}", True)
