# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""report.html: one file with every figure, the numbers behind its heat maps, and the CSV of each section."""

from __future__ import annotations

from dataclasses import dataclass

import jinja2
from markupsafe import Markup

from taugrid_analysis import quantities
from taugrid_analysis.page.heading import heading
from taugrid_analysis.page.headline import headline
from taugrid_analysis.page.heat_maps import heat_maps, packed_bytes
from taugrid_analysis.page.inline import to_svg
from taugrid_analysis.page.renderings import as_csv, frame_csv
from taugrid_analysis.page.section import Part
from taugrid_analysis.page.sentences import sentences
from taugrid_analysis.page.tables import all_tables
from taugrid_analysis.quantities.disentanglement.section import drawn_grids
from taugrid_analysis.run.opened import Run

MOST_PAIRS = 400  # rows of the frame of pairs for which every pair has its line in a table


@dataclass(frozen=True)
class Section:
    """A heading, sentences, pictures.

    csv: names of files; those that begin with `map:` are made on the page, the others are packed into it.
    """

    anchor: str
    title: str
    caption: str
    pictures: list[Markup]
    csv: dict[str, str]


ORDER = (  # of the sections; those that are not named come last
    *("disentanglement", "matched", "addition", "merging", "subsets", "negation", "accuracy", "cosine"),
    *("signs", "tau_jp", "predictors", "linearity", "continuation", "smoothness", "ntk", "training"),
    *("cost", "timings"),
)


def sections(run: Run) -> list[Part]:
    """What every quantity has to show of this run, in the order in which one reads it."""
    parts = {
        part.anchor: part for _, module in quantities.modules("section") for part in module.sections(run)
    }
    return [parts[name] for name in [*ORDER, *sorted(set(parts) - set(ORDER))]]


def report(run: Run) -> str:
    """The page; refers to nothing outside itself."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("taugrid_analysis.page"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}  # regimes keep their order
    sheets_of: dict[str, str] = {}  # name: CSV
    parts = sections(run)
    shown = [_section(part, sheets_of) for part in parts if part.drawn]
    tables = all_tables(run, by_pair=len(run.pairs) <= MOST_PAIRS)
    for place, table in enumerate(tables):
        sheets_of[f"table:{place}"] = as_csv(table)
    return environment.get_template("report.html.j2").render(
        title=f"taugrid: {run.name}",
        heading=heading(run),
        headline=headline(run),
        sentences=sentences(run),
        sections=shown,
        tables=tables,
        provenance=run.results.provenance(),
        unmeasured=_unmeasured(run, parts),
        data={
            "maps": heat_maps(run, drawn_grids(run)),
            "csv": {name: packed_bytes(text.encode("utf-8")) for name, text in sheets_of.items()},
        },
    )


def _section(part: Part, sheets_of: dict[str, str]) -> Section:
    """sheets_of: where the section's CSV files are added."""
    svg = [Markup(to_svg(picture, f"{part.anchor}{index}")) for index, picture in enumerate(part.drawn)]
    links = {}
    for name, sheet in part.files.items():
        links[name] = f"map:{sheet}" if isinstance(sheet, str) else name
        if not isinstance(sheet, str):
            sheets_of[name] = frame_csv(sheet())
    return Section(part.anchor, part.title, part.caption, svg, links)


def _unmeasured(run: Run, parts: list[Part]) -> str:
    """The page's last line: what has no section, because the run lacks the group or its numbers."""
    lacking: list[str] = []
    empty: list[str] = []
    for part in parts:
        if not part.drawn:
            (empty if run.results.has(part.group) else lacking).append(f"{part.title} (/{part.group})")
    phrases = (("This run did not measure", lacking), ("Too little of it was measured to draw", empty))
    return " ".join(f"{said}: {'; '.join(names)}." for said, names in phrases if names)
