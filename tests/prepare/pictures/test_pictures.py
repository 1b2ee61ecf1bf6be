# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Pictures of every depth, way up and shape; and CLIP's crop, to the grey level."""

import io
import resource
import struct
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from command import main
from errors import InputError
from pictures import picture
from pictures.inputs import Frame, read_folder
from pictures.picture import centre_crop, eight_bits, fit

GREY = np.array([[0, 1000], [30000, 65535]], np.uint16)
SHOWN = np.array([[0, 4], [117, 255]], np.uint8)  # of 65535
AS_THEY_ARE = Frame(2)


def tiff(values: np.ndarray, order: str, kind: int = 1) -> bytes:
    """Uncompressed and grey, by hand: Pillow writes no big-endian files. kind: 1 unsigned, 2 signed, 3 float."""
    data = values.astype(values.dtype.newbyteorder(order)).tobytes()
    high, wide = values.shape
    short = [(258, 8 * values.itemsize), (259, 1), (262, 1), (277, 1), (339, kind)]
    long = [(256, wide), (257, high), (273, 8), (278, high), (279, len(data))]
    rows = [(tag, struct.pack(order + "HIHH", 3, 1, value, 0)) for tag, value in short]
    rows += [(tag, struct.pack(order + "HII", 4, 1, value)) for tag, value in long]
    fields = b"".join(struct.pack(order + "H", tag) + row for tag, row in sorted(rows))
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8 + len(data))
    return head + data + struct.pack(order + "H", len(rows)) + fields + bytes(4)


def png16(values: np.ndarray, transparent: int) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", values.shape[1], values.shape[0], 16, 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    parts = chunk(b"IHDR", head) + chunk(b"tRNS", struct.pack(">H", transparent)) + chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + parts + chunk(b"IEND", b"")


def put(path: Path, data: bytes | Image.Image, **more: object) -> Path:
    if isinstance(data, bytes):
        path.write_bytes(data)
    else:
        data.save(path, **more)
    return path


def grey(path: Path, frame: Frame = AS_THEY_ARE) -> np.ndarray:
    shown = frame.file(path)
    assert (shown == shown[..., :1]).all()
    return shown[..., 0]


@pytest.mark.parametrize("order", ["<", ">"])
def test_16_bits_are_shown_on_one_scale(tmp_path, order):
    assert (grey(put(tmp_path / "a.tif", tiff(GREY, order))) == SHOWN).all()
    dark = GREY // 100
    assert (grey(put(tmp_path / "dark.tif", tiff(dark, order))) == np.rint(dark / 257)).all()


def test_16_bits_of_other_formats(tmp_path):
    assert (grey(put(tmp_path / "a.png", Image.fromarray(GREY))) == SHOWN).all()
    pgm = b"P5\n2 2\n65535\n" + GREY.astype(">u2").tobytes()
    assert (grey(put(tmp_path / "a.pgm", pgm)) == SHOWN).all()
    shown = grey(put(tmp_path / "hole.png", png16(GREY, 1000)))
    assert shown.tolist() == [[0, 255], [117, 255]]  # what is transparent shows the white ground


def test_floats_are_0_to_1_and_nan_is_a_hole(tmp_path):
    values = np.array([[0, 0.25], [np.nan, 1]], np.float32)
    for order in "<>":
        path = put(tmp_path / "a.tif", tiff(values, order, 3))
        assert grey(path).tolist() == [[0, 64], [255, 255]]
    assert grey(put(tmp_path / "b.tif", tiff(200 * values, "<", 3)), Frame(2, white=200)).tolist()[0] == [0, 64]


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        (np.array([[0, 1.5]], np.float32), 3, "0 to 1.5, and white is 1"),
        (np.array([[-0.5, 1]], np.float32), 3, "-0.5 to 1"),
        (np.array([[0, np.inf]], np.float32), 3, "0 to inf"),
        (np.array([[0, 70000]], np.int32), 2, "whole numbers of no known scale"),
        (np.array([[-3, 70]], np.int16), 2, "-3 to 70"),
    ],
)
def test_values_without_a_scale_are_refused(tmp_path, values, kind, words):
    path = put(tmp_path / "a.tif", tiff(values, "<", kind))
    with pytest.raises(InputError, match="expected --white") as caught:
        grey(path)
    assert str(path) in str(caught.value) and words in str(caught.value)
    if values.min() >= 0 and np.isfinite(values).all():
        assert grey(path, Frame(2, white=float(values.max()))).max() == 255


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_stand_as_the_camera_says(tmp_path, orientation):
    upright = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    note = Image.Exif()
    note[picture.ORIENTATION] = orientation
    back = {6: 8, 8: 6}.get(orientation, orientation)  # the turn that undoes it
    turn = Image.Exif()
    turn[picture.ORIENTATION] = back
    stored = Image.fromarray(upright)
    stored.info["exif"] = turn.tobytes()
    stored = ImageOps.exif_transpose(stored)
    path = put(tmp_path / "a.png", stored, exif=note)
    for clip in (False, True):
        assert (Frame(8, clip).file(path) == upright).all()


