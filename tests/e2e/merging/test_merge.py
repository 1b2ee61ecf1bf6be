# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid merge: every method against its formula, and every wrong recipe refused with nothing written."""

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import launch
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_torch
from safetensors.torch import save_file as save_torch
from taugrid_analysis.quantities.merging import formulas
from world import misaligned

PROJECT = Path(__file__).parents[3]
SHAPES = {"layer.weight": (24, 20), "layer.bias": (24,), "conv": (3, 2, 3, 3), "embedding": (30, 12), "scale": (),
          "text_projection": (6, 6), "nothing": (0, 4)}


def call(recipe: Path) -> subprocess.CompletedProcess[str]:
    return launch.run(1, "merge", recipe)


def write_model(folder: Path, tensors: formulas.Tensors) -> None:
    folder.mkdir(parents=True)
    arrays = {name: np.asarray(x) for name, x in tensors.items()}  # of a sum of scalars, too
    save_file(arrays | {"position_ids": np.arange(7)}, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text('{"model_type": "none of ours"}')


class Models:
    """A base, and models beside it whose vectors lie on a coarse grid where `exact`: ties, zeros, cancellation."""

    def __init__(self, folder: Path, count: int, exact: bool = False) -> None:
        self.folder, self.count = folder, count
        random = np.random.default_rng(count)

        def draw(shape: tuple[int, ...]) -> np.ndarray:
            return random.standard_normal(shape).astype(np.float32)

        self.base = {name: np.asarray(np.round(draw(shape) * 8) / 8 if exact else draw(shape), np.float32)
                     for name, shape in SHAPES.items()}
        self.tau = []
        for _ in range(count):
            tau = {name: np.asarray(np.round(draw(shape) * 2) / 8 if exact else 0.3 * draw(shape), np.float32)
                   for name, shape in SHAPES.items()}
            tau["embedding"][:10] = 0  # frozen
            self.tau.append(tau)
        write_model(folder / "base", self.base)
        (folder / "base" / "vocab.txt").write_text("a\nb\n")
        (folder / "base" / "README.md").write_text("the base's card")
        (folder / "base" / "pytorch_model.bin").write_bytes(b"old")
        for t, tau in enumerate(self.tau):
            write_model(folder / f"m{t}", {name: self.base[name] + tau[name] for name in SHAPES})
        # What float32 has left of the vectors.
        self.tau = [{name: load_file(folder / f"m{t}" / "model.safetensors")[name].astype(np.float64) - self.base[name]
                     for name in SHAPES} for t in range(count)]

    def vectors(self) -> np.ndarray:
        return np.stack([formulas.flat(tau) for tau in self.tau])

    def recipe(self, method: str, parameters: str = "", weights: list[float] | None = None, **other: str) -> Path:
        keys = {"merge_method": f'"{method}"', "base_model": '"base"', "out": '"out"',
                "parameters": "{ " + parameters + " }"} | other
        entries = [f'{{ model = "m{t}"' + (f", weight = {weights[t]}" if weights else "") + " }"
                   for t in range(self.count)]
        keys.setdefault("models", "[" + ", ".join(entries) + "]")
        path = self.folder / "recipe.toml"
        path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items() if value))
        return path

    def merged(self, method: str, parameters: str = "", weights: list[float] | None = None, **other: str) -> np.ndarray:
        """The merged vector, as the folder that was written has it."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        done = call(self.recipe(method, parameters, weights, **other))
        assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
        tensors = load_file(self.folder / "out" / "model.safetensors")
        assert set(tensors) == {*SHAPES, "position_ids"} and np.array_equal(tensors["position_ids"], np.arange(7))
        assert all(tensors[name].shape == shape and tensors[name].dtype == np.float32 for name, shape in SHAPES.items())
        return formulas.flat({name: tensors[name].astype(np.float64) - self.base[name] for name in SHAPES})


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("four"), 4)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """Seventy, on a grid."""
    return Models(tmp_path_factory.mktemp("many"), 70, exact=True)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("pair"), 2, exact=True)


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> Models:
    return Models(tmp_path_factory.mktemp("single"), 1)


def close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 1e-5) -> None:
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() < tolerance


W = [1.0, 0.5, 2.0, 1.5]


def test_sums(four: Models) -> None:
    tau, w = four.vectors(), np.array(W)
    close(four.merged("linear"), tau.mean(0))
    close(four.merged("linear", "lambda = 0.5", W), 0.5 * (w @ tau) / w.sum())
    close(four.merged("task_arithmetic", "", W), w @ tau)
    close(four.merged("task_arithmetic", "lambda = -0.25", [1, 1, 1, -1]), -0.25 * np.array([1, 1, 1, -1]) @ tau)


@pytest.mark.parametrize("models", ["single", "pair", "many"])
def test_sums_of_one_of_two_and_of_seventy(models: str, request: pytest.FixtureRequest) -> None:
    world: Models = request.getfixturevalue(models)
    tau = world.vectors()
    close(world.merged("linear"), tau.mean(0))
    close(world.merged("task_arithmetic", "lambda = 0.5"), 0.5 * tau.sum(0), 1e-4)
    close(world.merged("dare_linear", "density = 1.0"), tau.sum(0), 1e-4)
    kept = np.stack([formulas.trimmed(t, 0.05, "at_least") for t in tau])
    close(world.merged("top_k"), kept.sum(0) / world.count)


def test_linear_needs_no_base(four: Models) -> None:
    close(four.merged("linear", base_model=""), four.vectors().mean(0))


@pytest.mark.parametrize("models", ["single", "pair", "many"])
@pytest.mark.parametrize(("parameters", "options"), [
    ("", {}),
    ('merge = "sum", zero_sign = "positive", cut = "above", density = 0.3',
     {"merge": "sum", "zero_sign": "positive", "cut": "above", "density": 0.3}),
    ('zero_sign = "nobody", cut = "exact", density = 0.35', {"zero_sign": "nobody", "cut": "exact", "density": 0.35}),
    ("density = 1.0", {"density": 1.0}),
])
def test_ties(models: str, parameters: str, options: dict, request: pytest.FixtureRequest) -> None:
    world: Models = request.getfixturevalue(models)
    merged = world.merged("ties", parameters)
    close(merged, formulas.ties(world.vectors(), np.ones(world.count), **{"density": 0.2} | options))


def test_ties_by_tensor_and_with_weights(four: Models) -> None:
    tau, w = four.vectors(), np.array(W)
    expected = np.zeros(tau.shape[1])
    for where in formulas.parts(expected, four.tau[0]):
        if where.stop > where.start:
            expected[where] = formulas.ties(tau[:, where], w, 0.4, "exact", "mean", "positive")
    merged = four.merged("ties", 'density = 0.4, scope = "tensor", cut = "exact", zero_sign = "positive"', W)
    close(merged, expected)


def test_ties_with_a_negative_majority_and_one_without(tmp_path: Path) -> None:
    for folder, last in (("minus", -1.0), ("even", 1.0)):
        models = Models(tmp_path / folder, 2)
        for t, row in enumerate(([1, -1, last, 2], [-1, -1, last, -2])):
            tensors = {"w": np.array(row, np.float32)}
            save_file(tensors, models.folder / f"m{t}" / "model.safetensors")
        save_file({"w": np.zeros(4, np.float32)}, models.folder / "base" / "model.safetensors")
        done = call(models.recipe("ties", "density = 1.0"))
        assert done.returncode == 0, done.stderr
        merged = load_file(models.folder / "out" / "model.safetensors")["w"]
        # Places that elected − are more, or as many: cancelled places keep their negatives.
        assert merged.tolist() == [-1, -1, last, -2]


def test_a_sum_of_those_that_agree_takes_weights_of_either_sign(pair: Models) -> None:
    w = [1.0, -1.0]
    merged = pair.merged("ties", 'merge = "sum", density = 1.0', w)
    close(merged, formulas.ties(pair.vectors(), np.array(w), 1.0, merge="sum"))


def test_the_majority_is_the_whole_vectors_whatever_a_share_is_of(pair: Models) -> None:
    tau = pair.vectors()
    kept = np.zeros_like(tau)
    for where in formulas.parts(tau[0], pair.tau[0]):
        if where.stop > where.start:
            kept[:, where] = [formulas.trimmed(t[where], 0.5, "exact") for t in tau]
    for sign in (1.0, -1.0):  # one of the two has the other majority
        merged = pair.merged("ties", 'density = 0.5, scope = "tensor", cut = "exact", merge = "sum"', [sign, sign])
        close(merged, formulas.elected(kept, np.array([sign, sign]), "sum", "majority"))


def test_top_k(four: Models) -> None:
    tau = four.vectors()
    kept = np.stack([formulas.trimmed(t, 0.05, "at_least") for t in tau])
    close(four.merged("top_k"), kept.sum(0) / 4)
    kept = np.stack([formulas.trimmed(t, 0.1, "above") for t in tau])
    merged = four.merged("top_k", 'density = 0.1, cut = "above", divide = "overlap"')
    close(merged, kept.sum(0) / np.maximum((kept != 0).sum(0), 1))


@pytest.mark.parametrize("models", ["single", "pair", "many"])
def test_breadcrumbs_of_the_whole_vector(models: str, request: pytest.FixtureRequest) -> None:
    """Many magnitudes are equal: the earlier ones are the larger."""
    world: Models = request.getfixturevalue(models)
    tau = world.vectors()
    kept = np.stack([formulas.crumbs(t, 0.3, 0.05) for t in tau])
    close(world.merged("breadcrumbs", 'density = 0.3, gamma = 0.05, scope = "vector"'), kept.sum(0))
    expected = formulas.elected(kept, np.ones(world.count), "sum", "majority")
    close(world.merged("breadcrumbs_ties", 'density = 0.3, gamma = 0.05, scope = "vector"'), expected)


@pytest.mark.parametrize("models", ["single", "pair", "many"])
def test_consensus(models: str, request: pytest.FixtureRequest) -> None:
    world: Models = request.getfixturevalue(models)
    tau, ones = world.vectors(), np.ones(world.count)
    close(world.merged("consensus_ta", "tall_lambda = 0.3"), formulas.consensus(tau, tau.sum(0), 0.3, 2))
    merged = formulas.ties(tau, ones, 0.2, merge="sum")
    close(world.merged("consensus_ties", "least_tasks = 1"), formulas.consensus(tau, merged, 0.4, 1))


def test_dare_keeps_a_share_and_its_size(many: Models) -> None:
    single_model = Models(many.folder / "one", 1)
    tau = single_model.vectors()[0]
    merged = single_model.merged("dare_linear", "density = 0.25, seed = 3")
    kept = (np.abs(merged) > 1e-6) & (np.abs(tau) > 1e-6)
    there = np.abs(tau) > 1e-6
    share = kept.sum() / there.sum()
    assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / there.sum())
    close(merged[kept], 4 * tau[kept])
    assert np.array_equal(merged, single_model.merged("dare_linear", "density = 0.25, seed = 3"))
    assert not np.array_equal(merged, single_model.merged("dare_linear", "density = 0.25, seed = 4"))
    close(single_model.merged("dare_linear", "density = 1.0"), tau)
    # Alone, a model outvotes nobody.
    close(single_model.merged("dare_ties", "density = 0.25, seed = 3, rescale = false"), np.where(kept, tau, 0))


@pytest.mark.parametrize("scope", ["vector", "tensor"])
def test_dare_keeps_the_norm(four: Models, scope: str) -> None:
    """Each vector's L1 norm is what it was before numbers were dropped; of every tensor, where that is asked for."""
    density = "density = 0.4, seed = 2"
    alone = np.eye(4).tolist()
    kept = np.stack([four.merged("dare_linear", f"{density}, rescale = false", weights) for weights in alone])
    kept[np.abs(kept) < 1e-6] = 0  # θ0 + 0 is rounded
    tau, scaled = four.vectors(), np.zeros_like(kept)
    parts = formulas.parts(tau[0], four.base) if scope == "tensor" else [slice(None)]
    for where in parts:
        before, after = np.abs(tau[:, where]).sum(1), np.abs(kept[:, where]).sum(1)
        scaled[:, where] = kept[:, where] * (before / np.where(after > 0, after, before + 1))[:, None]
    l1 = f'{density}, rescale_by = "l1", scope = "{scope}"'
    close(four.merged("dare_linear", l1), scaled.sum(0), 2e-5)
    merged = four.merged("dare_ties", f'{l1}, zero_sign = "positive"')
    close(merged, formulas.elected(scaled, np.ones(4), "mean", "positive"), 2e-5)
    trimmed = np.zeros_like(scaled)
    for where in parts:
        trimmed[:, where] = [formulas.trimmed(row[where], 0.2, "at_least") if row[where].size else [] for row in scaled]
    merged = four.merged("dare_ties", f'{l1}, trim = 0.2, zero_sign = "positive"')
    close(merged, formulas.elected(trimmed, np.ones(4), "mean", "positive"), 2e-5)


