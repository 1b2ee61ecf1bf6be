# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Intervals of what negation leaves, beside a bootstrap over the control's points."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic

from taugrid_analysis.page.headline import headline
from taugrid_analysis.page.sentences import sentences
from taugrid_analysis.quantities.negation import forgetting, kept
from taugrid_analysis.quantities.negation import tables as negation_tables
from taugrid_analysis.run.opened import Run


def bits(file: h5py.File, path: str, place: tuple[int, ...] = ()) -> np.ndarray:
    node = file[f"correct/{path}"]
    return np.unpackbits(node[place])[: int(node.attrs["points"][place])].astype(float)


def chosen(file: h5py.File, regime: str, count: int) -> list[tuple[int, int]]:
    alpha, wanted = (file[f"negation/{regime}/{name}"][()] for name in ("alpha", "chosen_alpha"))
    return [(task, int(np.argmin(abs(alpha - wanted[task])))) for task in range(count)]


@pytest.mark.parametrize("regime", ["standard", "tau_jp"])
def test_errors_are_those_of_a_bootstrap_over_points(schema2_folder: Path, regime: str) -> None:
    with Run(schema2_folder) as run:
        control = kept.kept(run.results, regime)
    assert control is not None and control.paired and control.points == 300
    with h5py.File(schema2_folder / "results.h5") as file:
        before = bits(file, "single_task/pretrained/control_accuracy")
        path = f"negation/{regime}/test_control"
        after = np.stack([bits(file, path, at) for at in chosen(file, regime, 8)])
    assert control.accuracy == pytest.approx(after.mean())
    assert control.share == pytest.approx(after.mean() / before.mean())
    draws = np.random.default_rng(0).integers(300, size=(4000, 300))
    means, starts = after.mean(axis=0)[draws].mean(axis=1), before[draws].mean(axis=1)
    assert control.accuracy.error == pytest.approx(means.std(), rel=0.06)
    assert control.share.error == pytest.approx((means / starts).std(), rel=0.06)
    # A task's own interval against the floor, by the bootstrap's percentiles: those near it may differ.
    ratios = np.stack([task_bits[draws].mean(axis=1) for task_bits in after]) / starts
    low, high = np.percentile(ratios, [2.5, 97.5], axis=1)
    assert abs(control.above - (low > 0.95).sum()) <= 1 and abs(control.below - (high < 0.95).sum()) <= 1
    assert control.above + control.unsure + control.below == 8


def test_pairing_is_what_makes_it_sharp(schema2_folder: Path, run_folder: Path) -> None:
    """The same accuracies without points: θ0's error then counts a second time."""
    with Run(schema2_folder) as sharp, Run(run_folder) as blunt:
        paired, apart = (kept.kept(run.results, "standard") for run in (sharp, blunt))
    assert paired is not None and apart is not None and not apart.paired
    assert apart.share == pytest.approx(paired.share, abs=0.01)
    assert apart.share.error > 1.2 * paired.share.error


def test_the_table_prints_95_percent(schema2_folder: Path) -> None:
    with Run(schema2_folder) as run:
        table = negation_tables.intervals(run)
        control, row = kept.kept(run.results, "linear"), run.summary.loc["linear"]
    assert control is not None
    shown = next(line for line in table.shown() if line[:2] == ["linear", "[0,1]"])
    for text, value, error in (
        (shown[2], row["negated"], row["negated_error"]),
        (shown[3], control.accuracy, control.accuracy.error),
        (shown[4], control.share, control.share.error),
    ):
        ends = (value - 1.96 * error, value + 1.96 * error)
        assert text == f"{100 * value:.1f} ({100 * ends[0]:.1f} to {100 * ends[1]:.1f})"
    assert "paired" in table.notes[0] and "300 test points" in table.notes[0] and "95 %" in table.notes[1]
    assert {tuple(line[:2]) for line in table.shown()} >= {("linear", "[0,3]"), ("linear", "α = 1")}


def test_one_that_was_not_negated_at_one_has_no_row_of_it(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, schema=2)
    with Run(tmp_path) as run:
        assert forgetting.one_shot_forgetting(run.results, "standard") is not None
    with h5py.File(path, "r+") as file:
        axis = file["negation/standard/alpha"]
        axis[...] = axis[()] * 0.99
    with Run(tmp_path) as run:
        assert forgetting.one_shot_forgetting(run.results, "standard") is None


def test_a_regime_that_no_alpha_keeps_has_no_interval(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, schema=2)
    with h5py.File(path, "r+") as file:
        file["negation/linear/chosen_alpha"][...] = np.nan
        file["negation/standard/chosen_alpha"][1] = np.nan
    with Run(tmp_path) as run:
        assert kept.kept(run.results, "linear") is None
        control = kept.kept(run.results, "standard")
        assert control is not None and control.above + control.unsure + control.below == 3
        assert ["linear", "[0,1]"] not in [line[:2] for line in negation_tables.intervals(run).shown()]


def test_a_mean_over_some_tasks_says_of_how_many(tmp_path: Path) -> None:
    """No α keeps the control for three of eight tasks."""
    path = synthetic.write(tmp_path / "results.h5")
    with h5py.File(path, "a") as file:
        for name in ("chosen_alpha", "target", "control"):
            file[f"negation/standard/{name}"][:3] = np.nan
    with Run(path) as run:
        told = headline(run)
        assert told is not None and any("5 of 8 tasks" in title for title, _ in told.numbers)
        assert any("standard, mean of 5 of 8 tasks" in sentence for sentence in sentences(run))