def test_a_damaged_note_is_no_damaged_picture(tmp_path):
    stored = Image.fromarray(np.full((4, 4, 3), 9, np.uint8))
    for number, note in enumerate((b"Exif\0\0nothing", b"Exif\0\0II*\0\xff\xff\xff\xff", b"MM\0*\0\0\0\x08\xff\xff")):
        assert (Frame(4).file(put(tmp_path / f"{number}.png", stored, exif=note)) == 9).all()


def test_other_formats_are_not_tried(tmp_path, monkeypatch):
    """Pillow would call Ghostscript for this one."""
    import subprocess

    called = []
    monkeypatch.setattr(subprocess, "check_call", lambda *arguments, **_: called.append(arguments))
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **_: called.append(arguments))
    drawing = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"
    with pytest.raises(InputError, match="not a readable picture"):
        Frame(4).file(put(tmp_path / "a.png", drawing))
    assert not called


def clips_own(image: Image.Image, size: int) -> np.ndarray:
    """open_clip's transform for evaluation (open_clip/transform.py, image_transform), from the same parts of
    torchvision; the picture is RGB first, as torchvision's ImageFolder hands it over."""
    from torchvision import transforms as t

    steps = t.Compose([t.Resize(size, t.InterpolationMode.BICUBIC), t.CenterCrop(size), t.ToTensor()])
    return (steps(image.convert("RGB")) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


SHAPES = [(300, 400), (400, 300), (224, 500), (10, 10), (225, 224), (1, 9), (37, 1000), (640, 481), (3000, 41)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "CMYK"])
def test_the_crop_is_open_clips_to_the_grey_level(shape, mode):
    values = np.random.default_rng(1).integers(0, 256, (*shape[::-1], 4), dtype=np.uint8)
    image = Image.fromarray(values).convert("RGB").convert(mode) if mode != "RGBA" else Image.fromarray(values)
    for size in (224, 32, 7):
        assert (centre_crop(image, size) == clips_own(image, size)).all()


@pytest.mark.parametrize("shape", [(3, 900), (900, 3), (2000, 1999), (5, 5), (40, 4000)])
def test_the_part_alone_is_what_the_whole_gives(shape, monkeypatch):
    image = Image.fromarray(np.random.default_rng(2).integers(0, 256, (*shape[::-1], 3), dtype=np.uint8))
    whole = centre_crop(image, 64).astype(int)
    monkeypatch.setattr(picture, "RESIZED_MOST", 0)
    part = centre_crop(image, 64).astype(int)
    assert np.abs(part - whole).max() <= 1 and (part != whole).mean() < 0.01


