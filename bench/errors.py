# SPDX-License-Identifier: GPL-2.0
"""The exceptions for errors that a user of the bench can see."""


class LabError(Exception):
    """An error that stops a run.  str() is one line, written for the user.

    files: name -> content of the run's files, as far as there are any.
    """

    files: dict[str, bytes] = {}


class TraceFull(LabError):
    """The kernel's buffer was too small for the events of a run."""
