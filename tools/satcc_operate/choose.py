# SPDX-License-Identifier: GPL-2.0
"""satcc choose: recommends a policy for a path, and prints the measured figures behind the advice.

The figures are in figures.json, which `python3 -m bench readme` writes from bench/RESULTS.md.  Units:
rates in Mbit/s, RTTs in ms, losses in percent, transfers in s.
"""

import json
import math
import pathlib

from . import policies, probe, tables
from .host import UsageError

FIGURES = pathlib.Path(__file__).with_name("figures.json")
EVEN = 0.05             # figures within this part of the best, or of a share, count as equal
NEAR = 0.1              # a path within this part of a measured link counts as that link
LEAST_LOSS = 0.01       # percent: the nearest loss is searched as if a smaller one were this
TRANSFER = "1000000"    # bytes
UNITS = {"rate": "Mbit/s", "rtt": "ms", "loss": "% loss"}

# What a measurement does not tell, by its way.
ONE_FLOW = ("the rate is that of one {policy} flow, so the link may be faster; drops of its own queue "
            "count as loss; give --rate and --loss if you know them")
NOTES = {"iperf3": ONE_FLOW, "upload": ONE_FLOW,
         "download": "the rate is that of one flow from the server to this host, so the link may be "
                     "faster, and the other way may differ; a receiver does not see losses: give --loss "
                     "if you know it"}

# Where a policy must not be used, besides policies.LOUD.
CAUTIONS = {"satcc": "do not use it where other flows share a policer, or a queue of a tenth of the "
                     "bandwidth-delay product or less: it takes drops there for random loss"}


# ---- the nearest measured link ---------------------------------------------

def figures():
    """The content of figures.json."""
    return json.loads(FIGURES.read_text(encoding="utf-8"))


def distance(one, other):
    """The absolute logarithm of the ratio of two positive numbers."""
    return abs(math.log(one / other))


def nearest(links, rate, rtt):
    """The link that is nearest in rate and RTT."""
    return min(links, key=lambda link: distance(rate, link["rate_mbit"]) + distance(rtt, link["rtt_ms"]))


def losses(link):
    """The losses with which a link was measured, as the keys of the figures."""
    names = {name for each in link["policies"].values() for name in each["goodput_mbit"]}
    return sorted(names, key=float)


def nearest_loss(link, loss):
    """The key of the measured loss that is nearest."""
    return min(losses(link), key=lambda name: distance(max(loss, LEAST_LOSS),
                                                       max(float(name), LEAST_LOSS)))


def outside(links, link, path):
    """A sentence for each of rate, RTT and loss that is outside of the measured range."""
    measured = {"rate": [each["rate_mbit"] for each in links], "rtt": [each["rtt_ms"] for each in links],
                "loss": [float(name) for name in losses(link)]}
    given = {"rate": path["rate_mbit"], "rtt": path["rtt_ms"], "loss": path["loss_pct"]}
    for name, values in measured.items():
        least, most = min(values), max(values)
        if not least * (1 - NEAR) <= given[name] <= most * (1 + NEAR):
            where = "below" if given[name] < least else "above"
            yield (f"{given[name]:g} {UNITS[name]} is {where} the measured range of {least:g} to "
                   f"{most:g} {UNITS[name]}")


def is_at(path, link, loss):
    """Whether a path is the measured link."""
    return (all(abs(path[name] - link[name]) <= NEAR * link[name] for name in ("rate_mbit", "rtt_ms"))
            and abs(path["loss_pct"] - loss) <= NEAR * loss)


# ---- the choice ------------------------------------------------------------

def leading(values, sign):
    """The names whose value equals the best within EVEN.  sign: 1 if more is better, -1 if less is."""
    best = max(sign * value for value in values.values())
    return [name for name, value in values.items() if sign * value >= best - EVEN * abs(best)]


def reasons(rows, cross):
    """Policy -> the reason against it; the chosen policy has no reason.

    The first reason is that a policy leaves a rival less than the slower of two rival flows has, by
    more than EVEN, if there is a rival.  Among the other policies goodput decides, then the time of a
    transfer, then the drops.
    """
    out = {row["policy"]: f"leaves {cross} less than {cross} does" for row in rows
           if cross != "none" and not row["is_fair"]}
    for text, key, sign in (("less goodput", "goodput_mbit", 1), ("slower transfer", "transfer_s", -1)):
        left = {row["policy"]: row[key] for row in rows
                if row["policy"] not in out and row[key] is not None}
        stay = leading(left, sign) if left else []
        out.update({name: text for name in left if name not in stay})
    left = sorted((row for row in rows if row["policy"] not in out),
                  key=lambda row: (row["drops"] or 0, -row["goodput_mbit"]))
    out.update({row["policy"]: "more drops" if row["drops"] != left[0]["drops"] else "even"
                for row in left[1:]})
    return out


