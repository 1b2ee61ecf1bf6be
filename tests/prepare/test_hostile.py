# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Wrong inputs end in one line that names the file, exit 2, with nothing written or lost."""

import gzip
import json
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from text_models import WORDS

from command import main

PREPARE = Path(__file__).resolve().parents[2] / "jobs/prepare"
SPLITS = ("train", "validation", "test")


def packed(path: Path, task: str = "a", side: int = 4) -> Path:
    """A small packed task of pictures."""
    with h5py.File(path, "w") as file:
        for split in SPLITS:
            pictures = np.random.default_rng(len(split)).integers(0, 256, (6, side, side, 3), dtype=np.uint8)
            file[f"{split}/inputs"], file[f"{split}/labels"] = pictures, np.arange(6) % 3
        file["class_names"] = np.array(["one", "two", "three"], dtype=h5py.string_dtype())
        file["head/weight"] = np.eye(3, 4, dtype=np.float32)
        file["head/weight"].attrs["logit_scale"] = np.float32(50)
        file["head"].attrs["kind"] = "cosine"
        file.attrs.update(task=task, modality="image", source="drawn by a test", license="Apache-2.0")
        file.attrs["mean"] = file.attrs["std"] = np.full(3, 0.5, np.float32)
    return path


def instead(name: str, **new: object) -> Callable[[h5py.File], None]:
    """Another data set in this place."""

    def change(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, **new)

    return change


def linked(file: h5py.File) -> None:
    del file["test/inputs"]
    file["test/inputs"] = h5py.ExternalLink("/etc/passwd", "/x")


def virtual(file: h5py.File) -> None:
    del file["test/inputs"]
    layout = h5py.VirtualLayout((6, 4, 4, 3), np.uint8)
    layout[:] = h5py.VirtualSource("other.h5", "x", (6, 4, 4, 3))
    file.create_virtual_dataset("test/inputs", layout)


def outside(file: h5py.File) -> None:
    del file["test/inputs"]
    file.create_dataset("test/inputs", (6, 4, 4, 3), np.uint8, external=[("/dev/zero", 0, 288)])


