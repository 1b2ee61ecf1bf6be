# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Every table and figure of the papers: what measures it, and what of it nothing does (coverage.toml).

docs/papers.md ends with these tables; a test compares them.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources

from taugrid_analysis.page.renderings import as_markdown
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.papers import PAPERS, published
from taugrid_analysis.reproduction import reference

FINDINGS = "findings"  # the folder beside docs/papers.md that has the recorded runs
STEPS = "paper.toml"  # what takes several runs, which `jobs/paper.sh NAME/original` goes through
MEASURED, IN_PART, MISSING, NOTHING = "measured", "in part", "missing", "nothing to measure"


@dataclass(frozen=True)
class Item:
    """A table, a figure, or another part of a paper that has numbers: what coverage.toml has of it.

    There `default` says that its `command`, or else the file's, measures it on the default tasks. One without
    `shows` is a table of published.toml and shows its caption.
    """

    place: str  # "Table 3", "Figure 12", "Appendix B"
    shows: str
    command: str  # that measures it on the default tasks; empty where none does
    own: tuple[str, ...]  # files of its own setting, below jobs/papers/NAME/original; of STEPS the command
    missing: str  # what of it no command measures
    remark: str  # what else is to be known of it, such as numbers that the paper's text lacks
    idea: bool  # it illustrates an idea: there are no numbers in it
    recorded: str  # the page and section of docs/findings that has the last recorded run

    @property
    def state(self) -> str:
        """How much of it is measured."""
        if not self.command and not self.own:
            return NOTHING if self.idea and not self.missing else MISSING
        return IN_PART if self.missing else MEASURED


def items(paper: str) -> list[Item]:
    """In the order of the file: tables, figures, what else there is."""
    path = resources.files("taugrid_analysis.papers") / paper / "coverage.toml"
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    captions = published.captions(paper)
    return [
        Item(
            entry["place"],
            entry["shows"] if "shows" in entry else captions[entry["place"]],
            entry.get("command", document["command"]) if entry.get("default") else "",
            tuple(
                f"bash jobs/paper.sh {paper}/original" if name == STEPS else name
                for name in entry.get("own", ())
            ),
            entry.get("missing", ""),
            entry.get("remark", ""),
            entry.get("idea", False),
            entry.get("recorded", ""),
        )
        for entry in document["item"]
    ]


def table(paper: str, linked: bool = False) -> Table:
    """`linked`: recorded runs are links, as docs/papers.md has them."""
    result = Table(
        f"coverage_{paper}",
        published.heading(paper),
        [
            Column("place"),
            Column("shows"),
            Column("state"),
            Column("on the default tasks"),
            Column("its own setting"),
            Column("what is missing, or to be known"),
            Column("last recorded run"),
        ],
    )
    for item in items(paper):
        recorded = item.recorded.partition("#")[0]
        code = "`{}`" if linked else "{}"
        row: list[Value] = [
            item.place,
            item.shows,
            item.state,
            code.format(item.command) if item.command else "",
            ", ".join(code.format(name) for name in item.own),
            "; ".join(filter(None, (item.missing, item.remark))),
            f"[{recorded}]({FINDINGS}/{item.recorded})" if linked and recorded else recorded,
        ]
        result.rows.append(row)
    result.notes = _recorded(paper)
    return result


def _recorded(paper: str) -> list[str]:
    """The recorded runs of the paper's job, those together that one program made on one machine and day."""
    by_origin: dict[str, list[str]] = {}
    for name in reference.of_job(paper):
        run = reference.read(name)
        how = f"{run.finished[:10]} (revision {run.revision}; {run.machine})"
        by_origin.setdefault(how, []).append(f"`{name}`")
    if not by_origin:
        return []
    compares = f"`taugrid_analysis reproduce {paper}` measures again, and compares with these recorded runs."
    return [compares, *(f"Of {how}: {', '.join(names)}." for how, names in by_origin.items())]


def tables() -> list[Table]:
    return [table(paper) for paper in PAPERS]


def markdown() -> str:
    """What docs/papers.md ends with."""
    return "\n\n".join(as_markdown(table(paper, linked=True)) for paper in PAPERS) + "\n"
