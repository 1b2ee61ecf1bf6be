# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a run was told, RUN/config.toml with every value in force, and what it read, RUN/inputs.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from taugrid_analysis.errors import InputError

# Where files lie and how often a unit saves itself is no part of what is computed.
PLACES = (
    *("run.name", "run.ranks_per_unit", "finetune.checkpoint_seconds"),
    *("data.folder", "model.path", "bases.mixed.other", "pretrain.pairs"),
)


# Whose models were taken in place of training them: those that another run of the same seed trained are the
# same ones, so that the bases' run may begin with the quickstart's or without. Others have other numbers.
TAKEN = ("finetune.checkpoints", "finetune.given")


def configuration(path: Path) -> dict[str, str]:
    """What is computed, by section.key; empty where the file was left behind.

    Raises InputError where it cannot be read.
    """
    flat: dict[str, str] = {}

    def walk(prefix: str, table: dict[str, Any]) -> None:
        for key, value in table.items():
            if isinstance(value, dict):
                walk(f"{prefix}{key}.", value)
            elif f"{prefix}{key}" not in PLACES:
                flat[f"{prefix}{key}"] = str(value)

    walk("", _parsed(path, "the config.toml that taugrid wrote"))
    return flat


def computed(path: Path) -> dict[str, str]:
    """What tells runs of one experiment from others. Raises InputError where the file is missing."""
    known = configuration(path)
    if not known:
        raise InputError("is missing or empty", path, "the configuration of the run, which taugrid wrote")
    return {key: value for key, value in known.items() if key not in TAKEN}


def inputs(path: Path) -> dict[str, str]:
    """The digest of each file or folder that the run read, by its name; empty without the file.

    Models' files have equal names: a fine-tuned one's is REGIME/TASK/FILE here, a configuration's MODEL/FILE.
    """
    parsed = _parsed(path, "the inputs.toml that taugrid wrote")
    return {"/".join(Path(name).parts[-_words(name) :]): str(digest) for name, digest in parsed.items()}


def _words(file: str) -> int:
    if file.endswith((".safetensors", ".safetensors.index.json")):
        return 3
    return 2 if file.endswith(".json") else 1


def _parsed(path: Path, expected: str) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error})", path, expected) from error
