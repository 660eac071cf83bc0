#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# ibk as a module: see lib_module.sh; the bounds of its parameters.
set -u
cd "$(dirname "$0")" || exit 1
CC=ibk
# shellcheck source=selftests/lib_module.sh
. ./lib_module.sh

plan $((COMMON_TESTS + 5 * BOUNDS_TESTS))
common_tests
check_bounds k 4 1 255
check_bounds rtt_min_ms 0 0 10000
check_bounds k_auto 0 0 1
check_bounds rtt_ref_ms 300 1 10000
check_bounds pacing 1 0 1
finish_quietly
