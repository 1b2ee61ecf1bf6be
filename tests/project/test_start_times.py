# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a start takes: the steps that jobs/steps.sh times, and the table of recorded machines in docs/start.md."""

import os
import shutil
import subprocess
import sys
import time
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


def both(folder: Path, first: str, second: str) -> list[str]:
    """A script's command, in which these two run at the same time."""
    return ["bash", "-c", f"set -euo pipefail; cd {folder}; source {ROOT}/jobs/steps.sh; "
                          f"a() {{ {first}; }}; b() {{ {second}; }}; both a b; echo after"]


WAITS = "until [ -e second ]; do sleep 0.05; done"


@pytest.mark.parametrize(("first", "second", "code", "lines"), [
    (f"{WAITS}; echo first", "echo second; touch second", 0, ["second", "first", "after"]),  # one after the other hangs
    ("exit 3; echo never", "echo second", 3, ["second"]),
    (f"{WAITS}; echo first", "touch second; false; echo never", 1, ["first"]),
    (f"{WAITS}; echo first", "touch second; no_such_command", 127, ["first"]),
    ("read line; echo never", "echo second", 1, ["second"]),  # nobody answers
])
def test_both_go_on_to_their_ends(tmp_path: Path, first: str, second: str, code: int, lines: list[str]) -> None:
    done = subprocess.run(both(tmp_path, first, second), capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout.split()) == (code, lines)
    assert ("failed: see above" in done.stderr) == (code != 0)


def test_who_stops_the_script_stops_both(tmp_path: Path) -> None:
    first, second = (f"echo $BASHPID > {name}; exec sleep 6000" for name in ("first", "second"))
    script = subprocess.Popen(both(tmp_path, first, second))
    files = [tmp_path / "first", tmp_path / "second"]
    while not all(path.exists() and path.read_text().endswith("\n") for path in files):
        time.sleep(0.05)
    script.terminate()
    assert script.wait(timeout=600) != 0
    assert not any(Path("/proc", path.read_text().strip()).exists() for path in files)


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
