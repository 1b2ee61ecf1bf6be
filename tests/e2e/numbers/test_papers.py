# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the tangent-space papers measure, again in plain PyTorch on the same checkpoints."""

from itertools import combinations
from pathlib import Path

import h5py
import numpy as np
import pytest
from compare import differing, numbers
from launch import measure
from taugrid_analysis.recompute.oracle import Oracle
from torch.nn.functional import kl_div, log_softmax
from transformers import CLIPVisionModelWithProjection
from world import TASKS, World

REGIMES = ["standard", "linear", "posthoc", "attention", "attention_posthoc", "tau_jp", "tau_jp_strict",
           "tau_jp_incremental", "tau_jp_continue"]
PAIRS = list(combinations(range(len(TASKS)), 2))
T = range(len(TASKS))
CONTROL = len(TASKS)


@pytest.fixture(scope="module")
def oracle(papers_folder: Path) -> Oracle:
    return Oracle(papers_folder)


def close(ours: np.ndarray, expected: np.ndarray, points: int) -> None:
    """Accuracies: one picture on the border of two classes may differ, and that rarely."""
    wrong = np.abs(np.asarray(ours) - np.asarray(expected))
    assert wrong.max() <= 1.01 / points and (wrong > 1e-12).mean() <= 0.03


@pytest.mark.parametrize("regime", REGIMES)
def test_single_tasks(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"single_task/{regime}"]
    index = f"{group.name}/sample_index"
    expected = [oracle.accuracy_and_loss(regime, {t: 1.0}, t, index) for t in T]
    close(group["accuracy"][()], [e[0] for e in expected], 24)
    np.testing.assert_allclose(group["loss"], [e[1] for e in expected], rtol=1e-4)


def test_posthoc_is_the_standard_vector_in_the_linearised_model(oracle: Oracle) -> None:
    similarity = oracle.results["similarity"]
    assert (similarity["posthoc/norm"][()] == similarity["standard/norm"][()]).all()
    assert not (oracle.run / "checkpoints/posthoc").exists()
    losses = [oracle.results[f"single_task/{r}/loss"][()] for r in ("posthoc", "standard")]
    assert (np.abs(losses[0] - losses[1]) > 1e-3).all()


def test_task_vectors_of_another_run(world: World, papers_folder: Path, tmp_path: Path, oracle: Oracle) -> None:
    given = papers_folder / "checkpoints"
    settings = ('finetune.regimes=["posthoc", "linear", "attention"]', f"finetune.checkpoints={given}",
                'finetune.given=["linear", "attention"]')
    arguments = [word for setting in settings for word in ("--set", setting)]
    with h5py.File(measure(world.papers, tmp_path / "run", *arguments)) as file:
        # Nothing is trained: the folder leads to what was read.
        folders = (tmp_path / "run/checkpoints").rglob("*")
        models = [folder for folder in folders if (folder / "config.json").is_file()]
        assert len(models) == 1 + 3 * len(TASKS) and all(model.is_symlink() for model in models)
        assert "training" not in file
        for regime in ("posthoc", "linear", "attention"):
            for name in ("similarity/{}/norm", "disentanglement/{}/error", "addition/{}/absolute"):
                assert (file[name.format(regime)][()] == oracle.results[name.format(regime)][()]).all()


@pytest.mark.parametrize("regime", ["multitask", "multitask_linear"])
def test_joint_training(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"multitask/{regime}"]
    for t in T:
        right, _ = oracle.joint_outcome(regime, t, f"{group.name}/sample_index")
        close(group["accuracy"][t], float(right.double().mean()), 24)
    before = oracle.results["single_task/pretrained/accuracy"][()]
    assert group["accuracy"][()].mean() > before.mean() + 0.2


