# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The numbers are those of an undisturbed run: for any number of ranks, after any stop, kill and restart."""

import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import rehearsal
from compare import close_to_rounding, differing, numbers
from launch import PATIENCE, complaint, kill_all, leftovers, measure, ranks_of, run, start, units, wait_until
from safetensors import safe_open
from safetensors.numpy import save_file
from world import EXPERIMENT, World, without

RESUMABLE = 75
# Long enough to be killed in a fine-tuning, whose state is saved 50 times a second; short in what comes afterwards:
# kills in every experiment are those of tests/faults/kills.py.
LONG = tuple(word for setting in ("finetune.steps=40", "finetune.linear.steps=40", "finetune.checkpoint_seconds=0.02")
             for word in ("--set", setting))
# Several parts a rank, also where two ranks share the points.
PARTS = ("--set", "smoothness.chunk=5", "--set", "barrier.chunk=4")


def same(a: Path, b: Path) -> None:
    assert differing(numbers(a), numbers(b)) == []


@pytest.fixture(scope="module")
def experiment(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.elsewhere(tmp_path_factory.mktemp("experiment") / "long.toml",
                           without(EXPERIMENT, "averages", "stitching", "barrier", "smoothness"))


@pytest.fixture(scope="module")
def long_run(experiment: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long") / "run"
    measure(experiment, folder, *LONG)
    return folder


def begin(experiment: Path, folder: Path) -> subprocess.Popen[str]:
    return start(2, "run", experiment, "--run-dir", folder, *LONG)


def finish(experiment: Path, folder: Path, reference: Path, before: int) -> None:
    """Runs the rest, and only the rest; the numbers are the reference's."""
    done = run(2, "run", experiment, "--run-dir", folder, *LONG)
    assert done.returncode == 0, done.stderr
    assert f"{units(folder) - before} units computed, {before} found finished" in done.stderr
    same(reference / "results.h5", folder / "results.h5")
    assert leftovers(folder) == []
    assert units(folder) == units(reference)


def test_numbers_do_not_depend_on_the_number_of_ranks(world: World, run_folder: Path, tmp_path: Path) -> None:
    """Four ranks give the numbers of two. A test below has one rank, and all regimes."""
    same(run_folder / "results.h5", measure(world.experiment, tmp_path / "run", ranks=4))


def test_all_regimes_do_not_depend_on_the_number_of_ranks(world: World, papers_folder: Path, tmp_path: Path) -> None:
    same(papers_folder / "results.h5", measure(world.papers, tmp_path / "run", ranks=1))


def test_two_ranks_a_unit_agree_to_rounding_in_all_regimes(world: World, papers_folder: Path, tmp_path: Path) -> None:
    theirs = numbers(measure(world.papers, tmp_path / "run", "--set", "run.ranks_per_unit=2"))
    close_to_rounding(numbers(papers_folder / "results.h5"), theirs)


@pytest.mark.parametrize("ranks", [4, 3])
def test_two_ranks_a_unit_agree_to_rounding(world: World, run_folder: Path, tmp_path: Path, ranks: int) -> None:
    """Two groups, and a rank that has none; one group of two is above."""
    settings = ("--set", "run.ranks_per_unit=2", *(PARTS if ranks == 3 else ()))
    theirs = numbers(measure(world.experiment, tmp_path / "run", *settings, ranks=ranks))
    close_to_rounding(numbers(run_folder / "results.h5"), theirs)


def test_a_rank_without_a_share_of_the_batch(world: World, tmp_path: Path) -> None:
    """Three samples, one a task, on a group of two: one rank's part of each is empty."""
    few = [word for setting in ("finetune.batch=3", "finetune.penalty_batch=1", "finetune.steps=4",
                                'finetune.regimes=["multitask", "linear", "tau_jp"]') for word in ("--set", setting)]
    ours = numbers(measure(world.training, tmp_path / "one", *few))
    theirs = numbers(measure(world.training, tmp_path / "two", *few, "--set", "run.ranks_per_unit=2"))
    for regime in ("multitask", "linear", "tau_jp"):
        np.testing.assert_allclose(ours[f"training/{regime}/loss"], theirs[f"training/{regime}/loss"], rtol=1e-3)


def test_a_signal_stops_at_a_safe_point(experiment: Path, long_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    job = begin(experiment, folder)
    assert wait_until(lambda: units(folder) >= 1, job)
    job.send_signal(signal.SIGUSR1)
    _, text = job.communicate(timeout=PATIENCE)
    assert job.returncode == RESUMABLE, text
    assert [line for line in text.splitlines() if line.startswith("taugrid: stopped:") and "SIGUSR1" in line], text
    assert not (folder / "results.h5").exists()
    finish(experiment, folder, long_run, units(folder))


def test_the_time_limit_stops_at_a_safe_point(experiment: Path, long_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stopped = run(2, "run", experiment, "--run-dir", folder, *LONG, "--time-limit", "0.001")
    assert stopped.returncode == RESUMABLE, stopped.stderr
    assert "taugrid: stopped:" in stopped.stderr and "time limit" in stopped.stderr
    finish(experiment, folder, long_run, units(folder))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("victims", ["one rank", "the whole job"])
def test_a_kill_loses_nothing_that_was_committed(experiment: Path, long_run: Path, tmp_path: Path, victims: str,
                                                 seed: int) -> None:
    chance = random.Random(f"{victims}{seed}")
    folder = tmp_path / "run"
    # The moment: so many units done, and a little more; the last units are quick.
    moment, more = (1, 15)[seed] + chance.randrange(10), chance.uniform(0, 0.05)
    job = begin(experiment, folder)
    if wait_until(lambda: units(folder) >= moment, job):
        time.sleep(more)
    if victims == "one rank":
        ranks = ranks_of(job)
        if len(ranks) == 2:  # none where the job was faster than this test
            os.kill(ranks[chance.randrange(2)], signal.SIGKILL)
            _, text = job.communicate(timeout=PATIENCE)  # the others end by themselves
            assert job.returncode != 0, text
            assert len([line for line in text.splitlines() if line.startswith("taugrid: rank")]) <= 1, text
    kill_all(job)
    before = units(folder)
    finish(experiment, folder, long_run, before)


def test_a_killed_fine_tuning_goes_on_from_its_state(experiment: Path, long_run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    job = begin(experiment, folder)
    assert wait_until(lambda: any(folder.glob("scratch/finetune__linear__*/state.safetensors")), job)
    kill_all(job)
    assert any(folder.glob("scratch/finetune__*/state.safetensors"))
    finish(experiment, folder, long_run, units(folder))


@pytest.mark.parametrize("device", ["cpu", "rehearsal"])
def test_a_killed_continuation_keeps_its_trace(world: World, papers_folder: Path, tmp_path: Path, device: str) -> None:
    reference, folder = tmp_path / "reference", tmp_path / "run"
    given = tmp_path / "given"  # the linear task vectors, from which to go on
    given.mkdir()
    (given / "linear").symlink_to(papers_folder / "checkpoints" / "linear")
    chosen = ('finetune.regimes=["linear", "tau_jp_continue"]', 'finetune.given=["linear"]',
              f"finetune.checkpoints={given}", "finetune.tau_jp_continue.steps=50", "finetune.checkpoint_seconds=0.01")
    settings = [word for setting in chosen for word in ("--set", setting)]

    def finish(folder: Path) -> Path:
        return measure(world.training, folder, *settings) if device == "cpu" else \
            rehearsal.run(world.training, folder, *settings, ranks=2)

    finish(reference)
    job = start(2, "run", world.training, "--run-dir", folder, *settings) if device == "cpu" else \
        rehearsal.start(world.training, folder, *settings, ranks=2)
    assert wait_until(lambda: any(folder.glob("scratch/finetune__tau_jp_continue__*/state.safetensors")), job)
    kill_all(job)
    assert any(folder.glob("scratch/finetune__tau_jp_continue__*/state.safetensors"))
    same(reference / "results.h5", finish(folder))
    assert leftovers(folder) == []


def test_a_finished_run_is_left_alone(world: World, run_folder: Path) -> None:
    def state() -> dict[str, int]:
        return {str(p): p.stat().st_mtime_ns for p in run_folder.rglob("*")
                if p.is_file() and p.parent.name != "log" and p.name != ".lock"}

    before = state()
    done = run(2, "run", world.experiment, "--run-dir", run_folder)
    assert done.returncode == 0
    assert f"0 units computed, {units(run_folder)} found finished" in done.stderr
    assert state() == before


def test_a_broken_unit_is_computed_again(world: World, run_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    victim = folder / "units" / "similarity__linear.safetensors"
    victim.write_bytes(victim.read_bytes()[:100])
    done = run(2, "run", world.experiment, "--run-dir", folder)
    assert done.returncode == 0 and "is broken" in done.stderr and "1 units computed" in done.stderr
    same(run_folder / "results.h5", folder / "results.h5")


def flip(path: Path, place: float) -> None:
    """Changes one bit of the file's last part, in which the numbers are."""
    content = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(content[:8], "little")
    content[begin + int(place * (len(content) - begin - 1))] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("unit", ["similarity__linear", "single_task__standard__blobs", "features__linear__stripes",
                                  "finetune__standard__corners"])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_a_flipped_bit_is_found(world: World, run_folder: Path, tmp_path: Path, unit: str, place: float) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    flip(folder / "units" / f"{unit}.safetensors", place)
    done = run(2, "run", world.experiment, "--run-dir", folder)
    assert done.returncode == 0 and "does not hold the numbers that were written" in done.stderr, done.stderr
    assert unit in done.stderr and "1 units computed" in done.stderr, done.stderr
    same(run_folder / "results.h5", folder / "results.h5")


@pytest.mark.parametrize("entry", [b'"rank"', b'"seconds":"', b'"device":"', b'"shape":['])
def test_a_flipped_bit_of_a_header_is_found(world: World, run_folder: Path, tmp_path: Path, entry: bytes) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    path = folder / "units" / "single_task__standard__blobs.safetensors"
    content = bytearray(path.read_bytes())
    place = content.index(entry) + len(entry)
    content[place if content[place : place + 1] != b":" else place - 2] ^= 1
    path.write_bytes(content)
    done = run(2, "run", world.experiment, "--run-dir", folder)
    assert done.returncode == 0 and "set aside" in done.stderr and "1 units computed" in done.stderr, done.stderr
    same(run_folder / "results.h5", folder / "results.h5")


def test_units_of_another_shape_end_in_a_line(world: World, run_folder: Path, tmp_path: Path) -> None:
    """Early versions' headers have no digest of themselves."""
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    path = folder / "units" / "single_task__standard__blobs.safetensors"
    with safe_open(path, "np") as file:
        header = {name: text for name, text in file.metadata().items() if name != "header_digest"}
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(tensors | {"accuracy": tensors["accuracy"].reshape([1] * 12)}, path, header)
    done = run(2, "run", world.experiment, "--run-dir", folder)
    complaint(done, "unit single_task/standard/blobs: accuracy for /single_task/standard/accuracy", "has the shape")
    save_file(tensors, path, {name: text for name, text in header.items() if name != "seconds"})
    complaint(run(2, "run", world.experiment, "--run-dir", folder), "unit single_task/standard/blobs", folder / "units")


def test_a_log_that_leads_elsewhere_is_refused(world: World, run_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    (folder / "units" / "single_task__standard__blobs.safetensors").unlink()
    log = folder / "log" / "rank-00001.log"
    log.unlink()
    log.symlink_to(tmp_path / "theirs")
    complaint(run(2, "run", world.experiment, "--run-dir", folder), log, "is a link")
    assert not (tmp_path / "theirs").exists()


def test_results_without_their_digest_are_written_anew(world: World, run_folder: Path, tmp_path: Path) -> None:
    """A kill may come between the file and its digest: nobody knows then whether the file is as it was written."""
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    (folder / "results.digest").unlink()
    with h5py.File(folder / "results.h5", "r+") as file:
        file["single_task/standard/accuracy"][0] = 0.5
    done = run(2, "run", world.experiment, "--run-dir", folder)
    assert done.returncode == 0 and "0 units computed" in done.stderr, done.stderr
    same(run_folder / "results.h5", folder / "results.h5")
    written = (folder / "results.h5").stat().st_mtime_ns
    run(2, "run", world.experiment, "--run-dir", folder)
    assert (folder / "results.digest").exists() and (folder / "results.h5").stat().st_mtime_ns == written


def test_units_that_changed_places_are_found(world: World, run_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    paths = [folder / "units" / f"single_task__standard__{task}.safetensors" for task in ("blobs", "corners")]
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        path.write_bytes(content)
    done = run(2, "run", world.experiment, "--run-dir", folder)
    assert done.returncode == 0 and "2 units computed" in done.stderr, done.stderr
    assert "is the unit single_task/standard/corners" in done.stderr
    same(run_folder / "results.h5", folder / "results.h5")


def test_changed_results_are_written_anew(world: World, run_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    with h5py.File(folder / "results.h5", "r+") as file:
        file["single_task/standard/accuracy"][0] = 0.5
    done = run(2, "run", world.experiment, "--run-dir", folder)
    assert done.returncode == 0 and "is not as it was written: it is written anew" in done.stderr, done.stderr
    assert "0 units computed" in done.stderr
    same(run_folder / "results.h5", folder / "results.h5")
    assert "warning" not in run(2, "run", world.experiment, "--run-dir", folder).stderr
