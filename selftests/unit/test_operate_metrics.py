# SPDX-License-Identifier: GPL-2.0
"""satcc metrics: Prometheus' text format, of the live kernel and of a planted state; its dashboard."""

import json
import os
import re
import stat

import pytest

from selftests.unit.operate_net import TOP
from tools.satcc_operate import cli, metrics

LABEL = r'[a-z]+="(?:[^"\\\n]|\\.)*"'
SAMPLE = re.compile(r"([a-z_]+)\{(%s(?:,%s)*)\} ([-+.e\d]+)" % (LABEL, LABEL))

STATE = {
    "default": "cubic",
    "modules": [{"module": "tcp_satcc", "version": "0.1", "srcversion": 'A"\\\n', "references": 3}],
    "routes": [{"policy": "satcc", "by_satcc": True}, {"policy": "satcc", "by_satcc": True},
               {"policy": "satcc", "by_satcc": False}],
    "sockets": {
        "satcc": {"sockets": 2, "rtt_ms": {"min": 100.5, "median": 350.5, "max": 600.5},
                  "total": {"bytes_acked": 12345678901234, "segments_sent": 2000,
                            "segments_retransmitted": 10, "busy_ms": 10000.0,
                            "rwnd_limited_ms": 2000.0, "sndbuf_limited_ms": 1000.0}},
        "reno": {"sockets": 1, "rtt_ms": None,
                 "total": {"bytes_acked": 0, "segments_sent": 0, "segments_retransmitted": 0,
                           "busy_ms": 0, "rwnd_limited_ms": 0, "sndbuf_limited_ms": 0}}}}


def parsed(text):
    """(name, labels) -> value; each name is declared once, before its samples."""
    values, declared = {}, []
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE"):
            declared.append(line.split()[2])
        elif not line.startswith("# HELP"):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert declared[-1] == name
            assert (name, labels) not in values
            values[name, labels] = float(value)
    assert len(set(declared)) == len(declared)
    return values


def test_the_format():
    values = parsed(metrics.text(list(metrics.samples(STATE))))
    assert values["satcc_connections", 'policy="satcc"'] == 2
    assert values["satcc_acked_bytes", 'policy="satcc"'] == 12345678901234
    assert values["satcc_limited_seconds", 'policy="satcc",by="cwnd"'] == 7
    assert values["satcc_limited_seconds", 'policy="satcc",by="rwnd"'] == 2
    assert values["satcc_rtt_seconds", 'policy="satcc",statistic="median"'] == 0.3505
    assert values["satcc_routes", 'policy="satcc",by="satcc"'] == 2
    assert values["satcc_routes", 'policy="satcc",by="other"'] == 1
    assert values["satcc_module_references", 'module="tcp_satcc"'] == 3
    assert not [name for name, labels in values if name == "satcc_rtt_seconds" and "reno" in labels]


def test_labels_are_escaped():
    assert metrics.escaped('A"\\\n') == 'A\\"\\\\\\n'


def test_each_series_has_a_meaning():
    assert {name for name, _, _ in metrics.samples(STATE)} == set(metrics.HELP)


def test_the_live_kernel(net, tmp_path):
    net.satcc("route", "add", "203.0.113.0/24", "cubic", check=True)
    with net.connection("203.0.113.1"), net.connection("203.0.114.1"), \
            net.connection("203.0.114.1", 5001):
        values = parsed(net.satcc("metrics", check=True).stdout)
        listed = net.satcc_json("metrics")
        net.satcc("metrics", "-o", tmp_path / "satcc.prom", check=True)
    assert values["satcc_connections", 'policy="cubic"'] == 1
    assert values["satcc_connections", 'policy="reno"'] == 2
    assert values["satcc_routes", 'policy="cubic",by="satcc"'] == 1
    assert values["satcc_default", 'policy="reno"'] == 1
    assert {"name": "satcc_default", "labels": {"policy": "reno"}, "value": 1} in listed
    assert parsed((tmp_path / "satcc.prom").read_text()).keys() == values.keys()
    assert [path.name for path in tmp_path.iterdir()] == ["satcc.prom"]


