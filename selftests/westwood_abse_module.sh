#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# westwood_abse as a module: see lib_module.sh; its parameters, and that the history of every
# socket is freed.
set -u
cd "$(dirname "$0")" || exit 1
CC=westwood_abse
# shellcheck source=selftests/lib_module.sh
. ./lib_module.sh

# A history is 600 bytes, an object of 1 KiB.
objects() { awk '$1 == "kmalloc-1k" { print $2 }' /proc/slabinfo; }

# $1 connections at once, for a moment, each with data
crowd() {
	ip netns exec $NS iperf3 -s -1 >/dev/null 2>&1 &
	await sh -c "ip netns exec $NS ss -Hltn sport = 5201 | grep -q ." || return 1
	ip netns exec $NS iperf3 -c 127.0.0.1 -C "$CC" -P "$1" -n 64K -l 16K >/dev/null 2>&1
	end_connections
}

# Four crowds of 60 leave no more objects than the first did: 1/2 of what is 180 sockets'
# histories is allowed for what else goes on.
sockets_free_their_history() {
	load && crowd 60 && objects_before=$(objects) && crowd 60 && crowd 60 && crowd 60 || return 1
	echo "kmalloc-1k: $objects_before, then $(objects)"
	[ $(($(objects) - objects_before)) -lt 90 ]
}
is_free() { await sh -c "[ \$(cat /sys/module/$MODULE/refcnt) = 0 ]" && rmmod "$MODULE"; }

# With 0 a flow does without a history, as after a failed allocation.
works_without_history() {
	load history=0 && connection 1 -C "$CC" && uses "$CC" && end_connections && await rmmod "$MODULE"
}

plan $((COMMON_TESTS + 16))
common_tests
check "tau_n is 10" default_is tau_n 10
check "t_min_div is 8" default_is t_min_div 8
check "ecn_beta_pct is 80" default_is ecn_beta_pct 80
check "astart is 1" default_is astart 1
check "recovery_start is 1" default_is recovery_start 1
check "history is 1" default_is history 1
check "tau_n=51 is refused at load" load_refused tau_n=51
check "t_min_div=0 is refused at load" load_refused t_min_div=0
check "t_min_div=33 is refused at load" load_refused t_min_div=33
check "ecn_beta_pct=96 is refused at load" load_refused ecn_beta_pct=96
check "tau_n=0 is taken at load" load tau_n=0
check "t_min_div=0 is refused in sysfs" fails set_parameter t_min_div 0
check "and leaves the value" parameter_is t_min_div 8
check "sockets free their history" sockets_free_their_history
check "nothing holds it then" is_free
check "works without a history" works_without_history
finish_quietly
