# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import csv
import io
from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic

from taugrid_analysis.cli import main
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page import over_seeds
from taugrid_analysis.page.table import Column, Table


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three runs: one at known accuracies, one fine-tuned to 0.1 more, one that fine-tuning harms."""
    folder = tmp_path_factory.mktemp("seeds")
    folders = []
    for number, single in enumerate((0.7, 0.8, 0.3)):
        path = folder / str(number) / "results.h5"
        path.parent.mkdir()
        synthetic.write(path, tasks=synthetic.FEW_TASKS)
        with h5py.File(path, "a") as file:
            file["single_task/pretrained/accuracy"][...] = 0.4
            file["single_task/standard/accuracy"][...] = single
            file["addition/standard/absolute"][...] = 0.55
            file["provenance"].attrs["seed"] = number
        folders.append(path.parent)
    return folders


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[list[dict[str, str]]]:
    assert main(["seeds", *map(str, arguments), "--format", "csv"]) == 0
    parts = capsys.readouterr().out.split("\n\n")
    return [list(csv.DictReader(line for line in io.StringIO(p) if not line.startswith("#"))) for p in parts]


def test_means_and_deviations(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row for row in printed(capsys, *runs[:2])[0] if row["regime"] == "standard"]
    assert [row["seed"] for row in rows] == ["0", "1", "mean", "deviation", "… sampling", "… training"]
    assert [float(row["gain"]) for row in rows[:4]] == pytest.approx([0.3, 0.4, 0.35, 0.1 / np.sqrt(2)])
    assert float(rows[2]["gain error"]) == pytest.approx(0.1 / np.sqrt(2) / np.sqrt(2))
    assert [float(row["recovered"]) for row in rows[:2]] == pytest.approx([0.15 / 0.3, 0.15 / 0.4])
    expected = np.mean([synthetic.xi("standard", pair, 1.0, 1.0).sum() for pair in synthetic.pairs_of(4)])
    assert float(rows[0]["ξ(1,1)"]) == pytest.approx(expected, abs=0.02)
    assert float(rows[0]["ξ(0.5,0.5)"]) < float(rows[0]["ξ(1,1)"]) < float(rows[0]["ξ far corner"])


def test_runs_of_one_seed_are_one_seed(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row for row in printed(capsys, runs[0], runs[1], runs[0])[0] if row["regime"] == "standard"]
    assert [row["seed"] for row in rows] == ["0", "1", "0"]
    assert main(["seeds", str(runs[0]), str(runs[0])]) == 0
    assert "pretrained standard: seed 0 is there more than once" in capsys.readouterr().out


def drawn(folder: Path, rows: np.ndarray, accuracy: np.ndarray, seed: int) -> Path:
    """A run whose tasks reach these accuracies on these rows."""
    folder.mkdir()
    path = synthetic.write(folder / "results.h5", tasks=synthetic.FEW_TASKS, seed=seed)
    with h5py.File(path, "a") as file:
        for name in ("single_task/standard", "addition/standard"):
            del file[f"{name}/sample_index"]
            file[f"{name}/sample_index"] = rows
        file["single_task/standard/accuracy"][...] = accuracy
    return folder


@pytest.mark.parametrize("shared", [False, True], ids=["other points", "the same points"])
def test_the_spread_is_split(shared: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Seeds that draw 400 other points add √(p(1−p)/400/4); on the same points all of it is training."""
    rows = [np.arange(400) + (0 if shared else 400 * seed) for seed in range(3)]
    levels = np.array([[0.8, 0.7, 0.6, 0.5], [0.85, 0.75, 0.65, 0.55], [0.75, 0.65, 0.55, 0.45]])
    runs = [drawn(tmp_path / str(seed), np.tile(rows[seed], (4, 1)), levels[seed], seed) for seed in range(3)]
    single = {
        row["seed"]: float(row["single"])
        for row in printed(capsys, *runs)[0]
        if row["regime"] == "standard" and row["single"]
    }
    deviation = levels.mean(axis=1).std(ddof=1)
    errors = np.sqrt((levels * (1 - levels) / 400).sum(axis=1)) / 4
    sampling = 0.0 if shared else np.sqrt((errors**2).mean())
    assert single["deviation"] == pytest.approx(deviation)
    assert single["… sampling"] == pytest.approx(sampling)
    assert single["… training"] == pytest.approx(np.sqrt(deviation**2 - sampling**2))


