# SPDX-License-Identifier: GPL-2.0
"""Parses the arguments of satcc, and prints its errors as one line."""

import argparse
import os
import sys

from . import bpf, choose, doctor, follow, metrics, parameters, probe, route, status, tune
from .host import NAMESPACES, Host, OperateError, UsageError, enter

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def positive(text):
    """A number above 0, for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def whole(least, most, what):
    """A parser of whole numbers in a range, for argparse."""
    def parse(text):
        if not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text} is not {what} ({least} to {most})")
        return int(text)
    return parse


def add_command(commands, name, function, summary, examples, parents):
    """A sub-command with examples below its help."""
    lines = "\n".join(f"  {line}" for line in examples)
    parser = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.",
                                 epilog=f"examples:\n{lines}", parents=parents,
                                 formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.set_defaults(function=function)
    return parser


def shared_options():
    """The options of every sub-command."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--netns", metavar="NAME", help="work in this network namespace")
    shared.add_argument("--json", action="store_true", help="print JSON")
    return shared


def add_status(commands, shared):
    parser = add_command(commands, "status", status.run,
                         "show modules, the default, routes with a policy, and connections by policy",
                         ["satcc status", "satcc status --watch 5", "satcc status --json | jq .sockets"],
                         [shared])
    parser.add_argument("--watch", nargs="?", type=positive, const=2.0, metavar="SECONDS",
                        help="print repeatedly, with the goodput since the last output; "
                        "default: every 2 seconds")


def add_set(commands, change):
    parser = add_command(commands, "set", parameters.run,
                         "set parameters of a policy, all or none, and print what is in force",
                         ["satcc set satcc                # lists the parameters and their bounds",
                          "satcc set satcc queue_ms=40 hoe=0 --dry-run",
                          "satcc set satcc queue_ms=40 --persistent",
                          "satcc set mtsi --json | jq '.parameters[].value'"], [change])
    parser.add_argument("policy", metavar="POLICY", help="the congestion control")
    parser.add_argument("values", nargs="*", metavar="NAME=VALUE",
                        help="without any: list the parameters")
    parser.add_argument("--persistent", action="store_true",
                        help=f"also write /{parameters.FILE}, for each later load of the module")


def add_bpf(commands, shared, change):
    loading = add_command(commands, "load", bpf.load, "load a policy as a BPF object, by satcc-bpf",
                          ["satcc load hybla_full                  # the installed object",
                           "satcc load build/bpf/satcc.bpf.o queue_ms=40",
                           "satcc load satcc --dry-run"], [change])
    loading.add_argument("policy", metavar="POLICY|FILE",
                         help="the congestion control, or an object's file")
    loading.add_argument("values", nargs="*", metavar="NAME=VALUE", help="its parameters")
    unloading = add_command(commands, "unload", bpf.unload, "unload a policy that is a BPF object",
                            ["satcc unload hybla_full"], [change])
    unloading.add_argument("policy", metavar="POLICY", help="the congestion control")
    add_command(commands, "list", bpf.list_objects, "list the policies that are loaded as BPF objects",
                ["satcc list", "satcc list --json | jq -r '.[].policy'"], [shared])


def add_route(commands, shared, change):
    group = add_command(commands, "route", None, "give a policy to a prefix, and keep it over a reboot",
                        ["satcc route add 203.0.113.0/24 satcc",
                         "satcc route add default satcc --port 443 --dry-run",
                         "satcc route list", "satcc route save"], [])
    verbs = group.add_subparsers(dest="verb", required=True, metavar="VERB")
    add_route_verbs(verbs, shared, change)


def add_route_verbs(verbs, shared, change):
    adding = add_command(verbs, "add", route.add, "give a policy to new connections to a prefix",
                         ["satcc route add 203.0.113.0/24 satcc --initcwnd 20",
                          "satcc route add 2001:db8:1::/48 satcc --lock",
                          "satcc route add default satcc --port 443"], [change])
    removing = add_command(verbs, "del", route.delete, "remove satcc's route to a prefix",
                           ["satcc route del 203.0.113.0/24",
                            "satcc route del default --port 443"], [change])
    for parser in (adding, removing):
        parser.add_argument("prefix", metavar="PREFIX",
                            help="IPv4 or IPv6; default and default6 are all addresses")
        parser.add_argument("--port", type=whole(1, 65535, "a port"), metavar="N",
                            help="only connections from this local port")
    adding.add_argument("policy", metavar="POLICY", help="the congestion control; its module is loaded")
    adding.add_argument("--lock", action="store_true",
                        help="override the congestion control that an application sets")
    adding.add_argument("--initcwnd", type=whole(1, 65535, "a number of segments"), metavar="N",
                        help="the initial window in segments")
    removing.add_argument("policy", nargs="?", metavar="POLICY",
                          help="refuse if the route has another policy")
    add_command(verbs, "list", route.list_routes, "list satcc's routes",
                ["satcc route list --json"], [shared])
    add_command(verbs, "flush", route.flush,
                "remove the routes and rules that satcc added, and no others",
                ["satcc route flush --dry-run"], [change])
    add_command(verbs, "save", route.save_routes, f"write satcc's routes to /{route.STORE}; with "
                "--netns to routes-NAME.json beside it",
                ["satcc route save"], [change])
    add_command(verbs, "restore", route.restore, "add the saved routes, all or none",
                ["satcc route restore"], [change])
    following = add_command(verbs, "follow", follow.run,
                            "keep satcc's routes on the next hops of the routes that they copy",
                            ["satcc route follow", "satcc route follow --once",
                             "systemctl start satcc-routes       # runs it now, and at boot"], [change])
    following.add_argument("--once", action="store_true", help="bring the routes up to date, then end")


