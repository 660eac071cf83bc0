# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# KTAP for the scripts beside this file.  Source it, then: plan N; check NAME COMMAND...

KSFT_FAIL=1
KSFT_SKIP=4
tap_number=0
tap_failed=0

plan() {
	tap_planned=$1
	echo "TAP version 13"
	echo "1..$1"
}

skip_all() {
	echo "TAP version 13"
	echo "1..0 # SKIP $*"
	exit $KSFT_SKIP
}

# check NAME COMMAND [ARGUMENT...]: a test that passes when the command succeeds
check() {
	tap_number=$((tap_number + 1))
	tap_name=$1
	shift
	if tap_said=$("$@" 2>&1); then
		echo "ok $tap_number $tap_name"
	else
		echo "$tap_said" | sed 's/^/# /'
		echo "not ok $tap_number $tap_name"
		tap_failed=$((tap_failed + 1))
	fi
}

fails() {
	! "$@"
}

# await COMMAND [ARGUMENT...]: wait until the command succeeds, 5 s at most
await() {
	for _ in $(seq 50); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	return 1
}

# The number of the kernel's messages about its own faults.
splats() { dmesg | grep -cE 'BUG:|WARNING:|Oops|refcount'; }

finish() {
	if [ "$tap_number" != "$tap_planned" ]; then
		echo "# planned $tap_planned tests, ran $tap_number"
		exit $KSFT_FAIL
	fi
	[ "$tap_failed" = 0 ] || exit $KSFT_FAIL
}
