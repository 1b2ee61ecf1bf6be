# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid merge against mergekit's and FusionBench's own functions, on the same tensors: what they have of the methods
that take no data, with the options of ours that are theirs."""

import ast
import contextlib
import importlib
import importlib.util
import io
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from mergekit import merge_methods as mergekit
from taugrid_analysis.quantities.merging import formulas
from taugrid_analysis.quantities.merging.formulas import flat
from test_merge import Models, W, call, close, refused, write_model
from torch import Tensor

FUSION_BENCH = Path(importlib.util.find_spec("fusion_bench").submodule_search_locations[0])


def fusion_bench(name: str) -> ModuleType:
    """One module of FusionBench's methods. The packages around it import hydra and lightning, which it does without:
    of them their folders alone are known here."""
    parents = ["fusion_bench", "method", *name.split(".")[:-1]]
    for i in range(len(parents)):
        package = sys.modules.setdefault(".".join(parents[: i + 1]), ModuleType(".".join(parents[: i + 1])))
        package.__path__ = [str(FUSION_BENCH.joinpath(*parents[1 : i + 1]))]
    return importlib.import_module(f"fusion_bench.method.{name}")


def function_of(name: str, function: str, **given: Any) -> Any:
    """One function of a module that imports the packages, alone, with what it takes from around it."""
    path = FUSION_BENCH.joinpath("method", *name.split(".")).with_suffix(".py")
    alone = [node for node in ast.parse(path.read_text()).body if getattr(node, "name", "") == function]
    scope = {"torch": torch, **given}
    exec(compile(ast.Module(alone, []), str(path), "exec"), scope)
    return scope[function]


def quietly(function: Any, *arguments: Any, **options: Any) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*arguments, **options)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("four"), 4)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("pair"), 2)


def vectors(models: Models) -> Tensor:
    return torch.tensor(models.vectors())


def tensors(models: Models) -> list[dict[str, Tensor]]:
    """Returns the task vectors' tensors, those without numbers left out."""
    return [{name: torch.tensor(x) for name, x in tau.items() if x.size} for tau in models.tau]


def numbered(models: Models) -> list[tuple[str, np.ndarray]]:
    return [(name, start) for name, start in models.base.items() if start.size]


def by_mergekit(models: Models, method: str, which: Sequence[int] | None = None, **parameters: Any) -> np.ndarray:
    """Tensor by tensor, θ0 being the first of them; those without numbers are left out."""
    merged = {}
    for name, start in numbered(models):
        base = torch.tensor(start, dtype=torch.float64)
        each = [base, *(base + torch.tensor(models.tau[t][name]) for t in which or range(models.count))]
        merged[name] = (mergekit.merge_tensors(each, method, base_index=0, parameters=parameters) - base).numpy()
    return flat(merged)


def models_by_mergekit(models: Models, method: str, **parameters: Any) -> np.ndarray:
    """Tensor by tensor, without θ0."""
    merged = {}
    for name, start in numbered(models):
        each = [torch.tensor(start + tau[name]) for tau in models.tau]
        merged[name] = mergekit.merge_tensors(each, method, parameters=parameters).numpy() - start
    return flat(merged)


def test_sums(four: Models) -> None:
    close(four.merged("task_arithmetic", "lambda = 0.3", W),
          by_mergekit(four, "task_arithmetic", **{"weight": W, "lambda": 0.3}))
    close(four.merged("task_arithmetic", "normalize = true", W),
          by_mergekit(four, "task_arithmetic", weight=W, normalize=True))
    close(four.merged("linear", "", W), models_by_mergekit(four, "linear", weight=W))


@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_ties_of_each_tensor(merge: str, four: Models) -> None:
    merged = four.merged("ties", f'density = 0.4, scope = "tensor", cut = "exact", zero_sign = "positive", '
                                 f'merge = "{merge}"', W)
    close(merged, by_mergekit(four, "ties", weight=W, density=0.4, normalize=merge == "mean"))


