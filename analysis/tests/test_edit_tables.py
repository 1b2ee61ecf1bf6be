# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The tables about edited models, pairs and cost hold the file's numbers."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
import synthetic_edits

from taugrid_analysis.numbers import correlation
from taugrid_analysis.page.renderings import as_text
from taugrid_analysis.page.table import Table
from taugrid_analysis.page.tables import all_tables
from taugrid_analysis.run.opened import Run


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(tmp_path_factory.mktemp("all") / "results.h5", regimes=synthetic.EVERY)


@pytest.fixture(scope="module")
def tables(path: Path) -> dict[str, Table]:
    with Run(path) as run:
        return {table.name: table for table in all_tables(run, by_pair=True)}


def records(table: Table) -> list[dict[str, object]]:
    names = [column.name for column in table.columns]
    assert len(set(names)) == len(names)
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def test_negation(tables: dict[str, Table], path: Path) -> None:
    rows = {(row["regime"], row["searched"]): row for row in records(tables["negation"])}
    assert rows["pretrained", ""]["control"] == synthetic_edits.CONTROL
    with h5py.File(path) as file:
        for regime in ("standard", "attention_posthoc", "tau_jp"):
            group = file[f"negation/{regime}"]
            for searched, stored in (("[0,1]", group), ("[0,3]", group["wide"])):
                row = rows[regime, searched]
                assert row["target"] == pytest.approx(stored["target"][()].mean())
                assert row["control"] == pytest.approx(stored["control"][()].mean())
                assert row["mean alpha"] == pytest.approx(stored["chosen_alpha"][()].mean())
                assert row["control kept"] == "8 of 8"
    assert "Control task textures" in tables["negation"].notes[-2]


def test_negation_that_no_alpha_allows(tmp_path: Path) -> None:
    """One task without an α is named and left out of the mean; all of them leave a dash."""
    target = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(target, "r+") as file:
        for name in ("chosen_alpha", "target", "control"):
            file[f"negation/standard/{name}"][1] = np.nan
            file[f"negation/linear/{name}"][...] = np.nan
        left = np.delete(file["negation/standard/target"][()], 1)
    with Run(tmp_path) as run:
        table = next(table for table in all_tables(run) if table.name == "negation")
    rows = {(row["regime"], row["searched"]): row for row in records(table)}
    assert rows["standard", "[0,1]"]["target"] == pytest.approx(left.mean())
    assert rows["standard", "[0,1]"]["control kept"] == "3 of 4"
    assert rows["linear", "[0,1]"]["control kept"] == "0 of 4"
    assert "standard: no α in [0,1] keeps the control for mnist5k." in table.notes
    line = next(line for line in as_text(table).splitlines() if "linear" in line and "[0,1]" in line)
    assert line.split()[2:5] == ["–", "–", "–"]


def test_pair_addition(tables: dict[str, Table], path: Path) -> None:
    row = next(row for row in records(tables["pair_addition"]) if row["regime"] == "tau_jp")
    normalized = 1 - 0.05 * synthetic_edits.between("tau_jp", 8) / 0.2
    assert row["normalized"] == pytest.approx(normalized.mean())
    assert row["one_shot_normalized"] == pytest.approx((normalized**3).mean())
    assert row["worst normalized"] == pytest.approx(normalized.min())
    assert row["pair"] == "emoji + clipart"


def test_tau_jp_has_both_directions_of_every_pair(tables: dict[str, Table]) -> None:
    rows = [row for row in records(tables["tau_jp"]) if row["regime"] == "linear"]
    value = synthetic_edits.product("linear", 8)
    for row, (i, j) in zip(rows[:28], synthetic.PAIRS, strict=True):
        assert row["pair A + B"] == f"{synthetic.TASKS[i]} + {synthetic.TASKS[j]}"
        assert row["τ of A, x of B"] == value[i, j] and row["τ of B, x of A"] == value[j, i]
        assert row["τJp"] == pytest.approx((value[i, j] + value[j, i]) / 2)
    assert rows[28]["pair A + B"] == "mean"
    assert rows[28]["τJp"] == pytest.approx(value[~np.eye(8, dtype=bool)].mean())
    assert "over the control's 1.0000" in tables["tau_jp"].notes[1]


