# SPDX-License-Identifier: GPL-2.0
"""satcc-plot: draws graphs of one flow from a table of satcc-log."""

import argparse
import html
import os
import sys
from collections import namedtuple

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from . import graphs, schema, table
from . import flow as flows_of
from .graphs import DASHED, GREY, INK, PALETTE, handle

DPI = 100
ALONE = (12.0, 4.6)         # size of one graph in inches: 1200 pixels wide
TOGETHER = (12.0, 10.2)     # size of the overview
STYLE = {**graphs.STYLE, "font.size": 9, "xtick.labelsize": 9, "ytick.labelsize": 9,
         "legend.fontsize": 9, "axes.titlesize": 10}
COLUMNS, ROWS = 900, 300    # resolution to which graphs are thinned
BLUE, ORANGE, GREEN, PINK = PALETTE
SHADES = {"Recovery": "#fbe3d2", "Loss": "#f3b9b9"}
T_LABEL = "time since the flow's first row, s"

# draw(axes, flow, limits): limits are (from, to) in s.  legend(flow): handles.
Graph = namedtuple("Graph", "key title y_label caption draw legend")


def finite(values):
    return values[np.isfinite(values)]


def top(axes, *values):
    """Set the y axis from 0 to above the largest value, with room for a note.  Returns the limit."""
    limit = 1.14 * max([graphs.largest(each) for each in values] + [0.0]) or 1.0
    axes.set_ylim(0, limit)
    return limit


def cut(limits, t, *columns):
    """The values between the limits, with the last step before them."""
    begin = max(0, int(np.searchsorted(t, limits[0], side="right")) - 1)
    end = int(np.searchsorted(t, limits[1], side="right"))
    return (t[begin:end], *(column[begin:end] for column in columns))


def shade(axes, flow):
    for state, colour in SHADES.items():
        for begin, end in flows_of.spans(flow, state):
            axes.axvspan(begin, end, color=colour, lw=0, zorder=0)


def shades(flow):
    return [Patch(color=colour, label=state) for state, colour in SHADES.items()
            if flows_of.spans(flow, state)]


# ---- the graphs ------------------------------------------------------------

def draw_sequence(axes, flow, limits):
    data = flow[schema.SEGMENT, "len"] > 0
    t, seq = flow[schema.SEGMENT, "t_s"][data], flow[schema.SEGMENT, "seq_rel"][data] / 1e3
    again = flow[schema.SEGMENT, "retrans"][data] > 0
    shown = (t >= limits[0]) & (t <= limits[1])
    ack_t, ack = cut(limits, flow[schema.ACK, "t_s"], flow[schema.ACK, "una_rel"] / 1e3)
    shown_seq = seq[shown]
    known = np.concatenate([shown_seq, ack])
    low = float(known.min()) if len(known) and limits[0] > 0 else 0.0
    high = graphs.largest(known) or 1.0
    axes.set_ylim(low, high + 0.04 * (high - low))
    graphs.draw_sequence(axes, {
        "ack_t_s": ack_t, "ack_kB": ack,
        "segment_t_s": t[shown & ~again], "segment_kB": seq[shown & ~again],
        "retransmit_t_s": t[shown & again], "retransmit_kB": seq[shown & again],
    }, BLUE, (limits[1], high), COLUMNS, ROWS)


def draw_window(axes, flow, limits):
    shade(axes, flow)
    t, cwnd, ssthresh = cut(limits, *flows_of.window(flow))
    limit = top(axes, cwnd)
    graphs.draw_window(axes, t, cwnd, ssthresh, BLUE, COLUMNS)
    if graphs.largest(graphs.finite_ssthresh(ssthresh)) > limit:
        graphs.note_off_axis(axes, "ssthresh is above the axis at times")