def test_dare_draws_for_each_model_and_votes(pair: Models) -> None:
    tau = pair.vectors()
    ones = np.ones_like(tau)
    for method in ("dare_linear", "dare_ties"):
        merged = pair.merged(method, "density = 0.5, rescale = false")
        choices = [np.zeros(tau.shape[1]), tau[0], tau[1], tau.sum(0)]
        if method == "dare_ties":
            choices[3] = formulas.elected(tau, ones[:, 0], "mean", "majority")
        right = np.min([np.abs(merged - choice) for choice in choices], 0)
        # A cancelled place under the other majority is the one difference that is left open.
        assert np.mean(right < 1e-5) > (0.999 if method == "dare_linear" else 0.95)
        apart = (np.abs(tau[0]) > 0) & (np.abs(tau[1]) > 0) & (np.abs(tau[0] + tau[1]) > 0)
        both = np.abs(merged - choices[3])[apart & (np.abs(tau[0] - tau[1]) > 0)] < 1e-5
        assert 0.1 < both.mean() < 0.6


@pytest.mark.parametrize("of", ["models", "vectors"])
def test_slerp(of: str, pair: Models) -> None:
    merged = pair.merged("slerp", f't = 0.3, of = "{of}"')
    start, tau = formulas.flat(pair.base).astype(np.float64), pair.vectors()
    expected = np.zeros_like(start)
    for where in formulas.parts(start, pair.base):
        add = start[where] if of == "models" else 0 * start[where]
        expected[where] = formulas.slerp(add + tau[0][where], add + tau[1][where], 0.3) - add
    close(merged, expected)
    if of == "models":  # mergekit's recipe has no third model
        close(pair.merged("slerp", "t = 0.3", base_model=""), expected)


