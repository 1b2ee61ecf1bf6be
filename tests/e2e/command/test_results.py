# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""`taugrid results` and docs/results.md say what results.h5 holds, and a run's file holds nothing else."""

import json
import re
from functools import cache
from pathlib import Path

import h5py
import launch
import numpy as np
import pytest

PROJECT = Path(__file__).parents[3]
TYPES = {"float32", "float64", "int32", "int64", "uint8", "text", "table", "attribute"}
NOT_DECLARED = {"CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "DIMENSION_LABELS", "units"}  # HDF5's own


@cache
def declared() -> list[dict]:
    return json.loads(launch.printed("results", "--json"))


@cache
def patterns() -> list[tuple[re.Pattern[str], dict]]:
    """What the path of each declared output looks like."""
    pairs = []
    for entry in declared():
        words = re.split(r"([/@])", entry["path"])
        pattern = "".join(f"(?P<{word}>[^/@]+)" if word.isupper() else re.escape(word) for word in words)
        pairs.append((re.compile(pattern), entry))
    return pairs


def declarations(path: str) -> list[tuple[dict, dict[str, str]]]:
    """The declared outputs of a path, each with the names that words in capitals stand for in it."""
    matches = ((pattern.fullmatch(path), entry) for pattern, entry in patterns())
    return [(entry, match.groupdict()) for match, entry in matches if match]


def with_names(role: str, names: dict[str, str]) -> str:
    return "_".join(names.get(word, word) for word in role.split("_"))


def is_as_declared(item: h5py.Dataset, entry: dict, names: dict[str, str]) -> bool:
    text = h5py.check_string_dtype(item.dtype) is not None
    kind = "table" if item.dtype.names else "text" if text else item.dtype.name
    labels = [dimension.label for dimension in item.dims]
    roles = [with_names(role, names) for role in entry["dimensions"]]
    return (kind == entry["type"] and item.attrs.get("units", "") == entry["unit"] and len(roles) == item.ndim
            and (bool(item.is_scale) or labels == roles))


@pytest.mark.parametrize("fixture", ["run_folder", "papers_folder"])
def test_a_file_holds_what_is_declared_and_nothing_else(fixture: str, request: pytest.FixtureRequest) -> None:
    data_sets, attributes = [], []
    with h5py.File(request.getfixturevalue(fixture) / "results.h5") as file:
        attributes += [f"/@{name}" for name in file.attrs]

        def look(name: str, item: h5py.Dataset | h5py.Group) -> None:
            attributes.extend(f"/{name}@{each}" for each in item.attrs if each not in NOT_DECLARED)
            if not isinstance(item, h5py.Dataset):
                return
            data_sets.append(name)
            assert any(is_as_declared(item, *each) for each in declarations(f"/{name}")), name

        file.visititems(look)
    assert len(data_sets) > 100
    for path in attributes:
        assert (path.startswith("/correct/") and path.endswith("@points")) or declarations(path), path


def test_the_document_is_what_the_program_prints() -> None:
    written = (PROJECT / "docs" / "results.md").read_text()
    printed = launch.printed("results", "--markdown")
    assert written == printed, "renew it with: taugrid results --markdown > docs/results.md"


def test_every_path_is_declared_once() -> None:
    seen = [(entry["path"], len(entry["dimensions"])) for entry in declared() if entry["type"] != "attribute"]
    assert len(seen) == len(set(seen)) > 200
    for entry in declared():
        assert entry["type"] in TYPES and entry["meaning"] and entry["since"] in (1, 2), entry
        assert entry["path"].startswith("/") and not entry["path"].endswith("/"), entry
        if entry["type"].startswith("float"):
            assert np.dtype(entry["type"]).itemsize in (4, 8)


def test_text_and_tables_have_the_same_paths() -> None:
    in_text, in_tables, groups = [], [], ["", ""]
    for line in launch.printed("results").splitlines():
        if line.startswith("/"):
            groups[0] = line
        elif match := re.match(r"  @?([^\s,]+)( \[[\w, ]*\])?, (attribute|text|table|u?int|float)", line):
            in_text.append((groups[0], match[1]))
    for line in launch.printed("results", "--markdown").splitlines():
        if line.startswith("## "):
            groups[1] = line[3:]
        elif match := re.match(r"\| `(\S+)` \|", line):
            in_tables.append((groups[1], match[1]))
    assert in_text == in_tables
    assert len(in_text) == sum(not entry["path"].startswith("/correct/") for entry in declared())


def test_conditions_name_sections_of_the_experiment_file() -> None:
    listed = launch.printed("keys")
    sections = set(re.findall(r"^\[([\w.]+)\]$", listed, re.MULTILINE))
    named = {name for entry in declared() for name in re.findall(r"\[([a-z_.]+)\]", entry["when"])}
    assert len(named) > 20 and named <= sections, named - sections
