# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""λ_max has its sign where it stands alone; whoever averages, compares or bounds takes its magnitude."""

from __future__ import annotations

import difflib
from pathlib import Path

import h5py
import numpy as np
import pytest
import test_as_before as recorded
import torch

from taugrid_analysis.recompute.oracle import largest_eigenvalue


@pytest.mark.parametrize("name", ["summary", "pairs", "show", "tables", "papers", "causes"])
def test_only_single_numbers_have_the_sign(tmp_path: Path, name: str) -> None:
    says = {
        "summary": lambda runs: _frame(runs, "summary"),
        "pairs": lambda runs: _frame(runs, "pairs"),
        "show": recorded.show,
        "tables": recorded.tables("text"),
        "papers": recorded.papers("text"),
        "causes": lambda runs: recorded.said("causes", *runs, "--format", "csv"),
    }[name]
    runs = recorded.every_group(tmp_path)
    before = says(runs).splitlines()
    negate(runs[0] / "results.h5")
    changed = list(difflib.unified_diff(before, says(runs).splitlines(), lineterm="", n=0))[2:]
    alone = [line for line in changed if line[0] in "+-" and "e-" not in line]  # with its residual in a row
    assert not alone and (name != "tables" or changed)


def _frame(runs: list[Path], name: str) -> str:
    with recorded.tg.open(runs[0]) as run:
        return getattr(run, name).to_csv()


def negate(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        for group in file["smoothness"].values():
            group["lambda_max"][...] = -np.abs(group["lambda_max"][()])


@pytest.mark.parametrize("values", [(-3.0, 2.0, 1.0), (3.0, -2.0, 1.0)])
def test_the_oracle_keeps_the_sign(values: tuple[float, ...]) -> None:
    diagonal = torch.tensor([*values, *([0.1] * 30)], dtype=torch.float64)
    theta = {"p": torch.zeros(33, dtype=torch.float64)}
    assert largest_eigenvalue(theta, lambda v: diagonal * v["p"]) == pytest.approx(values[0])
