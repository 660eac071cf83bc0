# SPDX-License-Identifier: GPL-2.0
"""Build the guest: kernel, our modules, helper programs, and an initramfs that depends on these only."""

import functools
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import LabError
from ..paths import BUILD, GUEST, TOP, locked, scratch_prefix
from ..record import layout
from . import given, job, packages, roots

# Kernel modules that the guest loads before the snapshot.  We compare our policies with its congestion
# controls.
KERNEL_MODULES = """
virtio_pci virtio_console veth ifb sch_tbf sch_netem sch_fq sch_red sch_fq_codel cls_u32
tcp_hybla tcp_bbr tcp_westwood tcp_illinois tcp_bic tcp_vegas tcp_htcp
""".split()
# Modules in the image that the guest does not load at boot.
SPARE_MODULES = ["tcp_diag"]
PROGRAMS = ["ip", "tc", "ss", "ethtool", "iperf3", "tcpdump", "kmod", "dash", "nsenter"]
DEPMOD = "/sbin/depmod"             # not on an ordinary user's PATH
KMOD_NAMES = ["modprobe", "insmod", "rmmod", "lsmod", "modinfo", "depmod"]


@dataclass(frozen=True)
class Extra:
    """Optional parts of an image."""

    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()      # their paths in the packages
    helpers: tuple[str, ...] = ()       # names in HELPERS, or of guest/*.c
    modules: tuple[str, ...] = ()       # kernel modules, loaded before the snapshot


EXTRAS = {
    # satlink: its losses do not depend on other random numbers of the kernel.
    "bpf": Extra(helpers=("satcc-bpf", "sleep_until", "satlink"), modules=("tun",)),
    "bpftrace": Extra(packages=("bpftrace",), programs=("usr/bin/bpftrace",)),
    # Parts for the papers' experiments.
    "papers": Extra(packages=("haproxy", "nftables", "nginx", "wget"),
                    programs=("usr/sbin/haproxy", "usr/sbin/nft", "usr/sbin/nginx", "usr/bin/wget"),
                    helpers=("satlink", "probe", "delayed_acks", "background"),
                    modules=("tun", "sch_codel", "sch_pie", "crc32c_generic", "nf_tables", "nft_tproxy",
                             "nft_socket")),
    "wireguard": Extra(packages=("wireguard-tools",), programs=("usr/bin/wg",), modules=("wireguard",)),
}


@dataclass(frozen=True)
class Image:
    """A bootable guest.  `identity` is a hash of all its bytes."""

    release: str
    vmlinuz: Path
    initramfs: Path
    identity: str
    extras: tuple[str, ...]
    layouts: dict               # layouts of the policies' private structs, see layout.py


def _run(what: str, command: list, **kwargs) -> str:
    """Run a build step and return its output.  Raises LabError with the path of the log."""
    # A make called by make would inherit its variables, and gcc reads others from the environment.  What
    # is built must depend only on the inputs of its key, such as toolchain().
    outer = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "CC", "KCFLAGS", "KCPPFLAGS",
             "KAFLAGS", "CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH")
    environment = {key: value for key, value in os.environ.items() if key not in outer}
    try:
        done = subprocess.run([str(word) for word in command], text=True, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kwargs)
    except FileNotFoundError:
        raise LabError(f"{what}: {command[0]} is not installed") from None
    if done.returncode:
        log = BUILD / "log" / f"{re.sub(r'[^a-z0-9]+', '-', what.lower())}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(done.stdout)
        raise LabError(f"{what} failed, see {log.relative_to(TOP)}")
    return done.stdout


def _source_folders() -> list[Path]:
    """Folders with kernel code: modules/, and each policy's folder, which has a tcp_*.c."""
    return sorted({TOP / "modules", *(path.parent for path in TOP.glob("*/tcp_*.c"))})


def module_sources() -> list[Path]:
    """The files of which the modules are built: Kbuild, and the C files without what modpost wrote."""
    return [TOP / "Kbuild", *(
        path for folder in _source_folders() for path in sorted(folder.iterdir())
        if path.suffix in (".c", ".h") and not path.name.endswith((".mod.c", ".bpf.c")))]


def copy_module_sources(folder: Path) -> None:
    """Copy module_sources() to a folder, where kbuild() can build them."""
    for path in module_sources():
        copy = folder / path.relative_to(TOP)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)


def digest(paths) -> str:
    """SHA-256 over files of the checkout: their paths below its top, and their contents."""
    total = hashlib.sha256()
    for name, path in sorted((str(path.relative_to(TOP)), path) for path in paths):
        total.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def identity_of(vmlinuz: Path, initramfs: Path) -> str:
    """Hash of the contents of kernel and initramfs."""
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest()
                                   for path in (vmlinuz, initramfs))).hexdigest()


