# SPDX-License-Identifier: GPL-2.0
"""cubic as in the kernel (net/ipv4/tcp_cubic.c), a control for the oracle.

S. Ha, I. Rhee, L. Xu, "CUBIC: a new TCP-friendly high-speed TCP variant", 2008, and S. Ha, I. Rhee,
"Taming the elephants: new TCP slow start", 2008 (HyStart).

    congestion avoidance    W(t) = C (t - K)^3 + W_max, K the cube root of (W_max - W) / C, C = 0.4
                            (41 * 10 / 1024); t is the time since the epoch's start plus the minimum RTT
                            one segment for cnt acknowledged ones, cnt = W / (W(t) - W), at least 2
                            at least as much as an AIMD with the same back-off, 717 / 1024
    slow start              Reno's, until the ACKs of a round have come close together for half a
                            minimum RTT (a whole one if paced) and the aggregation's delay, or until
                            8 samples of a round are all longer than the minimum by an eighth of it,
                            at least 4 ms and at most 16 ms
    a loss                  ssthresh = 717/1024 W; W_max is W, or less if W was still below W_max

Times are in 1/1024 s, from jiffies, rounded down.  W(t) is rounded down, and so is its distance from the
origin.  The cube root is the kernel's: a table and one step of Newton's method.
"""

from .calls import LOSS, TX_START
from .inkernel import HZ, InKernel, after, s32, slow_start, u32, usecs_to_jiffies

SCALE = 1024                    # of beta and bic_scale
BIC_SHIFT = 10                  # time is in 1/1024 s
TRAIN, DELAY = 1, 2             # of hystart_detect
SAMPLES = 8
DELAY_MIN_US, DELAY_MAX_US = 4000, 16000
AGGREGATE_US, GSO_MAX_BYTES = 1000, 65536
NO_RTT = 0xFFFFFFFF
UNPACED_RATE = (1 << 64) - 1

# The kernel's table of (cbrt(x << 18) - 1), refined by hand.
ROOTS = (0, 54, 54, 54, 118, 118, 118, 118, 123, 129, 134, 138, 143, 147, 151, 156,
         157, 161, 164, 168, 170, 173, 176, 179, 181, 185, 187, 190, 192, 194, 197, 199,
         200, 202, 204, 206, 209, 211, 213, 215, 217, 219, 221, 222, 224, 225, 227, 229,
         231, 232, 234, 236, 237, 239, 240, 242, 244, 245, 246, 248, 250, 251, 252, 254)


