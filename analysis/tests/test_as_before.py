# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Every table, figure and report of a finished run prints what it printed before.

recorded/every_group.h5.xz is a stored run that has every group of results.h5; other worlds are made anew.
What each command said of them stands as text in recorded/before. Whoever changes a wording on purpose writes
those files again by `python tests/test_as_before.py` and looks at the difference.
"""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import re
import sys
import zlib
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import taugrid_analysis as tg
from taugrid_analysis.cli import main

HERE = Path(__file__).parent / "recorded"
PAPERS = ("tangent_space", "tau_jp", "attention_only", "bases", "cross_task_linearity")
MEASURED = ("disentanglement", "tau_jp", "ntk", "similarity", "linearity", "negation", "bases", "stitching")
FRAMES = (
    "tasks",
    "pairs",
    "layers",
    "layer_additions",
    "layer_negations",
    "layer_averages",
    "sweeps",
    "summary",
)
TOLERANCE = 1e-8  # relative, of numbers with all their digits, which libraries may round otherwise
DRAWN = 2e-5  # of what pictures show, of which six digits are kept
NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[+-]?\d+)?|nan|inf)")


def every_group(folder: Path) -> list[Path]:
    path = folder / "every_group" / "results.h5"
    path.parent.mkdir()
    path.write_bytes(lzma.decompress((HERE / "every_group.h5.xz").read_bytes()))
    return [path.parent]


def first_schema(folder: Path) -> list[Path]:
    return [_made(folder / "first_schema", tasks=synthetic.FEW_TASKS)]


def one_task(folder: Path) -> list[Path]:
    return [_made(folder / "one_task", tasks=("alone",))]


def papers_model(folder: Path) -> list[Path]:
    """The model and the tasks of the papers, so that printed numbers are judged."""
    model = ("openai/clip-vit-base-patch32", 87849216, "pretrained")
    regimes = ("standard", "posthoc", "linear", "tau_jp")
    return [
        _made(folder / "papers_model", tasks=synthetic.PAPER_TASKS, model=model, regimes=regimes, schema=2)
    ]


def two_seeds(folder: Path) -> list[Path]:
    return [
        _made(folder / f"seed_{seed}", tasks=synthetic.FEW_TASKS, schema=2, seed=seed, shift=0.01 * seed)
        for seed in (1, 2)
    ]


def _made(folder: Path, **options: Any) -> Path:
    folder.mkdir()
    synthetic.write(folder / "results.h5", alpha=np.linspace(-1.5, 1.5, 7), **options)
    return folder


Say = Callable[[list[Path]], str]
WORLDS = {
    write_runs.__name__: write_runs
    for write_runs in (every_group, first_schema, one_task, papers_model, two_seeds)
}


def said(*arguments: str | Path) -> str:
    """What a command prints, without the folders of this machine."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main([str(argument) for argument in arguments])
    text = out.getvalue() + (f"exit {code}\n" if code else "")
    return re.sub(r"\S*/(?=(?:every_group|first_schema|one_task|papers_model|seed_\d|figures)\b)", "", text)


def tables(form: str) -> Say:
    return lambda runs: said("tables", runs[0], "--pairs", "--format", form)


def papers(form: str) -> Say:
    return lambda runs: "\n".join(
        said("tables", runs[0], "--paper", name, "--format", form) for name in PAPERS
    )


def frames(runs: list[Path]) -> str:
    parts = []
    with tg.open(runs[0]) as run:
        for name in FRAMES:
            frame = getattr(run, name)
            parts.append(f"# {name}: {len(frame)} rows, {frame.index.names}")
            if len(frame) < 100:
                parts.append(frame.to_csv(float_format="%.9g"))
            else:
                parts += [f"{column}: {_numbers(frame[column].to_numpy())}" for column in frame]
    return "\n".join(parts)


def data_sets(runs: list[Path]) -> str:
    """The names and sizes of dimensions with which groups are handed out."""
    lines = []
    with tg.open(runs[0]) as run:
        for group in MEASURED:
            for name in run.results.names(group):
                data = run.data(group, name)
                if data is not None:
                    sizes = [f"{key}{dict(value.sizes)}" for key, value in sorted(data.data_vars.items())]
                    lines.append(f"{group}/{name}: {sorted(data.coords)} {'; '.join(sizes)}")
    return "\n".join(lines)


