# SPDX-License-Identifier: GPL-2.0
"""The comparison's tables, plots and page of a made-up run: twelve policies, two links, no guest."""

import copy
import io
import json
import math
import random
import re
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from rich.console import Console

from bench.compare import plots, tables, webpage
from bench.compare.tables import MISSING
from tools.satcc_tools import graphs

OURS = ["hybla_full", "hybla_full iw_rho=1", "mtsi", "ibk", "constant_rate",
        "westwood_abse"]
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
    pipe = link["bdp_packets"] + link["queue_packets"]
    window, threshold, series = 10.0, None, {"t_s": [], "cwnd": [], "ssthresh": []}
    for step in range(6000):
        if jump and step == 70:
            window = threshold = link["bdp_packets"]
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
            "net_rate_mbit": net, "bdp_packets": queue, "queue_packets": queue,
            "transfers": [], "bulk": [], "series": {},
            "floors": [{"bytes": size, "receiver": receiver, "seconds": size * 8 / net / 1e6 + more}
                       for size in SIZES for receiver, more in (("receiver", 1.7), ("stock", 1.9))]}
    for policy in POLICIES:
        for size in SIZES:
            ideal = size * 8 / net / 1e6 + 1.2
            seconds = ideal * rng.uniform(1.05, 2.2)
            link["transfers"].append({
                "policy": policy, "bytes": size, "seconds": seconds,
                "ideal_s": ideal, "drops": rng.randrange(100),
                "retransmits": rng.randrange(300), "hash": hex64(rng),
                "receiver_limited_s": rng.uniform(0, 2)})
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
                  {**make_link(rng, "10 Mbit/s", 10.0, 9.565, 500), "series": {}}],
        "notes": ["A line with <angle brackets> & an ampersand."]}


def make_small() -> dict:
    """The same of four policies on the first link: its figures are drawn in a tenth of the time."""
    data = make_data()
    data["links"] = data["links"][:1]
    data["policies"] = ["hybla_full", "cubic", "bbr", "reno"]
    return data


def make_cost_row(rng, policy: str, loss: float) -> dict:
    acks = rng.randrange(5000, 20_000)
    callbacks = [
        {"slot": slot, "name": f"{policy.split()[0]}_{slot}", "calls": acks * often // 10,
         "calls_per_ack": often / 10, "interrupted": rng.randrange(4),
         "mean": rng.uniform(5, 300), "median": float(rng.randrange(5, 300))}
        for slot, often in (("cong_avoid", 7), ("pkts_acked", 10), ("min_tso_segs", 31))]
    return {"policy": policy, "loss_pct": loss, "acks": acks, "overhead": 184.0,
            "known": 1000.0, "callbacks": callbacks, "hash": hex64(rng),
            "per_ack": sum(c["calls_per_ack"] * c["mean"] for c in callbacks)}


def make_long_row(rng, policy: str, loss: float, flows: int) -> dict:
    rates = [[rng.uniform(0.4, 90) / flows for _ in range(flows)] for _ in SEEDS[:3]]
    return {"policy": policy, "loss_pct": loss, "flows_mbit": rates,
            "goodput_mbit": [sum(r) for r in rates],
            "jain": [rng.uniform(0.25, 1) for _ in rates], "seeds": SEEDS[:3],
            "drops": [rng.randrange(9000) for _ in rates],
            "sndbuf_limited_pct": [0.0, 0.0, 0.125],
            "rwnd_limited_pct": [0.0, 6.25, 0.0], "hash": [hex64(rng) for _ in rates]}


def make_beside(rng, rtt_ms: float, policies) -> dict:
    return {"name": "10 Mbit/s", "rtt_ms": rtt_ms, "rate_mbit": 10, "net_rate_mbit": 9.56,
            "bdp_packets": 33, "queue_packets": 33, "seconds": 60, "rival": "cubic", "rows": [
                {"policy": policy, "own_mbit": [rng.uniform(2, 9) for _ in range(3)],
                 "rival_mbit": [rng.uniform(0.2, 6) for _ in range(3)],
                 "rival_pct": [rng.uniform(4, 130) for _ in range(3)],
                 "drops": [rng.randrange(12_000) for _ in range(3)], "seeds": [1, 2, 3],
                 "hash": [hex64(rng) for _ in range(3)]}
                for policy in policies]}


