# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' numbers: right as printed, and shown with a verdict only where they apply."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic

from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.table import Table
from taugrid_analysis.page.tables import all_tables
from taugrid_analysis.papers import PRINTED as NAMES
from taugrid_analysis.papers import published
from taugrid_analysis.papers.published import Cell, PublishedTable, Row, verdict
from taugrid_analysis.run.opened import Run

PAPERS = os.environ.get("TAUGRID_PAPERS")
B32 = ("openai/clip-vit-base-patch32", 87849216, "pretrained")
REACH = 24  # lines of a paper's text around a caption within which its table stands


def numbers(line: str, scan: bool = False) -> list[float]:
    """The decimal numbers; in a scan also those that lost their point: 7220 for 72.20."""
    bare = re.sub(r"\$[^$]*\$", " ", line)  # formulas
    printed = re.findall(
        r"(?<![\w.])\d+\.\d+(?![\w.])" + (r"|(?<![\w.])\d{4}(?![\w.])" if scan else ""), bare
    )
    return [float(number) if "." in number else float(number) / 100 for number in printed]


def is_printed(line: str, row: Row, scan: bool) -> bool:
    """The row's label and exactly its numbers, in order; text cells in order."""
    expected = [number for values in row.values.values() for number in values]
    if row.printed not in line:
        return False
    if any(isinstance(number, str) for number in expected):
        return (
            re.search(r"\s+".join(re.escape(str(number)) for number in expected) + r"\s*$", line) is not None
        )
    if row.part is not None:  # several rows in one line: every cell holds a number of each
        cells = [cell.split() for cell in line.split("\t")]
        held = [cell for cell in cells if all(numbers(part) for part in cell)]
        return [numbers(cell[row.part])[0] for cell in held if len(cell) > 1] == expected
    return numbers(line, scan) == expected


def caption(table: PublishedTable) -> tuple[list[str], int]:
    """The paper's lines, and where the table's one caption stands."""
    lines = (Path(str(PAPERS)) / table.text).read_text(encoding="utf-8").splitlines()
    start = r"\s*" if table.where.startswith("Table") else r".*"
    places = [index for index, line in enumerate(lines) if re.match(start + re.escape(table.where), line)]
    assert len(places) == 1, places
    return lines, places[0]


@pytest.mark.skipif(not PAPERS, reason="TAUGRID_PAPERS names no folder of the papers' text")
@pytest.mark.parametrize(
    "table", published.tables(), ids=lambda table: f"{table.text}-{table.number}-{table.columns[0]}"
)
def test_numbers_are_as_printed(table: PublishedTable) -> None:
    """Each row is a line near its table's caption with its label and exactly its numbers, in order."""
    lines, place = caption(table)
    near = lines[max(0, place - REACH) : place + REACH]
    for row in table.rows:
        if table.picture:  # its numbers, if any, are not in the text
            continue
        assert row.values
        matching = [line for line in near if is_printed(line, row, table.scan)]
        assert len(matching) == 1, (row.label, row.regime, row.values)


@pytest.mark.skipif(not PAPERS, reason="TAUGRID_PAPERS names no folder of the papers' text")
def test_no_table_of_a_paper_is_left_out() -> None:
    """Every caption in the texts has its table here."""
    for name in NAMES:
        known = published.tables((name,))
        text = (Path(str(PAPERS)) / known[0].text).read_text(encoding="utf-8")
        printed = {int(number) for number in re.findall(r"(?:^|\s)Ta[bp]le (\d):", text)}
        assert {table.number for table in known} == printed


def test_a_line_is_read_as_it_is_laid_out() -> None:
    both = "Ours\tOne-shot Tuned\t84.2 84.5\t97.2 97.6"
    row = Row("Ours", "tau_jp", {"B32": [84.5, 97.6]}, "Ours", 1)
    assert is_printed(both, row, False)
    assert not is_printed(both, replace(row, part=0), False)
    assert not is_printed(both, replace(row, values={"B32": [84.5, 97.2]}), False)
    scanned = "Ours | 80.63 7220"
    row = Row("Ours", "attention", {"T5": [80.63, 72.2]}, "Ours", None)
    assert is_printed(scanned, row, True) and not is_printed(scanned, row, False)
    assert not is_printed(scanned, replace(row, values={"T5": [80.63]}), True)
    row = Row("Ours", "attention", {"T5": ["222 M", "10:15"]}, "Ours", None)
    assert is_printed("Ours 222 M 10:15", row, False) and not is_printed("Ours 222 M 10:16", row, False)


def test_every_row_has_every_model() -> None:
    for table in published.tables():
        models = list(table.rows[-1].values)
        assert models in (list(published.models()), ["B32"], ["ConvNeXt"], ["supervised"], ["T5"], [])
        for row in table.rows:
            assert list(row.values) == models
            assert all(len(values) in (1, len(table.columns)) for values in row.values.values())


def test_ranges_over_papers() -> None:
    printed = published.cells("addition", "pretrained", "absolute", "standard", "B32")
    shown = [(cell.source, cell.number, cell.decimals) for cell in printed]
    assert shown == [("Tangent T1", 71.4, 1), ("τJp T1", 70.4, 1), ("Attention T1", 70.0, 2)]
    printed = published.cells("addition", "random", "absolute", "linear", "L14")
    assert [(cell.source, cell.number) for cell in printed] == [("Tangent T3", 6.1)]


