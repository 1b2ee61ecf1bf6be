# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The papers' sets from small folders of the same layout: splits, labels, names, pictures, and what bad input says."""

import gzip
import hashlib
import json
import os
import struct
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from command import main
from errors import InputError
from pictures import facts, layouts, originals
from pictures import picture as picture_module
from pictures.imagenet_names import expect_clips_names, names_of
from pictures.picture import centre_crop

SIZE = 16
EACH = 12  # pictures a class; a tenth of all must be at least one


def picture(seed: int, wide: int = 9, high: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (high, wide, 3), dtype=np.uint8)


def put(path: Path, seed: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture(seed)).save(path)


def put_folders(root: Path, classes: list[str], suffix: str = "png", count: int = EACH) -> None:
    for label, name in enumerate(classes):
        for row in range(count):
            put(root / name / f"{name}_{row:03d}.{suffix}", 1000 * label + row)


def make_cars(root: Path) -> None:
    base = root / "stanford_cars"
    for part, annotations in (("train", "devkit/cars_train_annos.mat"), ("test", "cars_test_annos_withlabels.mat")):
        table = np.zeros(20, [("class", object), ("fname", object)])
        for row in range(20):
            table[row] = (row % 2 + 1, f"{row:05d}.png")
            put(base / f"cars_{part}" / f"{row:05d}.png", row)
        (base / annotations).parent.mkdir(exist_ok=True)
        savemat(base / annotations, {"annotations": table})
    savemat(base / "devkit/cars_meta.mat", {"class_names": np.array(["AM General_Hummer", "Acura RL"], object)})


def make_dtd(root: Path) -> None:
    for part in ("train", "val"):
        put_folders(root / "dtd" / part, ["banded", "polka-dotted_x"])


def make_eurosat(root: Path) -> None:
    for part in ("train", "val", "test"):
        put_folders(root / "EuroSAT_splits" / part, ["AnnualCrop", "SeaLake"])


def make_gtsrb(root: Path) -> None:
    base = root / "gtsrb"
    put_folders(base / "GTSRB/Training", ["00000", "00014"], "ppm")
    lines = ["Filename;Width;Height;ClassId"]
    for row in range(4):
        put(base / f"GTSRB/Final_Test/Images/{row:05d}.ppm", row)
        lines.append(f"{row:05d}.ppm;9;7;{14 if row % 2 else 0}")
    (base / "GT-final_test.csv").write_text("\n".join(lines) + "\n")


def idx(array: np.ndarray) -> bytes:
    return struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def make_mnist(root: Path) -> None:
    base = root / "MNIST/raw"
    base.mkdir(parents=True)
    for part, count in (("train", 30), ("t10k", 6)):
        images = np.random.default_rng(count).integers(0, 256, (count, 5, 5), dtype=np.uint8)
        (base / f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        (base / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.arange(count, dtype=np.uint8) % 10)))


def make_resisc45(root: Path) -> None:
    base = root / "resisc45"
    names = ["airplane", "sea_ice"]
    put_folders(base / "NWPU-RESISC45", names)
    for part, rows in (("train", range(10)), ("test", range(10, EACH))):
        (base / f"resisc45-{part}.txt").write_text("".join(f"{n}_{row:03d}.png\n" for row in rows for n in names))


def make_sun397(root: Path) -> None:
    for part in ("train", "val"):
        put_folders(root / "sun397" / part, ["a_abbey", "b_bus_interior"])


def make_svhn(root: Path) -> None:
    (root / "svhn").mkdir(parents=True)
    for part, count in (("train", 30), ("test", 10)):
        images = np.stack([picture(row, 4, 4) for row in range(count)], axis=3)
        labels = (np.arange(count, dtype=np.uint8) % 10 + 1)[:, None]
        savemat(root / f"svhn/{part}_32x32.mat", {"X": images, "y": labels})


def make_imagenet(root: Path) -> None:
    put_folders(root / "imagenet/val", ["n01440764", "n01443537"], count=30)
    (root / "names.txt").write_text("tench\ngoldfish\n")


