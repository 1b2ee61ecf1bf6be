# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What measures each table and figure of the papers, against their texts, the files and docs/papers.md."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from taugrid_analysis import cli
from taugrid_analysis.papers import PAPERS, coverage, figure, published

ROOT = Path(__file__).parents[2]
MADE = "<!-- What follows is made: .venv/bin/python -m taugrid_analysis papers --format markdown -->\n\n"
TEXTS = os.environ.get("TAUGRID_PAPERS")


def places(paper: str) -> list[str]:
    return [item.place for item in coverage.items(paper)]


@pytest.mark.parametrize("paper", PAPERS)
def test_each_published_table_and_each_figure_is_listed_once(paper: str) -> None:
    listed = places(paper)
    assert len(listed) == len(set(listed))
    assert set(published.captions(paper)) <= set(listed)
    assert {f"Figure {plate.number}" for plate in figure.of_paper(paper)} == {
        place for place in listed if place.startswith("Figure")
    }


@pytest.mark.skipif(not TEXTS, reason="TAUGRID_PAPERS names no folder of the papers' text")
@pytest.mark.parametrize("paper", PAPERS)
def test_each_caption_of_the_paper_is_listed(paper: str) -> None:
    name = {"bases": "task_vector_bases"}.get(paper, paper)
    text = (Path(str(TEXTS)) / f"{name}.txt").read_text(encoding="utf-8")
    captions = {
        f"{kind} {number}" for kind, number in re.findall(r"^ *(Table|Figure) (\d+)[:.]", text, re.MULTILINE)
    }
    listed = {place for place in places(paper) if place.startswith(("Table", "Figure"))}
    assert captions <= listed
    for place in listed - captions:  # a caption that the text lost is spoken of
        assert re.search(rf"(?:Tab(?:le)?|Fig(?:ure)?)s?\.?\s*{place.split()[1]}\b", text), place


@pytest.mark.parametrize("paper", PAPERS)
def test_what_is_listed_is_there(paper: str) -> None:
    """Figures that nothing draws are ideas; files, commands, pages and their sections exist."""
    drawn = {f"Figure {plate.number}": plate.draw is not None for plate in figure.of_paper(paper)}
    for item in coverage.items(paper):
        assert item.state != coverage.MISSING or item.missing, item
        assert not item.idea or (not item.command and not item.own), item
        if item.place in drawn:
            assert drawn[item.place] != item.idea, item
        for name in item.own:
            steps = name == f"bash jobs/paper.sh {paper}/original"
            assert (
                ROOT / "jobs/papers" / paper / "original" / (coverage.STEPS if steps else name)
            ).is_file(), item
        if item.command:
            interpreter, script, *words = item.command.split()
            if interpreter == "ctest":  # what is proved, and not measured, is a test
                lists = [
                    path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("CMakeLists.txt")
                ]
                assert any(f"taugrid_test({words[-1]} " in text for text in lists), item
            else:
                assert interpreter == "bash" and (ROOT / script).is_file(), item
                assert all((ROOT / "jobs/papers" / word / "paper.toml").is_file() for word in words), item
        if item.recorded:
            page, _, anchor = item.recorded.partition("#")
            text = (ROOT / "docs" / coverage.FINDINGS / page).read_text(encoding="utf-8")
            titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}
            assert not anchor or anchor in slugs, item


def test_every_own_file_measures_something() -> None:
    """A file that starts another, and the sets of twenty tasks of no paper here, aside."""
    for paper in PAPERS:
        listed = {
            coverage.STEPS if " " in name else name for item in coverage.items(paper) for name in item.own
        }
        assert {path.name for path in (ROOT / "jobs/papers" / paper / "original").glob("*.toml")} == listed, (
            paper
        )


def test_the_page_ends_with_what_the_code_makes(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/papers.md").read_text(encoding="utf-8")
    assert cli.main(["papers", "--format", "markdown"]) == 0
    printed = capsys.readouterr().out
    assert page.split(MADE)[1] == printed, "renew it with: taugrid_analysis papers --format markdown"
    assert cli.main(["papers"]) == 0
    assert "Figure 24" in capsys.readouterr().out
