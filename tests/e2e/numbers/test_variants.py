# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Several fine-tunings of one task, each measured as a task: they are what they say, and averages of them are right."""

from itertools import combinations, product
from pathlib import Path

import h5py
import numpy as np
import pytest
from compare import differing, numbers
from launch import complaint, kill_all, measure, run, start, units, wait_until
from taugrid_analysis.papers import figure
from taugrid_analysis.quantities.averages import recompute as averages_recompute
from taugrid_analysis.quantities.averages.tables import averages
from taugrid_analysis.quantities.linearity import recompute as linearity_recompute
from taugrid_analysis.quantities.linearity.tables import of_averages
from taugrid_analysis.quantities.variants.tables import variants
from taugrid_analysis.recompute.command import Extent, recompute
from taugrid_analysis.recompute.oracle import Oracle
from taugrid_analysis.run.opened import Run
from world import EXPERIMENT, World

RATES, STEPS, SEEDS = (1e-3, 2e-3), (20, 25), 2
EVERY = list(product(RATES, STEPS, range(SEEDS)))  # the seed runs fastest
SETS = [*combinations(range(8), 2), *combinations(range(8), 3), tuple(range(8))]
TEXT = EXPERIMENT[: EXPERIMENT.index("[finetune.linear]")].replace('["stripes", "blobs", "corners"]', '["stripes"]')
TEXT += """
[variants]
learning_rate = [1e-3, 2e-3]
steps = [20, 25]
seeds = 2

[averages]

[layer_averages]

[smoothness]
points = 24
chunk = 10
max_basis = 12
start = true
"""


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.elsewhere(tmp_path_factory.mktemp("text") / "variants.toml", TEXT)


