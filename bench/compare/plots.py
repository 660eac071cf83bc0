# SPDX-License-Identifier: GPL-2.0
"""The plots of the comparison."""

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from tools.satcc_tools import graphs
from tools.satcc_tools.graphs import (
    DASHED, GREY, PALETTE, STYLE, data_uri, handle, largest, note_off_axis, note_peak, render_svg)

from .tables import format_loss, is_number, measured, row_losses, row_values, slug


@dataclasses.dataclass(frozen=True)
class Layout:
    """Sizes of a figure of small multiples, in inches."""
    columns: int
    panel: tuple[float, float]
    gap: tuple[float, float]
    left: float = 0.62
    right: float = 0.12
    top: float = 0.52         # legend, then the first row's titles
    bottom: float = 0.48
    legend: float = 0.54      # where it starts, from the left

    def size(self, panels: int) -> tuple[float, float]:
        rows = -(-panels // self.columns)
        return (self.left + self.right + self.columns * self.panel[0]
                + (self.columns - 1) * self.gap[0],
                self.top + self.bottom + rows * self.panel[1]
                + (rows - 1) * self.gap[1])

    def place(self, index: int, panels: int) -> tuple[float, ...]:
        """Where panel `index` goes, in the fractions add_axes() wants."""
        width, height = self.size(panels)
        row, column = divmod(index, self.columns)
        x = self.left + column * (self.panel[0] + self.gap[0])
        y = height - self.top - row * (self.panel[1] + self.gap[1]) - self.panel[1]
        return (x / width, y / height,
                self.panel[0] / width, self.panel[1] / height)


# Ten inches are a page's or a browser's width; four are a phone's.
WIDE = Layout(columns=4, panel=(2.16, 1.5), gap=(0.2, 0.4))
NARROW = Layout(columns=2, panel=(1.58, 1.25), gap=(0.16, 0.38),
                legend=0.0)


@dataclasses.dataclass(frozen=True)
class Plot:
    """One kind of plot: a panel per policy, all with the same axes."""
    key: str                  # in "series", and in the file's name
    title: str
    x_label: str
    y_label: str
    caption: str
    limits: Callable          # (link, {policy: series}) -> (x limit, y limit)
    draw: Callable            # (axes, link, series, colour, limits)
    legend: Callable          # () -> list of handles


def whole_seconds(series: dict) -> float:
    """The length of a run; the last sample is a little earlier."""
    end = max((largest(s["t_s"]) for s in series.values()), default=0)
    return math.ceil(end) or 60


def cwnd_limits(link: dict, series: dict) -> tuple[float, float]:
    """The axes' limits: up to the largest window, unless one outlier would flatten the other panels."""
    pipe = link["bdp_packets"] + link["queue_packets"]
    peak = max((largest(s["cwnd"]) for s in series.values()), default=0)
    return (whole_seconds(series),
            1.06 * max(min(peak, 3 * pipe), pipe))


def draw_cwnd(axes, link: dict, series: dict, colour: str, limits) -> None:
    bdp = link["bdp_packets"]
    axes.axhline(bdp, color=GREY, lw=0.8, ls=DASHED)
    axes.axhline(bdp + link["queue_packets"], color=GREY, lw=0.8, ls="-.")
    graphs.draw_window(axes, series["t_s"], series["cwnd"], series.get("ssthresh"), colour)
    note_peak(axes, series["t_s"], series["cwnd"], 0, limits)


def sequence_end(series: dict) -> float:
    return max(largest(series["segment_t_s"]), largest(series["ack_t_s"]))


def sequence_limits(link: dict, series: dict) -> tuple[float, float]:
    """The axes' limits: up to the last end, unless one slow policy would squeeze the other panels."""
    ends = [sequence_end(s) for s in series.values()]
    top = max((max(largest(s["segment_kB"]), largest(s["ack_kB"]))
               for s in series.values()), default=0)
    if not ends or not top:
        return 1.0, 1.0
    return 1.03 * min(max(ends), 4 * statistics.median(ends)), 1.04 * top


def draw_sequence(axes, link: dict, series: dict, colour: str, limits) -> None:
    rtt_s, top_kb = link["rtt_ms"] / 1000, limits[1] / 1.04
    kb_per_s = link["net_rate_mbit"] * 1000 / 8
    axes.plot([2 * rtt_s, 2 * rtt_s + top_kb / kb_per_s], [0, top_kb],
              color=GREY, lw=0.8, ls=DASHED)
    graphs.draw_sequence(axes, series, colour, limits)
    if sequence_end(series) > limits[0]:
        note_off_axis(axes, f"ends at {sequence_end(series):.1f} s")


def goodput_limits(link: dict, series: dict) -> tuple[float, float]:
    """The axes' limits: bounded, since a repaired hole acknowledges seconds of data at once."""
    net = link["net_rate_mbit"]
    peak = max((largest(s["mbit"]) for s in series.values()), default=0)
    return (whole_seconds(series),
            max(1.15 * net, min(1.06 * peak, 1.5 * net)))


def draw_goodput(axes, link: dict, series: dict, colour: str, limits) -> None:
    axes.axhline(link["net_rate_mbit"], color=GREY, lw=0.9, ls=DASHED)
    graphs.draw_goodput(axes, series["t_s"], series["mbit"], colour)
    note_peak(axes, series["t_s"], series["mbit"], 1, limits)


PLOTS = (
    Plot("cwnd", "Congestion window", "time since the first SYN, s",
         "segments",
         "Congestion window during the 60 s run without loss. Dashed: the "
         "bandwidth-delay product, in full segments; "
         "dash-dotted: with the queue on top, above which packets are dropped. "
         "An ssthresh above the axis, or infinite, is not drawn.",
         cwnd_limits, draw_cwnd,
         lambda: [handle("cwnd"), handle("ssthresh", lw=0.9, ls=":"),
                  handle("BDP", color=GREY, lw=0.9, ls=DASHED),
                  handle("BDP + queue", color=GREY, lw=0.9, ls="-.")]),
    Plot("sequence", "Time and sequence", "time since the first SYN, s",
         "payload, kB",
         "Each segment of the 1 MB transfer when it was first sent, each "
         "retransmission, and how far the ACKs had come. Dashed: the ACKs of "
         "an ideal sender.",
         sequence_limits, draw_sequence,
         lambda: [handle("segment", **graphs.SEGMENT),
                  handle("retransmission", **graphs.RETRANSMISSION),
                  handle("ACK", lw=0.8),
                  handle("ideal ACKs", color=GREY, lw=0.9, ls=DASHED)]),
    Plot("goodput", "Goodput over time", "time since the first SYN, s",
         "Mbit/s",
         "Payload acknowledged in the 10 s before, each second of the 60 s run "
         "without loss (at the start, since the first SYN). Dashed: the "
         "net rate of the link. Above it is data that had waited for a "
         "retransmission, acknowledged at once.",
         goodput_limits, draw_goodput,
         lambda: [handle("goodput"),
                  handle("net rate", color=GREY, lw=0.9, ls=DASHED)]),
)


def policy_colours(data: dict) -> dict[str, str]:
    """The colour of each policy: one for ours, another for the others.  The panels have the names."""
    return {p: PALETTE[p not in data["ours"]] for p in data["policies"]}


def has_points(series: dict | None) -> bool:
    return bool(series) and any(len(v) for v in series.values() if v is not None)


def draw_panel(axes, plot: Plot, link: dict, series, colour: str, limits) -> None:
    axes.set_xlim(0, limits[0])
    axes.set_ylim(0, limits[1])
    axes.locator_params(axis="both", nbins=5)
    axes.tick_params(length=2.5, pad=2)
    if series:
        plot.draw(axes, link, series, colour, limits)
    else:
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes,
                  ha="center", va="center", color=GREY)


