"""One kind of error for everything that the user can put right."""


class InputError(Exception):
    """What is wrong, where, and what was expected, in one line. The program prints it and exits with 2."""