@pytest.mark.parametrize("regime", [r for r in REGIMES if r not in ("standard", "attention")])
def test_tau_jp_also_on_the_control(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"tau_jp/{regime}"]
    for a in T:
        for b in T:
            for prefix, split in (("", "test"), ("validation_", "validation")):
                x, _ = oracle.points(f"{group.name}/{prefix}sample_index", b, split)
                product = oracle.tangent(oracle.tau(regime, a), x, b)[1]
                expected = float(product.square().sum(1).mean())
                assert group[f"{prefix}value"][a, b] == pytest.approx(expected, rel=1e-4)
        for prefix, split in (("", "test"), ("validation_", "validation")):
            rows = [int(i) for i in oracle.results[f"negation/linear/{prefix}control_sample_index"]]
            x, _ = oracle.sample(split, CONTROL, rows)
            product = oracle.tangent(oracle.tau(regime, a), x, CONTROL)[1]
            assert group[f"{prefix}control"][a] == pytest.approx(float(product.square().sum(1).mean()), rel=1e-4)
    assert (group["validation_value"][()] != group["value"][()]).all()


def test_the_penalty_lowers_tau_jp(oracle: Oracle) -> None:
    def other(regime: str) -> np.ndarray:
        value = oracle.results[f"tau_jp/{regime}/value"][()]
        return value[~np.eye(len(TASKS), dtype=bool)]

    assert other("tau_jp").mean() < 0.8 * other("linear").mean()
    assert other("tau_jp_strict").mean() < other("tau_jp").mean()
    assert other("tau_jp_continue").mean() < 0.9 * other("linear").mean()


def test_the_first_task_of_an_incremental_run_has_no_others(oracle: Oracle) -> None:
    loss = oracle.results["training/linear/loss"][0]
    assert (oracle.results["training/tau_jp_incremental/penalty"][0] == 0).all()
    assert (oracle.results["training/tau_jp_incremental/penalty"][1, 1:] > 0).all()
    np.testing.assert_array_equal(oracle.results["training/tau_jp_incremental/loss"][0], loss)


@pytest.mark.parametrize("regime", ["standard", "linear"])
def test_representation_level_error(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"representation/{regime}"]
    alpha = group["alpha"][()]
    assert group.attrs["metric"] == "kl" and list(alpha) == list(oracle.results[f"disentanglement/{regime}/alpha"])
    for p, pair in enumerate(PAIRS):
        for side, t in enumerate(pair):
            x, _ = oracle.points(f"{group.name}/sample_index", t)
            for r, first in enumerate(alpha):
                for c, second in enumerate(alpha):
                    alone = oracle.through(regime, oracle.step(regime, {t: (first, second)[side]}), x, t)
                    merged = oracle.through(regime, oracle.step(regime, {pair[0]: first, pair[1]: second}), x, t)
                    ways = [(log_softmax(to, 1), log_softmax(of, 1)) for of, to in ((alone, merged), (merged, alone))]
                    both = [float(kl_div(*way, log_target=True, reduction="batchmean")) for way in ways]
                    for name, expected in (("error", both[0]), ("symmetric_error", (both[0] + both[1]) / 2)):
                        ours = group[f"{name}_by_task"][p, side, r, c]
                        assert ours == pytest.approx(expected, rel=2e-3, abs=2e-6), name
    for name in ("error", "symmetric_error"):
        np.testing.assert_allclose(group[name], group[f"{name}_by_task"][()].sum(1))
        assert group[name][()].max() > 1e-3
    assert (group["error"][()] != group["symmetric_error"][()]).any()