def test_representation_beside_predictions(tables: dict[str, Table]) -> None:
    row = next(row for row in records(tables["representation"]) if row["regime"] == "linear")
    terms = np.array([synthetic.xi("linear", pair, 1.0, 1.0) for pair in synthetic.PAIRS])
    assert row["KL (1,1)"] == pytest.approx((terms**2 / 4).sum(axis=1).mean())
    assert row["ξ(1,1)"] == pytest.approx(terms.sum(axis=1).mean())
    assert row["rank correlation at (1,1)"] == pytest.approx(
        correlation.rank_correlation((terms**2).sum(axis=1), terms.sum(axis=1))
    )


def test_kernel_behaviour_and_advantage(tables: dict[str, Table], path: Path) -> None:
    with h5py.File(path) as file:
        accuracy = {name: file[f"single_task/{name}/accuracy"][()] for name in synthetic.EVERY}
    rows = records(tables["kernel_behaviour"])
    for title, trained, linearised in (
        ("whole model", "standard", "posthoc"),
        ("attention", "attention", "attention_posthoc"),
    ):
        differences = [row["post-hoc − non-linear"] for row in rows if row["fine-tuned"] == title]
        lost = accuracy[linearised] - accuracy[trained]
        assert differences == pytest.approx([*lost, lost.mean()])
    for name in ("posthoc", "linear", "attention", "tau_jp"):
        lost = accuracy["standard"] - accuracy[name]
        assert [row[name] for row in records(tables["advantage"])] == pytest.approx([*lost, lost.mean()])


def test_sensitivity(tables: dict[str, Table], path: Path) -> None:
    row = next(row for row in records(tables["sensitivity"]) if row["regime"] == "standard")
    with h5py.File(path) as file:
        curve = file["addition/standard/test_accuracy"][()].mean(axis=1)
        gap = file["addition/standard/one_shot_absolute"][()] - file["addition/standard/absolute"][()]
    assert row["best on test"] == pytest.approx(curve.max())
    assert row["one shot − tuned"] == pytest.approx(gap)
    assert row["one shot − tuned"].error > 0  # type: ignore[attr-defined]
    assert any("picked on test points" in note for note in tables["sensitivity"].notes)


def test_spectrum(tables: dict[str, Table]) -> None:
    part = 0.5 ** np.arange(16)
    part /= part.sum()
    for row in records(tables["ntk_spectrum"]):
        assert row["effective rank"] == pytest.approx(np.exp(-(part * np.log(part)).sum()))
        assert row["largest's part"] == pytest.approx(part[0])


def test_continuation(tables: dict[str, Table]) -> None:
    rows = records(tables["continuation"])
    fall = np.exp(-synthetic_edits.STEPS / 30)
    between = synthetic_edits.between("linear", 8)
    assert [row["step"] for row in rows] == synthetic_edits.STEPS.tolist()
    assert [row["mean τJp"] for row in rows] == pytest.approx(between.mean() * fall)
    assert [row["its τJp"] for row in rows] == pytest.approx(between.max() * fall)
    assert [row["that one's τJp"] for row in rows] == pytest.approx(between.min() * fall)
    assert [row["all normalized"] for row in rows] == pytest.approx(1 - 0.3 * fall)


def test_cost(tables: dict[str, Table]) -> None:
    rows = {row["regime"]: row for row in records(tables["cost"])}
    assert list(rows) == [name for name in synthetic.EVERY if not name.endswith("posthoc")]
    assert rows["linear"]["÷ standard"] == pytest.approx(1.6)
    assert rows["attention"]["trained"] == 869632 // 4 and rows["attention"]["÷ standard"] == 1.0
    assert rows["tau_jp"]["peak MB"] == 80.0 and rows["tau_jp"]["batch"] == 64