@pytest.mark.parametrize(("density", "gamma"), [(0.14, 0.01), (0.4, 0.1), (0.7, 0.5), (1.0, 0.1)])
def test_breadcrumbs(density: float, gamma: float, four: Models) -> None:
    """Where both shares are more than all (0.7 and 0.5), fewer of the largest go."""
    shares, theirs = f"density = {density}, gamma = {gamma}", {"weight": W, "density": density, "gamma": gamma}
    close(four.merged("breadcrumbs", shares, W), by_mergekit(four, "breadcrumbs", **theirs))
    for merge in ("sum", "mean"):
        close(four.merged("breadcrumbs_ties", f'{shares}, merge = "{merge}", zero_sign = "positive"', W),
              by_mergekit(four, "breadcrumbs_ties", normalize=merge == "mean", **theirs))


@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_ties_of_the_whole_vector(merge: str, four: Models) -> None:
    theirs = fusion_bench("ties_merging.ties_merging_utils")
    close(four.merged("ties", f'merge = "{merge}"'), quietly(theirs.ties_merging, vectors(four), 20, merge).numpy())


def test_top_k(four: Models) -> None:
    theirs = fusion_bench("ties_merging.ties_merging_utils")
    kept, _ = theirs.topk_values_mask(vectors(four), 0.05)
    close(four.merged("top_k"), kept.sum(0).numpy() / 4)
    sparsify = importlib.import_module("mergekit.sparsify")
    each = [{name: sparsify.magnitude(x, 0.3).numpy() for name, x in tau.items()} for tau in tensors(four)]
    close(four.merged("top_k", 'density = 0.3, scope = "tensor", cut = "exact"'),
          np.mean([flat(tau) for tau in each], 0))


@pytest.mark.parametrize("method", ["consensus_ta", "consensus_ties"])
def test_consensus(method: str, four: Models) -> None:
    tau, start = vectors(four), torch.tensor(flat(four.base), dtype=torch.float64)
    total = tau.sum(0)
    if method == "consensus_ties":
        total = quietly(fusion_bench("ties_merging.ties_merging_utils").ties_merging, tau, 20, "sum")
    masks = quietly(fusion_bench("tall_mask.utils").generate_task_masks, tau, start + tau, start, total, 0.4)
    assert 0.05 < masks.double().mean() < 0.95
    expected = total * (masks.sum(0) >= 2)
    close(four.merged(method), expected.numpy())


@pytest.mark.parametrize("t", [0.3, 0.5])
def test_slerp(t: float, pair: Models) -> None:
    theirs = fusion_bench("slerp.slerp_utils")
    by_tensor: dict[str, list[np.ndarray]] = {}
    for name, start in pair.base.items():
        a, b = (torch.tensor(start + tau[name]) for tau in pair.tau)
        both = [mergekit.merge_tensors([a, b], "slerp", base_index=0, parameters={"t": t}), theirs.slerp(t, a, b)]
        by_tensor[name] = [x.numpy() - start for x in both]
    merged = pair.merged("slerp", f"t = {t}")
    for i in range(2):
        close(merged, flat({name: both[i] for name, both in by_tensor.items()}))


@pytest.mark.parametrize("weights", [[1.0, 1.0], [3.0, 0.5], [1.0, -1.0]])
def test_nuslerp(weights: list[float], pair: Models) -> None:
    """Weights that cancel are taken as equal ones."""
    t = 0.5 if sum(weights) == 0 else weights[1] / sum(weights)
    by_tensor = {name: formulas.slerp(*(tau[name].ravel() for tau in pair.tau), t, linear_above=1 - 2.0**-26)
                 for name in pair.base}
    close(pair.merged("nuslerp", "", weights), flat(by_tensor))
    for along, theirs in {"tensor": {}, "last": {"nuslerp_flatten": False},
                          "first": {"nuslerp_flatten": False, "nuslerp_row_wise": True}}.items():
        close(pair.merged("nuslerp", f'along = "{along}"', weights),
              by_mergekit(pair, "nuslerp", weight=weights, **theirs))
        close(pair.merged("nuslerp", f'of = "models", along = "{along}"', weights),
              models_by_mergekit(pair, "nuslerp", weight=weights, **theirs))


