# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`--paper bases`: the paper's numbers as printed, ours beside them where they are of the same thing."""

from __future__ import annotations

import lzma
import os
import re
import shutil
from itertools import product
from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
import synthetic_bases
from bases_tables import column, tables_by_name
from sklearn.metrics import f1_score

from taugrid_analysis import cli
from taugrid_analysis.papers import figure, published
from taugrid_analysis.papers.bases.sentences import OURS
from taugrid_analysis.papers.published import PublishedTable, Row
from taugrid_analysis.quantities.addition.sums import added
from taugrid_analysis.quantities.bases import figures as bases_figures
from taugrid_analysis.quantities.bases import partitions
from taugrid_analysis.quantities.bases.ranks import ranks
from taugrid_analysis.quantities.bases.tables import bases
from taugrid_analysis.quantities.single_task.tables import single_task
from taugrid_analysis.run.opened import Run

PAPERS = os.environ.get("TAUGRID_PAPERS")
FOUR = ("MNIST", "SVHN", "EuroSAT", "RESISC45")
NUMBER = r"\d+(?:\.\d+)?(?:/\d+)?"
EVERY = [  # the 15 partitions of four, as labels numbered as they come
    row
    for row in product(range(4), repeat=4)
    if list(dict.fromkeys(row)) == sorted(set(row)) == list(range(len(set(row))))
]


def text() -> str:
    return (Path(str(PAPERS)) / "task_vector_bases.txt").read_text(encoding="utf-8")


@pytest.mark.skipif(not PAPERS, reason="TAUGRID_PAPERS names no folder of the papers' text")
@pytest.mark.parametrize("source", published.tables(("bases",)), ids=lambda source: f"T{source.number}")
def test_numbers_are_as_printed(source: PublishedTable) -> None:
    """Each row is one line between the table's caption and the next one, or the one before."""
    lines = text().splitlines()
    captions = [place for place, line in enumerate(lines) if re.match(r"Table \d+:", line)]
    of_table = [place for place in captions if lines[place].startswith(source.where)]
    assert len(of_table) == 1
    (place,) = of_table
    if source.above:
        near = lines[max([0, *(other for other in captions if other < place)]) : place]
    else:
        near = lines[place + 1 : min([len(lines), *(other for other in captions if other > place)])]
    for row in source.rows:
        (values,) = row.values.values()
        expected = [source.as_printed(column, value) for column, value in enumerate(values)]
        matches = [
            line
            for line in near
            if row.printed in line
            and re.findall(rf"(?<![\w.]){NUMBER}(?![\w.])", line.split(row.printed, 1)[1]) == expected
        ]
        assert len(matches) == 1, (row.label, expected)


@pytest.mark.skipif(not PAPERS, reason="TAUGRID_PAPERS names no folder of the papers' text")
def test_what_is_said_and_all_tables_are_there() -> None:
    whole = text()
    for statement in published.said("bases"):
        assert statement.printed in whole, statement
    printed = {int(number) for number in re.findall(r"(?:^|\n)Table (\d+):", whole)}
    assert {source.number for source in published.tables(("bases",))} == printed - {1}  # 1: an overview


def test_the_published_file_is_whole() -> None:
    for source in published.tables(("bases",)):
        for row in source.rows:
            assert set(row.doubtful) <= set(source.columns) and bool(row.doubtful) <= bool(source.doubt)
            (values,) = row.values.values()
            assert len(values) == len(source.columns)
    assert {statement.measure for statement in published.said("bases")} == set(OURS)


def cells(source: PublishedTable, row: Row) -> dict[str, float]:
    (values,) = row.values.values()
    return {name: float(value) for name, value in zip(source.columns, values, strict=True)}


@pytest.mark.parametrize("number", [10, 11, 12])
def test_printed_averages_are_of_the_printed_cells(number: int) -> None:
    """One digit apart in one cell of a table would be seen."""
    (source,) = [table for table in published.tables(("bases",)) if table.number == number]
    for row in source.rows:
        held = cells(source, row)
        every = {name: value for name, value in held.items() if "mean" not in name}
        assert len(every) == 15 and {partitions.of_letters(name) for name in every} == set(
            partitions.every(list(partitions.FOUR.values()))
        )
        two = [value for name, value in every.items() if name.count("-") == 1]
        assert held["mean, k = 2"] == pytest.approx(np.mean(two), abs=0.0051)
        assert held["mean, all k"] == pytest.approx(np.mean(list(every.values())), abs=0.0051)


@pytest.mark.parametrize(("tasks", "count"), [(0, 1), (1, 1), (3, 5), (4, 15), (8, 4140)])
def test_every_partition_once(tasks: int, count: int) -> None:
    listed = list(partitions.every([str(task) for task in range(tasks)]))
    assert len(listed) == len(set(listed)) == count
    assert all(len(set().union(*partition)) == sum(map(len, partition)) == tasks for partition in listed)