@pytest.mark.parametrize(("method", "formula"), [
    ("tsv_m", formulas.tsv_m), ("iso_c", formulas.iso_c), ("iso_cts", lambda d: formulas.iso_cts(d, 0.8)),
    ("wudi", lambda d: formulas.wudi(d, False, 300, 1)), ("cart", lambda d: formulas.cart(d, 0.12, 2)),
    ("dc_merge", lambda d: formulas.dc_merge(d, 1e-3, "none", 5))])
@pytest.mark.parametrize("models", ["four", "single", "pair", "many"])
def test_matrices(method: str, formula: Callable, models: str, request: pytest.FixtureRequest) -> None:
    """Embeddings are matrices to the methods on singular vectors, and no layer's to WUDI-Merging and CART."""
    world: Models = request.getfixturevalue(models)
    excluded = ["text_projection"] + ["embedding"] * (method in ("wudi", "cart"))
    expected = {}
    for name, shape in SHAPES.items():
        deltas = [tau[name] for tau in world.tau]
        matrix = len(shape) == 2 and name not in excluded and deltas[0].size
        expected[name] = formula(deltas) if matrix else np.mean(deltas, 0)
    close(world.merged(method), formulas.flat(expected), 2e-5)


def test_matrices_with_weights_and_nothing_excluded(four: Models) -> None:
    expected = {}
    for name, shape in SHAPES.items():
        deltas = [w * tau[name] for w, tau in zip(W, four.tau, strict=True)]
        expected[name] = formulas.iso_cts(deltas, 0.5) if len(shape) == 2 and deltas[0].size else np.mean(deltas, 0)
    close(four.merged("iso_cts", "exclude = [], common_space = 0.5", W), formulas.flat(expected), 2e-5)


