# SPDX-License-Identifier: GPL-2.0
"""Commands of the bench: one scenario, a job again, the comparison's report and the old runs.

Apart from __main__.py, since --help imports nothing of this.
"""

import dataclasses

from rich.console import Console

from .compare import readme, tables, webpage
from .errors import LabError
from .lab import boots, debug, foreign, host, play, prune, repeat
from .lab.play import Lab
from .measure import calibrate, flow_view
from .oracle import command as oracle_command
from .paths import TOP
from .record.run import Run
from .scenario import scenario
from .scenario.scenario import Scenario


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
    added = foreign.asked(arguments)
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


def draw_report(arguments, console: Console) -> None:
    data = webpage.read_json(arguments.folder)
    tables.print_tables(data, console)
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
