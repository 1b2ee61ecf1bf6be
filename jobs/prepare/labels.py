# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Labels by which the field's sets say that a row has none.

The hub's sources have −1 or nothing, SNLI's own files "-", tables that pandas wrote "nan". Such a label is no class,
unless the user names it as one: sentiment may be −1, 0 and 1. Rows that have it are dropped on request, and counted.
"""

from collections.abc import Collection

NO_LABEL = {"", "-1", "-", "nan", "no label", "no_label", "unlabeled", "unlabelled"}
WITHOUT_LABEL = "without a label"  # why rows are left out
DROP = "--drop-unlabelled to leave such rows out"


def means_none(label: str, named: Collection[str] = ()) -> bool:
    """Whether a label stands for none; `named` holds the labels that the user calls classes."""
    return label.strip().lower() in NO_LABEL and label not in named
