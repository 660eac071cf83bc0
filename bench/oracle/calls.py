# SPDX-License-Identifier: GPL-2.0
"""The records of satcc_log in a run: one for each callback of a congestion control.

A Call has the fields of the trace event satcc:cc_call (modules/satcc_log_trace.h), and these:

    t_ns, number    time, and index among the records of the run
    old, new        the private bytes before and after the call, as a State with the policy's fields

In-tree policies have no debug information here, so their models have the layouts.
"""

from collections import namedtuple

import numpy as np

from ..errors import LabError
from ..record import layout

STREAM = "satcc:cc_call"
(INIT, RELEASE, SSTHRESH, CONG_AVOID, SET_STATE, CWND_EVENT, IN_ACK_EVENT, PKTS_ACKED, UNDO,
 CONG_CONTROL, TX_START_EVENT) = range(1, 12)
NAMES = {INIT: "init", RELEASE: "release", SSTHRESH: "ssthresh", CONG_AVOID: "cong_avoid",
         SET_STATE: "set_state", CWND_EVENT: "cwnd_event", IN_ACK_EVENT: "in_ack_event",
         PKTS_ACKED: "pkts_acked", UNDO: "undo_cwnd", CONG_CONTROL: "cong_control",
         TX_START_EVENT: "cwnd_event_tx_start"}

OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)                  # enum tcp_ca_state
STATES = ("Open", "Disorder", "CWR", "Recovery", "Loss")
TX_START, CWND_RESTART, COMPLETE_CWR, LOSS_EVENT = range(4)     # enum tcp_ca_event
NOT_SHOWN = ("saddr", "daddr", "cc", "priv_old", "priv")


def names(records) -> np.ndarray:
    """The name of each record's congestion control."""
    width = records.dtype["cc"].itemsize
    plain = np.frombuffer(np.ascontiguousarray(records["cc"]).tobytes(), f"S{width}")
    return plain.astype(f"U{width}")


def policy_changes(run) -> set:
    """Numbers of the records whose flow had another policy in its record before."""
    _, records = run.events.get(STREAM, ((), np.zeros(0, np.dtype([]))))
    if not len(records):
        return set()
    order = np.argsort(records["cookie"], kind="stable")
    cookies, policies = records["cookie"][order], names(records)[order]
    first = (cookies[1:] == cookies[:-1]) & (policies[1:] != policies[:-1])
    return set(order[1:][first].tolist())


def _states(blobs, fields: dict) -> list:
    State = namedtuple("State", fields)
    if not fields:
        return [State()] * len(blobs)
    columns = layout.decode(np.ascontiguousarray(blobs), fields)
    return list(map(State._make, zip(*(column.tolist() for column in columns.values()))))


def of_run(run, wanted=None, layouts=None) -> dict:
    """Policy -> its calls, oldest first.

    wanted: names of policies, all if None.
    layouts: layouts of the policies that have none in the run.
    Raises LabError if a policy has no layout.
    """
    times, records = run.events.get(STREAM, ((), np.zeros(0, np.dtype([]))))
    if not len(times):
        return {}
    known = {**(layouts or {}), **run.meta.get("layouts", {})}
    plain = [name for name in records.dtype.names
             if name not in NOT_SHOWN and not name.startswith("common_")]
    Call = namedtuple("Call", (*plain, "t_ns", "number", "old", "new"))
    of_policy = names(records)
    by_policy = {}
    for policy in np.unique(of_policy).tolist():
        if wanted is not None and policy not in wanted:
            continue
        if policy not in known:
            raise LabError(f"{run.folder}: no layout of the private bytes of {policy}")
        at = np.flatnonzero(of_policy == policy)
        own = records[at]
        columns = [own[name].tolist() for name in plain]
        columns += [np.asarray(times)[at].tolist(), at.tolist(),
                    _states(own["priv_old"], known[policy]), _states(own["priv"], known[policy])]
        by_policy[policy] = list(map(Call._make, zip(*columns)))
    return by_policy
