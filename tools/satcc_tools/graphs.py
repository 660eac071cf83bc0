# SPDX-License-Identifier: GPL-2.0
"""Drawing functions of satcc-plot and the bench's report, for lines, points and notes.

A draw_* function draws one thing into axes that the caller has given limits and labels. Times are
in s; None and NaN are gaps.
"""

import base64
import io

import numpy as np
from matplotlib.lines import Line2D

from .schema import INFINITE_SSTHRESH

# Four of Okabe and Ito's colours, which the colour-blind can distinguish; black is for retransmissions.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
GREY = "#8a8a8a"
INK = "#333333"
DASHED = (0, (5, 2))

# A panel is about 200 pixels wide, so thinning to twice that many steps loses nothing visible.
THIN_COLUMNS = 400
THIN_ROWS = 300

STYLE = {
    "font.family": "DejaVu Sans", "font.size": 8, "axes.linewidth": 0.6,
    "axes.edgecolor": INK, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#e2e2e2",
    "grid.linewidth": 0.5, "axes.axisbelow": True, "xtick.labelsize": 8,
    "ytick.labelsize": 8, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "xtick.color": INK, "ytick.color": INK, "legend.fontsize": 8,
    "legend.frameon": False, "svg.fonttype": "path", "svg.hashsalt": "satcc",
}


# ---- values ----------------------------------------------------------------

def as_array(values):
    """Values as an array with NaN for None; matplotlib draws NaN as a gap."""
    return np.array(values if values is not None else [], dtype=float)


def finite_ssthresh(values):
    """Replace infinity by NaN, which is not drawn."""
    ssthresh = as_array(values)
    ssthresh[ssthresh >= INFINITE_SSTHRESH] = np.nan
    return ssthresh


def largest(values):
    """The largest finite value; 0.0 without one."""
    array = as_array(values)
    array = array[np.isfinite(array)]
    return float(array.max()) if len(array) else 0.0


def thin_line(x, y, columns=THIN_COLUMNS):
    """Keeps the first, last, lowest and highest point of each of `columns`
    equal slices of x: every peak and every step stays where it was.
    """
    if len(x) <= 4 * columns:
        return x, y
    width = (x[-1] - x[0]) / columns or 1.0
    slices = ((x - x[0]) / width).astype(int)
    starts = np.flatnonzero(np.r_[True, np.diff(slices) != 0])
    kept = set()
    for start, end in zip(starts, np.r_[starts[1:], len(x)]):
        part = y[start:end]
        kept |= {start, end - 1,
                 start + int(np.argmin(np.where(np.isnan(part), np.inf, part))),
                 start + int(np.argmax(np.where(np.isnan(part), -np.inf, part)))}
    index = np.array(sorted(kept))
    return x[index], y[index]


def thin_points(x, y, x_limit, y_limit, columns=THIN_COLUMNS, rows=THIN_ROWS):
    """Keeps one point per cell of a grid finer than the dots are wide."""
    cells = np.stack([np.floor(x / x_limit * columns), np.floor(y / y_limit * rows)])
    _, index = np.unique(cells, axis=1, return_index=True)
    index.sort()
    return x[index], y[index]


# ---- panels ----------------------------------------------------------------

def draw_window(axes, t, cwnd, ssthresh, colour, columns=THIN_COLUMNS):
    """cwnd, and ssthresh while it is not infinite, in segments, as steps."""
    t, ssthresh = as_array(t), finite_ssthresh(ssthresh)
    if len(ssthresh) == len(t):
        axes.plot(*thin_line(t, ssthresh, columns), drawstyle="steps-post",
                  color=INK, lw=0.9, ls=":")
    axes.plot(*thin_line(t, as_array(cwnd), columns), drawstyle="steps-post",
              color=colour, lw=1.2)


def draw_sequence(axes, series, colour, limits, columns=THIN_COLUMNS, rows=THIN_ROWS):
    """ACKs as steps, a dot for each first transmission of a segment, a cross for each retransmission.

    series: ack_t_s, ack_kB, segment_t_s, segment_kB, retransmit_t_s, retransmit_kB.
    limits: the largest t and kB of the axes.
    """
    axes.plot(*thin_line(as_array(series["ack_t_s"]), as_array(series["ack_kB"]), columns),
              drawstyle="steps-post", color=INK, lw=0.8)
    axes.plot(*thin_points(as_array(series["segment_t_s"]), as_array(series["segment_kB"]),
                           *limits, columns, rows),
              ls="", marker="o", ms=1.7, mew=0, color=colour)
    axes.plot(as_array(series["retransmit_t_s"]), as_array(series["retransmit_kB"]),
              ls="", marker="x", ms=3.6, mew=0.9, color="black", zorder=4)


def draw_goodput(axes, t, mbit, colour, columns=THIN_COLUMNS):
    """A rate over time, Mbit/s."""
    axes.plot(*thin_line(as_array(t), as_array(mbit), columns), color=colour, lw=1.2)


def note_off_axis(axes, text, left=False):
    """A note in a top corner of the panel about values beyond the axes."""
    axes.text(0.02 if left else 0.98, 0.97, text, transform=axes.transAxes,
              ha="left" if left else "right", va="top",
              fontsize=7, color=INK, zorder=6,
              bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0,
                    "alpha": 0.85})


def note_peak(axes, time, values, digits, limits):
    """A note about a peak beyond the axis, in the corner away from the peak."""
    peak = largest(values)
    if peak > limits[1]:
        at = as_array(time)[np.nanargmax(as_array(values))]
        note_off_axis(axes, f"peak {peak:.{digits}f}, off the axis",
                      left=at > limits[0] / 2)


def handle(label, **style):
    """An entry of a legend."""
    return Line2D([], [], label=label, **{"color": INK, "lw": 1.3, **style})


SEGMENT = {"ls": "", "marker": "o", "ms": 3}
RETRANSMISSION = {"ls": "", "marker": "x", "ms": 4, "color": "black"}


# ---- pictures --------------------------------------------------------------

def render_svg(figure):
    """An SVG without date and random ids, so that the same data gives the same bytes."""
    out = io.BytesIO()
    figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def render_png(figure, dpi):
    """A PNG without metadata, so that the same data gives the same bytes."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=dpi, metadata={"Software": None},
                   pil_kwargs={"optimize": True})
    return out.getvalue()


def data_uri(svg):
    """A picture as an element of a page."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()
