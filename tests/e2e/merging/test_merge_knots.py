# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""space = "knots": TIES and DARE on what all tasks' matrices are in one basis, beside FusionBench's own functions, and
NumPy's SVD of the matrices end to end."""

import math
from pathlib import Path

import launch
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from taugrid_analysis.quantities.merging import formulas
from test_merge_adapters import make, merge, refused, tensors, written_out
from test_merge_oracles import fusion_bench, quietly

WEIGHTS = (0.5, 0.9, 1.3)  # as merge() of test_merge_adapters gives them
KNOTS = '[parameters]\nspace = "knots"\n'


def deltas(folder: Path, count: int) -> list[dict[str, np.ndarray]]:
    """s·B·A in double, from the adapters' files; what they do not adapt is zero."""
    start = {name: x.double() for name, x in load_file(folder / "base/model.safetensors").items()}
    return [{name: (x - start[name]).numpy() for name, x in written_out(folder, f"a{i}").items()}
            for i in range(count)]


def changes(folder: Path, out: str) -> dict[str, np.ndarray]:
    start = tensors(folder / "base")
    return {name: (x - start[name]).double().numpy() for name, x in tensors(folder / out).items()}


def close(ours: dict[str, np.ndarray], expected: dict[str, np.ndarray], share: float = 1e-3) -> None:
    """They agree in norm, as rounding may bring single numbers at a cut to its other side."""
    norm = math.sqrt(sum(float((x**2).sum()) for x in expected.values()))
    apart = math.sqrt(sum(float(((ours[name] - x) ** 2).sum()) for name, x in expected.items()))
    assert norm > 0 and apart < share * norm, apart / norm


@pytest.mark.parametrize("kind", ["rsLoRA", "ranks and alphas by module", "embeddings and a whole head"])
@pytest.mark.parametrize("density", [0.3, 1.0])
def test_ties_on_aligned_matrices(tmp_path: Path, kind: str, density: float) -> None:
    make(tmp_path, kind, 3)
    done = merge(tmp_path, ["a0", "a1", "a2"], "out", "ties", KNOTS + f"density = {density}\nlambda = 0.8")
    assert done.returncode == 0, done.stderr
    settings = {"space": "knots"}
    expected = formulas.in_knots(
        deltas(tmp_path, 3), settings, lambda tau, _: formulas.ties(tau, np.array(WEIGHTS), density))
    close(changes(tmp_path, "out"), {name: 0.8 * x for name, x in expected.items()})
    plain = merge(tmp_path, ["a0", "a1", "a2"], "plain", "ties", f"[parameters]\ndensity = {density}\nlambda = 0.8")
    assert plain.returncode == 0
    other = changes(tmp_path, "plain")
    assert any(np.linalg.norm(other[name] - x) > 0.05 * np.linalg.norm(x)
               for name, x in changes(tmp_path, "out").items() if x.any())


@pytest.mark.parametrize("cut", ["at_least", "exact", "above"])
def test_adapters_that_change_nothing_have_no_cut(tmp_path: Path, cut: str) -> None:
    make(tmp_path, "rsLoRA", 2)
    for name in ("a0", "a1"):
        path = tmp_path / name / "adapter_model.safetensors"
        save_file({key: x * ("lora_B" not in key) for key, x in load_file(path).items()}, path)
    done = merge(tmp_path, ["a0", "a1"], "out", "ties", KNOTS + f'cut = "{cut}"\n')
    assert done.returncode == 0, done.stderr
    assert all(torch.equal(x, tensors(tmp_path / "base")[name]) for name, x in tensors(tmp_path / "out").items())


def test_ties_as_fusion_bench_has_it(tmp_path: Path) -> None:
    """Its alignment, and its TIES, of the adapted matrices end to end."""
    make(tmp_path, "rsLoRA", 3)
    path = tmp_path / "recipe.toml"
    path.write_text('merge_method = "ties"\nbase_model = "base"\nout = "out"\n'
                    'models = [ { model = "a0" }, { model = "a1" }, { model = "a2" } ]\n' + KNOTS + "density = 0.2\n")
    done = launch.run(1, "merge", path)
    assert done.returncode == 0, done.stderr
    each = deltas(tmp_path, 3)
    adapted = [name for name in sorted(each[0]) if each[0][name].any()]
    align = fusion_bench("knots.knots_utils").subspace_alignment
    bases, rows = {}, [[], [], []]
    for name in adapted:
        u, s, vhs = align([torch.tensor(tau[name]) for tau in each])
        bases[name] = u
        for t in range(3):
            rows[t].append(torch.diag(s) @ vhs[t])
    ties = fusion_bench("ties_merging.ties_merging_utils").ties_merging
    merged = quietly(ties, torch.stack([torch.cat([x.flatten() for x in row]) for row in rows]), 20, "mean")
    expected = {}
    for name, x in zip(adapted, rows[0], strict=True):
        expected[name] = (bases[name] @ merged[: x.numel()].view_as(x)).numpy()
        merged = merged[x.numel():]
    ours = changes(tmp_path, "out")
    close({name: ours[name] for name in adapted}, expected)
    assert not any(x.any() for name, x in ours.items() if name not in adapted)


def test_dare_in_distribution(tmp_path: Path) -> None:
    """Over draws the mean is that of no drops, which is the sum where all count."""
    make(tmp_path, "rsLoRA", 2)
    runs = []
    for seed in range(24):
        more = KNOTS + f'density = 0.5\nmerge = "sum"\nzero_sign = "positive"\nseed = {seed}'
        assert merge(tmp_path, ["a0"], f"out{seed}", "dare_ties", more).returncode == 0
        runs.append(changes(tmp_path, f"out{seed}"))
    each = deltas(tmp_path, 1)[0]
    name = "model.layers.1.mlp.up_proj.weight"
    mean = np.mean([run[name] for run in runs], 0)
    assert np.linalg.norm(mean - 0.5 * each[name]) < 1.5 / math.sqrt(24) * np.linalg.norm(0.5 * each[name])
    assert all(np.linalg.norm(run[name] - 0.5 * each[name]) > 0.5 * np.linalg.norm(0.5 * each[name]) for run in runs)


def test_the_result_is_an_adapter_of_the_ranks_together(tmp_path: Path) -> None:
    make(tmp_path, "ranks and alphas by module", 3)
    more = KNOTS + "density = 0.3\n"
    assert merge(tmp_path, ["a0", "a1", "a2"], "whole", "ties", more).returncode == 0
    done = merge(tmp_path, ["a0", "a1", "a2"], "out", "ties", more + "[adapter]")
    assert done.returncode == 0, done.stderr
    path = tmp_path / "again.toml"
    path.write_text('merge_method = "linear"\nbase_model = "base"\nout = "again"\nmodels = [ { model = "out" } ]\n')
    assert launch.run(1, "merge", path).returncode == 0
    for name, x in tensors(tmp_path / "whole").items():
        torch.testing.assert_close(tensors(tmp_path / "again")[name], x, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(("more", "expected"), [
    ('[parameters]\nspace = "knot"', ["parameters.space", "full, knots"]),
    ('[parameters]\nspace = "core"', ["parameters.space", "full, knots"]),
    (KNOTS + "knots_exclude = 3", ["knots_exclude"]),
])
def test_wrong_spaces(tmp_path: Path, more: str, expected: list[str]) -> None:
    make(tmp_path, "rsLoRA", 2)
    refused(tmp_path, merge(tmp_path, ["a0", "a1"], "out", "ties", more), *expected)
