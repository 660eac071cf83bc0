# SPDX-License-Identifier: GPL-2.0
"""Scenario and experiment files with mistakes: each is one line with file, key and what is allowed."""

import copy
import dataclasses
import datetime
import json
import types
import typing

import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.compare import comparison, geo
from bench.errors import LabError
from bench.lab import job
from bench.measure import metrics
from bench.papers import experiment
from bench.scenario import satellite, scenario, schema

# Between them these set every key there is, which a test makes sure of.
STEP = {"aqm": "red", "red": {"min_packets": 5, "max_packets": 15, "probability": 0.1,
                              "weight": 0.001953125}, "ecn": True}
HOST = {"initcwnd": 10, "initrwnd": 4, "quickack": 1, "ssthresh": 40, "window": 65536, "rto_min_ms": 200,
        "sysctl": {"net.ipv4.tcp_sack": 0, "net.ipv4.tcp_rmem": "4096 87380 1048576"}}
MAC = {"kind": "bod", "rate_kbit": 2112, "slots": 48, "multiframes": 3, "superframe_ms": 820,
       "static_kbit": 44, "cap_kbit": 1144, "allocation_ms": 1346, "overhead_pct": 7.4,
       "phase_ms": 0, "queue_bytes": 1_000_000, "queue_packets": 0}
FADES = {"ber": 0, "good_s": 1, "bad_s": 0.5, "loss_good_pct": 1, "loss_bad_pct": 90, "frame_bytes": 0,
         "frame_ms": 5, "frame_loss_pct": 1}
FLOW = {"cc": "cubic", "bytes": 1_000_000, "seconds": 0, "start_s": 1, "tool": "flow",
        "source": "sender", "to": "receiver", "rate_mbit": 0, "law": "", "count": 0,
        "objects": [], "changes": [[100, "reno"]],
        "pause_ms": 50, "write_bytes": 1000, "write_ms": 20, "passive": True, "fastopen": True,
        "mptcp": False, "reconnect": False, "routed": False, "listener": "reno"}
