# SPDX-License-Identifier: GPL-2.0
"""The one exception a user of the lab has to know."""


class LabError(Exception):
    """Something that stops a run.  str() is one line, written for the user.  files: what the run left
    all the same, by name."""

    files: dict[str, bytes] = {}
