#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# satcc_log as a module: hooks only while an event is on, tracefs' filters, loading and unloading
# while connections run.
#
# It needs root, tracefs, iproute2, iperf3 and a module that modprobe finds.  It uses one namespace with
# only a loopback device, and a tracing instance of its own.
set -u
cd "$(dirname "$0")" || exit 1
# shellcheck source=selftests/lib.sh
. ./lib.sh

MODULE=satcc_log
TRACING=/sys/kernel/tracing
T=$TRACING/instances/satcc-$$
NS=satcc-$$
EVENTS="segment_sent ack_received cwnd_changed cc_call"
PARAMETERS=/sys/module/$MODULE/parameters
ROUNDS=${ROUNDS:-10}          # of loading and unloading in use

[ "$(id -u)" = 0 ] || skip_all "needs root"
for program in ip ss iperf3 modprobe rmmod; do
	command -v $program >/dev/null || skip_all "$program is not installed"
done
modprobe -n $MODULE 2>/dev/null || skip_all "no module $MODULE"
[ -d $TRACING/instances ] || skip_all "no tracefs in $TRACING"

cleanup() {
	for pid in $(ip netns pids $NS 2>/dev/null); do
		kill "$pid" 2>/dev/null
	done
	ip netns del $NS 2>/dev/null
	rmdir "$T" 2>/dev/null
	rmmod $MODULE 2>/dev/null
}
trap cleanup EXIT
splats_before=$(splats)
ip netns add $NS || skip_all "no network namespaces"
ip -n $NS link set lo up
mkdir "$T" || skip_all "no instances of tracing"
netns=$(ip netns exec $NS stat -L -c %i /proc/self/ns/net)

# connections to port $1, one after the other, until the namespace's programs are killed
traffic() {
	ip netns exec $NS sh -c "while :; do iperf3 -s -1 -p $1; done" >/dev/null 2>&1 &
	ip netns exec $NS sh -c "while :; do
		iperf3 -c 127.0.0.1 -p $1 -t 1 -b 20M --pacing-timer 20000 -C $2; sleep 0.1; done" \
		>/dev/null 2>&1 &
	await sh -c "ip netns exec $NS ss -Htn state established dport = $1 | grep -q ."
}

load() { modprobe $MODULE; }
has_events() { for event in $EVENTS; do [ -d "$T/events/satcc/$event" ] || return 1; done; }
on() { echo "${2-0}" > "$T/events/satcc/$1/filter" && echo 1 > "$T/events/satcc/$1/enable"; }
off() { for event in $EVENTS; do echo 0 > "$T/events/satcc/$event/enable"; done; }
# Kprobes go through ftrace where they can, so this is all there is.
hooks() { grep -c . $TRACING/enabled_functions; }
hooked() { grep -q "^$1 " $TRACING/enabled_functions; }
no_hooks() { [ "$(hooks)" = 0 ]; }
hooks_of_segment_sent() { on segment_sent && hooked ip_queue_xmit && ! hooked tcp_ack && off && no_hooks; }
hooks_of_ack_received() { on ack_received && hooked tcp_ack && ! hooked ip_queue_xmit && off && no_hooks; }
hooks_are_shared() {
	on cwnd_changed && hooked tcp_ack && hooked ip_queue_xmit && hooked tcp_enter_loss &&
		on segment_sent && echo 0 > "$T/events/satcc/cwnd_changed/enable" &&
		hooked ip_queue_xmit && ! hooked tcp_ack && off && no_hooks
}
nothing_lost() { [ "$(cat $PARAMETERS/lost)" = 0 ]; }

# names TEXT: through a shell of its own, whose status is then the write's
names() { sh -c "echo $1 > $PARAMETERS/callbacks_of"; }
is_named() { [ "$(cat $PARAMETERS/callbacks_of)" = "$1" ]; }
said() { dmesg | tail -n 5 | grep -q "$1"; }
reload() { { [ ! -d /sys/module/$MODULE ] || rmmod $MODULE; } && modprobe $MODULE "$@"; }
no_name_no_call() { on cc_call && no_hooks && off; }
calls_have_their_hooks() {
	names cubic,reno && is_named cubic,reno && no_hooks && on cc_call &&
		hooked tcp_reno_cong_avoid && hooked tcp_reno_ssthresh && hooked cubictcp_cong_avoid &&
		! hooked tcp_ack && off && no_hooks
}
calls_are_of_those_named() {
	echo > "$T/trace"
	names reno && on cc_call && await grep -q "cc_call:.* cc=reno call=cong_avoid " "$T/trace" &&
		sleep 1 && off && ! grep cc_call: "$T/trace" | grep -qv "cc=reno "
}
name_stays_while_on() {
	names reno && on cc_call && ! names cubic && is_named reno && said "cannot be changed" && off &&
		names cubic && is_named cubic
}
unknown_name_is_refused() {
	! names nosuch && said "no congestion control nosuch" && is_named cubic &&
		rmmod $MODULE && ! modprobe $MODULE callbacks_of=cubic,nosuch && [ ! -d /sys/module/$MODULE ]
}
named_stays_loaded() {
	reload callbacks_of=cubic,hybla && ! rmmod tcp_hybla 2>/dev/null && [ -d /sys/module/tcp_hybla ] &&
		on cc_call && hooked hybla_cong_avoid && rmmod $MODULE && no_hooks && rmmod tcp_hybla
}

