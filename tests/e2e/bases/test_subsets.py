# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[subsets]: random subsets of the tasks by size, from the run folder alone."""

from pathlib import Path

import analysis_command
import h5py
import launch
import numpy as np
import pandas as pd
import pytest
import taugrid_analysis
import torch
from compare import differing, numbers
from taugrid_analysis.quantities.merging import formulas
from taugrid_analysis.quantities.subsets import by_size
from taugrid_analysis.quantities.subsets import figures as subsets_figures
from taugrid_analysis.recompute.oracle import Oracle, flat
from test_bases import accuracy
from world import EXPERIMENT, REGIMES, T, World

ALPHA = [0.5, 1.0, 2.0]
TEXT = EXPERIMENT.split("[similarity]")[0].replace("steps = 25", "steps = 12") + f"""
[subsets]
draws = 2
alpha = {ALPHA}
[subsets.merge]
method = "ties"
density = 0.6
"""


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.elsewhere(tmp_path_factory.mktemp("experiment") / "subsets.toml", TEXT)


@pytest.fixture(scope="module")
def run(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("subsets") / "run"
    launch.measure(experiment, folder)
    return folder


@pytest.fixture(scope="module")
def again(run: Path) -> Oracle:
    return Oracle(run)


def test_numbers_do_not_depend_on_the_ranks(experiment: Path, run: Path, tmp_path: Path) -> None:
    """Nor on whether memory holds the vectors."""
    results = launch.measure(experiment, tmp_path / "run", "--set", "run.memory=1e-5", ranks=4)
    assert differing(numbers(run / "results.h5"), numbers(results)) == []


@pytest.mark.parametrize("regime", REGIMES)
def test_random_subsets(again: Oracle, regime: str) -> None:
    group, single = again.results[f"subsets/{regime}"], again.results[f"single_task/{regime}"]
    tau = torch.stack([flat(again.tau(regime, t)) for t in T]).numpy()
    member = group["sets"][()].astype(bool)
    assert member.sum(1).tolist() == [1, 1, 2, 2, 3] and len({tuple(row) for row in member.tolist()}) == 5
    assert (member == again.results["subsets/standard/sets"][()]).all()  # the same for every regime
    for s, row in enumerate(member):
        of = np.flatnonzero(row)
        merged = formulas.ties(tau[of], np.ones(len(of)), 0.6)
        assert np.isnan(group["accuracy"][s][~row]).all() and np.isnan(group["validation_accuracy"][s][:, ~row]).all()
        for t in of:
            chosen = group["coefficient"][s]
            right, n = accuracy(again, regime, merged, chosen, t, f"{group.name}/sample_index", "test")
            assert group["accuracy"][s, t] == pytest.approx(right, abs=1.01 / n)
            bits = np.unpackbits(again.results[f"correct{group.name}/accuracy"][s, t])[:n]
            assert bits.mean() == pytest.approx(group["accuracy"][s, t])
            for a, alpha in enumerate(ALPHA):
                index = f"{group.name}/validation_sample_index"
                right, n = accuracy(again, regime, merged, alpha, t, index, "validation")
                assert group["validation_accuracy"][s, a, t] == pytest.approx(right, abs=1.01 / n)
        shares = (group["validation_accuracy"][s][:, of] / single["validation_accuracy"][()][of]).mean(1)
        assert group["coefficient"][s] == ALPHA[int(np.argmax(shares))]
        test = group["accuracy"][s][of]
        assert group["absolute"][s] == pytest.approx(test.mean())
        assert group["normalized"][s] == pytest.approx((test / single["accuracy"][()][of]).mean())


def test_subsets_of_all_sizes_added(run: Path) -> None:
    """The table's means and errors over the subsets of a size, by pandas, and its figure."""
    with h5py.File(run / "results.h5") as file:
        group, single = file["subsets/standard"], file["single_task/standard/accuracy"][()]
        size, absolute = group["sets"][()].sum(1), group["absolute"][()]
        member = group["sets"][()].astype(bool)
    with taugrid_analysis.open(run) as opened:
        frame = by_size.by_size(opened)
        figure = subsets_figures.by_number(opened)
    rows = frame[frame["regime"] == "standard"].set_index("tasks")
    for count, of_size in pd.Series(absolute).groupby(size):
        assert rows.loc[count, "absolute"] == pytest.approx(of_size.mean())
        assert rows.loc[count, "absolute_error"] == pytest.approx(of_size.sem(), nan_ok=True)
        alone = [single[row].mean() for row in member[size == count]]
        assert rows.loc[count, "single"] == pytest.approx(np.mean(alone))
    assert rows["every"].tolist() == [False, False, True]
    assert figure is not None
    assert [axes.get_xlabel() for axes in figure.axes] == ["tasks added"] * 2
    assert len(figure.axes[1].containers) == len(REGIMES)  # a line with bars each
    done = analysis_command.called("tables", run, "--only", "subsets", "--format", "csv")
    assert done.returncode == 0 and "merged by ties" in done.stdout, done.stdout + done.stderr


def test_all_tasks_added_are_task_arithmetic(world: World, tmp_path: Path) -> None:
    text = TEXT.split("[subsets]")[0] + "[addition]\nalpha = [1.0]\n[subsets]\nsizes = [3]\nalpha = [1.0]\n"
    path = launch.measure(world.elsewhere(tmp_path / "subsets.toml", text), tmp_path / "run")
    with h5py.File(path) as file:
        for regime in REGIMES:
            ours, sums = file[f"subsets/{regime}"], file[f"addition/{regime}"]
            assert ours.attrs["merge"] == "task_arithmetic" and ours["validation_accuracy"].shape == (1, 1, 3)
            np.testing.assert_allclose(ours["validation_accuracy"][0], sums["validation_accuracy"], atol=1.01 / 20)
            np.testing.assert_allclose(ours["accuracy"], sums["test_accuracy"], atol=1.01 / 24)


def test_recompute_takes_subsets_again(run: Path) -> None:
    done = analysis_command.called("recompute", run, "--points", "80", "--only", "subsets")
    assert done.returncode == 0, done.stdout + done.stderr
    for what in ("coefficient", "absolute", "normalized", "accuracy", "validation_accuracy"):
        assert f"\nsubsets: {what} " in done.stdout


def test_pairs_by_slerp(experiment: Path, run: Path, tmp_path: Path) -> None:
    settings = [word for each in ('subsets.merge={method="slerp", of="vectors", t=0.3}', "subsets.sizes=[2]")
                for word in ("--set", each)]
    launch.measure(experiment, tmp_path / "run", *launch.given_by(run), *settings)
    done = analysis_command.called("recompute", tmp_path / "run", "--points", "20", "--only", "subsets")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\nsubsets: accuracy " in done.stdout
    settings += ["--set", "data.beat_majority=true"]  # which may leave one of two
    done = launch.run(1, "run", experiment, "--run-dir", tmp_path / "other", *settings)
    assert done.returncode == 2 and "subsets.merge.method" in done.stderr and "there are 1" in done.stderr


@pytest.mark.parametrize(("setting", "expected"), [
    ("subsets.sizes=[0, 2]", ["subsets.sizes", "3 tasks"]),
    ("subsets.sizes=[4]", ["subsets.sizes", "4", "3 tasks"]),
    ("subsets.draws=0", ["subsets.draws", "0"]),
    ('subsets.merge={method="slerp"}', ["subsets.merge.method", "subsets of 1", "slerp", "two models"]),
])
def test_wrong_settings(experiment: Path, tmp_path: Path, setting: str, expected: list[str]) -> None:
    launch.complaint(launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", "--set", setting), *expected)
