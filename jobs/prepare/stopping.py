# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A signal that ends the program becomes an exception, so that what is half written is removed on the way out."""

import signal
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


@contextmanager
def stoppable() -> Iterator[None]:
    # What the caller ignores stays ignored: nohup's SIGHUP, a background job's SIGINT.
    heard = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, stop) for each in heard}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