def test_error_of_a_printed_mean_by_hand() -> None:
    """71.4 % over eight test splits, each counted with that accuracy."""
    points = [8041, 1880, 2700, 12630, 10000, 6300, 19850, 26032]
    single = 100 * np.sqrt(sum(0.714 * 0.286 / n for n in points)) / 8
    cell = published.cells("addition", "pretrained", "absolute", "standard", "B32")[0]
    assert cell.error == pytest.approx(single)
    table = published.tables(("tangent_space",))[0]
    row = next(row for row in table.rows if row.regime == "standard")
    reached = 71.4 / 76.5  # what the tasks' own models reach, from both printed numbers
    reached_error = 100 * np.sqrt(sum(reached * (1 - reached) / n for n in points)) / 8
    expected = 100 * np.hypot(single / (100 * reached), 71.4 * reached_error / (100 * reached) ** 2)
    assert table.error(row, "B32", 1) == pytest.approx(expected)
    control = next(source for source in published.tables(("tangent_space",)) if source.number == 2)
    assert control.error(control.rows[0], "B32", 1) == pytest.approx(100 * np.sqrt(0.634 * 0.366 / 50000))


def cells(*numbers: float, decimals: int = 1, error: float = 0.2) -> list[Cell]:
    return [Cell("a paper", number, decimals, error) for number in numbers]


def test_verdict_rounds_as_printed() -> None:
    """78.37 against 78.37 is no difference, whatever digits follow."""
    judgement = verdict(Measured(78.3674, 1e-9), cells(78.37, decimals=2, error=1e-9))
    assert judgement is not None and judgement.difference == 0 and str(judgement) == "agrees within 0.0"
    judgement = verdict(Measured(71.44, 1e-9), cells(71.4, error=1e-9))
    assert judgement is not None and judgement.difference == 0
    judgement = verdict(Measured(71.46, 1e-9), cells(71.4, error=1e-9))
    assert judgement is not None and str(judgement).startswith("above by 0.1 ")


def test_verdict_takes_both_samples_into_account() -> None:
    tolerance = 1.959964 * np.hypot(0.7, 0.2)
    judgement = verdict(Measured(72.6, 0.7), cells(71.4))
    assert judgement is not None and judgement.tolerance == pytest.approx(tolerance)
    assert str(judgement) == f"agrees within {tolerance:.1f}" == "agrees within 1.4"
    assert str(verdict(Measured(73.4, 0.7), cells(71.4))) == "above by 2.0 (± 1.4)"
    assert str(verdict(Measured(68.1, 0.7), cells(71.4, 70.0))) == "below by 1.9 (± 1.4)"
    assert str(verdict(Measured(70.9, 0.7), cells(71.4, 70.0))).startswith(
        "agrees"
    )  # within the papers' range
    assert verdict(Measured(70.9, float("nan")), cells(71.4)) is None  # on how many points is not known


def tables_of(path: Path) -> dict[str, Table]:
    with Run(path) as run:
        return {table.name: table for table in all_tables(run)}


def test_another_model_gets_no_verdict(run_folder: Path) -> None:
    tables = tables_of(run_folder)
    assert not any("verdict" in column.name for column in tables["addition"].columns)
    note = tables["published"].notes[0]
    assert "clip_mini, is none of the papers'" in note and "without verdict" in note
    assert tables["published"].rows[1][2] == 71.4


def test_the_papers_model_is_judged(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5", model=B32, tasks=synthetic.PAPER_TASKS)
    with h5py.File(path, "r+") as file:
        file["addition/standard/absolute"][...] = 0.709
        file["addition/linear/absolute"][...] = 0.84  # above 76.26 and 76.5, 74.3
    tables = tables_of(path)
    assert "published" not in tables
    table = tables["addition"]
    names = [column.name for column in table.columns]
    by_regime = {row[0]: dict(zip(names, row, strict=True)) for row in table.rows}
    assert by_regime["standard"]["absolute published"] == "70.00…71.4"
    assert by_regime["standard"]["absolute verdict"].startswith("agrees within ")
    assert by_regime["linear"]["absolute verdict"].startswith("above by 7.5 (± ")
    assert by_regime["standard"]["one_shot_absolute published"] == "19.9"


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ("", True),
        ("[finetune]\ncrop = false", True),
        ("[finetune]\ncrop = 0.9", False),
        ("[finetune]\ncrop = 0.9\n[finetune.linear]\ncrop = 1.0", True),
    ],
)
def test_training_without_crops_is_said_beside_the_verdict(
    configuration: str, expected: bool, tmp_path: Path
) -> None:
    path = synthetic.write(tmp_path / "results.h5", model=B32, tasks=synthetic.PAPER_TASKS)
    (tmp_path / "config.toml").write_text(configuration)
    notes = tables_of(path)["addition"].notes
    assert any("without the random crops" in note and "linear" in note for note in notes) is expected


@pytest.mark.parametrize(
    ("model", "tasks", "reason"),
    [
        ((B32[0], 1234, "pretrained"), synthetic.PAPER_TASKS, "1,234 parameters"),
        (B32, synthetic.TASKS, "not their eight"),
        (("laion/clip-vit-b-32", B32[1], "pretrained"), synthetic.PAPER_TASKS, "none of the papers'"),
    ],
)
def test_almost_the_papers_model_is_not_judged(
    model: tuple[str, int, str], tasks: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    tables = tables_of(synthetic.write(tmp_path / "results.h5", model=model, tasks=tasks))
    assert reason in tables["published"].notes[0]
    assert not any("verdict" in column.name for column in tables["addition"].columns)


def test_random_start_is_held_against_the_random_table(tmp_path: Path) -> None:
    model = (B32[0], B32[1], "random")
    path = synthetic.write(tmp_path / "results.h5", model=model, tasks=synthetic.PAPER_TASKS)
    table = tables_of(path)["addition"]
    names = [column.name for column in table.columns]
    row = dict(zip(names, next(row for row in table.rows if row[0] == "standard"), strict=True))
    assert row["absolute published"] == "5.5" and row["absolute verdict"] is None  # another initialisation
