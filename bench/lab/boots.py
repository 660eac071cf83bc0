# SPDX-License-Identifier: GPL-2.0
"""Boot the lab's machine many times on a busy host, and compare the memory after each boot.

    /usr/bin/python3 -m bench boots 50

A boot's hash covers the machine's memory and devices at the moment when the lab saves them.  If two
boots have different hashes, a run's packets may depend on the host.
"""

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


def compare(kernel: str, boots: int, busy: int) -> int:
    """Print the hash of each boot's memory, with its number of boots.  Returns the exit status.

    busy: number of processes that load the host meanwhile.
    """
    for _ in range(busy):
        multiprocessing.Process(target=_spin, args=(os.getpid(),), daemon=True).start()
    counts = collections.Counter()
    try:
        guest = image.build(kernel)
        for number in range(1, boots + 1):
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
