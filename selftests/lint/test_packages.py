# SPDX-License-Identifier: GPL-2.0
"""debian/: what it repeats of the modules is true.  `make package-check` installs the packages."""

import re
import subprocess

import pytest

from bench.paths import TOP
from selftests.lint.test_install import LOGGER, SOURCES

NAMES = {*(path.stem for path in SOURCES), LOGGER}


def test_versions_agree():
    version = re.search(r'^PACKAGE_VERSION="(.+)"', (TOP / "dkms.conf").read_text(), re.M)[1]
    assert (TOP / "debian/changelog").read_text().startswith(f"satcc ({version}) ")


@pytest.mark.parametrize("script, arguments, says", [
    ("satcc-dkms.postinst", ["configure", "0.0"], "remains the old version"),
    ("satcc-dkms.postrm", ["remove"], "is still loaded"),
])
def test_scripts_name_each_module_that_is_loaded(script, arguments, says, tmp_path):
    loaded = tmp_path / "modules"
    loaded.write_text("".join(f"{name} 16384 0 - Live 0x0\n"
                              for name in [*NAMES, "tcp_hybla", "tcp_bbr"]))
    text = (TOP / "debian" / script).read_text().replace("/proc/modules", str(loaded))
    output = subprocess.run(["sh", "-c", text, script, *arguments], text=True, capture_output=True,
                            check=True).stdout.splitlines()
    assert {line.split()[1] for line in output} == NAMES and all(says in line for line in output)


def test_maintainer_scripts():
    scripts = [path for path in TOP.glob("debian/satcc-*.*")
               if path.suffix in (".postinst", ".prerm", ".postrm")]
    assert len(scripts) == 4
    done = subprocess.run(["shellcheck", *map(str, scripts)], text=True, capture_output=True)
    assert done.returncode == 0, done.stdout