def draw_flight(axes, flow, limits):
    shade(axes, flow)
    size = flows_of.segment_size(flow) / 1e3
    t, count = cut(limits, *flows_of.in_flight(flow))
    window_t, cwnd, _ = cut(limits, *flows_of.window(flow))
    rwnd_t, rwnd = cut(limits, flow[schema.ACK, "t_s"], flow[schema.ACK, "rwnd"] / 1e3)
    limit = top(axes, count * size, cwnd * size)
    axes.plot(*graphs.thin_line(window_t, cwnd * size, COLUMNS), drawstyle="steps-post",
              color=GREY, lw=0.9)
    axes.plot(*graphs.thin_line(t, count * size, COLUMNS), drawstyle="steps-post", color=BLUE, lw=1.0)
    axes.plot(*graphs.thin_line(rwnd_t, rwnd, COLUMNS), drawstyle="steps-post", color=ORANGE, lw=1.2)
    if graphs.largest(rwnd) > limit:
        graphs.note_off_axis(axes, f"advertised window up to {graphs.largest(rwnd):.0f} kB, "
                             "off the axis")


def draw_rtt(axes, flow, limits):
    t, rtt, srtt, rto = cut(limits, flow[schema.ACK, "t_s"], *(
        flow[schema.ACK, name] / 1e3 for name in ("rtt_us", "srtt_us", "rto_us")))
    # Without the minimum, an RTO that has doubled ten times would flatten the other lines.
    limit = top(axes, np.minimum(rto, 4 * max(graphs.largest(rtt), 1.0)), rtt)
    axes.plot(*graphs.thin_line(t, rto, COLUMNS), drawstyle="steps-post", color=ORANGE, lw=1.1)
    if len(t):
        axes.plot(*graphs.thin_points(t, np.nan_to_num(rtt, nan=-1), limits[1], limit, COLUMNS, ROWS),
                  ls="", marker="o", ms=1.9, mew=0, color=BLUE)
    axes.plot(*graphs.thin_line(t, srtt, COLUMNS), drawstyle="steps-post", color=INK, lw=0.7)
    graphs.note_peak(axes, t, rto, 0, (limits[1], limit))


def draw_goodput(axes, flow, limits):
    shade(axes, flow)
    at, mbit = flows_of.short_goodput(*flows_of.received(flow), flow.end_s - flow.start_s)
    mean = flows_of.goodput(flow)
    top(axes, mbit, [mean])
    if np.isfinite(mean):
        axes.axhline(mean, color=GREY, lw=0.9, ls=DASHED)
    graphs.draw_goodput(axes, at, mbit, BLUE, COLUMNS)


def draw_gaps(axes, flow, limits):
    t, gap, again = flows_of.gaps(flow)
    gap = np.maximum(gap, 1e-3)             # a log axis has no 0
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    shown = (t >= limits[0]) & (t <= limits[1])
    for mask, style in ((shown & ~again, {"marker": "o", "ms": 1.9, "mew": 0, "color": BLUE}),
                        (shown & again, {"marker": "x", "ms": 3.6, "mew": 0.8, "color": "black"})):
        if mask.any():
            high = np.log10(gap[mask]) + 3
            x, y = graphs.thin_points(t[mask], high, limits[1], max(high.max(), 1), COLUMNS, ROWS)
            axes.plot(x, 10 ** (y - 3), ls="", **style)
    axes.plot(*graphs.thin_line(*cut(limits, *flows_of.paced_gaps(flow)), COLUMNS), color=ORANGE,
              lw=1.3, zorder=1)


def goodput_legend(flow):
    return [handle("in the 10 s before", color=BLUE),
            handle(f"whole flow: {flows_of.goodput(flow):.2f} Mbit/s", color=GREY, lw=0.9, ls=DASHED),
            *shades(flow)]


def gaps_legend(flow):
    paced = len(flows_of.paced_gaps(flow)[0])
    return [handle("before a segment", **{**graphs.SEGMENT, "color": BLUE}),
            handle("before a retransmission", **graphs.RETRANSMISSION),
            *([handle("at the pacing rate", color=ORANGE)] if paced else [])]


