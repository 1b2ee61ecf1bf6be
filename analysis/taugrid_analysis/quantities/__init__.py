# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What runs measure: a folder a quantity, which is found by being there.

A folder may hold: columns.py with of_tasks, of_pairs or of_regime(results, regime), columns of the frames;
tables.py with TABLES (name: a function of a run that makes the table), figures.py,
section.py with sections(run), its parts of the report, and recompute.py with checks(oracle), the same numbers
again in plain PyTorch. Its own docstring says the formula, the unit and where in results.h5 the numbers are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType

from taugrid_analysis.run.group import Group


def modules(part: str) -> Iterator[tuple[str, ModuleType]]:
    """Each quantity that has this part, such as "tables", with it; in the order of the names."""
    for found in iter_modules(__path__):
        name = f"{__name__}.{found.name}.{part}"
        if found.ispkg and find_spec(name) is not None:
            yield found.name, import_module(name)


@cache
def groups() -> dict[str, Group]:
    """Every group of results.h5 that some quantity reads, by its name."""
    packages = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__) if found.ispkg]
    return {name: group for package in packages for name, group in getattr(package, "GROUPS", {}).items()}
