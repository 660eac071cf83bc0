# SPDX-License-Identifier: GPL-2.0
"""satcc doctor: reasons why a selected policy is not in effect, or works badly.

CHECKS has the checks.  Each yields Findings; a healthy host has none.
"""

import dataclasses
import json
import os
import re
import shlex

from . import bpf, configuration, fib, holders, parameters, policies, route, sockets
from .host import CommandError, OperateError, in_namespace

FINDINGS = 1                            # exit status
SEND_BUFFER = 4 << 20                   # bytes: the kernel's own maximum where memory is not scarce
DROPS = 1000                            # fewer drops, or fewer than one packet of this many, are ignored
WAITED = 10                             # least percentage of busy time spent waiting for the send buffer
BUSY = 1000                             # ms: connections with less busy time are ignored
LOOKUPS = 500                           # largest number of peers whose route is looked up
QUEUES = ("pfifo_fast", "pfifo", "fq")  # qdiscs that fq may replace, because they have no configuration
AQMS = ("cake", "choke", "codel", "dualpi2", "fq_codel", "fq_pie", "gred", "hhf", "pie", "red", "sfb",
        "sfq")                          # qdiscs that drop packets by design
KERNEL_PROTOCOL = "2"
BTF = "sys/kernel/btf/vmlinux"
KEY = "var/lib/dkms/mok.pub"            # with which DKMS signs
REFUSAL = "modprobe: Key was rejected by service, or: Operation not permitted"