def key_of(*inputs) -> str:
    """The name of the folder of something built: a hash of all its inputs."""
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:16]


@functools.cache
def toolchain(compiler: str = "gcc") -> tuple[str, ...]:
    """The versions of compiler, assembler and linker, with the distribution's part."""
    return tuple(_run(name, [name, "--version"]).splitlines()[0] for name in (compiler, "as", "ld"))


def kernel_compiler(kdir: Path) -> str:
    """The compiler that a kernel's headers name.  Debian's name the one that built the kernel."""
    variables = kdir / ".kernelvariables"
    text = variables.read_text() if variables.exists() else ""
    named = re.search(r"^CC = .*?(gcc\S*)$", text, re.M)
    return named[1] if named else "gcc"


MODULE_OPTIONS = ["CONFIG_DEBUG_INFO_BTF_MODULES="]


def module_flags(folder: Path, top: Path = TOP) -> list[str]:
    """Arguments for make that keep folder names and BTF out of the modules.

    So two clones build the same bytes.  BTF, which newer headers can make, needs one more program on
    the host.
    """
    # If two prefixes match, gcc takes the later one.
    return [f"KCFLAGS=-ffile-prefix-map={top}/= -ffile-prefix-map={folder}/=", *MODULE_OPTIONS]


def module_key(kdir: Path, sources, *more) -> str:
    """The key of modules built for a kernel: sources, headers, compiler, flags.

    If the headers are in a root (roots.py), the root's manifest names the compiler.
    """
    compiler = () if roots.inside(kdir) else toolchain(kernel_compiler(kdir))
    return key_of(digest(sources), packages.manifest(kdir.parents[2]), compiler,
                  module_flags(Path("folder"), Path("top")), *more)


def kbuild(what: str, kdir: Path, folder: Path) -> None:
    """Build the modules in a folder for the kernel whose headers are in kdir."""
    if roots.inside(kdir):
        _run(what, roots.kbuild(kdir, folder, *module_flags(Path(roots.WORK))))
    else:
        _run(what, ["make", "-C", kdir, f"M={folder}", "modules", *module_flags(folder)])


def stripped(module: Path) -> bytes:
    """A module's bytes without its debug information, which depends on the folder of the build."""
    with tempfile.NamedTemporaryFile(suffix=".ko") as out:
        _run("strip", ["strip", "--strip-debug", "-o", out.name, module])
        return Path(out.name).read_bytes()


def build_modules(release: str, replacements: tuple = ()) -> Path:
    """Build our modules from a copy of the sources, so that kernels do not share objects.

    replacements: (path below the top, text) pairs; the text replaces that of the file.  Tests use them
    to build a fault.
    Returns the folder with the *.ko files.  Builds nothing if nothing has changed.
    """
    kdir = packages.headers(release)
    pahole = _run("pahole", ["pahole", "--version"]).strip()        # it reads the layouts
    out = BUILD / "modules" / release / module_key(kdir, module_sources(), pahole, replacements)
    with locked("modules"):
        if (out / "done").exists():
            return out
        shutil.rmtree(out, ignore_errors=True)
        copy_module_sources(out)
        for name, text in replacements:
            (out / name).write_text(text)
        kbuild("module build", kdir, out)
        (out / "layouts.json").write_text(json.dumps(layout.layouts(out), indent=1))
        (out / "done").touch()
    return out


@functools.cache
def modules_of(release: str, replacements: tuple = ()) -> Path | None:
    """The folder as of build_modules(); None for a user's own kernel for which they cannot be built."""
    try:
        return build_modules(release, replacements)
    except LabError as error:
        if not given.tree_of(release):
            raise
        print(f"bench: the guest has none of the project's modules: {error}", file=sys.stderr)
        return None


HELPER_FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror", "-static"]
# Helpers whose source is not in guest/: name -> (source, libraries).
HELPERS = {"satcc-bpf": (TOP / "tools/satcc-bpf.c", ("bpf", "elf", "z"))}


@functools.cache
def _static_libraries(*more: str) -> str:
    """SHA-256 over the libraries with which the helpers are linked."""
    total = hashlib.sha256()
    for name in ("libc.a", "libm.a", "libgcc.a", "libgcc_eh.a", "crt1.o",
                 *(f"lib{each}.a" for each in more)):
        library = Path(_run("gcc", ["gcc", f"-print-file-name={name}"]).strip())
        total.update(name.encode() + (library.read_bytes() if library.exists() else b""))
    return total.hexdigest()


