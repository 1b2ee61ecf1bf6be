# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The field's twelve further sets, from small folders as torchvision leaves them: torchvision is the oracle."""

import gzip
import json
import os
import pickle
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import experiments
import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from command import main
from errors import InputError
from pictures import cifar, clip_text, facts, further, layouts, originals

SIZE = 16
SMALL = {  # classes of the folders made here, where they are not the set's own
    "cifar100": ["apple", "aquarium fish", "baby"],
    "stl10": ["airplane", "bird", "car"],
    "flowers102": ["pink primrose", "hard-leaved pocket orchid", "canterbury bells"],
    "oxfordiiitpet": ["Abyssinian", "Bengal", "american bulldog"],
    "cifar10": ["airplane", "automobile", "bird"],
    "food101": ["apple pie", "baby back ribs"],
}
CLASSES = {"cifar100": 100, "stl10": 10, "flowers102": 102, "oxfordiiitpet": 37, "pcam": 2, "fer2013": 7, "emnist": 10}
CLASSES |= {"cifar10": 10, "food101": 101, "fashionmnist": 10, "renderedsst2": 2, "kmnist": 10}


@pytest.fixture(autouse=True)
def small_sets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the folders made here be whole data sets."""
    if "whole_sets" in request.fixturenames:
        return
    for task, names in SMALL.items():
        monkeypatch.setitem(facts.FACTS[task], "classes", names)
        monkeypatch.setitem(facts.FACTS[task], "class_count", len(names))


@pytest.fixture
def whole_sets() -> None:
    """Keeps the true facts."""


def pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def put(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels(20, 30, 3, seed=seed)).save(path)


def python2(value: Any) -> bytes:
    """Pickles as Python 2's cPickle wrote CIFAR's files, in which text is bytes."""

    def array(value: np.ndarray) -> bytes:
        kind = (
            b"cnumpy\ndtype\n" + written((b"u1", 0, 1)) + b"R" + written((3, b"|", None, None, None, -1, -1, 0)) + b"b"
        )
        start = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n" + written((0,)) + b"U\x01btR"
        return start + b"(K\x01" + written(value.shape) + kind + b"\x89" + written(value.tobytes()) + b"tb"

    def written(value: Any) -> bytes:
        match value:
            case dict():
                pickled = b"}(" + b"".join(written(each) for pair in value.items() for each in pair) + b"u"
            case list():
                pickled = b"](" + b"".join(map(written, value)) + b"e"
            case tuple():
                pickled = b"(" + b"".join(map(written, value)) + b"t"
            case bytes():
                length = len(value)
                pickled = (b"U" + bytes([length]) if length < 256 else b"T" + struct.pack("<i", length)) + value
            case int():
                pickled = b"J" + struct.pack("<i", value)
            case None:
                pickled = b"N"
            case _:
                pickled = array(value)
        return pickled

    return b"\x80\x02" + written(value) + b"."


def make_cifar(base: Path, files: dict[str, int], task: str) -> None:
    base.mkdir(parents=True)
    names = [name.replace(" ", "_").encode() for name in facts.FACTS[task]["classes"]]
    plain = task == "cifar10"
    labels = b"labels" if plain else b"fine_labels"
    meta = python2({b"label_names" if plain else b"fine_label_names": names})
    (base / ("batches.meta" if plain else "meta")).write_bytes(meta)
    for place, (file, count) in enumerate(files.items()):
        held = {b"batch_label": b"a batch", labels: [(row + place) % len(names) for row in range(count)]}
        held |= {b"data": pixels(count, 3072, seed=place), b"filenames": [b"p%d.png" % row for row in range(count)]}
        (base / file).write_bytes(python2(held))


def make_cifar10(root: Path) -> None:
    files = {f"data_batch_{number}": 4 for number in range(1, 6)} | {"test_batch": 6}
    make_cifar(root / "cifar-10-batches-py", files, "cifar10")


def make_cifar100(root: Path) -> None:
    files = {"train": 21, "test": 6}
    make_cifar(root / "cifar-100-python", files, "cifar100")


def make_stl10(root: Path) -> None:
    base = root / "stl10/stl10_binary"
    base.mkdir(parents=True)
    (base / "class_names.txt").write_text("".join(f"{name}\n" for name in facts.FACTS["stl10"]["classes"]))
    (base / "fold_indices.txt").write_text("")
    for place, (split, count) in enumerate({"train": 12, "test": 6}.items()):
        pixels(count, 3, 96, 96, seed=place).tofile(base / f"{split}_X.bin")
        (np.arange(count, dtype=np.uint8) % 3 + 1).tofile(base / f"{split}_y.bin")


def make_flowers102(root: Path) -> None:
    base = root / "flowers102/flowers-102"
    for row in range(1, 31):
        put(base / f"jpg/image_{row:05d}.jpg", row)
    order = np.random.default_rng(0).permutation(30) + 1
    savemat(base / "imagelabels.mat", {"labels": (np.arange(30, dtype=np.uint8) % 3 + 1)[None]})
    parts = {"trnid": order[:12][None], "valid": order[12:18][None], "tstid": order[18:][None]}
    savemat(base / "setid.mat", {name: rows.astype(np.uint16) for name, rows in parts.items()})


def make_oxfordiiitpet(root: Path) -> None:
    base = root / "OxfordIIITPet/oxford-iiit-pet"
    names = ["Abyssinian", "american_bulldog", "Bengal"]  # the set's order: without regard to capitals
    (base / "annotations").mkdir(parents=True)
    for split, rows in (("trainval", range(5)), ("test", range(5, 8))):
        lines = [f"{name}_{row} {label + 1} 1 {label + 1}" for label, name in enumerate(names) for row in rows]
        (base / f"annotations/{split}.txt").write_text("\n".join(lines) + "\n")
        for label, name in enumerate(names):
            for row in rows:
                put(base / f"images/{name}_{row}.jpg", 100 * label + row)


def make_pcam(root: Path) -> None:
    base = root / "PCAM/pcam"
    base.mkdir(parents=True)
    for place, (split, count) in enumerate({"train": 20, "valid": 4, "test": 6}.items()):
        with h5py.File(base / f"camelyonpatch_level_2_split_{split}_x.h5", "w") as file:
            file["x"] = pixels(count, 96, 96, 3, seed=place)
        with h5py.File(base / f"camelyonpatch_level_2_split_{split}_y.h5", "w") as file:
            file["y"] = np.random.default_rng(place).permutation(np.arange(count, dtype=np.uint8) % 2)[
                :, None, None, None
            ]


def make_fer2013(root: Path, name: str = "fer2013.csv") -> None:
    base = root / "fer2013"
    base.mkdir(parents=True)
    columns = "emotion, Usage, pixels" if name.startswith("icml") else "emotion,pixels,Usage"
    lines = [columns]
    for row, usage in enumerate(["Training"] * 21 + ["PublicTest"] * 4 + ["PrivateTest"] * 3):
        cells = {"emotion": str(row % 7), "Usage": usage, "pixels": " ".join(map(str, pixels(2304, seed=row)))}
        lines.append(",".join(cells[column.strip()] for column in columns.split(",")))
    (base / name).write_text("\n".join(lines) + "\n")


def idx(array: np.ndarray) -> bytes:
    return struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def make_like_mnist(root: Path, name: str, prefixes: dict[str, int], pack: bool = False) -> None:
    base = root / name / name / "raw"
    base.mkdir(parents=True)
    for place, (prefix, count) in enumerate(prefixes.items()):
        parts = {"images-idx3": pixels(count, 28, 28, seed=place), "labels-idx1": np.arange(count, dtype=np.uint8) % 10}
        for ending, array in parts.items():
            path, data = base / f"{prefix}-{ending}-ubyte", idx(array)
            (path.with_name(f"{path.name}.gz") if pack else path).write_bytes(gzip.compress(data) if pack else data)


def make_food101(root: Path) -> None:
    base = root / "food101/food-101"
    (base / "meta").mkdir(parents=True)
    for split, rows in (("train", range(8)), ("test", range(8, 12))):
        table = {name: [f"{name}/{1000 * row}" for row in rows] for name in ("apple_pie", "baby_back_ribs")}
        (base / f"meta/{split}.json").write_text(json.dumps(table))
        for label, files in enumerate(table.values()):
            for row, file in enumerate(files):
                put(base / f"images/{file}.jpg", 100 * label + row)


def make_renderedsst2(root: Path) -> None:
    for part, count in (("train", 8), ("valid", 2), ("test", 3)):
        for label, name in enumerate(("negative", "positive")):
            for row in range(count):
                put(root / f"RenderedSST2/rendered-sst2/{part}/{name}/{row}.png", 100 * label + row)


PLAIN = {"train": 30, "t10k": 12}
MAKE: dict[str, Callable[[Path], None]] = {
    "cifar100": make_cifar100,
    "stl10": make_stl10,
    "flowers102": make_flowers102,
    "oxfordiiitpet": make_oxfordiiitpet,
    "pcam": make_pcam,
    "fer2013": make_fer2013,
    "emnist": lambda root: make_like_mnist(root, "EMNIST", {"emnist-digits-train": 30, "emnist-digits-test": 12}),
    "cifar10": make_cifar10,
    "food101": make_food101,
    "fashionmnist": lambda root: make_like_mnist(root, "FashionMNIST", PLAIN),
    "renderedsst2": make_renderedsst2,
    "kmnist": lambda root: make_like_mnist(root, "KMNIST", PLAIN),
}
COUNTS = {  # train with validation, test
    "cifar100": (21, 6),
    "stl10": (12, 6),
    "flowers102": (12, 12),
    "oxfordiiitpet": (15, 9),
    "pcam": (20, 6),
    "fer2013": (21, 7),
    "emnist": (30, 12),
    "cifar10": (20, 6),
    "food101": (16, 8),
    "fashionmnist": (30, 12),
    "renderedsst2": (16, 6),
    "kmnist": (30, 12),
}


def oracle(task: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Any]]:
    """torchvision's data sets, of files that have not the checksums of the true ones."""
    from torchvision import datasets

    for module in (datasets.cifar, datasets.stl10, datasets.flowers102, datasets.fer2013):
        monkeypatch.setattr(
            module, "check_integrity", lambda path, md5=None: Path(path).exists() or "unlabeled" in path
        )
    trained = {True: "train", False: "test"}
    for train, split in trained.items():
        sets = {
            "cifar100": lambda train=train: datasets.CIFAR100(root, train),
            "stl10": lambda split=split: datasets.STL10(root / "stl10", split),
            "flowers102": lambda split=split: datasets.Flowers102(root / "flowers102", split),
            "oxfordiiitpet": lambda train=train: datasets.OxfordIIITPet(
                root / "OxfordIIITPet", "trainval" if train else "test"
            ),
            "pcam": lambda split=split: datasets.PCAM(root / "PCAM", split),
            "fer2013": lambda split=split: datasets.FER2013(root, split),
            "emnist": lambda train=train: datasets.EMNIST(root / "EMNIST", "digits", train=train),
            "cifar10": lambda train=train: datasets.CIFAR10(root, train),
            "food101": lambda split=split: datasets.Food101(root / "food101", split),
            "fashionmnist": lambda train=train: datasets.FashionMNIST(root / "FashionMNIST", train),
            "renderedsst2": lambda split=split: datasets.RenderedSST2(root / "RenderedSST2", split),
            "kmnist": lambda train=train: datasets.KMNIST(root / "KMNIST", train),
        }
        yield split, sets[task]()


