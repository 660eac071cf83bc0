# SPDX-License-Identifier: GPL-2.0
"""One flow as its trace tells it: what every policy's events have in common.

A policy is a subclass of Flow: it carries its own state from event to event, says what the
window must be, and compares.  Nothing of its state is ever taken from the trace's.
"""

from operator import attrgetter

from .arithmetic import climb_by_one, spend

INIT, START, AVOID, START_EXIT, HELD, SSTHRESH, UNDO, STATE, IDLE = range(1, 10)
OWN = 16                        # a policy's own events start here
OPEN, DISORDER, CWR, RECOVERY, LOSS = range(5)

NAMES = {INIT: "init", START: "start", AVOID: "avoid", START_EXIT: "start_exit", HELD: "held",
         SSTHRESH: "ssthresh", UNDO: "undo", STATE: "state", IDLE: "idle"}
STATES = ("Open", "Disorder", "CWR", "Recovery", "Loss")
ACKS = (START, AVOID, START_EXIT, HELD)

UNUSED_NS = 190_000_000         # the core's shortest timeout, less what its clock rounds off


class Wrong(Exception):
    """The trace says one thing and the oracle another."""

    def __init__(self, what: str, should, found, because: str = ""):
        super().__init__(what, should, found, because)
        self.what, self.should, self.found, self.because = what, should, found, because


def same(what: str, found, should, because: str = "") -> None:
    if found != should:
        raise Wrong(what, should, found, because)


