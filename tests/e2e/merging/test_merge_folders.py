# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid merge of folders as the field's tools leave them: links, trainers' files, parts, other types."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import launch
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]


def write(folder: Path, tensors: Tensors, config: dict | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: x.clone() for name, x in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config or {"model_type": "none of ours"}))
    return folder


def merge(
    folder: Path, models: list[str], base: str = "base", method: str = "task_arithmetic", **keys: str | float
) -> subprocess.CompletedProcess[str]:
    """Merges folders beside the recipe, which it writes, into `folder`/out."""
    keys = {"merge_method": method, "base_model": base, "out": "out"} | keys
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    entries = ", ".join("{ model = " + json.dumps(model) + " }" for model in models)
    (folder / "recipe.toml").write_text("\n".join([*lines, f"models = [ {entries} ]"]) + "\n")
    return launch.run(1, "merge", folder / "recipe.toml")


def merged(folder: Path, models: list[str], **keys: str) -> Tensors:
    done = merge(folder, models, **keys)
    assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
    return load_file(folder / "out" / "model.safetensors")


def refused(folder: Path, done: subprocess.CompletedProcess[str], *expected: str | Path) -> None:
    launch.complaint(done, *expected)
    assert not (folder / "out").exists() and not list(folder.rglob("*.partial*"))


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_base_of_links_is_copied_as_content(tmp_path: Path) -> None:
    """The hub's cache: snapshots/HASH/NAME leads to ../../blobs/DIGEST, which may be somebody's file from `out`."""
    tensors = {"w": torch.ones(4)}
    blobs, snapshot = tmp_path / "hub/models--x/blobs", tmp_path / "hub/models--x/snapshots/1"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    plain = write(tmp_path / "plain", tensors)
    (plain / "tokenizer.json").write_text('{"version": "1.0"}')
    for number, name in enumerate(("config.json", "model.safetensors", "tokenizer.json")):
        shutil.copy(plain / name, blobs / str(number))
        os.symlink(f"../../blobs/{number}", snapshot / name)
    work = tmp_path / "a/b"
    theirs = tmp_path / "a/blobs/0"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("somebody's own file")
    write(work / "tuned", {"w": torch.full((4,), 2.0)})
    assert torch.equal(merged(work, ["tuned"], base=str(snapshot))["w"], torch.full((4,), 2.0))
    assert theirs.read_text() == "somebody's own file" and files_in(theirs.parent) == ["0"]
    assert files_in(work / "out") == [
        "README.md", "config.json", "merge.toml", "model.safetensors", "tokenizer.json"]
    assert not any(path.is_symlink() for path in (work / "out").iterdir())
    assert (work / "out/tokenizer.json").read_bytes() == (plain / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("dangling", [False, True])
def test_a_base_without_a_configuration(tmp_path: Path, dangling: bool) -> None:
    write(tmp_path / "base", {"w": torch.ones(4)})
    write(tmp_path / "m0", {"w": torch.ones(4)})
    config = tmp_path / "base/config.json"
    config.unlink()
    if dangling:
        config.symlink_to("nowhere")
    refused(tmp_path, merge(tmp_path, ["m0"]), "base", "config.json")


def test_side_files_are_those_that_a_model_needs(tmp_path: Path) -> None:
    config = {
        "model_type": "own",
        "auto_map": {
            "AutoConfig": "configuration_own.OwnConfig",
            "AutoModel": "modeling_own.Own",
            "AutoModelForMaskedLM": "else/where--modeling_far.Far",
        },
    }
    base = write(tmp_path / "base", {"w": torch.ones(4)}, config)
    needed = {
        "generation_config.json": "{}",
        "preprocessor_config.json": "{}",
        "special_tokens_map.json": "{}",
        "vocab.txt": "a",
        "spiece.model": "x",
        "spm.model": "x",
        "target_vocab.json": "{}",
        "chat_template.jinja": "x",
        "additional_chat_templates/tools.jinja": "x",
        "LICENSE.txt": "x",
        "1_Pooling/config.json": "{}",
        "modules.json": '[{"path": ""}, {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]',
        "tokenizer_config.json": '{"auto_map": {"AutoTokenizer": ["tokenization_own.Slow", null]}}',
        "configuration_own.py": "",
        "tokenization_own.py": "",
        "modeling_own.py": "from .configuration_own import OwnConfig\nfrom .helper_own import help\n",
        "helper_own.py": "",
    }
    others = {
        "training_args.bin": "x",
        "trainer_state.json": "{}",
        "optimizer.pt": "x",
        "README.md": "x",
        "train.py": "x",
        "adapter_config.json": "{}",
        "modeling_far.py": "",
        "runs/events": "x",
        "checkpoint-5/config.json": "{}",
        "pytorch_model.bin": "x",
        "merged/config.json": "{}",
        "LICENSES/MIT.txt": "x",
        "1_Pooling/pytorch_model.bin": "x",
    }
    for name, text in (needed | others).items():
        (base / name).parent.mkdir(exist_ok=True)
        (base / name).write_text(text)
    write(tmp_path / "m0", {"w": torch.ones(4)})
    merged(tmp_path, ["m0"])
    assert files_in(tmp_path / "out") == sorted([*needed, "README.md", "config.json", "merge.toml",
                                                    "model.safetensors"])
    assert (tmp_path / "out/README.md").read_text() != "x"  # a card of its own


@pytest.mark.parametrize("path", ["../elsewhere", "/tmp", "a/b", ".."])
def test_modules_lie_in_the_folder(tmp_path: Path, path: str) -> None:
    base = write(tmp_path / "base", {"w": torch.ones(4)})
    (base / "modules.json").write_text(json.dumps([{"path": ""}, {"path": path}]))
    write(tmp_path / "m0", {"w": torch.ones(4)})
    refused(tmp_path, merge(tmp_path, ["m0"]), "modules.json", "plain name")


def test_a_modules_own_weights_must_be_equal(tmp_path: Path) -> None:
    for name in ("base", "m0"):
        folder = write(tmp_path / name, {"w": torch.ones(4)})
        (folder / "modules.json").write_text('[{"path": ""}, {"path": "2_Dense"}]')
        write(folder / "2_Dense", {"linear.weight": torch.ones(2, 2)})
    assert torch.equal(merged(tmp_path, ["m0"])["w"], torch.ones(4))
    assert files_in(tmp_path / "out/2_Dense") == ["config.json", "model.safetensors"]
    shutil.rmtree(tmp_path / "out")
    write(tmp_path / "m0/2_Dense", {"linear.weight": torch.zeros(2, 2)})
    refused(tmp_path, merge(tmp_path, ["m0"]), "m0/2_Dense/model.safetensors", "not merged")


def test_a_modules_weights_that_are_a_pickle_are_not_left_behind(tmp_path: Path) -> None:
    base = write(tmp_path / "base", {"w": torch.ones(4)})
    modules = [{"path": ""}, {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
    (base / "modules.json").write_text(json.dumps(modules))
    (base / "2_Dense").mkdir()
    (base / "2_Dense/pytorch_model.bin").write_text("x")
    write(tmp_path / "m0", {"w": torch.ones(4)})
    refused(tmp_path, merge(tmp_path, ["m0"]), "2_Dense/pytorch_model.bin", "is a pickle", "sentence-transformers")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[" * 100_000, "nested"),
        ("[]", "not a JSON object"),
        ("{", "not JSON"),
        ('{"a": [' + "1," * 2_100_000 + "1]}", "values"),
        ('{"a": [' + "{}," * 1_100_000 + "{}]}", "values"),
    ],
)
def test_a_configuration_that_is_none(tmp_path: Path, text: str, expected: str) -> None:
    (write(tmp_path / "base", {"w": torch.ones(4)}) / "config.json").write_text(text)
    write(tmp_path / "m0", {"w": torch.ones(4)})
    refused(tmp_path, merge(tmp_path, ["m0"]), "base", "config.json", expected)


def clip_layout(folder: Path) -> tuple[Path, Tensors]:
    """A small CLIP in the layout of openai/clip-vit-base-patch32, both towers and position ids, and its tensors."""
    torch.manual_seed(0)
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = {**small, "image_size": 8, "patch_size": 4, "projection_dim": 12}
    text = {**small, "vocab_size": 40, "max_position_embeddings": 9, "projection_dim": 12}
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=12))
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    tensors |= {
        "vision_model.embeddings.position_ids": torch.arange(5)[None],
        "text_model.embeddings.position_ids": torch.arange(9)[None],
    }
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder, tensors


