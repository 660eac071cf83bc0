# SPDX-License-Identifier: GPL-2.0
"""What a flow's congestion control did, as the witness's records tell it, in the words of the tests."""

import dataclasses

from bench.oracle import calls
from bench.scenario.scenario import Flow

GROWTH = ("start", "avoid", "start_exit")
DISORDER, CWR, RECOVERY, LOSS = 1, 2, 3, 4      # enum tcp_ca_state


def kind(call):
    """What a call decided: init, start, avoid, start_exit or held (on an ACK), ssthresh, undo, state
    (entering CWR, Recovery or Loss), idle; None for the rest."""
    if call.call in (calls.CONG_AVOID, calls.CONG_CONTROL):
        if not call.cwnd_limited and call.cwnd == call.cwnd_old:
            return "held"
        if call.cwnd_old >= call.ssthresh:
            return "avoid"
        return "start" if call.cwnd < call.ssthresh else "start_exit"
    if call.call == calls.SET_STATE:
        return "state" if call.arg >= CWR else None
    if call.call in (calls.CWND_EVENT, calls.TX_START_EVENT):
        # A policy with a cong_control() restarts after idle by itself, at the first segment.
        restart = call.call == calls.CWND_EVENT and call.arg == calls.CWND_RESTART
        return "idle" if restart or call.cwnd < call.cwnd_old else None
    return {calls.INIT: "init", calls.SSTHRESH: "ssthresh", calls.UNDO: "undo"}.get(call.call)


def row(call) -> dict:
    """A call as a dict: `name`, `t_s`, its fields, and the private ones, with _old of before.

    cwnd of an undo and ssthresh of a reduction are what was returned, ca_state of a state the new one.
    """
    fields = call._asdict()
    for name, value in fields.pop("old")._asdict().items():
        fields[f"{name}_old"] = value
    fields.update(fields.pop("new")._asdict())
    fields.update(name=kind(call), t_s=call.t_ns / 1e9, srtt_us=call.srtt_us8 >> 3,
                  limit=call.clamp,
                  acked=call.rs_acked_sacked if call.call == calls.CONG_CONTROL else call.arg)
    if call.call == calls.SSTHRESH:
        fields["ssthresh"] = call.ret
    elif call.call == calls.UNDO:
        fields["cwnd"] = call.ret
    elif call.call == calls.SET_STATE:
        fields["ca_state"] = call.arg
    return fields


def of(run, policy, *names):
    """The decisions of a run's only flow of this policy, oldest first; of these names, if any."""
    rows = map(row, calls.of_run(run, {policy}, {"reno": {}}).get(policy, ()))
    return [one for one in rows if (one["name"] in names if names else one["name"])]


def windows(run, policy, count):
    """cwnd after each of the first ACKs of congestion avoidance, held back or not."""
    rows = of(run, policy, *GROWTH, "held")
    begin = next(n for n, row in enumerate(rows) if row["name"] == "avoid")
    return [row["cwnd"] for row in rows[begin:begin + count]]


def with_ssthresh(transfer, ssthresh, initcwnd=0):
    """The same with an ssthresh from the start: the route's, which reaches a flow through the cache
    of metrics, which the end of a short flow before it fills."""
    sender = dataclasses.replace(transfer.sender, ssthresh=ssthresh, initcwnd=initcwnd)
    flows = (Flow("cubic", bytes=1000), dataclasses.replace(transfer.flows[0], start_s=5))
    return dataclasses.replace(transfer, sender=sender, flows=flows)
