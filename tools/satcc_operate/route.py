# SPDX-License-Identifier: GPL-2.0
"""satcc route: gives a policy to a prefix, by a route beside the one that the kernel uses now.

Every route and rule that satcc adds has the protocol number fib.PROTOCOL.  satcc changes or removes only
these, and makes each change completely or not at all.
"""

import dataclasses
import ipaddress
import json

from . import bpf, fib, status
from .host import CommandError, OperateError

STORE = "etc/satcc/routes.json"         # of the host's first namespace; see store_file
STORE_VERSION = 1
GLOBAL = {4: ipaddress.ip_network("0.0.0.0/0"), 6: ipaddress.ip_network("2000::/3")}
RESERVED = {ipaddress.ip_network(text) for text in ("0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/3")}


@dataclasses.dataclass(frozen=True)
class Request:
    """The operator's request: a policy for a prefix."""
    prefix: object                  # an ip_network
    policy: str
    port: int = None                # only connections from this local port
    lock: bool = False              # refuse an application's own choice
    initcwnd: int = None            # segments; None: that of the copied route

    def __str__(self):
        port = f" from local port {self.port}" if self.port else ""
        return f"{self.prefix}{port}"

    def as_json(self):
        return {"prefix": str(self.prefix), "policy": self.policy, "port": self.port,
                "lock": self.lock, "initcwnd": self.initcwnd}


@dataclasses.dataclass(frozen=True)
class Step:
    """A command, and the command that undoes it."""
    command: tuple
    undo: tuple


# ---- all or nothing --------------------------------------------------------

def apply(host, steps):
    """Run the commands of all steps, or leave none of them in effect.  Raises OperateError."""
    completed = []
    try:
        for step in steps:
            completed.append(step)          # before run(), which ^C may end after the kernel's change
            host.run(step.command)
    except CommandError as error:
        completed.pop()
        raise OperateError(f"{error}; {take_back(host, completed)}") from None
    except BaseException:
        take_back(host, completed)
        raise


def take_back(host, completed):
    """Undo steps, the last one first.  Returns a phrase about the steps that could not be undone."""
    stuck = []
    for step in reversed(completed):
        try:
            host.run(step.undo)
        except OperateError:
            stuck.append(host.shown(step.undo))
    return f"to undo the rest, run: {'; '.join(stuck)}" if stuck else "nothing has changed"


# ---- which route is copied -------------------------------------------------

def used_table(host, prefix):
    """The table in which the kernel finds a route to the prefix now; the main table if it has none."""
    if prefix.prefixlen == 0:
        address = address_of_default(host, prefix.version)
    else:
        address = prefix.network_address + (prefix.num_addresses > 1)
    chosen = fib.chosen_route(host, address) if address else None
    if not chosen or chosen["table"] == fib.LOCAL or fib.port_of(chosen):
        return fib.MAIN
    return chosen["table"]


def address_of_default(host, family):
    """An address to which only a default route of any table leads; None if there is none."""
    listed = [route["prefix"] for route in fib.routes(host, family, "table", "all")]
    listed += [fib.rule_prefix(family, rule) for rule in fib.rules(host, family)]
    taken = {prefix for prefix in listed if prefix.prefixlen}
    return address_outside(GLOBAL[family], taken | RESERVED)


def address_outside(network, taken):
    """An address of a network that is in none of the prefixes; None if they cover the network."""
    inside = [prefix for prefix in taken
              if prefix.version == network.version and prefix.overlaps(network)]
    if not inside:
        return network.network_address + (network.num_addresses > 1)
    if any(network.subnet_of(prefix) for prefix in inside):
        return None
    for half in network.subnets():
        if address := address_outside(half, inside):
            return address
    return None


def covering_route(host, prefix, table):
    """The route that the kernel would use for the whole prefix without satcc.  Raises OperateError."""
    listed = fib.routes(host, prefix.version, "match", str(prefix), "table", table)
    others = [route for route in listed if not fib.is_own(route)]
    if not others:
        raise fib.CannotCopy(f"no route leads to {prefix}: add one first, or connect the network")
    return min(others, key=lambda route: (-route["prefix"].prefixlen, route.get("metric", 0)))


