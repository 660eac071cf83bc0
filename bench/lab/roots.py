# SPDX-License-Identifier: GPL-2.0
"""Run another release's compiler, with its libraries, in a root directory below build/.

A mount namespace gives the root /dev, /proc and the work folder.  The namespace ends with the program,
and the host does not change.
"""

import os
from pathlib import Path

WORK = "/work"              # the work folder's path in the root
ENTER = """\
root=$1 folder=$2
shift 2
mkdir -p "$root/dev" "$root/proc" "$root/tmp" "$root/work" &&
mount --rbind /dev "$root/dev" && mount -t proc proc "$root/proc" &&
mount --bind "$folder" "$root/work" &&
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin LC_ALL=C DEB_BUILD_ARCH=amd64 \
    DEB_HOST_ARCH=amd64 "$@"
"""


def inside(kdir: Path) -> Path | None:
    """The root that has a kernel's headers, or None if the host's compiler builds for the kernel."""
    root = kdir.parents[2]
    return root if (root / "usr/bin/make").exists() else None


def command(root: Path, folder: Path, words: list) -> list[str]:
    """The command that runs a program in a root; the folder is at WORK there."""
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", ENTER, "sh",
            str(root), str(folder), *map(str, words)]


def kbuild(kdir: Path, folder: Path, *words) -> list[str]:
    """The command that builds the modules in a folder, for a kernel whose headers are in a root."""
    root = inside(kdir)
    return command(root, folder, ["make", "-C", f"/{kdir.relative_to(root)}", f"M={WORK}", "modules",
                                  *words])
