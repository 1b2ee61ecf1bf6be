# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The reference of the experiment file: `taugrid keys` and docs/experiment.md hold every key that the code reads."""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import experiments
import pytest
from launch import PROGRAM, printed
from world import World

PROJECT = Path(__file__).parents[3]
READERS = "(?:required_)?(?:integer|real|word|words|name|names|flag|reals|path)|alpha_grid"


@cache
def entries() -> dict[str, dict[str, tuple[str, str, str]]]:
    """Section, key: values, default, meaning."""
    sections: dict[str, dict[str, tuple[str, str, str]]] = {}
    for line in printed("keys", "--markdown").splitlines():
        if line.startswith("## ["):
            section = sections.setdefault(line[4:-1], {})
        elif line.startswith("| `"):
            key, *rest = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
            section[key.strip("`")] = tuple(rest)
        elif line.startswith("Any of these keys"):
            section |= dict.fromkeys(line.split("`")[1].split(", "), ("", "", ""))
    return sections


def used(table: dict, name: str = "") -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        inner = f"{name}.{key}" if name else key
        if isinstance(value, dict) and (not name or name == "finetune" or inner in entries()):
            yield from used(value, inner)
        elif isinstance(value, dict) and name == "merging" and "method" in value:  # another name for it
            yield "merging.NAME", "method"
            yield from used({key: setting for key, setting in value.items() if key != "method"},
                            f"merging.{value['method']}")
        else:
            yield name, key


def known(section: str, key: str) -> bool:
    if section.startswith("finetune."):
        section = "finetune.REGIME"
    return key in entries().get(section, {})


def test_the_document_is_what_the_program_prints() -> None:
    written = (PROJECT / "docs" / "experiment.md").read_text()
    assert written == printed("keys", "--markdown"), "renew it with: taugrid keys --markdown > docs/experiment.md"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_what_cannot_be_printed_is_said() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "keys"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "taugrid: cannot write to standard output: No space left on device\n"


def test_the_text_has_the_same_keys() -> None:
    sections: dict[str, list[str]] = {}
    for line in printed("keys").splitlines():
        if line.startswith("["):
            section = sections.setdefault(line[1:-1], [])
        elif re.fullmatch(r"  \w+", line):
            section.append(line.strip())
    documented = {section: list(keys) for section, keys in entries().items() if section != "finetune.REGIME"}
    assert documented == {section: keys for section, keys in sections.items() if section != "finetune.REGIME"}


def test_every_reader_is_listed() -> None:
    """Readers that the description does not come by would be missing: each literal key in the sources is there."""
    listed = {key for section in entries().values() for key in section}
    listed |= set(re.findall(r"^\| `(\w+)`", printed("keys", "--recipe", "--markdown"), re.MULTILINE))
    others = ("config", "models", "nets", "plan")  # read no experiment files, or no key by its name
    sharing = "numbered|read_marks|read_wide_alpha|folder_or"
    reading = re.compile(rf'(?:(?:\.|->)(?:{READERS})\(|(?:{sharing})\(\s*\*?section,)\s*"(\w+)"')
    read = {match for path in (PROJECT / "suite").rglob("*.cpp") if path.parts[-2] not in others
            for match in reading.findall(path.read_text())}
    assert len(read) > 40
    assert read == listed


@pytest.mark.parametrize("experiment", experiments.SHIPPED, ids=experiments.name)
def test_our_experiments_use_listed_keys(experiment: Path) -> None:
    for section, key in used(experiments.read(experiment)):
        assert known(section, key), f"{section}.{key}"


def test_a_runs_own_configuration_is_listed_with_its_defaults(world: World, run_folder: Path) -> None:
    resolved = tomllib.loads((run_folder / "config.toml").read_text())
    given = set(used(tomllib.loads(world.experiment.read_text())))
    compared = 0
    for section, key in used(resolved):
        assert known(section, key), f"{section}.{key}"
        values, default, meaning = entries()[section].get(key, ("", "", "")) if section in entries() else ("", "", "")
        if (section, key) in given or not default or not re.fullmatch(r'[\d.e+-]+|".*"|true|false', default):
            continue
        assert tomllib.loads(f"x = {default}")["x"] == resolved[section][key], f"{section}.{key}"
        assert values and meaning
        compared += 1
    assert compared >= 15