MAKE: dict[str, Callable[[Path], None]] = {
    "cars": make_cars,
    "dtd": make_dtd,
    "eurosat": make_eurosat,
    "gtsrb": make_gtsrb,
    "mnist": make_mnist,
    "resisc45": make_resisc45,
    "sun397": make_sun397,
    "svhn": make_svhn,
    "imagenet": make_imagenet,
}
COUNTS = {  # train, validation, test
    "cars": (18, 2, 20),
    "dtd": (22, 2, 24),
    "eurosat": (24, 24, 24),
    "gtsrb": (22, 2, 4),
    "mnist": (27, 3, 6),
    "resisc45": (18, 2, 4),
    "sun397": (22, 2, 24),
    "svhn": (27, 3, 10),
    "imagenet": (6, 6, 48),
}
NAMES = {
    "cars": ["AM General Hummer", "Acura RL"],
    "dtd": ["banded", "polka-dotted x"],
    "eurosat": ["annual crop land", "lake or sea"],
    "mnist": [str(digit) for digit in range(10)],
    "resisc45": ["airplane", "sea ice"],
    "sun397": ["abbey", "bus interior"],
    "svhn": [str(digit) for digit in range(10)],
    "imagenet": ["tench", "goldfish"],
}
TEMPLATES = {
    "cars": 8,
    "dtd": 8,
    "eurosat": 3,
    "gtsrb": 3,
    "mnist": 1,
    "resisc45": 18,
    "sun397": 2,
    "svhn": 1,
    "imagenet": 80,
}


CLASSES = {  # of the papers' tables, and of those of the sets' authors
    "cars": 196,
    "dtd": 47,
    "eurosat": 10,
    "gtsrb": 43,
    "mnist": 10,
    "resisc45": 45,
    "sun397": 397,
    "svhn": 10,
    "imagenet": 1000,
}
MADE = {task: 10 if task in ("mnist", "svhn") else 2 for task in CLASSES}  # by the functions above


def know(patch: pytest.MonkeyPatch, folders: list[str], names: list[str]) -> None:
    """Lets these be the folders and names of ImageNet."""
    sums = [hashlib.sha256(name.encode()).hexdigest()[:4] for name in names]
    for key, value in (("folders", folders), ("names", names)):
        digest = hashlib.sha256("\n".join(value).encode()).hexdigest()
        patch.setitem(facts.FACTS["imagenet"], f"{key}_sha256", digest)
    patch.setitem(facts.FACTS["imagenet"], "name_checks", " ".join(sums))


@pytest.fixture(scope="module", autouse=True)
def small_sets() -> Iterator[pytest.MonkeyPatch]:
    """Lets the folders made here be whole data sets; a test of the true facts undoes it."""
    with pytest.MonkeyPatch.context() as patch:
        for task, count in MADE.items():
            patch.setitem(facts.FACTS[task], "class_count", count)
        know(patch, ["n01440764", "n01443537"], ["tench", "goldfish"])
        yield patch


@pytest.fixture
def true_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = tomllib.loads((Path(facts.__file__).parent / "originals.toml").read_text())
    for task, known in whole.items():
        for name, value in known.items():
            monkeypatch.setitem(facts.FACTS[task], name, value)


def run(root: Path, out: Path, clip: Path | str, *more: str) -> int:
    arguments = ["--data-location", str(root), "--out", str(out), "--image-size", str(SIZE)]
    return main(["originals", *arguments, "--text-model", str(clip), *more])


@pytest.fixture(scope="module")
def packed_all(tmp_path_factory, tiny_clip) -> Path:
    root = tmp_path_factory.mktemp("originals")
    for make in MAKE.values():
        make(root)
    assert run(root, root / "out", tiny_clip, "--imagenet-classes", str(root / "names.txt")) == 0
    return root / "out"


def test_facts_are_whole():
    assert {task: len(layouts.FACTS[task]["templates"]) for task in TEMPLATES} == TEMPLATES
    for known in layouts.FACTS.values():
        assert len(set(known["templates"])) == len(known["templates"])
        assert all(template.count("{}") == 1 for template in known["templates"])
        assert known["title"] and known["source"]
    assert len(set(layouts.FACTS["gtsrb"]["classes"])) == 43
    assert len(layouts.FACTS["eurosat"]["names"]) == 10
    assert set(layouts.PLACES) == set(layouts.FACTS) == {*layouts.LAYOUTS, "imagenet"}
    assert set(TEMPLATES) == {*layouts.EIGHT, "imagenet"}


