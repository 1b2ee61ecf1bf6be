# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`compare`: the gate, the verdicts, the notes and the exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import recorded_bench
import synthetic

from taugrid_analysis.cli import main

# Two sides of three calls in turn: stretches of one quiet call.
BEFORE = [slice(start, start + 10) for start in (0, 20, 40)]
AFTER = [slice(start, start + 10) for start in (10, 30, 50)]


def compared(
    capsys: pytest.CaptureFixture[str], code: int, *arguments: object
) -> tuple[dict[str, dict[str, str]], str]:
    """Rows by case, and the title with the notes."""
    assert main(["compare", *map(str, arguments), "--format", "csv"]) == code
    lines = capsys.readouterr().out.splitlines()
    rows = csv.DictReader(io.StringIO("\n".join(line for line in lines if not line.startswith("#"))))
    return {row["case"]: row for row in rows}, "\n".join(line for line in lines if line.startswith("#"))


def test_planted_slow_down_is_caught(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recorded_bench.folder(tmp_path / "before", BEFORE)
    after = recorded_bench.folder(tmp_path / "after", AFTER, factor=1.15)
    rows, said = compared(capsys, 1, before, after)
    assert {row["verdict"] for row in rows.values()} == {"slower"}
    for row in rows.values():
        assert 1.08 < float(row["from"]) < float(row["ratio"]) < float(row["to"]) < 1.2
        assert float(row["p"]) < 0.01 and row["calls"] == "3, 3" and row["note"] == ""
    assert "FAILED: forward slower, step/standard slower" in said and "not in turn" not in said
    rows, _ = compared(capsys, 0, after, before)
    assert {row["verdict"] for row in rows.values()} == {"faster"}
    compared(capsys, 0, before, after, "--tolerance", "25%")
    rows, _ = compared(capsys, 0, before, after, "--alpha", "0.00001")
    assert {row["verdict"] for row in rows.values()} == {"unclear"}


def test_unchanged_calls_are_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recorded_bench.folder(tmp_path / "before", BEFORE)
    rows, said = compared(capsys, 0, before, recorded_bench.folder(tmp_path / "after", AFTER))
    assert {row["verdict"] for row in rows.values()} == {"same"} and "verdict: nothing is lost" in said
    rows, _ = compared(capsys, 0, before, before)
    assert all(float(row["ratio"]) == float(row["p"]) == 1 for row in rows.values())


@pytest.mark.parametrize("calls", [1, 2])
def test_fewer_than_three_calls_cannot_tell(
    calls: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = recorded_bench.folder(tmp_path / "few", BEFORE[:calls])
    after = recorded_bench.folder(tmp_path / "after", AFTER, factor=1.5)
    for sides in ((few, after), (after, few)):
        rows, said = compared(capsys, 0, *sides)
        for row in rows.values():
            assert row["verdict"] == "unclear" and row["note"] == "needs 3 calls a side"
            assert row["p"] == row["from"] == row["to"] == ""
        assert "2 unclear, measure again: 3 calls a side, in turn, or nothing can fail" in said


def test_chances_are_corrected_for_the_number_of_cases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def chances(*cases: str) -> list[float]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        before = recorded_bench.folder(folder / "before", BEFORE, cases=cases)
        after = recorded_bench.folder(folder / "after", AFTER, cases=cases, factor=1.03)
        rows, _ = compared(capsys, 0, before, after)
        return [float(rows[case]["p"]) for case in cases]

    (first,), (second,) = chances("forward"), chances("step/standard")
    assert 0 < first < 0.5 and 0 < second < 0.5 and first != second
    least = min(first, second)
    assert min(chances("forward", "step/standard")) == pytest.approx(2 * least)
    assert max(chances("forward", "step/standard")) == pytest.approx(max(2 * least, first, second))


def test_calls_that_are_not_in_turn_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recorded_bench.folder(tmp_path / "before", BEFORE)
    after = recorded_bench.folder(tmp_path / "after", AFTER)
    for number in range(3):
        recorded_bench.write(after / f"{number}.json", picked=AFTER[number], date=f"2026-02-0{number + 1}")
    for sides in ((before, after), (after, before)):
        assert "measured after the other, not in turn" in compared(capsys, 0, *sides)[1]


@pytest.mark.parametrize("clock", ["wall", "cpu"])
def test_a_cpu_time_of_0_is_no_division(
    clock: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The clock tells 0 where a case takes less than it can tell."""
    sides = []
    for name, parts in (("before", BEFORE), ("after", AFTER)):
        sides.append(recorded_bench.folder(tmp_path / name, parts))
        for path in sides[-1].iterdir():
            parsed = json.loads(path.read_text())
            for row in parsed["benchmarks"]:
                row["cpu_time"] *= row["run_name"] != "forward"
            path.write_text(json.dumps(parsed))
    for pair in (sides, sides[::-1], [sides[0], sides[0] / "0.json"]):
        rows, _ = compared(capsys, 0, *pair, "--time", clock)
        assert rows["forward"]["CPU ratio"] == ""
        assert rows["forward"]["verdict"] == ("unclear" if clock == "cpu" else "same")
        assert ("a time of 0" in rows["forward"]["note"]) == (clock == "cpu")
        assert rows["step/standard"]["verdict"] == "same"
    assert main(["history", str(sides[0]), "--time", "cpu"]) == 0
    assert (
        main(["check", str(sides[0]), "--write-references", str(tmp_path / "r.toml"), "--time", "cpu"]) == 2
    )
    assert "forward has no seconds" in capsys.readouterr().err
    whole = recorded_bench.folder(tmp_path / "whole", BEFORE)
    for quantity in ("seconds", "throughput"):
        path = tmp_path / f"{quantity}.toml"
        options = ["--write-references", str(path), "--time", "cpu", "--quantity", quantity]
        assert main(["check", str(whole), *options]) == 0
        assert main(["check", str(sides[0]), "--references", str(path)]) == 1
        assert "forward suspicious" in capsys.readouterr().out


def test_wrong_results_fail_before_any_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recorded_bench.write(tmp_path / "before.json")
    after = recorded_bench.write(tmp_path / "after.json", invalid=["step/standard"], factor=0.5)
    rows, said = compared(capsys, 1, before, after)
    assert list(rows) == ["step/standard", "forward"]  # first
    assert rows["step/standard"]["verdict"] == "invalid" and rows["step/standard"]["ratio"] == ""
    assert "error 0.5 above 0.001" in rows["step/standard"]["note"]
    assert "FAILED: step/standard invalid" in said
    rows, _ = compared(capsys, 1, after, before)
    assert (
        "before.json" not in rows["step/standard"]["note"] and "after.json" in rows["step/standard"]["note"]
    )


def test_cases_of_one_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = recorded_bench.write(tmp_path / "both.json")
    forward_only = recorded_bench.write(tmp_path / "one.json", cases=["forward"])
    rows, said = compared(capsys, 1, both, forward_only)
    assert list(rows) == ["step/standard", "forward"] and "FAILED: step/standard lost" in said
    assert (
        rows["step/standard"]["verdict"] == "lost" and "one.json; --common" in rows["step/standard"]["note"]
    )
    rows, _ = compared(capsys, 0, forward_only, both)
    assert rows["step/standard"]["verdict"] == "new" and "one.json" in rows["step/standard"]["note"]
    for sides in ((both, forward_only), (forward_only, both)):
        assert list(compared(capsys, 0, *sides, "--common")[0]) == ["forward"]
    other = recorded_bench.write(tmp_path / "other.json", cases=["step/standard"])
    assert main(["compare", str(forward_only), str(other)]) == 2
    assert "no case in common" in capsys.readouterr().err


def test_a_case_that_one_call_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bench may have died in it: two of three calls are no sample of what the program does."""
    before = recorded_bench.folder(tmp_path / "before", BEFORE)
    after = recorded_bench.folder(tmp_path / "after", AFTER)
    recorded_bench.write(after / "1.json", picked=AFTER[1], cases=["forward"])
    for sides in ((before, after), (after, before)):
        rows, _ = compared(capsys, 1, *sides)
        assert rows["step/standard"]["verdict"] == "lost" and rows["forward"]["verdict"] == "same"
        assert rows["step/standard"]["note"] == f"in 2 of 3 calls of {after}"


def test_other_machines_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recorded_bench.write(tmp_path / "before.json")
    after = recorded_bench.write(tmp_path / "after.json", host_name="other", threads="2", libtorch="2.12.0")
    rows, said = compared(capsys, 0, before, after)
    assert "NOT THE SAME MACHINE" in said and "host recorded → other; threads 1 → 2; libtorch 2.11.0" in said
    assert {row["verdict"] for row in rows.values()} == {"same"}


@pytest.mark.parametrize("lost", [0.08, 0.25])
def test_a_slower_machine_is_no_slower_program(
    lost: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose peaks lost a part, more or less than the 10 % from which on they are named."""
    peak = 1.343e11 / (1 + lost)
    slow = {"peak_flops": str(peak), "load": "0.1"}

    def after(name: str, factor: float, **more: str) -> Path:
        return recorded_bench.folder(tmp_path / name, AFTER, factor=factor, **slow, **more)

    before = recorded_bench.folder(tmp_path / "before", BEFORE)
    rows, said = compared(capsys, 0, before, after("a", 1.01 + lost))
    words = f"the machine itself was {1 + lost:.2f} times slower"
    assert all(row["verdict"] == "unclear" and words in row["note"] for row in rows.values())
    assert ("matrix product peak lay between" in said) == (lost > 0.1)
    compared(capsys, 1, before, after("b", 1.15 + 1.1 * lost))
    compared(capsys, 1, before, after("c", 1.01 + lost, libtorch="2.12.0"))  # it may have made the peak worse
    rows, _ = compared(capsys, 0, tmp_path / "a", before)
    words = f"the machine itself was {1 + lost:.2f} times faster"
    assert all(row["verdict"] == "unclear" and words in row["note"] for row in rows.values())


def test_what_others_took_of_one_call_is_no_loss_of_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = recorded_bench.folder(tmp_path / "before", BEFORE)
    after = recorded_bench.folder(tmp_path / "after", AFTER, factor=1.15)
    recorded_bench.write(after / "1.json", picked=AFTER[1], factor=1.15, peak_flops="50e9")
    rows, _ = compared(capsys, 1, before, after)
    assert {row["verdict"] for row in rows.values()} == {"slower"}


def test_waiting_counts_unless_the_machine_was_busy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def waited(path: Path, load: str) -> Path:
        for file in recorded_bench.folder(path, AFTER, load=load).iterdir():
            parsed = json.loads(file.read_text())
            for row in parsed["benchmarks"]:
                row["real_time"] *= 1.3
            file.write_text(json.dumps(parsed))
        return path

    before = recorded_bench.folder(tmp_path / "before", BEFORE)
    rows, _ = compared(capsys, 1, before, waited(tmp_path / "free", "0.1"))
    assert all(row["verdict"] == "slower" and "it waited" in row["note"] for row in rows.values())
    rows, _ = compared(capsys, 0, before, waited(tmp_path / "busy", "3"))
    assert {row["verdict"] for row in rows.values()} == {"unclear"}
    rows, _ = compared(capsys, 0, before, tmp_path / "busy", "--time", "cpu")
    assert {row["verdict"] for row in rows.values()} == {"same"}


def test_folders_and_more_currents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = str(recorded_bench.folder(tmp_path / "a", BEFORE))
    second = str(recorded_bench.folder(tmp_path / "b", AFTER, factor=1.15))
    rows, said = compared(capsys, 1, first, second, "--time", "cpu")
    assert {row["verdict"] for row in rows.values()} == {"slower"} and "(3 calls)" in said
    assert main(["compare", first, first, second, "--time", "cpu"]) == 1
    assert capsys.readouterr().out.count(" against ") == 2


def test_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    rows, _ = compared(capsys, 0, tmp_path, tmp_path / "results.h5")
    assert float(rows["run"]["current ms"]) == 320_000 and "units/finetune" in rows
    assert main(["compare", str(tmp_path), str(tmp_path), "--time", "cpu"]) == 2
    assert "--time wall" in capsys.readouterr().err


def broken(parsed: Any, change: str) -> Any:
    median, raw = parsed["benchmarks"][-1], parsed["benchmarks"][0]
    if change == "gate":
        del median["valid"]
    elif change == "unit":
        raw["time_unit"] = "h"
    elif change == "negative":
        raw["real_time"] = -1
    elif change == "rows":
        parsed["benchmarks"] = {}
    elif change == "median":
        parsed["benchmarks"].pop()
    elif change == "twice":
        parsed["benchmarks"].append(median)
    elif change == "date":
        del parsed["context"]["date"]
    elif change == "name":
        del raw["run_name"]
    return [] if change == "list" else parsed


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ("gate", "does not say whether it is valid"),
        ("unit", "time_unit is h; expected ns, us, ms, s"),
        ("negative", "benchmarks[0] (forward): real_time is -1"),
        ("rows", "lacks context or benchmarks"),
        ("median", "step/standard has no median row"),
        ("twice", "stands there twice"),
        ("date", "context: lacks date"),
        ("name", "benchmarks[0]: has no run_name"),
        ("list", "is no JSON object"),
    ],
)
def test_broken_files(change: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded_bench.write(tmp_path / "bench.json")
    path.write_text(json.dumps(broken(json.loads(path.read_text()), change)))
    assert main(["compare", str(path), str(path)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and part in said.err and str(path) in said.err


def test_no_such_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bench.json"
    assert main(["compare", str(path), str(path)]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert main(["compare", str(tmp_path), str(tmp_path)]) == 2
    assert "holds no *.json" in capsys.readouterr().err
    path.write_text('{"context": {')
    assert main(["compare", str(path), str(path)]) == 2
    assert "is no JSON" in capsys.readouterr().err
