# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of edited models and of pairs, by hand or by another route."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
import synthetic_edits
import xarray as xr
from scipy import stats

from taugrid_analysis.numbers import means
from taugrid_analysis.quantities.addition.sums import added, tolerant_share
from taugrid_analysis.quantities.continuation.trace import extreme_pairs, pair_trace
from taugrid_analysis.quantities.negation import forgetting
from taugrid_analysis.quantities.ntk.shares import effective_rank
from taugrid_analysis.quantities.pairs.tables import pairs
from taugrid_analysis.quantities.predictors import lines as predictors_lines
from taugrid_analysis.quantities.predictors.lines import SAME_THING, TITLES, cheapest, predictors
from taugrid_analysis.quantities.predictors.tables import predictor_table
from taugrid_analysis.quantities.smoothness import bounds, columns
from taugrid_analysis.quantities.smoothness.tables import bound_table
from taugrid_analysis.run.opened import Run


def test_tolerant_share_by_hand() -> None:
    """Rises from 0.50 to 0.60 and falls again, a unit of α each: within 0.01 is a tenth on either side."""
    alpha, accuracy = np.array([0.0, 1.0, 2.0]), np.array([0.5, 0.6, 0.5])
    assert tolerant_share(alpha, accuracy) == pytest.approx(0.2 / 2)
    assert tolerant_share(alpha[::-1], accuracy) == pytest.approx(0.2 / 2)
    assert tolerant_share(alpha, np.full(3, 0.4)) == 1.0
    assert tolerant_share(alpha, np.array([0.6, 0.595, 0.2])) == pytest.approx((1 + 0.005 / 0.395) / 2)


def test_tolerant_share_against_a_fine_grid(run_folder: Path) -> None:
    with Run(run_folder) as run:
        data = run.data("addition", "standard")
        assert data is not None
        alpha, curve = data["alpha"].to_numpy(), data["test_accuracy"].mean("task").to_numpy()
    fine = np.interp(np.linspace(0, 1, 200001), alpha, curve)
    expected = (fine >= curve.max() - 0.01).mean()
    assert tolerant_share(alpha, curve) == pytest.approx(expected, abs=1e-4)


