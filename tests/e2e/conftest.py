# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest
import world as worlds
from launch import measure


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> worlds.World:
    return worlds.make(tmp_path_factory.mktemp("world") / "tiny")


@pytest.fixture(scope="session")
def papers_folder(world: worlds.World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of all regimes and experiments of the tangent-space papers."""
    folder = tmp_path_factory.mktemp("papers") / "reference"
    measure(world.papers, folder)
    return folder


@pytest.fixture(scope="session")
def run_folder(world: worlds.World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on 2 ranks, which every test leaves as it is."""
    folder = tmp_path_factory.mktemp("run") / "reference"
    measure(world.experiment, folder)
    return folder