def test_labels_of_every_partition_and_their_modularity() -> None:
    rng = np.random.default_rng(5)
    cosine = rng.uniform(-1, 1, (5, 5))
    cosine = cosine + cosine.T
    labels = partitions.labelled(5)
    names = [str(task) for task in range(5)]
    assert {partitions.of_labels(row, names) for row in labels} == set(partitions.every(names))
    assert len(labels) == 52 and len(partitions.labelled(8)) == 4140
    weight = np.abs(cosine) - np.diag(np.abs(np.diag(cosine)))
    twice, degree = weight.sum(), weight.sum(0)
    for row, modularity in zip(labels, partitions.modularity(cosine, labels), strict=True):
        inside = [np.flatnonzero(row == c) for c in set(row)]
        expected = sum(weight[np.ix_(c, c)].sum() / twice - (degree[c].sum() / twice) ** 2 for c in inside)
        assert modularity == pytest.approx(expected)
    assert (partitions.modularity(np.eye(5), labels) == 0).all()


def test_the_number_of_clusters_as_the_papers_code_has_it() -> None:
    """One where all resemble each other alike, two blocks as two; signs count."""
    alike = np.full((4, 4), 0.5) + 0.5 * np.eye(4)
    assert partitions.chosen_by_code(alike) == 1
    blocks = np.kron(np.eye(2), np.full((2, 2), 0.9))
    np.fill_diagonal(blocks, 1)
    assert partitions.chosen_by_code(blocks) == 2
    signed = blocks.copy()
    signed[0, 1] = signed[1, 0] = -0.9  # D − M has the eigenvalue −1.8 alone below the others
    assert partitions.chosen_by_code(signed) != partitions.chosen_by_code(blocks)
    assert partitions.chosen_by_code(np.eye(1)) == 1


def test_ranks_of_planted_and_of_bad_partitions(tmp_path: Path) -> None:
    """Eight tasks in three blocks, with random signs; ranks by counting sets, by Newman's sum over pairs."""
    planted, bad, moved = [0, 0, 0, 1, 1, 2, 2, 2], [0, 1, 0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 1, 2, 2, 2]
    crossed, left_out = [0, 1, 2, 0, 1, 0, 1, 2], [0, 0, 1, 1, 2, 2, 3, -1]
    rng = np.random.default_rng(8)
    cosine = np.where(np.equal.outer(planted, planted), 0.6, 0.1) + rng.uniform(0, 0.1, (8, 8))
    cosine = np.triu(cosine * rng.choice([-1, 1], (8, 8)), 1)
    cosine += cosine.T + np.eye(8)
    path = synthetic.write(tmp_path / "results.h5")
    with h5py.File(path, "r+") as file:
        file["similarity/standard/cosine"][...] = cosine
        by_size = {2: [bad], 3: [planted, moved, crossed], 4: [left_out]}
        synthetic_bases.write(file, "standard", by_size, chosen=3)
    with Run(path) as run:
        table = ranks(run)
    near = np.abs(cosine) - np.eye(8)
    degree, twice = near.sum(axis=0), near.sum()

    def modularity(partition: partitions.Partition) -> float:
        inside = (product(map(int, cluster), repeat=2) for cluster in partition)
        return sum(near[i, j] - degree[i] * degree[j] / twice for both in inside for i, j in both) / twice

    names = [str(task) for task in range(8)]
    every = {partition: modularity(partition) for partition in partitions.every(names)}
    modularity_of_bad = every[partitions.of_labels(np.array(bad), names)]
    above = [partition for partition, value in every.items() if value > modularity_of_bad]
    place, alike = len(above) + 1, 1 + sum(len(partition) == 2 for partition in above)
    assert 2000 < place < 4140 and 100 < alike <= 127
    rows = {row[1]: row[2:] for row in table.rows}
    assert list(rows) == ["2", "3 *"] and "all 4,140 of 8 tasks" in table.title
    best = pytest.approx(max(every.values()))
    assert rows["3 *"] == [best, best, "1 of 4140", "1 of 966", pytest.approx(-1)]
    assert rows["2"] == [pytest.approx(modularity_of_bad), best, f"{place} of 4140", f"{alike} of 127", None]


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("default") / "results.h5"
    synthetic.write(path, tasks=synthetic.FEW_TASKS)
    with h5py.File(path, "r+") as file:
        for regime in ("standard", "linear"):
            synthetic_bases.write(file, regime)
    return path


