# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""LoRA adapters as models of a merge: each gives what the whole model W + s·B·A gives, which is written out here from
the files alone and, beside that, by PEFT itself. Adapters whose product is another, or that do not fit, are refused."""

import json
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import launch
import pytest
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from taugrid_analysis.quantities.merging import formulas

Tensors = dict[str, torch.Tensor]
SMALL = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 40, "vocab_size": 50}
LLAMA = "base_model.model.model.layers.0.self_attn"


def llama(**more: Any) -> transformers.PreTrainedModel:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, tie_word_embeddings=False, **more))


def gpt2() -> transformers.PreTrainedModel:
    sizes = {"n_embd": 24, "n_layer": 2, "n_head": 2, "vocab_size": 50, "n_positions": 16}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, tie_word_embeddings=False))


def resnet() -> transformers.PreTrainedModel:
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 12], "depths": [1, 1], "layer_type": "basic"}
    return transformers.ResNetForImageClassification(transformers.ResNetConfig(**sizes, num_labels=3))


def bert() -> transformers.PreTrainedModel:
    return transformers.BertForSequenceClassification(transformers.BertConfig(**SMALL))


ATTENTION = ["q_proj", "v_proj"]
KINDS: dict[str, tuple[Callable[[], transformers.PreTrainedModel], dict[str, Any]]] = {
    "alpha that is not the rank": (llama, {"r": 3, "lora_alpha": 16, "target_modules": ATTENTION}),
    "rsLoRA": (llama, {"r": 5, "lora_alpha": 8, "use_rslora": True, "target_modules": "all-linear"}),
    "ranks and alphas by module": (
        llama,
        {
            "r": 2,
            "lora_alpha": 6,
            "target_modules": [*ATTENTION, "gate_proj"],
            "rank_pattern": {"q_proj": 4, "layers.1.mlp.gate_proj": 3},
            "alpha_pattern": {"^model.layers.1.self_attn.v_proj": 20, "gate_proj": 1},
        },
    ),
    "embeddings and a whole head": (
        llama,
        {"r": 2, "lora_alpha": 6, "target_modules": ["embed_tokens", "o_proj"], "modules_to_save": ["lm_head"]},
    ),
    "a layer that stores its transpose": (
        gpt2,
        {"r": 3, "lora_alpha": 5, "target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True},
    ),
    "a transpose beside a plain head, whose flag PEFT keeps": (
        gpt2,
        {"r": 3, "lora_alpha": 5, "target_modules": ["c_attn", "c_proj", "lm_head"], "fan_in_fan_out": True},
    ),
    "filters": (resnet, {"r": 2, "lora_alpha": 7, "target_modules": ["convolution"]}),
    "biases and a classifier": (
        bert,
        {"r": 2, "lora_alpha": 3, "target_modules": ["query", "value"], "bias": "all", "task_type": "SEQ_CLS"},
    ),
}


def make(folder: Path, kind: str, count: int = 2, dtype: torch.dtype = torch.float32) -> transformers.PreTrainedModel:
    """folder/base and adapters folder/a0, a1, … of it, every number of which says something."""
    model, options = KINDS[kind]
    torch.manual_seed(1)
    base = model().to(dtype)
    base.save_pretrained(folder / "base")
    for index in range(count):
        more = {"r": options["r"] + index}  # unequal ranks
        adapted = get_peft_model(
            type(base).from_pretrained(folder / "base", dtype=dtype), LoraConfig(**options | more)
        )
        torch.manual_seed(2 + index)
        with torch.no_grad():
            for parameter in adapted.parameters():
                if parameter.requires_grad:
                    parameter.add_(0.1 * torch.randn_like(parameter))
        adapted.save_pretrained(folder / f"a{index}")
    return base


def written_out(folder: Path, name: str) -> Tensors:
    """W + s·B·A in double, from the files alone."""
    base = {key: x.double() for key, x in load_file(folder / "base/model.safetensors").items()}
    file = load_file(folder / name / "adapter_model.safetensors")
    config = json.loads((folder / name / "adapter_config.json").read_text())
    for stored, a in file.items():
        key = stored.removeprefix("base_model.model.")
        if "lora_" not in key and "original_module" not in key:
            base[key.replace(".base_layer.", ".").replace(".modules_to_save.", ".")] = a.double()
    for stored, a in file.items():
        key = stored.removeprefix("base_model.model.")
        if ".lora_A" not in key and ".lora_embedding_A" not in key:
            continue
        b, module = file[stored.replace("_A", "_B")], key.split(".lora_")[0]
        alpha = config["lora_alpha"]
        for pattern, value in config["alpha_pattern"].items():
            alpha = value if module.endswith(pattern.removeprefix("^")) else alpha
        scale = alpha / (math.sqrt(len(a)) if config["use_rslora"] else len(a))
        product = scale * (b.double().flatten(1) @ a.double().flatten(1))
        weight = base[module + ".weight"]
        turned = ".lora_embedding" in key or module.endswith(("c_attn", "c_proj"))
        base[module + ".weight"] = weight + (product.T if turned else product).reshape(weight.shape)
    return base


def merge(folder: Path, models: list[str], out: str, method: str = "task_arithmetic", more: str = "",
          ) -> subprocess.CompletedProcess[str]:
    entries = ", ".join(f'{{ model = "{model}", weight = {0.5 + 0.4 * i} }}' for i, model in enumerate(models))
    path = folder / f"{out}.toml"
    path.write_text(f'merge_method = "{method}"\nbase_model = "base"\nout = "{out}"\nmodels = [ {entries} ]\n{more}\n')
    return launch.run(1, "merge", path)


def tensors(folder: Path) -> Tensors:
    return load_file(folder / "model.safetensors")


def refused(folder: Path, done: subprocess.CompletedProcess[str], *expected: str) -> None:
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert all(text in done.stderr for text in expected), done.stderr
    assert not (folder / "out").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_one_adapter_gives_the_model_that_it_stands_for(tmp_path: Path, kind: str) -> None:
    base = make(tmp_path, kind, 1)
    done = merge(tmp_path, ["a0"], "out", more="[parameters]\nlambda = 2")  # of its weight, 0.5
    assert done.returncode == 0, done.stderr
    ours, expected = tensors(tmp_path / "out"), written_out(tmp_path, "a0")
    peft = PeftModel.from_pretrained(type(base).from_pretrained(tmp_path / "base"), tmp_path / "a0").merge_and_unload()
    theirs = peft.state_dict()
    start = tensors(tmp_path / "base")
    changed = 0
    for name, x in ours.items():
        torch.testing.assert_close(x.double(), expected[name], rtol=1e-6, atol=1e-7, msg=name)
        torch.testing.assert_close(x, theirs[name], rtol=2e-6, atol=2e-6, msg=name)
        changed += not torch.equal(x, start[name])
    assert changed >= 2
    type(base).from_pretrained(tmp_path / "out")


METHODS = {
    "linear": "",
    "ties": "[parameters]\ndensity = 0.3",
    "ties_by_tensor": '[parameters]\ndensity = 0.3\nscope = "tensor"\ncut = "exact"',
    "tsv_m": '[parameters]\nspace = "core"',
    "iso_c": '[parameters]\nspace = "core"',
    "iso_cts": '[parameters]\nspace = "core"',
    "wudi": "",
    "wudi_in_core": '[parameters]\nspace = "core"',
    "cart": "",
    "ties_calibrated": '[parameters]\ndensity = 0.3\ncalibration = 0.5',
    "dc_merge": '[parameters]\nspace = "core"\ndensity = 1.0\nsmoothing = "average"',
}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_what_it_gives_of_whole_models(tmp_path: Path, method: str) -> None:
    """Also beside a whole model: what an adapter does not change has the vector zero."""
    kind = "ranks and alphas by module"
    make(tmp_path, kind, 3)
    for index in range(3):
        shutil.copytree(tmp_path / "base", tmp_path / f"w{index}")
        whole = {name: x.float() for name, x in written_out(tmp_path, f"a{index}").items()}
        save_file(whole, tmp_path / f"w{index}/model.safetensors", {"format": "pt"})
    name = method.removesuffix("_by_tensor").removesuffix("_in_core").removesuffix("_calibrated")
    results = []
    for number, models in enumerate((["w0", "w1", "w2"], ["a0", "a1", "a2"], ["a0", "w1", "a2"])):
        done = merge(tmp_path, models, f"out{number}", name, METHODS[method])
        assert done.returncode == 0, done.stderr
        results.append(tensors(tmp_path / f"out{number}"))
    start = tensors(tmp_path / "base")
    for other in results[1:]:
        for key, x in results[0].items():
            apart = float((other[key] - x).norm()) / max(float((x - start[key]).norm()), 1e-3)
            assert apart < 2e-4, (key, apart)  # W + sBA was rounded to float32, and a number at a cut may change sides


def test_core_space_is_that_of_the_factors(tmp_path: Path) -> None:
    """Task singular vectors of Uᵀ(s·BA)V, U and V by QR of the adapters' own B and A."""
    make(tmp_path, "rsLoRA", 3)
    done = merge(tmp_path, ["a0", "a1", "a2"], "out", "tsv_m", '[parameters]\nspace = "core"\nlambda = 0.7')
    assert done.returncode == 0, done.stderr
    start, merged = (tensors(tmp_path / name) for name in ("base", "out"))
    key = "model.layers.1.mlp.down_proj"
    a, b = ([load_file(tmp_path / f"a{i}/adapter_model.safetensors")[f"base_model.model.{key}.lora_{x}.weight"].double()
             for i in range(3)] for x in "AB")
    u, v = torch.linalg.qr(torch.cat(b, 1))[0], torch.linalg.qr(torch.cat(a).T)[0]
    cores = [(0.5 + 0.4 * i) * 8 / math.sqrt(len(a[i])) * (u.T @ b[i]) @ (a[i] @ v) for i in range(3)]
    expected = u @ torch.from_numpy(formulas.tsv_m([core.numpy() for core in cores], low_rank=True)) @ v.T
    change = (merged[f"{key}.weight"] - start[f"{key}.weight"]).double()
    assert float((change - 0.7 * expected).norm() / expected.norm()) < 1e-5


