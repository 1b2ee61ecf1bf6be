# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""mergekit's recipes: each form is read, and gives mergekit's own tensors, or is refused by a line that says why.

The forms are those of mergekit's examples and of model cards, with folders of small Llamas in place of their models.
Both compute in float32 (mergekit's `dtype: float32`) and write `out_dtype`. Sums, interpolation and stacked layers are
mergekit's to the last bit; methods on vectors and directions to the rounding of their sums; of DARE and DELLA, where
chance chooses, the share that is kept and the sizes are compared.
"""

import json
import shutil
import tomllib
from pathlib import Path

import launch
import peer_mergekit
import pytest
import torch
import transformers
from safetensors.torch import load_file

LAYERS = 4
Tensors = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def llamas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base and three models of it, the last of which is so far away that SLERP leaves the straight line."""
    folder = tmp_path_factory.mktemp("llamas")
    config = transformers.LlamaConfig(hidden_size=32, num_hidden_layers=LAYERS, num_attention_heads=2,
                                      intermediate_size=48, vocab_size=100)
    torch.manual_seed(0)
    base = transformers.LlamaForCausalLM(config)
    base.save_pretrained(folder / "base")
    for name, size in (("a", 0.0002), ("b", 0.0003), ("far", 0.02)):
        model = transformers.LlamaForCausalLM(config)
        with torch.no_grad():
            for mine, its in zip(model.parameters(), base.parameters(), strict=True):
                mine.copy_(its + size * torch.randn_like(its))
        model.save_pretrained(folder / name)
    return folder


def tensors(folder: Path) -> Tensors:
    return {name: x for path in sorted(folder.glob("*.safetensors")) for name, x in load_file(path).items()}


def ours(folder: Path, text: str) -> Path:
    (folder / "recipe.yml").write_text(text)
    out = folder / "ours"
    shutil.rmtree(out, ignore_errors=True)
    done = launch.run(1, "merge", folder / "recipe.yml", out)
    assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
    return out


def theirs(folder: Path, text: str) -> Path:
    return peer_mergekit.merge(text, folder / "theirs", copy_tokenizer=False, random_seed=0)


def models(*entries: str) -> str:
    return "models:\n" + "".join(f"  - {entry}\n" for entry in entries)


TWO = models("{model: a, parameters: {weight: 0.3}}", "{model: b, parameters: {weight: 0.6}}")
GRADIENTS = {
    "a list": "[0, 0.5, 0.3, 0.7, 1]",
    "two": "[0.2, 0.9]",
    "filters": "[{filter: self_attn, value: [0, 0.5, 0.3, 0.7, 1]}, {filter: mlp, value: [1, 0.5, 0.7, 0.3, 0]}, "
               "{value: 0.5}]",
    "one filter and the rest": "[{filter: embed_tokens, value: 0.1}, {filter: lm_head, value: 0.9}, {value: 0.4}]",
    "a star": "[{filter: layers.2, value: 1.0}, {filter: '*', value: 0.25}]",
}
SLERPS = {
    f"slerp of {name}": models("model: base", "model: a") + "merge_method: slerp\nbase_model: base\n"
    f"parameters: {{t: {value}}}\n"
    for name, value in ({"a number": "0.3"} | GRADIENTS).items()
}
BITWISE = {
    "linear": TWO + "merge_method: linear\n",
    "linear of three": models("{model: a, parameters: {weight: 1.0}}", "{model: b, parameters: {weight: 0.3}}",
                              "{model: far, parameters: {weight: 0.5}}") + "merge_method: linear\n",
    "linear, not normalised": TWO + "merge_method: linear\nparameters: {normalize: false}\n",
    "linear with one weight": models("model: a", "model: b") + "merge_method: linear\nparameters: {weight: 1}\n",
    "linear with its base": models("{model: base, parameters: {weight: 0.5}}", "{model: a, parameters: {weight: 0.7}}")
    + "merge_method: linear\nbase_model: base\n",
    "linear with gradients": models(
        "{model: a, parameters: {weight: [0, 0.3, 0.7, 1]}}", "{model: b, parameters: {weight: [1, 0.2]}}"
    ) + "merge_method: linear\n",
    "linear with filters": models(
        "{model: a, parameters: {weight: [{filter: mlp, value: 0.7}, {value: 0.2}]}}",
        "{model: b, parameters: {weight: [{filter: norm, value: 0.1}, {filter: q_proj, value: [0.3, 0.4]}, "
        "{value: 1}]}}",
    ) + "merge_method: linear\n",
    "linear, a filter and the recipe's": models(
        "{model: a, parameters: {weight: {filter: mlp, value: 0.7}}}", "{model: b, parameters: {weight: 0.4}}"
    ) + "merge_method: linear\nparameters: {weight: 0.9}\n",
    "anchors": "w: &w {weight: 0.25}\n".replace("w: ", "parameters: ") + models(
        "{model: a, parameters: *w}", "{model: b, parameters: {weight: 0.5}}") + "merge_method: linear\n",
    "task arithmetic": TWO + "merge_method: task_arithmetic\nbase_model: base\n",
    "task arithmetic, normalised": TWO + "merge_method: task_arithmetic\nbase_model: base\n"
    "parameters: {normalize: true, int8_mask: true}\n",
    "task arithmetic, the base listed": models(
        "model: base", "{model: a, parameters: {weight: -0.3}}", "{model: b, parameters: {weight: 1e-1}}"
    ) + "merge_method: task_arithmetic\nbase_model: base\n",
    "task arithmetic with gradients": models(
        "{model: a, parameters: {weight: [0, 1]}}", "{model: b, parameters: {weight: [1, 0.5, 0]}}"
    ) + "merge_method: task_arithmetic\nbase_model: base\n",
    **SLERPS,
    "slerp, the other order": models("model: a", "model: base")
    + "merge_method: slerp\nbase_model: base\nparameters: {t: 0.7}\n",
    "slerp without its base listed": models("model: b") + "merge_method: slerp\nbase_model: a\nparameters: {t: 0.2}\n",
    "slerp of slices": "slices:\n  - sources:\n      - {model: base, layer_range: [0, 4]}\n"
    "      - {model: b, layer_range: [0, 4]}\nmerge_method: slerp\nbase_model: base\nparameters:\n  t:\n"
    "    - filter: self_attn\n      value: [0, 0.5, 0.3, 0.7, 1]\n    - value: 0.5\n",
    "slerp of two slices": "slices:\n"
    "  - sources: [{model: a, layer_range: [0, 2]}, {model: b, layer_range: [0, 2]}]\n    parameters: {t: 0.1}\n"
    "  - sources: [{model: a, layer_range: [1, 4]}, {model: b, layer_range: [1, 4]}]\n"
    "merge_method: slerp\nbase_model: a\nparameters: {t: [0.3, 0.8]}\n",
    "passthrough": models("model: a") + "merge_method: passthrough\n",
    "passthrough, scaled": models("{model: a, parameters: {scale: [{filter: o_proj, value: 0.5}, "
                                  "{filter: down_proj, value: [0.1, 0.9]}, {value: 1.0}]}}")
    + "merge_method: passthrough\n",
    "a stack": "slices:\n- sources:\n  - model: a\n    layer_range: [0, 3]\n- sources:\n  - model: b\n"
    "    layer_range: [1, 4]\nmerge_method: passthrough\n",
    "a stack of one model": "slices:\n- sources: [{model: a, layer_range: [0, 3]}]\n"
    "- sources: [{model: a, layer_range: [1, 3]}]\n- sources: [{model: a, layer_range: [2, 4]}]\n"
    "merge_method: passthrough\n",
    "a stack with zeroed layers": "slices:\n- sources: [{model: a, layer_range: [0, 4]}]\n- sources:\n"
    "  - model: a\n    layer_range: [2, 4]\n    parameters:\n      scale:\n      - {filter: o_proj, value: 0.0}\n"
    "      - {filter: down_proj, value: 0.0}\n      - value: 1.0\nmerge_method: passthrough\n",
    "layers left out": "slices:\n- sources: [{model: b, layer_range: [0, 1]}]\n"
    "- sources: [{model: b, layer_range: [3, 4]}]\nmerge_method: passthrough\n",
    "linear of slices": "slices:\n- sources: [{model: a, layer_range: [0, 2], parameters: {weight: 0.3}}, "
    "{model: b, layer_range: [2, 4], parameters: {weight: [1, 0.5]}}]\n"
    "- sources: [{model: b, layer_range: [1, 4], parameters: {weight: 1}}]\nmerge_method: linear\n",
    "task arithmetic of slices": "slices:\n- sources: [{model: base, layer_range: [0, 4]}, "
    "{model: a, layer_range: [0, 4], parameters: {weight: [0.2, 1]}}]\nmerge_method: task_arithmetic\n"
    "base_model: base\n",
}


def test_a_head_that_is_called_an_embedding_is_the_last_slices(tmp_path: Path) -> None:
    """GPT-NeoX's embed_out. mergekit asks for tensors that transformers no longer stores of it."""
    for number, name in enumerate(("a", "b")):
        torch.manual_seed(number)
        transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, vocab_size=100,
        )).save_pretrained(tmp_path / name)
    text = "slices:\n- sources: [{model: a, layer_range: [0, 1]}]\n- sources: [{model: b, layer_range: [1, 2]}]\n"
    text += "merge_method: passthrough\ndtype: float32\n"
    merged, first, second = tensors(ours(tmp_path, text)), tensors(tmp_path / "a"), tensors(tmp_path / "b")
    assert merged.keys() == first.keys()
    for name, x in merged.items():
        of_first = "embed_in" in name or "layers.0." in name
        assert torch.equal(x, (first if of_first else second)[name]), name


