# SPDX-License-Identifier: GPL-2.0
"""hybla as in the kernel (net/ipv4/tcp_hybla.c), a control for the oracle and for hybla_full.

C. Caini, R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", 2004, with

    rho     srtt / rtt0, in eighths, rounded down, at least 1; computed again at a new minimum of srtt
    start   W = rho, and the window is never above 65535
    slow start              W += 2^rho - 1 per ACK, from a table of 2^(n/8) in 1/128, with the whole part
                            of rho at most 16; never above ssthresh
    congestion avoidance    W += rho^2 / W per ACK, in 1/128, rounded down

It counts ACKs, not segments.  Fractions of a segment are kept in 1/128 and in snd_cwnd_cnt.  With an
increment below 1/128 the window grows by one segment for W ACKs.  Outside Open it is Reno.
"""

from .calls import INIT, OPEN
from .core import same
from .inkernel import InKernel, u32

CLAMP = 65535
FRACTIONS = (128, 139, 152, 165, 181, 197, 215, 234)    # 128 * 2^(n/8), the kernel's rounding


class Hybla(InKernel):
    MODULE = "tcp_hybla"
    DEFAULTS = {"rtt0": 25}
    # struct hybla, the same in Linux 5.10 to 7.2: pahole -C hybla tcp_hybla.ko
    LAYOUT = {"hybla_en": [0, 1, False, 0, 8], "snd_cwnd_cents": [4, 4, False, 0, 32],
              "rho": [8, 4, False, 0, 32], "rho2": [12, 4, False, 0, 32],
              "rho_3ls": [16, 4, False, 0, 32], "rho2_7ls": [20, 4, False, 0, 32],
              "minrtt_us": [24, 4, False, 0, 32]}
    FIELDS = tuple(LAYOUT)

    def __init__(self, parameters, scenario):
        super().__init__(parameters, scenario)
        self.clamp = 0                  # 0 before init()

    def measure(self, call):
        self.rho_3ls = max(call.srtt_us8 // (self.parameters["rtt0"] * 1000), 8)
        self.rho = self.rho_3ls >> 3
        self.rho2_7ls = u32(self.rho_3ls * self.rho_3ls << 1)
        self.rho2 = self.rho2_7ls >> 7

    def init(self, call):
        self.zero()
        self.hybla_en = 1
        self.measure(call)
        self.minrtt_us = call.srtt_us8
        self.cwnd = self.rho
        self.clamp = CLAMP

    def take(self, call):
        if self.clamp and call.call != INIT:
            same("clamp", call.clamp, self.clamp, "init() has set it")
        super().take(call)

    def cong_avoid(self, call):
        if call.srtt_us8 < self.minrtt_us:
            self.measure(call)
            self.minrtt_us = call.srtt_us8
        if not self.limited(call):
            return
        if not self.hybla_en:
            self.reno(call)
            return
        if not self.rho:
            self.measure(call)
        slow_start = self.cwnd < self.ssthresh
        if slow_start:
            odds = self.rho_3ls - (self.rho << 3)
            increment = (FRACTIONS[odds] << min(self.rho, 16)) - 128
        else:
            increment = self.rho2_7ls // self.cwnd
            if increment < 128:
                self.count += 1
        self.cwnd += increment >> 7
        self.snd_cwnd_cents += increment % 128
        while self.snd_cwnd_cents >= 128:
            self.cwnd += 1
            self.snd_cwnd_cents -= 128
            self.count = 0
        if not increment and self.count >= self.cwnd:
            self.cwnd += 1
            self.count = 0
        if slow_start:
            self.cwnd = min(self.cwnd, self.ssthresh)
        self.cwnd = min(self.cwnd, call.clamp)

    def set_state(self, call):
        self.hybla_en = int(call.arg == OPEN)