def test_a_file_that_cannot_be_written(net, tmp_path):
    (tmp_path / "file").touch()
    done = net.satcc("metrics", "-o", tmp_path / "file" / "satcc.prom")
    assert done.returncode == 1 and done.stderr.startswith("satcc: cannot write")


@pytest.fixture
def state(monkeypatch):
    """The planted state in place of the live kernel's."""
    monkeypatch.setattr("tools.satcc_operate.status.gather", lambda host: STATE)
    return metrics.text(list(metrics.samples(STATE)))


def test_a_device_stays_a_device(state, tmp_path):
    """As /dev/null, which a service may name."""
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.write_text("")
    except PermissionError:
        pytest.skip("no device can be made here")
    assert cli.main(["metrics", "-o", str(device)]) == 0
    assert stat.S_ISCHR(device.lstat().st_mode) and os.listdir(tmp_path) == ["null"]


def test_a_pipe_is_written(state, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert cli.main(["metrics", "-o", str(pipe)]) == 0
        assert os.read(reader, 65536).decode() == state
    finally:
        os.close(reader)


def test_a_link_stays_and_its_file_is_written(state, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "satcc.prom").symlink_to("there/real.prom")
    for _ in range(2):          # the file is made, then replaced
        assert cli.main(["metrics", "-o", str(tmp_path / "satcc.prom")]) == 0
        assert os.readlink(tmp_path / "satcc.prom") == "there/real.prom"
        assert (tmp_path / "there/real.prom").read_text() == state
    assert os.listdir(tmp_path / "there") == ["real.prom"]


def test_a_folder_is_refused(state, tmp_path, capsys):
    assert cli.main(["metrics", "-o", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"satcc: cannot write {tmp_path}: Is a directory\n"


# ---- the dashboard ---------------------------------------------------------

DASHBOARD = json.loads((TOP / "tools/satcc-dashboard.json").read_text())
# What Prometheus adds to each series.
ADDED = {"instance", "job"}


def queries():
    """The expressions of all panels and variables."""
    variables = [each["query"]["query"] for each in DASHBOARD["templating"]["list"]
                 if each["type"] == "query"]
    return variables + [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def labels_of(name):
    """The labels that the program gives to a series."""
    return {label for each, labels, _ in metrics.samples(STATE) if each == name for label in labels}


def test_the_dashboard_queries_every_printed_series():
    names = {name for query in queries() for name in re.findall(r"satcc_\w+", query)}
    assert names == {name for name, _, _ in metrics.samples(STATE)}


@pytest.mark.parametrize("query", queries())
def test_a_query_uses_labels_that_its_series_has(query):
    selected = re.findall(r"(satcc_\w+)\{(.*?)\}", query)
    assert selected or query.startswith("label_values(")
    for name, matchers in selected:
        assert set(re.findall(r"(\w+)=", matchers)) <= labels_of(name) | ADDED
    for name, label in re.findall(r"label_values\((satcc_\w+), (\w+)\)", query):
        assert label in labels_of(name) | ADDED
    for words in re.findall(r"(?:by|ignoring) \(?\(([\w, ]+)\)", query):
        assert set(words.split(", ")) <= set().union(*(labels_of(name) for name, _ in selected)) | ADDED
    assert query.count("(") == query.count(")") and query.count("{") == query.count("}")


def test_a_legend_names_labels_that_the_series_has():
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            name = re.search(r"satcc_\w+", target["expr"])[0]
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels_of(name) | ADDED


def test_the_variables_of_a_query_are_the_dashboards():
    declared = {each["name"] for each in DASHBOARD["templating"]["list"]} | {"__rate_interval"}
    used = set(re.findall(r"\$\{?(\w+)", " ".join(queries())))
    assert used <= declared and {"instance", "policy"} <= used


def test_the_panels_do_not_cover_each_other():
    taken = [(x, y) for panel in DASHBOARD["panels"] for place in [panel["gridPos"]]
             for x in range(place["x"], place["x"] + place["w"])
             for y in range(place["y"], place["y"] + place["h"])]
    assert len(taken) == len(set(taken)) and max(x for x, _ in taken) < 24
    identifiers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(identifiers) == len(set(identifiers))
    assert {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]} == {"${datasource}"}
