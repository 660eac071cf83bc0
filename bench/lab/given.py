# SPDX-License-Identifier: GPL-2.0
"""A kernel of the user's own, in place of a packaged one.

    --kernel linux-image-6.1.0-custom_1_amd64.deb
    --kernel VMLINUZ,FOLDER         a boot image, and its folder of modules: .../lib/modules/RELEASE

The lab builds the project's modules for it if apt has the headers of a kernel with this name.  Without
them the guest has the kernel's own congestion controls, and those that --module and --bpf load.
"""

import hashlib
import shutil
import subprocess
from pathlib import Path

from ..errors import LabError
from ..paths import BUILD, locked, scratch_prefix

_trees: dict[str, Path] = {}        # release -> the tree with boot/vmlinuz-* and lib/modules/*


def is_files(kernel: str) -> bool:
    """Whether --kernel names files and not a series."""
    return kernel.endswith(".deb") or "," in kernel


def tree_of(release: str) -> Path | None:
    """The tree of a kernel that take() has read; None: it is a packaged one."""
    return _trees.get(release)


def take(kernel: str) -> str:
    """Read the files of a kernel, and return its release.  Raises LabError."""
    tree = _of_package(Path(kernel)) if kernel.endswith(".deb") else _of_files(*kernel.split(",", 1))
    releases = [path.name.removeprefix("vmlinuz-") for path in tree.glob("boot/vmlinuz-*")]
    if len(releases) != 1 or not (tree / "lib/modules" / releases[0] / "modules.order").exists():
        raise LabError(f"{kernel}: no boot/vmlinuz-RELEASE with lib/modules/RELEASE, or several")
    _trees[releases[0]] = tree
    return releases[0]


def _of_package(deb: Path) -> Path:
    """The unpacked tree of a package."""
    try:
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise LabError(f"{deb}: {error.strerror}") from None
    tree = BUILD / "kernels" / f"given-{digest}"
    with locked("given"):
        if not tree.exists():
            part = tree.with_name(f"{scratch_prefix('given')}{digest}")
            done = subprocess.run(["dpkg-deb", "-x", deb, part], text=True, capture_output=True)
            if done.returncode:
                shutil.rmtree(part, ignore_errors=True)
                raise LabError(f"{deb}: {(done.stderr.strip().splitlines() or ['not a package'])[-1]}")
            if not (part / "lib").exists() and (part / "usr/lib").exists():
                (part / "lib").symlink_to("usr/lib")
            part.rename(tree)
    return tree


def _of_files(vmlinuz: str, modules: str) -> Path:
    """A tree of links to a boot image and its folder of modules, which are not changed."""
    image, folder = Path(vmlinuz).resolve(), Path(modules).resolve()
    for path, hint in ((image, ""), (folder / "modules.dep", "; depmod makes it")):
        if not path.is_file():
            raise LabError(f"{path}: no such file{hint}")
    digest = hashlib.sha256(f"{image}\0{folder}".encode()).hexdigest()[:16]
    tree = BUILD / "kernels" / f"given-{digest}"
    for link, target in ((tree / "boot" / f"vmlinuz-{folder.name}", image),
                         (tree / "lib/modules" / folder.name, folder)):
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(target)
    return tree
