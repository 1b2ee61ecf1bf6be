# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The figures of the tangent-space paper."""

from __future__ import annotations

from taugrid_analysis.papers import drawings
from taugrid_analysis.papers.drawings import each
from taugrid_analysis.papers.figure import IDEA, PRE, RANDOM, PaperFigure, paths
from taugrid_analysis.quantities.addition import figures as addition_figures

TRIO = ("standard", "posthoc", "linear")


FIGURES = [
    PaperFigure(1, "idea", (IDEA,), None),
    PaperFigure(
        2,
        "nonlinear_advantage",
        paths("single_task", "standard", "posthoc"),
        drawings.advantage("posthoc"),
        PRE,
    ),
    PaperFigure(
        3,
        "xi",
        paths("disentanglement", "standard", "posthoc"),
        drawings.examples("standard", "posthoc"),
        PRE,
    ),
    PaperFigure(4, "idea", (IDEA,), None),
    PaperFigure(
        5, "linear_advantage", paths("single_task", "standard", "linear"), drawings.advantage("linear"), PRE
    ),
    PaperFigure(6, "local_energy", ("ntk/pretrained",), drawings.energy(PRE, 1)),
    PaperFigure(7, "single_task", paths("single_task", *TRIO), drawings.accuracies(*TRIO), PRE),
    PaperFigure(
        8,
        "addition",
        paths("addition", *TRIO),
        each(lambda run: addition_figures.added(run, list(TRIO))),
        PRE,
    ),
    PaperFigure(
        9,
        "xi_by_model_size",
        paths("disentanglement", "standard", "posthoc"),
        drawings.single_pair("dtd", "sun397", "standard", "posthoc"),
        PRE,
    ),
    PaperFigure(10, "xi_linear", paths("disentanglement", "linear"), drawings.examples("linear"), PRE),
    PaperFigure(11, "xi_random", paths("disentanglement", "standard"), drawings.examples("standard"), RANDOM),
    PaperFigure(
        12,  # ConvNeXt on pictures, and T5 on texts
        "other_architecture",
        paths("disentanglement", "standard", "linear"),
        drawings.examples_or_pair("imdb", "qasc", "standard", "linear"),
        PRE,
        ("ConvNext", "T5For"),
    ),
    PaperFigure(
        13,
        "closed_vocabulary",
        paths("disentanglement", "standard", "posthoc"),
        drawings.examples("standard", "posthoc"),
        PRE,
        ("ViTForImageClassification",),
    ),
    PaperFigure(14, "local_energy", ("ntk/pretrained",), drawings.energy(PRE, 3)),
    PaperFigure(15, "local_energy_random", ("ntk/random",), drawings.energy(RANDOM, 3)),
    PaperFigure(
        16,
        "single_task_random",
        paths("single_task", "standard", "linear"),
        drawings.accuracies("standard", "linear"),
        RANDOM,
    ),
]
