# SPDX-License-Identifier: GPL-2.0
"""Which suite a kernel comes from, and how the modules for it are built.  No network."""

import functools
import lzma
import shutil
import threading
import time
from pathlib import Path

import pytest

from bench.errors import LabError
from bench.lab import image, packages, roots

TARGETS = """\
deb http://a/debian/ bookworm main
deb http://a/debian/ bookworm-updates main
deb http://b/security/ bookworm-security main
deb http://c/other/ nodistro main
deb-src http://a/debian/ bookworm main
deb http://a/debian/ bookworm main
"""


def test_sources_of_another_suite_are_the_machines_own_with_its_name():
    assert packages.source_lines(TARGETS, "bookworm", "bullseye") == [
        "deb http://a/debian/ bullseye main", "deb http://b/security/ bullseye-security main"]
    assert packages.source_lines(TARGETS, "bookworm", "sid") == ["deb http://a/debian/ sid main"]
    assert packages.source_lines(TARGETS, "trixie", "sid") == []


NAMES = {
    "": "linux-image-6.1.0-9-amd64 linux-image-6.1.0-56-amd64 linux-image-6.1.0-56-rt-amd64 "
        "linux-image-6.12.9+deb12-amd64 linux-image-amd64",
    "bullseye": "linux-image-5.10.0-9-amd64 linux-image-5.10.0-46-amd64 linux-image-5.10.0-46-rt-amd64 "
                "linux-image-5.10.0-46-cloud-amd64 linux-image-6.1.0-0.deb11.52-amd64",
    "sid": "linux-image-7.2.9+deb14-amd64 linux-image-7.2.13+deb14-amd64 "
           "linux-image-7.2.13+deb14-rt-amd64 linux-image-7.1.20+deb14-amd64"}


@pytest.fixture
def archive(monkeypatch):
    """apt with NAMES; the suites that were asked."""
    asked = []

    def names(suite):
        asked.append(suite)
        return NAMES[suite].split()

    monkeypatch.setattr(packages, "_images", names)
    monkeypatch.setattr(packages, "update", lambda suite: None)
    monkeypatch.setattr(packages, "_lists", lambda suite: [(suite, 1, 1)])
    packages.suite_of.cache_clear()
    yield asked
    packages.suite_of.cache_clear()


@pytest.mark.parametrize("series, release, suites", [
    ("6.1", "6.1.0-56-amd64", [""]), ("6.1-rt", "6.1.0-56-rt-amd64", [""]),
    ("6.12", "6.12.9+deb12-amd64", [""]), ("5.10", "5.10.0-46-amd64", ["bullseye"]),
    ("5.10-rt", "5.10.0-46-rt-amd64", ["bullseye"]), ("newest", "7.2.13+deb14-amd64", ["sid"])])
def test_another_suite_is_asked_only_for_its_own_series(archive, series, release, suites):
    assert packages.kernel_release(series) == release and archive == suites


def test_a_release_is_taken_as_it_is(archive):
    assert packages.kernel_release("6.1.0-1-amd64") == "6.1.0-1-amd64" and not archive


def test_a_kernel_is_of_the_first_suite_that_has_it(archive):
    assert packages.suite_of("6.1.0-56-amd64") == "" and archive == [""]
    assert packages.suite_of("5.10.0-46-amd64") == "bullseye"
    assert packages.suite_of("7.2.13+deb14-amd64") == "sid"
    assert packages.suite_of("4.19.0-1-amd64") == ""


def test_an_unknown_series_is_an_error_with_the_known_series(archive):
    with pytest.raises(LabError, match=r"no packaged kernel 9\.9 .*5\.10, 5\.10-rt, 6\.1.*newest\)"):
        packages.kernel_release("9.9")
    assert set(archive) == {""}


def test_suites_without_package_lists_are_skipped(archive, monkeypatch):
    monkeypatch.setattr(packages, "_lists", lambda suite: [] if suite else [("", 1, 1)])
    assert packages.suite_of("5.10.0-46-amd64") == "" and archive == [""]


@pytest.mark.parametrize("series, names, files", [
    ("5.10", ["linux-image-5.10.0-46-amd64"],
     ["boot/vmlinuz-5.10.0-46-amd64", "lib/modules/5.10.0-46-amd64/modules.order"]),
    ("newest", [f"linux-{part}-7.2.13+deb14-amd64" for part in ("image", "base", "binary", "modules")],
     [f"usr/lib/modules/7.2.13+deb14-amd64/{name}" for name in ("vmlinuz", "modules.order")])])
def test_an_image_in_several_packages_is_one_tree(archive, monkeypatch, tmp_path, series, names, files):
    """Its kernel and modules are where those of one package are."""
    release = packages.kernel_release(series)

    def apt(*argv, cwd=None, suite=""):
        return "".join(f"  Depends: {name}\n" for name in ["linux-base", *names[1:]])

    def unpack(asked, into, with_depends, suite, without):
        assert asked == names and suite == packages.suite_of(release)
        for name in files:
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            (into / name).write_text(Path(name).name)
        return into

    monkeypatch.setattr(packages, "BUILD", tmp_path)
    monkeypatch.setattr(packages, "_apt", apt)
    monkeypatch.setattr(packages, "unpack", unpack)
    for _ in range(2):      # the second time all is there
        tree = packages.kernel(release)
    assert (tree / "boot" / f"vmlinuz-{release}").read_text().startswith("vmlinuz")
    assert (tree / "lib/modules" / release / "modules.order").exists()


