# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Vocabularies of merged models: every model's rows go to the ids that the result's tokenizer gives their tokens.

The oracle is mergekit on the same folders. Its union numbers further tokens in the order of a hash, so rows are
compared token by token, through the tokenizers that both wrote. Where it guesses, a formula in NumPy is the oracle.
"""

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import launch
import numpy as np
import peer_mergekit
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

SPECIAL = ["<unk>", "<s>", "</s>"]
WORDS = [*SPECIAL, *(f"w{i}" for i in range(17))]
ROWS = ["model.embed_tokens.weight", "lm_head.weight"]
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
VOCABULARIES = {
    "base": (WORDS, []),
    "b": ([*WORDS[:3], *WORDS[12:], "w.new", "both", *WORDS[3:12]], [AddedToken("<|im|>", special=True), "<|le|>"]),
    "c": ([*WORDS[:8], "both", *WORDS[8:18]], [AddedToken("<|im|>", special=True)]),
}
SPARE = 2  # rows of b that no token has


def write_tokenizer(folder: Path, words: list[str], added: list[str | AddedToken], kind: type) -> None:
    vocabulary = {"vocab": {word: i for i, word in enumerate(words)}, "unk_token": "<unk>"}
    if kind is models.Unigram:
        vocabulary = {"vocab": [(word, -1.0) for word in words], "unk_id": 0}
    if kind is models.BPE:
        vocabulary |= {"merges": [], "ignore_merges": True}
    inner = Tokenizer(kind(**vocabulary))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", bos_token="<s>",
                                                     eos_token="</s>")
    for token in added:
        tokenizer.add_tokens([token])
    tokenizer.save_pretrained(folder)


def write_models(folder: Path, dtype: torch.dtype = torch.float32, kind: type = models.WordLevel,
                 **config: bool) -> None:
    """Three models of one start, whose rows of equal tokens are near each other."""
    torch.manual_seed(5)
    row = {name: {} for name in ROWS}
    start = None
    for name, (words, added) in VOCABULARIES.items():
        write_tokenizer(folder / name, words, added, kind)
        ids = transformers.AutoTokenizer.from_pretrained(folder / name).get_vocab()
        rows = max(ids.values()) + 1 + (SPARE if name == "b" else 0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, vocab_size=rows, **config)).to(dtype)
        state = model.state_dict()
        start = start or {key: x.clone() for key, x in state.items() if key not in ROWS}
        for key, x in state.items():
            if key not in ROWS:
                x.copy_(start[key] + (name != "base") * 0.01 * torch.randn_like(x))
                continue
            for token, i in ids.items():
                known = row[key].setdefault(token, torch.randn(SMALL["hidden_size"]).to(dtype))
                x[i] = known + (name != "base") * 0.05 * torch.randn_like(known)
        model.save_pretrained(folder / name)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    models_folder = tmp_path_factory.mktemp("vocabularies")
    write_models(models_folder)
    return models_folder


def ours(folder: Path, text: str, name: str = "recipe.yml") -> Path:
    (folder / name).write_text(text)
    shutil.rmtree(folder / "ours", ignore_errors=True)
    done = launch.run(1, "merge", folder / name, folder / "ours")
    assert done.returncode == 0 and not launch.without_progress(done.stderr), done.stderr
    return folder / "ours"


def theirs(folder: Path, text: str) -> Path:
    return peer_mergekit.merge(text, folder / "theirs")


def vocabulary(folder: Path) -> dict[str, int]:
    return transformers.AutoTokenizer.from_pretrained(folder).get_vocab()


def require_sound(out: Path) -> dict[str, torch.Tensor]:
    """Loads it as its users do: a row for each id, and the tokenizer's ids are those of the file. Its tensors."""
    model = transformers.AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    assert not any(model[1].values()), model[1]
    ids = vocabulary(out)
    rows = model[0].get_input_embeddings().weight.shape[0]
    assert rows == model[0].config.vocab_size > max(ids.values())
    written = json.loads((out / "tokenizer.json").read_text())
    assert all(ids[entry["content"]] == entry["id"] for entry in written["added_tokens"])
    return load_file(out / "model.safetensors")


