# SPDX-License-Identifier: GPL-2.0
"""Code that the commands share: their exit status and the commit of the checkout."""

import signal
import subprocess
import sys
from collections.abc import Callable

from .errors import LabError
from .paths import TOP


def commit() -> str | None:
    """The checkout's commit, with -dirty if it has changes; None without git."""
    done = subprocess.run(["git", "-C", str(TOP), "describe", "--always", "--dirty"],
                          text=True, capture_output=True)
    return done.stdout.strip() or None


def status_of(name: str, work: Callable[[], int | None]) -> int:
    """Do the work of the command `name`, and return its exit status.

    It is the value of work(), or 0.  An error that a user can mend prints one line on stderr and returns
    1.  Ctrl-C and SIGTERM return 130.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)       # clean up as for Ctrl-C
    try:
        return work() or 0
    except (LabError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted; finished runs are kept, and the next call resumes", file=sys.stderr)
        return 130
