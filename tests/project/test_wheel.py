# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The analysis as a wheel, for people who have somebody's results.h5 and nothing else of taugrid."""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
STORED = PROJECT / "analysis/tests/recorded/every_group.h5.xz"


def run(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    return subprocess.run(words, cwd=folder, env=clean, text=True, capture_output=True, check=False)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel and what it asks for, as these tests' own has it."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = shutil.copytree(PROJECT / "analysis", folder / "analysis",  # setuptools builds beside them
                              ignore=shutil.ignore_patterns("tests", ".*", "*.egg-info", "build"))
    built = run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", folder,
                sources, folder=folder)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("taugrid_analysis-*.whl")
    frozen = run(sys.executable, "-m", "pip", "freeze", "--exclude-editable", folder=folder).stdout
    versions = folder / "versions.txt"
    versions.write_text("\n".join(line for line in frozen.splitlines() if "==" in line))
    venv.create(folder / "empty", with_pip=True)
    programs = folder / "empty" / "bin"
    installed = run(programs / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
                    "-c", versions, wheel, folder=folder)
    assert installed.returncode == 0, installed.stderr
    return programs


def test_a_stored_run_is_read_with_nothing_else_of_the_project(environment: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.h5"
    results.write_bytes(lzma.decompress(STORED.read_bytes()))
    program = environment / "taugrid-analysis"
    tables = run(program, "tables", results, folder=tmp_path)
    assert tables.returncode == 0, tables.stderr
    here = run(sys.executable, "-m", "taugrid_analysis", "tables", results, folder=tmp_path)
    assert tables.stdout == here.stdout and len(tables.stdout.splitlines()) > 500
    report = run(program, "report", results, "--out", tmp_path / "report.html", folder=tmp_path)
    assert report.returncode == 0, report.stderr
    assert (tmp_path / "report.html").stat().st_size > 100_000
    ask = "import taugrid_analysis; print(taugrid_analysis.__file__)"
    where = run(environment / "python", "-c", ask, folder=tmp_path)
    assert where.stdout.startswith(str(environment.parent))
    # What it does not ask for is said, not met as a traceback.
    again = run(program, "recompute", results, folder=tmp_path)
    assert again.returncode == 2 and "PyTorch and transformers" in again.stderr
    assert len(again.stderr.splitlines()) == 1
