# SPDX-License-Identifier: GPL-2.0
"""The columns of satcc-log's table, for the writer and the readers."""

from collections import namedtuple

SEGMENT, ACK, WINDOW = "segment_sent", "ack_received", "cwnd_changed"
EVENTS = (SEGMENT, ACK, WINDOW)
MISSED = "missed"           # ev of a row that stands for missing records
SYN = 2                     # bit of the column flags

# Names by number, as in enum tcp_ca_state and satcc_log.h.
CA_STATES = ("Open", "Disorder", "CWR", "Recovery", "Loss")
REASONS = ("first", "init", "ack", "recovery", "cwr", "rto", "undo", "idle", "app_limited",
           "switch", "other")

INFINITE_SSTHRESH = 0x7FFFFFFF

# events: the events whose rows have the column; field: the event's field, None if table.py computes the
# column; none: the number that means "none" and becomes an empty cell.
Column = namedtuple("Column", "name unit events meaning field none")


def _column(name, unit, events, meaning, made=False, none=None):
    return Column(name, unit, events, meaning, None if made else name, none)


ALL, OWN = EVENTS + (MISSED,), EVENTS
COLUMNS = (
    _column("t_s", "s", ALL, "time since the first row", made=True),
    _column("t_ns", "ns", ALL, "time on the trace clock, which is CLOCK_MONOTONIC in recordings of "
            "satcc-log", made=True),
    _column("ev", "", ALL, "segment_sent, ack_received, cwnd_changed or missed", made=True),
    _column("cookie", "", OWN, "the socket's cookie, as ss -e prints it (there in hex)"),
    _column("netns", "", OWN, "inode number of the socket's network namespace"),
    _column("saddr", "", OWN, "the socket's own address"),
    _column("sport", "", OWN, "the socket's own port"),
    _column("daddr", "", OWN, "the peer's address"),
    _column("dport", "", OWN, "the peer's port"),
    _column("cc", "", OWN, "the congestion control's name"),
    _column("ca_state", "", OWN, "Open, Disorder, CWR, Recovery or Loss"),
    _column("snd_una", "", OWN, "first sequence number not acknowledged, on the wire"),
    _column("snd_nxt", "", OWN, "next sequence number to send, on the wire"),
    _column("una_rel", "bytes", OWN, "snd_una, relative", made=True),
    _column("nxt_rel", "bytes", OWN, "snd_nxt, relative", made=True),
    _column("cwnd", "segments", OWN, "congestion window"),
    _column("ssthresh", "segments", (ACK, WINDOW), "slow start threshold; empty: infinite",
            none=INFINITE_SSTHRESH),
    _column("in_flight", "segments", OWN, "segments in the network, as the sender estimates"),
    _column("srtt_us", "us", (SEGMENT, ACK), "smoothed round trip time; empty: no sample yet",
            none=0),
    _column("len", "bytes", (SEGMENT, ACK), "data in the segment sent or received"),
    _column("seq", "", (SEGMENT,), "sequence number of the segment, on the wire"),
    _column("seq_rel", "bytes", (SEGMENT,), "seq, relative", made=True),
    _column("segs", "segments", (SEGMENT,), "segments in the packet that TCP handed to IP"),
    _column("flags", "", (SEGMENT,), "sum of the TCP header's flags: FIN 1, SYN 2, RST 4, PSH 8, "
            "ACK 16, URG 32, ECE 64, CWR 128"),
    _column("retrans", "", (SEGMENT,), "1: its sequence numbers have been sent before"),
    _column("sent_orig", "bytes", (SEGMENT,), "data sent so far, without retransmissions"),
    _column("pacing_rate", "bytes/s", (SEGMENT,), "pacing rate; empty: none", none=2**64 - 1),
    _column("pacing_status", "", (SEGMENT,), "0 not paced, 1 paced by TCP's timer, 2 by the fq qdisc"),
    _column("wstamp_ns", "ns", (SEGMENT,), "earliest departure, on CLOCK_MONOTONIC; a time in the past: "
            "at once"),
    _column("ack", "", (ACK,), "received acknowledgement number, on the wire"),
    _column("ack_rel", "bytes", (ACK,), "ack, relative", made=True),
    _column("sacked", "segments", (ACK,), "selectively acknowledged"),
    _column("lost", "segments", (ACK,), "marked lost"),
    _column("retrans_out", "segments", (ACK,), "retransmitted and not yet acknowledged"),
    _column("rwnd", "bytes", (ACK,), "the peer's advertised window"),
    _column("rtt_us", "us", (ACK,), "latest sample of the round trip time; empty: none yet", none=0),
    _column("rttvar_us", "us", (ACK,), "mean deviation of the round trip time"),
    _column("rto_us", "us", (ACK,), "retransmission timeout"),
    _column("delivered", "segments", (ACK,), "delivered so far, with retransmitted ones"),
    _column("mss", "bytes", (ACK,), "data in a full segment"),
    _column("reason", "", (WINDOW,), "cause of the change: first (the first record of a socket), "
            "init, ack, recovery, cwr, rto, undo, idle, app_limited, switch or other"),
    _column("cwnd_old", "segments", (WINDOW,), "cwnd before"),
    _column("ssthresh_old", "segments", (WINDOW,), "ssthresh before; empty: infinite",
            none=INFINITE_SSTHRESH),
    _column("clamp", "segments", (WINDOW,), "the largest cwnd allowed; empty: any",
            none=2**32 - 1),
    _column("clamp_old", "segments", (WINDOW,), "clamp before; empty: any", none=2**32 - 1),
    _column("missed", "records", (MISSED,), "number of records missing before this row; empty: unknown",
            made=True),
)
NAMES = tuple(column.name for column in COLUMNS)


def fields(event):
    """The names of the fields of an event that the table needs."""
    return [column.field for column in COLUMNS if column.field and event in column.events]
