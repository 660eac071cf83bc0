# SPDX-License-Identifier: GPL-2.0
"""From a scenario to the shell script that plays it, in the guest or in namespaces of the host.

        sender ---- hop ---- hop ---- receiver         every box a network namespace
          right   left right left right  left          every line a veth pair

A hop's forward stage is the qdisc on its `right`, the reverse stage the one on its `left`.
The sender has no qdisc of its own and a routed hop behind it, so that TCP's small queues do
not see the emulated ones.  Neighbours are permanent: ARP would cross the satellite too.
"""

import math

from .scenario import (
    ETHERNET_BYTES, FIRST_PORT, SERVER_PORT, Flow, Hop, Host, LinkChange, Scenario, Stage)

WARMUP_S = 0.2          # captures and receivers are up before the first SYN
HEARTBEAT_S = 5         # virtual seconds between signs of life on the console


def nodes(scenario: Scenario) -> list[str]:
    return ["sender", *(hop.name for hop in scenario.hops), "receiver"]


def _address(scenario: Scenario, link: int, end: int) -> str:
    """The address of a link's left (1) or right (2) end, from the documentation ranges."""
    if scenario.family == 4:
        return f"192.0.2.{4 * link + end}"
    return f"2001:db8:0:{link}::{end}"


def receiver_address(scenario: Scenario) -> str:
    return _address(scenario, len(scenario.hops), 2)


def _mac(link: int, end: int) -> str:
    return f"02:00:00:00:{link:02x}:{end:02x}"


def _route_options(host: Host) -> str:
    options = [f"{name} {getattr(host, name)}" for name in ("initcwnd", "quickack", "ssthresh")
               if getattr(host, name)]
    return " ".join(options)


def _node_batch(scenario: Scenario, index: int) -> list[str]:
    """ip-batch lines for one namespace: links, addresses, neighbours, routes."""
    last = len(scenario.hops) + 1
    prefix = 30 if scenario.family == 4 else 64
    lines = ["link set lo up"]
    for link, end, dev in ((index - 1, 2, "left"), (index, 1, "right")):
        if not 0 <= link < last:
            continue
        peer = 3 - end
        nodad = " nodad" if scenario.family == 6 else ""
        lines += [
            f"link set {dev} address {_mac(link, end)} mtu {scenario.mtu} up",
            f"address add {_address(scenario, link, end)}/{prefix} dev {dev}{nodad}",
            f"neighbour replace {_address(scenario, link, peer)} lladdr {_mac(link, peer)} "
            f"dev {dev} nud permanent",
        ]
    if index < last - 1:        # further right than the next link: the receiver
        host = scenario.sender if index == 0 else Host()
        lines.append(f"route add {receiver_address(scenario)} via {_address(scenario, index, 2)} "
                     f"dev right {_route_options(host)}")
    if index > 1:               # further left than the previous link: the sender
        host = scenario.receiver if index == last else Host()
        lines.append(f"route add {_address(scenario, 0, 1)} via "
                     f"{_address(scenario, index - 1, 1)} dev left {_route_options(host)}")
    return lines


def burst_bytes(rate_mbit: float) -> int:
    """TBF's bucket: one frame, and what the clock may be late by.

    With two frames the first packets of a train leave back to back and spoil the ACK spacing
    that Hoe's estimate reads; with exactly one, time lost to a late timer is lost capacity.
    """
    return 1500 + ETHERNET_BYTES + max(100, math.ceil(rate_mbit * 1e6 / 8 * 50e-6))


