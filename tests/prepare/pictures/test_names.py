# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Class names go by name where both sides have one, never by their places."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from command import main
from errors import InputError
from pictures import facts, layouts
from pictures.layouts import without_letters

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"]


def put_classes(root: Path, folders: list[str], count: int = 10) -> Path:
    """Pictures whose grey level tells their folder by its place in the list."""
    for place, name in enumerate(folders):
        (root / name).mkdir(parents=True)
        for row in range(count):
            grey = np.full((8, 8, 3), 20 * place, np.uint8)
            grey[0, 0] = row
            Image.fromarray(grey).save(root / name / f"{row}.png")
    return root


def names_and_heads(path: Path) -> tuple[dict[str, int], dict[str, int]]:
    """For each class's name the place of its pictures' folder, and the column in which its row of the head has a 1."""
    with h5py.File(path) as file:
        names = [name.decode() for name in file["class_names"]]
        shown = zip(file["train/labels"][:].tolist(), file["train/inputs"][:, 4].mean((1, 2)), strict=True)
        folders = {names[label]: round(grey / 20) for label, grey in shown}
        return folders, dict(zip(names, file["head/weight"][:].argmax(1).tolist(), strict=True))


# folders; what --class-names says of them; whose pictures each name has then
BY_NAME = [
    ([str(number) for number in range(12)], NUMBERS, dict(zip(NUMBERS, range(12), strict=True))),
    ([str(number + 1) for number in range(12)], NUMBERS, dict(zip(NUMBERS, range(12), strict=True))),
    ([f"{number:02d}" for number in range(12)], NUMBERS, dict(zip(NUMBERS, range(12), strict=True))),
    (["ape", "bee", "cow"], ["cow", "ape", "bee"], {"ape": 0, "bee": 1, "cow": 2}),
    (["red_fox", "blue_whale"], ["red fox", "blue whale"], {"red fox": 0, "blue whale": 1}),
    (["n02", "n01"], ["n02=cod", "n01=a=b"], {"cod": 0, "a=b": 1}),
    (["n02", "n01"], ["n02\tcod", "n01\teel"], {"cod": 0, "eel": 1}),
    (["7", "12"], ["7=cod", "12=eel"], {"cod": 0, "eel": 1}),
]


@pytest.mark.parametrize(("folders", "given", "expected"), BY_NAME)
def test_names_go_to_their_folders(tmp_path, folders, given, expected):
    """The head's rows go with the list of names."""
    put_classes(tmp_path / "in", folders)
    (tmp_path / "names.txt").write_text("\n".join(given))
    np.save(tmp_path / "head.npy", np.eye(len(folders), dtype=np.float32))
    arguments = ["folder", str(tmp_path / "in"), "--task", "t", "--out", str(tmp_path), "--image-size", "8"]
    names = ["--class-names", str(tmp_path / "names.txt")]
    assert main([*arguments, *names, "--head", str(tmp_path / "head.npy")]) == 0
    of_pictures, of_heads = names_and_heads(tmp_path / "t.h5")
    assert of_pictures == expected
    listed = [name.split("=", 1)[-1].split("\t")[-1] for name in given]
    assert of_heads == {name: listed.index(name) for name in expected}


BAD = [
    (["n02", "n01"], ["cod", "eel"], "which class each is for is not said; expected FOLDER=NAME"),
    (["3", "7"], ["cod", "eel"], "which class each is for is not said"),
    (["n02", "n01"], ["n02=cod", "eel"], "which class each is for is not said"),
    (["n02", "n01"], ["n02=cod", "n03=eel"], "n01 has none"),
    (["n02", "n01"], ["n02=cod", "n02=eel"], "n01 has none"),
    (["n02", "n01"], ["n02=cod", "n01="], "2 names; expected one for each of 2 classes"),
    (["0", "1"], ["cod", "eel", "bream"], "3 names; expected one for each of 2 classes"),
    ([str(number) for number in range(12)], None, "expected --class-names in the order of the rows"),
]


@pytest.mark.parametrize(("folders", "given", "reason"), BAD)
def test_names_by_place_are_refused(tmp_path, capsys, folders, given, reason):
    put_classes(tmp_path / "in", folders)
    np.save(tmp_path / "head.npy", np.eye(len(folders), dtype=np.float32))
    arguments = ["folder", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--head", str(tmp_path / "head.npy")]
    assert main([*arguments, *(["--class-names", ",".join(given)] if given else [])]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert reason in line and not (tmp_path / "out").exists()


def test_a_class_of_test_that_train_has_not_is_refused(tmp_path, capsys):
    put_classes(tmp_path / "in/train", ["cat", "dog"])
    put_classes(tmp_path / "in/test", ["Cat", "dog"])
    np.save(tmp_path / "head.npy", np.eye(3, dtype=np.float32))
    assert main(["folder", str(tmp_path / "in"), "--out", str(tmp_path), "--head", str(tmp_path / "head.npy")]) == 2
    assert "in/test/Cat: train has no such class" in capsys.readouterr().err


def test_a_class_without_training_pictures_is_refused(tmp_path, capsys):
    """As are labels that leave out a number."""
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", images=images, labels=np.arange(60) % 3 * 2)
    np.save(tmp_path / "head.npy", np.eye(5, dtype=np.float32))
    arguments = ["arrays", str(tmp_path / "set.npz"), "--out", str(tmp_path), "--head", str(tmp_path / "head.npy")]
    assert main(arguments) == 2
    assert "leave none of class 1 for train" in capsys.readouterr().err


SUN = [
    (["a_abbey", "b_bus_interior", "x_x"], ["abbey", "bus_interior", "x"]),
    (["abbey", "bus_interior"], ["abbey", "bus_interior"]),
    (["00001", "00002"], ["00001", "00002"]),
]


@pytest.mark.parametrize(("folders", "names"), SUN)
def test_only_a_letter_that_is_there_is_cut_off(folders, names):
    assert without_letters(Path("train"), folders) == names


def test_some_letters_are_refused():
    with pytest.raises(InputError, match="train/abbey: stands beside a_airport; expected names all with a letter"):
        without_letters(Path("train"), ["a_airport", "abbey"])


def test_lists_name_pictures_that_are_there_once(tmp_path, monkeypatch):
    """A list of files cannot say which of two classes' 0.png it means."""
    monkeypatch.setitem(facts.FACTS["resisc45"], "class_count", 2)
    put_classes(tmp_path / "resisc45/NWPU-RESISC45", ["airplane", "airport"], 2)
    with pytest.raises(InputError, match=r"airport/0.png: .*airplane/0.png has the same name"):
        layouts.resisc45(tmp_path)
