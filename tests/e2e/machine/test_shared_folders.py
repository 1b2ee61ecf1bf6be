# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What a cluster does to a run: attributes that are cached, locks that are local, hosts, processors and copies that
differ, checkpoints that are purged. The numbers are those of an undisturbed run, or one line says why not."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import h5py
import numpy as np
import pretraining
import pytest
import rehearsal
from compare import differing, numbers
from launch import (
    MPIRUN,
    PATIENCE,
    PRELOADED,
    PROGRAM,
    complaint,
    environment,
    kill_all,
    measure,
    run,
    start,
    units,
    wait_until,
)
from test_faults import LONG, copied, goes_on, killed  # noqa: F401
from world import World

STALE = os.environ["TAUGRID_STALE_FILES"]
# An older one, or, where the tests themselves pretend to be on the oldest, a newer.
OTHER_PROCESSOR = {"ATEN_CPU_CAPABILITY": "avx2" if os.environ.get("ATEN_CPU_CAPABILITY") == "default" else "default"}
HOST = 'hostname "$1"; echo "$1" > "$2/boot-$1"; mount --bind "$2/boot-$1" /proc/sys/kernel/random/boot_id; shift 2;'


@pytest.fixture
def world_copy(world: World, tmp_path: Path) -> World:
    """A copy of the world that a test may spoil."""
    return World(Path(shutil.copytree(world.folder, tmp_path / "world")))


# A short run: all that is trained, and hardly anything that is measured of it.
TWO = ("--set", 'finetune.regimes=["standard", "linear"]')


def stale(folder: Path, seconds: float, locks: str = "") -> dict[str, str]:
    """The environment of a client that does not see others' files for so long."""
    variables = {"LD_PRELOAD": f"{STALE} {PRELOADED}", "STALE_FOLDER": str(folder), "STALE_SECONDS": str(seconds)}
    return variables | ({"STALE_LOCKS": locks} if locks else {})


