# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What Spack asks of jobs/spack.yaml before it knows any package: a colon at a spec's end makes a mapping of it."""

import re
from pathlib import Path

import yaml


def test_specs_are_text() -> None:
    specs = yaml.safe_load((Path(__file__).parents[2] / "jobs" / "spack.yaml").read_text())["spack"]["specs"]
    assert len(specs) > 10
    for spec in specs:
        assert isinstance(spec, str) and re.match(r"[a-z0-9-]+(@[0-9.]+:)?( [+~a-z0-9=_]+)*$", spec), spec
