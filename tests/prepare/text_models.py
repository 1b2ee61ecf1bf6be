# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Text models of a few thousand numbers with random weights, and tokenizers that know a few words."""

import json
from pathlib import Path

WORDS = [
    *("the", "a", "of", "good", "bad", "film", "book", "is", "was", "very", "not", "plot", "actor", "page", "chapter"),
    *("true", "false", "this", "about", "text", "no", "yes", "neg", "pos"),
]


def write_text_model(
    folder: Path, words: list[str], first_token: bool = False, masked: bool = False, **config: object
) -> Path:
    """Writes a random BertModel, or BertForMaskedLM, with a WordPiece tokenizer of these words."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForMaskedLM, BertModel

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    tokenizer = Tokenizer(models.WordPiece({w: i for i, w in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    torch.manual_seed(0)
    sizes = {"hidden_size": 12, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    given = {"vocab_size": len(vocabulary), "max_position_embeddings": 20} | sizes | config
    (BertForMaskedLM if masked else BertModel)(BertConfig(**given)).save_pretrained(folder)
    if masked:
        tokenizer.add_special_tokens(["[MASK]"])
    tokenizer.save(str(folder / "tokenizer.json"))
    if first_token:
        modules = [{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling").mkdir()
        pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def write_roberta(folder: Path, words: list[str]) -> Path:
    """Writes a random RobertaForMaskedLM with a byte-level tokenizer that knows these words behind a space."""
    import torch
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import RobertaConfig, RobertaForMaskedLM

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" " + " ".join(words)] * 3, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    torch.manual_seed(0)
    sizes = {"hidden_size": 12, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(), max_position_embeddings=34, type_vocab_size=1, pad_token_id=1, **sizes
    )
    RobertaForMaskedLM(config).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"mask_token": {"content": "<mask>"}}))
    return folder


def write_t5(folder: Path, words: list[str], **config: object) -> Path:
    """Writes a random T5ForConditionalGeneration with a tokenizer as T5 has it, of these words and single letters."""
    import string

    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import T5Config, T5ForConditionalGeneration

    scores = {"<pad>": 0.0, "</s>": 0.0, "<unk>": 0.0} | {f"\u2581{word}": -2.0 for word in words}
    scores |= {letter: -9.0 for letter in f"\u2581{string.ascii_letters}{string.digits}{string.punctuation}"}
    tokenizer = Tokenizer(models.Unigram(list(scores.items()), unk_id=2))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    torch.manual_seed(0)
    sizes = {"d_model": 12, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
    given: dict[str, object] = {"vocab_size": len(scores) + 5} | sizes | config
    T5ForConditionalGeneration(T5Config(**given)).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def write_decoder(folder: Path, words: list[str], kind: str = "llama", ends: str = "", **config: object) -> Path:
    """Writes a random LlamaForCausalLM, or one of another kind, with a byte-level tokenizer that knows these words,
    with and without a space before them, and puts <s> before a text, and perhaps `ends` behind it."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import AutoConfig, AutoModelForCausalLM

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        special_tokens=["<s>", "</s>", "<turn>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" " + " ".join(words), *words] * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=["<s>", "$A", *([ends] if ends else [])], special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    torch.manual_seed(0)
    given: dict[str, object] = {"vocab_size": tokenizer.get_vocab_size()}
    given |= {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    given |= {"num_key_value_heads": 2, "max_position_embeddings": 64, "tie_word_embeddings": True} | config
    AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **given)).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {"bos_token": "<s>", "eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return folder
