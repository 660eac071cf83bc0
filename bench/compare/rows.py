# SPDX-License-Identifier: GPL-2.0
"""make bench: play the comparison's runs, collect their figures into the report's data, and draw it."""

import datetime
import hashlib
import os
import statistics
import time

import numpy as np
from rich.console import Console

from .. import oracle
from ..errors import LabError
from ..lab import foreign, machine, prune
from ..lab.play import Lab, run_all
from ..measure import cost, flow_view, overhead
from ..paths import TOP
from ..record.run import Run
from ..scenario.scenario import Scenario
from ..status import commit
from . import comparison, tables, webpage
from .comparison import Item, Plan, Policy

SHOWN_TRANSFER = 1_000_000      # size of the transfer whose time sequence is drawn


def _transfer_row(item: Item, run: Run) -> dict:
    view = flow_view.FlowView(run)
    return {"policy": item.policy.label, "bytes": item.amount,
            "seconds": view.transfer_s(item.amount), "ideal_s": item.scenario.ideal_s(item.amount),
            "drops": flow_view.queue_drops(run), "retransmits": int(view.is_retransmit.sum()),
            "receiver_limited_s": flow_view.receiver_limited_s(run), "hash": run.hash}


def _floor_row(item: Item, run: Run) -> dict:
    return {"bytes": item.amount, "receiver": item.mode, "hash": run.hash,
            "seconds": flow_view.FlowView(run).transfer_s(item.amount)}


def _bulk_row(policy: Policy, loss_pct: float, pairs: list[tuple[Item, Run]]) -> dict:
    views = [(item, run, flow_view.FlowView(run)) for item, run in pairs]
    return {"policy": policy.label, "loss_pct": loss_pct,
            "goodput_mbit": [view.goodput_mbit(item.amount) for item, _, view in views],
            "t90_s": [flow_view.time_to_share(run) for _, run, _ in views],
            "drops": [flow_view.queue_drops(run) for _, run, _ in views],
            "utilisation": [flow_view.utilisation(run) for _, run, _ in views],
            "seeds": [item.seed for item, _, _ in views], "hash": [run.hash for _, run, _ in views]}


def _series(sequence: Run, bulk: Run, seconds: int) -> dict:
    """The time series of one policy on one link."""
    view = flow_view.FlowView(sequence)
    first = ~view.is_retransmit
    t, cwnd, ssthresh = flow_view.cwnd_series(bulk)
    at, rate = flow_view.FlowView(bulk).goodput_series(seconds)
    return {
        "cwnd": {"t_s": t.tolist(), "cwnd": cwnd.tolist(),
                 "ssthresh": [None if np.isnan(value) else int(value) for value in ssthresh]},
        "sequence": {
            "segment_t_s": view.segment_s[first].tolist(),
            "segment_kB": (view.segment_seq[first] / 1e3).tolist(),
            "retransmit_t_s": view.segment_s[~first].tolist(),
            "retransmit_kB": (view.segment_seq[~first] / 1e3).tolist(),
            "ack_t_s": view.ack_s.tolist(), "ack_kB": (view.ack_bytes / 1e3).tolist()},
        "goodput": {"t_s": at.tolist(), "mbit": rate.tolist()},
    }


def speed(runs: list[Run], items) -> float | None:
    """Median of the virtual seconds per wall second of a single 2 Mbit/s flow; None without such a run.

    It counts the time while the flow runs, without restore, set-up and collection of results.
    """
    rates = [item.amount / run.meta["flows_wall_s"] for item, run in zip(items, runs)
             if item.kind == "bulk" and not item.loss_pct and run.meta["flows_wall_s"]
             and item.scenario.bottleneck[1].rate_mbit == 2]
    return float(np.median(rates)) if rates else None


def flow_results(run: Run) -> list[dict]:
    """The result of each flow, with the kernel's TCP_INFO at its end."""
    return [run.json(f"flow-{number}.json") for number in range(len(run.scenario.flows))]


def _waited_pct(run: Run, key: str) -> float:
    """The share of the flows' busy time that they waited, percent.  key: of TCP_INFO."""
    infos = flow_results(run)
    return 100 * sum(one[key] for one in infos) / max(1, sum(one["busy_time"] for one in infos))


def _digest(run: Run) -> str:
    """SHA-256 of a run without captures: over its flows' results and its queues' counters."""
    names = sorted(path.name for path in run.folder.iterdir()
                   if path.name.startswith(("flow-", "qdisc-")))
    return hashlib.sha256(b"".join(run.read(name) for name in names)).hexdigest()


