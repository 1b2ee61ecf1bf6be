# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A GGUF file of a Llama as a Hugging Face folder: its numbers dequantised once, its tokenizer and its chat template.
The file is read as data, by the library gguf."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errors import InputError, one_line, shown
from packed import code, part_name, sweep
from walk import regular

RECORD = "made_of.json"
CODE = ("texts/gguf_model.py",)
LAYER = {  # of a Llama: names in GGUF, and in transformers
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
CONTROL, OWN_WORD = 3, 4  # kinds of tokens
LETTERS_MOST = 1000  # of a token whose merges are to be found
LLAMA_3 = "|".join(  # the words of Llama 3's texts
    (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
CUTS = ("gpt-2", "smollm", "llama-bpe")  # how texts are cut into words before they become tokens


class File:
    """What a GGUF file holds. Its methods fail with InputError, one line, for all that is not as it should be."""

    def __init__(self, path: Path) -> None:
        try:
            from gguf import GGUFReader
        except ImportError:
            raise InputError(
                "gguf: the Python package is not installed; expected: pip install --no-deps -r "
                "jobs/packages/python-gguf.txt"
            ) from None

        class Bounded(GGUFReader):  # type: ignore[misc]
            """NumPy gives less where a file ends sooner than its lengths say, and the library would go on."""

            def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> Any:
                if int(offset) + np.dtype(dtype).itemsize * int(count) > len(self.data):
                    raise ValueError("ends before what its lengths say")
                return super()._get(offset, dtype, count, override_order)

        regular(path, "a GGUF file")
        self.path = path
        try:
            with np.errstate(all="ignore"):
                self.reader = Bounded(path)
        except (InputError, MemoryError, OSError):
            raise
        except Exception as error:  # the library lets nearly anything through
            raise InputError(f"{path}: {one_line(error)}; expected a whole GGUF file") from None
        if self.reader.byte_order == "S":  # the library dequantises no swapped numbers
            raise InputError(f"{path}: its bytes stand in the other order than this machine's; expected the same")

    def held(self, key: str, fallback: Any = None) -> Any:
        """A value of the header."""
        if (field := self.reader.fields.get(key)) is None:
            return fallback
        try:
            return field.contents()
        except Exception as error:
            raise InputError(f"{self.path}: {key}: {one_line(error)}; expected a value") from None

    def number(self, key: str, fallback: int | None = None, least: int = 1, most: int = 10_000_000) -> int:
        value = self.held(key, fallback)
        if type(value) is not int or not least <= value <= most:
            raise InputError(f"{self.path}: {key} is {shown(repr(value))}; expected an integer from {least} to {most}")
        return value

    def real(self, key: str, fallback: float) -> float:
        """A positive float32, in as few digits as it has."""
        value = self.held(key, fallback)
        if type(value) is not float or not 0 < value < 1e12:
            raise InputError(f"{self.path}: {key} is {shown(repr(value))}; expected a positive number")
        return float(f"{value:.7g}")

    def words(self, key: str) -> list[str]:
        value = self.held(key)
        if not isinstance(value, list) or not value or not all(isinstance(each, str) for each in value):
            raise InputError(f"{self.path}: {key} is no list of texts; expected one")
        return value


def config_of(file: File) -> dict[str, Any]:
    """What transformers' LlamaConfig wants. Raises InputError for another architecture, and for what a plain Llama has
    not: another scale of positions, experts."""
    architecture = file.held("general.architecture")
    if architecture != "llama":
        raise InputError(f"{file.path}: its architecture is {shown(str(architecture))}; expected llama")
    if (scaling := file.held("llama.rope.scaling.type", "none")) != "none":
        raise InputError(f"{file.path}: llama.rope.scaling.type is {shown(str(scaling))}; expected none")
    width, heads = file.number("llama.embedding_length"), file.number("llama.attention.head_count", most=4096)
    size = file.number("llama.attention.key_length", width // heads)
    if size % 2 or file.number("llama.attention.value_length", size) != size:
        raise InputError(f"{file.path}: a head's size is {size} for keys; expected an even one, also for values")
    if (turned := file.number("llama.rope.dimension_count", size)) != size:
        raise InputError(f"{file.path}: llama.rope.dimension_count is {turned}; expected a head's whole size, {size}")
    groups = file.number("llama.attention.head_count_kv", heads, most=4096)
    if heads % groups:
        raise InputError(f"{file.path}: {heads} heads over {groups}; expected a multiple")
    tokens = len(file.words("tokenizer.ggml.tokens"))
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": file.number("llama.vocab_size", tokens),
        "hidden_size": width,
        "intermediate_size": file.number("llama.feed_forward_length"),
        "num_hidden_layers": file.number("llama.block_count", most=4096),
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
        "head_dim": size,
        "hidden_act": "silu",
        "max_position_embeddings": file.number("llama.context_length"),
        "rms_norm_eps": file.real("llama.attention.layer_norm_rms_epsilon", 1e-6),
        "rope_theta": file.real("llama.rope.freq_base", 10000.0),
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": all(tensor.name != "output.weight" for tensor in file.reader.tensors),
        "dtype": "float32",
    }
    for name in ("bos", "eos", "pad"):
        key = f"tokenizer.ggml.{'padding' if name == 'pad' else name}_token_id"
        if file.held(key) is not None:
            config[f"{name}_token_id"] = file.number(key, least=0, most=tokens - 1)
    return config


def shapes_of(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor, by its name in GGUF."""
    width, wide = config["hidden_size"], config["intermediate_size"]
    q = config["num_attention_heads"] * config["head_dim"]
    kv = config["num_key_value_heads"] * config["head_dim"]
    of_layer: dict[str, tuple[int, ...]] = {
        "attn_norm": (width,),
        "attn_q": (q, width),
        "attn_k": (kv, width),
        "attn_v": (kv, width),
        "attn_output": (width, q),
        "ffn_norm": (width,),
        "ffn_gate": (wide, width),
        "ffn_up": (wide, width),
        "ffn_down": (width, wide),
    }
    rows = (config["vocab_size"], width)
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": rows, "output_norm.weight": (width,)}
    if not config["tie_word_embeddings"]:
        shapes["output.weight"] = rows
    for layer in range(config["num_hidden_layers"]):
        shapes |= {f"blk.{layer}.{name}.weight": shape for name, shape in of_layer.items()}
    return shapes


def name_in_transformers(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in OUTER:
        return f"{OUTER[stem]}.weight"
    _, layer, kind = stem.split(".")
    return f"model.layers.{layer}.{LAYER[kind]}.weight"


def halves_of_heads(rows: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """GGUF's rows of q or k stand by pairs that are turned together, (0, 1), (2, 3), …; transformers turns place i with
    place i + half a head. The rows in transformers' order."""
    size = len(rows) // heads
    return rows.reshape(heads, size // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)


def tensors_of(file: File, config: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
    """All numbers in float32, by transformers' names. Raises InputError for tensors that a plain Llama has not, that
    are missing, of another shape or no numbers."""
    from gguf import dequantize

    shapes, tensors = shapes_of(config), {}
    for tensor in file.reader.tensors:
        where = f"{file.path}: {shown(tensor.name)}"
        if tensor.name not in shapes:
            raise InputError(f"{where}: is no tensor of a plain Llama of this size; expected none such")
        kind, shape = tensor.tensor_type.name, shapes[tensor.name]
        if tuple(int(size) for size in reversed(tensor.shape)) != shape:
            raise InputError(f"{where}: has the shape {tensor.shape[::-1].tolist()}; expected {list(shape)}")
        try:
            rows = np.ascontiguousarray(dequantize(tensor.data, tensor.tensor_type), np.float32).reshape(shape)
        except MemoryError:
            raise
        except Exception as error:
            raise InputError(
                f"{where}: of kind {kind}: {one_line(error)}; expected a kind that gguf dequantises"
            ) from None
        if not np.isfinite(rows).all():
            raise InputError(f"{where}: holds numbers that are not finite; expected finite ones")
        if ".attn_q." in tensor.name or ".attn_k." in tensor.name:
            heads = "num_attention_heads" if ".attn_q." in tensor.name else "num_key_value_heads"
            rows = halves_of_heads(rows, config[heads])
        tensors[name_in_transformers(tensor.name)] = np.ascontiguousarray(rows)
    if lacking := [name for name in shapes if name_in_transformers(name) not in tensors]:
        raise InputError(f"{file.path}: has no tensor {lacking[0]}; expected a whole Llama")
    return tensors


def tokenizer_of(file: File) -> Any:
    """A tokenizer of the file's tokens: byte-level with its merges, or as SentencePiece's with its scores."""
    from tokenizers import AddedToken, processors

    kind, cut = file.held("tokenizer.ggml.model"), file.held("tokenizer.ggml.pre")
    if kind not in ("gpt2", "llama") or (kind == "gpt2" and cut not in CUTS):
        raise InputError(
            f"{file.path}: its tokenizer is {shown(str(kind))}, {shown(str(cut))}; expected llama, or gpt2 with one of "
            f"{', '.join(CUTS)}"
        )
    words, kinds = file.words("tokenizer.ggml.tokens"), file.held("tokenizer.ggml.token_type", [])
    if len(set(words)) != len(words) or (kinds and len(kinds) != len(words)):
        raise InputError(
            f"{file.path}: tokenizer.ggml.tokens has a token twice, or no kind of each; expected each once"
        )
    tokenizer = byte_level(file, words, cut) if kind == "gpt2" else sentencepiece(file, words)
    tokenizer.add_tokens(
        [
            AddedToken(word, special=kind == CONTROL, normalized=False)
            for word, kind in zip(words, kinds, strict=False)
            if kind in (CONTROL, OWN_WORD)
        ]
    )
    single, named = ["$A"], []
    if file.held("tokenizer.ggml.add_bos_token", kind == "llama" or cut == "llama-bpe"):
        number = file.number("tokenizer.ggml.bos_token_id", least=0, most=len(words) - 1)
        single, named = [words[number], "$A"], [(words[number], number)]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, special_tokens=named)
    return tokenizer


def byte_level(file: File, words: list[str], cut: str) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    known = set(words)
    merges = [tuple(line.split(" ")) for line in file.words("tokenizer.ggml.merges")]
    for merge in merges:
        if len(merge) != 2 or not {*merge, "".join(merge)} <= known:
            raise InputError(f'{file.path}: the merge "{shown(" ".join(merge))}" makes no token; expected two tokens')
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=cut == "llama-bpe"))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=cut != "llama-bpe")
    if cut == "smollm":
        level = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level])
    if cut == "llama-bpe":
        level = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA_3), "isolated"), level])
    tokenizer.pre_tokenizer, tokenizer.decoder = level, decoders.ByteLevel()
    return tokenizer


