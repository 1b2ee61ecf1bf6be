# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The public interface: frames and data sets hold the file's numbers, and the examples of docs/ run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import h5py
import matplotlib as mpl
import numpy as np
import pytest
import synthetic
import synthetic_edits

import taugrid_analysis as tg
from taugrid_analysis.errors import InputError
from taugrid_analysis.page.report import report
from taugrid_analysis.page.tables import all_tables
from taugrid_analysis.run.opened import Run

DOCUMENTATION = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def run(schema2_folder: Path) -> Run:
    return tg.open(schema2_folder)


@pytest.fixture(scope="module")
def file(schema2_folder: Path) -> h5py.File:
    return h5py.File(schema2_folder / "results.h5")


def test_open_takes_a_folder_a_file_and_a_text(schema2_folder: Path) -> None:
    for path in (schema2_folder, schema2_folder / "results.h5", str(schema2_folder)):
        with tg.open(path) as run:
            assert "8 tasks, 28 pairs, standard, posthoc" in repr(run)
    with pytest.raises(InputError, match=r"no results\.h5"):
        tg.open(schema2_folder.parent)


def test_tasks(run: Run, file: h5py.File) -> None:
    frame = run.tasks
    assert frame.index.names == ["regime", "task"]
    regimes = frame.index.get_level_values("regime").unique().tolist()
    assert regimes == ["pretrained", *synthetic.EVERY, "multitask", "multitask_linear"]
    for regime in ("pretrained", "linear"):
        np.testing.assert_array_equal(
            frame.loc[regime, "accuracy"], file[f"single_task/{regime}/accuracy"][()]
        )
    np.testing.assert_array_equal(frame.loc["multitask", "accuracy"], file["multitask/multitask/accuracy"])
    np.testing.assert_array_equal(frame.loc["linear", "norm"], synthetic.norms("linear"))
    np.testing.assert_array_equal(
        frame.loc["tau_jp", "tau_jp"], np.diag(synthetic_edits.product("tau_jp", 8))
    )
    np.testing.assert_array_equal(
        frame.loc["standard", "wide_negated"], file["negation/standard/wide/target"]
    )
    assert frame.loc["pretrained", "norm"].isna().all()
    assert frame.loc[("linear", "mnist5k"), "points"] == 512


def test_pairs(run: Run, file: h5py.File) -> None:
    frame = run.pairs.loc["linear"]
    assert frame.index[0] == "fashion + mnist5k" and frame["task_2"].iloc[0] == "mnist5k"
    np.testing.assert_array_equal(frame["normalized"], file["pair_addition/linear/normalized"])
    np.testing.assert_array_equal(frame["xi_one"], file["disentanglement/linear/error"][:, 8, 8])
    np.testing.assert_array_equal(frame["loss_gap_2"], file["similarity/linear/loss_gap"][:, 1])
    np.testing.assert_allclose(frame["tau_jp_validation"], 1.1 * frame["tau_jp"])
    np.testing.assert_allclose(frame["symmetric_kl_one"], 1.5 * frame["kl_one"])


def test_sweeps(run: Run, file: h5py.File) -> None:
    frame = run.sweeps
    curve = frame[(frame.experiment == "addition") & (frame.regime == "linear") & (frame.split == "test")]
    assert len(curve) == 21 * 8
    np.testing.assert_array_equal(
        curve.pivot(index="alpha", columns="task", values="accuracy")[list(synthetic.TASKS)],
        file["addition/linear/test_accuracy"][()],
    )
    of_pair = frame[(frame.experiment == "pair_addition") & (frame.pair == "mnist5k + letters")]
    assert set(of_pair.task) == {"mnist5k", "letters"}
    control = frame[(frame.experiment == "negation") & frame.on_control & (frame.split == "test")]
    assert set(control.points) == {300}
    np.testing.assert_array_equal(
        control[control.regime == "linear"].accuracy, file["negation/linear/test_control"][()].ravel()
    )


def test_summary(run: Run, file: h5py.File) -> None:
    row = run.summary.loc["linear"]
    assert row["absolute"] == file["addition/linear/absolute"][()]
    assert row["single"] == pytest.approx(file["single_task/linear/accuracy"][()].mean())
    assert row["tau_jp"] == pytest.approx(synthetic_edits.between("linear", 8).mean())
    assert run.summary.loc["pretrained", "absolute"] != run.summary.loc["pretrained", "absolute"]  # NaN


