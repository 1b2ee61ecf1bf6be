# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The card of a merged model: README.md is what the hub's own client reads, and says what the inputs' files say."""

import hashlib
import json
import os
import re
from pathlib import Path

import launch
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from huggingface_hub._local_folder import write_download_metadata
from safetensors.torch import save_file

REVISIONS = ("1" * 40, "2" * 40)
HOSTILE = "a`b|c\n---\nlicense: mit\n#"


def write(folder: Path, value: float, config: dict | None = None, metadata: dict[str, str] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {"layers.0.q_proj.weight": torch.full((4, 3), float(value))}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"} | (metadata or {}))
    (folder / "config.json").write_text(json.dumps({"model_type": "none of ours"} | (config or {})))
    return folder


def in_cache(hub: Path, name: str, revision: str, value: float, front: str) -> Path:
    """A snapshot as the hub's client lays it out: links to blobs, which are called by their SHA-256."""
    folder = hub / f"models--{name.replace('/', '--')}"
    snapshot, blobs = folder / "snapshots" / revision, folder / "blobs"
    blobs.mkdir(parents=True)
    write(snapshot, value)
    (snapshot / "README.md").write_text(f"---\n{front}---\n# {name}\n")
    for path in list(snapshot.iterdir()):
        blob = blobs / hashlib.sha256(path.read_bytes()).hexdigest()
        path.rename(blob)
        path.symlink_to(f"../../blobs/{blob.name}")
    return snapshot


def merged(folder: Path, base: Path, models: list[Path], method: str = "task_arithmetic", more: str = "") -> Path:
    entries = ", ".join("{ model = " + json.dumps(str(model)) + " }" for model in models)
    (folder / "recipe.toml").write_text(
        f'merge_method = "{method}"\nbase_model = {json.dumps(str(base))}\nout = "out"\nmodels = [ {entries} ]\n{more}')
    done = launch.run(1, "merge", folder / "recipe.toml")
    assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
    assert not list(folder.rglob("*.partial*"))
    return folder / "out"


def rows(card: ModelCard) -> list[list[str]]:
    """The cells of the table of inputs, below its heading."""
    lines = [line for line in card.text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert len(lines) > 2 and {len(row) for row in cells} == {4}
    return cells[2:]


def test_models_of_the_hub(tmp_path: Path) -> None:
    base = in_cache(tmp_path / "hub", "some-one/a.base", REVISIONS[0], 1, "license: mit\ntags: [x]\n")
    tuned = in_cache(tmp_path / "hub", "tuned", REVISIONS[1], 2,
                     "license: mit\nbase_model:\n- some-one/a.base\n- other/x\n")
    out = merged(tmp_path, base, [tuned], "ties")
    card = ModelCard.load(out / "README.md")
    assert card.data.to_dict() == {"base_model": ["some-one/a.base", "tuned"], "library_name": "transformers",
                                   "license": "mit", "tags": ["merge", "taugrid"]}
    first, second = rows(card)
    for row, folder, name, revision in ((first, base, "some-one/a.base", REVISIONS[0]),
                                        (second, tuned, "tuned", REVISIONS[1])):
        digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
        assert row[1] == f"[{name}](https://huggingface.co/{name})"
        assert row[2] == f"revision `{revision}`<br>SHA-256 `{digest}`"
    assert first[0] == "base" and second[0] == "model"
    assert second[3] == "made from `some-one/a.base`, `other/x` (its card)<br>licence `mit` (its card)"
    assert "TIES (Yadav et al. 2023)" in card.text
    assert f"```toml\n{(out / 'merge.toml').read_text()}```" in card.text


@pytest.mark.parametrize("changed", [False, True])
def test_folders_that_were_downloaded(tmp_path: Path, changed: bool) -> None:
    """`hf download --local-dir` writes digests beside the files, which hold until a file is written again."""
    base, tuned = write(tmp_path / "base", 1), write(tmp_path / "tuned", 2)
    digest = hashlib.sha256((tuned / "model.safetensors").read_bytes()).hexdigest()
    write_download_metadata(tuned, "model.safetensors", REVISIONS[0], digest)
    if changed:
        later = (tuned / "model.safetensors").stat().st_mtime + 60
        os.utime(tuned / "model.safetensors", (later, later))
    card = ModelCard.load(merged(tmp_path, base, [tuned]) / "README.md")
    assert card.data.base_model == [] and "license" not in card.data.to_dict()
    assert rows(card)[0] == ["base", "`base`", "no digest beside them", "nothing"]
    assert rows(card)[1][2] == ("no digest beside them" if changed
                                else f"revision `{REVISIONS[0]}`<br>SHA-256 `{digest}`")


def test_what_models_say_of_their_origin(tmp_path: Path) -> None:
    base = write(tmp_path / "base", 1, {"_name_or_path": "org/first"})
    first = merged(tmp_path, base, [write(tmp_path / "a", 2), write(tmp_path / "b", 3)], "linear")
    first = first.rename(tmp_path / "m")
    second = write(tmp_path / "k", 4, metadata={"theta0": "0123456789abcdef", "digest": "f" * 16})
    (second / "mergekit_config.yml").write_text(
        "slices:\n- sources:\n  - {model: org/x, layer_range: [0, 1]}\n  - {model: /home/me/y, layer_range: [0, 1]}\n"
        "merge_method: slerp\nbase_model: org/x\n")
    card = ModelCard.load(merged(tmp_path, base, [first, second]) / "README.md")
    says = [row[3] for row in rows(card)]
    assert says[0] == "loaded from `org/first` (config.json)"
    assert says[1].endswith("merged by `linear` from `base`, `a`, `b` (merge.toml)")
    assert says[2] == ("fine-tuned from the θ0 whose fingerprint is `0123456789abcdef`<br>"
                       "merged by `slerp` from `org/x`, `y` (mergekit_config.yml)")
    assert rows(card)[2][2] == f"FNV-1a of its tensors `{'f' * 16}`"


@pytest.mark.parametrize("licences", [("mit", "apache-2.0"), ("mit", None), ("other", "other"), ("[mit]", "mit: x")])
def test_a_licence_is_that_of_all_inputs(tmp_path: Path, licences: tuple[str, str | None]) -> None:
    folders = [write(tmp_path / name, t) for t, name in enumerate(("base", "tuned"), 1)]
    for folder, licence in zip(folders, licences, strict=True):
        if licence is not None:
            (folder / "README.md").write_text(f"---\nlicense: {licence}\n---\n")
    card = ModelCard.load(merged(tmp_path, folders[0], folders[1:]) / "README.md")
    assert "license" not in card.data.to_dict()


def test_names_and_texts_of_others_stay_what_they_are(tmp_path: Path) -> None:
    base = write(tmp_path / "base", 1, {"_name_or_path": HOSTILE * 50})
    tuned = write(tmp_path / HOSTILE.replace("/", ""), 2, {"_name_or_path": ["no", "text"]})
    (tuned / "README.md").write_text("---\n" + yaml.safe_dump({"base_model": [HOSTILE, None, {"x": 1}] * 20}) + "---\n")
    (tuned / "merge.toml").write_text(f"merge_method = {json.dumps(HOSTILE)}\nbase_model = '````'\n")
    (tuned / "mergekit_config.yml").write_text("{" * 100)
    other = write(tmp_path / "models--x--y y/snapshots" / ("````" + REVISIONS[0]), 3)
    (other / "README.md").mkdir()
    (other / "merge.toml").write_text('extends = "/etc/passwd"\nmerge_method = 3\n')
    card = ModelCard.load(merged(tmp_path, base, [tuned, other]) / "README.md")
    assert card.data.to_dict() == {"base_model": [], "library_name": "transformers", "tags": ["merge", "taugrid"]}
    assert len(rows(card)) == 3 and max(len(cell) for row in rows(card) for cell in row) < 1500
    assert rows(card)[2][3] == "nothing"
    code = "a'b\\|c\\n---\\nlicense: mit\\n#"
    assert f"`{code}`" in rows(card)[1][1] and f"merged by `{code}` from `''''`" in rows(card)[1][3]
    # Whatever the paths in it, the recipe ends where its fence says, and nothing follows.
    text = (tmp_path / "out/README.md").read_text()
    fenced = re.search(r"^(`{5,})toml\n(.*)^\1\n\Z", text, re.M | re.S)
    assert fenced is not None and fenced[2] == (tmp_path / "out/merge.toml").read_text()


def test_an_adapter_is_pefts(tmp_path: Path) -> None:
    base = in_cache(tmp_path / "hub", "one/base", REVISIONS[0], 1, "license: mit\n")
    tuned = [write(tmp_path / name, t) for t, name in enumerate("ab", 2)]
    card = ModelCard.load(merged(tmp_path, base, tuned, more="[adapter]\nrank = 1\n") / "README.md")
    assert card.data.to_dict() == {"base_model": ["one/base"], "library_name": "peft",
                                   "tags": ["merge", "lora", "taugrid"]}
    assert "A merge of 2 models, as a LoRA adapter of the base" in card.text and len(rows(card)) == 3
    done = launch.run(1, "extract", base, tuned[0], tmp_path / "extracted", "--rank", "1")
    assert done.returncode == 0, done.stderr
    extracted = ModelCard.load(tmp_path / "extracted/README.md")
    assert extracted.data.tags == ["lora", "taugrid"] and extracted.data.base_model == ["one/base"]
    assert "The difference of one model from its base, as a LoRA adapter" in extracted.text
    # An adapter as an input says whose it is.
    again = tmp_path / "again"
    again.mkdir()
    whole = ModelCard.load(merged(again, base, [tmp_path / "extracted"]) / "README.md")
    assert rows(whole)[1][3].startswith(f"an adapter of `{REVISIONS[0]}` (adapter_config.json)")
    assert "made from `one/base` (its card)" in rows(whole)[1][3]