@pytest.mark.parametrize(("method", "parameters", "formula"), [
    ("wudi", 'solution = "minimum"', lambda d: formulas.wudi(d, True, 300, 1)),
    ("wudi", "time = 3.0, rank_share = 0.4", lambda d: formulas.wudi(d, False, 3, 0.4)),
    ("cart", "rank_share = 0.5, centred_scale = 0.7", lambda d: formulas.cart(d, 0.5, 0.7)),
    ("cart", "rank_share = 1.0", lambda d: np.mean(d, 0)),  # what is left out of each distance is nothing
    ("dc_merge", 'density = 0.1, smoothing = "average"', lambda d: formulas.dc_merge(d, 0.1, "average", 5)),
    ("dc_merge", 'density = 0.3, smoothing = "linear", rho = 1.2', lambda d: formulas.dc_merge(d, 0.3, "linear", 1.2)),
])
def test_parameters_of_methods_on_matrices(method: str, parameters: str, formula: Callable, four: Models) -> None:
    expected = {}
    for name, shape in SHAPES.items():
        deltas = [w * tau[name] for w, tau in zip(W, four.tau, strict=True)]
        expected[name] = formula(deltas) if len(shape) == 2 and deltas[0].size else np.mean(deltas, 0)
    close(four.merged(method, f"exclude = [], {parameters}", W), formulas.flat(expected), 2e-5)


def test_the_minimum_interferes_least(four: Models) -> None:
    """Nor does a vector that is zero count: no direction is its own."""
    where = dict(zip(sorted(SHAPES), formulas.parts(formulas.flat(four.base), four.base), strict=True))["layer.weight"]
    deltas = [torch.tensor(tau["layer.weight"]) for tau in four.tau]
    least = torch.tensor(four.merged("wudi", 'solution = "minimum"')[where].reshape(24, 20), requires_grad=True)
    interference = sum((((least - delta) @ delta.T) ** 2).sum() / (delta**2).sum() for delta in deltas)
    interference.backward()
    assert least.grad.abs().max() < 1e-5 * interference
    without = four.merged("wudi", "", [1.0, 0.0, 1.0, 1.0])[where].reshape(24, 20)
    close(without, formulas.wudi([four.tau[t]["layer.weight"] for t in (0, 2, 3)], False, 300, 1), 2e-5)