@pytest.mark.usefixtures("true_facts")
def test_another_number_of_classes_is_refused(tmp_path, tiny_clip, capsys):
    for make in MAKE.values():
        make(tmp_path)
    labels = tmp_path / "MNIST/raw/train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(idx(np.arange(30, dtype=np.uint8) % 9)))
    path = tmp_path / "svhn/train_32x32.mat"
    savemat(path, {"X": np.zeros((4, 4, 3, 18), np.uint8), "y": np.arange(18)[:, None] % 9 + 1})
    for task, expected in CLASSES.items():
        classes = 9 if task in ("mnist", "svhn") else MADE[task]
        code = run(tmp_path, tmp_path / "out", tiny_clip, "--only", task, "--imagenet-classes", str(tmp_path / "n"))
        line = refused(capsys, tmp_path / "out", code)
        assert f"{task} has {classes} classes here; expected {expected}" in line and str(tmp_path) in line


@pytest.mark.usefixtures("true_facts")
@pytest.mark.parametrize("more", [0, 1])
def test_the_sets_own_number_of_classes_is_taken(tmp_path, more):
    def touch(folder: Path, classes: int, suffix: str = "jpg") -> None:
        for row in range(classes):
            (folder / f"{row:05d}").mkdir(parents=True)
            (folder / f"{row:05d}/p{row}.{suffix}").touch()

    for task, parts in (("dtd", ("train", "val")), ("sun397", ("train", "val"))):
        for part in parts:
            touch(tmp_path / task / part, CLASSES[task] + more)
    touch(tmp_path / "resisc45/NWPU-RESISC45", 45 + more)
    for part in ("train", "test"):
        (tmp_path / f"resisc45/resisc45-{part}.txt").write_text("p0.jpg")
    for task in ("dtd", "sun397", "resisc45"):
        if more:
            with pytest.raises(InputError, match=f"{task} has {CLASSES[task] + 1} classes here"):
                layouts.LAYOUTS[task](tmp_path)
        else:
            assert len(layouts.LAYOUTS[task](tmp_path).class_names) == CLASSES[task]


@pytest.mark.parametrize("task", MAKE)
def test_packed_file_keeps_the_contract(packed_all, task):
    assert {path.name for path in packed_all.iterdir()} == {f"{each}.h5" for each in MAKE}
    with h5py.File(packed_all / f"{task}.h5") as file:
        sizes = tuple(len(file[f"{part}/labels"]) for part in ("train", "validation", "test"))
        assert sizes == COUNTS[task]
        for part, size in zip(("train", "validation", "test"), sizes, strict=True):
            assert file[f"{part}/inputs"].shape == (size, SIZE, SIZE, 3) and file[f"{part}/inputs"].dtype == np.uint8
            assert file[f"{part}/labels"].dtype == np.int64
        names = [name.decode() for name in file["class_names"]]
        assert names == NAMES.get(task, names)
        assert file["head/weight"].shape == (len(names), 12) and file["head/weight"].dtype == np.float32
        assert np.allclose(np.linalg.norm(file["head/weight"][:], axis=1), 1, atol=1e-6)
        assert np.isclose(file["head/weight"].attrs["logit_scale"], np.exp(2.6592), rtol=1e-5)
        assert file["head"].attrs["kind"] == "cosine"
        assert np.allclose(file.attrs["mean"], [0.48145466, 0.4578275, 0.40821073])
        assert np.allclose(file.attrs["std"], [0.26862954, 0.26130258, 0.27577711])
        assert file.attrs["task"] == task and file.attrs["modality"] == "image"
        assert file.attrs["source"] and file.attrs["license"]
        assert file.attrs["role"] == ("control" if task == "imagenet" else "task")


