# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import synthetic
import xarray as xr

from taugrid_analysis.page import style
from taugrid_analysis.run.datasets import Reader
from taugrid_analysis.run.frames import layers, pairs, summary, sweeps, tasks
from taugrid_analysis.run.results import Results

FRAMES = (
    (layers, ("layers", "additions", "negations")),
    (pairs, ("pairs",)),
    (summary, ("summary",)),
    (sweeps, ("sweeps",)),
    (tasks, ("tasks",)),
)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was imported stays to the end: collections of garbage need not walk through it each time."""
    gc.freeze()


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


def state(path: Path) -> tuple[Path, int, int]:
    """A file as it is now."""
    status = path.stat()
    return path, status.st_mtime_ns, status.st_size


def once(make: Callable[[Results], pd.DataFrame]) -> Callable[[Results], pd.DataFrame]:
    frames: dict[tuple[Path, int, int], pd.DataFrame] = {}

    def frame(results: Results) -> pd.DataFrame:
        key = state(results.path)
        if key not in frames:
            frames[key] = make(results)
        return frames[key].copy()

    return frame


@pytest.fixture(autouse=True, scope="session")
def frames_once() -> None:
    """Many tests open the same files: what is made of one is made once, as long as it stays as it is."""
    for module, names in FRAMES:
        for name in names:
            setattr(module, name, once(getattr(module, name)))
    read, kept = Reader.read, dict[tuple[Any, ...], xr.Dataset]()

    def reading(reader: Reader, group: str, name: str, extra: Sequence[str]) -> xr.Dataset:
        key = (*state(reader._store.path), group, name, *extra)
        if key not in kept:
            kept[key] = read(reader, group, name, extra)
        return kept[key]

    Reader.read = reading  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of figures have few dots: no test counts them."""
    monkeypatch.setattr(style.to_bytes, "__defaults__", (60,))
    monkeypatch.setattr("taugrid_analysis.cli.DOTS_PER_INCH", 60)


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages and files of which no picture is looked at have empty ones: drawing takes most of their time."""
    monkeypatch.setattr("taugrid_analysis.page.report.to_svg", lambda figure, prefix: "<svg></svg>")
    monkeypatch.setattr("taugrid_analysis.page.style.to_bytes", lambda figure, kind, dots_per_inch=0: b"")
    monkeypatch.setattr("taugrid_analysis.page.style.beside", lambda pictures: pictures[0][1])