@pytest.mark.parametrize("task", MAKE)
def test_pictures_and_labels_are_torchvisions(task, tmp_path, monkeypatch):
    MAKE[task](tmp_path)
    layout = layouts.LAYOUTS[task](tmp_path)
    for (split, expected), count in zip(oracle(task, tmp_path, monkeypatch), COUNTS[task], strict=True):
        rows = layout.splits[split]
        assert len(rows.items) == len(rows.labels) == len(expected) == count
        held = rows.items[0:count]  # a block, as they are read
        for place in range(count):  # in its order, on which the seeded split counts
            image, label = expected[place]
            assert rows.labels[place] == label, (task, split, place)
            assert (originals.render(held[place], SIZE) == originals.centre_crop(image, SIZE)).all()
        if task not in ("food101", "flowers102", "pcam", "renderedsst2", "fer2013", "emnist"):
            names = [name.lower().replace("_", " ") for name in expected.classes]
            assert [name.lower() for name in layout.class_names] == names


def run(root: Path, out: Path, clip: Path, *more: str) -> int:
    arguments = ["--data-location", str(root), "--out", str(out), "--image-size", str(SIZE)]
    return main(["originals", *arguments, "--text-model", str(clip), *more])


def test_all_twelve_are_packed(tmp_path, tiny_clip, capsys):
    for make in MAKE.values():
        make(tmp_path)
    out = tmp_path / "out"
    assert run(tmp_path, out, tiny_clip, "--only", ",".join(MAKE)) == 0
    assert {path.name for path in out.iterdir()} == {f"{task}.h5" for task in MAKE}
    for task, (train, test) in COUNTS.items():
        with h5py.File(out / f"{task}.h5") as file:
            held = train // 10
            sizes = [len(file[f"{split}/labels"]) for split in ("train", "validation", "test")]
            assert sizes == [train - held, held, test]
            layout = layouts.LAYOUTS[task](tmp_path)
            order = originals.permutation(train)
            for split, rows in (("train", order[:-held]), ("validation", order[-held:])):
                assert file[f"{split}/labels"][:].tolist() == layout.splits["train"].labels[rows].tolist()
            assert file["test/inputs"].shape == (test, SIZE, SIZE, 3) and file["test/inputs"].dtype == np.uint8
            first = layout.splits["test"].items[0:1][0]
            assert (file["test/inputs"][0] == originals.render(first, SIZE)).all()
            names = [name.decode() for name in file["class_names"]]
            assert names == layout.class_names and file["head/weight"].shape == (len(names), 12)
            assert np.allclose(np.linalg.norm(file["head/weight"][:], axis=1), 1, atol=1e-6)
            assert ("unused" in file.attrs["split_rule"]) == (task in ("flowers102", "pcam", "renderedsst2"))
    capsys.readouterr()
    assert run(tmp_path, out, tiny_clip, "--only", "pcam,cifar10") == 0
    assert capsys.readouterr().out.count("(unchanged)") == 2
    path = tmp_path / "PCAM/pcam/camelyonpatch_level_2_split_test_x.h5"
    with h5py.File(path, "r+") as file:
        file["x"][0] = 0
    assert run(tmp_path, out, tiny_clip, "--only", "pcam") == 0
    assert "unchanged" not in capsys.readouterr().out


