# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""GGUF files as folders: small ones that gguf's own writer made, read back by it, by transformers and by us; broken
ones of every kind; the default decoder's archive and tasks."""

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import h5py
import numpy as np
import pytest
import torch
from text_models import WORDS, write_decoder
from tokenizers import Tokenizer
from transformers import AutoTokenizer, LlamaForCausalLM

from command import main
from texts import decoder, gguf_model, language
from texts.language_sources import Texts
from texts.model import TextModel

CHAT = "{% for m in messages %}<turn>{{ m.content }}{% endfor %}"
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}


def turned(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of q or k as GGUF has them, by index: place i and place i + half a head become neighbours."""
    size = len(rows) // heads
    order = [
        head * size + place + half for head in range(heads) for place in range(size // 2) for half in (0, size // 2)
    ]
    return rows[order]


def write_gguf(path: Path, folder: Path, change: Callable[[gguf.GGUFWriter], None] | None = None, **other: Any) -> Path:
    """The folder's Llama in GGUF: matrices as Q4_1, embeddings as Q8_0, norms as F32. `other`: header values instead,
    None for none; `tensors` changes these."""
    model = LlamaForCausalLM.from_pretrained(folder)
    held, config = {name: value.numpy() for name, value in model.state_dict().items()}, model.config
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    words = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    order = other.pop("order", gguf.GGUFEndian.LITTLE)
    writer = gguf.GGUFWriter(path, other.pop("architecture", "llama"), endianess=order)
    header: dict[str, tuple[Any, str]] = {
        "llama.embedding_length": (config.hidden_size, "uint32"),
        "llama.block_count": (config.num_hidden_layers, "uint32"),
        "llama.feed_forward_length": (config.intermediate_size, "uint32"),
        "llama.attention.head_count": (config.num_attention_heads, "uint32"),
        "llama.attention.head_count_kv": (config.num_key_value_heads, "uint32"),
        "llama.context_length": (config.max_position_embeddings, "uint32"),
        "llama.rope.freq_base": (5000.0, "float32"),
        "llama.attention.layer_norm_rms_epsilon": (1e-5, "float32"),
        "llama.vocab_size": (config.vocab_size, "uint32"),
        "llama.rope.dimension_count": (config.head_dim, "uint32"),
        "tokenizer.ggml.model": ("gpt2", "string"),
        "tokenizer.ggml.pre": ("smollm", "string"),
        "tokenizer.ggml.tokens": (words, "array"),
        "tokenizer.ggml.token_type": ([3] * 3 + [1] * (len(words) - 3), "array"),
        "tokenizer.ggml.merges": ([" ".join(merge) for merge in tokenizer["model"]["merges"]], "array"),
        "tokenizer.ggml.bos_token_id": (0, "uint32"),
        "tokenizer.ggml.eos_token_id": (1, "uint32"),
        "tokenizer.ggml.add_bos_token": (True, "bool"),
        "tokenizer.chat_template": (CHAT, "string"),
        "general.license": ("a licence", "string"),
    }
    change_tensors = other.pop("tensors", lambda tensors: tensors)
    for key, (value, kind) in header.items():
        name = key.replace(".", "__")
        if (stated := other.pop(name, value)) is not None:
            getattr(writer, f"add_{kind}")(key, stated)
    for name, value in other.items():
        writer.add_string(name.replace("__", "."), value)
    names = {there: here for here, there in gguf_model.LAYER.items()} | {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm"
    }  # fmt: skip
    tensors = {}
    for name, value in held.items():
        if name == "lm_head.weight":
            continue
        stem, layer = name.removesuffix(".weight"), ""
        if stem.startswith("model.layers."):
            _, _, number, stem = stem.split(".", 3)
            layer = f"blk.{number}."
        rows = value
        if stem.endswith(("q_proj", "k_proj")):
            rows = turned(value, config.num_attention_heads if stem.endswith("q_proj") else config.num_key_value_heads)
        tensors[f"{layer}{names[stem]}.weight"] = rows
    for name, rows in change_tensors(tensors).items():
        kind = gguf.GGMLQuantizationType
        wanted = kind.F32 if rows.ndim == 1 else kind.Q8_0 if name.startswith("token_embd") else kind.Q4_1
        if rows.shape[-1] % 32:
            wanted = kind.F32
        writer.add_tensor(name, gguf.quantize(rows, wanted), raw_dtype=wanted)
    if change is not None:
        change(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_decoder(tmp_path_factory.mktemp("decoder"), WORDS, **SIZES)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "small.gguf", folder)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    out = tmp_path_factory.mktemp("out")
    assert main(["decoder", "--gguf", str(source), "--out", str(out)]) == 0
    return out / "model"


def test_numbers_are_those_that_gguf_dequantises(source: Path, written: Path, folder: Path) -> None:
    ours = LlamaForCausalLM.from_pretrained(written).state_dict()
    read = {tensor.name: tensor for tensor in gguf.GGUFReader(source).tensors}
    close = LlamaForCausalLM.from_pretrained(folder).state_dict()
    for name, tensor in read.items():
        theirs = gguf.dequantize(tensor.data, tensor.tensor_type)
        here = ours[gguf_model.name_in_transformers(name)].numpy()
        heads = 4 if "attn_q" in name else 2
        if "attn_q" in name or "attn_k" in name:
            here = turned(here, heads)
        np.testing.assert_array_equal(theirs.reshape(here.shape), here)
        before = close[gguf_model.name_in_transformers(name)]
        assert (ours[gguf_model.name_in_transformers(name)] - before).abs().max() < 0.1 * before.abs().max() + 1e-6


def test_logits_are_those_of_transformers_own_reader(source: Path, written: Path, folder: Path) -> None:
    theirs = LlamaForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    ours = LlamaForCausalLM.from_pretrained(written)
    ids = torch.randint(0, ours.config.vocab_size, (3, 17), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(ours(ids).logits, theirs(ids).logits)
        other = LlamaForCausalLM.from_pretrained(folder)  # another rotary base, and not quantised
        assert not torch.allclose(ours(ids).logits, other(ids).logits)
    assert ours.config.rms_norm_eps == 1e-5 and ours.config.rope_parameters["rope_theta"] == 5000


def test_the_folder_is_whole(source: Path, written: Path, folder: Path) -> None:
    ours, before = Tokenizer.from_file(str(written / "tokenizer.json")), TextModel(folder).tokenizer
    for text in ("the film was good", "a bad  book\n", "<turn>the", "é 12"):
        assert ours.encode(text).ids[:4] == before.encode(text).ids[:4]
    assert ours.encode(" 1234").tokens[-4:] == ["1", "2", "3", "4"]  # SmolLM2 cuts numbers into digits
    theirs = AutoTokenizer.from_pretrained(written)
    assert theirs.bos_token == "<s>" and theirs.eos_token == "</s>"
    said = theirs.apply_chat_template([{"role": "user", "content": "good"}], tokenize=False)
    assert said == "<turn>good"
    card = (written / "README.md").read_text()
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    assert digest in card and "Licence: a licence" in card and "small.gguf" in card and "Q4_1 (14 tensors)" in card
    assert json.loads((written / "generation_config.json").read_text()) == {"bos_token_id": 0, "eos_token_id": 1}
    assert sorted(path.name for path in written.parent.iterdir()) == ["model"]


def test_a_tokenizer_as_sentencepiece_has_it_is_that_of_transformers(tmp_path: Path) -> None:
    pieces = [
        "\u2581",
        *"thefilmwasgodb",
        "th",
        "the",
        "\u2581the",
        "fi",
        "fil",
        "film",
        "\u2581film",
        "go",
        "goo",
        "good",
    ]
    pieces = list(dict.fromkeys([*pieces, "\u2581good"]))
    words = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    folder = write_decoder(tmp_path / "folder", WORDS, **SIZES, vocab_size=len(words))
    (tmp_path / "gguf").mkdir()
    source = write_gguf(
        tmp_path / "gguf" / "small.gguf",
        folder,
        tokenizer__ggml__model="llama",
        tokenizer__ggml__tokens=words,
        tokenizer__ggml__token_type=[2, 3, 3, *[6] * 256, *[1] * len(pieces)],
        tokenizer__ggml__merges=None,
        tokenizer__ggml__bos_token_id=1,
        tokenizer__ggml__eos_token_id=2,
        change=lambda writer: writer.add_array(
            "tokenizer.ggml.scores", [0.0] * 259 + [-float(i) for i in range(len(pieces))]
        ),
    )
    assert main(["decoder", "--gguf", str(source), "--out", str(tmp_path / "out")]) == 0
    ours = TextModel(tmp_path / "out" / "model").tokenizer
    theirs = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    for text in ("the film was good", "the  é film\n", "good</s>film"):
        assert ours.encode(text).ids == theirs(text).input_ids
    assert ours.encode("the film").tokens == ["<s>", "\u2581the", "\u2581film"]


def test_a_folder_is_made_once_and_another_is_not_replaced(
    tmp_path: Path, source: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ["decoder", "--gguf", str(source), "--out", str(tmp_path)]
    assert main(call) == 0 and "numbers" in capsys.readouterr().out
    before = (tmp_path / "model" / "model.safetensors").stat().st_ino
    assert main(call) == 0 and "unchanged" in capsys.readouterr().out
    assert (tmp_path / "model" / "model.safetensors").stat().st_ino == before
    monkeypatch.setattr(gguf_model, "code", lambda _names: b"newer")
    assert main(call) == 0 and "numbers" in capsys.readouterr().out
    other = write_gguf(tmp_path / "other.gguf", folder, general__name="another")
    capsys.readouterr()
    assert main(["decoder", "--gguf", str(other), "--out", str(tmp_path)]) == 2
    assert "not of this GGUF" in capsys.readouterr().err


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "another architecture": ({"architecture": "qwen2"}, "its architecture is qwen2; expected llama"),
    "the other order": ({"order": gguf.GGUFEndian.BIG}, "its bytes stand in the other order than this machine's"),
    "a scale of positions": ({"llama__rope__scaling__type": "yarn"}, "llama.rope.scaling.type is yarn"),
    "another tokenizer": ({"tokenizer__ggml__model": "llama"}, "tokenizer.ggml.scores is no list of"),
    "no cut": ({"tokenizer__ggml__pre": None}, "its tokenizer is gpt2, None"),
    "another cut": ({"tokenizer__ggml__pre": "tekken"}, "its tokenizer is gpt2, tekken"),
    "no tokens": ({"tokenizer__ggml__tokens": None}, "tokenizer.ggml.tokens is no list of texts"),
    "a wrong merge": ({"tokenizer__ggml__merges": ["q zz"]}, 'the merge "q zz" makes no token'),
    "a token twice": ({"tokenizer__ggml__tokens": ["a"] * 300}, "has a token twice"),
    "no width": ({"llama__embedding_length": None}, "llama.embedding_length is None; expected an integer"),
    "heads that do not fit": ({"llama__attention__head_count_kv": 3}, "4 heads over 3; expected a multiple"),
    "half a head turned": ({"llama__rope__dimension_count": 4}, "llama.rope.dimension_count is 4; expected"),
    "another width": ({"llama__feed_forward_length": 96}, "has the shape [64, 32]; expected [96, 32]"),
    "no base": ({"llama__rope__freq_base": -1.0}, "llama.rope.freq_base is -1.0; expected a positive number"),
    "a strange tensor": (
        {"tensors": lambda tensors: tensors | {"rope_freqs.weight": np.ones(4, np.float32)}},
        "rope_freqs.weight: is no tensor of a plain Llama",
    ),
    "no norm": (
        {"tensors": lambda tensors: {k: v for k, v in tensors.items() if k != "output_norm.weight"}},
        "has no tensor output_norm.weight; expected a whole Llama",
    ),
    "not finite": (
        {"tensors": lambda tensors: tensors | {"output_norm.weight": np.full(32, np.nan, np.float32)}},
        "output_norm.weight: holds numbers that are not finite",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_gets_one_clear_line(
    name: str, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, expected = BAD[name]
    source = write_gguf(tmp_path / "bad.gguf", folder, **changes)
    capsys.readouterr()
    assert main(["decoder", "--gguf", str(source), "--out", str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1 and expected in captured.err, captured.err
    assert not (tmp_path / "out" / "model").exists()


def test_a_broken_file_gets_one_clear_line(tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole, broken = source.read_bytes(), tmp_path / "broken.gguf"
    long = whole[:8] + (2**62).to_bytes(8, "little") + whole[16:]
    endless = b"GGUF" + (3).to_bytes(4, "little") + bytes(8) + (1).to_bytes(8, "little")
    endless += (1).to_bytes(8, "little") + b"a" + (9).to_bytes(4, "little")  # an array of 2⁶² bytes
    endless += (0).to_bytes(4, "little") + (2**62).to_bytes(8, "little")
    cases = {f"cut at {at}": whole[:at] for at in (0, 3, 4, 8, 23, 100, 2000, len(whole) // 2, len(whole) - 1)}
    cases |= {"tensors without end": long, "an array without end": endless, "no GGUF": b"PK" + whole[2:]}
    chance = np.random.default_rng(0)
    for number in range(20):
        some = bytearray(whole)
        for at in chance.integers(4, 3000, 8):
            some[at] = chance.integers(256)
        cases[f"chance {number}"] = bytes(some)
    for name, content in cases.items():
        broken.write_bytes(content)
        code = main(["decoder", "--gguf", str(broken), "--out", str(tmp_path / f"out {name}")])
        captured = capsys.readouterr()
        if name.startswith("chance") and code == 0:
            continue  # a changed word of the vocabulary is a word as well
        assert code == 2 and captured.err.count("\n") == 1 and "broken.gguf" in captured.err, (name, captured.err)
    assert main(["decoder", "--gguf", str(tmp_path / "none.gguf"), "--out", str(tmp_path / "out")]) == 2
    assert "none.gguf" in capsys.readouterr().err


# The default model and its tasks

TABLE = decoder.declared()


@pytest.mark.parametrize("name", TABLE["tasks"])
def test_a_task_is_declared_whole(name: str) -> None:
    entry, task = TABLE["tasks"][name], decoder.about_task(name)
    prompt = decoder.parse(entry["prompt"], name, mask=False)
    assert set(prompt.columns) == ({"text", "second"} if task["group"] == "pairs" else {"text"})
    assert entry["prompt"] == entry["prompt"].strip()
    names = [each for each, _, _ in task["classes"]]
    assert set(entry["words"]) <= set(names) and len(set(entry["words"].values())) == len(entry["words"]) >= 2


def test_the_default_comes_out_of_its_archive(
    tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    packages, out = tmp_path / "packages", tmp_path / "out"
    packages.mkdir()
    with tarfile.open(packages / "model.tar.gz", "w:gz") as tar:
        about = tarfile.TarInfo("inner/small.gguf")
        about.size = source.stat().st_size
        tar.addfile(about, io.BytesIO(source.read_bytes()))
    archive = {"name": "model.tar.gz", "sha256": hashlib.sha256((packages / "model.tar.gz").read_bytes()).hexdigest()}
    table: dict[str, Any] = {
        "model": TABLE["model"] | {"archive": archive, "member": "inner/small.gguf", "gguf_sha256": "0" * 64},
        "tasks": {"vader_movie": {"prompt": "{text} this is", "words": {"negative": "bad", "positive": "good"}}},
    }
    monkeypatch.setattr(decoder, "declared", lambda: table)

    def texts(_folder: Path, _task: dict[str, Any]) -> Texts:
        reviews = Texts()
        for row in range(2400):
            reviews.add(f"the film {row} was {WORDS[row % 20]}", "positive" if row % 2 else "negative", str(row))
        return reviews

    monkeypatch.setitem(language.SOURCES, "vader", texts)
    call = ["decoder", "--packages", str(packages), "--out", str(out)]
    assert main(call) == 2
    assert f"expected {'0' * 64}" in capsys.readouterr().err and not list(out.iterdir())
    table["model"]["gguf_sha256"] = hashlib.sha256(source.read_bytes()).hexdigest()
    assert main(call) == 0
    assert sorted(path.name for path in out.iterdir()) == ["model", "vader_movie.h5"]
    assert "Licence: Apache-2.0" in (out / "model" / "README.md").read_text()
    with h5py.File(out / "vader_movie.h5") as file:
        assert file.attrs["tokenizer"] == TextModel(out / "model").fingerprint and file["head"].attrs["kind"] == "words"
        assert [len(file[f"{split}/labels"]) for split in ("train", "validation", "test")] == [128, 128, 256]
        assert file["test/inputs"].shape[1] == 64
    capsys.readouterr()
    assert main(call) == 0 and capsys.readouterr().out.count("unchanged") == 2
    assert main([*call, "--task", "none"]) == 2
    assert "task none: not known; expected some of vader_movie" in capsys.readouterr().err
    assert main(["decoder", "--packages", str(tmp_path), "--out", str(tmp_path / "new")]) == 2
    assert "expected what jobs/setup.sh --decoder downloads" in capsys.readouterr().err
