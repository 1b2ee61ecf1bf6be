# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`check`: references a system, case and number of ranks; written, renewed, judged, refused."""

from __future__ import annotations

import csv
import io
import tomllib
from pathlib import Path

import pytest
import recorded_bench
import synthetic

from taugrid_analysis.cli import main

FIRST = slice(0, 30)
CALLS = [slice(start, start + 10) for start in (0, 20, 40)]


@pytest.fixture
def written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """References of the first half of a call's repetitions."""
    path, source = tmp_path / "references.toml", recorded_bench.write(tmp_path / "first.json", picked=FIRST)
    assert main(["check", str(source), "--write-references", str(path)]) == 0
    capsys.readouterr()
    return path


def checked(
    capsys: pytest.CaptureFixture[str], code: int, current: Path, references: Path, *more: str
) -> dict[str, dict[str, str]]:
    command = ["check", str(current), "--references", str(references), "--format", "csv", *more]
    assert main(command) == code
    lines = capsys.readouterr().out.splitlines()
    rows = csv.DictReader(io.StringIO("\n".join(line for line in lines if not line.startswith("#"))))
    return {row["case"]: row for row in rows}


@pytest.mark.parametrize(
    ("factor", "code", "verdict"),
    [(1.0, 0, "same"), (1.2, 1, "slower"), (0.9, 0, "same"), (0.7, 0, "faster"), (0.2, 1, "suspicious")],
)
@pytest.mark.parametrize("quantity", ["seconds", "throughput", "share_of_peak"])
def test_verdicts(
    quantity: str,
    factor: float,
    code: int,
    verdict: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    references, source = tmp_path / "references.toml", recorded_bench.write(tmp_path / "first.json")
    options = ["--quantity", quantity, "--slower", "10%", "--faster", "0.25"]
    assert main(["check", str(source), "--write-references", str(references), *options]) == 0
    capsys.readouterr()
    current = recorded_bench.folder(tmp_path / "current", CALLS, factor=factor)
    rows = checked(capsys, code, current, references)
    assert {row["verdict"] for row in rows.values()} == {verdict}
    assert {row["quantity"] for row in rows.values()} == {quantity}


def test_written_file(written: Path) -> None:
    parsed = tomllib.loads(written.read_text(encoding="utf-8"))["system"]["recorded"]
    assert parsed["host"] == "recorded" and parsed["processor"] == "Intel(R) Xeon(R) Processor"
    first = parsed["reference"][0]
    assert first["case"] == "forward" and first["ranks"] == 1 and first["quantity"] == "seconds"
    assert first["bound"] < 0.75 * first["value"] and "2026-11-21" in first["measured"]


def test_fewer_than_three_calls_are_at_most_unclear(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for calls, code, verdict in ((1, 0, "unclear"), (2, 0, "unclear"), (3, 1, "slower")):
        current = recorded_bench.folder(tmp_path / str(calls), CALLS[:calls], factor=1.15)
        rows = checked(capsys, code, current, written)
        assert {row["verdict"] for row in rows.values()} == {verdict}
        assert {row["note"] for row in rows.values()} == {"needs 3 calls" if calls < 3 else ""}
    rows = checked(capsys, 0, recorded_bench.folder(tmp_path / "same", CALLS[:1]), written)
    assert {(row["verdict"], row["note"]) for row in rows.values()} == {("same", "")}


def test_gate_and_what_is_not_there(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    current = recorded_bench.write(tmp_path / "wrong.json", invalid=["step/standard"])
    rows = checked(capsys, 1, current, written)
    assert list(rows) == ["step/standard", "forward"] and rows["step/standard"]["verdict"] == "invalid"
    rows = checked(capsys, 0, recorded_bench.write(tmp_path / "one.json", cases=["forward"]), written)
    assert rows["step/standard"]["verdict"] == "not measured"
    text = written.read_text().replace("step/standard", "step/other")
    written.write_text(text)
    rows = checked(capsys, 0, recorded_bench.write(tmp_path / "both.json"), written)
    assert rows["step/standard"]["verdict"] == "no reference"
    assert main(["check", str(current), "--write-references", str(written)]) == 2
    assert "step/standard is INVALID" in capsys.readouterr().err


def test_renewal_keeps_what_a_hand_set(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        written.read_text().replace("slower = 0.1\n", "slower = 0.2\n", 1).replace('"recorded"', '"rec*"', 1)
    )
    written.write_text(text + '\n[system.other]\nhost = "other"\n')
    faster = recorded_bench.write(tmp_path / "faster.json", factor=0.5)
    assert main(["check", str(faster), "--write-references", str(written)]) == 0
    capsys.readouterr()
    systems = tomllib.loads(written.read_text())["system"]
    assert list(systems) == ["recorded", "other"] and systems["recorded"]["host"] == "rec*"
    first, second = systems["recorded"]["reference"]
    assert (first["slower"], second["slower"]) == (0.2, 0.1) and first["value"] == pytest.approx(
        0.018, rel=0.02
    )
    rows = checked(capsys, 0, faster, written)
    assert {row["verdict"] for row in rows.values()} == {"same"}


def test_references_of_cpu_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Minutes apart, unchanged: wall time is 13 % more, CPU time within 10 %."""
    wall, cpu = tmp_path / "wall.toml", tmp_path / "cpu.toml"
    source, current = (recorded_bench.write(tmp_path / f"{number}.json", number) for number in (2, 0))
    for path in (wall, cpu):
        assert main(["check", str(source), "--write-references", str(path), "--time", path.stem]) == 0
    capsys.readouterr()
    assert checked(capsys, 0, current, wall)["forward"]["verdict"] == "unclear"
    rows = checked(capsys, 0, current, cpu)
    assert {(row["verdict"], row["time"]) for row in rows.values()} == {("same", "cpu")}


def test_systems(written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = recorded_bench.write(tmp_path / "else.json", host_name="node7")
    assert main(["check", str(elsewhere), "--references", str(written)]) == 2
    assert "no system matches" in (said := capsys.readouterr().err) and "host node7" in said
    checked(capsys, 0, elsewhere, written, "--system", "recorded")
    assert main(["check", str(elsewhere), "--references", str(written), "--system", "none"]) == 2
    assert "has no system none; expected one of recorded" in capsys.readouterr().err
    two = recorded_bench.write(tmp_path / "two.json", ranks="2")
    assert main(["check", str(two), "--references", str(written)]) == 2
    assert "ranks = 2" in capsys.readouterr().err


def test_a_run_at_its_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    references, run = tmp_path / "references.toml", synthetic.write(tmp_path / "results.h5")
    assert main(["check", str(run), "--write-references", str(references), "--system", "cluster"]) == 0
    capsys.readouterr()
    rows = checked(capsys, 0, run, references)
    assert float(rows["run"]["measured"]) == 320 and "units/ntk" in rows
    assert tomllib.loads(references.read_text())["system"]["cluster"]["reference"][0]["ranks"] == 4


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("slower =", "slowr =", "unknown key slowr; expected slower, the nearest of"),
        ("host =", "hots =", "[system.recorded]: unknown key hots; expected host"),
        ("[system.", "[systems.", "unknown key systems; expected system"),
        ('"seconds"', '"second"', "quantity is second; expected seconds, throughput, share_of_peak"),
        ("slower = 0.1", "slower = -0.1", "reference 1 (forward): slower is -0.1; expected"),
        ("slower = 0.1", 'slower = "10%"', "slower is 10%; expected a number"),
        ("faster = 0.25", "faster = 1", "tolerates a value of 0"),
        ("ranks = 1", "ranks = 0", "ranks is 0"),
        ("bound = ", "bound = 1", "within what is tolerated"),
        ('time = "wall"', 'time = "user"', "time is user; expected wall or cpu"),
        ("ranks = 1\n", "", "reference 1: lacks ranks"),
        ('"step/standard"', '"forward"', "forward at 1 ranks stands twice"),
        ("ranks = 1", "ranks =", "is no TOML"),
        ('host = "recorded"', "host = 3", "host is 3; expected a shell pattern"),
    ],
)
def test_refused(
    old: str, new: str, part: str, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written.write_text(written.read_text().replace(old, new))
    assert main(["check", str(tmp_path / "first.json"), "--references", str(written)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and part in said.err and str(written) in said.err
