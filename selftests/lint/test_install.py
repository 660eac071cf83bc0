# SPDX-License-Identifier: GPL-2.0
"""make install, dkms-install and uninstall, into folders of the test's own."""

import os
import re
import shutil
import subprocess

import pytest

from bench.lab import packages
from bench.lab.paths import TOP
from selftests.lint.test_style import KERNEL, tracked

SOURCES = sorted(path for pattern in ("*/tcp_*.c", "modules/satcc_*.c") for path in TOP.glob(pattern)
                 if not path.name.endswith(".mod.c"))
MODULES = {f"{path.stem}.ko" for path in SOURCES}


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


def test_dkms_conf_lists_every_module():
    said = (TOP / "dkms.conf").read_text()
    built = dict(re.findall(r'BUILT_MODULE_(?:NAME|LOCATION)\[\d\]="(\w+)"\nBUILT_MODULE_LOCATION'
                            r'\[\d\]="(\w+)"', said))
    assert built == {path.stem: path.parent.name for path in SOURCES}
    version = re.search(r'^PACKAGE_VERSION="(.+)"', said, re.M)[1]
    for path in SOURCES:
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
def test_missing_headers_are_said_in_a_line(clone, target):
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


def test_dkms_sources_for_a_package(clone, release, tmp_path):
    """With DESTDIR the sources are laid out, complete, and dkms is not called."""
    done = make(clone, "dkms-install", f"DESTDIR={tmp_path / 'root'}", "DKMS=false")
    assert done.returncode == 0, done.stdout
    folder, = (tmp_path / "root/usr/src").iterdir()
    done = make(folder, "modules", f"KDIR={packages.headers(release)}")
    assert done.returncode == 0 and installed(folder) == MODULES, done.stdout
