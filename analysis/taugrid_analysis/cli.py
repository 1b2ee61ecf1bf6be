# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The command line: what is made of a run's results; reproduction/ and speed/ have commands of their own."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import ExitStack
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import line, picture_format, write
from taugrid_analysis.page import renderings
from taugrid_analysis.page.renderings import RENDERERS
from taugrid_analysis.papers import BASES, PAPERS
from taugrid_analysis.reproduction import commands as reproduction
from taugrid_analysis.speed import commands as speed

if TYPE_CHECKING:  # pandas and xarray take a second to load: --help does without
    from taugrid_analysis.run.opened import Run

DOTS_PER_INCH = 150


class Parser(argparse.ArgumentParser):
    """argparse, whose refusals are one line of a bounded length."""

    def error(self, message: str) -> NoReturn:
        known = f"; expected what {self.prog} --help says"
        print(f"taugrid_analysis: {line(message + known)}", file=sys.stderr)
        sys.exit(2)


def parser() -> argparse.ArgumentParser:
    top = Parser(
        prog="taugrid_analysis",
        description="Tables, figures and the report of a taugrid run; comparisons of its speed.",
    )
    commands = top.add_subparsers(dest="command", required=True)

    def command(name: str, summary: str) -> argparse.ArgumentParser:
        subparser = commands.add_parser(name, help=summary, description=summary)
        subparser.add_argument("run", metavar="RUN", type=Path, help="run folder, or its results.h5")
        return subparser

    def several(name: str, summary: str) -> argparse.ArgumentParser:
        subparser = commands.add_parser(name, help=summary, description=summary)
        subparser.add_argument(
            "runs", metavar="RUN", type=Path, nargs="+", help="run folders, or their results.h5"
        )
        return subparser

    command("show", "one screen about the run")
    tables = several(
        "tables",
        "the papers' tables, with the published numbers where they apply; of several runs, with --paper"
        " bases, those that the paper has of several architectures",
    )
    tables.add_argument("--format", choices=sorted(RENDERERS), default="text")
    tables.add_argument("--pairs", action="store_true", help="also one line for every pair")
    tables.add_argument(
        "--paper", choices=PAPERS, help="every table of one paper: published, ours, difference"
    )
    tables.add_argument("--only", metavar="NAME", help="one table: addition, single_task, similarity, …")
    report = command("report", "report.html: one file; point at a cell of a heat map to read it")
    report.add_argument("--out", type=Path, help="default: report.html beside results.h5")
    figure = command("figure", "one picture of the run: all pairs, two regimes")
    figure.add_argument("--out", type=Path, required=True, metavar="FILE.png", help="png, svg or pdf")
    figures = several("figures", "every figure of one paper that runs can give, several runs in one picture")
    figures.add_argument("--paper", choices=PAPERS, required=True)
    figures.add_argument(
        "--out", type=Path, metavar="DIR", help="default: figures beside the first results.h5"
    )
    seeds = several(
        "seeds", "runs side by side: means over seeds, what spreads them, predictors, forms of the penalty"
    )
    seeds.add_argument("--format", choices=sorted(RENDERERS), default="text")
    seeds.add_argument(
        "--table",
        metavar="NAME",
        action="append",
        default=[],
        help="in their place the mean over the seeds of any table of one run, such as merging; may repeat",
    )
    causes = several(
        "causes",
        "cross-task linearity over runs from several θ0 and seeds: what makes it, and the loss barrier",
    )
    causes.add_argument("--format", choices=sorted(RENDERERS), default="text")
    papers = commands.add_parser(
        "papers",
        help="every table and figure of the papers, what measures it and what is missing",
        description="Every table and figure of the papers: what measures it, and what of it nothing does.",
    )
    papers.add_argument(
        "--format",
        choices=sorted(RENDERERS),
        default="text",
        help="markdown: what docs/papers.md ends with",
    )
    apart = commands.add_parser("differences", help="heat maps of two models, from taugrid diff --json")
    apart.add_argument("file", metavar="FILE.json", type=Path, help="what taugrid diff --json wrote")
    apart.add_argument("--out", type=Path, required=True, metavar="FILE.png", help="png, svg or pdf")
    again = command("recompute", "a sample of every number again, in plain PyTorch; exit 1: one deviates")
    many = again.add_mutually_exclusive_group()
    many.add_argument(
        "--points", type=int, metavar="N", help="numbers of each group (default: 50, as far as time allows)"
    )
    many.add_argument("--all", action="store_true", help="every number; hours where the run took minutes")
    again.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="time for all quantities, of which each has one number or more (default: as long as the run's"
        " work took, 5 or more; with --points or --all no end)",
    )
    again.add_argument("--seed", type=int, default=0, help="of the sample (default: 0)")
    again.add_argument(
        "--only",
        metavar="GROUP",
        action="append",
        default=[],
        help="this group alone, such as tau_jp; may repeat",
    )
    command(
        "verify", "every file of the run but θ0's against its digest; exit 1: one is damaged or has changed"
    )
    reproduction.add(commands)
    speed.add(commands)
    return top


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # terminals that lack a letter show its number
    try:
        if options.command in speed.COMMANDS:
            return speed.run(options)
        if options.command in reproduction.COMMANDS:
            return reproduction.run(options)
        return run(options)
    except InputError as error:
        print(f"taugrid_analysis: {line(str(error))}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe has had enough, and nobody has seen the verdict
        sys.stderr.close()
        return 128 + signal.SIGPIPE


def run(options: argparse.Namespace) -> int:
    if options.command == "recompute":
        from taugrid_analysis.recompute import command

        return command.recompute(
            options.run,
            command.Extent(options.points, options.all, options.minutes),
            options.seed,
            options.only,
        )
    if options.command == "verify":
        from taugrid_analysis.recompute.verify import verify

        return verify(options.run)
    if options.command == "differences":
        from taugrid_analysis.page import differences, style

        kind = picture_format(options.out)
        picture = differences.figure(differences.read(options.file))
        write(options.out, style.to_bytes(picture, kind, DOTS_PER_INCH))
        return 0
    if options.command == "papers":
        print_papers(options.format)
        return 0
    from taugrid_analysis.run.opened import Run

    with ExitStack() as stack:
        paths = options.runs if hasattr(options, "runs") else [options.run]
        runs = [stack.enter_context(Run(path)) for path in paths]
        if options.command == "show":
            from taugrid_analysis.page.show import show

            print(show(runs[0]))
        elif options.command == "tables":
            print_tables(options, runs)
        elif options.command == "seeds":
            print_seeds(options, runs)
        elif options.command == "causes":
            print_causes(options, runs)
        elif options.command == "report":
            from taugrid_analysis.page.report import report

            write(options.out or runs[0].path.parent / "report.html", report(runs[0]).encode("utf-8"))
        elif options.command == "figures":
            draw_paper(options.paper, options.out or runs[0].path.parent / "figures", runs)
        else:
            draw(options.out, runs[0])
    return 0


def print_papers(form: str) -> None:
    from taugrid_analysis.papers import coverage

    if form == "markdown":
        print(coverage.markdown(), end="")
    else:
        renderings.print_tables(coverage.tables(), form)


def print_tables(options: argparse.Namespace, runs: list[Run]) -> None:
    run = runs[0]
    if options.paper and options.pairs:
        raise InputError("--pairs", "tables", f"no --pairs beside --paper {options.paper}")
    if len(runs) > 1:
        from taugrid_analysis.papers.bases import architectures

        if options.paper != BASES:
            raise InputError(f"{len(runs)} runs", "tables", f"one run, or --paper {BASES}")
        tables = architectures.tables(runs)
    elif options.paper:
        from taugrid_analysis.papers.comparison import paper_tables

        tables = paper_tables(run, options.paper)
    else:
        from taugrid_analysis.page.tables import all_tables

        tables = all_tables(run, by_pair=options.pairs or options.only == "pairs")
    if options.only:
        names = list(dict.fromkeys(table.name for table in tables))
        tables = [table for table in tables if table.name == options.only]
        if not tables:
            raise InputError(f"no table {options.only}", run.path, f"one of {', '.join(names)}")
    renderings.print_tables(tables, options.format)


def print_seeds(options: argparse.Namespace, runs: list[Run]) -> None:
    from taugrid_analysis.page import over_seeds, seeds
    from taugrid_analysis.quantities.penalty.tables import penalty
    from taugrid_analysis.quantities.starts.tables import models

    if options.table:
        renderings.print_tables(over_seeds.tables(runs, options.table), options.format)
        return
    summaries = []
    for run in runs:
        some = seeds.summaries(run)
        if not some and not penalty([run]).rows:
            raise InputError("holds no task addition with its grid", run.path, "a run of all experiments")
        summaries += some
    tables = (
        models(runs),
        seeds.table(summaries),
        seeds.criteria(summaries),
        penalty(runs),
        seeds.predictor_table(runs),
    )
    renderings.print_tables([table for table in tables if table.rows], options.format)


def print_causes(options: argparse.Namespace, runs: list[Run]) -> None:
    from taugrid_analysis.quantities.causes import tables as causes
    from taugrid_analysis.quantities.causes.several_runs import settings

    known = settings(runs)
    every = (causes.linearity(known), causes.comparisons(known), causes.barrier(runs))
    tables = [table for table in every if table.rows]
    if not tables:
        raise InputError("holds neither", runs[0].path, "/linearity/standard or /barrier/standard")
    renderings.print_tables(tables, options.format)


def draw(out: Path, run: Run) -> None:
    from taugrid_analysis.page import style
    from taugrid_analysis.quantities.disentanglement.composite import composite

    kind = picture_format(out)
    write(out, style.to_bytes(composite(run), kind))


def draw_paper(paper: str, folder: Path, runs: list[Run]) -> None:
    """One line a figure: its file, or what the runs lack for it."""
    from taugrid_analysis.page import style
    from taugrid_analysis.papers import figure as paper_figures

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made ({error.strerror})", folder, "a writable folder") from error
    for figure in paper_figures.of_paper(paper):
        picture, lacking = paper_figures.drawn(figure, runs)
        if picture is None:
            print(f"figure {figure.number}: needs {', '.join(lacking) or 'numbers: all of them are missing'}")
            continue
        path = folder / f"{paper}_fig{figure.number:02d}_{figure.name}.png"
        write(path, style.to_bytes(picture, "png", DOTS_PER_INCH), f"figure {figure.number}: ")
        for lack in lacking:
            print(f"figure {figure.number}: without {lack}")