class Flow:
    """What is known of a flow between two events.

    The window an event begins with is the one the last event ended with, and so is ssthresh,
    but for what the kernel's core does between our events, see core_moved().
    """

    STREAMS: dict = {}          # trace event -> the method that takes its records
    MODULE = ""                 # whose parameters count
    DEFAULTS: dict = {}         # the documented ones
    CODES: dict = {}            # names of the policy's own events
    ENTERING = STATE,           # events of entering CWR, Recovery or Loss

    def __init__(self, parameters: dict, scenario):
        self.parameters = dict(self.DEFAULTS)
        for name, value in parameters.items():
            self.parameters[name] = int(value) if str(value).lstrip("-").isdigit() else value
        self.scenario = scenario
        self.last = None                # the last event
        self.cwnd = self.ssthresh = 0   # after it
        self.min_rtt = 0                # us; 0: no sample yet
        self.reduced_from = None        # cwnd and ssthresh when ssthresh() was asked last
        self.begun = False              # init has been seen: a lost SYN has events before
        self.unshaken = True            # set up before the handshake was over
        self.grown_ns = 0               # when an ACK last found cwnd the limit
        self.handlers = {INIT: self.start, HELD: self.held, START: self.ack, AVOID: self.ack,
                         START_EXIT: self.ack, SSTHRESH: self.reduce, UNDO: self.undo,
                         STATE: self.state, IDLE: self.idle}

    # -- one event ------------------------------------------------------------

    def take(self, row) -> None:
        event = row.event
        if (self.last is not None and event != INIT
                and (row.cwnd_old != self.cwnd or row.ssthresh_old != self.ssthresh)):
            self.core_moved(row)
        handler = self.handlers.get(event)
        if handler is None:
            raise Wrong("event", "one of " + ", ".join(map(str, sorted(self.handlers))), event)
        self.begun = self.begun or event == INIT
        self.before(row)
        handler(row)
        self.after(row)
        self.last = row
        self.cwnd, self.ssthresh = row.cwnd, row.ssthresh

    def before(self, row) -> None:
        """RTT and whatever else is the same for every event."""

    def after(self, row) -> None:
        """The state the trace reports, against our own."""

    # -- events, by default -----------------------------------------------------

    def reset(self) -> None:
        """Forget all, as a flow that starts or changes to the policy does."""

    def drop(self, row) -> None:
        """What growth had accumulated is void."""

    def grow(self, row) -> int:
        """cwnd after an ACK for row.acked segments."""
        raise NotImplementedError

    def start(self, row) -> None:
        self.reset()
        self.unshaken = not row.srtt_us
        self.reduced_from = None
        self.unchanged(row)

    def ack(self, row) -> None:
        should = self.grow(row)
        if row.cwnd != should:
            raise Wrong("cwnd", should, row.cwnd, self.basis())
        if row.ssthresh != row.ssthresh_old:
            raise Wrong("ssthresh", row.ssthresh_old, row.ssthresh, "an ACK leaves it alone")
        self.grown_ns = row.t_ns
        kind = AVOID if row.cwnd_old >= row.ssthresh else \
            START if row.cwnd < row.ssthresh else START_EXIT
        if row.event != kind:
            raise Wrong("event", NAMES[kind], NAMES[row.event], "by cwnd and ssthresh")

    def held(self, row) -> None:
        self.unchanged(row)

    def reduce(self, row) -> None:
        same("cwnd", row.cwnd, row.cwnd_old, "asked for ssthresh it leaves cwnd alone")
        same("ssthresh", row.ssthresh, self.halved(row), self.basis())
        # What an undo goes back to: the core's tcp_current_ssthresh().
        prior = row.ssthresh_old if row.ca_state in (CWR, RECOVERY) else \
            max(row.ssthresh_old, three_quarters(row.cwnd_old))
        self.reduced_from = row.cwnd_old, prior

    def halved(self, row) -> int:
        return max(row.cwnd_old // 2, 2)

    def undo(self, row) -> None:
        same("ssthresh", row.ssthresh, row.ssthresh_old, "asked to undo it leaves ssthresh alone")
        if self.reduced_from:
            same("cwnd", row.cwnd, max(row.cwnd_old, self.reduced_from[0]),
                 f"{self.reduced_from[0]} is the window that was reduced")

    def state(self, row) -> None:
        self.unchanged(row)
        self.drop(row)

    def idle(self, row) -> None:
        self.unchanged(row)
        self.drop(row)

    def unchanged(self, row) -> None:
        if row.cwnd != row.cwnd_old:
            raise Wrong("cwnd", row.cwnd_old, row.cwnd, "this event leaves it alone")
        if row.ssthresh != row.ssthresh_old:
            raise Wrong("ssthresh", row.ssthresh_old, row.ssthresh, "this event leaves it alone")

    def basis(self) -> str:
        """The policy's state in words, for a difference."""
        return ""

    # -- RTT --------------------------------------------------------------------

    def sample(self, row, rtt_us: int, min_rtt_us: int) -> bool:
        """Follow the minimum of the RTT samples.  Is it a new one?

        row.acks counts the segments that came in since the flow's event before this one, -1
        where the trace does not have them.  With one there was at most one sample, and it is
        rtt_us.  With more (duplicate ACKs have samples and no event) the minimum may be one the
        trace does not show, but it cannot have grown.
        """
        seen = min(self.min_rtt, rtt_us) if self.min_rtt else rtt_us
        if min_rtt_us != seen:
            if row.acks == 1 or not 0 < min_rtt_us < seen:
                raise Wrong("min_rtt_us", seen, min_rtt_us,
                            f"the last sample is {rtt_us} us, the minimum before it "
                            f"{self.min_rtt or 'unknown'}")
            seen = min_rtt_us
        new = seen != self.min_rtt
        self.min_rtt = seen
        return new

    # -- what the core may have done ------------------------------------------------

    def core_moved(self, row) -> None:
        """cwnd or ssthresh is not what the last event left: had the core the right to it?

        cwnd may be anything
          - when the last event was in CWR or Recovery: PRR sets it, ACK by ACK
          - right after ssthresh() was asked: the reduction begins, or the timeout's
          - when Loss is entered, a timeout: segments in flight + 1
          - after a change to this policy during the handshake: the initial window
        and it may be less
          - after an idle restart: halved for each timeout that passed
          - when the application and not cwnd limited the flow for a timeout: between cwnd and
            what was used.  A window that grew was the limit then, and a timeout is 0.2 s and more
            longer than the round trip that may tell of.
        In both of these cases ssthresh is raised to 3/4 of the old cwnd.
        ssthresh may be what it was before the reduction after an undo, and 3/4 of cwnd when
        Loss is entered without ssthresh() being asked (the path's MTU became smaller).
        """
        last = self.last
        if self.unshaken and last.event == INIT:
            return
        timeout = row.event in self.ENTERING and row.ca_state == LOSS
        base = [self.ssthresh]
        if last.event == UNDO and self.reduced_from:
            base.append(max(self.ssthresh, self.reduced_from[1]))
        raised = [max(value, three_quarters(self.cwnd)) for value in base]
        anything = last.ca_state in (CWR, RECOVERY) or last.event == SSTHRESH or timeout
        slack = last.event == IDLE or row.t_ns - self.grown_ns > UNUSED_NS
        decayed = slack and row.cwnd_old < self.cwnd and row.ssthresh_old in raised
        if row.cwnd_old != self.cwnd and not anything and not decayed:
            raise Wrong("cwnd_old", self.cwnd, row.cwnd_old,
                        "the last event left it so, and the core had no reason to change it")
        free = [*base, *(raised if decayed or timeout or anything or last.event == IDLE else [])]
        if row.ssthresh_old not in free:
            raise Wrong("ssthresh_old", " or ".join(map(str, sorted(set(free)))), row.ssthresh_old,
                        "the last event left it so, and the core had no reason to change it")


class CreditFlow(Flow):
    """A policy that is Reno but for what a segment is worth in congestion avoidance.

    The rest of the division by cwnd is kept, and dropped when CWR, Recovery or Loss is entered
    and after idle.
    """

    ONE = 1                     # what the credit is in units of
    CREDIT = "credit", "credit_old"     # the trace's names of it

    def __init__(self, parameters, scenario):
        super().__init__(parameters, scenario)
        self.credit = self.old = 0
        self.of_credit, self.of_old = map(attrgetter, self.CREDIT)

    def reset(self):
        self.credit = self.old = 0

    def drop(self, row):
        self.credit = 0

    def worth(self, cwnd: int) -> int:
        """What a segment acknowledged earns, in units of 1/ONE, where the next one costs cwnd."""
        raise NotImplementedError

    def before(self, row):
        self.old = self.credit

    def grow(self, row):
        cwnd, left = climb_by_one(row.cwnd_old, row.ssthresh, row.limit, row.acked)
        if not left:
            return cwnd
        price = cwnd * self.ONE
        # Saved at a larger window it is worth just short of a segment: there is a bound to keep.
        credit = min(self.credit, price - 1)
        bought, self.credit = divmod(credit + left * self.worth(cwnd), price)
        return min(cwnd + bought, row.limit)

    def after(self, row):
        if self.of_credit(row) != self.credit:
            raise Wrong(self.CREDIT[0], self.credit, self.of_credit(row), self.basis())
        if row.event != INIT and self.of_old(row) != self.old:
            raise Wrong(self.CREDIT[1], self.old, self.of_old(row), self.basis())


class CountFlow(Flow):
    """A policy whose congestion avoidance is the kernel's: one segment for cwnd acknowledged.

    What is counted towards the next one is tcp_sock.snd_cwnd_cnt, which the core zeroes when a
    reduction or a timeout begins: before it asks for ssthresh or after.
    """

    def __init__(self, parameters, scenario):
        super().__init__(parameters, scenario)
        self.count = self.count_old = 0

    def before(self, row):
        if row.event == INIT:
            self.count = row.cnt_old            # what the policy before left
        elif row.event in (SSTHRESH, *self.ENTERING) and not row.cnt_old:
            self.count = 0
        self.count_old = self.count

    def pay(self, cwnd: int, limit: int, acked: int) -> int:
        bought, self.count = spend(cwnd, self.count, acked, one=1)
        return min(cwnd + bought, limit)

    def after(self, row):
        if row.cnt_old != self.count_old or row.cnt != self.count:
            raise Wrong("snd_cwnd_cnt", f"{self.count_old} and then {self.count}",
                        f"{row.cnt_old} and then {row.cnt}", self.basis())
        if row.event == SSTHRESH:
            self.count = 0


def three_quarters(cwnd: int) -> int:
    """The core's: cwnd/2 + cwnd/4, each rounded down."""
    return (cwnd >> 1) + (cwnd >> 2)