SCENARIO = {
    "title": "All there is", "seed": 1, "family": 4, "mtu": 1500, "max_seconds": 60, "capture": True,
    "captures": ["sender"], "trace": ["tcp:tcp_probe"], "traced": [0],
    "modules": {"tcp_mtsi": {"mode": "const", "const_k": 2}}, "sender": HOST,
    "receiver": copy.deepcopy(HOST),
    "commands": ["ls"], "offload": False, "samples_s": [1, 2.5], "before": ["id"], "after": ["id"],
    "hop": [
        {"name": "r1", "pep": "cubic", "sysctl": {"net.ipv4.tcp_frto": 0},
         "forward": {"rate_mbit": 10, "queue_packets": 50, "queue_bytes": 0, "queue_bdp": 0, **STEP},
         "reverse": {"delay_ms": 25, "jitter_ms": 2, "loss_pct": 1, "reorder_pct": 1,
                     "duplicate_pct": 1}},
        {"name": "sat", "forward": {"mac": MAC, "delay_ms": 250},
         "reverse": {"errors": FADES, "delay_series": [[0, 20], [5, 30]], "merge_ms": 5,
                     "merge_bytes": 3000}}],
    "host": [{"name": "wired", "at": "r1", "delay_ms": 25, "settings": copy.deepcopy(HOST)}],
    "flow": [FLOW, {"cc": "reno", "tool": "page", "objects": [1000, 2000], "source": "wired"}],
    "change": [{"at_s": 5, "hop": "r1", "forward": {"rate_mbit": 5, "queue_packets": 50},
                "reverse": {"delay_ms": 30}}],
}
EXPERIMENT = {
    "title": "Transfer time", "source": "Somebody, table 1", "what": "How long?", "metric": "transfer_s",
    "arguments": {"flow": 0, "since": "data"}, "unit": "s", "better": "less", "tolerance_pct": 15,
    "order": 3, "tolerance_points": 5, "order_points": 20, "confidence_pct": 95, "precision_pct": 5,
    "precision": "interval", "random": True, "statistic": "mean", "link": "GEO", "differs": ["Somehow."],
    "rfc5166": ["throughput"], "rfc9743": ["short flows"], "seeds": 1, "seeds_most": 8,
    "uncounted": [{"kind": "chosen", "why": "by it", "where": {"file": "small"}, "claims": True}],
    "null": {"axis": "TCP", "of": {"Reno": "Ideal"}},
    "scenario": {
        "hop": [{"name": "gateway", "forward": {"rate_mbit": 2, "queue_packets": 40}}],
        "flow": [{"cc": "reno", "bytes": 100_000, "copies": 2, "apart_s": 1}]},
    "axis": [
        {"name": "file", "values": [
            {"label": "small", "x": 1},
            {"label": "large", "x": 10, "set": {"flow.0.bytes": 1_000_000}}]},
        {"name": "TCP", "values": [
            {"label": "Reno"}, {"label": "Ideal", "formula": "ideal_transfer_s",
                                "only": {"file": ["small"]}}]}],
    "table": {"rows": ["file"], "columns": ["TCP"]},
    "paper": {"small": {"Reno": 2.0, "Ideal": 1.4}, "large": {"Reno": "never"}},
    "claim": [
        {"text": "Ideal is faster", "left": {"TCP": "Ideal"}, "right": {"TCP": "Reno"}, "is": "less",
         "factor": 1.5, "where": {"file": ["small"]}, "some": True, "words": "faster",
         "uncounted": {"kind": "repeat", "why": "said above", "where": {"file": "small"},
                       "claims": False}},
        {"text": "It ends", "left": {"TCP": "Reno"}, "is": "less", "value": 9}],
    "figure": [
        {"title": "Figure 1", "kind": "lines", "x": "file", "series": "TCP", "y_label": "time, s"},
        {"title": "Figure 2", "kind": "series", "x": "time", "metric": "cwnd", "arguments": {"flow": 0},
         "series": "TCP", "y_label": "window", "where": {"file": "large"}}],
    "missing": [{"label": "CTCP", "why": "not in Linux"}],
}
GAIN = {
    **{key: EXPERIMENT[key] for key in ("title", "source", "what", "unit", "better")},
    "gain": {"value": {"experiment": "one", "TCP": "Ideal"},
             "reference": {"experiment": "one", "TCP": "Reno"}},
    "table": {"rows": ["file"], "columns": []},
}
LIKE = {
    **{key: EXPERIMENT[key] for key in ("title", "source", "what", "metric", "unit", "better")},
    "like": {"experiment": "one", "set": {"flow.0.bytes": 5}, "keep": {"file": ["small"]}, "axes": []},
}


def toml(value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, (datetime.date, float)):
        return str(value)
    return json.dumps(value)


def write(folder, data: dict, name: str = "bad.toml"):
    path = folder / name
    path.write_text("".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in data.items()))
    return path


def load_paper(path):
    """As a paper's file, beside one with the name `one` that is right."""
    write(path.parent, EXPERIMENT, "one.toml")
    loaded = experiment.load(path)
    return experiment.expand_gain(loaded, {"one": experiment.load(path.parent / "one.toml")})


# ---- every key, spoilt in every way ----------------------------------------

def tables(kind: type, value, loc: tuple = ()):
    """Every table below one that is right: (its class, where it is, itself)."""
    if isinstance(kind, type) and issubclass(kind, schema.Table):
        yield kind, loc, value
        for name, each in keys(kind).items():
            if name in value:
                yield from tables(each, value[name], (*loc, name))
    elif isinstance(value, list) and (inner := entry_of(kind)):
        for number, each in enumerate(value):
            yield from tables(inner, each, (*loc, number))
    elif isinstance(kind, types.UnionType):
        yield from tables(typing.get_args(kind)[0], value, loc)


def keys(kind: type) -> dict:
    """Key -> type of what a table may have."""
    return {field.metadata.get("key", field.name): field.type for field in dataclasses.fields(kind)
            if "computed" not in field.metadata}


