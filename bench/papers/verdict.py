# SPDX-License-Identifier: GPL-2.0
"""Compare our values with the paper's: a verdict by rule, and a cause from the run's numbers.

No verdict is written by hand, and each can fail.  Three rules ensure this:

- A value is judged by the effect that the paper shows: the difference between a policy and its null, the
  variant without the policy's idea.  A tolerance of 15 % is more than most policies change, so with the
  tolerance alone a policy that does nothing would pass.  A value is reproduced if it is within the
  tolerance; if it is nearer to the paper's figure than half of the effect, so nearer to it than to the
  null's; and if our own effect, against our own null, has the paper's sign and its size within the
  factor `order`.  If the paper's effect is too small to tell from none, the value does not discriminate:
  the null would be reproduced too.
- Noise never improves a verdict.  A value of a random experiment is decided if its interval over seeds
  is no wider than the limit by which it is judged, or if the whole interval is in one class.  Otherwise
  it is undecided.  One run has no interval; it decides only that a value is beyond the factor `order`,
  which is more than any spread seen in such runs.
- A claim is never nearly true.  It holds surely, or holds for the means, or does not hold.

A cause is a sentence with the run's own numbers, from the first of CAUSES that applies.  It describes
the run, and so where to look for the reason.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..measure.statistics import Estimate, estimate, estimate_of, seeds_for
from .experiment import NEVER, Experiment

REPRODUCED, SAME_ORDER, NOT = "reproduced", "same order", "not reproduced"
UNDECIDED, BLIND = "undecided", "does not discriminate"
VERDICTS = (REPRODUCED, SAME_ORDER, NOT, UNDECIDED, BLIND)
HOLDS, UNSURE, FAILS = CLASSES = ("holds", "holds, not surely", "does not hold")
FLOOR_PCT = 1               # of a figure, or points of a gain: a smaller effect counts as none
ZERO_POINTS = 1             # the tolerance around a percentage of 0
MOST_SEEDS = 1000           # a larger number of seeds is not computed
LIMITED = 0.3               # share of the busy time spent waiting for a window or buffer that is a cause
SLIGHT = 0.005              # share of the busy time below which it is not mentioned
SHORT_ROUNDS = 12           # the first windows decide a transfer with fewer round trips


@dataclass(frozen=True)
class Null:
    """The paper's figure of the variant without the idea, and ours (None: not measured)."""

    paper: float
    ours: float | None = None

    @property
    def mine(self) -> float:
        return self.paper if self.ours is None else self.ours


@dataclass(frozen=True)
class Judged:
    """A verdict, and whether it is decided.

    seeds: the number of seeds that would decide it, at the spread seen; None if that is unknown.
    """

    verdict: str
    decided: bool = True
    seeds: int | None = None


# ---- values ----------------------------------------------------------------

def judge_value(experiment: Experiment, values: Sequence[float | None], paper: float | str,
                null: Null | None = None, random: bool = False) -> Judged:
    """The verdict on a value.

    values: one for each seed; None for a run that did not reach the value.
    paper: the paper's value; NEVER if the paper's run did not reach it.
    random: whether another seed can change the value.
    """
    if random and len(values) == 1 and (None in values or paper == NEVER):
        return Judged(UNDECIDED, False)
    if paper == NEVER:
        reached = sum(value is not None for value in values)
        return Judged(REPRODUCED) if not reached else \
            Judged(NOT) if reached == len(values) else Judged(UNDECIDED, False)
    if None in values:
        return Judged(NOT)
    ours = estimate_of(values, experiment.statistic, experiment.confidence_pct)
    verdict = _class(experiment, ours.mean, paper, null)
    if random and len(values) == 1:
        beyond = not _within_order(experiment, ours.mean, paper)
        return Judged(NOT) if beyond else Judged(UNDECIDED, False)
    if ours.half is not None:
        near = nearness(experiment, paper, null)
        ends = {_class(experiment, end, paper, null) for end in (ours.low, ours.high)}
        if ours.half > near and (ends != {verdict} or ours.low <= paper <= ours.high):
            return Judged(UNDECIDED, False,
                          seeds_for(values, experiment.confidence_pct, near, most=MOST_SEEDS))
    blind = verdict == REPRODUCED and null is not None \
        and judge_null(experiment, paper, null) == REPRODUCED
    return Judged(BLIND if blind else verdict)


def judge_null(experiment: Experiment, paper: float, null: Null) -> str:
    """The verdict on a policy that does nothing: the same rule, with the paper's null as our value.

    If the paper's value and null do not differ, the null is reproduced.
    """
    if not _discriminates(experiment, paper, null):
        return REPRODUCED
    return _class(experiment, null.paper, paper, Null(null.paper))


