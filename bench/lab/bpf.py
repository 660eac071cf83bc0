# SPDX-License-Identifier: GPL-2.0
"""Build the policies as BPF objects; the files and commands that load one in place of its module."""

import functools
import shutil
from pathlib import Path

from ..paths import BUILD, TOP, locked
from . import image, packages

READY_S = 60            # uptime of the guest at which a run goes on after loading a policy


def _sources() -> list[Path]:
    return [TOP / "Makefile", *TOP.glob("modules/bpf/**/*.h"),
            *(path for folder in image._source_folders() for path in folder.iterdir()
              if path.suffix in (".c", ".h"))]


def policies() -> list[str]:
    """The policies that can be built as BPF objects."""
    return sorted(path.name.removesuffix(".bpf.c") for path in TOP.glob("*/*.bpf.c"))


@functools.cache
def build(series: str = "6.1") -> Path:
    """The folder with the objects, built as `make bpf` builds them, from the BTF of a kernel."""
    release = packages.kernel_release(series)
    key = image.key_of(image.digest(_sources()), packages.manifest(packages.kernel(release).resolve()),
                       image.toolchain(), image.toolchain("clang"))
    out = BUILD / "bpf-objects" / key
    with locked("bpf"):
        if not (out / "done").exists():
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            (out / "vmlinux").write_bytes(packages.vmlinux(release))
            image._run("make bpf", ["make", "-C", TOP, "bpf-objects", f"BPF={out}",
                                    f"BTF={out / 'vmlinux'}"])
            (out / "vmlinux").unlink()
            (out / "done").touch()
    return out


def files(folder: Path, *policies: str) -> dict[str, bytes]:
    """The files for the guest's working directory."""
    return {f"{policy}.bpf.o": (folder / f"{policy}.bpf.o").read_bytes() for policy in policies}


def as_module(policy: str) -> list[str]:
    """Shell lines that load a policy as a module, and end at the same uptime as as_object()'s."""
    return [f"modprobe tcp_{policy}", f"sleep_until {READY_S}"]


def as_object(policy: str, *parameters: str) -> list[str]:
    """Shell lines that load a policy as a BPF object."""
    return ["mount -t bpf none /sys/fs/bpf",
            " ".join([f"satcc-bpf load {policy}.bpf.o", *parameters]), f"sleep_until {READY_S}"]
