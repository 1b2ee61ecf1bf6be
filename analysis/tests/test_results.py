# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a file is said in one line, with exit code 2."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import recorded_bench
import synthetic

from taugrid_analysis import cli
from taugrid_analysis.errors import InputError
from taugrid_analysis.files import write
from taugrid_analysis.page.heading import heading
from taugrid_analysis.quantities.similarity.clusters import clusters
from taugrid_analysis.run.opened import Run
from taugrid_analysis.run.results import Results


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Runs the command, asserts exit code 2, one line on stderr and nothing on stdout."""
    assert cli.main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and captured.err.endswith("\n")
    assert "expected" in captured.err
    return captured.err


@pytest.fixture
def file(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(run_folder / "results.h5", tmp_path / "results.h5"))


@pytest.mark.parametrize("command", ["show", "tables", "report"])
def test_missing_file(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no results.h5" in refusal(capsys, command, str(tmp_path))
    assert "does not exist" in refusal(capsys, command, str(tmp_path / "none"))


def test_unfinished_run_says_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    units = tmp_path / "units"
    units.mkdir()
    for index in range(3):
        (units / f"{index}.safetensors").touch()
    assert "3 work units are committed" in refusal(capsys, "show", str(tmp_path))


def test_truncated_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(file.read_bytes()[:5000])
    assert "not readable as HDF5" in refusal(capsys, "show", str(file))


def test_other_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    for version in (3, 0, "two"):
        with h5py.File(path, "r+") as handle:
            handle.attrs["schema_version"] = version
        line = refusal(capsys, "tables", str(tmp_path))
        assert f"schema_version is {version}" in line and "expected 1 to 2" in line


def test_a_run_without_pairs_is_read(tmp_path: Path) -> None:
    """Several tasks, of which [data] pairs names none: nothing of the file is of pairs."""
    path = synthetic.write(tmp_path / "results.h5", tasks=synthetic.FEW_TASKS)
    with h5py.File(path, "r+") as file:
        for name in set(file) - {"tasks", "model", "provenance", "units", "single_task", "addition"}:
            del file[name]
    with Run(tmp_path) as run:
        assert not len(run.results.pairs) and len(run.results.tasks) == 4
    assert cli.main(["tables", str(path)]) == 0


def test_a_regime_that_does_not_say_whether_it_is_linear(file: Path) -> None:
    with h5py.File(file, "r+") as handle:
        for name in ("standard", "linear"):
            handle[f"single_task/{name}"].attrs["vectors_of"] = name
            handle[f"single_task/{name}"].attrs.pop("linear", None)
    with Run(file) as run:
        assert run.results.regime("linear").linear and not run.results.regime("standard").linear


def test_root_attribute_missing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(file, "r+") as handle:
        del handle.attrs["finished_utc"]
    assert "finished_utc" in refusal(capsys, "show", str(file))


@pytest.mark.parametrize(
    "path", ["tasks", "pairs/tasks", "addition/linear/chosen_alpha", "similarity/standard/norm"]
)
def test_broken_layout_names_the_data_set(path: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(file, "r+") as handle:
        del handle[path]
    assert f"/{path}" in refusal(capsys, "tables", str(file))


def test_wrong_shape(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(file, "r+") as handle:
        del handle["smoothness/linear/lambda_max"]
        handle["smoothness/linear/lambda_max"] = np.zeros(7)
    line = refusal(capsys, "tables", str(file))
    assert "/smoothness/linear/lambda_max" in line and "[7]" in line and "[8]" in line


@pytest.mark.parametrize(
    ("path", "shape", "expected"),
    [
        ("negation/linear/test_control", (8, 5), "[8, 41]"),
        ("negation/linear/chosen_alpha", (7,), "[8]"),
        ("negation/linear/wide/target", (8, 1), "[8]"),
        ("pair_addition/linear/test_accuracy", (28, 21), "[28, 21, 2]"),
        ("pair_addition/linear/one_shot_normalized", (27,), "[28]"),
        ("representation/linear/error", (28, 13, 12), "[28, 13, 13]"),
        ("tau_jp/linear/value", (8, 9), "[8, 8]"),
        ("tau_jp/linear/control", (), "[8]"),
        ("continuation/tau_jp_continue/tau_jp", (5, 8), "[5, 8, 8]"),
        ("continuation/tau_jp_continue/pair_normalized", (4, 28), "[5, 28]"),
        ("multitask/multitask/accuracy", (28,), "[8]"),
        ("ntk/pretrained/eigenvalues", (8, 4, 3), "[8, 4, 16]"),
        ("cost/linear/peak_memory", (2,), "[]"),
        ("single_task/pretrained/control_accuracy", (8,), "[]"),
    ],
)
def test_wrong_shape_of_a_newer_group(
    path: str, shape: tuple[int, ...], expected: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(file, "r+") as handle:
        del handle[path]
        handle[path] = np.zeros(shape)
    line = refusal(capsys, "tables", str(file))
    assert f"/{path}" in line and f"has shape {list(shape)}" in line and f"expected shape {expected}" in line


def test_attributes_that_are_needed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(file, "r+") as handle:
        handle["negation/linear"].attrs["control_threshold"] = "most"
    assert "control_threshold is most" in refusal(capsys, "tables", str(file))
    with h5py.File(file, "r+") as handle:
        handle["negation/linear"].attrs["control_threshold"] = 0.95
        del handle["negation/linear"].attrs["control"]
    assert "attribute control is missing" in refusal(capsys, "tables", str(file))


@pytest.mark.parametrize("path", ["negation/linear/alpha", "continuation/tau_jp_continue/step"])
def test_an_axis_that_does_not_increase(path: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(file, "r+") as handle:
        handle[path][...] = handle[path][()][::-1]
    line = refusal(capsys, "tables", str(file))
    assert f"/{path}" in line and "is not increasing" in line


def test_an_axis_that_is_not_finite(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(file, "r+") as handle:
        handle["addition/linear/alpha"][-1] = np.inf
    assert "/addition/linear/alpha" in refusal(capsys, "show", str(file))


@pytest.mark.parametrize(
    "path", ["disentanglement/linear/error", "single_task/linear/accuracy", "ntk/pretrained/local_energy"]
)
def test_numbers_that_are_not_known_are_dashes(
    path: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file full of NaN keeps the contract: what cannot be said is left out."""
    with h5py.File(file, "r+") as handle:
        handle[path][...] = np.nan
    for command in ("show", "tables"):
        assert cli.main([command, str(file)]) == 0
        captured = capsys.readouterr()
        assert captured.err == "" and not re.search(r"\bnan\b", captured.out)