def test_multislerp(four: Models) -> None:
    w = [1.0, 0.4, 2.0, 1.5]  # the signs of a tensor of one number do not cancel with these
    for normalizes in (True, False):
        ours = f"normalize_weights = {str(normalizes).lower()}"
        close(four.merged("multislerp", ours, w),
              by_mergekit(four, "multislerp", weight=w, normalize_weights=normalizes))
        close(four.merged("multislerp", f'{ours}, of = "models"', w),
              models_by_mergekit(four, "multislerp", weight=w, normalize_weights=normalizes))
    by_tensor = {name: formulas.multislerp([tau[name] for tau in four.tau], True, 1e-8) for name in four.base}
    close(four.merged("multislerp"), flat(by_tensor))


def test_karcher(four: Models, pair: Models) -> None:
    for models in (four, pair):
        close(models.merged("karcher"), models_by_mergekit(models, "karcher"))
        close(models.merged("karcher", "max_iter = 2"), models_by_mergekit(models, "karcher", max_iter=2))
        single = '[{ model = "m1" }]'
        close(models.merged("karcher", models=single), models.vectors()[1])
        close(models.merged("karcher", "tol = 0.0"), models_by_mergekit(models, "karcher", tol=1e-12))
        by_tensor = {name: formulas.karcher([tau[name] for tau in models.tau], 10, 1e-5) for name in models.base}
        close(models.merged("karcher", 'of = "vectors"'), flat(by_tensor))


@pytest.mark.parametrize("share", [1.0, 0.6, 0.05])
def test_sce(share: float, four: Models) -> None:
    merged = four.merged("sce", f"select_topk = {share}")
    close(merged, by_mergekit(four, "sce", select_topk=share))
    by_tensor = {name: formulas.sce([tau[name] for tau in four.tau], share, 0) for name in four.base}
    close(merged, flat(by_tensor))
    close(four.merged("sce", f"select_topk = {share}, least_energy = 1"),
          flat({name: formulas.sce([tau[name] for tau in four.tau], share, 1) for name in four.base}))


@pytest.mark.parametrize("t", [0.1, 1e-4, 1e-7])
def test_nearswap(t: float, four: Models) -> None:
    merged = four.merged("nearswap", f"t = {t}", models='[{ model = "m1" }]')
    close(merged, by_mergekit(four, "nearswap", which=[1], t=t), 1e-6)
    close(merged, formulas.nearswap(four.vectors()[1], t), 1e-6)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_ram(share: float, four: Models) -> None:
    """With thresholds that leave all numbers, most of them, and few."""
    epsilon = float(np.quantile(np.abs(four.vectors()), share)) or 1e-5
    merged = four.merged("ram", f"epsilon = {epsilon}")
    close(merged, by_mergekit(four, "ram", epsilon=epsilon))
    close(merged, formulas.ram(four.vectors(), epsilon))
    for parameters in ({}, {"r": 0.7, "alpha": 0.9}):
        said = ", ".join(f"{key.replace('alpha', 'max_ratio')} = {value}" for key, value in parameters.items())
        merged = four.merged("ramplus_tl", f"epsilon = {epsilon}" + (said and ", " + said))
        close(merged, by_mergekit(four, "ramplus_tl", epsilon=epsilon, **parameters))
        r, alpha = parameters.get("r", 0.1), parameters.get("alpha", 0.2)
        close(merged, flat({name: formulas.ram(np.stack([tau[name].ravel() for tau in four.tau]), epsilon, r, alpha)
                            for name in four.base}))