def test_bytes_of_the_weights_are_no_peak(tables: dict[str, Table]) -> None:
    """Four bytes a parameter, and θ0 beside θ in a linearised model: what paper 4 calls cost."""
    rows = {row["regime"]: row for row in records(tables["cost"])}
    assert rows["standard"]["weights MB"] == pytest.approx(4 * 0.869632)
    assert rows["tau_jp"]["weights MB"] == pytest.approx(8 * 0.869632)
    assert rows["standard"]["peak MB"] == 40.0


def test_cost_without_standard_has_no_ratio(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, leave_out=["cost/standard"])
    with Run(tmp_path) as run:
        table = next(table for table in all_tables(run) if table.name == "cost")
    assert [np.isnan(row["÷ standard"]) for row in records(table)] == [True]  # type: ignore[call-overload]


def test_predictors(tables: dict[str, Table]) -> None:
    rows = {(row["regime"], row["outcome"], row["predictor"]): row for row in records(tables["predictors"])}
    linearised = 8  # of eleven regimes: those whose τ is in a linearised model too
    # cosine, bound, both ξ; τJp; of standard, which is not linearised, the linearity error
    assert len(rows) == 3 * (len(synthetic.EVERY) * 4 + linearised + 1)
    line = rows["linear", "tuned", "τJp"]
    assert (line["pairs"], line["Pearson"], line["Spearman"]) == pytest.approx((28, -1, -1))
    assert line["p"] == pytest.approx(1e-4) and line["points"] == "test"  # only the identity of 10,000
    assert line["p of the best"] == pytest.approx(1e-4)
    bent = rows["linear", "one shot", "τJp"]
    assert bent["Spearman"] == pytest.approx(-1)
    assert -1 < bent["Pearson"] < -0.98  # type: ignore[operator]
    assert bent["least without a task"] == pytest.approx(-1) == bent["largest without a task"]
    assert ("linear", "tuned", "NTK share − null") not in rows  # without a null it is no predictor
    notes = tables["predictors"].notes
    assert any("permutations of the tasks (9,999 drawn with seed 0" in note for note in notes)
    assert any("another measure of the same thing" in note for note in notes)
    assert any(note.startswith("standard, attention: τJp") for note in notes)
    assert ("linear", "tuned", "ξ(1,1) *") in rows


def test_bound_beside_the_gap(tables: dict[str, Table]) -> None:
    rows = {row["task"]: row for row in records(tables["bound"]) if row["regime"] == "linear"}
    assert list(rows) == [*synthetic.TASKS, "all"] and rows["all"]["bound holds"] == "56 of 56"
    i, others = 3, [0, 1, 2, 4, 5, 6, 7]
    lam = 20.0 + 10 * i
    assert rows["letters"]["gap, nat"] == pytest.approx(np.mean([0.002 * lam + 0.01 * j for j in others]))
    assert 0 < rows["all"]["tightness"] < 0.01  # type: ignore[operator]


def test_shares_of_the_kernel_without_a_null(tables: dict[str, Table]) -> None:
    rows = records(tables["ntk"])
    assert all(row["null"] is None and row["mean − null"] is None for row in rows)
    assert any("has no null" in note for note in tables["ntk"].notes)
    assert not any("0.5" in text for text in (tables["ntk"].title, *tables["ntk"].notes))


def test_every_pair_has_its_product_and_its_sum(tables: dict[str, Table]) -> None:
    rows = records(tables["pairs"])
    assert [row["linear τJp"] for row in rows] == pytest.approx(synthetic_edits.between("linear", 8))
    normalized = 1 - 0.05 * synthetic_edits.between("linear", 8) / 2
    assert [row["linear tuned"] for row in rows] == pytest.approx(normalized)
