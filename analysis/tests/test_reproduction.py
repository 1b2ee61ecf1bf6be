# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`record` and `reproduce`: a run against a recorded one, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import pytest
import synthetic

from taugrid_analysis.cli import main
from taugrid_analysis.numbers.measured import Measured
from taugrid_analysis.page.table import Column, Table, Value
from taugrid_analysis.papers import coverage
from taugrid_analysis.reproduction import comparison, reference
from taugrid_analysis.reproduction.reference import Reference

ROOT = Path(__file__).parents[2]
CONFIGURATION = '[finetune]\nsteps = 150\n\n[run]\nname = "demo"\nseed = 1\n'
COMPUTED_BY = "taugrid 0.1.0 (0123), LibTorch 2.11.0, cpu: a processor, AVX2"
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reproduction") / "run"
    folder.mkdir()
    synthetic.write(folder / "results.h5", tasks=synthetic.FEW_TASKS, schema=2)
    (folder / "config.toml").write_text(CONFIGURATION)
    (folder / "inputs.toml").write_text('"/elsewhere/data/fashion.h5" = "8a3b"\n')
    with h5py.File(folder / "results.h5", "a") as file:
        file["provenance"].attrs["computed_by"] = COMPUTED_BY
    assert main(["record", str(folder), "--as", "demo", "--references", str(folder.parent)]) == 0
    return folder


@pytest.fixture
def run(recorded_run: Path, tmp_path: Path) -> Path:
    """A copy of the recorded run, to be changed, with the reference beside it."""
    shutil.copy(recorded_run.parent / "demo.json", tmp_path)
    return Path(shutil.copytree(recorded_run, tmp_path / "run"))


