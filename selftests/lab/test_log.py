# SPDX-License-Identifier: GPL-2.0
"""satcc_log in a real kernel: its three records against the capture beside it and TCP_INFO.

Off by one record, one field or one reason is a failure: nothing here has a tolerance.
"""

import dataclasses
import ipaddress
import itertools

import numpy as np
import pytest

from bench.lab import image, machine, packages
from bench.measure import cost, overhead
from bench.record import pcap
from bench.scenario.scenario import FIRST_PORT, Flow
from selftests.conftest import long, pairs_in_turn
from selftests.lab import decisions
from selftests.lab.test_policies import ECN_ON, SACK_OFF, TIMESTAMPS_OFF, from_then_on

pytestmark = pytest.mark.lab

(FIRST, INIT, ACK, RECOVERY, CWR, RTO, UNDO, IDLE, APP_LIMITED, SWITCH, OTHER) = range(11)
OPEN, DISORDER, STATE_CWR, STATE_RECOVERY, LOSS = range(5)
EVENTS = "segment_sent", "ack_received", "cwnd_changed"
EVERYTHING = ["tcp:tcp_probe", "satcc:*"]
LOGGED = {"modules": {"satcc_log": {}}, "trace": EVERYTHING}
LOST = "cat /sys/module/satcc_log/parameters/lost > $OUT/lost"


@pytest.fixture(scope="session")
def logged(lab, geo):
    """Play one flow with the logger on; nothing of it is lost."""
    def play(cc, **rest):
        run = lab.run(geo(cc, **LOGGED, after=[LOST], **rest))
        assert run.read("lost") == b"0\n"
        return run
    return play


def records(run, event):
    return run.events[f"satcc:{event}"][1]


def times(run, event):
    return run.events[f"satcc:{event}"][0].astype("i8")


def counts(run):
    """How many changes of each reason."""
    return np.bincount(records(run, "cwnd_changed")["reason"], minlength=OTHER + 1)


def changes(run, reason):
    rows = records(run, "cwnd_changed")
    return rows[rows["reason"] == reason]


def sent_and_came(run):
    """Of the only flow, from the capture on the sender's interface: (its packets, its peer's)."""
    packets = run.sender
    return packets.where(packets.dport == FIRST_PORT), packets.where(packets.sport == FIRST_PORT)


# -- every record --------------------------------------------------------------

PATHS = {
    "clean": dict(bytes=400_000, queue_packets=300),        # all of it fits
    "loss": dict(bytes=1_500_000, loss_pct=2, rate_mbit=10),
    "queue": dict(bytes=1_500_000, queue_packets=20),
    "timeout": dict(bytes=600_000, change=[from_then_on(2, loss_pct=100), from_then_on(6)]),
    "no_sack": dict(bytes=600_000, loss_pct=1, sender=SACK_OFF),
    "no_timestamps": dict(bytes=600_000, loss_pct=1, sender=TIMESTAMPS_OFF),
    "reordering": dict(bytes=1_000_000, line={"reorder_pct": 2}),
    "ipv6": dict(bytes=600_000, loss_pct=1, family=6),
    "ecn": dict(bytes=1_500_000, loss_pct=1, rate_mbit=10, line={"ecn": True}, sender=ECN_ON,
                receiver=ECN_ON),
}

# 4 s more delay: the timeout is for nothing.  3 s after the start the queue has dropped nothing yet: in
# a recovery the core does not undo.
SPURIOUS_TIMEOUT = dict(seconds=30, change=[from_then_on(3, delay_ms=4000), from_then_on(10)])


def while_traced(run, packets, count):
    """The first so many: the trace ends with the flow, right after its FIN."""
    ours, _ = sent_and_came(run)
    rest = packets.where(np.arange(len(packets)) >= count)
    assert (rest.t > ours.t[ours.flags & pcap.FIN > 0].min()).all()
    return packets.where(np.arange(len(packets)) < count)


