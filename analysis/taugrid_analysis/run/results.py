# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One results.h5, checked; its groups handed out as xarray data sets.

Everything is driven by the groups that exist: a regime is whatever name stands below /similarity, /addition
and so on. A group that is absent reads as None; one that is there but broken is an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import label, locate
from taugrid_analysis.numbers.arrays import Array, Floats
from taugrid_analysis.quantities import groups
from taugrid_analysis.run import correctness
from taugrid_analysis.run.correctness import Correct
from taugrid_analysis.run.datasets import Reader
from taugrid_analysis.run.group import Group
from taugrid_analysis.run.model import Model, Unit
from taugrid_analysis.run.regimes import STARTS, Regime, described, ordered
from taugrid_analysis.run.store import Store

BY_REGIME = (
    "single_task",
    "similarity",
    "disentanglement",
    "representation",
    "linearity",
    "smoothness",
    "addition",
    "pair_addition",
    "negation",
    "tau_jp",
    "training",
)
NEWEST = 2  # schema_version; older ones are read with what they have
ROOT_ATTRIBUTES = ("taugrid_version", "git_revision", "command_line", "started_utc", "finished_utc")


class Results:
    """One file, open for reading: names, provenance, and the groups by their names."""

    def __init__(self, run: Path) -> None:
        self.path = locate(run)
        self._store = Store(self.path)
        self.schema = self._check_root()
        self.tasks = [label(name) for name in self._store.table("/tasks/name")]
        of_data = "/tasks/data" if self._store.has("/tasks/data") else "/tasks/name"
        self.sources = [label(name) for name in self._store.table(of_data)]  # the names of their data
        self.classes = self._store.array("/tasks/classes", (len(self.tasks),)).astype(int)
        has_metric = self._store.has("/tasks/metric")  # of tasks that are answered by texts
        metrics = self._store.table("/tasks/metric") if has_metric else ["accuracy"] * len(self.tasks)
        self.metrics = [label(name) for name in metrics]
        has_group = self._store.has("/tasks/group")
        named = self._store.table("/tasks/group") if has_group else [""] * len(self.tasks)
        self.groups = [label(name) for name in named]  # as the data sets name them, "" where they do not
        for name in self.tasks:
            if self.tasks.count(name) > 1:
                raise InputError(
                    f"two tasks are called {name}", self._store.where("/tasks/name"), "each once"
                )
        self.pairs = self._pairs()
        self._described: dict[str, Regime] = {}
        pairs = [self.pair_name(p) for p in range(len(self.pairs))]
        self._reader = Reader(self._store, self.tasks, pairs, lambda name: self.regime(name).joint)
        self._read: dict[tuple[str, ...], xr.Dataset] = {}
        self._correct: dict[str, Correct | None] = {}
        self.start = self._start()
        self.regimes = self._regimes()

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._store.close()

    def data(self, group: str, name: str, *extra: str) -> xr.Dataset | None:
        """/GROUP/NAME with the dimensions that its quantity names, or None where the run did not measure it.

        A group about pairs is nothing in a run without any.

        extra: large variables, which are not read unless they are named, such as the NTK's "gram".
        """
        if not self._store.has(f"/{group}/{name}") or self._empty(group):
            return None
        key = (group, name, *extra)
        if key not in self._read:
            self._read[key] = self._reader.read(group, name, extra)
        return self._read[key]

    def twin(self, group: str, regime: str) -> xr.Dataset | None:
        """The group of a regime, or of one with the same task vectors: cosines and J(x)τ are alike."""
        data, other = self.data(group, regime), self.same_vectors(regime)
        return data if data is not None or other is None else self.data(group, other)

    def regime(self, name: str) -> Regime:
        """What a regime is, as the file says."""
        if name not in self._described:
            self._described[name] = described(name, self._store.attributes)
        return self._described[name]

    def same_vectors(self, regime: str) -> str | None:
        """The other regime of the file with the same task vectors."""
        vectors = self.regime(regime).vectors_of
        return next(
            (name for name in self.regimes if name != regime and self.regime(name).vectors_of == vectors),
            None,
        )

    def columns(self, group: str, regime: str, variables: Mapping[str, str]) -> dict[str, Array]:
        """Variables of a number a task under the names of columns; NaN where they were not measured."""
        data, nothing = self.data(group, regime), np.full(len(self.tasks), np.nan)
        return {
            column: data[name].to_numpy() if data is not None and name in data else nothing
            for column, name in variables.items()
        }

    def nothing(self) -> Floats:
        """NaN for every pair."""
        return np.full(len(self.pairs), np.nan)

    @property
    def models(self) -> list[str]:
        """θ0, the regimes, and models that were trained on all tasks."""
        return [
            self.start,
            *self.regimes,
            *(name for name in self.names("multitask") if self.regime(name).joint),
        ]

    def correct(self, path: str) -> Correct | None:
        """The per-point correctness beside a data set of accuracies, such as single_task/linear/accuracy."""
        group, name, *rest = path.split("/")
        if self._known(group).by_method:
            name, rest = f"{name}/{rest[0]}", rest[1:]
        data = self.data(group, name)
        key = "_".join(rest)  # of wide/target: wide_target
        if data is None or key not in data:
            return None
        if path not in self._correct:
            self._correct[path] = correctness.read(self._store, path, data[key].to_numpy())
        return self._correct[path]

    def positive(self, data: xr.Dataset, name: str) -> float:
        """A number of a group that cannot be negative."""
        value = float(data[name])
        if not value >= 0:
            where = self._store.where(f"{data.encoding['source']}/{name}")
            raise InputError(f"is {value:g}", where, "a number of 0 or more")
        return value

    def names(self, group: str) -> list[str]:
        """What stands below /GROUP: regimes in their usual order, then anything else."""
        return [] if self._empty(group) else ordered(set(self._store.names(group)))

    def by_method(self, group: str) -> list[str]:
        """METHOD/REGIME, of a group whose names have two steps."""
        return [
            f"{method}/{name}"
            for method in self.names(group)
            for name in ordered(set(self._store.names(f"{group}/{method}")))
        ]

    def members(self, group: str) -> list[str]:
        """What data() takes of a group: names, or METHOD/REGIME where they have two steps."""
        return self.by_method(group) if self._known(group).by_method else self.names(group)

    def _known(self, group: str) -> Group:
        return groups().get(group, Group({}))

    def _empty(self, group: str) -> bool:
        """Whether the group tells of pairs, of which this run has none."""
        return not len(self.pairs) and self._known(group).of_pairs

    def need(self, group: str, what: str) -> None:
        """For a command that cannot do without the group."""
        if not self.names(group):
            raise InputError("is missing or empty", f"{self.path}:/{group}", what)

    def majority(self) -> Array | None:
        """[T]: the share of each task's test points that its most frequent class has, where it is stored."""
        if not self._store.has("/tasks/majority"):
            return None
        return self._store.array("/tasks/majority", (len(self.tasks),)).astype(float)

    def has(self, path: str) -> bool:
        return self._store.has(path)

    def attributes(self, path: str) -> dict[str, Any]:
        return self._store.attributes(path)

    def pair_name(self, pair: int) -> str:
        first, second = self.pairs[pair]
        return f"{self.tasks[first]} + {self.tasks[second]}"

    def root(self, name: str) -> str:
        return label(self._store.attributes("/")[name])

    def provenance(self) -> dict[str, str]:
        return {key: label(value) for key, value in sorted(self._store.attributes("provenance").items())}

    def hosts(self) -> list[str]:
        """One a rank."""
        return [part for part in self.provenance().get("hosts", "").split(", ") if part]

    def seeds(self) -> list[str]:
        provenance = self.provenance()
        joined = provenance.get("seeds", provenance.get("seed", ""))
        return [part for part in joined.replace(",", " ").split() if part]

    def model(self) -> Model | None:
        if not self._store.has("model"):
            return None

        def need(name: str) -> str:
            return label(self._store.attribute("/model", name, "the model's identity"))

        parameters = need("parameters")
        if not parameters.isdecimal():
            raise InputError(f"parameters is {parameters}", self._store.where("/model"), "a whole number")
        return Model(
            architecture=need("architecture"),
            name=need("name"),
            parameters=int(parameters),
            init=need("init"),
            fingerprint=need("fingerprint"),
            drawn_as=label(self._store.attributes("model").get("drawn_as", "hugging_face")),
        )

    def units(self) -> list[Unit]:
        if not self._store.has("units"):
            return []
        rows = self._store.table("/units")
        missing = {"key", "rank", "seconds", "device"} - set(rows.dtype.names or ())
        if missing:
            raise InputError(f"lacks {sorted(missing)}", f"{self.path}:/units", "key, rank, seconds, device")
        # Older files have none, nor files of machines without counters.
        counted = {"joules", "energy_source"} <= set(rows.dtype.names or ())
        return [
            Unit(
                label(row["key"]),
                int(row["rank"]),
                float(row["seconds"]),
                label(row["device"]),
                float(row["joules"]) if counted else math.nan,
                label(row["energy_source"]) if counted else "",
            )
            for row in rows
        ]

    def _check_root(self) -> int:
        attributes = self._store.attributes("/")
        readable = f"1 to {NEWEST}, which this program reads"
        if "schema_version" not in attributes:
            raise InputError("attribute schema_version is missing", self.path, readable)
        schema = label(attributes["schema_version"])
        if schema not in {str(version) for version in range(1, NEWEST + 1)}:
            raise InputError(f"schema_version is {schema}", self.path, readable)
        for name in ROOT_ATTRIBUTES:
            if name not in attributes:
                raise InputError(f"attribute {name} is missing", self.path, "a complete results.h5")
        return int(schema)

    def _pairs(self) -> Array:
        """[P,2]: those that were measured, if any, in the file's order, either task first."""
        path, count = "/pairs/tasks", len(self.tasks)
        of_pairs = (name for name, group in groups().items() if group.of_pairs)
        if not self._store.has(path) and (count == 1 or not any(self._store.has(name) for name in of_pairs)):
            return np.empty((0, 2), dtype=int)
        where = self._store.where(path)
        pairs = self._store.array(path, (None, 2))
        if pairs.dtype.kind not in "iu" or np.any((pairs < 0) | (pairs >= count)):
            raise InputError("holds no tasks' numbers", where, f"whole numbers below {count}")
        sides = [frozenset(pair) for pair in pairs.tolist()]
        if len(set(sides)) < len(sides) or any(len(side) < 2 for side in sides):
            raise InputError("lists a pair twice, or a task with itself", where, "pairs of tasks")
        return pairs.astype(int)

    def _start(self) -> str:
        """θ0's name: as its accuracies are stored, else as /model states it."""
        stored = [name for name in STARTS if self._store.has(f"single_task/{name}")]
        model = None if stored else self.model()
        return stored[0] if stored else model.init if model is not None else STARTS[0]

    def _regimes(self) -> list[str]:
        names: set[str] = set()
        for group in BY_REGIME:
            names |= {
                name
                for name in self._store.names(group)
                if name not in STARTS and not self.regime(name).joint
            }
        return ordered(names)