def _numbers(values: Any) -> str:
    """How many there are, their sum, and their sum with weights that tell them apart."""
    array = np.asarray(values)
    if array.dtype.kind not in "biufM":
        try:
            array = array.astype(float)
        except (TypeError, ValueError):
            return f"{array.size} texts {zlib.crc32(' '.join(map(str, array.ravel())).encode())}"
    array = np.ma.filled(np.ma.masked_invalid(array.astype(float)), np.nan).ravel()
    known = array[np.isfinite(array)]
    weight = 1 + np.arange(len(array))[np.isfinite(array)] % 7 / 3
    return f"{array.size} ({known.size}) {known.sum():.6g} {(known * weight).sum():.6g}"


def described(figure: Figure) -> Iterator[str]:
    """A line for each of a figure's axes: its words, and what is drawn in it."""
    yield f"figure {figure.get_figwidth():.4g} x {figure.get_figheight():.4g}" + _texts(figure.texts)
    for axes in figure.axes:
        words = [
            axes.get_gid(),
            axes.get_title(),
            axes.get_title("left"),
            axes.get_xlabel(),
            axes.get_ylabel(),
        ]
        kinds = f"{axes.get_xscale()} {axes.get_yscale()}"
        yield (
            "  "
            + " | ".join([*(repr(word) for word in words if word), kinds, *_drawn(axes)])
            + _texts(axes.texts)
        )


def _texts(texts: list[Any]) -> str:
    words = [text.get_text() for text in texts]
    if not words:
        return ""
    return (
        f" texts {words}"
        if len(words) < 12
        else f" {len(words)} texts {zlib.crc32(' '.join(words).encode())}"
    )


def _drawn(axes: Axes) -> Iterator[str]:
    for kind, values in (
        ("lines", [np.ravel(line.get_xydata()) for line in axes.lines]),
        ("patches", [np.ravel(patch.get_path().vertices) for patch in axes.patches]),
        ("points", [np.ravel(collection.get_offsets()) for collection in axes.collections]),
        (
            "areas",
            [np.ravel(path.vertices) for collection in axes.collections for path in collection.get_paths()],
        ),
        ("images", [np.ravel(image.get_array()) for image in axes.images]),
    ):
        if values:
            yield f"{kind} {len(values)}: {_numbers(np.concatenate(values))}"
    legend = axes.get_legend()
    if legend is not None:
        yield f"legend {[text.get_text() for text in legend.get_texts()]}"


@contextlib.contextmanager
def looked_at() -> Iterator[list[str]]:
    """Figures are described where they would be written; what is written is empty."""
    lines: list[str] = []
    was = Figure.savefig

    def describe(figure: Figure, out: Any, *_: Any, **options: Any) -> None:
        lines.extend(described(figure))
        if isinstance(out, io.StringIO):
            out.write("<svg></svg>")

    Figure.savefig = describe  # type: ignore[method-assign]
    try:
        yield lines
    finally:
        Figure.savefig = was  # type: ignore[method-assign]


def figures(runs: list[Path]) -> str:
    parts = []
    for paper in PAPERS:
        with looked_at() as lines:
            text = said("figures", runs[0], "--paper", paper, "--out", runs[0] / "figures")
        parts += [f"# {paper}", text, *lines]
    with looked_at() as lines:
        said("figure", runs[0], "--out", runs[0] / "one.svg")
    return "\n".join([*parts, "# one picture", *lines])


