# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Where the files lie that a run was computed from, and whether they are still the same."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import regular, text
from taugrid_analysis.numbers.arrays import Array
from taugrid_analysis.recompute.answers import choice_labels, targets
from taugrid_analysis.run.store import opened

WORD, MIX, SHIFT, MASK = 8, 0x9E3779B97F4A7C15, 32, 2**64 - 1
BASIS, PRIME = 0xCBF29CE484222325, 0x100000001B3
PART = 1 << 20  # bytes


@dataclass(frozen=True)
class Inputs:
    """What one run folder was computed from.

    `elsewhere`: what is not in the folder itself, and where it is read instead.
    """

    run: Path
    config: dict[str, Any]
    elsewhere: dict[str, Path]

    def task(self, name: str) -> Path:
        """RUN/data/TASK.h5, or where config.toml found it."""
        return self._linked(
            self.run / "data" / f"{name}.h5", Path(self.need("data", "folder")) / f"{name}.h5"
        )

    def model(self) -> Path:
        """RUN/checkpoints/pretrained, or config.toml's."""
        return self._linked(self.run / "checkpoints" / "pretrained", Path(self.need("model", "path")))

    def checkpoint(self, regime: str, task: str) -> Path:
        """The checkpoint of a regime that the run trained, or that it was given."""
        inside = self.run / "checkpoints" / regime / task
        given = self.config.get("finetune", {}).get("checkpoints", "")
        return self._linked(inside, Path(given) / regime / task) if given else inside

    def kept(self, regime: str, task: str, mark: str) -> Path:
        """A model on the way of its training; of a given regime the run's own, not the giver's."""
        given = self.config.get("finetune", {}).get("given", [])
        folder = "kept" if regime in given else ""
        return self.run / "checkpoints" / folder / regime / task / mark

    def other_start(self) -> Path:
        """The second model of [bases.mixed]; "" where the run has none."""
        return Path(self.config.get("bases", {}).get("mixed", {}).get("other", ""))

    def need(self, section: str, key: str) -> str:
        value = self.config.get(section, {}).get(key)
        if value is None:
            raise InputError(f"lacks {key} in [{section}]", self.run / "config.toml", "a run's configuration")
        return str(value)

    def seed(self) -> int:
        value = self.config.get("run", {}).get("seed", 0)
        if not isinstance(value, int):
            raise InputError(f"has seed = {value!r} in [run]", self.run / "config.toml", "an integer")
        return value

    def _linked(self, inside: Path, elsewhere: Path) -> Path:
        if inside.exists():
            return inside
        path = elsewhere if elsewhere.is_absolute() else self.run / elsewhere
        if not path.exists():
            raise InputError(
                "is missing", inside, f"a link to what the run read, or {path} as config.toml says"
            )
        self.elsewhere[str(inside.relative_to(self.run))] = path
        return path

    def note(self) -> str:
        """One line about what was read from elsewhere; empty where the folder held everything."""
        if not self.elsewhere:
            return ""
        folders = dict.fromkeys(str(path.parent) for path in self.elsewhere.values())
        return (
            f"not in the run folder, so read where config.toml says ({', '.join(folders)}):"
            f" {', '.join(self.elsewhere)}"
        )


def inputs(run: Path) -> Inputs:
    """Reads config.toml; files are looked for when they are asked for."""
    path = run / "config.toml"
    try:
        config = tomllib.loads(regular(path, "a run's configuration").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError("is missing", path, "a run folder, with what was configured") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error})", path, "a run's configuration") from error
    for name, section in config.items():
        if not isinstance(section, dict):
            raise InputError(f"has {name} = {section!r}", path, "sections of a run's configuration")
    return Inputs(run, config, {})


def recorded(run: Path) -> dict[str, str]:
    """name of a file as the run read it: digest, from inputs.toml; empty in folders of early versions."""
    path = run / "inputs.toml"
    if not path.is_file():
        return {}
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error})", path, "names and digests") from error
    digests = {}
    for name, value in entries.items():
        digest = value.get("digest") if isinstance(value, dict) else value
        if isinstance(digest, str):
            digests[name] = digest
    return digests


