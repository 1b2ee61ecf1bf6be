# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Which figure of which paper runs can draw, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from taugrid_analysis.figures import (
    bases,
    causes,
    drawings,
    edits,
    interference,
    layer_edits,
    linearity,
    mixtures,
    runs,
    tasks,
)
from taugrid_analysis.figures.drawings import each
from taugrid_analysis.run import Run

IDEA = "nothing from a run: it illustrates an idea"


@dataclass(frozen=True)
class Plate:
    """`needs`: paths below results.h5's root; a plate without `draw` says why in `needs`.

    start: pretrained or random, where the figure is about one of them; architectures: parts of the models'
    class names where it is about other models than the paper's main ones.
    """

    number: int
    name: str
    needs: tuple[str, ...]
    draw: drawings.Draw | None
    start: str = ""
    architectures: tuple[str, ...] = ()


def missing(run: Run, plate: Plate) -> list[str]:
    if plate.draw is None:
        return list(plate.needs)
    found = []
    if plate.start and plate.start != run.results.start:
        found.append(f"a run from {plate.start} θ0")
    model = run.results.model()
    known = "" if model is None else model.architecture.lower()
    if plate.architectures and not any(part.lower() in known for part in plate.architectures):
        found.append(f"a run of a {' or '.join(plate.architectures)}")
    for need in plate.needs:
        group, _, name = need.partition("/")
        if name not in run.results.names(group):
            found.append(f"/{need}")
    return found


def drawn(plate: Plate, every: Sequence[Run]) -> tuple[Figure | None, list[str]]:
    """The figure from all runs that have what it needs, and what the others lack."""
    lacking = [missing(run, plate) for run in every]
    able = [run for run, lacks in zip(every, lacking, strict=True) if not lacks]
    if not able or plate.draw is None:
        return None, lacking[0]
    return plate.draw(able), [
        f"{run.name} lacks {', '.join(lacks)}" for run, lacks in zip(every, lacking, strict=True) if lacks
    ]


def plates(paper: str) -> list[Plate]:
    return {
        "tangent_space": TANGENT,
        "tau_jp": TAU_JP,
        "attention_only": ATTENTION,
        "bases": BASES,
        "cross_task_linearity": LINEARITY,
    }[paper]


def _paths(group: str, *regimes: str) -> tuple[str, ...]:
    return tuple(f"{group}/{name}" for name in regimes)


PARADIGMS = drawings.PARADIGMS
PRE, RANDOM = "pretrained", "random"
TRIO = ("standard", "posthoc", "linear")
PENALISED = ("linear", "tau_jp")
OURS = ("standard", "linear", "tau_jp")

