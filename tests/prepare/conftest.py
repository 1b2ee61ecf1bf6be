# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Makes the modules of jobs/prepare importable, as they are when `python jobs/prepare` runs, and has a CLIP and a BERT
of a few thousand numbers for all tests."""

import json
import sys
from pathlib import Path

import pytest
from text_models import WORDS, write_text_model

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "jobs/prepare"))


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random CLIPModel and a tokenizer that knows single bytes, and two merges."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    folder = tmp_path_factory.mktemp("tiny_clip")
    letters = [chr(code) for code in range(33, 127)]
    vocabulary = [*letters, *(letter + "</w>" for letter in letters), "ph", "pho", "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(vocabulary)}))
    (folder / "merges.txt").write_text("#version: 0.2\np h\nph o\n")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {
        **sizes,
        "vocab_size": len(vocabulary),
        "max_position_embeddings": 77,
        "bos_token_id": len(vocabulary) - 2,
        "eos_token_id": len(vocabulary) - 1,
    }
    config = CLIPConfig(text_config=text, vision_config={**sizes, "image_size": 16, "patch_size": 8}, projection_dim=12)
    CLIPModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text_model(tmp_path_factory.mktemp("tiny_bert"), WORDS)
