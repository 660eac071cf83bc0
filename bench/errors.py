# SPDX-License-Identifier: GPL-2.0
"""The one exception a user of the lab has to know."""


class LabError(Exception):
    """An error that stops a run.  str() is one line, written for the user.  files: the run's files
    from before the error, by name."""

    files: dict[str, bytes] = {}
