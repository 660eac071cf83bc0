# SPDX-License-Identifier: GPL-2.0
"""satcc tune: computes the sysctls that a host needs for a path with a rate and an RTT.

Units: rates in bit/s, times in seconds, memory and windows in bytes, packets of MSS bytes.
"""

import json
import math
import os
import re

from .host import OperateError, UsageError

RECORD_VERSION = 1
MSS = 1448                      # bytes of data in a segment of a 1500 byte packet with timestamps
SEGMENT_MEMORY = 2304           # bytes of kernel memory that such a segment takes
ROOM = 4                        # buffer per memory of a window: it limits no connection of the bench
LARGEST = (1 << 31) - 1         # largest value of tcp_wmem and tcp_rmem
STEADY_WRITES = 0.1             # s that a program may be late with its next write
INITIAL_WINDOWS = (10, 32)      # packets: the kernel's own, and the largest burst that queues take
INITIAL_PART = 10               # an initial window is at most the BDP divided by this
FIRST_WINDOW = 65536            # bytes: the first window of a Linux receiver
RECEIVER_MAXIMUM = 6291456      # bytes of tcp_rmem: a Linux receiver's own maximum
WMEM, RMEM = "net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem"
IDLE, LOWAT = "net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"
NOTHING = "nothing to do: all values are set already"
UNITS = {"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1}


def quantity(text, units):
    """10mbit, 600ms -> a number in the base unit.  Raises ValueError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]+)", text.lower())
    value = float(match[1]) * units.get(match[2], 0) if match else 0
    if not 0 < value < 1e12:
        raise ValueError(f"{text} is not a number above 0 with a unit of {', '.join(units)}")
    return value


# ---- the sums --------------------------------------------------------------

def bdp(rate, rtt):
    """The bytes that fill the path."""
    return rate * rtt / 8


def window(rate, rtt, flows):
    """The bytes in flight of one connection that fills the path and a queue of one BDP."""
    return 2 * bdp(rate, rtt) / flows


def buffer_maximum(rate, rtt, flows):
    """The socket memory, in bytes, that never limits such a window."""
    packets = math.ceil(window(rate, rtt, flows) / MSS)
    return min(ROOM * packets * SEGMENT_MEMORY, LARGEST)


def not_sent(rate):
    """The unsent bytes that keep the path busy while a program is late."""
    return max(131072, math.ceil(rate * STEADY_WRITES / 8))


def initial_window(rate, rtt, flows):
    """Packets of a connection's first flight."""
    least, most = INITIAL_WINDOWS
    return min(max(least, int(bdp(rate, rtt) / MSS / flows / INITIAL_PART)), most)


def larger_maximum(text, maximum):
    """A sysctl of three sizes with its maximum raised; the maximum is never lowered."""
    words = text.split()
    return " ".join([*words[:2], str(max(int(words[2]), maximum))])


def wanted(host, rate, rtt, flows):
    """The sysctls that the path needs: name -> value.  Raises OperateError.

    This lowers no maximum, except one that an earlier `tune --apply` has raised.
    """
    maximum = buffer_maximum(rate, rtt, flows)
    now = {**{name: host.sysctl(name) for name in (WMEM, RMEM, IDLE, LOWAT)}, **recorded(host)}
    missing = [name for name, value in now.items() if value is None]
    if missing:
        raise OperateError(f"this kernel or namespace has no {missing[0]}")
    return {WMEM: larger_maximum(now[WMEM], maximum), RMEM: larger_maximum(now[RMEM], maximum),
            IDLE: "0", LOWAT: str(min(int(now[LOWAT]), not_sent(rate)))}


# ---- text ------------------------------------------------------------------

def advice(host, rate, rtt, flows):
    """The output of tune --json."""
    settings = wanted(host, rate, rtt, flows)
    return {"rate_mbit": rate / 1e6, "rtt_ms": rtt * 1e3, "flows": flows,
            "bdp_bytes": round(bdp(rate, rtt)), "window_bytes": round(window(rate, rtt, flows)),
            "sysctls": [{"name": name, "value": value, "now": host.sysctl(name)}
                        for name, value in settings.items()],
            "initcwnd": initial_window(rate, rtt, flows), "far_end": far_end(rate, rtt, flows),
            "memory": memory_note(host, settings, flows)}


def far_end(rate, rtt, flows):
    """How the receiver's window limits the connection."""
    size = window(rate, rtt, flows)
    doublings = max(0, math.ceil(math.log2(size / FIRST_WINDOW)))
    ceiling = RECEIVER_MAXIMUM / 2 * 8 / rtt
    notes = [f"A Linux receiver offers {FIRST_WINDOW // 1024} kB first, {mbit(FIRST_WINDOW * 8 / rtt)} "
             f"Mbit/s at this RTT, and at most doubles its window each RTT: it takes the whole "
             f"window after {doublings} RTTs."]
    if size > RECEIVER_MAXIMUM / 2:
        notes.append(f"Its default tcp_rmem of {RECEIVER_MAXIMUM} bytes limits a connection to "
                     f"{mbit(ceiling)} Mbit/s: set {buffer_maximum(rate, rtt, flows)} there too.")
    return notes


def mbit(rate):
    """A rate in Mbit/s with three significant digits."""
    return f"{float(f'{rate / 1e6:.3g}'):g}"


def memory_note(host, settings, flows):
    """A sentence if tcp_mem is too small for all connections together; None if it suffices."""
    words = (host.sysctl("net.ipv4.tcp_mem") or "").split()
    if len(words) != 3:
        return None
    limit = int(words[2]) * os.sysconf("SC_PAGE_SIZE")
    need = flows * int(settings[WMEM].split()[2])
    if need <= limit:
        return None
    return (f"{flows} connections may need {need} bytes, and net.ipv4.tcp_mem allows all of TCP "
            f"{limit} bytes.")


def text(state):
    """The text of a file for sysctl.d, with comments on the other values."""
    comments = [f"For {mbit(state['rate_mbit'] * 1e6)} Mbit/s, {state['rtt_ms']:g} ms, connections at "
                f"once: {state['flows']}.",
                f"The BDP is {state['bdp_bytes']} bytes; with a queue of the same size a connection has "
                f"{state['window_bytes']} bytes in flight.", *state["far_end"],
                *([state["memory"]] if state["memory"] else [])]
    sysctls = [f"{each['name']} = {each['value']}" for each in state["sysctls"]]
    after = [f"On the route: satcc route add PREFIX POLICY --initcwnd {state['initcwnd']}",
             "The qdisc fq is not needed: the policies pace in the kernel."]
    return "\n".join([*(f"# {line}" for line in comments), *sysctls, *(f"# {line}" for line in after)])


# ---- apply and undo --------------------------------------------------------

def record_file(host):
    """The file that keeps the old values of a namespace."""
    return f"etc/satcc/tune{'-' + host.namespace if host.namespace else ''}.json"


def boot(host):
    """The ID of this boot."""
    return host.read("proc/sys/kernel/random/boot_id") or ""


def recorded(host):
    """The old values since this boot: name -> text; none without a record.  Raises OperateError."""
    record = host.read(record_file(host))
    if record is None:
        return {}
    try:
        data = json.loads(record)
        if data["version"] != RECORD_VERSION:
            raise ValueError(f"its version is {data['version']}, not {RECORD_VERSION}")
        return dict(data["values"]) if data["boot"] == boot(host) else {}
    except (ValueError, KeyError, TypeError) as error:
        raise OperateError(f"/{record_file(host)} is not a file of `satcc tune --apply`: "
                           f"{error}") from None


def write_record(host, values):
    """Replace the file of old values.  Raises OperateError."""
    host.write_whole(record_file(host), json.dumps(
        {"version": RECORD_VERSION, "boot": boot(host), "values": values}, indent=2) + "\n")


def changes_of(host, settings):
    """The sysctls that have another value now."""
    return {name: value for name, value in settings.items() if host.sysctl(name) != value}


def apply(host, settings):
    """Record the old values, then write the sysctls, all or none.  Returns the changed sysctls.

    A second call keeps the values that the first one recorded.  Raises OperateError.
    """
    changes = changes_of(host, settings)
    old = {name: host.sysctl(name) for name in changes}
    if changes:
        write_record(host, {**old, **recorded(host)})
    set_all(host, changes, old)
    return changes


def set_all(host, values, old):
    """Set sysctls; if one fails, restore those before it.  Raises OperateError."""
    completed = []
    try:
        for name, value in values.items():
            host.set_sysctl(name, value)
            completed.append(name)
    except BaseException:
        for name in completed:
            host.set_sysctl(name, old[name])
        raise


def undo(host):
    """Set the recorded values and remove the record.  Returns the values.  Raises OperateError."""
    old = recorded(host)
    set_all(host, old, {name: host.sysctl(name) for name in old})
    try:
        host.path(record_file(host)).unlink()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise OperateError(f"cannot remove /{record_file(host)}: {error.strerror}") from None
    return old


# ---- the sub-command -------------------------------------------------------

def run(host, options):
    """Print, apply or undo the sysctls.  Returns the exit status."""
    if options.undo and options.dry_run:
        return show(host, options, changes_of(host, recorded(host)), "nothing to undo since this boot")
    if options.undo:
        return report(options, undo(host), "nothing to undo since this boot")
    if options.rate is None or options.rtt is None:
        raise UsageError("tune needs --rate and --rtt, or --undo")
    if options.apply and options.dry_run:
        changes = changes_of(host, wanted(host, options.rate, options.rtt, options.flows))
        return show(host, options, changes, NOTHING)
    if options.apply:
        changes = apply(host, wanted(host, options.rate, options.rtt, options.flows))
        return report(options, changes, NOTHING)
    state = advice(host, options.rate, options.rtt, options.flows)
    print(json.dumps(state, indent=2) if options.json else text(state))
    return 0


def show(host, options, changes, nothing):
    """Print the commands that set the sysctls.  Returns the exit status."""
    commands = [host.shown(["sysctl", "-w", f"{name}={value}"]) for name, value in changes.items()]
    if options.json:
        print(json.dumps({"changed": False, "commands": commands}, indent=2))
    else:
        print("\n".join(commands) or nothing)
    return 0


def report(options, changes, nothing):
    """Print the sysctls that were set.  Returns the exit status."""
    if options.json:
        print(json.dumps({"set": changes}, indent=2))
    else:
        print("\n".join(f"{name} = {value}" for name, value in changes.items()) or nothing)
    return 0