def test_rows_carry_their_own_picture_and_label(packed_all):
    def expected(seed: int) -> np.ndarray:
        return centre_crop(Image.fromarray(picture(seed)), SIZE)

    with h5py.File(packed_all / "dtd.h5") as file:
        seeds = [row % EACH + 1000 * (row // EACH) for row in range(2 * EACH)]
        assert file["test/labels"][:].tolist() == [0] * EACH + [1] * EACH
        assert all((file["test/inputs"][row] == expected(seed)).all() for row, seed in enumerate(seeds))
        order = originals.permutation(2 * EACH)
        for split, rows in (("train", order[:-2]), ("validation", order[-2:])):
            assert file[f"{split}/labels"][:].tolist() == [row // EACH for row in rows]
            assert all((file[f"{split}/inputs"][n] == expected(seeds[row])).all() for n, row in enumerate(rows))
    with h5py.File(packed_all / "gtsrb.h5") as file:
        assert file["test/labels"][:].tolist() == [0, 14, 0, 14] and set(file["train/labels"][:]) == {0, 14}
        assert len(file["class_names"]) == 43
    with h5py.File(packed_all / "svhn.h5") as file:
        assert file["test/labels"][:].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]
        assert (file["test/inputs"][3] == centre_crop(Image.fromarray(picture(3, 4, 4)), SIZE)).all()
    with h5py.File(packed_all / "cars.h5") as file:
        assert file["test/labels"][:].tolist() == [0, 1] * 10
    with h5py.File(packed_all / "imagenet.h5") as file:
        seen = [{image.tobytes() for image in file[f"{part}/inputs"]} for part in ("train", "validation", "test")]
        assert sum(map(len, seen)) == len(set.union(*seen)) == 60


def test_split_is_the_papers_own():
    # github.com/gortizji/tangent_task_arithmetic asserts the first number for MNIST, as a guard of its split.
    assert originals.permutation(60_000)[0] == 36044
    rows = layouts.Rows(np.zeros((60_000, 1, 1), np.uint8), np.arange(60_000))
    splits = originals.deal(layouts.Layout([], {"train": rows, "test": rows}))
    assert [len(splits[part].labels) for part in ("train", "validation")] == [55_000, 5_000]
    control = originals.deal(layouts.Layout([], {"test": rows.take(np.arange(50_000))}))
    assert [len(control[part].labels) for part in ("train", "validation", "test")] == [5_000, 5_000, 40_000]


@pytest.mark.parametrize("count", [24, 60_000])
def test_split_is_that_of_random_split(count):
    import torch
    from torch.utils.data import random_split

    held = count // 10
    rows = layouts.Rows(np.zeros((count, 1, 1), np.uint8), np.arange(count))
    splits = originals.deal(layouts.Layout([], {"train": rows, "test": rows}))
    seeded = torch.Generator().manual_seed(0)
    parts = random_split(range(count), [count - min(held, 5000), min(held, 5000)], generator=seeded)
    for part, subset in zip(("train", "validation"), parts, strict=True):
        assert splits[part].labels.tolist() == list(subset.indices)


def test_another_draw_than_the_papers_is_refused(tmp_path, tiny_clip, capsys, monkeypatch):
    import torch

    make_dtd(tmp_path)
    monkeypatch.setattr(torch, "randperm", lambda count, generator: torch.arange(count))
    line = refused(capsys, tmp_path / "out", run(tmp_path, tmp_path / "out", tiny_clip, "--only", "dtd"))
    assert "starts with train row 0; expected 36044" in line and torch.__version__ in line


def test_imagenet_with_its_training_folder(tmp_path, tiny_clip, monkeypatch):
    make_imagenet(tmp_path)  # 30 a class in val
    names = ["n01440764", "n01443537"]
    for label, name in enumerate(names):
        for row in range(40):
            put(tmp_path / f"imagenet/train/{name}/{name}_{row}.JPEG", 5000 + 1000 * label + row)
    (tmp_path / "imagenet/train/n01440764/notes.txt").write_text("no picture")
    monkeypatch.setattr(layouts, "CONTROL_TRAIN", 10)
    scanned: Counter[str] = Counter()
    scan = os.scandir

    def counting(path):
        scanned[str(path)] += 1
        return scan(path)

    monkeypatch.setattr(os, "scandir", counting)
    layout = layouts.imagenet(tmp_path, tmp_path / "names.txt")
    assert all(scanned[str(tmp_path / f"imagenet/train/{name}")] == 1 for name in names)
    more = ("--only", "imagenet", "--imagenet-classes", str(tmp_path / "names.txt"))
    assert run(tmp_path, tmp_path / "out", tiny_clip, *more) == 0
    order = originals.permutation(80)
    with h5py.File(tmp_path / "out/imagenet.h5") as file:
        # Validation is the tail of the whole seeded draw: the field's ImageNetVal. Train is its head.
        for split, rows in (("train", order[:10]), ("validation", order[-8:])):
            assert file[f"{split}/labels"][:].tolist() == [row // 40 for row in rows]
            train = layout.splits["train"]
            for held, row in zip(file[f"{split}/inputs"], rows, strict=True):
                assert (held == originals.render(train.items[row], SIZE)).all()
        assert file["test/labels"][:].tolist() == [0] * 30 + [1] * 30
        assert (file["test/inputs"][30] == centre_crop(Image.fromarray(picture(1000)), SIZE)).all()
        assert file.attrs["role"] == "control"
        rule = file.attrs["split_rule"]
        assert "ImageNetVal" in rule and "uniformly" in rule and "no labels" in rule and "whole validation" in rule
    monkeypatch.setattr(layouts, "CONTROL_TRAIN", 10**6)
    splits = originals.deal(layouts.imagenet(tmp_path, tmp_path / "names.txt"))
    assert [len(splits[part].labels) for part in ("train", "validation", "test")] == [72, 8, 60]


def test_imagenet_counts_are_the_papers():
    def rows(count: int) -> layouts.Rows:
        return layouts.Rows(np.broadcast_to(np.zeros((1, 1), np.uint8), (count, 1, 1)), np.arange(count))

    given = {"train": rows(1_281_167), "test": rows(50_000)}
    splits = originals.deal(layouts.Layout([], given, train_most=layouts.CONTROL_TRAIN))
    assert [len(splits[part].labels) for part in ("train", "validation", "test")] == [5_000, 5_000, 50_000]
    assert not set(splits["train"].labels) & set(splits["validation"].labels)
    assert (splits["validation"].labels == originals.permutation(1_281_167)[-5_000:]).all()


def test_split_rules_are_told(packed_all, tmp_path, capsys):
    with h5py.File(packed_all / "imagenet.h5") as file:
        assert "validation folder alone" in file.attrs["split_rule"] and "no labels" in file.attrs["split_rule"]
    with h5py.File(packed_all / "dtd.h5") as file:
        assert "the set's own" in file.attrs["split_rule"]
    make_imagenet(tmp_path)
    put_folders(tmp_path / "imagenet/train", ["n01440764", "n99"])
    more = ("--only", "imagenet", "--imagenet-classes", str(tmp_path / "names.txt"))
    arguments = ["--data-location", str(tmp_path), "--out", str(tmp_path / "out"), "--heads", str(tmp_path)]
    line = refused(capsys, tmp_path / "out", main(["originals", *arguments, *more]))
    assert "n01443537" in line and "the same classes" in line


@pytest.mark.parametrize("shape", [(300, 400), (400, 300), (224, 500), (10, 10), (225, 224)])
def test_centre_crop_is_clips(shape):
    """Against the same steps written out: torchvision's Resize and CenterCrop round like this."""
    image = Image.fromarray(picture(1, *shape))
    wide, high = shape
    short = min(wide, high)
    grown = image.resize((int(224 * wide / short), int(224 * high / short)), Image.Resampling.BICUBIC)
    left, top = round((grown.width - 224) / 2), round((grown.height - 224) / 2)
    assert (centre_crop(image, 224) == np.asarray(grown)[top : top + 224, left : left + 224]).all()


def test_a_few_pictures_are_in_memory_at_a_time(tmp_path, monkeypatch):
    put_folders(tmp_path, ["a", "b"], count=5)
    monkeypatch.setattr(picture_module, "BLOCK", 4)
    stream = originals.stream(layouts.folder_rows(tmp_path, ["a", "b"]), SIZE)
    assert [len(block) for block in stream.blocks()] == [4, 4, 2] and stream.shape == (10, SIZE, SIZE, 3)


FOLDERS = ["n01440764", "n01443537", "n01484850"]
FISH = ["tench", "goldfish", "great white shark"]
OTHERS = {"n00000001": "no class here", "n01491361": "tiger_shark"}


def names_read(path: Path, text: str | bytes, folders: list[str] = FOLDERS) -> list[str]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return names_of(path, folders)


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_imagenet_names(tmp_path, start):
    pairs = list(zip(FOLDERS, FISH, strict=True))
    indexed = {str(number): [folder, name.replace(" ", "_")] for number, (folder, name) in enumerate(pairs)}
    texts = {
        "lines.txt": "\n".join(["tench", "", "goldfish", "great_white_shark"]),
        "synsets.txt": "\r\n".join(f"{folder} {name}" for folder, name in [*OTHERS.items(), *reversed(pairs)]),
        "tabs.txt": "\n".join(f"{folder}\t{name}" for folder, name in [*pairs, *OTHERS.items()]),
        "map_clsloc.txt": "\n".join(
            f"{folder} {7 * n} {name.replace(' ', '_')}" for n, (folder, name) in enumerate(pairs)
        ),
        "list.json": json.dumps(FISH),
        "numbers.json": json.dumps({str(number): name for number, name in reversed(list(enumerate(FISH)))}),
        "folders.json": json.dumps(OTHERS | dict(pairs)),
        "index.json": json.dumps(indexed),
        "pairs.json": json.dumps(pairs),
    }
    for name, text in texts.items():
        assert names_read(tmp_path / name, start + text.encode()) == FISH, name


def test_a_part_of_imagenets_folders_is_matched_by_folder(tmp_path):
    """The first entries of the whole list are other classes'."""
    whole = {str(number): [f"n{number:08d}", f"class_{number}"] for number in range(1000)}
    some = ["n00000007", "n00000500", "n00000999"]
    names = ["class 7", "class 500", "class 999"]
    assert names_read(tmp_path / "a.json", json.dumps(whole), some) == names
    lines = "".join(f"{folder}\t{name}\n" for folder, name in whole.values())
    assert names_read(tmp_path / "a.txt", lines, some) == names


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", json.dumps({str(n): ["n00000001", "x"] for n in range(3)}), "but not n01440764"),
        ("a.json", json.dumps({"0": "tench", "1": "goldfish", "7": "shark"}), "none with its folder"),
        ("a.json", json.dumps([*FISH, "more"]), "4 entries, none with its folder, for 3 folders"),
        ("a.json", json.dumps(["tench", "goldfish", 3]), "no name"),
        ("a.json", json.dumps(["tench", "goldfish", " "]), "none with its folder"),
        ("a.json", "3", "neither a list nor an object"),
        ("a.json", "[" * 100_000, "expected"),
        ("a.txt", "n01440764 tench\nn01443537 goldfish\nshark\n", "but not n01484850"),
        ("a.txt", "n01440764 tench\nn01440764 trout\n", "n01440764 has two names"),
        ("a.txt", b"\xff\xfe", "expected"),
        ("a.txt", "tench\n", "1 entries"),
    ],
)
def test_names_that_could_be_a_wrong_head_are_refused(tmp_path, name, text, words):
    with pytest.raises(InputError, match="expected") as caught:
        names_read(tmp_path / name, text)
    assert words in str(caught.value)


@pytest.mark.usefixtures("true_facts")
def test_imagenets_facts_are_of_clips_names():
    known = facts.FACTS["imagenet"]
    checks = known["name_checks"].split()
    assert len(checks) == 1000 and len(known["names_sha256"]) == len(known["folders_sha256"]) == 64
    some = {0: "tench", 4: "hammerhead shark", 7: "rooster", 134: "crane bird", 517: "construction crane"}
    # CLIP's list has these two twice.
    some |= {657: "missile", 744: "missile", 836: "sunglasses", 837: "sunglasses", 999: "toilet paper"}
    for row, name in some.items():
        assert checks[row] == hashlib.sha256(name.encode()).hexdigest()[:4], name


def test_other_names_than_clips_are_refused(tmp_path, tiny_clip, capsys):
    make_imagenet(tmp_path)
    more = ("--only", "imagenet", "--imagenet-classes", str(tmp_path / "names.txt"))
    for text, words in {
        "tench\ngold fish\n": "'gold fish', name 2 (n01443537), is the first of 1 that are not CLIP's",
        "goldfish\ntench\n": "'goldfish', name 1 (n01440764), is the first of 2 that are not CLIP's",
        "tench\n\x1b[31mred\n": "'\\x1b[31mred', name 2",
        "tench\nTench\n": "'Tench', name 2",
    }.items():
        (tmp_path / "names.txt").write_text(text)
        line = refused(capsys, tmp_path / "out", run(tmp_path, tmp_path / "out", tiny_clip, *more))
        lines = text.splitlines()
        digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        assert words in line and f"found {digest}" in line and facts.FACTS["imagenet"]["names_sha256"] in line
    (tmp_path / "names.json").write_text('["tench", "\\ud800"]')  # half a character, which UTF-8 does not have
    half = (*more[:3], str(tmp_path / "names.json"))
    assert "name 2" in refused(capsys, tmp_path / "out", run(tmp_path, tmp_path / "out", tiny_clip, *half))
    (tmp_path / "names.txt").write_text("tench\ngoldfish\n")
    assert run(tmp_path, tmp_path / "out", tiny_clip, *more) == 0


def test_names_are_refused_by_the_whole_where_no_line_tells(tmp_path, monkeypatch):
    monkeypatch.setitem(facts.FACTS["imagenet"], "names_sha256", "0" * 64)
    with pytest.raises(InputError, match=f"names.txt: expected imagenet_classes of CLIP's .*{'0' * 64}, found "):
        expect_clips_names(tmp_path / "names.txt", ["tench", "goldfish"], FOLDERS[:2])


@pytest.mark.parametrize(
    ("folders", "words"), [(["0", "1"], "folder 0 is no WordNet number"), (FOLDERS[1:], "not the folders of ImageNet")]
)
def test_folders_that_are_not_imagenets_are_refused(tmp_path, tiny_clip, capsys, folders, words):
    """Folders called 0 to 999 sort as 0, 1, 10: with a list of names alone, each label would have another's name."""
    put_folders(tmp_path / "imagenet/val", folders, count=30)
    (tmp_path / "names.txt").write_text("tench\ngoldfish\n")
    more = ("--only", "imagenet", "--imagenet-classes", str(tmp_path / "names.txt"))
    line = refused(capsys, tmp_path / "out", run(tmp_path, tmp_path / "out", tiny_clip, *more))
    assert words in line and "imagenet/val" in line


def test_without_only_what_is_there_is_packed(tmp_path, tiny_clip, capsys):
    make_dtd(tmp_path)
    make_imagenet(tmp_path)
    assert run(tmp_path, tmp_path / "out", tiny_clip) == 0
    said = capsys.readouterr().out
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["dtd.h5"]
    assert "svhn: left out" in said and "imagenet: left out" in said and "--imagenet-classes" in said


def test_heads_of_converted_checkpoints(tmp_path):
    make_dtd(tmp_path)
    weight = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)
    weight /= np.linalg.norm(weight, axis=1, keepdims=True)
    (tmp_path / "heads").mkdir()
    np.savez(tmp_path / "heads/dtd.npz", weight=weight, logit_scale=np.float32(100))
    arguments = ["originals", "--data-location", str(tmp_path), "--heads", str(tmp_path / "heads")]
    assert main([*arguments, "--out", str(tmp_path / "out"), "--only", "dtd", "--image-size", "8"]) == 0
    with h5py.File(tmp_path / "out/dtd.h5") as file:
        assert np.allclose(file["head/weight"][:], weight) and file["head/weight"].attrs["logit_scale"] == 100
        assert file["test/inputs"].shape[1:] == (8, 8, 3)