def _qdisc(scenario: Scenario, stage: Stage, dev: str) -> tuple[list[str], list[list[str]]]:
    """tc-batch lines for a stage, and what tc's JSON must then say: for each qdisc of the
    device, in order, the fragments its description has to have."""
    if stage.rate_mbit:
        packets = scenario.queue_packets(stage)
        rate_bps = round(stage.rate_mbit * 1e6)
        return ([f"qdisc add dev {dev} root handle 1: tbf rate {rate_bps}bit "
                 f"burst {burst_bytes(stage.rate_mbit)} limit {packets * scenario.frame_bytes}",
                 f"qdisc add dev {dev} parent 1: handle 2: pfifo limit {packets}"],
                [['"kind":"tbf"', '"root":true', f'"rate":{rate_bps // 8},'],
                 ['"kind":"pfifo"', '"parent":"1:"', f'"limit":{packets}}}']])
    if stage.is_line:
        limit = scenario.flight_packets()
        delay_us = round(stage.delay_ms * 1000)
        shown = ['"kind":"netem"', '"root":true', f'"limit":{limit},']
        if delay_us:
            shown.append("' '".join(f'"delay":{{"delay":{text},' for text in _tc_seconds(delay_us)))
        for name in ("loss", "duplicate", "reorder"):
            option = "loss-random" if name == "loss" else name
            percent = getattr(stage, f"{name}_pct")
            if percent:
                shown.append(f'"{option}":{{"{name}":{percent / 100:g},')
        if stage.ecn:
            shown.append('"ecn":true')
        return [f"qdisc add {_netem(scenario, stage, dev)}"], [shown]
    return [], [['"kind":"noqueue"']]


def _netem(scenario: Scenario, stage: Stage, dev: str) -> str:
    """A stretch of link in tc's words, after `qdisc add` or `qdisc change`; what is left out of a
    change is reset by it."""
    words = [f"dev {dev} root handle 1: netem limit {scenario.flight_packets()}"]
    if stage.delay_ms:
        words.append(f"delay {round(stage.delay_ms * 1000)}us")
    if stage.reorder_pct:
        words.append(f"reorder {stage.reorder_pct:g}%")
    if stage.loss_pct:
        words.append(f"loss random {stage.loss_pct:g}%" + (" ecn" if stage.ecn else ""))
    if stage.duplicate_pct:
        words.append(f"duplicate {stage.duplicate_pct:g}%")
    return " ".join(words)


def _tc_seconds(us: int) -> list[str]:
    """A time as tc's JSON prints it: cut to microseconds after a division that may end just
    below the whole one."""
    return [f"{us / 1e6:g}", f"{(us - 1) / 1e6:g}"]


def _sysctls(scenario: Scenario, node: str) -> dict[str, str]:
    # No neighbour discovery or router solicitation beside an IPv4 experiment.
    quiet = {"net.ipv6.conf.all.disable_ipv6": "1"} if scenario.family == 4 else {}
    if node not in ("sender", "receiver"):
        return {"net.ipv4.ip_forward": "1", "net.ipv6.conf.all.forwarding": "1", **quiet}
    size = scenario.socket_bytes()
    host = scenario.sender if node == "sender" else scenario.receiver
    # A route's ssthresh reaches a flow through the cache of metrics, which the end of an
    # earlier flow to the same place fills.
    forget = "0" if host.ssthresh else "1"
    # Client and server, each without a cookie, every listener.
    fastopen = {"net.ipv4.tcp_fastopen": "0x607"} if any(f.fastopen for f in scenario.flows) else {}
    return {
        **quiet,
        "net.ipv4.tcp_no_metrics_save": forget,
        "net.ipv4.tcp_no_ssthresh_metrics_save": forget,
        "net.ipv4.tcp_rmem": f"4096 {size} {size}",
        "net.ipv4.tcp_wmem": f"4096 {size} {size}",
        **fastopen,
        **{key: str(value) for key, value in host.sysctl.items()},
    }


def _send_command(scenario: Scenario, number: int, flow: Flow) -> str:
    port = FIRST_PORT + number
    target = receiver_address(scenario)
    amount = f"bytes {flow.bytes}" if flow.bytes else f"seconds {flow.seconds}"
    amount += f" pause {flow.pause_ms}" if flow.pause_ms else ""
    amount += f" write {flow.write_bytes} {flow.write_ms}" if flow.write_ms else ""
    amount += " fastopen" if flow.fastopen else ""
    if flow.tool == "iperf3":
        amount = f"-n {flow.bytes}" if flow.bytes else f"-t {flow.seconds}"
        return (f"as_ns sender iperf3 -c {target} -p {port} -C {flow.cc} {amount} -J "
                f"--get-server-output > $OUT/flow-{number}.json")
    cc = ",".join([flow.cc, *(f"{name}:{ms:g}" for ms, name in flow.changes)])
    if flow.passive:
        return f"as_ns sender flow serve {SERVER_PORT + number} {cc} {amount} > $OUT/flow-{number}.json"
    return f"as_ns sender flow send {target} {port} {cc} {amount} > $OUT/flow-{number}.json"


