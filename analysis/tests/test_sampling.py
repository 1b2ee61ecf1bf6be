# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Standard errors against hand, SciPy and bootstraps over points; bits as they are stored."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
import xarray as xr
from scipy import stats

from taugrid_analysis import cli
from taugrid_analysis.numbers import sampling
from taugrid_analysis.run import accuracies, differences
from taugrid_analysis.run.opened import Run


def correlated(rng: np.random.Generator, points: int, *levels: float) -> list[np.ndarray]:
    """Models that mostly have the same points right."""
    ease = rng.random(points)
    return [ease + 0.15 * rng.normal(size=points) < level for level in levels]


def test_binomial_by_hand() -> None:
    assert sampling.binomial(0.8, 100) == pytest.approx(0.04)
    assert sampling.binomial(0.0, 20) == pytest.approx(np.sqrt(1 / 22 * 21 / 22 / 20))  # not 0
    assert sampling.binomial(1.0, 20) == pytest.approx(sampling.binomial(0.0, 20))
    assert np.isnan(sampling.binomial(0.5, 0))
    assert sampling.of_mean(np.array([0.03, 0.04])) == pytest.approx(0.025)


@pytest.mark.parametrize(
    ("first_only", "second_only", "points"), [(40, 20, 1000), (9, 3, 200), (130, 110, 800)]
)
def test_so_many_points_show_the_difference_in_four_of_five_samples(
    first_only: int, second_only: int, points: int
) -> None:
    """Samples of that size, from a world where the two models differ as they were seen to."""
    count = int(sampling.points_needed(first_only, second_only, points))
    rng = np.random.default_rng(7)
    shares = [first_only / points, second_only / points, 1 - (first_only + second_only) / points]
    for size, low, high in ((count, 0.74, 0.86), (count // 2, 0.3, 0.65), (2 * count, 0.94, 1.0)):
        drawn = rng.multinomial(size, shares, 1500)
        seen = np.mean([sampling.mcnemar(int(b), int(c)) < 0.05 for b, c, _ in drawn])
        assert low < seen <= high, (size, seen)
    # What was seen is significant where there are about half as many points, or more.
    assert (sampling.mcnemar(first_only, second_only) < 0.05) == (points > 0.55 * count)


class Answers:
    """Accuracies of one model on points of each task, as differences read them."""

    def __init__(self, right: list[np.ndarray]) -> None:
        self.value = xr.DataArray([part.mean() for part in right], dims="task")
        self.error = sampling.binomial(self.value.to_numpy(), [len(part) for part in right])
        self.right, self.correct = right, self

    def of(self, task: int) -> np.ndarray:
        return self.right[task]

    def rows_of(self, task: int) -> np.ndarray:
        return np.arange(len(self.right[task]))


def test_a_task_with_more_points_than_others_counts_no_more() -> None:
    """The first task, of a hundred times the points, loses as many of them as the second wins of its few."""
    first = [np.arange(10_000) >= 150, np.ones(100, dtype=bool)]
    second = [np.arange(10_000) >= 0, np.arange(100) >= 20]
    difference = differences._difference(Answers(first), Answers(second), None, None)  # type: ignore[arg-type]
    assert difference.mean == pytest.approx((0.2 - 0.015) / 2) and not difference.pooled
    z = difference.mean / difference.mean_error
    assert difference.p == pytest.approx(2 * stats.norm.sf(z))
    assert difference.p < 1e-4  # McNemar's pooled: below 0
    assert difference.points_needed == pytest.approx(10_100 * ((1.96 + 0.8416) / z) ** 2, rel=1e-3)
    even = differences._difference(Answers([first[1]]), Answers([second[1]]), None, None)  # type: ignore[arg-type]
    assert even.pooled and even.p == sampling.mcnemar(20, 0)


def test_no_difference_of_uneven_tasks() -> None:
    assert sampling.normal_p(0, 0) == 1 and sampling.normal_p(0.1, 0) == 0
    assert np.isnan(sampling.normal_p(np.nan, 1)) and sampling.points_of_normal(0, 0.1, 50) == np.inf
    assert np.isnan(sampling.points_of_normal(0.1, 0.1, 0))


def test_no_number_of_points_shows_what_is_no_difference() -> None:
    assert sampling.points_needed(5, 5, 100) == np.inf and np.isnan(sampling.points_needed(0, 0, 0))
    difference = differences.Difference(np.zeros(1), np.zeros(1), True, 1.0, 100, np.inf)
    assert difference.needs == "no number"
    assert differences.Difference(np.ones(1), np.ones(1), True, 0.2, 100, 1234.0).needs == "1,234 of 100"
    assert differences.Difference(np.ones(1), np.ones(1), True, 0.01, 100, 90.0).needs is None
    assert differences.Difference(np.ones(1), np.ones(1), False, np.nan).needs is None


def test_mcnemar_by_hand_and_by_bootstrap() -> None:
    """b = 30 and c = 12 of 400: √(42 − 18²/400)/400."""
    rng = np.random.default_rng(0)
    first, second = np.zeros((2, 400), dtype=bool)
    first[:230], second[:200], second[230:242] = True, True, True
    comparison = sampling.paired(first, second)
    assert (comparison.first_only, comparison.second_only) == (30, 12)
    assert comparison.difference == pytest.approx(18 / 400)
    assert comparison.error == pytest.approx(np.sqrt(42 - 18**2 / 400) / 400)
    drawn = rng.integers(0, 400, (4000, 400))
    resampled = first[drawn].mean(axis=1) - second[drawn].mean(axis=1)
    assert comparison.error == pytest.approx(resampled.std(), rel=0.05)
    assert sampling.mcnemar(30, 12) == pytest.approx(2 * stats.binom.cdf(12, 42, 0.5))
    assert sampling.mcnemar(0, 0) == 1.0


def test_two_models_that_agree_everywhere_are_not_known_to_be_equal() -> None:
    same = np.arange(50) < 30
    assert sampling.paired(same, same).error == pytest.approx(1 / 50)
    assert sampling.paired_ratio(same, same) == pytest.approx(1 / 30)


def test_ratio_on_the_same_points_by_bootstrap() -> None:
    rng = np.random.default_rng(1)
    merged, single = correlated(rng, 300, 0.6, 0.8)
    drawn = rng.integers(0, 300, (4000, 300))
    ratios = merged[drawn].mean(axis=1) / single[drawn].mean(axis=1)
    paired = sampling.paired_ratio(merged, single)
    assert paired == pytest.approx(ratios.std(), rel=0.06)
    errors = [float(sampling.binomial(model.mean(), 300)) for model in (merged, single)]
    assert sampling.of_ratio(merged.mean(), single.mean(), *errors) > 1.3 * paired
    assert np.isnan(sampling.paired_ratio(merged, np.zeros(300)))


def test_bits_are_as_packed(schema2_folder: Path) -> None:
    with Run(schema2_folder) as run, h5py.File(schema2_folder / "results.h5") as file:
        for path in ("single_task/linear/accuracy", "addition/tau_jp/test_accuracy"):
            answers = run.results.correct(path)
            assert answers is not None
            bits = np.unpackbits(file[f"correct/{path}"][()], axis=-1)
            np.testing.assert_array_equal(answers.bits, bits.astype(bool))
            assert answers.of(*[0] * (bits.ndim - 1)).mean() == file[path][(0,) * (bits.ndim - 1)]
        assert run.results.correct("addition/nonsense/test_accuracy") is None


def test_paired_errors_in_the_frames(schema2_folder: Path) -> None:
    """Normalised accuracy of one task in the sum: worked out from the file's bits by a bootstrap."""
    with Run(schema2_folder) as run:
        row = run.tasks.loc[("linear", "letters")]
    with h5py.File(schema2_folder / "results.h5") as file:
        group = file["addition/linear"]
        place = int(np.flatnonzero(group["alpha"][()] == group["chosen_alpha"][()])[0])
        merged = np.unpackbits(file["correct/addition/linear/test_accuracy"][place, 3])[:512]
        single = np.unpackbits(file["correct/single_task/linear/accuracy"][3])[:512]
    assert row["normalized"] == pytest.approx(merged.mean() / single.mean())
    drawn = np.random.default_rng(0).integers(0, 512, (3000, 512))
    ratios = merged[drawn].mean(axis=1) / single[drawn].mean(axis=1)
    assert row["normalized_error"] == pytest.approx(ratios.std(), rel=0.06)
    accuracy = merged.mean()
    assert row["added_error"] == pytest.approx(np.sqrt(accuracy * (1 - accuracy) / 512))


def test_other_points_are_not_paired(tmp_path: Path) -> None:
    """The same bits with other rows beside them: the points differ, so nothing cancels."""
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, schema=2)
    with Run(tmp_path) as run:
        paired = run.tasks.loc["linear", "normalized_error"]
        change = differences.single(run.results, "linear", "standard")
        assert change.paired and np.isfinite(change.p)
    with h5py.File(path, "r+") as file:
        file["single_task/linear/sample_index"][...] += 1
    with Run(tmp_path) as run:
        apart = run.tasks.loc["linear", "normalized_error"]
        change = differences.single(run.results, "linear", "standard")
        assert not change.paired and np.isnan(change.p)
        both = run.tasks.loc[["linear", "standard"], "accuracy_error"].unstack("regime")
    assert (apart > paired).all()
    np.testing.assert_allclose(
        change.error, np.hypot(both["linear"], both["standard"])[list(synthetic.FEW_TASKS)]
    )


def test_old_files_have_binomial_errors_and_say_so(run_folder: Path) -> None:
    with Run(run_folder) as run:
        measured = accuracies.accuracies(run.results, "addition", "linear", "test_accuracy")
        assert measured is not None and measured.correct is None
        accuracy = measured.value.to_numpy()
        np.testing.assert_allclose(measured.error, np.sqrt(accuracy * (1 - accuracy) / 512))
        lacking = {lack.path: lack for lack in run.missing}
    for path in (
        "/correct/single_task/R/accuracy",
        "/correct/addition/R/test_accuracy",
        "/correct/negation/R/test_control",
        "/ntk/R/null_share",
        "/ntk/R/null_energy",
        "/ntk/R/rank",
        "/tau_jp/R/validation_value",
        "/representation/R/symmetric_error",
        "/disentanglement/R, attribute split",
    ):
        assert path in lacking, path
    assert "binomial" in lacking["/correct/addition/R/test_accuracy"].follows
    assert lacking["/tau_jp/R/validation_value"].regimes == ("linear",)


def test_a_file_of_schema_2_lacks_nothing(schema2_folder: Path) -> None:
    with Run(schema2_folder) as run:
        assert run.missing == []


BREAKS = {
    "disagrees with the accuracies": lambda file, path: file[path].__setitem__(0, file[path][0] ^ 0b1000),
    "has bits beyond its points": lambda file, path: file[path].attrs.__setitem__("points", np.full(4, 505)),
    "points is wrong": lambda file, path: file[path].attrs.__setitem__("points", np.full(4, 513)),
    "points has shape [3]": lambda file, path: file[path].attrs.__setitem__("points", np.full(3, 512)),
    "attribute points is missing": lambda file, path: file[path].attrs.__delitem__("points"),
}


@pytest.mark.parametrize("problem", BREAKS)
def test_broken_bits_are_refused(problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, schema=2)
    with h5py.File(tmp_path / "results.h5", "r+") as file:
        file["single_task/linear/accuracy"][...] = 1.0
        file["correct/single_task/linear/accuracy"][...] = 255
        BREAKS[problem](file, "correct/single_task/linear/accuracy")
    assert cli.main(["tables", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert problem in error and "/correct/single_task/linear/accuracy" in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "replaced", [np.zeros((4, 64)), np.zeros((4, 64), dtype=np.int64), np.zeros(4, np.uint8)]
)
def test_bits_of_another_type_or_shape(
    replaced: np.ndarray, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, schema=2)
    with h5py.File(tmp_path / "results.h5", "r+") as file:
        del file["correct/single_task/linear/accuracy"]
        file["correct/single_task/linear/accuracy"] = replaced
    assert cli.main(["show", str(tmp_path)]) == 2
    assert "/correct/single_task/linear/accuracy" in capsys.readouterr().err
