# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`energy`: joules of units and what Slurm counted; the report's bars of them."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import h5py
import numpy as np
import pytest
import synthetic
from matplotlib.patches import Rectangle

from taugrid_analysis.cli import main
from taugrid_analysis.page.heading import heading
from taugrid_analysis.quantities.timings import figures, section
from taugrid_analysis.run.opened import Run

HEAD = "JobIDRaw|ElapsedRaw|ConsumedEnergyRaw\n"
SLURM = (
    HEAD + "1234|120|36000\n1234.batch|120|36000\n1234.extern|120|18446744073709551614\n1234.0|100|31000\n"
    "12345|9|77\n"
)
UNITS = [
    ("finetune/standard/a", 0, 10.0, "cpu", 500.0, "rapl"),
    ("finetune/standard/b", 1, 20.0, "cpu", 700.0, "rapl"),
    ("ntk/pretrained/a", 1, 5.0, "NVIDIA", 600.0, "rapl+nvml"),
    ("ntk/pretrained/b", 0, 5.0, "cpu", math.nan, ""),
]


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(path, "a") as file:
        text = h5py.string_dtype()
        kinds = [("key", text), ("rank", "i4"), ("seconds", "f8"), ("device", text)]
        del file["units"]
        file["units"] = np.array(UNITS, dtype=[*kinds, ("joules", "f8"), ("energy_source", text)])
        file["provenance"].attrs["joules"] = 2500.0
        file["provenance"].attrs["SLURM_JOB_ID"] = "1234"
    return tmp_path


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[tuple[list[dict[str, str]], str]]:
    """Returns each table's rows, and its notes."""
    assert main(["energy", *map(str, arguments), "--format", "csv"]) == 0
    tables = []
    for block in capsys.readouterr().out.strip().split("\n\n"):
        lines = block.splitlines()
        body = [line for line in lines if not line.startswith("#")]
        notes = "\n".join(line for line in lines if line.startswith("#"))
        tables.append((list(csv.DictReader(io.StringIO("\n".join(body)))), notes))
    return tables


@pytest.fixture
def no_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def sacct(folder: Path, text: str, code: int = 0) -> None:
    """Writes a stand-in that prints this, and fails where it is asked otherwise than Slurm's would be."""
    (folder / "answer").write_text(text)
    script = folder / "sacct"
    words = "--duplicates --parsable2 --format=JobIDRaw,ElapsedRaw,ConsumedEnergyRaw --jobs=1234"
    script.write_text(
        "#!/bin/sh\n"
        f'[ "$*" = "{words}" ] || exit 9\n'
        f'while read -r line; do echo "$line"; done < {folder}/answer\n'
        f"[ {code} = 0 ] || echo 'slurmdbd: Connection refused' >&2\nexit {code}\n"
    )
    script.chmod(0o755)