@pytest.fixture
def reproduce(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    def said(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["reproduce", *map(str, arguments), "--references", str(tmp_path)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return said


def of_tables(*tables: Table, machine: str = "a processor") -> Reference:
    return Reference("demo", "2026-01-02", "0123", machine, "1", 2, {"run.seed": "1"}, {}, list(tables))


def one_table(*rows: list[Value]) -> Table:
    return Table("addition", "Addition", [Column("regime"), Column("accuracy", 1, percent=True)], list(rows))


def test_the_same_run_agrees_bit_for_bit(run: Path, reproduce: Say) -> None:
    code, out, _ = reproduce("demo", run)
    assert code == 0
    assert out.splitlines()[-1] == "  verdict: reproduced, bit for bit"
    assert out.startswith("demo again, against its recorded run\n  recorded: ")


def test_what_is_kept_is_read_as_it_was(recorded_run: Path) -> None:
    """Each number has all its digits and its error; seconds, folders and names of machines are not there."""
    text = (recorded_run.parent / "demo.json").read_text(encoding="utf-8")
    recorded = reference.read("demo", recorded_run.parent)
    assert recorded.configuration == {"finetune.steps": "150", "run.seed": "1"}
    assert recorded.inputs == {"fashion.h5": "8a3b"} and "elsewhere" not in text
    assert recorded.machine == "LibTorch 2.11.0, cpu: a processor, AVX2, ranks a unit: 1"
    addition = next(table for table in recorded.tables if table.name == "addition")
    absolute = [column.name for column in addition.columns].index("absolute")
    assert all(isinstance(row[absolute], Measured) for row in addition.rows)
    cost = next(table for table in recorded.tables if table.name == "cost")
    assert "s a step" not in [column.name for column in cost.columns] and "peak MB" in text
    reference.store(replace(recorded, name="twice"), recorded_run.parent)
    assert (recorded_run.parent / "twice.json").read_text(encoding="utf-8") == text.replace(
        '"demo"', '"twice"', 1
    )


def test_a_number_that_moved_by_many_errors_is_named(run: Path, reproduce: Say) -> None:
    path = run.parent / "demo.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    row = next(table for table in stored["tables"] if table["name"] == "single_task")["rows"][0]
    cell = next(cell for cell in row if isinstance(cell, list))
    cell[0] += 20 * cell[1]
    path.write_text(json.dumps(stored), encoding="utf-8")
    code, out, _ = reproduce("demo", run)
    assert code == 1
    assert out.splitlines()[3].split()[:3] == ["single_task", "fashion", "pretrained"]
    assert out.splitlines()[3].endswith("14.1 errors") and "verdict" not in out.splitlines()[4]
    assert "verdict: PARTS" in out.splitlines()[-1]
    code, out, _ = reproduce("demo", run, "--all", "--format", "csv")
    assert code == 1 and len(out.splitlines()) > 500


def test_an_error_on_both_sides_counts() -> None:
    """Three errors apart among many numbers is chance; nine is not, and stands before five and a half."""
    rows: list[list[Value]] = [[f"regime {place}", Measured(0.5, 0.01)] for place in range(100)]
    moved = [list(row) for row in rows]
    moved[7][1] = Measured(0.5 + 3 * 0.01 * 2**0.5, 0.01)
    again = comparison.compare(of_tables(one_table(*rows)), of_tables(one_table(*moved)), "run")
    assert again.agrees and not again.bitwise and again.bound == pytest.approx(3.48, abs=0.005)
    moved[8][1] = Measured(0.5 - 5.5 * 0.01 * 2**0.5, 0.01)
    moved[9][1] = Measured(0.5 + 9 * 0.01 * 2**0.5, 0.01)
    again = comparison.compare(of_tables(one_table(*rows)), of_tables(one_table(*moved)), "run")
    assert [number.place[1] for number in again.parted] == ["regime 9", "regime 8"]
    shown = comparison.table(again)
    assert shown.rows[0] == ["addition", "regime 9", "accuracy", "50.0 ± 1.0 %", "62.7 ± 1.0 %", "9.0 errors"]


def test_a_number_without_an_error_decides_on_the_same_machine_alone() -> None:
    recorded, near, far = (one_table(["standard", value]) for value in (0.5, 0.5 + 1e-8, 0.51))
    assert comparison.compare(of_tables(recorded), of_tables(near), "run").agrees
    assert not comparison.compare(of_tables(recorded), of_tables(far), "run").agrees
    other = comparison.compare(of_tables(recorded), of_tables(far, machine="another"), "run")
    assert other.agrees and any("rounds otherwise" in note for note in comparison.table(other).notes)
    first, second = (of_tables(table, machine="") for table in (recorded, far))
    assert comparison.compare(first, second, "run").agrees


def test_a_number_that_is_missing_parts_and_one_that_is_new_does_not() -> None:
    few = one_table(["standard", 0.5])
    many = one_table(["standard", 0.5], ["standard", 0.6], ["linear", 0.5])
    lost = comparison.compare(of_tables(many), of_tables(few), "run")
    assert lost.lost == [("addition", "standard (2)", "accuracy"), ("addition", "linear", "accuracy")]
    assert not lost.agrees and comparison.table(lost).rows[0][-1] == "missing"
    none = one_table(["standard", None], ["standard", 0.6], ["linear", 0.5])
    assert not comparison.compare(of_tables(many), of_tables(none), "run").agrees
    assert comparison.compare(of_tables(many), of_tables(none, machine="another"), "run").agrees
    new = comparison.compare(of_tables(few), of_tables(many), "run")
    assert new.agrees and new.further == 2


def test_lines_beyond_the_first_are_counted() -> None:
    rows: list[list[Value]] = [[f"regime {place}", 0.5] for place in range(30)]
    moved: list[list[Value]] = [[name, 0.6] for name, _ in rows]
    compared = comparison.compare(of_tables(one_table(*rows)), of_tables(one_table(*moved)), "run")
    assert len(comparison.table(compared).rows) == 20
    assert comparison.table(compared).notes[0] == "10 more part: --all prints them."


def test_inputs_with_other_contents_are_named(run: Path, reproduce: Say) -> None:
    (run / "inputs.toml").write_text('"/here/fashion.h5" = "0000"\n')
    code, out, _ = reproduce("demo", run)
    assert code == 0 and "other contents than then: fashion.h5" in out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            CONFIGURATION.replace("150", "300"),
            "finetune.steps is 300; expected 150, the value of the recorded",
        ),
        (
            CONFIGURATION.replace("steps = 150", ""),
            "has no finetune.steps in its configuration; expected 150",
        ),
        (CONFIGURATION + "more = 1\n", "run.more is 1; expected no such key"),
        ("", "is missing or empty"),
        ("[", "cannot be read"),
    ],
)
def test_another_configuration_is_refused(run: Path, reproduce: Say, text: str, said: str) -> None:
    (run / "config.toml").write_text(text)
    code, _, err = reproduce("demo", run)
    assert code == 2 and said in err and err.count("\n") == 1


def test_another_precision_is_compared_and_said(run: Path, reproduce: Say) -> None:
    """What parts then is what the precision changes; numbers without an error decide nothing."""
    (run / "config.toml").write_text(CONFIGURATION + 'precision = "bf16_products"\n')
    code, out, err = reproduce("demo", run)
    assert code == 0, err
    assert "run.precision was unsaid when it was recorded, and is bf16_products here" in out
    assert "The same machine" not in out and "Another device" not in out


