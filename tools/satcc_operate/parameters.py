# SPDX-License-Identifier: GPL-2.0
"""satcc set: sets parameters of a policy now, all or none, and with --persistent for each later load.

A module's parameters are files in /sys.  The text with which a module documents a parameter has its
unit and bounds, so a value out of bounds is refused before anything is written.  Where the text has no
bounds the kernel decides, and satcc reads back what is in force.  A BPF object takes parameters only
when it is loaded, so satcc loads it again.  `satcc load` gives it those of modprobe.d.
"""

import dataclasses
import json
import pathlib
import re

from . import bpf, configuration, policies, tables
from .host import OperateError

TEXTS = pathlib.Path(__file__).with_name("parameters.json")     # of the pack's modules, for the objects
FILE = "etc/modprobe.d/satcc.conf"
HEAD = "# `satcc set --persistent` changes the lines `options` of this file."
RANGE = re.compile(r"\((\d+)(?:\.\.|-|/)(\d+)( each)?[,)]")     # (1..255, default 4), (0/1, default 1)
WORDS = re.compile(r": (\w+(?:, \w+)* or \w+) \(")              # F: mtsi, const or linear (default mtsi)
UNLOADED = ("{module} is not loaded, so no parameter of it is in force: load it first, or give "
            "--persistent for the next load")
BUILT_IN = ("{module} is built into the kernel, which reads no modprobe.d: leave out --persistent, and "
            "write {words} to the kernel's command line for the next boot")


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter as its module documents it."""
    name: str
    value: str = None           # in force; None: not loaded
    meaning: str = ""           # with unit, bounds and default; "" if the module documents none
    is_writable: bool = False   # while the policy is loaded

    def bounds(self):
        """(least, most) of a number or of each number of a list; None if none are documented."""
        match = RANGE.search(self.meaning)
        return (int(match[1]), int(match[2])) if match else None

    def is_list(self):
        match = RANGE.search(self.meaning)
        return bool(match and match[3])

    def words(self):
        """The words that are possible; empty for a number, or if none are documented."""
        match = WORDS.search(self.meaning)
        return re.split(r", | or ", match[1]) if match else []

    def allows(self, text):
        """Whether the documentation allows a value."""
        if self.words():
            return text in self.words()
        bounds = self.bounds()
        if not bounds:
            return True
        numbers = text.split(",") if self.is_list() else [text]
        return all(bounds[0] <= number <= bounds[1] for number in map(number_of, numbers))

    def as_json(self):
        least, most = self.bounds() or (None, None)
        return {"name": self.name, "value": self.value, "meaning": self.meaning, "least": least,
                "most": most, "words": self.words(), "writable": self.is_writable}


def number_of(text):
    """A number as the kernel reads it: 25, 0x19, 031, or Y and N for 1 and 0; -1 if it is none."""
    text = {"Y": "1", "y": "1", "N": "0", "n": "0"}.get(text, text)
    if re.fullmatch(r"0[0-7]+", text):
        return int(text, 8)
    return int(text, 0) if re.fullmatch(r"0|[1-9]\d*|0[xX][0-9a-fA-F]+", text) else -1


# ---- what a policy has -----------------------------------------------------

def of_policy(host, policy):
    """(edition, parameters) of a policy.  Raises OperateError.

    edition: "module", "built-in" or "bpf"; None if only the file of a module is there.
    """
    module = policies.module_name(policy)
    texts = policies.documented(host, module)
    if policies.loaded(host, module):
        now = policies.parameters(host, module)
        edition = "module" if policies.is_module(host, module) else "built-in"
    elif policy in bpf.visible(host):
        texts = texts or json.loads(TEXTS.read_text(encoding="utf-8")).get(policy, {})
        return "bpf", [Parameter(name, value, texts.get(name, ""), True)
                       for name, value in bpf.loaded(host)[policy].items()]
    elif module in policies.index(host, host.release()):
        now, edition = dict.fromkeys(texts), None
    else:
        raise OperateError(f"neither a module {module} nor a BPF object {policy} is loaded, and no "
                           f"such module is installed for the kernel {host.release()}")
    return edition, [Parameter(name, value, texts.get(name, ""), policies.is_writable(
        host, parameter_file(module, name))) for name, value in now.items()]


def parameter_file(module, name):
    return f"sys/module/{module}/parameters/{name}"


def listing(listed):
    """The lines of a table of parameters.  BPF objects and some modules document none."""
    if not any(each.meaning for each in listed):
        return tables.table(["PARAMETER", "IN FORCE"], [[each.name, each.value] for each in listed])
    return tables.table(["PARAMETER", "IN FORCE", "MEANING, BOUNDS, DEFAULT"],
                        [[each.name, each.value, each.meaning] for each in listed])


def assignments(words, policy, listed):
    """The operator's NAME=VALUE as a dictionary.  Raises OperateError with the list of parameters."""
    known = {each.name: each for each in listed}
    have = "\n".join([f"{policy} has:", *listing(listed)]) if listed else f"{policy} has no parameters"
    values = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value or re.search(r'[\s"\\]', value):
            raise OperateError(f"{word} is not NAME=VALUE; {have}")
        if name not in known:
            raise OperateError(f"{policy} has no parameter {name}; {have}")
        if not known[name].allows(value):
            raise OperateError(f"{word} is out of bounds; {have}")
        if name in values:
            raise OperateError(f"{name} is given twice")
        values[name] = value
    return values


