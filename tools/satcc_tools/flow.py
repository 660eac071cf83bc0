# SPDX-License-Identifier: GPL-2.0
"""One flow of a table of satcc-log, and the values that graphs show of it.

Times are s since the flow's first row, sizes bytes, as numpy arrays; an empty cell is NaN.
"""

from array import array

import numpy as np

from . import schema, table

NAN = float("nan")
NUMBERS = {     # the columns the graphs need
    schema.SEGMENT: ("t_s", "seq_rel", "len", "retrans", "flags", "in_flight", "pacing_rate",
                     "pacing_status", "cwnd"),
    schema.ACK: ("t_s", "una_rel", "sacked", "mss", "rwnd", "in_flight", "rtt_us", "srtt_us",
                 "rto_us", "cwnd", "ssthresh"),
    schema.WINDOW: ("t_s", "cwnd", "ssthresh"),
}
WORDS = {
    schema.SEGMENT: ("ca_state",),
    schema.ACK: ("ca_state",),
    schema.WINDOW: ("ca_state", "reason"),
}


class Flow:
    """A socket's rows as columns: flow["ack_received", "una_rel"].

    who: text, the ends and the congestion controls of the flow.  start_s: t_s of its first row.
    """

    def __init__(self, row):
        self.cookie = row.get("cookie", "")
        self.ports = {row.get("sport"), row.get("dport")}
        self.ends = (f"{_end(row, 's')} to {_end(row, 'd')}")
        self.netns = row.get("netns", "")
        self.names = []             # names of its congestion controls, in order
        self.start_s = self.end_s = float(row["t_s"])
        self._numbers = {event: tuple((name, array("d")) for name in names)
                         for event, names in NUMBERS.items()}
        self._words = {event: tuple((name, []) for name in names) for event, names in WORDS.items()}

    def add(self, row):
        event = row["ev"]
        for name, column in self._numbers[event]:
            column.append(float(row.get(name, NAN)))
        for name, column in self._words[event]:
            column.append(row.get(name, ""))
        self.end_s = float(row["t_s"])
        if self.names[-1:] != [row.get("cc", "")]:
            self.names.append(row.get("cc", ""))

    def __getitem__(self, key):
        event, name = key
        column = dict(self._numbers[event]).get(name)
        if column is None:
            return np.array(dict(self._words[event])[name], dtype=object)
        values = np.array(column)
        return values - self.start_s if name == "t_s" else values

    def count(self, event):
        return len(self._numbers[event][0][1])

    @property
    def cc(self):
        if len(self.names) > 3:
            return f"{self.names[0]}, {len(self.names) - 1} changes, then {self.names[-1]}"
        return ", then ".join(self.names)

    @property
    def who(self):
        return f"{self.ends}, {self.cc}"

    @property
    def data(self):
        """Bytes by which sequence numbers have moved; the largest flow is the one with most."""
        numbers = [self[schema.SEGMENT, "seq_rel"], self[schema.ACK, "una_rel"]]
        return max((float(np.nanmax(values) - np.nanmin(values)) for values in numbers
                    if len(values)), default=0.0)


def _end(row, side):
    address = row.get(f"{side}addr", "?")
    return f"[{address}]:{row.get(side + 'port')}" if ":" in address \
        else f"{address}:{row.get(side + 'port')}"


class Missing:
    """The rows that stand for missing records: t_s of each, and the total number of records."""

    def __init__(self):
        self.t_s, self.records, self.unsure = [], 0, False

    def add(self, row):
        self.t_s.append(float(row["t_s"]))
        self.records += int(row.get("missed", 0))
        self.unsure |= "missed" not in row

    def __str__(self):
        return f"{self.records}{' or more' if self.unsure else ''} records are missing"


def read(file):
    """(flows by cookie, Missing) of a table in any of its formats."""
    flows, missing = {}, Missing()
    for row in table.read(file):
        if row.get("ev") == schema.MISSED:
            missing.add(row)
        elif row.get("ev") in schema.EVENTS:
            cookie = row.get("cookie", "")
            if cookie not in flows:
                flows[cookie] = Flow(row)
            flows[cookie].add(row)
    return flows, missing


# ---- values computed from a flow -------------------------------------------

