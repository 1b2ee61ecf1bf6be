"""The declared tasks: every declaration reads, and the rules by which pictures are keyed and guarded hold."""

import io
import pickle

import numpy as np
import pytest

import declare
import pairs
import sources
from build import contradicted
from errors import InputError


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


def test_only_arrays_are_unpickled():
    array = np.arange(5)
    assert (sources.ArraysOnly(io.BytesIO(pickle.dumps(array, protocol=4))).load() == array).all()
    with pytest.raises(InputError, match="expected numpy arrays only"):
        sources.ArraysOnly(io.BytesIO(pickle.dumps(print))).load()
