# SPDX-License-Identifier: GPL-2.0
"""The parts that the models of the kernel's own policies share: 32-bit arithmetic and jiffies.

The kernel's policies keep times in jiffies, which no record has.  jiffies are ticks of the clock of the
records' times,

    jiffies = floor((t - origin) / 4 ms)        HZ = 250, as Debian's kernels are built

with one origin for a machine's life.  The first private field with a time gives the origin to within a
tick.  Each further one must agree with it, and narrows it.  A record is written some microseconds after
the policy has read jiffies, and a tick's interrupt may be late.  So within LATE_NS after a tick the
value before it is possible too.  Only there the model takes the value that the kernel shows; at all
other times one value is possible.
"""

from .core import Flow

U32 = 1 << 32
HZ = 250
TICK_NS = 1_000_000_000 // HZ
LATE_NS = 200_000


def u32(value: int) -> int:
    return value % U32


def s32(value: int) -> int:
    return (value + (1 << 31)) % U32 - (1 << 31)


def after(a: int, b: int) -> bool:
    """The kernel's comparison of two sequence numbers or times."""
    return s32(a - b) > 0


def usecs_to_jiffies(us: int) -> int:
    """Jiffies for a time in us, rounded up."""
    return -(-us * HZ // 1_000_000)


def slow_start(cwnd: int, ssthresh: int, clamp: int, acked: int):
    """tcp_slow_start(): growth up to ssthresh, then the clamp.  Returns (cwnd, segments left)."""
    grown = min(cwnd + acked, ssthresh)
    return min(grown, clamp), acked - (grown - cwnd)


class Jiffies:
    """The values that jiffies may have at a time, from the values seen so far.

    The origin is in (low, high], in ns.
    """

    def __init__(self):
        self.low = self.high = None

    def at(self, t_ns: int) -> tuple:
        """The possible values at t_ns; () before the first value has been seen."""
        if self.low is None:
            return ()
        least = (t_ns - self.high - LATE_NS) // TICK_NS
        most = (t_ns - self.low - 1) // TICK_NS
        return tuple(u32(value) for value in range(least, most + 1))

    def seen(self, t_ns: int, values) -> None:
        """Record that jiffies had one of these values at t_ns.

        values: consecutive values; those of at(), if it returned any.
        """
        first, last = values[0], values[0] + u32(values[-1] - values[0])
        if self.low is not None:
            turns = round((t_ns - self.high - first * TICK_NS) / (U32 * TICK_NS))
            first, last = first + turns * U32, last + turns * U32
        low, high = t_ns - LATE_NS - (last + 1) * TICK_NS, t_ns - first * TICK_NS
        self.low = low if self.low is None else max(self.low, low)
        self.high = high if self.high is None else min(self.high, high)


class InKernel(Flow):
    """A policy of the kernel.  Its private bytes are zero before init() and have no owner's word, and
    some of its fields are jiffies."""

    OWNER = False

    def __init__(self, parameters, scenario):
        super().__init__(parameters, scenario)
        self.clock = Jiffies()

    def avoid(self, cwnd: int, clamp: int, price: int, acked: int) -> int:
        """tcp_cong_avoid_ai(): one segment for `price` acknowledged ones, counted in snd_cwnd_cnt."""
        if self.count >= price:
            self.count, cwnd = 0, cwnd + 1
        bought, self.count = divmod(self.count + acked, price)
        return min(cwnd + bought, clamp)

    def reno(self, call) -> None:
        """tcp_reno_cong_avoid()."""
        if not self.limited(call):
            return
        left = call.arg
        if self.cwnd < self.ssthresh:
            self.cwnd, left = slow_start(self.cwnd, self.ssthresh, call.clamp, left)
            if not left:
                return
        self.cwnd = self.avoid(self.cwnd, call.clamp, self.cwnd, left)

    def disagrees(self, call) -> int:
        """Number of values after the call that differ between the model and the kernel."""
        return sum(actual != expected for actual, expected in (
            (call.cwnd, self.cwnd), (call.ssthresh, self.ssthresh), (call.cwnd_cnt, self.count),
            (call.ret, self.ret),
            *((getattr(call.new, name), getattr(self, name)) for name in self.FIELDS)))

    def with_jiffies(self, call, decide, shown: int) -> None:
        """Call decide(now) with the possible value of jiffies at which the model agrees with the kernel.

        If there is none, it takes the value with the fewest differences, and compare() reports them.
        shown: the field with jiffies; it is used if no value has been seen before.
        """
        names = ("cwnd", "ssthresh", "count", "ret", *self.FIELDS)
        before = [getattr(self, name) for name in names]
        possible = self.clock.at(call.t_ns) or (shown,)
        decided = []
        for now in possible:
            for name, value in zip(names, before):
                setattr(self, name, value)
            decide(now)
            decided.append((self.disagrees(call), [getattr(self, name) for name in names]))
        least, chosen = min(decided, key=lambda entry: entry[0])
        for name, value in zip(names, chosen):
            setattr(self, name, value)
        if not least:
            self.clock.seen(call.t_ns, [now for now, (off, _) in zip(possible, decided) if not off])
