# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs that measured some pairs, in any order and either way round, or, of one task, none."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic

from taugrid_analysis.cli import main
from taugrid_analysis.numbers import means
from taugrid_analysis.papers import PAPERS
from taugrid_analysis.quantities.disentanglement import figures as disentanglement_figures
from taugrid_analysis.run.opened import Run

SOME = [(2, 3), (1, 0), (0, 3)]
REGIMES = ("standard", "linear", "posthoc", "attention", "tau_jp")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module", params=[1, 2], ids=["schema1", "schema2"])
def schema(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def alone(schema: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    synthetic.write(folder / "results.h5", tasks=synthetic.TASKS[:1], regimes=REGIMES, schema=schema)
    return folder


@pytest.fixture(scope="module")
def some(schema: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("some"), schema, SOME)


def written(folder: Path, schema: int, pairs: list[tuple[int, int]] | None = None) -> Path:
    """A run of these pairs; None: of all."""
    path = folder / "results.h5"
    synthetic.write(path, tasks=synthetic.FEW_TASKS, regimes=REGIMES, pairs=pairs, bend=True, schema=schema)
    return folder


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("which", ["alone", "some"])
@pytest.mark.parametrize("paper", [None, *PAPERS])
def test_every_command_reads_it(
    which: str,
    paper: str | None,
    schema: int,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    run = str(request.getfixturevalue(which))
    if paper is not None:
        said(capsys, "tables", run, "--paper", paper)
        if schema == 2:  # what is drawn of the older one is the same
            said(capsys, "figures", run, "--paper", paper, "--out", str(tmp_path))
        return
    assert "standard" in said(capsys, "show", run)
    assert "Single-task accuracy" in said(capsys, "tables", run, "--pairs")
    said(capsys, "report", run, "--out", str(tmp_path / "report.html"))
    written = (tmp_path / "report.html").read_text()
    assert len(written) > 10_000 and "nan of the local energy" not in written
    if which == "some":
        assert "The measured 3 pairs, one panel each" in written
        said(capsys, "figure", run, "--out", str(tmp_path / "figure.png"))
        said(capsys, "seeds", run)


def test_a_run_of_one_task_has_no_pair(
    alone: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with Run(alone) as run:
        assert run.results.pairs.shape == (0, 2) and run.data("disentanglement", "linear") is None
        assert run.results.names("pair_addition") == [] and run.data("similarity", "linear") is not None
        assert not len(run.pairs) and len(run.tasks)
    vectors = said(capsys, "tables", str(alone), "--only", "similarity", "--format", "csv").splitlines()[-1]
    assert vectors.endswith(",,")  # no other task: no cosine with one
    names = {line.split()[0] for line in said(capsys, "show", str(alone)).splitlines() if line.strip()}
    assert {"standard", "linear"} <= names
    assert main(["figure", str(alone), "--out", str(tmp_path / "a.png")]) == 2
    assert "disentanglement" in capsys.readouterr().err


def test_pairs_keep_their_numbers(
    some: Path, schema: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against a run of all pairs: the same number under the same two names, whichever comes first.

    Columns of either task, such as `loss gap 1`, go by its name.
    """
    written(tmp_path, schema)

    def rows(run: Path) -> dict[frozenset[str], dict[str, str]]:
        text = said(capsys, "tables", str(run), "--only", "pairs", "--format", "csv")
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        reader = csv.DictReader(io.StringIO("\n".join(lines)))
        return {frozenset(row["pair"].split(" + ")): named(row) for row in reader}

    def named(row: dict[str, str]) -> dict[str, str]:
        names = dict(zip("12", row.pop("pair").split(" + "), strict=True))
        return {key[:-1] + names[key[-1]] if key[-2:] in (" 1", " 2") else key: row[key] for key in row}

    every, few = rows(tmp_path), rows(some)
    tasks = synthetic.FEW_TASKS
    assert set(few) == {frozenset((tasks[i], tasks[j])) for i, j in SOME}
    for pair, row in few.items():
        for name, value in row.items():
            assert (value == "" and every[pair][name] == "") or float(value) == pytest.approx(
                float(every[pair][name])
            )


def test_a_pair_the_other_way_round_is_drawn_alike(some: Path, schema: int, tmp_path: Path) -> None:
    written(tmp_path, schema)
    with Run(some) as few, Run(tmp_path) as every:

        def drawn(run: Run) -> dict[tuple[int, int], np.ndarray]:
            error = disentanglement_figures.grids(run)["linear"]["error"].to_numpy()
            return dict(zip(disentanglement_figures.earlier_later(run), error, strict=True))

        expected = drawn(every)
        for (first, second), error in drawn(few).items():
            assert first < second and np.allclose(error, expected[first, second])
        grid, products = few.data("disentanglement", "linear"), few.data("tau_jp", "linear")
        assert grid is not None and products is not None
        assert not np.allclose(grid["error"][1], expected[0, 1])  # (1, 0): ξ is not symmetric
        value = products["value"].to_numpy()
        pair_values = means.of_pairs(means.symmetric(value), few.results.pairs)
        assert pair_values[1] == value[[0, 1], [1, 0]].mean()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("regimes", [("linear",), ("standard", "linear")])
def test_grids_without_a_number(
    regimes: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where no point could be measured; what is left of the run is shown all the same."""
    run = str(tmp_path)
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(tmp_path / "results.h5", "r+") as file:
        for group in ("disentanglement", "representation"):
            for regime in regimes:
                for name in ("error", "error_by_task"):
                    file[f"{group}/{regime}/{name}"][...] = np.nan
        file["disentanglement/standard/error"][:, 0, 0] = np.nan  # a cell of every pair's
    shown = said(capsys, "show", run)
    assert "linear [" not in shown and ("??" in shown) == ("standard" not in regimes)
    for command in (["tables", run, "--pairs"], ["report", run], ["seeds", run]):
        said(capsys, *command)
    said(capsys, "figures", run, "--paper", "tangent_space", "--out", str(tmp_path / "figures"))
    code = main(["figure", run, "--out", str(tmp_path / "a.png")])
    assert code == (2 if "standard" in regimes else 0)
    assert ("holds no finite number" in capsys.readouterr().err) == bool(code)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (np.array([[0, 1], [1, 0]]), "twice"),
        (np.array([[0, 1], [2, 2]]), "with itself"),
        (np.array([[0, 4]]), "below 4"),
        (np.array([[-1, 1]]), "below 4"),
        (np.array([[0.0, 1.0]]), "no tasks' numbers"),
        (np.array([0, 1]), "shape"),
        (None, "is missing"),
    ],
)
def test_wrong_pairs_are_refused(
    pairs: np.ndarray | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(path, "r+") as file:
        del file["pairs"]
        if pairs is not None:
            file["pairs/tasks"] = pairs
    assert main(["show", str(path)]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and "/pairs/tasks" in line and words in line
