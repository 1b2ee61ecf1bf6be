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

FIRST, LAST = slice(0, 30), slice(30, 60)


def compared(
    capsys: pytest.CaptureFixture[str], code: int, *arguments: object
) -> tuple[dict[str, dict[str, str]], str]:
    """Rows by case, and the title with the notes."""
    assert main(["compare", *map(str, arguments), "--format", "csv"]) == code
    lines = capsys.readouterr().out.splitlines()
    rows = csv.DictReader(io.StringIO("\n".join(line for line in lines if not line.startswith("#"))))
    return {row["case"]: row for row in rows}, "\n".join(line for line in lines if line.startswith("#"))


def test_planted_slow_down_is_caught(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recorded_bench.write(tmp_path / "before.json", picked=FIRST)
    after = recorded_bench.write(tmp_path / "after.json", picked=LAST, factor=1.15)
    rows, said = compared(capsys, 1, before, after)
    assert {row["verdict"] for row in rows.values()} == {"slower"}
    for row in rows.values():
        assert 1.08 < float(row["from"]) < float(row["ratio"]) < float(row["to"]) < 1.2
        assert float(row["p"]) < 1e-6 and row["runs"] == "30, 30" and row["note"] == ""
    assert "FAILED: forward slower, step/standard slower" in said
    rows, _ = compared(capsys, 0, after, before)
    assert {row["verdict"] for row in rows.values()} == {"faster"}
    compared(capsys, 0, before, after, "--tolerance", "25%")


def test_five_unchanged_repetitions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recorded_bench.write(tmp_path / "before.json", picked=slice(10, 15))
    after = recorded_bench.write(tmp_path / "after.json", picked=slice(40, 45))
    rows, said = compared(capsys, 0, before, after)
    assert {row["verdict"] for row in rows.values()} == {"same"}
    assert all("fewer than 9 repetitions" in row["note"] for row in rows.values())
    assert "nothing is slower" in said
    nine = recorded_bench.write(tmp_path / "nine.json", picked=slice(40, 49))
    rows, _ = compared(capsys, 0, nine, nine)
    assert all(row["note"] == "" and float(row["ratio"]) == 1 for row in rows.values())


def test_two_repetitions_cannot_tell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recorded_bench.write(tmp_path / "before.json", picked=slice(10, 12))
    after = recorded_bench.write(tmp_path / "after.json", picked=slice(20, 22), factor=1.5)
    rows, said = compared(capsys, 0, before, after)
    assert all(row["verdict"] == "unclear" and "too few" in row["note"] for row in rows.values())
    assert "2 unclear, measure again" in said


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
    one = recorded_bench.write(tmp_path / "one.json", cases=["forward"])
    rows, _ = compared(capsys, 0, both, one)
    assert rows["step/standard"]["verdict"] == "only in one" and "both.json" in rows["step/standard"]["note"]
    other = recorded_bench.write(tmp_path / "other.json", cases=["step/standard"])
    assert main(["compare", str(one), str(other)]) == 2
    assert "no case in common" in capsys.readouterr().err


def test_other_machines_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recorded_bench.write(tmp_path / "before.json")
    after = recorded_bench.write(tmp_path / "after.json", host_name="other", threads="2", libtorch="2.12.0")
    rows, said = compared(capsys, 0, before, after)
    assert "NOT THE SAME MACHINE" in said and "host recorded → other; threads 1 → 2; libtorch 2.11.0" in said
    assert {row["verdict"] for row in rows.values()} == {"same"}


def test_a_slower_machine_is_no_slower_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = recorded_bench.write(tmp_path / "before.json", picked=FIRST)
    slow = {"peak_flops": "100e9", "load": "0.1"}
    after = recorded_bench.write(tmp_path / "after.json", picked=LAST, factor=1.15, **slow)
    rows, said = compared(capsys, 0, before, after)
    assert all(row["verdict"] == "unclear" and "1.34 times" in row["note"] for row in rows.values())
    assert "matrix product peak lay between 100 and 134.3 Gflop/s" in said
    compared(capsys, 1, before, after := recorded_bench.write(after, picked=LAST, factor=1.6, **slow))
    recorded_bench.write(after, picked=LAST, factor=1.15, libtorch="2.12.0", **slow)
    compared(capsys, 1, before, after)  # another library may be what made the peak worse


def test_waiting_counts_unless_the_machine_was_busy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def waited(path: Path, load: str) -> Path:
        parsed = json.loads(recorded_bench.write(path, load=load).read_text())
        for row in parsed["benchmarks"]:
            row["real_time"] *= 1.3
        path.write_text(json.dumps(parsed))
        return path

    before = recorded_bench.write(tmp_path / "before.json")
    rows, _ = compared(capsys, 1, before, waited(tmp_path / "after.json", "0.1"))
    assert all(row["verdict"] == "slower" and "it waited" in row["note"] for row in rows.values())
    rows, _ = compared(capsys, 0, before, waited(tmp_path / "after.json", "3"))
    assert {row["verdict"] for row in rows.values()} == {"unclear"}
    rows, _ = compared(capsys, 0, before, tmp_path / "after.json", "--time", "cpu")
    assert {row["verdict"] for row in rows.values()} == {"same"}


def test_folders_and_more_currents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, start, factor in (("a", 0, 1.0), ("b", 1, 1.15)):
        (tmp_path / name).mkdir()
        for number in range(3):
            picked = slice(start, None, 2)
            recorded_bench.write(tmp_path / name / f"{number}.json", number, picked, factor=factor)
    rows, said = compared(capsys, 1, tmp_path / "a", tmp_path / "b", "--time", "cpu")
    assert {row["verdict"] for row in rows.values()} == {"slower"} and "(3 calls)" in said
    assert rows["forward"]["runs"] == "90, 90"
    assert main(["compare", *(str(tmp_path / name) for name in "aab"), "--time", "cpu"]) == 1
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
