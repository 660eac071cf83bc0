# SPDX-License-Identifier: GPL-2.0
"""Compare the reports of tc and ethtool on a run's links with the scenario."""

from ..errors import LabError
from ..scenario.scenario import Scenario
from . import job

OFFLOADS = ("tcp-segmentation", "generic-segmentation", "generic-receive")


def check(scenario: Scenario, files: dict[str, bytes]) -> None:
    """Raises LabError if a queueing discipline or an offload is not what the scenario asks for.

    files: the run's files, by name.
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
    """tc's JSON of each qdisc of a device; text is that of all devices."""
    lines = text.replace(',{"kind"', '\n{"kind"').splitlines()
    return [line for line in lines if f'"dev":"{dev}"' in line]


def _check_qdiscs(place: str, present: list[str], wanted: list[list]) -> None:
    """Raises LabError if a wanted qdisc or one of its texts is missing.

    present: the JSON of each qdisc.
    wanted: a list of texts for each qdisc; the first text names it.
    """
    for kind, *texts in wanted:
        described = next((line for line in present if kind in line), None)
        if described is None:
            raise LabError(f"the set-up differs from the scenario: {place} has no {kind}")
        for text in texts:
            _expect(place, described, text)


def _expect(place: str, text: str, wanted: str | tuple[str, ...]) -> None:
    """Raises LabError if text lacks wanted: a text, or a tuple of texts where one is enough."""
    alternatives = (wanted,) if isinstance(wanted, str) else wanted
    if not any(each in text for each in alternatives):
        raise LabError(f"the set-up differs from the scenario: {place} lacks {alternatives[0]}")
