"""The declared tasks: every declaration reads, and the rules by which pictures are keyed and guarded hold."""

import io
import pickle
import struct

import numpy as np
import pytest

import splits
from errors import InputError
from pictures import declare, pairs, sources
from pictures.default import contradicted


@pytest.mark.parametrize("name", declare.names())
def test_declaration_reads(name):
    task = declare.read(name)
    assert name in sources.SOURCES
    assert task.title and task.label and task.license and task.split_key and task.packages
    assert all("{}" in template for template in task.templates)
    assert len(task.class_of) >= len(task.classes) >= 2
    assert len({each.name for each in task.classes}) == len(task.classes)


def test_eight_tasks_and_one_control():
    controls = [name for name in declare.names() if declare.read(name).control]
    assert len(declare.names()) == 9 and len(controls) == 1 and declare.names()[-1] == controls[0]


def test_names_become_keys():
    assert sources.icon_name("gtk-edit-copy-rtl") == sources.icon_name("edit-copy") == "edit-copy"
    assert sources.base_character("É") == sources.base_character("e") == "e"
    assert sources.emoji_key("woman cook: dark skin tone") == sources.emoji_key("man cook") == "person cook"
    assert sources.emoji_key("flag: Peru") != sources.emoji_key("flag: Chad")
    assert sources.font_family("8bitlim") == sources.font_family("8bitlimo")


def test_pictures_under_two_labels_are_found():
    images = np.zeros((3, 4, 4, 3), np.uint8)
    images[2] = 9
    assert contradicted(sources.Examples(images, [0, 1, 1], ["a", "b", "c"])).tolist() == [True, True, False]


def test_near_duplicates_are_found():
    held = np.random.default_rng(0).integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    noisy = np.clip(held[3:4].astype(int) + np.random.default_rng(1).integers(-9, 9, held[3:4].shape), 0, 255)
    other = np.full((1, 32, 32, 3), 200, np.uint8)
    assert pairs.near_any(np.concatenate([noisy.astype(np.uint8), other]), held).tolist() == [True, False]


@pytest.fixture
def patterns(tmp_path, monkeypatch):
    """Every pattern that the control is cut from, of noise, each smaller than the last."""
    task = declare.read("textures")
    for index, name in enumerate(task.class_of):
        high, wide = 140 - 2 * index, 90
        pixels = np.random.default_rng(index).integers(0, 256, (high, wide, 3), dtype=np.uint8)
        (tmp_path / "any").mkdir(exist_ok=True)
        header = struct.pack(">6I", 24, 1, wide, high, 3, 0x47504154)
        (tmp_path / "any" / f"{name}.pat").write_bytes(header + pixels.tobytes())
    monkeypatch.setattr(sources, "PATTERNS", tmp_path)
    return task


def test_the_control_has_a_thousand_different_crops_of_each_held_out_split(patterns):
    """Negation keeps 95 % of the control: 300 crops would know their accuracy to 3 points."""
    textures = sources.textures(patterns)
    for split in (splits.VALIDATION, splits.TEST):
        pictures = textures.images[textures.fixed == split]
        assert len({picture.tobytes() for picture in pictures}) == len(pictures) == 1000
        assert (np.bincount(np.array(textures.labels)[textures.fixed == split]) == 40).all()
    assert (textures.fixed == splits.TRAIN).sum() == 2000


def test_the_control_s_splits_share_no_pixel(patterns, monkeypatch):
    """Crops unscaled and unturned, so that their corner says where they were cut."""
    monkeypatch.setattr(sources, "SIZE", sources.CROP)
    monkeypatch.setattr(sources.Image.Image, "transpose", lambda image, turn: image)
    textures = sources.textures(patterns)
    for name, label in list(patterns.class_of.items())[:3]:
        whole = np.asarray(sources.read_pattern(next(sources.PATTERNS.glob(f"*/{name}.pat"))))
        owner = np.full(whole.shape[:2], -1)
        of_class = np.array(textures.labels) == label
        for image, split in zip(textures.images[of_class], textures.fixed[of_class], strict=True):
            tops, lefts = np.nonzero((whole[: -sources.CROP + 1, : -sources.CROP + 1] == image[0, 0]).all(-1))
            top, left = next(
                (t, s) for t, s in zip(tops, lefts, strict=True)
                if (whole[t : t + sources.CROP, s : s + sources.CROP] == image).all()
            )
            part = owner[top : top + sources.CROP, left : left + sources.CROP]
            assert np.isin(part, [-1, split]).all()
            part[...] = split


def test_a_pattern_without_so_many_different_crops_is_named(patterns):
    name = next(iter(patterns.class_of))
    path = next(sources.PATTERNS.glob(f"*/{name}.pat"))
    path.write_bytes(struct.pack(">6I", 24, 1, 60, 60, 3, 0x47504154) + bytes(60 * 60 * 3))
    with pytest.raises(InputError, match=f"{name}.pat: has no 40 different crops"):
        sources.textures(patterns)


def test_only_arrays_are_unpickled():
    array = np.arange(5)
    assert (sources.ArraysOnly(io.BytesIO(pickle.dumps(array, protocol=4))).load() == array).all()
    with pytest.raises(InputError, match="expected numpy arrays only"):
        sources.ArraysOnly(io.BytesIO(pickle.dumps(print))).load()
