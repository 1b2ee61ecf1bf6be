# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Names and texts of a results.h5 that somebody else made, in pages, pictures, tables and terminals."""

from __future__ import annotations

import csv
import io
import math
import re
import warnings
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import h5py
import pytest
import recorded_bench
import synthetic
from matplotlib.figure import Figure

from taugrid_analysis.cli import main
from taugrid_analysis.files import line, visible
from taugrid_analysis.page import style
from taugrid_analysis.page.renderings import RENDERERS, csv_text, frame_csv
from taugrid_analysis.page.table import Column, Table

NAMES = {  # of a task: how it is shown
    "mathtext": ("$x_{", "$x_{"),
    "a whole formula": (r"$\frac{1}{2}$", r"$\frac{1}{2}$"),
    "an unknown command": (r"$\frac$", r"$\frac$"),
    "escape": ("\x1b[31mred", r"\x1b[31mred"),
    "line break": ("one\ntwo", r"one\ntwo"),
    "other way round": ("a\u202eb", r"a\u202eb"),
    "no letter at all": ("a\uffffb", r"a\uffffb"),
    "formula": ('=HYPERLINK("http://x","y")', '=HYPERLINK("http://x","y")'),
    "command": ("@SUM(1+1)|cmd", "@SUM(1+1)|cmd"),
    "markup": ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    "quotes": ("\"'&amp;", "\"'&amp;"),
    "table": ("a|b", "a|b"),
    "bytes that are no UTF-8": (b"\xff\xfe", "\ufffd\ufffd"),
}


@pytest.fixture(scope="module", params=[slice(6), slice(6, 12)])
def named(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A run whose tasks have half of these names, and how they are shown."""
    run = tmp_path_factory.mktemp("named")
    synthetic.write(run / "results.h5", tasks=tuple(f"a task of number {number} here" for number in range(6)))
    some = list(NAMES.values())[request.param]
    with h5py.File(run / "results.h5", "r+") as file:
        file["tasks/name"][...] = [name.encode() if isinstance(name, str) else name for name, _ in some]
        file["model"].attrs["name"] = NAMES["markup"][0]
    return run, [shown for _, shown in some]


class Words(HTMLParser):
    """The words of a page, and which elements it has."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.tags = "", []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize("form", RENDERERS)
def test_tables_show_them(
    named: tuple[Path, list[str]], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run, names = named
    assert main(["tables", str(run), "--format", form]) == 0
    said = capsys.readouterr().out
    assert plain(said)
    if form == "text":
        assert all(shown in said for shown in names)
    if form == "csv":
        lines = [line for line in said.splitlines() if line[:1] != "#"]
        assert not any(formula(cell) for row in csv.reader(lines) for cell in row)
    if form == "markdown":
        assert "<script" not in said.replace("\\<", "")


def test_show_pictures_and_the_page(
    named: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    run, names = named
    assert main(["show", str(run)]) == 0
    said = capsys.readouterr().out
    assert plain(said) and NAMES["markup"][1] in said
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the font of figures lacks
        assert main(["report", str(run)]) == 0
        assert main(["figure", str(run), "--out", str(run / "one.svg")]) == 0
    page = Words()
    page.feed((run / "report.html").read_text(encoding="utf-8"))
    assert all(shown in page.words for shown in names)
    assert page.tags.count("script") == 2 and plain(page.words)
    ElementTree.parse(run / "one.svg")


def plain(text: str) -> bool:
    return all(line.isprintable() for line in text.replace("\t", " ").splitlines())


def formula(cell: str) -> bool:
    """Whether a spreadsheet computes it."""
    try:
        return cell[:1] in ("=", "+", "-", "@") and not math.isfinite(float(cell))
    except ValueError:
        return True


def test_one_name_of_two_tasks_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=("same", "same", "other", "more"))
    assert main(["tables", str(tmp_path)]) == 2
    assert "/tasks/name: two tasks are called same; expected each" in capsys.readouterr().err


def test_regimes_that_cannot_be_shown_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(tmp_path / "results.h5", "r+") as file:
        file.move("single_task/linear", "single_task/li\x1b[31m")
    assert main(["show", str(tmp_path)]) == 2
    assert r"single_task: has the name li\x1b[31m; expected" in capsys.readouterr().err


def test_cases_of_a_bench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded_bench.write(tmp_path / "bench.json")
    path.write_text(path.read_text().replace("step/standard", r"\u001b[31m=1\n+"))
    assert main(["compare", str(path), str(path)]) == 0
    said = capsys.readouterr().out
    assert r"\x1b[31m=1\n+" in said and plain(said)


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        *(("=1+1", "'=1+1"), ("+x", "'+x"), ("-x", "'-x"), ("@x", "'@x"), ("\tx", "'\tx")),
        *((same, same) for same in ("-0.5", "-0.5 ± 0.1", "–", "a=b", "")),
    ],
)
def test_cells_of_csv(cell: str, written: str) -> None:
    import pandas as pd

    assert csv_text(cell) == written
    frame = pd.DataFrame({"task": [cell], "number": [-0.5]})
    (row,) = list(csv.DictReader(io.StringIO(frame_csv(frame))))
    assert row == {"task": written, "number": "-0.5"}
    table = Table("t", "t", [Column("task"), Column("number")], [[cell, -0.5]])
    *_, row = csv.reader(RENDERERS["csv"](table).splitlines())
    assert row == [written, "-0.5"]


def test_ordinary_names_stay(tmp_path: Path) -> None:
    for name in ("ViT-B/32", "été", "τ θ", "日本語", "👍🏽", "a\u00a0b", "x_{1}^2 & 50%"):
        assert visible(name) == name


def test_powers_of_ten_are_plain_text() -> None:
    """Labels of logarithmic axes are formulas of matplotlib, which are off: names may have a dollar sign."""
    with style.settings():
        figure = Figure()
        axes = figure.subplots()
        axes.plot([1e-4, 20], [-300, 3e5])
        axes.set(xscale="log", title="$x_{")
        axes.set_yscale("symlog")
    text = style.to_bytes(figure, "svg").decode()
    words = set(re.findall(r">([^<>]+)</text>", text))
    assert {"10⁻³", "10⁰", "−10²", "$x_{"} <= words and not any("mathdefault" in word for word in words)


@pytest.mark.parametrize(
    "words", ["a" * 10**6, "word " * 10**5, "a" * 5000 + " is " + "b" * 600, "\x1b" * 1000]
)
def test_a_message_is_one_short_line(words: str) -> None:
    """Long names lose their middle; what was expected stays."""
    said = line(f"/runs/1: {words} is there; expected another")
    assert len(said) <= 470 and said.isprintable() and "…" in said
    assert said.startswith("/runs/1: ") and said.endswith("is there; expected another")
    assert line("/runs/1: is none; expected one") == "/runs/1: is none; expected one"