def wanted_route(request, covering, table, metric):
    """The route to be added: the covering one with the request's prefix and metrics."""
    values = {**fib.metrics(covering), "congestion": request.policy}
    locks = set(covering["locks"]) - {"congestion"} | ({"congestion"} if request.lock else set())
    if request.initcwnd:
        values["initcwnd"] = request.initcwnd
    return {**covering, "prefix": request.prefix, "dst": str(request.prefix), "table": table,
            "protocol": str(fib.PROTOCOL), "metric": metric, "metrics": [values], "locks": sorted(locks)}


def wanted_metric(request, covering, table):
    """A metric with which the kernel prefers the new route to an old one of the same prefix.

    It is smaller than the old one, so that a daemon that replaces its own route does not replace ours.
    If both metrics are 0, IPv4 prefers the new route.  IPv6 has no metric below 1.  Raises OperateError.
    """
    same = covering["prefix"] == request.prefix and covering["table"] == table
    if request.prefix.version == 4:
        return max(covering.get("metric", 0) - 1, 0) if same else 0
    if not same:
        return 1024                         # the kernel's own
    if covering["metric"] < 2:
        raise fib.CannotCopy(f"the route {request.prefix} has the metric 1, so no route can precede it")
    return covering["metric"] - 1


# ---- steps -----------------------------------------------------------------

def route_command(verb, route):
    """ip -4 route VERB PREFIX ... as a tuple of words."""
    metric = ["metric", str(route["metric"])] if route.get("metric") else []
    return ("ip", f"-{route['family']}", "route", verb, str(route["prefix"]), "table", route["table"],
            "proto", str(fib.PROTOCOL), *metric, *fib.words(route))


def del_command(route):
    metric = ["metric", str(route["metric"])] if route.get("metric") else []
    return ("ip", f"-{route['family']}", "route", "del", str(route["prefix"]), "table", route["table"],
            "proto", str(fib.PROTOCOL), *metric)


def first_verb(route):
    """IPv4 puts the new route before one of the same prefix and metric."""
    return "prepend" if route["family"] == 4 else "add"


def add_step(route):
    return Step(route_command(first_verb(route), route), del_command(route))


def del_step(route):
    return Step(del_command(route), route_command(first_verb(route), route))


def rule_step(family, words, verb="add"):
    other = "del" if verb == "add" else "add"
    return Step(("ip", f"-{family}", "rule", verb, *words), ("ip", f"-{family}", "rule", other, *words))


def same_route(one, other):
    return (fib.words(one), one.get("metric", 0)) == (fib.words(other), other.get("metric", 0))


def plan_route(host, request, covering, table):
    """The steps that add the request's route to a table; none if it is there already."""
    listed = fib.routes(host, request.prefix.version, "exact", str(request.prefix), "table", table)
    present = next((route for route in listed if fib.is_own(route)), None)
    wanted = wanted_route(request, covering, table, wanted_metric(request, covering, table))
    if not present:
        return [add_step(wanted)]
    if same_route(present, wanted) and listed[0] is present:
        return []
    if listed[0] is present and present.get("metric", 0) == wanted["metric"]:
        return [Step(route_command("replace", wanted), route_command("replace", present))]
    return [del_step(present), add_step(wanted)]


def plan_add(host, request):
    """The steps that put a request into effect; none if it is already.  Raises OperateError."""
    used = used_table(host, request.prefix)
    covering = covering_route(host, request.prefix, used)
    if request.port is None:
        return plan_route(host, request, covering, used)
    if used != fib.MAIN:
        raise OperateError(f"--port works with routes of the main table; the kernel uses table {used}")
    table = str(fib.FIRST_TABLE + request.port)
    return [*plan_route(host, request, covering, table), *plan_rules(host, request)]


def port_rules(prefix, port):
    """The words of both rules of a prefix and a local port.

    The first keeps the precedence of more specific routes of the main table, the second looks up the
    table of the port.
    """
    return [fib.rule_words(prefix, port, fib.MAIN, prefix.prefixlen),
            fib.rule_words(prefix, port, fib.FIRST_TABLE + port)]