def build_helper(name: str) -> Path:
    """Build one of guest/*.c or HELPERS as a static program, and return its path."""
    source, libraries = HELPERS.get(name, (GUEST / f"{name}.c", ()))
    key = key_of(digest([source]), toolchain(), HELPER_FLAGS, _static_libraries(*libraries))
    program = BUILD / "guest-helpers" / f"{name}-{key}"
    with locked("helpers"):
        if program.exists():
            return program
        program.parent.mkdir(parents=True, exist_ok=True)
        scratch = program.with_suffix(".part")
        linked = [f"-l{each}" for each in (*libraries, "m")]
        _run(f"helper {name}", ["gcc", *HELPER_FLAGS, "-o", scratch, source, *linked])
        scratch.rename(program)
    return program


def _libraries(program: Path, root: Path) -> set[Path]:
    """The paths, in an unpacked tree, of the shared objects and the loader that a program needs."""
    needed, todo = set(), [program]
    while todo:
        listing = _run("readelf", ["readelf", "--wide", "--dynamic", "--program-headers", todo.pop()])
        names = re.findall(r"\(NEEDED\)\s+Shared library: \[(.+?)\]", listing)
        names += [Path(name).name for name in re.findall(r"program interpreter: (\S+?)\]", listing)]
        for name in names:
            paths = [path for folder in ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib64")
                     if (path := root / folder / name).exists()]
            if not paths:
                raise LabError(f"{program.name} needs {name}, and no fetched package has it")
            library = paths[0]
            if library not in needed:
                needed.add(library)
                todo.append(library)
    return needed


def _depends(release: str, tree: Path) -> dict[str, list[str]]:
    """The kernel package's modules.dep: module name -> its path and those of its dependencies.

    The paths are below lib/modules/<release>.
    """
    folder = tree / "lib/modules" / release
    if not (folder / "modules.dep").exists():
        _run("depmod", [DEPMOD, "-b", tree, release])
    table = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, depends = line.split(":")
        name = Path(path).name.partition(".ko")[0].replace("-", "_")
        table[name] = [path, *depends.split()]
    return table


def _stage_libraries(program: Path, tree: Path, stage: Path) -> None:
    """Copy a program's shared objects from its tree to the stage."""
    for library in _libraries(program, tree):
        place = "lib64" if library.name.startswith("ld-linux") else "lib/x86_64-linux-gnu"
        shutil.copy(library.resolve(), stage / place / library.name)


def _stage_extra(name: str, stage: Path) -> None:
    """Copy an extra's programs and helpers to the stage."""
    extra = EXTRAS[name]
    if extra.packages:
        tree = packages.extra_programs(name, extra.packages)
        for program in extra.programs:
            # These replace busybox's applets of the same name.
            (stage / "bin" / Path(program).name).unlink(missing_ok=True)
            shutil.copy((tree / program).resolve(), stage / "sbin" / Path(program).name)
            _stage_libraries((tree / program).resolve(), tree, stage)
    for helper in extra.helpers:
        shutil.copy(build_helper(helper), stage / "bin" / helper)