LINEAR = """merge_method: linear
base_model: base
models:
- {model: base, parameters: {weight: 0.2}}
- {model: b, parameters: {weight: 0.3}}
- {model: c, parameters: {weight: 0.5}}
"""
TIES = """merge_method: ties
base_model: base
models:
- {model: b, parameters: {weight: 1, density: 0.6}}
- {model: c, parameters: {weight: 0.5, density: 0.4}}
"""
SLERP = """merge_method: slerp
base_model: base
models: [{model: base}, {model: b}]
parameters: {t: 0.4}
"""
UNION, BASE = "tokenizer_source: union\n", "tokenizer: {source: base}\n"
FORCED = """tokenizer:
  source: union
  tokens:
    w3: {source: b, force: true}
    w.new: {source: {kind: zero}}
    "<|im|>": {source: c}
    more: {source: {kind: model_token, model: b, token: w5}}
    most: {source: {kind: model_token, model: base, token_id: 7}, force: true}
"""
CASES = {
    "linear, union": LINEAR + UNION,
    "linear, base": LINEAR + BASE,
    "linear, a model's": LINEAR + "tokenizer_source: b\n",
    "linear, chosen rows": LINEAR + FORCED,
    "linear, no base": LINEAR.replace("base_model: base\n", "") + "tokenizer: {source: c}\n",
    "ties, union": TIES + UNION,
    "ties, a model's": TIES + "tokenizer: {source: c}\n",
    "slerp, union": SLERP + UNION,
    "slerp, padded": SLERP + "tokenizer: {pad_to_multiple_of: 64}\n",
}


