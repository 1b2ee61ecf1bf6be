# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The report stands alone, draws everything that the file has, and says what it lacks."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic

from taugrid_analysis import cli
from taugrid_analysis.page import style
from taugrid_analysis.page.headline import headline
from taugrid_analysis.page.report import report, sections
from taugrid_analysis.page.sentences import sentences
from taugrid_analysis.papers import PAPERS
from taugrid_analysis.quantities.disentanglement import composite
from taugrid_analysis.quantities.disentanglement import figures as disentanglement_figures
from taugrid_analysis.quantities.ntk import figures as ntk_figures
from taugrid_analysis.quantities.ntk.section import _kernel_caption
from taugrid_analysis.run.opened import Run

VOID = {"meta", "link", "br", "img", "path", "use", "image", "rect", "circle"}


class Page(HTMLParser):
    """Collects what a browser would fetch, and checks that elements close."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.identifiers: list[str] = []
        self.tags: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in {"src", "href", "xlink:href", "srcset", "data"}:
                self.links.append(value or "")
            if name == "id":
                self.identifiers.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def html(run_folder: Path) -> str:
    assert cli.main(["report", str(run_folder)]) == 0
    return (run_folder / "report.html").read_text(encoding="utf-8")


def test_nothing_is_fetched(html: str) -> None:
    page = Page(html)
    assert page.open == []
    assert "http:" not in html and "https:" not in html and "@import" not in html
    assert page.tags.count("script") == 2 and "link" not in page.tags and "iframe" not in page.tags
    assert len(html.encode("utf-8")) < 2e6
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", html))


def test_eleven_regimes_fit_into_one_page(schema2_folder: Path) -> None:
    with Run(schema2_folder) as run:
        assert len(report(run).encode("utf-8")) < 2e6


@pytest.fixture
def grids_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the first of the page's sections, with the heat maps."""
    every = sections
    monkeypatch.setattr("taugrid_analysis.page.report.sections", lambda run: every(run)[:1])