def launch(*parts: list[str | Path], **variables: str) -> subprocess.Popen[str]:
    """One launch of several parts, each "-n", N, then what it starts."""
    words = [MPIRUN, "-q", "--oversubscribe", "--bind-to", "none"]
    for i, part in enumerate(parts):
        words += [*([":"] if i else []), *map(str, part)]
    return subprocess.Popen(words, env=environment() | variables, text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(job: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = job.communicate(timeout=PATIENCE)
    return subprocess.CompletedProcess(job.args, job.returncode, out, err)


def on_host(name: str, folder: Path, more: str = "") -> list[str | Path]:
    """Words before a program that make it believe it is alone on a host of this name."""
    if subprocess.run(["unshare", "-m", "-u", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("pretended hosts need the right to make name spaces")
    return ["unshare", "-m", "-u", "sh", "-c", f'{HOST} {more} exec "$@"', "sh", name, folder]


@pytest.mark.parametrize("width", [1, 2])
def test_files_that_others_see_late(world: World, run_folder: Path, tmp_path: Path, width: int) -> None:
    """A unit of another host is waited for; a group goes on from what its first rank reads, or begins anew."""
    folder, settings = tmp_path / "run", ["--set", "finetune.checkpoint_seconds=0.01"]
    if width == 2:
        settings += [*TWO, "--set", "run.ranks_per_unit=2"]
    experiment = world.experiment if width == 1 else world.training
    words = ["-n", "2", PROGRAM, "run", experiment, "--run-dir", folder, *settings]
    for _ in range(2):
        before = units(folder)
        job = launch(words, **stale(folder, 0.5))
        if wait_until(lambda before=before: units(folder) > before, job):
            time.sleep(0.05)
        kill_all(job)
    done = ended(launch(words, **stale(folder, 0.5)))
    assert done.returncode == 0, done.stderr
    assert "set aside" not in done.stderr
    reference = run_folder / "results.h5" if width == 1 else measure(experiment, tmp_path / "reference", *settings)
    assert differing(numbers(reference), numbers(folder / "results.h5")) == []


def test_a_saved_state_that_one_rank_of_a_group_never_sees(world: World, tmp_path: Path) -> None:
    """The ranks of a group go on from the step that their first rank read."""
    folder, words = tmp_path / "run", [PROGRAM, "run", world.training, "--run-dir", tmp_path / "run"]
    settings = [*TWO, "--set", "run.ranks_per_unit=2", "--set", "finetune.checkpoint_seconds=0.01", "--set",
                "finetune.steps=40"]
    reference = measure(world.training, tmp_path / "reference", *settings)
    job = launch(["-n", "2", *words, *settings])
    assert wait_until(lambda: any(folder.glob("scratch/finetune__*/state.safetensors")), job)
    kill_all(job)
    assert any(folder.glob("scratch/finetune__*/state.safetensors"))
    blind = ["env", *(f"{name}={value}" for name, value in stale(folder, 1e6).items()), "STALE_ONLY=scratch"]
    done = ended(launch(["-n", "1", *words, *settings], ["-n", "1", *blind, *words, *settings]))
    assert done.returncode == 0, done.stderr
    assert differing(numbers(reference), numbers(folder / "results.h5")) == []


def test_variables_that_one_rank_alone_has(world: World, run_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = [PROGRAM, "run", world.experiment, "--run-dir", folder]
    done = ended(launch(["-n", "1", "env", "SLURM_JOB_NAME=mine", *words], ["-n", "1", *words]))
    assert done.returncode == 0, done.stderr
    assert differing(numbers(run_folder / "results.h5"), numbers(folder / "results.h5")) == []
    with h5py.File(folder / "results.h5") as file:
        assert file["provenance"].attrs["SLURM_JOB_NAME"] == "mine"


def test_old_results_of_other_units_do_not_stay(world: World, run_folder: Path, tmp_path: Path) -> None:
    """They are there after a kill between the last unit's commit and the new results.h5."""
    folder = copied(run_folder, tmp_path / "run")
    results = folder / "results.h5"
    old = results.read_bytes()
    (folder / "units" / "similarity__linear.safetensors").unlink()
    measure(world.experiment, folder)
    new = h5py.File(results).attrs["units_digest"]
    results.write_bytes(old)
    done = run(2, "run", world.experiment, "--run-dir", folder)
    assert done.returncode == 0 and "0 units computed" in done.stderr, done.stderr
    assert h5py.File(results).attrs["units_digest"] == new


def test_a_restart_on_another_processor(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = ["-n", "1", PROGRAM, "run", world.training, "--run-dir", folder, *TWO]
    first = launch(words, **OTHER_PROCESSOR)
    assert wait_until(lambda: units(folder) >= 2, first)
    kill_all(first)
    theirs = OTHER_PROCESSOR["ATEN_CPU_CAPABILITY"].upper()
    complaint(ended(launch(words)), folder, "was computed by taugrid", f", {theirs}; this is taugrid", "--mixed")
    done = ended(launch([*words, "--mixed"]))
    assert done.returncode == 0, done.stderr
    with h5py.File(folder / "results.h5") as file:
        attributes = file["provenance"].attrs
        assert attributes["mixed"] == 1 and len(attributes["computed_by"]) == 2


def test_a_restart_on_another_device(world: World, tmp_path: Path) -> None:
    """That happens where the restart finds no GPU, and --device auto takes the processor."""
    folder = tmp_path / "run"
    first = rehearsal.start(world.training, folder, *TWO, ranks=1)
    assert wait_until(lambda: units(folder) >= 2, first)
    kill_all(first)
    before = units(folder)
    complaint(run(1, "run", world.training, "--run-dir", folder, *TWO), folder, "was computed by taugrid",
              "rehearsal:0", "; this is taugrid", "cpu", "--mixed")
    assert units(folder) == before
    measure(world.training, folder, *TWO, "--mixed", ranks=1)
    with h5py.File(folder / "results.h5") as file:
        assert file["provenance"].attrs["mixed"] == 1
        assert {row["device"].decode().split(":")[0] for row in file["units"][()]} == {"rehearsal", "cpu"}


def test_ranks_on_different_processors(world: World, tmp_path: Path) -> None:
    words = [PROGRAM, "run", world.experiment, "--run-dir", tmp_path / "run"]
    other = ["env", *(f"{name}={value}" for name, value in OTHER_PROCESSOR.items())]
    complaint(ended(launch(["-n", "1", *words], ["-n", "1", *other, *words])), "the ranks compute with", "--mixed")


@pytest.mark.parametrize("fate", ["gone", "another one"])
def test_a_checkpoint_that_is_no_longer_what_it_was(world: World, run_folder: Path, killed: Path,  # noqa: F811
                                                    tmp_path: Path, fate: str) -> None:
    folder = copied(killed, tmp_path / "run")
    unit_files = sorted(folder.glob("units/finetune__linear__*.safetensors"))
    assert unit_files and not (folder / "units" / "similarity__linear.safetensors").exists()
    task = unit_files[0].stem.split("__")[2]
    victim = folder / "checkpoints" / "linear" / task
    if fate == "gone":
        shutil.rmtree(victim)
    else:
        other = next(t for t in ("stripes", "blobs", "corners") if t != task)
        source = run_folder / "checkpoints" / "linear" / other
        shutil.copyfile(source / "model.safetensors", victim / "model.safetensors")
    done = run(2, "run", world.experiment, "--run-dir", folder)
    assert done.returncode == 0, done.stderr
    assert f"{fate}: set aside" in done.stderr and str(victim) in done.stderr, done.stderr
    assert differing(numbers(run_folder / "results.h5"), numbers(folder / "results.h5")) == []


def test_a_checkpoint_that_is_seen_late(world: World, run_folder: Path, killed: Path, tmp_path: Path) -> None:  # noqa: F811
    """Its folder lists it, and it cannot be opened yet: it is not trained again."""
    folder = copied(killed, tmp_path / "run")
    checkpoints = sorted(folder.glob("checkpoints/linear/*/model.safetensors"))
    assert checkpoints and not (folder / "units" / "similarity__linear.safetensors").exists()
    checkpoints[0].rename(tmp_path / "aside")
    checkpoints[0].symlink_to(checkpoints[0].with_name("late"))
    job = start(2, "run", world.experiment, "--run-dir", folder)
    time.sleep(8)
    shutil.copyfile(tmp_path / "aside", checkpoints[0].with_name("late"))
    done = ended(job)
    assert done.returncode == 0 and "set aside" not in done.stderr, done.stderr
    assert differing(numbers(run_folder / "results.h5"), numbers(folder / "results.h5")) == []


@pytest.mark.parametrize(("error", "seconds"), [("ESTALE", 2), ("EIO", 2), ("EIO", 1e6), ("EACCES", 1e6)])
def test_units_that_cannot_be_opened(world: World, run_folder: Path, tmp_path: Path, error: str,
                                     seconds: float) -> None:
    """What may pass is tried again; what does not is said, and no unit is taken for a broken one."""
    folder = Path(shutil.copytree(run_folder, tmp_path / "run", symlinks=True))
    (folder / "results.h5").unlink()
    words = ["-n", "2", PROGRAM, "run", world.experiment, "--run-dir", folder]
    said = {"STALE_ERROR": error, "STALE_ERROR_SECONDS": str(seconds)}
    done = ended(launch(words, **stale(folder, 0), **said))
    if seconds < 1e6:
        assert done.returncode == 0 and "0 units computed" in done.stderr, done.stderr
    else:
        reason = {"EIO": "Input/output error", "EACCES": "Permission denied"}[error]
        complaint(done, folder / "units", "cannot be read: " + reason)
        done = ended(launch(words))
        assert done.returncode == 0 and "0 units computed" in done.stderr, done.stderr
    assert not any(folder.glob("units/*.broken"))
    assert differing(numbers(run_folder / "results.h5"), numbers(folder / "results.h5")) == []


def test_pairs_that_changed_before_the_restart(world: World, tmp_path: Path) -> None:
    experiment = pretraining.experiment(world, tmp_path)
    folder, pairs = tmp_path / "run", experiment.parent / "pairs.h5"
    measure(experiment, folder, ranks=1)
    with h5py.File(pairs, "a") as file:
        file["caption"][0] = (file["caption"][0] + 1) % 6
    complaint(run(1, "run", experiment, "--run-dir", folder), pairs, "other contents")


@pytest.mark.parametrize("fate", ["rewritten", "cut"])
def test_an_input_that_changes_while_it_is_used(world_copy: World, tmp_path: Path, fate: str) -> None:
    folder, path = tmp_path / "run", world_copy.task("blobs")
    job = start(2, "run", world_copy.experiment, "--run-dir", folder, "--set", "finetune.steps=800")
    assert wait_until(lambda: any(folder.glob("log/rank-*.log")), job)
    time.sleep(0.5)
    if fate == "cut":
        os.truncate(path, 2048)
    else:
        with h5py.File(path, "r+") as file:
            file["train/inputs"][0] = np.zeros_like(file["train/inputs"][0])
    complaint(ended(job), path, "was changed while this run used it")
    assert not (folder / "results.h5").exists()


def test_copies_that_differ_among_hosts(world_copy: World, tmp_path: Path) -> None:
    path, copy = world_copy.task("blobs"), tmp_path / "copy.h5"
    shutil.copyfile(path, copy)
    with h5py.File(copy, "a") as file:
        file["train/labels"][3] = (file["train/labels"][3] + 1) % 4
    words = [PROGRAM, "run", world_copy.experiment, "--run-dir", tmp_path / "run"]
    there = on_host("node2", tmp_path, f"mount --bind {copy} {path};")
    complaint(ended(launch(["-n", "1", *words], ["-n", "1", *there, *words])), path, "has other contents on node2")


@pytest.mark.parametrize("locks", ["none here", "local to hosts"])
def test_a_second_job_where_locks_do_not_help(world: World, tmp_path: Path, locks: str) -> None:
    folder = tmp_path / "run"
    words = ["run", world.experiment, "--run-dir", folder, *LONG]
    mount = [] if locks == "none here" else on_host("node2", tmp_path)
    variables = stale(folder, 0, "ENOLCK" if locks == "none here" else "local")
    first = launch(["-n", "1", PROGRAM, *words], **variables)
    assert wait_until(lambda: any(folder.glob("log/rank-*.log")), first)
    second = ended(launch(["-n", "1", *mount, PROGRAM, *words], **variables))
    complaint(second, folder, "is in use by process", "--run-dir")
    first.send_signal(signal.SIGUSR1)
    assert ended(first).returncode == 75
    assert not (folder / ".owner").exists()


def test_an_owner_that_died_here_is_not_waited_for(world: World, run_folder: Path, killed: Path,  # noqa: F811
                                                   tmp_path: Path) -> None:
    folder = copied(killed, tmp_path / "run")
    assert (folder / ".owner").exists()
    begin = time.monotonic()
    goes_on(world, folder, run_folder)
    assert time.monotonic() - begin < 50


def test_opened_units_do_not_grow_with_the_ranks(world: World, run_folder: Path, tmp_path: Path) -> None:
    """10,000 units on 512 ranks once had five million openings, for what rank 0 alone needs."""
    folder = copied(run_folder, tmp_path / "run")
    opened = {}
    for ranks in (1, 4):
        (folder / "results.h5").unlink()
        counter = tmp_path / f"opened-{ranks}"
        words = ["-n", str(ranks), PROGRAM, "run", world.experiment, "--run-dir", folder]
        done = ended(launch(words, **stale(folder, 0), STALE_COUNT=str(counter)))
        assert done.returncode == 0 and "0 units computed" in done.stderr, done.stderr
        opened[ranks] = counter.stat().st_size
    assert units(folder) < opened[1] == opened[4], opened