def nearness(experiment: Experiment, paper: float, null: Null | None) -> float:
    """The largest difference from the paper's value at which ours is reproduced."""
    tolerance, halves = _limits(experiment, paper, null)
    return min([tolerance, *halves])


def _limits(experiment: Experiment, paper: float, null: Null | None) -> tuple[float, list[float]]:
    """(the tolerance, the limits that the difference must be below).

    Half of a percentage is a limit, or a value of twice or half its size would pass.  Half of the effect
    is one, or the null's figure would pass.
    """
    halves = []
    if experiment.in_points:
        tolerance = experiment.tolerance_points if paper else ZERO_POINTS
        halves += [abs(paper) / 2] if paper else []
    else:
        tolerance = abs(paper) * experiment.tolerance_pct / 100
    if null and _discriminates(experiment, paper, null):
        halves.append(abs(paper - null.paper) / 2)
    return tolerance, halves


def _floor(experiment: Experiment, paper: float) -> float:
    return FLOOR_PCT if experiment.in_points else abs(paper) * FLOOR_PCT / 100


def _discriminates(experiment: Experiment, paper: float, null: Null) -> bool:
    """Whether the paper shows a difference between the policy and its null."""
    return abs(paper - null.paper) > _floor(experiment, paper)


def _class(experiment: Experiment, value: float, paper: float, null: Null | None) -> str:
    """The verdict on one number without an interval."""
    if not _within_order(experiment, value, paper):
        return NOT
    if null and _discriminates(experiment, paper, null) and not within_factor(
            value - null.mine, paper - null.paper, experiment.order):
        return NOT
    away = abs(value - paper)
    tolerance, halves = _limits(experiment, paper, null)
    return REPRODUCED if away <= tolerance and all(away < half for half in halves) else SAME_ORDER


def _within_order(experiment: Experiment, value: float, paper: float) -> bool:
    if experiment.in_points:
        return abs(value - paper) <= experiment.order_points and (not paper or value * paper > 0)
    return within_factor(value, paper, experiment.order)


def within_factor(value: float, other: float, factor: float) -> bool:
    if not value or not other or (value < 0) != (other < 0):
        return value == other
    return 1 / factor <= value / other <= factor


# ---- claims ----------------------------------------------------------------

def holds(relation: str, left: float, right: float, factor: float) -> bool:
    if relation == "within":
        return abs(left - right) <= factor * abs(right)
    return left < factor * right if relation == "less" else left > factor * right


def judge_pair(experiment: Experiment, relation: str, left: Estimate, other: Estimate,
               factor: float, seeds: Sequence[tuple[float, float]] = (),
               random: bool = False) -> Judged:
    """The verdict on a claim for one pair.

    seeds: both sides' values for each seed; infinite for a run that did not reach the value.
    random: whether another seed can change a side.
    The interval of the paired difference counts: it is the narrower one, since a seed affects both sides
    alike.  With chance, one seed is never sure, nor is a maximum over seeds, which has no interval.
    """
    true = holds(relation, left.mean, other.mean, factor)
    if random and (len(seeds) < 2 or experiment.statistic == "max"):
        return Judged(UNSURE if true else FAILS, False)
    if true:
        if _sure(experiment, relation, left, other, factor, seeds):
            return Judged(HOLDS)
        return Judged(UNSURE, False, _seeds(experiment, relation, other, factor, seeds))
    decided = not random or _surely_not(experiment, relation, other, factor, seeds)
    return Judged(FAILS, decided, _seeds(experiment, relation, other, factor, seeds))


def _finite(seeds: Sequence[tuple[float, float]]) -> bool:
    return all(math.isfinite(value) for pair in seeds for value in pair)


def _sure(experiment: Experiment, relation: str, left: Estimate, other: Estimate, factor: float,
          seeds: Sequence[tuple[float, float]]) -> bool:
    """Whether the seeds confirm a claim that holds for the means."""
    if not _finite(seeds):
        return all(holds(relation, *pair, factor) for pair in seeds)
    if relation == "within":
        room = factor * abs(other.mean)
        apart = _apart(seeds, 1, experiment)
        return apart is None or (-room <= apart.low and apart.high <= room)
    if apart := _apart(seeds, factor, experiment):
        return apart.high < 0 if relation == "less" else apart.low > 0
    ends = (left.high, other.low) if relation == "less" else (left.low, other.high)
    return holds(relation, *ends, factor)


def _surely_not(experiment: Experiment, relation: str, other: Estimate, factor: float,
                seeds: Sequence[tuple[float, float]]) -> bool:
    """Whether the seeds confirm that a claim does not hold."""
    if not _finite(seeds):
        return not any(holds(relation, *pair, factor) for pair in seeds)
    apart = _apart(seeds, 1 if relation == "within" else factor, experiment)
    if apart is None:
        return False
    if relation == "within":
        room = factor * abs(other.mean)
        return apart.low > room or apart.high < -room
    return apart.low > 0 if relation == "less" else apart.high < 0