def plan_rules(host, request):
    """The steps that add the rules of a request with a port.  Raises OperateError."""
    family = request.prefix.version
    wanted = port_rules(request.prefix, request.port)
    check_rules(host, family, int(wanted[0][1]))
    present = fib.own_rules(host, family)
    return [rule_step(family, words) for words in wanted if words not in present]


def check_rules(host, family, priority):
    """Raises OperateError if other rules come after ours, because ours would take precedence."""
    others = [rule["priority"] for rule in fib.rules(host, family)
              if rule.get("protocol") != str(fib.PROTOCOL)
              and priority <= rule["priority"] < fib.MAIN_RULE]
    if others:
        raise OperateError(f"--port needs the priorities {priority} to {fib.MAIN_RULE - 1}, but this "
                           f"host has a rule with {others[0]}: give that rule a smaller number")


def plan_del(host, prefix, port, policy=None):
    """The steps that remove satcc's routes of a prefix, and the rules that lead to them.

    Raises OperateError if the routes have another policy than the one given.
    """
    listed = [route for route in fib.own_routes(host)
              if route["prefix"] == prefix and fib.port_of(route) == port]
    for route in listed:
        if policy not in (None, fib.policy(route)):
            raise OperateError(f"the route to {prefix} has the policy {fib.policy(route)}, not {policy}")
    return [*rule_removals(host, prefix, port), *(del_step(route) for route in listed)]


def rule_removals(host, prefix, port):
    """The steps that remove the rules of a prefix and a local port."""
    if port is None:
        return []
    wanted = port_rules(prefix, port)
    return [rule_step(prefix.version, words, "del")
            for words in fib.own_rules(host, prefix.version) if words in wanted]


def plan_flush(host):
    """The steps that remove all that satcc added: rules first."""
    return [*(rule_step(family, words, "del") for family in fib.families()
              for words in fib.own_rules(host, family)),
            *(del_step(route) for route in fib.own_routes(host))]


# ---- the file of `save` and `restore` --------------------------------------

def store_file(host):
    """The file in which the routes of a namespace are saved."""
    return f"etc/satcc/routes-{host.namespace}.json" if host.namespace else STORE


def requests_in_effect(host):
    """The requests that would add the current routes of satcc, sorted.

    If two tables have a route to a prefix, because a rule was added later, the table in use counts.
    """
    chosen = {}
    for route in fib.own_routes(host):
        place = route["prefix"], fib.port_of(route)
        if place not in chosen or route["table"] == used_table(host, route["prefix"]):
            chosen[place] = route
    return sorted((Request(prefix, fib.policy(route), port, "congestion" in route["locks"],
                           fib.metrics(route).get("initcwnd"))
                   for (prefix, port), route in chosen.items()),
                  key=lambda request: (request.prefix.version, request.prefix, request.port or 0))


def requests_to_save(host):
    """The requests in effect, as JSON.  Raises OperateError if a route has lost its policy."""
    requests = requests_in_effect(host)
    for request in requests:
        if not request.policy:
            raise OperateError(f"satcc's route to {request} has lost its policy, because the module was "
                               "unloaded: load the module or add the route again first")
    return [request.as_json() for request in requests]


def save(host):
    """Replace the file by the requests in effect.  Returns their number.  Raises OperateError."""
    listed = requests_to_save(host)
    host.write_whole(store_file(host), json.dumps(
        {"version": STORE_VERSION, "routes": listed}, indent=2) + "\n")
    return len(listed)


def stored(host):
    """The requests in the file; None without a file.  Raises OperateError for a bad one."""
    name = store_file(host)
    text = host.read(name)
    if text is None:
        return None
    try:
        data = json.loads(text)
        if data["version"] != STORE_VERSION:
            raise ValueError(f"its version is {data['version']}, not {STORE_VERSION}")
        requests = [stored_request(each) for each in data["routes"]]
    except (ValueError, KeyError, TypeError) as error:
        raise OperateError(f"/{name} is not a file of `satcc route save`: {error}") from None
    places = [(request.prefix, request.port) for request in requests]
    if len(set(places)) < len(places):
        raise OperateError(f"/{name} has a prefix twice")
    return requests