def damage(root: Path) -> dict[str, tuple[str, str]]:
    """Damages the data; maps the damage to the task, and to words of the line that must say it."""
    (root / "stanford_cars/devkit/cars_meta.mat").write_bytes(b"no matrix")
    put(root / "dtd/val/zigzagged/x.png")
    put(root / "EuroSAT_splits/train/Moon/x.png")
    for part in ("val", "test"):
        put(root / f"EuroSAT_splits/{part}/Moon/x.png")
    (root / "gtsrb/GT-final_test.csv").write_text("Filename;ClassId\n00000.ppm;43\n")
    (root / "MNIST/raw/t10k-images-idx3-ubyte").unlink()
    (root / "resisc45/resisc45-test.txt").write_text("airplane_999.png\n")
    (root / "sun397/train/a_abbey/a_abbey_003.png").write_bytes(b"\x89PNG no more")
    savemat(root / "svhn/test_32x32.mat", {"X": np.zeros((4, 4, 3, 5), np.uint8), "y": np.ones((4, 1), np.uint8)})
    (root / "names.txt").write_text("tench\n")
    return {
        "cars": ("cars_meta.mat", "MATLAB"),
        "dtd": ("dtd/val", "zigzagged"),
        "eurosat": ("Moon", "AnnualCrop"),
        "gtsrb": ("GT-final_test.csv", "43"),
        "mnist": ("t10k-images-idx3-ubyte", "IDX"),
        "resisc45": ("resisc45-test.txt", "airplane_999.png"),
        "sun397": ("a_abbey_003.png", "not a readable picture"),
        "svhn": ("test_32x32.mat", "5 below 10"),
        "imagenet": ("names.txt", "1 entries"),
    }


