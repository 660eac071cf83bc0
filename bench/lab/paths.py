# SPDX-License-Identifier: GPL-2.0
"""Where things are.  Everything the lab makes is under build/, so removing that folder undoes it."""

from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / "build"
GUEST = Path(__file__).resolve().parent / "guest"
