"""Captioned pictures for pre-training a CLIP in miniature, none of them close to what a task is tested on.

Two guards: a picture that shares a split key with any validation or test split stays out (the same font, icon,
character, emoji or title), and so does one that looks like a held-out picture of any task.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from errors import InputError
from packed import Say, write_whole
from pictures import declare, default, sources
from pictures.picture import Picture, decode, glyph, open_font
from splits import SPLIT_NAMES, stable_hash
from texts import minilm

GAME = Path("/usr/share/games/wesnoth/1.16/data/core/images")
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
GLYPHS_A_SCRIPT = 400
FRAMES_A_UNIT = 4
LETTERS_MOST = 12000
NEAR = 6.0  # of 255: root mean square difference of two pictures, each reduced to 8 × 8
CLASS_PICTURES_MOST = 400

Pair = tuple[Picture, str]


@dataclass
class Collected:
    images: list[Picture] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)

    def add(self, image: Picture, caption: str, source: str, rank: int = -1) -> None:
        self.images.append(image)
        self.captions.append(caption)
        self.source.append(source)
        self.rank.append(rank)


def reduced(images: Picture) -> NDArray[np.float32]:
    """8 × 8 colours of each picture as one row, in 0…255."""
    count, side = len(images), images.shape[1] // 8
    blocks = images.reshape(count, 8, side, 8, side, 3).astype(np.float32).mean((2, 4))
    return blocks.reshape(count, -1)


def near_any(images: Picture, held: Picture, chunk: int = 2048) -> NDArray[np.bool_]:
    """Whether each picture is nearer than NEAR to some held-out picture."""
    other = reduced(held)
    other_square = np.square(other).sum(1)
    out = np.zeros(len(images), bool)
    for start in range(0, len(images), chunk):
        rows = reduced(images[start : start + chunk])
        distance = np.square(rows).sum(1)[:, None] + other_square - 2 * rows @ other.T
        out[start : start + chunk] = distance.min(1) <= NEAR**2 * rows.shape[1]
    return out


def held_keys(task: default.Task) -> set[str]:
    """Keys of the validation and test rows, before and after equal pictures were merged."""
    rows = np.concatenate([task.rows["validation"], task.rows["test"]])
    return {task.keys[row] for row in rows} | {task.examples.keys[row] for row in rows}


def general_pairs(tasks: dict[str, default.Task]) -> Iterator[tuple[str, Picture, str]]:
    """(source, picture, caption) of everything that shares no key with a held-out picture."""
    held = {name: held_keys(task) for name, task in tasks.items()}
    held_emoji = {
        code for codes, name, _ in sources.emoji_list() if sources.emoji_key(name) in held["emoji"] for code in codes
    }
    for source, image, caption in letter_pairs(tasks["letters"], held["letters"], held["scripts"]):
        yield source, image, caption
    for source, image, caption in glyph_pairs(tasks["scripts"], held["scripts"], held_emoji):
        yield source, image, caption
    for name in ("emoji", "icon_context"):
        examples = tasks[name].examples
        for image, key, merged, caption in zip(
            examples.images, examples.keys, tasks[name].keys, examples.captions, strict=True
        ):
            if not {key, merged} & held[name]:
                yield name, image, caption
    everything = sources.clipart(tasks["clipart"].declaration, everything=True)
    for image, key, caption in zip(everything.images, everything.keys, everything.captions, strict=True):
        if key not in held["clipart"] and not caption.startswith("star pt"):
            yield "clipart", image, caption
    for image, caption in game_pairs():
        yield "game", image, caption


def letter_pairs(
    task: default.Task, held_fonts: set[str], held_characters: set[str]
) -> Iterator[tuple[str, Picture, str]]:
    characters = "".join(c for c in CHARACTERS if sources.base_character(c) not in held_characters)
    examples = sources.letters(task.declaration, characters)
    free = [row for row, key in enumerate(examples.keys) if key not in held_fonts]
    free.sort(key=lambda row: stable_hash(f"letters/{row}"))
    for row in free[:LETTERS_MOST]:
        source = "letters_of_task" if examples.labels[row] >= 0 else "letters"
        yield source, examples.images[row], examples.captions[row]


def glyph_pairs(task: default.Task, held: set[str], held_emoji: set[int]) -> Iterator[tuple[str, Picture, str]]:
    from fontTools.ttLib import TTFont

    script = sources.script_of_characters()
    taken: Counter[str] = Counter()
    of_class = task.declaration.class_of
    for path in sorted((sources.FONTS / "noto").glob("*-Regular.ttf")):
        font = open_font(path)
        codes = sorted(TTFont(path, lazy=True).getBestCmap(), key=lambda code: stable_hash(str(code)))
        for code in codes:
            name = sources.name_of_character(chr(code))
            group = script.get(code, path.stem)
            if (
                font is None
                or not name
                or code in held_emoji
                or sources.base_character(chr(code)) in held
                or taken[group] >= GLYPHS_A_SCRIPT
            ):
                continue
            image = glyph(font, chr(code), sources.SIZE)
            if image is not None:
                taken[group] += 1
                yield "glyphs_of_task" if script.get(code) in of_class else "glyphs", image, name


def game_pairs() -> Iterator[Pair]:
    """Units, items, scenery, terrain and portraits of a strategy game, named by folder and file."""
    if not GAME.exists():
        raise InputError(f"{GAME}: not found; expected the packages of jobs/packages/debian-pretrain.txt")
    frames: Counter[str] = Counter()
    for folder in ("units", "items", "scenery", "terrain", "portraits", "attacks"):
        for path in sorted((GAME / folder).rglob("*.png")):
            parts = [sources.words(part) for part in path.relative_to(GAME).parts[:-1]]
            stem = re.sub(
                r"[-_]?(attack|defend|die|death|idle|melee|ranged|bow|sword|magic|se|ne|sw|nw|[ns])\b.*", "", path.stem
            )
            caption = " ".join(
                [*reversed(parts), sources.words(stem)][1:] if folder != "units" else [*parts[1:], sources.words(stem)]
            )
            image = decode(path, sources.SIZE) if frames[caption] < FRAMES_A_UNIT else None
            if image is not None and image.std() > 12:
                frames[caption] += 1
                yield image, caption


def class_pictures(task: default.Task, held: Picture, most: int) -> Iterator[Pair]:
    """A task's first training pictures, each with a sentence of its class; the templates take turns."""
    rows = task.rows[SPLIT_NAMES[0]][: 3 * most]
    rows = rows[~near_any(task.examples.images[rows], held)][:most]
    templates = task.declaration.templates
    for rank, row in enumerate(rows):
        phrase = task.declaration.classes[task.examples.labels[row]].phrase
        yield task.examples.images[row], templates[rank % len(templates)].replace("{}", phrase)


