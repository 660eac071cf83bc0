# SPDX-License-Identifier: GPL-2.0
"""Policies of the kernel, their modules, and the files of these."""

import gzip
import lzma
import os
import re

from .host import CommandError, OperateError

POLICIES = ("satcc", "hybla_full", "westwood_abse", "mtsi", "ibk", "constant_rate")

# Policies that must not be a whole host's default, with the reason: in a queue of one bandwidth-delay
# product, at 40 or 250 ms, each leaves a cubic flow less than half of its share.  In shallower queues
# other policies do too.  bench/RESULTS.md has the figures, modules/RESULTS-satcc.md that of two flows
# beside two.  bbr leaves 32 % at 40 ms, less than ibk does, but is not here: many hosts use it on
# purpose, and doctor would always report it there.
LOUD = {
    "hybla_full": "leaves a cubic flow a fifth of its share at 250 ms, and two hybla_full flows get "
                  "67 times as much as two cubic flows",
    "hybla": "leaves a cubic flow less than a quarter of its share at 250 ms",
    "ibk": "leaves a cubic flow less than half of its share at 40 ms",
}

DEFAULT = "net.ipv4.tcp_congestion_control"
ALLOWED = "net.ipv4.tcp_allowed_congestion_control"
AVAILABLE = "net.ipv4.tcp_available_congestion_control"
NAME = re.compile(r"[A-Za-z0-9_-]{1,15}")
SIGNATURE = b"~Module signature appended~\n"
SUFFIX = re.compile(r"\.ko(\.gz|\.xz|\.zst)?$")


def module_name(policy):
    """satcc -> tcp_satcc; module names treat - and _ as equal."""
    return "tcp_" + policy.replace("-", "_")


def available(host):
    """The policies that the kernel has now."""
    return (host.sysctl(AVAILABLE) or "").split()


def allowed(host):
    """The policies that ordinary users may select."""
    return (host.sysctl(ALLOWED) or "").split()


def default(host):
    """The policy of sockets for which neither a route nor a program chooses one; "" if unreadable."""
    return host.sysctl(DEFAULT) or ""


def require(host, policy, load=True):
    """Make sure that the kernel has a policy.  Raises OperateError if it cannot.

    load: load the policy's module if necessary; otherwise only check that modprobe could load it.
    """
    if not NAME.fullmatch(policy):
        raise OperateError(f"{policy} is not a policy's name")
    if policy in available(host):
        return
    module = module_name(policy)
    try:
        host.run(["modprobe", *([] if load else ["-n"]), module])
    except CommandError as error:
        raise OperateError(f"the kernel has no policy {policy}: {error}") from None
    if load and policy not in available(host):
        raise OperateError(f"{module} is loaded, but the kernel has no policy {policy}")


# ---- modules ---------------------------------------------------------------

def loaded(host, module):
    """Whether a module is loaded, or built in with parameters."""
    return host.path(f"sys/module/{module}").is_dir()


def is_module(host, module):
    """Whether a policy's module is loaded and not built in: only the former has a reference count."""
    return host.path(f"sys/module/{module}/refcnt").exists()


def reference_count(host, module):
    """The number of sockets, namespaces and modules that use a module; None if it is not loaded."""
    text = host.read(f"sys/module/{module}/refcnt")
    return int(text) if text and text.isdigit() else None


def parameters(host, module):
    """A loaded module's parameters and their current values."""
    folder = f"sys/module/{module}/parameters"
    return {name: host.read(f"{folder}/{name}") for name in host.names(folder)}


def same_value(one, other):
    """Whether two texts are the same value of a parameter: Y equals 1, 0x10 equals 16."""
    def plain(text):
        text = {"Y": "1", "y": "1", "N": "0", "n": "0"}.get(text, text)
        try:
            return int(text, 0)
        except ValueError:
            return text
    return plain(one) == plain(other)


def documented(host, module):
    """The parameters of an installed or built-in module as it documents them: name -> text."""
    release = host.release()
    if module in (known := index(host, release)):
        if str(known[module]).endswith(".zst"):             # which Python's library cannot read
            text = host.run(["modinfo", "-F", "parm", module])
        else:
            text = "\n".join(found.decode(errors="replace") for found in re.findall(
                rb"(?<=\0)parm=(\w+:[^\0]*)", module_bytes(host, known[module])))
    else:
        start = f"{module}.parm="
        text = "\n".join(entry[len(start):] for entry in (
            host.read(f"lib/modules/{release}/modules.builtin.modinfo") or "").split("\0")
            if entry.startswith(start))
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def is_writable(host, file):
    """Whether a file in /sys has a write bit; even root cannot write a file without one."""
    try:
        return bool(host.path(file).stat().st_mode & 0o222)
    except OSError:
        return False


def index(host, release):
    """The modules that modprobe knows for a kernel: name -> path below the root."""
    folder = f"lib/modules/{release}"
    modules = {}
    for line in (host.read(f"{folder}/modules.dep") or "").splitlines():
        path = line.split(":")[0]
        modules[name_of(path)] = path if path.startswith("/") else f"{folder}/{path}"
    return modules


def files_of(host, release):
    """The policies' module files that are installed for a kernel, known to modprobe or not."""
    folder = host.path(f"lib/modules/{release}/updates")
    return {name_of(path.name): path.relative_to(host.root)
            for path in folder.rglob("tcp_*.ko*") if SUFFIX.search(path.name)}


def builtin(host, release, module):
    """Whether a kernel has the module built in."""
    text = host.read(f"lib/modules/{release}/modules.builtin") or ""
    return module in {name_of(line) for line in text.splitlines()}


def name_of(path):
    """updates/satcc/tcp_satcc.ko.xz -> tcp_satcc"""
    return SUFFIX.sub("", os.path.basename(path)).replace("-", "_")


def releases(host):
    """The installed kernels that can load modules, the newest last."""
    names = [name for name in host.names("lib/modules")
             if host.path(f"lib/modules/{name}/modules.dep").exists()]
    return sorted(names, key=version_key)


def version_key(release):
    """A key that sorts 6.1.9 before 6.1.10, and 6.12-rc1 before 6.12."""
    words = re.split(r"(\d+)", release.replace("-rc", "~rc"))
    return [(1, int(word), "") if word.isdigit() else (0 if word.startswith("~") else 2, 0, word)
            for word in words if word] + [(1, 0, "")]


def module_bytes(host, name):
    """A module file's uncompressed bytes.  Raises OperateError."""
    path = host.path(name)
    try:
        if path.suffix == ".xz":
            return lzma.decompress(path.read_bytes())
        if path.suffix == ".gz":
            return gzip.decompress(path.read_bytes())
        return path.read_bytes()
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise OperateError(f"cannot read {path}: {error}") from None


def is_signed(data):
    """Whether a module's bytes end in a signature."""
    return data.endswith(SIGNATURE)


def source_version(data):
    """The srcversion in a module's bytes; None without one."""
    match = re.search(rb"\0srcversion=([0-9A-F]+)\0", data)
    return match[1].decode() if match else None


def signatures_enforced(host):
    """The setting that makes the kernel refuse modules without a signature; None if there is none."""
    if host.read("sys/module/module/parameters/sig_enforce") == "Y":
        return "sig_enforce"
    lockdown = re.search(r"\[(\w+)\]", host.read("sys/kernel/security/lockdown") or "")
    return f"lockdown={lockdown[1]}" if lockdown and lockdown[1] != "none" else None
