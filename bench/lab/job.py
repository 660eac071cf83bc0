# SPDX-License-Identifier: GPL-2.0
"""From a scenario to the shell script that plays it, in the guest or in namespaces of the host.

        sender ---- hop ---- hop ---- receiver         each node is a network namespace
          right   left right left right  left          each line is a veth pair
                     | wired
                     | uplink
                   wired                               a host beside the line

A hop's device `right` has the qdisc of its forward stage, `left` that of its reverse stage.  Its device
toward a host beside the line has that host's name.
The sender has no qdisc, and the emulated queues are on another node, so that TCP small queues (TSQ) do
not see them.  Neighbours are permanent, since ARP would have to cross the satellite.
"""

import functools
import math
from collections.abc import Iterable
from pathlib import Path

from ..paths import policies
from ..scenario import traffic
from ..scenario.scenario import (
    ETHERNET_BYTES, FIRST_PORT, SERVER_PORT, Flow, Hop, Host, Leaf, LinkChange, Scenario, Stage,
    from_dict)
from . import pep, satlink

WARMUP_S = 0.2          # captures and receivers are up before the first SYN
DEFAULT_CC = "cubic"    # a host's default congestion control where its routes name the flows'
HEARTBEAT_S = 5         # virtual seconds between two progress lines on the console
WITNESS = "satcc:cc_call"   # the event with one record for each callback of a congestion control


def nodes(scenario: Scenario) -> list[str]:
    return ["sender", *(hop.name for hop in scenario.hops), "receiver"]


def _address(scenario: Scenario, link: int, end: int) -> str:
    """The address of a link's left (1) or right (2) end, from the documentation ranges."""
    if scenario.family == 4:
        return f"192.0.2.{4 * link + end}"
    return f"2001:db8:0:{link}::{end}"


def receiver_address(scenario: Scenario) -> str:
    return _address(scenario, len(scenario.hops), 2)


def _leaf_link(scenario: Scenario, number: int) -> int:
    """The number of the link to a host beside the line; its hop has the left end."""
    return len(scenario.hops) + 1 + number


def host_address(scenario: Scenario, name: str) -> str:
    """The address of a flow's end."""
    if name == "sender":
        return _address(scenario, 0, 1)
    if name == "receiver":
        return receiver_address(scenario)
    number = [leaf.name for leaf in scenario.leaves].index(name)
    return _address(scenario, _leaf_link(scenario, number), 2)


def _mac(link: int, end: int) -> str:
    return f"02:00:00:00:{link:02x}:{end:02x}"


def _route_options(host: Host) -> str:
    options = [f"{name} {getattr(host, name)}"
               for name in ("initcwnd", "initrwnd", "quickack", "ssthresh", "window")
               if getattr(host, name)]
    if host.rto_min_ms:
        options.append(f"rto_min {host.rto_min_ms}ms")
    return " ".join(options)


def _device_batch(scenario: Scenario, link: int, end: int, dev: str) -> list[str]:
    """ip-batch lines for one end of a link: device, address, neighbour."""
    prefix = 30 if scenario.family == 4 else 64
    nodad = " nodad" if scenario.family == 6 else ""
    peer = 3 - end
    return [f"link set {dev} address {_mac(link, end)} mtu {scenario.mtu} up",
            f"address add {_address(scenario, link, end)}/{prefix} dev {dev}{nodad}",
            f"neighbour replace {_address(scenario, link, peer)} lladdr {_mac(link, peer)} "
            f"dev {dev} nud permanent"]


def _node_batch(scenario: Scenario, index: int) -> list[str]:
    """ip-batch lines for one namespace: links, addresses, neighbours, routes."""
    last = len(scenario.hops) + 1
    lines = ["link set lo up"]
    for link, end, dev in ((index - 1, 2, "left"), (index, 1, "right")):
        if 0 <= link < last:
            lines += _device_batch(scenario, link, end, dev)
    if index < last - 1:        # further right than the next link: the receiver
        lines.append(f"route add {receiver_address(scenario)} via {_address(scenario, index, 2)} "
                     f"dev right {_toward_receiver(scenario, index)}")
    elif index == last - 1 and (options := _toward_receiver(scenario, index)):
        lines.append(f"route add {receiver_address(scenario)} dev right {options}")
    if index > 1:               # further left than the previous link: the sender
        host = scenario.receiver if index == last else Host()
        lines.append(f"route add {_address(scenario, 0, 1)} via "
                     f"{_address(scenario, index - 1, 1)} dev left {_route_options(host)}")
    for number, leaf in enumerate(scenario.leaves):
        lines += _leaf_routes(scenario, index, number, leaf)
    return lines


