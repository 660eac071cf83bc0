# SPDX-License-Identifier: GPL-2.0
"""What Prometheus says of the series of `satcc metrics`, and of the dashboard's expressions.

promtool is from Debian's package, which is unpacked and not installed.
"""

import json
import re
import subprocess

import pytest

from bench.lab import packages
from bench.paths import BUILD
from selftests.operate.test_metrics import DASHBOARD, all_samples
from tools.satcc_operate import metrics

MINUTES = 10
# A value of a Grafana variable, as in an expression that Grafana sends.
VARIABLES = {"$__rate_interval": "4m", "$instance": ".*", "$policy": ".*", "$prefix": ".*"}


@pytest.fixture(scope="module")
def promtool():
    tree = packages.unpack(["prometheus"], BUILD / "prometheus", False, only="./usr/bin/promtool")
    return tree / "usr/bin/promtool"


def run(*command, **keywords):
    return subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False, **keywords)


def expressions():
    """The panels' expressions, as Grafana sends them."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            text = target["expr"]
            for name, value in VARIABLES.items():
                text = text.replace(name, value)
            yield text


def results(promtool, folder, samples):
    """Expression -> the labels of what it yields after some minutes of these series, each growing."""
    series = [{"series": line.rsplit(" ", 1)[0].replace("{", '{instance="sat:9100",job="node",'),
               "values": f"{value}+{value}x{MINUTES}"}
              for line in metrics.text(samples).splitlines() if not line.startswith("#")
              for value in [float(line.rsplit(" ", 1)[1])]]
    # An expectation that fails makes promtool print what there is.
    tests = [{"expr": text, "eval_time": f"{MINUTES}m", "exp_samples": [{"labels": "none", "value": -1}]}
             for text in expressions()]
    (folder / "test.yml").write_text(json.dumps({"evaluation_interval": "1m", "tests": [
        {"interval": "1m", "input_series": series, "promql_expr_test": tests}]}))
    said = run(promtool, "test", "rules", folder / "test.yml").stdout
    found = re.findall(r'expr: "((?:[^"\\]|\\.)*)", time: 10m,\s+exp:.*?\n\s+got:(.*?)'
                       r"(?=\n\s+expr:|\n\n|\Z)", said, re.S)
    return {json.loads(f'"{text}"'): re.findall(r"\{.*?\} \S+", got) for text, got in found}, said


def test_prometheus_takes_the_series(promtool):
    done = run(promtool, "check", "metrics", input=metrics.text(all_samples()))
    assert (done.returncode, done.stdout) == (0, "")


def test_each_expression_of_the_dashboard_has_a_result(promtool, tmp_path):
    yielded, said = results(promtool, tmp_path, all_samples())
    assert list(yielded) == list(dict.fromkeys(expressions())), said
    for text, labels in yielded.items():
        assert labels, (text, said)