def draw_figure(plot: Plot, link: dict, data: dict, layout: Layout) -> Figure:
    """A panel per policy; only the outer panels carry tick labels."""
    policies, colours = data["policies"], policy_colours(data)
    by_policy = {p: link["series"].get(p, {}).get(plot.key) for p in policies}
    by_policy = {p: s for p, s in by_policy.items() if has_points(s)}
    limits, count = plot.limits(link, by_policy), len(policies)
    width, height = layout.size(count)
    figure = Figure(figsize=(width, height))
    for index, policy in enumerate(policies):
        axes = figure.add_axes(layout.place(index, count))
        draw_panel(axes, plot, link, by_policy.get(policy), colours[policy], limits)
        axes.set_title(policy, loc="left", fontsize=8.5, pad=4, color="black",
                       weight="bold" if policy in data["ours"] else "normal")
        axes.tick_params(labelleft=index % layout.columns == 0,
                         labelbottom=index + layout.columns >= count)
    figure.text((layout.left + width - layout.right) / 2 / width, 0.08 / height,
                plot.x_label, ha="center", va="bottom")
    figure.text(0.08 / width, (layout.bottom + height - layout.top) / 2 / height,
                plot.y_label, ha="left", va="center", rotation="vertical")
    figure.legend(handles=plot.legend(), ncol=4, loc="upper left",
                  bbox_to_anchor=(layout.legend / width, 1), borderaxespad=0.2,
                  handlelength=1.8, columnspacing=1.0, handletextpad=0.4)
    return figure