def cubic_root(a: int) -> int:
    """The kernel's cube root.  Its error is 0.2 % on average."""
    bits = a.bit_length()
    if bits < 7:
        return ROOTS[a] + 35 >> 6
    digits = (bits * 84 >> 8) - 1
    x = (ROOTS[a >> 3 * digits] + 10 << digits) >> 6
    return (2 * x + a // (x * (x - 1))) * 341 >> 10


class Cubic(InKernel):
    MODULE = "tcp_cubic"
    DEFAULTS = {"fast_convergence": 1, "beta": 717, "initial_ssthresh": 0, "bic_scale": 41,
                "tcp_friendliness": 1, "hystart": 1, "hystart_detect": 3, "hystart_low_window": 16,
                "hystart_ack_delta_us": 2000}
    # struct bictcp, the same in Linux 5.10 to 7.2: pahole -C bictcp vmlinux
    LAYOUT = {**{name: [4 * place, 4, False, 0, 32] for place, name in enumerate((
        "cnt", "last_max_cwnd", "last_cwnd", "last_time", "bic_origin_point", "bic_K", "delay_min",
        "epoch_start", "ack_cnt", "tcp_cwnd"))},
        "unused": [40, 2, False, 0, 16], "sample_cnt": [42, 1, False, 0, 8],
        "found": [43, 1, False, 0, 8],
        "round_start": [44, 4, False, 0, 32], "end_seq": [48, 4, False, 0, 32],
        "last_ack": [52, 4, False, 0, 32], "curr_rtt": [56, 4, False, 0, 32]}
    FIELDS = tuple(LAYOUT)
    CURVE = FIELDS[:FIELDS.index("unused")]

    def __init__(self, parameters, scenario):
        super().__init__(parameters, scenario)
        beta, scale = self.parameters["beta"], self.parameters["bic_scale"]
        self.friendly_scale = 8 * (SCALE + beta) // 3 // (SCALE - beta)
        self.c = scale * 10
        self.cube_factor = (1 << 10 + 3 * BIC_SHIFT) // self.c
        self.sent_ns = (0, 0)           # data was last sent between these times

    def take(self, call):
        if self.last is None or call.bytes_sent != self.last.bytes_sent:
            self.sent_ns = (self.last.t_ns if self.last else call.t_ns, call.t_ns)
        super().take(call)

    def forget(self):
        for name in self.CURVE:
            setattr(self, name, 0)
        self.found = 0

    def round(self, call):
        """Begin a round of HyStart."""
        self.round_start = self.last_ack = u32(call.mstamp_us)
        self.end_seq, self.curr_rtt, self.sample_cnt = call.snd_nxt, NO_RTT, 0

    def init(self, call):
        self.forget()
        if self.parameters["hystart"]:
            self.round(call)
        elif self.parameters["initial_ssthresh"]:
            self.ssthresh = self.parameters["initial_ssthresh"]

    def set_state(self, call):
        if call.arg == LOSS:
            self.forget()
            self.round(call)

    def reduce(self, call):
        beta, cwnd = self.parameters["beta"], call.cwnd_old
        self.epoch_start = 0
        if cwnd < self.last_max_cwnd and self.parameters["fast_convergence"]:
            self.last_max_cwnd = cwnd * (SCALE + beta) // (2 * SCALE)
        else:
            self.last_max_cwnd = cwnd
        self.ret = max(cwnd * beta // SCALE, 2)

    def cwnd_event(self, call):
        """At the first segment after a pause, move the epoch's start by the pause.

        No record has the time at which data was last sent; the records give its bounds.
        """
        if call.arg != TX_START or not self.epoch_start:
            return
        first, last = self.clock.at(self.sent_ns[0]), self.clock.at(self.sent_ns[1])
        now = self.clock.at(call.t_ns)
        least, most = max(s32(now[0] - last[-1]), 0), max(s32(now[-1] - first[0]), 0)
        waited = s32(call.new.epoch_start - self.epoch_start)
        if not least <= waited <= most:
            waited = most
        self.epoch_start = u32(self.epoch_start + waited)
        if after(self.epoch_start, now[-1]):
            self.epoch_start = now[-1]

    def cong_avoid(self, call):
        if not self.limited(call):
            return
        acked = call.arg
        if self.cwnd < self.ssthresh:
            self.cwnd, acked = slow_start(self.cwnd, self.ssthresh, call.clamp, acked)
            if not acked:
                return

        def decide(now):
            self.update(call, acked, now)
            self.cwnd = self.avoid(self.cwnd, call.clamp, self.cnt, acked)

        self.with_jiffies(call, decide, call.new.last_time)

    def update(self, call, acked, now):
        """Update cnt: the window grows by one segment for cnt acknowledged ones."""
        self.ack_cnt = u32(self.ack_cnt + acked)
        if self.last_cwnd == self.cwnd and s32(now - self.last_time) <= HZ // 32:
            return
        if not self.epoch_start or now != self.last_time:
            self.last_cwnd, self.last_time = self.cwnd, now
            if not self.epoch_start:
                self.epoch(acked, now)
            self.curve(now)
        if self.parameters["tcp_friendliness"]:
            self.friendly()
        self.cnt = max(self.cnt, 2)

    def epoch(self, acked, now):
        self.epoch_start, self.ack_cnt, self.tcp_cwnd = now, acked, self.cwnd
        if self.last_max_cwnd <= self.cwnd:
            self.bic_K, self.bic_origin_point = 0, self.cwnd
        else:
            self.bic_K = cubic_root(self.cube_factor * (self.last_max_cwnd - self.cwnd))
            self.bic_origin_point = self.last_max_cwnd

    def curve(self, now):
        t = (s32(now - self.epoch_start) + usecs_to_jiffies(self.delay_min) << BIC_SHIFT) // HZ
        moved = u32(self.c * abs(t - self.bic_K) ** 3 >> 10 + 3 * BIC_SHIFT)
        target = u32(self.bic_origin_point + (-moved if t < self.bic_K else moved))
        self.cnt = self.cwnd // (target - self.cwnd) if target > self.cwnd else 100 * self.cwnd
        if not self.last_max_cwnd:
            self.cnt = min(self.cnt, 20)

    def friendly(self):
        """Limit cnt, so that the window grows at least like an AIMD with the same back-off."""
        price = self.cwnd * self.friendly_scale >> 3
        if self.ack_cnt > price:
            bought = (self.ack_cnt - 1) // price
            self.ack_cnt -= bought * price
            self.tcp_cwnd += bought
        if self.tcp_cwnd > self.cwnd:
            self.cnt = min(self.cnt, self.cwnd // (self.tcp_cwnd - self.cwnd))

    def pkts_acked(self, call):
        if call.rtt_us < 0:
            return
        if not self.epoch_start:
            self.sample(call)
            return

        def decide(now):
            if s32(now - self.epoch_start) >= HZ:
                self.sample(call)

        self.with_jiffies(call, decide, self.epoch_start)

    def sample(self, call):
        delay = call.rtt_us or 1
        if not self.delay_min or self.delay_min > delay:
            self.delay_min = delay
        if not self.found and self.cwnd < self.ssthresh and self.parameters["hystart"]:
            self.hystart(call, delay)

    def hystart(self, call, delay):
        """End slow start if the spacing or the delay of a round's ACKs shows that the path is full."""
        if after(call.snd_una, self.end_seq):
            self.round(call)
        if self.cwnd < self.parameters["hystart_low_window"]:
            return
        now, detect = u32(call.mstamp_us), self.parameters["hystart_detect"]
        if detect & TRAIN and s32(now - self.last_ack) <= self.parameters["hystart_ack_delta_us"]:
            self.last_ack = now
            longest = self.delay_min + self.aggregation(call)
            if not call.pacing_status_old:
                longest >>= 1
            if s32(now - self.round_start) > longest:
                self.found, self.ssthresh = 1, self.cwnd
        if detect & DELAY:
            self.curr_rtt = min(self.curr_rtt, delay)
            if self.sample_cnt < SAMPLES:
                self.sample_cnt += 1
            elif self.curr_rtt > self.delay_min + min(max(self.delay_min >> 3, DELAY_MIN_US),
                                                      DELAY_MAX_US):
                self.found, self.ssthresh = 1, self.cwnd

    @staticmethod
    def aggregation(call) -> int:
        """The delay that a GSO packet may have, us; at rates below 2 Gbit/s it is 1 ms."""
        rate = call.pacing_rate_old
        if not rate or rate == UNPACED_RATE:
            return 0
        return min(AGGREGATE_US, GSO_MAX_BYTES * 4 * 1_000_000 // rate)