def test_a_run_of_another_name_is_no_other_configuration(run: Path, reproduce: Say) -> None:
    (run / "config.toml").write_text(CONFIGURATION.replace('"demo"', '"mine"'))
    assert reproduce("demo", run)[0] == 0


def test_models_of_another_run_are_no_other_configuration(run: Path, reproduce: Say) -> None:
    """The bases' run takes the quickstart's where that is finished, wherever it lies."""
    path = run / "config.toml"
    given = 'checkpoints = "/elsewhere/quickstart/checkpoints"\ngiven = ["standard"]\n'
    path.write_text(CONFIGURATION.replace("steps = 150\n", "steps = 150\n" + given))
    code, _, err = reproduce("demo", run)
    assert code == 0, err


def test_another_schema_is_refused(run: Path, reproduce: Say) -> None:
    with h5py.File(run / "results.h5", "a") as file:
        file.attrs["schema_version"] = 1
        del file["correct"]
    code, _, err = reproduce("demo", run)
    assert code == 2 and "schema_version is 1; expected 2, that of the recorded run demo" in err


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda text: text[: len(text) // 2], "is damaged"),
        (lambda text: text.replace('"form": 1', '"form": 9'), "has form 9; expected form 1"),
        (lambda text: text.replace('"seeds"', '"seed"'), "is damaged (KeyError: 'seeds')"),
        (
            lambda text: text.replace('"columns": [', '"columns": [{"name": "more"}, ', 1),
            "is damaged (ValueError",
        ),
        (lambda _: "[]", "is damaged"),
        (lambda _: "\0", "is damaged"),
    ],
)
def test_a_damaged_reference_is_refused(
    run: Path, reproduce: Say, damage: Callable[[str], str], said: str
) -> None:
    path = run.parent / "demo.json"
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    code, _, err = reproduce("demo", run)
    assert code == 2 and said in err and err.count("\n") == 1


def test_a_missing_reference_is_refused(run: Path, reproduce: Say) -> None:
    code, _, err = reproduce("other", run)
    assert code == 2 and "does not exist; expected a recorded reference run: demo" in err
    code, _, err = reproduce("../demo", run)
    assert code == 2 and "is no name of a reference run" in err
    code, _, err = reproduce("demo", run / "nowhere")
    assert code == 2 and "does not exist" in err


def test_a_reference_has_a_largest_size(
    recorded_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "LARGEST", 1000)
    assert main(["record", str(recorded_run), "--as", "large", "--references", str(tmp_path)]) == 2
    assert "expected at most 1,000" in capsys.readouterr().err
    assert not (tmp_path / "large.json").exists()


