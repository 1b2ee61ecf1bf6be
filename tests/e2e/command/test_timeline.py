# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""taugrid timeline: one training step of several ranks."""

import json
from itertools import pairwise
from pathlib import Path

import launch
from world import World


def test_sums_begin_before_the_backward_pass_ends(world: World, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    # Wide enough for several sums.
    done = launch.run(2, "timeline", world.experiment, "--json", trace, "--set", "finetune.batch=48")
    assert done.returncode == 0, done.stderr
    assert "step 4 of finetune/standard/stripes, batch 48" in done.stdout
    assert done.stdout.count("forward and backward") == 2
    events = json.loads(trace.read_text())["traceEvents"]
    for rank in (0, 1):
        mine = [event for event in events if event["pid"] == rank]
        steps = [event for event in mine if event["tid"] == "step"]
        sums = [event for event in mine if event["tid"] == "sums"]
        assert [event["name"] for event in steps] == [
            "batch", "forward and backward", "wait for the sums", "clipping and update"]
        for before, after in pairwise(steps):
            assert abs(before["ts"] + before["dur"] - after["ts"]) < 1  # microseconds: no gap
        assert sums
        assert all(steps[0]["ts"] <= event["ts"] <= steps[2]["ts"] + steps[2]["dur"] for event in sums)


def test_one_rank_sums_nothing(world: World) -> None:
    done = launch.run(1, "timeline", world.experiment)
    assert done.returncode == 0, done.stderr
    assert "1 rank as one group" in done.stdout
    assert "sum" not in done.stdout


def test_what_trains_nothing_is_refused(world: World) -> None:
    done = launch.run(1, "timeline", world.experiment, "--set", 'finetune.regimes=["posthoc"]')
    assert done.returncode == 2
    assert done.stderr.startswith("taugrid: error: ")
