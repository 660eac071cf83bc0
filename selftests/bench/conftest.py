# SPDX-License-Identifier: GPL-2.0
"""Packages of kernels that the archive does not have."""

import subprocess

import pytest


@pytest.fixture
def kernel_package():
    """Pack the files in a folder as a Debian package; returns its path beside the folder."""
    def pack(root):
        deb = root.with_suffix(".deb")
        (root / "DEBIAN").mkdir(parents=True)
        (root / "DEBIAN/control").write_text(
            "Package: linux-image-custom\nVersion: 1\nArchitecture: amd64\n"
            "Maintainer: A <a@example.org>\nDescription: a kernel\n")
        subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, deb], check=True,
                       capture_output=True)
        return deb
    return pack