def test_other_tasks_have_their_own_clusters_beside_the_papers(default: Path) -> None:
    with h5py.File(default) as file:
        absolute = file["bases/standard/absolute"][()]
    tables = tables_by_name(default)
    table = tables["table10"]
    ours, printed = column(table, "Mean, ours"), column(table, "Mean")
    assert (printed["MS-ER"], printed["mean, k = 2"]) == ("88.65", "85.65")
    for name, value in (("MSER", absolute[0, 0]), ("MS-ER", absolute[1, 0]), ("M-S-E-R", absolute[3, 0])):
        assert ours[name] == pytest.approx(100 * value)
    error = np.sqrt(np.sum([p * (1 - p) / 100 for p in 0.51 + np.arange(4) / 50])) / 4
    assert ours["MS-ER"].error == pytest.approx(100 * error)  # type: ignore[attr-defined]
    assert ours["MR-ES"] is None and ours["M-ESR"] is None
    assert ours["mean, k = 2"] == pytest.approx(100 * np.nanmean(absolute[1]))
    names = [column.name for column in table.columns]
    assert not any("difference" in name for name in names)
    # Each task alone is the sum of all, whatever merges clusters.
    others = column(table, "Topk, ours")
    assert others["M-S-E-R"] is not None and others["MS-ER"] is None and others["mean, all k"] is None
    assert any("this run's own tasks" in note for note in table.notes)
    # What joint training gives has one cell, and no mean over partitions.
    joint = column(table, "MTL, ours")
    assert joint["MSER"] is not None and joint["mean, all k"] is None
    assert column(tables["table4"], "MS-ER, ours")["Mean"] == ours["MS-ER"]
    assert all("ours" not in column.name for column in tables["table15"].columns)


def test_doubtful_cells_are_marked(default: Path) -> None:
    tables = tables_by_name(default)
    assert column(tables["table5"], "MS-ER")["TIES"] == "91.41 ?"
    assert column(tables["table12"], "Topk, ViT-B/32")["M-S-E-R"] == "68.04 ?"
    assert column(tables["table15"], "Task Arithmetic")["mean"] == "67.5 ?"
    marked = sum(str(cell).endswith(" ?") for table in tables.values() for row in table.rows for cell in row)
    assert (
        marked
        == sum(len(row.doubtful) for source in published.tables(("bases",)) for row in source.rows)
        == 10
    )
    for table in tables.values():
        doubtful = any(str(cell).endswith(" ?") for row in table.rows for cell in row)
        assert doubtful == any("?: doubtful" in note for note in table.notes)


def test_the_papers_own_partitions(tmp_path: Path) -> None:
    """All 15 of its four tasks, in another order than the letters'."""
    path = synthetic.write(tmp_path / "results.h5", tasks=FOUR)
    by_size = {k: [list(row) for row in EVERY if max(row) == k - 1] for k in range(1, 5)}
    with h5py.File(path, "r+") as file:
        accuracies = synthetic_bases.write(file, "standard", by_size, ("ties", "ties"))
    tables = tables_by_name(path)
    ours = column(tables["table12"], "TIES, ours")
    assert len(EVERY) == 15
    for row, value in accuracies.items():  # MNIST, SVHN, EuroSAT, RESISC45 as M, S, E, R
        clusters = {
            frozenset(x for x, label in zip("MSER", row, strict=True) if label == c) for c in set(row)
        }
        (name,) = [n for n in ours if "mean" not in n and {frozenset(c) for c in n.split("-")} == clusters]
        assert ours[name] == pytest.approx(100 * value)
    two = [value for row, value in accuracies.items() if max(row) == 1]
    assert ours["mean, k = 2"] == pytest.approx(100 * np.mean(two))
    assert ours["mean, all k"] == pytest.approx(100 * np.mean(list(accuracies.values())))
    three = [value for row, value in accuracies.items() if sorted(np.bincount(row)) == [1, 3]]
    assert column(tables["table5"], "save one, ours")["TIES"] == pytest.approx(100 * np.mean(three))
    assert any("of one not named: no difference" in note for note in tables["table12"].notes)
    with h5py.File(path, "r+") as file:  # one partition of two clusters is missing: no mean of them
        place = by_size[2].index([0, 1, 1, 1])
        file["bases/standard/labels"][1, place] = -1
    ours = column(tables_by_name(path)["table12"], "TIES, ours")
    assert ours["mean, k = 2"] is None and ours["mean, all k"] is None and ours["M-ESR"] is None
    assert ours["MS-ER"] is not None


