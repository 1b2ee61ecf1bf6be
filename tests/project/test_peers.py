# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""jobs/peers/compare.py keeps what was measured through an interruption, and says the time left with each line."""

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

PEERS = Path(__file__).parents[2] / "jobs" / "peers"
sys.path.insert(0, str(PEERS))
import compare  # noqa: E402


class Machine:
    """Stands in for the program and the peers: ours takes 2 s, theirs 6; the call of number `broken` is interrupted."""

    def __init__(self, broken: int | None = None) -> None:
        self.calls, self.broken = 0, broken

    def bench(self, _: Path, folder: Path, pattern: str, __: int) -> dict[str, dict]:
        self.calls += 1
        if self.calls == self.broken:
            raise KeyboardInterrupt
        case = pattern.strip("^$")
        for part in ("results", "peers"):
            (folder / part).mkdir(exist_ok=True)
        save_file({"losses": torch.ones(3)}, folder / "results" / f"{case.replace('/', '-')}.safetensors")
        return {case: {"cpu_time": 2e3}}

    def peer(self, folder: Path, name: str, *_: str) -> float:
        save_file({"losses": torch.ones(3)}, folder / "peers" / f"{name}.safetensors")
        return 6.0


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compare, "KEPT", tmp_path / "kept")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "taugrid").write_text("a program")
    return tmp_path / "taugrid"


def run(program: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(compare, "run_bench", machine.bench)
    monkeypatch.setattr(compare, "run_peer", machine.peer)
    for pair in compare.PAIRS:
        pair.ratios.clear()
    monkeypatch.setattr(sys, "argv", ["compare.py", "--program", str(program), "--rounds", "2", "--only", "vit/step"])
    return compare.main()


def test_an_interrupted_comparison_goes_on(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(program, Machine(broken=2), monkeypatch) == 130
    stopped = capsys.readouterr()
    assert not stopped.out and "is kept in" in stopped.err
    assert "round 1: vit/step beside vit_step: ours 2, theirs 6, ratio 3 (1 of 2, about 0 min left)" in stopped.err

    journal = program.parent / "kept" / "vit-step" / "measured.jsonl"
    with journal.open("a") as lines:
        lines.write('{"name": "cut off')  # as where the disk was full
    machine = Machine()
    assert run(program, machine, monkeypatch) == 0
    whole = capsys.readouterr()
    assert machine.calls == 1 and "1 of 2 measurements are kept" in whole.err
    assert "vit_step.py" in whole.out and "3.00" in whole.out and "all targets met" in whole.out
    assert not journal.exists()


def test_another_program_is_measured_anew(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(program, Machine(broken=2), monkeypatch) == 130
    program.write_text("another program")
    machine = Machine()
    assert run(program, machine, monkeypatch) == 0
    assert machine.calls == 2 and "are kept from before" not in capsys.readouterr().err


def test_each_measurement_is_a_line_of_the_journal(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(program, Machine(broken=2), monkeypatch) == 130
    lines = (program.parent / "kept" / "vit-step" / "measured.jsonl").read_text().splitlines()
    subject, measured = (json.loads(line) for line in lines)
    assert "1 threads" in subject["subject"]
    assert measured["numbers"] == {"ours": 2.0, "theirs": 6.0, "ratio": 3.0}
