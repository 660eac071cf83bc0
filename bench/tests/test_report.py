# SPDX-License-Identifier: GPL-2.0
"""report.py against a made-up run: eight policies, two links, no guest."""

import io
import json
import math
import random
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.text import Text
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import report  # noqa: E402

OURS = ["hybla_full", "hybla_full iw_rho=1"]
POLICIES = OURS + ["hybla", "cubic", "bbr", "reno", "westwood", "illinois"]
SIZES = (100_000, 1_000_000, 10_000_000)
SEEDS = [1, 2, 3, 4, 5]
MSS = 1448
VOID = {"meta", "link", "img", "source", "br", "hr", "input"}


# ---- a made-up run ---------------------------------------------------------

def hex64(rng: random.Random) -> str:
    return f"{rng.getrandbits(256):064x}"


def sawtooth(rng, link: dict, jump: bool) -> dict:
    """A window that starts, overflows the queue, and saws from then on."""
    pipe = report.bdp_packets(link) + link["queue_packets"]
    window, threshold, series = 10.0, None, {"t_s": [], "cwnd": [], "ssthresh": []}
    for step in range(6000):
        if jump and step == 70:
            window = threshold = report.bdp_packets(link)
        elif threshold is None:
            window *= 1.011
        else:
            window += 0.02 * (1 + rng.random())
        if window > pipe:
            window = threshold = pipe * 0.6
        for key, value in zip(series, (step / 100, int(window), threshold)):
            series[key].append(value)
    return series


def sequence(rng, link: dict, seconds: float) -> dict:
    """Windows that double up to the pipe; one in thirty is sent again."""
    rtt = link["rtt_ms"] / 1000
    times = np.sort(rtt + (seconds - 2 * rtt) * np.linspace(0, 1, 691) ** 0.6)
    sent = np.arange(1, 692) * MSS / 1000
    again = np.array(sorted(rng.sample(range(120, 690), 23)))
    return {"segment_t_s": times, "segment_kB": sent,
            "retransmit_t_s": np.minimum(times[again] + 1.2 * rtt, seconds - rtt),
            "retransmit_kB": sent[again],
            "ack_t_s": (times + rtt)[::2], "ack_kB": sent[::2]}


def goodput(rng, link: dict) -> dict:
    net = link["net_rate_mbit"]
    return {"t_s": [i + 0.5 for i in range(60)],
            "mbit": [0.2 * net if i < 2 else net * rng.uniform(0.86, 1.0)
                     for i in range(60)]}


def make_bulk(rng, link: dict, policy: str, loss: float) -> dict:
    seeds = SEEDS if loss else [1]
    share = rng.uniform(0.2, 0.5) if loss else rng.uniform(0.85, 0.97)
    return {"policy": policy, "loss_pct": loss, "seeds": seeds,
            "goodput_mbit": [link["net_rate_mbit"] * share
                             * rng.uniform(0.9, 1.1 if loss else 1.0)
                             for _ in seeds],
            "t90_s": [rng.uniform(2, 30) for _ in seeds],
            "drops": [rng.randrange(200) for _ in seeds],
            "utilisation": [share * rng.uniform(0.98, 1.02) for _ in seeds],
            "hash": [hex64(rng) for _ in seeds]}


def make_link(rng, name: str, rate: float, net: float, queue: int) -> dict:
    link = {"name": name, "rtt_ms": 600, "rate_mbit": rate,
            "net_rate_mbit": net, "queue_packets": queue,
            "transfers": [], "bulk": [], "series": {}}
    for policy in POLICIES:
        for size in SIZES:
            ideal = size * 8 / net / 1e6 + 1.2
            seconds = ideal * rng.uniform(1.05, 2.2)
            link["transfers"].append({
                "policy": policy, "bytes": size, "seconds": seconds,
                "ideal_s": ideal, "drops": rng.randrange(100),
                "retransmits": rng.randrange(300), "hash": hex64(rng)})
        link["bulk"] += [make_bulk(rng, link, policy, loss)
                         for loss in (0.0, 1.0)]
        link["series"][policy] = {
            "cwnd": sawtooth(rng, link, policy.startswith("hybla")),
            "sequence": sequence(rng, link, link["transfers"][-2]["seconds"]),
            "goodput": goodput(rng, link)}
    return link


