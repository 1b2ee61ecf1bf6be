# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""jobs/paper.sh: whose models bases takes, and that language brings texts."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

JOBS = Path(__file__).parents[2] / "jobs"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The job, with what it starts replaced by what says so."""
    (tmp_path / "jobs").mkdir()
    shutil.copy(JOBS / "paper.sh", tmp_path / "jobs")
    (tmp_path / "jobs" / "common.sh").write_text(
        'set -euo pipefail\nvenv=venv\necho "${default:-data}" > default\n'
        'measure() { printf "%s\\n" "$@" >> measured; }\n'
    )
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    return tmp_path


def measured(tree: Path, paper: str = "bases", **variables: str) -> list[str]:
    environment = os.environ | variables
    (tree / "measured").unlink(missing_ok=True)
    subprocess.run(["bash", tree / "jobs" / "paper.sh", paper, "--mixed"], check=True, env=environment)
    return (tree / "measured").read_text().splitlines()


def finished(run: Path) -> Path:
    (run / "checkpoints").mkdir(parents=True)
    (run / "results.h5").touch()
    return run


def given(run: Path) -> list[str]:
    return ["--set", f"finetune.checkpoints={run}/checkpoints", "--set", 'finetune.given=["standard", "linear"]']


def test_models_of_a_finished_quickstart_are_taken(tree: Path) -> None:
    begin = ["bases", "runs/papers/bases"]
    assert measured(tree) == [*begin, "--mixed"]
    quickstart = finished(tree / "runs" / "quickstart")
    assert measured(tree) == [*begin, *given(quickstart), "--mixed"]
    assert measured(tree, QUICKSTART="") == [*begin, "--mixed"]
    other = finished(tree / "other")
    assert measured(tree, QUICKSTART="other") == [*begin, *given(other), "--mixed"]
    (quickstart / "results.h5").unlink()
    assert measured(tree) == [*begin, "--mixed"]


def test_a_run_goes_on_with_the_models_that_it_began_with(tree: Path) -> None:
    finished(tree / "runs" / "quickstart")
    run = tree / "runs" / "papers" / "bases"
    run.mkdir(parents=True)
    (run / "config.toml").write_text('[finetune]\ncheckpoints = ""\n')
    assert measured(tree) == ["bases", "runs/papers/bases", "--mixed"]
    (run / "config.toml").write_text('[finetune]\ncheckpoints = "/elsewhere/checkpoints"\n')
    assert measured(tree) == ["bases", "runs/papers/bases", *given(Path("/elsewhere")), "--mixed"]


def test_language_brings_texts_and_measures_its_controls(tree: Path) -> None:
    told = measured(tree, "language")
    assert told == ["language", "runs/papers/language", "--mixed", "language_words", "runs/papers/language_words"]
    assert (tree / "default").read_text() == "language\n"
    measured(tree)
    assert (tree / "default").read_text() == "data\n"


def test_the_quickstart_trains_what_bases_would() -> None:
    own, other = (
        tomllib.loads((JOBS / "experiments" / f"{name}.toml").read_text()) for name in ("bases", "quickstart")
    )
    for other_models in ("keep", "multitask", "multitask_linear"):  # on the way, and of several tasks together
        del own["finetune"][other_models]
    assert own["finetune"] == other["finetune"] and own["model"] == other["model"]
    assert own["run"]["seed"] == other["run"]["seed"]
    assert own["data"]["tasks"] == other["data"]["tasks"] and own["data"]["folder"] == other["data"]["folder"]
