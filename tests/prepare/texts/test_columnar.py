# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Texts in Parquet, and in folders as `datasets.save_to_disk` writes them, give what the same texts in TSV give."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from test_text import prepared, table, write_tsv

from command import main
from splits import SPLIT_NAMES

Rows = list[dict[str, Any]]
NAMES = ["neg", "pos"]


def arrow(rows: Rows, named: bool = True) -> Any:
    """Labels as numbers of named classes, which the schema's metadata tell as `datasets` does."""
    numbered = [{**row, "mood": NAMES.index(row["mood"]) if row["mood"] in NAMES else -1} for row in rows]
    features = {"mood": {"names": NAMES, "_type": "ClassLabel"}, "text": {"dtype": "string", "_type": "Value"}}
    note = {b"huggingface": json.dumps({"info": {"features": features}}).encode()} if named else {}
    table = pa.Table.from_pylist(numbered if named else rows)
    return table.replace_schema_metadata(note)


def write_parquet(path: Path, rows: Rows) -> Path:
    pa.parquet.write_table(arrow(rows), path, row_group_size=37)
    return path


def write_saved(folder: Path, rows: Rows, shards: int = 2) -> Path:
    """What Dataset.save_to_disk leaves."""
    folder.mkdir(parents=True)
    files = [f"data-{i:05}-of-{shards:05}.arrow" for i in range(shards)]
    size = -(-len(rows) // shards)
    for i, name in enumerate(files):
        part = arrow(rows[i * size : (i + 1) * size])
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, part.schema) as writer:
            writer.write_table(part, max_chunksize=50)
    state = {"_data_files": [{"filename": name} for name in files], "_fingerprint": "0", "_split": folder.name}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def write_saved_splits(folder: Path, parts: dict[str, Rows]) -> Path:
    for name, rows in parts.items():
        write_saved(folder / name, rows)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(parts)}))
    return folder


def arrays(file: h5py.File) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for split in SPLIT_NAMES:
        contents |= {f"{split}/{name}": node[()].tobytes() for name, node in file[split].items()}
    return contents


WRITERS: dict[str, Callable[[Path, Rows], Path]] = {
    "parquet": lambda folder, rows: write_parquet(folder / "in.parquet", rows),
    "saved": lambda folder, rows: write_saved(folder / "in", rows),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_one_set_gives_what_tsv_gives(tmp_path: Path, tiny_bert: Path, kind: str) -> None:
    arguments = ["--per-class", "20", "--group", "document", "--seed", "3"]
    with prepared(write_tsv(tmp_path / "in.tsv", table()), tiny_bert, tmp_path / "tsv", *arguments) as file:
        expected = arrays(file)
    with prepared(WRITERS[kind](tmp_path, table()), tiny_bert, tmp_path / "out", *arguments) as file:
        assert arrays(file) == expected
        assert [name.decode() for name in file["class_names"]] == NAMES
        assert np.bincount(file["train/labels"][()]).tolist() == [20, 20]


def test_splits_of_several_files_and_of_a_dictionary(tmp_path: Path, tiny_bert: Path) -> None:
    rows = table()
    parts = {"train": rows[:120], "validation": rows[120:150], "test": rows[150:]}
    for name in ("tsv", "shards"):
        (tmp_path / name).mkdir()
    for split, some in parts.items():
        write_tsv(tmp_path / "tsv" / f"{split}.tsv", some)
        half = len(some) // 2
        write_parquet(tmp_path / "shards" / f"{split}-00000-of-00002.parquet", some[:half])
        write_parquet(tmp_path / "shards" / f"{split}-00001-of-00002.parquet", some[half:])
    write_saved_splits(tmp_path / "saved", {**parts, "unsupervised": rows[:3]})
    packed = []
    for name in ("tsv", "shards", "saved"):
        with prepared(tmp_path / name, tiny_bert, tmp_path / "out") as file:
            packed.append(arrays(file))
            assert [len(file[f"{split}/labels"]) for split in SPLIT_NAMES] == [120, 30, 50]
    assert packed[0] == packed[1] == packed[2]


def test_bad_columnar_input_gets_one_clear_line(
    tmp_path: Path, tiny_bert: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def folder(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    rows = table()
    (tmp_path / "no.parquet").write_bytes(b"PAR1 and nothing else")
    write_parquet(folder("half") / "train-00000-of-00002.parquet", rows)
    write_parquet(folder("twice") / "train.parquet", rows)
    write_tsv(tmp_path / "twice" / "train.tsv", rows)
    lacking = write_saved(tmp_path / "lacking", rows)
    (lacking / "data-00001-of-00002.arrow").unlink()
    broken = write_saved(tmp_path / "broken", rows)
    (broken / "data-00000-of-00002.arrow").write_bytes(b"\xff\xff\xff\xff\x10\x00\x00\x00 no stream of Arrow")
    outside = write_saved(tmp_path / "outside", rows)
    (outside / "state.json").write_text('{"_data_files": [{"filename": "../in.arrow"}]}')
    old = write_saved(tmp_path / "old", rows)
    state = json.loads((old / "state.json").read_text())
    (old / "state.json").write_text(json.dumps({**state, "_indices_data_files": [{"filename": "indices.arrow"}]}))
    splits = write_saved_splits(tmp_path / "splits", {"train": rows})
    (splits / "dataset_dict.json").write_text('{"splits": ["../train"]}')
    cases = {
        "no Parquet": (tmp_path / "no.parquet", "expected Parquet"),
        "a shard is missing": (tmp_path / "half", "1 files train-…-of-…; expected each of 2 once"),
        "two kinds": (tmp_path / "twice", "two files of one split"),
        "a file is missing": (lacking, "data-00001-of-00002.arrow: "),
        "no Arrow": (broken, "expected an Arrow stream"),
        "a path outside": (outside, "expected Arrow files beside it"),
        "chosen rows": (old, "rows are chosen by _indices_data_files"),
        "splits outside": (splits, "splits is ['../train']; expected a list of names"),
        "no label": (write_parquet(tmp_path / "none.parquet", [{**rows[0], "mood": ""}]), 'the label "" means none'),
    }
    for name, (source, expected) in cases.items():
        arguments = ["--label", "mood", "--tokens", "12", "--model", str(tiny_bert), "--out", str(tmp_path / "out")]
        assert main(["text", str(source), *arguments]) == 2, name
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and expected in captured.err, (name, captured.err)
        assert not (tmp_path / "out").exists(), name