def _toward_receiver(scenario: Scenario, index: int) -> str:
    """The options of a node's route to the receiver."""
    if index == 0:
        return _route_options(scenario.sender)
    congctl = scenario.hops[index - 1].pep
    return f"congctl {congctl}" if congctl else ""


def _leaf_routes(scenario: Scenario, index: int, number: int, leaf: Leaf) -> list[str]:
    """ip-batch lines for a node's way to a host beside the line."""
    at = nodes(scenario).index(leaf.at)
    link = _leaf_link(scenario, number)
    if index == at:
        return _device_batch(scenario, link, 1, leaf.name)
    ends = {0: scenario.sender, len(scenario.hops) + 1: scenario.receiver}
    via, dev = (_address(scenario, index, 2), "right") if index < at else \
        (_address(scenario, index - 1, 1), "left")
    options = _route_options(ends.get(index, Host()))
    return [f"route add {_address(scenario, link, 2)} via {via} dev {dev} {options}"]


def _leaf_batch(scenario: Scenario, number: int, leaf: Leaf) -> list[str]:
    """ip-batch lines for a host beside the line."""
    link = _leaf_link(scenario, number)
    return ["link set lo up", *_device_batch(scenario, link, 2, "uplink"),
            f"route add default via {_address(scenario, link, 1)} dev uplink "
            f"{_route_options(leaf.settings)}"]


def burst_bytes(rate_mbit: float) -> int:
    """TBF's bucket: one frame, and 50 us of the rate for a late timer.

    With two frames the first packets of a train would leave back to back and spoil the ACK spacing
    that Hoe's estimate reads.  With exactly one frame a late timer would cost capacity.
    """
    return 1500 + ETHERNET_BYTES + max(100, math.ceil(rate_mbit * 1e6 / 8 * 50e-6))


def _qdisc(scenario: Scenario, stage: Stage, dev: str) -> tuple[list[str], list[list]]:
    """tc-batch lines for a stage, and the texts that tc's JSON must then have.

    The second value has a list for each qdisc of the device.  Its first text names the qdisc, and the
    qdisc's JSON must have every text.  An item may be a tuple of texts: one of them is enough.
    """
    if stage.rate_mbit:
        queue, shown = _queue(scenario, stage)
        return ([f"qdisc add {_tbf(scenario, stage, dev)}",
                 f"qdisc add dev {dev} parent 1: handle 2: {queue}"],
                [['"kind":"tbf"', '"root":true', f'"rate":{round(stage.rate_mbit * 1e6) // 8},'],
                 [f'"kind":"{queue.split()[0]}"', '"parent":"1:"', *shown]])
    if stage.is_line:
        limit = scenario.flight_packets()
        delay_us, jitter_us = _delay_us(stage)
        shown = ['"kind":"netem"', '"root":true', f'"limit":{limit},']
        if delay_us:
            shown.append(tuple(f'"delay":{{"delay":{text},' for text in _tc_seconds(delay_us)))
        if jitter_us:
            shown.append(tuple(f',"jitter":{text},' for text in _tc_seconds(jitter_us)))
        for name in ("loss", "duplicate", "reorder"):
            option = "loss-random" if name == "loss" else name
            percent = getattr(stage, f"{name}_pct")
            if percent:
                shown.append(f'"{option}":{{"{name}":{percent / 100:g},')
        if stage.ecn:
            shown.append('"ecn":true')
        return [f"qdisc add {_netem(scenario, stage, dev)}"], [shown]
    return [], [['"kind":"noqueue"']]


def _tbf(scenario: Scenario, stage: Stage, dev: str) -> str:
    """tc's arguments for a bottleneck, after `qdisc add` or `qdisc change`."""
    limit = stage.queue_bytes or scenario.queue_packets(stage) * scenario.frame_bytes
    return (f"dev {dev} root handle 1: tbf rate {round(stage.rate_mbit * 1e6)}bit "
            f"burst {burst_bytes(stage.rate_mbit)} limit {limit}")


def _queue(scenario: Scenario, stage: Stage) -> tuple[str, list[str]]:
    """tc's arguments for a bottleneck's queue, and the texts that tc's JSON must then have.

    tc computes the weight of RED's average from `burst`; burst_packets() gives the `burst` that yields
    the scenario's weight.
    """
    packets = scenario.queue_packets(stage)
    size, ecn = scenario.frame_bytes, " ecn" if stage.ecn else ""
    if stage.aqm == "red":
        red = stage.red
        limit = stage.queue_bytes or packets * size
        return (f"red limit {limit} min {red.min_packets * size} max {red.max_packets * size} "
                f"avpkt {size} burst {red.burst_packets()} probability {red.probability:g} "
                f"bandwidth {round(stage.rate_mbit * 1e6)}bit{ecn}",
                [f'"limit":{limit},', f'"min":{red.min_packets * size},',
                 f'"max":{red.max_packets * size}', f'"ewma":{red.log_weight},'])
    if stage.aqm:
        return f"{stage.aqm} limit {packets}{ecn or _no_ecn(stage.aqm)}", [f'"limit":{packets}']
    if stage.queue_kind == "bfifo":
        return f"bfifo limit {stage.queue_bytes}", [f'"limit":{stage.queue_bytes}}}']
    return f"pfifo limit {packets}", [f'"limit":{packets}}}']


