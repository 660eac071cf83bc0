# SPDX-License-Identifier: GPL-2.0
"""The model of one flow under one congestion control, with the parts common to all policies.

A policy is a subclass of Flow.  It keeps its own state and takes none of it from the trace.  Its input
is the state of the core before a callback, and the callback's arguments.  It computes cwnd, ssthresh,
the returned value and every private field after the callback.

Between two calls only the kernel's core changes the window; core_did() checks how.
"""

from functools import cache
from operator import attrgetter

from .arithmetic import avoid, climb_by_one
from .calls import (
    COMPLETE_CWR, CONG_AVOID, CONG_CONTROL, CWND_EVENT, CWND_RESTART, CWR, DISORDER, INIT,
    IN_ACK_EVENT, LOSS, NAMES, OPEN, PKTS_ACKED, RECOVERY, RELEASE, SET_STATE, SSTHRESH, STATES,
    TX_START_EVENT, UNDO)

INFINITE = 0x7FFFFFFF           # the kernel's ssthresh before a flow has a finite one
LARGEST_CWND = 1 << 30          # the policies' limit: a TCP window has at most 2^30 bytes
UNUSED_NS = 190_000_000         # the core's shortest timeout, less the rounding of its clock
SYN_SENT, SYN_RECV, CLOSE = 2, 3, 7     # enum of TCP states
PACED_NONE, PACED_NEEDED = 0, 1
NO_RTT = 0xFFFFFFFF             # tcp_min_rtt() before the first sample


class Wrong(Exception):
    """The kernel's value of `what` is `actual`, and the model's is `expected`."""

    def __init__(self, what: str, expected, actual, because: str = ""):
        super().__init__(what, expected, actual, because)
        self.what, self.expected, self.actual, self.because = what, expected, actual, because


def same(what: str, actual, expected, because: str = "") -> None:
    """Raise Wrong if the two values differ."""
    if actual != expected:
        raise Wrong(what, expected, actual, because)


@cache
def values_of(names: tuple):
    """A function that returns an object's attributes with these names."""
    return attrgetter(*names) if names else lambda _: ()


def state_after(call) -> int:
    """The state of recovery after the call: the core sets the state after it calls set_state()."""
    return call.arg if call.call == SET_STATE else call.ca_state


def is_timeout(call, reduced: int) -> bool:
    """Whether a call of set_state() with the state Loss follows a timeout.

    If not, the core resends segments that were too long for the path, and keeps cwnd.
    reduced: whether ssthresh() was the call before.  The core does not call it for a timeout in a
    reduction, but always sets cwnd to the flight and one segment.
    """
    old = call.ca_state_old
    return bool(reduced) or old == LOSS or old > DISORDER and call.cwnd_old == call.in_flight_old + 1


