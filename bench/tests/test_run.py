# SPDX-License-Identifier: GPL-2.0
"""What makes a run count, new or kept, without a guest."""

import json

import pytest

from bench.lab import run, scenario
from bench.lab.errors import LabError

SACK, TIMESTAMPS, WINDOW_SCALE = 2, 1, 4
ALL = SACK | TIMESTAMPS | WINDOW_SCALE


def made(**more) -> scenario.Scenario:
    """The line's flow, and one between hosts beside it."""
    return scenario.from_dict({
        "title": "made up", "capture": False, "trace": [],
        "hop": [{"name": "r1"}, {"name": "r2"}],
        "host": [{"name": "from1", "at": "r1"},
                 {"name": "to2", "at": "r2", "settings": more.pop("to2", {})}],
        "flow": [{"cc": "reno", "bytes": 9}, {"cc": "reno", "bytes": 9, "source": "from1", "to": "to2"}],
        **more})


def ended(*options: int) -> dict[str, bytes]:
    return {f"flow-{number}.json": json.dumps({"cc": "reno", "options": seen}).encode()
            for number, seen in enumerate(options)}


def off(*names: str) -> dict:
    return {"sysctl": {f"net.ipv4.tcp_{name}": 0 for name in names}}


def test_options_are_on_unless_a_host_says_otherwise():
    run.check(made(), ended(ALL, ALL))
    run.check(made(sender=off("timestamps")), ended(ALL & ~TIMESTAMPS, ALL))
    run.check(made(receiver=off("sack"), to2=off("sack", "window_scaling")),
              ended(ALL & ~SACK, TIMESTAMPS))


@pytest.mark.parametrize("options, line", [
    ((ALL & ~SACK, ALL), "flow 1: option SACK: expected off between from1 and to2, seen on"),
    ((ALL, ALL & ~SACK), "flow 0: option SACK: expected off between sender and receiver, seen on"),
    ((ALL & ~SACK, WINDOW_SCALE),
     "flow 1: option timestamps: expected on between from1 and to2, seen off"),
    ((TIMESTAMPS, TIMESTAMPS),
     "flow 0: option window scale: expected on between sender and receiver, seen off")])
def test_a_flow_that_negotiated_something_else_fails_the_run(options, line):
    """One line: which flow, which option, expected, seen."""
    with pytest.raises(LabError) as raised:
        run.check(made(receiver=off("sack"), to2=off("sack")), ended(*options))
    assert str(raised.value) == line


def test_a_flow_through_a_proxy_negotiates_with_the_proxy():
    hops = [{"name": "r1", "pep": "reno", **off("sack")}, {"name": "r2", "pep": "reno"}]
    run.check(made(hop=hops), ended(ALL & ~SACK, ALL))
    back = [{"cc": "reno", "bytes": 9, "source": "receiver", "to": "sender"}]
    run.check(made(hop=hops, flow=back), ended(ALL))
    served = [{"cc": "reno", "bytes": 9, "passive": True}]
    run.check(made(hop=hops, flow=served, receiver=off("timestamps")), ended(ALL & ~TIMESTAMPS))
    with pytest.raises(LabError, match="flow 0: option SACK: expected off between sender and r1"):
        run.check(made(hop=hops), ended(ALL, ALL))


def test_tools_that_report_no_options_are_not_asked():
    run.check(made(), {**ended(ALL), "flow-1.json": b'{"cc": "reno"}'})