def _no_ecn(aqm: str) -> str:
    """fq_codel marks by default."""
    return " noecn" if aqm == "fq_codel" else ""


def _netem(scenario: Scenario, stage: Stage, dev: str) -> str:
    """tc's arguments for a link's delay and loss, after `qdisc add` or `qdisc change`.

    A change resets the options that it does not name.
    """
    words = [f"dev {dev} root handle 1: netem limit {scenario.flight_packets()}"]
    delay_us, jitter_us = _delay_us(stage)
    if delay_us:
        words.append(f"delay {delay_us}us" + (f" {jitter_us}us" if jitter_us else ""))
    if stage.reorder_pct:
        words.append(f"reorder {stage.reorder_pct:g}%")
    if stage.loss_pct:
        words.append(f"loss random {stage.loss_pct:g}%" + (" ecn" if stage.ecn else ""))
    if stage.duplicate_pct:
        words.append(f"duplicate {stage.duplicate_pct:g}%")
    return " ".join(words)


def _delay_us(stage: Stage) -> tuple[int, int]:
    """netem's delay and jitter, us.  Its delay is the mean, and its jitter goes to both sides."""
    jitter_us = round(stage.jitter_ms * 500)
    return round(stage.delay_ms * 1000) + jitter_us, jitter_us


def _tc_seconds(us: int) -> list[str]:
    """The two texts by which tc's JSON may print a time.

    tc truncates it to microseconds, after a division whose result may be just below the whole number.
    """
    return [f"{us / 1e6:g}", f"{(us - 1) / 1e6:g}"]


def sysctls(scenario: Scenario, node: str) -> dict[str, str]:
    """A node's sysctls and their values, which the script sets before anything runs there."""
    # No neighbour discovery or router solicitation beside an IPv4 experiment.
    quiet = {"net.ipv6.conf.all.disable_ipv6": "1"} if scenario.family == 4 else {}
    size = scenario.socket_bytes()
    hosts = {"sender": scenario.sender, "receiver": scenario.receiver,
             **{leaf.name: leaf.settings for leaf in scenario.leaves}}
    if node not in hosts:
        hop = next(hop for hop in scenario.hops if hop.name == node)
        ends = {"net.ipv4.tcp_rmem": f"4096 {size} {size}", "net.ipv4.tcp_wmem": f"4096 {size} {size}",
                "net.ipv4.tcp_no_metrics_save": "1"} if hop.pep else {}
        return {"net.ipv4.ip_forward": "1", "net.ipv6.conf.all.forwarding": "1", **quiet, **ends,
                **{key: str(value) for key, value in hop.sysctl.items()}}
    host = hosts[node]
    # A route's ssthresh reaches a flow through the metrics cache, which an earlier flow to the same
    # address fills when it ends.
    forget = "0" if host.ssthresh else "1"
    # 0x607: client and server, both without a cookie, for every listener.
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
    port, out = FIRST_PORT + number, f"$OUT/flow-{number}.json"
    target = host_address(scenario, flow.to)
    if flow.tool in ("iperf3", "udp"):
        amount = f"-n {flow.bytes}" if flow.bytes else f"-t {flow.seconds}"
        rate = round(flow.rate_mbit * 1e6)
        if flow.tool == "udp":
            how = f"-u -b {rate} -l {scenario.mtu - 28} {amount}"
        else:
            how = f"-C {flow.cc} {amount}" + (f" --fq-rate {rate}" if rate else "")
        return f"as_ns {flow.source} iperf3 -c {target} -p {port} {how} -J --get-server-output > {out}"
    if flow.tool == "background":
        return (f"in_ns {flow.source} background {target} {port} {flow.cc} < arrivals-{number} "
                f"> said-{number} && agreed said-{number} $(wc -l < arrivals-{number}) > {out}")
    if flow.tool in ("requests", "page"):
        # The client fetches a page over one connection.
        connections = flow.count if flow.tool == "requests" else 1
        default = DEFAULT_CC if flow.routed else flow.cc
        return (f"{flow.tool} {flow.source} {flow.to} {host_address(scenario, flow.source)} {port} "
                f"{default} < sizes-{number} > said-{number} && "
                f"agreed said-{number} {connections} > {out}")
    amount = f"bytes {flow.bytes}" if flow.bytes else f"seconds {flow.seconds}"
    amount += f" pause {flow.pause_ms}" if flow.pause_ms else ""
    amount += f" write {flow.write_bytes} {flow.write_ms}" if flow.write_ms else ""
    amount += "".join(f" {name}" for name in ("fastopen", "mptcp", "reconnect") if getattr(flow, name))
    amount += f" listener {flow.listener}" if flow.listener else ""
    cc = "-" if flow.routed else ",".join([flow.cc, *(f"{name}:{ms:g}" for ms, name in flow.changes)])
    if flow.passive:
        return f"as_ns {flow.source} flow serve {SERVER_PORT + number} {cc} {amount} > {out}"
    return f"as_ns {flow.source} flow send {target} {port} {cc} {amount} > {out}"


