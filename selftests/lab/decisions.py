# SPDX-License-Identifier: GPL-2.0
"""A policy's own account of a run: its trace events satcc:<policy>, see modules/event_trace.h."""

import dataclasses

from bench.lab.scenario import Flow
from selftests import oracle

GROWTH = ("start", "avoid", "start_exit")
DISORDER, CWR, RECOVERY, LOSS = 1, 2, 3, 4      # enum tcp_ca_state


def of(run, policy, *names):
    """The events of a run's only flow of this policy as dicts, oldest first, with `name` and `t_s`;
    only those so named, if names are given."""
    known = {**oracle.NAMES, **oracle.POLICIES[policy].CODES}
    times, records = run.events[f"satcc:{policy}"]
    rows = []
    for time, record in zip(times, records):
        row = {field: int(record[field]) for field in records.dtype.names
               if not field.startswith("common_")}
        rows.append({**row, "name": known[row["event"]], "t_s": int(time) / 1e9})
    return [row for row in rows if not names or row["name"] in names]


def windows(run, policy, count):
    """cwnd after each of the first ACKs of congestion avoidance, held back or not."""
    rows = of(run, policy, *GROWTH, "held")
    begin = next(n for n, row in enumerate(rows) if row["name"] == "avoid")
    return [row["cwnd"] for row in rows[begin:begin + count]]


def with_ssthresh(made, ssthresh, initcwnd=0):
    """The same with an ssthresh from the start: the route's, which reaches a flow through the cache
    of metrics, which the end of a short flow before it fills."""
    sender = dataclasses.replace(made.sender, ssthresh=ssthresh, initcwnd=initcwnd)
    flows = (Flow("cubic", bytes=1000), dataclasses.replace(made.flows[0], start_s=5))
    return dataclasses.replace(made, sender=sender, flows=flows)


def broken_chain(rows, credit):
    """Pairs of events between which the carried credit changed."""
    return [(before, after) for before, after in zip(rows, rows[1:])
            if after["name"] != "init" and after[f"credit_old_{credit}"] != before[f"credit_{credit}"]]
