# SPDX-License-Identifier: GPL-2.0
"""How connections started, from a table of satcc-log.

It says what ended slow start, the window there, and how much of the first five RTTs was sent again.
"""

import dataclasses

from satcc_tools import schema, table

from .host import OperateError

RTTS = 5
OPEN = "open"                               # the end of a connection that the table has in slow start
CUTS = {"recovery", "cwr", "rto"}           # reasons with which the kernel lowers ssthresh
BY_STATE = {"Recovery": "recovery", "CWR": "cwr", "Loss": "rto"}    # without cwnd_changed


@dataclasses.dataclass
class Start:
    """The start of a connection.  Times in s, sizes in bytes, windows in segments."""
    cookie: str
    policy: str
    peer: str
    local_port: int
    end: str = OPEN             # why slow start ended
    window: int = None          # cwnd then; None: it has not ended
    again: int = 0              # segments of the first RTTS that were sent again
    rtt_s: float = None         # of the handshake


class Reader:
    """The rows of one connection, in their order."""

    def __init__(self, row):
        self.start = Start(row["cookie"], row.get("cc", ""), row["daddr"], int(row["sport"]))
        self.first_s = None         # when the first data was sent
        self.is_whole = None        # whether the table has the connection's start
        self.limit = 0              # the first RTTS sent the data before this number
        self.mss = 0
        self.repeats = []           # (from, to) sent again below the limit

    def add(self, row):
        event, now = row["ev"], float(row["t_s"])
        if self.start.rtt_s is None and "srtt_us" in row:
            self.start.rtt_s = int(row["srtt_us"]) / 1e6
        if event == schema.SEGMENT:
            self.add_segment(row, now)
        elif self.start.end == OPEN and "ssthresh" in row:
            self.add_window(row)

    def add_segment(self, row, now):
        size, begin = int(row["len"]), int(row["seq_rel"])
        if not size:
            return
        if self.is_whole is None:
            self.is_whole, self.first_s = int(row["sent_orig"]) <= size, now
        self.mss = max(self.mss, -(-size // max(int(row["segs"]), 1)))
        if row["retrans"] == "1":
            self.repeats.append((begin, begin + size))
        elif self.start.rtt_s is None or now < self.first_s + RTTS * self.start.rtt_s:
            self.limit = max(self.limit, begin + size)

    def add_window(self, row):
        """End slow start at the first cut, or when cwnd has reached a threshold."""
        reason = row.get("reason") or BY_STATE.get(row["ca_state"], "ack")
        if reason in CUTS or int(row["cwnd"]) >= int(row["ssthresh"]):
            self.start.end = reason
            self.start.window = int(row.get("cwnd_old" if reason in CUTS else "cwnd") or row["cwnd"])

    def result(self):
        """The Start; None if the table does not have it, or no data was sent."""
        if not self.is_whole:
            return None
        size, reached = 0, 0
        for begin, end in sorted(self.repeats):
            begin, end = max(begin, reached), min(end, self.limit)
            size += max(end - begin, 0)
            reached = max(reached, end)
        self.start.again = -(-size // self.mss)
        return self.start


def read(path):
    """The Starts in a table, in the order of their first rows.  Raises OperateError."""
    readers = {}
    try:
        with open(path, encoding="utf-8", newline="") as file:
            for row in table.read(file):
                if row.get("ev") in schema.EVENTS:
                    if row["cookie"] not in readers:
                        readers[row["cookie"]] = Reader(row)
                    readers[row["cookie"]].add(row)
    except OSError as error:
        raise OperateError(f"cannot read {path}: {error.strerror}") from None
    except (table.TableError, UnicodeDecodeError) as error:
        raise OperateError(f"{path}: {error}") from None
    except (KeyError, ValueError) as error:
        raise OperateError(f"{path} is not a table of satcc-log: {error!r}") from None
    starts = [start for start in (reader.result() for reader in readers.values()) if start]
    if not starts:
        raise OperateError(f"{path} has no connection's start: record segment_sent from before it")
    return starts
