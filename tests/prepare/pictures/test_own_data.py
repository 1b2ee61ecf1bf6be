"""Users' own data through the command line: what is written, and what bad input says."""

import gzip
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from command import main

CLASSES = ("blue_whale", "red_fox")


@pytest.fixture
def head(tmp_path: Path) -> Path:
    path = tmp_path / "head.npy"
    np.save(path, np.random.default_rng(0).normal(size=(2, 16)).astype(np.float32))
    return path


def pictures(count: int, seed: int = 0, side: int = 12) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, side, side, 3), dtype=np.uint8)


def write_folder(root: Path, count: int = 20) -> Path:
    for number, name in enumerate(CLASSES):
        folder = root / name
        folder.mkdir(parents=True)
        for row, image in enumerate(pictures(count, number)):
            Image.fromarray(image).save(folder / f"{row}.png")
    return root


def idx(array: np.ndarray) -> bytes:
    return struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(root: Path, count: int = 60) -> Path:
    root.mkdir()
    (root / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(pictures(count, side=28)[..., 0])))
    (root / "train-labels-idx1-ubyte").write_bytes(idx(np.arange(count, dtype=np.uint8) % 2))
    return root


def refused(arguments: list[str], out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run, and check the promise about bad input: code 2, one line, nothing written."""
    assert main(arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and "expected" in lines[0]
    assert not out.exists() or not list(out.iterdir())
    return lines[0]


def test_folder_of_classes(tmp_path, head):
    write_folder(tmp_path / "in")
    arguments = ["folder", str(tmp_path / "in"), "--task", "mine", "--out", str(tmp_path), "--head", str(head)]
    assert main([*arguments, "--license", "CC0-1.0"]) == 0
    with h5py.File(tmp_path / "mine.h5") as file:
        assert [len(file[f"{part}/labels"]) for part in ("train", "validation", "test")] == [29, 3, 8]
        assert file["train/inputs"].shape == (29, 32, 32, 3) and file["train/inputs"].dtype == np.uint8
        assert [name.decode() for name in file["class_names"]] == ["blue whale", "red fox"]
        assert np.allclose(np.linalg.norm(file["head/weight"][:], axis=1), 1, atol=1e-6)
        assert file["head/weight"].attrs["logit_scale"] == 100
        assert file.attrs["license"] == "CC0-1.0" and file.attrs["modality"] == "image"
        assert len(file.attrs["mean"]) == len(file.attrs["std"]) == 3
        seen = [set(file[f"{part}/split_key"][:].tolist()) for part in ("train", "validation", "test")]
        assert not seen[0] & seen[1] and not seen[0] & seen[2] and not seen[1] & seen[2]


def test_folder_with_splits_keeps_them(tmp_path, head):
    for part in ("train", "val", "test"):
        write_folder(tmp_path / "in" / part, 5)
    arguments = ["folder", str(tmp_path / "in"), "--task", "m", "--out", str(tmp_path), "--head", str(head)]
    assert main([*arguments, "--image-size", "16"]) == 0
    with h5py.File(tmp_path / "m.h5") as file:
        assert [file[f"{part}/inputs"].shape for part in ("train", "validation", "test")] == [(10, 16, 16, 3)] * 3


def test_drawn_pictures_are_none_of_the_given_test(tmp_path, head):
    for part in ("train", "test"):
        write_folder(tmp_path / "in" / part, 20)  # the same pictures
    arguments = ["folder", str(tmp_path / "in"), "--task", "m", "--out", str(tmp_path), "--head", str(head)]
    assert main([*arguments, "--image-size", "16"]) == 2
    for number in range(20):  # others, of which some are drawn
        for kind in sorted((tmp_path / "in/train").iterdir()):
            Image.fromarray(pictures(1, 100 + number)[0]).save(kind / f"further{number}{kind.name}.png")
    assert main([*arguments, "--image-size", "16"]) == 0
    with h5py.File(tmp_path / "m.h5") as file:
        seen = [{image.tobytes() for image in file[f"{part}/inputs"][()]} for part in ("validation", "test")]
        assert seen[0] and not seen[0] & seen[1]


def test_repeating_gives_the_same_bytes(tmp_path, head):
    write_folder(tmp_path / "in")
    written = []
    for number in range(2):
        out = tmp_path / f"out{number}"
        assert main(["folder", str(tmp_path / "in"), "--task", "m", "--out", str(out), "--head", str(head)]) == 0
        written.append((out / "m.h5").read_bytes())
        assert [path.name for path in out.iterdir()] == ["m.h5"]
    assert written[0] == written[1]


def test_idx_and_arrays_agree(tmp_path, head):
    write_idx(tmp_path / "idx")
    images, labels = pictures(60, side=28)[..., 0], np.arange(60) % 2
    np.savez(tmp_path / "set.npz", train_images=images, train_labels=labels)
    for command, where in (("idx", "idx"), ("arrays", "set.npz")):
        options = ["--task", "same", "--out", str(tmp_path / command), "--head", str(head), "--source", "s"]
        assert main([command, str(tmp_path / where), *options, "--class-names", "even,odd"]) == 0
    assert (tmp_path / "idx/same.h5").read_bytes() == (tmp_path / "arrays/same.h5").read_bytes()
    with h5py.File(tmp_path / "idx/same.h5") as file:
        assert file["train/inputs"][0, 0].max() == 0  # 28 × 28 stands in a black frame of 2
        assert len(file["test/labels"]) == 12 and len(file["validation/labels"]) == 5


def test_forty_ordinary_names_are_no_path(tmp_path, head):
    """Together they are longer than a path may be, and so may one of them be long."""
    names = [f"a class with an ordinary name {number}" for number in range(40)]
    images = pictures(400)
    np.savez(tmp_path / "set.npz", images=images, labels=np.arange(400) % 40)
    np.save(head, np.random.default_rng(0).normal(size=(40, 16)))
    arguments = ["arrays", str(tmp_path / "set.npz"), "--out", str(tmp_path), "--head", str(head), "--class-names"]
    written = tmp_path / "names.txt"
    written.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(names).encode())
    for given in (",".join(names), str(written)):
        assert main([*arguments, given]) == 0
        with h5py.File(tmp_path / "set.h5") as file:
            assert [name.decode() for name in file["class_names"]] == names


def test_idx_header_is_not_believed(tmp_path, head, capsys):
    write_idx(tmp_path / "in")
    claims = struct.pack(">4B3I", 0, 0, 8, 3, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    (tmp_path / "in/train-images-idx3-ubyte.gz").write_bytes(gzip.compress(claims + b"abc"))
    out = tmp_path / "out"
    line = refused(["idx", str(tmp_path / "in"), "--out", str(out), "--head", str(head)], out, capsys)
    assert "train-images-idx3-ubyte.gz" in line and "3 bytes follow" in line


@pytest.mark.parametrize("damage", ["cut", "no gzip", "empty", "text"])
def test_damaged_idx(tmp_path, head, capsys, damage):
    write_idx(tmp_path / "in")
    path = tmp_path / "in/train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[:-300], "no gzip": whole[:2] + b"x" * 50, "empty": b"", "text": b"hello"}[damage])
    out = tmp_path / "out"
    line = refused(["idx", str(tmp_path / "in"), "--out", str(out), "--head", str(head)], out, capsys)
    assert path.name in line


def test_npy_header_is_not_believed(tmp_path, head, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    np.save(folder / "images.npy", pictures(4))
    np.save(folder / "labels.npy", np.arange(4) % 2)
    raw = (folder / "images.npy").read_bytes()
    (folder / "images.npy").write_bytes(raw.replace(b"(4, 12, 12, 3)", b"(9, 99, 99, 3)"))
    out = tmp_path / "out"
    line = refused(["arrays", str(folder), "--out", str(out), "--head", str(head)], out, capsys)
    assert "images.npy" in line


def test_pickled_arrays_are_refused(tmp_path, head, capsys):
    np.savez(tmp_path / "set.npz", images=np.array([{}, []], dtype=object), labels=np.arange(2))
    out = tmp_path / "out"
    line = refused(["arrays", str(tmp_path / "set.npz"), "--out", str(out), "--head", str(head)], out, capsys)
    assert "Python objects" in line


def shaped(images: np.ndarray, **changes: object) -> dict[str, np.ndarray]:
    return {"images": images, "labels": np.arange(60) % 2, **changes}


GREY, COLOUR, SIXTEEN = pictures(60)[..., 0], pictures(60), pictures(60).astype(np.uint16) * 257
KERAS = {
    "x_train": COLOUR[:40],
    "y_train": np.arange(40)[:, None] % 2,
    "x_test": COLOUR[40:],
    "y_test": np.arange(20) % 2,
}
UNLABELLED = np.where(np.arange(60) < 6, -1, np.arange(60) % 2)
# arrays, options, what the file holds: the same as of the plain arrays, names, the closing line's end
ARRAYS = {
    "channels first": (shaped(COLOUR.transpose(0, 3, 1, 2)), [], COLOUR, ["0", "1"], "test"),
    "grey, channels first": (shaped(GREY[:, None]), [], GREY, ["0", "1"], "test"),
    "grey, channels last": (shaped(GREY[..., None]), [], GREY, ["0", "1"], "test"),
    "floats": (shaped((COLOUR / 255).astype(np.float32)), ["--white", "1"], COLOUR, ["0", "1"], "test"),
    "whole numbers": (shaped(COLOUR.astype(np.int64)), ["--white", "255"], COLOUR, ["0", "1"], "test"),
    "sixteen bits": (shaped(SIXTEEN), ["--white", "65535"], COLOUR, ["0", "1"], "test"),
    "labels from 1": (shaped(COLOUR, labels=np.arange(60) % 2 + 1), [], COLOUR, ["1", "2"], "test"),
    "labels a column": (shaped(COLOUR, labels=np.arange(60)[:, None] % 2), [], COLOUR, ["0", "1"], "test"),
    "Keras": (KERAS, [], COLOUR, ["0", "1"], "20 test"),
    "Keras, one array": ({"x": COLOUR, "y": np.arange(60) % 2}, [], COLOUR, ["0", "1"], "test"),
    "dropped": (
        shaped(COLOUR, labels=UNLABELLED),
        ["--drop-unlabelled"],
        COLOUR[6:],
        ["0", "1"],
        "; left out: 6 without a label",
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_as_people_have_them(tmp_path, head, capsys, name):
    arrays, options, images, names, ending = ARRAYS[name]
    np.savez(tmp_path / "set.npz", **arrays)
    out = ["--out", str(tmp_path), "--head", str(head), "--image-size", "12"]
    assert main(["arrays", str(tmp_path / "set.npz"), *out, *options]) == 0
    assert capsys.readouterr().out.strip().endswith(ending)
    with h5py.File(tmp_path / "set.h5") as file:
        held = np.concatenate([file[f"{part}/inputs"][:] for part in ("train", "validation", "test")])
        labels = np.concatenate([file[f"{part}/labels"][:] for part in ("train", "validation", "test")])
        assert [each.decode() for each in file["class_names"]] == names
    first = 60 - len(images)
    rgb = images if images.ndim == 4 else np.repeat(images[..., None], 3, 3)
    label_of = {image.tobytes(): (row + first) % 2 for row, image in enumerate(rgb)}
    assert len(held) == len(images) and [label_of[image.tobytes()] for image in held] == labels.tolist()


def test_numbers_from_1_take_names_in_their_order(tmp_path, head):
    np.savez(tmp_path / "set.npz", **shaped(COLOUR, labels=np.arange(60) % 2 + 1))
    arguments = ["arrays", str(tmp_path / "set.npz"), "--out", str(tmp_path), "--head", str(head)]
    assert main([*arguments, "--class-names", "one,two"]) == 0
    with h5py.File(tmp_path / "set.h5") as file:
        assert [name.decode() for name in file["class_names"]] == ["one", "two"]


NOT_CERTAIN = {
    "floats": (shaped(COLOUR / 255), "float64 numbers from 0 to 1, whose white is not said; expected uint8"),
    "sixteen bits": (shaped(SIXTEEN), "--white with the value that is white"),
    "channels nowhere": (
        shaped(pictures(60, side=16).reshape(60, 8, 12, 8)),
        "or [n,h,w,c] or [n,c,h,w] with c 1, 3 or 4",
    ),
    "unlabelled": (shaped(COLOUR, labels=UNLABELLED), "6 pictures have the label -1, which means none in many sets"),
    "below": (shaped(COLOUR, labels=np.arange(60) % 2 - 2), "labels -2 to -1; expected 0"),
    "all unlabelled": (shaped(COLOUR, labels=np.full(60, -1)), "60 pictures have the label -1"),
    "two names": (KERAS | {"train_images": COLOUR}, "expected x_train or its other name, not both"),
}


@pytest.mark.parametrize("name", NOT_CERTAIN)
def test_what_is_not_certain_gets_the_option_s_name(tmp_path, head, capsys, name):
    arrays, reason = NOT_CERTAIN[name]
    np.savez(tmp_path / "set.npz", **arrays)
    out = tmp_path / "out"
    assert reason in refused(["arrays", str(tmp_path / "set.npz"), "--out", str(out), "--head", str(head)], out, capsys)


def test_folders_without_a_label(tmp_path, head, capsys):
    """A folder called unlabelled is no class, unless it is named as one."""
    write_folder(tmp_path / "in")
    (tmp_path / "in/red_fox").rename(tmp_path / "in/zebra")
    for row, image in enumerate(pictures(5, 7)):
        (tmp_path / "in/unlabelled").mkdir(exist_ok=True)
        Image.fromarray(image).save(tmp_path / f"in/unlabelled/{row}.png")
    out = tmp_path / "out"
    arguments = ["folder", str(tmp_path / "in"), "--task", "t", "--out", str(out), "--head", str(head)]
    assert "5 pictures have the label unlabelled" in refused(arguments, out, capsys)
    assert main([*arguments, "--drop-unlabelled"]) == 0
    assert capsys.readouterr().out.strip().endswith("; left out: 5 without a label")
    with h5py.File(out / "t.h5") as file:
        assert [name.decode() for name in file["class_names"]] == ["blue whale", "zebra"]
        assert sorted(np.unique(file["train/labels"]).tolist()) == [0, 1]
    np.save(head, np.eye(3, 16))
    named = "blue_whale=whale,unlabelled=unknown animal,zebra=zebra"
    assert main([*arguments, "--replace", "--class-names", named]) == 0


def bad_cases(tmp_path: Path, head: Path) -> dict[str, list[str]]:
    good = str(write_folder(tmp_path / "good"))
    (tmp_path / "one/only").mkdir(parents=True)
    write_folder(tmp_path / "mixed")
    (tmp_path / "mixed/train").mkdir()
    write_folder(tmp_path / "broken")
    (tmp_path / "broken/red_fox/0.png").write_bytes(b"\x89PNG no more")
    write_folder(tmp_path / "few", 1)
    np.save(tmp_path / "tall.npy", np.ones((3, 4), np.float32))
    np.save(tmp_path / "zero.npy", np.zeros((2, 4), np.float32))
    np.savez(tmp_path / "float.npz", images=np.ones((5, 8, 8)), labels=np.arange(5))
    np.savez(tmp_path / "uneven.npz", images=pictures(5), labels=np.arange(4))
    np.savez(tmp_path / "negative.npz", images=pictures(5), labels=np.arange(5) - 1)
    np.savez(tmp_path / "nothing.npz", x=np.ones(1))
    (tmp_path / "text.npz").write_text("no archive")
    given = ["--head", str(head)]
    return {
        "missing": ["folder", str(tmp_path / "nowhere"), *given],
        "one class": ["folder", str(tmp_path / "one"), *given],
        "class beside split": ["folder", str(tmp_path / "mixed"), *given],
        "broken picture": ["folder", str(tmp_path / "broken"), *given],
        "too few": ["folder", str(tmp_path / "few"), *given],
        "head of three rows": ["folder", good, "--head", str(tmp_path / "tall.npy")],
        "head of zeros": ["folder", good, "--head", str(tmp_path / "zero.npy")],
        "head missing": ["folder", good, "--head", str(tmp_path / "nohead.npy")],
        "template": ["folder", good, "--template", "a picture"],
        "task name": ["folder", good, "--task", "../up", *given],
        "task of two underscores": ["folder", good, "--task", "a__b", *given],  # which the program refuses
        "task ending with one": ["folder", good, "--task", "a_", *given],
        "scale": ["folder", good, "--logit-scale", "nan", *given],
        "std": ["folder", good, "--std", "0", *given],
        "mean": ["folder", good, "--mean", "0", "1", *given],
        "white": ["folder", good, "--white", "nan", *given],
        "two heads": ["folder", good, "--text-model", "some/model", *given],
        "no text model": ["folder", good, "--text-model", str(tmp_path / "nowhere")],
        "many names": ["folder", good, "--class-names", ",".join(map(str, range(900))), *given],
        "null name": ["folder", good, "--class-names", "a\0b", *given],
        "class names": ["folder", good, "--class-names", "a,b,c", *given],
        "floats": ["arrays", str(tmp_path / "float.npz"), *given],
        "uneven": ["arrays", str(tmp_path / "uneven.npz"), *given],
        "negative": ["arrays", str(tmp_path / "negative.npz"), *given],
        "no arrays": ["arrays", str(tmp_path / "nothing.npz"), *given],
        "no archive": ["arrays", str(tmp_path / "text.npz"), *given],
        "no idx": ["idx", good, *given],
        "unknown task": ["default", "--task", "imagenet"],
    }


def test_bad_input_gets_one_clear_line(tmp_path, head, capsys):
    out = tmp_path / "out"
    for name, arguments in bad_cases(tmp_path, head).items():
        line = refused([*arguments, "--out", str(out)], out, capsys)
        assert "Traceback" not in line, name


def test_head_from_sentences():
    from texts import minilm

    rows = minilm.embed(
        ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    )
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    # The model card's own sentences: person and very happy person are nearer than person and sunny day.
    assert rows[0] @ rows[2] > rows[0] @ rows[1] > rows[0] @ rows[3]
    head = minilm.head(["a cat", "a dog"], ["a picture of {}", "{}"])
    assert head.shape == (2, 384) and np.allclose(np.linalg.norm(head, axis=1), 1, atol=1e-6)