def check_segments(run):
    """One record a segment, in the capture's order, with what its header says."""
    packets, _ = sent_and_came(run)
    rows = records(run, "segment_sent")
    packets = while_traced(run, packets, len(rows))
    for field in ("seq", "flags"):
        assert (rows[field] == getattr(packets, field)).all(), field
    assert (rows["len"] == packets.length).all()
    first = int(packets.seq[0])
    start = pcap.unwrap(packets.seq, first)
    size = packets.length + ((packets.flags & (pcap.SYN | pcap.FIN)) > 0)
    high = np.concatenate([[0], np.maximum.accumulate(start + size)[:-1]])
    again = (size > 0) & (start < high)
    assert (rows["retrans"] == again).all()
    assert (rows["sent_orig"] == np.cumsum(np.where(again, 0, packets.length))).all()
    info = run.json("flow-0.json")
    assert rows["len"].sum() == info["bytes_sent"]
    assert rows["len"][rows["retrans"] == 1].sum() == info["bytes_retrans"]
    assert (rows["retrans"] == 1).sum() == info["total_retrans"]
    assert (rows["len"] > 0).sum() == info["data_segs_out"]


def check_acks(run):
    """One record an ACK, in the capture's order, and of after it."""
    _, packets = sent_and_came(run)
    packets = packets.where(packets.flags & (pcap.ACK | pcap.RST) == pcap.ACK)
    rows = records(run, "ack_received")
    packets = while_traced(run, packets, len(rows))
    assert (rows["ack"] == packets.ack).all()
    assert (rows["len"] == packets.length).all()
    first = int(packets.ack[0])
    una = pcap.unwrap(rows["snd_una"].astype("i8"), first)
    assert (una == np.maximum.accumulate(pcap.unwrap(packets.ack, first))).all()
    assert (np.diff(rows["delivered"].astype("i8")) >= 0).all()
    shift = window_shift(run)
    assert (rows["rwnd"][1:] >> shift == np.maximum.reduce(
        [packets.window[1:]])).mean() > 0.9     # an old ACK's window is not taken
    info = run.json("flow-0.json")
    assert rows["delivered"].max() >= info["delivered"]
    assert info["rtt"] in rows["srtt_us"]


def window_shift(run):
    _, packets = sent_and_came(run)
    return pcap.options(packets.raw[0])[3][0]


def check_chain(rows):
    """From the first on, each change begins where the last ended, and is one."""
    assert rows["reason"][0] == FIRST and (rows["reason"][1:] != FIRST).all()
    moved = np.zeros(len(rows) - 1, bool)
    for field in ("cwnd", "ssthresh", "clamp"):
        assert (rows[f"{field}_old"][1:] == rows[field][:-1]).all(), field
        assert rows[f"{field}_old"][0] == rows[field][0]
        moved |= rows[f"{field}_old"][1:] != rows[field][1:]
    assert moved.all()


def check_windows(run):
    """No gap, no record without a change but the first, and the end is what TCP_INFO says."""
    rows = records(run, "cwnd_changed")
    check_chain(rows)
    info = run.json("flow-0.json")
    assert (rows["cwnd"][-1], rows["ssthresh"][-1]) == (info["snd_cwnd"], info["snd_ssthresh"])
    assert (rows["reason"] != OTHER).all()


def check_agreement(run):
    """At every ACK and every segment the window is the one that the last change left."""
    when = times(run, "cwnd_changed")
    rows = records(run, "cwnd_changed")
    # A segment's record comes after a change found at it; an ACK's before the change it made.
    sent, at = records(run, "segment_sent"), times(run, "segment_sent")
    last = np.searchsorted(when, at, side="right") - 1
    assert (sent["cwnd"] == rows["cwnd"][last]).all()
    acks, at = records(run, "ack_received"), times(run, "ack_received")
    after = np.searchsorted(when, at, side="right")
    same = (acks["cwnd"] == rows["cwnd"][after - 1]) & (acks["ssthresh"] == rows["ssthresh"][after - 1])
    known = np.where(same, after - 1, np.minimum(after, len(rows) - 1))
    assert (acks["cwnd"] == rows["cwnd"][known]).all()
    assert (acks["ssthresh"] == rows["ssthresh"][known]).all()


@pytest.mark.parametrize("path, cc", pairs_in_turn(
    list(itertools.product(PATHS, ["hybla_full", "cubic", "bbr"]))))
def test_every_record(logged, cc, path):
    run = logged(cc, **PATHS[path])
    check_segments(run)
    check_acks(run)
    check_windows(run)
    check_agreement(run)
    retransmitted = records(run, "segment_sent")["retrans"].sum()
    if path == "clean":
        assert not retransmitted
    elif path != "ecn":
        assert retransmitted
    if path == "timeout":
        assert counts(run)[RTO]


