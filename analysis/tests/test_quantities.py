# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A quantity is a folder that is found by being there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic

from taugrid_analysis import quantities
from taugrid_analysis.page.report import ORDER as SECTIONS
from taugrid_analysis.page.tables import ORDER, all_tables
from taugrid_analysis.run.opened import Run

PARTS = {
    "__init__": """
from taugrid_analysis.run.group import Group, Variable

GROUPS = {"angles": Group({"angle": Variable(("pair",))})}
""",
    "columns": """
def of_pairs(results, regime):
    data = results.data("angles", regime)
    return {"angle": data["angle"].to_numpy() if data is not None else results.nothing()}
""",
    "tables": """
from taugrid_analysis.page.table import Column, Table


def angles(run):
    rows = [[name, float(run.pairs.loc[name]["angle"].mean())] for name in run.results.names("angles")]
    return Table("angles", "Angles", [Column("regime"), Column("mean", 1)], rows)


TABLES = {"angles": angles}
""",
}


@pytest.fixture
def angles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder more, beside those of the package."""
    folder = tmp_path / "more" / "angles"
    folder.mkdir(parents=True)
    for name, text in PARTS.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setattr(quantities, "__path__", [*quantities.__path__, str(folder.parent)])
    quantities.groups.cache_clear()
    yield
    quantities.groups.cache_clear()
    for name in [name for name in sys.modules if name.startswith(f"{quantities.__name__}.angles")]:
        del sys.modules[name]


@pytest.mark.usefixtures("angles")
def test_a_folder_more_is_a_quantity_more(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(path, "r+") as file:
        file["angles/linear/angle"] = np.arange(6.0)
    with Run(path) as run:
        data = run.data("angles", "linear")
        assert data is not None and data["angle"].dims == ("pair",)
        assert (
            run.pairs.loc["linear", "angle"].tolist() == list(range(6)) and run.pairs.columns[-1] == "angle"
        )
        names = [table.name for table in all_tables(run)]
        rows = next(table.rows for table in all_tables(run) if table.name == "angles")
    assert rows == [["linear", 2.5]] and names.index("angles") > names.index("smoothness")


def test_every_table_has_a_place_and_every_place_a_table(schema2_folder: Path) -> None:
    names = {name for _, module in quantities.modules("tables") for name in getattr(module, "TABLES", {})}
    assert set(ORDER) == names - {"lacking"} and len(set(ORDER)) == len(ORDER)
    with Run(schema2_folder) as run:
        shown = [part.anchor for _, module in quantities.modules("section") for part in module.sections(run)]
    assert sorted(shown) == sorted(SECTIONS)


def test_every_quantity_that_is_measured_can_be_taken_again() -> None:
    """Each has a recompute.py of its own; a quantity that only shows others' numbers reads no groups."""
    folders = [path.parent for path in Path(quantities.__path__[0]).glob("*/__init__.py")]
    measured = {path for path in folders if "GROUPS" in (path / "__init__.py").read_text(encoding="utf-8")}
    assert measured == {path for path in folders if (path / "recompute.py").is_file()} and len(measured) > 25