def test_forms_of_the_penalty_stand_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for form, others in (("squared", "sum"), ("norm", "mean")):
        folder = tmp_path / form
        folder.mkdir()
        regimes = ("linear", "tau_jp")
        path = synthetic.write(folder / "results.h5", tasks=synthetic.FEW_TASKS, regimes=regimes, schema=2)
        with h5py.File(path, "a") as file:
            attrs = file["training/tau_jp"].attrs
            attrs["penalty_form"], attrs["penalty_others"], attrs["penalty_weight"] = form, others, 0.1
    tables = printed(capsys, tmp_path / "squared", tmp_path / "norm")
    forms = next(table for table in tables if "others" in table[0])
    shown = [(row["run"], row["regime"], row["penalty"], row["others"]) for row in forms]
    assert shown == [
        ("squared", "linear", "none", ""),
        ("squared", "tau_jp", "‖Jτ‖²", "sum"),
        ("norm", "linear", "none", ""),
        ("norm", "tau_jp", "‖Jτ‖", "mean"),
    ]
    assert all(float(row["single"]) > 0 and float(row["normalized error"]) > 0 for row in forms)
    assert [row["λ"] for row in forms] == ["nan", "0.1", "nan", "0.1"]
    with h5py.File(tmp_path / "norm" / "results.h5") as file:
        sums = file["addition/tau_jp"]
        place = list(sums["alpha"]).index(1.0)
        validation = sums["validation_accuracy"][place].mean()
    assert float(forms[-1]["validation"]) == pytest.approx(validation, abs=1e-4)
    kinds = {row["penalty"] for row in tables[0] if row["regime"] == "tau_jp"}
    assert kinds == {"‖Jτ‖², sum, λ 0.1", "‖Jτ‖, mean, λ 0.1"}  # no mean over both


