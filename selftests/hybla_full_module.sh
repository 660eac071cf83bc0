#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# hybla_full as a module: see lib_module.sh; its parameters, and the name hybla.
set -u
cd "$(dirname "$0")" || exit 1
CC=hybla_full
# shellcheck source=selftests/lib_module.sh
. ./lib_module.sh

alias_beside_kernels() {
	modprobe tcp_hybla 2>/dev/null || return 0
	load as_hybla=1 && is_listed $CC && [ "$(cat $PARAMETERS/as_hybla)" = N ]
}
alias_when_free() {
	gone && { rmmod tcp_hybla 2>/dev/null; ! is_listed hybla; } &&
		load as_hybla=1 && is_listed $CC && is_listed hybla
}
alias_goes_too() { rmmod $MODULE && ! is_listed hybla && ! is_listed $CC; }

plan $((COMMON_TESTS + 11))
common_tests
check "rtt0_ms is 25" default_is rtt0_ms 25
check "rtt0_ms=0 is refused at load" load_refused rtt0_ms=0
check "rtt0_ms=100001 is refused at load" load_refused rtt0_ms=100001
check "hoe_min_acks=2 is refused at load" load_refused hoe_min_acks=2
check "rtt0_ms=1 is taken at load" load rtt0_ms=1
check "rtt0_ms=0 is refused in sysfs" fails set_parameter rtt0_ms 0
check "rtt0_ms=-1 is refused in sysfs" fails set_parameter rtt0_ms -1
check "and leaves the value" parameter_is rtt0_ms 1
check "as_hybla=1 yields to the kernel's hybla" alias_beside_kernels
check "as_hybla=1 takes a free name" alias_when_free
check "and gives it back" alias_goes_too
finish_quietly
