# SPDX-License-Identifier: GPL-2.0
"""rho, rho^2 and 2^rho - 1: hybla/rho.h."""

from decimal import Decimal
from fractions import Fraction

import model
import pytest
from hypothesis import given
from hypothesis import strategies as st

ONE = model.ONE
RHO_MAX = 256
RTT0_US = 25000

# 16 chords of 2^x on [0, 1): each lies above the curve by at most (ln 2 / 16)^2 / 8
# = 2.346e-4 of it, and the table is rounded to 1/2 of 68438 or more, 0.073e-4. The
# largest of all 65536 errors is 2.415e-4.
EXP2_TOLERANCE = Decimal("2.42e-4")


@pytest.mark.parametrize("rtt_ms, rho, gain, rho2", [
    (10, 1, 1, 1),
    (25, 1, 1, 1),
    (30, 1.2, 1.2974, 1.44),
    (50, 2, 3, 4),
    (100, 4, 15, 16),
    (250, 10, 1023, 100),
    (520, 20.8, 1.83e6, 432.64),
    (560, 22.4, 5.54e6, 501.76),
    (600, 24, 16777215, 576),
    (1000, 40, 2 ** 31 - 1, 1600),     # 1.1e12 in truth; more than any window
])
def test_table(calc, rtt_ms, rho, gain, rho2):
    [rho_q16] = calc("rho", rtt_ms * 1000, RTT0_US, RHO_MAX)
    assert rho_q16 == model.q16(Fraction(str(rho)))
    [gain_q16] = calc("gain", rho_q16)
    assert gain_q16 / ONE == pytest.approx(gain, rel=0 if gain % 1 == 0 and
                                           gain not in (1.83e6, 5.54e6) else 3e-3)
    [rho2_q16] = calc("rho2", rho_q16)
    assert rho2_q16 / ONE == pytest.approx(rho2, abs=2 * rho / ONE)


@given(min_rtt_us=st.integers(1, 10 ** 7), rtt0_ms=st.integers(1, 10 ** 5),
       rho_max=st.integers(1, RHO_MAX))
def test_rho_is_exact(calc, min_rtt_us, rtt0_ms, rho_max):
    exact = model.rho(min_rtt_us, rtt0_ms * 1000, rho_max)
    assert calc("rho", min_rtt_us, rtt0_ms * 1000, rho_max) == [model.q16(exact)]


@pytest.mark.parametrize("min_rtt_us, rtt0_us, rho_max, rho_q16", [
    (1, 1, 256, ONE),
    (1, 10 ** 8, 256, ONE),             # far below the reference
    (24999, 25000, 256, ONE),
    (25001, 25000, 256, ONE + 2),
    (10 ** 7, 25000, 256, 256 * ONE),   # 400, limited
    (10 ** 7, 25000, 1, ONE),
    (2 ** 32 - 1, 1000, 256, 256 * ONE),
])
def test_rho_limits(calc, min_rtt_us, rtt0_us, rho_max, rho_q16):
    assert calc("rho", min_rtt_us, rtt0_us, rho_max) == [rho_q16]


@given(rho_q16=st.integers(ONE, RHO_MAX * ONE))
def test_rho2_is_exact(calc, rho_q16):
    assert calc("rho2", rho_q16) == [model.q16(Fraction(rho_q16, ONE) ** 2)]


def test_rho2_leaves_32_bits(calc):
    assert calc("rho2", RHO_MAX * ONE) == [2 ** 32]


@given(x_q16=st.integers(0, 31 * ONE - 1))
def test_exp2_error(calc, x_q16):
    [value] = calc("exp2", x_q16)
    exact = model.power_of_two(Fraction(x_q16, ONE)) * ONE
    assert abs(value - exact) <= exact * EXP2_TOLERANCE


def test_exp2_over_a_whole_octave(calc):
    values = [calc("exp2", x_q16)[0] for x_q16 in range(ONE + 1)]
    errors = [abs(value / (ONE * 2 ** (x_q16 / ONE)) - 1)
              for x_q16, value in enumerate(values)]
    assert max(errors) <= EXP2_TOLERANCE
    assert all(a <= b for a, b in zip(values, values[1:]))


@pytest.mark.parametrize("x", range(32))
def test_exp2_is_exact_at_integers(calc, x):
    assert calc("exp2", x * ONE) == [2 ** x * ONE]


@given(x_q16=st.integers(31 * ONE, 2 ** 32 - 1))
def test_exp2_saturates(calc, x_q16):
    assert calc("exp2", x_q16) == [2 ** 31 * ONE]


@given(rho_q16=st.integers(ONE, RHO_MAX * ONE))
def test_gain_is_one_below_the_power(calc, rho_q16):
    [power] = calc("exp2", rho_q16)
    assert calc("gain", rho_q16) == [power - ONE]


@pytest.mark.parametrize("own_ms, core_ms, expected_ms", [
    (500, 500, 500),
    (500, 0, 500),              # the core has none
    (600, 500, 600),            # measured anew after a timeout: the core still has the old path
    (500, 600, 600),            # the path has become longer, and the core has forgotten the old
    (500, 625, 625),
    (500, 1500, 625),           # a standing queue: a quarter more, not three times as much
])
def test_path_rtt(calc, own_ms, core_ms, expected_ms):
    assert calc("path", own_ms * 1000, core_ms * 1000) == [expected_ms * 1000]


@given(own=st.integers(1, 2 ** 32 - 1), core=st.integers(0, 2 ** 32 - 1))
def test_path_rtt_is_exact(calc, own, core):
    assert calc("path", own, core) == [model.path_rtt(own, core)]
