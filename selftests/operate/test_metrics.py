# SPDX-License-Identifier: GPL-2.0
"""satcc metrics: Prometheus' text format, of the live kernel and of a planted state; its dashboard."""

import json
import os
import re
import stat

import pytest

from selftests.operate.net import TOP, policy_of
from tools.satcc_operate import cli, metrics, start
from tools.satcc_operate.host import OperateError

LABEL = r'[a-z]+="(?:[^"\\\n]|\\.)*"'
SAMPLE = re.compile(r"([a-z_]+)\{(%s(?:,%s)*)\} ([-+.e\d]+)" % (LABEL, LABEL))

STATE = {
    "default": "cubic",
    "modules": [{"module": "tcp_satcc", "version": "0.1", "srcversion": 'A"\\\n', "references": 3}],
    "routes": [{"policy": "satcc", "by_satcc": True}, {"policy": "satcc", "by_satcc": True},
               {"policy": "satcc", "by_satcc": False}],
    "bpf": [{"policy": "ibk", "parameters": {}}],
    "groups": {
        ("satcc", "203.0.113.0/24"): {
            "sockets": 2, "rtt_ms": {"min": 100.5, "median": 350.5, "max": 600.5},
            "total": {"bytes_acked": 12345678901234, "segments_sent": 2000,
                      "segments_retransmitted": 10, "busy_ms": 10000.0,
                      "rwnd_limited_ms": 2000.0, "sndbuf_limited_ms": 1000.0}},
        ("reno", "default"): {
            "sockets": 1, "rtt_ms": None,
            "total": {"bytes_acked": 0, "segments_sent": 0, "segments_retransmitted": 0,
                      "busy_ms": 0, "rwnd_limited_ms": 0, "sndbuf_limited_ms": 0}}}}


SATCC = 'policy="satcc",prefix="203.0.113.0/24"'
STARTS = [start.Start("1", "satcc", "203.0.113.7", 443, end, window, again) for end, window, again in (
    ("ack", 400, 0), ("recovery", 900, 120), (start.OPEN, None, 2))]


def all_samples():
    """The series of the live connections and of a log."""
    return [*metrics.samples(STATE), *metrics.start_samples(STARTS, [])]


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
    assert values["satcc_connections", SATCC] == 2
    assert values["satcc_acked_bytes", SATCC] == 12345678901234
    assert values["satcc_limited_seconds", SATCC + ',by="cwnd"'] == 7
    assert values["satcc_limited_seconds", SATCC + ',by="rwnd"'] == 2
    assert values["satcc_rtt_seconds", SATCC + ',statistic="median"'] == 0.3505
    assert values["satcc_routes", 'policy="satcc",by="satcc"'] == 2
    assert values["satcc_routes", 'policy="satcc",by="other"'] == 1
    assert values["satcc_module_references", 'module="tcp_satcc"'] == 3
    assert not [name for name, labels in values if name == "satcc_rtt_seconds" and "reno" in labels]


def test_labels_are_escaped():
    assert metrics.escaped('A"\\\n') == 'A\\"\\\\\\n'


def test_each_series_has_a_meaning():
    assert {name for name, _, _ in all_samples()} == set(metrics.HELP)


def test_the_live_kernel(net, tmp_path):
    net.satcc("route", "add", "203.0.113.0/24", "cubic", check=True)
    with net.connection("203.0.113.1"), net.connection("203.0.114.1"), \
            net.connection("203.0.114.1", 5001):
        values = parsed(net.satcc("metrics", check=True).stdout)
        listed = net.satcc_json("metrics")
        net.satcc("metrics", "-o", tmp_path / "satcc.prom", check=True)
    assert values["satcc_connections", 'policy="cubic",prefix="203.0.113.0/24"'] == 1
    assert values["satcc_connections", 'policy="reno",prefix="default"'] == 2
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
    monkeypatch.setattr("tools.satcc_operate.metrics.gather", lambda host: STATE)
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
    return {label for each, labels, _ in all_samples() if each == name for label in labels}


def test_the_dashboard_queries_every_printed_series():
    names = {name for query in queries() for name in re.findall(r"satcc_\w+", query)}
    assert names == {name for name, _, _ in all_samples()}


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