def sentencepiece(file: File, words: list[str]) -> Any:
    """Two tokens merge where they make a token, that of the best score first: transformers' LlamaTokenizer."""
    from transformers import LlamaTokenizer
    from transformers.tokenization_utils_base import generate_merges

    if file.held("tokenizer.ggml.add_space_prefix", True) is not True:
        raise InputError(f"{file.path}: tokenizer.ggml.add_space_prefix is false; expected a space before each text")
    scores = file.held("tokenizer.ggml.scores")
    if not isinstance(scores, list) or len(scores) != len(words):
        raise InputError(f"{file.path}: tokenizer.ggml.scores is no list of {len(words)} numbers; expected one a token")
    if longest := next((word for word in words if len(word) > LETTERS_MOST), ""):
        raise InputError(
            f"{file.path}: the token {shown(longest[:40])}… has {len(longest)} letters; expected at most {LETTERS_MOST}"
        )
    vocabulary = {word: number for number, word in enumerate(words)}
    merges = generate_merges(vocabulary, dict(zip(words, scores, strict=True)))
    return LlamaTokenizer(vocab=vocabulary, merges=merges).backend_tokenizer


def made_of(digest: str) -> dict[str, str]:
    return {"gguf_sha256": digest, "code_sha256": hashlib.sha256(code(CODE)).hexdigest()}


