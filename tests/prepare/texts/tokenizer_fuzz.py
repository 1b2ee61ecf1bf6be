# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Folders of text models in which a seeded dice has damaged tokenizer.json, config.json or modules.json, through their
reader. A million of them by hand:

  .venv/bin/python tests/prepare/texts/tokenizer_fuzz.py 1000000 [SEED]

Each gives tokens of a text, or one line that can be shown.
"""

import copy
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "jobs/prepare"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from text_models import WORDS, write_text_model

from errors import InputError
from texts.model import TextModel, mean_pooled

SECONDS_MOST = 5.0  # for one input, on a machine that does other things too
FILES = ("tokenizer.json", "config.json", "modules.json", "1_Pooling/config.json", "tokenizer_config.json")
NUMBERS = (None, True, -1, 0, 1, 2**40, 2**70, 1e300)
ODD = (*NUMBERS, "", "x", "\x00", "\ud800", "../..", "[MASK]", [], [[]], {}, {"type": "x"})


def places(value: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value inside."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    slots = []
    for key in keys:
        slots += [(value, key), *places(value[key])]
    return slots


def reshaped(content: bytes, dice: random.Random) -> bytes:
    """JSON with some values put in another's place, or left out."""
    value = json.loads(content)
    for _ in range(dice.randint(1, 3)):
        slots = places(value)
        if not slots:
            break
        container, key = dice.choice(slots)
        if dice.random() < 0.2:
            del container[key]
        else:
            other = dice.choice(ODD) if dice.random() < 0.7 else dice.choice(slots)[1]
            container[key] = copy.deepcopy(other)
    return json.dumps(value).encode()


def scratched(content: bytes, dice: random.Random) -> bytes:
    """Bytes that are changed, cut out or doubled."""
    damaged = bytearray(content)
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(damaged) + 1)
        damaged[at : at + dice.randint(0, 9)] = dice.randbytes(dice.randint(0, 4)) or damaged[: dice.randint(0, 40)]
    return bytes(damaged)


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (reshaped, reshaped, reshaped, scratched)


def read(folder: Path) -> bool:
    """Whether it is read. Raises AssertionError on a line that cannot be shown, and whatever is no InputError."""
    try:
        model = TextModel(folder)
        mean_pooled(folder)
        if model.masked_lm:
            assert isinstance(model.mask, str)
        tokens = model.encode(["the good film", "a bad book"], [], min(10, model.tokens_most))
        assert tokens.ids.shape[0] == 2 and tokens.lengths.min() > 0
        return True
    except InputError as error:
        line = str(error)
        assert line.isprintable() and "expected" in line and len(line) < 1000, line
        assert str(folder) in line or line.startswith("text 1, "), line
        return False


def fuzz(inputs: int, seed: int, folder: Path) -> tuple[int, int]:
    """(how many were tried, how many were read)."""
    dice, done = random.Random(seed), 0
    whole = write_text_model(folder / "whole", WORDS, first_token=True)
    (whole / "tokenizer_config.json").write_text('{"mask_token": {"content": "[MASK]"}}')
    spoilt = Path(shutil.copytree(whole, folder / "spoilt"))
    for number in range(inputs):
        name = dice.choice(FILES)
        content = dice.choice(DAMAGES)((whole / name).read_bytes(), dice)
        (spoilt / name).write_bytes(content)
        begin = time.monotonic()
        try:
            done += read(spoilt)
        except BaseException:  # a panic of tokenizers is none of Exception's
            print(f"input {number} of seed {seed}: {name}: {content!r}", file=sys.stderr)
            raise
        assert time.monotonic() - begin < SECONDS_MOST, content
        shutil.copyfile(whole / name, spoilt / name)
    return inputs, done


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        arguments = [int(word) for word in sys.argv[1:]]
        tried, done = fuzz(arguments[0], arguments[1] if len(arguments) > 1 else 1, Path(scratch))
    print(f"{tried} folders: {done} read, the others refused in one line")
