# SPDX-License-Identifier: GPL-2.0
"""States of a connection that loss and reordering alone seldom reach, for every policy: each is seen to
have come about, then what the kernel did with the window, and that growth went on from there.

Each window and each private field the oracle recomputes, of every run here.
"""

import itertools

import pytest

from bench.measure import flow_view
from bench.oracle import calls
from bench.oracle.calls import (
    CONG_AVOID, CONG_CONTROL, CWR, INIT, LOSS, OPEN, RECOVERY, SET_STATE, SSTHRESH, UNDO)
from bench.oracle.core import SYN_SENT
from bench.paths import policies
from selftests.conftest import in_turn, long
from selftests.lab import situations
from selftests.lab.situations import BURST, COUNT, from_then_on

pytestmark = pytest.mark.lab

POLICIES = policies()
OWN_WINDOW = "satcc"            # cwnd is its W but for what is in flight; a loss need not reduce it
_turn = itertools.count()


def every_policy(test):
    return pytest.mark.parametrize("cc", in_turn(POLICIES, next(_turn), always=[OWN_WINDOW]))(test)


TIMESTAMPS_OFF = {"sysctl": {"net.ipv4.tcp_timestamps": 0}}
ECN_ON = {"sysctl": {"net.ipv4.tcp_ecn": 1}}
INFINITE = flow_view.INFINITE_SSTHRESH
# hybla_full at 600 ms with rho = 2, not 24: after a reduction its window is no larger than before within
# a round trip, and one ACK adds no more than it acknowledges.
GENTLE = {"hybla_full": {"tcp_hybla_full": {"rtt0_ms": 300}}}
# Of a segment acknowledged, in slow start: 2^2 - 1 and a fraction.
START_GAIN = {"hybla_full": 4}
MARK_PCT = {"westwood_abse": 80}        # what a mark leaves, at most; 50 of the others
AVOID_PCT: dict[str, int] = {}  # least growth in congestion avoidance, % of Reno's; 100 of the others


@pytest.fixture
def path(geo):
    """2 Mbit/s, 600 ms and a queue that nothing is lost to; the sender's counters are kept."""
    def make(cc, **rest):
        return geo(cc, queue_packets=1000, after=[COUNT], modules=GENTLE.get(cc, {}), **rest)
    return make


def records(run):
    """All calls of the flow's policy from the init() of its established connection on."""
    cc = run.scenario.flows[0].cc
    flow_calls = calls.of_run(run, {cc})[cc]
    return flow_calls[next(n for n, call in enumerate(flow_calls)
                      if call.call == INIT and call.tcp_state != SYN_SENT):]


def places(flow_calls, kind, arg=None):
    """Where in the records there are calls of a kind, and of an argument."""
    return [n for n, call in enumerate(flow_calls) if call.call == kind and arg in (None, call.arg)]


def acked(call):
    return call.rs_acked_sacked if call.call == CONG_CONTROL else call.arg


def after(one, other):
    """Of sequence numbers."""
    return 0 < (one - other) % (1 << 32) < 1 << 31


def acks(flow_calls):
    """ACKs of data that the policy is asked about; not the SYN-ACK."""
    return [call for call in flow_calls if call.call in (CONG_AVOID, CONG_CONTROL) and acked(call)
            and call.tcp_state != SYN_SENT]


def undisturbed(flow_calls):
    """The ACKs up to the next reduction."""
    return acks(flow_calls[:next(iter(places(flow_calls, SSTHRESH)), len(flow_calls))])


def renos(first, later, avoid_pct=100):
    """Reno's window after ACKs, from where the first of them finds it, with this part of its growth in
    congestion avoidance."""
    cwnd, credit = first.cwnd_old, 0
    for call in later:
        if not call.cwnd_limited:
            continue
        started = max(0, min(acked(call), call.ssthresh_old - cwnd))
        cwnd, credit = cwnd + started, credit + (acked(call) - started) * avoid_pct
        while credit >= 100 * cwnd:
            cwnd, credit = cwnd + 1, credit - 100 * cwnd
    return cwnd


def goes_on(cc, flow_calls, least=30):
    """From here to the next reduction the window grows, by no less than Reno's (or AVOID_PCT of it), but
    for the segment that is being paid for.  One ACK adds no more than it acknowledged, but for Hybla's
    slow start."""
    later = undisturbed(flow_calls)
    assert len(later) >= least
    assert later[-1].cwnd >= renos(later[0], later, AVOID_PCT.get(cc, 100)) - 1
    assert later[-1].cwnd > later[0].cwnd_old
    for call in later:
        gain = START_GAIN.get(cc, 1) if call.cwnd_old < call.ssthresh_old else 1
        assert call.cwnd - call.cwnd_old <= gain * acked(call), call


