# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""report.html: one file with every figure, the numbers behind its heat maps, and the CSV of each section."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jinja2
import pandas as pd
import xarray as xr
from markupsafe import Markup
from matplotlib.figure import Figure

from taugrid_analysis import merges, sheets, tables
from taugrid_analysis.facts import facts
from taugrid_analysis.figures import (
    edits,
    grids,
    interference,
    kernel,
    linearity,
    merging,
    runs,
    subsets,
    tasks,
)
from taugrid_analysis.figures.inline import to_svg
from taugrid_analysis.findings import findings
from taugrid_analysis.heat_maps import heat_maps, packed_bytes
from taugrid_analysis.run import Run
from taugrid_analysis.subsets import by_size
from taugrid_analysis.text_table import as_csv

MOST_CELLS = 130_000  # of all grids that are drawn
MOST_PAIRS = 400  # rows of the frame of pairs for which every pair has its line in a table

Sheet = Callable[[], pd.DataFrame] | str  # a str: made on the page from the maps whose keys begin with it


class Part(NamedTuple):
    """What a section is made of; group: of results.h5. No picture where the run has not the numbers."""

    anchor: str
    title: str
    group: str
    caption: str
    pictures: list[Figure | None]
    files: dict[str, Sheet]

    @property
    def drawn(self) -> list[Figure]:
        return [picture for picture in self.pictures if picture is not None]


@dataclass(frozen=True)
class Section:
    """A heading, sentences, pictures.

    csv: names of files; those that begin with `map:` are made on the page, the others are packed into it.
    """

    anchor: str
    title: str
    caption: str
    pictures: list[Markup]
    csv: dict[str, str]


