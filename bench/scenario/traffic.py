# SPDX-License-Identifier: GPL-2.0
"""Sizes and times of web-like traffic, drawn from published laws."""

import math
import random

# The body and the tail of files on the web's servers: Barford & Crovella, "Generating representative
# web workloads", SIGMETRICS 1998, table 1: 93 % log-normal (9.357, 1.318), then Pareto from 133 kB
# with exponent 1.1.
SURGE_BODY = (9.357, 1.318)
SURGE_TAIL = (133_000, 1.1)
SURGE_BODY_SHARE = 0.93
# No transfer of the background is longer than this: one at the tail's end would be a bulk flow.
SURGE_MOST = 5_000_000

# HTTP replies of 1995, which Henderson & Katz (1999, 5.4) draw from a trace that is not to be had.  A
# log-normal that gives the latencies which they compute from the trace: of their table 2's means
# (1.9, 1.4, 2.5 and 1.7 s) none is missed by more than 0.07 s, of its medians three are met.
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
    """Sizes of this many transfers, drawn from a law, bytes."""
    draw = random.Random(seed)
    return [LAWS[law](draw) for _ in range(count)]


def arrivals(law: str, rate_mbit: float, seconds: float, seed: str) -> list[tuple[float, int]]:
    """Transfers of a law that come independently of each other: (s, bytes), in order of time.

    Their sizes sum to what the mean rate asks for; the times are a Poisson process's, which with its
    number of events given are uniform.
    """
    draw = random.Random(seed)
    wanted, sizes_drawn = rate_mbit * 1e6 / 8 * seconds, []
    while sum(sizes_drawn) < wanted:
        sizes_drawn.append(LAWS[law](draw))
    return sorted((draw.uniform(0, seconds), size) for size in sizes_drawn)