def entry_of(kind):
    """The type of a list's entries, if it is a list of any length."""
    if isinstance(kind, type) and issubclass(kind, pydantic.ConstrainedList):
        return kind.item_type
    arguments = typing.get_args(kind)
    return arguments[0] if typing.get_origin(kind) is tuple and arguments[-1] is ... else None


def spoilt(kind, value):
    """(what was done, wrong value) for a key of a type."""
    if isinstance(kind, types.UnionType):
        kind = typing.get_args(kind)[0]
    wrong_type = "x" if not isinstance(value, str) else 7
    yield "type", wrong_type
    yield "date", datetime.date(2026, 1, 2)
    if not isinstance(value, dict):
        yield "a table", {"x": 1}
    yield "a list", [value] if not isinstance(value, list) else [[value]]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield "true", True
        yield "too low", kind.low - 1
        yield "too high", kind.high + 1
        yield "not finite", float("nan")
        if getattr(kind, "whole", False):
            yield "half", kind.low + 0.5
    elif isinstance(value, str):
        yield "two lines", "a\nb"
    elif isinstance(value, bool):
        yield "number", 1


def put(data: dict, loc: tuple, value):
    data = copy.deepcopy(data)
    node = data
    for part in loc[:-1]:
        node = node[part]
    node[loc[-1]] = value
    return data


def renamed(data: dict, loc: tuple, name: str) -> dict:
    data = copy.deepcopy(data)
    node = data
    for part in loc[:-1]:
        node = node[part]
    node[name] = node.pop(loc[-1])
    return data


def mistakes(kind: type, data: dict):
    """(name, data with one mistake, path of the key to be named)."""
    for table, loc, value in tables(kind, data):
        for key, values in keys(table).items():
            if key not in value:
                continue
            here = (*loc, key)
            for name in (f"{key}s", key[:-1] + "_"):
                if name not in keys(table):
                    path = schema.path_text((*loc, name))
                    yield f"{path} misspelt", renamed(data, here, name), path
            for what, wrong in spoilt(values, value[key]):
                yield f"{schema.path_text(here)} {what}", put(data, here, wrong), schema.path_text(here)


SCENARIO_MISTAKES = list(mistakes(scenario.Scenario, SCENARIO))
PAPER_MISTAKES = [
    *mistakes(experiment.Experiment, EXPERIMENT),
    *((f"gain: {name}", *rest) for name, *rest in mistakes(experiment.Experiment, GAIN)
      if rest[1].startswith("gain")),
    *((f"like: {name}", {**LIKE, "like": data}, f"like.{path}")
      for name, data, path in mistakes(experiment.Like, LIKE["like"]))]


def test_the_unchanged_file_is_read(tmp_path):
    assert scenario.load(write(tmp_path, SCENARIO)).flows[0].changes == ((100, "reno"),)
    for data in (EXPERIMENT, GAIN, LIKE):
        assert load_paper(write(tmp_path, data)).cells


def test_every_key_is_spoilt():
    for roots in ([(scenario.Scenario, SCENARIO)],
                  [(experiment.Experiment, EXPERIMENT), (experiment.Experiment, GAIN),
                   (experiment.Like, LIKE["like"])]):
        known, wanted = {}, {}
        for kind, data in roots:
            for table, _, value in tables(kind, data):
                known.setdefault(table, set()).update(value)
                wanted[table] = set(keys(table))
        assert known == wanted
    assert {satellite.Mac, satellite.Errors, scenario.Red} <= {
        table for table, _, _ in tables(scenario.Scenario, SCENARIO)}
    assert len(SCENARIO_MISTAKES) >= 200 and len(PAPER_MISTAKES) >= 200


def one_line(load, path, key: str):
    with pytest.raises(LabError) as caught:
        load(path)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(path)), message
    assert key in message, message


def each_is_one_line(load, folder, mistakes, prefix: str = ""):
    """one_line() of each; the error has every mistake of which it does not hold."""
    wrong = {}
    for name, data, key in mistakes:
        try:
            one_line(load, write(folder, data), prefix + key)
        except (Exception, pytest.fail.Exception) as error:
            wrong[name] = f"{type(error).__name__}: {error}"
    assert wrong == {}


