# SPDX-License-Identifier: GPL-2.0
"""Records with tracefs: filter strings, a tracing instance, and the copying of its pages to files."""

import contextlib
import glob
import ipaddress
import os
import re
import select
import subprocess
import sys
import time

from . import pages

MODULE = "satcc_log"
DRAIN_S = 0.1               # longest time between two copies of the buffers
PAGES_A_ROUND = 1024        # most pages of one CPU before the next CPU's are copied
LOST = f"/sys/module/{MODULE}/parameters/lost"


class TraceError(Exception):
    """An error; its message is one line for the user."""


class NoEvent(TraceError):
    """The kernel cannot make this event."""


# ---- filters ---------------------------------------------------------------

def ports(text):
    """The filter for 5001 or 5001-5010 as a port at either end."""
    match = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
    low, high = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
    if not 0 < low <= high < 65536:
        raise TraceError(f"not a port or a range of ports: {text}")
    if low == high:
        return f"(sport == {low} || dport == {low})"
    return (f"((sport >= {low} && sport <= {high}) || (dport >= {low} && dport <= {high}))")


def peer(text):
    """The filter for a peer's address or prefix; IPv6 up to /64, which events have as a number."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise TraceError(f"not an address or prefix: {text}") from None
    if network.version == 4:
        low, high = int(network.network_address), int(network.broadcast_address)
        # daddr4 is 0 for IPv6.
        return f"(daddr4 >= {max(low, 1):#x} && daddr4 <= {high:#x})"
    mapped = network.network_address.ipv4_mapped
    if mapped and network.prefixlen >= 96:
        return peer(f"{mapped}/{network.prefixlen - 96}")
    if network.prefixlen > 64 and "/" in text:
        raise TraceError(f"{text}: the filter takes IPv6 prefixes up to /64")
    if network.prefixlen > 64:
        raise TraceError(f"{text}: a single IPv6 address cannot be filtered; its prefix can, "
                         f"up to /64")
    low, high = (int(end) >> 64 for end in (network.network_address, network.broadcast_address))
    family = "daddr4 == 0 && " if low == 0 else ""
    return f"({family}daddr6 >= {low:#x} && daddr6 <= {high:#x})"


def netns(text):
    """The filter for a network namespace: a name below /run/netns, a path, or the inode number."""
    if text.isdigit():
        return f"netns == {text}"
    path = text if "/" in text else f"/run/netns/{text}"
    try:
        return f"netns == {os.stat(path).st_ino}"
    except OSError as error:
        raise TraceError(f"no network namespace {text}: {error.strerror}") from None


def congestion_control(text):
    """The filter for a name, or a pattern with *."""
    if not re.fullmatch(r"[\w*?-]{1,15}", text):
        raise TraceError(f"not a congestion control's name: {text}")
    return f'cc {"~" if "*" in text or "?" in text else "=="} "{text}"'


def filter_of(port=(), peers=(), namespaces=(), names=(), cookies=(), raw=None):
    """One filter string that needs a match of every kind that is given; "" without any."""
    kinds = [[ports(each) for each in port], [peer(each) for each in peers],
             [netns(each) for each in namespaces], [congestion_control(each) for each in names],
             [f"cookie == {each}" for each in cookies], [raw] if raw else []]
    parts = [each if len(kind) == 1 and kind[0] is not raw else f"({each})"
             for kind in kinds if kind for each in [" || ".join(kind)]]
    return " && ".join(parts)


# ---- the instance ----------------------------------------------------------

def find_tracefs(mounts="/proc/mounts"):
    """The folder where tracefs is mounted."""
    with open(mounts, encoding="utf-8") as file:
        tracefs_mounts = [line.split()[1] for line in file if line.split()[2] == "tracefs"]
    if not tracefs_mounts:
        raise TraceError("tracefs is not mounted: mount -t tracefs nodev /sys/kernel/tracing")
    return tracefs_mounts[0]


def load_module():
    """Load the module.  It stays loaded, and costs nothing while nobody records."""
    if os.path.isdir(f"/sys/module/{MODULE}"):
        return
    environment = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    try:
        done = subprocess.run(["modprobe", MODULE], stdout=subprocess.PIPE, env=environment,
                              stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        reason = (done.stdout.strip().splitlines() or ["no reason given"])[-1]
        failed = done.returncode
    except OSError as error:
        failed, reason = 1, error.strerror
    if failed:
        raise TraceError(f"cannot load the module {MODULE} ({reason}); make install builds and "
                         "installs it")


def module_lost():
    """The module's counter of records that it could not make; 0 without a counter."""
    try:
        with open(LOST, encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


class Instance(contextlib.AbstractContextManager):
    """A tracing instance that the end of the `with` block removes; only we read its events."""

    def __init__(self, root, name):
        self.path = os.path.join(root, "instances", name)
        try:
            os.mkdir(self.path)
        except OSError as error:
            raise TraceError(f"cannot create {self.path}: {error.strerror}") from None

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.write("tracing_on", "0")
            self.write("events/enable", "0")
        os.rmdir(self.path)

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def set(self, name, text):
        """Write a setting; raises TraceError if the kernel refuses it."""
        try:
            self.write(name, text)
        except OSError as error:
            raise TraceError(f"cannot set {name} to {text}: {error.strerror}") from error

    def enable(self, event, condition=""):
        """Turn an event on for the sockets that match the filter string."""
        if not os.path.isdir(f"{self.path}/events/{event}"):
            raise NoEvent(f"this kernel has no event {event.replace('/', ':')}")
        if condition:
            try:
                self.write(f"events/{event}/filter", condition)
            except OSError:
                lines = self.read(f"events/{event}/filter").strip().splitlines()
                raise TraceError(f"the kernel refuses the filter {condition}: "
                                 f"{lines[-1] if lines else 'no reason given'}") from None
        try:
            self.set(f"events/{event}/enable", "1")
        except TraceError as error:
            # The module's functions for the event return ENOENT if the kernel lacks a function to hook.
            if isinstance(error.__cause__, FileNotFoundError):
                raise NoEvent(str(error)) from None
            raise


def remove_stale(root):
    """Remove the instances of killed recordings.  The kernel refuses to remove one in use."""
    for path in glob.glob(os.path.join(root, "instances", "satcc-log-*")):
        pid = path.split("-")[2]
        if not os.path.exists(f"/proc/{pid}"):
            with contextlib.suppress(OSError):
                os.rmdir(path)


class Closing(contextlib.AbstractContextManager):
    """Follows the state changes of a port's connections; done: the last one has closed."""

    def __init__(self, root, name, port):
        self._instance = Instance(root, name)
        try:
            self._instance.set("buffer_size_kb", "64")
            self._instance.enable("sock/inet_sock_set_state",
                                  f"protocol == 6 && (sport == {port} || dport == {port})")
            self._pipe = os.open(f"{self._instance.path}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
        except BaseException:
            self._instance.__exit__()
            raise
        self._open, self._text, self.done = set(), "", False

    def __exit__(self, *_):
        os.close(self._pipe)
        self._instance.__exit__()

    def fileno(self):
        return self._pipe

    def look(self):
        """Read the events since the last call."""
        with contextlib.suppress(BlockingIOError):
            while True:
                got = os.read(self._pipe, 1 << 16)
                if not got:
                    break
                self._text += got.decode(errors="replace")
        *lines, self._text = self._text.split("\n")
        for line in lines:
            self.take(line)

    def take(self, line):
        """One line of the event."""
        match = re.search(r"(sport=.*) oldstate=(?:TCP_)?(\w+) newstate=(?:TCP_)?(\w+)", line)
        # A socket that enters SYN_SENT has no local port yet.
        if not match or "LISTEN" in match.groups() or match[3] == "SYN_SENT":
            return
        who = tuple(re.findall(r"(?:sport|dport|daddrv6)=(\S+)", match[1]))
        if match[3] == "CLOSE":
            self._open.discard(who)
            self.done = not self._open
        else:
            self._open.add(who)


class Recorder:
    """Copies the buffers of all CPUs to spool files, page by page."""

    def __init__(self, instance, folder, layout):
        self._size = layout.size
        self._files = []            # (file descriptor of the pages, spool file)
        self._poll = select.poll()
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            for path in sorted(glob.glob(f"{instance.path}/per_cpu/cpu*")):
                source = os.open(f"{path}/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
                stack.callback(os.close, source)
                name = f"trace.{os.path.basename(path)}.raw"
                spool = stack.enter_context(open(os.path.join(folder, name), "wb"))
                self._files.append((source, spool))
                self._poll.register(source, select.POLLIN)
            self._stack = stack.pop_all()

    def close(self):
        self._stack.close()

    def watch(self, file):
        self._poll.register(file, select.POLLIN)

    def wait(self, seconds):
        """Wait until there is data, or for this time."""
        self._poll.poll(max(0, min(seconds, DRAIN_S)) * 1000)

    def drain(self):
        """Copy the available pages, up to a limit per CPU.  Returns the number of bytes."""
        total = 0
        for source, spool in self._files:
            for _ in range(PAGES_A_ROUND):
                try:
                    page = os.read(source, self._size)
                except BlockingIOError:
                    break
                if not page:
                    break
                spool.write(page)
                total += len(page)
        return total


def enable_all(instance, events, condition, missing=None):
    """Turn the events on for the sockets that match the filter string.

    missing: called with the name of each event that the kernel does not have; None: that is an error.
    """
    enabled = 0
    for event in events:
        try:
            instance.enable(f"satcc/{event}", condition)
            enabled += 1
        except NoEvent:
            if missing is None:
                raise
            missing(event)
    if not enabled:
        raise NoEvent(f"this kernel has none of the events {', '.join(events)}")


def record(folder, events, condition, seconds, until_close, buffer_kb, stop, ready=lambda: None,
           missing=None):
    """Record into a folder (see table.Folder) until `stop` is set, the time is over, or the last
    connection of the port has closed.

    seconds, until_close: None for no limit.  ready: called when the recording has begun.
    missing: see enable_all().
    """
    if sys.byteorder != "little":
        raise TraceError("only little-endian machines are supported")
    root = find_tracefs()
    load_module()
    remove_stale(root)
    name = f"satcc-log-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        instance = stack.enter_context(Instance(root, name))
        instance.write("tracing_on", "0")
        instance.set("trace_clock", "mono")
        # A full buffer loses the oldest records, and the pages then report where and how many.  A new
        # instance inherits this option from the host's tracing.
        instance.set("options/overwrite", "1")
        instance.set("buffer_size_kb", str(buffer_kb))
        header = instance.read("events/header_page")
        closing = stack.enter_context(Closing(root, f"{name}-state", until_close)) \
            if until_close else None
        recorder = Recorder(instance, folder, pages.Layout(header))
        stack.callback(recorder.close)
        if closing:
            recorder.watch(closing)
        _save(folder, "trace.header", header)
        _save(folder, "trace.formats", "".join(
            "system: satcc\n" + instance.read(f"events/satcc/{event}/format") for event in events))
        before = module_lost()
        enable_all(instance, events, condition, missing)
        instance.write("tracing_on", "1")
        ready()
        end = time.monotonic() + (float("inf") if seconds is None else seconds)
        while not stop.is_set() and time.monotonic() < end and not (closing and closing.done):
            recorder.wait(end - time.monotonic())
            recorder.drain()
            if closing:
                closing.look()
        instance.write("tracing_on", "0")
        instance.write("events/enable", "0")
        while recorder.drain():
            pass
        _save(folder, "trace.lost", f"{module_lost() - before}\n")
        for path in glob.glob(f"{instance.path}/per_cpu/cpu*"):
            cpu = os.path.basename(path)
            _save(folder, f"trace.{cpu}.stats", instance.read(f"per_cpu/{cpu}/stats"))


def _save(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
