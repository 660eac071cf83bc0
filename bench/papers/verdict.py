# SPDX-License-Identifier: GPL-2.0
"""Our values beside the paper's: a verdict by rule, and a cause by what the run shows.

No verdict is written by hand.  A cause is a sentence with the run's own numbers, from the first of
CAUSES that has one to say; it says what was seen in the run, which is where to look for the reason.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .experiment import NEVER, Experiment
from .statistics import Estimate, estimate

REPRODUCED, SAME_ORDER, NOT = VERDICTS = ("reproduced", "same order", "not reproduced")
WIDE = 2                    # an interval of more tolerances than this to a side decides nothing
LIMITED = 0.3               # of the busy time spent waiting for a window or a buffer: that was it
HAIR_PCT = 1                # of what one seed tells apart
SLIGHT = 0.005              # and less than that is nothing
SHORT_ROUNDS = 12           # a transfer of fewer round trips is made by its first windows


def of_value(experiment: Experiment, ours: Estimate | None, paper: float | str) -> str:
    """None: the run never came to what is measured, as it never did in the paper if that is NEVER."""
    if ours is None or paper == NEVER:
        return REPRODUCED if ours is None and paper == NEVER else NOT
    if experiment.in_points:
        # Small gains are not theirs for being near nothing.
        near = min(experiment.tolerance_points, max(1.0, abs(paper) / 2))
        far = experiment.order_points
    else:
        near, far = abs(paper) * experiment.tolerance_pct / 100, None
    if abs(ours.mean - paper) <= near:
        return REPRODUCED

    def same(value: float) -> bool:
        if far is not None:
            return abs(value - paper) <= far
        return within_factor(value, paper, experiment.order)

    # A wide interval has every value in it and says nothing.
    if ours.half is not None and ours.half <= WIDE * near and ours.low <= paper <= ours.high:
        return REPRODUCED
    return SAME_ORDER if same(ours.mean) else NOT


def within_factor(value: float, other: float, factor: float) -> bool:
    if not value or not other or (value < 0) != (other < 0):
        return value == other
    return 1 / factor <= value / other <= factor


def holds(relation: str, left: float, right: float, factor: float) -> bool:
    if relation == "within":
        return abs(left - right) <= factor * abs(right)
    return left < factor * right if relation == "less" else left > factor * right


def of_pair(experiment: Experiment, relation: str, mine: Estimate, other: Estimate,
            factor: float, seeds: Sequence[tuple[float, float]] = ()) -> str:
    """A claim on one pair.  Where it holds for the means, but not surely, or where it does not but the
    two are as near as `reproduced` allows of a value, the order is the same.

    seeds: both sides' values, seed by seed; infinite where a run never came to one.  A seed does the
    same to both sides as far as it can, so the interval of their difference is the narrower one, and
    the one that counts.  Of one seed, where there is chance, a hair's breadth counts for nothing.
    """
    left, right = mine.mean, other.mean
    if holds(relation, left, right, factor):
        return REPRODUCED if _sure(experiment, relation, mine, other, factor, seeds) else SAME_ORDER
    if not math.isfinite(left) or not math.isfinite(right):
        return NOT
    bound = right if relation == "within" else factor * right
    near = experiment.tolerance_points if experiment.in_points else \
        abs(bound) * experiment.tolerance_pct / 100
    # Nothing is near 0.
    return SAME_ORDER if near and abs(left - bound) <= near else NOT


def _sure(experiment: Experiment, relation: str, mine: Estimate, other: Estimate, factor: float,
          seeds: Sequence[tuple[float, float]]) -> bool:
    """Of a claim that holds for the means: the seeds bear it out."""
    if any(not math.isfinite(value) for pair in seeds for value in pair):
        return all(holds(relation, *pair, factor) for pair in seeds)
    if relation == "within":
        room = factor * abs(other.mean)
        apart = _apart(seeds, 1, experiment)
        return apart is None or (-room <= apart.low and apart.high <= room)
    if apart := _apart(seeds, factor, experiment):
        return apart.high < 0 if relation == "less" else apart.low > 0
    by_chance = experiment.random and mine.half is None
    if by_chance and math.isclose(mine.mean, factor * other.mean, rel_tol=HAIR_PCT / 100):
        return False
    ends = (mine.high, other.low) if relation == "less" else (mine.low, other.high)
    return holds(relation, *ends, factor)


def _apart(seeds: Sequence[tuple[float, float]], factor: float,
           experiment: Experiment) -> Estimate | None:
    """left - factor x right over the seeds; None of fewer than two."""
    if len(seeds) < 2:
        return None
    return estimate([left - factor * right for left, right in seeds], experiment.confidence_pct)


def worst(verdicts: list[str]) -> str:
    return max(verdicts, key=VERDICTS.index)


# ---- causes ----------------------------------------------------------------

@dataclass(frozen=True)
class Case:
    """A value that is not the paper's, and the run behind it."""

    paper: float
    ours: float | None
    better: str
    unit: str
    facts: dict                     # facts.of_run()
    flow: int = 0                   # the flow that was measured

    @property
    def worse(self) -> bool:
        """Ours is: slower, less."""
        return self.ours is None or (self.ours > self.paper) == (self.better == "less")

    @property
    def its(self) -> dict:
        """Facts of the flow that was measured."""
        return self.facts["flows"][self.flow]

    def has(self, *names: str) -> bool:
        return all(self.its.get(name) is not None for name in names)


def percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def receiver_window(case: Case) -> str | None:
    its = case.its
    if case.worse and case.has("rwnd_limited", "peer_window") and its["rwnd_limited"] > LIMITED:
        return (f"For {percent(its['rwnd_limited'])} of its time the flow had filled the receiver's "
                f"window, {its['peer_window'] / 1e3:.1f} kB at most; a round trip is "
                f"{its['rtt_s'] * 1e3:.0f} ms.")
    return None


def send_buffer(case: Case) -> str | None:
    its = case.its
    if case.worse and case.has("sndbuf_limited") and its["sndbuf_limited"] > LIMITED:
        return (f"For {percent(its['sndbuf_limited'])} of its time the sender's socket buffer was full "
                "of data not acknowledged: the buffer was the window.")
    return None


def overflow(case: Case) -> str | None:
    its, facts = case.its, case.facts
    if not (case.worse and facts["queue_drops"] and case.has("first_loss_s", "first_loss_flight")):
        return None
    text = (f"The queue of {facts['queue_packets']} packets dropped {facts['queue_drops']}: the first "
            f"retransmission was at {its['first_loss_s']:.2f} s with {its['first_loss_flight']} "
            f"segments in flight, where rate × RTT holds {its['bdp_packets']}")
    if case.has("recovery"):
        text += f"; {percent(its['recovery'])} of the time went by in recovery"
    if its.get("timeouts"):
        text += f", with {count(its['timeouts'], 'timeout')}"
    return text + "."


def early_avoidance(case: Case) -> str | None:
    """Nothing was lost, and the window was short of what it came to when slow start was over."""
    its = case.its
    if not (case.worse and case.has("avoidance_s", "avoidance_cwnd", "max_cwnd", "max_cwnd_s",
                                    "retransmits")) \
            or its["retransmits"] or its["avoidance_cwnd"] > its["max_cwnd"] / 2:
        return None
    return (f"Nothing was sent again, but slow start was over {its['avoidance_s']:.2f} s after the "
            f"first ACK, with a window of {its['avoidance_cwnd']} segments; congestion avoidance took "
            f"{its['max_cwnd_s'] - its['avoidance_s']:.0f} s to make {its['max_cwnd']} of it, over a "
            f"smoothed RTT of up to {its['max_srtt_s']:.2f} s.")


def timeouts(case: Case) -> str | None:
    its = case.its
    if case.worse and case.has("timeouts", "retransmits") and its["timeouts"]:
        return (f"The window was down at one segment {count(its['timeouts'], 'time')} "
                f"(a retransmission timeout each); {its['retransmits']} of {its['segments']} segments "
                "were sent again.")
    return None