def add_doctor(commands, shared):
    add_command(commands, "doctor", doctor.run,
                "find reasons why a policy is not in effect, each with the command that fixes it",
                ["satcc doctor", "satcc doctor --json | jq -r '.[].mend'",
                 "satcc doctor > /dev/null || echo 'satcc: see satcc doctor' | mail -s satcc root"],
                [shared])


def with_unit(units):
    """A parser of numbers with a unit, for argparse."""
    def parse(text):
        try:
            return tune.quantity(text, units)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return parse


def add_path(parser):
    """The options that describe a path, of tune and of choose."""
    parser.add_argument("--rate", type=with_unit(tune.UNITS), metavar="RATE",
                        help="the path's rate: 10mbit, 1.5gbit")
    parser.add_argument("--rtt", type=with_unit(tune.TIMES), metavar="TIME",
                        help="the path's round-trip time: 600ms, 0.6s")


def add_tune(commands, shared):
    parser = add_command(commands, "tune", tune.run,
                         "print the sysctls that a host needs for a path, as a file for sysctl.d",
                         ["satcc tune --rate 10mbit --rtt 600ms",
                          "satcc tune --rate 10mbit --rtt 600ms > /etc/sysctl.d/90-satcc-path.conf",
                          "satcc tune --rate 10mbit --rtt 600ms --flows 4 --apply",
                          "satcc tune --undo --dry-run", "satcc tune --undo"], [shared])
    add_path(parser)
    parser.add_argument("--flows", type=whole(1, 1000000, "a number of connections"), default=1,
                        metavar="N", help="connections that share the path; default: 1")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--apply", action="store_true",
                        help="set the sysctls, and record the old values")
    action.add_argument("--undo", action="store_true", help="set the recorded old values again")
    parser.add_argument("--dry-run", action="store_true",
                        help="with --apply or --undo: print the commands, change nothing")


def add_metrics(commands, shared):
    parser = add_command(commands, "metrics", metrics.run,
                         "print sums by policy and prefix in the text format of Prometheus",
                         ["satcc metrics",
                          "satcc metrics -o /var/lib/prometheus/node-exporter/satcc.prom",
                          "satcc-log record -t 60 -o log.tsv; satcc metrics --log log.tsv --flows",
                          "satcc metrics --log log.tsv -o "
                          "/var/lib/prometheus/node-exporter/satcc-start.prom"], [shared])
    parser.add_argument("--log", metavar="FILE",
                        help="a table of satcc-log: how its connections started")
    parser.add_argument("--flows", action="store_true", help="with --log: a table of the connections")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="replace this file atomically; default: standard output")
    parser.add_argument("--dry-run", action="store_true", help="print, and replace no file")


def percent(text):
    """A share below 100 %, for argparse: 1, 0.1%."""
    try:
        value = float(text.rstrip("%"))
    except ValueError:
        value = -1
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage from 0 to below 100")
    return value


def add_choose(commands, shared):
    parser = add_command(commands, "choose", choose.run,
                         "recommend a policy for a path, with the measured figures behind the advice",
                         ["satcc choose --rate 10mbit --rtt 600ms --loss 1",
                          "satcc choose --rate 10mbit --rtt 600ms --cross none",
                          "satcc choose --probe 203.0.113.1             # runs: iperf3 -s",
                          "satcc choose --probe 203.0.113.1 --rate 20mbit --json | jq -r .policy",
                          "satcc choose --probe-url http://203.0.113.1/large.iso --loss 0.5",
                          "satcc choose --probe-url http://203.0.113.1/upload --upload"],
                         [shared])
    add_path(parser)
    parser.add_argument("--loss", type=percent, metavar="PERCENT",
                        help="random loss of the path; default: what --probe measures, else 0")
    parser.add_argument("--cross", choices=("none", "cubic"), default="cubic",
                        help="the traffic that shares the queue; default: cubic")
    measuring = parser.add_mutually_exclusive_group()
    measuring.add_argument("--probe", metavar="HOST",
                           help="measure the path to this host, which runs `iperf3 -s`")
    measuring.add_argument("--probe-url", metavar="URL",
                           help="measure the path from this web server, by a download")
    parser.add_argument("--upload", action="store_true",
                        help="with --probe-url: measure the path to the server, by a POST")
    parser.add_argument("--port", type=whole(1, 65535, "a port"), default=5201, metavar="N",
                        help="the port of iperf3; default: 5201")
    parser.add_argument("--seconds", type=whole(1, 3600, "a number of seconds"), default=10, metavar="N",
                        help=f"the time to measure, after a start of {probe.START} s; default: 10")


def arguments_parser():
    parser = argparse.ArgumentParser(
        prog="satcc", description="See, select and check TCP congestion controls. See satcc(8).")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    shared = shared_options()
    change = argparse.ArgumentParser(add_help=False, parents=[shared])
    change.add_argument("--dry-run", action="store_true", help="print the commands and change nothing")
    add_status(commands, shared)
    add_set(commands, change)
    add_bpf(commands, shared, change)
    add_route(commands, shared, change)
    add_doctor(commands, shared)
    add_tune(commands, shared)
    add_metrics(commands, shared)
    add_choose(commands, shared)
    return parser


def run(options):
    """Run the sub-command in the namespace of --netns.  Returns the exit status."""
    if options.netns:
        enter(f"/{NAMESPACES}/{options.netns}")
    return options.function(Host(namespace=options.netns), options)


def main(arguments=None):
    """Run the program.  Returns the exit status."""
    options = arguments_parser().parse_args(arguments)
    try:
        return run(options)
    except OperateError as error:
        print(f"satcc: {error}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else FAILED
    except BrokenPipeError:         # the reader of our output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return INTERRUPTED
    return FAILED
