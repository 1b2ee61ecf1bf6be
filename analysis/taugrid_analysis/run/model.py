# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What results.h5 says once: its model and its work units."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Model:
    architecture: str
    name: str
    parameters: int
    init: str
    fingerprint: str
    drawn_as: str = "hugging_face"  # of a θ0 at random: whose start it is; older files have no other


@dataclass(frozen=True)
class Unit:
    key: str
    rank: int
    seconds: float
    device: str
    joules: float = math.nan  # of all its ranks; NaN where nothing counted them
    energy_source: str = ""  # what counted them: rapl, nvml, …

    @property
    def kind(self) -> str:
        """The first part of the key: what the unit measures."""
        return self.key.split("/", 1)[0]
