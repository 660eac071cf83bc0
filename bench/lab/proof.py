# SPDX-License-Identifier: GPL-2.0
"""Proof of a run's set-up: what tc and ethtool said of the links, compared with the scenario."""

from ..errors import LabError
from ..scenario.scenario import Scenario
from . import job

OFFLOADS = ("tcp-segmentation", "generic-segmentation", "generic-receive")


def check(scenario: Scenario, files: dict[str, bytes]) -> None:
    """Raises LabError if a queueing discipline or an offload is not what the scenario asks for.

    files: what the run left, by name.
    """
    for hop in scenario.hops:
        name = job.qdisc_file(scenario, hop)
        for dev, qdiscs in job.wanted_qdiscs(scenario, hop):
            _check_qdiscs(f"{hop.name} {dev}", _of_device(_text(files, name), dev), qdiscs)
    for node, dev in job.without_offloads(scenario):
        text = _text(files, job.offloads_file(node, dev))
        for offload in OFFLOADS:
            _expect(f"{node} {dev}", text, f"{offload}-offload: off")


def _text(files: dict[str, bytes], name: str) -> str:
    """Raises LabError."""
    if name not in files:
        raise LabError(f"the run left no {name}")
    return files[name].decode()


def _of_device(text: str, dev: str) -> list[str]:
    """tc's JSON of each queueing discipline of a device."""
    lines = text.replace(',{"kind"', '\n{"kind"').splitlines()
    return [line for line in lines if f'"dev":"{dev}"' in line]


def _check_qdiscs(place: str, present: list[str], wanted: list[list]) -> None:
    """present: the JSON of each. wanted: of each the texts that it has, the first of which names it."""
    for kind, *texts in wanted:
        described = next((line for line in present if kind in line), None)
        if described is None:
            raise LabError(f"set-up is not what was asked: {place} has no {kind}")
        for text in texts:
            _expect(place, described, text)


def _expect(place: str, text: str, wanted: str | tuple[str, ...]) -> None:
    """wanted: a text, or several of which one is enough."""
    alternatives = (wanted,) if isinstance(wanted, str) else wanted
    if not any(each in text for each in alternatives):
        raise LabError(f"set-up is not what was asked: {place} lacks {alternatives[0]}")