@pytest.fixture(scope="module")
def folder(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("variants") / "run"
    measure(experiment, path)
    return path


def test_each_is_trained_by_its_own_rate_steps_and_seed(folder: Path, run_folder: Path) -> None:
    names = [f"stripes-{k}" for k in range(1, 9)]
    with h5py.File(folder / "results.h5") as file:
        assert [name.decode() for name in file["tasks/name"]] == names
        assert {name.decode() for name in file["tasks/data"]} == {"stripes"}
        settings = file["variants/standard"]
        assert [tuple(row) for row in np.stack([settings[key] for key in ("learning_rate", "steps", "seed")], axis=1)
                ] == [tuple(map(float, variant)) for variant in EVERY]
        loss = file["training/standard/loss"][()]
        index = file["averages/standard/sample_index"][()]
    assert loss.shape == (8, 25)
    for row, (_, steps, _) in zip(loss, EVERY, strict=True):
        assert np.isfinite(row[:steps]).all() and np.isnan(row[steps:]).all()
    first = loss[:, 0]  # the loss of θ0 on the first batch, which the seed alone draws
    assert len(set(first)) == SEEDS and (first[::2] == first[0]).all() and (first[1::2] == first[1]).all()
    assert (index == index[0]).all()  # all are seen on the same points

    # The one of rate 1e-3, 25 steps and the first seed is what a run without variants trains.
    of_variant, other = (path / "checkpoints/standard" / name / "model.safetensors"
                         for path, name in ((folder, names[EVERY.index((1e-3, 25, 0))]), (run_folder, "stripes")))
    assert of_variant.read_bytes() == other.read_bytes()
    models = {(folder / "checkpoints/standard" / name / "model.safetensors").read_bytes() for name in names}
    assert len(models) == 8


@pytest.mark.parametrize("regime", ["standard", "linear"])
def test_averages_over_pairs_and_all_56_triples(folder: Path, regime: str) -> None:
    oracle = Oracle(folder)
    group = oracle.results[f"averages/{regime}"]
    assert [tuple(np.flatnonzero(row)) for row in group["sets"]] == SETS
    points = group["sample_index"].shape[1]
    for kind in averages_recompute.AVERAGES:
        value = group[kind][()]
        seen = np.isfinite(value)
        assert (seen.sum(axis=1) == 1).all()  # on their common points, once
        assert [int(row.argmax()) for row in seen] == [min(members) for members in SETS]
        for s in (0, 27, 28, 60, 83, 84):
            members = list(SETS[s])
            right = averages_recompute.average(oracle, kind, regime, members, members[0], f"{group.name}/sample_index")
            assert value[s, members[0]] == pytest.approx(right.mean(), abs=1.01 / points)


def test_the_average_of_all_by_layer_on_their_common_points(folder: Path) -> None:
    """Equation 1: of the eight models, whose data is one."""
    oracle = Oracle(folder)
    group = oracle.results["layer_averages/standard"]
    assert list(group["data"]) == [0] and group["sets"].shape == (1, 8) and (group["sets"][()] == 1).all()
    again = linearity_recompute.of_average(oracle, "standard", 0)
    for name, part in (("cosine", 1e-6), ("baseline", 1e-6), ("coefficient", 1e-6), ("error", 1e-3)):
        expected = [linearity_recompute.summary(layer[name]) for layer in again]
        np.testing.assert_allclose(group[name][0], expected, rtol=1e-4, atol=part, err_msg=name)
    with Run(folder) as opened:
        frame, rows = opened.layer_averages, of_averages(opened).rows
        for number in (5, 6, 17):
            plate = next(plate for plate in figure.of_paper("cross_task_linearity") if plate.number == number)
            assert figure.drawn(plate, [opened])[0] is not None
    assert set(frame["data"]) == {"stripes"} and (frame["models"] == 8).all()
    layers = ("embedding", "1", "2", "output")
    assert [row[:4] for row in rows[:4]] == [["standard", "stripes", 8, name] for name in layers]
    # The average's own features miss less than single models do.
    assert (1 - group["cosine"][0, 1:, 0] < 1 - group["baseline"][0, 1:, 0]).all()


def test_curvature_at_theta0_is_one_for_all(folder: Path) -> None:
    oracle = Oracle(folder)
    group = oracle.results["smoothness/pretrained"]
    value, residual = group["lambda_max"][()], group["residual"][()]
    assert (value == value[0]).all() and set(oracle.results["smoothness"]) == {"linear", "pretrained", "standard"}
    assert value[0] == pytest.approx(abs(oracle.largest_eigenvalue("pretrained", 0)), rel=residual[0] + 2e-5)


def test_tables_and_recompute(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Run(folder) as opened:
        rows = variants(opened).rows
        sets = [row[:3] for row in averages(opened).rows]
    assert [tuple(row[2:5]) for row in rows[:8]] == [(pytest.approx(rate), steps, seed) for rate, steps, seed in EVERY]
    assert all(0 <= float(row[5]) <= 1 for row in rows)
    assert sets[:3] == [["standard", 2, 28], ["standard", 3, 56], ["standard", 8, 1]]
    known = ["variants", "averages", "layer_averages", "training", "samples"]
    assert recompute(folder, Extent(points=6), 0, known) == 0, capsys.readouterr().out


def test_a_killed_run_ends_with_the_same_numbers(experiment: Path, folder: Path, tmp_path: Path) -> None:
    again = tmp_path / "run"
    job = start(2, "run", experiment, "--run-dir", again, "--set", "finetune.checkpoint_seconds=0.01")
    assert wait_until(lambda: units(again) >= 5, job)
    kill_all(job)
    measure(experiment, again, "--set", "finetune.checkpoint_seconds=0.01", ranks=1)
    assert not differing(numbers(again / "results.h5"), numbers(folder / "results.h5"))


@pytest.mark.parametrize(("setting", "words"), [
    ("variants.steps=[2, 25]", "warmup_steps: is 3 for standard; expected at most the 2 of variants.steps"),
    ("variants.steps=[20, 20]", "variants.steps: holds 20"),
    ("variants.steps=[20.5]", "expected integers"),
    ("data.control=stripes", '"stripes" is also one of the tasks'),
    ("heads.warmup_steps=0", "sections [heads] and [variants]"),
    ('finetune.regimes=["tau_jp"]', "tau_jp trains on other tasks"),
    ('finetune.regimes=["multitask"]', "multitask trains on other tasks"),
])
def test_what_makes_no_variants_is_refused(experiment: Path, tmp_path: Path, setting: str, words: str) -> None:
    complaint(run(1, "run", experiment, "--run-dir", tmp_path / "run", "--set", setting), words)


def test_variants_of_epochs_have_their_warm_up(world: World, tmp_path: Path) -> None:
    text = TEXT.replace("steps = 25", "epochs = 1").replace("steps = [20, 25]\n", "")
    experiment = world.elsewhere(tmp_path / "epochs.toml", text)
    warm_up = ("--set", "finetune.warmup_steps=2500")  # more than the steps that are not set
    complaint(run(1, "run", experiment, "--run-dir", tmp_path / "run", *warm_up),
              "warmup_steps: is 2500 for standard; expected at most the 4 steps that epochs = 1 are of stripes-1")