def test_each_mistake_in_a_scenario_is_one_line(tmp_path):
    each_is_one_line(scenario.load, tmp_path, SCENARIO_MISTAKES, "bad.toml: ")


def test_each_mistake_in_an_experiment_is_one_line(tmp_path):
    each_is_one_line(load_paper, tmp_path, PAPER_MISTAKES)


# ---- mistakes that were once a traceback, or were played --------------------

SMALL = {"hop": [{"name": "gateway", "forward": {"rate_mbit": 2, "queue_bdp": 1}},
                 {"name": "satellite", "forward": {"delay_ms": 300}}],
         "flow": [{"cc": "cubic", "bytes": 1000}]}
STAGE = {"delay_ms": 320}


@pytest.mark.parametrize("loc, value, message", [
    (("flow",), {"cc": "cubic", "bytes": 1}, 'flow = {"cc": "cubic", "bytes": 1}: a list; of tables'),
    (("hop",), {"name": "a"}, 'hop = {"name": "a"}: a list; of tables'),
    (("host",), {"name": "a"}, 'host = {"name": "a"}: a list; of tables'),
    (("change",), {"at_s": 1}, 'change = {"at_s": 1}: a list; of tables'),
    (("flow",), [], "flow = []: at least 1 of them"),
    (("hop",), [], "hop = []: at least 1 of them"),
    (("flows",), [{"cc": "cubic"}], 'flows = [{"cc": "cubic"}]: unknown key (known: after, '),
    (("hops",), [], "hops = []: unknown key"),
    (("hosts",), [], "hosts = []: unknown key"),
    (("changes",), [], "changes = []: unknown key"),
    (("leaves",), [], "leaves = []: unknown key"),
    (("hop", 1, "forward"), "300ms", 'hop[1].forward = "300ms": a table'),
    (("hop", 1, "queue"), 5, "hop[1].queue = 5: unknown key (known: forward, name, pep, "),
    (("hop", 1, "name"), "left", "hop[1] = "),
    (("hop", 1, "name"), 16 * "a", 'hop[1].name = "aaaaaaaaaaaaaaaa": at most 15 letters and digits'),
    (("hop", 1, "name"), "gateway", "hop: two hops have the same name"),
    (("hop", 1), {"forward": STAGE}, "hop[1].name: missing"),
    (("hop", 1, "forward"), {"mac": 5}, "hop[1].forward.mac = 5: a table"),
    (("hop", 1, "forward"), {"delay_series": [[0]]},
     "hop[1].forward.delay_series[0] = [0]: a list of 2"),
    (("hop", 1, "forward"), {"delay_series": []}, "hop[1].forward.delay_series = []: at least 1"),
    (("hop", 0, "forward", "rate_mbit"), "2", 'hop[0].forward.rate_mbit = "2": a number from 0 to'),
    (("hop", 0, "forward", "rate_mbit"), float("nan"), "hop[0].forward.rate_mbit = NaN: a number"),
    (("flow", 0, "bytes"), -5, "flow[0].bytes = -5: a whole number from 0 to"),
    (("flow", 0, "bytes"), 1e6, "flow[0].bytes = 1000000.0: a whole number"),
    (("flow", 0, "start_s"), -3, "flow[0].start_s = -3: a number from 0 to"),
    (("flow", 0, "changes"), [["cubic", 100]], 'flow[0].changes[0][0] = "cubic": a number'),
    (("flow", 0, "changes"), [[100]], "flow[0].changes[0] = [100]: a list of 2"),
    (("flow", 0, "changes"), 5, "flow[0].changes = 5: a list"),
    (("flow", 0, "changes"), [[100, ""]], "flow[0] = "),
    (("flow", 0), {"bytes": 5}, "flow[0].cc: missing"),
    (("flow", 0, "cc"), "cubic; reboot", 'flow[0].cc = "cubic; reboot": a congestion control\'s name'),
    (("flow", 0, "source"), "sendr", "flow[0]: source and to must be two of sender, receiver"),
    (("flow", 0, "objects"), 5, "flow[0].objects = 5: a list"),
    (("trace",), "satcc:*", 'trace = "satcc:*": a list'),
    (("trace",), ["satcc"], 'trace[0] = "satcc": an event, group:name'),
    (("traced",), 0, "traced = 0: a list"),
    (("traced",), [1], "traced: a flow with this number"),
    (("modules",), ["tcp_ibk"], 'modules = ["tcp_ibk"]: a table'),
    (("modules",), {"tcp_ibk": 4}, "modules.tcp_ibk = 4: a table"),
    (("modules",), {"tcp_ibk": {"k": [4]}}, "modules.tcp_ibk.k = [4]: a whole number, or words"),
    (("modules",), {"tcp ibk": {}}, 'modules."tcp ibk" = {}: a module\'s name'),
    (("samples_s",), ["a"], 'samples_s[0] = "a": a number'),
    (("sender",), {"sysctl": ["a"]}, 'sender.sysctl = ["a"]: a table'),
    (("sender",), {"sysctl": {"net.ipv4.tcp_sack": "0; reboot"}},
     'sender.sysctl."net.ipv4.tcp_sack" = "0; reboot": a whole number, or words'),
    (("receiver",), [], "receiver = []: a table"),
    (("mtu",), 0, "mtu = 0: a whole number from 296 to 1500"),
    (("mtu",), 40, "mtu = 40: a whole number from 296"),
    (("mtu",), 5, "mtu = 5: a whole number from 296"),
    (("seed",), -1, "seed = -1: a whole number from 0"),
    (("family",), "4", 'family = "4": 4 or 6'),
    (("capture",), "no", 'capture = "no": true or false'),
    (("captures",), "sender", 'captures = "sender": a list'),
    (("max_seconds",), -1, "max_seconds = -1: a whole number from 1"),
    (("commands",), "ls", 'commands = "ls": a list'),
    (("before",), "id", 'before = "id": a list'),
    (("after",), [5], "after[0] = 5: a shell command"),
    (("change",), [{"hop": "satellite", "forward": STAGE}], "change[0].at_s: missing"),
    (("change",), [{"at_s": -5, "hop": "satellite", "forward": STAGE}], "change[0].at_s = -5: a number"),
    (("change",), [{"at_s": 5, "hop": "satellit", "forward": STAGE}],
     "change[0].hop: no hop 'satellit'"),
    (("change",), [{"at_s": 5, "hop": "satellit"}], "change[0] = "),
    (("change",), [{"at_s": 5, "hop": "satellite"}], "change[0] = "),
    (("host",), [{"name": "wired"}], "host[0].at: missing"),
    (("host",), [{"name": "wired", "at": "gatewayx"}], "host[0].at: no hop 'gatewayx'"),
])
def test_mistakes_that_were_once_played_or_a_traceback_are_errors(tmp_path, loc, value, message):
    one_line(scenario.load, write(tmp_path, put(SMALL, loc, value)), f"bad.toml: {message}")