def first_data(flow):
    """Relative number of the first byte of data: 1 after a recorded SYN, else 0."""
    syn = (flow[schema.SEGMENT, "flags"].astype(int) & schema.SYN).any() \
        if flow.count(schema.SEGMENT) else False
    return 1.0 if syn else 0.0


def received(flow):
    """(t, bytes) that the peer is known to have at each ACK: acknowledged, or selectively acknowledged.

    A selectively acknowledged segment counts as a full one.  The number of bytes never falls.
    """
    t, una = flow[schema.ACK, "t_s"], flow[schema.ACK, "una_rel"]
    held = una - first_data(flow) + flow[schema.ACK, "sacked"] * flow[schema.ACK, "mss"]
    return t, np.maximum.accumulate(np.maximum(np.nan_to_num(held), 0)) if len(t) else held


def short_goodput(t, size, end_s, window_s=10.0, step_s=1.0):
    """Short-time goodput (Caini et al. 2008, 4.2): (times, Mbit/s received in the window before
    each), every step_s; at the start the window is shorter.

    t, size: received().
    """
    at = np.arange(step_s, end_s + step_s / 2, step_s)
    since = np.maximum(at - window_s, 0)

    def by(moments):
        return np.r_[0.0, size][np.searchsorted(t, moments, side="right")]

    return at, (by(at) - by(since)) * 8 / (at - since) / 1e6


def goodput(flow):
    """Mbit/s: the highest ACK divided by its time since the flow's first row; NaN without an ACK."""
    t, una = flow[schema.ACK, "t_s"], flow[schema.ACK, "una_rel"]
    if not len(t) or not una.max() > una.min():
        return NAN
    at = int(np.argmax(una))
    return float((una[at] - first_data(flow)) * 8 / t[at] / 1e6) if t[at] > 0 else NAN


def gaps(flow):
    """(t, ms since the segment before, whether it is a retransmission) of each segment with data
    except the first."""
    with_data = flow[schema.SEGMENT, "len"] > 0
    t = flow[schema.SEGMENT, "t_s"][with_data]
    again = flow[schema.SEGMENT, "retrans"][with_data] > 0
    return t[1:], np.diff(t) * 1e3, again[1:]


def paced_gaps(flow):
    """(t, ms) that each paced segment with data takes at the pacing rate."""
    rate, size = flow[schema.SEGMENT, "pacing_rate"], flow[schema.SEGMENT, "len"]
    paced = (flow[schema.SEGMENT, "pacing_status"] > 0) & (size > 0) & (rate > 0)
    return flow[schema.SEGMENT, "t_s"][paced], size[paced] / rate[paced] * 1e3


def spans(flow, *states):
    """[(from, to)] in which the congestion state is one of these, according to the rows."""
    t = np.concatenate([flow[event, "t_s"] for event in schema.EVENTS])
    state = np.concatenate([flow[event, "ca_state"] for event in schema.EVENTS])
    order = np.argsort(t, kind="stable")
    t, inside = t[order], np.isin(state[order].astype(str), states)
    if not inside.any():
        return []
    change = np.flatnonzero(np.diff(np.r_[False, inside, False].astype(int)))
    return [(float(t[begin]), float(t[min(end, len(t) - 1)]))
            for begin, end in zip(change[::2], change[1::2])]


def window(flow):
    """(t, cwnd, ssthresh) from cwnd_changed, or else from ack_received or segment_sent."""
    event = schema.WINDOW if flow.count(schema.WINDOW) else schema.ACK
    if flow.count(event):
        return flow[event, "t_s"], flow[event, "cwnd"], flow[event, "ssthresh"]
    cwnd = flow[schema.SEGMENT, "cwnd"]
    return flow[schema.SEGMENT, "t_s"], cwnd, np.full(len(cwnd), NAN)


def segment_size(flow):
    """Bytes of a full segment; NaN if no row has a size."""
    for values in (flow[schema.ACK, "mss"], flow[schema.SEGMENT, "len"]):
        values = values[values > 0]
        if len(values):
            return float(np.max(values))
    return NAN


def in_flight(flow):
    """(t, segments) at each segment sent and each ACK."""
    t = np.concatenate([flow[event, "t_s"] for event in (schema.SEGMENT, schema.ACK)])
    count = np.concatenate([flow[event, "in_flight"] for event in (schema.SEGMENT, schema.ACK)])
    order = np.argsort(t, kind="stable")
    return t[order], count[order]
