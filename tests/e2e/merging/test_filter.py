# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""[data] beat_majority: a task whose model does not beat the majority vote is in no merge, basis and subset."""

import shutil
from pathlib import Path

import analysis_command
import h5py
import launch
import numpy as np
import pytest
from compare import differing, numbers
from world import EXPERIMENT, TASKS, World

LEFT = [0, 2]  # `blobs` has one class on validation points, which no model is right on more of
TEXT = (
    EXPERIMENT.split("[similarity]")[0]
    .replace("steps = 25", "steps = 12")
    .replace('["standard", "linear"]', '["standard"]')
    + """
[merging]
methods = ["task_arithmetic", "ties", "consensus_ta"]
alpha = [0.5, 1.0]
save = true
[bases]
random = 2
alpha = [0.5, 1.0]
[subsets]
draws = 3
alpha = [0.5, 1.0]
"""
)
TEXT = TEXT.replace("[finetune.linear]\nlearning_rate = 2e-3\n", "")
FILTER = ("--set", "data.beat_majority=true")


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = world.elsewhere(tmp_path_factory.mktemp("experiment") / "filter.toml", TEXT)
    folder = path.parent / "filtered"
    shutil.copytree(world.folder / "data", folder)
    with h5py.File(folder / "blobs.h5", "r+") as file:
        file["validation/labels"][...] = 1
    lines = [f'folder = "{folder}"' if line.startswith("folder =") else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def run(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filter") / "run"
    launch.measure(experiment, folder, *FILTER)
    return folder


def test_numbers_do_not_depend_on_the_ranks(experiment: Path, run: Path, tmp_path: Path) -> None:
    results = launch.measure(experiment, tmp_path / "run", *FILTER, ranks=4)
    assert differing(numbers(run / "results.h5"), numbers(results)) == []


def test_merges_and_bases_are_those_of_the_other_tasks_alone(experiment: Path, run: Path, tmp_path: Path) -> None:
    """Bit by bit, as if the run had not had the task."""
    names = ", ".join(f'"{TASKS[t]}"' for t in LEFT)
    alone = launch.measure(experiment, tmp_path / "run", "--set", f"data.tasks=[{names}]")
    with h5py.File(run / "results.h5") as file, h5py.File(alone) as two:
        share = [
            np.bincount(h5py.File(experiment.parent / "filtered" / f"{task}.h5")["validation/labels"][()]).max() / 20
            for task in TASKS
        ]
        np.testing.assert_allclose(file["tasks/validation_majority"], share)
        single = file["single_task/standard"]
        assert single["beats_majority"][()].tolist() == (single["validation_accuracy"][()] > share).tolist()
        assert single["beats_majority"][()].tolist() == [1, 0, 1]
        for method in ("task_arithmetic", "ties", "consensus_ta"):
            ours, theirs = (results[f"merging/{method}/standard"] for results in (file, two))
            for name in ("validation_accuracy", "test_accuracy"):
                assert (ours[name][:, LEFT] == theirs[name][()]).all() and np.isnan(ours[name][:, 1]).all()
            for name in ("coefficient", "absolute", "normalized", "density", "bytes"):
                assert ours[name][()] == theirs[name][()], name
        ours, theirs = (results["bases/standard"] for results in (file, two))
        assert ours["cosine"].shape == (3, 3) and ours["chosen_clusters"][()] == theirs["chosen_clusters"][()] == 2
        assert (ours["eigenvalues"][:2] == theirs["eigenvalues"][()]).all() and np.isnan(ours["eigenvalues"][2])
        assert (ours["labels"][:, :, 1] == -1).all() and (ours["labels"][2] == -1).all()  # two tasks, no three clusters
        assert (ours["labels"][:2, 0][:, LEFT] == theirs["labels"][:, 0]).all()
        for name in ("accuracy", "validation_accuracy"):
            assert (ours[name][:2, 0][..., LEFT] == theirs[name][:, 0]).all() and np.isnan(ours[name][2]).all()
        for name in ("coefficient", "absolute", "normalized"):
            assert (ours[name][:2, 0] == theirs[name][:, 0]).all() and np.isnan(ours[name][2]).all()
        ours, theirs = (results["subsets/standard"] for results in (file, two))
        sets = ours["sets"][()]
        assert (sets[:, 1] == 0).all() and sorted(sets.sum(1).tolist()) == [0, 1, 1, 1, 1, 2, 2]
        for s, row in enumerate(sets):
            same = np.flatnonzero((theirs["sets"][()] == row[LEFT]).all(1))
            if not row.any():
                assert np.isnan(ours["absolute"][s]) and np.isnan(ours["accuracy"][s]).all()
                continue
            for name in ("absolute", "normalized", "coefficient"):
                assert (ours[name][s] == theirs[name][()][same]).all()


def test_a_saved_merge_is_of_the_other_tasks(run: Path) -> None:
    recipe = (run / "merged" / "ties" / "standard" / "merge.toml").read_text()
    assert [f"standard/{task}" in recipe for task in TASKS] == [True, False, True]


def test_tables_and_recompute_know_of_it(run: Path) -> None:
    done = analysis_command.called("tables", run)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        done.stdout.count("Left out of standard") == 2
        and "does not beat it on validation points of blobs" in done.stdout
    )
    done = analysis_command.called("figures", run, "--paper", "bases", "--out", run / "figures")
    assert done.returncode == 0 and (run / "figures" / "bases_fig08_accuracy_by_clusters.png").is_file(), done.stderr
    only = [word for name in ("single_task", "merging", "bases", "subsets") for word in ("--only", name)]
    done = analysis_command.called("recompute", run, "--points", "60", *only)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "beats_majority" in done.stdout


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (("--set", "bases.held_out.clusters=0"), "bases.held_out"),
        (("--set", 'merging.methods=["fisher"]'), "merging.fisher"),
    ],
)
def test_what_takes_all_tasks_is_refused(
    experiment: Path, tmp_path: Path, more: tuple[str, str], expected: str
) -> None:
    done = launch.run(1, "run", experiment, "--run-dir", tmp_path / "run", *FILTER, *more)
    launch.complaint(done, "data.beat_majority", f"[{expected}]")


def test_no_task_beats_it(experiment: Path, tmp_path: Path) -> None:
    done = launch.run(2, "run", experiment, "--run-dir", tmp_path / "run", *FILTER, "--set", 'data.tasks=["blobs"]')
    launch.complaint(done, "leaves no task")