HUGE = instead("test/inputs", shape=(1_000_000_000, 32, 32, 3), dtype=np.uint8, chunks=(1, 32, 32, 3))
DAMAGE: dict[str, tuple[Callable[[h5py.File], object], str]] = {
    "label 99": (lambda file: file["test/labels"].write_direct(np.full(6, 99)), "/test/labels: 99; expected 0 to 2"),
    "label below 0": (lambda file: file["test/labels"].write_direct(np.full(6, -1)), "/test/labels: -1"),
    "no validation": (lambda file: file.pop("validation"), "/validation/inputs: is missing"),
    "no rows": (instead("test/inputs", shape=(0, 4, 4, 3), dtype=np.uint8), "expected uint8 [n,h,w,c]"),
    "fewer labels": (instead("test/labels", data=np.zeros(5, int)), "expected 6 whole numbers"),
    "labels of floats": (instead("test/labels", data=np.zeros(6)), "expected 6 whole numbers"),
    "inputs of floats": (instead("train/inputs", data=np.zeros((6, 4, 4, 3))), "float64"),
    "another size": (instead("test/inputs", data=np.zeros((6, 5, 5, 3), np.uint8)), "expected uint8 [n,h,w,c]"),
    "flat": (instead("train/inputs", data=np.zeros(6, np.uint8)), "expected uint8 [n,h,w,c]"),
    "a group": (lambda file: (file.pop("test/inputs"), file.create_group("test/inputs")), "no data set of this file"),
    "huge": (HUGE, "/test/inputs: (1000000000, 32, 32, 3) of uint8; expected at most"),
    "external link": (linked, "/test/inputs: is a link"),
    "virtual": (virtual, "/test/inputs: no data set of this file"),
    "external storage": (outside, "/test/inputs: no data set of this file"),
    "no names": (lambda file: file.pop("class_names"), "/class_names: is missing"),
    "numbers as names": (instead("class_names", data=np.arange(3)), "expected texts [classes]"),
    "bytes as names": (instead("class_names", data=[b"\xff", b"b", b"c"], dtype=h5py.string_dtype()), "no UTF-8"),
    "no mean": (lambda file: file.attrs.__delitem__("mean"), "attribute mean is []; expected 3 numbers"),
    "mean of NaN": (lambda file: file.attrs.__setitem__("mean", [np.nan] * 3), "attribute mean is [nan"),
    "no source": (lambda file: file.attrs.__delitem__("source"), "attribute source is no text"),
    "texts": (lambda file: file.attrs.__setitem__("modality", "text"), "expected a packed task of pictures"),
}
MAKERS = {
    "rotated": ["rotated", "a.h5", "--angles", "90"],
    "parts": ["parts", "a.h5", "--classes", "1", "1", "1"],
    "joined": ["joined", "a.h5", "b.h5", "--task", "both"],
}


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], out: Path) -> str:
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert main([*arguments, "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "expected" in line and len(line) < 800
    assert before == {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    return line


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("damage", DAMAGE)
def test_packed_inputs_are_checked(tmp_path, monkeypatch, capsys, maker, damage):
    monkeypatch.chdir(tmp_path)
    change, reason = DAMAGE[damage]
    packed(tmp_path / "b.h5", "b")
    with h5py.File(packed(tmp_path / "a.h5"), "r+") as file:
        change(file)
    line = refused(MAKERS[maker], capsys, tmp_path / "out")
    assert "a.h5" in line and (reason in line or damage == "another size")


@pytest.mark.parametrize("maker", MAKERS)
def test_damaged_bytes_of_packed_inputs(tmp_path, monkeypatch, capsys, maker):
    """Whichever bytes are changed, the command ends well or with one line."""
    monkeypatch.chdir(tmp_path)
    whole, rng = packed(tmp_path / "b.h5", "b").read_bytes(), np.random.default_rng(0)
    for number in range(60):
        changed = bytearray(whole)
        for place in rng.integers(0, min(len(whole), 6000), 3):
            changed[place] = rng.integers(256)
        (tmp_path / "a.h5").write_bytes(changed)
        code = main([*MAKERS[maker], "--out", str(tmp_path / f"out{number}")])
        error = capsys.readouterr().err
        assert code == 0 or (code == 2 and error.count("\n") == 1 and "a.h5" in error), error


@pytest.mark.parametrize("maker", MAKERS)
def test_an_output_that_is_there(tmp_path, monkeypatch, capsys, maker):
    """The same data again are written again; others, and inputs, stay unless --replace is given."""
    monkeypatch.chdir(tmp_path)
    packed(tmp_path / "a.h5"), packed(tmp_path / "b.h5", "b")
    out = tmp_path / "out"
    arguments = [*MAKERS[maker], "--out", str(out)]
    assert main(arguments) == main(arguments) == 0
    capsys.readouterr()
    names = {path.name: path.read_bytes() for path in out.iterdir()}
    packed(tmp_path / "a.h5", side=6), packed(tmp_path / "b.h5", "b", side=6)
    assert "is there already, with other data" in refused(MAKERS[maker], capsys, out)
    assert main([*arguments, "--replace"]) == 0
    assert {path.name for path in out.iterdir()} == set(names)
    first = sorted(names)[0]
    for path in out.iterdir():
        path.unlink()
    os.link(tmp_path / "a.h5", out / first)
    assert f"{first}: is an input too" in refused(MAKERS[maker], capsys, out)


def test_a_task_that_is_there_of_other_data(tmp_path, capsys):
    np.save(tmp_path / "head.npy", np.eye(2, 4))
    out, images = tmp_path / "out", np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "t.npz", images=images, labels=np.arange(60) % 2)
    arguments = ["arrays", str(tmp_path / "t.npz"), "--head", str(tmp_path / "head.npy")]
    assert main([*arguments, "--out", str(out)]) == main([*arguments, "--out", str(out)]) == 0
    np.savez(tmp_path / "t.npz", images=images, labels=np.arange(60) // 30)
    capsys.readouterr()
    assert "t.h5: is there already, with other data" in refused(arguments, capsys, out)
    (out / "t.h5").unlink()
    (out / "t.h5").mkdir()
    assert "t.h5: is a folder; expected a file, or none" in refused(arguments, capsys, out)


def test_the_default_tasks_replace_their_own_files_alone(tmp_path, capsys):
    packed(tmp_path / "digits.h5")
    from packed import already_built

    with pytest.raises(Exception, match="is there already, and not of this command"):
        already_built(tmp_path / "digits.h5", "digest")
    with h5py.File(tmp_path / "digits.h5", "r+") as file:
        file.attrs["built_from"] = "digest"
    assert already_built(tmp_path / "digits.h5", "digest") and not already_built(tmp_path / "digits.h5", "other")


def idx(array: np.ndarray) -> bytes:
    return struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def bomb(path: Path, bits: int = 31) -> None:
    block = gzip.compress(bytes(1 << 24))
    path.write_bytes(block * (1 << (bits - 24)))


SPECIAL: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "is a pipe, a socket or a device"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "is a pipe, a socket or a device"),
    "a folder": (lambda path: path.mkdir(), ""),  # which some commands read
    "a link to itself": (lambda path: path.symlink_to(path.name), ""),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), ""),
    "a terabyte of nothing": (sparse, ""),
    "a small gzip of gigabytes": (bomb, ""),
}


