"""Pictures of any size to small RGB arrays."""

import io
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFont, UnidentifiedImageError

Picture = NDArray[np.uint8]
PIXELS_MOST = 64_000_000  # a picture that claims more is refused before it is decoded
GLYPH_SIZE = 48
GLYPH_MARGIN = 3

Image.MAX_IMAGE_PIXELS = PIXELS_MOST
warnings.simplefilter("error", Image.DecompressionBombWarning)


def fit(image: Image.Image, size: int, background: int = 255) -> Picture:
    """Scale to fit a square of `size`, centred; what is transparent or outside shows the background."""
    if image.mode in ("P", "LA", "PA", "RGBA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        plate = Image.new("RGBA", image.size, (background,) * 3 + (255,))
        image = Image.alpha_composite(plate, image)
    elif image.mode in ("I", "I;16", "F"):
        values = np.asarray(image, np.float64)
        span = float(np.ptp(values)) or 1.0
        image = Image.fromarray(((values - values.min()) * (255 / span)).astype(np.uint8))
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
        image = image.resize((wide, high), Image.Resampling.BICUBIC)
    left, top = round((wide - size) / 2), round((high - size) / 2)
    return np.asarray(image.crop((left, top, left + size, top + size)), np.uint8)


def decode(source: Path | bytes, size: int, form: Callable[[Image.Image, int], Picture] = fit) -> Picture | None:
    """A picture file as an array, or None where it is no readable picture."""
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            return form(image, size)
    except (
        OSError,
        SyntaxError,
        ValueError,
        UnidentifiedImageError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ):
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