def _receive_command(scenario: Scenario, number: int, flow: Flow) -> str:
    """The other end. To a passive sender it connects from the port it would else listen on, so
    that a flow has its port at the receiver in either case."""
    port = FIRST_PORT + number
    if flow.tool == "iperf3":
        return f"as_ns receiver iperf3 -s -1 -p {port} >/dev/null"
    if flow.passive:
        fastopen = " fastopen" if flow.fastopen else ""
        # The server starts with the flow; this is a moment later.
        return (f"sleep {flow.start_s + 0.05:g} && as_ns receiver flow fetch "
                f"{_address(scenario, 0, 1)} {SERVER_PORT + number} {port}{fastopen}")
    return f"as_ns receiver flow recv {port}"


def _setup(scenario: Scenario, prefix: str) -> tuple[dict[str, list[str]], list[str]]:
    """Namespaces, links, addresses, qdiscs, and proof that they are what was asked.

    Returns (files the script needs, script lines).
    """
    names = nodes(scenario)
    files = {"links": [f"netns add {prefix}{name}" for name in names] + [
        f"link add right netns {prefix}{left} type veth peer name left netns {prefix}{right}"
        for left, right in zip(names, names[1:])]}
    lines = ["ip -batch links"]
    for index, name in enumerate(names):
        devs = [dev for dev, there in (("left", index > 0), ("right", index < len(names) - 1))
                if there]
        # One process per namespace: in virtual time a new program is dearer than its work.
        files[f"set-{name}"] = ["set -e", *[
            f"echo {value} > /proc/sys/{key.replace('.', '/')}"
            for key, value in _sysctls(scenario, name).items()]]
        for dev in () if scenario.offload else devs:
            files[f"set-{name}"] += [f"ethtool -K {dev} tso off gso off gro off",
                                     f"ethtool -k {dev} > $OUT/offloads-{name}-{dev}.txt"]
        files[f"ip-{name}"] = _node_batch(scenario, index)
        lines += [f"in_ns {name} sh ./set-{name}", f"ip -n {prefix}{name} -batch ip-{name}"]
        lines += [f"offloads {name} {dev}" for dev in devs if not scenario.offload]
    for hop in scenario.hops:
        batch, checks = _setup_qdiscs(scenario, hop)
        if batch:
            files[f"tc-{hop.name}"] = batch
            lines.append(f"tc -n {prefix}{hop.name} -batch tc-{hop.name}")
        # One qdisc a line.
        lines.append(f"tc -j -n {prefix}{hop.name} qdisc show | "
                     "sed 's/,{\"kind\"/,\\n{\"kind\"/g' > qdisc-" + hop.name)
        lines += checks
    return files, lines


def _setup_qdiscs(scenario: Scenario, hop: Hop) -> tuple[list[str], list[str]]:
    """A hop's stages as tc-batch lines, and the comparison of what was asked with what is there."""
    batch, checks = [], []
    for stage, dev in ((hop.reverse, "left"), (hop.forward, "right")):
        tc_lines, qdiscs = _qdisc(scenario, stage, dev)
        batch += tc_lines
        for fragments in qdiscs:
            checks.append(f"described qdisc-{hop.name} '\"dev\":\"{dev}\"' '{fragments[0]}'")
            checks += [f"expect '{hop.name} {dev}' \"$found\" '{text}'" for text in fragments[1:]]
    return batch, checks


def _change_commands(scenario: Scenario, change: LinkChange, prefix: str) -> list[str]:
    """tc commands that put a change of a hop's stages into effect."""
    return [f"tc -n {prefix}{change.hop} qdisc change {_netem(scenario, stage, dev)}"
            for stage, dev in ((change.reverse, "left"), (change.forward, "right")) if stage]


