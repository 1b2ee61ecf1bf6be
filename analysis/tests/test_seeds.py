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


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three runs: one at known accuracies, one fine-tuned to 0.1 more, one that fine-tuning harms."""
    folder = tmp_path_factory.mktemp("seeds")
    found = []
    for number, single in enumerate((0.7, 0.8, 0.3)):
        path = folder / str(number) / "results.h5"
        path.parent.mkdir()
        synthetic.write(path, tasks=synthetic.FEW_TASKS)
        with h5py.File(path, "a") as file:
            file["single_task/pretrained/accuracy"][...] = 0.4
            file["single_task/standard/accuracy"][...] = single
            file["addition/standard/absolute"][...] = 0.55
            file["provenance"].attrs["seed"] = number
        found.append(path.parent)
    return found


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[list[dict[str, str]]]:
    assert main(["seeds", *map(str, arguments), "--format", "csv"]) == 0
    parts = capsys.readouterr().out.split("\n\n")
    return [list(csv.DictReader(line for line in io.StringIO(p) if not line.startswith("#"))) for p in parts]


def test_means_and_deviations(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row for row in printed(capsys, *runs[:2])[0] if row["regime"] == "standard"]
    assert [row["seed"] for row in rows] == ["0", "1", "mean", "deviation"]
    assert [float(row["gain"]) for row in rows] == pytest.approx([0.3, 0.4, 0.35, 0.1 / np.sqrt(2)])
    assert [float(row["recovered"]) for row in rows[:2]] == pytest.approx([0.15 / 0.3, 0.15 / 0.4])
    expected = np.mean([synthetic.xi("standard", pair, 1.0, 1.0).sum() for pair in synthetic.pairs_of(4)])
    assert float(rows[0]["ξ(1,1)"]) == pytest.approx(expected, abs=0.02)
    assert float(rows[0]["ξ(0.5,0.5)"]) < float(rows[0]["ξ(1,1)"]) < float(rows[0]["ξ far corner"])


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