TANGENT = [
    Plate(1, "idea", (IDEA,), None),
    Plate(
        2,
        "nonlinear_advantage",
        _paths("single_task", "standard", "posthoc"),
        drawings.advantage("posthoc"),
        PRE,
    ),
    Plate(
        3,
        "xi",
        _paths("disentanglement", "standard", "posthoc"),
        drawings.examples("standard", "posthoc"),
        PRE,
    ),
    Plate(4, "idea", (IDEA,), None),
    Plate(
        5, "linear_advantage", _paths("single_task", "standard", "linear"), drawings.advantage("linear"), PRE
    ),
    Plate(6, "local_energy", ("ntk/pretrained",), drawings.energy(PRE, 1)),
    Plate(7, "single_task", _paths("single_task", *TRIO), drawings.accuracies(*TRIO), PRE),
    Plate(8, "addition", _paths("addition", *TRIO), each(lambda run: edits.added(run, list(TRIO))), PRE),
    Plate(
        9,
        "xi_by_model_size",
        _paths("disentanglement", "standard", "posthoc"),
        drawings.single_pair("dtd", "sun397", "standard", "posthoc"),
        PRE,
    ),
    Plate(10, "xi_linear", _paths("disentanglement", "linear"), drawings.examples("linear"), PRE),
    Plate(11, "xi_random", _paths("disentanglement", "standard"), drawings.examples("standard"), RANDOM),
    Plate(
        12,  # ConvNeXt on pictures, and T5 on texts
        "other_architecture",
        _paths("disentanglement", "standard", "linear"),
        drawings.examples_or_pair("imdb", "qasc", "standard", "linear"),
        PRE,
        ("ConvNext", "T5For"),
    ),
    Plate(
        13,
        "closed_vocabulary",
        _paths("disentanglement", "standard", "posthoc"),
        drawings.examples("standard", "posthoc"),
        PRE,
        ("ViTForImageClassification",),
    ),
    Plate(14, "local_energy", ("ntk/pretrained",), drawings.energy(PRE, 3)),
    Plate(15, "local_energy_random", ("ntk/random",), drawings.energy(RANDOM, 3)),
    Plate(
        16,
        "single_task_random",
        _paths("single_task", "standard", "linear"),
        drawings.accuracies("standard", "linear"),
        RANDOM,
    ),
]
TAU_JP = [
    Plate(
        1,
        "xi_by_tau_jp",
        (*_paths("disentanglement", *PENALISED), *_paths("tau_jp", *PENALISED)),
        each(drawings.by_product),
    ),
    Plate(
        2,
        "tau_jp_and_accuracy",
        (*_paths("pair_addition", *PENALISED), *_paths("tau_jp", *PENALISED)),
        each(drawings.product_against_accuracy),
    ),
    Plate(3, "continuation", ("continuation/tau_jp_continue",), each(edits.continuation)),
    Plate(4, "single_task", _paths("single_task", *OURS), drawings.accuracies(*OURS)),
    Plate(
        5,
        "addition",
        (*_paths("addition", *OURS), *_paths("single_task", *OURS)),
        each(lambda run: edits.added(run, list(OURS), normalized=True)),
    ),
    Plate(
        6,
        "tau_jp",
        _paths("tau_jp", *PENALISED),
        each(lambda run: interference.tau_jp(run, list(PENALISED[::-1]))),
    ),
    Plate(
        7,
        "cosine",
        _paths("similarity", *PENALISED),
        each(lambda run: tasks.cosines(run, list(PENALISED[::-1]))),
    ),
    Plate(
        8,
        "tau_jp_and_cosine",
        (*_paths("similarity", *PENALISED), *_paths("tau_jp", *PENALISED)),
        each(drawings.product_against_cosine),
    ),
]
ATTENTION = [
    Plate(1, "idea", (IDEA,), None),
    Plate(2, "idea", (IDEA,), None),
    Plate(
        3,
        "kernel_behaviour",
        _paths("single_task", "standard", "posthoc", "attention", "attention_posthoc"),
        drawings.kernel_test,
    ),
    Plate(4, "idea", (IDEA,), None),
    Plate(
        5,
        "nonlinear_advantage",
        _paths("single_task", *PARADIGMS),
        drawings.advantage("attention", "linear", means=True),
    ),
    Plate(
        6,
        "xi_levels",
        (*_paths("representation", *PARADIGMS), *_paths("disentanglement", *PARADIGMS)),
        drawings.levels("dtd", "sun397", 1),
    ),
    Plate(7, "single_task", _paths("single_task", *PARADIGMS), drawings.accuracies(*PARADIGMS)),
    Plate(
        8,
        "xi_levels",
        (*_paths("representation", *PARADIGMS), *_paths("disentanglement", *PARADIGMS)),
        drawings.levels("cars", "resisc45", 2),
    ),
    Plate(
        9,
        "alpha",
        _paths("addition", *PARADIGMS),
        each(lambda run: runs.addition(run, list(PARADIGMS))),
    ),
    Plate(
        10,
        "cosine",
        _paths("similarity", *PARADIGMS),
        each(lambda run: tasks.cosines(run, list(PARADIGMS))),
    ),
]


def _layers(number: int, name: str, draw: Callable[[Run], Figure | None], architecture: str = "") -> Plate:
    """1 − cosine, or the coefficient, by layer."""
    name = f"{name}_{architecture.lower()}" if architecture else name
    chosen = (architecture,) if architecture else ()
    return Plate(number, name, ("linearity/standard",), each(draw), PRE, chosen)


def _averages(number: int, name: str, quantities: tuple[str, ...], last: int) -> Plate:
    """Of several models' average by layer, the last stages."""
    draw = each(lambda run: linearity.averages(run, "standard", quantities, last))
    return Plate(number, name, ("layer_averages/standard",), draw, PRE)


