# SPDX-License-Identifier: GPL-2.0
"""A flow made by hand for the oracle: call by call, each with the result the model itself gives.

So a tale passes. What the tests ask is that one with a thing changed does not, and that the results are
what a paper's table or the kernel's known behaviour say.
"""

from collections import namedtuple

from bench.oracle.calls import CONG_AVOID, INIT, SET_STATE
from bench.oracle.core import INFINITE, Wrong

ESTABLISHED, OWNER = 1, 0x1234567
PLAIN = {name: 0 for name in (
    "cookie", "sport", "dport", "mstamp_us", "bytes_sent", "pacing_rate_old", "pacing_rate", "ack",
    "arg", "rtt_us", "ret", "cwnd_old", "cwnd", "ssthresh_old", "ssthresh", "in_flight_old",
    "in_flight", "delivered_old", "delivered", "cwnd_cnt_old", "cwnd_cnt", "clamp", "prior_cwnd",
    "prior_ssthresh", "undo_marker", "undo_retrans", "high_seq", "srtt_us8", "min_rtt_us", "snd_una",
    "snd_nxt", "packets_out", "max_packets_out", "sacked_out", "lost_out", "retrans_out",
    "prr_delivered_old", "prr_delivered", "prr_out", "mss", "total_retrans", "call", "ca_state_old",
    "ca_state", "cwnd_limited", "is_cwnd_limited", "sack_ok", "tstamp_ok", "pacing_status_old",
    "pacing_status", "tcp_state")}
Call = namedtuple("Call", (*PLAIN, "t_ns", "number", "old", "new"))


class Scenario:
    modules: dict = {}


class Tale:
    """A flow of a model.  Keywords that begin with a field's name are what every call has of it."""

    START_NS = 1_577_836_800_000_000_000

    def __init__(self, kind, parameters=(), cwnd=10, ssthresh=INFINITE, srtt_us=600_000, **fields):
        self.kind, self.parameters, self.calls = kind, dict(parameters), []
        self.model = kind(self.parameters, Scenario())
        self.fields = (*(("owner",) if kind.OWNER else ()), *kind.FIELDS)
        self.State = namedtuple("State", self.fields)
        self.t = self.START_NS + 1_000_000
        self.base = {**PLAIN, "cwnd": cwnd, "ssthresh": ssthresh, "srtt_us8": 8 * srtt_us, "mss": 1448,
                     "clamp": INFINITE, "cwnd_limited": 1, "is_cwnd_limited": 1,
                     "tcp_state": ESTABLISHED,
                     "min_rtt_us": srtt_us, "pacing_rate": 1_000_000, "pacing_rate_old": 1_000_000,
                     "sack_ok": 1, "tstamp_ok": 1, **fields}
        self.call(INIT)

    def state(self, owner=OWNER):
        return self.State(*(owner if name == "owner" else getattr(self.model, name)
                            for name in self.fields))

    def call(self, what, after_ms=0, **given):
        """Add a call; what is given of its fields, of before where there are two, is for this one
        alone.  Returns the call."""
        self.t += round(after_ms * 1e6)
        flow, kept = self.model, ("cwnd", "ssthresh", "cwnd_cnt", "ca_state", "pacing_status")
        fields = {**self.base, **given, "call": what, "t_ns": self.t, "mstamp_us": self.t // 1000,
                  "number": len(self.calls)}
        for name in kept:
            fields[f"{name}_old"] = given.get(f"{name}_old", self.base[name])
        old = self.State(*[0] * len(self.fields)) if what == INIT else self.state()
        flow.cwnd, flow.ssthresh = fields["cwnd_old"], fields["ssthresh_old"]
        flow.count, flow.paced, flow.ret = fields["cwnd_cnt_old"], fields["pacing_status_old"], 0
        flow.handlers[what](Call(**fields, old=old, new=None))
        fields |= {"cwnd": flow.cwnd, "ssthresh": flow.ssthresh, "cwnd_cnt": flow.count,
                   "pacing_status": flow.paced, "ret": flow.ret}
        self.calls.append(Call(**fields, old=old, new=self.state()))
        for name in kept:
            self.base[name] = fields[name]
        if what == SET_STATE:
            self.base["ca_state"] = fields["arg"]
        return self.calls[-1]

    def ack(self, acked=1, after_ms=0, **given) -> int:
        """An ACK of so many segments.  Returns cwnd after it."""
        return self.call(CONG_AVOID, after_ms, arg=acked, **given).cwnd

    def first_wrong(self, calls=None, parameters=None):
        """(number of the call, what is wrong with it) of the first that a fresh model objects to, or
        None."""
        flow = self.kind(self.parameters if parameters is None else parameters, Scenario())
        for call in self.calls if calls is None else calls:
            try:
                flow.take(call)
            except Wrong as wrong:
                return call.number, wrong.what
        return None

    def changed(self, number, **fields):
        """first_wrong() of the tale with one call's fields changed; those of new by their names."""
        call, new = self.calls[number], {}
        for name in [name for name in fields if name not in PLAIN]:
            new[name] = fields.pop(name)
        calls = list(self.calls)
        calls[number] = call._replace(**fields, new=call.new._replace(**new))
        return self.first_wrong(calls)
