# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""report.html: every figure inline, no script, nothing fetched."""

from __future__ import annotations

from dataclasses import dataclass

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure

from taugrid_analysis import predictors, tables
from taugrid_analysis.facts import facts
from taugrid_analysis.figures import edits, grids, interference, kernel, runs, style, tasks
from taugrid_analysis.findings import findings
from taugrid_analysis.results import Results


@dataclass(frozen=True)
class Section:
    """A heading, sentences, pictures; `absent` instead, where the file lacks the group."""

    anchor: str
    title: str
    caption: str
    pictures: list[Markup]
    absent: str


def report(results: Results) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("taugrid_analysis"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("report.html.j2").render(
        title=f"taugrid: {results.path.resolve().parent.name}",
        facts=facts(results),
        findings=findings(results),
        sections=sections(results),
        tables=tables.all_tables(results, by_pair=True),
        provenance=results.provenance(),
    )


def sections(results: Results) -> list[Section]:
    return [
        _section(
            "disentanglement",
            "Disentanglement error of every pair",
            "disentanglement",
            _grid_caption(results),
            _grids(results),
        ),
        _section(
            "matched",
            "Equal α and matched norm",
            "disentanglement",
            "ξ along the diagonal α₁ = α₂ = α: mean over pairs, band from the lower to the upper quartile."
            " Left against α; right against the length of the step, so that a regime does not look better"
            " only because its task vectors are shorter. Linear between grid points, further apart for"
            " longer vectors: where ξ bends upwards that raises their curve a little. The axis ends where the"
            " first pair leaves its grid.",
            [grids.matched(results)],
        ),
        _section(
            "addition",
            "Task addition",
            "addition",
            "θ0 + α Σ τ over all tasks: mean test accuracy by α, and the α that validation chose; with up to"
            f" {runs.MOST} regimes thin: each task, dotted: mean validation accuracy.",
            [runs.addition(results)],
        ),
        _section(
            "negation",
            "Task negation",
            "negation",
            "θ0 − α τ of each task: bars are means over the tasks, dots are tasks. α: least target accuracy"
            " on validation that keeps the control; tasks where no α does are left out.",
            [edits.negation(results)],
        ),
        _section(
            "accuracy",
            "Single-task accuracy",
            "single_task",
            "Test accuracy of θ0 and of each fine-tuned model on its own task.",
            [tasks.accuracies(results)],
        ),
        _section(
            "cosine",
            "Cosine of task vectors",
            "similarity",
            "Norms are in the table of task vectors below. The diagonal, 1, is left out.",
            [tasks.cosines(results)],
        ),
        _section(
            "tau_jp",
            "τJp of every ordered pair",
            "tau_jp",
            "Mean ‖J(x)τ‖² of the encoder's output at θ0: rows whose task vector, columns whose points. One"
            " logarithmic scale; light off the diagonal is little interference.",
            [interference.tau_jp(results)],
        ),
        _section(
            "predictors",
            "What predicts interference",
            "pair_addition",
            "Above: each pair's τJp and the normalised accuracy of its sum. Below: rank correlation of each"
            " predictor with that accuracy; bars are 95 % bootstrap intervals over the pairs. All numbers are"
            " in the table of predictors.",
            [_products(results), interference.forest(results)],
        ),
        _section(
            "continuation",
            "Further regularised steps",
            "continuation",
            "From linear task vectors, at α = 1: the pair of largest τJp at the start.",
            [edits.continuation(results)],
        ),
        _section(
            "smoothness",
            "Local smoothness and loss gap",
            "smoothness",
            "A point is one task of one pair: the largest Hessian eigenvalue of that task's training loss at"
            " its fine-tuned model, and how much the task's loss rises at θ0 + ½(τ₁+τ₂).",
            [tasks.smoothness(results)],
        ),
        _section(
            "ntk",
            "Local energy of the NTK's eigenfunctions",
            "ntk",
            "Σφ² over the eigenfunctions of the kernel between a trained task's points and those of it and a"
            " control task, mean over logits. 0.5 in the matrix means that they are not localised, 1 that"
            " they vanish on the control.",
            [kernel.local_energy(results)],
        ),
        _section(
            "training",
            "Training loss",
            "training",
            "Moving average over a thirtieth of the steps; thin: each task.",
            [runs.training(results)],
        ),
        _section(
            "cost",
            "Cost of a training step",
            "cost",
            "By regime; more in the table of costs. Peak memory: most bytes of tensors alive at once.",
            [edits.cost(results)],
        ),
        _section(
            "timings",
            "Where the time went",
            "units",
            "Seconds of the work units of each rank, by kind. Waiting is not in the bars.",
            [runs.timings(results)],
        ),
    ]


def _section(anchor: str, title: str, group: str, caption: str, pictures: list[Figure | None]) -> Section:
    drawn = [picture for picture in pictures if picture is not None]
    svg = [Markup(style.to_svg(picture, f"{anchor}{index}")) for index, picture in enumerate(drawn)]
    absent = "" if svg else f"Not drawn: results.h5 has no usable /{group}."
    return Section(anchor, title, caption, svg, absent)


def _products(results: Results) -> Figure | None:
    ordinates = [
        (f"normalised accuracy of the pair, {outcome}", predictors.outcome(results, outcome))
        for outcome in predictors.OUTCOMES
    ]
    return interference.scatter(results, results.names("pair_addition"), ordinates)


def _grids(results: Results) -> list[Figure | None]:
    found = grids.grids(results)
    if not found:
        return []
    top, above = grids.upper(found)
    return [grids.triangle(results, name, grid, top, above > 0) for name, grid in found.items()]


def _grid_caption(results: Results) -> str:
    found = grids.grids(results)
    if not found:
        return ""
    top, above = grids.upper(found)
    clipped = f" {100 * above:.2g} % of the cells lie above and take the darkest colour." if above > 0 else ""
    return (
        f"All {len(results.pairs)} pairs, one panel each; one colour scale, 0 to {top:.3g}, for all regimes;"
        f" light is disentangled.{clipped} Red: [0,1]², where α for addition is searched."
    )