def between(source, to, *stages):
    """A scenario with a flow, and a host beside each of two hops; stages: (hop, side)."""
    hops = [{"name": name, **{side: STAGE for hop, side in stages if hop == name}}
            for name in ("a", "b")]
    return {"title": "t", "hop": hops, "host": [{"name": "at1", "at": "a"}, {"name": "at2", "at": "b"}],
            "flow": [{"cc": "reno", "bytes": 9, "source": source, "to": to}]}


@pytest.mark.parametrize("source, to, crossed", [
    ("sender", "receiver", {("a", "forward"), ("a", "reverse"), ("b", "forward"), ("b", "reverse")}),
    ("receiver", "at1", {("a", "forward"), ("b", "forward"), ("b", "reverse")}),
    ("at1", "at2", {("a", "forward"), ("b", "reverse")}),
    ("sender", "at1", {("a", "reverse")})])
def test_a_stage_that_no_flow_crosses_is_an_error(source, to, crossed):
    """A reverse stage is on the hop's left, which what comes from the right to a host beside it does
    not pass."""
    for number, hop in enumerate(("a", "b")):
        for side in ("forward", "reverse"):
            text = between(source, to, (hop, side))
            if (hop, side) in crossed:
                scenario.from_dict(text)
            else:
                with pytest.raises(LabError) as caught:
                    scenario.from_dict(text)
                assert str(caught.value) == f"scenario: hop[{number}].{side}: no flow crosses it"


