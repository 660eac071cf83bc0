# SPDX-License-Identifier: GPL-2.0
"""Commands of the bench: the comparison, one scenario, a job again, its report and the old runs.

Apart from __main__.py, since --help imports nothing of this.
"""

import dataclasses
import datetime
import os
import time

import numpy as np
from rich.console import Console

from . import oracle
from .compare import comparison, geo, readme, rows, terminal, webpage
from .errors import LabError
from .lab import boots, debug, foreign, host, machine, play, prune, repeat
from .lab.play import Lab
from .measure import calibrate, flow_view
from .oracle import command as oracle_command
from .paths import TOP
from .record.run import Run
from .scenario import scenario
from .scenario.scenario import Scenario
from .status import commit


def run_comparison(arguments, console: Console) -> None:
    began = time.monotonic()
    added = own(arguments)
    planned = comparison.plan(long=arguments.long, added=added)
    rows.check_plan(planned)
    console.print(f"lab: kernel {arguments.kernel} under QEMU {machine.qemu_version()}; "
                  "first use fetches packages and boots once")
    lab = Lab(arguments.kernel, added=added)
    runs = play.run_all(lab, planned.items, console, use_cache=not arguments.fresh)
    data = rows.collect(planned, runs, oracle.check)
    cached = sum(run.from_cache for run in runs)
    fresh = [run for run in runs if not run.from_cache] or runs
    data["about"] = {
        "kernel": lab.image.release, "emulator": f"QEMU {machine.qemu_version()}",
        "date": datetime.date.today().isoformat(), "commit": commit(),
        "command": comparison_command(arguments, added),
        "runs": len(runs), "from_cache": cached, "wall_s": time.monotonic() - began,
        "speed": rows.speed(runs, planned.items),
        "restore_s": float(np.median([run.meta["restore_wall_s"] for run in fresh])),
        "cores": len(os.sched_getaffinity(0)),
        "modules": {name: version for run in runs for name, version in run.meta["modules"].items()},
    }
    data["notes"] = notes(added, data.get("cost", {}).get("uncounted", {}))
    # The READMEs' tables are of results/geo, so a comparison with a user's policies has its own folder.
    folder = TOP / "results" / "-".join([arguments.name, *(each.cc for each in added)])
    webpage.write_json(data, folder)
    page = webpage.write_report(data, folder)
    terminal.print_tables(data, console)
    about = data["about"]
    console.print(f"\n{about['runs']} runs, {cached} of them from the cache, "
                  f"{about['wall_s']:.0f} s wall on {about['cores']} cores")
    if about["speed"]:          # of a 2 Mbit/s link, if one was asked for
        console.print(f"lab speed: {about['speed']:.1f} virtual seconds per wall second "
                      f"(one 2 Mbit/s flow), restore {about['restore_s']:.2f} s")
    console.print(f"report: {page.relative_to(TOP)}, data: "
                  f"{(folder / 'bench.json').relative_to(TOP)}")
    console.print(prune.within_limit())
    wrong = [policy for policy, report in data.get("checks", {}).items() if report["differences"]]
    if wrong:
        raise LabError(f"windows differ from what the oracle recomputed: {', '.join(wrong)}")


def own(arguments) -> tuple[foreign.Foreign, ...]:
    """The user's congestion controls.  Raises LabError."""
    return foreign.read([*arguments.before, *arguments.behind],
                        arguments.cc.split(",") if arguments.cc else [], arguments.kernel)


def comparison_command(arguments, added: tuple[foreign.Foreign, ...]) -> str:
    """The command that repeats a comparison, for its report."""
    if not added:
        return "make bench" + " LONG=1" * arguments.long
    words = [f"--{each.kind} {each.path.name}" for each in added]
    words += [f"--cc {arguments.cc}"] * bool(arguments.cc) + ["--long"] * arguments.long
    return " ".join(["python3 -m bench", *words])


def notes(added: tuple[foreign.Foreign, ...], uncounted: dict[str, str]) -> list[str]:
    """The report's lines about a user's policies.  uncounted: see rows.collect_cost()."""
    lines = []
    for each in added:
        reason = "it is a BPF object" if each.kind == foreign.OBJECT else uncounted.get(each.cc)
        lines += [f"{each.cc} is {each.path.name}, SHA-256 {each.digest}."]
        lines += [f"The instructions of {each.cc} are not counted: {reason}."] if reason else []
    return lines


def with_policies(chosen: Scenario, names: list[str]) -> Scenario:
    """The scenario with one congestion control for all flows, or with one for each in their order."""
    if len(names) not in (1, len(chosen.flows)):
        raise LabError(f"--cc: {len(names)} names for {len(chosen.flows)} flows; "
                       "give one for all, or one each")
    if len(names) == 1:
        names *= len(chosen.flows)
    return dataclasses.replace(chosen, flows=tuple(
        dataclasses.replace(flow, cc=name) for flow, name in zip(chosen.flows, names))).check()