def report(run: Run) -> str:
    """The page; refers to nothing outside itself."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("taugrid_analysis"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}  # regimes keep their order
    sheets_of: dict[str, str] = {}  # name: CSV
    parts = _parts(run)
    sections = [_section(part, sheets_of) for part in parts if part.drawn]
    found = tables.all_tables(run, by_pair=len(run.pairs) <= MOST_PAIRS)
    for place, table in enumerate(found):
        sheets_of[f"table:{place}"] = as_csv(table)
    return environment.get_template("report.html.j2").render(
        title=f"taugrid: {run.name}",
        facts=facts(run),
        findings=findings(run),
        sections=sections,
        tables=found,
        provenance=run.results.provenance(),
        unmeasured=_unmeasured(run, parts),
        data={
            "maps": heat_maps(run, drawn_grids(run)),
            "csv": {name: packed_bytes(text.encode("utf-8")) for name, text in sheets_of.items()},
        },
    )


def _parts(run: Run) -> list[Part]:
    frame, pairs = run.tasks, run.pairs
    return [
        Part(
            "disentanglement",
            "Disentanglement error of every pair",
            "disentanglement",
            _grid_caption(run),
            _grids(run),
            {"disentanglement.csv": "xi"},
        ),
        Part(
            "matched",
            "Equal α and matched norm",
            "disentanglement",
            "ξ along the diagonal α₁ = α₂ = α: mean over pairs, band from the lower to the upper quartile."
            " Left against α; right against the length of the step, so that a regime does not look better"
            " only because its task vectors are shorter. Linear between grid points, further apart for longer"
            " vectors: where ξ bends upwards that raises their curve a little. The axis ends where the first"
            " pair leaves its grid.",
            [grids.matched(run)],
            {"matched.csv": lambda: sheets.matched(run)},
        ),
        Part(
            "addition",
            "Task addition",
            "addition",
            "θ0 + α Σ τ over all tasks: mean test accuracy by α, and the α that validation chose, with one"
            f" standard error of the evaluation sample; with up to {runs.MOST} regimes thin: each task,"
            " dotted: mean validation accuracy.",
            [runs.addition(run)],
            {"addition.csv": lambda: sheets.sweep(run, "addition")},
        ),
        Part(
            "merging",
            "Accuracy over the cost of a merge",
            "merging",
            "Merged models of all tasks at the α that validation chose: normalised accuracy against what it"
            " takes to make τ, by method; lines: one standard error of the evaluation sample. Open circles:"
            " methods that take data as well; inputs: that go through a model, both ways. Seconds are this"
            " machine's, with data of all units.",
            [merging.accuracy_over_cost(run)],
            {"merging.csv": lambda: merges.of_run(run)},
        ),
        Part(
            "subsets",
            "Accuracy over the number of tasks added",
            "subsets",
            "θ0 + α τ, τ made of the vectors of a random subset of the tasks, on the subset's tasks: means"
            " over subsets, lines one standard error over them. α: by each subset's validation points."
            " Dotted: each task's own model, over the same subsets; dashed: θ0.",
            [subsets.by_number(run)],
            {"subsets.csv": lambda: by_size(run)},
        ),
        Part(
            "negation",
            "Task negation",
            "negation",
            "θ0 − α τ of each task: bars are means over the tasks, dots are tasks, lines one standard error"
            " of the evaluation sample. α: least target accuracy on validation that keeps the control; tasks"
            " where no α does are left out.",
            [edits.negation(run)],
            {
                "negation.csv": lambda: sheets.columns(
                    frame,
                    *(f"{prefix}{name}" for prefix in ("", "wide_") for name in NEGATED),
                ),
            },
        ),
        Part(
            "accuracy",
            "Single-task accuracy",
            "single_task",
            "Test accuracy of θ0 and of each fine-tuned model on its own task; lines: one standard error of"
            " the evaluation sample.",
            [tasks.accuracies(run)],
            {
                "accuracy.csv": lambda: sheets.columns(
                    frame, "points", "accuracy", "validation_accuracy", "loss"
                )
            },
        ),
        Part(
            "cosine",
            "Cosine of task vectors",
            "similarity",
            "Norms are in the table of task vectors below. The diagonal, 1, is left out. Where data sets name"
            " natural groups, the second map has tasks in the order of average linkage of 1 − |cosine|, boxes"
            " around as many clusters as there are groups, and names in the colours of their groups.",
            [tasks.cosines(run), tasks.grouped(run)],
            {"cosine.csv": "cosine"},
        ),
        Part(
            "signs",
            "Signs and masks of task vectors",
            "similarity",
            "Of the numbers that TIES keeps of each vector: the share of the places that two vectors both"
            " keep where their signs differ, ½ of independent signs; and the places that both keep among"
            " those that either keeps. What chance has, and the density, are in the table of sign conflicts.",
            [tasks.sign_conflicts(run), tasks.mask_overlaps(run)],
            {"sign_conflict.csv": "sign_conflict", "mask_overlap.csv": "mask_overlap"},
        ),
        Part(
            "tau_jp",
            "τJp of every ordered pair",
            "tau_jp",
            "Mean ‖J(x)τ‖² of the encoder's output at θ0: rows whose task vector, columns whose points. One"
            " logarithmic scale; light off the diagonal is little interference.",
            [interference.tau_jp(run)],
            {"tau_jp.csv": "tau_jp"},
        ),
        Part(
            "predictors",
            "What predicts interference",
            "pair_addition",
            "Above: each pair's τJp and the normalised accuracy of its sum. Below: rank correlation of each"
            " predictor with that accuracy, and with the pair's loss gap; lines span what leaving out any one"
            " task gives. Filled: permutations of the tasks reach the value, for the best of the predictors,"
            " in fewer than 5 %."
            " Below the dashed line stands ξ, another measure of the same thing. All numbers are in the table"
            " of predictors.",
            [_products(run), interference.forest(run)],
            {"pairs.csv": lambda: pairs.reset_index()},
        ),
        Part(
            "linearity",
            "Cross-task linearity by layer",
            "linearity",
            "Features of αθ₁ + (1−α)θ₂ against α of those of θ₁ and 1 − α of those of θ₂, by layer: 0 is"
            " the embedding, the last one the encoder's output. Lines: means over points, then pairs; bands:"
            " from the mean lower to the mean upper quartile of the points. Above: 1 − cosine, which hardly"
            " tells models apart that fine-tuning changed little, beside that of the two models' own"
            " features; in the middle the same of differences from θ0's features; below: what mixing the"
            " weights misses, as a part of the distance of the two. A linearised model is exact up to"
            " rounding.",
            [linearity.curves(run)],
            {"linearity.csv": lambda: run.layers},
        ),
        Part(
            "continuation",
            "Further regularised steps",
            "continuation",
            "From linear task vectors, at α = 1: the pairs of most and of least τJp at the start.",
            [edits.continuation(run)],
            {"continuation.csv": lambda: sheets.continuation(run)},
        ),
        Part(
            "smoothness",
            "Loss gap and its bound",
            "smoothness",
            "A point is one task of one pair: how much its test loss rises at θ0 + ½(τ₁+τ₂), against the"
            " bound L C (1+ε) with the curvature L of its training loss, C the larger ‖τ‖² and ε the cosine.",
            [tasks.smoothness(run)],
            {"bound.csv": lambda: sheets.bound(run)},
        ),
        Part(
            "ntk",
            "Local energy of the NTK's eigenfunctions",
            "ntk",
            _kernel_caption(run),
            [kernel.local_energy(run)],
            {"ntk_share.csv": "ntk", "ntk_energy.csv": lambda: sheets.energy(run)},
        ),
        Part(
            "training",
            "Training loss",
            "training",
            f"Moving average over a thirtieth of the steps, mean over tasks; with up to {runs.MOST} regimes"
            " thin: each task.",
            [runs.training(run)],
            {"training.csv": lambda: sheets.training(run)},
        ),
        Part(
            "cost",
            "Cost of a training step",
            "cost",
            "By regime; more in the table of costs. Peak memory: most bytes of tensors alive at once; four"
            " bytes a parameter: twice for a linearised model, which holds θ0 too.",
            [edits.cost(run)],
            {"cost.csv": lambda: sheets.cost(run)},
        ),
        Part(
            "timings",
            "Where the time went",
            "units",
            "Seconds of the work units of each rank, by kind. Waiting is not in the bars.",
            [runs.timings(run)],
            {"timings.csv": lambda: sheets.timings(run)},
        ),
    ]


NEGATED = ("negated_alpha", "negated", "negated_control")


def _section(part: Part, sheets_of: dict[str, str]) -> Section:
    """sheets_of: where the section's CSV files are added."""
    svg = [Markup(to_svg(picture, f"{part.anchor}{index}")) for index, picture in enumerate(part.drawn)]
    links = {}
    for name, sheet in part.files.items():
        links[name] = f"map:{sheet}" if isinstance(sheet, str) else name
        if not isinstance(sheet, str):
            sheets_of[name] = sheet().to_csv(index=False, float_format="%.10g")
    return Section(part.anchor, part.title, part.caption, svg, links)