def _receive_command(scenario: Scenario, number: int, flow: Flow) -> str:
    """The shell command of a flow's receiving end.

    For a passive sender it connects, from the port on which it listens for the others, so that every
    flow has its port at the receiver.  The functions `requests` and `page` start their own clients.
    """
    port = FIRST_PORT + number
    if flow.tool in ("iperf3", "udp"):
        return f"as_ns {flow.to} iperf3 -s -1 -p {port} >/dev/null"
    if flow.tool in ("requests", "page"):
        return ":"
    if flow.passive:
        fastopen = " fastopen" if flow.fastopen else ""
        # The server starts with the flow; this is a moment later.
        return (f"sleep {flow.start_s + 0.05:g} && as_ns {flow.to} flow fetch "
                f"{host_address(scenario, flow.source)} {SERVER_PORT + number} {port}{fastopen}")
    return f"as_ns {flow.to} flow recv {port}{' mptcp' if flow.mptcp else ''}"


# The configuration of the page's server; preamble.sh writes its address to listen.conf.
WEB_SERVER = """
user root;
worker_processes 1;
daemon off;
pid /run/job/nginx.pid;
error_log stderr;
events {}
http { access_log off; sendfile on; keepalive_requests 1000; root /run/job/www;
client_body_temp_path /tmp; proxy_temp_path /tmp; fastcgi_temp_path /tmp; uwsgi_temp_path /tmp;
scgi_temp_path /tmp; include listen.conf; }
""".strip().splitlines()


def _traffic_files(scenario: Scenario) -> dict[str, list[str]]:
    """The job's files with the flows' transfers, one on each line.

    A background flow has gaps (s) and sizes (bytes), requests have sizes of replies, a page has sizes
    of objects.
    """
    files = {}
    for number, flow in enumerate(scenario.flows):
        seed = f"{scenario.seed}/{number}"
        if flow.tool == "background":
            before, lines = 0.0, []
            for at, size in traffic.arrivals(flow.law, flow.rate_mbit, flow.seconds, seed):
                lines.append(f"{at - before:.6f} {size}")
                before = at
            files[f"arrivals-{number}"] = lines
        elif flow.tool == "requests":
            files[f"sizes-{number}"] = [str(size) for size in traffic.sizes(flow.law, flow.count, seed)]
        elif flow.tool == "page":
            files[f"sizes-{number}"] = [str(size) for size in flow.objects]
            files["nginx.conf"] = WEB_SERVER
    return files


def _boxes(scenario: Scenario) -> list[tuple[str, list[str], list[str]]]:
    """(name, devices, ip-batch lines) of each namespace."""
    names, boxes = nodes(scenario), []
    for index, name in enumerate(names):
        devs = [dev for dev, present in (("left", index > 0), ("right", index < len(names) - 1))
                if present] + [leaf.name for leaf in scenario.leaves if leaf.at == name]
        batch = _node_batch(scenario, index)
        if 0 < index <= len(scenario.hops):
            peers = {"left": _address(scenario, index - 1, 1), "right": _address(scenario, index, 2)}
            batch = satlink.detour(batch, scenario.hops[index - 1], peers, scenario.mtu)
        boxes.append((name, devs, batch))
    return boxes + [(leaf.name, ["uplink"], _leaf_batch(scenario, number, leaf))
                    for number, leaf in enumerate(scenario.leaves)]


