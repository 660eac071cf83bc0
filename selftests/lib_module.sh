# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# Shared tests of a policy as a module: it registers, autoloads, bounds its parameters, can be selected
# per socket, route and sysctl, stays loaded while in use, and can be unloaded afterwards.
#
# Set $CC to the policy's name, then source this.  It needs root, iproute2, iperf3 and a module that
# modprobe finds.  It uses one namespace with only a loopback device.  It loads modules and sets the
# host's default congestion control, which it restores.

# shellcheck source=selftests/lib.sh
. ./lib.sh

MODULE=tcp_$CC
PARAMETERS=/sys/module/$MODULE/parameters
NS=satcc-$$

[ "$(id -u)" = 0 ] || skip_all "needs root"
for program in ip ss iperf3 modprobe rmmod; do
	command -v $program >/dev/null || skip_all "$program is not installed"
done
modprobe -n "$MODULE" 2>/dev/null || skip_all "no module $MODULE"

cleanup() {
	for pid in $(ip netns pids $NS 2>/dev/null); do
		kill "$pid" 2>/dev/null
	done
	ip netns del $NS 2>/dev/null
	echo "$default_before" > $DEFAULT_CC
	rmmod "$MODULE" 2>/dev/null
}
DEFAULT_CC=/proc/sys/net/ipv4/tcp_congestion_control
default_before=$(cat $DEFAULT_CC)
trap cleanup EXIT
splats_before=$(splats)
ip netns add $NS || skip_all "no network namespaces"
ip -n $NS link set lo up

is_listed() { grep -qw "$1" /proc/sys/net/ipv4/tcp_available_congestion_control; }
is_loaded() { [ -d "/sys/module/$MODULE" ]; }
# load [NAME=VALUE...]
# shellcheck disable=SC2120 # not every caller has parameters to give
load() { rmmod "$MODULE" 2>/dev/null; modprobe "$MODULE" "$@"; }
# The sockets of programs that have ended keep the module for a moment.
gone() { ! is_loaded || await rmmod "$MODULE"; }
parameter_is() { [ "$(cat "$PARAMETERS/$1")" = "$2" ]; }
# Written through a shell of its own, whose status is then the write's.
set_parameter() { sh -c "echo $2 > $PARAMETERS/$1"; }

# shellcheck disable=SC2119 # none are given here
# default_is NAME VALUE, freshly loaded
default_is() { load && parameter_is "$1" "$2"; }

# load_refused NAME=VALUE...
load_refused() {
	gone
	! modprobe "$MODULE" "$@" 2>/dev/null && ! is_loaded
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

by_setsockopt() { gone && connection 1 -C "$CC" && uses "$CC" && end_connections; }
# The sysctl of a namespace takes only what unprivileged users may have, so this is the host's;
# cleanup puts back what was there.
by_sysctl() {
	gone && sh -c "echo $CC > $DEFAULT_CC" && is_loaded && [ "$(cat $DEFAULT_CC)" = "$CC" ] &&
		echo "$default_before" > $DEFAULT_CC
}
by_route() {
	gone || return 1
	ip -n $NS address add 192.0.2.1/32 dev lo
	ip -n $NS route add local 192.0.2.2/32 dev lo table local congctl "$CC" &&
		ip netns exec $NS sh -c 'iperf3 -s -1 >/dev/null 2>&1 &' &&
		await sh -c "ip netns exec $NS ss -Hltn sport = 5201 | grep -q ." || return 1
	ip netns exec $NS iperf3 -c 192.0.2.2 -t 1 >/dev/null 2>&1 &
	uses "$CC" && end_connections
}
refused_while_used() {
	connection 10 -C "$CC" && uses "$CC" && ! rmmod "$MODULE" 2>/dev/null && is_loaded
}
leaves_when_free() { end_connections && await rmmod "$MODULE" && ! is_listed "$CC"; }

taken() { set_parameter "$1" "$2" && parameter_is "$1" "$2"; }
refused() { ! set_parameter "$1" "$2" && ! parameter_is "$1" "$2"; }

# check_bounds NAME DEFAULT MIN MAX: BOUNDS_TESTS tests
check_bounds() {
	below=$(($3 - 1)) above=$(($4 + 1))
	check "$1=$below is refused at load" load_refused "$1=$below"
	check "$1=$above is refused at load" load_refused "$1=$above"
	check "$1 is $2" default_is "$1" "$2"
	check "$1 takes $3 to $4 in sysfs" eval \
		"taken $1 $3 && taken $1 $4 && refused $1 $below && refused $1 $above && refused $1 x &&
		 parameter_is $1 $4"
}

# shellcheck disable=SC2034 # both for plan
COMMON_TESTS=8 BOUNDS_TESTS=4
common_tests() {
	check "registers" load
	check "is listed" is_listed "$CC"
	check "is not offered to unprivileged users" \
		fails grep -qw "$CC" /proc/sys/net/ipv4/tcp_allowed_congestion_control
	check "setsockopt loads and selects it" by_setsockopt
	check "the default sysctl loads and takes it" by_sysctl
	check "a route's congctl loads and selects it" by_route
	check "unload is refused while in use" refused_while_used
	check "unloads when free" leaves_when_free
}

# finish, and the kernel has not complained
finish_quietly() {
	[ "$(splats)" = "$splats_before" ] || { echo "# the kernel log has new warnings"; exit 1; }
	finish
}
