#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# westwood_abse as a module: see lib_module.sh; its parameter.
set -u
cd "$(dirname "$0")" || exit 1
CC=westwood_abse
# shellcheck source=selftests/lib_module.sh
. ./lib_module.sh

plan $((COMMON_TESTS + BOUNDS_TESTS))
common_tests
check_bounds probe 1 0 1
finish_quietly