GRAPHS = (
    Graph("sequence", "Segments and ACKs", "sequence number, kB",
          "First transmissions and retransmissions of each segment, and the highest ACK. The horizontal "
          "distance between a dot and the line is the round trip time.",
          draw_sequence,
          lambda flow: [handle("segment", **{**graphs.SEGMENT, "color": BLUE}),
                        handle("retransmission", **graphs.RETRANSMISSION), handle("ACK", lw=0.8)]),
    Graph("cwnd", "Congestion window", "segments",
          "An infinite ssthresh is not drawn. The background is coloured while the sender recovers from "
          "losses: Recovery after ACKs reported them, Loss after a timeout.",
          draw_window,
          lambda flow: [handle("cwnd", color=BLUE), handle("ssthresh", lw=0.9, ls=":"), *shades(flow)]),
    Graph("flight", "In flight and advertised window", "kB",
          "Data in the network, as the sender estimates, and its limits: the congestion window and the "
          "window that the receiver advertises. Each segment counts as a full one.",
          draw_flight,
          lambda flow: [handle("in flight", color=BLUE), handle("cwnd", color=GREY, lw=0.9),
                        handle("advertised window", color=ORANGE), *shades(flow)]),
    Graph("rtt", "Round trip time and timeout", "ms",
          "The latest sample at each ACK, the sender's srtt, and its retransmission timeout. Each "
          "timeout doubles the latter; the graph does not show this while no ACK comes.",
          draw_rtt,
          lambda flow: [handle("RTT", **{**graphs.SEGMENT, "color": BLUE}),
                        handle("srtt", lw=0.7), handle("RTO", color=ORANGE)]),
    Graph("goodput", "Goodput", "Mbit/s",
          "Data acknowledged by ACK or SACK in the 10 s before each full second (at the start: since "
          "the first SYN), and the highest ACK divided by its time.",
          draw_goodput, goodput_legend),
    Graph("gaps", "Gaps between segments", "ms",
          "Time from one segment with data to the next. Dots near the line of the pacing rate are "
          "paced; dots far below it are bursts, "
          "and those of a packet that was cut after TCP are at the bottom.",
          draw_gaps, gaps_legend),
)


# ---- figures ---------------------------------------------------------------

def draw_axes(figure, place, graph, flow, limits, missing, titled):
    """Draw one graph into a rectangle, in inches from the lower left."""
    width, height = figure.get_size_inches()
    left, bottom, wide, high = place
    axes = figure.add_axes((left / width, bottom / height, wide / width, high / height))
    axes.set_xlim(*limits)
    axes.tick_params(which="both", length=2.5, pad=2)
    graph.draw(axes, flow, limits)
    marks = [at - flow.start_s for at in missing.t_s]
    for at in marks:
        axes.axvline(at, color=PINK, lw=1.0)
    axes.set_xlabel(T_LABEL)
    axes.set_ylabel(graph.y_label)
    handles = graph.legend(flow)
    if marks:
        handles = handles + [handle("records are missing", color=PINK, lw=1.0)]
    if titled:
        axes.set_title(graph.title, loc="left", pad=20, weight="bold")
    axes.legend(handles=handles, ncol=len(handles), loc="lower left", bbox_to_anchor=(0, 1),
                borderaxespad=0.2, handlelength=1.6, columnspacing=1.2, handletextpad=0.4,
                borderpad=0.1)
    return axes


def draw_one(graph, flow, limits, missing):
    figure = Figure(figsize=ALONE, dpi=DPI)
    draw_axes(figure, (0.7, 0.5, ALONE[0] - 0.9, ALONE[1] - 0.85), graph, flow, limits, missing, False)
    return figure


