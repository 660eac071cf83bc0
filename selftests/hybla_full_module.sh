#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# hybla_full as a module: see lib_module.sh; the bounds of its parameters.
set -u
cd "$(dirname "$0")" || exit 1
CC=hybla_full
# shellcheck source=selftests/lib_module.sh
. ./lib_module.sh

plan $((COMMON_TESTS + 3 * BOUNDS_TESTS))
common_tests
check_bounds rtt0_ms 25 1 100000
check_bounds iw_rho 0 0 1
check_bounds gentle 0 0 1
finish_quietly