def make_data(seed: int = 1) -> dict:
    rng = random.Random(seed)
    return {
        "title": "GEO satellite link, one flow at a time",
        "about": {"kernel": "6.1.0-56-amd64", "emulator": "QEMU 7.2.22",
                  "date": "2026-11-21", "commit": None, "command": "make bench",
                  "wall_s": 301.2, "runs": 112, "from_cache": 3, "speed": 16.9,
                  "restore_s": 0.42,
                  "modules": {"tcp_hybla_full": "A1B2C3D4E5F60718293A4B5"},
                  "packages": {"iproute2": "6.1.0-3", "iperf3": "3.12-1"}},
        "policies": list(POLICIES), "ours": list(OURS),
        "links": [make_link(rng, "2 Mbit/s", 2.0, 1.913, 100),
                  make_link(rng, "10 Mbit/s", 10.0, 9.565, 500)],
        "notes": ["A line with <angle brackets> & an ampersand."]}


# ---- reading the page back -------------------------------------------------

class Page(HTMLParser):
    """Text, tables (rows of cell texts), bold cells and links of a page."""

    def __init__(self, html: str):
        super().__init__()
        self.tables, self.text, self.urls, self.bold = [], [], [], []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        self.urls += [v for k, v in attrs
                      if k in ("src", "srcset", "href", "data", "action")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.text.append(data)
        if "td" in self.open or "th" in self.open:
            gap = " " if "span" in self.open else ""
            self.tables[-1][-1][-1] += gap + data.strip()
        if "b" in self.open and "td" in self.open:
            self.bold.append((len(self.tables) - 1, len(self.tables[-1]) - 1,
                              len(self.tables[-1][-1]) - 1))


@pytest.fixture(scope="module")
def data():
    return make_data()


@pytest.fixture(scope="module")
def written(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return report.write_report(data, folder)


@pytest.fixture(scope="module")
def page(written):
    return Page(written.read_text(encoding="utf-8"))


def console_text(data: dict, width: int = 80) -> str:
    out = io.StringIO()
    report.print_tables(data, Console(file=out, width=width, color_system=None))
    return out.getvalue()


def column(values: dict, better=min, digits=2, **more) -> report.Column:
    return report.Column("group", "title", "s", digits, better,
                         {k: v if isinstance(v, list) else [v]
                          for k, v in values.items()}, **more)


def cells_of(values: dict, better=min, digits=2, **more) -> list:
    found = report.build_table(
        "t", [column(values, better, digits, **more)],
        {"policies": list(values), "ours": []}).rows
    return [row.cells[0] for row in found if row.kind != "ideal"]


def numbers_of(link: dict) -> list[str]:
    """Every figure measured on a link, as the page is to print it."""
    found = []
    for run in link["transfers"]:
        found += [f"{run['seconds']:.2f} s, {run['drops']} drops, "
                  f"{run['retransmits']} retransmissions", run["hash"]]
    for bulk in link["bulk"]:
        for i, digest in enumerate(bulk["hash"]):
            found += [f"{bulk['goodput_mbit'][i]:.2f} Mbit/s, "
                      f"90 % at {bulk['t90_s'][i]:.2f} s, "
                      f"{bulk['drops'][i]} drops, "
                      f"{bulk['utilisation'][i] * 100:.1f} % used", digest]
    return found


# ---- the page --------------------------------------------------------------

def test_page_has_every_policy_and_number(data, page):
    text = " ".join("".join(page.text).split())
    for link in data["links"]:
        assert link["name"] in text
        for number in numbers_of(link):
            assert number in text, number
    for table in page.tables[1:5]:
        assert [row[0] for row in table[2:2 + len(POLICIES)]] == POLICIES


def test_page_tables_hold_the_measurements(data, page):
    link = data["links"][0]
    times = {row[0]: row[1:] for row in page.tables[1][2:]}
    losses = {row[0]: row[1:] for row in page.tables[2][2:]}
    for policy in POLICIES:
        runs = [t for t in link["transfers"] if t["policy"] == policy]
        assert times[policy][:3] == [f"{t['seconds']:.2f}" for t in runs]
        assert losses[policy][:6] == [
            str(t[k]) for t in runs for k in ("drops", "retransmits")]
        clean, lossy = [b for b in link["bulk"] if b["policy"] == policy]
        assert times[policy][3] == f"{clean['goodput_mbit'][0]:.2f}"
        values = sorted(lossy["goodput_mbit"])
        assert times[policy][5] == (f"{values[2]:.2f} "
                                    f"{values[0]:.2f}–{values[4]:.2f}")


def test_ideal_is_the_last_row(data, page):
    for link, table in zip(data["links"], (page.tables[1], page.tables[3])):
        net = link["net_rate_mbit"]
        times = [f"{size * 8 / net / 1e6 + 1.2:.2f}" for size in SIZES]
        assert table[-1] == ["ideal", *times, f"{net:.2f}", "", f"{net:.2f}", ""]
    assert page.tables[2][-1][0] == POLICIES[-1]


def test_page_needs_nothing_from_outside(written, page):
    html = written.read_text(encoding="utf-8")
    assert page.open == []
    assert page.urls
    for url in page.urls:
        assert url.startswith(("data:image/svg+xml;base64,", "#")), url[:80]
    assert not re.search(r"https?://|url\(|@import|<script|<link", html)


def test_plots_are_files_that_stand_alone(data, written):
    files = sorted(p.name for p in (written.parent / "plots").iterdir())
    assert files == sorted(f"{link}-{key}.svg" for link in
                           ("2-mbit-s", "10-mbit-s")
                           for key in ("cwnd", "sequence", "goodput"))
    for path in (written.parent / "plots").iterdir():
        svg = path.read_text(encoding="utf-8")
        assert not re.search(r'href="(?!#|data:)', svg)


def test_same_data_same_page(data, written, tmp_path):
    again = report.write_report(data, tmp_path)
    assert again.read_bytes() == written.read_bytes()


def test_provenance_and_notes(data, page):
    text = "".join(page.text)
    assert "A line with <angle brackets> & an ampersand." in text
    about = data["about"]
    for key in ("kernel", "emulator", "date", "command", "wall_s", "speed"):
        assert str(about[key]) in text
    for versions in (about["modules"], about["packages"]):
        for name, version in versions.items():
            assert name in text and version in text
    assert ["commit", "not recorded"] in page.tables[5]


def drawn_texts(figure) -> list:
    """Labels, titles, notes, legend, and the tick labels within the limits."""
    texts = [*figure.texts, *figure.legends[0].get_texts()]
    for axes in figure.axes:
        texts += [c for c in axes.get_children() if isinstance(c, Text)]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = axis.get_view_interval()
            texts += [label for place, label in zip(axis.get_majorticklocs(),
                                                    axis.get_majorticklabels())
                      if low <= place <= high]
    return [t for t in texts if t.get_visible() and t.get_text()]


@pytest.mark.parametrize("layout", [report.WIDE, report.NARROW])
@pytest.mark.parametrize("plot", report.PLOTS, ids=lambda plot: plot.key)
def test_no_text_is_clipped_or_overlaps(data, layout, plot):
    with report.matplotlib.rc_context(report.STYLE):
        figure = report.draw_figure(plot, data["links"][0], data, layout)
        figure.set_dpi(100)
        figure.draw_without_rendering()
        inside = [(t.get_text(), t.get_window_extent())
                  for t in drawn_texts(figure)]
    for text, b in inside:
        assert b.x0 >= 0 and b.y0 >= 0, text
        assert b.x1 <= figure.bbox.width and b.y1 <= figure.bbox.height, text
    for i, (text, b) in enumerate(inside):
        for other, c in inside[:i]:
            assert not b.overlaps(c), (text, other)


# ---- missing, ties, ranges -------------------------------------------------

@pytest.mark.parametrize("gap", [None, math.nan, math.inf])
def test_missing_figures_are_dashes(gap):
    assert [c.text for c in cells_of({"a": gap, "b": 2.0})] == ["–", "2.00"]
    assert cells_of({"a": [], "b": 1})[0].text == "–"


def test_missing_measurements_reach_page_and_terminal(tmp_path):
    data = make_data()
    link = data["links"][0]
    link["transfers"][0].update(seconds=None, drops=math.nan, hash=None)
    link["bulk"] = [b for b in link["bulk"] if b["policy"] != "cubic"]
    link["bulk"][0]["t90_s"] = [None]
    del link["series"]["bbr"]
    link["series"]["reno"]["cwnd"] = {"t_s": [], "cwnd": [], "ssthresh": []}
    page = Page(report.write_report(data, tmp_path).read_text(encoding="utf-8"))
    times = {row[0]: row[1:] for row in page.tables[1][2:]}
    assert times["hybla_full"][0] == "–" and times["hybla_full"][4] == "–"
    assert times["cubic"][3:] == ["–"] * 4
    text = console_text(data)
    assert "nan" not in text.lower()
    row = next(r for r in text.splitlines() if "cubic" in r)
    assert row.count("–") == 4


def test_nothing_measured_at_all(tmp_path):
    data = make_data()
    for link in data["links"]:
        link.update(transfers=[], bulk=[], series={})
    assert report.write_report(data, tmp_path).exists()
    console_text(data)


def test_median_and_range_of_the_seeds():
    cell = cells_of({"a": [5.0, 1.0, 3.0], "b": 4.0})[0]
    assert (cell.text, cell.spread) == ("3.00", "1.00–5.00")
    cell = cells_of({"a": [5.0, None, 3.0], "b": 4.0})[0]
    assert (cell.text, cell.spread) == ("4.00", "3.00–5.00 (2 of 3)")


def test_never_counts_as_the_worst_not_as_missing():
    some, most, none = cells_of(
        {"some": [3.0, None, 4.0], "most": [None, 2.0, None],
         "none": [None, None, None]}, endless=True)
    assert (some.text, some.spread, some.best) == ("4.00", "3.00–never", True)
    assert (most.text, most.spread, most.best) == ("–", "2.00–never", False)
    assert (none.text, none.spread) == ("–", "")


def test_best_is_marked_by_what_is_printed():
    def best(*args, **kwargs):
        return [c.best for c in cells_of(*args, **kwargs)]
    assert best({"a": 2.0, "b": 1.0, "c": 3.0}) == [False, True, False]
    assert best({"a": 2.0, "b": 1.0, "c": 3.0}, max) == [False, False, True]
    assert best({"a": 1.001, "b": 1.004, "c": 3.0}) == [True, True, False]
    assert best({"a": 7, "b": 7, "c": None}, digits=0) == [False] * 3
    assert best({"a": 7, "b": None}, digits=0) == [True, False]
    assert best({"a": None, "b": None}) == [False, False]
    assert best({"a": 2.0, "b": 3.0}, ideal=1.0) == [True, False]
    assert best({"a": [0, 1], "b": 1}, digits=0) == [True, False]


def test_page_bolds_the_same_cells(data, page):
    number = 0
    for link in data["links"]:
        for table in report.link_tables(link, data):
            number += 1
            marked = {(number, 2 + r, 1 + c) for r, row in enumerate(table.rows)
                      for c, cell in enumerate(row.cells) if cell.best}
            assert marked
            assert marked == {b for b in page.bold if b[0] == number}


# ---- terminal --------------------------------------------------------------

@pytest.mark.parametrize("width", [80, 100, 200])
def test_terminal_tables_fit(data, width):
    text = console_text(data, width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100
    assert "…" not in text


def test_terminal_has_the_cells_of_the_page(data):
    text = console_text(data)
    for link in data["links"]:
        for table in report.link_tables(link, data):
            for row in table.rows:
                for cell in row.cells:
                    assert cell.text + ("*" if cell.best else "") in text
                    assert cell.spread.split(" (")[0] in text
    for policy in OURS:
        assert f"> {policy}" in text


def test_printing_leaves_the_console_as_it_was(data):
    console = Console(file=io.StringIO(), width=80)
    report.print_tables(data, console)
    assert console.width == 80


# ---- JSON, thinning --------------------------------------------------------

def test_json_is_sorted_and_has_nulls(tmp_path):
    path = report.write_json(
        {"b": math.nan, "a": [1, math.inf, np.float64(2.5)],
         "c": np.array([1.0, np.nan]), "d": {"y": None, "x": "–"}},
        tmp_path / "new")
    assert path == tmp_path / "new" / "bench.json"
    text = path.read_text(encoding="utf-8")
    assert list(json.loads(text)) == ["a", "b", "c", "d"]
    assert json.loads(text) == {"a": [1, None, 2.5], "b": None, "c": [1.0, None],
                                "d": {"x": "–", "y": None}}
    assert "NaN" not in text and "Infinity" not in text


def test_page_is_the_same_from_the_json(data, written, tmp_path):
    path = report.write_json(data, tmp_path)
    again = json.loads(path.read_text(encoding="utf-8"))
    page = report.write_report(again, tmp_path)
    assert page.read_bytes() == written.read_bytes()


def test_thinned_line_keeps_peaks_and_ends():
    x = np.linspace(0, 60, 50_000)
    y = np.sin(x)
    y[12_345], y[40_000] = 9.0, -9.0
    y[20_000:20_010] = np.nan
    thin_x, thin_y = report.thin_line(x, y)
    assert len(thin_x) <= 4 * (report.THIN_COLUMNS + 1)
    assert (thin_x[0], thin_x[-1]) == (x[0], x[-1])
    assert np.nanmax(thin_y) == 9.0 and np.nanmin(thin_y) == -9.0
    assert set(zip(thin_x, np.nan_to_num(thin_y))) <= set(zip(x, np.nan_to_num(y)))
    short = np.arange(100.0)
    assert report.thin_line(short, short)[0] is short


def test_thinned_points_stay_within_a_cell():
    x = np.linspace(0, 10, 20_000)
    thin_x, thin_y = report.thin_points(x, x, 10, 10)
    assert len(thin_x) < 1000
    nearest = np.abs(x[:, None] - thin_x[None, ::1]).min(axis=1)
    assert nearest.max() <= 10 / report.THIN_ROWS


def test_what_lies_off_the_axis_is_written_away_from_it(data):
    link = data["links"][0]
    wild = {"t_s": [0, 1, 2, 50, 60], "cwnd": [10, 65536, 100, 120, 90]}
    tame = {"t_s": [0, 60], "cwnd": [10, 190]}
    limits = report.cwnd_limits(link, {"wild": wild, "tame": tame})
    pipe = report.bdp_packets(link) + link["queue_packets"]
    assert pipe < limits[1] < 4 * pipe       # room for a saw, not for the spike
    axes = report.Figure().add_axes((0, 0, 1, 1))
    report.draw_cwnd(axes, link, wild, "black", limits)
    note, = axes.texts
    assert note.get_text() == "peak 65536, off the axis"
    assert note.get_ha() == "right"
    axes.clear()
    report.draw_cwnd(axes, link, tame, "black", limits)
    assert not axes.texts


def test_infinite_ssthresh_is_not_drawn(data):
    link = dict(data["links"][0])
    series = {"t_s": [0, 1, 2], "cwnd": [10, 20, 30],
              "ssthresh": [2**31 - 1, None, 25]}
    axes = report.Figure().add_axes((0, 0, 1, 1))
    report.draw_cwnd(axes, link, series, "black", (60, 200))
    drawn = [line.get_ydata() for line in axes.lines if len(line.get_ydata()) == 3]
    assert np.isnan(drawn[0][:2]).all() and drawn[0][2] == 25
