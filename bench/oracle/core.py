# SPDX-License-Identifier: GPL-2.0
"""One flow under one congestion control, call by call: what all policies have in common.

A policy is a subclass of Flow. It carries its own state, takes nothing of it from the trace, and
says for each callback what cwnd, ssthresh, the value returned and every private field must be after
it. Given are the state of the core before the callback and the callback's arguments.

Between two calls the window belongs to the kernel's core; core_did() says what the core may do.
"""

from .arithmetic import avoid, climb_by_one
from .calls import (
    COMPLETE_CWR, CONG_AVOID, CONG_CONTROL, CWND_EVENT, CWND_RESTART, CWR, DISORDER, INIT,
    IN_ACK_EVENT, LOSS, NAMES, OPEN, PKTS_ACKED, RECOVERY, RELEASE, SET_STATE, SSTHRESH, STATES,
    TX_START_EVENT, UNDO)

INFINITE = 0x7FFFFFFF           # the kernel's ssthresh of a flow that has not learnt one
LARGEST_CWND = 1 << 30          # of the policies: no TCP window has more segments than bytes
UNUSED_NS = 190_000_000         # the core's shortest timeout, less what its clock rounds off
SYN_SENT, SYN_RECV, CLOSE = 2, 3, 7     # enum of TCP states
PACED_NONE, PACED_NEEDED = 0, 1
NO_RTT = 0xFFFFFFFF             # tcp_min_rtt() before the first sample


class Wrong(Exception):
    """The kernel did one thing and should have done another."""

    def __init__(self, what: str, should, found, because: str = ""):
        super().__init__(what, should, found, because)
        self.what, self.should, self.found, self.because = what, should, found, because


def same(what: str, actual, should, because: str = "") -> None:
    if actual != should:
        raise Wrong(what, should, actual, because)


def state_after(call) -> int:
    """The state of recovery once the call is over: set_state() is called before the state is set."""
    return call.arg if call.call == SET_STATE else call.ca_state


