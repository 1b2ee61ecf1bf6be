"""One kind of error for everything that the user can put right."""


class InputError(Exception):
    """What is wrong, where, and what was expected, in one line. The program prints it and exits with 2."""


NAME_LONGEST = 512


def shown(name: str) -> str:
    """A name from a file as one line can show it."""
    return name if name.isprintable() and len(name) <= NAME_LONGEST else ascii(name[:80])