@pytest.mark.parametrize("name", CASES)
def test_rows_and_tokens_are_mergekits(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    text = CASES[name] + "dtype: float32\n"
    mine, its = require_sound(ours(folder, text)), load_file(theirs(folder, text) / "model.safetensors")
    ids, its_ids = vocabulary(folder / "ours"), vocabulary(folder / "theirs")
    assert ids.keys() == its_ids.keys()
    base = vocabulary(folder / "base")
    assert name.split()[-1] != "union" or all(ids[token] == i for token, i in base.items())
    assert mine.keys() == its.keys()
    order, its_order = zip(*((ids[token], its_ids[token]) for token in ids), strict=True)
    for key, x in its.items():
        y = mine[key]
        assert y.shape == x.shape and y.dtype == x.dtype, key
        if key in ROWS:
            padding, its_padding = (sorted(set(range(len(x))) - set(of)) for of in (order, its_order))
            assert (y[padding] - x[its_padding]).abs().max() < 1e-6 if padding else not its_padding
            x, y = x[list(its_order)], y[list(order)]
        close = (x - y).abs().max() <= 1e-6 * x.abs().max()
        assert peer_mergekit.is_same(x, y) if name.startswith("linear") else close, key
    configs = [json.loads((folder / side / "config.json").read_text()) for side in ("ours", "theirs")]
    assert configs[0]["vocab_size"] == configs[1]["vocab_size"]
    sentences = ["w3 w4<|im|> w.new both x", "w16 <|le|>w1 more most", "<s> bothw3 </s>"]
    of_taugrid, of_mergekit = (transformers.AutoTokenizer.from_pretrained(folder / x) for x in ("ours", "theirs"))
    for sentence in sentences:
        assert of_taugrid.tokenize(sentence) == of_mergekit.tokenize(sentence)
    assert of_taugrid.all_special_tokens == of_mergekit.all_special_tokens


def rows_of(folder: Path, name: str, key: str, tokens: list[str], mean_of: tuple[str, ...] = ()) -> np.ndarray:
    """A model's rows by the rule: its own, else the only one's, else the base's, else the mean; zero of nobody's."""
    every = {x: (vocabulary(folder / x), load_file(folder / x / "model.safetensors")[key].float().numpy())
             for x in VOCABULARIES}
    model_rows = []
    for token in tokens:
        having = [x for x in mean_of if token in every[x][0]]
        if token in every[name][0]:
            having = [name]
        elif "base" in having and len(having) > 1:
            having = ["base"]
        rows = [every[x][1][every[x][0][token]] for x in having]
        model_rows.append(np.mean(rows, axis=0) if rows else np.zeros(SMALL["hidden_size"]))
    return np.array(model_rows)


@pytest.mark.parametrize("kind", [models.WordLevel, models.Unigram, models.WordPiece, models.BPE])
def test_rows_are_those_of_the_formula(tmp_path: Path, kind: type) -> None:
    """In bfloat16, of which mergekit makes the means in its dtype, and padded: the rows of no token are the mean."""
    write_models(tmp_path, torch.bfloat16, kind)
    out = ours(tmp_path, 'merge_method = "linear"\nbase_model = "base"\ndtype = "float32"\n'
               'models = [ { model = "b", weight = 1.0 }, { model = "c", weight = 3.0 } ]\n'
               '[tokenizer]\npad_to_multiple_of = 32\ntokens = [ { token = "nobody\'s", source = "zero" } ]\n',
               "recipe.toml")
    tensors, ids = require_sound(out), vocabulary(out)
    tokens = sorted(ids, key=ids.__getitem__)
    assert tokens[:len(WORDS)] == WORDS and tokens[-1] == "nobody's" and len(tokens) == 25
    for key in ROWS:
        b, c = (rows_of(tmp_path, name, key, tokens, ("b", "c", "base")) for name in ("b", "c"))
        expected = (b + 3 * c) / 4
        assert tensors[key].shape == (32, SMALL["hidden_size"])
        merged_rows = tensors[key].numpy()
        assert np.abs(merged_rows[:25] - expected).max() < 1e-6
        assert np.abs(merged_rows[25:] - expected.mean(axis=0)).max() < 1e-6
    assert "w3" in transformers.AutoTokenizer.from_pretrained(out).tokenize("w3 w4")


def test_the_first_model_is_the_base_where_none_is_named(folder: Path) -> None:
    """mergekit takes any of them, by chance. Without a base rows are means of those that have the token."""
    text = LINEAR.replace("base_model: base\n", "").replace("model: base, parameters: {weight: 0.2}",
                                                            "model: c, parameters: {weight: 0.2}", 1)
    text = text.replace("{model: c, parameters: {weight: 0.5}}", "{model: base, parameters: {weight: 0.5}}")
    out = ours(folder, text + UNION)
    tensors, ids = require_sound(out), vocabulary(out)
    assert all(ids[token] == i for token, i in vocabulary(folder / "c").items())
    tokens = sorted(ids, key=ids.__getitem__)
    for key in ROWS:
        every = {x: rows_of(folder, x, key, tokens) for x in VOCABULARIES}
        has = {x: np.array([[token in vocabulary(folder / x)] for token in tokens]) for x in VOCABULARIES}
        mean = sum(every[x] * has[x] for x in every) / sum(has.values())
        weights = {"c": 0.2, "b": 0.3, "base": 0.5}
        expected = sum(weight * np.where(has[x], every[x], mean) for x, weight in weights.items())
        assert np.abs(tensors[key].numpy() - expected).max() < 1e-6


def test_slices_have_the_rows_of_their_models(folder: Path) -> None:
    out = ours(folder, "slices:\n- sources: [{model: base, layer_range: [0, 2]}]\n"
               "- sources: [{model: b, layer_range: [0, 2]}]\nmerge_method: passthrough\n" + UNION)
    tensors, ids = require_sound(out), vocabulary(out)
    tokens = sorted(ids, key=ids.__getitem__)
    for key, name in zip(ROWS, ("base", "b"), strict=True):
        assert np.array_equal(tensors[key].numpy(), rows_of(folder, name, key, tokens).astype(np.float32))


def test_tied_heads_stay_tied(tmp_path: Path) -> None:
    write_models(tmp_path, tie_word_embeddings=True)
    tensors = require_sound(ours(tmp_path, LINEAR + UNION))
    assert "lm_head.weight" not in tensors
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    assert model.lm_head.weight is model.model.embed_tokens.weight
    tokens = sorted(vocabulary(tmp_path / "ours"), key=vocabulary(tmp_path / "ours").__getitem__)
    every = [rows_of(tmp_path, x, ROWS[0], tokens, tuple(VOCABULARIES)) for x in VOCABULARIES]
    expected = 0.2 * every[0] + 0.3 * every[1] + 0.5 * every[2]
    assert np.abs(tensors[ROWS[0]].numpy() - expected).max() < 1e-6
    # The same where a model stores both; and refused where the two differ.
    file = load_file(tmp_path / "b/model.safetensors")
    save_file(file | {ROWS[1]: file[ROWS[0]].clone()}, tmp_path / "b/model.safetensors", {"format": "pt"})
    again = require_sound(ours(tmp_path, LINEAR + UNION))
    assert all(torch.equal(x, again[key]) for key, x in tensors.items())
    save_file(file | {ROWS[1]: 2 * file[ROWS[0]]}, tmp_path / "b/model.safetensors", {"format": "pt"})
    refused(tmp_path, LINEAR + UNION, "b: ", "differ, and the base ties the two")


def test_a_heads_bias_has_rows_too(tmp_path: Path) -> None:
    """RoBERTa's, whose head is tied; its positions, as many as the base's tokens, are no rows of tokens."""
    for number, (name, (words, added)) in enumerate(VOCABULARIES.items()):
        write_tokenizer(tmp_path / name, words, added, models.WordLevel)
        torch.manual_seed(number)
        model = transformers.RobertaForMaskedLM(transformers.RobertaConfig(
            **SMALL, vocab_size=max(vocabulary(tmp_path / name).values()) + 1, max_position_embeddings=20))
        torch.nn.init.normal_(model.lm_head.bias)
        model.save_pretrained(tmp_path / name)
    out = ours(tmp_path, LINEAR + UNION)
    assert transformers.AutoModelForMaskedLM.from_pretrained(out).lm_head.bias.shape == (24,)
    tensors, ids = load_file(out / "model.safetensors"), vocabulary(out)
    tokens = sorted(ids, key=ids.__getitem__)
    for key in ("lm_head.bias", "roberta.embeddings.word_embeddings.weight"):
        every = [rows_of(tmp_path, x, key, tokens, tuple(VOCABULARIES)) for x in VOCABULARIES]
        expected = 0.2 * every[0] + 0.3 * every[1] + 0.5 * every[2]
        assert np.abs(tensors[key].numpy() - expected).max() < 1e-6


def test_a_models_tokenizer_brings_its_files(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "models")
    end = {"eos_token_id": 7, "pad_token_id": 9}
    for name, more in (("b", end), ("base", {"pad_token_id": 0})):
        path = tmp_path / "models" / name / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | more))
    (tmp_path / "models/b/generation_config.json").write_text(json.dumps(end))
    (tmp_path / "models/b/chat_template.jinja").write_text("{{ messages }}")
    (tmp_path / "models/base/LICENSE").write_text("the base's")
    out = ours(tmp_path / "models", LINEAR + "tokenizer_source: b\n")
    config = json.loads((out / "config.json").read_text())
    assert end.items() <= config.items()
    assert json.loads((out / "generation_config.json").read_text()) == end
    assert (out / "chat_template.jinja").read_text() == "{{ messages }}"
    assert (out / "tokenizer.json").read_bytes() == (folder / "b/tokenizer.json").read_bytes()
    assert (out / "LICENSE").read_text() == "the base's"