def test_xi_on_validation_points(world: World, tmp_path: Path) -> None:
    """Both distances, of both kinds of regime, on the points that the group says."""
    chosen = ('finetune.regimes=["standard", "linear"]', "disentanglement.split=validation",
              "disentanglement.alpha=[0.0, 1.0]")
    measure(world.papers, tmp_path / "run", *(word for setting in chosen for word in ("--set", setting)))
    oracle = Oracle(tmp_path / "run")
    for regime in ("standard", "linear"):
        group, kl = (oracle.results[f"{name}/{regime}"] for name in ("disentanglement", "representation"))
        assert group.attrs["split"] == kl.attrs["split"] == "validation"
        for p, pair in enumerate(PAIRS):
            for side, t in enumerate(pair):
                x, _ = oracle.points(f"{group.name}/sample_index", t, "validation")
                alone = oracle.through(regime, oracle.step(regime, {t: 1.0}), x, t)
                merged = oracle.through(regime, oracle.step(regime, dict.fromkeys(pair, 1.0)), x, t)
                differs = oracle.logits(t, alone).argmax(1) != oracle.logits(t, merged).argmax(1)
                ours = group["error_by_task"][p, side, 1, 1]
                assert ours == pytest.approx(float(differs.double().mean()), abs=1.01 / len(x))
                expected = kl_div(log_softmax(merged, 1), log_softmax(alone, 1), log_target=True, reduction="batchmean")
                assert kl["error_by_task"][p, side, 1, 1] == pytest.approx(float(expected), rel=2e-3, abs=2e-6)


@pytest.mark.parametrize("regime", ["standard", "tau_jp"])
def test_pair_addition(oracle: Oracle, regime: str) -> None:
    group, single = oracle.results[f"pair_addition/{regime}"], oracle.results[f"single_task/{regime}"]
    alpha = group["alpha"][()]
    one_shot = int(np.flatnonzero(alpha == 1.0)[0])
    for p, pair in enumerate(PAIRS):
        for split, index in (("test", "sample_index"), ("validation", "validation_sample_index")):
            rows = f"{group.name}/{index}"
            expected = [[oracle.accuracy_and_loss(regime, dict.fromkeys(pair, a), t, rows, split)[0] for t in pair]
                        for a in alpha]
            close(group[f"{split}_accuracy"][p], expected, 20)
        chosen = int(np.argmax((group["validation_accuracy"][p] / single["validation_accuracy"][list(pair)]).mean(1)))
        assert group["chosen_alpha"][p] == alpha[chosen]
        for row, prefix in ((chosen, ""), (one_shot, "one_shot_")):
            test = group["test_accuracy"][p, row]
            assert group[f"{prefix}absolute"][p] == pytest.approx(test.mean())
            assert group[f"{prefix}normalized"][p] == pytest.approx((test / single["accuracy"][list(pair)]).mean())


def test_points_read_part_by_part_give_the_same_numbers(world: World, tmp_path: Path) -> None:
    """Samples beyond the memory bound are: all of them, where it is of 179 bytes."""
    chosen = ('finetune.regimes=["standard", "linear"]', "finetune.steps=6", 'ntk.init=["pretrained"]')
    settings = [word for setting in chosen for word in ("--set", setting)]
    held = numbers(measure(world.papers, tmp_path / "held", *settings))
    read = numbers(measure(world.papers, tmp_path / "read", *settings, "--set", "run.memory=1e-6"))
    assert differing(held, read) == []