NEEDED = {
    "net.ipv4.tcp_sack": ("sack-off", "SACK is off: a window with several losses takes an RTT for each"),
    "net.ipv4.tcp_timestamps": ("timestamps-off", "timestamps are off: retransmissions give no RTT, "
                                "and no undo is possible"),
    "net.ipv4.tcp_window_scaling": ("window-scaling-off", "window scaling is off: "
                                    "no window is larger than 64 kB, 0.9 Mbit/s at 600 ms"),
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """A problem.  mend: the command that fixes it."""
    name: str
    text: str
    mend: str


class View:
    """The host's state that several checks need, read once."""

    def __init__(self, host):
        self.host = host
        self.release = host.release()
        self.available = policies.available(host)
        self.default = policies.default(host)
        self.index = policies.index(host, self.release)
        self.sysctls = configuration.sysctls(host)
        self.routes = [each for family in fib.families()
                       for each in fib.routes(host, family, "table", "all")
                       if each["type"] == fib.UNICAST]
        self.sockets = sockets.live(host, "-a", "-p", "-m")

    def configured(self):
        """The policies that files name for the next boot: policy -> the file.

        An unreadable file of routes is ignored here; saved_routes() reports it.
        """
        names = {}
        try:
            file = f"/{route.store_file(self.host)}"
            names = {request.policy: file for request in route.stored(self.host) or []}
        except OperateError:
            pass
        for name in (policies.ALLOWED, policies.DEFAULT):
            setting = self.sysctls.get(name)
            names.update({policy: setting.file for policy in setting.value.split()} if setting else {})
        return names

    def can_load(self, policy):
        """Whether the kernel has a policy, or its module or installed BPF object can be loaded."""
        module = policies.module_name(policy)
        return (policy in self.available or module in self.index or policy in bpf.objects(self.host)
                or policies.builtin(self.host, self.release, module))

    def pack(self):
        """The modules of the pack that are installed for the running kernel, or loaded."""
        modules = [policies.module_name(policy) for policy in policies.POLICIES]
        return [module for module in modules
                if module in self.index or policies.loaded(self.host, module)]

    def holders(self, policy):
        """What holds a loaded policy.  Raises OperateError where only root could see it."""
        if os.geteuid():
            raise OperateError("only root sees the sockets of other network namespaces")
        return holders.of(self.host, [policy])

    def users(self, policy):
        """Whether a default, a route or a live connection uses the policy."""
        return (policy == self.default or any(fib.policy(each) == policy for each in self.routes)
                or any(socket.policy == policy for socket in self.sockets))


# ---- modules ---------------------------------------------------------------

def install_command(view, release):
    """The command that installs the pack for a kernel, in its source's folder."""
    if view.host.path("var/lib/dkms/satcc").is_dir():
        command = f"dkms autoinstall -k {release}"
    else:
        command = "make install" + ("" if release == view.release else f" KERNELRELEASE={release}")
    if not view.host.path(f"lib/modules/{release}/build").exists():
        command = f"apt install linux-headers-{release} && {command}"
    return command


def modules_of_running_kernel(view):
    install = install_command(view, view.release)
    if not view.pack() and not bpf.without_modules(view.host) and not bpf.objects(view.host):
        yield Finding("module-missing", f"no policy of satcc is installed for the running kernel "
                      f"{view.release}", install)
    for policy, file in view.configured().items():
        if view.can_load(policy):
            continue
        if policy in policies.POLICIES:
            if view.pack():
                yield Finding("module-missing", f"{file} names {policy}, but its module is not "
                              f"installed for the running kernel {view.release}", install)
        else:
            yield Finding("policy-unknown", f"{file} names {policy}, but the kernel has no such policy",
                          f"$EDITOR {file}")


def modules_of_newest_kernel(view):
    kernels = policies.releases(view.host)
    newest = kernels[-1] if kernels else view.release
    if newest == view.release:
        return
    there = policies.index(view.host, newest)
    missing = [module for module in view.pack() if module not in there
               and not policies.builtin(view.host, newest, module)]
    if missing:
        yield Finding("module-missing-newest", f"the kernel {newest}, which the next boot may use, "
                      f"lacks {', '.join(missing)}", install_command(view, newest))


def modules_without_depmod(view):
    files = policies.files_of(view.host, view.release)
    missing = sorted(set(files) - set(view.index))
    if missing:
        yield Finding("module-not-indexed", f"modprobe does not find {', '.join(missing)} although the "
                      "file is installed", f"depmod {view.release}")


def installed_pack(view):
    """(module, bytes of its file) of each module of the pack that is not compressed with zstd.

    Raises OperateError.
    """
    return [(module, policies.module_bytes(view.host, view.index[module])) for module in view.pack()
            if module in view.index and not str(view.index[module]).endswith(".zst")]


def unsigned_modules(view):
    enforced = policies.signatures_enforced(view.host)
    if not enforced:
        return
    missing = [module for module, data in installed_pack(view) if not policies.is_signed(data)]
    for module in missing:
        path = f"/{str(view.index[module]).lstrip('/')}"
        yield Finding("module-unsigned", f"the kernel refuses {module} ({REFUSAL}): it has no "
                      f"signature, and {enforced} is in force",
                      f"/lib/modules/{view.release}/build/scripts/sign-file sha256 "
                      f"/var/lib/dkms/mok.key /var/lib/dkms/mok.pub {path}")


def unknown_key(view):
    """DKMS signs with a key of this host, which its owner has to enrol; mokutil tells whether it is."""
    if not policies.signatures_enforced(view.host) or not view.host.path(KEY).exists():
        return
    refused = [module for module, data in installed_pack(view)
               if policies.is_signed(data) and not policies.loaded(view.host, module)]
    try:
        answer = view.host.attempt(["mokutil", "--test-key", str(view.host.path(KEY))]).stdout
    except CommandError:                # not installed
        return
    names = f"{', '.join(refused)} ({REFUSAL})"
    confirm = "# then confirm the key in the menu that comes before the boot"
    if refused and "not enrolled" in answer:
        yield Finding("key-not-enrolled", f"the kernel refuses {names}: the firmware "
                      f"does not know the key /{KEY} of their signatures",
                      f"mokutil --import /{KEY} && reboot   {confirm}")
    elif refused and "enrollment request" in answer:
        yield Finding("key-not-enrolled", f"the kernel refuses {names}: the key "
                      f"/{KEY} of their signatures waits for its confirmation", f"reboot   {confirm}")


def stale_modules(view):
    for module, data in installed_pack(view):
        there, running = policies.source_version(data), view.host.read(f"sys/module/{module}/srcversion")
        if there and running and there != running:
            yield Finding("module-stale", f"the loaded {module} ({running}) is not the installed one "
                          f"({there})", reload_command(view, module))


def blocked_modules(view):
    pack = [policies.module_name(policy) for policy in policies.POLICIES]
    for module, setting in configuration.blocked(view.host).items():
        if module in pack:
            yield Finding("module-blocked", f"{setting.file} prevents {module} from being loaded: "
                          f"{setting.value}", unblock_command(module, setting.file))


def unblock_command(module, file):
    """The command that deletes the lines that block a module, in any spelling, and no other line."""
    spelling = module.replace("_", "[-_]")
    return f"sed -Ei '/^\\s*(blacklist|install)\\s+{spelling}(\\s|$)/d' {file}"


def module_parameters(view):
    for (module, name), setting in configuration.options(view.host).items():
        if module not in view.pack() or not policies.loaded(view.host, module):
            continue
        now = policies.parameters(view.host, module).get(name)
        if now is None:
            yield Finding("parameter-unknown", f"{setting.file} sets {name} of {module}, which has no "
                          "such parameter", f"$EDITOR {setting.file}")
        elif not policies.same_value(now, setting.value):
            yield Finding("parameter-differs", f"{name} of {module} is {now}, but {setting.file} sets "
                          f"{setting.value}", parameter_command(view, module, name, setting.value))


def parameter_command(view, module, name, value):
    """The command that sets a parameter; some parameters need a reload of their module."""
    if policies.is_writable(view.host, parameters.parameter_file(module, name)):
        return f"satcc set {policy_of(module)} {name}={shlex.quote(value)}"
    return reload_command(view, module)


def policy_of(module):
    """The policy of the pack that a module has."""
    return next(policy for policy in policies.POLICIES if policies.module_name(policy) == module)


def names_taken(view):
    """If two policies have the same name, the kernel only accepts the first one that is loaded."""
    for policy in bpf.without_modules(view.host):
        module = policies.module_name(policy)
        if module in view.index:
            yield Finding("name-taken", f"a BPF object has the name {policy}, so the installed {module} "
                          "is not in effect and cannot be loaded",
                          f"satcc-bpf unload {policy} && modprobe {module}")


def btf(view):
    """Loading a BPF object needs the kernel's BTF."""
    objects = ", ".join(map(os.path.basename, bpf.objects(view.host).values()))
    if objects and not view.host.path(BTF).exists():
        yield Finding("btf-missing", f"the kernel {view.release} has no BTF (CONFIG_DEBUG_INFO_BTF), so "
                      f"{objects} cannot be loaded; modules need no BTF",
                      install_command(view, view.release))


def reload_command(view, module):
    """The command that loads a module again, and what has to end before."""
    held = view.holders(policy_of(module)) if policies.reference_count(view.host, module) else []
    return (f"modprobe -r {module} && modprobe {module}"
            + (f"   # first end what holds it: {'; '.join(map(str, held))}" if held else ""))


def held_modules(view):
    """Not checked with --netns, because the user of a module may be in another namespace."""
    if view.host.namespace:
        return
    for policy in policies.POLICIES:
        module = policies.module_name(policy)
        count = policies.reference_count(view.host, module) or 0
        count -= len(view.host.names(f"sys/module/{module}/holders"))
        if count > 0 and not view.holders(policy):
            yield Finding("module-held", f"{module} has {count} references, but in no network namespace "
                          "is a socket or a default policy that uses it; see module-held in satcc(8)",
                          "reboot")


def in_namespaces(view, look):
    """The results of a function of the host in each named namespace.  Raises OperateError."""
    return [in_namespace(path, lambda: look(view.host)) for path in view.host.namespaces().values()]


def selected_there(host):
    """The policies that something in this thread's namespace selects."""
    return {policies.default(host), *(each.policy for each in sockets.live(host, "-a")),
            *(fib.policy(each) for family in fib.families()
              for each in fib.routes(host, family, "table", "all"))}


# ---- selection -------------------------------------------------------------

def load_at_boot(view):
    """The kernel loads the module of the default policy, but not those of the allowed policies.

    It refuses the whole list if one policy is missing then.
    """
    early = configuration.boot_modules(view.host)
    objects = set(bpf.objects(view.host)) - configuration.boot_objects(view.host)
    setting = view.sysctls.get(policies.ALLOWED)
    for policy in setting.value.split() if setting else []:
        module = policies.module_name(policy)
        is_module = module in view.index or policies.is_module(view.host, module)
        if is_module and module not in early:
            early = early | {module}
            yield Finding("load-missing", f"{setting.file} names {policy}, but no file in "
                          f"modules-load.d loads {module} before that",
                          f"echo {module} >> /etc/modules-load.d/satcc.conf")
        elif not is_module and policy in objects:
            yield Finding("load-missing", f"{setting.file} names {policy}, which is no module here, and "
                          "no unit loads its BPF object before that",
                          f"systemctl enable satcc-bpf@{policy}")


def selection_in_force(view):
    """Not checked with --netns, because the files are for the host's first namespace.

    The kernel allows more policies than the list: the default, and those that a module allows itself.
    """
    if view.host.namespace:
        return
    setting = view.sysctls.get(policies.DEFAULT)
    if setting and setting.value != view.default:
        yield not_in_force("default", policies.DEFAULT, view.default, setting)
    setting, allowed = view.sysctls.get(policies.ALLOWED), policies.allowed(view.host)
    if setting and not set(setting.value.split()) <= set(allowed):
        absent = [policy for policy in setting.value.split() if policy not in view.available]
        yield not_in_force("allowed", policies.ALLOWED, " ".join(allowed), setting, absent)


def not_in_force(what, name, now, setting, absent=()):
    """absent: policies that the kernel does not load by itself for this sysctl, and else refuses."""
    load = "".join(f"modprobe {policies.module_name(policy)} && " for policy in absent)
    return Finding(f"{what}-not-in-force", f"{name} is '{now}', but {setting.file} sets "
                   f"'{setting.value}'", f"{load}sysctl -w {name}={shlex.quote(setting.value)}")


def allowed_policies(view):
    """Not checked with --netns, because only the host's first namespace can write the list."""
    if view.host.namespace:
        return
    allowed = policies.allowed(view.host)
    unused = [policy for policy in policies.POLICIES if policy in view.available
              and policy not in allowed and not view.users(policy)]
    elsewhere = set().union(*in_namespaces(view, selected_there)) if unused else set()
    for policy in unused:
        if policy not in elsewhere:
            yield Finding("policy-not-allowed", f"{policy} is loaded, but nothing selects it, and "
                          "ordinary users may not select it",
                          f"sysctl -w {policies.ALLOWED}='{' '.join([*allowed, policy])}'")


def loud_default(view):
    if view.default in policies.LOUD:
        yield Finding("default-loud", f"{view.default} is the policy of the whole host: it "
                      f"{policies.LOUD[view.default]}",
                      f"sysctl -w {policies.DEFAULT}=cubic && satcc route add PREFIX {view.default}")


def namespace_defaults(view):
    wanted = not view.host.namespace and (view.default in policies.POLICIES
                                          or policies.DEFAULT in view.sysctls)
    for name, path in view.host.namespaces().items() if wanted else ():
        there = in_namespace(path, lambda: policies.default(view.host))
        if there != view.default:
            yield Finding("namespace-differs", f"the namespace {name} has the default policy {there}, "
                          f"but this one has {view.default}",
                          f"ip netns exec {name} sysctl -w {policies.DEFAULT}={view.default}")


# ---- routes ----------------------------------------------------------------

def add_command(each):
    """The command that adds one of satcc's routes again."""
    port, initcwnd = fib.port_of(each), fib.metrics(each).get("initcwnd")
    return add_words(each["prefix"], fib.policy(each), port, "congestion" in each["locks"], initcwnd)


def add_words(prefix, policy, port=None, lock=False, initcwnd=None):
    return " ".join(["satcc route add", str(prefix), policy, *([f"--port {port}"] if port else []),
                     *(["--lock"] if lock else []), *([f"--initcwnd {initcwnd}"] if initcwnd else [])])


def shadowed_routes(view):
    with_policy = [each for each in view.routes if fib.policy(each) and not fib.port_of(each)]
    for other in preferred_routes(view.routes):
        losers = [each for each in with_policy if takes_away(other, each)]
        if losers:
            each = max(losers, key=lambda loser: loser["prefix"].prefixlen)
            yield Finding("route-shadowed", f"{other['prefix']} has a route of its own without a "
                          f"policy, so {fib.policy(each)} of {each['prefix']} does not reach it",
                          add_words(other["prefix"], fib.policy(each)))


def preferred_routes(listed):
    """The route that the kernel uses for each prefix of each table: the one that it lists first."""
    preferred = {}
    for each in listed:
        preferred.setdefault((each["table"], each["prefix"]), each)
    return preferred.values()


def takes_away(other, each):
    """Whether a route takes connections over the same device away from a route with a policy.

    A route on the link, for example from a router advertisement, does not count if the other route has
    a gateway: the hosts on the link are not behind the path.
    """
    on_link = not fib.gateway(other) and fib.gateway(each)
    return (other["family"] == each["family"] and other["table"] == each["table"] and not on_link
            and not fib.policy(other) and other["protocol"] != KERNEL_PROTOCOL and not fib.is_own(other)
            and fib.device(other) == fib.device(each) and other["prefix"].subnet_of(each["prefix"]))


def routes_without_their_policy(view):
    """Unloading a module takes its policy from the routes that have it, until it is loaded again."""
    for each in filter(is_bare, view.routes):
        request = route.saved_request(view.host, each)
        yield Finding("policy-unloaded", f"satcc's route to {each['prefix']} has lost its policy, "
                      "because that was unloaded: new connections use the default policy",
                      load_command(view, request.policy) if request else
                      add_words(each["prefix"], "POLICY", fib.port_of(each)))


def load_command(view, policy):
    """The command that loads a policy: its module, or its BPF object where there is only that."""
    module = policies.module_name(policy)
    if module not in view.index and policy in bpf.objects(view.host):
        return f"satcc load {policy}"
    return f"modprobe {module}"


def is_bare(each):
    """Whether a route is satcc's and has no policy any more."""
    return fib.is_own(each) and not fib.policy(each)


def stale_routes(view):
    for each in filter(fib.is_own, view.routes):
        table = fib.MAIN if fib.port_of(each) else each["table"]
        try:
            covering = route.covering_route(view.host, each["prefix"], table)
        except OperateError:
            yield Finding("route-stale", f"the route that satcc copied for {each['prefix']} is gone",
                          f"satcc route del {each['prefix']}"
                          + (f" --port {fib.port_of(each)}" if fib.port_of(each) else ""))
            continue
        if next_hops(covering) != next_hops(each):
            yield Finding("route-stale", f"{each['prefix']} goes via {next_hop_text(each)}, but without "
                          f"satcc's route it would go via {next_hop_text(covering)}", add_command(each))


def next_hop_text(each):
    """192.0.2.2 on eth0"""
    return f"{fib.gateway(each) or 'the link'} on {fib.device(each)}"


def next_hops(each):
    """The next hops of a route, to compare them with another's."""
    return [fib.hop_words(hop) for hop in each.get("nexthops", [])] or fib.hop_words(each)


def saved_routes(view):
    in_effect = route.requests_in_effect(view.host)
    try:
        saved = route.stored(view.host) or []
    except OperateError as error:
        yield Finding("saved-file-bad", str(error), "satcc route save")
        return
    for request in in_effect:
        if request.policy and request not in saved:
            yield Finding("route-not-saved", f"satcc's route to {request} would not survive a reboot",
                          "satcc route save")
    for request in saved:
        if (request.prefix, request.port) not in [(each.prefix, each.port) for each in in_effect]:
            yield Finding("route-not-restored", f"the saved route to {request} is not in effect",
                          "satcc route restore")


def port_routes(view):
    for each in filter(fib.is_own, view.routes):
        port = fib.port_of(each)
        if port:
            present = fib.own_rules(view.host, each["family"])
            if any(words not in present for words in route.port_rules(each["prefix"], port)):
                yield Finding("rule-missing", f"no rule leads connections from port {port} to satcc's "
                              f"route to {each['prefix']}", add_command(each))


# ---- connections -----------------------------------------------------------

def own_choices(view):
    """Connections whose policy is not their route's, by route and policy."""
    groups = {}
    for socket, chosen in with_routes(view):
        if fib.policy(chosen) and fib.policy(chosen) != socket.policy:
            key = chosen["prefix"], chosen["table"], socket.policy
            groups.setdefault(key, (chosen, []))[1].append(socket)
    for (prefix, _, policy), (chosen, group) in groups.items():
        programs = sorted({name for socket in group for name in socket.names()}) or ["a program"]
        yield Finding("application-policy", f"connections to {prefix} use {policy} ({len(group)} now), "
                      f"but their route has {fib.policy(chosen)}: {', '.join(programs)} chose it, or "
                      "they are older than the route", lock_command(chosen))


def lock_command(chosen):
    """The command that locks a route's policy.

    If satcc did not add the route, `satcc route add` copies its initcwnd anyway.
    """
    initcwnd = fib.metrics(chosen).get("initcwnd") if fib.is_own(chosen) else None
    return (add_words(chosen["prefix"], fib.policy(chosen), fib.port_of(chosen), True, initcwnd)
            + "   # then restart the program")


def with_routes(view):
    """(socket, route) of each connection to a prefix whose route has a policy."""
    prefixes = [each["prefix"] for each in view.routes if fib.policy(each)]
    chosen = {}
    for socket in view.sockets:
        if not socket.policy or not socket.peer or socket.state == "LISTEN":
            continue
        if any(socket.peer in prefix for prefix in prefixes):
            key = socket.peer, socket.local_port
            if key not in chosen and len(chosen) < LOOKUPS:
                chosen[key] = fib.chosen_route(view.host, socket.peer, "ipproto", "tcp", "sport",
                                               str(socket.local_port), "dport", str(socket.peer_port))
            if chosen.get(key):
                yield socket, chosen[key]


# ---- sysctls, send buffers and qdiscs --------------------------------------

def tcp_options(view):
    for name, (finding, text) in NEEDED.items():
        if view.host.sysctl(name) == "0":
            yield Finding(finding, text, f"sysctl -w {name}=1")


def send_buffer(view):
    words = (view.host.sysctl("net.ipv4.tcp_wmem") or "").split()
    if len(words) == 3 and int(words[2]) < SEND_BUFFER:
        wanted = f"{words[0]} {words[1]} {SEND_BUFFER}"
        yield Finding("send-buffer-small", f"a connection has at most {words[2]} bytes of send buffer: "
                      "its window cannot grow beyond about half of that",
                      f"sysctl -w net.ipv4.tcp_wmem='{wanted}'   # satcc tune computes it for a path")


def locked_buffers(view):
    """Programs that have set SO_SNDBUF, which prevents the kernel from enlarging the buffer.

    ss does not print SO_SNDBUF.  But without it, and below the maximum of tcp_wmem, the buffer has room
    for twice the window, so a connection never waits long for room in it.
    """
    words = (view.host.sysctl("net.ipv4.tcp_wmem") or "0").split()
    prefixes = [each["prefix"] for each in view.routes if fib.policy(each)]
    slowest = {}
    for socket in view.sockets:
        selected = socket.policy in policies.POLICIES or (
            socket.peer and any(socket.peer in prefix for prefix in prefixes))
        if selected and waits_for_buffer(socket) and 0 < socket.send_buffer() < int(words[-1]):
            slowest.setdefault(", ".join(sorted(set(socket.names()))) or "a program", socket)
    for program, socket in slowest.items():
        yield Finding("send-buffer-locked", f"{program} has a send buffer of {socket.send_buffer()} "
                      f"bytes to {socket.peer} and waits for room in it {buffer_share(socket):.0f} % of "
                      "its time: it has set SO_SNDBUF, so the kernel does not enlarge the buffer",
                      buffer_command(view, program, socket, words[-1]))


def buffer_share(socket):
    """The percentage of its busy time that a connection waited for its send buffer."""
    return 100 * socket.duration_ms("sndbuf_limited") / socket.duration_ms("busy")


def waits_for_buffer(socket):
    return socket.duration_ms("busy") >= BUSY and buffer_share(socket) >= WAITED


def buffer_command(view, program, socket, wanted):
    """The command that grants the buffer that a program asks for, or else one that shows its size."""
    most = int(view.host.sysctl("net.core.wmem_max") or 0)
    if most and socket.send_buffer() >= 2 * most:       # the kernel doubles what it grants
        return f"sysctl -w net.core.wmem_max={wanted}   # then restart {program}"
    return (f"ss -tmiOp dst {socket.peer}   # then remove SO_SNDBUF from the configuration of "
            f"{program}, and restart it")


def qdisc_drops(view):
    devices = {fib.device(each) for each in view.routes
               if fib.policy(each) or each["prefix"].prefixlen == 0} - {"lo", ""}
    listed = view.host.run_json(["tc", "-s", "-j", "qdisc", "show"]) if devices else []
    for qdisc in listed:
        if qdisc.get("root") and qdisc.get("dev") in devices:
            drops, packets = harmful_drops(qdisc, listed), qdisc.get("packets", 0)
            if drops >= DROPS and drops * DROPS > packets + drops:
                yield Finding("qdisc-drops", f"the qdisc {qdisc['kind']} of {qdisc['dev']} has dropped "
                              f"{drops} of {packets + drops} packets before they left the host",
                              qdisc_command(qdisc))


def harmful_drops(root, listed):
    """The drops of a device's root qdisc, which include its children's, without those of AQMs."""
    if root["kind"] in AQMS:
        return 0
    return root.get("drops", 0) - sum(each.get("drops", 0) for each in listed
                                      if each.get("dev") == root["dev"] and each["kind"] in AQMS)


def qdisc_command(qdisc):
    """The command that sets a longer queue, or shows the limit of a qdisc with a configuration."""
    if qdisc["kind"] not in QUEUES:
        return f"tc -s qdisc show dev {qdisc['dev']}   # then raise its limit"
    more = " flow_limit 2000" if qdisc["kind"] == "fq" else ""
    return f"tc qdisc replace dev {qdisc['dev']} root fq{more}"


# ---- the sub-command -------------------------------------------------------

CHECKS = (modules_of_running_kernel, modules_of_newest_kernel, modules_without_depmod, unsigned_modules,
          unknown_key, stale_modules, blocked_modules, names_taken, btf, module_parameters, held_modules,
          load_at_boot,
          selection_in_force, allowed_policies, loud_default, namespace_defaults,
          routes_without_their_policy, shadowed_routes, stale_routes, saved_routes, port_routes,
          own_choices, tcp_options, send_buffer, locked_buffers, qdisc_drops)


def examine(host):
    """All findings.  A check that cannot run is a finding too.  Raises OperateError."""
    view = View(host)
    findings = []
    for check in CHECKS:
        try:
            findings += check(view)
        except OperateError as error:
            name = check.__name__.replace("_", " ")
            findings.append(Finding("not-checked", f"cannot check {name}: {error}", "sudo satcc doctor"))
    return [dataclasses.replace(each, mend=for_namespace(each.mend, host.namespace))
            for each in findings]


def for_namespace(mend, namespace):
    """A command as the operator runs it outside the namespace of --netns."""
    if not namespace:
        return mend
    mend = re.sub(r"^((sudo )?satcc (route \w+|doctor))", rf"\1 --netns {namespace}", mend)
    return re.sub(r"^(sysctl|tc|ss) ", rf"ip netns exec {namespace} \1 ", mend)


def run(host, options):
    """Print a line for each finding.  Returns the exit status."""
    findings = examine(host)
    if options.json:
        print(json.dumps([dataclasses.asdict(each) for each in findings], indent=2))
    else:
        for each in findings:
            print(f"{each.name}: {each.text}: {each.mend}")
    return FINDINGS if findings else 0
