# SPDX-License-Identifier: GPL-2.0
"""make install, dkms-install and uninstall, into folders of the test's own."""

import os
import re
import shutil
import subprocess

import pytest

from bench.lab import packages
from bench.paths import TOP
from selftests.lint.test_style import KERNEL, tracked

SOURCES = sorted(path for path in TOP.glob("*/tcp_*.c") if not path.name.endswith(".mod.c"))
LOGGER = "satcc_log"        # of more than one source
MODULES = {f"{path.stem}.ko" for path in SOURCES} | {f"{LOGGER}.ko"}


@pytest.fixture
def clone(tmp_path):
    """The project's own files, alone."""
    folder = tmp_path / "clone"
    for path in tracked():
        copy = folder / path.relative_to(TOP)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return folder


@pytest.fixture
def release():
    return packages.kernel_release(KERNEL)


def make(clone, *arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    return subprocess.run(["make", *map(str, arguments)], cwd=clone, text=True, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def installed(folder):
    return {path.name for path in folder.rglob("*.ko")}


def listed(conf, kernel_source_dir):
    """What dkms.conf has DKMS look for: module -> folder."""
    said = subprocess.run(
        ["bash", "-euc", f'. {conf}; for number in "${{!BUILT_MODULE_NAME[@]}}"; do '
         'echo "${BUILT_MODULE_NAME[number]} ${BUILT_MODULE_LOCATION[number]}"; done'],
        env={**os.environ, "kernel_source_dir": str(kernel_source_dir), "kernelver": "1.2.3-nosuch"},
        text=True, capture_output=True, check=True).stdout
    return dict(line.split() for line in said.splitlines())


def test_dkms_conf_lists_every_module(release, tmp_path):
    """Whether or not the kernel's configuration is found."""
    for folder in (packages.headers(release), tmp_path):
        assert listed(TOP / "dkms.conf", folder) == {
            **{path.stem: path.parent.name for path in SOURCES}, LOGGER: "modules"}
    version = re.search(r'^PACKAGE_VERSION="(.+)"', (TOP / "dkms.conf").read_text(), re.M)[1]
    for path in [*SOURCES, TOP / "modules/satcc_log_main.c"]:
        assert f'MODULE_VERSION("{version}")' in path.read_text()


def test_install_and_uninstall(clone, release, tmp_path):
    where = [f"KDIR={packages.headers(release)}", f"DESTDIR={tmp_path / 'root'}"]
    done = make(clone, "install", *where)
    assert done.returncode == 0, done.stdout
    kernel = tmp_path / "root/lib/modules" / release
    assert installed(kernel / "updates/satcc") == MODULES
    assert all(name in (kernel / "modules.dep").read_text() for name in MODULES)
    done = make(clone, "uninstall", *where)
    assert done.returncode == 0, done.stdout
    assert not installed(tmp_path / "root") and not (kernel / "updates/satcc").exists()
    assert "tcp_" not in (kernel / "modules.dep").read_text()


def test_kernelrelease_names_the_kernel(clone, release, tmp_path):
    done = make(clone, "install", f"KDIR={packages.headers(release)}", f"KERNELRELEASE={release}",
                f"DESTDIR={tmp_path / 'root'}")
    assert done.returncode == 0, done.stdout
    assert installed(tmp_path / "root/lib/modules" / release) == MODULES


@pytest.mark.parametrize("target", ["modules", "install", "dkms-install"])
def test_missing_headers_are_one_line(clone, target):
    done = make(clone, target, "KERNELRELEASE=1.2.3-nosuch")
    assert done.returncode
    said = [line for line in done.stdout.splitlines() if not line.startswith("make")]
    assert said == ["no kernel headers in /lib/modules/1.2.3-nosuch/build: install "
                    "linux-headers-1.2.3-nosuch or set KDIR"]


def test_dkms_builds_installs_and_removes_all(clone, release, tmp_path):
    """dkms itself, on trees of its own."""
    tree, source, target = (tmp_path / name for name in ("tree", "src", "modules"))
    for folder in (tree, source, target / release):
        folder.mkdir(parents=True)
    dkms = f"dkms --no-depmod --dkmstree {tree} --sourcetree {source} --installtree {target}"
    where = [f"KDIR={packages.headers(release)}", f"KERNELRELEASE={release}", f"DKMS={dkms}",
             f"SOURCES={source / 'satcc-0.1'}", f"INSTALLED={tmp_path / 'none'}"]
    for _ in range(2):      # a second time over the first
        done = make(clone, "dkms-install", *where)
        assert done.returncode == 0, done.stdout
        assert installed(target) == MODULES, done.stdout
    done = make(clone, "uninstall", *where)
    assert done.returncode == 0, done.stdout
    assert not installed(target) and not (source / "satcc-0.1").exists()
    assert not installed(tree)


def without(option, release, folder):
    """A kernel's headers as if it had been built without an option."""
    kdir = folder / "kdir"
    shutil.copytree(packages.headers(release), kdir, symlinks=True)
    for name in ("scripts", "tools"):
        link = kdir / name
        target = link.resolve() if link.exists() else (packages.headers(release) / name).resolve()
        link.unlink()
        link.symlink_to(target)
    for name in (".config", "include/config/auto.conf"):
        path = kdir / name
        said = path.read_text()
        assert f"\n{option}=y\n" in said
        path.write_text(said.replace(f"\n{option}=y\n", "\n"))
    return kdir


@pytest.mark.parametrize("option", ["CONFIG_DYNAMIC_FTRACE_WITH_REGS", "CONFIG_KRETPROBES",
                                    "CONFIG_EVENT_TRACING"])
def test_dkms_conf_and_kbuild_leave_the_logger_out_alike(clone, release, option, tmp_path):
    """Where the kernel has no such hooks, as on arm64 from 6.2."""
    kdir = without(option, release, tmp_path)
    assert LOGGER not in listed(clone / "dkms.conf", kdir)
    done = make(clone, "modules", f"KDIR={kdir}")
    assert done.returncode == 0, done.stdout
    assert installed(clone) == {f"{name}.ko" for name in listed(clone / "dkms.conf", kdir)}
    assert installed(clone) == MODULES - {f"{LOGGER}.ko"}


def test_dkms_does_without_the_logger(clone, release, tmp_path):
    """dkms itself installs the policies where the logger is not built."""
    kdir = without("CONFIG_DYNAMIC_FTRACE_WITH_REGS", release, tmp_path)
    tree, source, target = (tmp_path / name for name in ("tree", "src", "modules"))
    for folder in (tree, source, target / release):
        folder.mkdir(parents=True)
    dkms = f"dkms --no-depmod --dkmstree {tree} --sourcetree {source} --installtree {target}"
    done = make(clone, "dkms-install", f"KDIR={kdir}", f"KERNELRELEASE={release}", f"DKMS={dkms}",
                f"SOURCES={source / 'satcc-0.1'}")
    assert done.returncode == 0, done.stdout
    assert installed(target) == MODULES - {f"{LOGGER}.ko"}, done.stdout


def test_dkms_sources_for_a_package(clone, release, tmp_path):
    """With DESTDIR the sources are laid out, complete, and dkms is not called."""
    done = make(clone, "dkms-install", f"DESTDIR={tmp_path / 'root'}", "DKMS=false")
    assert done.returncode == 0, done.stdout
    folder, = (tmp_path / "root/usr/src").iterdir()
    done = make(folder, "modules", f"KDIR={packages.headers(release)}")
    assert done.returncode == 0 and installed(folder) == MODULES, done.stdout