def test_a_sweep_of_the_penalty_needs_no_grids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As jobs/penalty_sweep.sh measures it: sums alone."""
    folder = tmp_path / "norm_1"
    folder.mkdir()
    regimes = ("linear", "tau_jp")
    path = synthetic.write(folder / "results.h5", tasks=synthetic.FEW_TASKS, regimes=regimes)
    with h5py.File(path, "a") as file:
        for group in ("disentanglement", "similarity", "pair_addition"):
            if group in file:
                del file[group]
    tables = printed(capsys, folder)
    assert [row["regime"] for row in tables[0]] == ["linear", "tau_jp"] and "validation" in tables[0][0]


def test_models_are_chosen_on_validation_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second recovers more of its gain on validation points, the first on test points."""
    folders = []
    for number, (kept, test) in enumerate([(0.55, 0.69), (0.65, 0.41)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = synthetic.write(folder / "results.h5", tasks=synthetic.FEW_TASKS)
        with h5py.File(path, "a") as file:
            file["model"].attrs["fingerprint"] = f"{number:016x}"
            for regime, accuracy in (("pretrained", 0.4), ("standard", 0.7)):
                group = file[f"single_task/{regime}"]
                group.require_dataset("validation_accuracy", (4,), "f8")[...] = accuracy
            file["addition/standard/validation_accuracy"][...] = kept
            file["addition/standard/test_accuracy"][...] = test
            file["addition/standard/absolute"][...] = test
        folders.append(folder)
    rows = [row for row in printed(capsys, *folders)[0] if row["regime"] == "standard"]
    assert [float(row["recovered"]) for row in rows] == pytest.approx([0.5, 0.25 / 0.3])
    assert [row["most"] for row in rows] == ["", "*"]
    assert [row["model"] for row in rows] == ["0" * 16, "0" * 15 + "1"]
    tables = printed(capsys, folders[0], folders[0])
    assert "model" not in tables[0][0]  # one model leaves nothing to choose


def test_predictors_of_several_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second seed turns the outcome round: the same predictor has the other sign there."""
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        folder.mkdir()
        path = synthetic.write(folder / "results.h5", tasks=synthetic.FEW_TASKS, seed=seed)
        with h5py.File(path, "a") as file:
            group = file["pair_addition/linear/normalized"]
            group[...] = group[()] if seed == 0 else 2 - group[()]
    rows = printed(capsys, tmp_path / "0", tmp_path / "1")[-1]
    row = next(
        row for row in rows if (row["regime"], row["outcome"], row["predictor"]) == ("linear", "tuned", "τJp")
    )
    assert (float(row["seed 0"]), float(row["seed 1"]), float(row["mean"])) == pytest.approx((-1, 1, 0))
    assert row["same sign"] == "1 of 2" and float(row["largest p of the best"]) > 0


def test_criteria_count_the_runs_in_which_they_hold(
    runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {row["criterion"]: row for row in printed(capsys, *runs)[1] if row["regime"] == "standard"}
    assert rows["gain ≥ 15 points"]["holds"] == "2 of 3"
    assert float(rows["gain ≥ 15 points"]["least"]) == pytest.approx(-0.1)
    assert rows["recovered ≥ 1/3"]["holds"] == "2 of 3"  # there is nothing to recover in the third
    assert rows["ξ far corner − near > 0"]["holds"] == "3 of 3"


def test_a_run_without_addition_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(tmp_path / "results.h5", "a") as file:
        del file["addition"]
    assert main(["seeds", str(tmp_path)]) == 2
    assert "task addition" in capsys.readouterr().err


def configured(run: Path, seed: int, more: str = "") -> Path:
    (run / "config.toml").write_text(f"[finetune]\nsteps = 150\n{more}\n[run]\nseed = {seed}\n")
    return run


@pytest.fixture
def two(runs: list[Path]) -> list[Path]:
    return [configured(run, seed) for seed, run in enumerate(runs[:2])]


def test_any_table_is_averaged_over_seeds(two: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of the same first words: 0.7 and 0.8 are 0.75 ± 0.05, and what is equal has no deviation."""
    (rows,) = printed(capsys, *two, "--table", "single_task")
    assert [row["task"] for row in rows] == [*synthetic.FEW_TASKS, "mean"]
    assert [float(row["standard"]) for row in rows] == pytest.approx([0.75] * len(rows))
    assert [float(row["standard error"]) for row in rows] == pytest.approx([0.05] * len(rows))
    assert [float(row["pretrained"]) for row in rows] == [0.4] * len(rows)
    assert "pretrained error" not in rows[0]


def test_runs_of_other_configurations_have_no_mean(
    two: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The table of all runs stands without it, and says what differs."""
    assert len(printed(capsys, *two)[0]) > 6  # mean, deviation and its parts
    path = two[1] / "config.toml"
    path.write_text(path.read_text() + "[addition]\nalpha = [0.25]\n")
    rows = [row for row in printed(capsys, *two)[0] if row["regime"] == "standard"]
    assert [row["seed"] for row in rows] == ["0", "1"]
    assert main(["seeds", *map(str, two)]) == 0
    assert "addition.alpha is not there and [0.25]: no mean over seeds" in capsys.readouterr().out


def test_a_choice_is_no_part_of_a_rows_name() -> None:
    columns = [Column("k"), Column("value")]
    tables = [
        Table("t", "T", columns, [["6 *", 1.0], ["2", 2.0]]),
        Table("t", "T", columns, [["6", 3.0], ["2 *", 2.0]]),
    ]
    assert over_seeds.mean(tables, ["0", "1"]).rows == [["6 * / 6", 2.0], ["2 / 2 *", 2.0]]


def test_numbers_that_rounding_alone_parts_have_no_error() -> None:
    tables = [Table("t", "T", [Column("value")], [[value]]) for value in (0.1 + 0.2, 0.3)]
    (value,) = over_seeds.mean(tables, ["0", "1"]).rows[0]
    assert isinstance(value, float) and not isinstance(value, Measured) and value == pytest.approx(0.3)


def test_a_run_without_its_configuration_has_no_mean(
    two: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    (two[1] / "config.toml").unlink()
    assert main(["seeds", *map(str, two), "--table", "single_task"]) == 2
    assert "config.toml" in capsys.readouterr().err


def test_rows_that_a_seed_lacks_are_counted(two: list[Path]) -> None:
    tables = [
        Table("t", "T", [Column("method"), Column("value")], [["ties", 1.0], ["mean", 2.0]]),
        Table("t", "T", [Column("method"), Column("value")], [["mean", 4.0], ["dare", 3.0], ["ties", 1.0]]),
    ]
    mean = over_seeds.mean(tables, ["0", "1"])
    assert mean.rows == [["ties", 1.0], ["mean", 3.0]] and mean.rows[1][1].error == 1.0
    assert "1 further rows are not there in every seed" in mean.notes[-1]


@pytest.mark.parametrize(
    ("more", "words", "said"),
    [
        ("", ("--table", "nonsense"), "no table nonsense"),
        ("batch = 3", ("--table", "single_task"), "finetune.batch is 3"),
        (None, ("--table", "single_task"), "has seed 0, as"),
    ],
)
def test_what_is_no_mean_over_seeds_is_refused(
    two: list[Path], capsys: pytest.CaptureFixture[str], more: str | None, words: tuple[str, ...], said: str
) -> None:
    second = two[0] if more is None else configured(two[1], 1, more)
    assert main(["seeds", str(two[0]), str(second), *words]) == 2
    message = capsys.readouterr().err
    assert said in message and message.count("\n") == 1