def report(runs: list[Path]) -> str:
    with looked_at() as lines:
        said("report", runs[0], "--out", runs[0] / "report.html")
    page = (runs[0] / "report.html").read_text(encoding="utf-8")
    page = re.sub(r"<(style|script(?! type=.application/json))[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    parts = [page]
    packed = re.search(r"<script type=.application/json.[^>]*>(.*?)</script>", page, flags=re.DOTALL)
    assert packed is not None
    data = json.loads(packed[1])
    page = page.replace(packed[1], "")
    parts[0] = re.sub(r"<table.*?</table>", _in_short, page, flags=re.DOTALL)  # they are compared as text
    for name, text in data["csv"].items():
        unpacked = zlib.decompress(b64decode(text)).decode("utf-8")
        if not name.startswith("table:"):  # those are compared as tables
            head, *rows = [line for line in unpacked.splitlines() if line[:1] != "#"]
            parts.append(f"# {name}: {head}; {len(rows)} rows")
            parts += [rows[0], rows[-1]] if rows else []
    for name, packed_map in data["maps"].items():
        plain = {
            key: value for key, value in packed_map.items() if key not in ("data", "errors", "mean_error")
        }
        kind = {"uint16": "<u2", "float32": "<f4"}[packed_map["type"]]
        values = np.frombuffer(zlib.decompress(b64decode(packed_map["data"])), dtype=kind)
        parts.append(f"# map {name}: {json.dumps(plain, ensure_ascii=False)} {_numbers(values)}")
    return "\n".join([*parts, "# figures", *lines])


def _in_short(table: re.Match[str]) -> str:
    return f"<table {table[0].count('<tr')} rows, {zlib.crc32(table[0].encode())}>"


def seeds(runs: list[Path]) -> str:
    return said("seeds", *runs) + said("seeds", *runs, "--format", "csv")


def causes(runs: list[Path]) -> str:
    text = said("causes", *runs, "--format", "csv")
    with looked_at() as lines:
        for paper in PAPERS:
            text += said("figures", *runs, "--paper", paper, "--out", runs[0] / "figures")
    return "\n".join([text, *(line for line in lines if "images 1: " not in line)])


def show(runs: list[Path]) -> str:
    return said("show", runs[0])


SAYS: dict[str, Say] = {
    "tables.txt": tables("text"),
    "tables.csv": tables("csv"),
    "papers.txt": papers("text"),
    "papers.csv": papers("csv"),
    "frames.txt": frames,
    "data_sets.txt": data_sets,
    "figures.txt": figures,
    "report.txt": report,
    "show.txt": show,
}
PLACES = [
    *(("every_group", name) for name in SAYS),
    *(
        (world, name)
        for world in ("first_schema", "one_task")
        for name in ("tables.txt", "report.txt", "show.txt")
    ),
    ("papers_model", "tables.txt"),
    ("papers_model", "papers.txt"),
    ("two_seeds", "seeds.txt"),
    ("every_group", "causes.txt"),
]
SAYS |= {"seeds.txt": seeds, "causes.txt": causes}


def compare(now: str, before: str, tolerance: float) -> None:
    """Line by line: words as they were, numbers within the tolerance."""
    mine, theirs = now.splitlines(), before.splitlines()
    for place, (line, old) in enumerate(zip(mine, theirs, strict=False)):
        if line == old:
            continue
        assert NUMBER.sub("#", line) == NUMBER.sub("#", old), f"line {place + 1}:\n{line}\nwas\n{old}"
        both = zip(NUMBER.findall(line), NUMBER.findall(old), strict=True)
        for value, was in both:
            assert float(value) == pytest.approx(float(was), rel=tolerance, abs=tolerance, nan_ok=True), (
                f"line {place + 1}: {value} was {was}\n{line}\nwas\n{old}"
            )
    assert len(mine) == len(theirs), mine[len(theirs) :] or theirs[len(mine) :]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("worlds")
    return {name: make(folder) for name, make in WORLDS.items()}


@pytest.mark.parametrize(("world", "name"), PLACES, ids=lambda argument: argument)
def test_it_prints_what_it_printed(worlds: dict[str, list[Path]], world: str, name: str) -> None:
    before = (HERE / "before" / world / name).read_text(encoding="utf-8")
    drawn = name in ("figures.txt", "report.txt", "causes.txt", "frames.txt")
    compare(SAYS[name](worlds[world]) + "\n", before, DRAWN if drawn else TOLERANCE)


def write(folder: Path) -> None:
    """Records what is said now."""
    runs = {name: make(folder) for name, make in WORLDS.items()}
    for world, name in PLACES:
        path = HERE / "before" / world / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SAYS[name](runs[world]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
    sys.exit(0)
