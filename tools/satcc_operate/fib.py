# SPDX-License-Identifier: GPL-2.0
"""Routes and rules of one network namespace, as the kernel has them, through `ip -j`.

A route is a dictionary: what `ip -N -d -j route` prints, with `family` (4, 6), `prefix` (an
ip_network), `table` and `protocol` (numbers as text) and `locks` (names of locked metrics, which
the JSON lacks).
"""

import ipaddress
import os
import re

from .host import CommandError, OperateError

PROTOCOL = 167                  # marks what satcc adds; no other program in iproute2's list has it
FIRST_TABLE = 16700000          # the table of local port N is this plus N
LAST_TABLE = FIRST_TABLE + 65535
MAIN, LOCAL = "254", "255"
UNICAST = "1"
MAIN_RULE = 32766               # priority of the rule that looks up the main table

# Metrics of a route and the words that add them; times are in ms.
METRICS = ("mtu", "window", "rtt", "rttvar", "ssthresh", "cwnd", "advmss", "reordering", "hoplimit",
           "initcwnd", "rto_min", "initrwnd", "quickack", "fastopen_no_cookie")
MILLISECONDS = ("rtt", "rttvar", "rto_min")
KNOWN = {"type", "dst", "gateway", "via", "dev", "table", "protocol", "scope", "prefsrc", "flags",
         "metrics", "metric", "pref", "nexthops", "nhid", "nh_info", "expires", "cache", "family",
         "prefix", "locks"}


class CannotCopy(OperateError):
    """No route leads to the prefix now, or only one that satcc cannot copy."""


def families():
    """4, and 6 unless the kernel was started without IPv6, because `ip -6` then fails."""
    return (4, 6) if os.path.exists("/proc/net/if_inet6") else (4,)


def prefix_of(text):
    """203.0.113.0/24, 2001:db8::/32, an address, `default`, `default6`.  Raises OperateError."""
    try:
        return ipaddress.ip_network({"default": "0.0.0.0/0", "default6": "::/0"}.get(text, text))
    except ValueError as error:
        raise OperateError(f"{text} is not a prefix: {error}") from None


def is_missing_table(error):
    return "FIB table does not exist" in str(error)


def routes(host, family, *selector):
    """The routes of `ip route show SELECTOR`; none if the table does not exist.  Raises CommandError."""
    command = ["ip", f"-{family}", "-N", "-d", "-o"]
    for _ in range(5):
        try:
            listed = host.run_json([*command, "-j", "route", "show", *selector])
            text = host.run([*command, "route", "show", *selector])
        except CommandError as error:
            if is_missing_table(error):
                return []
            raise
        lines = [line for line in text.splitlines() if not line.startswith("\t")]
        if len(lines) == len(listed):       # else a route was added or deleted in between
            return [complete(family, route, line, selector) for route, line in zip(listed, lines)]
    raise OperateError("the routes change too fast to be read")


def complete(family, route, line, selector=()):
    """A route with the members that the module's docstring lists."""
    chosen = dict(zip(selector, selector[1:]))      # ip omits members that the selector gives
    route.setdefault("table", chosen.get("table", MAIN))
    route.setdefault("protocol", chosen.get("proto", "0"))
    whole = "0.0.0.0/0" if family == 4 else "::/0"
    route["prefix"] = ipaddress.ip_network(whole if route["dst"] == "default" else route["dst"])
    route["family"] = family
    route["locks"] = sorted({"congestion" if name == "congctl" else name
                             for name in re.findall(r" (\w+) lock ", line)} - {"rto_min"})
    return route


def own_routes(host):
    """The routes that satcc added, of both families and all tables."""
    return [route for family in families()
            for route in routes(host, family, "table", "all", "proto", str(PROTOCOL))]


def is_own(route):
    return route["protocol"] == str(PROTOCOL)


def port_of(route):
    """The local port whose table the route is in; None: the route is for all ports."""
    table = int(route["table"])
    return table - FIRST_TABLE if FIRST_TABLE < table <= LAST_TABLE else None


def metrics(route):
    """The route's metrics by name."""
    merged = {}
    for part in route.get("metrics", []):
        merged.update(part)
    return merged


def policy(route):
    """The policy of the route; None without one."""
    return metrics(route).get("congestion")


def chosen_route(host, address, *selector):
    """The route that the kernel uses for an address now; None if it has none."""
    family = address.version
    command = ["ip", f"-{family}", "-N", "-d", "-j", "route", "get", "fibmatch", str(address), *selector]
    try:
        listed = host.run_json(command)
    except CommandError:            # unreachable, or a route that drops
        return None
    return complete(family, listed[0], "") if listed else None