def test_the_data_location_may_be_torchvisions_own_root(tmp_path):
    for make in (make_stl10, make_food101, MAKE["kmnist"]):
        make(tmp_path)
    for folder in ("stl10/stl10_binary", "food101/food-101"):
        (tmp_path / folder).rename(tmp_path / Path(folder).name)
    (tmp_path / "KMNIST").rename(tmp_path / "old")
    (tmp_path / "old/KMNIST").rename(tmp_path / "KMNIST")
    for task, count in (("stl10", 12), ("food101", 16), ("kmnist", 30)):
        assert len(layouts.LAYOUTS[task](tmp_path).splits["train"].labels) == count


def test_other_forms_of_the_same_files(tmp_path):
    make_fer2013(tmp_path / "a")
    make_fer2013(tmp_path / "b", "icml_face_data.csv")
    first, second = (layouts.LAYOUTS["fer2013"](tmp_path / name) for name in "ab")
    for split in ("train", "test"):
        assert (first.splits[split].items == second.splits[split].items).all()
        assert (first.splits[split].labels == second.splits[split].labels).all()
    for pack in (False, True):
        make_like_mnist(tmp_path / str(pack), "KMNIST", PLAIN, pack)
    plain, packed = (layouts.LAYOUTS["kmnist"](tmp_path / str(pack)) for pack in (False, True))
    assert (plain.splits["train"].items == packed.splits["train"].items).all()