def test_records_name_the_flow_they_belong_to(logged):
    """Addresses, ports, namespace, socket and congestion control, of both families."""
    for family, source, peer in ((4, "::ffff:192.0.2.1", "::ffff:192.0.2.10"),
                                 (6, "2001:db8::1", "2001:db8:0:2::2")):
        run = logged("cubic", bytes=20_000, family=family,
                     before=["ip netns exec sender stat -L -c %i /proc/self/ns/net > $OUT/netns"])
        for event in ("segment_sent", "ack_received", "cwnd_changed"):
            rows = records(run, event)
            assert len(rows) > 2
            for row in rows:
                assert ipaddress.ip_address(bytes(row["saddr"])) == ipaddress.ip_address(source)
                assert ipaddress.ip_address(bytes(row["daddr"])) == ipaddress.ip_address(peer)
                assert bytes(row["cc"]).rstrip(b"\0") == b"cubic"
            assert set(rows["dport"]) == {FIRST_PORT} and len(set(rows["sport"])) == 1
            assert set(rows["netns"]) == {int(run.read("netns"))}
            assert len(set(rows["cookie"])) == 1 and rows["cookie"][0]
            upper = int(ipaddress.ip_address(peer)) >> 64
            assert set(rows["daddr6"]) == {upper}
            assert set(rows["daddr4"]) == ({0xC000020A} if family == 4 else {0})


# -- every reason --------------------------------------------------------------

def test_growth_is_the_acks(logged):
    run = logged("reno", bytes=300_000)
    assert set(changes(run, ACK)["cwnd"].astype("i8") - changes(run, ACK)["cwnd_old"]) == {1, 2} or \
        (changes(run, ACK)["cwnd"] > changes(run, ACK)["cwnd_old"]).all()
    assert set(np.flatnonzero(counts(run))) == {FIRST, ACK}


