# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Cross-task linearity over runs: numbers with a known answer, gathered into tables and figures."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
from scipy import stats

from taugrid_analysis import cli
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.papers import published
from taugrid_analysis.quantities.causes import figures as causes_figures
from taugrid_analysis.quantities.causes import several_runs
from taugrid_analysis.quantities.causes import tables as causes_tables
from taugrid_analysis.run.opened import Run

TASKS = ("a-1", "a-2", "a-3", "a-4", "a-5")
PAIRS = synthetic.pairs_of(5)
LAMBDA = (3.0, 5.0, 8.0, 20.0, 50.0)  # of θ0 in five runs


def write_run(
    folder: Path, tasks: tuple[str, ...], epochs: int, regimes: tuple[str, ...] = ("standard",)
) -> Path:
    folder.mkdir()
    start = (f"epochs-{epochs}", 1000, "pretrained")
    return synthetic.write(folder / "results.h5", tasks=tasks, regimes=regimes, model=start)


@pytest.fixture(scope="module")
def barriers(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """δ is ⅛ vᵀHv of the middle but for 3 %, and of λ_max‖v‖² where all directions are alike."""
    rng = np.random.default_rng(0)
    folders = []
    for place, top in enumerate(LAMBDA):
        folder = tmp_path_factory.mktemp("runs") / f"barrier-{place}"
        path = write_run(folder, TASKS, place)
        distance = rng.uniform(0.5, 1.5, 10)
        with h5py.File(path, "r+") as file:
            group = file.create_group("barrier/standard")
            middle = 0.5 * top * distance**2
            group["alpha"] = [0.25, 0.5]
            group["delta"] = np.stack([0 * middle, middle / 8 * rng.uniform(0.97, 1.03, 10)], axis=1)
            group["middle_curvature"], group["curvature"] = middle, -middle * rng.uniform(0.2, 2, 10)
            group["distance"], group["loss"] = distance, np.ones((10, 2))
            smoothness = file.create_group("smoothness/pretrained")
            smoothness["lambda_max"], smoothness["residual"] = np.full(5, top), np.full(5, 1e-3)
            smoothness["hvp_count"] = np.full(5, 9)
        folders.append(folder)
    return folders


def test_what_explains_the_barrier(barriers: list[Path]) -> None:
    runs = [Run(folder) for folder in barriers]
    clouds = several_runs.clouds(runs)
    delta = np.concatenate([cloud.delta for cloud in clouds])
    for name in clouds[0].causes:
        x = np.concatenate([cloud.causes[name] for cloud in clouds])
        fit = several_runs.explained(clouds, name, signed=True)
        line = stats.linregress(x, delta)
        assert (fit.value, fit.slope) == pytest.approx((line.rvalue**2, line.slope))
        assert fit.low <= fit.high and fit.low >= 0 and fit.high <= 1
    middle = several_runs.explained(clouds, several_runs.SIGNED[1], signed=True)
    assert middle.value > 0.99 and middle.low > 0.97 and middle.slope == pytest.approx(1, abs=0.05)
    both = several_runs.explained(clouds, "½α(1−α) λ_max ‖v‖²", signed=False)
    alone = [several_runs.explained(clouds, name, signed=False) for name in ("λ_max", "‖v‖²")]
    assert both.value > max(single.value for single in alone)
    rows = causes_tables.barrier(runs).rows
    assert [row[:3] for row in rows if row[2] is not None] == [
        ["absolute", name, value] for name, value in published.explained().items()
    ]
    assert [row[0] for row in rows[:2]] == ["signed", "absolute"]
    start = rows[0]
    assert start[1] == several_runs.SIGNED[0] and float(start[6]) < 0  # type: ignore[arg-type]


def test_an_interval_covers_runs_as_a_whole() -> None:
    """Each θ0 shifts x and y of all its pairs alike by chance: many pairs of few θ0 know R² badly."""
    rng = np.random.default_rng(1)
    pairs = np.array(PAIRS)
    covered, widths = 0, []
    for _ in range(40):
        clouds = []
        for _ in range(6):
            x, y = rng.normal(size=2)[:, None] + 0.1 * rng.normal(size=(2, 10))
            clouds.append(several_runs.Cloud("", y, {"x": x}, pairs))
        fit = several_runs.explained(clouds, "x", signed=True)
        covered += fit.low <= 0.02  # no true relation between the shifts
        widths.append(fit.high - fit.low)
    assert covered >= 32 and np.mean(widths) > 0.4


def test_linearity_over_epochs_steps_and_replaced_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = []
    for epochs in (0, 2, 10):
        path = write_run(tmp_path / f"epochs-{epochs}", ("d1", "d2"), epochs)
        with h5py.File(path, "r+") as file:
            file["linearity/standard/cosine"][..., 0] = 1 - 0.1 / (1 + epochs)
        folders.append(path.parent)
    path = write_run(tmp_path / "steps", ("d1-1", "d1-2", "d2-1", "d2-2"), 10)
    with h5py.File(path, "r+") as file:
        file["tasks/data"] = np.array(["d1", "d1", "d2", "d2"], dtype=h5py.string_dtype())
        for name, values in {"learning_rate": [1e-3] * 4, "steps": [12, 24, 12, 24], "seed": [0] * 4}.items():
            file[f"variants/standard/{name}"] = values
    folders.append(path.parent)
    names = ("d1", "d2", "d1-start-50", "d2-start-50", "d2-d1-25")
    folders.append(write_run(tmp_path / "replaced", names, 10).parent)
    runs = [Run(folder) for folder in folders]
    frame = several_runs.linearity(runs)
    plain = frame[frame["run"].str.startswith("epochs")]
    assert plain["epochs"].tolist() == [0, 2, 10] and (plain["steps"] == 150).all()
    assert plain["cosine"].tolist() == pytest.approx([0.9, 1 - 0.1 / 3, 1 - 0.1 / 11])
    varied = frame[frame["varied"]].set_index("pair")["steps"]
    assert varied["d1-1 + d2-1"] == 12 and varied["d1-2 + d2-2"] == 24 and np.isnan(varied["d1-1 + d2-2"])
    by = frame[frame["run"] == "replaced"].set_index("pair")[["other", "replaced"]]
    assert tuple(by.loc["d1-start-50 + d2-start-50"]) == ("start", 50)
    assert tuple(by.loc["d1 + d2-d1-25"]) == ("d1", 25) and tuple(by.loc["d1 + d2"]) == ("", 0)
    for draw in (causes_figures.epochs, causes_figures.replaced):
        figure = draw(runs)
        assert figure is not None and len(figure.axes) == 4
    left = causes_figures.epochs(runs)
    assert left is not None
    np.testing.assert_allclose(left.axes[0].lines[0].get_xdata(), [0, 2, 10])
    np.testing.assert_allclose(left.axes[0].lines[0].get_ydata(), 1 - plain["cosine"].to_numpy())
    np.testing.assert_allclose(left.axes[1].lines[0].get_xdata(), [12, 24])
    assert cli.main(["causes", *map(str, folders), "--format", "csv"]) == 0
    assert "epochs-2,2,d1 + d2,150,,0,1,1," in capsys.readouterr().out


def fine_tuned(
    folder: Path,
    far: dict[int, tuple[float, ...]],
    *,
    epochs: int = 10,
    seed: int = 0,
    crossed: bool = False,
    given: bool = False,
) -> Path:
    """A run of d1 and d2 by steps of fine-tuning, with 1 − cosine of each pair of equal steps and order.

    crossed: two orders of each task make four pairs, of which `far` has them. given: models without training.
    """
    folder.mkdir(parents=True)
    steps = [count for count, values in far.items() for _ in (range(2) if crossed else values)]
    half = len(steps)
    pairs = [(k, half + k) for k in range(half)]
    if crossed:
        pairs = [(0, 2), (0, 3), (1, 2), (1, 3)]
    tasks = [f"{task}-{k + 1}" for task in ("d1", "d2") for k in range(half)]
    start = (f"epochs-{epochs}", 1000, "pretrained")
    path = folder / "results.h5"
    synthetic.write(
        path, tasks=tuple(tasks), regimes=("standard",), model=start, seed=seed, pairs=pairs, schema=2
    )
    with h5py.File(path, "r+") as file:
        file["tasks/data"] = np.array(["d1"] * half + ["d2"] * half, dtype=h5py.string_dtype())
        values = {"learning_rate": [1e-3] * 2 * half, "steps": 2 * steps, "seed": [0] * 2 * half}
        for name, entries in values.items():
            file[f"variants/standard/{name}"] = entries
        every = np.concatenate([np.array(values) for values in far.values()])
        file["linearity/standard/cosine"][...] = (1 - every)[:, None, None, None]
        if given:
            del file["training/standard"]
    (folder / "config.toml").write_text(f"[run]\nseed = {seed}\n")
    return folder


def known(*folders: Path) -> list[several_runs.Setting]:
    return several_runs.settings([Run(folder) for folder in folders])


def test_pairs_that_share_no_model_are_samples(tmp_path: Path) -> None:
    """Three orders of the training points have an error, which the note says is of these alone."""
    (alone,) = known(fine_tuned(tmp_path / "alone", {120: (0.1, 0.2, 0.3)}))
    mean = alone.mean("cosine")
    assert isinstance(mean, Measured) and float(mean) == pytest.approx(0.8)
    assert mean.error == pytest.approx(0.1 / 3**0.5)
    table = causes_tables.linearity([alone])
    row = dict(zip((column.name for column in table.columns), table.rows[0], strict=True))
    assert (row["seeds"], row["pairs"], row["tasks"], row["steps"]) == (1, 3, "d1 + d2", 120)
    assert [row["least"], row["most"]] == pytest.approx([0.1, 0.3])
    assert "how much other seeds differ is not in it" in table.notes[0]
    (crossed,) = known(fine_tuned(tmp_path / "crossed", {120: (0.1, 0.2, 0.3, 0.2)}, crossed=True))
    assert len(crossed.pairs) == 4 and crossed.mean("cosine") == pytest.approx(0.8)
    assert not isinstance(crossed.mean("cosine"), Measured)
    assert "pairs that share models" in causes_tables.linearity([crossed]).notes[0]


def test_a_mean_over_seeds_counts_seeds(tmp_path: Path) -> None:
    """Each seed is one number, the mean over its pairs, however many these are; its folder may name it."""
    apart = {0: 0.1, 1: 0.2, 2: 0.4}
    folders = [
        fine_tuned(tmp_path / f"all_seed{seed}" / "epochs-10", {120: (far - 0.01, far + 0.01)}, seed=seed)
        for seed, far in apart.items()
    ]
    (setting,) = known(*folders)
    mean = setting.mean("cosine")
    assert isinstance(mean, Measured) and float(mean) == pytest.approx(1 - np.mean(list(apart.values())))
    assert mean.error == pytest.approx(stats.sem(list(apart.values())))
    table = causes_tables.linearity([setting])
    assert table.rows[0][6:8] == [3, 6] and "each seed's mean over its pairs" in table.notes[0]
    named = [fine_tuned(tmp_path / f"steps_seed{seed}", {120: (0.1,)}, seed=seed) for seed in (0, 1)]
    assert [(setting.run, setting.seeds) for setting in known(*named)] == [("steps", ["0", "1"])]


def test_a_cause_is_compared_within_each_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Short training halves what differs tenfold from seed to seed: seen in pairs, lost between means."""
    levels, factors = (0.02, 0.06, 0.2, 0.08), (0.5, 0.45, 0.55, 0.5)
    folders = []
    for seed, (level, factor) in enumerate(zip(levels, factors, strict=True)):
        root = tmp_path / str(seed)
        folders += [
            fine_tuned(root / "steps", {12: (factor * level,) * 2, 240: (level,) * 2}, seed=seed),
            fine_tuned(root / "epochs-0", {120: (0.9 * level,)}, epochs=0, seed=seed),
            fine_tuned(root / "epochs-10", {120: (level,)}, seed=seed),
            fine_tuned(root / "separate", {120: (3 * factor * level,)}, seed=seed, given=True),
        ]
    comparisons = several_runs.comparisons(known(*folders))
    assert [(comparison.cause, comparison.less, comparison.samples) for comparison in comparisons] == [
        ("steps", 4, 4),
        ("pre-training", 0, 4),
        ("start", 0, 4),
    ]
    steps = comparisons[0].ratio
    wanted = stats.ttest_1samp(np.log(factors), 0)
    interval = wanted.confidence_interval()
    assert steps is not None
    assert [steps.value, steps.low, steps.high, steps.p] == pytest.approx(
        [stats.gmean(factors), np.exp(interval.low), np.exp(interval.high), wanted.pvalue]
    )
    assert steps.high < 0.6
    table = causes_tables.comparisons(known(*folders))
    assert table.rows[0][:4] == ["steps", "steps", "12 steps", "240 steps"] and table.rows[0][7] == "4 of 4"
    assert table.rows[0][8] == pytest.approx(2 * steps.p)  # of the three, that of "pre-training" is 0
    assert table.rows[1][2:4] == ["10 epochs", "0 epochs"]
    assert table.rows[2][2:4] == ["models given", "trained from one θ0"]
    assert cli.main(["causes", *map(str, folders)]) == 0
    assert "Samples are seeds, and paired" in capsys.readouterr().out


def test_one_seed_is_compared_pair_by_pair(tmp_path: Path) -> None:
    folder = fine_tuned(tmp_path / "steps", {12: (0.01, 0.02), 240: (0.02, 0.08)})
    table = causes_tables.comparisons(known(folder))
    assert table.rows[0][4] == pytest.approx((0.5 * 0.25) ** 0.5) and table.rows[0][7] == "2 of 2"
    assert "pairs of one θ0, which say nothing of other seeds" in table.notes[0]
    alone = fine_tuned(tmp_path / "alone", {12: (0.01,), 240: (0.02,)})
    row = causes_tables.comparisons(known(alone)).rows[0]
    assert row[4] == pytest.approx(0.5) and np.isnan(row[5]) and row[8] is None  # type: ignore[call-overload]
    same = fine_tuned(tmp_path / "same", {12: (0.0, 0.01), 240: (0.02, 0.02)})
    assert causes_tables.comparisons(known(same)).rows[0][4:8] == [None, None, None, "2 of 2"]


def test_replaced_pictures_are_compared_with_none(tmp_path: Path) -> None:
    names = ("d1", "d2", "d1-start-50", "d2-start-50", "d2-d1-25")
    path = write_run(tmp_path / "replaced", names, 10)
    comparisons = several_runs.comparisons(known(path.parent))
    compared = {(comparison.setting.tasks, comparison.against.tasks) for comparison in comparisons}
    assert ("d1-start-50 + d2-start-50", "d1 + d2") in compared and ("d1 + d2-d1-25", "d1 + d2") in compared
    assert all(comparison.cause == "data" for comparison in comparisons)


@pytest.mark.parametrize(
    ("seed", "more", "problem"),
    [(0, "", "has seed 0"), (1, "[finetune]\nsteps = 9\n", "finetune.steps is 9")],
)
def test_runs_of_one_name_differ_by_their_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int, more: str, problem: str
) -> None:
    first = fine_tuned(tmp_path / "a" / "steps", {12: (0.1,)})
    second = fine_tuned(tmp_path / "b" / "steps", {12: (0.1,)}, seed=seed)
    with (second / "config.toml").open("a") as file:
        file.write(more)
    assert cli.main(["causes", str(first), str(second)]) == 2
    error = capsys.readouterr().err
    assert problem in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "expected"), [("epoch7", 7), ("epochs-7", 7), ("my-epoch7", None), ("start-7", None)]
)
def test_epochs_are_read_from_the_name_of_the_start(tmp_path: Path, name: str, expected: int | None) -> None:
    """Both names are understood: of a model that keep_epochs kept, and of a link that jobs/causes.sh made."""
    path = synthetic.write(tmp_path / "results.h5", tasks=("d1", "d2"), model=(name, 1000, "pretrained"))
    with Run(path) as run:
        epochs = several_runs.epochs_of(run)
    assert epochs == expected if expected is not None else np.isnan(epochs)


def test_a_run_without_either_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=TASKS[:3], leave_out=["linearity"])
    assert cli.main(["causes", str(tmp_path)]) == 2
    assert "holds neither" in capsys.readouterr().err
