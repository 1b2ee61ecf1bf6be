# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The commands about speed and energy: compare, check, history, roofline, scaling, energy."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import picture_format, write
from taugrid_analysis.page.renderings import RENDERERS
from taugrid_analysis.page.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEASURED = "a file of `taugrid bench --json`, a folder of several calls' files, or a run folder"
EXITS = (
    "Exit codes: 0 nothing is slower beyond noise; 1 slower, lost, wrong or implausibly fast; 2 wrong input."
)
PRINTED = "Exit codes: 0 printed, whatever it says; 2 wrong input."


def _part(text: str) -> float:
    """A tolerance: 0.05, or 5%."""
    value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= value < 1:
        raise ValueError(text)
    return value


_part.__name__ = "part (0.05 or 5%)"  # argparse names it where it refuses


def add(commands: Any) -> None:
    """To argparse's subcommands."""

    def command(name: str, summary: str, more: str = "", exits: str = EXITS) -> argparse.ArgumentParser:
        subparser: argparse.ArgumentParser = commands.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}. {more}", epilog=exits
        )
        subparser.add_argument("--format", choices=sorted(RENDERERS), default="text")
        return subparser

    def picture(subparser: argparse.ArgumentParser) -> None:
        subparser.add_argument("--out", type=Path, metavar="FILE.png", help="also a plot: png, svg or pdf")

    def clock(subparser: argparse.ArgumentParser, of: str = "") -> None:
        summary = f"{of}cpu: of all threads, for a busy machine"
        subparser.add_argument("--time", choices=("wall", "cpu"), default="wall", help=summary)

    def tolerance(subparser: argparse.ArgumentParser) -> None:
        subparser.add_argument(
            "--tolerance", type=_part, default=0.05, metavar="PART", help="of the time; default 0.05, as 5%%"
        )

    compare = command(
        "compare",
        "two measurements case by case: faster, slower, or the same within noise",
        "A case that the bench marked INVALID, or that CURRENT or a call of either side lacks, fails before"
        " any time is looked at.",
    )
    compare.add_argument("baseline", type=Path, metavar="BASELINE", help=MEASURED)
    compare.add_argument(
        "current", type=Path, metavar="CURRENT", nargs="+", help="as BASELINE; each is compared with it"
    )
    tolerance(compare)
    compare.add_argument(
        "--alpha", type=_part, default=0.05, metavar="P", help="of any false alarm, default 0.05"
    )
    compare.add_argument(
        "--common", action="store_true", help="the cases of both sides alone, where one was filtered"
    )
    clock(compare)

    check = command(
        "check", "one measurement against a file of references", "The file's form: docs/slower.md."
    )
    check.add_argument("current", type=Path, metavar="CURRENT", help=MEASURED)
    which = check.add_mutually_exclusive_group(required=True)
    which.add_argument("--references", type=Path, metavar="FILE.toml", help="judge by these")
    which.add_argument(
        "--write-references", type=Path, metavar="FILE.toml", help="make the file, or renew its values"
    )
    check.add_argument("--system", metavar="NAME", help="default: the first in the file that matches")
    check.add_argument(
        "--quantity",
        choices=("seconds", "throughput", "share_of_peak"),
        default="seconds",
        help="of new references",
    )
    for name, part in (("slower", 0.10), ("faster", 0.25)):
        check.add_argument(
            f"--{name}",
            type=_part,
            default=part,
            metavar="PART",
            help=f"of new references; default {part:g}",
        )
    clock(check, "of new references; ")

    history = command(
        "history", "calls of the bench by date: a table, and a plot of one panel a case", exits=PRINTED
    )
    history.add_argument("paths", type=Path, metavar="PATH", nargs="+", help="files, or folders of them")
    picture(history)
    tolerance(history)
    clock(history)

    roofline = command(
        "roofline",
        "what bounds each case of the bench: flops a byte and both rates, beside the machine's peaks",
        exits=PRINTED,
    )
    roofline.add_argument("bench", type=Path, metavar="FILE.json", help="of `taugrid bench --json`")
    picture(roofline)

    scaling = command(
        "scaling",
        "finished runs at several numbers of ranks: speed-up and efficiency",
        "Strong: one configuration, by config.toml, model and units. Weak: the work grew with the ranks.",
        PRINTED,
    )
    scaling.add_argument("runs", type=Path, metavar="RUN", nargs="+", help="run folders, or their results.h5")
    scaling.add_argument("--weak", action="store_true", help="the work grew with the ranks")
    picture(scaling)

    energy = command(
        "energy", "joules of a finished run: of its units by kind, and what Slurm counted", exits=PRINTED
    )
    energy.add_argument("run", type=Path, metavar="RUN", help="run folder, or its results.h5")
    energy.add_argument(
        "--sacct",
        type=Path,
        metavar="FILE",
        help="what sacct printed elsewhere, where this machine cannot ask it: docs/figures_of_merit.md",
    )