@pytest.mark.usefixtures("whole_sets")
def test_facts_are_whole():
    assert list(CLASSES) == list(further.FURTHER) == list(MAKE)
    for task, count in CLASSES.items():
        known = facts.FACTS[task]
        assert known["class_count"] == len(known["classes"]) == len(set(known["classes"])) == count
        assert all(template.count("{}") == 1 for template in known["templates"])
        assert len(set(known["templates"])) == len(known["templates"]) and known["title"] and known["source"]
    assert len(facts.FACTS["cifar10"]["templates"]) == len(facts.FACTS["cifar100"]["templates"]) == 18
    from torchvision import datasets

    assert facts.FACTS["fashionmnist"]["classes"] == datasets.FashionMNIST.classes
    assert facts.FACTS["kmnist"]["classes"] == datasets.KMNIST.classes
    assert facts.FACTS["emnist"]["classes"] == datasets.EMNIST.classes_split_dict["digits"]
    flowers = [name.lower() for name in datasets.Flowers102.classes]
    ours = [name.lower() for name in facts.FACTS["flowers102"]["classes"]]
    same = [name == other for name, other in zip(flowers, ours, strict=True)]
    assert sum(same) > 90  # the spelling of some is another


def test_sets_of_tasks_are_the_fields():
    assert [len(layouts.SETS[name]) for name in ("eight", "fourteen", "twenty")] == [8, 14, 20]
    assert layouts.SETS["fourteen"][8:] == ["cifar100", "stl10", "flowers102", "oxfordiiitpet", "pcam", "fer2013"]
    last = ["emnist", "cifar10", "food101", "fashionmnist", "renderedsst2", "kmnist"]
    assert layouts.SETS["twenty"] == layouts.SETS["fourteen"] + last
    experiment = experiments.read(experiments.JOBS / "papers/tall_masks/original/merging_20.toml")
    assert experiment["data"]["tasks"] == layouts.SETS["twenty"]
    assert originals.chosen("fourteen", Path("x"), None, print) == layouts.SETS["fourteen"]
    assert originals.chosen("mnist,eight,imagenet", Path("x"), None, print) == [
        "mnist",
        *(task for task in layouts.SETS["eight"] if task != "mnist"),
        "imagenet",
    ]