def make_full(seed: int = 1) -> dict:
    """With the sections that not every run has; one link and no series, which take long to draw."""
    rng, data = random.Random(seed), make_data(seed)
    del data["links"][1]
    data["links"][0]["series"] = {}
    single = [p for p in POLICIES if "=" not in p]
    data["cost"] = {"link": "10 Mbit/s", "seconds": 30, "rtt_ms": 600.0, "rows": [
        make_cost_row(rng, policy, loss) for policy in single for loss in (0, 1)]}
    data["log"] = {"link": "10 Mbit/s", "cc": "cubic", "bytes": 10_000_000, "rows": [
        {"mode": mode, "segments": 6909, "acks": 6908, "records": records,
         "busy_per_segment": 50_000.0 + added, "per_segment": float(added),
         "per_packet": added / 2, "per_record": 6909 * added / records if records else None}
        for mode, records, added in (("not loaded", 0, 0), ("no event on", 0, -28),
                                     ("segment_sent", 6909, 1762), ("all three", 14_000, 5452))]}
    data["beside"] = {"links": [make_beside(rng, rtt_ms, single) for rtt_ms in (40.0, 250.0)]}
    data["long"] = {
        "name": "100 Mbit/s", "rtt_ms": 520, "rate_mbit": 100, "net_rate_mbit": 95.64,
        "bdp_packets": 4294, "queue_packets": 4294, "seconds": 30, "flows": 4,
        "rows": [make_long_row(rng, policy, loss, 1)
                 for policy in single for loss in (0.1, 1)],
        "shared": [make_long_row(rng, policy, 0.1, 4)
                   for policy in ("westwood_abse", "cubic", "bbr")]}
    data["checks"] = {
        "hybla_full": {"runs": 14, "changes": 4711, "differences": [], "unchecked": []},
        "mtsi": {"runs": 13, "changes": 99, "unchecked": [],
                 "differences": ["event 7: cwnd should be 3, is 4", "another"]},
        "ibk": {"runs": 0, "changes": 0, "differences": [],
                "unchecked": ["the oracle has no such policy"]}}
    return data


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
def full():
    return make_full()


