#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# hybla_full as a module: registers, autoloads, bounds its parameters, can be chosen per socket,
# route and sysctl, stays while in use, leaves no trace.
#
# Needs root, iproute2, iperf3 and the module where modprobe finds it.  One namespace, its
# loopback the only network; nothing of the host is changed but the modules loaded.
set -u
cd "$(dirname "$0")" || exit 1
# shellcheck source=selftests/lib.sh
. ./lib.sh

MODULE=tcp_hybla_full
CC=hybla_full
PARAMETERS=/sys/module/$MODULE/parameters
NS=satcc-$$

[ "$(id -u)" = 0 ] || skip_all "needs root"
for program in ip ss iperf3 modprobe rmmod; do
	command -v $program >/dev/null || skip_all "$program is not installed"
done
modprobe -n $MODULE 2>/dev/null || skip_all "no module $MODULE"

cleanup() {
	for pid in $(ip netns pids $NS 2>/dev/null); do
		kill "$pid" 2>/dev/null
	done
	ip netns del $NS 2>/dev/null
	echo "$default_before" > $DEFAULT_CC
	rmmod $MODULE 2>/dev/null
}
DEFAULT_CC=/proc/sys/net/ipv4/tcp_congestion_control
default_before=$(cat $DEFAULT_CC)
trap cleanup EXIT
splats() { dmesg | grep -cE 'BUG:|WARNING:|Oops|refcount'; }
splats_before=$(splats)
ip netns add $NS || skip_all "no network namespaces"
ip -n $NS link set lo up

# until COMMAND succeeds, 5 s at most
await() {
	for _ in $(seq 50); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	return 1
}

is_listed() { grep -qw "$1" /proc/sys/net/ipv4/tcp_available_congestion_control; }
is_loaded() { [ -d /sys/module/$MODULE ]; }
load() { rmmod $MODULE 2>/dev/null; modprobe $MODULE "$@"; }
gone() { ! is_loaded || rmmod $MODULE; }
parameter_is() { [ "$(cat $PARAMETERS/"$1")" = "$2" ]; }
# Written through a shell of its own, whose status is then the write's.
set_parameter() { sh -c "echo $2 > $PARAMETERS/$1"; }

load_refused() {
	gone
	! modprobe $MODULE "$1" 2>/dev/null && ! is_loaded
}

# start a connection for $1 s with iperf3 options $2...; returns when it is established
# (iperf3 has a control connection too, which keeps the default)
connection() {
	seconds=$1
	shift
	ip netns exec $NS iperf3 -s -1 >/dev/null 2>&1 &
	await sh -c "ip netns exec $NS ss -Hltn sport = 5201 | grep -q ." || return 1
	ip netns exec $NS iperf3 -c 127.0.0.1 -t "$seconds" "$@" >/dev/null 2>&1 &
	await sh -c "ip netns exec $NS ss -Htn state established dport = 5201 | grep -q ."
}
uses() { await sh -c "ip netns exec $NS ss -Htin dport = 5201 | grep -qw $1"; }
idle() { await sh -c "! ip netns exec $NS ss -Htn dport = 5201 | grep -q ."; }
end_connections() {
	for pid in $(ip netns pids $NS); do kill "$pid"; done
	await sh -c "! ip netns pids $NS | grep -q ."
}

by_setsockopt() { gone && connection 1 -C $CC && uses $CC && end_connections; }
# The sysctl of a namespace takes only what unprivileged users may have, so this is the host's;
# cleanup puts back what was there.
by_sysctl() {
	gone && sh -c "echo $CC > $DEFAULT_CC" && is_loaded && [ "$(cat $DEFAULT_CC)" = $CC ] &&
		echo "$default_before" > $DEFAULT_CC
}
by_route() {
	ip -n $NS address add 192.0.2.1/32 dev lo
	ip -n $NS route add local 192.0.2.2/32 dev lo table local congctl $CC &&
		ip netns exec $NS sh -c 'iperf3 -s -1 >/dev/null 2>&1 &' &&
		await sh -c "ip netns exec $NS ss -Hltn sport = 5201 | grep -q ." || return 1
	ip netns exec $NS iperf3 -c 192.0.2.2 -t 1 >/dev/null 2>&1 &
	uses $CC && end_connections
}
refused_while_used() {
	connection 10 -C $CC && uses $CC && ! rmmod $MODULE 2>/dev/null && is_loaded
}
leaves_when_free() { end_connections && await rmmod $MODULE && ! is_listed $CC; }

alias_beside_kernels() {
	modprobe tcp_hybla 2>/dev/null || return 0
	load as_hybla=1 && is_listed $CC && [ "$(cat $PARAMETERS/as_hybla)" = N ]
}
alias_when_free() {
	gone && { rmmod tcp_hybla 2>/dev/null; ! is_listed hybla; } &&
		load as_hybla=1 && is_listed $CC && is_listed hybla
}
alias_goes_too() { rmmod $MODULE && ! is_listed hybla && ! is_listed $CC; }

plan 19
check "registers" load
check "is listed" is_listed $CC
check "is not offered to unprivileged users" \
	fails grep -qw $CC /proc/sys/net/ipv4/tcp_allowed_congestion_control
check "rtt0_ms is 25" parameter_is rtt0_ms 25
check "rtt0_ms=0 is refused at load" load_refused rtt0_ms=0
check "rtt0_ms=100001 is refused at load" load_refused rtt0_ms=100001
check "hoe_min_acks=2 is refused at load" load_refused hoe_min_acks=2
check "rtt0_ms=1 is taken at load" load rtt0_ms=1
check "rtt0_ms=0 is refused in sysfs" fails set_parameter rtt0_ms 0
check "rtt0_ms=-1 is refused in sysfs" fails set_parameter rtt0_ms -1
check "and leaves the value" parameter_is rtt0_ms 1
check "setsockopt loads and selects it" by_setsockopt
check "the default sysctl loads and takes it" by_sysctl
check "a route's congctl selects it" by_route
check "unload is refused while in use" refused_while_used
check "unloads when free" leaves_when_free
check "as_hybla=1 yields to the kernel's hybla" alias_beside_kernels
check "as_hybla=1 takes a free name" alias_when_free
check "and gives it back" alias_goes_too
[ "$(splats)" = "$splats_before" ] || { echo "# the kernel complained"; exit 1; }
finish