def write(out: Path, most: int, say: Say) -> None:
    if not 0 <= most <= CLASS_PICTURES_MOST:
        raise InputError(f"--class-pictures {most}; expected 0 to {CLASS_PICTURES_MOST}")
    tasks = {name: default.gather(name) for name in declare.names()}
    held = np.concatenate(
        [task.examples.images[task.rows[split]] for task in tasks.values() for split in SPLIT_NAMES[1:]]
    )
    say(f"{len(held)} held-out pictures of {len(tasks)} tasks")
    general = Collected()
    for source, image, caption in general_pairs(tasks):
        general.add(image, caption, source)
    near = near_any(np.stack(general.images), held)
    collected = Collected()
    for row in np.flatnonzero(~near):
        collected.add(general.images[row], general.captions[row], general.source[row])
    dropped = Counter(np.asarray(general.source)[near].tolist())
    for source, count in Counter(collected.source).items():
        say(f"{source:16s} {count:6d} pairs, {dropped[source]:5d} dropped as near-duplicates of held-out pictures")
    for name, task in tasks.items():
        close = int(near_any(task.examples.images[task.rows["train"]], held).sum())
        total = len(task.rows["train"])
        for rank, (image, caption) in enumerate(class_pictures(task, held, most)):
            collected.add(image, caption, f"class:{name}", rank)
        kept = Counter(collected.source)[f"class:{name}"]
        say(f"{name:16s} {kept:6d} class pictures; {close} of {total} train pictures near a held-out one")
    captions = sorted(set(collected.captions))
    number = {caption: row for row, caption in enumerate(captions)}
    names = sorted(set(collected.source))
    vectors = minilm.embed(captions)

    def fill(file: h5py.File) -> None:
        text = h5py.string_dtype()
        file.create_dataset("images", data=np.stack(collected.images))
        file.create_dataset("caption", data=np.array([number[each] for each in collected.captions], np.int32))
        file.create_dataset("captions", data=captions, dtype=text)
        file.create_dataset("text_embedding", data=vectors)
        file.create_dataset("source", data=np.array([names.index(each) for each in collected.source], np.int8))
        file.create_dataset("source_names", data=names, dtype=text)
        rank = np.array(collected.rank, np.int32)
        file.create_dataset("is_class_picture", data=(rank >= 0).astype(np.int8))
        file.create_dataset("class_picture_rank", data=rank)
        file.attrs["near_threshold"] = NEAR
        file.attrs["dropped_as_near_duplicate"] = int(near.sum())

    write_whole(out, fill)
    say(f"{len(collected.images)} pairs, {len(captions)} captions in {out}")
