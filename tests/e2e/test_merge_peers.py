# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid merge against what mergekit and FusionBench make of the same tensors, where they compute the same formula."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from taugrid_analysis.recompute import methods as oracle
from test_merge import SHAPES, Models, W, close

mergekit = pytest.importorskip("mergekit.merge_methods", reason="jobs/setup.sh --tests installs mergekit")
FULL = [name for name in SHAPES if 0 not in SHAPES[name]]  # they refuse tensors without numbers


@pytest.fixture(scope="module")
def peer() -> Iterator[Callable[[str], ModuleType]]:
    """Single files of FusionBench: the package around them imports hydra and lightning, which they do not need."""
    spec = importlib.util.find_spec("fusion_bench")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("jobs/setup.sh --tests installs FusionBench")
    root = Path(spec.submodule_search_locations[0])
    stubs = {name: ModuleType(name) for name in ("fusion_bench", "fusion_bench.utils", "fusion_bench.utils.type")}
    stubs["fusion_bench.utils.type"].StateDictType = dict  # type: ignore[attr-defined]
    stubs["fusion_bench.utils"].timeit_context = lambda *_: nullcontext()  # type: ignore[attr-defined]
    for name in ("state_dict_to_vector", "vector_to_state_dict"):
        setattr(stubs["fusion_bench.utils"], name, None)  # imported, and not called
    before = {name: sys.modules.get(name) for name in stubs}
    sys.modules.update(stubs)

    def load(path: str) -> ModuleType:
        own = importlib.util.spec_from_file_location(Path(path).stem, root / "method" / path)
        assert own is not None and own.loader is not None
        module = importlib.util.module_from_spec(own)
        own.loader.exec_module(module)
        return module

    yield load
    for name, module in before.items():
        if module is None:
            del sys.modules[name]
        else:
            sys.modules[name] = module


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("four"), 4)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("pair"), 2)


def by_tensor(world: Models, merge: Callable[[list[torch.Tensor]], torch.Tensor]) -> np.ndarray:
    """The change that `merge` makes of θ0 and the models, tensor by tensor."""
    found = {}
    for name, shape in SHAPES.items():
        base = torch.tensor(world.base[name], dtype=torch.double)
        models = [base + torch.tensor(tau[name], dtype=torch.double) for tau in world.tau]
        change = merge([base, *models]) - base if name in FULL else torch.zeros(shape)
        found[name] = change.numpy()
    return oracle.flat(found)


def of_mergekit(world: Models, method: str, with_base: bool, parameters: dict[str, Any]) -> np.ndarray:
    def merge(tensors: list[torch.Tensor]) -> torch.Tensor:
        own = tensors if with_base else tensors[1:]
        index = None if method == "linear" else 0
        return mergekit.merge_tensors(own, method, base_index=index, parameters=parameters)

    return by_tensor(world, merge)


def test_mergekits_sums(four: Models) -> None:
    close(four.merged("linear", "", W), of_mergekit(four, "linear", False, {"weight": W, "normalize": True}))
    found = four.merged("task_arithmetic", "lambda = 0.7", W)
    close(found, 0.7 * of_mergekit(four, "task_arithmetic", True, {"weight": W, "normalize": False}))


@pytest.mark.parametrize("density", [0.3, 0.75])
def test_mergekits_ties(four: Models, density: float) -> None:
    """It trims tensor by tensor, keeps exactly a share, lets weights vote, and takes a sum of zero for +."""
    told = f'density = {density}, scope = "tensor", cut = "exact", zero_sign = "positive"'
    parameters = {"weight": W, "density": density, "normalize": True}
    close(four.merged("ties", told, W), of_mergekit(four, "ties", True, parameters))


def test_mergekits_slerp(pair: Models) -> None:
    close(pair.merged("slerp", "t = 0.3"), of_mergekit(pair, "slerp", False, {"t": 0.3}))


