# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What befalls a job from outside: full and read-only disks, inputs that change, clocks that jump, two jobs at once.

One line, the right exit code, nothing lost: afterwards the run goes on to the numbers of an undisturbed one.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import analysis_command
import h5py
import pytest
from compare import differing, numbers
from launch import (
    PATIENCE,
    PRELOADED,
    command,
    complaint,
    environment,
    kill_all,
    leftovers,
    measure,
    ranks_of,
    run,
    start,
    units,
    wait_until,
)
from safetensors.numpy import load_file, save_file
from world import TASKS, World, in_parts

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
LONG = ("--set", "finetune.steps=3000")


@pytest.fixture
def world_copy(world: World, tmp_path: Path) -> World:
    """A copy of the world that a test may spoil."""
    return World(Path(shutil.copytree(world.folder, tmp_path / "world")))


def goes_on(world: World, folder: Path, run_folder: Path) -> None:
    """The rest is computed, and only the rest."""
    before = units(folder)
    done = run(2, "run", world.experiment, "--run-dir", folder)
    assert done.returncode == 0, done.stderr
    assert f"{before} found finished" in done.stderr, done.stderr
    assert differing(numbers(run_folder / "results.h5"), numbers(folder / "results.h5")) == []
    assert leftovers(folder) == []


def interrupted(world: World, folder: Path, at_least: int = 3) -> None:
    """A run that was killed on its way."""
    job = start(2, "run", world.experiment, "--run-dir", folder)
    assert wait_until(lambda: units(folder) >= at_least, job)
    kill_all(job)
    assert not (folder / "results.h5").exists()


