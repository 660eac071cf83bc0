#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# ibk as a module: see lib_module.sh; the bounds of its parameters.
set -u
cd "$(dirname "$0")" || exit 1
CC=ibk
# shellcheck source=selftests/lib_module.sh
. ./lib_module.sh

plan $((COMMON_TESTS + 2 * BOUNDS_TESTS))
common_tests
check_bounds k 4 1 255
check_bounds pacing 1 0 1
finish_quietly