def test_towers_are_merged_into_a_whole_clip(tmp_path: Path) -> None:
    """The example of the documentation: a whole CLIP is the base, the models are its fine-tuned image towers."""
    base, tensors = clip_layout(tmp_path / "base")
    names = [
        name
        for name in tensors
        if name.startswith(("vision_model.", "visual_projection.")) and not name.endswith("position_ids")
    ]
    tower = transformers.CLIPVisionModelWithProjection.from_pretrained(base)
    for number in range(2):
        with torch.no_grad():
            for parameter in tower.parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
        tower.save_pretrained(tmp_path / f"m{number}")
    models = [load_file(tmp_path / f"m{number}/model.safetensors") for number in range(2)]
    assert all(set(model) == set(names) for model in models)
    (tmp_path / "recipe.toml").write_text(
        'merge_method = "task_arithmetic"\nbase_model = "base"\nout = "out"\nparameters = { lambda = 0.4 }\n'
        'models = [ { model = "m0", weight = 1.0 }, { model = "m1", weight = 0.5 } ]\n'
    )
    done = launch.run(1, "merge", tmp_path / "recipe.toml")
    assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("no model has"))
    assert '"text_model"' in line and '"logit_scale"' in line and '"vision_model"' in line, line
    written = load_file(tmp_path / "out/model.safetensors")
    assert set(written) == set(tensors)
    for name, start in tensors.items():
        if name not in names:
            assert torch.equal(written[name], start), name
            continue
        tau = [model[name].double() - start.double() for model in models]
        assert (written[name] - (start + 0.4 * (tau[0] + 0.5 * tau[1]))).abs().max() < 1e-6, name
    again = transformers.CLIPModel.from_pretrained(tmp_path / "out")
    assert torch.equal(again.vision_model.post_layernorm.weight, written["vision_model.post_layernorm.weight"])