def run_one(arguments, console: Console) -> None:
    chosen = scenario.load(arguments.file)
    if arguments.seed is not None:
        chosen = dataclasses.replace(chosen, seed=arguments.seed).check()
    if arguments.cc:
        chosen = with_policies(chosen, arguments.cc.split(","))
    added = own(arguments)
    if added and not arguments.cc:
        chosen = with_policies(chosen, [each.cc for each in added])
    if arguments.engine == "host" and (arguments.gdb or arguments.keep or added):
        raise LabError("--gdb, --keep, --module and --bpf are for --engine lab")
    if arguments.engine == "host":
        run = host.run(chosen)
    else:
        lab = Lab(arguments.kernel, chosen.extras, added=added)
        stub = debug.announce(lab.image, console) if arguments.gdb else None
        run = lab.run(chosen, use_cache=not arguments.fresh, stub=stub)
    console.print(f"{chosen.title}: kernel {run.meta['kernel']}, seed {chosen.seed}"
                  + (", from the cache" if run.from_cache else ""))
    lines = [f"flow {number} {flow.cc}: {describe(run, number)}"
             for number, flow in enumerate(chosen.flows)]
    if chosen.bottleneck:
        lines.append(f"queue drops {flow_view.queue_drops(run)}, "
                     f"link losses {flow_view.link_losses(run)}")
    if chosen.capture or chosen.trace:      # the hash is over captures and trace
        lines.append(f"hash {run.hash}")
    lines.append(f"files {run.folder.relative_to(TOP)}")
    if arguments.keep:
        kept = play.keep_job(lab, run).relative_to(TOP)
        lines.append(f"job {kept}; to repeat: python3 -m bench again {kept}")
    for line in lines:
        console.print(f"  {line}", soft_wrap=True)


def run_geo(arguments, console: Console) -> None:
    geo.play(arguments, console)


def draw_report(arguments, console: Console) -> None:
    data = webpage.read_json(arguments.folder)
    terminal.print_tables(data, console)
    print(webpage.write_report(data, arguments.folder))


def write_readmes(arguments, console: Console) -> None:
    readme.write(arguments.folder, arguments.figures)


def check_runs(arguments, console: Console) -> int:
    return oracle_command.check_runs(arguments.folder)


def calibrate_link(arguments, console: Console) -> int:
    return calibrate.show(arguments.kernel, arguments.full, arguments.json)


def compare_boots(arguments, console: Console) -> int:
    return boots.compare(arguments.kernel, arguments.boots, arguments.busy)


def forget_old(arguments, console: Console) -> None:
    count, size = prune.prune()
    console.print(f"{count} runs removed, {size / 1e6:.0f} MB")


def play_again(arguments, console: Console) -> int:
    return repeat.again(arguments.folder.resolve(), console, arguments.gdb)


def describe(run: Run, number: int) -> str:
    """The result of a flow as text: from the sender's capture, or, if the flow is not in it, from the
    counters of the sending host's kernel."""
    flow, chosen = run.scenario.flows[number], run.scenario
    if flow.tool in ("flow", "iperf3") and flow.source == "sender" and \
            chosen.capture and "sender" in chosen.captures:
        view = flow_view.FlowView(run, number)
        took = view.transfer_s(flow.bytes) if flow.bytes else None
        if took is not None:
            ideal = f" (ideal {chosen.ideal_s(flow.bytes):.3f} s)" \
                if chosen.bottleneck and flow.to == "receiver" else ""
            amount = f"{flow.bytes} bytes in {took:.3f} s{ideal}"
        elif flow.bytes:
            amount = f"{int(view.ack_bytes.max(initial=0))} of {flow.bytes} bytes"
        else:
            amount = f"{view.goodput_mbit(flow.seconds):.3f} Mbit/s over {flow.seconds} s"
        return f"{amount}, {int(view.is_retransmit.sum())} retransmissions"
    counters = run.json(f"flow-{number}.json")
    if "bytes_acked" in counters:
        return (f"{counters['bytes_acked']} bytes in {counters['busy_time'] / 1e6:.3f} s of sending, "
                f"by {flow.source}, {counters['total_retrans']} retransmissions")
    if "end" in counters:               # iperf3's
        sent = counters["end"].get("sum_sent") or counters["end"]["sum"]
        return f"{sent['bytes']} bytes in {sent['seconds']:.3f} s, by {flow.source}'s iperf3"
    return f"{flow.tool} from {flow.source} to {flow.to}, in whole"
