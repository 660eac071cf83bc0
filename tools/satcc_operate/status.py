# SPDX-License-Identifier: GPL-2.0
"""satcc status: shows modules, default and allowed policies, routes with a policy, and live sockets."""

import json
import os
import sys
import time

from . import bpf, fib, holders, policies, sockets, tables

CLEAR = "\033[H\033[J"
UNLOADED = "(unloaded)"         # in place of a policy that a route has lost with its module


def gather(host):
    """The output of status --json."""
    state = without_connections(host)
    held = [each["policy"] for each in [*state["modules"], *state["bpf"]] if each.get("references", 1)]
    return {**state, "holders": [each.as_json() for each in holders.of(host, held)],
            "sockets": {name: sockets.summary(group)
                        for name, group in sockets.by_policy(sockets.live(host)).items()}}


def without_connections(host):
    """The policies of the host, and the routes that have one."""
    return {"kernel": host.release(), "namespace": host.namespace,
            "default": policies.default(host), "available": policies.available(host),
            "allowed": policies.allowed(host), "modules": modules(host),
            "bpf": [{"policy": policy, "parameters": values}
                    for policy, values in bpf.visible(host).items()],
            "routes": policy_routes(host)}


def modules(host):
    """The loaded module of each policy of the pack, and of each other policy that is a module."""
    names = sorted({*policies.POLICIES, *policies.available(host)})
    return [module(host, name) for name in names
            if policies.loaded(host, policies.module_name(name))]


def module(host, policy):
    name = policies.module_name(policy)
    return {"policy": policy, "module": name, "version": host.read(f"sys/module/{name}/version"),
            "srcversion": host.read(f"sys/module/{name}/srcversion"),
            "references": policies.reference_count(host, name),
            "parameters": policies.parameters(host, name)}


def policy_routes(host):
    """The unicast routes with a policy, and satcc's that have lost it, of both families, all tables."""
    return [described(route) for family in fib.families()
            for route in fib.routes(host, family, "table", "all")
            if fib.policy(route) or fib.is_own(route)]


def described(route):
    """A route with a policy as a dictionary for JSON and tables."""
    return {"family": route["family"], "prefix": str(route["prefix"]), "policy": fib.policy(route),
            "lock": "congestion" in route["locks"], "port": fib.port_of(route),
            "initcwnd": fib.metrics(route).get("initcwnd"), "gateway": fib.gateway(route),
            "device": fib.device(route), "table": int(route["table"]), "metric": route.get("metric", 0),
            "by_satcc": fib.is_own(route)}


# ---- text ------------------------------------------------------------------

def route_table(listed):
    return tables.table(
        ["PREFIX", "POLICY", "LOCK", "PORT", "VIA", "DEV", "INITCWND", "BY"],
        [[route["prefix"], route["policy"] or UNLOADED, "yes" if route["lock"] else "no", route["port"],
          route["gateway"], route["device"], route["initcwnd"],
          "satcc" if route["by_satcc"] else "other"] for route in listed])


def policy_table(state):
    """The loaded modules and BPF objects.  HELD: references to a module."""
    return tables.table(
        ["POLICY", "LOADED AS", "VERSION", "HELD", "PARAMETERS"],
        [[each["policy"], each.get("module", "BPF"), each.get("version"), each.get("references"),
          "?" if each["parameters"] is None else
          " ".join(f"{name}={value}" for name, value in each["parameters"].items())]
         for each in [*state["modules"], *state["bpf"]]])


def holder_table(listed):
    return tables.table(
        ["POLICY", "HELD IN NAMESPACE", "DEFAULT", "SOCKETS", "PROGRAMS"],
        [[each["policy"], str(holders.Space.of_json(each)), "yes" if each["default"] else "no",
          each["sockets"], holders.program_text([tuple(one.values()) for one in each["programs"]])]
         for each in listed])


def socket_table(listed):
    rows = []
    for policy, each in listed.items():
        limited = each["limited_pct"]
        rtt = {name: shorter(value) for name, value in (each["rtt_ms"] or {}).items()}
        rows.append([policy, each["sockets"], each["goodput_mbit"], rtt.get("min"), rtt.get("median"),
                     rtt.get("max"), each["retransmitted_pct"], limited["cwnd"], limited["rwnd"],
                     limited["sndbuf"]])
    return tables.table(["POLICY", "CONNS", "MBIT/S", "MIN MS", "RTT MS", "MAX MS", "RETR%", "CWND%",
                         "RWND%", "SNDBUF%"], rows)


def shorter(milliseconds):
    """A time with one decimal from 10 ms on."""
    return round(milliseconds, 1) if milliseconds >= 10 else milliseconds


def nobody(state):
    """What to say if nothing is seen that holds a policy."""
    if os.geteuid():
        return "run as root to see what holds a policy in other network namespaces"
    return "no socket and no default policy holds a loaded policy"


def text(state, note=""):
    """The output of status as text.  note: more words of the first line."""
    where = f" in namespace {state['namespace']}" if state["namespace"] else ""
    lines = [f"kernel {state['kernel']}{where}{note}", f"default policy: {state['default']}",
             f"available: {' '.join(state['available'])}",
             f"ordinary users may select: {' '.join(state['allowed'])}"]
    for title, part, empty in (
            ("policies", policy_table(state), "none is loaded as a module or BPF object"),
            ("holders", holder_table(state["holders"]), nobody(state)),
            ("routes", route_table(state["routes"]), "no route has a policy"),
            ("connections", socket_table(state["sockets"]), "there is no TCP connection")):
        lines += ["", *(part if len(part) > 1 else [f"{title}: {empty}"])]
    return "\n".join(lines)


# ---- the sub-command -------------------------------------------------------

def run(host, options):
    """Print the state once, or repeatedly with --watch.  Returns the exit status."""
    if options.watch is None:
        state = gather(host)
        print(json.dumps(state, indent=2) if options.json else text(state))
        return 0
    watch(host, options)
    return 0


def watch(host, options):
    """Print the state every `watch` seconds until ^C, with the goodput since the last output.

    A terminal shows the state at once, when there is no goodput yet.
    """
    earlier, begin = sockets.live(host), time.monotonic()
    if sys.stdout.isatty() and not options.json:
        state = gather(host)
        for each in state["sockets"].values():
            each["goodput_mbit"] = None
        draw(state, options.watch)
    while True:
        time.sleep(options.watch)
        later, now = sockets.live(host), time.monotonic()
        state = gather(host)
        for policy, rate in sockets.rates(earlier, later, now - begin).items():
            if policy in state["sockets"]:
                state["sockets"][policy]["goodput_mbit"] = rate
        earlier, begin = later, now
        if options.json:
            print(json.dumps(state), flush=True)
        else:
            draw(state, options.watch)


def draw(state, seconds):
    """Print the state with the time; a terminal has only the last one."""
    note = f"; {time.strftime('%H:%M:%S')}, every {seconds:g} s, ^C ends"
    print((CLEAR if sys.stdout.isatty() else "") + text(state, note) + "\n", flush=True)
