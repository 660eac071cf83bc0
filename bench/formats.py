# SPDX-License-Identifier: GPL-2.0
"""Numbers, sizes and names as the reports print them."""

import math
import re

MISSING = "–"


# ---- numbers as text -------------------------------------------------------

def is_number(value) -> bool:
    """True for a finite number; None, NaN and infinities are missing."""
    return value is not None and math.isfinite(value)


def format_number(value, digits: int) -> str:
    """A number as text.  A count (digits = 0) with a fraction, such as a median, gets one digit."""
    if not is_number(value):
        return MISSING
    if digits == 0 and value != int(value):
        digits = 1
    return f"{value:.{digits}f}"


def format_bytes(count: int) -> str:
    """100000 -> 100 kB, 1000000 -> 1 MB: decimal units; 1048576 -> 1 MiB."""
    if count and count % 2**20 == 0 and count % 10**6:
        return f"{count >> 20} MiB"
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count} B"


def format_loss(loss_pct: float) -> str:
    return f"{loss_pct:g} % loss" if loss_pct else "no loss"


def slug(name: str) -> str:
    """2 Mbit/s -> 2-mbit-s, for a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")