def most_left(cc, cwnd):
    """Of a window, after a mark or a full queue of this host."""
    return max(cwnd * MARK_PCT.get(cc, 50) // 100, 2)


def begins(flow_calls, count=40):
    """What a policy does at the first ACKs of a connection: (acknowledged, cwnd before and after,
    ssthresh) of each."""
    return [(acked(call), call.cwnd_old, call.cwnd, call.ssthresh) for call in acks(flow_calls)[:count]]


# -- CWR ---------------------------------------------------------------------------

@every_policy
def test_a_full_queue_of_this_host(lab, geo, cc):
    """The sender's own queue takes 20 packets at 2 Mbit/s and drops the next: no segment is lost, no ACK
    tells of it.  One reduction, CWR for a round trip, and growth from there."""
    # No capture: at the device it does not see what waits in the queue.
    run = lab.run(geo(cc, rate_mbit=10, seconds=12, capture=False, after=[COUNT], before=[
        "tc -n sender qdisc add dev right root netem rate 2mbit limit 20"], modules=GENTLE.get(cc, {})))
    flow_calls = records(run)
    entered = places(flow_calls, SET_STATE, CWR)[0]
    asked, state = flow_calls[entered - 1], flow_calls[entered]
    assert asked.call == SSTHRESH and not flow_calls[-1].lost and not flow_calls[-1].total_retrans
    left = next(n for n in places(flow_calls, SET_STATE, OPEN) if n > entered)
    assert not [call for call in flow_calls[entered:left] if call.call == SSTHRESH]
    if cc == OWN_WINDOW:
        assert state.new.w == state.old.w * 70 // 100 and flow_calls[left].cwnd < asked.cwnd_old
        return
    assert state.ssthresh <= most_left(cc, asked.cwnd_old)
    assert flow_calls[left].cwnd == state.ssthresh
    goes_on(cc, flow_calls[left + 1:])


@every_policy
def test_a_mark_in_recovery(lab, path, cc):
    """Segments are lost, and of those that follow some are marked.  Marks in Recovery ask for no second
    ssthresh, and what is reduced for them is not to be undone.  A mark still echoed when Recovery is
    over is a new one."""
    run = lab.run(path(cc, seconds=9, sender=ECN_ON, receiver=ECN_ON, change=[
        from_then_on(2.7, loss_pct=100), from_then_on(2.72),
        from_then_on(2.85, loss_pct=100, ecn=True), from_then_on(2.95)]))
    flow_calls = records(run)
    entered = places(flow_calls, SET_STATE, RECOVERY)[0]
    left = next(n for n in places(flow_calls, SET_STATE) if n > entered)
    assert run.json("flow-0.json")["delivered_ce"]
    # The core forgets what ssthresh was when an ACK in Recovery echoes a mark.
    assert flow_calls[entered].prior_ssthresh and not flow_calls[left].prior_ssthresh
    assert not places(flow_calls, UNDO) and not places(flow_calls[entered:left], SSTHRESH)
    if cc == OWN_WINDOW:
        obeyed = [call for call in flow_calls[entered:left] if call.new.marked and not call.old.marked]
        assert obeyed and all(call.new.w == call.old.w * 70 // 100 for call in obeyed)
        return
    assert flow_calls[left].cwnd <= most_left(cc, flow_calls[entered].prior_cwnd)
    ended = places(flow_calls, SET_STATE, OPEN)[-1]
    assert flow_calls[ended].cwnd <= most_left(cc, flow_calls[entered].prior_cwnd)
    goes_on(cc, flow_calls[ended + 1:])


# -- reductions for nothing -----------------------------------------------------------

def undone(run, counter):
    """The one undo of a run, which the kernel counts so: ssthresh is again what it was, and growth goes
    on from the undone window."""
    flow_calls, cc = records(run), run.scenario.flows[0].cc
    [n] = places(flow_calls, UNDO)
    call = flow_calls[n]
    assert situations.counters(run)[counter] == 1
    assert call.ret == max(call.cwnd_old, call.prior_cwnd)
    # westwood_abse goes on growing in Recovery, and may be beyond it; satcc has not reduced.
    assert call.ret > call.cwnd_old or cc in ("westwood_abse", OWN_WINDOW)
    following = acks(flow_calls[n:])[0]
    assert following.cwnd_old == call.ret and following.ssthresh_old == call.prior_ssthresh
    if cc == OWN_WINDOW:
        assert call.new.w >= call.old.epoch_prior_w and call.new.p_q16 == call.old.prior_p_q16
    else:
        goes_on(cc, flow_calls[n:])
    return call


@every_policy
def test_an_undo_by_dsack(lab, path, cc):
    """Some segments come 0.95 s late, after their retransmissions, and the receiver says so: the fast
    retransmit of a while ago is undone."""
    run = lab.run(path(cc, seconds=8, change=[from_then_on(1.9, delay_ms=1250), from_then_on(1.93)]))
    assert RECOVERY in {call.ca_state for call in records(run)}
    undone(run, "TCPDSACKUndo")


@every_policy
def test_an_undo_by_timestamps(lab, path, cc):
    """Some segments come 0.1 s late, before their retransmissions: the timestamps that the receiver
    echoes are older than these."""
    run = lab.run(path(cc, seconds=7, change=[from_then_on(2.7, delay_ms=400), from_then_on(2.73)]))
    call = undone(run, "TCPPartialUndo")
    assert call.ca_state_old == RECOVERY


@every_policy
def test_a_timeout_for_nothing(lab, path, cc):
    """From a moment on all segments take 5 s more.  Without timestamps F-RTO alone can tell: what the
    second ACK after the timeout acknowledges was never retransmitted."""
    run = lab.run(path(cc, seconds=16, sender=TIMESTAMPS_OFF, change=[from_then_on(1.5, delay_ms=5000)]))
    assert run.json("flow-0.json")["options"] & 3 == 2
    assert situations.counters(run)["TCPTimeouts"] == 1
    call = undone(run, "TCPSpuriousRTOs")
    assert call.ca_state_old == LOSS


# -- reductions for something ---------------------------------------------------------

@every_policy
def test_a_timeout_for_a_loss(lab, path, cc):
    """2.3 s without a packet.  After the timeout F-RTO sends new data at the first ACK, the next tells
    that all the old is lost: nothing is undone, slow start brings it back, in Loss."""
    run = lab.run(path(cc, seconds=14, change=[from_then_on(2.7, loss_pct=100), from_then_on(5)]))
    flow_calls = records(run)
    entered = places(flow_calls, SET_STATE, LOSS)[0]
    state = flow_calls[entered]
    assert places(flow_calls[:entered], SSTHRESH) and state.cwnd == state.in_flight + 1
    first, second = acks(flow_calls[entered:])[:2]
    assert first.ca_state == second.ca_state == LOSS
    assert after(second.snd_nxt, first.snd_nxt) and second.lost_out
    count = situations.counters(run)
    assert count["TCPTimeouts"] and not count["TCPSpuriousRTOs"] and not places(flow_calls, UNDO)
    assert count["TCPSlowStartRetrans"] > 20
    in_loss = [call for call in acks(flow_calls[entered:]) if call.ca_state == LOSS]
    jumps = [call for call in in_loss if call.cwnd - call.cwnd_old > acked(call)]
    assert len(jumps) == (cc == OWN_WINDOW)     # satcc's, to half of W
    if cc == OWN_WINDOW:
        assert jumps[0].cwnd == jumps[0].new.w // 2
        assert state.new.w == state.old.w * 70 // 100 <= in_loss[-1].cwnd == in_loss[-1].new.w
        return
    goes_on(cc, in_loss)
    goes_on(cc, flow_calls[entered:])


# -- the tail of a burst ----------------------------------------------------------------

def probe_repairs(flow_calls):
    """Tail losses that a probe has repaired: (ssthresh(), CWR, the state after, the next ACK)."""
    some = [call for call in flow_calls if call.call in (SSTHRESH, SET_STATE, CONG_AVOID, CONG_CONTROL)]
    return [tuple(some[n:n + 4]) for n, call in enumerate(some[:-3])
            if call.call == SSTHRESH and some[n + 1].call == SET_STATE and some[n + 1].arg == CWR
            and some[n + 2].call == SET_STATE and some[n + 2].arg < CWR]


@every_policy
def test_a_tail_loss(lab, geo, cc):
    """The last segment of a burst is lost, and a probe repairs it: one reduction, as for any one loss,
    begun and over with one ACK; no timeout, and the next window is what was reduced to."""
    run = situations.tail_losses(lab, geo, cc, 7, [(4, BURST - 1)], after=[COUNT],
                                 modules=GENTLE.get(cc, {}))
    flow_calls = records(run)
    count = situations.counters(run)
    assert flow_view.link_losses(run) == 1 == count["TCPLossProbeRecovery"]
    assert not count["TCPTimeouts"] and len(places(flow_calls, SSTHRESH)) == 1
    [(asked, entered, left, following)] = probe_repairs(flow_calls)
    assert entered.mstamp_us == left.mstamp_us
    assert left.cwnd == min(asked.ret, asked.cwnd_old) == following.cwnd_old or cc == "westwood_abse"
    assert asked.ret >= asked.cwnd_old // 2 and left.cwnd >= asked.cwnd_old // 2
    assert acks(flow_calls[places(flow_calls, SSTHRESH)[0]:])[-1].cwnd >= left.cwnd


@every_policy
def test_a_probe_for_nothing(lab, geo, cc):
    """The ACKs of a burst's tail are late, not lost, and a probe is sent for them: it costs nothing."""
    run = lab.run(geo(cc, bytes=60_000, rtt_ms=600, rate_mbit=0.5, after=[COUNT],
                      flow={"write_bytes": BURST * 1448, "write_ms": 3000},
                      modules=GENTLE.get(cc, {}), change=[LATE, IN_TIME]))
    flow_calls = records(run)
    count = situations.counters(run)
    assert count["TCPLossProbes"] == 1 == count["TCPDSACKRecv"]
    assert not places(flow_calls, SSTHRESH) and not count["TCPTimeouts"]


LATE = {"at_s": 6, "hop": "gateway", "reverse": {"delay_ms": 1400}}
IN_TIME = {"at_s": 8, "hop": "gateway", "reverse": {"delay_ms": 300}}


# -- how a connection begins ---------------------------------------------------------------

FIRST_BYTES = 80_000


def begins_alike(flow_calls, usual):
    """The first windows are the same; an ssthresh that is an estimate from the first ACKs' times is
    within a segment in fifty."""
    for got, should in zip(begins(flow_calls), begins(usual), strict=True):
        assert got[:3] == should[:3] and got[3] == pytest.approx(should[3], rel=0.02), (got, should)


@every_policy
def test_fast_open(lab, path, cc):
    """After the data that went with the SYN the windows are those of a connection without it.  A flow of
    hybla_full or satcc that has sent data has no train to estimate from: plain slow start."""
    usual = {"hybla_full": "ibk", "satcc": "ibk"}.get(cc, cc)
    run, without = (lab.run(path(name, bytes=FIRST_BYTES, flow=flow))
                    for name, flow in ((cc, {"fastopen": True}), (usual, {})))
    assert situations.counters(run)["TCPFastOpenActive"] == 1
    begins_alike(records(run), records(without))


@every_policy
def test_a_subflow(lab, path, cc):
    """Over Multipath TCP, of one subflow: its windows are a plain connection's."""
    run, usual = (lab.run(path(cc, bytes=FIRST_BYTES, flow=flow)) for flow in ({"mptcp": True}, {}))
    count = situations.counters(run)
    assert count["MPCapableSYNACKRX"] == 1 and not count["MPCapableFallbackSYNACK"]
    begins_alike(records(run), records(usual))


@every_policy
def test_a_socket_connected_again(lab, path, cc):
    """The same socket, disconnected and connected: its second transfer begins as its first did."""
    flow_calls = records(lab.run(path(cc, bytes=FIRST_BYTES, flow={"reconnect": True})))
    first, second = (n for n in places(flow_calls, INIT) if flow_calls[n].tcp_state != SYN_SENT)
    assert flow_calls[second].cwnd == flow_calls[first].cwnd == 10
    assert flow_calls[second].ssthresh == flow_calls[first].ssthresh
    begins_alike(flow_calls[second:], flow_calls[:second])


@pytest.mark.parametrize("cc, listener", [
    (cc, listener) if (cc, listener) in {("satcc", "hybla_full"), ("westwood_abse", "cubic")}
    else long(cc, listener) for cc in POLICIES
    for listener in ("cubic", "hybla_full", "westwood_abse") if listener != cc])
def test_a_listener_with_another(lab, path, cc, listener):
    """A server's listening socket has another policy, and what it accepts is given this one: the windows
    are those of a socket that had it from the start."""
    run, usual = (lab.run(path(cc, bytes=FIRST_BYTES, flow={"passive": True, **flow}))
                  for flow in ({"listener": listener}, {}))
    assert run.json("flow-0.json")["first_cc"] == listener
    begins_alike(records(run), records(usual))
