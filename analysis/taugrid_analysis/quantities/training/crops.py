# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Whether training saw random crops."""

from __future__ import annotations

import tomllib

from taugrid_analysis.files import regular
from taugrid_analysis.run.opened import Run
from taugrid_analysis.run.regimes import crops


def without_crops(run: Run) -> list[str]:
    """The regimes that were trained without random crops, as far as the run folder says."""
    try:
        path = regular(run.path.with_name("config.toml"), "a run's configuration")
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [name for name in run.results.names("training") if not crops(config, name)]