def test_more_models_than_singular_vectors(many: Models) -> None:
    merged = many.merged("tsv_m")
    where = dict(zip(sorted(SHAPES), formulas.parts(merged, many.base), strict=True))
    assert np.abs(merged[where["layer.weight"]]).max() < 1e-6 < np.abs(merged[where["conv"]]).max()


def test_sums_of_variances_are_variances(tmp_path: Path) -> None:
    """Statistics of batch norm are merged as weights are; θ0 + Σ τ of two that became smaller is below zero."""
    base = {"bn1.running_var": np.array([1.0, 2.0, 4.0], np.float32), "bn1.running_mean": np.ones(3, np.float32)}
    for name, share in (("base", 1.0), ("m0", 0.25), ("m1", 0.5)):
        write_model(tmp_path / name, {key: (share * x).astype(np.float32) for key, x in base.items()})
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('merge_method = "task_arithmetic"\nbase_model = "base"\nout = "out"\n'
                      'models = [{ model = "m0" }, { model = "m1" }]\n')
    done = call(recipe)
    assert done.returncode == 0, done.stderr
    merged = load_file(tmp_path / "out/model.safetensors")
    assert np.array_equal(merged["bn1.running_var"], np.zeros(3, np.float32))
    assert np.array_equal(merged["bn1.running_mean"], np.full(3, -0.25, np.float32))


def test_the_folder(four: Models) -> None:
    first = four.merged("ties", "lambda = 0.4", W)
    out = four.folder / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md", "config.json", "merge.toml", "model.safetensors", "vocab.txt"]
    assert (out / "config.json").read_bytes() == (four.folder / "base" / "config.json").read_bytes()
    with safe_open(out / "model.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt"}
    record = tomllib.loads((out / "merge.toml").read_text())
    assert record["merge_method"] == "ties" and [m["weight"] for m in record["models"]] == W
    assert record["parameters"] == {"density": 0.2, "scope": "vector", "cut": "at_least", "merge": "mean",
                                    "zero_sign": "majority", "lambda": 0.4}
    # It is a recipe that makes the same folder.
    again = four.folder / "again.toml"
    shutil.copy(out / "merge.toml", again)
    bytes_before = {path.name: path.read_bytes() for path in out.iterdir()}
    shutil.rmtree(out)
    assert call(again).returncode == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == bytes_before
    assert np.array_equal(first, four.merged("ties", "lambda = 0.4", W))