def _stage(release: str, stage: Path, replacements: tuple, extras: tuple) -> None:
    """Lay out the guest's file system in a folder."""
    tools = packages.guest_programs()
    for folder in ("bin", "sbin", "usr/bin", "usr/sbin", "dev", "proc", "sys", "run", "tmp", "etc",
                   "lib/x86_64-linux-gnu", "lib64"):
        (stage / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy(tools / "bin/busybox", stage / "bin/busybox")
    for name in _run("busybox", [tools / "bin/busybox", "--list"]).split():
        # Leave out busybox's shell and nsenter: they would run applets in place of programs.
        if name not in PROGRAMS + KMOD_NAMES + ["busybox", "sh", "ash"]:
            (stage / "bin" / name).symlink_to("busybox")
    for name in PROGRAMS:
        candidates = [tools / folder / name for folder in ("bin", "sbin", "usr/bin", "usr/sbin")
                      if (tools / folder / name).is_file()]
        if not candidates:
            raise LabError(f"no program {name} in the packages {' '.join(packages.GUEST_PACKAGES)}")
        shutil.copy(candidates[0].resolve(), stage / "sbin" / name)
        _stage_libraries(candidates[0].resolve(), tools, stage)
    for name in extras:
        _stage_extra(name, stage)
    (stage / "bin/sh").symlink_to("../sbin/dash")
    for name in KMOD_NAMES:
        (stage / "sbin" / name).symlink_to("kmod")
    for name in ("flow", "read_job", "seed"):
        shutil.copy(build_helper(name), stage / "bin" / name)
    (stage / "etc/passwd").write_text("root:x:0:0:root:/:/bin/sh\n")
    (stage / "etc/group").write_text("root:x:0:\n")
    (stage / "etc/hosts").write_text("127.0.0.1 localhost\n")
    more = [module for name in extras for module in EXTRAS[name].modules]
    _stage_modules(release, stage, replacements, more)
    topology = stage / "etc/topology"
    topology.mkdir()
    for name, content in job.saved_topology().items():
        (topology / name).write_bytes(content)
    shutil.copy(GUEST / "init", stage / "init")


def _stage_modules(release: str, stage: Path, replacements: tuple, more: list[str]) -> None:
    """Copy the kernel's modules for the experiments and extras, and all of ours, to the stage."""
    tree = packages.kernel(release)
    table = _depends(release, tree)
    target = stage / "lib/modules" / release
    present = []
    for name in KERNEL_MODULES + more + SPARE_MODULES:
        if name not in table:           # built in, or unknown to this kernel
            continue
        present.append(name)
        for path in table[name]:
            if not path.endswith((".ko", ".ko.xz")):
                raise LabError(f"{path}: the lab reads modules that are plain or compressed by xz")
            blob = (tree / "lib/modules" / release / path).read_bytes()
            copy = target / path.removesuffix(".xz")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(lzma.decompress(blob) if path.endswith(".xz") else blob)
    built = modules_of(release, replacements)
    ours = sorted(built.glob("*/*.ko")) if built else []
    (target / "updates").mkdir(parents=True)
    for path in ours:
        (target / "updates" / path.name).write_bytes(stripped(path))
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copy(tree / "lib/modules" / release / name, target / name)
    _run("depmod", [DEPMOD, "-b", stage, release])
    (stage / "etc/modules").write_text(
        "".join(f"{name}\n" for name in KERNEL_MODULES + more if name in present))


def write_cpio(stage: Path, target: Path) -> None:
    """Pack a folder as a newc archive that depends on names, modes and contents only.

    Inodes count up in sorted order, and every time stamp is 0: both are in the guest's memory, and a
    change of the memory's contents can change a run.
    """
    def entry(number, name, mode, content):
        head = "070701" + "".join(f"{field:08x}" for field in (
            number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0))
        blob = head.encode() + name.encode() + b"\0"
        blob += b"\0" * (-len(blob) % 4) + content
        return blob + b"\0" * (-len(blob) % 4)

    with target.open("wb") as out:
        number = 0
        for number, path in enumerate(sorted(stage.rglob("*")), 1):
            name = str(path.relative_to(stage))
            if path.is_symlink():
                out.write(entry(number, name, 0o120777, str(path.readlink()).encode()))
            elif path.is_dir():
                out.write(entry(number, name, 0o040755, b""))
            else:
                mode = 0o100755 if path.stat().st_mode & 0o100 else 0o100644
                out.write(entry(number, name, mode, path.read_bytes()))
        # init needs the console before anything is mounted.
        device = "070701" + "".join(f"{field:08x}" for field in (
            number + 1, 0o020600, 0, 0, 1, 0, 0, 0, 0, 5, 1, 12, 0))
        blob = device.encode() + b"dev/console\0"
        out.write(blob + b"\0" * (-len(blob) % 4))
        out.write(entry(0, "TRAILER!!!", 0, b""))


def build(series: str = "6.1", replacements: tuple = (), extras: tuple[str, ...] = ()) -> Image:
    """Build an image, as far as its parts do not exist yet.  Raises LabError.

    series: of the kernel, such as "6.1", or its files; see given.py.
    replacements: as for build_modules().
    extras: names in EXTRAS of the parts to add.
    """
    image = build_once(series, replacements, extras)
    if not image.initramfs.exists():        # machine.py keeps those of the last states
        build_once.cache_clear()
        image = build_once(series, replacements, extras)
    return image


@functools.cache
def build_once(series: str, replacements: tuple, extras: tuple[str, ...]) -> Image:
    """As build(), once in a process."""
    if " " in str(BUILD):
        raise LabError(f"kbuild cannot work below a path with a space: {BUILD}")
    folder = BUILD / "lab"
    folder.mkdir(parents=True, exist_ok=True)
    with locked("image"):
        release = packages.kernel_release(series)
        vmlinuz = packages.kernel(release) / "boot" / f"vmlinuz-{release}"
        with tempfile.TemporaryDirectory(prefix=scratch_prefix("image"), dir=folder) as scratch:
            stage, initramfs = Path(scratch) / "stage", Path(scratch) / "initramfs"
            _stage(release, stage, replacements, extras)
            write_cpio(stage, initramfs)
            identity = identity_of(vmlinuz, initramfs)
            final = folder / f"initramfs-{release}-{identity[:16]}.cpio"
            initramfs.rename(final)
        built = modules_of(release, replacements)
        layouts = json.loads((built / "layouts.json").read_text()) if built else {}
    return Image(release, vmlinuz, final, identity, extras, layouts)