def test_tables_of_several_architectures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs whose accuracies are 0, 3 and 9 points higher: each stands there, and their mean, 4 higher."""
    by_size = {k: [list(row) for row in EVERY if max(row) == k - 1] for k in range(1, 5)}
    runs = []
    for place, more in enumerate((0.0, 0.03, 0.09)):
        model = (f"tower-{place}", 1000 + place, "pretrained")
        (tmp_path / str(place)).mkdir()
        path = synthetic.write(tmp_path / str(place) / "results.h5", tasks=FOUR, model=model)
        with h5py.File(path, "r+") as file:
            accuracies = synthetic_bases.write(file, "standard", by_size, ("ties", "ties"))
            for name in ("accuracy", "absolute"):
                file[f"bases/standard/{name}"][...] += more
        runs.append(str(path))
    once = np.mean([value for row, value in accuracies.items() if sorted(np.bincount(row)) == [1, 3]])
    expected = [100 * (once + more) for more in (0.0, 0.03, 0.09, 0.04)]
    assert cli.main(["tables", *runs, "--paper", "bases", "--only", "table5", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [
        f"{name}{error}"
        for name in ("tower-0", "tower-1", "tower-2", "mean of these")
        for error in ("", " error")
    ]
    assert f"method,partition,published,{','.join(heads)}" in lines
    (ties,) = [line.split(",") for line in lines if line.startswith("TIES,save one")]
    assert ties[2] == "84.58" and [float(cell) for cell in ties[3::2]] == pytest.approx(expected, abs=0.005)
    assert float(ties[10]) == pytest.approx(np.mean([float(cell) for cell in ties[4:10:2]]), abs=0.005)
    assert cli.main(["tables", *runs, "--paper", "bases", "--only", "table12", "--format", "csv"]) == 0
    (head,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("method,")]
    assert all(f"published, ViT-{size}" in head for size in ("B/16", "B/32", "L/14"))
    assert cli.main(["tables", *runs, "--paper", "bases", "--only", "table11", "--format", "csv"]) == 0
    printed = capsys.readouterr().out  # published of B/32 alone, so that a mean stands for nothing
    assert "tower-2" in printed and "mean of these" not in printed and "ViT-B/32 alone" in printed
    assert cli.main(["tables", *runs, "--paper", "tau_jp"]) == 2
    assert "3 runs; expected one run, or --paper bases" in capsys.readouterr().err
    for some in (runs[:1], runs):
        assert cli.main(["tables", *some, "--paper", "bases", "--pairs"]) == 2
        assert "--pairs" in capsys.readouterr().err


def test_several_architectures_with_every_partition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stored run that has the group, under the names of two models."""
    stored = lzma.decompress((Path(__file__).parent / "recorded" / "every_group.h5.xz").read_bytes())
    paths = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "results.h5")
        paths[-1].write_bytes(stored)
        with h5py.File(paths[-1], "r+") as file:
            assert "every_partition" in file
            file["model"].attrs["name"] = name
    assert cli.main(["tables", *map(str, paths), "--paper", "bases"]) == 0, capsys.readouterr().err
    assert "other" in capsys.readouterr().out
    with h5py.File(paths[1], "r+") as file:
        method = next(iter(file["every_partition"]))
        regime = next(iter(file[f"every_partition/{method}"]))
        file[f"every_partition/{method}/{regime}/sample_index"][0, 0] += 1
    assert cli.main(["tables", *map(str, paths), "--paper", "bases"]) == 2
    assert "has other test points" in capsys.readouterr().err


def test_several_runs_of_one_model_or_of_other_points_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_size = {k: [list(row) for row in EVERY if max(row) == k - 1] for k in range(1, 5)}
    worlds = {"first": ("a", FOUR), "again": ("a", FOUR), "other": ("b", FOUR), "tasks": ("c", FOUR[::-1])}
    paths = {}
    for name, (model, tasks) in worlds.items():
        (tmp_path / name).mkdir()
        path = synthetic.write(tmp_path / name / "results.h5", tasks=tasks, model=(model, 1000, "pretrained"))
        with h5py.File(path, "r+") as file:
            synthetic_bases.write(file, "standard", by_size, ("ties", "ties"))
            if name == "other":
                file["bases/standard/sample_index"][0, 0] += 1000
        paths[name] = str(path)
    refusals = {"first": "has the model of", "again": "has the model of", "tasks": "has other tasks than"}
    for name, problem in (refusals | {"other": "has other test points"}).items():
        assert cli.main(["tables", paths["first"], paths[name], "--paper", "bases"]) == 2
        error = capsys.readouterr().err
        assert problem in error and error.count("\n") == 1


@pytest.mark.parametrize(("measured", "shown"), [((2, 3, 4, 6), (3, 6)), ((2, 3), (2, 3)), ((2, 6), (2, 6))])
def test_figure_7_has_the_papers_numbers_of_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: tuple[int, ...], shown: tuple[int, ...]
) -> None:
    """3 and 6 stand for them, among eight tasks; where one is missing, the largest gap's and another."""
    assert bases_figures.PAPERS_CLUSTERS == (3, 10)
    monkeypatch.setattr(bases_figures, "PAPERS_CLUSTERS", (3, 6))
    path = synthetic.write(tmp_path / "results.h5")
    labels = {k: [synthetic_bases.labels_of(8, k, 0)] for k in measured}
    with h5py.File(path, "r+") as file:
        synthetic_bases.write(file, "standard", labels, chosen=2)
    with Run(path) as run:
        drawn = bases_figures.clusters(run)
    assert drawn is not None
    titles = [axes.get_title() for axes in drawn.axes if axes.get_title()]
    assert [int(title.split(", ")[1].split()[0]) for title in titles] == list(shown)
    assert [title.endswith("by the largest gap") for title in titles] == [k == 2 for k in shown]


