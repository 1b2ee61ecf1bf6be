# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Label words that are not one token become tokens of their own, in a copy of the model (as in task vector bases'
language runs). A new token's row is the mean of the rows of the pieces that the word was before; the paper does not say
which rows it takes."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from errors import InputError
from packed import part_name, sha256_of
from texts.model import TextModel, read_json

RECORD = "new_tokens.json"
OF_WORDS = ("word_embeddings.weight", "decoder.weight", "decoder.bias", "lm_head.bias", "predictions.bias")
BESIDE = ("tokenizer_config.json", "special_tokens_map.json", "generation_config.json")


def unknown_words(model: TextModel, words: Sequence[str]) -> list[str]:
    """Returns the words that are not one token, each once."""
    tokens_of = {word: model.word_tokens(word) for word in words}
    return [word for word, tokens in tokens_of.items() if len(tokens) != 1 or tokens[0] == model.unknown]


def new_words(model: TextModel) -> list[str]:
    """Returns the words that were added to the model of this folder."""
    return list(read_json(model.folder / RECORD)["words"]) if (model.folder / RECORD).is_file() else []


def weights_digest(folder: Path) -> str:
    path = folder / "model.safetensors"
    try:
        return sha256_of(path)
    except OSError:
        raise InputError(f"{path}: not found; expected the model's weights, whose vocabulary is to grow") from None


def with_new_tokens(model: TextModel, words: Sequence[str], out: Path) -> TextModel:
    """The model where it has all these words, otherwise the copy in `out`, which is made, or was made of the same model
    with at least these words. Raises InputError where it was not."""
    if not (lacking := unknown_words(model, words)):
        return model
    made_of = {"model": weights_digest(model.folder), "tokenizer": model.fingerprint}
    if out.exists():
        record = read_json(out / RECORD)
        if any(record.get(key) != value for key, value in made_of.items()):
            raise InputError(f"{out}: was made of another model than {model.folder}; expected another folder")
        grown = TextModel(out)
        if other := unknown_words(grown, lacking):
            raise InputError(
                f'{out}: has no token "{other[0]}"; expected another folder: a model and its tokens are '
                "made at once, and serve tasks that need no others"
            )
        return grown
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(part_name(out))
    try:
        part.mkdir()
        _write(model, lacking, made_of, part)
        os.rename(part, out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    grown = TextModel(out)
    if other := unknown_words(grown, lacking):
        shutil.rmtree(out)
        raise InputError(f'{model.folder}: its tokenizer makes no single token of "{other[0]}"; expected another word')
    return grown


def _write(model: TextModel, words: list[str], made_of: dict[str, str], out: Path) -> None:
    import torch
    from safetensors.torch import load_file, save_file
    from tokenizers import AddedToken, Tokenizer

    tokenizer = Tokenizer.from_file(str(model.folder / "tokenizer.json"))
    pieces = {word: [piece for piece in model.word_tokens(word) if piece != model.unknown] for word in words}
    tokenizer.add_tokens([AddedToken(word, single_word=True, lstrip=True) for word in words])
    tokenizer.save(str(out / "tokenizer.json"))
    number = {word: int(tokenizer.token_to_id(word)) for word in words}
    tensors: dict[str, Any] = load_file(model.folder / "model.safetensors")
    old = int(model.config.get("vocab_size", 30522))
    size = max(old, *(token + 1 for token in number.values()))
    for name, tensor in tensors.items():
        if not name.endswith(OF_WORDS):
            continue
        grown = torch.cat([tensor, tensor.new_zeros((size - old, *tensor.shape[1:]))])
        for word, token in number.items():
            rows = tensor[pieces[word]] if pieces[word] else tensor
            grown[token] = rows.float().mean(0).to(tensor.dtype)
        tensors[name] = grown
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps({**model.config, "vocab_size": size}, indent=2) + "\n")
    record = {**made_of, "rows": "mean of the rows of the word's former pieces", "words": number}
    (out / RECORD).write_text(json.dumps(record, indent=2) + "\n")
    for name in BESIDE:
        if (model.folder / name).is_file():
            shutil.copy(model.folder / name, out / name)
