# SPDX-License-Identifier: GPL-2.0
"""Fetch kernels, their headers and the guest's programs from the distribution's packages.

apt fetches them from the machine's own sources and checks their signatures.  Its state directory is
build/apt, so nothing is installed on the host, and it needs no root.

apt fetches the package lists once and then keeps them.  So the kernel and the guest's programs do not
change between two measurements, and the lab works without a network.  Remove build/apt to fetch new
lists.  The lab itself fetches new ones only when a file of the old ones cannot be fetched any more.

Kernels that the machine's own release lacks come from other suites of its archive (SUITES), each with
its state in build/apt-SUITE.  The suite's own compiler builds their modules, in a root directory
(build_root(), roots.py).
"""

import functools
import hashlib
import json
import lzma
import os
import platform
import re
import subprocess
from pathlib import Path

from ..errors import LabError
from ..paths import BUILD, locked
from . import given

OWN = ""                        # the suites that the machine's apt is configured for
SUITES = ("bullseye", "sid")    # other suites from which the lab takes kernels
# Other architectures, of the machine's own suite: the end of a kernel's name, and the compiler, a
# program of amd64.  Their state is in build/apt-ARCHITECTURE, as if each were a suite.
ARCHITECTURES = {"arm64": ("arm64", "gcc-12-aarch64-linux-gnu"), "i386": ("686-pae", "gcc-12")}
ELSEWHERE = {"5.10": "bullseye", "5.10-rt": "bullseye"}     # series -> suite
NEWEST = "newest"               # names the highest version in the last of SUITES


def _state(suite: str) -> Path:
    """The folder of apt's state for a suite."""
    return BUILD / f"apt-{suite}" if suite else BUILD / "apt"


def _apt(*argv: str, cwd: Path | None = None, suite: str = OWN) -> str:
    """Run an apt tool on a suite's private state and return its standard output.  Raises LabError."""
    state = _state(suite)
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    status = state / "status"       # empty, as if nothing were installed
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
    if suite in ARCHITECTURES:
        options |= {"APT::Architectures": f"amd64,{suite}"}
    elif suite:     # the index in a copy of an archive may have expired
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
    """apt sources of another suite, from the archives that have the machine's own suite.

    targets: a line for each of the machine's package lists: kind, address, suite, component.
    codename: the machine's own suite.  Its name, and that of its security updates, is replaced by
    suite's; sid has no security updates.
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
            raise LabError(f"cannot find the suite {suite}: no apt source of this machine has its "
                           f"own suite {codename}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
    return path


def update(suite: str = OWN) -> None:
    """Fetch the package lists, if they are missing.  For another architecture some may still be.

    It waits for another process that fetches them: apt refuses a second one, and some lists are there
    before all are.
    """
    with locked("package-lists"):
        if not _lists(suite):
            try:
                _apt("apt-get", "update", "-qq", suite=suite)
            except LabError:
                if suite not in ARCHITECTURES or not _lists(suite):
                    raise


def _lists(suite: str = OWN) -> list[tuple]:
    """A text that differs between two states of the package lists."""
    list_files = (_state(suite) / "state" / "lists").glob("*_Packages*")
    return sorted((path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in list_files)


def _files(names: list[str], with_depends: bool, suite: str = OWN) -> dict[str, str]:
    """File name -> size and hash, of each file that apt would fetch for packages.

    The file name has the version.  apt needs a second for this, so the answer is kept for each state
    of the package lists.
    """
    query = json.dumps([_lists(suite), names, with_depends])
    kept = _state(suite) / "answers" / f"{hashlib.sha256(query.encode()).hexdigest()[:16]}.json"
    if not kept.exists():
        what = ["install"] if with_depends else ["download"]
        uris = _apt("apt-get", "-qq", "-y", "--print-uris", *what, *names, suite=suite)
        # For a list without MD5 sums `install` prints no hash.
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
    """The newest packaged kernel of a series; see kernel_releases().  A release is returned as it is."""
    return kernel_releases(series)[0]


def kernel_releases(series: str) -> list[str]:
    """The packaged kernels of a series, the newest first: "6.1" -> "6.1.0-56-amd64", and with PREEMPT_RT
    "6.1-rt" -> "6.1.0-56-rt-amd64".  Raises LabError if there is none.

    It looks in the machine's own suite, but for a series of ELSEWHERE and for NEWEST in another one.
    The name of a release's own kernel has an ABI number, which updates raise.  The security suite of an
    old Debian also has kernels of the next release, named by each update: "6.12" ->
    "6.12.117+deb12-amd64".
    """
    if given.is_files(series):
        return [given.take(series)]
    if series.endswith("-amd64"):
        return [series]
    if series == NEWEST:
        sid = {key: value for key, value in _kernels(SUITES[-1]).items() if not key.endswith("-rt")}
        if not sid:
            raise LabError(f"no packaged kernel in {SUITES[-1]}")
        return _newest_first(max(sid.values(), key=max))
    sid = _kernels(ELSEWHERE.get(series, OWN))
    if series not in sid:
        known = sorted({*_kernels(OWN), *ELSEWHERE, NEWEST})
        raise LabError(f"no packaged kernel {series} in this machine's apt sources "
                       f"(there are: {', '.join(known)})")
    return _newest_first(sid[series])


def _newest_first(kernels: list) -> list[str]:
    return [release for _, release in sorted(kernels, reverse=True)]


def _kernels(suite: str) -> dict[str, list]:
    """Series -> [(version as a list of numbers, release), ...] of a suite's kernels."""
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
    """The first suite that has a kernel.  It looks only in suites whose lists have been fetched."""
    update(OWN)
    for suite in (OWN, *SUITES):
        if _lists(suite) and f"linux-image-{release}" in _images(suite):
            return suite
    return OWN              # the old lists may have had it, and its tree may still be in build/


