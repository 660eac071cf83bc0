# SPDX-License-Identifier: GPL-2.0
"""Reads the configuration for the next boot: sysctl.d, modules-load.d, modprobe.d."""

import dataclasses
import os
import re

SYSCTL_CONF = "/etc/sysctl.conf"
PLACES = ("etc", "run", "usr/local/lib", "usr/lib", "lib")     # the first has precedence


@dataclasses.dataclass(frozen=True)
class Setting:
    """A value, and the file that has it."""
    value: str
    file: str


def fragments(host, folder):
    """The files NAME.conf of a folder such as sysctl.d, in the order in which they are read.

    If two files have the same name, the one in the earlier place of PLACES counts.
    """
    paths = {}
    for place in PLACES:
        for name in host.names(f"{place}/{folder}", "*.conf"):
            paths.setdefault(name, f"/{place}/{folder}/{name}")
    return [paths[name] for name in sorted(paths)]


def lines(host, path, comments="#;"):
    """The lines of a file that are neither empty nor comments."""
    text = (host.read(path) or "").replace("\\\n", " ")
    return [line.strip() for line in text.splitlines()
            if line.strip() and line.strip()[0] not in comments]


def sysctl_files(host):
    """The files with sysctls, in the order in which they are read.

    /etc/sysctl.conf is read where a link in sysctl.d leads to it, as Debian's 99-sysctl.conf does;
    without a link it is read last.
    """
    paths = fragments(host, "sysctl.d")
    last = os.path.realpath(host.path(SYSCTL_CONF))
    linked = any(os.path.realpath(host.path(path)) == last for path in paths)
    return paths if linked else [*paths, SYSCTL_CONF]


def sysctls(host):
    """The sysctls that are set at boot: name with dots -> Setting.  The last file counts."""
    settings = {}
    for path in sysctl_files(host):
        for line in lines(host, path):
            name, equals, value = line.lstrip("-").partition("=")
            if equals:
                settings[name.strip().replace("/", ".")] = Setting(" ".join(value.split()), path)
    return settings


def boot_modules(host):
    """The names of modules that are loaded early at boot."""
    return {line.split()[0].replace("-", "_")
            for path in [*fragments(host, "modules-load.d"), "/etc/modules"]
            for line in lines(host, path)}


def boot_objects(host):
    """The policies whose BPF objects are loaded early at boot, by an enabled unit satcc-bpf@POLICY."""
    wanted = host.names("etc/systemd/system/sysinit.target.wants", "satcc-bpf@*.service")
    return {name.partition("@")[2].removesuffix(".service") for name in wanted}


def options(host):
    """The parameters in modprobe.d: (module, parameter) -> Setting."""
    settings = {}
    for path, words in modprobe_lines(host):
        if words[0] == "options" and len(words) > 1:
            for word in words[2:]:
                name, _, value = word.partition("=")
                settings[words[1].replace("-", "_"), name] = Setting(value.strip('"'), path)
    return settings


def blocked(host):
    """The modules that modprobe.d prevents from being loaded: module -> the Setting that does it."""
    settings = {}
    for path, words in modprobe_lines(host):
        stops = words[0] == "blacklist" or (
            words[0] == "install" and re.fullmatch(r"(/usr)?/bin/(false|true)", words[-1]))
        if stops and len(words) > 1:
            settings[words[1].replace("-", "_")] = Setting(" ".join(words), path)
    return settings


def modprobe_lines(host):
    """(path, words) of each line in modprobe.d."""
    return [(path, line.split()) for path in fragments(host, "modprobe.d")
            for line in lines(host, path, "#")]