@pytest.mark.parametrize(
    ("name", "parameters", "differs"),
    [
        ("clip-vit-b-32-laion2b_e16", 87849216, True),
        ("clip-vit-b-32-laion2b_e16", 1234, False),
        ("openai/clip-vit-base-patch32", 87849216, False),
    ],
)
def test_norms_are_compared_with_the_named_checkpoint_alone(
    name: str, parameters: int, differs: bool, tmp_path: Path
) -> None:
    tasks = (*synthetic.PAPER_TASKS[:7], "stars")
    path = synthetic.write(tmp_path / "results.h5", tasks=tasks, model=(name, parameters, "pretrained"))
    table = tables_by_name(path)["table9"]
    assert ("norm, difference" in [column.name for column in table.columns]) == differs
    ours = column(table, "norm, ours")
    assert ours["Cars"] == pytest.approx(2.0) and ours["DTD"] == pytest.approx(2.2)
    assert ours["stars"] == pytest.approx(3.4) and ours["SVHN"] is None
    assert column(table, "ratio %, ours")["Cars"] == pytest.approx(5.0)
    assert column(table, "norm, OpenCLIP ViT-B/32 laion2b_s34b_b79k")["SVHN"] == "2.76"
    if differs:
        assert column(table, "norm, difference")["Cars"] == pytest.approx(2.0 - 2.52)


def test_a_task_forgotten_by_each_method(tmp_path: Path) -> None:
    """Table 6 of the first of four tasks: every row by the bases of its method."""
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    clusters = [[1, b, c, d] for d in (0, 1) for c in (0, 1) for b in (0, 1)]  # M, MS, ME, MSE, …
    alpha = np.array([0.0, 1.0, 2.0])
    with h5py.File(path, "r+") as file:
        for row, name in enumerate(("joint/standard", "joint/linear", "ties/standard")):
            group = file.create_group(f"partition_negation/{name}")
            group["alpha"], group["member"], group["cluster"] = (
                alpha,
                [1, 3, 0, 2],
                np.array(clusters, dtype=np.uint8),
            )
            for place, what in enumerate(("target", "control")):
                curve = 0.5 + 0.01 * row + 0.02 * np.arange(8)[:, None] + 0.1 * place - 0.1 * np.arange(3)
                group[f"test_{what}"], group[f"validation_{what}"] = curve, curve
                group[what] = curve[:, 1]
                points = 400 if place else 100
                right = np.arange(points) < np.round(points * curve[:, :, None])
                bits = file.create_dataset(
                    f"correct{group.name}/test_{what}", data=np.packbits(right, axis=-1)
                )
                bits.attrs["points"] = points
            group["chosen_alpha"], group["cosine"] = np.full(8, 1.0), np.linspace(1, 0.3, 8)
            group.attrs.update(task=synthetic.FEW_TASKS[1], control="textures", control_threshold=0.95)
        file["partition_negation/ties/standard/chosen_alpha"][1] = np.nan
    tables = tables_by_name(path)
    table = tables["table6"]
    target, control = column(table, "MS target, ours"), column(table, "MSER control, ours")
    assert [target["MTL"], target["Tangent"]] == pytest.approx([42, 43])
    assert target["TIES"] is None and target["Mean"] is None
    assert [control["MTL"], control["TIES"]] == pytest.approx([64, 66])
    assert control["MTL"].error == pytest.approx(100 * np.sqrt(0.64 * 0.36 / 400))  # type: ignore[attr-defined]
    name = synthetic.FEW_TASKS[1]
    assert any(f"M {name}, S " in note and "textures" in note for note in table.notes)
    assert column(tables["said"], "ours")["T6"] == f"standard 40.00, {name}; linear 41.00, {name}"


def test_what_is_said(default: Path) -> None:
    said = column(tables_by_name(default)["said"], "ours")
    assert "k = 2: fashion animals | mnist5k letters" in str(said["figure 7"])
    assert said["section 6.4.1"] == "2 of 4: 50.00 % saved"
    assert "best at k = 4 (56.0), chosen k = 2 (54.0)" in str(said["figure 8"])
    assert "‖τ‖ 2.00 to 2.60, ‖θ0‖ 40.0" in str(said["figure 5"])
    # λ 20 + 60, the longest vector 2.6, neighbours' cosine 0.3/e
    near = 0.3 / np.e
    assert str(said["section 6.2.2"]).startswith(f"{80 * 2.6**2 * (1 + near):.4g} with L = 80")
    assert "rank correlation of |λ_max| and mean gap +1.00" in str(said["figure 6"])


