# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Packing that is ended in its middle leaves nothing behind, and goes on where it was."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

import packed
from command import main
from pictures import facts
from stopping import Stopped, stoppable

PREPARE = Path(__file__).resolve().parents[2] / "jobs/prepare"
# Each picture of sun397 takes a while, so that a signal meets its file half written. A shell's background jobs, and
# what they start, ignore SIGINT otherwise.
SLOWLY = f"""
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {str(PREPARE)!r})
import command
from pictures import facts, originals, picture
for each in ("dtd", "sun397"):
    facts.FACTS[each]["class_count"] = 2
quick = originals.render
picture.BLOCK = 1
def slow(item, size):
    if "sun397" in str(item):
        time.sleep(0.3)
    return quick(item, size)
originals.render = slow
sys.exit(command.main(sys.argv[1:]))
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for task in ("dtd", "sun397"):
        monkeypatch.setitem(facts.FACTS[task], "class_count", 2)
    for task, part in (("dtd", "train"), ("dtd", "val"), ("sun397", "train"), ("sun397", "val")):
        for name in ("a_one", "a_two"):
            (tmp_path / task / part / name).mkdir(parents=True)
            for row in range(12):
                values = np.random.default_rng(row).integers(0, 256, (9, 7, 3), dtype=np.uint8)
                Image.fromarray(values).save(tmp_path / task / part / name / f"{row}.png")
    (tmp_path / "heads").mkdir()
    for task in ("dtd", "sun397"):
        weight = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
        np.savez(tmp_path / f"heads/{task}.npz", weight=weight, logit_scale=np.float32(100))
    return tmp_path


def arguments(root: Path, *more: str) -> list[str]:
    where = ["--data-location", str(root), "--heads", str(root / "heads"), "--out", str(root / "out")]
    return ["originals", *where, "--image-size", "8", *more]


def interrupted(root: Path, number: signal.Signals) -> subprocess.CompletedProcess[str]:
    """Ends the program once it has half written sun397.h5."""
    command = [sys.executable, "-c", SLOWLY, *arguments(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not list((root / "out").glob(".sun397.h5.*")) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_nothing_half_written(root, number):
    done = interrupted(root, number)
    assert done.returncode == 75, done.stderr
    assert done.stderr == f"prepare: stopped by {number.name}; nothing half written is left, run it again to go on\n"
    assert [path.name for path in (root / "out").iterdir()] == ["dtd.h5"]


def test_a_signal_within_a_destructor_is_not_lost() -> None:
    class Dropped:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped, match="SIGTERM"), stoppable():
        Dropped()
        time.sleep(30)


def test_what_a_killed_process_left_is_swept_and_the_finished_kept(root, capsys):
    done = interrupted(root, signal.SIGKILL)
    assert done.returncode == -signal.SIGKILL
    (left,) = (root / "out").glob(".*.part")
    assert socket.gethostname() in left.name
    finished = (root / "out/dtd.h5").stat()
    assert main(arguments(root)) == 0
    said = capsys.readouterr().out
    assert "dtd.h5: 2 classes; 22 train, 2 validation, 24 test (unchanged)" in said and said.count("unchanged") == 1
    assert sorted(path.name for path in (root / "out").iterdir()) == ["dtd.h5", "sun397.h5"]
    assert (root / "out/dtd.h5").stat().st_ino == finished.st_ino
    assert main(arguments(root)) == 0 and capsys.readouterr().out.count("unchanged") == 2


@pytest.mark.parametrize("change", ["nothing", "size", "picture", "touched", "head", "other head", "fewer", "damaged"])
def test_only_what_changed_is_packed_again(root, capsys, change):
    only = arguments(root, "--only", "dtd")
    assert main(only) == 0
    picture, head = root / "dtd/train/a_one/3.png", root / "heads/dtd.npz"
    if change == "size":
        only += ["--image-size", "9"]
    elif change == "picture":
        Image.new("RGB", (9, 9)).save(picture)
    elif change == "touched":
        os.utime(picture)
    elif change == "head":
        np.savez(head, weight=np.eye(2, 5, dtype=np.float32), logit_scale=np.float32(50))
    elif change == "other head":
        shutil.copy(head, root / "heads/sun397.npz")
        os.utime(head)
    elif change == "fewer":
        picture.unlink()
    elif change == "damaged":
        (root / "out/dtd.h5").write_bytes(b"cut")
    capsys.readouterr()
    assert main(only) == 0
    assert ("unchanged" in capsys.readouterr().out) == (change in ("nothing", "other head"))
    with h5py.File(root / "out/dtd.h5") as file:
        assert file["test/inputs"].shape[1] == (9 if change == "size" else 8)


def test_parts_of_others_are_left_and_named(tmp_path, capsys):
    host = socket.gethostname()
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    names = {
        "dead": f".a.h5.{host}.{int(gone.stdout)}.part",
        "alive": f".a.h5.{host}.{os.getppid()}.part",
        "elsewhere": f".a.h5.node-07.cluster.{int(gone.stdout)}.part",
        "not ours": ".a.part",
        "no process": f".a.h5.{host}.{10**30}.part",
    }
    for name in names.values():
        (tmp_path / name).write_bytes(b"half")
    with packed.whole(tmp_path / "b.h5") as part:
        part.write_bytes(b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {*names.values(), "b.h5"} - {names["dead"]}
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and names["elsewhere"] in said and "remove it" in said