def saved_request(host, chosen):
    """The request in the file for one of satcc's routes; None without one, or if the file is bad."""
    try:
        return next((request for request in stored(host) or []
                     if (request.prefix, request.port) == (chosen["prefix"], fib.port_of(chosen))), None)
    except OperateError:
        return None


def stored_request(member):
    """A Request from a member of the file.  Raises ValueError, KeyError, TypeError."""
    if not isinstance(member, dict):
        raise ValueError(f"{json.dumps(member)} is not a route")
    port, initcwnd = member.get("port"), member.get("initcwnd")
    if port is not None and not (isinstance(port, int) and 0 < port < 65536):
        raise ValueError(f"{port} is not a port")
    if initcwnd is not None and not (isinstance(initcwnd, int) and initcwnd > 0):
        raise ValueError(f"{initcwnd} is not a number of segments")
    if not isinstance(member["prefix"], str):
        raise ValueError(f"{member['prefix']} is not a prefix")
    if not isinstance(member["policy"], str):
        raise ValueError(f"{member['policy']} is not a policy's name")
    return Request(ipaddress.ip_network(member["prefix"]), member["policy"], port,
                   bool(member.get("lock")), initcwnd)


# ---- sub-commands ----------------------------------------------------------

def conclude(host, options, steps, summary, nothing):
    """Apply the steps, or print them with --dry-run, and print the result.  Returns the exit status."""
    if not options.dry_run:
        apply(host, steps)
    commands = [host.shown(step.command) for step in steps]
    if options.json:
        changed = bool(steps) and not options.dry_run
        print(json.dumps({"changed": changed, "commands": commands}, indent=2))
    elif options.dry_run:
        print("\n".join(commands) if commands else nothing)
    else:
        print(summary if steps else nothing)
    return 0


def add(host, options):
    """satcc route add"""
    prefix = fib.prefix_of(options.prefix)
    request = Request(prefix, options.policy, options.port, options.lock, options.initcwnd)
    bpf.require(host, request.policy, load=not options.dry_run)
    return conclude(host, options, plan_add(host, request),
                    f"new connections to {request} use {request.policy}",
                    f"nothing to do: connections to {request} use {request.policy} already")


def delete(host, options):
    """satcc route del"""
    prefix = fib.prefix_of(options.prefix)
    steps = plan_del(host, prefix, options.port, options.policy)
    request = Request(prefix, "", options.port)
    return conclude(host, options, steps, f"removed satcc's route to {request}",
                    f"nothing to do: satcc has no route to {request}")


def flush(host, options):
    """satcc route flush"""
    steps = plan_flush(host)
    return conclude(host, options, steps, f"removed satcc's routes and rules: {len(steps)}",
                    "nothing to do: satcc has no route")


def list_routes(host, options):
    """satcc route list"""
    listed = [status.described(route) for route in fib.own_routes(host)]
    if options.json:
        print(json.dumps(listed, indent=2))
    elif listed:
        print("\n".join(status.route_table(listed)))
    return 0


def save_routes(host, options):
    """satcc route save"""
    if options.dry_run:
        listed = requests_to_save(host)
        print(json.dumps({"version": STORE_VERSION, "routes": listed}, indent=2))
        return 0
    count = save(host)
    print(json.dumps({"saved": count}) if options.json
          else f"saved {count} route{'' if count == 1 else 's'} in /{store_file(host)}")
    return 0


def restore(host, options):
    """satcc route restore: all routes of the file, or none."""
    requests, name = stored(host), store_file(host)
    if requests is None:
        raise OperateError(f"there is no /{name}: `satcc route save` writes it")
    for policy in sorted({request.policy for request in requests}):
        bpf.require(host, policy, load=not options.dry_run)
    steps = [step for request in requests for step in plan_add(host, request)]
    return conclude(host, options, steps, f"restored {len(requests)} routes of /{name}",
                    f"nothing to do: all {len(requests)} routes of /{name} are in effect")