def test_the_modules_of_a_sentence_model_come_along(tmp_path: Path) -> None:
    models = Models(tmp_path / "models", 2)
    pooling, others = models.folder / "base" / "1_Pooling", ["base/.cache", "base/runs", "base/checkpoint-10"]
    modules = [{"path": ""}, {"path": "1_Pooling"}]
    (models.folder / "base" / "modules.json").write_text(json.dumps(modules))
    for folder in (pooling, *(models.folder / name for name in others)):
        folder.mkdir()
        (folder / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (pooling / "pytorch_model.bin").write_bytes(b"old")
    done = call(models.recipe("linear", out='"deep/out/"'))  # with a slash, as shells complete names
    assert done.returncode == 0, done.stderr
    out = models.folder / "deep" / "out"
    file_names = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    assert file_names == ["1_Pooling/config.json", "README.md", "config.json", "merge.toml", "model.safetensors",
                          "modules.json", "vocab.txt"]
    assert (out / "1_Pooling" / "config.json").read_bytes() == (pooling / "config.json").read_bytes()


def test_more_than_nine_models_keep_their_order(many: Models) -> None:
    many.merged("task_arithmetic", "", [float(t) / 64 for t in range(70)])
    record = tomllib.loads((many.folder / "out" / "merge.toml").read_text())
    assert [m["weight"] for m in record["models"]] == [t / 64 for t in range(70)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_parts(dtype: torch.dtype, tmp_path: Path) -> None:
    torch.manual_seed(0)
    base = {"a": torch.randn(300, 20).to(dtype), "b": torch.randn(50), "n": torch.arange(3)}
    models = [{name: x + torch.randn(x.shape).to(x.dtype) / 8 if x.is_floating_point() else x
               for name, x in base.items()} for _ in range(3)]
    for folder, tensors in (("base", base), *((f"m{t}", model) for t, model in enumerate(models))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "config.json").write_text("{}")
        if folder == "m1":  # parts of one are another's whole
            save_torch(tensors, tmp_path / folder / "model.safetensors")
            continue
        names = {"model-00001-of-00002.safetensors": ["a"], "model-00002-of-00002.safetensors": ["b", "n"]}
        for file, inside in names.items():
            save_torch({name: tensors[name] for name in inside}, tmp_path / folder / file)
        index = {"weight_map": {name: file for file, inside in names.items() for name in inside}}
        (tmp_path / folder / "model.safetensors.index.json").write_text(json.dumps(index))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('merge_method = "linear"\nout = "deep/out"\n' +
                      "".join(f'[[models]]\nmodel = "m{t}"\n' for t in range(3)))
    done = call(recipe)
    assert done.returncode == 0, done.stderr
    # The base is the first model; its parts are the result's.
    out = tmp_path / "deep" / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        "README.md", "config.json", "merge.toml", "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    merged = load_torch(out / "model-00001-of-00002.safetensors") | load_torch(out / "model-00002-of-00002.safetensors")
    for name in ("a", "b"):
        mean = torch.stack([model[name].double() for model in models]).mean(0)
        assert merged[name].dtype == base[name].dtype
        # Half a unit in the last place, and float32's own error beside it.
        unit = torch.finfo(base[name].dtype).eps * mean.abs().clamp_min(1e-3)
        assert ((merged[name].double() - mean).abs() <= unit * 0.51 + 1e-6).all()
    assert torch.equal(merged["n"], base["n"])


def refused(done: subprocess.CompletedProcess[str], folder: Path, *expected: str) -> None:
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and len(lines) == 1 and lines[0].startswith("taugrid: error: "), done.stderr
    for text in expected:
        assert text in lines[0], lines[0]
    assert not (folder / "out").exists() and not [p for p in folder.rglob("*") if ".partial" in p.name]


@pytest.mark.parametrize(("change", "expected"), [
    ({"method": "tise"}, ["merge_method", "tise", "did you mean ties"]),
    ({"method": "ties", "parameters": "density = 0"}, ["parameters.density", "above 0 and at most 1"]),
    ({"method": "ties", "parameters": "density = 1.5"}, ["parameters.density", "1.5"]),
    ({"method": "dare_linear", "parameters": "density = 0.0"}, ["parameters.density", "above 0"]),
    ({"method": "dare_linear", "parameters": 'rescale_by = "l2"'}, ["parameters.rescale_by", "density, l1"]),
    ({"method": "dare_ties", "parameters": 'rescale = false, rescale_by = "l1"'}, ["rescale_by", "rescale = false"]),
    ({"method": "dare_linear", "parameters": 'scope = "tensor"'}, ["parameters.scope", 'rescale_by = "l1"']),
    ({"method": "consensus_ta", "parameters": "least_tasks = 5"}, ["models", "least_tasks is 5", "the 4 models"]),
    ({"method": "consensus_ta", "parameters": "tall_lambda = [0.4, 0.5]"}, ["tall_lambda has 2", "each of 4 models"]),
    ({"method": "ties", "parameters": "something_else = 1"}, ["keys --recipe those of recipes"]),
    ({"method": "ties", "parameters": "denisty = 0.5"}, ["denisty", "did you mean parameters.density"]),
    ({"method": "linear", "parameters": "density = 0.5"}, ["unknown key parameters.density"]),
    ({"method": "ties", "wieght": "1"}, ["unknown key wieght"]),
    ({"method": "ties", "models": '[{ model = "m0", wieght = 1.0 }]'},
     ["models.#1.wieght", "did you mean models.#1.weight"]),
    ({"method": "ties", "models": "[]"}, ["models", "list of tables"]),
    ({"method": "ties", "models": ""}, ["models", "list of tables"]),
    ({"method": "ties", "models": '["m0"]'}, ["models.#1"]),
    ({"method": "ties", "models": '[{ model = "m0" }, { model = "nowhere" }]'}, ["nowhere", "no folder"]),
    ({"method": "ties", "base_model": '"empty"'}, ["empty", "neither model.safetensors"]),
    ({"method": "ties", "base_model": ""}, ["base_model", "ties"]),
    ({"method": "ties", "weights": [1, 1, -1, 1]}, ["weights of at least 0"]),
    ({"method": "linear", "weights": [1, -1, 1, -1]}, ["add up to 0"]),
    ({"method": "linear", "weights": [0.1, 0.2, -0.2, -0.1]}, ["add up to 0"]),  # but for rounding
    ({"method": "linear", "base_model": "", "parameters": "lambda = 0.5"}, ["base_model", "linear with lambda"]),
    ({"method": "ties", "parameters": "normalize = false"}, ["unknown key parameters.normalize"]),
    ({"method": "linear", "parameters": "normalize = false, calibration = 0.3"},
     ["parameters.calibration", "task vectors", "linear"]),
    ({"method": "iso_c", "parameters": "calibration = -1"}, ["parameters.calibration", "0 to 1000"]),
    ({"method": "slerp"}, ["slerp", "two models", "4"]),
    ({"method": "ties", "out": '"m2"'}, ["m2", "input of this merge"]),
    ({"method": "ties", "out": '"full"'}, ["full", "there already"]),
    ({"method": "ties", "out": ""}, ["out", "missing"]),
])
def test_wrong_recipes(four: Models, change: dict, expected: list[str]) -> None:
    shutil.rmtree(four.folder / "out", ignore_errors=True)
    (four.folder / "empty").mkdir(exist_ok=True)
    (four.folder / "full" / "something").mkdir(parents=True, exist_ok=True)
    recipe = four.recipe(**change)
    before = sorted(path for path in four.folder.rglob("*"))
    refused(call(recipe), four.folder, *expected)
    assert sorted(path for path in four.folder.rglob("*")) == before


def spoil(folder: Path, how: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    if how == "shape":
        tensors["layer.bias"] = tensors["layer.bias"][:-1]
    elif how == "dtype":
        tensors["layer.bias"] = tensors["layer.bias"].astype(np.float64)
    elif how == "missing":
        del tensors["layer.bias"]
    elif how == "more":
        tensors["more"] = tensors["layer.bias"] + 1
    elif how == "nan":
        tensors["layer.bias"][3] = np.nan
    # Our own checkpoints name the θ0 that they began with.
    save_file(tensors, folder / "model.safetensors", {"theta0": "bbbb"} if how == "start" else None)


@pytest.mark.parametrize(("how", "expected"), [
    ("shape", ["m1", "base", '"layer.bias" is Float [23]', "Float [24]"]),
    ("dtype", ["m1", "Double", "float16 or bfloat16"]),
    ("missing", ["m1", "base", 'no tensor "layer.bias"']), ("more", ["m1", "base", 'has a tensor "more"']),
    ("nan", ["m1", "layer.bias", "NaN"]), ("start", ["m1", "θ0 (bbbb)", "m0 (aaaa)"])])
def test_models_that_do_not_fit(tmp_path: Path, how: str, expected: list[str]) -> None:
    models = Models(tmp_path / "models", 2)
    weights = models.folder / "m0" / "model.safetensors"
    save_file(load_file(weights), weights, {"theta0": "aaaa"})
    spoil(models.folder / "m1", how)
    refused(call(models.recipe("ties", out='"new/folder/out"')), models.folder, *expected)
    assert not (models.folder / "new").exists()


def test_a_mean_of_models_of_two_starts(tmp_path: Path) -> None:
    models = Models(tmp_path / "models", 2)
    spoil(models.folder / "m1", "start")
    close(models.merged("linear"), models.vectors().mean(0))


def test_the_base_among_the_models(four: Models) -> None:
    models = '[{ model = "m0" }, { model = "base" }]'
    refused(call(four.recipe("top_k", models=models)), four.folder, "models.#2.model", "base_model", "leave it out")
    base, tau = formulas.flat(four.base).astype(np.float64), four.vectors()[0]
    for part in (0.0, 0.25):  # it is where t begins, whichever of the two it is
        merged = four.merged("slerp", f"t = {part}", models=models)
        expected = np.concatenate([formulas.slerp(base[where], (base + tau)[where], part) - base[where]
                                   for where in formulas.parts(base, four.base)])
        close(merged, expected)


def test_mapped_pages_are_those_of_the_merge(tmp_path: Path) -> None:
    """While the inputs are mapped: with 8 MB more in each of three, there are 24 MB more."""
    models = Models(tmp_path / "models", 2)
    mapped = []
    for more in ({}, {"large": np.ones(2_000_000, np.float32)}):
        for name in ("base", "m0", "m1"):
            path = models.folder / name / "model.safetensors"
            save_file(load_file(path) | more, path)
        shutil.rmtree(models.folder / "out", ignore_errors=True)
        done = call(models.recipe("ties"))
        assert done.returncode == 0, done.stderr
        line = r"anonymous memory \d+ MiB, \d+ before the first block; mapped pages (\d+) MiB"
        match = re.search(line, done.stdout)
        assert match, done.stdout
        mapped.append(int(match[1]))
    assert mapped[1] - mapped[0] >= 3 * 8e6 / 2**20 - 2  # both are rounded


def test_a_base_in_double_precision(tmp_path: Path) -> None:
    models = Models(tmp_path / "models", 2)
    for name in ("base", "m0", "m1"):
        path = models.folder / name / "model.safetensors"
        save_file({key: x.astype(np.float64) for key, x in load_file(path).items()}, path)
    refused(call(models.recipe("linear")), models.folder, "Double", "float32, float16 or bfloat16")


def test_an_index_that_leads_elsewhere(tmp_path: Path) -> None:
    models = Models(tmp_path / "models", 2)
    weights = models.folder / "m0" / "model.safetensors"
    weights.rename(tmp_path / "model.safetensors")
    index = {"weight_map": {"layer.bias": "../../model.safetensors"}}
    (models.folder / "m0" / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(call(models.recipe("linear")), models.folder, "index.json", "names a part")


def test_an_index_that_is_a_folder(tmp_path: Path) -> None:
    models = Models(tmp_path / "models", 2)
    (models.folder / "m0" / "model.safetensors").unlink()
    (models.folder / "m0" / "model.safetensors.index.json").mkdir()
    refused(call(models.recipe("linear")), models.folder, "m0", "index.json", "is no file")


def test_slerp_of_vectors_needs_their_base(pair: Models) -> None:
    shutil.rmtree(pair.folder / "out", ignore_errors=True)
    refused(call(pair.recipe("slerp", 'of = "vectors"', base_model="")), pair.folder, "base_model", "slerp")


def test_the_document_is_what_the_program_prints() -> None:
    command = [launch.PROGRAM, "keys", "--recipe", "--markdown"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (PROJECT / "docs" / "merge.md").read_text() == done.stdout, \
        "renew it with: taugrid keys --recipe --markdown > docs/merge.md"
    for key in ("merge_method", "base_model", "weight", "density", "tall_lambda", "common_space", "zero_sign"):
        assert f"| `{key}` |" in done.stdout


def memory(models: Models, method: str) -> float:
    """MiB that were anonymous at the most, above those before the first block."""
    shutil.rmtree(models.folder / "out", ignore_errors=True)
    done = call(models.recipe(method))
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("anonymous memory"))
    return float(line.split()[2]) - float(line.split()[4])


def large_models(folder: Path, count: int, shapes: dict[str, tuple[int, ...]]) -> Models:
    random = np.random.default_rng(0)
    for name in ("base", *(f"m{t}" for t in range(count))):
        (folder / name).mkdir(parents=True)
        save_file({key: random.standard_normal(shape, np.float32) for key, shape in shapes.items()},
                  folder / name / "model.safetensors")
        (folder / name / "config.json").write_text("{}")
    models = object.__new__(Models)
    models.folder, models.count = folder, count
    return models


def test_memory_does_not_grow_with_the_models(tmp_path: Path) -> None:
    """Models of 64 MB: what is anonymous stays far below one of them."""
    models = large_models(tmp_path / "models", 4, {"w": (16_000_000,)})
    peaks = []
    for count in (1, 4):
        models.count = count
        peaks.append(memory(models, "ties"))
    assert max(peaks) < 56 and peaks[1] < peaks[0] + 30, peaks  # seen, in no order: 9 to 23 for 1 to 4 models


def test_memory_where_numbers_are_not_aligned(tmp_path: Path) -> None:
    """Copies are of stretches, far smaller than one of the models, and change no number."""
    models = large_models(tmp_path / "models", 4, {"w": (16_000_000,)})
    assert call(models.recipe("ties")).returncode == 0
    expected = load_file(models.folder / "out" / "model.safetensors")["w"]
    for path in models.folder.glob("*/model.safetensors"):
        if path.parent.name != "out":
            misaligned(path)
    assert memory(models, "ties") < 56
    np.testing.assert_array_equal(load_file(models.folder / "out" / "model.safetensors")["w"], expected)


@pytest.mark.parametrize("method", ["tsv_m", "iso_c"])
def test_memory_of_matrices_is_that_of_one_and_its_factors(tmp_path: Path, method: str) -> None:
    """Four models of 128 MB in matrices of 2 MB: two blocks a vector, what a factorisation holds of one matrix in
    double, and what the allocator keeps; less than one model, be they one or four."""
    models = large_models(tmp_path / "models", 4, {f"w{i:02}": (32, 16384) for i in range(64)})
    peaks = []
    for count in (1, 4):
        models.count = count
        peaks.append(memory(models, method))
    assert max(peaks) < 120, peaks


def test_memory_of_matrices_that_are_not_aligned(tmp_path: Path) -> None:
    """Beside the vectors' matrices of 32 MB lies a copy of one model's, not one of each, while they are factored."""
    models = large_models(tmp_path / "models", 5, {"w": (32, 262144)})
    aligned = memory(models, "iso_c")
    expected = load_file(models.folder / "out" / "model.safetensors")["w"]
    for path in models.folder.glob("*/model.safetensors"):
        if path.parent.name != "out":
            misaligned(path)
    assert memory(models, "iso_c") < aligned + 2.5 * 32
    np.testing.assert_array_equal(load_file(models.folder / "out" / "model.safetensors")["w"], expected)