def commands(folder: Path, model: Path) -> dict[str, tuple[Path, list[str]]]:
    """A file that each command reads, and the command."""
    head = folder / "head.npy"
    np.save(head, np.eye(2, 4))
    (folder / "idx").mkdir()
    labels = np.arange(60, dtype=np.uint8) % 2
    (folder / "idx/train-labels-idx1-ubyte").write_bytes(idx(labels))
    np.savez(folder / "good.npz", images=np.zeros((60, 8, 8), np.uint8), labels=labels)
    (folder / "good.tsv").write_text("".join(f"{row % 2}\t{WORDS[0]} {row}\n" for row in range(60)))
    text = ["--text", "2", "--label", "1", "--model", str(model), "--tokens", "12"]
    good = str(folder / "good.npz")
    return {
        "idx": (folder / "idx/train-images-idx3-ubyte", ["idx", str(folder / "idx"), "--head", str(head)]),
        "npz": (folder / "set.npz", ["arrays", str(folder / "set.npz"), "--head", str(head)]),
        "head": (folder / "other.npy", ["arrays", good, "--head", str(folder / "other.npy")]),
        "tsv": (folder / "set.tsv", ["text", str(folder / "set.tsv"), *text]),
        "jsonl": (folder / "set.jsonl", ["text", str(folder / "set.jsonl"), *text]),
        "parquet": (folder / "set.parquet", ["text", str(folder / "set.parquet"), *text]),
        "classes": (folder / "c.tsv", ["text", str(folder / "good.tsv"), *text, "--classes", str(folder / "c.tsv")]),
        "rotated": (folder / "a.h5", ["rotated", str(folder / "a.h5"), "--angles", "90"]),
    }


@pytest.mark.parametrize("command", ["idx", "npz", "head", "tsv", "jsonl", "parquet", "classes", "rotated"])
def test_what_is_no_ordinary_file(tmp_path, tiny_bert, capsys, command):
    """Neither waits for a pipe for ever nor fills the memory."""
    path, arguments = commands(tmp_path, tiny_bert)[command]
    for name, (make, reason) in SPECIAL.items():
        make(path)
        line = refused(arguments, capsys, tmp_path / "out")
        assert (path.name in line or name == "a folder") and reason in line, (name, line)
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert used < 3000


NESTED = "[" * 100_000
ROWS = [{"text": f"{WORDS[0]} {row}", "label": str(row % 2)} for row in range(60)]


def arrow(folder: Path, columns: dict[str, list[object]], note: str = "") -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table(list(columns.values()), names=[name.strip() for name in columns])
    table = table.replace_schema_metadata({"huggingface": note} if note else None)
    pq.write_table(table, folder / "set.parquet")
    return folder / "set.parquet"


