# SPDX-License-Identifier: GPL-2.0
"""satcc load, unload and list: policies as BPF objects, by satcc-bpf(8), which has the messages."""

import json
import os

from . import configuration, fib, policies, tables
from .host import CommandError, OperateError, UsageError

PROGRAM = "satcc-bpf"
FOLDERS = ("usr/share/satcc", "usr/lib/satcc", "usr/local/share/satcc", "usr/local/lib/satcc")
SUFFIX = ".bpf.o"


def objects(host):
    """The installed objects: policy -> path below the root."""
    return {os.path.basename(name)[:-len(SUFFIX)]: f"{folder}/{name}"
            for folder in reversed(FOLDERS) for name in host.paths(folder, f"**/*{SUFFIX}")}


def loaded(host):
    """The policies that the kernel has from BPF objects: policy -> its parameters.

    Raises CommandError.
    """
    listed = {}
    try:
        text = host.run([PROGRAM, "list"])
    except CommandError as error:
        hint = ": `make bpf` in a clone builds it" if str(error).startswith("cannot run") else ""
        raise CommandError(f"{error}{hint}") from None
    for line in text.splitlines():
        policy, _, *words = line.split()
        listed[policy] = dict(word.split("=", 1) for word in words)
    return listed


def visible(host):
    """loaded(), with None for the parameters of one that this user or host cannot ask for.

    Without satcc-bpf, or without root, a policy of the pack that is available without a module is one.
    """
    try:
        return loaded(host)
    except CommandError:
        return dict.fromkeys(without_modules(host))


def without_modules(host):
    """The policies of the pack that the kernel has without a module, so from BPF objects."""
    release, available = host.release(), policies.available(host)
    return [policy for policy in policies.POLICIES if policy in available
            and not policies.loaded(host, policies.module_name(policy))
            and not policies.builtin(host, release, policies.module_name(policy))]


def object_of(host, policy):
    """The path of a policy's installed object.  Raises OperateError."""
    try:
        return str(host.path(objects(host)[policy]))
    except KeyError:
        folders = ", ".join(f"/{folder}" for folder in FOLDERS)
        module = policies.module_name(policy)
        hint = (f"; the module is installed: modprobe {module}"
                if module in policies.index(host, host.release()) else "")
        raise OperateError(f"no BPF object of {policy} is in {folders}{hint}") from None


def load_command(host, file, policy, values):
    """The command that loads an object, with values for the parameters, or else those of modprobe.d.

    modprobe.d is meant for the module, but a host keeps a policy's parameters in one place.
    """
    module = policies.module_name(policy)
    kept = {name: setting.value for (owner, name), setting in configuration.options(host).items()
            if owner == module}
    return [PROGRAM, "load", file, *(f"{name}={value}" for name, value in {**kept, **values}.items())]


def require(host, policy, load=True):
    """Make sure that the kernel has a policy, from its module or else from its installed object.

    load: load it if necessary; otherwise only check that it could be loaded.  Raises OperateError.
    """
    try:
        policies.require(host, policy, load)
    except OperateError as error:
        if policy not in objects(host):
            raise
        try:
            if load:
                host.run(load_command(host, object_of(host, policy), policy, {}))
        except CommandError as other:
            raise OperateError(f"{error}; {other}") from None


# ---- other parameters ------------------------------------------------------

def selection(host, policy):
    """The sysctls that lose a policy when it is unloaded: name -> value now."""
    lists = {policies.ALLOWED: policies.allowed(host), policies.DEFAULT: [policies.default(host)]}
    return {name: " ".join(words) for name, words in lists.items() if policy in words}


def reload_steps(host, policy, values):
    """The commands that unload a policy and load it with other parameters.  Raises OperateError."""
    return [[PROGRAM, "unload", policy], load_command(host, object_of(host, policy), policy, values)]


def reload_commands(host, policy, values):
    """reload_steps() and the sysctls that are to be set again, as the operator would type them."""
    return [host.shown(command) for command in reload_steps(host, policy, values) + [
        ["sysctl", "-w", f"{name}={value}"] for name, value in selection(host, policy).items()]]


def reload(host, policy, values, old):
    """Load a policy again with other parameters, or with the old ones if that fails.

    Raises OperateError.
    """
    kept = selection(host, policy)
    unload, load = reload_steps(host, policy, values)
    host.run(unload)
    try:
        host.run(load)
    except BaseException as error:
        load_again(host, reload_steps(host, policy, old)[1], kept)
        if isinstance(error, CommandError):
            raise OperateError(f"{error}; {policy} is loaded again as it was") from None
        raise
    select_again(host, kept)


def load_again(host, command, kept):
    """Undo an unload.  Raises OperateError."""
    try:
        host.run(command)
        select_again(host, kept)
    except OperateError as error:
        raise OperateError(f"{error}; the policy is unloaded now, to load it, run: "
                           f"{host.shown(command)}") from None


def select_again(host, kept):
    for name, value in kept.items():
        host.set_sysctl(name, value)


# ---- the sub-commands ------------------------------------------------------

def conclude(host, options, command, done):
    """Run a command, or print it with --dry-run, and print the result.  Returns the exit status."""
    if command and not options.dry_run:
        host.run(command)
    words = [host.shown(command)] if command else []
    if options.json:
        print(json.dumps({"changed": bool(words) and not options.dry_run, "commands": words}, indent=2))
    else:
        print(words[0] if words and options.dry_run else done)
    return 0


def is_file(name):
    return "/" in name or name.endswith(SUFFIX)


def load(host, options):
    """satcc load"""
    name, here = options.policy, loaded(host)
    policy = os.path.basename(name).removesuffix(SUFFIX)
    for word in options.values:
        if "=" not in word:
            raise UsageError(f"{word} is not NAME=VALUE")
    wanted = dict(word.split("=", 1) for word in options.values)
    if policy in here:
        if {**here[policy], **wanted} != here[policy]:
            raise OperateError(f"{policy} is loaded already: "
                               f"satcc set {policy} {' '.join(options.values)}")
        return conclude(host, options, None, f"nothing to do: {policy} is loaded as BPF already")
    if policies.loaded(host, policies.module_name(policy)):
        raise OperateError(f"{policy} is loaded as a module: to have the BPF object, first run: "
                           f"modprobe -r {policies.module_name(policy)}")
    file = name if is_file(name) else object_of(host, policy)
    return conclude(host, options, load_command(host, file, policy, wanted),
                    f"{policy} is loaded as a BPF object")


def unload(host, options):
    """satcc unload"""
    policy = options.policy
    if policies.loaded(host, policies.module_name(policy)):
        raise OperateError(f"{policy} is loaded as a module: "
                           f"modprobe -r {policies.module_name(policy)}")
    if policy not in loaded(host):
        raise OperateError(f"{policy} is not loaded as a BPF object")
    lost = [*selection(host, policy), *(f"the route to {route['prefix']}" for family in fib.families()
                                        for route in fib.routes(host, family, "table", "all")
                                        if fib.policy(route) == policy)]
    return conclude(host, options, [PROGRAM, "unload", policy], f"{policy} is unloaded" + (
        f"; until it is loaded again, {', '.join(lost)} cannot select it" if lost else ""))


def list_objects(host, options):
    """satcc list"""
    listed = loaded(host)
    if options.json:
        print(json.dumps([{"policy": policy, "parameters": values} for policy, values in listed.items()],
                         indent=2))
    else:
        print("\n".join(tables.table(["POLICY", "PARAMETERS"], [
            [policy, " ".join(f"{name}={value}" for name, value in values.items())]
            for policy, values in listed.items()])) if listed else "no policy is loaded as a BPF object")
    return 0
