# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the program writes, the analysis reads: every command on a run of all regimes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import taugrid_analysis as tg


def analyse(*arguments: str | Path) -> str:
    done = subprocess.run([sys.executable, "-m", "taugrid_analysis", *arguments], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("paper", ["tangent_space", "tau_jp", "attention_only"])
def test_every_table_and_figure_of_a_paper(papers_folder: Path, tmp_path: Path, paper: str) -> None:
    assert "Table 1" in analyse("tables", papers_folder, "--paper", paper)
    drawn = analyse("figures", papers_folder, "--paper", paper, "--out", tmp_path)
    assert len(list(tmp_path.glob("*.png"))) == drawn.count(".png") >= 6
    # Nothing of what this run measured is asked for.
    for line in drawn.splitlines():
        assert "needs /" not in line, line


def test_tables_report_and_screen(papers_folder: Path, tmp_path: Path) -> None:
    tables = analyse("tables", papers_folder, "--pairs")
    for word in ("negation", "kernel behaviour", "What predicts interference", "peak"):
        assert word.lower() in tables.lower(), word
    assert "tau_jp_strict" in analyse("show", papers_folder)
    analyse("report", papers_folder, "--out", tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 200_000


def test_the_file_has_what_its_schema_promises(papers_folder: Path) -> None:
    """Nothing of schema 2 is named as lacking, and the null stands beside the NTK's share."""
    with tg.open(papers_folder) as run:
        assert run.lacks == []
        for start in ("pretrained", "random"):
            kernel = run.data("ntk", start)
            assert kernel is not None and kernel.null_share.dims == ("task", "logit", "draw")
            assert (kernel["rank"] > 0).any() and np.isfinite(kernel.null_share).any()
        assert np.isfinite(run.pairs.loc["linear", ["ntk", "tau_jp_validation", "symmetric_kl_one"]]).all(axis=None)
        for group, name in (("single_task", "accuracy"), ("addition", "test_accuracy"), ("negation", "test_target"),
                            ("pair_addition", "test_accuracy")):
            assert run.results.correct(f"{group}/linear/{name}") is not None
