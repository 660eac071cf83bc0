# SPDX-License-Identifier: GPL-2.0
"""The mean over seeds with Student's t interval, and the number of seeds for a given precision."""

import math
import statistics
from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A mean and its confidence interval.  half: half-width of the interval, None for a single value."""

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
    from scipy.special import stdtrit       # here, since `papers list` imports this file and not scipy
    return float(stdtrit(count - 1, 0.5 + confidence_pct / 200))


def estimate(values: list[float], confidence_pct: float) -> Estimate:
    """The mean of the values, with Student's t interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Estimate(mean, None, len(values))
    error = statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(mean, quantile(confidence_pct, len(values)) * error, len(values))


def estimate_of(values: list[float], statistic: str, confidence_pct: float) -> Estimate:
    """The mean with its interval, or with statistic "max" the largest value without one."""
    if statistic == "max":
        return Estimate(max(values), None, len(values))
    return estimate(values, confidence_pct)


def seeds_for(values: list[float], confidence_pct: float, half: float, precision: str = "interval",
              most: int = 10000) -> int | None:
    """The smallest number of values, with these values' deviation, for a half-width of at most `half`.

    None for fewer than two values, and if `most` values are too few.
    precision: "interval" for the half-width of the t interval; "deviation" for the standard deviation
    of the mean (Henderson & Katz 4.2.4).
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
    """seeds_for() with `half` in percent of the values' mean."""
    if len(values) < 2:
        return None
    half = abs(statistics.fmean(values)) * precision_pct / 100
    return seeds_for(values, confidence_pct, half, precision, most)
