# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads results.h5, checks it against the contract, and hands out named arrays.

Everything is driven by the groups that exist: a regime is whatever name stands below /similarity,
/addition and so on. A group that is absent reads as None; one that is there but broken is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import locate, text
from taugrid_analysis.records import (
    NTK,
    Addition,
    Array,
    Disentanglement,
    Model,
    Similarity,
    SingleTask,
    Smoothness,
    Training,
    Unit,
)

SCHEMA_VERSION = 1
ROOT_ATTRIBUTES = (
    "taugrid_version",
    "git_revision",
    "command_line",
    "started_utc",
    "finished_utc",
)
BY_REGIME = ("single_task", "similarity", "disentanglement", "smoothness", "addition", "training")
KNOWN_REGIMES = ("standard", "posthoc", "linear")
STARTS = ("pretrained", "random")  # names of θ0, which stand beside the regimes


class Results:
    """One results.h5, open for reading."""

    def __init__(self, run: Path) -> None:
        self.path = locate(run)
        try:
            self._file = h5py.File(self.path, "r")
        except OSError as error:
            raise InputError(
                f"not readable as HDF5 ({' '.join(str(error).split())})", self.path, "a complete results.h5"
            ) from error
        self._check_root()
        self.tasks = [text(name) for name in self._vector("/tasks/name")]
        count = len(self.tasks)
        self.classes = self._array("/tasks/classes", (count,)).astype(int)
        pair_count = count * (count - 1) // 2
        self.pairs = self._array("/pairs/tasks", (pair_count, 2)).astype(int)
        expected = [(i, j) for i in range(count) for j in range(i + 1, count)]
        if [tuple(pair) for pair in self.pairs] != expected:
            raise InputError("pairs out of order", f"{self.path}:/pairs/tasks", "(0,1), (0,2), …")
        self.start = self._start()
        self.regimes = self._regimes()

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    # ---- the whole file ----------------------------------------------------------------------------

    def _check_root(self) -> None:
        attributes = self._file.attrs
        if "schema_version" not in attributes:
            raise InputError("attribute schema_version is missing", self.path, f"{SCHEMA_VERSION}")
        found = text(attributes["schema_version"])
        if found != str(SCHEMA_VERSION):
            raise InputError(
                f"schema_version is {found}", self.path, f"{SCHEMA_VERSION}, which this program reads"
            )
        for name in ROOT_ATTRIBUTES:
            if name not in attributes:
                raise InputError(f"attribute {name} is missing", self.path, "a complete results.h5")

    def root(self, name: str) -> str:
        return text(self._file.attrs[name])

    def provenance(self) -> dict[str, str]:
        if "provenance" not in self._file:
            return {}
        return {str(key): text(value) for key, value in sorted(self._file["provenance"].attrs.items())}

    def hosts(self) -> list[str]:
        """One a rank."""
        if "provenance" not in self._file:
            return []
        found = self._file["provenance"].attrs.get("hosts", [])
        return [text(host) for host in np.atleast_1d(np.asarray(found, dtype=object))]

    def seeds(self) -> list[str]:
        found = self.provenance()
        joined = found.get("seeds", found.get("seed", ""))
        return [part for part in joined.replace(",", " ").split() if part]

    def model(self) -> Model | None:
        if "model" not in self._file:
            return None
        attributes = self._file["model"].attrs
        for name in ("architecture", "name", "parameters", "init", "fingerprint"):
            if name not in attributes:
                raise InputError(
                    f"attribute {name} is missing", f"{self.path}:/model", "the model's identity"
                )
        return Model(
            architecture=text(attributes["architecture"]),
            name=text(attributes["name"]),
            parameters=int(attributes["parameters"]),
            init=text(attributes["init"]),
            fingerprint=text(attributes["fingerprint"]),
        )

    def _start(self) -> str:
        """θ0's name: as its accuracies are stored, else as /model states it."""
        stored = [name for name in STARTS if self._has("single_task", name)]
        model = None if stored else self.model()
        return stored[0] if stored else model.init if model is not None else STARTS[0]

    def _regimes(self) -> list[str]:
        found: set[str] = set()
        for group in BY_REGIME:
            if group in self._file:
                found |= {str(name) for name in self._file[group] if name not in STARTS}
        known = [name for name in KNOWN_REGIMES if name in found]
        return known + sorted(found - set(known))

    def names(self, group: str) -> list[str]:
        """What stands below /GROUP: regimes in their usual order, then anything else."""
        if group not in self._file:
            return []
        present = {str(name) for name in self._file[group]}
        return [name for name in self.regimes if name in present] + sorted(present - set(self.regimes))

    def need(self, group: str, what: str) -> None:
        """For a command that cannot do without the group."""
        if not self.names(group):
            raise InputError("is missing or empty", f"{self.path}:/{group}", what)

    # ---- one data set ------------------------------------------------------------------------------

    def _vector(self, path: str) -> Any:
        if path not in self._file:
            raise InputError("is missing", f"{self.path}:{path}", "a data set of schema 1")
        node = self._file[path]
        if not isinstance(node, h5py.Dataset):
            raise InputError("is a group", f"{self.path}:{path}", "a data set")
        return node[()]

    def _array(self, path: str, shape: tuple[int | None, ...]) -> Array:
        """The data set as it is stored; None in `shape` stands for any length."""
        values = np.asarray(self._vector(path))
        fits = len(values.shape) == len(shape) and all(
            want in (None, have) for want, have in zip(shape, values.shape, strict=True)
        )
        if not fits:
            wanted = "[" + ", ".join("any" if want is None else str(want) for want in shape) + "]"
            raise InputError(f"has shape {list(values.shape)}", f"{self.path}:{path}", f"shape {wanted}")
        return values

    def _scalar(self, path: str) -> float:
        return float(self._array(path, ()))

    def _has(self, *parts: str) -> bool:
        return "/".join(parts) in self._file

    def _samples(self, group: str) -> int | None:
        """Points a task, where the group says which were sampled."""
        path = f"{group}/sample_index"
        return int(self._file[path].shape[1]) if path in self._file else None

    # ---- one group a method ------------------------------------------------------------------------

    def single_task(self, regime: str) -> SingleTask | None:
        group = f"/single_task/{regime}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        return SingleTask(
            accuracy=self._array(f"{group}/accuracy", (count,)),
            loss=self._array(f"{group}/loss", (count,)),
            samples=self._samples(group),
        )

    def similarity(self, regime: str) -> Similarity | None:
        group = f"/similarity/{regime}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        gap = f"{group}/loss_gap"
        return Similarity(
            cosine=self._array(f"{group}/cosine", (count, count)),
            norm=self._array(f"{group}/norm", (count,)),
            norm_ratio=self._array(f"{group}/norm_ratio", (count,)),
            loss_gap=self._array(gap, (len(self.pairs), 2)) if gap in self._file else None,
        )

    def disentanglement(self, regime: str) -> Disentanglement | None:
        group = f"/disentanglement/{regime}"
        if group not in self._file:
            return None
        alpha = self._array(f"{group}/alpha", (None,))
        size, pairs = len(alpha), len(self.pairs)
        if size < 2 or np.any(np.diff(alpha) <= 0):
            raise InputError("is not increasing", f"{self.path}:{group}/alpha", "at least 2 coefficients")
        metric = self._file[group].attrs.get("metric")
        if metric is None and f"{group}/error_by_task" in self._file:
            metric = self._file[f"{group}/error_by_task"].attrs.get("metric")
        return Disentanglement(
            error=self._array(f"{group}/error", (pairs, size, size)),
            by_task=self._array(f"{group}/error_by_task", (pairs, 2, size, size)),
            alpha=alpha,
            metric=text(metric) if metric is not None else "disagreement",
            samples=self._samples(group),
        )

    def smoothness(self, regime: str) -> Smoothness | None:
        group = f"/smoothness/{regime}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        return Smoothness(
            lambda_max=self._array(f"{group}/lambda_max", (count,)),
            residual=self._array(f"{group}/residual", (count,)),
            hvp_count=self._array(f"{group}/hvp_count", (count,)).astype(int),
            method=text(self._file[group].attrs.get("method", "not stated")),
        )

    def ntk(self, start: str) -> NTK | None:
        group = f"/ntk/{start}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        return NTK(local_energy=self._array(f"{group}/local_energy", (count, count, None, None)))

    def addition(self, regime: str) -> Addition | None:
        group = f"/addition/{regime}"
        if group not in self._file:
            return None
        alpha = self._array(f"{group}/alpha", (None,))
        shape = (len(alpha), len(self.tasks))
        return Addition(
            alpha=alpha,
            validation_accuracy=self._array(f"{group}/validation_accuracy", shape),
            test_accuracy=self._array(f"{group}/test_accuracy", shape),
            chosen_alpha=self._scalar(f"{group}/chosen_alpha"),
            absolute=self._scalar(f"{group}/absolute"),
            normalized=self._scalar(f"{group}/normalized"),
            one_shot_absolute=self._scalar(f"{group}/one_shot_absolute"),
            one_shot_normalized=self._scalar(f"{group}/one_shot_normalized"),
        )

    def training(self, regime: str) -> Training | None:
        group = f"/training/{regime}"
        if group not in self._file:
            return None
        count = len(self.tasks)
        return Training(
            loss=self._array(f"{group}/loss", (count, None)),
            seconds=self._array(f"{group}/seconds", (count,)),
        )

    def units(self) -> list[Unit]:
        if "units" not in self._file:
            return []
        rows = self._vector("/units")
        missing = {"key", "rank", "seconds", "device"} - set(rows.dtype.names or ())
        if missing:
            raise InputError(f"lacks {sorted(missing)}", f"{self.path}:/units", "key, rank, seconds, device")
        return [
            Unit(text(row["key"]), int(row["rank"]), float(row["seconds"]), text(row["device"]))
            for row in rows
        ]