# ---- prefixes --------------------------------------------------------------

def test_the_prefix_is_that_of_the_route_that_the_kernel_uses(net):
    """Each of the routes has a policy of its own kind; the kernel's choice tells which route it used."""
    routes = {("203.0.113.0/24", None): "cubic", ("203.0.113.1/32", 5001): "reno",
              ("0.0.0.0/0", 5002): "cubic", ("0.0.0.0/0", None): "reno"}
    for (prefix, port), policy in routes.items():
        net.satcc("route", "add", prefix, policy, *(["--port", port] if port else []), check=True)
    expected = {("203.0.113.1", 0): ("203.0.113.0/24", None),
                ("203.0.114.1", 0): ("0.0.0.0/0", None),
                ("203.0.113.1", 5001): ("203.0.113.1/32", 5001),
                ("203.0.114.1", 5002): ("0.0.0.0/0", 5002),
                ("203.0.113.1", 5002): ("203.0.113.0/24", None),
                ("203.0.114.1", 5001): ("0.0.0.0/0", None)}
    for number, ((address, local_port), place) in enumerate(expected.items()):
        with net.connection(address, 6000 + number, local_port=local_port) as (client, _):
            assert policy_of(client) == routes[place]
            values = parsed(net.satcc("metrics", check=True).stdout)
        label = f"{place[0]} port {place[1]}" if place[1] else place[0]
        assert values["satcc_connections", f'policy="{routes[place]}",prefix="{label}"'] == 1
        assert len([name for name, _ in values if name == "satcc_connections"]) == 1


def test_a_prefix_of_another_family_or_program_does_not_count(net):
    net.ip("route", "add", "203.0.113.0/24", "via", "192.0.2.2", "congctl", "cubic")
    net.satcc("route", "add", "default6", "cubic", check=True)
    with net.connection("203.0.113.1"), net.connection("2001:db8:1::1"):
        values = parsed(net.satcc("metrics", check=True).stdout)
    assert values["satcc_connections", 'policy="cubic",prefix="default"'] == 1
    assert values["satcc_connections", 'policy="cubic",prefix="::/0"'] == 1


# ---- starts in a log -------------------------------------------------------

MSS = 1000
SEGMENT = {"ev": "segment_sent", "srtt_us": "100000", "len": MSS, "segs": 1, "retrans": 0, "cwnd": 10}


class Log:
    """A table of satcc-log."""

    def __init__(self, cookie="7", cc="cubic", daddr="203.0.113.9", sport=443):
        self.own = {"cookie": cookie, "cc": cc, "daddr": daddr, "sport": sport, "ca_state": "Open"}
        self.rows = []

    def sent(self, t_s, number, **more):
        """The number-th segment of data, from 0."""
        self.rows.append({**self.own, **SEGMENT, "t_s": t_s, "seq_rel": 1 + number * MSS,
                          "sent_orig": (number + 1) * MSS, **more})

    def changed(self, t_s, cwnd, ssthresh, reason, cwnd_old):
        self.rows.append({**self.own, "t_s": t_s, "ev": "cwnd_changed", "cwnd": cwnd, "reason": reason,
                          "cwnd_old": cwnd_old, **({"ssthresh": ssthresh} if ssthresh else {})})


def written(folder, *logs):
    rows = sorted((row for log in logs for row in log.rows), key=lambda row: row["t_s"])
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([row.get(name, "") for name in names] for row in rows)]
    (folder / "log.tsv").write_text("".join("\t".join(map(str, line)) + "\n" for line in lines))
    return folder / "log.tsv"


def test_what_ended_slow_start(tmp_path):
    """HyStart's threshold at the window; a threshold reached later; a loss; a timeout; none."""
    cases = {"1": [(1, 20, 0, "ack", 10), (2, 40, 40, "ack", 40)],
             "2": [(1, 20, 50, "ack", 10), (2, 50, 50, "ack", 49)],
             "3": [(1, 20, 0, "ack", 10), (2, 64, 45, "recovery", 64), (3, 45, 45, "ack", 46)],
             "4": [(2, 1, 32, "rto", 64)], "5": [(1, 20, 0, "ack", 10)]}
    logs = []
    for cookie, changes in cases.items():
        logs.append(Log(cookie))
        logs[-1].sent(0, 0)
        for change in changes:
            logs[-1].changed(*change)
    starts = {each.cookie: (each.end, each.window) for each in start.read(written(tmp_path, *logs))}
    assert starts == {"1": ("ack", 40), "2": ("ack", 50), "3": ("recovery", 64), "4": ("rto", 64),
                      "5": (start.OPEN, None)}