MANIFEST = ".files.json"        # in a tree: _files() of its packages


def unpack(names: list[str], into: Path, with_depends: bool, suite: str = OWN,
           whole: bool = False, only: str = "", without: tuple[str, ...] = ()) -> Path:
    """Fetch packages and unpack them into a folder, whole or not at all.  Returns the folder.

    It replaces a tree of other packages or versions.  After an error it tries again with new package
    lists, because the archive removes old versions.  Raises LabError.
    whole: make a root for chroot, with a merged /usr, and not only a tree to copy files from.
    only: unpack this file alone.
    without: patterns of folders that the tree does not have.
    """
    update(suite)
    with locked("packages"):
        try:
            return _unpack(names, into, with_depends, suite, whole, only, without)
        except LabError:
            try:
                with locked("package-lists"):
                    _apt("apt-get", "update", "-qq", suite=suite)
                return _unpack(names, into, with_depends, suite, whole, only, without)
            except LabError:
                # An old version of the lab made this tree without a manifest: use it if offline.
                if into.exists() and not (into / MANIFEST).exists():
                    return into
                raise


def _unpack(names: list[str], into: Path, with_depends: bool, suite: str, whole: bool,
            only: str, without: tuple[str, ...]) -> Path:
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
                       f"but named {len(files)}")
    if whole:
        _merge_usr(scratch)
    for deb in fetched:
        extract = _EXTRACT if whole or only else ["dpkg-deb", "-x", str(deb), str(scratch)]
        done = subprocess.run(extract, text=True, capture_output=True,
                              env={**os.environ, "DEB": str(deb), "INTO": str(scratch), "ONLY": only})
        if done.returncode:
            raise LabError(f"cannot unpack {deb.name}: {done.stderr.strip().splitlines()[-1]}")
    unwanted = [str(path) for pattern in without for path in scratch.glob(pattern)]
    subprocess.run(["rm", "-rf", str(debs), *unwanted], check=True)
    (scratch / MANIFEST).write_text(json.dumps(files, indent=1))
    subprocess.run(["rm", "-rf", str(into)], check=True)
    scratch.rename(into)
    return into


# dpkg-deb -x would replace the links that merge /usr by folders.
_EXTRACT = ["sh", "-c", 'dpkg-deb --fsys-tarfile "$DEB" | tar -x --keep-directory-symlink -C "$INTO" '
            '${ONLY:+"$ONLY"}']


def _merge_usr(root: Path) -> None:
    """Make /bin, /sbin and /lib* links into /usr, as on an installed system."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")


def manifest(tree: Path) -> str:
    """The packages and versions of a tree, as JSON text."""
    path = tree / MANIFEST
    return path.read_text() if path.exists() else "unknown"


# Drivers of hardware that the lab's machine does not have: more than half of a kernel's modules.
HARDWARE = ("sound", "drivers/gpu", "drivers/media", "drivers/infiniband", "drivers/iio", "drivers/scsi",
            "drivers/usb", "drivers/net/ethernet", "drivers/net/wireless")


def kernel(release: str) -> Path:
    """The tree of a kernel image package: boot/vmlinuz-*, lib/modules/* without HARDWARE."""
    if tree := given.tree_of(release):
        return tree
    suite = suite_of(release)
    tree = unpack(_with_parts(f"linux-image-{release}", "base|binary|modules", suite),
                  BUILD / "kernels" / release / "image", False, suite,
                  without=tuple(f"{usr}lib/modules/*/kernel/{name}"
                                for usr in ("", "usr/") for name in HARDWARE))
    vmlinuz = tree / "boot" / f"vmlinuz-{release}"
    if not (tree / "lib").exists():         # packages for a merged /usr
        (tree / "lib").symlink_to("usr/lib")
    if not vmlinuz.exists():                # 7.2's package has it beside the modules
        vmlinuz.parent.mkdir(exist_ok=True)
        vmlinuz.symlink_to(f"../lib/modules/{release}/vmlinuz")
    return tree


XZ = b"\xfd7zXZ\0"


def vmlinux(release: str) -> bytes:
    """The uncompressed kernel of a boot image.  `make bpf` reads the kernel's types (BTF) from it."""
    packed = (kernel(release) / "boot" / f"vmlinuz-{release}").read_bytes()
    if (at := packed.find(XZ)) < 0:
        raise LabError(f"vmlinuz-{release} is not compressed by xz")
    return lzma.LZMADecompressor().decompress(packed[at:])


