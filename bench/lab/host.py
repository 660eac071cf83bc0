# SPDX-License-Identifier: GPL-2.0
"""The same scenario on this machine, in network namespaces and in real time.

A second engine, to compare with the virtual one; for questions about hardware the only one.
Real time has no seed: two runs differ.  No trace is taken, since the kernel's trace buffer
belongs to the whole machine.
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
    """The reason why this machine cannot play a scenario, in one line, or None."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    if satellite.links(scenario):
        return "a satellite's direction (mac, errors, delay_series) is for the lab"
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        return f"not installed: {', '.join(missing)}"
    probe = f"satcc-{secrets.token_hex(3)}"
    if not _try("ip", "netns", "add", probe):
        return "no network namespace can be made here"
    try:
        for kind, arguments in (("netem", ["delay", "1ms"]),
                                ("tbf", ["rate", "1mbit", "burst", "2000", "limit", "3000"])):
            if not _try("tc", "-n", probe, "qdisc", "add", "dev", "lo", "root", kind, *arguments):
                return f"kernel {platform.release()} has no sch_{kind} and loads none"
            _try("tc", "-n", probe, "qdisc", "del", "dev", "lo", "root")
    finally:
        _try("ip", "netns", "del", probe)
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    for cc in sorted({cc for flow in scenario.flows for cc in flow.names} - set(known)):
        if not _try("modprobe", f"tcp_{cc}"):
            return f"kernel {platform.release()} has no congestion control {cc} and loads no tcp_{cc}"
    return None


def run(scenario: Scenario) -> Run:
    """Play a scenario here.  Its namespaces are gone afterwards, whatever happens."""
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
            status = "none: it never ended"
        finally:
            _clean_up(prefix, player)
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    if status != 0:
        raise LabError(f"the run ended with status {status}; console: {console}")
    play.check(scenario, files)
    meta = {"kernel": files["kernel"].decode().strip(), "hash": traffic_hash(files),
            "modules": {}, "job_wall_s": time.monotonic() - began}
    return Run(scenario, folder, meta, False)


def _clean_up(prefix: str, player: subprocess.Popen) -> None:
    """End what runs in our namespaces, then the namespaces."""
    listed = subprocess.run(["ip", "netns", "list"], text=True, capture_output=True).stdout
    for name in [line.split()[0] for line in listed.splitlines() if line.startswith(prefix)]:
        pids = subprocess.run(["ip", "netns", "pids", name], text=True, capture_output=True).stdout
        for pid in pids.split():
            _try("kill", "-KILL", pid)
        _try("ip", "netns", "del", name)
    with contextlib.suppress(ProcessLookupError):       # the script's own background jobs
        os.killpg(player.pid, signal.SIGKILL)
    player.wait()