class Flow:
    """State of the model, and the expectation for the call at hand.

    For a call these hold what is expected after it; the handlers start from the values before it:
    cwnd, ssthresh, count (snd_cwnd_cnt), prr_delivered, paced (sk_pacing_status), ret.
    """

    MODULE = ""                 # the module with the parameters
    DEFAULTS: dict = {}         # parameters, as documented
    LAYOUT: dict = {}           # of the private bytes, where the run does not bring it
    FIELDS: tuple = ()          # private fields, each of the model's attribute of the same name
    CONTROL = False             # is there a cong_control()? Then the core leaves the window alone
    OWNER = True                # does the first private field say whose the bytes are?

    def __init__(self, parameters: dict, scenario):
        self.parameters = dict(self.DEFAULTS)
        for name, value in parameters.items():
            self.parameters[name] = int(value) if str(value).lstrip("-").isdigit() else value
        self.scenario = scenario
        self.last = None                # the call before
        self.owner = None               # what a private area of this socket and policy begins with
        self.limited_ns = 0             # when cwnd was last seen to be the limit
        self.cwnd = self.ssthresh = self.count = self.prr_delivered = self.paced = self.ret = 0
        self.handlers = {
            INIT: self.init, RELEASE: self.release, SSTHRESH: self.reduce, CONG_AVOID: self.cong_avoid,
            SET_STATE: self.set_state, CWND_EVENT: self.cwnd_event, IN_ACK_EVENT: self.in_ack_event,
            PKTS_ACKED: self.pkts_acked, UNDO: self.undo, CONG_CONTROL: self.cong_control,
            TX_START_EVENT: self.cwnd_event}
        self.zero()

    # -- one call -------------------------------------------------------------------

    def take(self, call) -> None:
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
            same("private bytes", call.new, call.old, "the callback has no use for them")
        self.last = call
        if call.cwnd_limited:
            self.limited_ns = call.t_ns

    def come_back(self) -> None:
        """The socket had another policy since the last call: of what the core did meanwhile nothing is
        known.  A policy with an owner's word finds by that whose its private bytes are."""
        if not self.OWNER:
            self.last = None

    def disconnected(self, call) -> None:
        """tcp_disconnect() has come between the last call and this one: ssthresh is unknown again, and
        set_state(Open) is called on zeros.  A policy that looks at its bytes there runs its init() on
        them, with the smallest RTT that the core keeps.  The socket has lost its port by then, which the
        trace is filtered by, so there is no record.
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
        """Are the private bytes this policy's, as it finds them?"""
        if not self.OWNER:
            return self.last is not None
        return self.owner is not None and call.old.owner == self.owner

    def looks(self, call) -> bool:
        """Does the callback look at the private bytes?  Not the kernel's ssthresh() and undo_cwnd()."""
        return self.has(self.handlers[call.call].__name__) or call.call not in (SSTHRESH, UNDO)

    def adopt(self, call) -> None:
        """A call of before init(), or on bytes of another policy's: ours then run their own init(); the
        kernel's start from the zeros that the core gave them."""
        if self.OWNER:
            self.init(call)
        else:
            self.zero()
            self.compare_fields(call.old, "nobody has written to it yet")

    def compare(self, call) -> None:
        """Compare the kernel after the call with the model."""
        for what, actual, should in (
                ("cwnd", call.cwnd, self.cwnd), ("ssthresh", call.ssthresh, self.ssthresh),
                ("returned", call.ret, self.ret), ("snd_cwnd_cnt", call.cwnd_cnt, self.count),
                ("pacing_status", call.pacing_status, self.paced),
                ("prr_delivered", call.prr_delivered, self.prr_delivered),
                ("delivered", call.delivered, call.delivered_old)):
            if actual != should:
                raise Wrong(what, should, actual, self.basis())

    def compare_private(self, call) -> None:
        """Compare the private bytes after the call with the model."""
        if self.OWNER:
            if self.owner is None:
                self.owner = call.new.owner
            if not call.new.owner or call.new.owner != self.owner:
                raise Wrong("owner", self.owner or "not 0", call.new.owner, "of one socket and policy")
        self.compare_fields(call.new, self.basis())

    def compare_fields(self, state, because: str) -> None:
        missing = set(state._fields) - set(self.FIELDS) - {"owner"}
        if missing:
            raise Wrong("private fields", "each in the model", ", ".join(sorted(missing)))
        for name in self.live_fields():
            if getattr(state, name) != getattr(self, name):
                raise Wrong(name, getattr(self, name), getattr(state, name), because)

    def live_fields(self) -> tuple:
        """Of FIELDS those that mean something now: members of a union do not all."""
        return self.FIELDS

    # -- callbacks, by default ----------------------------------------------------------

    def zero(self) -> None:
        """The state of a flow that is new to the policy: all fields 0."""
        for name in self.FIELDS:
            setattr(self, name, 0)

    def init(self, call) -> None:
        self.zero()

    def release(self, call) -> None:
        """Nothing."""

    def cong_avoid(self, call) -> None:
        raise Wrong("call", "no cong_avoid()", "one", "the policy has none")

    def cong_control(self, call) -> None:
        raise Wrong("call", "no cong_control()", "one", "the policy has none")

    def reduce(self, call) -> None:
        """ssthresh(): Reno's."""
        self.ret = max(call.cwnd_old // 2, 2)

    def undo(self, call) -> None:
        """undo_cwnd(): Reno's."""
        self.ret = max(call.cwnd_old, call.prior_cwnd)

    def set_state(self, call) -> None:
        """Nothing."""

    def cwnd_event(self, call) -> None:
        """Nothing."""

    def in_ack_event(self, call) -> None:
        """Nothing."""

    def pkts_acked(self, call) -> None:
        """Nothing."""

    def basis(self) -> str:
        """The policy's state in words, for a difference."""
        return ", ".join(f"{name} {getattr(self, name)}" for name in self.FIELDS)

    # -- what policies share ------------------------------------------------------------

    def limited(self, call) -> bool:
        """Was cwnd the limit of what is in flight? RFC 7661: only then may it grow, and then it must."""
        return bool(call.cwnd_limited)

    def pace(self) -> None:
        """As BBR: have the socket paced, by fq if it is there."""
        self.paced = self.paced or PACED_NEEDED

    def reno_avoid(self, cwnd: int, clamp: int, acked: int) -> int:
        """tcp_cong_avoid_ai(): a segment for cwnd acknowledged, counted in snd_cwnd_cnt."""
        price, bought = cwnd, 0
        if self.count >= price:         # saved at a larger window: worth one segment
            self.count, bought = 0, 1
        paid, self.count = divmod(self.count + acked, price)
        return min(cwnd + bought + paid, clamp)

    # -- what the core may have done ------------------------------------------------------

    def has(self, callback: str) -> bool:
        """Has the policy this callback? Then its model has it too."""
        return getattr(type(self), callback) is not getattr(Flow, callback)

    def core_did(self, call) -> None:
        """Check that the core has moved cwnd and ssthresh as it must between the last call and this one.

        The core moves them
          - after undo_cwnd(): cwnd is what it returned, ssthresh that of before the reduction
          - after ssthresh(): ssthresh is what it returned
          - on a timeout: cwnd is what is in flight and 1, when set_state(Loss) is called
          - in CWR and Recovery, ACK by ACK (PRR), where there is no cong_control()
          - at the end of both: cwnd is ssthresh, unless the reduction was undone
          - after idle and after a time in which the application did not fill cwnd: down, and ssthresh up
            to 3/4 of the old cwnd, where there is no cong_control()
          - before the connection is established: the initial window

        A policy without set_state() is not told when a reduction or a timeout begins or ends; then
        there are only bounds.  Probes of the path's MTU, which are off by default, are not foreseen.
        """
        last = self.last
        if last.tcp_state in (SYN_SENT, SYN_RECV, CLOSE):
            return
        state = state_after(last)
        if self.has("set_state"):
            same("ca_state before the call", STATES[call.ca_state_old], STATES[state],
                 "no set_state() came in between")
        if call.cwnd_cnt_old not in (last.cwnd_cnt, 0):
            raise Wrong("snd_cwnd_cnt before the call", f"{last.cwnd_cnt} or 0", call.cwnd_cnt_old,
                        "the core sets it to 0 when it reduces, and else leaves it")
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
                        f"{NAMES[last.call]}() left it so, and the core has no reason to move it")

    @staticmethod
    def path_shrank(call, state: int) -> bool:
        """Is it Loss without a timeout: segments too large for the path are sent anew, cwnd is kept?"""
        return call.call == SET_STATE and call.arg == LOSS and state != LOSS \
            and not call.undo_marker and not call.prior_ssthresh \
            and call.cwnd_old != call.in_flight_old + 1

    def core_window(self, call, cwnd: int, ssthresh: int) -> tuple:
        """The core's cwnd when a call comes: (at least, at most, why).

        cwnd, ssthresh: as the last call left them, and what it returned.
        """
        last, state = self.last, state_after(self.last)
        reduced = max(cwnd, call.in_flight_old + 1, last.in_flight + 1)
        if ssthresh < INFINITE:
            reduced = max(reduced, ssthresh)
        else:               # of a policy that came in mid-recovery: as much as was delivered, and 1
            reduced = max(reduced, call.in_flight_old + 1 + max(
                call.delivered_old - last.delivered, call.prr_delivered_old - call.prr_out))
        ends = call.call == CWND_EVENT and call.arg == COMPLETE_CWR
        if call.call == SET_STATE and call.arg == LOSS and not self.path_shrank(call, state):
            timeout = call.in_flight_old + 1
            return timeout, timeout, "a timeout: what is in flight, and 1"
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
            return cwnd, cwnd, "the last call left it so, and the reduction is over"
        if not self.CONTROL and state in (CWR, RECOVERY) and not (
                last.call == UNDO and call.call == SET_STATE and call.mstamp_us == last.mstamp_us):
            return 1, reduced, "PRR gives no more"
        if not self.has("set_state"):
            if LOSS in (state, call.ca_state_old) or last.call == SSTHRESH \
                    or not self.CONTROL and call.ca_state_old in (CWR, RECOVERY):
                return 1, reduced, "a reduction or a timeout has come or gone"
        return cwnd, cwnd, "the last call left it so, and the core has no reason to move it"


class ByOneFlow(Flow):
    """A policy that is Reno but for what a segment is worth in congestion avoidance, where each
    segment acknowledged adds at most one.

    Credit is dropped when CWR, Recovery or Loss is entered and after idle.  Without SACK, where one
    ACK may deliver what came in round trips before, two segments of it count in full, the rest at
    Reno's worth.
    """

    ONE = 1                     # what gain and credit are in units of
    CREDIT = ""                 # the private field of the credit
    MAX_ACKED = None            # an ACK of more counts as one of so many

    def gain(self, call) -> int:
        """The growth for one acknowledged segment, in units of 1/ONE."""
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
    """A policy with a cong_control(): it sets cwnd in every state, and sk_pacing_rate.

    For a call: rate, bytes per second.  ratios: net.ipv4.tcp_pacing_ss_ratio and _ca_ratio, percent.
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
        same("pacing_rate", call.pacing_rate, self.rate, self.basis())


class Reno(Flow):
    """The kernel's Reno: a control, for what the core does to any policy."""

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
    """The core's: cwnd/2 + cwnd/4, each rounded down."""
    return (cwnd >> 1) + (cwnd >> 2)