@pytest.fixture(scope="module")
def full_written(full, tmp_path_factory):
    return webpage.write_report(full, tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def full_page(full_written):
    return Page(full_written.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def written(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return webpage.write_report(data, folder)


@pytest.fixture(scope="module")
def page(written):
    return Page(written.read_text(encoding="utf-8"))


def console_text(data: dict, width: int = 80) -> str:
    out = io.StringIO()
    tables.print_tables(data, Console(file=out, width=width, color_system=None))
    return out.getvalue()


def column(values: dict, better=min, digits=2, **more) -> tables.Column:
    return tables.Column("group", "title", "s", digits, better,
                         {k: v if isinstance(v, list) else [v]
                          for k, v in values.items()}, **more)


def cells_of(values: dict, better=min, digits=2, **more) -> list:
    table = tables.build_table(
        "t", [column(values, better, digits, **more)],
        {"policies": list(values), "ours": []}).rows
    return [row.cells[0] for row in table if row.kind != "ideal"]


def numbers_of(link: dict) -> list[str]:
    """Every figure measured on a link, as the page is to print it."""
    numbers = []
    for run in link["transfers"]:
        numbers += [f"{run['seconds']:.2f} s, {run['drops']} drops, "
                    f"{run['retransmits']} retransmissions", run["hash"]]
    for bulk in link["bulk"]:
        for i, digest in enumerate(bulk["hash"]):
            numbers += [f"{bulk['goodput_mbit'][i]:.2f} Mbit/s, "
                        f"90 % at {bulk['t90_s'][i]:.2f} s, "
                        f"{bulk['drops'][i]} drops, "
                        f"{bulk['utilisation'][i] * 100:.1f} % used", digest]
    return numbers


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
        assert losses[policy][6] == f"{runs[-1]['receiver_limited_s']:.2f}"
        clean, lossy = [b for b in link["bulk"] if b["policy"] == policy]
        assert times[policy][3] == f"{clean['goodput_mbit'][0]:.2f}"
        values = sorted(lossy["goodput_mbit"])
        assert times[policy][5] == (f"{values[2]:.2f} "
                                    f"{values[0]:.2f}–{values[4]:.2f}")


def test_the_rows_without_congestion_control_are_last(data, page):
    """By the link, and by two receivers, which bound transfers alone."""
    for link, table in zip(data["links"], (page.tables[1], page.tables[3])):
        net = link["net_rate_mbit"]
        times = [[f"{size * 8 / net / 1e6 + more:.2f}" for size in SIZES] for more in (1.2, 1.7, 1.9)]
        assert table[-3] == ["ideal", *times[0], f"{net:.2f}", "", f"{net:.2f}", ""]
        assert table[-2] == ["no control", *times[1], "", "", "", ""]
        assert table[-1] == ["stock receiver", *times[2], "", "", "", ""]
    assert page.tables[2][-1][0] == POLICIES[-1]


def test_page_needs_nothing_from_outside(written, page):
    html = written.read_text(encoding="utf-8")
    assert page.open == []
    assert page.urls
    for url in page.urls:
        assert url.startswith(("data:image/svg+xml;base64,", "#")), url[:80]
    assert not re.search(r"https?://|url\(|@import|<script|<link", html)


def test_plots_are_self_contained_files(written):
    """Of the first link; the second has no series."""
    files = sorted(p.name for p in (written.parent / "plots").iterdir())
    assert files == sorted(f"2-mbit-s-{key}.svg" for key in ("cwnd", "sequence", "goodput"))
    for path in (written.parent / "plots").iterdir():
        svg = path.read_text(encoding="utf-8")
        assert not re.search(r'href="(?!#|data:)', svg)


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


@pytest.mark.parametrize("layout", [plots.WIDE, plots.NARROW])
@pytest.mark.parametrize("plot", plots.PLOTS, ids=lambda plot: plot.key)
def test_no_text_is_clipped_or_overlaps(data, layout, plot):
    with matplotlib.rc_context(graphs.STYLE):
        figure = plots.draw_figure(plot, data["links"][0], data, layout)
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
    data = make_small()
    link = data["links"][0]
    link["transfers"][0].update(seconds=None, drops=math.nan, hash=None)
    link["bulk"] = [b for b in link["bulk"] if b["policy"] != "cubic"]
    link["bulk"][0]["t90_s"] = [None]
    del link["series"]["bbr"]
    link["series"]["reno"]["cwnd"] = {"t_s": [], "cwnd": [], "ssthresh": []}
    page = Page(webpage.write_report(data, tmp_path).read_text(encoding="utf-8"))
    times = {row[0]: row[1:] for row in page.tables[1][2:]}
    assert times["hybla_full"][0] == "–" and times["hybla_full"][4] == "–"
    assert times["cubic"][3:] == ["–"] * 4
    text = console_text(data)
    assert "nan" not in text.lower()
    row = next(r for r in text.splitlines() if "cubic" in r)
    assert row.count("–") == 4


def test_nothing_measured_at_all(tmp_path):
    data = make_small()
    for link in data["links"]:
        empty = {"cwnd": {"t_s": [], "cwnd": [], "ssthresh": []}}
        link.update(transfers=[], bulk=[], series={"reno": empty, "bbr": {}})
    assert webpage.write_report(data, tmp_path).exists()
    assert not list((tmp_path / "plots").iterdir())
    for plot in plots.PLOTS:
        plots.draw_figure(plot, data["links"][0], data, plots.WIDE)
    console_text(data)


def test_median_and_range_of_the_seeds():
    cell = cells_of({"a": [5.0, 1.0, 3.0], "b": 4.0})[0]
    assert (cell.text, cell.spread) == ("3.00", "1.00–5.00")
    cell = cells_of({"a": [5.0, None, 3.0], "b": 4.0})[0]
    assert (cell.text, cell.spread) == ("4.00", "3.00–5.00 (2 of 3)")


def test_a_value_never_reached_counts_as_the_worst():
    some, most, none = cells_of(
        {"some": [3.0, None, 4.0], "most": [None, 2.0, None],
         "none": [None, None, None]}, endless=True)
    assert (some.text, some.spread, some.best) == ("4.00", "3.00–never", True)
    assert (most.text, most.spread, most.best) == ("–", "2.00–never", False)
    assert (none.text, none.spread) == ("–", "")


def test_best_is_marked_by_printed_digits():
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
        for table in (tables.speed_table(link, data), tables.loss_table(link, data)):
            number += 1
            marked = {(number, 2 + r, 1 + c) for r, row in enumerate(table.rows)
                      for c, cell in enumerate(row.cells) if cell.best}
            assert marked
            assert marked == {b for b in page.bold if b[0] == number}


# ---- terminal --------------------------------------------------------------

def test_the_page_opens_with_the_best_of_each_column_and_ends_with_definitions(page, data, written):
    """The first table names what the tables of times and goodput have in bold."""
    heads = re.findall(r"<h2.*?>(.*?)</h2>", written.read_text(encoding="utf-8"))
    assert (heads[0], heads[-1]) == ("Which policy for which link", "What was measured")
    opening = [row[1:] for row in page.tables[0][1:]]
    bold = []
    for number, link in zip((1, 3), data["links"]):
        units = {"goodput": "Mbit/s", "to 90 %": "s"}
        for column, title in enumerate(page.tables[number][1][1:], 1):
            best = [page.tables[number][row] for table, row, at in page.bold
                    if (table, at) == (number, column)]
            bold += [[", ".join(row[0] for row in best), f"{best[0][column].split()[0]} "
                      + units.get(title.rpartition(" ")[0], "s")]]
    assert [row[1:] for row in opening] == bold and len(bold) == 14


def test_the_answer_names_the_best_of_those_that_leave_others_their_share(full, full_page):
    """The rows of the planted figures: 40 ms and 250 ms, each policy's rival beside it."""
    data = {**full, "beside": copy.deepcopy(full["beside"])}
    for link in data["beside"]["links"]:
        for row in link["rows"]:
            row.update(own_mbit=[5], rival_mbit=[5])
        pair, = [row for row in link["rows"] if row["policy"] == link["rival"]]
        pair.update(own_mbit=[6, 8, 9], rival_mbit=[4, 2, 5])
    everybody = webpage.sharing(data)
    assert everybody == {row["policy"] for row in data["beside"]["links"][0]["rows"]}
    for rival_mbit, is_sharing in ((3.8, True), (3.79, False)):
        row = next(row for row in data["beside"]["links"][1]["rows"] if row["policy"] == "mtsi")
        row["rival_mbit"] = [rival_mbit, 1, 9]
        assert ("mtsi" in webpage.sharing(data)) == is_sharing
    assert webpage.sharing({**data, "beside": None}) is None
    table = tables.speed_table(data["links"][0], data)
    rows = webpage.best_rows(table, everybody - {"mtsi"})
    values = {row.name: row.cells for row in table.rows if row.kind != "ideal"}
    for asked, _, _, sharing, value in rows:
        number, = [n for n, column in enumerate(table.columns)
                   if asked == f"{column.group}, {column.title}"]
        some = {name: float(cells[number].text) for name, cells in values.items()
                if name in everybody - {"mtsi"} and cells[number].text != MISSING}
        lead = table.columns[number].better(some.values())
        assert sharing == ", ".join(name for name, figure in some.items() if figure == lead)
        assert float(value.split()[0]) == lead
    assert full_page.tables[0][0][4].split() == "best that leaves cubic its share".split()
    for column in table.columns:        # as good as each other, and worse than some other policy
        column.values.update(mtsi=[9999], cubic=[9999])
    assert {sharing for *_, sharing, _ in webpage.best_rows(table, {"mtsi", "cubic"})} == {"mtsi, cubic"}


@pytest.mark.parametrize("width", [80, 100, 200])
def test_terminal_tables_fit(data, width):
    text = console_text(data, width)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100
    assert "…" not in text


def test_terminal_has_the_cells_of_the_page(data):
    text = console_text(data)
    for link in data["links"]:
        for table in (tables.speed_table(link, data), tables.loss_table(link, data)):
            for row in table.rows:
                for cell in row.cells:
                    assert cell.text + ("*" if cell.best else "") in text
                    assert cell.spread.split(" (")[0] in text
    for policy in OURS:
        assert f"> {policy}" in text


def test_printing_leaves_the_console_as_it_was(data):
    console = Console(file=io.StringIO(), width=80)
    tables.print_tables(data, console)
    assert console.width == 80


# ---- JSON, thinning --------------------------------------------------------

def test_json_is_sorted_and_has_nulls(tmp_path):
    path = webpage.write_json(
        {"b": math.nan, "a": [1, math.inf, np.float64(2.5)],
         "c": np.array([1.0, np.nan]), "d": {"y": None, "x": "–"}},
        tmp_path / "new")
    assert path == tmp_path / "new" / "bench.json"
    text = path.read_text(encoding="utf-8")
    assert list(json.loads(text)) == ["a", "b", "c", "d"]
    assert json.loads(text) == {"a": [1, None, 2.5], "b": None, "c": [1.0, None],
                                "d": {"x": "–", "y": None}}
    assert "NaN" not in text and "Infinity" not in text


def test_thinned_line_keeps_peaks_and_ends():
    x = np.linspace(0, 60, 50_000)
    y = np.sin(x)
    y[12_345], y[40_000] = 9.0, -9.0
    y[20_000:20_010] = np.nan
    thin_x, thin_y = graphs.thin_line(x, y)
    assert len(thin_x) <= 4 * (graphs.THIN_COLUMNS + 1)
    assert (thin_x[0], thin_x[-1]) == (x[0], x[-1])
    assert np.nanmax(thin_y) == 9.0 and np.nanmin(thin_y) == -9.0
    assert set(zip(thin_x, np.nan_to_num(thin_y))) <= set(zip(x, np.nan_to_num(y)))
    short = np.arange(100.0)
    assert graphs.thin_line(short, short)[0] is short


def test_thinned_points_stay_within_a_cell():
    x = np.linspace(0, 10, 20_000)
    thin_x, thin_y = graphs.thin_points(x, x, 10, 10)
    assert len(thin_x) < 1000
    nearest = np.abs(x[:, None] - thin_x[None, ::1]).min(axis=1)
    assert nearest.max() <= 10 / graphs.THIN_ROWS


def test_notes_on_values_off_the_axis_stand_clear_of_it(data):
    link = data["links"][0]
    wild = {"t_s": [0, 1, 2, 50, 60], "cwnd": [10, 65536, 100, 120, 90]}
    tame = {"t_s": [0, 60], "cwnd": [10, 190]}
    limits = plots.cwnd_limits(link, {"wild": wild, "tame": tame})
    pipe = link["bdp_packets"] + link["queue_packets"]
    assert pipe < limits[1] < 4 * pipe       # room for a saw, not for the spike
    axes = Figure().add_axes((0, 0, 1, 1))
    plots.draw_cwnd(axes, link, wild, "black", limits)
    note, = axes.texts
    assert note.get_text() == "peak 65536, off the axis"
    assert note.get_ha() == "right"
    axes.clear()
    plots.draw_cwnd(axes, link, tame, "black", limits)
    assert not axes.texts


def test_infinite_ssthresh_is_not_drawn(data):
    link = dict(data["links"][0])
    series = {"t_s": [0, 1, 2], "cwnd": [10, 20, 30],
              "ssthresh": [2**31 - 1, None, 25]}
    axes = Figure().add_axes((0, 0, 1, 1))
    plots.draw_cwnd(axes, link, series, "black", (60, 200))
    drawn = [line.get_ydata() for line in axes.lines if len(line.get_ydata()) == 3]
    assert np.isnan(drawn[0][:2]).all() and drawn[0][2] == 25


# ---- cost, the faster link, the oracle --------------------------------------

def table_after(page: Page, *header: str) -> list[list[str]]:
    """The one table whose head has these cells, from its first policy on."""
    tables_after = [t for t in page.tables if len(t) > 1 and all(
        any(word in cell for row in t[:2] for cell in row) for word in header)]
    assert len(tables_after) == 1, header
    return tables_after[0][2:]


def test_a_run_without_optional_data_has_no_such_sections(page, data):
    text = " ".join("".join(page.text).split())
    assert "What an ACK costs" not in text and "random loss where" in text
    assert "oracle" not in text and "Jain" not in text + console_text(data)


def test_cost_is_shown_per_ack_and_by_callback(full, full_page):
    rows = {row[0]: row[1:] for row in table_after(full_page, "on ACKs")}
    assert set(rows) == {p for p in POLICIES if "=" not in p}
    clean, lossy = [r for r in full["cost"]["rows"] if r["policy"] == "cubic"]
    wanted = []
    for row in (clean, lossy):
        avoid, acked, _ = row["callbacks"]
        wanted += [f"{row['per_ack']:.1f}",
                   f"{avoid['mean'] * 0.7 + acked['mean'] * 1.0:.1f}",
                   f"{avoid['mean'] + acked['mean']:.1f}"]
    assert rows["cubic"] == wanted
    calls = [row for row in table_after(full_page, "callback", "function")
             if row[2].startswith("cubic_")]
    assert [row[0] for row in calls] == ["cubic", "", ""]
    assert [row[1] for row in calls] == ["cong_avoid", "pkts_acked", "min_tso_segs"]
    first = [run["callbacks"][0] for run in (clean, lossy)]
    assert calls[0][3:] == [text for c in first for text in (
        "0.700", f"{c['mean']:.1f}", f"{c['median']:.1f}")]
    text = " ".join("".join(full_page.text).split())
    assert "measured as 1000.00" in text
    hits = sum(c["interrupted"] for r in full["cost"]["rows"] for c in r["callbacks"])
    assert f"{hits} of" in text


def test_a_callback_without_calls_at_a_loss_has_dashes(full):
    data = json.loads(json.dumps(webpage.plain(full)))
    del data["cost"]["rows"][0]["callbacks"][2]
    last = [row for row in webpage.cost_breakdown(data) if row["name"] == "hybla_full_min_tso_segs"]
    assert [row["cells"][:3] for row in last] == [["–", "–", "–"]]


def test_the_loggers_cost_is_shown_by_event(full, full_page):
    rows = {row[0]: row[1:] for row in table_after(full_page, "events on", "records")}
    assert rows["segment_sent"] == ["6909", "51762", "1762", "881", "1762"]
    assert rows["no event on"] == ["0", "49972", "-28", "-14", "–"]
    assert "6909 segments sent and 6908 received" in " ".join("".join(full_page.text).split())
    assert "satcc_log, 10 Mbit/s, cubic, 10 MB" in console_text(full)


def test_the_faster_link_has_a_table_by_loss_and_one_of_shares(full, full_page):
    alone, shared = tables.long_tables(full)
    assert [name for name, _ in alone.groups()] == ["30 s, 0.1 % loss", "30 s, 1 % loss"]
    assert [row.name for row in shared.rows] == ["westwood_abse", "cubic", "bbr"]
    rows = {row[0]: row[1:] for row in table_after(full_page, "Jain's index")}
    bbr = next(r for r in full["long"]["shared"] if r["policy"] == "bbr")
    low, mid, high = sorted(bbr["jain"])
    assert rows["bbr"][1] == f"{mid:.3f} {low:.3f}–{high:.3f}"
    text = " ".join("".join(full_page.text).split())
    assert "0.1 % of a run was spent waiting for room" in text
    assert "6.2 % for the receiver's window" in text
    for row in full["long"]["rows"]:
        for rate, digest in zip(row["goodput_mbit"], row["hash"]):
            assert f"{rate:.2f} Mbit/s" in text and digest in text


def test_a_rivals_share_is_shown_by_path(full, full_page):
    table = tables.beside_table(full)
    assert [name for name, _ in table.groups()] == ["40 ms", "250 ms"]
    rows = {row[0]: row[1:] for row in table_after(full_page, "% of share")}
    text = " ".join("".join(full_page.text).split())
    for nth, link in enumerate(full["beside"]["links"]):
        for row in link["rows"]:
            own, rival, percent, drops = rows[row["policy"]][4 * nth:4 * nth + 4]
            for cell, key, digits in ((own, "own_mbit", 2), (rival, "rival_mbit", 2),
                                      (percent, "rival_pct", 0), (drops, "drops", 0)):
                low, middle, high = (f"{value:.{digits}f}" for value in sorted(row[key]))
                assert cell.split() == [middle, f"{low}–{high}"]
            for nth_seed, digest in enumerate(row["hash"]):
                rates = [f"{row[key][nth_seed]:.2f}" for key in ("own_mbit", "rival_mbit")]
                assert f"{', '.join(rates)} Mbit/s, {row['drops'][nth_seed]} drops" in text
                assert digest in text
    assert "beside a cubic flow, 10 Mbit/s" in console_text(full)


def test_the_oracles_result_is_one_line_for_each_policy(full, full_page):
    lines = tables.check_lines(full)
    assert lines == [
        "hybla_full: windows checked: 4711 changes in 14 runs, no difference",
        "mtsi: windows checked: 99 changes in 13 runs, DIFFERENCES in 2 flows",
        "event 7: cwnd should be 3, is 4",
        "ibk: windows checked: 0 changes in 0 runs, nothing to compare; not checked: "
        "the oracle has no such policy"]
    page_text, terminal = "".join(full_page.text), console_text(full, 200)
    for line in lines:
        assert line in page_text and line[:60] in terminal


@pytest.mark.parametrize("width", [8.0, 4.0])
def test_the_dots_have_room(full, width):
    with matplotlib.rc_context(graphs.STYLE):
        figure = plots.goodput_dots(full, width)
        figure.set_dpi(100)
        figure.draw_without_rendering()
        inside = [(t.get_text(), t.get_window_extent()) for t in drawn_texts(figure)]
    for i, (text, b) in enumerate(inside):
        assert b.x0 >= 0 and b.y0 >= 0 and b.x1 <= figure.bbox.width, text
        for other, c in inside[:i]:
            assert not b.overlaps(c), (text, other)


def test_the_whole_page_stands_alone_and_comes_from_the_json(full, full_written, full_page, tmp_path):
    again = json.loads(webpage.write_json(full, tmp_path).read_text(encoding="utf-8"))
    assert webpage.write_report(again, tmp_path).read_bytes() == full_written.read_bytes()
    assert full_page.open == [] and all(u.startswith(("data:", "#")) for u in full_page.urls)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_terminal_tables_of_all_sections_fit(full, width):
    text = console_text(full, width)
    tables = text[:text.index("> ours")]
    assert max(len(line.rstrip()) for line in tables.splitlines()) <= 100
    assert "…" not in text and "Instructions per ACK" in text and "Jain" in text