def test_position_ids_that_only_models_have(tmp_path: Path) -> None:
    """Old versions of transformers stored them, new ones leave them out."""
    write(tmp_path / "base", {"w": torch.ones(4)})
    write(tmp_path / "m0", {"w": torch.ones(4), "embeddings.position_ids": torch.arange(5)[None]})
    assert set(merged(tmp_path, ["m0"])) == {"w"}
    shutil.rmtree(tmp_path / "out")
    write(tmp_path / "m0", {"w": torch.ones(4), "embeddings.position_ids": torch.arange(5)[None] + 2})
    refused(tmp_path, merge(tmp_path, ["m0"]), "m0", "embeddings.position_ids", "lacks")


def test_a_tensor_that_one_model_has_and_another_lacks(tmp_path: Path) -> None:
    for name, tensors in (("base", "ab"), ("m0", "ab"), ("m1", "a")):
        write(tmp_path / name, {tensor: torch.ones(4) for tensor in tensors})
    refused(tmp_path, merge(tmp_path, ["m0", "m1"]), "m1", 'no tensor "b"', "m0")


def quantised() -> Tensors:
    return {"l.weight": torch.randint(-127, 127, (8, 8), dtype=torch.int8), "l.scale": torch.rand(8) + 1}


@pytest.mark.parametrize("method", ["task_arithmetic", "linear"])
def test_numbers_that_are_not_merged_must_be_equal(tmp_path: Path, method: str) -> None:
    torch.manual_seed(0)
    base = quantised()
    write(tmp_path / "base", base)
    write(tmp_path / "m0", base | {"l.scale": base["l.scale"] + 1})
    write(tmp_path / "m1", quantised())
    assert torch.equal(merged(tmp_path, ["m0"])["l.weight"], base["l.weight"])
    shutil.rmtree(tmp_path / "out")
    refused(tmp_path, merge(tmp_path, ["m0", "m1"], method=method), "m1", '"l.weight" is Char [8,8]', "base")
    write(tmp_path / "m1", base | {"l.weight": base["l.weight"].float()})
    refused(tmp_path, merge(tmp_path, ["m0", "m1"], method=method), "m1", "Float [8,8]", "Char [8,8]")