@pytest.mark.usefixtures("grids_alone")
def test_grids_beyond_the_pages_size_are_named(small_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taugrid_analysis.quantities.disentanglement.section.MOST_CELLS", 6 * 13 * 13)
    with Run(small_folder) as run:
        html = report(run)
    assert "Not drawn, to keep the page small: linear." in html
    assert 'data-map="xi/standard/0"' in html and "xi/linear" not in html


def test_inner_links_lead_somewhere(html: str) -> None:
    page = Page(html)
    assert len(page.identifiers) == len(set(page.identifiers))
    for link in [*page.links, *re.findall(r"url\((#[^)]*)\)", html)]:
        if link.startswith("#"):
            assert link[1:] in page.identifiers


def test_every_pair_of_every_regime_is_drawn(run_folder: Path, html: str) -> None:
    section = html[html.index('<section id="disentanglement">') : html.index('<section id="matched">')]
    assert section.count("<image") >= 2 * (28 + 1)
    with Run(run_folder) as run:
        for regime, grid in disentanglement_figures.grids(run).items():
            figure = disentanglement_figures.triangle(run, regime, grid, 2.0, False)
            by_label = {str(axes.get_label()): axes for axes in figure.axes}
            for pair, (first, second) in enumerate(synthetic.PAIRS):
                image = by_label[f"pair-{first}-{second}"].images[0]
                np.testing.assert_array_equal(np.asarray(image.get_array()), grid["error"][pair].T)
                assert image.get_clim() == (0, 2.0)
                box = by_label[f"pair-{first}-{second}"].patches[0].get_bbox()  # type: ignore[attr-defined]
                assert box.extents.tolist() == [0, 0, 1, 1]


def test_composite_mirrors_the_two_regimes(run_folder: Path) -> None:
    with Run(run_folder) as run:
        grids = disentanglement_figures.grids(run)
        by_label = {str(axes.get_label()): axes for axes in composite.composite(run).axes}
        for pair, (first, second) in enumerate(synthetic.PAIRS):
            upper = by_label[f"standard-{first}-{second}"].images[0]
            lower = by_label[f"linear-{first}-{second}"].images[0]
            np.testing.assert_array_equal(np.asarray(upper.get_array()), grids["standard"]["error"][pair])
            np.testing.assert_array_equal(np.asarray(lower.get_array()), grids["linear"]["error"][pair].T)
            assert upper.get_clim() == lower.get_clim()


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_figure_file(small_folder: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"figure.{suffix}"
    assert cli.main(["figure", str(small_folder), "--out", str(out)]) == 0
    assert out.read_bytes()[:8].startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[suffix])


def test_facts_and_tables_are_in_the_page(html: str) -> None:
    for fact in (
        "clip_mini",
        "869,632 parameters",
        "node01, node02",
        "4 ranks",
        "0123456789abcdef0123456789abcdef01234567",
        "2026-01-02T03:04:05Z",
        "5 min 20 s",
        "taugrid run quickstart.toml",
    ):
        assert fact in html
    assert html.count("<tr>") > 28 + 8


def test_findings_are_computed(run_folder: Path) -> None:
    with Run(run_folder) as run:
        text = " ".join(sentences(run))
    single = synthetic.NORM["standard"] * (1 + 3.5 / 10)
    assert f"ξ(1,1) averages {2 * synthetic.SLOPE * single:.3f} ± " in text
    assert "linear is lower than standard in 28 of 28 pairs" in text
    assert "is lower in 0." in text  # at matched norm the regimes are equal by construction
    assert "0.800 of the local energy" in text and "its null was not measured" in text
    assert "0.5" not in text.split("local energy")[1]
    assert "one seed" in text


def test_the_share_has_a_middle_only_with_its_null(small_folder: Path, schema2_folder: Path) -> None:
    """Without a null no share is known to mean nothing: no colour is the middle, and the page says so."""
    for folder, colours, words in (
        (small_folder, style.ERROR_MAP, "This run did not measure it"),
        (schema2_folder, style.SIGNED_MAP, "0 is a control like the task itself"),
    ):
        with Run(folder) as run:
            drawn = ntk_figures.local_energy(run)
            caption = _kernel_caption(run)
        assert drawn is not None and words in caption
        assert {axes.images[0].get_cmap().name for axes in drawn.axes if axes.images} == {colours.name}


def test_nothing_is_said_of_a_point_off_the_grid(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "results.h5", alpha=np.linspace(-0.5, 0.5, 5))
    with Run(tmp_path) as run:
        text = " ".join(sentences(run))
    assert "(1,1)" not in text and "nan" not in text


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("groups", "absent"),
    [
        (["disentanglement", "ntk", "units", "model"], {"disentanglement", "matched", "ntk", "timings"}),
        (
            ["similarity", "training", "provenance", "pair_addition"],
            {"cosine", "signs", "smoothness", "training", "predictors"},
        ),
        (["addition", "single_task", "smoothness"], {"addition", "accuracy", "smoothness"}),
        (["negation", "cost"], {"negation", "cost"}),
        (["tau_jp", "continuation", "representation"], {"tau_jp", "continuation"}),
    ],
)
def test_what_was_not_measured_is_one_line(
    groups: list[str], absent: set[str], html: str, tmp_path: Path
) -> None:
    """Neither a section nor a link to one, but a last line that names the groups."""
    whole = html
    synthetic.write(tmp_path / "results.h5", leave_out=groups, tasks=synthetic.FEW_TASKS)
    with Run(tmp_path) as run:
        html = report(run)
    assert 'id="unmeasured"' not in whole
    assert anchors(whole) - anchors(html) - {"provenance"} == absent
    assert not any(f'href="#{anchor}"' in html for anchor in absent) and "Not drawn" not in html
    line = html[html.index('id="unmeasured"') : html.index("</main>")]
    assert html.index('id="tables"') < html.index('id="unmeasured"')
    lacking, _, empty = line.partition("Too little of it was measured to draw: ")
    assert {group for group in groups if f"(/{group})" in lacking} == {*groups} - NOT_DRAWN
    assert ("(/smoothness)" in empty) == ("similarity" in groups)  # the bound needs the norms as well