def test_the_record_makes_it_again(folder: Path) -> None:
    text = TIES + FORCED + "chat_template: \"{% for m in messages %}{{ m['content'] }}\\n{% endfor %}\"\n"
    first = ours(folder, text)
    shutil.rmtree(folder / "first", ignore_errors=True)
    shutil.move(first, folder / "first")
    again = ours(folder, (folder / "first/merge.toml").read_text(), "again.toml")
    for path in (folder / "first").iterdir():
        assert path.name == "merge.toml" or (again / path.name).read_bytes() == path.read_bytes(), path.name


def test_chat_templates(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "models")
    for name, text in (("base", "{{ 1 }}"), ("b", "{{ messages }}"), ("c", "{{ messages }}")):
        (tmp_path / "models" / name / "chat_template.jinja").write_text(text)
    out = ours(tmp_path / "models", LINEAR + UNION + "chat_template: auto\n")
    assert transformers.AutoTokenizer.from_pretrained(out).chat_template == "{{ messages }}"
    path = tmp_path / "models/base/tokenizer_config.json"  # as older programs wrote it
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": "{{ 1 }}"}))
    (tmp_path / "models/base/chat_template.jinja").unlink()
    out = ours(tmp_path / "models", LINEAR + UNION + "chat_template: \"{{ 'mine' }}\"\n")
    assert transformers.AutoTokenizer.from_pretrained(out).chat_template == "{{ 'mine' }}"
    for name in VOCABULARIES:
        (tmp_path / "models" / name / "chat_template.jinja").unlink(missing_ok=True)
    path.write_text((folder / "base/tokenizer_config.json").read_text())
    refused(tmp_path / "models", LINEAR + UNION + "chat_template: auto\n", "chat_template", "no model has")
    refused(folder, LINEAR + "chat_template: chatml\n", "chat_template", '"chatml"')