def theta0s(digests: dict[str, str]) -> list[str]:
    """The names that are models' folders: their digest is the fingerprint of their numbers."""
    return [name for name in digests if not name.endswith((".h5", ".safetensors", ".json"))]


def digest_words(parts: Iterator[bytes]) -> str:
    """The digest of bytes in words of eight, each part padded with zeros: it tells changes, not attacks."""
    state = BASIS
    for part in parts:
        padded = part + bytes(-len(part) % WORD)
        for word in np.frombuffer(padded, dtype="<u8").tolist():
            state = (state ^ word) * MIX & MASK
            state ^= state >> SHIFT
    return f"{state:016x}"


def digest_task(path: Path) -> str:
    """The digest of a packed data set: head, scale, means and deviations, then each split's arrays."""

    def array(node: h5py.Dataset | Array, dtype: str) -> Iterator[bytes]:
        yield np.array(node.shape, dtype="<i8").tobytes()
        if not node.shape or not node.shape[0]:
            return
        row = max(1, int(np.prod(node.shape[1:])) * np.dtype(dtype).itemsize)
        step = max(1, PART // row) * WORD  # whole words but for the last part
        for start in range(0, node.shape[0], step):
            yield np.ascontiguousarray(node[start : start + step], dtype=dtype).tobytes()

    def parts() -> Iterator[bytes]:
        with opened(path, "a packed task") as file:
            head = file["head"]
            scale, of_unit_rows = 1.0, text(head.attrs.get("kind", "cosine")) == "cosine"
            if "weight" in head:
                yield from array(head["weight"], "<f4")
                scale = head["weight"].attrs.get("logit_scale", 1) if of_unit_rows else 1
            yield np.float64(scale).tobytes()
            for name, dtype in (("bias", "<f4"), ("tokens", "<i8")):
                if name in head:
                    yield from array(head[name], dtype)
            for name in ("lengths", "letters"):
                if name in head:
                    yield from array(head[name], "<i8")
            yield text(head.attrs.get("metric", "")).encode()
            if "pieces" in head:
                yield from (bytes(piece) for piece in head["pieces"][()])
            for name in ("mean", "std"):
                yield np.asarray(file.attrs.get(name, []), dtype="<f4").tobytes()
            for split in ("train", "validation", "test"):
                inputs_of = file[f"{split}/inputs"]
                yield from array(inputs_of, "|u1" if inputs_of.dtype == np.uint8 else "<i4")
                if "choices" in file[split]:
                    yield from array(choice_labels(file[split], slice(None)), "<i8")
                elif "labels" in file[split]:
                    yield from array(file[f"{split}/labels"], "<i8")
                else:
                    yield from array(targets(file[split], slice(None)), "<i8")
                for name in ("lengths", "types", "mask"):
                    if f"{split}/{name}" in file:
                        yield from array(file[f"{split}/{name}"], "<i4")
                if "choices" in file[split]:
                    yield from array(file[f"{split}/choices"], "<i4")
                    lengths = file[f"{split}/choice_lengths"]
                    yield from array(lengths, "<i4")
                    yield from array(file[split].get("choice_given", np.zeros(lengths.shape, "<i4")), "<i4")
                if "references" in file[split]:
                    yield from (bytes(answers) for answers in file[f"{split}/references"][()])

    return digest_words(parts())


def digest_file(path: Path) -> str:
    def parts() -> Iterator[bytes]:
        with path.open("rb") as file:
            while part := file.read(PART):
                yield part

    return digest_words(parts())


def digest_model(path: Path) -> str:
    """The digest of a file of tensors; of an index, that of its own digest and its parts', by name."""
    if path.suffix != ".json":
        return digest_file(path)
    try:
        places = json.loads(path.read_bytes())["weight_map"].values()
        files = {path, *(path.with_name(str(part)) for part in places)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError("is damaged", path, "an index of parts, as the run was given it") from None
    return fingerprint("".join(digest_file(file) for file in sorted(files)).encode())


def require_as_written(results: Path) -> None:
    """Holds results.h5 against the digest that the program kept beside it; early versions kept none."""
    kept = results.with_name("results.digest")
    if kept.is_file() and kept.read_bytes().strip() != digest_file(results).encode():
        expected = f"the digest in {kept.name}; the same `taugrid run` writes it anew from the units"
        raise InputError("is damaged", results, expected)


def require_as_saved(checkpoint: Path) -> None:
    """Holds a checkpoint against the digest in its header, of names, shapes and numbers; others have none."""

    def parts(header: dict[str, Any], start: int) -> Iterator[bytes]:
        for name in sorted(header, key=str.encode):
            begin, end = header[name]["data_offsets"]
            yield name.encode()
            yield np.array(header[name]["shape"], dtype="<i8").tobytes()
            file.seek(start + begin)
            for at in range(begin, end, PART):
                yield file.read(min(PART, end - at))

    expected = "what the run wrote; `taugrid run` on the run's folder trains a damaged model again"
    try:
        with checkpoint.open("rb") as file:
            length = int.from_bytes(file.read(WORD), "little")
            if length > checkpoint.stat().st_size:
                raise ValueError
            header = json.loads(file.read(length))
            digest = header.pop("__metadata__", {}).get("digest", "")
            damaged = digest and digest_words(parts(header, WORD + length)) != digest
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        damaged = checkpoint.exists()
    if damaged:
        raise InputError("is damaged", checkpoint, expected)


def fnv1a(content: bytes | memoryview, state: int = BASIS) -> int:
    """The hash FNV-1a of what `state` is the hash of, followed by `content`."""
    for byte in content:
        state = (state ^ byte) * PRIME & MASK
    return state


def fingerprint(content: bytes) -> str:
    """FNV-1a: of all parameters of a model as single-precision numbers."""
    return f"{fnv1a(content):016x}"


def changes(run_inputs: Inputs, tasks: list[str], model: str) -> Iterator[tuple[str, str, str]]:
    """(file, digest that the run recorded, digest now) of every input that was recorded and is another now.

    model: the fingerprint of θ0 as it is now, or nothing where θ0 was drawn at random.
    """
    digests = recorded(run_inputs.run)
    by_name = {Path(name).name: digest for name, digest in digests.items() if name.endswith(".h5")}
    for task in tasks:
        path = run_inputs.task(task)
        read = path.readlink() if path.is_symlink() else path  # of variants, their task's
        before = by_name.get(read.name, by_name.get(f"{task}.h5", ""))
        now = digest_task(path) if before else ""
        if now != before:
            yield str(path), before, now
    of_models = (".safetensors", ".safetensors.index.json")
    weights = {name: digest for name, digest in digests.items() if name.endswith(of_models)}
    for name, before in weights.items():  # task vectors that the run was given
        regime, task = Path(name).parts[-3:-1]
        of_other = Path(name).parent == run_inputs.other_start()
        path = (Path(name).parent if of_other else run_inputs.checkpoint(regime, task)) / Path(name).name
        now = digest_model(path)
        if now != before:
            yield str(path), before, now
    models = theta0s(digests)
    if model and models and model not in [digests[name] for name in models]:
        yield str(run_inputs.model()), digests[models[0]], model
    inside = run_inputs.run / "checkpoints" / "pretrained"
    if inside.exists() and not inside.is_symlink():
        return  # the run made its model, and wrote the configuration that it used
    for name, before in digests.items():  # config.json, and what stands beside it
        part_of = [model for model in models if Path(model) in Path(name).parents]
        if not name.endswith(".json") or name in weights or not part_of:
            continue
        path = run_inputs.model() / Path(name).relative_to(part_of[0])
        now = digest_file(path) if path.is_file() else "missing"
        if now != before:
            yield str(path), before, now
