# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""One rule for walking folders: links, hidden entries, suffixes, what counts as a class, and what is left out."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import walk
from command import main
from errors import InputError
from pictures.rows import SUFFIXES, folder_rows


def put(path: Path, seed: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number, name in enumerate(("cat", "dog")):
        for row in range(10):
            put(tmp_path / "photos" / name / f"{row}.png", 10 * number + row)
    np.save(tmp_path / "head.npy", np.eye(2, 4, dtype=np.float32))
    return tmp_path / "photos"


def linked_file(photos: Path) -> None:
    put(photos.parent / "elsewhere/far.png", 99)
    (photos / "cat/near.png").symlink_to(photos.parent / "elsewhere/far.png")


def linked_folder(photos: Path) -> None:
    put(photos.parent / "elsewhere/far.png", 99)
    (photos / "cat/more").symlink_to(photos.parent / "elsewhere")


def linked_class(photos: Path) -> None:
    (photos / "cat").rename(photos.parent / "cats")
    (photos / "cat").symlink_to(photos.parent / "cats")


def hidden_picture(photos: Path) -> None:
    put(photos / "cat/._0.png")


def hidden_folder(photos: Path) -> None:
    put(photos / "cat/.ipynb_checkpoints/0-checkpoint.png")


def hidden_class(photos: Path) -> None:
    put(photos / ".trash/0.png")


def strewn(photos: Path) -> None:
    put(photos / "cat/@eaDir/0.png")


def strewn_class(photos: Path) -> None:
    put(photos / "__MACOSX/cat/0.png")


def capitals(photos: Path) -> None:
    put(photos / "cat/more/IMG.PNG", 99)


def others(photos: Path) -> None:
    (photos / "README.md").touch()
    (photos / "cat/Thumbs.db").touch()


# what is done to twenty pictures; how many rows there are then; how the last line ends
CASES: list[tuple[Callable[[Path], None], int, str]] = [
    (linked_file, 21, "test"),
    (linked_folder, 21, "test"),
    (linked_class, 20, "test"),
    (hidden_picture, 20, "; left out: 1 hidden"),
    (hidden_folder, 20, "; left out: 1 hidden"),
    (hidden_class, 20, "; left out: 1 hidden"),
    (strewn, 20, "; left out: 1 hidden"),
    (strewn_class, 20, "; left out: 1 hidden"),
    (capitals, 21, "test"),
    (others, 20, "; left out: 2 of other suffixes"),
]


@pytest.mark.parametrize(("change", "rows", "ending"), CASES, ids=[change.__name__ for change, _, _ in CASES])
def test_what_counts(photos, capsys, change, rows, ending):
    """The rule holds for people's own pictures and for the papers' sets."""
    change(photos)
    head = str(photos.parent / "head.npy")
    assert main(["folder", str(photos), "--task", "t", "--head", head, "--out", str(photos.parent / "out")]) == 0
    line = capsys.readouterr().out.strip()
    counts = line.partition(": 2 classes; ")[2].partition(";")[0]
    assert sum(int(part.split()[0]) for part in counts.split(", ")) == rows and line.endswith(ending)
    layout = folder_rows(photos, walk.classes(photos))
    assert walk.classes(photos) == ["cat", "dog"] and len(layout.labels) == rows
    assert walk.closing(layout.left_out) == (ending if ending.startswith(";") else "")


def loop(photos: Path) -> None:
    (photos / "cat/again").symlink_to(photos)


def link_to_itself(photos: Path) -> None:
    (photos / "cat/self.png").symlink_to("self.png")


def link_to_nothing(photos: Path) -> None:
    (photos / "cat/lost.png").symlink_to("nowhere.png")


def pipe(photos: Path) -> None:
    os.mkfifo(photos / "cat/pipe.png")


def empty_class(photos: Path) -> None:
    (photos / "mouse").mkdir()


def strange_class(photos: Path) -> None:
    (photos / "dog").rename(photos / os.fsdecode(b"d\xff\xfeg"))


BAD = [
    (loop, "cat/again/cat: a link that leads back"),
    (link_to_itself, "self.png: Too many levels of symbolic links"),
    (link_to_nothing, "lost.png: not found"),
    (pipe, "pipe.png: is a pipe, a socket or a device; expected a file"),
    (empty_class, "mouse: no pictures"),
    (strange_class, "letters that are no UTF-8"),
]


@pytest.mark.parametrize(("change", "reason"), BAD, ids=[change.__name__ for change, _ in BAD])
def test_what_is_refused(photos, capsys, change, reason):
    change(photos)
    head, out = str(photos.parent / "head.npy"), photos.parent / "out"
    assert main(["folder", str(photos), "--task", "t", "--head", head, "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert reason in line and "expected" in line and not out.exists()
    with pytest.raises(InputError, match="expected"):
        folder_rows(photos, walk.classes(photos))


def test_order_is_that_of_torchvision(photos):
    """Folders whose names continue another's stand where ImageFolder's sorted walk has them."""
    for name in ("b-x/1.png", "b/c/1.png", "b/1.png", "a.png", "B/1.png"):
        put(photos / "cat" / name)
    (photos / "cat/linked").symlink_to(photos / "dog")
    listed, _ = walk.files(photos / "cat", SUFFIXES)
    expected = []
    for parent, _, names in sorted(os.walk(photos / "cat", followlinks=True)):
        expected += [f"{parent}/{name}" for name in sorted(names)]
    assert listed == expected and len(listed) == 25


def test_a_given_split_without_pictures_is_refused(photos, capsys):
    """Otherwise a test split would be drawn from the training pictures without a word."""
    parts = photos.parent / "parts"
    photos.rename(parts)
    (parts / "train").mkdir()
    for name in ("cat", "dog"):
        (parts / name).rename(parts / "train" / name)
        (parts / "test" / name).mkdir(parents=True)
    head = str(photos.parent / "head.npy")
    assert main(["folder", str(parts), "--head", head, "--out", str(photos.parent / "out")]) == 2
    assert "test: no pictures" in capsys.readouterr().err


def test_texts_say_which_files_were_left(tmp_path):
    from texts.read import parts_of

    for name in ("train.csv", "test.csv", "unlabelled.csv", "._train.csv", "README.md"):
        (tmp_path / name).touch()
    parts, left_out = parts_of(tmp_path)
    assert [path.name for _, path in parts] == ["test.csv", "train.csv"]
    assert walk.closing(left_out) == "; left out: 1 hidden, 2 of other names"