def in_toml(folder: Path, out: str, parameters: str, more: str = "") -> Tensors | str:
    """What a recipe in TOML makes of a and b, or the line that says why not."""
    shutil.rmtree(folder / out, ignore_errors=True)
    path = folder / f"{out}.toml"
    path.write_text(f'merge_method = "ties"\nbase_model = "base"\nout = "{out}"\nmodels = [ {{ model = "a"{more} }}, '
                    f'{{ model = "b" }} ]\nparameters = {{ density = 0.3, {parameters} }}\n')
    done = launch.run(1, "merge", path)
    return tensors(folder / out) if done.returncode == 0 else done.stderr


def test_lambda_by_layers_leaves_the_cut_of_the_whole_vector(llamas: Path) -> None:
    whole = in_toml(llamas, "one", "lambda = 1.0")
    each = in_toml(llamas, "each", "lambda = [ { filter = \"mlp\", value = 0.5 }, { filter = \"self_attn\", value = "
                                   "[0.2, 0.9] }, { value = 1.5 } ]")
    assert isinstance(whole, dict) and isinstance(each, dict), each
    for name, start in tensors(llamas / "base").items():
        factor = 0.5 if "mlp" in name else 1.5
        if "self_attn" in name:
            factor = 0.2 + 0.7 * int(name.split(".")[2]) / (LAYERS - 1)
        tau = (whole[name].double() - start) * factor
        assert (each[name].double() - start - tau).abs().max() < 1e-6 * max(1, float(start.abs().max())), name


