# SPDX-License-Identifier: GPL-2.0
"""A policy's own account of a run, and a reading of the paper to hold it against.

Independent of the C code: exact fractions, from the equations
    slow start            W += 2^rho - 1
    congestion avoidance  W += rho^2 / W
per acknowledged segment, W whole, with the part of a segment earned so far carried over.
"""

from fractions import Fraction

EVENTS = {1: "init", 2: "start", 3: "avoid", 4: "start_exit", 5: "held", 6: "ssthresh", 7: "undo",
          8: "state", 9: "idle", 16: "hoe_set", 17: "hoe_gamma", 18: "hoe_none"}
PLAIN_SACK, PLAIN_TS, PLAIN_LOSS, PLAIN_START, PLAIN_RTT = 1, 2, 4, 8, 16
INFINITE = 0x7FFFFFFF


def decisions(run, policy=None):
    """The events of a run's only flow as dicts, oldest first, with `name` and `t_s`.

    policy: whose events; by default of the flow's first congestion control.
    """
    times, records = run.events[f"satcc:{policy or run.scenario.flows[0].cc}"]
    rows = []
    for time, record in zip(times, records):
        row = {field: int(record[field]) for field in records.dtype.names
               if not field.startswith("common_")}
        rows.append({**row, "name": EVENTS[row["event"]], "t_s": int(time) / 1e9})
    return rows


def named(run, *names):
    return [row for row in decisions(run) if row["name"] in names]


def hoe_points(run):
    """(t in us, segments) of the train points used, the first being (0, 0)."""
    _, records = run.events["satcc:hybla_full_hoe"]
    return [(int(record["t_us"]), int(record["pkts"])) for record in records if record["used"]]


def line_slope(points) -> Fraction:
    """Least-squares slope through points (x, y), exact."""
    n = len(points)
    mean_x = Fraction(sum(x for x, _ in points), n)
    mean_y = Fraction(sum(y for _, y in points), n)
    return (sum((x - mean_x) * (y - mean_y) for x, y in points)
            / sum((x - mean_x) ** 2 for x, _ in points))


def avoid_once(cwnd: int, rho: Fraction, acked: int, credit: Fraction) -> tuple[int, Fraction]:
    """Congestion avoidance for one ACK: (new cwnd, credit left), all in segments."""
    credit += acked * rho * rho
    gained = credit // cwnd
    return cwnd + int(gained), credit - gained * cwnd