def _topology(scenario: Scenario, prefix: str) -> tuple[dict[str, list[str]], list[str]]:
    """The files and script lines that set up namespaces, links, addresses and routes."""
    names = nodes(scenario)
    leaves = scenario.leaves
    files = {"links": [
        f"netns add {prefix}{name}" for name in [*names, *(leaf.name for leaf in leaves)]] + [
        f"link add right netns {prefix}{left} type veth peer name left netns {prefix}{right}"
        for left, right in zip(names, names[1:])] + [
        f"link add {leaf.name} netns {prefix}{leaf.at} type veth "
        f"peer name uplink netns {prefix}{leaf.name}"
        for leaf in leaves]}
    lines = ["ip -batch links"]
    for name, devs, batch in _boxes(scenario):
        # One process for each namespace: in virtual time starting a program costs more than its work.
        files[f"set-{name}"] = [
            f"echo {value} > /proc/sys/{key.replace('.', '/')}"
            for key, value in sysctls(scenario, name).items()]
        for dev in () if scenario.offload else devs:
            files[f"set-{name}"] += [f"ethtool -K {dev} tso off gso off gro off",
                                     f"ethtool -k {dev} > $OUT/{offloads_file(name, dev)}"]
        files[f"ip-{name}"] = batch
        lines += [f"in_ns {name} sh -e ./set-{name}", f"ip -n {prefix}{name} -batch ip-{name}"]
    return files, lines


SAVED = "/run/saved"    # the guest's folder with the saved topology's namespaces and ethtool's reports


def saved_topology() -> dict[str, bytes]:
    """Files of the topology that the guest sets up before its state is saved; `run` is the script.

    A namespace has another name until a run asks for it: a run with another topology adds its own.
    """
    prefix = "saved-"
    files, lines = _topology(_saved_scenario(), prefix)
    named = [f"ln -s /run/netns/{prefix}{name} {SAVED}/namespaces/{name}"
             for name in nodes(_saved_scenario())]
    return _encoded({**files, "run": [
        "#!/bin/sh", "set -eu", f"OUT={SAVED}/reports", "export OUT",
        f"mkdir -p {SAVED}/namespaces $OUT", *_preamble(prefix), *lines, *named]})


@functools.cache
def _saved_scenario() -> Scenario:
    """One with the topology of most scenarios, and with their least socket buffers."""
    return from_dict({"title": "the saved topology", "hop": [
        {"name": "gateway", "forward": {"rate_mbit": 2, "queue_packets": 1}}, {"name": "satellite"}],
        "flow": [{"cc": DEFAULT_CC, "seconds": 1}]})


def _beyond_saved(scenario: Scenario) -> tuple[dict[str, list[str]], list[str]] | None:
    """As _topology(), but only what the saved topology lacks; None if it has what the scenario lacks.

    A sysctl or a route of the saved topology that has another value is set again.
    """
    saved, _ = _topology(_saved_scenario(), "")
    files, lines = _topology(scenario, "")
    for name, present in saved.items():
        objects, wanted = {_object(line) for line in present}, files.get(name, [])
        if not objects <= {_object(line) for line in wanted}:
            return None
        files[name] = [line.replace("route add", "route replace") if _object(line) in objects else line
                       for line in wanted if line not in present]
    # Each script line ends with the name of the file that it reads.
    lines = [line for line in lines if files[line.split()[-1].removeprefix("./")]]
    return ({name: content for name, content in files.items() if content},
            [f"ln -s {SAVED}/namespaces/* /run/netns/", f"cp {SAVED}/reports/* $OUT/", *lines])


def _object(line: str) -> str:
    """What a line of the topology's files sets: of a sysctl its path, of a route its destination."""
    words = line.split()
    if words[0] == "echo":
        return words[-1]
    if words[:2] == ["route", "add"]:
        return " ".join(words[:3])
    return line


def _setup(scenario: Scenario, prefix: str, saved: bool) -> tuple[dict[str, list[str]], list[str]]:
    """The files and script lines that set up the network and its qdiscs; the arguments are files()'s.

    proof.py compares what the guest reports of them with the scenario.
    """
    files, lines = saved and _beyond_saved(scenario) or _topology(scenario, prefix)
    lines = [*satlink.need(scenario), *lines]
    for hop in scenario.hops:
        batch = [line for stage, dev in _stages(scenario, hop)
                 for line in _qdisc(scenario, stage, dev)[0]]
        if batch:
            files[f"tc-{hop.name}"] = batch
            lines.append(f"tc -n {prefix}{hop.name} -batch tc-{hop.name}")
        if _qdiscs_change(scenario):
            lines.append(_show_qdiscs(prefix, hop, qdisc_file(scenario, hop)))
    for hop in scenario.hops:
        if hop.pep:
            pep_files, started = pep.setup(scenario, hop, host_address(scenario, "sender"),
                                           receiver_address(scenario))
            files.update(pep_files)
            lines += started
    return files, lines + satlink.start(scenario, prefix)


