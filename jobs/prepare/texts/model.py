# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A text model's folder, as the program reads it: its tokenizer, and embeddings of sentences for zero-shot heads."""

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errors import InputError, one_line, shown
from texts.prompts import Prompt, check_end, fit, of_parts
from walk import regular

DECODERS = {  # what transformers takes for the vocabulary and the longest text where config.json is silent
    "llama": (32000, 2048),
    "mistral": (32000, 131072),
    "qwen2": (151936, 32768),
    "qwen3": (151936, 32768),
    "gemma2": (256000, 8192),
    "gemma3_text": (262208, 131072),
    "gpt2": (50257, 1024),
}
TYPES = ("bert", "roberta", "t5", *DECODERS)
TOKENS_MOST = 128  # of a label sentence
JSON_MOST = 64 << 20  # bytes of a file
NUMBER_MOST = 100_000_000  # as the program takes a vocabulary
BATCH = 128
MASKS, UNKNOWN = ("[MASK]", "<mask>"), ("[UNK]", "<unk>")
BASIS, PRIME, MASK = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1


@dataclass
class Tokens:
    """A row a text, padded with zeros behind its `lengths`."""

    ids: NDArray[np.int32]  # [n, tokens]
    lengths: NDArray[np.int32]  # [n]
    types: NDArray[np.int32] | None  # [n, tokens]: 0 first, 1 second text; None where there are no pairs
    truncated: int  # texts that did not fit
    mask: NDArray[np.int32] | None = None  # [n], of prompts: which token is the mask


def fingerprint(content: bytes) -> str:
    """64-bit FNV-1a, as the program computes it: tells tokenizers apart."""
    state = BASIS
    for byte in content:
        state = (state ^ byte) * PRIME & MASK
    return f"{state:016x}"


def read_json(path: Path, kind: type[dict[str, Any]] | type[list[Any]] = dict) -> Any:
    """A JSON object, or a list, of a file of at most 64 MiB."""
    try:
        if path.stat().st_size > JSON_MOST:
            raise InputError(f"{path}: has more than 64 MiB; expected the configuration of a text encoder")
        content = json.loads(path.read_text("utf-8"))
    except OSError:
        raise InputError(f"{path}: not found; expected the folder of a text encoder") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {one_line(error)}; expected JSON") from None
    if not isinstance(content, kind):
        raise InputError(f"{path}: holds {type(content).__name__}; expected a JSON {kind.__name__}")
    return content


def whole_number(path: Path, config: dict[str, Any], key: str, fallback: int, least: int = 1) -> int:
    """A key of config.json, and what the library has without it."""
    value = config.get(key, fallback)
    if type(value) is not int or not least <= value <= NUMBER_MOST:
        raise InputError(f"{path}: {key} is {shown(repr(value))}; expected an integer from {least} to {NUMBER_MOST}")
    return value


def mean_pooled(folder: Path) -> bool:
    """Tells whether a text's vector is the mean over its tokens, as the folder says or by default."""
    if not (folder / "modules.json").is_file():
        return True
    for module in read_json(folder / "modules.json", list):
        if not isinstance(module, dict):
            raise InputError(f"{folder / 'modules.json'}: holds what is no module; expected a list of them")
        if str(module.get("type", "")).endswith(".Pooling"):
            place = str(module.get("path", ""))
            if not re.fullmatch(r"\w[\w.-]*", place, re.ASCII):
                raise InputError(
                    f"{folder / 'modules.json'}: path is {shown(repr(place))}; expected a folder's plain name"
                )
            path = folder / place / "config.json"
            pooling = read_json(path)
            mean = pooling.get("pooling_mode_mean_tokens", pooling.get("pooling_mode") == "mean")
            first = pooling.get("pooling_mode_cls_token", pooling.get("pooling_mode") == "cls")
            if mean == first:
                raise InputError(f"{path}: expected the mean over tokens or the first token alone")
            return bool(mean)
    return True


def is_panic(error: BaseException | None) -> bool:
    """Whether Rust gave up: such an error is none of Exception's."""
    return error is not None and type(error).__module__ == "pyo3_runtime"