def write_plots(data: dict, link: dict, folder: Path) -> Iterator[dict]:
    """Write the wide plots as files, and yield the page's data of each.

    A plot that would have no point is left out.
    """
    with matplotlib.rc_context(STYLE):
        for plot in PLOTS:
            if not any(has_points(series.get(plot.key)) for series in link["series"].values()):
                continue
            wide = render_svg(draw_figure(plot, link, data, WIDE))
            narrow = render_svg(draw_figure(plot, link, data, NARROW))
            path = folder / f"{slug(link['name'])}-{plot.key}.svg"
            path.write_bytes(wide)
            yield {"title": plot.title, "caption": plot.caption,
                   "file": f"plots/{path.name}",
                   "alt": f"{plot.title} of every policy, {link['name']}",
                   "wide": data_uri(wide), "narrow": data_uri(narrow)}


def goodput_dots(data: dict, width: float) -> Figure:
    """The faster link: a row a policy, a mark a loss, a line from the smallest
    to the largest of the seeds."""
    fast = data["long"]
    rows, losses = fast["rows"], row_losses(fast["rows"])
    policies = measured(data, rows)["policies"]
    height = 0.9 + 0.27 * len(policies)
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((1.25 / width, 0.45 / height,
                            1 - 1.45 / width, 1 - 0.85 / height))
    axes.set_xscale("log")
    axes.axvline(fast["net_rate_mbit"], color=GREY, lw=0.9, ls=DASHED)
    marks = list(zip(losses, ("o", "D", "s", "^"), PALETTE))
    for nth, (loss, mark, colour) in enumerate(marks):
        values = row_values(rows, loss, lambda row: row["goodput_mbit"])
        # Side by side in their row: lines of two losses often overlap.
        aside = 0.3 * ((nth + 0.5) / len(marks) - 0.5)
        for place, policy in enumerate(policies):
            place += aside
            rates = [v for v in values.get(policy, []) if is_number(v) and v > 0]
            if rates:
                axes.plot([min(rates), max(rates)], [place, place],
                          color=colour, lw=1.2)
                axes.plot([statistics.median(rates)], [place], marker=mark,
                          color=colour, ms=5, ls="")
    axes.set_ylim(len(policies) - 0.5, -0.5)
    axes.set_yticks(range(len(policies)), policies)
    for label, policy in zip(axes.get_yticklabels(), policies):
        label.set_weight("bold" if policy in data["ours"] else "normal")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.tick_params(which="both", length=2.5, pad=2)
    axes.set_xlabel("goodput, Mbit/s", labelpad=2)
    axes.grid(axis="x", which="minor", lw=0.25)
    figure.legend(handles=[
        *(handle(format_loss(loss), marker=mark, color=colour, ms=5)
          for loss, mark, colour in marks),
        handle("net rate", color=GREY, lw=0.9, ls=DASHED)],
        ncol=len(marks) + 1, loc="upper left", borderaxespad=0.2,
        bbox_to_anchor=(0, 1), handlelength=1.8, columnspacing=1.0,
        handletextpad=0.4)
    return figure