def draw_overview(flow, limits, missing):
    """Draw all graphs in two columns."""
    figure = Figure(figsize=TOGETHER, dpi=DPI)
    wide, high = TOGETHER[0] / 2 - 0.85, (TOGETHER[1] - 0.4) / 3 - 1.0
    for number, graph in enumerate(GRAPHS):
        row, column = divmod(number, 2)
        left = 0.7 + column * TOGETHER[0] / 2
        bottom = TOGETHER[1] - 0.4 - (row + 1) * (high + 1.0) + 0.5
        draw_axes(figure, (left, bottom, wide, high), graph, flow, limits, missing, True)
    figure.text(0.15 / TOGETHER[0], 1 - 0.12 / TOGETHER[1], flow.who, va="top", fontsize=11)
    return figure


# ---- page ------------------------------------------------------------------

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light">
<title>{title}</title>
<style>
body {{ margin: 0 auto; max-width: 76rem; padding: 1rem 1.25rem 3rem; background: #fff; color: #1d1d1d;
  font: 1rem/1.5 system-ui, "DejaVu Sans", sans-serif; }}
h1 {{ font-size: 1.4rem; line-height: 1.25; }}
h2 {{ font-size: 1.15rem; margin: 2rem 0 .4rem; }}
table {{ border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .15rem .8rem .15rem 0; text-align: left; font-weight: 400; }}
td {{ font-weight: 600; }}
figure {{ margin: 0; }}
figure img {{ display: block; width: 100%; height: auto; }}
figcaption {{ color: #444; font-size: .88rem; max-width: 46rem; }}
.missing {{ border-left: 4px solid {pink}; padding-left: .8rem; font-weight: 600; }}
@media print {{ figure {{ break-inside: avoid; }} h2 {{ break-after: avoid; }} }}
</style>
</head>
<body>
<h1>{title}</h1>
{missing}<table>
{facts}</table>
{graphs}</body>
</html>
"""


def number(value, digits, unit):
    return f"{value:.{digits}f} {unit}" if np.isfinite(value) else "not known"


def facts(flow, source):
    """(name, value) pairs of the page's table."""
    segments = flow[schema.SEGMENT, "len"] > 0
    again = int((flow[schema.SEGMENT, "retrans"][segments] > 0).sum())
    una = flow[schema.ACK, "una_rel"]
    rtt = finite(flow[schema.ACK, "rtt_us"]) / 1e3
    _, cwnd, _ = flows_of.window(flow)
    acked = una.max() - flows_of.first_data(flow) if len(una) else float("nan")
    states = {state: len(flows_of.spans(flow, state)) for state in SHADES}
    yield "table", source
    yield "cookie, network namespace", f"{flow.cookie}, {flow.netns}"
    yield "time", number(flow.end_s - flow.start_s, 3, "s")
    yield "acknowledged", number(acked / 1e6, 3, "MB")
    yield "goodput", number(flows_of.goodput(flow), 3, "Mbit/s")
    yield "segments with data", f"{int(segments.sum())}, including {again} retransmissions"
    yield "times in Recovery, in Loss", f"{states['Recovery']}, {states['Loss']}"
    yield "largest cwnd", number(graphs.largest(cwnd), 0, "segments")
    if len(rtt):
        low, middle, high = np.percentile(rtt, [0, 50, 100])
        yield "RTT: least, median, most", f"{low:.1f}, {middle:.1f}, {high:.1f} ms"


def page(flow, source, missing, pictures):
    """The page as text.  pictures: (Graph, svg) pairs."""
    note = f'<p class="missing">{missing}, of this flow or another.</p>\n' if missing.t_s else ""
    shown = "".join(
        f'<h2>{html.escape(graph.title)}</h2>\n<figure><img src="{graphs.data_uri(svg)}" '
        f'alt="{html.escape(graph.title)} over time"><figcaption>{html.escape(graph.caption)}'
        "</figcaption></figure>\n" for graph, svg in pictures)
    rows = "".join(f"<tr><th>{html.escape(what)}</th><td>{html.escape(value)}</td></tr>\n"
                   for what, value in facts(flow, source))
    return PAGE.format(title=html.escape(flow.who), facts=rows, graphs=shown, missing=note, pink=PINK)


# ---- program ---------------------------------------------------------------

def say(text):
    print(f"satcc-plot: {text}", file=sys.stderr)


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="satcc-plot", description="Draw graphs of one flow from a table of satcc-log, and an "
        "HTML page with all of them. See satcc-plot(1).")
    parser.add_argument("file", metavar="FILE", help="TSV, CSV or NDJSON from satcc-log; - is "
                        "standard input")
    parser.add_argument("-o", "--output", metavar="DIR", default=".",
                        help="folder to write into (default: this one)")
    parser.add_argument("--cookie", help="the flow with this cookie")
    parser.add_argument("--port", help="the largest flow with this port at either end")
    parser.add_argument("--list", action="store_true", help="list the flows and draw nothing")
    parser.add_argument("--from", dest="begin", type=float, default=0.0, metavar="SECONDS",
                        help="draw from this time of the graphs on")
    parser.add_argument("--to", dest="end", type=float, metavar="SECONDS", help="draw up to this time")
    parser.add_argument("--svg", action="store_true",
                        help="also write each graph and an overview as SVG files")
    parser.add_argument("--png", action="store_true",
                        help="also write them as PNG files, 1200 pixels wide")
    return parser.parse_args(arguments)


def describe(flow):
    return (f"cookie {flow.cookie}: {flow.who}: {flow.data / 1e6:.3f} MB in "
            f"{flow.end_s - flow.start_s:.3f} s")


def choose(flows, cookie=None, port=None):
    """The flow with most data that matches, and the number of flows that match."""
    fit = [flow for flow in flows.values() if (cookie is None or flow.cookie == cookie)
           and (port is None or port in flow.ports)]
    if not fit:
        raise table.TableError("no such flow; --list prints the flows" if flows
                               else "no flow in this table")
    return max(fit, key=lambda flow: flow.data), len(fit)


def draw(options):
    source = "standard input" if options.file == "-" else options.file
    with open(0 if options.file == "-" else options.file, encoding="utf-8", newline="") as file:
        flows, missing = flows_of.read(file)
    if options.list:
        for each in sorted(flows.values(), key=lambda flow: -flow.data):
            print(describe(each))
        return 0
    flow, fitting = choose(flows, options.cookie, options.port)
    say(describe(flow))
    if fitting > 1:
        say(f"the largest of {fitting} flows; --list prints all flows, --cookie selects one")
    if missing.t_s:
        say(str(missing))
    end = flow.end_s - flow.start_s
    limits = (options.begin, options.end if options.end is not None else end or 1.0)
    if not limits[0] < limits[1]:
        raise table.TableError("nothing to draw: --from must be before --to and the flow's end")
    os.makedirs(options.output, exist_ok=True)
    stem = os.path.join(options.output, os.path.splitext(os.path.basename(source))[0].replace(" ", "-"))
    pictures = []
    with matplotlib.rc_context(STYLE):
        figures = [(graph, draw_one(graph, flow, limits, missing)) for graph in GRAPHS]
        overview = draw_overview(flow, limits, missing)
        for key, figure in [*((graph.key, each) for graph, each in figures), ("overview", overview)]:
            if options.png:
                save(f"{stem}-{key}.png", graphs.render_png(figure, DPI))
            if options.svg:
                save(f"{stem}-{key}.svg", graphs.render_svg(figure))
        pictures = [(graph, graphs.render_svg(figure)) for graph, figure in figures]
    save(f"{stem}.html", page(flow, source, missing, pictures).encode())
    print(f"{stem}.html")
    return 0


def save(path, content):
    with open(path, "wb") as file:
        file.write(content)


def main(arguments=None):
    """Run the program.  Returns the exit status."""
    try:
        return draw(parse(arguments))
    except table.TableError as error:
        say(error)
    except UnicodeDecodeError:
        say("not a table of satcc-log: the file is not text")
    except OSError as error:
        say(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return 1