@pytest.mark.parametrize("method", ["tsv_m", "iso_c", "iso_cts", "wudi", "cart", "dc_merge"])
def test_core_space_of_whole_models_is_the_whole_space(tmp_path: Path, method: str) -> None:
    """Also where no task spans a matrix' rows alone: three of width m span n <= 3m together."""
    make(tmp_path, "rsLoRA", 1)
    generator = torch.Generator().manual_seed(5)
    for index in range(3):
        shutil.copytree(tmp_path / "base", tmp_path / f"w{index}")
        whole = {name: x + 0.01 * torch.randn(x.shape, generator=generator)
                 for name, x in tensors(tmp_path / "base").items()}
        save_file(whole, tmp_path / f"w{index}/model.safetensors", {"format": "pt"})
    for space in ("full", "core"):
        done = merge(tmp_path, ["w0", "w1", "w2"], space, method, f'[parameters]\nspace = "{space}"')
        assert done.returncode == 0, done.stderr
    start, full, core = (tensors(tmp_path / name) for name in ("base", "full", "core"))
    for name, x in full.items():
        assert float((core[name] - x).norm()) < 1e-5 * float((x - start[name]).norm()), name


@pytest.mark.parametrize("method", ["tsv_m", "iso_c", "iso_cts", "dc_merge"])
def test_singular_vectors_that_nothing_determines(tmp_path: Path, method: str) -> None:
    make(tmp_path, "alpha that is not the rank", 2)
    refused(tmp_path, merge(tmp_path, ["a0", "a1"], "out", method), "a0", method, 'parameters.space = "core"')


