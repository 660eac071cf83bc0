# SPDX-License-Identifier: GPL-2.0
"""--kernel with files: a package, or a boot image with its folder of modules."""

import pytest

from bench.errors import LabError
from bench.lab import given, image, packages

RELEASE = "6.9.1-custom"


@pytest.fixture(autouse=True)
def build(monkeypatch, tmp_path):
    monkeypatch.setattr(given, "BUILD", tmp_path / "build")
    monkeypatch.setattr(given, "_trees", {})
    (tmp_path / "build/kernels").mkdir(parents=True)
    image.modules_of.cache_clear()
    yield
    image.modules_of.cache_clear()


def lay_out(root, lib="lib"):
    for name in (f"boot/vmlinuz-{RELEASE}", f"{lib}/modules/{RELEASE}/modules.order",
                 f"{lib}/modules/{RELEASE}/modules.dep"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    return root


@pytest.mark.parametrize("kernels", [0, 2])
def test_a_package_without_one_kernel_is_an_error(tmp_path, kernel_package, kernels):
    root = lay_out(tmp_path / "root") if kernels else tmp_path / "root"
    if kernels:
        (root / "boot/vmlinuz-6.9.2-custom").write_text("")
    with pytest.raises(LabError, match="no boot/vmlinuz-RELEASE with lib/modules/RELEASE"):
        packages.kernel_release(str(kernel_package(root)))


@pytest.mark.parametrize("lib", ["lib", "usr/lib"])
def test_a_package_is_unpacked_once(tmp_path, kernel_package, lib):
    deb = kernel_package(lay_out(tmp_path / "root", lib))
    for _ in range(2):
        assert packages.kernel_release(str(deb)) == RELEASE
    tree = packages.kernel(RELEASE)
    assert (tree / "boot" / f"vmlinuz-{RELEASE}").read_text() == f"boot/vmlinuz-{RELEASE}"
    assert (tree / "lib/modules" / RELEASE / "modules.order").exists()
    assert len(list(tree.parent.iterdir())) == 1


def test_a_boot_image_and_its_modules_stay_where_they_are(tmp_path):
    root = lay_out(tmp_path / "root")
    name = f"{root}/boot/vmlinuz-{RELEASE},{root}/lib/modules/{RELEASE}"
    assert packages.kernel_release(name) == RELEASE
    tree = packages.kernel(RELEASE)
    assert (tree / "boot" / f"vmlinuz-{RELEASE}").resolve() == root / "boot" / f"vmlinuz-{RELEASE}"
    assert (tree / "lib/modules" / RELEASE).resolve() == root / "lib/modules" / RELEASE


@pytest.mark.parametrize("kernel, line", [
    ("no.deb", r"no\.deb: No such file"), ("empty.deb", "empty.deb: "),
    ("no,lib", "/no: no such file"), ("empty.deb,lib", "modules.dep: no such file; depmod makes it")])
def test_files_that_are_no_kernel_are_one_line(tmp_path, monkeypatch, kernel, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.deb").write_bytes(b"")
    with pytest.raises(LabError, match=line) as error:
        packages.kernel_release(kernel)
    assert "\n" not in str(error.value)


def test_without_headers_the_guest_has_none_of_our_modules(tmp_path, monkeypatch, capsys):
    def no_headers(release, replacements):
        raise LabError("no headers")

    monkeypatch.setattr(image, "build_modules", no_headers)
    root = lay_out(tmp_path / "root")
    with pytest.raises(LabError, match="no headers"):       # a packaged kernel has them
        image.modules_of(RELEASE)
    packages.kernel_release(f"{root}/boot/vmlinuz-{RELEASE},{root}/lib/modules/{RELEASE}")
    assert image.modules_of(RELEASE) is None
    assert capsys.readouterr().err == "bench: the guest has none of the project's modules: no headers\n"