# ---- now -------------------------------------------------------------------

def set_now(host, module, values, old):
    """Write the parameters of a loaded module, all or none.  Raises OperateError.

    The kernel may take another value than the one written, which is a refusal too.
    """
    try:
        for name, value in values.items():
            host.write(parameter_file(module, name), value)
            now = policies.parameters(host, module)[name]
            if not policies.same_value(now, value):
                raise OperateError(f"the kernel set {name}={now}, not {name}={value}")
    except BaseException as error:
        stuck = put_back(host, module, old)
        if isinstance(error, OperateError):
            raise OperateError(f"{error}; " + (f"to undo the rest, run: {stuck}" if stuck else
                                               f"nothing has changed: {in_words(old)}")) from None
        raise


def put_back(host, module, old):
    """Write old values where others are in force.  Returns the commands for those that failed."""
    stuck = []
    for name, value in old.items():
        if policies.parameters(host, module)[name] != value:
            try:
                host.write(parameter_file(module, name), value)
            except OperateError:
                stuck.append(set_command(module, name, value))
    return "; ".join(stuck)


def set_command(module, name, value):
    return f"echo {value} > /{parameter_file(module, name)}"


def in_words(values):
    """queue_ms=25 hoe=1"""
    return " ".join(f"{name}={value}" for name, value in values.items())


# ---- for the next load -----------------------------------------------------

def overriding(host, module, values):
    """A file of modprobe.d that is read after ours and sets a parameter otherwise; None without one."""
    place = 0
    for path, words in configuration.modprobe_lines(host):
        place = max(place, path.rsplit("/", 1)[1] > FILE.rsplit("/", 1)[1])
        if place and words[0] == "options" and words[1:2] and words[1].replace("-", "_") == module:
            for name, _, value in (word.partition("=") for word in words[2:]):
                if name in values and not policies.same_value(value, values[name]):
                    return path
    return None


def options_line(module, values):
    return f"options {module} {in_words(values)}"


def with_options(text, module, values):
    """The text of a file of modprobe.d with these parameters, and all of its other lines."""
    lines = []
    for line in text.replace("\\\n", " ").splitlines():
        words = line.split()
        if words[:1] == ["options"] and words[1:2] and words[1].replace("-", "_") == module:
            kept = [word for word in words[2:] if word.partition("=")[0] not in values]
            lines += [" ".join([*words[:2], *kept])] if kept else []
        else:
            lines.append(line)
    return "\n".join([*lines, options_line(module, values)]) + "\n"


def persistent_values(host, module, values):
    """The parameters that modprobe.d does not have yet.  Raises OperateError."""
    if path := overriding(host, module, values):
        raise OperateError(f"{path} is read after /{FILE} and has other values: remove its line "
                           f"options {module} first")
    there = configuration.options(host)
    return {name: value for name, value in values.items() if (module, name) not in there
            or not policies.same_value(there[module, name].value, value)}