def test_only_what_the_first_round_trips_sent_counts(tmp_path):
    """5 RTTs are 0.5 s: segments 0 to 4.  1 is sent again twice, 3 and 4 in one packet with 5."""
    log = Log()
    for number in range(8):
        log.sent(0.1 * number, number)
    for now in (0.9, 1.0):
        log.sent(now, 1, retrans=1, sent_orig=8 * MSS)
    log.sent(1.1, 3, retrans=1, sent_orig=8 * MSS, len=3 * MSS, segs=3)
    log.sent(1.2, 7, retrans=1, sent_orig=8 * MSS)
    one, = start.read(written(tmp_path, log))
    assert (one.again, one.rtt_s) == (3, 0.1)


def test_a_connection_that_is_older_than_the_log_does_not_count(tmp_path):
    old, new = Log("1"), Log("2")
    old.sent(0, 3)
    old.changed(1, 5, 5, "recovery", 10)
    new.sent(0, 0)
    assert [each.cookie for each in start.read(written(tmp_path, old, new))] == ["2"]
    new.rows.clear()
    with pytest.raises(OperateError, match="has no connection's start"):
        start.read(written(tmp_path, old, new))


def test_series_and_table_of_a_log(net, tmp_path):
    net.satcc("route", "add", "203.0.113.0/24", "cubic", check=True)
    logs = [Log("1"), Log("2"), Log("3", "reno", "198.51.100.1")]
    for log, reason in zip(logs, ("ack", "recovery", "ack")):
        log.sent(0, 0)
        log.changed(1, 40, 40, reason, 64)
    path = written(tmp_path, *logs)
    values = parsed(net.satcc("metrics", "--log", path, check=True).stdout)
    label = 'policy="cubic",prefix="203.0.113.0/24"'
    assert values["satcc_start_connections", f'{label},reason="ack"'] == 1
    assert values["satcc_start_window_segments", f'{label},statistic="median"'] == 52
    assert values["satcc_start_again_segments", f'{label},statistic="max"'] == 0
    assert values["satcc_start_connections", 'policy="reno",prefix="default",reason="ack"'] == 1
    lines = net.satcc("metrics", "--log", path, "--flows", check=True).stdout.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["203.0.113.9", "443", "203.0.113.0/24", "cubic", "100.0", "ack", "40", "0"],
        ["203.0.113.9", "443", "203.0.113.0/24", "cubic", "100.0", "recovery", "64", "0"],
        ["198.51.100.1", "443", "default", "reno", "100.0", "ack", "40", "0"]]
    written_file = tmp_path / "start.prom"
    net.satcc("metrics", "--log", path, "-o", written_file, "--dry-run", check=True)
    assert not written_file.exists()
    net.satcc("metrics", "--log", path, "-o", written_file, check=True)
    assert parsed(written_file.read_text()) == values


@pytest.mark.parametrize("text, message", [
    (None, "cannot read .*: No such file"), ("a\tb\n1\t2\n", "lacks the columns t_s and ev"),
    ("t_s\tev\n1\tsegment_sent\n", "is not a table of satcc-log: KeyError"),
    ("t_s\tev\n", "has no connection's start")])
def test_a_file_that_is_no_log_is_one_line(tmp_path, capsys, text, message):
    path = tmp_path / "log.tsv"
    if text is not None:
        path.write_text(text)
    assert cli.main(["metrics", "--log", str(path)]) == 1
    assert re.fullmatch(rf"satcc: {re.escape(str(path)) if text else ''}.*{message}.*\n",
                        capsys.readouterr().err)


def test_flows_need_a_log(capsys):
    assert cli.main(["metrics", "--flows"]) == 2
    assert capsys.readouterr().err == "satcc: metrics --flows needs --log FILE\n"
