# SPDX-License-Identifier: GPL-2.0
"""Mean over seeds and Student's t interval, and how many seeds a precision takes."""

import math
import statistics
from dataclasses import dataclass

from scipy.special import stdtrit


@dataclass(frozen=True)
class Estimate:
    """half: half-width of the interval; None of a single value."""

    mean: float
    half: float | None
    count: int

    @property
    def low(self) -> float:
        return self.mean - (self.half or 0)

    @property
    def high(self) -> float:
        return self.mean + (self.half or 0)


def quantile(confidence_pct: float, count: int) -> float:
    """The two-sided quantile of Student's t for this number of values."""
    return float(stdtrit(count - 1, 0.5 + confidence_pct / 200))


def estimate(values: list[float], confidence_pct: float) -> Estimate:
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(mean, None, len(values))
    error = statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(mean, quantile(confidence_pct, len(values)) * error, len(values))


def estimate_of(values: list[float], statistic: str, confidence_pct: float) -> Estimate:
    """The mean with its interval, or the largest, which has none."""
    if statistic == "max":
        return Estimate(max(values), None, len(values))
    return estimate(values, confidence_pct)


def seeds_for(values: list[float], confidence_pct: float, half: float, precision: str = "interval",
              most: int = 10000) -> int | None:
    """The least number of values whose interval has at most the half-width `half`, at these deviations;
    None for fewer than two values, or if `most` values are too few.

    precision "deviation" (Henderson & Katz 4.2.4): whose mean's own standard deviation is.
    """
    if len(values) < 2 or not half:
        return None
    deviation = statistics.stdev(values)

    def enough(count: int) -> bool:
        width = quantile(confidence_pct, count) if precision == "interval" else 1
        return width * deviation / math.sqrt(count) <= half
    return next((count for count in range(2, most + 1) if enough(count)), None)


def seeds_needed(values: list[float], confidence_pct: float, precision_pct: float,
                 precision: str = "interval", most: int = 10000) -> int | None:
    """The same with `half` as precision_pct of the values' mean."""
    if len(values) < 2:
        return None
    half = abs(statistics.fmean(values)) * precision_pct / 100
    return seeds_for(values, confidence_pct, half, precision, most)