def device(route):
    """The device of a route; the first one if there are several."""
    hops = route.get("nexthops")
    return hops[0].get("dev", "") if hops else route.get("dev", "")


def gateway(route):
    """The address of a route's first next hop; "" for a route on the link."""
    hop = (route.get("nexthops") or [route])[0]
    return hop["via"]["host"] if "via" in hop else hop.get("gateway", "")


# ---- the words that add a route --------------------------------------------

def words(route):
    """The words of `ip route add` after the prefix, without table, protocol and metric.

    Raises OperateError for a route with members that this program does not know.
    """
    unknown = sorted(set(route) - KNOWN)
    if route["type"] != UNICAST:
        raise CannotCopy(f"the route {route['dst']} leads nowhere: it drops packets")
    if unknown:
        raise CannotCopy(f"the route {route['dst']} has {', '.join(unknown)}, which satcc cannot copy")
    parts = hop_words(route)
    if "prefsrc" in route:
        parts += ["src", route["prefsrc"]]
    if route.get("pref", "medium") != "medium":
        parts += ["pref", route["pref"]]
    parts += metric_words(route)
    for hop in route.get("nexthops", []) if "nhid" not in route else []:
        parts += ["nexthop", *hop_words(hop), "weight", str(hop.get("weight", 1))]
    return parts


def hop_words(hop):
    """nhid N, or: via ADDRESS dev NAME onlink"""
    if "nhid" in hop:
        return ["nhid", str(hop["nhid"])]
    parts = []
    if "via" in hop:
        parts += ["via", hop["via"]["family"], hop["via"]["host"]]
    elif "gateway" in hop:
        parts += ["via", hop["gateway"]]
    if "dev" in hop:
        parts += ["dev", hop["dev"]]
    return parts + (["onlink"] if "onlink" in hop.get("flags", []) else [])


def metric_words(route):
    """mtu lock 1400 initcwnd 20 ... congctl lock satcc"""
    values = metrics(route)
    unknown = sorted(set(values) - {*METRICS, "congestion", "ecn"})
    if unknown:
        raise CannotCopy(f"the route {route['dst']} has {', '.join(unknown)}, which satcc cannot copy")
    parts = []
    for name in METRICS:
        if name in values:
            unit = "ms" if name in MILLISECONDS else ""
            parts += [name, *(["lock"] if name in route["locks"] else []), f"{values[name]}{unit}"]
    if "ecn" in values:
        parts += ["features", "ecn"]
    if "congestion" in values:
        parts += ["congctl", *(["lock"] if "congestion" in route["locks"] else []), values["congestion"]]
    return parts


# ---- rules -----------------------------------------------------------------

def rules(host, family):
    """The output of `ip -j rule`, in the order of the kernel.  Raises CommandError."""
    return host.run_json(["ip", f"-{family}", "-N", "-d", "-j", "rule", "show"])


def rule_words(prefix, port, route_table, suppress=None):
    """The words of `ip rule add` for connections from a local port to a prefix.

    Rules of longer prefixes come first, and all of them come right before the rule of the main table.
    suppress: ignore routes of the table with prefixes of this length or shorter.
    """
    priority = MAIN_RULE - 2 - 2 * prefix.prefixlen + (suppress is None)
    return ["priority", str(priority), *(["to", str(prefix)] if prefix.prefixlen else []),
            "ipproto", "tcp", "sport", str(port), "lookup", str(route_table),
            *([] if suppress is None else ["suppress_prefixlength", str(suppress)]),
            "protocol", str(PROTOCOL)]


def own_rules(host, family):
    """The rules that satcc added, as the words that add them."""
    return [listed_rule_words(family, rule) for rule in rules(host, family)
            if rule.get("protocol") == str(PROTOCOL)]


def rule_prefix(family, rule):
    """The destinations of a rule that the kernel lists."""
    length = rule.get("dstlen", (32 if family == 4 else 128) if "dst" in rule else 0)
    whole = "0.0.0.0" if family == 4 else "::"
    return ipaddress.ip_network(f"{rule.get('dst', whole)}/{length}")


def listed_rule_words(family, rule):
    """The words that would add a rule that the kernel lists."""
    prefix = rule_prefix(family, rule)
    parts = ["priority", str(rule["priority"]), *(["to", str(prefix)] if prefix.prefixlen else []),
             "ipproto", "tcp", "sport", str(rule.get("sport", "")), "lookup", str(rule.get("table", "")),
             *(["suppress_prefixlength", str(rule["suppress_prefixlen"])]
               if "suppress_prefixlen" in rule else []),
             "protocol", str(PROTOCOL)]
    return parts