class Flow:
    """The model's state, and the values that it expects after the present call.

    A handler starts from the values before the call and changes them to those expected after it: cwnd,
    ssthresh, count (snd_cwnd_cnt), prr_delivered, paced (sk_pacing_status), ret (the returned value).
    """

    MODULE = ""                 # the module with the parameters
    DEFAULTS: dict = {}         # the documented defaults of the parameters
    LAYOUT: dict = {}           # layout of the private bytes, if the run does not have it
    FIELDS: tuple = ()          # private fields; the model has an attribute with the name of each
    CONTROL = False             # True: the policy has a cong_control(), and the core leaves cwnd alone
    OWNER = True                # True: the first private field is the word of the owner
    ANEW = False                # True: that word is 0 in SYN_SENT, so each callback there runs init()

    def __init__(self, parameters: dict, scenario):
        self.parameters = dict(self.DEFAULTS)
        for name, value in parameters.items():
            self.parameters[name] = int(value) if str(value).lstrip("-").isdigit() else value
        self.scenario = scenario
        self.last = None                # the call before
        self.owner = None               # the owner's word of this socket and policy
        self.limited_ns = 0             # time of the last call with cwnd_limited
        self.cwnd = self.ssthresh = self.count = self.prr_delivered = self.paced = self.ret = 0
        self.handlers = {
            INIT: self.init, RELEASE: self.release, SSTHRESH: self.reduce, CONG_AVOID: self.cong_avoid,
            SET_STATE: self.set_state, CWND_EVENT: self.cwnd_event, IN_ACK_EVENT: self.in_ack_event,
            PKTS_ACKED: self.pkts_acked, UNDO: self.undo, CONG_CONTROL: self.cong_control,
            TX_START_EVENT: self.cwnd_event}
        self.zero()

    # -- one call -------------------------------------------------------------------

    def take(self, call) -> None:
        """Compare a call with the model.  Raises Wrong at a difference."""
        if self.last and call.tcp_state == SYN_SENT and self.last.tcp_state not in (SYN_SENT, CLOSE):
            self.disconnected(call)
        owned = self.owns(call)
        if owned and call.call != INIT:
            if self.last:
                self.core_did(call)
            self.compare_fields(call.old, "before the call")
        self.cwnd, self.ssthresh, self.count = call.cwnd_old, call.ssthresh_old, call.cwnd_cnt_old
        self.paced, self.ret = call.pacing_status_old, 0
        self.prr_delivered = call.prr_delivered_old
        handler = self.handlers.get(call.call)
        if handler is None:
            raise Wrong("call", "one of " + ", ".join(NAMES.values()), call.call)
        looks = owned or not self.OWNER or self.looks(call)
        if call.call != INIT and not owned and looks:
            self.adopt(call)
        handler(call)
        self.compare(call)
        if looks:
            self.compare_private(call)
        else:
            same("private bytes", call.new, call.old, "the callback does not use them")
        self.last = call
        if call.cwnd_limited:
            self.limited_ns = call.t_ns

    def come_back(self) -> None:
        """The socket had another policy since the last call, so the core's changes are not known.

        A policy with an owner's word recognises its private bytes by that word.
        """
        if not self.OWNER:
            self.last = None

    def disconnected(self, call) -> None:
        """tcp_disconnect() came between the last call and this one.

        It makes ssthresh infinite and calls set_state(Open) on zeroed private bytes.  A policy that
        reads its bytes in that callback runs its init() on them, with the smallest RTT that the core
        keeps.  There is no record of this call, since the socket has no port then and the trace's filter
        tests the port.
        """
        opened = call._replace(
            call=SET_STATE, arg=OPEN, ssthresh_old=INFINITE, srtt_us8=0, delivered_old=0,
            bytes_sent=self.last.bytes_sent, min_rtt_us=self.last.min_rtt_us)
        self.last = None
        self.zero()
        if self.OWNER and self.looks(opened):
            self.cwnd, self.ssthresh, self.paced = opened.cwnd_old, INFINITE, opened.pacing_status_old
            self.init(opened)

    def owns(self, call) -> bool:
        """Whether the private bytes before the call are this policy's."""
        if not self.OWNER:
            return self.last is not None
        return self.owner is not None and call.old.owner == self.owner

    def looks(self, call) -> bool:
        """Whether the callback reads the private bytes.

        The kernel's ssthresh() and undo_cwnd() do not.
        """
        return self.has(self.handlers[call.call].__name__) or call.call not in (SSTHRESH, UNDO)

    def adopt(self, call) -> None:
        """A call before init(), or on another policy's bytes.

        Our policies then run their init().  The kernel's start from zeros, which the core has written.
        """
        if self.OWNER:
            self.init(call)
        else:
            self.zero()
            self.compare_fields(call.old, "no callback has written to it yet")

    def compare(self, call) -> None:
        """Compare the socket after the call with the model."""
        for what, actual, expected in (
                ("cwnd", call.cwnd, self.cwnd), ("ssthresh", call.ssthresh, self.ssthresh),
                ("returned", call.ret, self.ret), ("snd_cwnd_cnt", call.cwnd_cnt, self.count),
                ("pacing_status", call.pacing_status, self.paced),
                ("prr_delivered", call.prr_delivered, self.prr_delivered),
                ("delivered", call.delivered, call.delivered_old)):
            if actual != expected:
                raise Wrong(what, expected, actual, self.basis())

    def compare_private(self, call) -> None:
        """Compare the private bytes after the call with the model."""
        if self.ANEW and call.tcp_state == SYN_SENT and (call.call == INIT or not self.owns(call)):
            same("owner", call.new.owner, 0, "the handshake's bytes are not the connection's")
        elif self.OWNER:
            if self.owner is None:
                self.owner = call.new.owner
            if not call.new.owner or call.new.owner != self.owner:
                raise Wrong("owner", self.owner or "not 0", call.new.owner,
                            "it is constant for one socket and policy")
        self.compare_fields(call.new)

    def compare_fields(self, state, because: str = "") -> None:
        """Compare private fields with the model's.

        because: why they must be equal; "" gives basis(), which is computed at a difference only.
        """
        missing = set(state._fields).difference(self.FIELDS, ("owner",))
        if missing:
            raise Wrong("private fields", "each in the model", ", ".join(sorted(missing)))
        names = tuple(self.live_fields())
        values = values_of(names)
        if values(state) == values(self):
            return
        for name in names:
            if getattr(state, name) != getattr(self, name):
                raise Wrong(name, getattr(self, name), getattr(state, name), because or self.basis())

    def live_fields(self) -> tuple:
        """The FIELDS in use now; of a union's members only some are."""
        return self.FIELDS

    # -- default callbacks --------------------------------------------------------------

    def zero(self) -> None:
        """Set all fields to 0, as for a flow that is new to the policy."""
        for name in self.FIELDS:
            setattr(self, name, 0)

    def init(self, call) -> None:
        self.zero()

    def release(self, call) -> None:
        """Does nothing."""

    def cong_avoid(self, call) -> None:
        raise Wrong("call", "no cong_avoid()", "one", "the policy has none")

    def cong_control(self, call) -> None:
        raise Wrong("call", "no cong_control()", "one", "the policy has none")

    def reduce(self, call) -> None:
        """Reno's ssthresh()."""
        self.ret = max(call.cwnd_old // 2, 2)

    def undo(self, call) -> None:
        """Reno's undo_cwnd()."""
        self.ret = max(call.cwnd_old, call.prior_cwnd)

    def set_state(self, call) -> None:
        """Does nothing."""

    def cwnd_event(self, call) -> None:
        """Does nothing."""

    def in_ack_event(self, call) -> None:
        """Does nothing."""

    def pkts_acked(self, call) -> None:
        """Does nothing."""

    def basis(self) -> str:
        """The policy's state as text, for a difference."""
        return ", ".join(f"{name} {getattr(self, name)}" for name in self.FIELDS)

    # -- what policies share ------------------------------------------------------------

    def limited(self, call) -> bool:
        """Whether cwnd limits the flight.  RFC 7661: cwnd must grow then, and must not otherwise."""
        return bool(call.cwnd_limited)

    def cwnd_in_use(self, call) -> bool:
        """tcp_is_cwnd_limited() when the handler begins: in slow start cwnd may be twice the flight."""
        return bool(call.is_cwnd_limited) or \
            self.cwnd < self.ssthresh and self.cwnd < 2 * call.max_packets_out

    def pace(self) -> None:
        """Turn on pacing as BBR does; a socket that fq paces keeps fq's pacing."""
        self.paced = self.paced or PACED_NEEDED

    def reno_avoid(self, cwnd: int, clamp: int, acked: int) -> int:
        """tcp_cong_avoid_ai(): one segment for cwnd acknowledged ones, counted in snd_cwnd_cnt."""
        price, bought = cwnd, 0
        if self.count >= price:         # a count from a larger window is worth one segment
            self.count, bought = 0, 1
        paid, self.count = divmod(self.count + acked, price)
        return min(cwnd + bought + paid, clamp)

    # -- changes by the core --------------------------------------------------------------

    def has(self, callback: str) -> bool:
        """Whether the policy, and so its model, has this callback."""
        return getattr(type(self), callback) is not getattr(Flow, callback)

    def core_did(self, call) -> None:
        """Check the core's changes of cwnd and ssthresh between the last call and this one.

        The core changes them
          - after undo_cwnd(): cwnd is the returned value, ssthresh that before the reduction
          - after ssthresh(): ssthresh is the returned value
          - at a timeout: cwnd is in_flight + 1 when the core calls set_state(Loss)
          - in CWR and Recovery: PRR changes cwnd at each ACK, if there is no cong_control()
          - at the end of CWR and Recovery: cwnd is ssthresh, unless the reduction was undone
          - after idle, or if the application has not filled cwnd for some time: cwnd falls, and ssthresh
            rises to at least 3/4 of the old cwnd, if there is no cong_control()
          - before the connection is established: cwnd is the initial window

        If the policy has no set_state(), no record shows when a reduction or a timeout begins or ends,
        so there are only bounds.  The model does not have MTU probes, which are off by default.
        """
        last = self.last
        if last.tcp_state in (SYN_SENT, SYN_RECV, CLOSE):
            return
        state = state_after(last)
        if self.has("set_state"):
            same("ca_state before the call", STATES[call.ca_state_old], STATES[state],
                 "there was no set_state() in between")
        if call.cwnd_cnt_old not in (last.cwnd_cnt, 0):
            raise Wrong("snd_cwnd_cnt before the call", f"{last.cwnd_cnt} or 0", call.cwnd_cnt_old,
                        "the core only sets it to 0, at a reduction")
        cwnd, ssthresh = last.cwnd, last.ssthresh
        if last.call == SSTHRESH:
            ssthresh = last.ret
        elif last.call == UNDO:
            cwnd, ssthresh = last.ret, max(ssthresh, last.prior_ssthresh)
        raised = max(ssthresh, three_quarters(cwnd))
        if self.path_shrank(call, state):
            ssthresh = ssthresh if state in (CWR, RECOVERY) else raised
        elif not self.CONTROL and call.cwnd_old <= cwnd and call.ssthresh_old == raised and (
                last.call == CWND_EVENT and last.arg == CWND_RESTART or
                call.t_ns - self.limited_ns > UNUSED_NS and state == OPEN):
            return
        least, most, because = self.core_window(call, cwnd, ssthresh)
        if not least <= call.cwnd_old <= most:
            raise Wrong("cwnd before the call", least if least == most else f"{least} to {most}",
                        call.cwnd_old, f"{because} (state {STATES[state]})")
        if call.ssthresh_old != ssthresh:
            raise Wrong("ssthresh before the call", ssthresh, call.ssthresh_old,
                        f"{NAMES[last.call]}() left this value, and the core has no reason to change it")

    @staticmethod
    def path_shrank(call, state: int) -> bool:
        """Whether the call begins a Loss without a timeout.

        The core then retransmits segments that are too large for the path, and keeps cwnd.
        """
        return call.call == SET_STATE and call.arg == LOSS and state != LOSS \
            and not call.undo_marker and not call.prior_ssthresh \
            and call.cwnd_old != call.in_flight_old + 1

    def core_window(self, call, cwnd: int, ssthresh: int) -> tuple:
        """The bounds of the core's cwnd when a call begins: (at least, at most, why).

        cwnd, ssthresh: the values after the last call, or those that it returned.
        """
        last, state = self.last, state_after(self.last)
        reduced = max(cwnd, call.in_flight_old + 1, last.in_flight + 1)
        if not call.sack_ok:
            # Dupacks count as segments that arrived, and a partial ACK forgets them.
            reduced = max(reduced, call.packets_out + 1)
        arrived = call.delivered_old - last.delivered
        if ssthresh < INFINITE:
            reduced = max(reduced, ssthresh)
            if call.prior_cwnd and call.ca_state_old in (CWR, RECOVERY):
                # A policy set earlier in the recovery cut cwnd faster than PRR, which makes up for it.
                share = -(-ssthresh * call.prr_delivered_old // call.prior_cwnd)
                reduced = max(reduced, call.in_flight_old + arrived + share - call.prr_out)
        else:               # the policy was set during the recovery: in flight, delivered, and 1
            reduced = max(reduced, call.in_flight_old + 1 + max(
                arrived, call.prr_delivered_old - call.prr_out))
        ends = call.call == CWND_EVENT and call.arg == COMPLETE_CWR
        if call.call == SET_STATE and call.arg == LOSS and not self.path_shrank(call, state):
            timeout = call.in_flight_old + 1
            return timeout, timeout, "at a timeout it is in_flight + 1"
        if not self.CONTROL and ssthresh < INFINITE:
            if ends and call.ca_state_old == CWR:
                return ssthresh, ssthresh, "CWR is over"
            if ends and call.undo_marker and last.call != SET_STATE:
                return ssthresh, ssthresh, "Recovery is over"
            if call.call == SET_STATE and call.arg <= DISORDER and state == CWR \
                    and not self.has("cwnd_event"):
                return ssthresh, ssthresh, "CWR is over"
            if last.call == SET_STATE and last.arg == OPEN and last.ca_state_old == RECOVERY \
                    and last.undo_marker:
                return ssthresh, ssthresh, "Recovery is over"
        if last.call == CWND_EVENT and last.arg == COMPLETE_CWR:
            return cwnd, cwnd, "the last call left this value, and the reduction is over"
        if not self.CONTROL and state in (CWR, RECOVERY) and not (
                last.call == UNDO and call.call == SET_STATE and call.mstamp_us == last.mstamp_us):
            return 1, reduced, "PRR allows no more"
        if not self.has("set_state"):
            if LOSS in (state, call.ca_state_old) or last.call == SSTHRESH \
                    or not self.CONTROL and call.ca_state_old in (CWR, RECOVERY):
                return 1, reduced, "a reduction or a timeout may have begun or ended"
        return cwnd, cwnd, "the last call left this value, and the core has no reason to change it"


class ByOneFlow(Flow):
    """Reno with another growth per segment in congestion avoidance, of at most one segment.

    The credit is dropped at the start of CWR, Recovery or Loss, and after idle.  Without SACK one ACK
    may deliver segments of earlier round trips: two of its segments count in full, the rest as in Reno.
    """

    ONE = 1                     # gain and credit are in units of 1/ONE
    CREDIT = ""                 # the private field of the credit
    MAX_ACKED = None            # limit of the segments that an ACK counts for

    def gain(self, call) -> int:
        """The credit for one acknowledged segment, in units of 1/ONE."""
        raise NotImplementedError

    def init(self, call):
        self.zero()
        if self.parameters["pacing"]:
            self.pace()

    def cong_avoid(self, call):
        if not self.limited(call):
            return
        gain, limit = self.gain(call), min(call.clamp, LARGEST_CWND)
        acked = min(call.arg, self.MAX_ACKED or call.arg)
        cwnd, left = climb_by_one(self.cwnd, self.ssthresh, limit, acked)
        if left:
            counted = min(left, call.arg if call.sack_ok else 2)
            rest = left - counted
            credit = getattr(self, self.CREDIT)
            while counted and gain > cwnd * self.ONE and cwnd < limit:      # the bound
                cwnd, counted = cwnd + 1, counted - 1
            for each, count in ((gain, counted), (min(gain, self.ONE), rest)):
                if count:
                    cwnd, credit = avoid(cwnd, credit, limit, each, count, self.ONE)
            setattr(self, self.CREDIT, credit)
        self.cwnd = cwnd

    def looks(self, call):
        if call.call == SET_STATE:
            return call.arg > DISORDER
        return call.arg == CWND_RESTART if call.call == CWND_EVENT else super().looks(call)

    def set_state(self, call):
        if call.arg > DISORDER:
            setattr(self, self.CREDIT, 0)

    def cwnd_event(self, call):
        if call.arg == CWND_RESTART:
            setattr(self, self.CREDIT, 0)


class Control(Flow):
    """A policy with a cong_control(), which sets cwnd in every state, and sk_pacing_rate.

    rate: the expected sk_pacing_rate, bytes per second.
    ratios: net.ipv4.tcp_pacing_ss_ratio and _ca_ratio, percent.
    """

    CONTROL = True

    def __init__(self, parameters, scenario):
        self.rate = 0
        super().__init__(parameters, scenario)
        sysctl = scenario.sender.sysctl
        self.restarts = int(sysctl.get("net.ipv4.tcp_slow_start_after_idle", 1))
        self.ratios = [int(sysctl.get(f"net.ipv4.tcp_pacing_{name}_ratio", default))
                       for name, default in (("ss", 200), ("ca", 120))]

    def take(self, call):
        self.rate = call.pacing_rate_old
        super().take(call)

    def compare(self, call):
        super().compare(call)
        if call.pacing_rate != self.rate:
            raise Wrong("pacing_rate", self.rate, call.pacing_rate, self.basis())


class Reno(Flow):
    """The kernel's Reno.  As a control it tests the model of the core."""

    OWNER = False

    def cong_avoid(self, call):
        if not self.limited(call):
            return
        left = call.arg
        if self.cwnd < self.ssthresh:
            grown = min(self.cwnd + left, self.ssthresh)
            left -= grown - self.cwnd
            self.cwnd = min(grown, call.clamp)
            if not left:
                return
        self.cwnd = self.reno_avoid(self.cwnd, call.clamp, left)


def three_quarters(cwnd: int) -> int:
    """The core's 3/4 of cwnd: cwnd/2 + cwnd/4, each rounded down."""
    return (cwnd >> 1) + (cwnd >> 2)
