#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# constant_rate as a module: see lib_module.sh; the bounds of its parameters.
set -u
cd "$(dirname "$0")" || exit 1
CC=constant_rate
# shellcheck source=selftests/lib_module.sh
. ./lib_module.sh

plan $((COMMON_TESTS + 2 * BOUNDS_TESTS))
common_tests
check_bounds c 100 1 10000
check_bounds pacing 1 0 1
finish_quietly