@contextmanager
def panics_said_once() -> Iterator[None]:
    """Keeps Rust's own lines about a panic from stderr, since the panic becomes an error of Python. Whatever else is
    written meanwhile comes out behind."""
    sys.stderr.flush()
    outer = os.dup(2)
    with TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(outer, 2)
            os.close(outer)
            kept.seek(0)
            if not is_panic(sys.exc_info()[1]):
                os.write(2, kept.read())


@contextmanager
def tokenizing(path: Path) -> Iterator[None]:
    """What the tokenizers library says of a tokenizer.json that is wrong, also where it notices only at work."""
    try:
        with panics_said_once():
            yield
    except (InputError, KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # tokenizers raises Exception itself, and panics that are none
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise InputError(f"{path}: {one_line(error)}; expected a tokenizer of Hugging Face's tokenizers") from None


class TextModel:
    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self.folder = folder
        self.config = read_json(folder / "config.json")
        if (kind := self.config.get("model_type")) not in TYPES:
            raise InputError(
                f"{folder / 'config.json'}: model_type is {shown(str(kind))}; expected a text model, one of "
                f"{', '.join(TYPES)}"
            )
        path = folder / "tokenizer.json"
        regular(path, "the model's own tokenizer")
        self.fingerprint = fingerprint(path.read_bytes())
        with tokenizing(path):
            self.tokenizer = Tokenizer.from_file(str(path))
        self.tokenizer.no_padding()
        self.is_t5, self.is_decoder = kind == "t5", kind in DECODERS
        numbers = folder / "config.json", self.config
        # Added tokens may lie beyond the rows, as a Gemma 3's for pictures does; no text may hold them.
        words = self.tokenizer.get_vocab_size(with_added_tokens=False)
        usual_rows, usual_places = DECODERS.get(kind, (32128 if self.is_t5 else 30522, 512))
        rows = whole_number(*numbers, "vocab_size", usual_rows)
        if words > rows:
            raise InputError(f"{path}: has {words} tokens; expected at most the model's vocabulary of {rows}")
        self.rows = rows
        offset = 0 if kind != "roberta" else whole_number(*numbers, "pad_token_id", 1, 0) + 1
        name = "n_positions" if kind in ("t5", "gpt2") else "max_position_embeddings"
        self.tokens_most = whole_number(*numbers, name, usual_places) - offset
        self.tells_types = not self.answers_behind and whole_number(*numbers, "type_vocab_size", 2) > 1
        self.unknown = next((t for w in UNKNOWN if (t := self.tokenizer.token_to_id(w)) is not None), -1)

    @property
    def masked_lm(self) -> bool:
        """Whether the program reads it at a mask: config.json names a language model and no module pools its tokens."""
        named = self.config.get("architectures") or [""]
        if not isinstance(named, list):
            raise InputError(
                f"{self.folder / 'config.json'}: architectures is {shown(repr(named))}; expected a list of one name"
            )
        pooled = (self.folder / "modules.json").is_file()
        return not pooled and str(named[0]).endswith(("ForMaskedLM", "ForPreTraining"))

    @property
    def answers_behind(self) -> bool:
        """Whether it answers behind the prompt, which so has no mask."""
        return self.is_t5 or self.is_decoder

    @property
    def prompted(self) -> bool:
        """Whether it reads prompts and label words."""
        return self.masked_lm or self.answers_behind

    @property
    def called(self) -> str:
        """What messages call such a model."""
        return "a T5" if self.is_t5 else "a decoder" if self.is_decoder else "a masked language model"

    @cached_property
    def mask(self) -> str:
        """The mask's name, as the folder tells it, or as BERT and RoBERTa have it."""
        masks = []
        for name in ("tokenizer_config.json", "special_tokens_map.json"):
            if (path := self.folder / name).is_file():
                mask = read_json(path).get("mask_token")
                masks.append(mask.get("content") if isinstance(mask, dict) else mask)
        for word in [*masks, *MASKS]:
            if isinstance(word, str) and self.tokenizer.token_to_id(word) is not None:
                return word
        raise InputError(f"{self.folder / 'tokenizer.json'}: has no mask; expected one of {', '.join(MASKS)}")

    def encoded(self, texts: list[Any], special: bool = True) -> list[Any]:
        """The tokenizer's encodings of texts, or of pairs; without `special` it adds no tokens of its own."""
        with tokenizing(self.folder / "tokenizer.json"):
            return list(self.tokenizer.encode_batch(texts, add_special_tokens=special))

    def word_tokens(self, word: str, prompt: Prompt | None = None) -> list[int]:
        """Returns the tokens of a word within a text: for RoBERTa, a word with a space before it. A decoder's are those
        that the word adds to a prompt. Raises InputError where it changes the prompt's own tokens."""
        if not self.is_decoder or prompt is None:
            with tokenizing(self.folder / "tokenizer.json"):
                return [int(token) for token in self.tokenizer.encode(f" {word}", add_special_tokens=False).ids]
        self.tokenizer.no_truncation()
        before, _ = prompt.fill({name: "text" for name in prompt.columns}, "")
        check_end(prompt, before)
        short, long = (
            list(encoding.ids) for encoding in self.encoded([before, before + prompt.gap + word], special=False)
        )
        if long[: len(short)] != short:
            raise InputError(
                f'the prompt "{shown(prompt.template)}": its last token changes where "{shown(word)}" stands behind '
                "it; expected a prompt that ends with a word or a sign"
            )
        return [int(token) for token in long[len(short) :]]

    @staticmethod
    def without_end(encoding: Any) -> list[int]:
        """An encoding's tokens but for special ones behind all others."""
        ids, special = list(encoding.ids), encoding.special_tokens_mask
        while ids and special[len(ids) - 1]:
            ids.pop()
        return ids

    def class_tokens(self, word: str, prompt: Prompt) -> list[int]:
        """Returns the tokens of a class's answer. A decoder's have no end, as lm-evaluation-harness scores answers."""
        return self.word_tokens(word, prompt) if self.is_decoder else self.answer_tokens(word, prompt)

    @cached_property
    def end(self) -> int:
        """The token that ends what a decoder says: the first one that generation_config.json names, or config.json."""
        for name in ("generation_config.json", "config.json"):
            path = self.folder / name
            ends = read_json(path).get("eos_token_id") if path.is_file() else None
            if ends is None or ends == []:
                continue
            end = ends[0] if isinstance(ends, list) else ends
            if not isinstance(end, int) or not 0 <= end < self.rows:
                raise InputError(f"{path}: eos_token_id is {shown(repr(ends))}; expected tokens below {self.rows}")
            return end
        raise InputError(f"{self.folder / 'config.json'}: has no eos_token_id, which ends an answer; expected a token")

    def answer_tokens(self, text: str, prompt: Prompt) -> list[int]:
        """Returns the tokens of what a T5 answers, with the end that its tokenizer gives a text, or of what a decoder
        adds to a prompt, with its own."""
        if self.is_decoder:
            return [*self.word_tokens(text, prompt), self.end]
        self.tokenizer.no_truncation()
        with tokenizing(self.folder / "tokenizer.json"):
            return [int(token) for token in self.tokenizer.encode(text).ids]

    def require_rows(self, ids: NDArray[np.int32]) -> None:
        """Raises InputError for a token without a row of the model's vocabulary."""
        if ids.size and (largest := int(ids.max())) >= self.rows:
            raise InputError(
                f"{self.folder / 'tokenizer.json'}: gives a text token {largest}; expected those of the model's "
                f"vocabulary of {self.rows}"
            )

    def encode_prompts(self, prompt: Prompt, rows: Sequence[Sequence[str]], most: int) -> Tokens:
        """`rows` hold what stands in the prompt's columns. Texts are cut to `most` tokens in all; the mask and the
        template's words stay. What a decoder's tokenizer adds behind a text, an end, is left off, for the answer stands
        there. Raises InputError for a text without a token, for two masks, and where that cannot be."""
        if not 3 <= most <= self.tokens_most:
            raise InputError(f"--tokens {most}: expected 3 to {self.tokens_most}, which {self.folder} takes")
        mask = "" if self.answers_behind else self.mask
        filled = [prompt.fill(of_parts(prompt, row), mask) for row in rows]
        if self.is_decoder:
            for text, _ in filled:
                check_end(prompt, text)
        self.tokenizer.no_truncation()
        encodings = self.encoded([text for text, _ in filled], prompt.special)
        token = None if self.answers_behind else self.tokenizer.token_to_id(mask)
        fitted = [
            fit(encoding, spans, token, most, f'text {row + 1}, "{shown(words[0][:40])}"', keep_end=not self.is_decoder)
            for row, (encoding, (_, spans), words) in enumerate(zip(encodings, filled, rows, strict=True))
        ]
        lengths = np.array([len(tokens.ids) for tokens in fitted], np.int32)
        ids = np.zeros((len(fitted), most), np.int32)
        for row, tokens in enumerate(fitted):
            ids[row, : lengths[row]] = tokens.ids
        self.require_rows(ids)
        masks = None if token is None else np.array([tokens.mask for tokens in fitted], np.int32)
        return Tokens(ids, lengths, None, sum(tokens.cut for tokens in fitted), masks)

    def encode(self, first: Sequence[str], second: Sequence[str], most: int) -> Tokens:
        """The texts, or pairs of texts where `second` is not empty, cut to `most` tokens. The longer one of a pair is
        cut first. Raises InputError for a text without a token of its own."""
        least = self.tokenizer.num_special_tokens_to_add(bool(second)) + (2 if second else 1)
        if not least <= most <= self.tokens_most:
            raise InputError(f"--tokens {most}: expected {least} to {self.tokens_most}, which {self.folder} takes")
        for texts in (first, second):
            for row, text in enumerate(texts):
                if not text.strip():
                    raise InputError(f"text {row + 1} is empty; expected words")
        self.tokenizer.enable_truncation(most)
        rows = self.encoded(list(zip(first, second, strict=True)) if second else list(first))
        for row, encoding in enumerate(rows):
            if not len(encoding.ids) > sum(encoding.special_tokens_mask):
                raise InputError(f'text {row + 1}, "{first[row][:40]}", has no token; expected words')
        lengths = np.array([len(encoding.ids) for encoding in rows], np.int32)
        ids = np.zeros((len(rows), most), np.int32)
        types = np.zeros_like(ids)
        for row, encoding in enumerate(rows):
            ids[row, : lengths[row]] = encoding.ids
            types[row, : lengths[row]] = encoding.type_ids
        self.require_rows(ids)
        pairs = bool(second) and self.tells_types
        return Tokens(ids, lengths, types if pairs else None, sum(bool(encoding.overflowing) for encoding in rows))

    @cached_property
    def _model(self) -> Any:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        from transformers import AutoModel
        from transformers.utils import logging

        logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            model = AutoModel.from_pretrained(self.folder, add_pooling_layer=False, attn_implementation="eager")
        except Exception as error:  # a wrong folder makes transformers raise nearly anything
            first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InputError(f"{self.folder}: {first_line}; expected a text encoder's weights") from None
        return model.float().eval()

    def embed(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Rows of unit length [n, features].

        Sentences of equal length make a batch, so nothing is padded and no mask is needed.
        """
        import torch

        mean = mean_pooled(self.folder)
        self.tokenizer.enable_truncation(min(TOKENS_MOST, self.tokens_most))
        tokens = [encoding.ids for encoding in self.encoded(list(sentences))]
        by_length: dict[int, list[int]] = {}
        for row, ids in enumerate(tokens):
            by_length.setdefault(len(ids), []).append(row)
        out = np.empty((len(tokens), self._model.config.hidden_size), np.float32)
        with torch.inference_mode():
            for rows in by_length.values():
                for start in range(0, len(rows), BATCH):
                    some = rows[start : start + BATCH]
                    hidden = self._model(input_ids=torch.tensor([tokens[row] for row in some])).last_hidden_state
                    features = hidden.mean(1) if mean else hidden[:, 0]
                    out[some] = torch.nn.functional.normalize(features, dim=-1).numpy()
        return out
