# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a start takes: the steps that jobs/steps.sh times, and the table of recorded machines in docs/start.md."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "jobs"))
import machine_table  # noqa: E402
import start_times  # noqa: E402

STEPS = {"system packages": 0, "LibTorch": 61, "build, packages, data": 125, "experiment": 59, "tables and report": 9}


def test_the_page_has_the_recorded_table() -> None:
    table = start_times.TABLE
    assert table.page_with(start_times.table(table.text())) == table.page.read_text(encoding="utf-8")


def test_steps_are_said_and_kept(tmp_path: Path) -> None:
    script = 'set -euo pipefail; source jobs/steps.sh; step first; sleep 1.2; step "the second"; end_step; end_step'
    environment = {"TAUGRID_STEPS": str(tmp_path / "steps"), "PATH": os.environ["PATH"]}
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr
    seconds, name = (tmp_path / "steps").read_text().splitlines()[0].split("\t")
    assert name == "first" and 1 <= int(seconds) < 600
    assert done.stdout.splitlines()[0] == f"# first: {start_times.as_time(int(seconds))}"
    assert (tmp_path / "steps").read_text().splitlines()[1].endswith("\tthe second")


@pytest.mark.parametrize(("first", "second", "code", "said"), [
    ("sleep 0.2; echo first", "echo second", 0, ["second", "first", "after"]),
    ("exit 3", "echo second; sleep 60; echo late", 3, None),
    ("sleep 60; echo late", "sleep 0.1; exit 4", 4, None),
    ("exit 5", "true", 5, None),
])
def test_one_of_two_that_fails_ends_the_other(first: str, second: str, code: int, said: list[str] | None) -> None:
    script = f"set -euo pipefail; source jobs/steps.sh; a() {{ {first}; }}; b() {{ {second}; }}; both a b; echo after"
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == code
    if said is None:
        assert "late" not in done.stdout and "after" not in done.stdout
    else:
        assert done.stdout.split() == said


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    table = start_times.TABLE
    recorded, page = (Path(shutil.copy(source, tmp_path)) for source in (table.recorded, table.page))
    monkeypatch.setattr(start_times, "TABLE", machine_table.MachineTable(recorded, page, table.tool))
    return tmp_path


def kept(folder: Path, **changed: int) -> Path:
    steps = STEPS | changed
    (folder / "start.tsv").write_text("".join(f"{seconds}\t{name}\n" for name, seconds in steps.items()))
    return folder


def test_a_machine_is_recorded(pages: Path) -> None:
    assert start_times.main(["record", str(kept(pages))]) == 0
    lines = [line for line in start_times.TABLE.page.read_text().splitlines() if line.startswith("|")]
    last = [line.rsplit("|", 2)[1].strip() for line in lines]
    rows = last[2:11]
    assert rows == ["0 s", "1 min 1 s", "", "", "", "2 min 5 s", "59 s", "9 s", "4 min 14 s"]
    assert last[0].startswith(machine_table.processor())


@pytest.mark.parametrize(("text", "said"), [
    (None, "No such file or directory; expected the folder of jobs/quickstart.sh's run"),
    ("twelve\tbuild\n", "expected lines of seconds and a step's name"),
    ("12\tbuild\n", "has the steps build; expected system packages, "),
    ("".join(f"3\t{name}\n" for name in STEPS), "the build took 3 s; expected a first start"),
])
def test_no_first_start(pages: Path, text: str | None, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    if text is not None:
        (pages / "start.tsv").write_text(text)
    before = start_times.TABLE.text()
    assert start_times.main(["record", str(pages)]) == 2
    assert said in capsys.readouterr().err and start_times.TABLE.text() == before