def test_units_and_slurm(counted: Path, no_slurm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sacct(no_slurm, SLURM)
    (units, about_units), (slurm, _) = asked(capsys, counted)
    assert [row["kind"] for row in units] == ["finetune", "ntk", "all"]
    assert [float(row["joules"]) for row in units] == [1200, 600, 1800]
    assert [float(row["watts"]) for row in units] == pytest.approx([40, 120, 1800 / 35])
    assert float(units[0]["share"]) == pytest.approx(2 / 3)
    assert "rapl, rapl+nvml" in about_units and "1 of 4 units were not counted" in about_units
    assert "2,500.0 J" in about_units and "of a unit that was resumed, its last start alone" in about_units
    assert [row["step"] for row in slurm] == ["job", "batch", "extern", "0"]
    assert [row["joules"] for row in slurm] == ["36000", "36000", "", "31000"]
    assert float(slurm[3]["watts"]) == 310


def test_a_requeued_job_has_rows_of_each_start(
    counted: Path, no_slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sacct(no_slurm, HEAD + "1234|60|600\n1234.0|50|500\n1234|30|900\n1234.0|20|800\n")
    _, (slurm, notes) = asked(capsys, counted)
    assert [(row["step"], row["joules"]) for row in slurm] == [
        ("job", "600"),
        ("0", "500"),
        ("job", "900"),
        ("0", "800"),
    ]
    assert "each of its 2 starts has rows of its own" in notes and "of a chain of jobs" in notes


def test_slurm_alone_from_a_file(run_folder: Path, counted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = counted / "sacct.txt"
    file.write_text(HEAD + "1234|120|0\n1234.0|100|\n")
    with h5py.File(counted / "results.h5", "a") as results:
        rows = results["units"][()][["key", "rank", "seconds", "device"]]
        del results["units"]
        results["units"] = rows.astype(rows.dtype)
    ((slurm, notes),) = asked(capsys, counted, "--sacct", file)
    assert [row["joules"] for row in slurm] == ["", ""] and "counts no joules" in notes
    assert main(["energy", str(run_folder), "--sacct", str(file)]) == 2
    assert "was no job of Slurm" in capsys.readouterr().err


@pytest.mark.usefixtures("no_slurm")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "lacks columns"),
        ("JobID|ConsumedEnergyRaw\n1234|5\n", "lacks columns"),
        (HEAD + "99|1|5\n12345|1|5\n", "has no job 1234"),
        (HEAD + "1234|1|5K\n", "ConsumedEnergyRaw is 5K; expected a whole number"),
        (HEAD + f"1234|1|{'7' * 5000}\n", f"ConsumedEnergyRaw is {'7' * 40}…; expected a whole number"),
        (HEAD + f"1234|1|{'7' * 140_000}\n", "cannot be read: field larger than field limit"),
        (HEAD + "1234\n", ""),
    ],
)
def test_what_sacct_did_not_print(
    text: str, expected: str, counted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = counted / "sacct.txt"
    file.write_text(text)
    assert main(["energy", str(counted), "--sacct", str(file)]) == (2 if expected else 0)
    said = capsys.readouterr().err
    assert expected in said and len(said.splitlines()) == bool(expected)
    assert main(["energy", str(counted), "--sacct", str(counted / "none.txt")]) == 2
    said = capsys.readouterr().err
    assert "No such file or directory; expected what sacct --duplicates --parsable2" in said


def test_a_slurm_that_does_not_answer(
    counted: Path, no_slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sacct(no_slurm, "", code=1)
    assert main(["energy", str(counted)]) == 2
    assert "slurmdbd: Connection refused; expected an answer, or --sacct FILE" in capsys.readouterr().err


@pytest.mark.usefixtures("no_slurm")
def test_a_run_that_nothing_counted(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["energy", str(run_folder)]) == 2
    assert "nothing counted joules" in capsys.readouterr().err
    with Run(run_folder) as run:
        (part,) = section.sections(run)
        assert part.title == "Where the time went" and len(part.drawn) == 1
        assert "joules" not in section.timings(run) and "energy" not in dict(heading(run))


def test_the_report_shows_where_the_energy_went(counted: Path) -> None:
    with Run(counted) as run:
        (part,) = section.sections(run)
        assert part.title == "Where the time and the energy went" and len(part.drawn) == 2
        assert "rapl, rapl+nvml" in part.caption
        rows = section.timings(run).set_index(["rank", "kind"])["joules"]
        drawn = figures.energy(run)
        assert dict(heading(run))["energy"] == "1,800 J of 3 units, by rapl, rapl+nvml"
    assert rows[0, "finetune"] == 500 and rows[1, "ntk"] == 600 and math.isnan(rows[0, "ntk"])
    assert drawn is not None
    (axes,) = drawn.axes
    assert axes.get_xlabel() == "joules of work units"
    widths = [bar.get_width() for bar in axes.patches if isinstance(bar, Rectangle)]
    lengths = sorted(width for width in widths if width > 0)
    assert lengths == [500, 600, 700]
    assert {text.get_text().strip() for text in axes.texts} == {"500 J", "1,300 J"}
