# SPDX-License-Identifier: GPL-2.0
"""Kernels of the matrix that are built in another way: by clang, or for another architecture."""

import functools
import tempfile
from pathlib import Path

from ..errors import LabError
from ..lab import image, once, packages
from ..paths import BUILD
from .checks import CHECKS, Finding, Kernel, expected_modules, job, load_script, read_loaded

BUILT_ONLY = {check.name for check in CHECKS} - {"build", "load"}


class Clang(Kernel):
    """A kernel whose modules clang builds: 6.12-clang.

    Debian's gcc has built the kernel, so its headers ask for what gcc alone has.  `words` replaces that.
    """

    words = ("CC=clang", "CONFIG_CC_IS_CLANG=y", "CONFIG_CC_IS_GCC=", "CONFIG_GCC_VERSION=0",
             "CONFIG_MITIGATION_RETHUNK=", "CONFIG_MITIGATION_SLS=", "CONFIG_FTRACE_MCOUNT_USE_CC=",
             "CONFIG_CC_HAS_AUTO_VAR_INIT_ZERO_ENABLER=y",
             "CONFIG_CC_IMPLICIT_FALLTHROUGH=-Wimplicit-fallthrough")
    not_ours = "vmlinux|^/usr/src/linux-headers-"       # gcc's named address spaces
    without = dict.fromkeys(BUILT_ONLY, "not asked: built and loaded only")

    def fetched(self) -> tuple[str, Path]:
        release = packages.kernel_release(self.series.removesuffix("-clang"))
        packages.kernel(release)
        return release, packages.build_root(release, ("clang",))

    @functools.cached_property
    def compiler(self) -> str:
        return f"clang {self.version('clang', '-dumpversion')}"

    def load(self) -> None:
        files = built(self)
        script = load_script(expected_modules(), "insmod ./$module.ko")
        read_loaded(job(self, "load-clang", {"run": script.encode(), **files}), expected_modules())


def built(kernel: Kernel) -> dict[str, bytes]:
    """The modules that the check of the build has left.  Raises a Finding if one is missing."""
    paths = {path.stem: path for path in kernel.modules.glob("*/*.ko")}
    if missing := expected_modules() - set(paths):
        raise Finding(f"not built: {', '.join(sorted(missing))}")
    return {path.name: path.read_bytes() for path in paths.values()}


# Each module in turn, and a transfer by each policy.
TRANSFER = """\
mount -t tracefs tracefs /sys/kernel/tracing
for file in *.ko; do
    module=${file%.ko}
    insmod ./$file || exit 1
    case $module in
    tcp_*)
        echo ${module#tcp_} > /proc/sys/net/ipv4/tcp_congestion_control || exit 1
        nc -l -p 5001 -e sh -c 'cat > /run/got' &
        sleep 1
        nc 127.0.0.1 5001 -e dd if=/dev/zero bs=1000 count=3000 2>/dev/null
        wait $!
        [ "$(wc -c < /run/got)" = 3000000 ] || { echo "$module has sent $(wc -c < /run/got)"; exit 1; }
        echo cubic > /proc/sys/net/ipv4/tcp_congestion_control ;;
    *) [ -d /sys/kernel/tracing/events/satcc ] || exit 1 ;;
    esac
    rmmod $module || exit 1
    echo "loaded $module"
done
"""
APPLETS = "sh mount ip insmod rmmod nc dd wc sleep cat echo test poweroff".split()


class Crossed(Kernel):
    """A kernel of another architecture: 6.1-arm64, 6.1-i386."""

    def __init__(self, matrix, series: str):
        self.architecture = series.rpartition("-")[2]
        super().__init__(matrix, series)
        self.without = dict.fromkeys(BUILT_ONLY, "not asked: the lab's guest is for amd64")
        if self.architecture == "i386":
            self.without |= {name: "not possible: no BPF trampoline on 32 bit"
                             for name in BUILT_ONLY if name.startswith("BPF")}

    @property
    def words(self) -> tuple[str, ...]:
        return ("DEB_HOST_ARCH=arm64", "DEB_HOST_GNU_TYPE=aarch64-linux-gnu") \
            if self.architecture == "arm64" else ()

    def fetched(self) -> tuple[str, Path]:
        release = packages.cross_release(self.series.rpartition("-")[0], self.architecture)
        packages.cross_kernel(release, self.architecture)
        return release, packages.cross_root(release, self.architecture)

    @functools.cached_property
    def compiler(self) -> str:
        prefix = "aarch64-linux-gnu-" if self.architecture == "arm64" else ""
        return f"gcc {self.version(f'{prefix}gcc-12', '-dumpfullversion')}"

    def load(self) -> None:
        """Boot the kernel once, and send 3 MB over the loopback device by each policy."""
        files = built(self)
        tree = packages.cross_kernel(self.release, self.architecture)
        with tempfile.TemporaryDirectory(dir=BUILD / "matrix") as folder:
            stage, initramfs = Path(folder) / "stage", Path(folder) / "initramfs"
            for name in ("bin", "dev", "proc", "sys", "run", "tmp"):
                (stage / name).mkdir(parents=True)
            (stage / "bin/busybox").write_bytes((tree / "bin/busybox").read_bytes())
            (stage / "bin/busybox").chmod(0o755)
            for name in APPLETS:
                (stage / "bin" / name).symlink_to("busybox")
            image.write_cpio(stage, initramfs)
            try:
                output = once.printed(tree / "boot" / f"vmlinuz-{self.release}", initramfs,
                                      {"run": TRANSFER.encode(), **files},
                                      architecture=self.architecture)
            except LabError as error:
                raise Finding(str(error)) from None
        read_loaded({"loaded": output.replace("loaded ", "").encode()}, expected_modules())


KINDS = {"clang": Clang, "arm64": Crossed, "i386": Crossed}


def kernel(matrix, series: str) -> Kernel:
    """The kernel of a series of kernels.toml.  Raises LabError."""
    return KINDS.get(series.rpartition("-")[2], Kernel)(matrix, series)