def rows_of(link, loss, shared):
    """A row for each policy that was measured on both links."""
    _, least_pct = slower_rival(shared)
    rows = []
    for policy, each in link["policies"].items():
        beside = shared["policies"].get(policy)
        if beside and loss in each["goodput_mbit"]:
            rows.append({"policy": policy, "goodput_mbit": each["goodput_mbit"][loss],
                         "transfer_s": each.get("transfer_s", {}).get(TRANSFER),
                         "drops": each.get("drops"), "rival_mbit": beside["rival_mbit"],
                         "share_pct": beside["share_pct"],
                         "is_fair": beside["share_pct"] >= (1 - EVEN) * least_pct})
    return rows


def slower_rival(shared):
    """The goodput of the slower of two flows of the rival, and its percent of an even share.

    In the rival's own row the column of the rival has the slower flow.
    """
    pair = shared["policies"][shared["rival"]]
    return pair["rival_mbit"], pair["share_pct"]


def cost(shared, policy):
    """The goodput of a rival beside the policy, and that of the slower of two rival flows."""
    mbit, pct = slower_rival(shared)
    return {**measured_at(shared), "rival": shared["rival"], **shared["policies"][policy],
            "rival_beside_rival_mbit": mbit, "rival_beside_rival_pct": pct}


def measured_at(link):
    """The link, and the source of its figures."""
    return {name: link[name] for name in ("rate_mbit", "rtt_ms", "queue_bdp", "source")}


def advice(path):
    """The output of choose --json.  path: rate_mbit, rtt_ms, loss_pct, cross."""
    data = figures()
    link = nearest(data["alone"], path["rate_mbit"], path["rtt_ms"])
    shared = nearest(data["beside"], path["rate_mbit"], path["rtt_ms"])
    loss = nearest_loss(link, path["loss_pct"])
    rows = rows_of(link, loss, shared)
    against = reasons(rows, path["cross"])
    rows = [{**row, "against": against.get(row["policy"])} for row in rows]
    policy, = [row["policy"] for row in rows if not row["against"]]
    return {"policy": policy, "path": path, "is_measured": is_at(path, link, float(loss)),
            "nearest": {**measured_at(link), "loss_pct": float(loss)},
            "outside": list(outside(data["alone"], link, path)),
            "not_measured": [name for name in policies.POLICIES if name not in link["policies"]],
            "figures": rows, "cost": cost(shared, policy), "cautions": cautions(policy),
            "repeat": repeat(link, shared), "next": next_commands(policy, path)}


def cautions(policy):
    """Sentences about where the policy must not be used."""
    name = policy.split()[0]
    loud = [f"it {policies.LOUD[name]}"] if name in policies.LOUD else []
    return [*loud, *([CAUTIONS[name]] if name in CAUTIONS else [])]


def repeat(*links):
    """The commands, in a clone, that measure the links again."""
    sources = [link["source"] for link in links]
    return list(dict.fromkeys(f"git checkout {each['commit']} && {each['command']}" for each in sources))


def next_commands(policy, path):
    """The commands that put the advice into effect."""
    name, *parameters = policy.split()
    module = policies.module_name(name)
    keep = [f"echo options {module} {' '.join(parameters)} >> /etc/modprobe.d/satcc.conf"]
    return [*(keep if parameters else []), f"satcc route add PREFIX {name}",
            f"satcc tune --rate {path['rate_mbit']:g}mbit --rtt {path['rtt_ms']:g}ms"]


# ---- text ------------------------------------------------------------------

def place(link):
    """10 Mbit/s, 600 ms"""
    return f"{link['rate_mbit']:g} Mbit/s, {link['rtt_ms']:g} ms"


def place_with_loss(link):
    """10 Mbit/s, 600 ms, no loss"""
    return f"{place(link)}, {format(link['loss_pct'], 'g') + ' %' if link['loss_pct'] else 'no'} loss"


