# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a regime is comes from the file; a file of before is known by its names."""

from pathlib import Path

import h5py
import pytest
import synthetic

from taugrid_analysis.run.regimes import Regime, described
from taugrid_analysis.run.results import Results


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("standard", Regime(False, "standard")),
        ("posthoc", Regime(True, "standard")),
        ("tau_jp_strict", Regime(True, "tau_jp_strict")),
        ("multitask_linear", Regime(True, "", "linear")),
        ("unheard_of", Regime(False, "unheard_of")),
    ],
)
def test_names_say_what_files_of_before_do_not(name: str, expected: Regime) -> None:
    assert described(name, lambda _: {}) == expected


def test_the_file_says_it_of_any_name(tmp_path: Path) -> None:
    path = synthetic.write(tmp_path / "results.h5")
    with h5py.File(path, "a") as file:
        groups = [name for name, node in file.items() if isinstance(node, h5py.Group)]
        for group in [name for name in groups if "standard" in file[name]]:
            file.copy(file[group]["standard"], file[group], "mine")
        file["single_task/mine"].attrs.update({"linear": 1, "vectors_of": "standard"})
    with Results(path) as results:
        assert results.regime("mine") == Regime(True, "standard")
        assert "mine" in results.regimes and results.same_vectors("mine") == "standard"
        assert not results.regime("standard").linear