def test_counters_of_batches_may_differ(tmp_path: Path) -> None:
    for name, count in (("base", 5), ("m0", 7)):
        write(tmp_path / name, {"bn.weight": torch.ones(4), "bn.num_batches_tracked": torch.tensor(count)})
    done = merge(tmp_path, ["m0"])
    assert done.returncode == 0 and "1 counters of batches differ" in done.stdout, done.stderr
    assert load_file(tmp_path / "out/model.safetensors")["bn.num_batches_tracked"] == 5


def test_a_tied_matrix_that_the_base_stores_twice(tmp_path: Path) -> None:
    """Its double has the merged numbers, too, and not those of the base."""
    torch.manual_seed(0)
    words, tuned = torch.randn(6, 4), torch.randn(6, 4)
    write(tmp_path / "base", {"embed.weight": words, "lm_head.weight": words.clone(), "norm": torch.ones(4)})
    write(tmp_path / "m0", {"embed.weight": tuned, "norm": torch.ones(4)})
    done = merge(tmp_path, ["m0"])
    assert done.returncode == 0 and '"lm_head.weight" doubles "embed.weight"' in done.stdout, done.stderr
    written = load_file(tmp_path / "out/model.safetensors")
    assert torch.equal(written["embed.weight"], written["lm_head.weight"])
    assert torch.allclose(written["embed.weight"], tuned, atol=1e-6)


def test_a_tied_matrix_that_a_model_stores_twice(tmp_path: Path) -> None:
    torch.manual_seed(0)
    words = torch.randn(6, 4)
    write(tmp_path / "base", {"embed.weight": words})
    write(tmp_path / "m0", {"embed.weight": words + 1, "lm_head.weight": words + 1})
    assert set(merged(tmp_path, ["m0"])) == {"embed.weight"}
    shutil.rmtree(tmp_path / "out")
    write(tmp_path / "m0", {"embed.weight": words + 1, "lm_head.weight": words + 2})
    refused(tmp_path, merge(tmp_path, ["m0"]), "m0", "lm_head.weight", "lacks")


def test_old_names_of_layer_norms(tmp_path: Path) -> None:
    """The base has bert-base-uncased's names, which the result keeps; the models have today's."""
    names = ("bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.beta")
    write(tmp_path / "base", dict.fromkeys(names, torch.ones(4)))
    write(
        tmp_path / "m0",
        {
            "bert.embeddings.LayerNorm.weight": torch.full((4,), 2.0),
            "bert.embeddings.LayerNorm.bias": torch.full((4,), 3.0),
        },
    )
    written = merged(tmp_path, ["m0"])
    assert {name: float(x[0]) for name, x in written.items()} == dict(zip(names, (2.0, 3.0), strict=True))
    shutil.rmtree(tmp_path / "out")
    write(tmp_path / "m0", load_file(tmp_path / "m0/model.safetensors") | dict.fromkeys(names, torch.ones(4)))
    refused(tmp_path, merge(tmp_path, ["m0"]), "m0", "under two names")


@pytest.mark.parametrize("method", ["task_arithmetic", "linear", "ties", "iso_c"])
@pytest.mark.parametrize("dtype", ["base", "float32", "float16"])
def test_types_that_differ_are_merged_in_float32(tmp_path: Path, method: str, dtype: str) -> None:
    """A base in bfloat16, one model in float32 and one in float16, beside the same numbers all in float32."""
    torch.manual_seed(0)
    base = {"a": torch.randn(30, 20).bfloat16(), "b": torch.randn(50).bfloat16(), "c": torch.randn(9)}
    models = [
        {name: (x + torch.randn(x.shape)).to(kind) for name, x in base.items()}
        for kind in (torch.float32, torch.float16)
    ]
    for folder, change in ((tmp_path / "mixed", False), (tmp_path / "same", True)):
        for name, tensors in (("base", base), ("m0", models[0]), ("m1", models[1])):
            write(
                folder / name,
                {key: x.float() if change else x for key, x in tensors.items()},
                {"model_type": "none of ours", "torch_dtype": "bfloat16"},
            )
    done = merge(tmp_path / "mixed", ["m0", "m1"], method=method, dtype=dtype)
    assert done.returncode == 0 and "3 tensors of several types, merged in float32" in done.stdout, done.stderr
    written = load_file(tmp_path / "mixed/out/model.safetensors")
    exact = merged(tmp_path / "same", ["m0", "m1"], method=method)
    for name, x in written.items():
        assert x.dtype == (base[name].dtype if dtype == "base" else getattr(torch, dtype))
        assert torch.equal(x, exact[name].to(x.dtype)), name
    config = json.loads((tmp_path / "mixed/out/config.json").read_text())
    assert config["torch_dtype"] == ("bfloat16" if dtype == "base" else dtype)


