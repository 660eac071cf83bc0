# SPDX-License-Identifier: GPL-2.0
"""westwood as in the kernel (net/ipv4/tcp_westwood.c), a control for the oracle and for westwood_abse.

Westwood+: A. Dell'Aera, L. Grieco, S. Mascolo, "Linux 2.4 implementation of Westwood+ TCP with
rate-halving", ICC 2004.  A sample of the bandwidth is the number of bytes acknowledged in an interval,
divided by the interval, which is one RTT and at least 48 ms.  Two filters of 7/8 follow.  Then

    W = ssthresh = max(bandwidth x RTT_min / mss, 2)

when CWR or Recovery ends.  At a timeout it sets ssthresh alone, and measures RTT_min again afterwards.
Otherwise it is Reno.  A duplicate ACK counts for one segment, and the next cumulative ACK counts for one
less.  Rounded: times to jiffies, the RTT up; rates to bytes per jiffy, down; all products wrap at 32
bits, as in the kernel.
"""

from .calls import COMPLETE_CWR, LOSS_EVENT
from .inkernel import HZ, InKernel, u32, usecs_to_jiffies

SLOWPATH = 1                    # of in_ack_event()'s flags
INTERVAL_MIN, FIRST_RTT = HZ // 20, 20 * HZ     # jiffies


class Westwood(InKernel):
    MODULE = "tcp_westwood"
    # struct westwood, the same in Linux 5.10 to 7.2: pahole -C westwood tcp_westwood.ko
    LAYOUT = {**{name: [4 * place, 4, False, 0, 32] for place, name in enumerate((
        "bw_ns_est", "bw_est", "rtt_win_sx", "bk", "snd_una", "cumul_ack", "accounted", "rtt",
        "rtt_min"))}, "first_ack": [36, 1, False, 0, 8], "reset_rtt_min": [37, 1, False, 0, 8]}
    FIELDS = tuple(LAYOUT)

    def init(self, call):
        self.zero()
        self.reset_rtt_min = self.first_ack = 1
        self.rtt_min = self.rtt = FIRST_RTT
        self.snd_una = call.snd_una

        def decide(now):
            self.rtt_win_sx = now

        self.with_jiffies(call, decide, call.new.rtt_win_sx)

    def cong_avoid(self, call):
        self.reno(call)

    def pkts_acked(self, call):
        if call.rtt_us > 0:
            self.rtt = usecs_to_jiffies(call.rtt_us)

    def window(self, call) -> int:
        return max(u32(self.bw_est * self.rtt_min) // call.mss, 2)

    def cwnd_event(self, call):
        if call.arg == COMPLETE_CWR:
            self.cwnd = self.ssthresh = self.window(call)
        elif call.arg == LOSS_EVENT:
            self.ssthresh = self.window(call)
            self.reset_rtt_min = 1

    def in_ack_event(self, call):
        if not self.rtt:        # before init(): no interval ends, and no field has a time
            self.acknowledged(call, 0)
            return
        self.with_jiffies(call, lambda now: self.acknowledged(call, now), call.new.rtt_win_sx)

    def acknowledged(self, call, now):
        self.interval(call, now)
        acked = u32(call.snd_una - self.snd_una)
        if call.arg & SLOWPATH:
            acked = self.cumul_ack = self.counted(acked, call.mss)
        self.bk = u32(self.bk + acked)
        self.snd_una = call.snd_una
        self.rtt_min = self.rtt if self.reset_rtt_min else min(self.rtt, self.rtt_min)
        self.reset_rtt_min = 0

    def interval(self, call, now):
        if self.first_ack:
            self.snd_una, self.first_ack = call.snd_una, 0
        delta = u32(now - self.rtt_win_sx)
        if not self.rtt or delta <= max(self.rtt, INTERVAL_MIN):
            return
        sample = self.bk // delta
        if not self.bw_ns_est and not self.bw_est:
            self.bw_ns_est = self.bw_est = sample
        else:
            self.bw_ns_est = u32(7 * self.bw_ns_est + sample) >> 3
            self.bw_est = u32(7 * self.bw_est + self.bw_ns_est) >> 3
        self.bk, self.rtt_win_sx = 0, now

    def counted(self, acked, mss) -> int:
        """Bytes that an ACK counts for, less those that duplicate ACKs have counted."""
        if not acked:
            self.accounted = u32(self.accounted + mss)
            return mss
        if acked > mss:
            if self.accounted >= acked:
                self.accounted -= acked
                return mss
            acked, self.accounted = acked - self.accounted, 0
        return acked