def vectors_of(world: Models) -> list[dict[str, torch.Tensor]]:
    return [{name: torch.tensor(tau[name], dtype=torch.double) for name in FULL} for tau in world.tau]


def whole(found: dict[str, torch.Tensor]) -> np.ndarray:
    return oracle.flat({name: found[name].numpy() if name in found else np.zeros(SHAPES[name]) for name in SHAPES})


@pytest.mark.parametrize("merge", ["mean", "sum"])
def test_fusion_benchs_ties(four: Models, peer: Callable[[str], ModuleType], merge: str) -> None:
    stacked = torch.tensor(four.vectors())
    expected = peer("ties_merging/ties_merging_utils.py").ties_merging(stacked, 20, merge)
    close(four.merged("ties", f'density = 0.2, merge = "{merge}"'), expected.numpy())


def test_fusion_benchs_slerp(pair: Models, peer: Callable[[str], ModuleType]) -> None:
    slerp = peer("slerp/slerp_utils.py").slerp
    close(pair.merged("slerp", "t = 0.6"), by_tensor(pair, lambda tensors: slerp(0.6, tensors[1], tensors[2])))


@pytest.mark.parametrize(("least", "tall_lambda"), [(2, 0.4), (3, 0.2)])
def test_fusion_benchs_masks(four: Models, peer: Callable[[str], ModuleType], least: int, tall_lambda: float) -> None:
    tau, start = torch.tensor(four.vectors()), torch.tensor(oracle.flat(four.base)).double()
    found = peer("tall_mask/utils.py").generate_task_masks(tau, start + tau, start, tall_mask_lambda=tall_lambda)
    expected = torch.where(found.sum(0) >= least, tau.sum(0), 0.0)
    found = four.merged("consensus_ta", f"tall_lambda = {tall_lambda}, least_tasks = {least}")
    # Where θ0 is added and taken away again, a comparison may round to the other side.
    near = np.abs(found - expected.numpy()) < 1e-5
    assert near.mean() > 0.998 and (expected == 0).double().mean() > 0.1


@pytest.mark.parametrize("method", ["tsv_m", "iso_c", "iso_cts"])
def test_fusion_benchs_matrices(four: Models, peer: Callable[[str], ModuleType], method: str) -> None:
    vectors, excluded = vectors_of(four), ["text_projection"]
    if method == "tsv_m":
        merge = peer("task_singular_vector/utils/TSVM_utils.py").compute_and_sum_svd_mem_reduction
        expected = merge(vectors, exclude_keys=excluded, accelerator="cpu")
    else:
        module = peer("isotropic_merging/iso_utils.py")
        merge = module.iso_c if method == "iso_c" else partial(module.iso_cts, common_space_fraction=0.8)
        expected = merge(vectors, accelerator="cpu", exclude_keys=excluded)
    close(four.merged(method), whole(expected), 2e-5)


def test_fusion_benchs_dare(tmp_path: Path, peer: Callable[[str], ModuleType]) -> None:
    """Draws are other draws: shares and squares agree within what chance leaves."""
    world = Models(tmp_path, 1)
    tau = torch.tensor(world.vectors()[0])
    theirs = tau.clone()
    torch.manual_seed(0)
    peer("dare/utils.py").param_random_drop_(theirs, 0.7, True)
    ours = torch.tensor(world.merged("dare_linear", "density = 0.3"))
    n = float((tau != 0).sum())
    kept = [float(((x.abs() > 1e-6) & (tau != 0)).sum()) / n for x in (ours, theirs)]
    assert abs(kept[0] - kept[1]) < 5 * np.sqrt(2 * 0.3 * 0.7 / n)
    squares = [float(x.square().sum() / tau.square().sum()) for x in (ours, theirs)]  # each 1/0.3 in the mean
    spread = float(tau.pow(4).sum().sqrt() / tau.square().sum()) * np.sqrt(2 * 0.7 / 0.3) / 0.3
    assert abs(squares[0] - squares[1]) < 5 * spread