@pytest.fixture(scope="session")
def killed(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed on its way, for tests that begin with a copy of it."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    interrupted(world, folder, at_least=7)
    return folder


def copied(killed: Path, folder: Path) -> Path:
    return Path(shutil.copytree(killed, folder, symlinks=True))


def mounted(*arguments: str | Path) -> bool:
    return subprocess.run(["mount", *map(str, arguments)], check=False, capture_output=True).returncode == 0


def test_a_disk_that_is_full_at_any_moment(world: World, run_folder: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    needed = sum(4096 * (1 + p.stat().st_size // 4096) for p in run_folder.rglob("*")) // 1024
    sizes = [40, needed // 4, needed // 2, needed * 3 // 4, needed - 200, needed - 60, needed - 20]
    if not mounted("-t", "tmpfs", "-o", f"size={sizes[0]}k", "none", disk):
        pytest.skip("mounting a small file system needs root")
    folder, before, refused = disk / "run", 0, 0
    try:
        for size in sizes:
            assert mounted("-o", f"remount,size={size}k", disk)
            done = run(2, "run", world.experiment, "--run-dir", folder)
            if done.returncode == 0:
                break
            complaint(done, disk, "No space left on device")
            assert units(folder) >= before and not (folder / "results.h5").exists()
            before, refused = units(folder), refused + 1
        assert refused >= 4 and before > 0
        assert mounted("-o", "remount,size=64m", disk)
        goes_on(world, folder, run_folder)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_limit_on_the_size_of_files(world: World, run_folder: Path, tmp_path: Path) -> None:
    """The limit is set for one rank, not for the launcher, whose own files have megabytes."""
    folder, launcher = tmp_path / "run", command(1)
    for kilobytes in (8, 20, 400):
        limited = [*launcher[:-1], "prlimit", f"--fsize={kilobytes * 1024}", launcher[-1], "run", world.experiment,
                   "--run-dir", folder]
        done = subprocess.run(limited, env=environment() | {"OMPI_MCA_btl": "self"}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
        complaint(done, folder, "File too large", "ulimit -f")
        assert not (folder / "results.h5").exists() and (units(folder) == units(run_folder)) == (kilobytes == 400)
    goes_on(world, folder, run_folder)


def test_a_folder_that_became_read_only(world: World, run_folder: Path, killed: Path, tmp_path: Path) -> None:
    folder = copied(killed, tmp_path / "run")
    if mounted("--bind", folder, folder):
        try:
            assert mounted("-o", "remount,ro,bind", folder)
            done = run(2, "run", world.experiment, "--run-dir", folder)
        finally:
            subprocess.run(["umount", folder], check=True)
        complaint(done, folder, "Read-only file system", "may write to")
    elif os.geteuid() != 0:
        inside = [folder, *(p for p in folder.rglob("*") if p.is_dir() and not p.is_symlink())]
        (folder / ".lock").chmod(0o444)
        for each in inside:
            each.chmod(0o555)
        complaint(run(2, "run", world.experiment, "--run-dir", folder), folder, "Permission denied", "may write to")
        for each in inside:
            each.chmod(0o755)
        (folder / ".lock").chmod(0o644)
    else:
        pytest.skip("root may write everywhere, and may not mount here")
    goes_on(world, folder, run_folder)


def test_inputs_that_are_gone_or_changed_at_the_restart(world_copy: World, run_folder: Path, tmp_path: Path) -> None:
    """Each in turn: nothing is computed of another one."""
    folder = tmp_path / "run"
    interrupted(world_copy, folder, at_least=30)
    for path in (world_copy.task("blobs"), world_copy.weights):
        before = path.read_bytes()
        path.rename(tmp_path / "aside")
        named = world_copy.model if path == world_copy.weights else path
        complaint(run(2, "run", world_copy.experiment, "--run-dir", folder), named)
        (tmp_path / "aside").rename(path)
        if path == world_copy.weights:
            path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
        else:
            with h5py.File(path, "a") as file:
                file["train/labels"][3] = (file["train/labels"][3] + 1) % 4
        complaint(run(2, "run", world_copy.experiment, "--run-dir", folder), folder, named, "other contents",
                  "--run-dir")
        path.write_bytes(before)
    goes_on(world_copy, folder, run_folder)


def test_a_model_whose_configuration_changed(world_copy: World, run_folder: Path, tmp_path: Path) -> None:
    """Its numbers are the same, and give others by another activation; folders of before have no digest of it."""
    folder = tmp_path / "run"
    measure(world_copy.experiment, folder)
    path = world_copy.model / "config.json"
    before = path.read_text()
    path.write_text(before.replace("quick_gelu", "gelu"))
    assert path.read_text() != before
    complaint(run(2, "run", world_copy.experiment, "--run-dir", folder), folder, path, "other contents", "--run-dir")
    changed = analysis_command.called("recompute", folder, "--only", "single_task", "--points", "1")
    assert "pretrained/config.json was " in changed.stderr, changed.stdout + changed.stderr

    path.write_text(before)
    of_now = (folder / "inputs.toml").read_text()
    of_before = "".join(line for line in of_now.splitlines(keepends=True) if "config.json" not in line)
    assert of_before != of_now
    (folder / "inputs.toml").write_text(of_before)
    goes_on(world_copy, folder, run_folder)
    assert (folder / "inputs.toml").read_text() == of_now


def test_inputs_that_vanish_while_they_are_used(world_copy: World, run_folder: Path, tmp_path: Path) -> None:
    """They were read at the start."""
    folder = tmp_path / "run"
    job = start(2, "run", world_copy.experiment, "--run-dir", folder)
    assert wait_until(lambda: any(folder.glob("log/rank-*.log")), job)
    shutil.rmtree(world_copy.folder / "data")
    shutil.rmtree(world_copy.model)
    _, text = job.communicate(timeout=PATIENCE)
    assert job.returncode == 0, text
    assert differing(numbers(run_folder / "results.h5"), numbers(folder / "results.h5")) == []


def test_given_checkpoints_that_changed(world: World, run_folder: Path, tmp_path: Path) -> None:
    given = Path(shutil.copytree(run_folder / "checkpoints", tmp_path / "given"))
    settings = ("--set", f"finetune.checkpoints={given}", "--set", 'finetune.given=["standard", "linear"]', "--set",
                'finetune.regimes=["standard", "linear"]')
    measure(world.training, tmp_path / "run", *settings)
    path = given / "linear" / "blobs" / "model.safetensors"
    text = path.read_bytes()
    path.write_bytes(text[:-1] + bytes([text[-1] ^ 1]))
    complaint(run(2, "run", world.training, "--run-dir", tmp_path / "run", *settings), path, "other contents")


def test_given_models_in_parts(world: World, run_folder: Path, tmp_path: Path) -> None:
    """Models that others fine-tuned are taken: folders REGIME/TASK that no run of ours wrote."""
    for task in TASKS:
        shutil.copytree(run_folder / "checkpoints/standard" / task, tmp_path / "given/standard" / task)
        parts = in_parts(tmp_path / "given/standard" / task)
    settings = ("--set", f"finetune.checkpoints={tmp_path / 'given'}", "--set", 'finetune.given=["standard"]', "--set",
                'finetune.regimes=["standard"]')
    again = measure(world.training, tmp_path / "run", *settings)
    before, after = numbers(run_folder / "results.h5"), numbers(again)
    name = "single_task/standard/accuracy"
    assert (before[name] == after[name]).all()
    check = analysis_command.called("recompute", tmp_path / "run", "--only", "single_task", "--points", "6")
    assert check.returncode == 0 and "inputs" not in check.stderr, check.stdout + check.stderr
    content = parts[1].read_bytes()
    parts[1].write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    index = parts[1].parent / "model.safetensors.index.json"
    complaint(run(2, "run", world.training, "--run-dir", tmp_path / "run", *settings), index, "other contents")
    changed = analysis_command.called("recompute", tmp_path / "run", "--only", "single_task", "--points", "1")
    assert "corners/model.safetensors.index.json was " in changed.stderr, changed.stdout + changed.stderr
    parts[1].unlink()
    complaint(run(2, "run", world.training, "--run-dir", tmp_path / "new", *settings), parts[1])


def test_given_models_of_another_start_in_parts(world: World, run_folder: Path, tmp_path: Path) -> None:
    """Their headers, which others do not write, say nothing of it: the model beside them does."""
    given = tmp_path / "given"
    for task in TASKS:
        shutil.copytree(run_folder / "checkpoints/standard" / task, given / "standard" / task)
        in_parts(given / "standard" / task)
    shutil.copytree(world.model, given / "pretrained")
    weights = given / "pretrained" / "model.safetensors"
    save_file({name: 2 * tensor for name, tensor in load_file(weights).items()}, weights)
    in_parts(given / "pretrained")
    settings = ("--set", f"finetune.checkpoints={given}", "--set", 'finetune.given=["standard"]', "--set",
                'finetune.regimes=["standard"]')
    complaint(run(1, "run", world.training, "--run-dir", tmp_path / "run", *settings), given / "pretrained",
              "is not the model", world.model)


def test_files_from_the_future(world: World, run_folder: Path, killed: Path, tmp_path: Path) -> None:
    """The clock was ahead at the first start, or is behind now."""
    folder = copied(killed, tmp_path / "run")
    later = time.time() + 3e7
    for path in folder.rglob("*"):
        os.utime(path, (later, later), follow_symlinks=False)  # links lead to the inputs, which others are reading
    (folder / "started_utc").write_text("2199-01-01T00:00:00Z\n")
    goes_on(world, folder, run_folder)


@pytest.mark.skipif(not FAKETIME.exists(), reason="libfaketime is not installed")
def test_a_clock_that_jumps(world: World, run_folder: Path, tmp_path: Path) -> None:
    folder, clock = tmp_path / "run", tmp_path / "clock"
    clock.write_text("+0")
    faked = environment() | {"LD_PRELOAD": f"{FAKETIME} {PRELOADED}", "FAKETIME_TIMESTAMP_FILE": str(clock),
                             "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                             "NO_FAKE_STAT": "1"}  # clocks jump, the times in files do not
    job = subprocess.Popen(command(2, "run", world.experiment, "--run-dir", folder, "--time-limit", "60"), env=faked,
                           text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for enough, jump in ((1, "-3d"), (3, "+400d"), (5, "-5h")):  # neither is the time limit's end
        assert wait_until(lambda enough=enough: units(folder) >= enough, job)
        clock.write_text(jump)
    _, text = job.communicate(timeout=PATIENCE)
    assert job.returncode == 0, text
    assert differing(numbers(run_folder / "results.h5"), numbers(folder / "results.h5")) == []
    with h5py.File(folder / "results.h5") as file:
        assert (file["units"]["seconds"] >= 0).all() and (file["units"]["seconds"] < PATIENCE).all()


def test_two_jobs_on_one_folder(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    first = start(2, "run", world.experiment, "--run-dir", folder, *LONG)
    assert wait_until(lambda: any(folder.glob("log/rank-00000.log")), first)
    second = run(1, "run", world.experiment, "--run-dir", folder, *LONG)
    holder = (folder / ".lock").read_text()
    complaint(second, folder, "is in use by", holder, f" on {socket.gethostname()}", "--run-dir")
    assert any(holder.startswith(f"process {pid} ") for pid in ranks_of(first)), holder
    first.send_signal(signal.SIGUSR1)
    _, text = first.communicate(timeout=PATIENCE)
    assert first.returncode == 75, text


@pytest.mark.parametrize("holder", ["killed here", "elsewhere"])
def test_a_stale_lock(world: World, run_folder: Path, killed: Path, tmp_path: Path, holder: str) -> None:
    """The system lets go of a lock with its process; what the file says is only for people to read."""
    folder = copied(killed, tmp_path / "run")
    assert socket.gethostname() in (folder / ".lock").read_text()
    if holder == "elsewhere":
        (folder / ".lock").write_text("process 1 on another-host, Slurm job 17, since 2026-01-01T00:00:00Z")
    goes_on(world, folder, run_folder)