def test_every_number_of_the_paper_can_be_measured(default: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tables", str(default), "--paper", "bases"]) == 0
    assert "No experiment measures" not in capsys.readouterr().out
    assert cli.main(["tables", str(default), "--paper", "bases", "--only", "table9"]) == 0
    out = capsys.readouterr().out
    assert "Table 9" in out and "Table 10" not in out


def test_loss_gaps_of_sums(tmp_path: Path) -> None:
    """Table 3: ours at 1/T."""
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(path, "r+") as file:
        group = file["similarity/standard"]
        axis = group.create_dataset("sum_alpha", data=[0.25, 1.0])
        axis.make_scale("alpha_sum_loss_standard")
        gaps = group.create_dataset("sum_loss_gap", data=[[0.1, 2.0], [0.2, 3.0], [0.3, 4.0], [0.4, 5.0]])
        gaps.dims[1].attach_scale(axis)
    table = tables_by_name(path)["table3"]
    ours = column(table, "loss gap, ours")
    assert [ours[task] for task in synthetic.FEW_TASKS] == [0.1, 0.2, 0.3, 0.4] and ours["MNIST"] is None
    assert any("at α = 0.25" in note and "0.25 at α = 0.25, 3.50 at α = 1" in note for note in table.notes)


def test_a_run_without_any_of_it(tmp_path: Path) -> None:
    path = synthetic.write(
        tmp_path / "results.h5",
        tasks=("alone",),
        leave_out=("similarity", "addition", "smoothness", "multitask", "merging"),
    )
    tables = tables_by_name(path)
    filled = {"said": {"T6", "T7"}}
    for name, table in tables.items():
        if name not in filled:
            assert not any("ours" in column.name for column in table.columns), name
    ours = column(tables["said"], "ours")
    assert {place for place, value in ours.items() if value is not None} == filled["said"]


def test_nearest_bases_are_means_of_vectors(tmp_path: Path) -> None:
    """From cosines and norms as from the vectors themselves."""
    rng = np.random.default_rng(3)
    tasks = (*FOUR, "GTSRB", "DTD")
    path = synthetic.write(tmp_path / "results.h5", tasks=tasks)
    tau = rng.normal(size=(6, 40)) * rng.uniform(1, 3, size=(6, 1)) + rng.normal(size=40)
    norm = np.linalg.norm(tau, axis=1)
    with h5py.File(path, "r+") as file:
        file["similarity/standard/cosine"][...] = tau @ tau.T / np.outer(norm, norm)
        file["similarity/standard/norm"][...] = norm
    with Run(path) as run:
        nearest = partitions.nearest(run, "standard")
    assert [held_out.task for held_out in nearest] == ["GTSRB", "DTD"]
    for held_out, place in zip(nearest, (4, 5), strict=True):
        expected = []
        for row in EVERY:
            means = [tau[:4][np.array(row) == c].mean(axis=0) for c in set(row)]
            expected.append(max(m @ tau[place] / np.linalg.norm(m) / norm[place] for m in means))
        np.testing.assert_allclose(sorted(held_out.basis), sorted(expected), rtol=1e-9)
        singles = tau[:4] @ tau[place] / norm[:4] / norm[place]
        assert held_out.single == pytest.approx(singles.max())
        assert held_out.nearest == FOUR[int(singles.argmax())].lower()


def test_a_held_out_task_is_in_no_basis(default: Path) -> None:
    with Run(default) as run:
        nearest = partitions.nearest(run, "standard")
    assert [held_out.task for held_out in nearest] == list(synthetic.FEW_TASKS)
    assert all(
        len(held_out.basis) >= 4 and np.all(held_out.basis < 0.5) for held_out in nearest
    )  # with itself it would be more
    assert [held_out.nearest for held_out in nearest] == ["mnist5k", "fashion", "mnist5k", "animals"]


def test_a_line_a_figure(default: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = default.parent / "out"
    assert cli.main(["figures", str(default), "--paper", "bases", "--out", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"figure {number}" for number in range(1, 12)]
    drawn = {int(line.split()[1][:-1]) for line in lines if line.endswith(".png")}
    assert drawn == {3, 4, 5, 6, 7, 8, 10, 11} and "needs /early_similarity/standard" in lines[8]
    assert len(list(out.iterdir())) == len(drawn)


def test_figures_of_two_runs(default: Path, tmp_path: Path) -> None:
    path = synthetic.write(
        tmp_path / "results.h5", tasks=synthetic.FEW_TASKS, model=("other", 869632, "pretrained")
    )
    by_number = {plate.number: plate for plate in figure.of_paper("bases")}
    with Run(default) as first, Run(path) as second:
        for number in (3, 5, 6):
            picture, lacking = figure.drawn(by_number[number], [first, second])
            assert picture is not None and lacking == []
            labels = picture.axes[0].get_legend_handles_labels()[1]
            assert any("clip_mini" in label for label in labels) and any("other" in label for label in labels)
        cosine, gap = partitions.gaps(first, "standard")  # type: ignore[misc]
        picture, _ = figure.drawn(by_number[6], [first])
        assert picture is not None
        bars = [bar.get_height() for bar in picture.axes[0].patches]
        task = int(np.nanargmax(np.nanmax(cosine, axis=1)))
        np.testing.assert_allclose(bars, np.delete(gap[task], task))
        _, lacking = figure.drawn(by_number[8], [first, second])
        assert lacking == [f"{second.name} lacks /bases/standard"]


LANGUAGE = ("sst2", "cr", "trec", "babi_01", "mnli", "sst2_adv")


@pytest.fixture
def language(tmp_path: Path) -> Path:
    """Three merges of six tasks, of which four are among the paper's twelve."""
    model = ("roberta-base", 124697433, "pretrained")
    path = synthetic.write(tmp_path / "results.h5", tasks=LANGUAGE, model=model)
    with h5py.File(path, "r+") as file:
        file["model"].attrs["architecture"] = "RobertaForMaskedLM"
        for place, name in enumerate(("task_arithmetic", "localize_stitch", "mask_sharing")):
            group = file.create_group(f"merging/{name}/standard")
            group["alpha"] = [0.5, 1.0]
            test = np.stack([np.full(6, 0.3), np.linspace(0.5, 0.75, 6) + 0.01 * place])
            group["test_accuracy"], group["validation_accuracy"] = test, test
            group["accuracy"], group["coefficient"] = test[1], 1.0
            group["absolute"], group["normalized"], group["density"] = test[1].mean(), 0.9, 0.5
            group["passes"], group["bytes"] = 2.0, 2.0 * 4 * 6 * 124697433
            group["sample_index"] = np.tile(np.arange(100), (6, 1))
            if place > 0:
                group["masks"], group["mask_numbers"] = 6 - 4 * (place - 1), 9.0e7 / place
                group["mask_density"] = np.full(6, 0.109)
    return path


def test_language_tasks_stand_beside_the_printed_numbers(language: Path) -> None:
    tables = tables_by_name(language)
    for name in ("table8", "table15"):
        ours, printed = column(tables[name], "Task Arithmetic, ours"), column(tables[name], "Task Arithmetic")
        assert (printed["TREC"], printed["mean"]) == ("32.0", "67.5 ?")
        assert [ours[task] for task in ("SST-2", "CR", "TREC", "MNLI")] == pytest.approx([50, 55, 60, 70])
        assert ours["mean"] == pytest.approx(58.75) and ours["MR"] is None and ours["QQP"] is None
        error = np.sqrt(0.6 * 0.4 / 100)
        assert ours["TREC"].error == pytest.approx(100 * error)  # type: ignore[attr-defined]
        assert column(tables[name], "Mask Sharing, ours")["CR"] == pytest.approx(57)
        assert "Stitch Twice, ours" not in [heading.name for heading in tables[name].columns]
        assert any(
            "roberta-base, a RobertaForMaskedLM, without difference" in note for note in tables[name].notes
        )
    stored = [column(tables["table8"], f"{name}, ours") for name in ("Task Arithmetic", "Mask Sharing")]
    assert [stored[0][name] for name in ("masks", "density %", "GB")] == pytest.approx([6, 100, 2.992738392])
    assert [stored[1][name] for name in ("masks", "density %", "GB")] == pytest.approx([2, 10.9, 0.18])
    cosines = column(tables["table16"], "cosine, ours")
    with h5py.File(language) as file:
        expected = file["similarity/standard/cosine"][()]
    assert cosines["MNLI, SST2Adv"] == pytest.approx(expected[4, 5])
    assert cosines["MNLI, CR"] == pytest.approx(expected[4, 1])
    assert cosines["CR, SST2Adv"] == pytest.approx(expected[1, 5])


def test_mrpc_is_scored_by_f1_where_the_run_has_its_labels(tmp_path: Path) -> None:
    """Scikit-learn's f1_score of the predictions is the oracle, and a bootstrap that of the error."""
    rng = np.random.default_rng(3)
    names = ["equivalent", "not_equivalent"]
    model = ("roberta-base", 124697433, "pretrained")
    path = synthetic.write(tmp_path / "results.h5", tasks=("sst2", "mrpc"), model=model)
    labels, rows = rng.integers(0, 2, 900), np.sort(rng.permutation(900)[:400])
    said = np.where(rng.random(900) < 0.7, labels, 0)
    right = (said == labels)[rows]
    with h5py.File(path, "r+") as file:
        file["model"].attrs["architecture"] = "RobertaForMaskedLM"
        file["tasks/classes"][...] = 2
        group = file.create_group("merging/task_arithmetic/standard")
        group["alpha"] = [1.0]
        accuracy = np.array([[0.5, right.mean()]])
        group["test_accuracy"], group["validation_accuracy"] = accuracy, accuracy
        group["accuracy"], group["coefficient"] = accuracy[0], 1.0
        group["absolute"], group["normalized"], group["density"] = accuracy.mean(), 0.9, 0.5
        group["passes"], group["bytes"] = 2.0, 8.0
        group["sample_index"] = np.stack([np.arange(400), rows])
        bits = np.stack([np.arange(400) % 2 == 0, right])[None]
        where = "correct/merging/task_arithmetic/standard/test_accuracy"
        file.create_dataset(where, data=np.packbits(bits, axis=-1)).attrs["points"] = 400
    table = tables_by_name(path)["table15"]
    assert column(table, "Task Arithmetic, ours")["MRPC"] == pytest.approx(100 * right.mean())
    assert any("Of MRPC ours is an accuracy: F1 takes the labels" in note for note in table.notes)
    (tmp_path / "data").mkdir()
    with h5py.File(tmp_path / "data" / "mrpc.h5", "w") as file:
        file["class_names"], file["test/labels"] = names, labels
    expected = f1_score(labels[rows], said[rows], pos_label=0)
    table = tables_by_name(path)["table15"]
    ours = column(table, "Task Arithmetic, ours")
    assert ours["MRPC"] == pytest.approx(100 * expected) and abs(expected - right.mean()) > 0.01
    assert ours["mean"] == pytest.approx(100 * (expected + 0.5) / 2)
    drawn = rows[rng.integers(0, 400, (2000, 400))]
    spread = np.std([f1_score(labels[points], said[points], pos_label=0) for points in drawn])
    assert ours["MRPC"].error == pytest.approx(100 * spread, rel=0.08)  # type: ignore[attr-defined]
    remark = "Of MRPC ours is F1, but an accuracy of "  # the other methods' bits are not there
    assert any(remark in note and "Task Arithmetic" not in note.split(remark)[1] for note in table.notes)
    with h5py.File(path, "r+") as file:
        for name in set(file["merging"]) - {"task_arithmetic"}:
            del file["merging"][name]
    assert any("Of MRPC ours is F1." in note for note in tables_by_name(path)["table15"].notes)
    bare = tmp_path / "bare" / "results.h5"
    shutil.copytree(tmp_path / "data", bare.parent / "data")
    shutil.copy(path, bare)
    with h5py.File(bare, "r+") as file:  # labels alone do not make an F1: it takes which points were right
        del file["correct/merging/task_arithmetic/standard"]
    table = tables_by_name(bare)["table15"]
    assert column(table, "Task Arithmetic, ours")["MRPC"] == pytest.approx(100 * right.mean())
    assert any("Of MRPC ours is an accuracy: F1 takes" in note for note in table.notes)
    with h5py.File(tmp_path / "data" / "mrpc.h5", "r+") as file:
        del file["test/labels"]
        file["test/labels"] = labels[:300]
    assert cli.main(["tables", str(path), "--paper", "bases"]) == 2


def test_other_language_tasks_have_a_mean_beside_the_printed_ones(language: Path) -> None:
    others = [f"ours_{place}" for place in range(len(LANGUAGE))]
    with h5py.File(language, "r+") as file:
        file["tasks/name"][...] = others
    table = tables_by_name(language)["table8"]
    ours = column(table, "Task Arithmetic, ours")
    assert ours["mean"] == pytest.approx(62.5) and ours["SST-2"] is None and ours["masks"] == 6
    assert any("the 6 tasks of this run, none of which" in note for note in table.notes)


def test_tasks_that_do_not_beat_the_majority_vote_are_in_no_cluster(default: Path, tmp_path: Path) -> None:
    """Figures 7 and 8 of the tasks that are left, and their majority vote."""
    path = tmp_path / "results.h5"
    path.write_bytes(default.read_bytes())
    kept = [0, 1, 3]
    with h5py.File(path, "r+") as file:
        group = file["bases/standard"]
        group["labels"][:, :, 2] = -1
        group["labels"][3] = -1  # three tasks make no four clusters
        group["labels"][1, 0] = [0, 0, -1, 1]
        for name in ("accuracy", "validation_accuracy"):
            group[name][..., 2] = np.nan
            group[name][3] = np.nan
        group["absolute"][:3] = np.nanmean(group["accuracy"][:3], axis=2)
        group["absolute"][3], group["normalized"][3], group["coefficient"][3] = np.nan, np.nan, np.nan
        file["tasks/majority"] = [0.2, 0.3, 0.9, 0.4]
        file["single_task/standard/beats_majority"] = np.array([1, 1, 0, 1], dtype=np.uint8)
        start = file["single_task/pretrained/accuracy"][()]
    with Run(path) as run:
        names = [task.lower() for place, task in enumerate(run.results.tasks) if place in kept]
        scores = partitions.measured(run.results, "standard", "ties", "task_arithmetic")
        sums = added(run.results, "standard")
        assert sums is not None and scores[partitions.alone(names)] == pytest.approx(
            sums.accuracy[kept].mean()
        )
        assert partitions.merged(run.data("bases", "standard")).tolist() == [True, True, False, True]  # type: ignore[arg-type]
        by_number = {plate.number: plate for plate in figure.of_paper("bases")}
        matrix, _ = figure.drawn(by_number[7], [run])
        lines, _ = figure.drawn(by_number[8], [run])
        table = bases(run)
        notes = single_task(run).notes
    assert matrix is not None and matrix.axes[0].images[0].get_array().shape == (3, 3)  # type: ignore[union-attr]
    assert lines is not None
    levels = {line.get_label(): line.get_ydata()[0] for line in lines.axes[0].lines}  # type: ignore[index]
    assert levels["majority vote"] == pytest.approx(0.3) and levels["θ0"] == pytest.approx(start[kept].mean())
    standard = [row for row in table.rows if row[0] == "standard"]
    assert [row[1] for row in standard] == ["1", "2 *", "3"] and standard[1][2] == "fashion mnist5k | letters"
    assert any("Left out of standard" in note and note.endswith(": animals.") for note in table.notes)
    assert any("45.0 %" in note and "standard does not beat it" in note for note in notes)
    said = column(tables_by_name(path)["said"], "ours")
    assert "majority 30.0" in str(said["figure 8"]) and said["section 6.4.1"] == "2 of 3: 33.33 % saved"