def test_half_precision(tmp_path: Path) -> None:
    """One rounding, of the sum."""
    make(tmp_path, "alpha that is not the rank", 1, torch.bfloat16)
    done = merge(tmp_path, ["a0"], "out", more="[parameters]\nlambda = 2")
    assert done.returncode == 0, done.stderr
    expected = written_out(tmp_path, "a0")
    for name, x in tensors(tmp_path / "out").items():
        assert x.dtype == torch.bfloat16
        rounded = expected[name].to(torch.bfloat16)
        assert float((x != rounded).float().mean()) < 0.01, name  # beside a middle, float32 may round first


def renamed(folder: Path, change: Callable[[str], str]) -> None:
    path = folder / "adapter_model.safetensors"
    save_file({change(name): x for name, x in load_file(path).items()}, path, {"format": "pt"})


@pytest.mark.parametrize("change", [
    lambda name: name.replace(".weight", ".default.weight"),
    lambda name: name.replace("base_model.model.model.", "base_model.model."),  # trained on the inner model
    lambda name: name.replace("base_model.model.model.", "base_model.model.tower.model."),  # with a tower around it
])
def test_names_of_other_versions(tmp_path: Path, change: Callable[[str], str]) -> None:
    make(tmp_path, "alpha that is not the rank", 1)
    assert merge(tmp_path, ["a0"], "before").returncode == 0
    renamed(tmp_path / "a0", change)
    done = merge(tmp_path, ["a0"], "after")
    assert done.returncode == 0, done.stderr
    before, after = tensors(tmp_path / "before"), tensors(tmp_path / "after")
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_another_base_is_said(tmp_path: Path) -> None:
    make(tmp_path, "rsLoRA", 1)
    path = tmp_path / "a0/adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"base_model_name_or_path": "someone/another-7B"}))
    done = merge(tmp_path, ["a0"], "out")
    assert done.returncode == 0 and "someone/another-7B" in done.stdout, done.stdout
    assert "someone/another-7B" in (tmp_path / "out/merge.toml").read_text()