NOT_DRAWN = {"model", "provenance", "representation"}  # groups that have no section of their own


def anchors(html: str) -> set[str]:
    return set(re.findall(r'<section id="(\w+)">', html))


@pytest.mark.usefixtures("undrawn")
def test_grids_without_a_number_are_not_said_to_be_unmeasured(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(path, "r+") as file:
        for regime in file["disentanglement"].values():
            for name in ("error", "error_by_task"):
                regime[name][...] = np.nan
    with Run(tmp_path) as run:
        line = report(run).partition('id="unmeasured">')[2]
    assert line.startswith(
        "Too little of it was measured to draw: Disentanglement error of every pair (/disent"
    )


def test_bare_file_still_reports(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(tmp_path / "results.h5", "r+") as file:
        for name in set(file) - {"tasks", "pairs"}:
            del file[name]
    assert cli.main(["report", str(tmp_path)]) == 0
    assert cli.main(["show", str(tmp_path)]) == 0
    assert cli.main(["tables", str(tmp_path)]) == 0
    for paper in PAPERS:
        assert cli.main(["tables", str(tmp_path), "--paper", paper]) == 0
        assert cli.main(["figures", str(tmp_path), "--paper", paper]) == 0
    assert list((tmp_path / "figures").iterdir()) == []


@pytest.mark.usefixtures("grids_alone")
def test_any_regime_is_drawn(tmp_path: Path) -> None:
    names = ["standard", "attention", "tau_jp"]
    synthetic.write(
        tmp_path / "results.h5", regimes=names, alpha=np.linspace(-2, 2, 9), tasks=synthetic.FEW_TASKS
    )
    with Run(tmp_path) as run:
        html = report(run)
    assert html.count(": mean over 6 pairs") == len(names)


def test_colour_scale_is_common_and_stated(run_folder: Path, html: str) -> None:
    """Fewer than 1 % of the cells exceed 1, so the scale ends there and the page says it."""
    with Run(run_folder) as run:
        grids = disentanglement_figures.grids(run)
        top, above = disentanglement_figures.upper(grids)
    values = np.concatenate([grid["error"].to_numpy().ravel() for grid in grids.values()])
    assert above == (values > 1).mean() and top == 1.0
    assert "one colour scale, 0 to 1, for all regimes" in html


def test_names_are_escaped(tmp_path: Path) -> None:
    tasks = ("<b>&amp;", synthetic.FEW_TASKS[1])
    synthetic.write(
        tmp_path / "results.h5", tasks=tasks, model=("<script>alert(1)</script>", 1, "pretrained")
    )
    with Run(tmp_path) as run:
        html = report(run)
    assert html.count("<script") == 2 and html.count("</script") == 2  # the page's own
    assert "<script>alert" not in html and "<b>&amp;" not in html


def test_six_numbers_stand_above_the_prose(run_folder: Path, tmp_path: Path) -> None:
    with Run(run_folder) as run:
        html, row, start = report(run), run.summary.loc["standard"], run.summary.loc["pretrained"]
    head, prose = html.index('class="headline"'), html.index('class="sentences"')
    assert head < prose
    shown = re.findall(r"<dd>([^<]*)</dd><dt>", html[head:prose])
    assert len(shown) == 6
    wanted = [
        start["single"],
        row["single"],
        row["absolute"],
        row["normalized"],
        row["xi_one"],
        row["negated"],
    ]
    scale = [100, 100, 100, 100, 1, 100]
    for text, value, factor in zip(shown, wanted, scale, strict=True):
        number, _, error = text.partition(" ± ")
        assert float(number) == pytest.approx(factor * value, abs=0.06 if factor > 1 else 0.0006)
        assert float(error) > 0
    path = synthetic.write(tmp_path / "results.h5", tasks=("alone",), leave_out=("addition", "negation"))
    with Run(path) as run:
        alone = headline(run)
    assert alone is not None and [text for _, text in alone.numbers][2:] == ["–"] * 4
