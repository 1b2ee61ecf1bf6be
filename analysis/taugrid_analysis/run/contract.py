# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The contract of results.h5 as a table: the data sets of every group, and the names of their dimensions.

Names of dimensions: `task`, `pair` and `side` (which task of the pair) have labels; `alpha`, `alpha_1`,
`alpha_2` and `step` have their values; `points_of`, `control` and `other` are tasks in a second role. All
others are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Dims = tuple[str, ...]

NEWEST = 2  # schema_version; older ones are read with what they have


@dataclass(frozen=True)
class Variable:
    """One data set of a group. `since`: the schema_version from which every file has it."""

    dims: Dims
    needed: bool = True
    since: int = 1
    whole: bool = True  # False: so large that it is read on request alone
    path: str = ""  # below the group, where it is not the name


@dataclass(frozen=True)
class Group:
    """`axes`: the data set that holds a dimension's values, and the dimensions which it stands for.

    `words`, `numbers`: attributes without which the group cannot be read, and what they mean.
    """

    variables: Mapping[str, Variable]
    axes: Mapping[str, Dims] = field(default_factory=dict)
    least: int = 1  # values of an axis
    words: Mapping[str, str] = field(default_factory=dict)
    numbers: Mapping[str, str] = field(default_factory=dict)


def _all(dims: Dims, *names: str, needed: bool = True, since: int = 1) -> dict[str, Variable]:
    return {name: Variable(dims, needed, since) for name in names}


TASK: Dims = ("task",)
PAIR: Dims = ("pair",)
GRID: Dims = ("pair", "alpha_1", "alpha_2")
TERMS: Dims = ("pair", "side", "alpha_1", "alpha_2")
ROWS = {
    "sample_index": Variable(("task", "point"), needed=False),
    "validation_sample_index": Variable(("task", "validation_point"), needed=False),
}

_SINGLE = (
    _all(TASK, "accuracy", "loss") | _all(TASK, "validation_accuracy", "beats_majority", needed=False) | ROWS
)
_CHOICE = {
    name: Variable(TASK, needed=False, path=f"wide/{name.removeprefix('wide_')}")
    for name in ("wide_chosen_alpha", "wide_target", "wide_control")
}
TEXT_MEASURES = ("value", "exact_match", "f1", "token_accuracy", "pearson", "spearman", "no_number")
LINEARITY = tuple(
    f"{token}{name}"
    for token in ("", "class_")
    for name in (
        *("cosine", "coefficient", "baseline"),
        *("centred_cosine", "centred_coefficient", "centred_baseline", "error"),
    )
)


# Where u is f(θ0), what is centred of it is nothing.
NEGATED_LINEARITY = tuple(n for n in LINEARITY if not n.endswith(("centred_cosine", "centred_coefficient")))


def _layered(names: tuple[str, ...], first: str, *axis: str) -> dict[str, Variable]:
    """Statistics and histogram of each quantity, by layer and coefficient, if there is one."""
    dims, found = (first, "layer", *axis), {}
    for name in names:
        needed = not name.startswith("class_")
        bins = "cosine_bin" if name.endswith(("cosine", "baseline")) else "coefficient_bin"
        found[name] = Variable((*dims, "statistic"), needed)
        found[f"{name}_histogram"] = Variable((*dims, bins), needed)
    return found


_GRID = Group(
    {"error": Variable(GRID), "error_by_task": Variable(TERMS)} | ROWS,
    axes={"alpha": ("alpha_1", "alpha_2")},
    least=2,
)

_NEGATED = Group(
    _all(("task", "alpha"), "validation_target", "validation_control", "test_target", "test_control")
    | _all(TASK, "chosen_alpha", "target", "control")
    | ROWS
    | {
        "control_sample_index": Variable(("control_point",), needed=False),
        "validation_control_sample_index": Variable(("validation_control_point",), needed=False),
    },
    axes={"alpha": ("alpha",)},
    words={"control": "the control task's name"},
    numbers={"control_threshold": "the share of θ0's control accuracy to keep"},
)

