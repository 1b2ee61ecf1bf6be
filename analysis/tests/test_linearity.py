# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity: frame, table, figures and the report's section, of numbers known in closed form."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import synthetic
from synthetic_layers import ALPHA, LAMBDA, LAYERS, mean_of, write_averages

from taugrid_analysis import cli
from taugrid_analysis.page.report import report
from taugrid_analysis.papers import figure as papers_figure
from taugrid_analysis.papers.figure import missing, of_paper
from taugrid_analysis.quantities.barrier.tables import barrier
from taugrid_analysis.quantities.linearity import edit_figures
from taugrid_analysis.quantities.linearity import figures as linearity_figures
from taugrid_analysis.quantities.linearity.tables import (
    beyond_tasks,
    chance,
    edits,
    of_averages,
    transitivity,
    triples,
)
from taugrid_analysis.run.frames.layers import near_half, near_papers
from taugrid_analysis.run.opened import Run


def test_a_row_for_every_regime_pair_layer_and_alpha(small_folder: Path) -> None:
    with Run(small_folder) as run:
        frame = run.layers
        names = [run.results.pair_name(pair) for pair in range(len(run.results.pairs))]
    assert len(frame) == 2 * len(names) * len(LAYERS) * len(ALPHA)
    rows = frame.set_index(["regime", "pair", "layer", "alpha"])
    row = rows.loc[("standard", names[4], 2, 0.25)]
    assert row["cosine"] == pytest.approx(mean_of("cosine", 4, 2, 0.25))
    assert row["error_upper"] == pytest.approx(row["error"] + row["error_deviation"])
    assert f"{row['task_1']} + {row['task_2']}" == names[4]


def test_of_two_weights_as_near_the_first_is_taken() -> None:
    frame = pd.DataFrame({"alpha": [0.25, 0.75, 0.25], "lambda": [0.3, 0.5, 0.5], "error": [1, 2, 3]})
    assert near_half(frame)["error"].tolist() == [1, 3]
    assert near_papers(frame)["error"].tolist() == [1]
    assert near_half(frame[:0]).empty


def test_a_run_without_it_has_an_empty_frame(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, leave_out=["linearity"])
    with Run(tmp_path) as run:
        assert run.layers.empty and linearity_figures.curves(run) is None


def test_the_table_has_a_line_a_layer(small_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tables", str(small_folder), "--paper", "cross_task_linearity", "--format", "csv"]) == 0
    lines = [line.split(",") for line in capsys.readouterr().out.splitlines()]
    mine = [line for line in lines if line[0] == "standard"][:4]
    assert [line[1] for line in mine] == ["embedding", "1", "2", "output"]
    pairs = np.arange(6) + 1
    assert float(mine[2][2]) == pytest.approx(1e-4 * pairs.mean() * 3, rel=1e-3)
    assert float(mine[2][4]) == pytest.approx(0.1, rel=1e-3)  # of its baseline
    assert float(mine[2][9]) == pytest.approx(100 * 1e-4 * 6 * 3, rel=1e-3)
    exact = [line for line in lines if line[0] == "linear"]
    assert float(exact[2][2]) == pytest.approx(0.1 * float(mine[2][2]), rel=1e-2)
    printed = [line[3] for line in lines if len(line) > 3 and line[1] == "absolute"]
    assert printed == ["0.903", "0.782", "0.839"]


def test_the_barrier_on_its_causes(tmp_path: Path) -> None:
    """δ is exactly that of the curvature in the middle; distances say nothing."""
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    curvature = np.array([3.0, 1.0, 4.0, 1.5, 5.0, 9.0])
    with h5py.File(path, "r+") as file:
        group = file.create_group("barrier/standard")
        group["alpha"], group["delta"] = [0.25, 0.5], np.stack([0 * curvature, curvature / 8], axis=1)
        group["middle_curvature"], group["curvature"] = curvature, curvature[::-1]
        group["distance"], group["loss"] = np.array([1.0, 2, 2, 1, 1, 2]), np.ones((6, 2))
    with Run(path) as run:
        rows = {str(row[2]): row for row in barrier(run).rows}
    middle, theta0 = rows["½α(1−α) vᵀHv, H in the middle"], rows["½α(1−α) vᵀHv, H at θ0"]
    assert middle[4:8] == pytest.approx([1, 1, 1, 1])
    assert theta0[4] == pytest.approx(np.corrcoef(curvature, curvature[::-1])[0, 1] ** 2)
    assert theta0[5] <= theta0[4] <= theta0[6] and rows["λ_max"][3] == "0.782"


@pytest.mark.usefixtures("undrawn")
def test_curves_have_a_line_an_alpha_and_the_baseline(small_folder: Path) -> None:
    with Run(small_folder) as run:
        figure = linearity_figures.curves(run)
        assert figure is not None and len(figure.axes) == 6
        first = figure.axes[0]
        assert len(first.lines) == len(ALPHA) + 1
        for line, alpha in zip(first.lines, ALPHA, strict=False):
            expected = [
                np.mean([1 - mean_of("cosine", p, layer, alpha) for p in range(6)]) for layer in range(4)
            ]
            np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-6)
            assert list(line.get_xdata()) == list(LAYERS)
        html = report(run)
    assert 'id="linearity"' in html and "linearity.csv" in html


