# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The one error that reaches the user: what is wrong, where, and what was expected."""

from __future__ import annotations


class InputError(Exception):
    """The user's input is wrong; printed as one line, exit code 2."""

    def __init__(self, problem: str, where: object, expected: str) -> None:
        super().__init__(f"{where}: {problem}; expected {expected}")