GROUPS: dict[str, Group] = {
    "heads": Group(
        {"loss": Variable(("task", "head_step")), "control_loss": Variable(("head_step",), needed=False)}
    ),
    "single_task": Group(_SINGLE | _all((), "control_accuracy", "control_validation_accuracy", needed=False)),
    "multitask": Group(_SINGLE),
    "similarity": Group(
        {"cosine": Variable(("task", "other")), "loss_gap": Variable(("pair", "side"), needed=False)}
        | _all(TASK, "norm", "norm_ratio")
        | _all(("task", "other"), "sign_conflict", "sign_conflict_all", "mask_overlap", needed=False)
        | _all(TASK, "mask_density", needed=False)
        | {
            "sum_alpha": Variable(("sum_alpha",), needed=False),
            "sum_loss_gap": Variable(("task", "sum_alpha"), needed=False),
            "cross_alpha": Variable(("cross_alpha",), needed=False),
            "cross_loss": Variable(("task", "other", "cross_alpha"), needed=False),
        }
        | ROWS
    ),
    "disentanglement": _GRID,
    "representation": Group(
        dict(_GRID.variables)
        | {
            "symmetric_error": Variable(GRID, needed=False, since=2),
            "symmetric_error_by_task": Variable(TERMS, needed=False, since=2),
        },
        _GRID.axes,
        _GRID.least,
    ),
    "linearity": Group(
        _layered(LINEARITY, "pair", "alpha") | _all(TASK, "passes") | ROWS,
        axes={"alpha": ("alpha",), "layer": ("layer",)},
    ),
    "layer_addition": Group(
        _layered(LINEARITY, "pair", "lambda") | ROWS,
        axes={"lambda": ("lambda",), "layer": ("layer",)},
    ),
    "layer_negation": Group(
        _layered(NEGATED_LINEARITY, "task", "lambda") | _all(TASK, "passes") | ROWS,
        axes={"lambda": ("lambda",), "layer": ("layer",)},
    ),
    "layer_averages": Group(
        _layered(LINEARITY, "data_set")
        | {"data": Variable(("data_set",)), "sets": Variable(("data_set", "task"))}
        | ROWS,
        axes={"layer": ("layer",)},
    ),
    "barrier": Group(
        {"delta": Variable(("pair", "alpha")), "loss": Variable(("pair", "side"))}
        | _all(PAIR, "curvature", "middle_curvature", "distance")
        | ROWS,
        axes={"alpha": ("alpha",)},
    ),
    "averages": Group(
        {"sample_index": ROWS["sample_index"]}
        | _all(("task_set", "task"), "sets", "weights", "logits", "features")
        | _all(("task_set", "task"), "gap", needed=False)
    ),
    "stitching": Group(
        {"both": Variable(("pair", "side", "lambda", "block"), path="pair", needed=False)}
        | {"pair_control": Variable(("pair", "lambda", "block"), needed=False)}
        | {"single": Variable(("task", "points_of", "lambda", "block"))}
        | _all(("task", "lambda", "block"), "negated", "edited")
        | _all(
            ("task", "lambda", "block"),
            *("single_control", "negated_control", "edited_control"),
            needed=False,
        )
        | {"control_sample_index": Variable(("control_point",), needed=False)}
        | {"sample_index": ROWS["sample_index"]},
        axes={"lambda": ("lambda",), "block": ("block",)},
    ),
    "smoothness": Group(_all(TASK, "lambda_max", "residual", "hvp_count") | ROWS),
    "ntk": Group(
        {
            "local_energy": Variable(("task", "control", "logit", "both_points")),
            "eigenvalues": Variable(("task", "logit", "point"), needed=False),
            "gram": Variable(
                ("task", "logit", "point", "points_of", "other_point"), needed=False, whole=False
            ),
            "null_share": Variable(("task", "logit", "draw"), needed=False, since=2),
            "null_energy": Variable(("task", "logit", "draw", "both_points"), needed=False, since=2),
            "null_gram": Variable(
                ("task", "logit", "point", "draw", "other_point"), needed=False, whole=False
            ),
            "null_sample_index": Variable(("task", "draw", "point"), needed=False),
            "rank": Variable(("task", "control", "logit"), needed=False, since=2),
            "sample_index": ROWS["sample_index"],
        }
    ),
    "tau_jp": Group(
        {
            "value": Variable(("task", "points_of")),
            "control": Variable(TASK, needed=False),
            "validation_value": Variable(("task", "points_of"), needed=False, since=2),
            "validation_control": Variable(TASK, needed=False),
        }
        | ROWS
    ),
    "addition": Group(
        _all(("alpha", "task"), "validation_accuracy", "test_accuracy")
        | _all(
            (),
            *("chosen_alpha", "absolute", "normalized", "one_shot_absolute", "one_shot_normalized"),
        )
        | ROWS,
        axes={"alpha": ("alpha",)},
    ),
    "merging": Group(
        _all(("alpha", "task"), "validation_accuracy", "test_accuracy")
        | _all(TASK, "accuracy")
        | _all((), "coefficient", "absolute", "normalized", "density", "passes", "bytes")
        | _all((), "seconds", "forward_passes", "backward_passes", needed=False)
        | _all((), "masks", "mask_numbers", needed=False)
        | _all(TASK, "norm", "floored", "labels", "mask_density", "tall_lambda", needed=False)
        | {
            "data_sample_index": Variable(("task", "data_point"), needed=False),
            "lambda": Variable(("task", "parameter"), needed=False),
            "entropy": Variable(("merging_step",), needed=False),
            "mask_loss": Variable(("task", "merging_step"), needed=False),
            "mask_accuracy": Variable(("task", "mask_lambda"), needed=False),
            "loss": Variable(("merging_step",), needed=False),
        }
        | ROWS,
        axes={"alpha": ("alpha",)},
    ),
    "bases": Group(
        {
            "cosine": Variable(("task", "other")),
            "labels": Variable(("clusters", "partition", "task")),
            "accuracy": Variable(("clusters", "partition", "task")),
            "validation_accuracy": Variable(("clusters", "partition", "alpha", "task")),
            "chosen_clusters": Variable(()),
        }
        | _all(("eigenvalue",), "eigenvalues", "normalised_eigenvalues")
        | _all(("clusters", "partition"), "coefficient", "absolute", "normalized")
        | _all(("clusters", "partition"), "bytes", needed=False)
        | ROWS,
        axes={"alpha": ("alpha",), "clusters": ("clusters",)},
        words={"merge_in": "how a cluster's vectors became one", "merge_out": "how the bases became one"},
    ),
    "every_partition": Group(
        {
            "member": Variable(("member",)),
            "labels": Variable(("partition", "member")),
            "cluster": Variable(("cluster", "member")),
            "validation_accuracy": Variable(("partition", "alpha", "member")),
            "accuracy": Variable(("partition", "member")),
            "other": Variable(("held_out",), needed=False),
        }
        | _all(("partition",), "coefficient", "absolute", "normalized")
        | _all(("held_out", "cluster"), "cosine", needed=False)
        | _all(("held_out", "cluster", "held_alpha"), "held_validation", "held_test", needed=False)
        | _all(
            ("held_out", "partition"),
            *("nearest", "found", "one_shot", "tuned", "chosen_alpha"),
            needed=False,
        )
        | ROWS,
        axes={"alpha": ("alpha",)},
        words={"merge_out": "how the bases became one"},
        numbers={"threshold": "the cosine from which on a basis is found"},
    ),
    "partition_negation": Group(
        _all(
            ("negated_cluster", "alpha"),
            *("validation_target", "validation_control", "test_target", "test_control"),
        )
        | _all(("negated_cluster",), "chosen_alpha", "target", "control", "cosine")
        | {"member": Variable(("member",)), "cluster": Variable(("negated_cluster", "member"))}
        | {name: variable for name, variable in _NEGATED.variables.items() if name.endswith("sample_index")},
        axes=_NEGATED.axes,
        words={**_NEGATED.words, "task": "the task that was forgotten"},
        numbers=_NEGATED.numbers,
    ),
    "mixed_starts": Group(
        {"cosine": Variable(("vector", "other_vector")), "distance": Variable(())}
        | _all(("vector",), "norm", "across_norm")
        | {"start_norm": Variable(("start",))}
        | _all(("start", "task"), "start_accuracy", "own_accuracy")
        | {"validation_accuracy": Variable(("start", "vectors", "alpha", "task"))}
        | {"accuracy": Variable(("start", "vectors", "task"))}
        | _all(("start", "vectors"), "coefficient", "absolute", "normalized")
        | ROWS,
        axes={"alpha": ("alpha",)},
        words={"other": "the second pre-trained model"},
    ),
    "early_similarity": Group(
        {"cosine": Variable(("mark", "task", "other"))}
        | _all(("mark", "task"), "updates", "norm", "labels")
        | _all(("mark", "eigenvalue"), "eigenvalues", "normalised_eigenvalues")
        | {"every_labels": Variable(("mark", "clusters", "task"), needed=False)}
        | _all(("mark",), "chosen_clusters", "rand_index"),
        words={"marks": "the models on the way, by name"},
    ),
    "low_rank": Group(
        _all(("method", "bases"), "error")
        | {"encoder": Variable(("method", "bases", "task", "basis"))}
        | {"decoder": Variable(("method", "bases", "basis", "task"))}
        | {"validation_accuracy": Variable(("method", "bases", "sum", "alpha", "task"))}
        | {"accuracy": Variable(("method", "bases", "sum", "task"))}
        | _all(("method", "bases", "sum"), "coefficient", "absolute", "normalized")
        | ROWS,
        axes={"alpha": ("alpha",), "bases": ("bases",)},
        words={"methods": "how bases were made"},
    ),
    "basis_negation": Group(
        dict(_NEGATED.variables) | _all(TASK, "labels", "nearest", "nearest_cosine"),
        axes=_NEGATED.axes,
        words={**_NEGATED.words, "merge_in": "how a cluster's vectors became one"},
        numbers=_NEGATED.numbers,
    ),
    "low_rank_negation": Group(
        dict(_NEGATED.variables) | _all(TASK, "cosine"),
        axes=_NEGATED.axes,
        words=_NEGATED.words,
        numbers=_NEGATED.numbers,
    ),
    "basis_transfer": Group(
        {"labels": Variable(("task", "other")), "cosine": Variable(("task", "basis"))}
        | _all(("task", "basis", "alpha"), "validation_accuracy", "test_accuracy")
        | _all(TASK, "nearest", "found", "chosen_alpha", "accuracy", "others", "one_shot", "pretrained")
        | ROWS,
        axes={"alpha": ("alpha",)},
        words={"merge_in": "how a cluster's vectors became one"},
        numbers={"threshold": "the cosine from which on a basis is found"},
    ),
    "subsets": Group(
        {"validation_accuracy": Variable(("task_set", "alpha", "task"))}
        | _all(("task_set", "task"), "sets", "accuracy")
        | _all(("task_set",), "coefficient", "absolute", "normalized")
        | ROWS,
        axes={"alpha": ("alpha",)},
        words={"merge": "how a subset's vectors became one"},
    ),
    "generation": Group(
        _all(TASK, *TEXT_MEASURES)
        | {"tokens": Variable(("task", "point", "token"), whole=False)}
        | {"sample_index": Variable(("task", "point"))}
    ),
    "generation_sum": Group(
        _all(("alpha", "task"), *TEXT_MEASURES) | {"sample_index": Variable(("task", "point"))},
        axes={"alpha": ("alpha",)},
    ),
    "pair_addition": Group(
        _all(("pair", "alpha", "side"), "validation_accuracy", "test_accuracy")
        | _all(
            PAIR,
            *("chosen_alpha", "absolute", "normalized", "one_shot_absolute", "one_shot_normalized"),
        )
        | ROWS,
        axes={"alpha": ("alpha",)},
    ),
    "negation": Group(
        dict(_NEGATED.variables) | _CHOICE, _NEGATED.axes, words=_NEGATED.words, numbers=_NEGATED.numbers
    ),
    "continuation": Group(
        {
            "tau_jp": Variable(("step", "task", "points_of")),
            "pair_normalized": Variable(("step", "pair")),
            "normalized": Variable(("step",)),
            "accuracy": Variable(("step", "task"), needed=False),
        },
        axes={"step": ("step",)},
    ),
    "training": Group(
        {
            "loss": Variable(("task", "update")),
            "seconds": Variable(TASK),
            "penalty": Variable(("task", "update"), needed=False),
        }
    ),
    "variants": Group(_all(TASK, "learning_rate", "steps", "seed")),
    "cost": Group(
        _all(
            (),
            *("parameters", "trainable_parameters", "optimiser_memory", "peak_memory"),
            *("seconds_per_step", "forward_flops", "jvp_flops", "step_flops"),
        )
    ),
}

# /GROUP/METHOD/REGIME: the name below the group has two steps
BY_METHOD = frozenset({"merging", "every_partition", "partition_negation", "low_rank_negation"})

OF_PAIRS = frozenset(  # what they tell is of pairs alone
    name
    for name, group in GROUPS.items()
    if any(variable.needed and "pair" in variable.dims for variable in group.variables.values())
)

JOINT_TRAINING = Group(  # one curve for all tasks
    {
        "loss": Variable(("update",)),
        "seconds": Variable(()),
        "penalty": Variable(("update",), needed=False),
    }
)
