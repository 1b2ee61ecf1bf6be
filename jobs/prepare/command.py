"""The command line of taugrid's data preparation."""

import argparse
import sys

from arguments import parser
from errors import InputError
from stopping import RESUMABLE, Stopped, stoppable


def say(line: str) -> None:
    print(line, flush=True)


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        with stoppable():
            run(options)
    except Stopped as signal:
        print(f"prepare: stopped by {signal}; nothing half written is left, run it again to go on", file=sys.stderr)
        return RESUMABLE
    except InputError as error:
        print(f"prepare: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(
            f"prepare: {error.filename or ''}: {error.strerror or error}; expected a readable input and a "
            "writable output",
            file=sys.stderr,
        )
        return 2
    return 0


def run(options: argparse.Namespace) -> None:
    if options.command == "default":
        import build

        build.default(options.out, options.task, say)
    elif options.command == "pretrain-pairs":
        import pairs

        pairs.write(options.out, options.class_pictures, say)
    elif options.command == "text":
        import own_text

        say(own_text.prepare(options))
    elif options.command == "text-tasks":
        import text_tasks

        text_tasks.prepare(options, say)
    elif options.command == "language":
        import language
        import language_t5

        if options.t5:
            language_t5.prepare(options.out, options.packages, say)
        else:
            language.prepare(options.out, options.packages, options.task, options.all, say)
    elif options.command == "originals":
        import originals

        originals.prepare(options, say)
    elif options.command == "parts":
        import parts

        parts.prepare(options, say)
    elif options.command == "rotated":
        import rotated

        rotated.prepare(options, say)
    elif options.command == "joined":
        import joined

        joined.prepare(options, say)
    elif options.command == "convert-checkpoints":
        import checkpoints

        checkpoints.prepare(options, say)
    else:
        import own

        say(own.prepare(options))