# connections N: one after the other, to a port of their own
connections() {
	for _ in $(seq "$1"); do
		ip netns exec $NS iperf3 -s -1 -p 5203 >/dev/null 2>&1 &
		await sh -c "ip netns exec $NS ss -Hltn sport = 5203 | grep -q ." &&
			ip netns exec $NS iperf3 -c 127.0.0.1 -p 5203 -n 10K ${2+-P "$2"} >/dev/null 2>&1 || return 1
		wait $!
	done
}
few_flows_are_followed() {
	reload flows=16 && on cwnd_changed && connections 8 && nothing_lost && off
}
many_are_counted() { reload flows=16 && on cwnd_changed && connections 1 10 && ! nothing_lost && off; }
flows_is_bounded() {
	rmmod $MODULE
	! modprobe $MODULE flows=15 && ! modprobe $MODULE flows=1048577 && load &&
		[ "$(cat $PARAMETERS/flows)" = 4096 ]
}

# filtered EVENT FILTER PATTERN: with the filter all records have the pattern; without it not
filtered() {
	echo > "$T/trace"
	on "$1" "$2" && sleep 1.5 && off
	grep -q "$1:" "$T/trace" || { echo "no record with $2"; return 1; }
	! grep "$1:" "$T/trace" | grep -v "$3" || return 1
	echo > "$T/trace"
	on "$1" && sleep 1.5 && off
	grep "$1:" "$T/trace" | grep -qv "$3"
}
never() { echo > "$T/trace"; on "$1" "$2" && sleep 1 && off && ! grep -q "$1:" "$T/trace"; }
# The first record of a connection that was there before says so.
begins_in_the_middle() {
	echo > "$T/trace"
	on cwnd_changed && await grep -q "reason=first" "$T/trace" && off
}
is_refused_a_filter() { ! echo 'nosuch == 1' > "$T/events/satcc/segment_sent/filter"; }

# With its events on and connections under way.
comes_and_goes() {
	for _ in $(seq "$ROUNDS"); do
		load && on segment_sent && on ack_received && on cwnd_changed && sleep 0.3 &&
			rmmod $MODULE && no_hooks || return 1
	done
}
goes_while_another_traces() {
	mkdir "$T-b" && load && on cwnd_changed &&
		echo 1 > "$T-b/events/satcc/ack_received/enable" && sleep 0.3 && rmmod $MODULE && no_hooks
	status=$?
	rmdir "$T-b"
	return $status
}
still_sends() { await sh -c "ip netns exec $NS ss -Htn state established dport = 5201 | grep -q ."; }

plan 27
check "loads" load
check "has its events" has_events
check "no hook while no event is on" no_hooks
check "segment_sent has its own hooks, and only while it is on" hooks_of_segment_sent
check "ack_received too" hooks_of_ack_received
check "hooks are shared" hooks_are_shared
check "sockets come and go in a table of 16, none is lost" few_flows_are_followed
check "a socket that finds the table full is counted" many_are_counted
check "the table's size is bounded" flows_is_bounded
check "traffic" eval "traffic 5201 cubic && traffic 5202 reno"
check "filter by port" filtered segment_sent 'dport == 5202' 'dst=[^ ]*:5202 '
check "filter by congestion control" filtered ack_received 'cc == "reno"' 'cc=reno '
check "filter by prefix" filtered cwnd_changed \
	'daddr4 >= 0x7f000000 && daddr4 <= 0x7fffffff && dport == 5201' 'dst=::ffff:127.0.0.1:5201 '
check "nothing of another prefix" never segment_sent 'daddr4 >= 0xc0000200 && daddr4 <= 0xc00002ff'
check "filter by namespace" eval \
	"on segment_sent 'netns == $netns' && await grep -q segment_sent: $T/trace && off &&
	 never segment_sent 'netns != $netns'"
check "a filter with a mistake is refused" is_refused_a_filter
check "a connection that was there has a first record" begins_in_the_middle
check "without a name cc_call has no hooks" no_name_no_call
check "cc_call has hooks in the callbacks of those named" calls_have_their_hooks
check "calls are of those named" calls_are_of_those_named
check "names do not change while cc_call is on" name_stays_while_on
check "nothing was lost" nothing_lost
check "an unknown name is refused, at load too" unknown_name_is_refused
check "a congestion control stays loaded while it is named" named_stays_loaded
load
check "unloads while in use, $ROUNDS times" eval "rmmod $MODULE && comes_and_goes"
check "unloads while two trace" goes_while_another_traces
check "connections go on" still_sends
[ "$(splats)" = "$splats_before" ] || { echo "# the kernel log has new warnings"; exit 1; }
finish