def test_a_type_that_cannot_hold_the_numbers(tmp_path: Path) -> None:
    write(tmp_path / "base", {"w": torch.full((4,), 1e5), "only_here": torch.full((4,), 2.0)})
    write(tmp_path / "m0", {"w": torch.full((4,), 1e5)})
    refused(tmp_path, merge(tmp_path, ["m0"], dtype="float16"), '"w"', "Half cannot hold")
    write(tmp_path / "base", {"w": torch.ones(4), "only_here": torch.full((4,), 1e5)})
    write(tmp_path / "m0", {"w": torch.ones(4)})
    refused(tmp_path, merge(tmp_path, ["m0"], dtype="float16"), "the base's", '"only_here"', "Half cannot hold")
    refused(tmp_path, merge(tmp_path, ["m0"], dtype="int8"), "dtype", "bfloat16")


def in_parts(folder: Path, tensors: Tensors, total: int = 0) -> None:
    """Two parts and their index, whose size is wrong, as some published ones are."""
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    files = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(sorted(tensors))}
    for file in set(files.values()):
        save_file({name: x for name, x in tensors.items() if files[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": files})
    )


def test_files_are_no_larger_than_asked_for(tmp_path: Path) -> None:
    """Transformers' names and index; where no part of the base is larger, its own parts."""
    torch.manual_seed(0)
    tensors = {name: torch.randn(250) for name in "abcde"}  # 1,000 bytes each
    for name in ("base", "m0"):
        write(tmp_path / name, tensors)
    for out, most, files in (("two", 2.5e-6, 3), ("tiny", 1e-6, 5), ("whole", 5e-6, 1)):
        done = merge(tmp_path, ["m0"], out=out, max_shard_size=most)
        assert done.returncode == 0, done.stderr
        paths = sorted((tmp_path / out).glob("*.safetensors"))
        assert len(paths) == files
        merged = {name: x for file in paths for name, x in load_file(file).items()}
        assert all(torch.equal(merged[name], x) for name, x in tensors.items()) and len(merged) == 5
        index = tmp_path / out / "model.safetensors.index.json"
        assert index.exists() == (files > 1)
        if files > 1:
            contents = json.loads(index.read_text())
            assert contents["metadata"]["total_size"] == 5000 and set(contents["weight_map"]) == set(tensors)
            assert paths[0].name == f"model-00001-of-{files:05}.safetensors"
            assert set(contents["weight_map"].values()) == {file.name for file in paths}
    in_parts(tmp_path / "parts", tensors)
    assert merge(tmp_path, ["m0"], base="parts", out="own", max_shard_size=3e-6).returncode == 0
    assert files_in(tmp_path / "own")[3:5] == ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert set(load_file(tmp_path / "own/model-00001-of-00002.safetensors")) == {"a", "c", "e"}
    refused(tmp_path, merge(tmp_path, ["m0"], max_shard_size=0), "max_shard_size")


def test_the_index_of_the_result_is_its_own(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tensors = {name: torch.randn(6) for name in "abcd"}
    for name in ("base", "m0"):
        in_parts(tmp_path / name, tensors, total=1)
    done = merge(tmp_path, ["m0"], dtype="bfloat16")
    assert done.returncode == 0, done.stderr
    index = json.loads((tmp_path / "out/model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == 4 * 6 * 2
    for name, file in index["weight_map"].items():
        assert torch.equal(load_file(tmp_path / "out" / file)[name], tensors[name].bfloat16())


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("model-00002-of-00002.safetensors", "and lies in model-00001"),
        ("model-00003-of-00002.safetensors", "model-00003-of-00002"),
    ],
)
def test_an_index_that_its_parts_contradict(tmp_path: Path, place: str, expected: str) -> None:
    write(tmp_path / "base", {name: torch.ones(4) for name in "abcd"})
    in_parts(tmp_path / "m0", {name: torch.ones(4) for name in "abcd"})
    path = tmp_path / "m0/model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["a"] = place
    path.write_text(json.dumps(index))
    refused(tmp_path, merge(tmp_path, ["m0"]), "m0", expected)
    index["weight_map"] |= {"a": "model-00001-of-00002.safetensors", "lost": "model-00001-of-00002.safetensors"}
    path.write_text(json.dumps(index))
    refused(tmp_path, merge(tmp_path, ["m0"]), "m0", '"lost"', "no part has it")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4665\nsize 12345\n", "git lfs pull"),
        (b"<!DOCTYPE html><html>Access denied</html>", "HTML"),
        (b"PK\3\4" + b"x" * 100, "zip archive"),
        (b"", "is empty"),
    ],
)
def test_what_is_no_safetensors_file(tmp_path: Path, text: bytes, expected: str) -> None:
    write(tmp_path / "base", {"w": torch.ones(4)})
    write(tmp_path / "m0", {"w": torch.ones(4)})
    (tmp_path / "m0/model.safetensors").write_bytes(text)
    refused(tmp_path, merge(tmp_path, ["m0"]), "m0/model.safetensors", expected, "expected a safetensors file")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("pytorch_model.bin", "jobs/prepare convert-model --from"),
        ("open_clip_model.safetensors", "rename"),
    ],
)
def test_a_folder_with_other_weights_says_what_to_do(tmp_path: Path, file: str, expected: str) -> None:
    write(tmp_path / "base", {"w": torch.ones(4)})
    (write(tmp_path / "m0", {"w": torch.ones(4)}) / "model.safetensors").rename(tmp_path / "m0" / file)
    refused(tmp_path, merge(tmp_path, ["m0"]), "m0", "neither model.safetensors", expected)