def _stages(scenario: Scenario, hop: Hop) -> list[tuple[Stage, str]]:
    """A hop's stages, each with its device."""
    leaves = [(Stage(delay_ms=leaf.delay_ms), leaf.name) for leaf in scenario.leaves
              if leaf.at == hop.name]
    return [(hop.reverse, "left"), (hop.forward, "right"), *leaves]


def wanted_qdiscs(scenario: Scenario, hop: Hop) -> list[tuple[str, list[list]]]:
    """(device, texts that tc's JSON must have) of each device of a hop; for the texts see _qdisc()."""
    return [(dev, _qdisc(scenario, stage, dev)[1]) for stage, dev in _stages(scenario, hop)]


def _qdiscs_change(scenario: Scenario) -> bool:
    """Whether the qdiscs at a run's end may differ from those that were set up."""
    return bool(scenario.changes or scenario.commands or scenario.before or scenario.after)


def qdisc_file(scenario: Scenario, hop: Hop) -> str:
    """Name of the file with tc's report on a hop as it was set up.

    If nothing changes the hop's qdiscs, that is the report at the end of the run.
    """
    return f"qdisc-{hop.name}{'-before' if _qdiscs_change(scenario) else ''}.json"


def _show_qdiscs(prefix: str, hop: Hop, file: str) -> str:
    """The shell line that writes tc's report on a hop.  tc prints RED's weight with -d only."""
    details = " -d" if "red" in (hop.forward.aqm, hop.reverse.aqm) else ""
    return f"tc -s -j{details} -n {prefix}{hop.name} qdisc show > $OUT/{file}"


def offloads_file(node: str, dev: str) -> str:
    """Name of the file with ethtool's report on a device's offloads."""
    return f"offloads-{node}-{dev}.txt"


def without_offloads(scenario: Scenario) -> list[tuple[str, str]]:
    """(node, device) of each device whose offloads are turned off."""
    boxes = [] if scenario.offload else _boxes(scenario)
    return [(name, dev) for name, devs, _ in boxes for dev in devs]


def _change_commands(scenario: Scenario, change: LinkChange, prefix: str) -> list[str]:
    """tc commands that put a change of a hop's stages into effect."""
    commands = []
    for stage, dev in ((change.reverse, "left"), (change.forward, "right")):
        tc = f"tc -n {prefix}{change.hop} qdisc change"
        if stage and stage.rate_mbit:
            # TBF then sets the limit of its FIFO to TBF's own, in bytes even if the FIFO counts packets.
            queue, _ = _queue(scenario, stage)
            commands.append(f"{tc} {_tbf(scenario, stage, dev)} && "
                            f"{tc} dev {dev} parent 1: handle 2: {queue}")
        elif stage:
            commands.append(f"{tc} {_netem(scenario, stage, dev)}")
    return commands


# Functions of the script, without the file's first lines, which are for people and for shellcheck.
PREAMBLE = Path(__file__).with_name("preamble.sh").read_text().splitlines()[3:]


def witnessed(scenario: Scenario) -> list[str]:
    """The congestion controls whose callbacks satcc_log records.

    They are those that the scenario names in `callbacks_of`, else our policies that its flows and
    proxies use.
    """
    if not {WITNESS, "satcc:*"} & set(scenario.trace):
        return []
    named = scenario.modules.get("satcc_log", {}).get("callbacks_of")
    if named is not None:
        return str(named).split(",")
    used = {cc for flow in scenario.flows for cc in flow.names}
    used |= {hop.pep for hop in scenario.hops if hop.pep}
    return sorted(used & set(policies()))


def _witness_on(scenario: Scenario) -> list[str]:
    """Load the logger with the names of the congestion controls to record."""
    if "satcc_log" in scenario.modules or not witnessed(scenario):
        return []           # files() loads the scenario's modules, with the scenario's parameters
    return [f"modprobe satcc_log callbacks_of={','.join(witnessed(scenario))}"]


# A trace clock that agrees with the captures' clock.  An older kernel has no tai, only a clock that
# begins at the boot; the kernel's list of timers has the difference between the two (record/run.py).
TAI = ("echo tai > $T/trace_clock",)
SINCE_BOOT = ("echo mono > $T/trace_clock", "cat /proc/timer_list > $OUT/timer_list")
TAI_SINCE = (5, 19)


def _clock(release: str) -> tuple[str, ...]:
    """Shell lines that select the trace clock of a kernel; "" is one that has tai."""
    return SINCE_BOOT if release and tuple(map(int, release.split(".")[:2])) < TAI_SINCE else TAI


