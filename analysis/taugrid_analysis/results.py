# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads results.h5, checks it against the contract, and hands out named arrays.

Everything is driven by the groups that exist: a regime is whatever name stands below /similarity,
/addition and so on. A group that is absent reads as None; one that is there but broken is an error.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from taugrid_analysis.edits import Edits
from taugrid_analysis.errors import InputError
from taugrid_analysis.files import text
from taugrid_analysis.records import Model
from taugrid_analysis.regimes import JOINT, STARTS, ordered

BY_REGIME = (
    "single_task",
    "similarity",
    "disentanglement",
    "representation",
    "smoothness",
    "addition",
    "pair_addition",
    "negation",
    "tau_jp",
    "training",
)
OF_PAIRS = ("disentanglement", "representation", "pair_addition", "continuation")  # of a single task nothing


class Results(Edits):
    """One results.h5, open for reading."""

    def __init__(self, run: Path) -> None:
        super().__init__(run)
        self.start = self._start()
        self.regimes = self._regimes()

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

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
                found |= {str(name) for name in self._file[group] if name not in (*STARTS, *JOINT)}
        return ordered(found)

    def names(self, group: str) -> list[str]:
        """What stands below /GROUP: regimes in their usual order, then anything else."""
        if group not in self._file or (group in OF_PAIRS and not len(self.pairs)):
            return []
        return ordered({str(name) for name in self._file[group]})

    def need(self, group: str, what: str) -> None:
        """For a command that cannot do without the group."""
        if not self.names(group):
            raise InputError("is missing or empty", f"{self.path}:/{group}", what)