@pytest.mark.parametrize("name", ["model.safetensors", "model.safetensors.index.json", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("kind", ["fifo", "folder", "loop", "device"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, name: str, kind: str) -> None:
    write(tmp_path / "m0", {"w": torch.ones(4)})
    base = write(tmp_path / "base", {"w": torch.ones(4)})
    if name == "model.safetensors.index.json":
        (base / "model.safetensors").unlink()
    (base / name).unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(base / name)
    elif kind == "folder":
        (base / name).mkdir()
    else:
        (base / name).symlink_to(name if kind == "loop" else "/dev/zero")
    refused(tmp_path, merge(tmp_path, ["m0"]), base / name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_after_a_signal_the_next_start_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    for name in ("base", "m0", "m1"):
        write(tmp_path / name, {f"w{i}": torch.ones(4_000_000) for i in range(8)})
    (tmp_path / "recipe.toml").write_text(
        'merge_method = "ties"\nbase_model = "base"\nout = "new/out"\nmodels = [ { model = "m0" }, { model = "m1" } ]\n'
    )
    command = [launch.PROGRAM, "merge", str(tmp_path / "recipe.toml")]
    job = subprocess.Popen(
        command, env=launch.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    partial = tmp_path / "new/.out.partial"
    assert launch.wait_until((partial / ".begun").exists, job)
    job.send_signal(number)
    began = time.monotonic()
    _, errors = job.communicate(timeout=60)
    assert time.monotonic() - began < 5
    assert job.returncode == 75 and launch.without_progress(errors) == (
        f"taugrid: stopped: merge: by {number.name}; what is finished stays in {partial}, "
        "and the same command goes on\n"
    )
    assert not (tmp_path / "new/out").exists()
    file = (partial / "model.safetensors").stat().st_ino
    subprocess.run(command, env=launch.environment(), check=True, capture_output=True)
    assert not partial.exists() and (tmp_path / "new/out/model.safetensors").stat().st_ino == file
    expected = load_file(tmp_path / "base/model.safetensors")
    assert all(torch.equal(x, expected[name]) for name, x in load_file(tmp_path / "new/out/model.safetensors").items())


@pytest.mark.parametrize(
    ("line", "key"), [("max_shard_size = [1, 2]", "max_shard_size"), ("adapter = { share = [0.5, 0.9] }", "share")]
)
def test_numbers_that_are_one_for_all_tensors_are_no_lists(tmp_path: Path, line: str, key: str) -> None:
    for name in ("base", "m0"):
        write(tmp_path / name, {"layers.0.w": torch.ones(4, 4), "layers.1.w": torch.ones(4, 4)})
    (tmp_path / "recipe.toml").write_text(
        f'merge_method = "task_arithmetic"\nbase_model = "base"\nout = "out"\n{line}\nmodels = [ {{ model = "m0" }} ]\n'
    )
    done = launch.run(1, "merge", tmp_path / "recipe.toml")
    refused(tmp_path, done, f"recipe.toml:4: {line.split()[0]}", key, "no list")


def test_out_is_neither_a_link_nor_an_input(tmp_path: Path) -> None:
    base = write(tmp_path / "base", {"w": torch.ones(4)})
    write(tmp_path / "m0", {"w": torch.ones(4)})
    (tmp_path / "theirs").mkdir()
    for target, expected in (("theirs", "there already"), ("base", "input"), ("nowhere", "there already")):
        (tmp_path / "link").symlink_to(target)
        refused(tmp_path, merge(tmp_path, ["m0"], out="link"), "link", expected)
        (tmp_path / "link").unlink()
    refused(tmp_path, merge(tmp_path, ["m0"], out="recipe.toml"), "there already")
    assert files_in(base) == ["config.json", "model.safetensors"] and not list((tmp_path / "theirs").iterdir())


def test_an_input_may_not_lie_where_the_result_is_built(tmp_path: Path) -> None:
    """As what an earlier merge has left, of which somebody wants the numbers."""
    write(tmp_path / "base", {"w": torch.ones(4)})
    write(tmp_path / ".out.partial", {"w": torch.full((4,), 2.0)})
    (tmp_path / ".out.partial" / ".lock").touch()
    write(tmp_path / ".out.partial" / "inner", {"w": torch.full((4,), 2.0)})
    before = {path: path.read_bytes() for path in (tmp_path / ".out.partial").rglob("*") if path.is_file()}
    for model in (".out.partial", ".out.partial/inner"):
        launch.complaint(merge(tmp_path, [model]), "out", ".out.partial", "an input of this merge lies")
        assert not (tmp_path / "out").exists()
    assert {path: path.read_bytes() for path in (tmp_path / ".out.partial").rglob("*") if path.is_file()} == before


def test_a_part_may_not_have_the_name_of_a_file_of_ours(tmp_path: Path) -> None:
    in_parts(tmp_path / "base", {"v": torch.ones(4), "w": torch.ones(4)})
    write(tmp_path / "m0", {"v": torch.ones(4), "w": torch.ones(4)})
    index, hidden = tmp_path / "base/model.safetensors.index.json", ".finished.a.safetensors"
    (tmp_path / "base/model-00001-of-00002.safetensors").rename(tmp_path / "base" / hidden)
    index.write_text(index.read_text().replace("model-00001-of-00002.safetensors", hidden))
    refused(tmp_path, merge(tmp_path, ["m0"]), index, "a part that is not the name of a safetensors file")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("method", ["task_arithmetic", "tsv_m"])  # by stretches, and matrix by matrix
def test_a_difference_that_float32_does_not_hold_is_no_nan_of_the_model(
        tmp_path: Path, method: str, dtype: torch.dtype) -> None:
    write(tmp_path / "base", {"w": torch.full((4, 4), -3e38, dtype=dtype)})
    write(tmp_path / "m0", {"w": torch.full((4, 4), 3e38, dtype=dtype)})
    refused(tmp_path, merge(tmp_path, ["m0"], method=method), tmp_path / "m0", '"w"', "more than float32 holds")


def test_each_part_of_a_configuration_has_the_type(tmp_path: Path) -> None:
    config = {"model_type": "none of ours", "torch_dtype": "float32", "text_config": {"dtype": "float32", "layers": 1},
              "quantization_config": {"dtype": "nf4"}}
    write(tmp_path / "base", {"w": torch.ones(4)}, config)
    write(tmp_path / "m0", {"w": torch.ones(4)})
    merged(tmp_path, ["m0"], dtype="bfloat16")
    assert json.loads((tmp_path / "out/config.json").read_text()) == config | {
        "torch_dtype": "bfloat16", "text_config": {"dtype": "bfloat16", "layers": 1}}


def test_what_a_killed_start_was_writing_is_not_in_the_result(tmp_path: Path) -> None:
    """The card is written last, under a name of its own until it is whole; nor is what only starts need."""
    for name in ("base", "m0", "m1"):
        write(tmp_path / name, {f"w{i}": torch.ones(4_000_000) for i in range(8)})
    assert merge(tmp_path, ["m0", "m1"], method="ties", out="whole").returncode == 0
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('"whole"', '"out"'))
    job = subprocess.Popen([launch.PROGRAM, "merge", str(recipe)], env=launch.environment(), text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    partial = tmp_path / ".out.partial"
    assert launch.wait_until((partial / ".begun").exists, job)
    job.kill()
    job.communicate()
    (partial / ".README.md.partial.host.0123456789abcdef").write_text("half of it")
    assert launch.run(1, "merge", recipe).returncode == 0
    names = {path.name for path in (tmp_path / "whole").iterdir()}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names and not partial.exists()


def test_what_is_no_file_keeps_its_place(tmp_path: Path) -> None:
    """A rename would put a file there: in place of a device, where root writes."""
    for name in ("a", "b"):
        write(tmp_path / name, {"w": torch.ones(4)})
    os.mkfifo(tmp_path / "pipe")
    done = launch.run(1, "diff", tmp_path / "a", tmp_path / "b", "--json", tmp_path / "pipe")
    launch.complaint(done, tmp_path / "pipe", "expected a file")
    assert (tmp_path / "pipe").is_fifo() and not list(tmp_path.glob(".*"))


def test_the_nearest_command_is_named() -> None:
    launch.complaint(launch.run(1, "mrege", "recipe.toml"), '"mrege"', "did you mean merge?")
    launch.complaint(launch.run(1, "x" * 10_000), "there is no command", "--help")


# How base and models are laid out: their types, and whether in parts.
LAYOUTS = {
    "one_file": ("float32", "float32", False),
    "in_parts": ("float32", "float32", True),
    "half": ("bfloat16", "bfloat16", False),
    "half_in_parts": ("float16", "float16", True),
    "base_of_another_type": ("bfloat16", "float32", False),
    "models_of_another_type": ("float32", "float16", True),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("method", ["linear", "task_arithmetic"])
def test_every_layout_is_merged_as_mergekit_merges_it(tmp_path: Path, method: str, layout: str) -> None:
    """Means and sums of θ0, taken in float32 and written in the base's type. mergekit adds in another order, so that a
    float32 may differ in its last bit, and what is rounded to half of it where it lay between two."""
    from mergekit import merge_methods as mergekit

    of_base, of_models, parts = LAYOUTS[layout]
    torch.manual_seed(2)
    start = {name: torch.randn(40, 7) for name in "abcd"}
    tuned = [{name: x + 0.1 * torch.randn_like(x) for name, x in start.items()} for _ in range(3)]
    kinds = {"base": (start, getattr(torch, of_base))} | {
        f"m{i}": (each, getattr(torch, of_models)) for i, each in enumerate(tuned)
    }
    stored = {name: {key: x.to(dtype) for key, x in each.items()} for name, (each, dtype) in kinds.items()}
    for name, tensors in stored.items():
        (in_parts if parts else write)(tmp_path / name, tensors)
    done = merge(tmp_path, ["m0", "m1", "m2"], method=method)
    assert done.returncode == 0, done.stderr
    written = {key: x for file in (tmp_path / "out").glob("model*.safetensors") for key, x in load_file(file).items()}
    assert written.keys() == start.keys()
    for key, x in written.items():
        each = [stored[name][key].float() for name in ("base", "m0", "m1", "m2")]
        if method == "linear":
            expected = mergekit.merge_tensors(each[1:], "linear", parameters={"weight": [1.0, 1.0, 1.0]})
        else:
            parameters = {"weight": [1.0, 1.0, 1.0]}
            expected = mergekit.merge_tensors(each, "task_arithmetic", base_index=0, parameters=parameters)
        assert x.dtype == getattr(torch, of_base)
        step = torch.finfo(torch.float32).eps * sum(tensor.abs() for tensor in each)
        rounded = [(expected + side * step).to(x.dtype) for side in (-1, 0, 1)]
        assert bool(((rounded[0] <= x) & (x <= rounded[2])).all())
        if x.dtype != torch.float32:
            assert float((x != rounded[1]).float().mean()) < 0.01