@pytest.mark.parametrize("regime", ["standard", "linear"])
def test_negation(oracle: Oracle, regime: str) -> None:
    group = oracle.results[f"negation/{regime}"]
    alpha = group["alpha"][()]
    assert list(alpha) == [0, 0.5, 1, 2, 3] and group.attrs["control"] == "plaids"
    zero_shot = oracle.results["single_task/pretrained/control_validation_accuracy"][()]
    for split, prefix in (("test", ""), ("validation", "validation_")):
        control = [int(i) for i in group[f"{prefix}control_sample_index"]]
        assert len(control) == {"test": 28, "validation": 20}[split]
        for t in T:
            x, y = oracle.sample(split, CONTROL, control)
            outputs = [oracle.logits(CONTROL, oracle.through(regime, oracle.step(regime, {t: -a}), x, CONTROL))
                       for a in alpha]
            close(group[f"{split}_control"][t], [float((o.argmax(1) == y).double().mean()) for o in outputs], 20)
            rows = f"{group.name}/{prefix}sample_index"
            expected = [oracle.accuracy_and_loss(regime, {t: -a}, t, rows, split)[0] for a in alpha]
            close(group[f"{split}_target"][t], expected, 20)
    for where, allowed in ((group, [0, 0.5, 1]), (group["wide"], [0.5, 2, 3])):
        for t in T:
            kept = [k for k, a in enumerate(alpha) if a in allowed
                    and group["validation_control"][t, k] >= 0.9 * zero_shot]
            if not kept:
                assert np.isnan([where[name][t] for name in ("chosen_alpha", "target", "control")]).all()
                continue
            best = min(kept, key=lambda k: (group["validation_target"][t, k], k))
            assert where["chosen_alpha"][t] == alpha[best]
            assert where["target"][t] == group["test_target"][t, best]
            assert where["control"][t] == group["test_control"][t, best]
    assert (group["chosen_alpha"][()] >= 0).all()  # 0 always keeps the control


def test_continuation(oracle: Oracle) -> None:
    group, results = oracle.results["continuation/tau_jp_continue"], oracle.results
    assert list(group["step"]) == [0, 3, 6, 7] and group.attrs["start"] == "linear"
    # It begins as the linear regime and ends as its own.
    for row, regime in ((0, "linear"), (-1, "tau_jp_continue")):
        np.testing.assert_allclose(group["tau_jp"][row], results[f"tau_jp/{regime}/value"], rtol=1e-4)
        np.testing.assert_array_equal(group["accuracy"][row], results[f"single_task/{regime}/accuracy"])
        np.testing.assert_allclose(group["normalized"][row], results[f"addition/{regime}/one_shot_normalized"][()])
        np.testing.assert_allclose(group["pair_normalized"][row],
                                   results[f"pair_addition/{regime}/one_shot_normalized"])


def test_kernel_of_a_random_start_and_its_spectrum(oracle: Oracle) -> None:
    for start in ("pretrained", "random"):
        group = oracle.results[f"ntk/{start}"]
        for t in T:
            gram = group["gram"][t, :, :, t].astype(np.float64)
            np.testing.assert_allclose(group["eigenvalues"][t], np.linalg.eigvalsh(gram)[:, ::-1],
                                       atol=1e-9 * np.abs(gram).max())
    pretrained, random = (oracle.results[f"ntk/{start}/gram"][()] for start in ("pretrained", "random"))
    assert np.linalg.norm(pretrained - random) > 0.1 * np.linalg.norm(random)


def test_cost(world: World, oracle: Oracle) -> None:
    cost = oracle.results["cost"]
    model = CLIPVisionModelWithProjection.from_pretrained(world.model)
    trained = sum(p.numel() for n, p in model.named_parameters() if "self_attn." in n and n.endswith("weight"))
    whole = sum(p.numel() for p in model.parameters())
    assert set(cost) == {r for r in [*REGIMES, "multitask", "multitask_linear"] if "posthoc" not in r}
    for regime, group in cost.items():
        expected = trained if regime == "attention" else whole
        assert group["parameters"][()] == whole and group["trainable_parameters"][()] == expected
        assert group["optimiser_memory"][()] == 8 * expected
        assert group["peak_memory"][()] > 4 * (whole + 2 * expected)
        assert 0 < group["seconds_per_step"][()] < 60
    assert cost["attention/peak_memory"][()] < cost["standard/peak_memory"][()] < cost["linear/peak_memory"][()]
    flops = {r: cost[r]["step_flops"][()] for r in ("attention", "standard", "linear", "tau_jp", "tau_jp_strict")}
    assert sorted(flops, key=lambda r: flops[r]) == list(flops)
    assert flops["linear"] / flops["standard"] == pytest.approx(5 / 3)