def not_utf8(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    bytes_column = pa.array([b"\xff\xfe"] * 60).view(pa.string())
    pq.write_table(pa.table({"text": bytes_column, "label": ["a", "b"] * 30}), folder / "set.parquet")
    return folder / "set.parquet"


def many_rows(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = pa.array(["same"] * 3_000_000)
    pq.write_table(pa.table({"text": column, "label": column}), folder / "set.parquet")
    return folder / "set.parquet"


def saved(folder: Path, state: str) -> Path:
    (folder / "set").mkdir()
    (folder / "set/state.json").write_text(state)
    return folder / "set"


def shard(folder: Path, count: str) -> Path:
    (folder / "set").mkdir()
    (folder / f"set/train-00000-of-{count}.jsonl").write_text("{}")
    return folder / "set"


def jsonl(folder: Path, line: str) -> Path:
    (folder / "set.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS) + line + "\n")
    return folder / "set.jsonl"


COLUMNS = {name: [row[name] for row in ROWS] for name in ("text", "label")}
NOTE = '{"info": {"features": {"label": {"_type": "ClassLabel", "names": ' + NESTED
TEXTS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "nested JSON": (lambda folder: jsonl(folder, NESTED), "set.jsonl:61: "),
    "nested state": (lambda folder: saved(folder, NESTED), "state.json: "),
    "data files a number": (lambda folder: saved(folder, '{"_data_files": 7}'), "state.json: _data_files names []"),
    "a file outside": (lambda folder: saved(folder, '{"_data_files": [{"filename": "../x"}]}'), "names ['../x']"),
    "a thousand million shards": (lambda folder: shard(folder, "1000000000"), "no file train"),
    "shards of many digits": (lambda folder: shard(folder, "1" + "0" * 200), "no file train"),
    "999999 shards": (lambda folder: shard(folder, "999999"), "expected each of 999999 once"),
    "one column twice": (lambda folder: arrow(folder, COLUMNS | {"label ": COLUMNS["label"]}), 'two columns "label"'),
    "bytes in a column of text": (not_utf8, "set.parquet: "),
    "millions of equal rows": (many_rows, "3000000 rows; expected at most 1000000"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts(tmp_path, tiny_bert, capsys, name):
    make, reason = TEXTS[name]
    arguments = ["text", str(make(tmp_path)), "--model", str(tiny_bert), "--tokens", "12"]
    line = refused(arguments, capsys, tmp_path / "out")
    assert reason in line and ("set" in line)


def test_notes_that_are_nested_are_no_names(tmp_path, tiny_bert):
    """What `datasets` notes is left alone where it cannot be read: labels are as they stand."""
    arguments = ["text", str(arrow(tmp_path, COLUMNS, NOTE)), "--model", str(tiny_bert), "--tokens", "12"]
    (tmp_path / "c.tsv").write_text("0\tbad\n1\tgood\n")
    assert main([*arguments, "--classes", str(tmp_path / "c.tsv"), "--out", str(tmp_path / "out")]) == 0


OPTIONS = {
    "mean beyond float32": (["--mean", "1e39"], "--mean 1e+39: expected one or three numbers"),
    "std below float32": (["--std", "1e-50"], "--std 1e-50: expected"),
    "scale beyond float32": (["--logit-scale", "1e39"], "--logit-scale 1e+39: expected at most 1e+06"),
    "scale above what the program takes": (["--logit-scale", "1e7"], "expected at most 1e+06"),
    "template without place": (["--template", "a picture"], "no {}; expected a place for the class"),
    "NUL in names": (["--class-names", "NAMES"], "has a NUL; expected other letters"),
    "source that is no UTF-8": (["--source", "\udcff"], "--source"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(tmp_path, capsys, name):
    given, reason = OPTIONS[name]
    (tmp_path / "names.txt").write_bytes(b"a\0\nb")
    np.save(tmp_path / "head.npy", np.eye(2, 4))
    np.savez(tmp_path / "t.npz", images=np.zeros((60, 8, 8), np.uint8), labels=np.arange(60) % 2)
    given = [str(tmp_path / "names.txt") if each == "NAMES" else each for each in given]
    arguments = ["arrays", str(tmp_path / "t.npz"), "--head", str(tmp_path / "head.npy"), *given]
    assert reason in refused(arguments, capsys, tmp_path / "out")


def test_two_arrays_of_one_name(tmp_path, capsys):
    import zipfile

    np.save(tmp_path / "head.npy", np.eye(2, 4))
    np.savez(tmp_path / "t.npz", images=np.zeros((60, 8, 8), np.uint8), labels=np.arange(60) % 2)
    with zipfile.ZipFile(tmp_path / "t.npz", "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("images.npy", archive.read("images.npy"))
    arguments = ["arrays", str(tmp_path / "t.npz"), "--head", str(tmp_path / "head.npy")]
    assert "two arrays images" in refused(arguments, capsys, tmp_path / "out")


def test_names_of_files_that_are_no_utf8(tmp_path):
    """The file's name goes into the attribute `source`, and onto a terminal."""
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
    folder = tmp_path / os.fsdecode(b"in\xff")
    folder.mkdir()
    np.save(tmp_path / "head.npy", np.eye(2, 4))
    np.savez(folder / os.fsdecode(b"s\xff.npz"), images=images, labels=np.arange(60) % 2)
    arguments = ["arrays", str(folder / os.fsdecode(b"s\xff.npz")), "--task", "t", "--head", str(tmp_path / "head.npy")]
    done = subprocess.run(
        [sys.executable, PREPARE, *arguments, "--out", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stderr == "" and (folder / "t.h5").is_file()


def test_a_file_that_may_not_grow(tmp_path):
    """As on a full disk: one line, and nothing half written."""
    packed(tmp_path / "a.h5", side=64)
    command = f"ulimit -f 20; exec {sys.executable} {PREPARE} rotated a.h5 --angles 90 --out out"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "out/a-90.h5" in done.stderr, done.stderr
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize("arguments", [["jonied"], ["joined", "a", "--task"], ["default", "x\x1b[2J\n" * 300]])
def test_wrong_options_get_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert stopped.value.code == 2 and line.startswith("prepare: ") and "--help says" in line
    assert len(line) <= 500 and line.isprintable()


@pytest.mark.parametrize("name", ["n" * 200 + "/" + "m" * 200 + "/" + "k" * 200, "a b " * 50])
def test_a_line_is_short_whatever_the_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Long names lose their middle."""
    assert main(["joined", str(tmp_path / name), str(tmp_path / (name + "1")), "--task", "a", "--out", "x"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert len(line) <= 500 and "expected" in line and line.startswith("prepare: ")