def _trace_on(scenario: Scenario, release: str) -> list[str]:
    """Shell lines that trace the events of the senders' sockets into the kernel's ring buffer.

    The buffer does not overwrite events: it counts those that it drops.
    """
    if not scenario.trace:
        return []
    lines = [*_witness_on(scenario),
             "T=/sys/kernel/tracing", "echo 0 > $T/tracing_on", "echo nop > $T/current_tracer",
             *_clock(release), "echo 0 > $T/options/overwrite",
             f"wanted_kb={_trace_kb(scenario)}", "read -r buffer_kb < $T/buffer_size_kb",
             "[ $buffer_kb -ge $wanted_kb ] || echo $wanted_kb > $T/buffer_size_kb"]
    for event in scenario.trace:
        group, name = event.split(":")
        lines += [
            f"for e in \"$T\"/events/{group}/{name}/; do",
            "  [ -e $e/enable ] || continue",
            f"  echo '{_traced(scenario)}' > $e/filter 2>/dev/null || :",
            "  echo 1 > $e/enable",
            "  group=${e%/*/}",
            "  { echo \"system: ${group##*/}\"; cat $e/format; } >> $OUT/trace.formats",
            "done"]
    return lines + ["cat $T/events/header_page > $OUT/trace.header", "echo 1 > $T/tracing_on"]


def _traced(scenario: Scenario) -> str:
    """The trace filter that matches the senders' sockets.

    A flow has its port at the receiver, but `requests` and `page` have it at the sender.
    """
    numbers = scenario.traced or range(len(scenario.flows))
    serving = [number for number in numbers if scenario.flows[number].tool in ("requests", "page")]
    if not scenario.traced and not serving:
        return f"dport >= {FIRST_PORT} && dport <= {FIRST_PORT + len(scenario.flows) - 1}"
    return " || ".join(f"{'sport' if number in serving else 'dport'} == {FIRST_PORT + number}"
                       for number in numbers)


def _trace_kb(scenario: Scenario) -> int:
    """The size of the trace buffer in KiB, with room for every event.

    An ACK takes some 400 bytes, 1000 with the logger's events, and 1200 more if the logger records
    callbacks; each segment has one ACK.
    """
    rate = scenario.net_rate_bps / 8 if scenario.bottleneck else 1e8
    flows = [scenario.flows[number] for number in scenario.traced] or scenario.flows
    size = sum(flow.bytes or sum(flow.objects) or flow.seconds * rate for flow in flows)
    each = 400 + 600 * ("satcc_log" in scenario.modules) + 1200 * bool(witnessed(scenario))
    return min(128 << 10, 2048 + int(2 * size / scenario.mss * each / 1024))


def _trace_off(scenario: Scenario) -> list[str]:
    if not scenario.trace:
        return []
    # dd reads page by page.  At the buffer's end it would wait for more, so timeout ends it.
    return ["echo 0 > $T/tracing_on",
            "timeout 5 dd bs=4096 if=$T/per_cpu/cpu0/trace_pipe_raw of=$OUT/trace.raw "
            "2>/dev/null || :",
            "cat $T/per_cpu/cpu0/stats > $OUT/trace.stats",
            *(["read -r lost < /sys/module/satcc_log/parameters/lost", "echo $lost > $OUT/witness.lost"]
              if witnessed(scenario) else [])]


def _captures(scenario: Scenario) -> list[str]:
    if not scenario.capture:
        return []
    dump = "tcpdump -n -s 120 -B 8192 -Z root --time-stamp-precision=nano"
    places = []         # name, namespace, device, tcpdump's filter
    if "sender" in scenario.captures:
        places.append(("sender", "sender", "right", "tcp"))
    if "bottleneck" in scenario.captures and scenario.bottleneck:
        hop = scenario.hops[scenario.bottleneck[0]].name
        places.append(("bottleneck", hop, "right", f"dst host {receiver_address(scenario)} and tcp"))
    if "receiver" in scenario.captures:
        places.append(("receiver", "receiver", "left", "tcp"))
    lines = ["captures="]
    for name, node, dev, what in places:
        lines += [f"as_ns {node} {dump} -i {dev} -w $OUT/{name}.pcap {what} 2>$OUT/{name}.tcpdump &",
                  'captures="$captures $!"']
    return lines


def sample_name(at_s: float, node: str) -> str:
    """Name of the file with a node's counters at one of samples_s.

    An end's file has the output of `ss -ti`, a hop's that of `tc -s`.
    """
    return f"sample-{at_s:g}-{node}"


def _samples(scenario: Scenario) -> list[str]:
    """Shell lines that write every node's counters at each of samples_s, while flows run."""
    sources = sorted({flow.source for flow in scenario.flows})
    lines = ["modprobe tcp_diag"] if scenario.samples_s else []
    for at in scenario.samples_s:
        taken = [f"in_ns {node} ss -HtinO > $OUT/{sample_name(at, node)}" for node in sources]
        taken += [f"in_ns {hop.name} tc -s -j qdisc show > $OUT/{sample_name(at, hop.name)}"
                  for hop in scenario.hops]
        lines.append(f"( sleep {at:g}; {'; '.join(taken)} ) &")
    return lines