PREAMBLE = r"""
# Generated from a scenario.  $OUT: where results go.
in_ns() { ns=$1; shift; nsenter --net=/run/netns/PREFIX$ns -- "$@"; }
as_ns() { ns=$1; shift; exec nsenter --net=/run/netns/PREFIX$ns -- "$@"; }  # in a subshell
refuse() { echo "satcc: failed: set-up is not what was asked: $*"; exit 3; }
expect() {  # what, text, wanted...: refuse to go on when the text has none of the wanted
    what=$1 text=$2
    shift 2
    for wanted; do
        case "$text" in *"$wanted"*) return;; esac
    done
    refuse "$what lacks $1"
}
parameter() {  # module, name, value: is it in effect?
    read -r got < "/sys/module/$1/parameters/$2"
    case "$got" in "$3") ;; Y) [ "$3" = 1 ];; N) [ "$3" = 0 ];; *) refuse "$1 $2 is $got";; esac
}
described() {  # file, fragment, fragment: $found is its line with both
    while read -r found; do
        case "$found" in *"$2"*"$3"*|*"$3"*"$2"*) return;; esac
    done < "$1"
    refuse "$1 has no $3 with $2"
}
offloads() {  # namespace, device
    got=$(cat "$OUT/offloads-$1-$2.txt")
    for offload in tcp-segmentation generic-segmentation generic-receive; do
        expect "$1 $2" "$got" "$offload-offload: off"
    done
}
""".strip().splitlines()


def _trace_on(scenario: Scenario) -> list[str]:
    """Events into the kernel's ring buffer, of the senders' sockets alone, dropped never silently."""
    if not scenario.trace:
        return []
    last = FIRST_PORT + len(scenario.flows) - 1
    lines = ["T=/sys/kernel/tracing", "echo 0 > $T/tracing_on", "echo nop > $T/current_tracer",
             "echo tai > $T/trace_clock", "echo 0 > $T/options/overwrite",
             f"echo {_trace_kb(scenario)} > $T/buffer_size_kb"]
    for event in scenario.trace:
        group, name = event.split(":")
        lines += [
            f"for e in \"$T\"/events/{group}/{name}/; do",
            "  [ -e $e/enable ] || continue",
            f"  echo 'dport >= {FIRST_PORT} && dport <= {last}' > $e/filter 2>/dev/null || :",
            "  echo 1 > $e/enable",
            "  { echo \"system: $(basename \"${e%/*/}\")\"; cat $e/format; } >> $OUT/trace.formats",
            "done"]
    return lines + ["cat $T/events/header_page > $OUT/trace.header", "echo 1 > $T/tracing_on"]


def _trace_kb(scenario: Scenario) -> int:
    """Room for every event: some 400 bytes an ACK, one ACK a segment; with the logger 1000."""
    rate = scenario.net_rate_bps / 8 if scenario.bottleneck else 1e8
    size = sum(flow.bytes or flow.seconds * rate for flow in scenario.flows)
    each = 1000 if "satcc_log" in scenario.modules else 400
    return min(128 << 10, 2048 + int(2 * size / scenario.mss * each / 1024))


def _trace_off(scenario: Scenario) -> list[str]:
    if not scenario.trace:
        return []
    # dd reads page by page; at the buffer's end it would wait for more, so a signal ends it.
    return ["echo 0 > $T/tracing_on",
            "timeout 5 dd bs=4096 if=$T/per_cpu/cpu0/trace_pipe_raw of=$OUT/trace.raw "
            "2>/dev/null || :",
            "cat $T/per_cpu/cpu0/stats > $OUT/trace.stats",
            "echo 0 > $T/events/enable"]


