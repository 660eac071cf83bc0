#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# satcc as a module: see lib_module.sh; its parameters.
set -u
cd "$(dirname "$0")" || exit 1
CC=satcc
# shellcheck source=selftests/lib_module.sh
. ./lib_module.sh

plan $((COMMON_TESTS + 3 * BOUNDS_TESTS))
common_tests
check_bounds tolerate_pct 10 0 50
check_bounds queue_ms 25 1 1000
check_bounds hoe 1 0 1
finish_quietly
