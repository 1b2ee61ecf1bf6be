# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Citation, changelog and container recipe agree with the project."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

PROJECT = Path(__file__).parents[2]
STEPS = ("FROM", "ENV", "RUN", "WORKDIR", "COPY", "CMD")  # fresh_root.sh knows no others


def version() -> str:
    line = re.search(r"project\(taugrid VERSION ([\d.]+)", (PROJECT / "CMakeLists.txt").read_text())
    assert line
    return line[1]


def recipe() -> list[tuple[str, str]]:
    lines = (PROJECT / "Containerfile").read_text().splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line and not line.startswith("#")]


def test_the_citation_has_what_its_format_asks_for() -> None:
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= citation.keys()
    for entry in (citation, *citation["references"]):
        assert entry["title"] and all("name" in author or "family-names" in author for author in entry["authors"])
    assert str(citation["version"]) == version()
    assert citation["license"] == "Apache-2.0"


def test_versions_agree() -> None:
    analysis = tomllib.loads((PROJECT / "analysis" / "pyproject.toml").read_text())
    assert analysis["project"]["version"] == version()
    newest = re.search(r"^## ([\d.]+)", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest and newest[1] == version()


def test_the_recipe_is_the_readmes_commands_and_nothing_else() -> None:
    steps = recipe()
    assert {step for step, _ in steps} <= set(STEPS)
    assert steps[0] == ("FROM", "debian:12")
    assert ("RUN", "bash jobs/setup.sh --data --tests") in steps
    assert steps[-1] == ("CMD", '["bash", "jobs/quickstart.sh"]')
    (apt,) = [text for step, text in steps if step == "RUN" and "apt-get" in text]
    assert apt.split("--no-install-recommends ")[1].split() == ["ca-certificates", "git"]


def test_apptainers_definition_has_the_recipes_steps() -> None:
    definition = (PROJECT / "taugrid.def").read_text()
    command = [sys.executable, PROJECT / "jobs/apptainer.py"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stdout == definition, "python3 jobs/apptainer.py > taugrid.def"
    header, files, post, run = re.split(r"^%(?:files|post|runscript)\n", definition, flags=re.MULTILINE)
    steps = recipe()
    assert f"From: {dict(steps)['FROM']}" in header.splitlines()
    assert files.split() == [".git", "/opt/taugrid/.git"]
    lines = [line.strip() for line in post.splitlines()]
    wanted = [text for step, text in steps if step == "RUN"]
    assert [line for line in lines if line in wanted] == wanted and lines[0] == "set -e"
    assert "bash jobs/quickstart.sh" in run


def test_a_job_told_to_stop_ends_before_its_limit() -> None:
    """The default of --stop-within is below the notice that the batch scripts ask for."""
    default = re.search(r"double stop_within = (\d+);", (PROJECT / "suite/program/commands.hpp").read_text())
    scripts = [path.read_text() for path in (PROJECT / "jobs/slurm").glob("*.sbatch")]
    notices = [int(seconds) for text in scripts for seconds in re.findall(r"--signal=(?:B:)?USR1@(\d+)", text)]
    assert default and notices and int(default[1]) < min(notices)
