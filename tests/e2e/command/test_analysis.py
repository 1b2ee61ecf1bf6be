# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the program writes, the analysis reads: every command on a run of all regimes."""

from pathlib import Path

import analysis_command
import numpy as np
import pytest
import taugrid_analysis as tg


def analyse(*arguments: str | Path) -> str:
    done = analysis_command.called(*arguments)
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


def test_a_paper_of_figures(papers_folder: Path, tmp_path: Path) -> None:
    tables = analyse("tables", papers_folder, "--paper", "cross_task_linearity")
    assert "0.903" in tables and tables.count("embedding") >= 9  # regimes with task vectors
    drawn = analyse("figures", papers_folder, "--paper", "cross_task_linearity", "--out", tmp_path)
    assert {line.split(":")[0] for line in drawn.splitlines() if line.endswith(".png")} == {
        f"figure {number}" for number in (2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 18, 19, 20, 22, 23)}


def test_tables_report_and_screen(papers_folder: Path, tmp_path: Path) -> None:
    tables = analyse("tables", papers_folder, "--pairs")
    for word in ("negation", "kernel behaviour", "What predicts interference", "peak"):
        assert word.lower() in tables.lower(), word
    assert "tau_jp_strict" in analysis_command.started("show", papers_folder).stdout
    analyse("report", papers_folder, "--out", tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 200_000


def test_the_file_has_what_its_schema_promises(papers_folder: Path) -> None:
    """Nothing of schema 2 is named as lacking, and the null stands beside the NTK's share."""
    with tg.open(papers_folder) as run:
        assert run.missing == []
        for start in ("pretrained", "random"):
            kernel = run.data("ntk", start)
            assert kernel is not None and kernel.null_share.dims == ("task", "logit", "draw")
            assert (kernel["rank"] > 0).any() and np.isfinite(kernel.null_share).any()
        assert np.isfinite(run.pairs.loc["linear", ["ntk", "tau_jp_validation", "symmetric_kl_one"]]).all(axis=None)
        for group, name in (("single_task", "accuracy"), ("addition", "test_accuracy"), ("negation", "test_target"),
                            ("pair_addition", "test_accuracy")):
            assert run.results.correct(f"{group}/linear/{name}") is not None
