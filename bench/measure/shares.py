# SPDX-License-Identifier: GPL-2.0
"""Rates of one host's flows compared with another's, and drops and silences of a flow.

A share is the rate of a flow's acknowledged packets between the first and the last of a run's samples;
see fairness.share_kbit().
"""

import numpy as np

from ..errors import LabError
from ..record.run import Run
from . import fairness, flow_view


def _rates(run: Run, source: str) -> list[float]:
    """The share of each flow of a host, kbit/s.  Raises LabError if the host has no flow."""
    rates = [fairness.share_kbit(run, number) for number, flow in enumerate(run.scenario.flows)
             if flow.source == source]
    return rates or _no_flow(source)


def _no_flow(source: str):
    raise LabError(f"no flow comes from the host {source!r}")


def source_kbit(run: Run, source: str = "sender") -> float:
    """The sum of the shares of a host's flows, kbit/s."""
    return sum(_rates(run, source))


def over_equal_share(run: Run, source: str = "sender") -> float:
    """The mean share of a host's flows divided by that of all flows; 1 is an equal share."""
    everyone = [fairness.share_kbit(run, number) for number in range(len(run.scenario.flows))]
    if not sum(everyone):
        raise LabError("no flow made progress between the samples")
    return float(np.mean(_rates(run, source)) / np.mean(everyone))


def share_ratio(run: Run, source: str = "sender", other: str = "sender") -> float | None:
    """The mean share of one host's flows divided by that of the other host's; None if that is 0."""
    rate = np.mean(_rates(run, other))
    return float(np.mean(_rates(run, source)) / rate) if rate else None


def queue_drops(run: Run) -> int:
    """Packets that the bottleneck's queue dropped."""
    return flow_view.queue_drops(run)


def longest_silence_s(run: Run, flow: int = 0) -> float:
    """The longest time between two segments with payload that leave the sender, s.

    For a flow with `seconds`, the time from its last segment to its end counts too.
    """
    view = flow_view.FlowView(run, flow)
    end = run.scenario.flows[flow].seconds
    return float(np.diff(np.append(view.segment_s, [end] if end else [])).max())


METRICS = (source_kbit, over_equal_share, share_ratio, queue_drops, longest_silence_s)
