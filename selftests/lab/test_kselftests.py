# SPDX-License-Identifier: GPL-2.0
"""The kselftest scripts, run in the guest.  On a host: `sh selftests/NAME.sh` as root."""

import re

import pytest

from bench import paths
from bench.lab import machine

pytestmark = pytest.mark.lab
FOLDER = paths.TOP / "selftests"
SCRIPTS = sorted(path for path in FOLDER.glob("*.sh") if not path.name.startswith("lib"))
LIBRARIES = {path.name: path.read_bytes() for path in FOLDER.glob("lib*.sh")}


@pytest.fixture(scope="module", params=SCRIPTS, ids=lambda path: path.stem)
def ktap(request, lab):
    """(planned tests, result lines, exit status) of one script."""
    script = f"ROUNDS=3 sh ./{request.param.name} > /run/out/ktap || echo $? > /run/out/failed\n"
    files = {"run": script.encode(), request.param.name: request.param.read_bytes(), **LIBRARIES}
    log = paths.BUILD / "log" / f"kselftest-{request.param.stem}.log"
    outcome = machine.run_job(lab.snapshot, files, log)
    text = outcome.files["ktap"].decode()
    planned = int(re.search(r"^1\.\.(\d+)", text, re.M)[1])
    return planned, text, int(outcome.files.get("failed", b"0"))


def test_kselftest(ktap):
    planned, text, status = ktap
    results = re.findall(r"^(ok|not ok) (\d+) (.*)", text, re.M)
    assert [int(number) for _, number, _ in results] == list(range(1, planned + 1)), text
    assert planned and all(word == "ok" for word, _, _ in results), text
    assert status == 0, text