DIMENSIONS = {
    ("disentanglement", "error_by_task"): ("pair", "side", "alpha_1", "alpha_2"),
    ("tau_jp", "value"): ("task", "points_of"),
    ("pair_addition", "test_accuracy"): ("pair", "alpha", "side"),
    ("negation", "test_control"): ("task", "alpha"),
    ("negation", "wide_target"): ("task",),
    ("similarity", "cosine"): ("task", "other"),
    ("training", "loss"): ("task", "update"),
}


@pytest.mark.parametrize(("group", "variable"), DIMENSIONS)
def test_dimensions_have_names(run: Run, file: h5py.File, group: str, variable: str) -> None:
    data = run.data(group, "linear")
    assert data is not None and data[variable].dims == DIMENSIONS[group, variable]
    path = variable.replace("wide_", "wide/")
    np.testing.assert_array_equal(data[variable], file[f"{group}/linear/{path}"])


def test_labels_choose(run: Run, file: h5py.File) -> None:
    data = run.data("disentanglement", "standard")
    assert data is not None and data.attrs["metric"] == "disagreement"
    cell = data.error.sel(pair="fashion + animals", alpha_1=-3.0, alpha_2=0.5)
    assert float(cell) == file["disentanglement/standard/error"][1, 0, 7]
    kernel = run.data("ntk", "pretrained")
    assert kernel is not None and "gram" not in kernel
    assert kernel.null_share.dims == ("task", "logit", "draw")
    whole = run.data("ntk", "pretrained", "gram")
    assert whole is not None and whole.gram.sel(task="letters", points_of="emoji").shape == (4, 16, 16)
    assert run.data("ntk", "random") is None and run.data("nonsense", "linear") is None


def test_a_group_of_a_later_experiment_has_the_files_own_names(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, schema=2)
    with h5py.File(path, "r+") as handle:
        values = np.arange(6 * 5 * 3.0).reshape(6, 5, 3)
        handle["later/standard/cosine"] = values
        for place, label in enumerate(("pair", "layer", "alpha")):
            handle["later/standard/cosine"].dims[place].label = label
        handle["later/standard/both"] = np.eye(4)
        for place in (0, 1):
            handle["later/standard/both"].dims[place].label = "task"
        handle["later/standard/unnamed"] = np.zeros(3)
        handle["similarity/linear/more"] = np.arange(4)
        handle["similarity/linear/more"].dims[0].label = "task"
    with tg.open(tmp_path) as run:
        data, known = run.data("later", "standard"), run.data("similarity", "linear")
    assert data is not None and data.cosine.dims == ("pair", "layer", "alpha")
    assert float(data.cosine.sel(pair="fashion + letters", layer=4, alpha=0)) == values[2, 4, 0]
    assert data.both.dims == ("task_1", "task_2") and "unnamed" not in data
    assert known is not None and known.more.sel(task="letters") == 3


@pytest.mark.usefixtures("undrawn")
def test_chosen_pairs(tmp_path: Path) -> None:
    """A run may measure some pairs alone; the frames and tables follow from those, in the file's order."""
    chosen = [(0, 1), (3, 0), (2, 3)]
    path = tmp_path / "results.h5"
    synthetic.write(path, tasks=synthetic.FEW_TASKS, schema=2, pairs=chosen)
    with tg.open(tmp_path) as run:
        names = ["fashion + mnist5k", "letters + fashion", "animals + letters"]
        assert run.pairs.loc["linear"].index.tolist() == names
        assert {table.name for table in all_tables(run, by_pair=True)} >= {"pairs", "predictors", "bound"}
        text = report(run)
        assert all(name in text for name in names)


@pytest.mark.parametrize(("page", "least"), [("analysis.md", 3), ("formats.md", 1)])
def test_the_examples_of_the_documentation(
    page: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run as they are printed, in a folder that has the runs which they name."""
    for place, name in enumerate(("quickstart", "seed0", "seed1")):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        synthetic.write(folder / "results.h5", tasks=synthetic.FEW_TASKS, schema=2, seed=place)
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    text = (DOCUMENTATION / page).read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(examples) >= least
    for example in examples:
        names: dict[str, object] = {}
        exec(compile(example, page, "exec"), names)
        if "worst" in names:
            assert names["worst"] == "animals + letters"


def test_help_loads_no_numerics() -> None:
    check = "import sys, taugrid_analysis.cli; sys.exit('scipy' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