def _long_rows(pairs) -> list[dict]:
    """A row for each policy and loss; its lists have an entry for each seed."""
    grouped = {}
    for item, run in pairs:
        grouped.setdefault((item.policy.label, item.loss_pct), []).append((item, run))
    rows = []
    for (policy, loss_pct), group in grouped.items():
        rates = [[one["bytes_acked"] * 8 / item.amount / 1e6 for one in flow_results(run)]
                 for item, run in group]
        rows.append({
            "policy": policy, "loss_pct": loss_pct, "flows_mbit": rates,
            "goodput_mbit": [sum(one) for one in rates], "jain": [flow_view.jain(one) for one in rates],
            "drops": [flow_view.queue_drops(run) for _, run in group],
            "sndbuf_limited_pct": [_waited_pct(run, "sndbuf_limited") for _, run in group],
            "rwnd_limited_pct": [_waited_pct(run, "rwnd_limited") for _, run in group],
            "seeds": [item.seed for item, _ in group], "hash": [_digest(run) for _, run in group]})
    return rows


def link_facts(name: str, base: Scenario) -> dict:
    _, stage = base.bottleneck
    return {"name": f"{stage.rate_mbit:g} Mbit/s", "scenario": name,
            "rtt_ms": base.base_rtt_s * 1e3, "rate_mbit": stage.rate_mbit,
            "net_rate_mbit": base.net_rate_bps / 1e6, "bdp_packets": base.bdp_packets(stage),
            "queue_packets": base.queue_packets(stage)}


def collect_long(plan: Plan, pairs) -> dict:
    """The faster link: one flow alone, and several of one policy."""
    alone = [pair for pair in pairs if pair[0].kind == "long"]
    shared = [pair for pair in pairs if pair[0].kind == "shared"]
    return {**link_facts(alone[0][0].link, plan.fast), "seconds": alone[0][0].amount,
            "rows": _long_rows(alone), "shared": _long_rows(shared),
            "flows": max((len(item.scenario.flows) for item, _ in shared), default=0)}


def collect_beside(pairs) -> dict:
    """For each link and policy: goodput of the policy's flow and of the rival's by seed, Mbit/s.

    Of two flows of the rival, own_mbit is the faster one's and rival_mbit the slower one's. rival_pct is
    the rival's goodput in percent of an equal share: the mean of two rival flows there, over the seeds.
    """
    links = {}
    for item, run in pairs:
        rates = [info["bytes_acked"] * 8 / item.amount / 1e6 for info in flow_results(run)]
        link = links.setdefault(item.link, {
            **link_facts(item.link, item.scenario), "rival": item.scenario.flows[1].cc,
            "seconds": item.amount, "rows": {}})
        if item.policy.label == link["rival"]:
            rates.sort(reverse=True)
        row = link["rows"].setdefault(item.policy.label, {"policy": item.policy.label})
        for key, value in (("own_mbit", rates[0]), ("rival_mbit", rates[1]),
                           ("drops", flow_view.queue_drops(run)), ("seeds", item.seed),
                           ("hash", _digest(run))):
            row.setdefault(key, []).append(value)
    for link in links.values():
        pair = link["rows"][link["rival"]]
        equal = statistics.mean(pair["own_mbit"] + pair["rival_mbit"])
        link["rows"] = list(link["rows"].values())
        for row in link["rows"]:
            row["rival_pct"] = [100 * rate / equal for rate in row["rival_mbit"]]
    return {"links": list(links.values())}


def collect_cost(pairs) -> dict:
    """Instructions per ACK and by callback.

    uncounted: a user's policy -> why its instructions cannot be counted.
    """
    item = pairs[0][0]
    data = {"link": link_facts(item.link, item.scenario)["name"], "seconds": item.amount,
            "rtt_ms": item.scenario.base_rtt_s * 1e3, "rows": [], "uncounted": {}}
    for item, run in pairs:
        try:
            counted = cost.of_run(run).as_dict()
        except LabError as error:
            if not item.policy.yours:
                raise
            data["uncounted"][item.policy.label] = str(error)
            continue
        data["rows"].append({"policy": item.policy.label, "loss_pct": item.loss_pct, **counted,
                             "hash": run.hash})
    return data


def collect_log(pairs) -> dict:
    """Instructions that the logger adds, see overhead.py."""
    item = pairs[0][0]
    return {"link": link_facts(item.link, item.scenario)["name"], "cc": item.policy.cc,
            "bytes": item.amount, "rows": overhead.table([
                overhead.of_run(run, item.mode) for item, run in pairs])}


def collect_checks(pairs, check) -> dict:
    """Policy -> the oracle's results on the traced runs of our policies.

    check: oracle.check, which takes a Run and returns a Report.
    """
    by_policy = {}
    for item, run in pairs:
        if not (item.policy.ours and item.scenario.trace):
            continue
        entry = by_policy.setdefault(item.policy.label, {
            "runs": 0, "changes": 0, "differences": [], "unchecked": []})
        result = check(run)
        entry["runs"] += bool(result.counts)
        entry["changes"] += sum(count.changes for count in result.counts.values())
        entry["differences"] += [str(one) for one in result.differences]
        why = list(result.unchecked.values()) or (
            [] if result.counts else ["the oracle has no such policy"])
        entry["unchecked"] += [text for text in why if text not in entry["unchecked"]]
    return by_policy


