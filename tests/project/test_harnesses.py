# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""jobs/reframe and jobs/jube: what a centre's harness runs, reads and refuses."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
sys.path.insert(0, str(PROJECT / "tests" / "e2e"))  # its little world of tasks
PROGRAM = os.environ["TAUGRID"]
RIGHT = """\
FOM peak/triad = 4.03e+12 B/s
FOM forward/rate = 79100 images/s
# verdict: VALID, 1 case
"""


def program(folder: Path, prints: str, code: int = 0) -> Path:
    """A program that stands for the bench."""
    path = folder / "program.sh"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{prints}END\nexit {code}\n")
    path.chmod(0o755)
    return path


Done = tuple[subprocess.CompletedProcess[str], dict[str, Any]]


def reframe(folder: Path, check: str, **settings: str | Path) -> Done:
    """Runs a check on the local partition; returns also the report's entry of its one case."""
    report, kind = folder / "report.json", check.split("%", maxsplit=1)[0]
    words = [word for name, value in settings.items() for word in ("-S", f"{kind}.{name}={value}")]
    done = subprocess.run(
        [Path(sys.executable).parent / "reframe", "-C", PROJECT / "jobs/reframe/settings.py",
         "-c", PROJECT / "jobs/reframe/taugrid_checks.py", "-n", check, "--system", "local", "-r",
         "--prefix", folder / "prefix", "--report-file", report, *words],
        cwd=folder, text=True, capture_output=True, check=False,
        env=os.environ | {"HOME": str(folder), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                          "OMPI_MCA_rmaps_base_oversubscribe": "1"})
    (case,) = json.loads(report.read_text())["runs"][0]["testcases"]
    return done, case


def without_energy(names: Iterable[str]) -> set[str]:
    """Figures that any machine has; energies are of those with counters."""
    return {name for name in names if not name.endswith("/energy")}


def test_the_bench_is_measured_by_its_own_figures(tmp_path: Path) -> None:
    done, case = reframe(tmp_path, "TaugridBench", program=PROGRAM, cases="^(combine|forward)$", repetitions="1",
                         device="cpu")
    assert done.returncode == 0 and case["result"] == "pass", done.stdout
    figures = {name.split(":")[-1]: values for name, values in case["perfvalues"].items()}
    assert without_energy(figures) - {"peak/products_bf16"} == {
        "peak/products", "peak/triad", "combine/rate", "combine/share", "forward/rate", "forward/share"}
    assert figures["forward/rate"][0] > 0 and figures["forward/rate"][-2] == "images/s"


@pytest.mark.parametrize(("prints", "code"), [
    (RIGHT.replace("VALID, 1 case", "INVALID: forward"), 1),
    (RIGHT, 1),
    (RIGHT.replace("# verdict: VALID, 1 case\n", ""), 0),
])
def test_wrong_numbers_fail(tmp_path: Path, prints: str, code: int) -> None:
    done, case = reframe(tmp_path, "TaugridBench", program=program(tmp_path, prints, code))
    assert done.returncode != 0 and case["result"] == "fail" and case["fail_phase"] == "sanity", done.stdout


@pytest.mark.parametrize(("references", "problem"), [
    ({"local:default": {"forward/rate": [79000, -0.05, None]}}, ""),
    ({"local:default": {"forward/rate": [158000, -0.05, None]}}, "failed to meet reference"),
    ({"*": {"peak/triad": [1e12, -0.1, 0.1]}}, "failed to meet reference"),
    ({"*": {"backward/rate": [1, None, None]}}, "has backward/rate, which was not measured"),
    ({"elsewhere:default": {"backward/rate": [1, None, None]}}, ""),
])
def test_references_of_a_machine(tmp_path: Path, references: dict[str, Any], problem: str) -> None:
    file = tmp_path / "references.json"
    file.write_text(json.dumps(references))
    done, case = reframe(tmp_path, "TaugridBench", program=program(tmp_path, RIGHT), references=file)
    assert (done.returncode != 0) == bool(problem) and problem in done.stdout, done.stdout
    assert case["result"] == ("fail" if problem else "pass")


def test_an_experiment_on_two_cores(tmp_path: Path) -> None:
    import world as worlds

    world = worlds.make(tmp_path / "world")
    done, case = reframe(tmp_path, "TaugridRun%size=2_cores", program=PROGRAM, experiment=world.experiment,
                         data=world.folder / "data", device="cpu")
    if case["result"] == "skip":
        assert len(os.sched_getaffinity(0)) == 1, done.stdout
        pytest.skip("one core")
    assert done.returncode == 0 and case["result"] == "pass", done.stdout
    figures = {name.split(":")[-1] for name in case["perfvalues"]}
    assert without_energy(figures) == {"run/time", "run/units", "run/rate", "run/speed"}
    assert case["job_stdout"] and "num_tasks" in case and case["num_tasks"] == 2


@pytest.mark.skipif(shutil.which("jube") is None, reason="JUBE is not installed")
def test_jube_prints_one_line_a_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    def jube(*words: str | Path) -> str:
        done = subprocess.run(["jube", *words], cwd=tmp_path, text=True, capture_output=True, check=False,
                              env=os.environ | {"PROGRAM": PROGRAM})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    jube("run", PROJECT / "jobs/jube/taugrid.yaml", "--outpath", out)
    lines = jube("result", "--analyse", out).splitlines()
    (row,) = csv.DictReader(lines[next(i for i, line in enumerate(lines) if line.startswith("system,")):])
    assert (row["variant"], row["nodes"], row["taskspernode"], row["threadspertask"]) == ("small", "1", "1", "1")
    assert row["verdict"] == "VALID" and row["device"].startswith("cpu")
    for name in ("runtime[ms]", "products[flop/s]", "triad[B/s]", "forward[images/s]", "step[images/s]", "gram[1]"):
        assert float(row[name]) > 0, name
