# SPDX-License-Identifier: GPL-2.0
"""Marchese's slow start, ACK by ACK, from the paper's equations.

    cwnd(Ack_N) = cwnd(Ack_N-1) + F(Ack_N, cwnd(Ack_N-1))                           (1)

Nothing here is taken from the C: each function F is written as the paper has it, one call an
ACK. What the paper leaves open is as in the module's description: F starts from f0, is at
least 1 and at most f_max.
"""

import itertools
from dataclasses import dataclass

INFINITE_SSTHRESH = 0x7FFFFFFF
F_MAX = 1024


@dataclass(frozen=True)
class Mtsi:
    """Equations 3 and 4."""

    thr: tuple
    k: tuple

    def __call__(self, previous, cwnd):
        """(F, K) of this ACK from F of the ACK before and the window."""
        if cwnd < self.thr[-1]:
            k = next(k for thr, k in zip(self.thr, self.k) if cwnd < thr)
            return previous + k, k
        return 1, 0


@dataclass(frozen=True)
class Const:
    """Equation 6."""

    k: int

    def __call__(self, previous, cwnd):
        return self.k, 0


@dataclass(frozen=True)
class Linear:
    """Equation 7."""

    thr: int

    def __call__(self, previous, cwnd):
        return (previous + 1, 1) if cwnd < self.thr else (1, 0)


def reno(previous, cwnd):
    """Equation 2."""
    return 1, 0


def start(function, cwnd, f, acks, target=INFINITE_SSTHRESH):
    """What is after so many ACKs: (cwnd, F, K, ACKs used), as far as slow start goes."""
    k, used = 0, 0
    while used < acks and cwnd < target:
        f, k = function(f, cwnd)
        f = max(f, 1)
        if not isinstance(function, Const):
            f = min(f, F_MAX)
        cwnd = min(cwnd + f, target)
        used += 1
    return cwnd, f, k, used


def windows(function, cwnd, f=0, target=INFINITE_SSTHRESH):
    """The window after each ACK, without end."""
    for _ in itertools.count():
        cwnd, f, _, _ = start(function, cwnd, f, 1, target)
        yield cwnd
