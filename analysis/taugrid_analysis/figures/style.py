# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Colours, sizes, and SVG that takes its ink from the page: dark on light paper, light on dark."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

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
UNKNOWN = "#9aa0a8"

# Light is disentangled, as in the paper's Figure 3.
ERROR_MAP = LinearSegmentedColormap.from_list(
    "error", ["#fdfcf5", "#d6ebdc", "#8fcdc4", "#3c9fb4", "#23659a", "#1c3873", "#140f3d"]
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


def to_svg(figure: Figure, prefix: str) -> str:
    """Inline SVG: no declarations, no name spaces, no fixed size, ids of its own, the page's colours."""
    out = io.StringIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    with settings():
        figure.savefig(out, format="svg", metadata=nothing)
    svg = out.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    head, body = svg.split(">", 1)
    head = re.sub(r'\s(xmlns(:\w+)?|version|width|height)="[^"]*"', "", head)
    used = set(re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', body))
    names = {first or second for first, second in used}

    def rename(match: re.Match[str]) -> str:
        return f' id="{prefix}-{match[1]}"' if match[1] in names else ""

    body = re.sub(r'\sid="([^"]+)"', rename, body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', body)
    body = body.replace(INK, "currentColor").replace(FAINT, "var(--rule)")
    return head + ' role="img">' + body.strip()


def to_bytes(figure: Figure, kind: str, dots_per_inch: int = 200) -> bytes:
    """A file of its own, on white."""
    out = io.BytesIO()
    with settings():
        figure.savefig(out, format=kind, dpi=dots_per_inch, facecolor="white")
    return out.getvalue()
