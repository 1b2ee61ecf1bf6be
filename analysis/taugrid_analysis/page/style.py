# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Colours, sizes and settings of all figures; in a page their ink becomes the page's own."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, LogLocator, NullFormatter

if TYPE_CHECKING:
    from taugrid_analysis.run.opened import Run  # the drawings of speed do without runs

PAGE = 11.0  # inches of a picture as wide as the report
WIDEST = 22.0  # inches of pictures side by side
INK = "#101214"  # becomes currentColor
FAINT = "#c9ced6"  # becomes the page's --rule
REGIME_COLOURS = {
    "pretrained": "#8b93a0",
    "random": "#8b93a0",
    "standard": "#d9632a",
    "linear": "#2a7fba",
    "posthoc": "#8a63b8",
    "attention": "#2f9e78",
    "attention_posthoc": "#9ac46b",
    "attention+bias": "#127a7a",
    "attention+mlp": "#6fc3c9",
    "attention+mlp+bias": "#4f6f2f",
    "lora": "#b08968",
    "tau_jp": "#c2457f",
    "tau_jp_strict": "#7d1f4f",
    "tau_jp_incremental": "#e58fb5",
    "tau_jp_continue": "#a38a1e",
    "multitask": "#3a3f47",
    "multitask_linear": "#6d7684",
}
MORE_COLOURS = ("#5a6b8c", "#b5651d", "#1d4e89", "#8f9a27")
KIND_COLOURS = ("#2a7fba", "#d9632a", "#2f9e78", "#8a63b8", "#c2457f", "#a38a1e", "#5a6b8c", "#77a8a0")
RED = "#e0312f"
SUPERSCRIPTS = str.maketrans("0123456789−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
MAP = "map:"  # begins the gid of axes with a heat map whose cells the report names
UNKNOWN = "#9aa0a8"

# Light is disentangled, as in the paper's Figure 3. So few steps that a page with hundreds of grids stays
# small.
ERROR_MAP = LinearSegmentedColormap.from_list(
    "error", ["#fdfcf5", "#d6ebdc", "#8fcdc4", "#3c9fb4", "#23659a", "#1c3873", "#140f3d"], N=64
).with_extremes(bad=UNKNOWN)
SIGNED_MAP = LinearSegmentedColormap.from_list(
    "signed", ["#1f5f9e", "#7fb0d6", "#f6f5f1", "#efa57c", "#b8431a"]
).with_extremes(bad=UNKNOWN)

_SETTINGS: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",
    "svg.hashsalt": "taugrid",
    "text.color": INK,
    "text.parse_math": False,  # names are from files: a $ in one is no formula
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
}


@contextmanager
def settings() -> Iterator[None]:
    with mpl.rc_context(_SETTINGS):
        yield


def colour(regime: str, regimes: list[str]) -> str:
    """Fixed for the names that the papers know, by position for others."""
    if regime in REGIME_COLOURS:
        return REGIME_COLOURS[regime]
    others = [name for name in regimes if name not in REGIME_COLOURS]
    place = others.index(regime) if regime in others else 0
    return MORE_COLOURS[place % len(MORE_COLOURS)]


def ink_on(level: float) -> str:
    """Text that reads on ERROR_MAP at this level, 0…1."""
    return "white" if level > 0.5 else "#101215"


def grid(axes: Axes, which: str = "y") -> None:
    axes.grid(True, axis="both" if which == "both" else "x" if which == "x" else "y")
    axes.tick_params(length=2.5)


def logarithmic(axes: Axes) -> None:
    """Few, plain ticks along x."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def legend(
    axes: Axes, entries: int, inside: Literal["lower left", "upper left", "upper right"], most: int = 4
) -> None:
    """Beside the axes where inside it would cover them."""
    if entries <= most:
        axes.legend(loc=inside)
    else:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def run_title(run: Run, runs: Sequence[Run]) -> str:
    """The model's name, or the folder's where runs have the same model."""
    models = [member.results.model() for member in runs]
    own_model = run.results.model()
    names = [model.name if model is not None else "" for model in models]
    return own_model.name if own_model is not None and names.count(own_model.name) == 1 else run.name


def beside(pictures: Sequence[tuple[str, Figure]], dots_per_inch: int = 150) -> Figure:
    """Pictures as dots under their titles: side by side while there is room, else one below the other."""
    drawn = []
    for title, picture in pictures:
        with settings():
            picture.set_dpi(dots_per_inch)
            picture.set_facecolor("white")
            canvas = FigureCanvasAgg(picture)
            canvas.draw()  # type: ignore[no-untyped-call]
            dots = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
            drawn.append((title, dots))
    heights = [dots.shape[0] / dots_per_inch for _, dots in drawn]
    widths = [dots.shape[1] / dots_per_inch for _, dots in drawn]
    across = sum(widths) <= WIDEST
    strip = 0.35  # for the titles
    width = sum(widths) if across else max(widths)
    height = max(heights) + strip if across else sum(heights) + strip * len(drawn)
    whole = Figure(figsize=(width, height), dpi=dots_per_inch)
    x, y = 0.0, height
    for (title, dots), wide, tall in zip(drawn, widths, heights, strict=True):
        axes = whole.add_axes((x / width, (y - strip - tall) / height, wide / width, tall / height))
        axes.imshow(dots, interpolation="none", aspect="auto")
        axes.set_axis_off()
        whole.text((x + 0.1) / width, (y - 0.7 * strip) / height, title, fontweight="bold", fontsize=11)
        x, y = (x + wide, y) if across else (x, y - strip - tall)
    return whole


def _without_math(format_ticks: Callable[[list[float]], list[str]], values: list[float]) -> list[str]:
    """Labels of a logarithmic axis, such as 10⁻³, as plain text; matplotlib writes them as formulas."""
    labels = [label.removeprefix("$\\mathdefault{").removesuffix("}$") for label in format_ticks(values)]
    plain = [label.replace("\\times", "×").replace("-", "−") for label in labels]
    return [
        re.sub(r"\^\{([^}]*)\}", lambda power: power[1].translate(SUPERSCRIPTS), label) for label in plain
    ]


def lay_out(figure: Figure) -> None:
    """Once, within settings(). What is left to savefig() is laid out by drawing all of it one time more."""
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        for formatter in (axis.get_major_formatter(), axis.get_minor_formatter()):
            if isinstance(formatter, LogFormatterMathtext):
                formatter.format_ticks = partial(_without_math, formatter.format_ticks)  # type: ignore[method-assign]
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        with mpl.rc_context({"figure.constrained_layout.use": False}):  # what None stands for
            figure.set_layout_engine(None)


def to_bytes(figure: Figure, kind: str, dots_per_inch: int = 200) -> bytes:
    """A file of its own, on white."""
    out = io.BytesIO()
    with settings():
        lay_out(figure)
        figure.savefig(out, format=kind, dpi=dots_per_inch, facecolor="white")
    return out.getvalue()