@pytest.mark.parametrize(("key", "value", "expected"), [
    ("peft_type", "LOHA", "expected LORA"),
    ("peft_type", None, "peft_type"),
    ("use_dora", True, "use_dora"),
    ("lora_bias", True, "lora_bias"),
    ("trainable_token_indices", [1, 2], "trainable_token_indices"),
    ("layer_replication", [[0, 2], [1, 2]], "layer_replication"),
    ("target_parameters", ["mlp.experts"], "target_parameters"),
    ("a_key_of_tomorrow", 3, "a_key_of_tomorrow"),
    ("init_lora_weights", "pissa_niter_4", "path_initial_model_for_weight_conversion"),
    ("lora_alpha", "16", "lora_alpha"),
    ("lora_alpha", 1e300, "lora_alpha"),
    ("use_rslora", "yes", "use_rslora"),
    ("alpha_pattern", {"layers.[01].q_proj": 4}, "no other regular expression"),
    ("alpha_pattern", {"(a+)+$" * 50: 4}, "alpha_pattern"),
    ("alpha_pattern", {"q_proj": "4"}, "q_proj"),
    ("alpha_pattern", [1], "alpha_pattern"),
    ("rank_pattern", {"layers.[01].q_proj": 4}, "no other regular expression"),
])
def test_other_adapters_are_refused_by_their_key(tmp_path: Path, key: str, value: object, expected: str) -> None:
    make(tmp_path, "alpha that is not the rank", 1)
    path = tmp_path / "a0/adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    refused(tmp_path, merge(tmp_path, ["a0"], "out"), "a0/adapter_config.json", expected)


@pytest.mark.parametrize("change", [
    {"r": 16}, {"rank_pattern": {"q_proj": 4}}, {"rank_pattern": {"self_attn.v_proj": 9}},
])
def test_a_rank_that_the_configuration_does_not_say_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """PEFT scales a product by its rank: a file of another one is cut short, or is not this configuration's."""
    make(tmp_path, "alpha that is not the rank", 1)
    path = tmp_path / "a0/adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    refused(tmp_path, merge(tmp_path, ["a0"], "out"), "a0/adapter_model.safetensors", "is of rank 3", "one rank")


def test_a_flag_of_transposes_is_none_of_linear_layers(tmp_path: Path) -> None:
    """PEFT takes it back for each of them, square ones too."""
    make(tmp_path, "rsLoRA", 1)
    assert merge(tmp_path, ["a0"], "before").returncode == 0
    path = tmp_path / "a0/adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"fan_in_fan_out": True}))
    assert merge(tmp_path, ["a0"], "after").returncode == 0
    before, after = tensors(tmp_path / "before"), tensors(tmp_path / "after")
    assert all(torch.equal(before[name], after[name]) for name in before)


def without(end: str) -> Callable[[Tensors], Tensors]:
    return lambda file: {name: x for name, x in file.items() if not name.endswith(end)}


def with_more(**more: torch.Tensor) -> Callable[[Tensors], Tensors]:
    return lambda file: file | {name.replace("__", "."): x for name, x in more.items()}


A, B = f"{LLAMA}.q_proj.lora_A.weight", f"{LLAMA}.q_proj.lora_B.weight"


@pytest.mark.parametrize(("change", "expected"), [
    (without("0.self_attn.q_proj.lora_B.weight"), ["q_proj.lora_A.weight", "no partner"]),
    (lambda file: file | {A: file[A][:, :-1].contiguous()}, ["q_proj.lora_A.weight", "[3,23]", "[24,24]"]),
    (lambda file: file | {A: file[A][:2].contiguous()}, ["q_proj.lora_B.weight", "[out, 2]"]),
    (lambda file: file | {A: file[A].flatten()}, ["q_proj.lora_A.weight", "[rank, in]"]),
    (lambda file: file | {A: file[A].int()}, ["q_proj.lora_A.weight", "Int", "expected float32"]),
    (lambda file: file | {A: file[A] * math.nan}, ["a0", "q_proj.weight", "NaN"]),
    (with_more(other=torch.ones(2)), ["other", "behind base_model.model."]),
    (with_more(base_model__model__mlp__lora_magnitude_vector=torch.ones(2)), ["lora_magnitude_vector"]),
    (with_more(base_model__model__model__layers__9__weight=torch.ones(2)), ["does not have"]),
    (with_more(base_model__model__model__norm__weight=torch.ones(2)), ["norm.weight", "the base's shape"]),
    (lambda file: {}, ["adapter_model.safetensors", "no tensors"]),
    (lambda file: file | {A.replace("A.weight", "A.default.weight"): file[A] + 1}, ["twice"]),
])
def test_files_that_do_not_fit_are_refused(
    tmp_path: Path, change: Callable[[Tensors], Tensors], expected: list[str]
) -> None:
    make(tmp_path, "alpha that is not the rank", 1)
    path = tmp_path / "a0/adapter_model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})
    refused(tmp_path, merge(tmp_path, ["a0"], "out"), *expected)


