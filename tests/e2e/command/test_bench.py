# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What the bench measures and does not only time."""

from __future__ import annotations

import subprocess
from pathlib import Path

import launch
from safetensors.numpy import load_file

LAYERS, TOKENS, WIDTH, ALPHAS = 14, 65, 128, 3  # of linearity/vit12_*: the embedding's, 12 blocks', the output


def peak_memory(points: int, folder: Path) -> int:
    """Bytes beyond parameters."""
    done = subprocess.run(
        [launch.PROGRAM, "bench", "--filter", f"^linearity/vit12_{points}$", "--repetitions", "1", "--dump", folder],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(load_file(folder / "results" / f"linearity-vit12_{points}.safetensors")["peak_memory"][0])


def test_memory_of_linearity_does_not_grow_with_the_points(tmp_path: Path) -> None:
    """A pass and 16 points' features of T + 1 models, whatever the number of points; of each, inner products."""
    few, many = peak_memory(16, tmp_path / "few"), peak_memory(64, tmp_path / "many")
    # Each point has, for two pairs, layers whole and of the class token: 3 × 3 products, and 4 of each coefficient,
    # twice while they are gathered; and pixels.
    kept = (64 - 16) * (2 * 2 * LAYERS * (9 + 4 * ALPHAS) * 8 * 2 + 4 * 3 * 32 * 32)
    features = 4 * (64 - 16) * LAYERS * TOKENS * WIDTH  # of one model, of what is more
    assert many - few < kept < features / 5


def test_ranks_share_what_they_can_share() -> None:
    """Each reads half, and the Gram matrix is bitwise that of vectors in memory; other cases are for one process."""
    together = launch.run(2, "bench", "--filter", "gram/out_of_core", "--repetitions", "1")
    assert together.returncode == 0, together.stderr
    assert "# ranks: 2" in together.stdout
    (row,) = (line for line in together.stdout.splitlines() if line.startswith("gram/out_of_core"))
    assert row.split()[-2:] == ["0.0e+00", "ok"]
    refused = launch.run(2, "bench", "--filter", "^forward$")
    assert refused.returncode == 2
    assert "no case that ranks share matches '^forward$'" in refused.stderr
