"""Pictures of any size to small RGB arrays."""

import io
import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFont, ImageOps, UnidentifiedImageError

Picture = NDArray[np.uint8]
PIXELS_MOST = 64_000_000  # a picture that claims more is refused before it is decoded
# By content, whatever the name: for others Pillow may start a program (EPS), and no suffix here names them
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
BLOCK = 256  # pictures in memory at a time: 37 MiB at 224 pixels
RESIZED_MOST = 16_000_000  # pixels of a picture resized whole, of which the centre is then cut
ORIENTATION = ExifTags.Base.Orientation
GLYPH_SIZE = 48
GLYPH_MARGIN = 3

Image.init()  # or only some of FORMATS are known
Image.MAX_IMAGE_PIXELS = PIXELS_MOST
warnings.simplefilter("error", Image.DecompressionBombWarning)
warnings.filterwarnings("ignore", "Corrupt EXIF")


class Unreadable(Exception):
    """Why a file is no picture that can be used, in a few words."""


def upright(image: Image.Image) -> Image.Image:
    """Turned as the camera's note (EXIF) says; where the note is damaged, as it lies."""
    try:
        orientation = image.getexif().get(ORIENTATION, 1)
    except Exception:  # the note is another format inside the file, and a damaged one raises nearly anything
        return image
    return ImageOps.exif_transpose(image) if orientation in range(2, 9) else image


def eight_bits(image: Image.Image, white: float | None = None) -> Image.Image:
    """Grey pictures of more than 8 bits as L, or LA where pixels are transparent or NaN: 0 is black, `white` white.

    All files have one scale, so that a dark picture stays darker than a bright one. Without `white` it is 65535 for 16
    bits and 1 for floats; other whole numbers have no usual scale. Raises Unreadable, as for values outside.
    """
    if not (image.mode.startswith("I") or image.mode == "F"):
        return image
    values = np.asarray(image, np.float32 if image.mode == "F" else np.int32)
    if white is None:
        # Pillow scales a PGM of any depth to 16 bits.
        white = 1.0 if image.mode == "F" else 65535.0 if image.mode != "I" or image.format == "PPM" else None
    hidden = np.isnan(values) if image.mode == "F" else values == image.info.get("transparency")
    shown = values[~hidden]
    low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 0.0)
    if white is None or not 0 <= low <= high <= white:
        scale = "whole numbers of no known scale" if white is None else f"white is {white:g}"
        raise Unreadable(
            f"its values are {low:g} to {high:g}, and {scale}; expected --white with the value that is white"
        )
    grey = np.full(values.shape, 255, np.uint8)
    grey[~hidden] = np.rint(shown.astype(np.float64) * (255 / white)).astype(np.uint8)
    opaque = Image.fromarray(grey)
    if hidden.any():
        opaque.putalpha(Image.fromarray(np.where(hidden, 0, 255).astype(np.uint8)))
    return opaque