@pytest.mark.parametrize("usr", ["", "usr/"])
def test_the_tree_of_a_kernel_has_no_drivers_of_other_machines(archive, monkeypatch, tmp_path,
                                                               kernel_package, usr):
    release = packages.kernel_release("6.1")
    root, modules = tmp_path / "package", f"{usr}lib/modules/{release}"
    for name in (f"boot/vmlinuz-{release}", f"{modules}/modules.order",
                 f"{modules}/kernel/sound/drivers/snd-dummy.ko",
                 f"{modules}/kernel/drivers/net/ethernet/intel/igb.ko",
                 f"{modules}/kernel/drivers/net/veth.ko", f"{modules}/kernel/net/sched/sch_netem.ko"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    deb = kernel_package(root)
    monkeypatch.setattr(packages, "BUILD", tmp_path)
    monkeypatch.setattr(packages, "_with_parts", lambda *arguments: ["linux-image"])
    monkeypatch.setattr(packages, "_files", lambda *arguments: [deb.name])
    monkeypatch.setattr(packages, "_apt", lambda *argv, cwd, suite: shutil.copy(deb, cwd))
    folder = packages.kernel(release) / "lib/modules" / release
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == [
        "modules.order", "sch_netem.ko", "veth.ko"]
    assert not (folder / "kernel/sound").exists()


def test_the_package_lists_are_fetched_once(monkeypatch):
    """The second to ask waits until the first has all of them."""
    lists, complete = [], []

    def apt(*argv, suite):
        lists.append("one")
        time.sleep(0.1)
        lists.append("other")

    def ask():
        packages.update("")
        complete.append(list(lists))

    monkeypatch.setattr(packages, "_apt", apt)
    monkeypatch.setattr(packages, "_lists", lambda suite: lists)
    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert complete == [["one", "other"]] * 2


def test_the_kernel_is_uncompressed(monkeypatch, tmp_path):
    image_file = tmp_path / "boot/vmlinuz-6.1.0-9-amd64"
    image_file.parent.mkdir()
    monkeypatch.setattr(packages, "kernel", lambda release: tmp_path)
    image_file.write_bytes(b"a boot loader" + lzma.compress(b"\x7fELF") + b"the rest")
    assert packages.vmlinux("6.1.0-9-amd64") == b"\x7fELF"
    image_file.write_bytes(b"compressed by another program")
    with pytest.raises(LabError, match="vmlinuz-6.1.0-9-amd64 is not compressed by xz"):
        packages.vmlinux("6.1.0-9-amd64")


@pytest.fixture
def root(tmp_path):
    """A root with headers and make; its headers."""
    kdir = tmp_path / "root/usr/src/linux-headers-5.10.0-46-amd64"
    (tmp_path / "root/usr/bin").mkdir(parents=True)
    (tmp_path / "root/usr/bin/make").touch()
    (kdir / "scripts").mkdir(parents=True)
    return kdir


def test_headers_in_a_root_are_used_from_inside_it(root, monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(image, "_run", lambda what, command, **keywords: ran.append(command) or "")
    image.kbuild("build", root, tmp_path / "out")
    command = [str(word) for word in ran[0]]
    assert command[0] == "unshare" and str(tmp_path / "root") in command
    assert f"M={roots.WORK}" in command and "/usr/src/linux-headers-5.10.0-46-amd64" in command
    assert not any(str(tmp_path) in word for word in command[command.index("make"):])
    (tmp_path / "root/usr/bin/make").unlink()
    image.kbuild("build", root, tmp_path / "out")
    assert ran[1][0] == "make" and f"M={tmp_path / 'out'}" in ran[1]


def test_a_build_in_a_root_is_keyed_by_its_packages(root, monkeypatch):
    """The host's compiler has no part in it."""
    monkeypatch.setattr(image, "toolchain", lambda compiler="gcc": pytest.fail("asked the host"))
    first = image.module_key(root, [])
    (root.parents[2] / packages.MANIFEST).write_text("gcc-10 of another day")
    assert image.module_key(root, []) != first


def test_a_missing_sparse_script_is_supplied_and_an_existing_one_kept(root):
    script = root / "scripts/checker-valid.sh"
    packages._complete(root)
    assert script.read_text() == packages.CHECKER_VALID and script.stat().st_mode & 0o111
    script.write_text("the kernel's own")
    packages._complete(root)
    assert script.read_text() == "the kernel's own"


def test_a_root_has_usr_merged(tmp_path):
    packages._merge_usr(tmp_path)
    assert {str(Path(tmp_path, name).readlink()) for name in ("bin", "sbin", "lib", "lib64")} == {
        "usr/bin", "usr/sbin", "usr/lib", "usr/lib64"}


def test_an_image_whose_file_is_gone_is_built_again(monkeypatch, tmp_path):
    """Booting other images removes the oldest, also while this process knows it."""
    initramfs, builds = tmp_path / "initramfs.cpio", []

    def build(*arguments):
        builds.append(arguments)
        initramfs.touch()
        return image.Image("6.1.0-1-amd64", tmp_path, initramfs, "identity", (), {})

    monkeypatch.setattr(image, "build_once", functools.cache(build))
    assert image.build("6.1") == image.build() and builds == [("6.1", (), ())]
    initramfs.unlink()
    assert image.build("6.1").initramfs.exists() and len(builds) == 2
