# SPDX-License-Identifier: GPL-2.0
"""Access to the host: its files below /, its sysctls, its network namespaces, its commands."""

import contextlib
import ctypes
import json
import os
import pathlib
import shlex
import subprocess
import threading

ROOT = "SATCC_ROOT"             # environment variable: a folder to use instead of /
NAMESPACES = "run/netns"        # where `ip netns add` keeps names
CLONE_NEWNET = 0x40000000


class OperateError(Exception):
    """The operator's request failed; the text is one line."""


class UsageError(OperateError):
    """The options do not fit together."""


class CommandError(OperateError):
    """A command failed; the text has the command and its last line of output."""


class Host:
    """The files below `root` and the commands of the thread's network namespace.

    root: a folder to use instead of /; None: the folder of SATCC_ROOT, else /.
    namespace: the name given by --netns, for printed commands; None: the caller's namespace.
    """

    def __init__(self, root=None, namespace=None):
        self.root = pathlib.Path(root or os.environ.get(ROOT) or "/")
        self.namespace = namespace

    def path(self, name):
        """The path below the root of an absolute or relative file name."""
        return self.root / str(name).lstrip("/")

    def read(self, name):
        """A file's text without white space at its ends; None if the file cannot be read."""
        try:
            return self.path(name).read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def names(self, folder, pattern="*"):
        """The sorted names in a folder that match a pattern; empty without the folder."""
        try:
            return sorted(path.name for path in self.path(folder).glob(pattern))
        except OSError:
            return []

    def paths(self, folder, pattern):
        """The sorted paths below a folder that match a pattern, relative to it."""
        try:
            return sorted(str(path.relative_to(self.path(folder)))
                          for path in self.path(folder).glob(pattern))
        except OSError:
            return []

    def release(self):
        """The running kernel's release."""
        return self.read("proc/sys/kernel/osrelease") or os.uname().release

    def sysctl(self, name):
        """A sysctl's value with single spaces; None if this kernel or namespace does not have it."""
        text = self.read(sysctl_file(name))
        return None if text is None else " ".join(text.split())

    def set_sysctl(self, name, value):
        """Write a sysctl.  Raises OperateError."""
        self.write(sysctl_file(name), value, f"{name} = {value}")

    def write(self, name, value, what=None):
        """Write a value to a file of the kernel's.  Raises OperateError."""
        try:
            self.path(name).write_text(f"{value}\n", encoding="utf-8")
        except OSError as error:
            raise OperateError(f"cannot set {what or f'/{name} to {value}'}: {error.strerror}") from None

    def write_whole(self, name, text, below_root=True):
        """Replace a file atomically.  Raises OperateError.

        If the name is a symbolic link, replace its target.  If it is a device or a pipe, write to it.
        """
        path = pathlib.Path(os.path.realpath(self.path(name) if below_root else name))
        if os.path.exists(path) and not os.path.isfile(path):
            write_special(path, text)
            return
        partial = path.with_name(f".{path.name}.part-{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_text(text, encoding="utf-8")
            os.replace(partial, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise OperateError(f"cannot write {path}: {error.strerror}") from None

    def attempt(self, command):
        """Run a command to its end; returns its output and status.  Raises CommandError."""
        try:
            return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, universal_newlines=True,
                                  env=environment(), check=False)
        except OSError as error:
            raise CommandError(f"cannot run {command[0]}: {error.strerror}") from None

    def start(self, command, stderr=None):
        """Start a command; returns its process; its standard output is a pipe.  Raises CommandError."""
        try:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    stderr=stderr, env=environment())
        except OSError as error:
            raise CommandError(f"cannot run {command[0]}: {error.strerror}") from None

    def run(self, command):
        """Run a command; returns its standard output.  Raises CommandError."""
        done = self.attempt(command)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line != "Dump terminated"]
            reason = lines[-1] if lines else f"exit status {done.returncode}"
            raise CommandError(f"{shlex.join(command)}: {reason}")
        return done.stdout

    def run_json(self, command):
        """Run a command that prints JSON; an empty list if it prints nothing.  Raises CommandError."""
        text = self.run(command).strip()
        try:
            return json.loads(text) if text else []
        except ValueError:
            raise CommandError(f"{shlex.join(command)}: does not print JSON") from None

    def shown(self, command):
        """A command as the operator would type it, with the namespace of --netns."""
        words = list(command)
        if self.namespace and words[0] == "ip":
            words[1:1] = ["-n", self.namespace]
        elif self.namespace and words[0] in ("sysctl", "tc", "ss"):
            words[:0] = ["ip", "netns", "exec", self.namespace]
        return shlex.join(words)

    def namespaces(self):
        """The names of other network namespaces: name -> path."""
        return {name: self.path(NAMESPACES) / name for name in self.names(NAMESPACES)}


def environment():
    """The environment of commands: an ordinary user's PATH lacks their folders."""
    return {**os.environ, "LC_ALL": "C", "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}


def write_special(path, text):
    """Write to a device or a pipe.  Raises OperateError."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise OperateError(f"cannot write {path}: {error.strerror}") from None


def sysctl_file(name):
    """net.ipv4.tcp_sack -> proc/sys/net/ipv4/tcp_sack"""
    return "proc/sys/" + name.replace(".", "/")


def in_namespace(path, function):
    """Run a function in a thread of its own in the network namespace at `path`; returns its result.

    The other threads keep their namespace.  /proc/sys/net and the commands that the function starts
    belong to the new namespace.  Raises OperateError, and every exception of the function.
    """
    outcome = {}

    def work():
        try:
            enter(path)
            outcome["value"] = function()
        except BaseException as error:      # raised again in the caller's thread
            outcome["error"] = error

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def enter(path):
    """Move this thread into a network namespace.  Raises OperateError."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise OperateError(f"no network namespace {path}: {error.strerror}") from None
    try:
        if libc.setns(descriptor, CLONE_NEWNET):
            raise OperateError(f"cannot enter the network namespace {path}: "
                               f"{os.strerror(ctypes.get_errno())}")
    finally:
        os.close(descriptor)
