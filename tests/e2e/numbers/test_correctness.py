# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""/correct: which points each model has right, a bit a point, again in plain PyTorch, and as the analysis reads it."""

import shutil
from itertools import combinations
from pathlib import Path

import h5py
import numpy as np
import pytest
import taugrid_analysis as tg
from launch import measure
from taugrid_analysis.quantities.negation import kept as negation_kept
from taugrid_analysis.recompute.oracle import Oracle
from world import TASKS, World

PAIRS = list(combinations(range(len(TASKS)), 2))
T = range(len(TASKS))
CONTROL = len(TASKS)
ROWS = {"stripes": 17, "corners": 9}  # test points of these tasks, of 24 that are asked for


@pytest.fixture(scope="module")
def uneven(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose tasks have test splits of different sizes, all but one smaller than what is asked for."""
    folder = tmp_path_factory.mktemp("uneven")
    shutil.copytree(world.folder, folder / "world")
    for name, rows in ROWS.items():
        with h5py.File(folder / "world/data" / f"{name}.h5", "r+") as file:
            for key in ("inputs", "labels"):
                values = file[f"test/{key}"][:rows]
                del file[f"test/{key}"]
                file[f"test/{key}"] = values
    measure(World(folder / "world").papers, folder / "run", "--set", 'finetune.regimes=["standard", "linear"]')
    return folder / "run"


def unpacked(results: h5py.File, path: str, place: tuple[int, ...], points: int) -> np.ndarray:
    """The bits of one model; those beyond its points are 0."""
    bits = np.unpackbits(results[f"correct/{path}"][place])
    assert not bits[points:].any()
    return bits[:points].astype(bool)


def agree(results: h5py.File, path: str, place: tuple[int, ...], right: np.ndarray) -> int:
    """How many points differ: those on the border of two classes; the accuracy is that of the bits."""
    ours = unpacked(results, path, place, len(right))
    assert results[path][place] == pytest.approx(ours.mean(), abs=1e-15)
    points = np.broadcast_to(results[f"correct/{path}"].attrs["points"], results[path].shape)
    assert points[place] == len(right)
    return int((ours != right).sum())


@pytest.mark.parametrize("regime", ["standard", "linear"])
def test_bits_are_those_of_the_models(uneven: Path, regime: str) -> None:
    oracle = Oracle(uneven)
    results = oracle.results
    wrong = []

    def check(path: str, place: tuple[int, ...], edits: dict[int, float], t: int, index: str, split: str) -> None:
        right, _ = oracle.outcome(regime, edits, t, f"{path.rsplit('/', 1)[0]}/{index}", split)
        wrong.append(agree(results, path, place, right.numpy()))

    for split, prefix in (("test", ""), ("validation", "validation_")):
        for t in T:
            check(f"single_task/{regime}/{prefix}accuracy", (t,), {t: 1.0}, t, f"{prefix}sample_index", split)
            for a, alpha in enumerate(results[f"addition/{regime}/alpha"][()]):
                everything = dict.fromkeys(T, alpha)
                check(f"addition/{regime}/{split}_accuracy", (a, t), everything, t, f"{prefix}sample_index", split)
            for a, alpha in enumerate(results[f"negation/{regime}/alpha"][()]):
                for name, b, index in (("target", t, "sample_index"), ("control", CONTROL, "control_sample_index")):
                    check(f"negation/{regime}/{split}_{name}", (t, a), {t: -alpha}, b, prefix + index, split)
        for p, pair in enumerate(PAIRS):
            for a, alpha in enumerate(results[f"pair_addition/{regime}/alpha"][()]):
                for side, t in enumerate(pair):
                    edits, index = dict.fromkeys(pair, alpha), f"{prefix}sample_index"
                    check(f"pair_addition/{regime}/{split}_accuracy", (p, a, side), edits, t, index, split)
    assert max(wrong) <= 1 and np.mean(wrong) <= 0.03 and len(wrong) > 100


def test_θ0_has_bits_also_on_the_control(uneven: Path) -> None:
    oracle = Oracle(uneven)
    for split, prefix in (("test", ""), ("validation", "validation_")):
        rows = [int(i) for i in oracle.results[f"negation/linear/{prefix}control_sample_index"]]
        x, y = oracle.sample(split, CONTROL, rows)
        z = oracle.through("pretrained", oracle.step("pretrained", {}), x, CONTROL)
        right = (oracle.logits(CONTROL, z).argmax(1) == y).numpy()
        assert agree(oracle.results, f"single_task/pretrained/control_{prefix}accuracy", (), right) <= 1


def test_the_analysis_reads_them(uneven: Path) -> None:
    """It refuses bits that disagree with their accuracies, or lie beyond their points."""
    run = tg.open(uneven)
    with h5py.File(uneven / "results.h5") as file:
        paths: list[str] = []
        file["correct"].visititems(lambda name, node: paths.append(name) if isinstance(node, h5py.Dataset) else None)
        for path in paths:
            correct = run.results.correct(path)
            assert correct is not None and correct.points.shape == file[path].shape, path
        assert len(paths) == 2 * 3 + 2 + 2 * (2 + 2 + 4 + 3)
        curve = file["negation/linear"]
        one_shot = int(np.flatnonzero(curve["alpha"][()] == 1.0)[0])
        share = curve["test_control"][:, one_shot].mean() / file["single_task/pretrained/control_accuracy"][()]
    kept = negation_kept.kept(run.results, "linear", "one_shot_")
    assert kept is not None and kept.paired and kept.points == 28  # of the control's own, more than the tasks'
    assert kept.share == pytest.approx(share) and kept.share.error > 0
    lacking = [lack.path for lack in run.missing]
    assert not [path for path in lacking if path.startswith("/correct")], lacking