def test_recovery_and_growth_have_different_causes(logged):
    """From ssthresh() to the last ACK of Recovery, which makes the window ssthresh: 0.2 s without a
    packet leave it below that till then."""
    run = logged("reno", bytes=3_000_000, rate_mbit=10,
                 change=[from_then_on(5, loss_pct=100), from_then_on(5.2)])
    rows = changes(run, RECOVERY)
    entered = rows[rows["ssthresh"] < rows["ssthresh_old"]]
    assert len(entered)
    assert (entered["ssthresh"] == np.maximum(entered["cwnd_old"] // 2, 2)).all()
    assert (changes(run, ACK)["cwnd"] >= changes(run, ACK)["cwnd_old"]).all()
    ended = rows[rows["ca_state"] == OPEN]
    ended = ended[ended["cwnd"] != ended["cwnd_old"]]
    assert len(ended) and (ended["cwnd"] == ended["ssthresh"]).all()


def test_timeout(logged):
    run = logged("reno", **PATHS["timeout"])
    rows = changes(run, RTO)
    assert len(rows) and (rows["cwnd"] <= rows["in_flight"] + 1).all()
    assert (rows["cwnd"][rows["cwnd"] != rows["cwnd_old"]] < 3).all()


def test_undo(logged):
    run = logged("reno", **SPURIOUS_TIMEOUT)
    rows = changes(run, UNDO)
    assert len(rows) and (rows["cwnd"] > rows["cwnd_old"]).all()
    assert (rows["ssthresh"] >= rows["ssthresh_old"]).all()


def test_ecn_is_cwr(logged):
    run = logged("reno", **PATHS["ecn"])
    rows = changes(run, CWR)
    assert len(rows) and (rows["ssthresh"] < rows["ssthresh_old"]).any()
    assert not (changes(run, RECOVERY)["ca_state"] == STATE_CWR).any()
    assert (rows["ca_state"] == STATE_CWR).sum() > 3        # proportional rate reduction
    assert run.json("flow-0.json")["delivered_ce"]


def test_idle(logged):
    """4 s of silence after 200 kB; the restart halves the window for each RTO."""
    run = logged("reno", bytes=400_000, flow={"pause_ms": 10_000})
    row, = changes(run, IDLE)
    assert row["cwnd"] < row["cwnd_old"]


def test_app_limited(logged):
    """The core takes away what an application has not used for an RTO, but counts from the last
    ACK.  11 segments every 200 ms: a long path makes the window large, a short one the RTO small,
    and then the ACKs of one write are not back when the next is due."""
    run = logged("reno", rtt_ms=50, rate_mbit=10, queue_packets=100, bytes=1_600_000,
                 flow={"write_bytes": 15_000, "write_ms": 200},
                 change=[from_then_on(0.5, delay_ms=575), from_then_on(8, delay_ms=25),
                         from_then_on(14, delay_ms=225)])
    rows = changes(run, APP_LIMITED)
    assert len(rows) and (rows["cwnd"] < rows["cwnd_old"]).all()
    # Each is found at the next segment or ACK, and before that is worked on.
    when = times(run, "cwnd_changed")[records(run, "cwnd_changed")["reason"] == APP_LIMITED]
    after = np.sort(np.concatenate([times(run, "segment_sent"), times(run, "ack_received")]))
    assert (after[np.searchsorted(after, when)] - when < 100_000).all()


def test_switch(logged):
    """The kernel's hybla begins with a window of 2, in mid-flow too: the switch is the reason."""
    run = logged("cubic", bytes=600_000, changes=[[1500, "hybla"]])
    rows = records(run, "cwnd_changed")
    named = [bytes(name).rstrip(b"\0") for name in rows["cc"]]
    assert named[0] == b"cubic" and named[-1] == b"hybla"
    row, = changes(run, SWITCH)
    assert row["cwnd"] < row["cwnd_old"] and row["ssthresh"] == row["ssthresh_old"]


def test_init(lab, geo):
    """A lost SYN and its timeout leave a window of 1, which the start sets right; an ssthresh from
    the metrics cache is of the start too."""
    run = lab.run(geo("reno", bytes=20_000, loss_pct=100, change=[from_then_on(0.5)], **LOGGED))
    row, = changes(run, RTO)
    assert row["cwnd"] == 1
    row, = changes(run, INIT)
    assert (row["cwnd_old"], row["cwnd"]) == (1, 10) and row["ssthresh"] > row["ssthresh_old"]
    transfer = decisions.with_ssthresh(geo("reno", bytes=20_000, **LOGGED), 25)
    rows = records(lab.run(transfer), "cwnd_changed")
    rows = rows[rows["dport"] == FIRST_PORT + 1]
    row, = rows[rows["reason"] == INIT]
    assert row["ssthresh"] == 25 < row["ssthresh_old"]


# -- every call of a congestion control ---------------------------------------------

(CALL_INIT, CALL_RELEASE, SSTHRESH, CONG_AVOID, SET_STATE, CWND_EVENT, IN_ACK_EVENT, PKTS_ACKED,
 UNDO_CWND, CONG_CONTROL) = range(1, 11)
# What the kernel's own have, by their source.
CALLBACKS = {
    "hybla": {CALL_INIT, SSTHRESH, CONG_AVOID, SET_STATE, UNDO_CWND},
    "cubic": {CALL_INIT, SSTHRESH, CONG_AVOID, SET_STATE, CWND_EVENT, PKTS_ACKED, UNDO_CWND},
    "reno": {SSTHRESH, CONG_AVOID, UNDO_CWND},
}
WAYS = {
    "loss": PATHS["loss"],
    "timeout": PATHS["timeout"],
    "undo": SPURIOUS_TIMEOUT,
}


@pytest.fixture(scope="session")
def called(lab, geo):
    """Play one flow with its congestion control's calls on record; none is lost."""
    def play(cc, names=None, **rest):
        run = lab.run(geo(cc, modules={"satcc_log": {"callbacks_of": names or cc}}, after=[LOST],
                          trace=EVERYTHING,
                          **rest))
        assert run.read("lost") == b"0\n"
        return run
    return play


def calls(run, *kinds):
    """(times, records) of these callbacks, or of all."""
    rows, when = records(run, "cc_call"), times(run, "cc_call")
    wanted = np.isin(rows["call"], kinds or range(256))
    return when[wanted], rows[wanted]


def before_it(times_of, when):
    """The place of the last of some times that is not after each of others."""
    return np.searchsorted(times_of, when, side="right") - 1


@pytest.mark.parametrize("cc, way", pairs_in_turn(list(itertools.product(CALLBACKS, WAYS))))
def test_every_call(called, cc, way):
    """Against the capture and the window as it changed."""
    run = called(cc, **WAYS[way])
    when, rows = calls(run)
    assert {bytes(name).rstrip(b"\0").decode() for name in rows["cc"]} == {cc}
    assert CALLBACKS[cc] - {UNDO_CWND} <= set(rows["call"]) <= CALLBACKS[cc]
    assert np.count_nonzero(rows["call"] == CALL_INIT) == (CALL_INIT in CALLBACKS[cc])
    # Nothing else writes the private bytes.
    assert (rows["priv_old"][1:] == rows["priv"][:-1]).all()
    _, came = sent_and_came(run)
    # One cong_avoid for each ACK it is given, which is the one that has just come.
    at, grown = calls(run, CONG_AVOID)
    assert (grown["ack"] == came.ack[before_it(came.t, at)]).all()
    assert (grown["snd_una"] == grown["ack"]).all() and (np.diff(at) > 0).all()
    # What it did to the window is what the window did, change by change.
    changed = changes(run, ACK)
    changed = changed[changed["cwnd"] != changed["cwnd_old"]]
    grown = grown[grown["cwnd"] != grown["cwnd_old"]]
    for field in ("cwnd_old", "cwnd"):
        assert changed[field].tolist() == grown[field].tolist()
    # What ssthresh() returned is the next ssthresh, and each that fell did by it.
    _, rows = calls(run, SSTHRESH)
    fell = records(run, "cwnd_changed")
    fell = fell[np.isin(fell["reason"], (RECOVERY, CWR, RTO)) &
                (fell["ssthresh"] != fell["ssthresh_old"])]
    returned = rows["ret"][rows["ret"] != rows["ssthresh_old"]]
    assert len(fell) and returned.tolist() == fell["ssthresh"].tolist()
    # And what undo_cwnd() returned the next cwnd.
    _, rows = calls(run, UNDO_CWND)
    undone = changes(run, UNDO)
    returned = rows["ret"][rows["ret"] != rows["cwnd_old"]]
    assert returned.tolist() == undone["cwnd"][undone["cwnd"] != undone["cwnd_old"]].tolist()
    # Of hybla's train so much is lost that the timeout is for something.
    assert way != "undo" or cc == "hybla" or len(returned)


@pytest.mark.parametrize("cc", ["cubic", "reno"])
def test_calls_begin_from_the_cores_state(called, cc):
    """tcp_probe tells cwnd and tcp_current_ssthresh() before each ACK is worked on; in Open nothing
    comes between it and the first callback, but the end of a reduction."""
    run = called(cc, **WAYS["loss"])
    at, rows = calls(run, PKTS_ACKED if cc == "cubic" else CONG_AVOID)
    probed = run.events["tcp:tcp_probe"]
    last = before_it(probed[0].astype("i8"), at)
    ended = times(run, "cwnd_changed")[
        np.isin(records(run, "cwnd_changed")["reason"], (RECOVERY, CWR, UNDO))]
    alone = (last >= 0) & (rows["ca_state_old"] == OPEN)
    alone &= before_it(ended, at) == before_it(ended, probed[0].astype("i8")[last])
    assert alone.sum() > max(0.5 * (rows["ca_state_old"] == OPEN).sum(), 200)
    rows, probes = rows[alone], probed[1][last[alone]]
    assert (rows["cwnd_old"] == probes["snd_cwnd"]).all()
    current = np.maximum(rows["ssthresh_old"], (rows["cwnd_old"] >> 1) + (rows["cwnd_old"] >> 2))
    assert (current == probes["ssthresh"]).all()


def test_pkts_acked_is_called_for_each_ack(called):
    """Once for each that came while something was outstanding, as the capture has it."""
    run = called("cubic", **PATHS["loss"])
    packets, came = sent_and_came(run)
    _, rows = calls(run, PKTS_ACKED)
    first = int(packets.seq[0])
    end = (pcap.unwrap(packets.seq, first) + packets.length + ((packets.flags & (
        pcap.SYN | pcap.FIN)) > 0))
    high = np.maximum.accumulate(end)
    acked = np.maximum.accumulate(pcap.unwrap(came.ack, first))
    prior = np.concatenate([[0], acked[:-1]])
    outstanding = high[before_it(packets.t, came.t)] > prior
    # The trace ends with the last byte's ACK; what is the FIN's may be in it or not.
    data = outstanding & (prior < end[packets.length > 0].max())
    assert data.sum() <= len(rows) <= outstanding.sum() and data.sum() > 500
    assert (rows["snd_una"][:data.sum()] == (first + acked[data]) % 2**32).all()
    assert rows["arg"].sum() > 0


@pytest.mark.parametrize("names", ["reno", long("hybla"), "hybla,reno"])
def test_only_named_congestion_controls_have_calls(lab, geo, names):
    """hybla's ssthresh() is reno's function: hooked once, of whichever is named."""
    transfer = geo("hybla", modules={"satcc_log": {"callbacks_of": names}}, after=[LOST],
                   trace=EVERYTHING, **PATHS["loss"])
    flows = tuple(Flow(cc, bytes=1_000_000) for cc in ("hybla", "reno"))
    run = lab.run(dataclasses.replace(transfer, flows=flows))
    assert run.read("lost") == b"0\n"
    _, rows = calls(run, SSTHRESH)
    seen = {bytes(name).rstrip(b"\0").decode() for name in records(run, "cc_call")["cc"]}
    assert seen == set(names.split(","))
    for number, cc in enumerate(("hybla", "reno")):
        own = rows[rows["dport"] == FIRST_PORT + number]
        fell = records(run, "cwnd_changed")
        fell = fell[(fell["dport"] == FIRST_PORT + number) & (fell["reason"] != INIT) &
                    (fell["ssthresh"] != fell["ssthresh_old"])]
        returned = own["ret"][own["ret"] != own["ssthresh_old"]].tolist()
        assert returned == (fell["ssthresh"].tolist() if cc in names.split(",") else [])
        assert len(fell)


# -- many, fast, on and off ------------------------------------------------------

@pytest.mark.long
def test_64_flows_and_20000_segments_a_second(lab, geo):
    """Every packet of the capture has its record; nothing was lost."""
    size = 2_000_000
    transfer = geo("cubic", rate_mbit=300, rtt_ms=20, queue_bdp=1, bytes=size,
                   modules={"satcc_log": {}},
                   after=[LOST, "ip netns exec sender cat /proc/net/netstat > $OUT/netstat"],
                   trace=[f"satcc:{event}" for event in EVENTS],
                   sender={"sysctl": {"net.ipv4.tcp_wmem": "4096 65536 262144"}})
    flows = tuple(Flow(cc, bytes=size) for cc in ("cubic", "hybla_full", "bbr", "reno") * 16)
    run = lab.run(dataclasses.replace(transfer, flows=flows))
    lost = int(run.read("lost"))
    sent, acks, windows = (records(run, event) for event in EVENTS)
    when = times(run, "segment_sent")
    a_second = np.searchsorted(when, when + 10**9) - np.arange(len(when))
    assert a_second.max() > 20_000
    unheard = 0
    for number in range(64):
        info = run.json(f"flow-{number}.json")
        own = sent[sent["dport"] == FIRST_PORT + number]
        assert (own["len"] > 0).sum() == info["data_segs_out"]
        assert own["len"].sum() == info["bytes_sent"]
        end = int(own["seq"][0]) + 1 + size
        # Work on ACKs that came before the FIN; a SYN-ACK sent again never gets that far.
        came = run.sender.where(run.sender.sport == FIRST_PORT + number)
        worked = acks["ack"][acks["dport"] == FIRST_PORT + number].astype("i8")
        unheard += (pcap.unwrap(came.ack, end) <= 0).sum() - (pcap.unwrap(worked, end) <= 0).sum()
        unheard -= (came.flags & pcap.SYN > 0).sum() - 1
        changed = windows[windows["dport"] == FIRST_PORT + number]
        check_chain(changed)
        changed = changed[pcap.unwrap(changed["snd_nxt"].astype("i8"), end) <= 0]   # no FIN yet
        assert (changed["cwnd"][-1], changed["ssthresh"][-1]) == (info["snd_cwnd"], info["snd_ssthresh"])
    # What came while the socket was busy is merged before it is worked on.
    names, values = run.read("netstat").decode().splitlines()[:2]
    merged = int(dict(zip(names.split(), values.split()))["TCPBacklogCoalesce"])
    assert merged <= unheard <= merged + lost


# -- a kernel without a function it needs -----------------------------------------

@pytest.fixture
def poorer(lab, tmp_path):
    """A satcc_log that looks for functions that are not there, one of each kind."""
    folder = tmp_path / "modules"
    image.copy_module_sources(folder)
    for policy in folder.glob("*/tcp_*.c"):         # the logger alone is built
        policy.unlink()
    main = folder / "modules/satcc_log_main.c"
    source = main.read_text()
    for function in ("tcp_enter_loss", "inet6_csk_xmit"):
        assert source.count(f'"{function}"') == 1
    main.write_text(source.replace('"tcp_enter_loss"', '"tcp_enter_lost"')
                    .replace('"inet6_csk_xmit"', '"inet6_csk_xmut"'))
    image.kbuild("module build", packages.headers(lab.image.release), folder)
    return image.stripped(folder / "modules/satcc_log.ko")


def test_a_missing_function_keeps_its_events_off_and_is_named(lab, poorer, tmp_path):
    """cwnd_changed needs both, segment_sent one, ack_received neither.  What was hooked before the
    missing one is taken out again."""
    script = """
        insmod ./satcc_log.ko
        cd /sys/kernel/tracing
        for event in segment_sent ack_received cwnd_changed; do
            if sh -c "echo 1 > events/satcc/$event/enable"; then echo $event; fi >> /run/out/on 2>&1
            grep -cE "^(tcp_|ip_queue_xmit|inet6_csk)" enabled_functions >> /run/out/hooks || :
            echo 0 > events/satcc/$event/enable
        done
        dmesg | grep satcc_log: > /run/out/said
        """
    files = machine.run_job(lab.snapshot, {"run": script.encode(), "satcc_log.ko": poorer},
                            tmp_path / "console").files
    assert [line for line in files["on"].decode().splitlines() if "_" in line and " " not in line] == [
        "ack_received"]
    assert files["hooks"].split() == [b"0", b"1", b"0"]
    output = files["said"].decode()
    assert "cannot hook inet6_csk_xmut" in output
    assert "the event segment_sent stays off" in output and "the event cwnd_changed stays off" in output
    assert "the event ack_received" not in output


# -- an event that is on before the module is loaded -----------------------------

def test_an_event_that_is_on_before_the_module_has_its_hooks(lab, foreign_module, tmp_path):
    """The names given at load are taken, and stay until the event is off."""
    script = """
        insmod ./early.ko
        modprobe satcc_log callbacks_of=cubic,reno
        cat /sys/module/satcc_log/parameters/callbacks_of > /run/out/names
        sh -c "echo reno > /sys/module/satcc_log/parameters/callbacks_of" 2> /run/out/refused || :
        cd /sys/kernel/tracing
        cat events/satcc/cc_call/enable enabled_functions > /run/out/on
        echo 0 > events/satcc/cc_call/enable
        cat enabled_functions > /run/out/off
        """
    early = foreign_module("early", lab.image.release).read_bytes()
    files = machine.run_job(lab.snapshot, {"run": script.encode(), "early.ko": early},
                            tmp_path / "console").files
    on, *hooked = files["on"].decode().splitlines()
    assert on == "1" and files["names"] == b"cubic,reno\n"
    assert {"cubictcp_cong_avoid", "tcp_reno_cong_avoid"} <= {line.split()[0] for line in hooked}
    assert files["refused"] and files["off"] == b""


# -- what it costs ---------------------------------------------------------------

@pytest.fixture(scope="module")
def overheads(lab, geo):
    """By mode: what the logger adds, see bench/measure/overhead.py."""
    base = geo("cubic", rate_mbit=10, bytes=2_000_000)
    return {row["mode"]: row for row in overhead.table([overhead.of_run(
        lab.run(overhead.scenario(base, mode), cost.files(lab.image.release)), mode)
        for mode in overhead.MODES])}


@pytest.mark.long
def test_without_an_event_on_the_logger_costs_nothing(overheads):
    """Within what two runs differ by that have other things in memory, some 50 of 50 000
    instructions.  That there are no hooks at all, satcc_log_module.sh tests."""
    off = overheads["no event on"]
    assert abs(off["per_segment"]) < 0.005 * off["busy_per_segment"]


@pytest.mark.long
def test_with_events_on_a_record_costs_less_than_3000_instructions(overheads):
    """Of a single event: what a packet costs, at either end, with its record or without."""
    for event in overhead.EVENTS:
        assert 300 < overheads[event]["per_packet"] < 3000
    assert 500 < overheads["all three"]["per_record"] < 3000