def _edits(number: int, name: str, draw: Callable[[Run], Figure | None], architecture: str = "") -> Plate:
    """Sums or negations by layer."""
    needs = tuple(f"layer_{kind}/standard" for kind in ("addition", "negation") if kind in name or number < 9)
    return Plate(number, name, needs, each(draw), PRE, (architecture,) if architecture else ())


def _edited(number: int, kind: str, last: int, architecture: str) -> Plate:
    """1 − cosine, and the coefficient, of one kind."""
    name = f"{kind}_by_layer" + ("_t5" if architecture == "T5" else "")
    return _edits(
        number, name, lambda run: layer_edits.both(run, "standard", f"layer_{kind}", last), architecture
    )


KINDS = (layer_edits.ADDITION, layer_edits.NEGATION)
SIX = 6  # pairs of the paper's four tasks
SIMILARITY = _paths("similarity", "standard")
BASES = [
    Plate(1, "idea", (IDEA,), None),
    Plate(2, "idea", (IDEA,), None),
    Plate(3, "gap_by_cosine", SIMILARITY, bases.gap_by_cosine, PRE),
    Plate(4, "cosine", SIMILARITY, each(bases.similarity), PRE),
    Plate(5, "norms", SIMILARITY, bases.norms, PRE),
    Plate(
        6, "gap_by_curvature", (*SIMILARITY, *_paths("smoothness", "standard")), bases.gap_by_curvature, PRE
    ),
    Plate(7, "clusters", _paths("bases", "standard"), each(bases.clusters), PRE),
    Plate(8, "accuracy_by_clusters", _paths("bases", "standard"), each(bases.accuracy_by_clusters), PRE),
    Plate(9, "early_cosine", _paths("early_similarity", "standard"), each(bases.early), PRE),
    Plate(10, "nearest_basis", (*SIMILARITY, *_paths("bases", "standard")), each(bases.nearest), PRE),
    Plate(
        11,
        "tangent_cosine",
        _paths("similarity", "linear"),
        each(lambda run: tasks.cosines(run, ["linear"])),
        PRE,
    ),
]
LINEARITY = [
    Plate(1, "idea", (IDEA,), None),
    _layers(2, "cosine", lambda run: linearity.pairs(run, "standard")),
    _layers(3, "coefficient", lambda run: linearity.coefficients(run, "standard")),
    Plate(4, "averages", ("averages/standard",), each(lambda run: mixtures.averages(run, "standard")), PRE),
    _averages(5, "average_cosine", ("cosine",), 7),
    _averages(6, "average_coefficient", ("coefficient",), 7),
    _edits(7, "edits_cosine", lambda run: layer_edits.curves(run, "standard", KINDS, 5)),
    _edits(8, "edits_coefficient", lambda run: layer_edits.distributions(run, "standard", KINDS, 5)),
    Plate(
        9,
        "stitched_pairs",
        ("stitching/standard",),
        each(lambda run: mixtures.stitched_pairs(run, "standard")),
        PRE,
    ),
    Plate(
        10,
        "stitched_negations",
        ("stitching/standard",),
        each(lambda run: mixtures.stitched_negations(run, "standard")),
        PRE,
    ),
    # Over runs together, of which jobs/causes.sh makes as many as it takes.
    Plate(11, "epochs", ("linearity/standard",), causes.epochs),
    Plate(12, "replaced", ("linearity/standard",), causes.replaced),
    _layers(13, "cosine", lambda run: linearity.pairs(run, "standard", SIX), "MLP"),
    _layers(14, "coefficient", lambda run: linearity.every_coefficient(run, "standard"), "MLP"),
    _layers(15, "cosine", lambda run: linearity.pairs(run, "standard", SIX), "ResNet"),
    _layers(16, "coefficient", lambda run: linearity.every_coefficient(run, "standard"), "ResNet"),
    # All blocks, on two data sets.
    _averages(17, "average_by_layer", ("cosine", "coefficient"), 12),
    _averages(18, "average_by_layer", ("cosine", "coefficient"), 12),
    # All blocks of ViT-B/32, the last twelve of ViT-L/14; the last six of T5's encoder and of its decoder.
    _edited(19, "addition", 12, "CLIP"),
    _edited(20, "addition", 12, "CLIP"),
    _edited(21, "addition", 12, "T5"),
    _edited(22, "negation", 12, "CLIP"),
    _edited(23, "negation", 12, "CLIP"),
    _edited(24, "negation", 12, "T5"),
]
