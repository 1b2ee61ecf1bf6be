# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What is skipped is reported as skipped, with its reason at the end."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SKIPPED = "import pytest\n\n\n@pytest.mark.skip(reason='no GPU here')\ndef test_skipped():\n    pass\n"


def session(folder: Path, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    for name in ("conftest.py", "pytest.ini"):
        shutil.copy(TESTS / name, folder)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", *options, folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def closing(log: Path) -> str:
    return subprocess.run(["bash", TESTS / "skipped.sh", log], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("processes", [(), ("-n", "2", "--dist", "loadscope")])
def test_all_skipped_is_no_pass(tmp_path: Path, processes: tuple[str, ...]) -> None:
    done = session(tmp_path, *processes, gpu=SKIPPED)
    assert done.returncode == 77
    (tmp_path / "log").write_text(done.stdout)
    assert closing(tmp_path / "log") == "Not tried on this machine:\n  no GPU here\n"


@pytest.mark.parametrize(("other", "code"), [("pass", 0), ("assert False", 1)])
def test_others_decide(tmp_path: Path, other: str, code: int) -> None:
    assert session(tmp_path, gpu=SKIPPED, other=f"def test_other():\n    {other}\n").returncode == code


def test_reasons_are_the_closing_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(session(tmp_path, gpu=SKIPPED).stdout + "SKIPPED fuzz: clang++ was not found\n")
    assert closing(log) == "Not tried on this machine:\n  fuzz: clang++ was not found\n  no GPU here\n"
    log.write_text("1 passed\n")
    assert closing(log) == ""


def test_run_ends_with_them() -> None:
    """The lines come also where a test fails, and its exit code stays."""
    *_, last = (TESTS / "run.sh").read_text().strip().splitlines()
    assert last == 'exit "$code"'
    assert "bash tests/skipped.sh" in (TESTS / "run.sh").read_text()
