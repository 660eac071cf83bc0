# SPDX-License-Identifier: GPL-2.0
"""satcc route follow: keeps satcc's routes on the next hops that the kernel uses without them.

A copied route has the next hop of its original.  When the original changes, the copy is replaced.  When
the original goes, the copy goes too, and comes back with it.
"""

import json
import os
import re
import select
import sys
import time

from . import bpf, fib, route
from .host import OperateError

QUIET = 0.3             # s without an event that end a burst of events
LONGEST = 3.0           # s of one burst
LATE = 0.5              # s in which the event of a change that is visible must come
AGAIN = 5.0             # s until a failed change is tried again
# [LINK]3: v0@if2: <BROADCAST,MULTICAST> mtu 1500 ..., or [LINK]Deleted 3: v0@if2: <...> ...
LINK = re.compile(r"\[LINK\](Deleted )?\d+: ([^:@]+)[^<]*<([^>]*)>")
ADDRESS = re.compile(r"\[ADDR\](?:Deleted )?\d+: (\S+)")       # [ADDR]3: v0    inet 192.0.2.1/24 ...
KERNEL = "2"            # the protocol of the routes that the kernel makes for an address
MONITOR = ["ip", "-N", "-o", "monitor", "label", "link", "address", "route", "rule"]


class Follower:
    """The requests that are kept in effect, and those whose original route is not there now."""

    def __init__(self, host):
        self.host = host
        self.waiting = {}               # place -> the reason why its request is not in effect
        saved = route.stored(host) or []
        for policy in sorted({request.policy for request in saved}):
            bpf.require(host, policy)
        self.kept = {place_of(request): request for request in saved}

    def plan(self, events=""):
        """(steps, lines for the operator) that bring all requests up to date.  Raises OperateError.

        events: the output of MONITOR since the last call.
        """
        current = {place_of(request): request for request in route.requests_in_effect(self.host)}
        self.kept.update({place: request for place, request in current.items() if request.policy})
        for place in set(self.kept) - set(current) - set(self.waiting):
            if is_removed(place, events):
                del self.kept[place]
        steps, lines, waiting = [], [], {}
        for place, request in self.kept.items():
            if place in current and not current[place].policy:
                continue                # its module was unloaded, which doctor reports
            try:
                more = route.plan_add(self.host, request)
                if more:
                    lines.append(f"{request}: {hop_text(self.host, request)}")
            except fib.CannotCopy as error:
                waiting[place] = str(error)
                more = route.plan_del(self.host, *place) if place in current else []
                if self.waiting.get(place) != str(error):
                    lines.append(f"{request}: waits: {str(error).partition(': ')[0]}")
            steps += more
        self.waiting = waiting
        return steps, lines


def place_of(request):
    return request.prefix, request.port


def is_removed(place, events):
    """Whether somebody has removed satcc's route by a command.

    Two other events remove it.  The kernel deletes the routes of a device that goes down.
    NetworkManager and systemd-networkd delete all routes of a device that they configure anew.  They
    also delete its addresses or set them again.
    """
    lines = events.splitlines()
    down = {match[2] for match in map(LINK.match, lines)
            if match and (match[1] or "UP" not in match[3].split(","))}
    emptied = {deleted["dev"] for deleted in map(deleted_route, lines)
               if deleted.get("proto") == KERNEL and "dev" in deleted}
    addressed = {match[1] for match in map(ADDRESS.match, lines) if match}
    return any(is_removal(place, line, down | emptied | addressed) for line in lines)


def deleted_route(line):
    """The words after which a line of MONITOR has values, if the line tells of a deleted route."""
    words = line.split()
    return dict(zip(words, words[1:])) if words[:1] == ["[ROUTE]Deleted"] else {}


def is_removal(place, line, changed):
    """Whether a line of MONITOR tells that satcc's route of a place was deleted.

    changed: devices that went down, or whose addresses changed.
    """
    values, words = deleted_route(line), line.split()
    if values.get("proto") != str(fib.PROTOCOL) or values.get("dev") in changed:
        return False
    is_same = place[0].prefixlen == 0 if words[1] == "default" else fib.prefix_of(words[1]) == place[0]
    return is_same and fib.port_of({"table": values.get("table", fib.MAIN)}) == place[1]


def hop_text(host, request):
    """via 192.0.2.1 on eth0, of the route that is copied"""
    used = route.used_table(host, request.prefix)
    covering = route.covering_route(host, request.prefix, used)
    return f"via {fib.gateway(covering) or 'the link'} on {fib.device(covering)}"


# ---- events ----------------------------------------------------------------

class Monitor:
    """`ip monitor` in this namespace."""

    def __init__(self, host):
        self._process = host.start(MONITOR)
        self._file = self._process.stdout.fileno()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def burst(self, seconds=None):
        """Wait for events, at most for a time, and return those of one burst.  Raises OperateError."""
        text, ready = b"", select.select([self._file], [], [], seconds)[0]
        end = time.monotonic() + LONGEST
        while ready and time.monotonic() < end:
            got = os.read(self._file, 1 << 16)
            if not got:
                raise OperateError(f"{' '.join(MONITOR)} has ended")
            text += got
            ready = select.select([self._file], [], [], QUIET)[0]
        return text.decode(errors="replace")


# ---- the sub-command -------------------------------------------------------

def run(host, options):
    """satcc route follow.  Returns the exit status."""
    if options.once or options.dry_run:
        steps, lines = Follower(host).plan()
        return route.conclude(host, options, steps, "\n".join(lines),
                              "nothing to do: each route has the next hop of its original")
    with Monitor(host) as monitor:
        follower, events = Follower(host), ""
        while True:
            events = monitor.burst(bring_up_to_date(host, options, follower, monitor, events))


def bring_up_to_date(host, options, follower, monitor, events):
    """Make the changes and print them.  Returns the seconds until they are tried again; None: never.

    When a route is missing, the event that tells who removed it may not have been read yet.
    """
    if any(deleted_route(line).get("proto") == str(fib.PROTOCOL) for line in events.splitlines()):
        events += monitor.burst(LATE)
    try:
        waiting = follower.waiting
        steps, lines = follower.plan(events)
        if steps:
            follower.waiting = waiting
            steps, lines = follower.plan(events + monitor.burst(LATE))
        route.apply(host, steps)
    except OperateError as error:
        print(f"satcc: {error}", file=sys.stderr, flush=True)
        return AGAIN
    if options.json and (steps or lines):
        commands = [host.shown(step.command) for step in steps]
        print(json.dumps({"changed": bool(steps), "commands": commands}), flush=True)
    elif lines:
        print("\n".join(lines), flush=True)
    return None
