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

from taugrid_analysis import measures
from taugrid_analysis.cli import main
from taugrid_analysis.figures import grids
from taugrid_analysis.published import PAPERS
from taugrid_analysis.results import Results

SOME = [(2, 3), (1, 0), (0, 3)]
REGIMES = ("standard", "linear", "posthoc", "attention", "tau_jp")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one")
    synthetic.write(folder / "results.h5", tasks=synthetic.TASKS[:1], regimes=REGIMES)
    return folder


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("some")
    synthetic.write(folder / "results.h5", tasks=synthetic.FEW_TASKS, regimes=REGIMES, pairs=SOME, bend=True)
    return folder


@pytest.mark.parametrize("which", ["one", "some"])
@pytest.mark.parametrize("paper", [None, *PAPERS])
def test_every_command_reads_it(
    which: str,
    paper: str | None,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    run = str(request.getfixturevalue(which))
    if paper is not None:
        said(capsys, "tables", run, "--paper", paper)
        said(capsys, "figures", run, "--paper", paper, "--out", str(tmp_path))
        return
    assert "standard" in said(capsys, "show", run)
    assert "Single-task accuracy" in said(capsys, "tables", run, "--pairs")
    said(capsys, "report", run, "--out", str(tmp_path / "report.html"))
    written = (tmp_path / "report.html").read_text()
    assert len(written) > 10_000 and "nan of the local energy" not in written
    if which == "some":
        said(capsys, "figure", run, "--out", str(tmp_path / "figure.png"))
        said(capsys, "seeds", run)


def test_a_run_of_one_task_has_no_pair(one: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with Results(one) as results:
        assert results.pairs.shape == (0, 2) and results.disentanglement("linear") is None
        assert results.names("pair_addition") == [] and results.similarity("linear") is not None
    vectors = said(capsys, "tables", str(one), "--only", "similarity", "--format", "csv").splitlines()[-1]
    assert vectors.endswith(",,")  # no other task: no cosine with one
    names = {line.split()[0] for line in said(capsys, "show", str(one)).splitlines() if line.strip()}
    assert {"standard", "linear"} <= names
    assert main(["figure", str(one), "--out", str(tmp_path / "a.png")]) == 2
    assert "disentanglement" in capsys.readouterr().err


def test_pairs_keep_their_numbers(some: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Against a run of all pairs: the same number under the same two names, whichever comes first."""
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, regimes=REGIMES, bend=True)

    def rows(run: Path) -> dict[frozenset[str], dict[str, str]]:
        text = said(capsys, "tables", str(run), "--only", "pairs", "--format", "csv")
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        found = csv.DictReader(io.StringIO("\n".join(lines)))
        return {frozenset(row["pair"].split(" + ")): row | {"pair": ""} for row in found}

    every, few = rows(tmp_path), rows(some)
    tasks = synthetic.FEW_TASKS
    assert set(few) == {frozenset((tasks[i], tasks[j])) for i, j in SOME}
    for pair, row in few.items():
        for name, value in row.items():
            assert (value == "" and every[pair][name] == "") or float(value) == pytest.approx(
                float(every[pair][name])
            )


def test_a_pair_the_other_way_round_is_drawn_alike(some: Path, tmp_path: Path) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, regimes=REGIMES, bend=True)
    with Results(some) as few, Results(tmp_path) as every:
        grid, whole = few.disentanglement("linear"), every.disentanglement("linear")
        assert grid is not None and whole is not None
        expected = {(first, second): error for first, second, error in grids.ordered(every, whole)}
        for first, second, error in grids.ordered(few, grid):
            assert first < second and np.allclose(error, expected[first, second])
        assert not np.allclose(grid.error[1], expected[0, 1])  # (1, 0): ξ is not symmetric
        products = few.tau_jp("linear")
        assert products is not None
        found = measures.of_pairs(measures.symmetric(products.value), few.pairs)
        assert found[1] == products.value[[0, 1], [1, 0]].mean()


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