def _unmeasured(run: Run, parts: list[Part]) -> str:
    """The page's last line: what has no section, because the run lacks the group or its numbers."""
    lacking: list[str] = []
    empty: list[str] = []
    for part in parts:
        if not part.drawn:
            (empty if run.results.has(part.group) else lacking).append(f"{part.title} (/{part.group})")
    told = (("This run did not measure", lacking), ("Too little of it was measured to draw", empty))
    return " ".join(f"{said}: {'; '.join(names)}." for said, names in told if names)


def _products(run: Run) -> Figure | None:
    return interference.scatter(run, run.results.names("pair_addition"), interference.accuracies(run))


def _kernel_caption(run: Run) -> str:
    kernels = [run.data("ntk", start) for start in run.results.names("ntk")]
    known = any(data is not None and "null_share" in data for data in kernels)
    right = (
        "Right: share less null; 0 is a control like the task itself."
        if known
        else "This run did not measure it, so that the shares do not say whether the kernel is localised."
    )
    return (
        "Σφ² over the eigenfunctions of the kernel between a trained task's points and those of it and a"
        " control task, mean over logits. The kernel of points with themselves lifts the own share above"
        " ½ even where the control is more of the same task: that share is the null, measured with second"
        f" samples of the task. {right}"
    )


def drawn_grids(run: Run) -> dict[str, xr.Dataset]:
    """The grids that fit on a page of 2 MB: all, for 28 pairs, 11 regimes and 20×20 coefficients."""
    found, cells = {}, 0
    for name, grid in grids.grids(run).items():
        cells += grid["error"].size
        if cells <= MOST_CELLS:
            found[name] = grid
    return found


def _grids(run: Run) -> list[Figure | None]:
    found = grids.grids(run)
    if not found:
        return []
    top, above = grids.upper(found)
    return [grids.triangle(run, name, grid, top, above > 0) for name, grid in drawn_grids(run).items()]


def _grid_caption(run: Run) -> str:
    found = grids.grids(run)
    if not found:
        return ""
    top, above = grids.upper(found)
    left = [name for name in found if name not in drawn_grids(run)]
    without = f" Not drawn, to keep the page small: {', '.join(left)}." if left else ""
    clipped = f" {100 * above:.2g} % of the cells lie above and take the darkest colour." if above > 0 else ""
    count, tasks_known = len(run.results.pairs), len(run.results.tasks)
    which = "All" if count == tasks_known * (tasks_known - 1) // 2 else "The measured"
    return (
        f"{which} {count} pairs, one panel each; one colour scale, 0 to {top:.3g}, for all"
        f" regimes; light is disentangled.{clipped} Red: [0,1]², where α for addition is searched. Point at a"
        f" cell to read it.{without}"
    )
