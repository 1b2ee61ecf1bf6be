# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What `taugrid plan` predicts: replayed by a simulator of our own, and held against what runs took and left."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import check_plan
import h5py
import pytest
from dealing import Machine, Unit, simulate
from launch import PATIENCE, PROGRAM, environment, run
from world import EXPERIMENT, World

TRACE = Path(__file__).with_name("quickstart_profile.json")  # recorded: a run of this experiment, its machine
QUICKSTART = Path(__file__).parents[3] / "jobs" / "experiments" / "quickstart.toml"


def plan(experiment: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run(1, "plan", experiment, *arguments)


def planned(tmp_path: Path, experiment: Path, *arguments: str | Path, codes: tuple[int, ...] = (0,)) -> Any:
    path = tmp_path / "plan.json"
    done = plan(experiment, *arguments, "--json", path)
    assert done.returncode in codes, done.stderr
    return json.loads(path.read_text())


def spoilt(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "profile.json"
    profile = json.loads(TRACE.read_text())
    profile.update(changes)
    path.write_text(json.dumps(profile))
    return path


def units_of(estimate: Any) -> list[Unit]:
    return [Unit(u["key"], u["cost"], tuple(u["needs"]), u["seconds"]) for u in estimate["units"]]


@pytest.mark.parametrize(("crowding", "ranks_per_unit", "ranks_per_host"),
                         [(1.0, 1, 2), (1.3, 1, 2), (1.3, 1, 5), (1.3, 2, 3), (1.3, 4, 8)])
def test_a_recorded_trace_on_up_to_512_ranks(tmp_path: Path, crowding: float, ranks_per_unit: int,
                                             ranks_per_host: int) -> None:
    profile = spoilt(tmp_path, crowding=crowding, units_config="")
    # Without the data, work is counted with stand-ins: the seconds are the trace's all the same.
    estimate = planned(tmp_path, QUICKSTART, "--profile", profile, "--ranks", "4,8,64,512", "--ranks-per-host",
                       str(ranks_per_host), "--set", f"run.ranks_per_unit={ranks_per_unit}", codes=(0, 2))
    assert len(estimate["units"]) == len(json.loads(TRACE.read_text())["units"])
    machine = Machine(estimate["host"]["cores"], estimate["host"]["threads_per_rank"], crowding, ranks_per_host,
                      ranks_per_unit)
    for row in estimate["plan"]:
        assert row["units_seconds"] == pytest.approx(simulate(units_of(estimate), machine, row["ranks"]), rel=1e-9)
        assert row["hosts"] == -(-row["ranks"] // ranks_per_host)


def test_the_recorded_trace_on_few_ranks(tmp_path: Path) -> None:
    estimate = planned(tmp_path, QUICKSTART, "--profile", TRACE, "--ranks", "1,2,4", "--ranks-per-host", "4",
                       codes=(0, 2))
    trace, host = json.loads(TRACE.read_text()), estimate["host"]
    machine = Machine(host["cores"], host["threads_per_rank"], host["crowding"], 4)
    recorded = trace["units"]
    for unit in estimate["units"]:  # as recorded on two ranks, and what asking and committing took
        alone = recorded[unit["key"]] / machine.factor(trace["units_ranks_per_host"])
        assert alone < unit["seconds"] < alone + 0.05, unit["key"]
    for row in estimate["plan"]:
        assert row["units_seconds"] == pytest.approx(simulate(units_of(estimate), machine, row["ranks"]), rel=1e-9)
    single, two, four = (row["seconds"] for row in estimate["plan"])
    assert single == pytest.approx(
        sum(u["seconds"] for u in estimate["units"]) + estimate["start_seconds"] + estimate["end_seconds"])
    # Two ranks halve the time, crowding aside; four on two cores are no faster than two.
    assert single / 2 < two < 1.05 * machine.crowding * single / 2 + estimate["start_seconds"] + estimate["end_seconds"]
    assert four == pytest.approx(two, rel=0.05)


def test_no_rank_is_of_use_beyond_the_longest_chain(tmp_path: Path) -> None:
    estimate = planned(tmp_path, QUICKSTART, "--profile", TRACE, "--ranks", "1,64,512", codes=(0, 2))
    chain, useful = estimate["longest_chain_seconds"], estimate["useful_ranks"]
    units = {u.key: u for u in units_of(estimate)}

    def end(key: str) -> float:
        return units[key].seconds + max((end(need) for need in units[key].needs), default=0.0)

    assert chain == pytest.approx(max(map(end, units)))
    assert 2 < useful < 219
    assert any(f"more than {useful} ranks end less than 5 % sooner" in line for line in estimate["warnings"])
    few = planned(tmp_path, QUICKSTART, "--profile", TRACE, "--ranks", "1,2", codes=(0, 2))
    assert not few["warnings"]
    machine = Machine(estimate["host"]["cores"], 1, estimate["host"]["crowding"], estimate["host"]["cores"])
    best = simulate(list(units.values()), machine, len(units))
    assert simulate(list(units.values()), machine, useful) <= 1.05 * best
    assert simulate(list(units.values()), machine, useful - 1) > 1.05 * best


@pytest.mark.parametrize(("name", "changes", "expected"), [
    ("missing", {"crowding": ...}, "crowding is missing"),
    ("negative", {"unit_seconds": -1}, "unit_seconds is -1; expected a number of at least 0"),
    ("type", {"rates": [1]}, "rates: is [1]; expected an object"),
    ("nan", {"crowding": float("nan")}, "is not JSON"),
    ("threads", {"threads_per_rank": 4}, "threads_per_rank is 4; this experiment has run.threads_per_rank = 1"),
    ("model", {"model_parameters": 5}, "a model of 5 parameters"),
    ("kinds", {"rates": {}, "units": {}}, "rates has no divergence, forward, gram"),
    ("other", {"units_config": "[finetune]\nsteps = 7\n"}, "finetune.steps: 7 -> 150"),
])
def test_a_wrong_profile_is_refused_in_one_line(tmp_path: Path, name: str, changes: dict[str, Any],
                                                expected: str) -> None:
    profile = json.loads(TRACE.read_text()) | changes
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps({k: v for k, v in profile.items() if v is not ...}))
    done = plan(QUICKSTART, "--profile", path, "--ranks", "2")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert str(path) in done.stderr and expected in done.stderr, done.stderr


def test_wrong_options_are_refused(world: World, tmp_path: Path) -> None:
    for arguments, expected in [(["--ranks", "0"], "--ranks"), ([], "--ranks is required"),
                                (["--ranks", "two"], "--ranks"),
                                (["--ranks", "1", "--profile", "/nowhere"], "/nowhere"),
                                (["--ranks", "1", "--profile", TRACE.with_suffix(".h5")], "no such file"),
                                (["--ranks", "1", "--set", "run.ranks_per_unit=2"], "run.ranks_per_unit is 2"),
                                (["--ranks", "1", "--set", "smoothness.toleranse=1"], "smoothness.tolerance?")]:
        done = plan(world.experiment, *arguments)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and expected in done.stderr, done.stderr
    done = run(2, "plan", world.experiment, "--ranks", "2")
    assert done.returncode == 2 and "takes one process" in done.stderr


def test_what_is_missing_is_said_and_counted_with_stand_ins(world: World, tmp_path: Path) -> None:
    plan_file = tmp_path / "plan.json"
    done = plan(world.experiment, "--ranks", "1,3", "--set", 'data.tasks=["stripes", "dots"]', "--json", plan_file)
    assert done.returncode == 2 and "1 of 3 inputs are missing" in done.stderr and done.stderr.count("\n") == 1
    assert f"{world.folder / 'data' / 'dots'}.h5: no such file" in done.stdout
    assert [row["ranks"] for row in json.loads(plan_file.read_text())["plan"]] == [1, 3]


def test_a_missing_model_may_have_other_names_and_more_layers(world: World, tmp_path: Path) -> None:
    """CLIP ViT-B/32, which work is counted as, has no layer q, and nothing to train from stage 20 on."""
    trained_alone = world.elsewhere(tmp_path / "trained.toml", EXPERIMENT.split("[similarity]")[0])
    others = ["model.path=/nowhere", 'finetune.regimes=["lora", "attention"]', 'finetune.lora_modules=["q"]',
              "finetune.first_stage=20", "finetune.batch=2", "data.evaluation_batch=2"]
    arguments = [word for setting in others for word in ("--set", setting)]
    done = plan(trained_alone, "--ranks", "1", *arguments)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "1 of 4 inputs are missing" in done.stderr and "storage: " in done.stdout


def test_warnings_of_idle_ranks_and_full_hosts(world: World, tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    pairs = ("--set", "run.ranks_per_unit=2")
    assert plan(world.experiment, "--ranks", "2", "--save-profile", profile, *pairs).returncode == 0
    whole = json.loads(profile.read_text())
    assert whole["host"]["memory_bytes"] > whole["process_bytes"] > 1e7
    whole["host"]["memory_bytes"] = 2.5 * whole["process_bytes"]
    profile.write_text(json.dumps(whole))
    estimate = planned(tmp_path, world.experiment, "--profile", profile, "--ranks", "2,5", "--ranks-per-host", "8",
                       *pairs)
    text = "\n".join(estimate["warnings"])
    assert "1 of 5 ranks idle: units take 2 ranks each" in text
    assert "5 ranks on a host of" in text and "--ranks-per-host 2" in text and "2 ranks on a host of" not in text
    assert ("share a host's" in text) == (whole["host"]["cores"] < 8)


def test_a_finished_run_plans_larger_ones(world: World, run_folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "profile.json"
    estimate = planned(tmp_path, world.experiment, "--profile", run_folder / "results.h5", "--ranks", "2,16",
                       "--save-profile", saved)
    with h5py.File(run_folder / "results.h5") as file:
        recorded = {row["key"].decode(): float(row["seconds"]) for row in file["units"][()]}
    kept = json.loads(saved.read_text())
    assert kept["units"] == recorded and kept["units_ranks_per_host"] == 2 and kept["rates"] == {}
    assert {u["key"] for u in estimate["units"]} == set(recorded)
    again = planned(tmp_path, world.experiment, "--profile", saved, "--ranks", "2,16")
    assert again["plan"] == estimate["plan"]
    other = plan(world.experiment, "--profile", run_folder / "results.h5", "--ranks", "2", "--set", "finetune.steps=30")
    assert other.returncode == 2 and "finetune.steps: 25 -> 30" in other.stderr
    damaged = tmp_path / "results.h5"
    damaged.write_bytes((run_folder / "results.h5").read_bytes()[:3000])
    done = plan(world.experiment, "--profile", damaged, "--ranks", "2")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and str(damaged) in done.stderr


def test_storage_and_files_of_a_real_run(world: World, papers_folder: Path, tmp_path: Path) -> None:
    estimate = planned(tmp_path, world.papers, "--profile", papers_folder / "results.h5", "--ranks", "2")
    files = [path for path in papers_folder.rglob("*") if path.is_file() and path.name != "report.html"]
    logs = [path for path in files if path.parent.name == "log"]
    assert estimate["files"] == len(files) - len(logs)
    assert estimate["results_bytes"] == pytest.approx((papers_folder / "results.h5").stat().st_size, rel=0.3)
    assert estimate["stored_bytes"] == pytest.approx(sum(path.stat().st_size for path in files), rel=0.2)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two ranks here measured together."""
    path = tmp_path_factory.mktemp("bench") / "bench.json"
    done = run(2, "bench", "--filter", "^(network|storage)/", "--json", path)
    assert done.returncode == 0, done.stderr
    return path


def test_the_plan_of_four_ranks_with_two_a_unit(world: World, bench: Path, tmp_path: Path) -> None:
    """What ranks sum and gather, and what is stored, is what the run counts of it, unit by unit."""
    two = ("--set", "run.ranks_per_unit=2")
    saved = tmp_path / "profile.json"
    estimate = planned(tmp_path, world.papers, "--ranks", "4", "--bench", bench, "--save-profile", saved, *two)
    done = run(4, "run", world.papers, "--run-dir", tmp_path / "run", *two)
    assert done.returncode == 0, done.stderr
    counted: dict[str, float] = {}
    for log in (tmp_path / "run" / "log").iterdir():
        for key, exchanged in re.findall(r" end (\S+) [\d.]+ s, (\d+) B exchanged", log.read_text()):
            counted[key] = float(exchanged)  # the same on both ranks of a unit
    predicted = {unit["key"]: unit["bytes_exchanged"] for unit in estimate["units"]}
    wrong = {key: (predicted[key], counted.get(key, 0)) for key in predicted if not key.startswith("smoothness/")
             and predicted[key] != pytest.approx(counted.get(key, 0), rel=0.02, abs=1000)}
    assert not wrong, wrong
    # Predicted are as many as it takes on average.
    iterations = [key for key in predicted if key.startswith("smoothness/")]
    assert (all(0.5 * predicted[key] < counted[key] < 1.5 * predicted[key] for key in iterations)
            and sum(counted.values()) > 1e7)
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file() and path.parent.name != "log"]
    assert estimate["stored_bytes"] == pytest.approx(sum(path.stat().st_size for path in files), rel=0.2)

    again = planned(tmp_path, world.papers, "--ranks", "4", "--profile", saved, *two)
    assert again["plan"] == estimate["plan"]
    slow = json.loads(saved.read_text())
    slow["together"]["sum_seconds"] = {key: 1e3 * x for key, x in slow["together"]["sum_seconds"].items()}
    slow["together"]["write_bytes_per_second"] = 10
    saved.write_text(json.dumps(slow))
    slower = planned(tmp_path, world.papers, "--ranks", "4", "--profile", saved, *two)
    training = [key for key in predicted if key.startswith("finetune/")]
    seconds = [{unit["key"]: unit["seconds"] for unit in plan["units"]} for plan in (estimate, slower)]
    assert all(seconds[1][key] > seconds[0][key] for key in training)
    assert any("4 ranks wait for the file system" in line for line in slower["warnings"])


@pytest.mark.parametrize(("change", "expected"), [
    (lambda measured: measured["context"].update(processor="another"), "was measured on another; expected "),
    (lambda measured: measured.update(benchmarks=[]), "has no network/all_reduce case of two ranks or more"),
    (lambda measured: measured["context"].update(ranks=1), "has no network/all_reduce case of two ranks or more"),
    (lambda measured: measured.update(benchmarks={}), "benchmarks is no list"),
    (lambda measured: measured["benchmarks"][-1].update(real_time=0), "failed there"),
    (lambda measured: measured.pop("context"), "context is missing"),
])
def test_a_bench_that_is_none_is_refused(world: World, bench: Path, tmp_path: Path, change: Callable[[Any], Any],
                                         expected: str) -> None:
    measured = json.loads(bench.read_text())
    change(measured)
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(measured))
    done = plan(world.experiment, "--ranks", "2", "--bench", path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert f"{path}: " in done.stderr and expected in done.stderr


def test_of_a_sample_larger_than_the_bound_a_batch_is_counted(tmp_path: Path) -> None:
    """A million stand-ins of 3 × 32 × 32 float32 numbers, which a sixth of 100 GiB holds, and of 1 GiB does not."""
    profile = spoilt(tmp_path, units_config="")
    memory = {}
    for bound in (1, 100):
        large = [word for setting in ("data.evaluation_points=1000000", "data.folder=/nowhere", f"run.memory={bound}")
                 for word in ("--set", setting)]
        estimate = planned(tmp_path, QUICKSTART, "--profile", profile, "--ranks", "1", *large, codes=(2,))
        memory[bound] = estimate["plan"][0]["memory_bytes"]
    assert memory[1] < memory[100] - 0.9 * 1e6 * 3 * 32 * 32 * 4


@pytest.mark.skipif(os.environ.get("TAUGRID_SANITIZED") == "1", reason="sanitizers take memory of their own")
def test_memory_of_a_real_rank(world: World, tmp_path: Path) -> None:
    estimate = planned(tmp_path, world.experiment, "--ranks", "1")
    # Through a small process: a child begins with what its parent holds.
    subprocess.run([sys.executable, check_plan.__file__, check_plan.ONE_RANK, tmp_path / "memory", PROGRAM, "run",
                    world.experiment, "--run-dir", tmp_path / "run"], env=environment(), check=True, timeout=PATIENCE,
                   stdin=subprocess.DEVNULL, capture_output=True)
    measured = float((tmp_path / "memory.0").read_text())
    assert estimate["plan"][0]["memory_bytes"] == pytest.approx(measured, rel=0.25)
