# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import shared
import world as worlds

if TYPE_CHECKING:
    from taugrid_analysis.recompute.oracle import Oracle


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> worlds.World:
    return shared.world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def papers_folder(world: worlds.World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of all regimes and experiments of the tangent-space papers."""
    return shared.run(tmp_path_factory.mktemp("papers"), "papers", world.papers)


@pytest.fixture(scope="session")
def run_folder(world: worlds.World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on 2 ranks, which every test leaves as it is."""
    return shared.run(tmp_path_factory.mktemp("run"), "run", world.experiment)


@pytest.fixture(scope="session")
def oracle(run_folder: Path) -> "Oracle":
    """All numbers of that run again, from its folder alone."""
    from taugrid_analysis.recompute.oracle import Oracle  # brings PyTorch, which most tests do without

    return Oracle(run_folder)
