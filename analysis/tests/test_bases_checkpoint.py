# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The bases paper's tables that stand beside a run of its own four tasks, others and checkpoint."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
from bases_tables import column, tables_by_name

from taugrid_analysis.quantities.bases import partitions
from taugrid_analysis.quantities.bases.tables import transfer
from taugrid_analysis.quantities.every_partition.tables import every_partition
from taugrid_analysis.run.opened import Run

FOUR = ("MNIST", "SVHN", "EuroSAT", "RESISC45")
SETS = [row for row in product((0, 1), repeat=4) if any(row)]  # clusters that four tasks can make
LAION = ("clip-vit-b-32-laion2b_e16", 87849216, "pretrained")
OPENAI = ("openai/clip-vit-base-patch32", 87849216, "pretrained")


def write(path: Path, tasks: tuple[str, ...], model: tuple[str, int, str]) -> Path:
    """Every partition of the first four tasks by TIES, and two tasks outside with their nearest bases."""
    synthetic.write(path, tasks=tasks, model=model)
    labels = partitions.labelled(4)
    rng = np.random.default_rng(2)
    with h5py.File(path, "r+") as file:
        group = file.create_group("every_partition/ties/standard")
        group["member"], group["other"] = np.arange(4), np.array([4, 5])
        group["labels"], group["cluster"] = labels, np.array(SETS, dtype=np.uint8)
        group["alpha"] = [1.0]
        accuracy = np.round(rng.uniform(0.5, 0.9, (len(labels), 4)), 3)
        group["accuracy"], group["validation_accuracy"] = accuracy, accuracy[:, None]
        group["absolute"], group["normalized"] = accuracy.mean(axis=1), accuracy.mean(axis=1)
        group["coefficient"] = np.ones(len(labels))
        cosine = rng.uniform(0, 1, (2, len(SETS)))  # all of them are "found" by the threshold 0
        group["cosine"] = cosine
        nearest = np.zeros((2, len(labels)), dtype=np.int64)
        for h, (p, row) in product(range(2), enumerate(labels)):
            clusters = [SETS.index(tuple((row == c).astype(int))) for c in range(row.max() + 1)]
            nearest[h, p] = max(clusters, key=lambda c, h=h: cosine[h, c])
        group["nearest"], group["found"] = nearest, np.ones((2, len(labels)), dtype=np.uint8)
        for name in ("one_shot", "tuned", "chosen_alpha"):
            group[name] = np.round(rng.uniform(0.2, 0.6, (2, len(labels))), 3)
        group["sample_index"] = np.tile(np.arange(100), (len(tasks), 1))
        group.attrs.update(merge_out="task_arithmetic", threshold=0.0)
    return path


@pytest.mark.parametrize("tasks", [(*FOUR, "GTSRB", "DTD"), ("a", "b", "c", "d", "e", "f")])
def test_found_counts_partitions_whose_nearest_basis_holds_m_or_s(
    tasks: tuple[str, ...], tmp_path: Path
) -> None:
    """Table 13's first column, of the paper's tasks and of those that stand for them."""
    path = write(tmp_path / "results.h5", tasks, LAION)
    with h5py.File(path) as file:
        group = file["every_partition/ties/standard"]
        held = [SETS[int(c)] for c in group["nearest"][0]]
    expected = sum(1 for members in held if members[0] or members[1])
    table = tables_by_name(path)["table13"]
    assert expected < 15 and column(table, "TIES, ours")["found"] == f"{expected}/15"
    assert any("holds M or S" in note for note in table.notes)


def test_differences_from_the_checkpoint_that_the_papers_code_names(tmp_path: Path) -> None:
    """Tables 4, 6, 7, 10, 13 and 14 are of laion2b_e16; a run of it on these tasks has a difference."""
    path = write(tmp_path / "laion.h5", (*FOUR, "GTSRB", "DTD"), LAION)
    tables = tables_by_name(path)
    for name, line, group in (("table10", "MS-ER", "TIES"), ("table13", "mean", "TIES")):
        ours = column(tables[name], f"{group}, ours")[line]
        away = column(tables[name], f"{group}, difference")
        printed = column(tables[name], group)[line]
        assert away[line] == pytest.approx(float(ours) - float(printed))  # type: ignore[arg-type]
    for number in (4, 6, 7, 10, 13, 14):
        notes = tables[f"table{number}"].notes
        assert any("OpenCLIP ViT-B/32 laion2b_e16, as the paper's code says" in note for note in notes), (
            number
        )
    for name, tasks, model in (
        ("openai.h5", (*FOUR, "GTSRB", "DTD"), OPENAI),
        ("others.h5", ("a", "b", "c", "d", "e", "f"), LAION),
    ):
        for table in tables_by_name(write(tmp_path / name, tasks, model)).values():
            assert not any(
                "difference" in heading.name for heading in table.columns if table.name != "table9"
            ), name