@pytest.mark.usefixtures("whole_sets")
@pytest.mark.parametrize("task", [task for task in MAKE if task in SMALL])
def test_another_number_of_classes_is_refused(task, tmp_path, monkeypatch):
    """What is made here of three classes is no whole set."""
    for name, value in (("classes", SMALL[task]), ("class_count", CLASSES[task])):
        monkeypatch.setitem(facts.FACTS[task], name, value)
    MAKE[task](tmp_path)
    with pytest.raises(InputError, match=f"{task} has {len(SMALL[task])} classes here; expected {CLASSES[task]}"):
        layouts.LAYOUTS[task](tmp_path)


def edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def rewrite(path: Path, name: str, data: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        file[name] = data


def promise(path: Path, name: str, *shape: int) -> None:
    """A data set of which no number is written."""
    with h5py.File(path, "w") as file:
        file.create_dataset(name, shape, "u1", chunks=(1, *shape[1:]))


PART = "camelyonpatch_level_2_split"
DAMAGE: dict[str, list[tuple[Callable[[Path], object], str]]] = {
    "cifar10": [
        (lambda root: (root / "cifar-10-batches-py/data_batch_3").unlink(), "data_batch_3: not found"),
        (lambda root: (root / "cifar-10-batches-py/test_batch").write_bytes(b"\x80\x02}."), "no array data"),
        (
            lambda root: (root / "cifar-10-batches-py/batches.meta").write_bytes(
                python2({b"label_names": [b"airplane", b"bird", b"automobile"]})
            ),
            "class 1 is bird; expected automobile",
        ),
    ],
    "cifar100": [(lambda root: (root / "cifar-100-python/meta").write_bytes(b"none"), "pickled files")],
    "stl10": [
        (lambda root: (root / "stl10/stl10_binary/train_X.bin").write_bytes(bytes(5)), "5 bytes"),
        (lambda root: (root / "stl10/stl10_binary/test_y.bin").write_bytes(bytes(6)), "expected 6 below 10"),
        (
            lambda root: edited(root / "stl10/stl10_binary/class_names.txt", "bird", "boat"),
            "class 1 is boat; expected bird",
        ),
    ],
    "flowers102": [
        (
            lambda root: savemat(root / "flowers102/flowers-102/setid.mat", {"trnid": [[31]], "tstid": [[1]]}),
            "names picture 31",
        ),
        (lambda root: (root / "flowers102/flowers-102/imagelabels.mat").unlink(), "imagelabels.mat: not found"),
    ],
    "oxfordiiitpet": [
        (
            lambda root: edited(root / "OxfordIIITPet/oxford-iiit-pet/annotations/test.txt", "Bengal", "Dalmatian"),
            "Dalmatian_5",
        ),
        (
            lambda root: edited(
                root / "OxfordIIITPet/oxford-iiit-pet/annotations/test.txt", "Bengal_5 3", "Bengal_5 1"
            ),
            "class 1 is Bengal and Abyssinian",
        ),
        (
            lambda root: [
                edited(path, f"{name} 3", f"{name} 4")
                for split, rows in (("trainval", range(5)), ("test", range(5, 8)))
                for path in [root / f"OxfordIIITPet/oxford-iiit-pet/annotations/{split}.txt"]
                for name in [f"Bengal_{row}" for row in rows]
            ],
            "classes up to 4; expected 1 to 3",
        ),
    ],
    "pcam": [
        (lambda root: rewrite(root / f"PCAM/pcam/{PART}_train_x.h5", "x", np.zeros((20, 9, 9, 3))), "float64"),
        (
            lambda root: rewrite(root / f"PCAM/pcam/{PART}_test_y.h5", "y", np.zeros((5, 1, 1, 1), np.uint8)),
            "expected 6",
        ),
        (lambda root: (root / f"PCAM/pcam/{PART}_test_x.h5").write_bytes(b"no"), "HDF5"),
        (lambda root: promise(root / f"PCAM/pcam/{PART}_train_x.h5", "x", 10**10, 96, 96, 3), "beyond"),
        (lambda root: rewrite(root / f"PCAM/pcam/{PART}_train_x.h5", "z", np.zeros(3)), "no data set x"),
    ],
    "fer2013": [
        (lambda root: edited(root / "fer2013/fer2013.csv", "Training", "Learning"), "no known Usage"),
        (lambda root: edited(root / "fer2013/fer2013.csv", "\n1,", "\n7,"), "expected 21 below 7"),
        (lambda root: edited(root / "fer2013/fer2013.csv", "\n1,", "\n1,256 "), "2305 pixels"),
        (lambda root: edited(root / "fer2013/fer2013.csv", "\n1,", "\n1,x"), "expected emotion"),
        (lambda root: (root / "fer2013/fer2013.csv").rename(root / "fer2013/train.csv"), "test.csv has no labels"),
    ],
    "emnist": [(lambda root: next((root / "EMNIST/EMNIST/raw").glob("*test-images*")).unlink(), "IDX")],
    "food101": [
        (lambda root: edited(root / "food101/food-101/meta/test.json", "apple_pie", "plum_pie"), "plum_pie"),
        (
            lambda root: edited(root / "food101/food-101/meta/train.json", '"apple_pie/0"', '"../../secret"'),
            "apple_pie has no list of its pictures",
        ),
        (lambda root: (root / "food101/food-101/meta/train.json").write_text("[" * 100_000), "JSON"),
        (lambda root: (root / "food101/food-101/meta/train.json").write_text("[]"), "no pictures"),
    ],
    "renderedsst2": [
        (
            lambda root: (root / "RenderedSST2/rendered-sst2/test/positive").rename(
                root / "RenderedSST2/rendered-sst2/test/favourable"
            ),
            "the same classes",
        ),
    ],
    "kmnist": [
        (
            lambda root: (root / "KMNIST/KMNIST/raw/train-labels-idx1-ubyte").write_bytes(
                idx(np.arange(30, dtype=np.uint8) % 9)
            ),
            "kmnist has 9 classes here; expected 10",
        ),
    ],
    "fashionmnist": [
        (
            lambda root: (root / "FashionMNIST/FashionMNIST/raw/t10k-labels-idx1-ubyte").write_bytes(
                idx(np.full(12, 10, np.uint8))
            ),
            "expected 12 below 10",
        ),
    ],
}


@pytest.mark.parametrize(("task", "which"), [(task, n) for task, cases in DAMAGE.items() for n in range(len(cases))])
def test_damaged_files_get_one_clear_line(task, which, tmp_path):
    change, words = DAMAGE[task][which]
    MAKE[task](tmp_path)
    change(tmp_path)
    with pytest.raises(InputError, match="expected") as caught:
        layouts.LAYOUTS[task](tmp_path)
    line = str(caught.value)
    assert words in line and str(tmp_path) in line and line.isprintable()


def test_missing_folders_get_one_clear_line(tmp_path):
    for task in MAKE:
        with pytest.raises(InputError, match="not found; expected"):
            layouts.LAYOUTS[task](tmp_path)


class Harm:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, ("harm",))