def vmlinux_with_symbols(release: str) -> Path:
    """The kernel with its debug information, for gdb."""
    name = f"usr/lib/debug/boot/vmlinux-{release}"
    tree = unpack([f"linux-image-{release}-dbg"], BUILD / "kernels" / release / "symbols", False,
                  suite_of(release), only=f"./{name}")
    return tree / name


def headers(release: str) -> Path:
    """The build tree (KDIR) of a kernel, changed so that it works outside /usr/src.

    That of a kernel from another suite is in its build_root(), and works only inside it (roots.py).
    """
    if suite_of(release):
        return build_root(release) / "usr/src" / f"linux-headers-{release}"
    names = _with_parts(f"linux-headers-{release}", "headers|kbuild")       # all but the compiler
    root = unpack(names, BUILD / "kernels" / release / "headers", False)
    kdir = root / "usr/src" / f"linux-headers-{release}"
    makefile = kdir / "Makefile"
    text = makefile.read_text()
    fixed = re.sub(r"^include .*(/usr/src/)", rf"include {root}\1", text, flags=re.M)
    if fixed != text:
        part = makefile.with_name("Makefile.part")
        part.write_text(fixed)
        part.rename(makefile)           # an interrupted command leaves no half of it
    return kdir


# Programs that kbuild calls.  The compiler is not here: the headers' package depends on it.
BUILD_PACKAGES = ["make", "sparse", "dash", "bash", "coreutils", "sed", "grep", "mawk", "findutils",
                  "diffutils", "binutils"]


def build_root(release: str, more: tuple[str, ...] = ()) -> Path:
    """A root directory with a kernel's headers, that release's compiler, make and sparse.

    more: further packages; each set of them has another root.
    """
    name = "-".join(["root", *more])
    root = unpack([f"linux-headers-{release}", *BUILD_PACKAGES, *more],
                  BUILD / "kernels" / release / name, True, suite_of(release), whole=True)
    if not (root / "usr/bin/awk").exists():         # the package's script would make this link
        (root / "usr/bin/awk").symlink_to("mawk")
    _complete(root / "usr/src" / f"linux-headers-{release}")
    return root


def cross_release(series: str, architecture: str) -> str:
    """The newest packaged kernel of a series for another architecture.  Raises LabError."""
    flavour, _ = ARCHITECTURES[architecture]
    update(architecture)
    names = _apt("apt-cache", "pkgnames", f"linux-headers-{series}.", suite=architecture).split()
    kernels = [match for name in names
               if (match := re.fullmatch(rf"linux-headers-(\d+\.\d+\.\d+-(\d+)-{flavour})", name))]
    if not kernels:
        raise LabError(f"no packaged kernel {series} for {architecture}")
    return max(kernels, key=lambda match: int(match[2]))[1]


def cross_root(release: str, architecture: str) -> Path:
    """A root as of build_root(), with programs of amd64 and another architecture's headers."""
    flavour, compiler = ARCHITECTURES[architecture]
    folder, kbuild = BUILD / "kernels" / release, f"linux-kbuild-{series_of(release)}"
    common = f"linux-headers-{release.removesuffix(flavour)}common"
    source = unpack([f"linux-headers-{release}:{architecture}", common], folder / "headers", False,
                    architecture) / "usr/src"
    root = unpack([kbuild, compiler, *BUILD_PACKAGES], folder / "root", True, whole=True)
    if not (root / "usr/src" / f"linux-headers-{release}").exists():
        subprocess.run(["cp", "-a", f"{source}/.", root / "usr/src"], check=True)
    if not (root / "usr/bin/awk").exists():
        (root / "usr/bin/awk").symlink_to("mawk")
    return root


def cross_kernel(release: str, architecture: str) -> Path:
    """The tree of another architecture's kernel, with boot/vmlinuz-*, and a static busybox for it."""
    return unpack([f"linux-image-{release}:{architecture}", f"busybox-static:{architecture}"],
                  BUILD / "kernels" / release / "image", False, architecture)


CHECKER_VALID = """\
#!/bin/sh
# In place of the kernel's own script, which its package lacks: does the checker run?
"$@" /dev/null && echo 1
"""


def _complete(kdir: Path) -> None:
    """Add the script with which the headers' Makefile tests sparse; 7.2's package lacks it."""
    script = (kdir / "scripts").resolve() / "checker-valid.sh"
    if not script.exists():
        script.write_text(CHECKER_VALID)
        script.chmod(0o755)


def _with_parts(name: str, parts: str, suite: str = OWN) -> list[str]:
    """The name of a kernel package, and those of the packages linux-PART-* that it depends on.

    parts: the PARTs, as a regular expression.
    """
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
    """The tree with the guest's programs and their libraries."""
    return unpack(GUEST_PACKAGES, BUILD / "guest-programs", True)


def extra_programs(name: str, names: tuple[str, ...]) -> Path:
    """The tree with an extra's packages and their libraries."""
    return unpack(list(names), BUILD / f"guest-programs-{name}", True)