@pytest.mark.parametrize("content, message", [
    ('title = "Caf\xe9"\n'.encode("latin-1"), "not UTF-8, at byte 12"),
    (b"seed = \n", "Invalid value (at line 1, column 8)"),
    (b"seed = " + 5000 * b"1", "integer string conversion"),
    (b"seed = " + 5000 * b"[", "recursion")])
def test_a_file_that_is_not_toml_is_one_line(tmp_path, content, message):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    for load in (scenario.load, experiment.load):
        one_line(load, path, message)


def test_a_missing_file(tmp_path):
    for load in (scenario.load, experiment.load):
        with pytest.raises(LabError, match="^no file .*/none.toml$"):
            load(tmp_path / "none.toml")


@pytest.mark.parametrize("like, message", [
    ({"experiment": "bad"}, 'like.experiment = "bad": the other file takes over from this one'),
    ({"experiment": "../one"}, "like.experiment = \"../one\": another file's name"),
    ({"experiment": "one", "set": {"flow.5.bytes": 5}}, "like.set.\"flow.5.bytes\": no entry '5'"),
    ({"experiment": "one", "keep": {"planet": "x"}},
     "like.keep: axis 'planet' does not have all of ['x']"),
    ({"experiment": "one", "axes": ["planet"]}, "like.axes: one has no axis 'planet'")])
def test_a_mistake_in_an_inherited_key_names_the_other_file(tmp_path, like, message):
    one_line(load_paper, write(tmp_path, {**LIKE, "like": like}), message)


@pytest.mark.parametrize("loc, value, message", [
    (("scenario", "flow", 0, "copies"), 0, "scenario.flow[0].copies = 0: a whole number from 1"),
    (("scenario", "flow"), 5, "scenario.flow = 5: a list"),
    (("scenario", "samples_s"), ["a"], 'small, Reno: scenario.samples_s[0] = "a": a number'),
    (("axis", 0, "values", 1, "set"), {"flow.0.byte": 5},
     "large, Reno: scenario.flow[0].byte = 5: unknown key"),
    (("axis", 0, "values", 1, "set"), {"flow.9.bytes": 5}, 'large, Reno: set."flow.9.bytes": no entry'),
    (("axis", 1, "values", 0, "only"), {"file": "none"}, "has no cell"),
    (("axis", 1, "name"), "file", "axis: two have the same name"),
    (("arguments",), {"flow": 2}, "arguments: small, Reno: no flow 2, there are 2"),
    (("arguments",), {"since": "sin"}, 'arguments.since = "sin": one of "syn", "data"'),
    (("figure", 1, "arguments"), {"flow": "0"}, 'figure[1].arguments.flow = "0": a whole number'),
    (("paper", "small"), {"Reno": True}, "paper.small.Reno = true: a number or 'never', 2 labels deep")])
def test_a_mistake_across_an_experiments_tables(tmp_path, loc, value, message):
    one_line(load_paper, write(tmp_path, put(EXPERIMENT, loc, value)), message)


def test_every_argument_of_a_metric_has_a_type():
    for name in {**metrics.METRICS, **metrics.SERIES}:
        assert metrics.arguments_of(name)


def test_scenarios_made_by_code_are_checked_too():
    small = scenario.from_dict({"title": "small", **SMALL})
    assert small.check() is small
    wrong = dataclasses.replace(small, flows=(dataclasses.replace(small.flows[0], bytes=-5),))
    with pytest.raises(LabError, match=r"^small: flow\[0\].bytes = -5: a whole number from 0 to"):
        wrong.check()