@pytest.mark.parametrize("density", [0.02, 0.1, 0.45, 0.95, 1.0])
@pytest.mark.parametrize("more", [{}, {"clip": 0.01, "agreement": "normalised"}, {"clip": 0.2}])
def test_pcb(density: float, more: dict[str, Any], four: Models) -> None:
    """Shares of few numbers, and of so many that scores below 0 stay."""
    said = f"density = {density}" + "".join(f", {key} = {json.dumps(value)}" for key, value in more.items())
    options = {"clip": 1e-4, "agreement": "sum"} | more
    tau = four.vectors()
    merged = four.merged("pcb", said)
    close(merged, formulas.pcb(tau, density, **options))
    # Each vector's weight is that of its numbers, and not of its scores.
    apart = [four.merged("pcb", said, [float(s == t) for s in range(4)]) for t in range(4)]
    close(merged, np.sum(apart, 0))
    if more:
        return
    close(four.merged("pcb", said + ', scope = "tensor"'),
          flat({name: formulas.pcb(np.stack([x[name].ravel() for x in four.tau]), density, **options)
                if start.size else start for name, start in four.base.items()}))


def test_pcb_of_vectors_without_numbers(tmp_path: Path) -> None:
    """Scores that are all alike drop nothing, and nothing is divided by 0."""
    models = Models(tmp_path, 2)
    for t, sign in enumerate((0, 1)):
        shutil.rmtree(tmp_path / f"m{t}")
        write_model(tmp_path / f"m{t}", {name: (x + sign * np.float32(0.5)).astype(np.float32)
                                         for name, x in models.base.items()})
    merged = models.merged("pcb", "density = 0.3")
    assert np.isfinite(merged).all() and np.abs(merged).max() <= 0.51


def test_arcee_fusion(four: Models) -> None:
    for t in range(4):
        merged = four.merged("arcee_fusion", models=f'[{{ model = "m{t}" }}]')
        close(merged, by_mergekit(four, "arcee_fusion", which=[t]), 1e-6)
        assert 0.01 < np.mean(merged != 0) < 0.4


def test_magmax_and_emr(four: Models, pair: Models) -> None:
    for models, w in ((four, np.array(W)), (pair, np.array([1.0, -0.5]))):
        tau = models.vectors() * w[:, None]
        close(models.merged("magmax", "lambda = 0.5", list(w)), 0.5 * formulas.magmax(tau))
        close(models.merged("emr", "", list(w)), formulas.emr(tau))


def test_model_stock(four: Models, pair: Models) -> None:
    for models in (four, pair):
        by_tensor = {name: formulas.model_stock([tau[name] for tau in models.tau]) for name in models.base}
        close(models.merged("model_stock"), flat(by_tensor))
    close(four.merged("model_stock"), by_mergekit(four, "model_stock"))


def test_model_stock_of_vectors_that_cancel(tmp_path: Path) -> None:
    models = Models(tmp_path, 2)
    shutil.rmtree(tmp_path / "m1")
    write_model(tmp_path / "m1", {name: (models.base[name] - tau).astype(np.float32)
                                        for name, tau in models.tau[0].items()})
    assert not models.merged("model_stock").any()


@pytest.mark.parametrize(("change", "expected"), [({"models": '[{ model = "m0" }]'}, "there is one; expected two"),
                                                  ({"weights": W}, "expected no weights")])
def test_model_stock_compares_models_that_count_alike(change: dict[str, Any], expected: str, four: Models) -> None:
    shutil.rmtree(four.folder / "out", ignore_errors=True)
    refused(call(four.recipe("model_stock", **change)), four.folder, "model_stock", expected)


@pytest.mark.parametrize("method", ["tsv_m", "iso_c", "iso_cts"])
def test_matrices(method: str, four: Models) -> None:
    each, excluded = tensors(four), {"exclude_keys": ["text_projection"], "accelerator": "cpu"}
    if method == "tsv_m":
        theirs = fusion_bench("task_singular_vector.utils.TSVM_utils")
        merged = quietly(theirs.compute_and_sum_svd_mem_reduction, each, **excluded)
    elif method == "iso_c":
        merged = quietly(fusion_bench("isotropic_merging.iso_utils").iso_c, each, **excluded)
    else:
        merged = quietly(fusion_bench("isotropic_merging.iso_utils").iso_cts, each, 0.8, **excluded)
    close(four.merged(method), flat({name: x.numpy() for name, x in merged.items()}), 2e-5)


