# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`history` over files of several dates, `scaling` over runs at several numbers of ranks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

import h5py
import numpy as np
import pytest
import recorded_bench
import synthetic

from taugrid_analysis.cli import main


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[list[dict[str, str]], str]:
    assert main([*map(str, arguments), "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    body = [line for line in lines if not line.startswith("#") and ".png" not in line]
    return list(csv.DictReader(io.StringIO("\n".join(body)))), "\n".join(lines)


def dated(folder: Path, factors: Iterable[float], **context: str) -> Path:
    folder.mkdir(exist_ok=True)
    for day, factor in enumerate(factors, 1):
        date = {"date": f"2026-01-{day:02d}T12:00:00+00:00"}
        picked = slice(6 * day, 6 * day + 9)
        path = folder / f"{'-'.join(context.values())}{9 - day}.json"  # names say nothing about dates
        recorded_bench.write(path, picked=picked, factor=factor, **date, **context)
    return folder


@pytest.mark.parametrize(
    ("factors", "mark"),
    [
        ((1, 1, 1, 1, 1), ""),
        ((1, 1, 1, 1, 1.15), "slower"),
        ((1, 1, 1, 1, 0.8), "faster"),
        ((1, 1.2, 0.8, 1.1, 1.15), ""),
        ((1, 1, 1.15), "too few"),
    ],
)
def test_marks(
    factors: tuple[float, ...], mark: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, _ = rows_of(capsys, "history", dated(tmp_path / "bench", factors))
    assert [row["case"] for row in rows] == list(recorded_bench.CASES)
    for row in rows:
        assert row["mark"] == mark and row["calls"] == str(len(factors)) == str(len(row["trend"]))
        assert row["date"] == f"2026-01-{len(factors):02d}"
        assert float(row["ratio"]) == pytest.approx(factors[-1] / np.median(factors[:-1]), rel=0.05)


def test_machines_apart_and_a_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = dated(tmp_path / "bench", (1, 1, 1, 1, 1.3))
    dated(folder, (2, 2, 2), host_name="other")
    recorded_bench.write(folder / "wrong.json", invalid=recorded_bench.CASES)
    rows, said = rows_of(capsys, "history", folder, "--out", tmp_path / "history.png")
    assert [(row["machine"], row["calls"]) for row in rows if row["case"] == "forward"] == [
        ("1", "5"),
        ("2", "3"),
    ]
    assert "machine 2: other" in said or "machine 1: other" in said
    assert "2 measurements left out, INVALID or with a time of 0" in said
    assert (tmp_path / "history.png").stat().st_size > 10_000
    assert main(["history", str(folder), "--out", str(tmp_path / "history.txt")]) == 2
    assert "unknown format .txt" in capsys.readouterr().err
    assert main(["history", str(folder / "wrong.json")]) == 2
    assert "holds no valid case" in capsys.readouterr().err
    recorded_bench.write(folder / "wrong.json", date="yesterday")
    assert main(["history", str(folder)]) == 2
    assert "date is yesterday" in capsys.readouterr().err


CONFIG = '[run]\nname = "{name}"\nseed = 0\n[data]\ntasks = {tasks}\n[finetune]\nsteps = {steps}\n'


def run(
    folder: Path, ranks: int, seconds: float, keys: Iterable[str] = "abcdefgh", tasks: int = 4, steps: int = 9
) -> Path:
    """Units of `seconds` each, dealt in turn; start, input and output take 10 s."""
    folder.mkdir()
    synthetic.write(folder / "results.h5", tasks=synthetic.TASKS[:tasks])
    rows = [(f"finetune/{key}", place % ranks, seconds, "cpu") for place, key in enumerate(keys)]
    longest = seconds * -(-len(rows) // ranks)
    with h5py.File(folder / "results.h5", "a") as file:
        layout = file["units"].dtype
        del file["units"]
        file["units"] = np.array(rows, dtype=layout)
        file["provenance"].attrs["ranks"] = ranks
        end = np.datetime64("2026-01-02T03:04:05") + np.timedelta64(round(10 + longest), "s")
        file.attrs["finished_utc"] = f"{end}Z"
    text = CONFIG.format(name=folder.name, tasks=list(synthetic.TASKS[:tasks]), steps=steps)
    (folder / "config.toml").write_text(text)
    return folder


def test_strong_scaling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [run(tmp_path / f"r{ranks}", ranks, 20 * slow) for ranks, slow in ((4, 1.25), (1, 1), (2, 1))]
    rows, said = rows_of(capsys, "scaling", *runs, "--out", tmp_path / "strong.png")
    assert [row["ranks"] for row in rows] == ["1", "2", "4"]
    assert [float(row["wall s"]) for row in rows] == [170, 90, 60]
    assert [float(row["speed-up"]) for row in rows] == pytest.approx([1, 170 / 90, 170 / 60])
    assert [float(row["efficiency"]) for row in rows] == pytest.approx([1, 170 / 180, 170 / 240])
    assert [float(row["units' efficiency"]) for row in rows] == pytest.approx([1, 1, 0.8])
    assert [float(row["rank-seconds"]) for row in rows] == [160, 160, 200]
    assert "pauses included" in said and "no config.toml" not in said
    assert (tmp_path / "strong.png").stat().st_size > 10_000


def test_strong_scaling_refuses_another_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = run(tmp_path / "one", 1, 20), run(tmp_path / "two", 2, 20, steps=18)
    assert main(["scaling", str(first), str(second)]) == 2
    assert "two: differs from" in (said := capsys.readouterr().err) and "in finetune.steps; expected" in said
    (second / "config.toml").unlink()
    assert "no config.toml beside some" in rows_of(capsys, "scaling", first, second)[1]
    assert main(["scaling", str(first), str(first)]) == 2
    assert "all runs have 1 ranks" in capsys.readouterr().err
    third = run(tmp_path / "three", 2, 20, "abcd")
    assert main(["scaling", str(first), str(third)]) == 2
    assert "in units" in capsys.readouterr().err


def test_weak_scaling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        run(tmp_path / "r1", 1, 20, "abcd", tasks=2),
        run(tmp_path / "r2", 2, 20, "abcdefgh", tasks=4),
        run(tmp_path / "r4", 4, 25, "abcdefghijklmnop", tasks=8),
    ]
    rows, said = rows_of(capsys, "scaling", *runs, "--weak", "--out", tmp_path / "weak.png")
    assert [float(row["efficiency"]) for row in rows] == pytest.approx([1, 1, 90 / 110])
    assert [float(row["units' efficiency"]) for row in rows] == pytest.approx([1, 1, 0.8])
    assert [float(row["relative"]) for row in rows] == pytest.approx([1, 1, 1.25])
    assert [row["differs in"] for row in rows] == ["", "tasks", "tasks"]
    assert "at 4 ranks the same work takes over 10 % more or less" in said
    assert "no model_flops" in said
    # Work that grew by half only, in the same times: three quarters of the efficiency.
    for path, flops in zip(runs, (4e12, 6e12, 16e12), strict=True):
        with h5py.File(path / "results.h5", "a") as file:
            file["provenance"].attrs["model_flops"] = flops
    rows, said = rows_of(capsys, "scaling", *runs, "--weak")
    assert [float(row["Tflop"]) for row in rows] == [4, 6, 16]
    assert [float(row["efficiency"]) for row in rows] == pytest.approx([1, 0.75, 90 / 110])
    assert [float(row["relative"]) for row in rows] == pytest.approx([1, 4 / 3, 1.25])
    assert "no model_flops" not in said
    other = run(tmp_path / "other", 2, 20, "abcdefgh", tasks=8)
    assert main(["scaling", *map(str, runs), str(other), "--weak"]) == 2
    assert "expected the same at the same ranks" in capsys.readouterr().err


def test_interrupted_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = run(tmp_path / "one", 1, 20), run(tmp_path / "two", 2, 20)
    with h5py.File(second / "results.h5", "a") as file:
        file.attrs["finished_utc"] = "2026-01-02T05:04:05Z"
    assert "two: wall time is 90.0 times the longest" in rows_of(capsys, "scaling", first, second)[1]
    with h5py.File(second / "results.h5", "a") as file:
        file.attrs["finished_utc"] = "2026-01-01T05:04:05Z"
    assert main(["scaling", str(first), str(second)]) == 2
    assert "finished before it started" in capsys.readouterr().err