def from_where(source):
    """The line below a table: the command, kernel, emulator, commit and seeds of the figures."""
    return " ".join(filter(None, [f"{source['command']}, Linux {source['kernel']}, "
                                  f"{source['emulator']}, commit {source['commit']}:",
                                  source["seeds"], source["note"]]))


def table(state):
    """The policies, the choice first, then by goodput."""
    rival = state["cost"]["rival"].upper()
    rows = sorted(state["figures"], key=lambda row: (bool(row["against"]), -row["goodput_mbit"]))
    return tables.table(
        ["POLICY", "MBIT/S", "1 MB S", "DROPS", f"{rival} BESIDE", f"{rival} %", "WHY NOT"],
        [[row["policy"], row["goodput_mbit"], row["transfer_s"], row["drops"], row["rival_mbit"],
          row["share_pct"], row["against"]] for row in rows])


def cost_line(each):
    """A line about the effect of the policy on a rival."""
    rival = each["rival"]
    return (f"at {place(each)} a {rival} flow beside it gets {each['rival_mbit']:g} Mbit/s, "
            f"{each['share_pct']} % of its share; the slower of two {rival} flows gets "
            f"{each['rival_beside_rival_mbit']:g} Mbit/s, {each['rival_beside_rival_pct']} %")


def columns_line(near, shared):
    """A line that describes the columns of the table."""
    return (f"MBIT/S at {place_with_loss(near)}; 1 MB S, and DROPS of a larger transfer, on that link "
            f"without loss; {shared['rival'].upper()} at {place(shared)}")


def text(state):
    """The output of choose as text."""
    path, near = state["path"], state["nearest"]
    given = "measured link" if state["is_measured"] else "nearest measured link"
    unsure = " (the path is outside of the measured range)" if state["outside"] else ""
    lines = [("policy", state["policy"] + unsure),
             ("path", f"{place_with_loss(path)}, other traffic: {path['cross']}"),
             *probe_lines(path["probe"]),
             (given, f"{place_with_loss(near)}, queue of {near['queue_bdp']:g} bandwidth-delay product"),
             *(("outside", each) for each in state["outside"]),
             *(("not measured there", each) for each in state["not_measured"]),
             ("cost", cost_line(state["cost"])), *(("caution", each) for each in state["cautions"])]
    after = [("columns", columns_line(near, state["cost"])),
             ("figures", from_where(near["source"])), ("beside", from_where(state["cost"]["source"])),
             *(("repeat, in a clone", each) for each in state["repeat"]),
             *(("next", each) for each in state["next"])]
    shown = [[f"{name}: {each}" for name, each in part] for part in (lines, after)]
    return "\n".join([*shown[0], "", *table(state), "", *shown[1]])


def probe_lines(measured):
    """Lines about how the path was measured, and how far the figures can be trusted."""
    if not measured:
        return []
    began = measured["start"]
    return [("measured by", measured["command"]),
            *([("slow start", f"ended by: {began['end']}; window then: "
                f"{began['window_segments'] or '-'}; sent again of the first 5 RTTs: "
                f"{began['again_segments']} segments")] if began else []),
            ("note", NOTES[measured["way"]].format(**measured))]


# ---- the sub-command -------------------------------------------------------

def measure(host, options):
    """What --probe or --probe-url measures; empty without them.  Raises OperateError."""
    if options.upload and not options.probe_url:
        raise UsageError("--upload needs --probe-url")
    if options.probe:
        return probe.measure(host, options.probe, options.port, options.seconds)
    if options.probe_url:
        from . import transfer          # here, because the HTTP library takes 0.1 s to be loaded
        return transfer.measure(host, options.probe_url, options.seconds, options.upload)
    return {}


def path_of(host, options):
    """The path from the options; a measurement gives the values that they lack.

    Raises OperateError, UsageError.
    """
    measured = measure(host, options)
    if not measured and (options.rate is None or options.rtt is None):
        raise UsageError("choose needs --rate and --rtt, --probe HOST, or --probe-url URL")
    given = {"rate_mbit": options.rate and options.rate / 1e6,
             "rtt_ms": options.rtt and options.rtt * 1e3, "loss_pct": options.loss}
    path = {name: measured.get(name) or 0 if value is None else value for name, value in given.items()}
    return {**path, "cross": options.cross, "probe": measured or None}


def run(host, options):
    """Print the advice.  Returns the exit status."""
    state = advice(path_of(host, options))
    print(json.dumps(state, indent=2) if options.json else text(state))
    return 0