def _preamble(prefix: str) -> list[str]:
    return [line.replace("PREFIX", prefix) for line in PREAMBLE]


def _encoded(files: dict[str, list[str]]) -> dict[str, bytes]:
    return {name: ("\n".join(lines) + "\n").encode() for name, lines in files.items()}


def files(scenario: Scenario, prefix: str = "", seeded: bool = True, first: Iterable[str] = (),
          release: str = "", saved: bool = False) -> dict[str, bytes]:
    """The job: the shell script `run`, and the files that it reads from its working directory.

    The script runs in a guest or on a host and writes its results to $OUT.
    prefix: the names of its namespaces begin with this.
    seeded: set the kernel's random numbers by the scenario's seed; for a guest only.
    first: shell lines before the scenario's.
    release: of the kernel, if it is older than the host's.
    saved: for a guest; use its saved topology if the scenario has that, or more.
    Returns each file's name and content.
    """
    job_files, setup = _setup(scenario, prefix, saved)
    job_files.update(_traffic_files(scenario))
    lines = ["#!/bin/sh", "set -eu", "export OUT=${OUT:-/run/out}", *_preamble(prefix), *first]
    lines += [f"seed {scenario.seed}"] if seeded else []
    for module, parameters in scenario.modules.items():
        pairs = " ".join(f"{key}={value}" for key, value in parameters.items())
        # modprobe ignores the parameters of a module that is loaded, and reports no error.
        lines += [f"modprobe -r {module}", f"modprobe {module} {pairs}"]
        lines += [f"parameter {module} {key} {value}" for key, value in parameters.items()]
    for cc in sorted({cc for flow in scenario.flows
                      for cc in (*flow.names, *([flow.listener] if flow.listener else []))}):
        lines.append(f"load {cc}")
    lines += setup
    lines += _trace_on(scenario, release)
    lines += _captures(scenario)
    lines += [f"( {_receive_command(scenario, number, flow)} ) &"
              for number, flow in enumerate(scenario.flows) if not flow.passive]
    lines += [f"sleep {WARMUP_S}",
              f"( sleep {scenario.max_seconds}; "
              f"echo 'satcc: failed: not done after {scenario.max_seconds} s of its own time' ) &",
              f"( at=0; while sleep {HEARTBEAT_S}; do at=$((at + {HEARTBEAT_S})); "
              f"echo \"satcc: at $at\"; done ) &",
              *scenario.before, *satlink.begin(scenario), "flows=", "echo 'satcc: flows'"]
    for number, flow in enumerate(scenario.flows):
        start = f"sleep {flow.start_s:g} && " if flow.start_s else ""
        lines += [f"( {start}{_send_command(scenario, number, flow)} ) &", 'flows="$flows $!"']
    lines += [f"( {_receive_command(scenario, number, flow)} ) &"
              for number, flow in enumerate(scenario.flows) if flow.passive]
    lines += [f"( sleep {change.at_s:g} && {line} ) &" for change in scenario.changes
              for line in _change_commands(scenario, change, prefix)]
    lines += [f"( {command} ) &" for command in scenario.commands]
    lines += _samples(scenario)
    lines += ["for flow in $flows; do wait $flow || "
              "{ echo 'satcc: failed: a flow ended with an error'; exit 4; }; done"]
    if any(hop.pep for hop in scenario.hops) and any(flow.bytes for flow in scenario.flows):
        lines.append(pep.DRAINED)
    lines.append("echo 'satcc: collecting'")
    lines += [*scenario.after, *satlink.end(scenario, prefix), *_trace_off(scenario)]
    if scenario.capture:
        # tcpdump gets the last block of packets after a time-out of one second.
        lines += ["sleep 1.1", "kill $captures", "for capture in $captures; do wait $capture; done"]
    lines += [_show_qdiscs(prefix, hop, f"qdisc-{hop.name}.json") for hop in scenario.hops]
    # Files of one line are read by the shell itself: in virtual time a program costs more than its work.
    lines += ["read -r release < /proc/sys/kernel/osrelease", "echo $release > $OUT/kernel",
              "for m in /sys/module/tcp_*/srcversion /sys/module/satcc_*/srcversion; do "
              "[ -e $m ] || continue; read -r version < $m; m=${m%/srcversion}; "
              "echo \"${m##*/} $version\"; done > $OUT/modules"]
    job_files["run"] = lines
    return _encoded(job_files)