def test_batches_as_python_3_writes_them(tmp_path):
    expected = pixels(5, 3072)
    for protocol in (2, 3, 4):  # the fifth has arrays in a form of their own, which no CIFAR has
        (tmp_path / "a").write_bytes(pickle.dumps({"data": expected, "labels": [0, 1, 2, 3, 4]}, protocol))
        images, labels = cifar.batch(tmp_path / "a", "labels")
        assert (images.transpose(0, 3, 1, 2).reshape(5, -1) == expected).all() and labels.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({b"data": pixels(2, 3071), b"labels": [0, 1]}, "rows of 3071"),
        ({b"data": pixels(3072), b"labels": [0]}, "no array data"),
        ({b"data": pixels(2, 3072), b"labels": [0, b"x"]}, "no list labels"),
        ({b"data": pixels(2, 3072)}, "no list labels"),
        ([1, 2], "holds a list"),
    ],
)
def test_other_dictionaries_are_refused(held, words, tmp_path):
    (tmp_path / "a").write_bytes(python2(held))
    with pytest.raises(InputError, match="expected") as caught:
        cifar.batch(tmp_path / "a", "labels")
    assert words in str(caught.value)


def test_nothing_in_a_batch_is_called(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(pickle.dumps({"data": Harm(), "labels": [Harm()]}, 2))
    with pytest.raises(InputError, match="no array data"):
        cifar.batch(tmp_path / "a", "labels")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (struct.pack("<i", 3072), struct.pack("<i", 1 << 30)),  # a shape of more than there is
        (struct.pack("<i", 3072), struct.pack("<i", -3072)),
        (b"u1", b"O8"),  # Python objects
        (b"\x89T", b"\x88T"),  # columns first
        (b"_reconstruct", b"_reconstrict"),
    ],
)
def test_arrays_that_promise_more_than_they_hold(old, new, tmp_path):
    data = python2({b"data": pixels(2, 3072), b"labels": [0, 1]})
    assert old in data
    (tmp_path / "a").write_bytes(data.replace(old, new, 1))
    with pytest.raises(InputError, match="expected"):
        cifar.batch(tmp_path / "a", "labels")