def _seeds(experiment: Experiment, relation: str, other: Estimate, factor: float,
           seeds: Sequence[tuple[float, float]]) -> int | None:
    """The number of seeds with which the difference's interval would be on one side of its bound."""
    if len(seeds) < 2 or not _finite(seeds):
        return None
    apart = [left - (1 if relation == "within" else factor) * right for left, right in seeds]
    mean = sum(apart) / len(apart)
    room = abs(factor * abs(other.mean) - abs(mean)) if relation == "within" else abs(mean)
    return seeds_for(apart, experiment.confidence_pct, room, most=MOST_SEEDS)


def _apart(seeds: Sequence[tuple[float, float]], factor: float,
           experiment: Experiment) -> Estimate | None:
    """The estimate of left - factor x right over the seeds; None for fewer than two seeds."""
    if len(seeds) < 2:
        return None
    return estimate([left - factor * right for left, right in seeds], experiment.confidence_pct)


def judge_claim(pairs: Sequence[str], some: bool = False) -> str:
    """The class of a claim on several pairs.  some: the claim is that at least one pair holds."""
    return (min if some else max)(pairs, key=CLASSES.index)


# ---- causes ----------------------------------------------------------------

@dataclass(frozen=True)
class Case:
    """A value that differs from the paper's, and the run that measured it."""

    paper: float
    ours: float | None
    better: str
    unit: str
    facts: dict                     # facts.of_run()
    flow: int = 0                   # the flow that was measured

    @property
    def worse(self) -> bool:
        """Whether our value is worse than the paper's."""
        return self.ours is None or (self.ours > self.paper) == (self.better == "less")

    @property
    def flow_facts(self) -> dict:
        """Facts of the flow that was measured."""
        return self.facts["flows"][self.flow]

    def has(self, *names: str) -> bool:
        return all(self.flow_facts.get(name) is not None for name in names)


def percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def receiver_window(case: Case) -> str | None:
    flow = case.flow_facts
    if case.worse and case.has("rwnd_limited", "peer_window") and flow["rwnd_limited"] > LIMITED:
        return (f"For {percent(flow['rwnd_limited'])} of its time the flow had filled the receiver's "
                f"window, {flow['peer_window'] / 1e3:.1f} kB at most; a round trip is "
                f"{flow['rtt_s'] * 1e3:.0f} ms.")
    return None


def send_buffer(case: Case) -> str | None:
    flow = case.flow_facts
    if case.worse and case.has("sndbuf_limited") and flow["sndbuf_limited"] > LIMITED:
        return (f"For {percent(flow['sndbuf_limited'])} of its time the sender's socket buffer was full "
                "of data not acknowledged: the buffer was the window.")
    return None


def overflow(case: Case) -> str | None:
    flow, facts = case.flow_facts, case.facts
    if not (case.worse and facts["queue_drops"] and case.has("first_loss_s", "first_loss_flight")):
        return None
    text = (f"The queue of {facts['queue_packets']} packets dropped {facts['queue_drops']}: the first "
            f"retransmission was at {flow['first_loss_s']:.2f} s with {flow['first_loss_flight']} "
            f"segments in flight, where rate × RTT holds {flow['bdp_packets']}")
    if case.has("recovery"):
        text += f"; {percent(flow['recovery'])} of the time went by in recovery"
    if flow.get("timeouts"):
        text += f", with {count(flow['timeouts'], 'timeout')}"
    return text + "."


def early_avoidance(case: Case) -> str | None:
    """No packet was lost, and slow start ended at less than half of the largest window."""
    flow = case.flow_facts
    if not (case.worse and case.has("avoidance_s", "avoidance_cwnd", "max_cwnd", "max_cwnd_s",
                                    "retransmits")) \
            or flow["retransmits"] or flow["avoidance_cwnd"] > flow["max_cwnd"] / 2:
        return None
    return (f"Nothing was sent again, but slow start was over {flow['avoidance_s']:.2f} s after the "
            f"first ACK, with a window of {flow['avoidance_cwnd']} segments; congestion avoidance took "
            f"{flow['max_cwnd_s'] - flow['avoidance_s']:.0f} s to make {flow['max_cwnd']} of it, over a "
            f"smoothed RTT of up to {flow['max_srtt_s']:.2f} s.")


def timeouts(case: Case) -> str | None:
    flow = case.flow_facts
    if case.worse and case.has("timeouts", "retransmits") and flow["timeouts"]:
        return (f"The window was down at one segment {count(flow['timeouts'], 'time')} "
                f"(a retransmission timeout each); {flow['retransmits']} of {flow['segments']} segments "
                "were sent again.")
    return None