def refused(capsys: pytest.CaptureFixture[str], out: Path, code: int) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    assert code == 2 and len(lines) == 1 and "expected" in lines[0] and "Traceback" not in lines[0]
    assert not out.exists() or not list(out.iterdir())
    return lines[0]


def test_damaged_layouts_get_one_clear_line(tmp_path, tiny_clip, capsys):
    for make in MAKE.values():
        make(tmp_path)
    out = tmp_path / "out"
    for task, words in damage(tmp_path).items():
        code = run(tmp_path, out, tiny_clip, "--only", task, "--imagenet-classes", str(tmp_path / "names.txt"))
        line = refused(capsys, out, code)
        assert all(word in line for word in words), line


def test_missing_layouts_get_one_clear_line(tmp_path, tiny_clip, capsys):
    out = tmp_path / "out"
    for task in MAKE:
        line = refused(capsys, out, run(tmp_path, out, tiny_clip, "--only", task))
        assert str(tmp_path) in line and "not found" in line, line
    assert "none of the data sets" in refused(capsys, out, run(tmp_path, out, tiny_clip))
    assert "not a folder" in refused(capsys, out, run(tmp_path / "nowhere", out, tiny_clip))
    assert "cinic10" in refused(capsys, out, run(tmp_path, out, tiny_clip, "--only", "cinic10"))
    make_dtd(tmp_path)
    both = run(tmp_path, out, tiny_clip, "--heads", str(tmp_path))
    assert "--heads" in refused(capsys, out, both)
    neither = main(["originals", "--data-location", str(tmp_path), "--out", str(out)])
    assert "--text-model" in refused(capsys, out, neither)
    no_head = main(["originals", "--data-location", str(tmp_path), "--out", str(out), "--heads", str(tmp_path)])
    assert "dtd.npz" in refused(capsys, out, no_head)


def test_cars_as_kaggle_has_them(tmp_path):
    """Its copy has each folder of pictures inside another of the same name, and the test's labels in the devkit."""
    make_cars(tmp_path)
    as_published = layouts.cars(tmp_path)
    base = tmp_path / "stanford_cars"
    for name in ("cars_train", "cars_test"):
        (base / name).rename(base / "moved")
        (base / name).mkdir()
        (base / "moved").rename(base / name / name)
    (base / "cars_test_annos_withlabels.mat").rename(base / "devkit/cars_test_annos_withlabels.mat")
    as_kaggle = layouts.cars(tmp_path)
    for split in ("train", "test"):
        assert (as_kaggle.splits[split].labels == as_published.splits[split].labels).all()
        for ours, theirs in zip(as_kaggle.splits[split].items, as_published.splits[split].items, strict=True):
            assert Path(ours).is_file() and Path(ours).name == Path(theirs).name
