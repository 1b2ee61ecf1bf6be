# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What is known of the field's data sets beforehand, from originals.toml and further.toml, and checks against it."""

import tomllib
from pathlib import Path
from typing import Any

from errors import InputError

FACTS: dict[str, Any] = {}
for _name in ("originals.toml", "further.toml"):
    FACTS |= tomllib.loads((Path(__file__).parent / _name).read_text())


def expect_classes(task: str, count: int, where: Path) -> None:
    """Refuse a part of a data set, or a folder too many: accuracies would be of another task."""
    expected = FACTS[task]["class_count"]
    if count != expected:
        raise InputError(f"{where}: {task} has {count} classes here; expected {expected}")