def test_wudi_is_the_flow_of_gradient_descent(four: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """FusionBench's loss and start, with small plain steps in place of Adam's: 2 · step · steps is the flow's time."""
    steps, time = 3000, 2.0
    theirs = function_of("wudi.wudi", "wudi_merging", List=list,  tqdm=importlib.import_module("tqdm").tqdm,
                         timeit_context=lambda _: contextlib.nullcontext())
    descent = torch.optim.SGD
    monkeypatch.setattr(torch.optim, "Adam", lambda p, lr, weight_decay: descent(p, time / (2 * steps)))
    with contextlib.redirect_stderr(io.StringIO()):
        merged = quietly(theirs, tensors(four), "cpu", steps, ["text_projection"])
    expected = flat({name: x.detach().numpy() for name, x in merged.items()})
    ours = four.merged("wudi", f'time = {time}, exclude = ["text_projection"]')
    sums = vectors(four).sum(0).numpy()
    assert np.abs(expected - sums).max() > 0.1 and np.abs(ours - expected).max() < 1e-3


@pytest.mark.parametrize(("method", "parameters", "least"), [
    ("task_arithmetic", "", 0.4), ("ties", "density = 0.3", 1.0), ("tsv_m", "", 0.1), ("multislerp", "", 0.05),
    ("slerp", "t = 0.3", 0.2), ("dare_linear", "density = 0.6", 1.0)])
def test_calibration(method: str, parameters: str, least: float, four: Models, pair: Models) -> None:
    """FusionBench's function, of tensor by tensor what the method makes without it."""
    theirs = fusion_bench("singular_value_calibration.utils").subspace_consistency_spectral_calibration_accelerated
    models = pair if method == "slerp" else four
    before = models.merged(method, parameters)
    where = dict(zip(sorted(models.base), formulas.parts(before, models.base), strict=True))
    expected = {}
    for name, start in models.base.items():
        merged, deltas = before[where[name]].reshape(start.shape), [tau[name] for tau in models.tau]
        if start.ndim == 2 and start.size:
            zero = torch.zeros(start.shape, dtype=torch.float64)
            their = theirs(zero, [torch.tensor(x) for x in deltas], torch.tensor(merged), least, torch.device("cpu"))
            close(formulas.calibrated(merged, deltas, least), their.numpy(), 1e-6)
            merged = their.numpy()
        expected[name] = merged
    calibrated = models.merged(method, ", ".join(filter(None, [parameters, f"calibration = {least}"])))
    close(calibrated, flat(expected), 2e-5)
    assert np.abs(calibrated - before).max() > 1e-2


def test_dare_drops_as_many_and_keeps_their_size(four: Models) -> None:
    """Chance chooses: of the numbers that are kept, the share, and the merged numbers' first two moments."""
    tau, draws = vectors(four), 200
    drop = fusion_bench("dare.utils").param_random_drop_
    torch.manual_seed(0)
    theirs = []
    for _ in range(draws):
        kept = tau.clone()
        drop(kept, 0.6, True)
        theirs.append(kept.sum(0))
    spread = torch.stack(theirs).var(0).numpy()
    ours = np.stack([four.merged("dare_linear", f"density = 0.4, seed = {seed}") for seed in range(3)])
    moved = spread > 1e-8
    # Each number's distance to the sum, over the deviation that theirs has: mean 0, mean square 1.
    scaled = ((ours - tau.sum(0).numpy())[:, moved] / np.sqrt(spread[moved])).ravel()
    n = scaled.size
    assert abs(scaled.mean()) < 5 / np.sqrt(n) and abs((scaled**2).mean() - 1) < 0.05
    first = four.merged("dare_linear", "density = 0.4, rescale = false", [1.0, 0.0, 0.0, 0.0])
    torch.manual_seed(0)
    sparsify = importlib.import_module("mergekit.sparsify")
    there = np.abs(tau[0].numpy()) > 1e-6
    shares = [np.mean(np.abs(kept[there]) > 1e-6) for kept in (first, sparsify.bernoulli(tau[0], 0.4).numpy())]
    assert abs(shares[0] - shares[1]) < 5 * np.sqrt(2 * 0.4 * 0.6 / there.sum())


@pytest.mark.parametrize(("method", "as_it_is", "by_norm"), [
    ("dare_linear", "rescale = false", 'rescale_by = "l1", scope = "tensor"'),
    ("della_linear", 'rescale_by = "nothing"', 'rescale_by = "l1"'),
])
def test_drops_keep_the_norm_of_each_tensor(method: str, as_it_is: str, by_norm: str, four: Models) -> None:
    """mergekit's own function does the same to the numbers that we keep."""
    sparsify = importlib.import_module("mergekit.sparsify")
    density = "density = 0.4, seed = 5"
    for t, weights in enumerate(np.eye(4).tolist()):
        kept = torch.tensor(np.abs(four.merged(method, f"{density}, {as_it_is}", weights)) > 1e-6)
        pieces = kept.split([four.tau[t][name].size for name in sorted(four.base)])
        theirs = {
            name: sparsify.rescaled_masked_tensor(torch.tensor(four.tau[t][name]), piece.view(four.base[name].shape),
                                                  sparsify.RescaleNorm.l1).numpy()
            for name, piece in zip(sorted(four.base), pieces, strict=True)}
        ours = four.merged(method, f"{density}, {by_norm}", weights)
        close(ours, flat(theirs), 2e-5)
        if method == "dare_linear":
            assert np.abs(ours - four.merged(method, f'{density}, rescale_by = "l1"', weights)).max() > 1e-3


def kept_with(tau: np.ndarray, density: float, epsilon: float) -> np.ndarray:
    """The probability of each number: by its magnitude's rank in its row."""
    rows = np.abs(tau).reshape(len(tau) if tau.ndim > 1 else 1, -1)
    ranks = rows.argsort(1, kind="stable").argsort(1)
    place = 2 * ranks / (rows.shape[1] - 1) - 1 if rows.shape[1] > 1 else np.zeros(rows.shape)
    return (density + epsilon * place).reshape(tau.shape)


def test_della_drops_by_rank(four: Models) -> None:
    """Chance chooses: each number's share of seeds in which it stays, over the deviation of its probability."""
    tau, draws = four.vectors()[1], 12
    p = flat({name: kept_with(four.tau[1][name], 0.4, 0.3) for name, _ in numbered(four)})
    there, weights = np.abs(tau) > 1e-5, [0.0, 1.0, 0.0, 0.0]
    shares = np.zeros(tau.size)
    for seed in range(draws):
        merged = four.merged("della_linear", f"density = 0.4, epsilon = 0.3, seed = {seed}", weights)
        kept = np.abs(merged) > 1e-6
        close(merged[there], np.where(kept, tau / p, 0)[there])
        shares += kept / draws
    scaled = ((shares - p) / np.sqrt(p * (1 - p) / draws))[there]
    assert abs(scaled.mean()) < 5 / np.sqrt(scaled.size)
    assert abs((scaled**2).mean() - 1) < 5 * np.sqrt(2 / scaled.size)
    for part in (p < 0.2, p > 0.6):
        assert abs(scaled[part[there]].mean()) < 5 / np.sqrt(part.sum())


def test_della_elects_of_what_is_kept(four: Models) -> None:
    same = "density = 0.4, epsilon = 0.2, seed = 3"
    kept = np.stack([four.merged("della_linear", same, weights) for weights in np.eye(4).tolist()])
    close(four.merged("della_linear", f"{same}, normalize = true", W), np.array(W) @ kept / sum(W))
    kept[np.abs(kept) < 1e-6] = 0  # rounding of the models' numbers
    for merge in ("mean", "sum"):
        expected = formulas.elected(kept, np.array(W), merge, "nobody")
        close(four.merged("della", f'{same}, merge = "{merge}"', W), expected)
    close(four.merged("della_linear", "density = 1.0, epsilon = 0.2", W), np.array(W) @ four.vectors())