def test_effective_rank_by_hand() -> None:
    """Four equal eigenvalues count as four, one alone as one; a logit of NaN does not count."""
    spectra = np.array([[[2.0, 2, 2, 2], [5, 0, 0, 0]], [[3, 1, 0, 0], [np.nan] * 4]])
    ranks, largest = effective_rank(spectra)
    two = np.exp(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    np.testing.assert_allclose(ranks, [(4 + 1) / 2, two])
    np.testing.assert_allclose(largest, [(0.25 + 1) / 2, 0.75])
    assert ranks[1] == pytest.approx(np.exp(stats.entropy([3, 1])))


def test_symmetric_product_of_pairs(run_folder: Path) -> None:
    with Run(run_folder) as run:
        frame = run.pairs.loc["linear"]
    np.testing.assert_allclose(frame["tau_jp"], synthetic_edits.between("linear", 8))
    np.testing.assert_allclose(frame["tau_jp"], (frame["tau_jp_12"] + frame["tau_jp_21"]) / 2)


def test_bound_by_hand() -> None:
    """L of each task, the larger ‖τ‖² and |cos|: theorem 4.4 of the bases paper bounds each task's gap."""
    vectors = xr.Dataset(
        {"cosine": (("task", "other"), [[1, -0.5], [-0.5, 1]]), "norm": ("task", [2.0, 3.0])}
    )
    curvature = xr.Dataset({"lambda_max": ("task", [-10.0, 4.0])})
    bound = columns.bounds(curvature, vectors, np.array([[0, 1]]))
    np.testing.assert_allclose(bound, [[10 * 9 * 1.5, 4 * 9 * 1.5]])


def test_bound_beside_what_it_bounds(run_folder: Path) -> None:
    """Task i of a pair: its own curvature and its own gap, not the larger of both tasks'."""
    with Run(run_folder) as run:
        frame = bounds.bounds(run, "linear")
    with h5py.File(run_folder / "results.h5") as file:
        lam, norm = file["smoothness/linear/lambda_max"][()], file["similarity/linear/norm"][()]
        cosine, gap = file["similarity/linear/cosine"][()], file["similarity/linear/loss_gap"][()]
    assert frame is not None and len(frame) == 2 * 28
    expected = [
        (synthetic.TASKS[pair[side]], gap[p, side], lam[pair[side]] * max(norm[list(pair)]) ** 2)
        for side in (0, 1)
        for p, pair in enumerate(synthetic.PAIRS)
    ]
    ties = [1 + abs(cosine[pair]) for _ in (0, 1) for pair in synthetic.PAIRS]
    assert frame["task"].tolist() == [task for task, _, _ in expected]
    np.testing.assert_allclose(frame["gap"], [expected_gap for _, expected_gap, _ in expected])
    np.testing.assert_allclose(
        frame["bound"], [factor * tie for (_, _, factor), tie in zip(expected, ties, strict=True)]
    )
    np.testing.assert_allclose(frame["tightness"], frame["gap"] / frame["bound"])
    np.testing.assert_allclose(frame["curvature"] * frame["size"] * (1 + frame["similarity"]), frame["bound"])


def write_vectors(path: Path, sum_alpha: tuple[float, ...]) -> None:
    """Four tasks of the regime "linear" whose bounds can be found by hand, and loss gaps of their sums."""
    synthetic.write(path, tasks=synthetic.FEW_TASKS)
    cosine = np.full((4, 4), 0.1) + np.diag(np.full(4, 0.9))
    cosine[0, 1] = cosine[1, 0] = -0.5
    with h5py.File(path, "r+") as file:
        file["smoothness/linear/lambda_max"][...] = [-2, 4, 1, 10]
        group = file["similarity/linear"]
        group["norm"][...], group["cosine"][...] = [1, 2, 3, 1], cosine
        axis = group.create_dataset("sum_alpha", data=sum_alpha)
        axis.make_scale("sum_alpha")
        gaps = np.add.outer([1.35, 81.0, 0.0, 13.5], 100 * np.arange(len(sum_alpha))[::-1])
        stored = group.create_dataset("sum_loss_gap", data=gaps)
        stored.dims[1].attach_scale(axis)


def test_bounds_with_what_they_are_of_by_hand(tmp_path: Path) -> None:
    """A pair has its own C and ε; the sum of all at ¼, of four, the largest of all."""
    write_vectors(tmp_path / "results.h5", (1.0, 0.25))
    with Run(tmp_path) as run:
        pairs, sums, table = bounds.bounds(run, "linear"), bounds.sums(run, "linear"), bound_table(run)
        assert bounds.sums(run, "standard") is None
    assert pairs is not None and sums is not None
    known = ["curvature", "size", "similarity", "bound"]
    first, second, *_ = synthetic.FEW_TASKS
    of_pairs = pairs.set_index(["task", "partner"])[known]
    np.testing.assert_allclose(of_pairs.loc[first, second], [2, 4, 0.5, 12])
    np.testing.assert_allclose(of_pairs.loc[second, first], [4, 4, 0.5, 24])
    np.testing.assert_allclose(of_pairs.loc[first, synthetic.FEW_TASKS[2]], [2, 9, 0.1, 19.8])
    np.testing.assert_allclose(of_pairs.loc[first, synthetic.FEW_TASKS[3]], [2, 1, 0.1, 2.2])
    assert sums["task"].tolist() == list(synthetic.FEW_TASKS)
    np.testing.assert_allclose(sums["gap"], [1.35, 81, 0, 13.5])
    np.testing.assert_allclose(sums["bound"], [27, 54, 13.5, 135])
    np.testing.assert_allclose(sums["tightness"], [0.05, 1.5, 0, 0.1])
    places = {column.name: place for place, column in enumerate(table.columns)}
    rows = {(row[0], row[1]): row for row in table.rows}
    three = [places[name] for name in ("L", "C", "ε", "bound")]
    cells = [rows["linear", first][place] for place in three]
    assert cells == pytest.approx([2, 14 / 3, 0.7 / 3, (12 + 19.8 + 2.2) / 3])
    cells = [rows["linear, all T at 1/T", second][place] for place in three]
    assert cells == pytest.approx([4, 9, 0.5, 54])
    cells = [rows["linear, all T at 1/T", "all"][place] for place in three]
    assert cells == pytest.approx([4.25, 9, 0.5, 229.5 / 4])
    assert rows["linear, all T at 1/T", "all"][places["bound holds"]] == "3 of 4"


@pytest.mark.parametrize(("alpha", "known"), [((0.251, 1.0), True), ((0.26, 0.3), False)])
def test_sums_at_other_coefficients_have_no_bound(
    alpha: tuple[float, ...], known: bool, tmp_path: Path
) -> None:
    write_vectors(tmp_path / "results.h5", alpha)
    with Run(tmp_path) as run:
        assert (bounds.sums(run, "linear") is not None) == known


def test_another_coefficient_has_no_bound(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(path, "r+") as file:
        file["similarity/linear"].attrs["alpha"] = 0.3
    with Run(tmp_path) as run:
        assert bounds.bounds(run, "linear") is None and bounds.bounds(run, "standard") is not None


def test_bounds_of_single_vectors_on_other_tasks(tmp_path: Path) -> None:
    """The oracle is by hand: negation for every ordered pair, use on another task of the nearest."""
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    rng, count = np.random.default_rng(3), len(synthetic.FEW_TASKS)
    tau, loss = rng.normal(size=(count, 6)), rng.random((count, count, 2))
    size = np.linalg.norm(tau, axis=1)
    with h5py.File(path, "r+") as file:
        group = file["similarity/linear"]
        group["norm"][...], group["cosine"][...] = size, tau @ tau.T / np.outer(size, size)
        axis = group.create_dataset("cross_alpha", data=[-1.0, 1.0])
        axis.make_scale("cross_alpha")
        stored = group.create_dataset("cross_loss", data=loss)
        for d, scale in enumerate((file["tasks/name"], file["tasks/name"], axis)):
            stored.dims[d].attach_scale(scale)
        lam = np.abs(file["smoothness/linear/lambda_max"][()])
        start, fine_tuned = file["single_task/pretrained/loss"][()], file["single_task/linear/loss"][()]
    with Run(tmp_path) as run:
        negated, used = bounds.negation(run, "linear"), bounds.transfer(run, "linear")
        assert bounds.negation(run, "standard") is None and bounds.transfer(run, "standard") is None
    assert negated is not None and used is not None
    assert len(negated) == count * (count - 1) and len(used) == count
    place = {name: t for t, name in enumerate(synthetic.FEW_TASKS)}
    for row in negated.itertuples():
        i, j = place[row.partner], place[row.task]
        c = max(tau[i] @ tau[i], tau[j] @ tau[j])
        near = abs(tau[i] @ tau[j]) / (size[i] * size[j])
        assert row.gap == pytest.approx(loss[i, j, 0] - start[j])
        assert row.bound == pytest.approx(lam[j] * c * (1.5 + near))
        assert row.tightness == pytest.approx(row.gap / row.bound)
    for row in used.itertuples():
        i, j = place[row.partner], place[row.task]
        assert tau[i] @ tau[j] == max(tau[k] @ tau[j] for k in range(count) if k != j)
        c = max(tau[i] @ tau[i], tau[j] @ tau[j])
        assert row.gap == pytest.approx(loss[i, j, 1] - fine_tuned[j])
        assert row.bound == pytest.approx(lam[j] * (c - tau[i] @ tau[j]))


def test_forgetting_leaves_out_what_was_not_kept(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, schema=2)
    with h5py.File(path, "r+") as file:
        group = file["negation/linear"]
        group["chosen_alpha"][...] = [0.5, np.nan, 1.0, 0.0]
        alpha = group["alpha"][()]
        place = [int(np.flatnonzero(alpha == coefficient)[0]) for coefficient in (0.5, 1.0, 0.0)]
        target = group["test_target"][()][[0, 2, 3], place]
        control = group["test_control"][()][[0, 2, 3], place]
    with Run(tmp_path) as run:
        forgotten = forgetting.forgetting(run.results, "linear")
        assert forgotten is not None
        assert (forgotten.alpha, forgotten.kept) == (0.5, 3)
        assert forgotten.target == pytest.approx(target.mean())
        errors = np.sqrt(target * (1 - target) / 512)
        assert forgotten.target.error == pytest.approx(np.sqrt((errors**2).sum()) / 3)
        assert forgotten.control == pytest.approx(control.mean())
        assert forgotten.control.error == pytest.approx(np.sqrt(control * (1 - control) / 300).mean())
    with h5py.File(path, "r+") as file:
        file["negation/linear/chosen_alpha"][...] = np.nan
    with Run(tmp_path) as run:
        none = forgetting.forgetting(run.results, "linear")
        assert none is not None and none.kept == 0 and np.isnan([none.target, none.control]).all()


def test_one_shot_forgetting(run_folder: Path) -> None:
    with Run(run_folder) as run:
        forgotten = forgetting.one_shot_forgetting(run.results, "standard")
    assert forgotten is not None
    control = synthetic_edits.CONTROL * (1 - 0.05 * (1 + np.arange(8) / 4))
    assert forgotten.target == pytest.approx(np.mean(synthetic.ZERO_SHOT) * np.exp(-1))
    assert forgotten.control == pytest.approx(control.mean())
    assert forgotten.kept == (control >= 0.95 * synthetic_edits.CONTROL).sum()


def test_a_coefficient_that_was_not_measured_is_not_a_number(run_folder: Path) -> None:
    assert means.place_of(np.array([0.0, 0.5]), 1.0) is None
    with Run(run_folder) as run:
        addition = added(run.results, "linear", 0.123)
    assert (
        addition is not None
        and np.isnan(addition.accuracy).all()
        and np.isnan(addition.normalized_error).all()
    )


def test_sum_by_task(run_folder: Path) -> None:
    with Run(run_folder) as run:
        addition = added(run.results, "linear")
    assert addition is not None
    with h5py.File(run_folder / "results.h5") as file:
        group = file["addition/linear"]
        place = int(np.flatnonzero(group["alpha"][()] == group["chosen_alpha"][()])[0])
        test = group["test_accuracy"][place]
        single = file["single_task/linear/accuracy"][()]
        assert addition.accuracy.mean() == pytest.approx(group["absolute"][()])
    np.testing.assert_array_equal(addition.accuracy, test)
    np.testing.assert_array_equal(addition.normalized, test / single)


def test_joint_training(run_folder: Path) -> None:
    with Run(run_folder) as run:
        joint = run.summary.loc["multitask_linear"]
    base = np.array(synthetic.ZERO_SHOT)
    assert joint["absolute"] == pytest.approx(base.mean() + 0.15)
    assert joint["normalized"] == pytest.approx(((base + 0.15) / (base + synthetic.GAIN["linear"])).mean())


def test_extreme_pairs_of_the_further_steps(run_folder: Path) -> None:
    with Run(run_folder) as run:
        record = run.data("continuation", "tau_jp_continue")
        assert record is not None
        most, least = extreme_pairs(record, run.results.pairs)
        trace = pair_trace(record, run.results.pairs)
    assert synthetic.PAIRS[most] == (6, 7) and synthetic.PAIRS[least] == (0, 1)
    fall = np.exp(-synthetic_edits.STEPS / 30)
    np.testing.assert_allclose(trace[:, most], synthetic_edits.between("linear", 8).max() * fall)
    np.testing.assert_allclose(trace[:, least], synthetic_edits.between("linear", 8).min() * fall)


def test_predictors_against_numpy_and_scipy(tmp_path: Path) -> None:
    """Each number of a pair worked out from the file alone, then correlated by SciPy."""
    synthetic.write(tmp_path / "results.h5", regimes=("standard", "posthoc", "linear"), bend=True, schema=2)
    rng = np.random.default_rng(3)
    units = [("similarity/linear", 2.0), ("features/linear/emoji", 3.0), ("features/base/emoji", 7.0)]
    units += [
        ("smoothness/linear/emoji", 5.0),
        ("disentanglement/linear/a+b", 11.0),
        ("ntk/pretrained/a", 13.0),
    ]
    with h5py.File(tmp_path / "results.h5", "r+") as file:
        file["ntk/pretrained/local_energy"][...] = rng.random(file["ntk/pretrained/local_energy"].shape)
        file["ntk/pretrained/null_share"][...] = rng.random(file["ntk/pretrained/null_share"].shape)
        file["pair_addition/linear/normalized"][...] = 0.8 + 0.2 * rng.random(28)
        file["tau_jp/linear/validation_value"][...] = rng.random((8, 8))
        file["similarity/linear/loss_gap"][...] = rng.random((28, 2))
        layout = file["units"].dtype
        del file["units"]
        file["units"] = np.array([(key, 0, seconds, "cpu") for key, seconds in units], dtype=layout)
    with h5py.File(tmp_path / "results.h5") as file:
        value = file["tau_jp/linear/validation_value"][()]
        cosine, norm = file["similarity/linear/cosine"][()], file["similarity/linear/norm"][()]
        error, curvature = file["disentanglement/linear/error"][()], file["smoothness/linear/lambda_max"][()]
        energy, null = file["ntk/pretrained/local_energy"][()], file["ntk/pretrained/null_share"][()]
        normalized = file["pair_addition/linear/normalized"][()]
        gap = file["similarity/linear/loss_gap"][()].mean(axis=1)
    titles = TITLES | SAME_THING
    titles.pop("linearity")  # exact in a linearised model
    expected: dict[str, list[float]] = {name: [] for name in titles}
    half = energy.shape[-1] // 2
    for pair, (i, j) in enumerate(synthetic.PAIRS):
        expected["tau_jp"].append((value[i, j] + value[j, i]) / 2)
        expected["cosine"].append(cosine[i, j])
        expected["xi_one"].append(error[pair, 8, 8])  # α = −3, −2.5, … 1
        expected["xi_box"].append(error[pair, 6:9, 6:9].mean())
        size = max(norm[i], norm[j]) ** 2
        expected["bound"].append((curvature[i] + curvature[j]) * size * (1 + abs(cosine[i, j])))
        shares = [(energy[a, b, :, :half].sum(-1) / energy[a, b].sum(-1)).mean() for a, b in ((i, j), (j, i))]
        nulls = [null[a].mean(axis=0).mean() for a in (i, j)]
        expected["ntk"].append(np.mean(shares) - np.mean(nulls))
    with Run(tmp_path) as run:
        measured = predictors(run, "linear")
        lines = [line for line in predictors_lines.lines(run) if line.regime == "linear"]
    assert [line.predictor for line in lines[:6]] == list(titles)
    assert [line.points for line in lines[:6]] == ["validation", "none", "train", "train", "test", "test"]
    for line in lines[:6]:
        x = np.array(expected[line.predictor])
        np.testing.assert_allclose(measured[line.predictor], x, rtol=1e-9)
        assert line.outcome == "tuned" and line.pairs == 28
        assert line.pearson == pytest.approx(stats.pearsonr(x, normalized).statistic)
        assert line.spearman.value == pytest.approx(stats.spearmanr(x, normalized).statistic)
        assert line.looked == 3 * (2 if line.predictor in predictors_lines.SAME_THING else 4)
        assert line.spearman.p <= line.spearman.best
    seconds = [3, 2, 7, 13, 3 + 7 + 11, 3 + 7 + 11]
    assert [line.seconds for line in lines[:6]] == seconds
    gaps = [line for line in lines if line.outcome == "loss gap"]
    assert len(lines) == 18 and len(gaps) == 6
    for line in gaps:
        x = np.array(expected[line.predictor])
        assert line.spearman.value == pytest.approx(stats.spearmanr(x, gap).statistic)


def test_the_cheapest_of_those_that_tell(tmp_path: Path) -> None:
    """The linearity error and the cosine go with the loss gap, one far cheaper; nothing with accuracy."""
    synthetic.write(tmp_path / "results.h5", bend=True, leave_out=["similarity/linear"])
    rng = np.random.default_rng(5)
    upper = np.triu(rng.random((8, 8)), 1)
    cosine = upper + upper.T + np.eye(8)
    of_pair = np.array([cosine[i, j] for i, j in synthetic.PAIRS])
    with h5py.File(tmp_path / "results.h5", "r+") as file:
        file["linearity/standard/error"][:, -1, 1, 0] = of_pair**3
        file["similarity/standard/cosine"][...] = cosine
        file["similarity/standard/loss_gap"][...] = np.stack([of_pair, 2 * of_pair], axis=1)
        for name in ("normalized", "one_shot_normalized"):
            file[f"pair_addition/standard/{name}"][...] = rng.random(28)
        layout = file["units"].dtype
        del file["units"]
        rows = [
            ("similarity/standard", 0, 0.5, "cpu"),
            ("layer_products/standard/emoji", 0, 8.0, "cpu"),
            ("linearity/standard/fashion+emoji", 0, 1.0, "cpu"),
        ]
        file["units"] = np.array(rows, dtype=layout)
    with Run(tmp_path) as run:
        lines = [line for line in predictors_lines.lines(run) if line.regime == "standard"]
        notes = predictor_table(run).notes
        every = pairs(run)
    gap = {line.predictor: line for line in lines if line.outcome == "loss gap"}
    for name, seconds in (("cosine", 0.5), ("linearity", 9.0)):
        assert gap[name].spearman.value == pytest.approx(1) and gap[name].seconds == seconds
        assert gap[name].spearman.best == pytest.approx(1e-4)  # only the identity of 10,000
    assert gap["linearity"].points == "test" and np.isnan(gap["bound"].seconds)
    assert cheapest(list(gap.values())) is gap["cosine"]
    by_accuracy = [line for line in lines if line.outcome == "tuned"]
    assert cheapest(by_accuracy) is None
    note = next(note for note in notes if note.startswith("The cheapest"))
    assert "standard, loss gap: cosine (0.5 s)" in note and "standard, tuned" not in note
    column = [heading.name for heading in every.columns].index("standard linearity error")
    np.testing.assert_allclose([row[column] for row in every.rows], of_pair**3)


def test_test_points_are_named_where_the_file_has_no_others(run_folder: Path) -> None:
    with Run(run_folder) as run:
        lines = {line.predictor: line for line in predictors_lines.lines(run) if line.regime == "linear"}
    assert lines["tau_jp"].points == "test" and lines["xi_one"].points == "test"
    assert "ntk" not in lines  # without its null the NTK is no predictor


def test_twins_share_task_vectors_not_grids(tmp_path: Path) -> None:
    synthetic.write(
        tmp_path / "results.h5",
        regimes=("standard", "posthoc"),
        tasks=synthetic.FEW_TASKS,
        leave_out=["similarity/posthoc", "disentanglement/posthoc"],
    )
    with Run(tmp_path) as run:
        standard, posthoc = (predictors(run, name) for name in ("standard", "posthoc"))
    np.testing.assert_array_equal(standard["tau_jp"], posthoc["tau_jp"])
    np.testing.assert_array_equal(standard["cosine"], posthoc["cosine"])
    assert "xi_one" in standard and "xi_one" not in posthoc
