# SPDX-License-Identifier: GPL-2.0
"""Play a scenario on this machine, in network namespaces and in real time.

This engine is for comparison with the virtual one, and for questions about hardware.  Two runs differ,
since real time has no seed.  The run has no trace, since the whole machine shares the kernel's buffer.
"""

import contextlib
import dataclasses
import os
import platform
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path

from ..errors import LabError
from ..paths import BUILD
from ..record.run import Run, traffic_hash
from ..scenario import satellite
from ..scenario.scenario import Scenario
from . import image, job, play

PROGRAMS = ["ip", "tc", "ethtool", "tcpdump", "nsenter"]


def _try(*command: str) -> bool:
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def why_not(scenario: Scenario) -> str | None:
    """One line with the reason why this machine cannot play a scenario, or None if it can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if satellite.links(scenario):
        return "only the lab can play mac, errors and delay_series"
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    probe = f"satcc-{secrets.token_hex(3)}"
    if not _try("ip", "netns", "add", probe):
        return "cannot create a network namespace"
    try:
        for kind, arguments in (("netem", ["delay", "1ms"]),
                                ("tbf", ["rate", "1mbit", "burst", "2000", "limit", "3000"])):
            if not _try("tc", "-n", probe, "qdisc", "add", "dev", "lo", "root", kind, *arguments):
                return f"kernel {platform.release()} has no sch_{kind} and cannot load it"
            _try("tc", "-n", probe, "qdisc", "del", "dev", "lo", "root")
    finally:
        _try("ip", "netns", "del", probe)
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    for cc in sorted({cc for flow in scenario.flows for cc in flow.names} - set(known)):
        if not _try("modprobe", f"tcp_{cc}"):
            return f"kernel {platform.release()} has no congestion control {cc} and cannot load tcp_{cc}"
    return None


def run(scenario: Scenario) -> Run:
    """Play a scenario on this machine.  Removes its namespaces, also after an error.

    Raises LabError if the machine cannot play it, or if the run fails.
    """
    if reason := why_not(scenario):
        raise LabError(f"--engine host cannot run here: {reason}")
    scenario = dataclasses.replace(scenario, trace=())
    prefix = f"satcc-{secrets.token_hex(3)}-"
    folder = BUILD / "host-runs" / prefix.rstrip("-")
    tools = folder / "bin"
    tools.mkdir(parents=True)
    (tools / "flow").symlink_to(image.build_helper("flow").resolve())
    for name, content in job.files(scenario, prefix, seeded=False).items():
        (folder / name).write_bytes(content)
    console = folder / "console.log"
    environment = {**os.environ, "OUT": str(folder),
                   "PATH": f"{tools}:{os.environ['PATH']}:/usr/sbin:/sbin"}
    began = time.monotonic()
    with console.open("wb") as log:
        player = subprocess.Popen(["sh", "-eux", "./run"], cwd=folder, env=environment, stdout=log,
                                  stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            status = player.wait(scenario.max_seconds + 60)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _clean_up(prefix, player)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    if status is None:
        raise LabError(f"the run did not end within {scenario.max_seconds + 60} s; console: {console}")
    if status != 0:
        raise LabError(f"the run ended with status {status}; console: {console}")
    play.check(scenario, files)
    meta = {"kernel": files["kernel"].decode().strip(), "hash": traffic_hash(files),
            "modules": {}, "job_wall_s": time.monotonic() - began}
    return Run(scenario, folder, meta, False)


def _clean_up(prefix: str, player: subprocess.Popen) -> None:
    """End the processes in the run's namespaces, and remove the namespaces."""
    listed = subprocess.run(["ip", "netns", "list"], text=True, capture_output=True).stdout
    for name in [line.split()[0] for line in listed.splitlines() if line.startswith(prefix)]:
        pids = subprocess.run(["ip", "netns", "pids", name], text=True, capture_output=True).stdout
        for pid in pids.split():
            _try("kill", "-KILL", pid)
        _try("ip", "netns", "del", name)
    with contextlib.suppress(ProcessLookupError):       # the script's own background jobs
        os.killpg(player.pid, signal.SIGKILL)
    player.wait()
