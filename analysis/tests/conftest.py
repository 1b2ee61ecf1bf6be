# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
import synthetic


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete run: eight tasks, two regimes."""
    folder = tmp_path_factory.mktemp("run")
    synthetic.write(folder / "results.h5")
    return folder


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with four tasks, for tests that draw but look at no pair."""
    folder = tmp_path_factory.mktemp("small")
    synthetic.write(folder / "results.h5", tasks=synthetic.FEW_TASKS)
    return folder


@pytest.fixture(scope="session")
def schema2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight tasks, regimes of every kind, and what schema 2 adds."""
    folder = tmp_path_factory.mktemp("schema2")
    synthetic.write(folder / "results.h5", regimes=synthetic.EVERY, schema=2, bend=True)
    return folder


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and files of which no picture is looked at have empty ones: drawing takes most of their time."""
    monkeypatch.setattr("taugrid_analysis.report.to_svg", lambda figure, prefix: "<svg></svg>")
    monkeypatch.setattr("taugrid_analysis.figures.style.to_bytes", lambda figure, kind, dots_per_inch=0: b"")