def test_batches_damaged_at_random(tmp_path):
    """Each gives arrays or one clear line."""
    data = python2({b"data": pixels(1, 3072), b"labels": [0]})
    rng, read = np.random.default_rng(0), 0
    for _ in range(400):
        damaged = bytearray(data)
        start = np.concatenate([np.arange(160), np.arange(len(data) - 60, len(data))])
        for place in rng.choice(start, 2):
            damaged[place] = rng.integers(256)
        (tmp_path / "a").write_bytes(damaged)
        try:
            images, labels = cifar.batch(tmp_path / "a", "labels")
        except InputError as error:
            assert "expected" in str(error) and str(error).isprintable()
        else:
            read += 1
            assert images.shape[1:] == (32, 32, 3) and labels.dtype == np.int64
    assert 0 < read < 400


def test_all_names_of_a_class_make_its_head(tiny_clip):
    tower = clip_text.load(str(tiny_clip))
    templates = ["a {} face", "they look {}"]
    head = clip_text.head(tower, ["angry", "happy"], templates, {"happy": ["smiling"]})
    alone = clip_text.head(tower, ["angry", "happy"], templates)
    both = clip_text.head(tower, ["happy", "smiling"], [templates[0]])
    assert np.allclose(head[0], alone[0], atol=1e-6) and not np.allclose(head[1], alone[1], atol=1e-4)
    sentences = [template.replace("{}", name) for name in ("happy", "smiling") for template in templates]
    rows = clip_text.head(tower, sentences, ["{}"])
    expected = rows.mean(axis=0) / np.linalg.norm(rows.mean(axis=0))
    assert np.allclose(head[1], expected, atol=1e-6) and both.shape == head.shape
    assert set(facts.FACTS["fer2013"]["further_names"]) <= set(facts.FACTS["fer2013"]["classes"])


def test_cifar_for_models_that_bring_a_classifier_is_split_by_class(tmp_path):
    """Cross-task linearity has splits of CIFAR-100: no text model, the pictures' own size."""
    make_cifar100(tmp_path)
    out, given = tmp_path / "out", ["originals", "--data-location", str(tmp_path), "--only", "cifar100"]
    assert main([*given, "--no-heads", "--image-size", "32", "--out", str(out)]) == 0
    with h5py.File(out / "cifar100.h5") as file:
        assert file["head"].attrs["kind"] == "words" and file["head/tokens"][()].tolist() == [0, 1, 2]
        assert file["train/inputs"].shape[1:] == (32, 32, 3) and "head/weight" not in file
    cut = ["parts", str(out / "cifar100.h5"), "--classes", "1", "1", "1", "--out", str(tmp_path / "splits")]
    assert main(cut) == 0 and len(list((tmp_path / "splits").iterdir())) == 3
    assert main([*given, "--no-heads", "--heads", str(tmp_path), "--out", str(out)]) == 2