def test_weights_by_tensor_are_no_whole_vectors(llamas: Path) -> None:
    """Else a cut would be of each run of tensors, and another one."""
    weight = ', weight = [ { filter = "mlp", value = 0.5 }, { value = 1.0 } ]'
    line = in_toml(llamas, "out", "lambda = 1.0", weight)
    assert isinstance(line, str) and line.count("\n") == 1
    assert 'numbers differ between tensors, and ties looks at the whole vector; expected scope = "tensor"' in line
    assert isinstance(in_toml(llamas, "out", 'scope = "tensor", zero_sign = "positive"', weight), dict)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", BITWISE)
def test_tensors_are_mergekits(name: str, dtype: str, llamas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(llamas)
    text = BITWISE[name] + f"dtype: float32\nout_dtype: {dtype}\n"
    ours(llamas, text)
    theirs(llamas, text)
    mine, its = tensors(llamas / "ours"), tensors(llamas / "theirs")
    assert set(mine) == set(its)
    for tensor, expected in its.items():
        assert mine[tensor].dtype == expected.dtype == getattr(torch, dtype)
        assert peer_mergekit.is_same(mine[tensor], expected), tensor
    model = transformers.AutoModelForCausalLM.from_pretrained(llamas / "ours")
    its_config = json.loads((llamas / "theirs/config.json").read_text())
    assert model.config.num_hidden_layers == its_config["num_hidden_layers"]


@pytest.mark.parametrize("t", [0.3, 0.5])
def test_models_far_apart_are_mergekits_but_for_rounding(t: float, llamas: Path,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    """sin and arccos of float32 there, of float64 here."""
    monkeypatch.chdir(llamas)
    text = (models("model: base", "model: far") + f"merge_method: slerp\nbase_model: base\nparameters: {{t: {t}}}\n"
            "dtype: float32\n")
    mine, its = tensors(ours(llamas, text)), tensors(theirs(llamas, text))
    straight = tensors(ours(llamas, text.replace("slerp", "linear").replace("base_model: base\n", "")
                            .replace(f"t: {t}", "weight: 1")))
    for tensor, expected in its.items():
        assert (mine[tensor] - expected).abs().max() <= 4e-6 * expected.abs().max(), tensor
    assert any((straight[x] - its[x]).abs().max() > 1e-2 * its[x].abs().max() for x in its)


MODELS = {
    "nuslerp": TWO + "merge_method: nuslerp\n",
    "nuslerp of models far apart": models("{model: far, parameters: {weight: 0.3}}", "{model: a, parameters: "
                                          "{weight: 0.6}}") + "merge_method: nuslerp\n",
    "multislerp": models("{model: a, parameters: {weight: 0.4}}", "{model: far, parameters: {weight: 0.3}}",
                         "{model: b, parameters: {weight: [{filter: mlp, value: 1}, {value: 2}]}}")
    + "merge_method: multislerp\n",
    "karcher": models("model: a", "model: b", "model: far") + "merge_method: karcher\n",
    "karcher of two": models("model: a", "model: far")
    + "merge_method: karcher\nparameters: {max_iter: 3, tol: 1e-4}\n",
    "karcher with its base": models("model: a", "model: base", "model: far")
    + "merge_method: karcher\nbase_model: base\n",
}


@pytest.mark.parametrize("name", MODELS)
def test_directions_of_models_are_mergekits(name: str, llamas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inner products and angles of float32 there, of float64 here."""
    monkeypatch.chdir(llamas)
    text = MODELS[name] + "dtype: float32\n"
    mine, its = tensors(ours(llamas, text)), tensors(theirs(llamas, text))
    for tensor, expected in its.items():
        assert (mine[tensor] - expected).abs().max() <= 1e-6 * expected.abs().max(), tensor


TIES = {
    "as in the examples": models(
        "{model: a, parameters: {density: [1, 0.7, 0.1], weight: 1.0}}",
        "{model: b, parameters: {density: 0.5, weight: [0, 0.3, 0.7, 1]}}",
        "{model: far, parameters: {density: 0.33, weight: [{filter: mlp, value: 0.5}, {value: 0}]}}",
    ) + "parameters: {normalize: true, int8_mask: true}\n",
    "summed": models("{model: a, parameters: {density: 0.5, weight: 0.5}}",
                     "{model: b, parameters: {density: 0.5, weight: 0.5}}") + "parameters: {normalize: false}\n",
    "the recipe's numbers": models("model: base", "model: a", "model: b")
    + "parameters: {weight: 0.8, density: 0.4, lambda: 0.7}\n",
    "all of them": models("{model: a, parameters: {weight: 1}}", "{model: b, parameters: {weight: 2}}"),
    "filters of density": models("model: a", "model: b")
    + "parameters: {weight: 1, density: [{filter: self_attn, value: [0.2, 0.9]}, {filter: mlp, value: 0.3}]}\n",
    "lambda over layers": models("model: a", "model: b") + "parameters: {weight: 1, density: 0.5, lambda: [0.2, 1]}\n",
}


VECTORS = {name: text + "merge_method: ties\n" for name, text in TIES.items()} | {
    "breadcrumbs": models(
        "{model: a, parameters: {density: [1, 0.7, 0.1], weight: 1.0, gamma: 0.05}}",
        "{model: b, parameters: {density: 0.5, weight: [0, 0.3, 0.7, 1], gamma: [{filter: mlp, value: 0.2}, "
        "{value: 0}]}}",
        "{model: far, parameters: {density: 0.33, weight: 0.1}}",
    ) + "merge_method: breadcrumbs\nparameters: {gamma: 0.02}\n",
    "breadcrumbs, normalised": TWO + "merge_method: breadcrumbs\n"
    "parameters: {density: 0.6, gamma: {filter: self_attn, value: 0.3}, normalize: true, lambda: 0.7}\n",
    "breadcrumbs as they are": TWO + "merge_method: breadcrumbs\n",
    "breadcrumbs of slices": "slices:\n- sources: [{model: base, layer_range: [0, 4]}, "
    "{model: a, layer_range: [0, 4], parameters: {weight: 1, gamma: 0.2}}]\n"
    "  parameters: {density: 0.5}\nmerge_method: breadcrumbs\n",
    "breadcrumbs and an election": TWO + "merge_method: breadcrumbs_ties\nparameters: {density: 0.6, gamma: 0.1}\n",
    "breadcrumbs and a mean": TWO + "merge_method: breadcrumbs_ties\n"
    "parameters: {density: 0.6, normalize: true, int8_mask: true}\n",
    "nuslerp of vectors": models("{model: b, parameters: {weight: 1}}", "{model: a, parameters: {weight: [3, 0.5]}}")
    + "merge_method: nuslerp\nparameters: {nuslerp_flatten: true}\n",
    "nuslerp along the last dimension": TWO + "merge_method: nuslerp\nparameters: {nuslerp_flatten: false}\n",
    "nuslerp along the first dimension": TWO
    + "merge_method: nuslerp\nparameters: {nuslerp_flatten: false, nuslerp_row_wise: true}\n",
    "nuslerp of slices": "slices:\n- sources: [{model: base, layer_range: [0, 4]}, "
    "{model: a, layer_range: [0, 4], parameters: {weight: 1}}, "
    "{model: far, layer_range: [0, 4], parameters: {weight: 0.2}}]\nmerge_method: nuslerp\n",
    "multislerp of vectors": models(
        "model: base", "{model: a, parameters: {weight: 1}}", "{model: b, parameters: {weight: [0.3, 0.9]}}",
        "{model: far, parameters: {weight: 0.2}}") + "merge_method: multislerp\n",
    "sce": models("model: a", "model: b", "model: far") + "merge_method: sce\nparameters: {select_topk: 0.3}\n",
    "sce of all": models("model: a", "model: b") + "merge_method: sce\n",
    "sce over layers": models("model: a", "model: far")
    + "merge_method: sce\nparameters: {select_topk: [{filter: mlp, value: [0.1, 1]}, {filter: norm, value: 0.5}]}\n",
    "nearswap": models("model: base", "model: a") + "merge_method: nearswap\nparameters: {t: 0.0001}\n",
    "nearswap over layers": models("model: far") + "merge_method: nearswap\nparameters: {t: [0.001, 0.02]}\n",
    "nearswap of slices": "slices:\n- sources: [{model: base, layer_range: [0, 4]}, {model: a, layer_range: [0, 4]}]\n"
    "  parameters: {t: 0.001}\nmerge_method: nearswap\n",
    "ram": models("model: a", "model: b", "model: far") + "merge_method: ram\nparameters: {epsilon: 0.0002}\n",
    "ram as it is": models("model: base", "model: a", "model: b") + "merge_method: ram\n",
    "ram, enlarged": models("model: a", "model: b", "model: far")
    + "merge_method: ramplus_tl\nparameters: {epsilon: 0.0003, r: 0.5, alpha: 0.6}\n",
    "ram, enlarged, over layers": models("model: a", "model: b") + "merge_method: ramplus_tl\n"
    "parameters: {epsilon: [{filter: mlp, value: 0.0004}, {filter: self_attn, value: [0, 0.0003]}], r: [0, 1], "
    "alpha: [{filter: mlp, value: 0.9}]}\n",
    "ram of slices": "slices:\n- sources: [{model: base, layer_range: [0, 4]}, {model: a, layer_range: [0, 4]}, "
    "{model: b, layer_range: [0, 4]}]\n  parameters: {epsilon: 0.0003, r: 0.4}\nmerge_method: ramplus_tl\n",
    "della where all stay": models("{model: a, parameters: {density: 1}}", "{model: b, parameters: {weight: 0.4}}")
    + "merge_method: della_linear\nparameters: {density: 1, weight: 0.5}\n",
    "multislerp, not normalised": TWO + "merge_method: multislerp\n"
    "parameters: {normalize_weights: false, eps: 1e-6}\n",
}


@pytest.mark.parametrize("name", VECTORS)
def test_methods_on_vectors_are_mergekits(name: str, llamas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(llamas)
    text = VECTORS[name] + "base_model: base\ndtype: float32\n"
    mine, its, start = (tensors(x) for x in (ours(llamas, text), theirs(llamas, text), llamas / "base"))
    for tensor, expected in its.items():
        tau, place = (expected - start[tensor]).abs().max(), torch.finfo(torch.float32).eps * expected.abs().max()
        assert (mine[tensor] - expected).abs().max() <= 1e-6 * tau + place, tensor
    assert any(not torch.equal(its[x], start[x]) for x in its)


@pytest.mark.parametrize("method", ["dare_linear", "dare_ties", "della_linear", "della"])
@pytest.mark.parametrize("normalize", [False, True])
def test_drops_keep_as_much_as_mergekit(method: str, normalize: bool, llamas: Path,
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(llamas)
    text = models("{model: a, parameters: {density: 0.2, weight: 0.5}}",
                  "{model: b, parameters: {density: [0.4, 0.8], weight: 1}}") + (
        f"merge_method: {method}\nbase_model: base\nparameters: {{normalize: {str(normalize).lower()}}}\n"
        "dtype: float32\n")
    mine, its, start = (tensors(x) for x in (ours(llamas, text), theirs(llamas, text), llamas / "base"))
    for layer in range(LAYERS):
        def vector(of: Tensors, layer: int = layer) -> torch.Tensor:
            return torch.cat([(of[x] - start[x]).flatten() for x in sorted(of) if f"layers.{layer}." in x]).double()

        change, expected = vector(mine), vector(its)
        draws = len(change)  # each way, a share's standard deviation is at most 1/(2√n)
        assert abs((change != 0).double().mean() - (expected != 0).double().mean()) < 4 * draws**-0.5
        assert abs(change.abs().mean() / expected.abs().mean() - 1) < 0.05
    noise = 5 * sum(float((tensors(llamas / x)[y] - start[y]).std()) for x in "ab" for y in ["lm_head.weight"])
    assert abs(float((mine["lm_head.weight"] - its["lm_head.weight"]).mean())) < noise / 3200**0.5


def test_epsilon_may_be_a_models_own(llamas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mergekit's own epsilon, 0.15, does not go with the density."""
    monkeypatch.chdir(llamas)
    text = models("{model: a, parameters: {epsilon: 0.05}}") + (
        "merge_method: della\nbase_model: base\nparameters: {density: 0.9, weight: 1}\ndtype: float32\n")
    mine, start = tensors(ours(llamas, text)), tensors(llamas / "base")
    kept = torch.cat([(mine[x] != start[x]).flatten() for x in start]).double().mean()
    assert 0.85 < kept < 0.95


def test_arcee_fusion_keeps_what_mergekit_does(llamas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Divergences of float32 there, of float64 here: numbers beside the threshold may be on either side of it."""
    monkeypatch.chdir(llamas)
    text = models("model: base", "model: far") + "merge_method: arcee_fusion\nbase_model: base\ndtype: float32\n"
    mine, its, start = (tensors(x) for x in (ours(llamas, text), theirs(llamas, text), llamas / "base"))
    model, other, count = tensors(llamas / "far"), 0, 0
    for tensor, expected in its.items():
        kept, its_kept = (x != start[tensor] for x in (mine[tensor], expected))
        assert (mine[tensor] - torch.where(kept, model[tensor], start[tensor])).abs().max() < 1e-8, tensor
        other, count = other + int((kept != its_kept).sum()), count + kept.numel()
    assert other < 1e-3 * count


def test_model_stock_is_mergekits(llamas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(llamas)
    text = (models("model: a", "model: b", "model: far")
            + "merge_method: model_stock\nbase_model: base\ndtype: float32\n")
    mine, its = tensors(ours(llamas, text)), tensors(theirs(llamas, text))
    for tensor, expected in its.items():
        assert (mine[tensor] - expected).abs().max() <= 2e-6, tensor


def sliced(first: str, second: str, listed: bool = True) -> str:
    """Two slices with bases of their own: layers of several models, as the second base has them elsewhere."""
    base = "{model: base, layer_range: [0, 2]}, " if listed else ""
    return ("slices:\n"
            f"- base_model: base\n  sources: [{base}{{model: a, layer_range: [0, 2]{first}}}, "
            f"{{model: b, layer_range: [0, 2]{second}}}]\n"
            f"- base_model: a\n  sources: [{{model: b, layer_range: [1, 4]{first}}}, "
            f"{{model: a, layer_range: [0, 3]}}, {{model: far, layer_range: [1, 4]{second}}}]\n")


WEIGHTS = (", parameters: {weight: 0.3}", ", parameters: {weight: [0.2, 0.6]}")
SLICES = {
    "task arithmetic": sliced(*WEIGHTS) + "merge_method: task_arithmetic\n",
    "ties": sliced(*WEIGHTS) + "merge_method: ties\nparameters: {density: 0.4}\n",
    "breadcrumbs": sliced(*WEIGHTS) + "merge_method: breadcrumbs\nparameters: {density: 0.4, gamma: 0.1}\n",
    "sce": sliced("", "") + "merge_method: sce\nparameters: {select_topk: 0.3}\n",
    "model stock": sliced("", "") + "merge_method: model_stock\n",
    "nuslerp": sliced(*WEIGHTS) + "merge_method: nuslerp\n",
    "multislerp": sliced(*WEIGHTS) + "merge_method: multislerp\n",
    "one base for all but one": "slices:\n"
    "- sources: [{model: a, layer_range: [0, 4]}, {model: base, layer_range: [0, 4]}]\n"
    "- base_model: b\n  sources: [{model: a, layer_range: [2, 4]}, {model: b, layer_range: [1, 3]}]\n"
    "merge_method: task_arithmetic\nbase_model: base\nparameters: {weight: 0.3}\n",
    "slerp": "slices:\n- base_model: b\n  sources: [{model: a, layer_range: [0, 2]}, {model: b, layer_range: [0, 2]}]\n"
    "- base_model: a\n  sources: [{model: a, layer_range: [2, 4]}, {model: far, layer_range: [2, 4]}]\n"
    "  parameters: {t: 0.7}\nmerge_method: slerp\nparameters: {t: 0.2}\n",
    "linear, which takes none": "slices:\n- base_model: b\n  sources: [{model: a, layer_range: [0, 2]}, "
    "{model: b, layer_range: [0, 2]}]\nmerge_method: linear\nparameters: {weight: 0.2}\n",
}


@pytest.mark.parametrize("name", SLICES)
def test_slices_may_have_bases_of_their_own(name: str, llamas: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(llamas)
    text = SLICES[name] + "dtype: float32\n"
    mine, its = tensors(ours(llamas, text)), tensors(theirs(llamas, text))
    assert set(mine) == set(its)
    for tensor, expected in its.items():
        assert (mine[tensor] - expected).abs().max() <= 2e-6 * expected.abs().max(), tensor
    (llamas / "again.toml").write_text((llamas / "ours/merge.toml").read_text())
    shutil.rmtree(llamas / "again", ignore_errors=True)
    done = launch.run(1, "merge", llamas / "again.toml", llamas / "again")
    assert done.returncode == 0, done.stderr
    assert (llamas / "again/model.safetensors").read_bytes() == (llamas / "ours/model.safetensors").read_bytes()


def test_a_base_that_is_no_source_has_their_layers(llamas: Path) -> None:
    """mergekit refuses it in slices, and adds the base to models."""
    text = sliced(*WEIGHTS) + "merge_method: ties\nparameters: {density: 0.4}\n"
    listed, without = tensors(ours(llamas, text)), sliced(*WEIGHTS, listed=False) + text[text.index("merge_method"):]
    merged = tensors(ours(llamas, without))
    assert all(torch.equal(merged[name], x) for name, x in listed.items())
    assert "its layers are as theirs" in (llamas / "ours/merge.toml").read_text()
    whole = tensors(ours(llamas, TWO + "merge_method: ties\nbase_model: base\nparameters: {density: 0.4}\n"))
    (llamas / "slice.toml").write_text(
        'merge_method = "ties"\nparameters = { density = 0.4, scope = "tensor", cut = "exact", '
        'zero_sign = "positive" }\n[[slices]]\nbase_model = "base"\n'
        + "".join(f'[[slices.sources]]\nmodel = "{name}"\nlayer_range = [0, 4]\nweight = {weight}\n'
                  for name, weight in (("a", 0.3), ("b", 0.6))))
    shutil.rmtree(llamas / "sliced", ignore_errors=True)
    done = launch.run(1, "merge", llamas / "slice.toml", llamas / "sliced")
    assert done.returncode == 0, done.stderr
    merged = tensors(llamas / "sliced")
    assert merged.keys() == whole.keys() and all(torch.equal(merged[name], x) for name, x in whole.items())


def test_the_record_makes_it_again(llamas: Path) -> None:
    """merge.toml has filters, lists and slices, and says what was read and does nothing."""
    for text in (TIES["as in the examples"] + "merge_method: ties\nbase_model: base\n", BITWISE["slerp of two slices"]):
        first = ours(llamas, text)
        record = (first / "merge.toml").read_text()
        assert ("int8_mask is not needed" in record) == ("int8_mask" in text)
        (llamas / "again.toml").write_text(record)
        shutil.rmtree(llamas / "again", ignore_errors=True)
        done = launch.run(1, "merge", llamas / "again.toml", llamas / "again")
        assert done.returncode == 0, done.stderr
        assert (llamas / "again/model.safetensors").read_bytes() == (first / "model.safetensors").read_bytes()
        written = tomllib.loads(record)
        if "slices" in written:
            assert [len(x["sources"]) for x in written["slices"]] == [2, 2]
            assert written["slices"][0]["parameters"] == {"t": 0.1}
        else:
            assert written["models"][0]["density"] == [1.0, 0.7, 0.1]


def test_layers_that_are_of_two_kinds(llamas: Path, tmp_path: Path) -> None:
    """What the configuration says of each layer goes with it."""
    for name in ("a", "b"):
        shutil.copytree(llamas / name, tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text())
        config["layer_types"] = ["full", "sliding", "full", "sliding"]
        config["eos_token_id"] = [1, 2, 3, 4]  # as many as layers
        (tmp_path / name / "config.json").write_text(json.dumps(config))
    out = ours(tmp_path, BITWISE["a stack"])
    config = json.loads((out / "config.json").read_text())
    assert config["num_hidden_layers"] == 6
    assert config["layer_types"] == ["full", "sliding", "full", "sliding", "full", "sliding"]
    assert config["eos_token_id"] == [1, 2, 3, 4]


PASS = "merge_method: passthrough\n"
LINEAR = "merge_method: linear\n"
REFUSED = {
    "a method nobody has": (models("model: a") + "merge_method: task_arithmatic\n", [":3:", "perhaps task_arithmetic"]),
    "a method of ours": (models("model: a") + "merge_method: iso_c\n", ["iso_c", "TOML"]),
    "no method": (models("model: a"), ["merge_method", "missing"]),
    "an unknown key": (TWO + LINEAR + "paramters: {weight: 1}\n", [":5:", "paramters", "perhaps parameters"]),
    "a model's unknown key": (models("{model: a, weight: 1}") + LINEAR, [":2:", "models.#1", "weight"]),
    "an unknown parameter": (models("{model: a, parameters: {wieght: 1}}") + LINEAR, ["wieght", "perhaps weight"]),
    "another method's parameter": (TWO + "merge_method: linear\nparameters: {density: 0.5}\n", [":5:", "density"]),
    "modules": ("modules: {}\n" + LINEAR, ["modules"]),
    "nothing to merge": (LINEAR, ["models", "slices"]),
    "models and slices": (models("model: a") + "slices: [{sources: [{model: a, layer_range: [0, 1]}]}]\n" + PASS,
                          ["models", "slices"]),
    "a name on the hub": (models("model: mistralai/Mistral-7B-v0.1") + LINEAR, [":2:", "hf download mistralai"]),
    "an adapter that is not there": (models("model: a+lora") + LINEAR, ["lora", "no folder"]),
    "no adapter": (models("model: a+b") + LINEAR, ["a+b", "holds no adapter"]),
    "no folder": (models("model: ./nowhere") + LINEAR, ["nowhere", "folder"]),
    "one model twice": (models("model: a", "model: ./a") + LINEAR, [":3:", "second time"]),
    "another type": (TWO + LINEAR + "dtype: float64\n", [":5:", "dtype", "float64"]),
    "a gradient of one value": (models("{model: a, parameters: {weight: [0.5]}}") + LINEAR, [":2:", "weight", "two"]),
    "a gradient of none": (models("{model: a, parameters: {weight: []}}") + LINEAR, ["weight"]),
    "a gradient of words": (models("{model: a, parameters: {weight: [much, more]}}") + LINEAR, ["much"]),
    "a filter that is nowhere": (
        models("{model: a, parameters: {weight: [{filter: self_atn, value: 1}, {value: 2}]}}") + LINEAR,
        [":2:", "self_atn", "no tensor's name"]),
    "a filter without the rest": (
        models("{model: a, parameters: {weight: [{filter: mlp, value: 1}]}}") + LINEAR, ["says nothing of", "lm_head"]),
    "layers beyond the model": ("slices: [{sources: [{model: a, layer_range: [2, 5]}]}]\n" + PASS,
                                [":1:", "[2, 5]", "4 layers"]),
    "layers from behind": ("slices: [{sources: [{model: a, layer_range: [3, 1]}]}]\n" + PASS, ["layer_range"]),
    "layers below none": ("slices: [{sources: [{model: a, layer_range: [-1, 1]}]}]\n" + PASS, ["layer_range"]),
    "no layers": ("slices: [{sources: [{model: a}]}]\n" + PASS, ["layer_range", "missing"]),
    "two of a slice passed through": (
        "slices: [{sources: [{model: a, layer_range: [0, 1]}, {model: b, layer_range: [0, 1]}]}]\n" + PASS,
        ["passthrough", "one a slice"]),
    "unequal layers": (
        "slices: [{sources: [{model: a, layer_range: [0, 1]}, {model: b, layer_range: [0, 2]}]}]\n" + LINEAR,
        ["layer_range", "another number of layers"]),
    "a slice without its base": (
        "slices: [{sources: [{model: a, layer_range: [0, 1]}, {model: b, layer_range: [1, 2]}]}]\n"
        "merge_method: task_arithmetic\nbase_model: base\n", ["needs the layers of base_model"]),
    "a slice of its base alone": ("slices: [{base_model: a, sources: [{model: a, layer_range: [0, 1]}]}]\n"
                                  "merge_method: task_arithmetic\n", ["base_model alone"]),
    "a slice whose base is nowhere": (
        "slices: [{base_model: c, sources: [{model: a, layer_range: [0, 1]}]}]\nmerge_method: task_arithmetic\n",
        [":1:", "slices.#1.base_model", "no folder"]),
    "a base of some slices": (
        "slices:\n- {base_model: base, sources: [{model: a, layer_range: [0, 1]}]}\n"
        "- {sources: [{model: a, layer_range: [1, 2]}]}\nmerge_method: task_arithmetic\n",
        ["some of them", "one of the recipe"]),
    "layers that the base lacks": (
        "slices: [{base_model: base, sources: [{model: base, layer_range: [3, 5]}, {model: a, layer_range: [0, 2]}]}]\n"
        "merge_method: task_arithmetic\n", ["[3, 5]", "base has 4 layers"]),
    "a residual": ("slices: [{residual_weight: 0.1, sources: [{model: a, layer_range: [0, 1]}]}]\n" + PASS,
                   ["residual_weight", "not read"]),
    "t beyond": (models("model: a", "model: b") + "merge_method: slerp\nbase_model: a\nparameters: {t: [0, 2]}\n",
                 [":6:", "parameters.t", "from 0 to 1"]),
    "slerp of three": (models("model: a", "model: b", "model: far")
                       + "merge_method: slerp\nbase_model: a\nparameters: {t: 0.5}\n", ["slerp", "two models"]),
    "weights that vote against": (models("{model: a, parameters: {weight: -1}}", "{model: b, parameters: {weight: 1}}")
                                  + "merge_method: ties\nbase_model: base\n", ["weights of at least 0"]),
    "weights that cancel": (models("{model: a, parameters: {weight: 1}}", "{model: b, parameters: {weight: -1}}")
                            + LINEAR, ["add up to 0"]),
    "angles by row": (models("model: a", "model: b") + "merge_method: model_stock\nbase_model: base\n"
                      "parameters: {filter_wise: true}\n", ["filter_wise"]),
    "a step of no size": (models("model: a") + "merge_method: nearswap\nbase_model: base\n",
                          ["parameters.t", "missing"]),
    "nearswap of two": (models("model: a", "model: b")
                        + "merge_method: nearswap\nbase_model: base\nparameters: {t: 0.1}\n",
                        ["nearswap", "one model"]),
    "nothing selected": (TWO.replace("weight", "select_topk") + "merge_method: sce\nbase_model: base\n",
                         [":2:", "select_topk"]),
    "arcee_fusion of two": (models("model: a", "model: b") + "merge_method: arcee_fusion\nbase_model: base\n",
                            ["arcee_fusion", "one model"]),
    "probabilities beyond 1": (
        models("{model: a, parameters: {weight: 1, density: 0.9}}") + "merge_method: della\nbase_model: base\n",
        ["density 0.9 and epsilon 0.15", "a smaller epsilon"]),
    "nuslerp of three": (models("model: a", "model: b", "model: far") + "merge_method: nuslerp\n",
                         ["nuslerp", "two models"]),
    "directions that cancel": (models("{model: a, parameters: {weight: 1}}", "{model: b, parameters: {weight: -1}}")
                               + "merge_method: multislerp\n", ["add up to 0"]),
    "directions that cancel but for rounding": (
        models("{model: a, parameters: {weight: 0.1}}", "{model: b, parameters: {weight: 0.2}}",
               "{model: far, parameters: {weight: -0.3}}") + "merge_method: multislerp\n", ["add up to 0"]),
    "half a step": (models("model: a", "model: b") + "merge_method: karcher\nparameters: {max_iter: 1.5}\n",
                    [":5:", "max_iter", "an integer"]),
    "a base that karcher does not see": (models("model: a", "model: b") + "merge_method: karcher\nbase_model: base\n",
                                         ["base_model", "none of the models"]),
    "karcher with weights": (TWO + "merge_method: karcher\n", ["weight"]),
    "two documents": (TWO + LINEAR + "---\n" + TWO, ["second document"]),
}


def refused(folder: Path, *expected: str) -> str:
    done = launch.run(1, "merge", folder / "recipe.yml", folder / "refused")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, (done.returncode, done.stderr)
    assert done.stderr.startswith("taugrid: error: ") and len(done.stderr) <= 517
    for text in expected:
        assert text in done.stderr, done.stderr
    assert not [path for path in folder.iterdir() if path.name.startswith(("refused", ".refused"))]
    return done.stderr


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_read_is_refused_by_name(name: str, llamas: Path) -> None:
    text, expected = REFUSED[name]
    (llamas / "recipe.yml").write_text(text)
    refused(llamas, "recipe.yml", *expected)


def bomb(levels: int, wide: int) -> str:
    lines = [f"a0: &a0 [{', '.join(['x'] * wide)}]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * wide)}]" for i in range(1, levels)]
    return "\n".join(lines) + "\n"


HOSTILE = {
    "nothing": b"",
    "blanks": b"\n \n\t\n",
    "a comment": b"# nothing\n",
    "null": b"null\n",
    "a text": b"merge\n",
    "a number": b"12\n",
    "a list": b"[1, 2]\n",
    "zero bytes": b"\0" * 4096,
    "a zero byte": b"merge_method: lin\0ear\n",
    "no UTF-8": b"merge_method: \xff\xfe\xfa\n",
    "half a letter": b"merge_method: \xe2\x82",
    "control characters": b"merge_method: \x1b[31mred\x07\n",
    "aliases that grow": bomb(12, 10).encode(),
    "wide aliases": bomb(2, 300).encode(),
    "an alias of itself": b"&a [*a]\n",
    "an alias of nothing": b"models: *none\n",
    "a deep list": b"x: " + b"[" * 100_000,
    "a deep list that ends": b"x: " + b"[" * 5_000 + b"]" * 5_000 + b"\n",
    "a deep map": b"{a: " * 10_000 + b"1" + b"}" * 10_000,
    "deep blocks": b"".join(b" " * i + b"a:\n" for i in range(1_000)),
    "deep dashes": b"- " * 50_000 + b"x\n",
    "many keys": b"".join(b"k%d: 1\n" % i for i in range(60_000)),
    "one key twice": b"merge_method: linear\nmerge_method: ties\n",
    "too large": b"a: " + b"x" * (1 << 20) + b"\n",
    "a long name": b"merge_method: " + b"x" * 100_000 + b"\n",
    "a long key": b"x" * 1_000 + b": 1\n",
    "a python object": b"merge_method: !!python/object/apply:os.system ['true']\n",
    "a binary": b"merge_method: !!binary aGVsbG8=\n",
    "merged keys": b"a: &a {merge_method: linear}\n<<: *a\n",
    "a key that is a list": b"[a, b]: 1\n",
    "a key that is a map": b"{a: b}: 1\n",
    "an open quote": b'merge_method: "linear\n',
    "tabs": b"merge_method: linear\n\tmodels:\n",
    "braces that do not match": b"models: [{model: a]\n",
    "directives": b"%YAML 9.9\n%TAG ! x\n---\nmerge_method: linear\n",
    "TOML": b'merge_method = "linear"\n[[models]]\nmodel = "a"\n',
    "a layer of a googol": b"slices: [{sources: [{model: a, layer_range: [0, 1e100]}]}]\nmerge_method: passthrough\n",
    "not a number": b"models: [{model: a, parameters: {weight: .nan}}]\nmerge_method: linear\n",
    "infinity": b"models: [{model: a, parameters: {weight: .inf}}]\nmerge_method: linear\n",
    "a line break in a folder": b'models: [{model: "a\\nb\\x1b"}]\nmerge_method: linear\n',
    "quotes that would be TOML": b'models: [{model: a, parameters: {weight: [{filter: "x\\" = 1\\n", value: 1}]}}]\n'
                                 b"merge_method: linear\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_recipes_get_one_line(name: str, llamas: Path) -> None:
    (llamas / "recipe.yml").write_bytes(HOSTILE[name])
    line = refused(llamas, "recipe.yml")
    assert all(c.isprintable() for c in line.rstrip("\n"))


def test_what_is_no_file_is_refused(llamas: Path) -> None:
    shutil.rmtree(llamas / "folder.yml", ignore_errors=True)
    (llamas / "folder.yml").mkdir()
    for path in (llamas / "folder.yml", llamas / "absent.yml", Path("/dev/null/x.yml")):
        done = launch.run(1, "merge", path, llamas / "refused")
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and path.name in done.stderr, done.stderr
