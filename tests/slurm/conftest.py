# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "e2e"))
import shared
import world as worlds
from cluster import Cluster, NoSlurm


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> worlds.World:
    return shared.world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # short: a socket's path has at most 107 characters
    folder.chmod(0o755)
    try:
        cluster = Cluster(folder)
    except NoSlurm as reason:
        pytest.skip(f"no Slurm here: {reason}")
    yield cluster
    cluster.stop()
    shutil.rmtree(folder, ignore_errors=True)