@pytest.mark.parametrize("path", ["single_task/linear/accuracy", "tau_jp/linear/value", "tasks/classes"])
def test_text_in_place_of_numbers(path: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(file, "r+") as handle:
        shape = handle[path].shape
        del handle[path]
        handle[path] = np.full(shape, b"many", dtype="S4")
    line = refusal(capsys, "tables", str(file))
    assert f"/{path}" in line and "expected numbers" in line


def test_a_cost_below_nothing(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(file, "r+") as handle:
        handle["cost/linear/seconds_per_step"][...] = -1.0
    assert "/cost/linear/seconds_per_step" in refusal(capsys, "tables", str(file))


def test_figure_needs_grids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.write(tmp_path / "results.h5", leave_out=["disentanglement"])
    assert "/disentanglement" in refusal(capsys, "figure", str(tmp_path), "--out", str(tmp_path / "a.png"))
    assert not (tmp_path / "a.png").exists()


def test_unknown_table_and_format(run_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "addition" in refusal(capsys, "tables", str(run_folder), "--only", "nonsense")
    assert "png" in refusal(capsys, "figure", str(run_folder), "--out", "a.bmp")


def test_folder_or_file(run_folder: Path) -> None:
    with Results(run_folder) as by_folder, Results(run_folder / "results.h5") as by_file:
        assert by_folder.path == by_file.path
        assert by_folder.tasks == list(synthetic.TASKS)


def test_fixed_length_text_reads_the_same(file: Path) -> None:
    with h5py.File(file, "r+") as handle:
        del handle["tasks/name"]
        handle["tasks/name"] = np.array(
            [name.encode() for name in synthetic.TASKS], dtype=h5py.string_dtype("utf-8", 12)
        )
    with Results(file) as results:
        assert results.tasks == list(synthetic.TASKS)


def test_regimes_are_those_in_the_file(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "results.h5", regimes=["zeta", "linear", "posthoc", "attention"])
    with Results(tmp_path) as results:
        assert results.regimes == ["posthoc", "linear", "attention", "zeta"]


def test_the_starts_name_is_no_regime(tmp_path: Path) -> None:
    synthetic.write(tmp_path / "results.h5", model=("clip_mini", 869632, "random"))
    with Results(tmp_path) as results:
        assert results.start == "random"
        assert results.regimes == ["standard", "linear"]


def test_the_start_is_known_without_its_accuracies(tmp_path: Path) -> None:
    path = synthetic.write(
        tmp_path / "results.h5", model=("clip_mini", 869632, "random"), leave_out=["single_task"]
    )
    with Results(path) as results:
        assert results.start == "random"
    with h5py.File(path, "r+") as file:
        del file["model"]
    with Results(path) as results:
        assert results.start == "pretrained"


def test_provenance(file: Path) -> None:
    with Run(file) as run:
        assert run.results.hosts() == ["node01", "node01", "node02", "node02"]
        assert run.results.seeds() == ["1"]
        assert dict(heading(run))["machine"] == "4 ranks cpu on node01, node02"
    with h5py.File(file, "r+") as handle:
        handle["provenance"].attrs["hosts"] = "node03"
        handle["provenance"].attrs["ranks"] = np.int64(1)
    with Run(file) as run:
        assert dict(heading(run))["machine"] == "1 rank cpu on node03"
    with h5py.File(file, "r+") as handle:
        del handle["provenance"]
    with Results(file) as results:
        assert results.hosts() == [] and results.seeds() == []


@pytest.mark.parametrize("command", ["show", "compare", "check", "recompute"])
def test_pipes_are_refused_before_they_are_opened(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever reads one waits for ever."""
    pipe = tmp_path / "results.h5"
    os.mkfifo(pipe)
    bench = recorded_bench.write(tmp_path / "bench.json")
    for arguments in {
        "show": [[tmp_path], [pipe]],
        "recompute": [[tmp_path], [pipe]],
        "compare": [[pipe, bench], [bench, pipe]],
        "check": [[pipe, "--references", bench], [bench, "--references", pipe]],
    }[command]:
        assert "results.h5: is no ordinary file" in refusal(capsys, command, *map(str, arguments))


@pytest.mark.parametrize("place", ["tasks/name", "pairs/tasks", "similarity/standard/norm"])
def test_a_data_set_that_becomes_gigabytes(
    place: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(file, "r+") as handle:
        kind = handle[place].dtype if place == "pairs/tasks" else "S8" if place == "tasks/name" else "f8"
        shape = (1 << 29, 2) if place == "pairs/tasks" else (1 << 29,)
        del handle[place]
        handle.create_dataset(place, shape, kind, chunks=True, compression="gzip")
    line = refusal(capsys, "tables", str(file))
    assert f"/{place}: becomes" in line or "has shape [536870912]" in line


@pytest.mark.parametrize("kind", ["link", "outside"])
def test_what_lies_in_other_files(kind: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File(file, "r+") as handle:
        del handle["similarity/standard/norm"]
        other = {"link": h5py.ExternalLink("nowhere.h5", "x"), "outside": h5py.SoftLink("/nowhere")}[kind]
        handle["similarity/standard/norm"] = other
    assert "/similarity/standard/norm" in refusal(capsys, "tables", str(file))


@pytest.mark.parametrize(
    "arguments",
    [["tabels", "x"], ["tables"], ["check", "a", "--tolerance", "x"], ["show", *["x\x1b[2J\n"] * 300]],
)
def test_wrong_options_get_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert stopped.value.code == 2 and line.startswith("taugrid_analysis: ") and "--help says" in line
    assert len(line) <= 500 and line.isprintable()


def test_a_file_that_another_program_writes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with file.open("rb+") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)  # as HDF5 locks what it writes
        assert "is open in another program, which writes it" in refusal(capsys, "tables", str(file))


def test_damaged_bytes(file: Path) -> None:
    """Whichever bytes are changed, the file is read or refused by one line."""
    whole, rng, refused = file.read_bytes(), np.random.default_rng(0), 0
    for _ in range(40):
        changed = bytearray(whole)
        for place in rng.integers(0, 40_000, 4):
            changed[place] = rng.integers(256)
        file.write_bytes(changed)
        try:
            with Run(file) as run:
                assert len(run.tasks) and len(run.summary)
        except InputError as error:
            refused += 1
            assert "\n" not in str(error) and str(file) in str(error)
    assert refused > 3


def test_a_file_is_written_whole_or_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, link = tmp_path / "report.html", tmp_path / "link.html"
    path.write_bytes(b"before")
    link.symlink_to(path)

    def full(part: Path, content: bytes) -> int:
        with part.open("wb") as file:
            file.write(content[:2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(InputError, match="No space left"):
        patched.setattr(Path, "write_bytes", full)
        write(path, b"after")
    assert path.read_bytes() == b"before" and sorted(tmp_path.iterdir()) == [link, path]
    write(link, b"after")
    assert link.is_symlink() and path.read_bytes() == b"after"


def test_a_vector_of_zeros_is_like_no_other() -> None:
    cosine = np.array([[1.0, 0.9, np.nan], [0.9, 1.0, np.nan], [np.nan, np.nan, np.nan]])
    labels = clusters(cosine, 2).labels
    assert labels[0] == labels[1] != labels[2]