def test_make_bench_and_make_geo_read_their_data_files(tmp_path):
    for load, file, kind in ((comparison.plan, "compare.toml", comparison.Comparison),
                             (geo.load, "geo.toml", geo.Suite)):
        right = schema.parsed(comparison.HERE / file)
        groups = {name: value for name, value in right.items() if name not in keys(kind)}
        for name, data, key in mistakes(kind, {name: right[name] for name in keys(kind)}):
            with pytest.raises(LabError, match=f"^{file}: ") as caught:
                load(write(tmp_path, {**groups, **data}, file))
            assert key in str(caught.value) and "\n" not in str(caught.value), name
    group = {"source": "S", "rtt_ms": 600, "bytes": [1000], "row": [{"name": "L", "forward_mbit": 1}]}
    with pytest.raises(LabError, match=r"^geo.toml: g.row\[0\].return_mbit: missing$"):
        geo.rows({"g": group})
    with pytest.raises(LabError, match=r"^geo.toml: g.rows = 5: unknown key"):
        geo.rows({"g": {**group, "rows": 5}})


# ---- anything of the right shape -------------------------------------------

JUNK = st.sampled_from([None, -1, 0.5, 10**30, "x", "", [], [[]], {}, {"x": 1}, True, "flow.0.bytes"])


def values(kind, junk: float):
    """What a key of a type may have, and now and then what it may not."""
    if isinstance(kind, types.UnionType):
        return values(typing.get_args(kind)[0], junk)
    if isinstance(kind, type) and issubclass(kind, schema.Table):
        right = st.deferred(lambda: filled(kind, junk))
    elif kind is schema.Flag:
        right = st.booleans()
    elif hasattr(kind, "whole"):
        right = st.integers(kind.low, min(kind.high, 2000))
    elif hasattr(kind, "low"):
        right = st.sampled_from([kind.low, kind.high]) | st.floats(kind.low, min(kind.high, 2000.0))
    elif hasattr(kind, "words"):
        right = st.sampled_from(kind.words)
    elif kind in (schema.Name, experiment.FILE):
        right = st.sampled_from(["gateway", "satellite", "wired", "sender", "receiver"])
    elif hasattr(kind, "pattern"):
        right = st.from_regex(kind.pattern, fullmatch=True)
    elif entry := entry_of(kind):
        right = st.lists(values(entry, junk), max_size=3)
    elif typing.get_origin(kind) is tuple:
        right = st.tuples(*(values(each, junk) for each in typing.get_args(kind))).map(list)
    else:
        names = st.sampled_from(["file", "TCP", "net.ipv4.tcp_sack", "flow.0.bytes"])
        right = st.dictionaries(names, JUNK)
    return st.floats(0, 1).flatmap(lambda chance: JUNK if chance < junk else right)


def filled(kind: type, junk: float):
    """Tables with some of a class's keys."""
    needed = {schema_key for schema_key, field in zip(keys(kind), kind.model().__fields__.values())
              if field.required}
    every = {key: values(kind_of, junk) for key, kind_of in keys(kind).items()}
    return st.sets(st.sampled_from(sorted(every)), max_size=4).flatmap(
        lambda chosen: st.fixed_dictionaries({key: every[key] for key in sorted(chosen | needed)}))


def overlaid(data, kind: type, base: dict, junk: float) -> dict:
    """One that is right, up to three of its keys replaced or added."""
    drawn = data.draw(filled(kind, junk))
    chosen = data.draw(st.sets(st.sampled_from(sorted(drawn)), max_size=3))
    return {**base, **{key: drawn[key] for key in chosen}}


@pytest.mark.parametrize("junk", [0, 0.1])
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_random_scenario_is_one_or_an_error(junk, data):
    table = overlaid(data, scenario.Scenario, {"title": "small", **SMALL}, junk)
    try:
        loaded = scenario.from_dict(table, "random.toml")
    except LabError as error:
        assert str(error).startswith("random.toml: ") and "\n" not in str(error)
        return
    if all(flow.seconds * flow.rate_mbit < 1000 for flow in loaded.flows):      # background is drawn
        assert job.files(loaded)["run"]


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_random_experiment_is_one_or_an_error(data):
    table = overlaid(data, experiment.Experiment, EXPERIMENT, 0.1)
    try:
        experiment.from_dict(table, "somebody", "random", "random.toml")
    except LabError as error:
        assert str(error).startswith("random.toml: ") and "\n" not in str(error)
