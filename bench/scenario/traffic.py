# SPDX-License-Identifier: GPL-2.0
"""Random sizes and times of web-like traffic, by published laws."""

import math
import random

# Sizes of files on web servers, by Barford & Crovella, "Generating representative web workloads",
# SIGMETRICS 1998, table 1: the body, 93 %, is log-normal (9.357, 1.318); the tail is Pareto from 133 kB
# with exponent 1.1.
SURGE_BODY = (9.357, 1.318)
SURGE_TAIL = (133_000, 1.1)
SURGE_BODY_SHARE = 0.93
# The largest transfer of background traffic; a larger one from the tail would be a bulk flow.
SURGE_MOST = 5_000_000

# HTTP replies of 1995.  Henderson & Katz (1999, 5.4) take them from a trace that is not available.  This
# log-normal law gives the latencies that they compute from the trace: it is within 0.07 s of all means
# in their table 2 (1.9, 1.4, 2.5 and 1.7 s), and agrees with three of its medians.
MAH_MEDIAN, MAH_SIGMA = 1_750, 1.4


def _surge(draw: random.Random) -> int:
    if draw.random() < SURGE_BODY_SHARE:
        size = draw.lognormvariate(*SURGE_BODY)
    else:
        smallest, exponent = SURGE_TAIL
        size = smallest * draw.paretovariate(exponent)
    return min(max(1, round(size)), SURGE_MOST)


def _mah(draw: random.Random) -> int:
    return max(1, round(draw.lognormvariate(math.log(MAH_MEDIAN), MAH_SIGMA)))


LAWS = {"surge": _surge, "mah": _mah}


def sizes(law: str, count: int, seed: str) -> list[int]:
    """The sizes of `count` transfers by a law, bytes.  seed: sets the random numbers."""
    draw = random.Random(seed)
    return [LAWS[law](draw) for _ in range(count)]


def arrivals(law: str, rate_mbit: float, seconds: float, seed: str) -> list[tuple[float, int]]:
    """The arrivals of independent transfers with sizes by a law: (time in s, bytes), in order of time.

    The sum of the sizes gives the mean rate.  The times are those of a Poisson process, which are
    uniform for a given number of events.
    """
    draw = random.Random(seed)
    wanted, sizes_drawn = rate_mbit * 1e6 / 8 * seconds, []
    while sum(sizes_drawn) < wanted:
        sizes_drawn.append(LAWS[law](draw))
    return sorted((draw.uniform(0, seconds), size) for size in sizes_drawn)
