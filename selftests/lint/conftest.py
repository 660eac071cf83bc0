# SPDX-License-Identifier: GPL-2.0
"""Mark the tests that build kernel modules, which `make unit` leaves out."""

from pathlib import Path

import pytest

from bench.lab import packages

HERE = Path(__file__).resolve().parent
KERNEL = "6.1"


@pytest.fixture(scope="session")
def release():
    """The kernel whose packaged headers the modules are built with; fetched when first needed."""
    return packages.kernel_release(KERNEL)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent == HERE and "release" in item.fixturenames:
            item.add_marker("kbuild")
