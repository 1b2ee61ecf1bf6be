# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Numbers in the tables are those in the file, in every format."""

from __future__ import annotations

import csv
import io
import itertools
from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
import synthetic_edits
import xarray as xr

from taugrid_analysis import cli
from taugrid_analysis.numbers import means
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.cells import largest_tried
from taugrid_analysis.page.renderings import as_csv, as_markdown, as_text, for_terminal
from taugrid_analysis.page.table import Column, Table
from taugrid_analysis.page.tables import all_tables
from taugrid_analysis.quantities.merging.tables import merging
from taugrid_analysis.quantities.similarity import figures as similarity_figures
from taugrid_analysis.quantities.similarity import tables as similarity_tables
from taugrid_analysis.run.opened import Run


def printed(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert cli.main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def rows(text: str) -> list[dict[str, str]]:
    return list(
        csv.DictReader(io.StringIO("".join(line for line in text.splitlines(True) if line[0] != "#")))
    )


def only(capsys: pytest.CaptureFixture[str], run: Path, name: str) -> list[dict[str, str]]:
    return rows(printed(capsys, "tables", run, "--format", "csv", "--only", name))


def test_addition(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_regime = {row["regime"]: row for row in only(capsys, run_folder, "addition")}
    assert list(by_regime) == ["pretrained", "standard", "linear"]
    with h5py.File(run_folder / "results.h5") as file:
        for regime in ("standard", "linear"):
            group = file[f"addition/{regime}"]
            assert float(by_regime[regime]["alpha"]) == group["chosen_alpha"][()]
            for name in ("absolute", "normalized", "one_shot_absolute", "one_shot_normalized"):
                assert float(by_regime[regime][name]) == group[name][()]
        start = file["single_task/pretrained/accuracy"][()].mean()
    assert float(by_regime["pretrained"]["absolute"]) == pytest.approx(start, rel=1e-15)


def test_single_task(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed_rows = only(capsys, run_folder, "single_task")
    assert [row["task"] for row in printed_rows] == [*synthetic.TASKS, "mean"]
    with h5py.File(run_folder / "results.h5") as file:
        for regime in ("pretrained", "standard", "linear"):
            stored = file[f"single_task/{regime}/accuracy"][()]
            assert [float(row[regime]) for row in printed_rows[:-1]] == stored.tolist()


def test_xi(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = {name: synthetic.norms(name) for name in ("standard", "linear")}
    for row in only(capsys, run_folder, "disentanglement"):
        norm = size[row["regime"]]
        sums = np.array([norm[i] + norm[j] for i, j in synthetic.PAIRS])
        assert float(row["ξ(1,1)"]) == pytest.approx(synthetic.SLOPE * sums.mean())
        assert float(row["ξ(0.3,0.3)"]) == pytest.approx(0.3 * synthetic.SLOPE * sums.mean())
        assert float(row["worst pair at (1,1)"]) == pytest.approx(synthetic.SLOPE * sums.max())
        assert row["which"] == "emoji + clipart"


def test_smoothness_and_vectors(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spectrum, vectors = only(capsys, run_folder, "smoothness"), only(capsys, run_folder, "similarity")
    with h5py.File(run_folder / "results.h5") as file:
        for column in ("lambda_max", "residual"):
            stored = np.concatenate(
                [file[f"smoothness/{name}/{column}"][()] for name in ("standard", "linear")]
            )
            assert [float(row[column]) for row in spectrum] == stored.tolist()
        stored = np.concatenate([file[f"similarity/{name}/norm"][()] for name in ("standard", "linear")])
        assert [float(row["norm"]) for row in vectors] == stored.tolist()


def test_signs_and_masks(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed_rows = only(capsys, run_folder, "sign_conflict")
    with h5py.File(run_folder / "results.h5") as file:
        upper = np.triu_indices(len(synthetic.TASKS), 1)
        for row in printed_rows:
            group = file[f"similarity/{row['regime']}"]
            conflict, overlap = group["sign_conflict"][()][upper], group["mask_overlap"][()][upper]
            assert float(row["sign conflict"]) == pytest.approx(conflict.mean())
            assert float(row["mask overlap"]) == pytest.approx(overlap.mean())
            assert float(row["by chance"]) == pytest.approx(0.2 / 1.8)  # d/(2 − d)
            assert float(row["corr. with cosine"]) == pytest.approx(1)
    assert [row["regime"] for row in printed_rows] == ["standard", "linear"]


def test_choices_and_costs_of_merges(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    merged, chosen = (only(capsys, run_folder, name) for name in ("merging", "choices"))
    assert [row["method"] for row in merged][:3] == list(synthetic_edits.MERGES)
    for place, row in enumerate(merged[:3]):
        assert float(row["MB read"]) == 1e-6 * (place + 1) * synthetic_edits.MERGE_BYTES
        assert float(row["seconds"]) == 0.5 * (place + 1) and float(row["inputs"]) == 0
    assert [row["choice"] for row in chosen] == ["ties", "ties_sum"] * 2
    with h5py.File(run_folder / "results.h5") as file:
        single = file["single_task/standard/accuracy"][()].mean()
    assert float(chosen[0]["range"]) == pytest.approx(0.05 * single)
    assert float(chosen[1]["− first"]) == pytest.approx(0.05 * single) and chosen[1]["range"] == ""


def test_choices_at_the_end_of_what_was_tried(run_folder: Path) -> None:
    """The synthetic merges have 1 and 2, and choose 2."""
    note = next(note for note in merging(Run(run_folder)).notes if note.startswith("The largest α"))
    assert all(
        f"{name} {regime}" in note for name in synthetic_edits.MERGES for regime in ("standard", "linear")
    )
    tried, single = xr.DataArray([0.5, 1.0], dims="alpha"), xr.DataArray([1.0], dims="alpha")
    within, at_end = (xr.Dataset({"alpha": tried, "coefficient": alpha}) for alpha in (0.5, 1.0))
    several = xr.Dataset({"alpha": tried, "coefficient": ("set", [0.5, 1.0, np.nan])})
    alone = xr.Dataset({"alpha": single, "coefficient": 1.0})
    assert largest_tried({"a": within, "b": alone}) == []
    assert largest_tried({"a": within, "b": at_end, "c": several}) == [
        "The largest α that was tried was chosen, of b, c (1 of 2)."
    ]


def test_every_pair(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    printed_rows = only(capsys, run_folder, "pairs")
    assert len(printed_rows) == 28 and printed_rows[0]["pair"] == "fashion + mnist5k"
    with h5py.File(run_folder / "results.h5") as file:
        error = file["disentanglement/standard/error"][()]
    place = 8  # α = 1 on [−3, 3] in steps of ½
    np.testing.assert_allclose(
        [float(row["standard ξ(1,1)"]) for row in printed_rows], error[:, place, place], rtol=1e-14
    )


def test_text_shows_percent(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "tables", run_folder)
    with h5py.File(run_folder / "results.h5") as file:
        shown = f"{100 * file['addition/standard/absolute'][()]:.1f}"
    line = next(line for line in text.splitlines() if line.startswith("  standard"))
    assert shown in line.split()


def test_columns_are_aligned() -> None:
    table = Table(
        "a", "Title", [Column("name"), Column("ξ", 2)], [["long name", 1.5], ["b", None], ["c", 12.25]]
    )
    lines = as_text(table).splitlines()
    assert lines[0] == "Title"
    assert {len(line) for line in lines[1:]} == {len(lines[1])}
    assert lines[3].endswith(" 1.50") and lines[5].endswith("12.25")
    assert "| long name |  1.50 |" in as_markdown(table)


def test_errors_stand_beside_their_numbers() -> None:
    columns = [Column("a"), Column("accuracy", 1, percent=True)]
    rows = [["x", Measured(0.7151, 0.0052)], ["y", 0.5], ["z", Measured(0.9, float("nan"))]]
    table = Table("t", "Title", columns, rows)
    assert [row[1] for row in table.shown()] == ["71.5 ± 0.5", "50.0", "90.0"]
    assert table.numeric() == [False, True]
    read_back = list(csv.reader(io.StringIO(as_csv(table))))[1:]
    assert read_back[0] == ["a", "accuracy", "accuracy error"]
    assert [row[1:] for row in read_back[1:]] == [["0.7151", "0.0052"], ["0.5", ""], ["0.9", ""]]
    assert "71.5 ± 0.5" in as_markdown(table)
    assert columns[1].show(Measured(0.9, 0.00002)) == "90.0 ± 0.002"  # never "± 0.0"


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (39.551, 0.9871, "39.55 ± 0.99"),
        (56.689, 1.035, "56.7 ± 1.0"),
        (8.4961, 0.6002, "8.50 ± 0.60"),
        (78.3674, 0.004, "78.37 ± 0.004"),  # no more of the value than the column's four digits
        (1234.56, 250.0, "1235 ± 250"),
        (0.0, 0.02, "0.000 ± 0.020"),
        (71.4, float("nan"), "71.40"),
    ],
)
def test_a_significant_number_shows_two_digits_of_its_error(value: float, error: float, shown: str) -> None:
    assert Column("ours", 4, significant=True).show(Measured(value, error)) == shown


def test_show_fits_one_screen(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "show", run_folder).splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert any("clip_mini" in line for line in lines)
    assert f"tasks     8: {' '.join(synthetic.TASKS)}" in lines
    assert "regimes   standard, linear; seed 1" in lines
    assert any("Standard error" in line for line in lines)


def test_show_fits_with_the_default_grid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path / "results.h5", alpha=np.linspace(-2, 2, 9))
    lines = printed(capsys, "show", tmp_path).splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80


@pytest.mark.parametrize("start", ["pretrained", "random"])
def test_show_names_the_start(start: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = synthetic.write(tmp_path / "results.h5", model=("clip_mini", 869632, start))
    zero_shot = f"{np.mean(synthetic.ZERO_SHOT):.3f}"
    rows = [line.split() for line in printed(capsys, "show", tmp_path).splitlines()]
    first = [row[:2] for row in rows if row and row[0] in ("pretrained", "random", "standard")]
    assert first[0] == [start, zero_shot] and first[1][0] == "standard"
    with h5py.File(path, "r+") as file:
        del file[f"single_task/{start}"]
    rows = [line.split() for line in printed(capsys, "show", tmp_path).splitlines()]
    assert not any(row[0] in ("pretrained", "random") for row in rows if row)


TABLES = {  # table: the groups without which it is not there
    "addition": {"addition"},
    "sensitivity": {"addition"},
    "merging": {"merging"},
    "choices": {"merging"},
    "subsets": {"subsets"},
    "differences": {"addition", "single_task"},
    "lacking": set(),
    "bound": {"smoothness", "similarity"},
    "published": {"addition"},
    "pair_addition": {"pair_addition"},
    "predictors": set(),
    "merge_predictors": {"pair_addition"},
    "multitask": {"multitask"},
    "negation": {"negation"},
    "negation_intervals": {"negation", "single_task"},
    "single_task": {"single_task"},
    "advantage": {"single_task"},
    "kernel_behaviour": {"single_task"},
    "similarity": {"similarity"},
    "sign_conflict": {"similarity"},
    "tau_jp": {"tau_jp"},
    "disentanglement": {"disentanglement"},
    "representation": {"representation"},
    "linearity": {"linearity"},
    "transitivity": {"linearity"},
    "layer_edits": set(),
    "smoothness": {"smoothness"},
    "ntk": {"ntk"},
    "ntk_spectrum": {"ntk"},
    "continuation": {"continuation"},
    "cost": {"cost"},
}


@pytest.mark.parametrize("group", sorted(set().union(*TABLES.values())))
def test_absent_group_costs_its_own_tables_only(
    group: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    synthetic.write(
        tmp_path / "results.h5",
        leave_out=[group],
        tasks=synthetic.FEW_TASKS,
        regimes=("standard", "posthoc", "linear"),
    )
    with Run(tmp_path) as run:
        names = {table.name for table in all_tables(run)}
    assert names == {name for name, needs in TABLES.items() if group not in needs}
    assert "differences" not in names or group not in ("addition", "single_task")
    printed(capsys, "show", tmp_path)


def test_absent_regime_costs_its_own_rows_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = [
        "pair_addition/linear",
        "negation/standard",
        "cost/linear",
        "tau_jp/linear",
        "multitask/multitask",
    ]
    synthetic.write(tmp_path / "results.h5", leave_out=gone, tasks=synthetic.FEW_TASKS)
    with Run(tmp_path) as run:
        tables = {table.name: table for table in all_tables(run)}
    for name, regimes in {
        "pair_addition": {"standard"},
        "negation": {"pretrained", "linear"},
        "cost": {"standard"},
        "predictors": {"standard", "linear"},  # of linear the loss gap is left
    }.items():
        assert {row[0] for row in tables[name].rows} == regimes
    assert "tau_jp" not in tables
    assert [row[0] for row in tables["multitask"].rows] == [
        "multitask_linear",
        "sum, standard",
        "sum, linear",
    ]


def test_show_fits_a_dozen_regimes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path / "results.h5", regimes=synthetic.EVERY)
    lines = printed(capsys, "show", tmp_path).splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    heads = next(line.split() for line in lines if line.split()[:1] == ["regime"])
    assert {"single", "added", "pairs", "negated", "τJp"} <= set(heads)


def test_natural_groups(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Means within and across groups, clusters against them, and the map of the tasks in their order."""
    folder = synthetic.write(tmp_path / "results.h5")
    named = ["a", "b", "a", "b", "b", "", "", "a"]
    with h5py.File(folder, "r+") as file:
        tasks = len(file["tasks/name"])
        kinds = np.array(named[:tasks])
        file["tasks/group"] = np.array(named[:tasks], dtype=h5py.string_dtype())
        regime = next(iter(file["similarity"]))
        rng = np.random.default_rng(0)
        noise = rng.uniform(-0.02, 0.02, (tasks, tasks))
        cosine = np.where(kinds[:, None] == kinds[None, :], 0.3, 0.0) + noise + noise.T
        np.fill_diagonal(cosine, 1)
        file[f"similarity/{regime}/cosine"][...] = cosine
    by_group = {row["group"]: row for row in only(capsys, folder, "groups") if row["regime"] == regime}
    in_group = kinds == "a"
    inside = cosine[np.ix_(in_group, in_group)][np.triu_indices(in_group.sum(), 1)].mean()
    assert float(by_group["a"]["within"]) == pytest.approx(inside)
    assert float(by_group["a"]["to other groups"]) == pytest.approx(
        cosine[np.ix_(in_group, ~in_group)].mean()
    )
    assert int(by_group["none"]["tasks"]) == (kinds == "").sum() and int(by_group["all"]["tasks"]) == tasks
    with Run(folder) as run:
        picture = similarity_figures.grouped(run)
        assert picture is not None
        axes = next(panel for panel in picture.axes if panel.get_title().startswith(f"{regime}:"))
        shown = [tick.get_text() for tick in axes.get_xticklabels()]
        ordered = [named[run.results.tasks.index(name)] for name in shown]
        assert sorted(shown) == sorted(run.results.tasks)
        assert sum(before != after for before, after in itertools.pairwise(ordered)) == len(set(ordered)) - 1
        colours = {kind: tick.get_color() for kind, tick in zip(ordered, axes.get_xticklabels(), strict=True)}
        assert len(set(colours.values())) == len(colours)
        assert (
            "adjusted Rand index of 1.00"
            in similarity_tables.groups(run).notes[run.results.names("similarity").index(regime)]
        )


def test_the_adjusted_rand_index() -> None:
    """The index is that of the definition by pairs, and about 0 for random labels."""
    first, second = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 2, 2])
    pairs = np.triu_indices(6, 1)
    alike = [labels[pairs[0]] == labels[pairs[1]] for labels in (first, second)]
    both, a, b, every = (alike[0] & alike[1]).sum(), alike[0].sum(), alike[1].sum(), 15
    expected = (both - a * b / every) / ((a + b) / 2 - a * b / every)
    assert means.rand_index(first, second) == pytest.approx(expected)
    assert means.rand_index(first, 1 - first) == 1
    rng = np.random.default_rng(1)
    drawn = [means.rand_index(*rng.integers(0, 4, (2, 40))) for _ in range(200)]
    assert abs(np.mean(drawn)) < 0.02


def test_a_small_p_is_never_shown_as_nothing() -> None:
    column = Column("p", 4, least=True)
    assert [column.show(value) for value in (0.0, 3e-7, 1e-4, 0.05, 1.0)] == [
        *("< 0.0001", "< 0.0001", "0.0001", "0.0500", "1.0000"),
    ]


def test_a_table_keeps_within_the_terminal() -> None:
    tasks = ", ".join(f"task{number}" for number in range(20))
    table = Table("wide", "A title", [Column("regime"), Column("tasks"), Column("value", 3)])
    table.rows = [["standard", tasks, 0.5], ["linear", "one", 0.25]]
    table.notes = ["A note " + "that goes on and on " * 10]
    assert max(map(len, as_text(table).splitlines())) > 150
    lines = for_terminal(table, 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()).count("task1") == tasks.count("task1")  # nothing is lost
    assert "0.250" in next(line for line in lines if line.startswith("  linear"))


def test_numbers_wider_than_the_terminal_name_the_format_that_has_them() -> None:
    table = Table("wide", "A title", [Column(f"column {number}", 3) for number in range(20)])
    table.rows = [[0.5] * 20]
    assert "this terminal 80: --format csv has all of it." in for_terminal(table, 80)
    assert for_terminal(table, 400) == as_text(table)
