"""One kind of error for everything that the user can put right."""

from itertools import count
from pathlib import Path


class InputError(Exception):
    """What is wrong, where, and what was expected, in one line. The program prints it and exits with 2."""


NAME_LONGEST = 512
LINE_MOST = 480  # letters of a message behind the program's name; with it 500
WORD_LEAST = 160  # of its words that have been shortened: most paths stay whole
TURNS_MOST = 8


def shown(name: str) -> str:
    """A name from a file as one line can show it."""
    return name if name.isprintable() and len(name) <= NAME_LONGEST else ascii(name[:80])


def one_line(error: BaseException) -> str:
    if isinstance(error, BlockingIOError):  # HDF5 locks what it writes
        return "another program holds it open to write"
    return shown(" ".join(str(error).split()) or type(error).__name__)


def line(words: str) -> str:
    """A message on one line of at most LINE_MOST letters: controls are escaped, the longest words lose their middle."""
    words = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in words)
    for turn in count():
        longest = max(words.split(" "), key=len)
        if len(words) <= LINE_MOST:
            return words
        if len(longest) <= WORD_LEAST + 1 or turn > TURNS_MOST:  # many words: the line's own middle
            longest = words
        kept = max(WORD_LEAST, len(longest) - (len(words) - LINE_MOST) - 1)
        words = words.replace(longest, f"{longest[: kept * 2 // 3]}…{longest[len(longest) - kept // 3 :]}", 1)
    return words


def checked_text(text: str, where: str, nul: bool = False) -> str:
    """The text, unless it holds bytes that are no UTF-8 or half a pair of UTF-16, which no tokenizer and no HDF5 file
    takes, or a NUL, which HDF5's texts cannot hold; `nul` allows that."""
    if ("\0" in text and not nul) or any("\ud800" <= letter <= "\udfff" for letter in text):
        held = "a NUL" if "\0" in text and not nul else "letters that are no UTF-8"
        raise InputError(f"{shown(where)}: {shown(text)} has {held}; expected other letters")
    return text


def need_package(path: Path, package: str, listed: str = "debian-data.txt") -> Path:
    """The path, which a system package of that list in jobs/packages brings."""
    if not path.exists():
        raise InputError(
            f"{path}: not found; expected package {package} "
            f"(apt-get install --no-install-recommends, list in jobs/packages/{listed})"
        )
    return path
