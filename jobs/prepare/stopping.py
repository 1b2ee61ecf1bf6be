# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A signal that ends the program becomes an exception, so that what is half written is removed on the way out."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
RESUMABLE = 75  # the exit code of a program that was stopped and goes on when it is run again


class Stopped(BaseException):
    """Which signal came. No handler of errors is meant for it."""


def stop(number: int, _frame: FrameType | None) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # a second one would end the removal
    raise Stopped(signal.Signals(number).name)


def raise_soon(stopped: Stopped) -> None:
    """Again, once whatever runs now has returned."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise stopped

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.01)


@contextmanager
def stoppable() -> Iterator[None]:
    # What the caller ignores stays ignored: nohup's SIGHUP, a background job's SIGINT.
    heard = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, stop) for each in heard}
    hook = sys.unraisablehook

    def lost(unraisable: "sys.UnraisableHookArgs") -> None:
        """Python drops an exception that meets it in a destructor or in a weak reference's callback."""
        if isinstance(unraisable.exc_value, Stopped):
            raise_soon(unraisable.exc_value)
        else:
            hook(unraisable)

    sys.unraisablehook = lost
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        for each, handler in before.items():
            signal.signal(each, handler)