def _captures(scenario: Scenario) -> list[str]:
    if not scenario.capture:
        return []
    dump = "tcpdump -n -s 120 -B 32768 -Z root --time-stamp-precision=nano"
    lines = [f"as_ns sender {dump} -i right -w $OUT/sender.pcap tcp 2>$OUT/sender.tcpdump &",
             "captures=$!"]
    if scenario.bottleneck:
        hop = scenario.hops[scenario.bottleneck[0]].name
        lines += [f"as_ns {hop} {dump} -i right -w $OUT/bottleneck.pcap "
                  f"dst host {receiver_address(scenario)} and tcp 2>$OUT/bottleneck.tcpdump &",
                  'captures="$captures $!"']
    return lines


def files(scenario: Scenario, prefix: str = "", seeded: bool = True) -> dict[str, bytes]:
    """The whole run: a shell script, `run`, for busybox or a host's own tools, and the files it
    reads from its working directory.  It writes its results to $OUT.

    prefix: what the names of its namespaces begin with.
    seeded: make the kernel's random numbers a function of the seed; for a guest only.
    """
    made, setup = _setup(scenario, prefix)
    preamble = [line.replace("PREFIX", prefix) for line in PREAMBLE]
    lines = ["#!/bin/sh", "set -eu", "export OUT=${OUT:-/run/out}", *preamble]
    lines += [f"seed {scenario.seed}"] if seeded else []
    for module, parameters in scenario.modules.items():
        pairs = " ".join(f"{key}={value}" for key, value in parameters.items())
        # One loaded already would keep what it has, without a word.
        lines += [f"modprobe -r {module}", f"modprobe {module} {pairs}"]
        lines += [f"parameter {module} {key} {value}" for key, value in parameters.items()]
    for cc in sorted({cc for flow in scenario.flows for cc in flow.names}):
        lines += [f"grep -qw {cc} /proc/sys/net/ipv4/tcp_available_congestion_control || "
                  f"modprobe tcp_{cc} || refuse 'no congestion control {cc}'"]
    lines += setup
    lines += _trace_on(scenario)
    lines += _captures(scenario)
    lines += [f"( {_receive_command(scenario, number, flow)} ) &"
              for number, flow in enumerate(scenario.flows) if not flow.passive]
    lines += [f"sleep {WARMUP_S}",
              f"( sleep {scenario.max_seconds}; "
              f"echo 'satcc: failed: not done after {scenario.max_seconds} s of its own time' ) &",
              f"( at=0; while sleep {HEARTBEAT_S}; do at=$((at + {HEARTBEAT_S})); "
              f"echo \"satcc: at $at\"; done ) &",
              *scenario.before, "flows=", "echo 'satcc: flows'"]
    for number, flow in enumerate(scenario.flows):
        start = f"sleep {flow.start_s:g} && " if flow.start_s else ""
        lines += [f"( {start}{_send_command(scenario, number, flow)} ) &", 'flows="$flows $!"']
    lines += [f"( {_receive_command(scenario, number, flow)} ) &"
              for number, flow in enumerate(scenario.flows) if flow.passive]
    lines += [f"( sleep {change.at_s:g} && {line} ) &" for change in scenario.changes
              for line in _change_commands(scenario, change, prefix)]
    lines += [f"( {command} ) &" for command in scenario.commands]
    lines += ["for flow in $flows; do wait $flow || "
              "{ echo 'satcc: failed: a flow ended with an error'; exit 4; }; done",
              "echo 'satcc: collecting'"]
    lines += [*scenario.after, *_trace_off(scenario)]
    if scenario.capture:
        # The capture's last block is handed over after its time-out.
        lines += ["sleep 1.1", "kill $captures", "for capture in $captures; do wait $capture; done"]
    for hop in scenario.hops:
        lines.append(f"tc -s -j -n {prefix}{hop.name} qdisc show > $OUT/qdisc-{hop.name}.json")
    lines += ["uname -r > $OUT/kernel",
              "for m in /sys/module/tcp_*/srcversion /sys/module/satcc_*/srcversion; do "
              "[ -e $m ] || continue; m=${m%/srcversion}; "
              "echo \"${m##*/} $(cat $m/srcversion)\"; done > $OUT/modules"]
    made["run"] = lines
    return {name: ("\n".join(text) + "\n").encode() for name, text in made.items()}