def test_a_folder_that_lacks_one_of_its_files(tmp_path: Path) -> None:
    make(tmp_path, "alpha that is not the rank", 2)
    (tmp_path / "a0/adapter_config.json").unlink()
    refused(tmp_path, merge(tmp_path, ["a0"], "out"), "a0/adapter_config.json", "expected an adapter's configuration")
    (tmp_path / "a1/adapter_model.safetensors").rename(tmp_path / "a1/adapter_model.bin")
    refused(tmp_path, merge(tmp_path, ["a1"], "out"), "adapter_model.safetensors", "pickle", "safe_serialization")


def test_an_adapter_needs_its_base(tmp_path: Path) -> None:
    make(tmp_path, "alpha that is not the rank", 2)
    path = tmp_path / "recipe.toml"
    path.write_text('merge_method = "linear"\nout = "out"\nmodels = [ { model = "a0" }, { model = "a1" } ]\n')
    refused(tmp_path, launch.run(1, "merge", path), "a0", "adapter")


def test_an_adapter_is_of_no_model_by_chance(tmp_path: Path) -> None:
    """It would fit the first model, whose numbers it was not trained on."""
    make(tmp_path, "alpha that is not the rank", 1)
    shutil.copytree(tmp_path / "base", tmp_path / "other")
    path = tmp_path / "recipe.toml"
    path.write_text('merge_method = "linear"\nout = "out"\nmodels = [ { model = "other" }, { model = "a0" } ]\n')
    refused(tmp_path, launch.run(1, "merge", path), "base_model", "the model that the adapter", "a0")


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("part", ["lora_embedding", "whole embeddings", "whole head"])
def test_tied_embeddings_are_not_changed_unasked(tmp_path: Path, said: bool, part: str) -> None:
    """PEFT adapts the one and keeps the other; a file has both in one place. Unsaid, transformers ties them."""
    make(tmp_path, "embeddings and a whole head", 1)
    path, weights = tmp_path / "base/config.json", tmp_path / "base/model.safetensors"
    config = json.loads(path.read_text()) | {"tie_word_embeddings": True}
    if not said:
        del config["tie_word_embeddings"]
        save_file({name: x for name, x in load_file(weights).items() if name != "lm_head.weight"}, weights)
    path.write_text(json.dumps(config))
    adapter = tmp_path / "a0/adapter_model.safetensors"
    kept = {name: x for name, x in load_file(adapter).items()
            if "o_proj" in name or (part == "lora_embedding" and "embedding" in name)}
    if part == "whole embeddings":
        kept["base_model.model.model.embed_tokens.weight"] = torch.ones(50, 24)
    if part == "whole head" and said:
        kept["base_model.model.lm_head.weight"] = torch.ones(50, 24)
    save_file(kept, adapter)
    done = merge(tmp_path, ["a0"], "out")
    if part == "whole head" and not said:  # nothing is left that touches them
        assert done.returncode == 0, done.stderr
        return
    refused(tmp_path, done, "ties it to its embeddings" if part == "whole head" else "ties them to its head")


def test_what_the_other_models_lack(tmp_path: Path) -> None:
    """A whole model without a head leaves the base's; an adapter that changes it has no place."""
    make(tmp_path, "embeddings and a whole head", 1)
    shutil.copytree(tmp_path / "base", tmp_path / "w0")
    inner = {name: x for name, x in tensors(tmp_path / "base").items() if name != "lm_head.weight"}
    save_file(inner, tmp_path / "w0/model.safetensors", {"format": "pt"})
    refused(tmp_path, merge(tmp_path, ["w0", "a0"], "out"), "a0", "lm_head.weight", "not merged")