def test_a_strip_is_not_resized_whole(tmp_path):
    """1 × 3,000,000 pixels would become 224 × 672,000,000: 450 GB."""
    strip = Image.fromarray(np.arange(3_000_000, dtype=np.uint32).astype(np.uint8)[:, None])
    assert strip.size == (1, 3_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stream = io.BytesIO()
    strip.save(stream, "PNG")
    shown = Frame(224, clip=True).file(put(tmp_path / "a.png", stream.getvalue()))
    assert shown.shape == (224, 224, 3) and np.ptp(shown[112]) == 0
    assert fit(strip, 32).shape == (32, 32, 3)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10


def test_own_pictures_for_a_clip(tmp_path, tiny_clip):
    rng = np.random.default_rng(0)
    for name in ("blue_whale", "red_fox"):
        (tmp_path / "in" / name).mkdir(parents=True)
        for row in range(20):
            values = rng.integers(0, 256, (30, 20, 3), dtype=np.uint8)
            put(tmp_path / "in" / name / f"{row}.png", Image.fromarray(values))
    arguments = ["folder", str(tmp_path / "in"), "--task", "m", "--out", str(tmp_path), "--text-model", str(tiny_clip)]
    assert main([*arguments, "--image-size", "16"]) == 0
    expected = {
        clips_own(Image.open(path), 16).tobytes(): path.parent.name.replace("_", " ")
        for path in (tmp_path / "in").rglob("*.png")
    }
    with h5py.File(tmp_path / "m.h5") as file:
        names = [name.decode() for name in file["class_names"]]
        for part in ("train", "validation", "test"):
            for image, label in zip(file[f"{part}/inputs"], file[f"{part}/labels"], strict=True):
                assert expected[image.tobytes()] == names[label]
        assert np.allclose(file.attrs["mean"], [0.48145466, 0.4578275, 0.40821073])
        assert np.allclose(file.attrs["std"], [0.26862954, 0.26130258, 0.27577711])
        assert file["head/weight"].shape == (2, 12)
        assert np.isclose(file["head/weight"].attrs["logit_scale"], np.exp(2.6592), rtol=1e-5)
        head = file["head/weight"][:]
    from pictures import clip_text

    sentences = ["a photo of a {}."]
    assert np.allclose(head, clip_text.head(clip_text.load(str(tiny_clip)), names, sentences), atol=1e-6)
    assert main([*arguments, "--replace", "--crop", "fit", "--mean", "0.1", "--logit-scale", "7"]) == 0
    with h5py.File(tmp_path / "m.h5") as file:
        assert file["train/inputs"].shape[1:] == (32, 32, 3) and file["train/inputs"][0, 0, 0].tolist() == [255] * 3
        assert np.allclose(file.attrs["mean"], 0.1) and np.allclose(file.attrs["std"], 0.5)
        assert file["head/weight"].attrs["logit_scale"] == 7


def test_own_pictures_need_not_fit_into_memory(tmp_path, monkeypatch, tiny_clip):
    monkeypatch.setattr(picture, "BLOCK", 3)
    images = np.random.default_rng(0).integers(0, 256, (20, 9, 8, 3), dtype=np.uint8)
    for row, image in enumerate(images):
        folder = tmp_path / "in" / f"class {row % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        put(folder / f"{row:02d}.png", Image.fromarray(image))
    read = read_folder(tmp_path / "in", Frame(16))
    assert [len(block) for block in read.blocks(np.arange(8))] == [3, 3, 2]
    arguments = ["folder", str(tmp_path / "in"), "--task", "m", "--text-model", str(tiny_clip), "--out"]
    for block in (3, 256):
        monkeypatch.setattr(picture, "BLOCK", block)
        assert main([*arguments, str(tmp_path / str(block)), "--image-size", "16"]) == 0
    assert (tmp_path / "3/m.h5").read_bytes() == (tmp_path / "256/m.h5").read_bytes()
    with h5py.File(tmp_path / "3/m.h5") as file:
        assert file.attrs["head_source"] == tiny_clip.name


def test_the_size_for_a_clip_is_224(tmp_path, tiny_clip):
    images = np.random.default_rng(0).integers(0, 256, (20, 9, 8), dtype=np.uint8)
    np.savez(tmp_path / "set.npz", images=images, labels=np.arange(20) % 2)
    arguments = ["arrays", str(tmp_path / "set.npz"), "--out", str(tmp_path), "--text-model", str(tiny_clip)]
    assert main(arguments) == 0
    expected = {clips_own(Image.fromarray(image), 224).tobytes() for image in images}
    with h5py.File(tmp_path / "set.h5") as file:
        assert {image.tobytes() for image in file["train/inputs"]} < expected


def test_eight_bits_leaves_others_alone():
    for mode in ("1", "L", "RGB", "P", "CMYK"):
        image = Image.new(mode, (2, 2))
        assert eight_bits(image) is image
