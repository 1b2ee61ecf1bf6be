"""Task declarations: jobs/tasks/NAME.toml."""

import hashlib
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from errors import InputError

TASKS = Path(__file__).resolve().parents[2] / "tasks"
REQUIRED = ("title", "label", "split_key", "license", "templates", "source", "classes")


@dataclass
class Class:
    name: str
    phrase: str
    match: list[str]


@dataclass
class Declaration:
    name: str
    title: str
    label: str
    split_key: str
    license: str
    templates: list[str]
    packages: list[str]
    source: str
    classes: list[Class]
    control: bool = False
    caps: dict[str, int] = field(default_factory=dict)
    digest: str = ""

    @property
    def class_of(self) -> dict[str, int]:
        """Maps what the source calls a class to the class's number."""
        return {match: number for number, each in enumerate(self.classes) for match in each.match}


def read(name: str) -> Declaration:
    path = TASKS / f"{name}.toml"
    try:
        text = path.read_bytes()
        table: dict[str, Any] = tomllib.loads(text.decode())
    except FileNotFoundError:
        raise InputError(
            f"task {name}: no declaration jobs/tasks/{name}.toml; expected one of {', '.join(names())}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"jobs/tasks/{name}.toml: {error}; expected TOML") from None
    for required in REQUIRED:
        if required not in table:
            raise InputError(f"jobs/tasks/{name}.toml: {required} is missing; expected {', '.join(REQUIRED)}")
    classes = [
        Class(entry["name"], entry.get("phrase", entry["name"]), [str(m) for m in entry.get("match", [entry["name"]])])
        for entry in table["classes"]
    ]
    return Declaration(
        name=name,
        title=table["title"],
        label=table["label"],
        split_key=table["split_key"],
        license=table["license"],
        templates=table["templates"],
        packages=[source["package"] for source in table["source"]],
        source="; ".join(f"{s['registry']} {s['package']} {s['version']}" for s in table["source"]),
        classes=classes,
        control=table.get("control", False),
        caps=table.get("caps", {}),
        digest=hashlib.sha256(text).hexdigest(),
    )


def names() -> list[str]:
    """All declared tasks: the eight in alphabetical order, then the control task."""
    declared = sorted(path.stem for path in TASKS.glob("*.toml"))
    return sorted(declared, key=lambda name: ("control = true" in (TASKS / f"{name}.toml").read_text(), name))
