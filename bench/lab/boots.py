# SPDX-License-Identifier: GPL-2.0
"""Boot the lab's machine many times on a busy host, and compare the memory after each boot.

    /usr/bin/python3 -m bench boots 50

A boot's hash covers the machine's memory and devices at the moment when the lab saves them.  If two
boots have different hashes, a run's packets may depend on the host.
"""

import argparse
import collections
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path

from ..errors import LabError
from . import image, machine


def _spin(parent: int):
    while os.getppid() == parent:
        pass


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m bench boots", description=__doc__.splitlines()[0])
    parser.add_argument("boots", type=int, help="number of boots")
    parser.add_argument("--kernel", default="6.1")
    parser.add_argument("--busy", type=int, default=2 * len(os.sched_getaffinity(0)),
                        help="number of processes that load the host meanwhile (%(default)s)")
    arguments = parser.parse_args(words)
    for _ in range(arguments.busy):
        multiprocessing.Process(target=_spin, args=(os.getpid(),), daemon=True).start()
    counts = collections.Counter()
    try:
        guest = image.build(arguments.kernel)
        for number in range(1, arguments.boots + 1):
            with tempfile.TemporaryDirectory() as folder, \
                    machine.Machine(guest, Path(folder) / "console.log") as booting:
                booting.wait_until_booted()
                counts[booting.fingerprint()] += 1
            print(f"\rboots: {number}, load: {os.getloadavg()[0]:.0f}, different hashes: {len(counts)}",
                  end="", flush=True)
    except LabError as error:
        print(f"boots: {error}", file=sys.stderr)
        return 2
    print()
    for fingerprint, count in counts.most_common():
        print(f"{fingerprint}  {count}")
    return 0 if len(counts) == 1 else 1
