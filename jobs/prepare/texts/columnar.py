# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Rows of Parquet files and of folders that `datasets.save_to_disk` writes, by pyarrow alone. Labels that such a file
stores as numbers of named classes are told by their names."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from errors import InputError, one_line, shown
from walk import regular

ROWS = 4096  # at a time
ROWS_ALWAYS = 1_000_000  # rows that a file of any size may hold; of more each takes a byte at least
STATE, SPLITS = "state.json", "dataset_dict.json"


def pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError("pyarrow is not installed; expected what jobs/packages/python.txt lists") from None
    return pyarrow


def read_object(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: {one_line(error)}; expected what datasets.save_to_disk writes") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: holds {type(content).__name__}; expected what datasets.save_to_disk writes")
    return content


def is_saved(folder: Path) -> bool:
    """Whether datasets.save_to_disk wrote it."""
    return (folder / STATE).is_file() or (folder / SPLITS).is_file()


def saved_splits(folder: Path) -> dict[str, Path]:
    """Folders of a saved DatasetDict by the names of its splits; of a saved Dataset itself, by ""."""
    if not (folder / SPLITS).is_file():
        return {"": folder}
    names = read_object(folder / SPLITS).get("splits")
    if not isinstance(names, list) or not all(isinstance(each, str) and _plain(each) for each in names):
        raise InputError(f"{folder / SPLITS}: splits is {names}; expected a list of names")
    return {name: folder / name for name in names}


def _plain(name: str) -> bool:
    return bool(name) and "/" not in name and not name.startswith(".")


def named_classes(schema: Any) -> dict[str, list[str]]:
    """Columns of ClassLabel with their names, as `datasets` notes them in a file's schema."""
    note = (schema.metadata or {}).get(b"huggingface")
    try:
        features = json.loads(note)["info"]["features"] if note else {}
        classes = {
            name: [str(label) for label in feature["names"]]
            for name, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        }
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return classes


def _rows(batches: Iterator[Any], schema: Any) -> Iterator[Mapping[str, Any]]:
    classes = named_classes(schema)
    for batch in batches:
        for row in batch.to_pylist():  # raises UnicodeDecodeError and others where bytes are no text
            for name, names in classes.items():
                number = row.get(name)
                if isinstance(number, int):  # −1 stands for none
                    row[name] = names[number] if 0 <= number < len(names) else None
            yield row


def parquet_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Row number, from 1 on, and columns."""
    arrow = pyarrow()
    regular(path, "a Parquet file")
    try:
        with arrow.parquet.ParquetFile(path) as file:
            most = max(ROWS_ALWAYS, path.stat().st_size)
            if file.metadata.num_rows > most:
                raise InputError(f"{path}: {file.metadata.num_rows} rows; expected at most {most} in such a small file")
            yield from enumerate(_rows(file.iter_batches(ROWS), _once(file.schema_arrow, path)), 1)
    except InputError:
        raise
    except Exception as error:  # a damaged file makes pyarrow raise nearly anything
        raise InputError(f"{path}: {one_line(error)}; expected Parquet") from None


def _once(schema: Any, path: Path) -> Any:
    """The schema, unless two columns have one name."""
    if twice := [name for name in schema.names if schema.names.count(name) > 1]:
        raise InputError(f'{path}: two columns "{shown(twice[0])}"; expected each name once')
    return schema


def saved_rows(folder: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The same of a folder with state.json, whose Arrow files are streams."""
    arrow = pyarrow()
    state = read_object(folder / STATE)
    listed = state.get("_data_files")
    files = [entry.get("filename") for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    if not files or not all(isinstance(name, str) and _plain(name) for name in files):
        raise InputError(f"{folder / STATE}: _data_files names {files}; expected Arrow files beside it")
    if state.get("_indices_data_files"):
        raise InputError(
            f"{folder / STATE}: rows are chosen by _indices_data_files, as old versions wrote; "
            "expected one saved again by a later one"
        )
    number = 0
    for name in files:
        path = folder / name
        regular(path, "an Arrow stream")
        try:
            with arrow.memory_map(str(path)) as held, arrow.ipc.open_stream(held) as stream:
                for row in _rows(iter(stream), _once(stream.schema, path)):
                    number += 1
                    yield number, row
        except InputError:
            raise
        except Exception as error:  # as of Parquet
            raise InputError(f"{path}: {one_line(error)}; expected an Arrow stream") from None