def fit(image: Image.Image, size: int, background: int = 255) -> Picture:
    """Scale to fit a square of `size`, centred; what is transparent or outside shows the background."""
    if image.mode in ("P", "LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        plate = Image.new("RGBA", image.size, (background,) * 3 + (255,))
        image = Image.alpha_composite(plate, image)
    image = image.convert("RGB")
    scale = size / max(image.size)
    if scale != 1:
        wide, high = (max(1, round(side * scale)) for side in image.size)
        image = image.resize((wide, high), Image.Resampling.BOX if scale < 0.5 else Image.Resampling.BICUBIC)
    if image.size == (size, size):
        return np.asarray(image, np.uint8)
    square = Image.new("RGB", (size, size), (background,) * 3)
    square.paste(image, ((size - image.width) // 2, (size - image.height) // 2))
    return np.asarray(square, np.uint8)


def centre_crop(image: Image.Image, size: int) -> Picture:
    """CLIP's own: the shorter side to `size` by bicubic resizing, then the centre. Alpha is dropped, as there."""
    image = image.convert("RGB")
    wide, high = image.size
    shorter = min(wide, high)
    if shorter != size:
        wide, high = size * wide // shorter, size * high // shorter
    left, top = round((wide - size) / 2), round((high - size) / 2)
    if wide * high > RESIZED_MOST:
        return np.asarray(part_of_resized(image, (wide, high), (left, top), size), np.uint8)
    if shorter != size:
        image = image.resize((wide, high), Image.Resampling.BICUBIC)
    return np.asarray(image.crop((left, top, left + size, top + size)), np.uint8)


def part_of_resized(image: Image.Image, sides: tuple[int, int], corner: tuple[int, int], size: int) -> Image.Image:
    """A square of what image.resize(sides) would give, without the rest of it: a strip of 1 × 3,000,000 pixels would
    else become one of 224 × 672,000,000. Its pixels differ by one grey level at most."""
    cut, box = [], []
    for old, new, start in zip(image.size, sides, corner, strict=True):
        step = old / new
        first, last = start * step, min((start + size) * step, old)
        reach = math.ceil(2 * max(step, 1)) + 1  # pixels beyond the box that the bicubic filter looks at
        low, high = max(0, math.floor(first) - reach), min(old, math.ceil(last) + reach)
        cut.append((low, high))
        box.append((first - low, min(last, high) - low))
    (left, right), (top, bottom) = cut
    (x0, x1), (y0, y1) = box
    return image.crop((left, top, right, bottom)).resize((size, size), Image.Resampling.BICUBIC, (x0, y0, x1, y1))


def read(source: Path | bytes, form: Callable[[Image.Image], Picture]) -> Picture:
    """A picture file as an array. Raises Unreadable."""
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=FORMATS) as image:
            return form(image)
    except (
        OSError,
        SyntaxError,
        ValueError,
        TypeError,  # of a damaged TIFF
        ArithmeticError,
        LookupError,
        MemoryError,
        UnidentifiedImageError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ):
        raise Unreadable(
            "not a readable picture; expected PNG, JPEG or the like, below "
            f"{(Image.MAX_IMAGE_PIXELS or PIXELS_MOST) // 10**6} megapixels"
        ) from None


def in_blocks(items: Sequence[Any], form: Callable[[Any], Picture]) -> Iterator[Picture]:
    """The `form` of each item, stacked block by block: what does not fit into memory can be written so."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # decoding and resizing let go of Python's lock
        for start in range(0, len(items), BLOCK):
            yield np.stack(list(pool.map(form, items[start : start + BLOCK])))


def decode(source: Path | bytes, size: int) -> Picture | None:
    """A picture file fitted into a square of `size`, or None where it is no picture that can be used."""
    try:
        return read(source, lambda image: fit(eight_bits(upright(image)), size))
    except Unreadable:
        return None


def pad_grey(images: Picture, size: int) -> Picture:
    """Grey [n, h, w] no larger than `size` to RGB [n, size, size, 3], centred on black."""
    count, high, wide = images.shape
    out = np.zeros((count, size, size, 3), np.uint8)
    top, left = (size - high) // 2, (size - wide) // 2
    out[:, top : top + high, left : left + wide] = images[..., None]
    return out


def glyph(font: ImageFont.FreeTypeFont, text: str, size: int) -> Picture | None:
    """One character, white on black, scaled to fill the square but for a margin. None where it leaves no ink."""
    try:
        mask, _ = font.getmask2(text, mode="L", anchor="ls")
    except (OSError, ValueError, MemoryError):
        return None
    if not all(mask.size) or max(mask.size) > 40 * GLYPH_SIZE:
        return None
    ink = Image.frombytes("L", mask.size, bytes(mask))
    box = ink.getbbox()
    if box is None:
        return None
    ink = ink.crop(box)
    inner = size - 2 * GLYPH_MARGIN
    scale = inner / max(ink.size)
    ink = ink.resize((max(1, round(ink.width * scale)), max(1, round(ink.height * scale))), Image.Resampling.BILINEAR)
    square = Image.new("L", (size, size), 0)
    square.paste(ink, ((size - ink.width) // 2, (size - ink.height) // 2))
    values = np.asarray(square, np.uint8)
    if values.max() < 64:
        return None
    return np.repeat(values[..., None], 3, axis=2)


def open_font(path: Path | str) -> ImageFont.FreeTypeFont | None:
    """A scalable font, or None where FreeType cannot use the file."""
    try:
        return ImageFont.truetype(str(path), GLYPH_SIZE, layout_engine=ImageFont.Layout.BASIC)
    except (OSError, ValueError):
        return None