def collect(plan: Plan, runs: list[Run], check=None) -> dict:
    """The report's data, without its `about`.  check: see collect_checks()."""
    pairs = list(zip(plan.items, runs))
    by = {(item.link, item.policy, item.kind, item.amount, item.loss_pct, item.seed): (item, run)
          for item, run in pairs}
    links = []
    for name, base in plan.links.items():
        on_link = [(item, run) for item, run in pairs
                   if item.link == name and item.kind in ("transfer", "floor", "bulk")]
        bulk = [(policy, loss_pct) for policy in plan.policies
                for loss_pct in sorted({item.loss_pct for item, _ in on_link if item.kind == "bulk"})]
        seconds = next(item.amount for item, _ in on_link if item.kind == "bulk")
        links.append({
            **link_facts(name, base),
            "transfers": [_transfer_row(item, run) for item, run in on_link if item.kind == "transfer"],
            "floors": [_floor_row(item, run) for item, run in on_link if item.kind == "floor"],
            "bulk": [_bulk_row(policy, loss_pct, [
                (item, run) for item, run in on_link
                if item.kind == "bulk" and (item.policy, item.loss_pct) == (policy, loss_pct)])
                for policy, loss_pct in bulk],
            "series": {policy.label: _series(
                by[name, policy, "transfer", SHOWN_TRANSFER, 0, 1][1],
                by[name, policy, "bulk", seconds, 0, 1][1], seconds) for policy in plan.policies},
        })
    data = {"title": plan.title, "policies": [policy.label for policy in plan.policies],
            "ours": [policy.label for policy in plan.policies if policy.ours], "links": links}
    if besides := [pair for pair in pairs if pair[0].kind == "beside"]:
        data["beside"] = collect_beside(besides)
    if costs := [pair for pair in pairs if pair[0].kind == "cost"]:
        data["cost"] = collect_cost(costs)
    if logs := [pair for pair in pairs if pair[0].kind == "log"]:
        data["log"] = collect_log(logs)
    if plan.fast:
        data["long"] = collect_long(plan, [p for p in pairs if p[0].kind in ("long", "shared")])
    if check:
        data["checks"] = collect_checks(pairs, check)
    return data


def check_plan(plan: Plan) -> None:
    """Raise LabError if the plan lacks a run that the report needs."""
    if not any(item.amount == SHOWN_TRANSFER for item in plan.of("transfer")):
        raise LabError(f"compare.toml: transfers lack {SHOWN_TRANSFER}, the size of the sequence plot")


# ---- the command ------------------------------------------------------------

def run_comparison(arguments, console: Console) -> None:
    began = time.monotonic()
    added = foreign.asked(arguments)
    planned = comparison.plan(long=arguments.long, added=added)
    check_plan(planned)
    console.print(f"lab: kernel {arguments.kernel} under QEMU {machine.qemu_version()}; "
                  "first use fetches packages and boots once")
    lab = Lab(arguments.kernel, added=added)
    runs = run_all(lab, planned.items, console, use_cache=not arguments.fresh)
    data = collect(planned, runs, oracle.check)
    cached = sum(run.from_cache for run in runs)
    fresh = [run for run in runs if not run.from_cache] or runs
    data["about"] = {
        "kernel": lab.image.release, "emulator": f"QEMU {machine.qemu_version()}",
        "date": datetime.date.today().isoformat(), "commit": commit(),
        "command": comparison_command(arguments, added),
        "runs": len(runs), "from_cache": cached, "wall_s": time.monotonic() - began,
        "speed": speed(runs, planned.items),
        "restore_s": float(np.median([run.meta["restore_wall_s"] for run in fresh])),
        "cores": len(os.sched_getaffinity(0)),
        "modules": {name: version for run in runs for name, version in run.meta["modules"].items()},
    }
    data["notes"] = notes(added, data.get("cost", {}).get("uncounted", {}))
    # The READMEs' tables are of results/geo, so a comparison with a user's policies has its own folder.
    folder = TOP / "results" / "-".join([arguments.name, *(each.cc for each in added)])
    webpage.write_json(data, folder)
    page = webpage.write_report(data, folder)
    tables.print_tables(data, console)
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


def comparison_command(arguments, added: tuple[foreign.Foreign, ...]) -> str:
    """The command that repeats a comparison, for its report."""
    if not added:
        return "make bench" + " LONG=1" * arguments.long
    words = [f"--{each.kind} {each.path.name}" for each in added]
    words += [f"--cc {arguments.cc}"] * bool(arguments.cc) + ["--long"] * arguments.long
    return " ".join(["python3 -m bench", *words])


def notes(added: tuple[foreign.Foreign, ...], uncounted: dict[str, str]) -> list[str]:
    """The report's lines about a user's policies.  uncounted: see collect_cost()."""
    lines = []
    for each in added:
        reason = "it is a BPF object" if each.kind == foreign.OBJECT else uncounted.get(each.cc)
        lines += [f"{each.cc} is {each.path.name}, SHA-256 {each.digest}."]
        lines += [f"The instructions of {each.cc} are not counted: {reason}."] if reason else []
    return lines