def test_a_mean_of_three_architectures_is_called_so(tmp_path: Path) -> None:
    path = write(tmp_path / "results.h5", (*FOUR, "GTSRB", "DTD"), LAION)
    tables = tables_by_name(path)
    assert any(
        "means over three architectures; ours are of this run's one" in n for n in tables["table5"].notes
    )


def test_mrpc_is_called_an_f1() -> None:
    from taugrid_analysis.papers import published

    for source in published.tables(("bases",)):
        if source.measure == "language":
            assert "of MRPC F1" in source.caption and "eleven others' are accuracies" in source.note


def test_means_over_partitions_have_errors(tmp_path: Path) -> None:
    """Ratios' error by drawing points anew; that of tasks outside by drawing each one's points once."""
    path = write(tmp_path / "results.h5", (*FOUR, "GTSRB", "DTD"), LAION)
    with h5py.File(path) as file:
        group = file["every_partition/ties/standard"]
        accuracy, tuned = group["accuracy"][0], group["tuned"][()]
        single = file["single_task/standard/accuracy"][:4]
        counts = (file["single_task/standard/sample_index"][:4] >= 0).sum(axis=1)
        normalized = float(group["normalized"][0])
    with Run(path) as run:
        table = every_partition(run)
    rng = np.random.default_rng(1)
    again = (
        rng.binomial(100, accuracy, (20000, 4)) / 100 / (rng.binomial(counts, single, (20000, 4)) / counts)
    )
    first = table.rows[0][-1]
    assert float(first) == pytest.approx(normalized)  # type: ignore[arg-type]
    assert first.error == pytest.approx(again.mean(axis=1).std(), rel=0.05)  # type: ignore[union-attr]
    (outside,) = [row[-1] for row in table.rows if "α tuned" in str(row[1])]
    points = rng.random((4000, 2, 1, 100))  # a point is right below the accuracy, of every partition
    drawn = (points < tuned[None, :, :, None]).mean(axis=(1, 2, 3))
    assert float(outside) == pytest.approx(tuned.mean())  # type: ignore[arg-type]
    spread = float(drawn.std())  # of accuracies from 0.2 to 0.6, so that partitions are not quite alike
    assert spread < outside.error < 1.2 * spread  # type: ignore[union-attr]


def test_means_over_held_out_tasks_have_errors(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=FOUR, model=LAION)
    share = np.array([0.2, 0.5, 0.6, 0.9])
    with h5py.File(path, "r+") as file:
        group = file.create_group("basis_transfer/standard")
        group["alpha"], group["labels"] = [1.0], np.where(np.eye(4, dtype=bool), -1, 0)
        group["cosine"], group["nearest"], group["found"] = (
            np.full((4, 1), 0.3),
            np.zeros(4, int),
            np.ones(4, int),
        )
        curve = share[:, None, None]
        group["test_accuracy"], group["validation_accuracy"] = curve, curve
        for name in ("pretrained", "one_shot", "accuracy"):
            group[name] = share
        group["others"], group["chosen_alpha"] = np.full(4, np.nan), np.ones(4)
        group["sample_index"] = group["validation_sample_index"] = np.tile(np.arange(100), (4, 1))
        group.attrs.update(merge_in="linear", threshold=0.0)
    with Run(path) as run:
        mean = transfer(run).rows[-1]
    assert mean[1] == "mean" and float(mean[8]) == pytest.approx(0.55)  # type: ignore[arg-type]
    expected = np.sqrt((share * (1 - share) / 100).sum()) / 4
    assert mean[8].error == pytest.approx(expected)  # type: ignore[union-attr]
    assert np.isnan(float(mean[9]))  # type: ignore[arg-type]