def up_to_date(folder: Path, digest: str) -> bool:
    """Whether the folder was made of this GGUF by this code. Raises InputError where another command made it, which so
    is not to be replaced."""
    if not folder.exists():
        return False
    try:
        record = json.loads((folder / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        record = None
    if not isinstance(record, dict) or record.get("gguf_sha256") != digest:
        raise InputError(f"{folder}: is there already, and not of this GGUF; expected another --out, or no such folder")
    return bool(record == made_of(digest))


def write_folder(source: Path, digest: str, folder: Path, card: Callable[[File, int], str]) -> int:
    """Writes the folder, whole or not at all, and gives how many numbers it has. `card` makes README.md of the file and
    this number."""
    from safetensors.numpy import save_file

    folder.parent.mkdir(parents=True, exist_ok=True)
    sweep(folder.parent)
    file = File(source)
    config, tokenizer = config_of(file), tokenizer_of(file)
    words = file.words("tokenizer.ggml.tokens")
    if len(words) > config["vocab_size"]:
        raise InputError(
            f"{source}: has {len(words)} tokens; expected at most the model's vocabulary of {config['vocab_size']}"
        )
    tensors = tensors_of(file, config)
    count = sum(each.size for each in tensors.values())
    named = {f"{name}_token": words[config[f"{name}_token_id"]] for name in ("bos", "eos", "pad")
             if f"{name}_token_id" in config}  # fmt: skip
    about: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **named,
        "clean_up_tokenization_spaces": False,
    }
    about["model_max_length"] = config["max_position_embeddings"]
    if isinstance(template := file.held("tokenizer.chat_template"), str):
        about["chat_template"] = template
    generation = {name: number for name, number in config.items() if name.endswith("_token_id")}
    part = folder.with_name(part_name(folder))
    try:
        part.mkdir()
        save_file(dict(sorted(tensors.items())), part / "model.safetensors", {"format": "pt"})
        tokenizer.save(str(part / "tokenizer.json"))
        texts = {
            "config.json": config,
            "tokenizer_config.json": about,
            "generation_config.json": generation,
            RECORD: made_of(digest),
        }
        for name, content in texts.items():
            (part / name).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
        (part / "README.md").write_text(card(file, count), "utf-8")
        weights = part / "model.safetensors"  # which safetensors keeps from all others
        weights.chmod((part / "config.json").stat().st_mode)
        if folder.exists():  # of older code: up_to_date() has looked
            shutil.rmtree(folder)
        os.rename(part, folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return count
