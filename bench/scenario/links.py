# SPDX-License-Identifier: GPL-2.0
"""Write a hundred random links to the data file bench/scenarios/satcc/links.toml.

The links come from a fixed seed, so the file is the same each time.  It is in the repository so that the
experiment is data like the others.  Rates, RTTs and queues are uniform in their logarithm.
"""

import argparse
import math
import random

from ..paths import TOP

PATH = TOP / "bench/scenarios/satcc/links.toml"
LINKS = 100
SEED = 1
RATE_MBIT = (0.5, 100)
RTT_MS = (5, 800)
QUEUE_BDP = (0.05, 8)
LOSS_PCT = (0.01, 5)
REORDER_PCT = (0.1, 2)
JITTER_MS = (1, 30)
JITTER_EVERY_S = 0.5
MANY_PACKETS = 100_000          # a flow with more packets lasts 30 s instead of 60 s
FRAME_BITS = 1514 * 8

HEAD = '''\
# Written by `python3 -m bench links`.
title = "Goodput on random links"
source = "goals, random links"
what = "Is there a link on which satcc stalls or has less than half of what cubic gets?"
metric = "goodput_mbit"
unit = "Mbit/s"
better = "more"
random = true
seeds = 5
seeds_most = 5
link = "random"
rfc5166 = ["throughput", "robustness for challenging environments"]
rfc9743 = ["wireless paths", "paths with varying delay", "sudden changes in the path"]

[scenario]
trace = []
captures = ["sender"]

[[scenario.hop]]
name = "gateway"
forward = { rate_mbit = 10, queue_packets = 100 }

[[scenario.hop]]
name = "satellite"
forward = { delay_ms = 300 }
reverse = { delay_ms = 300 }

[[scenario.flow]]
cc = "satcc"
seconds = 60

[[axis]]
name = "TCP"
values = [
    { label = "satcc" },
    { label = "cubic", set = { "flow.0.cc" = "cubic" } },
]

[table]
rows = ["link"]
columns = ["TCP"]

[[claim]]
text = "Never below half of cubic's goodput"
left = { TCP = "satcc" }
right = { TCP = "cubic" }
is = "more"
factor = 0.5

[[axis]]
name = "link"
'''


def log_uniform(draw: random.Random, low: float, high: float) -> float:
    """A random value with a uniform logarithm, rounded to three digits."""
    value = math.exp(draw.uniform(math.log(low), math.log(high)))
    return round(value, 2 - math.floor(math.log10(value)))


def in_between(seconds: float, hop: str, stage: dict, **other) -> list[dict]:
    """Two changes of a hop's forward stage: to other values in the middle third of the run, and back."""
    return [{"at_s": seconds / 3, "hop": hop, "forward": {**stage, **other}},
            {"at_s": seconds * 2 / 3, "hop": hop, "forward": stage}]


def link(number: int) -> str:
    """One link as a value of the axis, in TOML."""
    draw = random.Random(SEED * 1000 + number)
    rate, rtt, queue = (log_uniform(draw, *bounds) for bounds in (RATE_MBIT, RTT_MS, QUEUE_BDP))
    label = [f"{number}: {rate:g} Mbit/s", f"{rtt:g} ms", f"{queue:g} BDP"]
    packets = max(2, round(queue * rate * 1e3 * rtt / FRAME_BITS))
    seconds = 30 if rate * 1e6 * 60 / FRAME_BITS > MANY_PACKETS else 60
    line, half = {"delay_ms": rtt / 2}, rtt / 2
    if draw.random() < 0.6:
        line["loss_pct"] = log_uniform(draw, *LOSS_PCT)
        label.append(f"{line['loss_pct']:g} % loss")
    if draw.random() < 0.2:
        line["reorder_pct"] = log_uniform(draw, *REORDER_PCT)
        label.append(f"{line['reorder_pct']:g} % overtake")
    forward = {"rate_mbit": rate, "queue_packets": packets}
    settings = {"flow.0.seconds": seconds, "hop.gateway.forward": forward, "hop.satellite.forward": line,
                "hop.satellite.reverse": {"delay_ms": half}}
    if draw.random() < 0.2:
        jitter = log_uniform(draw, *JITTER_MS)
        steps = range(round(seconds / JITTER_EVERY_S))
        settings["hop.satellite.reverse"] = {"delay_series": [
            [step * JITTER_EVERY_S, round(half + draw.uniform(0, jitter), 1)] for step in steps]}
        label.append(f"{jitter:g} ms of jitter")
    changes = []
    if draw.random() < 0.2:
        factor = log_uniform(draw, 0.2, 1)
        label.append(f"{rate * factor:.3g} Mbit/s in between")
        changes += in_between(seconds, "gateway", forward, rate_mbit=round(rate * factor, 4))
    if draw.random() < 0.2:
        longer = log_uniform(draw, 1.1, 2)
        label.append(f"{half * (1 + longer):.3g} ms in between")
        changes += in_between(seconds, "satellite", line, delay_ms=round(half * longer, 3))
    if changes:
        settings["change"] = sorted(changes, key=lambda change: change["at_s"])
    return f"\n[[axis.values]]\nlabel = {toml(', '.join(label))}\nset = {toml(settings)}\n"


def toml(value) -> str:
    """A value as TOML, in one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key if key.isidentifier() else toml(key)} = {toml(entry)}"
                                for key, entry in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) \
        else str(value)


def text() -> str:
    """The whole data file."""
    return HEAD + "".join(link(number) for number in range(1, LINKS + 1))


def main(words: list[str]) -> int:
    """Write the data file."""
    argparse.ArgumentParser(prog="python3 -m bench links", description=__doc__.splitlines()[0]
                            ).parse_args(words)
    PATH.write_text(text())
    return 0
