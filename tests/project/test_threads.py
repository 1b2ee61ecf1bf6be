# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""jobs/threads.py, which shares out a host's cores."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "jobs"))
import threads


def test_cores_are_shared_out_in_every_way() -> None:
    assert threads.shares(2) == [(1, 2), (2, 1)]
    assert threads.shares(12) == [(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)]


def test_a_row_says_how_many_times_as_much_all_cores_do(capsys: pytest.CaptureFixture[str]) -> None:
    program = os.environ["TAUGRID"]
    assert threads.main(["--program", program, "--cores", "2", "--cases", "forward", "--repetitions", "1"]) == 0
    head, line, row = capsys.readouterr().out.splitlines()
    assert head == "| case | items a second, one core | 1 × 2 | 2 × 1 |" and line == "| --- | ---: | ---: | ---: |"
    name, alone, *times = [cell.strip() for cell in row.strip("|").split("|")]
    assert name == "`forward`" and float(alone) > 0 and len(times) == 2 and all(float(x) > 0 for x in times)
    assert threads.row("ntk", 50.0, [90.0, 100.0]) == "| `ntk` | 50 | 1.80 | 2.00 |"


@pytest.mark.parametrize(("arguments", "complaint"), [
    (["--cores", "1"], "--cores is 1; expected two or more"),
    (["--cores", "2", "--program", "/nowhere/taugrid"], "/nowhere/taugrid: No such file or directory; expected"),
    (["--cores", "2", "--cases", "forwards"], "forwards: taugrid bench ended with 2"),
])
def test_one_line_says_what_is_wrong(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert threads.main(["--program", os.environ["TAUGRID"], *arguments]) == 2
    (line,) = [text for text in capsys.readouterr().err.splitlines() if text.startswith("threads: ")]
    assert complaint in line