@pytest.mark.parametrize("command", ["reproduce", "record"])
def test_help_says_what_is_compared_and_what_is_kept(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    out = " ".join(capsys.readouterr().out.split())
    expected = {"reproduce": "exceeds in 5 % of comparisons", "record": "with the run's configuration, seeds"}
    assert expected[command] in out and "%%" not in out


def test_a_revision_that_was_never_committed_is_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(run / "results.h5", "a") as file:
        file.attrs["git_revision"] = "0123-dirty"
    assert main(["record", str(run), "--as", "dirty", "--references", str(run.parent)]) == 0
    assert "nobody else can build that program again" in capsys.readouterr().err


def recorded_as(folder: Path, name: str) -> None:
    reference.store(replace(reference.read("demo", folder), name=name), folder)


def job(root: Path, script: str, lines: str) -> None:
    """A clone whose jobs write down what they were told."""
    (root / "jobs").mkdir(exist_ok=True)
    for name in ("quickstart.sh", script):
        path = root / "jobs" / name
        path.write_text(f'echo "$0 $* $RUN $TAUGRID_REPRODUCE" > told\n{lines}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_runs_within_a_folder_of_the_job_are_found(
    run: Path, reproduce: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name has "_" for what parts the words of a path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUN", raising=False)
    recorded_as(run.parent, "demo_causes_epochs_0")
    inner = 'mkdir -p runs/reproduced "$RUN"_causes; cp -r run "$RUN"; cp -r run "$RUN"_causes/'
    job(tmp_path, "paper.sh", f"{inner}epochs-0")
    code, out, _ = reproduce("demo")
    assert code == 0 and out.count("verdict: reproduced, bit for bit") == 2
    shutil.rmtree(tmp_path / "runs")
    job(tmp_path, "paper.sh", f"{inner}epochs-1")
    code, _, err = reproduce("demo")
    assert code == 2 and "demo_causes_epochs_0" in err and "does not exist" in err


def test_without_a_run_the_job_runs_first(
    run: Path, reproduce: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All recorded runs of the job are compared, each with the one of its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUN", raising=False)
    recorded_as(run.parent, "demo_more")
    job(tmp_path, "paper.sh", 'mkdir -p runs/reproduced; cp -r run "$RUN"; cp -r run "$RUN"_more')
    code, out, err = reproduce("demo")
    assert code == 0 and out.count("verdict: reproduced, bit for bit") == 2
    assert err == "reproduce: RUN=runs/reproduced/demo bash jobs/paper.sh demo\n"
    assert (tmp_path / "told").read_text() == "jobs/paper.sh demo runs/reproduced/demo no\n"


@pytest.mark.parametrize(("ended", "code"), [(75, 75), (1, 2), (2, 2)])
def test_a_job_that_ends_early_is_no_comparison(
    run: Path, reproduce: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: int, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RUN", str(run))
    job(tmp_path, "paper.sh", f"exit {ended}")
    returned, out, _ = reproduce("demo")
    assert returned == code and not out


@pytest.mark.parametrize("wanted", ["", "no"])
def test_the_quickstart_ends_with_the_comparison_and_does_not_fail(tmp_path: Path, wanted: str) -> None:
    jobs, python = tmp_path / "jobs", tmp_path / "venv" / "bin" / "python"
    jobs.mkdir()
    for name in ("quickstart.sh", "steps.sh"):
        shutil.copy(ROOT / "jobs" / name, jobs)
    (jobs / "common.sh").write_text(
        "set -euo pipefail\nsource jobs/steps.sh\nvenv=venv\n"
        'measure() { mkdir -p "$2"; echo "measured $*"; }\n'
    )
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$*"\n[ "$3" != reproduce ]\n')
    python.chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "TAUGRID_REPRODUCE": wanted}
    command = ["bash", str(jobs / "quickstart.sh"), "--set", "finetune.steps=300"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and not ended.stderr
    first, *_, last = (line for line in ended.stdout.splitlines() if not line.startswith("# "))
    assert first == "measured experiments/quickstart runs/quickstart --set finetune.steps=300"
    reproduced = "-m taugrid_analysis reproduce quickstart runs/quickstart"
    assert last == ("-m taugrid_analysis report runs/quickstart" if wanted else reproduced)
    steps = [line.split()[1] for line in ended.stdout.splitlines() if line.startswith("# ")]
    assert steps[-3:] == ["experiment", "tables", "all"]
    kept = (tmp_path / "runs" / "quickstart" / "start.tsv").read_text().splitlines()
    assert [line.split("\t")[1] for line in kept] == ["experiment", "tables and report"]


@pytest.mark.parametrize("name", reference.names())
def test_references_that_come_with_the_program_are_whole_and_small(name: str) -> None:
    recorded = reference.read(name)
    assert recorded.name == name and recorded.schema == 2 and recorded.tables
    assert recorded.machine and recorded.seeds and recorded.inputs
    assert not [x for x in recorded.configuration.values() if x.startswith("/")]  # places of one machine
    assert reference.file_of(name).stat().st_size <= reference.LARGEST
    job, known = (
        name.split("_", 1)[0],
        {path.parent.name for path in (ROOT / "jobs/papers").glob("*/paper.toml")},
    )
    assert job == "quickstart" or any(name == paper or name.startswith(f"{paper}_") for paper in known)


def test_papers_name_the_recorded_runs_of_their_jobs(
    recorded_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not coverage.table("tau_jp").notes or reference.of_job("tau_jp")
    recorded = reference.read("demo", recorded_run.parent)
    (recorded_run.parent / "of_papers").mkdir()
    for name, finished in (("tau_jp", "02"), ("tau_jp_figure3", "02"), ("tau_jp_more", "03")):
        again = replace(recorded, name=name, finished=f"2026-01-{finished}T03:09:25Z")
        reference.store(again, recorded_run.parent / "of_papers")
    monkeypatch.setattr(reference, "RECORDED", recorded_run.parent / "of_papers")
    command, together, later = coverage.table("tau_jp").notes
    assert "reproduce tau_jp`" in command and not coverage.table("bases").notes
    assert together.startswith("Of 2026-01-02 (revision 0123")
    assert together.endswith(": `tau_jp`, `tau_jp_figure3`.") and later.endswith(": `tau_jp_more`.")


def test_references_are_in_the_package() -> None:
    project = tomllib.loads((ROOT / "analysis" / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["taugrid_analysis"]
    assert "reproduction/recorded/*.json" in patterns