def link_loss(case: Case) -> str | None:
    its, facts = case.its, case.facts
    if not (facts["link_losses"] and case.has("segments", "retransmits", "recovery")):
        return None
    first = ""
    if case.has("first_loss_s", "first_loss_flight"):
        first = (f", the first noticed at {its['first_loss_s']:.2f} s with {its['first_loss_flight']} "
                 "in flight")
    timeouts = {None: "", 0: ", without a timeout"}.get(
        its.get("timeouts"), f", with {count(its.get('timeouts') or 0, 'timeout')}")
    return (f"{its['segments']} segments were sent, {its['retransmits']} of them again; the links lost "
            f"{count(facts['link_losses'], 'packet')}, of all flows and both ways{first}; "
            f"{percent(its['recovery'])} of the time went by in recovery{timeouts}.")


def first_windows(case: Case) -> str | None:
    its = case.its
    if not case.has("rounds", "busy_s") or its.get("retransmits") or case.unit != "s":
        return None
    if its["busy_s"] > SHORT_ROUNDS * its["rtt_s"]:
        return None
    shown = ", ".join(str(number) for number in its["rounds"])
    return (f"Nothing was lost: the transfer went in {count(len(its['rounds']), 'flight')} of {shown} "
            f"segments, a round trip of {its['rtt_s'] * 1e3:.0f} ms each; the paper's time is "
            f"{case.paper / its['rtt_s']:.1f} round trips, ours {case.ours / its['rtt_s']:.1f}.")


def smooth(case: Case) -> str | None:
    its = case.its
    if case.worse or not case.has("retransmits", "max_cwnd", "bytes_acked") or not its["busy_s"]:
        return None
    rate = its["bytes_acked"] * 8 / its["busy_s"] / 1e6
    trouble = "nothing was sent again" if not its["retransmits"] else \
        f"{count(its['retransmits'], 'segment')} of {its['segments']} had to be sent again"
    return (f"Ours is the better one: {trouble}, {count(its.get('timeouts', 0), 'timeout')}, a window "
            f"of up to {its['max_cwnd']} segments, {rate:.2f} Mbit/s on average.")


def numbers(case: Case) -> str:
    """What can always be said."""
    if case.its.get("segments") == 1:
        return "Nothing was transferred that could show why."
    return f"{described(case.facts, case.flow)}."


def described(facts: dict, flow: int) -> str:
    """A run in short, of one of its flows."""
    its = facts["flows"][flow]
    said = []
    if "segments" in its:
        said.append(f"{its['segments']} segments sent, {its['retransmits']} of them again")
    said += [f"{facts['queue_drops']} dropped by queues", f"{facts['link_losses']} lost on links"]
    if its.get("retransmits") and "first_loss_s" in its:
        said.append(f"first sent again at {its['first_loss_s']:.2f} s with {its['first_loss_flight']} "
                    "in flight")
    if "max_cwnd" in its:
        said.append(f"a window of up to {its['max_cwnd']} segments, a smoothed RTT of up to "
                    f"{its['max_srtt_s']:.2f} s, {count(its['timeouts'], 'timeout')}")
    said += [f"limited by the {what} for {percent(its[name])} of the time"
             for name, what in (("rwnd_limited", "receiver's window"), ("sndbuf_limited", "send buffer"))
             if its.get(name, 0) >= SLIGHT]
    leg = " (its connection to the proxy)" if its.get("proxied") else ""
    return f"{its['cc']}{leg}: " + ", ".join(said)


# Most specific first.
CAUSES = (receiver_window, send_buffer, overflow, early_avoidance, link_loss, timeouts, first_windows,
          smooth, numbers)


def cause(case: Case) -> str:
    # What is known of a split connection's sender ends at the proxy; the value does not.
    rules = (numbers,) if case.its.get("proxied") else CAUSES
    text = next(text for rule in rules if (text := rule(case)))
    return text if case.ours is not None else f"It never came to that. {text}"


def of_gain(parts: list[tuple[str, str, float | None, float | None]]) -> str:
    """Why a gain is another: how the two values it is computed from compare with the paper's.
    parts: (what, which run, ours, the paper's); ours is None where a run never came to one."""
    def compared(ours: float | None, paper: float | None) -> str:
        if ours is None:
            return "never came to it in one run"
        return f"is {ours / paper:.2f} times the paper's {paper:g}" if paper \
            else f"is {ours:.3g}, and the paper does not say its own"
    return "Computed: " + "; ".join(
        f"{what} {compared(ours, paper)} {run}" for what, run, ours, paper in parts) + "."