def test_tokenizers_in_older_files(folder: Path, tmp_path: Path) -> None:
    """added_tokens_decoder of tokenizer_config.json, added_tokens.json, and a vocabulary without tokenizer.json."""
    shutil.copytree(folder, tmp_path / "models")
    expected = require_sound(ours(tmp_path / "models", LINEAR + UNION))
    for name in ("base", "b"):
        at = tmp_path / "models" / name
        added = json.loads((at / "tokenizer.json").read_text())["added_tokens"]
        config = json.loads((at / "tokenizer_config.json").read_text())
        config["added_tokens_decoder"] = {str(x["id"]): {k: v for k, v in x.items() if k != "id"} for x in added}
        (at / "tokenizer_config.json").write_text(json.dumps(config))
        (at / "added_tokens.json").write_text(json.dumps({x["content"]: x["id"] for x in added}))
    vocab = json.loads((tmp_path / "models/c/tokenizer.json").read_text())["model"]["vocab"]
    (tmp_path / "models/c/vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "models/c/added_tokens.json").write_text('{"<|im|>": 19}')
    (tmp_path / "models/c/tokenizer.json").unlink()
    out = ours(tmp_path / "models", LINEAR + UNION)
    tensors = require_sound(out)
    assert all(torch.equal(x, tensors[key]) for key, x in expected.items())
    decoder = json.loads((out / "tokenizer_config.json").read_text())["added_tokens_decoder"]
    listed = json.loads((out / "added_tokens.json").read_text())
    ids = vocabulary(out)
    assert all(ids[entry["content"]] == int(i) for i, entry in decoder.items())
    assert all(ids[token] == i for token, i in listed.items()) and "w.new" in listed


def refused(folder: Path, text: str, *expected: str) -> None:
    (folder / "recipe.yml").write_text(text)
    shutil.rmtree(folder / "ours", ignore_errors=True)
    done = launch.run(1, "merge", folder / "recipe.yml", folder / "ours")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, (done.returncode, done.stderr)
    assert done.stderr.startswith("taugrid: error: ") and len(done.stderr) <= 517
    for part in expected:
        assert part in done.stderr, done.stderr
    assert not [path for path in folder.iterdir() if path.name.startswith(("ours", ".ours"))]


def changed(path: str, change: Callable[[dict], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        value = json.loads((folder / path).read_text())
        change(value)
        (folder / path).write_text(json.dumps(value))

    return apply


def sentencepiece_alone(folder: Path) -> None:
    (folder / "b/tokenizer.json").rename(folder / "b/tokenizer.model")


def square(folder: Path) -> None:
    write_tokenizer(folder / "b", WORDS[:16], [], models.WordLevel)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, vocab_size=16)).save_pretrained(folder / "b")


def nothing(folder: Path) -> None:
    pass


TOKENS = LINEAR + "tokenizer: {source: base, tokens: {"
FILES: dict[str, tuple[Callable[[Path], None], str, list[str]]] = {
    "ids beyond the rows": (changed("b/config.json", lambda x: x.update(vocab_size=20)), LINEAR + UNION,
                            ["b: its tokenizer gives", "the id 23", "20 rows"]),
    "other rows than said": (changed("b/config.json", lambda x: x.update(vocab_size=40)), LINEAR + BASE,
                             ["another number of rows", "vocab_size = 40"]),
    "no number of rows": (changed("c/config.json", lambda x: x.pop("vocab_size")), LINEAR + BASE, ["c/config.json"]),
    "two vocabularies": (changed("c/config.json", lambda x: x.update(text_config={"vocab_size": 7})), LINEAR + BASE,
                         ["7 and 20", "one vocabulary"]),
    "sentencepiece alone": (sentencepiece_alone, LINEAR + UNION, ["b/tokenizer.model", "not read", "save_pretrained"]),
    "no tokenizer of the base": (lambda x: (x / "base/tokenizer.json").unlink(), LINEAR + UNION,
                                 ["base: has no tokenizer"]),
    "no tokenizer, other rows": (lambda x: (x / "b/tokenizer.json").unlink(), LINEAR + UNION,
                                 ["b: has no tokenizer", "another number of rows"]),
    "no JSON": (lambda x: (x / "b/tokenizer.json").write_text("{"), LINEAR + UNION, ["b/tokenizer.json", "JSON"]),
    "an id that is no integer": (changed("b/tokenizer.json", lambda x: x["model"]["vocab"].update(w4=2**70)),
                                 LINEAR + UNION, ["b/tokenizer.json", "an integer for each token"]),
    "tokens that are no object": (changed("b/tokenizer.json", lambda x: x["model"].update(vocab=[1, 2])),
                                  LINEAR + UNION, ["b/tokenizer.json"]),
    "a nested tokenizer": (lambda x: (x / "b/tokenizer.json").write_text("[" * 100_000), LINEAR + UNION,
                           ["b/tokenizer.json"]),
    "no tokens": (changed("b/tokenizer.json", lambda x: x.update(model={}, added_tokens=[])), LINEAR + UNION,
                  ["b/tokenizer.json", "no tokens"]),
    "one id twice": (changed("b/tokenizer.json", lambda x: x["model"]["vocab"].update(w4=3)), LINEAR + UNION,
                     ["b/tokenizer.json", "have the id 3"]),
    "an id below 0": (changed("b/tokenizer.json", lambda x: x["model"]["vocab"].update(w4=-3)), LINEAR + UNION,
                      ["the id -3"]),
    "one unigram twice": (changed("b/tokenizer.json", lambda x: x["model"].update(vocab=[["a", 0.1], ["a", 0.2]])),
                          LINEAR + UNION, ["b/tokenizer.json", '"a" twice']),
    "added tokens in an object": (changed("b/tokenizer.json", lambda x: x.update(added_tokens={"a": {"id": 1}})),
                                  LINEAR + UNION, ["b/tokenizer.json", "no list of objects"]),
    "added tokens in lists": (changed("b/tokenizer.json", lambda x: x.update(added_tokens=[["a", 1]])),
                              LINEAR + UNION, ["b/tokenizer.json", "no list of objects"]),
    "an added token of no id": (changed("b/tokenizer.json", lambda x: x["added_tokens"][0].pop("id")), LINEAR + UNION,
                                ["b/tokenizer.json", "added token"]),
    "two ids of one token": (changed("b/tokenizer_config.json",
                                     lambda x: x.update(added_tokens_decoder={"5": {"content": "w3"}})),
                             LINEAR + UNION, ["b/tokenizer_config.json", '"w3" has the id 5']),
    "ids with gaps": (changed("base/tokenizer.json", lambda x: x["model"]["vocab"].pop("w4")), LINEAR + UNION,
                      ["base: has 19 tokens with ids up to 19", "without gaps"]),
    "as many rows as numbers in a row": (square, LINEAR + BASE, ["[16,16]", "first dimension alone"]),
    "nobody's tokenizer": (nothing, LINEAR + "tokenizer_source: d\n", ["tokenizer_source", "no folder"]),
    "another's tokenizer": (nothing, SLERP + "tokenizer_source: c\n", ["tokenizer.source", "none of the models"]),
    "a source that has not the token": (nothing, TOKENS + "w3: {source: {kind: model_token, model: b, token: x}}}}\n",
                                        ["tokenizer.tokens.#1.source", '"x"']),
    "a source of new tokens": (nothing, TOKENS + "new: {source: c}}}\n", ["has no token", '"new"']),
    "a source of no row": (nothing, TOKENS + "w3: {source: {kind: model_token, model: b, token_id: 26}}}}\n",
                           ["b has 26 rows", "26"]),
    "a source that is not merged": (nothing, SLERP + "tokenizer: {tokens: {w3: {source: c}}}\n",
                                    ["none of the models"]),
    "no source": (nothing, TOKENS + "w3: {force: true}}}\n", ["source", "is missing"]),
    "an unknown kind": (nothing, TOKENS + "w3: {source: {kind: mean}}}}\n", ["is no row", "kind: zero"]),
    "both": (nothing, LINEAR + UNION + BASE, ["tokenizer_source", "stands beside"]),
    "half a row": (nothing, LINEAR + "tokenizer: {pad_to_multiple_of: 1.5}\n", ["pad_to_multiple_of", "an integer"]),
    "an unknown key": (nothing, LINEAR + "tokenizer: {sauce: base}\n", ["sauce", "perhaps source"]),
}
SAID_IN_THE_RECIPE = ["nobody's tokenizer", "no source", "an unknown kind", "both", "half a row", "an unknown key"]


def test_the_plan_counts_rows_that_models_lack(tmp_path: Path) -> None:
    width, words = 256, 8000
    for number, name in enumerate(("base", "b", "c")):
        own = ["<unk>", "<s>", "</s>", *(f"{name}{i}" for i in range(words))]
        write_tokenizer(tmp_path / name, own, [], models.WordLevel)
        rows = torch.full((len(own), width), 1.0 + number)
        tensors = {"model.embed_tokens.weight": rows, "lm_head.weight": 2 * rows}
        save_file(tensors, tmp_path / name / "model.safetensors")
        (tmp_path / name / "config.json").write_text(
            json.dumps({"model_type": "llama", "vocab_size": len(own), "tie_word_embeddings": False}))
    (tmp_path / "recipe.yml").write_text(LINEAR + UNION)
    plan = launch.run(1, "merge", tmp_path / "recipe.yml", tmp_path / "out", "--plan", "1")
    assert plan.returncode == 0, plan.stderr
    row = next(line.split() for line in plan.stdout.splitlines() if line.split()[0] == "1")
    assert row[6] == "MB"
    planned = float(row[5])
    assert planned > 100 + 2 * 3 * words * width * 4 / 1e6
    done = launch.run(1, "merge", tmp_path / "recipe.yml", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    measured = int(re.search(r"anonymous memory (\d+) MiB", done.stdout)[1])  # type: ignore[index]
    assert measured * 2**20 < 1.5e6 * planned + 40e6


@pytest.mark.parametrize("name", FILES)
def test_what_does_not_fit_gets_one_line(name: str, folder: Path, tmp_path: Path) -> None:
    """And --check says the same before a merge."""
    change, text, expected = FILES[name]
    for side in VOCABULARIES:
        shutil.copytree(folder / side, tmp_path / side)
    change(tmp_path)
    refused(tmp_path, text, *expected)
    done = launch.run(1, "merge", "--check", tmp_path / "recipe.yml")
    assert done.returncode == 2
    where = done.stderr if name in SAID_IN_THE_RECIPE else done.stdout
    assert any(all(part in line for part in expected) for line in where.splitlines()), done.stdout + done.stderr


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value inside."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    inside = []
    for key in keys:
        inside += [(value, key), *places(value[key])]
    return inside


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json", "config.json"])
def test_damaged_files_end_in_a_line_or_a_folder(file: str, folder: Path, tmp_path: Path) -> None:
    odd = [None, True, -1, 0, 1, 19, 2**40, 2**70, 1e300, "", "x", "\x00", "\ud800", "w3", [], [[]], {}, {"id": 3}]
    dice = random.Random(7)
    for side in VOCABULARIES:
        shutil.copytree(folder / side, tmp_path / side)
    for _ in range(int(os.environ.get("TAUGRID_DAMAGES", "10"))):
        value = json.loads((folder / "b" / file).read_text())
        container, key = dice.choice(places(value))
        if dice.random() < 0.2:
            del container[key]
        else:
            container[key] = dice.choice(odd)
        (tmp_path / "b" / file).write_text(json.dumps(value))
        (tmp_path / "recipe.yml").write_text(LINEAR + dice.choice([UNION, BASE, "tokenizer_source: b\n"]))
        shutil.rmtree(tmp_path / "ours", ignore_errors=True)
        done = launch.run(1, "merge", tmp_path / "recipe.yml", tmp_path / "ours")
        assert done.returncode in (0, 2) and done.stderr.count("\n") == done.returncode // 2, (value, done.stderr)
        assert (tmp_path / "ours").exists() == (done.returncode == 0)
        if done.returncode == 0:
            json.loads((tmp_path / "ours/tokenizer.json").read_text())


def test_a_check_looks_at_equal_tokens(folder: Path) -> None:
    """In the vocabulary of the result models of one start are near it, though their ids differ."""
    (folder / "recipe.yml").write_text(TIES + UNION)
    done = launch.run(1, "merge", "--check", folder / "recipe.yml")
    assert done.returncode == 0 and "WRONG" not in done.stdout, done.stdout
    assert "the vocabulary has 24 tokens in 24 rows, and the base 20 in 20" in done.stdout
    assert "4 further tokens, 2 of which" in done.stdout
    (folder / "recipe.yml").write_text(TIES)
    assert launch.run(1, "merge", "--check", folder / "recipe.yml").returncode == 2


def test_an_adapter_has_no_vocabulary(folder: Path) -> None:
    refused(folder, TIES + UNION + "adapter: {}\n", "adapter")
    (folder / "recipe.toml").write_text(
        'merge_method = "ties"\nbase_model = "base"\nmodels = [ { model = "b" } ]\nadapter = {}\n'
        '[tokenizer]\nsource = "union"\n'
    )
    done = launch.run(1, "merge", folder / "recipe.toml", folder / "ours")
    assert done.returncode == 2 and "the base's vocabulary" in done.stderr, done.stderr