# ---- the sub-command -------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class Plan:
    """What to do: parameters to set now, and to write for the next load."""
    policy: str
    edition: str
    now: dict
    later: dict
    old: dict                   # in force before, of all parameters

    @property
    def module(self):
        return policies.module_name(self.policy)


def plan_of(host, options, edition, listed):
    """The Plan of the options.  Raises OperateError."""
    values = assignments(options.values, options.policy, listed)
    module = policies.module_name(options.policy)
    names = {"module": module, "policy": options.policy,
             "words": " ".join(f"{module}.{name}={value}" for name, value in values.items())}
    if edition is None and not options.persistent:
        raise OperateError(UNLOADED.format(**names))
    if options.persistent and edition == "built-in":
        raise OperateError(BUILT_IN.format(**names))
    known = {each.name: each for each in listed}
    changes = {name: value for name, value in values.items()
               if edition and not policies.same_value(known[name].value, value)}
    fixed = [name for name in changes if not known[name].is_writable]
    if fixed and not options.persistent:
        raise OperateError(f"{', '.join(fixed)} of {module} can only be set when it is loaded: give "
                           f"--persistent, then run: modprobe -r {module} && modprobe {module}")
    return Plan(options.policy, edition, {name: value for name, value in changes.items()
                                          if name not in fixed},
                persistent_values(host, module, values) if options.persistent else {},
                {each.name: each.value for each in listed})


def commands(host, plan):
    """The commands that do the same."""
    if plan.edition == "bpf":
        now = bpf.reload_commands(host, plan.policy, {**plan.old, **plan.now}) if plan.now else []
    else:
        now = [set_command(plan.module, name, value) for name, value in plan.now.items()]
    return [*now, *([f"echo {options_line(plan.module, plan.later)} >> /{FILE}"] if plan.later else [])]


def carry_out(host, plan):
    """Set the parameters and write the file, all or nothing.  Raises OperateError."""
    wanted, old = {**plan.old, **plan.now}, {name: plan.old[name] for name in plan.now}
    if plan.edition == "bpf" and plan.now:
        bpf.reload(host, plan.policy, wanted, plan.old)
    elif plan.now:
        set_now(host, plan.module, plan.now, old)
    if plan.later:
        text = host.read(FILE)
        try:
            host.write_whole(FILE, with_options(f"{HEAD}\n" if text is None else f"{text}\n",
                                                plan.module, plan.later))
        except BaseException:
            if plan.edition == "bpf" and plan.now:
                bpf.reload(host, plan.policy, plan.old, wanted)
            else:
                put_back(host, plan.module, old)
            raise


def lines_of(plan, listed):
    """The lines for the operator: what is in force, and what will be."""
    now = {each.name: each for each in listed}
    yield from (f"{name}={now[name].value} is in force (was {plan.old[name]})" for name in plan.now)
    if plan.later:
        yield f"/{FILE} has for each later load: {options_line(plan.module, plan.later)}"
    waiting = {name: value for name, value in plan.later.items()
               if plan.edition and not policies.same_value(now[name].value, value)}
    if waiting:
        yield (f"not in force before {plan.module} is loaded again: {in_words(waiting)}; modprobe "
               "ignores parameters of a module that is loaded")


def run(host, options):
    """List the parameters, or set some.  Returns the exit status."""
    edition, listed = of_policy(host, options.policy)
    plan = plan_of(host, options, edition, listed) if options.values else None
    words = commands(host, plan) if plan else []
    if plan and not options.dry_run:
        carry_out(host, plan)
        _, listed = of_policy(host, options.policy)
    if options.json:
        print(json.dumps({"policy": options.policy, "edition": edition,
                          "changed": bool(words) and not options.dry_run, "commands": words,
                          "parameters": [each.as_json() for each in listed]}, indent=2))
    elif not plan:
        print("\n".join(listing(listed)) if listed else f"{options.policy} has no parameters")
    elif not words:
        print(f"nothing to do: {in_words(dict(word.split('=', 1) for word in options.values))} "
              f"{'is set' if options.persistent else 'is in force'} already")
    else:
        print("\n".join(words if options.dry_run else lines_of(plan, listed)))
    return 0
