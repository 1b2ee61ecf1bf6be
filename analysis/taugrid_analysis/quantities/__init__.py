# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What runs measure: a folder or a file a quantity, which is found by being there.

A folder may hold: columns.py with of_tasks, of_pairs or of_regime(results, regime), columns of the frames;
tables.py with TABLES (name: a function of a run that makes the table), figures.py,
section.py with sections(run), its parts of the report, and recompute.py with checks(oracle), the same numbers
again in plain PyTorch. A short quantity is one file that has these names. The docstring says the formula, the
unit and where in results.h5 the numbers are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType

from taugrid_analysis.run.group import Group

_NAMES = {
    "columns": {"of_tasks", "of_pairs", "of_regime"},
    "tables": {"TABLES"},
    "section": {"sections"},
    "recompute": {"checks"},
}


def modules(part: str) -> Iterator[tuple[str, ModuleType]]:
    """Each quantity that has this part, such as "tables", with it; in the order of the names."""
    for quantity in iter_modules(__path__):
        name = f"{__name__}.{quantity.name}"
        if not quantity.ispkg:
            module = import_module(name)
            if _NAMES[part] & set(vars(module)):
                yield quantity.name, module
        elif find_spec(f"{name}.{part}") is not None:
            yield quantity.name, import_module(f"{name}.{part}")


@cache
def groups() -> dict[str, Group]:
    """Every group of results.h5 that some quantity reads, by its name."""
    quantities = [import_module(f"{__name__}.{quantity.name}") for quantity in iter_modules(__path__)]
    return {name: group for module in quantities for name, group in getattr(module, "GROUPS", {}).items()}