def test_pairs_from_the_least_to_the_largest_error(small_folder: Path) -> None:
    with Run(small_folder) as run:
        names = [run.results.pair_name(pair) for pair in range(6)]
        figure = linearity_figures.pairs(run, "standard")
        assert figure is not None
        titles = [axes.get_title() for axes in figure.axes]
        assert titles[0] == names[0] and titles[-1] == names[5] and len(titles) == 3
        assert linearity_figures.coefficients(run, "standard") is not None


def test_sums_and_negations_by_layer(small_folder: Path) -> None:
    with Run(small_folder) as run:
        names, tasks = [run.results.pair_name(pair) for pair in range(6)], run.results.tasks
        added, negated = run.layer_additions, run.layer_negations
        table = edits(run)
        curves = edit_figures.curves(run, "standard", tuple(edit_figures.KINDS), 5)
        both = edit_figures.both(run, "standard", edit_figures.NEGATION, 1)
    assert len(added) == 2 * len(names) * len(LAYERS) * len(LAMBDA)
    assert len(negated) == 2 * len(tasks) * len(LAYERS) * len(LAMBDA) and "centred_cosine" not in negated
    sum_row = added.set_index(["regime", "pair", "layer", "lambda"]).loc[("standard", names[4], 2, 0.4)]
    assert sum_row["cosine"] == pytest.approx(mean_of("cosine", 4, 2, 0.4))
    negation_row = negated.set_index(["regime", "task", "layer", "lambda"]).loc[
        ("standard", tasks[3], 1, 1.0)
    ]
    assert negation_row["coefficient"] == pytest.approx(mean_of("coefficient", 3, 1, 1.0))
    kinds = [(row[0], row[1], row[3]) for row in table.rows]
    assert kinds[:4] == [("standard", "sum", name) for name in ("embedding", "1", "2", "output")]
    assert len(kinds) == 16 and all(row[2] == 0.4 for row in table.rows)
    assert table.rows[1][4] == pytest.approx(1 - np.mean([mean_of("cosine", p, 1, 0.4) for p in range(6)]))
    assert curves is not None and [axes.get_title() for axes in curves.axes[::3]] == [
        f"{names[0]}, added",
        f"{tasks[0]}, negated",
    ]
    line = curves.axes[2].lines[0]  # the pair of the largest error, stages alone
    np.testing.assert_allclose(line.get_ydata(), [1 - mean_of("cosine", 5, layer, 0.4) for layer in (1, 2)])
    assert both is not None and len(both.axes) == 6 and list(both.axes[0].lines[0].get_xdata()) == [2]


def test_figures_two_and_three_are_drawn(small_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["figures", str(small_folder), "--paper", "cross_task_linearity"]) == 0
    lines = capsys.readouterr().out.splitlines()
    drawn = {int(line.split()[1][:-1]) for line in lines if line.endswith(".png")}
    assert len(lines) == 24 and drawn == {2, 3, 7, 8, *range(19, 24)} - {21}
    assert "figure 13: needs a run of a MLP" in lines
    assert [plate.number for plate in of_paper("cross_task_linearity")] == list(range(1, 25))


@pytest.mark.parametrize(
    ("architecture", "numbers"),
    [("T5ForConditionalGeneration", {21, 24}), ("MLP", {13, 14}), ("ResNet", {15, 16})],
)
def test_figures_of_other_models_are_drawn_of_them_alone(
    architecture: str, numbers: set[int], tmp_path: Path
) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(path, "r+") as file:
        file["model"].attrs["architecture"] = architecture
    with Run(path) as run:
        every = [plate for plate in of_paper("cross_task_linearity") if plate.architectures]
        able = {plate.number for plate in every if not missing(run, plate)}
        assert able == numbers
        for plate in every:
            if plate.number in numbers:
                assert papers_figure.drawn(plate, [run])[0] is not None


