#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# mtsi as a module: see lib_module.sh; its parameters, and its lists of thresholds and K.
set -u
cd "$(dirname "$0")" || exit 1
CC=mtsi
# shellcheck source=selftests/lib_module.sh
. ./lib_module.sh

load_and_read() { load "$1=$2" && parameter_is "$1" "$2"; }
load_lists() { load "thr=$1" "k=$2" && parameter_is thr "$1" && parameter_is k "$2"; }
# load_refused_saying TEXT PARAMETER...: with one more line of TEXT in the kernel's log
load_refused_saying() {
	said=$1
	shift
	before=$(dmesg | grep -c "$said")
	load_refused "$@" && [ "$(dmesg | grep -c "$said")" = $((before + 1)) ]
}

plan $((COMMON_TESTS + 5 * BOUNDS_TESTS + 24))
common_tests
check_bounds const_k 4 1 1024
check_bounds linear_thr 50 1 1048576
check_bounds loss_mtsi 0 0 1
check_bounds per_ack 0 0 1
check_bounds pacing 1 0 1
load
check "thr is the paper's" parameter_is thr 20,30,40
check "k is the paper's" parameter_is k 4,2,1
check "mode is mtsi" parameter_is mode mtsi
check "mode=linear is taken in sysfs" taken mode linear
check "mode=const is taken in sysfs" taken mode const
check "mode=none is refused in sysfs" fails set_parameter mode none
check "and leaves the value" parameter_is mode const
check "thr cannot be changed after load" fails set_parameter thr 10,20,30
check "k cannot be changed after load" fails set_parameter k 1,1,1
check "mode=linear is taken at load" load_and_read mode linear
check "mode=reno is refused at load" load_refused mode=reno
check "one threshold is taken" load_lists 50 3
check "eight thresholds are taken" load_lists 1,2,3,4,5,6,7,1048576 0,1,2,3,4,5,6,1024
check "nine are refused" load_refused thr=1,2,3,4,5,6,7,8,9 k=1,1,1,1,1,1,1,1,1
check "two thresholds for three k are refused, and why is said" \
	load_refused_saying "mtsi: 2 thresholds in thr, but 3 values in k" thr=20,30
check "two k for three thresholds too" \
	load_refused_saying "mtsi: 3 thresholds in thr, but 2 values in k" k=4,2
check "falling thresholds are refused, and why is said" \
	load_refused_saying "mtsi: thr does not increase: 20 after 30" thr=30,20,40
check "so are two equal ones" \
	load_refused_saying "mtsi: thr does not increase: 40 after 40" thr=20,40,40
check "thr=0 is refused" load_refused thr=0,30,40
check "a threshold above 2^20 is refused" load_refused thr=20,30,1048577
check "a negative k is refused" load_refused k=4,2,-1
check "k above 1024 is refused" load_refused k=1025,2,1
check "a missing number is refused" load_refused thr=20,,40
check "a comma at the end is refused" load_refused thr=20,30,40,
finish_quietly