def run(options: argparse.Namespace) -> int:
    return COMMANDS[options.command](options)


def _print(options: argparse.Namespace, tables: list[Table]) -> None:
    print("\n\n".join(RENDERERS[options.format](table) for table in tables))


def _compare(options: argparse.Namespace) -> int:
    from taugrid_analysis.speed import compare, samples

    rule = compare.Rule(options.tolerance, options.alpha, options.time, options.common)
    baseline = samples.read(options.baseline)
    results = [compare.table(baseline, samples.read(path), rule) for path in options.current]
    _print(options, [table for table, _ in results])
    return int(any(failed for _, failed in results))


def _check(options: argparse.Namespace) -> int:
    from taugrid_analysis.speed import check, renewal, samples

    current = samples.read(options.current)
    if options.write_references:
        content = renewal.renew(
            options.write_references,
            current,
            options.system,
            options.quantity,
            (options.slower, options.faster),
            options.time,
        )
        write(options.write_references, content.encode("utf-8"))
        return 0
    chosen = check.system(options.references, current, options.system)
    table, failed = check.table(current, chosen)
    _print(options, [table])
    return int(failed)


def _history(options: argparse.Namespace) -> int:
    from taugrid_analysis.speed import history

    kind = picture_format(options.out) if options.out else ""
    series = history.collect(options.paths, options.time)
    if not series:
        raise InputError("holds no valid case", options.paths[0], "a measurement that is not INVALID")
    _print(options, [history.table(series, options.tolerance)])
    if kind:
        from taugrid_analysis.speed.drawings import draw_history

        _save(options.out, kind, draw_history(series, options.tolerance))
    return 0


def _roofline(options: argparse.Namespace) -> int:
    from taugrid_analysis.speed import roofline

    kind = picture_format(options.out) if options.out else ""
    roof = roofline.read(options.bench)
    _print(options, [roofline.table(roof)])
    if kind:
        from taugrid_analysis.speed.drawings import draw_roofline

        _save(options.out, kind, draw_roofline(roof))
    return 0


def _scaling(options: argparse.Namespace) -> int:
    from taugrid_analysis.speed import scaling

    kind = picture_format(options.out) if options.out else ""
    points = scaling.collect(options.runs, options.weak)
    _print(options, [scaling.table(points, options.weak)])
    if kind:
        from taugrid_analysis.speed.drawings import draw_scaling

        _save(options.out, kind, draw_scaling(points, options.weak))
    return 0


def _energy(options: argparse.Namespace) -> int:
    from taugrid_analysis.speed import energy

    _print(options, energy.tables(options.run, options.sacct))
    return 0


def _save(out: Path, kind: str, picture: Figure) -> None:
    from taugrid_analysis.page import style

    write(out, style.to_bytes(picture, kind))


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "compare": _compare,
    "check": _check,
    "history": _history,
    "roofline": _roofline,
    "scaling": _scaling,
    "energy": _energy,
}