def link_loss(case: Case) -> str | None:
    flow, facts = case.flow_facts, case.facts
    if not (facts["link_losses"] and case.has("segments", "retransmits", "recovery")):
        return None
    first = ""
    if case.has("first_loss_s", "first_loss_flight"):
        first = (f", the first noticed at {flow['first_loss_s']:.2f} s with {flow['first_loss_flight']} "
                 "in flight")
    timeouts = {None: "", 0: ", without a timeout"}.get(
        flow.get("timeouts"), f", with {count(flow.get('timeouts') or 0, 'timeout')}")
    return (f"{flow['segments']} segments were sent, {flow['retransmits']} of them again; the links "
            f"lost {count(facts['link_losses'], 'packet')}, of all flows and both ways{first}; "
            f"{percent(flow['recovery'])} of the time went by in recovery{timeouts}.")


def first_windows(case: Case) -> str | None:
    flow = case.flow_facts
    if not case.has("rounds", "busy_s") or flow.get("retransmits") or case.unit != "s":
        return None
    if flow["busy_s"] > SHORT_ROUNDS * flow["rtt_s"]:
        return None
    shown = ", ".join(str(number) for number in flow["rounds"])
    return (f"Nothing was lost: the transfer went in {count(len(flow['rounds']), 'flight')} of {shown} "
            f"segments, a round trip of {flow['rtt_s'] * 1e3:.0f} ms each; the paper's time is "
            f"{case.paper / flow['rtt_s']:.1f} round trips, ours {case.ours / flow['rtt_s']:.1f}.")


def smooth(case: Case) -> str | None:
    flow = case.flow_facts
    if case.worse or not case.has("retransmits", "max_cwnd", "bytes_acked") or not flow["busy_s"]:
        return None
    rate = flow["bytes_acked"] * 8 / flow["busy_s"] / 1e6
    trouble = "nothing was sent again" if not flow["retransmits"] else \
        f"{count(flow['retransmits'], 'segment')} of {flow['segments']} had to be sent again"
    return (f"Ours is the better one: {trouble}, {count(flow.get('timeouts', 0), 'timeout')}, a window "
            f"of up to {flow['max_cwnd']} segments, {rate:.2f} Mbit/s on average.")


def numbers(case: Case) -> str:
    """The cause that applies to every run."""
    if case.flow_facts.get("segments") == 1:
        return "Nothing was transferred that could show why."
    return f"{described(case.facts, case.flow)}."


def described(facts: dict, flow: int) -> str:
    """A short description of a run, with the numbers of one of its flows."""
    flow_facts = facts["flows"][flow]
    parts = []
    if "segments" in flow_facts:
        parts.append(f"{flow_facts['segments']} segments sent, "
                     f"{flow_facts['retransmits']} of them again")
    parts += [f"{facts['queue_drops']} dropped by queues", f"{facts['link_losses']} lost on links"]
    if flow_facts.get("retransmits") and "first_loss_s" in flow_facts:
        parts.append(f"first sent again at {flow_facts['first_loss_s']:.2f} s with "
                     f"{flow_facts['first_loss_flight']} in flight")
    if "max_cwnd" in flow_facts:
        parts.append(f"a window of up to {flow_facts['max_cwnd']} segments, a smoothed RTT of up to "
                     f"{flow_facts['max_srtt_s']:.2f} s, {count(flow_facts['timeouts'], 'timeout')}")
    parts += [f"limited by the {what} for {percent(flow_facts[name])} of the time"
              for name, what in (("rwnd_limited", "receiver's window"),
                                 ("sndbuf_limited", "send buffer"))
              if flow_facts.get(name, 0) >= SLIGHT]
    leg = " (its connection to the proxy)" if flow_facts.get("proxied") else ""
    return f"{flow_facts['cc']}{leg}: " + ", ".join(parts)


# Most specific first.
CAUSES = (receiver_window, send_buffer, overflow, early_avoidance, link_loss, timeouts, first_windows,
          smooth, numbers)


def cause(case: Case) -> str:
    """The cause as a sentence."""
    # The sender's facts of a split connection end at the proxy; the value does not.
    rules = (numbers,) if case.flow_facts.get("proxied") else CAUSES
    text = next(text for rule in rules if (text := rule(case)))
    return text if case.ours is not None else f"The run did not reach the value. {text}"


def explain_gain(parts: list[tuple[str, str, float | None, float | None]]) -> str:
    """Why a gain differs: how the two values from which it is computed compare with the paper's.

    parts: (description, run, our value, the paper's value); ours is None if a run did not reach it.
    """
    def compared(ours: float | None, paper: float | None) -> str:
        if ours is None:
            return "did not reach the value in one run"
        return f"is {ours / paper:.2f} times the paper's {paper:g}" if paper \
            else f"is {ours:.3g}, and the paper does not say its own"
    return "Computed: " + "; ".join(
        f"{what} {compared(ours, paper)} {run}" for what, run, ours, paper in parts) + "."