def test_averages_of_several_models_by_layer(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    every = list(range(len(synthetic.FEW_TASKS)))
    with h5py.File(path, "r+") as file:
        write_averages(file, [every, every[1:]])
    with Run(path) as run:
        frame, table = run.layer_averages, of_averages(run)
        figure = linearity_figures.averages(run, "standard", ("cosine", "coefficient"), 7)
        names = run.results.tasks
    assert list(frame["data"].unique()) == names[:2] and list(frame["models"].unique()) == [
        len(names),
        len(names) - 1,
    ]
    assert [row[3] for row in table.rows[:4]] == ["embedding", "1", "2", "output"]
    assert table.rows[6][4] == pytest.approx(1 - mean_of("cosine", 1, 2, 0.5))
    assert figure is not None and [axes.get_title() for axes in figure.axes] == 2 * names[:2]
    mixed, single = figure.axes[1].lines
    np.testing.assert_allclose(mixed.get_ydata(), [1 - mean_of("cosine", 1, layer, 0.5) for layer in (1, 2)])
    np.testing.assert_allclose(
        single.get_ydata(), [1 - mean_of("baseline", 1, layer, 0.5) for layer in (1, 2)]
    )


def test_a_decoders_layers_are_told_apart(tmp_path: Path) -> None:
    """Half of what is shown is of the encoder, half of the decoder; a line between them."""
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(path, "r+") as file:
        for group in ("linearity", "layer_addition", "layer_negation"):
            file[f"{group}/standard"].attrs["first_decoder_layer"] = 2
    with Run(path) as run:
        data = run.data("layer_addition", "standard")
        assert data is not None and linearity_figures.stages(run, data, 2) == [1, 2]
        assert [row[3] for row in edits(run).rows[:4]] == ["embedding", "1", "decoder 1", "output"]
        figure = edit_figures.both(run, "standard", edit_figures.ADDITION, 2)
        assert figure is not None
        assert [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_label() == "decoder"] == [
            1.5
        ]


def test_all_pairs_and_coefficients_of_a_small_run(tmp_path: Path) -> None:
    """Figures 13 to 16 have the six pairs of four tasks, every stage and every α."""
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with Run(path) as run:
        curves, counts = (
            linearity_figures.pairs(run, "standard", 6),
            linearity_figures.every_coefficient(run, "standard"),
        )
        pairs = [run.results.pair_name(pair) for pair in range(len(run.results.pairs))]
    assert curves is not None and {axes.get_title() for axes in curves.axes} == set(pairs[:6])
    assert counts is not None and len(counts.axes) == min(6, len(pairs)) * len(ALPHA)
    assert counts.axes[0].get_title() == f"{pairs[0]}, α = 0.25"


@pytest.mark.parametrize("scatter", ["log-normal", "normal", "uniform"])
def test_errors_without_transitivity_are_seldom_called_transitive(scatter: str) -> None:
    """p < 0.05 in about 5 % of trials where errors are √(a_i a_j) times noise, whatever noise it is."""
    rng = np.random.default_rng(20)
    pairs = np.array(synthetic.PAIRS)
    chosen, trials = triples(pairs), 400
    small = 0
    for _ in range(trials):
        of_task = np.exp(0.4 * rng.normal(size=8))
        noise = {
            "log-normal": np.exp(0.1 * rng.normal(size=len(pairs))),
            "normal": np.clip(1 + 0.3 * rng.normal(size=len(pairs)), 0.05, None),
            "uniform": rng.uniform(0.1, 1, len(pairs)),
        }[scatter]
        residuals = beyond_tasks(np.sqrt(of_task[pairs].prod(axis=1)) * noise, pairs)
        assert residuals is not None
        small += chance(residuals, chosen, 399)[1] < 0.05
    assert 0.02 < small / trials < 0.08  # three standard errors around 5 %


def test_task_effects_of_three_pairs_explain_all() -> None:
    assert beyond_tasks(np.array([0.1, 0.2, 0.5]), np.array([(0, 1), (0, 2), (1, 2)])) is None


def test_transitivity_of_a_tree_of_errors(tmp_path: Path) -> None:
    """Errors that grow with the branch where tasks part are transitive; others by chance alone."""
    path = synthetic.write(tmp_path / "results.h5")
    rng = np.random.default_rng(0)
    tree = [0.1 if i // 2 == j // 2 else 0.3 if i // 4 == j // 4 else 0.7 for i, j in synthetic.PAIRS]
    with h5py.File(path, "r+") as file:
        file["linearity/standard/error"][:, -1, 1, 0] = tree
    with Run(path) as run:
        table = transitivity(run)
    assert len(table.rows) == 1  # a linearised model has no error but rounding
    regime, count, mean, most, share, by_chance, p = table.rows[0]
    assert (regime, count, mean, most, share) == ("standard", 56, 1.0, 1.0, 1.0)
    assert 0.3 < float(str(by_chance)) < 0.7 and float(str(p)) == pytest.approx(1e-4)
    with h5py.File(path, "r+") as file:
        file["linearity/standard/error"][:, -1, 1, 0] = rng.uniform(0.1, 1, 28)
    with Run(path) as run:
        *_, share, by_chance, p = transitivity(run).rows[0]
    assert float(str(p)) > 0.02
    with h5py.File(path, "r+") as file:  # what one task does to all of its errors changes nothing
        errors = file["linearity/standard/error"][:, -1, 1, 0]
        file["linearity/standard/error"][:, -1, 1, 0] = errors * [
            4.0 if 3 in pair else 1.0 for pair in synthetic.PAIRS
        ]
    with Run(path) as run:
        assert transitivity(run).rows[0][-3:] == pytest.approx([share, by_chance, p])
    assert triples(np.array([(0, 1), (2, 1), (0, 2), (0, 3)])).tolist() == [[0, 2, 1]]
