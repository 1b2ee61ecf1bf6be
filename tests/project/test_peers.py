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
import machine_table  # noqa: E402
import recorded  # noqa: E402


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
        context = {"taugrid": "0.1.0 (abcdef)", "instructions": "AVX2", "peak_flops": 8e10}
        (folder / "bench.json").write_text(json.dumps({"context": context}))
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


def run(program: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(compare, "run_bench", machine.bench)
    monkeypatch.setattr(compare, "run_peer", machine.peer)
    for pair in compare.PAIRS:
        pair.ratios.clear()
    words = ["--program", str(program), "--rounds", "2", *(options or ("--only", "vit/step"))]
    monkeypatch.setattr(sys, "argv", ["compare.py", *words])
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
    assert "vit_step" in whole.out and "3.00" in whole.out and "all targets met" in whole.out
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


def test_the_page_has_the_recorded_table() -> None:
    table = recorded.TABLE
    assert table.page_with(recorded.table(table.text(), compare.goals())) == table.page.read_text(encoding="utf-8")


def test_rows_are_told_apart() -> None:
    rows = [name.split(" beside ") for name in compare.goals()]
    assert len({(case, recorded.meaning(beside)) for case, beside in rows}) == len(rows) > 40


@pytest.fixture
def one_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "PAIRS", [pair for pair in compare.PAIRS if pair.case == "vit/step"])
    for module, name in ((compare, "LIMITS"), (compare, "SHARES"), (compare.merge_command, "CASES")):
        monkeypatch.setattr(module, name, [])


@pytest.mark.usefixtures("one_pair")
def test_a_machine_is_recorded(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, toml = tmp_path / "speed.md", tmp_path / "peers.toml"
    page.write_text("Before.\n<!-- bench_peers.sh table -->\n<!-- end -->\nAfter.\n")
    toml.write_text('[[machine]]\nprocessor = "Other"\nthreads = 2\ndate = 2026-11-25\nrevision = "old"\n'
                    'note = "by the clock"\n[machine.ratios]\n'
                    '"vit/step beside vit_step" = [1.5, 1.4, 17]\n')
    monkeypatch.setattr(recorded, "TABLE", recorded.MachineTable(toml, page, "bench_peers.sh"))
    assert run(program, Machine(), monkeypatch, "--record") == 0
    first = toml.read_text()
    assert run(program, Machine(), monkeypatch, "--record") == 0  # in the place of the first
    assert toml.read_text() == first
    head, _, row = (line.strip("| ").split(" | ") for line in page.read_text().splitlines()[2:5])
    assert head[:4] == ["case", "beside", "goal", "Other, 25 November 2026, old, 2 threads"] and len(head) == 5
    assert head[4].startswith(f"{recorded.processor()}, AVX2, ") and head[4].endswith(", abcdef, 2 rounds")
    assert row == ["`vit/step`", recorded.meaning("vit_step"), ">= 1", "1.5 (1.4 to 17)", "3.0"]
    assert page.read_text().endswith("- Other: by the clock\n"
                                     f"- {recorded.processor()}, AVX2: its peak of products was 80 Gflop/s\n"
                                     "<!-- end -->\nAfter.\n")


@pytest.mark.usefixtures("one_pair")
def test_other_numbers_are_not_recorded(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine()

    def peer(folder: Path, name: str, *_: str) -> float:
        save_file({"losses": torch.zeros(3)}, folder / "peers" / f"{name}.safetensors")
        return 6.0

    machine.peer = peer  # type: ignore[method-assign]
    monkeypatch.setattr(recorded, "record", lambda *_: pytest.fail("recorded"))
    assert run(program, machine, monkeypatch, "--record") == 0
    assert "# not recorded: other numbers in vit/step beside vit_step" in capsys.readouterr().err


def test_a_part_is_not_recorded(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        run(program, Machine(), monkeypatch, "--record", "--only", "vit/step")
    assert end.value.code == 2 and "--record is for all peers; expected no --only" in capsys.readouterr().err


@pytest.mark.parametrize(("facts", "name"), [
    ("vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 17\nmodel name : AMD EPYC\n", "AMD EPYC of Zen 4"),
    ("vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 1\nmodel name : AMD EPYC\n", "AMD EPYC of Zen 3"),
    ("vendor_id : AuthenticAMD\ncpu family : 26\nmodel : 2\nmodel name : AMD EPYC\n", "AMD EPYC of Zen 5"),
    ("vendor_id : AuthenticAMD\ncpu family : 23\nmodel : 49\nmodel name : AMD EPYC 7742\n", "AMD EPYC 7742"),
    ("vendor_id : GenuineIntel\ncpu family : 6\nmodel : 143\nmodel name : Intel Xeon\n", "Intel Xeon"),
])
def test_amds_generation_is_named(facts: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(facts)
    monkeypatch.setattr(machine_table, "CPUINFO", tmp_path / "cpuinfo")
    assert machine_table.processor() == name
