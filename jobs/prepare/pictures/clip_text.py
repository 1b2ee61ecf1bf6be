# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Zero-shot heads from CLIP's text tower: Hugging Face's `transformers`, or open_clip where that is installed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errors import InputError
from texts.minilm import unit_rows

BATCH = 256
OPEN_CLIP = "open_clip:"


@dataclass
class TextTower:
    """`embed` gives a row a sentence, of any length; logits = `logit_scale` · cosine."""

    embed: Callable[[Sequence[str]], Any]
    logit_scale: float


def load(name: str) -> TextTower:
    return open_clip_tower(name) if name.startswith(OPEN_CLIP) else hugging_face_tower(name)


def refuse(name: str, reason: str) -> InputError:
    return InputError(
        f"--text-model {name}: {reason}; expected a folder or hub name with a whole CLIP model and its tokenizer, "
        "such as openai/clip-vit-base-patch32, or open_clip:ViT-B-32/openai"
    )


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def hugging_face_tower(name: str) -> TextTower:
    try:
        from transformers import AutoConfig, CLIPModel, CLIPTokenizer
        from transformers.utils import logging
    except ImportError:
        raise refuse(name, "Python package transformers is not installed (jobs/packages/python.txt)") from None
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    path = Path(name).expanduser()
    if name.startswith(("/", ".", "~")) and not path.is_dir():
        raise refuse(name, "there is no such folder")
    where = str(path) if path.is_dir() else name
    try:
        kind = AutoConfig.from_pretrained(where).model_type
        if kind != "clip":
            raise refuse(name, f"config.json says {kind}, a model without CLIP's text tower")
        tokenizer = CLIPTokenizer.from_pretrained(where)
        loaded: Any = CLIPModel.from_pretrained(where, output_loading_info=True)
    except InputError:
        raise
    except Exception as error:  # a wrong folder makes transformers raise nearly anything
        raise refuse(name, first_line(error)) from None
    model, info = loaded
    # transformers fills in missing weights at random, and a missing vocabulary with three words.
    if info["missing_keys"]:
        raise refuse(name, f"the weights lack {min(info['missing_keys'])}")
    if len(tokenizer) != model.config.text_config.vocab_size:
        words = model.config.text_config.vocab_size
        raise refuse(name, f"the tokenizer has {len(tokenizer)} tokens, the model {words}")
    model = model.float().eval()

    def embed(sentences: Sequence[str]) -> Any:
        tokens = tokenizer(
            list(sentences),
            padding=True,
            truncation=True,
            max_length=model.config.text_config.max_position_embeddings,
            return_tensors="pt",
        )
        hidden = model.text_model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
        return model.text_projection(hidden.pooler_output)

    return TextTower(embed, model.logit_scale.exp().item())


def open_clip_tower(name: str) -> TextTower:
    architecture, _, weights = name.removeprefix(OPEN_CLIP).partition("/")
    try:
        import open_clip
    except ImportError:
        raise refuse(name, "Python package open-clip-torch is not installed") from None
    try:
        model, _, _ = open_clip.create_model_and_transforms(architecture, pretrained=weights or "openai")
        tokenizer = open_clip.get_tokenizer(architecture)
    except Exception as error:  # open_clip raises RuntimeError for an unknown name, and others for a file
        raise refuse(name, first_line(error)) from None
    model = model.float().eval()
    return TextTower(lambda sentences: model.encode_text(tokenizer(list(sentences))), model.logit_scale.exp().item())


def head(
    tower: TextTower,
    names: Sequence[str],
    templates: Sequence[str],
    further: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> NDArray[np.float32]:
    """One unit row a class: the normalised mean of the class's normalised sentences, one a template and name.

    further: a class's other names, by the one in `names`.
    """
    import torch

    of_class = [[name, *further.get(name, ())] for name in names]
    sentences = [template.replace("{}", word) for words in of_class for word in words for template in templates]
    parts = []
    with torch.inference_mode():
        for start in range(0, len(sentences), BATCH):
            rows = tower.embed(sentences[start : start + BATCH])
            parts.append(torch.nn.functional.normalize(rows, dim=-1))
    by_class = torch.cat(parts).split([len(words) * len(templates) for words in of_class])
    return unit_rows(torch.stack([rows.mean(0) for rows in by_class]).numpy())
